/* A hash table from one to eight 64-bit keys to a fixed number of 64-bit words, bounded. Aggregations, maps and
 * variables of threads are such tables. Entries are numbered in the order of their coming; removal moves the last one
 * into the gap. Thread: the run's. */
#ifndef EA_LANG_LANG_TABLE_H
#define EA_LANG_LANG_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* The memory of a run: its tables, texts and distributions share one bound. */
typedef struct lang_memory {
    size_t used_bytes, limit_bytes;
    uint64_t seed; /* random: of hashes */
} lang_memory;

typedef struct lang_table {
    uint64_t *entries; /* of each: keys, then words */
    uint32_t *slots;   /* number + 1; 0: free */
    size_t mask, count, capacity;
    size_t last; /* the slot that was found last: it is looked at first, as one statement often follows another's key */
    size_t limit_count;
    lang_memory *memory;
    uint8_t key_count, word_count;
} lang_table;

void lang_table_init(lang_table *t, unsigned key_count, unsigned word_count, size_t limit_count, lang_memory *memory);
void lang_table_deinit(lang_table *t);
/* Forgets the entries, not the memory. */
void lang_table_clear(lang_table *t);

static inline uint64_t *lang_table_entry(const lang_table *t, size_t i) {
    return t->entries + i * (size_t)(t->key_count + t->word_count);
}

/* The words of these keys; NULL: there are none. */
uint64_t *lang_table_get(lang_table *t, const uint64_t *keys);
/* The same, which are new and zero when there were none; NULL: no room. Valid until the next call. */
uint64_t *lang_table_put(lang_table *t, const uint64_t *keys);
void lang_table_remove(lang_table *t, const uint64_t *keys);

#endif
