/* The canonical checksum of records. FORMAT.md, "Checksum", is the specification.
 * Before it: service/batch (when a batch is encoded), a view (when one is verified). Thread: any. */
#include "checksum.h"
#include "wire.h"

/* Inlined, because the blocks' sizes are known here: half of the time is in them. */
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(ea_checksum_block) == 80, "the specification's");
enum { ITEM_BYTES = 16 };

uint64_t ea_checksum_constants(const ea_record *r) {
    uint8_t b[EA_RECORD_KIND_BYTES];
    memcpy(b, r, sizeof b);
    ea_store32(b + offsetof(ea_record, unused), 0);
    return XXH3_64bits(b, sizeof b);
}

uint64_t ea_checksum_items(const ea_ext *ext, unsigned count) {
    uint64_t items = 0;
    for (unsigned i = 0; i < count; i++) {
        const ea_ext *x = &ext[i];
        uint8_t item[ITEM_BYTES];
        ea_store64(item, (uint64_t)x->size_bytes << 32 | (uint32_t)x->linkage << 16 | x->type);
        ea_store64(item + 8, x->size_bytes ? XXH3_64bits(x->data, x->size_bytes) : 0);
        items = XXH3_64bits_withSeed(item, sizeof item, items);
    }
    return items;
}

uint64_t ea_checksum_event(uint64_t checksum, ea_checksum_block *block, const uint8_t *payload, size_t payload_bytes) {
    block->payload = payload_bytes ? XXH3_64bits(payload, payload_bytes) : 0;
    block->before = checksum;
    return XXH3_64bits(block, sizeof *block);
}

uint64_t ea_checksum_record(uint64_t checksum, uint64_t constants, const ea_record *r) {
    ea_checksum_block b = {.constants = constants, .items = ea_checksum_items(r->ext, r->ext_count)};
    memcpy(b.own, (const uint8_t *)r + offsetof(ea_record, time_raw), sizeof b.own);
    return ea_checksum_event(checksum, &b, r->payload, r->payload_bytes);
}

uint64_t ea_record_checksum(uint64_t checksum, const ea_record *record) {
    return ea_checksum_record(checksum, ea_checksum_constants(record), record);
}
