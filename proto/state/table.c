/* Rows by key in an array, chained hash buckets of indexes. See table.h. */
#include "proto/state/table.h"

#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

void ea_table_init(table *t, size_t row_bytes, uint64_t seed) {
    *t = (table){.row_bytes = row_bytes,
                 .seed = seed,
                 .free_row = ROW_NONE,
                 .lists = {{ROW_NONE, ROW_NONE, 0}, {ROW_NONE, ROW_NONE, 0}}};
}

void ea_table_deinit(table *t) {
    free(t->rows);
    free(t->buckets);
    ea_table_init(t, t->row_bytes, t->seed);
}

static row_head *table_head(const table *t, uint32_t row) {
    return ea_table_row(t, row);
}

/* Keys come from outside: without the seed, an attacker could choose keys that all fall into one bucket. */
static uint32_t table_bucket(const table *t, uint64_t key, uint32_t key2) {
    uint64_t both[2] = {key, key2};
    return (uint32_t)ea_hash64(both, sizeof both, t->seed) & t->bucket_mask;
}

uint32_t ea_table_find(const table *t, uint64_t key, uint32_t key2) {
    if (!t->buckets)
        return ROW_NONE;
    for (uint32_t i = t->buckets[table_bucket(t, key, key2)]; i != ROW_NONE; i = table_head(t, i)->bucket_next)
        if (table_head(t, i)->key == key && table_head(t, i)->key2 == key2)
            return i;
    return ROW_NONE;
}

enum { FIRST_CAPACITY = 64 };

size_t ea_table_capacity(size_t limit_bytes, size_t row_bytes) {
    size_t capacity = FIRST_CAPACITY;
    while (capacity < ROW_NONE / 4 && capacity * 2 * (row_bytes + sizeof(uint32_t)) <= limit_bytes)
        capacity *= 2;
    return capacity;
}

static int table_grow(table *t) {
    uint32_t capacity = t->capacity ? t->capacity * 2 : FIRST_CAPACITY;
    if (capacity >= ROW_NONE / 2 || (uint64_t)capacity * t->row_bytes > SIZE_MAX / 2)
        return -1;
    unsigned char *rows = realloc(t->rows, (size_t)capacity * t->row_bytes);
    if (!rows)
        return -1;
    t->rows = rows;
    uint32_t *buckets = malloc(capacity * sizeof *buckets);
    if (!buckets)
        return -1; /* the longer array does no harm */
    memset(buckets, 0xFF, capacity * sizeof *buckets);
    free(t->buckets);
    t->buckets = buckets;
    t->bucket_mask = capacity - 1;
    for (int list = 0; list < 2; list++)
        for (uint32_t i = t->lists[list].oldest; i != ROW_NONE; i = table_head(t, i)->newer) {
            uint32_t *b = &t->buckets[table_bucket(t, table_head(t, i)->key, table_head(t, i)->key2)];
            table_head(t, i)->bucket_next = *b;
            *b = i;
        }
    t->capacity = capacity;
    return 0;
}

static void table_link_newest(table *t, uint32_t row, enum row_list list) {
    row_list_ends *l = &t->lists[list];
    row_head *h = table_head(t, row);
    h->list = (uint8_t)list;
    h->older = l->newest;
    h->newer = ROW_NONE;
    if (l->newest != ROW_NONE)
        table_head(t, l->newest)->newer = row;
    else
        l->oldest = row;
    l->newest = row;
    l->count++;
}

static void link_oldest(table *t, uint32_t row, enum row_list list) {
    row_list_ends *l = &t->lists[list];
    row_head *h = table_head(t, row);
    h->list = (uint8_t)list;
    h->newer = l->oldest;
    h->older = ROW_NONE;
    if (l->oldest != ROW_NONE)
        table_head(t, l->oldest)->older = row;
    else
        l->newest = row;
    l->oldest = row;
    l->count++;
}

static void table_unlink_row(table *t, uint32_t row) {
    row_head *h = table_head(t, row);
    row_list_ends *l = &t->lists[h->list];
    if (h->older != ROW_NONE)
        table_head(t, h->older)->newer = h->newer;
    else
        l->oldest = h->newer;
    if (h->newer != ROW_NONE)
        table_head(t, h->newer)->older = h->older;
    else
        l->newest = h->older;
    l->count--;
}

uint32_t ea_table_add(table *t, uint64_t key, uint32_t key2, enum row_list list) {
    uint32_t row = t->free_row;
    if (row != ROW_NONE) {
        t->free_row = table_head(t, row)->bucket_next;
    } else {
        if (t->used == t->capacity && table_grow(t))
            return ROW_NONE;
        row = t->used++;
    }
    memset(ea_table_row(t, row), 0, t->row_bytes);
    row_head *h = table_head(t, row);
    h->key = key;
    h->key2 = key2;
    h->sibling_prev = h->sibling_next = ROW_NONE;
    uint32_t *b = &t->buckets[table_bucket(t, key, key2)];
    h->bucket_next = *b;
    *b = row;
    table_link_newest(t, row, list);
    return row;
}

void ea_table_remove(table *t, uint32_t row) {
    row_head *h = table_head(t, row);
    for (uint32_t *link = &t->buckets[table_bucket(t, h->key, h->key2)]; *link != ROW_NONE;
         link = &table_head(t, *link)->bucket_next)
        if (*link == row) {
            *link = h->bucket_next;
            break;
        }
    table_unlink_row(t, row);
    h->bucket_next = t->free_row;
    t->free_row = row;
}

void ea_table_move(table *t, uint32_t row, enum row_list list, int as_oldest) {
    table_unlink_row(t, row);
    if (as_oldest)
        link_oldest(t, row, list);
    else
        table_link_newest(t, row, list);
}
