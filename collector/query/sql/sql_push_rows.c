/* ORDER BY with LIMIT over rows of events: the statement stays as it is, but for its table, which becomes one of the
 * events that can be in the answer (sql_rows.c), and for its conditions, which that table keeps.
 *
 *   SELECT time, lower(name) AS n FROM events e WHERE pid = 4 AND name LIKE '%e' ORDER BY time DESC LIMIT 10
 *   SELECT time, lower(name) AS n FROM "(grouped 1) first 10 of events by ..." AS "e" WHERE "(grouped if 0)" = 4
 *       ORDER BY time DESC LIMIT 10
 *
 * Any other statement over rows that has a condition which is a filter has a table of the events that the filter lets
 * through; SQLite checks that condition again, so that an error of a function is one where SQLite comes across it.
 *
 *   SELECT time, FileName FROM "Image/Load" WHERE pid = 4 AND FileName LIKE '%x%'
 *   SELECT time, FileName FROM "(grouped 1) rows of Image/Load if ..." AS "Image/Load" WHERE "(grouped if 0)" = 4
 *       AND +(FileName LIKE '%x%')
 *
 * See sql_push.c, which calls it. Thread: the connection's. */
#include "collector/query/analysis/first_events.h"
#include "collector/query/sql/sql_push_parts.h"

#include <string.h>

/* Whether an expression is of one row. */
static int is_of_row(const ec_expr *e) {
    static const char *const FUNCTIONS[] = {"json_extract", "json",      "json_type",       "char",    "unicode",
                                            "process_at",   "thread_at", "registry_key_at", "replace", NULL};
    enum ec_sql_measure_kind kind;
    if (e->kind == EC_EXPR_CALL &&
        (e->is_star || e->is_distinct || e->has_filter || (ec_push_aggregate(e, &kind) && e->argument_count == 1) ||
         (!ec_push_is_listed(e->name, EC_PUSH_SCALARS) && !ec_push_is_listed(e->name, FUNCTIONS))))
        return 0;
    for (size_t i = 0; i < e->argument_count; i++)
        if (!is_of_row(e->arguments[i]))
            return 0;
    return 1;
}

static const char *sql_push_rows_read_number(const char *at, const char *end, uint64_t *ret) {
    enum { DIGITS = 9 };

    const char *begin = at;
    *ret = 0;
    for (; at < end && at - begin < DIGITS && *at >= '0' && *at <= '9'; at++)
        *ret = *ret * 10 + (uint64_t)(*at - '0');
    return at > begin ? at : NULL;
}

static const char *skip_spaces(const char *at, const char *end) {
    while (at < end && strchr(" \t\n\r", *at))
        at++;
    return at;
}

/* How many rows LIMIT and OFFSET ask for in all, where both are written as numbers: 1. */
static int limit_of(const ec_select *s, size_t *ret) {
    static const char OFFSET[] = "offset";
    uint64_t a, b = 0;
    const char *end = s->limit + s->limit_bytes, *at = skip_spaces(s->limit + sizeof "LIMIT" - 1, end);
    if (!(at = sql_push_rows_read_number(at, end, &a)))
        return 0;
    at = skip_spaces(at, end);
    if (at < end) {
        if (*at == ',')
            at++;
        else if ((size_t)(end - at) >= sizeof OFFSET && sqlite3_strnicmp(at, OFFSET, sizeof OFFSET - 1) == 0)
            at += sizeof OFFSET - 1;
        else
            return 0;
        if (!(at = sql_push_rows_read_number(skip_spaces(at, end), end, &b)))
            return 0;
    }
    *ret = (size_t)(a + b);
    return at == end && a + b > 0 && a + b <= EC_FIRST_COUNT_MAX;
}

/* The column that a term of ORDER BY is; 0: none. */
static int ordered_by(const ec_push *p, const ec_expr *e, size_t *ret) {
    const ec_select *s = p->select;
    const ec_select_column *alias = ec_push_alias(p, e);
    int64_t ordinal;
    e = ec_expr_bare(alias ? alias->value : e);
    if (!alias && e->kind == EC_EXPR_NUMBER) {
        if (s->has_star || !ec_push_whole_number(e, &ordinal) || (uint64_t)ordinal > s->column_count)
            return 0;
        e = s->columns[ordinal - 1].value;
    }
    return ec_push_column(p, e, ret);
}

static int sql_push_rows_holds(const ec_select_order *o, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= o->rest_bytes; i++)
        if (sqlite3_strnicmp(o->rest + i, word, (int)n) == 0)
            return 1;
    return 0;
}

_Static_assert((int)EC_FIRST_KEYS_MAX <= (int)EC_GROUPING_KEYS_MAX, "keys of an order are kept as keys of groups");

static void rows_put_order(ec_push *p) {
    ec_sql_groups *g = p->groups;
    for (size_t i = 0; !p->why && i < p->select->order_by_count; i++) {
        const ec_select_order *o = &p->select->order_by[i];
        size_t column;
        if (i == EC_FIRST_KEYS_MAX || memchr(o->rest, '/', o->rest_bytes) || memchr(o->rest, '-', o->rest_bytes) ||
            !ordered_by(p, o->value, &column)) {
            ec_push_refuse(p, "an order of something that is no column");
            return;
        }
        int is_descending = sql_push_rows_holds(o, "DESC");
        g->keys[i] = (ec_grouping_key){.column = column, .is_descending = is_descending};
        g->key_count++;
        if (sql_push_rows_holds(o, "NULLS") ? sql_push_rows_holds(o, "LAST") : is_descending)
            g->nulls_last |= 1u << i;
        ea_text_str(&p->order, i ? "," : " ORDER BY ");
        ea_text_add(&p->order, o->value->text, o->value->len_bytes);
        ea_text_char(&p->order, ' ');
        ea_text_add(&p->order, o->rest, o->rest_bytes);
    }
}

static void rows_put_where(ec_push *p, const ec_expr *e) {
    e = ec_expr_bare(e);
    if (e->kind == EC_EXPR_OPERATOR && strcmp(e->name, "AND") == 0) {
        rows_put_where(p, e->arguments[0]);
        if (!p->why)
            rows_put_where(p, e->arguments[1]);
        return;
    }
    ec_push_kept(p, e);
}

static void rows_put_columns(ec_push *p) {
    const ec_select *s = p->select;
    for (size_t i = 0; !p->why && i < s->column_count; i++) {
        const ec_select_column *c = &s->columns[i];
        ea_text_str(&p->columns, i ? "," : "");
        if (!c->value) {
            ea_text_char(&p->columns, '*');
            continue;
        }
        if (!is_of_row(c->value))
            ec_push_refuse(p, "a function");
        ea_text_add(&p->columns, c->value->text, c->value->len_bytes);
        if (c->alias) {
            ea_text_str(&p->columns, " AS ");
            ec_sql_add_name(&p->columns, c->alias);
        }
    }
}

void ec_rows_plan(ec_push *p) {
    const ec_select *s = p->select;
    p->groups->is_rows = 1;
    if (s->is_distinct || s->group_by_count || s->having || !s->order_by_count || !s->limit ||
        !limit_of(s, &p->groups->first_count))
        ec_push_refuse(p, "no ORDER BY with a LIMIT over rows");
    rows_put_columns(p);
    rows_put_order(p);
    if (!p->why && s->where)
        rows_put_where(p, s->where);
}

void ec_rows_plan_filtered(ec_push *p) {
    const ec_select *s = p->select;
    p->groups->is_rows = p->is_checked_again = 1;
    if (s->group_by_count || s->having || !s->where)
        ec_push_refuse(p, "no rows with a condition");
    rows_put_columns(p);
    for (size_t i = 0; !p->why && i < s->order_by_count; i++) {
        const ec_select_order *o = &s->order_by[i];
        if (!is_of_row(o->value))
            ec_push_refuse(p, "a function");
        ea_text_str(&p->order, i ? "," : " ORDER BY ");
        ea_text_add(&p->order, o->value->text, o->value->len_bytes);
        ea_text_char(&p->order, ' ');
        ea_text_add(&p->order, o->rest, o->rest_bytes);
    }
    if (!p->why)
        rows_put_where(p, s->where);
    if (!p->groups->filter.root_count)
        ec_push_refuse(p, "no filter");
}
