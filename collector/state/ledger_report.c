/* The ledgers' time series and their check. See ledger_report.h. */
#include "collector/state/ledger_report.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MAX = 2048,    /* counters of all families of one stream; what is beyond is left out, with an alert */
    FAMILY_MAX_BYTES = 64, /* longer names are cut */
    FAMILIES_MAX = 128,    /* whose equations are checked; further ones are kept unchecked */
    ALERTS_MAX = 10000,    /* rows a stream; those before stay */
    EQUATION_COUNT = 3,
};

typedef struct entry {
    char family[FAMILY_MAX_BYTES];
    uint32_t counter; /* on the wire */
    uint64_t value;
} entry;

/* The two equations of one family; the session's own is "". */
typedef struct family_state {
    char name[FAMILY_MAX_BYTES];
    int64_t off_by[2];
    int has_counts; /* the batch at hand had counts of it */
} family_state;

/* A batch without events has the time of the last event before it. */
static const char PUT_BATCH_SQL[] =
    "INSERT OR REPLACE INTO ledger_batches SELECT ?1, ?2, ?3, ?4, coalesce(?5, t, 0), coalesce(?6, t, 0), ?7 FROM"
    " (SELECT (SELECT end_utc_ns FROM ledger_batches WHERE stream = ?1 AND number < ?2 ORDER BY number DESC LIMIT 1)"
    " AS t)";

/* Not OR REPLACE, which would remove a row without its trigger (alert_sums). */
static const char PUT_ALERT_SQL[] =
    "INSERT INTO alerts VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(stream, number, family, kind)"
    " DO UPDATE SET utc_ns = excluded.utc_ns, left_count = excluded.left_count,"
    " right_count = excluded.right_count, text = excluded.text";

enum statement { PUT_BATCH, PUT_COUNT, PUT_ALERT, LAST_BATCH, LAST_COUNTS, COUNT_ALERTS, STATEMENT_COUNT };

static const char *const SQL[STATEMENT_COUNT] = {
    [PUT_BATCH] = PUT_BATCH_SQL,
    [PUT_COUNT] = "INSERT OR REPLACE INTO ledger_counts VALUES(?1, ?2, ?3, ?4, ?5)",
    [PUT_ALERT] = PUT_ALERT_SQL,
    [LAST_BATCH] =
        "SELECT number, incarnation, end_utc_ns FROM ledger_batches WHERE stream = ?1 ORDER BY number DESC LIMIT 1",
    [LAST_COUNTS] = "SELECT family, counter, value, max(number) FROM ledger_counts WHERE stream = ?1 GROUP BY 1, 2",
    [COUNT_ALERTS] = "SELECT count(*) FROM alerts WHERE stream = ?1",
};

struct ec_ledger {
    ec_state_db *tables;
    sqlite3 *db;
    int64_t stream_number;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
    entry *entries;
    size_t count, capacity;
    int has_batch;
    uint64_t incarnation;
    uint64_t events_since; /* in batches and tombstones after the last ledger */
    int64_t off_by[EQUATION_COUNT];
    family_state families[FAMILIES_MAX];
    size_t family_count;
    uint64_t alert_count;
    ec_gaps *gaps;
    int64_t last_end_utc_ns; /* of the last batch with a ledger; INT64_MIN: there is none */
    /* the batch at hand */
    const ec_batch_row *row;
    const ec_state_fold *fold;
    int64_t utc_ns;
    uint64_t now_incarnation;
    int any;
    ea_err *err;
    void (*on_alert)(void *arg, const char *text);
    void *on_alert_arg;
};

const char *ec_alert_name(uint32_t kind) {
    static const char *const NAMES[] = {"other",     "delivered",  "batched", "stored",
                                        "backwards", "unreadable", "keyframe"};
    return NAMES[kind < sizeof NAMES / sizeof *NAMES ? kind : 0];
}

static uint64_t ledger_report_sum(const uint64_t *values, const enum ea_counter *which, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += values[which[i]];
    return total;
}

#define SUM(values, ...)                                                                                               \
    ledger_report_sum(values, (const enum ea_counter[]){__VA_ARGS__},                                                  \
                      sizeof((enum ea_counter[]){__VA_ARGS__}) / sizeof(enum ea_counter))

void ec_ledger_sides(enum ec_alert_kind which, const uint64_t *values, uint64_t *ret_left, uint64_t *ret_right) {
    if (which == EC_ALERT_DELIVERED) {
        *ret_left = values[EA_COUNT_events_delivered];
        *ret_right =
            SUM(values, EA_COUNT_events_batched, EA_COUNT_events_dropped_full, EA_COUNT_events_dropped_oversize,
                EA_COUNT_events_filtered, EA_COUNT_events_sampled_out, EA_COUNT_events_limited,
                EA_COUNT_events_repeated, EA_COUNT_events_aggregated, EA_COUNT_events_pending);
    } else {
        *ret_left = SUM(values, EA_COUNT_events_batched, EA_COUNT_events_synthesised);
        *ret_right = SUM(values, EA_COUNT_events_compressing, EA_COUNT_events_spooled, EA_COUNT_events_unanswered,
                         EA_COUNT_events_acknowledged, EA_COUNT_events_evicted_size, EA_COUNT_events_evicted_age,
                         EA_COUNT_events_evicted_damage, EA_COUNT_events_evicted_refused, EA_COUNT_events_recorded,
                         EA_COUNT_events_removed_size, EA_COUNT_events_removed_age, EA_COUNT_events_unrecorded);
    }
}

/* ---- the tables ---- */

static int ledger_report_prepare(ec_ledger *l, enum statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(l->db, &l->prepared[which], SQL[which], NULL, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(l->prepared[which], 1, l->stream_number);
    *ret = l->prepared[which];
    return 0;
}

/* The entry of a counter, made with 0 when it is new; NULL: no room (*ret_rc 0) or no memory. */
static entry *ledger_report_entry_of(ec_ledger *l, const char *family, uint32_t counter, int *ret_rc) {
    *ret_rc = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->entries[i].counter == counter && strncmp(l->entries[i].family, family, FAMILY_MAX_BYTES - 1) == 0)
            return &l->entries[i];
    if (l->count == ENTRIES_MAX)
        return NULL;
    if (EA_GROW(l->entries, l->capacity, l->count + 1, ENTRIES_MAX)) {
        *ret_rc = EA_ENOMEM;
        return NULL;
    }
    entry *e = &l->entries[l->count++];
    *e = (entry){.counter = counter};
    snprintf(e->family, sizeof e->family, "%s", family);
    return e;
}

static void values_of(const ec_ledger *l, const char *family, uint64_t *ret) {
    memset(ret, 0, EA_COUNTER_COUNT * sizeof *ret);
    for (size_t i = 0; i < l->count; i++) {
        enum ea_counter c = ea_counter_of_number(l->entries[i].counter);
        if (c != EA_COUNTER_COUNT && strcmp(l->entries[i].family, family) == 0)
            ret[c] = l->entries[i].value;
    }
}

/* The state of a family, made when it is new; NULL: the session's own, or no room. */
static family_state *ledger_report_family_of(ec_ledger *l, const char *name) {
    if (!*name)
        return NULL;
    for (size_t i = 0; i < l->family_count; i++)
        if (strncmp(l->families[i].name, name, FAMILY_MAX_BYTES - 1) == 0)
            return &l->families[i];
    if (l->family_count == FAMILIES_MAX)
        return NULL;
    family_state *f = &l->families[l->family_count++];
    *f = (family_state){.has_counts = 0};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

static int read_back(ec_ledger *l, const ec_state_fold *fold, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = ledger_report_prepare(l, COUNT_ALERTS, &s, err), code;
    if (rc)
        return rc;
    if (sqlite3_step(s) == SQLITE_ROW)
        l->alert_count = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    if ((rc = ledger_report_prepare(l, LAST_BATCH, &s, err)) != 0)
        return rc;
    if (sqlite3_step(s) == SQLITE_ROW) {
        /* Batches after the last ledger, if there are any, are unknown now: then a hole holds an unknown number of
         * events. */
        l->has_batch = (uint64_t)sqlite3_column_int64(s, 0) == fold->position;
        l->incarnation = (uint64_t)sqlite3_column_int64(s, 1);
        l->last_end_utc_ns = sqlite3_column_int64(s, 2);
    }
    sqlite3_reset(s);
    if ((rc = ledger_report_prepare(l, LAST_COUNTS, &s, err)) != 0)
        return rc;
    while ((code = sqlite3_step(s)) == SQLITE_ROW && !rc) {
        const unsigned char *family = sqlite3_column_text(s, 0);
        entry *e =
            ledger_report_entry_of(l, family ? (const char *)family : "", (uint32_t)sqlite3_column_int64(s, 1), &rc);
        if (e)
            e->value = (uint64_t)sqlite3_column_int64(s, 2);
    }
    if (!rc && code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, l->db, "read a ledger back");
    sqlite3_reset(s);
    if (rc)
        return rc == EA_ENOMEM ? ea_fail(err, rc, "read a ledger back") : rc;
    uint64_t values[EA_COUNTER_COUNT], left, right;
    values_of(l, "", values);
    for (int k = EC_ALERT_DELIVERED; k <= EC_ALERT_BATCHED; k++) {
        ec_ledger_sides((enum ec_alert_kind)k, values, &left, &right);
        l->off_by[k - 1] = (int64_t)(left - right);
    }
    for (size_t i = 0; i < l->count; i++)
        ledger_report_family_of(l, l->entries[i].family);
    for (size_t f = 0; f < l->family_count; f++) {
        values_of(l, l->families[f].name, values);
        for (int k = EC_ALERT_DELIVERED; k <= EC_ALERT_BATCHED; k++) {
            ec_ledger_sides((enum ec_alert_kind)k, values, &left, &right);
            l->families[f].off_by[k - 1] = (int64_t)(left - right);
        }
    }
    return 0;
}

int ec_ledger_open(ec_ledger **ret, ec_state_db *t, const ec_state_fold *fold, ea_err *err) {
    ec_ledger *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "open a ledger");
    l->tables = t;
    l->db = ec_state_db_database(t);
    l->stream_number = fold->stream_number;
    l->last_end_utc_ns = INT64_MIN;
    int rc = read_back(l, fold, err);
    if (!rc)
        rc = ec_gaps_open(&l->gaps, t, fold, err);
    if (rc) {
        ec_ledger_close(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void ec_ledger_close(ec_ledger *l) {
    if (!l)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(l->prepared[i]);
    ec_gaps_close(l->gaps);
    free(l->entries);
    free(l);
}

int ec_ledger_has_numbers(const ec_ledger *l) {
    return l->last_end_utc_ns != INT64_MIN;
}

int ec_ledger_alert(ec_ledger *l, uint64_t number, const char *family, enum ec_alert_kind kind, int64_t utc_ns,
                    uint64_t left, uint64_t right, const char *text, ea_err *err) {
    sqlite3_stmt *s = NULL;
    if (l->alert_count >= ALERTS_MAX)
        return 0;
    int rc = ledger_report_prepare(l, PUT_ALERT, &s, err);
    if (rc)
        return rc;
    l->alert_count++;
    sqlite3_bind_int64(s, 2, (int64_t)number);
    sqlite3_bind_text(s, 3, family, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 4, kind);
    sqlite3_bind_int64(s, 5, utc_ns);
    sqlite3_bind_int64(s, 6, (int64_t)left);
    sqlite3_bind_int64(s, 7, (int64_t)right);
    sqlite3_bind_text(s, 8, text, -1, SQLITE_STATIC);
    return ec_sqlite_run(s, "keep a ledger", err);
}

static int raise_alert(ec_ledger *l, const char *family, enum ec_alert_kind kind, uint64_t left, uint64_t right,
                       const char *format, ...) EA_PRINTF(6, 7);

static int raise_alert(ec_ledger *l, const char *family, enum ec_alert_kind kind, uint64_t left, uint64_t right,
                       const char *format, ...) {
    char text[256], line[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (l->on_alert) {
        snprintf(line, sizeof line, "%s: batch %" PRIu64 ": %s", l->fold->host, l->row->number, text);
        l->on_alert(l->on_alert_arg, line);
    }
    return ec_ledger_alert(l, l->row->number, family, kind, l->utc_ns, left, right, text, l->err);
}

/* ---- one batch ---- */

static int ledger_report_take_count(const ea_ledger_count *n, void *arg) {
    ec_ledger *l = arg;
    int rc;
    l->any = 1;
    l->utc_ns = n->utc_ns;
    l->now_incarnation = n->incarnation;
    family_state *f = ledger_report_family_of(l, n->family);
    if (f)
        f->has_counts = 1;
    entry *e = ledger_report_entry_of(l, n->family, n->counter, &rc);
    if (!e)
        return rc ? ea_fail(l->err, rc, "keep a ledger")
                  : raise_alert(l, "", EC_ALERT_UNREADABLE, 0, 0, "the ledger has more than %d counters", ENTRIES_MAX);
    enum ea_counter c = ea_counter_of_number(n->counter);
    if (n->value == e->value)
        return 0;
    if (n->value < e->value && n->incarnation == l->incarnation && c != EA_COUNTER_COUNT &&
        ea_counter_row(c)->type == EA_COUNTER) {
        rc = raise_alert(l, e->family, EC_ALERT_BACKWARDS, e->value, n->value,
                         "%s went back from %" PRIu64 " to %" PRIu64, ea_counter_row(c)->name, e->value, n->value);
        if (rc)
            return rc;
    }
    e->value = n->value;
    sqlite3_stmt *s = NULL;
    rc = ledger_report_prepare(l, PUT_COUNT, &s, l->err);
    if (rc)
        return rc;
    sqlite3_bind_text(s, 2, e->family, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, n->counter);
    sqlite3_bind_int64(s, 4, (int64_t)l->row->number);
    sqlite3_bind_int64(s, 5, (int64_t)n->value);
    return ec_sqlite_run(s, "keep a ledger", l->err);
}

/* Counters that are 0 do not travel: a level that was not named has fallen to 0, and so has all of a new incarnation. A
 * family travels only when its numbers changed: one that was not named has those of before. */
typedef struct named {
    uint8_t seen[ENTRIES_MAX];
    ec_ledger *ledger;
} named;

static int mark_named(const ea_ledger_count *n, void *arg) {
    named *m = arg;
    for (size_t i = 0; i < m->ledger->count; i++)
        if (m->ledger->entries[i].counter == n->counter &&
            strncmp(m->ledger->entries[i].family, n->family, FAMILY_MAX_BYTES - 1) == 0)
            m->seen[i] = 1;
    return 0;
}

static int take_zeros(ec_ledger *l, const uint8_t *batch, size_t len_bytes) {
    named m = {.ledger = l};
    int rc = ea_batch_each_count(batch, len_bytes, mark_named, &m, l->err);
    for (size_t i = 0; i < l->count && !rc; i++) {
        const family_state *f = ledger_report_family_of(l, l->entries[i].family);
        int is_reported = !*l->entries[i].family || (f && f->has_counts) || l->now_incarnation != l->incarnation;
        if (is_reported && !m.seen[i] && l->entries[i].value) {
            ea_ledger_count zero = {.counter = l->entries[i].counter,
                                    .family = l->entries[i].family,
                                    .incarnation = l->now_incarnation,
                                    .utc_ns = l->utc_ns};
            rc = ledger_report_take_count(&zero, l);
        }
    }
    return rc;
}

static int ledger_report_check(ec_ledger *l) {
    static const char *const LEFT[EQUATION_COUNT] = {"events were delivered", "events went into batches or were made",
                                                     "events are stored"};
    static const char *const RIGHT[EQUATION_COUNT] = {"are accounted for", "are accounted for",
                                                      "are acknowledged by the agent's count"};
    uint64_t values[EA_COUNTER_COUNT], left[EQUATION_COUNT], right[EQUATION_COUNT], elsewhere = 0;
    values_of(l, "", values);
    ec_ledger_sides(EC_ALERT_DELIVERED, values, &left[0], &right[0]);
    ec_ledger_sides(EC_ALERT_BATCHED, values, &left[1], &right[1]);
    left[2] = l->fold->event_count;
    right[2] = values[EA_COUNT_events_acknowledged];
    if (left[2] < right[2]) {
        int rc = ec_ledger_elsewhere(l->tables, l->stream_number, (int64_t)l->row->number, values, &elsewhere, l->err);
        if (rc)
            return rc;
    }
    for (int k = 0; k < EQUATION_COUNT; k++) {
        int64_t off = (int64_t)(left[k] - right[k]);
        int wrong = k == 2 ? ec_ledger_is_stored(left[k], elsewhere, values) == EC_FAILS : off != 0;
        /* The third's difference moves with every acknowledgement: what counts is that it is wrong. */
        int64_t known = k == 2 ? wrong : off;
        int is_new = wrong && known != l->off_by[k];
        l->off_by[k] = known;
        if (!is_new)
            continue;
        int rc = raise_alert(l, "", (enum ec_alert_kind)(EC_ALERT_DELIVERED + k), left[k], right[k],
                             "%" PRIu64 " %s, %" PRIu64 " %s", left[k], LEFT[k], right[k], RIGHT[k]);
        if (rc)
            return rc;
    }
    return 0;
}

/* Checks the equations of the families that had counts in the batch. */
static int check_families(ec_ledger *l) {
    static const char *const LEFT[] = {"events were delivered", "events went into batches or were made"};
    uint64_t values[EA_COUNTER_COUNT], left, right;
    int rc = 0;
    for (size_t i = 0; i < l->family_count && !rc; i++) {
        family_state *f = &l->families[i];
        if (!f->has_counts)
            continue;
        f->has_counts = 0;
        values_of(l, f->name, values);
        for (int k = 0; k < 2 && !rc; k++) {
            ec_ledger_sides((enum ec_alert_kind)(EC_ALERT_DELIVERED + k), values, &left, &right);
            int64_t off = (int64_t)(left - right);
            int is_new = off && off != f->off_by[k];
            f->off_by[k] = off;
            if (is_new)
                rc = raise_alert(l, f->name, (enum ec_alert_kind)(EC_ALERT_DELIVERED + k), left, right,
                                 "family %s: %" PRIu64 " %s, %" PRIu64 " are accounted for", f->name, left, LEFT[k],
                                 right);
        }
    }
    return rc;
}

static int take_tombstone(const ea_tombstone *t, void *arg) {
    ec_ledger *l = arg;
    l->events_since += t->event_count;
    return ec_gaps_tombstone(l->gaps, t, l->err);
}

static int put_batch(ec_ledger *l) {
    sqlite3_stmt *s = NULL;
    int rc = ledger_report_prepare(l, PUT_BATCH, &s, l->err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)l->row->number);
    sqlite3_bind_int64(s, 3, (int64_t)l->now_incarnation);
    sqlite3_bind_int64(s, 4, l->utc_ns);
    if (l->row->event_count) {
        sqlite3_bind_int64(s, 5, l->row->begin_utc_ns);
        sqlite3_bind_int64(s, 6, l->row->end_utc_ns);
    } else {
        sqlite3_bind_null(s, 5);
        sqlite3_bind_null(s, 6);
    }
    sqlite3_bind_int64(s, 7, (int64_t)l->fold->event_count);
    return ec_sqlite_run(s, "keep a ledger", l->err);
}

/* How many events a hole held: what went into batches since the last ledger, without what came. */
static int take_hole(ec_ledger *l, uint64_t made_before, int comparable, uint64_t missing_count) {
    uint64_t values[EA_COUNTER_COUNT], made, unused, *events = NULL, held = 0;
    values_of(l, "", values);
    ec_ledger_sides(EC_ALERT_BATCHED, values, &made, &unused);
    uint64_t came = l->events_since + l->row->event_count;
    if (values[EA_COUNT_stream_recorded]) /* its batches have numbers alone */
        events = &held;
    else if (l->any && comparable && made - made_before >= came && made >= made_before) {
        held = made - made_before - came;
        events = &held;
    }
    return ec_gaps_missing(l->gaps, missing_count, events, l->err);
}

/* What the ledger admits to have lost. */
static int ledger_report_take_losses(ec_ledger *l) {
    uint64_t values[EA_COUNTER_COUNT];
    int rc = 0;
    values_of(l, "", values);
    for (int c = 0; !rc && c < EA_COUNTER_COUNT; c++)
        if (ec_gap_is_counted((enum ea_counter)c))
            rc = ec_gaps_counted(l->gaps, (enum ea_counter)c, values[c], l->last_end_utc_ns, l->err);
    return rc;
}

int ec_ledger_take_lost(ec_ledger *l, const ec_lost_record *records, size_t count, ea_err *err) {
    return ec_gaps_recorded(l->gaps, records, count, err);
}

int ec_ledger_take(ec_ledger *l, const ec_state_fold *fold, const ec_batch_row *row, const uint8_t *batch,
                   size_t len_bytes, uint64_t missing_count, const ec_session_facts *facts,
                   void (*on_alert)(void *arg, const char *text), void *arg, ea_err *err) {
    uint64_t values[EA_COUNTER_COUNT], made_before, unused, incarnation_before = l->incarnation;
    values_of(l, "", values);
    ec_ledger_sides(EC_ALERT_BATCHED, values, &made_before, &unused);
    l->row = row;
    l->fold = fold;
    l->err = err;
    l->any = 0;
    l->utc_ns = row->end_utc_ns;
    l->on_alert = on_alert;
    l->on_alert_arg = arg;
    int rc = ec_gaps_begin(l->gaps, fold, row, facts, err);
    if (!rc)
        rc = ea_batch_each_tombstone(batch, len_bytes, take_tombstone, l, err);
    if (!rc)
        rc = ea_batch_each_count(batch, len_bytes, ledger_report_take_count, l, err);
    if (rc == EA_ECORRUPT || rc == EA_EFORMAT || rc == EA_ELIMIT)
        rc = raise_alert(l, "", EC_ALERT_UNREADABLE, 0, 0, "the ledger cannot be read");
    if (!rc && l->any)
        rc = take_zeros(l, batch, len_bytes);
    if (!rc && missing_count)
        rc =
            take_hole(l, made_before, fold->position == 0 || (l->has_batch && l->now_incarnation == incarnation_before),
                      missing_count);
    l->events_since += row->event_count;
    if (rc || !l->any)
        return rc;
    l->has_batch = 1;
    l->incarnation = l->now_incarnation;
    l->events_since = 0;
    rc = ledger_report_take_losses(l);
    if (row->event_count)
        l->last_end_utc_ns = row->end_utc_ns;
    if (!rc)
        rc = put_batch(l);
    if (!rc)
        rc = ledger_report_check(l);
    return rc ? rc : check_families(l);
}

/* ---- looking ---- */

int ec_ledger_elsewhere(ec_state_db *t, int64_t stream_number, int64_t number, const uint64_t *values, uint64_t *ret,
                        ea_err *err) {
    sqlite3 *db = ec_state_db_database(t);
    sqlite3_stmt *s = NULL;
    /* total(), since sum() fails beyond 64 bits, and these are an agent's words; the cast stops at INT64_MAX */
    if (sqlite3_prepare_v2(db,
                           "SELECT CAST(total(event_count) AS INTEGER), count(*) - count(event_count) FROM gaps"
                           " WHERE stream = ?1 AND cause = ?2 AND first <= ?3 AND (first = 1 OR ?4)",
                           -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read a ledger");
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, EC_GAP_MISSING);
    sqlite3_bind_int64(s, 3, number);
    sqlite3_bind_int64(s, 4, values[EA_COUNT_collector_moves] != 0);
    int rc = sqlite3_step(s) == SQLITE_ROW ? 0 : ec_fail_sqlite(err, db, "read a ledger");
    if (!rc)
        *ret = sqlite3_column_int64(s, 1) ? UINT64_MAX : (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc;
}

enum ec_verdict ec_ledger_is_stored(uint64_t stored, uint64_t elsewhere, const uint64_t *values) {
    uint64_t acknowledged = values[EA_COUNT_events_acknowledged];
    if (stored >= acknowledged)
        return EC_HOLDS;
    if (elsewhere == UINT64_MAX)
        return EC_UNKNOWN;
    return acknowledged - stored <= elsewhere ? EC_HOLDS : EC_FAILS;
}

int ec_ledger_each_last(ec_state_db *t, int64_t stream_number, int64_t number,
                        int (*fn)(const char *family, uint32_t counter, uint64_t value, void *arg), void *arg,
                        ea_err *err) {
    sqlite3 *db = ec_state_db_database(t);
    sqlite3_stmt *s = NULL;
    int rc = 0, code;
    if (sqlite3_prepare_v2(db,
                           "SELECT family, counter, value, max(number) FROM ledger_counts WHERE stream = ?1 AND"
                           " number <= ?2 GROUP BY family, counter ORDER BY family, counter",
                           -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read a ledger");
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, number);
    while (!rc && (code = sqlite3_step(s)) != SQLITE_DONE) {
        const unsigned char *family = sqlite3_column_text(s, 0);
        rc = code != SQLITE_ROW ? ec_fail_sqlite(err, db, "read a ledger")
                                : fn(family ? (const char *)family : "", (uint32_t)sqlite3_column_int64(s, 1),
                                     (uint64_t)sqlite3_column_int64(s, 2), arg);
    }
    sqlite3_finalize(s);
    return rc;
}

struct ec_ends {
    sqlite3 *index, *db;
    sqlite3_stmt *streams, *run, *end;
};

int ec_ends_open(ec_ends **ret, ec_state_db *t, sqlite3 *index, ea_err *err) {
    static const char STREAMS[] =
        "SELECT stream FROM streams WHERE agent = ?1 ORDER BY received_last_utc_ns DESC, stream_id DESC";
    static const char RUN[] =
        "SELECT stream FROM streams WHERE agent = ?1 AND substr(stream, 1, ?2) = substr(?3, 1, ?2)";
    /* whether it has numbers, and the last row with its end */
    static const char END[] =
        "SELECT EXISTS(SELECT 1 FROM ledger_batches n WHERE n.stream = s.stream), c.value, b.utc_ns FROM streams s LEFT"
        " JOIN ledger_counts c ON c.stream = s.stream AND c.family = '' AND c.counter = ?3 LEFT JOIN ledger_batches b "
        "ON"
        " b.stream = c.stream AND b.number = c.number WHERE s.host = ?1 AND s.id = ?2 AND s.position > 0"
        " ORDER BY c.number DESC LIMIT 1";
    ec_ends *e = calloc(1, sizeof *e);
    int rc = 0;
    if (!e)
        return ea_fail(err, EA_ENOMEM, "read the ends of runs");
    e->index = index;
    e->db = ec_state_db_database(t);
    if (sqlite3_prepare_v2(index, STREAMS, -1, &e->streams, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(index, RUN, -1, &e->run, NULL) != SQLITE_OK)
        rc = ec_fail_sqlite(err, index, "read the streams");
    else if (sqlite3_prepare_v2(e->db, END, -1, &e->end, NULL) != SQLITE_OK)
        rc = ec_fail_sqlite(err, e->db, "read the ledgers");
    if (rc) {
        ec_ends_close(e);
        return rc;
    }
    sqlite3_bind_int(e->run, 2, EA_STREAM_RUN_BYTES);
    sqlite3_bind_int64(e->end, 3, ea_counter_row(EA_COUNT_stream_ended)->number);
    *ret = e;
    return 0;
}

void ec_ends_close(ec_ends *e) {
    if (!e)
        return;
    sqlite3_finalize(e->streams);
    sqlite3_finalize(e->run);
    sqlite3_finalize(e->end);
    free(e);
}

/* What is known of the end of a stream. PARTS: it has parts of a recording, without numbers, and no end. */
enum known_end { END_UNKNOWN, END_PARTS, END_RUNS, END_HAS };

static int end_of_stream(ec_ends *e, sqlite3_stmt *at, int64_t *ret_utc_ns, ea_err *err) {
    sqlite3_bind_blob(e->end, 2, sqlite3_column_blob(at, 0), sqlite3_column_bytes(at, 0), SQLITE_STATIC);
    int code = sqlite3_step(e->end), known = END_UNKNOWN;
    if (code == SQLITE_ROW && !sqlite3_column_int(e->end, 0))
        known = END_PARTS;
    else if (code == SQLITE_ROW)
        known = sqlite3_column_int64(e->end, 1) && sqlite3_column_type(e->end, 2) != SQLITE_NULL ? END_HAS : END_RUNS;
    else if (code != SQLITE_DONE)
        known = ec_fail_sqlite(err, e->db, "read the ledgers");
    *ret_utc_ns = known == END_HAS ? sqlite3_column_int64(e->end, 2) : INT64_MIN;
    sqlite3_reset(e->end);
    sqlite3_bind_null(e->end, 2);
    return known;
}

/* Each stream of the newest run. Returns what is known of them all. */
static int end_of_run(ec_ends *e, int64_t *ret_utc_ns, ea_err *err) {
    int code = SQLITE_DONE, known = END_HAS;
    int64_t utc_ns;
    while (known >= END_PARTS && known != END_RUNS && (code = sqlite3_step(e->run)) == SQLITE_ROW) {
        known = end_of_stream(e, e->run, &utc_ns, err);
        *ret_utc_ns = utc_ns > *ret_utc_ns ? utc_ns : *ret_utc_ns;
    }
    if (known >= 0 && code != SQLITE_DONE && code != SQLITE_ROW)
        known = ec_fail_sqlite(err, e->index, "read the streams");
    return known;
}

int ec_ends_of(ec_ends *e, const char *agent, int64_t *ret_utc_ns, ea_err *err) {
    int code = SQLITE_DONE, known = END_PARTS;
    int64_t last_ns = INT64_MIN, unused;
    sqlite3_bind_text(e->streams, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_text(e->run, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_text(e->end, 1, agent, -1, SQLITE_STATIC);
    /* a later run sends parts of an earlier run's recording, too */
    while (known == END_PARTS && (code = sqlite3_step(e->streams)) == SQLITE_ROW)
        known = end_of_stream(e, e->streams, &unused, err);
    if (known >= 0 && code != SQLITE_DONE && code != SQLITE_ROW)
        known = ec_fail_sqlite(err, e->index, "read the streams");
    if (known == END_HAS) {
        sqlite3_bind_blob(e->run, 3, sqlite3_column_blob(e->streams, 0), sqlite3_column_bytes(e->streams, 0),
                          SQLITE_STATIC);
        known = end_of_run(e, &last_ns, err);
        sqlite3_reset(e->run);
        sqlite3_bind_null(e->run, 3);
    }
    sqlite3_reset(e->streams);
    sqlite3_bind_null(e->streams, 1);
    sqlite3_bind_null(e->run, 1);
    sqlite3_bind_null(e->end, 1);
    if (known < 0)
        return known;
    *ret_utc_ns = last_ns;
    return (known == END_HAS || known == END_PARTS) && last_ns != INT64_MIN;
}
