/* SQL over a store: an SQLite connection whose tables are the store's events and machines, read-only. SQL.md in
 * collector/query describes the tables, for people who write queries. Called by: worker.c. Calls: archive.h, scan.h,
 * collector/state. Thread: one ec_sql belongs to one thread.
 *
 * The connection has nothing but these tables: no file of its own, no ATTACH, no PRAGMA but those that describe tables,
 * no extension. It bounds neither time nor memory by itself: see worker.c. */
#ifndef EC_QUERY_SQL_SQL_H
#define EC_QUERY_SQL_SQL_H

#include "collector/query/analysis/profile.h"
#include "collector/query/scan/archive.h"
#include "collector/query/scan/scan.h"

#include <sqlite3.h>

typedef struct ec_sql ec_sql;

typedef struct ec_sql_options {
    const char *host;             /* only this agent's; NULL: all */
    const char *shown;            /* only of hosts that fit these patterns (pattern.h); NULL: all */
    int (*keep_going)(void *arg); /* asked now and then; 0 ends the statement with SQLITE_INTERRUPT; may be NULL */
    void *arg;
    uint64_t sort_bytes; /* that a sort holds in memory before it goes on in a temporary file; 0: SQLite's 2 MiB */
    const ec_profile_namer *namer; /* of functions; borrowed; NULL: places stay places */
    int is_written;                /* statements are a person's, whose seconds are no time: ec_sql_check_ns */
    int no_pushdown;               /* for tests: conditions and groups are left to SQLite alone */
    int no_grouping;               /* likewise: groups alone */
} ec_sql_options;

/* Opens the store in folder dir. options: copied; host and shown are borrowed until close. EA_ENOTFOUND when there is
 * no store. */
EA_MUST_CHECK int ec_sql_open(ec_sql **ret, const char *dir, const ec_sql_options *options, ea_err *err);
void ec_sql_close(ec_sql *s); /* finalize all statements first; NULL is allowed */
sqlite3 *ec_sql_database(ec_sql *s);
ec_archive *ec_sql_archive(ec_sql *s);
/* Prepares the first statement of sql, as sqlite3_prepare_v3 does: an SQLite code, SQLITE_IOERR with err when the
 * store's classes cannot be read, or the statement compares a number with the text of a time. The connection has the
 * tables of those classes alone that statements named. */
EA_MUST_CHECK int ec_sql_prepare(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail, ea_err *err);
/* A cell of the row that a statement is at; texts and blobs are the statement's until its next step. */
ec_value ec_sql_cell(sqlite3_stmt *st, int column);
/* Whether a statement that was prepared, or failed to be, reads what is folded out of stored batches (ec_state_worker):
 * a table or a column that is marked so. */
int ec_sql_uses_history(const ec_sql *s);
/* fn is asked when a statement begins a scan of a class's table: 1 and *ret, a filter of the scan's events; 0: none.
 * NULL: it is not asked. */
void ec_sql_on_scan(ec_sql *s, int (*fn)(void *arg, const ec_table_schema *shape, ec_row_filter *ret), void *arg);
/* The connection's view of the history (collector/state/SCHEMA.md), with the functions of its tables: for statements
 * that are asked often, which need no table of SQL between. Borrowed. EA_ENOTFOUND: there is none; EA_EDATABASE. */
EA_MUST_CHECK int ec_sql_history(ec_sql *s, sqlite3 **ret, ea_err *err);
/* What a table of the history is made of: an expression for FROM, in which t are its rows. */
const char *ec_sql_history_from(const char *table);
/* Of one of its columns: an expression over that, and the type that it is declared with. */
const char *ec_sql_history_column(const char *table, const char *column, const char **ret_type);
/* The process that had a number at a time, as SQL's process_at: *ret 0: none. Errors of reading the history. */
EA_MUST_CHECK int ec_sql_process_at(ec_sql *s, const char *host, const char *stream, int64_t number, int64_t utc_ns,
                                    int64_t *ret, ea_err *err);
/* Whether a statement that was prepared reads a table that names functions. */
int ec_sql_names_functions(const ec_sql *s);
/* Whether the statement that was prepared last asks about tables whose names its parameters may be: ec_sql_use. */
int ec_sql_describes_tables(const ec_sql *s);
/* Adds the tables of the class that a parameter names (pragma_table_xinfo(?1)); nothing when no class has this name.
 * name: of len_bytes, without an end. EA_ENOMEM; errors of reading the classes. */
EA_MUST_CHECK int ec_sql_use(ec_sql *s, const char *name, size_t len_bytes, ea_err *err);

/* Whether something is stored of the hosts, providers and classes that a statement compares for equality: EA_ENOTFOUND
 * with a sentence about the first name of which nothing is; 0: all are known, or the classes cannot be read.
 * may_be_empty: the answer has no rows, or one that may be a count of none; then a program's or a module's name that is
 * stored in another case alone is found, too, for which the table is read. */
EA_MUST_CHECK int ec_sql_check_known(ec_sql *s, const char *statement, int may_be_empty, ea_err *why);

/* Appends an identifier in quotes. */
void ec_sql_add_name(ea_text *t, const char *name);

#endif
