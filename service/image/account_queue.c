/* See account_queue.h. */
#include "service/image/account_queue.h"

#include <stdlib.h>
#include <string.h>

void ea_account_queue_init(ea_account_queue *q, uint64_t seed) {
    *q = (ea_account_queue){.seed = seed};
    ea_u64_map_init(&q->known, EA_ACCOUNTS_MAX);
}

static void ring_push(ea_account_ring *r, ea_account_pair p) {
    r->items[(r->first + r->count++) % EA_ACCOUNTS_WAITING] = p;
}

static int ring_pop(ea_account_ring *r, ea_account_pair *ret) {
    if (!r->count)
        return 0;
    *ret = r->items[r->first];
    r->first = (r->first + 1) % EA_ACCOUNTS_WAITING;
    r->count--;
    return 1;
}

static size_t ring_clear(ea_account_ring *r) {
    size_t n = r->count;
    for (ea_account_pair p; ring_pop(r, &p);) {
        free(p.sid);
        free(p.name);
    }
    return n;
}

size_t ea_account_queue_clear(ea_account_queue *q) {
    return ring_clear(&q->waiting) + ring_clear(&q->found);
}

void ea_account_queue_deinit(ea_account_queue *q) {
    (void)ea_account_queue_clear(q);
    ea_u64_map_deinit(&q->known);
}

int ea_account_queue_ask(ea_account_queue *q, const char *sid) {
    uint64_t key = ea_hash64(sid, strlen(sid), q->seed);
    if (ea_u64_map_get(&q->known, key))
        return 0;
    /* each has a place in found, too */
    if (q->waiting.count + q->found.count + (size_t)q->is_at_hand >= EA_ACCOUNTS_WAITING)
        return EA_ELIMIT;
    char *copy = strdup(sid);
    int rc = copy ? ea_u64_map_put(&q->known, key, 1) : EA_ENOMEM;
    if (rc) {
        free(copy);
        return rc;
    }
    ring_push(&q->waiting, (ea_account_pair){.sid = copy});
    return 1;
}

char *ea_account_queue_next(ea_account_queue *q) {
    ea_account_pair p;
    if (!ring_pop(&q->waiting, &p))
        return NULL;
    q->is_at_hand = 1;
    return p.sid;
}

int ea_account_queue_put(ea_account_queue *q, char *sid, const char *name) {
    char *copy = name ? strdup(name) : NULL;
    q->is_at_hand = 0;
    if (copy)
        ring_push(&q->found, (ea_account_pair){sid, copy});
    else
        free(sid);
    return copy != NULL;
}

int ea_account_queue_take(ea_account_queue *q, ea_account_pair *ret) {
    return ring_pop(&q->found, ret);
}
