/* See confine.h. */
#include "confine.h"

#include "sandbox.h"

#include <sqlite3.h>
#include <time.h>

enum { PARTS = 4, DATABASES = 3 };

/* A database in SQLite's log mode needs two files beside it, which only one who may write to the folder can make. What
 * fails here, fails again when the database is opened, and is reported there. */
static void make_log_files(const char *path) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        (void)sqlite3_exec(db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    sqlite3_close(db);
}

/* Each connection that is opened from now on sorts in memory: temporary files cannot be made. */
static int sort_in_memory(sqlite3 *db, char **ret_error, const struct sqlite3_api_routines *unused) {
    (void)ret_error, (void)unused;
    return sqlite3_exec(db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
}

int ec_query_confine(const char *dir, ea_err *err) {
    static const char *const NAMES[DATABASES] = {"index.db", "state.db", "alarms.db"};
    static const struct {
        const char *ending;
        enum ec_sandbox_access access;
    } ENDINGS[PARTS] = {
        {"", EC_SANDBOX_READ}, {"-wal", EC_SANDBOX_READ}, {"-journal", EC_SANDBOX_READ}, {"-shm", EC_SANDBOX_SHARE}};
    ea_text texts[DATABASES * PARTS + 1];
    ec_sandbox_path paths[DATABASES * PARTS + 1];
    size_t count = 0;
    int rc = 0;
    tzset(); /* SQLite's 'localtime' */
    for (int d = 0; d < DATABASES; d++)
        for (int p = 0; p < PARTS; p++) {
            ea_text_init(&texts[count]);
            ea_text_printf(&texts[count], "%s/%s%s", dir, NAMES[d], ENDINGS[p].ending);
            paths[count] = (ec_sandbox_path){.path = texts[count].data, .access = ENDINGS[p].access};
            if (texts[count].failed)
                rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
            else if (p == 0)
                make_log_files(texts[count].data);
            count++;
        }
    ea_text_init(&texts[count]);
    ea_text_printf(&texts[count], "%s/segments", dir);
    paths[count] = (ec_sandbox_path){.path = texts[count].data, .access = EC_SANDBOX_READ};
    if (texts[count++].failed)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    if (!rc && sqlite3_auto_extension((void (*)(void))sort_in_memory) != SQLITE_OK)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    if (!rc)
        rc = ec_sandbox_enter(&(ec_sandbox){.paths = paths, .path_count = count}, err);
    for (size_t i = 0; i < count; i++)
        ea_text_deinit(&texts[i]);
    return rc;
}
