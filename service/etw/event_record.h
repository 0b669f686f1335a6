/* An event as Windows passes it to a callback, without Windows' headers, and its copy into the ring, which is all work
 * of a callback. Called by: live.c's callback. Calls: service/source/ring.h. Thread: ProcessTrace's. */
#ifndef EA_ETW_EVENT_RECORD_H
#define EA_ETW_EVENT_RECORD_H

#include "service/source/ring.h"

/* EVENT_RECORD and what it points to, of 64-bit Windows (evntcons.h). etw.h checks that they are the same. */
typedef struct ea_event_ext {
    uint16_t reserved, type, linkage, size_bytes;
    uint64_t data;
} ea_event_ext;

typedef struct ea_event_record {
    uint16_t size, header_type, flags, property;
    uint32_t tid, pid;
    int64_t time;
    ea_guid provider;
    uint16_t id;
    uint8_t version, channel, level, opcode;
    uint16_t task;
    uint64_t keyword;
    uint32_t kernel_time, user_time;
    ea_guid activity_id;
    uint16_t cpu, logger;
    uint16_t ext_count, payload_bytes;
    const ea_event_ext *ext;
    const uint8_t *payload;
    void *context;
} ea_event_record;

_Static_assert(sizeof(ea_event_ext) == 16 && sizeof(ea_event_record) == 112, "EVENT_RECORD");
_Static_assert(offsetof(ea_event_record, provider) == 24 && offsetof(ea_event_record, id) == 40 &&
                   offsetof(ea_event_record, keyword) == 48 && offsetof(ea_event_record, activity_id) == 64 &&
                   offsetof(ea_event_record, cpu) == 80 && offsetof(ea_event_record, ext_count) == 84 &&
                   offsetof(ea_event_record, ext) == 88 && offsetof(ea_event_record, context) == 104,
               "EVENT_RECORD");

/* As ea_ring_put. */
int ea_event_put(ea_ring *r, const ea_event_record *e);

#endif
