/* The parser of SELECT: trees follow SQLite's precedences, spans are the text of each node, and a statement that is not
 * fully understood is refused. */
#include "collector/query/sql/select.h"
#include "proto/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ea_arena arena;

static int setup(void **state) {
    (void)state;
    ea_arena_init(&arena, 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ea_arena_deinit(&arena);
    return 0;
}

/* (name operand operand); texts of leaves as they are written; [ ] around parentheses. */
static void put(ea_text *to, const ec_expr *e) {
    switch (e->kind) {
    case EC_EXPR_COLUMN:
        if (e->table)
            ea_text_printf(to, "%s.", e->table);
        ea_text_str(to, e->name);
        return;
    case EC_EXPR_STRING:
        ea_text_printf(to, "<%s>", e->name);
        return;
    case EC_EXPR_PARENS:
        ea_text_char(to, '[');
        put(to, e->arguments[0]);
        ea_text_char(to, ']');
        return;
    case EC_EXPR_CALL:
    case EC_EXPR_OPERATOR:
        ea_text_printf(to, "(%s%s%s", e->name, e->is_star ? " *" : "", e->is_distinct ? " distinct" : "");
        for (size_t i = 0; i < e->argument_count; i++) {
            ea_text_str(to, e->has_filter && i + 1 == e->argument_count ? " filter " : " ");
            put(to, e->arguments[i]);
        }
        ea_text_char(to, ')');
        return;
    default:
        ea_text_add(to, e->text, e->len_bytes);
    }
}

/* Each node's text lies in its parent's, after that of the operand before it. */
static void check_spans(const ec_expr *e) {
    const char *at = e->text;
    for (size_t i = 0; i < e->argument_count; i++) {
        assert_true(e->arguments[i]->text >= at);
        at = e->arguments[i]->text + e->arguments[i]->len_bytes;
        assert_true(at <= e->text + e->len_bytes);
        check_spans(e->arguments[i]);
    }
    assert_true(e->len_bytes > 0);
    assert_null(strchr(" \n\t", e->text[0]));
}

static void test_expressions(void **state) {
    static const struct {
        const char *sql, *tree;
    } LIST[] = {
        {"a", "a"},
        {"a + b * c", "(+ a (* b c))"},
        {"(a + b) * c", "(* [(+ a b)] c)"},
        {"a - b - c", "(- (- a b) c)"},
        {"a || b + c", "(+ (|| a b) c)"},
        {"-a || b", "(|| (- a) b)"},
        {"- - a", "(- (- a))"},
        {"a * -b", "(* a (- b))"},
        {"a < b = c", "(= (< a b) c)"},
        {"a = b < c", "(= a (< b c))"},
        {"a & b < c", "(< (& a b) c)"},
        {"a << 2 + 1", "(<< a (+ 2 1))"},
        {"a OR b AND c", "(OR a (AND b c))"},
        {"NOT a = b AND c", "(AND (NOT (= a b)) c)"},
        {"not not a", "(NOT (NOT a))"},
        {"a BETWEEN 1 AND 2 AND c", "(AND (BETWEEN a 1 2) c)"},
        {"a NOT BETWEEN 1 + 1 AND 2", "(NOT BETWEEN a (+ 1 1) 2)"},
        {"a IN (1, 'x', ?2)", "(IN a 1 <x> ?2)"},
        {"a not in (1)", "(NOT IN a 1)"},
        {"a IS NOT NULL", "(IS NOT a NULL)"},
        {"a IS NOT DISTINCT FROM 3", "(IS a 3)"},
        {"a NOTNULL", "(NOTNULL a)"},
        {"a NOT NULL", "(NOTNULL a)"},
        {"a IS NULL", "(IS a NULL)"},
        {"a LIKE 'x%' ESCAPE '\\' OR b", "(OR (LIKE a <x%> <\\>) b)"},
        {"a NOT GLOB 'x*'", "(NOT GLOB a <x*>)"},
        {"a REGEXP 'x'", "(REGEXP a <x>)"},
        {"a MATCH 'x'", "(MATCH a <x>)"},
        {"a NOT MATCH 'x'", "(NOT MATCH a <x>)"},
        {"a ISNULL", "(ISNULL a)"},
        {"a IS DISTINCT FROM 3", "(IS NOT a 3)"},
        {"a == b", "(== a b)"},
        {"a <> b", "(<> a b)"},
        {"a != b", "(!= a b)"},
        {"a <= b", "(<= a b)"},
        {"a >= b", "(>= a b)"},
        {"a | b >> c", "(>> (| a b) c)"},
        {"a / b % c", "(% (/ a b) c)"},
        {"a ->> '$.x'", "(->> a <$.x>)"},
        {"~a + +b", "(+ (~ a) (+ b))"},
        {"a = b IS c", "(IS (= a b) c)"},
        {"t.a", "t.a"},
        {"\"T t\".\"a\"\"b\"", "T t.a\"b"},
        {"[x y]", "x y"},
        {"`x``y`", "x`y"},
        {"'it''s'", "<it's>"},
        {"x'00ff'", "x'00ff'"},
        {"1.5e-3", "1.5e-3"},
        {".5", ".5"},
        {"0xFF", "0xFF"},
        {"count(*)", "(count *)"},
        {"count(DISTINCT a)", "(count distinct a)"},
        {"f()", "(f)"},
        {"f(a, g(b))", "(f a (g b))"},
        {"f(a, 'b', 'c', 'd', 'e', 'g', 'h', 'i', 'j')", "(f a <b> <c> <d> <e> <g> <h> <i> <j>)"},
        {"((a))", "[[a]]"},
        {"sum(a) FILTER (WHERE a > 5)", "(sum a filter (> a 5))"},
        {"CASE WHEN a THEN b ELSE c END", "(CASE a b c)"},
        {"CASE a WHEN 1 THEN 2 WHEN 3 THEN 4 END + 1", "(+ (CASE OF a 1 2 3 4) 1)"},
        {"CAST(a + 1 AS INTEGER) * 2", "(* (CAST (+ a 1)) 2)"},
        {"a->'$.x'", "(-> a <$.x>)"},
        {":name + @x + $y", "(+ (+ :name @x) $y)"},
        {"a /* c ' */ + -- d '\n b", "(+ a b)"},
        {"\xC3\xBC + 1", "(+ \xC3\xBC 1)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        char sql[256];
        const char *why = NULL;
        ec_select s;
        ea_text tree;
        ea_text_init(&tree);
        snprintf(sql, sizeof sql, "SELECT %s FROM t", LIST[i].sql);
        if (ec_select_parse(sql, strlen(sql), &arena, &s, &why) != 1)
            fail_msg("%s is refused: %s", LIST[i].sql, why);
        assert_int_equal(s.column_count, 1);
        put(&tree, s.columns[0].value);
        assert_string_equal(tree.data, LIST[i].tree);
        check_spans(s.columns[0].value);
        assert_int_equal(s.columns[0].value->len_bytes, strlen(LIST[i].sql));
        const ec_expr *bare = ec_expr_bare(s.columns[0].value);
        assert_int_equal(bare->text - s.columns[0].value->text, strspn(LIST[i].tree, "["));
        ea_text_deinit(&tree);
    }
}

static void test_statement(void **state) {
    static const char SQL[] = "explain query plan select a x, count(*) AS 'n', b \"c d\" FROM \"Thread/CSwitch\" AS t"
                              " WHERE t.a = 1 GROUP BY 1, b HAVING n > 2 ORDER BY 2 DESC NULLS LAST, a LIMIT 5 OFFSET"
                              " ?1 ; -- end";
    ec_select s;
    const char *why = NULL;
    (void)state;
    assert_int_equal(ec_select_parse(SQL, strlen(SQL), &arena, &s, &why), 1);
    assert_null(why);
    assert_int_equal(s.explain, EC_EXPLAIN_PLAN);
    assert_int_equal(s.column_count, 3);
    assert_string_equal(s.columns[0].alias, "x");
    assert_string_equal(s.columns[1].alias, "n");
    assert_string_equal(s.columns[2].alias, "c d");
    assert_int_equal(s.columns[2].value->kind, EC_EXPR_COLUMN);
    assert_string_equal(s.columns[2].value->name, "b");
    assert_string_equal(s.table, "Thread/CSwitch");
    assert_string_equal(s.table_alias, "t");
    assert_string_equal(s.where->name, "=");
    assert_int_equal(s.group_by_count, 2);
    assert_string_equal(s.having->name, ">");
    assert_int_equal(s.order_by_count, 2);
    assert_int_equal(s.order_by[0].rest_bytes, strlen("DESC NULLS LAST"));
    assert_int_equal(s.order_by[1].rest_bytes, 0);
    assert_int_equal(s.limit_bytes, strlen("LIMIT 5 OFFSET ?1"));
    assert_memory_equal(s.limit, "LIMIT 5 OFFSET ?1", s.limit_bytes);
    assert_int_equal(s.is_distinct, 0);
    assert_int_equal(ec_select_parse("SELECT ALL a FROM t;;", 21, &arena, &s, &why), 1);
    assert_int_equal(s.is_distinct, 0);
    assert_int_equal(ec_select_parse("SELECT DISTINCT a FROM t", 24, &arena, &s, &why), 1);
    assert_int_equal(s.is_distinct, 1);
}

static void test_refused(void **state) {
    static const struct {
        const char *sql, *why;
    } LIST[] = {
        {"", "a statement that is not one SELECT"},
        {"SELECT", "an expression"},
        {"SELECT 1", "the table"},
        {"SELECT *", "the table"},
        {"SELECT t.* FROM t", "a qualified name"},
        {"SELECT a FROM t, u", "several tables, or one with arguments"},
        {"SELECT a FROM t JOIN u", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t LEFT JOIN u ON 1", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t NATURAL JOIN u", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM (SELECT 1)", "the table"},
        {"SELECT a FROM main.t", "several tables, or one with arguments"},
        {"SELECT a FROM t('x')", "several tables, or one with arguments"},
        {"SELECT a FROM t INDEXED BY i", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t NOT INDEXED", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t UNION SELECT 1", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t EXCEPT SELECT 1", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t WINDOW w AS ()", "a join, a compound SELECT, or another clause"},
        {"WITH x AS (SELECT 1) SELECT a FROM x", "a statement that is not one SELECT"},
        {"VALUES (1)", "a statement that is not one SELECT"},
        {"SELECT (SELECT 1) FROM t", "a subquery"},
        {"SELECT EXISTS (SELECT 1) FROM t", "a subquery"},
        {"SELECT a FROM t WHERE a IN (SELECT 1)", "a subquery"},
        {"SELECT a FROM t WHERE a IN u", "a subquery"},
        {"SELECT a FROM t WHERE a IN ()", "an empty list"},
        {"SELECT a FROM t WHERE (a, b) = (1, 2)", "a row value"},
        {"SELECT a FROM t WHERE a = 'x' COLLATE NOCASE", "COLLATE"},
        {"SELECT a FROM t ORDER BY a COLLATE NOCASE", "COLLATE"},
        {"SELECT a FROM t WHERE NOT EXISTS (SELECT 1)", "a subquery"},
        {"SELECT sum(a) OVER () FROM t", "a window function"},
        {"SELECT sum(a) OVER w FROM t", "a window function"},
        {"SELECT group_concat(a ORDER BY b) FROM t", "something unexpected"},
        {"SELECT m.t.a FROM t", "a qualified name"},
        {"SELECT a FROM t LIMIT 1 + 1", "a join, a compound SELECT, or another clause"},
        {"SELECT a FROM t LIMIT (SELECT 1)", "a limit that is computed"},
        {"SELECT a FROM t; SELECT 2", "a join, a compound SELECT, or another clause"},
        {"SELECT current_time FROM t", "an expression"},
        {"SELECT current_timestamp FROM t", "an expression"},
        {"SELECT a 'n' FROM t", "the table"},
        {"SELECT a AS 5 FROM t", "an alias"},
        {"SELECT CAST(a INTEGER) FROM t", "something unexpected"},
        {"SELECT CAST(a AS) FROM t", "something unexpected"},
        {"SELECT t.a(1) FROM t", "a qualified name"},
        {"SELECT a FROM t WHERE RAISE(IGNORE)", "an expression"},
        {"SELECT a FROM t WHERE 'open", "a quote that does not close"},
        {"SELECT a FROM t WHERE \"open", "a quote that does not close"},
        {"SELECT a b c FROM t", "the table"},
        {"SELECT a FROM t WHERE a = 1x", "a number"},
        {"SELECT a FROM t WHERE a = #1", "a sign"},
        {"SELECT a FROM t WHERE a !< 1", "a sign"},
        {"SELECT a FROM t WHERE", "an expression"},
        {"SELECT a FROM t GROUP a", "something unexpected"},
        {"SELECT case when 1 then 2 FROM t", "something unexpected"},
        {"SELECT like FROM t", "an expression"},
        {"DELETE FROM t", "a statement that is not one SELECT"},
        {"PRAGMA table_list", "a statement that is not one SELECT"},
        {"SELECT and FROM t", "an expression"},
        {"SELECT all FROM t", "an expression"},
        {"SELECT a FROM t WHERE 1 = ALL", "an expression"},
        {"SELECT sum(a) WITHIN GROUP (ORDER BY a) FROM t", "a window function"},
        {"SELECT m.t(1) FROM t", "a qualified name"},
        {"SELECT a FROM 5", "the table"},
        {"SELECT a WHERE t", "the table"},
        {"SELECT a FROM t ORDER a", "something unexpected"},
        {"SELECT a FROM t ORDER BY a NULLS 5", "something unexpected"},
        {"SELECT CASE a THEN 1 END FROM t", "something unexpected"},
        {"SELECT a FROM t AS 5", "an alias"},
        {"SELECT a FROM t WHERE a IN (VALUES (1))", "a subquery"},
        {"SELECT a FROM t WHERE a IN (WITH x AS (SELECT 1) SELECT 1)", "a subquery"},
        {"SELECT sum(a) FILTER (a) FROM t", "something unexpected"},
        {"SELECT a FROM t GROUP BY", "an expression"},
        {"EXPLAIN QUERY SELECT a FROM t", "something unexpected"},
    };

    ec_select s;
    const char *why = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        if (ec_select_parse(LIST[i].sql, strlen(LIST[i].sql), &arena, &s, &why) != 0)
            fail_msg("not refused: %s", LIST[i].sql);
        if (!why || strcmp(why, LIST[i].why) != 0)
            fail_msg("%s is refused for %s", LIST[i].sql, why);
    }
    /* a statement ends where its caller says */
    assert_int_equal(ec_select_parse("SELECT a FROM t UNION", 15, &arena, &s, &why), 1);
    assert_int_equal(ec_select_parse("SELECT a FROM t\0 x", 18, &arena, &s, &why), 0);
}

/* Nesting has a limit, so that the stack does. */
static void test_depth(void **state) {
    static const char *const OPEN[] = {"(", "- ", "NOT ", "f(", "CASE WHEN "};
    (void)state;
    for (size_t i = 0; i < sizeof OPEN / sizeof *OPEN; i++) {
        ec_select s;
        const char *why = NULL;
        ea_text sql;
        ea_text_init(&sql);
        ea_text_str(&sql, "SELECT ");
        for (int k = 0; k < 100000; k++)
            ea_text_str(&sql, OPEN[i]);
        assert_int_equal(ec_select_parse(sql.data, sql.len_bytes, &arena, &s, &why), 0);
        assert_string_equal(why, "a deep expression");
        ea_text_deinit(&sql);
    }
}

/* Whatever is cut off or changed: the parser reads no byte beyond the text and ends. */
static void test_damage(void **state) {
    static const char SQL[] = "SELECT a, count(DISTINCT \"b\") FILTER (WHERE c LIKE 'x%' ESCAPE '!') n FROM `t` u WHERE"
                              " a BETWEEN 1 AND 0x2 AND b IN (?1, -2.5e1) /* c */ GROUP BY 1 HAVING n > CASE WHEN 1"
                              " THEN 2 END ORDER BY 1 DESC LIMIT 5, 6";
    ec_select s;
    const char *why = NULL;
    (void)state;
    assert_int_equal(ec_select_parse(SQL, sizeof SQL - 1, &arena, &s, &why), 1);
    for (size_t n = 0; n < sizeof SQL - 1; n++) {
        char *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy, SQL, n);
        assert_in_range(ec_select_parse(copy, n, &arena, &s, &why), 0, 1);
        for (int c = 1; n && c < 256; c += 7) {
            memcpy(copy, SQL, n);
            copy[n - 1] = (char)c;
            assert_in_range(ec_select_parse(copy, n, &arena, &s, &why), 0, 1);
            ea_arena_reset(&arena);
        }
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_expressions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_statement, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
