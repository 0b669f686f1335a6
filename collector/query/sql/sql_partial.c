/* Partial groups: a statement that groups by expressions, or has conditions that the scan does not keep, becomes one
 * over groups by all columns that these read. SQLite evaluates them once a group, with its own semantics, and adds the
 * groups up: how many distinct values columns have is what it costs, not how many events there are.
 *
 *   SELECT lower(name), count(*), avg(cpu) FROM events WHERE name LIKE '%e' AND pid = 4 GROUP BY 1
 *   SELECT lower("(grouped key 0)"), ifnull(sum((+"(grouped value 0)")),0), (total(...)/nullif(sum(...),0))
 *       FROM "(grouped 1) ..." WHERE "(grouped if 0)" = 4 AND +("(grouped key 0)" LIKE '%e') GROUP BY 1
 *
 * See sql_push.c, which calls it, and queries.md in docs/internals. Thread: the connection's. */
#include "collector/query/sql/sql_push_parts.h"

#include <string.h>

static void sql_partial_put_row(ec_push *p, ea_text *to, const ec_expr *e);

/* Columns whose values are mostly of one event, or long. */
static int is_of_one_event(const ec_push *p, size_t column) {
    switch (p->groups->shape.columns[column].common) {
    case EC_TIME:
    case EC_CLOCK:
    case EC_POSITION:
    case EC_FIELDS:
    case EC_STACK:
    case EC_COUNTERS:
    case EC_DECODED:
    case EC_PAYLOAD:
        return 1;
    default:
        return 0;
    }
}

static void put_key_column(ec_push *p, ea_text *to, const ec_grouping_key *key) {
    ec_sql_groups *g = p->groups;
    size_t k = 0;
    while (k < g->key_count && !ec_grouping_is_same_key(&g->keys[k], key))
        k++;
    if (k == EC_GROUPING_KEYS_MAX) {
        ec_push_refuse(p, "more columns to group by");
        return;
    }
    if (k == g->key_count)
        g->keys[g->key_count++] = *key;
    ea_text_printf(to,
                   ec_grouping_is_computed(key) ? "(+\"" EC_SQL_GROUPS_PREFIX "key %zu)\")"
                                                : "\"" EC_SQL_GROUPS_PREFIX "key %zu)\"",
                   k);
}

static void put_row_column(ec_push *p, ea_text *to, const ec_expr *e) {
    static const char *const CONSTANTS[] = {"true", "false", NULL};
    ec_grouping_key key = {0};
    if (ec_push_column(p, e, &key.column)) {
        if (!ec_grouping_takes(&p->groups->shape, key.column) || is_of_one_event(p, key.column))
            ec_push_refuse(p, "a column that has as many values as events");
        else
            put_key_column(p, to, &key);
    } else if (!e->table && ec_push_is_listed(e->name, CONSTANTS)) {
        ea_text_add(to, e->text, e->len_bytes);
    } else {
        ec_push_refuse(p, "a name");
    }
}

static void put_row_operands(ec_push *p, ea_text *to, const ec_expr *e) {
    const char *at = e->text;
    for (size_t i = 0; i < e->argument_count; i++) {
        const ec_expr *operand = e->arguments[i];
        ea_text_add(to, at, (size_t)(operand->text - at));
        sql_partial_put_row(p, to, operand);
        at = operand->text + operand->len_bytes;
    }
    ea_text_add(to, at, (size_t)(e->text + e->len_bytes - at));
}

/* An expression over one event, as one over the group it is in. */
static void sql_partial_put_row(ec_push *p, ea_text *to, const ec_expr *e) {
    ec_grouping_key key = {0};
    enum ec_sql_measure_kind kind;
    if (p->why)
        return;
    if (ec_push_computed(p, e, &key)) {
        put_key_column(p, to, &key);
    } else if (e->kind == EC_EXPR_COLUMN) {
        put_row_column(p, to, e);
    } else if (e->kind == EC_EXPR_CALL &&
               (e->is_star || e->is_distinct || e->has_filter || !ec_push_is_listed(e->name, EC_PUSH_SCALARS) ||
                (ec_push_aggregate(e, &kind) && e->argument_count == 1))) {
        ec_push_refuse(p, "a function");
    } else if (ec_push_is_read_otherwise(p, e)) {
        ec_push_refuse(p, "a comparison that the table of events reads in its own way");
    } else {
        put_row_operands(p, to, e);
    }
}

/* ---- aggregates ---- */

/* FILTER of an aggregate, with a condition more: the text between brackets. */
static void put_filter(ec_push *p, ea_text *to, const ec_expr *e, const ec_expr *not_null) {
    if (!e->has_filter && !not_null)
        return;
    ea_text_str(to, " FILTER (WHERE ");
    if (not_null) {
        ea_text_char(to, '(');
        sql_partial_put_row(p, to, not_null);
        ea_text_str(to, e->has_filter ? ") NOTNULL AND " : ") NOTNULL");
    }
    if (e->has_filter) {
        ea_text_char(to, '(');
        sql_partial_put_row(p, to, e->arguments[e->argument_count - 1]);
        ea_text_char(to, ')');
    }
    ea_text_char(to, ')');
}

/* name(measure) with the aggregate's filter. */
static void sql_partial_put_added(ec_push *p, ea_text *to, const char *name, enum ec_sql_measure_kind kind,
                                  const ec_grouping_key *of, const ec_expr *e, const ec_expr *not_null) {
    ea_text_printf(to, "%s(", name);
    ec_push_measure(p, to, kind, of);
    ea_text_char(to, ')');
    put_filter(p, to, e, not_null);
}

static void put_counted(ec_push *p, ea_text *to, enum ec_sql_measure_kind kind, const ec_grouping_key *of,
                        const ec_expr *e, const ec_expr *not_null) {
    ea_text_str(to, "ifnull(");
    sql_partial_put_added(p, to, "sum", kind, of, e, not_null);
    ea_text_str(to, ",0)");
}

/* A whole number of at most four digits, or NULL. */
static int is_small_number(const ec_expr *e) {
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_CONSTANT)
        return (*e->text == 'N' || *e->text == 'n') && e->len_bytes == 4;
    if (e->kind != EC_EXPR_NUMBER || e->len_bytes > 4)
        return 0;
    for (size_t i = 0; i < e->len_bytes; i++)
        if (e->text[i] < '0' || e->text[i] > '9')
            return 0;
    return 1;
}

/* A truth value, or CASE WHEN of small whole numbers: 10^4 times 10^11 events are exact in 64 bits and in a double. */
static int is_small(const ec_expr *e) {
    static const char *const TRUTHS[] = {"=",       "==",     "<>",       "!=",       "<",           "<=",
                                         ">",       ">=",     "IS",       "IS NOT",   "IN",          "NOT IN",
                                         "BETWEEN", "ISNULL", "NOTNULL",  "LIKE",     "NOT BETWEEN", "GLOB",
                                         "AND",     "OR",     "NOT LIKE", "NOT GLOB", "NOT",         NULL};
    e = ec_expr_bare(e);
    if (e->kind != EC_EXPR_OPERATOR)
        return 0;
    if (strcmp(e->name, "CASE") != 0)
        return ec_push_is_listed(e->name, TRUTHS);
    for (size_t i = 1; i < e->argument_count; i += 2)
        if (!is_small_number(e->arguments[i]))
            return 0;
    return e->argument_count % 2 == 0 || is_small_number(e->arguments[e->argument_count - 1]);
}

/* An aggregate of a column or of what is computed out of columns. */
static void put_of_value(ec_push *p, ea_text *to, enum ec_sql_measure_kind kind, const ec_grouping_key *of,
                         const ec_expr *e) {
    switch (kind) {
    case EC_SQL_COUNT:
        put_counted(p, to, kind, of, e, NULL);
        break;
    case EC_SQL_AVG:
        ea_text_char(to, '(');
        sql_partial_put_added(p, to, "total", EC_SQL_TOTAL, of, e, NULL);
        ea_text_str(to, "/nullif(");
        sql_partial_put_added(p, to, "sum", EC_SQL_COUNT, of, e, NULL);
        ea_text_str(to, ",0))");
        break;
    case EC_SQL_SUM:
    case EC_SQL_TOTAL:
    case EC_SQL_MIN:
    case EC_SQL_MAX:
        sql_partial_put_added(p, to, e->name, kind, of, e, NULL);
        break;
    default:
        ec_push_refuse(p, "an aggregate");
    }
}

int ec_partial_put_aggregate(ec_push *p, ea_text *to, const ec_expr *e) {
    enum ec_sql_measure_kind kind;
    ec_grouping_key of = {0};
    size_t arguments = e->argument_count - (size_t)e->has_filter;
    if (!ec_push_aggregate(e, &kind))
        return 0;
    int is_extreme = kind == EC_SQL_MIN || kind == EC_SQL_MAX;
    if (is_extreme && arguments > 1)
        return 0;                 /* a function of one row */
    if (p->select->is_distinct) { /* its other columns are those of one event */
        ec_push_refuse(p, "an aggregate beside DISTINCT");
        return 1;
    }
    if (kind == EC_SQL_COUNT && e->is_star) {
        put_counted(p, to, EC_SQL_COUNT_ALL, NULL, e, NULL);
        return 1;
    }
    if (arguments != 1 || e->is_star) {
        ec_push_refuse(p, "an aggregate");
        return 1;
    }
    const ec_expr *argument = e->arguments[0];
    if (!e->is_distinct && (ec_push_computed(p, ec_expr_bare(argument), &of) ||
                            (ec_push_column(p, argument, &of.column) && ec_push_takes(p, kind, of.column)))) {
        put_of_value(p, to, kind, &of, e);
    } else if (is_extreme || (kind == EC_SQL_COUNT && e->is_distinct)) {
        /* how many events have a value does not matter */
        ea_text_printf(to, e->is_distinct ? "%s(DISTINCT " : "%s(", e->name);
        sql_partial_put_row(p, to, argument);
        ea_text_char(to, ')');
        put_filter(p, to, e, NULL);
    } else if (kind == EC_SQL_COUNT) {
        put_counted(p, to, EC_SQL_COUNT_ALL, NULL, e, argument);
    } else if (kind == EC_SQL_SUM && !e->is_distinct && is_small(argument)) {
        ea_text_str(to, "sum((");
        sql_partial_put_row(p, to, argument);
        ea_text_str(to, ")*");
        ec_push_measure(p, to, EC_SQL_COUNT_ALL, NULL);
        ea_text_char(to, ')');
        put_filter(p, to, e, NULL);
    } else {
        ec_push_refuse(p, "an aggregate of an expression");
    }
    return 1;
}

/* ---- what is grouped by ---- */

int ec_partial_put_grouped(ec_push *p, ea_text *to, const ec_expr *e) {
    for (size_t i = 0; i < p->grouped_count; i++)
        if (ec_push_is_same(p, e, p->grouped[i])) {
            sql_partial_put_row(p, to, e);
            return 1;
        }
    return 0;
}

void ec_partial_begin(ec_push *p) {
    const ec_select *s = p->select;
    size_t count = s->is_distinct ? s->column_count : s->group_by_count;
    p->groups->is_partial = 1;
    if (s->is_distinct && (s->group_by_count || s->having || (s->limit && !s->order_by_count)))
        ec_push_refuse(p, "DISTINCT that need not read all events");
    for (size_t i = 0; !p->why && i < count; i++) {
        const ec_expr *term = s->is_distinct ? s->columns[i].value : s->group_by[i];
        const ec_expr *e = s->is_distinct ? ec_expr_bare(term) : ec_push_grouped_by(p, term);
        size_t column;
        if (!e || p->grouped_count == EC_GROUPING_KEYS_MAX) {
            ec_push_refuse(p, "more to group by");
            return;
        }
        p->grouped[p->grouped_count++] = e;
        if (s->is_distinct)
            continue;
        const ec_select_column *alias = ec_push_column(p, term, &column) ? NULL : ec_push_alias(p, term);
        ea_text_str(&p->group, i ? "," : " GROUP BY ");
        if (ec_expr_bare(term)->kind == EC_EXPR_NUMBER)
            ea_text_add(&p->group, term->text, term->len_bytes);
        else if (alias)
            ea_text_printf(&p->group, "%zu", (size_t)(alias - s->columns) + 1);
        else
            sql_partial_put_row(p, &p->group, term);
    }
}

void ec_partial_put_where(ec_push *p, const ec_expr *e) {
    ec_sql_groups *g = p->groups;
    size_t len_bytes = p->where.len_bytes, conditions = g->condition_count;
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_OPERATOR && strcmp(e->name, "AND") == 0) {
        ec_partial_put_where(p, e->arguments[0]);
        if (!p->why)
            ec_partial_put_where(p, e->arguments[1]);
        return;
    }
    if (len_bytes)
        ea_text_str(&p->where, " AND ");
    size_t begin = p->where.len_bytes;
    ec_push_condition(p, e);
    if (!p->why || p->where.failed)
        return;
    p->why = NULL;
    g->condition_count = conditions;
    if (ec_push_filter(p, e)) {
        if (p->where.data)
            p->where.data[p->where.len_bytes = len_bytes] = 0;
        ec_push_implied(p, e);
        return;
    }
    /* the + keeps SQLite from taking an OR apart, which would count in two scans */
    if (p->where.data)
        p->where.data[p->where.len_bytes = begin] = 0;
    ea_text_str(&p->where, "+(");
    sql_partial_put_row(p, &p->where, e);
    ea_text_char(&p->where, ')');
}
