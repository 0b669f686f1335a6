/* See parquet.h: the file, its row groups and its metadata. */
#include "collector/columnar/parquet.h"

#include "collector/columnar/column_file.h"
#include "collector/columnar/parquet_parts.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[] = {'P', 'A', 'R', '1'};

enum { CODEC_ZSTD = 6, FORMAT_VERSION = 2, ORDINAL_MAX = INT16_MAX };

enum parquet_type { TYPE_INT32 = 1, TYPE_INT64 = 2, TYPE_DOUBLE = 5, TYPE_BYTE_ARRAY = 6 };

/* Members of the union LogicalType, and values of the enumeration ConvertedType. */
enum { LOGICAL_STRING = 1, LOGICAL_TIMESTAMP = 8, LOGICAL_INTEGER = 10, UNIT_NANOS = 3 };

enum { CONVERTED_UTF8 = 0, CONVERTED_UINT_8 = 11, CONVERTED_INT_8 = 15 };

struct ec_parquet {
    ec_column_file file;
    ec_column_file_options o;
    ea_text groups; /* their metadata */
    uint32_t group_count;
    uint64_t rows;
    int is_broken, is_finished;
};

int ec_parquet_create(ec_parquet **ret, const char *path, const ec_column_file_options *options, ea_err *err) {
    ec_parquet *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "write %.500s", path);
    p->o = *options;
    ea_text_init(&p->groups);
    int rc = ec_column_file_make(&p->file, path, options->replaces, err);
    if (!rc)
        rc = ec_column_file_add(&p->file, MAGIC, sizeof MAGIC, err);
    if (rc) {
        ec_parquet_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

static enum parquet_type parquet_type_of(const ec_file_column *c) {
    switch (ec_file_column_bytes(c)) {
    case 4:
        return TYPE_INT32;
    case 8:
        return c->kind == EC_COLUMN_REAL ? TYPE_DOUBLE : TYPE_INT64;
    default:
        return TYPE_BYTE_ARRAY;
    }
}

/* ---- row groups ---- */

static void parquet_add_bound(ec_thrift *t, int16_t field, const ec_column_buffer *b, uint64_t bound) {
    uint8_t scratch[8];
    size_t n;
    const void *data = ec_parquet_bound(b, bound, scratch, &n);
    ec_thrift_binary(t, field, data, n);
}

static void add_chunk(ec_thrift *t, const ec_parquet_chunk *chunk) {
    const ec_column_buffer *b = chunk->buffer;
    const ec_file_column *c = b->column;
    ec_thrift_element(t);   /* ColumnChunk */
    ec_thrift_i64(t, 2, 0); /* file_offset: not used */
    ec_thrift_struct(t, 3); /* ColumnMetaData */
    ec_thrift_i32(t, 1, (int32_t)parquet_type_of(c));
    ec_thrift_list(t, 2, EC_THRIFT_I32, chunk->has_dictionary ? 3 : 2); /* encodings */
    ec_thrift_element_int(t, EC_PARQUET_PLAIN);
    ec_thrift_element_int(t, EC_PARQUET_RLE);
    if (chunk->has_dictionary)
        ec_thrift_element_int(t, EC_PARQUET_RLE_DICTIONARY);
    ec_thrift_list(t, 3, EC_THRIFT_BINARY, 1); /* path_in_schema */
    ec_thrift_element_binary(t, c->name, strlen(c->name));
    ec_thrift_i32(t, 4, CODEC_ZSTD);
    ec_thrift_i64(t, 5, b->rows);
    ec_thrift_i64(t, 6, (int64_t)chunk->raw_bytes);
    ec_thrift_i64(t, 7, (int64_t)chunk->len_bytes);
    ec_thrift_i64(t, 9, (int64_t)chunk->data_offset);
    if (chunk->has_dictionary)
        ec_thrift_i64(t, 11, (int64_t)chunk->dictionary_offset);
    ec_thrift_struct(t, 12); /* Statistics */
    ec_thrift_i64(t, 3, b->nulls);
    if (chunk->bounds.has_bounds) {
        parquet_add_bound(t, 5, b, chunk->bounds.greatest);
        parquet_add_bound(t, 6, b, chunk->bounds.least);
    }
    ec_thrift_end(t);
    ec_thrift_end(t);
    ec_thrift_i64(t, 4, (int64_t)chunk->offset_index_offset);
    ec_thrift_i32(t, 5, (int32_t)chunk->offset_index_bytes);
    if (chunk->column_index_bytes) {
        ec_thrift_i64(t, 6, (int64_t)chunk->column_index_offset);
        ec_thrift_i32(t, 7, (int32_t)chunk->column_index_bytes);
    }
    ec_thrift_end(t);
}

/* The columns of a row group, one after the other, each written to the file before the next one is made. */
static int add_columns(ec_parquet *p, const ec_column_buffer *buffers, ec_thrift *t, uint64_t *raw_bytes,
                       uint64_t *len_bytes, ea_err *err) {
    enum { FLUSH_BYTES = 4 << 20 };

    ec_parquet_work work;
    ea_text out;
    ea_text_init(&out);
    int rc = ec_parquet_work_init(&work, err);
    for (uint32_t i = 0; !rc && i < p->o.column_count; i++) {
        ec_parquet_chunk chunk = {0};
        rc = ec_parquet_write_pages(&work, &chunk, &buffers[i], &out, p->file.len_bytes, err);
        if (!rc) {
            ec_parquet_write_index(&chunk, &out, p->file.len_bytes);
            add_chunk(t, &chunk);
            *raw_bytes += chunk.raw_bytes;
            *len_bytes += chunk.len_bytes;
        }
        free(chunk.pages);
        if (!rc && (out.failed || t->out->failed))
            rc = ea_fail(err, EA_ENOMEM, "write %.500s", p->file.path.data);
        if (!rc && (out.len_bytes >= FLUSH_BYTES || i + 1 == p->o.column_count)) {
            rc = ec_column_file_add(&p->file, out.data, out.len_bytes, err);
            ea_text_clear(&out);
        }
    }
    ec_parquet_work_deinit(&work);
    ea_text_deinit(&out);
    return rc;
}

int ec_parquet_add(ec_parquet *p, const ec_column_buffer *buffers, ea_err *err) {
    uint64_t begin = p->file.len_bytes, raw_bytes = 0, len_bytes = 0;
    uint32_t rows = p->o.column_count ? buffers[0].rows : 0;
    ec_thrift t;
    int rc = rows && !p->is_broken && !p->is_finished
                 ? 0
                 : ea_fail(err, EA_EINVAL, "write %.500s: no rows, or the file has failed", p->file.path.data);
    for (uint32_t i = 0; !rc && i < p->o.column_count; i++)
        if (buffers[i].rows != rows)
            rc = ea_fail(err, EA_EINVAL, "write %.500s: column %.200s has %u rows, expected %u", p->file.path.data,
                         p->o.columns[i].name, buffers[i].rows, rows);
    ec_thrift_begin(&t, &p->groups); /* RowGroup */
    if (!rc) {
        ec_thrift_list(&t, 1, EC_THRIFT_STRUCT, p->o.column_count);
        rc = add_columns(p, buffers, &t, &raw_bytes, &len_bytes, err);
    }
    if (rc) {
        p->is_broken = 1;
        return rc;
    }
    ec_thrift_i64(&t, 2, (int64_t)raw_bytes);
    ec_thrift_i64(&t, 3, rows);
    ec_thrift_i64(&t, 5, (int64_t)begin);
    ec_thrift_i64(&t, 6, (int64_t)len_bytes);
    if (p->group_count <= ORDINAL_MAX)
        ec_thrift_i16(&t, 7, (int16_t)p->group_count);
    ec_thrift_end(&t);
    p->group_count++;
    p->rows += rows;
    return 0;
}

/* ---- the end of the file ---- */

static void add_logical_type(ec_thrift *t, const ec_file_column *c) {
    int bits = c->bits > 32 ? 3 : c->bits > 16 ? 2 : c->bits > 8; /* steps after the converted type of 8 bits */
    int is_whole = c->kind == EC_COLUMN_SIGNED || c->kind == EC_COLUMN_UNSIGNED;
    if (is_whole)
        ec_thrift_i32(t, 6, (c->kind == EC_COLUMN_SIGNED ? CONVERTED_INT_8 : CONVERTED_UINT_8) + bits);
    else if (c->kind == EC_COLUMN_TEXT)
        ec_thrift_i32(t, 6, CONVERTED_UTF8);
    if (is_whole || c->kind == EC_COLUMN_TEXT || c->kind == EC_COLUMN_TIME)
        ec_thrift_struct(t, 10);
    if (is_whole) {
        ec_thrift_struct(t, LOGICAL_INTEGER);
        ec_thrift_i8(t, 1, (int8_t)(8 << bits));
        ec_thrift_bool(t, 2, c->kind == EC_COLUMN_SIGNED);
    } else if (c->kind == EC_COLUMN_TEXT) {
        ec_thrift_struct(t, LOGICAL_STRING);
    } else if (c->kind == EC_COLUMN_TIME) {
        ec_thrift_struct(t, LOGICAL_TIMESTAMP);
        ec_thrift_bool(t, 1, 1); /* of UTC */
        ec_thrift_struct(t, 2);
        ec_thrift_struct(t, UNIT_NANOS);
        ec_thrift_end(t);
        ec_thrift_end(t);
    } else {
        return;
    }
    ec_thrift_end(t);
    ec_thrift_end(t);
}

static void add_schema(ec_thrift *t, const ec_column_file_options *o) {
    ec_thrift_list(t, 2, EC_THRIFT_STRUCT, (size_t)o->column_count + 1);
    ec_thrift_element(t);
    ec_thrift_string(t, 4, "schema");
    ec_thrift_i32(t, 5, (int32_t)o->column_count);
    ec_thrift_end(t);
    for (uint32_t i = 0; i < o->column_count; i++) {
        const ec_file_column *c = &o->columns[i];
        ec_thrift_element(t);
        ec_thrift_i32(t, 1, (int32_t)parquet_type_of(c));
        ec_thrift_i32(t, 3, c->is_optional); /* REQUIRED, OPTIONAL */
        ec_thrift_string(t, 4, c->name);
        add_logical_type(t, c);
        ec_thrift_end(t);
    }
}

static void add_file_metadata(const ec_parquet *p, ea_text *out) {
    const ec_column_file_options *o = &p->o;
    ec_thrift t;
    ec_thrift_begin(&t, out);
    ec_thrift_i32(&t, 1, FORMAT_VERSION);
    add_schema(&t, o);
    ec_thrift_i64(&t, 3, (int64_t)p->rows);
    ec_thrift_list(&t, 4, EC_THRIFT_STRUCT, p->group_count);
    ea_text_add(out, p->groups.data, p->groups.len_bytes);
    ec_thrift_list(&t, 5, EC_THRIFT_STRUCT, o->label_count); /* key_value_metadata */
    for (size_t i = 0; i < o->label_count; i++) {
        ec_thrift_element(&t);
        ec_thrift_string(&t, 1, o->labels[i].name);
        ec_thrift_string(&t, 2, o->labels[i].value);
        ec_thrift_end(&t);
    }
    ec_thrift_string(&t, 6, o->created_by);
    ec_thrift_list(&t, 7, EC_THRIFT_STRUCT, o->column_count); /* column_orders: as the types define them */
    for (uint32_t i = 0; i < o->column_count; i++) {
        ec_thrift_element(&t);
        ec_thrift_struct(&t, 1);
        ec_thrift_end(&t);
        ec_thrift_end(&t);
    }
    ec_thrift_end(&t);
}

int ec_parquet_finish(ec_parquet *p, ea_err *err) {
    ea_text out;
    if (p->is_broken || p->is_finished)
        return ea_fail(err, EA_EINVAL, "write %.500s: the file has failed", p->file.path.data);
    ea_text_init(&out);
    add_file_metadata(p, &out);
    size_t n = out.len_bytes;
    ea_text_le32(&out, (uint32_t)n);
    ea_text_add(&out, MAGIC, sizeof MAGIC);
    int rc = out.failed || p->groups.failed ? ea_fail(err, EA_ENOMEM, "write %.500s", p->file.path.data) : 0;
    if (!rc && n > INT32_MAX)
        rc = ea_fail(err, EA_ELIMIT, "write %.500s: its metadata would have %zu bytes", p->file.path.data, n);
    if (!rc)
        rc = ec_column_file_add(&p->file, out.data, out.len_bytes, err);
    ea_text_deinit(&out);
    p->is_broken = rc != 0;
    p->is_finished = !rc;
    return rc;
}

int ec_parquet_publish(ec_parquet *p, ea_err *err) {
    if (!p->is_finished)
        return ea_fail(err, EA_EINVAL, "write %.500s: the file is not whole", p->file.path.data);
    return ec_column_file_publish(&p->file, err);
}

uint64_t ec_parquet_rows(const ec_parquet *p) {
    return p->rows;
}

uint64_t ec_parquet_bytes(const ec_parquet *p) {
    return p->file.len_bytes;
}

void ec_parquet_destroy(ec_parquet *p) {
    if (!p)
        return;
    ec_column_file_deinit(&p->file);
    ea_text_deinit(&p->groups);
    free(p);
}
