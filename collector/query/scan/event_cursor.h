/* A stream's events in the order in which the agent saw them, read from columns: each event as a time, a thread, a CPU
 * and those fields that its reader asked for. What follows an event from one class to the next (stacks, waits,
 * latencies) is built on it. Input: archive.h. Used by: profile.c, activity.c. Thread: its owner's. */
#ifndef EC_QUERY_SCAN_EVENT_CURSOR_H
#define EC_QUERY_SCAN_EVENT_CURSOR_H

#include "collector/query/scan/archive.h"

enum { EC_EVENT_CURSOR_FIELDS = 8 };

/* What a reader wants of a class; it begins the reader's own struct of a class. */
typedef struct ec_event_cursor_plan {
    int16_t fields[EC_EVENT_CURSOR_FIELDS]; /* top-level fields, -1: absent */
    int16_t addresses;                      /* a field whose rows repeat: ec_event_cursor_repeated; -1: none */
    uint8_t wants_items;                    /* the extended items, too */
    uint8_t wants_record;                   /* ec_event_cursor_record */
} ec_event_cursor_plan;

/* An event; all borrowed until the next call. */
typedef struct ec_event_cursor_event {
    const ea_class *c;
    const ec_event_cursor_plan *plan;
    int64_t time;          /* raw ticks */
    const ea_clock *clock; /* of time */
    uint32_t pid, tid;
    uint16_t cpu;
    uint32_t group, row;
    int is_after_gap;        /* with wants_gaps: batches between the event before and this one are not there */
    const ea_column *fields; /* of the plan; those that the class lacks have no rows */
} ec_event_cursor_event;

/* What plan gives when there is no memory for one: the cursor is not opened. */
extern const ec_event_cursor_plan EC_EVENT_CURSOR_NO_MEMORY;

typedef struct ec_event_cursor_options {
    const ec_archive_stream *stream;
    int64_t from_utc_ns, to_utc_ns; /* batches without an event in between are left out; single events are not */
    /* Asked once for each class: its plan (borrowed while the cursor is open); NULL: none of its events;
     * &EC_EVENT_CURSOR_NO_MEMORY. */
    const ec_event_cursor_plan *(*plan)(void *arg, const ea_class *c);
    void *arg;
    int wants_gaps;
} ec_event_cursor_options;

typedef struct ec_event_cursor ec_event_cursor;

EA_MUST_CHECK int ec_event_cursor_open(ec_event_cursor **ret, ec_archive *archive,
                                       const ec_event_cursor_options *options, ea_err *err);
/* The next event: 1, 0 at the end. Damaged batches and values are skipped and reported to the archive. */
EA_MUST_CHECK int ec_event_cursor_next(ec_event_cursor *t, ec_event_cursor_event *ret, ea_err *err);
void ec_event_cursor_close(ec_event_cursor *t); /* NULL is allowed */

/* The clock of the last event. */
const ea_clock *ec_event_cursor_clock(const ec_event_cursor *t);
/* Where the last event is in its stream: the number of its batch, and its position there, as one number that is greater
 * for what came later. */
uint64_t ec_event_position(const ec_event_cursor *t);

enum { EC_POSITION_BITS = 18 }; /* EA_BATCH_MAX_EVENTS */

static inline uint64_t ec_event_position_of(uint64_t batch, uint32_t position) {
    return batch << EC_POSITION_BITS | position;
}

static inline uint64_t ec_event_position_batch(uint64_t place) {
    return place >> EC_POSITION_BITS;
}

static inline uint32_t ec_event_position_in_batch(uint64_t place) {
    return (uint32_t)(place & ((UINT32_C(1) << EC_POSITION_BITS) - 1));
}

/* Bytes of a pointer of the machine that the last event came from, 4 or 8: as its session says, whatever the process
 * was. */
unsigned ec_event_cursor_pointer_size(const ec_event_cursor *t);

/* UTC of an event's time. */
static inline int64_t ec_event_cursor_utc_ns(const ec_event_cursor_event *e) {
    return ea_clock_to_utc_ns(e->clock, e->time);
}

/* plan->fields[i] as a number: 1 and *ret, 0 when the event lacks it. */
static inline int ec_event_cursor_u64(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i,
                                      uint64_t *ret) {
    const ea_column *c = &e->fields[i];
    (void)t;
    if (!c->count || ea_column_missing(c, e->row))
        return 0;
    *ret = ea_column_u64(c, e->row);
    return 1;
}

/* The same, or 0. */
static inline uint64_t ec_event_cursor_u64_or_0(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i) {
    uint64_t v = 0;
    return ec_event_cursor_u64(t, e, i, &v) ? v : 0;
}

/* Any field's bytes. */
ea_slice ec_event_cursor_bytes(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i);
/* plan->addresses. *ret_memory is a place to remember something for all rows of the batch that are stored once, 0 at
 * first; NULL when each row stands for itself. */
ea_slice ec_event_cursor_repeated(const ec_event_cursor *t, const ec_event_cursor_event *e, uint64_t **ret_memory);
/* The values of the repeated field after the event's own, in the order in which rows first need them: number 0 is the
 * event's own. 0 after the last one, and when each row has its own value. */
int ec_event_cursor_repeated_next(const ec_event_cursor *t, const ec_event_cursor_event *e, uint32_t number,
                                  ea_slice *ret, uint64_t **ret_memory);
/* An event whose plan wants_record as a record, without extended items. */
void ec_event_cursor_record(const ec_event_cursor *t, const ec_event_cursor_event *e, ea_record *ret);
/* An extended item of an event whose plan wants_items: 1, 0 after the last. */
int ec_event_cursor_item(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i, ea_ext *ret);

#endif
