/* An arena: memory that is given back all at once. One batch, one parse, one query has one. Used by: every folder.
 * Thread: its owner's. */
#ifndef EA_BASE_ARENA_H
#define EA_BASE_ARENA_H

#include <stddef.h>

typedef struct ea_arena_block ea_arena_block;

typedef struct ea_arena {
    ea_arena_block *blocks; /* newest first */
    ea_arena_block *spare;  /* for the next ones: ea_arena_recycle */
    size_t used_bytes;      /* handed out since the last reset */
    size_t limit_bytes;     /* 0: no bound */
    int is_out_of_memory;   /* why the last allocation that failed did: 0 for the limit */
} ea_arena;

/* limit_bytes bounds what may be handed out between two resets; 0 for none. Allocates nothing yet. */
void ea_arena_init(ea_arena *a, size_t limit_bytes);
void ea_arena_deinit(ea_arena *a);
/* Everything handed out becomes invalid; the largest block is kept for the next round. */
void ea_arena_reset(ea_arena *a);
/* The same, but up to 16 MiB of blocks are kept: for rounds that take about as much, again and again. */
void ea_arena_recycle(ea_arena *a);
/* After an allocation that gave NULL: EA_ENOMEM when there was no memory, EA_ELIMIT when the limit was reached. */
int ea_arena_error(const ea_arena *a);
/* Uninitialised memory aligned for any type, or NULL (no memory, or the limit). size 0 gives a valid pointer. */
void *ea_arena_alloc(ea_arena *a, size_t size_bytes);
void *ea_arena_zalloc(ea_arena *a, size_t count, size_t size_bytes); /* zeroed; checks the product */
void *ea_arena_copy(ea_arena *a, const void *data, size_t size_bytes);
char *ea_arena_strdup(ea_arena *a, const char *s);

#endif
