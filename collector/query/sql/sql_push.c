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
#include "collector/query/sql/select.h"
#include "collector/query/sql/sql_groups.h"
#include "proto/base/cli.h"
#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct push {
    const ec_select *select;
    ec_sql_groups *groups;
    const ec_expr *keys[EC_GROUPING_KEYS_MAX]; /* without parentheses */
    ea_text columns, where, order;             /* of the new statement */
    int is_having;
    const char *why; /* not handed down; NULL: so far it is */
} push;

static void push_refuse(push *p, const char *why) {
    if (!p->why)
        p->why = why;
}

static int is_listed(const char *name, const char *const *list) {
    for (; *list; list++)
        if (ec_select_same_name(name, *list))
            return 1;
    return 0;
}

/* ---- columns ---- */

/* The column of the table that an expression is: 1, 0 when it is none. */
static int column_of(const push *p, const ec_expr *e, size_t *ret) {
    const ec_select *s = p->select;
    e = ec_expr_bare(e);
    if (e->kind != EC_EXPR_COLUMN ||
        (e->table && !ec_select_same_name(e->table, s->table_alias ? s->table_alias : s->table)))
        return 0;
    *ret = ec_table_schema_find(&p->groups->shape, e->name);
    return *ret < p->groups->shape.count;
}

/* The result column that an expression names by its alias; NULL: none. */
static const ec_select_column *alias_of(const push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    for (size_t i = 0; e->kind == EC_EXPR_COLUMN && !e->table && i < p->select->column_count; i++)
        if (p->select->columns[i].alias && ec_select_same_name(p->select->columns[i].alias, e->name))
            return &p->select->columns[i];
    return NULL;
}

static int push_is_same(const push *p, const ec_expr *a, const ec_expr *b) {
    size_t x, y;
    a = ec_expr_bare(a);
    b = ec_expr_bare(b);
    if (a->kind != b->kind || a->argument_count != b->argument_count)
        return 0;
    switch (a->kind) {
    case EC_EXPR_COLUMN:
        return column_of(p, a, &x) && column_of(p, b, &y) && x == y;
    case EC_EXPR_NUMBER:
        return a->len_bytes == b->len_bytes && memcmp(a->text, b->text, a->len_bytes) == 0;
    case EC_EXPR_STRING:
        return strcmp(a->name, b->name) == 0;
    case EC_EXPR_CALL:
        if (a->is_star || b->is_star || a->is_distinct || b->is_distinct || a->has_filter || b->has_filter ||
            !ec_select_same_name(a->name, b->name))
            return 0;
        break;
    default:
        return 0;
    }
    for (size_t i = 0; i < a->argument_count; i++)
        if (!push_is_same(p, a->arguments[i], b->arguments[i]))
            return 0;
    return 1;
}

/* ---- keys ---- */

/* A whole number above 0 as it is written: 1. */
static int whole_number(const ec_expr *e, int64_t *ret) {
    char digits[24];
    uint64_t v;
    if (e->kind != EC_EXPR_NUMBER || e->len_bytes >= sizeof digits)
        return 0;
    memcpy(digits, e->text, e->len_bytes);
    digits[e->len_bytes] = 0;
    if (strspn(digits, "0123456789") != e->len_bytes || ea_u64_parse(digits, &v) || v == 0 || v > INT64_MAX)
        return 0;
    *ret = (int64_t)v;
    return 1;
}

/* time_bucket(column, width): 1 and the key. */
static int bucket_of(const push *p, const ec_expr *e, ec_grouping_key *ret) {
    if (e->kind != EC_EXPR_CALL || !ec_select_same_name(e->name, "time_bucket") || e->argument_count != 2 ||
        e->is_distinct || e->has_filter || !column_of(p, e->arguments[0], &ret->column))
        return 0;
    enum ec_kind kind = p->groups->shape.columns[ret->column].kind;
    const ec_expr *width = ec_expr_bare(e->arguments[1]);
    if (kind != EC_KIND_TIME && kind != EC_KIND_INT && kind != EC_KIND_HEX && kind != EC_KIND_ADDRESS)
        return 0;
    if (width->kind == EC_EXPR_STRING)
        return ea_duration_parse(width->name, &ret->width_ns) == 0 && ret->width_ns > 0;
    return whole_number(width, &ret->width_ns);
}

/* What a term of GROUP BY stands for: an ordinal, a column, an alias or an expression. */
static const ec_expr *grouped_by(const push *p, const ec_expr *e) {
    int64_t ordinal;
    size_t column;
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_NUMBER)
        return whole_number(e, &ordinal) && (uint64_t)ordinal <= p->select->column_count
                   ? ec_expr_bare(p->select->columns[ordinal - 1].value)
                   : NULL;
    const ec_select_column *alias = e->kind == EC_EXPR_COLUMN && !column_of(p, e, &column) ? alias_of(p, e) : NULL;
    return alias ? ec_expr_bare(alias->value) : e;
}

static void push_keys(push *p) {
    ec_sql_groups *g = p->groups;
    for (size_t i = 0; !p->why && i < p->select->group_by_count; i++) {
        const ec_expr *e = grouped_by(p, p->select->group_by[i]);
        ec_grouping_key key = {0};
        if (g->key_count == EC_GROUPING_KEYS_MAX) {
            push_refuse(p, "more columns to group by");
        } else if (!e || (!bucket_of(p, e, &key) && !column_of(p, e, &key.column))) {
            push_refuse(p, "an expression to group by");
        } else if (!ec_grouping_takes(&g->shape, key.column)) {
            push_refuse(p, "reals to group by");
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

static const struct {
    const char *name;
    enum ec_sql_measure_kind kind;
} AGGREGATES[] = {{"count", EC_SQL_COUNT}, {"sum", EC_SQL_SUM}, {"total", EC_SQL_TOTAL},
                  {"avg", EC_SQL_AVG},     {"min", EC_SQL_MIN}, {"max", EC_SQL_MAX}};

static int is_of_numbers(enum ec_kind kind) {
    return kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_TIME || kind == EC_KIND_ADDRESS ||
           kind == EC_KIND_COUNT;
}

/* The number of the column of values that a measure needs. */
static size_t push_value(push *p, enum ec_sql_measure_kind kind, size_t column) {
    ec_sql_groups *g = p->groups;
    enum ec_grouping_what what = kind == EC_SQL_COUNT_DISTINCT                  ? EC_GROUPING_DISTINCT
                                 : is_of_numbers(g->shape.columns[column].kind) ? EC_GROUPING_NUMBERS
                                                                                : EC_GROUPING_EXTREMES;
    for (size_t i = 0; i < g->value_count; i++)
        if (g->values[i].column == column && g->values[i].what == what)
            return i;
    g->values[g->value_count] = (ec_grouping_value){column, what}; /* there are not more of these than of measures */
    return g->value_count++;
}

static void push_measure(push *p, ea_text *to, enum ec_sql_measure_kind kind, size_t column) {
    ec_sql_groups *g = p->groups;
    size_t i = 0;
    while (i < g->measure_count && (g->measures[i].kind != kind || g->measures[i].column != column))
        i++;
    if (i == EC_SQL_MEASURES_MAX) {
        push_refuse(p, "more aggregates");
        return;
    }
    if (i == g->measure_count) {
        g->measures[i] = (ec_sql_measure){.kind = kind, .column = column};
        if (kind != EC_SQL_COUNT_ALL)
            g->measures[i].value = push_value(p, kind, column);
        g->measure_count++;
    }
    ea_text_printf(to, "(+\"" EC_SQL_GROUPS_PREFIX "value %zu)\")", i);
}

/* Puts an aggregate's measure: 1; 0 when it is no aggregate. */
static int put_aggregate(push *p, ea_text *to, const ec_expr *e) {
    size_t i = 0, column = 0;
    while (i < sizeof AGGREGATES / sizeof *AGGREGATES && !ec_select_same_name(AGGREGATES[i].name, e->name))
        i++;
    if (i == sizeof AGGREGATES / sizeof *AGGREGATES)
        return 0;
    enum ec_sql_measure_kind kind = AGGREGATES[i].kind;
    size_t arguments = e->argument_count - (size_t)e->has_filter;
    if ((kind == EC_SQL_MIN || kind == EC_SQL_MAX) && arguments > 1)
        return 0; /* a function of one row */
    if (e->has_filter) {
        push_refuse(p, "FILTER");
        return 1;
    }
    if (kind == EC_SQL_COUNT && e->is_star) {
        push_measure(p, to, EC_SQL_COUNT_ALL, 0);
        return 1;
    }
    if (arguments != 1 || e->is_star || !column_of(p, e->arguments[0], &column)) {
        push_refuse(p, "an aggregate of an expression");
        return 1;
    }
    enum ec_kind of = p->groups->shape.columns[column].kind;
    int is_sum = kind == EC_SQL_SUM || kind == EC_SQL_TOTAL || kind == EC_SQL_AVG;
    if (!ec_grouping_takes(&p->groups->shape, column) || of == EC_KIND_BLOB || (is_sum && !is_of_numbers(of)))
        push_refuse(p, "an aggregate of values that are no whole numbers");
    else if (e->is_distinct && kind != EC_SQL_COUNT)
        push_refuse(p, "DISTINCT in an aggregate");
    else
        push_measure(p, to, e->is_distinct ? EC_SQL_COUNT_DISTINCT : kind, column);
    return 1;
}

/* ---- expressions over groups ---- */

/* Functions of one row whose result depends on their arguments alone. */
static const char *const SCALARS[] = {
    "abs",       "coalesce",    "ifnull",         "nullif",    "iif",      "round",        "length",
    "lower",     "upper",       "substr",         "substring", "trim",     "ltrim",        "rtrim",
    "instr",     "hex",         "printf",         "format",    "typeof",   "quote",        "sign",
    "min",       "max",         "date",           "time",      "datetime", "julianday",    "strftime",
    "u64",       "u64_text",    "u64_number",     "hex_text",  "time_ns",  "now",          "ago",
    "time_text", "time_bucket", "duration_ns",    "guid",      "sid",      "account_name", "ip",
    "ip_in",     "ntstatus",    "path_on_volume", NULL};

static void put_outer(push *p, ea_text *to, const ec_expr *e, int has_aliases);

/* The text of an expression, with its operands put anew. */
static void put_operands(push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    const char *at = e->text;
    for (size_t i = 0; i < e->argument_count; i++) {
        const ec_expr *operand = e->arguments[i];
        ea_text_add(to, at, (size_t)(operand->text - at));
        put_outer(p, to, operand, has_aliases);
        at = operand->text + operand->len_bytes;
    }
    ea_text_add(to, at, (size_t)(e->text + e->len_bytes - at));
}

static void put_name(push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    static const char *const ROW_NUMBERS[] = {"rowid", "oid", "_rowid_", NULL};
    static const char *const CONSTANTS[] = {"true", "false", NULL};
    size_t column;
    const ec_select_column *alias = has_aliases ? alias_of(p, e) : NULL;
    if (column_of(p, e, &column) || is_listed(e->name, ROW_NUMBERS)) {
        push_refuse(p, "a column that is not grouped by");
    } else if (alias) { /* in the new statement each result column has one, so that the name may be another's */
        ea_text_char(to, '(');
        put_outer(p, to, alias->value, 0);
        ea_text_char(to, ')');
    } else if (!e->table && is_listed(e->name, CONSTANTS)) {
        ea_text_add(to, e->text, e->len_bytes);
    } else {
        push_refuse(p, "a name");
    }
}

/* A column that a scan compares with more names than its values. */
static int has_other_names(const push *p, size_t column) {
    int common = p->groups->shape.columns[column].common;
    return common == EC_NAME || common == EC_PROVIDER_NAME;
}

/* An expression over the rows of groups. has_aliases: it may name result columns. */
static void put_outer(push *p, ea_text *to, const ec_expr *e, int has_aliases) {
    if (p->why)
        return;
    for (size_t k = 0; k < p->groups->key_count; k++)
        if (push_is_same(p, e, p->keys[k])) {
            if (p->is_having && has_other_names(p, p->groups->keys[k].column))
                push_refuse(p, "a condition on names"); /* SQLite moves it to WHERE, where the scan knows all names */
            ea_text_printf(to,
                           p->groups->keys[k].width_ns ? "(+\"" EC_SQL_GROUPS_PREFIX "key %zu)\")"
                                                       : "\"" EC_SQL_GROUPS_PREFIX "key %zu)\"",
                           k);
            return;
        }
    switch (e->kind) {
    case EC_EXPR_COLUMN:
        put_name(p, to, e, has_aliases);
        return;
    case EC_EXPR_CALL:
        if (put_aggregate(p, to, e))
            return;
        if (e->is_star || e->is_distinct || e->has_filter || !is_listed(e->name, SCALARS))
            push_refuse(p, "a function");
        else
            put_operands(p, to, e, has_aliases);
        return;
    default:
        put_operands(p, to, e, has_aliases);
    }
}

/* ---- conditions ---- */

/* An expression of constants without an affinity: what SQLite computes once for the whole statement. */
static int is_constant(const ec_expr *e) {
    static const char *const FUNCTIONS[] = {"u64", "time_ns", "now", "ago", "duration_ns", "guid", "sid", "ip", NULL};
    static const char *const OPERATORS[] = {"+", "-", "*", "/", "%", NULL};
    e = ec_expr_bare(e);
    switch (e->kind) {
    case EC_EXPR_NUMBER:
    case EC_EXPR_STRING:
    case EC_EXPR_PARAMETER:
        return 1;
    case EC_EXPR_CALL:
        if (e->is_star || e->is_distinct || e->has_filter || !is_listed(e->name, FUNCTIONS))
            return 0;
        break;
    case EC_EXPR_OPERATOR:
        if (!is_listed(e->name, OPERATORS))
            return 0;
        break;
    default:
        return 0;
    }
    for (size_t i = 0; i < e->argument_count; i++)
        if (!is_constant(e->arguments[i]))
            return 0;
    return 1;
}

/* One more condition on a column: the name of the column that is compared in its place. Each condition has one of its
 * own: of two on one column SQLite may find that they contradict each other, and then asks for no total. */
static void put_compared(push *p, size_t column, enum ec_op op) {
    ec_sql_groups *g = p->groups;
    if (g->condition_count == EC_SQL_CONDITIONS_MAX) {
        push_refuse(p, "more conditions");
        return;
    }
    if (!ec_scan_keeps(&g->shape, column, op)) {
        push_refuse(p, "a condition that the scan does not keep");
        return;
    }
    g->compared[g->condition_count] = column;
    ea_text_printf(&p->where, "\"" EC_SQL_GROUPS_PREFIX "if %zu)\"", g->condition_count++);
}

/* column: that it is compared with. */
static void put_constant(push *p, const ec_expr *e, size_t column) {
    enum ec_kind kind = p->groups->shape.columns[column].kind;
    const ec_expr *bare = ec_expr_bare(e);
    ea_err ignored;
    int64_t number;
    if (!is_constant(e))
        push_refuse(p, "a comparison with something that is no constant");
    else if (bare->kind == EC_EXPR_STRING &&
             ((kind == EC_KIND_TIME && ec_sql_time(bare->name, &number, &ignored)) ||
              (kind == EC_KIND_ADDRESS && ec_sql_address(bare->name, &number, &ignored))))
        push_refuse(p, "a text that is no time or no address"); /* an error, if SQLite compares it at all */
    ea_text_add(&p->where, e->text, e->len_bytes);
}

/* op as it is written, and with its sides exchanged: 1; 0 for any other operator. */
static int op_of(const char *name, enum ec_op *ret, enum ec_op *ret_exchanged) {
    static const struct {
        const char *name;
        enum ec_op op, exchanged;
    } OPS[] = {{"=", EC_OP_EQ, EC_OP_EQ},  {"==", EC_OP_EQ, EC_OP_EQ}, {"<", EC_OP_LT, EC_OP_GT},
               {"<=", EC_OP_LE, EC_OP_GE}, {">", EC_OP_GT, EC_OP_LT},  {">=", EC_OP_GE, EC_OP_LE}};

    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        if (strcmp(name, OPS[i].name) == 0) {
            *ret = OPS[i].op;
            *ret_exchanged = OPS[i].exchanged;
            return 1;
        }
    return 0;
}

static void push_condition(push *p, const ec_expr *e) {
    size_t column = 0;
    enum ec_op op, exchanged;
    const ec_expr *const *operands = (const ec_expr *const *)e->arguments;
    if (e->kind != EC_EXPR_OPERATOR) {
        push_refuse(p, "a condition");
        return;
    }
    if (op_of(e->name, &op, &exchanged)) {
        int is_left = column_of(p, operands[0], &column);
        if (!is_left && !column_of(p, operands[1], &column)) {
            push_refuse(p, "a comparison without a column");
        } else if (is_left) {
            put_compared(p, column, op);
            ea_text_printf(&p->where, " %s ", e->name);
            put_constant(p, operands[1], column);
        } else {
            put_constant(p, operands[0], column);
            ea_text_printf(&p->where, " %s ", e->name);
            put_compared(p, column, exchanged);
        }
    } else if (strcmp(e->name, "BETWEEN") == 0 && column_of(p, operands[0], &column)) {
        put_compared(p, column, EC_OP_GE);
        ea_text_str(&p->where, " >= ");
        put_constant(p, operands[1], column);
        ea_text_str(&p->where, " AND ");
        put_compared(p, column, EC_OP_LE);
        ea_text_str(&p->where, " <= ");
        put_constant(p, operands[2], column);
#if SQLITE_VERSION_NUMBER >= 3038000
    } else if (strcmp(e->name, "IN") == 0 && column_of(p, operands[0], &column)) {
        put_compared(p, column, EC_OP_EQ);
        for (size_t i = 1; i < e->argument_count; i++) {
            ea_text_str(&p->where, i == 1 ? " IN (" : ",");
            put_constant(p, operands[i], column);
        }
        ea_text_char(&p->where, ')');
#endif
    } else {
        push_refuse(p, "a condition");
    }
}

static void put_where(push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_OPERATOR && strcmp(e->name, "AND") == 0) {
        put_where(p, e->arguments[0]);
        if (!p->why)
            put_where(p, e->arguments[1]);
        return;
    }
    if (p->where.len_bytes)
        ea_text_str(&p->where, " AND ");
    push_condition(p, e);
}

/* ---- the statement ---- */

static void put_columns(push *p, sqlite3_stmt *as_written) {
    for (size_t i = 0; !p->why && i < p->select->column_count; i++) {
        const ec_select_column *c = &p->select->columns[i];
        if (c->alias && strncmp(c->alias, EC_SQL_GROUPS_PREFIX, sizeof EC_SQL_GROUPS_PREFIX - 1) == 0)
            push_refuse(p, "an alias that is reserved");
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
static int is_order_of_keys(const push *p) {
    const ec_select *s = p->select;
    if (s->order_by_count != p->groups->key_count)
        return 0;
    for (size_t i = 0; i < s->order_by_count; i++) {
        const ec_select_column *alias = alias_of(p, s->order_by[i].value);
        const ec_expr *e = ec_expr_bare(alias ? alias->value : s->order_by[i].value);
        int64_t ordinal;
        if (!alias && whole_number(e, &ordinal) && (uint64_t)ordinal <= s->column_count)
            e = s->columns[ordinal - 1].value;
        if (s->order_by[i].rest_bytes > sizeof "DESC" - 1 || !push_is_same(p, e, p->keys[i]))
            return 0;
    }
    return 1;
}

static void put_order(push *p) {
    if (!p->why && is_order_of_keys(p))
        return;
    for (size_t i = 0; !p->why && i < p->select->order_by_count; i++) {
        const ec_select_order *o = &p->select->order_by[i];
        ea_text_str(&p->order, i ? "," : " ORDER BY ");
        const ec_select_column *alias = alias_of(p, o->value);
        if (alias) /* before a column of the same name */
            ea_text_printf(&p->order, "%zu", (size_t)(alias - p->select->columns) + 1);
        else
            put_outer(p, &p->order, o->value, 1);
        ea_text_char(&p->order, ' ');
        ea_text_add(&p->order, o->rest, o->rest_bytes);
    }
}

/* Fills the plan; p->why when the statement is left as it is. */
static void plan(push *p, sqlite3_stmt *as_written) {
    const ec_select *s = p->select;
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
    }
    put_order(p);
    if (!s->group_by_count && !p->groups->measure_count)
        push_refuse(p, "no aggregate");
}

static void put_statement(const push *p, ea_text *to) {
    static const char *const EXPLAIN[] = {
        [EC_EXPLAIN_NONE] = "", [EC_EXPLAIN_PROGRAM] = "EXPLAIN ", [EC_EXPLAIN_PLAN] = "EXPLAIN QUERY PLAN "};
    ea_text_printf(to, "%sSELECT %s FROM ", EXPLAIN[p->select->explain], p->columns.data ? p->columns.data : "");
    ec_sql_add_name(to, p->groups->name);
    if (p->where.len_bytes)
        ea_text_printf(to, " WHERE %s", p->where.data);
    if (p->order.len_bytes)
        ea_text_str(to, p->order.data);
    if (p->select->limit) {
        ea_text_char(to, ' ');
        ea_text_add(to, p->select->limit, p->select->limit_bytes);
    }
    to->failed |= p->columns.failed | p->where.failed | p->order.failed;
}

static int same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the new statement stands for the other one: columns, their types, parameters. */
static int is_equal(sqlite3_stmt *a, sqlite3_stmt *b) {
    int n = sqlite3_column_count(a), parameters = sqlite3_bind_parameter_count(a);
    if (sqlite3_column_count(b) != n || sqlite3_bind_parameter_count(b) != parameters ||
        sqlite3_stmt_isexplain(a) != sqlite3_stmt_isexplain(b))
        return 0;
    for (int i = 0; i < n; i++)
        if (!same_text(sqlite3_column_name(a, i), sqlite3_column_name(b, i)) ||
            !same_text(sqlite3_column_decltype(a, i), sqlite3_column_decltype(b, i)))
            return 0;
    for (int i = 1; i <= parameters; i++)
        if (!same_text(sqlite3_bind_parameter_name(a, i), sqlite3_bind_parameter_name(b, i)))
            return 0;
    return 1;
}

/* Adds the table and compiles the new statement. *ret stays as it is where that does not do. EA_ENOMEM. */
static int replace(push *p, ec_sql *s, sqlite3_stmt **ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    ea_text sql;
    ec_sql_groups *g = p->groups;
    p->groups = NULL;
    int rc = ec_sql_add_groups(g, err);
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

int ec_sql_push(ec_sql *s, const char *sql, size_t len_bytes, sqlite3_stmt **ret, ea_err *err) {
    ec_select select;
    const ec_class_set *set = NULL;
    ea_arena arena;
    push p = {.select = &select};
    ea_arena_init(&arena, 0);
    ea_text_init(&p.columns);
    ea_text_init(&p.where);
    ea_text_init(&p.order);
    int rc = ec_select_parse(sql, len_bytes, &arena, &select, &p.why);
    if (rc == 1)
        rc = ec_sql_events_of(s, select.table, &set, err);
    if (rc == 1) {
        p.groups = calloc(1, sizeof *p.groups);
        rc = p.groups ? ec_table_schema_init(&p.groups->shape, set, err) : EA_ENOMEM;
        if (!rc) {
            p.groups->sql = s;
            p.groups->table = strdup(set ? set->name : "events");
            plan(&p, *ret);
            rc = !p.groups->table ? EA_ENOMEM : p.why ? 0 : replace(&p, s, ret, err);
        }
    }
    ec_sql_groups_destroy(p.groups);
    ea_text_deinit(&p.columns);
    ea_text_deinit(&p.where);
    ea_text_deinit(&p.order);
    ea_arena_deinit(&arena);
    return rc == EA_ENOMEM ? ea_fail(err, EA_ENOMEM, "prepare a statement") : rc < 0 ? rc : 0;
}
