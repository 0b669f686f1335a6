/* etwcollector ledger: what became of every event of a stream, in the agent's own numbers and the collector's check.
 * Called by: main.c. Calls: collector/state (ledger). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/query/scan/archive.h"
#include "collector/query/scan/data_times.h"
#include "collector/state/ledger_report.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *store, *host, *stream, *from, *to;
    int64_t wait_ns;
    int series, json;
} options;

typedef struct listing {
    const options *options;
    ec_state_db *tables;
    sqlite3 *db;
    ea_text out, line;
    ea_err *err;
    int64_t from_utc_ns, to_utc_ns;
    uint64_t streams;
    uint64_t values[EA_COUNTER_COUNT]; /* of the stream at hand, family "" */
    char family[64];                   /* whose numbers come now */
    uint64_t family_values[EA_COUNTER_COUNT];
    ea_text families, unheld; /* lines of the text; families whose equations do not hold */
    int first;
    int unbalanced;
} listing;

static const char *const SEVERITIES[] = {"info", "notice", "loss", "unknown"};

static const char *comma(listing *l) {
    const char *text = l->first ? "\n      " : ",\n      ";
    l->first = 0;
    return text;
}

static void ledger_add_time(ea_text *t, const char *key, int64_t utc_ns) {
    ea_text_printf(t, "\"%s\": \"", key);
    ea_text_utc_ns(t, utc_ns);
    ea_text_char(t, '"');
}

static void add_span(ea_text *t, int64_t from, int64_t to) {
    ea_text_str(t, "from ");
    ea_text_utc_ns(t, from);
    ea_text_str(t, " to ");
    ea_text_utc_ns(t, to);
}

static void open_list(listing *l, const char *key) {
    if (l->options->json)
        ea_text_printf(&l->out, ",\n    \"%s\": [", key);
    l->first = 1;
}

static void close_list(listing *l) {
    if (l->options->json)
        ea_text_str(&l->out, "]");
}

/* Runs sql with ?1 = the stream, ?2 and ?3 = the window, and fn on each row. */
static int ledger_each_row(listing *l, const char *sql, int64_t stream_number,
                           void (*fn)(listing *l, sqlite3_stmt *s)) {
    sqlite3_stmt *s = NULL;
    int code, rc = 0;
    if (sqlite3_prepare_v2(l->db, sql, -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(l->err, l->db, "read a ledger");
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, l->from_utc_ns);
    sqlite3_bind_int64(s, 3, l->to_utc_ns);
    while ((code = sqlite3_step(s)) == SQLITE_ROW)
        fn(l, s);
    if (code != SQLITE_DONE)
        rc = ec_fail_sqlite(l->err, l->db, "read a ledger");
    sqlite3_finalize(s);
    return rc;
}

static uint64_t column_u64(sqlite3_stmt *s, int at) {
    return (uint64_t)sqlite3_column_int64(s, at);
}

static const char *column_str(sqlite3_stmt *s, int at) {
    const unsigned char *text = sqlite3_column_text(s, at);
    return text ? (const char *)text : "";
}

/* ---- counters and equations ---- */

/* A line for a family whose numbers have all come, and the check of its equations. */
static void end_family(listing *l) {
    uint64_t left, right, lost = 0;
    const uint64_t *v = l->family_values;
    if (!*l->family)
        return;
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        if (ea_counter_row((enum ea_counter)c)->severity == EA_LOSS)
            lost += v[c];
    ea_text_str(&l->families, "  family ");
    ea_text_safe(&l->families, l->family, strlen(l->family));
    ea_text_printf(&l->families,
                   ": %" PRIu64 " delivered, %" PRIu64 " in batches, %" PRIu64 " acknowledged, %" PRIu64 " lost\n",
                   v[EA_COUNT_events_delivered], v[EA_COUNT_events_batched] + v[EA_COUNT_events_synthesised],
                   v[EA_COUNT_events_acknowledged], lost);
    for (int k = EC_ALERT_DELIVERED; k <= EC_ALERT_BATCHED; k++) {
        ec_ledger_sides((enum ec_alert_kind)k, v, &left, &right);
        if (left == right)
            continue;
        l->unbalanced = 1;
        if (l->options->json) {
            ea_text_str(&l->unheld, l->unheld.len_bytes ? ", {\"family\": " : "{\"family\": ");
            ea_text_json_str(&l->unheld, l->family);
            ea_text_printf(&l->unheld, ", \"name\": \"%s\", \"left\": %" PRIu64 ", \"right\": %" PRIu64 "}",
                           ec_alert_name((uint32_t)k), left, right);
        } else {
            ea_text_printf(&l->families, "    %s: %" PRIu64 " and %" PRIu64 ": DOES NOT HOLD\n",
                           ec_alert_name((uint32_t)k), left, right);
        }
    }
    l->family[0] = 0;
    memset(l->family_values, 0, sizeof l->family_values);
}

static int ledger_add_counter(const char *family, uint32_t number, uint64_t value, void *arg) {
    listing *l = arg;
    enum ea_counter c = ea_counter_of_number(number);
    const ea_counter_info *row = c == EA_COUNTER_COUNT ? NULL : ea_counter_row(c);
    if (row && !*family)
        l->values[c] = value;
    if (*family) {
        if (strncmp(l->family, family, sizeof l->family - 1) != 0) {
            end_family(l);
            snprintf(l->family, sizeof l->family, "%s", family);
        }
        if (row)
            l->family_values[c] = value;
        if (!l->options->json)
            return 0;
    }
    if (l->options->json) {
        ea_text_printf(&l->out, "%s{\"name\": ", comma(l));
        if (row)
            ea_text_json_str(&l->out, row->name);
        else
            ea_text_printf(&l->out, "\"counter_%" PRIu32 "\"", number);
        ea_text_printf(&l->out, ", \"number\": %" PRIu32 ", \"family\": ", number);
        ea_text_json_str(&l->out, family);
        ea_text_printf(&l->out, ", \"value\": %" PRIu64 ", \"severity\": \"%s\", \"text\": ", value,
                       row ? SEVERITIES[row->severity] : "unknown");
        ea_text_json_str(&l->out, row ? row->text : "a counter of a newer agent");
        ea_text_char(&l->out, '}');
    } else {
        ea_text_printf(&l->out, "  %14" PRIu64 "  ", value);
        if (row)
            ea_text_printf(&l->out, "%s%s\n", row->text,
                           row->severity == EA_UNKNOWN ? "; how many events they held is unknown" : "");
        else
            ea_text_printf(&l->out, "counter %" PRIu32 " of a newer agent\n", number);
    }
    return 0;
}

static void add_equation(listing *l, const char *name, const char *text, uint64_t left, uint64_t right,
                         enum ec_verdict verdict) {
    static const char *const JSON[] = {"false", "true", "null"};
    static const char *const TEXT[] = {
        "DOES NOT HOLD", "holds", "cannot be judged: how many events are in batches that have not come is unknown"};
    l->unbalanced |= verdict == EC_FAILS;
    if (l->options->json)
        ea_text_printf(&l->out,
                       "%s{\"name\": \"%s\", \"left\": %" PRIu64 ", \"right\": %" PRIu64
                       ", \"holds\": %s, \"text\": \"%s\"}",
                       comma(l), name, left, right, JSON[verdict], text);
    else
        ea_text_printf(&l->out, "  %s: %" PRIu64 " and %" PRIu64 ": %s\n", text, left, right, TEXT[verdict]);
}

static int add_equations(listing *l, const ec_state_fold *fold, int64_t number) {
    uint64_t left, right, elsewhere;
    int rc = ec_ledger_elsewhere(l->tables, fold->stream_number, number, l->values, &elsewhere, l->err);
    if (rc)
        return rc;
    open_list(l, "equations");
    ec_ledger_sides(EC_ALERT_DELIVERED, l->values, &left, &right);
    add_equation(l, "delivered",
                 "delivered = batched + dropped + filtered + sampled_out + limited + repeated + pending", left, right,
                 left == right ? EC_HOLDS : EC_FAILS);
    ec_ledger_sides(EC_ALERT_BATCHED, l->values, &left, &right);
    add_equation(l, "batched",
                 "batched + synthesised = compressing + spooled + unanswered + acknowledged + evicted + recorded + "
                 "removed + unrecorded",
                 left, right, left == right ? EC_HOLDS : EC_FAILS);
    right = l->values[EA_COUNT_events_acknowledged];
    left = fold->event_count + (elsewhere == UINT64_MAX ? 0 : elsewhere);
    add_equation(l, "stored",
                 elsewhere
                     ? "ever stored here + in batches that have not come here, but may be with another collector >="
                       " acknowledged"
                     : "ever stored here >= acknowledged",
                 left, right, ec_ledger_is_stored(fold->event_count, elsewhere, l->values));
    close_list(l);
    return 0;
}

/* ---- losses, gaps, alerts, series ---- */

static const char GAPS[] =
    "SELECT first, last, cause, batch_count, event_count, least_count, counted, record_count,"
    " begin_utc_ns, end_utc_ns FROM gap_periods WHERE stream = ?1 AND ifnull(end_utc_ns, ?2) >= ?2 AND"
    " ifnull(begin_utc_ns, ?2) < ?3 ORDER BY first, cause, position";

static const char LOSSES[] =
    /* What was lost is what a counter is above all its values before: a run of an agent that takes up a replay again
     * counts from 0, and what it finds lost again was lost once. Its time is that of its gap, where it is there. */
    "SELECT c.family, c.counter, c.value, ifnull((SELECT max(p.value) FROM ledger_counts p WHERE p.stream = c.stream"
    " AND p.family = c.family AND p.counter = c.counter AND p.number < c.number), 0) AS before,"
    " iif(n.stream IS NOT NULL, n.begin_utc_ns, ifnull((SELECT p.end_utc_ns FROM ledger_batches p WHERE"
    " p.stream = c.stream AND p.number < c.number ORDER BY p.number DESC LIMIT 1), b.begin_utc_ns)) AS begin,"
    " iif(n.stream IS NOT NULL, n.end_utc_ns, b.end_utc_ns) AS end, c.number, n.record_count"
    " FROM ledger_counts c JOIN ledger_batches b ON b.stream = c.stream AND b.number = c.number LEFT JOIN gap_periods "
    "n ON"
    " n.stream = c.stream AND n.first = c.number AND n.cause = c.counter WHERE c.stream = ?1 AND c.family = '' AND"
    " c.value > before AND ifnull(end, ?2) >= ?2 AND ifnull(begin, ?2) < ?3 ORDER BY c.number";

/* The span in two columns; one that is NULL is not known, or not over. */
static void add_row_span(listing *l, sqlite3_stmt *s, int at) {
    static const char *const NAMES[] = {"from", "to"};
    for (int i = 0; i < 2; i++) {
        if (l->options->json)
            ea_text_printf(&l->out, "%s\"%s\": %s", i ? ", " : "", NAMES[i],
                           sqlite3_column_type(s, at + i) == SQLITE_NULL ? "null" : "\"");
        else
            ea_text_printf(&l->out, "%s%s ", i ? " " : "", NAMES[i]);
        if (sqlite3_column_type(s, at + i) == SQLITE_NULL) {
            if (!l->options->json)
                ea_text_str(&l->out, i ? "an unknown time (no event followed)" : "an unknown time");
            continue;
        }
        ea_text_utc_ns(&l->out, sqlite3_column_int64(s, at + i));
        if (l->options->json)
            ea_text_char(&l->out, '"');
    }
}

static void add_loss(listing *l, sqlite3_stmt *s) {
    enum ea_counter c = ea_counter_of_number((uint32_t)column_u64(s, 1));
    uint64_t now = column_u64(s, 2), before = column_u64(s, 3), by = now >= before ? now - before : now;
    if (c == EA_COUNTER_COUNT || ea_counter_row(c)->severity < EA_LOSS || !by)
        return;
    const ea_counter_info *row = ea_counter_row(c);
    uint64_t records = column_u64(s, 7);
    if (l->options->json) {
        ea_text_printf(&l->out, "%s{\"name\": \"%s\", \"family\": ", comma(l), row->name);
        ea_text_json_str(&l->out, column_str(s, 0));
        ea_text_printf(&l->out, ", \"batch\": %" PRIu64 ", \"count\": %" PRIu64 ", \"events\": ", column_u64(s, 6), by);
        if (row->severity == EA_UNKNOWN)
            ea_text_str(&l->out, "\"unknown\", ");
        else
            ea_text_printf(&l->out, "%" PRIu64 ", ", by);
        ea_text_printf(&l->out, "\"records\": %" PRIu64 ", ", records);
        add_row_span(l, s, 4);
        ea_text_char(&l->out, '}');
        return;
    }
    if (c == EA_COUNT_spool_bad_bytes) { /* no loss by itself, and of no time of the events' */
        ea_text_printf(&l->out, "  damaged: %" PRIu64 " %s: their batches were made again, or are missing\n", by,
                       row->text);
        return;
    }
    ea_text_printf(&l->out, "  lost: %" PRIu64 " %s%s, ", by, row->text,
                   row->severity == EA_UNKNOWN ? " (events: unknown)"
                   : ec_gap_is_counted(c)      ? " (at the least; which ones is unknown)"
                                               : "");
    if (records)
        ea_text_printf(&l->out, "at %" PRIu64 " times from Windows' own records, ", records);
    add_row_span(l, s, 4);
    ea_text_char(&l->out, '\n');
}

/* Columns: first, last, cause, batches, events, at_least, counted, records, begin, end. */
static void add_gap(listing *l, sqlite3_stmt *s) {
    uint32_t cause = (uint32_t)column_u64(s, 2);
    const char *name = ec_gap_name(cause), *kind = ec_gap_kind(cause);
    int unknown = sqlite3_column_type(s, 4) == SQLITE_NULL;
    uint64_t at_least = column_u64(s, 5), records = column_u64(s, 7);
    if (l->options->json) {
        ea_text_printf(&l->out,
                       "%s{\"kind\": \"%s\", \"cause\": \"%s\", \"first\": %" PRIu64 ", \"last\": %" PRIu64
                       ", \"batches\": %" PRIu64 ", \"events\": ",
                       comma(l), kind, name, column_u64(s, 0), column_u64(s, 1), column_u64(s, 3));
        if (unknown)
            ea_text_str(&l->out, "\"unknown\", ");
        else
            ea_text_printf(&l->out, "%" PRIu64 ", ", column_u64(s, 4));
        ea_text_printf(&l->out, "\"at_least\": %" PRIu64 ", \"counted\": %" PRIu64 ", \"records\": %" PRIu64 ", ",
                       at_least, column_u64(s, 6), records);
        add_row_span(l, s, 8);
        ea_text_char(&l->out, '}');
        return;
    }
    ea_text_str(&l->out, "  gap ");
    add_row_span(l, s, 8);
    if (strcmp(kind, "counted") == 0)
        ea_text_printf(&l->out, ": %" PRIu64 " %s, %s", column_u64(s, 6),
                       ea_counter_row(ea_counter_of_number(cause))->text,
                       records ? "at the times of its records" : "at any time of it");
    else if (strcmp(kind, "recorded") == 0)
        ea_text_printf(&l->out, ": batch %" PRIu64 " has %" PRIu64 " of Windows' records %s", column_u64(s, 0), records,
                       name);
    else
        ea_text_printf(&l->out, ": %" PRIu64 " batches of %" PRIu64 "..%" PRIu64 " (%s)", column_u64(s, 3),
                       column_u64(s, 0), column_u64(s, 1), cause == EC_GAP_MISSING ? "they have not come" : name);
    if (!unknown)
        ea_text_printf(&l->out, ", events: %" PRIu64 "\n", column_u64(s, 4));
    else if (at_least)
        ea_text_printf(&l->out, ", events: at least %" PRIu64 ", which ones is unknown\n", at_least);
    else
        ea_text_str(&l->out, ", events: unknown\n");
}

static void ledger_add_alert(listing *l, sqlite3_stmt *s) {
    if (l->options->json) {
        ea_text_printf(
            &l->out, "%s{\"kind\": \"%s\", \"batch\": %" PRIu64 ", \"left\": %" PRIu64 ", \"right\": %" PRIu64 ", ",
            comma(l), ec_alert_name((uint32_t)column_u64(s, 2)), column_u64(s, 0), column_u64(s, 4), column_u64(s, 5));
        ledger_add_time(&l->out, "time", sqlite3_column_int64(s, 3));
        ea_text_str(&l->out, ", \"family\": ");
        ea_text_json_str(&l->out, column_str(s, 1));
        ea_text_str(&l->out, ", \"text\": ");
        ea_text_json_str(&l->out, column_str(s, 6));
        ea_text_char(&l->out, '}');
        return;
    }
    ea_text_str(&l->out, "  alert at ");
    ea_text_utc_ns(&l->out, sqlite3_column_int64(s, 3));
    ea_text_printf(&l->out, ", batch %" PRIu64 ": ", column_u64(s, 0));
    ea_text_safe(&l->out, column_str(s, 6), strlen(column_str(s, 6)));
    ea_text_char(&l->out, '\n');
}

/* One row a change; a line of the series a batch: it is written when the next batch begins. */
static void add_point(listing *l, sqlite3_stmt *s) {
    if (l->options->json) {
        ea_text_printf(&l->out, "%s{\"batch\": %" PRIu64 ", \"incarnation\": \"%" PRIu64 "\", ", comma(l),
                       column_u64(s, 0), column_u64(s, 1));
        ledger_add_time(&l->out, "time", sqlite3_column_int64(s, 2));
        ea_text_str(&l->out, ", ");
        ledger_add_time(&l->out, "from", sqlite3_column_int64(s, 3));
        ea_text_str(&l->out, ", ");
        ledger_add_time(&l->out, "to", sqlite3_column_int64(s, 4));
        ea_text_printf(&l->out, ", \"stored\": %" PRIu64 ", \"changes\": {", column_u64(s, 5));
    } else {
        ea_text_printf(&l->out, "  batch %" PRIu64 " at ", column_u64(s, 0));
        ea_text_utc_ns(&l->out, sqlite3_column_int64(s, 2));
        ea_text_printf(&l->out, ": stored %" PRIu64, column_u64(s, 5));
    }
    const char *changes = column_str(s, 6); /* "family\x1fnumber\x1fvalue\x1e" ... */
    for (int n = 0; *changes; n++) {
        char family[128];
        const char *unit = strchr(changes, '\x1f'), *end = strchr(changes, '\x1e');
        char *after;
        if (!unit || !end)
            break;
        uint32_t number = (uint32_t)strtoul(unit + 1, &after, 10);
        if (after == unit + 1 || *after != '\x1f')
            break;
        const char *digits = after + 1;
        int64_t value = strtoll(digits, &after, 10);
        if (after == digits || after != end)
            break;
        snprintf(family, sizeof family, "%.*s", (int)(unit - changes), changes);
        enum ea_counter c = ea_counter_of_number(number);
        ea_text_clear(&l->line);
        if (*family)
            ea_text_printf(&l->line, "%s:", family);
        if (c == EA_COUNTER_COUNT)
            ea_text_printf(&l->line, "counter_%" PRIu32, number);
        else
            ea_text_str(&l->line, ea_counter_row(c)->name);
        if (l->options->json) {
            ea_text_str(&l->out, n ? ", " : "");
            ea_text_json_str(&l->out, l->line.data);
            ea_text_printf(&l->out, ": %" PRIu64, (uint64_t)value);
        } else {
            ea_text_str(&l->out, ", ");
            ea_text_safe(&l->out, l->line.data, l->line.len_bytes);
            ea_text_printf(&l->out, " %" PRIu64, (uint64_t)value);
        }
        changes = end + 1;
    }
    ea_text_str(&l->out, l->options->json ? "}}" : "\n");
}

static const char SERIES[] =
    "SELECT b.number, b.incarnation, b.utc_ns, b.begin_utc_ns, b.end_utc_ns, b.stored_count,"
    " (SELECT group_concat(c.family || char(31) || c.counter || char(31) || c.value || char(30), '')"
    " FROM ledger_counts c INDEXED BY ledger_counts_number WHERE c.stream = b.stream AND c.number = b.number)"
    " FROM ledger_batches b WHERE b.stream = ?1 AND b.end_utc_ns >= ?2 AND b.begin_utc_ns < ?3 ORDER BY b.number";

static int last_batch(listing *l, int64_t stream_number, int64_t *ret_number, int64_t *ret_utc_ns) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(l->db,
                           "SELECT number, utc_ns FROM ledger_batches WHERE stream = ?1 AND begin_utc_ns < ?2"
                           " ORDER BY number DESC LIMIT 1",
                           -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(l->err, l->db, "read a ledger");
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, l->to_utc_ns);
    *ret_number = 0;
    if (sqlite3_step(s) == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(s, 0);
        *ret_utc_ns = sqlite3_column_int64(s, 1);
    }
    sqlite3_finalize(s);
    return 0;
}

static int on_fold(const ec_state_fold *fold, void *arg) {
    listing *l = arg;
    int64_t number = 0, utc_ns = 0;
    ea_text_clear(&l->line);
    ea_text_hex(&l->line, fold->stream, sizeof fold->stream);
    if (l->line.failed)
        return ea_fail(l->err, EA_ENOMEM, "print a ledger");
    if (l->options->stream && strncmp(l->line.data, l->options->stream, strlen(l->options->stream)) != 0)
        return 0;
    int rc = last_batch(l, fold->stream_number, &number, &utc_ns);
    if (rc)
        return rc;
    memset(l->values, 0, sizeof l->values);
    ea_text_clear(&l->families);
    ea_text_clear(&l->unheld);
    if (l->options->json) {
        ea_text_str(&l->out, l->streams ? ",\n   {\"host\": " : "\n   {\"host\": ");
        ea_text_json_str(&l->out, fold->host);
        ea_text_printf(&l->out,
                       ", \"stream\": \"%s\", \"stored_batches\": %" PRIu64 ", \"stored_events\": %" PRIu64
                       ", \"missing_batches\": %" PRIu64 ", \"damaged_batches\": %" PRIu64 ", \"batch\": %" PRId64 ", ",
                       l->line.data, fold->batch_count, fold->event_count, fold->missing_count, fold->damaged_count,
                       number);
        if (number)
            ledger_add_time(&l->out, "time", utc_ns);
        else
            ea_text_str(&l->out, "\"time\": null");
    } else {
        ea_text_safe(&l->out, fold->host, strlen(fold->host));
        ea_text_printf(&l->out, "\n  stream %s: %" PRIu64 " events in %" PRIu64 " batches stored", l->line.data,
                       fold->event_count, fold->batch_count);
        if (number) {
            ea_text_printf(&l->out, "; the agent's numbers of batch %" PRId64 ", ", number);
            ea_text_utc_ns(&l->out, utc_ns);
        } else {
            ea_text_str(&l->out, "; no numbers of the agent");
        }
        ea_text_char(&l->out, '\n');
    }
    l->streams++;
    open_list(l, "counters");
    rc = ec_ledger_each_last(l->tables, fold->stream_number, number, ledger_add_counter, l, l->err);
    close_list(l);
    end_family(l);
    if (rc)
        return rc;
    rc = add_equations(l, fold, number);
    if (rc)
        return rc;
    if (l->families.failed || l->unheld.failed)
        return ea_fail(l->err, EA_ENOMEM, "print a ledger");
    if (l->options->json) {
        ea_text_str(&l->out, ",\n    \"unbalanced_families\": [");
        ea_text_add(&l->out, l->unheld.data, l->unheld.len_bytes);
        ea_text_char(&l->out, ']');
    } else {
        ea_text_add(&l->out, l->families.data, l->families.len_bytes);
    }
    open_list(l, "losses");
    rc = ledger_each_row(l, LOSSES, fold->stream_number, add_loss);
    close_list(l);
    open_list(l, "gaps");
    if (!rc)
        rc = ledger_each_row(l, GAPS, fold->stream_number, add_gap);
    close_list(l);
    if (!rc && l->options->json) { /* the old name, until version 0.2 */
        open_list(l, "blindness");
        rc = ledger_each_row(l, GAPS, fold->stream_number, add_gap);
        close_list(l);
    }
    open_list(l, "alerts");
    if (!rc)
        rc = ledger_each_row(
            l,
            "SELECT a.number, family, kind, a.utc_ns, left_count, right_count, text FROM alerts a"
            " LEFT JOIN ledger_batches b ON b.stream = a.stream AND b.number = a.number WHERE a.stream = ?1"
            " AND ifnull(b.end_utc_ns, ?2) >= ?2 AND ifnull(b.begin_utc_ns < ?3, 1) ORDER BY a.number, kind",
            fold->stream_number, ledger_add_alert);
    close_list(l);
    if (!rc && l->options->series) {
        open_list(l, "series");
        rc = ledger_each_row(l, SERIES, fold->stream_number, add_point);
        close_list(l);
    }
    if (l->options->json)
        ea_text_char(&l->out, '}');
    return rc ? rc : ec_answer_write(&l->out, l->err);
}

/* Lists the times between the streams of one host, in which no session recorded. */
static int ledger_add_gaps(listing *l) {
    sqlite3_stmt *s = NULL;
    char host[256] = "";
    int64_t covered = INT64_MIN;
    int code;
    if (sqlite3_prepare_v2(l->db,
                           "SELECT host, begin_utc_ns, end_utc_ns FROM streams WHERE (?1 IS NULL OR host = ?1) AND"
                           " event_count > 0 ORDER BY host, begin_utc_ns",
                           -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(l->err, l->db, "read the streams");
    sqlite3_bind_text(s, 1, l->options->host, -1, SQLITE_STATIC);
    if (l->options->json)
        ea_text_str(&l->out, "\n ], \"unobserved\": [");
    l->first = 1;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = column_str(s, 0);
        int64_t begin = sqlite3_column_int64(s, 1), end = sqlite3_column_int64(s, 2);
        if (strcmp(name, host) != 0) {
            snprintf(host, sizeof host, "%s", name);
        } else if (begin > covered && begin >= l->from_utc_ns && covered < l->to_utc_ns) {
            if (l->options->json) {
                ea_text_printf(&l->out, "%s{\"host\": ", comma(l));
                ea_text_json_str(&l->out, host);
                ea_text_str(&l->out, ", ");
                ledger_add_time(&l->out, "from", covered);
                ea_text_str(&l->out, ", ");
                ledger_add_time(&l->out, "to", begin);
                ea_text_char(&l->out, '}');
            } else {
                ea_text_safe(&l->out, host, strlen(host));
                ea_text_str(&l->out, ": no stream covers the time ");
                add_span(&l->out, covered, begin);
                ea_text_char(&l->out, '\n');
            }
        } else if (end < covered) {
            end = covered;
        }
        covered = end;
    }
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? 0 : ec_fail_sqlite(l->err, l->db, "read the streams");
}

static int ledger_add_notice(const ec_notice *i, void *arg) {
    listing *l = arg;
    if (i->utc_ns < l->from_utc_ns || i->utc_ns >= l->to_utc_ns)
        return 0;
    if (l->options->json) {
        ea_text_printf(&l->out, "%s{\"host\": ", comma(l));
        ea_text_json_str(&l->out, i->host);
        ea_text_printf(&l->out, ", \"kind\": \"%s\", ", ec_notice_name(i->kind));
        ledger_add_time(&l->out, "time", i->utc_ns);
        ea_text_str(&l->out, ", \"text\": ");
        ea_text_json_str(&l->out, i->text);
        ea_text_char(&l->out, '}');
        return 0;
    }
    ea_text_safe(&l->out, i->host, strlen(i->host));
    ea_text_str(&l->out, *i->host ? ": ALERT " : "ALERT ");
    ea_text_utc_ns(&l->out, i->utc_ns);
    ea_text_printf(&l->out, " %s: ", ec_notice_name(i->kind));
    ea_text_safe(&l->out, i->text, strlen(i->text));
    ea_text_char(&l->out, '\n');
    return 0;
}

/* Lists the notices: what was detected while batches arrived. --from and --to are times of the collector's clock here.
 */
static int ledger_add_notices(listing *l) {
    ec_store *store = NULL;
    int rc = ec_store_open(&store, l->options->store, &(ec_store_options){0}, l->err);
    if (l->options->json)
        ea_text_str(&l->out, "\n ], \"notices\": [");
    l->first = 1;
    if (!rc)
        rc = ec_store_each_notice(store, l->options->host, ledger_add_notice, l, l->err);
    if (!rc && l->options->json) { /* the old name, until version 0.2 */
        ea_text_str(&l->out, "\n ], \"incidents\": [");
        l->first = 1;
        rc = ec_store_each_notice(store, l->options->host, ledger_add_notice, l, l->err);
    }
    ec_store_close(store);
    return rc;
}

static int ledger_parse_time(const options *o, const char *name, const char *text, int64_t *ret, ea_err *err) {
    return text ? ec_data_time(name, text, o->store, o->host, NULL, ret, err) : 0;
}

static int ledger_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    listing l = {.options = o, .err = &err, .from_utc_ns = INT64_MIN, .to_utc_ns = INT64_MAX};
    uint64_t backlog = 0;
    (void)operand_count, (void)operands;
    ea_text_init(&l.out);
    ea_text_init(&l.line);
    ea_text_init(&l.families);
    ea_text_init(&l.unheld);
    int rc = ec_state_worker_catch_up(o->store, o->host, EC_WAIT_FOLDED, o->wait_ns, &backlog, &err);
    if (!rc)
        rc = ec_question_confine(o->store, &err);
    if (!rc)
        rc = ledger_parse_time(o, "--from", o->from, &l.from_utc_ns, &err);
    if (!rc)
        rc = ledger_parse_time(o, "--to", o->to, &l.to_utc_ns, &err);
    if (!rc && l.from_utc_ns >= l.to_utc_ns)
        rc = ea_fail(&err, EA_EUSAGE, "--from %s is not before --to %s", o->from, o->to);
    if (!rc && backlog)
        fprintf(stderr, "etwcollector: %" PRIu64 " stored batches are not in the ledger yet\n", backlog);
    if (!rc)
        rc = ec_state_db_open(&l.tables, o->store, 0, &err);
    if (!rc) {
        l.db = ec_state_db_database(l.tables);
        if (o->json)
            ea_text_str(&l.out, "{\"streams\": [");
        rc = ec_state_db_each_fold(l.tables, o->host, on_fold, &l, &err);
    }
    if (!rc)
        rc = ledger_add_gaps(&l);
    if (!rc)
        rc = ledger_add_notices(&l);
    if (!rc && o->json)
        ea_text_printf(&l.out, "], \"behind\": %" PRIu64 "}\n", backlog);
    if (!rc)
        rc = ec_answer_write(&l.out, &err);
    if (!rc && !l.streams && o->host && !o->stream)
        rc = ec_unknown_host(o->host, &err);
    else if (!rc && !l.streams)
        rc = ea_fail(&err, EA_ENOTFOUND, "%s has no stream%s%s%s%s", o->store, o->host ? " of " : "",
                     o->host ? o->host : "", o->stream ? " that begins with " : "", o->stream ? o->stream : "");
    if (!rc && l.unbalanced)
        rc = ea_fail(&err, EA_ECORRUPT, "a ledger does not balance");
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_state_db_close(l.tables);
    ea_text_deinit(&l.out);
    ea_text_deinit(&l.line);
    ea_text_deinit(&l.families);
    ea_text_deinit(&l.unheld);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {EC_HOST_OF(options, host), .help = "only this agent's streams"},
    {.name = "stream",
     .argument = "ID",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, stream),
     .help = "only this run of an agent, by the first digits of its id (see hosts)"},
    {EC_FROM_OF(options, from), .help = "losses, gaps, alerts and the series from this time of events on"},
    {EC_TO_OF(options, to), .help = "up to this time, and the numbers as they were then"},
    {EC_WAIT_OF(options, wait_ns), .help = "how long to wait until all stored batches are in the ledger"},
    {.name = "series",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, series),
     .help = "each batch's numbers, as far as they changed"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_ledger = {
    .name = "ledger",
    .operands = EC_TRACES_OPERANDS,
    .summary = "What became of every event: the agents' numbers, whether they add up, losses, gaps",
    .details =
        "Every batch carries its agent's numbers as of its closing. Shown are the last ones, the equations that must "
        "hold\nbetween them, each loss with the time in which it happened (events: unknown where Windows does not say "
        "how many),\nbatches that are gone (evicted, or not come), and alerts: equations that did not hold when a "
        "batch "
        "was looked at.\n--json: {\"streams\": [{host, stream, stored_batches, stored_events, missing_batches, "
        "damaged_batches, batch, time,\ncounters [{name, number, family, value, severity, text}], equations [{name, "
        "left, "
        "right, holds (null: cannot be judged), text}], unbalanced_families [{family, name, left, right}], "
        "losses\n[{name, family, batch, "
        "count, events, records, from, to}], gaps [{kind, cause, first, "
        "last, "
        "batches, events, at_least, counted, records, from, to}], alerts\n[{kind, batch, left, right, time, family, "
        "text}], series [{batch, "
        "incarnation, time, from, to, stored, changes}]}],\nunobserved [{host, from, to}], notices [{host, kind, "
        "time, text}], behind}.\n"
        "blindness and incidents are the old names of gaps and notices, until version 0.2.\n"
        "Notices were detected while batches came: one identity used by two agents at a time (identity-twice), "
        "numbers "
        "that\nare taken by another content (conflict), segments that were deleted (retention).\n"
        "Exit codes: 0 everything balances, 1 failed, 2 usage, 3 an equation does not hold.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = ledger_run,
};
