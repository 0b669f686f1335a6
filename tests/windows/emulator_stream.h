/* The event stream of one session: the requested events of the trace are logged by the emulator's clock into the
 * session's buffers, and leave them in the order in which the buffers were handed over.
 *
 *     trace ─▶ filters ─▶ open buffer ─ full, or flushed ─▶ queue ─▶ sink: a consumer's callback, or a file
 *
 * With slow= in the script, events are logged when the emulator's clock reaches their time, with or without a consumer.
 * When there is no free buffer, the event is lost, as in Windows. Without slow=, events are logged as fast as the
 * consumer takes them, and none is lost. Input: the script and the session table. Called by: emulator_play.c,
 * emulator_file.c. Thread: one a stream. */
#ifndef EA_TESTS_WINDOWS_EMULATOR_STREAM_H
#define EA_TESTS_WINDOWS_EMULATOR_STREAM_H

#include "tests/windows/emulator.h"

#include "proto/etl/etl.h"

typedef struct emul_stream emul_stream;
typedef void (*emul_sink)(void *arg, const ea_record *r); /* borrows the record during the call */

/* Continues after the records that sessions of this name have played. NULL: a trace cannot be read. */
emul_stream *emul_stream_open(const emul_session *s);
void emul_stream_close(emul_stream *st); /* NULL is allowed */

/* Logs what is due, and hands the oldest full buffer to the sink. 1: one was handed over; 0: nothing is ready now; -1:
 * all of the trace was logged and handed over. */
int emul_stream_pump(emul_stream *st, const emul_session *now, emul_sink sink, void *arg);
/* The session was stopped: all that is in its buffers, and the rundown with which a kernel session ends. */
void emul_stream_end(emul_stream *st, emul_sink sink, void *arg);

/* Since it was opened. */
typedef struct emul_stream_counts {
    uint64_t position; /* records of the trace that were passed, from its beginning */
    uint64_t logged;   /* events for this session, those that were lost included */
    uint32_t lost;     /* for which there was no buffer */
    uint32_t late_ms;  /* the maximum delay of an event: an event that was logged later came so much earlier */
} emul_stream_counts;

emul_stream_counts emul_stream_get(const emul_stream *st);
/* What the trace says of its clock and machine; NULL without a trace. */
const ea_etl_info *emul_stream_info(const emul_stream *st);
/* Ticks of the trace's clock: the time of what was logged last. */
int64_t emul_stream_time(const emul_stream *st);

/* emulator_filter.c: of which classes the last events of the kernel were, by their times. */
typedef struct emul_recent emul_recent;
emul_recent *emul_recent_create(void);
void emul_recent_destroy(emul_recent *recent); /* NULL is allowed */
void emul_recent_add(emul_recent *recent, const ea_record *r);
/* Whether a session logs an event. recent: NULL where there are no stacks. */
int emul_wants(const emul_session *s, const emul_recent *recent, const ea_record *r);
/* A provider or a kernel flag is enabled. */
int emul_logs_something(const emul_session *s);

/* A record with the extended items that its session asked for and that the trace lacks, and without counters that it
 * did not ask for; or the record as it is. */
typedef struct emul_dressed {
    ea_record record, bare; /* bare: the record without what its provider was not asked for */
    uint8_t payload[UINT16_MAX];
    ea_ext ext[EA_EXT_MAX];
    size_t added;
    uint8_t data[16 * 8];
} emul_dressed;

const ea_record *emul_dress(const emul_session *s, const ea_record *r, emul_dressed *d);
int emul_is_kernel(const ea_record *r);

/* emulator_alias.c: events of a process of the trace as those of a program that runs now. NULL: the script names none.
 */
typedef struct emul_alias emul_alias;
emul_alias *emul_alias_create(void);
void emul_alias_destroy(emul_alias *a);                               /* NULL is allowed */
const ea_record *emul_alias_apply(emul_alias *a, const ea_record *r); /* valid until the next call */

/* emulator_provider.c: the event at a place of those that programs wrote, and the place after it. 0: there is none yet.
 * The record borrows from the table and from ext. */
int emul_written_next(size_t *at, ea_record *ret, ea_ext ext[2]);

/* emulator_rundown.c: the processes, threads, images and registry keys that there are at a place of the trace. */
typedef struct emul_rundown emul_rundown;
emul_rundown *emul_rundown_create(void);
void emul_rundown_destroy(emul_rundown *d); /* NULL is allowed */
void emul_rundown_see(emul_rundown *d, const ea_record *r);
/* Each of them as DCStart or DCEnd, KCBRundownBegin or KCBRundownEnd, at a time. */
void emul_rundown_each(const emul_rundown *d, int at_end, int64_t time_raw, emul_sink sink, void *arg);

#endif
