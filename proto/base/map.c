/* Hash maps. See map.h. */
#include "proto/base/map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

uint64_t ea_hash64(const void *data, size_t len_bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, len_bytes, seed);
}

static size_t map_mix(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9E3779B97F4A7C15u;
    return (size_t)(key ^ key >> 29);
}

void ea_u64_map_init(ea_u64_map *m, size_t limit_count) {
    *m = (ea_u64_map){.limit_count = limit_count};
}

void ea_u64_map_deinit(ea_u64_map *m) {
    free(m->slots);
    free(m->used);
    *m = (ea_u64_map){.limit_count = m->limit_count};
}

void ea_u64_map_clear(ea_u64_map *m) {
    if (m->used)
        memset(m->used, 0, m->mask + 1);
    m->count = 0;
}

static size_t find_u64(const ea_u64_map *m, uint64_t key) {
    size_t i = map_mix(key) & m->mask;
    while (m->used[i] && m->slots[2 * i] != key)
        i = (i + 1) & m->mask;
    return i;
}

uint64_t *ea_u64_map_get(const ea_u64_map *m, uint64_t key) {
    if (!m->slots)
        return NULL;
    size_t i = find_u64(m, key);
    return m->used[i] ? &m->slots[2 * i + 1] : NULL;
}

static int grow_u64(ea_u64_map *m) {
    size_t size = m->slots ? (m->mask + 1) * 2 : 16;
    ea_u64_map old = *m;
    uint64_t *slots = malloc(size * 2 * sizeof *slots);
    uint8_t *used = calloc(size, 1);
    if (!slots || !used) {
        free(slots);
        free(used);
        return EA_ENOMEM;
    }
    m->slots = slots;
    m->used = used;
    m->mask = size - 1;
    for (size_t k = 0; old.slots && k <= old.mask; k++) {
        if (!old.used[k])
            continue;
        size_t i = find_u64(m, old.slots[2 * k]);
        used[i] = 1;
        slots[2 * i] = old.slots[2 * k];
        slots[2 * i + 1] = old.slots[2 * k + 1];
    }
    free(old.slots);
    free(old.used);
    return 0;
}

int ea_u64_map_put(ea_u64_map *m, uint64_t key, uint64_t value) {
    size_t i = m->slots ? find_u64(m, key) : 0;
    if (m->slots && m->used[i]) {
        m->slots[2 * i + 1] = value;
        return 0;
    }
    if (m->limit_count && m->count >= m->limit_count)
        return EA_ELIMIT;
    if (!m->slots || (m->count + 1) * 4 > (m->mask + 1) * 3) {
        int rc = grow_u64(m);
        if (rc)
            return rc;
        i = find_u64(m, key);
    }
    m->used[i] = 1;
    m->slots[2 * i] = key;
    m->slots[2 * i + 1] = value;
    m->count++;
    return 0;
}

int ea_u64_map_remove(ea_u64_map *m, uint64_t key) {
    if (!m->slots)
        return 0;
    size_t i = find_u64(m, key);
    if (!m->used[i])
        return 0;
    m->used[i] = 0;
    m->count--;
    /* close the gap, so that no probe sequence breaks */
    for (size_t k = (i + 1) & m->mask; m->used[k]; k = (k + 1) & m->mask) {
        size_t home = map_mix(m->slots[2 * k]) & m->mask;
        if (((k - home) & m->mask) >= ((k - i) & m->mask)) {
            m->slots[2 * i] = m->slots[2 * k];
            m->slots[2 * i + 1] = m->slots[2 * k + 1];
            m->used[i] = 1;
            m->used[k] = 0;
            i = k;
        }
    }
    return 1;
}

int ea_u64_map_next(const ea_u64_map *m, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value) {
    for (; m->slots && *cursor <= m->mask; (*cursor)++) {
        if (!m->used[*cursor])
            continue;
        *ret_key = m->slots[2 * *cursor];
        *ret_value = m->slots[2 * *cursor + 1];
        (*cursor)++;
        return 1;
    }
    return 0;
}

struct ea_bytes_slot {
    const void *key; /* NULL: free */
    size_t len_bytes;
    uint64_t hash;
    void *value;
};

void ea_bytes_map_init(ea_bytes_map *m, size_t limit_count) {
    *m = (ea_bytes_map){.limit_count = limit_count};
}

void ea_bytes_map_deinit(ea_bytes_map *m) {
    free(m->slots);
    *m = (ea_bytes_map){.limit_count = m->limit_count};
}

void ea_bytes_map_clear(ea_bytes_map *m) {
    if (m->slots)
        memset(m->slots, 0, (m->mask + 1) * sizeof *m->slots);
    m->count = 0;
}

static struct ea_bytes_slot *find_bytes(const ea_bytes_map *m, const void *key, size_t len_bytes, uint64_t hash) {
    size_t i = (size_t)hash & m->mask;
    for (;; i = (i + 1) & m->mask) {
        struct ea_bytes_slot *s = &m->slots[i];
        if (!s->key || (s->hash == hash && s->len_bytes == len_bytes && memcmp(s->key, key, len_bytes) == 0))
            return s;
    }
}

void *ea_bytes_map_get(const ea_bytes_map *m, const void *key, size_t len_bytes) {
    if (!m->slots)
        return NULL;
    return find_bytes(m, key, len_bytes, ea_hash64(key, len_bytes, 0))->value;
}

int ea_bytes_map_put(ea_bytes_map *m, const void *key, size_t len_bytes, void *value) {
    uint64_t hash = ea_hash64(key, len_bytes, 0);
    struct ea_bytes_slot *s = m->slots ? find_bytes(m, key, len_bytes, hash) : NULL;
    if (s && s->key) {
        s->key = key;
        s->value = value;
        return 0;
    }
    if (m->limit_count && m->count >= m->limit_count)
        return EA_ELIMIT;
    if (!m->slots || (m->count + 1) * 4 > (m->mask + 1) * 3) {
        size_t size = m->slots ? (m->mask + 1) * 2 : 16;
        ea_bytes_map bigger = {.slots = calloc(size, sizeof *bigger.slots),
                               .mask = size - 1,
                               .count = m->count,
                               .limit_count = m->limit_count};
        if (!bigger.slots)
            return EA_ENOMEM;
        for (size_t k = 0; m->slots && k <= m->mask; k++)
            if (m->slots[k].key)
                *find_bytes(&bigger, m->slots[k].key, m->slots[k].len_bytes, m->slots[k].hash) = m->slots[k];
        free(m->slots);
        *m = bigger;
        s = NULL;
    }
    if (!s)
        s = find_bytes(m, key, len_bytes, hash);
    *s = (struct ea_bytes_slot){.key = key, .len_bytes = len_bytes, .hash = hash, .value = value};
    m->count++;
    return 0;
}

int ea_bytes_map_next(const ea_bytes_map *m, size_t *cursor, const void **ret_key, size_t *ret_len_bytes,
                      void **ret_value) {
    for (; m->slots && *cursor <= m->mask; (*cursor)++) {
        const struct ea_bytes_slot *s = &m->slots[*cursor];
        if (!s->key)
            continue;
        *ret_key = s->key;
        *ret_len_bytes = s->len_bytes;
        *ret_value = s->value;
        (*cursor)++;
        return 1;
    }
    return 0;
}
