/* Eviction: when the spool is full or a segment too old, a whole segment is replaced by tombstones.
 *
 * The order on disk is: write the tombstones (or, without room, note them as deferred: spool_deferred.c), save the
 * state in which the numbers are settled, then delete the segment. A crash in between leaves both tombstones and
 * batches. Then the tombstones are sent, and also those batches that are not settled in the state; a collector accepts
 * these in place of the tombstones. See spool_core.h. Thread: an encoder's (spool full), the maintenance thread (age).
 */
#include "proto/base/array.h"
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

/* An evicted batch. */
typedef struct gone {
    stream *stream;
    uint64_t number, event_count;
    int tombstone;      /* it is a tombstone itself; the rows that it has are added to `older` */
    size_t older_count; /* those */
    int64_t utc_min_ns, utc_max_ns;
} gone;

typedef struct eviction {
    ea_spool *s;
    enum ea_counter cause;
    uint64_t sequence;
    const segment *segment; /* its key decrypts encrypted batches */
    gone *list;
    size_t count;
    stream **streams; /* the distinct streams of the list: one or two, mostly */
    size_t stream_count;

    /* the rows of evicted tombstones, which are copied to the new tombstones */
    struct older {
        stream *stream;
        uint64_t under; /* the number of the evicted tombstone */
        ea_tombstone row;
    } * older;

    size_t older_count, older_capacity;
    gone *reading;         /* the tombstone that is being read */
    uint64_t moved_number; /* its number now, when its record has an older name; else 0 */
    int owes;              /* tombstones were deferred */
    ea_err *err;
} eviction;

/* The caller holds `lock`. The oldest evictable segment of the lowest priority; NULL when there is none. */
static segment *pick(const ea_spool *s, uint32_t max_priority, int64_t before_ns) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    segment *best = NULL;
    for (segment *g = s->segments; g; g = g->next)
        if (g->priority <= max_priority && !g->is_resumable && g->live && !g->taken && g->begun_ns < before_ns &&
            (!best || g->priority < best->priority || (g->priority == best->priority && g->sequence < best->sequence)))
            best = g;
    return best;
}

static int by_stream_and_number(const void *a, const void *b) {
    const gone *x = a, *y = b;
    if (x->stream != y->stream)
        return (uintptr_t)x->stream < (uintptr_t)y->stream ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The caller holds `lock`. Removes the segment's entries from the index. Their streams stay in memory until
 * ea_spool_unref_stream. */
static int spool_evict_collect(eviction *v, segment *g) EA_REQUIRES(v->s->lock) {
    ea_spool_assert_held(v->s, v->s->lock);
    ea_spool *s = v->s;
    if (s->o.is_recorder) {
        uint64_t earlier = ea_spool_let_go(v->s, g, ea_spool_counter(v->s, v->cause));
        if (s->o.counters) {
            ea_count(s->o.counters, EA_COUNT_recorder_files_removed, 1);
            ea_count(s->o.counters, EA_COUNT_recorder_earlier_removed, earlier);
        }
        return 0;
    }
    EA_ASSERT(!g->is_resumable && !g->taken); /* these are never evicted */
    v->list = calloc(g->live, sizeof *v->list);
    v->streams = calloc(g->live, sizeof *v->streams);
    if (!v->list || !v->streams)
        return ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", s->dir);
    const queue *queues[] = {&s->waiting[g->priority], &s->locked[g->priority]};
    for (size_t i = 0; i < 2; i++) {
        entry *next;
        for (entry *e = queues[i]->first; e; e = next) {
            next = e->next;
            if (e->segment != g)
                continue;
            v->list[v->count++] = (gone){
                .stream = e->stream, .number = e->number, .event_count = e->event_count, .tombstone = e->tombstone};
            ea_spool_move(e, EA_COUNT_events_spooled, v->cause);
            ea_spool_dequeue(v->s, e);
            ea_u64_map_remove(&e->stream->entries, e->number);
            g->live--; /* stream->live is not decremented: it keeps the stream in memory */
            ea_spool_free_entry(e);
        }
    }
    qsort(v->list, v->count, sizeof *v->list, by_stream_and_number);
    for (size_t i = 0; i < v->count; i++)
        if (!i || v->list[i].stream != v->list[i - 1].stream)
            v->streams[v->stream_count++] = v->list[i].stream;
    s->dirty = 1;
    return 0;
}

static int on_older(const ea_tombstone *t, void *arg) {
    eviction *v = arg;
    if (EA_GROW(v->older, v->older_capacity, v->older_count + 1, SIZE_MAX))
        return ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
    ea_tombstone row = *t;
    if (v->moved_number)
        row.first = row.last = v->moved_number;
    v->older[v->older_count++] = (struct older){v->reading->stream, v->reading->number, row};
    v->reading->older_count++;
    return 0;
}

static void drop_older(eviction *v, gone *g) {
    size_t n = 0;
    for (size_t i = 0; i < v->older_count; i++)
        if (v->older[i].stream != g->stream || v->older[i].under != g->number)
            v->older[n++] = v->older[i];
    v->older_count = n;
    g->older_count = 0;
}

static int spool_evict_on_record(const ea_spool_record *r, void *arg) {
    eviction *v = arg;
    ea_batch_head head;
    size_t i = 0;
    uint64_t number = r->number;
    ea_mutex_lock(v->s->lock);
    const stream *home = ea_spool_resolve_stream(v->s, r->stream, &number);
    ea_mutex_unlock(v->s->lock);
    while (i < v->stream_count && v->streams[i] != home)
        i++;
    if (i == v->stream_count)
        return 0;
    gone wanted = {.stream = v->streams[i], .number = number};
    gone *g = bsearch(&wanted, v->list, v->count, sizeof *v->list, by_stream_and_number);
    if (!g)
        return 0;
    if (g->tombstone && !(r->flags & EA_SPOOL_TOMBSTONE))
        return 0; /* the batch that the tombstone is of: its events are counted there */
    v->reading = g;
    v->moved_number = memcmp(home->state.stream, r->stream, EA_STREAM_ID_BYTES) != 0 ? number : 0;
    if (g->older_count) /* a second record of it names all numbers of the first */
        drop_older(v, g);
    if (g->tombstone)
        return ea_batch_each_tombstone(r->batch, r->len_bytes, on_older, v, v->err);
    ea_spool_record plain = *r;
    uint8_t *opened = NULL;
    int readable = !(r->flags & EA_SPOOL_SEALED);
    if (!readable && !v->segment->is_locked && (opened = malloc(r->len_bytes)) != NULL)
        readable = ea_spool_unseal(&v->segment->key, &plain, opened, NULL) == 0;
    if (readable && ea_batch_read_head(plain.batch, plain.len_bytes, &head, NULL) == 0 && head.event_count) {
        g->utc_min_ns = head.utc_min_ns;
        g->utc_max_ns = head.utc_max_ns;
    }
    free(opened);
    return 0;
}

/* Reads times and older tombstones from the file. If it cannot be read, the new tombstones lack them. */
static int read_segment(eviction *v) {
    char *data = NULL, *path = ea_spool_segment_path(v->s->dir, v->sequence);
    size_t len_bytes;
    ea_spool_scanned scanned;
    ea_err why = {0};
    int rc = path ? 0 : ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
    if (!rc && ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, &why) == 0)
        rc = ea_spool_scan((const uint8_t *)data, len_bytes, v->sequence, spool_evict_on_record, v, &scanned, &why);
    free(data);
    free(path);
    return rc == EA_ENOMEM ? ea_fail(v->err, rc, "evict from the spool %s", v->s->dir) : 0;
}

static void spool_evict_widen(ea_tombstone *t, const gone *g) {
    if (!g->utc_min_ns && !g->utc_max_ns)
        return;
    int known = t->utc_min_ns || t->utc_max_ns;
    if (!known || g->utc_min_ns < t->utc_min_ns)
        t->utc_min_ns = g->utc_min_ns;
    if (!known || g->utc_max_ns > t->utc_max_ns)
        t->utc_max_ns = g->utc_max_ns;
}

/* The caller holds `write_lock`. Writes the tombstones of list[0..count), which are of one stream, ordered, and fit
 * into one batch. Without room they are deferred. */
static int mark_gone(eviction *v, const gone *list, size_t count) EA_REQUIRES(v->s->write_lock) {
    ea_spool_assert_held(v->s, v->s->write_lock);
    stream *k = list[0].stream;
    size_t n = 0, room = count + v->older_count;
    ea_tombstone *rows = calloc(room, sizeof *rows);
    if (!rows)
        return ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
    for (size_t i = 0; i < count; i++) {
        const gone *g = &list[i];
        if (g->tombstone)
            continue; /* its own number is in the range of its rows */
        if (!n || rows[n - 1].last + 1 != g->number)
            rows[n++] = (ea_tombstone){.first = g->number, .cause = ea_counter_row(v->cause)->number};
        rows[n - 1].last = g->number;
        rows[n - 1].event_count += g->event_count;
        spool_evict_widen(&rows[n - 1], g);
    }
    for (size_t i = 0; i < v->older_count; i++)
        if (v->older[i].stream == k && v->older[i].under >= list[0].number &&
            v->older[i].under <= list[count - 1].number)
            rows[n++] = v->older[i].row;
    int rc = n ? ea_spool_write_tombstones(v->s, k->state.stream, list[0].number, rows, n, v->err) : 0;
    if (rc == EA_EFULL)
        ea_spool_defer_tombstones(v->s, k, list[0].number, rows, n);
    free(rows);
    if (rc == EA_EFULL) {
        v->owes = 1;
        return 0;
    }
    if (!rc) {
        ea_mutex_lock(v->s->lock);
        for (size_t i = 1; i < count; i++) /* all numbers are settled now except the tombstone's own number */
            if (ea_range_set_add(&k->state.acknowledged, list[i].number, list[i].number))
                rc = ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
        ea_mutex_unlock(v->s->lock);
    }
    return rc;
}

/* How many of list[0..count), which are of one stream, fit into one batch of tombstones: at least one does,
 * also an earlier agent's, which may have more rows. */
static size_t fitting(const gone *list, size_t count) {
    size_t n = 0, rows = 0;
    while (n < count) {
        size_t more = list[n].tombstone ? list[n].older_count : 1;
        if (n && rows + more > EA_WRITER_TOMBSTONES)
            break;
        rows += more;
        n++;
    }
    return n;
}

int ea_spool_evict(ea_spool *s, uint32_t max_priority, int64_t before_ns, enum ea_counter cause, ea_err *err) {
    eviction v = {.s = s, .cause = cause, .err = err};
    ea_file *file = NULL;
    ea_mutex_lock(v.s->write_lock);
    ea_mutex_lock(v.s->lock);
    segment *g = pick(v.s, max_priority, before_ns);
    int rc = g ? spool_evict_collect(&v, g) : 0;
    if (!g || rc) {
        ea_mutex_unlock(v.s->lock);
        ea_mutex_unlock(v.s->write_lock);
        free(v.list);
        free(v.streams);
        return rc;
    }
    if (s->active[g->priority] == g) {
        s->active[g->priority] = NULL;
        file = g->file;
        g->file = NULL;
    }
    v.sequence = g->sequence;
    v.segment = g; /* read_segment has finished with it before another thread may free it */
    ea_mutex_unlock(v.s->lock);
    ea_file_close(file);
    rc = s->o.is_recorder ? 0 : read_segment(&v);
    for (size_t done = 0, n; !rc && !s->o.is_recorder && done < v.count; done += n) {
        n = 1;
        while (done + n < v.count && v.list[done + n].stream == v.list[done].stream)
            n++;
        if (v.list[done].stream->state.resumable != EA_SPOOL_LIVE) /* a replay makes its batches again */
            continue;
        n = fitting(v.list + done, n);
        rc = mark_gone(&v, v.list + done, n);
    }
    if (v.owes)
        ea_spool_note_deferred(v.s);
    ea_mutex_lock(v.s->lock);
    ea_spool_retire_segment(v.s, g);
    for (size_t i = 0; i < v.count; i++) {
        v.list[i].stream->live--;
        if (i + 1 == v.count || v.list[i + 1].stream != v.list[i].stream)
            ea_spool_unref_stream(v.s, v.list[i].stream);
    }
    ea_mutex_unlock(v.s->lock);
    ea_mutex_unlock(v.s->write_lock);
    free(v.list);
    free(v.streams);
    free(v.older);
    if (!rc)
        rc = ea_spool_reap(s, 0, err);
    if (!rc && v.owes) { /* on a full disk there is room for tombstones after the segment was deleted */
        ea_mutex_lock(v.s->write_lock);
        ea_spool_write_deferred(v.s, 0);
        ea_mutex_unlock(v.s->write_lock);
    }
    return rc ? rc : 1;
}

int ea_spool_mark_one(ea_spool *s, stream *k, const ea_tombstone *t, ea_err *err) {
    ea_spool_assert_held(s, s->write_lock);
    int rc = EA_EFULL;
    if (s->o.is_recorder)
        return 0;
    if (ea_spool_has_place(s))
        rc = ea_spool_write_tombstones(s, k->state.stream, t->first, t, 1, err);
    if (rc != EA_EFULL)
        return rc;
    ea_spool_defer_tombstones(s, k, t->first, t, 1); /* no room even for a tombstone */
    ea_spool_note_deferred(s);
    return 0;
}

int ea_spool_evict_record(ea_spool *s, const ea_spool_record *r, const ea_family_count *families, size_t family_count,
                          enum ea_counter cause, ea_err *err) {
    ea_batch_head head;
    if (s->o.is_recorder)
        cause = EA_COUNT_events_unrecorded;
    ea_tombstone t = {
        .first = r->number, .last = r->number, .cause = ea_counter_row(cause)->number, .event_count = r->event_count};
    if (ea_batch_read_head(r->batch, r->len_bytes, &head, NULL) == 0 && head.event_count) {
        t.utc_min_ns = head.utc_min_ns;
        t.utc_max_ns = head.utc_max_ns;
    }
    ea_mutex_lock(s->write_lock); /* so that ea_spool_renew cannot run between the two steps */
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, r->stream);
    if (k && k->ledger)
        ea_ledger_post(k->ledger,
                       (ea_posting[]){{EA_COUNT_events_compressing, -(int64_t)r->event_count}, {cause, r->event_count}},
                       2, families, family_count);
    ea_mutex_unlock(s->lock);
    if (!k) {
        ea_mutex_unlock(s->write_lock);
        return ea_fail(err, EA_EINVAL, "evict from the spool %s: its stream is not open", s->dir);
    }
    int rc = ea_spool_mark_one(s, k, &t, err);
    ea_mutex_unlock(s->write_lock);
    return rc;
}
