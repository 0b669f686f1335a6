/* The table that a GROUP BY was replaced by (sql_push.c): a row is a group of events, counted by a native scan
 * (group_events.h). Called by: sql_push.c, SQLite. Calls: group_events.c, SQLite. Thread: the connection's.
 *
 * Rows are in the order of the keys, as those of SQLite's own GROUP BY are. Where SQLite's result would depend on the
 * order of events (a sum beyond 64 bits, an average of numbers that doubles do not hold), where groups need more memory
 * than the limit, and where a value is compared that the scan cannot keep exactly, SQLite groups the same events
 * itself, in a statement of its own: it sorts in temporary files, and its arithmetic is what the answer is defined by.
 */
#include "collector/query/sql/sql_groups.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_PARTS = 4, MEMORY_DEFAULT = 256 << 20, SHOWN_BYTES = 100 };

#define EXACT_IN_DOUBLES (UINT64_C(1) << 53)

typedef struct table {
    sqlite3_vtab base;
    ec_sql_groups *groups;
} table;

typedef struct cursor {
    ec_sql_list list; /* of groups; of a plain statement its rows, of which one is at hand */
    ec_grouping *grouping;
    sqlite3_stmt *plain; /* NULL: the groups are native */
    ea_arena arena;      /* the values of the conditions */
} cursor;

static const char *const FUNCTIONS[] = {"count", "count", "count", "sum", "total", "avg", "min", "max"};

void ec_sql_groups_destroy(void *groups) {
    ec_sql_groups *g = groups;
    if (!g)
        return;
    ec_table_schema_deinit(&g->shape);
    ec_filter_deinit(&g->filter);
    free(g->name);
    free(g->table);
    free(g);
}

/* ---- the plain statement ---- */

/* Where the expression begins whose last step is `last`. */
static size_t sql_groups_begin_of(const ec_grouping_key *k, size_t last) {
    if (k->steps[last].what == EC_STEP_COLUMN || k->steps[last].what == EC_STEP_NUMBER || last == 0)
        return last;
    size_t right = sql_groups_begin_of(k, last - 1);
    return right ? sql_groups_begin_of(k, right - 1) : 0;
}

static void put_steps(ea_text *to, const ec_sql_groups *g, const ec_grouping_key *k, size_t last) {
    const ec_grouping_step *step = &k->steps[last];
    if (step->what == EC_STEP_COLUMN) {
        ec_sql_add_name(to, g->shape.columns[step->number].name);
    } else if (step->what == EC_STEP_NUMBER || last < 2) {
        ea_text_i64(to, step->number);
    } else {
        size_t right = sql_groups_begin_of(k, last - 1);
        ea_text_char(to, '(');
        put_steps(to, g, k, right ? right - 1 : 0);
        ea_text_char(to, "+-*/%"[step->what - EC_STEP_ADD]);
        put_steps(to, g, k, last - 1);
        ea_text_char(to, ')');
    }
}

static void groups_put_key(ea_text *to, const ec_sql_groups *g, const ec_grouping_key *k) {
    if (k->step_count) {
        put_steps(to, g, k, k->step_count - 1);
        return;
    }
    if (k->width_ns)
        ea_text_str(to, "time_bucket(");
    ec_sql_add_name(to, g->shape.columns[k->column].name);
    if (k->width_ns)
        ea_text_printf(to, ",%lld)", (long long)k->width_ns);
}

static void put_measure(ea_text *to, const ec_sql_groups *g, size_t i) {
    const ec_sql_measure *m = &g->measures[i];
    ea_text_printf(to, "%s(", FUNCTIONS[m->kind]);
    if (m->kind == EC_SQL_COUNT_DISTINCT)
        ea_text_str(to, "DISTINCT ");
    if (m->kind == EC_SQL_COUNT_ALL)
        ea_text_char(to, '*');
    else
        groups_put_key(to, g, &m->of);
    ea_text_char(to, ')');
}

/* The measure of a group of one event. */
static void sql_groups_put_event(ea_text *to, const ec_sql_groups *g, size_t i) {
    const ec_sql_measure *m = &g->measures[i];
    if (m->kind == EC_SQL_COUNT_ALL)
        ea_text_char(to, '1');
    else
        groups_put_key(to, g, &m->of);
    if (m->kind == EC_SQL_COUNT)
        ea_text_str(to, " NOTNULL");
}

static const char *operator_text(enum ec_op op) {
    static const char *const TEXTS[] = {
        [EC_OP_EQ] = "=", [EC_OP_LT] = "<", [EC_OP_LE] = "<=", [EC_OP_GT] = ">", [EC_OP_GE] = ">="};
    return TEXTS[op];
}

static void put_condition(ea_text *to, const ec_sql_groups *g, const ec_condition *c) {
    ec_sql_add_name(to, g->shape.columns[c->column].name);
    if (c->op != EC_OP_EQ || c->value_count == 1) {
        ea_text_printf(to, "%s?", operator_text(c->op));
        return;
    }
    ea_text_str(to, " IN (");
    for (size_t i = 0; i < c->value_count; i++)
        ea_text_str(to, i ? ",?" : "?");
    ea_text_char(to, ')');
}

static int bind_value(sqlite3_stmt *st, int at, const ec_value *v) {
    switch (v->type) {
    case EC_INT:
        return sqlite3_bind_int64(st, at, v->i);
    case EC_REAL:
        return sqlite3_bind_double(st, at, v->r);
    case EC_TEXT:
        return sqlite3_bind_text64(st, at, v->data, v->len_bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
    case EC_BLOB:
        return sqlite3_bind_blob64(st, at, v->data, v->len_bytes, SQLITE_TRANSIENT);
    default:
        return sqlite3_bind_null(st, at);
    }
}

void ec_sql_groups_put_from(ea_text *to, const ec_sql_groups *g, const ec_condition *conditions, size_t count) {
    ea_text_str(to, " FROM ");
    ec_sql_add_name(to, g->table);
    if (g->filter.alias) {
        ea_text_str(to, " AS ");
        ec_sql_add_name(to, g->filter.alias);
    }
    for (size_t i = 0; i < count; i++) {
        ea_text_str(to, i ? " AND " : " WHERE ");
        put_condition(to, g, &conditions[i]);
    }
    for (size_t i = 0; i < g->filter.root_count; i++)
        ea_text_printf(to, "%s+(%s)", i || count ? " AND " : " WHERE ", g->filter.texts[i]);
}

int ec_sql_groups_bind(sqlite3_stmt *st, const ec_condition *conditions, size_t count) {
    int at = 1, code = SQLITE_OK;
    for (size_t i = 0; code == SQLITE_OK && i < count; i++)
        for (size_t k = 0; code == SQLITE_OK && k < conditions[i].value_count; k++)
            code = bind_value(st, at++, &conditions[i].values[k]);
    return code;
}

/* A failure of the plain statement is the table's. */
static int plain_failed(cursor *c, int code) {
    const table *t = (const table *)c->list.base.pVtab;
    sqlite3_vtab *base = c->list.base.pVtab;
    sqlite3_free(base->zErrMsg);
    base->zErrMsg = code == SQLITE_NOMEM ? NULL : sqlite3_mprintf("%s", sqlite3_errmsg(t->groups->sql->db));
    return code == SQLITE_OK ? SQLITE_ERROR : code;
}

static int plain_step(cursor *c) {
    int code = sqlite3_step(c->plain);
    c->list.at = 0;
    c->list.count = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : plain_failed(c, code);
}

/* Groups as SQLite does, or, where these are added up again, gives each event as a group: begins the statement. */
static int plain_begin(cursor *c, const ec_condition *conditions, size_t count) {
    const ec_sql_groups *g = ((const table *)c->list.base.pVtab)->groups;
    ea_text sql;
    ea_text_init(&sql);
    ea_text_str(&sql, "SELECT ");
    for (size_t i = 0; i < g->key_count; i++) {
        ea_text_str(&sql, i ? "," : "");
        groups_put_key(&sql, g, &g->keys[i]);
    }
    for (size_t i = 0; i < g->measure_count; i++) {
        ea_text_str(&sql, i || g->key_count ? "," : "");
        if (g->is_partial)
            sql_groups_put_event(&sql, g, i);
        else
            put_measure(&sql, g, i);
    }
    ec_sql_groups_put_from(&sql, g, conditions, count);
    for (size_t i = 0; !g->is_partial && i < g->key_count; i++)
        ea_text_printf(&sql, "%s%zu", i ? "," : " GROUP BY ", i + 1);
    for (size_t i = 0; !g->is_partial && i < g->key_count; i++)
        ea_text_printf(&sql, "%s%zu%s", i ? "," : " ORDER BY ", i + 1, g->keys[i].is_descending ? " DESC" : "");
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v3(g->sql->db, sql.data, -1, 0, &c->plain, NULL);
    ea_text_deinit(&sql);
    if (code == SQLITE_OK)
        code = ec_sql_groups_bind(c->plain, conditions, count);
    ec_sql_list_begin(g->sql, &c->list, 0);
    return code == SQLITE_OK ? plain_step(c) : plain_failed(c, code);
}

/* ---- the table ---- */

void ec_sql_groups_put_compared(ea_text *columns, const ec_sql_groups *g) {
    for (size_t i = 0; i < g->condition_count; i++)
        ea_text_printf(columns, ",\"" EC_SQL_GROUPS_PREFIX "if %zu)\" %s HIDDEN", i,
                       ec_kind_type(g->shape.columns[g->compared[i]].kind));
}

static int groups_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                          char **ret_message) {
    ec_sql_groups *g = aux;
    ea_text columns;
    (void)argc, (void)argv;
    ea_text_init(&columns);
    for (size_t i = 0; i < g->key_count; i++)
        ea_text_printf(&columns, "%s\"" EC_SQL_GROUPS_PREFIX "key %zu)\" %s", i ? "," : "", i,
                       ec_grouping_is_computed(&g->keys[i]) ? ""
                                                            : ec_kind_type(g->shape.columns[g->keys[i].column].kind));
    for (size_t i = 0; i < g->measure_count; i++)
        ea_text_printf(&columns, "%s\"" EC_SQL_GROUPS_PREFIX "value %zu)\"", i || g->key_count ? "," : "", i);
    ec_sql_groups_put_compared(&columns, g);
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(table), ret, ret_message);
    if (code == SQLITE_OK) {
        sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
        ((table *)*ret)->groups = g;
    }
    return code;
}

static int groups_disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The plan: what EXPLAIN QUERY PLAN shows, a '|', and the conditions for xFilter. A condition that the scan would not
 * keep makes the statement unusable: it is then run as it was written. */
int ec_sql_groups_plan(ec_sql_groups *g, sqlite3_index_info *info, size_t first) {
    int next = 1;
    ea_text plan, kept;
    ea_text_init(&plan);
    ea_text_init(&kept);
    if (g->is_rows) /* which the statement calls by another name */
        ea_text_printf(&plan, "%s%s", g->name, info->nConstraint ? " " : "");
    for (int i = 0; i < info->nConstraint; i++) {
        enum ec_op op;
        int which = info->aConstraint[i].iColumn - (int)first;
        if (which < 0)
            continue;
        size_t column = g->compared[which];
        const ec_column *c = &g->shape.columns[column];
        if (!info->aConstraint[i].usable || !ec_sql_op(info->aConstraint[i].op, &op) ||
            !ec_scan_keeps(&g->shape, column, op) || (c->kind == EC_KIND_TEXT && !ec_sql_is_binary(info, i)) ||
            i >= EC_SQL_CONDITIONS_MAX) {
            ea_text_deinit(&plan);
            ea_text_deinit(&kept);
            return SQLITE_CONSTRAINT;
        }
        ea_text_printf(&plan, "%s%.60s %s", next == 1 ? "where " : ", ", c->name, operator_text(op));
        ec_sql_plan_condition(&kept, info, i, which, op);
        info->aConstraintUsage[i].argvIndex = next++;
        info->aConstraintUsage[i].omit = 1;
    }
    g->kept_count = (size_t)next - 1;
    ea_text_printf(&plan, "|%s", kept.data ? kept.data : "");
    plan.failed |= kept.failed;
    ea_text_deinit(&kept);
    info->estimatedCost = 1000;
    info->estimatedRows = 1000;
    return ec_sql_set_plan(info, &plan);
}

static int groups_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    ec_sql_groups *g = ((table *)base)->groups;
    return ec_sql_groups_plan(g, info, g->key_count + g->measure_count);
}

static int groups_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    return ec_sql_open_cursor(sizeof(cursor), offsetof(cursor, arena), ret);
}

static void groups_clear(cursor *c) {
    ec_grouping_destroy(c->grouping);
    c->grouping = NULL;
    sqlite3_finalize(c->plain);
    c->plain = NULL;
    c->list.count = c->list.at = 0;
    ea_arena_reset(&c->arena);
}

static int groups_close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    groups_clear(c);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* Whether SQL's result of each measure is certain whatever the order of events is. */
static int is_certain(const ec_sql_groups *g, const ec_grouping *grouping) {
    for (size_t i = 0; i < g->measure_count; i++) {
        enum ec_sql_measure_kind kind = g->measures[i].kind;
        uint64_t most = kind == EC_SQL_SUM                           ? INT64_MAX
                        : kind == EC_SQL_AVG || kind == EC_SQL_TOTAL ? EXACT_IN_DOUBLES
                                                                     : UINT64_MAX;
        uint64_t all = 0;
        if (kind == EC_SQL_COUNT_ALL || kind == EC_SQL_COUNT || kind == EC_SQL_COUNT_DISTINCT)
            continue;
        for (size_t at = 0; at < ec_grouping_count(grouping); at++) {
            const ec_measure *m = ec_grouping_measure(grouping, at, g->measures[i].value);
            all = g->is_partial && kind != EC_SQL_MIN && kind != EC_SQL_MAX ? all : 0; /* these are added up */
            if (m->has_other || m->magnitude > most || all + m->magnitude < all || all + m->magnitude > most)
                return 0;
            all += m->magnitude;
        }
    }
    return 1;
}

int ec_sql_groups_conditions(const ec_sql_groups *g, const char *plan, int argc, sqlite3_value **argv, ea_arena *arena,
                             ec_condition **ret, ea_err *err) {
    ec_condition *conditions = ea_arena_zalloc(arena, (size_t)argc + 1, sizeof *conditions);
    int rc = conditions ? 0 : ea_fail(err, EA_ENOMEM, "group events");
    plan = plan ? strrchr(plan, '|') : NULL;
    plan = plan ? plan + 1 : "";
    for (int i = 0; !rc && i < argc; i++) {
        size_t which = ec_sql_plan_number(&plan);
        rc = ec_sql_condition(g->sql, &plan, argv[i], &g->shape, g->compared[which], arena, &conditions[i], err);
    }
    *ret = conditions;
    return rc;
}

static int groups_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    ec_sql_groups *g = ((table *)base->pVtab)->groups;
    ea_err err = {0};
    (void)number;
    groups_clear(c);
    ec_condition *conditions = NULL;
    int rc = ec_sql_groups_conditions(g, plan, argc, argv, &c->arena, &conditions, &err);
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    ec_filter_run *filter = NULL;
    if (g->filter.root_count)
        rc = ec_filter_open(&filter, &g->filter, g->sql->db, &g->shape, g->table, &err);
    const ec_row_filter rows = {
        .keep = ec_filter_keep, .is_of_constants = ec_filter_is_of_constants(&g->filter, &g->shape), .arg = filter};
    if (!rc)
        rc = ec_grouping_run(&c->grouping, g->sql->archive, &g->shape,
                             &(ec_grouping_options){.annotator = &g->sql->annotator,
                                                    .conditions = conditions,
                                                    .condition_count = (size_t)argc,
                                                    .filter = filter ? &rows : NULL,
                                                    .keys = g->keys,
                                                    .key_count = g->key_count,
                                                    .values = g->values,
                                                    .value_count = g->value_count,
                                                    .is_unordered = g->is_partial,
                                                    .limit_bytes = g->sql->options.sort_bytes
                                                                       ? MEMORY_PARTS * g->sql->options.sort_bytes
                                                                       : MEMORY_DEFAULT},
                             &err);
    ec_filter_close(filter);
    if (rc == EA_ELIMIT || rc == EA_ENOMEM || rc == EA_EUSAGE || (!rc && !is_certain(g, c->grouping))) {
        ec_grouping_destroy(c->grouping);
        c->grouping = NULL;
        return plain_begin(c, conditions, (size_t)argc);
    }
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    /* of no events there is a group, but no part of one: expressions without a column have no row either */
    int is_empty = g->is_partial && g->key_count == 0 && ec_grouping_events(c->grouping, 0) == 0;
    ec_sql_list_begin(g->sql, &c->list, is_empty ? 0 : ec_grouping_count(c->grouping));
    return SQLITE_OK;
}

static int groups_next(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    if (!c->plain)
        return ec_sql_list_next(base);
    c->list.first_rowid++;
    return plain_step(c);
}

static void measure_column(const cursor *c, const ec_sql_measure *m, sqlite3_context *context) {
    ec_value v = {.type = EC_NULL};
    if (m->kind == EC_SQL_COUNT_ALL) {
        sqlite3_result_int64(context, (sqlite3_int64)ec_grouping_events(c->grouping, c->list.at));
        return;
    }
    const ec_measure *of = ec_grouping_measure(c->grouping, c->list.at, m->value);
    switch (m->kind) {
    case EC_SQL_COUNT:
    case EC_SQL_COUNT_DISTINCT:
        v = (ec_value){.type = EC_INT, .i = (int64_t)of->count};
        break;
    case EC_SQL_SUM:
        if (of->count)
            v = (ec_value){.type = EC_INT, .i = of->sum};
        break;
    case EC_SQL_TOTAL:
        v = (ec_value){.type = EC_REAL, .r = (double)of->sum};
        break;
    case EC_SQL_AVG:
        if (of->count)
            v = (ec_value){.type = EC_REAL, .r = (double)of->sum / (double)of->count};
        break;
    default:
        if (of->count)
            ec_grouping_value_of(c->grouping, m->kind == EC_SQL_MIN ? &of->least : &of->greatest, &v);
    }
    ec_sql_result(context, &v);
}

static int groups_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const cursor *c = (const cursor *)base;
    const ec_sql_groups *g = ((const table *)base->pVtab)->groups;
    size_t column = (size_t)which;
    ec_value v;
    ea_err err = {0};
    if (column >=
        g->key_count + g->measure_count) { /* SQLite would check a condition again, which has no values here */
        (void)ea_fail(&err, EA_EUSAGE, "a condition on %s was not kept", g->name);
        return ec_sql_fail(base->pVtab, &err);
    }
    if (c->plain) {
        sqlite3_result_value(context, sqlite3_column_value(c->plain, which));
    } else if (column < g->key_count) {
        ec_grouping_key_value(c->grouping, c->list.at, column, &v);
        ec_sql_result(context, &v);
    } else {
        measure_column(c, &g->measures[column - g->key_count], context);
    }
    return SQLITE_OK;
}

const sqlite3_module EC_SQL_GROUPS_MODULE = {
    .iVersion = 2,
    .xConnect = groups_connect,
    .xBestIndex = groups_best_index,
    .xDisconnect = groups_disconnect,
    .xOpen = groups_open_cursor,
    .xClose = groups_close_cursor,
    .xFilter = groups_filter,
    .xNext = groups_next,
    .xEof = ec_sql_list_at_end,
    .xColumn = groups_column,
    .xRowid = ec_sql_list_rowid,
};

/* Says what the table gives, for EXPLAIN QUERY PLAN. NULL: there is no memory. */
static char *make_name(const ec_sql_groups *g) {
    ea_text name;
    ea_text_init(&name);
    ea_text_printf(&name, EC_SQL_GROUPS_PREFIX "%u)", ++g->sql->groups_added);
    if (g->is_rows && g->first_count)
        ea_text_printf(&name, " first %zu", g->first_count);
    else if (g->is_rows)
        ea_text_str(&name, " rows");
    for (size_t i = 0; i < g->measure_count; i++) {
        ea_text_str(&name, i ? ", " : " ");
        put_measure(&name, g, i);
    }
    ea_text_printf(&name, " of %s", g->table);
    for (size_t i = 0; i < g->key_count; i++) {
        ea_text_str(&name, i ? ", " : g->is_partial ? ", parts by " : " by ");
        groups_put_key(&name, g, &g->keys[i]);
        if (g->is_rows && g->keys[i].is_descending)
            ea_text_str(&name, " DESC");
    }
    for (size_t i = 0; i < g->filter.root_count; i++)
        ea_text_printf(&name, "%s%s", i ? " and " : " if ",
                       strlen(g->filter.texts[i]) > SHOWN_BYTES ? "..." : g->filter.texts[i]);
    if (!name.failed)
        return name.data;
    ea_text_deinit(&name);
    return NULL;
}

int ec_sql_add_groups(ec_sql_groups *g, const sqlite3_module *module, ea_err *err) {
    sqlite3 *db = g->sql->db;
    g->name = make_name(g);
    int rc = g->name ? ec_filter_add_modules(&g->filter, db, &g->shape, g->sql->groups_added, err)
                     : ea_fail(err, EA_ENOMEM, "group events");
    if (rc) {
        ec_sql_groups_destroy(g);
        return rc;
    }
    /* which frees it when this fails, too */
    if (sqlite3_create_module_v2(db, g->name, module, g, ec_sql_groups_destroy) != SQLITE_OK)
        return ea_fail(err, EA_ENOMEM, "group events: %s", sqlite3_errmsg(db));
    return 0;
}
