/* The ring between a callback and its source. See ring.h.
 *
 * An entry is a length, an ea_record, its extended items, their data and the payload, each 8-aligned. An entry is never
 * split at the ring's end: if it does not fit there, a filler takes the rest and the entry is at the start. head and
 * tail count bytes without wrapping; each side keeps a copy of the other's counter and reads it again only when the
 * copy leaves it nothing to do. */
#include "service/source/ring.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 512, MINIMUM_BYTES = 1 << 20, LINE = 64 };

/* What was dropped of one kind. */
typedef struct kind {
    ea_record record; /* the putting thread's until used is set */
    atomic_int used;
    _Atomic uint64_t counts[2];  /* no room, oversize */
    uint64_t reported_counts[2]; /* the taking thread's: reported counts */
} kind;

typedef struct entry {
    uint64_t bytes; /* of all of it; FILLER: the rest of the ring is empty */
    ea_record record;
} entry;

static const uint64_t FILLER = UINT64_MAX;

struct ea_ring {
    uint8_t *data;
    size_t bytes;
    kind *kinds; /* KINDS; the last one is for those that found no place */

    /* each on lines of its own, so that the threads do not take them from each other at every record */
    char pad0[LINE];
    _Atomic uint64_t head; /* the putting thread writes it: where the next entry goes */
    uint64_t tail_seen;    /* the putting thread's copy */
    uint64_t new_head;     /* after the entry that is being written */
    uint64_t number;       /* of records put or dropped */
    char pad1[LINE];
    _Atomic uint64_t tail; /* the taking thread writes it: the oldest entry that is still of use */
    uint64_t head_seen;    /* the taking thread's copy */
    uint64_t next;         /* after the current entry */
    entry *now;            /* the last taken entry */
    size_t kind, cause;    /* where ea_ring_dropped goes on */
    char pad2[LINE];
};

static size_t up8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

int ea_ring_create(ea_ring **ret, size_t bytes, ea_err *err) {
    if (bytes < MINIMUM_BYTES || (bytes & (bytes - 1)))
        return ea_fail(err, EA_EINVAL, "a ring of %zu bytes", bytes);
    ea_ring *r = calloc(1, sizeof *r);
    if (r) {
        r->bytes = bytes;
        r->data = malloc(bytes);
        r->kinds = calloc(KINDS, sizeof *r->kinds);
    }
    if (!r || !r->data || !r->kinds) {
        ea_ring_destroy(r);
        return ea_fail(err, EA_ENOMEM, "make a ring of %zu bytes", bytes);
    }
    memset(r->data, 0xff, bytes); /* the pages are there before the first event comes */
    *ret = r;
    return 0;
}

void ea_ring_destroy(ea_ring *r) {
    if (!r)
        return;
    free(r->data);
    free(r->kinds);
    free(r);
}

/* ---- the putting thread ---- */

static int same_kind(const ea_record *a, const ea_record *b) {
    return memcmp(&a->provider, &b->provider, sizeof a->provider) == 0 && a->id == b->id && a->opcode == b->opcode &&
           a->version == b->version && a->flags == b->flags && a->pointer_size == b->pointer_size;
}

static int ring_drop(ea_ring *r, const ea_record *record, int is_oversize) {
    uint64_t first;
    memcpy(&first, &record->provider, sizeof first);
    size_t at = (size_t)((first ^ ((uint64_t)record->id << 8 | record->opcode)) * 0x9E3779B97F4A7C15u >> 32);
    kind *k = NULL;
    for (size_t i = 0; i < 16 && !k; i++) {
        kind *place = &r->kinds[(at + i) % (KINDS - 1)];
        if (!atomic_load_explicit(&place->used, memory_order_relaxed)) {
            memcpy(&place->record, record, EA_RECORD_KIND_BYTES);
            atomic_store_explicit(&place->used, 1, memory_order_release);
        }
        if (same_kind(&place->record, record))
            k = place;
    }
    if (!k) {
        k = &r->kinds[KINDS - 1];
        atomic_store_explicit(&k->used, 1, memory_order_release);
    }
    atomic_fetch_add_explicit(&k->counts[is_oversize], 1, memory_order_relaxed);
    return is_oversize ? EA_ELIMIT : EA_EFULL;
}

/* The place of an entry of so many bytes, at most a quarter of the ring; NULL: there is no room. */
static inline entry *ring_reserve(ea_ring *r, size_t need) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    size_t at = (size_t)head & (r->bytes - 1), to_end = r->bytes - at;
    size_t filler = need > to_end ? to_end : 0;
    uint64_t new_head = head + filler + need;
    if (new_head - r->tail_seen > r->bytes) {
        r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (new_head - r->tail_seen > r->bytes)
            return NULL;
    }
    if (filler) {
        memcpy(r->data + at, &FILLER, sizeof FILLER);
        at = 0;
    }
    r->new_head = new_head;
    entry *e = (entry *)(void *)(r->data + at);
    e->bytes = need;
    return e;
}

ea_record *ea_ring_begin(ea_ring *r, uint16_t payload_bytes) {
    static_assert(sizeof(entry) + UINT16_MAX + 1 <= MINIMUM_BYTES / 4, "no record without items is oversize");
    entry *e = ring_reserve(r, sizeof *e + up8(payload_bytes));
    if (!e)
        return NULL;
    e->record.position = r->number++;
    e->record.payload = (uint8_t *)(e + 1);
    return &e->record;
}

void ea_ring_commit(ea_ring *r) {
    atomic_store_explicit(&r->head, r->new_head, memory_order_release);
}

int ea_ring_put(ea_ring *r, const ea_record *record) {
    uint64_t number = r->number++;
    if (record->ext_count > EA_EXT_MAX) /* before its items are read: the caller may have no more */
        return ring_drop(r, record, 1);
    size_t need = sizeof(entry) + record->ext_count * sizeof(ea_ext) + up8(record->payload_bytes);
    for (size_t i = 0; i < record->ext_count; i++)
        need += up8(record->ext[i].size_bytes);
    if (need > r->bytes / 4)
        return ring_drop(r, record, 1);
    entry *e = ring_reserve(r, need);
    if (!e)
        return ring_drop(r, record, 0);
    e->record = *record;
    e->record.position = number;
    uint8_t *p = (uint8_t *)(e + 1);
    if (record->ext_count) {
        ea_ext *ext = (ea_ext *)(void *)p;
        p += record->ext_count * sizeof *ext;
        e->record.ext = ext;
        for (size_t i = 0; i < record->ext_count; i++) {
            ext[i] = record->ext[i];
            ext[i].data = p;
            if (ext[i].size_bytes)
                memcpy(p, record->ext[i].data, ext[i].size_bytes);
            p += up8(ext[i].size_bytes);
        }
    }
    e->record.payload = p;
    if (record->payload_bytes)
        memcpy(p, record->payload, record->payload_bytes);
    ea_ring_commit(r);
    return 0;
}

/* ---- the taking thread ---- */

int ea_ring_take(ea_ring *r, const ea_record **ret) {
    if (r->next != atomic_load_explicit(&r->tail, memory_order_relaxed)) /* what it had is of no use any more */
        atomic_store_explicit(&r->tail, r->next, memory_order_release);
    if (r->next == r->head_seen) {
        r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
        if (r->next == r->head_seen)
            return 0;
    }
    uint64_t bytes;
    size_t at = (size_t)r->next & (r->bytes - 1);
    memcpy(&bytes, r->data + at, sizeof bytes);
    if (bytes == FILLER) { /* an entry follows: both became visible together */
        r->next += r->bytes - at;
        at = 0;
    }
    entry *e = (entry *)(void *)(r->data + at);
    r->next += e->bytes;
    r->now = e;
    *ret = &e->record;
    return 1;
}

void ea_ring_renumber(ea_ring *r, uint64_t position) {
    r->now->record.position = position;
}

int ea_ring_dropped(ea_ring *r, ea_dropped *ret) {
    for (; r->kind < KINDS; r->kind++, r->cause = 0) {
        kind *k = &r->kinds[r->kind];
        if (!atomic_load_explicit(&k->used, memory_order_acquire))
            continue;
        for (; r->cause < 2; r->cause++) {
            uint64_t now = atomic_load_explicit(&k->counts[r->cause], memory_order_relaxed);
            if (now == k->reported_counts[r->cause])
                continue;
            *ret = (ea_dropped){.count = now - k->reported_counts[r->cause], .is_oversize = (int)r->cause};
            memcpy(&ret->kind, &k->record, EA_RECORD_KIND_BYTES);
            k->reported_counts[r->cause] = now;
            return 1;
        }
    }
    r->kind = r->cause = 0;
    return 0;
}

size_t ea_ring_used(const ea_ring *r) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    return (size_t)(atomic_load_explicit(&r->head, memory_order_acquire) - tail);
}
