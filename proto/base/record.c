/* Records: comparison and look-up. See record.h. */
#include "proto/base/record.h"

#include <stddef.h>

int ea_record_equal(const ea_record *a, const ea_record *b) {
    if (!ea_guid_equal(&a->provider, &b->provider) || a->id != b->id || a->version != b->version ||
        a->channel != b->channel || a->level != b->level || a->opcode != b->opcode || a->task != b->task ||
        a->keyword != b->keyword || a->time_raw != b->time_raw || a->pid != b->pid || a->tid != b->tid ||
        a->cpu != b->cpu || a->logger != b->logger || a->flags != b->flags || a->property != b->property ||
        a->kernel_time != b->kernel_time || a->user_time != b->user_time ||
        !ea_guid_equal(&a->activity_id, &b->activity_id) || a->pointer_size != b->pointer_size ||
        a->ext_count != b->ext_count || a->payload_bytes != b->payload_bytes || a->header_type != b->header_type ||
        a->hook_id != b->hook_id || a->header_word != b->header_word || a->source != b->source)
        return 0;
    for (unsigned i = 0; i < a->ext_count; i++) {
        const ea_ext *x = &a->ext[i], *y = &b->ext[i];
        if (x->type != y->type || x->linkage != y->linkage || x->size_bytes != y->size_bytes ||
            (x->size_bytes && memcmp(x->data, y->data, x->size_bytes) != 0))
            return 0;
    }
    return a->payload_bytes == 0 || memcmp(a->payload, b->payload, a->payload_bytes) == 0;
}

const ea_ext *ea_record_ext(const ea_record *r, uint16_t type) {
    for (unsigned i = 0; i < r->ext_count; i++)
        if (r->ext[i].type == type)
            return &r->ext[i];
    return NULL;
}
