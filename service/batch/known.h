/* Which definitions the collector has: they need not be sent again on this stream, and are named by a few bytes.
 * Before it: acknowledgements. After it: encoder.c. Thread: any; it has a lock of its own. */
#ifndef EA_BATCH_KNOWN_H
#define EA_BATCH_KNOWN_H

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/wire/wire.h"

enum { EA_KNOWN_MAX = 65536 };

typedef struct ea_known {
    ea_mutex *lock;
    ea_u64_map hashes; /* first 8 bytes of those that are acknowledged */
} ea_known;

EA_MUST_CHECK int ea_known_init(ea_known *k, ea_err *err);
void ea_known_deinit(ea_known *k);
void ea_known_add(ea_known *k, const uint8_t *hash); /* EA_CLASS_HASH_BYTES; beyond EA_KNOWN_MAX it is forgotten */
void ea_known_remove(ea_known *k, const ea_hash_ref *ref); /* all that begin so */
int ea_known_has(ea_known *k, const uint8_t *hash);

#endif
