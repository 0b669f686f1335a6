/* See forget.h. */
#include "collector/state/forget.h"

#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "collector/state/requests.h"
#include "collector/state/sink_places.h"
#include "collector/state/state_db.h"
#include "collector/store/retention.h"
#include "collector/store/segment.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1200, FOLDS_A_STEP = 256 };

/* What is removed: a host, or one run of it. */
typedef struct subject {
    const char *host;
    const uint8_t *stream; /* EA_STREAM_ID_BYTES; NULL: all runs, and what is of the host alone */
} subject;

/* ---- SQL with the host's name and the stream, or NULL, as its parameters ---- */

#define STREAMS "(SELECT stream_id FROM streams WHERE agent = ?1 AND (?2 IS NULL OR stream = ?2))"

static int forget_run(sqlite3 *db, const char *sql, ea_err *err) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : ec_fail_sqlite(err, db, "remove a host");
}

/* The first number of its last row; 0 without one. */
static int forget_ask(sqlite3 *db, const char *sql, const subject *who, uint64_t *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    int parameters = sqlite3_bind_parameter_count(st);
    if (code == SQLITE_OK && parameters >= 1)
        code = sqlite3_bind_text(st, 1, who->host, -1, SQLITE_STATIC);
    if (code == SQLITE_OK && parameters >= 2 && who->stream)
        code = sqlite3_bind_blob(st, 2, who->stream, EA_STREAM_ID_BYTES, SQLITE_STATIC);
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        if (ret)
            *ret = (uint64_t)sqlite3_column_int64(st, 0);
        code = SQLITE_OK;
    }
    int rc = code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, db, "remove a host");
    sqlite3_finalize(st);
    return rc;
}

int ec_forget_count(ec_store *s, const char *host, const uint8_t *stream, ec_forgotten *ret, ea_err *err) {
    sqlite3 *db = ec_store_database(s);
    const subject who = {host, stream};
    ec_forgotten f = {0};
    int rc = forget_ask(db, "SELECT count(*) FROM streams WHERE agent = ?1 AND (?2 IS NULL OR stream = ?2)", &who,
                        &f.streams, err);
    if (!rc)
        rc = forget_ask(db, "SELECT count(*) FROM batches WHERE stream_id IN " STREAMS, &who, &f.batches, err);
    if (!rc)
        rc = forget_ask(db, "SELECT sum(event_count) FROM batches WHERE stream_id IN " STREAMS, &who, &f.events, err);
    if (!rc)
        rc = forget_ask(db, "SELECT sum(len_bytes) FROM batches WHERE stream_id IN " STREAMS, &who, &f.erased_bytes,
                        err);
    if (!rc)
        rc = forget_ask(db, "SELECT count(*) FROM incidents WHERE agent = ?1 AND ?2 IS NULL", &who, &f.incidents, err);
    if (!rc)
        *ret = f;
    return rc;
}

/* ---- segment files ---- */

typedef struct erasing {
    const char *segments;
    const subject *who;
    ec_forgotten *report;
    ea_err *err;
} erasing;

/* 1 when the record is of what is removed: of the host, or of its run, which the batch's head says; or it was erased in
 * part, by a process that was killed, and it is not known any more whose it was. */
static int is_theirs(const erasing *e, ec_segment *seg, const ec_record *r, uint8_t **data, size_t *capacity,
                     ea_err *err) {
    ea_batch_head head;
    ea_err ignored;
    if (!r->agent[0])
        return ec_segment_has_rest(seg, r, err);
    if (strcmp(r->agent, e->who->host) != 0)
        return 0;
    if (!e->who->stream)
        return 1;
    int rc = ec_segment_read(seg, r->offset, r->data_bytes, data, capacity, err);
    if (rc == EA_ECORRUPT || rc == EA_ETRUNCATED)
        return 0; /* whose run it is is not known */
    if (rc)
        return rc;
    return ea_batch_read_head(*data, (size_t)r->data_bytes, &head, &ignored) == 0 &&
           memcmp(head.stream, e->who->stream, sizeof head.stream) == 0;
}

/* Erases those records of an open segment. Skips damaged parts. */
static int forget_erase_records(const erasing *e, ec_segment *seg, int only_look, int *ret_found) {
    uint64_t at = EC_SEGMENT_HEADER_BYTES, next, capacity_end = seg->end;
    uint8_t *data = NULL;
    size_t capacity = 0;
    int rc = 0;
    *ret_found = 0;
    while (at < capacity_end) {
        ec_record r;
        rc = ec_segment_header(seg, at, &r, e->err);
        if (rc == EA_ECORRUPT || rc == EA_ETRUNCATED) {
            rc = ec_segment_resync(seg, at, &next, &data, &capacity, e->err);
            if (rc == 0)
                next = capacity_end;
            if (!only_look)
                e->report->damaged_bytes += next - at;
            at = next;
            if (rc >= 0)
                continue;
        }
        if (rc <= 0)
            break;
        rc = is_theirs(e, seg, &r, &data, &capacity, e->err);
        if (rc < 0)
            break;
        if (rc) {
            rc = 0;
            *ret_found = 1;
            if (only_look)
                break;
            rc = ec_segment_erase(seg, at, e->err);
            if (rc)
                break;
            if (r.agent[0]) {
                e->report->batches++;
                e->report->erased_bytes += r.data_bytes;
            }
        }
        at = r.next;
    }
    free(data);
    return rc < 0 ? rc : 0;
}

static int erase_segment(uint64_t number, void *arg) {
    const erasing *e = arg;
    ec_segment seg = {.file = NULL};
    int found = 0;
    /* a file that holds nothing of it is not written to, and not copied */
    int rc = ec_segment_open(&seg, e->segments, number, 0, e->err);
    if (rc == EA_ECORRUPT || rc == EA_ETRUNCATED)
        return 0; /* its header is damaged: nothing in it can be read */
    if (!rc)
        rc = forget_erase_records(e, &seg, 1, &found);
    ec_segment_close(&seg);
    if (rc || !found)
        return rc;
    rc = ec_segment_open_own(&seg, e->segments, number, e->err);
    if (!rc)
        rc = forget_erase_records(e, &seg, 0, &found);
    if (!rc)
        rc = ec_segment_sync(&seg, e->err);
    ec_segment_close(&seg);
    return rc;
}

static int forget_remove_copy(const char *name, int is_dir, void *arg) {
    const erasing *e = arg;
    char path[PATH_BYTES];
    size_t n = strlen(name);
    if (is_dir || n < 4 || strcmp(name + n - 4, ".tmp") != 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", e->segments, name);
    return ea_path_remove(path, e->err);
}

/* ---- databases ---- */

/* Its rows, then what only they named. Table by table, each by the host's streams. */
static int forget_index(ec_store *s, const subject *who, ea_err *err) {
    static const char *const DELETES[] = {
        "DELETE FROM batches WHERE stream_id IN " STREAMS,
        "DELETE FROM ranges WHERE stream_id IN " STREAMS,
        "DELETE FROM tombstones WHERE stream_id IN " STREAMS,
        "DELETE FROM stream_classes WHERE stream_id IN " STREAMS,
        "DELETE FROM stream_definitions WHERE stream_id IN " STREAMS,
        "DELETE FROM definition_uses WHERE stream_id IN " STREAMS,
        "DELETE FROM stream_bytes WHERE stream_id IN " STREAMS,
        "DELETE FROM origins WHERE stream_id IN " STREAMS,
        "DELETE FROM expired WHERE stream_id IN " STREAMS,
        "DELETE FROM expired_streams WHERE stream_id IN " STREAMS,
        "DELETE FROM incidents WHERE agent = ?1 AND ?2 IS NULL",
        "DELETE FROM class_origins WHERE agent = ?1 AND ?2 IS NULL",
        "DELETE FROM streams WHERE agent = ?1 AND (?2 IS NULL OR stream = ?2)",
        "DELETE FROM class_origins WHERE class_id NOT IN (SELECT class_id FROM stream_classes)",
        "DELETE FROM classes WHERE class_id NOT IN (SELECT class_id FROM stream_classes)",
        "DELETE FROM definitions WHERE definition_id NOT IN (SELECT definition_id FROM stream_definitions)",
    };
    sqlite3 *db = ec_store_database(s);
    int rc = forget_run(db, "BEGIN IMMEDIATE", err);
    for (size_t i = 0; !rc && i < sizeof DELETES / sizeof *DELETES; i++)
        rc = forget_ask(db, DELETES[i], who, NULL, err);
    if (!rc)
        rc = forget_run(db, "COMMIT", err);
    if (rc && !sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Rewrites a database, so that nothing of what was deleted is left in its pages or its log. */
static int rewrite(sqlite3 *db, ea_err *err) {
    int rc = forget_run(db, "VACUUM", err);
    return rc ? rc : forget_run(db, "PRAGMA wal_checkpoint(TRUNCATE)", err);
}

typedef struct folds {
    const subject *who;
    ec_state_fold items[FOLDS_A_STEP];
    size_t count;
} folds;

static int forget_add_fold(const ec_state_fold *fold, void *arg) {
    folds *f = arg;
    if (f->count == FOLDS_A_STEP)
        return 1;
    if (f->who->stream && memcmp(f->who->stream, fold->stream, sizeof fold->stream) != 0)
        return 0;
    f->items[f->count++] = *fold;
    return 0;
}

static int forget_state(const char *dir, const subject *who, ea_err *err) {
    ec_state_db *t = NULL;
    folds *f = calloc(1, sizeof *f);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/state.db", dir);
    int rc = f ? 0 : ea_fail(err, EA_ENOMEM, "remove a host");
    if (rc || !ea_path_exists(path)) {
        free(f);
        return rc;
    }
    f->who = who;
    rc = ec_state_db_open(&t, dir, 1, err);
    do {
        f->count = 0;
        if (!rc)
            rc = ec_state_db_each_fold(t, who->host, forget_add_fold, f, err);
        if (rc > 0)
            rc = 0;
        if (!rc)
            rc = ec_state_db_begin(t, err);
        for (size_t i = 0; !rc && i < f->count; i++)
            rc = ec_state_db_drop_fold(t, &f->items[i], err);
        if (!rc)
            rc = ec_state_db_commit(t, err);
    } while (!rc && f->count);
    if (!rc)
        rc = rewrite(ec_state_db_database(t), err);
    ec_state_db_close(t);
    free(f);
    return rc;
}

static int forget_alarms(const char *dir, const subject *who, ea_err *err) {
    ec_incidents *a = NULL;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/alarms.db", dir);
    static const char *const OF_STREAM[] = {
        "DELETE FROM detections WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
        "DELETE FROM detections_left_out WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
        "DELETE FROM detections_suppressed WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
        "DELETE FROM correlation_hits WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
        "DELETE FROM correlation_alerts WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
        "DELETE FROM detections_next WHERE host = ?1 AND (?2 IS NULL OR stream = lower(hex(?2)))",
    };
    if (!ea_path_exists(path))
        return 0;
    int rc = ec_incidents_open(&a, dir, 1, err);
    if (!rc)
        rc = forget_run(ec_incidents_database(a), EC_DETECTIONS_KEEP_LAST, err);
    for (size_t i = 0; !rc && i < sizeof OF_STREAM / sizeof *OF_STREAM; i++)
        rc = forget_ask(ec_incidents_database(a), OF_STREAM[i], who, NULL, err);
    if (!rc) /* texts of rules may name machines */
        rc = forget_run(ec_incidents_database(a),
                        "DELETE FROM detections_rules WHERE text_id NOT IN (SELECT text_id FROM detections WHERE"
                        " text_id IS NOT NULL)",
                        err);
    if (!rc && !who->stream)
        rc = forget_ask(ec_incidents_database(a), "DELETE FROM alarms WHERE host = ?1", who, NULL, err);
    if (!rc && !who->stream)
        rc = forget_ask(ec_incidents_database(a), "DELETE FROM quotas WHERE name = ?1", who, NULL, err);
    if (!rc)
        rc = rewrite(ec_incidents_database(a), err);
    ec_incidents_close(a);
    return rc;
}

static int forget_sinks(const char *dir, const subject *who, ea_err *err) {
    ea_text stream;
    ea_text_init(&stream);
    if (who->stream)
        ea_text_hex(&stream, who->stream, EA_STREAM_ID_BYTES);
    int rc = stream.failed ? ea_fail(err, EA_ENOMEM, "forget %s", who->host)
                           : ec_sinks_forget(dir, who->host, who->stream ? stream.data : NULL, err);
    ea_text_deinit(&stream);
    return rc;
}

/* A sink that ran meanwhile would send rows that it has at hand, and write anew what is forgotten. */
typedef struct sink_locks {
    const char *dir;
    struct ea_file **items;
    size_t count, capacity;
    ea_err *err;
} sink_locks;

static int lock_sink(const ec_sink_row *row, void *arg) {
    sink_locks *l = arg;
    if (EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(l->err, EA_ENOMEM, "stop the sinks");
    int rc = ec_sinks_lock(&l->items[l->count], l->dir, row->name, l->err);
    l->count += !rc;
    return rc;
}

/* Unlocked by unlock_sinks, also on failure. EA_EBUSY: a sink runs. */
static int lock_sinks(sink_locks *l) {
    ec_sinks *sinks = NULL;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/sinks.db", l->dir);
    if (!ea_path_exists(path))
        return 0;
    int rc = ec_sinks_open(&sinks, l->dir, 1, l->err);
    if (!rc)
        rc = ec_sinks_each(sinks, lock_sink, l, l->err);
    ec_sinks_close(sinks);
    return rc;
}

static void unlock_sinks(sink_locks *l) {
    for (size_t i = 0; i < l->count; i++)
        ea_file_close(l->items[i]);
    free(l->items);
}

/* ---- all of it ---- */

/* The marks of a removal that has begun: of a host, and of a run. */
#define MARKS                                                                                                          \
    "PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS forgetting(agent TEXT PRIMARY KEY);"                        \
    "CREATE TABLE IF NOT EXISTS forgetting_runs(agent TEXT NOT NULL, stream BLOB NOT NULL)"

static int remove_all(ec_store *s, const subject *who, ec_forgotten *ret, ea_err *err) {
    sqlite3 *db = ec_store_database(s);
    char segments[PATH_BYTES];
    ec_forgotten f = {0};
    erasing e = {.segments = segments, .who = who, .report = &f, .err = err};
    snprintf(segments, sizeof segments, "%s/segments", ec_store_folder(s));
    int rc = ec_forget_count(s, who->host, who->stream, &f, err);
    f.batches = f.erased_bytes = 0; /* what is erased is counted, in the index or not */
    /* the mark is durable before anything is gone */
    if (!rc)
        rc = forget_run(db, MARKS, err);
    if (!rc)
        rc = forget_ask(db,
                        who->stream ? "INSERT INTO forgetting_runs VALUES(?1, ?2)"
                                    : "INSERT OR IGNORE INTO forgetting VALUES(?1)",
                        who, NULL, err);
    if (!rc)
        rc = ea_path_list(segments, forget_remove_copy, &e, err);
    if (!rc)
        rc = ec_segment_each(segments, erase_segment, &e, err);
    if (!rc)
        rc = forget_state(ec_store_folder(s), who, err);
    if (!rc)
        rc = forget_alarms(ec_store_folder(s), who, err);
    if (!rc)
        rc = forget_index(s, who, err);
    if (!rc) /* after the index, by which a sink knows the host */
        rc = forget_sinks(ec_store_folder(s), who, err);
    if (!rc && !who->stream)
        rc = ec_requests_forget(ec_store_folder(s), who->host, err);
    if (!rc)
        rc = ec_retention_keep(s, err);
    /* the mark goes last; the file is rewritten after it, and again when that is interrupted */
    if (!rc)
        rc = rewrite(db, err);
    if (!rc)
        rc = forget_run(db, "DROP TABLE forgetting; DROP TABLE forgetting_runs", err);
    if (!rc)
        rc = rewrite(db, err);
    if (!rc)
        *ret = f;
    return rc;
}

/* The first mark: 1, with the stream where it is of a run. */
static int find_mark(sqlite3 *db, const char *sql, char *ret_host, uint8_t *ret_stream) {
    sqlite3_stmt *st = NULL;
    int found = sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW;
    if (found)
        snprintf(ret_host, 256, "%s", (const char *)sqlite3_column_text(st, 0));
    if (found && ret_stream) {
        found = sqlite3_column_bytes(st, 1) == EA_STREAM_ID_BYTES;
        if (found)
            memcpy(ret_stream, sqlite3_column_blob(st, 1), EA_STREAM_ID_BYTES);
    }
    sqlite3_finalize(st);
    return found;
}

int ec_forget_begun_run(ec_store *s, const char *host, uint8_t *ret_stream) {
    char marked[256] = "";
    return find_mark(ec_store_database(s), "SELECT agent, stream FROM forgetting_runs LIMIT 1", marked, ret_stream) &&
           strcmp(marked, host) == 0;
}

static int is_begun(ec_store *s, const subject *who) {
    char marked[256] = "";
    uint8_t stream[EA_STREAM_ID_BYTES];
    if (who->stream)
        return ec_forget_begun_run(s, who->host, stream) && memcmp(stream, who->stream, sizeof stream) == 0;
    return find_mark(ec_store_database(s), "SELECT agent FROM forgetting LIMIT 1", marked, NULL) &&
           strcmp(marked, who->host) == 0;
}

/* What was begun, of which at most one host or run is marked. The sinks are locked. 1: it was finished; 0: nothing. */
static int finish_begun(ec_store *s, char *ret_host, ea_err *err) {
    sqlite3 *db = ec_store_database(s);
    uint8_t stream[EA_STREAM_ID_BYTES];
    ec_forgotten f;
    ret_host[0] = 0;
    int of_host = find_mark(db, "SELECT agent FROM forgetting LIMIT 1", ret_host, NULL);
    if (!of_host && !find_mark(db, "SELECT agent, stream FROM forgetting_runs LIMIT 1", ret_host, stream))
        return 0; /* no such table: nothing was begun */
    int rc = remove_all(s, &(subject){ret_host, of_host ? NULL : stream}, &f, err);
    return rc ? rc : 1;
}

static int has_begun(ec_store *s) {
    char host[256];
    sqlite3 *db = ec_store_database(s);
    return find_mark(db, "SELECT agent FROM forgetting LIMIT 1", host, NULL) ||
           find_mark(db, "SELECT agent FROM forgetting_runs LIMIT 1", host, NULL);
}

int ec_forget(ec_store *s, const char *host, const uint8_t *stream, ec_forgotten *ret, ea_err *err) {
    const subject who = {host, stream};
    char other[256];
    sink_locks locks = {.dir = ec_store_folder(s), .err = err};
    int was_begun = is_begun(s, &who), rc = lock_sinks(&locks);
    if (!rc && !was_begun)
        rc = finish_begun(s, other, err);
    if (rc >= 0) /* one removal is marked at a time */
        rc = remove_all(s, &who, ret, err);
    if (!rc)
        ret->was_begun = was_begun;
    unlock_sinks(&locks);
    return rc;
}

int ec_forget_resume(ec_store *s, char *ret_host, ea_err *err) {
    ea_err why = {0};
    sink_locks locks = {.dir = ec_store_folder(s), .err = &why};
    ret_host[0] = 0;
    if (!has_begun(s))
        return 0;
    int rc = lock_sinks(&locks);
    if (rc)
        rc = ea_fail(err, rc, "the removal of a host was interrupted, and cannot be finished: %.300s: end it first",
                     why.message);
    else
        rc = finish_begun(s, ret_host, err);
    unlock_sinks(&locks);
    return rc;
}
