/* A process that is confined to a store: the files of its databases' logs stay while others open and close them, as its
 * sandbox knows no later ones. */
#include "collector/query/sql/confine.h"
#include "collector/state/sink_places.h"
#include "tests/unit/store_rig.h"

#include <sys/wait.h>

static const char *const NAMES[] = {"index.db", "sinks.db"};

enum { COUNT = sizeof NAMES / sizeof *NAMES };

static const char *path_of(const fixture *f, const char *name, const char *ending) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s%s", f->dir, name, ending);
    return path;
}

/* Reads the databases, confined, after a byte from the parent: 0 when it can. */
static int read_confined(const fixture *f, int to, int from) {
    ea_err err = {0};
    char byte = 'c';
    if (ec_query_confine(f->dir, 1 << 20, &err) || write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
        return 1;
    for (int i = 0; i < COUNT; i++) {
        sqlite3 *db = NULL;
        int code = sqlite3_open_v2(path_of(f, NAMES[i], ""), &db, SQLITE_OPEN_READONLY, NULL);
        if (code == SQLITE_OK)
            code = sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
        if (code != SQLITE_OK) {
            fprintf(stderr, "%s: %s\n", NAMES[i], sqlite3_errmsg(db));
            return 2;
        }
        sqlite3_close(db);
    }
    return 0;
}

static void open_and_close(fixture *f) {
    ec_sinks *sinks = NULL;
    open_store(f);
    assert_int_equal(ec_sinks_open(&sinks, f->dir, 1, &f->err), 0);
    ec_sinks_close(sinks);
    close_store(f);
}

static void log_files_stay(void **state) {
    fixture *f = *state;
    int to_child[2], to_parent[2], status = 0;
    char byte = 0;
    open_and_close(f);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(access(path_of(f, NAMES[i], "-wal"), F_OK), -1); /* the last one removes it */
    assert_int_equal(pipe(to_child) || pipe(to_parent), 0);
    pid_t child = fork();
    if (child == 0) {
        close(to_child[1]); /* so that it ends with this process */
        _exit(read_confined(f, to_parent[1], to_child[0]));
    }
    assert_true(child > 0);
    close(to_parent[1]);
    assert_int_equal(read(to_parent[0], &byte, 1), 1);
    open_and_close(f);
    for (int i = 0; i < COUNT; i++)
        if (access(path_of(f, NAMES[i], "-wal"), F_OK) || access(path_of(f, NAMES[i], "-shm"), F_OK))
            fail_msg("the log of %s is gone", NAMES[i]);
    assert_int_equal(write(to_child[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(to_child[0]);
    close(to_child[1]);
    close(to_parent[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_files_stay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
