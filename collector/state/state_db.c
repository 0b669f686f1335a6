/* The tables of the history: schema, writing, reading back. See state_db.h. */
#include "collector/state/state_db.h"

#include "collector/state/gaps.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCHEMA_VERSION = 10,
    WITHOUT_KINDS = 9, /* a version that can be completed */
    WITHOUT_FACTS = 8, /* and other ones */
    WITHOUT_HASHES = 7,
    WITH_OLD_NAMES = 6,
    WITHOUT_SUMS = 5,
    BUSY_TIMEOUT_MS = 10000
};

enum { LIFE_COLUMNS = 6 /* EC_LIFE_COLUMNS */, LIFE_VALUES = 7 /* the stream before them */ };

/* Types of columns (machine_columns.h) in SQL. */
#define SQL_U16                          "INTEGER NOT NULL"
#define SQL_U32                          "INTEGER NOT NULL"
#define SQL_I32                          "INTEGER NOT NULL"
#define SQL_NUMBER                       "INTEGER NOT NULL"
#define SQL_ADDRESS                      "INTEGER NOT NULL"
#define SQL_TEXT                         "TEXT NOT NULL"
#define SQL_PDB                          "TEXT"
#define TYPED_COLUMN(kind, member, role) ", " #member " " SQL_##kind
#define LIFE_TABLE(name, COLUMNS)                                                                                      \
    "CREATE TABLE " name "(stream INTEGER NOT NULL, instance INTEGER NOT NULL, begin_utc_ns INTEGER NOT NULL,"         \
    " end_utc_ns INTEGER NOT NULL, seen_utc_ns INTEGER NOT NULL, begin_cause INTEGER NOT NULL,"                        \
    " end_cause INTEGER NOT NULL" COLUMNS(TYPED_COLUMN) ", PRIMARY KEY(stream, instance)) WITHOUT ROWID;"              \
                                                        "CREATE INDEX " name "_pid ON " name                           \
                                                        "(stream, pid, begin_utc_ns);"                                 \
                                                        "CREATE INDEX " name "_end ON " name "(stream, end_utc_ns);"

/* SCHEMA.md describes these and the next ones. */
static const char LIVES[] = LIFE_TABLE("processes", EA_PROCESS_COLUMNS) LIFE_TABLE("threads", EA_THREAD_COLUMNS)
    LIFE_TABLE("modules", EA_MODULE_COLUMNS) "CREATE INDEX processes_begin ON processes(stream, begin_utc_ns);"
                                             "CREATE INDEX threads_tid ON threads(stream, tid, begin_utc_ns);";

static const char SCHEMA[] =
    "CREATE TABLE streams(stream INTEGER PRIMARY KEY, host TEXT NOT NULL, id BLOB NOT NULL, position INTEGER NOT NULL,"
    " batch_count INTEGER NOT NULL, event_count INTEGER NOT NULL, missing_count INTEGER NOT NULL,"
    " damaged_count INTEGER NOT NULL, last_instance INTEGER NOT NULL,"
    " begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL, UNIQUE(host, id));"
    "CREATE TABLE pending_ids(stream INTEGER NOT NULL, utc_ns INTEGER NOT NULL, pid INTEGER NOT NULL,"
    " base INTEGER NOT NULL, size_bytes INTEGER NOT NULL, timestamp INTEGER NOT NULL, pdb_guid TEXT,"
    " pdb_age INTEGER NOT NULL, pdb_path TEXT NOT NULL, original_name TEXT NOT NULL, PRIMARY KEY(stream, pid, base))"
    " WITHOUT ROWID;"
    "CREATE TABLE names(stream INTEGER NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " address INTEGER NOT NULL, begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL, name TEXT NOT NULL,"
    " PRIMARY KEY(stream, number)) WITHOUT ROWID;"
    "CREATE INDEX names_address ON names(stream, kind, address, begin_utc_ns);"
    "CREATE INDEX names_end ON names(stream, end_utc_ns);"
    "CREATE TABLE operations(stream INTEGER NOT NULL, number INTEGER NOT NULL, irp INTEGER NOT NULL,"
    " begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL, status INTEGER NOT NULL,"
    " information INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY(stream, number)) WITHOUT ROWID;"
    "CREATE INDEX operations_irp ON operations(stream, irp, begin_utc_ns);"
    "CREATE TABLE volumes(stream INTEGER NOT NULL, nt_path TEXT NOT NULL, dos_path TEXT NOT NULL,"
    " PRIMARY KEY(stream, nt_path)) WITHOUT ROWID;"
    "CREATE TABLE ledger_batches(stream INTEGER NOT NULL, number INTEGER NOT NULL, incarnation INTEGER NOT NULL,"
    " utc_ns INTEGER NOT NULL, begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL,"
    " stored_count INTEGER NOT NULL, PRIMARY KEY(stream, number)) WITHOUT ROWID;"
    "CREATE TABLE ledger_counts(stream INTEGER NOT NULL, family TEXT NOT NULL, counter INTEGER NOT NULL,"
    " number INTEGER NOT NULL, value INTEGER NOT NULL, PRIMARY KEY(stream, family, counter, number)) WITHOUT ROWID;"
    "CREATE INDEX ledger_counts_number ON ledger_counts(stream, number);"
    "CREATE TABLE gaps(stream INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " cause INTEGER NOT NULL, position INTEGER NOT NULL, batch_count INTEGER NOT NULL, event_count INTEGER,"
    " least_count INTEGER NOT NULL, counted INTEGER NOT NULL, record_count INTEGER NOT NULL,"
    " begin_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL, PRIMARY KEY(stream, first, cause, position))"
    " WITHOUT ROWID;"
    "CREATE TABLE alerts(stream INTEGER NOT NULL, number INTEGER NOT NULL, family TEXT NOT NULL, kind INTEGER NOT NULL,"
    " utc_ns INTEGER NOT NULL, left_count INTEGER NOT NULL, right_count INTEGER NOT NULL, text TEXT NOT NULL,"
    " PRIMARY KEY(stream, number, family, kind)) WITHOUT ROWID;";

/* The columns of modules that version 8 has and the ones before had not. */
static const char MORE_OF_FILES[] = "ALTER TABLE modules ADD COLUMN md5 TEXT NOT NULL DEFAULT '';"
                                    "ALTER TABLE modules ADD COLUMN sha1 TEXT NOT NULL DEFAULT '';"
                                    "ALTER TABLE modules ADD COLUMN imphash TEXT NOT NULL DEFAULT '';"
                                    "ALTER TABLE modules ADD COLUMN description TEXT NOT NULL DEFAULT '';";

/* What version 10 has and the ones before had not. */
static const char KIND_OF_MODULES[] = "ALTER TABLE modules ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;";

/* What version 9 has and the ones before had not. */
static const char PENDING_FACTS[] =
    "CREATE TABLE pending_facts(stream INTEGER NOT NULL, number INTEGER NOT NULL, utc_ns INTEGER NOT NULL,"
    " created_utc_ns INTEGER NOT NULL, pid INTEGER NOT NULL, parent_pid INTEGER NOT NULL,"
    " mandatory_label TEXT NOT NULL, elevation_type INTEGER NOT NULL, elevated INTEGER NOT NULL,"
    " logon_id INTEGER NOT NULL, PRIMARY KEY(stream, number)) WITHOUT ROWID;";
static const char MORE_OF_PROCESSES[] = /* logon_id: 0 as an address */
    "ALTER TABLE processes ADD COLUMN mandatory_label TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE processes ADD COLUMN elevation_type INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE processes ADD COLUMN elevated INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE processes ADD COLUMN logon_id INTEGER NOT NULL DEFAULT -9223372036854775808;";

/* Until version 6 the gaps had another name. */
static const char OLD_NAMES_GO[] =
    "DROP VIEW blind; DROP TRIGGER IF EXISTS blind_added; DROP TRIGGER IF EXISTS blind_changed;"
    " DROP TRIGGER IF EXISTS blind_removed; DROP TABLE IF EXISTS blind_sums; DROP INDEX IF EXISTS blindness_end;"
    " ALTER TABLE blindness RENAME TO gaps;";

/* Gaps with the ends that are not known yet: of the stream's time, or NULL. The stream's time does not have that of
 * batches that are missing before its first event or after its last one; where nothing says when the former began or
 * the latter ended, it is not known. */
static const char GAP_PERIODS[] =
    "CREATE VIEW gap_periods AS SELECT t.stream, t.first, t.last, t.cause, t.position, t.batch_count, t.event_count,"
    " t.least_count, t.counted, t.record_count, CASE WHEN t.begin_utc_ns > -9223372036854775807 - 1 THEN t.begin_utc_ns"
    " WHEN s.begin_utc_ns > -9223372036854775807 - 1 THEN (SELECT CASE WHEN count(*) = 0 THEN s.begin_utc_ns"
    " WHEN min(m.begin_utc_ns) > -9223372036854775807 - 1 AND max(m.end_utc_ns) > min(m.begin_utc_ns) THEN"
    " min(s.begin_utc_ns, min(m.begin_utc_ns)) END FROM gaps m WHERE m.stream = t.stream AND m.first = 1 AND"
    " m.batch_count > 0) ELSE"
    " (SELECT min(b.utc_ns) FROM ledger_batches b WHERE b.stream = t.stream) END AS begin_utc_ns,"
    " CASE WHEN t.end_utc_ns < 9223372036854775807 THEN t.end_utc_ns WHEN t.begin_utc_ns = -9223372036854775807 - 1 AND"
    " t.cause IN (" EC_GAP_AT_ONCE ") AND s.end_utc_ns > -9223372036854775807 - 1 THEN (SELECT"
    " nullif(ifnull(max(m.end_utc_ns), s.end_utc_ns), 9223372036854775807) FROM gaps m WHERE m.stream = t.stream AND"
    " m.end_utc_ns > s.end_utc_ns AND m.batch_count > 0) END AS end_utc_ns"
    " FROM gaps t JOIN streams s ON s.stream = t.stream";

/* The old names, until version 0.2 of the program. */
#define OLD_GAPS    "CREATE VIEW blindness AS SELECT * FROM gaps"
#define OLD_PERIODS "CREATE VIEW blind AS SELECT * FROM gap_periods"
static const char OLD_NAMES[] = ";" OLD_GAPS ";" OLD_PERIODS ";";

#define GAP_ADDED                                                                                                      \
    "CREATE TRIGGER gap_added AFTER INSERT ON gaps BEGIN"                                                              \
    " INSERT INTO gap_sums VALUES(NEW.stream, NEW.cause, 1, NEW.record_count = 0, NEW.batch_count, NEW.least_count)"   \
    " ON CONFLICT(stream, cause) DO UPDATE SET row_count = row_count + 1,"                                             \
    " unrecorded_count = unrecorded_count + excluded.unrecorded_count,"                                                \
    " batch_count = batch_count + excluded.batch_count, least_count = least_count + excluded.least_count; END"
#define GAP_CHANGED                                                                                                    \
    "CREATE TRIGGER gap_changed AFTER UPDATE OF record_count, batch_count, least_count ON gaps BEGIN"                  \
    " UPDATE gap_sums SET unrecorded_count = unrecorded_count + (NEW.record_count = 0) - (OLD.record_count = 0),"      \
    " batch_count = batch_count + NEW.batch_count - OLD.batch_count,"                                                  \
    " least_count = least_count + NEW.least_count - OLD.least_count"                                                   \
    " WHERE stream = NEW.stream AND cause = NEW.cause; END"
#define GAP_REMOVED                                                                                                    \
    "CREATE TRIGGER gap_removed AFTER DELETE ON gaps BEGIN"                                                            \
    " UPDATE gap_sums SET row_count = row_count - 1, unrecorded_count = unrecorded_count - (OLD.record_count = 0),"    \
    " batch_count = batch_count - OLD.batch_count, least_count = least_count - OLD.least_count"                        \
    " WHERE stream = OLD.stream AND cause = OLD.cause;"                                                                \
    " DELETE FROM gap_sums WHERE stream = OLD.stream AND cause = OLD.cause AND row_count = 0; END"
#define ALERT_ADDED                                                                                                    \
    "CREATE TRIGGER alert_added AFTER INSERT ON alerts BEGIN INSERT INTO alert_sums VALUES(NEW.stream, 1)"             \
    " ON CONFLICT(stream) DO UPDATE SET row_count = row_count + 1; END"
#define ALERT_REMOVED                                                                                                  \
    "CREATE TRIGGER alert_removed AFTER DELETE ON alerts BEGIN"                                                        \
    " UPDATE alert_sums SET row_count = row_count - 1 WHERE stream = OLD.stream;"                                      \
    " DELETE FROM alert_sums WHERE stream = OLD.stream AND row_count = 0; END"

/* The sums of gaps and alerts have a row for each stream (and cause), so that a question about all machines does not
 * read each row that an agent made. Triggers keep them in the transaction of the rows. */
static const char GAP_SUMS[] =
    "CREATE TABLE gap_sums(stream INTEGER NOT NULL, cause INTEGER NOT NULL, row_count INTEGER NOT NULL,"
    " unrecorded_count INTEGER NOT NULL, batch_count INTEGER NOT NULL, least_count INTEGER NOT NULL,"
    " PRIMARY KEY(stream, cause)) WITHOUT ROWID;"
    "INSERT INTO gap_sums SELECT stream, cause, count(*), sum(record_count = 0), sum(batch_count), sum(least_count)"
    " FROM gaps GROUP BY stream, cause;" GAP_ADDED ";" GAP_CHANGED ";" GAP_REMOVED ";";

/* What version 6 has and version 5 had not, besides. */
static const char ALERT_SUMS[] =
    "CREATE TABLE rounds(round INTEGER PRIMARY KEY CHECK(round = 1), segment INTEGER NOT NULL, offset INTEGER NOT"
    " NULL);"
    "CREATE TABLE alert_sums(stream INTEGER PRIMARY KEY, row_count INTEGER NOT NULL);"
    "INSERT INTO alert_sums SELECT stream, count(*) FROM alerts GROUP BY stream;" ALERT_ADDED ";" ALERT_REMOVED ";";

const char *ec_state_db_foreign_sql(void) {
    return "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view') AND sql NOT IN ('" GAP_ADDED
           "', '" GAP_CHANGED "', '" GAP_REMOVED "', '" ALERT_ADDED "', '" ALERT_REMOVED "', '" OLD_GAPS
           "', '" OLD_PERIODS "')"
           /* of an earlier program: the next writer makes it anew, and drops those of version 6 */
           " AND NOT (type = 'view' AND name = 'gap_periods') AND NOT ((SELECT user_version < 7 FROM"
           " pragma_user_version) AND (type = 'view' AND name = 'blind' OR type = 'trigger' AND name IN"
           " ('blind_added', 'blind_changed', 'blind_removed')))";
}

/* When a stream's last gap ended is the last row of this index, however many there are. A database of before has it
 * from its next opening on. */
static const char GAP_ENDS[] = "CREATE INDEX IF NOT EXISTS gaps_end ON gaps(stream, end_utc_ns, begin_utc_ns, cause);";

/* Prepared when first used. */
#define VALUE_COLUMN(kind, member, role)   ", ?"
#define UPDATED_COLUMN(kind, member, role) ", " #member " = excluded." #member
#define PUT_LIFE(name, COLUMNS)                                                                                        \
    "INSERT INTO " name " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7" COLUMNS(                                                  \
        VALUE_COLUMN) ")"                                                                                              \
                      " ON CONFLICT(stream, instance) DO UPDATE SET begin_utc_ns = excluded.begin_utc_ns,"             \
                      " end_utc_ns = excluded.end_utc_ns, seen_utc_ns = excluded.seen_utc_ns, begin_cause = "          \
                      "excluded.begin_cause,"                                                                          \
                      " end_cause = excluded.end_cause" COLUMNS(UPDATED_COLUMN)
#define STATEMENTS(X)                                                                                                  \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(FIND_FOLD, "SELECT stream, host, id, position, batch_count, event_count, missing_count, damaged_count, "         \
                 "last_instance, begin_utc_ns,"                                                                        \
                 " end_utc_ns FROM streams WHERE host = ?1 AND id = ?2")                                               \
    X(EACH_FOLD, "SELECT stream, host, id, position, batch_count, event_count, missing_count, damaged_count, "         \
                 "last_instance, begin_utc_ns,"                                                                        \
                 " end_utc_ns FROM streams WHERE ?1 IS NULL OR host = ?1 ORDER BY stream")                             \
    X(ADD_FOLD, "INSERT INTO streams VALUES(NULL, ?1, ?2, 0, 0, 0, 0, 0, 0, ?3, ?3)")                                  \
    X(SET_FOLD,                                                                                                        \
      "UPDATE streams SET position = ?2, batch_count = ?3, event_count = ?4, missing_count = ?5, damaged_count = ?6,"  \
      " last_instance = ?7, begin_utc_ns = ?8, end_utc_ns = ?9 WHERE stream = ?1")                                     \
    X(GET_ROUND, "SELECT segment, offset FROM rounds")                                                                 \
    X(SET_ROUND, "INSERT OR REPLACE INTO rounds VALUES(1, ?1, ?2)")                                                    \
    X(DROP_PROCESSES, "DELETE FROM processes WHERE stream = ?1")                                                       \
    X(DROP_THREADS, "DELETE FROM threads WHERE stream = ?1")                                                           \
    X(DROP_MODULES, "DELETE FROM modules WHERE stream = ?1")                                                           \
    X(DROP_PENDING, "DELETE FROM pending_ids WHERE stream = ?1")                                                       \
    X(DROP_FACTS, "DELETE FROM pending_facts WHERE stream = ?1")                                                       \
    X(DROP_LEDGER_BATCHES, "DELETE FROM ledger_batches WHERE stream = ?1")                                             \
    X(DROP_LEDGER_COUNTS, "DELETE FROM ledger_counts WHERE stream = ?1")                                               \
    X(DROP_GAPS, "DELETE FROM gaps WHERE stream = ?1")                                                                 \
    X(DROP_NAMES, "DELETE FROM names WHERE stream = ?1")                                                               \
    X(DROP_OPERATIONS, "DELETE FROM operations WHERE stream = ?1")                                                     \
    X(DROP_VOLUMES, "DELETE FROM volumes WHERE stream = ?1")                                                           \
    X(DROP_ALERTS, "DELETE FROM alerts WHERE stream = ?1")                                                             \
    X(DROP_STREAM, "DELETE FROM streams WHERE stream = ?1")                                                            \
    /* ?2: time, ?3: number */                                                                                         \
    X(PRUNE_PROCESSES, "DELETE FROM processes WHERE stream = ?1 AND end_utc_ns < ?2")                                  \
    X(PRUNE_THREADS, "DELETE FROM threads WHERE stream = ?1 AND end_utc_ns < ?2")                                      \
    X(PRUNE_MODULES, "DELETE FROM modules WHERE stream = ?1 AND end_utc_ns < ?2")                                      \
    X(PRUNE_PENDING, "DELETE FROM pending_ids WHERE stream = ?1 AND utc_ns < ?2")                                      \
    X(PRUNE_FACTS, "DELETE FROM pending_facts WHERE stream = ?1 AND utc_ns < ?2")                                      \
    X(PRUNE_NAMES, "DELETE FROM names WHERE stream = ?1 AND end_utc_ns < ?2")                                          \
    X(PRUNE_OPERATIONS, "DELETE FROM operations WHERE stream = ?1 AND begin_utc_ns < ?2")                              \
    X(PRUNE_LEDGER_BATCHES, "DELETE FROM ledger_batches WHERE stream = ?1 AND number < ?3 AND number <"                \
                            " (SELECT max(number) FROM ledger_batches WHERE stream = ?1)")                             \
    X(PRUNE_LEDGER_COUNTS, "DELETE FROM ledger_counts WHERE stream = ?1 AND number < ?3 AND number <"                  \
                           " (SELECT max(number) FROM ledger_counts c WHERE c.stream = ?1 AND"                         \
                           " c.family = ledger_counts.family AND c.counter = ledger_counts.counter)")                  \
    X(PRUNE_GAPS, "DELETE FROM gaps WHERE stream = ?1 AND end_utc_ns < ?2")                                            \
    X(PRUNE_ALERTS, "DELETE FROM alerts WHERE stream = ?1 AND number < ?3")                                            \
    X(PRUNE_STREAM, "UPDATE streams SET begin_utc_ns = max(begin_utc_ns, min(?2, end_utc_ns)) WHERE stream = ?1")      \
    X(PUT_PROCESS, PUT_LIFE("processes", EA_PROCESS_COLUMNS))                                                          \
    X(PUT_THREAD, PUT_LIFE("threads", EA_THREAD_COLUMNS))                                                              \
    X(PUT_MODULE, PUT_LIFE("modules", EA_MODULE_COLUMNS))                                                              \
    X(PUT_PENDING, "INSERT OR REPLACE INTO pending_ids VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")               \
    X(EACH_PENDING, "SELECT utc_ns, pid, base, size_bytes, timestamp, pdb_guid, pdb_age, pdb_path, original_name"      \
                    " FROM pending_ids WHERE stream = ?1")                                                             \
    X(PUT_FACTS, "INSERT INTO pending_facts VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")                          \
    X(EACH_FACTS, "SELECT utc_ns, created_utc_ns, pid, parent_pid, mandatory_label, elevation_type, elevated,"         \
                  " logon_id FROM pending_facts WHERE stream = ?1 ORDER BY number")                                    \
    /* open ones in the order of their numbers, then the ended ones, the last ended first */                           \
    X(OPEN_PROCESSES, "SELECT " EC_PROCESS_COLUMNS " FROM processes WHERE stream = ?1"                                 \
                      " AND end_utc_ns = 9223372036854775807 ORDER BY instance")                                       \
    X(ENDED_PROCESSES, "SELECT " EC_PROCESS_COLUMNS " FROM processes WHERE stream = ?1"                                \
                       " AND end_utc_ns < 9223372036854775807 ORDER BY end_utc_ns DESC, instance DESC")                \
    X(OPEN_THREADS, "SELECT " EC_THREAD_COLUMNS " FROM threads WHERE stream = ?1"                                      \
                    " AND end_utc_ns = 9223372036854775807 ORDER BY instance")                                         \
    X(ENDED_THREADS, "SELECT " EC_THREAD_COLUMNS " FROM threads WHERE stream = ?1"                                     \
                     " AND end_utc_ns < 9223372036854775807 ORDER BY end_utc_ns DESC, instance DESC")                  \
    X(OPEN_MODULES, "SELECT " EC_MODULE_COLUMNS " FROM modules WHERE stream = ?1"                                      \
                    " AND end_utc_ns = 9223372036854775807 ORDER BY instance")                                         \
    X(ENDED_MODULES, "SELECT " EC_MODULE_COLUMNS " FROM modules WHERE stream = ?1"                                     \
                     " AND end_utc_ns < 9223372036854775807 ORDER BY end_utc_ns DESC, instance DESC")

enum statement {

#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};
static const char *const SQL[] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

struct ec_state_db {
    sqlite3 *db;
    ea_file *lock;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
};

static int run_sql(ec_state_db *t, const char *sql, const char *doing, ea_err *err) {
    return ec_sqlite_exec(t->db, sql, doing, err);
}

/* ---- opening ---- */

static int state_db_read_version(ec_state_db *t, int *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = 0;
    if (sqlite3_prepare_v2(t->db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        *ret = sqlite3_column_int(s, 0);
    else
        rc = ec_fail_sqlite(err, t->db, "read the version of the state tables");
    sqlite3_finalize(s);
    return rc;
}

static int remove_database(const char *path, ea_err *err) {
    static const char *const PARTS[] = {"", "-wal", "-shm"};
    ea_text name;
    int rc = 0;
    ea_text_init(&name);
    for (int i = 0; i < 3 && !rc; i++) {
        ea_text_clear(&name);
        ea_text_str(&name, path);
        ea_text_str(&name, PARTS[i]);
        rc = name.failed                 ? ea_fail(err, EA_ENOMEM, "remove the state tables")
             : ea_path_exists(name.data) ? ea_path_remove(name.data, err)
                                         : 0;
    }
    ea_text_deinit(&name);
    return rc;
}

static int state_db_open_database(ec_state_db *t, const char *path, int writable, ea_err *err) {
    int flags = writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    int code = sqlite3_open_v2(path, &t->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK &&
        !writable) { /* a reader may lack the right to write; it needs it only for the WAL's index */
        sqlite3_close(t->db);
        code = sqlite3_open_v2(path, &t->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    }
    if (code != SQLITE_OK)
        return ec_fail_sqlite(err, t->db, "open the state tables");
    sqlite3_busy_timeout(t->db, BUSY_TIMEOUT_MS);
    return 0;
}

/* Command lines are private: the file is made readable for its owner only, which SQLite would not do. */
static int open_new_database(ec_state_db *t, const char *path, ea_err *err) {
    ea_file *f = NULL;
    int rc = ea_file_open(&f, path, EA_OPEN_APPEND, err);
    ea_file_close(f);
    return rc ? rc : state_db_open_database(t, path, 1, err);
}

/* What a database of this version, but of an earlier program, lacks: an index, and the present form of the view, which
 * holds no data. */
static int complete_tables(ec_state_db *t, ea_err *err) {
    static const char DOING[] = "set up the state tables";
    sqlite3_stmt *s = NULL;
    ea_text sql;
    int rc =
        ec_sqlite_prepare(t->db, &s, "SELECT 1 FROM sqlite_schema WHERE name = 'gap_periods' AND sql = ?1", DOING, err);
    if (!rc) {
        sqlite3_bind_text(s, 1, GAP_PERIODS, -1, SQLITE_STATIC);
        rc = ec_sqlite_step(s, DOING, err);
    }
    sqlite3_finalize(s);
    if (rc < 0)
        return rc;
    ea_text_init(&sql);
    ea_text_str(&sql, GAP_ENDS);
    if (rc == 0) {
        ea_text_str(&sql, "BEGIN IMMEDIATE; DROP VIEW IF EXISTS gap_periods;");
        ea_text_str(&sql, GAP_PERIODS);
        ea_text_str(&sql, ";COMMIT;");
    }
    rc = sql.failed ? ea_fail(err, EA_ENOMEM, "set up the state tables") : run_sql(t, sql.data, DOING, err);
    ea_text_deinit(&sql);
    return rc;
}

static int state_db_open_tables(ec_state_db *t, const char *path, const char *lock_path, int writable, ea_err *err) {
    int version = 0, rc;
    if (!writable) {
        if (!ea_path_exists(path))
            return ea_fail(err, EA_ENOTFOUND, "no state tables yet: %s", path);
        rc = state_db_open_database(t, path, 0, err);
        if (!rc)
            rc = state_db_read_version(t, &version, err);
        if (!rc && version != SCHEMA_VERSION)
            rc = version == 0
                     ? ea_fail(err, EA_ENOTFOUND, "no state tables yet: %s", path)
                     : ea_fail(err, EA_EUNSUPPORTED, "%s is of another format (version %d, this program reads %d)",
                               path, version, SCHEMA_VERSION);
        return rc;
    }
    rc = ea_file_open(&t->lock, lock_path, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_try_lock(t->lock, err);
    if (!rc)
        rc = open_new_database(t, path, err);
    if (rc)
        return rc;
    /* Another version, or no database at all (SQLITE_NOTADB): made again from the batches. What a full disk keeps from
     * being read is a sound one. */
    int unread = state_db_read_version(t, &version, err);
    if (unread == EA_EFULL || unread == EA_ENOMEM)
        return unread;
    if (unread || (version != 0 && (version < WITHOUT_SUMS || version > SCHEMA_VERSION))) {
        sqlite3_close(t->db);
        t->db = NULL;
        rc = remove_database(path, err);
        if (!rc)
            rc = open_new_database(t, path, err);
        if (rc)
            return rc;
        version = 0;
    }
    rc = run_sql(t,
                 writable == EC_STATE_SCRATCH ? "PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL;"
                                              : "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
                 "set up the state tables", err);
    if (!rc)
        rc = run_sql(t, "PRAGMA cache_size = -8192;", "set up the state tables", err);
    if (rc || version == SCHEMA_VERSION)
        return rc ? rc : complete_tables(t, err);
    ea_text sql;
    ea_text_init(&sql);
    ea_text_str(&sql, "BEGIN IMMEDIATE;");
    if (version == 0) {
        ea_text_str(&sql, LIVES);
        ea_text_str(&sql, SCHEMA);
    } else {
        if (version <= WITHOUT_HASHES)
            ea_text_str(&sql, MORE_OF_FILES);
        if (version <= WITHOUT_FACTS)
            ea_text_str(&sql, MORE_OF_PROCESSES);
        ea_text_str(&sql, KIND_OF_MODULES);
    }
    if (version < WITHOUT_KINDS)
        ea_text_str(&sql, PENDING_FACTS);
    if (version == WITHOUT_SUMS || version == WITH_OLD_NAMES)
        ea_text_str(&sql, OLD_NAMES_GO);
    if (version == 0 || version == WITHOUT_SUMS)
        ea_text_str(&sql, ALERT_SUMS);
    if (version < WITHOUT_HASHES) {
        ea_text_str(&sql, GAP_PERIODS);
        ea_text_str(&sql, OLD_NAMES);
        ea_text_str(&sql, GAP_SUMS);
        ea_text_str(&sql, GAP_ENDS);
    }
    ea_text_printf(&sql, "PRAGMA user_version = %d; COMMIT;", SCHEMA_VERSION);
    rc = sql.failed ? ea_fail(err, EA_ENOMEM, "make the state tables")
                    : run_sql(t, sql.data, "make the state tables", err);
    ea_text_deinit(&sql);
    return !rc && version >= WITHOUT_HASHES ? complete_tables(t, err) : rc;
}

int ec_state_db_open(ec_state_db **ret, const char *dir, int writable, ea_err *err) {
    ec_state_db *t = calloc(1, sizeof *t);
    ea_text path, lock;
    ea_text_init(&path);
    ea_text_init(&lock);
    ea_text_printf(&path, "%s/state.db", dir);
    ea_text_printf(&lock, "%s/state.lock", dir);
    int rc = !t || path.failed || lock.failed ? ea_fail(err, EA_ENOMEM, "open the state tables of %s", dir)
                                              : state_db_open_tables(t, path.data, lock.data, writable, err);
    ea_text_deinit(&path);
    ea_text_deinit(&lock);
    if (rc) {
        ec_state_db_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void ec_state_db_close(ec_state_db *t) {
    if (!t)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(t->prepared[i]);
    sqlite3_close(t->db);
    ea_file_close(t->lock);
    free(t);
}

int ec_state_db_is_older(const char *dir) {
    ec_state_db t = {.db = NULL};
    int version = 0;
    ea_err ignored;
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/state.db", dir);
    int is_read = !path.failed && ea_path_exists(path.data) && !state_db_open_database(&t, path.data, 0, &ignored) &&
                  !state_db_read_version(&t, &version, &ignored);
    sqlite3_close(t.db);
    ea_text_deinit(&path);
    return is_read && version > 0 && version < SCHEMA_VERSION;
}

sqlite3 *ec_state_db_database(ec_state_db *t) {
    return t->db;
}

/* ---- statements ---- */

/* The statement, reset and ready to be bound. */
static int state_db_prepare(ec_state_db *t, enum statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(t->db, &t->prepared[which], SQL[which], NULL, err);
    *ret = t->prepared[which];
    return rc;
}

static int state_db_run(ec_state_db *t, enum statement which, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, which, &s, err);
    return rc ? rc : ec_sqlite_run(s, SQL[which], err);
}

static void bind_u32(sqlite3_stmt *s, int at, uint32_t v) {
    sqlite3_bind_int64(s, at, v);
}

static void bind_address(sqlite3_stmt *s, int at, uint64_t v) {
    sqlite3_bind_int64(s, at, ec_u64_to_sql(v));
}

static void bind_text(sqlite3_stmt *s, int at, const char *v) {
    sqlite3_bind_text(s, at, v, -1, SQLITE_STATIC);
}

static void bind_guid(sqlite3_stmt *s, int at, int has, const ea_guid *g) {
    char text[40];
    if (has) {
        ea_guid_format(g, text);
        sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
    } else {
        sqlite3_bind_null(s, at);
    }
}

static void bind_life(sqlite3_stmt *s, int64_t stream_number, const ea_interval *life) {
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, (int64_t)life->instance);
    sqlite3_bind_int64(s, 3, life->begin_utc_ns);
    sqlite3_bind_int64(s, 4, life->end_utc_ns);
    sqlite3_bind_int64(s, 5, life->seen_utc_ns);
    sqlite3_bind_int(s, 6, life->begin_cause);
    sqlite3_bind_int(s, 7, life->end_cause);
}

static const char *state_db_column_text(sqlite3_stmt *s, int at) {
    const unsigned char *v = sqlite3_column_text(s, at);
    return v ? (const char *)v : "";
}

static uint64_t column_address(sqlite3_stmt *s, int at) {
    return ec_u64_from_sql(sqlite3_column_int64(s, at));
}

static uint32_t column_u32(sqlite3_stmt *s, int at) {
    return (uint32_t)sqlite3_column_int64(s, at);
}

static int column_guid(sqlite3_stmt *s, int at, ea_guid *ret) {
    const unsigned char *v = sqlite3_column_text(s, at);
    return v && ea_guid_parse((const char *)v, ret) == 0;
}

static void read_life(sqlite3_stmt *s, ea_interval *ret) {
    ret->instance = (uint64_t)sqlite3_column_int64(s, 0);
    ret->begin_utc_ns = sqlite3_column_int64(s, 1);
    ret->end_utc_ns = sqlite3_column_int64(s, 2);
    ret->seen_utc_ns = sqlite3_column_int64(s, 3);
    ret->begin_cause = (uint8_t)sqlite3_column_int(s, 4);
    ret->end_cause = (uint8_t)sqlite3_column_int(s, 5);
}

/* ---- transactions and folds ---- */

int ec_state_db_begin(ec_state_db *t, ea_err *err) {
    return state_db_run(t, S_BEGIN, err);
}

int ec_state_db_commit(ec_state_db *t, ea_err *err) {
    return state_db_run(t, S_COMMIT, err);
}

void ec_state_db_rollback(ec_state_db *t) {
    if (!sqlite3_get_autocommit(t->db) && state_db_run(t, S_ROLLBACK, NULL))
        return; /* SQLite has rolled back by itself */
}

static void read_fold(sqlite3_stmt *s, ec_state_fold *ret) {
    *ret = (ec_state_fold){.stream_number = sqlite3_column_int64(s, 0),
                           .position = (uint64_t)sqlite3_column_int64(s, 3),
                           .batch_count = (uint64_t)sqlite3_column_int64(s, 4),
                           .event_count = (uint64_t)sqlite3_column_int64(s, 5),
                           .missing_count = (uint64_t)sqlite3_column_int64(s, 6),
                           .damaged_count = (uint64_t)sqlite3_column_int64(s, 7),
                           .last_instance = (uint64_t)sqlite3_column_int64(s, 8),
                           .begin_utc_ns = sqlite3_column_int64(s, 9),
                           .end_utc_ns = sqlite3_column_int64(s, 10)};
    snprintf(ret->host, sizeof ret->host, "%s", state_db_column_text(s, 1));
    if (sqlite3_column_bytes(s, 2) == EA_STREAM_ID_BYTES)
        memcpy(ret->stream, sqlite3_column_blob(s, 2), EA_STREAM_ID_BYTES);
}

int ec_state_db_find_fold(ec_state_db *t, const char *host, const uint8_t *stream, ec_state_fold *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_FIND_FOLD, &s, err);
    if (rc)
        return rc;
    bind_text(s, 1, host);
    sqlite3_bind_blob(s, 2, stream, EA_STREAM_ID_BYTES, SQLITE_STATIC);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        read_fold(s, ret);
    else if (code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, t->db, "find a fold");
    sqlite3_reset(s);
    return rc ? rc : code == SQLITE_ROW;
}

int ec_state_db_get_fold(ec_state_db *t, const char *host, const uint8_t *stream, ec_state_fold *ret, ea_err *err) {
    int found = ec_state_db_find_fold(t, host, stream, ret, err);
    if (found)
        return found < 0 ? found : 0;
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_ADD_FOLD, &s, err);
    if (rc)
        return rc;
    bind_text(s, 1, host);
    sqlite3_bind_blob(s, 2, stream, EA_STREAM_ID_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, INT64_MIN);
    rc = ec_sqlite_run(s, "begin a fold", err);
    if (rc)
        return rc;
    found = ec_state_db_find_fold(t, host, stream, ret, err);
    return found > 0 ? 0 : found < 0 ? found : ea_fail(err, EA_EDATABASE, "a fold that was just made is not there");
}

int ec_state_db_set_fold(ec_state_db *t, const ec_state_fold *fold, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_SET_FOLD, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, fold->stream_number);
    sqlite3_bind_int64(s, 2, (int64_t)fold->position);
    sqlite3_bind_int64(s, 3, (int64_t)fold->batch_count);
    sqlite3_bind_int64(s, 4, (int64_t)fold->event_count);
    sqlite3_bind_int64(s, 5, (int64_t)fold->missing_count);
    sqlite3_bind_int64(s, 6, (int64_t)fold->damaged_count);
    sqlite3_bind_int64(s, 7, (int64_t)fold->last_instance);
    sqlite3_bind_int64(s, 8, fold->begin_utc_ns);
    sqlite3_bind_int64(s, 9, fold->end_utc_ns);
    return ec_sqlite_run(s, "keep the position of a fold", err);
}

int ec_state_db_each_fold(ec_state_db *t, const char *host, int (*fn)(const ec_state_fold *fold, void *arg), void *arg,
                          ea_err *err) {
    sqlite3_stmt *s = NULL;
    int code, rc = state_db_prepare(t, S_EACH_FOLD, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_text(s, 1, host, -1, SQLITE_STATIC); /* NULL for NULL */
    while ((code = sqlite3_step(s)) == SQLITE_ROW && !rc) {
        ec_state_fold fold;
        read_fold(s, &fold);
        rc = fn(&fold, arg);
    }
    if (!rc && code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, t->db, "list the folds");
    sqlite3_reset(s);
    return rc;
}

int ec_state_db_reset_fold(ec_state_db *t, ec_state_fold *fold, ea_err *err) {
    static const enum statement DROPS[] = {
        S_DROP_PROCESSES,     S_DROP_THREADS, S_DROP_MODULES, S_DROP_PENDING, S_DROP_FACTS,      S_DROP_LEDGER_BATCHES,
        S_DROP_LEDGER_COUNTS, S_DROP_GAPS,    S_DROP_ALERTS,  S_DROP_NAMES,   S_DROP_OPERATIONS, S_DROP_VOLUMES};

    for (size_t i = 0; i < sizeof DROPS / sizeof DROPS[0]; i++) {
        sqlite3_stmt *s = NULL;
        int rc = state_db_prepare(t, DROPS[i], &s, err);
        if (rc)
            return rc;
        sqlite3_bind_int64(s, 1, fold->stream_number);
        rc = ec_sqlite_run(s, "begin a fold again", err);
        if (rc)
            return rc;
    }
    fold->position = fold->batch_count = fold->event_count = 0;
    fold->missing_count = fold->damaged_count = fold->last_instance = 0;
    fold->begin_utc_ns = fold->end_utc_ns = INT64_MIN;
    return ec_state_db_set_fold(t, fold, err);
}

int ec_state_db_drop_fold(ec_state_db *t, ec_state_fold *fold, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = ec_state_db_reset_fold(t, fold, err);
    if (!rc)
        rc = state_db_prepare(t, S_DROP_STREAM, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, fold->stream_number);
    return ec_sqlite_run(s, "forget a stream", err);
}

int ec_state_db_prune(ec_state_db *t, const ec_state_fold *fold, int64_t begin_utc_ns, uint64_t first_number,
                      ea_err *err) {
    static const enum statement PRUNES[] = {S_PRUNE_PROCESSES,     S_PRUNE_THREADS, S_PRUNE_MODULES,
                                            S_PRUNE_PENDING,       S_PRUNE_FACTS,   S_PRUNE_NAMES,
                                            S_PRUNE_OPERATIONS,    S_PRUNE_GAPS,    S_PRUNE_LEDGER_BATCHES,
                                            S_PRUNE_LEDGER_COUNTS, S_PRUNE_ALERTS,  S_PRUNE_STREAM};

    for (size_t i = 0; i < sizeof PRUNES / sizeof PRUNES[0]; i++) {
        sqlite3_stmt *s = NULL;
        int rc = state_db_prepare(t, PRUNES[i], &s, err);
        if (rc)
            return rc;
        sqlite3_bind_int64(s, 1, fold->stream_number);
        if (sqlite3_bind_parameter_count(s) == 2)
            sqlite3_bind_int64(s, 2, begin_utc_ns);
        else
            sqlite3_bind_int64(s, 3, first_number > INT64_MAX ? INT64_MAX : (int64_t)first_number);
        rc = ec_sqlite_run(s, "delete what is too old", err);
        if (rc)
            return rc;
    }
    return 0;
}

int ec_state_db_get_round(ec_state_db *t, ec_store_place *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    *ret = (ec_store_place){0};
    int rc = state_db_prepare(t, S_GET_ROUND, &s, err);
    if (rc)
        return rc;
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        *ret = (ec_store_place){(uint64_t)sqlite3_column_int64(s, 0), (uint64_t)sqlite3_column_int64(s, 1)};
    else if (code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, t->db, "read how far the last round looked");
    sqlite3_reset(s);
    return rc;
}

int ec_state_db_set_round(ec_state_db *t, const ec_store_place *place, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_SET_ROUND, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, (int64_t)place->segment);
    sqlite3_bind_int64(s, 2, (int64_t)place->offset);
    return ec_sqlite_run(s, "keep how far a round looked", err);
}

/* ---- rows ---- */

static void bind_columns(sqlite3_stmt *s, const void *row, const ea_table_columns *columns) {
    for (size_t i = 0; i < columns->count; i++) {
        const void *v = (const unsigned char *)row + columns->items[i].offset;
        int at = LIFE_VALUES + 1 + (int)i;
        switch ((enum ea_column_kind)columns->items[i].kind) {
        case EA_COLUMN_U16:
            sqlite3_bind_int(s, at, *(const uint16_t *)v);
            break;
        case EA_COLUMN_U32:
            bind_u32(s, at, *(const uint32_t *)v);
            break;
        case EA_COLUMN_I32:
            sqlite3_bind_int(s, at, *(const int32_t *)v);
            break;
        case EA_COLUMN_NUMBER:
            sqlite3_bind_int64(s, at, (int64_t) * (const uint64_t *)v);
            break;
        case EA_COLUMN_ADDRESS:
            bind_address(s, at, *(const uint64_t *)v);
            break;
        case EA_COLUMN_TEXT:
            bind_text(s, at, *(const char *const *)v);
            break;
        case EA_COLUMN_PDB:
            bind_guid(s, at, ((const ea_module *)row)->has_pdb, v);
            break;
        }
    }
}

/* Fills the members of a row that is all 0; the statement has EC_LIFE_COLUMNS before them. */
static void state_db_read_columns(sqlite3_stmt *s, void *row, const ea_table_columns *columns) {
    for (size_t i = 0; i < columns->count; i++) {
        void *v = (unsigned char *)row + columns->items[i].offset;
        int at = LIFE_COLUMNS + (int)i;
        switch ((enum ea_column_kind)columns->items[i].kind) {
        case EA_COLUMN_U16:
            *(uint16_t *)v = (uint16_t)sqlite3_column_int(s, at);
            break;
        case EA_COLUMN_U32:
            *(uint32_t *)v = column_u32(s, at);
            break;
        case EA_COLUMN_I32:
            *(int32_t *)v = sqlite3_column_int(s, at);
            break;
        case EA_COLUMN_NUMBER:
            *(uint64_t *)v = (uint64_t)sqlite3_column_int64(s, at);
            break;
        case EA_COLUMN_ADDRESS:
            *(uint64_t *)v = column_address(s, at);
            break;
        case EA_COLUMN_TEXT:
            *(const char **)v = state_db_column_text(s, at);
            break;
        case EA_COLUMN_PDB:
            ((ea_module *)row)->has_pdb = column_guid(s, at, v);
            break;
        }
    }
}

/* A row begins with its interval. */
static int state_db_put_row(ec_state_db *t, enum statement which, int64_t stream_number, const void *row,
                            const ea_table_columns *columns, const char *doing, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, which, &s, err);
    if (rc)
        return rc;
    EA_ASSERT(!sqlite3_get_autocommit(t->db)); /* rows and their stream's position are one transaction */
    bind_life(s, stream_number, row);
    bind_columns(s, row, columns);
    return ec_sqlite_run(s, doing, err);
}

int ec_state_db_put_process(ec_state_db *t, int64_t stream_number, const ea_process *p, ea_err *err) {
    return state_db_put_row(t, S_PUT_PROCESS, stream_number, p, &ea_process_columns, "keep a process", err);
}

int ec_state_db_put_thread(ec_state_db *t, int64_t stream_number, const ea_thread_row *row, ea_err *err) {
    return state_db_put_row(t, S_PUT_THREAD, stream_number, row, &ea_thread_columns, "keep a thread", err);
}

int ec_state_db_put_module(ec_state_db *t, int64_t stream_number, const ea_module *mod, ea_err *err) {
    return state_db_put_row(t, S_PUT_MODULE, stream_number, mod, &ea_module_columns, "keep a module", err);
}

void ec_read_process(sqlite3_stmt *s, ea_process *ret) {
    *ret = (ea_process){0};
    state_db_read_columns(s, ret, &ea_process_columns);
    read_life(s, &ret->life);
}

void ec_read_thread(sqlite3_stmt *s, ea_thread_row *ret) {
    *ret = (ea_thread_row){0};
    state_db_read_columns(s, ret, &ea_thread_columns);
    read_life(s, &ret->life);
}

void ec_read_module(sqlite3_stmt *s, ea_module *ret) {
    *ret = (ea_module){0};
    state_db_read_columns(s, ret, &ea_module_columns);
    read_life(s, &ret->life);
}

typedef struct pending_writer {
    ec_state_db *tables;
    int64_t stream_number;
    ea_err *err;
    int rc;
} pending_writer;

static void put_pending_id(void *arg, const ea_module *id, int64_t utc_ns) {
    pending_writer *w = arg;
    sqlite3_stmt *s = NULL;
    if (w->rc || (w->rc = state_db_prepare(w->tables, S_PUT_PENDING, &s, w->err)) != 0)
        return;
    sqlite3_bind_int64(s, 1, w->stream_number);
    sqlite3_bind_int64(s, 2, utc_ns);
    bind_u32(s, 3, id->pid);
    bind_address(s, 4, id->base);
    sqlite3_bind_int64(s, 5, (int64_t)id->size_bytes);
    bind_u32(s, 6, id->timestamp);
    bind_guid(s, 7, id->has_pdb, &id->pdb_guid);
    bind_u32(s, 8, id->pdb_age);
    bind_text(s, 9, id->pdb_path);
    bind_text(s, 10, id->original_name);
    w->rc = ec_sqlite_run(s, "keep an image id", w->err);
}

int ec_state_db_put_pending_ids(ec_state_db *t, int64_t stream_number, const ea_machine *machine, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_DROP_PENDING, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, stream_number);
    rc = ec_sqlite_run(s, "forget image ids", err);
    if (rc)
        return rc;
    pending_writer w = {t, stream_number, err, 0};
    ea_machine_each_pending_id(machine, put_pending_id, &w);
    return w.rc;
}

typedef struct facts_writer {
    ec_state_db *tables;
    int64_t stream_number, number;
    ea_err *err;
    int rc;
} facts_writer;

static void put_pending_facts(void *arg, const ea_process_facts *f) {
    facts_writer *w = arg;
    sqlite3_stmt *s = NULL;
    if (w->rc || (w->rc = state_db_prepare(w->tables, S_PUT_FACTS, &s, w->err)) != 0)
        return;
    sqlite3_bind_int64(s, 1, w->stream_number);
    sqlite3_bind_int64(s, 2, w->number++);
    sqlite3_bind_int64(s, 3, f->utc_ns);
    sqlite3_bind_int64(s, 4, f->created_utc_ns);
    bind_u32(s, 5, f->pid);
    bind_u32(s, 6, f->parent_pid);
    bind_text(s, 7, f->mandatory_label);
    bind_u32(s, 8, f->elevation_type);
    bind_u32(s, 9, f->elevated);
    bind_address(s, 10, f->logon_id);
    w->rc = ec_sqlite_run(s, "keep facts of a process", w->err);
}

int ec_state_db_put_pending_facts(ec_state_db *t, int64_t stream_number, const ea_machine *machine, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = state_db_prepare(t, S_DROP_FACTS, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, stream_number);
    rc = ec_sqlite_run(s, "forget facts of processes", err);
    if (rc)
        return rc;
    facts_writer w = {t, stream_number, 0, err, 0};
    ea_machine_each_pending_facts(machine, put_pending_facts, &w);
    return w.rc;
}

/* ---- restart ---- */

static int restore_processes(sqlite3_stmt *s, ea_machine *m) {
    ea_process p;
    ec_read_process(s, &p);
    return ea_machine_restore_process(m, &p);
}

static int restore_threads(sqlite3_stmt *s, ea_machine *m) {
    ea_thread_row row;
    ec_read_thread(s, &row);
    return ea_machine_restore_thread(m, &row);
}

static int restore_modules(sqlite3_stmt *s, ea_machine *m) {
    ea_module mod;
    ec_read_module(s, &mod);
    return ea_machine_restore_module(m, &mod);
}

static int restore_pending(sqlite3_stmt *s, ea_machine *m) {
    ea_module id = {.pid = column_u32(s, 1),
                    .base = column_address(s, 2),
                    .size_bytes = (uint64_t)sqlite3_column_int64(s, 3),
                    .timestamp = column_u32(s, 4),
                    .pdb_age = column_u32(s, 6),
                    .path = "",
                    .pdb_path = state_db_column_text(s, 7),
                    .original_name = state_db_column_text(s, 8)};
    id.has_pdb = column_guid(s, 5, &id.pdb_guid);
    return ea_machine_restore_pending_id(m, &id, sqlite3_column_int64(s, 0));
}

static int restore_facts(sqlite3_stmt *s, ea_machine *m) {
    return ea_machine_restore_pending_facts(m, &(ea_process_facts){.utc_ns = sqlite3_column_int64(s, 0),
                                                                   .created_utc_ns = sqlite3_column_int64(s, 1),
                                                                   .pid = column_u32(s, 2),
                                                                   .parent_pid = column_u32(s, 3),
                                                                   .mandatory_label = state_db_column_text(s, 4),
                                                                   .elevation_type = column_u32(s, 5),
                                                                   .elevated = column_u32(s, 6),
                                                                   .logon_id = column_address(s, 7)});
}

int ec_state_db_restore(ec_state_db *t, const ec_state_fold *fold, ea_machine *machine, ea_err *err) {
    static const struct {
        enum statement statement;
        int (*restore)(sqlite3_stmt *s, ea_machine *m);
    } PARTS[] = {
        {S_OPEN_PROCESSES, restore_processes}, {S_ENDED_PROCESSES, restore_processes},
        {S_OPEN_THREADS, restore_threads},     {S_ENDED_THREADS, restore_threads},
        {S_OPEN_MODULES, restore_modules},     {S_ENDED_MODULES, restore_modules},
        {S_EACH_PENDING, restore_pending},     {S_EACH_FACTS, restore_facts},
    };

    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
        sqlite3_stmt *s = NULL;
        int code, rc = state_db_prepare(t, PARTS[i].statement, &s, err);
        if (rc)
            return rc;
        sqlite3_bind_int64(s, 1, fold->stream_number);
        while ((code = sqlite3_step(s)) == SQLITE_ROW && !rc)
            rc = PARTS[i].restore(s, machine);
        if (!rc && code != SQLITE_DONE)
            rc = ec_fail_sqlite(err, t->db, "read the state back");
        sqlite3_reset(s);
        if (rc && rc != EA_ELIMIT) /* EA_ELIMIT: no more ended ones are remembered */
            return rc == EA_ENOMEM ? ea_fail(err, rc, "read the state back") : rc;
    }
    ea_machine_restore_position(machine, fold->last_instance, fold->begin_utc_ns);
    return 0;
}
