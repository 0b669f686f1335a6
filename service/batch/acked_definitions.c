/* Which definitions the collector has. See acked_definitions.h. */
#include "service/batch/acked_definitions.h"

#include <string.h>

int ea_acked_definitions_init(ea_acked_definitions *k, ea_err *err) {
    *k = (ea_acked_definitions){0};
    ea_u64_map_init(&k->hashes, EA_ACKED_DEFINITIONS_MAX);
    return ea_mutex_create(&k->lock, err);
}

void ea_acked_definitions_deinit(ea_acked_definitions *k) {
    ea_u64_map_deinit(&k->hashes);
    ea_mutex_destroy(k->lock);
}

void ea_acked_definitions_add(ea_acked_definitions *k, const uint8_t *hash) {
    ea_mutex_lock(k->lock);
    /* when the set is full the definition is simply sent again */
    int rc = ea_u64_map_put(&k->hashes, ea_load64(hash), 1);
    (void)rc;
    ea_mutex_unlock(k->lock);
}

void ea_acked_definitions_remove(ea_acked_definitions *k, const ea_hash_ref *ref) {
    size_t compared = ref->len_bytes < 8 ? ref->len_bytes : 8, cursor = 0;
    uint64_t key, value, mask = UINT64_MAX >> (64 - 8 * compared), found[64];
    size_t n = 0;
    ea_mutex_lock(k->lock);
    while (compared && n < sizeof found / sizeof *found && ea_u64_map_next(&k->hashes, &cursor, &key, &value))
        if ((key & mask) == (ea_load64(ref->bytes) & mask))
            found[n++] = key;
    while (n)
        ea_u64_map_remove(&k->hashes, found[--n]);
    ea_mutex_unlock(k->lock);
}

int ea_acked_definitions_has(ea_acked_definitions *k, const uint8_t *hash) {
    ea_mutex_lock(k->lock);
    int has = ea_u64_map_get(&k->hashes, ea_load64(hash)) != NULL;
    ea_mutex_unlock(k->lock);
    return has;
}
