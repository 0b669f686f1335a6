/* Files of boot sessions. The files that Windows wrote wait under names by age until they are read. The tests check
 * which file is dropped at the limit, and that each loss is counted, also when files cannot be moved. */
#include "service/etw/boot_files.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct world {
    ea_session_config session;
    char file[128], said[4096];
} world;

static void note(void *arg, const char *text) {
    world *w = arg;
    size_t at = strlen(w->said);
    snprintf(w->said + at, sizeof w->said - at, "%s\n", text);
}

static void begin(world *w, uint64_t keep_files) {
    memset(w, 0, sizeof *w);
    snprintf(w->file, sizeof w->file, "%s", scratch_path("early.etl"));
    w->session = (ea_session_config){.name = "early", .boot_file = w->file, .keep_files = keep_files};
}

/* Writes a file; its text says which it is. */
static void write_file(const char *name, const char *text) {
    assert_int_equal(ea_path_write_all(scratch_path(name), text, strlen(text), 0, NULL), 0);
    ea_sleep_ns(20000000); /* files' times differ */
}

static void has(const char *name, const char *text) {
    char *data = NULL;
    size_t len_bytes = 0;
    if (ea_path_read_all(scratch_path(name), 100, &data, &len_bytes, NULL))
        fail_msg("%s is not there", name);
    assert_int_equal(len_bytes, strlen(text));
    assert_memory_equal(data, text, len_bytes);
    free(data);
}

static int is_there(const char *name) {
    return ea_path_exists(scratch_path(name));
}

static unsigned take(world *w) {
    w->said[0] = 0;
    return ea_boot_files_take(&w->session, note, w);
}

static void test_counts(void **state) {
    const struct {
        uint64_t keep;
        unsigned count;
    } CASES[] = {{0, 2}, {1, 2}, {2, 3}, {3, 4}, {15, 16}, {16, 16}, {64, 16}, {UINT64_MAX - 1, 16}};

    world w;
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin(&w, CASES[i].keep);
        assert_int_equal(ea_boot_files_count(&w.session), CASES[i].count);
    }
}

static void test_object_names(void **state) {
    char path[EA_BOOT_PATH_BYTES];
    world w;
    (void)state;
    begin(&w, 3);
    w.session.boot_file = "C:\\a.b\\x.etl";
    ea_boot_file_path(&w.session, 0, path);
    assert_string_equal(path, "C:\\a.b\\x-booted.etl");
    ea_boot_file_path(&w.session, 15, path);
    assert_string_equal(path, "C:\\a.b\\x-booted.15.etl");
    ea_boot_file_path(&w.session, -1, path);
    assert_string_equal(path, "C:\\a.b\\x-taken.etl");
}

static void test_boots(void **state) {
    world w;
    (void)state;
    begin(&w, 3);
    assert_int_equal(take(&w), 0); /* nothing is there */
    write_file("early.etl", "unnumbered");
    assert_int_equal(take(&w), 0);
    has("early-booted.etl", "unnumbered");
    assert_false(is_there("early.etl"));
    /* boots without a service: the numbers say nothing of the order, Windows begins anew with the first */
    write_file("early.etl.004", "older");
    write_file("early.etl.0001", "newer"); /* of any number of digits */
    write_file("early.etl.bak", "another program's");
    write_file("early.etl.1x", "another program's");
    assert_int_equal(take(&w), 0);
    has("early-booted.etl", "newer");
    has("early-booted.1.etl", "older");
    has("early-booted.2.etl", "unnumbered");
    assert_string_equal(w.said, "");
    /* one in between was read: only what is younger grows older */
    assert_int_equal(ea_path_remove(scratch_path("early-booted.1.etl"), NULL), 0);
    write_file("early.etl.2", "newest");
    assert_int_equal(take(&w), 0);
    assert_true(is_there("early.etl.bak") && is_there("early.etl.1x"));
    has("early-booted.etl", "newest");
    has("early-booted.1.etl", "newer");
    has("early-booted.2.etl", "unnumbered");
    assert_int_equal(take(&w), 0); /* the service again, in the same boot */
    has("early-booted.etl", "newest");
}

static void test_oldest_gives_way(void **state) {
    world w;
    (void)state;
    begin(&w, 1); /* two wait */
    write_file("early.etl.0001", "one");
    assert_int_equal(take(&w), 0);
    write_file("early.etl.0002", "two");
    assert_int_equal(take(&w), 0);
    write_file("early.etl.0001", "three");
    assert_int_equal(take(&w), 1);
    has("early-booted.etl", "three");
    has("early-booted.1.etl", "two");
    assert_non_null(strstr(w.said, "early-booted.1.etl, the oldest that waited, was replaced"));
    /* Windows has used both of its numbers, and both waiting files are dropped */
    write_file("early.etl.0002", "four");
    write_file("early.etl.0001", "five");
    assert_int_equal(take(&w), 3);
    assert_non_null(strstr(w.said, "2 boots left their files"));
    has("early-booted.etl", "five");
    has("early-booted.1.etl", "four");
}

/* keep-files became less: what has a higher number is taken all the same, and what waits stays where it is. */
static void test_fewer(void **state) {
    world w;
    (void)state;
    begin(&w, 1);
    write_file("early-booted.5.etl", "waits");
    write_file("early.etl.0009", "nine");
    assert_int_equal(take(&w), 0);
    has("early-booted.etl", "nine");
    has("early-booted.5.etl", "waits");
}

/* A folder has the name: nothing is replaced, and what Windows wrote stays. */
static void test_cannot_move(void **state) {
    world w;
    (void)state;
    begin(&w, 1);
    write_file("early-booted.etl", "waits");
    assert_int_equal(ea_path_make_dirs(scratch_path("early-booted.1.etl/inside"), NULL), 0);
    write_file("early.etl.0001", "one");
    assert_int_equal(take(&w), 0);
    assert_non_null(strstr(w.said, "rename"));
    has("early-booted.etl", "waits");
    has("early.etl.0001", "one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_object_names, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_boots, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_oldest_gives_way, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_fewer, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cannot_move, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
