/* See parquet.h: a column of a row group as pages: levels, values or places in a dictionary, compressed. */
#include "collector/columnar/parquet_parts.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    PAGE_ROWS = 1 << 15,
    PAGE_BYTES = 1 << 20,
    DICTIONARY_NUMBERS = 1 << 12,
    DICTIONARY_SLOTS = 4 * DICTIONARY_NUMBERS,
    RUN_MIN = 8,        /* equal values that are written as one */
    LITERALS_MAX = 512, /* values that one head of literals may have: its length takes one byte or two */
    PAGE_OF_DATA = 0,
    PAGE_OF_DICTIONARY = 2,
    ZSTD_LEVEL = 1,
};

int ec_parquet_work_init(ec_parquet_work *w, ea_err *err) {
    *w = (ec_parquet_work){.zstd = ZSTD_createCCtx()};
    ea_text_init(&w->body);
    ea_text_init(&w->packed);
    w->dictionary = malloc(DICTIONARY_NUMBERS * sizeof *w->dictionary);
    w->slots = malloc(DICTIONARY_SLOTS * sizeof *w->slots);
    w->levels = malloc(PAGE_ROWS * sizeof *w->levels);
    if (w->zstd && w->dictionary && w->slots && w->levels)
        return 0;
    ec_parquet_work_deinit(w);
    return ea_fail(err, EA_ENOMEM, "write a row group");
}

void ec_parquet_work_deinit(ec_parquet_work *w) {
    ZSTD_freeCCtx(w->zstd);
    free(w->codes);
    free(w->dictionary);
    free(w->slots);
    free(w->levels);
    free(w->marks);
    ea_text_deinit(&w->body);
    ea_text_deinit(&w->packed);
    *w = (ec_parquet_work){.zstd = NULL};
}

/* ---- runs and packed bits: "RLE/bit-packing hybrid" ---- */

static unsigned bits_for(uint32_t count) {
    unsigned bits = 0;
    while (bits < 32 && (count - 1) >> bits)
        bits++;
    return bits;
}

static void add_run(ea_text *out, uint32_t value, uint32_t count, unsigned bits) {
    ea_text_varint(out, (uint64_t)count << 1);
    for (unsigned i = 0; i < (bits + 7) / 8; i++)
        ea_text_char(out, (char)(value >> 8 * i));
}

/* count values (the last group of eight is filled up with zeros), each of `bits` bits. */
static void add_literals(ea_text *out, const uint32_t *codes, uint32_t count, unsigned bits) {
    uint8_t bytes[LITERALS_MAX * sizeof(uint32_t)];
    uint32_t groups = (count + 7) / 8;
    uint64_t held = 0;
    unsigned held_bits = 0;
    size_t n = 0;
    for (uint32_t i = 0; i < groups * 8; i++) {
        held |= (uint64_t)(i < count ? codes[i] : 0) << held_bits;
        for (held_bits += bits; held_bits >= 8; held_bits -= 8, held >>= 8)
            bytes[n++] = (uint8_t)held;
    }
    ea_text_varint(out, (uint64_t)groups << 1 | 1);
    ea_text_add(out, bytes, n);
}

static uint32_t run_length(const uint32_t *codes, uint32_t from, uint32_t to) {
    uint32_t i = from + 1;
    while (i < to && codes[i] == codes[from])
        i++;
    return i - from;
}

static void add_hybrid(ea_text *out, const uint32_t *codes, uint32_t count, unsigned bits) {
    uint32_t i = 0;
    while (i < count) {
        uint32_t run = run_length(codes, i, count), end = i;
        if (run >= RUN_MIN) {
            add_run(out, codes[i], run, bits);
            i += run;
            continue;
        }
        /* whole groups of eight, up to a run that begins where a group does */
        while (end < count && end - i < LITERALS_MAX &&
               (end == i || run_length(codes, end, end + RUN_MIN < count ? end + RUN_MIN : count) < RUN_MIN))
            end = end + RUN_MIN < count ? end + RUN_MIN : count;
        add_literals(out, codes + i, end - i, bits);
        i = end;
    }
}

/* Which rows have a value, with the length before it. */
static void add_levels(ea_text *out, const ec_column_buffer *b, uint32_t from, uint32_t rows, uint32_t *scratch) {
    size_t begin = out->len_bytes;
    ea_text_le32(out, 0);
    if (b->present) {
        for (uint32_t i = 0; i < rows; i++)
            scratch[i] = b->present[from + i];
        add_hybrid(out, scratch, rows, 1);
    } else {
        add_run(out, b->nulls == 0, rows, 1);
    }
    if (!out->failed)
        ea_store32((uint8_t *)out->data + begin, (uint32_t)(out->len_bytes - begin - 4));
}

/* ---- dictionaries ---- */

static uint32_t slot_of(uint64_t v) {
    return (uint32_t)((v * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (DICTIONARY_SLOTS - 1);
}

/* The distinct numbers and the place of each value among them: 1; 0 when there are too many for that to help. */
static int collect_numbers(ec_parquet_work *w, const ec_column_buffer *b) {
    uint32_t count = 0;
    memset(w->slots, 0, DICTIONARY_SLOTS * sizeof *w->slots);
    for (uint32_t i = 0; i < b->values; i++) {
        uint64_t v = b->numbers[i];
        uint32_t at = slot_of(v);
        while (w->slots[at] && w->dictionary[w->slots[at] - 1] != v)
            at = (at + 1) & (DICTIONARY_SLOTS - 1);
        if (!w->slots[at]) {
            if (count == DICTIONARY_NUMBERS || (count >= RUN_MIN && count > i / 2))
                return 0;
            w->dictionary[count] = v;
            w->slots[at] = ++count;
        }
        w->codes[i] = w->slots[at] - 1;
    }
    w->dictionary_count = count;
    return 1;
}

/* Whether the column gets a dictionary; then w->codes has the places of its values. */
static int choose_dictionary(ec_parquet_work *w, const ec_column_buffer *b, int *ret) {
    int is_text = !ec_file_column_bytes(b->column);
    *ret = 0;
    if (!b->values)
        return 0;
    if (EA_GROW(w->codes, w->code_capacity, b->values > PAGE_ROWS ? b->values : PAGE_ROWS, SIZE_MAX))
        return EA_ENOMEM;
    if (is_text) {
        *ret = b->is_dictionary && b->text_count <= b->values / 4 * 3 + 1;
        for (uint32_t i = 0; *ret && i < b->values; i++)
            w->codes[i] = (uint32_t)ec_column_number(b, i);
        w->dictionary_count = b->text_count;
    } else if (!b->numbers) {
        w->dictionary[0] = b->first;
        w->dictionary_count = 1;
        memset(w->codes, 0, b->values * sizeof *w->codes);
        *ret = 1;
    } else if (b->column->kind != EC_COLUMN_TIME) {
        *ret = collect_numbers(w, b);
    }
    return 0;
}

/* ---- pages ---- */

static void add_plain_number(ea_text *out, uint64_t v, unsigned width) {
    if (width == 4)
        ea_text_le32(out, (uint32_t)v);
    else
        ea_text_le64(out, v);
}

static void add_plain_text(ea_text *out, const ec_column_buffer *b, uint32_t text) {
    uint32_t n;
    const char *data = ec_column_text(b, text, &n);
    ea_text_le32(out, n);
    ea_text_add(out, data, n);
}

static uint32_t text_of_value(const ec_column_buffer *b, uint32_t value) {
    return b->is_dictionary ? (uint32_t)ec_column_number(b, value) : value;
}

static void add_plain(ea_text *out, const ec_column_buffer *b, uint32_t from, uint32_t to) {
    unsigned width = ec_file_column_bytes(b->column);
    if (!width) {
        for (uint32_t i = from; i < to; i++)
            add_plain_text(out, b, text_of_value(b, i));
        return;
    }
    uint8_t block[4096];
    for (uint32_t i = from; i < to;) {
        uint32_t n = (uint32_t)sizeof block / width;
        n = n < to - i ? n : to - i;
        for (uint32_t k = 0; k < n; k++) {
            if (width == 4)
                ea_store32(block + 4 * (size_t)k, (uint32_t)ec_column_number(b, i + k));
            else
                ea_store64(block + 8 * (size_t)k, ec_column_number(b, i + k));
        }
        ea_text_add(out, block, (size_t)n * width);
        i += n;
    }
}

/* Compresses the body, and appends it with its head. */
static int parquet_pages_add_page(ec_parquet_work *w, ec_parquet_chunk *chunk, int type, uint32_t values, int encoding,
                                  ea_text *out) {
    ec_thrift t;
    size_t bound = ZSTD_compressBound(w->body.len_bytes);
    if (w->body.failed || bound > INT32_MAX)
        return w->body.failed ? EA_ENOMEM : EA_ELIMIT;
    if (EA_GROW(w->packed.data, w->packed.capacity, bound, SIZE_MAX))
        return EA_ENOMEM;
    size_t n = ZSTD_compressCCtx(w->zstd, w->packed.data, bound, w->body.data ? w->body.data : "", w->body.len_bytes,
                                 ZSTD_LEVEL);
    if (ZSTD_isError(n))
        return EA_ENOMEM;
    size_t begin = out->len_bytes;
    ec_thrift_begin(&t, out);
    ec_thrift_i32(&t, 1, type);
    ec_thrift_i32(&t, 2, (int32_t)w->body.len_bytes);
    ec_thrift_i32(&t, 3, (int32_t)n);
    ec_thrift_struct(&t, type == PAGE_OF_DATA ? 5 : 7);
    ec_thrift_i32(&t, 1, (int32_t)values);
    ec_thrift_i32(&t, 2, encoding);
    if (type == PAGE_OF_DATA) {
        ec_thrift_i32(&t, 3, EC_PARQUET_RLE); /* of definition levels */
        ec_thrift_i32(&t, 4, EC_PARQUET_RLE); /* of repetition levels, which there are none of */
    }
    ec_thrift_end(&t);
    ec_thrift_end(&t);
    chunk->raw_bytes += out->len_bytes - begin + w->body.len_bytes;
    ea_text_add(out, w->packed.data, n);
    chunk->len_bytes += out->len_bytes - begin;
    return out->failed ? EA_ENOMEM : 0;
}

static int add_dictionary(ec_parquet_work *w, ec_parquet_chunk *chunk, ea_text *out) {
    const ec_column_buffer *b = chunk->buffer;
    unsigned width = ec_file_column_bytes(b->column);
    ea_text_clear(&w->body);
    for (uint32_t k = 0; k < w->dictionary_count; k++)
        if (width)
            add_plain_number(&w->body, w->dictionary[k], width);
        else
            add_plain_text(&w->body, b, k);
    return parquet_pages_add_page(w, chunk, PAGE_OF_DICTIONARY, w->dictionary_count, EC_PARQUET_PLAIN, out);
}

/* How many rows the next page gets; *ret_values: how many of them have a value. */
static uint32_t page_rows(const ec_parquet_chunk *chunk, uint32_t row, uint32_t value, uint32_t *ret_values) {
    const ec_column_buffer *b = chunk->buffer;
    int is_sized = !ec_file_column_bytes(b->column) && !chunk->has_dictionary;
    uint32_t rows = 0, values = 0;
    size_t bytes = 0;
    while (rows < PAGE_ROWS && row + rows < b->rows && bytes < PAGE_BYTES) {
        if (ec_column_is_present(b, row + rows)) {
            if (is_sized) {
                uint32_t n;
                ec_column_text(b, text_of_value(b, value + values), &n);
                bytes += n + sizeof n;
            }
            values++;
        }
        rows++;
    }
    *ret_values = values;
    return rows;
}

static int add_data_page(ec_parquet_work *w, ec_parquet_chunk *chunk, uint32_t row, uint32_t rows, uint32_t value,
                         uint32_t values, ea_text *out, uint64_t base) {
    const ec_column_buffer *b = chunk->buffer;
    if (EA_GROW(chunk->pages, chunk->page_capacity, chunk->page_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    ec_parquet_page *page = &chunk->pages[chunk->page_count++];
    *page = (ec_parquet_page){.offset = base + out->len_bytes, .first_row = row, .rows = rows, .nulls = rows - values};
    int rc = ec_parquet_find_bounds(w, b, value, value + values, &page->bounds);
    ea_text_clear(&w->body);
    if (b->column->is_optional)
        add_levels(&w->body, b, row, rows, w->levels);
    if (chunk->has_dictionary) {
        unsigned bits = bits_for(w->dictionary_count);
        ea_text_char(&w->body, (char)bits);
        if (bits)
            add_hybrid(&w->body, w->codes + value, values, bits);
        else if (values)
            add_run(&w->body, 0, values, 0);
    } else {
        add_plain(&w->body, b, value, value + values);
    }
    if (!rc)
        rc = parquet_pages_add_page(w, chunk, PAGE_OF_DATA, rows,
                                    chunk->has_dictionary ? EC_PARQUET_RLE_DICTIONARY : EC_PARQUET_PLAIN, out);
    page->len_bytes = (uint32_t)(base + out->len_bytes - page->offset);
    return rc;
}

/* What bounds the whole column: nothing, when a page has values that nothing bounds. */
static void bound_chunk(ec_parquet_chunk *chunk) {
    int is_real = chunk->buffer->column->kind == EC_COLUMN_REAL, has_all = 1;
    for (size_t i = 0; i < chunk->page_count; i++) {
        const ec_parquet_page *page = &chunk->pages[i];
        has_all &= page->bounds.has_bounds || page->nulls == page->rows || is_real;
        ec_parquet_join_bounds(chunk->buffer, &chunk->bounds, &page->bounds);
    }
    chunk->bounds.has_bounds &= has_all;
}

int ec_parquet_write_pages(ec_parquet_work *w, ec_parquet_chunk *chunk, const ec_column_buffer *b, ea_text *out,
                           uint64_t base, ea_err *err) {
    uint32_t value = 0;
    *chunk = (ec_parquet_chunk){.buffer = b};
    int rc = choose_dictionary(w, b, &chunk->has_dictionary);
    chunk->dictionary_offset = base + out->len_bytes;
    if (!rc && chunk->has_dictionary)
        rc = add_dictionary(w, chunk, out);
    chunk->data_offset = base + out->len_bytes;
    for (uint32_t row = 0; !rc && row < b->rows;) {
        uint32_t values, rows = page_rows(chunk, row, value, &values);
        rc = add_data_page(w, chunk, row, rows, value, values, out, base);
        row += rows;
        value += values;
    }
    if (rc)
        return ea_fail(err, rc, "write the column %.200s", b->column->name);
    bound_chunk(chunk);
    return 0;
}
