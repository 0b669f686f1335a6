/* See sink_metrics.h. */
#include "collector/metrics/sink_metrics.h"

#include "collector/sqlite/sqlite.h"
#include "collector/state/sink_places.h"
#include "proto/base/array.h"
#include "proto/base/exposition.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>

enum { METRIC_SINKS = 256 }; /* further ones are not named */

typedef struct sink_numbers {
    ec_sink_row row;
    uint64_t counts[EC_SINK_FATE_COUNT];
    double lag_s, apart_lag_s;
    size_t apart_count;
    int is_running;
} sink_numbers;

typedef struct sink_list {
    sink_numbers *items;
    size_t count, capacity;
} sink_list;

static int add_sink(const ec_sink_row *row, void *arg) {
    sink_list *l = arg;
    if (l->count == METRIC_SINKS)
        return 0;
    if (EA_GROW(l->items, l->capacity, l->count + 1, METRIC_SINKS))
        return EA_ENOMEM;
    l->items[l->count++] = (sink_numbers){.row = *row};
    return 0;
}

static int sink_metrics_add_counts(const ec_sink_stream *s, void *arg) {
    sink_numbers *n = arg;
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        n->counts[i] += s->counts[i];
    return 0;
}

/* When the first batch from a place on was received; NULL: there is none. */
static const char LAG_SQL[] =
    "SELECT coalesce((SELECT received_utc_ns FROM batches WHERE segment = ?1 AND offset >= ?2 ORDER BY offset LIMIT 1),"
    " (SELECT received_utc_ns FROM batches WHERE segment > ?1 ORDER BY segment, offset LIMIT 1))";

static int read_lag(sqlite3_stmt *st, const ec_sink_place *place, double *ret, ea_err *err) {
    sqlite3_bind_int64(st, 1, (sqlite3_int64)place->segment);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)place->offset);
    int rc = ec_sqlite_step(st, "read what waits for sinks", err);
    if (rc > 0 && sqlite3_column_type(st, 0) != SQLITE_NULL) {
        double lag_s = (double)(ea_utc_ns() - sqlite3_column_int64(st, 0)) / 1e9;
        *ret = lag_s > 0 ? lag_s : 0;
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

/* How many agents have a place of their own, and the lag of the first of these places. */
static int read_apart(ec_sinks *sinks, sqlite3_stmt *st, sink_numbers *n, ea_err *err) {
    ec_sink_apart *apart = NULL;
    int rc = ec_sinks_read_apart(sinks, n->row.name, &apart, &n->apart_count, err);
    size_t first = 0;
    for (size_t i = 1; !rc && i < n->apart_count; i++) {
        const ec_sink_place *a = &apart[i].place, *b = &apart[first].place;
        first = a->segment < b->segment || (a->segment == b->segment && a->offset < b->offset) ? i : first;
    }
    if (!rc && n->apart_count)
        rc = read_lag(st, &apart[first].place, &n->apart_lag_s, err);
    free(apart);
    return rc;
}

static void write_sinks(const sink_list *l, int open_metrics, ea_text *out) {
    ea_exposition_head(out, open_metrics, "etwcollector_sink_events_total", EA_COUNTER,
                       "events before the sink's place, by what became of them, see etwcollector sink status");
    for (size_t i = 0; i < l->count; i++)
        for (int k = 0; k < EC_SINK_FATE_COUNT; k++)
            ea_text_printf(out, "etwcollector_sink_events_total{sink=\"%s\",fate=\"%s\"} %" PRIu64 "\n",
                           l->items[i].row.name, ec_sink_fate_name((enum ec_sink_fate)k), l->items[i].counts[k]);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_requests_total", EA_COUNTER, "requests to the receiver");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_requests_total{sink=\"%s\"} %" PRIu64 "\n", l->items[i].row.name,
                       l->items[i].row.request_count);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_retried_rows_total", EA_COUNTER,
                       "rows that were sent again");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_retried_rows_total{sink=\"%s\"} %" PRIu64 "\n", l->items[i].row.name,
                       l->items[i].row.retried_count);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_redacted_values_total", EA_COUNTER,
                       "values that pseudonyms replaced in rows, those of rows that were made again, too");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_redacted_values_total{sink=\"%s\"} %" PRIu64 "\n", l->items[i].row.name,
                       l->items[i].row.redacted_count);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_lag_seconds", EA_GAUGE,
                       "how long the next batch has waited for the sink; 0: none waits");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_lag_seconds{sink=\"%s\"} %.3f\n", l->items[i].row.name,
                       l->items[i].lag_s);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_agents_apart", EA_GAUGE,
                       "agents whose rows are sent apart from others', see etwcollector sink status");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_agents_apart{sink=\"%s\"} %zu\n", l->items[i].row.name,
                       l->items[i].apart_count);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_apart_lag_seconds", EA_GAUGE,
                       "how long the next batch of the agent that is latest has waited at the most");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_apart_lag_seconds{sink=\"%s\"} %.3f\n", l->items[i].row.name,
                       l->items[i].apart_lag_s);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_running", EA_GAUGE, "1: a process runs the sink now");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_running{sink=\"%s\"} %d\n", l->items[i].row.name,
                       l->items[i].is_running);
    ea_exposition_head(out, open_metrics, "etwcollector_sink_last_sent_timestamp_seconds", EA_GAUGE,
                       "when the receiver accepted a row last; 0: never");
    for (size_t i = 0; i < l->count; i++)
        ea_text_printf(out, "etwcollector_sink_last_sent_timestamp_seconds{sink=\"%s\"} %.3f\n", l->items[i].row.name,
                       (double)l->items[i].row.sent_utc_ns / 1e9);
}

int ec_metrics_sinks(const char *dir, sqlite3 *index, int open_metrics, ea_text *out, ea_err *err) {
    ec_sinks *sinks = NULL;
    sqlite3_stmt *st = NULL;
    sink_list l = {.count = 0};
    int rc = ec_sinks_open(&sinks, dir, 0, err);
    if (!rc)
        rc = ec_sinks_each(sinks, add_sink, &l, err);
    if (!rc && l.count)
        rc = ec_sqlite_prepare(index, &st, LAG_SQL, "read what waits for sinks", err);
    for (size_t i = 0; !rc && i < l.count; i++) {
        rc = ec_sinks_each_stream(sinks, l.items[i].row.name, sink_metrics_add_counts, &l.items[i], err);
        if (!rc)
            rc = read_lag(st, &l.items[i].row.place, &l.items[i].lag_s, err);
        if (!rc)
            rc = read_apart(sinks, st, &l.items[i], err);
        l.items[i].is_running = ec_sinks_is_locked(dir, l.items[i].row.name);
    }
    if (!rc && l.count)
        write_sinks(&l, open_metrics, out);
    sqlite3_finalize(st);
    ec_sinks_close(sinks);
    free(l.items);
    return rc;
}
