/* Files merged into one stream of records in canonical order: (time, file, cpu, position).
 * Calls: index.c (where buffers are, when they begin) and decode.c (one buffer). Called by: ea_etl_next's callers.
 * Thread: the source's.
 *
 * A buffer is decoded when its first time is not later than the time of the next record that would be returned, so that
 * any overlap of buffers is right. In a file as Windows writes it, that is one buffer for each session and CPU. Decoded
 * buffers wait in a heap ordered by their next record. The first buffer yields records until its next record may not be
 * the first any more. Decoded buffers have a memory limit. Hostile or damaged files exceed it: more of their buffers
 * overlap than there are CPUs. Then the buffer whose next record is the latest is released, and decoded again when its
 * time has come. What that may cost is limited by what the first decoding of all buffers so far cost: a file of some kB
 * can hold thousands of large buffers that all overlap, and each record would cost the decoding of one.
 *
 * Files that are still being written have no index to sort: their buffers come in file order, a window of them at a
 * time. */
#include "proto/base/array.h"
#include "proto/etl/layout.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_FLOOR   ((size_t)256 << 20)
#define MEMORY_CEILING ((size_t)4 << 30)
#define AGAIN_FLOOR    ((uint64_t)4 << 30)

enum {
    WINDOW_LEAST = 8, /* buffers of a file that is followed */
    WINDOW_MOST = 4096,
    SESSIONS = 8,      /* of a merged file; each has a buffer for each CPU at a time */
    AGAIN_TIMES = 8,   /* the cost of decoding again, to that of decoding once */
    EVTX_COST = 4,     /* a byte of an event log, to one of a trace */
    AHEAD_BYTES = 640, /* bytes of a buffer after its next record that are prefetched into the cache */
};

/* A decoded buffer with records left. */
typedef struct active {
    uint64_t tie;           /* file << 16 | cpu */
    uint64_t position_base; /* buffer number << 32 */
    int64_t time_raw;       /* of the next record */
    uint32_t next;          /* index of the next record in buffer.walk */
    uint16_t file;
    int mended;        /* mending was allowed when it was decoded: so it has to be again */
    size_t cost_bytes; /* its memory, as counted in the set */
    ea_etl_entry entry;
    ea_etl_buffer buffer;
    struct active *link; /* in the list of free ones */
} active;

/* A decoded buffer in the heap. */
typedef struct waiting {
    int64_t key; /* of its next record, in the merge's time; here, so that sorting mostly looks nowhere else */
    active *buffer;
} waiting;

/* A buffer that was given up in its middle: key, tie and position are those of its next record. */
typedef struct parked {
    int64_t key;
    uint64_t tie, position;
    int64_t time_raw;
    uint32_t next;
    int mended;
    ea_etl_entry entry;
} parked;

/* A file that is followed. */
typedef struct follower {
    ea_etl_tail *tail;
    uint32_t window;                    /* buffers that are held before a record comes out */
    uint32_t held;                      /* that many are */
    uint32_t events_lost, buffers_lost; /* counted already */
} follower;

struct ea_etl_set {
    ea_etl_file *files;
    size_t file_count;
    ea_etl_options options;
    ea_etl_index index;
    size_t index_next; /* entries before it were begun */

    waiting *heap; /* by their next records; room for heap_capacity. Its front moves on before it is sorted in again: */
    size_t heap_count, heap_capacity;
    int64_t run_limit; /* while the front's key is below, it is surely still in front */
    active *finished;  /* ran out with the last call: its last record is still borrowed */
    active *free_list;
    parked *parked; /* a heap by (key, tie, position) */
    size_t parked_count, parked_capacity;
    size_t memory_bytes, memory_limit; /* of decoded buffers, in use or kept */
    uint64_t once_cost, again_cost;    /* of decoding, in bytes read and made */

    follower *followers; /* one a file; NULL: the files are not followed */
    int64_t news_ns;     /* when something new was found last */

    ea_etl_scratch scratch;
    int64_t last_key; /* of the record that came out last */
    ea_record record;
    ea_ext ext[EA_EXT_MAX];
};

/* ---- opening ---- */

static int merge_open_file(ea_etl_file *file, const char *path, ea_err *err) {
    size_t len = strlen(path) + 1;
    file->info.path = malloc(len);
    if (!file->info.path)
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    memcpy(file->info.path, path, len);
    file->mend_work_left = EA_ETL_MEND_FILE_WORK;
    int rc = ea_file_open(&file->handle, path, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_size(file->handle, &file->info.file_bytes, err);
    if (!rc)
        rc = ea_etl_read_header(file, err);
    if (!rc && file->info.file_bytes >> 48)
        rc = ea_fail(err, EA_ELIMIT, "read %s: at most 256 TiB are supported", path);
    return rc;
}

/* Whether raw times of a and b are of the same clock: same kind and rate, and zero at the same moment. Boot times move
 * with every adjustment of the wall clock, and so does this; two runs of a machine are further apart. */
static int same_clock(const ea_etl_info *a, const ea_etl_info *b) {
    const int64_t tolerance_ns = INT64_C(5000000000);
    if (a->clock.type != b->clock.type || a->clock.frequency != b->clock.frequency)
        return 0;
    if (a->boot_filetime == b->boot_filetime && a->boot_filetime != 0)
        return 1;
    int64_t zero_a = ea_clock_to_utc_ns(&a->clock, 0), zero_b = ea_clock_to_utc_ns(&b->clock, 0);
    uint64_t apart = zero_a > zero_b ? (uint64_t)zero_a - (uint64_t)zero_b : (uint64_t)zero_b - (uint64_t)zero_a;
    return apart <= (uint64_t)tolerance_ns;
}

static int64_t merge_key(const ea_etl_file *file, int64_t raw) {
    return file->by_utc ? ea_clock_to_utc_ns(&file->info.clock, raw) : raw;
}

/* UTC is used for all files as soon as one clock differs, when all of them can be converted. */
static void choose_merge_time(ea_etl_set *s) {
    int differ = 0, convertible = 1;
    for (size_t i = 0; i < s->file_count; i++) {
        differ |= i > 0 && !same_clock(&s->files[0].info, &s->files[i].info);
        convertible &= s->files[i].info.clock.frequency != 0;
    }
    if (!differ || !convertible)
        return;
    for (size_t i = 0; i < s->file_count; i++)
        s->files[i].by_utc = 1;
    for (size_t i = 0; i < s->index.count; i++) {
        ea_etl_entry *e = &s->index.entries[i];
        e->key = merge_key(&s->files[e->file], e->key);
    }
}

/* The counts of a file's header that were not counted yet. */
static void count_lost(ea_etl_set *s, const ea_etl_info *info, uint32_t events_before, uint32_t buffers_before) {
    if (!s->options.counters)
        return;
    if (info->events_lost > events_before)
        ea_count(s->options.counters, EA_COUNT_source_events_lost, info->events_lost - events_before);
    if (info->buffers_lost > buffers_before)
        ea_count(s->options.counters, EA_COUNT_source_buffers_lost, info->buffers_lost - buffers_before);
}

static int open_follower(ea_etl_set *s, size_t file, ea_err *err) {
    ea_etl_info *info = &s->files[file].info;
    follower *f = &s->followers[file];
    uint32_t window = info->cpu_count < WINDOW_MOST / 2 ? 2 * info->cpu_count : WINDOW_MOST;
    if (info->log_file_mode & EA_ETL_MODE_CIRCULAR)
        return ea_fail(err, EA_EUNSUPPORTED,
                       "follow %s: a circular log writes over what it holds; read it when its session has ended",
                       info->path);
    f->window = window < WINDOW_LEAST ? WINDOW_LEAST : window;
    f->events_lost = info->events_lost;
    f->buffers_lost = info->buffers_lost;
    return ea_etl_tail_create(&f->tail, &s->files[file], (uint16_t)file, &s->options, err);
}

int ea_etl_open(ea_etl_set **ret, const char *const *paths, size_t path_count, const ea_etl_options *options,
                ea_err *err) {
    if (path_count == 0 || path_count > UINT16_MAX)
        return ea_fail(err, EA_EINVAL, "open traces: between 1 and 65535 files can be read together, not %zu",
                       path_count);
    ea_etl_set *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open %s", paths[0]);
    if (options)
        s->options = *options;
    s->last_key = INT64_MIN;
    int rc = 0;
    s->files = calloc(path_count, sizeof *s->files);
    if (s->options.follow) {
        s->followers = calloc(path_count, sizeof *s->followers);
        s->news_ns = ea_monotonic_ns();
    }
    if (!s->files || (s->options.follow && !s->followers))
        rc = ea_fail(err, EA_ENOMEM, "open %s", paths[0]);
    uint64_t wanted = 0;
    for (size_t i = 0; i < path_count && !rc; i++) {
        s->file_count = i + 1;
        ea_etl_file *file = &s->files[i];
        rc = merge_open_file(file, paths[i], err);
        if (!rc)
            rc = s->followers ? open_follower(s, i, err)
                              : ea_etl_index_file(&s->index, file, (uint16_t)i, &s->options, err);
        if (!rc) {
            uint64_t cpus = file->info.cpu_count < 4096 ? file->info.cpu_count : 4096;
            wanted += SESSIONS * cpus * file->info.buffer_size_bytes;
            count_lost(s, &file->info, 0, 0);
        }
    }
    if (rc) {
        ea_etl_close(s);
        return rc;
    }
    s->memory_limit = wanted < MEMORY_FLOOR ? MEMORY_FLOOR : wanted > MEMORY_CEILING ? MEMORY_CEILING : (size_t)wanted;
    if (s->options.memory_limit_bytes)
        s->memory_limit = s->options.memory_limit_bytes < SIZE_MAX ? (size_t)s->options.memory_limit_bytes : SIZE_MAX;
    choose_merge_time(s);
    ea_etl_index_sort(&s->index);
    *ret = s;
    return 0;
}

static void free_active(active *a) {
    if (!a)
        return;
    ea_etl_buffer_deinit(&a->buffer);
    free(a);
}

void ea_etl_close(ea_etl_set *s) {
    if (!s)
        return;
    for (size_t i = 0; i < s->file_count; i++) {
        if (s->followers)
            ea_etl_tail_destroy(s->followers[i].tail);
        ea_file_close(s->files[i].handle);
        ea_etl_info_deinit(&s->files[i].info);
    }
    free(s->files);
    free(s->followers);
    free_active(s->finished);
    for (size_t i = 0; i < s->heap_count; i++)
        free_active(s->heap[i].buffer);
    while (s->free_list) {
        active *a = s->free_list;
        s->free_list = a->link;
        free_active(a);
    }
    free(s->heap);
    free(s->parked);
    free(s->index.entries);
    ea_etl_scratch_deinit(&s->scratch);
    free(s);
}

size_t ea_etl_file_count(const ea_etl_set *s) {
    return s->file_count;
}

const ea_etl_info *ea_etl_file_info(const ea_etl_set *s, size_t file) {
    return file < s->file_count ? &s->files[file].info : NULL;
}

int ea_etl_header_record(const ea_etl_set *s, size_t file, uint8_t *data, ea_record *ret, ea_err *err) {
    int rc = ea_etl_read_header_record(&s->files[file], data, ret, err);
    if (!rc)
        ret->source = (uint16_t)file;
    return rc;
}

double ea_etl_progress(const ea_etl_set *s) {
    if (s->followers) /* the number of buffers to come is unknown */
        return 0;
    if (s->index.count == 0)
        return 1;
    return (double)s->index_next / (double)s->index.count;
}

/* ---- the heap of decoded buffers ---- */

static uint64_t next_position(const active *a) {
    return a->position_base | a->buffer.walk.offsets[a->next];
}

static int less(const waiting *a, const waiting *b) {
    if (a->key != b->key)
        return a->key < b->key;
    if (a->buffer->tie != b->buffer->tie)
        return a->buffer->tie < b->buffer->tie;
    return next_position(a->buffer) < next_position(b->buffer);
}

static void heap_sift_down(ea_etl_set *s, size_t at) {
    waiting *h = s->heap, moving = h[at];
    for (size_t child; (child = 2 * at + 1) < s->heap_count; at = child) {
        if (child + 1 < s->heap_count && less(&h[child + 1], &h[child]))
            child++;
        if (!less(&h[child], &moving))
            break;
        h[at] = h[child];
    }
    h[at] = moving;
}

static void heap_sift_up(ea_etl_set *s, size_t at) {
    waiting *h = s->heap, moving = h[at];
    while (at > 0 && less(&moving, &h[(at - 1) / 2])) {
        h[at] = h[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h[at] = moving;
}

static int heap_push(ea_etl_set *s, active *a, int64_t key, ea_err *err) {
    if (EA_GROW(s->heap, s->heap_capacity, s->heap_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "merge traces");
    s->heap[s->heap_count++] = (waiting){.key = key, .buffer = a};
    heap_sift_up(s, s->heap_count - 1);
    return 0;
}

static waiting heap_remove(ea_etl_set *s, size_t at) {
    waiting removed = s->heap[at], last = s->heap[--s->heap_count];
    if (at < s->heap_count) {
        s->heap[at] = last;
        heap_sift_down(s, at);
        heap_sift_up(s, at);
    }
    return removed;
}

/* ---- buffers coming and going ---- */

static void merge_destroy(ea_etl_set *s, active *a) {
    s->memory_bytes -= a->cost_bytes;
    free_active(a);
}

/* Kept for the next buffer, unless memory is scarce. */
static void recycle(ea_etl_set *s, active *a) {
    if (s->memory_bytes > s->memory_limit / 2) {
        merge_destroy(s, a);
        return;
    }
    a->link = s->free_list;
    s->free_list = a;
}

/* After a decode, which may have grown it. */
static void count_memory(ea_etl_set *s, active *a) {
    size_t cost = sizeof *a + a->buffer.data_capacity + a->buffer.walk.capacity * sizeof *a->buffer.walk.offsets;
    s->memory_bytes = s->memory_bytes - a->cost_bytes + cost;
    a->cost_bytes = cost;
}

static int before(int64_t key_a, uint64_t tie_a, uint64_t position_a, int64_t key_b, uint64_t tie_b,
                  uint64_t position_b) {
    if (key_a != key_b)
        return key_a < key_b;
    if (tie_a != tie_b)
        return tie_a < tie_b;
    return position_a < position_b;
}

static int parked_less(const parked *a, const parked *b) {
    return before(a->key, a->tie, a->position, b->key, b->tie, b->position);
}

static int park(ea_etl_set *s, const waiting *w, ea_err *err) {
    const active *a = w->buffer;
    if (EA_GROW(s->parked, s->parked_capacity, s->parked_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "merge traces");
    size_t at = s->parked_count++;
    parked new = {.key = w->key,
                  .tie = a->tie,
                  .position = next_position(a),
                  .time_raw = a->time_raw,
                  .next = a->next,
                  .mended = a->mended,
                  .entry = a->entry};
    for (; at > 0 && parked_less(&new, &s->parked[(at - 1) / 2]); at = (at - 1) / 2)
        s->parked[at] = s->parked[(at - 1) / 2];
    s->parked[at] = new;
    return 0;
}

static parked unpark(ea_etl_set *s) {
    parked first = s->parked[0], moving = s->parked[--s->parked_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < s->parked_count; at = child) {
        if (child + 1 < s->parked_count && parked_less(&s->parked[child + 1], &s->parked[child]))
            child++;
        if (!parked_less(&s->parked[child], &moving))
            break;
        s->parked[at] = s->parked[child];
    }
    s->parked[at] = moving;
    return first;
}

/* Which buffer has to be decoded before the front of the heap may come out. */
enum pending { NOTHING_PENDING, NEW_PENDING, PARKED_PENDING };

static enum pending pending(const ea_etl_set *s) {
    const waiting *front = s->heap_count ? &s->heap[0] : NULL;
    const parked *p = s->parked_count ? &s->parked[0] : NULL;
    if (s->index_next < s->index.count) {
        int64_t key = s->index.entries[s->index_next].key;
        if ((!front || key <= front->key) && (!p || key <= p->key))
            return NEW_PENDING;
    }
    if (p &&
        (!front || before(p->key, p->tie, p->position, front->key, front->buffer->tie, next_position(front->buffer))))
        return PARKED_PENDING;
    return NOTHING_PENDING;
}

/* The first key at which the buffer in front has to be compared with others. */
static int64_t first_rival(const ea_etl_set *s) {
    int64_t key = INT64_MAX;
    for (size_t i = 1; i < 3 && i < s->heap_count; i++)
        if (s->heap[i].key < key)
            key = s->heap[i].key;
    if (s->index_next < s->index.count && s->index.entries[s->index_next].key < key)
        key = s->index.entries[s->index_next].key;
    if (s->parked_count && s->parked[0].key < key)
        key = s->parked[0].key;
    return key;
}

/* Sets time_raw of the record that a->next names; returns its key. */
static inline int64_t look_at_next(const ea_etl_set *s, active *a) {
    const ea_etl_file *file = &s->files[a->file];
    a->time_raw = ea_etl_record_time(a->buffer.data + a->buffer.walk.offsets[a->next], a->time_raw);
    return merge_key(file, a->time_raw);
}

/* Counts what a decode cost. EA_ELIMIT when decoding again costs too much. */
static int count_decode(ea_etl_set *s, const active *a, const parked *from, int again, ea_err *err) {
    const ea_etl_file *file = &s->files[from->entry.file];
    uint64_t cost = (uint64_t)from->entry.size_bytes + a->buffer.used_bytes;
    cost = cost * (file->is_evtx ? EVTX_COST : 1) + a->buffer.mend_work;
    if (!again) {
        s->once_cost += cost;
        return 0;
    }
    uint64_t floor = s->options.again_limit_bytes ? s->options.again_limit_bytes : AGAIN_FLOOR;
    s->again_cost += cost;
    if (s->again_cost <= floor || s->again_cost - floor <= AGAIN_TIMES * s->once_cost)
        return 0;
    return ea_fail(err, EA_ELIMIT,
                   "read %s: too many buffers overlap in time for %zu MiB of memory; decoding them again cost %" PRIu64
                   " MiB, decoding once %" PRIu64 " MiB",
                   file->info.path, s->memory_limit >> 20, s->again_cost >> 20, s->once_cost >> 20);
}

/* Decodes a buffer into the heap (one without records vanishes). again: it was given up before. */
static int activate(ea_etl_set *s, parked from, int again, ea_err *err) {
    active *a = s->free_list;
    if (a)
        s->free_list = a->link;
    else if (!(a = calloc(1, sizeof *a)))
        return ea_fail(err, EA_ENOMEM, "merge traces");
    ea_etl_file *file = &s->files[from.entry.file];
    int mend = again ? from.mended : file->mend_work_left > 0 && !s->options.no_mending;
    int rc = ea_etl_decode(file, &from.entry, mend, &a->buffer, &s->scratch, again ? NULL : &s->options, err);
    file->mend_work_left -= (int64_t)a->buffer.mend_work;
    a->mended = mend;
    count_memory(s, a);
    if (!rc)
        rc = count_decode(s, a, &from, again, err);
    if (rc || from.next >= a->buffer.walk.count) {
        recycle(s, a);
        return rc;
    }
    a->file = from.entry.file;
    a->entry = from.entry;
    a->tie = (uint64_t)from.entry.file << 16 | a->buffer.header.cpu;
    a->position_base = (uint64_t)from.entry.number << 32;
    a->next = from.next;
    if (again) {
        a->time_raw = from.time_raw;
    } else {
        /* leading records without a time get the buffer's first time */
        a->time_raw = a->buffer.walk.min_time <= a->buffer.walk.max_time ? a->buffer.walk.min_time
                      : file->by_utc ? ea_clock_from_utc_ns(&file->info.clock, from.entry.key)
                                     : from.entry.key;
    }
    int64_t key = look_at_next(s, a);
    if (s->followers && !again)
        s->followers[a->file].held++;
    return heap_push(s, a, key, err);
}

/* Back below the memory limit: first what is only kept for later, then the decoded buffers whose next records are
 * furthest away. One always stays. */
static int merge_make_room(ea_etl_set *s, ea_err *err) {
    while (s->memory_bytes > s->memory_limit && s->free_list) {
        active *a = s->free_list;
        s->free_list = a->link;
        merge_destroy(s, a);
    }
    while (s->memory_bytes > s->memory_limit && s->heap_count > 1) {
        size_t furthest = s->heap_count / 2; /* among the leaves */
        for (size_t i = furthest + 1; i < s->heap_count; i++)
            if (less(&s->heap[furthest], &s->heap[i]))
                furthest = i;
        waiting removed = heap_remove(s, furthest);
        int rc = park(s, &removed, err);
        merge_destroy(s, removed.buffer);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- following ---- */

/* Takes what is known of a file into its window. */
static int fill_window(ea_etl_set *s, size_t file, ea_err *err) {
    follower *f = &s->followers[file];
    parked from = {0};
    int rc = 0;
    while (!rc && f->held <= f->window && ea_etl_tail_take(f->tail, &from.entry)) {
        from.entry.key = merge_key(&s->files[file], from.entry.key);
        rc = activate(s, from, 0, err);
        if (!rc)
            rc = merge_make_room(s, err);
    }
    return rc;
}

/* Whether a record may come out: 1, EA_ETL_NOTHING_YET, 0 when all is over, or an error. */
EA_APART static int merge_follow(ea_etl_set *s, ea_err *err) {
    int wait = 0, over = 1;
    for (size_t i = 0; i < s->file_count; i++) {
        follower *f = &s->followers[i];
        int rc = fill_window(s, i, err), found = 0;
        if (!rc && f->held <= f->window && !ea_etl_tail_ended(f->tail)) {
            const ea_etl_info *info = &s->files[i].info;
            if ((rc = ea_etl_tail_poll(f->tail, &found, err)))
                return rc;
            count_lost(s, info, f->events_lost, f->buffers_lost);
            f->events_lost = info->events_lost;
            f->buffers_lost = info->buffers_lost;
            if (found)
                s->news_ns = ea_monotonic_ns();
            rc = fill_window(s, i, err);
        }
        if (rc)
            return rc;
        over &= ea_etl_tail_ended(f->tail);
        wait |= f->held <= f->window && !ea_etl_tail_ended(f->tail);
    }
    int holds = s->heap_count || s->parked_count;
    if (wait && holds && s->options.hold_back_ns && ea_monotonic_ns() - s->news_ns >= s->options.hold_back_ns)
        wait = 0;
    if (wait || (!holds && !over))
        return EA_ETL_NOTHING_YET;
    return holds;
}

/* Decodes the buffer that pending() named. Apart, as it is needed once a buffer and merge_choose() many times. */
EA_APART static int decode_pending(ea_etl_set *s, enum pending what, ea_err *err) {
    parked from = what == PARKED_PENDING ? unpark(s) : (parked){.entry = s->index.entries[s->index_next++]};
    int rc = activate(s, from, what == PARKED_PENDING, err);
    return rc ? rc : merge_make_room(s, err);
}

/* Brings the buffer with the next record to the front: 1, 0 at the end, EA_ETL_NOTHING_YET, or an error. */
static int merge_choose(ea_etl_set *s, ea_err *err) {
    int rc;
    if (s->heap_count)
        heap_sift_down(s, 0);
    if (s->followers && (rc = merge_follow(s, err)) != 1) {
        s->run_limit = INT64_MIN;
        return rc;
    }
    enum pending what;
    while ((what = pending(s)) != NOTHING_PENDING)
        if ((rc = decode_pending(s, what, err)))
            return rc;
    if (s->heap_count == 0)
        return 0;
    s->run_limit = first_rival(s);
    return 1;
}

EA_RARE static void report_items(const ea_etl_set *s, const active *a, uint32_t offset, uint32_t bytes) {
    if (s->options.counters) {
        ea_count(s->options.counters, EA_COUNT_source_bad_records, 1);
        ea_count(s->options.counters, EA_COUNT_source_bad_bytes, bytes);
    }
    ea_etl_report(&s->options, &s->files[a->file], a->entry.offset, offset, bytes,
                  "a record's extended items are not readable; they are in its payload");
}

/* logger, cpu and source, in the words that they are parts of (see set_kind in etl_record.c). */
static inline void set_origin(ea_record *r, const active *a) {
    uint8_t *kind = (uint8_t *)r + offsetof(ea_record, logger), *own = (uint8_t *)r + offsetof(ea_record, cpu);
    ea_store64(kind, ea_load64(kind) | a->buffer.header.logger);
    ea_store64(own, a->buffer.header.cpu | (uint32_t)a->file << 16 | (uint64_t)r->ext_count << 32 |
                        (uint64_t)r->payload_bytes << 48);
}

int ea_etl_next(ea_etl_set *s, const ea_record **ret_record, ea_err *err) {
    if (s->finished) {
        recycle(s, s->finished);
        s->finished = NULL;
    }
    if (s->heap_count == 0 || s->heap[0].key >= s->run_limit) {
        int rc = merge_choose(s, err);
        if (rc != 1)
            return rc;
    }
    waiting *front = &s->heap[0];
    active *a = front->buffer;
    if (front->key < s->last_key) {
        if (s->options.counters && !(s->followers && a->entry.offset == 0)) /* that one is late on purpose */
            ea_count(s->options.counters, EA_COUNT_source_late_records, 1);
    } else {
        s->last_key = front->key;
    }

    const ea_etl_file *file = &s->files[a->file];
    const uint32_t *offsets = a->buffer.walk.offsets;
    uint32_t next = a->next, offset = offsets[next];
    const uint8_t *data = a->buffer.data, *p = data + offset;
    ea_record *r = &s->record;
    uint32_t size = ea_etl_accepted_bytes(p);
    uint32_t damaged = ea_etl_fill_record(r, s->ext, p, size, (uint8_t)file->info.pointer_size);
    r->time_raw = a->time_raw;
    set_origin(r, a);
    r->position = a->position_base | offset;
    if (damaged)
        report_items(s, a, offset, damaged);

    a->next = ++next;
    if (next < a->buffer.walk.count) {
        a->time_raw = ea_etl_record_time(data + offsets[next], r->time_raw);
        front->key = merge_key(file, a->time_raw);
        for (uint32_t at = 0; at < size; at += 64) /* other buffers' records had the cache meanwhile */
            EA_PREFETCH(p + AHEAD_BYTES + at);
    } else {
        s->finished = heap_remove(s, 0).buffer;
        s->run_limit = INT64_MIN;
        if (s->followers)
            s->followers[a->file].held--;
    }
    *ret_record = r;
    return 1;
}
