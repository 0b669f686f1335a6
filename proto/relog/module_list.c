/* See module_list.h. */
#include "proto/relog/module_list.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/json_cursor.h"

#include <stdlib.h>
#include <string.h>

/* X(column) */
#define MODULE_COLUMNS(X)                                                                                              \
    X(load)                                                                                                            \
    X(unload)                                                                                                          \
    X(pid)                                                                                                             \
    X(base)                                                                                                            \
    X(size)                                                                                                            \
    X(path)                                                                                                            \
    X(guid)                                                                                                            \
    X(age)                                                                                                             \
    X(pdb)                                                                                                             \
    X(timestamp)                                                                                                       \
    X(checksum)                                                                                                        \
    X(default_base)                                                                                                    \
    X(name)

enum module_column {

#define X(name) COLUMN_##name,
    MODULE_COLUMNS(X)
#undef X
        COLUMN_COUNT
};

static const char *const COLUMN_NAMES[COLUMN_COUNT] = {

#define X(name) #name,
    MODULE_COLUMNS(X)
#undef X
};

enum { UTF8_BOM_BYTES = 3 };

struct ea_module_list {
    ea_arena arena;
    ea_listed_module *items;
    size_t count, capacity;
};

/* What is read. */
typedef struct list_reader {
    ea_module_list *l;
    const char *name;
    ea_json_cursor c; /* the line at hand */
    size_t line;
    int columns[COLUMN_COUNT]; /* of TSV, in the order of the first line: enum module_column */
    size_t column_count;
    const char *values[COLUMN_COUNT]; /* of the line at hand, in the arena; NULL: absent */
    ea_err *err;
} list_reader;

static int list_wrong(const list_reader *k, const char *what, const char *of) {
    return ea_fail(k->err, EA_EINVAL, "%s, line %zu: %s%s%.100s", k->name, k->line, what, of ? " " : "", of ? of : "");
}

static int module_list_column_of(const char *name, size_t len_bytes) {
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (strlen(COLUMN_NAMES[i]) == len_bytes && memcmp(COLUMN_NAMES[i], name, len_bytes) == 0)
            return i;
    return -1;
}

/* ---- a module out of its texts ---- */

static int list_number(const list_reader *k, enum module_column column, uint64_t most, int is_needed, uint64_t *ret) {
    const char *text = k->values[column];
    if (!text && !is_needed)
        return 0;
    if (!text || ea_u64_parse(text, ret) || *ret > most)
        return list_wrong(k, text ? "no such number can be of the column" : "it lacks the column",
                          COLUMN_NAMES[column]);
    return 0;
}

static int list_pdb(const list_reader *k, ea_module *m) {
    uint64_t age = 0;
    int has = k->values[COLUMN_guid] != NULL;
    if (has != (k->values[COLUMN_age] != NULL) || has != (k->values[COLUMN_pdb] != NULL))
        return list_wrong(k, "guid, age and pdb go together", NULL);
    if (!has)
        return 0;
    if (ea_guid_parse(k->values[COLUMN_guid], &m->pdb_guid))
        return list_wrong(k, "no GUID:", k->values[COLUMN_guid]);
    int rc = list_number(k, COLUMN_age, UINT32_MAX, 1, &age);
    m->has_pdb = 1;
    m->pdb_age = (uint32_t)age;
    m->pdb_path = k->values[COLUMN_pdb];
    return rc;
}

static int list_add_module(list_reader *k) {
    ea_module_list *l = k->l;
    uint64_t pid = 0, timestamp = 0, checksum = 0;
    ea_listed_module x = {
        .m = {.path = k->values[COLUMN_path], .pdb_path = "", .original_name = k->values[COLUMN_name]},
        .load = k->values[COLUMN_load],
        .unload = k->values[COLUMN_unload],
        .line = k->line};
    int rc = list_number(k, COLUMN_pid, UINT32_MAX, 1, &pid);
    if (!rc)
        rc = list_number(k, COLUMN_base, UINT64_MAX, 1, &x.m.base);
    if (!rc)
        rc = list_number(k, COLUMN_size, UINT64_MAX, 1, &x.m.size_bytes);
    x.m.default_base = x.m.base;
    if (!rc)
        rc = list_number(k, COLUMN_timestamp, UINT32_MAX, 0, &timestamp);
    if (!rc)
        rc = list_number(k, COLUMN_checksum, UINT32_MAX, 0, &checksum);
    if (!rc)
        rc = list_number(k, COLUMN_default_base, UINT64_MAX, 0, &x.m.default_base);
    const char *name = x.m.path ? strrchr(x.m.path, '\\') : NULL;
    if (!rc && (!name || x.m.path[0] != '\\'))
        rc = list_wrong(k, "expected an NT path as in \\Device\\HarddiskVolume3\\plug.in, not",
                        x.m.path ? x.m.path : "");
    if (!rc)
        rc = list_pdb(k, &x.m);
    if (rc || !name)
        return rc;
    if (l->count == EA_MODULE_LIST_MAX)
        return ea_fail(k->err, EA_ELIMIT, "%s: at most %d modules", k->name, EA_MODULE_LIST_MAX);
    if (EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    x.m.pid = (uint32_t)pid;
    x.m.timestamp = (uint32_t)timestamp;
    x.m.checksum = (uint32_t)checksum;
    if (!x.m.original_name)
        x.m.original_name = name + 1;
    l->items[l->count++] = x;
    return 0;
}

static int list_keep(list_reader *k, int column, const char *text, size_t len_bytes) {
    if (len_bytes && memchr(text, 0, len_bytes))
        return list_wrong(k, "a NUL in the column", COLUMN_NAMES[column]);
    if (k->values[column])
        return list_wrong(k, "it has twice the column", COLUMN_NAMES[column]);
    char *copy = ea_arena_alloc(&k->l->arena, len_bytes + 1);
    if (!copy)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    if (len_bytes)
        memcpy(copy, text, len_bytes);
    copy[len_bytes] = 0;
    k->values[column] = copy;
    return 0;
}

/* ---- TSV ---- */

static int module_list_read_columns(list_reader *k) {
    const char *end = k->c.end;
    for (const char *at = k->c.at; at <= end;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        size_t n = (size_t)((tab ? tab : end) - at);
        int column = module_list_column_of(at, n);
        if (column < 0)
            return ea_fail(k->err, EA_EINVAL, "%s, line %zu: no column is called %.*s", k->name, k->line,
                           (int)(n < 100 ? n : 100), at);
        for (size_t i = 0; i < k->column_count; i++)
            if (k->columns[i] == column)
                return list_wrong(k, "it has twice the column", COLUMN_NAMES[column]);
        k->columns[k->column_count++] = column;
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
        if (i == k->column_count)
            return list_wrong(k, "it has more cells than columns", NULL);
        int rc = n ? list_keep(k, k->columns[i], at, n) : 0;
        if (rc)
            return rc;
        if (!tab)
            return list_add_module(k);
        at = tab + 1;
    }
}

/* ---- JSON lines ---- */

/* A text, a number as it is written, or null: *ret_is_null. */
static int list_take_value(list_reader *k, ea_text *t, int *ret_is_null) {
    *ret_is_null = 0;
    if (ea_json_take_char(&k->c, '"'))
        return ea_json_take_text(&k->c, t);
    if (!ea_json_take_word(&k->c, t))
        return 0;
    *ret_is_null = t->len_bytes == 4 && memcmp(t->data, "null", 4) == 0;
    return *ret_is_null || (t->data[0] >= '0' && t->data[0] <= '9');
}

static int read_object(list_reader *k, ea_text *key, ea_text *value) {
    int is_null, is_first = 1;
    k->c.at++; /* { */
    while (!ea_json_take_char(&k->c, '}')) {
        if ((!is_first && !ea_json_take_char(&k->c, ',')) || !ea_json_take_char(&k->c, '"') ||
            !ea_json_take_text(&k->c, key) || !ea_json_take_char(&k->c, ':') || !list_take_value(k, value, &is_null))
            return list_wrong(k, "expected an object of texts and numbers", NULL);
        is_first = 0;
        int column = module_list_column_of(key->data ? key->data : "", key->len_bytes);
        if (column < 0)
            return list_wrong(k, "no column is called", key->data ? key->data : "");
        int rc = is_null ? 0 : list_keep(k, column, value->data, value->len_bytes);
        if (rc)
            return rc;
    }
    ea_json_skip_blanks(&k->c);
    return k->c.at == k->c.end ? list_add_module(k) : list_wrong(k, "expected nothing after the object", NULL);
}

/* ---- the file ---- */

static int module_list_read_line(list_reader *k, ea_text *key, ea_text *value) {
    memset(k->values, 0, sizeof k->values);
    if (k->c.at == k->c.end)
        return 0;
    if (*k->c.at == '{')
        return read_object(k, key, value);
    return k->column_count ? read_cells(k) : module_list_read_columns(k);
}

int ea_module_list_read(ea_module_list **ret, const char *name, const char *text, size_t len_bytes, ea_err *err) {
    ea_module_list *l = calloc(1, sizeof *l);
    list_reader k = {.l = l, .name = name, .err = err};
    const char *at = text, *whole_end = text + len_bytes;
    ea_text key, value;
    int rc = 0;
    if (!l)
        return ea_fail(err, EA_ENOMEM, "read %s", name);
    ea_arena_init(&l->arena, 0);
    ea_text_init(&key);
    ea_text_init(&value);
    if (len_bytes >= UTF8_BOM_BYTES && memcmp(text, "\xef\xbb\xbf", UTF8_BOM_BYTES) == 0)
        at += UTF8_BOM_BYTES;
    while (!rc && at < whole_end) {
        const char *newline = memchr(at, '\n', (size_t)(whole_end - at)), *end = newline ? newline : whole_end;
        k.line++;
        k.c = (ea_json_cursor){at, end > at && end[-1] == '\r' ? end - 1 : end};
        rc = module_list_read_line(&k, &key, &value);
        at = newline ? newline + 1 : whole_end;
    }
    ea_text_deinit(&key);
    ea_text_deinit(&value);
    if (rc) {
        ea_module_list_destroy(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void ea_module_list_destroy(ea_module_list *l) {
    if (!l)
        return;
    free(l->items);
    ea_arena_deinit(&l->arena);
    free(l);
}

const ea_listed_module *ea_module_list_items(const ea_module_list *l, size_t *ret_count) {
    *ret_count = l->count;
    return l->items;
}
