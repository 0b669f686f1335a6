/* From EVENT_RECORD into the ring. See event_record.h. */
#include "service/etw/event_record.h"

/* id, task, version, channel, level and opcode of a record, which follow each other there, out of the same eight bytes
 * of an event, whose task is the last one. */
static uint64_t event_record_ids_of(const ea_event_record *e) {
    uint64_t ids = ea_load64(&e->id);
    return (ids & 0xFFFF) | ids >> 48 << 16 | (ids & 0x0000FFFFFFFF0000u) << 16;
}

/* All members of a record but ext, payload and position, in words, because a member at a time takes twice as long. */
static inline void event_fill(uint8_t *to, const ea_event_record *e) {
    uint16_t cpu = e->flags & EA_FLAG_PROCESSOR_INDEX ? e->cpu : (uint16_t)(e->cpu & 0xff);
    uint64_t pointer_size = e->flags & EA_FLAG_32_BIT_HEADER ? 4 : 8, threads = ea_load64(&e->tid);
    memcpy(to + offsetof(ea_record, provider), &e->provider, sizeof e->provider);
    ea_store64(to + offsetof(ea_record, keyword), e->keyword);
    ea_store64(to + offsetof(ea_record, id), event_record_ids_of(e));
    ea_store64(to + offsetof(ea_record, logger), e->logger | (uint64_t)ea_load32(&e->flags) << 16 | pointer_size << 48);
    ea_store64(to + offsetof(ea_record, hook_id), 0);
    ea_store64(to + offsetof(ea_record, time_raw), (uint64_t)e->time);
    ea_store64(to + offsetof(ea_record, pid), threads >> 32 | threads << 32);
    ea_store64(to + offsetof(ea_record, kernel_time), ea_load64(&e->kernel_time));
    memcpy(to + offsetof(ea_record, activity_id), &e->activity_id, sizeof e->activity_id);
    ea_store64(to + offsetof(ea_record, cpu), cpu | (uint64_t)ea_load32(&e->ext_count) << 32);
}

_Static_assert(offsetof(ea_record, task) == offsetof(ea_record, id) + 2 &&
                   offsetof(ea_record, version) == offsetof(ea_record, id) + 4 &&
                   offsetof(ea_event_record, version) == offsetof(ea_event_record, id) + 2 &&
                   offsetof(ea_event_record, task) == offsetof(ea_event_record, id) + 6 &&
                   offsetof(ea_event_record, property) == offsetof(ea_event_record, flags) + 2 &&
                   offsetof(ea_event_record, payload_bytes) == offsetof(ea_event_record, ext_count) + 2 &&
                   offsetof(ea_record, flags) == offsetof(ea_record, logger) + 2 &&
                   offsetof(ea_record, property) == offsetof(ea_record, logger) + 4 &&
                   offsetof(ea_record, pointer_size) == offsetof(ea_record, logger) + 6 &&
                   offsetof(ea_record, tid) == offsetof(ea_record, pid) + 4 &&
                   offsetof(ea_event_record, pid) == offsetof(ea_event_record, tid) + 4 &&
                   offsetof(ea_event_record, user_time) == offsetof(ea_event_record, kernel_time) + 4 &&
                   offsetof(ea_record, user_time) == offsetof(ea_record, kernel_time) + 4 &&
                   offsetof(ea_record, ext_count) == offsetof(ea_record, cpu) + 4 &&
                   offsetof(ea_record, payload_bytes) == offsetof(ea_record, cpu) + 6,
               "words of event_fill");

/* An event with items, or one for which the ring has no room: the ring copies it, or drops and counts it. */
EA_APART static int put_slow(ea_ring *r, const ea_event_record *e) {
    ea_ext ext[EA_EXT_MAX];
    size_t count = e->ext_count < EA_EXT_MAX ? e->ext_count : EA_EXT_MAX;
    for (size_t i = 0; i < count; i++)
        ext[i] = (ea_ext){.type = e->ext[i].type,
                          .linkage = e->ext[i].linkage,
                          .size_bytes = e->ext[i].size_bytes,
                          .data = (const uint8_t *)(uintptr_t)e->ext[i].data};
    ea_record record = {.ext = ext, .payload = e->payload};
    event_fill((uint8_t *)&record, e); /* with more items than there is room for, the ring refuses and counts it */
    return ea_ring_put(r, &record);
}

int ea_event_put(ea_ring *r, const ea_event_record *e) {
    ea_record *record = e->ext_count ? NULL : ea_ring_begin(r, e->payload_bytes);
    if (!record)
        return put_slow(r, e);
    event_fill((uint8_t *)record, e);
    record->ext = NULL;
    ea_copy_short((uint8_t *)(uintptr_t)record->payload, e->payload, e->payload_bytes);
    ea_ring_commit(r);
    return 0;
}
