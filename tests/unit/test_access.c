/* Access tokens and their rate limits: what is stored of a token, which caller is admitted, which caller has to
 * wait. */
#include "collector/access/access.h"
#include "collector/access/audit.h"
#include "collector/access/visit.h"
#include "proto/base/pattern.h"

#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t S_NS = INT64_C(1000000000);
static ea_err err;

static void add(const char *name, enum ec_scope scope, const char *hosts, char token[EC_SECRET_BYTES]) {
    if (ec_api_tokens_add(scratch, name, scope, hosts, 0, token, &err))
        fail_msg("add: %s", err.message);
}

static int admit(ec_access *a, const char *address, const char *token, int64_t now_ns, ec_token *ret) {
    char header[128];
    snprintf(header, sizeof header, "Bearer %s", token);
    return ec_access_admit(a, address, header, now_ns, ret, &err);
}

/* Every character of a token counts; a right id alone is nothing. */
static void each_character_counts(void **state) {
    (void)state;
    char token[EC_SECRET_BYTES], wrong[EC_SECRET_BYTES];
    ec_token *all = NULL;
    size_t count = 0;
    add("one", EC_SCOPE_READ, "", token);
    add("two", EC_SCOPE_ADMIN, "", wrong);
    assert_int_equal(ec_api_tokens_read(scratch, &all, &count, &err), 0);
    assert_int_equal(count, 2);
    const ec_token *found = ec_api_tokens_find(all, count, token);
    assert_non_null(found);
    assert_string_equal(found->name, "one");
    for (size_t i = 0; i < EC_SECRET_BYTES - 1; i++) {
        memcpy(wrong, token, sizeof wrong);
        wrong[i] = wrong[i] == 'f' ? 'e' : 'f';
        assert_null(ec_api_tokens_find(all, count, wrong));
        wrong[i] = 0;
        assert_null(ec_api_tokens_find(all, count, wrong));
    }
    assert_null(ec_api_tokens_find(NULL, 0, token));
    free(all);
    assert_int_equal(ec_api_tokens_revoke(scratch, "one", &err), 0);
    assert_int_equal(ec_api_tokens_revoke(scratch, "one", &err), EA_ENOTFOUND);
}

enum { WORD_MAX = 3, LETTERS = 3 };

/* The nth word of these letters, the empty one first. */
static void nth_word(unsigned n, const char *letters, unsigned count, char ret[WORD_MAX + 1]) {
    size_t len = 0;
    for (; n; n = (n - 1) / count)
        ret[len++] = letters[(n - 1) % count];
    ret[len] = 0;
}

/* One pattern is within another one exactly when each name that fits it fits the other one: by all words of up to
 * three letters, of which one letter is in no pattern, so that it stands for any text. */
static void patterns_are_within_patterns(void **state) {
    (void)state;

    enum { WORDS = 1 + LETTERS + LETTERS * LETTERS + LETTERS * LETTERS * LETTERS };

    char narrow[WORD_MAX + 1], wide[WORD_MAX + 1], name[WORD_MAX + 1];
    size_t within = 0;
    for (unsigned i = 1; i < WORDS; i++)
        for (unsigned k = 1; k < WORDS; k++) {
            int all = 1;
            nth_word(i, "ab*", 3, narrow);
            nth_word(k, "aB*", 3, wide);
            for (unsigned n = 1; n < WORDS; n++) {
                nth_word(n, "abc", 3, name);
                all &= !ea_name_in(narrow, name) || ea_name_in(wide, name);
            }
            assert_int_equal(ea_patterns_within(narrow, wide), all);
            within += (size_t)all;
        }
    assert_in_range(within, WORDS, WORDS * WORDS / 2);
    assert_true(ea_patterns_within("web-1,web-2*", "db,web-*"));
    assert_false(ea_patterns_within("web-1,db-1", "web-*"));
    assert_false(ea_patterns_within("web-*", ""));
    assert_true(ea_patterns_within("", "web-*"));
}

static void groups_see_theirs(void **state) {
    (void)state;

    static const struct {
        const char *hosts, *host;
        int sees;
    } CASES[] = {
        {"", "any", 1},     {"", NULL, 1},         {"pc-1", "pc-1", 1},   {"pc-1", "PC-1", 1},  {"pc-1", "pc-11", 0},
        {"pc-1", NULL, 0},  {"pc-1", "", 0},       {"pc-*", "pc-", 1},    {"pc-*", "xpc-1", 0}, {"*-x,pc-9", "a-x", 1},
        {"*-x", "a-xy", 0}, {"a*b*c", "a-b-c", 1}, {"a*b*c", "a-c-b", 0}, {",,x", "", 0},       {",,x", "x", 1},
        {"a**", "a", 1},    {"*", "anything", 1},  {"*", NULL, 0},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ec_token t = {.scope = EC_SCOPE_READ};
        snprintf(t.hosts, sizeof t.hosts, "%s", CASES[i].hosts);
        if (ec_token_sees(&t, CASES[i].host) != CASES[i].sees)
            fail_msg("'%s' of '%s'", CASES[i].host ? CASES[i].host : "NULL", CASES[i].hosts);
        t.scope = EC_SCOPE_RESPOND;
        assert_int_equal(ec_token_sees(&t, CASES[i].host), CASES[i].sees);
        t.scope = EC_SCOPE_METRICS;
        assert_int_equal(ec_token_sees(&t, CASES[i].host), 0);
    }
}

static void guessing_ends(void **state) {
    (void)state;
    char token[EC_SECRET_BYTES];
    ec_access *a = NULL;
    ec_token who;
    int64_t now = 5 * S_NS;
    add("right", EC_SCOPE_READ, "", token);
    assert_int_equal(ec_access_open(&a, scratch, &err), 0);
    for (int i = 0; i < EC_ACCESS_FAILURES; i++)
        assert_int_equal(admit(a, "192.0.2.1", "wrong", now, &who), EA_EREFUSED);
    assert_int_equal(admit(a, "192.0.2.1", "wrong", now, &who), EA_ELIMIT);
    assert_non_null(strstr(err.message, "too many wrong tokens"));
    assert_int_equal(admit(a, "192.0.2.1", token, now, &who), 0); /* others of the same address are not harmed */
    assert_string_equal(who.name, "right");
    /* a wrong secret counts for its id: first of a token that exists, then of another one */
    char guess[EC_SECRET_BYTES];
    snprintf(guess, sizeof guess, "%s", token);
    guess[EC_SECRET_BYTES - 2] = (char)(guess[EC_SECRET_BYTES - 2] == '0' ? '1' : '0');
    for (int i = 0; i < EC_ACCESS_FAILURES; i++)
        assert_int_equal(admit(a, "192.0.2.1", guess, now, &who), EA_EREFUSED);
    assert_int_equal(admit(a, "192.0.2.1", guess, now, &who), EA_ELIMIT);
    assert_int_equal(admit(a, "192.0.2.2", guess, now, &who), EA_EREFUSED);
    assert_int_equal(admit(a, "192.0.2.1", token, now, &who), 0); /* its owner is not harmed either */
    now += (EC_ACCESS_PENALTY_S + 1) * S_NS;
    assert_int_equal(admit(a, "192.0.2.1", "wrong", now, &who), EA_EREFUSED);
    /* requests without a right token empty the address's bucket, and not the token's */
    for (int i = 0; i < 2 * EC_ACCESS_BURST; i++)
        (void)!ec_access_admit(a, "192.0.2.5", NULL, now, &who, &err);
    assert_int_equal(ec_access_admit(a, "192.0.2.5", NULL, now, &who, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "too many requests from this address"));
    assert_int_equal(admit(a, "192.0.2.5", token, now, &who), 0);
    /* an attacker of IPv6 has 2^64 addresses: they count as one */
    char address[64];
    for (int i = 0; i < EC_ACCESS_FAILURES; i++) {
        snprintf(address, sizeof address, "2001:db8::%x", i + 1);
        assert_int_equal(admit(a, address, "wrong", now, &who), EA_EREFUSED);
    }
    assert_int_equal(admit(a, "2001:db8::ffff", "wrong", now, &who), EA_ELIMIT);
    assert_int_equal(admit(a, "2001:db8::ffff", token, now, &who), 0);
    assert_int_equal(admit(a, "2001:db8:1::1", "wrong", now, &who), EA_EREFUSED);
    /* A request without a token comes from a browser before its login: it is refused each time, and never limited. */
    for (int i = 0; i < 2 * EC_ACCESS_FAILURES; i++)
        assert_int_equal(ec_access_admit(a, "192.0.2.3", NULL, now, &who, &err), EA_EREFUSED);
    assert_int_equal(admit(a, "192.0.2.3", token, now, &who), 0);
    /* revoked: refused at once, and what is open ends */
    assert_int_equal(admit(a, "192.0.2.4", token, now, &who), 0);
    assert_int_equal(ec_access_check(a, &who, &err), 0);
    ec_token changed = who;
    snprintf(changed.hosts, sizeof changed.hosts, "other");
    assert_int_equal(ec_access_check(a, &changed, &err), EA_EREFUSED);
    assert_int_equal(ec_api_tokens_revoke(scratch, "right", &err), 0);
    assert_int_equal(ec_access_check(a, &who, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "the token was revoked"));
    assert_int_equal(admit(a, "192.0.2.4", token, now, &who), EA_EREFUSED);
    ec_access_close(a);
}

/* The file's only line, with this in place of its last field and the tab before it. */
static void set_expiry(const char *line, const char *expires) {
    ea_text t;
    const char *last = strrchr(line, '\t');
    assert_non_null(last);
    ea_text_init(&t);
    ea_text_printf(&t, "%.*s%s\n", (int)(last - line), line, expires);
    assert_int_equal(ea_path_write_all(scratch_path("tokens"), t.data, t.len_bytes, 1, &err), 0);
    ea_text_deinit(&t);
}

static void tokens_expire(void **state) {
    (void)state;
    static const char EXPIRED[] = "the token expired at 2001-09-09T01:46:40";
    static const char *const WRONG[] = {"\tx", "\t-1", "\t18446744073709551615", "\t9223372036854775808", "\t1\t2"};
    char token[EC_SECRET_BYTES], again[EC_SECRET_BYTES], *line = NULL;
    size_t len_bytes = 0, count = 0;
    ec_access *a = NULL;
    ec_token who, *all = NULL;
    assert_int_equal(ec_api_tokens_add(scratch, "old", EC_SCOPE_READ, "", 3600, token, &err), 0);
    assert_int_equal(ec_api_tokens_add(scratch, "old", EC_SCOPE_READ, "", 0, again, &err),
                     EA_EUSAGE); /* its name is taken */
    assert_int_equal(ea_path_read_all(scratch_path("tokens"), 1 << 16, &line, &len_bytes, &err), 0);
    assert_int_equal(ec_access_open(&a, scratch, &err), 0);
    assert_int_equal(admit(a, "192.0.2.1", token, S_NS, &who), 0);
    int64_t now_s = ea_utc_ns() / S_NS;
    assert_in_range(who.expires_s, now_s + 3590, now_s + 3600);
    assert_int_equal(ec_access_check(a, &who, &err), 0);
    /* expired: refused for that reason, however often, since a right token is no guess; what is open ends */
    set_expiry(line, "\t1000000000");
    for (int i = 0; i < 2 * EC_ACCESS_FAILURES; i++) {
        assert_int_equal(admit(a, "192.0.2.1", token, S_NS, &who), EA_EREFUSED);
        assert_non_null(strstr(err.message, EXPIRED));
    }
    assert_int_equal(ec_access_check(a, &who, &err), EA_EREFUSED); /* it had a longer life when it was admitted */
    assert_non_null(strstr(err.message, "the token was revoked"));
    who.expires_s = 1000000000;
    assert_int_equal(ec_access_check(a, &who, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, EXPIRED));
    /* a line of an earlier version lacks the field: its token does not expire */
    set_expiry(line, "");
    assert_int_equal(admit(a, "192.0.2.1", token, S_NS, &who), 0);
    assert_int_equal(who.expires_s, 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        set_expiry(line, WRONG[i]);
        assert_int_equal(ec_api_tokens_read(scratch, &all, &count, &err), 0);
        free(all);
        assert_int_equal(count, 0);
    }
    /* the name of an expired token may be given again, which takes the expired one out */
    set_expiry(line, "\t1000000000");
    assert_int_equal(ec_api_tokens_add(scratch, "old", EC_SCOPE_READ, "", 0, again, &err), 0);
    assert_int_equal(ec_api_tokens_read(scratch, &all, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_non_null(ec_api_tokens_find(all, count, again));
    free(all);
    free(line);
    ec_access_close(a);
}

static void rates_are_bounded(void **state) {
    (void)state;
    char token[EC_SECRET_BYTES], other[EC_SECRET_BYTES], address[32];
    ec_access *a = NULL;
    ec_token who;
    int64_t now = 9 * S_NS;
    add("busy", EC_SCOPE_READ, "", token);
    add("idle", EC_SCOPE_READ, "", other);
    assert_int_equal(ec_access_open(&a, scratch, &err), 0);
    for (int i = 0; i < EC_ACCESS_BURST; i++)
        assert_int_equal(admit(a, "192.0.2.9", token, now, &who), 0);
    assert_int_equal(admit(a, "192.0.2.9", token, now, &who), EA_ELIMIT);
    assert_string_equal(who.name, "busy");
    assert_int_equal(admit(a, "192.0.2.8", token, now, &who), EA_ELIMIT); /* from anywhere */
    assert_int_equal(admit(a, "192.0.2.9", other, now, &who), 0);
    now += S_NS;
    int let_in = 0;
    for (int i = 0; i < EC_ACCESS_BURST; i++)
        let_in += admit(a, "192.0.2.7", token, now, &who) == 0;
    assert_in_range(let_in, EC_ACCESS_RATE, EC_ACCESS_RATE + 1);
    /* more addresses than are remembered: everybody is still let in, and memory is what it was */
    for (int i = 0; i < 3 * EC_ACCESS_ADDRESSES; i++) {
        snprintf(address, sizeof address, "10.%d.%d.%d", i >> 16, (i >> 8) & 255, i & 255);
        now += S_NS / EC_ACCESS_RATE;
        assert_int_equal(admit(a, address, other, now, &who), 0);
    }
    ec_access_close(a);
}

static uint64_t faults(char *report, size_t room) {
    ea_text t;
    uint64_t count = 0;
    ea_text_init(&t);
    assert_int_equal(ec_audit_verify(scratch, &t, &count, &err), 0);
    snprintf(report, room, "%s", t.data ? t.data : "");
    ea_text_deinit(&t);
    return count;
}

/* Files are bounded, lines stay lines, and the chain goes on over rotated files and writers. */
static void audit_is_bounded(void **state) {
    (void)state;
    ec_audit *a = NULL, *other = NULL;
    char *text = NULL, report[2048];
    size_t len_bytes = 0;
    const ec_audit_options o = {.max_bytes = 4096};
    assert_int_equal(ec_audit_open(&a, scratch, &o, &err), 0);
    assert_int_equal(ec_audit_open(&other, scratch, &(ec_audit_options){.max_bytes = UINT64_MAX}, &err), 0);
    for (int i = 0; i < 2000; i++)
        ec_audit_add(i % 7 ? a : other, &(ec_audited){.address = "192.0.2.1",
                                                      .method = "GET",
                                                      .path = "/\n{\"token\":\"admin\"}\x1b[31m\xff\"",
                                                      .query = "a=\"\n",
                                                      .statement = "SELECT '\x1b\"'",
                                                      .status = 200});
    ec_audit_close(other);
    ec_audit_close(a);
    const char *const files[] = {"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.4"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(ea_path_check_private(scratch_path(files[i]), &err), 0);
        assert_int_equal(ea_path_read_all(scratch_path(files[i]), 1 << 20, &text, &len_bytes, &err), 0);
        assert_in_range(len_bytes, 100, 4096 + 1024); /* the other writer does not rotate */
        for (size_t k = 0; k < len_bytes; k++)
            if ((unsigned char)text[k] < 0x20 && text[k] != '\n')
                fail_msg("a control character in %s", files[i]);
        for (const char *line = text; *line; line = strchr(line, '\n') + 1)
            assert_memory_equal(line, "{\"time\":\"", 9);
        free(text);
    }
    assert_false(ea_path_exists(scratch_path("audit.jsonl.5")));
    assert_false(ea_path_exists(scratch_path("audit-refused.jsonl")));
    assert_int_equal(faults(report, sizeof report), 0);
    assert_non_null(strstr(report, "; those before were deleted by rotation"));
}

static size_t count_in(const char *file, const char *what) {
    char *text = NULL;
    size_t len_bytes = 0, count = 0;
    assert_int_equal(ea_path_read_all(scratch_path(file), 1 << 24, &text, &len_bytes, &err), 0);
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    free(text);
    return count;
}

/* Refusals are in a file of their own, ten lines of one caller; of the others there is their number. */
static void refusals_are_aggregated(void **state) {
    (void)state;
    ec_audit *a = NULL;
    ea_counters counters = {0};
    char report[2048], path[4096];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    assert_int_equal(ec_audit_open(&a, scratch, &(ec_audit_options){.counters = &counters}, &err), 0);
    ec_audit_add(a, &(ec_audited){.token = "anna", .note = "token added"});
    for (int i = 0; i < 1000; i++) {
        ec_audit_add(a, &(ec_audited){.address = "192.0.2.1", .path = path, .status = 401});
        ec_audit_add(a, &(ec_audited){.address = "192.0.2.1", .path = path, .status = 429});
        ec_audit_add(a, &(ec_audited){.address = "192.0.2.1", .token = "anna", .path = path, .status = 403});
    }
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_audit_held), 2 * 990);
    assert_int_equal(count_in("audit-refused.jsonl", "\n"), 1 + 2 * 10);
    /* more callers than are counted apart */
    for (int i = 0; i < 2000; i++) {
        char address[32];
        snprintf(address, sizeof address, "10.0.%d.%d", i >> 8, i & 255);
        ec_audit_add(a, &(ec_audited){.address = address, .path = path, .status = 404});
    }
    ec_audit_close(a);
    assert_int_equal(count_in("audit-refused.jsonl", "\"status\":429"), 0);
    assert_int_equal(count_in("audit-refused.jsonl", "\"address\":\"192.0.2.1\",\"status\":401,\"held\":990"), 1);
    assert_int_equal(count_in("audit-refused.jsonl", "\"token\":\"anna\",\"status\":403,\"held\":990"), 1);
    assert_int_equal(count_in("audit-refused.jsonl", "refusals of other callers in the minute before"), 1);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_audit_held), 2 * 990 + 2000 - 254 - 10);
    assert_in_range(count_in("audit-refused.jsonl", "x"), 10 * 127, 300 * 128); /* paths are shortened */
    assert_int_equal(count_in("audit.jsonl", "\n"), 2);
    assert_int_equal(faults(report, sizeof report), 0);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_audit_unwritten), 0);
}

/* When the token file cannot be read, no caller is admitted. */
static void damaged_files_admit_no_token(void **state) {
    (void)state;
    char token[EC_SECRET_BYTES];
    ec_access *a = NULL;
    ec_token who, *all = NULL;
    size_t count = 7;
    add("x", EC_SCOPE_READ, "", token);
    assert_int_equal(ec_access_open(&a, scratch, &err), 0);
    assert_int_equal(admit(a, "192.0.2.1", token, S_NS, &who), 0);
    static const char LINES[] =
        "\n\t\t\t\t\t\nabcdefgh\tnothex\tread\t1\tn\t\n"
        "abcdefgh\t00\tread\t1\tn\t\ntoo\tfew\n"
        "01234567\t0000000000000000000000000000000000000000000000000000000000000000\troot\t1\tn\t\n";
    assert_int_equal(ea_path_write_all(scratch_path("tokens"), LINES, sizeof LINES - 1, 1, &err), 0);
    assert_int_equal(ec_api_tokens_read(scratch, &all, &count, &err), 0);
    assert_int_equal(count, 0);
    free(all);
    assert_int_equal(admit(a, "192.0.2.1", token, S_NS, &who), EA_EREFUSED);
    ec_access_close(a);
}

static void a_ticket_has_an_end(void **state) {
    (void)state;

    enum { PORT = 8080, END = 1000 };

    char cookie[EC_VISIT_COOKIE_BYTES];
    ec_visit *v = NULL;
    assert_int_equal(ec_visit_create(&v, END, &err), 0);
    const char *ticket = ec_visit_ticket(v);
    assert_false(ec_visit_is_right(v, ticket, END));
    assert_false(ec_visit_redeem(v, ticket, END, PORT, cookie));
    assert_true(ec_visit_has_expired(v, END));
    assert_false(ec_visit_has_expired(v, END - 1));
    assert_false(ec_visit_redeem(v, "", END - 1, PORT, cookie));
    assert_true(ec_visit_is_right(v, ticket, END - 1));
    assert_true(ec_visit_redeem(v, ticket, END - 1, PORT, cookie));
    assert_false(ec_visit_redeem(v, ticket, END - 1, PORT, cookie)); /* once */
    assert_false(ec_visit_has_expired(v, 2 * END));                  /* there is a visitor */
    assert_non_null(strchr(cookie, ';'));
    *strchr(cookie, ';') = 0;
    assert_true(ec_visit_has_cookie(v, cookie, PORT));
    assert_false(ec_visit_has_cookie(v, cookie, PORT + 1));
    ec_visit_destroy(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_character_counts, scratch_make, scratch_clear),
        cmocka_unit_test(a_ticket_has_an_end),
        cmocka_unit_test_setup_teardown(patterns_are_within_patterns, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(groups_see_theirs, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(tokens_expire, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(guessing_ends, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(rates_are_bounded, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(audit_is_bounded, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(refusals_are_aggregated, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(damaged_files_admit_no_token, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
