/* See event_columns.h. */
#include "collector/query/files/event_columns.h"

#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/event/value.h"

#include <stdlib.h>
#include <string.h>

/* What every event has: in a file's order, before the fields and after them. */
static const uint8_t BEFORE[] = {EC_TIME, EC_CPU, EC_PID, EC_TID};
static const uint8_t AFTER[] = {EC_STREAM,
                                EC_BATCH,
                                EC_POSITION,
                                EC_PROVIDER,
                                EC_ID,
                                EC_VERSION,
                                EC_CHANNEL,
                                EC_LEVEL,
                                EC_OPCODE,
                                EC_TASK,
                                EC_KEYWORD,
                                EC_ACTIVITY_ID,
                                EC_RELATED_ACTIVITY_ID,
                                EC_STACK,
                                EC_COUNTERS};

/* ---- types ---- */

typedef struct column_type {
    enum ec_column_kind kind;
    uint8_t bits, is_optional;
} column_type;

static column_type type_of_common(int common) {
    switch (common) {
    case EC_TIME:
        return (column_type){EC_COLUMN_TIME, 64, 0};
    case EC_PID:
    case EC_TID:
    case EC_POSITION:
        return (column_type){EC_COLUMN_UNSIGNED, 32, 0};
    case EC_CPU:
    case EC_SOURCE:
    case EC_ID:
    case EC_TASK:
        return (column_type){EC_COLUMN_UNSIGNED, 16, 0};
    case EC_VERSION:
    case EC_CHANNEL:
    case EC_LEVEL:
    case EC_OPCODE:
        return (column_type){EC_COLUMN_UNSIGNED, 8, 0};
    case EC_BATCH:
    case EC_KEYWORD:
        return (column_type){EC_COLUMN_UNSIGNED, 64, 0};
    case EC_CLOCK:
        return (column_type){EC_COLUMN_SIGNED, 64, 0};
    case EC_STREAM:
    case EC_PROVIDER:
    case EC_PROVIDER_NAME:
    case EC_NAME:
        return (column_type){EC_COLUMN_TEXT, 0, 0};
    case EC_PAYLOAD:
        return (column_type){EC_COLUMN_BYTES, 0, 1};
    default:
        return (column_type){EC_COLUMN_TEXT, 0, 1};
    }
}

/* Of whole numbers of several classes: the narrowest type that has them all; texts where there is none. */
static column_type type_of_numbers(const ec_table_schema *shape, size_t column) {
    unsigned with_sign = 0, without = 0;
    for (size_t k = 0; k < shape->set->count; k++) {
        const ea_class *c = shape->set->classes[k];
        int top = ec_table_schema_field(shape, c, column);
        if (top < 0)
            continue;
        const ea_field *f = &c->fields[ea_class_top_field(c, (size_t)top)];
        unsigned bits = f->type == EA_POINTER || f->type == EA_SIZE ? 64 : 8 * f->width;
        int is_signed = f->type == EA_I8 || f->type == EA_I16 || f->type == EA_I32 || f->type == EA_I64;
        unsigned *most = is_signed ? &with_sign : &without;
        *most = bits > *most ? bits : *most;
    }
    if (!with_sign)
        return (column_type){EC_COLUMN_UNSIGNED, (uint8_t)without, 1};
    if (without >= 64)
        return (column_type){EC_COLUMN_TEXT, 0, 1};
    if (without >= with_sign)
        with_sign = 2 * without;
    return (column_type){EC_COLUMN_SIGNED, (uint8_t)with_sign, 1};
}

static column_type type_of_column(const ec_table_schema *shape, size_t column) {
    const ec_column *c = &shape->columns[column];
    if (c->common != EC_COMMON_COUNT)
        return type_of_common(c->common);
    switch (c->kind) {
    case EC_KIND_INT:
    case EC_KIND_HEX:
    case EC_KIND_ADDRESS:
    case EC_KIND_COUNT:
        return type_of_numbers(shape, column);
    case EC_KIND_TIME:
        return (column_type){EC_COLUMN_TIME, 64, 1};
    case EC_KIND_REAL:
        return (column_type){EC_COLUMN_REAL, 64, 1};
    case EC_KIND_BLOB:
        return (column_type){EC_COLUMN_BYTES, 0, 1};
    default:
        return (column_type){EC_COLUMN_TEXT, 0, 1};
    }
}

/* ---- columns ---- */

static int is_taken(const ec_event_columns *c, const char *name) {
#define X(folder)                                                                                                      \
    if (ea_name_equal(name, folder))                                                                                   \
        return 1;
    EC_FOLDER_COLUMNS(X)
#undef X
    return ec_table_schema_find(&c->shape, name) < c->shape.count;
}

/* A column's name in the file: NAME_2 and so on where a folder's name has it. */
static const char *name_in_file(ec_event_columns *c, const char *name) {
    enum { SUFFIX_BYTES = 12 };

    int is_folder = 0;
#define X(folder) is_folder |= ea_name_equal(name, folder);
    EC_FOLDER_COLUMNS(X)
#undef X
    if (!is_folder)
        return name;
    size_t n = strlen(name) + SUFFIX_BYTES;
    char *out = ea_arena_alloc(&c->arena, n);
    for (unsigned k = 2; out; k++) {
        snprintf(out, n, "%s_%u", name, k);
        if (!is_taken(c, out))
            break;
    }
    return out;
}

static int take_column(ec_event_columns *c, size_t column) {
    column_type type = type_of_column(&c->shape, column);
    const char *name = name_in_file(c, c->shape.columns[column].name);
    if (!name)
        return EA_ENOMEM;
    c->columns[c->count] =
        (ec_file_column){.name = name, .kind = type.kind, .bits = type.bits, .is_optional = type.is_optional};
    c->of[c->count++] = column;
    return 0;
}

static int take_named(ec_event_columns *c, const char *const *names, size_t name_count, uint8_t *is_known) {
    int rc = 0;
    for (size_t i = 0; i < name_count && !rc; i++) {
        size_t column = ec_table_schema_find(&c->shape, names[i]);
        if (column == c->shape.count)
            continue;
        is_known[i] = 1;
        if (c->shape.columns[column].common != EC_HOST)
            rc = take_column(c, column);
    }
    return rc;
}

static int take_default(ec_event_columns *c) {
    int rc = 0, is_explained = 1;
    for (size_t i = 0; i < sizeof BEFORE && !rc; i++)
        rc = take_column(c, BEFORE[i]);
    for (size_t i = EC_COMMON_COUNT; i < c->shape.count && !rc; i++)
        if (!c->shape.columns[i].hidden)
            rc = take_column(c, i);
    for (size_t i = 0; i < sizeof AFTER && !rc; i++)
        rc = take_column(c, AFTER[i]);
    for (size_t k = 0; k < c->shape.set->count; k++)
        is_explained &= c->shape.set->classes[k]->status == EA_CLASS_KNOWN;
    return rc || is_explained ? rc : take_column(c, EC_PAYLOAD);
}

/* The versions of the set's classes, each once. */
static int list_versions(ec_event_columns *c, const ec_class_set *set) {
    uint8_t seen[UINT8_MAX + 1] = {0};
    ea_text t;
    ea_text_init(&t);
    for (size_t k = 0; k < set->count; k++)
        seen[(uint8_t)set->classes[k]->version] = 1;
    for (unsigned v = 0; v <= UINT8_MAX; v++)
        if (seen[v])
            ea_text_printf(&t, "%s%u", t.len_bytes ? "," : "", v);
    c->versions = t.failed ? NULL : ea_arena_strdup(&c->arena, t.data ? t.data : "");
    ea_text_deinit(&t);
    return c->versions ? 0 : EA_ENOMEM;
}

int ec_event_columns_init(ec_event_columns *c, const ec_class_set *set, const char *const *names, size_t name_count,
                          uint8_t *is_known, ea_err *err) {
    *c = (ec_event_columns){.count = 0};
    ea_arena_init(&c->arena, 0);
    int rc = ec_table_schema_init(&c->shape, set, err);
    if (rc) {
        ec_event_columns_deinit(c);
        return rc;
    }
    size_t most = name_count > c->shape.count ? name_count : c->shape.count;
    c->columns = ea_arena_zalloc(&c->arena, most, sizeof *c->columns);
    c->of = ea_arena_zalloc(&c->arena, most, sizeof *c->of);
    rc = c->columns && c->of ? 0 : EA_ENOMEM;
    if (!rc)
        rc = list_versions(c, set);
    if (!rc)
        rc = name_count ? take_named(c, names, name_count, is_known) : take_default(c);
    if (rc) {
        ec_event_columns_deinit(c);
        return ea_fail(err, rc, "list the columns of %.200s", set->name);
    }
    return 0;
}

void ec_event_columns_deinit(ec_event_columns *c) {
    ec_table_schema_deinit(&c->shape);
    ea_arena_deinit(&c->arena);
    free(c->memo);
    *c = (ec_event_columns){.count = 0};
}

/* ---- values ---- */

/* A value of SQL as the column's number. */
static int number_of_value(const ec_column *column, const ec_value *v, uint64_t *ret) {
    if (v->type == EC_REAL) {
        memcpy(ret, &v->r, sizeof *ret);
        return 0;
    }
    if (v->type == EC_INT) {
        *ret = column->kind == EC_KIND_ADDRESS ? (uint64_t)v->i ^ UINT64_C(1) << 63 : (uint64_t)v->i;
        return 0;
    }
    *ret = 0;
    for (size_t i = 0; i < v->len_bytes; i++) /* 20 digits: 2^63 and above */
        *ret = *ret * 10 + (uint64_t)(v->data[i] - '0');
    return v->type == EC_TEXT ? 0 : EA_ECORRUPT;
}

/* A value of a column whose classes disagree, as a text. own: what the value looks like by itself. */
static int event_columns_add_as_text(ec_column_buffer *to, enum ec_kind own, const ec_value *v, uint32_t count) {
    ea_text t;
    ea_text_init(&t);
    if (v->type == EC_REAL)
        ea_text_printf(&t, "%.17g", v->r);
    else if (v->type == EC_BLOB)
        ea_text_hex(&t, v->data, v->len_bytes);
    else if (own == EC_KIND_ADDRESS)
        ea_text_hex64(&t, (uint64_t)v->i ^ UINT64_C(1) << 63);
    else if (own == EC_KIND_HEX)
        ea_text_hex64(&t, (uint64_t)v->i);
    else if (own == EC_KIND_TIME)
        ea_text_utc_ns(&t, v->i);
    else
        ea_text_i64(&t, v->i);
    int rc = t.failed ? EA_ENOMEM : ec_column_add_text(to, t.data ? t.data : "", t.len_bytes, count);
    ea_text_deinit(&t);
    return rc;
}

typedef struct filling {
    ec_event_columns *c;
    ec_scan *s;
    const ec_block *b;
    const uint32_t *selected;
    uint32_t count;
} filling;

/* What values of a column look like by themselves in the block's class. */
static enum ec_kind own_kind(const filling *f, size_t column) {
    const ec_column *c = &f->c->shape.columns[column];
    int top = ec_table_schema_field(&f->c->shape, f->b->c, column);
    if (c->kind != EC_KIND_ANY || top < 0)
        return c->kind;
    return ec_kind_of_field(&f->b->c->fields[ea_class_top_field(f->b->c, (size_t)top)]);
}

/* A value of SQL, for count rows. */
static int event_columns_add_value(const filling *f, size_t column, ec_column_buffer *to, const ec_value *v,
                                   uint32_t count) {
    uint64_t number;
    if (v->type == EC_NULL)
        return ec_column_add_null(to, count);
    if (to->column->kind == EC_COLUMN_BYTES || (to->column->kind == EC_COLUMN_TEXT && v->type == EC_TEXT))
        return ec_column_add_text(to, v->data, v->len_bytes, count);
    if (to->column->kind == EC_COLUMN_TEXT)
        return event_columns_add_as_text(to, own_kind(f, column), v, count);
    int rc = number_of_value(&f->c->shape.columns[column], v, &number);
    return rc ? rc : ec_column_add_number(to, number, count);
}

static int fill_each(const filling *f, size_t column, uint32_t from, ec_column_buffer *to, ea_err *err) {
    int rc = 0;
    for (uint32_t i = from; i < f->count && !rc; i++) {
        ec_value v;
        rc = ec_scan_value(f->s, column, f->selected[i], &v, err);
        if (!rc)
            rc = event_columns_add_value(f, column, to, &v, 1);
    }
    return rc;
}

/* All events of the block have the first one's value. */
static int fill_same(const filling *f, size_t column, ec_column_buffer *to, ea_err *err) {
    ec_value v;
    int rc = ec_scan_value(f->s, column, f->selected[0], &v, err);
    return rc ? rc : event_columns_add_value(f, column, to, &v, f->count);
}

static int fill_events(const filling *f, int common, ec_column_buffer *to) {
    const ea_batch_events *e = f->b->events;
    uint64_t *out = ec_column_append(to, f->count);
    if (!out)
        return EA_ENOMEM;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t event = f->b->rows[f->selected[i]];
        switch (common) {
        case EC_TIME:
            out[i] = (uint64_t)ec_scan_utc_ns(f->s, event);
            break;
        case EC_CPU:
            out[i] = e->cpu[event];
            break;
        case EC_PID:
            out[i] = e->pid[e->thread[event]];
            break;
        case EC_TID:
            out[i] = e->tid[e->thread[event]];
            break;
        default: /* EC_POSITION */
            out[i] = event;
        }
    }
    return 0;
}

static int fill_common(const filling *f, int common, ec_column_buffer *to, ea_err *err) {
    const ea_record *r = f->b->constants;
    ea_column ids;
    switch (common) {
    case EC_TIME:
    case EC_CPU:
    case EC_PID:
    case EC_TID:
    case EC_POSITION:
        return fill_events(f, common, to);
    case EC_BATCH:
        return ec_column_add_number(to, f->b->batch, f->count);
    case EC_KEYWORD:
        return ec_column_add_number(to, r->keyword, f->count);
    case EC_STREAM:
    case EC_PROVIDER:
    case EC_PROVIDER_NAME:
    case EC_NAME:
    case EC_ID:
    case EC_VERSION:
    case EC_CHANNEL:
    case EC_LEVEL:
    case EC_OPCODE:
    case EC_TASK:
        return fill_same(f, (size_t)common, to, err);
    case EC_ACTIVITY_ID:
        if (ea_batch_activities(f->b->view, f->b->group, &ids, NULL) == 0)
            return ec_column_add_null(to, f->count);
        break;
    case EC_RELATED_ACTIVITY_ID:
    case EC_STACK:
    case EC_COUNTERS:
        if (!r->ext_count)
            return fill_same(f, (size_t)common, to, err);
        break;
    default:
        break;
    }
    return fill_each(f, (size_t)common, 0, to, err);
}

/* ---- fields ---- */

enum { MEMO_UNKNOWN = 0, MEMO_NULL = 1, MEMO_KNOWN = 2 };

/* What a value of the block's dictionary is in the file: the memo of it. 1; 0 when it has to be added by itself. */
static int event_columns_learn_value(const filling *f, size_t column, const ea_column *values, uint32_t place,
                                     ec_column_buffer *to, uint64_t *memo, ea_err *err) {
    const ec_column *kind = &f->c->shape.columns[column];
    ec_value v;
    int rc = ec_scan_row_value(f->s, column, values, place, &v, err);
    if (rc)
        return rc;
    memo[0] = v.type == EC_NULL ? MEMO_NULL : MEMO_KNOWN;
    if (v.type == EC_NULL)
        return 1;
    if (ec_file_column_bytes(to->column)) {
        rc = number_of_value(kind, &v, &memo[1]);
        return rc ? rc : 1;
    }
    if (v.type != EC_TEXT && to->column->kind != EC_COLUMN_BYTES)
        return 0;
    int64_t at = ec_column_learn(to, v.data, v.len_bytes, &rc);
    memo[1] = (uint64_t)at;
    return rc ? rc : at >= 0;
}

/* A field that the batch has as a dictionary: each distinct value is looked at once. *ret_done: rows that were added.
 */
static int fill_from_dictionary(const filling *f, size_t column, const ea_column *values, const uint32_t *index,
                                ec_column_buffer *to, uint32_t *ret_done, ea_err *err) {
    ec_event_columns *c = f->c;
    uint32_t i = 0;
    int rc = 1;
    if (EA_GROW(c->memo, c->memo_capacity, 2 * ((size_t)values->count + 1), SIZE_MAX))
        return EA_ENOMEM;
    memset(c->memo, 0, 2 * (size_t)values->count * sizeof *c->memo);
    while (i < f->count) {
        uint32_t place = index[f->selected[i]], run = 1;
        uint64_t *memo = &c->memo[2 * (size_t)place];
        while (i + run < f->count && index[f->selected[i + run]] == place)
            run++;
        if (*memo == MEMO_UNKNOWN)
            rc = event_columns_learn_value(f, column, values, place, to, memo, err);
        if (rc != 1)
            break;
        rc = *memo == MEMO_NULL ? ec_column_add_null(to, run) : ec_column_add_number(to, memo[1], run);
        if (rc)
            return rc;
        rc = 1;
        i += run;
    }
    *ret_done = i;
    return rc < 0 ? rc : 0;
}

/* A column of whole numbers of one width. */
static int fill_numbers(const filling *f, const ea_column *data, const ea_field *field, ec_column_buffer *to) {
    uint64_t *out = ec_column_append(to, f->count);
    if (!out)
        return EA_ENOMEM;
    for (uint32_t i = 0; i < f->count; i++)
        if (!ea_value_u64(field, data->data + f->selected[i] * data->stride, &out[i]))
            return EA_ECORRUPT;
    return 0;
}

static int fill_field(const filling *f, size_t column, ec_column_buffer *to, ea_err *err) {
    const ec_column *kind = &f->c->shape.columns[column];
    ea_column data;
    const ea_field *field;
    const uint32_t *index;
    uint32_t done = 0;
    int is_whole = to->column->kind == EC_COLUMN_SIGNED || to->column->kind == EC_COLUMN_UNSIGNED;
    if (ec_table_schema_field(&f->c->shape, f->b->c, column) < 0)
        return ec_column_add_null(to, f->count);
    int rc = kind->is_name ? 0 : ec_scan_dictionary(f->s, column, &data, &index, err);
    if (rc == 1) {
        rc = fill_from_dictionary(f, column, &data, index, to, &done, err);
        return rc ? rc : fill_each(f, column, done, to, err);
    }
    if (!rc && is_whole && !kind->is_name)
        rc = ec_scan_column(f->s, column, &data, &field, err);
    if (rc == 1 && data.width && data.width == field->width && kind->kind != EC_KIND_ANY)
        return fill_numbers(f, &data, field, to);
    if (rc < 0 && !ec_is_damage(rc))
        return rc;
    return fill_each(f, column, 0, to, err); /* damage is reported there */
}

int ec_event_columns_add(ec_event_columns *c, ec_scan *s, const ec_block *b, const uint32_t *selected, uint32_t count,
                         ec_column_buffer *buffers, ea_err *err) {
    const filling f = {.c = c, .s = s, .b = b, .selected = selected, .count = count};
    int rc = 0;
    for (uint32_t i = 0; i < c->count && !rc; i++) {
        ea_err why = {0};
        int common = c->shape.columns[c->of[i]].common;
        rc = common == EC_COMMON_COUNT ? fill_field(&f, c->of[i], &buffers[i], &why)
                                       : fill_common(&f, common, &buffers[i], &why);
        if (rc)
            rc = ea_fail(err, rc, "column %.200s: %.300s", c->columns[i].name, *why.message ? why.message : "");
    }
    return rc;
}
