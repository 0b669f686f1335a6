/* The embedded store: opening and reading it. See store.h. */
#include "store_parts.h"

#include "retain.h"

#include <stdlib.h>
#include <string.h>

enum {
    INCIDENTS_MAX = 10000, /* rows; the oldest go */
    DEFAULT_SEGMENT_MIB = 256,
    STREAMS_AT_ONCE = 64, /* rows that are read before they are given out */
};

/* Where questions make temporary files (collector/query/confine.h); those have no names, so that it is empty. */
static int make_temp_folder(const char *dir, ea_err *err) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/temp", dir);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : ea_path_make_dirs(path.data, err);
    ea_text_deinit(&path);
    return rc;
}

int ec_store_open(ec_store **ret, const char *dir, const ec_store_options *options, ea_err *err) {
    ec_store *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    s->writable = options->writable;
    s->segment_bytes = options->segment_bytes ? options->segment_bytes : (uint64_t)DEFAULT_SEGMENT_MIB << 20;
    s->trusts_checksums = options->trusts_checksums;
    s->agent_streams = options->agent_streams;
    s->agent_classes = options->agent_classes;
    s->agent_tombstones = options->agent_tombstones;
    s->agent_definition_bytes = options->agent_definition_bytes;
    s->counters = options->counters ? options->counters : &s->own_counters;
    ea_text_init(&s->classes);
    ea_text_init(&s->pids);
    ea_text_init(&s->completed);
    ea_text_init(&s->definition);
    ea_bytes_map_init(&s->cache, EC_CACHED_DEFINITIONS);
    ea_bytes_map_init(&s->spellings, 0);
    size_t n = strlen(dir);
    s->dir = malloc(n + 1);
    s->segments = malloc(n + sizeof "/segments");
    if (!s->dir || !s->segments) {
        ec_store_close(s);
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    }
    memcpy(s->dir, dir, n + 1);
    snprintf(s->segments, n + sizeof "/segments", "%s/segments", dir);

    int rc = 0;
    if (s->writable) {
        ea_text path;
        ea_text_init(&path);
        ea_text_printf(&path, "%s/lock", dir);
        rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : ea_path_make_dirs(s->segments, err);
        if (!rc)
            rc = make_temp_folder(dir, err);
        if (!rc)
            rc = ea_file_open(&s->lock, path.data, EA_OPEN_APPEND, err);
        if (!rc)
            rc = ea_file_try_lock(s->lock, err);
        ea_text_deinit(&path);
    }
    if (!rc && s->writable)
        rc = ec_retain_restore_index(dir, err);
    if (!rc)
        rc = ec_db_open(s, err);
    if (!rc && s->writable)
        rc = ec_store_read_spellings(s, err);
    if (!rc && s->writable)
        rc = ea_registry_create(&s->checker, 0, err);
    if (!rc && s->writable)
        rc = ec_store_recover(s, err);
    if (rc) {
        ec_store_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ec_store_close(ec_store *s) {
    if (!s)
        return;
    ec_retain_close(s);
    if (s->in_group)
        ec_store_abandon_group(s);
    for (size_t i = 0; i < EC_STATEMENT_COUNT; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    ec_segment_close(&s->segment);
    ec_segment_close(&s->reading);
    ea_batch_close(s->view);
    ea_registry_destroy(s->checker);
    ea_text_deinit(&s->classes);
    ea_text_deinit(&s->pids);
    ea_text_deinit(&s->completed);
    ea_text_deinit(&s->definition);
    ec_store_empty_cache(s);
    ea_bytes_map_deinit(&s->cache);
    ec_store_drop_spellings(s);
    free(s->notes.described);
    free(s->notes.missing);
    free(s->data);
    free(s->dir);
    free(s->segments);
    ea_file_close(s->lock);
    free(s);
}

void *ec_store_database(ec_store *s) {
    return s->db;
}
const char *ec_store_folder(const ec_store *s) {
    return s->dir;
}

/* ---- incidents ---- */

static void copy_text(char *out, size_t out_bytes, sqlite3_stmt *st, int column) {
    const unsigned char *text = sqlite3_column_text(st, column);
    snprintf(out, out_bytes, "%s", text ? (const char *)text : "");
}

const char *ec_incident_name(uint32_t kind) {
    switch (kind) {
    case EC_INCIDENT_TWICE:
        return "identity-twice";
    case EC_INCIDENT_CONFLICT:
        return "conflict";
    case EC_INCIDENT_SHARE:
        return "share";
    case EC_INCIDENT_KEPT:
        return "kept";
    case EC_INCIDENT_RETENTION:
        return "retention";
    default:
        return "other";
    }
}

int ec_store_add_incident(ec_store *s, const char *agent, enum ec_incident_kind kind, const char *text, ea_err *err) {
    int rc = ec_store_begin_group(s, err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_INCIDENT, "itit", ea_utc_ns(), agent, (int64_t)kind, text),
                       "keep an incident", err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_DROP_INCIDENTS, "i", (int64_t)INCIDENTS_MAX), "keep an incident", err);
    return rc;
}

int ec_store_each_incident(ec_store *s, const char *host, int (*fn)(const ec_incident *incident, void *arg), void *arg,
                           ea_err *err) {
    int64_t after = 0;
    if (!ec_db_statement(s, EC_ST_EACH_INCIDENT) && sqlite3_errcode(s->db) == SQLITE_ERROR)
        return 0; /* written before there were any */
    for (;;) {
        sqlite3_stmt *st = ec_db_bind(s, EC_ST_EACH_INCIDENT, "it", after, host);
        int rc = ec_db_row(s, st, "read the incidents", err);
        if (rc != 1)
            return rc;
        ec_incident i = {.utc_ns = sqlite3_column_int64(st, 1), .kind = (uint32_t)sqlite3_column_int64(st, 3)};
        after = sqlite3_column_int64(st, 0);
        copy_text(i.host, sizeof i.host, st, 2);
        copy_text(i.text, sizeof i.text, st, 4);
        ec_db_done(st);
        if (fn(&i, arg))
            return 0;
    }
}

/* ---- reading ---- */

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
static int read_stream(sqlite3_stmt *st, ec_stream_row *r) {
    *r = (ec_stream_row){.stream_id = (uint64_t)sqlite3_column_int64(st, 0)};
    copy_text(r->host, sizeof r->host, st, 1);
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
    copy_text(r->source_host, sizeof r->source_host, st, 12);
    r->expired_batch_count = (uint64_t)sqlite3_column_int64(st, 13);
    r->expired_event_count = (uint64_t)sqlite3_column_int64(st, 14);
    copy_text(r->agent_version, sizeof r->agent_version, st, 15);
    const char *labels = (const char *)sqlite3_column_text(st, 16);
    if (!labels || !*labels)
        return 0;
    r->labels = strdup(labels);
    return r->labels ? 0 : EA_ENOMEM;
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
            failed = read_stream(st, &rows[count++]);
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

int ec_store_load_classes(ec_store *s, uint64_t stream_id, const uint8_t *batch, size_t len_bytes,
                          ea_registry *registry, ea_err *err) {
    ea_batch_view *v = NULL;
    int rc = ea_batch_open(&v, batch, len_bytes, NULL, err);
    for (size_t i = 0; !rc && i < ea_batch_group_count(v); i++)
        if (!ea_registry_find_hash(registry, ea_batch_group_hash(v, i)))
            rc = load_class(s, stream_id, ea_batch_group_hash(v, i), registry, err);
    ea_batch_close(v);
    return rc;
}
