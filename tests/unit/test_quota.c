/* Quotas: buckets, debts, what is held, who is above its quota, and the bound on names. */
#include "collector/net/quota.h"
#include "proto/base/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t S = INT64_C(1000000000);

enum { START_S = 1000 };

static ec_quota *make(const ec_quota_amounts *limits, size_t max_names, ea_counters *counters) {
    ec_quota *q = NULL;
    ea_err err;
    assert_int_equal(ec_quota_create(&q, limits, max_names, counters, &err), 0);
    return q;
}

static int take(ec_quota *q, const char *name, enum ec_quota_resource which, uint64_t amount, int64_t now_ns,
                ec_quota_refusal *ret) {
    ec_quota_amounts needed = {{0}};
    needed.of[which] = amount;
    return ec_quota_take(q, ec_quota_row(which)->who, name, &needed, now_ns, ret);
}

static const ec_quota_use *use_of(const ec_quota_use *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static void test_bucket(void **state) {
    ea_counters c = {0};
    ec_quota_amounts limits = {{[EC_QUOTA_bytes] = 100, [EC_QUOTA_batches] = 1000}};
    ec_quota *q = make(&limits, 0, &c);
    ec_quota_refusal why = {.retry_after_s = 0};
    int64_t now = START_S * S;
    unsigned burst = ec_quota_row(EC_QUOTA_bytes)->burst;
    (void)state;
    /* a burst, then the rate */
    for (unsigned i = 0; i < burst; i++)
        assert_true(take(q, "noisy", EC_QUOTA_bytes, 100, now, &why));
    assert_false(take(q, "noisy", EC_QUOTA_bytes, 100, now, &why));
    assert_int_equal(why.resource, EC_QUOTA_bytes);
    assert_in_range(why.retry_after_s, 1, 2);
    assert_string_equal(why.text,
                        "agent noisy is above its quota of bytes: 100 bytes in 1 s are allowed (--quota-bytes)");
    assert_int_equal(ea_counter_get(&c, EA_COUNT_quota_refused_bytes), 1);
    /* another agent has buckets of its own, a reader of the same name, too */
    assert_true(take(q, "quiet", EC_QUOTA_bytes, 100, now, NULL));
    assert_false(take(q, "noisy", EC_QUOTA_bytes, 100, now + S / 2, NULL));
    assert_true(take(q, "noisy", EC_QUOTA_bytes, 100, now + S, NULL));
    /* time that goes backwards fills nothing */
    assert_false(take(q, "noisy", EC_QUOTA_bytes, 1, now, NULL));
    /* all or nothing: refused batches take no bytes */
    ec_quota_amounts both = {{[EC_QUOTA_bytes] = 60, [EC_QUOTA_batches] = 1000000}};
    now += S + S / 2;
    assert_true(
        ec_quota_take(q, EC_QUOTA_AGENT, "other", &both, now, NULL)); /* a full bucket gives more than it holds */
    assert_false(ec_quota_take(q, EC_QUOTA_AGENT, "other", &both, now, &why));
    assert_int_equal(why.resource, EC_QUOTA_batches);
    assert_true(take(q, "other", EC_QUOTA_bytes, 100 * burst - 60, now, NULL));
    ec_quota_destroy(q);
}

static void test_debt(void **state) {
    ea_counters c = {0};
    ec_quota_amounts limits = {{[EC_QUOTA_processor] = (uint64_t)S / 2, [EC_QUOTA_renewals] = 4}};
    ec_quota *q = make(&limits, 0, &c);
    ec_quota_refusal why;
    int64_t now = START_S * S, full = S / 2 * ec_quota_row(EC_QUOTA_processor)->burst;
    (void)state;
    assert_true(ec_quota_check(q, EC_QUOTA_AGENT, "a", now, &why));
    ec_quota_charge(q, EC_QUOTA_processor, "a", (uint64_t)full, now);
    assert_true(ec_quota_check(q, EC_QUOTA_AGENT, "a", now, &why));
    ec_quota_charge(q, EC_QUOTA_processor, "a", (uint64_t)(5 * S), now);
    assert_false(ec_quota_check(q, EC_QUOTA_AGENT, "a", now, &why));
    assert_int_equal(why.resource, EC_QUOTA_processor);
    assert_in_range(why.retry_after_s, 10, 11);
    /* who is in debt with one thing may have another */
    assert_true(take(q, "a", EC_QUOTA_renewals, 1, now, NULL));
    assert_false(ec_quota_check(q, EC_QUOTA_AGENT, "a", now + 9 * S, NULL));
    assert_true(ec_quota_check(q, EC_QUOTA_AGENT, "a", now + 11 * S, NULL));
    /* four a day: not a fifth a moment later */
    for (int i = 0; i < 3; i++)
        assert_true(take(q, "a", EC_QUOTA_renewals, 1, now, NULL));
    assert_false(take(q, "a", EC_QUOTA_renewals, 1, now + 3600 * S, &why));
    assert_int_equal(why.retry_after_s, 3600);
    assert_true(take(q, "a", EC_QUOTA_renewals, 1, now + (6 * 3600 + 1) * S, NULL));
    /* no limit */
    assert_true(take(q, "a", EC_QUOTA_bytes, UINT64_MAX, now, NULL));
    ec_quota_charge(q, EC_QUOTA_streams, "a", UINT64_MAX, now);
    assert_true(ec_quota_check(q, EC_QUOTA_AGENT, "a", now + 40 * S, NULL));
    assert_true(ec_quota_take(NULL, EC_QUOTA_AGENT, "a", &limits, now, NULL));
    ec_quota_destroy(q);
}

static void test_held(void **state) {
    ea_counters c = {0};
    ec_quota_amounts limits = {{[EC_QUOTA_uploads] = 100}};
    ec_quota *q = make(&limits, 0, &c);
    int64_t now = START_S * S;
    (void)state;
    assert_true(ec_quota_has_room(q, EC_QUOTA_uploads, "a", 1, now));
    ec_quota_hold(q, EC_QUOTA_uploads, "a", 99, now);
    assert_true(ec_quota_has_room(q, EC_QUOTA_uploads, "a", 1, now));
    ec_quota_hold(q, EC_QUOTA_uploads, "a", 50, now);
    assert_false(ec_quota_has_room(q, EC_QUOTA_uploads, "a", 1, now));
    assert_true(ec_quota_has_room(q, EC_QUOTA_uploads, "b", 1, now));
    assert_int_equal(ea_counter_get(&c, EA_COUNT_quota_refused_uploads), 1);
    ec_quota_hold(q, EC_QUOTA_uploads, "a", -50, now);
    assert_true(ec_quota_has_room(q, EC_QUOTA_uploads, "a", 1, now));
    ec_quota_hold(q, EC_QUOTA_uploads, "a", -1000, now);
    ec_quota_use *list;
    size_t count;
    ea_err err;
    assert_int_equal(ec_quota_list(q, now, &list, &count, &err), 0);
    assert_int_equal(use_of(list, count, "a")->of[EC_QUOTA_uploads].used, 0);
    free(list);
    ec_quota_destroy(q);
}

static void test_above(void **state) {
    ec_quota_amounts limits = {{[EC_QUOTA_answers] = 1}};
    ec_quota *q = make(&limits, 0, NULL);
    int64_t now = START_S * S, before = ea_utc_ns();
    ec_quota_use *list;
    size_t count;
    ea_err err;
    (void)state;
    unsigned burst = ec_quota_row(EC_QUOTA_answers)->burst;
    for (unsigned i = 0; i < burst + 3; i++)
        (void)take(q, "id1", EC_QUOTA_answers, 1, now, NULL);
    assert_true(take(q, "id2", EC_QUOTA_answers, 1, now, NULL));
    assert_int_equal(ec_quota_list(q, now + 59 * S, &list, &count, &err), 0);
    assert_int_equal(count, 2);
    const ec_quota_use *u = use_of(list, count, "id1");
    assert_int_equal(u->who, EC_QUOTA_READER);
    assert_int_equal(u->of[EC_QUOTA_answers].used, burst);
    assert_int_equal(u->of[EC_QUOTA_answers].refused, 3);
    assert_int_equal(u->of[EC_QUOTA_answers].limit, 1);
    assert_in_range(u->of[EC_QUOTA_answers].above_since_utc_ns, before, ea_utc_ns());
    assert_int_equal(use_of(list, count, "id2")->of[EC_QUOTA_answers].above_since_utc_ns, 0);
    free(list);
    assert_int_equal(ec_quota_list(q, now + EC_QUOTA_QUIET_S * S, &list, &count, &err), 0);
    assert_int_equal(use_of(list, count, "id1")->of[EC_QUOTA_answers].above_since_utc_ns, 0);
    free(list);
    ec_quota_destroy(q);
}

static void test_object_names(void **state) {
    ea_counters c = {0};
    ec_quota_amounts limits = {{[EC_QUOTA_bytes] = 1}};
    ec_quota *q = make(&limits, 4, &c);
    int64_t now = START_S * S;
    unsigned burst = ec_quota_row(EC_QUOTA_bytes)->burst;
    char name[16];
    (void)state;
    /* an empty bucket outlives full ones that were used later */
    assert_true(take(q, "noisy", EC_QUOTA_bytes, burst, now, NULL));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "quiet-%d", i);
        assert_true(ec_quota_check(q, EC_QUOTA_AGENT, name, now, NULL));
    }
    assert_false(take(q, "noisy", EC_QUOTA_bytes, burst, now, NULL));
    assert_int_equal(ea_counter_get(&c, EA_COUNT_quota_names_dropped), 0);
    /* where none is full the one of use longest ago goes, counted */
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "busy-%d", i);
        assert_true(take(q, name, EC_QUOTA_bytes, 1, now, NULL));
    }
    assert_int_equal(ea_counter_get(&c, EA_COUNT_quota_names_dropped), 1);
    ec_quota_use *list;
    size_t count;
    ea_err err;
    assert_int_equal(ec_quota_list(q, now, &list, &count, &err), 0);
    assert_int_equal(count, 4);
    assert_null(use_of(list, count, "noisy"));
    assert_non_null(use_of(list, count, "busy-0"));
    free(list);
    /* what holds memory is not dropped */
    ec_quota_hold(q, EC_QUOTA_uploads, "busy-0", 7, now);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "later-%d", i);
        assert_true(take(q, name, EC_QUOTA_bytes, 1, now, NULL));
    }
    assert_int_equal(ec_quota_list(q, now, &list, &count, &err), 0);
    assert_int_equal(use_of(list, count, "busy-0")->of[EC_QUOTA_uploads].used, 7);
    free(list);
    ec_quota_destroy(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket), cmocka_unit_test(test_debt),         cmocka_unit_test(test_held),
        cmocka_unit_test(test_above),  cmocka_unit_test(test_object_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
