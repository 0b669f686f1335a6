/* A bounded hash table. See lang_table.h. */
#include "proto/lang/lang_table.h"

#include "proto/base/err.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 64 };

void lang_table_init(lang_table *t, unsigned key_count, unsigned word_count, size_t limit_count, lang_memory *memory) {
    *t = (lang_table){.key_count = (uint8_t)key_count,
                      .word_count = (uint8_t)word_count,
                      .limit_count = limit_count,
                      .memory = memory};
}

static size_t table_bytes_of(const lang_table *t, size_t capacity) {
    return capacity * ((size_t)(t->key_count + t->word_count) * sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

void lang_table_deinit(lang_table *t) {
    EA_ASSERT(!t->memory || t->memory->used_bytes >= table_bytes_of(t, t->capacity));
    if (t->memory)
        t->memory->used_bytes -= table_bytes_of(t, t->capacity);
    free(t->entries);
    free(t->slots);
    *t = (lang_table){0};
}

/* Most tables have one key or two, and one word: those cost no call. */
static inline void table_copy(uint64_t *to, const uint64_t *from, size_t count) {
    if (count)
        to[0] = from[0];
    if (count == 2)
        to[1] = from[1];
    else if (count > 2)
        memcpy(to + 1, from + 1, (count - 1) * sizeof *to);
}

static inline size_t table_slot_of(const lang_table *t, const uint64_t *keys) {
    uint64_t h = t->memory->seed;
    for (unsigned i = 0; i < t->key_count; i++) {
        h ^= keys[i];
        h *= 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    /* the highest bits of a product depend on all bits of its factors, the lowest ones on the lowest alone */
    return (size_t)(h >> __builtin_clzll(t->mask));
}

void lang_table_clear(lang_table *t) {
    if (t->count > t->mask / 16) {
        memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    } else {
        for (size_t i = 0; i < t->count; i++) { /* costs what the entries cost, not what the table once held */
            size_t at = table_slot_of(t, lang_table_entry(t, i));
            while (t->slots[at] != i + 1)
                at = (at + 1) & t->mask;
            t->slots[at] = 0;
        }
    }
    t->count = 0;
}

static inline int table_same(const lang_table *t, const uint64_t *entry, const uint64_t *keys) {
    if (t->key_count && entry[0] != keys[0])
        return 0;
    for (unsigned i = 1; i < t->key_count; i++)
        if (entry[i] != keys[i])
            return 0;
    return 1;
}

/* The slot of these keys: 1 and *ret; 0: there is none, and *ret is free. The table has slots. */
static inline int table_find(lang_table *t, const uint64_t *keys, size_t *ret) {
    size_t at = t->last;
    if (t->slots[at] && table_same(t, lang_table_entry(t, t->slots[at] - 1), keys)) {
        *ret = at;
        return 1;
    }
    for (at = table_slot_of(t, keys); t->slots[at]; at = (at + 1) & t->mask)
        if (table_same(t, lang_table_entry(t, t->slots[at] - 1), keys)) {
            *ret = t->last = at;
            return 1;
        }
    *ret = at;
    return 0;
}

uint64_t *lang_table_get(lang_table *t, const uint64_t *keys) {
    size_t at;
    return t->slots && table_find(t, keys, &at) ? lang_table_entry(t, t->slots[at] - 1) + t->key_count : NULL;
}

static void table_fill_slots(lang_table *t) {
    memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    for (size_t i = 0; i < t->count; i++) {
        size_t at = table_slot_of(t, lang_table_entry(t, i));
        while (t->slots[at])
            at = (at + 1) & t->mask;
        t->slots[at] = (uint32_t)i + 1;
    }
}

static int lang_table_grow(lang_table *t) {
    size_t capacity = t->capacity ? t->capacity * 2 : FIRST;
    size_t more = table_bytes_of(t, capacity) - table_bytes_of(t, t->capacity);
    if (t->memory->used_bytes + more > t->memory->limit_bytes)
        return 0;
    uint64_t *entries =
        realloc(t->entries, capacity * (size_t)(t->key_count + t->word_count) * sizeof *entries + sizeof *entries);
    if (!entries)
        return 0;
    t->entries = entries;
    uint32_t *slots = calloc(2 * capacity, sizeof *slots);
    if (!slots)
        return 0;
    free(t->slots);
    t->slots = slots;
    t->last = 0;
    t->mask = 2 * capacity - 1;
    t->capacity = capacity;
    t->memory->used_bytes += more;
    table_fill_slots(t);
    return 1;
}

uint64_t *lang_table_put(lang_table *t, const uint64_t *keys) {
    size_t at = 0;
    if (t->slots && table_find(t, keys, &at))
        return lang_table_entry(t, t->slots[at] - 1) + t->key_count;
    if (t->count >= t->limit_count)
        return NULL;
    if (t->count == t->capacity) {
        if (!lang_table_grow(t))
            return NULL;
        at = table_slot_of(t, keys);
        while (t->slots[at])
            at = (at + 1) & t->mask;
    }
    EA_ASSERT(t->count < t->capacity && 2 * t->capacity == t->mask + 1); /* a free slot ends each search */
    uint64_t *entry = lang_table_entry(t, t->count);
    table_copy(entry, keys, t->key_count);
    entry[t->key_count] = 0;
    if (t->word_count > 1)
        memset(entry + t->key_count + 1, 0, (t->word_count - 1u) * sizeof *entry);
    t->slots[at] = (uint32_t)++t->count;
    t->last = at;
    return entry + t->key_count;
}

void lang_table_remove(lang_table *t, const uint64_t *keys) {
    size_t hole;
    if (!t->slots || !table_find(t, keys, &hole))
        return;
    EA_ASSERT(t->count && t->slots[hole] <= t->count);
    size_t gone = t->slots[hole] - 1, last = t->count - 1;
    /* what a probe sequence would no longer reach moves into the hole */
    t->slots[hole] = 0;
    for (size_t i = (hole + 1) & t->mask; t->slots[i]; i = (i + 1) & t->mask) {
        size_t home = table_slot_of(t, lang_table_entry(t, t->slots[i] - 1));
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->slots[hole] = t->slots[i];
            t->slots[i] = 0;
            hole = i;
        }
    }
    if (gone != last) {
        size_t at = table_slot_of(t, lang_table_entry(t, last));
        while (t->slots[at] != last + 1)
            at = (at + 1) & t->mask;
        t->slots[at] = (uint32_t)gone + 1;
        table_copy(lang_table_entry(t, gone), lang_table_entry(t, last), (size_t)t->key_count + t->word_count);
    }
    t->count--;
}
