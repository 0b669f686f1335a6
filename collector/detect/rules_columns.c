/* See rules_columns.h. */
#include "collector/detect/rules_columns.h"

#include "collector/query/scan/cell.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/rules/rules_screen.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SAMPLE = 128,
    WORTH = 8, /* one event of so many that is left is worth the look */
    LOOKED_MAX_BYTES = 1 << 16,
    NUMBERS_MAX = 1 << 16,
    NAME_MAX_BYTES = 256
};

/* A field that is a column of the class, or a text that all of its events have. */
typedef struct columns_field {
    const char *own;     /* ec_rules_statement.own */
    uint32_t field;      /* of the group */
    size_t name, column; /* of the shape; name: of a path, the column of its name with a drive; else as column */
    const char *types[2];
    ea_u64_map numbers; /* of fixed width: number -> kind */
    uint32_t constant;  /* the kind of "=TEXT" */
    /* of the block at hand */
    const uint32_t *index; /* into kinds, by row; NULL: there is no dictionary */
    uint32_t *kinds;       /* UNSEEN: not looked at yet */
    size_t kinds_capacity;
    ea_column data; /* where is_number */
    int is_number;
    ea_text cell;
} columns_field;

#define UNSEEN (UINT32_MAX - 1)

struct ec_rules_columns {
    ea_rules_screen *screen;
    columns_field *fields;
    size_t count;
    uint64_t left, seen, stayed;
    int is_off;
    ec_archive *archive;
    uint64_t looked_bytes, looked_rows; /* since it was asked whether the scan goes on */
};

static int columns_is_path(const char *own) {
    return strstr(own, ":path") != NULL;
}

static int columns_is_known(const ec_rules_statement *s, size_t i) {
    return s->sources[i].of == EC_RULES_OF_EVENT && (s->own[i][0] == '=' || !strchr(s->own[i], '.'));
}

static void columns_add(ec_rules_columns *c, const ec_rules_statement *s, size_t i) {
    columns_field *f = &c->fields[c->count++];
    *f = (columns_field){.own = s->own[i], .field = s->fields[i], .constant = UNSEEN};
    ea_u64_map_init(&f->numbers, NUMBERS_MAX);
    ea_text_init(&f->cell);
}

int ec_rules_columns_create(ec_rules_columns **ret, const ea_rules *rules, ea_rules_run *run, uint32_t group,
                            const ec_rules_statement *s) {
    uint32_t unknown[EC_RULES_COLUMNS_MAX];
    size_t unknown_count = 0, own_count = 0;
    *ret = NULL;
    for (size_t i = 0; i < s->field_count; i++) {
        if (!columns_is_known(s, i))
            unknown[unknown_count++] = s->fields[i];
        else
            own_count += s->own[i][0] != '=';
    }
    if (!s->is_simple || (s->field_count && !own_count))
        return 0;
    ec_rules_columns *c = calloc(1, sizeof *c);
    if (!c)
        return EA_ENOMEM;
    c->fields = calloc(s->field_count + 1, sizeof *c->fields);
    int rc = c->fields ? ea_rules_screen_create(&c->screen, rules, run, group, unknown, unknown_count) : EA_ENOMEM;
    for (size_t i = 0; i < s->field_count && !rc; i++)
        if (columns_is_known(s, i))
            columns_add(c, s, i);
    if (rc) {
        ec_rules_columns_destroy(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void ec_rules_columns_destroy(ec_rules_columns *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        ea_u64_map_deinit(&c->fields[i].numbers);
        ea_text_deinit(&c->fields[i].cell);
        free(c->fields[i].kinds);
    }
    ea_rules_screen_destroy(c->screen);
    free(c->fields);
    free(c);
}

uint64_t ec_rules_columns_take(ec_rules_columns *c) {
    uint64_t left = c->left;
    c->left = 0;
    return left;
}

/* ---- a block ---- */

/* What the statement has of the field in the event: 1 and its text in f->cell, 0 when it has none. */
static int columns_text(columns_field *f, ec_scan *s, uint32_t row, ea_err *err) {
    const size_t from[2] = {f->name, f->column};
    enum ec_look look = EC_LOOK_EMPTY;
    if (f->own[0] == '=') {
        ea_text_clear(&f->cell);
        ea_text_str(&f->cell, f->own + 1);
        return f->cell.failed ? ea_fail(err, EA_ENOMEM, "run the rules") : 1;
    }
    for (size_t i = f->name == f->column; i < 2 && look == EC_LOOK_EMPTY; i++) {
        ec_value v;
        int rc = ec_scan_value(s, from[i], row, &v, err);
        if (rc)
            return rc;
        look = ec_cell_text(&f->cell, &v, f->types[i]);
    }
    return f->cell.failed ? ea_fail(err, EA_ENOMEM, "run the rules") : look != EC_LOOK_EMPTY;
}

/* The kind of a row's value, which is looked at. */
static int columns_look(ec_rules_columns *c, columns_field *f, ec_scan *s, uint32_t row, uint32_t *ret, ea_err *err) {
    int rc = columns_text(f, s, row, err);
    *ret = EA_RULES_SCREEN_MISSING;
    c->looked_bytes += f->cell.len_bytes;
    if (rc > 0)
        *ret = ea_rules_screen_kind(c->screen, &(ea_rules_value){.field = f->field,
                                                                 .text = f->cell.len_bytes ? f->cell.data : "",
                                                                 .len_bytes = f->cell.len_bytes});
    return rc < 0 ? rc : 0;
}

static int columns_kind(ec_rules_columns *c, columns_field *f, ec_scan *s, uint32_t row, uint32_t *ret, ea_err *err) {
    int rc = 0;
    if (f->index) {
        uint32_t *kind = &f->kinds[f->index[row]];
        if (*kind == UNSEEN)
            rc = columns_look(c, f, s, row, kind, err);
        *ret = *kind;
        return rc;
    }
    if (f->own[0] == '=') {
        if (f->constant == UNSEEN)
            rc = columns_look(c, f, s, row, &f->constant, err);
        *ret = f->constant;
        return rc;
    }
    if (!f->is_number)
        return columns_look(c, f, s, row, ret, err);
    *ret = EA_RULES_SCREEN_MISSING;
    if (ea_column_missing(&f->data, row))
        return 0;
    uint64_t number = ea_column_u64(&f->data, row);
    const uint64_t *known = ea_u64_map_get(&f->numbers, number);
    if (known) {
        *ret = (uint32_t)*known;
        return 0;
    }
    rc = columns_look(c, f, s, row, ret, err);
    if (!rc && *ret != EA_RULES_SCREEN_NONE)
        EA_IGNORE(ea_u64_map_put(&f->numbers, number, *ret)); /* no room: it is looked at again */
    return rc;
}

/* How the block has the field: 1; 0: its values do not follow from the column alone. */
static int columns_begin(columns_field *f, ec_scan *s, const ec_block *b, ea_err *err) {
    const ea_field *field = NULL;
    ea_column values = {0}, data = {0};
    f->index = NULL;
    f->is_number = 0;
    if (f->own[0] == '=')
        return 1;
    int rc = ec_scan_column(s, f->column, &data, &field, err);
    if (rc <= 0) /* 0: the events of the class lack it */
        return rc < 0 ? rc : 1;
    int is_plain = f->name == f->column;
    if (!is_plain && field->semantic != EA_SEM_PATH) /* another event says its name, at a time */
        return 0;
    rc = ec_scan_dictionary(s, f->column, &values, &f->index, err);
    if (rc <= 0)
        f->index = NULL;
    if (rc < 0)
        return rc;
    if (rc) {
        if (EA_GROW(f->kinds, f->kinds_capacity, values.count, SIZE_MAX))
            return ea_fail(err, EA_ENOMEM, "run the rules");
        for (uint32_t i = 0; i < values.count; i++)
            f->kinds[i] = UNSEEN;
        return 1;
    }
    f->data = data;
    f->is_number = is_plain && field->width && field->width <= 8 && data.width == field->width && field->count == 1 &&
                   field->count_field < 0 && data.count == b->count;
    return 1;
}

/* Whether a rule can hold for a row. */
static int columns_may(ec_rules_columns *c, ec_scan *s, uint32_t row, int *ret, ea_err *err) {
    ea_rules_value values[EC_RULES_COLUMNS_MAX];
    size_t value_count = 0;
    uint32_t combination = 0;
    int rc = 0;
    for (size_t i = 0; i < c->count && !rc; i++) {
        uint32_t kind;
        rc = columns_kind(c, &c->fields[i], s, row, &kind, err);
        if (!rc)
            combination = ea_rules_screen_put(c->screen, combination, kind);
    }
    if (rc || (*ret = ea_rules_screen_known(c->screen, combination)) >= 0)
        return rc;
    for (size_t i = 0; i < c->count && rc >= 0; i++) {
        columns_field *f = &c->fields[i];
        rc = columns_text(f, s, row, err);
        if (rc > 0)
            values[value_count++] = (ea_rules_value){
                .field = f->field, .text = f->cell.len_bytes ? f->cell.data : "", .len_bytes = f->cell.len_bytes};
    }
    if (rc >= 0 && (rc = ea_rules_screen_judge(c->screen, combination, values, value_count, ret)))
        rc = ea_fail(err, rc, "run the rules");
    return rc;
}

/* Whether the time is over, which is asked now and then. */
static int columns_is_late(ec_rules_columns *c) {
    if (++c->looked_rows < SAMPLE && c->looked_bytes < LOOKED_MAX_BYTES)
        return 0;
    c->looked_rows = c->looked_bytes = 0;
    return !ec_archive_goes_on(c->archive);
}

static int columns_keep(void *arg, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count, ea_err *err) {
    ec_rules_columns *c = arg;
    uint32_t n = 0;
    if (c->is_off)
        return 0;
    if (ea_rules_screen_tidy(c->screen))
        for (size_t i = 0; i < c->count; i++) {
            ea_u64_map_clear(&c->fields[i].numbers);
            c->fields[i].constant = UNSEEN;
        }
    for (size_t i = 0; i < c->count; i++) {
        int rc = columns_begin(&c->fields[i], s, b, err);
        if (rc == 0 || ec_is_damage(rc)) /* what is damaged is reported where the rows' values are read */
            return 0;
        if (rc < 0)
            return rc;
    }
    for (uint32_t i = 0; i < *count; i++) {
        int may = 1, rc = c->is_off ? 0 : columns_may(c, s, selected[i], &may, err);
        if (!rc && !c->is_off && columns_is_late(c))
            rc = ea_fail(err, EA_ECANCELED, "run the rules");
        if (rc)
            return rc;
        selected[n] = selected[i];
        n += (uint32_t)may;
        c->seen++;
        c->stayed += (uint32_t)may;
        if (c->seen % SAMPLE == 0)
            c->is_off = c->seen - c->stayed < c->seen / WORTH;
    }
    c->left += *count - n;
    *count = n;
    return 0;
}

/* ---- the columns of a table ---- */

static size_t columns_find(const ec_table_schema *shape, const char *name, size_t len, const char *ending) {
    char text[NAME_MAX_BYTES];
    int is_pid = len == 3 && strncasecmp(name, "pid", 3) == 0; /* as a field called so is named: rules_store.c */
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)len, name, is_pid ? "_2" : "", ending);
    return n > 0 && (size_t)n < sizeof text ? ec_table_schema_find(shape, text) : shape->count;
}

int ec_rules_columns_filter(ec_rules_columns *c, ec_archive *archive, const ec_table_schema *shape,
                            ec_row_filter *ret) {
    c->archive = archive;
    for (size_t i = 0; i < c->count; i++) {
        columns_field *f = &c->fields[i];
        size_t len = columns_is_path(f->own) ? (size_t)(strchr(f->own, ':') - f->own) : strlen(f->own);
        if (f->own[0] == '=')
            continue;
        f->name = f->column = columns_find(shape, f->own, len, "");
        if (columns_is_path(f->own))
            f->name = columns_find(shape, f->own, len, "_name");
        if (f->column == shape->count || f->name == shape->count || shape->columns[f->column].common != EC_COMMON_COUNT)
            return 0;
        f->types[0] = ec_kind_type(shape->columns[f->name].kind);
        f->types[1] = ec_kind_type(shape->columns[f->column].kind);
        ea_u64_map_clear(&f->numbers); /* a number looks as its column's kind says */
    }
    *ret = (ec_row_filter){.keep = columns_keep, .arg = c};
    return 1;
}
