/* Rows become columns. See columns.h. */
#include "service/batch/columns.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/wire/column.h"
#include "proto/wire/envelope.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SAMPLE_RUNS = 4, /* statistics look at so many runs of so many neighbours */
    SAMPLE_RUN = 32,
    SMALL_COUNT = 64,    /* below, a varint is tried, and bits */
    FEW_BITS = 4,        /* numbers of no more are packed */
    DICTIONARY_MIN = 16, /* rows */
    PREFIX_ROWS = 512,   /* a dictionary is given up when these are nearly all different */
    FRAMES_TAG = EA_BATCH_FRAMES << 3 | 2,
    DATA_TAG = 1 << 3 | 2, /* Frame.data */
    FRAME_HEAD_MAX = 2 * (1 + 10),
};

void ea_columns_init(ea_columns *c, ea_arena *arena) {
    *c = (ea_columns){.arena = arena};
}

void ea_columns_deinit(ea_columns *c) {
    free(c->parts);
    free(c->table);
    *c = (ea_columns){0};
}

void ea_columns_reset(ea_columns *c) {
    c->part_count = 0;
    c->direct = (ea_direct){0};
    c->failed = 0;
}

static Etwagent__V1__Column *new_column(ea_columns *c, Etwagent__V1__Encoding encoding) {
    Etwagent__V1__Column *m = ea_arena_alloc(c->arena, sizeof *m);
    if (!m) {
        c->failed = 1;
        return NULL;
    }
    etwagent__v1__column__init(m);
    m->encoding = encoding;
    return m;
}

static void *data_alloc(ea_columns *c, size_t len_bytes) {
    void *p = ea_arena_alloc(c->arena, len_bytes);
    if (!p)
        c->failed = 1;
    return p;
}

/* The bytes of a Batch before the data of one frame that is not compressed; returns their number. */
static size_t frame_head(uint8_t head[FRAME_HEAD_MAX], uint64_t len_bytes) {
    uint64_t message_bytes = 1 + ea_varint_bytes(len_bytes) + len_bytes;
    size_t at = 0;
    head[at++] = FRAMES_TAG;
    at += ea_varint_put(head + at, &message_bytes, 1);
    head[at++] = DATA_TAG;
    return at + ea_varint_put(head + at, &len_bytes, 1);
}

/* Memory for a column's data, of which slack bytes more may be written before add_part is called with it. */
static uint8_t *part_alloc(ea_columns *c, size_t len_bytes, size_t slack) {
    ea_direct *d = &c->direct;
    if (len_bytes < EA_OWN_FRAME_BYTES || d->capacity - d->len_bytes < FRAME_HEAD_MAX + len_bytes + slack)
        return data_alloc(c, len_bytes + slack);
    d->len_bytes += frame_head(d->data + d->len_bytes, len_bytes) + len_bytes;
    return d->data + d->len_bytes - len_bytes;
}

static void columns_add_part(ea_columns *c, Etwagent__V1__Column *m, const uint8_t *data, size_t len_bytes,
                             enum ea_part_kind kind) {
    if (c->direct.len_bytes && data + len_bytes == c->direct.data + c->direct.len_bytes) {
        m->frame = ++c->direct.count;
        return;
    }
    if (EA_GROW(c->parts, c->part_capacity, c->part_count + 1, SIZE_MAX)) {
        c->failed = 1;
        return;
    }
    c->parts[c->part_count++] = (ea_part){m, data, len_bytes, kind};
}

static ProtobufCBinaryData copy_bytes(ea_columns *c, const void *data, size_t len_bytes) {
    uint8_t *p = ea_arena_copy(c->arena, data, len_bytes);
    if (!p) {
        c->failed = 1;
        len_bytes = 0;
    }
    return (ProtobufCBinaryData){.len = len_bytes, .data = p};
}

/* ---- dictionaries ---- */

/* An empty table for so many keys, at most half full; NULL when memory is out. */
static uint32_t *fresh_table(ea_columns *c, size_t keys, size_t *ret_mask) {
    size_t size = 64;
    while (size < 2 * keys)
        size *= 2;
    if (size > c->table_size) {
        free(c->table);
        c->table = malloc(size * sizeof *c->table);
        c->table_size = c->table ? size : 0;
        if (!c->table) {
            c->failed = 1;
            return NULL;
        }
    }
    memset(c->table, 0, size * sizeof *c->table);
    *ret_mask = size - 1;
    return c->table;
}

static size_t spread(uint64_t v) {
    v *= 0x9E3779B97F4A7C15u;
    return (size_t)(v ^ v >> 32);
}

/* Finds the distinct values, in the order of their first rows: index[i] is row i's. Gives up (0) above limit of them.
 */
static size_t distinct_numbers(ea_columns *c, const uint64_t *values, size_t count, size_t limit, uint64_t *distinct,
                               uint64_t *index) {
    size_t mask, n = 0;
    uint32_t *table = fresh_table(c, limit + 1, &mask);
    if (!table)
        return 0;
    uint64_t last = 0, last_index = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = values[i];
        if (i && v == last) {
            index[i] = last_index;
            continue;
        }
        size_t slot = spread(v) & mask;
        while (table[slot] && distinct[table[slot] - 1] != v)
            slot = (slot + 1) & mask;
        if (!table[slot]) {
            if (n == limit)
                return 0;
            distinct[n++] = v;
            table[slot] = (uint32_t)n;
        }
        last = v;
        last_index = index[i] = table[slot] - 1;
    }
    return n;
}

static int same_row(const ea_slice *a, const ea_slice *b) {
    return a->len_bytes == b->len_bytes && (a->len_bytes == 0 || memcmp(a->data, b->data, a->len_bytes) == 0);
}

static size_t distinct_rows(ea_columns *c, const ea_slice *rows, size_t count, size_t limit, ea_slice *distinct,
                            uint64_t *hashes, uint64_t *index) {
    size_t mask, n = 0;
    uint32_t *table = fresh_table(c, limit + 1, &mask);
    if (!table)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (i && same_row(&rows[i], &rows[i - 1])) {
            index[i] = index[i - 1];
            continue;
        }
        uint64_t h = ea_hash64(rows[i].data, rows[i].len_bytes, 0);
        size_t slot = (size_t)h & mask;
        while (table[slot] && (hashes[table[slot] - 1] != h || !same_row(&distinct[table[slot] - 1], &rows[i])))
            slot = (slot + 1) & mask;
        if (!table[slot]) {
            if (n == limit)
                return 0;
            hashes[n] = h;
            distinct[n++] = rows[i];
            table[slot] = (uint32_t)n;
        }
        index[i] = table[slot] - 1;
    }
    return n;
}

static unsigned columns_bits_of(uint64_t value) {
    unsigned n = 0;
    for (; value; value >>= 1)
        n++;
    return n;
}

static void columns_put_bits(ea_columns *c, Etwagent__V1__Column *m, const uint64_t *values, size_t count,
                             unsigned bits) {
    size_t len_bytes = ea_bits_bytes(count, bits);
    uint8_t *data = part_alloc(c, len_bytes, 0);
    if (!data)
        return;
    ea_bits_put(data, values, count, bits);
    columns_add_part(c, m, data, len_bytes, EA_PART_NUMBERS);
}

/* The indexes of a dictionary; its values have been put already. */
static void put_indexes(ea_columns *c, Etwagent__V1__Column *m, const uint64_t *index, size_t count, size_t values) {
    unsigned planes = values > 1 ? ea_bytes_of(values - 1) : 0;
    m->value_count = (uint32_t)values;
    if (!planes)
        return;
    unsigned bits = columns_bits_of(values - 1);
    if (count < SMALL_COUNT && bits <= FEW_BITS) {
        m->planes = bits;
        columns_put_bits(c, m, index, count, bits);
        return;
    }
    uint8_t *data = part_alloc(c, planes * count, 0);
    if (!data)
        return;
    ea_planes_put(data, index, count, planes);
    columns_add_part(c, m, data, planes * count, EA_PART_NUMBERS);
}

/* ---- numbers ---- */

typedef struct relation {
    Etwagent__V1__Base base;
    const ea_relations *to; /* BASE_TIME, BASE_PID, BASE_TID */
    size_t cost;
} relation;

static uint64_t difference(uint64_t value, uint64_t from, unsigned width) {
    return ea_zigzag(ea_extend(ea_cut(value - from, width), width));
}

/* What number i of the group is relative to. */
static uint64_t related(const relation *r, size_t i) {
    const ea_event *event = &r->to->events[r->to->rows[i].event];
    return r->base == ETWAGENT__V1__BASE__BASE_TIME  ? (uint64_t)event->time
           : r->base == ETWAGENT__V1__BASE__BASE_PID ? event->pid
                                                     : event->tid;
}

/* Bytes that a sample of the rows takes: absolute (what differs from the row before counts), and relative to something.
 */
static size_t sample_cost(const uint64_t *v, size_t count, unsigned width, const relation *r) {
    size_t cost = 0, runs = count > SAMPLE_RUNS * SAMPLE_RUN ? SAMPLE_RUNS : 1;
    size_t length = runs > 1 ? SAMPLE_RUN : count;
    for (size_t k = 0; k < runs; k++) {
        size_t first = runs > 1 ? k * (count - length) / (runs - 1) : 0;
        for (size_t i = first ? first : 1; i < first + length; i++) {
            uint64_t bytes;
            if (r->base == ETWAGENT__V1__BASE__BASE_NONE)
                bytes = v[i] ^ v[i - 1];
            else
                bytes = difference(v[i], r->to ? related(r, i) : v[i - 1], width);
            cost += ea_bytes_of(bytes);
        }
    }
    return cost;
}

/* What takes the fewest bytes; cost is a sample's, samples its number of rows. */
static void choose_relation(const uint64_t *v, size_t count, unsigned width, const ea_relations *relations,
                            relation *ret) {
    relation candidates[4];
    size_t n = 0;
    candidates[n++] = (relation){.base = ETWAGENT__V1__BASE__BASE_PREVIOUS};
    if (relations && width == 8)
        candidates[n++] = (relation){.base = ETWAGENT__V1__BASE__BASE_TIME, .to = relations};
    if (relations && width == 4) {
        candidates[n++] = (relation){.base = ETWAGENT__V1__BASE__BASE_PID, .to = relations};
        candidates[n++] = (relation){.base = ETWAGENT__V1__BASE__BASE_TID, .to = relations};
    }
    *ret = (relation){.base = ETWAGENT__V1__BASE__BASE_NONE};
    if (count < 2)
        return;
    ret->cost = sample_cost(v, count, width, ret);
    for (size_t i = 0; i < n; i++) {
        candidates[i].cost = sample_cost(v, count, width, &candidates[i]);
        if (candidates[i].cost < ret->cost)
            *ret = candidates[i];
    }
}

typedef struct ranked {
    uint64_t value;
    uint32_t index;
} ranked;

/* Sorts by value, byte by byte from the lowest; bytes that are the same in all are skipped. spare has room for count,
 * too; returns where the result is. */
static ranked *sort_ranked(ranked *r, ranked *spare, size_t count, uint64_t differs) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint32_t starts[257] = {0};
        if (!(differs >> shift & 0xFF))
            continue;
        for (size_t i = 0; i < count; i++)
            starts[(r[i].value >> shift & 0xFF) + 1]++;
        for (unsigned k = 1; k < 256; k++)
            starts[k] += starts[k - 1];
        for (size_t i = 0; i < count; i++)
            spare[starts[r[i].value >> shift & 0xFF]++] = r[i];
        ranked *swap = r;
        r = spare;
        spare = swap;
    }
    return r;
}

/* Values that repeat all over: the distinct ones, ascending, and indexes. limit: so many are too many. NULL: they are.
 */
static Etwagent__V1__Column *try_dictionary(ea_columns *c, const uint64_t *values, size_t count, unsigned width,
                                            size_t limit) {
    uint64_t *distinct = data_alloc(c, (limit + 1) * sizeof *distinct), *index = data_alloc(c, count * sizeof *index);
    if (!distinct || !index)
        return NULL;
    if (count > 4 * PREFIX_ROWS && !distinct_numbers(c, values, PREFIX_ROWS, PREFIX_ROWS * 3 / 4, distinct, index))
        return NULL;
    size_t n = distinct_numbers(c, values, count, limit, distinct, index);
    if (n == 0)
        return NULL;
    ranked *order = data_alloc(c, 2 * n * sizeof *order);
    uint32_t *rank = data_alloc(c, n * sizeof *rank);
    Etwagent__V1__Column *m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY);
    if (!order || !rank || !m)
        return NULL;
    uint64_t differs = 0;
    for (size_t i = 0; i < n; i++) {
        order[i] = (ranked){.value = distinct[i], .index = (uint32_t)i};
        differs |= distinct[i] ^ distinct[0];
    }
    const ranked *sorted = sort_ranked(order, order + n, n, differs);
    for (size_t i = 0; i < n; i++) {
        distinct[i] = sorted[i].value;
        rank[sorted[i].index] = (uint32_t)i;
    }
    for (size_t i = 0; i < count; i++)
        index[i] = rank[index[i]];
    m->values = ea_columns_numbers(c, distinct, n, width, 0, 0, NULL);
    put_indexes(c, m, index, count, n);
    return m;
}

/* Stops at the first that differs: nearly always the second. */
static int same_numbers(const uint64_t *v, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (v[i] != v[0])
            return 0;
    return 1;
}

/* All of one byte: indexes would take no less. */
static int small_numbers(const uint64_t *v, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (v[i] > 0xFF)
            return 0;
    return 1;
}

static Etwagent__V1__Column *constant_number(ea_columns *c, uint64_t v, unsigned width, int implied,
                                             Etwagent__V1__Base base) {
    Etwagent__V1__Column *m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT);
    if (!m)
        return NULL;
    m->width = implied ? 0 : width;
    m->relative_to = base;
    m->constant = copy_bytes(c, &v, ea_bytes_of(v));
    return m;
}

/* Writes differences (or the values themselves) as the fewest planes, or as varints when they are few. */
static Etwagent__V1__Column *put_numbers(ea_columns *c, uint64_t *v, size_t count, unsigned width, int implied,
                                         uint64_t initial, const relation *r) {
    uint64_t all = 0;
    if (r->to) {
        for (size_t i = 0; i < count; i++)
            all |= v[i] = difference(v[i], related(r, i), width);
    } else if (r->base) {
        uint64_t last = initial;
        for (size_t i = 0; i < count; i++) {
            uint64_t value = v[i];
            all |= v[i] = difference(value, last, width);
            last = value;
        }
    } else {
        for (size_t i = 0; i < count; i++)
            all |= v[i];
    }
    if (same_numbers(v, count))
        return constant_number(c, count ? v[0] : 0, width, implied, r->base);
    Etwagent__V1__Column *m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_PLAIN);
    if (!m)
        return NULL;
    m->width = implied ? 0 : width;
    m->relative_to = r->base;
    if (count < SMALL_COUNT && columns_bits_of(all) <= FEW_BITS) {
        m->encoding = ETWAGENT__V1__ENCODING__ENCODING_BITS;
        m->planes = columns_bits_of(all);
        columns_put_bits(c, m, v, count, m->planes);
        return m;
    }
    unsigned planes = ea_bytes_of(all);
    size_t len_bytes = planes * count, varint_bytes = SIZE_MAX;
    if (count < SMALL_COUNT) {
        varint_bytes = 0;
        for (size_t i = 0; i < count; i++)
            varint_bytes += ea_varint_bytes(v[i]);
    }
    uint8_t *data = part_alloc(c, len_bytes > varint_bytes ? varint_bytes : len_bytes, 0);
    if (!data)
        return NULL;
    if (varint_bytes < len_bytes) {
        m->encoding = ETWAGENT__V1__ENCODING__ENCODING_VARINT;
        m->bytes = len_bytes = ea_varint_put(data, v, count);
    } else {
        m->encoding = ETWAGENT__V1__ENCODING__ENCODING_PLANES;
        m->planes = planes == width ? 0 : planes;
        ea_planes_put(data, v, count, planes);
    }
    columns_add_part(c, m, data, len_bytes, EA_PART_NUMBERS);
    return m;
}

Etwagent__V1__Column *ea_columns_numbers(ea_columns *c, uint64_t *v, size_t count, unsigned width, int implied,
                                         uint64_t initial, const ea_relations *relations) {
    if (same_numbers(v, count))
        return constant_number(c, count ? v[0] : 0, width, implied, ETWAGENT__V1__BASE__BASE_NONE);
    relation r;
    choose_relation(v, count, width, relations, &r);
    /* Repeated values compress better than any difference that is not nearly always zero. */
    if (!c->no_dictionaries && width >= 4 && count >= DICTIONARY_MIN && (r.base || !small_numbers(v, count))) {
        size_t rows = count < SAMPLE_RUNS * SAMPLE_RUN ? count : SAMPLE_RUNS * SAMPLE_RUN;
        size_t limit = !r.base ? count * 9 / 20 : r.cost * 4 > rows * 3 ? count / 4 : 0;
        Etwagent__V1__Column *m = limit ? try_dictionary(c, v, count, width, limit) : NULL;
        if (m || c->failed)
            return m;
    }
    return put_numbers(c, v, count, width, implied, initial, &r);
}

Etwagent__V1__Column *ea_columns_series(ea_columns *c, uint64_t *v, size_t count, unsigned width, uint64_t initial) {
    static const relation previous = {.base = ETWAGENT__V1__BASE__BASE_PREVIOUS};
    return put_numbers(c, v, count, width, 1, initial, &previous);
}

/* ---- bytes ---- */

static Etwagent__V1__Column *constant_row(ea_columns *c, const ea_slice *row) {
    Etwagent__V1__Column *m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT);
    if (m && row->len_bytes)
        m->constant = copy_bytes(c, row->data, row->len_bytes);
    return m;
}

static int all_same(const ea_slice *rows, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (!same_row(&rows[i], &rows[0]))
            return 0;
    return 1;
}

/* Rows that repeat: distinct ones and indexes. NULL: they do not. width 0: rows of bytes. */
static Etwagent__V1__Column *try_row_dictionary(ea_columns *c, const ea_slice *rows, size_t count, unsigned unit,
                                                unsigned width) {
    size_t limit = count / 2;
    if (count < 4 || c->no_dictionaries)
        return NULL;
    ea_slice *distinct = data_alloc(c, (limit + 1) * sizeof *distinct);
    uint64_t *hashes = data_alloc(c, (limit + 1) * sizeof *hashes), *index = data_alloc(c, count * sizeof *index);
    if (!distinct || !hashes || !index)
        return NULL;
    if (count > 4 * PREFIX_ROWS && !distinct_rows(c, rows, PREFIX_ROWS, PREFIX_ROWS * 7 / 8, distinct, hashes, index))
        return NULL;
    size_t n = distinct_rows(c, rows, count, limit, distinct, hashes, index);
    if (n == 0)
        return NULL;
    Etwagent__V1__Column *m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY);
    if (!m)
        return NULL;
    m->values = width ? ea_columns_wide(c, distinct, n, width, 0) : ea_columns_bytes(c, distinct, n, unit);
    put_indexes(c, m, index, count, n);
    return m;
}

/* Copies a row in runs of 16 bytes, beyond its end on both sides: faster than a call for what rows mostly are. */
static void copy_row(uint8_t *to, const uint8_t *from, size_t len_bytes) {
    static_assert(EA_CONTENT_SLACK >= 16, "rows are read beyond their ends");
    if (len_bytes > 128) {
        memcpy(to, from, len_bytes);
        return;
    }
    for (size_t at = 0; at < len_bytes; at += 16)
        memcpy(to + at, from + at, 16);
}

/* Copies the rows from the batch's content one after the other. */
static uint8_t *join_rows(ea_columns *c, const ea_slice *rows, size_t count, size_t *ret_bytes) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += rows[i].len_bytes;
    uint8_t *data = part_alloc(c, total, 16), *at = data;
    for (size_t i = 0; data && i < count; i++) {
        copy_row(at, rows[i].data, rows[i].len_bytes);
        at += rows[i].len_bytes;
    }
    *ret_bytes = total;
    return data;
}

/* Eight 16-bit units, and half of each. */
typedef uint16_t units __attribute__((vector_size(16)));
typedef uint8_t halves __attribute__((vector_size(8)));

/* The same rows, whose lengths are even: the low bytes of all their 16-bit units, then the high ones. */
static uint8_t *columns_split_rows(ea_columns *c, const ea_slice *rows, size_t count, size_t *ret_bytes) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += rows[i].len_bytes;
    uint8_t *data = part_alloc(c, total, sizeof(halves)), *low = data, *high = data + total / 2;
    for (size_t i = 0; data && i < count; i++) {
        const uint8_t *from = rows[i].data;
        size_t n = rows[i].len_bytes / 2, at = 0;
        /* eights are written beyond the end of a row, but not over the high bytes */
        for (; at < n && low + at + sizeof(halves) <= data + total / 2; at += sizeof(halves)) {
            units v;
            memcpy(&v, from + 2 * at, sizeof v);
            halves lows = __builtin_convertvector(v, halves), highs = __builtin_convertvector(v >> 8, halves);
            memcpy(low + at, &lows, sizeof lows);
            memcpy(high + at, &highs, sizeof highs);
        }
        for (; at < n; at++) {
            low[at] = from[2 * at];
            high[at] = from[2 * at + 1];
        }
        low += n;
        high += n;
    }
    *ret_bytes = total;
    return data;
}

Etwagent__V1__Column *ea_columns_bytes(ea_columns *c, const ea_slice *rows, size_t count, unsigned unit) {
    if (count == 0 || all_same(rows, count))
        return constant_row(c, count ? &rows[0] : &(ea_slice){0});
    Etwagent__V1__Column *m = try_row_dictionary(c, rows, count, unit, 0);
    if (m || c->failed)
        return m;
    for (size_t i = 0; i < count && unit == 2; i++)
        if (rows[i].len_bytes % 2)
            unit = 1;
    uint64_t *lengths = data_alloc(c, count * sizeof *lengths);
    m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_PLAIN);
    if (!lengths || !m)
        return NULL;
    for (size_t i = 0; i < count; i++)
        lengths[i] = rows[i].len_bytes / unit;
    m->lengths = ea_columns_numbers(c, lengths, count, 4, 1, 0, NULL);
    size_t len_bytes;
    uint8_t *data = unit == 2 ? columns_split_rows(c, rows, count, &len_bytes) : join_rows(c, rows, count, &len_bytes);
    if (!data)
        return NULL;
    if (unit == 2) {
        m->width = unit;
        m->encoding = ETWAGENT__V1__ENCODING__ENCODING_PLANES;
    }
    m->bytes = len_bytes;
    columns_add_part(c, m, data, len_bytes, EA_PART_BYTES);
    return m;
}

Etwagent__V1__Column *ea_columns_wide(ea_columns *c, const ea_slice *rows, size_t count, unsigned width, int implied) {
    Etwagent__V1__Column *m;
    if (count == 0 || all_same(rows, count)) {
        m = constant_row(c, count ? &rows[0] : &(ea_slice){0});
        if (m && !implied)
            m->width = width;
        return m;
    }
    m = try_row_dictionary(c, rows, count, 1, width);
    if (m || c->failed)
        return m;
    size_t len_bytes;
    uint8_t *data = join_rows(c, rows, count, &len_bytes);
    m = new_column(c, ETWAGENT__V1__ENCODING__ENCODING_PLAIN);
    if (!data || !m)
        return NULL;
    m->width = implied ? 0 : width;
    columns_add_part(c, m, data, len_bytes, EA_PART_BYTES);
    return m;
}
