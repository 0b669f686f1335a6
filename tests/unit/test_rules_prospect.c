/* Rules on events of which some fields are not known: where the early look says that no rule of a group holds, none
 * does with the event's own values, nor with others in the place of those that are hidden; and where nothing is hidden,
 * the early look and the whole evaluation say the same. Rules, filters, correlations, events and hidden fields are
 * random. */
#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/rules_screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { GROUPS = 400, EVENTS = 40, SCREENED = 40, OTHERS = 12, FIELDS = 6, VALUES_MAX = 3 * FIELDS };

/* @ and # are two fields. */
static const char *const ITEMS[] = {
    "@: ab",
    "@: [ab, x, '10', '*b']",
    "@: 'a?b*'",
    "@: 'a?z'",
    "@: '*'",
    "@: ''",
    "@: null",
    "@: [null, ab]",
    "@: ['', a]",
    "@|contains: b",
    "@|startswith: a",
    "@|endswith: [b, x]",
    "@|contains|all: [a, b]",
    "@|cased: aB",
    "@|contains|cased: [B, x]",
    "@|neq: ab",
    "@|contains|neq: [a, b]",
    "@|exists: true",
    "@|exists: false",
    "@|fieldref: #",
    "@|fieldref|startswith: #",
    "@|fieldref|endswith: #",
    "@|fieldref|cased: #",
    "@|fieldref|neq: #",
    "@|re: '^a+b?$'",
    "@|re: ['ab', 'x$']",
    "@|re|i: 'B[0-9]'",
    "@|re: '(a|x)?'",
    "@|re: '^$'",
    "@|re|neq: 'a'",
    "@|cidr: 10.0.0.0/8",
    "@|cidr: [10.1.0.0/16, 'fe80::/10']",
    "@|cidr|neq: 10.1.2.0/24",
    "@|lt: 6",
    "@|lte: 10",
    "@|gt: 0x0a",
    "@|gte: [5, 1000]",
    "@|gte|neq: 5",
    "@|base64|contains: bab",
    "@|base64offset|contains: bab",
    "@|wide|base64offset|contains: ab",
    "@|utf16le|contains: a",
    "@|windash|contains: ' -a'",
    "@|contains|windash|neq: ' -a'",
};

/* s0, s1, s2: what is searched for. */
static const char *const CONDITIONS[] = {
    "s0",
    "not s0",
    "s0 and s1",
    "s0 and not s1",
    "not s0 and not s1",
    "s0 or s1",
    "s0 or not s1",
    "1 of s*",
    "all of s*",
    "any of them",
    "not 1 of s*",
    "not all of them",
    "s0 and not 1 of s*",
    "(s0 or not s1) and s2",
    "not (s0 and s1) and s2",
    "s1 and not (s0 or s2)",
    "not (not s0 or s1) or s2",
    "[s0 and s1, not s2]",
};

static const char *const VALUES[] = {"",       "a",       "ab",       "aB",         "b",       "xab",
                                     "aab",    "a1b2",    "ab\nx",    "10",         "5",       "-3",
                                     "0x0b",   "2.5",     "10.1.2.3", "10.9.9.9",   "fe80::1", "YmFi",
                                     "xx /ab", "y -ab b", "YQBiAA==", "a\xc3\xa9z", "a\xffz"};

static const char *const KEYWORDS[] = {"ab", "'a*b'", "'?'", "x", "'10'"};

static const char *const NAMES[FIELDS] = {"A", "B", "C", "D", "E", "F"};

typedef struct prospect_event {
    ea_rules_value values[VALUES_MAX];
    size_t count;
} prospect_event;

/* How often the early look left an event, and rules held. */
typedef struct prospect_sums {
    uint64_t events, left, hold;
    uint64_t screened, known; /* by a screen; of kinds that it had judged before */
} prospect_sums;

static uint64_t generator;

static size_t below(size_t n) {
    generator ^= generator << 13;
    generator ^= generator >> 7;
    generator ^= generator << 17;
    return (size_t)((generator >> 11) % n);
}

#define PICK(list) ((list)[below(sizeof(list) / sizeof *(list))])

static void on_problem(void *arg, const ea_rules_problem *p) {
    fail_msg("line %u: %s: %s", p->line, p->message, (const char *)arg);
}

/* ---- random rules ---- */

static void add_item(ea_text *t, const char *item, size_t field) {
    size_t other = below(FIELDS);
    for (; *item; item++) {
        if (*item == '@')
            ea_text_str(t, NAMES[field]);
        else if (*item == '#')
            ea_text_str(t, NAMES[other]);
        else
            ea_text_char(t, *item);
    }
}

/* A mapping of one or two items. */
static void add_map(ea_text *t) {
    size_t field = below(FIELDS);
    ea_text_char(t, '{');
    add_item(t, PICK(ITEMS), field);
    if (below(3) == 0) {
        ea_text_str(t, ", ");
        add_item(t, PICK(ITEMS), (field + 1) % FIELDS);
    }
    ea_text_char(t, '}');
}

static void add_search(ea_text *t) {
    size_t kind = below(10);
    if (kind == 0) {
        ea_text_printf(t, "[%s, %s]", PICK(KEYWORDS), PICK(KEYWORDS));
    } else if (kind == 1) {
        ea_text_printf(t, "{'|all': [%s, %s]}", PICK(KEYWORDS), PICK(KEYWORDS));
    } else if (kind < 4) {
        ea_text_char(t, '[');
        add_map(t);
        ea_text_str(t, ", ");
        add_map(t);
        ea_text_char(t, ']');
    } else {
        add_map(t);
    }
}

static void add_searches(ea_text *t) {
    for (unsigned i = 0; i < 3; i++) {
        ea_text_printf(t, "  s%u: ", i);
        add_search(t);
        ea_text_char(t, '\n');
    }
    ea_text_printf(t, "  condition: %s\n", PICK(CONDITIONS));
}

/* Rules of one log source, filters of them and a correlation over them. */
static void make_rules(ea_text *t) {
    static const char SOURCE[] = "logsource: {product: windows, category: test}\n";
    size_t count = 1 + below(3);
    ea_text_clear(t);
    for (size_t i = 0; i < count; i++) {
        ea_text_printf(t, "title: r%zu\n%sdetection:\n", i, SOURCE);
        add_searches(t);
        ea_text_str(t, "---\n");
        if (below(3) == 0) {
            ea_text_printf(t, "title: f%zu\n%sfilter:\n  rules: [r%zu]\n", i, SOURCE, i);
            add_searches(t);
            ea_text_str(t, "---\n");
        }
    }
    ea_text_printf(t,
                   "title: c\ncorrelation: {type: event_count, rules: [r0], group-by: [%s], timespan: 5m, condition: "
                   "{gte: 2}}\n",
                   PICK(NAMES));
    assert_false(t->failed);
}

/* ---- random events ---- */

static void add_values(const ea_rules *rules, prospect_event *e, size_t field) {
    static const uint8_t COUNTS[] = {0, 1, 1, 1, 2};
    for (size_t i = PICK(COUNTS); i; i--) {
        const char *value = PICK(VALUES);
        e->values[e->count++] = (ea_rules_value){
            .field = ea_rules_field(rules, 0, NAMES[field]), .text = value, .len_bytes = strlen(value)};
    }
}

static int is_hidden(const ea_rules *rules, unsigned hidden, uint32_t field) {
    for (size_t i = 0; i < FIELDS; i++)
        if ((hidden >> i & 1) && ea_rules_field(rules, 0, NAMES[i]) == field)
            return 1;
    return 0;
}

/* The values that are not hidden, and, with others, random ones in the place of the hidden. */
static void take_known(const ea_rules *rules, const prospect_event *e, unsigned hidden, int others,
                       prospect_event *ret) {
    ret->count = 0;
    for (size_t i = 0; i < e->count; i++)
        if (!is_hidden(rules, hidden, e->values[i].field))
            ret->values[ret->count++] = e->values[i];
    for (size_t i = 0; i < FIELDS && others; i++)
        if ((hidden >> i & 1) && ea_rules_field(rules, 0, NAMES[i]) != UINT32_MAX)
            add_values(rules, ret, i);
}

static size_t hold_count(ea_rules_run *run, const prospect_event *e) {
    const uint32_t *found = NULL;
    size_t count = 0;
    assert_int_equal(ea_rules_run_event(run, 0, e->values, e->count, &found, &count), 0);
    return count;
}

static int look_early(const ea_rules *rules, ea_rules_run *run, const prospect_event *known, unsigned hidden) {
    ea_rules_prospect *p = NULL;
    uint32_t unknown[FIELDS];
    size_t count = 0;
    int may = -1;
    for (size_t i = 0; i < FIELDS; i++)
        if ((hidden >> i & 1) && ea_rules_field(rules, 0, NAMES[i]) != UINT32_MAX)
            unknown[count++] = ea_rules_field(rules, 0, NAMES[i]);
    assert_int_equal(ea_rules_prospect_create(&p, rules, 0, unknown, count), 0);
    assert_int_equal(ea_rules_run_may(run, p, known->values, known->count, &may), 0);
    ea_rules_prospect_destroy(p);
    return may;
}

static void check_event(const ea_rules *rules, ea_rules_run *run, const char *text, prospect_sums *sums) {
    static const unsigned ALL = (1u << FIELDS) - 1;
    prospect_event e = {.count = 0}, known;
    /* of a field that no rule names only a hidden value would be unknown, and keywords look at it: it is given here */
    for (size_t i = 0; i < FIELDS; i++)
        if (ea_rules_field(rules, 0, NAMES[i]) != UINT32_MAX)
            add_values(rules, &e, i);
    size_t kind = below(8), holds = hold_count(run, &e);
    unsigned some = (unsigned)below(ALL + 1), few = some & (unsigned)below(ALL + 1);
    unsigned hidden = kind == 0 ? 0 : kind == 1 ? ALL : few;
    take_known(rules, &e, hidden, 0, &known);
    int may = look_early(rules, run, &known, hidden);
    if (holds && !may)
        fail_msg("%zu rules hold, and none by the early look without the fields 0x%x:\n%s", holds, hidden, text);
    if (known.count == e.count && !hidden && may != (holds > 0))
        fail_msg("%zu rules hold, and by the early look, which knows all, %d:\n%s", holds, may, text);
    if (hold_count(run, &e) != holds)
        fail_msg("the early look changes what the run says of an event:\n%s", text);
    for (int i = 0; i < OTHERS && !may; i++) {
        take_known(rules, &e, hidden, 1, &known);
        if (hold_count(run, &known))
            fail_msg("a rule holds with other values of the fields 0x%x:\n%s", hidden, text);
    }
    sums->events++;
    sums->left += !may;
    sums->hold += holds > 0;
}

/* The values that are known, in the order of a screen: two places a field. */
static uint32_t screen_combination(const ea_rules *rules, ea_rules_screen *screen, const prospect_event *known) {
    uint32_t combination = 0;
    for (size_t field = 0; field < FIELDS; field++) {
        size_t left = 2;
        for (size_t i = 0; i < known->count; i++)
            if (known->values[i].field == ea_rules_field(rules, 0, NAMES[field])) {
                combination = ea_rules_screen_put(screen, combination, ea_rules_screen_kind(screen, &known->values[i]));
                left--;
            }
        for (; left; left--)
            combination = ea_rules_screen_put(screen, combination, EA_RULES_SCREEN_MISSING);
    }
    return combination;
}

/* A screen says of each event what the early look says, whether it has judged the event's kinds before or not. */
static void check_screen(const ea_rules *rules, ea_rules_run *run, const char *text, prospect_sums *sums) {
    unsigned hidden = (unsigned)below(1u << FIELDS) & (unsigned)below(1u << FIELDS);
    ea_rules_screen *screen = NULL;
    uint32_t unknown[FIELDS];
    size_t count = 0;
    for (size_t i = 0; i < FIELDS; i++)
        if ((hidden >> i & 1) && ea_rules_field(rules, 0, NAMES[i]) != UINT32_MAX)
            unknown[count++] = ea_rules_field(rules, 0, NAMES[i]);
    assert_int_equal(ea_rules_screen_create(&screen, rules, run, 0, unknown, count), 0);
    for (int i = 0; i < SCREENED; i++) {
        prospect_event e = {.count = 0}, known;
        for (size_t k = 0; k < FIELDS; k++)
            if (ea_rules_field(rules, 0, NAMES[k]) != UINT32_MAX)
                add_values(rules, &e, k);
        take_known(rules, &e, hidden, 0, &known);
        if (ea_rules_screen_tidy(screen))
            fail_msg("a screen of few values has no room");
        uint32_t combination = screen_combination(rules, screen, &known);
        assert_int_not_equal(combination, EA_RULES_SCREEN_NONE);
        int expected = look_early(rules, run, &known, hidden), may = ea_rules_screen_known(screen, combination);
        sums->known += may >= 0;
        if (may < 0)
            assert_int_equal(ea_rules_screen_judge(screen, combination, known.values, known.count, &may), 0);
        if (may != expected)
            fail_msg("the screen says %d, the early look without the fields 0x%x %d:\n%s", may, hidden, expected, text);
        sums->screened++;
    }
    ea_rules_screen_destroy(screen);
}

static void no_rule_that_holds_is_left(void **state) {
    prospect_sums sums = {.events = 0};
    ea_text text;
    (void)state;
    generator = 0x9e3779b97f4a7c15u;
    ea_text_init(&text);
    for (int i = 0; i < GROUPS; i++) {
        ea_rules_builder *b = NULL;
        ea_rules *rules = NULL;
        ea_rules_run *run = NULL;
        make_rules(&text);
        assert_int_equal(ea_rules_builder_create(&b), 0);
        assert_int_equal(ea_rules_add(b, "r.yml", text.data, text.len_bytes, on_problem, text.data), 0);
        assert_int_equal(ea_rules_build(b, &rules, on_problem, text.data), 0);
        ea_rules_builder_destroy(b);
        assert_int_equal(ea_rules_group_count(rules), 1);
        assert_int_equal(ea_rules_run_create(&run, rules), 0);
        for (int k = 0; k < EVENTS; k++)
            check_event(rules, run, text.data, &sums);
        check_screen(rules, run, text.data, &sums);
        ea_rules_run_destroy(run);
        ea_rules_destroy(rules);
    }
    ea_text_deinit(&text);
    assert_true(sums.left > sums.events / 10); /* else the test would say nothing */
    assert_true(sums.hold > sums.events / 10);
    assert_true(sums.known > sums.screened / 20 && sums.known < sums.screened);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_rule_that_holds_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
