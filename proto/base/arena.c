/* Arenas. See arena.h. */
#include "proto/base/arena.h"

#include "proto/base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ea_arena_block {
    ea_arena_block *next;
    size_t size;
    size_t used;
    max_align_t data[];
};

enum { FIRST_BLOCK = 4096, LARGEST_STEP = 1 << 20, SPARE_MAX = 16 << 20 };

void ea_arena_init(ea_arena *a, size_t limit_bytes) {
    *a = (ea_arena){.limit_bytes = limit_bytes};
}

static void free_blocks(ea_arena_block *b) {
    while (b) {
        ea_arena_block *next = b->next;
        free(b);
        b = next;
    }
}

void ea_arena_deinit(ea_arena *a) {
    free_blocks(a->blocks);
    free_blocks(a->spare);
    a->blocks = a->spare = NULL;
    a->used_bytes = 0;
    a->is_out_of_memory = 0;
}

void ea_arena_reset(ea_arena *a) {
    ea_arena_block *kept = NULL;
    for (ea_arena_block *b = a->blocks; b;) {
        ea_arena_block *next = b->next;
        if (!kept || b->size > kept->size) {
            free(kept);
            kept = b;
        } else {
            free(b);
        }
        b = next;
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
    }
    a->blocks = kept;
    a->used_bytes = 0;
    a->is_out_of_memory = 0;
}

void ea_arena_recycle(ea_arena *a) {
    size_t bytes = 0;
    for (ea_arena_block *b = a->spare; b; b = b->next)
        bytes += b->size;
    for (ea_arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        bytes += b->size;
        if (bytes > SPARE_MAX) {
            bytes -= b->size;
            free(b);
            continue;
        }
        b->next = a->spare;
        a->spare = b;
    }
    a->blocks = NULL;
    a->used_bytes = 0;
    a->is_out_of_memory = 0;
}

/* The smallest spare block with so much room, which is no longer spare; NULL: there is none. */
static ea_arena_block *take_spare(ea_arena *a, size_t size) {
    ea_arena_block **best = NULL;
    for (ea_arena_block **at = &a->spare; *at; at = &(*at)->next)
        if ((*at)->size >= size && (!best || (*at)->size < (*best)->size))
            best = at;
    ea_arena_block *b = best ? *best : NULL;
    if (b)
        *best = b->next;
    return b;
}

int ea_arena_error(const ea_arena *a) {
    return a->is_out_of_memory ? EA_ENOMEM : EA_ELIMIT;
}

void *ea_arena_alloc(ea_arena *a, size_t size_bytes) {
    if (size_bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = (size_bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (a->limit_bytes && need > a->limit_bytes - a->used_bytes) {
        a->is_out_of_memory = 0;
        return NULL;
    }
    ea_arena_block *b = a->blocks;
    if (!b || b->size - b->used < need) {
        size_t size = b ? b->size * 2 : FIRST_BLOCK;
        if (size > LARGEST_STEP)
            size = LARGEST_STEP;
        if (size < need)
            size = need;
        b = take_spare(a, size);
        if (!b && (b = malloc(sizeof *b + size)))
            b->size = size;
        if (!b) {
            a->is_out_of_memory = 1;
            return NULL;
        }
        b->next = a->blocks;
        b->used = 0;
        a->blocks = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += need;
    a->used_bytes += need;
    return p;
}

void *ea_arena_zalloc(ea_arena *a, size_t count, size_t size_bytes) {
    if (size_bytes && count > SIZE_MAX / size_bytes)
        return NULL;
    void *p = ea_arena_alloc(a, count * size_bytes);
    if (p)
        memset(p, 0, count * size_bytes);
    return p;
}

void *ea_arena_copy(ea_arena *a, const void *data, size_t size_bytes) {
    void *p = ea_arena_alloc(a, size_bytes);
    if (p && size_bytes)
        memcpy(p, data, size_bytes);
    return p;
}

char *ea_arena_strdup(ea_arena *a, const char *s) {
    return ea_arena_copy(a, s, strlen(s) + 1);
}
