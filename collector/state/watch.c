/* See watch.h. */
#include "collector/state/watch.h"

#include "collector/state/incidents.h"
#include "collector/state/ledger_report.h"
#include "collector/state/state_db.h"
#include "collector/store/store.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LEDGERS_MAX = 1000, REPORTS_MAX = 256 };

static const int64_t S_NS = INT64_C(1000000000), LOOK_NS = 10 * INT64_C(1000000000);
static const int64_t GONE_NS = 7 * 86400 * INT64_C(1000000000);

/* A report of another part of the collector. */
typedef struct reported {
    char host[65], kind[32], text[400];
    int64_t begin_utc_ns, until_ns; /* monotonic */
} reported;

struct ec_watch {
    ec_watch_options options;
    char *dir;
    ec_incidents *alarms;             /* the thread's */
    int64_t begin_utc_ns;             /* of the watch, or when the clock was set */
    int64_t looked_utc_ns, looked_ns; /* the last time; monotonic */
    char said[600];                   /* the last error that was reported */
    ea_thread *thread;
    ea_mutex *mutex;
    ea_cond *changed;
    /* guarded by the mutex */
    int quit;
    reported reports[REPORTS_MAX];
    size_t report_count;
};

static void send_note(const ec_watch *w, const char *text) {
    if (w->options.on_note)
        w->options.on_note(w->options.arg, text);
}

/* rc of ec_incidents_holds or ec_incidents_held: reports a new alarm. 0 or an error. */
static int report_alarm(const ec_watch *w, int rc, const ec_alarm *alarm) {
    char line[700];
    if (rc != 1)
        return rc;
    snprintf(line, sizeof line, "incident: %s: %.400s", alarm->host, alarm->text);
    send_note(w, line);
    return 0;
}

/* ---- hosts ---- */

static int look_at_hosts(ec_watch *w, int64_t now_ns, ea_err *err) {
    ec_store *store = NULL;
    ec_state_db *t = NULL;
    ec_ends *ends = NULL;
    sqlite3_stmt *st = NULL;
    int code = SQLITE_DONE, rc = ec_store_open(&store, w->dir, &(ec_store_options){0}, err);
    if (rc)
        return rc;
    sqlite3 *db = ec_store_database(store);
    rc = ec_state_db_open(&t, w->dir, 0, err);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        rc = 0; /* the tables do not exist yet: no end is known */
    else if (!rc)
        rc = ec_ends_open(&ends, t, db, err);
    if (!rc && sqlite3_prepare_v2(db, "SELECT agent, max(received_last_utc_ns) AS last FROM streams GROUP BY agent", -1,
                                  &st, NULL) != SQLITE_OK)
        rc = ec_fail_sqlite(err, db, "read the streams");
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *host = (const char *)sqlite3_column_text(st, 0);
        int64_t last = sqlite3_column_int64(st, 1), age = now_ns - last;
        int64_t ended_ns;
        char text[160];
        if (!host || age <= w->options.silent_ns || age > GONE_NS)
            continue;
        int ended = ends ? ec_ends_of(ends, host, &ended_ns, err) : 0;
        if (ended) { /* it ended in order, or reading failed */
            rc = ended < 0 ? ended : 0;
            continue;
        }
        snprintf(text, sizeof text, "nothing has come for %" PRId64 " s", age / S_NS);
        ec_alarm alarm = {.host = host,
                          .stream = "",
                          .kind = "silent",
                          .family = "",
                          .begin_utc_ns = last,
                          .left = (uint64_t)(age / S_NS),
                          .right = (uint64_t)(w->options.silent_ns / S_NS),
                          .text = text};
        /* while this collector was away it could receive nothing: agents get their time first */
        rc = report_alarm(
            w, ec_incidents_holds(w->alarms, &alarm, now_ns - w->begin_utc_ns <= w->options.silent_ns, err), &alarm);
    }
    if (!rc && code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, db, "read the streams");
    sqlite3_finalize(st);
    ec_ends_close(ends);
    ec_state_db_close(t);
    ec_store_close(store);
    return rc;
}

/* ---- ledgers ---- */

/* The last numbers of a stream, of one family or of the whole. */
typedef struct numbers {
    const char *family;
    uint64_t values[EA_COUNTER_COUNT], whole[EA_COUNTER_COUNT];
} numbers;

static int watch_take_value(const char *family, uint32_t counter, uint64_t value, void *arg) {
    numbers *n = arg;
    enum ea_counter c = ea_counter_of_number(counter);
    if (c == EA_COUNTER_COUNT)
        return 0;
    if (!*family)
        n->whole[c] = value;
    if (strcmp(family, n->family) == 0)
        n->values[c] = value;
    return 0;
}

/* Whether the equation of an alert does not hold in the stream's last numbers, and these: 1, 0, or an error. */
static int is_unbalanced(ec_state_db *t, int64_t stream_number, uint64_t stored, enum ec_alert_kind kind,
                         const char *family, uint64_t *ret_left, uint64_t *ret_right, ea_err *err) {
    numbers n = {.family = family};
    uint64_t elsewhere = 0, left = 0, right = 0;
    if (kind > EC_ALERT_STORED)
        return 0; /* of a moment */
    int rc = ec_ledger_each_last(t, stream_number, INT64_MAX, watch_take_value, &n, err);
    if (rc)
        return rc;
    if (kind == EC_ALERT_STORED) {
        rc = ec_ledger_elsewhere(t, stream_number, INT64_MAX, n.whole, &elsewhere, err);
        if (rc || ec_ledger_is_stored(stored, elsewhere, n.whole) != EC_FAILS)
            return rc;
        *ret_left = stored;
        *ret_right = n.whole[EA_COUNT_events_acknowledged];
        return 1;
    }
    ec_ledger_sides(kind, n.values, &left, &right);
    if (left == right)
        return 0;
    *ret_left = left;
    *ret_right = right;
    return 1;
}

/* The newest alert of a stream's equation: it holds still, or it held. */
static int look_at_alert(ec_watch *w, ec_state_db *t, sqlite3_stmt *st, int64_t now_ns, ea_err *err) {
    uint32_t kind = (uint32_t)sqlite3_column_int64(st, 5);
    const char *host = (const char *)sqlite3_column_text(st, 1), *stream = (const char *)sqlite3_column_text(st, 2),
               *family = (const char *)sqlite3_column_text(st, 4), *text = (const char *)sqlite3_column_text(st, 9);
    ec_alarm alarm = {.host = host ? host : "",
                      .stream = stream ? stream : "",
                      .kind = ec_alert_name(kind),
                      .family = family ? family : "",
                      .begin_utc_ns = sqlite3_column_int64(st, 6),
                      .left = (uint64_t)sqlite3_column_int64(st, 7),
                      .right = (uint64_t)sqlite3_column_int64(st, 8),
                      .text = text ? text : ""};
    int rc = is_unbalanced(t, sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 3),
                           (enum ec_alert_kind)kind, alarm.family, &alarm.left, &alarm.right, err);
    if (rc < 0)
        return rc;
    if (rc)
        return report_alarm(w, ec_incidents_holds(w->alarms, &alarm, 0, err), &alarm);
    return report_alarm(
        w, ec_incidents_held(w->alarms, &alarm, kind > EC_ALERT_STORED ? alarm.begin_utc_ns : now_ns, err), &alarm);
}

static int look_at_ledgers(ec_watch *w, int64_t now_ns, ea_err *err) {
    static const char SQL[] =
        "SELECT s.stream, s.host, lower(hex(s.id)), s.event_count, a.family, a.kind, a.utc_ns, a.left_count,"
        " a.right_count, a.text, max(a.number) FROM alerts a JOIN streams s ON s.stream = a.stream WHERE a.kind <= ?1"
        " GROUP BY a.stream, a.kind, a.family LIMIT ?2";
    ec_state_db *t = NULL;
    sqlite3_stmt *st = NULL;
    int code = SQLITE_DONE, rc = ec_state_db_open(&t, w->dir, 0, err);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        return 0; /* the tables are not made yet */
    sqlite3 *db = rc ? NULL : ec_state_db_database(t);
    if (!rc && (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK ||
                sqlite3_prepare_v2(db, SQL, -1, &st, NULL) != SQLITE_OK))
        rc = ec_fail_sqlite(err, db, "read the alerts");
    if (!rc) {
        sqlite3_bind_int(st, 1, EC_ALERT_UNREADABLE);
        sqlite3_bind_int(st, 2, LEDGERS_MAX);
    }
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW)
        rc = look_at_alert(w, t, st, now_ns, err);
    if (!rc && code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, db, "read the alerts");
    sqlite3_finalize(st);
    ec_state_db_close(t);
    return rc;
}

/* ---- reports ---- */

void ec_watch_raise(ec_watch *w, const ec_watch_report *report) {
    reported *r = NULL;
    ea_mutex_lock(w->mutex);
    for (size_t i = 0; i < w->report_count && !r; i++)
        if (strcmp(w->reports[i].host, report->host) == 0 && strcmp(w->reports[i].kind, report->kind) == 0)
            r = &w->reports[i];
    if (!r && w->report_count < REPORTS_MAX) {
        r = &w->reports[w->report_count++];
        snprintf(r->host, sizeof r->host, "%s", report->host);
        snprintf(r->kind, sizeof r->kind, "%s", report->kind);
        r->begin_utc_ns = ea_utc_ns();
    }
    if (r) {
        snprintf(r->text, sizeof r->text, "%s", report->text);
        r->until_ns = ea_monotonic_ns() + report->lasts_ns;
    } else {
        ea_count(w->options.counters, EA_COUNT_incidents_dropped, 1);
    }
    ea_mutex_unlock(w->mutex);
}

/* The report at a place that still lasts, copied; those that are over are removed. 0: there is none. */
static int take_report(ec_watch *w, size_t at, reported *ret) {
    int64_t now_ns = ea_monotonic_ns();
    ea_mutex_lock(w->mutex);
    while (at < w->report_count && w->reports[at].until_ns < now_ns)
        w->reports[at] = w->reports[--w->report_count];
    int found = at < w->report_count;
    if (found)
        *ret = w->reports[at];
    ea_mutex_unlock(w->mutex);
    return found;
}

static int look_at_reports(ec_watch *w, ea_err *err) {
    reported r;
    int rc = 0;
    for (size_t i = 0; !rc && take_report(w, i, &r); i++) {
        ec_alarm alarm = {
            .host = r.host, .stream = "", .kind = r.kind, .family = "", .begin_utc_ns = r.begin_utc_ns, .text = r.text};
        rc = report_alarm(w, ec_incidents_holds(w->alarms, &alarm, 0, err), &alarm);
    }
    return rc;
}

/* ---- quotas ---- */

static int look_at_quotas(ec_watch *w, int64_t now_ns, ea_err *err) {
    ec_quota_use *uses = NULL;
    size_t count = 0;
    int rc = ec_quota_list(w->options.quota, ea_monotonic_ns(), &uses, &count, err);
    if (!rc)
        rc = ec_incidents_put_uses(w->alarms, uses, count, now_ns, err);
    for (size_t i = 0; !rc && i < count; i++)
        for (int k = 0; !rc && k < EC_QUOTA_COUNT; k++) {
            const ec_quota_info *row = ec_quota_row((enum ec_quota_resource)k);
            char text[500];
            if (!uses[i].of[k].above_since_utc_ns)
                continue;
            snprintf(text, sizeof text, "%s %.255s is above its quota of %s (%" PRIu64 " %s%s): %" PRIu64 " refused",
                     ec_quota_who_name(uses[i].who), uses[i].name, row->name, uses[i].of[k].limit, row->unit,
                     row->is_held            ? " at a time"
                     : row->period_s == 1    ? " a second"
                     : row->period_s == 3600 ? " an hour"
                                             : " a day",
                     uses[i].of[k].refused);
            ec_alarm alarm = {.host = uses[i].who == EC_QUOTA_AGENT ? uses[i].name : "",
                              .stream = "",
                              .kind = "quota",
                              .family = row->name,
                              .begin_utc_ns = uses[i].of[k].above_since_utc_ns,
                              .left = uses[i].of[k].refused,
                              .right = uses[i].of[k].limit,
                              .text = text};
            rc = report_alarm(w, ec_incidents_holds(w->alarms, &alarm, 0, err), &alarm);
        }
    free(uses);
    return rc;
}

/* ---- the thread ---- */

static void watch_look(ec_watch *w) {
    ea_err err = {0};
    int64_t now_ns = ea_utc_ns(), ran_ns = ea_monotonic_ns();
    int64_t set_by_ns = (now_ns - w->looked_utc_ns) - (ran_ns - w->looked_ns);
    uint64_t ended = 0;
    char line[80];
    /* a step of the clock makes no agent silent: agents get their time first */
    if (set_by_ns > LOOK_NS || set_by_ns < -LOOK_NS)
        w->begin_utc_ns = now_ns;
    w->looked_utc_ns = now_ns;
    w->looked_ns = ran_ns;
    int rc = ec_incidents_begin(w->alarms, &err);
    if (!rc)
        rc = look_at_hosts(w, now_ns, &err);
    if (!rc)
        rc = look_at_ledgers(w, now_ns, &err);
    if (!rc)
        rc = look_at_reports(w, &err);
    if (!rc)
        rc = look_at_quotas(w, now_ns, &err);
    if (!rc)
        rc = ec_incidents_end(w->alarms, now_ns, &ended, &err);
    if (rc) {
        ec_incidents_undo(w->alarms);
        if (strcmp(w->said, err.message) != 0)
            send_note(w, err.message);
    }
    snprintf(w->said, sizeof w->said, "%s", rc ? err.message : "");
    if (ended) {
        snprintf(line, sizeof line, "incident: %" PRIu64 " are over", ended);
        send_note(w, line);
    }
}

static void watch_thread(void *arg) {
    ec_watch *w = arg;
    int64_t every = w->options.silent_ns / 4 < LOOK_NS ? w->options.silent_ns / 4 : LOOK_NS;
    ea_mutex_lock(w->mutex);
    while (!w->quit) {
        (void)ea_cond_wait_for(w->changed, w->mutex, every);
        if (w->quit)
            break;
        ea_mutex_unlock(w->mutex);
        watch_look(w);
        ea_mutex_lock(w->mutex);
    }
    ea_mutex_unlock(w->mutex);
}

int ec_watch_start(ec_watch **ret, const char *dir, const ec_watch_options *options, ea_err *err) {
    ec_watch *w = calloc(1, sizeof *w);
    if (!w || !(w->dir = strdup(dir))) {
        free(w);
        return ea_fail(err, EA_ENOMEM, "watch the hosts");
    }
    w->options = *options;
    w->begin_utc_ns = w->looked_utc_ns = ea_utc_ns();
    w->looked_ns = ea_monotonic_ns();
    int rc = ec_incidents_open(&w->alarms, dir, 1, err);
    if (!rc)
        rc = ea_mutex_create(&w->mutex, err);
    if (!rc)
        rc = ea_cond_create(&w->changed, err);
    if (!rc)
        rc = ea_thread_start(&w->thread, "watch", watch_thread, w, err);
    if (rc) {
        ec_watch_stop(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_watch_stop(ec_watch *w) {
    if (!w)
        return;
    if (w->thread) {
        ea_mutex_lock(w->mutex);
        w->quit = 1;
        ea_cond_broadcast(w->changed);
        ea_mutex_unlock(w->mutex);
        ea_thread_join(w->thread);
    }
    ea_cond_destroy(w->changed);
    ea_mutex_destroy(w->mutex);
    ec_incidents_close(w->alarms);
    free(w->dir);
    free(w);
}
