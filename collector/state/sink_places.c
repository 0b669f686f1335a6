/* See sink_places.h. */
#include "collector/state/sink_places.h"

#include "collector/sqlite/sqlite.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SINKS_BUSY_MS = 10000, SINKS_LOCK_TRIES = 4, SINKS_LOCK_WAIT_NS = 5000000, SINKS_PATH_BYTES = 1400 };

static const char SINKS_DOING[] = "keep the place of a sink";

#define FATE_COLUMN(name, text)    ", " #name " INTEGER NOT NULL"
#define FATE_NAME(name, text)      ", " #name
#define FATE_ADD(name, text)       ", " #name " = " #name " + excluded." #name
#define FATE_PARAMETER(name, text) ", ?"

/* before: events of the stream that are none of the sink's. sink_apart: agents with a place of their own.
 * sink_redacted: apart, so that a file that has the other tables needs no change. */
static const char *const SINKS_TABLES[][2] = {
    {"sinks", "(name TEXT PRIMARY KEY, kind TEXT NOT NULL, receiver TEXT NOT NULL, segment INTEGER NOT NULL, offset"
              " INTEGER NOT NULL, position INTEGER NOT NULL, request_count INTEGER NOT NULL, retried_count INTEGER NOT"
              " NULL, created_utc_ns INTEGER NOT NULL, sent_utc_ns INTEGER NOT NULL, error_utc_ns INTEGER NOT NULL,"
              " error TEXT NOT NULL, refusal TEXT NOT NULL) WITHOUT ROWID"},
    {"sink_streams",
     "(sink TEXT NOT NULL, host TEXT NOT NULL, stream TEXT NOT NULL, before INTEGER NOT NULL" EC_SINK_FATES(
         FATE_COLUMN) ", PRIMARY KEY(sink, host, stream)) WITHOUT ROWID"},
    {"sink_apart", "(sink TEXT NOT NULL, host TEXT NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL,"
                   " position INTEGER NOT NULL, PRIMARY KEY(sink, host)) WITHOUT ROWID"},
    {"sink_redacted", "(sink TEXT PRIMARY KEY, value_count INTEGER NOT NULL) WITHOUT ROWID"},
};

#define SINK_COLUMNS                                                                                                   \
    "name, kind, receiver, segment, offset, position, request_count, retried_count, created_utc_ns, sent_utc_ns,"      \
    " error_utc_ns, error, refusal"
#define SINK_REDACTED  ", ifnull((SELECT value_count FROM sink_redacted WHERE sink = name), 0)"
#define STREAM_COLUMNS "host, stream, before" EC_SINK_FATES(FATE_NAME)

enum sinks_statement {
    FIND,
    EACH,
    EACH_STREAM,
    FIND_STREAM,
    PUT,
    PUT_REDACTED,
    PUT_STREAM,
    ADD_COUNTS,
    EACH_APART,
    PUT_APART,
    DROP_APART,
    SINKS_STATEMENTS
};

static const char *const SINKS_SQL[SINKS_STATEMENTS] = {
    [FIND] = "SELECT " SINK_COLUMNS SINK_REDACTED " FROM sinks WHERE name = ?1",
    [EACH] = "SELECT " SINK_COLUMNS SINK_REDACTED " FROM sinks ORDER BY name",
    [EACH_STREAM] = "SELECT " STREAM_COLUMNS " FROM sink_streams WHERE sink = ?1 ORDER BY host, stream",
    [FIND_STREAM] = "SELECT " STREAM_COLUMNS " FROM sink_streams WHERE sink = ?1 AND host = ?2 AND stream = ?3",
    [PUT] = "INSERT OR REPLACE INTO sinks(" SINK_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [PUT_REDACTED] = "INSERT OR REPLACE INTO sink_redacted VALUES(?1, ?2)",
    [PUT_STREAM] = "INSERT OR REPLACE INTO sink_streams(sink, " STREAM_COLUMNS
                   ") VALUES(?, ?, ?, ?" EC_SINK_FATES(FATE_PARAMETER) ")",
    [ADD_COUNTS] = "INSERT INTO sink_streams(sink, " STREAM_COLUMNS ") VALUES(?, ?, ?, ?" EC_SINK_FATES(
        FATE_PARAMETER) ") ON CONFLICT DO UPDATE SET before = before" EC_SINK_FATES(FATE_ADD),
    [EACH_APART] = "SELECT host, segment, offset, position FROM sink_apart WHERE sink = ?1 ORDER BY host",
    [PUT_APART] = "INSERT OR REPLACE INTO sink_apart VALUES(?, ?, ?, ?, ?)",
    [DROP_APART] = "DELETE FROM sink_apart WHERE sink = ?1 AND host = ?2",
};

struct ec_sinks {
    sqlite3 *db;
    sqlite3_stmt *statements[SINKS_STATEMENTS];
};

const char *ec_sink_fate_name(enum ec_sink_fate fate) {
    static const char *const NAMES[] = {
#define X(name, text) #name,
        EC_SINK_FATES(X)
#undef X
    };
    return NAMES[fate];
}

int ec_sinks_check_name(const char *name, ea_err *err) {
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(name);
    if (!len || len > EC_SINK_NAME_MAX || *name == '.' || strspn(name, ALLOWED) != len)
        return ea_fail(err, EA_EUSAGE,
                       "the name of a sink has 1 to %d letters, digits, - _ and dots, no dot at its begin",
                       EC_SINK_NAME_MAX);
    return 0;
}

static int sinks_lock_path(char *ret, size_t ret_bytes, const char *dir, const char *name, ea_err *err) {
    if (snprintf(ret, ret_bytes, "%s/sink-%s.lock", dir, name) >= (int)ret_bytes)
        return ea_fail(err, EA_EUSAGE, "the path of the store is too long");
    return 0;
}

int ec_sinks_lock(struct ea_file **ret, const char *dir, const char *name, ea_err *err) {
    char path[SINKS_PATH_BYTES];
    struct ea_file *file = NULL;
    int rc = ec_sinks_check_name(name, err);
    if (!rc)
        rc = sinks_lock_path(path, sizeof path, dir, name, err);
    if (!rc)
        rc = ea_file_open(&file, path, EA_OPEN_APPEND, err);
    if (rc)
        return rc;
    rc = ea_file_try_lock(file, err);
    for (int i = 1; rc == EA_EBUSY && i < SINKS_LOCK_TRIES; i++) { /* ec_sinks_is_locked has it for a moment */
        ea_sleep_ns(SINKS_LOCK_WAIT_NS);
        rc = ea_file_try_lock(file, err);
    }
    if (rc) {
        ea_file_close(file);
        return rc == EA_EBUSY ? ea_fail(err, rc, "sink %s is run by another process", name) : rc;
    }
    *ret = file;
    return 0;
}

int ec_sinks_is_locked(const char *dir, const char *name) {
    char path[SINKS_PATH_BYTES];
    struct ea_file *file = NULL;
    ea_err ignored;
    if (sinks_lock_path(path, sizeof path, dir, name, &ignored) || ea_file_open(&file, path, EA_OPEN_READ, &ignored))
        return 0; /* it never ran */
    int is_locked = ea_file_try_lock(file, &ignored) == EA_EBUSY;
    ea_file_close(file);
    return is_locked;
}

/* Who does not write the file finds no rows where it has no such table yet: one that is made just now, or an older one.
 */
static int sinks_make_table(ec_sinks *s, const char *name, const char *columns, int writable, ea_err *err) {
    static const char DOING[] = "open the sinks", KIND[] = "CREATE TEMP TABLE";
    sqlite3_stmt *st = NULL;
    ea_text sql;
    int has = 0, rc = 0;
    if (!writable) {
        rc = ec_sqlite_prepare(s->db, &st, "SELECT 1 FROM main.sqlite_schema WHERE name = ?1", DOING, err);
        if (!rc) {
            sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
            has = ec_sqlite_step(st, DOING, err);
            rc = has < 0 ? has : 0;
        }
        sqlite3_finalize(st);
    }
    if (rc || has)
        return rc;
    ea_text_init(&sql);
    ea_text_printf(&sql, "%s %s%s", writable ? "CREATE TABLE IF NOT EXISTS" : KIND, name, columns);
    rc = sql.failed ? ea_fail(err, EA_ENOMEM, "%s", DOING) : ec_sqlite_exec(s->db, sql.data, DOING, err);
    ea_text_deinit(&sql);
    return rc;
}

int ec_sinks_open(ec_sinks **ret, const char *dir, int writable, ea_err *err) {
    char path[SINKS_PATH_BYTES];
    ec_sinks *s = calloc(1, sizeof *s);
    if (!s || snprintf(path, sizeof path, "%s/sinks.db", dir) >= (int)sizeof path) {
        free(s);
        return ea_fail(err, EA_ENOMEM, "open the sinks of %s", dir);
    }
    int is_there = writable || ea_path_exists(path), rc = 0;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE | (writable ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(is_there ? path : ":memory:", &s->db, flags, NULL);
    if (code != SQLITE_OK)
        rc = s->db ? ec_fail_sqlite(err, s->db, "open the sinks") : ea_fail(err, EA_ENOMEM, "open the sinks");
    if (!rc)
        sqlite3_busy_timeout(s->db, SINKS_BUSY_MS);
    /* NORMAL: a power cut may take the last places, whose events are sent again */
    if (!rc && writable)
        rc = ec_sqlite_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", "open the sinks", err);
    for (size_t i = 0; !rc && i < sizeof SINKS_TABLES / sizeof *SINKS_TABLES; i++)
        rc = sinks_make_table(s, SINKS_TABLES[i][0], SINKS_TABLES[i][1], writable, err);
    if (rc) {
        ec_sinks_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ec_sinks_close(ec_sinks *s) {
    if (!s)
        return;
    for (int i = 0; i < SINKS_STATEMENTS; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    free(s);
}

static int sinks_prepare(ec_sinks *s, enum sinks_statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(s->db, &s->statements[which], SINKS_SQL[which], SINKS_DOING, err);
    *ret = s->statements[which];
    return rc;
}

static void sinks_text(char *out, size_t out_bytes, sqlite3_stmt *st, int column) {
    const unsigned char *text = sqlite3_column_text(st, column);
    snprintf(out, out_bytes, "%s", text ? (const char *)text : "");
}

static uint64_t sinks_u64(sqlite3_stmt *st, int column) {
    sqlite3_int64 v = sqlite3_column_int64(st, column);
    return v > 0 ? (uint64_t)v : 0;
}

static void sinks_read(sqlite3_stmt *st, ec_sink_row *ret) {
    *ret =
        (ec_sink_row){.place = {.segment = sinks_u64(st, 3), .offset = sinks_u64(st, 4), .position = sinks_u64(st, 5)},
                      .request_count = sinks_u64(st, 6),
                      .retried_count = sinks_u64(st, 7),
                      .created_utc_ns = sqlite3_column_int64(st, 8),
                      .sent_utc_ns = sqlite3_column_int64(st, 9),
                      .error_utc_ns = sqlite3_column_int64(st, 10),
                      .redacted_count = sinks_u64(st, 13)};
    sinks_text(ret->name, sizeof ret->name, st, 0);
    sinks_text(ret->kind, sizeof ret->kind, st, 1);
    sinks_text(ret->receiver, sizeof ret->receiver, st, 2);
    sinks_text(ret->error, sizeof ret->error, st, 11);
    sinks_text(ret->refusal, sizeof ret->refusal, st, 12);
}

static void sinks_read_stream(sqlite3_stmt *st, ec_sink_stream *ret) {
    *ret = (ec_sink_stream){.before = sqlite3_column_int64(st, 2)};
    sinks_text(ret->host, sizeof ret->host, st, 0);
    sinks_text(ret->stream, sizeof ret->stream, st, 1);
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        ret->counts[i] = sinks_u64(st, 3 + i);
}

int ec_sinks_find(ec_sinks *s, const char *name, ec_sink_row *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, FIND, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    rc = ec_sqlite_step(st, SINKS_DOING, err);
    if (rc > 0)
        sinks_read(st, ret);
    sqlite3_reset(st);
    return rc;
}

int ec_sinks_each(ec_sinks *s, int (*fn)(const ec_sink_row *row, void *arg), void *arg, ea_err *err) {
    sqlite3_stmt *st = NULL;
    ec_sink_row row;
    int code = SQLITE_DONE, rc = sinks_prepare(s, EACH, &st, err);
    if (rc)
        return rc;
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        sinks_read(st, &row);
        rc = fn(&row, arg);
    }
    return ec_sqlite_end(st, code, rc, SINKS_DOING, err);
}

int ec_sinks_each_stream(ec_sinks *s, const char *name, int (*fn)(const ec_sink_stream *row, void *arg), void *arg,
                         ea_err *err) {
    sqlite3_stmt *st = NULL;
    ec_sink_stream row;
    int code = SQLITE_DONE, rc = sinks_prepare(s, EACH_STREAM, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        sinks_read_stream(st, &row);
        rc = fn(&row, arg);
    }
    return ec_sqlite_end(st, code, rc, SINKS_DOING, err);
}

int ec_sinks_find_stream(ec_sinks *s, const char *name, const char *host, const char *stream, ec_sink_stream *ret,
                         ea_err *err) {
    const char *const key[] = {name, host, stream};
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, FIND_STREAM, &st, err);
    if (rc)
        return rc;
    for (int i = 0; i < 3; i++)
        sqlite3_bind_text(st, 1 + i, key[i], -1, SQLITE_STATIC);
    rc = ec_sqlite_step(st, SINKS_DOING, err);
    if (rc > 0)
        sinks_read_stream(st, ret);
    sqlite3_reset(st);
    return rc;
}

int ec_sinks_read_apart(ec_sinks *s, const char *name, ec_sink_apart **ret, size_t *ret_count, ea_err *err) {
    sqlite3_stmt *st = NULL;
    ec_sink_apart *items = NULL;
    size_t count = 0, capacity = 0;
    int code = SQLITE_DONE, rc = sinks_prepare(s, EACH_APART, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        if (EA_GROW(items, capacity, count + 1, SIZE_MAX)) {
            rc = ea_fail(err, EA_ENOMEM, "%s", SINKS_DOING);
            continue;
        }
        ec_sink_apart *b = &items[count++];
        *b = (ec_sink_apart){
            .place = {.segment = sinks_u64(st, 1), .offset = sinks_u64(st, 2), .position = sinks_u64(st, 3)}};
        sinks_text(b->host, sizeof b->host, st, 0);
    }
    rc = ec_sqlite_end(st, code, rc, SINKS_DOING, err);
    if (rc) {
        free(items);
        return rc;
    }
    *ret = items;
    *ret_count = count;
    return 0;
}

int ec_sinks_put_apart(ec_sinks *s, const char *name, const ec_sink_apart *row, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, PUT_APART, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, row->host, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)row->place.segment);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)row->place.offset);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)row->place.position);
    return ec_sqlite_run(st, SINKS_DOING, err);
}

int ec_sinks_drop_apart(ec_sinks *s, const char *name, const char *host, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, DROP_APART, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, host, -1, SQLITE_STATIC);
    return ec_sqlite_run(st, SINKS_DOING, err);
}

int ec_sinks_begin(ec_sinks *s, ea_err *err) {
    return ec_sqlite_exec(s->db, "BEGIN IMMEDIATE", SINKS_DOING, err);
}

int ec_sinks_commit(ec_sinks *s, ea_err *err) {
    return ec_sqlite_exec(s->db, "COMMIT", SINKS_DOING, err);
}

void ec_sinks_undo(ec_sinks *s) {
    if (!sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int ec_sinks_put(ec_sinks *s, const ec_sink_row *row, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, PUT, &st, err), at = 1;
    if (rc)
        return rc;
    sqlite3_bind_text(st, at++, row->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, at++, row->kind, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, at++, row->receiver, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, at++, (sqlite3_int64)row->place.segment);
    sqlite3_bind_int64(st, at++, (sqlite3_int64)row->place.offset);
    sqlite3_bind_int64(st, at++, (sqlite3_int64)row->place.position);
    sqlite3_bind_int64(st, at++, (sqlite3_int64)row->request_count);
    sqlite3_bind_int64(st, at++, (sqlite3_int64)row->retried_count);
    sqlite3_bind_int64(st, at++, row->created_utc_ns);
    sqlite3_bind_int64(st, at++, row->sent_utc_ns);
    sqlite3_bind_int64(st, at++, row->error_utc_ns);
    sqlite3_bind_text(st, at++, row->error, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, at++, row->refusal, -1, SQLITE_STATIC);
    rc = ec_sqlite_run(st, SINKS_DOING, err);
    if (!rc && row->redacted_count)
        rc = sinks_prepare(s, PUT_REDACTED, &st, err);
    if (rc || !row->redacted_count)
        return rc;
    sqlite3_bind_text(st, 1, row->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)row->redacted_count);
    return ec_sqlite_run(st, SINKS_DOING, err);
}

static int sinks_run_stream(ec_sinks *s, enum sinks_statement which, const char *name, const char *host,
                            const char *stream, int64_t before, const uint64_t *counts, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = sinks_prepare(s, which, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, host, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 4, before);
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        sqlite3_bind_int64(st, 5 + i, (sqlite3_int64)counts[i]);
    return ec_sqlite_run(st, SINKS_DOING, err);
}

int ec_sinks_put_stream(ec_sinks *s, const char *name, const ec_sink_stream *row, ea_err *err) {
    return sinks_run_stream(s, PUT_STREAM, name, row->host, row->stream, row->before, row->counts, err);
}

int ec_sinks_count(ec_sinks *s, const char *name, const char *host, const char *stream, const uint64_t *counts,
                   ea_err *err) {
    return sinks_run_stream(s, ADD_COUNTS, name, host, stream, 0, counts, err);
}

int ec_sinks_forget(const char *dir, const char *host, const char *stream, ea_err *err) {
    char path[SINKS_PATH_BYTES];
    ec_sinks *s = NULL;
    sqlite3_stmt *st = NULL;
    snprintf(path, sizeof path, "%s/sinks.db", dir);
    if (!ea_path_exists(path))
        return 0;
    int rc = ec_sinks_open(&s, dir, 1, err);
    if (!rc)
        rc = ec_sqlite_exec(s->db, "UPDATE sinks SET refusal = '', error = '', error_utc_ns = 0", SINKS_DOING, err);
    if (!rc)
        rc = ec_sqlite_prepare(s->db, &st, "DELETE FROM sink_streams WHERE host = ?1 AND (?2 IS NULL OR stream = ?2)",
                               SINKS_DOING, err);
    if (!rc) {
        sqlite3_bind_text(st, 1, host, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, stream, -1, SQLITE_STATIC);
        rc = ec_sqlite_run(st, SINKS_DOING, err);
    }
    sqlite3_finalize(st);
    st = NULL;
    if (!rc && !stream)
        rc = ec_sqlite_prepare(s->db, &st, "DELETE FROM sink_apart WHERE host = ?1", SINKS_DOING, err);
    if (!rc && st) {
        sqlite3_bind_text(st, 1, host, -1, SQLITE_STATIC);
        rc = ec_sqlite_run(st, SINKS_DOING, err);
    }
    sqlite3_finalize(st);
    if (!rc)
        rc = ec_sqlite_exec(s->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", SINKS_DOING, err);
    ec_sinks_close(s);
    return rc;
}
