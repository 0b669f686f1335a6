/* Which definitions the collector has: they need not be sent again on this stream, and are named by a few bytes.
 * Before it: acknowledgements. After it: encoder.c. Thread: any; it has a lock of its own. */
#ifndef EA_BATCH_KNOWN_H
#define EA_BATCH_KNOWN_H

#include "map.h"
#include "platform.h"
#include "wire.h"

/* References have six bytes: of a thousand definitions two begin alike in one of 500 million streams. */
enum { EA_KNOWN_MAX = 65536, EA_REF_BYTES = 6 };

typedef struct ea_known {
    ea_mutex *lock;
    ea_u64_map hashes;   /* first 8 bytes of those that are acknowledged */
    ea_u64_map prefixes; /* first EA_REF_BYTES of all that were named -> their first 8 */
    int is_ambiguous;    /* two began alike: whole hashes from now on */
} ea_known;

EA_MUST_CHECK int ea_known_init(ea_known *k, ea_err *err);
void ea_known_deinit(ea_known *k);
void ea_known_add(ea_known *k, const uint8_t *hash); /* EA_CLASS_HASH_BYTES; beyond EA_KNOWN_MAX it is forgotten */
void ea_known_remove(ea_known *k, const ea_hash_ref *ref); /* all that begin so */
int ea_known_has(ea_known *k, const uint8_t *hash);
/* Bytes that a reference to each of these takes now. */
size_t ea_known_ref_bytes(ea_known *k, const uint8_t (*hashes)[EA_CLASS_HASH_BYTES], size_t count);

#endif
