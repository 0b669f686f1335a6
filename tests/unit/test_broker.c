/* The broker: what it opens, writes and starts is what it was settled for, and nothing else. The program is the broker,
 * and its child, when it is started with their names. */
#include "collector/sandbox/broker.h"
#include "collector/sandbox/child.h"
#include "proto/base/platform.h"
#include "tests/unit/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CHILD_NAME   "echoing-child"
#define SHOWING_NAME "showing-child"

static const char *const OWN[] = {"TEST_OWN", NULL}, *const ALL[] = {"TEST_OWN", "TEST_OTHER", "TEST_NOWHERE", NULL};

/* Repeats what it reads, until the end. */
static int echo(void) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) == 1)
        if (write(STDOUT_FILENO, &byte, 1) != 1)
            return 3;
    return 7;
}

/* Says what it has of the environment. */
static int show(void) {
    const char *own = getenv(ALL[0]), *other = getenv(ALL[1]);
    printf("%s, %s", own ? own : "none", other ? other : "none");
    return 0;
}

static ec_broker *start(void) {
    ea_err err = {0};
    ec_broker *b = NULL;
    char listed[1200], written[1200];
    snprintf(listed, sizeof listed, "%s", scratch_path("listed"));
    snprintf(written, sizeof written, "%s", scratch_path("written"));
    const char *const paths[] = {NULL, listed, "/nowhere/at/all"};
    assert_int_equal(ea_path_write_all(listed, "content", 7, 1, &err), 0);
    assert_int_equal(ea_path_write_all(scratch_path("secret"), "secret", 6, 1, &err), 0);
    assert_int_equal(setenv(ALL[0], "mine", 1) || setenv(ALL[1], "not mine", 1), 0);
    assert_int_equal(ec_broker_start(&b, ALL, &err), 0);
    const ec_broker_child children[] = {{.name = CHILD_NAME, .greeting = "hello", .greeting_bytes = 5},
                                        {.name = CHILD_NAME, .greeting = "again", .greeting_bytes = 5},
                                        {.name = SHOWING_NAME, .variables = OWN},
                                        {.name = SHOWING_NAME, .variables = ALL},
                                        {.name = SHOWING_NAME}};
    assert_int_equal(
        ec_broker_settle(
            b,
            &(ec_broker_duties){
                .paths = paths, .path_count = 3, .written = written, .children = children, .child_count = 5},
            &err),
        0);
    return b;
}

static void listed_files_alone_are_opened(void **state) {
    (void)state;
    ea_err err = {0};
    ec_broker *b = start();
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(ec_broker_read(b, scratch_path("listed"), 100, &data, &n, &err), 0);
    assert_int_equal(n, 7);
    assert_string_equal(data, "content");
    free(data);
    assert_int_equal(ec_broker_read(b, scratch_path("listed"), 6, &data, &n, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "7 bytes, at most 6 are allowed"));
    assert_int_equal(ec_broker_read(b, scratch_path("secret"), 100, &data, &n, &err), EA_EIO);
    assert_int_equal(err.os_error, EPERM);
    assert_int_equal(ec_broker_read(b, "/nowhere/at/all", 100, &data, &n, &err), EA_ENOTFOUND);
    assert_int_equal(ec_broker_write(b, "8443\n", 5, &err), 0);
    assert_int_equal(ea_path_read_all(scratch_path("written"), 100, &data, &n, &err), 0);
    assert_string_equal(data, "8443\n");
    free(data);
    /* a file that was replaced is the new one */
    assert_int_equal(ea_path_write_all(scratch_path("listed"), "more content", 12, 1, &err), 0);
    assert_int_equal(ec_broker_read(b, scratch_path("listed"), 100, &data, &n, &err), 0);
    assert_string_equal(data, "more content");
    free(data);
    ec_broker_stop(b);
}

static void its_child_is_started_greeted_and_ended(void **state) {
    (void)state;
    ea_err err = {0};
    ec_broker *b = start();
    int in = -1, out = -1, again = -1, status = 0;
    char got[6] = "";
    assert_int_equal(ec_broker_child_ended(b, 0, &status), 0);
    assert_int_equal(ec_broker_start_child(b, 0, &in, &out, &err), 0);
    assert_int_equal(ec_broker_start_child(b, 0, &again, &again, &err), EA_EBUSY);
    for (int i = 0; i < 5; i++)
        assert_int_equal(read(out, got + i, 1), 1);
    assert_string_equal(got, "hello");
    assert_int_equal(ec_broker_child_ended(b, 0, &status), 0);
    close(in);
    for (int i = 0; !ec_broker_child_ended(b, 0, &status) && i < 1000; i++)
        ea_sleep_ns(10000000);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(out);
    assert_int_equal(ec_broker_start_child(b, 0, &in, &out, &err), 0);
    ec_broker_end_child(b, 0);
    assert_int_equal(ec_broker_start_child(b, 0, &again, &status, &err), 0); /* there is none any more */
    close(in);
    close(out);
    close(again);
    close(status);
    ec_broker_stop(b);
}

static void children_are_apart(void **state) {
    (void)state;
    ea_err err = {0};
    ec_broker *b = start();
    int in[2], out[2], none = -1, status = 0;
    char got[6] = "";
    assert_int_equal(ec_broker_start_child(b, 0, &in[0], &out[0], &err), 0);
    assert_int_equal(ec_broker_start_child(b, 1, &in[1], &out[1], &err), 0);
    assert_int_equal(ec_broker_start_child(b, 5, &none, &none, &err), EA_EIO); /* is not in the list */
    assert_int_equal(err.os_error, EPERM);
    assert_int_equal(ec_broker_child_ended(b, 5, &status), 0);
    ec_broker_ask_child(b, 5);
    ec_broker_end_child(b, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(read(out[1], got + i, 1), 1);
    assert_string_equal(got, "again");
    ec_broker_ask_child(b, 1);
    for (int i = 0; !ec_broker_child_ended(b, 1, &status) && i < 1000; i++)
        ea_sleep_ns(10000000);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(ec_broker_child_ended(b, 0, &status), 0);
    assert_int_equal(read(out[0], got, 1), 1);
    assert_int_equal(got[0], 'h');
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
    ec_broker_stop(b);
}

static void a_child_gets_its_own_variables_alone(void **state) {
    static const char *const SHOWN[] = {"mine, none", "mine, not mine", "none, none"};

    (void)state;
    ea_err err = {0};
    ec_broker *b = start();
    for (size_t i = 0; i < sizeof SHOWN / sizeof *SHOWN; i++) {
        char text[100] = "";
        int in = -1, out = -1;
        size_t n = 0;
        assert_int_equal(ec_broker_start_child(b, 2 + i, &in, &out, &err), 0);
        for (ssize_t got; n < sizeof text - 1 && (got = read(out, text + n, sizeof text - 1 - n)) > 0;)
            n += (size_t)got;
        assert_string_equal(text, SHOWN[i]);
        close(in);
        close(out);
    }
    ec_broker_stop(b);
}

static int score_of(pid_t pid) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", (long)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    return (int)strtol(text, NULL, 10);
}

static void only_children_of_its_parent_are_lowered(void **state) {
    (void)state;
    ec_broker *b = start();
    int before = score_of(getpid());
    pid_t own = fork();
    if (own == 0) {
        (void)pause();
        _exit(0);
    }
    assert_true(own > 0);
    ec_broker_lower(b, own);
    assert_int_equal(score_of(own), 500);
    ec_broker_lower(b, getpid()); /* this process itself is not its own child */
    assert_int_equal(score_of(getpid()), before);
    assert_int_equal(kill(own, SIGKILL), 0);
    assert_int_equal(waitpid(own, NULL, 0), own);
    ec_broker_stop(b);
}

static void a_broker_that_ended_is_noticed(void **state) {
    (void)state;
    ea_err err = {0};
    ec_broker *b = start();
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(ec_broker_has_ended(b), 0);
    assert_int_equal(kill(ec_broker_pid(b), SIGKILL), 0);
    for (int i = 0; !ec_broker_has_ended(b) && i < 1000; i++)
        ea_sleep_ns(10000000);
    assert_int_equal(ec_broker_has_ended(b), 1);
    assert_int_equal(ec_broker_read(b, scratch_path("listed"), 100, &data, &n, &err), EA_EIO);
    assert_int_equal(err.os_error, EPIPE);
    ec_broker_stop(b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_files_alone_are_opened),
        cmocka_unit_test(its_child_is_started_greeted_and_ended),
        cmocka_unit_test(children_are_apart),
        cmocka_unit_test(a_child_gets_its_own_variables_alone),
        cmocka_unit_test(only_children_of_its_parent_are_lowered),
        cmocka_unit_test(a_broker_that_ended_is_noticed),
    };
    if (argc == 2 && strcmp(argv[1], EC_BROKER_NAME) == 0)
        return ec_broker_main();
    if (argc == 2 && strcmp(argv[1], CHILD_NAME) == 0)
        return echo();
    if (argc == 2 && strcmp(argv[1], SHOWING_NAME) == 0)
        return show();
    if (scratch_make(NULL))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return scratch_clear(NULL) || failed;
}
