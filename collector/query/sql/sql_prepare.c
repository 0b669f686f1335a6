/* A statement on its way to SQLite: as it is written, then checked, then with its groups handed down. See sql.h. Called
 * by: sql_analyze.c. Calls: sql_events.c, sql_times.c, sql_names.c, sql_push.c. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"

int ec_sql_prepare_statement(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail, ea_err *err) {
    const char *tail = NULL;
    int code = ec_sql_prepare_as_written(s, sql, ret, &tail, err);
    if (ret_tail)
        *ret_tail = tail;
    if (code != SQLITE_OK || !*ret)
        return code;
    int uses_history = s->uses_history, describes_tables = s->describes_tables;
    int rc = ec_sql_check_times(s, sql, tail, err);
    if (!rc)
        rc = ec_sql_check_names(s, sql, tail, err);
    if (!rc && !s->options.no_pushdown && !s->options.no_grouping)
        rc = ec_sql_push(s, sql, (size_t)(tail - sql), ret, err);
    s->uses_history = uses_history;
    s->describes_tables = describes_tables;
    if (!rc)
        return SQLITE_OK;
    sqlite3_finalize(*ret);
    *ret = NULL;
    return rc == EA_ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR;
}
