/* What the virtual tables have in common: how they are added, declared, planned and listed. See sql_parts.h.
 * Before it: sql_events.c, sql_aggregate.c, sql_activity.c, sql_tables.c. Thread: the connection's. */
#include "sql_parts.h"

#include <stdlib.h>
#include <string.h>

void *ec_sql_zalloc(size_t len_bytes) {
    void *p = sqlite3_malloc64(len_bytes);
    if (p)
        memset(p, 0, len_bytes);
    return p;
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

/* ---- tables of events' columns ---- */

int ec_sql_shaped_connect(sqlite3 *db, const ec_sql_source *from,
                          int (*add_columns)(ea_text *to, const ec_shape *shape), sqlite3_vtab **ret,
                          char **ret_message) {
    ea_err err = {0};
    ea_text columns;
    ec_shape shape = {0};
    size_t streams = 0;
    double rows = 0;
    const ec_archive_stream *s = NULL;
    int rc = ec_archive_streams(from->sql->archive, &s, &streams, &err);
    for (size_t i = 0; i < streams; i++)
        rows += (double)s[i].row.event_count;
    if (!rc)
        rc = ec_shape_init(&shape, from->set, &err);
    ea_text_init(&columns);
    if (!rc)
        rc = add_columns(&columns, &shape);
    int code = ec_sql_make_table(db, rc, &err, &columns, sizeof(ec_sql_shaped), ret, ret_message);
    if (code != SQLITE_OK) {
        ec_shape_deinit(&shape);
        return code;
    }
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    ec_sql_shaped *t = (ec_sql_shaped *)*ret;
    t->sql = from->sql;
    t->shape = shape;
    t->rows = rows;
    return SQLITE_OK;
}

int ec_sql_shaped_disconnect(sqlite3_vtab *base) {
    ec_sql_shaped *t = (ec_sql_shaped *)base;
    ec_shape_deinit(&t->shape);
    sqlite3_free(t);
    return SQLITE_OK;
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
