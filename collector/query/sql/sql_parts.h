/* Inside collector/query/sql: what the parts of SQL share. See sql.h. */
#ifndef EC_QUERY_SQL_SQL_PARTS_H
#define EC_QUERY_SQL_SQL_PARTS_H

#include "collector/query/scan/data_times.h"
#include "collector/query/scan/scan.h"
#include "collector/query/sql/sql.h"
#include "collector/state/state_db.h"

struct ec_sql {
    ec_sql_options options;
    char *dir;
    ec_archive *archive;
    struct ec_annotations *links;
    ec_annotator annotator; /* the links' */
    sqlite3 *db;
    ec_state_db *state;          /* opened when a table of it is first used */
    struct ec_incidents *alarms; /* likewise */
    sqlite3 *requests;           /* likewise: requests.db, read alone */
    struct ec_ends *ends;        /* opened when the end of an agent is first asked for */
    sqlite3 *plain;              /* for SQLite's own printf; NULL: not called yet */
    sqlite3_stmt *format;        /* its last statement, for format_count arguments */
    int format_count;
    struct ec_accounts *accounts;   /* opened when account_name is first called */
    struct ec_instances *instances; /* read when a function that names a stream is first called */
    sqlite3 *memory;                /* the table of classes, filled when it is first used */
    sqlite3_int64 rows_given;       /* by lists: the number of the next row */
    /* names of the tables that no class takes, sorted without case; each is sqlite3_malloc's */
    char **taken;
    size_t taken_count, taken_capacity;
    uint8_t *added; /* by the number of a set of classes: whether the connection has its tables */
    size_t added_count, added_capacity;
    int64_t now_utc_ns;           /* when it was opened: what now() is in all of its statements */
    int uses_history;             /* a statement that was prepared reads what collector/state makes */
    int names_functions;          /* a statement that was prepared reads a table that names functions */
    int describes_tables;         /* the statement that was prepared last asks a pragma about a table */
    struct ec_sql_shaped *shaped; /* the connection's tables of events' columns: sql_vtab.c */
    struct ec_sql_typed *typed;   /* its tables of the history and the store: likewise */
    unsigned groups_added;        /* tables of groups: sql_groups.c */
    int (*on_scan)(void *arg, const ec_table_schema *shape, ec_row_filter *ret); /* ec_sql_on_scan */
    void *on_scan_arg;
};

/* Each registers its part with the connection: 0, or EA_EDATABASE, EA_ENOMEM. */
EA_MUST_CHECK int ec_sql_add_functions(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_events(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_tables(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_activity(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_views(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_analyze(ec_sql *s, ea_err *err);
/* Adds NAME_by over the table NAME; set NULL: over events. */
EA_MUST_CHECK int ec_sql_add_aggregate(ec_sql *s, const char *name, const ec_class_set *set, ea_err *err);

/* The classes of a table of events that the connection has: 1, *ret NULL for all events; 0 when the name is another
 * table's. Errors of reading the classes. */
EA_MUST_CHECK int ec_sql_events_of(ec_sql *s, const char *name, const ec_class_set **ret, ea_err *err);
/* Prepares the first statement of a text as it is written, and adds the tables of classes that it names. As
 * ec_sql_prepare. */
EA_MUST_CHECK int ec_sql_prepare_as_written(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail,
                                            ea_err *err);
/* 1 when a view of the connection has this name. */
int ec_sql_is_view(const char *name);
/* Puts a statement that groups natively in place of one that was prepared, where it can: sql_push.c. sql: of len_bytes,
 * the statement's text. EA_ENOMEM, errors of reading the classes. */
EA_MUST_CHECK int ec_sql_push(ec_sql *s, const char *sql, size_t len_bytes, sqlite3_stmt **ret, ea_err *err);

/* Prepares a statement that is SQLite's: as it is written, then checked, then with its groups handed down. As
 * ec_sql_prepare, which knows EXPLAIN ANALYZE, too. */
EA_MUST_CHECK int ec_sql_prepare_statement(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail,
                                           ea_err *err);

/* A failure of ours as SQLite's code, with its message in the table's zErrMsg. */
int ec_sql_fail(sqlite3_vtab *table, const ea_err *err);
/* The value of a condition: what SQLite compares a column of that kind with. Texts are copied into the arena. kind: of
 * the column. EA_ENOMEM; EA_EUSAGE for a text that is no time where a time is meant. */
EA_MUST_CHECK int ec_sql_value(ec_sql *s, sqlite3_value *from, enum ec_kind kind, ea_arena *arena, ec_value *ret,
                               ea_err *err);
/* EA_EUSAGE when a person's statement compares a time with a number that can only be meant as seconds, ms or a year.
 * Other statements' numbers are times of events, which a wrong clock may have in 1970, too. */
EA_MUST_CHECK int ec_sql_check_ns(const ec_sql *s, sqlite3_value *v, ea_err *err);
/* A time as people write it, in ns since 1970; +10s, start and end are of the connection's streams. EA_EINVAL without a
 * message: it is none; EA_EUSAGE: it is of data, and there are none; errors of reading the streams. */
EA_MUST_CHECK int ec_sql_read_time(ec_sql *s, const char *text, int64_t *ret, ea_err *err);
/* A text that is compared with a time: ns since 1970. EA_EUSAGE; errors of reading the streams. */
EA_MUST_CHECK int ec_sql_time(ec_sql *s, const char *text, int64_t *ret, ea_err *err);
/* As ec_sql_time of an address column: the number that the column has for it. EA_EUSAGE. */
EA_MUST_CHECK int ec_sql_address(const char *text, int64_t *ret, ea_err *err);
/* EA_EUSAGE when a statement that was prepared compares a number with a text that looks like a time: its rows would be
 * wrong without a word. tail: where the statement ends; NULL: at its end. EA_ENOMEM. */
EA_MUST_CHECK int ec_sql_check_times(ec_sql *s, const char *sql, const char *tail, ea_err *err);
/* EA_EUSAGE when a statement that was prepared compares a class's or a provider's column with another name of one where
 * SQLite compares the texts alone: sql_names.c. As ec_sql_check_times. */
EA_MUST_CHECK int ec_sql_check_names(ec_sql *s, const char *sql, const char *tail, ea_err *err);
/* 1 for what SQLite turns into a number where it is compared with one. */
int ec_sql_is_number(const char *text);
/* What a statement is refused with that compares a number's column with a written text that is none. */
#define EC_SQL_NO_NUMBER                                                                                               \
    "a number is compared with the text '%.40s' here, which no number equals: write a number, or compare the "         \
    "column's "                                                                                                        \
    "name for it (COLUMN_name)"
/* What a statement is refused with that compares an address with a written number; its value as text. */
#define EC_SQL_NO_ADDRESS                                                                                              \
    "%.60s is an address, whose numbers are turned: write u64('%.40s') for the number that it is compared with"
/* The number or the text 0x... that condition i compares with, as it is written; NULL: it compares with another. */
const char *ec_sql_hex(sqlite3_index_info *info, int i);
/* EA_EUSAGE with a sentence when condition i looks for a part of a time column's text (LIKE, GLOB ...), or compares a
 * number's column with a written text that is no number, or an address with a written number. */
EA_MUST_CHECK int ec_sql_check_part(sqlite3_index_info *info, int i, enum ec_kind kind, const char *column,
                                    ea_err *err);
void ec_sql_result(sqlite3_context *context, const ec_value *v);
/* An operator of sqlite3_index_info as ours: 1, 0 when there is none. */
int ec_sql_op(int op, enum ec_op *ret);
/* 1 when the condition compares as bytes do. */
int ec_sql_is_binary(sqlite3_index_info *info, int i);

/* Conditions on way from xBestIndex to xFilter: each is "column,operator,how " in a plan. */
void ec_sql_plan_condition(ea_text *plan, sqlite3_index_info *info, int i, int column, enum ec_op op);
/* One number of a plan. */
size_t ec_sql_plan_number(const char **plan);
/* Reads the rest of a condition after the column's number in the plan, with its argument: values live in the arena. */
EA_MUST_CHECK int ec_sql_condition(ec_sql *s, const char **plan, sqlite3_value *from, const ec_table_schema *shape,
                                   size_t column, ea_arena *arena, ec_condition *ret, ea_err *err);
/* Takes away what a condition may leave of the rows that come out, and of those that are decoded. */
void ec_sql_share(const ec_column *c, enum ec_op op, double *rows, double *decoded);

/* ---- what the virtual tables have in common: sql_vtab.c ---- */

/* The database of the requests that agents were asked, with the functions and the table that its SELECT names. */
EA_MUST_CHECK int ec_sql_open_requests(ec_sql *s, sqlite3 **ret, ea_err *err);
/* The SQL function account_name; its user data is the ec_sql. Views of the history need it, too. */
void ec_sql_account_name(sqlite3_context *c, int count, sqlite3_value **v);
/* Zeroed memory of SQLite's; NULL: there is none. */
void *ec_sql_zalloc(size_t len_bytes);
/* xOpen of a cursor, of zeros, which begins with a sqlite3_vtab_cursor and has an ea_arena at arena_offset. */
int ec_sql_open_cursor(size_t cursor_bytes, size_t arena_offset, sqlite3_vtab_cursor **ret);
/* Adds a table that is there by its module's name alone; from: copied, for xConnect's aux. */
EA_MUST_CHECK int ec_sql_add_module(ec_sql *s, const char *name, const sqlite3_module *module, const void *from,
                                    size_t from_bytes, ea_err *err);
/* Ends an xConnect: declares the columns and makes a zeroed table. columns: the text between the brackets of CREATE
 * TABLE; deinitialised. rc, why: an earlier error, 0 if there was none. An SQLite code. */
int ec_sql_make_table(sqlite3 *db, int rc, const ea_err *why, ea_text *columns, size_t table_bytes, sqlite3_vtab **ret,
                      char **ret_message);
/* Ends an xBestIndex: gives the plan to SQLite and deinitialises it. An SQLite code. */
int ec_sql_set_plan(sqlite3_index_info *info, ea_text *plan);

/* A table whose columns are those of events, or are made out of them. */
typedef struct ec_sql_source {
    ec_sql *sql;
    const ec_class_set *set; /* NULL: events */
} ec_sql_source;

typedef struct ec_sql_shaped {
    sqlite3_vtab base;
    ec_sql *sql;
    ec_table_schema shape;
    size_t own_count; /* columns before those of shape */
    double rows;      /* a guess: all events of the store */
    struct ec_sql_shaped *next;
} ec_sql_shaped;

/* add_columns: writes own_count columns of the table's own, then those of shape. */
int ec_sql_shaped_connect(sqlite3 *db, const ec_sql_source *from,
                          int (*add_columns)(ea_text *to, const ec_table_schema *shape), size_t own_count,
                          sqlite3_vtab **ret, char **ret_message);
/* The column of events that a column of the table is, by its number in the table; NULL: another one. */
const ec_column *ec_sql_shaped_column(const ec_sql_shaped *t, int number);
int ec_sql_shaped_disconnect(sqlite3_vtab *base);

/* A table whose columns are fixed: first member of one. */
typedef struct ec_sql_typed {
    sqlite3_vtab base;
    ec_sql *sql;
    const enum ec_kind *kinds; /* of its columns */
    size_t count;
    struct ec_sql_typed *next;
} ec_sql_typed;

/* Adds a table to those of the connection, and takes it away. kinds: borrowed until then. */
void ec_sql_typed_connect(ec_sql *s, ec_sql_typed *t, const enum ec_kind *kinds, size_t count);
void ec_sql_typed_disconnect(ec_sql_typed *t);

/* The number of the table that EXPLAIN writes as "vtab:ADDRESS"; 0: none. */
uintptr_t ec_sql_table_number(const char *explained);
/* 1 for IN, which a table of ours is not given for an address: the check of the program has to see what it compares. */
int ec_sql_is_list_of_addresses(sqlite3_index_info *info, int i, enum ec_kind kind);

/* A cursor over rows that xFilter made all at once: first member of one. */
typedef struct ec_sql_list {
    sqlite3_vtab_cursor base;
    size_t at, count;
    sqlite3_int64 first_rowid; /* two lists never have a row of the same number */
} ec_sql_list;

void ec_sql_list_begin(ec_sql *s, ec_sql_list *list, size_t count);
int ec_sql_list_next(sqlite3_vtab_cursor *base);
int ec_sql_list_at_end(sqlite3_vtab_cursor *base);
int ec_sql_list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret);

#endif
