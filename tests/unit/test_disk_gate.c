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
        assert_int_equal(ec_disk_gate_close(&g, now), PAUSES_S[i]);
        assert_int_equal(ec_disk_gate_close(&g, now + SECOND / 2), PAUSES_S[i]); /* an upload that was under way */
        assert_int_equal(ec_disk_gate_refuses(&g, end - 1), 1);
        assert_int_equal(ec_disk_gate_refuses(&g, end), 0); /* one may try */
        now = end + SECOND;
    }
    ec_disk_gate_open(&g);
    assert_int_equal(ec_disk_gate_close(&g, now), EC_DISK_PAUSE_MIN_S); /* a new one begins again */
}

static void space_ends_a_pause(void **state) {
    ec_disk_gate g;
    int64_t now = 100 * SECOND;
    (void)state;
    begin(&g, NULL);
    for (int i = 0; i < 5; i++, now += 100 * SECOND)
        (void)ec_disk_gate_close(&g, now);
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
    assert_int_equal(ec_disk_gate_close(&g, now + 5 * SECOND), EC_DISK_PAUSE_MIN_S);
}

static void knows_the_cause(void **state) {
    (void)state;
    assert_true(ec_disk_gate_is_cause(EA_EFULL, &(ea_err){0}));
    assert_true(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = ENOSPC}));
    assert_true(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = EDQUOT}));
    assert_false(ec_disk_gate_is_cause(EA_EIO, &(ea_err){.os_error = EIO}));
    assert_false(ec_disk_gate_is_cause(EA_ENOMEM, &(ea_err){0}));
}

static void logs_its_beginning_and_its_end_once(void **state) {
    ec_disk_gate g;
    ec_log *log = NULL;
    char text[2000];
    FILE *out = tmpfile();
    (void)state;
    assert_non_null(out);
    assert_int_equal(ec_log_create(&log, out, 0, NULL, NULL), 0);
    begin(&g, log);
    ec_disk_gate_open(&g); /* all is well: no line */
    for (int i = 0; i < 10; i++)
        (void)ec_disk_gate_close(&g, (100 + 100 * i) * SECOND);
    ec_disk_gate_open(&g);
    ec_disk_gate_open(&g);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    const char *full = strstr(text, "is full (No space left on device): 4096 bytes are free for somewhere"),
               *over = strstr(text, "has space again"), *end = strchr(text, '\n');
    assert_non_null(full);
    assert_non_null(over);
    assert_true(end && full < end && end < over);
    assert_int_equal(end[1 + strcspn(end + 1, "\n") + 1], 0); /* two lines */
    ec_log_destroy(log);
    (void)fclose(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_to_their_bound),
        cmocka_unit_test(space_ends_a_pause),
        cmocka_unit_test(knows_the_cause),
        cmocka_unit_test(logs_its_beginning_and_its_end_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
