/* What gives way when the spool is full or its content too old: whole segments, and tombstones in their place.
 *
 * The order on disk is: the tombstones, the state that calls the numbers settled, then the segment goes. A crash in
 * between leaves both; then the batches are sent after all, which is better than their tombstones, and a collector
 * knows that. See spool_core.h. Thread: an encoder's (full), the sender's (age). */
#include "spool_core.h"

#include <stdlib.h>
#include <string.h>

enum { OWED_MAX = 256 }; /* tombstones that wait for room, a stream */

/* A batch that goes. */
typedef struct gone {
    stream *stream;
    uint64_t number, event_count;
    int tombstone; /* it only stood for others; those follow in `older` */
    int64_t utc_min_ns, utc_max_ns;
} gone;

typedef struct eviction {
    ea_spool *s;
    enum ea_counter cause;
    uint64_t sequence;
    const segment *segment; /* its key opens what is sealed */
    gone *list;
    size_t count;
    stream **streams; /* distinct ones of the list: one or two, mostly */
    size_t stream_count;
    /* of tombstones that go with the segment: what they stood for goes on */
    struct older {
        stream *stream;
        ea_tombstone row;
    } * older;
    size_t older_count, older_capacity;
    stream *reading;       /* whose tombstone is being read */
    uint64_t moved_number; /* its number now, when its record has an older name; else 0 */
    ea_err *err;
} eviction;

/* With lock: the oldest segment of the lowest priority. */
static segment *pick(const ea_spool *s, uint32_t max_priority, int64_t before_ns) {
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

/* With lock: takes the segment's entries out of the index. Their streams stay until let_go. */
static int collect(eviction *v, segment *g) {
    ea_spool *s = v->s;
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
            ea_spool_dequeue(s, e);
            ea_u64_map_remove(&e->stream->entries, e->number);
            g->live--; /* stream->live is left: it keeps the stream here */
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
    if (v->older_count == v->older_capacity) {
        size_t capacity = v->older_capacity ? v->older_capacity * 2 : 16;
        struct older *grown = realloc(v->older, capacity * sizeof *grown);
        if (!grown)
            return ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
        v->older = grown;
        v->older_capacity = capacity;
    }
    ea_tombstone row = *t;
    if (v->moved_number)
        row.first = row.last = v->moved_number;
    v->older[v->older_count++] = (struct older){v->reading, row};
    return 0;
}

static int on_record(const ea_spool_record *r, void *arg) {
    eviction *v = arg;
    ea_batch_head head;
    size_t i = 0;
    uint64_t number = r->number;
    ea_mutex_lock(v->s->lock);
    const stream *home = ea_spool_home(v->s, r->stream, &number);
    ea_mutex_unlock(v->s->lock);
    while (i < v->stream_count && v->streams[i] != home)
        i++;
    if (i == v->stream_count)
        return 0;
    gone wanted = {.stream = v->streams[i], .number = number};
    gone *g = bsearch(&wanted, v->list, v->count, sizeof *v->list, by_stream_and_number);
    if (!g)
        return 0;
    v->reading = g->stream;
    v->moved_number = memcmp(home->state.stream, r->stream, EA_STREAM_ID_BYTES) != 0 ? number : 0;
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

/* Times and older tombstones are in the file. If it cannot be read, the tombstones say less. */
static int read_segment(eviction *v) {
    char *data = NULL, *path = ea_spool_segment_path(v->s->dir, v->sequence);
    size_t len_bytes;
    ea_spool_scanned scanned;
    ea_err why = {0};
    int rc = path ? 0 : ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
    if (!rc && ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, &why) == 0)
        rc = ea_spool_scan((const uint8_t *)data, len_bytes, v->sequence, on_record, v, &scanned, &why);
    free(data);
    free(path);
    return rc == EA_ENOMEM ? ea_fail(v->err, rc, "evict from the spool %s", v->s->dir) : 0;
}

static void widen(ea_tombstone *t, const gone *g) {
    if (!g->utc_min_ns && !g->utc_max_ns)
        return;
    int known = t->utc_min_ns || t->utc_max_ns;
    if (!known || g->utc_min_ns < t->utc_min_ns)
        t->utc_min_ns = g->utc_min_ns;
    if (!known || g->utc_max_ns > t->utc_max_ns)
        t->utc_max_ns = g->utc_max_ns;
}

/* A tombstone that is to be written when there is room, under that number if it is the first one. Without memory, or
 * with too many of them: the next opening finds the hole. With write_lock. */
static void owe(ea_spool *s, stream *k, uint64_t under, const ea_tombstone *t) {
    ea_mutex_lock(s->lock);
    ea_tombstone *last = k->owed_count ? &k->owed[k->owed_count - 1] : NULL;
    if (last && last->last + 1 == t->first && last->cause == t->cause) {
        last->last = t->last;
        last->event_count += t->event_count;
        if (t->utc_max_ns > last->utc_max_ns)
            last->utc_max_ns = t->utc_max_ns;
        if (t->utc_min_ns && t->utc_min_ns < last->utc_min_ns)
            last->utc_min_ns = t->utc_min_ns;
    } else if (k->owed_count < OWED_MAX) {
        ea_tombstone *grown = realloc(k->owed, (k->owed_count + 1) * sizeof *grown);
        if (grown) {
            if (!last) {
                k->owed_under = under;
                s->owing++;
                ea_cond_signal(s->tick);
            }
            k->owed = grown;
            k->owed[k->owed_count++] = *t;
        }
    }
    ea_mutex_unlock(s->lock);
}

/* With write_lock: the tombstones of list[0..count), which are of one stream. last_try: what finds no room is owed. */
static int mark_graves(eviction *v, const gone *list, size_t count, int last_try) {
    stream *k = list[0].stream;
    size_t n = 0, room = count + v->older_count;
    ea_tombstone *rows = calloc(room, sizeof *rows);
    if (!rows)
        return ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
    for (size_t i = 0; i < count; i++) {
        const gone *g = &list[i];
        if (g->tombstone)
            continue; /* its own number is in the range that it stood for */
        if (!n || rows[n - 1].last + 1 != g->number)
            rows[n++] = (ea_tombstone){.first = g->number, .cause = ea_counter_row(v->cause)->number};
        rows[n - 1].last = g->number;
        rows[n - 1].event_count += g->event_count;
        widen(&rows[n - 1], g);
    }
    for (size_t i = 0; i < v->older_count; i++)
        if (v->older[i].stream == k)
            rows[n++] = v->older[i].row;
    int rc = n ? ea_spool_write_tombstones(v->s, k->state.stream, list[0].number, rows, n, v->err) : 0;
    int is_owed = rc == EA_EFULL && last_try;
    for (size_t i = 0; is_owed && i < n; i++)
        owe(v->s, k, list[0].number, &rows[i]);
    free(rows);
    if (is_owed)
        return 0;
    if (!rc) {
        ea_mutex_lock(v->s->lock);
        for (size_t i = 1; i < count; i++) /* all but the one that the tombstone goes under need nothing more */
            if (ea_range_set_add(&k->state.acknowledged, list[i].number, list[i].number))
                rc = ea_fail(v->err, EA_ENOMEM, "evict from the spool %s", v->s->dir);
        ea_mutex_unlock(v->s->lock);
    }
    return rc;
}

int ea_spool_evict(ea_spool *s, uint32_t max_priority, int64_t before_ns, enum ea_counter cause, ea_err *err) {
    eviction v = {.s = s, .cause = cause, .err = err};
    ea_file *file = NULL;
    ea_mutex_lock(s->write_lock);
    ea_mutex_lock(s->lock);
    segment *g = pick(s, max_priority, before_ns);
    int rc = g ? collect(&v, g) : 0;
    if (!g || rc) {
        ea_mutex_unlock(s->lock);
        ea_mutex_unlock(s->write_lock);
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
    v.segment = g; /* read_segment is done with it before anybody may free it */
    ea_mutex_unlock(s->lock);
    ea_file_close(file);
    rc = read_segment(&v);
    /* On a full disk even a tombstone finds no room before the segment has gone; a second attempt then does, or owes it
     * until there is some. */
    size_t done = 0;
    for (int attempt = 0; attempt < 2 && done < v.count && (!rc || rc == EA_EFULL); attempt++) {
        rc = 0;
        while (!rc && done < v.count) {
            size_t n = 1;
            while (done + n < v.count && v.list[done + n].stream == v.list[done].stream)
                n++;
            if (v.list[done].stream->state.resumable == EA_SPOOL_LIVE) /* a replay makes its batches again */
                rc = mark_graves(&v, v.list + done, n, attempt == 1);
            if (!rc)
                done += n;
        }
        if (attempt == 0) {
            ea_mutex_lock(s->lock);
            ea_spool_bury(s, g);
            ea_mutex_unlock(s->lock);
            g = NULL;
            if (rc == EA_EFULL) {
                ea_mutex_unlock(s->write_lock);
                int reaped = ea_spool_reap(s, 0, err);
                ea_mutex_lock(s->write_lock);
                rc = reaped ? reaped : rc;
            }
        }
    }
    ea_mutex_lock(s->lock);
    if (g) /* it could not even be read for want of memory */
        ea_spool_bury(s, g);
    for (size_t i = 0; i < v.count; i++) {
        v.list[i].stream->live--;
        if (i + 1 == v.count || v.list[i + 1].stream != v.list[i].stream)
            ea_spool_let_go(s, v.list[i].stream);
    }
    ea_mutex_unlock(s->lock);
    ea_mutex_unlock(s->write_lock);
    free(v.list);
    free(v.streams);
    free(v.older);
    if (!rc)
        rc = ea_spool_reap(s, 0, err);
    return rc ? rc : 1;
}

/* With write_lock: 1 when tombstones may be added; they may go a little beyond both bounds. */
static int has_place(ea_spool *s) {
    ea_mutex_lock(s->lock);
    size_t batches = s->waiting_count + s->locked_count + s->taken_count;
    int has = s->disk_bytes <= s->o.limit_bytes + s->o.segment_bytes / 2 &&
              batches <= s->o.limit_batches + s->o.limit_batches / 8;
    ea_mutex_unlock(s->lock);
    return has;
}

/* With write_lock: those of one stream. 0: what could not be written now is owed still. */
static int write_owed(ea_spool *s, stream *k) {
    ea_err err;
    uint64_t under = k->owed_under;
    if (ea_spool_write_tombstones(s, k->state.stream, under, k->owed, k->owed_count, &err))
        return 0;
    ea_mutex_lock(s->lock);
    for (size_t i = 0; i < k->owed_count; i++) { /* all but the one that the tombstones go under need nothing more */
        const ea_tombstone *t = &k->owed[i];
        int holds = t->first <= under && under <= t->last, rc = 0;
        if (!holds)
            rc = ea_range_set_add(&k->state.acknowledged, t->first, t->last);
        if (holds && t->first < under)
            rc = ea_range_set_add(&k->state.acknowledged, t->first, under - 1);
        if (!rc && holds && under < t->last)
            rc = ea_range_set_add(&k->state.acknowledged, under + 1, t->last);
        if (rc)
            break; /* without memory: the next opening takes it for a hole, and tells again */
    }
    free(k->owed);
    k->owed = NULL;
    k->owed_count = 0;
    s->owing--;
    ea_mutex_unlock(s->lock);
    return 1;
}

void ea_spool_write_owed(ea_spool *s, int at_the_end) {
    int more = 1;
    while (more && (at_the_end || has_place(s))) {
        ea_mutex_lock(s->lock);
        stream *k = s->owing ? s->streams : NULL;
        while (k && !k->owed_count)
            k = k->next;
        ea_mutex_unlock(s->lock);
        more = k && write_owed(s, k); /* nobody forgets a stream that owes */
    }
}

int ea_spool_evict_record(ea_spool *s, const ea_spool_record *r, const ea_family_count *families, size_t family_count,
                          enum ea_counter cause, ea_err *err) {
    ea_batch_head head;
    ea_tombstone t = {
        .first = r->number, .last = r->number, .cause = ea_counter_row(cause)->number, .event_count = r->event_count};
    if (ea_batch_read_head(r->batch, r->len_bytes, &head, NULL) == 0 && head.event_count) {
        t.utc_min_ns = head.utc_min_ns;
        t.utc_max_ns = head.utc_max_ns;
    }
    ea_mutex_lock(s->write_lock); /* so that no renewal comes between the two */
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
    int rc = EA_EFULL;
    if (has_place(s))
        rc = ea_spool_write_tombstones(s, r->stream, r->number, &t, 1, err);
    if (rc == EA_EFULL) { /* no room even for a tombstone */
        owe(s, k, r->number, &t);
        rc = 0;
    }
    ea_mutex_unlock(s->write_lock);
    return rc;
}
