/* Stored events of several machines in one order, for a program of the query language: merged by time where all is
 * stored, as it arrives where more is awaited. Each stream keeps its own order, and has the state of its machine, its
 * names and its stacks beside it.
 * Called by: cmd_watch.c. Calls: collector/store, collector/state, proto/wire, proto/state, proto/stack. Thread: the
 * main one. */
#ifndef EC_APP_WATCH_STREAMS_H
#define EC_APP_WATCH_STREAMS_H

#include "proto/base/cli.h"
#include "proto/lang/lang.h"

typedef struct ec_watch_streams ec_watch_streams;

typedef struct ec_watch_range {
    const char *store;
    const ea_strings *hosts, *labels; /* of these agents; "NAME=VALUE": of runs that had all of these labels */
    int64_t from_utc_ns, to_utc_ns;   /* [from, to) */
    int is_live;                      /* what arrives from now on; with a begin: what is stored since then, too */
    int64_t idle_ns;                  /* live: after so long without an event, what is kept of a stream is freed */
} ec_watch_range;

/* What the program needs. */
typedef struct ec_watch_wants {
    int state, stacks, names;
} ec_watch_wants;

/* Opens the store. All is borrowed. */
EA_MUST_CHECK int ec_watch_streams_open(ec_watch_streams **ret, const ec_watch_range *range, ea_err *err);
void ec_watch_streams_close(ec_watch_streams *w); /* NULL is allowed */
/* The classes that are stored, for the compiler; borrowed until close. */
EA_MUST_CHECK int ec_watch_streams_classes(ec_watch_streams *w, ea_lang_sources *ret, ea_err *err);
/* The addresses of stacks, for the options of a run. */
const uint64_t *ec_watch_streams_frames(const void *w, uint32_t number, size_t *ret_count);

/* Before the first event. EA_ENOTFOUND: nothing is stored of a host, or with the labels. */
EA_MUST_CHECK int ec_watch_streams_begin(ec_watch_streams *w, const ec_watch_wants *wants, ea_err *err);

/* Gives the run the next event: 1; 0 when there is none now; EC_WATCH_OVER when the program called exit(); or an error.
 */
enum { EC_WATCH_OVER = 2 };

EA_MUST_CHECK int ec_watch_streams_next(ec_watch_streams *w, ea_lang_run *run, ea_err *err);
/* Looks for what has arrived since, and frees what is kept of streams that are idle: variables of their threads, too.
 */
EA_MUST_CHECK int ec_watch_streams_refresh(ec_watch_streams *w, ea_lang_run *run, ea_err *err);
/* How often that was. */
uint64_t ec_watch_streams_freed(const ec_watch_streams *w);

/* Batches that could not be read, and why the first one could not. */
uint64_t ec_watch_streams_damage(const ec_watch_streams *w, const char **ret_first);
/* When the first and the last stored event of the agents and labels are; the begin is after the end: there is none. */
void ec_watch_streams_times(const ec_watch_streams *w, int64_t *ret_begin_utc_ns, int64_t *ret_end_utc_ns);
/* Machines whose events were read. */
uint64_t ec_watch_streams_count(const ec_watch_streams *w);

#endif
