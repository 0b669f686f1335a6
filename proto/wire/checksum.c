/* The canonical checksum of records. FORMAT.md, "Checksum", is the specification. Called by: service/batch (when a
 * batch is encoded), a view (when one is verified). Thread: any. */
#include "proto/wire/checksum.h"
#include "proto/wire/wire.h"

/* Inlined, because the blocks' sizes are known here: half of the time is in them. */
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(EA_RECORD_OWN_BYTES == 48, "the specification's");

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

uint64_t ea_checksum_event(const void *own, uint64_t seed, const uint8_t *payload, size_t payload_bytes) {
    if (payload_bytes)
        seed += XXH3_64bits(payload, payload_bytes) * 0xC2B2AE3D27D4EB4Fu;
    return XXH3_64bits_withSeed(own, EA_RECORD_OWN_BYTES, seed);
}

uint64_t ea_checksum_record(uint64_t number, uint64_t constants, const ea_record *r) {
    return ea_checksum_event((const uint8_t *)r + offsetof(ea_record, time_raw),
                             ea_checksum_seed(constants, ea_checksum_items(r->ext, r->ext_count), number), r->payload,
                             r->payload_bytes);
}

uint64_t ea_record_checksum(uint64_t number, const ea_record *record) {
    return ea_checksum_record(number, ea_checksum_constants(record), record);
}
