/* Uploads while the disk of the store is full. */
#include "collector/ingest/disk_gate.h"
#include "collector/net/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
static const ea_err FULL = {.code = EA_EFULL, .os_error = ENOSPC}, QUOTA = {.code = EA_EFULL, .os_error = EDQUOT};
static uint64_t free_now;
static unsigned looks;

static uint64_t count_free(const char *path) {
    assert_string_equal(path, "somewhere");
    looks++;
    return free_now;
}

static void begin(ec_disk_gate *g, struct ec_log *log) {
    ec_disk_gate_init(g, "somewhere", log);
    g->free_bytes = count_free;
    free_now = 4096;
    looks = 0;
}

static void pauses_grow_to_their_bound(void **state) {
    static const unsigned PAUSES_S[] = {2, 4, 8, 16, 32, 60, 60};
    ec_disk_gate g;
    int64_t now = 100 * SECOND;
    (void)state;
    begin(&g, NULL);
    assert_int_equal(ec_disk_gate_refuses(&g, now), 0);
    for (size_t i = 0; i < sizeof PAUSES_S / sizeof *PAUSES_S; i++) {
        int64_t end = now + PAUSES_S[i] * SECOND;
        assert_int_equal(ec_disk_gate_close(&g, &FULL, now), PAUSES_S[i]);
        assert_int_equal(ec_disk_gate_close(&g, &FULL, now + SECOND / 2),
                         PAUSES_S[i]); /* an upload that was under way */
        assert_int_equal(ec_disk_gate_refuses(&g, end - 1), 1);
        assert_int_equal(ec_disk_gate_refuses(&g, end), 0); /* one may try */
        now = end + SECOND;
    }
    assert_int_equal(ec_disk_gate_open(&g), 1);
    assert_int_equal(ec_disk_gate_open(&g), 0);
    assert_int_equal(ec_disk_gate_close(&g, &FULL, now), EC_DISK_PAUSE_MIN_S); /* a new one begins again */
}

static void space_ends_a_pause(void **state) {
    ec_disk_gate g;
    int64_t now = 100 * SECOND;
    (void)state;
    begin(&g, NULL);
    for (int i = 0; i < 5; i++, now += 100 * SECOND)
        (void)ec_disk_gate_close(&g, &FULL, now);
    now -= 100 * SECOND;
    looks = 0;
    assert_int_equal(ec_disk_gate_refuses(&g, now + SECOND - 1), 32);
    assert_int_equal(looks, 0);
    for (int i = 0; i < 100; i++) /* however many uploads come: one look a second */
        assert_int_equal(ec_disk_gate_refuses(&g, now + SECOND + i), 31);
    assert_int_equal(looks, 1);
    free_now += EC_DISK_FREED_BYTES - 1;
    assert_int_equal(ec_disk_gate_refuses(&g, now + 2 * SECOND + 1), 30);
    free_now++;
    assert_int_equal(ec_disk_gate_refuses(&g, now + 2 * SECOND + 2), 30);
    assert_int_equal(ec_disk_gate_refuses(&g, now + 4 * SECOND), 0);
    assert_int_equal(ec_disk_gate_refuses(&g, now + 4 * SECOND + 1), 0);
    assert_int_equal(ec_disk_gate_close(&g, &FULL, now + 5 * SECOND), EC_DISK_PAUSE_MIN_S);
}

static void knows_the_cause(void **state) {
    (void)state;
    assert_true(ec_disk_gate_is_cause(EA_EFULL, &(ea_err){0}));
    assert_true(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = ENOSPC}));
    assert_true(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = EDQUOT}));
    assert_false(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = EIO}));
    assert_false(ec_disk_gate_is_cause(EA_ENOMEM, &(ea_err){0}));
}

/* The log of a gate that is closed ten times for a cause and opened. */
static void log_of(const ea_err *cause, char text[2000]) {
    ec_disk_gate g;
    ec_log *log = NULL;
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(ec_log_create(&log, out, 0, NULL, NULL), 0);
    begin(&g, log);
    assert_int_equal(ec_disk_gate_open(&g), 0); /* all is well: no line */
    for (int i = 0; i < 10; i++)
        (void)ec_disk_gate_close(&g, cause, (100 + 100 * i) * SECOND);
    assert_int_equal(strstr(ec_disk_gate_text(&g), "quota") != NULL, cause->os_error == EDQUOT);
    assert_int_equal(ec_disk_gate_open(&g), 1);
    assert_int_equal(ec_disk_gate_open(&g), 0);
    rewind(out);
    text[fread(text, 1, 1999, out)] = 0;
    ec_log_destroy(log);
    (void)fclose(out);
}

static void check_two_lines(const char *text, const char *first, const char *second) {
    const char *a = strstr(text, first), *b = strstr(text, second), *end = strchr(text, '\n');
    assert_non_null(a);
    assert_non_null(b);
    assert_true(end && a < end && end < b);
    assert_int_equal(end[1 + strcspn(end + 1, "\n") + 1], 0);
}

static void logs_its_beginning_and_its_end_once(void **state) {
    char text[2000];
    (void)state;
    log_of(&FULL, text);
    check_two_lines(text, "is full (No space left on device): 4096 bytes are free for somewhere", "has space again");
    assert_null(strstr(text, "quota"));
    log_of(&QUOTA, text);
    check_two_lines(text,
                    "quota of the collector's user is reached (Disk quota exceeded): no more is written to somewhere",
                    "is below its disk quota again");
    assert_null(strstr(text, "is full"));
}

/* A disk that is full while a quota was the cause before, and the other way round: each has its line and its reason. */
static void the_last_cause_is_the_reason(void **state) {
    ec_disk_gate g;
    (void)state;
    begin(&g, NULL);
    (void)ec_disk_gate_close(&g, &QUOTA, 100 * SECOND);
    assert_non_null(strstr(ec_disk_gate_text(&g), "disk quota of the collector's user is reached"));
    (void)ec_disk_gate_close(&g, &FULL, 200 * SECOND);
    assert_non_null(strstr(ec_disk_gate_text(&g), "disk of the store is full"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_to_their_bound),
        cmocka_unit_test(space_ends_a_pause),
        cmocka_unit_test(knows_the_cause),
        cmocka_unit_test(logs_its_beginning_and_its_end_once),
        cmocka_unit_test(the_last_cause_is_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
