/* Correlations of matches: counts, values and sequences in a timespan, by group; late matches; each once; bounds. */
#include "collector/detect/correlations.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/incidents.h"
#include "proto/base/platform.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define SOURCE "logsource: {product: windows, category: process_creation}\ndetection: {s: {A: b}, condition: s}\n"

static const char RULES[] =
    "title: one\n" SOURCE "---\ntitle: two\n" SOURCE "---\ntitle: three\n" SOURCE "---\n"
    "title: many\ntags: [x]\nlevel: high\ncorrelation: {type: event_count, rules: [one], group-by: "
    "[User], timespan: 10s, condition: {gte: 3}}\n---\n"
    "title: values\ncorrelation: {type: value_count, rules: [one], group-by: [User], timespan: 10s, "
    "condition: {gt: 2, field: A}, generate: True}\n---\n"
    "title: both\ncorrelation: {type: temporal, rules: [two, one], timespan: 10s}\n---\n"
    "title: row\ncorrelation: {type: temporal_ordered, rules: [three, two, three2], timespan: 10s}\n"
    "---\ntitle: three2\n" SOURCE
    /* over others, of which one comes after it */
    "---\ntitle: over\ncorrelation: {type: temporal_ordered, rules: [fours, five], group-by: [User], timespan: 60s}\n"
    "---\ntitle: fours\ncorrelation: {type: event_count, rules: [four], group-by: [User, A], timespan: 10s, condition: "
    "{gte: 2}}\n---\ntitle: four\n" SOURCE "---\ntitle: five\n" SOURCE
    "---\ntitle: groups\ncorrelation: {type: value_count, rules: [over], group-by: [], timespan: 1h, condition: {gte: "
    "2, "
    "field: User}, generate: true}\n"
    "---\ntitle: sum\ncorrelation: {type: value_sum, rules: [six], group-by: [User], timespan: 10s, condition: {field: "
    "A, "
    "gte: 100}}\n---\ntitle: average\ncorrelation: {type: value_avg, rules: [six], timespan: 10s, condition: {field: "
    "A, "
    "gt: 10}}\n---\ntitle: percentile\ncorrelation: {type: value_percentile, rules: [six], timespan: 10s, condition: "
    "{field: A, percentile: 75, gte: 50}}\n---\ntitle: six\n" SOURCE;

enum {
    ONE = 0,
    THREE = 2,
    TWO = 1,
    THREE2 = 3,
    FOUR = 4,
    FIVE = 5,
    MANY = 0,
    VALUES = 1,
    BOTH = 2,
    ROW = 3,
    FOURS = 4,
    SUM = 5,
    AVERAGE = 6,
    PERCENTILE = 7,
    OVER = 8, /* after what it names */
    GROUPS = 9,
    SIX = 6
};

static ea_rules *rules;
static ec_detections *detections;
static ec_correlations *correlations;
static ec_detections_stream stream = {.host = "pc", .stream = "0102030405060708090a0b0c0d0e0f10", .next = 1};
static uint64_t position, left_out, cut, deleted;

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static void on_problem(void *arg, const ea_rules_problem *p) {
    (void)arg;
    fail_msg("%u: %s", p->line, p->message);
}

static int begin(void **state) {
    ea_rules_builder *b = NULL;
    ea_err err;
    assert_int_equal(scratch_make(state), 0);
    assert_int_equal(ea_rules_builder_create(&b), 0);
    assert_int_equal(ea_rules_add(b, "r.yml", RULES, sizeof RULES - 1, on_problem, NULL), 0);
    assert_int_equal(ea_rules_build(b, &rules, on_problem, NULL), 0);
    ea_rules_builder_destroy(b);
    must(ec_detections_open(&detections, scratch, &err), &err);
    must(ec_correlations_open(&correlations, detections, &err), &err);
    position = 0;
    return 0;
}

static int end(void **state) {
    ec_correlations_close(correlations);
    ec_detections_close(detections);
    ea_rules_destroy(rules);
    return scratch_clear(state);
}

static ec_correlation_hit hit(uint32_t correlation, uint32_t rule, int64_t s, const char *group, const char *value) {
    return (ec_correlation_hit){.stream = &stream,
                                .correlation = correlation,
                                .rule = rule,
                                .batch = 1,
                                .position = position++,
                                .utc_ns = s * SECOND,
                                .group = group,
                                .fields = *group ? "{\"User\": \"U\"}" : "{}",
                                .value = value};
}

/* How many detections they make. */
static uint64_t judge_at(int64_t now_s, const ec_correlation_hit *hits, size_t count) {
    ea_err err;
    ec_correlations_found found;
    must(ec_detections_begin(detections, &err), &err);
    must(ec_correlations_judge(correlations, rules, hits, count, now_s * SECOND, &found, &err), &err);
    must(ec_detections_judged(detections, &stream, 2, 1, &err), &err);
    left_out = found.left_out;
    cut = found.cut;
    deleted = found.deleted;
    return found.new_count;
}

static uint64_t judge_one(uint32_t correlation, uint32_t rule, int64_t s, const char *group, const char *value) {
    const ec_correlation_hit h = hit(correlation, rule, s, group, value);
    return judge_at(1000, &h, 1);
}

static int64_t ask(const char *sql) {
    sqlite3_stmt *st = NULL;
    ea_err err;
    must(ec_sqlite_prepare(ec_detections_database(detections), &st, sql, "ask", &err), &err);
    assert_int_equal(ec_sqlite_step(st, "ask", &err), 1);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static void what_is_read(void **state) {
    (void)state;
    assert_true(ea_path_exists(scratch_path("alarms.db")));
    assert_int_equal(ea_rules_correlation_count(rules), 10);
    assert_int_equal(ea_rules_count(rules), 7);
    const ea_rule_correlation *many = ea_rules_correlation(rules, MANY), *values = ea_rules_correlation(rules, VALUES);
    assert_int_equal(many->least, 3);
    assert_int_equal(values->least, 3); /* more than 2 */
    assert_int_equal(many->span_ns, 10 * SECOND);
    assert_string_equal(ea_rules_info(rules, ea_rules_correlation(rules, BOTH)->rules[0])->title, "two");
    assert_int_equal(ea_rules_info(rules, ONE)->is_part, 0); /* values generates */
    assert_int_equal(ea_rules_info(rules, TWO)->is_part, 1);
    assert_int_not_equal(ea_rules_field(rules, 0, "User"), UINT32_MAX); /* no rule names it */
}

static void counts_are_of_a_group_and_a_span(void **state) {
    (void)state;
    assert_int_equal(judge_one(MANY, ONE, 0, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 4, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 5, "b", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 10, "a", NULL), 1);
    assert_int_equal(judge_one(MANY, ONE, 16, "b", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 17, "b", NULL), 0); /* the first one was 12 s before */
    assert_int_equal(judge_one(MANY, ONE, 11, "a", NULL), 0); /* a detection was 1 s before */
    assert_int_equal(judge_one(MANY, ONE, 12, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 20, "a", NULL), 1);
    assert_int_equal(
        ask("SELECT count(*) FROM detections WHERE rule = 'many' AND level = 'high' AND tags = '[\"x\"]' AND"
            " text_id IS NOT NULL AND utc_ns IN (10000000000, 20000000000)"),
        2);
    assert_int_equal(ask("SELECT json_extract(fields, '$.matches') = '3' AND json_extract(fields, '$.User') = 'U' FROM"
                         " detections WHERE utc_ns = 10000000000"),
                     1);
}

static void many_at_once_are_one(void **state) {
    ec_correlation_hit hits[30];
    (void)state;
    for (int64_t i = 0; i < 30; i++)
        hits[i] = hit(MANY, ONE, 29 - i, i % 3 ? "a" : "b", NULL); /* not in their order */
    /* a has 20 in 29 s, b 10 with 3 s between them */
    assert_int_equal(judge_at(1000, hits, 30), 3 + 2);
    assert_int_equal(judge_at(1000, hits, 30), 0); /* again: they are known */
    assert_int_equal(ask("SELECT count(*) FROM correlation_hits"), 30);
    assert_int_equal(ask("SELECT count(*) FROM detections"), 5);
}

static void values_are_distinct(void **state) {
    (void)state;
    assert_int_equal(judge_one(VALUES, ONE, 0, "", "x"), 0);
    assert_int_equal(judge_one(VALUES, ONE, 1, "", "y"), 0);
    assert_int_equal(judge_one(VALUES, ONE, 2, "", "x"), 0);
    assert_int_equal(judge_one(VALUES, ONE, 3, "", NULL), 0);
    assert_int_equal(judge_one(VALUES, ONE, 12, "", "z"), 0); /* x and y were before the span, but for x at 2 */
    assert_int_equal(judge_one(VALUES, ONE, 12, "", "y"), 1);
    assert_int_equal(ask("SELECT json_extract(fields, '$.values') = '3' FROM detections"), 1);
}

static void texts_that_are_no_numbers_count_nothing(void **state) {
    (void)state;
    assert_int_equal(judge_one(SUM, SIX, 0, "a", "60"), 0);
    assert_int_equal(judge_one(SUM, SIX, 1, "a", "x"), 0);
    assert_int_equal(judge_one(SUM, SIX, 1, "a", "99.5"), 0);
    assert_int_equal(judge_one(SUM, SIX, 1, "a", "36893488147419103232"), 0); /* 2^65 */
    assert_int_equal(judge_one(SUM, SIX, 2, "a", NULL), 0);
    assert_int_equal(judge_one(SUM, SIX, 2, "b", "90"), 0);
    assert_int_equal(judge_one(SUM, SIX, 3, "a", "-0x10"), 0);
    assert_int_equal(judge_one(SUM, SIX, 4, "a", "55"), 0);
    assert_int_equal(judge_one(SUM, SIX, 5, "a", "+1"), 1);
    assert_int_equal(judge_one(SUM, SIX, 16, "a", "99"), 0); /* all others were before the span */
    assert_int_equal(judge_one(SUM, SIX, 17, "a", "18446744073709551615"), 1);
    assert_int_equal(ask("SELECT json_extract(fields, '$.sum') = '100' FROM detections ORDER BY utc_ns LIMIT 1"), 1);
    assert_int_equal(
        ask("SELECT json_extract(fields, '$.sum') = '18446744073709551714' FROM detections WHERE utc_ns = 17000000000"),
        1); /* more than 64 bits have */
}

static void averages_are_exact(void **state) {
    (void)state;
    assert_int_equal(judge_one(AVERAGE, SIX, 0, "", "10"), 0); /* it has to be more */
    assert_int_equal(judge_one(AVERAGE, SIX, 1, "", "-5"), 0);
    assert_int_equal(judge_one(AVERAGE, SIX, 11, "", "26"), 1); /* -5 and 26 */
    assert_int_equal(ask("SELECT json_extract(fields, '$.average') = '10.500' FROM detections"), 1);
}

static void percentiles_are_the_nearest_rank(void **state) {
    (void)state;
    assert_int_equal(judge_one(PERCENTILE, SIX, 0, "", "10"), 0);
    assert_int_equal(judge_one(PERCENTILE, SIX, 1, "", "20"), 0);
    assert_int_equal(judge_one(PERCENTILE, SIX, 2, "", "30"), 0);
    assert_int_equal(judge_one(PERCENTILE, SIX, 3, "", "60"), 0);  /* the third of four */
    assert_int_equal(judge_one(PERCENTILE, SIX, 4, "", "55"), 1);  /* the fourth of five */
    assert_int_equal(judge_one(PERCENTILE, SIX, 20, "", "40"), 0); /* alone */
    assert_int_equal(ask("SELECT json_extract(fields, '$.percentile') = '55' FROM detections"), 1);
}

static void all_rules_in_any_order(void **state) {
    (void)state;
    assert_int_equal(judge_one(BOTH, ONE, 0, "", NULL), 0);
    assert_int_equal(judge_one(BOTH, ONE, 1, "", NULL), 0);
    assert_int_equal(judge_one(BOTH, TWO, 12, "", NULL), 0);
    assert_int_equal(judge_one(BOTH, ONE, 22, "", NULL), 1);
}

static void rules_in_a_row(void **state) {
    (void)state;
    assert_int_equal(judge_one(ROW, TWO, 0, "", NULL), 0);
    assert_int_equal(judge_one(ROW, THREE, 1, "", NULL), 0);
    assert_int_equal(judge_one(ROW, THREE2, 2, "", NULL), 0);
    assert_int_equal(judge_one(ROW, TWO, 9, "", NULL), 0);
    assert_int_equal(judge_one(ROW, THREE2, 12, "", NULL), 0); /* the row began 11 s before */
    assert_int_equal(judge_one(ROW, THREE, 13, "", NULL), 0);
    assert_int_equal(judge_one(ROW, TWO, 14, "", NULL), 0);
    assert_int_equal(judge_one(ROW, THREE2, 23, "", NULL), 1);
}

static void a_late_one_counts(void **state) {
    (void)state;
    assert_int_equal(judge_one(MANY, ONE, 100, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 108, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 104, "a", NULL), 1);
    assert_int_equal(ask("SELECT utc_ns = 108000000000 FROM detections"), 1);
}

static void they_are_forgotten_by_when_they_came(void **state) {
    ec_correlation_hit h = hit(MANY, ONE, 5, "a", NULL);
    (void)state;
    assert_int_equal(judge_at(1000, &h, 1), 0);
    h = hit(MANY, ONE, 6, "a", NULL);
    assert_int_equal(judge_at(1019, &h, 1), 0);
    h = hit(MANY, ONE, 7, "a", NULL);
    assert_int_equal(judge_at(1020, &h, 1), 1); /* a backlog: what happened long ago counts */
    h = hit(MANY, ONE, 8, "b", NULL);
    assert_int_equal(judge_at(1025, &h, 1), 0);
    assert_int_equal(ask("SELECT count(*) FROM correlation_hits"), 3);
    h = hit(MANY, ONE, 9, "b", NULL);
    assert_int_equal(judge_at(1100, &h, 1), 0);
    assert_int_equal(ask("SELECT count(*) FROM correlation_hits"), 1);
    assert_int_equal(ask("SELECT count(*) FROM correlation_alerts"), 0);
}

static void a_host_loses_its_own(void **state) {
    char sql[400];
    (void)state;
    assert_int_equal(judge_one(MANY, ONE, 1, "a", NULL), 0);
    assert_int_equal(deleted, 0);
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
        " correlation_hits(host, stream, batch, position, rule, correlation, grouped, utc_ns, found_utc_ns, fields)"
        " SELECT 'loud', 's', 1, i, 'r', 'c', 'g', i, 1, '{}' FROM n",
        EC_HITS_KEPT);
    assert_int_equal(sqlite3_exec(ec_detections_database(detections), sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(judge_one(MANY, ONE, 2, "a", NULL), 0);
    assert_int_equal(deleted, 2);
    assert_int_equal(ask("SELECT count(*) FROM correlation_hits"), EC_HITS_KEPT);
    assert_int_equal(ask("SELECT count(*) FROM correlation_hits WHERE host = 'pc'"), 2);
}

/* Texts that are more than is looked at: the newest are, and nothing fails, which would hold up the stream for ever. */
static void what_is_looked_at_is_bounded(void **state) {
    char sql[500];
    (void)state;
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
        " correlation_hits(host, stream, batch, position, rule, correlation, grouped, utc_ns, found_utc_ns, fields)"
        " SELECT 'pc', 's', 2, i, 'one', 'many', 'a', %lld, %lld, '{\"User\": \"' || printf('%%.32000c', 'x') ||"
        " '\"}' FROM n",
        EC_HITS_LOOK_BYTES / 32000 + 10, (long long)(5 * SECOND), (long long)(1000 * SECOND));
    assert_int_equal(sqlite3_exec(ec_detections_database(detections), sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(judge_one(MANY, ONE, 6, "a", NULL), 1);
    assert_int_equal(cut, 1);
    assert_int_equal(ask("SELECT json_extract(fields, '$.matches') > 1000 AND utc_ns = 6000000000 FROM detections"), 1);
}

/* What is beyond the count of hits makes a sum too small: that is counted. */
static void more_hits_than_are_looked_at_are_counted(void **state) {
    char sql[500];
    (void)state;
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
             " correlation_hits(host, stream, batch, position, rule, correlation, grouped, utc_ns, found_utc_ns, value,"
             " fields) SELECT 'pc', 's', 2, i, 'six', 'sum', 'a', %lld + i, %lld, '0', '{}' FROM n",
             EC_HITS_LOOKED_AT - 1, (long long)(5 * SECOND), (long long)(1000 * SECOND));
    assert_int_equal(sqlite3_exec(ec_detections_database(detections), sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(judge_one(SUM, SIX, 6, "a", "1"), 0);
    assert_int_equal(cut, 0);
    assert_int_equal(judge_one(SUM, SIX, 7, "a", "99"), 1);
    assert_int_equal(cut, 1);
}

/* A flood after them does not hide the first of many that come at once: the span of these is not the flood's. */
static void a_flood_hides_none_before_it(void **state) {
    enum { FLOOD = EC_HITS_LOOKED_AT + 1000 };

    ec_correlation_hit *hits = calloc(FLOOD + 3, sizeof *hits);
    (void)state;
    assert_non_null(hits);
    for (size_t i = 0; i < FLOOD; i++) /* the later ones first, all in a second */
        hits[i] = hit(MANY, ONE, 100, "a", NULL);
    for (size_t i = 0; i < 3; i++)
        hits[FLOOD + i] = hit(MANY, ONE, (int64_t)i, "a", NULL);
    assert_int_equal(judge_at(1000, hits, FLOOD + 3), 2);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE utc_ns = 2000000000"), 1);
    assert_true(cut > 0); /* the flood's last ones */
    free(hits);
}

/* Beyond the bound of an hour they are counted, also several of one batch. */
static void what_is_left_out_is_counted(void **state) {
    char sql[500];
    (void)state;
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
        " detections(host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state,"
        " who, comment) SELECT 'pc', 's', 2, i, 'many', '', '', '', i, 1, '{}', 'open', '', '' FROM n",
        EC_DETECTIONS_AN_HOUR);
    assert_int_equal(sqlite3_exec(ec_detections_database(detections), sql, NULL, NULL, NULL), SQLITE_OK);
    for (int64_t i = 0; i < 8; i++)
        assert_int_equal(judge_one(MANY, ONE, i, i % 2 ? "a" : "b", NULL), 0);
    assert_int_equal(left_out, 0); /* the last one is within the timespan of the third */
    assert_int_equal(ask("SELECT sum(count) FROM detections_left_out WHERE rule = 'many'"), 2);
    assert_int_equal(judge_one(MANY, ONE, 20, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 21, "a", NULL), 0);
    assert_int_equal(judge_one(MANY, ONE, 22, "a", NULL), 0);
    assert_int_equal(left_out, 1);
}

static void a_host_loses_its_own_alerts(void **state) {
    char sql[500];
    (void)state;
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
             " correlation_alerts SELECT 'c', 'g', i, i, 'loud', 's' FROM n",
             EC_ALERTS_KEPT);
    assert_int_equal(sqlite3_exec(ec_detections_database(detections), sql, NULL, NULL, NULL), SQLITE_OK);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(judge_one(MANY, ONE, i, "a", NULL), i == 2);
    assert_int_equal(ask("SELECT count(*) FROM correlation_alerts"), EC_ALERTS_KEPT);
    assert_int_equal(ask("SELECT count(*) FROM correlation_alerts WHERE host = 'pc'"), 1);
    assert_int_equal(ask("SELECT min(found_utc_ns) FROM correlation_alerts"), 2);
}

/* A detection of a correlation is a match of those that name it; it is none by itself without generate. */
static void correlations_are_correlated(void **state) {
    (void)state;
    const ea_rule_correlation *over = ea_rules_correlation(rules, OVER);
    assert_string_equal(over->info.title, "over");
    assert_int_equal(over->rules[0], EA_RULES_CORRELATION | FOURS);
    assert_int_equal(over->depth, 1);
    assert_int_equal(ea_rules_correlation(rules, FOURS)->info.is_part, 1);
    assert_int_equal(over->info.is_part, 0); /* groups generates */
    static const char *const USERS[] = {"a", "B"};
    for (int i = 0; i < 2; i++) {
        char group[40], fields[80];
        int64_t at = 100 * i;
        snprintf(group, sizeof group, "\"%s\", \"x\"", i ? "b" : "a");
        snprintf(fields, sizeof fields, "{\"User\": \"%s\", \"A\": \"x\"}", USERS[i]);
        ec_correlation_hit h[3] = {hit(FOURS, FOUR, at, group, NULL), hit(FOURS, FOUR, at + 1, group, NULL),
                                   hit(OVER, FIVE, at + 5, i ? "\"b\"" : "\"a\"", NULL)};
        h[0].fields = h[1].fields = h[2].fields = fields;
        assert_int_equal(judge_at(1000, h, 1), 0);
        /* both at once: the one below comes first, and the other's order is that of the events */
        assert_int_equal(judge_at(1000, h + 1, 2), i ? 2 : 1);
        assert_int_equal(judge_at(1000, h, 3), 0); /* again */
    }
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE rule = 'over'"), 2);
    assert_int_equal(
        ask("SELECT count(*) FROM detections WHERE rule = 'groups' AND json_extract(fields, '$.values') = '2'"), 1);
    assert_int_equal(ask("SELECT count(*) FROM detections"), 3); /* fours makes none */
}

/* Detections whose texts are more than there is room for: the stream goes on, and the looks at a part are counted. */
static void large_chains_are_cut(void **state) {
    enum { LARGE = 1 << 20, MANY_GROUPS = EC_HITS_LOOK_BYTES / LARGE / 2 + 8 };

    ec_correlation_hit hits[2 * MANY_GROUPS];
    char groups[MANY_GROUPS][16];
    char *fields = malloc(LARGE + 100);
    (void)state;
    assert_non_null(fields);
    size_t len = (size_t)snprintf(fields, 100, "{\"A\": \"x\", \"User\": \"");
    memset(fields + len, 'u', LARGE);
    memcpy(fields + len + LARGE, "\"}", sizeof "\"}");
    for (size_t i = 0; i < MANY_GROUPS; i++) {
        snprintf(groups[i], sizeof groups[i], "g%zu", i);
        for (size_t k = 0; k < 2; k++) {
            hits[2 * i + k] = hit(FOURS, FOUR, (int64_t)k, groups[i], NULL);
            hits[2 * i + k].fields = fields;
        }
    }
    assert_int_equal(judge_at(1000, hits, 2 * MANY_GROUPS), 0); /* of two correlations; one needs another rule, too */
    assert_true(cut > 0);
    int64_t kept = ask("SELECT count(*) FROM correlation_hits WHERE rule = 'fours'");
    assert_true(kept > 1);
    assert_int_equal(kept + (int64_t)cut, MANY_GROUPS);
    free(fields);
}

static void take_message(void *arg, const ea_rules_problem *p) {
    snprintf(arg, sizeof((ea_rules_problem *)NULL)->message, "%u: %s", p->line, p->message);
}

/* What would silently never hold, or has no end. */
static void wrong_chains_are_refused(void **state) {
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"title: r\n" SOURCE "---\ntitle: a\ncorrelation: {type: event_count, rules: [r], group-by: [A], timespan: 5m,"
         " condition: {gte: 3}}\n---\ncorrelation: {type: value_count, rules: [a], timespan: 5m, condition: {gte: 3,"
         " field: B}}\n",
         "8: the correlation compares \"B\", which is not in the group-by of \"a\""},
        {"title: r\n" SOURCE "---\ncorrelation: {type: value_sum, rules: [r], timespan: 5m, condition: {gte: 3}}\n",
         "5: the condition has no field"},
        {"title: r\n" SOURCE "---\ncorrelation: {type: value_percentile, rules: [r], timespan: 5m, condition: {gte: 3,"
         " field: A}}\n",
         "5: the condition has no percentile"},
        {"title: r\n" SOURCE "---\ncorrelation: {type: value_percentile, rules: [r], timespan: 5m, condition: {gte: 3,"
         " field: A, percentile: 101}}\n",
         "5: expected a whole number from 1 to 100"},
        {"title: r\n" SOURCE "---\ncorrelation: {type: value_avg, rules: [r], timespan: 5m, condition: {lt: 3,"
         " field: A}}\n",
         "5: expected gte or gt, and field"},
        {"title: a\ncorrelation: {type: event_count, rules: [b], timespan: 5m, condition: {gte: 2}}\n---\n"
         "title: b\ncorrelation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 2}}\n",
         "4: the correlation names itself, over others or not"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char said[600] = "";
        ea_rules_builder *b = NULL;
        ea_rules *r = NULL;
        assert_int_equal(ea_rules_builder_create(&b), 0);
        assert_int_equal(ea_rules_add(b, "r.yml", CASES[i].text, strlen(CASES[i].text), take_message, said), 0);
        assert_int_equal(ea_rules_build(b, &r, take_message, said), 0);
        if (strstr(said, CASES[i].message) != said)
            fail_msg("\"%s\" in place of \"%s\"", said, CASES[i].message);
        ea_rules_builder_destroy(b);
        ea_rules_destroy(r);
    }
}

/* As many as the bound are one over the other, and one more is refused. */
static void chains_are_bounded(void **state) {
    char text[4000] = "title: c0\n" SOURCE, said[600] = "";
    ea_rules_builder *b = NULL;
    ea_rules *r = NULL;
    (void)state;
    for (int i = EA_RULES_CHAIN_MAX + 1; i > 0; i--)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "---\ntitle: c%d\ncorrelation: {type: event_count, rules: [c%d], timespan: 5m, condition: {gte: 2}}\n",
                 i, i - 1);
    assert_int_equal(ea_rules_builder_create(&b), 0);
    assert_int_equal(ea_rules_add(b, "r.yml", text, strlen(text), take_message, said), 0);
    assert_int_equal(ea_rules_build(b, &r, take_message, said), 0);
    assert_non_null(strstr(said, "5: more than 8 correlations"));
    assert_int_equal(ea_rules_correlation_count(r), EA_RULES_CHAIN_MAX);
    assert_int_equal(ea_rules_correlation(r, EA_RULES_CHAIN_MAX - 1)->depth, EA_RULES_CHAIN_MAX - 1);
    ea_rules_builder_destroy(b);
    ea_rules_destroy(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(correlations_are_correlated, begin, end),
        cmocka_unit_test_setup_teardown(large_chains_are_cut, begin, end),
        cmocka_unit_test(wrong_chains_are_refused),
        cmocka_unit_test(chains_are_bounded),
        cmocka_unit_test_setup_teardown(what_is_read, begin, end),
        cmocka_unit_test_setup_teardown(counts_are_of_a_group_and_a_span, begin, end),
        cmocka_unit_test_setup_teardown(many_at_once_are_one, begin, end),
        cmocka_unit_test_setup_teardown(values_are_distinct, begin, end),
        cmocka_unit_test_setup_teardown(texts_that_are_no_numbers_count_nothing, begin, end),
        cmocka_unit_test_setup_teardown(averages_are_exact, begin, end),
        cmocka_unit_test_setup_teardown(percentiles_are_the_nearest_rank, begin, end),
        cmocka_unit_test_setup_teardown(more_hits_than_are_looked_at_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_flood_hides_none_before_it, begin, end),
        cmocka_unit_test_setup_teardown(all_rules_in_any_order, begin, end),
        cmocka_unit_test_setup_teardown(rules_in_a_row, begin, end),
        cmocka_unit_test_setup_teardown(a_late_one_counts, begin, end),
        cmocka_unit_test_setup_teardown(they_are_forgotten_by_when_they_came, begin, end),
        cmocka_unit_test_setup_teardown(a_host_loses_its_own, begin, end),
        cmocka_unit_test_setup_teardown(what_is_looked_at_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(what_is_left_out_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_host_loses_its_own_alerts, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
