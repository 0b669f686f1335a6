/* The spool's common parts: its index in memory, the state file, deleting segments. See spool_core.h. */
#include "service/spool/spool_core.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

int64_t ea_spool_age_clock(const ea_spool *s) {
    return s->opened_age_ns + (ea_monotonic_ns() - s->opened_ns);
}

char *ea_spool_join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", dir, name);
    return path;
}

char *ea_spool_segment_path(const char *dir, uint64_t sequence) {
    char name[32];
    snprintf(name, sizeof name, "%016llx.seg", (unsigned long long)sequence);
    return ea_spool_join(dir, name);
}

int ea_spool_segment_sequence(const char *name, uint64_t *ret) {
    uint8_t bytes[8];
    char hex[17];
    size_t n;
    if (strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
        return 0;
    memcpy(hex, name, 16);
    hex[16] = 0;
    if (ea_hex_parse(hex, bytes, sizeof bytes, &n) || n != sizeof bytes)
        return 0;
    uint64_t v = 0;
    for (size_t i = 0; i < 8; i++)
        v = v << 8 | bytes[i];
    *ret = v;
    return v != 0;
}

void ea_spool_enqueue(ea_spool *s, entry *e, int at_the_front) {
    ea_spool_assert_held(s, s->lock);
    EA_ASSERT(!e->taken);
    queue *q = e->locked ? &s->locked[e->priority] : &s->waiting[e->priority];
    e->prev = at_the_front ? NULL : q->last;
    e->next = at_the_front ? q->first : NULL;
    *(e->prev ? &e->prev->next : &q->first) = e;
    *(e->next ? &e->next->prev : &q->last) = e;
    q->count++;
    q->events += e->event_count;
    if (e->locked) {
        s->locked_count++;
        return;
    }
    s->waiting_count++;
    s->streams_waiting += e->stream->waiting++ == 0;
}

void ea_spool_dequeue(ea_spool *s, entry *e) {
    ea_spool_assert_held(s, s->lock);
    queue *q = e->locked ? &s->locked[e->priority] : &s->waiting[e->priority];
    EA_ASSERT(q->count && !e->taken);
    *(e->prev ? &e->prev->next : &q->first) = e->next;
    *(e->next ? &e->next->prev : &q->last) = e->prev;
    q->count--;
    q->events -= e->event_count;
    if (e->locked) {
        s->locked_count--;
        return;
    }
    s->waiting_count--;
    s->streams_waiting -= --e->stream->waiting == 0;
}

stream *ea_spool_find_stream(const ea_spool *s, const uint8_t *id) {
    ea_spool_assert_held(s, s->lock);
    for (stream *k = s->streams; k; k = k->next)
        if (memcmp(k->state.stream, id, EA_STREAM_ID_BYTES) == 0)
            return k;
    return NULL;
}

stream *ea_spool_resolve_stream(const ea_spool *s, const uint8_t *id, uint64_t *number) {
    ea_spool_assert_held(s, s->lock);
    uint64_t there;
    for (stream *k = s->streams; k; k = k->next)
        if (ea_spool_state_has_moved(&k->state, id, *number, &there)) {
            *number = there;
            return k;
        }
    return ea_spool_find_stream(s, id);
}

void ea_spool_free_stream(stream *k) {
    size_t cursor = 0;
    uint64_t number, e;
    while (ea_u64_map_next(&k->entries, &cursor, &number, &e)) /* at the end: entries whose batches stay on disk */
        ea_spool_free_entry((entry *)(uintptr_t)e);
    ea_u64_map_deinit(&k->entries);
    ea_spool_state_deinit(&k->state);
    free(k->deferred);
    free(k->base);
    free(k->covered.ranges);
    free(k);
}

int ea_spool_add_stream(ea_spool *s, const ea_spool_stream_state *state, stream **ret) {
    ea_spool_assert_held(s, s->lock);
    if (s->stream_count >= EA_SPOOL_STREAMS_MAX) {
        stream **at = &s->streams, **victim = NULL;
        for (; *at; at = &(*at)->next)
            if (!(*at)->open && !(*at)->live && !(*at)->segments && !(*at)->deferred_count)
                victim = at; /* the list runs from new to old */
        if (!victim)
            return EA_ELIMIT;
        stream *gone = *victim;
        *victim = gone->next;
        ea_spool_free_stream(gone);
        s->stream_count--;
    }
    stream *k = calloc(1, sizeof *k);
    if (!k)
        return EA_ENOMEM;
    k->state = *state;
    ea_u64_map_init(&k->entries, 0);
    k->next = s->streams;
    s->streams = k;
    s->stream_count++;
    *ret = k;
    return 0;
}

static void spool_core_forget_stream(ea_spool *s, stream *k) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    EA_ASSERT(!k->live && !k->segments && !k->deferred_count);
    stream **at = &s->streams;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    ea_spool_free_stream(k);
    s->stream_count--;
    s->dirty = 1;
}

void ea_spool_unref_stream(ea_spool *s, stream *k) {
    ea_spool_assert_held(s, s->lock);
    if (!k->live && !k->segments && !k->open && !k->deferred_count && !k->state.numbers &&
        k->state.resumable != EA_SPOOL_REPLAY)
        spool_core_forget_stream(s, k);
}

int ea_spool_attach(segment *g, stream *k) {
    for (size_t i = g->stream_count; i--;) /* the last one, mostly */
        if (g->streams[i] == k)
            return 0;
    stream **grown = realloc(g->streams, (g->stream_count + 1) * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    g->streams = grown;
    g->streams[g->stream_count++] = k;
    g->is_resumable |= k->state.resumable != EA_SPOOL_LIVE;
    k->segments++;
    return 0;
}

void ea_spool_free_segment(segment *g) {
    OPENSSL_cleanse(&g->key, sizeof g->key);
    for (size_t i = 0; i < g->holding_count; i++)
        free(g->holdings[i].share.numbers.ranges);
    free(g->holdings);
    free(g->streams);
    free(g);
}

entry *ea_spool_find_entry(const stream *k, uint64_t number) {
    const uint64_t *p = ea_u64_map_get(&k->entries, number);
    return p ? (entry *)(uintptr_t)*p : NULL;
}

void ea_spool_take_numbers(stream *k) {
    if (k->ledger && k->state.numbers)
        ea_last_numbers_take(k->state.numbers, k->ledger, k->base);
}

void ea_spool_move(const entry *e, enum ea_counter from, enum ea_counter to) {
    if (e->counted && e->stream->ledger)
        ea_ledger_post(e->stream->ledger, (ea_posting[]){{from, -(int64_t)e->event_count}, {to, e->event_count}}, 2,
                       e->families, e->family_count);
}

int ea_spool_set_families(entry *e, const ea_family_count *families, size_t family_count) {
    ea_family_count *copy = NULL;
    if (family_count) {
        copy = malloc(family_count * sizeof *copy);
        if (!copy)
            return EA_ENOMEM;
        memcpy(copy, families, family_count * sizeof *copy);
    }
    free(e->families);
    e->families = copy;
    e->family_count = (uint8_t)family_count;
    return 0;
}

void ea_spool_free_entry(entry *e) {
    if (!e)
        return;
    free(e->families);
    free(e);
}

int ea_spool_add_entry(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted,
                       const ea_family_count *families, size_t family_count) {
    ea_spool_assert_held(s, s->lock);
    entry *e = calloc(1, sizeof *e);
    if (!e || ea_spool_attach(g, k)) {
        free(e);
        return EA_ENOMEM;
    }
    *e = (entry){.segment = g,
                 .stream = k,
                 .number = r->number,
                 .disk_number = r->number,
                 .offset = (uint32_t)r->offset,
                 .len_bytes = ea_spool_batch_bytes(r),
                 .event_count = r->event_count,
                 .priority = (uint8_t)r->priority,
                 .sealed = r->flags & EA_SPOOL_SEALED ? 1 : 0,
                 .locked = r->flags & EA_SPOOL_SEALED && g->is_locked ? 1 : 0,
                 .counted = (uint8_t)counted,
                 .tombstone = r->flags & EA_SPOOL_TOMBSTONE ? 1 : 0};
    if (ea_spool_set_families(e, families, family_count) ||
        ea_u64_map_put(&k->entries, e->number, (uint64_t)(uintptr_t)e)) {
        ea_spool_free_entry(e);
        return EA_ENOMEM;
    }
    ea_spool_enqueue(s, e, 0);
    g->live++;
    k->live++;
    if (e->number > k->state.highest)
        k->state.highest = e->number;
    return 0;
}

void ea_spool_retire_segment(ea_spool *s, segment *g) {
    ea_spool_assert_held(s, s->lock);
    EA_ASSERT(!g->live && !g->taken);
    segment **at = &s->segments;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->next = s->dead;
    s->dead = g;
}

void ea_spool_remove_entry(ea_spool *s, entry *e) {
    ea_spool_assert_held(s, s->lock);
    segment *g = e->segment;
    stream *k = e->stream;
    EA_ASSERT(!e->taken && g->live && k->live);
    ea_u64_map_remove(&k->entries, e->number);
    k->live--;
    if (--g->live == 0 && s->active[ea_spool_segment_class(g->priority, g->is_resumable)] != g)
        ea_spool_retire_segment(s, g);
    ea_spool_unref_stream(s, k);
    s->dirty = 1;
    ea_spool_free_entry(e);
}

/* ---- the state file, and deleting segments ---- */

static int save_state(ea_spool *s, ea_err *err) EA_REQUIRES(s->save_lock) {
    ea_mutex_assert_held(s->save_lock);
    ea_text text;
    ea_text_init(&text);
    ea_mutex_lock(s->lock);
    ea_spool_state_begin(&text);
    /* from old to new, so that a reader, which adds at the front, gets the same order */
    size_t n = 0;
    const stream *list[EA_SPOOL_STREAMS_MAX];
    for (stream *k = s->streams; k; k = k->next) {
        ea_spool_take_numbers(k);
        list[n++] = k;
    }
    while (n)
        ea_spool_state_stream(&text, &list[--n]->state);
    s->dirty = 0;
    ea_mutex_unlock(s->lock);
    ea_spool_state_end(&text);
    char *path = ea_spool_join(s->dir, "state");
    int rc = text.failed || !path ? ea_fail(err, EA_ENOMEM, "save the state of the spool %s", s->dir)
                                  : ea_path_write_all(path, text.data, text.len_bytes, 1, err);
    free(path);
    ea_text_deinit(&text);
    if (rc) {
        ea_mutex_lock(s->lock);
        s->dirty = 1;
        ea_mutex_unlock(s->lock);
    }
    return rc;
}

int ea_spool_reap(ea_spool *s, int force_save, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(s->save_lock);
    ea_mutex_lock(s->lock);
    segment *dead = s->dead;
    s->dead = NULL;
    int64_t now = ea_monotonic_ns();
    int save = s->dirty && (dead || force_save || now - s->saved_ns > 1000000000);
    ea_mutex_unlock(s->lock);
    if (save) {
        rc = save_state(s, err);
        s->saved_ns = now;
    }
    /* On a full disk the state cannot be saved, and the deletion that would make room waits for it. So the segments are
     * deleted first. If the state is lost after that, a restart sends a deleted batch again only if a replay makes it
     * again; the collector detects the duplicate. */
    int full = rc == EA_EFULL;
    if (full)
        rc = 0;
    uint64_t freed = 0;
    segment *removed = NULL;
    while (dead && !rc) {
        ea_mutex_lock(s->read_lock);
        if (s->reader && s->reader_sequence == dead->sequence) {
            ea_file_close(s->reader);
            s->reader = NULL;
        }
        ea_mutex_unlock(s->read_lock);
        char *path = ea_spool_segment_path(s->dir, dead->sequence);
        rc = path ? ea_path_remove(path, err) : ea_fail(err, EA_ENOMEM, "delete a segment of the spool %s", s->dir);
        free(path);
        if (rc == EA_ENOTFOUND)
            rc = 0;
        if (!rc) {
            segment *next = dead->next;
            freed += dead->size_bytes;
            dead->next = removed;
            removed = dead;
            dead = next;
        }
    }
    if (full && freed && !rc && (rc = save_state(s, err)) == EA_EFULL)
        rc = 0; /* it stays dirty: the next time */
    ea_mutex_lock(s->lock);
    while (dead) { /* segments that could not be deleted now are tried again */
        segment *next = dead->next;
        dead->next = s->dead;
        s->dead = dead;
        dead = next;
    }
    while (removed) {
        segment *next = removed->next;
        for (size_t i = 0; i < removed->stream_count; i++) {
            removed->streams[i]->segments--;
            ea_spool_unref_stream(s, removed->streams[i]);
        }
        ea_spool_free_segment(removed);
        removed = next;
    }
    s->disk_bytes -= freed;
    ea_cond_broadcast(s->room);
    ea_mutex_unlock(s->lock);
    ea_mutex_unlock(s->save_lock);
    return rc;
}
