/* The canonical checksum of records. FORMAT.md, "Checksum", is the specification.
 * Before it: service/batch (when a batch is encoded), a view (when one is verified). Thread: any. */
#include "checksum.h"
#include "wire.h"

/* Inlined, because the blocks' sizes are known here: half of the time is in them. */
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CONSTANTS_BYTES = 48, EVENT_BYTES = 80, ITEM_BYTES = 16 };

uint64_t ea_checksum_constants(const ea_record *r) {
    uint8_t b[CONSTANTS_BYTES];
    memcpy(b, r->provider.bytes, 16);
    ea_store64(b + 16, r->keyword);
    ea_store16(b + 24, r->id);
    ea_store16(b + 26, r->task);
    b[28] = r->version;
    b[29] = r->channel;
    b[30] = r->level;
    b[31] = r->opcode;
    ea_store16(b + 32, r->logger);
    ea_store16(b + 34, r->flags);
    ea_store16(b + 36, r->property);
    b[38] = r->pointer_size;
    b[39] = r->header_type;
    ea_store16(b + 40, r->hook_id);
    ea_store16(b + 42, r->header_word);
    ea_store32(b + 44, 0);
    return XXH3_64bits(b, sizeof b);
}

uint64_t ea_checksum_record(uint64_t checksum, uint64_t constants, const ea_record *r) {
    uint8_t b[EVENT_BYTES];
    uint64_t items = 0;
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *x = &r->ext[i];
        uint8_t item[ITEM_BYTES];
        ea_store16(item, x->type);
        ea_store16(item + 2, x->linkage);
        ea_store32(item + 4, x->size_bytes);
        ea_store64(item + 8, x->size_bytes ? XXH3_64bits(x->data, x->size_bytes) : 0);
        items = XXH3_64bits_withSeed(item, sizeof item, items);
    }
    ea_store64(b, constants);
    ea_store64(b + 8, (uint64_t)r->time_raw);
    ea_store32(b + 16, r->pid);
    ea_store32(b + 20, r->tid);
    ea_store32(b + 24, r->kernel_time);
    ea_store32(b + 28, r->user_time);
    memcpy(b + 32, r->activity_id.bytes, 16);
    ea_store16(b + 48, r->cpu);
    ea_store16(b + 50, r->source);
    ea_store16(b + 52, r->ext_count);
    ea_store16(b + 54, r->payload_bytes);
    ea_store64(b + 56, items);
    ea_store64(b + 64, r->payload_bytes ? XXH3_64bits(r->payload, r->payload_bytes) : 0);
    ea_store64(b + 72, checksum);
    return XXH3_64bits(b, sizeof b);
}

uint64_t ea_record_checksum(uint64_t checksum, const ea_record *record) {
    return ea_checksum_record(checksum, ea_checksum_constants(record), record);
}
