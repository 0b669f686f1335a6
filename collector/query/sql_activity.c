/* Tables of what happened over a stretch of time (activity.h): thread_times('2024-05-17T14:03:00Z', '...'), waits,
 * wakes, and so on. Their two arguments, from and to, may be left out; a host that is asked for with = is asked for
 * alone. Before it: sql.c. After it: activity.c. Thread: the connection's. */
#include "activity.h"
#include "clock.h"
#include "sql_parts.h"

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
} table;

typedef struct cursor {
    ec_sql_list list; /* of rows */
    ec_activity *activity;
    ea_arena arena;
} cursor;

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_message) {
    const source *from = aux;
    const ec_activity_table *spec = ec_activity_table_of(from->kind);
    ea_text columns;
    int n = 0;
    (void)argc, (void)argv;
    ea_text_init(&columns);
    for (; n < EC_ACTIVITY_COLUMNS && spec->columns[n].name; n++)
        ea_text_printf(&columns, "\"%s\" %s,", spec->columns[n].name, ec_kind_type(spec->columns[n].kind));
    ea_text_str(&columns, "\"from\" HIDDEN,\"to\" HIDDEN");
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(table), ret, ret_message);
    if (code != SQLITE_OK)
        return code;
    table *t = (table *)*ret;
    t->sql = from->sql;
    t->kind = from->kind;
    t->column_count = n;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
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
    cursor *c = ec_sql_zalloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    ea_arena_init(&c->arena, 0);
    *ret = &c->list.base;
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
    c->list.at = c->list.count = 0;
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
    ec_sql_list_begin(t->sql, &c->list, c->activity ? ec_activity_count(c->activity) : 0);
    return SQLITE_OK;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const cursor *c = (const cursor *)base;
    const table *t = (const table *)base->pVtab;
    ec_value v = {.type = EC_NULL};
    if (which < t->column_count)
        ec_activity_value(c->activity, c->list.at, (size_t)which, &v);
    ec_sql_result(context, &v);
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
    .xNext = ec_sql_list_next,
    .xEof = ec_sql_list_at_end,
    .xColumn = column,
    .xRowid = ec_sql_list_rowid,
};

int ec_sql_add_activity(ec_sql *s, ea_err *err) {
    int rc = 0;
    for (int i = 0; !rc && i < EC_ACTIVITY_KINDS; i++) {
        const source from = {s, (enum ec_activity_kind)i};
        rc = ec_sql_add_module(s, ec_activity_table_of(from.kind)->name, &MODULE, &from, sizeof from, err);
    }
    return rc;
}
