/* Programs of the query language that run all the time on the events of a session or of trace files. The texts are
 * compiled and run by service/core/watch_results.h. Input: a file (config.h). Used by: agent_config.c, sessions.c,
 * service/core. Thread: any. */
#ifndef EA_WATCHES_H
#define EA_WATCHES_H

#include "proto/base/cli.h"

enum { EA_WATCHES_MAX = 32, EA_WATCH_NAME_MAX = 40 };

enum ea_watch_events { EA_WATCH_SHIP = 0, EA_WATCH_AGGREGATE };

/* Each field is what the row of its name in watches.c says. */
typedef struct ea_watch_config {
    const char *name, *program;
    int events; /* enum ea_watch_events */
    uint64_t keys, memory_bytes;
} ea_watch_config;

extern const ea_table ea_watch_table; /* of one ea_watch_config */

/* The row of a list of programs, at an offset of a ea_tables. */
#define EA_WATCHES_OPTION(at)                                                                                          \
    {                                                                                                                  \
        .name = "watch", .type = EA_OPT_TABLES, .offset = (at), .table = &ea_watch_table, .min = 1,                    \
        .max = EA_WATCHES_MAX,                                                                                         \
        .help =                                                                                                        \
            "programs of the query language that run on these events while the agent runs; what they print, emit and " \
            "printf travels as records, which are the collector's tables watch_NAME"                                   \
    }

#endif
