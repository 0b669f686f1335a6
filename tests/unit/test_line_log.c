/* A line that repeats is written so many times a minute; the rest are counted and named in one line. The minute is the
 * test's own: the program is linked so that ea_monotonic_ns is __wrap_ea_monotonic_ns (CMakeLists.txt). */
#include "proto/base/line_log.h"
#include "proto/base/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { APPLES, PEARS, KIND_COUNT };

static const char *const KINDS[] = {[APPLES] = "about apples were suppressed", [PEARS] = "about pears were suppressed"};
static const int64_t MINUTE_NS = 60 * INT64_C(1000000000);
static int64_t now_ns;

__typeof__(ea_monotonic_ns) __wrap_ea_monotonic_ns;

int64_t __wrap_ea_monotonic_ns(void) {
    return now_ns;
}

typedef struct paper {
    ea_text text;
    unsigned lines;
} paper;

static void write_line(void *arg, const char *line, size_t len_bytes) {
    paper *p = arg;
    ea_text_add(&p->text, line, len_bytes);
    ea_text_char(&p->text, '\n');
    p->lines++;
}

static ea_line_log make(paper *p, unsigned lines_a_minute) {
    ea_text_init(&p->text);
    p->lines = 0;
    now_ns = 1;
    return (ea_line_log){
        .lines_a_minute = lines_a_minute, .write = write_line, .arg = p, .kinds = KINDS, .kind_count = KIND_COUNT};
}

EA_PRINTF(3, 4)

static int add(ea_line_log *log, unsigned kind, const char *format, ...) {
    ea_text line;
    va_list args;
    ea_text_init(&line);
    va_start(args, format);
    ea_line_log_format(&line, format, args);
    va_end(args);
    assert_false(line.failed);
    int is_written = ea_line_log_add(log, kind, &line);
    ea_text_deinit(&line);
    return is_written;
}

static void a_line_that_repeats_is_counted(void **state) {
    paper p;
    ea_line_log log = make(&p, 3);
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(add(&log, APPLES, "an apple"), i < 3);
    assert_string_equal(p.text.data, "an apple\nan apple\nan apple\n");
    now_ns += MINUTE_NS - 1;
    assert_int_equal(add(&log, APPLES, "an apple"), 0);
    assert_int_equal(p.lines, 3);
    ea_text_clear(&p.text);
    now_ns++;
    assert_int_equal(add(&log, APPLES, "the next"), 1);
    assert_string_equal(p.text.data, "8 lines about apples were suppressed\nthe next\n");
    /* the minute of the next line begins with it; nothing is left to say of the one before */
    ea_text_clear(&p.text);
    now_ns += MINUTE_NS;
    ea_line_log_renew(&log);
    ea_line_log_renew(&log);
    assert_int_equal(p.text.len_bytes, 0);
    ea_text_deinit(&p.text);
}

static void kinds_have_budgets_of_their_own(void **state) {
    paper p;
    ea_line_log log = make(&p, 2);
    (void)state;
    for (int i = 0; i < 1000; i++)
        (void)add(&log, PEARS, "a pear");
    assert_int_equal(add(&log, APPLES, "an apple"), 1);
    assert_int_equal(p.lines, 3);
    ea_text_clear(&p.text);
    now_ns += MINUTE_NS;
    ea_line_log_renew(&log); /* without another line */
    assert_string_equal(p.text.data, "998 lines about pears were suppressed\n");
    ea_text_deinit(&p.text);
}

static void without_a_rate_all_are_written(void **state) {
    paper p;
    ea_line_log log = make(&p, 0);
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(add(&log, APPLES, "an apple"), 1);
    log.lines_a_minute = 2; /* lowered while it runs */
    assert_int_equal(add(&log, APPLES, "an apple"), 0);
    assert_int_equal(p.lines, 1000);
    ea_text_deinit(&p.text);
}

static void hostile_lines_are_made_harmless(void **state) {
    static char letters[4 * EA_LINE_LOG_LINE_MAX];
    paper p;
    ea_line_log log = make(&p, 0);
    (void)state;
    assert_int_equal(add(&log, APPLES, "a\nforged line \x1b[31m %s", ""), 1);
    assert_null(strchr(p.text.data, 0x1b));
    assert_ptr_equal(strchr(p.text.data, '\n'), p.text.data + p.text.len_bytes - 1);
    ea_text_clear(&p.text);
    memset(letters, 'x', sizeof letters - 1);
    assert_int_equal(add(&log, APPLES, "%s", letters), 1);
    assert_int_equal(p.text.len_bytes, EA_LINE_LOG_LINE_MAX); /* with the newline */
    ea_text_clear(&p.text);
    assert_int_equal(add(&log, APPLES, "%s", ""), 1);
    assert_string_equal(p.text.data, "\n");
    ea_text_deinit(&p.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_repeats_is_counted),
        cmocka_unit_test(kinds_have_budgets_of_their_own),
        cmocka_unit_test(without_a_rate_all_are_written),
        cmocka_unit_test(hostile_lines_are_made_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
