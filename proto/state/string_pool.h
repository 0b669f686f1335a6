/* The machine's strings, each kept once: module paths repeat in every process. Used by: machine_tables.c. Thread: the
 * machine's. */
#ifndef EA_STATE_STRING_POOL_H
#define EA_STATE_STRING_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct text_node text_node;

typedef struct texts {
    text_node **buckets;
    size_t bucket_count, count;
    size_t used_bytes, limit_bytes;
} texts;

void ea_string_pool_init(texts *t, size_t limit_bytes);
void ea_string_pool_deinit(texts *t); /* all strings become invalid */
/* A string that lives until it was released as often as it was taken; "" needs no memory. NULL when the bound is
 * reached or memory ran out. */
const char *ea_string_pool_take(texts *t, const char *s, size_t len_bytes);
void ea_string_pool_release(texts *t, const char *s);

#endif
