/* The names that a machine's kernel gave to files, registry keys and volumes, and how file operations ended, as tables
 * of DIR/state.db (names, operations, volumes: SCHEMA.md). The rules are in proto/state/object_names.h; this file keeps
 * the rows and answers from them, so that a stream is read only once. Called by: state_worker.c, which folds;
 * `etwcollector export`, queries. Calls: state_db.h. Thread: its tables'.
 *
 * Bounded for each stream: beyond limit_names or limit_name_bytes the names that ended first are evicted, then the
 * oldest names; beyond limit_operations the oldest operations are evicted. A sixteenth is evicted at a time. Evicted
 * rows are counted as state_evicted, and an event that needs one is printed without it. */
#ifndef EC_STATE_OBJECT_NAMES_DB_H
#define EC_STATE_OBJECT_NAMES_DB_H

#include "collector/state/state_db.h"
#include "proto/base/counters.h"
#include "proto/state/object_names.h"

typedef struct ec_object_names_db ec_object_names_db;

typedef struct ec_object_names_db_options {
    uint64_t limit_names, limit_name_bytes, limit_operations; /* 0: 1,048,576, 256 MiB, 1,048,576 */
    ea_counters *counters;                                    /* borrowed; may be NULL */
} ec_object_names_db_options;

/* Of one stream. Writing needs writable tables; a reader only asks. tables: borrowed. */
EA_MUST_CHECK int ec_object_names_db_open(ec_object_names_db **ret, ec_state_db *tables, int64_t stream_number,
                                          const ec_object_names_db_options *options, ea_err *err);
void ec_object_names_db_close(ec_object_names_db *n); /* NULL is allowed */

/* Folds a record in, inside the caller's transaction: see ea_object_names_fold. After an error, or when the transaction
 * is rolled back, close it and open it again. */
EA_MUST_CHECK int ec_object_names_db_apply(ec_object_names_db *n, const ea_record *record, const ea_class *c,
                                           int64_t utc_ns, ea_err *err);

/* Writes what is kept in memory; before each commit of the caller's transaction. */
EA_MUST_CHECK int ec_object_names_db_flush(ec_object_names_db *n, ea_err *err);

/* Appends the name of the address at that time, as Windows wrote it: 1; 0 when it is unknown. */
EA_MUST_CHECK int ec_object_names_db_find(ec_object_names_db *n, enum ea_name_kind kind, uint64_t address,
                                          int64_t utc_ns, ea_text *out, ea_err *err);
/* For rendering: names with drive letters, and the ends of operations. What the database cannot answer is left out; the
 * first such error stays in ec_object_names_db_error. Volumes are read once, by the first question. */
ea_resolver ec_object_names_db_resolver(ec_object_names_db *n);
/* The first error of the resolver; NULL: there was none. */
const ea_err *ec_object_names_db_error(const ec_object_names_db *n);

#endif
