/* Inside collector/columnar: what the parts of a Parquet writer share. parquet.c: the file and its metadata.
 * parquet_pages.c: a column of a row group as pages. parquet_index.c: the bounds of values, and the page index. See
 * parquet.h. */
#ifndef EC_COLUMNAR_PARQUET_PARTS_H
#define EC_COLUMNAR_PARQUET_PARTS_H

#include "collector/columnar/column_buffer.h"
#include "collector/columnar/thrift.h"

enum {
    EC_PARQUET_PLAIN = 0, /* encodings */
    EC_PARQUET_RLE = 3,
    EC_PARQUET_RLE_DICTIONARY = 8,
    EC_PARQUET_BOUND_MAX_BYTES = 64, /* a longer text is no bound in the statistics */
};

/* The least and greatest of some values of a buffer: numbers, or places among its texts. */
typedef struct ec_parquet_bounds {
    int has_bounds; /* 0: there is no value, or none that may be a bound */
    uint64_t least, greatest;
} ec_parquet_bounds;

typedef struct ec_parquet_page {
    uint64_t offset; /* in the file */
    uint32_t len_bytes, first_row, rows, nulls;
    ec_parquet_bounds bounds;
} ec_parquet_page;

/* A column of a row group, as it has been written. */
typedef struct ec_parquet_chunk {
    const ec_column_buffer *buffer;
    int has_dictionary;
    uint64_t dictionary_offset, data_offset;
    uint64_t len_bytes, raw_bytes; /* of its pages with their heads */
    ec_parquet_page *pages;
    size_t page_count, page_capacity;
    ec_parquet_bounds bounds;
    uint64_t column_index_offset, offset_index_offset;
    uint32_t column_index_bytes, offset_index_bytes; /* 0: there is none */
} ec_parquet_chunk;

/* What is needed while columns are written, one after the other. */
typedef struct ec_parquet_work {
    ea_text body, packed; /* of a page */
    uint32_t *codes;      /* the place of each value in the dictionary */
    size_t code_capacity;
    uint64_t *dictionary; /* of numbers */
    uint32_t *slots;
    uint32_t dictionary_count;
    uint32_t *levels; /* of a page's rows */
    uint8_t *marks;   /* of texts */
    size_t mark_capacity;
    void *zstd;
} ec_parquet_work;

EA_MUST_CHECK int ec_parquet_work_init(ec_parquet_work *w, ea_err *err);
void ec_parquet_work_deinit(ec_parquet_work *w);

/* Appends a buffer's pages to out, whose first byte is at base in the file. chunk->pages: freed by the caller. */
EA_MUST_CHECK int ec_parquet_write_pages(ec_parquet_work *w, ec_parquet_chunk *chunk, const ec_column_buffer *b,
                                         ea_text *out, uint64_t base, ea_err *err);

/* The bounds of the values [from, to). */
EA_MUST_CHECK int ec_parquet_find_bounds(ec_parquet_work *w, const ec_column_buffer *b, uint32_t from, uint32_t to,
                                         ec_parquet_bounds *ret);
/* Makes a the bounds of the values of both. */
void ec_parquet_join_bounds(const ec_column_buffer *b, ec_parquet_bounds *a, const ec_parquet_bounds *other);
/* A bound as the metadata has it: *ret_len_bytes bytes, at most EC_PARQUET_BOUND_MAX_BYTES. */
const void *ec_parquet_bound(const ec_column_buffer *b, uint64_t bound, uint8_t scratch[8], size_t *ret_len_bytes);
/* Appends the page index of a chunk to out, and says in the chunk where it is. */
void ec_parquet_write_index(ec_parquet_chunk *chunk, ea_text *out, uint64_t base);

#endif
