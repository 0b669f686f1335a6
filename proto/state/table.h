/* One of the machine's tables: rows found by key, in two lists (open, and ended), each in the order in which rows came
 * into it. A row's first member is its row_head. Indexes stay; pointers are valid until the next table_add. Used by:
 * machine_tables.c. Thread: the machine's. */
#ifndef EA_STATE_TABLE_H
#define EA_STATE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { ROW_NONE = 0xFFFFFFFF };

enum row_list { LIST_OPEN = 0, LIST_ENDED = 1 };

typedef struct row_head {
    uint64_t key;
    uint32_t key2;
    uint32_t bucket_next;                /* also links the free rows */
    uint32_t older, newer;               /* in its list */
    uint32_t sibling_prev, sibling_next; /* open threads, or modules, of the same pid */
    uint32_t keyframe;                   /* the last one that named it */
    uint32_t rundown;                    /* likewise, and found it open */
    uint8_t list;                        /* enum row_list */
} row_head;

typedef struct row_list_ends {
    uint32_t oldest, newest;
    size_t count;
} row_list_ends;

typedef struct table {
    unsigned char *rows;
    size_t row_bytes;
    uint64_t seed;
    uint32_t capacity, used, free_row;
    uint32_t *buckets;
    uint32_t bucket_mask;
    row_list_ends lists[2];
} table;

void ea_table_init(table *t, size_t row_bytes, uint64_t seed); /* seed: random */
void ea_table_deinit(table *t);

static inline void *ea_table_row(const table *t, uint32_t row) {
    return t->rows + (size_t)row * t->row_bytes;
}

/* The most rows whose array and index take no more than so many bytes; 64 at the least, since a table begins so. */
size_t ea_table_capacity(size_t limit_bytes, size_t row_bytes);
/* The row of a key, or ROW_NONE. */
uint32_t ea_table_find(const table *t, uint64_t key, uint32_t key2);
/* A new zeroed row as the newest of the list; the key must not be there. ROW_NONE: no memory. */
uint32_t ea_table_add(table *t, uint64_t key, uint32_t key2, enum row_list list);
void ea_table_remove(table *t, uint32_t row);
/* Moves a row to a list, as its newest or its oldest. */
void ea_table_move(table *t, uint32_t row, enum row_list list, int as_oldest);

#endif
