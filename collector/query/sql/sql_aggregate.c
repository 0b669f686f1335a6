/* Tables of groups of events, NAME_by beside each table NAME of events: "Image/Load_by"('ProcessId') is what GROUP BY
 * ProcessId gives, counted by a native scan (aggregate.h), because SQLite does not hand grouping down. Called by:
 * sql_events.c. Calls: aggregate.c. Thread: the connection's.
 *
 * Columns: what comes out; the arguments, hidden; then the columns of NAME, hidden. Those of the last that are grouped
 * by have the group's value; conditions on them are handed to the scan, which has to keep them exactly, or looked at by
 * SQLite afterwards, which is as good for a column that is grouped by, and an error for any other. */
#include "collector/query/analysis/aggregate.h"
#include "collector/query/sql/sql_parts.h"
#include "proto/base/clock.h"
#include "proto/event/class_names.h"

#include <string.h>

enum out { BUCKET, COUNT, VALUE_COUNT, SUM, MIN, MAX, BY_1, BY_2, VALUE, EVERY, TOP, BY_3, OWN_COUNT };

enum { ARGUMENTS = OWN_COUNT - BY_1 };

static const struct {
    const char *name, *type;
} OWN[OWN_COUNT] = {
    {"bucket", "TIME"},  {"count", "INTEGER"}, {"value_count", "INTEGER"}, {"sum", ""},
    {"min", ""},         {"max", ""},          {"by1", "HIDDEN"},          {"by2", "HIDDEN"},
    {"value", "HIDDEN"}, {"every", "HIDDEN"},  {"top", "HIDDEN"},          {"by3", "HIDDEN"},
};

typedef struct cursor {
    ec_sql_list list; /* of groups */
    ec_aggregate *aggregate;
    ec_aggregate_options options;
    const ec_group *groups;
    ea_arena arena; /* the values of the conditions */
    sqlite3_value *arguments[ARGUMENTS];
} cursor;

static const char *aggregate_text_of(sqlite3_value *v) {
    const unsigned char *s = sqlite3_value_text(v);
    return s ? (const char *)s : "";
}

static int is_own(const char *name) {
    for (size_t i = 0; i < OWN_COUNT; i++)
        if (sqlite3_stricmp(name, OWN[i].name) == 0)
            return 1;
    return 0;
}

/* A column of events whose name is taken here is event_NAME. */
static int aggregate_add_columns(ea_text *to, const ec_table_schema *shape) {
    for (size_t i = 0; i < OWN_COUNT; i++)
        ea_text_printf(to, "%s\"%s\" %s", i ? "," : "", OWN[i].name, OWN[i].type);
    for (size_t i = 0; i < shape->count; i++) {
        char *name = sqlite3_mprintf("%s", shape->columns[i].name);
        while (name && (is_own(name) || (name[0] && i != ec_table_schema_find(shape, name) &&
                                         ec_table_schema_find(shape, name) < shape->count))) {
            char *longer = sqlite3_mprintf("event_%s", name);
            sqlite3_free(name);
            name = longer;
        }
        if (!name)
            return EA_ENOMEM;
        ea_text_char(to, ',');
        ec_sql_add_name(to, name);
        ea_text_printf(to, " %s HIDDEN", ec_kind_type(shape->columns[i].kind));
        sqlite3_free(name);
    }
    return 0;
}

static int aggregate_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                             char **ret_message) {
    (void)argc, (void)argv;
    return ec_sql_shaped_connect(db, aux, aggregate_add_columns, OWN_COUNT, ret, ret_message);
}

/* Whether a group may be by a name out of the history. Which columns the arguments name is known here when they are
 * constants. */
static int aggregate_uses_history(const ec_table_schema *shape, sqlite3_index_info *info) {
    int has_any = 0;
    for (size_t i = 0; i < shape->count; i++)
        has_any |= shape->columns[i].has_history;
    for (int i = 0; has_any && i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        sqlite3_value *v = NULL;
        if (column < BY_1 || column >= OWN_COUNT || column == EVERY || column == TOP)
            continue;
#if SQLITE_VERSION_NUMBER >= 3038000
        if (sqlite3_vtab_rhs_value(info, i, &v) != SQLITE_OK)
            v = NULL;
#endif
        size_t named = v ? ec_table_schema_find(shape, aggregate_text_of(v)) : shape->count;
        if (!v || (named < shape->count && shape->columns[named].has_history))
            return 1;
    }
    return 0;
}

/* As ec_sql_check_part of a column that comes out: each of a known kind is a number. */
static int sql_aggregate_check_own(const ec_sql_shaped *t, sqlite3_index_info *info, int i, int column, ea_err *err) {
    sqlite3_value *written = NULL;
    int64_t utc_ns;
    if (column < 0 || column > VALUE_COUNT)
        return 0;
    if (column != BUCKET)
        return ec_sql_check_part(info, i, EC_KIND_INT, OWN[column].name, err);
    enum ec_op op;
    if (!ec_sql_op(info->aConstraint[i].op, &op) || sqlite3_vtab_rhs_value(info, i, &written) != SQLITE_OK)
        return 0;
    if (sqlite3_value_type(written) != SQLITE_TEXT || ec_sql_is_number(aggregate_text_of(written)))
        return ec_sql_check_ns(t->sql, written, err);
    int rc = ec_sql_time(t->sql, aggregate_text_of(written), &utc_ns, err);
    return rc ? rc
              : ea_fail(err, EA_EUSAGE, "bucket is a number of ns since 1970: write time_ns('%.40s')",
                        aggregate_text_of(written));
}

/* The plan: a condition for each argument of xFilter, columns as they are numbered here. Without by1, which may be
 * NULL, there is none: an OR of conditions is then not taken apart, which would count in two scans. */
static int aggregate_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const ec_sql_shaped *t = (const ec_sql_shaped *)base;
    double rows = t->rows > 100 ? t->rows : 100, decoded = rows;
    int next = 1, has_by = 0;
    ea_text plan;
    ea_text_init(&plan);
    t->sql->uses_history |= aggregate_uses_history(&t->shape, info);
    for (int i = 0; i < info->nConstraint; i++) {
        enum ec_op op;
        int column = info->aConstraint[i].iColumn;
        const ec_column *of = ec_sql_shaped_column(t, column);
        ea_err err = {0};
        if (of ? ec_sql_check_part(info, i, of->kind, of->name, &err)
               : sql_aggregate_check_own(t, info, i, column, &err)) {
            ea_text_deinit(&plan);
            return ec_sql_fail(base, &err);
        }
        if (!ec_sql_op(info->aConstraint[i].op, &op) || column < BY_1)
            continue;
        if (column < OWN_COUNT) {
            if (op != EC_OP_EQ)
                continue;
            if (!info->aConstraint[i].usable) { /* an argument out of a table that is read later */
                ea_text_deinit(&plan);
                return SQLITE_CONSTRAINT;
            }
            has_by |= column == BY_1;
            ea_text_printf(&plan, "%d ", column);
        } else {
            const ec_column *c = &t->shape.columns[column - OWN_COUNT];
            int keeps = ec_scan_keeps(&t->shape, (size_t)column - OWN_COUNT, op);
            if (!info->aConstraint[i].usable || !keeps || (c->kind == EC_KIND_TEXT && !ec_sql_is_binary(info, i)))
                continue;
            ec_sql_plan_condition(&plan, info, i, column, op);
            ec_sql_share(c, op, &rows, &decoded);
        }
        info->aConstraintUsage[i].argvIndex = next++;
        info->aConstraintUsage[i].omit = 1;
    }
    info->estimatedCost = decoded + rows + 1000;
    info->estimatedRows = 100;
    int code = ec_sql_set_plan(info, &plan);
    return code == SQLITE_OK && !has_by ? SQLITE_CONSTRAINT : code;
}

static int aggregate_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    return ec_sql_open_cursor(sizeof(cursor), offsetof(cursor, arena), ret);
}

static void aggregate_clear(cursor *c) {
    ec_aggregate_destroy(c->aggregate);
    c->aggregate = NULL;
    for (size_t i = 0; i < ARGUMENTS; i++) {
        sqlite3_value_free(c->arguments[i]);
        c->arguments[i] = NULL;
    }
    c->options = (ec_aggregate_options){0};
    c->list.count = c->list.at = 0;
    ea_arena_reset(&c->arena);
}

static int aggregate_close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    aggregate_clear(c);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int find_column(const ec_sql_shaped *t, sqlite3_value *v, size_t *ret, ea_err *err) {
    const char *asked = aggregate_text_of(v);
    ea_near near = {0};
    *ret = ec_table_schema_find(&t->shape, asked);
    if (*ret < t->shape.count)
        return 0;
    for (size_t i = 0; i < t->shape.count; i++)
        ea_near_note(&near, asked, t->shape.columns[i].name);
    return ea_fail(err, EA_ENOTFOUND, "events are grouped by columns: there is no %.80s%s%s%s", asked,
                   *near.name ? "; did you mean '" : "", near.name, *near.name ? "'?" : "");
}

/* One of the arguments; a NULL is as if it were not given. */
static int take_argument(cursor *c, enum out which, sqlite3_value *v, ea_err *err) {
    const ec_sql_shaped *t = (const ec_sql_shaped *)c->list.base.pVtab;
    ec_aggregate_options *o = &c->options;
    c->arguments[which - BY_1] = sqlite3_value_dup(v);
    if (!c->arguments[which - BY_1])
        return ea_fail(err, EA_ENOMEM, "group events");
    if (sqlite3_value_type(v) == SQLITE_NULL)
        return 0;
    switch (which) {
    case BY_1:
    case BY_2:
    case BY_3:
        if (o->by_count == EC_BY_MAX)
            return ea_fail(err, EA_EUSAGE, "events are grouped by at most three columns");
        return find_column(t, v, &o->by[o->by_count++], err);
    case VALUE:
        o->has_value = 1;
        return find_column(t, v, &o->value, err);
    case EVERY:
        if (sqlite3_value_type(v) == SQLITE_INTEGER)
            o->every_ns = sqlite3_value_int64(v);
        else if (ea_duration_parse(aggregate_text_of(v), &o->every_ns))
            o->every_ns = 0;
        return o->every_ns > 0 ? 0 : ea_fail(err, EA_EUSAGE, "every: expected a duration such as '1s'");
    default:
        o->top = sqlite3_value_int64(v) > 0 ? (uint64_t)sqlite3_value_int64(v) : 0;
        return o->top ? 0 : ea_fail(err, EA_EUSAGE, "top: expected a number above 0");
    }
}

static int aggregate_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    ec_sql_shaped *t = (ec_sql_shaped *)base->pVtab;
    ea_err err = {0};
    (void)number;
    aggregate_clear(c);
    ec_condition *conditions = ea_arena_zalloc(&c->arena, (size_t)argc + 1, sizeof *conditions);
    int rc = conditions ? 0 : ea_fail(&err, EA_ENOMEM, "group events");
    for (int i = 0; !rc && i < argc; i++) {
        size_t column = ec_sql_plan_number(&plan);
        if (column < OWN_COUNT)
            rc = take_argument(c, (enum out)column, argv[i], &err);
        else
            rc = ec_sql_condition(t->sql, &plan, argv[i], &t->shape, column - OWN_COUNT, &c->arena,
                                  &conditions[c->options.condition_count++], &err);
    }
    c->options.conditions = conditions;
    c->options.annotator = &t->sql->annotator;
    if (!rc)
        rc = ec_aggregate_run(&c->aggregate, t->sql->archive, &t->shape, &c->options, &err);
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    size_t count = 0;
    c->groups = ec_aggregate_groups(c->aggregate, &count);
    ec_sql_list_begin(t->sql, &c->list, count);
    return SQLITE_OK;
}

static int key_column(const cursor *c, const ec_group *g, size_t which, sqlite3_context *context) {
    const ec_sql_shaped *t = (const ec_sql_shaped *)c->list.base.pVtab;
    ea_err err = {0};
    for (size_t k = 0; k < c->options.by_count; k++)
        if (c->options.by[k] == which) {
            ec_sql_result(context, &g->key[k]);
            return SQLITE_OK;
        }
    (void)ea_fail(&err, EA_EUSAGE,
                  "%s is not grouped by: group by it, or compare it with constants by =, IN, <, <=, > or >=, which"
                  " its values must allow",
                  t->shape.columns[which].name);
    return ec_sql_fail(c->list.base.pVtab, &err);
}

static int sum_column(const cursor *c, const ec_group *g, sqlite3_context *context) {
    ea_err err = {0};
    if (g->is_overflow) {
        (void)ea_fail(&err, EA_ELIMIT, "integer overflow in sum");
        return ec_sql_fail(c->list.base.pVtab, &err);
    }
    if (g->is_real)
        sqlite3_result_double(context, g->sum_real);
    else if (g->value_count)
        sqlite3_result_int64(context, g->sum);
    return SQLITE_OK;
}

static int aggregate_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const cursor *c = (const cursor *)base;
    const ec_group *g = &c->groups[c->list.at];
    switch (which) {
    case BUCKET:
        if (c->options.every_ns)
            sqlite3_result_int64(context, g->bucket_utc_ns);
        return SQLITE_OK;
    case COUNT:
        sqlite3_result_int64(context, (sqlite3_int64)g->count);
        return SQLITE_OK;
    case VALUE_COUNT:
        if (c->options.has_value)
            sqlite3_result_int64(context, (sqlite3_int64)g->value_count);
        return SQLITE_OK;
    case SUM:
        return sum_column(c, g, context);
    case MIN:
        ec_sql_result(context, &g->least);
        return SQLITE_OK;
    case MAX:
        ec_sql_result(context, &g->greatest);
        return SQLITE_OK;
    default:
        break;
    }
    if (which >= OWN_COUNT)
        return key_column(c, g, (size_t)which - OWN_COUNT, context);
    if (c->arguments[which - BY_1])
        sqlite3_result_value(context, c->arguments[which - BY_1]);
    return SQLITE_OK;
}

static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = aggregate_connect,
    .xBestIndex = aggregate_best_index,
    .xDisconnect = ec_sql_shaped_disconnect,
    .xOpen = aggregate_open_cursor,
    .xClose = aggregate_close_cursor,
    .xFilter = aggregate_filter,
    .xNext = ec_sql_list_next,
    .xEof = ec_sql_list_at_end,
    .xColumn = aggregate_column,
    .xRowid = ec_sql_list_rowid,
};

int ec_sql_add_aggregate(ec_sql *s, const char *name, const ec_class_set *set, ea_err *err) {
    char *by = sqlite3_mprintf("%s_by", name);
    int rc = by ? 0 : ea_fail(err, EA_ENOMEM, "add the table %s_by", name);
    const ec_class_set *same = NULL;
    if (!rc && set) /* there is no class's table before the first statement names one */
        rc = ec_archive_set(s->archive, by, &same, err);
    if (!rc && !same) /* else a class is called that: its table stays */
        rc = ec_sql_add_module(s, by, &MODULE, &(ec_sql_source){s, set}, sizeof(ec_sql_source), err);
    sqlite3_free(by);
    return rc;
}
