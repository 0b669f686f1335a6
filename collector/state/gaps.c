/* The gaps of a stream: times of which data is missing. See gaps.h. */
#include "collector/state/gaps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CPUS = 65536 }; /* what a record's cpu can be */

/* The counts of one counter, with the times of its losses from records of Windows. */
typedef struct span {
    int64_t begin_utc_ns, end_utc_ns;
    uint64_t records;
} span;

static const span NOTHING = {INT64_MAX, INT64_MIN, 0};

typedef struct loss {
    uint64_t number;             /* the batch of the last count; 0: none yet */
    span fallback, own, pending; /* own: records up to number; pending: those after it */
    span hole;                   /* the time of missing batches immediately before number */
} loss;

enum { LOSS_EVENTS, LOSS_BUFFERS, LOSS_KINDS };

static const enum ea_counter LOSS_COUNTERS[LOSS_KINDS] = {EA_COUNT_source_events_lost, EA_COUNT_source_buffers_lost};

static const uint32_t LOSS_RECORDS[LOSS_KINDS] = {EC_GAP_LOST_EVENT, EC_GAP_LOST_BUFFER};

enum statement {
    PUT,
    MOVE,
    END_OPEN,
    FIND_OPEN,
    LAST_COUNTED,
    SUM_RECORDS,
    SUM_HOLES,
    GREATEST,
    COUNT_RECORDED,
    FIND_TOMBSTONE,
    STATEMENTS
};

static const char *const SQL[STATEMENTS] = {
    /* not OR REPLACE, which would remove a row without its trigger (gap_sums) */
    [PUT] = "INSERT INTO gaps VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
            " ON CONFLICT(stream, first, cause, position) DO UPDATE SET last = excluded.last,"
            " batch_count = excluded.batch_count, event_count = excluded.event_count,"
            " least_count = excluded.least_count, counted = excluded.counted, record_count = excluded.record_count,"
            " begin_utc_ns = excluded.begin_utc_ns, end_utc_ns = excluded.end_utc_ns",
    [MOVE] = "UPDATE gaps SET begin_utc_ns = ?4, end_utc_ns = ?5, record_count = ?6 WHERE stream = ?1 AND"
             " first = ?2 AND cause = ?3 AND position = 0",
    /* ?2: the first event now, ?3: the session's begin */
    [END_OPEN] = "UPDATE gaps SET begin_utc_ns = min(?2, iif(begin_utc_ns = ?4, ?3, begin_utc_ns)),"
                 " end_utc_ns = max(?2, begin_utc_ns) WHERE stream = ?1 AND end_utc_ns = ?5 AND"
                 " NOT (begin_utc_ns = ?4 AND cause IN (" EC_GAP_AT_ONCE "))",
    [FIND_OPEN] = "SELECT 1 FROM gaps WHERE stream = ?1 AND end_utc_ns = ?2 AND"
                  " NOT (begin_utc_ns = ?3 AND cause IN (" EC_GAP_AT_ONCE ")) LIMIT 1",
    [LAST_COUNTED] = "SELECT first, begin_utc_ns, end_utc_ns, record_count FROM gaps WHERE stream = ?1 AND"
                     " cause = ?2 ORDER BY first DESC LIMIT 2",
    /* of batches ?3 < first <= ?4 */
    [SUM_RECORDS] = "SELECT ifnull(min(begin_utc_ns), ?5), ifnull(max(end_utc_ns), ?6), total(record_count) FROM"
                    " gaps WHERE stream = ?1 AND cause = ?2 AND first > ?3 AND first <= ?4",
    /* of missing batches whose begin is known; ?4: those up to this batch alone, 0: all */
    [SUM_HOLES] = "SELECT ifnull(min(begin_utc_ns), ?3), ifnull(max(end_utc_ns), ?2) FROM gaps WHERE stream = ?1"
                  " AND batch_count > 0 AND begin_utc_ns <> ?2 AND (?4 = 0 OR last = ?4)",
    [GREATEST] = "SELECT max(value) FROM ledger_counts WHERE stream = ?1 AND family = '' AND counter = ?2 AND"
                 " value >= 0",
    [COUNT_RECORDED] = "SELECT count(*) FROM gaps WHERE stream = ?1 AND cause IN (?2, ?3, ?4)",
    /* the tombstone that may name batch ?2 */
    [FIND_TOMBSTONE] =
        "SELECT first, last FROM gaps WHERE stream = ?1 AND first <= ?2 AND batch_count > 0 AND cause <> ?3"
        " ORDER BY first DESC LIMIT 1",
};

enum { RECORDED_MAX = 10000 };

struct ec_gaps {
    sqlite3 *db;
    int64_t stream_number;
    sqlite3_stmt *prepared[STATEMENTS];
    loss losses[LOSS_KINDS];
    uint64_t greatest[EA_COUNTER_COUNT];
    uint64_t recorded_count;
    int has_open, has_facts;
    span holes, hole;     /* the time of all missing batches, and of the last ones; INT64_MAX: the end is not known */
    uint64_t hole_before; /* the batch after those */
    /* the batch at hand */
    const ec_state_fold *fold;
    ec_batch_row row;
    ec_session_facts facts; /* the last ones since this was opened */
};

/* ---- causes ---- */

int ec_gap_is_counted(enum ea_counter c) {
    switch (c) {
    case EA_COUNT_events_dropped_full:
    case EA_COUNT_events_dropped_oversize:
    case EA_COUNT_events_unrecorded:
    case EA_COUNT_source_events_lost:
    case EA_COUNT_source_buffers_lost:
    case EA_COUNT_source_bad_records:
    case EA_COUNT_source_bad_buffers:
    case EA_COUNT_source_bad_bytes:
    case EA_COUNT_source_session_ends:
    case EA_COUNT_source_boot_files_lost:
    case EA_COUNT_source_starts_refused:
    case EA_COUNT_source_stale_bytes:
    case EA_COUNT_source_records_missing:
        return 1;
    default:
        return 0;
    }
}

const char *ec_gap_name(uint32_t cause) {
    static const char *const NAMES[] = {"missing", "RTLostEvent", "RTLostBuffer", "RTLostFile"};
    enum ea_counter c = ea_counter_of_number(cause);
    if (c != EA_COUNTER_COUNT)
        return ea_counter_row(c)->name;
    return cause >= EC_GAP_MISSING && cause <= EC_GAP_LOST_FILE ? NAMES[cause - EC_GAP_MISSING] : "other";
}

const char *ec_gap_kind(uint32_t cause) {
    enum ea_counter c = ea_counter_of_number(cause);
    if (c != EA_COUNTER_COUNT && ec_gap_is_counted(c))
        return "counted";
    return cause >= EC_GAP_LOST_EVENT && cause <= EC_GAP_LOST_FILE ? "recorded" : "batches";
}

/* ---- batches ---- */

void ec_session_facts_of(const ea_batch_view *v, ec_session_facts *ret) {
    enum { REAL_TIME = 0x100, TO_FILE = 0x1 | 0x2 | 0x8 }; /* EVENT_TRACE_REAL_TIME_MODE; sequential, circular, new */

    *ret = (ec_session_facts){.begin_utc_ns = INT64_MIN};
    for (size_t i = 0; i < ea_batch_source_count(v); i++) {
        const ea_wire_source *s = ea_batch_source(v, i);
        if ((s->log_file_mode & REAL_TIME) && !(s->log_file_mode & TO_FILE))
            ret->is_live = 1;
        /* a clock of system time begins in 1970, or wherever it was read */
        if (s->clock.type != EA_CLOCK_SYSTEM_TIME && s->clock.base_utc_ns > 0 &&
            (ret->begin_utc_ns == INT64_MIN || s->clock.base_utc_ns < ret->begin_utc_ns))
            ret->begin_utc_ns = s->clock.base_utc_ns;
    }
}

static uint32_t gaps_cause_of(const ea_class *c) {
    if (c && strcmp(c->name, "LostEvent/RTLostEvent") == 0)
        return EC_GAP_LOST_EVENT;
    if (c && strcmp(c->name, "LostEvent/RTLostBuffer") == 0)
        return EC_GAP_LOST_BUFFER;
    return c && strcmp(c->name, "LostEvent/RTLostFile") == 0 ? EC_GAP_LOST_FILE : 0;
}

/* Each event's source is one of the batch's: ea_batch_get_events refuses others. */
static int64_t utc_of(const ea_batch_view *v, const ea_batch_events *e, uint32_t i) {
    return ea_clock_to_utc_ns(&ea_batch_source(v, e->source[i])->clock, e->time[i]);
}

int ec_lost_find(ea_batch_view *v, ec_lost_record *ret, size_t *ret_count, ea_err *err) {
    const ea_batch_events *e = NULL;
    size_t any = 0, count = 0;
    int64_t *last;
    *ret_count = 0;
    for (size_t g = 0; g < ea_batch_group_count(v); g++)
        any += gaps_cause_of(ea_batch_group_class(v, g)) != 0;
    if (!any)
        return 0;
    int rc = ea_batch_get_events(v, &e, err);
    if (rc)
        return rc;
    last = malloc(CPUS * sizeof *last);
    if (!last)
        return ea_fail(err, EA_ENOMEM, "look for what was lost");
    for (size_t i = 0; i < CPUS; i++)
        last[i] = INT64_MIN;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t cause = gaps_cause_of(ea_batch_group_class(v, e->group[i]));
        int64_t utc_ns = utc_of(v, e, i), *before = &last[e->cpu[i]];
        if (cause && count == EC_LOST_RECORDS) {
            ret[count - 1].count++;
            if (utc_ns > ret[count - 1].end_utc_ns)
                ret[count - 1].end_utc_ns = utc_ns;
        } else if (cause) {
            ret[count++] = (ec_lost_record){.cause = cause,
                                            .count = 1,
                                            .cpu = e->cpu[i],
                                            .begin_utc_ns = *before > utc_ns ? utc_ns : *before,
                                            .end_utc_ns = utc_ns};
        }
        if (utc_ns > *before)
            *before = utc_ns;
    }
    free(last);
    *ret_count = count;
    return 0;
}

int ec_lost_look_back(ea_batch_view *v, ec_lost_record *records, size_t count, size_t *ret_open, ea_err *err) {
    const ea_batch_events *e = NULL;
    int64_t found[EC_LOST_RECORDS];
    int rc = ea_batch_get_events(v, &e, err);
    if (rc)
        return rc;
    *ret_open = 0;
    for (size_t k = 0; k < count; k++)
        found[k] = INT64_MIN;
    for (uint32_t i = 0; i < e->count; i++) {
        int64_t utc_ns = utc_of(v, e, i);
        for (size_t k = 0; k < count; k++)
            if (records[k].begin_utc_ns == INT64_MIN && records[k].cpu == e->cpu[i] && utc_ns > found[k])
                found[k] = utc_ns;
    }
    for (size_t k = 0; k < count; k++) {
        if (found[k] != INT64_MIN)
            records[k].begin_utc_ns = found[k] < records[k].end_utc_ns ? found[k] : records[k].end_utc_ns;
        *ret_open += records[k].begin_utc_ns == INT64_MIN;
    }
    return 0;
}

/* ---- the table ---- */

static int gaps_prepare(ec_gaps *b, enum statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(b->db, &b->prepared[which], SQL[which], NULL, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(b->prepared[which], 1, b->stream_number);
    *ret = b->prepared[which];
    return 0;
}

typedef struct row {
    uint64_t first, last, batches, counted, records;
    uint32_t cause, position;
    const uint64_t *events; /* NULL: unknown */
    uint64_t at_least;
    int64_t begin_utc_ns, end_utc_ns;
} row;

static int64_t bounded(uint64_t n) {
    return n > EC_GAP_COUNT_MAX ? EC_GAP_COUNT_MAX : (int64_t)n;
}

static int gaps_put(ec_gaps *b, const row *r, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = gaps_prepare(b, PUT, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)r->first);
    sqlite3_bind_int64(s, 3, (int64_t)r->last);
    sqlite3_bind_int64(s, 4, r->cause);
    sqlite3_bind_int64(s, 5, r->position);
    sqlite3_bind_int64(s, 6, bounded(r->batches));
    if (r->events)
        sqlite3_bind_int64(s, 7, bounded(*r->events));
    else
        sqlite3_bind_null(s, 7);
    sqlite3_bind_int64(s, 8, bounded(r->at_least));
    sqlite3_bind_int64(s, 9, bounded(r->counted));
    sqlite3_bind_int64(s, 10, bounded(r->records));
    sqlite3_bind_int64(s, 11, r->begin_utc_ns);
    sqlite3_bind_int64(s, 12, r->end_utc_ns);
    return ec_sqlite_run(s, "store a gap", err);
}

static void gaps_add(span *to, const span *of) {
    if (of->begin_utc_ns < to->begin_utc_ns)
        to->begin_utc_ns = of->begin_utc_ns;
    if (of->end_utc_ns > to->end_utc_ns)
        to->end_utc_ns = of->end_utc_ns;
    to->records += of->records;
}

/* What a count's row shows: the records up to it, and with_pending those after it. Missing batches may have held
 * records, too: of a file any of them, of a live session those since the count before. */
static span shown(const ec_gaps *b, const loss *t, int with_pending) {
    span s = t->own;
    if (with_pending)
        gaps_add(&s, &t->pending);
    if (!s.records)
        return t->fallback;
    gaps_add(&s, b->has_facts && !b->facts.is_live ? &b->holes : &t->hole);
    return s;
}

static int move(ec_gaps *b, size_t k, int with_pending, ea_err *err) {
    const loss *t = &b->losses[k];
    sqlite3_stmt *s = NULL;
    span now = shown(b, t, with_pending);
    b->has_open |= now.end_utc_ns == INT64_MAX && now.begin_utc_ns != INT64_MIN;
    int rc = gaps_prepare(b, MOVE, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)t->number);
    sqlite3_bind_int64(s, 3, ea_counter_row(LOSS_COUNTERS[k])->number);
    sqlite3_bind_int64(s, 4, now.begin_utc_ns);
    sqlite3_bind_int64(s, 5, now.end_utc_ns);
    sqlite3_bind_int64(s, 6, bounded(now.records));
    return ec_sqlite_run(s, "store a gap", err);
}

/* The records of a kind in batches above first up to last. */
static int sum_records(ec_gaps *b, size_t k, uint64_t above, uint64_t up_to, span *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = gaps_prepare(b, SUM_RECORDS, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, LOSS_RECORDS[k]);
    sqlite3_bind_int64(s, 3, (int64_t)above);
    sqlite3_bind_int64(s, 4, (int64_t)up_to);
    sqlite3_bind_int64(s, 5, INT64_MAX);
    sqlite3_bind_int64(s, 6, INT64_MIN);
    if (sqlite3_step(s) == SQLITE_ROW)
        *ret = (span){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), (uint64_t)sqlite3_column_double(s, 2)};
    else
        rc = ec_fail_sqlite(err, b->db, "read the gaps");
    sqlite3_reset(s);
    return rc;
}

static int sum_holes(ec_gaps *b, uint64_t last, span *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = gaps_prepare(b, SUM_HOLES, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, INT64_MIN);
    sqlite3_bind_int64(s, 3, INT64_MAX);
    sqlite3_bind_int64(s, 4, (int64_t)last);
    if (sqlite3_step(s) == SQLITE_ROW)
        *ret = (span){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), 0};
    else
        rc = ec_fail_sqlite(err, b->db, "read the gaps");
    sqlite3_reset(s);
    return rc;
}

static int read_loss(ec_gaps *b, size_t k, ea_err *err) {
    loss *t = &b->losses[k];
    sqlite3_stmt *s = NULL;
    uint64_t before = 0;
    *t = (loss){.fallback = {INT64_MIN, INT64_MAX, 0}, .own = NOTHING, .pending = NOTHING, .hole = NOTHING};
    int rc = gaps_prepare(b, LAST_COUNTED, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, ea_counter_row(LOSS_COUNTERS[k])->number);
    if (sqlite3_step(s) == SQLITE_ROW) {
        t->number = (uint64_t)sqlite3_column_int64(s, 0);
        if (!sqlite3_column_int64(s, 3))
            t->fallback = (span){sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2), 0};
        if (sqlite3_step(s) == SQLITE_ROW)
            before = (uint64_t)sqlite3_column_int64(s, 0);
    }
    sqlite3_reset(s);
    if (t->number)
        rc = sum_records(b, k, before, t->number, &t->own, err);
    if (!rc && t->number > 1)
        rc = sum_holes(b, t->number - 1, &t->hole, err);
    return rc ? rc : sum_records(b, k, t->number, INT64_MAX, &t->pending, err);
}

static int gaps_read_number(ec_gaps *b, sqlite3_stmt *s, uint64_t *ret, ea_err *err) {
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, b->db, "read the gaps");
}

int ec_gaps_open(ec_gaps **ret, ec_state_db *t, const ec_state_fold *fold, ea_err *err) {
    ec_gaps *b = calloc(1, sizeof *b);
    sqlite3_stmt *s = NULL;
    uint64_t open = 0;
    int rc = 0;
    if (!b)
        return ea_fail(err, EA_ENOMEM, "open the gaps of a stream");
    b->db = ec_state_db_database(t);
    b->stream_number = fold->stream_number;
    b->hole = NOTHING;
    b->facts.begin_utc_ns = INT64_MIN;
    rc = sum_holes(b, 0, &b->holes, err);
    for (size_t k = 0; !rc && k < LOSS_KINDS; k++)
        rc = read_loss(b, k, err);
    for (int c = 0; !rc && c < EA_COUNTER_COUNT; c++) {
        if (!ec_gap_is_counted((enum ea_counter)c))
            continue;
        rc = gaps_prepare(b, GREATEST, &s, err);
        if (!rc)
            sqlite3_bind_int64(s, 2, ea_counter_row((enum ea_counter)c)->number);
        rc = rc ? rc : gaps_read_number(b, s, &b->greatest[c], err);
    }
    if (!rc)
        rc = gaps_prepare(b, FIND_OPEN, &s, err);
    if (!rc) {
        sqlite3_bind_int64(s, 2, INT64_MAX);
        sqlite3_bind_int64(s, 3, INT64_MIN);
        rc = gaps_read_number(b, s, &open, err);
        b->has_open = open != 0;
    }
    if (!rc)
        rc = gaps_prepare(b, COUNT_RECORDED, &s, err);
    if (!rc) {
        for (int i = 0; i < 3; i++)
            sqlite3_bind_int64(s, 2 + i, EC_GAP_LOST_EVENT + i);
        rc = gaps_read_number(b, s, &b->recorded_count, err);
    }
    if (rc) {
        ec_gaps_close(b);
        return rc;
    }
    *ret = b;
    return 0;
}

void ec_gaps_close(ec_gaps *b) {
    if (!b)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(b->prepared[i]);
    free(b);
}

/* ---- one batch ---- */

/* The holes that had no end have one now. */
static int close_holes(ec_gaps *b, ea_err *err) {
    int rc = sum_holes(b, 0, &b->holes, err);
    for (size_t k = 0; !rc && k < LOSS_KINDS; k++) {
        loss *t = &b->losses[k];
        if (t->number > 1)
            rc = sum_holes(b, t->number - 1, &t->hole, err);
        if (!rc && t->number && (t->own.records || t->pending.records))
            rc = move(b, k, 1, err);
    }
    return rc;
}

/* When the session began, as far as that is before the first event at hand. */
static int64_t gaps_begin_of(const ec_gaps *b) {
    int64_t begin = b->facts.begin_utc_ns, first = b->row.begin_utc_ns;
    return begin == INT64_MIN || begin > first ? first : begin;
}

int ec_gaps_begin(ec_gaps *b, const ec_state_fold *fold, const ec_batch_row *at, const ec_session_facts *facts,
                  ea_err *err) {
    b->fold = fold;
    b->row = *at;
    if (facts) {
        b->facts = *facts;
        b->has_facts = 1;
    }
    if (!at->event_count || !facts || !b->has_open)
        return 0;
    sqlite3_stmt *s = NULL;
    int rc = gaps_prepare(b, END_OPEN, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, at->begin_utc_ns);
    sqlite3_bind_int64(s, 3, gaps_begin_of(b));
    sqlite3_bind_int64(s, 4, INT64_MIN);
    sqlite3_bind_int64(s, 5, INT64_MAX);
    b->has_open = 0;
    rc = ec_sqlite_run(s, "store a gap", err);
    return rc ? rc : close_holes(b, err);
}

/* The time of batches before the one at hand: from the last event before them to the first one after them. Late events
 * may have let the two change places. */
static span around(ec_gaps *b) {
    int has_before = b->fold->end_utc_ns != INT64_MIN, has_after = b->row.event_count != 0;
    span s = {has_before  ? b->fold->end_utc_ns
              : has_after ? gaps_begin_of(b)
                          : INT64_MIN,
              has_after ? b->row.begin_utc_ns : INT64_MAX, 0};
    if (s.begin_utc_ns > s.end_utc_ns)
        s = (span){s.end_utc_ns, s.begin_utc_ns, 0};
    b->has_open |= !has_after;
    return s;
}

/* Batches up to last are missing: records of losses that were counted may have been in them. */
static int gaps_widen(ec_gaps *b, const span *s, uint64_t last, ea_err *err) {
    int rc = 0;
    if (s->begin_utc_ns == INT64_MIN)
        return 0;
    b->hole = *s;
    b->hole_before = last + 1;
    gaps_add(&b->holes, s);
    for (size_t k = 0; !rc && b->has_facts && !b->facts.is_live && k < LOSS_KINDS; k++)
        if (b->losses[k].own.records || b->losses[k].pending.records)
            rc = b->losses[k].number ? move(b, k, 1, err) : 0;
    return rc;
}

/* Whether a tombstone names a batch, and which batches it names. */
static int is_buried(ec_gaps *b, uint64_t number, uint64_t *ret_first, uint64_t *ret_last, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = gaps_prepare(b, FIND_TOMBSTONE, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)number);
    sqlite3_bind_int64(s, 3, EC_GAP_MISSING);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        *ret_first = (uint64_t)sqlite3_column_int64(s, 0);
        *ret_last = (uint64_t)sqlite3_column_int64(s, 1);
    }
    sqlite3_reset(s);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return ec_fail_sqlite(err, b->db, "read the gaps");
    return code == SQLITE_ROW && *ret_last >= number;
}

/* Leaves out batches at both ends of a hole that tombstones name: those have rows of their own. */
static int leave_out_buried(ec_gaps *b, uint64_t *first, uint64_t *last, ea_err *err) {
    uint64_t from = 0, to = 0;
    int rc = 1;
    while (rc == 1 && *first < *last)
        if ((rc = is_buried(b, *first, &from, &to, err)) == 1)
            *first = to < *last ? to + 1 : *last;
    while (rc >= 0 && *first < *last) {
        rc = is_buried(b, *last, &from, &to, err);
        if (rc != 1)
            break;
        *last = from > *first ? from - 1 : *first;
    }
    return rc < 0 ? rc : 0;
}

int ec_gaps_missing(ec_gaps *b, uint64_t batch_count, const uint64_t *events, ea_err *err) {
    EA_ASSERT(b->fold && batch_count); /* after ec_gaps_begin */
    span s = around(b);
    uint64_t first = b->fold->position + 1, last = b->row.number - 1;
    int rc = leave_out_buried(b, &first, &last, err);
    if (rc)
        return rc;
    const row r = {.first = first,
                   .last = last,
                   .cause = EC_GAP_MISSING,
                   .batches = batch_count,
                   .events = events,
                   .at_least = events ? *events : 0,
                   .begin_utc_ns = s.begin_utc_ns,
                   .end_utc_ns = s.end_utc_ns};
    rc = gaps_put(b, &r, err);
    return rc ? rc : gaps_widen(b, &s, b->row.number - 1, err);
}

int ec_gaps_tombstone(ec_gaps *b, const ea_tombstone *t, ea_err *err) {
    span s = {t->utc_min_ns, t->utc_max_ns, 0};
    if (!t->utc_min_ns && !t->utc_max_ns)
        s = around(b);
    const row r = {.first = t->first,
                   .last = t->last,
                   .cause = strcmp(ec_gap_kind(t->cause), "batches") == 0 && t->cause < EC_GAP_MISSING ? t->cause : 0,
                   .batches = t->last - t->first + 1,
                   .events = &t->event_count,
                   .at_least = t->event_count,
                   .begin_utc_ns = s.begin_utc_ns,
                   .end_utc_ns = s.end_utc_ns};
    int rc = gaps_put(b, &r, err);
    return rc ? rc : gaps_widen(b, &s, r.last, err);
}

/* 1 for a counter of which a file's header or index says all at once, before its events come: EC_GAP_AT_ONCE. */
static int is_at_once(enum ea_counter c) {
    return c == EA_COUNT_source_events_lost || c == EA_COUNT_source_buffers_lost || c == EA_COUNT_source_bad_buffers ||
           c == EA_COUNT_source_bad_bytes;
}

int ec_gaps_counted(ec_gaps *b, enum ea_counter c, uint64_t value, int64_t begin_utc_ns, ea_err *err) {
    const ea_counter_info *info = ea_counter_row(c);
    if (value <= b->greatest[c])
        return 0;
    uint64_t by = value - b->greatest[c];
    b->greatest[c] = value;
    span s = {begin_utc_ns, INT64_MAX, 0};
    if (is_at_once(c) && !b->facts.is_live)
        s.begin_utc_ns = INT64_MIN; /* all of the stream's time */
    else if (b->row.event_count)
        s = (span){begin_utc_ns == INT64_MIN ? gaps_begin_of(b) : begin_utc_ns, b->row.end_utc_ns, 0};
    else
        b->has_open = 1;
    if (s.begin_utc_ns > s.end_utc_ns)
        s.begin_utc_ns = s.end_utc_ns;
    for (size_t k = 0; k < LOSS_KINDS; k++) {
        loss *t = &b->losses[k];
        if (LOSS_COUNTERS[k] != c)
            continue;
        int rc = t->number && t->pending.records ? move(b, k, 0, err) : 0; /* the records are this count's now */
        if (rc)
            return rc;
        *t = (loss){.number = b->row.number,
                    .fallback = s,
                    .own = t->pending,
                    .pending = NOTHING,
                    .hole = b->hole_before == b->row.number ? b->hole : NOTHING};
        s = shown(b, t, 0);
        b->has_open |= s.end_utc_ns == INT64_MAX && s.begin_utc_ns != INT64_MIN;
    }
    const row r = {.first = b->row.number,
                   .last = b->row.number,
                   .cause = info->number,
                   .at_least = info->severity == EA_LOSS ? by : 0,
                   .counted = by,
                   .records = s.records,
                   .begin_utc_ns = s.begin_utc_ns,
                   .end_utc_ns = s.end_utc_ns};
    return gaps_put(b, &r, err);
}

int ec_gaps_recorded(ec_gaps *b, const ec_lost_record *records, size_t count, ea_err *err) {
    int rc = 0;
    EA_ASSERT(b->fold && count <= EC_LOST_RECORDS); /* after ec_gaps_begin */
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_lost_record *l = &records[i];
        const span s = {l->begin_utc_ns != INT64_MIN ? l->begin_utc_ns : gaps_begin_of(b), l->end_utc_ns, l->count};
        const row r = {.first = b->row.number,
                       .last = b->row.number,
                       .cause = l->cause,
                       .position = (uint32_t)i,
                       .records = l->count,
                       .begin_utc_ns = s.begin_utc_ns < s.end_utc_ns ? s.begin_utc_ns : s.end_utc_ns,
                       .end_utc_ns = s.end_utc_ns};
        if (b->recorded_count < RECORDED_MAX) {
            rc = gaps_put(b, &r, err);
            b->recorded_count++;
        }
        for (size_t k = 0; !rc && k < LOSS_KINDS; k++) {
            loss *t = &b->losses[k];
            if (LOSS_RECORDS[k] != l->cause)
                continue;
            gaps_add(t->number == b->row.number ? &t->own : &t->pending, &s);
            if (t->number)
                rc = move(b, k, 1, err);
        }
    }
    return rc;
}
