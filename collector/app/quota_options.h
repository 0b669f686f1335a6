/* The options of "etwcollector run" that are quotas: one row for each of collector/net/quota.h. Used by: cmd_run.c.
 * Uses: collector/net. Thread: the main one. */
#ifndef EC_APP_QUOTA_OPTIONS_H
#define EC_APP_QUOTA_OPTIONS_H

#include "collector/net/quota.h"
#include "proto/base/cli.h"

/* Rows of the option table; member is the ec_quota_amounts in options. A time of an option is kept in the same 8 bytes
 * as an amount, in ns. */
#define EC_QUOTA_OPTION(quota, who, how, option_type, option_argument, value, period_s, burst, unit, sentence)         \
    {.name = "quota-" #quota,                                                                                          \
     .argument = option_argument,                                                                                      \
     .type = EA_OPT_##option_type,                                                                                     \
     .offset = offsetof(options, quotas.of[EC_QUOTA_##quota]),                                                         \
     .fallback = value,                                                                                                \
     .help = "most " sentence "; 0: no limit"},
#define EC_QUOTA_OPTIONS EC_QUOTAS(EC_QUOTA_OPTION)

#endif
