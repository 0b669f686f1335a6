/* A statement of SQL asked in a process of its own, with limits: whatever it does, who asked stays unharmed. Called by:
 * the command query, collector/web. Calls: worker.c in the child, sql.h there.
 *
 * The child is this program again, started with EC_WORKER_NAME as its only argument (main() calls ec_worker_main then),
 * so that it may be started from a process with threads. It gets the question on its standard input and answers on its
 * standard output, in messages (collector/sandbox/message.h). A child whose statement reads
 * the history (ec_sql_uses_history) says that and ends; the parent, which may write, then waits until stored batches
 * are folded, and asks a second child, whose sandbox has the tables as they are then. When the statement names
 * functions, and the question says where symbols are, that child has a symbol worker (symbol_worker.h) to ask for them.
 * A question that waits until all is folded (EC_WAIT_FOLDED) has one child when all is folded already.
 * Limits of a child: SQLite's own memory and its address space, the time that it says and the CPU time that the
 * operating system grants, temporary files; it writes nothing else and ends with its parent. */
#ifndef EC_QUERY_SQL_ASK_H
#define EC_QUERY_SQL_ASK_H

#include "collector/query/scan/scan.h"
#include "collector/sandbox/broker.h"
#include "collector/state/state_worker.h"

#include <stdatomic.h>

#define EC_WORKER_NAME "query-worker"

enum { EC_QUERY_ROW_MAX = 256 << 20 }; /* bytes of a row on its way from the child */

typedef struct ec_question {
    const char *store, *host, *sql; /* host NULL: of all */
    const char *shown;              /* patterns of hosts that may be seen (pattern.h); NULL: all */
    const char *first_sql;          /* a statement whose one row says what ?1, ?2 ... of sql are; NULL: none */
    const ec_value *params;         /* for ?1, ?2 ... of the statements; borrowed */
    size_t param_count;
    int is_written; /* sql is a person's: ec_sql_options */
    int64_t limit_ns;
    int64_t wait_ns; /* how long to wait until what is stored is in the history, when a statement reads that */
    enum ec_state_wait wait;
    uint64_t limit_bytes, limit_rows;         /* rows 0: no bound */
    const struct ec_symbols_options *symbols; /* borrowed; NULL: places in modules stay places */
    ec_broker *broker;                        /* of a confined process; borrowed; NULL: this one is not confined */
    uint64_t limit_temp_bytes;                /* of temporary files, where sorts go on that memory does not hold */
} ec_question;

enum ec_ending {
    EC_ENDED_WHOLE = 0,
    EC_ENDED_ROWS,     /* there are more rows than the limit */
    EC_ENDED_TIME,     /* the time limit */
    EC_ENDED_MEMORY,   /* the memory limit */
    EC_ENDED_TEMP,     /* the limit of temporary files, or there is no room on their disk */
    EC_ENDED_CANCELED, /* *stop, or a callback */
};

typedef struct ec_outcome {
    enum ec_ending ending;
    uint64_t rows;
    uint64_t backlog;     /* stored batches that are not in the history that was read */
    uint64_t damaged;     /* batches that could not be read and were left out */
    char damage[640];     /* the first one's reason */
    char notice[512];     /* a name in a condition of which nothing is stored; "": none */
    int64_t processor_ns; /* that the question's process had; also when ec_ask fails */
} ec_outcome;

/* 1 when the answer is of all that is stored, and all of it. */
static inline int ec_is_whole(const ec_outcome *o) {
    return o->ending == EC_ENDED_WHOLE && !o->damaged && !o->backlog;
}

/* "whole", "rows", "time", "memory", "temp", "canceled". */
const char *ec_ending_name(enum ec_ending ending);

/* Called in the thread that asks; non-zero ends the query as canceled. Cells and texts are borrowed during the call.
 * types: what the columns are declared as (table_schema.h), "" for expressions. */
typedef struct ec_listener {
    int (*on_columns)(void *arg, size_t count, const char *const *names, const char *const *types);
    int (*on_row)(void *arg, size_t count, const ec_value *cells);
    void *arg;
    int (*on_first)(void *arg, size_t count, const ec_value *cells); /* the row of first_sql; NULL: there is no such */
} ec_listener;

/* Asks and waits for the end. When first_sql has no row, sql is not run. stop: looked at now and then; may be NULL.
 * EA_EUSAGE when the SQL is wrong, EA_ENOTFOUND when there is no store or nothing is stored of the host; an end at a
 * limit is no error. Thread: any. */
EA_MUST_CHECK int ec_ask(const ec_question *question, const ec_listener *listener, atomic_int *stop, ec_outcome *ret,
                         ea_err *err);

/* The child's main(): returns its exit code. */
int ec_worker_main(void);

#endif
