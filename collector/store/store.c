/* The embedded store: segments, their index, recovery. See store.h.
 *
 * One SQLite transaction is open from the first append of a group to its commit, so that look-ups for duplicates see
 * the group's own batches. It is committed after the segment's fdatasync: what the index names is always durable. The
 * position up to which segments are indexed is in the same transaction; what lies behind it when the store is opened is
 * indexed then. */
#include "store.h"

#include "map.h"
#include "platform.h"
#include "retain.h"
#include "segment.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCHEMA_VERSION = 1,
    INCIDENTS_MAX = 10000, /* rows; the oldest go */
    BUSY_TIMEOUT_MS = 20000,
    DEFAULT_SEGMENT_MIB = 256,
    INDEXED_PIDS = 4096, /* a batch with more is not indexed by pid: it may hold any */
    STREAM_DICTIONARIES = 8,
    STREAMS_AT_ONCE = 64, /* rows that are read before they are given out */
    CACHED_DEFINITIONS = 4096,
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
    /* what a stream's agent says of itself. hash: of the Source message that said so; labels: a JSON object */
    "CREATE TABLE IF NOT EXISTS origins(stream_id INTEGER PRIMARY KEY, hash INTEGER NOT NULL,"
    " agent_version TEXT NOT NULL, labels TEXT NOT NULL);"
    /* what was noticed while batches came, and is in none of them */
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
    "CREATE INDEX IF NOT EXISTS batches_segment ON batches(segment);";

/* Prepared statements, made when first used. */
#define STATEMENTS(X)                                                                                                  \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(SAVE, "SAVEPOINT one_batch")                                                                                     \
    X(RELEASE, "RELEASE one_batch")                                                                                    \
    X(UNDO, "ROLLBACK TO one_batch")                                                                                   \
    X(GET_POSITION, "SELECT segment, offset FROM position")                                                            \
    X(SET_POSITION, "INSERT OR REPLACE INTO position VALUES(1, ?1, ?2)")                                               \
    X(FIND_STREAM, "SELECT stream_id FROM streams WHERE agent = ?1 AND stream = ?2")                                   \
    X(ADD_STREAM, "INSERT INTO streams VALUES(NULL, ?1, ?2, ?3, 0, 0, 0, NULL, NULL, ?4, ?4)")                         \
    X(GROW_STREAM,                                                                                                     \
      "UPDATE streams SET batch_count = batch_count + ?2, event_count = event_count + ?3,"                             \
      " byte_count = byte_count + ?4, begin_utc_ns = ifnull(min(begin_utc_ns, ?5), ifnull(?5, begin_utc_ns)),"         \
      " end_utc_ns = ifnull(max(end_utc_ns, ?6), ifnull(?6, end_utc_ns)), received_last_utc_ns = ?7,"                  \
      " source_host = CASE WHEN source_host = '' THEN ?8 ELSE source_host END WHERE stream_id = ?1")                   \
    /* a batch that comes behind a later one changes nothing: its own hash, ?3 */                                      \
    X(FIND_ORIGIN,                                                                                                     \
      "SELECT iif((SELECT last FROM ranges WHERE stream_id = ?1 ORDER BY first DESC LIMIT 1) > ?2, ?3, hash)"          \
      " FROM origins WHERE stream_id = ?1")                                                                            \
    X(SET_ORIGIN, "INSERT OR REPLACE INTO origins VALUES(?1, ?2, ?3, ?4)")                                             \
    X(FIND_BATCH, "SELECT kind, checksum FROM batches WHERE stream_id = ?1 AND number = ?2 UNION ALL"                  \
                  " SELECT kind, checksum FROM expired WHERE stream_id = ?1 AND number = ?2 LIMIT 1")                  \
    X(FIND_EXPIRED, "SELECT 1 FROM expired_streams WHERE stream_id = ?1 AND through >= ?2")                            \
    X(ADD_BATCH, "INSERT OR REPLACE INTO batches VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")      \
    X(NEXT_BATCH, "SELECT number, event_count, begin_utc_ns, end_utc_ns, len_bytes, segment, offset FROM batches"      \
                  " WHERE stream_id = ?1 AND number > ?2 ORDER BY number LIMIT 1")                                     \
    X(ADJACENT_RANGES, "SELECT first, last FROM ranges WHERE stream_id = ?1 AND first <= ?3"                           \
                       " AND first >= ifnull((SELECT max(first) FROM ranges WHERE stream_id = ?1 AND first < ?2), 0)"  \
                       " AND last >= ?4")                                                                              \
    X(DROP_RANGES, "DELETE FROM ranges WHERE stream_id = ?1 AND first >= ?2 AND first <= ?3")                          \
    X(ADD_RANGE, "INSERT INTO ranges VALUES(?1, ?2, ?3)")                                                              \
    X(STREAM_RANGES, "SELECT first, last FROM ranges WHERE stream_id = ?1 ORDER BY first LIMIT ?2")                    \
    X(ADD_TOMBSTONE, "INSERT OR IGNORE INTO tombstones VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                \
    X(FIND_CLASS, "SELECT class_id FROM classes WHERE hash = ?1")                                                      \
    X(ADD_CLASS, "INSERT INTO classes VALUES(NULL, ?1, ?2)")                                                           \
    X(FIND_STREAM_CLASS, "SELECT c.class_id FROM classes c JOIN stream_classes s ON s.class_id = c.class_id"           \
                         " WHERE c.hash = ?2 AND s.stream_id = ?1")                                                    \
    X(ADD_STREAM_CLASS, "INSERT OR IGNORE INTO stream_classes VALUES(?1, ?2)")                                         \
    X(STREAM_CLASSES, "SELECT c.description FROM stream_classes s JOIN classes c ON c.class_id = s.class_id"           \
                      " WHERE s.stream_id = ?1 ORDER BY s.class_id")                                                   \
    X(FIND_DEFINITION, "SELECT definition_id FROM definitions WHERE hash = ?1")                                        \
    X(ADD_DEFINITION, "INSERT INTO definitions VALUES(NULL, ?1, ?2, ?3)")                                              \
    X(ADD_STREAM_DEFINITION, "INSERT OR IGNORE INTO stream_definitions VALUES(?1, ?2, ?3, ?4)")                        \
    X(ADD_INCIDENT, "INSERT INTO incidents VALUES(NULL, ?1, ?2, ?3, ?4)")                                              \
    X(DROP_INCIDENTS, "DELETE FROM incidents WHERE incident_id <= (SELECT max(incident_id) FROM incidents) - ?1")      \
    X(EACH_INCIDENT, "SELECT incident_id, utc_ns, agent, kind, text FROM incidents"                                    \
                     " WHERE incident_id > ?1 AND (?2 IS NULL OR agent = ?2) ORDER BY incident_id LIMIT 1")            \
    X(COUNT_DEFINITIONS, "SELECT count(*) FROM stream_definitions WHERE stream_id = ?1 AND kind = ?2")                 \
    X(STREAM_DEFINITION, "SELECT d.data FROM stream_definitions s JOIN definitions d"                                  \
                         " ON d.definition_id = s.definition_id"                                                       \
                         " WHERE s.stream_id = ?1 AND s.hash BETWEEN ?2 AND ?3 AND s.kind = ?4 LIMIT 2")               \
    X(EACH_STREAM, "SELECT s.stream_id, agent, stream, s.batch_count, s.event_count, s.byte_count,"                    \
                   " (SELECT max(last) FROM ranges r WHERE r.stream_id = s.stream_id),"                                \
                   " (SELECT sum(last - first + 1) FROM ranges r WHERE r.stream_id = s.stream_id),"                    \
                   " begin_utc_ns, end_utc_ns, received_first_utc_ns, received_last_utc_ns, source_host,"              \
                   " e.batch_count, e.event_count, e.byte_count, o.agent_version, o.labels FROM streams s"             \
                   " LEFT JOIN expired_streams e ON e.stream_id = s.stream_id"                                         \
                   " LEFT JOIN origins o ON o.stream_id = s.stream_id"                                                 \
                   " WHERE (?1 IS NULL OR agent = ?1) AND s.stream_id > ?2 ORDER BY s.stream_id LIMIT ?3")

enum statement {
#define X(name, sql) ST_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};

static const char *const SQL[STATEMENT_COUNT] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

struct ec_store {
    char *dir, *segments;
    int writable;
    uint64_t segment_bytes;
    int trusts_checksums;
    ea_counters *counters;
    ea_counters own_counters; /* when the caller gave none */
    ea_file *lock;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];

    /* the writing side */
    ec_segment segment;   /* the one that grows */
    uint64_t durable_end; /* of it: everything before is synced and indexed */
    int in_group, group_failed;
    uint64_t group_events, group_bytes;
    ea_batch_head head; /* of the batch at hand */
    ea_batch_view *view;
    ea_registry *checker; /* parses descriptions that are new here */
    ec_store_notes notes;
    size_t described_capacity, missing_capacity;
    ea_text classes, pids; /* of the batch at hand: blobs of its index row */
    int any_pid;           /* too many to list */

    /* the reading side */
    ea_text completed;          /* the batch at hand, when it named something */
    size_t completed_len_bytes; /* 0: it did not */
    ea_text definition;
    ea_bytes_map cache; /* cached -> the same: definitions of streams that were read lately */
    size_t cached_bytes;
    ec_segment reading;
    uint8_t *data;
    size_t data_capacity;
};

/* ---- SQLite, briefly ---- */

static int db_fail(ec_store *s, ea_err *err, const char *what) {
    int primary = sqlite3_errcode(s->db) & 0xff;
    int code = primary == SQLITE_FULL    ? EA_EFULL
               : primary == SQLITE_NOMEM ? EA_ENOMEM
               : primary == SQLITE_BUSY  ? EA_EBUSY
                                         : EA_EDATABASE;
    return ea_fail(err, code, "%s in %s/index.db: %s", what, s->dir, sqlite3_errmsg(s->db));
}

static sqlite3_stmt *statement(ec_store *s, enum statement which) {
    if (!s->statements[which] &&
        sqlite3_prepare_v3(s->db, SQL[which], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[which], NULL) != SQLITE_OK)
        s->statements[which] = NULL;
    return s->statements[which];
}

/* Arguments of a statement, in order: 'i' int64_t, 't' const char * (NULL is NULL), 'b' const void * and size_t; 'n'
 * and 'N' take what 'i' and 'b' take and bind NULL. Values are borrowed until the statement is reset. */
static sqlite3_stmt *bind(ec_store *s, enum statement which, const char *types, ...) {
    sqlite3_stmt *st = statement(s, which);
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

/* Ends a statement; keeps its place for the next use. */
static void done(sqlite3_stmt *st) {
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
}

/* Runs a bound statement that gives no rows (NULL: binding failed). */
static int run(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err) {
    if (!st)
        return db_fail(s, err, what);
    int rc = sqlite3_step(st);
    int failed = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : db_fail(s, err, what);
    done(st);
    return failed;
}

/* Steps to a row: 1; 0 at the end (the statement is done then), or an error (likewise). */
static int row(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err) {
    if (!st)
        return db_fail(s, err, what);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    int failed = rc == SQLITE_DONE ? 0 : db_fail(s, err, what);
    done(st);
    return failed;
}

/* The one number of a statement's first row: 1, 0 without a row, or an error. */
static int number_of(ec_store *s, sqlite3_stmt *st, const char *what, int64_t *ret, ea_err *err) {
    int rc = row(s, st, what, err);
    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(st, 0);
    done(st);
    return 1;
}

static int exec(ec_store *s, const char *sql, ea_err *err) {
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
    if (s->writable && (rc = exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", err)) != 0)
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

/* A copy of a store that may not be written to: SQLite cannot make the file that WAL readers share, and needs none when
 * nobody writes. Refused while there is a log beside it, whose content would be passed over. */
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

static int open_database(ec_store *s, ea_err *err) {
    ea_text path;
    int version = 0;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/index.db", s->dir);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", s->dir) : 0;
    if (!rc && !s->writable && !ea_path_exists(path.data))
        rc = ea_fail(err, EA_ENOTFOUND, "open %s: there is no store", s->dir);
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
        rc = exec(s, "BEGIN IMMEDIATE", err);
        if (!rc)
            rc = exec(s, SCHEMA, err);
        if (!rc)
            rc = exec(s, "PRAGMA user_version = 1; COMMIT", err);
        version = SCHEMA_VERSION;
    }
    if (!rc && s->writable && version == SCHEMA_VERSION)
        rc = exec(s, DEFINITIONS_SCHEMA, err);
    if (!rc && version != SCHEMA_VERSION)
        rc = ea_fail(err, version == 0 ? EA_ENOTFOUND : EA_EUNSUPPORTED,
                     "open %s: the index has version %d, expected %d", s->dir, version, SCHEMA_VERSION);
    return rc;
}

static int last_segment(uint64_t number, void *arg) {
    uint64_t *last = arg;
    if (number > *last)
        *last = number;
    return 0;
}

static int recover(ec_store *s, ea_err *err);

int ec_store_open(ec_store **ret, const char *dir, const ec_store_options *options, ea_err *err) {
    ec_store *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    s->writable = options->writable;
    s->segment_bytes = options->segment_bytes ? options->segment_bytes : (uint64_t)DEFAULT_SEGMENT_MIB << 20;
    s->trusts_checksums = options->trusts_checksums;
    s->counters = options->counters ? options->counters : &s->own_counters;
    ea_text_init(&s->classes);
    ea_text_init(&s->pids);
    ea_text_init(&s->completed);
    ea_text_init(&s->definition);
    ea_bytes_map_init(&s->cache, CACHED_DEFINITIONS);
    size_t n = strlen(dir);
    s->dir = malloc(n + 1);
    s->segments = malloc(n + sizeof "/segments");
    if (!s->dir || !s->segments) {
        ec_store_close(s);
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    }
    memcpy(s->dir, dir, n + 1);
    snprintf(s->segments, n + sizeof "/segments", "%s/segments", dir);

    int rc = 0;
    if (s->writable) {
        ea_text path;
        ea_text_init(&path);
        ea_text_printf(&path, "%s/lock", dir);
        rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : ea_path_make_dirs(s->segments, err);
        if (!rc)
            rc = ea_file_open(&s->lock, path.data, EA_OPEN_APPEND, err);
        if (!rc)
            rc = ea_file_try_lock(s->lock, err);
        ea_text_deinit(&path);
    }
    if (!rc && s->writable)
        rc = ec_retain_restore_index(dir, err);
    if (!rc)
        rc = open_database(s, err);
    if (!rc && s->writable)
        rc = ea_registry_create(&s->checker, 0, err);
    if (!rc && s->writable)
        rc = recover(s, err);
    if (rc) {
        ec_store_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static void abandon_group(ec_store *s);
static void empty_cache(ec_store *s);

void ec_store_close(ec_store *s) {
    if (!s)
        return;
    if (s->in_group)
        abandon_group(s);
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    ec_segment_close(&s->segment);
    ec_segment_close(&s->reading);
    ea_batch_close(s->view);
    ea_registry_destroy(s->checker);
    ea_text_deinit(&s->classes);
    ea_text_deinit(&s->pids);
    ea_text_deinit(&s->completed);
    ea_text_deinit(&s->definition);
    empty_cache(s);
    ea_bytes_map_deinit(&s->cache);
    free(s->notes.described);
    free(s->notes.missing);
    free(s->data);
    free(s->dir);
    free(s->segments);
    ea_file_close(s->lock);
    free(s);
}

void *ec_store_database(ec_store *s) {
    return s->db;
}
const char *ec_store_folder(const ec_store *s) {
    return s->dir;
}

/* ---- indexing one batch: inside the group's transaction ---- */

/* Room for one more element of a list of notes. */
static int grow(void **list, size_t count, size_t *capacity, size_t element_bytes, ea_err *err) {
    if (count < *capacity)
        return 0;
    size_t grown = *capacity ? *capacity * 2 : 64;
    void *p = realloc(*list, grown * element_bytes);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "index a batch");
    *list = p;
    *capacity = grown;
    return 0;
}

static int note_described(ec_store *s, const uint8_t *hash, ea_err *err) {
    void *list = s->notes.described;
    int rc = grow(&list, s->notes.described_count, &s->described_capacity, sizeof *s->notes.described, err);
    s->notes.described = list;
    if (!rc)
        memcpy(s->notes.described[s->notes.described_count++].bytes, hash, EA_CLASS_HASH_BYTES);
    return rc;
}

static int note_missing(ec_store *s, const ea_hash_ref *ref, ea_err *err) {
    void *list = s->notes.missing;
    int rc = grow(&list, s->notes.missing_count, &s->missing_capacity, sizeof *s->notes.missing, err);
    s->notes.missing = list;
    if (!rc)
        s->notes.missing[s->notes.missing_count++] = *ref;
    return rc;
}

static int find_stream(ec_store *s, const char *agent, const uint8_t *stream, int64_t *ret, ea_err *err) {
    return number_of(s, bind(s, ST_FIND_STREAM, "tb", agent, (const void *)stream, (size_t)EA_STREAM_ID_BYTES),
                     "look a stream up", ret, err);
}

typedef struct {
    ec_store *s;
    int64_t stream_id;
    ea_err *err;
} describing;

/* Stores what later batches of a stream may name by hash. What a shape or source says is looked at when it is used. */
static int add_named(const describing *d, enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes) {
    ec_store *s = d->s;
    uint8_t hash[EA_CLASS_HASH_BYTES];
    int64_t id = 0, count = 0;
    if (data_bytes > (kind == EA_DEFINES_DICTIONARY ? EA_DICTIONARY_MAX_BYTES : EA_SHAPE_MAX_BYTES))
        return ea_fail(d->err, EA_ELIMIT, "batch %" PRIu64 ": a definition of %zu bytes", s->head.number, data_bytes);
    int rc = ea_definition_hash(data, data_bytes, hash, d->err);
    if (!rc && kind == EA_DEFINES_DICTIONARY) {
        rc = number_of(s, bind(s, ST_COUNT_DEFINITIONS, "ii", d->stream_id, (int64_t)kind), "count dictionaries",
                       &count, d->err);
        if (rc >= 0 && count >= STREAM_DICTIONARIES)
            return 0; /* not kept, and not acknowledged: its batches do without it */
        rc = rc < 0 ? rc : 0;
    }
    if (!rc)
        rc = number_of(s, bind(s, ST_FIND_DEFINITION, "b", (const void *)hash, sizeof hash), "look a definition up",
                       &id, d->err);
    if (rc == 0) {
        rc = run(s,
                 bind(s, ST_ADD_DEFINITION, "bib", (const void *)hash, sizeof hash, (int64_t)kind, (const void *)data,
                      data_bytes),
                 "store a definition", d->err);
        id = sqlite3_last_insert_rowid(s->db);
    }
    if (rc < 0)
        return rc;
    rc = run(
        s, bind(s, ST_ADD_STREAM_DEFINITION, "ibii", d->stream_id, (const void *)hash, sizeof hash, (int64_t)kind, id),
        "store a stream's definition", d->err);
    return rc ? rc : note_described(s, hash, d->err);
}

/* Stores one definition for a stream; a class description after it was parsed: nothing unreadable gets in. */
static int add_definition(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg) {
    const describing *d = arg;
    if (kind != EA_DEFINES_CLASS)
        return add_named(d, kind, data, data_bytes);
    ec_store *s = d->s;
    const ea_class *c = NULL;
    int64_t class_id = 0;
    int rc = ea_registry_add_description(s->checker, data, data_bytes, &c, d->err);
    if (rc == EA_ELIMIT) {
        /* the checker remembers what it parsed; begin a new one rather than refuse the 65,537th class */
        ea_registry *fresh = NULL;
        rc = ea_registry_create(&fresh, 0, d->err);
        if (rc)
            return rc;
        ea_registry_destroy(s->checker);
        s->checker = fresh;
        rc = ea_registry_add_description(s->checker, data, data_bytes, &c, d->err);
    }
    if (rc)
        return rc;
    rc = number_of(s, bind(s, ST_FIND_CLASS, "b", (const void *)c->hash, sizeof c->hash), "look a class up", &class_id,
                   d->err);
    if (rc == 0) {
        rc = run(s, bind(s, ST_ADD_CLASS, "bb", (const void *)c->hash, sizeof c->hash, (const void *)data, data_bytes),
                 "store a class", d->err);
        class_id = sqlite3_last_insert_rowid(s->db);
    }
    if (rc < 0)
        return rc;
    rc = run(s, bind(s, ST_ADD_STREAM_CLASS, "ii", d->stream_id, class_id), "store a stream's class", d->err);
    if (!rc)
        rc = note_described(s, c->hash, d->err);
    return rc;
}

static void add_leb128(ea_text *t, uint64_t v) {
    do {
        ea_text_char(t, (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
        v >>= 7;
    } while (v);
}

/* Looks every group's class up; what is nowhere is noted. Fills s->classes. */
static int resolve_classes(ec_store *s, int64_t stream_id, ea_err *err) {
    ea_text_clear(&s->classes);
    for (size_t i = 0; i < ea_batch_group_count(s->view); i++) {
        int64_t class_id = 0;
        const uint8_t *hash = ea_batch_group_hash(s->view, i);
        int rc = number_of(
            s, bind(s, ST_FIND_STREAM_CLASS, "ib", stream_id, (const void *)hash, (size_t)EA_CLASS_HASH_BYTES),
            "look a class up", &class_id, err);
        if (rc == 0) {
            ea_hash_ref ref = {.len_bytes = EA_CLASS_HASH_BYTES};
            memcpy(ref.bytes, hash, sizeof ref.bytes);
            rc = note_missing(s, &ref, err);
        }
        if (rc < 0)
            return rc;
        add_leb128(&s->classes, (uint64_t)class_id);
        add_leb128(&s->classes, ea_batch_group_events(s->view, i));
    }
    if (s->classes.failed)
        return ea_fail(err, EA_ENOMEM, "index a batch");
    if (s->notes.missing_count)
        return ea_fail(err, EA_ENOTFOUND, "batch %" PRIu64 ": %zu class descriptions are missing", s->head.number,
                       s->notes.missing_count);
    return 0;
}

/* Fills s->pids. */
static int list_pids(ec_store *s, ea_err *err) {
    const uint32_t *pids;
    size_t count;
    int rc = ea_batch_pids(s->view, &pids, &count, err);
    if (rc)
        return rc;
    ea_text_clear(&s->pids);
    s->any_pid = count > INDEXED_PIDS;
    for (size_t i = 0; i < count && !s->any_pid; i++)
        add_leb128(&s->pids, i ? pids[i] - pids[i - 1] : pids[i]);
    return s->pids.failed ? ea_fail(err, EA_ENOMEM, "index a batch") : 0;
}

/* Adds numbers first..last to the stream's set, joined with what they touch. */
static int add_range(ec_store *s, int64_t stream_id, uint64_t first, uint64_t last, ea_err *err) {
    int64_t lo = (int64_t)first, hi = (int64_t)last, above = hi < INT64_MAX ? hi + 1 : hi;
    sqlite3_stmt *st = bind(s, ST_ADJACENT_RANGES, "iiii", stream_id, lo, above, lo - 1);
    int rc, found = 0;
    int64_t from = lo;
    while ((rc = row(s, st, "join ranges", err)) == 1) {
        int64_t a = sqlite3_column_int64(st, 0), b = sqlite3_column_int64(st, 1);
        if (a < from)
            from = a;
        if (b > hi)
            hi = b;
        found = 1;
    }
    if (rc)
        return rc;
    if (found)
        rc = run(s, bind(s, ST_DROP_RANGES, "iii", stream_id, from, above), "join ranges", err);
    if (!rc)
        rc = run(s, bind(s, ST_ADD_RANGE, "iii", stream_id, from, hi), "store a range", err);
    return rc;
}

/* ---- what a batch names ---- */

typedef struct cached {
    uint8_t key[8 + 1 + 1 + EA_CLASS_HASH_BYTES]; /* stream, kind, the reference */
    size_t len_bytes;
    uint8_t data[];
} cached;

static void empty_cache(ec_store *s) {
    size_t cursor = 0, key_bytes;
    const void *key;
    void *value;
    while (ea_bytes_map_next(&s->cache, &cursor, &key, &key_bytes, &value))
        free(value);
    ea_bytes_map_clear(&s->cache);
    s->cached_bytes = 0;
}

static void remember(ec_store *s, const uint8_t *key, const void *data, size_t len_bytes) {
    enum { CACHE_BYTES = 16 << 20 };
    if (s->cache.count == CACHED_DEFINITIONS || s->cached_bytes + len_bytes > CACHE_BYTES)
        empty_cache(s);
    cached *c = malloc(sizeof *c + len_bytes);
    if (!c)
        return;
    memcpy(c->key, key, sizeof c->key);
    c->len_bytes = len_bytes;
    if (len_bytes)
        memcpy(c->data, data, len_bytes);
    if (ea_bytes_map_put(&s->cache, c->key, sizeof c->key, c))
        free(c);
    else
        s->cached_bytes += len_bytes;
}

typedef struct naming {
    ec_store *s;
    int64_t stream_id;
    ea_err *err;
    int rc;
} naming;

static int find_definition(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                           size_t *ret_len_bytes, ea_err *err) {
    const naming *n = arg;
    ec_store *s = n->s;
    uint8_t key[sizeof(((cached *)NULL)->key)], to[EA_CLASS_HASH_BYTES];
    ea_store64(key, (uint64_t)n->stream_id);
    key[8] = (uint8_t)kind;
    key[9] = ref->len_bytes;
    memcpy(key + 10, ref->bytes, sizeof ref->bytes);
    /* inside a group nothing is remembered: it may be taken back */
    const cached *c = s->in_group ? NULL : ea_bytes_map_get(&s->cache, key, sizeof key);
    if (c) {
        *ret_data = c->data;
        *ret_len_bytes = c->len_bytes;
        return 1;
    }
    memset(to, 0xFF, sizeof to);
    memcpy(to, ref->bytes, ref->len_bytes);
    sqlite3_stmt *st = bind(s, ST_STREAM_DEFINITION, "ibbi", n->stream_id, (const void *)ref->bytes,
                            (size_t)ref->len_bytes, (const void *)to, sizeof to, (int64_t)kind);
    int rc = row(s, st, "look a definition up", err), count = 0;
    for (; rc == 1; rc = row(s, st, "look a definition up", err)) {
        const void *data = sqlite3_column_blob(st, 0);
        ea_text_clear(&s->definition);
        ea_text_add(&s->definition, data ? data : "", (size_t)sqlite3_column_bytes(st, 0));
        count++;
    }
    if (rc < 0 || count != 1) /* of two that begin alike neither is meant for sure */
        return rc;
    if (s->definition.failed)
        return ea_fail(err, EA_ENOMEM, "look a definition up");
    if (!s->in_group)
        remember(s, key, s->definition.data, s->definition.len_bytes);
    *ret_data = (const uint8_t *)s->definition.data;
    *ret_len_bytes = s->definition.len_bytes;
    return 1;
}

static void on_missing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref) {
    naming *n = arg;
    (void)kind;
    if (!n->rc)
        n->rc = note_missing(n->s, ref, n->err);
}

/* The batch standing for itself: as it is, or in s->completed. */
static int complete(ec_store *s, int64_t stream_id, const uint8_t **batch, size_t *len_bytes, ea_err *err) {
    naming n = {.s = s, .stream_id = stream_id, .err = err};
    ea_definitions known = {.arg = &n, .find = find_definition, .on_missing = on_missing};
    int rc = ea_batch_complete(*batch, *len_bytes, &known, &s->completed, err);
    s->completed_len_bytes = rc == 1 ? s->completed.len_bytes : 0;
    if (n.rc)
        return n.rc;
    if (rc == 1) {
        *batch = (const uint8_t *)s->completed.data;
        *len_bytes = s->completed.len_bytes;
    }
    return rc < 0 ? rc : 0;
}

/* Opens the batch at hand, with what it names, and knows its times from then on. */
static int open_batch(ec_store *s, int64_t stream_id, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    int rc = complete(s, stream_id, &batch, &len_bytes, err);
    if (!rc && s->head.is_incomplete)
        rc = ea_batch_read_head(batch, len_bytes, &s->head, err);
    return rc ? rc : ea_batch_open(&s->view, batch, len_bytes, NULL, err);
}

/* Reads the envelope of the batch at hand. */
static int look_at(ec_store *s, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    s->notes = (ec_store_notes){.described = s->notes.described, .missing = s->notes.missing};
    ea_batch_close(s->view);
    s->view = NULL;
    int rc = ea_batch_read_head(batch, len_bytes, &s->head, err);
    if (rc)
        return rc;
    const ea_batch_head *h = &s->head;
    s->notes.number = h->number;
    s->notes.event_count = h->event_count;
    memcpy(s->notes.stream, h->stream, sizeof s->notes.stream);
    return 0;
}

/* What is known of the batch at hand before it is written: EC_STORED (it is new; *ret_stream 0 when its stream is,
 * too), EC_DUPLICATE, or EA_ECONFLICT. */
static int judge(ec_store *s, const char *agent, int64_t *ret_stream, int *ret_replaces, ea_err *err) {
    const ea_batch_head *h = &s->head;
    int64_t stream_id = 0;
    *ret_replaces = 0;
    int rc = find_stream(s, agent, h->stream, &stream_id, err);
    if (rc < 0)
        return rc;
    *ret_stream = stream_id;
    if (rc == 0)
        return EC_STORED;
    sqlite3_stmt *st = bind(s, ST_FIND_BATCH, "ii", stream_id, (int64_t)h->number);
    rc = row(s, st, "look a batch up", err);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        int64_t is_old = 0;
        rc = number_of(s, bind(s, ST_FIND_EXPIRED, "ii", stream_id, (int64_t)h->number), "look a batch up", &is_old,
                       err);
        if (rc == 1)
            return ea_fail(err, EA_ECONFLICT, "batch %" PRIu64 ": its number was deleted by retention long ago",
                           h->number);
        return rc < 0 ? rc : EC_STORED;
    }
    int64_t kind = sqlite3_column_int64(st, 0);
    uint64_t checksum = (uint64_t)sqlite3_column_int64(st, 1);
    done(st);
    /* A tombstone for what is stored already adds nothing; events for what a tombstone gave up are better than it. */
    if (kind != EA_BATCH_TOMBSTONE && h->kind == EA_BATCH_TOMBSTONE)
        return EC_DUPLICATE;
    if (kind == EA_BATCH_TOMBSTONE && h->kind != EA_BATCH_TOMBSTONE) {
        *ret_replaces = 1;
        return EC_STORED;
    }
    if (checksum == h->checksum)
        return EC_DUPLICATE;
    return ea_fail(err, EA_ECONFLICT, "batch %" PRIu64 ": stored with checksum %016" PRIx64 ", not %016" PRIx64,
                   h->number, checksum, h->checksum);
}

/* Stream row, descriptions and class look-ups of a new batch: all that may refuse it. */
static int prepare(ec_store *s, const char *agent, int64_t *stream_id, const uint8_t *batch, size_t len_bytes,
                   int64_t received_utc_ns, ea_err *err) {
    int rc = 0;
    if (*stream_id == 0) {
        rc = run(s,
                 bind(s, ST_ADD_STREAM, "tbti", agent, (const void *)s->head.stream, (size_t)EA_STREAM_ID_BYTES,
                      s->head.host, received_utc_ns),
                 "store a stream", err);
        *stream_id = sqlite3_last_insert_rowid(s->db);
    }
    describing d = {s, *stream_id, err};
    if (!rc)
        rc = ea_batch_each_definition(batch, len_bytes, add_definition, &d, err);
    if (!rc)
        rc = resolve_classes(s, *stream_id, err);
    return rc ? rc : list_pids(s, err);
}

/* Reads every record of the batch at hand, whose classes are known, and compares their checksum with the batch's. The
 * checker holds the classes that came since this process began; a stream's older ones are loaded when they are missed.
 */
static int verify(ec_store *s, int64_t stream_id, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    ea_batch_view *v = NULL;
    if (s->completed_len_bytes) {
        batch = (const uint8_t *)s->completed.data;
        len_bytes = s->completed_len_bytes;
    }
    int rc = ea_batch_open(&v, batch, len_bytes, s->checker, err);
    if (rc == EA_ENOTFOUND) {
        rc = ec_store_load_classes(s, (uint64_t)stream_id, s->checker, err);
        if (!rc)
            rc = ea_batch_open(&v, batch, len_bytes, s->checker, err);
    }
    if (!rc)
        rc = ea_batch_verify(v, err);
    ea_batch_close(v);
    if (rc == EA_ECORRUPT)
        ea_count(s->counters, EA_COUNT_ingest_bad_checksums, 1);
    return rc;
}

static int add_tombstone(const ea_tombstone *t, void *arg) {
    const describing *d = arg;
    ec_store *s = d->s;
    if (t->first == 0 || t->first > t->last || t->last > INT64_MAX - 1)
        return ea_fail(d->err, EA_ECORRUPT, "batch %" PRIu64 ": a tombstone of %" PRIu64 " to %" PRIu64, s->head.number,
                       t->first, t->last);
    int rc = run(s,
                 bind(s, ST_ADD_TOMBSTONE, "iiiiii", d->stream_id, (int64_t)t->first, (int64_t)t->last,
                      (int64_t)t->cause, (int64_t)t->event_count, (int64_t)s->head.number),
                 "store a tombstone", d->err);
    return rc ? rc : add_range(s, d->stream_id, t->first, t->last, d->err);
}

/* What the agent says of itself, when that is news. */
static int note_origin(ec_store *s, int64_t stream_id, ea_err *err) {
    const ea_batch_head *h = &s->head;
    int64_t before = 0;
    if (!h->source)
        return 0;
    int64_t hash = (int64_t)ea_hash64(h->source, h->source_bytes, 0);
    int rc = number_of(s, bind(s, ST_FIND_ORIGIN, "iii", stream_id, (int64_t)h->number, hash), "look an agent up",
                       &before, err);
    if (rc < 0 || (rc == 1 && before == hash))
        return rc < 0 ? rc : 0;
    ea_text version, labels;
    ea_text_init(&version);
    ea_text_init(&labels);
    rc = ea_source_origin(h->source, h->source_bytes, &version, &labels, err);
    if (!rc)
        rc = run(s,
                 bind(s, ST_SET_ORIGIN, "iitt", stream_id, hash, version.len_bytes ? version.data : "",
                      labels.len_bytes ? labels.data : ""),
                 "keep what an agent is", err);
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    return rc;
}

/* The rows of a batch that stands in a segment. */
static int index_batch(ec_store *s, int64_t stream_id, const uint8_t *batch, const ec_record *r, int replaces,
                       ea_err *err) {
    const ea_batch_head *h = &s->head;
    const char timed = h->event_count ? 'i' : 'n';
    char types[] = "iiiiiiiiiiibb";
    types[5] = types[6] = timed;
    if (s->any_pid)
        types[12] = 'N';
    sqlite3_stmt *st =
        bind(s, ST_ADD_BATCH, types, stream_id, (int64_t)h->number, (int64_t)h->kind, (int64_t)h->checksum,
             (int64_t)h->event_count, h->utc_min_ns, h->utc_max_ns, r->received_utc_ns, (int64_t)s->segment.number,
             (int64_t)r->offset, (int64_t)r->data_bytes, (const void *)s->classes.data, s->classes.len_bytes,
             (const void *)s->pids.data, s->pids.len_bytes);
    int rc = run(s, st, "index a batch", err);
    if (!rc)
        rc = add_range(s, stream_id, h->number, h->number, err);
    describing d = {s, stream_id, err};
    if (!rc && h->tombstone_count)
        rc = ea_batch_each_tombstone(batch, (size_t)r->data_bytes, add_tombstone, &d, err);
    if (rc)
        return rc;
    char grow[] = "iiiiiiit";
    grow[4] = grow[5] = timed;
    st = bind(s, ST_GROW_STREAM, grow, stream_id, (int64_t)(replaces ? 0 : 1), (int64_t)h->event_count,
              (int64_t)r->data_bytes, h->utc_min_ns, h->utc_max_ns, r->received_utc_ns, h->host);
    rc = run(s, st, "count a batch", err);
    return rc ? rc : note_origin(s, stream_id, err);
}

static int begin_group(ec_store *s, ea_err *err) {
    if (s->in_group)
        return 0;
    int rc = run(s, statement(s, ST_BEGIN), "begin", err);
    if (rc)
        return rc;
    s->in_group = 1;
    s->group_failed = 0;
    s->group_events = s->group_bytes = 0;
    return 0;
}

/* Takes a group back: nothing of it was acknowledged. */
static void abandon_group(ec_store *s) {
    ea_err ignored;
    if (!sqlite3_get_autocommit(s->db))
        (void)!run(s, statement(s, ST_ROLLBACK), "roll back", &ignored);
    s->in_group = 0;
    s->group_failed = 0;
    if (s->segment.file && s->segment.end != s->durable_end &&
        ec_segment_cut(&s->segment, s->durable_end, &ignored) != 0) {
        /* The rest of this file cannot be trusted: leave it, and let the next append open another segment. What lies
         * behind durable_end is then a torn tail or a repeat, which the next open sorts out. */
        ec_segment_close(&s->segment);
    }
}

/* ---- recovery ---- */

/* One record found behind the indexed position. */
static int index_found(ec_store *s, const ec_record *r, ea_err *err) {
    int64_t stream_id = 0;
    int replaces = 0;
    int rc = look_at(s, s->data, (size_t)r->data_bytes, err);
    if (rc)
        return rc;
    rc = judge(s, r->agent, &stream_id, &replaces, err);
    if (rc != EC_STORED)
        return rc;
    rc = open_batch(s, stream_id, s->data, (size_t)r->data_bytes, err);
    if (!rc)
        rc = prepare(s, r->agent, &stream_id, s->data, (size_t)r->data_bytes, r->received_utc_ns, err);
    return rc ? rc : index_batch(s, stream_id, s->data, r, replaces, err);
}

/* Indexes what stands in the open segment behind offset. Ends at the first place behind which nothing sound stands. */
static int index_segment(ec_store *s, uint64_t offset, uint64_t *ret_end, ea_err *err) {
    for (;;) {
        ec_record r;
        int rc = ec_segment_scan(&s->segment, offset, &r, &s->data, &s->data_capacity, err);
        if (rc == EA_ETRUNCATED || rc == EA_ECORRUPT) {
            uint64_t next;
            rc = ec_segment_resync(&s->segment, offset, &next, &s->data, &s->data_capacity, err);
            if (rc == 1) {
                ea_count(s->counters, EA_COUNT_store_damaged_bytes, next - offset);
                offset = next;
                continue;
            }
        }
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        rc = run(s, statement(s, ST_SAVE), "index", err);
        if (rc)
            return rc;
        rc = index_found(s, &r, err);
        if (rc == EA_EFORMAT || rc == EA_ECORRUPT || rc == EA_ELIMIT || rc == EA_ENOTFOUND || rc == EA_ECONFLICT ||
            rc == EA_EUNSUPPORTED) {
            /* sound as a record, not as a batch: append never lets one in; keep the bytes, leave it out of the index */
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, r.next - r.offset);
            rc = run(s, statement(s, ST_UNDO), "index", err);
        }
        if (rc < 0)
            return rc;
        rc = run(s, statement(s, ST_RELEASE), "index", err);
        if (rc)
            return rc;
        offset = r.next;
    }
    *ret_end = offset;
    return 0;
}

static int recover(ec_store *s, ea_err *err) {
    uint64_t at = 0, offset = 0, last = 0;
    sqlite3_stmt *st = statement(s, ST_GET_POSITION);
    int rc = row(s, st, "read the position", err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        at = (uint64_t)sqlite3_column_int64(st, 0);
        offset = (uint64_t)sqlite3_column_int64(st, 1);
        done(st);
    }
    rc = ec_segment_each(s->segments, last_segment, &last, err);
    if (rc)
        return rc;
    if (at == 0)
        at = 1;
    if (last < at && last != 0)
        return ea_fail(err, EA_ECORRUPT, "open %s: the index knows segment %" PRIu64 ", the last file is %" PRIu64,
                       s->dir, at, last);
    rc = begin_group(s, err);
    uint64_t end = 0;
    for (; !rc && at <= last; at++, offset = 0) {
        ec_segment_close(&s->segment);
        rc = ec_segment_open(&s->segment, s->segments, at, 1, err);
        if (rc == EA_ENOTFOUND) { /* removed by retention */
            rc = 0;
            continue;
        }
        if (rc == EA_ETRUNCATED && at == last) { /* it was being made when the machine stopped: make it again */
            rc = ec_segment_create(&s->segment, s->segments, at, err);
            end = EC_SEGMENT_HEADER_BYTES;
            continue;
        }
        if (rc == EA_ECORRUPT || rc == EA_ETRUNCATED) {
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, EC_SEGMENT_HEADER_BYTES);
            end = 0;
            rc = 0;
            continue;
        }
        if (!rc && offset > s->segment.end) {
            /* the file lost what the index names: never write over those places */
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, offset - s->segment.end);
            ec_segment_close(&s->segment);
            continue;
        }
        if (!rc)
            rc = index_segment(s, offset ? offset : EC_SEGMENT_HEADER_BYTES, &end, err);
        if (!rc && end < s->segment.end && at == last) {
            ea_count(s->counters, EA_COUNT_store_torn_bytes, s->segment.end - end);
            rc = ec_segment_cut(&s->segment, end, err);
        } else if (!rc && end < s->segment.end) {
            ea_count(s->counters, EA_COUNT_store_torn_bytes, s->segment.end - end);
        }
    }
    /* What is indexed now must be as durable as what an acknowledgement promises. */
    if (!rc && s->segment.file)
        rc = ec_segment_sync(&s->segment, err);
    if (!rc && !s->segment.file)
        rc = ec_segment_create(&s->segment, s->segments, last + 1, err);
    if (!rc)
        rc = run(s, bind(s, ST_SET_POSITION, "ii", (int64_t)s->segment.number, (int64_t)s->segment.end),
                 "keep the position", err);
    if (!rc)
        rc = run(s, statement(s, ST_COMMIT), "commit", err);
    if (rc) {
        /* leave the files as they are for the next attempt */
        ea_err ignored;
        if (!sqlite3_get_autocommit(s->db))
            (void)!run(s, statement(s, ST_ROLLBACK), "roll back", &ignored);
        s->in_group = 0;
        ec_segment_close(&s->segment);
        return rc;
    }
    s->in_group = 0;
    s->durable_end = s->segment.end;
    return 0;
}

/* ---- writing ---- */

/* Goes on in a new segment; only between groups, so that one sync makes a group durable. */
static int roll(ec_store *s, ea_err *err) {
    ec_segment next;
    uint64_t last = s->segment.number;
    int rc = ec_segment_each(s->segments, last_segment, &last, err);
    if (!rc)
        rc = ec_segment_create(&next, s->segments, last + 1, err);
    if (rc)
        return rc;
    ec_segment_close(&s->segment);
    s->segment = next;
    s->durable_end = next.end;
    return 0;
}

int ec_store_make_tables(sqlite3 *db) {
    static const char *const PARTS[] = {SCHEMA, DEFINITIONS_SCHEMA, "PRAGMA user_version = 1"};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS && rc == SQLITE_OK; i++)
        rc = sqlite3_exec(db, PARTS[i], NULL, NULL, NULL);
    return rc;
}

ea_counters *ec_store_counters(ec_store *s) {
    return s->counters;
}

int ec_store_open_segment(ec_store *s, int begin_new, uint64_t *ret_number, ea_err *err) {
    int rc = 0;
    if (s->in_group || !s->writable)
        return ea_fail(err, EA_EINVAL, "begin a segment of %s: a group is open", s->dir);
    if (!s->segment.file ||
        (s->segment.end > EC_SEGMENT_HEADER_BYTES && (begin_new || s->segment.end >= s->segment_bytes)))
        rc = roll(s, err);
    if (!rc && ret_number)
        *ret_number = s->segment.number;
    return rc;
}

const ec_store_notes *ec_store_last_notes(const ec_store *s) {
    return &s->notes;
}

int ec_store_append(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    if (!s->writable)
        return ea_fail(err, EA_EINVAL, "append to %s: it is open for reading", s->dir);
    int rc = look_at(s, batch, len_bytes, err);
    if (rc)
        return rc;
    if (s->group_failed)
        return ea_fail(err, EA_EIO, "append to %s: an append before this one failed", s->dir);
    if (!s->in_group && (!s->segment.file || s->segment.end >= s->segment_bytes)) {
        rc = roll(s, err);
        if (rc)
            return rc;
    }
    rc = begin_group(s, err);
    if (rc)
        return rc;

    int64_t stream_id = 0, now = ea_utc_ns();
    int replaces = 0;
    ec_record record;
    int verdict = judge(s, agent, &stream_id, &replaces, err);
    if (verdict == EC_DUPLICATE) {
        /* descriptions that a repeat carries count as known when they are: they came with the first copy */
        return EC_DUPLICATE;
    }
    if (verdict < 0 && verdict != EA_ECONFLICT)
        s->group_failed = 1;
    if (verdict < 0)
        return verdict;
    rc = open_batch(s, stream_id, batch, len_bytes, err);
    if (rc)
        return rc;
    rc = run(s, statement(s, ST_SAVE), "store a batch", err);
    if (rc) {
        s->group_failed = 1;
        return rc;
    }
    uint64_t before = s->segment.end;
    int failed = prepare(s, agent, &stream_id, batch, len_bytes, now, err);
    if (!failed && !s->trusts_checksums && s->head.event_count)
        failed = verify(s, stream_id, batch, len_bytes, err);
    if (!failed)
        failed = ec_segment_append(&s->segment, agent, batch, len_bytes, now, &record, err);
    if (!failed)
        failed = index_batch(s, stream_id, batch, &record, replaces, err);
    if (failed) {
        ea_err ignored;
        s->segment.end = before; /* what was written is written over, or cut with the group */
        s->notes.described_count = 0;
        /* some failures make SQLite roll the whole transaction back */
        if (sqlite3_get_autocommit(s->db) || run(s, statement(s, ST_UNDO), "undo", &ignored) ||
            run(s, statement(s, ST_RELEASE), "undo", &ignored))
            s->group_failed = 1;
        return failed;
    }
    rc = run(s, statement(s, ST_RELEASE), "store a batch", err);
    if (rc) {
        s->group_failed = 1;
        return rc;
    }
    s->group_events += s->head.event_count;
    s->group_bytes += len_bytes;
    return EC_STORED;
}

int ec_store_commit(ec_store *s, ea_err *err) {
    if (!s->in_group)
        return 0;
    int rc = 0;
    if (s->group_failed)
        rc = ea_fail(err, EA_EIO, "commit to %s: an append failed", s->dir);
    if (!rc && s->segment.end != s->durable_end)
        rc = ec_segment_sync(&s->segment, err);
    if (!rc && s->segment.end != s->durable_end)
        rc = run(s, bind(s, ST_SET_POSITION, "ii", (int64_t)s->segment.number, (int64_t)s->segment.end),
                 "keep the position", err);
    if (!rc)
        rc = run(s, statement(s, ST_COMMIT), "commit", err);
    if (rc) {
        abandon_group(s);
        return rc;
    }
    s->in_group = 0;
    s->durable_end = s->segment.end;
    ea_count(s->counters, EA_COUNT_store_events, s->group_events);
    ea_count(s->counters, EA_COUNT_store_bytes, s->group_bytes);
    return 0;
}

/* ---- incidents ---- */

static void copy_text(char *out, size_t out_bytes, sqlite3_stmt *st, int column) {
    const unsigned char *text = sqlite3_column_text(st, column);
    snprintf(out, out_bytes, "%s", text ? (const char *)text : "");
}

const char *ec_incident_name(uint32_t kind) {
    switch (kind) {
    case EC_INCIDENT_TWICE:
        return "identity-twice";
    case EC_INCIDENT_CONFLICT:
        return "conflict";
    case EC_INCIDENT_RETENTION:
        return "retention";
    default:
        return "other";
    }
}

int ec_store_add_incident(ec_store *s, const char *agent, enum ec_incident_kind kind, const char *text, ea_err *err) {
    int rc = begin_group(s, err);
    if (!rc)
        rc = run(s, bind(s, ST_ADD_INCIDENT, "itit", ea_utc_ns(), agent, (int64_t)kind, text), "keep an incident", err);
    if (!rc)
        rc = run(s, bind(s, ST_DROP_INCIDENTS, "i", (int64_t)INCIDENTS_MAX), "keep an incident", err);
    return rc;
}

int ec_store_each_incident(ec_store *s, const char *host, int (*fn)(const ec_incident *incident, void *arg), void *arg,
                           ea_err *err) {
    int64_t after = 0;
    if (!statement(s, ST_EACH_INCIDENT) && sqlite3_errcode(s->db) == SQLITE_ERROR)
        return 0; /* written before there were any */
    for (;;) {
        sqlite3_stmt *st = bind(s, ST_EACH_INCIDENT, "it", after, host);
        int rc = row(s, st, "read the incidents", err);
        if (rc != 1)
            return rc;
        ec_incident i = {.utc_ns = sqlite3_column_int64(st, 1), .kind = (uint32_t)sqlite3_column_int64(st, 3)};
        after = sqlite3_column_int64(st, 0);
        copy_text(i.host, sizeof i.host, st, 2);
        copy_text(i.text, sizeof i.text, st, 4);
        done(st);
        if (fn(&i, arg))
            return 0;
    }
}

/* ---- reading ---- */

int ec_store_ranges(ec_store *s, const char *agent, const uint8_t *stream, ec_range *ranges, size_t capacity,
                    size_t *ret_count, ea_err *err) {
    int64_t stream_id = 0;
    size_t n = 0;
    int rc = find_stream(s, agent, stream, &stream_id, err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        sqlite3_stmt *st = bind(s, ST_STREAM_RANGES, "ii", stream_id, (int64_t)capacity);
        while ((rc = row(s, st, "read ranges", err)) == 1) {
            ranges[n].first = (uint64_t)sqlite3_column_int64(st, 0);
            ranges[n++].last = (uint64_t)sqlite3_column_int64(st, 1);
        }
        if (rc)
            return rc;
    }
    *ret_count = n;
    return 0;
}

/* Its labels are the caller's to free. 0 or EA_ENOMEM. */
static int read_stream(sqlite3_stmt *st, ec_stream_row *r) {
    *r = (ec_stream_row){.stream_id = (uint64_t)sqlite3_column_int64(st, 0)};
    copy_text(r->host, sizeof r->host, st, 1);
    const void *stream = sqlite3_column_blob(st, 2);
    if (stream && sqlite3_column_bytes(st, 2) == EA_STREAM_ID_BYTES)
        memcpy(r->stream, stream, EA_STREAM_ID_BYTES);
    r->batch_count = (uint64_t)sqlite3_column_int64(st, 3);
    r->event_count = (uint64_t)sqlite3_column_int64(st, 4);
    r->byte_count = (uint64_t)sqlite3_column_int64(st, 5);
    r->highest_number = (uint64_t)sqlite3_column_int64(st, 6);
    r->missing_count = r->highest_number - (uint64_t)sqlite3_column_int64(st, 7);
    r->begin_utc_ns = sqlite3_column_int64(st, 8);
    r->end_utc_ns = sqlite3_column_int64(st, 9);
    r->received_first_utc_ns = sqlite3_column_int64(st, 10);
    r->received_last_utc_ns = sqlite3_column_int64(st, 11);
    copy_text(r->source_host, sizeof r->source_host, st, 12);
    r->expired_batch_count = (uint64_t)sqlite3_column_int64(st, 13);
    r->expired_event_count = (uint64_t)sqlite3_column_int64(st, 14);
    r->expired_byte_count = (uint64_t)sqlite3_column_int64(st, 15);
    copy_text(r->agent_version, sizeof r->agent_version, st, 16);
    const char *labels = (const char *)sqlite3_column_text(st, 17);
    if (!labels || !*labels)
        return 0;
    r->labels = strdup(labels);
    return r->labels ? 0 : EA_ENOMEM;
}

int ec_store_each_stream(ec_store *s, const char *host, int (*fn)(const ec_stream_row *row, void *arg), void *arg,
                         ea_err *err) {
    ec_stream_row *rows = malloc(STREAMS_AT_ONCE * sizeof *rows);
    int64_t after = 0;
    int rc = rows ? 1 : ea_fail(err, EA_ENOMEM, "read the streams");
    while (rc == 1) {
        /* some rows at a time, the statement reset before fn: fn may call this store, and no read transaction stays
         * open */
        size_t count = 0;
        sqlite3_stmt *st = bind(s, ST_EACH_STREAM, "tii", host, after, (int64_t)STREAMS_AT_ONCE);
        int failed = 0;
        while (!failed && (rc = row(s, st, "read the streams", err)) == 1)
            failed = read_stream(st, &rows[count++]);
        if (failed) {
            done(st);
            rc = ea_fail(err, failed, "read the streams");
        }
        if (count)
            after = (int64_t)rows[count - 1].stream_id;
        int more = !rc && count;
        for (size_t i = 0; i < count; i++) {
            more = more && !fn(&rows[i], arg);
            free((char *)(uintptr_t)rows[i].labels);
        }
        if (!more)
            break;
        rc = 1;
    }
    free(rows);
    return rc;
}

int ec_store_next_batch(ec_store *s, uint64_t stream_id, uint64_t after, ec_batch_row *ret, ea_err *err) {
    sqlite3_stmt *st = bind(s, ST_NEXT_BATCH, "ii", (int64_t)stream_id, after > INT64_MAX ? INT64_MAX : (int64_t)after);
    int rc = row(s, st, "read a batch's row", err);
    if (rc != 1)
        return rc;
    *ret = (ec_batch_row){.stream_id = stream_id,
                          .number = (uint64_t)sqlite3_column_int64(st, 0),
                          .event_count = (uint32_t)sqlite3_column_int64(st, 1),
                          .begin_utc_ns = sqlite3_column_int64(st, 2),
                          .end_utc_ns = sqlite3_column_int64(st, 3),
                          .len_bytes = (uint64_t)sqlite3_column_int64(st, 4),
                          .segment = (uint64_t)sqlite3_column_int64(st, 5),
                          .offset = (uint64_t)sqlite3_column_int64(st, 6)};
    done(st);
    return 1;
}

int ec_store_read(ec_store *s, const ec_batch_row *b, const uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    if (!s->reading.file || s->reading.number != b->segment) {
        ec_segment_close(&s->reading);
        int rc = ec_segment_open(&s->reading, s->segments, b->segment, 0, err);
        if (rc)
            return rc;
    }
    int rc = ec_segment_read(&s->reading, b->offset, b->len_bytes, &s->data, &s->data_capacity, err);
    if (rc)
        return rc;
    const uint8_t *data = s->data;
    size_t len_bytes = (size_t)b->len_bytes;
    s->notes.missing_count = 0;
    rc = complete(s, (int64_t)b->stream_id, &data, &len_bytes, err);
    if (rc)
        return rc;
    *ret_data = data;
    *ret_len_bytes = len_bytes;
    return 0;
}

int ec_store_load_classes(ec_store *s, uint64_t stream_id, ea_registry *registry, ea_err *err) {
    sqlite3_stmt *st = bind(s, ST_STREAM_CLASSES, "i", (int64_t)stream_id);
    int rc;
    while ((rc = row(s, st, "read the classes", err)) == 1) {
        const ea_class *c;
        const void *d = sqlite3_column_blob(st, 0);
        rc = ea_registry_add_description(registry, d, (size_t)sqlite3_column_bytes(st, 0), &c, err);
        if (rc) {
            done(st);
            return rc;
        }
    }
    return rc;
}
