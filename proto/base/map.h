/* A hash map from byte-string keys to pointers, and from u64 keys to u64 values; open addressing, bounded. Used by:
 * registries, interners, state tables. Thread: its owner's. */
#ifndef EA_BASE_MAP_H
#define EA_BASE_MAP_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* 64-bit hash of bytes (XXH3); stable across machines and versions, so it may be stored. Not for hostile collisions
 * in anything that decides trust. */
uint64_t ea_hash64(const void *data, size_t len_bytes, uint64_t seed);

/* ---- u64 -> u64 ---- */
typedef struct ea_u64_map {
    uint64_t *slots; /* pairs; NULL while empty */
    uint8_t *used;
    size_t mask, count;
    size_t limit_count; /* 0: no bound */
} ea_u64_map;

void ea_u64_map_init(ea_u64_map *m, size_t limit_count);
void ea_u64_map_deinit(ea_u64_map *m);
void ea_u64_map_clear(ea_u64_map *m);
/* Pointer to the value, valid until the next put or remove; NULL when the key is not there. */
uint64_t *ea_u64_map_get(const ea_u64_map *m, uint64_t key);
/* Inserts or replaces. EA_ELIMIT when limit_count keys are in and this one is new; EA_ENOMEM. */
EA_MUST_CHECK int ea_u64_map_put(ea_u64_map *m, uint64_t key, uint64_t value);
/* 1 when it was there. */
int ea_u64_map_remove(ea_u64_map *m, uint64_t key);
/* Iterates: start with *cursor = 0; 0 at the end. No put or remove meanwhile. */
int ea_u64_map_next(const ea_u64_map *m, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value);

/* ---- bytes -> pointer; the map borrows keys, which must live as long as their entry ---- */
typedef struct ea_bytes_map {
    struct ea_bytes_slot *slots;
    size_t mask, count, limit_count;
} ea_bytes_map;

void ea_bytes_map_init(ea_bytes_map *m, size_t limit_count);
void ea_bytes_map_deinit(ea_bytes_map *m);
void ea_bytes_map_clear(ea_bytes_map *m);
/* The value, or NULL. */
void *ea_bytes_map_get(const ea_bytes_map *m, const void *key, size_t len_bytes);
/* Inserts or replaces; value must not be NULL. */
EA_MUST_CHECK int ea_bytes_map_put(ea_bytes_map *m, const void *key, size_t len_bytes, void *value);
int ea_bytes_map_next(const ea_bytes_map *m, size_t *cursor, const void **ret_key, size_t *ret_len_bytes,
                      void **ret_value);

#endif
