/* Which definitions the collector has: they need not be sent again on this stream, and are named by a few bytes. Input:
 * acknowledgements. Used by: encoder.c. Thread: any; it has a lock of its own. */
#ifndef EA_BATCH_ACKED_DEFINITIONS_H
#define EA_BATCH_ACKED_DEFINITIONS_H

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/wire/wire.h"

enum { EA_ACKED_DEFINITIONS_MAX = 65536 };

typedef struct ea_acked_definitions {
    ea_mutex *lock;
    ea_u64_map hashes; /* first 8 bytes of those that are acknowledged */
} ea_acked_definitions;

EA_MUST_CHECK int ea_acked_definitions_init(ea_acked_definitions *k, ea_err *err);
void ea_acked_definitions_deinit(ea_acked_definitions *k);
void ea_acked_definitions_add(
    ea_acked_definitions *k,
    const uint8_t *hash); /* EA_CLASS_HASH_BYTES; beyond EA_ACKED_DEFINITIONS_MAX it is forgotten */
void ea_acked_definitions_remove(ea_acked_definitions *k, const ea_hash_ref *ref); /* all that begin so */
int ea_acked_definitions_has(ea_acked_definitions *k, const uint8_t *hash);

#endif
