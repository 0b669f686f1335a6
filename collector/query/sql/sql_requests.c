/* The database of the table of requests: requests.db, with the machines that the caller may see beside it, and
 * functions that read what a request's bytes say. Called by: sql_tables.c. Calls: collector/state/requests.h,
 * archive.h. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/requests.h"
#include "proto/base/pattern.h"

#include <string.h>

/* Whether a name fits patterns. */
static void requests_name_in(sqlite3_context *c, int count, sqlite3_value **v) {
    const char *patterns = (const char *)sqlite3_value_text(v[0]), *name = (const char *)sqlite3_value_text(v[1]);
    (void)count;
    sqlite3_result_int(c, patterns && name && ea_name_in(patterns, name));
}

/* The patterns of a request; NULL for a caller who sees some hosts alone, since they may name others. */
static void requests_hosts(sqlite3_context *c, int count, sqlite3_value **v) {
    const ec_sql *s = sqlite3_user_data(c);
    (void)count;
    if (!s->options.shown)
        sqlite3_result_value(c, v[0]);
}

static void requests_state(sqlite3_context *c, int count, sqlite3_value **v) {
    const ec_sql *s = sqlite3_user_data(c);
    int is_expired = sqlite3_value_int64(v[2]) <= s->now_utc_ns;
    (void)count;
    sqlite3_result_text(c, ec_request_state((uint32_t)sqlite3_value_int64(v[0]), sqlite3_value_int(v[1]), is_expired),
                        -1, SQLITE_STATIC);
}

/* A part of a request's bytes: kind, begin, end, limit. NULL: they are damaged, or of a newer kind. */
static void requests_part(sqlite3_context *c, int count, sqlite3_value **v) {
    ea_signed_request s;
    ea_request q;
    ea_err ignored = {0};
    const uint8_t *bytes = sqlite3_value_blob(v[0]);
    const char *which = (const char *)sqlite3_value_text(v[1]);
    (void)count;
    if (!bytes || !which || ea_signed_request_decode(&s, bytes, (size_t)sqlite3_value_bytes(v[0]), &ignored) ||
        ea_request_decode(&q, s.request, s.request_bytes, &ignored))
        return;
    if (strcmp(which, "begin") == 0)
        sqlite3_result_int64(c, q.from_utc_ns);
    else if (strcmp(which, "end") == 0)
        sqlite3_result_int64(c, q.to_utc_ns);
    else if (strcmp(which, "limit") == 0)
        sqlite3_result_int64(c, (sqlite3_int64)q.limit_bytes);
    else if (q.kind == EA_REQUEST_WINDOW)
        sqlite3_result_text(c, "window", -1, SQLITE_STATIC);
}

/* The machines of which something is stored, as far as the caller sees them, and those that answered a request. */
static int fill_machines(ec_sql *s, sqlite3 *db, ea_err *err) {
    static const char DOING[] = "list the machines of requests";
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    sqlite3_stmt *st = NULL;
    int rc = ec_archive_streams(s->archive, &streams, &count, err);
    if (!rc)
        rc = ec_sqlite_exec(db,
                            "CREATE TEMP TABLE machines(host TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO machines"
                            " SELECT DISTINCT host FROM reports",
                            DOING, err);
    for (size_t i = 0; !rc && i < count; i++) {
        if (i && strcmp(streams[i].row.host, streams[i - 1].row.host) == 0)
            continue;
        rc = ec_sqlite_prepare(db, &st, "INSERT OR IGNORE INTO machines VALUES(?1)", DOING, err);
        if (!rc && sqlite3_bind_text(st, 1, streams[i].row.host, -1, SQLITE_STATIC) != SQLITE_OK)
            rc = ea_fail(err, EA_ENOMEM, "%s", DOING);
        if (!rc)
            rc = ec_sqlite_run(st, DOING, err);
    }
    sqlite3_finalize(st);
    return rc;
}

int ec_sql_open_requests(ec_sql *s, sqlite3 **ret, ea_err *err) {
    enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC };

    static const struct {
        const char *name;
        int arguments;
        void (*function)(sqlite3_context *c, int count, sqlite3_value **v);
    } FUNCTIONS[] = {{"name_in", 2, requests_name_in},
                     {"request_hosts", 1, requests_hosts},
                     {"request_state", 3, requests_state},
                     {"request_part", 2, requests_part}};

    sqlite3 *db = s->requests;
    int rc = db ? 0 : ec_requests_read(&db, s->dir, err);
    if (rc || s->requests) {
        *ret = db;
        return rc;
    }
    for (size_t i = 0; !rc && i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (sqlite3_create_function_v2(db, FUNCTIONS[i].name, FUNCTIONS[i].arguments, FLAGS, s, FUNCTIONS[i].function,
                                       NULL, NULL, NULL) != SQLITE_OK)
            rc = ea_fail(err, EA_ENOMEM, "read the requests");
    if (!rc)
        rc = fill_machines(s, db, err);
    if (rc) {
        sqlite3_close(db);
        return rc;
    }
    *ret = s->requests = db;
    return 0;
}
