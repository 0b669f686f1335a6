/* Rows become a batch: groups, columns, frames, envelope. FORMAT.md is the specification.
 * Before it: a taken batch. After it: service/ship. Thread: the encoder's; only the set of known classes is shared. */
#include "checksum.h"
#include "columns.h"
#include "map.h"
#include "open_batch.h"
#include "platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

enum {
    OWN_FRAME_BYTES = 1024,       /* a column of so many bytes gets a frame of its own */
    SMALL_POOL_BYTES = 8 << 10,   /* what is pooled stands in the directory while it is no more than this */
    MIN_DIRECTORY_GAIN = 16,      /* compressing must save so much */
    SMALL_BATCH_BYTES = 16 << 10, /* columns data of a batch that is pooled as a whole */
    FLAT_EVENTS = 64,             /* in a batch of no more events, groups share what columns they can */
    TRANSPOSE_ROWS = 6,           /* a group of fewer rows keeps its payloads whole */
    FLAT_TRANSPOSE_ROWS = 12,     /* ... in such a small batch */
    KNOWN_MAX = 65536,
    ARENA_BYTES = 8 << 20, /* asked for at once; an ordinary batch needs less */
};

typedef Etwagent__V1__Group pb_group;

/* A group as it is written: rows of one open group whose payloads are all split alike. */
typedef struct out_group {
    const ea_open_group *from;
    const uint32_t *rows;           /* indexes of its events, ascending */
    const uint8_t *const *payloads; /* of these events */
    const uint16_t *places;         /* see split_rows; NULL: every field stands at its class's offset */
    uint32_t count;
    size_t field_count; /* in columns of their own; 0: the payloads stay whole */
} out_group;

struct ea_encoder {
    ea_encoder_options options;
    ZSTD_CCtx *zstd;
    ea_arena arena;
    size_t arena_reserved; /* size of its one block */
    ea_columns columns;
    uint8_t *out;
    size_t out_capacity;
    /* by event of the batch at hand */
    uint32_t capacity;
    uint32_t *order;          /* events by group */
    const uint8_t **payloads; /* in that order */
    uint32_t *group_of;       /* index of the written group */
    uint32_t *thread_of;
    uint64_t *values; /* scratch of one column */
    ea_slice *slices;
    uint32_t *threads; /* look-up table of (pid, tid) */
    uint64_t *thread_ids;
    size_t thread_mask;
    ea_mutex *lock;   /* guards known */
    ea_u64_map known; /* first 8 bytes of class hashes */
};

int ea_encoder_create(ea_encoder **ret, const ea_encoder_options *options, ea_err *err) {
    ea_encoder *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "make an encoder");
    e->options = *options;
    if (e->options.zstd_level == 0)
        e->options.zstd_level = 1;
    ea_arena_init(&e->arena, 0);
    ea_columns_init(&e->columns, &e->arena);
    e->columns.no_dictionaries = e->options.zstd_level == EA_ZSTD_NONE;
    ea_u64_map_init(&e->known, KNOWN_MAX);
    e->zstd = ZSTD_createCCtx();
    int rc = e->zstd ? ea_mutex_create(&e->lock, err) : ea_fail(err, EA_ENOMEM, "make an encoder");
    if (rc) {
        ea_encoder_destroy(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void ea_encoder_destroy(ea_encoder *e) {
    if (!e)
        return;
    ZSTD_freeCCtx(e->zstd);
    ea_columns_deinit(&e->columns);
    ea_arena_deinit(&e->arena);
    ea_u64_map_deinit(&e->known);
    ea_mutex_destroy(e->lock);
    free(e->out);
    free(e->order);
    free((void *)(uintptr_t)e->payloads);
    free(e->group_of);
    free(e->thread_of);
    free(e->values);
    free(e->slices);
    free(e->threads);
    free(e->thread_ids);
    free(e);
}

void ea_encoder_known(ea_encoder *e, const uint8_t *class_hash) {
    ea_mutex_lock(e->lock);
    /* when the set is full the description is simply sent again */
    int rc = ea_u64_map_put(&e->known, ea_load64(class_hash), 1);
    (void)rc;
    ea_mutex_unlock(e->lock);
}

void ea_encoder_unknown(ea_encoder *e, const uint8_t *class_hash) {
    ea_mutex_lock(e->lock);
    ea_u64_map_remove(&e->known, ea_load64(class_hash));
    ea_mutex_unlock(e->lock);
}

/* ---- scratch ---- */

static int resize(void **p, size_t count, size_t element_bytes) {
    free(*p);
    *p = malloc(count * element_bytes);
    return *p ? 0 : EA_ENOMEM;
}

#define RESIZE(p, count) (scratch = (void *)(uintptr_t)(p), rc |= resize(&scratch, count, sizeof *(p)), (p) = scratch)

static int reserve_events(ea_encoder *e, uint32_t n) {
    if (n <= e->capacity)
        return 0;
    void *scratch;
    int rc = 0;
    size_t table = 1024;
    while (table < 2 * (size_t)n)
        table *= 2;
    e->capacity = 0;
    RESIZE(e->order, n);
    RESIZE(e->payloads, n);
    RESIZE(e->group_of, n);
    RESIZE(e->thread_of, n);
    RESIZE(e->values, n);
    RESIZE(e->slices, n);
    RESIZE(e->threads, table);
    RESIZE(e->thread_ids, n);
    e->thread_mask = table - 1;
    if (rc)
        return EA_ENOMEM;
    e->capacity = n;
    return 0;
}

static int is_flat(const ea_open_batch *o) {
    return o->count <= FLAT_EVENTS;
}

static const uint8_t *payload_of(const ea_open_batch *o, uint32_t event) {
    return o->content + o->place[event].payload;
}

/* ---- which rows go where ---- */

/* Events by group, in order of arrival inside each. starts: one entry a group, and the end. */
static void sort_by_group(ea_encoder *e, const ea_open_batch *o, uint32_t *starts) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        starts[k] = at;
        at += o->groups[k].count;
    }
    for (uint32_t i = 0; i < o->count; i++)
        e->order[starts[o->group[i]]++] = i;
    for (uint32_t k = o->group_count; k > 0; k--)
        starts[k] = starts[k - 1];
    starts[0] = 0;
}

/* How many leading fields a group's columns hold: as many as three of four payloads have whole. wholes: of each row. */
static size_t common_fields(const uint32_t *wholes, uint32_t count, size_t fields) {
    uint32_t rows[EA_FIELDS_MAX + 1] = {0}, having = 0;
    for (uint32_t i = 0; i < count; i++)
        rows[wholes[i]]++;
    for (size_t k = fields; k > 0; k--) {
        having += rows[k];
        if ((uint64_t)having * 4 >= (uint64_t)count * 3)
            return k;
    }
    return 0;
}

static size_t places_of(const ea_class *c) {
    return (size_t)c->top_count - c->fixed_fields + 1;
}

/* Moves the rows whose payloads hold the leading *ret_fields fields whole to the front, keeping both parts' orders;
 * returns how many they are. *ret_places: where the fields of those rows that follow the fixed ones begin in their
 * payloads, and where the last one ends: places_of(class) numbers a row. NULL when all fields are fixed. */
static uint32_t split_rows(ea_encoder *e, const ea_open_batch *o, const ea_open_group *g, uint32_t *rows,
                           size_t *ret_fields, const uint16_t **ret_places) {
    ea_slice slices[EA_FIELDS_MAX];
    const ea_class *c = g->c;
    uint32_t count = g->count, front = 0, rest = 0, *wholes = e->thread_of; /* not in use for anything else yet */
    size_t fixed = c->fixed_fields, stride = places_of(c), used;
    *ret_fields = c->top_count;
    *ret_places = NULL;
    if (fixed == c->top_count && g->payload_min >= c->fixed_bytes)
        return count;
    uint16_t *places = ea_arena_alloc(&e->arena, count * stride * sizeof *places);
    if (!places) {
        e->columns.failed = 1;
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t *to = places + i * stride;
        const uint8_t *payload = payload_of(o, rows[i]);
        size_t whole = ea_class_split_rest(c, payload, o->form[rows[i]].payload_bytes, slices, &used);
        for (size_t f = fixed; f < whole; f++)
            *to++ = (uint16_t)(slices[f].data - payload);
        *to = (uint16_t)used; /* of no meaning in a row that has not even the fixed fields */
        wholes[i] = (uint32_t)whole;
    }
    size_t fields = common_fields(wholes, count, c->top_count);
    for (uint32_t i = 0; i < count; i++) {
        if (wholes[i] < fields) {
            e->group_of[rest++] = rows[i]; /* nor is this */
            continue;
        }
        if (front != i)
            memcpy(places + front * stride, places + i * stride, stride * sizeof *places);
        rows[front++] = rows[i];
    }
    memcpy(rows + front, e->group_of, rest * sizeof *rows);
    *ret_fields = fields;
    *ret_places = places;
    return fields ? front : 0;
}

static out_group *list_groups(ea_encoder *e, const ea_open_batch *o, uint32_t *ret_count) {
    uint32_t *starts = ea_arena_alloc(&e->arena, (o->group_count + 1) * sizeof *starts);
    out_group *out = ea_arena_alloc(&e->arena, 2 * (size_t)o->group_count * sizeof *out);
    if (!starts || !out)
        return NULL;
    sort_by_group(e, o, starts);
    uint32_t n = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        const ea_open_group *g = &o->groups[k];
        const uint16_t *places = NULL;
        uint32_t *rows = e->order + starts[k], whole = 0;
        size_t fields = 0;
        if (g->c->top_count && g->count >= (is_flat(o) ? FLAT_TRANSPOSE_ROWS : TRANSPOSE_ROWS))
            whole = split_rows(e, o, g, rows, &fields, &places);
        const uint8_t *const *payloads = e->payloads + starts[k];
        if (whole)
            out[n++] = (out_group){
                .from = g, .rows = rows, .payloads = payloads, .places = places, .count = whole, .field_count = fields};
        if (whole < g->count)
            out[n++] =
                (out_group){.from = g, .rows = rows + whole, .payloads = payloads + whole, .count = g->count - whole};
    }
    for (uint32_t i = 0; i < o->count; i++)
        e->payloads[i] = payload_of(o, e->order[i]);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < out[k].count; i++)
            e->group_of[out[k].rows[i]] = k;
    *ret_count = n;
    return out;
}

/* ---- columns of a group ---- */

/* One number of each payload. stride: from row to row in places; NULL: all stand at offset. */
static void gather_numbers(ea_encoder *e, const out_group *g, size_t offset, const uint16_t *places, size_t stride,
                           unsigned width) {
    uint64_t *v = e->values;
#define GATHER(expression)                                                                                             \
    for (uint32_t i = 0; i < g->count; i++) {                                                                          \
        const uint8_t *p = g->payloads[i] + (places ? places[i * stride] : offset);                                    \
        v[i] = expression;                                                                                             \
    }
    if (width == 4)
        GATHER(ea_load32(p))
    else if (width == 8)
        GATHER(ea_load64(p))
    else if (width == 2)
        GATHER(ea_load16(p))
    else
        GATHER(*p)
#undef GATHER
}

/* Text pays to be split into its low and its high bytes; arrays of addresses repeat as a whole, and do not. */
static unsigned unit_of(const ea_field *f) {
    return f->type == EA_UTF16Z || f->type == EA_UTF16_COUNTED || f->type == EA_UTF16_REST || f->type == EA_UTF16_FIXED
               ? 2
               : 1;
}

static void put_field(ea_encoder *e, const out_group *g, size_t top, const ea_relations *relations, pb_group *m) {
    const ea_class *c = g->from->c;
    const ea_field *f = &c->fields[ea_class_top_field(c, top)];
    size_t stride = places_of(c);
    const uint16_t *places = f->offset == EA_OFFSET_NONE ? g->places + (top - c->fixed_fields) : NULL;
    int is_number = f->type != EA_STRUCT && f->count_field < 0 && f->count == 1 &&
                    (f->width == 1 || f->width == 2 || f->width == 4 || f->width == 8);
    Etwagent__V1__Column *column;
    if (is_number) {
        gather_numbers(e, g, f->offset, places, stride, f->width);
        column = ea_columns_numbers(&e->columns, e->values, g->count, f->width, 0, 0, relations);
    } else {
        for (uint32_t i = 0; i < g->count; i++) {
            size_t at = places ? places[i * stride] : f->offset;
            size_t end = places ? places[i * stride + 1] : at + f->width * (size_t)f->count;
            e->slices[i] = (ea_slice){.data = g->payloads[i] + at, .len_bytes = (uint32_t)(end - at)};
        }
        column = ea_columns_bytes(&e->columns, e->slices, g->count, unit_of(f));
    }
    m->fields[m->n_fields++] = column;
}

/* Where what no column of a field holds begins in the payload of row i. */
static size_t tail_place(const out_group *g, size_t i) {
    const ea_class *c = g->from->c;
    if (g->field_count == 0)
        return 0;
    if (g->field_count < c->fixed_fields)
        return c->fields[g->field_count].offset;
    return g->places ? g->places[i * places_of(c) + g->field_count - c->fixed_fields] : c->fixed_bytes;
}

static int put_payloads(ea_encoder *e, const ea_open_batch *o, const out_group *g, pb_group *m) {
    const ea_class *c = g->from->c;
    size_t n = g->count, fields = g->field_count;
    if (fields) {
        m->fields = ea_arena_alloc(&e->arena, fields * sizeof(void *));
        if (!m->fields)
            return EA_ENOMEM;
        ea_relations relations = {.batch = o, .index = g->rows};
        for (size_t f = 0; f < fields; f++)
            put_field(e, g, f, &relations, m);
        if (!g->places && g->from->payload_max == c->fixed_bytes)
            return 0;
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t payload_bytes = o->form[g->rows[i]].payload_bytes;
        size_t at = tail_place(g, i);
        e->slices[i] = (ea_slice){.data = g->payloads[i] + at, .len_bytes = (uint32_t)(payload_bytes - at)};
        tail += e->slices[i].len_bytes;
    }
    if (tail)
        m->payload = ea_columns_bytes(&e->columns, e->slices, n, 1);
    return 0;
}

/* The item's data in an event: items stand behind each other, each with its length before it. */
static ea_slice item_data(const ea_open_batch *o, const ea_open_group *g, uint32_t event, unsigned item) {
    const ea_item_shape *shapes = &o->shapes[g->shapes];
    const uint8_t *at = o->content + o->place[event].items;
    for (unsigned i = 0;; i++) {
        if (shapes[i].constant != (uint32_t)EA_NO_CONSTANT) {
            if (i == item)
                return (ea_slice){.data = o->content + shapes[i].constant, .len_bytes = shapes[i].size_bytes};
            continue;
        }
        uint32_t n = ea_load32(at);
        if (i == item)
            return (ea_slice){.data = at + 4, .len_bytes = n};
        at += 4 + (size_t)n;
    }
}

static int put_items(ea_encoder *e, const ea_open_batch *o, const out_group *g, pb_group *m) {
    const ea_open_group *from = g->from;
    if (!from->ext_count)
        return 0;
    m->items = ea_arena_alloc(&e->arena, from->ext_count * sizeof(void *));
    Etwagent__V1__Item *items = ea_arena_alloc(&e->arena, from->ext_count * sizeof *items);
    if (!m->items || !items)
        return EA_ENOMEM;
    for (unsigned k = 0; k < from->ext_count; k++) {
        const ea_item_shape *shape = &o->shapes[from->shapes + k];
        etwagent__v1__item__init(&items[k]);
        items[k].type = shape->type;
        items[k].linkage = shape->linkage;
        m->items[m->n_items++] = &items[k];
        uint32_t width = item_data(o, from, g->rows[0], k).len_bytes;
        int same_width = 1;
        for (uint32_t i = 0; i < g->count; i++) {
            e->slices[i] = item_data(o, from, g->rows[i], k);
            same_width &= e->slices[i].len_bytes == width;
        }
        if (same_width && (width == 1 || width == 2 || width == 4 || width == 8)) {
            for (uint32_t i = 0; i < g->count; i++)
                e->values[i] = ea_load_uint(e->slices[i].data, width);
            items[k].data = ea_columns_numbers(&e->columns, e->values, g->count, width, 0, 0, NULL);
        } else if (same_width && width && width <= 64) {
            items[k].data = ea_columns_wide(&e->columns, e->slices, g->count, width, 0);
        } else {
            items[k].data = ea_columns_bytes(&e->columns, e->slices, g->count, 1);
        }
    }
    return 0;
}

static int put_header_columns(ea_encoder *e, const ea_open_batch *o, const out_group *g, pb_group *m) {
    if (g->from->has_times) {
        for (uint32_t i = 0; i < g->count; i++)
            e->values[i] = o->times[g->rows[i]].kernel;
        m->kernel_time = ea_columns_numbers(&e->columns, e->values, g->count, 4, 1, 0, NULL);
        for (uint32_t i = 0; i < g->count; i++)
            e->values[i] = o->times[g->rows[i]].user;
        m->user_time = ea_columns_numbers(&e->columns, e->values, g->count, 4, 1, 0, NULL);
    }
    if (g->from->has_activity) {
        for (uint32_t i = 0; i < g->count; i++)
            e->slices[i] = (ea_slice){.data = o->activity[g->rows[i]].bytes, .len_bytes = 16};
        m->activity = ea_columns_wide(&e->columns, e->slices, g->count, 16, 1);
    }
    return e->columns.failed ? EA_ENOMEM : 0;
}

/* What differs from the class and from the group before. */
static int put_header(ea_encoder *e, const out_group *g, const ea_record *before, pb_group *m, ea_record *ret) {
    const ea_class *c = g->from->c;
    ea_record r = {0};
    ea_open_group_header(g->from, &r);
    Etwagent__V1__Header h = ETWAGENT__V1__HEADER__INIT;
    h.id = r.id ^ (c->classic ? 0u : c->code);
    h.version = (uint32_t)r.version ^ c->version;
    h.opcode = r.opcode ^ (c->classic ? c->code : 0u);
    h.pointer_size = (uint32_t)r.pointer_size ^ c->pointer_size;
    h.channel = (uint32_t)r.channel ^ before->channel;
    h.level = (uint32_t)r.level ^ before->level;
    h.task = (uint32_t)r.task ^ before->task;
    h.keyword = r.keyword ^ before->keyword;
    h.flags = (uint32_t)r.flags ^ before->flags;
    h.property = (uint32_t)r.property ^ before->property;
    h.header_type = (uint32_t)r.header_type ^ before->header_type;
    h.hook_id = (uint32_t)r.hook_id ^ before->hook_id;
    h.header_word = (uint32_t)r.header_word ^ before->header_word;
    h.logger = (uint32_t)r.logger ^ before->logger;
    *ret = r;
    if (!ea_guid_equal(&r.provider, &c->provider)) {
        h.provider.data = ea_arena_copy(&e->arena, &r.provider, sizeof r.provider);
        h.provider.len = sizeof r.provider;
        if (!h.provider.data)
            return EA_ENOMEM;
    }
    if (etwagent__v1__header__get_packed_size(&h) == 0)
        return 0;
    m->header = ea_arena_copy(&e->arena, &h, sizeof h);
    return m->header ? 0 : EA_ENOMEM;
}

static int put_group(ea_encoder *e, const ea_open_batch *o, const out_group *g, const ea_record *before, pb_group *m,
                     ea_record *ret_header) {
    etwagent__v1__group__init(m);
    m->class_hash.data = (uint8_t *)(uintptr_t)g->from->c->hash;
    m->class_hash.len = EA_CLASS_HASH_BYTES;
    m->count = g->count;
    int rc = put_header(e, g, before, m, ret_header);
    if (!rc)
        rc = put_items(e, o, g, m);
    if (!rc && !is_flat(o))
        rc = put_header_columns(e, o, g, m);
    if (!rc && (!is_flat(o) || g->field_count))
        rc = put_payloads(e, o, g, m);
    return rc;
}

/* ---- columns of the batch ---- */

static uint32_t intern_threads(ea_encoder *e, const ea_open_batch *o) {
    uint32_t n = 0, last = 0;
    memset(e->threads, 0, (e->thread_mask + 1) * sizeof *e->threads);
    for (uint32_t i = 0; i < o->count; i++) {
        uint64_t id = o->thread[i].pid | (uint64_t)o->thread[i].tid << 32;
        if (n == 0 || e->thread_ids[last] != id) {
            uint64_t h = id * 0x9E3779B97F4A7C15u;
            size_t slot = (size_t)(h ^ h >> 32) & e->thread_mask;
            while (e->threads[slot] && e->thread_ids[e->threads[slot] - 1] != id)
                slot = (slot + 1) & e->thread_mask;
            if (!e->threads[slot]) {
                e->thread_ids[n++] = id;
                e->threads[slot] = n;
            }
            last = e->threads[slot] - 1;
        }
        e->thread_of[i] = last;
    }
    return n;
}

static void put_events(ea_encoder *e, const ea_open_batch *o, int64_t time_min, Etwagent__V1__Directory *d) {
    ea_columns *c = &e->columns;
    uint32_t n = o->count, threads = intern_threads(e, o), sources = 0;
    uint64_t *v = e->values;
    for (uint32_t i = 0; i < n; i++)
        v[i] = e->group_of[i];
    d->group = ea_columns_numbers(c, v, n, 4, 1, 0, NULL);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (uint64_t)o->time[i];
    d->time = ea_columns_series(c, v, n, 8, (uint64_t)time_min);
    for (uint32_t i = 0; i < n; i++)
        v[i] = o->form[i].cpu;
    d->cpu = ea_columns_numbers(c, v, n, 2, 1, 0, NULL);
    for (uint32_t i = 0; i < n; i++)
        v[i] = e->thread_of[i];
    d->thread = ea_columns_numbers(c, v, n, 4, 1, 0, NULL);
    for (uint32_t i = 0; i < n; i++)
        sources |= v[i] = o->form[i].source;
    if (sources)
        d->source = ea_columns_numbers(c, v, n, 2, 1, 0, NULL);
    d->thread_count = threads;
    for (uint32_t i = 0; i < threads; i++)
        v[i] = (uint32_t)e->thread_ids[i];
    d->thread_pids = ea_columns_numbers(c, v, threads, 4, 1, 0, NULL);
    for (uint32_t i = 0; i < threads; i++)
        v[i] = e->thread_ids[i] >> 32;
    d->thread_tids = ea_columns_numbers(c, v, threads, 4, 1, 0, NULL);
}

/* The columns of a small batch: what others have by group, here in order of arrival. */
static void put_flat(ea_encoder *e, const ea_open_batch *o, const out_group *groups, Etwagent__V1__Directory *d) {
    ea_columns *c = &e->columns;
    uint32_t n = o->count, times = 0, activities = 0, bytes = 0, whole = 0;
    for (uint32_t i = 0; i < n; i++) {
        times |= o->times[i].kernel | o->times[i].user;
        activities |= !ea_guid_is_zero(&o->activity[i]);
    }
    if (times) {
        for (uint32_t i = 0; i < n; i++)
            e->values[i] = o->times[i].kernel;
        d->kernel_time = ea_columns_numbers(c, e->values, n, 4, 1, 0, NULL);
        for (uint32_t i = 0; i < n; i++)
            e->values[i] = o->times[i].user;
        d->user_time = ea_columns_numbers(c, e->values, n, 4, 1, 0, NULL);
    }
    if (activities) {
        for (uint32_t i = 0; i < n; i++)
            e->slices[i] = (ea_slice){.data = o->activity[i].bytes, .len_bytes = 16};
        d->activity = ea_columns_wide(c, e->slices, n, 16, 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (groups[e->group_of[i]].field_count)
            continue;
        e->slices[whole++] = (ea_slice){.data = payload_of(o, i), .len_bytes = o->form[i].payload_bytes};
        bytes |= o->form[i].payload_bytes;
    }
    if (bytes)
        d->payload = ea_columns_bytes(c, e->slices, whole, 1);
}

static int same_clock(const ea_clock *a, const ea_clock *b) {
    return a->type == b->type && a->frequency == b->frequency && a->base_raw == b->base_raw &&
           a->base_utc_ns == b->base_utc_ns;
}

/* Smallest and largest time, in ticks of the first source's clock. */
static void time_range(const ea_open_batch *o, int64_t *ret_min, int64_t *ret_max) {
    int64_t min = INT64_MAX, max = INT64_MIN;
    const ea_clock *first = &o->sources[0].clock;
    int one_clock = 1;
    for (size_t i = 1; i < o->source_count; i++)
        one_clock &= same_clock(first, &o->sources[i].clock);
    for (uint32_t i = 0; i < o->count; i++) {
        int64_t t = o->time[i];
        if (!one_clock && !same_clock(first, &o->sources[o->form[i].source].clock))
            t = ea_clock_from_utc_ns(first, ea_clock_to_utc_ns(&o->sources[o->form[i].source].clock, t));
        min = t < min ? t : min;
        max = t > max ? t : max;
    }
    *ret_min = min;
    *ret_max = max;
}

static uint64_t items_checksum(const ea_open_batch *o, uint32_t event) {
    ea_ext ext[EA_EXT_MAX];
    const ea_open_group *g = &o->groups[o->group[event]];
    for (unsigned k = 0; k < g->ext_count; k++) {
        ea_slice s = item_data(o, g, event, k);
        const ea_item_shape *shape = &o->shapes[g->shapes + k];
        ext[k] = (ea_ext){shape->type, shape->linkage, s.len_bytes, s.data};
    }
    return ea_checksum_items(ext, g->ext_count);
}

static uint64_t checksum_of(const ea_open_batch *o, uint64_t *constants) {
    uint64_t checksum = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        ea_record r;
        ea_open_group_header(&o->groups[k], &r);
        constants[k] = ea_checksum_constants(&r);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        ea_checksum_block b = {.constants = constants[o->group[i]],
                               .own = {(uint64_t)o->time[i], ea_load64(&o->thread[i]), ea_load64(&o->times[i]),
                                       ea_load64(o->activity[i].bytes), ea_load64(o->activity[i].bytes + 8),
                                       ea_load64(&o->form[i])},
                               .items = o->form[i].ext_count ? items_checksum(o, i) : 0};
        checksum = ea_checksum_event(checksum, &b, payload_of(o, i), o->form[i].payload_bytes);
    }
    return checksum;
}

/* ---- frames and envelope ---- */

/* Compresses into the arena: 0 bytes when that does not pay, or is switched off. */
static size_t compress(ea_encoder *e, const uint8_t *data, size_t len_bytes, uint8_t **ret) {
    if (e->options.zstd_level == EA_ZSTD_NONE)
        return 0;
    size_t room = ZSTD_compressBound(len_bytes);
    uint8_t *out = ea_arena_alloc(&e->arena, room);
    if (!out) {
        e->columns.failed = 1;
        return 0;
    }
    size_t n = ZSTD_compressCCtx(e->zstd, out, room, data, len_bytes, e->options.zstd_level);
    if (ZSTD_isError(n) || n >= len_bytes)
        return 0;
    *ret = out;
    return n;
}

static Etwagent__V1__Frame *put_frame(ea_encoder *e, const uint8_t *data, size_t len_bytes) {
    Etwagent__V1__Frame *f = ea_arena_alloc(&e->arena, sizeof *f);
    uint8_t *packed = NULL;
    if (!f) {
        e->columns.failed = 1;
        return NULL;
    }
    etwagent__v1__frame__init(f);
    size_t n = compress(e, data, len_bytes, &packed);
    f->raw_bytes = n ? len_bytes : 0;
    f->data.data = n ? packed : (uint8_t *)(uintptr_t)data;
    f->data.len = n ? n : len_bytes;
    return f;
}

/* The parts below own_bytes of a kind behind each other; kind EA_PART_KINDS: of all kinds. */
static uint8_t *join_parts(ea_encoder *e, unsigned kind, size_t own_bytes, uint32_t frame, size_t *ret_bytes) {
    const ea_columns *c = &e->columns;
    size_t total = 0;
    for (size_t i = 0; i < c->part_count; i++)
        if (c->parts[i].len_bytes < own_bytes && (kind == EA_PART_KINDS || c->parts[i].kind == kind))
            total += c->parts[i].len_bytes;
    uint8_t *out = ea_arena_alloc(&e->arena, total), *at = out;
    for (size_t i = 0; out && i < c->part_count; i++) {
        const ea_part *p = &c->parts[i];
        if (p->len_bytes >= own_bytes || (kind != EA_PART_KINDS && p->kind != kind))
            continue;
        p->column->frame = frame;
        memcpy(at, p->data, p->len_bytes);
        at += p->len_bytes;
    }
    if (!out)
        e->columns.failed = 1;
    *ret_bytes = total;
    return out;
}

static void put_frames(ea_encoder *e, Etwagent__V1__Directory *d, Etwagent__V1__Batch *b) {
    ea_columns *c = &e->columns;
    size_t all = 0, pooled = 0, own_bytes = OWN_FRAME_BYTES, n;
    b->frames = ea_arena_alloc(&e->arena, (c->part_count + EA_PART_KINDS) * sizeof(void *));
    if (!b->frames) {
        c->failed = 1;
        return;
    }
    for (size_t i = 0; i < c->part_count; i++) {
        all += c->parts[i].len_bytes;
        pooled += c->parts[i].len_bytes < OWN_FRAME_BYTES ? c->parts[i].len_bytes : 0;
    }
    if (all <= SMALL_BATCH_BYTES)
        own_bytes = SIZE_MAX;
    if (all <= SMALL_BATCH_BYTES || pooled <= SMALL_POOL_BYTES) {
        d->pool.data = join_parts(e, EA_PART_KINDS, own_bytes, 0, &n);
        d->pool.len = n;
    } else {
        for (unsigned kind = 0; kind < EA_PART_KINDS; kind++) {
            uint8_t *data = join_parts(e, kind, own_bytes, (uint32_t)b->n_frames + 1, &n);
            if (n)
                b->frames[b->n_frames++] = put_frame(e, data, n);
        }
    }
    for (size_t i = 0; i < c->part_count; i++) {
        const ea_part *p = &c->parts[i];
        if (p->len_bytes < own_bytes)
            continue;
        b->frames[b->n_frames++] = put_frame(e, p->data, p->len_bytes);
        p->column->frame = (uint32_t)b->n_frames;
    }
}

static void put_directory(ea_encoder *e, const Etwagent__V1__Directory *d, Etwagent__V1__Batch *b) {
    size_t n = etwagent__v1__directory__get_packed_size(d);
    uint8_t *data = ea_arena_alloc(&e->arena, n), *packed = NULL;
    if (!data) {
        e->columns.failed = 1;
        return;
    }
    etwagent__v1__directory__pack(d, data);
    size_t packed_bytes = compress(e, data, n, &packed);
    int pays = packed_bytes && packed_bytes + MIN_DIRECTORY_GAIN < n;
    b->directory_bytes = pays ? n : 0;
    b->directory.data = pays ? packed : data;
    b->directory.len = pays ? packed_bytes : n;
}

static void put_descriptions(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Batch *b) {
    ea_u64_map seen;
    ea_u64_map_init(&seen, 0);
    b->descriptions = ea_arena_alloc(&e->arena, o->group_count * sizeof *b->descriptions);
    if (!b->descriptions)
        e->columns.failed = 1;
    ea_mutex_lock(e->lock);
    for (uint32_t k = 0; !e->columns.failed && k < o->group_count; k++) {
        const ea_class *c = o->groups[k].c;
        uint64_t key = ea_load64(c->hash);
        if (ea_u64_map_get(&seen, key) || (!e->options.all_descriptions && ea_u64_map_get(&e->known, key)))
            continue;
        if (ea_u64_map_put(&seen, key, 1))
            e->columns.failed = 1;
        b->descriptions[b->n_descriptions++] =
            (ProtobufCBinaryData){.len = c->description_bytes, .data = (uint8_t *)(uintptr_t)c->description};
    }
    ea_mutex_unlock(e->lock);
    ea_u64_map_deinit(&seen);
}

static void put_sources(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Batch *b) {
    size_t n = o->source_count;
    b->sources = ea_arena_alloc(&e->arena, n * sizeof(void *));
    Etwagent__V1__Source *rows = ea_arena_alloc(&e->arena, n * sizeof *rows);
    Etwagent__V1__ClockPair *pairs = ea_arena_alloc(&e->arena, n * sizeof *pairs);
    Etwagent__V1__ClockPair **lists = ea_arena_alloc(&e->arena, n * sizeof(void *));
    if (!b->sources || !rows || !pairs || !lists) {
        e->columns.failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const ea_wire_source *s = &o->sources[i];
        Etwagent__V1__Source *m = b->sources[i] = &rows[i];
        etwagent__v1__source__init(m);
        etwagent__v1__clock_pair__init(&pairs[i]);
        lists[i] = &pairs[i];
        pairs[i].raw = s->clock.base_raw;
        pairs[i].utc_ns = s->clock.base_utc_ns;
        m->name = (char *)(uintptr_t)s->name;
        m->host = (char *)(uintptr_t)s->host;
        m->clock_type = s->clock.type;
        m->frequency = s->clock.frequency;
        m->n_clock_pairs = 1;
        m->clock_pairs = &lists[i];
        m->boot_filetime = s->boot_filetime;
        m->pointer_size = s->pointer_size;
        m->cpu_count = s->cpu_count;
        m->os_version = s->os_version;
        m->os_build = s->os_build;
        m->log_file_mode = s->log_file_mode;
        m->logger = s->logger;
        m->bias_minutes = s->bias_minutes;
    }
    b->n_sources = n;
}

/* A message a family, whose counters and values are parts of two arrays for all. */
static int put_families(ea_encoder *e, const ea_batch_stamp *stamp, Etwagent__V1__Ledger *m) {
    size_t count = stamp->family_count_count;
    uint32_t *counters = ea_arena_alloc(&e->arena, count * sizeof *counters);
    uint64_t *values = ea_arena_alloc(&e->arena, count * sizeof *values);
    m->families = ea_arena_alloc(&e->arena, count * sizeof *m->families);
    if (!counters || !values || !m->families)
        return 0;
    Etwagent__V1__LedgerFamily *family = NULL;
    for (size_t i = 0; i < count; i++) {
        const ea_ledger_count *c = &stamp->family_counts[i];
        if (!family || strcmp(family->family, c->family) != 0) {
            size_t len_bytes = strlen(c->family) + 1;
            family = ea_arena_alloc(&e->arena, sizeof *family);
            char *name = ea_arena_alloc(&e->arena, len_bytes);
            if (!family || !name)
                return 0;
            etwagent__v1__ledger_family__init(family);
            memcpy(name, c->family, len_bytes);
            family->family = name;
            family->counters = &counters[i];
            family->values = &values[i];
            m->families[m->n_families++] = family;
        }
        counters[i] = c->counter;
        values[i] = c->value;
        family->n_counters++;
        family->n_values++;
    }
    return 1;
}

static Etwagent__V1__Ledger *put_ledger(ea_encoder *e, const ea_batch_stamp *stamp) {
    Etwagent__V1__Ledger *m = ea_arena_alloc(&e->arena, sizeof *m);
    uint32_t *counters = ea_arena_alloc(&e->arena, EA_COUNTER_COUNT * sizeof *counters);
    uint64_t *values = ea_arena_alloc(&e->arena, EA_COUNTER_COUNT * sizeof *values);
    if (!m || !counters || !values) {
        e->columns.failed = 1;
        return NULL;
    }
    etwagent__v1__ledger__init(m);
    m->counters = counters;
    m->values = values;
    for (unsigned i = 0; i < EA_COUNTER_COUNT; i++) {
        uint64_t value = ea_counter_get(stamp->ledger, i);
        if (!value)
            continue;
        counters[m->n_counters++] = ea_counter_row(i)->number;
        values[m->n_values++] = value;
    }
    m->incarnation = stamp->incarnation;
    m->utc_ns = stamp->ledger_utc_ns;
    if (stamp->family_count_count && !put_families(e, stamp, m)) {
        e->columns.failed = 1;
        return NULL;
    }
    return m;
}

/* Empties the arena. It has one block that a batch like the largest so far fits into, so that it asks the system for
 * nothing. */
static void reset_arena(ea_encoder *e) {
    size_t used = e->arena.used_bytes, wanted = e->arena_reserved;
    if (wanted < ARENA_BYTES)
        wanted = ARENA_BYTES;
    if (used > wanted)
        wanted = used + used / 4;
    if (wanted != e->arena_reserved) {
        ea_arena_deinit(&e->arena);
        e->arena_reserved = ea_arena_alloc(&e->arena, wanted) ? wanted : 0;
    }
    ea_arena_reset(&e->arena);
}

int ea_encoder_encode(ea_encoder *e, const ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                      size_t *ret_len_bytes, ea_err *err) {
    Etwagent__V1__Batch b;
    etwagent__v1__batch__init(&b);
    Etwagent__V1__Directory d = ETWAGENT__V1__DIRECTORY__INIT;
    if (o->count == 0 || stamp->number == 0)
        return ea_fail(err, EA_EINVAL, "encode batch %" PRIu64 " of %" PRIu32 " events", stamp->number, o->count);
    reset_arena(e);
    ea_columns_reset(&e->columns);
    uint32_t group_count = 0;
    int rc = reserve_events(e, o->count);
    out_group *groups = rc ? NULL : list_groups(e, o, &group_count);
    pb_group *messages = groups ? ea_arena_alloc(&e->arena, group_count * sizeof *messages) : NULL;
    uint64_t *constants = groups ? ea_arena_alloc(&e->arena, o->group_count * sizeof *constants) : NULL;
    d.groups = groups ? ea_arena_alloc(&e->arena, group_count * sizeof(void *)) : NULL;
    if (!messages || !constants || !d.groups)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    int64_t time_min, time_max;
    time_range(o, &time_min, &time_max);
    if ((uint64_t)time_max - (uint64_t)time_min > INT64_MAX)
        time_min = time_max - INT64_MAX; /* clocks beyond reason: the range is cut, the events are not */
    ea_record before = {.logger = (uint16_t)o->sources[0].logger}, header = {0};
    for (uint32_t k = 0; !rc && k < group_count; k++) {
        rc = put_group(e, o, &groups[k], &before, &messages[k], &header);
        before = header;
        d.groups[d.n_groups++] = &messages[k];
    }
    if (!rc)
        put_events(e, o, time_min, &d);
    if (!rc && is_flat(o))
        put_flat(e, o, groups, &d);
    if (rc || e->columns.failed)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);

    b.format = 1;
    b.stream.data = e->options.stream;
    b.stream.len = EA_STREAM_ID_BYTES;
    b.number = stamp->number;
    b.kind = stamp->kind == EA_BATCH_KEYFRAME ? ETWAGENT__V1__KIND__KIND_KEYFRAME : ETWAGENT__V1__KIND__KIND_EVENTS;
    b.event_count = o->count;
    b.priority = stamp->priority;
    b.checksum = checksum_of(o, constants);
    b.time_min = time_min;
    b.time_span = (uint64_t)time_max - (uint64_t)time_min;
    put_frames(e, &d, &b);
    if (!e->columns.failed)
        put_directory(e, &d, &b);
    put_descriptions(e, o, &b);
    put_sources(e, o, &b);
    if (stamp->ledger)
        b.ledger = put_ledger(e, stamp);
    if (e->columns.failed)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);

    size_t n = etwagent__v1__batch__get_packed_size(&b);
    if (n > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "encode batch %" PRIu64 ": it would take %zu bytes, at most %d are allowed",
                       stamp->number, n, EA_BATCH_MAX_BYTES);
    if (n > e->out_capacity) {
        free(e->out);
        e->out = malloc(n);
        e->out_capacity = e->out ? n : 0;
        if (!e->out)
            return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    }
    etwagent__v1__batch__pack(&b, e->out);
    *ret_data = e->out;
    *ret_len_bytes = n;
    return 0;
}
