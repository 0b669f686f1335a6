/* See sqlite.h. */
#include "collector/sqlite/sqlite.h"

#include <errno.h>

int ec_sqlite_lacks_memory(int code) {
    return (code & 0xff) == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM || code == SQLITE_IOERR_SHMMAP;
}

/* ENOSPC, EDQUOT, or 0: it is not the disk that has no space. SQLite knows a full disk by ENOSPC of a write to its
 * database alone. A quota, and the file of the WAL's index that cannot grow, are errors of a write like others; the
 * call's errno is that of the last call that failed, and SQLite keeps it for some of them. */
static int lacks_space(sqlite3 *db) {
    int os_error = sqlite3_system_errno(db) ? sqlite3_system_errno(db) : errno;
    switch (sqlite3_extended_errcode(db)) {
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_SHMSIZE:
        return os_error == ENOSPC || os_error == EDQUOT ? os_error : 0;
    default:
        return 0;
    }
}

int ec_sqlite_error(sqlite3 *db) {
    int code = db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
    if (ec_sqlite_lacks_memory(code))
        return EA_ENOMEM;
    if (lacks_space(db))
        return EA_EFULL;
    switch (code & 0xff) {
    case SQLITE_IOERR:
        return EA_EIO;
    default:
        return EA_EDATABASE;
    }
}

int ec_sqlite_os_error(sqlite3 *db) {
    return db && lacks_space(db) == EDQUOT ? EDQUOT : 0;
}

const char *ec_sqlite_text(sqlite3 *db) {
    if (!db)
        return "out of memory";
    /* SQLite says "database or disk is full"; the database has no limit, so it is the disk */
    int os_error = lacks_space(db);
    return os_error == EDQUOT ? "Disk quota exceeded" : os_error ? "No space left on device" : sqlite3_errmsg(db);
}

int ec_fail_sqlite(ea_err *err, sqlite3 *db, const char *doing) {
    return ea_fail_os(err, ec_sqlite_error(db), ec_sqlite_os_error(db), "%s: %s", doing, ec_sqlite_text(db));
}

int ec_sqlite_exec(sqlite3 *db, const char *sql, const char *doing, ea_err *err) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : ec_fail_sqlite(err, db, doing);
}

int ec_sqlite_prepare(sqlite3 *db, sqlite3_stmt **s, const char *sql, const char *doing, ea_err *err) {
    if (!*s && sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, doing ? doing : sql);
    sqlite3_reset(*s);
    return 0;
}

int ec_sqlite_end(sqlite3_stmt *s, int code, int rc, const char *doing, ea_err *err) {
    if (!rc && code != SQLITE_DONE && code != SQLITE_ROW)
        rc = ec_fail_sqlite(err, sqlite3_db_handle(s), doing);
    sqlite3_reset(s);
    return rc;
}

int ec_sqlite_step(sqlite3_stmt *s, const char *doing, ea_err *err) {
    int code = sqlite3_step(s);
    return code == SQLITE_ROW ? 1 : ec_sqlite_end(s, code, 0, doing, err);
}

int ec_sqlite_run(sqlite3_stmt *s, const char *doing, ea_err *err) {
    return ec_sqlite_end(s, sqlite3_step(s), 0, doing, err);
}
