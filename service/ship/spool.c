/* The spool: index in memory, segments on disk. See spool.h; spool_file.h has the formats.
 *
 * Locks, outermost first; none is taken while a later one is held:
 *   save_lock    writing the state file, deleting segments
 *   write_lock   the open segments' files
 *   read_lock    the sender's open segment
 *   lock         everything in memory; never held during input or output
 * An append reserves its room before it takes write_lock, so that a full spool blocks only its appenders. */
#include "spool.h"
#include "map.h"
#include "platform.h"

#include <stdlib.h>
#include <string.h>

typedef struct stream stream;
typedef struct segment segment;
typedef struct ea_spool_entry entry;

struct ea_spool_entry {
    entry *prev, *next; /* in a queue */
    segment *segment;
    stream *stream;
    uint64_t number;
    uint32_t offset; /* of the record in its segment */
    uint32_t len_bytes, event_count;
    uint8_t priority;
    uint8_t taken;
    uint8_t counted; /* its events are in this process's ledger */
};

typedef struct queue {
    entry *first, *last;
    size_t count;
} queue;

struct segment {
    segment *next;
    uint64_t sequence, size_bytes;
    uint32_t priority;
    size_t live;   /* entries */
    ea_file *file; /* while it is open for appending; write_lock */
};

struct stream {
    stream *next;
    ea_spool_stream_state state;
    int open;           /* by this process */
    size_t live;        /* entries */
    ea_u64_map entries; /* number -> entry */
};

struct ea_spool {
    char *dir;
    ea_spool_options o;
    ea_file *lock_file;
    ea_descriptions *descriptions;
    ea_mutex *save_lock, *write_lock, *read_lock, *lock;
    ea_cond *room, *work; /* with lock */

    /* lock */
    queue waiting[EA_SPOOL_PRIORITIES];
    size_t taken_count, waiting_count;
    segment *segments; /* all on disk but the dead */
    segment *dead;     /* to be deleted */
    segment *active[EA_SPOOL_PRIORITIES];
    stream *streams;
    size_t stream_count;
    uint64_t disk_bytes, reserved_bytes, next_sequence;
    size_t reserved_batches;
    int canceled, woken;
    int dirty;  /* the state file is behind */
    int opened; /* recovery came to its end: what is in memory may be saved */

    int64_t synced_ns, saved_ns; /* write_lock, save_lock */
    int unsynced;                /* write_lock */
    ea_file *reader;             /* read_lock */
    uint64_t reader_sequence;
};

/* ---- small things ---- */

static void push_back(queue *q, entry *e) {
    e->next = NULL;
    e->prev = q->last;
    *(q->last ? &q->last->next : &q->first) = e;
    q->last = e;
    q->count++;
}

static void push_front(queue *q, entry *e) {
    e->prev = NULL;
    e->next = q->first;
    *(q->first ? &q->first->prev : &q->last) = e;
    q->first = e;
    q->count++;
}

static void unlink_entry(queue *q, entry *e) {
    *(e->prev ? &e->prev->next : &q->first) = e->next;
    *(e->next ? &e->next->prev : &q->last) = e->prev;
    q->count--;
}

static char *join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", dir, name);
    return path;
}

static char *segment_path(const char *dir, uint64_t sequence) {
    char name[32];
    snprintf(name, sizeof name, "%016llx.seg", (unsigned long long)sequence);
    return join(dir, name);
}

/* 1 when name is a segment's. */
static int segment_sequence(const char *name, uint64_t *ret) {
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

static stream *find_stream(const ea_spool *s, const uint8_t *id) {
    for (stream *k = s->streams; k; k = k->next)
        if (memcmp(k->state.stream, id, EA_STREAM_ID_BYTES) == 0)
            return k;
    return NULL;
}

static void free_stream(stream *k) {
    size_t cursor = 0;
    uint64_t number, e;
    while (ea_u64_map_next(&k->entries, &cursor, &number, &e)) /* at the end: those that stay on disk */
        free((entry *)(uintptr_t)e);
    ea_u64_map_deinit(&k->entries);
    free(k->state.acknowledged.ranges);
    free(k);
}

/* Takes state's memory. The oldest record of an abandoned replay gives way when there are too many. */
static int add_stream(ea_spool *s, const ea_spool_stream_state *state, stream **ret) {
    if (s->stream_count >= EA_SPOOL_STREAMS_MAX) {
        stream **at = &s->streams, **victim = NULL;
        for (; *at; at = &(*at)->next)
            if (!(*at)->open && !(*at)->live)
                victim = at; /* the list runs from new to old */
        if (!victim)
            return EA_ELIMIT;
        stream *gone = *victim;
        *victim = gone->next;
        free_stream(gone);
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

static void forget_stream(ea_spool *s, stream *k) {
    stream **at = &s->streams;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    free_stream(k);
    s->stream_count--;
    s->dirty = 1;
}

static entry *find_entry(const stream *k, uint64_t number) {
    const uint64_t *p = ea_u64_map_get(&k->entries, number);
    return p ? (entry *)(uintptr_t)*p : NULL;
}

static void move(ea_spool *s, const entry *e, enum ea_counter from, enum ea_counter to) {
    if (e->counted && s->o.ledger)
        ea_ledger_post(s->o.ledger, (ea_posting[]){{from, -(int64_t)e->event_count}, {to, e->event_count}}, 2);
}

/* Adds a record that is on disk to the index. Called with lock, or before there are threads. */
static int add_entry(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted) {
    entry *e = calloc(1, sizeof *e);
    if (!e)
        return EA_ENOMEM;
    *e = (entry){.segment = g,
                 .stream = k,
                 .number = r->number,
                 .offset = (uint32_t)r->offset,
                 .len_bytes = r->len_bytes,
                 .event_count = r->event_count,
                 .priority = (uint8_t)r->priority,
                 .counted = (uint8_t)counted};
    if (ea_u64_map_put(&k->entries, e->number, (uint64_t)(uintptr_t)e)) {
        free(e);
        return EA_ENOMEM;
    }
    push_back(&s->waiting[e->priority], e);
    s->waiting_count++;
    g->live++;
    k->live++;
    if (e->number > k->state.highest)
        k->state.highest = e->number;
    return 0;
}

/* Moves a segment without live batches to the dead. Called with lock; reap() does the rest. */
static void bury(ea_spool *s, segment *g) {
    segment **at = &s->segments;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->next = s->dead;
    s->dead = g;
}

/* The entry is done with; it is in no queue. Called with lock. */
static void remove_entry(ea_spool *s, entry *e) {
    segment *g = e->segment;
    stream *k = e->stream;
    ea_u64_map_remove(&k->entries, e->number);
    k->live--;
    if (--g->live == 0 && s->active[g->priority] != g)
        bury(s, g);
    if (!k->live && !k->open && !k->state.resumable)
        forget_stream(s, k);
    s->dirty = 1;
    free(e);
}

/* ---- the state file, and deleting what it makes superfluous ---- */

static int save_state(ea_spool *s, ea_err *err) {
    ea_text text;
    ea_text_init(&text);
    ea_mutex_lock(s->lock);
    ea_spool_state_begin(&text);
    /* from old to new, so that a reader, which adds at the front, gets the same order */
    size_t n = 0;
    const stream *list[EA_SPOOL_STREAMS_MAX];
    for (const stream *k = s->streams; k; k = k->next)
        list[n++] = k;
    while (n)
        ea_spool_state_stream(&text, &list[--n]->state);
    s->dirty = 0;
    ea_mutex_unlock(s->lock);
    ea_spool_state_end(&text);
    char *path = join(s->dir, "state");
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

/* Deletes the dead segments, after the state that says why has been saved. force_save: also without a segment. */
static int reap(ea_spool *s, int force_save, ea_err *err) {
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
    uint64_t freed = 0;
    while (dead && !rc) {
        ea_mutex_lock(s->read_lock);
        if (s->reader && s->reader_sequence == dead->sequence) {
            ea_file_close(s->reader);
            s->reader = NULL;
        }
        ea_mutex_unlock(s->read_lock);
        char *path = segment_path(s->dir, dead->sequence);
        rc = path ? ea_path_remove(path, err) : ea_fail(err, EA_ENOMEM, "delete a segment of the spool %s", s->dir);
        free(path);
        if (rc == EA_ENOTFOUND)
            rc = 0;
        if (!rc) {
            segment *next = dead->next;
            freed += dead->size_bytes;
            free(dead);
            dead = next;
        }
    }
    ea_mutex_lock(s->lock);
    while (dead) { /* what could not be deleted now is tried again */
        segment *next = dead->next;
        dead->next = s->dead;
        s->dead = dead;
        dead = next;
    }
    s->disk_bytes -= freed;
    ea_cond_broadcast(s->room);
    ea_mutex_unlock(s->lock);
    ea_mutex_unlock(s->save_lock);
    return rc;
}

/* ---- opening: what an earlier process left ---- */

typedef struct recovery {
    ea_spool *s;
    segment *segment;
    ea_err *err;
} recovery;

static int recover_stream(ea_spool_stream_state *state, void *arg) {
    recovery *r = arg;
    stream *k;
    if (find_stream(r->s, state->stream)) {
        free(state->acknowledged.ranges);
        return 0;
    }
    int rc = add_stream(r->s, state, &k);
    if (rc) {
        free(state->acknowledged.ranges);
        return ea_fail(r->err, rc, "recover the spool %s", r->s->dir);
    }
    return 0;
}

static int recover_record(const ea_spool_record *record, void *arg) {
    recovery *r = arg;
    stream *k = find_stream(r->s, record->stream);
    int rc = 0;
    if (!k) { /* the state file was lost, or is older than the stream */
        ea_spool_stream_state state = {.resumable = record->flags & EA_SPOOL_RESUMABLE ? 1 : 0};
        memcpy(state.stream, record->stream, sizeof state.stream);
        rc = add_stream(r->s, &state, &k);
    }
    if (!rc && !ea_range_set_has(&k->state.acknowledged, record->number) && !find_entry(k, record->number))
        rc = add_entry(r->s, k, r->segment, record, 0);
    return rc ? ea_fail(r->err, rc, "recover the spool %s", r->s->dir) : 0;
}

static void count(ea_spool *s, enum ea_counter which, uint64_t by) {
    if (s->o.counters && by)
        ea_count(s->o.counters, which, by);
}

/* A file that is no segment (or cannot be read) is set aside, not deleted: somebody may want to look at it. */
static int set_aside(ea_spool *s, const char *path, uint64_t len_bytes, ea_err *err) {
    size_t n = strlen(path) + 5;
    char *to = malloc(n);
    if (!to)
        return ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
    snprintf(to, n, "%s.bad", path);
    count(s, EA_COUNT_spool_bad_bytes, len_bytes);
    int rc = ea_path_rename(path, to, err);
    free(to);
    return rc;
}

static int recover_segment(ea_spool *s, uint64_t sequence, ea_err *err) {
    char *data = NULL, *path = segment_path(s->dir, sequence);
    size_t len_bytes = 0;
    segment *g = calloc(1, sizeof *g);
    ea_spool_scanned scanned = {0};
    recovery r = {s, g, err};
    ea_err why;
    int rc = path && g ? 0 : ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
    if (!rc && ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, &why)) {
        rc = set_aside(s, path, 0, err);
        free(path);
        free(g);
        return rc;
    }
    if (!rc) {
        g->sequence = sequence;
        g->next = s->segments;
        s->segments = g;
        if (len_bytes < EA_SPOOL_HEAD_BYTES) {
            scanned.torn_bytes = len_bytes; /* killed while it was being made */
        } else if (!ea_spool_is_head((const uint8_t *)data, len_bytes, sequence)) {
            rc = set_aside(s, path, len_bytes, err);
            s->segments = g->next;
            free(data);
            free(path);
            free(g);
            return rc;
        } else {
            rc = ea_spool_scan((const uint8_t *)data, len_bytes, sequence, recover_record, &r, &scanned, err);
            g->size_bytes = scanned.whole_bytes;
        }
    }
    free(data);
    if (!rc) {
        count(s, EA_COUNT_spool_torn_bytes, scanned.torn_bytes);
        count(s, EA_COUNT_spool_bad_bytes, scanned.bad_bytes);
        s->disk_bytes += g->size_bytes;
        ea_file *f;
        if (!g->live) {
            bury(s, g);
        } else if (scanned.torn_bytes && !(rc = ea_file_open(&f, path, EA_OPEN_APPEND, err))) {
            rc = ea_file_truncate(f, scanned.whole_bytes, err);
            ea_file_close(f);
        }
    } else if (g && g->sequence == 0) {
        free(g);
    }
    free(path);
    return rc;
}

static int recover_name(const char *name, int is_dir, void *arg) {
    recovery *r = arg;
    uint64_t sequence;
    size_t n = strlen(name);
    if (is_dir)
        return 0;
    if (n > 4 && strcmp(name + n - 4, ".tmp") == 0) {
        char *path = join(r->s->dir, name);
        int rc = path ? ea_path_remove(path, r->err) : ea_fail(r->err, EA_ENOMEM, "recover the spool %s", r->s->dir);
        free(path);
        return rc;
    }
    if (!segment_sequence(name, &sequence))
        return 0;
    if (sequence >= r->s->next_sequence)
        r->s->next_sequence = sequence + 1;
    return recover_segment(r->s, sequence, r->err);
}

/* *ret_state: the text, NULL when there is none. EA_ECORRUPT is left to the caller. */
static int read_state(const char *dir, int (*fn)(ea_spool_stream_state *, void *), void *arg, ea_err *err) {
    char *data = NULL, *path = join(dir, "state");
    size_t len_bytes = 0;
    if (!path)
        return ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    int rc = ea_path_read_all(path, EA_SPOOL_STATE_MAX, &data, &len_bytes, err);
    free(path);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (!rc)
        rc = ea_spool_state_parse(data, len_bytes, fn, arg, err);
    free(data);
    return rc;
}

static int recover(ea_spool *s, ea_err *err) {
    recovery r = {s, NULL, err};
    int rc = read_state(s->dir, recover_stream, &r, err);
    if (rc == EA_ECORRUPT || rc == EA_ELIMIT) {
        /* Without it everything that is still here is sent (again): the collector knows what it has. */
        char *path = join(s->dir, "state");
        rc = path ? set_aside(s, path, 0, err) : ea_fail(err, EA_ENOMEM, "open the spool %s", s->dir);
        free(path);
    }
    if (!rc)
        rc = ea_path_list(s->dir, recover_name, &r, err);
    /* streams of earlier processes that are done with */
    for (stream *k = s->streams, *next; !rc && k; k = next) {
        next = k->next;
        if (!k->live && !k->state.resumable)
            forget_stream(s, k);
    }
    return rc;
}

int ea_spool_open(ea_spool **ret, const char *dir, const ea_spool_options *options, ea_err *err) {
    ea_spool *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    s->o = *options;
    if (!s->o.limit_bytes)
        s->o.limit_bytes = (uint64_t)1 << 30;
    if (!s->o.segment_bytes)
        s->o.segment_bytes = 8 << 20;
    if (s->o.segment_bytes > 64 << 20)
        s->o.segment_bytes = 64 << 20;
    if (s->o.segment_bytes > s->o.limit_bytes / 4)
        s->o.segment_bytes = s->o.limit_bytes / 4;
    if (!s->o.limit_batches)
        s->o.limit_batches = 131072;
    if (!s->o.sync_interval_ns)
        s->o.sync_interval_ns = 1000000000;
    s->next_sequence = 1;
    s->synced_ns = s->saved_ns = ea_monotonic_ns();
    s->dir = join(dir, "");
    char *lock_path = join(dir, "lock"), *classes_path = join(dir, "classes");
    int rc = s->dir && lock_path && classes_path ? 0 : ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    if (!rc)
        s->dir[strlen(s->dir) - 1] = 0; /* without the slash */
    ea_mutex **locks[] = {&s->save_lock, &s->write_lock, &s->read_lock, &s->lock};
    for (size_t i = 0; !rc && i < 4; i++)
        rc = ea_mutex_create(locks[i], err);
    if (!rc)
        rc = ea_cond_create(&s->room, err);
    if (!rc)
        rc = ea_cond_create(&s->work, err);
    if (!rc)
        rc = ea_path_make_dirs(dir, err);
    if (!rc)
        rc = ea_file_open(&s->lock_file, lock_path, EA_OPEN_APPEND, err);
    if (!rc && (rc = ea_file_try_lock(s->lock_file, err)) == EA_EBUSY)
        rc = ea_fail(err, EA_EBUSY, "open the spool %s: another process has it; name another folder with --spool", dir);
    if (!rc)
        rc = recover(s, err);
    if (!rc)
        rc = ea_descriptions_open(&s->descriptions, classes_path, s->waiting_count == 0, err);
    if (!rc)
        rc = reap(s, 0, err);
    free(lock_path);
    free(classes_path);
    if (rc) {
        int ignored = ea_spool_close(s, NULL);
        (void)ignored;
        return rc;
    }
    s->opened = 1;
    *ret = s;
    return 0;
}

int ea_spool_close(ea_spool *s, ea_err *err) {
    int rc = 0;
    if (!s)
        return 0;
    for (int p = 0; p < EA_SPOOL_PRIORITIES; p++) {
        segment *g = s->active[p];
        if (!g)
            continue;
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER && g->live)
            rc = ea_file_sync(g->file, err);
        ea_file_close(g->file);
        s->active[p] = NULL;
        if (!g->live)
            bury(s, g);
    }
    for (stream *k = s->streams, *next; k; k = next) {
        next = k->next;
        k->open = 0;
        if (!k->live && !k->state.resumable)
            forget_stream(s, k);
    }
    if (s->opened && (s->dirty || s->dead)) {
        ea_err later;
        int reaped = reap(s, 1, rc ? &later : err);
        rc = rc ? rc : reaped;
    }
    for (segment *g = s->segments, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    for (segment *g = s->dead, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    for (stream *k = s->streams, *next; k; k = next) {
        next = k->next;
        free_stream(k);
    }
    ea_file_close(s->reader);
    ea_descriptions_close(s->descriptions);
    ea_file_close(s->lock_file);
    ea_cond_destroy(s->room);
    ea_cond_destroy(s->work);
    ea_mutex_destroy(s->save_lock);
    ea_mutex_destroy(s->write_lock);
    ea_mutex_destroy(s->read_lock);
    ea_mutex_destroy(s->lock);
    free(s->dir);
    free(s);
    return rc;
}

/* ---- streams ---- */

int ea_spool_stream(ea_spool *s, const uint8_t *id, int resumable, uint64_t target, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(s->lock);
    stream *k = find_stream(s, id);
    if (!k) {
        ea_spool_stream_state state = {.resumable = resumable, .target = target};
        memcpy(state.stream, id, EA_STREAM_ID_BYTES);
        rc = add_stream(s, &state, &k);
    } else if (k->state.target != target) {
        k->state.acknowledged.count = 0;
        k->state.target = target;
    }
    if (!rc) {
        k->open = 1;
        k->state.resumable = resumable;
        s->dirty = 1;
    }
    ea_mutex_unlock(s->lock);
    return rc ? ea_fail(err, rc, "open a stream in the spool %s", s->dir) : 0;
}

void ea_spool_stream_end(ea_spool *s, const uint8_t *id, int complete) {
    ea_mutex_lock(s->lock);
    stream *k = find_stream(s, id);
    if (k) {
        k->open = 0;
        if (complete)
            k->state.resumable = 0; /* from here on the record lives as long as its batches */
        if (!k->live && !k->state.resumable)
            forget_stream(s, k);
        s->dirty = 1;
    }
    ea_mutex_unlock(s->lock);
}

int ea_spool_claim(ea_spool *s, const uint8_t *id, uint64_t number, uint32_t event_count, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(s->lock);
    stream *k = find_stream(s, id);
    entry *e = k ? find_entry(k, number) : NULL;
    if (!k) {
        rc = ea_fail(err, EA_EINVAL, "claim a batch: its stream is not open");
    } else if (e && e->event_count != event_count) {
        rc = ea_fail(err, EA_ECONFLICT,
                     "batch %llu is in the spool %s with %lu events and now has %lu: the files changed since it was "
                     "made; empty the "
                     "spool ('etwagent spool drain') or name another one",
                     (unsigned long long)number, s->dir, (unsigned long)e->event_count, (unsigned long)event_count);
    } else {
        enum ea_counter now = EA_COUNT_events_compressing;
        if (e) {
            now = e->taken ? EA_COUNT_events_unanswered : EA_COUNT_events_spooled;
            rc = EA_SPOOL_KEPT;
        } else if (ea_range_set_has(&k->state.acknowledged, number)) {
            now = EA_COUNT_events_acknowledged;
            rc = EA_SPOOL_ACKNOWLEDGED;
        }
        if (s->o.ledger && !(e && e->counted))
            ea_ledger_post(s->o.ledger,
                           (ea_posting[]){{EA_COUNT_events_pending, -(int64_t)event_count},
                                          {EA_COUNT_events_batched, event_count},
                                          {EA_COUNT_batches_closed, 1},
                                          {now, event_count}},
                           4);
        if (e)
            e->counted = 1;
        if (number > k->state.highest)
            k->state.highest = number;
    }
    ea_mutex_unlock(s->lock);
    return rc;
}

/* ---- appending ---- */

/* Called with lock, which it lets go while it waits. */
static int wait_for_room(ea_spool *s, uint64_t need, ea_err *err) {
    if (need > s->o.limit_bytes)
        return ea_fail(err, EA_ELIMIT, "append to the spool %s: a batch of %llu bytes never fits into %llu", s->dir,
                       (unsigned long long)need, (unsigned long long)s->o.limit_bytes);
    for (;;) {
        if (s->canceled)
            return ea_fail(err, EA_ECANCELED, "append to the spool %s", s->dir);
        if (s->disk_bytes + s->reserved_bytes + need <= s->o.limit_bytes &&
            s->waiting_count + s->taken_count + s->reserved_batches < s->o.limit_batches)
            return 0;
        /* an open segment without live batches is room */
        int idle = s->dead != NULL;
        for (int p = 0; p < EA_SPOOL_PRIORITIES; p++)
            idle |= s->active[p] && !s->active[p]->live;
        if (!idle) {
            ea_cond_wait(s->room, s->lock);
            continue;
        }
        ea_mutex_unlock(s->lock);
        ea_mutex_lock(s->write_lock);
        ea_mutex_lock(s->lock);
        ea_file *files[EA_SPOOL_PRIORITIES] = {NULL};
        for (int p = 0; p < EA_SPOOL_PRIORITIES; p++) {
            segment *g = s->active[p];
            if (g && !g->live) {
                files[p] = g->file;
                s->active[p] = NULL;
                bury(s, g);
            }
        }
        ea_mutex_unlock(s->lock);
        for (int p = 0; p < EA_SPOOL_PRIORITIES; p++)
            ea_file_close(files[p]);
        ea_mutex_unlock(s->write_lock);
        int rc = reap(s, 0, err);
        ea_mutex_lock(s->lock);
        if (rc)
            return rc;
    }
}

/* The open segment for a record of need bytes; called with write_lock. */
static int segment_for(ea_spool *s, uint32_t priority, uint64_t need, segment **ret, ea_err *err) {
    ea_mutex_lock(s->lock);
    segment *g = s->active[priority];
    ea_file *full = NULL;
    if (g && g->size_bytes + need > s->o.segment_bytes && g->size_bytes > EA_SPOOL_HEAD_BYTES) {
        full = g->file;
        g->file = NULL;
        s->active[priority] = NULL;
        if (!g->live)
            bury(s, g);
        g = NULL;
    }
    uint64_t sequence = s->next_sequence;
    if (!g)
        s->next_sequence++;
    ea_mutex_unlock(s->lock);
    int rc = 0;
    if (full) {
        if (s->o.sync != EA_SPOOL_SYNC_NEVER)
            rc = ea_file_sync(full, err);
        ea_file_close(full);
        if (rc)
            return rc;
    }
    if (g) {
        *ret = g;
        return 0;
    }
    uint8_t head[EA_SPOOL_HEAD_BYTES];
    ea_spool_put_head(head, sequence, priority);
    char *path = segment_path(s->dir, sequence);
    g = calloc(1, sizeof *g);
    if (!path || !g) {
        free(path);
        free(g);
        return ea_fail(err, EA_ENOMEM, "append to the spool %s", s->dir);
    }
    rc = ea_file_open(&g->file, path, EA_OPEN_CREATE, err);
    if (!rc) {
        rc = ea_file_write_at(g->file, 0, head, sizeof head, err);
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER)
            rc = ea_path_sync_dir(s->dir, err);
        if (rc) {
            ea_file_close(g->file);
            int ignored = ea_path_remove(path, NULL);
            (void)ignored;
        }
    }
    free(path);
    if (rc) {
        free(g);
        return rc;
    }
    g->sequence = sequence;
    g->priority = priority;
    g->size_bytes = EA_SPOOL_HEAD_BYTES;
    ea_mutex_lock(s->lock);
    g->next = s->segments;
    s->segments = g;
    s->active[priority] = g;
    s->disk_bytes += g->size_bytes;
    ea_mutex_unlock(s->lock);
    *ret = g;
    return 0;
}

/* With write_lock: what was appended and is not synced yet. */
static int sync_open(ea_spool *s, ea_err *err) {
    int rc = ea_descriptions_sync(s->descriptions, err);
    for (int p = 0; !rc && p < EA_SPOOL_PRIORITIES; p++) {
        ea_mutex_lock(s->lock);
        ea_file *f = s->active[p] ? s->active[p]->file : NULL; /* only holders of write_lock close it */
        ea_mutex_unlock(s->lock);
        if (f && (s->unsynced & 1 << p))
            rc = ea_file_sync(f, err);
    }
    if (!rc)
        s->unsynced = 0;
    s->synced_ns = ea_monotonic_ns();
    return rc;
}

static int write_record(ea_spool *s, ea_spool_record *r, ea_err *err) {
    segment *g = NULL;
    uint64_t need = EA_SPOOL_RECORD_BYTES + (uint64_t)r->len_bytes;
    uint8_t fields[EA_SPOOL_RECORD_BYTES];
    size_t added = 0;
    ea_mutex_lock(s->write_lock);
    /* descriptions first: no batch on disk leans on one that is not */
    int rc = ea_descriptions_add_batch(s->descriptions, r->batch, r->len_bytes, &added, err);
    if (!rc)
        rc = segment_for(s, r->priority, need, &g, err);
    if (!rc) {
        r->offset = g->size_bytes; /* only holders of write_lock change an open segment's size */
        ea_spool_put_record(fields, r, g->sequence);
        rc = ea_file_write_at(g->file, r->offset, fields, sizeof fields, err);
        if (!rc)
            rc = ea_file_write_at(g->file, r->offset + sizeof fields, r->batch, r->len_bytes, err);
        s->unsynced |= 1 << r->priority;
        if (!rc && (s->o.sync == EA_SPOOL_SYNC_ALWAYS ||
                    (s->o.sync == EA_SPOOL_SYNC_INTERVAL && ea_monotonic_ns() - s->synced_ns >= s->o.sync_interval_ns)))
            rc = sync_open(s, err);
        if (rc) {
            /* half a record behind the good ones: cut it off, or leave it and go on in another file */
            ea_err ignored;
            int cut = ea_file_truncate(g->file, r->offset, &ignored);
            ea_mutex_lock(s->lock);
            ea_file *f = NULL;
            if (cut) {
                f = g->file;
                g->file = NULL;
                s->active[r->priority] = NULL;
                if (!g->live)
                    bury(s, g);
            }
            ea_mutex_unlock(s->lock);
            ea_file_close(f);
        }
    }
    if (!rc) {
        ea_mutex_lock(s->lock);
        stream *k = find_stream(s, r->stream);
        rc = k ? add_entry(s, k, g, r, 1) : EA_EINVAL;
        if (rc) {
            ea_fail(err, rc, "append to the spool %s", s->dir);
        } else {
            g->size_bytes += need;
            s->disk_bytes += need;
            s->dirty = 1;
            if (s->o.ledger)
                ea_ledger_post(s->o.ledger,
                               (ea_posting[]){{EA_COUNT_events_compressing, -(int64_t)r->event_count},
                                              {EA_COUNT_events_spooled, r->event_count}},
                               2);
            ea_cond_signal(s->work);
        }
        ea_mutex_unlock(s->lock);
    }
    ea_mutex_unlock(s->write_lock);
    return rc;
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
    uint64_t need = EA_SPOOL_RECORD_BYTES + (uint64_t)r.len_bytes + EA_SPOOL_HEAD_BYTES;
    for (;;) {
        ea_mutex_lock(s->lock);
        const stream *k = find_stream(s, batch->stream);
        r.flags = k && k->state.resumable ? EA_SPOOL_RESUMABLE : 0;
        int rc = wait_for_room(s, need, err);
        if (!rc) {
            s->reserved_bytes += need;
            s->reserved_batches++;
        }
        ea_mutex_unlock(s->lock);
        if (rc)
            return rc;
        rc = write_record(s, &r, err);
        ea_mutex_lock(s->lock);
        s->reserved_bytes -= need;
        s->reserved_batches--;
        /* A full disk: others may have filled it. While batches are here, each that leaves can make room. */
        if (rc == EA_EFULL && !s->canceled && s->waiting_count + s->taken_count) {
            ea_cond_wait_for(s->room, s->lock, 1000000000);
            ea_mutex_unlock(s->lock);
            continue;
        }
        ea_cond_broadcast(s->room); /* a reservation went */
        ea_mutex_unlock(s->lock);
        return rc;
    }
}

void ea_spool_cancel(ea_spool *s) {
    ea_mutex_lock(s->lock);
    s->canceled = 1;
    ea_cond_broadcast(s->room);
    ea_cond_broadcast(s->work);
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

size_t ea_spool_take(ea_spool *s, size_t max_bytes, ea_spool_item *items, size_t capacity) {
    size_t n = 0, bytes = 0;
    const stream *only = NULL;
    ea_mutex_lock(s->lock);
    for (int p = EA_SPOOL_PRIORITIES - 1; p >= 0; p--) {
        entry *next;
        for (entry *e = s->waiting[p].first; e && n < capacity; e = next) {
            next = e->next;
            size_t need = (size_t)e->len_bytes + EA_UPLOAD_FRAME_BYTES;
            if ((only && e->stream != only) || (n && bytes + need > max_bytes))
                break; /* in order within a priority */
            only = e->stream;
            bytes += need;
            unlink_entry(&s->waiting[p], e);
            e->taken = 1;
            s->waiting_count--;
            s->taken_count++;
            move(s, e, EA_COUNT_events_spooled, EA_COUNT_events_unanswered);
            items[n] = (ea_spool_item){.entry = e,
                                       .number = e->number,
                                       .event_count = e->event_count,
                                       .len_bytes = e->len_bytes,
                                       .priority = e->priority};
            memcpy(items[n++].stream, e->stream->state.stream, EA_STREAM_ID_BYTES);
        }
    }
    ea_mutex_unlock(s->lock);
    return n;
}

int ea_spool_read(ea_spool *s, const ea_spool_item *item, ea_text *out, ea_err *err) {
    /* a taken entry and its segment stay as they are */
    const entry *e = item->entry;
    uint64_t sequence = e->segment->sequence;
    size_t n = EA_SPOOL_RECORD_BYTES + (size_t)e->len_bytes, got = 0;
    ea_spool_record r;
    uint8_t *data = malloc(n);
    int rc = data ? 0 : ea_fail(err, EA_ENOMEM, "read the spool %s", s->dir);
    ea_mutex_lock(s->read_lock);
    if (!rc && (!s->reader || s->reader_sequence != sequence)) {
        char *path = segment_path(s->dir, sequence);
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
    if (!rc && (got != n || !ea_spool_get_record(data, n, sequence, &r) || r.number != e->number ||
                r.len_bytes != e->len_bytes))
        rc = ea_fail(err, EA_ECORRUPT, "read batch %llu from the spool %s: it is damaged",
                     (unsigned long long)e->number, s->dir);
    if (!rc)
        ea_text_add(out, r.batch, r.len_bytes);
    free(data);
    return rc;
}

int ea_spool_settle(ea_spool *s, const ea_spool_item *items, const uint8_t *outcomes, size_t n, ea_err *err) {
    static const enum ea_counter to[] = {[EA_SPOOL_AGAIN] = EA_COUNT_events_spooled,
                                         [EA_SPOOL_DONE] = EA_COUNT_events_acknowledged,
                                         [EA_SPOOL_REFUSED] = EA_COUNT_events_evicted_refused,
                                         [EA_SPOOL_DAMAGED] = EA_COUNT_events_evicted_damage};
    int rc = 0;
    ea_mutex_lock(s->lock);
    for (size_t i = n; i--;) { /* backwards, so that what goes back stands in its old order */
        entry *e = items[i].entry;
        s->taken_count--;
        e->taken = 0;
        move(s, e, EA_COUNT_events_unanswered, to[outcomes[i]]);
        if (outcomes[i] == EA_SPOOL_AGAIN) {
            push_front(&s->waiting[e->priority], e);
            s->waiting_count++;
            continue;
        }
        /* Without memory for the range it is forgotten, sent again after a restart, and known to the collector. */
        if (outcomes[i] == EA_SPOOL_DONE && ea_range_set_add(&e->stream->state.acknowledged, e->number, e->number))
            rc = ea_fail(err, EA_ENOMEM, "note an acknowledgement in the spool %s", s->dir);
        remove_entry(s, e);
    }
    ea_cond_broadcast(s->room);
    ea_mutex_unlock(s->lock);
    int reaped = reap(s, 0, rc ? NULL : err);
    return rc ? rc : reaped;
}

int ea_spool_sync_due(ea_spool *s, ea_err *err) {
    int rc = 0;
    if (s->o.sync != EA_SPOOL_SYNC_INTERVAL)
        return 0;
    ea_mutex_lock(s->write_lock);
    if (s->unsynced && ea_monotonic_ns() - s->synced_ns >= s->o.sync_interval_ns)
        rc = sync_open(s, err);
    ea_mutex_unlock(s->write_lock);
    return rc;
}

ea_descriptions *ea_spool_descriptions(ea_spool *s) {
    return s->descriptions;
}

void ea_spool_get_status(ea_spool *s, ea_spool_status *ret) {
    ea_mutex_lock(s->lock);
    *ret = (ea_spool_status){
        .disk_bytes = s->disk_bytes, .waiting = s->waiting_count, .taken = s->taken_count, .streams = s->stream_count};
    ea_mutex_unlock(s->lock);
}

/* ---- looking ---- */

typedef struct visit {
    const char *dir;
    const ea_spool_visitor *v;
    ea_err *err;
    ea_spool_stream_state *states;
    size_t state_count;
} visit;

static int visit_state(ea_spool_stream_state *state, void *arg) {
    visit *w = arg;
    ea_spool_stream_state *grown = realloc(w->states, (w->state_count + 1) * sizeof *grown);
    if (!grown) {
        free(state->acknowledged.ranges);
        return ea_fail(w->err, EA_ENOMEM, "read the spool %s", w->dir);
    }
    w->states = grown;
    w->states[w->state_count++] = *state;
    return w->v->on_stream ? w->v->on_stream(state, w->v->arg) : 0;
}

static int visit_record(const ea_spool_record *r, void *arg) {
    const visit *w = arg;
    int acknowledged = 0;
    for (size_t i = 0; i < w->state_count; i++)
        if (memcmp(w->states[i].stream, r->stream, sizeof r->stream) == 0)
            acknowledged = ea_range_set_has(&w->states[i].acknowledged, r->number);
    return w->v->on_record ? w->v->on_record(r, acknowledged, w->v->arg) : 0;
}

static int visit_name(const char *name, int is_dir, void *arg) {
    visit *w = arg;
    uint64_t sequence;
    char *data = NULL, *path;
    size_t len_bytes = 0;
    ea_spool_scanned scanned = {0};
    if (is_dir || !segment_sequence(name, &sequence))
        return 0;
    if (!(path = join(w->dir, name)))
        return ea_fail(w->err, EA_ENOMEM, "read the spool %s", w->dir);
    int rc = ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, w->err);
    free(path);
    if (rc == EA_ENOTFOUND)
        return 0; /* the process that has the spool is done with it */
    int unreadable = rc != 0;
    if (!rc && len_bytes < EA_SPOOL_HEAD_BYTES)
        scanned.torn_bytes = len_bytes;
    else if (!rc)
        rc = ea_spool_scan((const uint8_t *)data, len_bytes, sequence, visit_record, w, &scanned, w->err);
    unreadable |= rc == EA_EFORMAT;
    if (unreadable)
        rc = 0;
    if (!rc && w->v->on_segment)
        rc = w->v->on_segment(name, len_bytes, &scanned, unreadable, w->v->arg);
    free(data);
    return rc;
}

int ea_spool_visit(const char *dir, const ea_spool_visitor *visitor, ea_err *err) {
    visit w = {.dir = dir, .v = visitor, .err = err};
    int rc = read_state(dir, visit_state, &w, err);
    if (!rc)
        rc = ea_path_list(dir, visit_name, &w, err);
    for (size_t i = 0; i < w.state_count; i++)
        free(w.states[i].acknowledged.ranges);
    free(w.states);
    return rc;
}
