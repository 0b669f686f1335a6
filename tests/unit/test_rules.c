/* Sigma rules: what is refused, with its place; what matches; candidates without atoms; coverage with missing fields;
 * tables of fields; and hostile rules and texts, which cost time that is linear. tests/e2e/test_rules.py has the
 * comparison with a naive evaluator. */
#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/rules_automaton.h"
#include "proto/rules/sigma_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

typedef struct problems {
    ea_rules_problem last;
    char file[32]; /* of the last one: its text ends with the builder */
    int count;
} problems;

static void on_problem(void *arg, const ea_rules_problem *p) {
    problems *all = arg;
    all->last = *p;
    snprintf(all->file, sizeof all->file, "%s", p->file);
    all->last.file = all->file;
    all->count++;
}

static ea_rules *compile(const char *text, size_t len, problems *p) {
    ea_rules_builder *b = NULL;
    ea_rules *rules = NULL;
    memset(p, 0, sizeof *p);
    assert_int_equal(ea_rules_builder_create(&b), 0);
    assert_int_equal(ea_rules_add(b, "test.yml", text, len, on_problem, p), 0);
    assert_int_equal(ea_rules_build(b, &rules, on_problem, p), 0);
    ea_rules_builder_destroy(b);
    return rules;
}

#define SOURCE "logsource:\n  product: windows\n  category: process_creation\n"                       /* three lines */
#define HEAD   "title: t\nlogsource:\n  product: windows\n  category: process_creation\ndetection:\n" /* five lines */

static void test_mistakes(void **state) {
    static const struct {
        const char *text;
        uint32_t line, column;
        int is_unsupported;
        const char *message;
    } CASES[] = {
        {"title: [", 2, 1, 0, "not YAML"},
        {"- a", 1, 1, 0, "expected a rule"},
        {"title: x\ndetection:\n  a: b\n", 1, 1, 0, "no logsource"},
        {"logsource:\n  product: windows\n", 1, 1, 0, "no detection"},
        {HEAD "  s:\n    A: b\n", 6, 3, 0, "no condition"},
        {HEAD "  s:\n    A: b\n  condition: s and t\n", 8, 20, 0, "no search named \"t\""},
        {HEAD "  s:\n    A: b\n  condition: '(s or s'\n", 8, 15, 0, "not closed"},
        {HEAD "  s:\n    A: b\n  condition: s s\n", 8, 16, 0, "expected and, or"},
        {HEAD "  s:\n    A: b\n  condition: s and\n", 8, 19, 0, "ends too early"},
        {HEAD "  s:\n    A: b\n  condition: s | count() > 5\n", 8, 16, 1, "aggregations"},
        {HEAD "  s:\n    A: b\n  condition: 2 of s*\n", 8, 14, 1, "1, any or all"},
        {HEAD "  s:\n    A: b\n  condition: 1 of x*\n", 8, 19, 0, "no search of the detection has a name like x*"},
        {HEAD "  s:\n    A: b\n  condition: s*\n", 8, 14, 0, "needs \"1 of\""},
        {HEAD "  s:\n    A|foo: b\n  condition: s\n", 7, 7, 0, "unknown modifier \"foo\""},
        {HEAD "  s:\n    'A|contains|foo': b\n  condition: s\n", 7, 17, 0, "unknown modifier \"foo\""},
        {HEAD "  s:\n    A|expand: '%b%'\n  condition: s\n", 7, 7, 1, "placeholders"},
        {HEAD "  s:\n    A|hour: 5\n  condition: s\n", 7, 7, 1, "modifier hour"},
        {HEAD "  s:\n    A|i: b\n  condition: s\n", 7, 5, 0, "belong to re"},
        {HEAD "  s:\n    A|re|contains: b\n  condition: s\n", 7, 5, 0, "no other form"},
        {HEAD "  s:\n    A|contains|endswith: b\n  condition: s\n", 7, 5, 0, "exclude each other"},
        {HEAD "  s:\n    A|re: 'a(?=b)'\n  condition: s\n", 7, 11, 1, "byte 2: look-ahead"},
        {HEAD "  s:\n    A|re: '(?<!a)b'\n  condition: s\n", 7, 11, 1, "byte 1: look-behind"},
        {HEAD "  s:\n    A|re: '(a)\\1'\n  condition: s\n", 7, 11, 1, "byte 4: back-references"},
        {HEAD "  s:\n    A|re: 'a++'\n  condition: s\n", 7, 11, 1, "possessive"},
        {HEAD "  s:\n    A|re: '(?>a)'\n  condition: s\n", 7, 11, 1, "atomic"},
        {HEAD "  s:\n    A|re: '[a'\n  condition: s\n", 7, 11, 1, "no ]"},
        {HEAD "  s:\n    A|re: '(a'\n  condition: s\n", 7, 11, 1, "no )"},
        {HEAD "  s:\n    A|re: 'a)'\n  condition: s\n", 7, 11, 1, "byte 2: the ) has no group"},
        {HEAD "  s:\n    A|re: '*'\n  condition: s\n", 7, 11, 1, "nothing to repeat"},
        {HEAD "  s:\n    A|re: 'a{1001}'\n  condition: s\n", 7, 11, 1, "more than 1000 repeats"},
        {HEAD "  s:\n    A|re: '((a{1000}){1000}){1000}'\n  condition: s\n", 7, 11, 1, "more than 32768 states"},
        {HEAD "  s:\n    A|cidr: 10.0.0.0/33\n  condition: s\n", 7, 13, 0, "expected a network"},
        {HEAD "  s:\n    A|lt: x\n  condition: s\n", 7, 11, 0, "expected a number"},
        {HEAD "  s:\n    A|exists: x\n  condition: s\n", 7, 15, 0, "true or false"},
        {HEAD "  s:\n    A|base64: 'a*'\n  condition: s\n", 7, 15, 0, "cannot be encoded"},
        {HEAD "  s:\n    A: []\n  condition: s\n", 7, 5, 0, "list of values is empty"},
        {HEAD "  s:\n    A: {b: c}\n  condition: s\n", 7, 8, 0, "found a mapping"},
        {HEAD "  s:\n    A: b\n    A: c\n  condition: s\n", 8, 5, 0, "\"A\" is given twice"},
        {HEAD "  s:\n    A: b\n  condition: s\ntags:\n  - {a: b}\n", 10, 5, 0, "expected a list of tags"},
        {HEAD "  s:\n    A: b\n  condition: s\n  condition: not s\n", 9, 3, 0, "\"condition\" is given twice"},
        {HEAD "  s:\n    A: b\n  condition: s\ndetection:\n  s:\n    A: c\n  condition: s\n", 9, 1, 0,
         "\"detection\" is given twice"},
        {HEAD "  s:\n    - a\n    -\n  condition: s\n", 8, 6, 0, "null is no keyword"},
        {HEAD "  s:\n    '|all': [a, ~]\n  condition: s\n", 7, 17, 0, "null is no keyword"},
        {HEAD "  s:\n    A|re: '\\012'\n  condition: s\n", 7, 11, 1, "octal"},
        {HEAD "  s: {}\n  condition: s\n", 6, 6, 0, "the search is empty"},
        {HEAD "  s:\n    A|windash: '-a -b -c -d -e -f'\n  condition: s\n", 7, 16, 0, "more than 625 texts"},
        {HEAD "  timeframe: 5m\n  s:\n    A: b\n  condition: s\n", 6, 3, 1, "timeframe"},
        {"title: c\ncorrelation:\n  type: event_count\n", 3, 3, 0, "a list of rules"},
        {"correlation: {type: value_max, rules: [a]}\n", 1, 21, 1, "expected the type event_count"},
        {"correlation: {rules: [a]}\n", 1, 14, 1, "expected the type event_count"},
        {"correlation: {type: temporal, rules: [a], timespan: 5m}\n", 1, 14, 0, "two or more"},
        {"correlation: {type: temporal, rules: [a, b], timespan: 5m, condition: a}\n", 1, 71, 1,
         "all rules have to match"},
        {"correlation: {type: event_count, rules: [a]}\n", 1, 14, 0, "no timespan"},
        {"correlation: {type: event_count, rules: [a], timespan: 5}\n", 1, 56, 0, "expected a timespan"},
        {"correlation: {type: event_count, rules: [a], timespan: 31d}\n", 1, 56, 0, "at most 30d"},
        {"correlation: {type: event_count, rules: [a], timespan: 0s}\n", 1, 56, 0, "expected a timespan"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m}\n", 1, 14, 0, "expected a condition"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {lt: 3}}\n", 1, 72, 1, "gte or gt"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 0}}\n", 1, 77, 0, "from 1 to"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: -3}}\n", 1, 77, 0, "from 1 to"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 3, gt: 5}}\n", 1, 80, 0,
         "two numbers"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 3}, generate: maybe}\n", 1, 91, 0,
         "true or false"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, group_by: [User]}\n", 1, 60, 0,
         "no member \"group_by\""},
        {"correlation: {type: value_count, rules: [a], timespan: 5m, condition: {gte: 3}}\n", 1, 71, 0, "no field"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, aliases: {a: b}}\n", 1, 69, 1, "aliases"},
        {"correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 3}}\n", 1, 1, 0, "unknown rule"},
        {"title: a\ncorrelation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 3}}\n", 1, 1, 0,
         "names itself"},
        {SOURCE "filter:\n  s:\n    A: b\n  condition: s\n", 5, 3, 0, "the filter has no rules"},
        {SOURCE "filter:\n  rules: []\n  s:\n    A: b\n  condition: s\n", 5, 10, 0, "found none"},
        {SOURCE "filter:\n  rules: ['']\n  s:\n    A: b\n  condition: s\n", 5, 10, 0, "found an empty text"},
        {SOURCE "filter:\n  rules: {a: b}\n  s:\n    A: b\n  condition: s\n", 5, 10, 0, "expected a list of rules"},
        {SOURCE "filter:\n  rules: any\n  s:\n    A: b\n  condition: t\n", 8, 14, 0, "no search named"},
        {SOURCE "filter:\n  rules: any\n  s:\n    A: b\n", 5, 3, 0, "no condition"},
        {SOURCE "filter:\n  rules: x\n  s:\n    A: b\n  condition: s\n", 1, 1, 0, "is \"x\""},
        {SOURCE "hosts: []\nfilter:\n  rules: any\n  s:\n    A: b\n  condition: s\n", 4, 8, 0, "a list of hosts"},
        {SOURCE "expires: soon\nfilter:\n  rules: any\n  s:\n    A: b\n  condition: s\n", 4, 10, 0, "expected a date"},
        {SOURCE "expires: 2026-13-01\nfilter:\n  rules: any\n  s:\n    A: b\n  condition: s\n", 4, 10, 0,
         "expected a date"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        problems p;
        ea_rules *r = compile(CASES[i].text, strlen(CASES[i].text), &p);
        if (p.count != 1 || p.last.line != CASES[i].line || p.last.column != CASES[i].column ||
            p.last.is_unsupported != CASES[i].is_unsupported || !strstr(p.last.message, CASES[i].message))
            fail_msg("%s: %d problems, %u:%u %d %s", CASES[i].text, p.count, p.last.line, p.last.column,
                     p.last.is_unsupported, p.last.message);
        assert_int_equal(ea_rules_count(r), 0);
        ea_rules_destroy(r);
    }
}

static int matches_with(const ea_rules *r, const ea_rules_value *values, size_t count) {
    ea_rules_run *run = NULL;
    const uint32_t *found;
    size_t n = 0;
    assert_int_equal(ea_rules_run_create(&run, r), 0);
    assert_int_equal(ea_rules_run_event(run, 0, values, count, &found, &n), 0);
    ea_rules_run_destroy(run);
    return n == 1;
}

/* The filter that excepts each of two rules, named by its title, on an event with A: 0 for none. */
static void excepted(const ea_rules *r, const char *a, const char *host, int64_t utc_ns, const char *expected) {
    ea_rules_run *run = NULL;
    const uint32_t *found;
    size_t n = 0;
    char got[100] = "";
    uint32_t group = ea_rules_group(r, "windows", "process_creation", "");
    const ea_rules_value v = {ea_rules_field(r, group, "A"), a, strlen(a)};
    assert_int_equal(ea_rules_run_create(&run, r), 0);
    assert_int_equal(ea_rules_run_event(run, group, &v, 1, &found, &n), 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t filter = ea_rules_run_excepted(run, found[i], host, utc_ns);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s:%s ", ea_rules_info(r, found[i])->title,
                 filter == UINT32_MAX ? "-" : ea_rules_filter(r, filter)->title);
    }
    if (strcmp(got, expected) != 0)
        fail_msg("%s on %s: %s; expected %s", a, host, got, expected);
    ea_rules_run_destroy(run);
}

static void test_filters(void **state) {
    static const char TEXT[] =
        "title: one\nid: 1-1\n" SOURCE "detection: {s: {A|startswith: x}, condition: s}\n---\n"
        "title: two\nname: second\n" SOURCE "detection: {s: {A|endswith: y}, condition: s}\n---\n"
        "title: by id\n" SOURCE "filter: {rules: [1-1], s: {A|contains: ' -a '}, condition: not s}\n---\n"
        "title: by name\n" SOURCE "filter: {rules: [second], s: {A|re: 'b+'}, condition: not s}\n---\n"
        "title: by title\nhosts: ['BUILD-*', 'x?']\n" SOURCE
        "filter: {rules: [one, two], s: {A|contains: ' -c '}, condition: not s}\n---\n"
        "title: any\nexpires: 2026-03-01\n" SOURCE
        "filter: {rules: any, s: {A|contains: ' -d '}, t: {A|contains: ' -e '}, condition: not s and not t}\n---\n"
        "title: keep\n" SOURCE
        "filter: {rules: [one], s: {A|contains: k}, condition: s or not (1 of t*), t: {A: 'x -f y'}}"
        "\n---\n"
        "title: other source\nlogsource: {product: windows, category: image_load}\n"
        "filter: {rules: any, s: {A|contains: x}, condition: not s}\n";
    const int64_t at = INT64_C(1772323200000000000); /* 2026-03-01 */
    problems p;
    (void)state;
    ea_rules *r = compile(TEXT, strlen(TEXT), &p);
    assert_int_equal(p.count, 0);
    assert_int_equal(ea_rules_count(r), 2);
    assert_int_equal(ea_rules_filter_count(r), 6);
    excepted(r, "x y", "pc", 0, "one:- two:- ");
    excepted(r, "x -a y", "pc", 0, "one:by id two:- ");
    excepted(r, "x -A y", "pc", 0, "one:by id two:- ");
    excepted(r, "x -bb y", "pc", 0, "one:- two:by name ");
    excepted(r, "x -c y", "pc", 0, "one:- two:- ");
    excepted(r, "x -c y", "build-7", 0, "one:by title two:by title ");
    excepted(r, "x -c y", "x7", 0, "one:by title two:by title ");
    excepted(r, "x -c y", "x77", 0, "one:- two:- ");
    excepted(r, "x -c y", "my-build-7", 0, "one:- two:- ");
    excepted(r, "x -d y", "pc", at - 1, "one:any two:any ");
    excepted(r, "x -e y", "pc", at - 1, "one:any two:any ");
    excepted(r, "x -d y", "pc", at, "one:- two:- ");
    excepted(r, "x -f y", "pc", 0, "one:keep two:- ");
    excepted(r, "x -f yk", "pc", 0, "one:- ");
    excepted(r, "z -a ", "pc", 0, "");
    excepted(r, "x -g y", "pc", 0, "one:- two:- "); /* nothing of the event before is left */
    ea_rules_destroy(r);
}

static void test_one_bad_document_costs_one_rule(void **state) {
    static const char TEXT[] = HEAD "  s:\n    A: b\n  condition: s\n---\n" HEAD "  s:\n    A|foo: b\n  condition: s\n"
                                    "---\n" HEAD "  s:\n    A: c\n  condition: s\n";
    problems p;
    (void)state;
    ea_rules *r = compile(TEXT, strlen(TEXT), &p);
    assert_int_equal(p.count, 1);
    assert_int_equal(p.last.line, 16);
    assert_string_equal(p.last.file, "test.yml");
    assert_int_equal(ea_rules_count(r), 2);
    assert_int_equal(ea_rules_info(r, 1)->line, 19);
    assert_string_equal(ea_rules_info(r, 1)->category, "process_creation");
    assert_int_equal(ea_rules_group_count(r), 1);
    ea_rules_destroy(r);
}

/* A second rule with an id is refused, in whatever file it is, and its file, line and reason are reported. */
static void test_an_id_has_one_rule(void **state) {
    static const char FIRST[] = HEAD "  s:\n    A: b\n  condition: s\nid: one\n---\n" HEAD
                                     "  s:\n    A: b\n  condition: s\n---\n" HEAD "  s:\n    A: b\n  condition: s\n";
    static const char SECOND[] =
        HEAD "  s:\n    A: c\n  condition: s\nid: two\n---\n" HEAD "  s:\n    A: c\n  condition: s\nid: one\n";
    ea_rules_builder *b = NULL;
    ea_rules *rules = NULL;
    problems p = {0};
    (void)state;
    assert_int_equal(ea_rules_builder_create(&b), 0);
    assert_int_equal(ea_rules_add(b, "first.yml", FIRST, strlen(FIRST), on_problem, &p), 0);
    assert_int_equal(p.count, 0); /* without an id there may be several */
    assert_int_equal(ea_rules_add(b, "second.yml", SECOND, strlen(SECOND), on_problem, &p), 0);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.last.file, "second.yml");
    assert_int_equal(p.last.line, 19);
    assert_int_equal(p.last.column, 5);
    assert_int_equal(p.last.is_unsupported, 0);
    assert_non_null(strstr(p.last.message, "first.yml, line 1 has the id \"one\" already"));
    assert_int_equal(ea_rules_build(b, &rules, on_problem, &p), 0);
    assert_int_equal(p.count, 1);
    assert_int_equal(ea_rules_count(rules), 4);
    ea_rules_builder_destroy(b);
    ea_rules_destroy(rules);
}

/* Tags, and the text of each document of a file: from its first line on, without the lines of others. */
static void test_tags_and_texts(void **state) {
    static const char END[] = "logsource: {category: c}\ndetection:\n  s: {A: b}\n  condition: s\n";
    static const char *const HEADS[] = {"title: one\ntags: [attack.t1059.001, car.2013]\n",
                                        "title: two # \u00e9\ntags: ~\n", "title: three\ntags: attack.t1003\n",
                                        "title: four\n"};
    char text[2000] = "# of all\n", want[400];
    problems p;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s", i ? i == 2 ? "...\n---\n" : "---\r\n" : "",
                 HEADS[i], END);
    ea_rules *rules = compile(text, strlen(text), &p);
    assert_int_equal(p.count, 0);
    assert_int_equal(ea_rules_count(rules), 4);
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(want, sizeof want, "%s%s%s", HEADS[i], END, i == 1 ? "...\n" : "");
        assert_string_equal(ea_rules_info(rules, i)->text, want);
    }
    assert_int_equal(ea_rules_info(rules, 0)->tag_count, 2);
    assert_string_equal(ea_rules_info(rules, 0)->tags[0], "attack.t1059.001");
    assert_string_equal(ea_rules_info(rules, 0)->tags[1], "car.2013");
    assert_int_equal(ea_rules_info(rules, 1)->tag_count, 0);
    assert_int_equal(ea_rules_info(rules, 2)->tag_count, 1);
    assert_string_equal(ea_rules_info(rules, 2)->tags[0], "attack.t1003");
    assert_int_equal(ea_rules_info(rules, 3)->tag_count, 0);
    ea_rules_destroy(rules);
}

/* Of a long document the first whole lines are kept. */
static void test_a_long_text_is_cut(void **state) {
    enum { LINE = 80, LINES = 1000 };

    static char text[LINE * LINES + 400];
    problems p;
    (void)state;
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "title: t\nlogsource: {category: c}\ndetection:\n  s: {A: b}\n"
                                 "  condition: s\n");
    for (size_t i = 0; i < LINES; i++, at += LINE) {
        memset(text + at, '#', LINE - 1);
        text[at + LINE - 1] = '\n';
    }
    snprintf(text + at, sizeof text - at, "status: test\n");
    ea_rules *rules = compile(text, strlen(text), &p);
    assert_int_equal(ea_rules_count(rules), 1);
    const char *kept = ea_rules_info(rules, 0)->text;
    size_t len = strlen(kept);
    assert_true(len <= EA_RULES_KEPT_MAX_BYTES && len > EA_RULES_KEPT_MAX_BYTES - LINE);
    assert_int_equal(kept[len - 1], '\n');
    assert_memory_equal(kept, text, len);
    ea_rules_destroy(rules);
}

static void test_values(void **state) {
    static const struct {
        const char *item, *value;
        int expected;
    } CASES[] = {
        {"A|endswith: \\cmd.exe", "C:\\CMD.EXE", 1},
        {"A|endswith: \\cmd.exe", "C:\\cmd.exe ", 0},
        {"A: 'a\\*b'", "a*b", 1},
        {"A: 'a\\*b'", "axb", 0},
        {"A: 'a\\\\*b'", "a\\xxb", 1},
        {"A: 'a?b'",
         "a\xc3\xa9"
         "b",
         1},
        {"A: 'a?b'", "ab", 0},
        {"A: ''", "", 1},
        {"A: '?*'", "", 0},
        {"A|contains|windash: ' -enc '", "x /enc y", 1},
        {"A|contains|windash: ' -enc '",
         "x \xe2\x80\x95"
         "enc y",
         1},
        {"A|wide|base64offset|contains: http", "xxaAB0AHQAcAyy", 1},
        {"A|base64|contains: foo", "Zm9v", 1},
        {"A|cidr: 10.0.0.0/8", "10.255.0.1", 1},
        {"A|cidr: 10.0.0.0/8", "11.0.0.1", 0},
        {"A|cidr: fe80::/10", "febf::1", 1},
        {"A|re: '^a{2,3}$'", "aaaa", 0},
        {"A|re: '^a{2,3}$'", "aaa\n", 1},
        {"A|re|i: 'ABC'", "xabcx", 1},
        {"A|re: 'ABC'", "xabcx", 0},
        {"A|re|m: '^b$'", "a\nb\nc", 1},
        {"A|re|s: 'a.c'", "a\nc", 1},
        {"A|re: 'a.c'", "a\nc", 0},
        {"A|re: '[^a]'", "aa", 0},
        {"A|re: '\\bcmd\\b'", "x cmd y", 1},
        {"A|re: '\\bcmd\\b'", "xcmd y", 0},
        {"A|gte: 18446744073709551615", "18446744073709551615", 1},
        {"A|gt: 18446744073709551614", "18446744073709551615", 1},
        {"A|lt: -1", "-2", 1},
        {"A|lt: 2.5", "0x2", 1},
        {"A|cased: Ab", "Ab", 1},
        {"A|cased: Ab", "ab", 0},
        {"A|neq: b", "c", 1},
        {"B: null", "c", 1},
        {"A: null", "c", 0},
        {"B|exists: false", "c", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[512];
        problems p;
        int n = snprintf(text, sizeof text, HEAD "  s:\n    %s\n  condition: s\n", CASES[i].item);
        ea_rules *r = compile(text, (size_t)n, &p);
        assert_int_equal(p.count, 0);
        ea_rules_value v = {ea_rules_field(r, 0, "A"), CASES[i].value, strlen(CASES[i].value)};
        if (matches_with(r, &v, 1) != CASES[i].expected)
            fail_msg("%s on \"%s\": expected %d", CASES[i].item, CASES[i].value, CASES[i].expected);
        ea_rules_destroy(r);
    }
}

static int has_field(void *arg, const char *field) {
    return strstr(arg, field) != NULL;
}

static void test_missing_fields(void **state) {
    static const char TEXT[] =
        HEAD "  a:\n    A: x\n  b:\n    B: y\n  c:\n    C: null\n  condition: (a or b) and not c\n";

    static const struct {
        const char *fields;
        int can_hold;
    } CASES[] = {{"ABC", 1}, {"AC", 1}, {"BC", 1}, {"C", 0}, {"AB", 0}, {"", 0}};

    problems p;
    (void)state;
    ea_rules *r = compile(TEXT, strlen(TEXT), &p);
    assert_int_equal(ea_rules_info(r, 0)->field_count, 3);
    assert_false(ea_rules_info(r, 0)->has_keywords);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int can_hold = -1;
        char fields[8];
        snprintf(fields, sizeof fields, "%s", CASES[i].fields);
        assert_int_equal(ea_rules_can_hold(r, 0, has_field, fields, &can_hold), 0);
        assert_int_equal(can_hold, CASES[i].can_hold);
    }
    ea_rules_destroy(r);
}

/* The fields of a rule are those that a caller has to give, so those that fieldref compares with are among them. */
static void test_fields_that_are_referred_to(void **state) {
    static const char TEXT[] = HEAD "  s:\n    A|fieldref: [B, C]\n    B: x\n    D|fieldref|neq: E\n  condition: s\n";
    static const char *const EXPECTED[] = {"A", "B", "C", "D", "E"};
    problems p;
    (void)state;
    ea_rules *r = compile(TEXT, strlen(TEXT), &p);
    assert_int_equal(p.count, 0);
    const ea_rule_info *info = ea_rules_info(r, 0);
    assert_int_equal(info->field_count, sizeof EXPECTED / sizeof *EXPECTED);
    for (uint32_t i = 0; i < info->field_count; i++)
        assert_string_equal(info->fields[i], EXPECTED[i]);
    ea_rules_destroy(r);
}

/* ---- literals in texts ---- */
enum { LITERALS = 300, LITERAL_BYTES = 40, AUTOMATON_TEXTS = 2000, AUTOMATON_TEXT_BYTES = 120 };

static uint32_t literals_dice(uint32_t below) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* Letters of few kinds, so that literals begin and end in each other. */
static uint32_t make_letters(char *to, uint32_t most, uint32_t kinds, int upper) {
    uint32_t len = 1 + literals_dice(most);
    for (uint32_t i = 0; i < len; i++) {
        uint32_t kind = literals_dice(20) ? literals_dice(kinds) : literals_dice(200);
        to[i] = (char)(kind < 26 ? (upper && literals_dice(2) ? 'A' : 'a') + (int)kind : 128 + (int)kind / 2);
    }
    return len;
}

static void set_atom(void *arg, uint32_t atom) {
    ((uint8_t *)arg)[atom] = 1;
}

static int is_found(const rules_literal *l, const char *text, uint32_t len) {
    uint32_t first = l->place == RULES_AT_END ? len - l->len_bytes : 0;
    uint32_t last = l->place == RULES_CONTAINED || l->place == RULES_AT_END ? len - l->len_bytes : 0;
    if (l->len_bytes > len || (l->place == RULES_WHOLE && l->len_bytes != len))
        return 0;
    for (uint32_t at = first; at <= last; at++) {
        uint32_t n = 0;
        while (n < l->len_bytes &&
               (text[at + n] >= 'A' && text[at + n] <= 'Z' ? text[at + n] + 32 : text[at + n]) == l->text[n])
            n++;
        if (n == l->len_bytes)
            return 1;
    }
    return 0;
}

/* The automaton finds what a search for each literal finds: also where states have more edges of their endings than
 * they keep, and ask those. */
static void test_literals(void **state) {
    static char texts[LITERALS][LITERAL_BYTES];
    static rules_literal literals[LITERALS];
    uint32_t skips = 0, found = 0;
    (void)state;
    for (uint32_t kinds = 1; kinds <= 27; kinds += kinds < 3 ? 1 : 8) {
        ea_arena arena;
        rules_automaton a;
        uint8_t hits[LITERALS];
        uint32_t marks[LITERALS + 1] = {0};
        ea_arena_init(&arena, 64 << 20);
        for (uint32_t i = 0; i < LITERALS; i++) {
            uint32_t most = kinds < 3 ? LITERAL_BYTES : 4 + literals_dice(8);
            literals[i] =
                (rules_literal){texts[i], make_letters(texts[i], most, kinds, 0), literals_dice(RULES_PLACES), i};
        }
        assert_int_equal(rules_automaton_build(&arena, literals, LITERALS, &a), 0);
        for (uint32_t i = 0; i < a.cell_count; i++)
            skips += a.cells[i].state != UINT32_MAX && a.cells[i].state & RULES_STATE_SKIPS;
        for (uint32_t i = 1; i <= AUTOMATON_TEXTS; i++) {
            char text[AUTOMATON_TEXT_BYTES];
            uint32_t len = i == 1 ? 0 : make_letters(text, literals_dice(2) ? 6 : sizeof text, kinds, 1);
            memset(hits, 0, sizeof hits);
            rules_automaton_scan(&a, text, len, marks, i, set_atom, hits);
            for (uint32_t k = 0; k < LITERALS; k++) {
                int expected = is_found(&literals[k], text, len);
                found += (uint32_t)expected;
                if (hits[literals[k].atom] != expected)
                    fail_msg("%.*s in %.*s, place %u: %d", (int)literals[k].len_bytes, literals[k].text, (int)len, text,
                             (unsigned)literals[k].place, hits[literals[k].atom]);
            }
        }
        ea_arena_deinit(&arena);
    }
    assert_true(skips > 100 && found > 10000);
}

/* A value that comes again, in another field and among many others, is judged as it was at first. */
static void test_values_that_come_again(void **state) {
    static const char TEXT[] = HEAD "  s:\n    A|contains: evil\n  t:\n    B|endswith: evil\n    C: ''\n"
                                    "  condition: s or t\n---\n" HEAD "  s:\n    A|re: 'e.il'\n    C: same\n"
                                    "  condition: s\n";

    static const struct {
        const char *a, *b, *c;
        size_t first, count; /* of the rules that hold */
    } EVENTS[] = {{"an evil one", "x", "", 0, 1}, {"x", "an evil", "", 0, 1},  {"x", "an evil one", "", 0, 0},
                  {"evil", "x", "same", 0, 2},    {"eXil", "x", "same", 1, 1}, {"", "evil", "same", 0, 0}};

    problems p;
    ea_rules_run *run = NULL;
    (void)state;
    ea_rules *r = compile(TEXT, strlen(TEXT), &p);
    assert_int_equal(p.count, 0);
    assert_int_equal(ea_rules_run_create(&run, r), 0);
    for (int round = 0; round < 40000; round++) {
        char other[32];
        snprintf(other, sizeof other, "evi%d", round);
        size_t i = (size_t)round % (sizeof EVENTS / sizeof *EVENTS), n = 0;
        const uint32_t *found;
        const ea_rules_value values[] = {{ea_rules_field(r, 0, "A"), EVENTS[i].a, strlen(EVENTS[i].a)},
                                         {ea_rules_field(r, 0, "B"), EVENTS[i].b, strlen(EVENTS[i].b)},
                                         {ea_rules_field(r, 0, "C"), EVENTS[i].c, strlen(EVENTS[i].c)},
                                         {ea_rules_field(r, 0, "B"), other, strlen(other)}};
        assert_int_equal(ea_rules_run_event(run, 0, values, 4, &found, &n), 0);
        assert_int_equal(n, EVENTS[i].count);
        if (n)
            assert_int_equal(found[0], EVENTS[i].first);
    }
    ea_rules_run_destroy(run);
    ea_rules_destroy(r);
}

/* ---- hostile rules and texts ---- */
static double seconds_of(const ea_rules *r, const char *text, size_t len) {
    ea_rules_run *run = NULL;
    const uint32_t *found;
    size_t n = 0;
    ea_rules_value v = {ea_rules_field(r, 0, "A"), text, len};
    assert_int_equal(ea_rules_run_create(&run, r), 0);
    clock_t begin = clock();
    assert_int_equal(ea_rules_run_event(run, 0, &v, 1, &found, &n), 0);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ea_rules_run_destroy(run);
    return seconds;
}

enum { TEXT_BYTES = 1 << 20 };

/* A text of 1 MiB takes at most a second of the processor, and at most about eight times that of 128 KiB. */
static void check_linear(const ea_text *rule, const char *part) {
    problems p;
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    for (size_t i = 0, n = strlen(part); i < TEXT_BYTES; i++)
        text[i] = part[i % n];
    ea_rules *r = compile(rule->data, rule->len_bytes, &p);
    if (p.count)
        fail_msg("%s", p.last.message);
    double eighth = 1e9, whole = 1e9;
    for (int i = 0; i < 3; i++) {
        double s = seconds_of(r, text, TEXT_BYTES / 8), w = seconds_of(r, text, TEXT_BYTES);
        eighth = s < eighth ? s : eighth;
        whole = w < whole ? w : whole;
    }
    if (whole > 1 || (whole > 0.05 && whole > eighth * 16))
        fail_msg("%.60s: %.3f s for 1 MiB, %.3f s for an eighth", rule->data + strlen(HEAD), whole, eighth);
    ea_rules_destroy(r);
    free(text);
}

static void test_hostile_rules_stay_linear(void **state) {
    static const char *const ITEMS[] = {
        "A: '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b'",
        "A: '*a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?*?*?*?*?*?*?b'",
        "A|re: '(a+)+b'",
        "A|re: '(a|aa|aaa)*b'",
        "A|re: '(.*)*(.*)*(.*)*b'",
        "A|re: 'a{0,100}a{0,100}a{0,100}b'",
        "A|re: '(x+x+)+y'",
        "A|re: '^(([a-z])+.)+[A-Z]([a-z])+$'",
    };
    ea_text rule;
    (void)state;
    ea_text_init(&rule);
    for (size_t i = 0; i < sizeof ITEMS / sizeof *ITEMS; i++) {
        ea_text_clear(&rule);
        ea_text_printf(&rule, HEAD "  s:\n    %s\n  condition: s\n", ITEMS[i]);
        check_linear(&rule, "aaaaaaaa");
        check_linear(&rule, "axaaxxa ");
    }
    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|contains:\n"); /* 10,000 alternatives, each inside of the next ones */
    for (int i = 1; i <= 10000; i++) {
        ea_text_str(&rule, "      - '");
        for (int k = 0; k < i % 97 + 1; k++)
            ea_text_char(&rule, 'a');
        ea_text_printf(&rule, "%d'\n", i);
    }
    ea_text_str(&rule, "  condition: s\n");
    check_linear(&rule, "aaaaaaaa");
    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|contains|all:\n"); /* all of them end at each byte */
    for (int i = 1; i <= 1000; i++) {
        ea_text_str(&rule, "      - '");
        for (int k = 0; k < i; k++)
            ea_text_char(&rule, 'a');
        ea_text_str(&rule, "'\n");
    }
    ea_text_str(&rule, "      - zz\n  condition: s\n");
    check_linear(&rule, "aaaaaaaa");
    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|re: '("); /* 5,000 alternatives of an expression */
    for (int i = 0; i < 5000; i++)
        ea_text_printf(&rule, "%sa%d", i ? "|" : "", i);
    ea_text_str(&rule, ")b'\n  condition: s\n");
    check_linear(&rule, "a1a22a333a4444 ");
    ea_text_deinit(&rule);
}

/* Aliases that stand for ever more values end at a limit. */
static void test_aliases_end_at_the_limit(void **state) {
    ea_text rule;
    problems p;
    (void)state;
    ea_text_init(&rule);
    ea_text_str(&rule, "x: &x [a");
    for (int i = 0; i < 5000; i++)
        ea_text_str(&rule, ", a");
    ea_text_str(&rule, "]\n" HEAD "  s:\n");
    for (int i = 0; i < 200; i++)
        ea_text_printf(&rule, "    A%d: *x\n", i);
    ea_text_str(&rule, "  condition: s\n");
    ea_rules *r = compile(rule.data, rule.len_bytes, &p);
    assert_int_equal(p.count, 1);
    assert_non_null(strstr(p.last.message, "more than 20000 values"));
    ea_rules_destroy(r);
    ea_text_deinit(&rule);
}

/* A pattern that needs too many states is refused in each rule that has it, and nothing of it stays. */
static void test_a_refused_pattern_leaves_nothing(void **state) {
    ea_text rule;
    problems p;
    (void)state;
    ea_text_init(&rule);
    for (int i = 0; i < 3; i++) {
        ea_text_str(&rule, HEAD "  s:\n    A: 'a");
        for (int k = 0; k < 4000; k++)
            ea_text_char(&rule, '?');
        ea_text_str(&rule, "b'\n  condition: s\n---\n");
    }
    ea_text_str(&rule, HEAD "  s:\n    A: a?b\n  condition: s\n");
    ea_rules *r = compile(rule.data, rule.len_bytes, &p);
    assert_int_equal(p.count, 3);
    assert_non_null(strstr(p.last.message, "states"));
    assert_int_equal(ea_rules_count(r), 1);
    ea_rules_value v = {ea_rules_field(r, 0, "A"), "axb", 3};
    assert_true(matches_with(r, &v, 1));
    ea_rules_destroy(r);
    ea_text_deinit(&rule);
}

/* Expressions without a literal: each adds an atom of its own and one of its field, by which the atoms grow. */
static void test_atoms_that_move(void **state) {
    enum { COUNT = 250 };

    ea_rules_value values[COUNT + 1];
    ea_text rule;
    problems p;
    (void)state;
    ea_text_init(&rule);
    ea_text_str(&rule, HEAD "  s:\n    Z: z\n");
    for (int i = 0; i < COUNT; i++)
        ea_text_printf(&rule, "    F%d|re: '[ab]'\n", i);
    ea_text_str(&rule, "  condition: s\n");
    ea_rules *r = compile(rule.data, rule.len_bytes, &p);
    assert_int_equal(p.count, 0);
    values[COUNT] = (ea_rules_value){ea_rules_field(r, 0, "Z"), "z", 1};
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "F%d", i);
        values[i] = (ea_rules_value){ea_rules_field(r, 0, name), "b", 1};
    }
    assert_true(matches_with(r, values, COUNT + 1));
    values[COUNT - 1].text = "c";
    assert_false(matches_with(r, values, COUNT + 1));
    ea_rules_destroy(r);
    ea_text_deinit(&rule);
}

static void many(ea_text *t, const char *part, int count) {
    for (int i = 0; i < count; i++)
        ea_text_str(t, part);
}

/* A rule that would take the memory of all others is refused, with its line; the one after it is read. */
static void check_refused_alone(const ea_text *rule, const char *message) {
    ea_text both;
    problems p;
    ea_text_init(&both);
    ea_text_add(&both, rule->data, rule->len_bytes);
    ea_text_str(&both, "---\n" HEAD "  s:\n    A: a\n  condition: s\n");
    assert_true(both.len_bytes < EA_RULES_FILE_MAX_BYTES);
    ea_rules *r = compile(both.data, both.len_bytes, &p);
    if (p.count != 1 || !p.last.line || !strstr(p.last.message, message))
        fail_msg("%d problems, line %u: %s; expected %s", p.count, p.last.line, p.last.message, message);
    assert_int_equal(ea_rules_count(r), 1);
    ea_rules_destroy(r);
    ea_text_deinit(&both);
}

static void test_a_large_rule_costs_one_rule(void **state) {
    ea_text rule;
    (void)state;
    ea_text_init(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A"); /* each modifier doubles the value */
    many(&rule, "|wide", 16);
    ea_text_str(&rule, ": ");
    many(&rule, "aaaaaaaaaa", 1000);
    ea_text_str(&rule, "\n  condition: s\n");
    check_refused_alone(&rule, "64 MiB of memory");

    ea_text_clear(&rule);
    ea_text_str(&rule, "x: &x ");
    many(&rule, "aaaaaaaaaa", 50000);
    ea_text_str(&rule, "\n" HEAD "  s:\n    A: [*x");
    many(&rule, ", *x", 1500);
    ea_text_str(&rule, "]\n  condition: s\n");
    check_refused_alone(&rule, "64 MiB of memory");

    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|re: '");
    many(&rule, "abcdefghij", 100000);
    ea_text_str(&rule, "'\n  condition: s\n");
    check_refused_alone(&rule, "too much memory");

    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|windash:\n"); /* 625 texts of 4,000 bytes, again and again */
    for (int i = 0; i < 30; i++) {
        ea_text_printf(&rule, "      - '-a -b -c -d %d", i);
        many(&rule, "abcdefghij", 398);
        ea_text_str(&rule, "'\n");
    }
    ea_text_str(&rule, "  condition: s\n");
    check_refused_alone(&rule, "more than 2 MiB");

    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|re:\n"); /* thousands of states each */
    for (int i = 0; i < 1000; i++)
        ea_text_printf(&rule, "      - '.{900}%d'\n", i);
    ea_text_str(&rule, "  condition: s\n");
    check_refused_alone(&rule, "524288 states");

    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A:\n");
    for (int i = 0; i < 100; i++) {
        ea_text_printf(&rule, "      - 'x%d", i);
        many(&rule, "?", 900);
        ea_text_str(&rule, "y'\n");
    }
    ea_text_str(&rule, "  condition: s\n");
    check_refused_alone(&rule, "524288 states");
    ea_text_deinit(&rule);
}

/* Many rules with large values: those that are too many are refused, and a small one is still read. */
static void test_large_rules_are_bounded_together(void **state) {
    ea_rules_builder *b = NULL;
    ea_text rule;
    problems p = {.count = 0};
    (void)state;
    ea_text_init(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A|windash: '-a -b -c -d "); /* 625 texts, 2 MB */
    many(&rule, "abcdefghij", 318);
    ea_text_str(&rule, "'\n  condition: s\n");
    assert_int_equal(ea_rules_builder_create(&b), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(ea_rules_add(b, "test.yml", rule.data, rule.len_bytes, on_problem, &p), 0);
    assert_int_equal(p.count, 0);
    assert_int_equal(ea_rules_add(b, "test.yml", rule.data, rule.len_bytes, on_problem, &p), 0);
    assert_int_equal(p.count, 1);
    assert_non_null(strstr(p.last.message, "16 MiB of values"));
    ea_text_clear(&rule);
    ea_text_str(&rule, HEAD "  s:\n    A: a\n  condition: s\n");
    assert_int_equal(ea_rules_add(b, "test.yml", rule.data, rule.len_bytes, on_problem, &p), 0);
    assert_int_equal(p.count, 1);
    ea_rules_builder_destroy(b);
    ea_text_deinit(&rule);
}

#define TABLE    "sigma_field\tevent\tour_field\toption\ttested_by\n"
#define SERVICES "service\tchannel\tprovider\toption\ttested_by\n"

static int read_tables(ea_sigma_tables **ret, const char *name, const char *text, ea_err *err) {
    const ea_sigma_file files[] = {{name, (const unsigned char *)text, strlen(text)}, {NULL, NULL, 0}};
    return ea_sigma_tables_create(ret, files, err);
}

static void test_tables_of_fields(void **state) {
    static const char TEXT[] =
        TABLE "A\tX/Y\tB\tflags: F\tt\nA\tX/Z+X/Y\tprocess.path\tflags: F + images: true + part: a, b\tt\n"
              "@when\tX/Y\tB!=header.pid\tflags: F\tt\nC\t-\t-\tnone: why\t-"; /* no end of line */

    static const struct {
        enum ea_sigma_option kind;
        const char *text, *value;
    } PARTS[] = {{EA_SIGMA_FLAGS, "flags: F", "F"},
                 {EA_SIGMA_IMAGES, "images: true", "true"},
                 {EA_SIGMA_PART, "part: a, b", "a, b"}};

    ea_sigma_tables *t = NULL;
    ea_err err = {0};
    (void)state;
    assert_int_equal(read_tables(&t, "cat", TEXT, &err), 0);
    assert_int_equal(ea_sigma_row_count(t), 4);
    assert_null(ea_sigma_source_find(t, "linux", "cat", ""));
    assert_null(ea_sigma_source_find(t, "windows", "other", ""));
    assert_null(ea_sigma_source_find(t, "windows", "", "cat"));
    const ea_sigma_source *s = ea_sigma_source_find(t, "windows", "cat", "");
    assert_non_null(s);
    const ea_sigma_row *first = ea_sigma_row_next(s, "A", NULL), *second = ea_sigma_row_next(s, "A", first);
    assert_string_equal(first->field, "B");
    assert_string_equal(second->events, "X/Z+X/Y");
    assert_null(ea_sigma_row_next(s, "A", second));
    assert_null(ea_sigma_row_next(s, "B", NULL));
    assert_string_equal(ea_sigma_row_next(s, "@when", NULL)->field, "B!=header.pid");
    assert_string_equal(ea_sigma_row_next(s, "C", NULL)->option, "none: why");
    const char *at = second->option, *text, *value;
    size_t len, value_len;
    enum ea_sigma_option kind;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        assert_int_equal(ea_sigma_option_next(&at, &kind, &text, &len, &value, &value_len), 1);
        assert_int_equal(kind, PARTS[i].kind);
        assert_int_equal(len, strlen(PARTS[i].text));
        assert_memory_equal(text, PARTS[i].text, len);
        assert_int_equal(value_len, strlen(PARTS[i].value));
        assert_memory_equal(value, PARTS[i].value, value_len);
    }
    assert_int_equal(ea_sigma_option_next(&at, &kind, &text, &len, &value, &value_len), 0);
    ea_sigma_tables_destroy(t);

    assert_int_equal(read_tables(&t, "services", SERVICES "log\tChannel\tProvider\tlog: Channel\tt\n", &err), 0);
    s = ea_sigma_source_find(t, "windows", "", "log");
    assert_non_null(s);
    assert_string_equal(s->channel, "Channel");
    assert_string_equal(ea_sigma_row_next(s, "Anything", NULL)->events, "Provider/*");
    assert_null(ea_sigma_row_next(s, "@when", NULL));
    assert_null(ea_sigma_source_find(t, "windows", "process_creation", "log"));
    ea_sigma_tables_destroy(t);

    assert_int_equal(ea_sigma_tables_create(&t, ea_sigma_files, &err), 0); /* those of the program */
    assert_non_null(ea_sigma_source_find(t, "windows", "process_creation", ""));
    assert_non_null(ea_sigma_source_find(t, "windows", "", "security"));
    ea_sigma_tables_destroy(t);
}

static void test_wrong_tables_are_refused(void **state) {
    static const struct {
        const char *name, *text;
        unsigned line;
    } WRONG[] = {
        {"cat", "sigma_field\tevent\tour_field\toption\n", 1},
        {"cat", SERVICES, 1},
        {"services", TABLE, 1},
        {"cat", TABLE "A\tX/Y\tB\tflags: F\n", 2},
        {"cat", TABLE "A\tX/Y\tB\tflags: F\tt\tmore\n", 2},
        {"cat", TABLE "A\tX/Y\t\tflags: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\tB\tflags: F\tt\n\n", 3},
        {"cat", TABLE "A\tX/Y\tB\tflag: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\tB\tflags: F + \tt\n", 2},
        {"cat", TABLE "A\tX/Y\tprocess.color\tflags: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\tnothing.path\tflags: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\tB:other\tflags: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\t=\tflags: F\tt\n", 2},
        {"cat", TABLE "A\tX/Y\t*\tflags: F\tt\n", 2},
        {"cat", TABLE "A\t-\tB\tnone: why\t-\n", 2},
        {"cat", TABLE "@when\tX/Y\tB\tflags: F\tt\n", 2},
        {"cat", TABLE "@when\tX/Y\t=1\tflags: F\tt\n", 2},
        {"cat", TABLE "@process\tX/Y\tprocess.id\tflags: F\tt\n", 2},
        {"cat", TABLE "@other\tX/Y\tB\tflags: F\tt\n", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        ea_sigma_tables *t = NULL;
        ea_err err = {0};
        char place[64];
        snprintf(place, sizeof place, "config/sigma/%s.tsv, line %u:", WRONG[i].name, WRONG[i].line);
        if (read_tables(&t, WRONG[i].name, WRONG[i].text, &err) != EA_EFORMAT || !strstr(err.message, place))
            fail_msg("%s: %s", WRONG[i].text, err.message);
        assert_null(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_one_bad_document_costs_one_rule),
        cmocka_unit_test(test_an_id_has_one_rule),
        cmocka_unit_test(test_tags_and_texts),
        cmocka_unit_test(test_a_long_text_is_cut),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_missing_fields),
        cmocka_unit_test(test_fields_that_are_referred_to),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_values_that_come_again),
        cmocka_unit_test(test_hostile_rules_stay_linear),
        cmocka_unit_test(test_aliases_end_at_the_limit),
        cmocka_unit_test(test_a_refused_pattern_leaves_nothing),
        cmocka_unit_test(test_atoms_that_move),
        cmocka_unit_test(test_a_large_rule_costs_one_rule),
        cmocka_unit_test(test_large_rules_are_bounded_together),
        cmocka_unit_test(test_tables_of_fields),
        cmocka_unit_test(test_wrong_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
