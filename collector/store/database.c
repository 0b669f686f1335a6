/* The store's index in SQLite: its tables, its statements, and how it is opened. See store_parts.h. */
#include "collector/sqlite/sqlite.h"
#include "collector/store/store_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum {
    SCHEMA_VERSION = 1,
    BUSY_TIMEOUT_MS = 20000,
};

static const char SCHEMA[] =
    "CREATE TABLE position(one INTEGER PRIMARY KEY CHECK(one = 1), segment INTEGER NOT NULL, offset INTEGER NOT NULL);"
    "CREATE TABLE streams(stream_id INTEGER PRIMARY KEY, agent TEXT NOT NULL, stream BLOB NOT NULL,"
    " source_host TEXT NOT NULL, batch_count INTEGER NOT NULL, event_count INTEGER NOT NULL, byte_count INTEGER NOT "
    "NULL,"
    " begin_utc_ns INTEGER, end_utc_ns INTEGER, received_first_utc_ns INTEGER NOT NULL,"
    " received_last_utc_ns INTEGER NOT NULL, UNIQUE(agent, stream));"
    /* checksum: the u64's bits as a signed number. kind: enum ea_batch_kind. classes: a (class_id, events) pair a
     * group, LEB128 each. pids: of the events' headers, ascending, as LEB128 differences; NULL: too many to say */
    "CREATE TABLE batches(stream_id INTEGER NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL, event_count INTEGER NOT NULL, begin_utc_ns INTEGER, end_utc_ns INTEGER,"
    " received_utc_ns INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL, len_bytes INTEGER NOT NULL,"
    " classes BLOB, pids BLOB, PRIMARY KEY(stream_id, number)) WITHOUT ROWID;"
    /* which numbers of a stream are there, tombstones included: disjoint, never adjacent */
    "CREATE TABLE ranges(stream_id INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " PRIMARY KEY(stream_id, first)) WITHOUT ROWID;"
    "CREATE TABLE tombstones(stream_id INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " cause INTEGER NOT NULL, event_count INTEGER NOT NULL, number INTEGER NOT NULL,"
    " PRIMARY KEY(stream_id, number, first)) WITHOUT ROWID;"
    "CREATE TABLE classes(class_id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, description BLOB NOT NULL);"
    "CREATE TABLE stream_classes(stream_id INTEGER NOT NULL, class_id INTEGER NOT NULL,"
    " PRIMARY KEY(stream_id, class_id)) WITHOUT ROWID;";

/* What batches name by hash beside classes: sources, shapes, dictionaries, maps. Made at any opening for writing. */
static const char DEFINITIONS_SCHEMA[] =
    "CREATE TABLE IF NOT EXISTS definitions(definition_id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,"
    " kind INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS stream_definitions(stream_id INTEGER NOT NULL, hash BLOB NOT NULL,"
    " kind INTEGER NOT NULL, definition_id INTEGER NOT NULL, PRIMARY KEY(stream_id, hash)) WITHOUT ROWID;"
    /* Which batches of a stream use a definition: none above `through`. bytes: what was added to the index for it */
    "CREATE TABLE IF NOT EXISTS definition_uses(stream_id INTEGER NOT NULL, definition_id INTEGER NOT NULL,"
    " through INTEGER NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY(stream_id, definition_id)) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS definition_uses_through ON definition_uses(stream_id, through);"
    "CREATE INDEX IF NOT EXISTS stream_definitions_definition ON stream_definitions(definition_id);"
    /* the sums of those bytes */
    "CREATE TABLE IF NOT EXISTS stream_bytes(stream_id INTEGER PRIMARY KEY, definition_bytes INTEGER NOT NULL);"
    /* what a stream's agent says of itself. hash: of the Source message that said so; labels: a JSON object */
    "CREATE TABLE IF NOT EXISTS origins(stream_id INTEGER PRIMARY KEY, hash INTEGER NOT NULL,"
    " agent_version TEXT NOT NULL, labels TEXT NOT NULL);"
    /* notices (store.h), by their earlier name */
    "CREATE TABLE IF NOT EXISTS incidents(incident_id INTEGER PRIMARY KEY, utc_ns INTEGER NOT NULL,"
    " agent TEXT NOT NULL, kind INTEGER NOT NULL, text TEXT NOT NULL);"
    /* Retention. first_segment: those below are deleted; leaving: the one whose rows are being deleted. expired:
     * deleted batches, so that one that comes again is known; of each stream those above `through`. */
    "CREATE TABLE IF NOT EXISTS retention(one INTEGER PRIMARY KEY CHECK(one = 1), first_segment INTEGER NOT NULL,"
    " leaving INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS expired(stream_id INTEGER NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL, PRIMARY KEY(stream_id, number)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS expired_streams(stream_id INTEGER PRIMARY KEY, batch_count INTEGER NOT NULL,"
    " event_count INTEGER NOT NULL, byte_count INTEGER NOT NULL, through INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS batches_place ON batches(segment, offset);"
    "DROP INDEX IF EXISTS batches_segment;" /* of earlier stores */
    /* which agent described a class first */
    "CREATE TABLE IF NOT EXISTS class_origins(class_id INTEGER PRIMARY KEY, agent TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS class_origins_agent ON class_origins(agent);"
    /* records whose rows have left the index, and that have to be erased in their segments */
    "CREATE TABLE IF NOT EXISTS erasing(segment INTEGER NOT NULL, offset INTEGER NOT NULL,"
    " PRIMARY KEY(segment, offset)) WITHOUT ROWID;"
    /* segment_clock.c. by_ns: what the clock was set by when this was the last segment with something in it; is_pause:
     * between two processes, so that some of it may have passed. utc_ns: when a process was seen last */
    "CREATE TABLE IF NOT EXISTS clock_steps(segment INTEGER NOT NULL, is_pause INTEGER NOT NULL, by_ns INTEGER NOT "
    "NULL,"
    " PRIMARY KEY(segment, is_pause)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS clock_seen(one INTEGER PRIMARY KEY CHECK(one = 1), utc_ns INTEGER NOT NULL);"
    /* the newest events before a time are looked for from there on */
    "CREATE INDEX IF NOT EXISTS batches_begin ON batches(begin_utc_ns, end_utc_ns);";

static const char *const SQL[EC_STATEMENT_COUNT] = {
#define X(name, sql) sql,
    EC_STATEMENTS(X)
#undef X
};

static int db_fail(ec_store *s, ea_err *err, const char *what) {
    int is_busy = (sqlite3_errcode(s->db) & 0xff) == SQLITE_BUSY;
    return ea_fail_os(err, is_busy ? EA_EBUSY : ec_sqlite_error(s->db), ec_sqlite_os_error(s->db),
                      "%s in %s/index.db: %s", what, s->dir, ec_sqlite_text(s->db));
}

sqlite3_stmt *ec_db_statement(ec_store *s, enum ec_statement which) {
    if (!s->statements[which] &&
        sqlite3_prepare_v3(s->db, SQL[which], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[which], NULL) != SQLITE_OK)
        s->statements[which] = NULL;
    return s->statements[which];
}

void ec_db_copy_text(char *out, size_t out_bytes, sqlite3_stmt *st, int column) {
    const unsigned char *text = sqlite3_column_text(st, column);
    snprintf(out, out_bytes, "%s", text ? (const char *)text : "");
}

sqlite3_stmt *ec_db_bind(ec_store *s, enum ec_statement which, const char *types, ...) {
    sqlite3_stmt *st = ec_db_statement(s, which);
    if (!st)
        return NULL;
    va_list ap;
    va_start(ap, types);
    int rc = SQLITE_OK, at = 1;
    for (const char *t = types; *t && rc == SQLITE_OK; t++, at++) {
        if (*t == 'i') {
            rc = sqlite3_bind_int64(st, at, va_arg(ap, int64_t));
        } else if (*t == 'n') {
            (void)va_arg(ap, int64_t);
            rc = sqlite3_bind_null(st, at);
        } else if (*t == 't') {
            rc = sqlite3_bind_text(st, at, va_arg(ap, const char *), -1, SQLITE_STATIC);
        } else { /* b, N */
            const void *p = va_arg(ap, const void *);
            size_t n = va_arg(ap, size_t);
            rc = *t == 'b' ? sqlite3_bind_blob64(st, at, p ? p : "", n, SQLITE_STATIC) : sqlite3_bind_null(st, at);
        }
    }
    va_end(ap);
    return rc == SQLITE_OK ? st : NULL;
}

void ec_db_done(sqlite3_stmt *st) {
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
}

int ec_db_run(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err) {
    if (!st)
        return db_fail(s, err, what);
    int rc = sqlite3_step(st);
    int failed = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : db_fail(s, err, what);
    ec_db_done(st);
    return failed;
}

int ec_db_row(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err) {
    if (!st)
        return db_fail(s, err, what);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    int failed = rc == SQLITE_DONE ? 0 : db_fail(s, err, what);
    ec_db_done(st);
    return failed;
}

int ec_db_number(ec_store *s, sqlite3_stmt *st, const char *what, int64_t *ret, ea_err *err) {
    int rc = ec_db_row(s, st, what, err);
    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(st, 0);
    ec_db_done(st);
    return 1;
}

static int database_exec(ec_store *s, const char *sql, ea_err *err) {
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(s, err, "prepare the tables");
    return 0;
}

/* ---- opening ---- */

/* Opens the database file by path or URI and reads the version of the tables in it. */
static int connect_database(ec_store *s, const char *name, int flags, int *ret_version, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_open_v2(name, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (!s->db)
        return ea_fail(err, EA_ENOMEM, "open %s", s->dir);
    if (rc != SQLITE_OK)
        return db_fail(s, err, "open");
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    /* NORMAL: a power cut may take the last transactions from the index, never from the segments, and recovery indexes
     * those batches again. */
    /* cache_size: in KiB, as it is negative. A batch may bring 16,384 descriptions, whose hashes are all over an index;
     * SQLite's 2 MiB are less than the pages that it changes, which then were written and read several times. */
    if (s->writable &&
        ((rc = database_exec(s, s->is_scratch ? "PRAGMA synchronous = OFF" : "PRAGMA synchronous = NORMAL", err)) ||
         (rc = database_exec(s, "PRAGMA journal_mode = WAL; PRAGMA cache_size = -16384", err))))
        return rc;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
        rc = db_fail(s, err, "read the version");
        sqlite3_finalize(st);
        return rc;
    }
    *ret_version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return 0;
}

/* Opens a copy of a store that may not be written to: SQLite cannot make the file that WAL readers share, and needs
 * none when there is no writer. Refused while there is a log beside it, whose content would be ignored. */
static int connect_read_only(ec_store *s, const char *path, int *ret_version, ea_err *err) {
    ea_text log, uri;
    ea_file *file = NULL;
    uint64_t log_bytes = 0;
    ea_text_init(&log);
    ea_text_init(&uri);
    ea_text_printf(&log, "%s-wal", path);
    ea_text_str(&uri, "file:");
    for (const char *at = path; *at; at++) {
        if (strchr("%?#", *at))
            ea_text_printf(&uri, "%%%02X", (unsigned char)*at);
        else
            ea_text_char(&uri, *at);
    }
    ea_text_str(&uri, "?immutable=1");
    int rc = log.failed || uri.failed ? ea_fail(err, EA_ENOMEM, "open %s", path) : 0;
    if (!rc && ea_path_exists(log.data)) {
        rc = ea_file_open(&file, log.data, EA_OPEN_READ, err);
        if (!rc)
            rc = ea_file_size(file, &log_bytes, err);
        ea_file_close(file);
        if (!rc && log_bytes)
            rc = ea_fail(err, EA_EDATABASE, "open %s: its log has not been written back, and the folder is read-only",
                         path);
    }
    if (!rc) {
        sqlite3_close(s->db);
        s->db = NULL;
        rc = connect_database(s, uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, ret_version, err);
    }
    ea_text_deinit(&log);
    ea_text_deinit(&uri);
    return rc;
}

/* It asks, and does not open the file: closing any descriptor of a file ends all the locks that this process has on it,
 * so also those of the process's other connection (https://www.sqlite.org/howtocorrupt.html, 2.2). */
int ec_store_check_readable(const char *dir, ea_err *err) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/index.db", dir);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : 0;
    if (!rc && faccessat(AT_FDCWD, path.data, R_OK, AT_EACCESS) != 0) {
        int os_error = errno;
        if (os_error == ENOENT || os_error == ENOTDIR)
            rc = ea_fail(err, EA_ENOTFOUND, "open %s: there is no store", dir);
        else if (os_error == EACCES)
            rc =
                ea_fail_os(err, EA_EIO, EACCES, "open %s: run the command as the user that the collector runs as", dir);
        else
            rc = ea_fail_os(err, EA_EIO, os_error, "open %s", path.data);
    }
    ea_text_deinit(&path);
    return rc;
}

int ec_db_open(ec_store *s, ea_err *err) {
    ea_text path;
    int version = 0;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/index.db", s->dir);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", s->dir) : 0;
    if (!rc && !s->writable)
        rc = ec_store_check_readable(s->dir, err);
    /* A reader opens it for writing too, when it may: WAL readers share an index in memory that a crashed writer may
     * have left to be rebuilt. It writes nothing. */
    if (!rc)
        rc = connect_database(s, path.data, SQLITE_OPEN_READWRITE | (s->writable ? SQLITE_OPEN_CREATE : 0), &version,
                              err);
    if (rc && !s->writable && s->db) {
        int why = sqlite3_errcode(s->db) & 0xff;
        if (why == SQLITE_CANTOPEN || why == SQLITE_READONLY)
            rc = connect_read_only(s, path.data, &version, err);
    }
    ea_text_deinit(&path);
    if (!rc && version == 0 && s->writable) {
        rc = database_exec(s, "BEGIN IMMEDIATE", err);
        if (!rc)
            rc = database_exec(s, SCHEMA, err);
        if (!rc)
            rc = database_exec(s, "PRAGMA user_version = 1; COMMIT", err);
        version = SCHEMA_VERSION;
    }
    if (!rc && s->writable && version == SCHEMA_VERSION)
        rc = database_exec(s, DEFINITIONS_SCHEMA, err);
    if (!rc && version != SCHEMA_VERSION)
        rc = ea_fail(err, version == 0 ? EA_ENOTFOUND : EA_EUNSUPPORTED,
                     "open %s: the index is of another format (version %d, this program reads %d)", s->dir, version,
                     SCHEMA_VERSION);
    return rc;
}

int ec_db_make_tables(sqlite3 *db) {
    static const char *const PARTS[] = {SCHEMA, DEFINITIONS_SCHEMA, "PRAGMA user_version = 1"};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS && rc == SQLITE_OK; i++)
        rc = sqlite3_exec(db, PARTS[i], NULL, NULL, NULL);
    return rc;
}
