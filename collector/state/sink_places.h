/* How far each sink has got, in DIR/sinks.db: a sink is a receiver of stored events (collector/sink). Batches are sent
 * in the order of their places in the segments, which is the order of arrival, and a sink has one place. What became of
 * the events before it is counted by stream, in the transaction that moves the place. Called by: collector/sink, the
 * commands sink ... and forget. Calls: SQLite. Thread: one ec_sinks belongs to one thread. */
#ifndef EC_STATE_SINK_PLACES_H
#define EC_STATE_SINK_PLACES_H

#include "proto/base/err.h"

#include <sqlite3.h>
#include <stdint.h>

enum { EC_SINK_NAME_MAX = 64, EC_SINK_TEXT_MAX = 400 };

/* What became of an event: each one is in exactly one of them once the place is after it. */
#define EC_SINK_FATES(X)                                                                                               \
    X(sent, "accepted by the receiver")                                                                                \
    X(known, "the receiver had it already")                                                                            \
    X(refused, "the receiver will not take it")                                                                        \
    X(left_out, "not chosen, or the record of a keyframe")                                                             \
    X(damaged, "could not be read")                                                                                    \
    X(skipped, "passed over by sink skip")                                                                             \
    X(removed, "removed from the store before it was sent")

enum ec_sink_fate {

#define X(name, text) EC_SINK_##name,
    EC_SINK_FATES(X)
#undef X
        EC_SINK_FATE_COUNT
};

const char *ec_sink_fate_name(enum ec_sink_fate fate);

/* The event that comes next: the batch of the record at offset of a segment, and the position in it. */
typedef struct ec_sink_place {
    uint64_t segment, offset, position;
} ec_sink_place;

typedef struct ec_sink_row {
    char name[EC_SINK_NAME_MAX + 1], kind[16], receiver[256]; /* receiver: the host alone */
    ec_sink_place place;
    uint64_t request_count, retried_count; /* rows that were sent again */
    uint64_t redacted_count;               /* values that pseudonyms replaced, those of rows made again, too */
    int64_t created_utc_ns, sent_utc_ns;   /* sent: of the last accepted row; 0: none */
    int64_t error_utc_ns;                  /* of the last failure; 0: none */
    char error[EC_SINK_TEXT_MAX];
    char refusal[EC_SINK_TEXT_MAX]; /* the last row that was refused, and why; "": none */
} ec_sink_row;

/* A run of an agent, of one sink. */
typedef struct ec_sink_stream {
    char host[256], stream[33];
    int64_t before; /* events that were stored, and are none of this sink's; below 0 after a replay */
    uint64_t counts[EC_SINK_FATE_COUNT];
} ec_sink_stream;

/* An agent with a place of its own, before the sink's: between the two, what is the agent's is not sent yet. */
typedef struct ec_sink_apart {
    char host[256];
    ec_sink_place place;
} ec_sink_apart;

typedef struct ec_sinks ec_sinks;

/* Writable: the file is made when it is missing. Otherwise a missing file is one without sinks. */
EA_MUST_CHECK int ec_sinks_open(ec_sinks **ret, const char *dir, int writable, ea_err *err);
void ec_sinks_close(ec_sinks *s); /* NULL is allowed */

/* A name: letters, digits, - _ and dots, not at the begin. EA_EUSAGE. */
EA_MUST_CHECK int ec_sinks_check_name(const char *name, ea_err *err);
/* One process at a time runs a sink or moves its place, and none while a host is forgotten. EA_EBUSY, EA_EUSAGE (the
 * name). *ret: to be closed by ea_file_close. */
struct ea_file;
EA_MUST_CHECK int ec_sinks_lock(struct ea_file **ret, const char *dir, const char *name, ea_err *err);
/* Whether a process has it locked now. */
int ec_sinks_is_locked(const char *dir, const char *name);
/* 1 and the sink; 0: there is none of that name. */
EA_MUST_CHECK int ec_sinks_find(ec_sinks *s, const char *name, ec_sink_row *ret, ea_err *err);
/* By name; fn returns non-zero to stop. */
EA_MUST_CHECK int ec_sinks_each(ec_sinks *s, int (*fn)(const ec_sink_row *row, void *arg), void *arg, ea_err *err);
/* By host and stream. */
EA_MUST_CHECK int ec_sinks_each_stream(ec_sinks *s, const char *name, int (*fn)(const ec_sink_stream *row, void *arg),
                                       void *arg, ea_err *err);
/* 1 and the row; 0: there is none. */
EA_MUST_CHECK int ec_sinks_find_stream(ec_sinks *s, const char *name, const char *host, const char *stream,
                                       ec_sink_stream *ret, ea_err *err);

/* By host. *ret: to be freed. */
EA_MUST_CHECK int ec_sinks_read_apart(ec_sinks *s, const char *name, ec_sink_apart **ret, size_t *ret_count,
                                      ea_err *err);

/* What follows is durable with the commit; all of it, or nothing. */
EA_MUST_CHECK int ec_sinks_begin(ec_sinks *s, ea_err *err);
EA_MUST_CHECK int ec_sinks_commit(ec_sinks *s, ea_err *err);
void ec_sinks_undo(ec_sinks *s);
EA_MUST_CHECK int ec_sinks_put(ec_sinks *s, const ec_sink_row *row, ea_err *err);
EA_MUST_CHECK int ec_sinks_put_stream(ec_sinks *s, const char *name, const ec_sink_stream *row, ea_err *err);
/* Adds to the counts of a stream, whose row is made when it is new (before: 0). */
EA_MUST_CHECK int ec_sinks_count(ec_sinks *s, const char *name, const char *host, const char *stream,
                                 const uint64_t *counts, ea_err *err);
EA_MUST_CHECK int ec_sinks_put_apart(ec_sinks *s, const char *name, const ec_sink_apart *row, ea_err *err);
EA_MUST_CHECK int ec_sinks_drop_apart(ec_sinks *s, const char *name, const char *host, ea_err *err);
/* Deletes what is kept of a host (stream NULL: of all its runs), and of each sink the last failure and the last
 * refusal, which may quote a row. Places stay. A folder without sinks: nothing. */
EA_MUST_CHECK int ec_sinks_forget(const char *dir, const char *host, const char *stream, ea_err *err);

#endif
