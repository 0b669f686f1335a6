/* From EVENT_RECORD into the ring. See event_record.h. */
#include "service/etw/event_record.h"

int ea_event_put(ea_ring *r, const ea_event_record *e) {
    ea_ext ext[EA_EXT_MAX];
    size_t count = e->ext_count < EA_EXT_MAX ? e->ext_count : EA_EXT_MAX;
    for (size_t i = 0; i < count; i++)
        ext[i] = (ea_ext){.type = e->ext[i].type,
                          .linkage = e->ext[i].linkage,
                          .size_bytes = e->ext[i].size_bytes,
                          .data = (const uint8_t *)(uintptr_t)e->ext[i].data};
    ea_record record = {
        .provider = e->provider,
        .keyword = e->keyword,
        .id = e->id,
        .task = e->task,
        .version = e->version,
        .channel = e->channel,
        .level = e->level,
        .opcode = e->opcode,
        .logger = e->logger,
        .flags = e->flags,
        .property = e->property,
        .pointer_size = e->flags & EA_FLAG_32_BIT_HEADER ? 4 : 8,
        .time_raw = e->time,
        .pid = e->pid,
        .tid = e->tid,
        .kernel_time = e->kernel_time,
        .user_time = e->user_time,
        .activity_id = e->activity_id,
        .cpu = e->flags & EA_FLAG_PROCESSOR_INDEX ? e->cpu : (uint16_t)(e->cpu & 0xff),
        .ext_count = e->ext_count, /* more than there is room for: the ring refuses and counts it */
        .payload_bytes = e->payload_bytes,
        .ext = ext,
        .payload = e->payload,
    };
    return ea_ring_put(r, &record);
}
