/* The sinks of a running collector: each is a process of its own, "etwcollector sink run" with the options of an item
 * of the list sinks in the configuration file. The broker starts them, since this process is confined more than they
 * are (it makes no connections); one that ends is started again, after 1 s, 2 s ... 5 min. Called by: cmd_run.c,
 * main.c. Calls: collector/sandbox/broker.h. Thread: the main one. */
#ifndef EC_APP_RUN_SINKS_H
#define EC_APP_RUN_SINKS_H

#include "collector/net/log.h"
#include "collector/sandbox/broker.h"
#include "proto/base/cli.h"
#include "proto/base/counters.h"

#define EC_SINK_RUNNER_NAME "sink-runner"

enum { EC_RUN_SINKS_MAX = 16 };

/* The mappings of the list, for the option table of "run": items of ec_run_sinks_options.sinks. */
extern const ea_table ec_run_sinks_table;

typedef struct ec_run_sinks ec_run_sinks;

typedef struct ec_run_sinks_options {
    const ea_tables *sinks; /* as ec_run_sinks_table says; borrowed, as are the others */
    ec_broker *broker;      /* settled with ec_run_sinks_children */
    size_t first_child;     /* of the broker's children: the first sink */
    ea_counters *counters;
    ec_log *log;
} ec_run_sinks_options;

/* Which variables of the environment they need. */
extern const char *const ec_run_sinks_variables[];

/* EA_EUSAGE: two sinks have one name. */
EA_MUST_CHECK int ec_run_sinks_check(const ea_tables *sinks, ea_err *err);
/* What the broker starts: sinks->count children at ret. Their greetings are in *greetings, a text. EA_ELIMIT: options
 * of a sink are too long. */
EA_MUST_CHECK int ec_run_sinks_children(const ea_tables *sinks, const char *store, const ec_broker *broker,
                                        ea_text *greetings, ec_broker_child *ret, ea_err *err);

EA_MUST_CHECK int ec_run_sinks_start(ec_run_sinks **ret, const ec_run_sinks_options *options, ea_err *err);
/* Notices which have ended, and starts those whose time has come; to be called every second or so. */
void ec_run_sinks_look(ec_run_sinks *r);
/* Asks all to end, and ends those that have not after a few seconds. NULL is allowed. */
void ec_run_sinks_stop(ec_run_sinks *r);

/* The child's main(): reads its arguments from standard input, and runs dispatch with them. */
int ec_sink_runner_main(int (*dispatch)(int argc, char **argv));

#endif
