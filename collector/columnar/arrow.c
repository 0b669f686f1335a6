/* See arrow.h. */
#include "collector/columnar/arrow.h"

#include "collector/columnar/flatbuffer.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

static const char ARROW_MAGIC[] = {'A', 'R', 'R', 'O', 'W', '1', 0, 0};

enum {
    MAGIC_BYTES = 6, /* at the end; filled up to 8 at the begin */
    BATCH_TEXT_BYTES = 64 << 20,
    METADATA_V5 = 4,
    HEADER_SCHEMA = 1,
    HEADER_RECORD_BATCH = 3,
    TYPE_INT = 2,
    TYPE_REAL = 3,
    TYPE_BINARY = 4,
    TYPE_UTF8 = 5,
    TYPE_TIMESTAMP = 10,
    PRECISION_DOUBLE = 2,
    UNIT_NANOSECOND = 3,
    BLOCK_NUMBERS = 3,  /* of a batch in the footer: offset, bytes of its metadata, bytes of its body */
    COLUMN_BUFFERS = 3, /* most that a column has: which rows are there, offsets, values */
};

struct ec_arrow {
    ec_column_file file;
    ec_column_file_options o;
    int64_t *blocks;
    size_t block_count, block_capacity;
    uint64_t rows;
    int is_broken, is_finished;
};

/* ---- the schema ---- */

static uint32_t add_type(ec_flatbuffer *f, const ec_file_column *c, unsigned *ret_type) {
    uint32_t zone = c->kind == EC_COLUMN_TIME ? ec_flatbuffer_string(f, "UTC") : 0;
    ec_flatbuffer_table(f);
    switch (c->kind) {
    case EC_COLUMN_SIGNED:
    case EC_COLUMN_UNSIGNED:
        *ret_type = TYPE_INT;
        ec_flatbuffer_number(f, 0, c->bits, 4);
        ec_flatbuffer_number(f, 1, c->kind == EC_COLUMN_SIGNED, 1);
        break;
    case EC_COLUMN_REAL:
        *ret_type = TYPE_REAL;
        ec_flatbuffer_number(f, 0, PRECISION_DOUBLE, 2);
        break;
    case EC_COLUMN_TIME:
        *ret_type = TYPE_TIMESTAMP;
        ec_flatbuffer_place(f, 1, zone);
        ec_flatbuffer_number(f, 0, UNIT_NANOSECOND, 2);
        break;
    case EC_COLUMN_TEXT:
        *ret_type = TYPE_UTF8;
        break;
    default:
        *ret_type = TYPE_BINARY;
        break;
    }
    return ec_flatbuffer_end(f);
}

static uint32_t add_field_of(ec_flatbuffer *f, const ec_file_column *c) {
    unsigned type = 0;
    uint32_t name = ec_flatbuffer_string(f, c->name), children = ec_flatbuffer_places(f, NULL, 0);
    uint32_t of = add_type(f, c, &type);
    ec_flatbuffer_table(f);
    ec_flatbuffer_place(f, 0, name);
    ec_flatbuffer_place(f, 3, of);
    ec_flatbuffer_place(f, 5, children);
    ec_flatbuffer_number(f, 1, c->is_optional, 1);
    ec_flatbuffer_number(f, 2, type, 1);
    return ec_flatbuffer_end(f);
}

static uint32_t arrow_add_labels(ec_flatbuffer *f, const ec_column_file_options *o, uint32_t *places) {
    for (size_t i = 0; i < o->label_count; i++) {
        uint32_t key = ec_flatbuffer_string(f, o->labels[i].name), value = ec_flatbuffer_string(f, o->labels[i].value);
        ec_flatbuffer_table(f);
        ec_flatbuffer_place(f, 0, key);
        ec_flatbuffer_place(f, 1, value);
        places[i] = ec_flatbuffer_end(f);
    }
    return ec_flatbuffer_places(f, places, o->label_count);
}

/* The table Schema; places: room for a place of each column, and of each label. */
static uint32_t add_arrow_schema(ec_flatbuffer *f, const ec_column_file_options *o, uint32_t *places) {
    uint32_t labels = arrow_add_labels(f, o, places);
    for (uint32_t i = 0; i < o->column_count; i++)
        places[i] = add_field_of(f, &o->columns[i]);
    uint32_t fields = ec_flatbuffer_places(f, places, o->column_count);
    ec_flatbuffer_table(f);
    ec_flatbuffer_place(f, 1, fields);
    ec_flatbuffer_place(f, 2, labels);
    ec_flatbuffer_number(f, 0, 0, 2); /* little-endian */
    return ec_flatbuffer_end(f);
}

/* ---- messages ---- */

/* A message whose header is a table; *ret_bytes: with the length before it, a multiple of 8. */
static int arrow_add_message(ec_arrow *a, ec_flatbuffer *f, unsigned type, uint32_t header, const ea_text *body,
                             int64_t *ret_bytes, ea_err *err) {
    ea_text head;
    size_t n = 0;
    ec_flatbuffer_table(f);
    ec_flatbuffer_number(f, 3, body ? body->len_bytes : 0, 8);
    ec_flatbuffer_place(f, 2, header);
    ec_flatbuffer_number(f, 0, METADATA_V5, 2);
    ec_flatbuffer_number(f, 1, type, 1);
    uint32_t root = ec_flatbuffer_end(f);
    const uint8_t *data = ec_flatbuffer_finish(f, root, &n);
    ea_text_init(&head);
    ea_text_le32(&head, UINT32_MAX);
    ea_text_le32(&head, (uint32_t)n);
    if (data)
        ea_text_add(&head, data, n);
    int rc = !data || head.failed ? ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data) : 0;
    *ret_bytes = (int64_t)head.len_bytes;
    if (!rc)
        rc = ec_column_file_add(&a->file, head.data, head.len_bytes, err);
    if (!rc && body && body->len_bytes)
        rc = ec_column_file_add(&a->file, body->data, body->len_bytes, err);
    ea_text_deinit(&head);
    return rc;
}

static uint32_t *make_places(const ec_column_file_options *o) {
    size_t most = o->column_count > o->label_count ? o->column_count : o->label_count;
    return calloc(most + 1, sizeof(uint32_t));
}

static int add_schema_message(ec_arrow *a, ea_err *err) {
    ec_flatbuffer f;
    int64_t bytes;
    uint32_t *places = make_places(&a->o);
    if (!places)
        return ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data);
    ec_flatbuffer_init(&f);
    int rc = arrow_add_message(a, &f, HEADER_SCHEMA, add_arrow_schema(&f, &a->o, places), NULL, &bytes, err);
    ec_flatbuffer_deinit(&f);
    free(places);
    return rc;
}

int ec_arrow_create(ec_arrow **ret, const char *path, const ec_column_file_options *options, ea_err *err) {
    ec_arrow *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "write %.500s", path);
    a->o = *options;
    int rc = ec_column_file_make(&a->file, path, options->replaces, err);
    if (!rc)
        rc = ec_column_file_add(&a->file, ARROW_MAGIC, sizeof ARROW_MAGIC, err);
    if (!rc)
        rc = add_schema_message(a, err);
    if (rc) {
        ec_arrow_destroy(a);
        return rc;
    }
    *ret = a;
    return 0;
}

/* ---- record batches ---- */

/* A part of the rows of all buffers. */
typedef struct arrow_part {
    const ec_column_buffer *buffers;
    uint32_t column_count;
    uint32_t row, rows;
    uint32_t *value; /* of each column: the first value of the part */
    ea_text body;
    int64_t *nodes, *bodies; /* pairs: rows and NULLs; offset and bytes */
    size_t body_count;
} arrow_part;

static void end_buffer(arrow_part *p, size_t begin) {
    static const char ZEROS[8];
    p->bodies[2 * p->body_count] = (int64_t)begin;
    p->bodies[2 * p->body_count + 1] = (int64_t)(p->body.len_bytes - begin);
    p->body_count++;
    ea_text_add(&p->body, ZEROS, (8 - p->body.len_bytes % 8) % 8);
}

static uint32_t text_of(const ec_column_buffer *b, uint32_t value) {
    return b->is_dictionary ? (uint32_t)ec_column_number(b, value) : value;
}

/* How many rows the part has: as many as BATCH_TEXT_BYTES of texts allow, at least one. values: room for a number of
 * each column. */
static void measure_part(arrow_part *p, uint32_t *values) {
    uint64_t bytes = 0;
    uint32_t left = p->buffers[0].rows - p->row, rows = 0;
    memcpy(values, p->value, p->column_count * sizeof *values);
    for (; rows < left && (!rows || bytes <= BATCH_TEXT_BYTES); rows++)
        for (uint32_t i = 0; i < p->column_count; i++) {
            const ec_column_buffer *b = &p->buffers[i];
            uint32_t n = 0;
            if (ec_file_column_bytes(b->column) || !ec_column_is_present(b, p->row + rows))
                continue;
            ec_column_text(b, text_of(b, values[i]++), &n);
            bytes += n;
        }
    p->rows = rows;
}

/* Which rows have a value, a bit each; nothing when all have one. Returns the number of NULLs. */
static uint32_t add_validity(arrow_part *p, const ec_column_buffer *b) {
    uint32_t nulls = 0;
    size_t begin = p->body.len_bytes;
    for (uint32_t i = 0; i < p->rows; i++)
        nulls += !ec_column_is_present(b, p->row + i);
    for (uint32_t i = 0; nulls && i < p->rows; i += 8) {
        unsigned bits = 0;
        for (uint32_t k = 0; k < 8 && i + k < p->rows; k++)
            bits |= (unsigned)ec_column_is_present(b, p->row + i + k) << k;
        ea_text_char(&p->body, (char)bits);
    }
    end_buffer(p, begin);
    return nulls;
}

static void arrow_add_numbers(arrow_part *p, const ec_column_buffer *b, uint32_t *value) {
    const ec_file_column *c = b->column;
    unsigned bytes = c->kind == EC_COLUMN_SIGNED || c->kind == EC_COLUMN_UNSIGNED ? c->bits / 8u : 8;
    size_t begin = p->body.len_bytes;
    uint8_t block[4096];
    size_t n = 0;
    for (uint32_t i = 0; i < p->rows; i++) {
        uint64_t v = ec_column_is_present(b, p->row + i) ? ec_column_number(b, (*value)++) : 0;
        for (unsigned k = 0; k < bytes; k++)
            block[n++] = (uint8_t)(v >> 8 * k);
        if (n == sizeof block) {
            ea_text_add(&p->body, block, n);
            n = 0;
        }
    }
    ea_text_add(&p->body, block, n);
    end_buffer(p, begin);
}

static void arrow_add_texts(arrow_part *p, const ec_column_buffer *b, uint32_t *value) {
    size_t begin = p->body.len_bytes;
    uint32_t first = *value, end = 0, n;
    ea_text_le32(&p->body, 0);
    for (uint32_t i = 0; i < p->rows; i++) {
        if (ec_column_is_present(b, p->row + i)) {
            ec_column_text(b, text_of(b, (*value)++), &n);
            end += n;
        }
        ea_text_le32(&p->body, end);
    }
    end_buffer(p, begin);
    begin = p->body.len_bytes;
    for (uint32_t i = first; i < *value; i++) {
        const char *text = ec_column_text(b, text_of(b, i), &n);
        ea_text_add(&p->body, text, n);
    }
    end_buffer(p, begin);
}

/* Writes the part as a record batch, and moves on. */
static int add_part(ec_arrow *a, arrow_part *p, ec_flatbuffer *f, ea_err *err) {
    ea_text_clear(&p->body);
    p->body_count = 0;
    for (uint32_t i = 0; i < p->column_count; i++) {
        const ec_column_buffer *b = &p->buffers[i];
        p->nodes[2 * (size_t)i] = p->rows;
        p->nodes[2 * (size_t)i + 1] = add_validity(p, b);
        if (ec_file_column_bytes(b->column))
            arrow_add_numbers(p, b, &p->value[i]);
        else
            arrow_add_texts(p, b, &p->value[i]);
    }
    if (p->body.failed || EA_GROW(a->blocks, a->block_capacity, (a->block_count + 1) * BLOCK_NUMBERS, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data);
    ec_flatbuffer_clear(f);
    uint32_t bodies = ec_flatbuffer_structs(f, p->bodies, p->body_count, 2);
    uint32_t nodes = ec_flatbuffer_structs(f, p->nodes, p->column_count, 2);
    ec_flatbuffer_table(f);
    ec_flatbuffer_number(f, 0, p->rows, 8);
    ec_flatbuffer_place(f, 1, nodes);
    ec_flatbuffer_place(f, 2, bodies);
    int64_t *block = &a->blocks[a->block_count * BLOCK_NUMBERS];
    block[0] = (int64_t)a->file.len_bytes;
    block[2] = (int64_t)p->body.len_bytes;
    int rc = arrow_add_message(a, f, HEADER_RECORD_BATCH, ec_flatbuffer_end(f), &p->body, &block[1], err);
    a->block_count += !rc;
    a->rows += rc ? 0 : p->rows;
    p->row += p->rows;
    return rc;
}

int ec_arrow_add(ec_arrow *a, const ec_column_buffer *buffers, ea_err *err) {
    uint32_t n = a->o.column_count, rows = n ? buffers[0].rows : 0;
    arrow_part p = {.buffers = buffers, .column_count = n};
    ec_flatbuffer f;
    int rc = rows && !a->is_broken && !a->is_finished
                 ? 0
                 : ea_fail(err, EA_EINVAL, "write %.500s: no rows, or the file has failed", a->file.path.data);
    for (uint32_t i = 0; !rc && i < n; i++)
        if (buffers[i].rows != rows)
            rc = ea_fail(err, EA_EINVAL, "write %.500s: column %.200s has %u rows, expected %u", a->file.path.data,
                         a->o.columns[i].name, buffers[i].rows, rows);
    if (rc)
        return rc;
    ec_flatbuffer_init(&f);
    ea_text_init(&p.body);
    p.value = calloc((size_t)n + 1, sizeof *p.value);
    p.nodes = calloc((size_t)n + 1, 2 * sizeof *p.nodes);
    p.bodies = calloc((size_t)n + 1, 2 * COLUMN_BUFFERS * sizeof *p.bodies);
    uint32_t *values = calloc((size_t)n + 1, sizeof *values);
    if (!p.value || !p.nodes || !p.bodies || !values)
        rc = ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data);
    while (!rc && p.row < rows) {
        measure_part(&p, values);
        rc = add_part(a, &p, &f, err);
    }
    a->is_broken |= rc != 0;
    free(p.value);
    free(p.nodes);
    free(p.bodies);
    free(values);
    ea_text_deinit(&p.body);
    ec_flatbuffer_deinit(&f);
    return rc;
}

/* ---- the end of the file ---- */

static int add_footer(ec_arrow *a, ec_flatbuffer *f, uint32_t *places, ea_err *err) {
    ea_text out;
    size_t n = 0;
    uint32_t blocks = ec_flatbuffer_structs(f, a->blocks, a->block_count, BLOCK_NUMBERS);
    uint32_t none = ec_flatbuffer_structs(f, NULL, 0, BLOCK_NUMBERS);
    uint32_t schema = add_arrow_schema(f, &a->o, places);
    ec_flatbuffer_table(f);
    ec_flatbuffer_place(f, 1, schema);
    ec_flatbuffer_place(f, 2, none); /* dictionaries */
    ec_flatbuffer_place(f, 3, blocks);
    ec_flatbuffer_number(f, 0, METADATA_V5, 2);
    uint32_t root = ec_flatbuffer_end(f);
    const uint8_t *data = ec_flatbuffer_finish(f, root, &n);
    ea_text_init(&out);
    ea_text_le32(&out, UINT32_MAX); /* the end of the messages */
    ea_text_le32(&out, 0);
    if (data)
        ea_text_add(&out, data, n);
    ea_text_le32(&out, (uint32_t)n);
    ea_text_add(&out, ARROW_MAGIC, MAGIC_BYTES);
    int rc = !data || out.failed ? ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data)
                                 : ec_column_file_add(&a->file, out.data, out.len_bytes, err);
    ea_text_deinit(&out);
    return rc;
}

int ec_arrow_finish(ec_arrow *a, ea_err *err) {
    ec_flatbuffer f;
    if (a->is_broken || a->is_finished)
        return ea_fail(err, EA_EINVAL, "write %.500s: the file has failed", a->file.path.data);
    uint32_t *places = make_places(&a->o);
    if (!places)
        return ea_fail(err, EA_ENOMEM, "write %.500s", a->file.path.data);
    ec_flatbuffer_init(&f);
    int rc = add_footer(a, &f, places, err);
    ec_flatbuffer_deinit(&f);
    free(places);
    a->is_broken = rc != 0;
    a->is_finished = !rc;
    return rc;
}

int ec_arrow_publish(ec_arrow *a, ea_err *err) {
    if (!a->is_finished)
        return ea_fail(err, EA_EINVAL, "write %.500s: the file is not whole", a->file.path.data);
    return ec_column_file_publish(&a->file, err);
}

uint64_t ec_arrow_rows(const ec_arrow *a) {
    return a->rows;
}

uint64_t ec_arrow_bytes(const ec_arrow *a) {
    return a->file.len_bytes;
}

void ec_arrow_destroy(ec_arrow *a) {
    if (!a)
        return;
    ec_column_file_deinit(&a->file);
    free(a->blocks);
    free(a);
}
