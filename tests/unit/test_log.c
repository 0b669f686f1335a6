/* The daemon's log: so many lines a minute, the rest counted, whatever is in them. The minute is the test's own: the
 * program is linked so that ea_monotonic_ns is __wrap_ea_monotonic_ns (CMakeLists.txt). */
#include "collector/net/descriptors.h"
#include "collector/net/log.h"
#include "proto/base/clock.h"
#include "tests/unit/scratch.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t now_ns = 1;

__typeof__(ea_monotonic_ns) __wrap_ea_monotonic_ns;

int64_t __wrap_ea_monotonic_ns(void) {
    return now_ns;
}

/* The lines of the file, without their times, as one text that the caller frees. *ret_count: how many. */
static char *lines_of(FILE *f, size_t *ret_count) {
    enum { ROOM = 1 << 16, TIME_BYTES = sizeof "2024-01-02T03:04:05.0000000Z" };

    char line[2048], *text = calloc(1, ROOM);
    size_t n = 0;
    assert_non_null(text);
    rewind(f);
    for (*ret_count = 0; fgets(line, sizeof line, f); ++*ret_count) {
        size_t len_bytes = strlen(line);
        assert_in_range(len_bytes, TIME_BYTES, sizeof line - 1);
        assert_int_equal(line[len_bytes - 1], '\n');
        assert_memory_equal(line + TIME_BYTES - 2, "Z ", 2);
        assert_true(n + len_bytes < ROOM);
        memcpy(text + n, line + TIME_BYTES, len_bytes - TIME_BYTES);
        n += len_bytes - TIME_BYTES;
    }
    fseek(f, 0, SEEK_END);
    return text;
}

static void a_minute_has_sixty_lines(void **state) {
    const int64_t second_ns = 1000000000;
    ec_log *log = NULL;
    ea_err err;
    size_t count = 0;
    (void)state;
    FILE *f = fopen(scratch_path("log"), "w+b");
    assert_non_null(f);
    assert_int_equal(ec_log_create(&log, f, 0, NULL, &err), 0);
    for (int i = 0; i < 1000; i++)
        ec_log_line(log, "line %d\nof \x1b[31m one", i);
    char *text = lines_of(f, &count);
    assert_int_equal(count, 60);
    assert_non_null(strstr(text, "line 59"));
    assert_null(strstr(text, "line 60"));
    assert_null(strchr(text, 0x1b));
    free(text);
    /* the minute is not over yet */
    now_ns += 60 * second_ns - 1;
    ec_log_line(log, "too early");
    free(lines_of(f, &count));
    assert_int_equal(count, 60);
    now_ns += 1;
    ec_log_line(log, "the next minute");
    text = lines_of(f, &count);
    assert_int_equal(count, 62);
    assert_non_null(strstr(text, "\n941 lines about the collector itself were suppressed\nthe next minute\n"));
    free(text);
    /* counted once; what is left out of this minute is counted anew */
    for (int i = 1; i < 62; i++)
        ec_log_line(log, "more");
    free(lines_of(f, &count));
    assert_int_equal(count, 62 + 59);
    now_ns += 60 * second_ns;
    ec_log_line(log, "the third");
    text = lines_of(f, &count);
    assert_int_equal(count, 62 + 59 + 2);
    assert_non_null(strstr(text, "\n2 lines about the collector itself were suppressed\nthe third\n"));
    free(text);
    ec_log_destroy(log);
    fclose(f);
}

/* Lines that strangers cause suppress none of the collector's own; what was suppressed is logged when its minute is
 * over, also when no other line comes. */
static void each_kind_has_its_own_lines(void **state) {
    ec_log *log = NULL;
    ea_err err;
    size_t count = 0;
    static ea_counters counters;
    (void)state;
    FILE *f = fopen(scratch_path("log"), "w+b");
    assert_non_null(f);
    assert_int_equal(ec_log_create(&log, f, 0, &counters, &err), 0);
    for (int i = 0; i < 1000; i++)
        ec_log_about(log, EC_LOG_STRANGER, "a failed handshake");
    for (int i = 0; i < 30; i++) { /* as after an outage of a fleet */
        ec_log_about(log, EC_LOG_STATE, "7 batches before number 9 have not come");
        ec_log_about(log, EC_LOG_WATCH, "the machine is silent");
    }
    ec_log_line(log, "nothing stored: commit failed");
    for (int i = 0; i < 70; i++)
        ec_log_about(log, EC_LOG_AGENT, "a refused batch");
    char *text = lines_of(f, &count);
    assert_int_equal(count, 60 + 60 + 1 + 60);
    assert_non_null(strstr(text, "\nnothing stored: commit failed\n"));
    free(text);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_log_suppressed), 940 + 10);
    ec_log_renew(log);
    free(lines_of(f, &count));
    assert_int_equal(count, 181);
    now_ns += 60 * INT64_C(1000000000);
    ec_log_renew(log);
    ec_log_renew(log);
    text = lines_of(f, &count);
    assert_int_equal(count, 183);
    assert_non_null(strstr(text, "\n10 lines about agents were suppressed\n"
                                 "940 lines about connections without a valid certificate or token were suppressed\n"));
    free(text);
    ec_log_destroy(log);
    fclose(f);
}

static void run_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    (void)event_base_loop(arg, EVLOOP_NONBLOCK); /* which libevent warns of */
}

/* What libevent has to say is a line of this log, with its bounds, and not one on standard error. */
static void libevent_writes_into_it(void **state) {
    ec_log *log = NULL;
    ea_err err;
    size_t count = 0;
    (void)state;
    FILE *f = fopen(scratch_path("log"), "w+b");
    assert_non_null(f);
    assert_int_equal(ec_log_create(&log, f, 0, NULL, &err), 0);
    ec_libevent_log(log);
    struct event_base *events = event_base_new();
    assert_non_null(events);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(event_base_once(events, -1, EV_TIMEOUT, run_again, events, &(struct timeval){.tv_sec = 0}), 0);
        assert_int_equal(event_base_dispatch(events), 1);
    }
    char *text = lines_of(f, &count);
    assert_int_equal(count, 60);
    assert_memory_equal(text, "libevent: ", sizeof "libevent: " - 1);
    free(text);
    ec_libevent_log(NULL);
    event_base_free(events);
    ec_log_destroy(log);
    fclose(f);
}

/* Listeners whose bounds do not fit into the descriptors get equal shares of what the small ones leave. */
static void bounds_fit_the_descriptors(void **state) {
    ec_log *log = NULL;
    ea_err err;
    size_t count = 0;
    (void)state;
    FILE *f = fopen(scratch_path("log"), "w+b");
    assert_non_null(f);
    assert_int_equal(ec_log_create(&log, f, 0, NULL, &err), 0);
    uint32_t agents = 1000, web = 10, enroll = 500, none = 7;
    ec_descriptors_share shares[] = {
        {"agents", &agents, 2}, {"web", &web, 1}, {"enroll", &enroll, 1}, {"none", &none, 0}};
    ec_descriptors_divide(310, shares, 4, log);
    assert_int_equal(agents, 100); /* on each of two listeners */
    assert_int_equal(web, 10);
    assert_int_equal(enroll, 100);
    assert_int_equal(none, 7);
    char *text = lines_of(f, &count);
    assert_int_equal(count, 2);
    assert_non_null(strstr(text, "--agents is lowered from 1000 to 100"));
    assert_non_null(strstr(text, "--enroll is lowered from 500 to 100"));
    free(text);
    ec_descriptors_divide(310, shares, 4, log); /* they fit */
    free(lines_of(f, &count));
    assert_int_equal(count, 2);
    ec_log_destroy(log);
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_minute_has_sixty_lines, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(each_kind_has_its_own_lines, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(libevent_writes_into_it, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(bounds_fit_the_descriptors, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
