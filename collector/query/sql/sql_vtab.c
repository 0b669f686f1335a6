/* What the virtual tables have in common: how they are added, declared, planned and listed, and how conditions and
 * values go to and fro. See sql_parts.h. Used by: sql_events.c, sql_aggregate.c, sql_activity.c, sql_tables.c. Thread:
 * the connection's. */
#include "collector/query/sql/sql_parts.h"

#include <stdlib.h>
#include <string.h>

void *ec_sql_zalloc(size_t len_bytes) {
    void *p = sqlite3_malloc64(len_bytes);
    if (p)
        memset(p, 0, len_bytes);
    return p;
}

int ec_sql_open_cursor(size_t cursor_bytes, size_t arena_offset, sqlite3_vtab_cursor **ret) {
    char *c = ec_sql_zalloc(cursor_bytes);
    if (!c)
        return SQLITE_NOMEM;
    ea_arena_init((ea_arena *)(void *)(c + arena_offset), 0);
    *ret = (sqlite3_vtab_cursor *)(void *)c;
    return SQLITE_OK;
}

int ec_sql_add_module(ec_sql *s, const char *name, const sqlite3_module *module, const void *from, size_t from_bytes,
                      ea_err *err) {
    void *copy = malloc(from_bytes);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "add the table %s", name);
    memcpy(copy, from, from_bytes);
    if (sqlite3_create_module_v2(s->db, name, module, copy, free) != SQLITE_OK) /* which frees it then, too */
        return ea_fail(err, EA_ENOMEM, "add the table %s: %s", name, sqlite3_errmsg(s->db));
    return 0;
}

int ec_sql_make_table(sqlite3 *db, int rc, const ea_err *why, ea_text *columns, size_t table_bytes, sqlite3_vtab **ret,
                      char **ret_message) {
    sqlite3_vtab *t = NULL;
    ea_text sql;
    ea_text_init(&sql);
    ea_text_printf(&sql, "CREATE TABLE t(%s)", columns->len_bytes ? columns->data : "");
    int code = rc == EA_ENOMEM || columns->failed || sql.failed ? SQLITE_NOMEM : rc ? SQLITE_ERROR : SQLITE_OK;
    if (code == SQLITE_OK)
        code = sqlite3_declare_vtab(db, sql.data);
    if (code == SQLITE_OK)
        code = (t = ec_sql_zalloc(table_bytes)) ? SQLITE_OK : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        *ret = t;
    else
        *ret_message = sqlite3_mprintf("%s", rc ? why->message : sqlite3_errmsg(db));
    ea_text_deinit(columns);
    ea_text_deinit(&sql);
    return code;
}

int ec_sql_set_plan(sqlite3_index_info *info, ea_text *plan) {
    if (!plan->failed && plan->len_bytes) {
        info->idxStr = sqlite3_mprintf("%s", plan->data);
        info->needToFreeIdxStr = 1;
    }
    int failed = plan->failed || (plan->len_bytes && !info->idxStr);
    ea_text_deinit(plan);
    return failed ? SQLITE_NOMEM : SQLITE_OK;
}

int ec_sql_fail(sqlite3_vtab *table, const ea_err *err) {
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = NULL;
    if (err->code == EA_ENOMEM)
        return SQLITE_NOMEM;
    if (err->code == EA_ECANCELED)
        return SQLITE_INTERRUPT;
    table->zErrMsg = sqlite3_mprintf("%s", err->message);
    return SQLITE_ERROR;
}

void ec_sql_result(sqlite3_context *context, const ec_value *v) {
    switch (v->type) {
    case EC_INT:
        sqlite3_result_int64(context, v->i);
        break;
    case EC_REAL:
        sqlite3_result_double(context, v->r);
        break;
    case EC_TEXT:
        sqlite3_result_text64(context, v->data, v->len_bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case EC_BLOB:
        sqlite3_result_blob64(context, v->len_bytes ? v->data : "", v->len_bytes, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_result_null(context);
    }
}

void ec_sql_add_name(ea_text *t, const char *name) {
    ea_text_char(t, '"');
    for (; *name; name++) {
        if (*name == '"')
            ea_text_char(t, '"');
        ea_text_char(t, *name);
    }
    ea_text_char(t, '"');
}

/* ---- conditions ---- */

int ec_sql_op(int op, enum ec_op *ret) {
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        *ret = EC_OP_EQ;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_LT:
        *ret = EC_OP_LT;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_LE:
        *ret = EC_OP_LE;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_GT:
        *ret = EC_OP_GT;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_GE:
        *ret = EC_OP_GE;
        return 1;
    default:
        return 0;
    }
}

int ec_sql_is_binary(sqlite3_index_info *info, int i) {
    const char *collation = sqlite3_vtab_collation(info, i);
    return collation && sqlite3_stricmp(collation, "BINARY") == 0;
}

int ec_sql_check_ns(const ec_sql *s, sqlite3_value *v, ea_err *err) {
    int type = sqlite3_value_numeric_type(v);
    return s->options.is_written && (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
               ? ec_data_check_ns(sqlite3_value_double(v), err)
               : 0;
}

int ec_sql_value(ec_sql *s, sqlite3_value *from, enum ec_kind kind, ea_arena *arena, ec_value *ret, ea_err *err) {
    /* a number's column turns a text that is one into it before it compares; so does this */
    int is_number = kind != EC_KIND_TEXT && kind != EC_KIND_BLOB && kind != EC_KIND_ANY;
    int type = is_number && kind != EC_KIND_ADDRESS ? sqlite3_value_numeric_type(from) : sqlite3_value_type(from);
    *ret = (ec_value){.type = EC_NULL};
    switch (type) {
    case SQLITE_INTEGER:
        *ret = (ec_value){.type = EC_INT, .i = sqlite3_value_int64(from)};
        return 0;
    case SQLITE_FLOAT:
        *ret = (ec_value){.type = EC_REAL, .r = sqlite3_value_double(from)};
        return 0;
    case SQLITE_NULL:
        return 0;
    default:
        break;
    }
    const void *data = type == SQLITE_TEXT ? (const void *)sqlite3_value_text(from) : sqlite3_value_blob(from);
    size_t n = (size_t)sqlite3_value_bytes(from);
    if (type == SQLITE_TEXT && kind == EC_KIND_TIME) {
        ret->type = EC_INT;
        return ec_sql_time(s, data, &ret->i, err);
    }
    if (type == SQLITE_TEXT && kind == EC_KIND_ADDRESS) {
        ret->type = EC_INT;
        return ec_sql_address(data, &ret->i, err);
    }
    ret->type = type == SQLITE_TEXT ? EC_TEXT : EC_BLOB;
    ret->data = ea_arena_copy(arena, n ? data : "", n);
    ret->len_bytes = n;
    return ret->data ? 0 : ea_fail(err, EA_ENOMEM, "compare a column");
}

int ec_sql_check_part(sqlite3_index_info *info, int i, enum ec_kind kind, const char *column, ea_err *err) {
    sqlite3_value *written = NULL;
    switch (info->aConstraint[i].op) {
    case SQLITE_INDEX_CONSTRAINT_LIKE:
    case SQLITE_INDEX_CONSTRAINT_GLOB:
    case SQLITE_INDEX_CONSTRAINT_REGEXP:
    case SQLITE_INDEX_CONSTRAINT_MATCH:
        return kind != EC_KIND_TIME
                   ? 0
                   : ea_fail(err, EA_EUSAGE, "%.60s is a number of ns since 1970: look for parts of time_text(%.60s)",
                             column, column);
    case SQLITE_INDEX_CONSTRAINT_EQ:
    case SQLITE_INDEX_CONSTRAINT_NE:
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        if (sqlite3_vtab_rhs_value(info, i, &written) != SQLITE_OK)
            return 0;
        if (kind == EC_KIND_ADDRESS && sqlite3_value_type(written) == SQLITE_INTEGER)
            return ea_fail(err, EA_EUSAGE, EC_SQL_NO_ADDRESS, column, (const char *)sqlite3_value_text(written));
        if ((kind != EC_KIND_INT && kind != EC_KIND_HEX && kind != EC_KIND_REAL) ||
            sqlite3_value_type(written) != SQLITE_TEXT || ec_sql_is_number((const char *)sqlite3_value_text(written)))
            return 0;
        return ea_fail(err, EA_EUSAGE, EC_SQL_NO_NUMBER, (const char *)sqlite3_value_text(written));
    default:
        return 0;
    }
}

const char *ec_sql_hex(sqlite3_index_info *info, int i) {
    sqlite3_value *written = NULL;
    const char *text = NULL;
    if (sqlite3_vtab_rhs_value(info, i, &written) == SQLITE_OK && sqlite3_value_type(written) == SQLITE_TEXT)
        text = (const char *)sqlite3_value_text(written);
    return text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? text : NULL;
}

enum { PLAN_IN = 1, PLAN_HEX = 2 };

void ec_sql_plan_condition(ea_text *plan, sqlite3_index_info *info, int i, int column, enum ec_op op) {
    int how = ec_sql_hex(info, i) ? PLAN_HEX : 0;
#if SQLITE_VERSION_NUMBER >= 3038000
    if (op == EC_OP_EQ && sqlite3_vtab_in(info, i, 1))
        how |= PLAN_IN;
#endif
    ea_text_printf(plan, "%d,%d,%d ", column, (int)op, how);
}

size_t ec_sql_plan_number(const char **plan) {
    size_t n = 0;
    for (; **plan >= '0' && **plan <= '9'; ++*plan)
        n = n * 10 + (size_t)(**plan - '0');
    ++*plan; /* a comma or a space */
    return n;
}

int ec_sql_condition(ec_sql *s, const char **plan, sqlite3_value *from, const ec_table_schema *shape, size_t column,
                     ea_arena *arena, ec_condition *ret, ea_err *err) {
    enum ec_kind kind = shape->columns[column].kind;
    size_t capacity = 1, n = 0;
    enum ec_op op = (enum ec_op)ec_sql_plan_number(plan);
    size_t how = ec_sql_plan_number(plan);
    int in = (how & PLAN_IN) != 0;
    ec_value *values = ea_arena_alloc(arena, capacity * sizeof *values);
    int rc = values ? 0 : ea_fail(err, EA_ENOMEM, "compare a column");
    /* 0x10 is written like '0x10' for sqlite3_vtab_rhs_value, and arrives as a number */
    if (!rc && (how & PLAN_HEX) && kind == EC_KIND_ADDRESS && sqlite3_value_type(from) == SQLITE_INTEGER)
        rc = ea_fail(err, EA_EUSAGE, EC_SQL_NO_ADDRESS, shape->columns[column].name,
                     (const char *)sqlite3_value_text(from));
    if (!rc && !in && kind == EC_KIND_TIME)
        rc = ec_sql_check_ns(s, from, err);
    if (!rc && !in)
        rc = ec_sql_value(s, from, kind, arena, &values[n++], err);
#if SQLITE_VERSION_NUMBER >= 3038000
    sqlite3_value *item = NULL;
    for (int code = rc || !in ? SQLITE_DONE : sqlite3_vtab_in_first(from, &item); !rc && code == SQLITE_OK && item;
         code = sqlite3_vtab_in_next(from, &item)) {
        if (n == capacity) {
            ec_value *bigger = ea_arena_alloc(arena, 2 * capacity * sizeof *bigger);
            if (!bigger)
                return ea_fail(err, EA_ENOMEM, "compare a column");
            memcpy(bigger, values, n * sizeof *values);
            values = bigger;
            capacity *= 2;
        }
        rc = kind == EC_KIND_TIME ? ec_sql_check_ns(s, item, err) : 0;
        if (!rc)
            rc = ec_sql_value(s, item, kind, arena, &values[n++], err);
    }
#endif
    *ret = (ec_condition){.column = column, .op = op, .values = values, .value_count = n};
    return rc;
}

/* What part of the rows a condition may leave. */
static double vtab_share(const ec_column *c, enum ec_op op) {
    switch (c->common) {
    case EC_NAME:
    case EC_PROVIDER_NAME:
        return 0.06;
    case EC_TIME:
        return op == EC_OP_EQ ? 1e-5 : 0.25;
    case EC_PID:
    case EC_TID:
        return op == EC_OP_EQ ? 0.03 : 0.5;
    case EC_HOST:
    case EC_STREAM:
        return 0.2;
    default:
        return op == EC_OP_EQ ? 0.05 : 0.4;
    }
}

void ec_sql_share(const ec_column *c, enum ec_op op, double *rows, double *decoded) {
    *rows *= vtab_share(c, op);
    switch (c->common) {
    case EC_NAME: /* what is skipped before it is decoded */
    case EC_PROVIDER_NAME:
    case EC_TIME:
    case EC_PID:
    case EC_HOST:
    case EC_STREAM:
    case EC_BATCH:
        *decoded *= vtab_share(c, op);
        break;
    default:
        break;
    }
}

/* ---- tables of events' columns ---- */

int ec_sql_shaped_connect(sqlite3 *db, const ec_sql_source *from,
                          int (*add_columns)(ea_text *to, const ec_table_schema *shape), size_t own_count,
                          sqlite3_vtab **ret, char **ret_message) {
    ea_err err = {0};
    ea_text columns;
    ec_table_schema shape = {0};
    size_t streams = 0;
    double rows = 0;
    const ec_archive_stream *s = NULL;
    int rc = ec_archive_streams(from->sql->archive, &s, &streams, &err);
    for (size_t i = 0; i < streams; i++)
        rows += (double)s[i].row.event_count;
    if (!rc)
        rc = ec_table_schema_init(&shape, from->set, &err);
    ea_text_init(&columns);
    if (!rc)
        rc = add_columns(&columns, &shape);
    int code = ec_sql_make_table(db, rc, &err, &columns, sizeof(ec_sql_shaped), ret, ret_message);
    if (code != SQLITE_OK) {
        ec_table_schema_deinit(&shape);
        return code;
    }
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    ec_sql_shaped *t = (ec_sql_shaped *)*ret;
    t->sql = from->sql;
    t->shape = shape;
    t->own_count = own_count;
    t->rows = rows;
    t->next = t->sql->shaped;
    t->sql->shaped = t;
    return SQLITE_OK;
}

int ec_sql_shaped_disconnect(sqlite3_vtab *base) {
    ec_sql_shaped *t = (ec_sql_shaped *)base;
    for (ec_sql_shaped **p = &t->sql->shaped; *p; p = &(*p)->next)
        if (*p == t) {
            *p = t->next;
            break;
        }
    ec_table_schema_deinit(&t->shape);
    sqlite3_free(t);
    return SQLITE_OK;
}

/* ---- tables with fixed columns, and the kinds of columns ---- */

void ec_sql_typed_connect(ec_sql *s, ec_sql_typed *t, const enum ec_kind *kinds, size_t count) {
    t->sql = s;
    t->kinds = kinds;
    t->count = count;
    t->next = s->typed;
    s->typed = t;
}

void ec_sql_typed_disconnect(ec_sql_typed *t) {
    for (ec_sql_typed **p = &t->sql->typed; *p; p = &(*p)->next)
        if (*p == t) {
            *p = t->next;
            break;
        }
}

int ec_sql_is_list_of_addresses(sqlite3_index_info *info, int i, enum ec_kind kind) {
#if SQLITE_VERSION_NUMBER >= 3038000
    return kind == EC_KIND_ADDRESS && sqlite3_vtab_in(info, i, -1);
#else
    (void)info, (void)i, (void)kind;
    return 0;
#endif
}

/* ---- lists ---- */

void ec_sql_list_begin(ec_sql *s, ec_sql_list *list, size_t count) {
    list->at = 0;
    list->count = count;
    list->first_rowid = s->rows_given;
    s->rows_given += (sqlite3_int64)count;
}

int ec_sql_list_next(sqlite3_vtab_cursor *base) {
    ((ec_sql_list *)base)->at++;
    return SQLITE_OK;
}

int ec_sql_list_at_end(sqlite3_vtab_cursor *base) {
    const ec_sql_list *list = (const ec_sql_list *)base;
    return list->at >= list->count;
}

int ec_sql_list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    const ec_sql_list *list = (const ec_sql_list *)base;
    *ret = list->first_rowid + (sqlite3_int64)list->at;
    return SQLITE_OK;
}
