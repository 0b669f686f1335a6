/* The connection and what it may do. See sql.h. */
#include "collector/query/analysis/account_names.h"
#include "collector/query/analysis/event_annotations.h"
#include "collector/query/analysis/instances.h"
#include "collector/query/sql/sql_parts.h"
#include "collector/state/incidents.h"
#include "collector/state/ledger_report.h"

#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_MAX = 16 << 20, /* of a text, a blob, a row */
    SQL_MAX = 1 << 20,     /* of a statement */
};

/* ---- what a statement may do ---- */

static int is_one_of(const char *name, const char *const *list) {
    for (; *list; list++)
        if (name && sqlite3_stricmp(name, *list) == 0)
            return 1;
    return 0;
}

/* Reading and computing; nothing that names a file, changes the connection or loads code. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *database, const char *trigger) {
    static const char *const FORBIDDEN[] = {"load_extension", "fts3_tokenizer", "sqlite_log", NULL};
    static const char *const OF_HISTORY[] = {"process_at", "thread_at", "registry_key_at", NULL};
    static const char *const PRAGMAS[] = {"table_info",  "table_xinfo",    "table_list",      "function_list",
                                          "module_list", "collation_list", "compile_options", NULL};
    ec_sql *s = arg;
    (void)database, (void)trigger;
    switch (action) {
    case SQLITE_READ:
        s->describes_tables |= a && sqlite3_strnicmp(a, "pragma_table_", 13) == 0;
        return SQLITE_OK;
    case SQLITE_PRAGMA:
        s->describes_tables |= a && sqlite3_strnicmp(a, "table_", 6) == 0;
        return is_one_of(a, PRAGMAS) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        s->uses_history |= is_one_of(b, OF_HISTORY);
        return is_one_of(b, FORBIDDEN) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_UPDATE: /* sqlite3_declare_vtab needs it; the connection is defensive, so other code cannot change it */
        return a && strcmp(a, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int on_progress(void *arg) {
    const ec_sql *s = arg;
    return !s->options.keep_going(s->options.arg);
}

/* A sort holds in memory what the cache of the connection's database may have, which itself is empty. */
static int set_sort_bytes(sqlite3 *db, uint64_t bytes, ea_err *err) {
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA cache_size = -%" PRIu64, bytes >> 10);
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : ea_fail(err, EA_EDATABASE, "prepare a sort: %s", sqlite3_errmsg(db));
}

int ec_sql_open(ec_sql **ret, const char *dir, const ec_sql_options *options, ea_err *err) {
    ec_sql *s = calloc(1, sizeof *s);
    size_t n = strlen(dir);
    if (!s || !(s->dir = malloc(n + 1))) {
        free(s);
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    }
    memcpy(s->dir, dir, n + 1);
    s->options = *options;
    s->now_utc_ns = ea_utc_ns();
    int rc = ec_archive_open(&s->archive, dir, options->host, options->shown, err);
    if (!rc)
        ec_archive_on_batch(s->archive, options->keep_going, options->arg);
    if (!rc && ec_annotations_create(&s->links, s->archive))
        rc = ea_fail(err, EA_ENOMEM, "open %s", dir);
    if (!rc)
        s->annotator = ec_annotations_annotator(s->links);
    if (!rc && sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        rc = ea_fail(err, EA_ENOMEM, "open %s", dir);
    if (!rc) {
        sqlite3_extended_result_codes(s->db, 1);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
        sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
        sqlite3_limit(s->db, SQLITE_LIMIT_SQL_LENGTH, SQL_MAX);
        sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 0);
        sqlite3_limit(s->db, SQLITE_LIMIT_WORKER_THREADS, 0);
        if (options->sort_bytes)
            rc = set_sort_bytes(s->db, options->sort_bytes, err);
    }
    if (!rc && options->keep_going) /* the tables' own statements are bounded by it, too */
        sqlite3_progress_handler(s->db, 10000, on_progress, s);
    if (!rc)
        rc = ec_sql_add_functions(s, err);
    if (!rc)
        rc = ec_sql_add_tables(s, err);
    if (!rc)
        rc = ec_sql_add_activity(s, err);
    if (!rc)
        rc = ec_sql_add_views(s, err);
    if (!rc)
        rc = ec_sql_add_analyze(s, err);
    if (!rc)
        rc = ec_sql_add_events(s, err); /* the last: a class cannot take another table's name */
    if (rc) {
        ec_sql_close(s);
        return rc;
    }
    sqlite3_set_authorizer(s->db, authorize, s);
    *ret = s;
    return 0;
}

void ec_sql_close(ec_sql *s) {
    if (!s)
        return;
    sqlite3_finalize(s->format);
    sqlite3_close(s->plain);
    sqlite3_close(s->db);
    sqlite3_close(s->memory);
    ec_ends_close(s->ends);
    ec_state_db_close(s->state);
    ec_incidents_close(s->alarms);
    sqlite3_close(s->requests);
    ec_accounts_destroy(s->accounts);
    ec_instances_destroy(s->instances);
    ec_annotations_destroy(s->links);
    ec_archive_close(s->archive);
    for (size_t i = 0; i < s->taken_count; i++)
        sqlite3_free(s->taken[i]);
    free(s->taken);
    free(s->added);
    free(s->dir);
    free(s);
}

sqlite3 *ec_sql_database(ec_sql *s) {
    return s->db;
}

ec_value ec_sql_cell(sqlite3_stmt *st, int column) {
    int type = sqlite3_column_type(st, column);
    switch (type) {
    case SQLITE_INTEGER:
        return (ec_value){.type = EC_INT, .i = sqlite3_column_int64(st, column)};
    case SQLITE_FLOAT:
        return (ec_value){.type = EC_REAL, .r = sqlite3_column_double(st, column)};
    case SQLITE_NULL:
        return (ec_value){.type = EC_NULL};
    default:
        return (ec_value){.type = type == SQLITE_TEXT ? EC_TEXT : EC_BLOB,
                          .data = sqlite3_column_blob(st, column),
                          .len_bytes = (size_t)sqlite3_column_bytes(st, column)};
    }
}

int ec_sql_uses_history(const ec_sql *s) {
    return s->uses_history;
}

int ec_sql_names_functions(const ec_sql *s) {
    return s->names_functions;
}

int ec_sql_describes_tables(const ec_sql *s) {
    return s->describes_tables;
}

ec_archive *ec_sql_archive(ec_sql *s) {
    return s->archive;
}
