/* See requests.h. */
#include "collector/state/requests.h"

#include "collector/sqlite/sqlite.h"
#include "proto/base/clock.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS_BUSY_MS = 200, REQUESTS_READ_BUSY_MS = 5000, REQUESTS_PATH_BYTES = 1400 };

static const int64_t REQUESTS_KEEP_NS = EC_REQUEST_KEEP_DAYS * INT64_C(86400000000000);
static const char REQUESTS_DOING[] = "keep requests";

static const char REQUESTS_SCHEMA[] =
    "CREATE TABLE IF NOT EXISTS requests(serial INTEGER PRIMARY KEY, hosts TEXT NOT NULL, expires_utc_ns INTEGER NOT"
    " NULL, added_utc_ns INTEGER NOT NULL, withdrawn INTEGER NOT NULL, bytes BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS reports(serial INTEGER NOT NULL, host TEXT NOT NULL, state INTEGER NOT NULL, utc_ns"
    " INTEGER NOT NULL, batches INTEGER NOT NULL, events INTEGER NOT NULL, bytes INTEGER NOT NULL, text TEXT NOT NULL,"
    " PRIMARY KEY(serial, host)) WITHOUT ROWID;";

enum requests_statement {
    ADD,
    LAST,
    COUNT_OPEN,
    REMOVE_OLD_REPORTS,
    REMOVE_OLD,
    WITHDRAW,
    OFFER,
    PUT_REPORT,
    EACH,
    FORGET,
    REQUESTS_STATEMENTS
};

static const char *const REQUESTS_SQL[REQUESTS_STATEMENTS] = {
    [ADD] = "INSERT INTO requests VALUES(?1, ?2, ?3, ?4, 0, ?5)",
    [LAST] = "SELECT max(serial) FROM requests",
    [COUNT_OPEN] = "SELECT count(*) FROM requests WHERE expires_utc_ns > ?1 AND NOT withdrawn",
    [REMOVE_OLD_REPORTS] =
        "DELETE FROM reports WHERE serial IN (SELECT serial FROM requests WHERE expires_utc_ns < ?1)",
    [REMOVE_OLD] = "DELETE FROM requests WHERE expires_utc_ns < ?1",
    [WITHDRAW] = "UPDATE requests SET withdrawn = 1 WHERE serial = ?1",
    [OFFER] = "SELECT hosts, bytes FROM requests WHERE serial > ?1 AND expires_utc_ns > ?2 AND NOT withdrawn AND NOT"
              " EXISTS (SELECT 1 FROM reports WHERE reports.serial = requests.serial AND host = ?3) ORDER BY serial",
    /* of requests that were made here; a refusal does not replace what was accepted before. All rows are counted for a
       new one alone */
    [PUT_REPORT] =
        "INSERT INTO reports SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM requests WHERE serial = ?1 AND (EXISTS (SELECT"
        " 1 FROM reports WHERE serial = ?1 AND host = ?2) OR (SELECT count(*) FROM reports) < ?9) ON CONFLICT DO UPDATE"
        " SET state = excluded.state, utc_ns = excluded.utc_ns, batches ="
        " excluded.batches, events = excluded.events, bytes = excluded.bytes, text = excluded.text WHERE excluded.state"
        " <> 2 OR state = 2",
    [EACH] = "SELECT r.bytes, r.added_utc_ns, r.withdrawn, p.host, p.state, p.utc_ns, p.batches, p.events, p.bytes,"
             " p.text, r.serial FROM requests r LEFT JOIN reports p USING(serial) ORDER BY r.serial DESC, p.host",
    [FORGET] = "DELETE FROM reports WHERE host = ?1",
};

struct ec_requests {
    char path[REQUESTS_PATH_BYTES];
    ea_mutex *lock;
    sqlite3 *db; /* NULL: there was no file yet */
    sqlite3_stmt *statements[REQUESTS_STATEMENTS];
};

int ec_requests_open(ec_requests **ret, const char *dir, ea_err *err) {
    ec_requests *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "%s", REQUESTS_DOING);
    int rc = ea_mutex_create(&r->lock, err);
    if (!rc && snprintf(r->path, sizeof r->path, "%s/requests.db", dir) >= (int)sizeof r->path)
        rc = ea_fail(err, EA_EUSAGE, "the path of the store is too long");
    if (rc) {
        ec_requests_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

/* With the lock. 1: it is open; 0: there is no file. */
static int requests_connect(ec_requests *r, int makes, ea_err *err) {
    int rc = 0;
    if (r->db)
        return 1;
    if (!makes && !ea_path_exists(r->path))
        return 0;
    if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        rc = r->db ? ec_fail_sqlite(err, r->db, "open the requests") : ea_fail(err, EA_ENOMEM, "open the requests");
    if (!rc)
        sqlite3_busy_timeout(r->db, REQUESTS_BUSY_MS);
    if (!rc)
        rc = ec_sqlite_exec(r->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", "open the requests", err);
    if (!rc)
        rc = ec_sqlite_exec(r->db, REQUESTS_SCHEMA, "open the requests", err);
    if (rc) {
        sqlite3_close(r->db);
        r->db = NULL;
    }
    return rc ? rc : 1;
}

void ec_requests_close(ec_requests *r) {
    if (!r)
        return;
    for (int i = 0; i < REQUESTS_STATEMENTS; i++)
        sqlite3_finalize(r->statements[i]);
    sqlite3_close(r->db);
    ea_mutex_destroy(r->lock);
    free(r);
}

static int requests_prepare(ec_requests *r, enum requests_statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(r->db, &r->statements[which], REQUESTS_SQL[which], REQUESTS_DOING, err);
    *ret = r->statements[which];
    return rc;
}

/* A statement whose one parameter is a number. Its row has a number for *ret. */
static int requests_number(ec_requests *r, enum requests_statement which, int64_t parameter, int64_t *ret,
                           ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = requests_prepare(r, which, &st, err);
    if (rc)
        return rc;
    if (sqlite3_bind_parameter_count(st))
        sqlite3_bind_int64(st, 1, parameter);
    rc = ec_sqlite_step(st, REQUESTS_DOING, err);
    if (rc > 0 && ret)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static void requests_undo(ec_requests *r) {
    if (r->db && !sqlite3_get_autocommit(r->db))
        (void)sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- a person's ---- */

/* Within a transaction. */
static int add_request(ec_requests *r, const ea_request *q, const uint8_t *bytes, size_t len_bytes, int64_t now_utc_ns,
                       ea_err *err) {
    int64_t last = 0, open = 0;
    sqlite3_stmt *st = NULL;
    int rc = requests_number(r, LAST, 0, &last, err);
    if (!rc && q->serial <= (uint64_t)last)
        rc = ea_fail(err, EA_EINVAL,
                     "request %" PRIu64 ": a request with the serial %" PRId64 " is kept; agents refuse smaller ones",
                     q->serial, last);
    if (!rc)
        rc = requests_number(r, REMOVE_OLD_REPORTS, now_utc_ns - REQUESTS_KEEP_NS, NULL, err);
    if (!rc)
        rc = requests_number(r, REMOVE_OLD, now_utc_ns - REQUESTS_KEEP_NS, NULL, err);
    if (!rc)
        rc = requests_number(r, COUNT_OPEN, now_utc_ns, &open, err);
    if (!rc && open >= EC_REQUESTS_MAX)
        rc = ea_fail(err, EA_ELIMIT, "%" PRId64 " requests have not expired: withdraw some", open);
    if (!rc)
        rc = requests_prepare(r, ADD, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)q->serial);
    sqlite3_bind_text(st, 2, q->hosts, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, q->expires_utc_ns);
    sqlite3_bind_int64(st, 4, now_utc_ns);
    sqlite3_bind_blob(st, 5, bytes, (int)len_bytes, SQLITE_STATIC);
    return ec_sqlite_run(st, REQUESTS_DOING, err);
}

int ec_requests_add(ec_requests *r, const uint8_t *signed_request, size_t len_bytes, int64_t now_utc_ns, ea_err *err) {
    ea_signed_request s;
    ea_request q;
    int rc = ea_signed_request_decode(&s, signed_request, len_bytes, err);
    if (!rc)
        rc = ea_request_decode(&q, s.request, s.request_bytes, err);
    if (rc)
        return rc;
    if (q.expires_utc_ns <= now_utc_ns)
        return ea_fail(err, EA_EINVAL, "request %" PRIu64 " has expired", q.serial);
    ea_mutex_lock(r->lock);
    rc = requests_connect(r, 1, err);
    rc = rc < 0 ? rc : ec_sqlite_exec(r->db, "BEGIN IMMEDIATE", REQUESTS_DOING, err);
    if (!rc)
        rc = add_request(r, &q, signed_request, len_bytes, now_utc_ns, err);
    if (!rc)
        rc = ec_sqlite_exec(r->db, "COMMIT", REQUESTS_DOING, err);
    requests_undo(r);
    ea_mutex_unlock(r->lock);
    return rc;
}

int ec_requests_withdraw(ec_requests *r, uint64_t serial, ea_err *err) {
    ea_mutex_lock(r->lock);
    int rc = requests_connect(r, 0, err);
    int is_there = rc > 0;
    if (is_there) {
        rc = requests_number(r, WITHDRAW, (int64_t)serial, NULL, err);
        is_there = sqlite3_changes(r->db) > 0;
    }
    ea_mutex_unlock(r->lock);
    return rc < 0 ? rc : is_there ? 0 : ea_fail(err, EA_ENOTFOUND, "there is no request %" PRIu64, serial);
}

int ec_requests_last(ec_requests *r, uint64_t *ret_serial, ea_err *err) {
    int64_t last = 0;
    ea_mutex_lock(r->lock);
    int rc = requests_connect(r, 0, err);
    if (rc > 0)
        rc = requests_number(r, LAST, 0, &last, err);
    ea_mutex_unlock(r->lock);
    if (rc < 0)
        return rc;
    *ret_serial = (uint64_t)last;
    return 0;
}

static void requests_read_report(sqlite3_stmt *st, int at, ea_report *ret) {
    const unsigned char *text = sqlite3_column_text(st, at + 5);
    *ret = (ea_report){.state = (uint32_t)sqlite3_column_int64(st, at),
                       .utc_ns = sqlite3_column_int64(st, at + 1),
                       .batches = (uint64_t)sqlite3_column_int64(st, at + 2),
                       .events = (uint64_t)sqlite3_column_int64(st, at + 3),
                       .bytes = (uint64_t)sqlite3_column_int64(st, at + 4)};
    snprintf(ret->text, sizeof ret->text, "%s", text ? (const char *)text : "");
}

/* The first row of a request is the request's own. */
static int requests_each_row(sqlite3_stmt *st, uint64_t *last, int (*fn)(const ec_request_row *row, void *arg),
                             void *arg, ea_err *err) {
    ea_signed_request s;
    ec_request_row row = {.added_utc_ns = sqlite3_column_int64(st, 1), .is_withdrawn = sqlite3_column_int(st, 2)};
    const uint8_t *bytes = sqlite3_column_blob(st, 0);
    int rc = ea_signed_request_decode(&s, bytes, (size_t)sqlite3_column_bytes(st, 0), err);
    if (!rc)
        rc = ea_request_decode(&row.request, s.request, s.request_bytes, err);
    if (!rc && row.request.serial != *last)
        rc = fn(&row, arg);
    *last = row.request.serial;
    row.host = (const char *)sqlite3_column_text(st, 3);
    if (rc || !row.host)
        return rc;
    requests_read_report(st, 4, &row.report);
    return fn(&row, arg);
}

int ec_requests_each(ec_requests *r, int (*fn)(const ec_request_row *row, void *arg), void *arg, ea_err *err) {
    sqlite3_stmt *st = NULL;
    uint64_t last = 0;
    int code = SQLITE_DONE;
    ea_mutex_lock(r->lock);
    int rc = requests_connect(r, 0, err), is_there = rc > 0;
    if (is_there)
        rc = requests_prepare(r, EACH, &st, err);
    while (is_there && !rc && (code = sqlite3_step(st)) == SQLITE_ROW)
        rc = requests_each_row(st, &last, fn, arg, err);
    if (st)
        rc = ec_sqlite_end(st, code, rc, REQUESTS_DOING, err);
    ea_mutex_unlock(r->lock);
    return rc;
}

/* ---- agents' ---- */

static int put_report(ec_requests *r, const char *agent, const ea_report *p, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = requests_prepare(r, PUT_REPORT, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)p->serial);
    sqlite3_bind_text(st, 2, agent, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, p->state);
    sqlite3_bind_int64(st, 4, p->utc_ns);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)p->batches);
    sqlite3_bind_int64(st, 6, (sqlite3_int64)p->events);
    sqlite3_bind_int64(st, 7, (sqlite3_int64)p->bytes);
    sqlite3_bind_text(st, 8, p->text, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 9, EC_REQUEST_REPORTS_MAX);
    return ec_sqlite_run(st, REQUESTS_DOING, err);
}

static int put_reports(ec_requests *r, const char *agent, const ea_report *reports, size_t count, ea_err *err) {
    int rc = count ? ec_sqlite_exec(r->db, "BEGIN IMMEDIATE", REQUESTS_DOING, err) : 0;
    for (size_t i = 0; !rc && i < count; i++)
        rc = put_report(r, agent, &reports[i], err);
    if (!rc && count)
        rc = ec_sqlite_exec(r->db, "COMMIT", REQUESTS_DOING, err);
    requests_undo(r);
    return rc;
}

static int put_offer(ec_requests *r, const char *agent, uint64_t serial, int64_t now_utc_ns, ea_text *out,
                     ea_err *err) {
    sqlite3_stmt *st = NULL;
    size_t offered = 0;
    int code = SQLITE_DONE, rc = requests_prepare(r, OFFER, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, serial > INT64_MAX ? INT64_MAX : (sqlite3_int64)serial);
    sqlite3_bind_int64(st, 2, now_utc_ns);
    sqlite3_bind_text(st, 3, agent, -1, SQLITE_STATIC);
    while (offered < EA_OFFER_MAX_REQUESTS && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *hosts = (const char *)sqlite3_column_text(st, 0);
        const uint8_t *bytes = sqlite3_column_blob(st, 1);
        if (!hosts || !bytes || !ea_name_in(hosts, agent))
            continue;
        ea_offer_add(out, bytes, (size_t)sqlite3_column_bytes(st, 1));
        offered++;
    }
    if (code == SQLITE_ROW)
        code = SQLITE_DONE; /* the rest comes with the next poll */
    return ec_sqlite_end(st, code, out->failed ? ea_fail(err, EA_ENOMEM, "%s", REQUESTS_DOING) : 0, REQUESTS_DOING,
                         err);
}

int ec_requests_poll(ec_requests *r, const char *agent, const uint8_t *data, size_t len_bytes, int64_t now_utc_ns,
                     ea_text *out, ea_err *err) {
    size_t count = 0;
    uint64_t serial = 0;
    ea_report *reports = calloc(EA_POLL_MAX_REPORTS, sizeof *reports);
    int rc = reports ? ea_poll_decode(&serial, reports, &count, data, len_bytes, err)
                     : ea_fail(err, EA_ENOMEM, "%s", REQUESTS_DOING);
    ea_mutex_lock(r->lock);
    int is_there = rc ? 0 : requests_connect(r, 0, err);
    if (is_there < 0)
        rc = is_there;
    if (!rc && is_there)
        rc = put_reports(r, agent, reports, count, err);
    if (!rc && is_there)
        rc = put_offer(r, agent, serial, now_utc_ns, out, err);
    ea_mutex_unlock(r->lock);
    free(reports);
    return rc;
}

int ec_requests_read(sqlite3 **ret, const char *dir, ea_err *err) {
    char path[REQUESTS_PATH_BYTES];
    sqlite3 *db = NULL;
    if (snprintf(path, sizeof path, "%s/requests.db", dir) >= (int)sizeof path)
        return ea_fail(err, EA_EUSAGE, "the path of the store is too long");
    int is_there = ea_path_exists(path), rc = 0;
    if (sqlite3_open_v2(is_there ? path : ":memory:", &db,
                        SQLITE_OPEN_NOMUTEX | (is_there ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE),
                        NULL) != SQLITE_OK)
        rc = db ? ec_fail_sqlite(err, db, "read the requests") : ea_fail(err, EA_ENOMEM, "read the requests");
    if (!rc)
        sqlite3_busy_timeout(db, REQUESTS_READ_BUSY_MS);
    if (!rc && !is_there)
        rc = ec_sqlite_exec(db, REQUESTS_SCHEMA, "read the requests", err);
    if (rc) {
        sqlite3_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void ec_request_describe(const ea_request *q, ea_text *t) {
    ea_text_str(t, "hosts ");
    ea_text_safe(t, q->hosts, strlen(q->hosts));
    ea_text_str(t, ", window ");
    ea_text_utc_ns(t, q->from_utc_ns);
    ea_text_str(t, " to ");
    ea_text_utc_ns(t, q->to_utc_ns);
    ea_text_printf(t, ", at most %" PRIu64 " bytes of each recorder, expires ", q->limit_bytes);
    ea_text_utc_ns(t, q->expires_utc_ns);
}

const char *ec_request_state(uint32_t reported, int is_withdrawn, int is_expired) {
    static const char *const NAMES[] = {NULL, "accepted", "refused", "sent", "expired"};
    if (reported && reported < sizeof NAMES / sizeof *NAMES)
        return NAMES[reported];
    return is_withdrawn ? "withdrawn" : is_expired ? "expired" : "waiting";
}

int ec_requests_forget(const char *dir, const char *host, ea_err *err) {
    ec_requests *r = NULL;
    sqlite3_stmt *st = NULL;
    int rc = ec_requests_open(&r, dir, err);
    if (rc)
        return rc;
    int is_there = requests_connect(r, 0, err);
    if (is_there < 0)
        rc = is_there;
    if (!rc && is_there)
        rc = requests_prepare(r, FORGET, &st, err);
    if (!rc && is_there) {
        sqlite3_bind_text(st, 1, host, -1, SQLITE_STATIC);
        rc = ec_sqlite_run(st, REQUESTS_DOING, err);
    }
    if (!rc && is_there)
        rc = ec_sqlite_exec(r->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", REQUESTS_DOING, err);
    ec_requests_close(r);
    return rc;
}
