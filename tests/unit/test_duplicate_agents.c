/* Identities in use twice, and the incidents that the store keeps. */
#include "collector/ingest/duplicate_agents.h"
#include "collector/store/store.h"
#include "tests/unit/scratch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000, HOUR = INT64_C(3600) * 1000000000;

static ec_duplicate_agents *make(uint32_t agents) {
    ec_duplicate_agents *t = NULL;
    assert_int_equal(ec_duplicate_agents_create(&t, agents, NULL), 0);
    return t;
}

static int see(ec_duplicate_agents *t, const char *agent, const char *run, uint64_t connection, int64_t at_ns) {
    ec_duplicate_agent other;
    return ec_duplicate_agents_see(
        t, &(ec_visit){.agent = agent, .run = run, .peer = "192.0.2.1", .connection = connection}, at_ns, &other);
}

static void one_after_the_other_is_one(void **state) {
    ec_duplicate_agents *t = make(0);
    (void)state;
    for (unsigned i = 0; i < 50; i++) { /* restarts, and many connections of each run */
        char run[16];
        snprintf(run, sizeof run, "run%u", i);
        for (uint64_t c = 0; c < 5; c++)
            for (int k = 0; k < 3; k++)
                assert_int_equal(see(t, "a", run, 10 * i + c, (int64_t)(i + 1) * SECOND), 0);
    }
    ec_duplicate_agents_destroy(t);
}

static void two_runs_by_turns_are_two(void **state) {
    ec_duplicate_agents *t = make(0);
    ec_duplicate_agent other;
    (void)state;
    assert_int_equal(see(t, "a", "x", 1, 1 * SECOND), 0);
    assert_int_equal(see(t, "a", "y", 2, 2 * SECOND), 0);
    assert_int_equal(see(t, "b", "x", 3, 2 * SECOND), 0); /* another agent */
    assert_int_equal(see(t, "a", "x", 1, 3 * SECOND), 0); /* may be a straggler */
    ec_visit visit = {.agent = "a", .run = "y", .peer = "192.0.2.7", .connection = 2};
    assert_int_equal(ec_duplicate_agents_see(t, &visit, 5 * SECOND, &other), 1);
    assert_string_equal(other.other_run, "x");
    assert_string_equal(other.other_peer, "192.0.2.1");
    assert_true(other.other_age_ns == 2 * SECOND);
    assert_int_equal(see(t, "a", "x", 1, 6 * SECOND), 1);
    assert_int_equal(see(t, "b", "x", 3, 7 * SECOND), 0);
    /* a return after hours is the first one again */
    assert_int_equal(see(t, "a", "y", 2, 6 * SECOND + 2 * HOUR), 0);
    ec_duplicate_agents_destroy(t);
}

/* A machine that was copied while it ran has the same run twice: the two connections distinguish the copies. */
static void one_run_on_two_connections_is_two(void **state) {
    ec_duplicate_agents *t = make(0);
    (void)state;
    assert_int_equal(see(t, "a", "", 1, 1 * SECOND), 0);
    assert_int_equal(see(t, "a", "", 2, 2 * SECOND), 0);
    assert_int_equal(see(t, "a", "", 1, 3 * SECOND), 0);
    assert_int_equal(see(t, "a", "", 2, 4 * SECOND), 1);
    ec_duplicate_agents_destroy(t);
}

static void the_table_is_bounded(void **state) {
    ec_duplicate_agents *t = make(64);
    char name[300];
    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "agent-%u", i);
        assert_int_equal(see(t, name, "x", i + 1, (int64_t)(i + 1) * SECOND), 0);
    }
    memset(name, 'n', sizeof name);
    name[255] = 0; /* the longest, with the longest of everything else */
    char run[EC_RUN_BYTES + 1], peer[EC_PEER_BYTES + 1];
    memset(run, 'r', sizeof run);
    memset(peer, 'p', sizeof peer);
    run[EC_RUN_BYTES] = peer[EC_PEER_BYTES] = 0;
    ec_duplicate_agent other;
    ec_visit visit = {.agent = name, .run = run, .peer = peer, .connection = 1};
    assert_int_equal(ec_duplicate_agents_see(t, &visit, SECOND, &other), 0);
    ec_duplicate_agents_destroy(t);
}

static void once_an_hour(void **state) {
    ec_duplicate_agents *t = make(0);
    (void)state;
    assert_int_equal(ec_duplicate_agents_may_report(t, "a", 1, 5 * SECOND), 1);
    assert_int_equal(ec_duplicate_agents_may_report(t, "a", 1, 6 * SECOND), 0);
    assert_int_equal(ec_duplicate_agents_may_report(t, "a", 2, 6 * SECOND), 1);
    assert_int_equal(ec_duplicate_agents_may_report(t, "b", 1, 6 * SECOND), 1);
    assert_int_equal(ec_duplicate_agents_may_report(t, "a", 1, 5 * SECOND + HOUR), 1);
    ec_duplicate_agents_destroy(t);
}

typedef struct heard {
    unsigned count;
    char first[64], last[64];
} heard;

static int hear(const ec_notice *i, void *arg) {
    heard *h = arg;
    snprintf(h->count++ ? h->last : h->first, sizeof h->last, "%.20s %.40s", i->host, i->text);
    return 0;
}

static void incidents_are_kept_and_bounded(void **state) {
    ec_store *s = NULL;
    ea_counters counters = {0};
    ea_err err;
    heard all = {0}, one = {0};
    (void)state;
    assert_int_equal(
        ec_store_open(&s, scratch_path("store"), &(ec_store_options){.writable = 1, .counters = &counters}, &err), 0);
    for (unsigned i = 1; i <= 10100; i++) {
        char text[32];
        snprintf(text, sizeof text, "number %u", i);
        assert_int_equal(ec_store_add_notice(s, i % 2 ? "odd" : "even", EC_NOTICE_TWICE, text, &err), 0);
        if (i % 1000 == 0)
            assert_int_equal(ec_store_commit(s, &err), 0);
    }
    assert_int_equal(ec_store_commit(s, &err), 0);
    ec_store_close(s);
    assert_int_equal(ec_store_open(&s, scratch_path("store"), &(ec_store_options){0}, &err), 0);
    assert_int_equal(ec_store_each_notice(s, NULL, hear, &all, &err), 0);
    assert_int_equal(all.count, 10000);
    assert_string_equal(all.first, "odd number 101");
    assert_string_equal(all.last, "even number 10100");
    assert_int_equal(ec_store_each_notice(s, "odd", hear, &one, &err), 0);
    assert_int_equal(one.count, 5000);
    assert_string_equal(one.last, "odd number 10099");
    ec_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other_is_one),
        cmocka_unit_test(two_runs_by_turns_are_two),
        cmocka_unit_test(one_run_on_two_connections_is_two),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(once_an_hour),
        cmocka_unit_test_setup_teardown(incidents_are_kept_and_bounded, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
