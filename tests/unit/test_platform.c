/* proto/base's platform: files, folders, threads, time, randomness. */
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(_WIN32)
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#if !defined(_WIN32)
static const char *replaced_before_lock; /* a path; NULL: no more */

/* Instead of libc's: another process may act between a file's opening and its lock. */
int flock(int fd, int operation) {
    if (replaced_before_lock) {
        assert_int_equal(unlink(replaced_before_lock), 0);
        assert_int_equal(ea_path_write_all(replaced_before_lock, "theirs", 6, 1, NULL), 0);
        replaced_before_lock = NULL;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

/* Two processes never have a file of one name, however late the first one's lock comes. */
static void claims(void **state) {
    (void)state;
    ea_err err;
    ea_file *f = NULL, *again = NULL;
    const char *path = scratch_path("claimed");
    replaced_before_lock = path;
    assert_int_equal(ea_file_claim(&f, path, &err), EA_EBUSY);
    assert_null(replaced_before_lock);
    assert_true(ea_path_is_file(path)); /* that of the other process */
    assert_int_equal(ea_file_claim(&f, path, &err), 0);
    assert_int_equal(ea_file_claim(&again, path, &err), EA_EBUSY);
    ea_file_close(f);
}
#endif

enum { CLAIMERS = 4, CLAIMS = 200 };

typedef struct claimer {
    const char *path;
    char number;
    int claimed, lost; /* how often; and how often the name was another file's then */
} claimer;

/* Claims the name again and again, as runs of a program do: writes, reads by the name, removes. */
static void claim_often(void *arg) {
    claimer *c = arg;
    for (int i = 0; i < CLAIMS; i++) {
        ea_file *f = NULL;
        ea_err err;
        char *text = NULL;
        size_t n = 0;
        if (ea_file_claim(&f, c->path, &err))
            continue;
        c->claimed++;
        if (ea_file_write_at(f, 0, &c->number, 1, &err) || ea_path_read_all(c->path, 16, &text, &n, &err) || n != 1 ||
            text[0] != c->number)
            c->lost++;
        free(text);
        (void)!ea_path_remove(c->path, &err);
        ea_file_close(f);
    }
}

/* Of several that claim one name at a time, one has it. */
static void claims_of_several(void **state) {
    (void)state;
    const char *path = scratch_path("claimed");
    claimer all[CLAIMERS];
    ea_thread *threads_of[CLAIMERS];
    ea_err err;
    int claimed = 0;
    for (int i = 0; i < CLAIMERS; i++) {
        all[i] = (claimer){.path = path, .number = (char)('a' + i)};
        assert_int_equal(ea_thread_start(&threads_of[i], "claimer", claim_often, &all[i], &err), 0);
    }
    for (int i = 0; i < CLAIMERS; i++) {
        ea_thread_join(threads_of[i]);
        claimed += all[i].claimed;
        assert_int_equal(all[i].lost, 0);
    }
    assert_true(claimed > 0);
}

static void files(void **state) {
    (void)state;
    ea_err err;
    ea_file *f;
    const char *path = scratch_path("a.bin");
    assert_int_equal(ea_file_open(&f, path, EA_OPEN_READ, &err), EA_ENOTFOUND);
    assert_int_not_equal(err.os_error, 0);
    assert_int_equal(ea_file_open(&f, scratch, EA_OPEN_READ, &err), EA_EINVAL);
    assert_int_equal(ea_file_open(&f, path, EA_OPEN_CREATE, &err), 0);
    assert_int_equal(ea_file_write_at(f, 0, "hello", 5, &err), 0);
    assert_int_equal(ea_file_write_at(f, 10, "world", 5, &err), 0);
    assert_int_equal(ea_file_sync(f, &err), 0);
    uint64_t size;
    assert_int_equal(ea_file_size(f, &size, &err), 0);
    assert_int_equal(size, 15);
    char buffer[64];
    size_t n;
    assert_int_equal(ea_file_read_at(f, 0, buffer, sizeof buffer, &n, &err), 0);
    assert_int_equal(n, 15);
    assert_memory_equal(buffer, "hello\0\0\0\0\0world", 15);
    assert_int_equal(ea_file_read_at(f, 12, buffer, 2, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(buffer, "rl", 2);
    assert_int_equal(ea_file_read_at(f, 15, buffer, 8, &n, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ea_file_read_at(f, (uint64_t)1 << 40, buffer, 8, &n, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ea_file_truncate(f, 3, &err), 0);
    ea_file_close(f);
    ea_file_close(NULL);

    assert_int_equal(ea_file_open(&f, path, EA_OPEN_APPEND, &err), 0);
    assert_int_equal(ea_file_size(f, &size, &err), 0);
    assert_int_equal(size, 3); /* append keeps the existing bytes */
    ea_file *second;
    assert_int_equal(ea_file_open(&second, path, EA_OPEN_APPEND, &err), 0);
    assert_int_equal(ea_file_try_lock(f, &err), 0);
    assert_int_equal(ea_file_try_lock(second, &err), EA_EBUSY);
    ea_file_close(f);
    assert_int_equal(ea_file_try_lock(second, &err), 0);
    ea_file_close(second);
    assert_int_equal(ea_file_open(&f, path, EA_OPEN_CREATE, &err), 0);
    assert_int_equal(ea_file_size(f, &size, &err), 0);
    assert_int_equal(size, 0);
    ea_file_close(f);
}

/* The platform may report a hole wholly, in part, or not at all. It must never skip data. */
static void holes(void **state) {
    (void)state;
    const uint64_t at = 8 << 20;
    ea_err err;
    ea_file *f;
    assert_int_equal(ea_file_open(&f, scratch_path("holes"), EA_OPEN_CREATE, &err), 0);
    assert_int_equal(ea_file_skip_hole(f, 0), 0);
    assert_int_equal(ea_file_write_at(f, 0, "head", 4, &err), 0);
    assert_int_equal(ea_file_write_at(f, at, "tail", 4, &err), 0);
    assert_int_equal(ea_file_truncate(f, 2 * at, &err), 0);
    assert_int_equal(ea_file_skip_hole(f, 0), 0);
    assert_int_equal(ea_file_skip_hole(f, 3), 3);
    assert_int_equal(ea_file_skip_hole(f, at), at);
    uint64_t to = ea_file_skip_hole(f, at / 2), end = ea_file_skip_hole(f, at + at / 2);
    assert_in_range(to, at / 2, at);
    assert_in_range(end, at + at / 2, 2 * at);
    assert_int_equal(ea_file_skip_hole(f, 2 * at), 2 * at);
    assert_int_equal(ea_file_skip_hole(f, 3 * at), 3 * at);
    ea_file_close(f);
}

static int collect(const char *name, int is_dir, void *arg) {
    ea_text *t = arg;
    ea_text_printf(t, "%s%s ", name, is_dir ? "/" : "");
    return 0;
}

static int stop_at_once(const char *name, int is_dir, void *arg) {
    (void)name;
    (void)is_dir;
    ++*(int *)arg;
    return 7;
}

static void paths(void **state) {
    (void)state;
    ea_err err;
    assert_int_equal(ea_path_write_all(scratch_path("b"), "one", 3, 0, &err), 0);
    assert_int_equal(ea_path_write_all(scratch_path("B"), "two", 3, 1, &err), 0);
    assert_int_equal(ea_path_write_all(scratch_path("\xC3\xBC\xE6\x96\x87.txt"), "", 0, 0, &err), 0);
    assert_int_equal(ea_path_make_dirs(scratch_path("deep/er/still"), &err), 0);
    assert_int_equal(ea_path_make_dirs(scratch_path("deep/er/still"), &err), 0);
    assert_int_equal(ea_path_make_dirs(scratch_path("b"), &err), EA_EINVAL);
    ea_text t;
    ea_text_init(&t);
    assert_int_equal(ea_path_list(scratch, collect, &t, &err), 0);
#if !defined(_WIN32) /* names on Windows differ in more than their case */
    assert_string_equal(t.data, "B b deep/ \xC3\xBC\xE6\x96\x87.txt ");
#endif
    ea_text_deinit(&t);
    int calls = 0;
    assert_int_equal(ea_path_list(scratch, stop_at_once, &calls, &err), 7);
    assert_int_equal(calls, 1);
    assert_int_equal(ea_path_list(scratch_path("nowhere"), collect, &t, &err), EA_ENOTFOUND);
    char *data;
    size_t n;
    assert_int_equal(ea_path_read_all(scratch_path("b"), 100, &data, &n, &err), 0);
    assert_int_equal(n, 3);
    free(data);
    assert_int_equal(ea_path_read_all(scratch_path("b"), 2, &data, &n, &err), EA_ELIMIT);
    assert_int_equal(ea_path_rename(scratch_path("B"), scratch_path("b"), &err), 0);
    assert_int_equal(ea_path_read_all(scratch_path("b"), 3, &data, &n, &err), 0);
    assert_string_equal(data, "two");
    free(data);
    assert_int_equal(ea_path_sync_dir(scratch, &err), 0);
    assert_int_not_equal(ea_path_sync_dir(scratch_path("nowhere"), &err), 0);
    assert_true(ea_path_exists(scratch_path("b")));
    assert_int_equal(ea_path_remove(scratch_path("b"), &err), 0);
    assert_int_equal(ea_path_remove(scratch_path("b"), &err), EA_ENOTFOUND);
    assert_false(ea_path_exists(scratch_path("b")));
    assert_true(ea_path_free_bytes(scratch) > 0);
    assert_int_equal(ea_path_free_bytes(scratch_path("nowhere")), 0);
    assert_int_not_equal(ea_path_write_all(scratch_path("nowhere/x"), "", 0, 0, &err), 0);
    assert_int_not_equal(ea_path_rename(scratch_path("nowhere"), scratch_path("c"), &err), 0);
#if !defined(_WIN32)
    struct stat st;
    assert_int_equal(ea_path_write_all(scratch_path("secret"), "k", 1, 1, &err), 0);
    assert_int_equal(stat(scratch_path("secret"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(scratch, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
#endif
}

/* ---- threads and time ---- */

typedef struct {
    ea_mutex *mutex;
    ea_cond *cond;
    int turn, rounds[2];
} ping_pong;

static void play(ping_pong *p, int me) {
    ea_mutex_lock(p->mutex);
    for (int i = 0; i < 2000; i++) {
        while (p->turn != me)
            ea_cond_wait(p->cond, p->mutex);
        p->rounds[me]++;
        p->turn = !me;
        ea_cond_broadcast(p->cond);
    }
    ea_mutex_unlock(p->mutex);
}

static void play_other(void *arg) {
    play(arg, 1);
}

#if defined(EA_ASSERTIONS) && !defined(_WIN32)
/* A child checks that it holds the mutex: how it ends. */
static int child_that_asserts(ea_mutex *m, int is_held) EA_NO_THREAD_SAFETY_ANALYSIS {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would go on with the tests */
        fclose(stderr);
        if (is_held)
            ea_mutex_lock(m);
        ea_mutex_assert_held(m);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assertions(void **state) {
    (void)state;
    ea_err err;
    ea_mutex *m;
    assert_int_equal(ea_mutex_create(&m, &err), 0);
    int held = child_that_asserts(m, 1), not_held = child_that_asserts(m, 0);
    assert_true(WIFEXITED(held) && WEXITSTATUS(held) == 0);
    assert_true(WIFSIGNALED(not_held) && WTERMSIG(not_held) == SIGABRT);
    ea_mutex_destroy(m);
}
#endif

static void threads(void **state) {
    (void)state;
    ea_err err;
    ping_pong p = {0};
    assert_int_equal(ea_mutex_create(&p.mutex, &err), 0);
    assert_int_equal(ea_cond_create(&p.cond, &err), 0);
    ea_thread *other;
    assert_int_equal(ea_thread_start(&other, "a name longer than fifteen", play_other, &p, &err), 0);
    play(&p, 0);
    ea_thread_join(other);
    ea_thread_join(NULL);
    assert_int_equal(p.rounds[0], 2000);
    assert_int_equal(p.rounds[1], 2000);

    ea_mutex_lock(p.mutex);
    int64_t start = ea_monotonic_ns();
    int rc = 0;
    while (rc == 0 && ea_monotonic_ns() - start < 5000000000) /* a wake-up without a cause is allowed */
        rc = ea_cond_wait_for(p.cond, p.mutex, 20000000);
    assert_int_equal(rc, EA_ETIMEOUT);
    assert_true(ea_monotonic_ns() - start >= 19000000);
    assert_int_equal(ea_cond_wait_for(p.cond, p.mutex, -1), EA_ETIMEOUT);
    ea_mutex_unlock(p.mutex);
    ea_cond_destroy(p.cond);
    ea_mutex_destroy(p.mutex);
    ea_cond_destroy(NULL);
    ea_mutex_destroy(NULL);
}

static void time_and_rest(void **state) {
    (void)state;
    int64_t before = ea_monotonic_ns();
    ea_sleep_ns(5000000);
    ea_sleep_ns(0);
    ea_sleep_ns(-5);
    assert_true(ea_monotonic_ns() - before >= 4900000);
    assert_true(ea_utc_ns() > 1700000000000000000);
    ea_err err;
    uint8_t a[64] = {0}, b[64] = {0};
    assert_int_equal(ea_random_bytes(a, sizeof a, &err), 0);
    assert_int_equal(ea_random_bytes(b, sizeof b, &err), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(ea_random_bytes(NULL, 0, &err), 0);
    char name[256], text[256];
    ea_host_name(name, sizeof name);
    assert_true(strlen(name) > 0);
    ea_os_error_text(2, text, sizeof text);
    assert_true(strlen(text) > 3);
    assert_true(ea_process_id() > 0);
    FILE *f = fopen(scratch_path("plain"), "w");
    assert_non_null(f);
    assert_false(ea_is_terminal(f));
    /* hostile text in a message does not reach a terminal as it is */
    assert_int_equal(ea_fail_os(&err, EA_EIO, 2, "open a\x1B[31mb"), EA_EIO);
    ea_err_print(f, "prog", &err);
    fclose(f);
    char *data;
    size_t n;
    assert_int_equal(ea_path_read_all(scratch_path("plain"), 1000, &data, &n, &err), 0);
    assert_null(strchr(data, 0x1B));
    assert_non_null(strstr(data, "prog: open a\\x1b[31mb (the operating system refused"));
    free(data);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_clear)
    static const struct CMUnitTest tests[] = {
        T(claims_of_several),
        T(files),
        T(holes),
        T(paths),
#if !defined(_WIN32)
        T(claims),
#endif
        cmocka_unit_test(threads),
#if defined(EA_ASSERTIONS) && !defined(_WIN32)
        cmocka_unit_test(assertions),
#endif
        T(time_and_rest)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
