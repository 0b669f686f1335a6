/* Interned strings with reference counts: a chained hash table. See string_pool.h. */
#include "proto/state/string_pool.h"

#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

struct ea_string_node {
    ea_string_node *next;
    uint64_t hash;
    uint32_t len_bytes, references;
    char data[];
};

void ea_string_pool_init(ea_string_pool *t, size_t limit_bytes) {
    *t = (ea_string_pool){.limit_bytes = limit_bytes};
}

void ea_string_pool_deinit(ea_string_pool *t) {
    for (size_t i = 0; i < t->bucket_count; i++)
        for (ea_string_node *n = t->buckets[i], *next; n; n = next) {
            next = n->next;
            free(n);
        }
    free(t->buckets);
    *t = (ea_string_pool){.limit_bytes = t->limit_bytes};
}

static int pool_grow(ea_string_pool *t) {
    size_t count = t->bucket_count ? t->bucket_count * 2 : 64;
    ea_string_node **buckets = calloc(count, sizeof(ea_string_node *));
    if (!buckets)
        return -1;
    for (size_t i = 0; i < t->bucket_count; i++)
        for (ea_string_node *n = t->buckets[i], *next; n; n = next) {
            next = n->next;
            ea_string_node **head = &buckets[n->hash & (count - 1)];
            n->next = *head;
            *head = n;
        }
    free(t->buckets);
    t->buckets = buckets;
    t->bucket_count = count;
    return 0;
}

const char *ea_string_pool_take(ea_string_pool *t, const char *s, size_t len_bytes) {
    if (len_bytes == 0)
        return "";
    uint64_t hash = ea_hash64(s, len_bytes, 0);
    for (ea_string_node *n = t->bucket_count ? t->buckets[hash & (t->bucket_count - 1)] : NULL; n; n = n->next)
        if (n->hash == hash && n->len_bytes == len_bytes && memcmp(n->data, s, len_bytes) == 0) {
            n->references++;
            return n->data;
        }
    size_t size = sizeof(ea_string_node) + len_bytes + 1;
    if (len_bytes > UINT32_MAX / 2 || t->used_bytes + size > t->limit_bytes)
        return NULL;
    if (t->count >= t->bucket_count && pool_grow(t))
        return NULL;
    ea_string_node *n = malloc(size);
    if (!n)
        return NULL;
    ea_string_node **head = &t->buckets[hash & (t->bucket_count - 1)];
    n->next = *head;
    n->hash = hash;
    n->len_bytes = (uint32_t)len_bytes;
    n->references = 1;
    memcpy(n->data, s, len_bytes);
    n->data[len_bytes] = 0;
    *head = n;
    t->count++;
    t->used_bytes += size;
    return n->data;
}

void ea_string_pool_release(ea_string_pool *t, const char *s) {
    if (!*s)
        return;
    ea_string_node *n = (ea_string_node *)((uintptr_t)s - offsetof(ea_string_node, data));
    if (--n->references)
        return;
    for (ea_string_node **link = &t->buckets[n->hash & (t->bucket_count - 1)]; *link; link = &(*link)->next)
        if (*link == n) {
            *link = n->next;
            break;
        }
    t->count--;
    t->used_bytes -= sizeof(ea_string_node) + n->len_bytes + 1;
    free(n);
}
