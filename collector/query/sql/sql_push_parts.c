/* What a statement hands down: its columns, keys, measures and the conditions that the scan keeps. See
 * sql_push_parts.h. Thread: the connection's. */
#include "collector/query/sql/sql_push_parts.h"
#include "proto/base/cli.h"
#include "proto/base/clock.h"
#include "proto/base/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { EQUALS_MAX = 64 };

void ec_push_refuse(ec_push *p, const char *why) {
    if (!p->why)
        p->why = why;
}

int ec_push_is_listed(const char *name, const char *const *list) {
    for (; *list; list++)
        if (ea_name_equal(name, *list))
            return 1;
    return 0;
}

/* ---- columns ---- */

/* The column of the table that an expression is: 1, 0 when it is none. */
int ec_push_column(const ec_push *p, const ec_expr *e, size_t *ret) {
    const ec_select *s = p->select;
    e = ec_expr_bare(e);
    if (e->kind != EC_EXPR_COLUMN || (e->table && !ea_name_equal(e->table, s->table_alias ? s->table_alias : s->table)))
        return 0;
    *ret = ec_table_schema_find(&p->groups->shape, e->name);
    return *ret < p->groups->shape.count;
}

/* The result column that an expression names by its alias; NULL: none. */
const ec_select_column *ec_push_alias(const ec_push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    for (size_t i = 0; e->kind == EC_EXPR_COLUMN && !e->table && i < p->select->column_count; i++)
        if (p->select->columns[i].alias && ea_name_equal(p->select->columns[i].alias, e->name))
            return &p->select->columns[i];
    return NULL;
}

int ec_push_is_same(const ec_push *p, const ec_expr *a, const ec_expr *b) {
    size_t x, y;
    a = ec_expr_bare(a);
    b = ec_expr_bare(b);
    if (a->kind != b->kind || a->argument_count != b->argument_count)
        return 0;
    switch (a->kind) {
    case EC_EXPR_COLUMN:
        return ec_push_column(p, a, &x) && ec_push_column(p, b, &y) && x == y;
    case EC_EXPR_NUMBER:
        return a->len_bytes == b->len_bytes && memcmp(a->text, b->text, a->len_bytes) == 0;
    case EC_EXPR_STRING:
        return strcmp(a->name, b->name) == 0;
    case EC_EXPR_CALL:
        if (a->is_star || b->is_star || a->is_distinct || b->is_distinct || a->has_filter || b->has_filter ||
            !ea_name_equal(a->name, b->name))
            return 0;
        break;
    case EC_EXPR_OPERATOR: /* each "?" is another parameter */
        return a->len_bytes == b->len_bytes && memcmp(a->text, b->text, a->len_bytes) == 0 &&
               !memchr(a->text, '?', a->len_bytes);
    default:
        return 0;
    }
    for (size_t i = 0; i < a->argument_count; i++)
        if (!ec_push_is_same(p, a->arguments[i], b->arguments[i]))
            return 0;
    return 1;
}

/* ---- keys ---- */

static int sql_push_parts_is_of_numbers(enum ec_kind kind) {
    return kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_TIME || kind == EC_KIND_ADDRESS ||
           kind == EC_KIND_COUNT;
}

int ec_push_whole_number(const ec_expr *e, int64_t *ret) {
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
static int sql_push_parts_bucket_of(const ec_push *p, const ec_expr *e, ec_grouping_key *ret) {
    if (e->kind != EC_EXPR_CALL || !ea_name_equal(e->name, "time_bucket") || e->argument_count != 2 || e->is_distinct ||
        e->has_filter || !ec_push_column(p, e->arguments[0], &ret->column))
        return 0;
    enum ec_kind kind = p->groups->shape.columns[ret->column].kind;
    const ec_expr *width = ec_expr_bare(e->arguments[1]);
    if (kind != EC_KIND_TIME && kind != EC_KIND_INT && kind != EC_KIND_HEX && kind != EC_KIND_ADDRESS)
        return 0;
    if (width->kind == EC_EXPR_STRING)
        return ea_duration_parse(width->name, &ret->width_ns) == 0 && ret->width_ns > 0;
    return ec_push_whole_number(width, &ret->width_ns);
}

static int add_step(ec_grouping_key *key, enum ec_step_what what, int64_t number) {
    if (key->step_count == EC_GROUPING_STEPS_MAX)
        return 0;
    key->steps[key->step_count++] = (ec_grouping_step){what, number};
    return 1;
}

/* Steps of an expression of whole numbers: 1; 0 when it is none. */
static int add_steps(const ec_push *p, const ec_expr *e, ec_grouping_key *key) {
    static const char OPERATORS[] = "+-*/%";
    size_t column;
    int64_t number;
    e = ec_expr_bare(e);
    if (ec_push_whole_number(e, &number))
        return add_step(key, EC_STEP_NUMBER, number);
    if (ec_push_column(p, e, &column)) {
        key->column = column;
        return sql_push_parts_is_of_numbers(p->groups->shape.columns[column].kind) &&
               add_step(key, EC_STEP_COLUMN, (int64_t)column);
    }
    const char *sign =
        e->kind == EC_EXPR_OPERATOR && e->name[1] == 0 && e->argument_count == 2 ? strchr(OPERATORS, *e->name) : NULL;
    return sign && add_steps(p, e->arguments[0], key) && add_steps(p, e->arguments[1], key) &&
           add_step(key, (enum ec_step_what)(EC_STEP_ADD + (sign - OPERATORS)), 0);
}

int ec_push_computed(const ec_push *p, const ec_expr *e, ec_grouping_key *ret) {
    ec_grouping_key key = {0};
    int has_column = 0;
    if (sql_push_parts_bucket_of(p, e, ret))
        return 1;
    if (e->kind != EC_EXPR_OPERATOR || !add_steps(p, e, &key))
        return 0;
    for (size_t i = 0; i < key.step_count; i++)
        has_column |= key.steps[i].what == EC_STEP_COLUMN;
    if (has_column)
        *ret = key;
    return has_column;
}

const ec_expr *ec_push_grouped_by(const ec_push *p, const ec_expr *e) {
    int64_t ordinal;
    size_t column;
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_NUMBER)
        return ec_push_whole_number(e, &ordinal) && (uint64_t)ordinal <= p->select->column_count
                   ? ec_expr_bare(p->select->columns[ordinal - 1].value)
                   : NULL;
    const ec_select_column *alias =
        e->kind == EC_EXPR_COLUMN && !ec_push_column(p, e, &column) ? ec_push_alias(p, e) : NULL;
    return alias ? ec_expr_bare(alias->value) : e;
}

/* ---- measures ---- */

static const struct {
    const char *name;
    enum ec_sql_measure_kind kind;
} AGGREGATES[] = {{"count", EC_SQL_COUNT}, {"sum", EC_SQL_SUM}, {"total", EC_SQL_TOTAL},
                  {"avg", EC_SQL_AVG},     {"min", EC_SQL_MIN}, {"max", EC_SQL_MAX}};

int ec_push_aggregate(const ec_expr *e, enum ec_sql_measure_kind *ret) {
    for (size_t i = 0; i < sizeof AGGREGATES / sizeof *AGGREGATES; i++)
        if (ea_name_equal(AGGREGATES[i].name, e->name)) {
            *ret = AGGREGATES[i].kind;
            return 1;
        }
    return 0;
}

int ec_push_takes(const ec_push *p, enum ec_sql_measure_kind kind, size_t column) {
    enum ec_kind of = p->groups->shape.columns[column].kind;
    int is_sum = kind == EC_SQL_SUM || kind == EC_SQL_TOTAL || kind == EC_SQL_AVG;
    return ec_grouping_takes(&p->groups->shape, column) && of != EC_KIND_BLOB &&
           (!is_sum || sql_push_parts_is_of_numbers(of));
}

/* The number of the values that a measure needs. Of times the least and greatest are often known without them; their
 * sum is not. */
static size_t push_value(ec_push *p, enum ec_sql_measure_kind kind, const ec_grouping_key *of) {
    ec_sql_groups *g = p->groups;
    const ec_column *c = &g->shape.columns[of->column];
    int is_sum = kind == EC_SQL_SUM || kind == EC_SQL_TOTAL || kind == EC_SQL_AVG;
    int has_numbers =
        ec_grouping_is_computed(of) || (sql_push_parts_is_of_numbers(c->kind) && (is_sum || c->common != EC_TIME));
    enum ec_grouping_what what = kind == EC_SQL_COUNT_DISTINCT ? EC_GROUPING_DISTINCT
                                 : has_numbers                 ? EC_GROUPING_NUMBERS
                                                               : EC_GROUPING_EXTREMES;
    for (size_t i = 0; i < g->value_count; i++)
        if (ec_grouping_is_same_key(&g->values[i].of, of) && g->values[i].what == what)
            return i;
    g->values[g->value_count] = (ec_grouping_value){*of, what}; /* there are not more of these than of measures */
    return g->value_count++;
}

void ec_push_measure(ec_push *p, ea_text *to, enum ec_sql_measure_kind kind, const ec_grouping_key *of) {
    static const ec_grouping_key NOTHING;
    ec_sql_groups *g = p->groups;
    size_t i = 0;
    of = of ? of : &NOTHING;
    while (i < g->measure_count && (g->measures[i].kind != kind || !ec_grouping_is_same_key(&g->measures[i].of, of)))
        i++;
    if (i == EC_SQL_MEASURES_MAX) {
        ec_push_refuse(p, "more aggregates");
        return;
    }
    if (i == g->measure_count) {
        g->measures[i] = (ec_sql_measure){.kind = kind, .of = *of};
        if (kind != EC_SQL_COUNT_ALL)
            g->measures[i].value = push_value(p, kind, of);
        g->measure_count++;
    }
    ea_text_printf(to, "(+\"" EC_SQL_GROUPS_PREFIX "value %zu)\")", i);
}

const char *const EC_PUSH_SCALARS[] = {
    "abs",       "coalesce",    "ifnull",         "nullif",    "iif",      "round",        "length",
    "lower",     "upper",       "substr",         "substring", "trim",     "ltrim",        "rtrim",
    "instr",     "hex",         "printf",         "format",    "typeof",   "quote",        "sign",
    "min",       "max",         "date",           "time",      "datetime", "julianday",    "strftime",
    "u64",       "u64_text",    "u64_number",     "hex_text",  "time_ns",  "now",          "ago",
    "time_text", "time_bucket", "duration_ns",    "guid",      "sid",      "account_name", "ip",
    "ip_in",     "ntstatus",    "path_on_volume", NULL};

/* ---- conditions ---- */

/* An expression of constants without an affinity: what SQLite computes once for the whole statement. */
static int sql_push_parts_is_constant(const ec_expr *e) {
    static const char *const FUNCTIONS[] = {"u64", "time_ns", "now", "ago", "duration_ns", "guid", "sid", "ip", NULL};
    static const char *const OPERATORS[] = {"+", "-", "*", "/", "%", NULL};
    e = ec_expr_bare(e);
    switch (e->kind) {
    case EC_EXPR_NUMBER:
    case EC_EXPR_STRING:
    case EC_EXPR_PARAMETER:
        return 1;
    case EC_EXPR_CALL:
        if (e->is_star || e->is_distinct || e->has_filter || !ec_push_is_listed(e->name, FUNCTIONS))
            return 0;
        break;
    case EC_EXPR_OPERATOR:
        if (!ec_push_is_listed(e->name, OPERATORS))
            return 0;
        break;
    default:
        return 0;
    }
    for (size_t i = 0; i < e->argument_count; i++)
        if (!sql_push_parts_is_constant(e->arguments[i]))
            return 0;
    return 1;
}

/* One more condition on a column: the name of the column that is compared in its place. Each condition has one of its
 * own: of two on one column SQLite may find that they contradict each other, and then asks for no total. */
static void put_compared(ec_push *p, size_t column, enum ec_op op) {
    ec_sql_groups *g = p->groups;
    if (g->condition_count == EC_SQL_CONDITIONS_MAX) {
        ec_push_refuse(p, "more conditions");
        return;
    }
    if (!ec_scan_keeps(&g->shape, column, op)) {
        ec_push_refuse(p, "a condition that the scan does not keep");
        return;
    }
    g->compared[g->condition_count] = column;
    ea_text_printf(&p->where, "\"" EC_SQL_GROUPS_PREFIX "if %zu)\"", g->condition_count++);
}

/* column: that it is compared with. */
static void put_constant(ec_push *p, const ec_expr *e, size_t column) {
    enum ec_kind kind = p->groups->shape.columns[column].kind;
    const ec_expr *bare = ec_expr_bare(e);
    ea_err ignored;
    int64_t number;
    if (!sql_push_parts_is_constant(e))
        ec_push_refuse(p, "a comparison with something that is no constant");
    else if (bare->kind == EC_EXPR_STRING &&
             ((kind == EC_KIND_TIME && ec_sql_time(p->groups->sql, bare->name, &number, &ignored)) ||
              (kind == EC_KIND_ADDRESS && ec_sql_address(bare->name, &number, &ignored))))
        ec_push_refuse(p, "a text that is no time or no address"); /* an error, if SQLite compares it at all */
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

void ec_push_condition(ec_push *p, const ec_expr *e) {
    size_t column = 0;
    enum ec_op op, exchanged;
    const ec_expr *const *operands = (const ec_expr *const *)e->arguments;
    if (e->kind != EC_EXPR_OPERATOR) {
        ec_push_refuse(p, "a condition");
        return;
    }
    if (op_of(e->name, &op, &exchanged)) {
        int is_left = ec_push_column(p, operands[0], &column);
        if (!is_left && !ec_push_column(p, operands[1], &column)) {
            ec_push_refuse(p, "a comparison without a column");
        } else if (is_left) {
            put_compared(p, column, op);
            ea_text_printf(&p->where, " %s ", e->name);
            put_constant(p, operands[1], column);
        } else {
            put_constant(p, operands[0], column);
            ea_text_printf(&p->where, " %s ", e->name);
            put_compared(p, column, exchanged);
        }
    } else if (strcmp(e->name, "BETWEEN") == 0 && ec_push_column(p, operands[0], &column)) {
        put_compared(p, column, EC_OP_GE);
        ea_text_str(&p->where, " >= ");
        put_constant(p, operands[1], column);
        ea_text_str(&p->where, " AND ");
        put_compared(p, column, EC_OP_LE);
        ea_text_str(&p->where, " <= ");
        put_constant(p, operands[2], column);
#if SQLITE_VERSION_NUMBER >= 3038000
    } else if (strcmp(e->name, "IN") == 0 && ec_push_column(p, operands[0], &column)) {
        put_compared(p, column, EC_OP_EQ);
        for (size_t i = 1; i < e->argument_count; i++) {
            ea_text_str(&p->where, i == 1 ? " IN (" : ",");
            put_constant(p, operands[i], column);
        }
        ea_text_char(&p->where, ')');
#endif
    } else {
        ec_push_refuse(p, "a condition");
    }
}

/* ---- filters ---- */

/* Comparisons in which a table of events reads the other side in its own way: a text as a time or an address, another
 * name of a class. */
int ec_push_is_read_otherwise(const ec_push *p, const ec_expr *e) {
    static const char *const COMPARISONS[] = {
        "=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS", "IN", "NOT IN", "BETWEEN", "NOT BETWEEN", "IS NOT", NULL};
    int has_text = 0, has_special = 0, has_name = 0;
    size_t column;
    if (e->kind != EC_EXPR_OPERATOR)
        return 0;
    /* which compares texts alone: another name was refused before (sql_names.c) */
    int is_unequal = strcmp(e->name, "<>") == 0 || strcmp(e->name, "!=") == 0;
    for (size_t i = 0; i < e->argument_count; i++) {
        const ec_expr *operand = ec_expr_bare(e->arguments[i]);
        if (ec_push_column(p, operand, &column)) {
            const ec_column *c = &p->groups->shape.columns[column];
            has_special |= c->kind == EC_KIND_TIME || c->kind == EC_KIND_ADDRESS;
            has_name |= c->common == EC_NAME || c->common == EC_PROVIDER_NAME;
        } else if (operand->kind != EC_EXPR_NUMBER) {
            has_text = 1;
        }
    }
    return ec_push_is_listed(e->name, COMPARISONS) ? (has_special && has_text) || (has_name && !is_unequal)
                                                   : has_special && strchr("LGRMN", *e->name) && has_text;
}

/* What depends on more than its arguments: the present moment. */
static const char *const OF_MOMENT[] = {"date", "time", "datetime", "julianday", "strftime", "now", "ago", NULL};

/* How many columns a condition reads, up to two; 2, too, when it cannot be a leaf. *ret: the column. */
static int leaf_columns(const ec_push *p, const ec_expr *e, size_t *ret) {
    static const char *const CONSTANTS[] = {"true", "false", NULL};

    enum { TOO_MANY = 2 };

    enum ec_sql_measure_kind kind;
    size_t column;
    int count = 0;
    switch (e->kind) {
    case EC_EXPR_COLUMN:
        if (!ec_push_column(p, e, &column))
            return !e->table && ec_push_is_listed(e->name, CONSTANTS) ? 0 : TOO_MANY;
        *ret = column;
        return 1;
    case EC_EXPR_PARAMETER:
        return TOO_MANY;
    case EC_EXPR_CALL:
        if (e->is_star || e->is_distinct || e->has_filter || !ec_push_is_listed(e->name, EC_PUSH_SCALARS) ||
            ec_push_is_listed(e->name, OF_MOMENT) || (ec_push_aggregate(e, &kind) && e->argument_count == 1))
            return TOO_MANY;
        break;
    case EC_EXPR_OPERATOR:
        if (strstr(e->name, "MATCH") || ec_push_is_read_otherwise(p, e))
            return TOO_MANY;
        break;
    default:
        break;
    }
    for (size_t i = 0; i < e->argument_count; i++) {
        size_t other = 0;
        int n = leaf_columns(p, e->arguments[i], &other);
        if (n == TOO_MANY || (n && count && other != *ret))
            return TOO_MANY;
        if (n) {
            *ret = other;
            count = 1;
        }
    }
    return count;
}

/* A column compared with a whole number as it is written: 1, and the node's operator and number. */
static int is_number_comparison(const ec_push *p, const ec_expr *e, ec_filter_node *to) {
    static const struct {
        const char *name;
        enum ec_filter_op op, exchanged;
    } OPS[] = {{"=", EC_FILTER_EQ, EC_FILTER_EQ},  {"==", EC_FILTER_EQ, EC_FILTER_EQ},
               {"<>", EC_FILTER_NE, EC_FILTER_NE}, {"!=", EC_FILTER_NE, EC_FILTER_NE},
               {"<", EC_FILTER_LT, EC_FILTER_GT},  {"<=", EC_FILTER_LE, EC_FILTER_GE},
               {">", EC_FILTER_GT, EC_FILTER_LT},  {">=", EC_FILTER_GE, EC_FILTER_LE}};

    size_t column;
    if (e->kind != EC_EXPR_OPERATOR || e->argument_count != 2)
        return 0;
    int is_left = ec_push_column(p, e->arguments[0], &column);
    const ec_expr *number = ec_expr_bare(e->arguments[is_left]);
    const ec_column *c = &p->groups->shape.columns[to->column];
    if (number->kind != EC_EXPR_NUMBER || !sql_push_parts_is_of_numbers(c->kind) || c->is_name ||
        (!is_left && !ec_push_column(p, e->arguments[1], &column)))
        return 0;
    to->number = 0;
    if (!(number->len_bytes == 1 && *number->text == '0') && !ec_push_whole_number(number, &to->number))
        return 0;
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        if (strcmp(e->name, OPS[i].name) == 0) {
            to->op = is_left ? OPS[i].op : OPS[i].exchanged;
            return 1;
        }
    return 0;
}

static char *sql_push_parts_copy_text(const ec_expr *e) {
    char *copy = malloc(e->len_bytes + 1);
    if (copy) {
        memcpy(copy, e->text, e->len_bytes);
        copy[e->len_bytes] = 0;
    }
    return copy;
}

/* AND, OR or NOT: 1 and which. */
static int connective(const ec_expr *e, enum ec_filter_what *ret) {
    static const struct {
        const char *name;
        enum ec_filter_what what;
    } NAMES[] = {{"AND", EC_FILTER_AND}, {"OR", EC_FILTER_OR}, {"NOT", EC_FILTER_NOT}};

    for (size_t i = 0; e->kind == EC_EXPR_OPERATOR && i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(e->name, NAMES[i].name) == 0) {
            *ret = NAMES[i].what;
            return 1;
        }
    return 0;
}

/* Adds the nodes of a condition: 1 and the last one's number; 0 when it is no filter. */
static int add_nodes(ec_push *p, const ec_expr *e, size_t *ret) {
    ec_filter *f = &p->groups->filter;
    ec_filter_node node = {0};
    e = ec_expr_bare(e);
    int columns = leaf_columns(p, e, &node.column);
    if (columns == 0)
        return 0;
    if (columns == 1)
        node.what = is_number_comparison(p, e, &node) ? EC_FILTER_NUMBER : EC_FILTER_LEAF;
    else if (!connective(e, &node.what) || !add_nodes(p, e->arguments[0], &node.a) ||
             (node.what != EC_FILTER_NOT && !add_nodes(p, e->arguments[1], &node.b)))
        return 0;
    if (f->node_count == EC_FILTER_NODES_MAX)
        return 0;
    if (columns == 1 && !(node.text = sql_push_parts_copy_text(e))) {
        p->where.failed = 1;
        return 0;
    }
    f->nodes[f->node_count] = node;
    *ret = f->node_count++;
    return 1;
}

int ec_push_filter(ec_push *p, const ec_expr *e) {
    ec_filter *f = &p->groups->filter;
    size_t before = f->node_count, root = 0;
    if (f->root_count == EC_FILTER_ROOTS_MAX || !add_nodes(p, e, &root)) {
        ec_filter_cut(f, before);
        return 0;
    }
    char *text = sql_push_parts_copy_text(e);
    if (!f->alias && p->select->table_alias)
        f->alias = strdup(p->select->table_alias);
    if (!text || (p->select->table_alias && !f->alias)) {
        free(text);
        ec_filter_cut(f, before);
        p->where.failed = 1;
        return 0;
    }
    f->texts[f->root_count] = text;
    f->roots[f->root_count++] = root;
    return 1;
}

/* ---- what a filter implies ---- */

#if SQLITE_VERSION_NUMBER >= 3038000

/* Constants, one of which a column has. */
typedef struct one_of {
    const ec_expr *items[EQUALS_MAX];
    size_t count;
} one_of;

static int is_of_column(const ec_push *p, const ec_expr *e, size_t column) {
    size_t found;
    return ec_push_column(p, e, &found) && found == column;
}

/* Adds what the column is compared with, as it is written and of the column's type: 1; 0 when it is anything else. */
static int add_equal(const ec_push *p, const ec_expr *e, size_t column, one_of *to) {
    enum ec_expr_kind kind = p->groups->shape.columns[column].kind == EC_KIND_TEXT ? EC_EXPR_STRING : EC_EXPR_NUMBER;
    e = ec_expr_bare(e);
    if (e->kind != kind || to->count == EQUALS_MAX)
        return 0;
    to->items[to->count++] = e;
    return 1;
}

/* Adds constants of which the column has one wherever a condition is true: 1; 0 when it says no such thing. */
static int add_equals(const ec_push *p, const ec_expr *e, size_t column, one_of *to) {
    size_t before = to->count;
    e = ec_expr_bare(e);
    ec_expr *const *of = e->arguments;
    if (e->kind != EC_EXPR_OPERATOR)
        return 0;
    if (strcmp(e->name, "OR") == 0)
        return add_equals(p, of[0], column, to) && add_equals(p, of[1], column, to);
    if (strcmp(e->name, "AND") == 0) {
        if (add_equals(p, of[0], column, to))
            return 1;
        to->count = before;
        return add_equals(p, of[1], column, to);
    }
    if (strcmp(e->name, "=") == 0 || strcmp(e->name, "==") == 0)
        return (is_of_column(p, of[0], column) && add_equal(p, of[1], column, to)) ||
               (is_of_column(p, of[1], column) && add_equal(p, of[0], column, to));
    if (strcmp(e->name, "IN") != 0 || !is_of_column(p, of[0], column))
        return 0;
    for (size_t i = 1; i < e->argument_count; i++)
        if (!add_equal(p, of[i], column, to))
            return 0;
    return 1;
}

#endif

/* The store's index skips streams and batches by conditions on some columns, which a filter hides from it, as that of
 * host = 'a' OR (host = 'b' AND pid = 4): what follows from the filter for such a column becomes a condition, too. */
void ec_push_implied(ec_push *p, const ec_expr *e) {
#if SQLITE_VERSION_NUMBER >= 3038000
    static const size_t INDEXED[] = {EC_HOST, EC_STREAM, EC_BATCH, EC_PID};
    for (size_t k = 0; k < sizeof INDEXED / sizeof *INDEXED; k++) {
        one_of equals = {.count = 0};
        if (p->groups->condition_count == EC_SQL_CONDITIONS_MAX || !add_equals(p, e, INDEXED[k], &equals))
            continue;
        if (p->where.len_bytes)
            ea_text_str(&p->where, " AND ");
        put_compared(p, INDEXED[k], EC_OP_EQ);
        for (size_t i = 0; i < equals.count; i++) {
            ea_text_str(&p->where, i ? "," : " IN (");
            ea_text_add(&p->where, equals.items[i]->text, equals.items[i]->len_bytes);
        }
        ea_text_char(&p->where, ')');
    }
#else
    (void)p, (void)e;
#endif
}

/* Whether the index skips something for each branch of an OR: SQLite reads the branches one after the other then. */
static int is_indexed(const ec_push *p, const ec_expr *e) {
    enum ec_op op, exchanged;
    size_t column;
    e = ec_expr_bare(e);
    if (e->kind != EC_EXPR_OPERATOR)
        return 0;
    if (strcmp(e->name, "OR") == 0)
        return is_indexed(p, e->arguments[0]) && is_indexed(p, e->arguments[1]);
    if (strcmp(e->name, "AND") == 0)
        return is_indexed(p, e->arguments[0]) || is_indexed(p, e->arguments[1]);
    int is_range = op_of(e->name, &op, &exchanged) && op != EC_OP_EQ;
    int is_equal = (op_of(e->name, &op, &exchanged) && op == EC_OP_EQ) || strcmp(e->name, "IN") == 0;
    if (!is_range && !is_equal && strcmp(e->name, "BETWEEN") != 0)
        return 0;
    if (!ec_push_column(p, e->arguments[0], &column) && !ec_push_column(p, e->arguments[1], &column))
        return 0;
    return column == EC_TIME || column == EC_BATCH ||
           (is_equal && (column == EC_HOST || column == EC_STREAM || column == EC_PID));
}

void ec_push_kept(ec_push *p, const ec_expr *e) {
    size_t len_bytes = p->where.len_bytes, conditions = p->groups->condition_count;
    if (len_bytes)
        ea_text_str(&p->where, " AND ");
    ec_push_condition(p, e);
    if (!p->why || p->where.failed)
        return;
    const char *why = p->why;
    p->why = NULL;
    p->groups->condition_count = conditions;
    if (p->where.data)
        p->where.data[p->where.len_bytes = len_bytes] = 0;
    if (!ec_push_filter(p, e)) {
        ec_push_refuse(p, why);
        return;
    }
    if (p->is_checked_again) {
        /* the + keeps SQLite from taking an OR apart, which would read in two scans */
        ea_text_str(&p->where, len_bytes ? " AND +(" : "+(");
        ea_text_add(&p->where, e->text, e->len_bytes);
        ea_text_char(&p->where, ')');
    }
    conditions = p->groups->condition_count;
    ec_push_implied(p, e);
    if (p->is_checked_again && p->groups->condition_count == conditions && is_indexed(p, e))
        ec_push_refuse(p, "a condition that the store's index knows");
}
