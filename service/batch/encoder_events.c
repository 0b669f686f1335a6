/* Rows become columns: which go where, a group's columns, the batch's. FORMAT.md is the specification. Input: a taken
 * batch. Used by: encoder.c. Thread: the encoder's. */
#include "service/batch/encoder_parts.h"

#include "proto/wire/checksum.h"

#include <stdlib.h>

enum {
    GATHER_ROWS = 64, /* rows whose numbers are gathered together */
    AHEAD = 6,        /* payloads that are on their way into the cache */
};

/* ---- scratch ---- */

static int resize(void **p, size_t count, size_t element_bytes) {
    free(*p);
    *p = malloc(count * element_bytes);
    return *p ? 0 : EA_ENOMEM;
}

#define RESIZE(p, count) (scratch = (void *)(uintptr_t)(p), rc |= resize(&scratch, count, sizeof *(p)), (p) = scratch)

int ea_encoder_reserve(ea_encoder *e, uint32_t n) {
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

void ea_encoder_free_rows(ea_encoder *e) {
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
static void encoder_events_read_events(ea_encoder *e, const ea_open_batch *o, uint32_t *starts) {
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
        e->group_of[i] = event->group;
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
static uint32_t encoder_events_split_rows(ea_encoder *e, const ea_open_group *g, ea_row *rows, size_t *ret_fields,
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

static int by_first_event(const void *a, const void *b) {
    const ea_out_group *x = a, *y = b;
    return (x->rows->event > y->rows->event) - (x->rows->event < y->rows->event);
}

ea_out_group *ea_encoder_list_groups(ea_encoder *e, const ea_open_batch *o, uint32_t transpose_rows,
                                     uint32_t *ret_count) {
    uint32_t *starts = ea_arena_alloc(&e->arena, (o->group_count + 1) * sizeof *starts);
    ea_out_group *out = ea_arena_alloc(&e->arena, 2 * (size_t)o->group_count * sizeof *out);
    if (!starts || !out)
        return NULL;
    encoder_events_read_events(e, o, starts);
    uint32_t n = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        const ea_open_group *g = &o->groups[k];
        const uint16_t *places = NULL;
        ea_row *rows = e->rows + starts[k];
        uint32_t whole = 0;
        size_t fields = 0;
        if (g->c->top_count && g->count >= transpose_rows)
            whole = encoder_events_split_rows(e, g, rows, &fields, &places);
        if (whole)
            out[n++] = (ea_out_group){.from = g, .rows = rows, .places = places, .count = whole, .field_count = fields};
        if (whole < g->count)
            out[n++] = (ea_out_group){.from = g, .rows = rows + whole, .count = g->count - whole};
    }
    int in_order = 1; /* unless payloads that are cut came after a younger group's first event */
    for (uint32_t k = 1; k < n; k++)
        in_order &= by_first_event(&out[k - 1], &out[k]) < 0;
    if (!in_order)
        qsort(out, n, sizeof *out, by_first_event);
    for (uint32_t k = 0; k < n && (n != o->group_count || !in_order); k++) /* else read_events' are right */
        for (uint32_t i = 0; i < out[k].count; i++)
            e->group_of[out[k].rows[i].event] = k;
    *ret_count = n;
    return out;
}

/* ---- columns of a group ---- */

static int encoder_events_is_number(const ea_field *f) {
    return f->type != EA_STRUCT && f->count_field < 0 && f->count == 1 &&
           (f->width == 1 || f->width == 2 || f->width == 4 || f->width == 8);
}

/* Where the field begins in the payloads of rows: *ret_stride from row to row; NULL: at its class's offset. */
static const uint16_t *places_of_field(const ea_out_group *g, size_t top, size_t *ret_stride) {
    const ea_class *c = g->from->c;
    *ret_stride = places_of(c);
    return top < c->fixed_fields ? NULL : g->places + (top - c->fixed_fields);
}

/* One number of each payload of some rows. */
static void gather_numbers(uint64_t *v, const ea_out_group *g, uint32_t from, uint32_t to, size_t top) {
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
static uint64_t **encoder_events_gather(ea_encoder *e, const ea_out_group *g) {
    const ea_class *c = g->from->c;
    uint64_t **numbers = ea_arena_zalloc(&e->arena, g->field_count, sizeof *numbers);
    for (size_t k = 0; numbers && k < g->field_count; k++)
        if (encoder_events_is_number(&c->fields[ea_class_top_field(c, k)]) &&
            !(numbers[k] = ea_arena_alloc(&e->arena, g->count * sizeof **numbers)))
            return NULL;
    for (uint32_t from = 0; numbers && from < g->count; from += GATHER_ROWS)
        for (size_t k = 0; k < g->field_count; k++)
            if (numbers[k])
                gather_numbers(numbers[k], g, from, from + GATHER_ROWS < g->count ? from + GATHER_ROWS : g->count, k);
    return numbers;
}

/* Text pays to be split into its low and its high bytes; arrays of addresses repeat as a whole, and do not. */
static unsigned encoder_events_unit_of(const ea_field *f) {
    return f->type == EA_UTF16Z || f->type == EA_UTF16_COUNTED || f->type == EA_UTF16_REST || f->type == EA_UTF16_FIXED
               ? 2
               : 1;
}

/* numbers: the field's, used up; NULL: it is none. */
static void encoder_events_put_field(ea_encoder *e, const ea_out_group *g, size_t top, uint64_t *numbers,
                                     const ea_relations *relations, Etwagent__V1__Group *m) {
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
        column = ea_columns_bytes(&e->columns, e->slices, g->count, encoder_events_unit_of(f));
    }
    m->fields[m->n_fields++] = column;
}

/* Where what no column of a field holds begins in the payload of row i. */
static size_t tail_place(const ea_out_group *g, size_t i) {
    const ea_class *c = g->from->c;
    if (g->field_count == 0)
        return 0;
    if (g->field_count < c->fixed_fields)
        return c->fields[g->field_count].offset;
    return g->places ? g->places[i * places_of(c) + g->field_count - c->fixed_fields] : c->fixed_bytes;
}

static int put_payloads(ea_encoder *e, const ea_open_batch *o, const ea_out_group *g, Etwagent__V1__Group *m) {
    const ea_class *c = g->from->c;
    size_t n = g->count, fields = g->field_count;
    if (fields) {
        m->fields = ea_arena_alloc(&e->arena, fields * sizeof(void *));
        uint64_t **numbers = encoder_events_gather(e, g);
        if (!m->fields || !numbers)
            return EA_ENOMEM;
        ea_relations relations = {.events = o->events, .rows = g->rows};
        for (size_t f = 0; f < fields; f++)
            encoder_events_put_field(e, g, f, numbers[f], &relations, m);
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

/* The item's data in an event: items follow each other, each after its length. */
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

/* shaped: the group's shape has the items that are equal in all events, and all types. */
static int put_items(ea_encoder *e, const ea_open_batch *o, const ea_out_group *g, int shaped, Etwagent__V1__Group *m) {
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

static int put_header_columns(ea_encoder *e, const ea_open_batch *o, const ea_out_group *g, Etwagent__V1__Group *m) {
    if (g->from->times) {
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
    if (g->from->activities) {
        for (uint32_t i = 0; i < g->count; i++)
            e->slices[i] = (ea_slice){.data = o->events[g->rows[i].event].activity.bytes, .len_bytes = 16};
        m->activity = ea_columns_wide(&e->columns, e->slices, g->count, 16, 1);
    }
    return e->columns.failed ? EA_ENOMEM : 0;
}

int ea_encoder_put_group(ea_encoder *e, const ea_open_batch *o, const ea_out_group *g, int shaped,
                         const ea_record *before, Etwagent__V1__Group *m, ea_record *ret_header) {
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
    if (!rc && !ea_encoder_is_flat(o))
        rc = put_header_columns(e, o, g, m);
    if (!rc && (!ea_encoder_is_flat(o) || g->field_count))
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

void ea_encoder_put_events(ea_encoder *e, const ea_open_batch *o, int is_numbered, int64_t time_min,
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

void ea_encoder_put_flat(ea_encoder *e, const ea_open_batch *o, const ea_out_group *groups,
                         Etwagent__V1__Directory *d) {
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
    uint64_t seed; /* of its constants, and of the items if all events have the same */
    int same_items;
} group_checksum;

int ea_encoder_sum_up(ea_encoder *e, const ea_open_batch *o, uint64_t *ret_checksum, int64_t *ret_min,
                      int64_t *ret_max) {
    group_checksum *groups = ea_arena_alloc(&e->arena, o->group_count * sizeof *groups);
    if (!groups)
        return EA_ENOMEM;
    int64_t min = INT64_MAX, max = INT64_MIN;
    uint64_t checksum = 0;
    for (uint32_t k = 0; k < o->group_count; k++) {
        const ea_open_group *g = &o->groups[k];
        ea_record r;
        ea_open_group_header(g, &r);
        groups[k] = (group_checksum){.seed = ea_checksum_constants(&r), .same_items = same_items(o, g)};
        if (g->ext_count && groups[k].same_items)
            groups[k].seed = ea_checksum_seed(groups[k].seed, items_checksum(o, g, 0), 0);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        const ea_event *event = &o->events[i];
        const group_checksum *g = &groups[event->group];
        uint64_t items = g->same_items ? 0 : items_checksum(o, &o->groups[event->group], i);
        checksum += ea_checksum_event(event, ea_checksum_seed(g->seed, items, i), o->content + event->payload,
                                      event->payload_bytes);
        int64_t t = event->time;
        if (event->source)
            t = ea_clock_convert(&o->sources[event->source].clock, &o->sources[0].clock, t);
        min = t < min ? t : min;
        max = t > max ? t : max;
    }
    *ret_min = min;
    *ret_max = max;
    *ret_checksum = checksum;
    return 0;
}
