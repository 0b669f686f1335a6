/* See watch_streams.h. */
#include "collector/app/watch_streams.h"

#include "collector/query/scan/archive.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/object_names_db.h"
#include "collector/state/state_worker.h"
#include "collector/store/index_query.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/event/schema/described.h"
#include "proto/stack/stack_ahead.h"
#include "proto/stack/stack_feed.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static const int64_t TICK_NS = 1000000; /* what a batch's range may be off, where it has several sources */
static const int64_t NAMES_WAIT_NS = (int64_t)10 * 1000000000;
static const int64_t STACK_WAIT_NS = (int64_t)3 * 1000000000; /* live: for the stack of an event */

static const size_t OPEN_BYTES = (size_t)1 << 30;   /* of batches that are read at a time */
static const size_t WINDOW_BYTES = (size_t)8 << 20; /* of a machine's join of stacks */

/* One pass over a stream's events. */
typedef struct reader {
    uint64_t number; /* of the last batch that was opened */
    uint8_t *data;
    size_t capacity;
    ea_batch_view *view; /* NULL: none is open */
    const ea_record *record;
    const ea_class *c;
    int is_keyframe;
} reader;

/* A second pass, which is ahead of the first one as far as the window of the join reaches. */
typedef struct lookahead {
    reader reader;
    ea_stack_join *join;
    ea_stack_feed *feed;
    ea_stack_ahead stacks;
    uint64_t read;
    int64_t dry_ns; /* since when it has nothing to read; 0: it has */
} lookahead;

typedef struct stream {
    uint64_t stream_id;
    uint32_t machine; /* from 1 */
    char *host;
    uint8_t id[EA_STREAM_ID_BYTES];
    int64_t begin_utc_ns;
    uint64_t seen_number; /* batches up to this one were there before the program began: they give the state alone */
    uint64_t idle_number; /* the stream is read once it has a batch after this one; 0: at once */
    reader reader;
    ea_machine *state;
    ec_object_names_db *names;
    ea_resolver resolver;
    lookahead *ahead;
    uint64_t event_number; /* of the event at hand */
    int64_t utc_ns;        /* of the event at hand */
    int64_t fed_ns;        /* monotonic: when it had its last event, or was opened */
    int has_event, is_open;
} stream;

struct ec_watch_streams {
    ec_watch_range range;
    ec_watch_wants wants;
    ec_store *store;
    ec_state_db *tables; /* NULL: no names */
    ea_registry *registry;
    ea_class_list classes;
    ea_stacks *stacks;
    stream **all; /* in the order of their begin */
    size_t count, capacity, opened;
    stream **heap; /* that have an event, the earliest first */
    size_t heap_count, heap_capacity;
    uint64_t highest_id, machines;
    ec_store_place place;
    size_t open_bytes;
    stream *last; /* whose machine the run has */
    uint64_t damaged, freed;
    int64_t begin_utc_ns, end_utc_ns; /* of the events of the agents and labels, in the range or not */
    char first_damage[256];
};

/* ---- reading ---- */

static void close_batch(ec_watch_streams *w, reader *r) {
    ea_batch_close(r->view);
    w->open_bytes -= r->capacity;
    free(r->data);
    r->view = NULL;
    r->data = NULL;
    r->capacity = 0;
}

/* Once for each batch, though it may be read twice. */
static void note_damage(ec_watch_streams *w, const stream *s, const reader *r, const ea_err *e) {
    uint64_t number = r->number;
    if (r == &s->reader && !w->damaged++)
        snprintf(w->first_damage, sizeof w->first_damage, "host %.60s, batch %" PRIu64 ": %.150s", s->host, number,
                 e->message);
}

/* 1 when a batch cannot matter: its events are outside the range, and the state before them is not asked for. */
static int watch_skips(const ec_watch_streams *w, const stream *s, const ec_batch_row *b) {
    if (!b->event_count)
        return 1;
    if (b->begin_utc_ns > INT64_MIN + TICK_NS && b->begin_utc_ns - TICK_NS >= w->range.to_utc_ns)
        return 1;
    if (w->wants.state || w->wants.stacks)
        return 0;
    return b->number <= s->seen_number ||
           (b->end_utc_ns < INT64_MAX - TICK_NS && b->end_utc_ns + TICK_NS < w->range.from_utc_ns);
}

/* Opens the stream's next batch: 1, 0 when there is none (yet). */
static int watch_next_batch(ec_watch_streams *w, const stream *s, reader *r, ea_err *err) {
    ec_batch_row row;
    int rc;
    while ((rc = ec_store_next_batch(w->store, s->stream_id, r->number, &row, err)) == 1) {
        const uint8_t *data;
        size_t len_bytes;
        ea_err damage = {0};
        r->number = row.number;
        if (watch_skips(w, s, &row))
            continue;
        rc = ec_store_read(w->store, &row, &data, &len_bytes, &damage);
        if (!rc) {
            if (w->open_bytes + len_bytes > OPEN_BYTES)
                return ea_fail(
                    err, EA_ELIMIT,
                    "read %zu machines at a time: their batches have more than 1 GiB; name some by --host or "
                    "--label, or a shorter time by --from and --to",
                    w->opened);
            if (EA_GROW(r->data, r->capacity, len_bytes + 1, SIZE_MAX))
                return ea_fail(err, EA_ENOMEM, "read a batch");
            memcpy(r->data, data, len_bytes);
            w->open_bytes += r->capacity;
            rc = ea_batch_open(&r->view, r->data, len_bytes, w->registry, &damage);
            if (rc == EA_ENOTFOUND) { /* of a class; without its segment the batch itself is not found */
                rc = ec_store_load_classes(w->store, s->stream_id, r->data, len_bytes, w->registry, &damage);
                if (!rc)
                    rc = ea_batch_open(&r->view, r->data, len_bytes, w->registry, &damage);
            }
        }
        if (!rc) {
            r->is_keyframe = ea_batch_get_head(r->view)->kind == EA_BATCH_KEYFRAME;
            return 1;
        }
        if (r->data)
            close_batch(w, r);
        if (!ec_is_damage(rc)) {
            *err = damage;
            return rc;
        }
        note_damage(w, s, r, &damage);
    }
    return rc;
}

/* The stream's next record: 1, 0 when there is none (yet). */
static int watch_next_record(ec_watch_streams *w, const stream *s, reader *r, ea_err *err) {
    for (;;) {
        if (!r->view) {
            int rc = watch_next_batch(w, s, r, err);
            if (rc != 1)
                return rc;
        }
        ea_err damage = {0};
        int rc = ea_batch_next(r->view, &r->record, &r->c, &damage);
        if (rc == 1)
            return 1;
        if (rc && !ec_is_damage(rc)) {
            *err = damage;
            return rc;
        }
        if (rc)
            note_damage(w, s, r, &damage);
        close_batch(w, r);
    }
}

/* ---- stacks ---- */

static int watch_open_ahead(ec_watch_streams *w, stream *s, ea_err *err) {
    lookahead *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    s->ahead = l;
    l->reader.number = s->reader.number;
    int rc = ea_stack_join_create(
        &l->join, w->stacks,
        &(ea_stack_join_options){.limit_bytes = WINDOW_BYTES, .on_event = ea_stack_ahead_take, .arg = &l->stacks}, err);
    return rc ? rc : ea_stack_feed_create(&l->feed, l->join, err);
}

static void watch_close_ahead(ec_watch_streams *w, lookahead *l) {
    if (!l)
        return;
    ea_stack_feed_destroy(l->feed);
    ea_stack_join_destroy(l->join);
    close_batch(w, &l->reader);
    ea_stack_ahead_deinit(&l->stacks);
    free(l);
}

/* 1 when nothing more can come for the event at hand; 0: its stack may still arrive. */
static int watch_join(ec_watch_streams *w, stream *s, ea_err *err) {
    lookahead *l = s->ahead;
    while (l->stacks.settled <= s->event_number) {
        int rc = watch_next_record(w, s, &l->reader, err);
        if (rc < 0)
            return rc;
        if (rc) {
            l->dry_ns = 0;
            if (l->reader.is_keyframe)
                continue;
            rc = ea_stack_feed_record(l->feed, l->reader.record, l->reader.c, ++l->read);
            if (rc)
                return ea_fail(err, rc, "join stacks");
            continue;
        }
        if (w->range.is_live) {
            if (!l->dry_ns)
                l->dry_ns = ea_monotonic_ns();
            if (ea_monotonic_ns() - l->dry_ns < STACK_WAIT_NS)
                return 0;
        }
        if (w->range.is_live ? ea_stack_join_settle(l->join, INT64_MAX) : ea_stack_join_end(l->join))
            return ea_fail(err, EA_ENOMEM, "join stacks");
        break;
    }
    return 1;
}

const uint64_t *ec_watch_streams_frames(const void *arg, uint32_t number, size_t *ret_count) {
    const ec_watch_streams *w = arg;
    return ea_stacks_get(w->stacks, number, ret_count);
}

/* ---- the heap ---- */

static int watch_streams_is_before(const stream *a, const stream *b) {
    return a->utc_ns != b->utc_ns ? a->utc_ns < b->utc_ns : a->machine < b->machine;
}

static void watch_streams_sift_down(ec_watch_streams *w) {
    stream *s = w->heap[0];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= w->heap_count)
            break;
        if (child + 1 < w->heap_count && watch_streams_is_before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!watch_streams_is_before(w->heap[child], s))
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = s;
}

static int watch_streams_push(ec_watch_streams *w, stream *s, ea_err *err) {
    if (EA_GROW(w->heap, w->heap_capacity, w->heap_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "merge streams");
    size_t at = w->heap_count++;
    for (; at && watch_streams_is_before(s, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = s;
    return 0;
}

static void pop(ec_watch_streams *w) {
    w->heap[0] = w->heap[--w->heap_count];
    if (w->heap_count)
        watch_streams_sift_down(w);
}

/* ---- streams ---- */

static const ea_clock *watch_streams_clock_of(const stream *s) {
    return &ea_batch_source(s->reader.view, s->reader.record->source)->clock;
}

/* Reads on until the stream has an event that counts, keeping the state: 1, 0 when there is none (yet). In a run, what
 * comes before the range is noted. */
static int watch_advance(ec_watch_streams *w, stream *s, ea_err *err) {
    int rc = 1;
    while (!s->has_event && (rc = watch_next_record(w, s, &s->reader, err)) == 1) {
        s->utc_ns = ea_clock_to_utc_ns(watch_streams_clock_of(s), s->reader.record->time_raw);
        if (s->reader.is_keyframe) {
            rc = ea_machine_apply(s->state, s->reader.record, s->reader.c, s->utc_ns, err);
            if (rc)
                return rc;
            continue;
        }
        s->event_number++;
        s->has_event = 1;
        if (w->range.is_live)
            s->fed_ns = ea_monotonic_ns();
    }
    if (rc != 1)
        return rc;
    return s->ahead ? watch_join(w, s, err) : 1;
}

static int watch_open_stream(ec_watch_streams *w, stream *s, ea_err *err) {
    int rc = ea_machine_create(&s->state, &(ea_machine_options){0}, err);
    s->is_open = 1;
    s->fed_ns = ea_monotonic_ns();
    if (!rc && w->wants.stacks)
        rc = watch_open_ahead(w, s, err);
    if (!rc && w->tables) {
        ec_state_fold fold;
        int found = ec_state_db_find_fold(w->tables, s->host, s->id, &fold, err);
        rc = found > 0 ? ec_object_names_db_open(&s->names, w->tables, fold.stream_number,
                                                 &(ec_object_names_db_options){0}, err)
                       : found;
        if (!rc && s->names)
            s->resolver = ec_object_names_db_resolver(s->names);
    }
    return rc;
}

static void watch_close_stream(ec_watch_streams *w, stream *s) {
    close_batch(w, &s->reader);
    watch_close_ahead(w, s->ahead);
    ea_machine_destroy(s->state);
    ec_object_names_db_close(s->names);
    s->ahead = NULL;
    s->state = NULL;
    s->names = NULL;
    s->is_open = 0;
}

/* Whether the run of an agent had the labels: 1, 0, or an error. */
static int has_labels(ec_watch_streams *w, const ec_stream_row *row, ea_err *err) {
    int rc = 1;
    for (size_t i = 0; rc == 1 && i < w->range.labels->count; i++)
        rc = ec_store_has_label(w->store, row->stream_id, w->range.labels->items[i], err);
    return rc;
}

typedef struct finding {
    ec_watch_streams *w;
    int is_first, rc;
    uint8_t has_host[EA_STRINGS_MAX];
    int has_labels;
    ea_err *err;
} finding;

static int watch_on_stream(const ec_stream_row *row, void *arg) {
    finding *f = arg;
    ec_watch_streams *w = f->w;
    const ec_watch_range *o = &w->range;
    int wanted = !o->hosts->count;
    if (row->stream_id <= w->highest_id)
        return 0;
    w->highest_id = row->stream_id;
    for (size_t i = 0; i < o->hosts->count; i++)
        if (strcmp(o->hosts->items[i], row->host) == 0)
            wanted = f->has_host[i] = 1;
    if (wanted)
        wanted = has_labels(w, row, f->err);
    if (wanted < 0)
        return f->rc = wanted;
    f->has_labels |= wanted;
    if (wanted && row->event_count) {
        w->begin_utc_ns = row->begin_utc_ns < w->begin_utc_ns ? row->begin_utc_ns : w->begin_utc_ns;
        w->end_utc_ns = row->end_utc_ns > w->end_utc_ns ? row->end_utc_ns : w->end_utc_ns;
    }
    if (!wanted ||
        (!o->is_live && (!row->event_count || row->begin_utc_ns >= o->to_utc_ns || row->end_utc_ns < o->from_utc_ns)))
        return 0;
    stream *s = calloc(1, sizeof *s);
    char *host = strdup(row->host);
    if (!s || !host || EA_GROW(w->all, w->capacity, w->count + 1, SIZE_MAX)) {
        free(s);
        free(host);
        return f->rc = ea_fail(f->err, EA_ENOMEM, "find streams");
    }
    *s = (stream){.stream_id = row->stream_id,
                  .machine = (uint32_t)++w->machines,
                  .host = host,
                  .begin_utc_ns = row->begin_utc_ns};
    memcpy(s->id, row->stream, sizeof s->id);
    if (f->is_first && o->is_live && o->from_utc_ns == INT64_MIN)
        s->seen_number = s->idle_number = row->highest_number;
    else if (f->is_first && o->is_live && row->end_utc_ns < o->from_utc_ns)
        s->idle_number = row->highest_number;
    w->all[w->count++] = s;
    return 0;
}

static int watch_find_streams(ec_watch_streams *w, int is_first, ea_err *err) {
    finding f = {.w = w, .is_first = is_first, .err = err};
    const ec_watch_range *o = &w->range;
    int rc = ec_store_each_stream(w->store, NULL, watch_on_stream, &f, err);
    if (!rc)
        rc = f.rc;
    for (size_t i = 0; !rc && is_first && i < o->hosts->count; i++)
        if (!f.has_host[i])
            rc = ec_unknown_host(o->hosts->items[i], err);
    if (!rc && is_first && o->labels->count && !f.has_labels && !o->is_live)
        rc = ea_fail(err, EA_ENOTFOUND, "no stored run of an agent had the label %s%s", o->labels->items[0],
                     o->labels->count > 1 ? " and the others that were given" : "");
    return rc;
}

static int by_begin(const void *a, const void *b) {
    const stream *x = *(stream *const *)a, *y = *(stream *const *)b;
    if (x->begin_utc_ns != y->begin_utc_ns)
        return x->begin_utc_ns < y->begin_utc_ns ? -1 : 1;
    return x->machine < y->machine ? -1 : 1;
}

/* A stream without an event that is due: reads on. */
static int watch_start(ec_watch_streams *w, stream *s, ea_err *err) {
    int rc = 0;
    if (!s->is_open) {
        ec_batch_row row;
        rc = s->idle_number ? ec_store_next_batch(w->store, s->stream_id, s->idle_number, &row, err) : 1;
        if (rc != 1)
            return rc;
        rc = watch_open_stream(w, s, err);
    }
    if (!rc)
        rc = watch_advance(w, s, err);
    if (rc > 0)
        return watch_streams_push(w, s, err);
    if (!rc && !w->range.is_live)
        watch_close_stream(w, s);
    return rc;
}

/* Opens the streams that may have an event before those at hand. */
static int watch_open_due(ec_watch_streams *w, ea_err *err) {
    while (w->opened < w->count) {
        stream *s = w->all[w->opened];
        if (!w->range.is_live && w->heap_count && s->begin_utc_ns > INT64_MIN + TICK_NS &&
            s->begin_utc_ns - TICK_NS > w->heap[0]->utc_ns)
            return 0;
        w->opened++;
        int rc = watch_start(w, s, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the whole ---- */

int ec_watch_streams_open(ec_watch_streams **ret, const ec_watch_range *range, ea_err *err) {
    ec_watch_streams *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "read a store");
    w->range = *range;
    w->begin_utc_ns = INT64_MAX;
    w->end_utc_ns = INT64_MIN;
    int rc = 0;
    for (size_t i = 0; i < range->labels->count && !rc; i++)
        if (!strchr(range->labels->items[i], '='))
            rc = ea_fail(err, EA_EUSAGE, "label \"%s\": expected NAME=VALUE", range->labels->items[i]);
    if (!rc)
        rc = ec_store_open(&w->store, range->store, &(ec_store_options){0}, err);
    if (!rc)
        rc = ea_registry_create(&w->registry, 0, err);
    if (rc) {
        ec_watch_streams_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_watch_streams_close(ec_watch_streams *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++) {
        watch_close_stream(w, w->all[i]);
        free(w->all[i]->host);
        free(w->all[i]);
    }
    free(w->all);
    free(w->heap);
    ec_state_db_close(w->tables);
    ea_stacks_destroy(w->stacks);
    free(w->classes.items);
    ea_registry_destroy(w->registry);
    ec_store_close(w->store);
    free(w);
}

static int watch_add_class(const ea_class *c, void *arg) {
    ec_watch_streams *w = arg;
    return c->kind == EA_KIND_KEYFRAME ? 0 : ea_class_list_add(&w->classes, c, NULL);
}

int ec_watch_streams_classes(ec_watch_streams *w, ea_lang_sources *ret, ea_err *err) {
    int rc = ea_described_classes(&w->classes, w->registry, NULL, err);
    if (!rc)
        rc = ec_index_query_classes(w->store, w->registry, watch_add_class, w, err);
    ret->registry = w->registry;
    ret->classes = w->classes.items;
    ret->class_count = w->classes.count;
    return rc;
}

void ec_watch_streams_times(const ec_watch_streams *w, int64_t *ret_begin_utc_ns, int64_t *ret_end_utc_ns) {
    *ret_begin_utc_ns = w->begin_utc_ns;
    *ret_end_utc_ns = w->end_utc_ns;
}

int ec_watch_streams_begin(ec_watch_streams *w, const ec_watch_wants *wants, ea_err *err) {
    uint64_t backlog = 0;
    w->wants = *wants;
    int rc = wants->stacks ? ea_stacks_create(&w->stacks, 0, err) : 0;
    if (!rc && wants->names) {
        rc = ec_state_worker_catch_up(w->range.store, NULL, EC_WAIT_FOLDED, NAMES_WAIT_NS, &backlog, err);
        if (!rc)
            rc = ec_state_db_open(&w->tables, w->range.store, 0, err);
        if (rc == EA_ENOTFOUND || (!rc && backlog)) {
            fprintf(stderr,
                    "etwcollector: %" PRIu64 " stored batches are not in the history yet: names from them are "
                    "missing\n",
                    backlog);
            rc = 0;
        }
    }
    if (!rc)
        rc = ec_store_position(w->store, &w->place, err);
    if (!rc)
        rc = watch_find_streams(w, 1, err);
    if (!rc && w->count)
        qsort(w->all, w->count, sizeof *w->all, by_begin);
    return rc ? rc : watch_open_due(w, err);
}

/* 1 when clauses see the event at hand. */
static int watch_counts(const ec_watch_streams *w, const stream *s) {
    return s->utc_ns >= w->range.from_utc_ns && s->utc_ns < w->range.to_utc_ns && s->reader.number > s->seen_number;
}

static int watch_deliver(ec_watch_streams *w, stream *s, ea_lang_run *run, ea_err *err) {
    ea_lang_event event = {
        .record = s->reader.record, .c = s->reader.c, .clock = watch_streams_clock_of(s), .utc_ns = s->utc_ns};
    int rc = 0;
    if (s->ahead)
        ea_stack_ahead_find(&s->ahead->stacks, s->event_number, event.stack, &event.stack_pid);
    if (w->last != s) {
        rc = ea_lang_run_machine(run, &(ea_lang_machine){.number = s->machine,
                                                         .host = s->host,
                                                         .state = s->state,
                                                         .resolver = s->names ? &s->resolver : NULL});
        w->last = s;
    }
    if (rc)
        return ea_fail(err, rc, "run the program on so many machines");
    rc = ea_machine_apply(s->state, event.record, event.c, event.utc_ns, err);
    if (rc)
        return rc;
    rc = watch_counts(w, s) ? ea_lang_run_event(run, &event) : ea_lang_run_note(run, &event);
    return rc < 0 ? ea_fail(err, rc, "run the program") : rc ? EC_WATCH_OVER : 1;
}

int ec_watch_streams_next(ec_watch_streams *w, ea_lang_run *run, ea_err *err) {
    int rc = watch_open_due(w, err);
    if (rc || !w->heap_count)
        return rc;
    stream *s = w->heap[0];
    int given = watch_deliver(w, s, run, err);
    if (given != 1)
        return given;
    s->has_event = 0;
    rc = watch_advance(w, s, err);
    if (rc < 0)
        return rc;
    if (rc) {
        watch_streams_sift_down(w);
        return 1;
    }
    pop(w);
    if (!w->range.is_live) {
        ea_lang_run_leave(run);
        w->last = NULL;
        watch_close_stream(w, s);
    }
    return 1;
}

/* 1 when the stream is among those with an event that is due. */
static int is_ready(const ec_watch_streams *w, const stream *s) {
    for (size_t i = 0; i < w->heap_count; i++)
        if (w->heap[i] == s)
            return 1;
    return 0;
}

/* The stream has sent nothing for long: what is kept of it makes room. When it goes on, its state is read again. */
static int watch_free_idle(ec_watch_streams *w, stream *s, ea_lang_run *run, ea_err *err) {
    if (ea_lang_run_machine(run, &(ea_lang_machine){.number = s->machine, .host = s->host, .state = s->state}))
        return ea_fail(err, EA_ENOMEM, "run the program");
    ea_lang_run_leave(run);
    w->last = NULL;
    watch_close_stream(w, s);
    s->idle_number = s->reader.number;
    if (s->seen_number < s->reader.number)
        s->seen_number = s->reader.number;
    s->reader.number = 0;
    s->event_number = 0;
    w->freed++;
    return 0;
}

static int watch_free_all_idle(ec_watch_streams *w, ea_lang_run *run, ea_err *err) {
    int64_t now_ns = ea_monotonic_ns();
    int rc = 0;
    for (size_t i = 0; i < w->opened && !rc; i++) {
        stream *s = w->all[i];
        if (s->is_open && !s->has_event && s->reader.number && now_ns - s->fed_ns > w->range.idle_ns)
            rc = watch_free_idle(w, s, run, err);
    }
    return rc;
}

int ec_watch_streams_refresh(ec_watch_streams *w, ea_lang_run *run, ea_err *err) {
    ec_store_place place;
    int rc = ec_store_position(w->store, &place, err);
    if (!rc)
        rc = watch_free_all_idle(w, run, err);
    if (rc || (place.segment == w->place.segment && place.offset == w->place.offset && !w->wants.stacks))
        return rc;
    w->place = place;
    rc = watch_find_streams(w, 0, err);
    for (size_t i = 0; i < w->opened && !rc; i++)
        if (!is_ready(w, w->all[i]))
            rc = watch_start(w, w->all[i], err);
    return rc ? rc : watch_open_due(w, err);
}

uint64_t ec_watch_streams_damage(const ec_watch_streams *w, const char **ret_first) {
    *ret_first = w->first_damage;
    return w->damaged;
}

uint64_t ec_watch_streams_freed(const ec_watch_streams *w) {
    return w->freed;
}

uint64_t ec_watch_streams_count(const ec_watch_streams *w) {
    return w->machines;
}
