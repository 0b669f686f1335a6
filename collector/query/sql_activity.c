/* Tables of what happened over a stretch of time (activity.h): thread_times('2024-05-17T14:03:00Z', '...'), waits,
 * wakes, and so on. Their two arguments, from and to, may be left out; a host that is asked for with = is asked for
 * alone. Before it: sql.c. After it: activity.c. Thread: the connection's. */
#include "activity.h"
#include "clock.h"
#include "sql_parts.h"

#include <stdlib.h>
#include <string.h>

enum argument { FROM, TO, HOST, ARGUMENT_COUNT };

typedef struct source {
    ec_sql *sql;
    enum ec_activity_kind kind;
} source;

typedef struct table {
    sqlite3_vtab base;
    ec_sql *sql;
    enum ec_activity_kind kind;
    int column_count; /* those of the kind; from and to stand behind them */
    sqlite3_int64 rowid;
} table;

typedef struct cursor {
    sqlite3_vtab_cursor base;
    ec_activity *activity;
    size_t at, count;
    sqlite3_int64 first_rowid;
    ea_arena arena;
} cursor;

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_message) {
    const source *from = aux;
    const ec_activity_table *spec = ec_activity_table_of(from->kind);
    ea_text sql;
    int n = 0;
    (void)argc, (void)argv, (void)ret_message;
    ea_text_init(&sql);
    ea_text_str(&sql, "CREATE TABLE t(");
    for (; n < EC_ACTIVITY_COLUMNS && spec->columns[n].name; n++)
        ea_text_printf(&sql, "\"%s\" %s,", spec->columns[n].name, ec_kind_type(spec->columns[n].kind));
    ea_text_str(&sql, "\"from\" HIDDEN,\"to\" HIDDEN)");
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, sql.data);
    ea_text_deinit(&sql);
    table *t = code == SQLITE_OK ? sqlite3_malloc(sizeof *t) : NULL;
    if (!t)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    memset(t, 0, sizeof *t);
    t->sql = from->sql;
    t->kind = from->kind;
    t->column_count = n;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *ret = &t->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The plan: a letter for each argument of xFilter. */
static int best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const table *t = (const table *)base;
    char plan[ARGUMENT_COUNT + 1] = "";
    int next = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn, is_argument = column >= t->column_count;
        if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ || (!is_argument && column != 0))
            continue;
        if (!info->aConstraint[i].usable) {
            if (is_argument)
                return SQLITE_CONSTRAINT; /* out of a table that is read later */
            continue;
        }
        char letter = (char)('0' + (is_argument ? column - t->column_count : HOST));
        if (strchr(plan, letter) || (!is_argument && !ec_sql_is_binary(info, i)))
            continue;
        plan[next] = letter;
        info->aConstraintUsage[i].argvIndex = ++next;
        info->aConstraintUsage[i].omit = (unsigned char)is_argument;
    }
    info->estimatedCost = 1e6;
    info->estimatedRows = 1000;
    info->idxStr = sqlite3_mprintf("%s", plan);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    memset(c, 0, sizeof *c);
    ea_arena_init(&c->arena, 0);
    *ret = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    ec_activity_destroy(c->activity);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* ns since 1970, or RFC 3339. */
static int take_time(sqlite3_value *v, int64_t *ret, ea_err *err) {
    const char *text = (const char *)sqlite3_value_text(v);
    if (sqlite3_value_type(v) == SQLITE_INTEGER)
        *ret = sqlite3_value_int64(v);
    else if (!text || ea_utc_ns_parse(text, ret))
        return ea_fail(err, EA_EUSAGE, "from and to: expected a time such as '2024-05-17T14:03:07Z'");
    return 0;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    table *t = (table *)base->pVtab;
    int64_t times[2] = {INT64_MIN, INT64_MAX};
    const char *host = t->sql->options.host;
    ea_err err = {0};
    int rc = 0, is_nothing = 0;
    (void)number;
    ec_activity_destroy(c->activity);
    c->activity = NULL;
    c->at = c->count = 0;
    ea_arena_reset(&c->arena);
    for (int i = 0; !rc && i < argc; i++) {
        enum argument which = (enum argument)(plan[i] - '0');
        ec_value v = {.type = EC_NULL};
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL) {
            is_nothing |= which == HOST;
            continue;
        }
        if (which != HOST) {
            rc = take_time(argv[i], &times[which], &err);
            continue;
        }
        rc = ec_sql_value(argv[i], EC_KIND_TEXT, &c->arena, &v, &err);
        if (!rc && v.type == EC_TEXT) {
            char *copy = ea_arena_alloc(&c->arena, v.len_bytes + 1);
            if (!copy) {
                rc = ea_fail(&err, EA_ENOMEM, "sum events up");
                break;
            }
            memcpy(copy, v.data, v.len_bytes);
            copy[v.len_bytes] = 0;
            is_nothing |= host && strcmp(host, copy) != 0;
            host = copy;
        }
    }
    if (!rc && !is_nothing)
        rc = ec_activity_run(&c->activity, t->sql->archive, t->kind, host, times[FROM], times[TO], &err);
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    c->count = c->activity ? ec_activity_count(c->activity) : 0;
    c->first_rowid = t->rowid;
    t->rowid += (sqlite3_int64)c->count;
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base) {
    ((cursor *)base)->at++;
    return SQLITE_OK;
}
static int at_end(sqlite3_vtab_cursor *base) {
    const cursor *c = (const cursor *)base;
    return c->at >= c->count;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const cursor *c = (const cursor *)base;
    const table *t = (const table *)base->pVtab;
    ec_value v = {.type = EC_NULL};
    if (which < t->column_count)
        ec_activity_value(c->activity, c->at, (size_t)which, &v);
    ec_sql_result(context, &v);
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    const cursor *c = (const cursor *)base;
    *ret = c->first_rowid + (sqlite3_int64)c->at;
    return SQLITE_OK;
}

static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = at_end,
    .xColumn = column,
    .xRowid = rowid,
};

int ec_sql_add_activity(ec_sql *s, ea_err *err) {
    for (int i = 0; i < EC_ACTIVITY_KINDS; i++) {
        const char *name = ec_activity_table_of((enum ec_activity_kind)i)->name;
        source *from = malloc(sizeof *from);
        if (!from)
            return ea_fail(err, EA_ENOMEM, "add the table %s", name);
        *from = (source){s, (enum ec_activity_kind)i};
        if (sqlite3_create_module_v2(s->db, name, &MODULE, from, free) != SQLITE_OK)
            return ea_fail(err, EA_ENOMEM, "add the table %s: %s", name, sqlite3_errmsg(s->db));
    }
    return 0;
}
