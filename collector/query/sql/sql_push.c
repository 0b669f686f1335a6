/* Hands a GROUP BY over events down to the native grouping. SQLite reads a virtual table row by row and cannot hand an
 * aggregate down, so the statement is written anew: the part that groups becomes one table of groups (sql_groups.c),
 * and SQLite does the rest of the same statement over its rows: expressions, HAVING, ORDER BY, LIMIT. queries.md in
 * docs/internals has the design.
 *
 *   SELECT pid, sum(TransferSize) FROM "DiskIo/Read" WHERE time > ?1 GROUP BY pid HAVING count(*) > 5 ORDER BY 2
 *   SELECT "(grouped key 0)" AS "pid", (+"(grouped value 0)") AS "sum(TransferSize)" FROM "(grouped 1) ..."
 *       WHERE "(grouped if 0)" > ?1 AND +((+"(grouped value 1)") > 5) ORDER BY 2
 *
 * The statement was compiled as it is before: whatever is wrong with it is reported so, and the new one is used only if
 * it has the same columns, types and parameters and its table keeps each condition. Whatever is not fully understood is
 * left to SQLite. Texts are copied from the statement, so that literals and operators mean what they meant; a unary +
 * takes a column's affinity away where the statement had an expression.
 *
 * Called by: ec_sql_prepare. Calls: select.c, sql_groups.c. Thread: the connection's. */
#include "collector/query/sql/sql_push_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static void push_keys(ec_push *p) {
    ec_sql_groups *g = p->groups;
    for (size_t i = 0; !p->why && i < p->select->group_by_count; i++) {
        const ec_expr *e = ec_push_grouped_by(p, p->select->group_by[i]);
        ec_grouping_key key = {0};
        if (g->key_count == EC_GROUPING_KEYS_MAX) {
            ec_push_refuse(p, "more columns to group by");
        } else if (!e || (!ec_push_computed(p, e, &key) && !ec_push_column(p, e, &key.column))) {
            ec_push_refuse(p, "an expression to group by");
        } else if (!ec_grouping_takes(&g->shape, key.column)) {
            ec_push_refuse(p, "reals to group by");
        } else {
            /* SQLite sorts groups in the directions of as many terms of ORDER BY, whatever these are */
            if (p->select->order_by_count == p->select->group_by_count)
                key.is_descending = p->select->order_by[i].rest_bytes >= 4 &&
                                    (*p->select->order_by[i].rest == 'D' || *p->select->order_by[i].rest == 'd');
            p->keys[g->key_count] = e;
            g->keys[g->key_count++] = key;
        }
    }
}

/* ---- measures ---- */

/* Puts an aggregate's measure: 1; 0 when it is no aggregate. */
static int put_aggregate(ec_push *p, ea_text *to, const ec_expr *e) {
    enum ec_sql_measure_kind kind;
    ec_grouping_key of = {0};
    if (!ec_push_aggregate(e, &kind))
        return 0;
    size_t arguments = e->argument_count - (size_t)e->has_filter;
    if ((kind == EC_SQL_MIN || kind == EC_SQL_MAX) && arguments > 1)
        return 0; /* a function of one row */
    if (e->has_filter) {
        ec_push_refuse(p, "FILTER");
        return 1;
    }
    if (kind == EC_SQL_COUNT && e->is_star) {
        ec_push_measure(p, to, EC_SQL_COUNT_ALL, NULL);
        return 1;
    }
    int is_computed = arguments == 1 && !e->is_star && ec_push_computed(p, ec_expr_bare(e->arguments[0]), &of);
    if (arguments != 1 || e->is_star || (!is_computed && !ec_push_column(p, e->arguments[0], &of.column))) {
        ec_push_refuse(p, "an aggregate of an expression");
        return 1;
    }
    if (!is_computed && !ec_push_takes(p, kind, of.column))
        ec_push_refuse(p, "an aggregate of values that are no whole numbers");
    else if (e->is_distinct && kind != EC_SQL_COUNT)
        ec_push_refuse(p, "DISTINCT in an aggregate");
    else
        ec_push_measure(p, to, e->is_distinct ? EC_SQL_COUNT_DISTINCT : kind, &of);
    return 1;
}

/* ---- expressions over groups ---- */

static void put_outer(ec_push *p, ea_text *to, const ec_expr *e, int has_aliases);

/* The text of an expression, with its operands put anew. */
static void put_operands(ec_push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    const char *at = e->text;
    for (size_t i = 0; i < e->argument_count; i++) {
        const ec_expr *operand = e->arguments[i];
        ea_text_add(to, at, (size_t)(operand->text - at));
        put_outer(p, to, operand, has_aliases);
        at = operand->text + operand->len_bytes;
    }
    ea_text_add(to, at, (size_t)(e->text + e->len_bytes - at));
}

static void sql_push_put_name(ec_push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    static const char *const ROW_NUMBERS[] = {"rowid", "oid", "_rowid_", NULL};
    static const char *const CONSTANTS[] = {"true", "false", NULL};
    size_t column;
    const ec_select_column *alias = has_aliases ? ec_push_alias(p, e) : NULL;
    if (ec_push_column(p, e, &column) || ec_push_is_listed(e->name, ROW_NUMBERS)) {
        ec_push_refuse(p, "a column that is not grouped by");
    } else if (alias) { /* in the new statement each result column has one, so that the name may be another's */
        ea_text_char(to, '(');
        put_outer(p, to, alias->value, 0);
        ea_text_char(to, ')');
    } else if (!e->table && ec_push_is_listed(e->name, CONSTANTS)) {
        ea_text_add(to, e->text, e->len_bytes);
    } else {
        ec_push_refuse(p, "a name");
    }
}

/* Puts the column of a key: 1; 0 when the expression is none. */
static int push_put_key(ec_push *p, ea_text *to, const ec_expr *e) {
    for (size_t k = 0; k < p->groups->key_count; k++)
        if (ec_push_is_same(p, e, p->keys[k])) {
            ea_text_printf(to,
                           ec_grouping_is_computed(&p->groups->keys[k]) ? "(+\"" EC_SQL_GROUPS_PREFIX "key %zu)\")"
                                                                        : "\"" EC_SQL_GROUPS_PREFIX "key %zu)\"",
                           k);
            return 1;
        }
    return 0;
}

/* A column that a scan compares with more than its values: other names, and texts that are times or addresses. */
static int is_compared_by_scan(const ec_push *p, const ec_expr *e) {
    size_t column;
    if (!ec_push_column(p, e, &column))
        return 0;
    const ec_column *c = &p->groups->shape.columns[column];
    return c->common == EC_NAME || c->common == EC_PROVIDER_NAME || c->kind == EC_KIND_TIME ||
           c->kind == EC_KIND_ADDRESS;
}

/* An expression over the rows of groups. has_aliases: it may name result columns. */
static void put_outer(ec_push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    if (p->why)
        return;
    if (p->is_having && is_compared_by_scan(p, e)) { /* SQLite moves it to WHERE, where the scan compares it */
        ec_push_refuse(p, "a condition that the scan reads in its own way");
        return;
    }
    if (p->groups->is_partial ? ec_partial_put_grouped(p, to, e) : push_put_key(p, to, e))
        return;
    switch (e->kind) {
    case EC_EXPR_COLUMN:
        sql_push_put_name(p, to, e, has_aliases);
        return;
    case EC_EXPR_CALL:
        if (p->groups->is_partial ? ec_partial_put_aggregate(p, to, e) : put_aggregate(p, to, e))
            return;
        if (e->is_star || e->is_distinct || e->has_filter || !ec_push_is_listed(e->name, EC_PUSH_SCALARS))
            ec_push_refuse(p, "a function");
        else
            put_operands(p, to, e, has_aliases);
        return;
    default:
        put_operands(p, to, e, has_aliases);
    }
}

/* ---- conditions ---- */

static void put_where(ec_push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_OPERATOR && strcmp(e->name, "AND") == 0) {
        put_where(p, e->arguments[0]);
        if (!p->why)
            put_where(p, e->arguments[1]);
        return;
    }
    ec_push_kept(p, e);
}

/* ---- the statement ---- */

static void put_columns(ec_push *p, sqlite3_stmt *as_written) {
    for (size_t i = 0; !p->why && i < p->select->column_count; i++) {
        const ec_select_column *c = &p->select->columns[i];
        if (c->alias && strncmp(c->alias, EC_SQL_GROUPS_PREFIX, sizeof EC_SQL_GROUPS_PREFIX - 1) == 0)
            ec_push_refuse(p, "an alias that is reserved");
        if (i)
            ea_text_char(&p->columns, ',');
        put_outer(p, &p->columns, c->value, 0);
        const char *name = p->select->explain == EC_EXPLAIN_NONE ? sqlite3_column_name(as_written, (int)i) : c->alias;
        if (!name)
            continue;
        ea_text_str(&p->columns, " AS ");
        ec_sql_add_name(&p->columns, name);
    }
}

/* Whether ORDER BY is of the keys, in their order: rows come so, and SQLite, too, sorts them once. */
static int is_order_of_keys(const ec_push *p) {
    const ec_select *s = p->select;
    if (s->order_by_count != p->groups->key_count)
        return 0;
    for (size_t i = 0; i < s->order_by_count; i++) {
        const ec_select_column *alias = ec_push_alias(p, s->order_by[i].value);
        const ec_expr *e = ec_expr_bare(alias ? alias->value : s->order_by[i].value);
        int64_t ordinal;
        if (!alias && ec_push_whole_number(e, &ordinal) && (uint64_t)ordinal <= s->column_count)
            e = s->columns[ordinal - 1].value;
        if (s->order_by[i].rest_bytes > sizeof "DESC" - 1 || !ec_push_is_same(p, e, p->keys[i]))
            return 0;
    }
    return 1;
}

static void put_order(ec_push *p) {
    if (!p->why && !p->groups->is_partial && is_order_of_keys(p))
        return;
    for (size_t i = 0; !p->why && i < p->select->order_by_count; i++) {
        const ec_select_order *o = &p->select->order_by[i];
        ea_text_str(&p->order, i ? "," : " ORDER BY ");
        const ec_select_column *alias = ec_push_alias(p, o->value);
        if (alias) /* before a column of the same name */
            ea_text_printf(&p->order, "%zu", (size_t)(alias - p->select->columns) + 1);
        else
            put_outer(p, &p->order, o->value, 1);
        ea_text_char(&p->order, ' ');
        ea_text_add(&p->order, o->rest, o->rest_bytes);
    }
}

/* has_aliases: it may name result columns. */
static int has_aggregate(const ec_push *p, const ec_expr *e, int has_aliases) {
    enum ec_sql_measure_kind kind;
    size_t column;
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_CALL && ec_push_aggregate(e, &kind))
        return 1;
    const ec_select_column *alias = has_aliases && !ec_push_column(p, e, &column) ? ec_push_alias(p, e) : NULL;
    if (alias)
        return has_aggregate(p, alias->value, 0);
    for (size_t i = 0; i < e->argument_count; i++)
        if (has_aggregate(p, e->arguments[i], has_aliases))
            return 1;
    return 0;
}

/* Whether a condition of HAVING is one on events: SQLite moves it to WHERE. */
static int is_of_events(const ec_push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_OPERATOR && strcmp(e->name, "AND") == 0)
        return is_of_events(p, e->arguments[0]) || is_of_events(p, e->arguments[1]);
    return !has_aggregate(p, e, 1);
}

/* A sum beyond 64 bits is an error, but not in a group that such a condition excludes: no event of it is added. */
static int excludes_sums(const ec_push *p) {
    const ec_sql_groups *g = p->groups;
    for (size_t i = 0; i < g->measure_count; i++)
        if (g->measures[i].kind == EC_SQL_SUM)
            return is_of_events(p, p->select->having);
    return 0;
}

/* Fills the plan; p->why when the statement is left as it is. */
static void plan(ec_push *p, sqlite3_stmt *as_written) {
    const ec_select *s = p->select;
    if (s->is_distinct)
        ec_push_refuse(p, "SELECT DISTINCT");
    push_keys(p);
    put_columns(p, as_written);
    if (!p->why && s->where)
        put_where(p, s->where);
    if (!p->why && s->having) {
        /* the + keeps SQLite from taking an OR apart, which would count in two scans */
        ea_text_str(&p->where, p->where.len_bytes ? " AND +(" : "+(");
        p->is_having = 1;
        put_outer(p, &p->where, s->having, 1);
        p->is_having = 0;
        ea_text_char(&p->where, ')');
        if (excludes_sums(p))
            ec_push_refuse(p, "a condition on events in HAVING");
    }
    put_order(p);
    if (!s->group_by_count && !p->groups->measure_count)
        ec_push_refuse(p, "no aggregate");
}

/* Likewise, over partial groups. */
static void plan_partial(ec_push *p, sqlite3_stmt *as_written) {
    const ec_select *s = p->select;
    ec_partial_begin(p);
    put_columns(p, as_written);
    if (!p->why && s->where)
        ec_partial_put_where(p, s->where);
    if (!p->why && s->having) {
        ea_text_str(&p->having, " HAVING ");
        p->is_having = 1;
        put_outer(p, &p->having, s->having, 1);
        p->is_having = 0;
    }
    put_order(p);
    if (!p->groups->key_count && p->grouped_count && p->groups->measure_count) /* of no events there is no group */
        p->groups->keys[p->groups->key_count++] = (ec_grouping_key){.column = EC_HOST};
    if (!p->groups->key_count && (p->grouped_count || !p->groups->measure_count))
        ec_push_refuse(p, "no aggregate");
}

static void put_statement(const ec_push *p, ea_text *to) {
    static const char *const EXPLAIN[] = {
        [EC_EXPLAIN_NONE] = "", [EC_EXPLAIN_PROGRAM] = "EXPLAIN ", [EC_EXPLAIN_PLAN] = "EXPLAIN QUERY PLAN "};
    ea_text_printf(to, "%sSELECT %s%s FROM ", EXPLAIN[p->select->explain], p->select->is_distinct ? "DISTINCT " : "",
                   p->columns.data ? p->columns.data : "");
    ec_sql_add_name(to, p->groups->name);
    if (p->groups->is_rows) {
        ea_text_str(to, " AS ");
        ec_sql_add_name(to, p->select->table_alias ? p->select->table_alias : p->select->table);
    }
    if (p->where.len_bytes)
        ea_text_printf(to, " WHERE %s", p->where.data);
    if (p->group.len_bytes)
        ea_text_str(to, p->group.data);
    if (p->having.len_bytes)
        ea_text_str(to, p->having.data);
    if (p->order.len_bytes)
        ea_text_str(to, p->order.data);
    if (p->select->limit) {
        ea_text_char(to, ' ');
        ea_text_add(to, p->select->limit, p->select->limit_bytes);
    }
    to->failed |= p->columns.failed | p->where.failed | p->group.failed | p->having.failed | p->order.failed;
}

static int sql_push_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the new statement stands for the other one: columns, their types, parameters. */
static int is_equal(sqlite3_stmt *a, sqlite3_stmt *b) {
    int n = sqlite3_column_count(a), parameters = sqlite3_bind_parameter_count(a);
    if (sqlite3_column_count(b) != n || sqlite3_bind_parameter_count(b) != parameters ||
        sqlite3_stmt_isexplain(a) != sqlite3_stmt_isexplain(b))
        return 0;
    for (int i = 0; i < n; i++)
        if (!sql_push_same_text(sqlite3_column_name(a, i), sqlite3_column_name(b, i)) ||
            !sql_push_same_text(sqlite3_column_decltype(a, i), sqlite3_column_decltype(b, i)))
            return 0;
    for (int i = 1; i <= parameters; i++)
        if (!sql_push_same_text(sqlite3_bind_parameter_name(a, i), sqlite3_bind_parameter_name(b, i)))
            return 0;
    return 1;
}

/* Adds the table and compiles the new statement. *ret stays as it is where that does not do. EA_ENOMEM. */
static int replace(ec_push *p, ec_sql *s, sqlite3_stmt **ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    ea_text sql;
    ec_sql_groups *g = p->groups;
    p->groups = NULL;
    int rc = ec_sql_add_groups(g, g->is_rows ? &EC_SQL_ROWS_MODULE : &EC_SQL_GROUPS_MODULE, err);
    if (rc)
        return rc;
    p->groups = g;
    ea_text_init(&sql);
    put_statement(p, &sql);
    p->groups = NULL; /* the connection's */
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v3(s->db, sql.data, -1, 0, &st, NULL);
    ea_text_deinit(&sql);
    if (code == SQLITE_OK && st && g->kept_count == g->condition_count && is_equal(*ret, st)) {
        sqlite3_finalize(*ret);
        *ret = st;
    } else {
        sqlite3_finalize(st);
    }
    return code == SQLITE_NOMEM ? ea_fail(err, EA_ENOMEM, "prepare a statement") : 0;
}

enum way { BY_GROUPS, BY_PARTS, BY_ROWS, BY_FILTER, WAYS };

/* Plans and replaces in one of the ways: *ret_why NULL, or why it does not do. */
static int try_plan(const ec_select *select, const ec_class_set *set, enum way way, ec_sql *s, sqlite3_stmt **ret,
                    const char **ret_why, ea_err *err) {
    ec_push p = {.select = select};
    ea_text_init(&p.columns);
    ea_text_init(&p.where);
    ea_text_init(&p.group);
    ea_text_init(&p.having);
    ea_text_init(&p.order);
    p.groups = calloc(1, sizeof *p.groups);
    int rc = p.groups ? ec_table_schema_init(&p.groups->shape, set, err) : EA_ENOMEM;
    if (!rc) {
        p.groups->sql = s;
        p.groups->table = strdup(set ? set->name : "events");
        if (way == BY_ROWS)
            ec_rows_plan(&p);
        else if (way == BY_FILTER)
            ec_rows_plan_filtered(&p);
        else if (select->has_star)
            ec_push_refuse(&p, "all columns");
        else if (way == BY_PARTS)
            plan_partial(&p, *ret);
        else
            plan(&p, *ret);
        rc = !p.groups->table ? EA_ENOMEM : p.why ? 0 : replace(&p, s, ret, err);
    }
    *ret_why = p.why;
    ec_sql_groups_destroy(p.groups);
    ea_text_deinit(&p.columns);
    ea_text_deinit(&p.where);
    ea_text_deinit(&p.group);
    ea_text_deinit(&p.having);
    ea_text_deinit(&p.order);
    return rc;
}

int ec_sql_push(ec_sql *s, const char *sql, size_t len_bytes, sqlite3_stmt **ret, ea_err *err) {
    ec_select select;
    const ec_class_set *set = NULL;
    const char *why = NULL;
    ea_arena arena;
    ea_arena_init(&arena, 0);
    int rc = ec_select_parse(sql, len_bytes, &arena, &select, &why);
    if (rc == 1)
        rc = ec_sql_events_of(s, select.table, &set, err);
    if (rc == 1) {
        rc = 0;
        for (enum way way = BY_GROUPS; !rc && way < WAYS && (way == BY_GROUPS || why); way++)
            rc = try_plan(&select, set, way, s, ret, &why, err);
    }
    ea_arena_deinit(&arena);
    return rc == EA_ENOMEM ? ea_fail(err, EA_ENOMEM, "prepare a statement") : rc < 0 ? rc : 0;
}
