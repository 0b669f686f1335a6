/* See account_queue.h. */
#include "service/image/account_queue.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED = 1 }; /* in known: it waits, or has a name; else from when on it may be asked about again */

void ea_account_queue_init(ea_account_queue *q, uint64_t seed, int64_t again_ns) {
    *q = (ea_account_queue){.seed = seed, .again_ns = again_ns};
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

static uint64_t queue_key(const ea_account_queue *q, const char *sid) {
    return ea_hash64(sid, strlen(sid), q->seed);
}

int ea_account_queue_ask(ea_account_queue *q, const char *sid, int64_t now_ns) {
    uint64_t key = queue_key(q, sid), *known = ea_u64_map_get(&q->known, key);
    if (known && (*known == ASKED || now_ns < (int64_t)*known))
        return 0;
    /* each has a place in found, too */
    if (q->waiting.count + q->found.count + (size_t)q->is_at_hand >= EA_ACCOUNTS_WAITING)
        return EA_ELIMIT;
    char *copy = strdup(sid);
    int rc = !copy ? EA_ENOMEM : known ? 0 : ea_u64_map_put(&q->known, key, ASKED);
    if (rc) {
        free(copy);
        return rc;
    }
    if (known)
        *known = ASKED;
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

int ea_account_queue_put(ea_account_queue *q, char *sid, const char *name, int64_t now_ns) {
    char *copy = name ? strdup(name) : NULL;
    uint64_t *known = copy ? NULL : ea_u64_map_get(&q->known, queue_key(q, sid));
    q->is_at_hand = 0;
    if (known)
        *known = (uint64_t)(now_ns + q->again_ns);
    if (copy)
        ring_push(&q->found, (ea_account_pair){sid, copy});
    else
        free(sid);
    return copy != NULL;
}

int ea_account_queue_take(ea_account_queue *q, ea_account_pair *ret) {
    return ring_pop(&q->found, ret);
}
