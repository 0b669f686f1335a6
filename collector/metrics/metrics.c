/* Metrics. See metrics.h. */
#include "metrics.h"

#include "ledger.h"
#include "store.h"
#include "tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_COLLECTOR_NUMBER = 70, /* counters from here on are the collector's (counters.h) */
    FAMILIES_MAX = 64,           /* of a stream; further ones are not told */
    FAMILY_BYTES = 32,
};

/* ---- the text ---- */

/* One family's numbers; see service/ship/ledger.h for which there are. */
typedef struct family {
    char name[FAMILY_BYTES];
    uint64_t values[EA_COUNTER_COUNT];
} family;

typedef struct stream {
    family *families;
    size_t family_count;
    ec_fold fold;
    uint64_t values[EA_COUNTER_COUNT];
    uint64_t alerts, elsewhere;
} stream;

typedef struct streams {
    stream *items;
    size_t count;
} streams;

static void add_head(ea_text *t, const char *name, const char *type, const char *help) {
    ea_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Label values: backslash, quote and newline are escaped; other control characters have no place in a name. */
static void add_escaped(ea_text *t, const char *value) {
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"')
            ea_text_char(t, '\\');
        ea_text_char(t, (unsigned char)*p < 0x20 ? '_' : *p);
    }
}

static void add_labels(ea_text *t, const stream *s) {
    ea_text_str(t, "{host=\"");
    add_escaped(t, s->fold.host);
    ea_text_str(t, "\",stream=\"");
    ea_text_hex(t, s->fold.stream, sizeof s->fold.stream);
    ea_text_char(t, '"');
}

static void add_sample(ea_text *t, const char *name, const stream *s, const char *label, uint64_t value) {
    ea_text_str(t, name);
    add_labels(t, s);
    ea_text_printf(t, "%s} %" PRIu64 "\n", label, value);
}

static int take_value(const char *name, uint32_t counter, uint64_t value, void *arg) {
    stream *s = arg;
    enum ea_counter c = ec_counter_of(counter);
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

static int read_streams(ec_tables *t, size_t max, streams *ret, uint64_t *ret_left_out, ea_err *err) {
    sqlite3 *db = ec_tables_database(t);
    sqlite3_stmt *s = NULL;
    int rc = 0, code;
    uint64_t total = 0;
    if (sqlite3_prepare_v2(
            db,
            "SELECT stream, host, id, event_count, (SELECT count(*) FROM alerts a WHERE a.stream = s.stream),"
            " (SELECT utc_ns FROM ledger_batches b WHERE b.stream = s.stream ORDER BY number DESC LIMIT 1) AS utc_ns"
            " FROM streams s ORDER BY utc_ns DESC, stream DESC",
            -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read the ledgers");
    while (!rc && (code = sqlite3_step(s)) != SQLITE_DONE) {
        if (code != SQLITE_ROW) {
            rc = ec_fail_sqlite(err, db, "read the ledgers");
            break;
        }
        total++;
        if (ret->count == max || sqlite3_column_type(s, 5) == SQLITE_NULL)
            continue;
        stream *to = &ret->items[ret->count++];
        const unsigned char *host = sqlite3_column_text(s, 1);
        *to = (stream){.fold.fold_id = sqlite3_column_int64(s, 0),
                       .fold.event_count = (uint64_t)sqlite3_column_int64(s, 3),
                       .alerts = (uint64_t)sqlite3_column_int64(s, 4)};
        snprintf(to->fold.host, sizeof to->fold.host, "%s", host ? (const char *)host : "");
        if (sqlite3_column_bytes(s, 2) == EA_STREAM_ID_BYTES)
            memcpy(to->fold.stream, sqlite3_column_blob(s, 2), EA_STREAM_ID_BYTES);
        rc = ec_ledger_each_last(t, to->fold.fold_id, INT64_MAX, take_value, to, err);
        if (rc == EA_ENOMEM)
            rc = ea_fail(err, rc, "read the ledgers");
        if (!rc)
            rc = ec_ledger_elsewhere(t, to->fold.fold_id, INT64_MAX, to->values, &to->elsewhere, err);
    }
    sqlite3_finalize(s);
    *ret_left_out = total - ret->count;
    return rc;
}

/* What became of the events of each family: a few sums, not all counters, since there are many families. */
static void add_families(ea_text *t, const streams *all) {
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
        add_head(t, name, "counter", losses ? "events of the family that were dropped or evicted" : SUMS[k].text);
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
                add_escaped(&label, at->name);
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

static void add_ledgers(ea_text *t, const streams *all, uint64_t left_out) {
    char name[128];
    add_head(t, "etwcollector_ledger_streams_left_out", "gauge", "streams whose numbers are not told here");
    ea_text_printf(t, "etwcollector_ledger_streams_left_out %" PRIu64 "\n", left_out);
    if (!all->count)
        return;
    for (int c = 0; c < EA_COUNTER_COUNT; c++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)c);
        if (row->number >= FIRST_COLLECTOR_NUMBER)
            continue;
        int level = ec_counter_is_level((enum ea_counter)c);
        snprintf(name, sizeof name, "etwagent_%s%s", row->name, level ? "" : "_total");
        add_head(t, name, level ? "gauge" : "counter", row->text);
        for (size_t i = 0; i < all->count; i++)
            add_sample(t, name, &all->items[i], "", all->items[i].values[c]);
    }
    add_head(t, "etwcollector_stored_events_total", "counter", "events of the stream that are stored");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_stored_events_total", &all->items[i], "", all->items[i].fold.event_count);
    add_head(t, "etwcollector_ledger_balanced", "gauge", "1 while the equation holds in the last numbers");
    for (size_t i = 0; i < all->count; i++) {
        const stream *s = &all->items[i];
        uint64_t left, right;
        ec_ledger_sides(EC_ALERT_DELIVERED, s->values, &left, &right);
        add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"delivered\"", left == right);
        ec_ledger_sides(EC_ALERT_BATCHED, s->values, &left, &right);
        add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"batched\"", left == right);
        add_sample(t, "etwcollector_ledger_balanced", s, ",equation=\"stored\"",
                   ec_ledger_is_stored(s->fold.event_count, s->elsewhere, s->values));
    }
    add_head(t, "etwcollector_ledger_unbalanced_families", "gauge",
             "families of which an equation does not hold in the last numbers");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_ledger_unbalanced_families", &all->items[i], "",
                   unbalanced_families(&all->items[i]));
    add_families(t, all);
    add_head(t, "etwcollector_ledger_alerts", "gauge", "alerts about the stream, see etwcollector ledger");
    for (size_t i = 0; i < all->count; i++)
        add_sample(t, "etwcollector_ledger_alerts", &all->items[i], "", all->items[i].alerts);
}

/* What was noticed while batches came, by agent and kind. */
static int add_incidents(ea_text *t, const char *dir, ea_err *err) {
    ec_store *store = NULL;
    sqlite3_stmt *s = NULL;
    int rc = ec_store_open(&store, dir, &(ec_store_options){0}, err), code = SQLITE_DONE;
    if (rc)
        return rc;
    sqlite3 *db = ec_store_database(store);
    if (sqlite3_prepare_v2(db, "SELECT agent, kind, count(*) FROM incidents GROUP BY agent, kind", -1, &s, NULL) ==
        SQLITE_OK) {
        add_head(t, "etwcollector_incidents", "gauge", "incidents that are kept, see etwcollector ledger");
        while ((code = sqlite3_step(s)) == SQLITE_ROW) {
            const unsigned char *host = sqlite3_column_text(s, 0);
            ea_text_str(t, "etwcollector_incidents{host=\"");
            add_escaped(t, host ? (const char *)host : "");
            ea_text_printf(t, "\",kind=\"%s\"} %lld\n", ec_incident_name((uint32_t)sqlite3_column_int64(s, 1)),
                           (long long)sqlite3_column_int64(s, 2));
        }
    }
    if (code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, db, "read the incidents");
    sqlite3_finalize(s);
    ec_store_close(store);
    return rc;
}

int ec_metrics_text(const char *dir, const ea_counters *counters, size_t max_streams, ea_text *out, ea_err *err) {
    char name[128];
    ec_tables *t = NULL;
    streams all = {.items = calloc(max_streams + !max_streams, sizeof *all.items)};
    uint64_t left_out = 0;
    if (!all.items)
        return ea_fail(err, EA_ENOMEM, "tell the metrics");
    for (int c = 0; c < EA_COUNTER_COUNT; c++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)c);
        if (row->number < FIRST_COLLECTOR_NUMBER)
            continue;
        snprintf(name, sizeof name, "etwcollector_%s_total", row->name);
        add_head(out, name, "counter", row->text);
        ea_text_printf(out, "%s %" PRIu64 "\n", name, ea_counter_get(counters, (enum ea_counter)c));
    }
    int rc = ec_tables_open(&t, dir, 0, err);
    if (!rc)
        rc = read_streams(t, max_streams, &all, &left_out, err);
    if (!rc)
        add_ledgers(out, &all, left_out);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        rc = 0; /* the tables are not made yet */
    if (!rc)
        rc = add_incidents(out, dir, err);
    ec_tables_close(t);
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i].families);
    free(all.items);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        rc = 0; /* the tables are not made yet */
    return !rc && out->failed ? ea_fail(err, EA_ENOMEM, "tell the metrics") : rc;
}
