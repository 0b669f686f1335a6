/* Rows become a batch: groups, columns, frames, envelope. FORMAT.md is the specification.
 * Before it: a taken batch. After it: service/ship. Thread: the encoder's; only the set of known classes is shared. */
#include "checksum.h"
#include "column.h"
#include "columns.h"
#include "context.h"
#include "ledger_message.h"
#include "open_batch.h"
#include "short_directory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

enum {
    SMALL_POOL_BYTES = 8 << 10,          /* what is pooled stands in the directory while it is no more than this */
    MIN_DIRECTORY_GAIN = 16,             /* compressing must save so much */
    SMALL_BATCH_BYTES = 16 << 10,        /* columns data of a batch that is pooled as a whole */
    FLAT_EVENTS = EA_SMALL_BATCH_EVENTS, /* in a batch of no more events, groups share what columns they can */
    FLAT_LEVEL = 16,                     /* ... and zstd works no less hard */
    DICTIONARY_LEVEL = 16,
    USE_DICTIONARY = -1001,   /* in place of a level */
    DICTIONARY_EVERY = 64,    /* small batches between two that bring the dictionary along */
    GATHER_ROWS = 64,         /* rows whose numbers are gathered together */
    AHEAD = 6,                /* payloads that are on their way into the cache */
    TRANSPOSE_ROWS = 6,       /* a group of fewer rows keeps its payloads whole */
    FLAT_TRANSPOSE_ROWS = 12, /* ... in such a small batch */
    ARENA_BYTES = 8 << 20,    /* asked for at once; an ordinary batch needs less */
};

typedef Etwagent__V1__Group pb_group;

/* A group as it is written: rows of one open group whose payloads are all split alike. */
typedef struct out_group {
    const ea_open_group *from;
    const ea_row *rows;     /* its events, in order of arrival */
    const uint16_t *places; /* see split_rows; NULL: every field stands at its class's offset */
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
    ea_row *rows;        /* events by group */
    ea_row *spare_rows;  /* scratch of split_rows */
    uint32_t *wholes;    /* the same */
    uint32_t *group_of;  /* index of the written group */
    uint32_t *thread_of; /* index of its (pid, tid) */
    uint16_t *cpu_of, *source_of;
    uint64_t *times;  /* used up by the time column */
    uint64_t *values; /* scratch of one column */
    ea_slice *slices;
    uint32_t *threads; /* look-up table of (pid, tid) */
    uint64_t *thread_ids;
    size_t thread_mask;
    uint32_t thread_count;
    int has_sources; /* not all events are of the first one */
    ea_known known;
    ea_context_writer context;
    ZSTD_CCtx *zstd_dictionary; /* NULL: none */
    ZSTD_CDict *dictionary;
    uint8_t dictionary_hash[EA_CLASS_HASH_BYTES];
    unsigned until_dictionary; /* small batches until it is sent (again) */
    const uint8_t *last_directory;
    size_t last_directory_bytes;
};

static int open_dictionary(ea_encoder *e, ea_err *err) {
    const ea_encoder_options *o = &e->options;
    if (o->dictionary_bytes > EA_DICTIONARY_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "use a zstd dictionary of %zu bytes: at most %d are allowed",
                       o->dictionary_bytes, EA_DICTIONARY_MAX_BYTES);
    e->zstd_dictionary = ZSTD_createCCtx();
    e->dictionary = ZSTD_createCDict(o->dictionary, o->dictionary_bytes, DICTIONARY_LEVEL);
    if (!e->zstd_dictionary || !e->dictionary)
        return ea_fail(err, EA_ENOMEM, "use a zstd dictionary");
    /* the batch names it, so the frame need not */
    size_t bad = ZSTD_CCtx_setParameter(e->zstd_dictionary, ZSTD_c_dictIDFlag, 0);
    if (!ZSTD_isError(bad))
        bad = ZSTD_CCtx_refCDict(e->zstd_dictionary, e->dictionary);
    if (ZSTD_isError(bad))
        return ea_fail(err, EA_EINVAL, "use a zstd dictionary: %s", ZSTD_getErrorName(bad));
    return ea_definition_hash(o->dictionary, o->dictionary_bytes, e->dictionary_hash, err);
}

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
    e->zstd = ZSTD_createCCtx();
    int rc = e->zstd ? ea_known_init(&e->known, err) : ea_fail(err, EA_ENOMEM, "make an encoder");
    if (!rc)
        rc = ea_context_writer_init(&e->context, err);
    if (!rc && e->options.dictionary_bytes && e->options.zstd_level != EA_ZSTD_NONE)
        rc = open_dictionary(e, err);
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
    ZSTD_freeCCtx(e->zstd_dictionary);
    ZSTD_freeCDict(e->dictionary);
    ea_columns_deinit(&e->columns);
    ea_arena_deinit(&e->arena);
    ea_known_deinit(&e->known);
    ea_context_writer_deinit(&e->context);
    free(e->out);
    free(e->rows);
    free(e->spare_rows);
    free(e->wholes);
    free(e->group_of);
    free(e->thread_of);
    free(e->cpu_of);
    free(e->source_of);
    free(e->times);
    free(e->values);
    free(e->slices);
    free(e->threads);
    free(e->thread_ids);
    free(e);
}

void ea_encoder_known(ea_encoder *e, const uint8_t *hash) {
    ea_known_add(&e->known, hash);
}

void ea_encoder_unknown(ea_encoder *e, const ea_hash_ref *ref) {
    ea_known_remove(&e->known, ref);
}

void ea_encoder_last_directory(const ea_encoder *e, const uint8_t **ret_data, size_t *ret_len_bytes) {
    *ret_data = e->last_directory;
    *ret_len_bytes = e->last_directory_bytes;
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
    RESIZE(e->rows, n);
    RESIZE(e->spare_rows, n);
    RESIZE(e->wholes, n);
    RESIZE(e->group_of, n);
    RESIZE(e->thread_of, n);
    RESIZE(e->cpu_of, n);
    RESIZE(e->source_of, n);
    RESIZE(e->times, n);
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

/* ---- which rows go where ---- */

/* The number of the event's (pid, tid) among those of the *count that there are so far. */
static uint32_t intern_thread(ea_encoder *e, const ea_event *event, uint32_t *count, uint32_t last) {
    uint64_t id = event->pid | (uint64_t)event->tid << 32;
    if (*count && e->thread_ids[last] == id)
        return last;
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    size_t slot = (size_t)(h ^ h >> 32) & e->thread_mask;
    while (e->threads[slot] && e->thread_ids[e->threads[slot] - 1] != id)
        slot = (slot + 1) & e->thread_mask;
    if (!e->threads[slot]) {
        e->thread_ids[(*count)++] = id;
        e->threads[slot] = *count;
    }
    return e->threads[slot] - 1;
}

/* One pass over the events, which takes apart what columns need: rows by group, in order of arrival inside each;
 * starts: one entry a group, and the end. */
static void read_events(ea_encoder *e, const ea_open_batch *o, uint32_t *starts) {
    uint32_t at = 0, threads = 0, last = 0;
    unsigned sources = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        starts[k] = at;
        at += o->groups[k].count;
    }
    memset(e->threads, 0, (e->thread_mask + 1) * sizeof *e->threads);
    for (uint32_t i = 0; i < o->count; i++) {
        const ea_event *event = &o->events[i];
        e->rows[starts[event->group]++] =
            (ea_row){.payload = o->content + event->payload, .payload_bytes = event->payload_bytes, .event = i};
        e->thread_of[i] = last = intern_thread(e, event, &threads, last);
        e->times[i] = (uint64_t)event->time;
        e->cpu_of[i] = event->cpu;
        sources |= e->source_of[i] = event->source;
    }
    e->thread_count = threads;
    e->has_sources = sources != 0;
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
static uint32_t split_rows(ea_encoder *e, const ea_open_group *g, ea_row *rows, size_t *ret_fields,
                           const uint16_t **ret_places) {
    const ea_class *c = g->c;
    uint32_t count = g->count, front = 0, rest = 0;
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
        if (i + AHEAD < count) /* rows of a group are far from each other */
            for (uint32_t at = 0; at < rows[i + AHEAD].payload_bytes && at < 4 * 64; at += 64)
                EA_PREFETCH(rows[i + AHEAD].payload + at);
        size_t whole = ea_class_places(c, rows[i].payload, rows[i].payload_bytes, to, &used);
        to[whole > fixed ? whole - fixed : 0] = (uint16_t)used; /* of no meaning in a row that lacks a fixed field */
        e->wholes[i] = (uint32_t)whole;
    }
    size_t fields = common_fields(e->wholes, count, c->top_count);
    for (uint32_t i = 0; i < count; i++) {
        if (e->wholes[i] < fields) {
            e->spare_rows[rest++] = rows[i];
            continue;
        }
        if (front != i) {
            memcpy(places + front * stride, places + i * stride, stride * sizeof *places);
            rows[front] = rows[i];
        }
        front++;
    }
    memcpy(rows + front, e->spare_rows, rest * sizeof *rows);
    *ret_fields = fields;
    *ret_places = places;
    return fields ? front : 0;
}

static out_group *list_groups(ea_encoder *e, const ea_open_batch *o, uint32_t transpose_rows, uint32_t *ret_count) {
    uint32_t *starts = ea_arena_alloc(&e->arena, (o->group_count + 1) * sizeof *starts);
    out_group *out = ea_arena_alloc(&e->arena, 2 * (size_t)o->group_count * sizeof *out);
    if (!starts || !out)
        return NULL;
    read_events(e, o, starts);
    uint32_t n = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        const ea_open_group *g = &o->groups[k];
        const uint16_t *places = NULL;
        ea_row *rows = e->rows + starts[k];
        uint32_t whole = 0;
        size_t fields = 0;
        if (g->c->top_count && g->count >= transpose_rows)
            whole = split_rows(e, g, rows, &fields, &places);
        if (whole)
            out[n++] = (out_group){.from = g, .rows = rows, .places = places, .count = whole, .field_count = fields};
        if (whole < g->count)
            out[n++] = (out_group){.from = g, .rows = rows + whole, .count = g->count - whole};
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < out[k].count; i++)
            e->group_of[out[k].rows[i].event] = k;
    *ret_count = n;
    return out;
}

/* ---- columns of a group ---- */

static int is_number(const ea_field *f) {
    return f->type != EA_STRUCT && f->count_field < 0 && f->count == 1 &&
           (f->width == 1 || f->width == 2 || f->width == 4 || f->width == 8);
}

/* Where the field begins in the payloads of rows: *ret_stride from row to row; NULL: at its class's offset. */
static const uint16_t *places_of_field(const out_group *g, size_t top, size_t *ret_stride) {
    const ea_class *c = g->from->c;
    *ret_stride = places_of(c);
    return top < c->fixed_fields ? NULL : g->places + (top - c->fixed_fields);
}

/* One number of each payload of some rows. */
static void gather_numbers(uint64_t *v, const out_group *g, uint32_t from, uint32_t to, size_t top) {
    const ea_field *f = &g->from->c->fields[ea_class_top_field(g->from->c, top)];
    size_t stride, offset = f->offset;
    const uint16_t *places = places_of_field(g, top, &stride);
#define GATHER(expression)                                                                                             \
    for (uint32_t i = from; i < to; i++) {                                                                             \
        const uint8_t *p = g->rows[i].payload + (places ? places[i * stride] : offset);                                \
        v[i] = expression;                                                                                             \
    }
    if (f->width == 4)
        GATHER(ea_load32(p))
    else if (f->width == 8)
        GATHER(ea_load64(p))
    else if (f->width == 2)
        GATHER(ea_load16(p))
    else
        GATHER(*p)
#undef GATHER
}

/* The numbers of each field, NULL for those that are none; some rows at a time, whose payloads are in the cache then.
 * NULL when memory is out. */
static uint64_t **gather(ea_encoder *e, const out_group *g) {
    const ea_class *c = g->from->c;
    uint64_t **numbers = ea_arena_zalloc(&e->arena, g->field_count, sizeof *numbers);
    for (size_t k = 0; numbers && k < g->field_count; k++)
        if (is_number(&c->fields[ea_class_top_field(c, k)]) &&
            !(numbers[k] = ea_arena_alloc(&e->arena, g->count * sizeof **numbers)))
            return NULL;
    for (uint32_t from = 0; numbers && from < g->count; from += GATHER_ROWS)
        for (size_t k = 0; k < g->field_count; k++)
            if (numbers[k])
                gather_numbers(numbers[k], g, from, from + GATHER_ROWS < g->count ? from + GATHER_ROWS : g->count, k);
    return numbers;
}

/* Text pays to be split into its low and its high bytes; arrays of addresses repeat as a whole, and do not. */
static unsigned unit_of(const ea_field *f) {
    return f->type == EA_UTF16Z || f->type == EA_UTF16_COUNTED || f->type == EA_UTF16_REST || f->type == EA_UTF16_FIXED
               ? 2
               : 1;
}

/* numbers: the field's, used up; NULL: it is none. */
static void put_field(ea_encoder *e, const out_group *g, size_t top, uint64_t *numbers, const ea_relations *relations,
                      pb_group *m) {
    const ea_field *f = &g->from->c->fields[ea_class_top_field(g->from->c, top)];
    Etwagent__V1__Column *column;
    if (numbers) {
        column = ea_columns_numbers(&e->columns, numbers, g->count, f->width, 0, 0, relations);
    } else {
        size_t stride;
        const uint16_t *places = places_of_field(g, top, &stride);
        for (uint32_t i = 0; i < g->count; i++) {
            size_t at = places ? places[i * stride] : f->offset;
            size_t end = places ? places[i * stride + 1] : at + f->width * (size_t)f->count;
            e->slices[i] = (ea_slice){.data = g->rows[i].payload + at, .len_bytes = (uint32_t)(end - at)};
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
        uint64_t **numbers = gather(e, g);
        if (!m->fields || !numbers)
            return EA_ENOMEM;
        ea_relations relations = {.events = o->events, .rows = g->rows};
        for (size_t f = 0; f < fields; f++)
            put_field(e, g, f, numbers[f], &relations, m);
        if (!g->places && g->from->payload_max == c->fixed_bytes)
            return 0;
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < n; i++) {
        const ea_row *row = &g->rows[i];
        size_t at = tail_place(g, i);
        e->slices[i] = (ea_slice){.data = row->payload + at, .len_bytes = (uint32_t)(row->payload_bytes - at)};
        tail += e->slices[i].len_bytes;
    }
    if (tail)
        m->payload = ea_columns_bytes(&e->columns, e->slices, n, 1);
    return 0;
}

/* The item's data in an event: items stand behind each other, each with its length before it. */
static ea_slice item_data(const ea_open_batch *o, const ea_open_group *g, uint32_t event, unsigned item) {
    const ea_item_shape *shapes = &o->shapes[g->shapes];
    const uint8_t *at = o->content + o->events[event].items;
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

/* shaped: those that all events have alike stand in the group's shape, as do all types. */
static int put_items(ea_encoder *e, const ea_open_batch *o, const out_group *g, int shaped, pb_group *m) {
    const ea_open_group *from = g->from;
    if (!from->ext_count)
        return 0;
    m->items = ea_arena_alloc(&e->arena, from->ext_count * sizeof(void *));
    Etwagent__V1__Item *items = ea_arena_alloc(&e->arena, from->ext_count * sizeof *items);
    if (!m->items || !items)
        return EA_ENOMEM;
    for (unsigned k = 0; k < from->ext_count; k++) {
        const ea_item_shape *shape = &o->shapes[from->shapes + k];
        if (shaped && shape->constant != (uint32_t)EA_NO_CONSTANT)
            continue;
        etwagent__v1__item__init(&items[k]);
        items[k].type = shaped ? 0 : shape->type;
        items[k].linkage = shaped ? 0 : shape->linkage;
        m->items[m->n_items++] = &items[k];
        uint32_t width = item_data(o, from, g->rows[0].event, k).len_bytes;
        int same_width = 1;
        for (uint32_t i = 0; i < g->count; i++) {
            e->slices[i] = item_data(o, from, g->rows[i].event, k);
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
        uint64_t *user = ea_arena_alloc(&e->arena, g->count * sizeof *user);
        if (!user)
            return EA_ENOMEM;
        for (uint32_t i = 0; i < g->count; i++) {
            e->values[i] = o->events[g->rows[i].event].kernel_time;
            user[i] = o->events[g->rows[i].event].user_time;
        }
        m->kernel_time = ea_columns_numbers(&e->columns, e->values, g->count, 4, 1, 0, NULL);
        m->user_time = ea_columns_numbers(&e->columns, user, g->count, 4, 1, 0, NULL);
    }
    if (g->from->has_activity) {
        for (uint32_t i = 0; i < g->count; i++)
            e->slices[i] = (ea_slice){.data = o->events[g->rows[i].event].activity.bytes, .len_bytes = 16};
        m->activity = ea_columns_wide(&e->columns, e->slices, g->count, 16, 1);
    }
    return e->columns.failed ? EA_ENOMEM : 0;
}

static int put_group(ea_encoder *e, const ea_open_batch *o, const out_group *g, int shaped, const ea_record *before,
                     pb_group *m, ea_record *ret_header) {
    int rc = 0;
    etwagent__v1__group__init(m);
    m->count = g->count == 1 ? 0 : g->count;
    if (!shaped) {
        m->class_hash.data = (uint8_t *)(uintptr_t)g->from->c->hash;
        m->class_hash.len = EA_CLASS_HASH_BYTES;
        rc = ea_group_header(&e->arena, g->from, before, &m->header, ret_header);
    }
    if (!rc)
        rc = put_items(e, o, g, shaped, m);
    if (!rc && !is_flat(o))
        rc = put_header_columns(e, o, g, m);
    if (!rc && (!is_flat(o) || g->field_count))
        rc = put_payloads(e, o, g, m);
    return rc;
}

/* ---- columns of the batch ---- */

/* The events' numbers of arrival; a batch's are within 2^31 of the first one's. */
static void put_sequence(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Directory *d) {
    uint32_t first = (uint32_t)o->first_position, n = o->count;
    int consecutive = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t offset = o->events[i].position - first;
        consecutive &= offset == i;
        e->values[i] = o->first_position + (uint64_t)(int32_t)offset;
    }
    if (consecutive)
        d->first_sequence = o->first_position;
    else
        d->sequence = ea_columns_series(&e->columns, e->values, n, 8, 0);
}

static void put_events(ea_encoder *e, const ea_open_batch *o, int is_numbered, int64_t time_min,
                       Etwagent__V1__Directory *d) {
    ea_columns *c = &e->columns;
    uint32_t n = o->count, threads = e->thread_count;
    uint64_t *v = e->values;
    for (uint32_t i = 0; i < n; i++)
        v[i] = e->group_of[i];
    d->group = ea_columns_numbers(c, v, n, 4, 1, 0, NULL);
    d->time = ea_columns_series(c, e->times, n, 8, (uint64_t)time_min);
    for (uint32_t i = 0; i < n; i++)
        v[i] = e->cpu_of[i];
    d->cpu = ea_columns_numbers(c, v, n, 2, 1, 0, NULL);
    for (uint32_t i = 0; i < n; i++)
        v[i] = e->thread_of[i];
    d->thread = ea_columns_numbers(c, v, n, 4, 1, 0, NULL);
    for (uint32_t i = 0; e->has_sources && i < n; i++)
        v[i] = e->source_of[i];
    if (e->has_sources)
        d->source = ea_columns_numbers(c, v, n, 2, 1, 0, NULL);
    if (is_numbered)
        put_sequence(e, o, d);
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
        times |= o->events[i].kernel_time | o->events[i].user_time;
        activities |= !ea_guid_is_zero(&o->events[i].activity);
    }
    if (times) {
        for (uint32_t i = 0; i < n; i++)
            e->values[i] = o->events[i].kernel_time;
        d->kernel_time = ea_columns_numbers(c, e->values, n, 4, 1, 0, NULL);
        for (uint32_t i = 0; i < n; i++)
            e->values[i] = o->events[i].user_time;
        d->user_time = ea_columns_numbers(c, e->values, n, 4, 1, 0, NULL);
    }
    if (activities) {
        for (uint32_t i = 0; i < n; i++)
            e->slices[i] = (ea_slice){.data = o->events[i].activity.bytes, .len_bytes = 16};
        d->activity = ea_columns_wide(c, e->slices, n, 16, 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        const ea_event *event = &o->events[i];
        if (groups[e->group_of[i]].field_count)
            continue;
        e->slices[whole++] = (ea_slice){.data = o->content + event->payload, .len_bytes = event->payload_bytes};
        bytes |= event->payload_bytes;
    }
    if (bytes)
        d->payload = ea_columns_bytes(c, e->slices, whole, 1);
}

/* Of the items that an event of this group has. */
static uint64_t items_checksum(const ea_open_batch *o, const ea_open_group *g, uint32_t event) {
    ea_ext ext[EA_EXT_MAX];
    for (unsigned k = 0; k < g->ext_count; k++) {
        ea_slice s = item_data(o, g, event, k);
        const ea_item_shape *shape = &o->shapes[g->shapes + k];
        ext[k] = (ea_ext){shape->type, shape->linkage, s.len_bytes, s.data};
    }
    return ea_checksum_items(ext, g->ext_count);
}

/* 1 when all events of the group have the same items, such as TraceLogging metadata. */
static int same_items(const ea_open_batch *o, const ea_open_group *g) {
    for (unsigned k = 0; k < g->ext_count; k++)
        if (o->shapes[g->shapes + k].constant == (uint32_t)EA_NO_CONSTANT)
            return 0;
    return 1;
}

/* What a group gives to the checksum of each of its events. */
typedef struct group_checksum {
    uint64_t constants, items;
    int same_items;
} group_checksum;

/* What is said about all events: the checksum; the smallest and largest time, in ticks of the first source's clock. */
static uint64_t sum_up(const ea_open_batch *o, group_checksum *groups, int64_t *ret_min, int64_t *ret_max) {
    int64_t min = INT64_MAX, max = INT64_MIN;
    uint64_t checksum = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        const ea_open_group *g = &o->groups[k];
        ea_record r;
        ea_open_group_header(g, &r);
        groups[k] = (group_checksum){.constants = ea_checksum_constants(&r), .same_items = same_items(o, g)};
        if (g->ext_count && groups[k].same_items)
            groups[k].items = items_checksum(o, g, 0);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        const ea_event *event = &o->events[i];
        const group_checksum *g = &groups[event->group];
        uint64_t items = g->same_items ? g->items : items_checksum(o, &o->groups[event->group], i);
        checksum += ea_checksum_event(event, ea_checksum_seed(g->constants, items, i), o->content + event->payload,
                                      event->payload_bytes);
        int64_t t = event->time;
        if (event->source)
            t = ea_clock_convert(&o->sources[event->source].clock, &o->sources[0].clock, t);
        min = t < min ? t : min;
        max = t > max ? t : max;
    }
    *ret_min = min;
    *ret_max = max;
    return checksum;
}

/* ---- frames and envelope ---- */

/* Compresses into the arena: 0 bytes when that does not pay, or is switched off. */
static size_t compress(ea_encoder *e, const uint8_t *data, size_t len_bytes, int level, uint8_t **ret) {
    if (e->options.zstd_level == EA_ZSTD_NONE)
        return 0;
    size_t room = ZSTD_compressBound(len_bytes);
    uint8_t *out = ea_arena_alloc(&e->arena, room);
    if (!out) {
        e->columns.failed = 1;
        return 0;
    }
    size_t n = level == USE_DICTIONARY ? ZSTD_compress2(e->zstd_dictionary, out, room, data, len_bytes)
                                       : ZSTD_compressCCtx(e->zstd, out, room, data, len_bytes, level);
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
    size_t n = compress(e, data, len_bytes, e->options.zstd_level, &packed);
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
    size_t all = c->direct.len_bytes, pooled = 0, own_bytes = EA_OWN_FRAME_BYTES, n;
    uint32_t direct = c->direct.count; /* frames before those that are listed here */
    b->frames = ea_arena_alloc(&e->arena, (c->part_count + EA_PART_KINDS) * sizeof(void *));
    if (!b->frames) {
        c->failed = 1;
        return;
    }
    for (size_t i = 0; i < c->part_count; i++) {
        all += c->parts[i].len_bytes;
        pooled += c->parts[i].len_bytes < EA_OWN_FRAME_BYTES ? c->parts[i].len_bytes : 0;
    }
    if (all <= SMALL_BATCH_BYTES)
        own_bytes = SIZE_MAX;
    if (all <= SMALL_BATCH_BYTES || pooled <= SMALL_POOL_BYTES) {
        d->pool.data = join_parts(e, EA_PART_KINDS, own_bytes, 0, &n);
        d->pool.len = n;
    } else {
        for (unsigned kind = 0; kind < EA_PART_KINDS; kind++) {
            uint8_t *data = join_parts(e, kind, own_bytes, direct + (uint32_t)b->n_frames + 1, &n);
            if (n)
                b->frames[b->n_frames++] = put_frame(e, data, n);
        }
    }
    for (size_t i = 0; i < c->part_count; i++) {
        const ea_part *p = &c->parts[i];
        if (p->len_bytes < own_bytes)
            continue;
        b->frames[b->n_frames++] = put_frame(e, p->data, p->len_bytes);
        p->column->frame = direct + (uint32_t)b->n_frames;
    }
}

/* A directory as bytes; in the short form (behind a byte that says how it is compressed) where it has one. */
typedef struct directory_bytes {
    uint8_t *data; /* with room for one byte before it */
    size_t len_bytes;
    int is_short;
} directory_bytes;

static int pack_directory(ea_encoder *e, const Etwagent__V1__Directory *d, int is_small, directory_bytes *ret) {
    size_t room = etwagent__v1__directory__get_packed_size(d);
    uint8_t *data = ea_arena_alloc(&e->arena, room + 1);
    if (!data) {
        e->columns.failed = 1;
        return EA_ENOMEM;
    }
    *ret = (directory_bytes){.data = data + 1, .len_bytes = room};
    ret->is_short = is_small && ea_short_directory_pack(d, ret->data, room, &ret->len_bytes) &&
                    ret->len_bytes <= EA_SHORT_DIRECTORY_MAX_BYTES;
    if (!ret->is_short)
        ret->len_bytes = etwagent__v1__directory__pack(d, ret->data);
    return 0;
}

/* A short directory in the fewest bytes: a byte that says how, and the directory as it is; or its size and the block of
 * a zstd frame, with the dictionary or without. */
static void put_short(ea_encoder *e, const directory_bytes *plain, int may_use_dictionary, Etwagent__V1__Batch *b) {
    uint64_t n = plain->len_bytes;
    b->directory.data = plain->data - 1;
    b->directory.len = (size_t)n + 1;
    b->directory.data[0] = EA_SHORT_DIRECTORY_PLAIN;
    for (int with = 0; with <= may_use_dictionary; with++) {
        uint8_t *packed = NULL;
        int level = e->options.zstd_level < FLAT_LEVEL ? FLAT_LEVEL : e->options.zstd_level;
        size_t packed_bytes = compress(e, plain->data, (size_t)n, with ? USE_DICTIONARY : level, &packed);
        size_t block = packed_bytes ? ea_short_directory_block(packed, packed_bytes) : 0;
        size_t head = 1 + ea_varint_bytes(n); /* fits into the frame's */
        if (!block || packed_bytes - block + head >= b->directory.len)
            continue;
        b->directory.data = packed + block - head;
        b->directory.len = packed_bytes - block + head;
        b->directory.data[0] = with ? EA_SHORT_DIRECTORY_WITH_DICTIONARY : EA_SHORT_DIRECTORY_ZSTD;
        ea_varint_put(b->directory.data + 1, &n, 1);
    }
}

static void put_directory(ea_encoder *e, const Etwagent__V1__Directory *d, int is_small, int may_use_dictionary,
                          Etwagent__V1__Batch *b) {
    directory_bytes plain;
    uint8_t *packed = NULL;
    if (pack_directory(e, d, is_small && !b->n_frames, &plain))
        return;
    size_t n = plain.len_bytes;
    e->last_directory = plain.data;
    e->last_directory_bytes = is_small ? n : 0;
    if (plain.is_short) {
        put_short(e, &plain, may_use_dictionary, b);
        return;
    }
    int level = e->options.zstd_level;
    size_t packed_bytes = compress(e, plain.data, n, is_small && level < FLAT_LEVEL ? FLAT_LEVEL : level, &packed);
    int pays = packed_bytes && packed_bytes + MIN_DIRECTORY_GAIN < n;
    b->directory.data = pays ? packed : plain.data;
    b->directory.len = pays ? packed_bytes : n;
    b->directory_bytes = pays ? n : 0;
}

static int is_known(ea_encoder *e, const uint8_t *hash) {
    return !e->options.all_descriptions && ea_known_has(&e->known, hash);
}

static int knows_dictionary(ea_encoder *e) {
    return e->dictionary && is_known(e, e->dictionary_hash);
}

static void put_descriptions(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Batch *b) {
    ea_u64_map seen;
    ea_u64_map_init(&seen, 0);
    b->descriptions = ea_arena_alloc(&e->arena, o->group_count * sizeof *b->descriptions);
    if (!b->descriptions)
        e->columns.failed = 1;
    for (uint32_t k = 0; !e->columns.failed && k < o->group_count; k++) {
        const ea_class *c = o->groups[k].c;
        uint64_t key = ea_load64(c->hash);
        if (ea_u64_map_get(&seen, key) || is_known(e, c->hash))
            continue;
        if (ea_u64_map_put(&seen, key, 1))
            e->columns.failed = 1;
        b->descriptions[b->n_descriptions++] =
            (ProtobufCBinaryData){.len = c->description_bytes, .data = (uint8_t *)(uintptr_t)c->description};
    }
    ea_u64_map_deinit(&seen);
}

/* Once in a while, until the collector says that it has it. */
static void put_dictionary(ea_encoder *e, Etwagent__V1__Batch *b) {
    if (e->until_dictionary) {
        e->until_dictionary--;
        return;
    }
    b->dictionaries = ea_arena_alloc(&e->arena, sizeof *b->dictionaries);
    if (!b->dictionaries) {
        e->columns.failed = 1;
        return;
    }
    e->until_dictionary = DICTIONARY_EVERY;
    b->n_dictionaries = 1;
    b->dictionaries[0] =
        (ProtobufCBinaryData){.len = e->options.dictionary_bytes, .data = (uint8_t *)(uintptr_t)e->options.dictionary};
}

/* What the agent says of itself. */
static void put_labels(ea_encoder *e, const ea_wire_source *s, Etwagent__V1__Source *m) {
    size_t n = s->labels.count;
    if (s->agent_version)
        m->agent_version = (char *)(uintptr_t)s->agent_version;
    if (!n)
        return;
    Etwagent__V1__Label *rows = ea_arena_alloc(&e->arena, n * sizeof *rows);
    m->labels = ea_arena_alloc(&e->arena, n * sizeof *m->labels);
    if (!rows || !m->labels) {
        e->columns.failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        etwagent__v1__label__init(&rows[i]);
        rows[i].name = (char *)(uintptr_t)s->labels.items[i].name;
        rows[i].value = (char *)(uintptr_t)s->labels.items[i].value;
        m->labels[i] = &rows[i];
    }
    m->n_labels = n;
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
        put_labels(e, s, m);
    }
    b->n_sources = n;
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

/* One way to write the batch's events. */
typedef struct layout {
    Etwagent__V1__Batch batch; /* directory and frames */
    ea_shapes shapes;
    int transposed;           /* some payloads were cut into columns */
    const uint8_t *directory; /* before compression */
    size_t directory_bytes;
} layout;

static size_t size_of(const layout *l) {
    size_t n = l->batch.directory.len + l->batch.n_frames * 8;
    for (size_t i = 0; i < l->batch.n_frames; i++)
        n += l->batch.frames[i]->data.len;
    return n;
}

/* Makes room for so many bytes of the encoded batch, and keeps what is there. */
static int reserve_out(ea_encoder *e, size_t len_bytes) {
    if (len_bytes <= e->out_capacity)
        return 0;
    uint8_t *p = realloc(e->out, len_bytes);
    if (!p)
        return EA_ENOMEM;
    e->out = p;
    e->out_capacity = len_bytes;
    return 0;
}

/* Data that are not compressed are written where they are sent from. Room for more than they mostly take. */
static void open_direct(ea_encoder *e, const ea_open_batch *o) {
    if (e->options.zstd_level == EA_ZSTD_NONE && !is_flat(o) &&
        !reserve_out(e, o->content_bytes + (o->count + (size_t)1) * sizeof *o->events))
        e->columns.direct = (ea_direct){.data = e->out, .capacity = e->out_capacity};
}

static int has_context(const ea_open_batch *o) {
    return is_flat(o) && o->source_count <= EA_CONTEXT_SOURCES;
}

static int name_shapes(ea_encoder *e, const ea_open_batch *o, const out_group *groups, uint32_t count, ea_shapes *ret) {
    const ea_open_group **list = ea_arena_alloc(&e->arena, count * sizeof(void *));
    for (uint32_t k = 0; list && k < count; k++)
        list[k] = groups[k].from;
    return list ? ea_shapes_make(&e->arena, o, list, count, ret) : EA_ENOMEM;
}

static int lay_out(ea_encoder *e, const ea_open_batch *o, uint32_t transpose_rows, int is_numbered, int64_t time_min,
                   layout *l) {
    Etwagent__V1__Directory d = ETWAGENT__V1__DIRECTORY__INIT;
    uint32_t group_count = 0;
    *l = (layout){0};
    etwagent__v1__batch__init(&l->batch);
    ea_columns_reset(&e->columns);
    open_direct(e, o);
    out_group *groups = list_groups(e, o, transpose_rows, &group_count);
    pb_group *messages = groups ? ea_arena_alloc(&e->arena, group_count * sizeof *messages) : NULL;
    d.groups = groups ? ea_arena_alloc(&e->arena, group_count * sizeof(void *)) : NULL;
    if (!messages || !d.groups)
        return EA_ENOMEM;
    ea_record before = {.logger = (uint16_t)o->sources[0].logger}, header = {0};
    int rc = has_context(o) ? name_shapes(e, o, groups, group_count, &l->shapes) : 0;
    for (uint32_t k = 0; !rc && k < group_count; k++) {
        rc = put_group(e, o, &groups[k], l->shapes.count != 0, &before, &messages[k], &header);
        before = header;
        d.groups[d.n_groups++] = &messages[k];
        l->transposed |= groups[k].field_count != 0;
    }
    if (!rc)
        put_events(e, o, is_numbered, time_min, &d);
    if (!rc && is_flat(o))
        put_flat(e, o, groups, &d);
    if (!rc && !e->columns.failed)
        put_frames(e, &d, &l->batch);
    if (!rc && !e->columns.failed)
        put_directory(e, &d, is_flat(o), l->shapes.count && knows_dictionary(e), &l->batch);
    l->directory = e->last_directory;
    l->directory_bytes = e->last_directory_bytes;
    return rc ? rc : e->columns.failed ? EA_ENOMEM : 0;
}

/* The better of two ways where that costs little: fields of one kind side by side compress better when they are alike,
 * whole payloads when these are. */
static int choose_layout(ea_encoder *e, const ea_open_batch *o, int is_numbered, int64_t time_min, layout *l) {
    layout other;
    if (!is_flat(o))
        return lay_out(e, o, TRANSPOSE_ROWS, is_numbered, time_min, l);
    int rc = lay_out(e, o, FLAT_TRANSPOSE_ROWS, is_numbered, time_min, l);
    if (rc || !l->transposed)
        return rc;
    rc = lay_out(e, o, UINT32_MAX, is_numbered, time_min, &other);
    if (!rc && size_of(&other) < size_of(l))
        *l = other;
    return rc;
}

static int encode_ledger(ea_encoder *e, const ea_batch_stamp *stamp, const uint8_t **ret_data, size_t *ret_len_bytes,
                         ea_err *err) {
    Etwagent__V1__Batch b = ETWAGENT__V1__BATCH__INIT;
    b.format = 1;
    b.stream = (ProtobufCBinaryData){.len = EA_STREAM_ID_BYTES, .data = e->options.stream};
    b.number = stamp->number;
    b.priority = stamp->priority;
    b.ledger = stamp->ledger ? ea_ledger_message(&e->arena, stamp) : NULL;
    e->last_directory_bytes = 0;
    size_t n = etwagent__v1__batch__get_packed_size(&b);
    if ((stamp->ledger && !b.ledger) || reserve_out(e, n))
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    etwagent__v1__batch__pack(&b, e->out);
    *ret_data = e->out;
    *ret_len_bytes = n;
    return 0;
}

int ea_encoder_encode(ea_encoder *e, const ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                      size_t *ret_len_bytes, ea_err *err) {
    layout l;
    if ((o && o->count == 0) || stamp->number == 0)
        return ea_fail(err, EA_EINVAL, "encode batch %" PRIu64 " without events", stamp->number);
    reset_arena(e);
    if (!o)
        return encode_ledger(e, stamp, ret_data, ret_len_bytes, err);
    group_checksum *sums = ea_arena_alloc(&e->arena, o->group_count * sizeof *sums);
    int rc = sums ? reserve_events(e, o->count) : EA_ENOMEM;
    int64_t time_min = 0, time_max = 0;
    uint64_t checksum = rc ? 0 : sum_up(o, sums, &time_min, &time_max);
    if ((uint64_t)time_max - (uint64_t)time_min > INT64_MAX)
        time_min = time_max - INT64_MAX; /* clocks beyond reason: the range is cut, the events are not */
    if (!rc)
        rc = choose_layout(e, o, e->options.is_numbered && stamp->kind == EA_BATCH_EVENTS, time_min, &l);
    if (rc)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    e->last_directory = l.directory;
    e->last_directory_bytes = l.directory_bytes;

    Etwagent__V1__Batch b = l.batch;
    b.format = 1;
    b.stream.data = e->options.stream;
    b.stream.len = EA_STREAM_ID_BYTES;
    b.number = stamp->number;
    b.kind = stamp->kind == EA_BATCH_KEYFRAME ? ETWAGENT__V1__KIND__KIND_KEYFRAME : ETWAGENT__V1__KIND__KIND_EVENTS;
    b.event_count = o->count;
    b.priority = l.shapes.count ? 0 : stamp->priority;
    b.checksum = checksum;
    b.time_min = (int64_t)((uint64_t)time_min - (uint64_t)o->sources[0].clock.base_raw);
    b.time_span = (uint64_t)time_max - (uint64_t)time_min;
    put_descriptions(e, o, &b);
    put_sources(e, o, &b);
    if (l.shapes.count && !e->columns.failed &&
        ea_context_put(&e->context, &e->arena, &l.shapes, e->dictionary ? ea_load64(e->dictionary_hash) : 0,
                       stamp->priority, e->options.all_descriptions ? NULL : &e->known, &b))
        e->columns.failed = 1;
    if (l.shapes.count && e->dictionary && !e->columns.failed && !knows_dictionary(e))
        put_dictionary(e, &b);
    if (stamp->ledger)
        b.ledger = ea_ledger_message(&e->arena, stamp);
    if (stamp->ledger && !b.ledger)
        e->columns.failed = 1;
    if (e->columns.failed)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);

    size_t direct = e->columns.direct.len_bytes, n = direct + etwagent__v1__batch__get_packed_size(&b);
    if (n > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "encode batch %" PRIu64 ": it would take %zu bytes, at most %d are allowed",
                       stamp->number, n, EA_BATCH_MAX_BYTES);
    if (reserve_out(e, n))
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    etwagent__v1__batch__pack(&b, e->out + direct);
    *ret_data = e->out;
    *ret_len_bytes = n;
    return 0;
}
