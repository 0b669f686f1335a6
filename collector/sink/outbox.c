/* See outbox.h. */
#include "collector/sink/outbox.h"

#include "collector/sqlite/sqlite.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OUTBOX_PAGE = 256 };

static const char OUTBOX_DOING[] = "read what is to be sent";

enum outbox_statement { PAGE, NEXT_SEGMENT, HAS, AT, OUTBOX_STATEMENTS };

static const char *const OUTBOX_SQL[OUTBOX_STATEMENTS] = {
    [PAGE] = "SELECT b.stream_id, b.number, b.kind, b.event_count, b.len_bytes, b.segment, b.offset,"
             " b.received_utc_ns, s.agent, s.stream FROM batches b CROSS JOIN streams s ON s.stream_id = b.stream_id"
             " WHERE b.segment = ?1 AND b.offset >= ?2 AND (?4 IS NULL OR s.agent = ?4) ORDER BY b.offset LIMIT ?3",
    [NEXT_SEGMENT] = "SELECT min(segment) FROM batches WHERE segment > ?1",
    [HAS] = "SELECT 1 FROM batches WHERE stream_id = ?1 AND number = ?2 AND segment = ?3 AND offset = ?4",
    [AT] = "SELECT segment, offset FROM batches WHERE received_utc_ns >= ?1 ORDER BY segment, offset LIMIT 1",
};

/* One statement: one moment. ?4: a JSON array of [host, segment, offset, position]; ?5: the first segment of all
 * places.
 */
static const char MEASURE_SQL[] =
    "WITH own AS MATERIALIZED (SELECT json_extract(value, '$[0]') AS host, json_extract(value, '$[1]') AS segment,"
    " json_extract(value, '$[2]') AS offset, json_extract(value, '$[3]') AS position FROM json_each(?4)),"
    " p AS MATERIALIZED (SELECT s.stream_id, ifnull(own.segment, ?1) AS segment, ifnull(own.offset, ?2) AS offset,"
    " ifnull(own.position, ?3) AS position FROM streams s LEFT JOIN own ON own.host = s.agent),"
    " w AS (SELECT b.stream_id, count(*) AS batches, sum(b.event_count - CASE WHEN b.segment = p.segment AND"
    " b.offset = p.offset THEN min(b.event_count, p.position) ELSE 0 END) AS events, sum(b.len_bytes) AS bytes,"
    " min(b.received_utc_ns) AS since FROM batches b CROSS JOIN p ON p.stream_id = b.stream_id WHERE b.segment >= ?5"
    " AND (b.segment > p.segment OR b.segment = p.segment AND b.offset >= p.offset) GROUP BY b.stream_id)"
    " SELECT s.agent, lower(hex(s.stream)), s.event_count, w.batches, w.events, w.bytes, w.since FROM streams s"
    " LEFT JOIN w ON w.stream_id = s.stream_id ORDER BY s.agent, s.stream_id";

struct ec_outbox {
    ec_store *store;
    sqlite3_stmt *statements[OUTBOX_STATEMENTS];
    ec_outbox_batch page[OUTBOX_PAGE];
    size_t at, count;
    char host[256]; /* whose page it is; "": of all */
};

int ec_outbox_open(ec_outbox **ret, const char *dir, ea_err *err) {
    ec_outbox *o = calloc(1, sizeof *o);
    if (!o)
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    int rc = ec_store_open(&o->store, dir, &(ec_store_options){0}, err);
    if (rc) {
        free(o);
        return rc;
    }
    *ret = o;
    return 0;
}

void ec_outbox_close(ec_outbox *o) {
    if (!o)
        return;
    for (int i = 0; i < OUTBOX_STATEMENTS; i++)
        sqlite3_finalize(o->statements[i]);
    ec_store_close(o->store);
    free(o);
}

ec_store *ec_outbox_store(ec_outbox *o) {
    return o->store;
}

static int outbox_prepare(ec_outbox *o, enum outbox_statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc =
        ec_sqlite_prepare(ec_store_database(o->store), &o->statements[which], OUTBOX_SQL[which], OUTBOX_DOING, err);
    *ret = o->statements[which];
    return rc;
}

static void outbox_read(sqlite3_stmt *st, ec_outbox_batch *ret) {
    const unsigned char *host = sqlite3_column_text(st, 8);
    const void *stream = sqlite3_column_blob(st, 9);
    *ret = (ec_outbox_batch){.row = {.stream_id = (uint64_t)sqlite3_column_int64(st, 0),
                                     .number = (uint64_t)sqlite3_column_int64(st, 1),
                                     .event_count = (uint32_t)sqlite3_column_int64(st, 3),
                                     .len_bytes = (uint64_t)sqlite3_column_int64(st, 4),
                                     .segment = (uint64_t)sqlite3_column_int64(st, 5),
                                     .offset = (uint64_t)sqlite3_column_int64(st, 6)},
                             .kind = (uint32_t)sqlite3_column_int(st, 2),
                             .received_utc_ns = sqlite3_column_int64(st, 7)};
    snprintf(ret->host, sizeof ret->host, "%s", host ? (const char *)host : "");
    if (stream && sqlite3_column_bytes(st, 9) == EA_STREAM_ID_BYTES)
        memcpy(ret->stream_id, stream, EA_STREAM_ID_BYTES);
    for (size_t i = 0; i < EA_STREAM_ID_BYTES; i++)
        snprintf(ret->stream + 2 * i, 3, "%02x", ret->stream_id[i]);
}

/* The batches of a segment from an offset on. */
static int outbox_page(ec_outbox *o, uint64_t segment, uint64_t offset, const char *host, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code, rc = outbox_prepare(o, PAGE, &st, err);
    o->at = o->count = 0;
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)segment);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)offset);
    sqlite3_bind_int(st, 3, OUTBOX_PAGE);
    sqlite3_bind_text(st, 4, host, -1, SQLITE_STATIC);
    snprintf(o->host, sizeof o->host, "%s", host ? host : "");
    while ((code = sqlite3_step(st)) == SQLITE_ROW && o->count < OUTBOX_PAGE)
        outbox_read(st, &o->page[o->count++]);
    return ec_sqlite_end(st, code, 0, OUTBOX_DOING, err);
}

static int is_at_or_after(const ec_batch_row *row, const ec_sink_place *place) {
    return row->segment > place->segment || (row->segment == place->segment && row->offset >= place->offset);
}

int ec_outbox_next(ec_outbox *o, const ec_sink_place *place, const char *host, ec_outbox_batch *ret, ea_err *err) {
    if (strcmp(o->host, host ? host : "") != 0)
        o->at = o->count = 0;
    while (o->at < o->count && !is_at_or_after(&o->page[o->at].row, place))
        o->at++;
    /* a place before the page: it was moved back */
    if (o->at == o->count || place->segment != o->page[o->at].row.segment || o->at == 0) {
        uint64_t segment = place->segment, offset = place->offset;
        for (;;) {
            /* first: when there is a later segment, this one does not grow any more */
            sqlite3_stmt *st = NULL;
            int rc = outbox_prepare(o, NEXT_SEGMENT, &st, err);
            if (rc)
                return rc;
            sqlite3_bind_int64(st, 1, (sqlite3_int64)segment);
            rc = ec_sqlite_step(st, OUTBOX_DOING, err);
            int has_next = rc > 0 && sqlite3_column_type(st, 0) != SQLITE_NULL;
            uint64_t next = has_next ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
            sqlite3_reset(st);
            rc = rc < 0 ? rc : outbox_page(o, segment, offset, host, err);
            if (rc)
                return rc;
            if (o->count)
                break;
            if (!has_next)
                return 0;
            segment = next;
            offset = 0;
        }
    }
    *ret = o->page[o->at];
    return 1;
}

int ec_outbox_has(ec_outbox *o, const ec_outbox_batch *batch, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = outbox_prepare(o, HAS, &st, err);
    if (rc)
        return rc;
    const uint64_t values[] = {batch->row.stream_id, batch->row.number, batch->row.segment, batch->row.offset};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_int64(st, 1 + i, (sqlite3_int64)values[i]);
    rc = ec_sqlite_step(st, OUTBOX_DOING, err);
    sqlite3_reset(st);
    return rc;
}

int ec_outbox_end(ec_outbox *o, ec_sink_place *ret, ea_err *err) {
    ec_store_place place;
    int rc = ec_store_position(o->store, &place, err);
    if (!rc)
        *ret = (ec_sink_place){.segment = place.segment, .offset = place.offset};
    return rc;
}

int ec_outbox_at(ec_outbox *o, int64_t received_utc_ns, ec_sink_place *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = outbox_prepare(o, AT, &st, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, received_utc_ns);
    rc = ec_sqlite_step(st, OUTBOX_DOING, err);
    if (rc > 0)
        *ret = (ec_sink_place){.segment = (uint64_t)sqlite3_column_int64(st, 0),
                               .offset = (uint64_t)sqlite3_column_int64(st, 1)};
    sqlite3_reset(st);
    return rc == 0 ? ec_outbox_end(o, ret, err) : rc < 0 ? rc : 0;
}

int ec_outbox_measure(ec_outbox *o, const ec_outbox_places *places, int (*fn)(const ec_outbox_stream *s, void *arg),
                      void *arg, ea_err *err) {
    sqlite3_stmt *st = NULL;
    ea_text own;
    int code = SQLITE_DONE, rc = ec_sqlite_prepare(ec_store_database(o->store), &st, MEASURE_SQL, OUTBOX_DOING, err);
    const uint64_t values[] = {places->place.segment, places->place.offset, places->place.position};
    uint64_t first = places->place.segment;
    for (int i = 0; !rc && i < 3; i++)
        sqlite3_bind_int64(st, 1 + i, (sqlite3_int64)values[i]);
    ea_text_init(&own);
    ea_text_char(&own, '[');
    for (size_t i = 0; i < places->apart_count; i++) {
        const ec_sink_apart *b = &places->apart[i];
        ea_text_str(&own, i ? ",[" : "[");
        ea_text_json_str(&own, b->host);
        ea_text_printf(&own, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", b->place.segment, b->place.offset,
                       b->place.position);
        first = b->place.segment < first ? b->place.segment : first;
    }
    ea_text_char(&own, ']');
    if (!rc && own.failed)
        rc = ea_fail(err, EA_ENOMEM, "%s", OUTBOX_DOING);
    if (!rc) {
        sqlite3_bind_text(st, 4, own.data, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 5, (sqlite3_int64)first);
    }
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        ec_outbox_stream s = {.host = (const char *)sqlite3_column_text(st, 0),
                              .stream = (const char *)sqlite3_column_text(st, 1),
                              .event_count = (uint64_t)sqlite3_column_int64(st, 2),
                              .waiting_batches = (uint64_t)sqlite3_column_int64(st, 3),
                              .waiting_events = (uint64_t)sqlite3_column_int64(st, 4),
                              .waiting_bytes = (uint64_t)sqlite3_column_int64(st, 5),
                              .waiting_since_utc_ns = INT64_MAX};
        if (sqlite3_column_type(st, 6) != SQLITE_NULL)
            s.waiting_since_utc_ns = sqlite3_column_int64(st, 6);
        rc = s.host && s.stream ? fn(&s, arg) : ea_fail(err, EA_ENOMEM, "%s", OUTBOX_DOING);
    }
    if (st)
        rc = ec_sqlite_end(st, code, rc, OUTBOX_DOING, err);
    sqlite3_finalize(st);
    ea_text_deinit(&own);
    return rc;
}

/* ---- what was removed ---- */

typedef struct auditing {
    const ec_outbox_audit *a;
    ea_err *err;
} auditing;

static int audit_stream(const ec_outbox_stream *s, void *arg) {
    const auditing *d = arg;
    const ec_outbox_audit *a = d->a;
    ec_sink_stream row = {.before = 0};
    int rc = ec_sinks_find_stream(a->sinks, a->sink, s->host, s->stream, &row, d->err);
    if (rc < 0)
        return rc;
    int is_first = rc == 0;
    if (is_first) {
        snprintf(row.host, sizeof row.host, "%s", s->host);
        snprintf(row.stream, sizeof row.stream, "%s", s->stream);
    }
    int64_t counted = 0;
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        counted += (int64_t)row.counts[i];
    int64_t rest = (int64_t)s->event_count - (int64_t)s->waiting_events - row.before - counted;
    /* below 0: the index was made anew, and does not know of what had been removed before */
    if ((is_first && a->is_new) || a->fate == EC_SINK_FATE_COUNT || rest < 0)
        row.before += rest;
    else
        row.counts[a->fate] += (uint64_t)rest;
    if (rest > 0 && !(is_first && a->is_new) && a->fate == EC_SINK_removed && a->on_removed)
        a->on_removed(a->arg, s->host, s->stream, (uint64_t)rest);
    return ec_sinks_put_stream(a->sinks, a->sink, &row, d->err);
}

int ec_outbox_run_audit(const ec_outbox_audit *a, ea_err *err) {
    auditing d = {.a = a, .err = err};
    return ec_outbox_measure(a->outbox, &a->places, audit_stream, &d, err);
}
