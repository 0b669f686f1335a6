/* proto/base/trust: a file that no other user may change stays the file that was checked. The program takes ownership
 * of the folder for state. Tests that need owners and modes are in tests/e2e/test_plugins.py and
 * tests/windows/test_trust.py. */
#include "proto/base/platform.h"
#include "proto/base/trust.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

static void write_text(const char *path, const char *text) {
    assert_int_equal(ea_path_write_all(path, text, strlen(text), 1, NULL), 0);
}

static char *read_text(const char *path) {
    char *text = NULL;
    size_t n;
    ea_err err = {0};
    if (ea_path_read_all(path, 4096, &text, &n, &err))
        fail_msg("%s", err.message);
    return text;
}

/* A program that takes the file's name away finds that what was checked is still what is read. */
static void stays_the_same(void **state) {
    (void)state;
    ea_trusted_file *f;
    ea_err err = {0};
    char checked[512], other[512];
    snprintf(checked, sizeof checked, "%s", scratch_path("checked"));
    snprintf(other, sizeof other, "%s", scratch_path("other"));
    write_text(checked, "checked");
    write_text(other, "other");
    if (ea_trusted_open(&f, checked, &err))
        fail_msg("%s", err.message);
    int moved = ea_path_rename(other, checked, &err) == 0;
#if defined(_WIN32)
    assert_false(moved); /* an open file cannot be replaced by a rename */
#else
    assert_true(moved);
#endif
    char *text = read_text(ea_trusted_path(f));
    assert_string_equal(text, "checked");
    free(text);
    ea_trusted_close(f);
    ea_trusted_close(NULL);
    assert_int_equal(ea_trust_check(checked, &err), 0);
    assert_int_equal(ea_trust_check(scratch_path("nowhere"), &err), EA_ENOTFOUND);
    assert_int_equal(ea_path_make_dirs(scratch_path("folder"), &err), 0);
    assert_int_equal(ea_trust_check(scratch_path("folder"), &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "is no file"));
}

typedef struct said {
    int lines;
    char last[1500];
} said;

static void on_note(void *arg, const char *line) {
    said *s = arg;
    s->lines++;
    snprintf(s->last, sizeof s->last, "%s", line);
}

static void claims(void **state) {
    (void)state;
    said s = {0};
    ea_err err = {0};
    char folder[512], inside[600];
    snprintf(folder, sizeof folder, "%s", scratch_path("state"));
    snprintf(inside, sizeof inside, "%s/etwagent.yaml", folder);
    if (ea_trust_claim(folder, on_note, &s, &err))
        fail_msg("%s", err.message);
    write_text(inside, "x");
    for (int i = 0; i < 2; i++)
        if (ea_trust_claim(folder, on_note, &s, &err))
            fail_msg("%s", err.message);
    assert_int_equal(s.lines, 0); /* nothing had to be changed */
    char deep[700];
    snprintf(deep, sizeof deep, "%s/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", folder);
    assert_int_equal(ea_path_make_dirs(deep, &err), 0);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), 0);
    snprintf(deep, sizeof deep, "%s/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", folder);
    assert_int_equal(ea_path_make_dirs(deep, &err), 0);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "at most 16 folders in each other"));
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(s.lines, 0);
#if !defined(_WIN32)
    struct stat st;
    chmod(folder, 0755);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), 0);
    assert_int_equal(s.lines, 1);
    assert_non_null(strstr(s.last, "was open to others (mode 755): its mode is 700 now"));
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    chmod(inside, 0666);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "others may write to"));
    assert_non_null(strstr(err.message, "etwagent.yaml"));
    chmod(inside, 0600);
    if (geteuid() == 0) {
        assert_int_equal(chown(inside, 65534, (gid_t)-1), 0);
        assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), EA_EREFUSED);
        assert_non_null(strstr(err.message, "etwagent.yaml belongs to user 65534"));
        assert_int_equal(chown(inside, 0, (gid_t)-1), 0);
        assert_int_equal(chown(folder, 65534, (gid_t)-1), 0);
        assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), EA_EREFUSED);
        assert_non_null(strstr(err.message, "state belongs to user 65534"));
        assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
    }
    char link[600];
    snprintf(link, sizeof link, "%s/spool", folder);
    assert_int_equal(symlink("/", link), 0);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "spool is a symbolic link"));
    unlink(link);
    char by_link[512];
    snprintf(by_link, sizeof by_link, "%s", scratch_path("by-link"));
    assert_int_equal(symlink("state", by_link), 0);
    assert_int_equal(ea_trust_claim(by_link, on_note, &s, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "by-link is a symbolic link; expected a folder"));
    unlink(by_link);
    assert_int_equal(ea_trust_claim(folder, on_note, &s, &err), 0);
    assert_int_equal(s.lines, 1);
#endif
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stays_the_same, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(claims, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
