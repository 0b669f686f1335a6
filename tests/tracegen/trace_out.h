/* The trace being generated: forms and field values become records of an .etl file, are counted, or are lost.
 * Called by: the model. Calls: proto/etl/etl_writer.h. Thread: its owner's.
 *
 * The first failure sticks: later calls do nothing, and tg_trace_finish returns it. */
#ifndef EA_TESTS_TRACEGEN_TRACE_OUT_H
#define EA_TESTS_TRACEGEN_TRACE_OUT_H

#include "proto/etl/etl_writer.h"
#include "tests/tracegen/forms.h"
#include "tests/tracegen/payload.h"

typedef struct tg_trace tg_trace;

enum { TG_PMC_MAX = 3, TG_STACK_MAX = 192 };

/* The thread, processor and time of an event. */
typedef struct tg_context {
    int64_t time_raw;
    uint16_t cpu;
    uint32_t pid, tid, kernel_time, user_time;
    int is_wow64;        /* a 32-bit program on a 64-bit machine: headers of providers' events have a flag for it */
    const uint64_t *pmc; /* pmc_count counters that travel in a PERFINFO header */
    unsigned pmc_count;
} tg_context;

/* An event of a provider with a manifest or with TraceLogging metadata, made once from the provider's table. */
typedef struct tg_event {
    ea_guid provider;
    uint16_t id, task;
    uint8_t version, channel, level, opcode, group; /* group: enum tg_group */
    uint64_t keyword;
    const uint8_t *metadata, *traits; /* of TraceLogging; NULL: none */
    size_t metadata_bytes, traits_bytes;
    tg_plan plan;
    const char *name;
    uint64_t count;
} tg_event;

/* What a caller may add to a tg_event: an activity and the stack as Windows puts it into the header, as a key or as its
 * frames. */
typedef struct tg_event_extra {
    const ea_guid *activity, *related;
    const uint64_t *frames;
    size_t frame_count;
    uint64_t key;      /* 0: none */
    uint64_t match_id; /* of the stack whose other half comes later, or is this one; 0: it is whole */
} tg_event_extra;

typedef struct tg_trace_options {
    const char *path;        /* NULL: nothing is written, everything else is the same */
    const ea_etl_info *info; /* what the trace header says; borrowed during the call */
    int64_t start_raw;       /* the header event's time */
    uint32_t groups;         /* bits 1 << enum tg_group: what is recorded */
    enum tg_windows_age age;
    uint32_t held_buffers; /* that many are out of order at the most; which ones is chance, by seed */
    uint64_t seed;
} tg_trace_options;

EA_MUST_CHECK int tg_trace_create(tg_trace **ret, const tg_trace_options *options, ea_err *err);
EA_MUST_CHECK int tg_trace_finish(tg_trace *t, int64_t end_raw, ea_err *err);
void tg_trace_destroy(tg_trace *t);

/* Logs a kernel event. Returns 1 when it is in the trace, 0 when its group is not recorded or it was lost. */
int tg_emit(tg_trace *t, enum tg_form_id form, const tg_context *who, const tg_v *values);
/* The same for a provider's event. extra may be NULL. */
int tg_emit_event(tg_trace *t, tg_event *e, const tg_context *who, const tg_v *values, const tg_event_extra *extra);
/* One record as it is: what no plan describes (parts of a manifest). name: what it is counted as. */
int tg_emit_raw(tg_trace *t, ea_record *r, const tg_context *who, uint64_t *count);
/* 1 when a group is recorded. */
int tg_records(const tg_trace *t, enum tg_group group);
#define TG_EMIT(t, form, who, ...) tg_emit(t, form, who, (const tg_v[]){__VA_ARGS__})

/* From now on the events of a CPU are lost, as when no buffer is free. */
void tg_trace_lose(tg_trace *t, uint16_t cpu);
/* Ends the loss that tg_trace_lose began. The CPU's next buffer is flagged, and the header counts the loss. as_buffers:
 * whole buffers were lost, and their events are not counted in the trace. Returns the number of lost events. */
uint64_t tg_trace_found(tg_trace *t, uint16_t cpu, int as_buffers, uint32_t *ret_buffers);

/* The clock that a reader of the file will make of its header. */
const ea_clock *tg_trace_clock(const tg_trace *t);
uint64_t tg_trace_events(const tg_trace *t);  /* in the trace, the header event included */
uint64_t tg_trace_payload(const tg_trace *t); /* bytes of all payloads */
uint32_t tg_trace_events_lost(const tg_trace *t);
uint32_t tg_trace_buffers_lost(const tg_trace *t);
/* Calls fn for each kernel class of which there is an event. hook_id: 0 for those with a FULL header. */
void tg_trace_each_class(const tg_trace *t, void (*fn)(void *arg, const ea_class *c, uint16_t hook_id, uint64_t count),
                         void *arg);

#endif
