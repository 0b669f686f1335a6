/* Writes a file of columns (Arrow when it is called so, else Parquet) whose values a formula says, for a test in
 * another language that reads it and knows the formula (tests/e2e/test_columnar.py).
 *
 * usage: made_columns values FILE ROWS GROUP-ROWS | made_columns wide FILE COLUMNS */
#include "collector/columnar/column_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

enum made_kind { MADE_MIXED, MADE_SAME, MADE_NONE, MADE_FEW, MADE_COUNTED };

/* Names are hostile; `kind` says which formula the numbers follow. */
static const struct {
    ec_file_column column;
    enum made_kind kind;
} COLUMNS[] = {
    {{"u8", EC_COLUMN_UNSIGNED, 8, 1}, MADE_MIXED},
    {{"u16", EC_COLUMN_UNSIGNED, 16, 1}, MADE_MIXED},
    {{"u32", EC_COLUMN_UNSIGNED, 32, 1}, MADE_MIXED},
    {{"u64", EC_COLUMN_UNSIGNED, 64, 1}, MADE_MIXED},
    {{"i8", EC_COLUMN_SIGNED, 8, 1}, MADE_MIXED},
    {{"i16", EC_COLUMN_SIGNED, 16, 1}, MADE_MIXED},
    {{"i32", EC_COLUMN_SIGNED, 32, 1}, MADE_MIXED},
    {{"i64", EC_COLUMN_SIGNED, 64, 1}, MADE_MIXED},
    {{"real", EC_COLUMN_REAL, 64, 1}, MADE_MIXED},
    {{"time", EC_COLUMN_TIME, 64, 0}, MADE_COUNTED},
    {{"text", EC_COLUMN_TEXT, 0, 1}, MADE_MIXED},
    {{"distinct", EC_COLUMN_TEXT, 0, 0}, MADE_COUNTED},
    {{"bytes", EC_COLUMN_BYTES, 0, 1}, MADE_MIXED},
    {{"same", EC_COLUMN_UNSIGNED, 32, 0}, MADE_SAME},
    {{"same text", EC_COLUMN_TEXT, 0, 1}, MADE_SAME},
    {{"none", EC_COLUMN_UNSIGNED, 64, 1}, MADE_NONE},
    {{"no text", EC_COLUMN_TEXT, 0, 1}, MADE_NONE},
    {{"few", EC_COLUMN_SIGNED, 32, 0}, MADE_FEW},
    {{"a\"b/../\x01\n", EC_COLUMN_UNSIGNED, 16, 0}, MADE_FEW},
    {{"sp\xc3\xa4t '; DROP", EC_COLUMN_TEXT, 0, 0}, MADE_FEW},
};

enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS, NULL_EVERY = 7, NULL_AT = 3, TEXTS = 6, REALS = 7 };

static uint64_t real_at(uint64_t row) {
    const double reals[REALS] = {(double)row / 3, NAN, -0.0, INFINITY, -INFINITY, 1.5, -1e300};
    uint64_t bits;
    memcpy(&bits, &reals[row % REALS], sizeof bits);
    return bits;
}

static uint64_t number_at(const ec_file_column *c, enum made_kind kind, uint64_t row) {
    uint64_t v = kind == MADE_SAME ? 7 : kind == MADE_FEW ? row / 100 % 3 : row * GOLDEN;
    if (c->kind == EC_COLUMN_REAL)
        return real_at(row);
    if (c->kind == EC_COLUMN_TIME)
        return UINT64_C(1700000000000000000) + row * 12345;
    if (c->bits == 64)
        return v;
    v &= (UINT64_C(1) << c->bits) - 1;
    if (c->kind == EC_COLUMN_SIGNED && v >> (c->bits - 1)) /* the sign's bit, and all above it */
        v |= ~((UINT64_C(1) << c->bits) - 1);
    return v;
}

static int add_text_at(ec_column_buffer *b, enum made_kind kind, uint64_t row) {
    static const char NUL[] = {'a', 0, 'b'}, BAD[] = {'x', (char)0xed, (char)0xa0, (char)0x80, (char)0xff, 'y'};
    char text[128];
    if (kind == MADE_SAME)
        return ec_column_add_text(b, "same", 4, 1);
    if (kind == MADE_FEW)
        return ec_column_add_text(b, row / 100 % 3 ? "much" : "", row / 100 % 3 ? 4 : 0, 1);
    if (kind == MADE_COUNTED || row % TEXTS == 5)
        return ec_column_add_text(b, text, (size_t)snprintf(text, sizeof text, "text number %" PRIu64, row), 1);
    switch (row % TEXTS) {
    case 0:
        return ec_column_add_text(b, "", 0, 1);
    case 1:
        return ec_column_add_text(b, NUL, sizeof NUL, 1);
    case 2:
        memset(text, 'z', 100);
        return ec_column_add_text(b, text, 100, 1);
    case 3:
        return ec_column_add_text(b, "\xc3\xa4\xf0\x9f\x98\x80", 6, 1);
    default:
        return ec_column_add_text(b, BAD, sizeof BAD, 1);
    }
}

static int add_row(ec_column_buffer *b, enum made_kind kind, uint64_t row) {
    if (b->column->is_optional && (kind == MADE_NONE || (kind == MADE_MIXED && row % NULL_EVERY == NULL_AT)))
        return ec_column_add_null(b, 1);
    if (b->column->kind == EC_COLUMN_BYTES) {
        char bytes[4] = {(char)row, (char)row, (char)row, (char)row};
        return ec_column_add_text(b, bytes, row % 5, 1);
    }
    if (!ec_file_column_bytes(b->column))
        return add_text_at(b, kind, row);
    return ec_column_add_number(b, number_at(b->column, kind, row), 1);
}

static int fill_group(ec_column_buffer *buffers, uint64_t from, uint64_t rows) {
    int rc = 0;
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        for (uint64_t row = from; row < from + rows && !rc; row++)
            rc = add_row(&buffers[i], COLUMNS[i].kind, row);
    return rc;
}

static enum ec_file_format format_of(const char *path) {
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".arrow") == 0 ? EC_FILE_ARROW : EC_FILE_PARQUET;
}

static int write_values(const char *path, uint64_t rows, uint64_t group_rows, ea_err *err) {
    static const ea_label LABELS[] = {{"made.by", "formula"}, {"", "\xc3\xa4"}};
    ec_file_column columns[COLUMN_COUNT];
    ec_column_buffer buffers[COLUMN_COUNT];
    ec_column_writer *p = NULL;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        columns[i] = COLUMNS[i].column;
        ec_column_buffer_init(&buffers[i], &columns[i]);
    }
    int rc = ec_column_writer_create(&p, format_of(path), path,
                                     &(ec_column_file_options){.columns = columns,
                                                               .column_count = COLUMN_COUNT,
                                                               .labels = LABELS,
                                                               .label_count = 2,
                                                               .created_by = "made_columns version 1"},
                                     err);
    for (uint64_t from = 0; from < rows && !rc; from += group_rows) {
        uint64_t n = rows - from < group_rows ? rows - from : group_rows;
        rc = fill_group(buffers, from, n);
        if (!rc)
            rc = ec_column_writer_add(p, buffers, err);
        for (size_t i = 0; i < COLUMN_COUNT; i++)
            ec_column_buffer_clear(&buffers[i]);
    }
    if (!rc)
        rc = ec_column_writer_finish(p, err);
    if (!rc)
        rc = ec_column_writer_publish(p, err);
    ec_column_writer_destroy(p);
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        ec_column_buffer_deinit(&buffers[i]);
    return rc;
}

/* Two rows of so many columns, each with its number. */
static int write_wide(const char *path, uint32_t count, ea_err *err) {
    enum { NAME_BYTES = 16 };

    ec_file_column *columns = calloc(count, sizeof *columns);
    ec_column_buffer *buffers = calloc(count, sizeof *buffers);
    char *names = calloc(count, NAME_BYTES);
    ec_column_writer *p = NULL;
    int rc = columns && buffers && names ? 0 : EA_ENOMEM;
    for (uint32_t i = 0; i < count && !rc; i++) {
        snprintf(names + (size_t)i * NAME_BYTES, NAME_BYTES, "c%u", i);
        columns[i] = (ec_file_column){names + (size_t)i * NAME_BYTES, EC_COLUMN_UNSIGNED, 32, 1};
        ec_column_buffer_init(&buffers[i], &columns[i]);
        rc = ec_column_add_number(&buffers[i], i, 1);
        if (!rc)
            rc = ec_column_add_null(&buffers[i], 1);
    }
    if (!rc)
        rc = ec_column_writer_create(
            &p, format_of(path), path,
            &(ec_column_file_options){.columns = columns, .column_count = count, .created_by = "made_columns"}, err);
    if (!rc)
        rc = ec_column_writer_add(p, buffers, err);
    if (!rc)
        rc = ec_column_writer_finish(p, err);
    if (!rc)
        rc = ec_column_writer_publish(p, err);
    ec_column_writer_destroy(p);
    for (uint32_t i = 0; buffers && i < count; i++)
        ec_column_buffer_deinit(&buffers[i]);
    free(columns);
    free(buffers);
    free(names);
    return rc;
}

int main(int argc, char **argv) {
    ea_err err = {0};
    int rc = EA_EUSAGE;
    if (argc == 5 && strcmp(argv[1], "values") == 0)
        rc = write_values(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), &err);
    else if (argc == 4 && strcmp(argv[1], "wide") == 0)
        rc = write_wide(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), &err);
    if (rc)
        fprintf(stderr, "made_columns: %d: %s\n", rc, err.message);
    return rc != 0;
}
