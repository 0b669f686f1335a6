/* Questions to the history: what ran on a machine at a moment, under which parent, with which modules, and which module
 * an address is in. Input: collector/state. Used by: the commands ps, modules, where; collector/web. Thread: one
 * ec_query belongs to one thread; any number of them may read while the daemon folds. */
#ifndef EC_QUERY_ANALYSIS_QUERY_H
#define EC_QUERY_ANALYSIS_QUERY_H

#include "collector/state/state_db.h"
#include "proto/base/arena.h"

typedef struct ec_query ec_query;

/* Opens the history in store folder dir. What is stored of host (NULL: of all) now is folded first, or waited for up to
 * wait_ns (see ec_state_worker_catch_up); *ret_behind batches are still not in the answers. EA_ENOTFOUND when there is
 * no history. */
EA_MUST_CHECK int ec_query_open(ec_query **ret, const char *dir, const char *host, int64_t wait_ns,
                                uint64_t *ret_backlog, ea_err *err);
void ec_query_close(ec_query *q); /* NULL is allowed */

/* A stream and a time in it. The sessions of one run of an agent (EA_STREAM_RUN_BYTES) describe a machine together: a
 * request about one of their streams is answered from the stream that has the rows. */
typedef struct ec_moment {
    ec_state_fold fold; /* its begin and end are those of all streams of its run */
    int64_t utc_ns;
    int beyond; /* the time is after the last event of the stream: the answer is the state as of that event */
} ec_moment;

/* Finds the stream and the time of a request. host: an agent's name; NULL when only one has sent anything. stream:
 * leading hex digits of its id; NULL: any. at: "start" or "end" (of the stream that began last), "+1500ms" (after its
 * start), or RFC 3339 (the last stream that had begun by then). EA_EUSAGE when several hosts or streams match or `at`
 * is no time, EA_ENOTFOUND when nothing matches. */
EA_MUST_CHECK int ec_query_moment(ec_query *q, const char *host, const char *stream, const char *at, ec_moment *ret,
                                  ea_err *err);

/* Processes as a list of their own. */
typedef struct ec_processes {
    ea_process *items; /* by begin, then pid; texts live in the arena */
    size_t count;
    ea_arena arena;
} ec_processes;

/* Those alive at utc_ns (an interval holds its beginning, not its end); utc_ns NULL: all there ever were. Release with
 * ec_processes_deinit. */
EA_MUST_CHECK int ec_query_processes(ec_query *q, int64_t stream_number, const int64_t *utc_ns, ec_processes *ret,
                                     ea_err *err);
void ec_processes_deinit(ec_processes *list);

/* An order in which each process follows its parent: order[i] is an index into items, depth[i] its distance from a
 * process without a known parent in the list; both have room for count. A parent is the recorded one, or else the
 * process with the parent's pid that did not begin later. */
EA_MUST_CHECK int ec_processes_tree(const ec_processes *list, size_t *order, uint32_t *depth, ea_err *err);

/* The modules of a process (pid 0: drivers and the kernel) at a time, by address. fn returns non-zero to stop, which is
 * then returned; texts are borrowed during the call. */
EA_MUST_CHECK int ec_query_modules(ec_query *q, int64_t stream_number, uint32_t pid, int64_t utc_ns,
                                   int (*fn)(const ea_module *m, void *arg), void *arg, ea_err *err);

/* The module that an address is in, as process pid sees it: 1 after a call of fn with it, 0 when there is none.
 * Addresses of the kernel's half are looked for among the drivers, too. */
EA_MUST_CHECK int ec_query_where(ec_query *q, int64_t stream_number, uint32_t pid, int64_t utc_ns, uint64_t address,
                                 void (*fn)(const ea_module *m, void *arg), void *arg, ea_err *err);

/* JSON objects of rows, as the commands print them. Times are RFC 3339; addresses are hex in strings. */
/* Appends a further member: , "key": a time as text, or null when it is unknown. */
void ec_json_time(ea_text *t, const char *key, int64_t utc_ns, int known);
/* account: its name; NULL: none is known. */
void ec_json_process(ea_text *t, const ea_process *p, const char *account);
void ec_json_module(ea_text *t, const ea_module *m);
/* The members that describe the moment of an answer: "host", "stream", "time", "data_end", "behind" (the number of
 * stored batches that the history lacks). No braces. */
void ec_json_moment(ea_text *t, const ec_moment *moment, uint64_t backlog);

/* The part of a path after its last separator. */
const char *ec_base_name(const char *path);

#endif
