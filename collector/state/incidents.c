/* See incidents.h. */
#include "collector/state/incidents.h"

#include "collector/state/state_db.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

enum { BUSY_MS = 5000 };

#define DETECTIONS_TABLE                                                                                               \
    "detections(detection_id INTEGER PRIMARY KEY, host TEXT NOT NULL, stream TEXT NOT NULL, batch INTEGER NOT NULL,"   \
    " position INTEGER NOT NULL, rule TEXT NOT NULL, title TEXT NOT NULL, level TEXT NOT NULL,"                        \
    " source TEXT NOT NULL, utc_ns INTEGER NOT NULL, found_utc_ns INTEGER NOT NULL, pid INTEGER, process TEXT,"        \
    " fields TEXT NOT NULL, state TEXT NOT NULL, who TEXT NOT NULL, comment TEXT NOT NULL, state_utc_ns INTEGER,"      \
    " tags TEXT NOT NULL DEFAULT '[]', text_id INTEGER, chain TEXT NOT NULL DEFAULT '[]',"                             \
    " UNIQUE(host, stream, batch, position, rule));"
#define SUPPRESSED_TABLE                                                                                               \
    "detections_suppressed(host TEXT NOT NULL, stream TEXT NOT NULL, batch INTEGER NOT NULL, rule TEXT NOT NULL,"      \
    " filter TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY(host, stream, batch, rule, filter)) WITHOUT ROWID;"
#define LEFT_OUT_TABLE                                                                                                 \
    "detections_left_out(host TEXT NOT NULL, stream TEXT NOT NULL, batch INTEGER NOT NULL, rule TEXT NOT NULL, count"  \
    " INTEGER NOT NULL, PRIMARY KEY(host, stream, batch, rule)) WITHOUT ROWID;"
/* The texts of rules as they were when they matched. */
#define RULES_TABLE "detections_rules(text_id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"

/* See detections.h. detections_left_out: matches of a batch beyond the bound of their rule; detections_suppressed:
 * those that a filter excepted. detections_last: the highest number that a deleted detection may have had;
 * detections_sent: how far a receiver has got. correlation_...: correlations.h of collector/detect. detections_next: of
 * a stream the number of the first batch that is not judged; detections_seen: the place up to which arrivals are known.
 */
#define DETECTIONS                                                                                                     \
    "CREATE TABLE IF NOT EXISTS " DETECTIONS_TABLE "CREATE TABLE IF NOT EXISTS " RULES_TABLE                           \
    "CREATE INDEX IF NOT EXISTS detections_rule ON detections(host, rule, utc_ns);"                                    \
    "CREATE TABLE IF NOT EXISTS " LEFT_OUT_TABLE "CREATE TABLE IF NOT EXISTS " SUPPRESSED_TABLE                        \
    "CREATE TABLE IF NOT EXISTS detections_last(one INTEGER PRIMARY KEY CHECK(one = 1), number INTEGER NOT NULL);"     \
    "CREATE TABLE IF NOT EXISTS detections_sent(name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;"        \
    "CREATE TABLE IF NOT EXISTS correlation_hits(host TEXT NOT NULL, stream TEXT NOT NULL, batch INTEGER NOT NULL,"    \
    " position INTEGER NOT NULL, rule TEXT NOT NULL, correlation TEXT NOT NULL, grouped TEXT NOT NULL, utc_ns INTEGER" \
    " NOT NULL, found_utc_ns INTEGER NOT NULL, value TEXT, pid INTEGER, process TEXT, fields TEXT NOT NULL,"           \
    " UNIQUE(host, stream, batch, position, rule, correlation));"                                                      \
    "CREATE INDEX IF NOT EXISTS correlation_hits_of ON correlation_hits(correlation, grouped, utc_ns);"                \
    "CREATE INDEX IF NOT EXISTS correlation_hits_found ON correlation_hits(correlation, found_utc_ns);"                \
    "CREATE TABLE IF NOT EXISTS correlation_alerts(correlation TEXT NOT NULL, grouped TEXT NOT NULL, utc_ns INTEGER"   \
    " NOT NULL, found_utc_ns INTEGER NOT NULL, host TEXT NOT NULL, stream TEXT NOT NULL, PRIMARY KEY(correlation, "    \
    "grouped, utc_ns)) WITHOUT ROWID;"                                                                                 \
    "CREATE TABLE IF NOT EXISTS detections_next(host TEXT NOT NULL, stream TEXT NOT NULL, number INTEGER NOT NULL,"    \
    " is_pending INTEGER NOT NULL, is_late INTEGER NOT NULL, noticed_utc_ns INTEGER NOT NULL, PRIMARY KEY(host, "      \
    "stream)) WITHOUT ROWID;"                                                                                          \
    "CREATE TABLE IF NOT EXISTS detections_seen(segment INTEGER NOT NULL, offset INTEGER NOT NULL);"

/* look: 1 since the look at hand says that it holds */
static const char SCHEMA[] =
    "CREATE TABLE IF NOT EXISTS alarms(alarm_id INTEGER PRIMARY KEY, host TEXT NOT NULL, stream TEXT NOT NULL,"
    " kind TEXT NOT NULL, family TEXT NOT NULL, begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER,"
    " left_count INTEGER NOT NULL, right_count INTEGER NOT NULL, text TEXT NOT NULL, look INTEGER NOT NULL,"
    " UNIQUE(host, stream, kind, family, begin_utc_ns));"
    /* what agents and readers used when the watch looked last; position: of the resource among all */
    "CREATE TABLE IF NOT EXISTS quotas(who TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL,"
    " resource TEXT NOT NULL, unit TEXT NOT NULL, allowed INTEGER NOT NULL, period_s INTEGER NOT NULL,"
    " used INTEGER NOT NULL, refused INTEGER NOT NULL, above_since_utc_ns INTEGER NOT NULL, utc_ns INTEGER NOT NULL,"
    " PRIMARY KEY(who, name, position)) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS alarms_open ON alarms(host, stream, kind, family) WHERE end_utc_ns IS NULL;" DETECTIONS;

#define KEY " host = ?1 AND stream = ?2 AND kind = ?3 AND family = ?4"

enum which { GO_ON, ADD, ADD_OVER, ADD_USE, COUNT };

static const char *const STATEMENTS[COUNT] = {
    [GO_ON] =
        "UPDATE alarms SET look = 1, left_count = ?6, right_count = ?7, text = ?8 WHERE" KEY " AND end_utc_ns IS NULL",
    [ADD] = "INSERT OR IGNORE INTO alarms VALUES(NULL, ?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7, ?8, 1)",
    [ADD_USE] = "INSERT OR REPLACE INTO quotas VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [ADD_OVER] =
        "INSERT INTO alarms SELECT NULL, ?1, ?2, ?3, ?4, ?5, ?9, ?6, ?7, ?8, 1 WHERE NOT EXISTS"
        " (SELECT 1 FROM alarms WHERE" KEY " AND (end_utc_ns IS NULL OR end_utc_ns >= ?5 OR begin_utc_ns = ?5))",
};

struct ec_incidents {
    sqlite3 *db;
    sqlite3_stmt *statements[COUNT];
};

static int incidents_exec(ec_incidents *a, const char *sql, ea_err *err) {
    return sqlite3_exec(a->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : ec_fail_sqlite(err, a->db, "keep incidents");
}

/* Columns that older files lack. */
static const struct {
    const char *name, *declared, *value;
} NEW_COLUMNS[] = {{"tags", "TEXT NOT NULL DEFAULT '[]'", "'[]'"},
                   {"text_id", "INTEGER", "NULL"},
                   {"chain", "TEXT NOT NULL DEFAULT '[]'", "'[]'"}};

enum { NEW_COLUMN_COUNT = sizeof NEW_COLUMNS / sizeof *NEW_COLUMNS };

static int has_column(ec_incidents *a, const char *table, const char *column) {
    return sqlite3_table_column_metadata(a->db, "main", table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

/* Adds the columns that the file's detections lack. Another process may be doing the same. */
static int incidents_add_columns(ec_incidents *a, ea_err *err) {
    char sql[200];
    if (has_column(a, "detections", NEW_COLUMNS[NEW_COLUMN_COUNT - 1].name))
        return 0;
    int rc = incidents_exec(a, "BEGIN IMMEDIATE", err);
    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < NEW_COLUMN_COUNT; i++) {
        snprintf(sql, sizeof sql, "ALTER TABLE detections ADD COLUMN %s %s", NEW_COLUMNS[i].name,
                 NEW_COLUMNS[i].declared);
        rc = has_column(a, "detections", NEW_COLUMNS[i].name) ? 0 : incidents_exec(a, sql, err);
    }
    if (!rc)
        rc = incidents_exec(a, "COMMIT", err);
    if (rc)
        (void)sqlite3_exec(a->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Puts views in place of what a file of an older version lacks, which stays as it is. */
static int show_columns(ec_incidents *a, ea_err *err) {
    char sql[500] = "CREATE TEMP VIEW detections AS SELECT *";
    size_t at = strlen(sql);
    int rc =
        has_column(a, "detections_left_out", NULL) ? 0 : incidents_exec(a, "CREATE TEMP TABLE " LEFT_OUT_TABLE, err);
    if (!rc && !has_column(a, "detections_suppressed", NULL))
        rc = incidents_exec(a, "CREATE TEMP TABLE " SUPPRESSED_TABLE, err);
    if (rc)
        return rc;
    if (!has_column(a, "detections", NULL))
        return incidents_exec(a, "CREATE TEMP TABLE " DETECTIONS_TABLE "CREATE TEMP TABLE " RULES_TABLE, err);
    if (has_column(a, "detections", NEW_COLUMNS[NEW_COLUMN_COUNT - 1].name))
        return 0;
    for (size_t i = 0; i < NEW_COLUMN_COUNT; i++)
        if (!has_column(a, "detections", NEW_COLUMNS[i].name))
            at += (size_t)snprintf(sql + at, sizeof sql - at, ", %s AS %s", NEW_COLUMNS[i].value, NEW_COLUMNS[i].name);
    snprintf(sql + at, sizeof sql - at, " FROM main.detections");
    rc = incidents_exec(a, sql, err);
    if (!rc && !has_column(a, "detections_rules", NULL))
        rc = incidents_exec(a, "CREATE TEMP TABLE " RULES_TABLE, err);
    return rc;
}

int ec_incidents_open(ec_incidents **ret, const char *dir, int writable, ea_err *err) {
    char path[1200];
    ec_incidents *a = calloc(1, sizeof *a);
    if (!a ||
        snprintf(path, sizeof path, "%s%s", dir ? dir : ":memory:", dir ? "/alarms.db" : "") >= (int)sizeof path) {
        free(a);
        return ea_fail(err, EA_ENOMEM, "open the incidents of %s", dir ? dir : "no store");
    }
    int is_there = writable || ea_path_exists(path);
    int flags = SQLITE_OPEN_NOMUTEX | (writable   ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                       : is_there ? SQLITE_OPEN_READONLY
                                                  : SQLITE_OPEN_READWRITE);
    int rc = 0;
    if (sqlite3_open_v2(is_there ? path : ":memory:", &a->db, flags, NULL) != SQLITE_OK)
        rc = a->db ? ec_fail_sqlite(err, a->db, "open the incidents") : ea_fail(err, EA_ENOMEM, "open the incidents");
    if (!rc)
        sqlite3_busy_timeout(a->db, BUSY_MS);
    if (!rc && (writable || !is_there))
        rc = incidents_exec(a, SCHEMA, err);
    if (!rc && is_there)
        rc = writable ? incidents_add_columns(a, err) : show_columns(a, err);
    for (int i = 0; !rc && writable && i < COUNT; i++)
        if (sqlite3_prepare_v2(a->db, STATEMENTS[i], -1, &a->statements[i], NULL) != SQLITE_OK)
            rc = ec_fail_sqlite(err, a->db, "keep incidents");
    if (rc) {
        ec_incidents_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_incidents_close(ec_incidents *a) {
    if (!a)
        return;
    for (int i = 0; i < COUNT; i++)
        sqlite3_finalize(a->statements[i]);
    sqlite3_close(a->db);
    free(a);
}

sqlite3 *ec_incidents_database(ec_incidents *a) {
    return a->db;
}

/* The rows that changed, or an error. end_utc_ns: of ADD_OVER. */
static int incidents_run(ec_incidents *a, enum which which, const ec_alarm *alarm, const int64_t *end_utc_ns,
                         ea_err *err) {
    sqlite3_stmt *st = a->statements[which];
    const char *const texts[] = {alarm->host, alarm->stream, alarm->kind, alarm->family};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_text(st, i + 1, texts[i], -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, alarm->begin_utc_ns);
    sqlite3_bind_int64(st, 6, (sqlite3_int64)alarm->left);
    sqlite3_bind_int64(st, 7, (sqlite3_int64)alarm->right);
    sqlite3_bind_text(st, 8, alarm->text, -1, SQLITE_STATIC);
    if (end_utc_ns)
        sqlite3_bind_int64(st, 9, *end_utc_ns);
    int code = sqlite3_step(st), rc = code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, a->db, "keep an incident");
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc ? rc : sqlite3_changes(a->db);
}

int ec_incidents_begin(ec_incidents *a, ea_err *err) {
    int rc = incidents_exec(a, "BEGIN IMMEDIATE", err);
    return rc ? rc : incidents_exec(a, "UPDATE alarms SET look = 0 WHERE look <> 0", err);
}

int ec_incidents_holds(ec_incidents *a, const ec_alarm *alarm, int only_open, ea_err *err) {
    int rc = incidents_run(a, GO_ON, alarm, NULL, err);
    if (rc || only_open)
        return rc < 0 ? rc : 0;
    return incidents_run(a, ADD, alarm, NULL, err);
}

int ec_incidents_held(ec_incidents *a, const ec_alarm *alarm, int64_t end_utc_ns, ea_err *err) {
    return incidents_run(a, ADD_OVER, alarm, &end_utc_ns, err);
}

int ec_incidents_put_uses(ec_incidents *a, const ec_quota_use *uses, size_t count, int64_t now_utc_ns, ea_err *err) {
    sqlite3_stmt *st = a->statements[ADD_USE];
    int rc = incidents_exec(a, "DELETE FROM quotas", err);
    for (size_t i = 0; i < count && i < EC_ALARMS_USES; i++)
        for (int k = 0; !rc && k < EC_QUOTA_COUNT; k++) {
            const ec_quota_info *row = ec_quota_row((enum ec_quota_resource)k);
            if (row->who != uses[i].who)
                continue;
            const int64_t numbers[] = {(int64_t)uses[i].of[k].limit,     (int64_t)row->period_s,
                                       (int64_t)uses[i].of[k].used,      (int64_t)uses[i].of[k].refused,
                                       uses[i].of[k].above_since_utc_ns, now_utc_ns};
            sqlite3_bind_text(st, 1, ec_quota_who_name(uses[i].who), -1, SQLITE_STATIC);
            sqlite3_bind_text(st, 2, uses[i].name, -1, SQLITE_STATIC);
            sqlite3_bind_int(st, 3, k);
            sqlite3_bind_text(st, 4, row->name, -1, SQLITE_STATIC);
            sqlite3_bind_text(st, 5, row->unit, -1, SQLITE_STATIC);
            for (int n = 0; n < 6; n++)
                sqlite3_bind_int64(st, 6 + n, numbers[n]);
            rc = sqlite3_step(st) == SQLITE_DONE ? 0 : ec_fail_sqlite(err, a->db, "keep the quotas");
            sqlite3_reset(st);
            sqlite3_clear_bindings(st);
        }
    return rc;
}

int ec_incidents_end(ec_incidents *a, int64_t now_utc_ns, uint64_t *ret_ended, ea_err *err) {
    char sql[400];
    snprintf(sql, sizeof sql, "UPDATE alarms SET end_utc_ns = %lld WHERE end_utc_ns IS NULL AND look = 0",
             (long long)now_utc_ns);
    int rc = incidents_exec(a, sql, err);
    if (!rc)
        *ret_ended = (uint64_t)sqlite3_changes(a->db);
    snprintf(sql, sizeof sql,
             "DELETE FROM alarms WHERE end_utc_ns IS NOT NULL AND alarm_id <= (SELECT alarm_id FROM alarms WHERE"
             " end_utc_ns IS NOT NULL ORDER BY alarm_id DESC LIMIT 1 OFFSET %d)",
             EC_ALARMS_KEPT);
    if (!rc)
        rc = incidents_exec(a, sql, err);
    return rc ? rc : incidents_exec(a, "COMMIT", err);
}

void ec_incidents_undo(ec_incidents *a) {
    (void)sqlite3_exec(a->db, "ROLLBACK", NULL, NULL, NULL);
}
