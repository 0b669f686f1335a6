/* The history of each machine as tables of a SQLite database, DIR/state.db: which process, thread and module lived from
 * when to when. It is made out of the stored batches alone: it may be deleted at any time and is then built again.
 * SCHEMA.md beside this file describes it for people who write SQL. Written by: state_worker.c. Read by:
 * collector/query. Thread: one ec_state_db is one connection and belongs to one thread; one process at a time may write
 * (DIR/state.lock), any number may read meanwhile. */
#ifndef EC_STATE_STATE_DB_H
#define EC_STATE_STATE_DB_H

#include "proto/state/machine_columns.h"
#include "proto/wire/wire.h"

#include "collector/sqlite/sqlite.h"
#include "collector/store/store.h"

/* SQLite's integers are signed, addresses are not: 0xFFFFF80000000000 would sort below 0x7FF700000000. All addresses
 * and kernel keys are stored with their highest bit turned over, which keeps their order. */
static inline int64_t ec_u64_to_sql(uint64_t v) {
    return (int64_t)(v ^ 0x8000000000000000u);
}

static inline uint64_t ec_u64_from_sql(int64_t v) {
    return (uint64_t)v ^ 0x8000000000000000u;
}

typedef struct ec_state_db ec_state_db;

enum { EC_STATE_READ = 0, EC_STATE_WRITE, EC_STATE_SCRATCH /* writing without making anything durable */ };

/* Opens DIR/state.db; writable: makes it when it is missing or of another version, and takes the lock (EA_EBUSY when
 * another process folds). Not writable: EA_ENOTFOUND while there is none. */
EA_MUST_CHECK int ec_state_db_open(ec_state_db **ret, const char *dir, int writable, ea_err *err);
void ec_state_db_close(ec_state_db *t); /* NULL is allowed */
/* 1 when there are tables of an older version of the program, which the next writer completes or makes anew. */
int ec_state_db_is_older(const char *dir);
sqlite3 *ec_state_db_database(ec_state_db *t);
/* A statement that counts the triggers and views of a state.db that this program did not make. */
const char *ec_state_db_foreign_sql(void);

EA_MUST_CHECK int ec_state_db_begin(ec_state_db *t, ea_err *err);
EA_MUST_CHECK int ec_state_db_commit(ec_state_db *t, ea_err *err);
void ec_state_db_rollback(ec_state_db *t);

/* How far one stream is folded; written in the same transaction as the rows. */
typedef struct ec_state_fold {
    int64_t stream_number; /* the tables' `stream` column; this database's own number */
    char host[256];
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t position;                 /* number of the last batch that was folded or given up */
    uint64_t batch_count, event_count; /* of the batches whose turn has come: as the store counts them */
    uint64_t missing_count;            /* numbers up to position that were not there when their turn came */
    uint64_t damaged_count;            /* batches that could not be read */
    uint64_t last_instance;
    int64_t begin_utc_ns, end_utc_ns; /* of the events so far; both INT64_MIN without any */
} ec_state_fold;

/* The fold of a stream: 1, 0 when nothing of it is folded, or an error. */
EA_MUST_CHECK int ec_state_db_find_fold(ec_state_db *t, const char *host, const uint8_t *stream, ec_state_fold *ret,
                                        ea_err *err);
/* The same, made when it is new. Writable connections only. */
EA_MUST_CHECK int ec_state_db_get_fold(ec_state_db *t, const char *host, const uint8_t *stream, ec_state_fold *ret,
                                       ea_err *err);
EA_MUST_CHECK int ec_state_db_set_fold(ec_state_db *t, const ec_state_fold *fold, ea_err *err);
/* Calls fn for each fold (host NULL: of all hosts) in the order in which they were made; non-zero stops and is
 * returned. */
EA_MUST_CHECK int ec_state_db_each_fold(ec_state_db *t, const char *host,
                                        int (*fn)(const ec_state_fold *fold, void *arg), void *arg, ea_err *err);
/* The place in the store up to which the last round has looked at all streams; all 0: no round has ended yet. */
EA_MUST_CHECK int ec_state_db_get_round(ec_state_db *t, ec_store_place *ret, ea_err *err);
EA_MUST_CHECK int ec_state_db_set_round(ec_state_db *t, const ec_store_place *place, ea_err *err);
/* Deletes all that was folded of a stream; its fold starts again. */
EA_MUST_CHECK int ec_state_db_reset_fold(ec_state_db *t, ec_state_fold *fold, ea_err *err);

/* Deletes what ended before begin_utc_ns, and the ledger of batches below first_number but for each counter's last
 * value. What is open, and the position of the fold, stay. */
EA_MUST_CHECK int ec_state_db_prune(ec_state_db *t, const ec_state_fold *fold, int64_t begin_utc_ns,
                                    uint64_t first_number, ea_err *err);
/* Deletes a stream with all that was folded of it. */
EA_MUST_CHECK int ec_state_db_drop_fold(ec_state_db *t, ec_state_fold *fold, ea_err *err);

EA_MUST_CHECK int ec_state_db_put_process(ec_state_db *t, int64_t stream_number, const ea_process *p, ea_err *err);
EA_MUST_CHECK int ec_state_db_put_thread(ec_state_db *t, int64_t stream_number, const ea_thread_row *row, ea_err *err);
EA_MUST_CHECK int ec_state_db_put_module(ec_state_db *t, int64_t stream_number, const ea_module *mod, ea_err *err);
/* Replaces what is stored of the ids and facts that wait in the machine. */
EA_MUST_CHECK int ec_state_db_put_pending_ids(ec_state_db *t, int64_t stream_number, const ea_machine *machine,
                                              ea_err *err);

EA_MUST_CHECK int ec_state_db_put_pending_facts(ec_state_db *t, int64_t stream_number, const ea_machine *machine,
                                                ea_err *err);

/* Fills a new machine with what is stored of a stream. */
EA_MUST_CHECK int ec_state_db_restore(ec_state_db *t, const ec_state_fold *fold, ea_machine *machine, ea_err *err);

/* For SELECTs: the columns of each table in the order in which the readers expect them. Texts are borrowed from the
 * statement until its next step. */
#define EC_LIFE_COLUMNS               "instance, begin_utc_ns, end_utc_ns, seen_utc_ns, begin_cause, end_cause"
#define EC_COLUMN(kind, member, role) ", " #member
#define EC_PROCESS_COLUMNS            EC_LIFE_COLUMNS EA_PROCESS_COLUMNS(EC_COLUMN)
#define EC_THREAD_COLUMNS             EC_LIFE_COLUMNS EA_THREAD_COLUMNS(EC_COLUMN)
#define EC_MODULE_COLUMNS             EC_LIFE_COLUMNS EA_MODULE_COLUMNS(EC_COLUMN)
void ec_read_process(sqlite3_stmt *s, ea_process *ret);
void ec_read_thread(sqlite3_stmt *s, ea_thread_row *ret);
void ec_read_module(sqlite3_stmt *s, ea_module *ret);

#endif
