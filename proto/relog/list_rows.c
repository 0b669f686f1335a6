/* See list_rows.h. */
#include "proto/relog/list_rows.h"

#include "proto/base/json_cursor.h"

#include <string.h>

enum { UTF8_BOM_BYTES = 3, OTHER_COLUMN = -1 };

/* What is read. */
typedef struct list_reader {
    const ea_list_options *o;
    ea_json_cursor c;                     /* the line at hand */
    int16_t all[EA_LIST_ALL_COLUMNS_MAX]; /* of TSV, in the order of the first line: numbers of columns */
    size_t all_count;
    ea_list_row row;
    ea_err *err;
} list_reader;

int ea_list_wrong(const ea_list_row *row, const char *what, const char *of, ea_err *err) {
    return ea_fail(err, EA_EINVAL, "%s, line %zu: %s%s%.100s", row->file, row->line, what, of ? " " : "", of ? of : "");
}

static int list_wrong(const list_reader *k, const char *what, const char *of) {
    return ea_list_wrong(&k->row, what, of, k->err);
}

int ea_list_number(const ea_list_row *row, size_t column, uint64_t most, int is_needed, uint64_t *ret, ea_err *err) {
    const char *text = row->values[column];
    if (!text && !is_needed)
        return 0;
    if (!text || ea_u64_parse(text, ret) || *ret > most)
        return ea_list_wrong(row, text ? "no such number can be of the column" : "it lacks the column",
                             row->columns[column], err);
    return 0;
}

static int list_column_of(const list_reader *k, const char *name, size_t len_bytes) {
    for (size_t i = 0; i < k->o->column_count; i++)
        if (strlen(k->o->columns[i]) == len_bytes && memcmp(k->o->columns[i], name, len_bytes) == 0)
            return (int)i;
    return OTHER_COLUMN;
}

static int list_keep(list_reader *k, int column, const char *text, size_t len_bytes) {
    if (column == OTHER_COLUMN)
        return 0;
    if (len_bytes && memchr(text, 0, len_bytes))
        return list_wrong(k, "a NUL in the column", k->o->columns[column]);
    if (k->row.values[column])
        return list_wrong(k, "it has twice the column", k->o->columns[column]);
    char *copy = ea_arena_alloc(k->o->arena, len_bytes + 1);
    if (!copy)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->o->file);
    if (len_bytes)
        memcpy(copy, text, len_bytes);
    copy[len_bytes] = 0;
    k->row.values[column] = copy;
    return 0;
}

static int list_end_row(list_reader *k) {
    return k->o->row(k->o->arg, &k->row, k->err);
}

/* ---- TSV ---- */

static int list_read_columns(list_reader *k) {
    const char *end = k->c.end;
    for (const char *at = k->c.at; at <= end;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        size_t n = (size_t)((tab ? tab : end) - at);
        int column = list_column_of(k, at, n);
        if (column == OTHER_COLUMN && !k->o->passes_others)
            return ea_fail(k->err, EA_EINVAL, "%s, line %zu: no column is called %.*s", k->o->file, k->row.line,
                           (int)(n < 100 ? n : 100), at);
        for (size_t i = 0; i < k->all_count; i++)
            if (column != OTHER_COLUMN && k->all[i] == column)
                return list_wrong(k, "it has twice the column", k->o->columns[column]);
        if (k->all_count == EA_LIST_ALL_COLUMNS_MAX)
            return list_wrong(k, "it has too many columns", NULL);
        k->all[k->all_count++] = (int16_t)column;
        if (!tab)
            break;
        at = tab + 1;
    }
    return 0;
}

static int read_cells(list_reader *k) {
    const char *end = k->c.end;
    size_t i = 0;
    for (const char *at = k->c.at;; i++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        size_t n = (size_t)((tab ? tab : end) - at);
        if (i == k->all_count)
            return list_wrong(k, "it has more cells than columns", NULL);
        int rc = n ? list_keep(k, k->all[i], at, n) : 0;
        if (rc)
            return rc;
        if (!tab)
            return list_end_row(k);
        at = tab + 1;
    }
}

/* ---- JSON lines ---- */

/* A text, a number as it is written, or null: *ret_is_null. Of other columns any word. */
static int list_take_value(list_reader *k, ea_text *t, int is_other, int *ret_is_null) {
    *ret_is_null = 0;
    if (ea_json_take_char(&k->c, '"'))
        return ea_json_take_text(&k->c, t);
    if (!ea_json_take_word(&k->c, t))
        return 0;
    *ret_is_null = t->len_bytes == 4 && memcmp(t->data, "null", 4) == 0;
    return *ret_is_null || is_other || (t->data[0] >= '0' && t->data[0] <= '9');
}

static int read_object(list_reader *k, ea_text *key, ea_text *value) {
    static const char EXPECTED[] = "expected an object of texts and numbers";
    int is_null, is_first = 1;
    k->c.at++; /* { */
    while (!ea_json_take_char(&k->c, '}')) {
        if ((!is_first && !ea_json_take_char(&k->c, ',')) || !ea_json_take_char(&k->c, '"') ||
            !ea_json_take_text(&k->c, key) || !ea_json_take_char(&k->c, ':'))
            return list_wrong(k, EXPECTED, NULL);
        is_first = 0;
        int column = list_column_of(k, key->data ? key->data : "", key->len_bytes);
        if (column == OTHER_COLUMN && !k->o->passes_others)
            return list_wrong(k, "no column is called", key->data ? key->data : "");
        if (!list_take_value(k, value, column == OTHER_COLUMN, &is_null))
            return list_wrong(k, EXPECTED, NULL);
        int rc = is_null ? 0 : list_keep(k, column, value->data, value->len_bytes);
        if (rc)
            return rc;
    }
    ea_json_skip_blanks(&k->c);
    return k->c.at == k->c.end ? list_end_row(k) : list_wrong(k, "expected nothing after the object", NULL);
}

/* ---- the file ---- */

static int list_read_line(list_reader *k, ea_text *key, ea_text *value) {
    memset(k->row.values, 0, sizeof k->row.values);
    if (k->c.at == k->c.end)
        return 0;
    if (*k->c.at == '{')
        return read_object(k, key, value);
    return k->all_count ? read_cells(k) : list_read_columns(k);
}

int ea_list_read(const ea_list_options *o, const char *text, size_t len_bytes, ea_err *err) {
    list_reader k = {.o = o, .row = {.file = o->file, .columns = o->columns}, .err = err};
    const char *at = text, *whole_end = text + len_bytes;
    ea_text key, value;
    int rc = 0;
    ea_text_init(&key);
    ea_text_init(&value);
    if (len_bytes >= UTF8_BOM_BYTES && memcmp(text, "\xef\xbb\xbf", UTF8_BOM_BYTES) == 0)
        at += UTF8_BOM_BYTES;
    while (!rc && at < whole_end) {
        const char *newline = memchr(at, '\n', (size_t)(whole_end - at)), *end = newline ? newline : whole_end;
        k.row.line++;
        k.c = (ea_json_cursor){at, end > at && end[-1] == '\r' ? end - 1 : end};
        rc = list_read_line(&k, &key, &value);
        at = newline ? newline + 1 : whole_end;
    }
    ea_text_deinit(&key);
    ea_text_deinit(&value);
    return rc;
}
