/* What every user of an SQLite database does: statements that are prepared once and used again, and errors that say
 * what was being done. Used by: collector/store's index, collector/state's tables,
 * questions to both, kept results of symbols. Thread: the
 * connection's. */
#ifndef EC_SQLITE_SQLITE_H
#define EC_SQLITE_SQLITE_H

#include "proto/base/err.h"

#include <sqlite3.h>

/* Whether a failure of this code (an extended one) is for want of memory: also where the index of the WAL cannot be
 * mapped any more, as in a process whose address space is bounded. */
int ec_sqlite_lacks_memory(int code);
/* The database's last error as a code: EA_EDATABASE, or EA_ENOMEM, EA_EFULL, EA_EIO. db NULL: it could not be
 * opened for lack of memory. */
int ec_sqlite_error(sqlite3 *db);
/* EDQUOT when a quota of the disk was the cause, which the code of a full disk alone does not say; 0: it was not. */
int ec_sqlite_os_error(sqlite3 *db);
/* The database's last error in words; a full disk has the system's words. Valid until the database is used again. */
const char *ec_sqlite_text(sqlite3 *db);
/* Fills err from the database's last error. Returns ec_sqlite_error's code. */
int ec_fail_sqlite(ea_err *err, sqlite3 *db, const char *doing);
/* Runs statements without parameters. */
EA_MUST_CHECK int ec_sqlite_exec(sqlite3 *db, const char *sql, const char *doing, ea_err *err);
/* *s, prepared when it is NULL: reset, and ready to be bound. doing: NULL: the error names the statement. */
EA_MUST_CHECK int ec_sqlite_prepare(sqlite3 *db, sqlite3_stmt **s, const char *sql, const char *doing, ea_err *err);
/* 1 with a row, which stays until the statement is used again; 0 at the end, and the statement is reset. */
EA_MUST_CHECK int ec_sqlite_step(sqlite3_stmt *s, const char *doing, ea_err *err);
/* Runs a statement without reading its rows, and resets it. */
EA_MUST_CHECK int ec_sqlite_run(sqlite3_stmt *s, const char *doing, ea_err *err);
/* Ends a loop over rows: code is what sqlite3_step returned last, rc what went wrong with a row. Resets the statement.
 */
EA_MUST_CHECK int ec_sqlite_end(sqlite3_stmt *s, int code, int rc, const char *doing, ea_err *err);

#endif
