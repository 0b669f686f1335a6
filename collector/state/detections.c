/* See detections.h. incidents.c has the tables. */
#include "collector/state/detections.h"

#include "collector/sqlite/sqlite.h"
#include "collector/state/incidents.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HOUR_S = 3600 };

static const char DOING[] = "keep detections";
static const int64_t HOUR_NS = (int64_t)HOUR_S * 1000000000;

enum detections_statement {
    SEEN,
    SET_SEEN,
    NEXT,
    ADD_TEXT,
    ADD,
    COUNT_HOUR,
    IS_KNOWN,
    LEAVE_OUT,
    LEAVE_OUT_ONE,
    SUPPRESS,
    JUDGED,
    OVER,
    HOST_OF,
    SENT,
    SET_SENT,
    SET,
    STATEMENTS
};

/* an arrival below the first number that is not judged: begin there again; what comes after it does not make it younger
 */
static const char NEXT_SQL[] = "INSERT INTO detections_next VALUES(?1, ?2, ?3, 1, 0, ?4) ON CONFLICT DO UPDATE SET"
                               " is_late = is_late OR excluded.number < number, number = min(number, excluded.number),"
                               " is_pending = 1, noticed_utc_ns = iif(is_late AND excluded.number >= number,"
                               " noticed_utc_ns, excluded.noticed_utc_ns)";
static const char IS_KNOWN_SQL[] =
    "SELECT 1 FROM detections WHERE host = ?1 AND stream = ?2 AND batch = ?3 AND position = ?4 AND"
    " rule = ?5";
static const char ADD_SQL[] =
    "INSERT INTO detections(detection_id, host, stream, batch, position, rule, title, level, source, utc_ns, "
    "found_utc_ns,"
    " pid, process, fields, tags, text_id, chain, state, who, comment) VALUES(1 + " EC_DETECTIONS_LAST
    ", ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
    " ?10, ?11, ?12, ?13, ?14, (SELECT text_id FROM detections_rules WHERE text = ?15), ?16, 'open', '', '')";

static const char LEAVE_OUT_ONE_SQL[] =
    "INSERT INTO detections_left_out VALUES(?1, ?2, ?3, ?4, 1) ON CONFLICT DO UPDATE"
    " SET count = count + 1";
static const char SENT_SQL[] =
    "SELECT number, 1 FROM detections_sent WHERE name = ?1 UNION ALL SELECT " EC_DETECTIONS_LAST ", 0 LIMIT 1";

static const char *const SQL[STATEMENTS] = {
    [SEEN] = "SELECT segment, offset FROM detections_seen",
    [SET_SEEN] = "INSERT INTO detections_seen VALUES(?1, ?2)",
    [NEXT] = NEXT_SQL,
    [IS_KNOWN] = IS_KNOWN_SQL,
    [COUNT_HOUR] = "SELECT count(*) FROM detections WHERE host = ?1 AND rule = ?2 AND utc_ns >= ?3 AND utc_ns < ?4",
    [ADD_TEXT] = "INSERT OR IGNORE INTO detections_rules(text) VALUES(?1)",
    [ADD] = ADD_SQL,
    [HOST_OF] = "SELECT host FROM detections WHERE detection_id = ?1",
    [SENT] = SENT_SQL,
    [SET_SENT] = "INSERT OR REPLACE INTO detections_sent VALUES(?1, ?2)",
    [LEAVE_OUT] = "INSERT OR REPLACE INTO detections_left_out VALUES(?1, ?2, ?3, ?4, ?5)",
    [LEAVE_OUT_ONE] = LEAVE_OUT_ONE_SQL,
    [SUPPRESS] = "INSERT OR REPLACE INTO detections_suppressed VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [JUDGED] = "UPDATE detections_next SET number = ?3, is_pending = ?4, is_late = 0 WHERE host = ?1 AND stream = ?2",
    [OVER] = "DELETE FROM detections_next WHERE host = ?1 AND stream = ?2",
    [SET] = "UPDATE detections SET state = ?2, who = ?3, comment = ?4, state_utc_ns = ?5 WHERE detection_id = ?1",
};

struct ec_detections {
    ec_incidents *file;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int has_more; /* rows in the open transaction */
};

int ec_detections_open(ec_detections **ret, const char *dir, ea_err *err) {
    ec_detections *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "open the detections");
    int rc = ec_incidents_open(&d->file, dir, 1, err);
    if (rc) {
        free(d);
        return rc;
    }
    d->db = ec_incidents_database(d->file);
    *ret = d;
    return 0;
}

void ec_detections_close(ec_detections *d) {
    if (!d)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(d->statements[i]);
    ec_incidents_close(d->file);
    free(d);
}

sqlite3 *ec_detections_database(ec_detections *d) {
    return d->db;
}

static int detections_prepare(ec_detections *d, enum detections_statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(d->db, &d->statements[which], SQL[which], DOING, err);
    *ret = d->statements[which];
    return rc;
}

static void detections_bind_text(sqlite3_stmt *st, int at, const char *text) {
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static void bind_stream(sqlite3_stmt *st, const ec_detections_stream *s) {
    detections_bind_text(st, 1, s->host);
    detections_bind_text(st, 2, s->stream);
}

/* ---- arrivals ---- */

/* One row a stream: the lowest number that came. */
static int notice_streams(ec_detections *d, ec_store *store, const ec_store_place *seen, const ec_store_place *end,
                          int64_t now_utc_ns, uint64_t *ret_count, ea_err *err) {
    sqlite3 *index = ec_store_database(store);
    sqlite3_stmt *st = NULL, *next = NULL;
    int code, rc = ec_sqlite_prepare(index, &st,
                                     "SELECT s.agent, lower(hex(s.stream)), min(b.number), count(*) FROM batches b JOIN"
                                     " streams s ON s.stream_id = b.stream_id WHERE b.segment >= ?1 AND (b.segment > ?1"
                                     " OR b.offset >= ?2) AND (b.segment < ?3 OR (b.segment = ?3 AND b.offset < ?4))"
                                     " GROUP BY b.stream_id",
                                     "read the batches", err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)seen->segment);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)seen->offset);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)end->segment);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)end->offset);
    while ((code = sqlite3_step(st)) == SQLITE_ROW && !rc) {
        rc = detections_prepare(d, NEXT, &next, err);
        if (rc)
            break;
        detections_bind_text(next, 1, (const char *)sqlite3_column_text(st, 0));
        detections_bind_text(next, 2, (const char *)sqlite3_column_text(st, 1));
        sqlite3_bind_int64(next, 3, sqlite3_column_int64(st, 2));
        sqlite3_bind_int64(next, 4, now_utc_ns);
        *ret_count += (uint64_t)sqlite3_column_int64(st, 3);
        rc = ec_sqlite_run(next, DOING, err);
    }
    rc = ec_sqlite_end(st, code, rc, "read the batches", err);
    sqlite3_finalize(st);
    return rc;
}

int ec_detections_notice(ec_detections *d, ec_store *store, int64_t now_utc_ns, uint64_t *ret_count, ea_err *err) {
    ec_store_place end, seen = {0};
    sqlite3_stmt *st = NULL;
    *ret_count = 0;
    int is_known = 0, rc = ec_store_position(store, &end, err);
    if (!rc)
        rc = detections_prepare(d, SEEN, &st, err);
    if (!rc && (rc = is_known = ec_sqlite_step(st, DOING, err)) > 0) {
        seen = (ec_store_place){(uint64_t)sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1)};
        sqlite3_reset(st);
        rc = 0;
    }
    if (rc || (is_known && end.segment == seen.segment && end.offset == seen.offset))
        return rc;
    rc = ec_detections_begin(d, err);
    if (!rc && is_known)
        rc = notice_streams(d, store, &seen, &end, now_utc_ns, ret_count, err);
    if (!rc)
        rc = ec_sqlite_exec(d->db, "DELETE FROM detections_seen", DOING, err);
    if (!rc)
        rc = detections_prepare(d, SET_SEEN, &st, err);
    if (!rc) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)end.segment);
        sqlite3_bind_int64(st, 2, (sqlite3_int64)end.offset);
        rc = ec_sqlite_run(st, DOING, err);
    }
    if (!rc)
        rc = ec_sqlite_exec(d->db, "COMMIT", DOING, err);
    if (rc)
        ec_detections_undo(d);
    return rc;
}

int ec_detections_each(ec_detections *d, const ec_detections_stream *after,
                       int (*fn)(const ec_detections_stream *s, void *arg), void *arg, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = SQLITE_DONE, stop = 0;
    int rc = ec_sqlite_prepare(d->db, &st,
                               "SELECT host, stream, number, is_late, noticed_utc_ns FROM"
                               " detections_next WHERE is_pending AND (host > ?1 OR (host = ?1 AND stream > ?2))"
                               " ORDER BY host, stream",
                               DOING, err);
    if (rc)
        return rc;
    detections_bind_text(st, 1, after ? after->host : "");
    detections_bind_text(st, 2, after ? after->stream : "");
    while (!stop && (code = sqlite3_step(st)) == SQLITE_ROW) {
        size_t len = 0;
        ec_detections_stream s = {.next = (uint64_t)sqlite3_column_int64(st, 2),
                                  .is_late = sqlite3_column_int(st, 3),
                                  .noticed_utc_ns = sqlite3_column_int64(st, 4)};
        const char *host = (const char *)sqlite3_column_text(st, 0), *id = (const char *)sqlite3_column_text(st, 1);
        snprintf(s.host, sizeof s.host, "%s", host ? host : "");
        snprintf(s.stream, sizeof s.stream, "%s", id ? id : "");
        if (ea_hex_parse(s.stream, s.id, sizeof s.id, &len) == 0 && len == sizeof s.id)
            stop = fn(&s, arg);
    }
    if (!stop && code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, d->db, DOING);
    sqlite3_finalize(st);
    return rc ? rc : stop;
}

/* ---- what was judged ---- */

int ec_detections_begin(ec_detections *d, ea_err *err) {
    d->has_more = 0;
    return ec_sqlite_exec(d->db, "BEGIN IMMEDIATE", DOING, err);
}

void ec_detections_undo(ec_detections *d) {
    if (!sqlite3_get_autocommit(d->db))
        (void)sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
}

/* How many of the rule are kept in the hour of a time, or an error. */
static int count_hour(ec_detections *d, const ec_detections_stream *s, const ec_detection *row, ea_err *err) {
    int64_t hour_ns = row->utc_ns - row->utc_ns % HOUR_NS;
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, COUNT_HOUR, &st, err);
    if (rc)
        return rc;
    detections_bind_text(st, 1, s->host);
    detections_bind_text(st, 2, row->rule);
    sqlite3_bind_int64(st, 3, hour_ns);
    sqlite3_bind_int64(st, 4, hour_ns > INT64_MAX - HOUR_NS ? INT64_MAX : hour_ns + HOUR_NS);
    rc = ec_sqlite_step(st, DOING, err);
    int count = rc > 0 ? sqlite3_column_int(st, 0) : 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : count;
}

static int is_known_row(ec_detections *d, const ec_detections_stream *s, const ec_detection *row, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, IS_KNOWN, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)row->batch);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)row->position);
    detections_bind_text(st, 5, row->rule);
    rc = ec_sqlite_step(st, DOING, err);
    sqlite3_reset(st);
    return rc;
}

static int detections_put_text(ec_detections *d, const char *text, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, ADD_TEXT, &st, err);
    if (rc)
        return rc;
    detections_bind_text(st, 1, text);
    return ec_sqlite_run(st, DOING, err);
}

int ec_detections_add(ec_detections *d, const ec_detections_stream *s, const ec_detection *row, int64_t now_utc_ns,
                      int *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    *ret = 0;
    int rc = is_known_row(d, s, row, err);
    if (rc)
        return rc < 0 ? rc : 0;
    rc = count_hour(d, s, row, err);
    if (rc < 0)
        return rc;
    if (rc >= EC_DETECTIONS_AN_HOUR) {
        *ret = 2;
        return 0;
    }
    rc = row->text ? detections_put_text(d, row->text, err) : 0;
    if (!rc)
        rc = detections_prepare(d, ADD, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)row->batch);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)row->position);
    detections_bind_text(st, 5, row->rule);
    detections_bind_text(st, 6, row->title);
    detections_bind_text(st, 7, row->level);
    detections_bind_text(st, 8, row->source);
    sqlite3_bind_int64(st, 9, row->utc_ns);
    sqlite3_bind_int64(st, 10, now_utc_ns);
    if (row->has_pid)
        sqlite3_bind_int64(st, 11, row->pid);
    else
        sqlite3_bind_null(st, 11);
    detections_bind_text(st, 12, row->process);
    detections_bind_text(st, 13, row->fields);
    detections_bind_text(st, 14, row->tags ? row->tags : "[]");
    detections_bind_text(st, 15, row->text);
    detections_bind_text(st, 16, row->chain ? row->chain : "[]");
    *ret = 1;
    d->has_more = 1;
    return ec_sqlite_run(st, DOING, err);
}

int ec_detections_leave_out(ec_detections *d, const ec_detections_stream *s, uint64_t batch, const char *rule,
                            uint64_t count, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, LEAVE_OUT, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)batch);
    detections_bind_text(st, 4, rule);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)count);
    d->has_more = 1;
    return ec_sqlite_run(st, DOING, err);
}

int ec_detections_leave_out_one(ec_detections *d, const ec_detections_stream *s, uint64_t batch, const char *rule,
                                ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, LEAVE_OUT_ONE, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)batch);
    detections_bind_text(st, 4, rule);
    d->has_more = 1;
    return ec_sqlite_run(st, DOING, err);
}

int ec_detections_suppress(ec_detections *d, const ec_detections_stream *s, uint64_t batch, const char *rule,
                           const char *filter, uint64_t count, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, SUPPRESS, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)batch);
    detections_bind_text(st, 4, rule);
    detections_bind_text(st, 5, filter);
    sqlite3_bind_int64(st, 6, (sqlite3_int64)count);
    d->has_more = 1;
    return ec_sqlite_run(st, DOING, err);
}

/* Deletes what is too much, of the host that has most: closed detections first, then the oldest. An agent can be given
 * as many as it likes, by events of many hours, and would else delete those of all others. */
static int bound_rows(ec_detections *d, ea_err *err) {
    char sql[2000];
    snprintf(
        sql, sizeof sql,
        EC_DETECTIONS_KEEP_LAST
        ";"
        "DELETE FROM detections WHERE detection_id IN (SELECT detection_id FROM detections WHERE host ="
        " (SELECT host FROM detections GROUP BY host ORDER BY count(*) DESC LIMIT 1) ORDER BY state = 'closed'"
        " DESC, detection_id LIMIT max(0, (SELECT count(*) FROM detections) - %d));"
        "DELETE FROM detections_left_out WHERE (host, stream, batch, rule) IN (SELECT host, stream, batch, rule"
        " FROM detections_left_out WHERE host = (SELECT host FROM detections_left_out GROUP BY host ORDER BY"
        " count(*) DESC LIMIT 1) ORDER BY batch LIMIT max(0, (SELECT count(*) FROM detections_left_out) - %d));"
        "DELETE FROM detections_suppressed WHERE (host, stream, batch, rule, filter) IN (SELECT host, stream, batch,"
        " rule, filter FROM detections_suppressed WHERE host = (SELECT host FROM detections_suppressed GROUP BY host"
        " ORDER BY count(*) DESC LIMIT 1) ORDER BY batch LIMIT max(0, (SELECT count(*) FROM detections_suppressed) -"
        " %d));"
        "DELETE FROM detections_rules WHERE text_id NOT IN (SELECT text_id FROM detections WHERE text_id IS NOT"
        " NULL)",
        EC_DETECTIONS_KEPT, EC_LEFT_OUT_KEPT, EC_LEFT_OUT_KEPT);
    return ec_sqlite_exec(d->db, sql, DOING, err);
}

int ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, next ? JUDGED : OVER, &st, err);
    if (rc)
        return rc;
    bind_stream(st, s);
    if (next) {
        sqlite3_bind_int64(st, 3, (sqlite3_int64)next);
        sqlite3_bind_int(st, 4, !is_all);
    }
    rc = ec_sqlite_run(st, DOING, err);
    if (!rc && d->has_more)
        rc = bound_rows(d, err);
    return rc ? rc : ec_sqlite_exec(d->db, "COMMIT", DOING, err);
}

/* ---- receivers ---- */

int ec_detections_sent(ec_detections *d, const char *receiver, uint64_t *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, SENT, &st, err);
    if (rc)
        return rc;
    detections_bind_text(st, 1, receiver);
    rc = ec_sqlite_step(st, DOING, err);
    if (rc > 0) {
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
        rc = sqlite3_column_int(st, 1);
    }
    sqlite3_reset(st);
    return rc;
}

int ec_detections_set_sent(ec_detections *d, const char *receiver, uint64_t number, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, SET_SENT, &st, err);
    if (rc)
        return rc;
    detections_bind_text(st, 1, receiver);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)number);
    return ec_sqlite_run(st, DOING, err);
}

/* ---- people ---- */

const char *ec_detection_state_name(enum ec_detection_state state) {
    static const char *const NAMES[EC_DETECTION_STATES] = {"open", "acknowledged", "closed"};
    return NAMES[state];
}

int ec_detections_host(ec_detections *d, uint64_t number, char *ret, size_t ret_size, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, HOST_OF, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)number);
    rc = ec_sqlite_step(st, DOING, err);
    if (rc > 0)
        snprintf(ret, ret_size, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_reset(st);
    return rc < 0 ? rc : rc ? 0 : ea_fail(err, EA_ENOTFOUND, "there is no detection %" PRIu64, number);
}

int ec_detections_set(ec_detections *d, uint64_t number, enum ec_detection_state state, const char *who,
                      const char *comment, int64_t now_utc_ns, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = detections_prepare(d, SET, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)number);
    detections_bind_text(st, 2, ec_detection_state_name(state));
    detections_bind_text(st, 3, who);
    detections_bind_text(st, 4, comment);
    sqlite3_bind_int64(st, 5, now_utc_ns);
    rc = ec_sqlite_run(st, DOING, err);
    if (!rc && sqlite3_changes(d->db) == 0)
        return ea_fail(err, EA_ENOTFOUND, "there is no detection %" PRIu64, number);
    return rc;
}
