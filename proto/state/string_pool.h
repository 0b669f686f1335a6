/* The machine's strings, each kept once: module paths repeat in every process. Used by: machine_tables.c. Thread: the
 * machine's. */
#ifndef EA_STATE_STRING_POOL_H
#define EA_STATE_STRING_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ea_string_node ea_string_node;

typedef struct ea_string_pool {
    ea_string_node **buckets;
    size_t bucket_count, count;
    size_t used_bytes, limit_bytes;
} ea_string_pool;

void ea_string_pool_init(ea_string_pool *t, size_t limit_bytes);
void ea_string_pool_deinit(ea_string_pool *t); /* all strings become invalid */
/* A string that lives until it was released as often as it was taken; "" needs no memory. NULL when the bound is
 * reached or memory ran out. */
const char *ea_string_pool_take(ea_string_pool *t, const char *s, size_t len_bytes);
void ea_string_pool_release(ea_string_pool *t, const char *s);

#endif
