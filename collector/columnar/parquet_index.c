/* See parquet.h: the bounds of values, which statistics have, and the page index. */
#include "collector/columnar/parquet_parts.h"

#include "proto/base/array.h"

#include <math.h>
#include <string.h>

static double parquet_index_real_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static int parquet_index_compare_texts(const ec_column_buffer *b, uint64_t x, uint64_t y) {
    uint32_t nx, ny;
    const char *tx = ec_column_text(b, (uint32_t)x, &nx), *ty = ec_column_text(b, (uint32_t)y, &ny);
    int order = memcmp(tx, ty, nx < ny ? nx : ny);
    return order ? order : (nx > ny) - (nx < ny);
}

static int compare_bounds(const ec_column_buffer *b, uint64_t x, uint64_t y) {
    if (!ec_file_column_bytes(b->column))
        return parquet_index_compare_texts(b, x, y);
    if (b->column->kind == EC_COLUMN_REAL)
        return (parquet_index_real_of(x) > parquet_index_real_of(y)) -
               (parquet_index_real_of(x) < parquet_index_real_of(y));
    return ec_column_compare(b->column, x, y);
}

void ec_parquet_join_bounds(const ec_column_buffer *b, ec_parquet_bounds *a, const ec_parquet_bounds *other) {
    if (!other->has_bounds)
        return;
    if (!a->has_bounds || compare_bounds(b, other->least, a->least) < 0)
        a->least = other->least;
    if (!a->has_bounds || compare_bounds(b, other->greatest, a->greatest) > 0)
        a->greatest = other->greatest;
    a->has_bounds = 1;
}

/* A NaN has no order, and is no bound. Zeros of both signs are equal: the bounds are the outer ones. */
static void real_bounds(const ec_column_buffer *b, uint32_t from, uint32_t to, ec_parquet_bounds *ret) {
    double least = INFINITY, greatest = -INFINITY;
    for (uint32_t i = from; i < to; i++) {
        double x = parquet_index_real_of(ec_column_number(b, i));
        if (isnan(x))
            continue;
        ret->has_bounds = 1;
        least = x < least ? x : least;
        greatest = x > greatest ? x : greatest;
    }
    ret->least = bits_of(least == 0 ? -0.0 : least);
    ret->greatest = bits_of(greatest == 0 ? 0.0 : greatest);
}

static void number_bounds(const ec_column_buffer *b, uint32_t from, uint32_t to, ec_parquet_bounds *ret) {
    const uint64_t *v = b->numbers;
    uint64_t flip = b->column->kind == EC_COLUMN_UNSIGNED ? 0 : UINT64_C(1) << 63;
    uint64_t least = UINT64_MAX, greatest = 0;
    for (uint32_t i = from; i < to; i++) {
        uint64_t x = v[i] ^ flip;
        least = x < least ? x : least;
        greatest = x > greatest ? x : greatest;
    }
    *ret = (ec_parquet_bounds){.has_bounds = 1, .least = least ^ flip, .greatest = greatest ^ flip};
}

/* Each text of a dictionary is compared once. */
static int text_bounds(ec_parquet_work *w, const ec_column_buffer *b, uint32_t from, uint32_t to,
                       ec_parquet_bounds *ret) {
    if (b->is_dictionary) {
        if (EA_GROW(w->marks, w->mark_capacity, b->text_count, SIZE_MAX))
            return EA_ENOMEM;
        memset(w->marks, 0, b->text_count);
        for (uint32_t i = from; i < to; i++)
            w->marks[b->numbers[i]] = 1;
    }
    uint32_t first = b->is_dictionary ? 0 : from, end = b->is_dictionary ? b->text_count : to;
    for (uint32_t k = first; k < end; k++)
        if (!b->is_dictionary || w->marks[k])
            ec_parquet_join_bounds(b, ret, &(ec_parquet_bounds){.has_bounds = 1, .least = k, .greatest = k});
    return 0;
}

int ec_parquet_find_bounds(ec_parquet_work *w, const ec_column_buffer *b, uint32_t from, uint32_t to,
                           ec_parquet_bounds *ret) {
    int is_text = !ec_file_column_bytes(b->column), rc = 0;
    *ret = (ec_parquet_bounds){.has_bounds = 0};
    if (from == to)
        return 0;
    if (b->column->kind == EC_COLUMN_REAL)
        real_bounds(b, from, b->numbers ? to : from + 1, ret);
    else if (!b->numbers && (!is_text || b->is_dictionary))
        *ret = (ec_parquet_bounds){.has_bounds = 1, .least = b->first, .greatest = b->first};
    else if (is_text)
        rc = text_bounds(w, b, from, to, ret);
    else
        number_bounds(b, from, to, ret);
    if (!rc && is_text && ret->has_bounds) {
        uint32_t least, greatest;
        ec_column_text(b, (uint32_t)ret->least, &least);
        ec_column_text(b, (uint32_t)ret->greatest, &greatest);
        ret->has_bounds = least <= EC_PARQUET_BOUND_MAX_BYTES && greatest <= EC_PARQUET_BOUND_MAX_BYTES;
    }
    return rc;
}

const void *ec_parquet_bound(const ec_column_buffer *b, uint64_t bound, uint8_t scratch[8], size_t *ret_len_bytes) {
    unsigned width = ec_file_column_bytes(b->column);
    if (!width) {
        uint32_t n;
        const char *text = ec_column_text(b, (uint32_t)bound, &n);
        *ret_len_bytes = n;
        return text;
    }
    for (unsigned i = 0; i < width; i++)
        scratch[i] = (uint8_t)(bound >> 8 * i);
    *ret_len_bytes = width;
    return scratch;
}

/* The bounds of each page. A page with values of which none is a bound would have to be called one of NULLs. */
static void write_column_index(ec_parquet_chunk *chunk, ea_text *out) {
    const ec_column_buffer *b = chunk->buffer;
    uint8_t scratch[8];
    ec_thrift t;
    ec_thrift_begin(&t, out);
    ec_thrift_list(&t, 1, EC_THRIFT_TRUE, chunk->page_count); /* null_pages */
    for (size_t i = 0; i < chunk->page_count; i++)
        ec_thrift_element_bool(&t, chunk->pages[i].nulls == chunk->pages[i].rows);
    for (int16_t field = 2; field <= 3; field++) { /* min_values, max_values */
        ec_thrift_list(&t, field, EC_THRIFT_BINARY, chunk->page_count);
        for (size_t i = 0; i < chunk->page_count; i++) {
            const ec_parquet_bounds *bounds = &chunk->pages[i].bounds;
            size_t n = 0;
            const void *value = "";
            if (bounds->has_bounds)
                value = ec_parquet_bound(b, field == 2 ? bounds->least : bounds->greatest, scratch, &n);
            ec_thrift_element_binary(&t, value, n);
        }
    }
    ec_thrift_i32(&t, 4, 0);                                 /* boundary_order: none */
    ec_thrift_list(&t, 5, EC_THRIFT_I64, chunk->page_count); /* null_counts */
    for (size_t i = 0; i < chunk->page_count; i++)
        ec_thrift_element_int(&t, chunk->pages[i].nulls);
    ec_thrift_end(&t);
}

static void write_offset_index(const ec_parquet_chunk *chunk, ea_text *out) {
    ec_thrift t;
    ec_thrift_begin(&t, out);
    ec_thrift_list(&t, 1, EC_THRIFT_STRUCT, chunk->page_count); /* page_locations */
    for (size_t i = 0; i < chunk->page_count; i++) {
        ec_thrift_element(&t);
        ec_thrift_i64(&t, 1, (int64_t)chunk->pages[i].offset);
        ec_thrift_i32(&t, 2, (int32_t)chunk->pages[i].len_bytes);
        ec_thrift_i64(&t, 3, chunk->pages[i].first_row);
        ec_thrift_end(&t);
    }
    ec_thrift_end(&t);
}

void ec_parquet_write_index(ec_parquet_chunk *chunk, ea_text *out, uint64_t base) {
    int has_all = 1;
    for (size_t i = 0; i < chunk->page_count; i++)
        has_all &= chunk->pages[i].bounds.has_bounds || chunk->pages[i].nulls == chunk->pages[i].rows;
    size_t begin = out->len_bytes;
    if (has_all) {
        write_column_index(chunk, out);
        chunk->column_index_offset = base + begin;
        chunk->column_index_bytes = (uint32_t)(out->len_bytes - begin);
    }
    begin = out->len_bytes;
    write_offset_index(chunk, out);
    chunk->offset_index_offset = base + begin;
    chunk->offset_index_bytes = (uint32_t)(out->len_bytes - begin);
}
