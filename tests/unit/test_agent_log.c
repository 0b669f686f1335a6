/* The agent's log: its bounded kinds share one budget, which the others do not take from; a file that would become too
 * large is renamed; the listener gets each line that is written. */
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "service/core/agent_log.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned heard[EA_LOG_FAILED + 1];

static void on_line(void *arg, enum ea_log_kind kind, const char *line) {
    assert_ptr_equal(arg, heard);
    assert_non_null(strstr(line, "line"));
    heard[kind]++;
}

static unsigned count(const char *path, const char *part) {
    char *data = NULL;
    size_t n = 0;
    ea_err err;
    unsigned found = 0;
    assert_int_equal(ea_path_read_all(path, 1 << 20, &data, &n, &err), 0);
    for (const char *at = data; (at = strstr(at, part)) != NULL; at += strlen(part))
        found++;
    free(data);
    return found;
}

static void warnings_take_nothing_of_losses(void **state) {
    char path[512];
    ea_err err;
    (void)state;
    memset(heard, 0, sizeof heard);
    snprintf(path, sizeof path, "%s", scratch_path("log.txt"));
    ea_log_options o = {
        .quiet = 1, .path = path, .file_bytes = 1 << 20, .lines_a_minute = 5, .on_line = on_line, .arg = heard};
    assert_int_equal(ea_log_open(&o, &err), 0);
    for (int i = 0; i < 100; i++) {
        ea_log_warning("line %d of a warning", i);
        ea_log_info("line %d of no weight", i);
        ea_log_line(EA_LOG_LOST, "line %d of a loss", i);
    }
    assert_int_equal(count(path, "of a warning") + count(path, "of no weight"), 5);
    assert_int_equal(count(path, "of a loss"), 100);
    assert_int_equal(heard[EA_LOG_WARNING] + heard[EA_LOG_INFO], 5);
    assert_int_equal(heard[EA_LOG_LOST], 100);
    ea_log_close();
}

static void a_file_is_bounded(void **state) {
    enum { FILE_BYTES = 1000 };

    char path[512], older[520];
    ea_err err;
    char *data = NULL;
    size_t n = 0;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path("log.txt"));
    snprintf(older, sizeof older, "%s.1", path);
    assert_int_equal(ea_log_open(&(ea_log_options){.quiet = 1, .path = path, .file_bytes = FILE_BYTES}, &err), 0);
    for (int i = 0; i < 100; i++)
        ea_log_info("line %d", i);
    assert_int_equal(ea_path_read_all(path, 1 << 20, &data, &n, &err), 0);
    assert_in_range(n, 1, FILE_BYTES);
    assert_non_null(strstr(data, " line 99\n"));
    free(data);
    assert_int_equal(ea_path_read_all(older, 1 << 20, &data, &n, &err), 0);
    assert_in_range(n, FILE_BYTES / 2, FILE_BYTES);
    free(data);
    /* another file, from now on */
    char other[512];
    snprintf(other, sizeof other, "%s", scratch_path("other.txt"));
    assert_int_equal(ea_log_set_file(other, FILE_BYTES, 0, &err), 0);
    ea_log_info("line of the other");
    assert_int_equal(count(other, "line of the other"), 1);
    assert_int_equal(count(path, "line of the other"), 0);
    ea_log_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(warnings_take_nothing_of_losses, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_file_is_bounded, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
