/* The names that a machine's kernel gave to files, registry keys and volumes, and how file operations ended, as tables
 * of DIR/state.db (names, operations, volumes: SCHEMA.md). The rules are proto/state/object_names.h's; this keeps the rows and
 * answers from them, so that nobody has to read a stream twice.
 * Before it: history.c, which folds; tables.h. After it: `etwcollector export`, queries. Thread: its tables'.
 *
 * Bounded for each stream: beyond limit_names or limit_name_bytes the names that ended first give way, then those that
 * are oldest; beyond limit_operations the oldest operations. A sixteenth goes at a time. What went is counted as
 * state_evicted, and an event that needs it is printed without it. */
#ifndef EC_STATE_NAMING_H
#define EC_STATE_NAMING_H

#include "proto/base/counters.h"
#include "proto/state/object_names.h"
#include "collector/state/tables.h"

typedef struct ec_naming ec_naming;

typedef struct ec_naming_options {
    uint64_t limit_names, limit_name_bytes, limit_operations; /* 0: 1,048,576, 256 MiB, 1,048,576 */
    ea_counters *counters;                                    /* borrowed; may be NULL */
} ec_naming_options;

/* Of one stream. Writing needs writable tables; a reader only asks. tables: borrowed. */
EA_MUST_CHECK int ec_naming_open(ec_naming **ret, ec_tables *tables, int64_t fold_id, const ec_naming_options *options,
                                 ea_err *err);
void ec_naming_close(ec_naming *n); /* NULL is allowed */

/* Folds a record in, inside the caller's transaction: see ea_object_names_fold. After an error, or when the transaction is
 * rolled back, close it and open it again. */
EA_MUST_CHECK int ec_naming_apply(ec_naming *n, const ea_record *record, const ea_class *c, int64_t utc_ns,
                                  ea_err *err);

/* Appends what the address was called at that time, as Windows wrote it: 1; 0 when nobody said. */
EA_MUST_CHECK int ec_naming_find(ec_naming *n, enum ea_name_kind kind, uint64_t address, int64_t utc_ns, ea_text *out,
                                 ea_err *err);
/* For rendering: names with drive letters, and the ends of operations. What the database cannot answer is left out; the
 * first such error stays in ec_naming_error. Volumes are read once, by the first question. */
ea_resolver ec_naming_resolver(ec_naming *n);
/* NULL while all is well. */
const ea_err *ec_naming_error(const ec_naming *n);

#endif
