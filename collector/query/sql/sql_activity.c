/* Tables of what happened over a stretch of time (activity.h): thread_times('2024-05-17T14:03:00Z', '...'), waits,
 * wakes, and so on. Their arguments, from and to, and of some every, may be left out; a host that is asked for with =
 * is asked for alone, and stacks by their hash are found at once, so that events can be joined to them. Called by:
 * sql.c. Calls: activity.c. Thread: the connection's. */
#include "collector/query/analysis/activity.h"
#include "collector/query/sql/sql_parts.h"
#include "proto/base/clock.h"

#include <string.h>

enum argument { FROM, TO, EVERY, HOST, HASH, ARGUMENT_COUNT };

typedef struct source {
    ec_sql *sql;
    enum ec_activity_kind kind;
} source;

typedef struct table {
    sqlite3_vtab base;
    ec_sql *sql;
    enum ec_activity_kind kind;
    int column_count; /* those of the kind; from, to and every follow */
    int hash_column;  /* -1: none */
} table;

typedef struct cursor {
    ec_sql_list list; /* of rows */
    ec_activity *activity;
    /* what it was asked for: the same again is not worked out again */
    int64_t times[3];     /* from, to, every */
    char *host;           /* NULL: all */
    const uint32_t *rows; /* of the list; NULL: all */
    ea_arena arena;
} cursor;

static int activity_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                            char **ret_message) {
    const source *from = aux;
    const ec_activity_table *spec = ec_activity_table_of(from->kind);
    ea_text columns;
    int n = 0;
    (void)argc, (void)argv;
    from->sql->names_functions |= ec_activity_names_functions(from->kind);
    from->sql->uses_history = 1; /* events are joined to the processes, threads and modules of their time */
    ea_text_init(&columns);
    for (; n < EC_ACTIVITY_COLUMNS && spec->columns[n].name; n++)
        ea_text_printf(&columns, "\"%s\" %s,", spec->columns[n].name, ec_kind_type(spec->columns[n].kind));
    ea_text_str(&columns, "\"from\" HIDDEN,\"to\" HIDDEN");
    if (spec->has_buckets)
        ea_text_str(&columns, ",\"every\" HIDDEN");
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(table), ret, ret_message);
    if (code != SQLITE_OK)
        return code;
    table *t = (table *)*ret;
    t->sql = from->sql;
    t->kind = from->kind;
    t->column_count = n;
    t->hash_column = ec_activity_hash_column(from->kind);
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    return SQLITE_OK;
}

static int activity_disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The plan: a letter for each argument of xFilter. */
static int activity_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const table *t = (const table *)base;
    char plan[ARGUMENT_COUNT + 1] = "";
    int next = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn, is_argument = column >= t->column_count;
        int is_hash = column >= 0 && column == t->hash_column;
        if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ || (!is_argument && !is_hash && column != 0))
            continue;
        if (!info->aConstraint[i].usable) {
            if (is_argument)
                return SQLITE_CONSTRAINT; /* out of a table that is read later */
            continue;
        }
        char letter = (char)('0' + (is_argument ? column - t->column_count : is_hash ? HASH : HOST));
        if (strchr(plan, letter) || (letter == '0' + HOST && !ec_sql_is_binary(info, i)))
            continue;
        plan[next] = letter;
        info->aConstraintUsage[i].argvIndex = ++next;
        info->aConstraintUsage[i].omit = (unsigned char)is_argument;
    }
    int is_found = strchr(plan, '0' + HASH) != NULL;
    info->estimatedCost = is_found ? 10 : 1e6;
    info->estimatedRows = is_found ? 2 : 1000;
    info->idxStr = sqlite3_mprintf("%s", plan);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int activity_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    return ec_sql_open_cursor(sizeof(cursor), offsetof(cursor, arena), ret);
}

static int activity_close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    ec_activity_destroy(c->activity);
    sqlite3_free(c->host);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* ns since 1970, or a text. */
static int sql_activity_take_time(ec_sql *s, sqlite3_value *v, int64_t *ret, ea_err *err) {
    const char *text = (const char *)sqlite3_value_text(v);
    if (sqlite3_value_type(v) == SQLITE_INTEGER) {
        *ret = sqlite3_value_int64(v);
        return ec_sql_check_ns(s, v, err);
    }
    int rc = ec_sql_read_time(s, text ? text : "", ret, err);
    return rc == EA_EINVAL ? ea_fail(err, EA_EUSAGE, "from and to: expected " EA_TIME_FORMS_OF_DATA) : rc;
}

/* The width of buckets: ns, or text such as '1s'. */
static int take_width(sqlite3_value *v, int64_t *ret, ea_err *err) {
    const char *text = (const char *)sqlite3_value_text(v);
    if (sqlite3_value_type(v) == SQLITE_INTEGER)
        *ret = sqlite3_value_int64(v);
    else if (!text || ea_duration_parse(text, ret))
        *ret = 0;
    return *ret > 0 ? 0 : ea_fail(err, EA_EUSAGE, "every: expected a duration such as '1s', or ns");
}

/* A host's name out of a condition: in the arena; NULL when no host is called so. */
static int take_host(ec_sql *s, cursor *c, sqlite3_value *from, const char **ret, ea_err *err) {
    ec_value v = {.type = EC_NULL};
    int rc = ec_sql_value(s, from, EC_KIND_TEXT, &c->arena, &v, err);
    *ret = NULL;
    if (rc || v.type != EC_TEXT)
        return rc;
    char *copy = ea_arena_alloc(&c->arena, v.len_bytes + 1);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "sum events up");
    memcpy(copy, v.data, v.len_bytes);
    copy[v.len_bytes] = 0;
    *ret = copy;
    return 0;
}

/* Works the table out, unless it was just asked for the same. */
static int activity_run(cursor *c, const table *t, const int64_t times[3], const char *host, ea_err *err) {
    int is_same_host = host ? c->host && strcmp(host, c->host) == 0 : !c->host;
    if (c->activity && is_same_host && memcmp(times, c->times, sizeof c->times) == 0)
        return 0;
    ec_activity_destroy(c->activity);
    sqlite3_free(c->host);
    c->activity = NULL;
    c->host = host ? sqlite3_mprintf("%s", host) : NULL;
    memcpy(c->times, times, sizeof c->times);
    if (host && !c->host)
        return ea_fail(err, EA_ENOMEM, "sum events up");
    return ec_activity_run(&c->activity, t->sql->archive, t->kind, host, times[FROM], times[TO], times[EVERY],
                           t->sql->options.namer, err);
}

static int activity_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    table *t = (table *)base->pVtab;
    int64_t times[3] = {INT64_MIN, INT64_MAX, 0};
    const char *host = t->sql->options.host, *asked = NULL;
    sqlite3_value *hash = NULL;
    ea_err err = {0};
    int rc = 0, is_nothing = 0;
    size_t count = 0;
    (void)number;
    c->list.at = c->list.count = 0;
    c->rows = NULL;
    ea_arena_reset(&c->arena);
    for (int i = 0; !rc && i < argc; i++) {
        enum argument which = (enum argument)(plan[i] - '0');
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL) {
            is_nothing |= which == HOST || which == HASH;
        } else if (which == HASH) { /* SQLite compares again, and compares a value that is no whole number itself */
            hash = sqlite3_value_type(argv[i]) == SQLITE_INTEGER ? argv[i] : NULL;
        } else if (which == HOST) {
            rc = take_host(t->sql, c, argv[i], &asked, &err);
            is_nothing |= !asked || (host && strcmp(host, asked) != 0);
            host = asked ? asked : host;
        } else if (which == EVERY) {
            rc = take_width(argv[i], &times[EVERY], &err);
        } else {
            rc = sql_activity_take_time(t->sql, argv[i], &times[which], &err);
        }
    }
    if (!rc && !is_nothing && times[FROM] > times[TO])
        rc = ea_fail(&err, EA_EUSAGE, "from and to: the range ends before it begins");
    if (!rc && !is_nothing && !(rc = activity_run(c, t, times, host, &err))) {
        count = ec_activity_count(c->activity);
        if (hash && (rc = ec_activity_find(c->activity, (uint64_t)sqlite3_value_int64(hash), &c->rows, &count)))
            rc = ea_fail(&err, rc, "sum events up");
    }
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    ec_sql_list_begin(t->sql, &c->list, count);
    return SQLITE_OK;
}

static size_t sql_activity_row_of(const cursor *c) {
    return c->rows ? c->rows[c->list.at] : c->list.at;
}

static int activity_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const cursor *c = (const cursor *)base;
    const table *t = (const table *)base->pVtab;
    ec_value v = {.type = EC_NULL};
    if (which < t->column_count)
        ec_activity_value(c->activity, sql_activity_row_of(c), (size_t)which, &v);
    ec_sql_result(context, &v);
    return SQLITE_OK;
}

/* The same row has the same number in every list: SQLite joins what several of them find (OR) by it. */
static int activity_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    const cursor *c = (const cursor *)base;
    *ret = (sqlite3_int64)ec_activity_number(c->activity, sql_activity_row_of(c));
    return SQLITE_OK;
}

static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = activity_connect,
    .xBestIndex = activity_best_index,
    .xDisconnect = activity_disconnect,
    .xOpen = activity_open_cursor,
    .xClose = activity_close_cursor,
    .xFilter = activity_filter,
    .xNext = ec_sql_list_next,
    .xEof = ec_sql_list_at_end,
    .xColumn = activity_column,
    .xRowid = activity_rowid,
};

int ec_sql_add_activity(ec_sql *s, ea_err *err) {
    int rc = 0;
    for (int i = 0; !rc && i < EC_ACTIVITY_KINDS; i++) {
        const source from = {s, (enum ec_activity_kind)i};
        rc = ec_sql_add_module(s, ec_activity_table_of(from.kind)->name, &MODULE, &from, sizeof from, err);
    }
    return rc;
}
