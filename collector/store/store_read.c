/* The embedded store: reading it. See store.h. */
#include "collector/store/store_parts.h"

#include <stdlib.h>
#include <string.h>

enum { STREAMS_AT_ONCE = 64 }; /* rows that are read before they are given out */

void *ec_store_database(ec_store *s) {
    return s->db;
}

const char *ec_store_folder(const ec_store *s) {
    return s->dir;
}

int ec_store_has_label(ec_store *s, uint64_t stream_id, const char *label, ea_err *err) {
    const char *equal = strchr(label, '=');
    int64_t one;
    if (!equal)
        return 0;
    return ec_db_number(s,
                        ec_db_bind(s, EC_ST_HAS_LABEL, "ibt", (int64_t)stream_id, (const void *)label,
                                   (size_t)(equal - label), equal + 1),
                        "read the labels", &one, err);
}

int ec_store_find_stream(ec_store *s, const char *agent, const uint8_t *stream, int64_t *ret, ea_err *err) {
    return ec_db_number(s,
                        ec_db_bind(s, EC_ST_FIND_STREAM, "tb", agent, (const void *)stream, (size_t)EA_STREAM_ID_BYTES),
                        "look a stream up", ret, err);
}

int ec_store_ranges(ec_store *s, const char *agent, const uint8_t *stream, ec_range *ranges, size_t capacity,
                    size_t *ret_count, ea_err *err) {
    int64_t stream_id = 0;
    size_t n = 0;
    int rc = ec_store_find_stream(s, agent, stream, &stream_id, err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        sqlite3_stmt *st = ec_db_bind(s, EC_ST_STREAM_RANGES, "ii", stream_id, (int64_t)capacity);
        while ((rc = ec_db_row(s, st, "read ranges", err)) == 1) {
            ranges[n].first = (uint64_t)sqlite3_column_int64(st, 0);
            ranges[n++].last = (uint64_t)sqlite3_column_int64(st, 1);
        }
        if (rc)
            return rc;
    }
    *ret_count = n;
    return 0;
}

/* Its labels are the caller's to free. 0 or EA_ENOMEM. */
static int store_read_read_stream(sqlite3_stmt *st, ec_stream_row *r) {
    *r = (ec_stream_row){.stream_id = (uint64_t)sqlite3_column_int64(st, 0)};
    ec_db_copy_text(r->host, sizeof r->host, st, 1);
    const void *stream = sqlite3_column_blob(st, 2);
    if (stream && sqlite3_column_bytes(st, 2) == EA_STREAM_ID_BYTES)
        memcpy(r->stream, stream, EA_STREAM_ID_BYTES);
    r->batch_count = (uint64_t)sqlite3_column_int64(st, 3);
    r->event_count = (uint64_t)sqlite3_column_int64(st, 4);
    r->byte_count = (uint64_t)sqlite3_column_int64(st, 5);
    r->highest_number = (uint64_t)sqlite3_column_int64(st, 6);
    r->missing_count = r->highest_number - (uint64_t)sqlite3_column_int64(st, 7);
    r->begin_utc_ns = sqlite3_column_int64(st, 8);
    r->end_utc_ns = sqlite3_column_int64(st, 9);
    r->received_first_utc_ns = sqlite3_column_int64(st, 10);
    r->received_last_utc_ns = sqlite3_column_int64(st, 11);
    ec_db_copy_text(r->source_host, sizeof r->source_host, st, 12);
    r->expired_batch_count = (uint64_t)sqlite3_column_int64(st, 13);
    r->expired_event_count = (uint64_t)sqlite3_column_int64(st, 14);
    ec_db_copy_text(r->agent_version, sizeof r->agent_version, st, 15);
    const char *labels = (const char *)sqlite3_column_text(st, 16);
    if (!labels || !*labels)
        return 0;
    r->labels = strdup(labels);
    return r->labels ? 0 : EA_ENOMEM;
}

int ec_store_position(ec_store *s, ec_store_place *ret, ea_err *err) {
    sqlite3_stmt *st = ec_db_statement(s, EC_ST_GET_POSITION);
    int rc = ec_db_row(s, st, "read the position", err);
    *ret = (ec_store_place){0};
    if (rc != 1)
        return rc;
    *ret = (ec_store_place){(uint64_t)sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1)};
    ec_db_done(st);
    return 0;
}

int ec_store_each_stream(ec_store *s, const char *host, int (*fn)(const ec_stream_row *row, void *arg), void *arg,
                         ea_err *err) {
    ec_stream_row *rows = malloc(STREAMS_AT_ONCE * sizeof *rows);
    int64_t after = 0;
    int rc = rows ? 1 : ea_fail(err, EA_ENOMEM, "read the streams");
    while (rc == 1) {
        /* some rows at a time, the statement reset before fn: fn may call this store, and no read transaction stays
         * open */
        size_t count = 0;
        sqlite3_stmt *st = ec_db_bind(s, EC_ST_EACH_STREAM, "tii", host, after, (int64_t)STREAMS_AT_ONCE);
        int failed = 0;
        while (!failed && (rc = ec_db_row(s, st, "read the streams", err)) == 1)
            failed = store_read_read_stream(st, &rows[count++]);
        if (failed) {
            ec_db_done(st);
            rc = ea_fail(err, failed, "read the streams");
        }
        if (count)
            after = (int64_t)rows[count - 1].stream_id;
        int more = !rc && count;
        for (size_t i = 0; i < count; i++) {
            more = more && !fn(&rows[i], arg);
            free((char *)(uintptr_t)rows[i].labels);
        }
        if (!more)
            break;
        rc = 1;
    }
    free(rows);
    return rc;
}

int ec_store_next_batch(ec_store *s, uint64_t stream_id, uint64_t after, ec_batch_row *ret, ea_err *err) {
    sqlite3_stmt *st =
        ec_db_bind(s, EC_ST_NEXT_BATCH, "ii", (int64_t)stream_id, after > INT64_MAX ? INT64_MAX : (int64_t)after);
    int rc = ec_db_row(s, st, "read a batch's row", err);
    if (rc != 1)
        return rc;
    *ret = (ec_batch_row){.stream_id = stream_id,
                          .number = (uint64_t)sqlite3_column_int64(st, 0),
                          .event_count = (uint32_t)sqlite3_column_int64(st, 1),
                          .begin_utc_ns = sqlite3_column_int64(st, 2),
                          .end_utc_ns = sqlite3_column_int64(st, 3),
                          .len_bytes = (uint64_t)sqlite3_column_int64(st, 4),
                          .segment = (uint64_t)sqlite3_column_int64(st, 5),
                          .offset = (uint64_t)sqlite3_column_int64(st, 6)};
    ec_db_done(st);
    return 1;
}

int ec_store_read(ec_store *s, const ec_batch_row *b, const uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    if (!s->reading.file || s->reading.number != b->segment) {
        ec_segment_close(&s->reading);
        int rc = ec_segment_open(&s->reading, s->segments, b->segment, 0, err);
        if (rc)
            return rc;
    }
    int rc = ec_segment_read(&s->reading, b->offset, b->len_bytes, &s->data, &s->data_capacity, err);
    if (rc)
        return rc;
    const uint8_t *data = s->data;
    size_t len_bytes = (size_t)b->len_bytes;
    s->notes.missing_count = 0;
    rc = ec_store_complete(s, (int64_t)b->stream_id, &data, &len_bytes, err);
    if (rc)
        return rc;
    *ret_data = data;
    *ret_len_bytes = len_bytes;
    return 0;
}

void ec_store_rest(ec_store *s) {
    ec_segment_close(&s->reading);
}

static int load_class(ec_store *s, uint64_t stream_id, const uint8_t *hash, ea_registry *registry, ea_err *err) {
    const ea_class *c;
    sqlite3_stmt *st =
        ec_db_bind(s, EC_ST_STREAM_CLASS, "ib", (int64_t)stream_id, (const void *)hash, (size_t)EA_CLASS_HASH_BYTES);
    int rc = ec_db_row(s, st, "read a class", err);
    if (rc <= 0)
        return rc;
    rc =
        ea_registry_add_description(registry, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), &c, err);
    ec_db_done(st);
    return rc;
}

int ec_store_load_classes_of(ec_store *s, uint64_t stream_id, const ea_batch_view *v, ea_registry *registry,
                             ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < ea_batch_group_count(v); i++)
        if (!ea_registry_find_hash(registry, ea_batch_group_hash(v, i)))
            rc = load_class(s, stream_id, ea_batch_group_hash(v, i), registry, err);
    return rc;
}

int ec_store_load_classes(ec_store *s, uint64_t stream_id, const uint8_t *batch, size_t len_bytes,
                          ea_registry *registry, ea_err *err) {
    ea_batch_view *v = NULL;
    int rc = ea_batch_open(&v, batch, len_bytes, NULL, err);
    if (!rc)
        rc = ec_store_load_classes_of(s, stream_id, v, registry, err);
    ea_batch_close(v);
    return rc;
}
