/* Events that Sigma rules matched, in DIR/alarms.db: they are kept until they are deleted, also when index and history
 * are made anew. What is judged is kept in the same transaction as the matches of it, and an event and a rule make one
 * detection however often they are judged.
 *
 * Batches are judged by their streams' numbers, from the first that is not judged. An arrival below that number begins
 * there again, since what came after it was judged without it.
 *
 * Of one rule and host EC_DETECTIONS_AN_HOUR are kept in each hour of the events' time; further ones are counted.
 *
 * Called by: collector/detect, the command detections. Calls: incidents.h, collector/store. Thread: one ec_detections
 * belongs to one thread. */
#ifndef EC_STATE_DETECTIONS_H
#define EC_STATE_DETECTIONS_H

#include "collector/store/store.h"

#include <sqlite3.h>

enum {
    EC_DETECTIONS_AN_HOUR = 100,
    EC_DETECTIONS_KEPT = 100000, /* of the host that has most, closed ones, then the oldest, are deleted */
    EC_LEFT_OUT_KEPT = 100000,   /* rows of counts: of what was left out, and of what was suppressed */
};

typedef struct ec_detections ec_detections;

/* Texts are borrowed. */
typedef struct ec_detection {
    uint64_t batch, position;
    const char *rule, *title, *level, *source; /* rule: of ec_rules_key; source: FILE:LINE */
    int64_t utc_ns;
    uint32_t pid;
    int has_pid;
    const char *process; /* the name of its program's file; NULL: it is not known */
    const char *fields;  /* a JSON object of the fields that rules of the log source name */
    const char *tags;    /* a JSON array of texts; NULL: none */
    const char *text;    /* the rule's document; NULL: it is not known */
    const char *chain;   /* a JSON array: the process, its parent, and so on; NULL: not known */
} ec_detection;

/* dir: of the store; NULL: in memory. */
EA_MUST_CHECK int ec_detections_open(ec_detections **ret, const char *dir, ea_err *err);
void ec_detections_close(ec_detections *d);        /* NULL is allowed */
sqlite3 *ec_detections_database(ec_detections *d); /* for what is kept in the same transactions */

/* Takes note of what has arrived since the last call, by the index that store reads; at the first call of a folder all
 * that is stored is known already. *ret_count: batches that are new. */
EA_MUST_CHECK int ec_detections_notice(ec_detections *d, ec_store *store, int64_t now_utc_ns, uint64_t *ret_count,
                                       ea_err *err);

/* A stream with batches that are not judged. */
typedef struct ec_detections_stream {
    char host[256], stream[2 * EA_STREAM_ID_BYTES + 1];
    uint8_t id[EA_STREAM_ID_BYTES];
    uint64_t next;
    int is_late;            /* an arrival was below what was judged or folded */
    int64_t noticed_utc_ns; /* of the newest arrival; is_late: of the newest late one */
} ec_detections_stream;

/* By host and stream, those after a stream (NULL: all); ends at the first non-zero of fn, which it returns. */
EA_MUST_CHECK int ec_detections_each(ec_detections *d, const ec_detections_stream *after,
                                     int (*fn)(const ec_detections_stream *s, void *arg), void *arg, ea_err *err);

/* The matches of a stream's batches. A row is kept when it is given; ec_detections_judged makes all of them durable,
 * and next with them. *ret: 1 when it is new, 0 when it is known, 2 when it was left out. */
EA_MUST_CHECK int ec_detections_begin(ec_detections *d, ea_err *err);
EA_MUST_CHECK int ec_detections_add(ec_detections *d, const ec_detections_stream *s, const ec_detection *row,
                                    int64_t now_utc_ns, int *ret, ea_err *err);
/* Matches of a batch that are not given: they are beyond the bound. */
EA_MUST_CHECK int ec_detections_leave_out(ec_detections *d, const ec_detections_stream *s, uint64_t batch,
                                          const char *rule, uint64_t count, ea_err *err);
/* One more of a batch. */
EA_MUST_CHECK int ec_detections_leave_out_one(ec_detections *d, const ec_detections_stream *s, uint64_t batch,
                                              const char *rule, ea_err *err);
/* Matches of a batch that a filter excepted. */
EA_MUST_CHECK int ec_detections_suppress(ec_detections *d, const ec_detections_stream *s, uint64_t batch,
                                         const char *rule, const char *filter, uint64_t count, ea_err *err);
/* next 0: nothing is stored of the stream any more. is_all: nothing of it is left to be judged until more arrives. */
EA_MUST_CHECK int ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                       ea_err *err);
void ec_detections_undo(ec_detections *d);

/* The highest number that a detection has or had; numbers are not used again. */
#define EC_DETECTIONS_LAST                                                                                             \
    "max(coalesce((SELECT max(detection_id) FROM detections), 0), coalesce((SELECT number FROM detections_last), 0))"
/* To be run before detections are deleted. */
#define EC_DETECTIONS_KEEP_LAST "INSERT OR REPLACE INTO detections_last SELECT 1, " EC_DETECTIONS_LAST

/* How far the receiver of that name has got: up to which number it has accepted all. 1, or 0: it is not known yet, and
 * *ret is the highest number that there is. */
EA_MUST_CHECK int ec_detections_sent(ec_detections *d, const char *receiver, uint64_t *ret, ea_err *err);
EA_MUST_CHECK int ec_detections_set_sent(ec_detections *d, const char *receiver, uint64_t number, ea_err *err);

enum ec_detection_state { EC_DETECTION_OPEN, EC_DETECTION_ACKNOWLEDGED, EC_DETECTION_CLOSED, EC_DETECTION_STATES };

const char *ec_detection_state_name(enum ec_detection_state state); /* "open", "acknowledged", "closed" */
/* The host of a detection. EA_ENOTFOUND: there is no such number. */
EA_MUST_CHECK int ec_detections_host(ec_detections *d, uint64_t number, char *ret, size_t ret_size, ea_err *err);
/* A person's word on a detection. EA_ENOTFOUND: there is no such number. */
EA_MUST_CHECK int ec_detections_set(ec_detections *d, uint64_t number, enum ec_detection_state state, const char *who,
                                    const char *comment, int64_t now_utc_ns, ea_err *err);

#endif
