/* See confine.h. */
#include "collector/query/sql/confine.h"

#include "collector/query/sql/temp_files.h"
#include "collector/store/private.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 4, DATABASES = 5, SHARED_MEMORY_MAX = 64 << 20, LOG_BUSY_MS = 5000 };

/* A process confines itself once. */
static sqlite3 *held[DATABASES];

/* A database in SQLite's log mode needs two files beside it, which only one who may write to the folder can make, and
 * which the last process that closes the database removes. The sandbox knows those alone that are there when it is
 * entered. So they are made, and a connection stays open, by which no process removes them as long as this one runs.
 * What fails here, fails again when the database is opened, and is reported there. */
static void hold_log_files(const char *path, sqlite3 **db) {
    sqlite3_close(*db);
    if (sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(*db, LOG_BUSY_MS) == SQLITE_OK &&
        sqlite3_exec(*db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL) == SQLITE_OK)
        return;
    sqlite3_close(*db);
    *db = NULL;
}

/* Each connection that is opened from now on goes on in temporary files when memory does not hold its rows, whatever
 * SQLite was built for. */
static int sort_in_files(sqlite3 *db, char **ret_error, const struct sqlite3_api_routines *unused) {
    (void)ret_error, (void)unused;
    return sqlite3_exec(db, "PRAGMA temp_store = FILE", NULL, NULL, NULL);
}

/* The folder for temporary files: the store's, or where nothing may be written in the store, the system's; NULL: this
 * user may write to none. */
static const char *find_temp_folder(const char *stores) {
    const char *const folders[] = {stores, "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (access(folders[i], W_OK | X_OK) == 0)
            return folders[i];
    return NULL;
}

/* Limits the size of the files that this process writes, in whatever code. */
static void limit_files(uint64_t limit_bytes) {
    struct rlimit l = {.rlim_cur = limit_bytes, .rlim_max = limit_bytes};
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &l);
}

/* The paths of the store, and the others. */
static int enter(const ec_sandbox_path *paths, size_t count, const ec_sandbox *more, ea_err *err) {
    size_t more_count = more ? more->path_count : 0;
    ec_sandbox_path *all = calloc(count + more_count, sizeof *all);
    if (!all)
        return ea_fail(err, EA_ENOMEM, "enter the sandbox");
    for (size_t i = 0; i < count + more_count; i++)
        all[i] = i < count ? paths[i] : more->paths[i - count];
    int rc = ec_sandbox_enter(
        &(ec_sandbox){.rights = more ? more->rights : 0, .paths = all, .path_count = count + more_count}, err);
    free(all);
    return rc;
}

int ec_query_confine(const char *dir, uint64_t limit_temp_bytes, ea_err *err) {
    return ec_query_confine_with(dir, limit_temp_bytes, NULL, err);
}

int ec_query_confine_with(const char *dir, uint64_t limit_temp_bytes, const ec_sandbox *more, ea_err *err) {
    static const char *const NAMES[DATABASES] = {"index.db", "state.db", "alarms.db", "sinks.db", "requests.db"};

    static const struct {
        const char *ending;
        enum ec_sandbox_access access;
    } ENDINGS[PARTS] = {
        {"", EC_SANDBOX_READ}, {"-wal", EC_SANDBOX_READ}, {"-journal", EC_SANDBOX_READ}, {"-shm", EC_SANDBOX_SHARE}};

    ea_text texts[DATABASES * PARTS + 2];
    ec_sandbox_path paths[DATABASES * PARTS + 2];
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
                hold_log_files(texts[count].data, &held[d]);
            count++;
        }
    ea_text_init(&texts[count]);
    ea_text_printf(&texts[count], "%s/segments", dir);
    paths[count] = (ec_sandbox_path){.path = texts[count].data, .access = EC_SANDBOX_READ};
    if (texts[count++].failed)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    ea_text_init(&texts[count]);
    ea_text_printf(&texts[count], "%s/temp", dir);
    if (texts[count].failed)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    const char *folder = rc ? NULL : find_temp_folder(texts[count].data);
    paths[count++] = (ec_sandbox_path){.path = folder ? folder : "", .access = EC_SANDBOX_WRITE};
    if (!rc)
        rc = ec_temp_files_start(folder, limit_temp_bytes, err);
    if (!rc && sqlite3_auto_extension((void (*)(void))sort_in_files) != SQLITE_OK)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    ec_store_give_to_owner(dir); /* what root made in the store of a service; afterwards it may not */
    limit_files(limit_temp_bytes > SHARED_MEMORY_MAX ? limit_temp_bytes : SHARED_MEMORY_MAX);
    if (!rc)
        rc = enter(paths, count, more, err);
    for (size_t i = 0; i < count; i++)
        ea_text_deinit(&texts[i]);
    return rc;
}
