/* See batch_order.h. */
#include "collector/pull/batch_order.h"

#include "proto/base/array.h"
#include "proto/base/provider_guids.h"
#include "proto/relog/payload_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MAX = 256 };

/* Clocks of one start of a machine differ by less: by what its clock was set meanwhile. */
#define SAME_START_NS INT64_C(60000000000)

static const ea_guid EVENT_TRACE = EA_PROVIDER_EVENT_TRACE;

typedef struct waiting {
    ec_batch_row row;
    uint32_t stream;
} waiting;

/* A batch that is being read. */
typedef struct lane {
    uint8_t *data;
    size_t data_capacity;
    ea_batch_view *view;
    uint8_t *is_same; /* a source: its ticks are those of the clock */
    size_t source_capacity;
    const ea_record *r; /* at hand */
    const ea_class *c;
    int64_t time; /* of r, in ticks of the clock */
    waiting at;
    const ea_class *last; /* for which wants is known */
    int last_wanted;
} lane;

struct ec_batch_order {
    ec_batch_order_options options;
    ec_index_query_filter filter;
    ea_class_hash *classes;
    waiting *batches; /* by begin */
    size_t count, capacity, next;
    lane lanes[LANES_MAX];
    uint16_t heap[LANES_MAX]; /* numbers of lanes with a record, the first one on top */
    uint16_t free_lanes[LANES_MAX];
    size_t heap_count, free_count;
    int advance; /* the top lane's record was returned: it goes on */
    ea_record record;
    uint8_t payload[UINT16_MAX];
};

/* ---- which batches ---- */

static int compare_waiting(const void *a, const void *b) {
    const waiting *x = a, *y = b;
    if (x->row.begin_utc_ns != y->row.begin_utc_ns)
        return x->row.begin_utc_ns < y->row.begin_utc_ns ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->row.number > y->row.number) - (x->row.number < y->row.number);
}

/* The classes that are wanted; without a choice the filter has none, which means all. *ret_any: 0 when no stored class
 * is wanted. */
static int batch_order_choose_classes(ec_batch_order *b, int *ret_any, ea_err *err) {
    const ec_batch_order_options *o = &b->options;
    const ea_class *const *all;
    size_t count, n = 0;
    int rc = ec_archive_classes(o->archive, &all, &count, err);
    *ret_any = 1;
    if (rc || !o->wants)
        return rc;
    b->classes = malloc((count + 1) * sizeof *b->classes);
    if (!b->classes)
        return ea_fail(err, EA_ENOMEM, "read batches");
    for (size_t i = 0; i < count; i++)
        if (o->wants(o->arg, all[i]))
            memcpy(b->classes[n++].bytes, all[i]->hash, EA_CLASS_HASH_BYTES);
    b->filter.classes = b->classes;
    b->filter.class_count = n;
    *ret_any = n > 0;
    return 0;
}

static int list_batches(ec_batch_order *b, ea_err *err) {
    ec_index_query *find = NULL;
    ec_found found;
    int any, rc = batch_order_choose_classes(b, &any, err);
    if (rc || !any)
        return rc;
    rc = ec_index_query_open(&find, ec_archive_store(b->options.archive), &b->filter, err);
    for (size_t i = 0; !rc && i < b->options.stream_count; i++) {
        ec_index_query_stream(find, &b->options.streams[i]->row);
        while ((rc = ec_index_query_next(find, &found, err)) == 1) {
            if (found.kind != EA_BATCH_EVENTS)
                continue;
            if (EA_GROW(b->batches, b->capacity, b->count + 1, SIZE_MAX)) {
                rc = ea_fail(err, EA_ENOMEM, "read batches");
                break;
            }
            b->batches[b->count++] = (waiting){.row = found.row, .stream = (uint32_t)i};
        }
    }
    ec_index_query_close(find);
    if (!rc && b->count)
        qsort(b->batches, b->count, sizeof *b->batches, compare_waiting);
    return rc;
}

int ec_batch_order_open(ec_batch_order **ret, const ec_batch_order_options *options, int64_t from_utc_ns,
                        int64_t to_utc_ns, ea_err *err) {
    ec_batch_order *b = calloc(1, sizeof *b);
    if (!b)
        return ea_fail(err, EA_ENOMEM, "read batches");
    b->options = *options;
    b->filter = (ec_index_query_filter){.from_utc_ns = from_utc_ns, .to_utc_ns = to_utc_ns};
    for (size_t i = 0; i < LANES_MAX; i++)
        b->free_lanes[b->free_count++] = (uint16_t)(LANES_MAX - 1 - i);
    int rc = list_batches(b, err);
    if (rc) {
        ec_batch_order_close(b);
        return rc;
    }
    *ret = b;
    return 0;
}

void ec_batch_order_close(ec_batch_order *b) {
    if (!b)
        return;
    for (size_t i = 0; i < LANES_MAX; i++) {
        ea_batch_close(b->lanes[i].view);
        free(b->lanes[i].data);
        free(b->lanes[i].is_same);
    }
    free(b->batches);
    free(b->classes);
    free(b);
}

/* ---- one batch ---- */

static const ec_archive_stream *stream_of(const ec_batch_order *b, const waiting *w) {
    return b->options.streams[w->stream];
}

static int64_t distance(int64_t a, int64_t b) {
    uint64_t d = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return d > INT64_MAX ? INT64_MAX : (int64_t)d;
}

/* Whether ticks of the source are ticks of the clock: 1, 0 when they are to be converted, or EA_EUNSUPPORTED. */
static int compare_source(const ec_batch_order *b, const ea_wire_source *s, ea_err *err) {
    const ea_clock *clock = &b->options.clock;
    int same = s->clock.type == clock->type && s->clock.frequency == clock->frequency;
    int64_t boot = b->options.boot_filetime;
    if ((same && distance(ea_clock_to_utc_ns(clock, s->clock.base_raw), s->clock.base_utc_ns) > SAME_START_NS) ||
        (boot && s->boot_filetime && distance(boot, s->boot_filetime) > SAME_START_NS / 100)) {
        ea_text at;
        ea_text_init(&at);
        ea_text_utc_ns(&at, ea_filetime_to_utc_ns(s->boot_filetime > boot ? s->boot_filetime : boot));
        int rc =
            ea_fail(err, EA_EUNSUPPORTED,
                    "the machine was started again at %s: a trace has one start, so choose a time before or after it",
                    at.data ? at.data : "a later time");
        ea_text_deinit(&at);
        return rc;
    }
    return same;
}

static int check_sources(ec_batch_order *b, lane *l, ea_err *err) {
    size_t count = ea_batch_source_count(l->view);
    if (EA_GROW(l->is_same, l->source_capacity, count, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "read batches");
    for (size_t i = 0; i < count; i++) {
        const ea_wire_source *s = ea_batch_source(l->view, i);
        int same = b->options.clock.frequency ? compare_source(b, s, err) : 1;
        if (same < 0)
            return same;
        if (b->options.pointer_size && s->pointer_size && s->pointer_size != b->options.pointer_size)
            return ea_fail(err, EA_EUNSUPPORTED,
                           "a session of this time has pointers of %u bytes, another one of %u: a trace has one size",
                           s->pointer_size, b->options.pointer_size);
        l->is_same[i] = (uint8_t)same;
    }
    return 0;
}

static int batch_order_is_wanted(const ec_batch_order *b, lane *l, const ea_class *c) {
    if (c->kind == EA_KIND_KEYFRAME)
        return 0;
    if (!b->options.wants)
        return 1;
    if (l->last != c) {
        l->last = c;
        l->last_wanted = b->options.wants(b->options.arg, c);
    }
    return l->last_wanted;
}

/* The header event of a trace: the output has one of its own. */
static int batch_order_is_header(const ea_record *r) {
    return r->opcode == 0 && r->hook_id == 0 && r->flags & EA_FLAG_CLASSIC_HEADER &&
           ea_guid_equal(&r->provider, &EVENT_TRACE);
}

/* The lane's next record: 1, 0 when the batch is over (or damaged), or an error. */
static int next_of_lane(ec_batch_order *b, lane *l) {
    ea_err damage = {0};
    int rc;
    while ((rc = ea_batch_next(l->view, &l->r, &l->c, &damage)) == 1) {
        if (batch_order_is_header(l->r) || !batch_order_is_wanted(b, l, l->c))
            continue;
        l->time = l->is_same[l->r->source] ? l->r->time_raw
                                           : ea_clock_convert(&ea_batch_source(l->view, l->r->source)->clock,
                                                              &b->options.clock, l->r->time_raw);
        return 1;
    }
    if (rc < 0)
        ec_archive_damaged(b->options.archive, stream_of(b, &l->at), l->at.row.number, &damage);
    return 0;
}

static int read_batch(ec_batch_order *b, lane *l, ea_err *err) {
    const uint8_t *data;
    size_t len_bytes;
    int rc = ec_store_read(ec_archive_store(b->options.archive), &l->at.row, &data, &len_bytes, err);
    if (rc)
        return rc;
    if (EA_GROW(l->data, l->data_capacity, len_bytes, SIZE_MAX)) /* the store's memory is the next batch's */
        return ea_fail(err, EA_ENOMEM, "read batches");
    memcpy(l->data, data, len_bytes);
    l->last = NULL;
    return ea_batch_open_next(&l->view, l->data, len_bytes, ec_archive_registry(b->options.archive), err);
}

/* Damage is reported, and the lane has no view then. */
static int batch_order_open_batch(ec_batch_order *b, lane *l, const waiting *w, ea_err *err) {
    ea_err damage = {0};
    l->at = *w;
    int rc = read_batch(b, l, &damage);
    if (!rc)
        return check_sources(b, l, err);
    ea_batch_close(l->view);
    l->view = NULL;
    if (!ec_is_damage(rc)) {
        *err = damage;
        return rc;
    }
    ec_archive_damaged(b->options.archive, stream_of(b, w), w->row.number, &damage);
    return 0;
}

/* ---- the order ---- */

static int batch_order_is_before(const lane *x, const lane *y) {
    if (x->time != y->time)
        return x->time < y->time;
    if (x->at.stream != y->at.stream)
        return x->at.stream < y->at.stream;
    return x->at.row.number < y->at.row.number;
}

static void sink(ec_batch_order *b, size_t at) {
    for (;;) {
        size_t first = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < b->heap_count; child++)
            if (batch_order_is_before(&b->lanes[b->heap[child]], &b->lanes[b->heap[first]]))
                first = child;
        if (first == at)
            return;
        uint16_t other = b->heap[at];
        b->heap[at] = b->heap[first];
        b->heap[first] = other;
        at = first;
    }
}

static void batch_order_push(ec_batch_order *b, uint16_t number) {
    size_t at = b->heap_count++;
    for (; at && batch_order_is_before(&b->lanes[number], &b->lanes[b->heap[(at - 1) / 2]]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = number;
}

/* The top lane goes on, or away. */
static void advance_top(ec_batch_order *b) {
    lane *l = &b->lanes[b->heap[0]];
    if (!next_of_lane(b, l)) {
        b->free_lanes[b->free_count++] = b->heap[0];
        b->heap[0] = b->heap[--b->heap_count];
    }
    sink(b, 0);
    b->advance = 0;
}

/* A batch's range is in ticks of its first source, and rounded. */
static int begins_by(const ec_batch_order *b, const waiting *w, int64_t time) {
    enum { TICK_NS = 1000000 };

    int64_t begin = w->row.begin_utc_ns;
    begin = begin > INT64_MIN + TICK_NS ? begin - TICK_NS : INT64_MIN;
    return ea_clock_from_utc_ns(&b->options.clock, begin) <= time;
}

/* Opens the batches that may have a record before the one on top. */
static int open_waiting(ec_batch_order *b, ea_err *err) {
    int rc = 0;
    while (!rc && b->next < b->count && b->free_count &&
           (!b->heap_count || begins_by(b, &b->batches[b->next], b->lanes[b->heap[0]].time))) {
        if (!ec_archive_goes_on(b->options.archive))
            return ea_fail(err, EA_ECANCELED, "read batches");
        uint16_t number = b->free_lanes[b->free_count - 1];
        lane *l = &b->lanes[number];
        rc = batch_order_open_batch(b, l, &b->batches[b->next++], err);
        if (!rc && l->view && next_of_lane(b, l)) {
            b->free_count--;
            batch_order_push(b, number);
        }
    }
    return rc;
}

/* Times in the payload of a record of another clock. */
static void convert_payload(ec_batch_order *b, const lane *l) {
    ea_payload_times_convert(&ea_batch_source(l->view, l->r->source)->clock, &b->options.clock, l->r, l->c, b->payload);
    b->record.payload = b->payload;
}

int ec_batch_order_next(ec_batch_order *b, const ea_record **ret, const ea_class **ret_class, ea_err *err) {
    if (b->advance)
        advance_top(b);
    int rc = open_waiting(b, err);
    if (rc)
        return rc;
    if (!b->heap_count)
        return 0;
    const lane *l = &b->lanes[b->heap[0]];
    b->record = *l->r;
    b->record.time_raw = l->time;
    b->record.source = 0;
    if (!l->is_same[l->r->source])
        convert_payload(b, l);
    b->advance = 1;
    *ret = &b->record;
    *ret_class = l->c;
    return 1;
}

/* ---- the sources ---- */

static void note_sources(const ea_batch_view *view, ec_batch_order_sources *ret) {
    for (size_t i = 0; i < ea_batch_source_count(view); i++) {
        const ea_wire_source *s = ea_batch_source(view, i);
        if (!ret->is_found) {
            ret->first = *s;
            ret->first.host = NULL;
            ret->first.agent_version = NULL;
            ret->first.labels = (ea_labels){0};
            snprintf(ret->session_name, sizeof ret->session_name, "%s", s->name ? s->name : "");
            ret->first.name = ret->session_name;
            ret->is_found = 1;
        }
        ret->cpu_count = s->cpu_count > ret->cpu_count ? s->cpu_count : ret->cpu_count;
        ret->several_loggers |= s->logger != ret->first.logger;
        ret->source_count++;
    }
}

int ec_batch_order_look(const ec_batch_order_options *options, int64_t from_utc_ns, int64_t to_utc_ns,
                        ec_batch_order_sources *ret, ea_err *err) {
    ec_batch_order *b = NULL;
    uint8_t *seen = calloc(options->stream_count + 1, 1);
    *ret = (ec_batch_order_sources){0};
    int rc =
        seen ? ec_batch_order_open(&b, options, from_utc_ns, to_utc_ns, err) : ea_fail(err, EA_ENOMEM, "read batches");
    for (size_t i = 0; !rc && i < b->count; i++) {
        if (seen[b->batches[i].stream])
            continue;
        rc = batch_order_open_batch(b, &b->lanes[0], &b->batches[i], err);
        if (!rc && b->lanes[0].view) {
            note_sources(b->lanes[0].view, ret);
            seen[b->batches[i].stream] = 1;
        }
    }
    ec_batch_order_close(b);
    free(seen);
    return rc;
}
