/* The trace being generated: events by class and field values become records of an .etl file, and are counted.
 * Before it: the model. After it: proto/etl/etl_writer.h. Thread: its owner's.
 *
 * The first failure sticks: later calls do nothing, and tg_trace_finish returns it. */
#ifndef EA_TRACEGEN_TRACE_OUT_H
#define EA_TRACEGEN_TRACE_OUT_H

#include "etl_writer.h"
#include "payload.h"

typedef struct tg_trace tg_trace;

/* Who logs an event, where and when. */
typedef struct tg_context {
    int64_t time_raw;
    uint16_t cpu;
    uint32_t pid, tid;
} tg_context;

/* info: what the trace header says; borrowed during the call. The header event's time is start_raw. */
EA_MUST_CHECK int tg_trace_create(tg_trace **ret, const char *path, const ea_etl_info *info, int64_t start_raw,
                                  ea_err *err);
EA_MUST_CHECK int tg_trace_finish(tg_trace *t, int64_t end_raw, ea_err *err);
void tg_trace_destroy(tg_trace *t);

/* A kernel event with a SYSTEM header (who: pid, tid), or with a PERFINFO header (nobody). */
void tg_kernel(tg_trace *t, const tg_context *who, uint16_t hook_id, uint8_t version, const tg_value *values,
               size_t count);
void tg_perfinfo(tg_trace *t, const tg_context *who, uint16_t hook_id, uint8_t version, const tg_value *values,
                 size_t count);
/* A classic event with a FULL header. */
void tg_classic(tg_trace *t, const tg_context *who, const ea_guid *provider, uint8_t opcode, uint8_t version,
                const tg_value *values, size_t count);

/* The clock that a reader of the file will make of its header. */
const ea_clock *tg_trace_clock(const tg_trace *t);
uint64_t tg_trace_events(const tg_trace *t); /* the header event included */
/* Calls fn for each class of which there is an event, in the order of their first one. */
void tg_trace_each_class(const tg_trace *t, void (*fn)(void *arg, const char *name, uint64_t count), void *arg);

#endif
