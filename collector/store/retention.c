/* Retention. See retention.h. */
#include "collector/store/retention.h"

#include "collector/sqlite/sqlite.h"
#include "collector/store/store_parts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ROWS_A_STEP = 512,
    ERASED_ROWS_A_STEP = 512,
    ERASED_A_CHORE = 512, /* records */
    KEEP_BUSY_MS = 20000,
    FREED_A_STEP = 1024,       /* definitions */
    REMEMBERED_BATCHES = 4096, /* checksums of deleted batches that are kept of each stream */
    FORGET_DAYS = 30,          /* a stream of which nothing is left is forgotten when it was silent for so long */
    SLACK_PARTS = 16,          /* a store that is too large loses so much more than it has to */
    KEEP_S = 60,               /* kept.db is written at most so often for batches that were erased */
    AGE_PARTS = 8,             /* an open segment is closed when it began an eighth of the age ago */
};

static const int64_t S_TO_NS = INT64_C(1000000000);
static const int64_t HOUR_NS = 3600 * INT64_C(1000000000);

static int retention_fail(ec_store *s, ea_err *err, const char *what) {
    sqlite3 *db = ec_store_database(s);
    return ea_fail_os(err, ec_sqlite_error(db), ec_sqlite_os_error(db), "%s in %s/index.db: %s", what,
                      ec_store_folder(s), ec_sqlite_text(db));
}

/* NULL: retention_fail says why. */
static sqlite3_stmt *retention_prepare(ec_store *s, const char *sql) {
    sqlite3_stmt *st = NULL;
    return ec_sqlite_prepare(ec_store_database(s), &st, sql, NULL, NULL) == 0 ? st : NULL;
}

/* Runs SQL with up to three numbers bound; the first column of its last row goes to *ret (may be NULL): 1, or 0 without
 * a row or with NULL in it. */
static int retention_ask(ec_store *s, const char *sql, int64_t a, int64_t b, int64_t c, int64_t *ret, ea_err *err) {
    sqlite3_stmt *st = retention_prepare(s, sql);
    const int64_t values[] = {a, b, c};
    int found = 0, code = st ? SQLITE_OK : SQLITE_ERROR;
    for (int i = 0; code == SQLITE_OK && i < 3 && i < sqlite3_bind_parameter_count(st); i++)
        code = sqlite3_bind_int64(st, i + 1, values[i]);
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(st)) == SQLITE_ROW)
            if (sqlite3_column_type(st, 0) != SQLITE_NULL) {
                found = 1;
                if (ret)
                    *ret = sqlite3_column_int64(st, 0);
            }
    if (code != SQLITE_DONE)
        found = retention_fail(s, err, "delete what is too old");
    sqlite3_finalize(st);
    return found;
}

static int retention_run(ec_store *s, const char *sql, ea_err *err) {
    if (ec_sqlite_exec(ec_store_database(s), sql, sql, NULL) == 0)
        return 0;
    int rc = retention_fail(s, err, "delete what is too old");
    if (!sqlite3_get_autocommit(ec_store_database(s)))
        (void)sqlite3_exec(ec_store_database(s), "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static void retention_path_of(ec_store *s, uint64_t number, char out[1024]) {
    snprintf(out, 1024, "%s/segments/%016" PRIx64 ".seg", ec_store_folder(s), number);
}

static uint64_t retention_bytes_of(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size <= 0)
        return 0;
    /* erased records take no place */
    uint64_t size = (uint64_t)st.st_size, taken = (uint64_t)st.st_blocks * 512;
    return taken < size ? taken : size;
}

/* ---- how much there is ---- */

typedef struct survey {
    ec_store *s;
    uint64_t first, lowest, below; /* first: what is below it has been deleted; files that are there nevertheless */
    uint64_t count, bytes;
} survey;

static int retention_on_segment(uint64_t number, void *arg) {
    survey *v = arg;
    char path[1024];
    if (number < v->first) {
        v->below++;
        return 0;
    }
    if (!v->count || number < v->lowest)
        v->lowest = number;
    v->count++;
    retention_path_of(v->s, number, path);
    v->bytes += retention_bytes_of(path);
    return 0;
}

static int retention_look(ec_store *s, survey *v, ea_err *err) {
    char dir[1024];
    *v = (survey){.s = s};
    int rc = ec_store_first_segment(s, &v->first, err);
    snprintf(dir, sizeof dir, "%s/segments", ec_store_folder(s));
    return rc ? rc : ec_segment_each(dir, retention_on_segment, v, err);
}

static uint64_t pages_in_use(sqlite3 *db) {
    static const char *const PRAGMAS[] = {"PRAGMA page_count", "PRAGMA freelist_count", "PRAGMA page_size"};
    uint64_t v[3] = {0};
    for (int i = 0; i < 3; i++) {
        sqlite3_stmt *st = NULL;
        if (ec_sqlite_prepare(db, &st, PRAGMAS[i], NULL, NULL) == 0 && ec_sqlite_step(st, PRAGMAS[i], NULL) == 1)
            v[i] = (uint64_t)sqlite3_column_int64(st, 0);
        sqlite3_finalize(st);
    }
    return v[0] > v[1] ? (v[0] - v[1]) * v[2] : 0;
}

static void measure_databases(ec_store *s, ec_store_size *size) {
    char path[1024];
    sqlite3 *state = NULL;
    size->index_bytes = pages_in_use(ec_store_database(s));
    snprintf(path, sizeof path, "%s/state.db", ec_store_folder(s));
    if (ea_path_exists(path) && sqlite3_open_v2(path, &state, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK)
        size->state_bytes = pages_in_use(state);
    sqlite3_close(state);
}

int ec_store_measure(ec_store *s, ec_store_size *ret, ea_err *err) {
    survey v;
    int rc = retention_look(s, &v, err);
    if (rc)
        return rc;
    *ret = (ec_store_size){.segment_count = v.count, .segment_bytes = v.bytes};
    measure_databases(s, ret);
    return 0;
}

int ec_store_first_segment(ec_store *s, uint64_t *ret, ea_err *err) {
    int64_t first = 0;
    int rc = retention_ask(s, "SELECT 1 FROM sqlite_master WHERE name = 'retention'", 0, 0, 0, NULL, err);
    if (rc == 1)
        rc = retention_ask(s, "SELECT first_segment FROM retention", 0, 0, 0, &first, err);
    if (rc < 0)
        return rc;
    *ret = (uint64_t)first;
    return 0;
}

int ec_store_what_is_left(ec_store *s, const char *agent, const uint8_t *stream, uint64_t *ret_number,
                          int64_t *ret_begin_utc_ns, ea_err *err) {
    /* agents may send what is urgent first: the first of some batches by time is the first by number, nearly */
    static const char LEFT[] =
        "SELECT (SELECT min(number) FROM batches b WHERE b.stream_id = s.stream_id), (SELECT min(begin_utc_ns) FROM"
        " (SELECT begin_utc_ns FROM batches b WHERE b.stream_id = s.stream_id AND begin_utc_ns IS NOT NULL"
        " ORDER BY number LIMIT 256)) FROM streams s WHERE agent = ?1 AND stream = ?2";
    sqlite3_stmt *st = retention_prepare(s, LEFT);
    int rc = 0;
    if (!st || sqlite3_bind_text(st, 1, agent, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_blob(st, 2, stream, EA_STREAM_ID_BYTES, SQLITE_STATIC) != SQLITE_OK)
        rc = retention_fail(s, err, "look what is left of a stream");
    int code = rc ? SQLITE_ERROR : sqlite3_step(st);
    if (!rc && code != SQLITE_ROW && code != SQLITE_DONE)
        rc = retention_fail(s, err, "look what is left of a stream");
    if (!rc && code == SQLITE_DONE)
        rc = EA_ENOTFOUND;
    if (!rc && sqlite3_column_type(st, 0) != SQLITE_NULL) {
        *ret_number = (uint64_t)sqlite3_column_int64(st, 0);
        *ret_begin_utc_ns = sqlite3_column_type(st, 1) == SQLITE_NULL ? INT64_MIN : sqlite3_column_int64(st, 1);
        rc = 1;
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- what is left of it ---- */

/* Everything of the index but the rows of batches that are still there, as the index of a store with no segment. Ranges
 * are all that were ever stored. */
static const char KEEP[] =
    "BEGIN;"
    "INSERT INTO kept.position SELECT 1, first_segment, 0 FROM main.retention;"
    "INSERT INTO kept.retention SELECT * FROM main.retention;"
    "INSERT INTO kept.streams SELECT s.stream_id, agent, stream, source_host, ifnull(e.batch_count, 0),"
    " ifnull(e.event_count, 0), ifnull(e.byte_count, 0), NULL, NULL, received_first_utc_ns, received_last_utc_ns"
    " FROM main.streams s LEFT JOIN main.expired_streams e ON e.stream_id = s.stream_id;"
    "INSERT INTO kept.ranges SELECT * FROM main.ranges;"
    "INSERT INTO kept.tombstones SELECT * FROM main.tombstones;"
    "INSERT INTO kept.classes SELECT * FROM main.classes;"
    "INSERT INTO kept.stream_classes SELECT * FROM main.stream_classes;"
    "INSERT INTO kept.class_origins SELECT * FROM main.class_origins;"
    "INSERT INTO kept.definitions SELECT * FROM main.definitions;"
    "INSERT INTO kept.stream_definitions SELECT * FROM main.stream_definitions;"
    "INSERT INTO kept.definition_uses SELECT * FROM main.definition_uses;"
    "INSERT INTO kept.stream_bytes SELECT * FROM main.stream_bytes;"
    "INSERT INTO kept.origins SELECT * FROM main.origins;"
    "INSERT INTO kept.incidents SELECT * FROM main.incidents;"
    "INSERT INTO kept.clock_steps SELECT * FROM main.clock_steps;"
    "INSERT INTO kept.clock_seen SELECT * FROM main.clock_seen;"
    "INSERT INTO kept.expired SELECT * FROM main.expired;"
    "INSERT INTO kept.expired_streams SELECT * FROM main.expired_streams;"
    "COMMIT;";

static int remove_file(const char *path, ea_err *err) {
    return ea_path_exists(path) ? ea_path_remove(path, err) : 0;
}

/* Copies everything but batches into the empty database at `made`, and syncs the file. */
static int copy_kept(const char *index, const char *made, ea_err *err) {
    static const char UNSYNCED[] = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
    static const char ATTACHED_UNSYNCED[] = "PRAGMA kept.journal_mode = OFF; PRAGMA kept.synchronous = OFF";
    sqlite3 *db = NULL;
    sqlite3_stmt *attach = NULL;
    ea_file *file = NULL;
    int rc = 0;
    if (sqlite3_open(made, &db) != SQLITE_OK || sqlite3_exec(db, UNSYNCED, NULL, NULL, NULL) != SQLITE_OK ||
        ec_db_make_tables(db) || sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = ea_fail(err, EA_EDATABASE, "make %s: %s", made, db ? sqlite3_errmsg(db) : "no memory");
    sqlite3_close(db);
    db = NULL;
    if (!rc &&
        (sqlite3_open_v2(index, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
         sqlite3_busy_timeout(db, KEEP_BUSY_MS) != SQLITE_OK ||
         ec_sqlite_prepare(db, &attach, "ATTACH ?1 AS kept", NULL, NULL) ||
         sqlite3_bind_text(attach, 1, made, -1, SQLITE_STATIC) != SQLITE_OK || sqlite3_step(attach) != SQLITE_DONE ||
         sqlite3_reset(attach) != SQLITE_OK || sqlite3_exec(db, ATTACHED_UNSYNCED, NULL, NULL, NULL) != SQLITE_OK ||
         sqlite3_exec(db, KEEP, NULL, NULL, NULL) != SQLITE_OK))
        rc = ea_fail(err, EA_EDATABASE, "copy %s to %s: %s", index, made, db ? sqlite3_errmsg(db) : "no memory");
    sqlite3_finalize(attach);
    sqlite3_close(db);
    if (!rc)
        rc = ea_file_open(&file, made, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_sync(file, err);
    ea_file_close(file);
    return rc;
}

/* Thread: any; one call at a time. Reads what is committed in the index. */
static int retention_write_kept(const char *dir, ea_err *err) {
    char index[1024], path[1024], made[1024], journal[1040];
    snprintf(index, sizeof index, "%s/index.db", dir);
    snprintf(path, sizeof path, "%s/kept.db", dir);
    snprintf(made, sizeof made, "%s/kept.db.tmp", dir);
    snprintf(journal, sizeof journal, "%s-journal", made);
    int rc = remove_file(made, err);
    if (!rc)
        rc = remove_file(journal, err);
    if (!rc)
        rc = copy_kept(index, made, err);
    return rc ? rc : ea_path_rename(made, path, err);
}

int ec_retention_keep(ec_store *s, ea_err *err) {
    char path[1024];
    snprintf(path, sizeof path, "%s/kept.db", ec_store_folder(s));
    return ea_path_exists(path) ? retention_write_kept(ec_store_folder(s), err) : 0;
}

int ec_retention_restore_index(const char *dir, ea_err *err) {
    static const char *const OLD[] = {"index.db-wal", "index.db-shm"};
    char kept[1024], index[1024], path[1024];
    snprintf(kept, sizeof kept, "%s/kept.db", dir);
    snprintf(index, sizeof index, "%s/index.db", dir);
    if (ea_path_exists(index) || !ea_path_exists(kept))
        return 0;
    int rc = 0;
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD && !rc; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, OLD[i]);
        rc = remove_file(path, err);
    }
    char *data = NULL;
    size_t len_bytes = 0;
    if (!rc)
        rc = ea_path_read_all(kept, (size_t)1 << 32, &data, &len_bytes, err);
    if (!rc)
        rc = ea_path_write_all(index, data, len_bytes, 0, err);
    free(data);
    return rc;
}

/* ---- chores: work on files, on a thread of its own, so that no upload waits for it ---- */

typedef struct place {
    uint64_t segment, offset;
} place;

struct ec_chore {
    ea_thread *thread;
    atomic_int is_done;   /* the thread touches nothing of this any more */
    atomic_int is_ending; /* the store is being closed: records that are left are erased after the next start */
    int keeps;            /* kept.db is written first */
    uint64_t first;       /* segment files below it are deleted after that; 0: none */
    place erased[ERASED_A_CHORE];
    size_t erased_count, done_count;
    int rc;
    ea_err err;
    char dir[1024];
};

static int delete_leftover(uint64_t number, void *arg) {
    ec_chore *c = arg;
    char path[1100];
    if (number >= c->first)
        return 0;
    snprintf(path, sizeof path, "%s/segments/%016" PRIx64 ".seg", c->dir, number);
    return ea_path_remove(path, &c->err);
}

/* Erases records whose rows have left the index; the erasure of the first c->done_count records is durable. */
static int retention_erase_records(ec_chore *c, const char *segments) {
    ec_segment at = {.file = NULL};
    size_t n = 0;
    int rc = 0;
    for (; !rc && n < c->erased_count && !atomic_load_explicit(&c->is_ending, memory_order_relaxed); n++) {
        const place *p = &c->erased[n];
        if (!at.file || at.number != p->segment) {
            if (at.file)
                rc = ec_segment_sync(&at, &c->err);
            ec_segment_close(&at);
            if (!rc)
                rc = ec_segment_open_own(&at, segments, p->segment, &c->err);
        }
        if (!rc)
            rc = ec_segment_erase(&at, p->offset, &c->err);
        if (rc == EA_ENOTFOUND || rc == EA_ECORRUPT || rc == EA_ETRUNCATED)
            rc = 0; /* the file is gone, or damaged there: nothing reads that place */
    }
    if (!rc && at.file)
        rc = ec_segment_sync(&at, &c->err);
    ec_segment_close(&at);
    c->done_count = rc ? 0 : n;
    return rc;
}

static void do_chore(void *arg) {
    ec_chore *c = arg;
    char segments[1100];
    snprintf(segments, sizeof segments, "%s/segments", c->dir);
    c->rc = c->keeps ? retention_write_kept(c->dir, &c->err) : 0;
    if (!c->rc && c->first)
        c->rc = ec_segment_each(segments, delete_leftover, c, &c->err);
    if (!c->rc && c->erased_count)
        c->rc = retention_erase_records(c, segments);
    atomic_store_explicit(&c->is_done, 1, memory_order_release);
}

/* Begins what is to be done with files, if anything is: 1, 0, or an error. first: segment files below it are deleted;
 * 0: none. No chore is under way. */
static int begin_chore(ec_store *s, uint64_t first, ea_err *err) {
    ec_chore *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "delete what is too old");
    c->first = first;
    c->keeps = first || s->wants_kept;
    snprintf(c->dir, sizeof c->dir, "%s", ec_store_folder(s));
    sqlite3_stmt *st = retention_prepare(s, "SELECT segment, offset FROM erasing ORDER BY segment, offset LIMIT ?1");
    int code = SQLITE_ERROR, rc = 0;
    if (st && sqlite3_bind_int(st, 1, ERASED_A_CHORE) == SQLITE_OK)
        while ((code = sqlite3_step(st)) == SQLITE_ROW && c->erased_count < ERASED_A_CHORE)
            c->erased[c->erased_count++] =
                (place){(uint64_t)sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1)};
    if (code != SQLITE_DONE)
        rc = retention_fail(s, err, "delete what is too much");
    sqlite3_finalize(st);
    int is_any = c->keeps || c->erased_count;
    if (!rc && is_any)
        rc = ea_thread_start(&c->thread, "retention", do_chore, c, err);
    if (rc || !is_any) {
        free(c);
        return rc;
    }
    s->chore = c;
    s->wants_kept = 0;
    return 1;
}

/* EC_RETAIN_BUSY while a chore goes on; 0 when there is none, or none any more; or its error. */
static int end_chore(ec_store *s, ea_err *err) {
    ec_chore *c = s->chore;
    if (!c)
        return 0;
    if (!atomic_load_explicit(&c->is_done, memory_order_acquire))
        return EC_RETAIN_BUSY;
    s->chore = NULL;
    ea_thread_join(c->thread);
    int rc = c->rc;
    if (rc)
        *err = c->err;
    if (!rc && c->done_count) {
        const place *last = &c->erased[c->done_count - 1];
        rc = retention_ask(s, "DELETE FROM erasing WHERE (segment, offset) <= (?1, ?2)", (int64_t)last->segment,
                           (int64_t)last->offset, 0, NULL, err);
    }
    free(c);
    return rc;
}

void ec_retention_close(ec_store *s) {
    if (!s->chore)
        return;
    atomic_store_explicit(&s->chore->is_ending, 1, memory_order_relaxed);
    ea_thread_join(s->chore->thread);
    free(s->chore);
    s->chore = NULL;
}

/* ---- the steps ---- */

static const char BEGIN_LEAVING[] = "CREATE TEMP TABLE IF NOT EXISTS leaving(stream_id INTEGER NOT NULL, number INTEGER"
                                    " NOT NULL, PRIMARY KEY(stream_id, number)) WITHOUT ROWID;"
                                    "CREATE TEMP TABLE IF NOT EXISTS unused(stream_id INTEGER NOT NULL,"
                                    " definition_id INTEGER NOT NULL, bytes INTEGER NOT NULL); BEGIN IMMEDIATE;"
                                    "DELETE FROM temp.leaving";

/* Definitions that none of the batches uses that are left of the streams in temp.leaving; an agent that names one of
 * them later is asked for it. Some thousands at a time: more of the stream's batches leave later, or the stream goes.
 */
static int free_definitions(ec_store *s, ea_err *err) {
    static const char UNUSED[] =
        "INSERT INTO temp.unused SELECT u.stream_id, u.definition_id, u.bytes FROM"
        " (SELECT DISTINCT stream_id AS id FROM temp.leaving) l JOIN definition_uses u ON u.stream_id = l.id"
        " WHERE u.through < ifnull((SELECT min(number) FROM batches b WHERE b.stream_id = l.id), 9223372036854775807)"
        " LIMIT ?1";
    static const char FREE[] =
        "UPDATE stream_bytes SET definition_bytes = definition_bytes -"
        " (SELECT sum(bytes) FROM temp.unused u WHERE u.stream_id = stream_bytes.stream_id)"
        " WHERE stream_id IN (SELECT stream_id FROM temp.unused);"
        "DELETE FROM stream_definitions WHERE (stream_id, hash) IN (SELECT u.stream_id, d.hash FROM temp.unused u"
        " JOIN definitions d ON d.definition_id = u.definition_id);"
        "DELETE FROM definition_uses WHERE (stream_id, definition_id) IN"
        " (SELECT stream_id, definition_id FROM temp.unused);"
        "DELETE FROM definitions WHERE definition_id IN (SELECT definition_id FROM temp.unused)"
        " AND NOT EXISTS (SELECT 1 FROM stream_definitions s WHERE s.definition_id = definitions.definition_id);"
        "DELETE FROM temp.unused";
    int rc = retention_ask(s, UNUSED, FREED_A_STEP, 0, 0, NULL, err);
    s->kept.agent[0] = 0;
    ec_store_forget_names(s);
    return rc < 0 ? rc : retention_run(s, FREE, err);
}

/* The rows in temp.leaving leave the index; what they were is counted with their streams. Ends the transaction. rc: of
 * what came before; 0 or an error. */
static int delete_leaving(ec_store *s, int rc, ea_err *err) {
    static const char MOVE[] =
        "INSERT INTO expired_streams SELECT b.stream_id, count(*), sum(event_count), sum(len_bytes), 0"
        " FROM temp.leaving l JOIN batches b ON b.stream_id = l.stream_id AND b.number = l.number"
        " WHERE true GROUP BY b.stream_id ON CONFLICT(stream_id) DO UPDATE SET"
        " batch_count = batch_count + excluded.batch_count, event_count = event_count + excluded.event_count,"
        " byte_count = byte_count + excluded.byte_count;"
        "INSERT OR REPLACE INTO expired SELECT b.stream_id, b.number, kind, checksum"
        " FROM temp.leaving l JOIN batches b ON b.stream_id = l.stream_id AND b.number = l.number;"
        "DELETE FROM batches WHERE (stream_id, number) IN (SELECT stream_id, number FROM temp.leaving)";
    static const char EVENTS[] = "SELECT total(event_count) FROM temp.leaving l JOIN batches b"
                                 " ON b.stream_id = l.stream_id AND b.number = l.number";
    static const char FORGET_CHECKSUMS[] =
        "UPDATE expired_streams SET through = max(through, ifnull((SELECT max(number) FROM expired e"
        " WHERE e.stream_id = expired_streams.stream_id), 0) - ?1)"
        " WHERE stream_id IN (SELECT stream_id FROM temp.leaving)";
    static const char DROP_CHECKSUMS[] =
        "DELETE FROM expired WHERE stream_id IN (SELECT stream_id FROM temp.leaving)"
        " AND number <= (SELECT through FROM expired_streams x WHERE x.stream_id = expired.stream_id)";
    int64_t events = 0;
    if (rc >= 0)
        rc = retention_ask(s, EVENTS, 0, 0, 0, &events, err);
    if (rc >= 0)
        rc = retention_run(s, MOVE, err);
    if (rc >= 0)
        rc = retention_ask(s, FORGET_CHECKSUMS, REMEMBERED_BATCHES, 0, 0, NULL, err);
    if (rc >= 0)
        rc = retention_ask(s, DROP_CHECKSUMS, 0, 0, 0, NULL, err);
    if (rc >= 0)
        rc = free_definitions(s, err);
    if (rc >= 0)
        rc = retention_run(s, "COMMIT", err);
    if (rc < 0 && !sqlite3_get_autocommit(ec_store_database(s)))
        (void)sqlite3_exec(ec_store_database(s), "ROLLBACK", NULL, NULL, NULL);
    if (rc >= 0)
        ea_count(s->counters, EA_COUNT_store_expired_events, (uint64_t)events);
    return rc < 0 ? rc : 0;
}

/* Some rows of a segment leave the index. */
static int delete_rows(ec_store *s, uint64_t segment, ea_err *err) {
    int rc = retention_run(s, BEGIN_LEAVING, err);
    if (rc)
        return rc;
    /* what has begun is ended, even when the limits change meanwhile */
    rc = retention_ask(
        s, "INSERT INTO retention VALUES(1, 0, ?1) ON CONFLICT(one) DO UPDATE SET leaving = excluded.leaving",
        (int64_t)segment, 0, 0, NULL, err);
    if (rc >= 0)
        rc = retention_ask(s,
                           "INSERT INTO temp.leaving SELECT stream_id, number FROM batches WHERE segment = ?1 LIMIT ?2",
                           (int64_t)segment, ROWS_A_STEP, 0, NULL, err);
    return delete_leaving(s, rc, err);
}

/* ---- shares ---- */

typedef struct share {
    char agent[EC_AGENT_BYTES + 1]; /* that has most */
    uint64_t bytes;                 /* of it */
    uint64_t share;                 /* of each */
    int agent_count;
} share;

/* What of the store a stream takes: its batches, their rows in the index (256 bytes each, about), and its definitions
 * there. */
#define HELD                                                                                                           \
    "s.byte_count - ifnull(e.byte_count, 0) + 256 * (s.batch_count - ifnull(e.batch_count, 0)) +"                      \
    " ifnull(d.definition_bytes, 0)"
#define JOIN_HELD                                                                                                      \
    " LEFT JOIN expired_streams e ON e.stream_id = s.stream_id LEFT JOIN stream_bytes d ON d.stream_id = s.stream_id"

static int look_at_shares(ec_store *s, const ec_retention *limits, share *ret, ea_err *err) {
    sqlite3_stmt *st = retention_prepare(
        s, "WITH held AS (SELECT agent, sum(" HELD ") AS bytes FROM streams s" JOIN_HELD
           " GROUP BY agent HAVING bytes > 0)"
           " SELECT agent, bytes, (SELECT count(*) FROM held) FROM held ORDER BY bytes DESC, agent LIMIT 1");
    *ret = (share){.share = limits->bytes};
    int code = st ? sqlite3_step(st) : SQLITE_ERROR;
    int rc = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : retention_fail(s, err, "compare the agents' shares");
    if (code == SQLITE_ROW) {
        const unsigned char *agent = sqlite3_column_text(st, 0);
        snprintf(ret->agent, sizeof ret->agent, "%s", agent ? (const char *)agent : "");
        ret->bytes = (uint64_t)sqlite3_column_int64(st, 1);
        ret->agent_count = sqlite3_column_int(st, 2);
        ret->share = limits->bytes / (uint64_t)ret->agent_count;
    }
    sqlite3_finalize(st);
    return rc;
}

/* Once an hour for each agent: the counters say how much it was. */
static int note_share(ec_store *s, const share *v, ea_err *err) {
    sqlite3_stmt *st =
        retention_prepare(s, "INSERT INTO incidents SELECT NULL, ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM"
                             " incidents WHERE agent = ?2 AND kind = ?3 AND utc_ns > ?5)");
    char text[300];
    int64_t now = ea_utc_ns();
    snprintf(text, sizeof text,
             "the store is too large, and this agent is furthest above its share: it has %" PRIu64
             " bytes, its share is"
             " %" PRIu64 "; its oldest batches are deleted",
             v->bytes, v->share);
    int rc = 0;
    if (!st || sqlite3_bind_int64(st, 1, now) != SQLITE_OK ||
        sqlite3_bind_text(st, 2, v->agent, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int(st, 3, EC_NOTICE_SHARE) != SQLITE_OK ||
        sqlite3_bind_text(st, 4, text, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(st, 5, now - HOUR_NS) != SQLITE_OK || sqlite3_step(st) != SQLITE_DONE)
        rc = retention_fail(s, err, "keep a notice");
    sqlite3_finalize(st);
    return rc;
}

/* Puts the agent's oldest batches into temp.leaving and erasing, until there are `wanted` bytes of them. 0 or an error;
 * *ret_bytes: of what was found. */
static int choose_batches(ec_store *s, const share *v, int64_t before_utc_ns, uint64_t wanted, uint64_t *ret_bytes,
                          ea_err *err) {
    static const char *const SQL[] = {
        "SELECT b.stream_id, b.number, b.segment, b.offset, b.len_bytes FROM batches b JOIN streams s"
        " ON s.stream_id = b.stream_id WHERE b.segment >= ?1 AND s.agent = ?2 AND b.received_utc_ns < ?3"
        " ORDER BY b.segment LIMIT ?4",
        "INSERT INTO temp.leaving VALUES(?1, ?2)", "INSERT OR IGNORE INTO erasing VALUES(?1, ?2)"};
    sqlite3_stmt *st[3] = {NULL};
    uint64_t from = strcmp(s->erased_agent, v->agent) == 0 ? s->erased_below : 0;
    int code = SQLITE_ERROR, rc = 0;
    *ret_bytes = 0;
    for (int i = 0; i < 3 && !rc; i++)
        rc = (st[i] = retention_prepare(s, SQL[i])) ? 0 : retention_fail(s, err, "delete what is too much");
    if (!rc && (sqlite3_bind_int64(st[0], 1, (int64_t)from) != SQLITE_OK ||
                sqlite3_bind_text(st[0], 2, v->agent, -1, SQLITE_STATIC) != SQLITE_OK ||
                sqlite3_bind_int64(st[0], 3, before_utc_ns) != SQLITE_OK ||
                sqlite3_bind_int(st[0], 4, ERASED_ROWS_A_STEP) != SQLITE_OK))
        rc = retention_fail(s, err, "delete what is too much");
    while (!rc && *ret_bytes < wanted && (code = sqlite3_step(st[0])) == SQLITE_ROW) {
        from = (uint64_t)sqlite3_column_int64(st[0], 2);
        *ret_bytes += (uint64_t)sqlite3_column_int64(st[0], 4);
        for (int i = 1; i < 3 && !rc; i++) {
            sqlite3_bind_int64(st[i], 1, sqlite3_column_int64(st[0], i == 1 ? 0 : 2));
            sqlite3_bind_int64(st[i], 2, sqlite3_column_int64(st[0], i == 1 ? 1 : 3));
            if (sqlite3_step(st[i]) != SQLITE_DONE)
                rc = retention_fail(s, err, "delete what is too much");
            sqlite3_reset(st[i]);
        }
    }
    if (!rc && *ret_bytes < wanted && code != SQLITE_ROW && code != SQLITE_DONE)
        rc = retention_fail(s, err, "delete what is too much");
    for (int i = 0; i < 3; i++)
        sqlite3_finalize(st[i]);
    if (!rc) {
        memcpy(s->erased_agent, v->agent, sizeof s->erased_agent);
        s->erased_below = from;
    }
    return rc;
}

/* Deletes batches of the agent that is furthest above its share: 1, 0 when there are none that may go, or an error. */
static int take_above_share(ec_store *s, const share *v, uint64_t too_much, int64_t before_utc_ns, ea_err *err) {
    uint64_t above = v->bytes - v->share, bytes = 0;
    int rc = retention_run(s, "PRAGMA synchronous = FULL", err);
    if (!rc)
        rc = retention_run(s, BEGIN_LEAVING, err);
    if (rc)
        return rc;
    rc = choose_batches(s, v, before_utc_ns, too_much < above ? too_much : above, &bytes, err);
    if (!rc && bytes)
        rc = note_share(s, v, err);
    rc = delete_leaving(s, rc, err);
    (void)sqlite3_exec(ec_store_database(s), "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    /* An index that is made anew between two of these takes an erased batch that comes again for a new one. */
    int64_t now_ns = ea_monotonic_ns();
    if (!rc && bytes && (!s->kept_ns || now_ns - s->kept_ns > KEEP_S * S_TO_NS)) {
        s->wants_kept = 1;
        s->kept_ns = now_ns;
    }
    if (!rc)
        ea_count(s->counters, EA_COUNT_store_erased_bytes, bytes);
    return rc ? rc : bytes != 0;
}

int ec_store_may_grow(ec_store *s, const char *agent, ea_err *err) {
    if (!s->is_full)
        return 1;
    sqlite3_stmt *st = retention_prepare(s, "SELECT sum(" HELD ") FROM streams s" JOIN_HELD " WHERE s.agent = ?1");
    int rc = 0;
    if (!st || sqlite3_bind_text(st, 1, agent, -1, SQLITE_STATIC) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        rc = retention_fail(s, err, "compare an agent's share");
    else
        rc = s->is_any_above && (uint64_t)sqlite3_column_int64(st, 0) <= s->share_bytes;
    sqlite3_finalize(st);
    return rc;
}

/* Streams of which nothing is left and nothing has come for long, and what only they named. The newest one stays: its
 * number is not given to another. */
static const char FORGET_STREAMS[] =
    "CREATE TEMP TABLE IF NOT EXISTS forgotten(stream_id INTEGER PRIMARY KEY);"
    "DELETE FROM temp.forgotten;"
    "INSERT INTO temp.forgotten SELECT s.stream_id FROM streams s WHERE received_last_utc_ns < (SELECT utc_ns FROM"
    " temp.horizon) AND stream_id < (SELECT max(stream_id) FROM streams)"
    " AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.stream_id = s.stream_id);"
    "DELETE FROM streams WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM ranges WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM tombstones WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM stream_classes WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM stream_definitions WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM definition_uses WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM stream_bytes WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM expired WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM expired_streams WHERE stream_id IN (SELECT stream_id FROM temp.forgotten);"
    "DELETE FROM class_origins WHERE class_id NOT IN (SELECT class_id FROM stream_classes);"
    "DELETE FROM classes WHERE class_id NOT IN (SELECT class_id FROM stream_classes);"
    "DELETE FROM definitions WHERE definition_id NOT IN (SELECT definition_id FROM stream_definitions);";

/* Notes in the index, durably, that the segment is deleted. */
static int retire(ec_store *s, uint64_t segment, const char *why, ea_err *err) {
    char text[160];
    int64_t now = ea_utc_ns(), silent = 0;
    int rc = ec_segment_clock_wall_ns(s, segment, FORGET_DAYS * 24 * HOUR_NS / AGE_PARTS, &silent, err);
    if (rc)
        return rc;
    rc = retention_run(s,
                       "CREATE TEMP TABLE IF NOT EXISTS horizon(utc_ns INTEGER); DELETE FROM temp.horizon;"
                       "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
                       err);
    if (rc)
        return rc;
    rc = retention_ask(s, "INSERT INTO temp.horizon VALUES(?1)", silent - FORGET_DAYS * 24 * HOUR_NS, 0, 0, NULL, err);
    if (rc >= 0)
        rc = retention_run(s, FORGET_STREAMS, err);
    s->kept.agent[0] = 0;
    ec_store_forget_names(s);
    if (rc >= 0)
        rc = retention_ask(s, "INSERT OR REPLACE INTO retention VALUES(1, ?1, 0)", (int64_t)segment + 1, 0, 0, NULL,
                           err);
    if (rc >= 0)
        rc = retention_ask(s, "DELETE FROM clock_steps WHERE segment <= ?1", (int64_t)segment, 0, 0, NULL, err);
    /* one an hour: the counters say how much it was */
    if (rc >= 0)
        rc = retention_ask(s, "SELECT 1 FROM incidents WHERE kind = ?1 AND utc_ns > ?2 LIMIT 1", EC_NOTICE_RETENTION,
                           now - HOUR_NS, 0, NULL, err);
    if (rc == 0) {
        snprintf(text, sizeof text, "segment %" PRIu64 " was deleted: %s; further ones of this hour are only counted",
                 segment, why);
        sqlite3_stmt *st = retention_prepare(s, "INSERT INTO incidents VALUES(NULL, ?1, '', ?2, ?3)");
        if (!st || sqlite3_bind_int64(st, 1, now) != SQLITE_OK ||
            sqlite3_bind_int64(st, 2, EC_NOTICE_RETENTION) != SQLITE_OK ||
            sqlite3_bind_text(st, 3, text, -1, SQLITE_STATIC) != SQLITE_OK || sqlite3_step(st) != SQLITE_DONE)
            rc = retention_fail(s, err, "keep a notice");
        sqlite3_finalize(st);
    }
    if (rc >= 0)
        rc = retention_run(s, "COMMIT", err);
    if (rc < 0 && !sqlite3_get_autocommit(ec_store_database(s)))
        (void)sqlite3_exec(ec_store_database(s), "ROLLBACK", NULL, NULL, NULL);
    (void)sqlite3_exec(ec_store_database(s), "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    return rc < 0 ? rc : 0;
}

static const char BEGUN[] = "it had been begun";

enum { PRESSING_FREE_BYTES = 256 << 20, PRESSING_PARTS = 8 };

/* How many events a segment has, of agents' keyframes none. */
static int events_of_segment(ec_store *s, uint64_t segment, int64_t *ret, ea_err *err) {
    return retention_ask(s, "SELECT ifnull(sum(event_count), 0) FROM batches WHERE segment = ?1 AND kind <> ?2",
                         (int64_t)segment, EA_BATCH_KEYFRAME, 0, ret, err);
}

/* Brings a segment into the archive, before its first row is deleted: 1 when it may go, else what ec_store_retain
 * returns. total_bytes: of the store. */
static int archive_segment(ec_store *s, const ec_retention *limits, uint64_t segment, uint64_t total_bytes,
                           ea_err *err) {
    int64_t all = 0;
    uint64_t archived = 0, free_bytes = ea_path_free_bytes(ec_store_folder(s));
    int is_pressing = (limits->bytes && total_bytes > limits->bytes + limits->bytes / PRESSING_PARTS) ||
                      (free_bytes && free_bytes < PRESSING_FREE_BYTES);
    int rc = limits->archive->step(limits->archive->arg, segment, is_pressing, &archived, err);
    if (rc != EC_ARCHIVE_DONE && rc != EC_ARCHIVE_LOST)
        return rc;
    if (rc == EC_ARCHIVE_LOST)
        archived = 0;
    rc = events_of_segment(s, segment, &all, err);
    if (rc < 0)
        return rc;
    ea_count(s->counters, EA_COUNT_archived_events, archived);
    if ((uint64_t)all > archived)
        ea_count(s->counters, EA_COUNT_archive_missed_events, (uint64_t)all - archived);
    return 1;
}

/* Why the lowest segment has to go; NULL: it may stay. */
static int retention_judge(ec_store *s, const ec_retention *limits, const survey *v, int is_too_large,
                           int64_t before_utc_ns, const char **ret_why, ea_err *err) {
    int64_t received = 0, leaving = 0;
    *ret_why = NULL;
    int begun = retention_ask(s, "SELECT leaving FROM retention", 0, 0, 0, &leaving, err);
    if (begun < 0)
        return begun;
    if (begun && (uint64_t)leaving == v->lowest) {
        *ret_why = BEGUN;
        return 0;
    }
    if (limits->age_ns) {
        int rc = retention_ask(s, "SELECT max(received_utc_ns) FROM batches WHERE segment = ?1", (int64_t)v->lowest, 0,
                               0, &received, err);
        int64_t now = 0;
        if (rc >= 0 && ec_segment_clock_wall_ns(s, v->lowest, limits->age_ns / AGE_PARTS, &now, err))
            rc = err->code;
        if (rc < 0)
            return rc;
        if (rc == 0 || received < now - limits->age_ns) /* no row: nothing in it can be read, or some left */
            *ret_why = "it is too old";
    }
    if (!*ret_why && is_too_large) {
        int rc = retention_ask(s, "SELECT max(received_utc_ns) FROM batches WHERE segment = ?1", (int64_t)v->lowest, 0,
                               0, &received, err);
        if (rc < 0)
            return rc;
        if (rc == 0 || received < before_utc_ns)
            *ret_why = "the store is too large";
    }
    return 0;
}

/* A segment that grows slowly is closed, so that what is in it can go. */
static int close_old_segment(ec_store *s, const ec_retention *limits, uint64_t open, ea_err *err) {
    int64_t began = 0;
    if (!limits->age_ns)
        return 0;
    int rc = retention_ask(s, "SELECT min(received_utc_ns) FROM batches WHERE segment = ?1", (int64_t)open, 0, 0,
                           &began, err);
    if (rc == 1 && ea_utc_ns() - began > limits->age_ns / AGE_PARTS + S_TO_NS)
        return ec_store_open_segment(s, 1, NULL, err);
    return rc < 0 ? rc : 0;
}

int ec_store_retain(ec_store *s, const ec_retention *limits, ea_err *err) {
    survey v;
    uint64_t open = 0;
    const char *why = NULL;
    int rc = end_chore(s, err);
    if (rc == EC_RETAIN_BUSY)
        return rc;
    if (!rc)
        rc = retention_look(s, &v, err);
    if (!rc)
        rc = begin_chore(s, v.below ? v.first : 0, err);
    if (rc == 1)
        return EC_RETAIN_BUSY;
    s->is_full = 0;
    if (rc || (!limits->age_ns && !limits->bytes))
        return rc;
    rc = ec_segment_clock_look(s, err);
    if (!rc)
        rc = ec_store_open_segment(s, 0, &open, err);
    if (!rc)
        rc = close_old_segment(s, limits, open, err);
    uint64_t too_much = 0;
    int64_t before_utc_ns = INT64_MAX; /* what was received then may go for its size */
    share shares = {.bytes = 0};
    uint64_t total = 0;
    if (!rc && limits->bytes) {
        ec_store_size size = {.segment_bytes = v.bytes};
        measure_databases(s, &size);
        total = size.segment_bytes + size.index_bytes + size.state_bytes;
        /* some more than has to go, so that it is not a little each time */
        too_much = total > limits->bytes ? total - limits->bytes + limits->bytes / SLACK_PARTS : 0;
    }
    if (!rc && too_much && limits->min_age_ns) {
        rc =
            ec_segment_clock_wall_ns(s, v.count ? v.lowest : open, limits->min_age_ns / AGE_PARTS, &before_utc_ns, err);
        before_utc_ns -= limits->min_age_ns;
    }
    if (!rc && too_much)
        rc = look_at_shares(s, limits, &shares, err);
    if (!rc && shares.agent_count > 1 && shares.bytes > shares.share) {
        uint64_t expired = s->counters ? ea_counter_get(s->counters, EA_COUNT_store_expired_events) : 0;
        rc = take_above_share(s, &shares, too_much, before_utc_ns, err);
        if (limits->archive && s->counters)
            ea_count(s->counters, EA_COUNT_archive_missed_events,
                     ea_counter_get(s->counters, EA_COUNT_store_expired_events) - expired);
    }
    if (rc)
        return rc;
    if (v.count >= 2 && v.lowest < open)
        rc = retention_judge(s, limits, &v, too_much != 0, before_utc_ns, &why, err);
    s->is_full = !why && too_much && limits->min_age_ns;
    s->share_bytes = shares.share;
    s->is_any_above = shares.bytes > shares.share;
    if (!rc && why && why != BEGUN && limits->archive) {
        rc = archive_segment(s, limits, v.lowest, total, err);
        if (rc != 1)
            return rc;
        rc = 0;
    }
    if (rc || !why)
        return rc;
    int64_t left = 0;
    rc = retention_ask(s, "SELECT 1 FROM batches WHERE segment = ?1 LIMIT 1", (int64_t)v.lowest, 0, 0, &left, err);
    if (rc >= 0)
        rc = left ? delete_rows(s, v.lowest, err) : retire(s, v.lowest, why, err);
    if (!rc && !left) {
        char path[1024];
        retention_path_of(s, v.lowest, path);
        uint64_t bytes = retention_bytes_of(path);
        ea_count(s->counters, EA_COUNT_store_expired_segments, 1);
        ea_count(s->counters, EA_COUNT_store_expired_bytes, bytes);
    }
    return rc < 0 ? rc : 1;
}
