/* The spool: streams, appending, sending. See spool.h; spool_core.h has the internals. */
#include "proto/base/array.h"
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

const char *ea_spool_folder(const ea_spool *s) {
    return s->dir;
}

const ea_spool_keys *ea_spool_keys_of(const ea_spool *s) {
    return s->keys;
}

/* ---- streams ---- */

static int spool_open_stream(ea_spool *s, const uint8_t *id, int resumable, uint64_t target, ea_ledger *ledger) {
    int rc = 0;
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, id);
    if (!k) {
        ea_spool_stream_state state = {.resumable = resumable ? EA_SPOOL_REPLAY : EA_SPOOL_LIVE, .target = target};
        memcpy(state.stream, id, EA_STREAM_ID_BYTES);
        rc = ea_spool_add_stream(s, &state, &k);
    } else if (!resumable && !k->open) {
        rc = EA_EEXIST; /* a live stream is one run of one agent */
    } else if (k->state.target != target || (k->state.resumable == EA_SPOOL_REPLAY_COMPLETE && !k->live)) {
        k->state.acknowledged.count = 0; /* for another target, or the replay runs again */
        k->state.target = target;
    }
    if (!rc) {
        k->open = 1;
        k->canceled = 0;
        k->ledger = ledger;
        k->state.resumable = resumable ? EA_SPOOL_REPLAY : EA_SPOOL_LIVE;
        s->dirty = 1;
    }
    ea_mutex_unlock(s->lock);
    return rc;
}

int ea_spool_stream(ea_spool *s, const uint8_t *id, int resumable, uint64_t target, ea_ledger *ledger, ea_err *err) {
    int rc, gone = 1;
    /* a recorder has a stream of an earlier run as long as its batches: no settlement ends one */
    while ((rc = spool_open_stream(s, id, resumable, target, ledger)) == EA_ELIMIT && s->o.is_recorder && gone > 0)
        gone = ea_spool_evict(s, EA_SPOOL_PRIORITIES - 1, INT64_MAX, EA_COUNT_events_evicted_size, err);
    if (gone < 0)
        return gone;
    if (rc)
        return ea_fail(err, rc, "open a stream in the spool %s", s->dir);
    if (resumable)
        return 0;
    ea_spool_reserve_deferred(s);
    /* saves the stream for the next process, even if this one ends early: numbers that are missing then are a hole,
     * which gets a tombstone. If the save fails here, the state stays dirty and is saved later. */
    EA_IGNORE(ea_spool_reap(s, 1, NULL));
    return 0;
}

static int spool_by_number(const void *a, const void *b) {
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The name that an entry of stream k has on disk. */
static const uint8_t *name_on_disk(const stream *k, const entry *e) {
    uint64_t there;
    for (size_t i = 0; e->moved && i < k->state.moved_count; i++)
        if (ea_spool_state_has_moved(&k->state, k->state.moved[i].stream, e->disk_number, &there) && there == e->number)
            return k->state.moved[i].stream;
    return k->state.stream;
}

/* Maps the entries, in the order of their numbers, to their records on disk. EA_ENOMEM, EA_ELIMIT. */
static int make_moved(ea_spool_stream_state *fresh, const stream *k, entry *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t *name = name_on_disk(k, list[i]);
        ea_spool_moved *m = fresh->moved_count ? &fresh->moved[fresh->moved_count - 1] : NULL;
        if (!m || memcmp(m->stream, name, EA_STREAM_ID_BYTES) != 0 ||
            list[i]->disk_number <= m->numbers.ranges[m->numbers.count - 1].last) {
            if (fresh->moved_count == EA_SPOOL_MOVED_MAX)
                return EA_ELIMIT;
            ea_spool_moved *grown = realloc(fresh->moved, (fresh->moved_count + 1) * sizeof *grown);
            if (!grown)
                return EA_ENOMEM;
            fresh->moved = grown;
            m = &fresh->moved[fresh->moved_count++];
            *m = (ea_spool_moved){.base = i + 1};
            memcpy(m->stream, name, EA_STREAM_ID_BYTES);
        }
        if (ea_range_set_add(&m->numbers, list[i]->disk_number, list[i]->disk_number))
            return EA_ENOMEM;
    }
    return 0;
}

/* The caller holds `lock`. All steps that may fail come first. */
static int spool_renew(ea_spool *s, const uint8_t *id, const uint8_t *fresh_id, uint64_t *ret_count)
    EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    stream *k = ea_spool_find_stream(s, id), *fresh = NULL;
    size_t count = 0, cursor = 0;
    uint64_t number, value;
    if (!k)
        return EA_ENOTFOUND;
    entry **list = calloc(k->live + 1, sizeof(entry *));
    ea_spool_stream_state state = {
        .resumable = EA_SPOOL_LIVE, .target = k->state.target, .highest = k->live + k->deferred_count};
    if (s->o.is_recorder) /* numbers stay what they are */
        state.highest = k->state.highest;
    int rc = list ? 0 : EA_ENOMEM;
    while (!rc && ea_u64_map_next(&k->entries, &cursor, &number, &value)) {
        entry *e = (entry *)(uintptr_t)value;
        list[count++] = e;
        if (e->taken)
            rc = EA_EBUSY;
    }
    memcpy(state.stream, fresh_id, sizeof state.stream);
    if (!rc) {
        qsort(list, count, sizeof(entry *), spool_by_number);
        rc = make_moved(&state, k, list, count);
    }
    for (size_t i = 0; !rc && i < count; i++) /* the old stream keeps no hole */
        rc = ea_range_set_add(&k->state.acknowledged, list[i]->number, list[i]->number);
    for (size_t i = 0; !rc && i < k->deferred_count; i++)
        rc = ea_range_set_add(&k->state.acknowledged, k->deferred[i].first, k->deferred[i].last);
    if (!rc)
        rc = ea_spool_add_stream(s, &state, &fresh);
    if (rc) {
        ea_spool_state_deinit(&state);
        free(list);
        return rc;
    }
    if (s->o.is_recorder)
        rc = ea_spool_renew_held(s, k, fresh);
    for (size_t i = 0; !rc && i < count; i++)
        rc = ea_spool_attach(list[i]->segment, fresh);
    for (size_t i = 0; !rc && i < count; i++)
        rc = ea_u64_map_put(&fresh->entries, i + 1, (uint64_t)(uintptr_t)list[i]);
    for (size_t i = 0; !rc && i < count; i++) {
        entry *e = list[i];
        ea_u64_map_remove(&k->entries, e->number);
        ea_spool_dequeue(s, e);
        e->stream = fresh;
        e->number = i + 1;
        e->moved = 1;
        ea_spool_enqueue(s, e, 0);
        k->live--;
        fresh->live++;
    }
    free(list);
    if (rc) { /* nothing has moved yet */
        ea_u64_map_deinit(&fresh->entries);
        ea_u64_map_init(&fresh->entries, 0);
        return rc;
    }
    fresh->open = k->open;
    fresh->canceled = k->canceled;
    fresh->ledger = k->ledger;
    fresh->deferred = k->deferred;
    fresh->deferred_count = k->deferred_count;
    fresh->deferred_under = count + 1;
    for (size_t i = 0; i < fresh->deferred_count; i++) /* a new number for each: their own belonged to the old stream */
        fresh->deferred[i].first = fresh->deferred[i].last = count + i + 1;
    k->deferred = NULL;
    k->deferred_count = 0;
    k->open = 0;
    free(k->state.numbers); /* its number belongs to another stream now: it gets no closing batch */
    k->state.numbers = NULL;
    *ret_count = state.highest;
    s->dirty = 1;
    ea_spool_unref_stream(s, k);
    return 0;
}

int ea_spool_renew(ea_spool *s, const uint8_t *id, const uint8_t *fresh, uint64_t *ret_count, ea_err *err) {
    ea_mutex_lock(s->write_lock);
    ea_mutex_lock(s->lock);
    int rc = spool_renew(s, id, fresh, ret_count), owes = s->deferring_streams != 0;
    ea_mutex_unlock(s->lock);
    ea_mutex_unlock(s->write_lock);
    rc = rc ? ea_fail(err, rc, "give a stream in the spool %s a new name", s->dir) : ea_spool_reap(s, 1, err);
    if (!rc && owes) {
        ea_mutex_lock(s->write_lock);
        ea_spool_note_deferred(s);
        ea_mutex_unlock(s->write_lock);
    }
    return rc;
}

void ea_spool_stream_end(ea_spool *s, const uint8_t *id, int complete) {
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, id);
    if (k) {
        k->open = 0;
        if (complete && k->state.resumable == EA_SPOOL_REPLAY)
            k->state.resumable = EA_SPOOL_REPLAY_COMPLETE; /* kept only while it has batches */
        ea_spool_unref_stream(s, k);
        s->dirty = 1;
    }
    ea_mutex_unlock(s->lock);
}

void ea_spool_detach(ea_spool *s, const ea_ledger *ledger) {
    ea_mutex_lock(s->lock);
    for (stream *k = s->streams; k; k = k->next) {
        size_t cursor = 0;
        uint64_t number, value;
        if (k->ledger != ledger)
            continue;
        ea_spool_take_numbers(k);
        k->ledger = NULL;
        while (ea_u64_map_next(&k->entries, &cursor, &number, &value)) {
            entry *e = (entry *)(uintptr_t)value;
            e->counted = 0;
            (void)ea_spool_set_families(e, NULL, 0); /* freeing does not fail */
        }
        for (const segment *g = s->segments; s->o.is_recorder && g; g = g->next)
            for (size_t i = 0; i < g->holding_count; i++)
                if (g->holdings[i].stream == k)
                    g->holdings[i].counted = 0;
    }
    ea_mutex_unlock(s->lock);
}

int ea_spool_claim(ea_spool *s, const uint8_t *id, uint64_t number, uint32_t event_count,
                   const ea_family_count *families, size_t family_count, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, id);
    entry *e = k ? ea_spool_find_entry(k, number) : NULL;
    if (!k) {
        rc = ea_fail(err, EA_EINVAL, "claim a batch: its stream is not open");
    } else if (e && e->event_count != event_count) {
        rc = ea_fail(err, EA_ECONFLICT,
                     "batch %llu is in the spool %s with %lu events and now has %lu: the files changed since it was "
                     "made; empty the "
                     "spool ('etwagent spool drain') or name another one",
                     (unsigned long long)number, s->dir, (unsigned long)e->event_count, (unsigned long)event_count);
    } else if (e && !e->counted && ea_spool_set_families(e, families, family_count)) {
        rc = ea_fail(err, EA_ENOMEM, "claim a batch");
    } else {
        enum ea_counter now = EA_COUNT_events_compressing;
        if (e) {
            now = e->taken ? EA_COUNT_events_unanswered : EA_COUNT_events_spooled;
            rc = EA_SPOOL_KEPT;
        } else if (ea_range_set_has(&k->state.acknowledged, number)) {
            now = EA_COUNT_events_acknowledged;
            rc = EA_SPOOL_ACKNOWLEDGED;
        }
        if (k->ledger && !(e && e->counted))
            ea_ledger_post(k->ledger,
                           (ea_posting[]){{EA_COUNT_events_pending, -(int64_t)event_count},
                                          {EA_COUNT_events_batched, event_count},
                                          {EA_COUNT_batches_closed, 1},
                                          {now, event_count}},
                           4, families, family_count);
        if (e)
            e->counted = 1;
        if (number > k->state.highest)
            k->state.highest = number;
    }
    ea_mutex_unlock(s->lock);
    return rc;
}

/* ---- appending ---- */

enum { SUMMARY_BYTES = 256 }; /* of a recorder's segment, mostly */

/* The caller holds `lock`. If live streams share the spool, a resumable stream has room only while half of both limits
 * is free. Exception: when the spool has no batch, all of it is free for one, so that a batch larger than half fits. */
static int spool_has_room(const ea_spool *s, uint64_t need, int is_resumable) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    uint64_t bytes = s->disk_bytes + s->reserved_bytes + need;
    size_t batches = s->waiting_count + s->locked_count + s->taken_count + s->reserved_batches;
    int half = is_resumable && s->o.live && batches;
    return bytes <= s->o.limit_bytes >> half && (s->o.is_recorder || batches < s->o.limit_batches >> half);
}

/* The caller holds `lock`; the function releases it meanwhile and takes it again. Deletes open segments without live
 * batches to make room. 1 when there was one to delete. */
static int free_idle(ea_spool *s, ea_err *err) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    int idle = s->dead != NULL;
    for (unsigned i = 0; i < SEGMENT_CLASSES; i++)
        idle |= s->active[i] && !s->active[i]->live;
    if (!idle)
        return 0;
    ea_mutex_unlock(s->lock);
    ea_mutex_lock(s->write_lock);
    ea_mutex_lock(s->lock);
    ea_file *files[SEGMENT_CLASSES] = {NULL};
    for (unsigned i = 0; i < SEGMENT_CLASSES; i++) {
        segment *g = s->active[i];
        if (g && !g->live) {
            files[i] = g->file;
            s->active[i] = NULL;
            ea_spool_retire_segment(s, g);
        }
    }
    ea_mutex_unlock(s->lock);
    for (unsigned i = 0; i < SEGMENT_CLASSES; i++)
        ea_file_close(files[i]);
    ea_mutex_unlock(s->write_lock);
    int rc = ea_spool_reap(s, 0, err);
    ea_mutex_lock(s->lock);
    return rc ? rc : 1;
}

/* The caller holds `lock`; the function releases it while it waits or makes room, and takes it again. 0: there is room.
 * EA_EFULL: there is none. For a live stream: no segment of the same or a lower priority can be evicted; for a
 * resumable stream: all batches are locked, so that none will leave. */
static int spool_make_room(ea_spool *s, const stream *k, uint64_t need, uint32_t priority, ea_err *err)
    EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    int is_resumable = k->state.resumable != EA_SPOOL_LIVE;
    if (need > s->o.limit_bytes)
        return ea_fail(err, EA_ELIMIT, "append to the spool %s: a batch of %llu bytes never fits into %llu", s->dir,
                       (unsigned long long)need, (unsigned long long)s->o.limit_bytes);
    for (;;) {
        if (s->canceled || k->canceled)
            return ea_fail(err, EA_ECANCELED, "append to the spool %s", s->dir);
        if (spool_has_room(s, need, is_resumable))
            return 0;
        int rc = free_idle(s, err);
        if (rc < 0)
            return rc;
        if (rc)
            continue;
        if (is_resumable) {
            if (s->locked_count && !s->waiting_count && !s->taken_count && !s->reserved_batches)
                return ea_fail(err, EA_EFULL,
                               "append to the spool %s: it is full of batches that none of its keys opens", s->dir);
            ea_cond_wait(s->room, s->lock);
            continue;
        }
        ea_mutex_unlock(s->lock);
        rc = ea_spool_evict(s, priority, INT64_MAX, EA_COUNT_events_evicted_size, err);
        ea_mutex_lock(s->lock);
        if (rc < 0)
            return rc;
        if (!rc && !spool_has_room(s, need, is_resumable))
            return ea_fail(err, EA_EFULL, "append to the spool %s", s->dir);
    }
}

int ea_spool_append(ea_spool *s, const ea_spool_batch *batch, ea_err *err) {
    if (batch->len_bytes == 0 || batch->len_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_EINVAL, "append to the spool %s: a batch of %zu bytes", s->dir, batch->len_bytes);
    ea_spool_record r = {
        .number = batch->number,
        .event_count = batch->event_count,
        .priority = (uint16_t)(batch->priority < EA_SPOOL_PRIORITIES ? batch->priority : EA_SPOOL_PRIORITIES - 1),
        .batch = batch->data,
        .len_bytes = (uint32_t)batch->len_bytes};
    memcpy(r.stream, batch->stream, sizeof r.stream);
    uint64_t need = EA_SPOOL_RECORD_BYTES + (uint64_t)r.len_bytes +
                    (s->keys ? EA_SPOOL_SEAL_BYTES + EA_SPOOL_SEALED_HEAD_BYTES : EA_SPOOL_HEAD_BYTES) +
                    (s->o.is_recorder ? SUMMARY_BYTES : 0);
    for (;;) {
        ea_mutex_lock(s->lock);
        const stream *k = ea_spool_find_stream(s, batch->stream);
        int is_resumable = k && k->state.resumable != EA_SPOOL_LIVE;
        r.flags = is_resumable ? EA_SPOOL_RESUMABLE : 0;
        int rc = k ? spool_make_room(s, k, need, r.priority, err)
                   : ea_fail(err, EA_EINVAL, "append to the spool %s: its stream is not open", s->dir);
        if (!rc) {
            s->reserved_bytes += need;
            s->reserved_batches++;
        }
        ea_mutex_unlock(s->lock);
        if (rc)
            return k && !is_resumable && (rc == EA_EFULL || rc == EA_ELIMIT)
                       ? ea_spool_evict_record(s, &r, batch->families, batch->family_count,
                                               EA_COUNT_events_evicted_size, err)
                       : rc;
        ea_mutex_lock(s->write_lock);
        rc = ea_spool_write_record(s, &r, batch->families, batch->family_count, err);
        if (!rc)
            ea_spool_write_deferred(s, 0);
        ea_mutex_unlock(s->write_lock);
        ea_mutex_lock(s->lock);
        EA_ASSERT(s->reserved_bytes >= need && s->reserved_batches);
        s->reserved_bytes -= need;
        s->reserved_batches--;
        size_t here = s->waiting_count + s->taken_count;
        k = ea_spool_find_stream(s, batch->stream);
        int canceled = s->canceled || (k && k->canceled);
        if (rc == EA_EFULL && is_resumable && !canceled && here)
            ea_cond_wait_for(s->room, s->lock, 1000000000);
        else
            ea_cond_broadcast(s->room); /* a reservation ended */
        ea_mutex_unlock(s->lock);
        if (rc != EA_EFULL || canceled)
            return rc;
        /* The disk is full; other programs may have filled it. Batches of the spool make room when they are sent or
         * evicted. */
        if (is_resumable && !here)
            return rc; /* no batch will leave; the replay makes this one again */
        if (!is_resumable) {
            int gone = ea_spool_evict(s, r.priority, INT64_MAX, EA_COUNT_events_evicted_size, err);
            if (gone < 0)
                return gone;
            if (!gone)
                return ea_spool_evict_record(s, &r, batch->families, batch->family_count, EA_COUNT_events_evicted_size,
                                             err);
        }
    }
}

void ea_spool_cancel(ea_spool *s, const uint8_t *id) {
    ea_mutex_lock(s->lock);
    stream *k = id ? ea_spool_find_stream(s, id) : NULL;
    if (k)
        k->canceled = 1;
    if (!id) {
        s->canceled = 1;
        ea_cond_broadcast(s->work);
    }
    ea_cond_broadcast(s->room);
    ea_mutex_unlock(s->lock);
}

/* ---- sending ---- */

size_t ea_spool_wait(ea_spool *s, int64_t timeout_ns) {
    int64_t until = ea_monotonic_ns() + timeout_ns;
    ea_mutex_lock(s->lock);
    while (!s->waiting_count && !s->canceled && !s->woken) {
        int64_t left = until - ea_monotonic_ns();
        if (left <= 0)
            break;
        ea_cond_wait_for(s->work, s->lock, left);
    }
    s->woken = 0;
    size_t n = s->waiting_count;
    ea_mutex_unlock(s->lock);
    return n;
}

void ea_spool_wake(ea_spool *s) {
    ea_mutex_lock(s->lock);
    s->woken = 1;
    ea_cond_broadcast(s->work);
    ea_mutex_unlock(s->lock);
}

/* The caller holds `lock`. The stream whose turn it is: among the streams with a waiting batch of the highest priority,
 * another one than the last served, so that batches of an earlier process do not starve new ones. */
static const stream *next_stream(const ea_spool *s) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    const queue *q = NULL;
    for (int p = EA_SPOOL_PRIORITIES - 1; p >= 0 && !q; p--)
        if (s->waiting[p].first)
            q = &s->waiting[p];
    if (!q)
        return NULL;
    if (s->streams_waiting > 1)
        for (const entry *e = q->first; e; e = e->next)
            if (e->stream != s->last_served)
                return e->stream;
    return q->first->stream;
}

size_t ea_spool_take(ea_spool *s, size_t max_bytes, ea_spool_item *items, size_t capacity) {
    size_t n = 0, bytes = 0;
    uint64_t events = 0;
    ea_mutex_lock(s->lock);
    const stream *k = s->last_served = next_stream(s);
    for (int p = EA_SPOOL_PRIORITIES - 1; k && p >= 0; p--) {
        entry *next;
        for (entry *e = s->waiting[p].first; e && n < capacity; e = next) {
            next = e->next;
            if (e->stream != k)
                continue;
            size_t need = (size_t)e->len_bytes + EA_UPLOAD_FRAME_BYTES;
            if (n && (bytes + need > max_bytes || events + e->event_count > EA_UPLOAD_MAX_EVENTS))
                break; /* keeps the order within a priority */
            bytes += need;
            events += e->event_count;
            ea_spool_dequeue(s, e);
            e->taken = 1;
            e->segment->taken++;
            s->taken_count++;
            ea_spool_move(e, EA_COUNT_events_spooled, EA_COUNT_events_unanswered);
            items[n] = (ea_spool_item){.entry = e,
                                       .number = e->number,
                                       .event_count = e->event_count,
                                       .len_bytes = e->len_bytes,
                                       .priority = e->priority,
                                       .is_resumable = k->state.resumable != EA_SPOOL_LIVE,
                                       .is_tombstone = e->tombstone};
            memcpy(items[n++].stream, k->state.stream, EA_STREAM_ID_BYTES);
        }
    }
    ea_mutex_unlock(s->lock);
    return n;
}

int ea_spool_read(ea_spool *s, const ea_spool_item *item, ea_text *out, ea_err *err) {
    /* no other thread changes a taken entry or its segment */
    const entry *e = item->entry;
    uint64_t sequence = e->segment->sequence;
    size_t n = EA_SPOOL_RECORD_BYTES + (size_t)e->len_bytes + (e->sealed ? EA_SPOOL_SEAL_BYTES : 0), got = 0;
    ea_spool_record r;
    uint8_t *data = malloc(n), *opened = e->sealed ? malloc(e->len_bytes) : NULL;
    int rc = data && (opened || !e->sealed) ? 0 : ea_fail(err, EA_ENOMEM, "read the spool %s", s->dir);
    ea_mutex_lock(s->read_lock);
    if (!rc && (!s->reader || s->reader_sequence != sequence)) {
        char *path = ea_spool_segment_path(s->dir, sequence);
        ea_file_close(s->reader);
        s->reader = NULL;
        rc = path ? ea_file_open(&s->reader, path, EA_OPEN_READ, err)
                  : ea_fail(err, EA_ENOMEM, "read the spool %s", s->dir);
        s->reader_sequence = sequence;
        free(path);
    }
    if (!rc)
        rc = ea_file_read_at(s->reader, e->offset, data, n, &got, err);
    ea_mutex_unlock(s->read_lock);
    if (!rc && (got != n || !ea_spool_get_record(data, n, sequence, &r) || r.number != e->disk_number ||
                ea_spool_batch_bytes(&r) != e->len_bytes || !(r.flags & EA_SPOOL_SEALED) != !e->sealed))
        rc = ea_fail(err, EA_ECORRUPT, "read batch %llu from the spool %s: it is damaged",
                     (unsigned long long)e->number, s->dir);
    if (!rc && e->sealed && (rc = ea_spool_unseal(&e->segment->key, &r, opened, err)) == EA_ECORRUPT)
        rc = ea_fail(err, rc, "read batch %llu from the spool %s: it was changed after it was encrypted",
                     (unsigned long long)e->number, s->dir);
    if (!rc && e->moved)
        rc = ea_batch_rename(r.batch, r.len_bytes, item->stream, item->number, out, err);
    else if (!rc)
        ea_text_add(out, r.batch, r.len_bytes);
    free(data);
    free(opened);
    return rc;
}

/* The tombstone of a live stream's batch that was taken and then refused or damaged. */
typedef struct pending_tombstone {
    stream *stream;
    ea_tombstone row;
} pending_tombstone;

/* Makes the tombstone of an item; its times are read from the batch if possible. */
static pending_tombstone pending_of(ea_spool *s, const ea_spool_item *item, enum ea_counter cause) {
    pending_tombstone g = {.stream = item->entry->stream,
                           .row = {.first = item->number,
                                   .last = item->number,
                                   .cause = ea_counter_row(cause)->number,
                                   .event_count = item->event_count}};
    ea_batch_head head;
    ea_text batch;
    ea_text_init(&batch);
    if (cause != EA_COUNT_events_evicted_damage && ea_spool_read(s, item, &batch, NULL) == 0 &&
        ea_batch_read_head((const uint8_t *)batch.data, batch.len_bytes, &head, NULL) == 0 && head.event_count) {
        g.row.utc_min_ns = head.utc_min_ns;
        g.row.utc_max_ns = head.utc_max_ns;
    }
    ea_text_deinit(&batch);
    return g;
}

/* Writes the tombstones of one ea_spool_settle. The caller has incremented `live` of their streams; this function
 * decrements it. */
static int spool_mark(ea_spool *s, const pending_tombstone *pending, size_t count, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(s->write_lock);
    for (size_t i = 0; i < count && !rc; i++)
        rc = ea_spool_mark_one(s, pending[i].stream, &pending[i].row, err);
    ea_mutex_unlock(s->write_lock);
    ea_mutex_lock(s->lock);
    for (size_t i = 0; i < count; i++) {
        pending[i].stream->live--;
        ea_spool_unref_stream(s, pending[i].stream);
    }
    ea_mutex_unlock(s->lock);
    return rc;
}

int ea_spool_settle(ea_spool *s, const ea_spool_item *items, const uint8_t *outcomes, size_t n, ea_err *err) {
    static const enum ea_counter to[] = {[EA_SPOOL_AGAIN] = EA_COUNT_events_spooled,
                                         [EA_SPOOL_DONE] = EA_COUNT_events_acknowledged,
                                         [EA_SPOOL_REFUSED] = EA_COUNT_events_evicted_refused,
                                         [EA_SPOOL_DAMAGED] = EA_COUNT_events_evicted_damage};

    pending_tombstone *pending = NULL;
    size_t pending_count = 0, capacity = 0;
    int rc = 0;
    /* A replay makes refused or damaged batches again. A refused tombstone is settled. */
    for (size_t i = 0; i < n && !rc; i++) {
        int is_gone = outcomes[i] == EA_SPOOL_REFUSED || outcomes[i] == EA_SPOOL_DAMAGED;
        if (!is_gone || items[i].is_resumable || items[i].is_tombstone)
            continue;
        if (EA_GROW(pending, capacity, pending_count + 1, SIZE_MAX))
            rc = ea_fail(err, EA_ENOMEM, "settle a batch of the spool %s", s->dir);
        else
            pending[pending_count++] = pending_of(s, &items[i], to[outcomes[i]]);
    }
    ea_mutex_lock(s->lock);
    for (size_t i = 0; i < pending_count; i++)
        pending[i].stream->live++; /* the stream stays in memory until its tombstone is written */
    for (size_t i = n; i--;) {     /* backwards, so that returned batches get their old order */
        entry *e = items[i].entry;
        EA_ASSERT(e->taken && e->segment->taken && s->taken_count);
        s->taken_count--;
        e->segment->taken--;
        e->taken = 0;
        ea_spool_move(e, EA_COUNT_events_unanswered, to[outcomes[i]]);
        if (outcomes[i] == EA_SPOOL_AGAIN) {
            ea_spool_enqueue(s, e, 1);
            continue;
        }
        s->damaged_count += outcomes[i] == EA_SPOOL_DAMAGED;
        /* Without memory for the range the acknowledgement is lost: the batch is sent again after a restart, and the
         * collector detects the duplicate. */
        int settled = outcomes[i] == EA_SPOOL_DONE || (outcomes[i] == EA_SPOOL_REFUSED && e->tombstone);
        if (settled && ea_range_set_add(&e->stream->state.acknowledged, e->number, e->number))
            rc = ea_fail(err, EA_ENOMEM, "note an acknowledgement in the spool %s", s->dir);
        ea_spool_remove_entry(s, e);
    }
    ea_cond_broadcast(s->room);
    ea_mutex_unlock(s->lock);
    int marked = pending_count ? spool_mark(s, pending, pending_count, rc ? NULL : err) : 0;
    free(pending);
    rc = rc ? rc : marked;
    int reaped = ea_spool_reap(s, 0, rc ? NULL : err);
    return rc ? rc : reaped;
}

/* ---- the maintenance thread: syncs, eviction by age and deferred tombstones do not depend on other threads ---- */

enum { LOOK_AT_AGES_NS = 1000000000 };

static int spool_keep(ea_spool *s, int64_t *aged_ns, ea_err *err) {
    int rc = 0;
    if (s->o.sync == EA_SPOOL_SYNC_INTERVAL)
        rc = ea_spool_sync(s, err);
    int64_t now = ea_monotonic_ns();
    if (!rc && s->o.limit_age_ns && now - *aged_ns >= LOOK_AT_AGES_NS) {
        *aged_ns = now;
        do
            rc = ea_spool_evict(s, EA_SPOOL_PRIORITIES - 1, now - s->o.limit_age_ns, EA_COUNT_events_evicted_age, err);
        while (rc > 0);
    }
    if (!rc) {
        ea_mutex_lock(s->write_lock);
        ea_spool_write_deferred(s, 0);
        ea_mutex_unlock(s->write_lock);
    }
    return rc;
}

static void maintenance_main(void *arg) {
    ea_spool *s = arg;
    int64_t aged_ns = ea_monotonic_ns() - LOOK_AT_AGES_NS;
    int by_interval = s->o.sync == EA_SPOOL_SYNC_INTERVAL;
    ea_mutex_lock(s->lock);
    while (!s->closing) {
        int64_t since = ea_monotonic_ns(), pause = by_interval ? s->o.sync_interval_ns : LOOK_AT_AGES_NS;
        if (s->o.limit_age_ns && pause > LOOK_AT_AGES_NS)
            pause = LOOK_AT_AGES_NS;
        if (!s->o.limit_age_ns && !s->has_unsynced && !s->deferring_streams)
            ea_cond_wait(s->tick, s->lock);
        while (!s->closing && ea_monotonic_ns() - since < pause)
            ea_cond_wait_for(s->tick, s->lock, pause - (ea_monotonic_ns() - since));
        if (s->closing)
            break;
        ea_mutex_unlock(s->lock);
        ea_err err;
        int rc = spool_keep(s, &aged_ns, &err);
        ea_mutex_lock(s->lock);
        if (rc && !s->error.code)
            s->error = err;
    }
    ea_mutex_unlock(s->lock);
}

int ea_spool_start_maintenance(ea_spool *s, ea_err *err) {
    return s->o.sync == EA_SPOOL_SYNC_INTERVAL || s->o.limit_age_ns
               ? ea_thread_start(&s->maintenance, "spool", maintenance_main, s, err)
               : 0;
}

void ea_spool_end_maintenance(ea_spool *s) {
    if (!s->maintenance)
        return;
    ea_mutex_lock(s->lock);
    s->closing = 1;
    ea_cond_broadcast(s->tick);
    ea_mutex_unlock(s->lock);
    ea_thread_join(s->maintenance);
    s->maintenance = NULL;
}

int ea_spool_sync(ea_spool *s, ea_err *err) {
    ea_mutex_lock(s->write_lock);
    ea_mutex_lock(s->lock);
    s->has_unsynced = 0;
    ea_mutex_unlock(s->lock);
    int rc = s->unsynced || s->deferred_unsynced ? ea_spool_sync_open(s, err) : 0;
    ea_mutex_unlock(s->write_lock);
    return rc;
}

int ea_spool_error(ea_spool *s, ea_err *err) {
    ea_mutex_lock(s->lock);
    int rc = s->error.code;
    if (rc && err)
        *err = s->error;
    ea_mutex_unlock(s->lock);
    return rc;
}

ea_descriptions *ea_spool_descriptions(ea_spool *s) {
    return s->descriptions;
}

void ea_spool_get_status(ea_spool *s, ea_spool_status *ret) {
    ea_mutex_lock(s->lock);
    *ret = (ea_spool_status){.disk_bytes = s->disk_bytes,
                             .waiting = s->waiting_count,
                             .locked = s->locked_count,
                             .taken = s->taken_count,
                             .damaged = s->damaged_count,
                             .streams = s->stream_count,
                             .first_utc_ns = INT64_MAX,
                             .limit_bytes = s->o.limit_bytes};
    for (unsigned i = 0; i < EA_SPOOL_PRIORITIES; i++)
        ret->events += s->waiting[i].events + s->locked[i].events;
    for (const segment *g = s->segments; s->o.is_recorder && g; g = g->next) {
        if (g->first_utc_ns < ret->first_utc_ns)
            ret->first_utc_ns = g->first_utc_ns;
        for (size_t i = 0; i < g->holding_count; i++) {
            *(g->is_locked ? &ret->locked : &ret->waiting) += (size_t)g->holdings[i].share.batches;
            ret->events += g->holdings[i].share.events;
        }
    }
    ea_mutex_unlock(s->lock);
}
