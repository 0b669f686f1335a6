/* Filters in a configuration: which events of a session or of trace files are kept, sampled, limited, and of which
 * fields are replaced. The expressions are of the query language; service/core/filter.h compiles and runs them. Input:
 * a file (config.h). Used by: agent_config.c, sessions.c, service/core. Thread: any. */
#ifndef EA_EVENT_FILTERS_H
#define EA_EVENT_FILTERS_H

#include "proto/base/cli.h"

enum { EA_EVENT_FILTERS_MAX = 32 };

/* Each field is what the row of its name in event_filters.c says; NULL: not given. */
typedef struct ea_filter_config {
    ea_strings classes;
    const char *where, *drop, *repeat, *sample, *limit;
    ea_strings redact;
    const char *redact_key;
} ea_filter_config;

extern const ea_table ea_filter_table; /* of one ea_filter_config */

/* "1/100 by EXPRESSION", "50/s per EXPRESSION", "50/s". *ret_number: 100, 50. *ret_expression: where it begins in the
 * text; NULL: there is none. EA_EINVAL with what was expected. */
EA_MUST_CHECK int ea_filter_sample_parse(const char *text, uint64_t *ret_number, const char **ret_expression,
                                         ea_err *err);
/* "10s by EXPRESSION": *ret_ns, from 1 ms to a day. */
EA_MUST_CHECK int ea_filter_repeat_parse(const char *text, int64_t *ret_ns, const char **ret_expression, ea_err *err);
EA_MUST_CHECK int ea_filter_limit_parse(const char *text, uint64_t *ret_number, const char **ret_expression,
                                        ea_err *err);

/* The row of a list of filters, at an offset of a ea_tables. */
#define EA_FILTERS_OPTION(at)                                                                                          \
    {                                                                                                                  \
        .name = "filters", .type = EA_OPT_TABLES, .offset = (at), .table = &ea_filter_table, .min = 1,                 \
        .max = EA_EVENT_FILTERS_MAX,                                                                                   \
        .help =                                                                                                        \
            "which events are kept, sampled, limited, and which fields are replaced, in this order of the list: the "  \
            "first filter that drops an event counts it; classes of the machine's state (processes, threads, images, " \
            "names of files and keys, losses) are dropped only by a filter that names the class without * and ?"       \
    }

#endif
