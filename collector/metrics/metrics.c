/* Metrics. See metrics.h. */
#include "collector/metrics/metrics.h"

#include "collector/metrics/sink_metrics.h"
#include "collector/sandbox/sandbox.h"
#include "collector/state/ledger_report.h"
#include "collector/state/state_db.h"
#include "collector/store/retention.h"
#include "collector/store/store.h"
#include "proto/base/exposition.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAMILIES_MAX = 64, /* of a stream; further ones are omitted */
    FAMILY_BYTES = 32,
};

/* ---- the text ---- */

/* One family's numbers; see service/spool/ledger.h for which there are. */
typedef struct family {
    char name[FAMILY_BYTES];
    uint64_t values[EA_COUNTER_COUNT];
} family;

enum { GAP_KINDS = 3 };

static const char *const GAP_NAMES[GAP_KINDS] = {"batches", "recorded", "counted"};

typedef struct stream {
    family *families;
    size_t family_count;
    ec_state_fold fold;
    uint64_t values[EA_COUNTER_COUNT];
    uint64_t alerts, elsewhere;
    uint64_t gap_periods[GAP_KINDS], gap_events[GAP_KINDS];
} stream;

typedef struct streams {
    stream *items;
    size_t count;
} streams;

/* What is being written. */
typedef struct exposition {
    ea_text *t;
    int open_metrics;
} exposition;

static void add_head(const exposition *x, const char *name, enum ea_metric_type type, const char *help) {
    ea_exposition_head(x->t, x->open_metrics, name, type, help);
}

static void add_labels(ea_text *t, const stream *s) {
    ea_text_str(t, "{host=\"");
    ea_exposition_label(t, s->fold.host);
    ea_text_str(t, "\",stream=\"");
    ea_text_hex(t, s->fold.stream, sizeof s->fold.stream);
    ea_text_char(t, '"');
}

static void add_sample(ea_text *t, const char *name, const stream *s, const char *label, uint64_t value) {
    ea_text_str(t, name);
    add_labels(t, s);
    ea_text_printf(t, "%s} %" PRIu64 "\n", label, value);
}

static int metrics_take_value(const char *name, uint32_t counter, uint64_t value, void *arg) {
    stream *s = arg;
    enum ea_counter c = ea_counter_of_number(counter);
    if (c == EA_COUNTER_COUNT)
        return 0;
    if (!*name) {
        s->values[c] = value;
        return 0;
    }
    /* they come in the order of their names */
    family *f = s->family_count ? &s->families[s->family_count - 1] : NULL;
    if (!f || strncmp(f->name, name, FAMILY_BYTES - 1) != 0) {
        if (s->family_count == FAMILIES_MAX)
            return 0;
        f = realloc(s->families, (s->family_count + 1) * sizeof *f);
        if (!f)
            return EA_ENOMEM;
        s->families = f;
        f += s->family_count++;
        memset(f, 0, sizeof *f);
        snprintf(f->name, sizeof f->name, "%s", name);
    }
    f->values[c] = value;
    return 0;
}

static int read_gaps(ec_state_db *t, stream *to, ea_err *err) {
    sqlite3 *db = ec_state_db_database(t);
    sqlite3_stmt *s = NULL;
    int code, rc = ec_sqlite_prepare(
                  db, &s, "SELECT cause, row_count, CAST(least_count AS INTEGER) FROM gap_sums WHERE stream = ?1",
                  "read the gaps", err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, to->fold.stream_number);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *kind = ec_gap_kind((uint32_t)sqlite3_column_int64(s, 0));
        for (size_t k = 0; k < GAP_KINDS; k++)
            if (strcmp(kind, GAP_NAMES[k]) == 0) {
                to->gap_periods[k] += (uint64_t)sqlite3_column_int64(s, 1);
                to->gap_events[k] += (uint64_t)sqlite3_column_int64(s, 2);
            }
    }
    rc = ec_sqlite_end(s, code, 0, "read the gaps", err);
    sqlite3_finalize(s);
    return rc;
}

static int read_streams(ec_state_db *t, size_t max, streams *ret, uint64_t *ret_left_out, ea_err *err) {
    static const char SQL[] =
        "SELECT stream, host, id, event_count, (SELECT row_count FROM alert_sums a WHERE a.stream = s.stream),"
        " (SELECT utc_ns FROM ledger_batches b WHERE b.stream = s.stream ORDER BY number DESC LIMIT 1) AS utc_ns,"
        " last_instance FROM streams s ORDER BY utc_ns DESC, stream DESC";
    sqlite3_stmt *s = NULL;
    uint64_t total = 0;
    int code = SQLITE_DONE, rc = ec_sqlite_prepare(ec_state_db_database(t), &s, SQL, "read the ledgers", err);
    while (!rc && (code = sqlite3_step(s)) == SQLITE_ROW) {
        total++;
        if (ret->count == max || sqlite3_column_type(s, 5) == SQLITE_NULL)
            continue;
        stream *to = &ret->items[ret->count++];
        const unsigned char *host = sqlite3_column_text(s, 1);
        *to = (stream){.fold.stream_number = sqlite3_column_int64(s, 0),
                       .fold.event_count = (uint64_t)sqlite3_column_int64(s, 3),
                       .fold.last_instance = (uint64_t)sqlite3_column_int64(s, 6),
                       .alerts = (uint64_t)sqlite3_column_int64(s, 4)};
        snprintf(to->fold.host, sizeof to->fold.host, "%s", host ? (const char *)host : "");
        if (sqlite3_column_bytes(s, 2) == EA_STREAM_ID_BYTES)
            memcpy(to->fold.stream, sqlite3_column_blob(s, 2), EA_STREAM_ID_BYTES);
        rc = ec_ledger_each_last(t, to->fold.stream_number, INT64_MAX, metrics_take_value, to, err);
        if (rc == EA_ENOMEM)
            rc = ea_fail(err, rc, "read the ledgers");
        if (!rc)
            rc = ec_ledger_elsewhere(t, to->fold.stream_number, INT64_MAX, to->values, &to->elsewhere, err);
        if (!rc)
            rc = read_gaps(t, to, err);
    }
    if (s)
        rc = ec_sqlite_end(s, code, rc, "read the ledgers", err);
    sqlite3_finalize(s);
    *ret_left_out = total - ret->count;
    return rc;
}

/* What became of the events of each family: a few sums, not all counters, since there are many families. */
static void add_families(const exposition *x, const streams *all) {
    ea_text *t = x->t;

    static const struct {
        const char *name, *text;
        enum ea_counter first, second;
    } SUMS[] = {
        {"delivered", "events of the family that the source handed over", EA_COUNT_events_delivered, EA_COUNTER_COUNT},
        {"batched", "events of the family in batches, made ones included", EA_COUNT_events_batched,
         EA_COUNT_events_synthesised},
        {"acknowledged", "events of the family that a collector has acknowledged", EA_COUNT_events_acknowledged,
         EA_COUNTER_COUNT},
    };

    char name[128];
    ea_text label;
    ea_text_init(&label);
    for (size_t k = 0; k <= sizeof SUMS / sizeof *SUMS; k++) {
        int losses = k == sizeof SUMS / sizeof *SUMS;
        snprintf(name, sizeof name, "etwagent_family_%s_events_total", losses ? "lost" : SUMS[k].name);
        add_head(x, name, EA_COUNTER, losses ? "events of the family that were dropped or evicted" : SUMS[k].text);
        for (size_t i = 0; i < all->count; i++)
            for (size_t f = 0; f < all->items[i].family_count; f++) {
                const family *at = &all->items[i].families[f];
                uint64_t value = 0;
                for (int c = 0; c < EA_COUNTER_COUNT; c++)
                    if (losses ? ea_counter_row((enum ea_counter)c)->severity == EA_LOSS
                               : (enum ea_counter)c == SUMS[k].first || (enum ea_counter)c == SUMS[k].second)
                        value += at->values[c];
                ea_text_clear(&label);
                ea_text_str(&label, ",family=\"");
                ea_exposition_label(&label, at->name);
                ea_text_char(&label, '"');
                if (!label.failed)
                    add_sample(t, name, &all->items[i], label.data, value);
            }
    }
    ea_text_deinit(&label);
}

static uint64_t unbalanced_families(const stream *s) {
    uint64_t count = 0, left, right;
    for (size_t f = 0; f < s->family_count; f++)
        for (int k = EC_ALERT_DELIVERED; k <= EC_ALERT_BATCHED; k++) {
            ec_ledger_sides((enum ec_alert_kind)k, s->families[f].values, &left, &right);
            if (left != right) {
                count++;
                break;
            }
        }
    return count;
}

/* Gaps by kind, and how many events they lack at the least. */
static void metrics_add_gaps(const exposition *x, const streams *all) {
    static const struct {
        const char *name, *help;
        int of_events;
    } METRICS[] = {
        {"etwcollector_gap_periods", "periods of the stream of which batches or events are missing", 0},
        {"etwcollector_gap_events", "events of the stream that are missing at the least, see etwcollector ledger", 1},
        {"etwcollector_blind_periods", "the old name of etwcollector_gap_periods, until version 0.2", 0},
        {"etwcollector_blind_events", "the old name of etwcollector_gap_events, until version 0.2", 1},
    };

    char label[64];
    for (size_t m = 0; m < sizeof METRICS / sizeof *METRICS; m++) {
        add_head(x, METRICS[m].name, EA_GAUGE, METRICS[m].help);
        for (size_t i = 0; i < all->count; i++)
            for (size_t k = 0; k < GAP_KINDS; k++) {
                const stream *s = &all->items[i];
                snprintf(label, sizeof label, ",kind=\"%s\"", GAP_NAMES[k]);
                add_sample(x->t, METRICS[m].name, s, label,
                           METRICS[m].of_events ? s->gap_events[k] : s->gap_periods[k]);
            }
    }
}

/* Events that an agent had when it last counted them, and that have not come since: its own numbers are those of its
 * last batch, and nothing that this collector acknowledges after that batch is in them. */
static uint64_t metrics_waiting_events(const stream *s) {
    const uint64_t *v = s->values, here = s->fold.event_count,
                   come = s->elsewhere < UINT64_MAX - here ? here + s->elsewhere : here;
    const uint64_t acknowledged = v[EA_COUNT_events_acknowledged];
    uint64_t made = v[EA_COUNT_events_batched] + v[EA_COUNT_events_synthesised] + v[EA_COUNT_events_pending],
             gone = v[EA_COUNT_events_evicted_size] + v[EA_COUNT_events_evicted_age] +
                    v[EA_COUNT_events_evicted_damage] + v[EA_COUNT_events_evicted_refused] +
                    v[EA_COUNT_events_recorded] + v[EA_COUNT_events_removed_size] + v[EA_COUNT_events_removed_age] +
                    v[EA_COUNT_events_unrecorded] + (come > acknowledged ? come : acknowledged);
    return made > gone ? made - gone : 0;
}

static void add_ledgers(const exposition *x, const streams *all, uint64_t left_out) {
    ea_text *t = x->t;
    char name[128];
    add_head(x, "etwcollector_ledger_streams_left_out", EA_GAUGE, "streams whose numbers are not exposed here");
    ea_text_printf(t, "etwcollector_ledger_streams_left_out %" PRIu64 "\n", left_out);
    if (!all->count)
        return;
    for (int c = 0; c < EA_COUNTER_COUNT; c++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)c);
        if (row->part == EA_OF_COLLECTOR)
            continue;
        snprintf(name, sizeof name, "etwagent_%s%s", row->name, row->type == EA_GAUGE ? "" : "_total");
        add_head(x, name, row->type, row->text);
        for (size_t i = 0; i < all->count; i++)
            add_sample(t, name, &all->items[i], "", all->items[i].values[c]);
    }
    add_head(x, "etwcollector_stored_events_total", EA_COUNTER, "events of the stream that are stored");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_stored_events_total", &all->items[i], "", all->items[i].fold.event_count);
    add_head(x, "etwcollector_waiting_events", EA_GAUGE,
             "events of the stream that its agent had by its last numbers, and that have not come");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_waiting_events", &all->items[i], "", metrics_waiting_events(&all->items[i]));
    add_head(x, "etwcollector_ledger_balanced", EA_GAUGE,
             "1 while the equation holds in the last numbers; none while that cannot be judged");
    for (size_t i = 0; i < all->count; i++) {
        const stream *s = &all->items[i];
        uint64_t left, right;
        ec_ledger_sides(EC_ALERT_DELIVERED, s->values, &left, &right);
        add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"delivered\"", left == right);
        ec_ledger_sides(EC_ALERT_BATCHED, s->values, &left, &right);
        add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"batched\"", left == right);
        enum ec_verdict stored = ec_ledger_is_stored(s->fold.event_count, s->elsewhere, s->values);
        if (stored != EC_UNKNOWN)
            add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"stored\"", stored == EC_HOLDS);
    }
    add_head(x, "etwcollector_ledger_unbalanced_families", EA_GAUGE,
             "families of which an equation does not hold in the last numbers");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_ledger_unbalanced_families", &all->items[i], "",
                   unbalanced_families(&all->items[i]));
    add_families(x, all);
    metrics_add_gaps(x, all);
    add_head(x, "etwcollector_ledger_alerts", EA_GAUGE, "alerts about the stream, see etwcollector ledger");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_ledger_alerts", &all->items[i], "", all->items[i].alerts);
}

/* How much of what the state rebuilt: of all that became known, and what is open now. */
static int add_states(const exposition *x, ec_state_db *tables, const streams *all, ea_err *err) {
    sqlite3 *db = ec_state_db_database(tables);
    sqlite3_stmt *s = NULL;
    add_head(x, "etwcollector_state_instances_total", EA_COUNTER,
             "processes, threads and modules of the stream that became known");
    for (size_t i = 0; i < all->count; i++)
        add_sample(x->t, "etwcollector_state_instances_total", &all->items[i], "", all->items[i].fold.last_instance);
    int rc = ec_sqlite_prepare(db, &s,
                               "SELECT count(*) FROM processes WHERE stream = ?1 AND end_utc_ns = 9223372036854775807",
                               "count the processes", err);
    if (rc)
        return rc;
    add_head(x, "etwcollector_open_processes", EA_GAUGE, "processes of the stream that run, as far as is known");
    for (size_t i = 0; i < all->count && rc >= 0; i++) {
        sqlite3_bind_int64(s, 1, all->items[i].fold.stream_number);
        rc = ec_sqlite_step(s, "count the processes", err);
        if (rc > 0)
            add_sample(x->t, "etwcollector_open_processes", &all->items[i], "", (uint64_t)sqlite3_column_int64(s, 0));
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc < 0 ? rc : 0;
}

static void metrics_add_number(const exposition *x, const char *name, const char *help, uint64_t value) {
    add_head(x, name, EA_GAUGE, help);
    ea_text_printf(x->t, "%s %" PRIu64 "\n", name, value);
}

/* Adds the notices of what was detected while batches arrived, by agent and kind, under their name and the old one;
 * nothing when none was ever kept. */
static int metrics_add_notices(const exposition *x, sqlite3 *db, ea_err *err) {
    static const char *const NAMES[][2] = {
        {"etwcollector_notices", "notices that are kept, see etwcollector ledger"},
        {"etwcollector_incidents", "the old name of etwcollector_notices"}, /* until version 0.2 */
    };

    sqlite3_stmt *s = NULL;
    int code = SQLITE_DONE, rc = 0;
    ea_text lines; /* each without its name */
    ea_text_init(&lines);
    /* an index that was never written to has no such table */
    if (ec_sqlite_prepare(db, &s, "SELECT agent, kind, count(*) FROM incidents GROUP BY agent, kind", NULL, NULL) ==
        0) {
        while ((code = sqlite3_step(s)) == SQLITE_ROW) {
            const unsigned char *host = sqlite3_column_text(s, 0);
            ea_text_str(&lines, "{host=\"");
            ea_exposition_label(&lines, host ? (const char *)host : "");
            ea_text_printf(&lines, "\",kind=\"%s\"} %lld\n", ec_notice_name((uint32_t)sqlite3_column_int64(s, 1)),
                           (long long)sqlite3_column_int64(s, 2));
        }
        rc = ec_sqlite_end(s, code, 0, "read the notices", err);
        for (size_t i = 0; i < 2; i++) {
            add_head(x, NAMES[i][0], EA_GAUGE, NAMES[i][1]);
            for (const char *line = lines.failed ? NULL : lines.data, *end; line && *line; line = end + 1) {
                end = strchr(line, '\n');
                ea_text_str(x->t, NAMES[i][0]);
                ea_text_add(x->t, line, (size_t)(end - line) + 1);
            }
        }
    }
    if (lines.failed)
        x->t->failed = 1;
    ea_text_deinit(&lines);
    sqlite3_finalize(s);
    return rc;
}

/* When each agent was heard last: those that were heard last of all, and how many others there are. */
static int add_hosts(const exposition *x, sqlite3 *db, ea_err *err) {
    static const char NAME[] = "etwcollector_host_last_received_timestamp_seconds";
    sqlite3_stmt *s = NULL;
    uint64_t count = 0;
    int code, rc = ec_sqlite_prepare(db, &s,
                                     "SELECT agent, max(received_last_utc_ns) AS last FROM streams GROUP BY agent"
                                     " ORDER BY last DESC, agent",
                                     "read the streams", err);
    if (rc)
        return rc;
    add_head(x, NAME, EA_GAUGE, "when something of the agent was stored last");
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        if (count++ >= EC_METRICS_HOSTS)
            continue;
        const unsigned char *host = sqlite3_column_text(s, 0);
        ea_text_printf(x->t, "%s{host=\"", NAME);
        ea_exposition_label(x->t, host ? (const char *)host : "");
        ea_text_printf(x->t, "\"} %.3f\n", (double)sqlite3_column_int64(s, 1) / 1e9);
    }
    rc = ec_sqlite_end(s, code, 0, "read the streams", err);
    sqlite3_finalize(s);
    if (rc)
        return rc;
    metrics_add_number(x, "etwcollector_hosts", "agents of which something was ever stored", count);
    metrics_add_number(x, "etwcollector_hosts_left_out", "agents that are not named here",
                       count > EC_METRICS_HOSTS ? count - EC_METRICS_HOSTS : 0);
    return 0;
}

/* The agents whose newest run came to its end in order: nothing is to be expected of them. */
static int add_ends(const exposition *x, ec_state_db *t, sqlite3 *db, ea_err *err) {
    static const char NAME[] = "etwcollector_host_ended_timestamp_seconds";
    sqlite3_stmt *s = NULL;
    ec_ends *ends = NULL;
    int code = SQLITE_DONE,
        rc = ec_sqlite_prepare(db, &s,
                               "SELECT agent FROM streams GROUP BY agent ORDER BY max(received_last_utc_ns) DESC, agent"
                               " LIMIT ?1",
                               "read the streams", err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, EC_METRICS_HOSTS);
    rc = ec_ends_open(&ends, t, db, err);
    add_head(x, NAME, EA_GAUGE,
             "when the agent's last run ended; agents that run, or were cut off and did not start again, have none");
    while (rc >= 0 && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *host = (const char *)sqlite3_column_text(s, 0);
        int64_t ended_ns;
        rc = ec_ends_of(ends, host ? host : "", &ended_ns, err);
        if (rc <= 0)
            continue;
        ea_text_printf(x->t, "%s{host=\"", NAME);
        ea_exposition_label(x->t, host ? host : "");
        ea_text_printf(x->t, "\"} %.3f\n", (double)ended_ns / 1e9);
    }
    rc = ec_sqlite_end(s, code, rc < 0 ? rc : 0, "read the streams", err);
    sqlite3_finalize(s);
    ec_ends_close(ends);
    return rc;
}

/* ---- sums of all streams of a host ---- */

enum host_number { HOST_EVENTS, HOST_ALERTS, HOST_GAPS, HOST_MISSING_BATCHES, HOST_LOST_EVENTS, HOST_NUMBERS };

typedef struct host_sums {
    char host[256];
    double values[HOST_NUMBERS]; /* a single agent can say that 2^63 batches are missing */
} host_sums;

/* In the order of names, EC_METRICS_HOSTS at most: *ret is of malloc. */
static int read_host_sums(sqlite3 *db, host_sums **ret, size_t *ret_count, ea_err *err) {
    static const char SQL[] =
        "SELECT s.host, total(s.event_count), total((SELECT a.row_count FROM alert_sums a WHERE a.stream = s.stream)),"
        " NULL, 0, 0, 0, 0 FROM streams s GROUP BY s.host UNION ALL SELECT s.host, 0, 0, g.cause, total(g.row_count),"
        " total(g.unrecorded_count), total(g.least_count), total(g.batch_count) FROM streams s JOIN gap_sums g"
        " ON g.stream = s.stream GROUP BY s.host, g.cause ORDER BY 1";
    host_sums *items = malloc(EC_METRICS_HOSTS * sizeof *items);
    sqlite3_stmt *s = NULL;
    size_t count = 0;
    int code = SQLITE_DONE;
    if (!items)
        return ea_fail(err, EA_ENOMEM, "read the sums of hosts");
    int rc = ec_sqlite_prepare(db, &s, SQL, "read the sums of hosts", err);
    while (!rc && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0), *host = text ? text : "";
        if (!count || strcmp(items[count - 1].host, host) != 0) {
            if (count == EC_METRICS_HOSTS)
                break;
            items[count] = (host_sums){.values = {0}};
            snprintf(items[count++].host, sizeof items->host, "%s", host);
        }
        double *values = items[count - 1].values;
        values[HOST_EVENTS] += sqlite3_column_double(s, 1);
        values[HOST_ALERTS] += sqlite3_column_double(s, 2);
        if (sqlite3_column_type(s, 3) == SQLITE_NULL)
            continue;
        /* the rows of losses that a source counted are not periods; those without a record of their time are */
        int is_counted = strcmp(ec_gap_kind((uint32_t)sqlite3_column_int64(s, 3)), "counted") == 0;
        values[HOST_GAPS] += sqlite3_column_double(s, is_counted ? 5 : 4);
        values[HOST_LOST_EVENTS] += is_counted ? sqlite3_column_double(s, 6) : 0;
        values[HOST_MISSING_BATCHES] += sqlite3_column_double(s, 7);
    }
    if (!rc)
        rc = ec_sqlite_end(s, code, 0, "read the sums of hosts", err);
    sqlite3_finalize(s);
    if (rc) {
        free(items);
        return rc;
    }
    *ret = items;
    *ret_count = count;
    return 0;
}

/* The streams' own numbers are of EC_METRICS_STREAMS streams alone. */
static int add_host_sums(const exposition *x, ec_state_db *t, ea_err *err) {
    static const char *const NAMES[HOST_NUMBERS][2] = {
        [HOST_EVENTS] = {"etwcollector_host_stored_events", "events of all streams of the host that are stored"},
        [HOST_ALERTS] = {"etwcollector_host_alerts", "alerts about all streams of the host, see etwcollector ledger"},
        [HOST_GAPS] = {"etwcollector_host_gap_periods", "gaps of all streams of the host"},
        [HOST_MISSING_BATCHES] = {"etwcollector_host_missing_batches", "batches of the host that are missing"},
        [HOST_LOST_EVENTS] = {"etwcollector_host_lost_events",
                              "events that the host's sources said were lost, at least"},
    };
    host_sums *items = NULL;
    size_t count = 0;
    int rc = read_host_sums(ec_state_db_database(t), &items, &count, err);
    for (size_t n = 0; !rc && n < HOST_NUMBERS; n++) {
        add_head(x, NAMES[n][0], EA_GAUGE, NAMES[n][1]);
        for (size_t i = 0; i < count; i++) {
            ea_text_printf(x->t, "%s{host=\"", NAMES[n][0]);
            ea_exposition_label(x->t, items[i].host);
            ea_text_printf(x->t, "\"} %.0f\n", items[i].values[n]);
        }
    }
    free(items);
    return rc;
}

/* t: NULL when the tables are not made yet. */
static int add_store(const exposition *x, const char *dir, ec_state_db *t, ea_err *err) {
    ec_store *store = NULL;
    ec_store_size size = {0};
    int rc = ec_store_open(&store, dir, &(ec_store_options){0}, err);
    if (rc)
        return rc;
    rc = metrics_add_notices(x, ec_store_database(store), err);
    if (!rc)
        rc = add_hosts(x, ec_store_database(store), err);
    if (!rc && t)
        rc = add_ends(x, t, ec_store_database(store), err);
    if (!rc) /* a file that another user makes just now does not cost the other metrics */
        EA_IGNORE(ec_metrics_sinks(dir, ec_store_database(store), x->open_metrics, x->t, NULL));
    if (!rc)
        rc = ec_store_measure(store, &size, err);
    ec_store_close(store);
    if (rc)
        return rc;
    metrics_add_number(x, "etwcollector_store_segments", "segment files in the store", size.segment_count);
    metrics_add_number(x, "etwcollector_store_segment_size_bytes", "bytes of the segment files", size.segment_bytes);
    metrics_add_number(x, "etwcollector_store_index_size_bytes", "bytes in use of index.db", size.index_bytes);
    metrics_add_number(x, "etwcollector_store_state_size_bytes", "bytes in use of state.db", size.state_bytes);
    metrics_add_number(x, "etwcollector_store_free_bytes", "bytes that are free on the store's file system",
                       ea_path_free_bytes(dir));
    return 0;
}

/* What child processes are confined by. */
static void add_sandbox(const exposition *x) {
    ec_sandbox_support s;
    ec_sandbox_probe(&s);
    add_head(x, "etwcollector_sandbox_active", EA_GAUGE,
             "1 when this part of the sandbox confines questions and symbol workers, see etwcollector doctor");
    for (int i = 0; i < EC_SANDBOX_PART_COUNT; i++)
        ea_text_printf(x->t, "etwcollector_sandbox_active{part=\"%s\"} %d\n",
                       ec_sandbox_part_name((enum ec_sandbox_part)i), s.has[i] != 0);
}

static void add_signed(const exposition *x, const char *name, const char *help, int64_t value) {
    add_head(x, name, EA_GAUGE, help);
    ea_text_printf(x->t, "%s %" PRId64 "\n", name, value);
}

static void add_certificate_ends(const exposition *x, const ec_gauges *g, int64_t now_s) {
    static const char NAME[] = "etwcollector_certificate_left_seconds";
    const int64_t ends_s[] = {atomic_load(&g->own_end_s), atomic_load(&g->ca_end_s), atomic_load(&g->agent_end_s)};
    static const char *const OF[] = {"collector", "ca", "agents"};
    add_head(
        x, NAME, EA_GAUGE,
        "time until the certificate ends: the collector's, that of the CA for agents, or the first one of the agents "
        "that came since the start; negative: it has ended");
    for (size_t i = 0; i < sizeof OF / sizeof OF[0]; i++)
        if (ends_s[i])
            ea_text_printf(x->t, "%s{of=\"%s\"} %" PRId64 "\n", NAME, OF[i], ends_s[i] - now_s);
}

void ec_metrics_gauges(const ec_gauges *g, int open_metrics, ea_text *out) {
    const exposition x = {.t = out, .open_metrics = open_metrics};
    int64_t now_s = ea_utc_ns() / INT64_C(1000000000), made_s = atomic_load(&g->crl_made_s),
            end_s = atomic_load(&g->crl_end_s);
    if (made_s)
        add_signed(&x, "etwcollector_crl_age_seconds", "time since the revocation list in force was made",
                   now_s - made_s);
    if (end_s)
        add_signed(&x, "etwcollector_crl_left_seconds",
                   "time until the revocation list in force is to be replaced; negative: it is late", end_s - now_s);
    add_certificate_ends(&x, g, now_s);
    if (atomic_load(&g->has_ca))
        add_signed(&x, "etwcollector_ca_key_in_reach",
                   "1 when the process that reads what agents send can open the folder of the CA, see the log",
                   atomic_load(&g->ca_in_reach));
}

int ec_metrics_text(const char *dir, const ea_counters *counters, size_t max_streams, int open_metrics, ea_text *out,
                    ea_err *err) {
    const exposition writing = {.t = out, .open_metrics = open_metrics}, *x = &writing;
    char name[128];
    ec_state_db *t = NULL;
    streams all = {.items = calloc(max_streams + !max_streams, sizeof *all.items)};
    uint64_t left_out = 0;
    if (!all.items)
        return ea_fail(err, EA_ENOMEM, "write the metrics");
    for (int c = 0; c < EA_COUNTER_COUNT; c++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)c);
        if (row->part != EA_OF_COLLECTOR)
            continue;
        snprintf(name, sizeof name, "etwcollector_%s_total", row->name);
        add_head(x, name, EA_COUNTER, row->text);
        ea_text_printf(out, "%s %" PRIu64 "\n", name, ea_counter_get(counters, (enum ea_counter)c));
    }
    add_sandbox(x);
    int rc = ec_state_db_open(&t, dir, 0, err);
    if (!rc)
        rc = read_streams(t, max_streams, &all, &left_out, err);
    if (!rc)
        add_ledgers(x, &all, left_out);
    if (!rc)
        rc = add_states(x, t, &all, err);
    if (!rc)
        rc = add_host_sums(x, t, err);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        rc = 0; /* the tables are not made yet */
    if (!rc)
        rc = add_store(x, dir, t, err);
    ec_state_db_close(t);
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i].families);
    free(all.items);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        rc = 0; /* the tables are not made yet */
    ea_exposition_end(out, open_metrics);
    return !rc && out->failed ? ea_fail(err, EA_ENOMEM, "write the metrics") : rc;
}
