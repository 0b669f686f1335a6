/* SELECTs over the index of batches. See index_query.h; database.c has the tables. */
#include "collector/store/index_query.h"
#include "collector/sqlite/sqlite.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* A batch's range is in ticks of its first source; another source's time can be off by one of them. */
enum { TICK_NS = 1000000 };

struct ec_index_query {
    ec_store *store;
    const ec_index_query_filter *filter;
    sqlite3_stmt *s;
    sqlite3_stmt *count;   /* NULL: not asked yet */
    sqlite3_stmt *batches; /* likewise: of a stream */
    ec_index_query_counts counts;
    uint64_t stream_id;     /* 0: no stream, or one that has nothing */
    int64_t from_ns, to_ns; /* of a batch's range: a tick more on both sides */
    int64_t *class_ids;     /* ascending; of the classes that the filter wants and the store has */
    size_t class_count;
};

static int index_query_fail(ec_store *store, ea_err *err, const char *what) {
    sqlite3 *db = ec_store_database(store);
    return ea_fail_os(err, ec_sqlite_error(db), ec_sqlite_os_error(db), "%s in %s/index.db: %s", what,
                      ec_store_folder(store), ec_sqlite_text(db));
}

static int index_query_prepare(ec_store *store, const char *sql, sqlite3_stmt **ret, ea_err *err) {
    if (sqlite3_prepare_v2(ec_store_database(store), sql, -1, ret, NULL) != SQLITE_OK)
        return index_query_fail(store, err, "look batches up");
    return 0;
}

static int compare_ids(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The index's numbers of the wanted classes. */
static int look_classes_up(ec_index_query *f, ea_err *err) {
    sqlite3_stmt *s = NULL;
    f->class_ids = malloc((f->filter->class_count + 1) * sizeof *f->class_ids);
    if (!f->class_ids)
        return ea_fail(err, EA_ENOMEM, "look batches up");
    int rc = index_query_prepare(f->store, "SELECT class_id FROM classes WHERE hash = ?1", &s, err);
    for (size_t i = 0; !rc && i < f->filter->class_count; i++) {
        sqlite3_bind_blob(s, 1, f->filter->classes[i].bytes, EA_CLASS_HASH_BYTES, SQLITE_STATIC);
        int code = sqlite3_step(s);
        if (code == SQLITE_ROW)
            f->class_ids[f->class_count++] = sqlite3_column_int64(s, 0);
        else if (code != SQLITE_DONE)
            rc = index_query_fail(f->store, err, "look a class up");
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    if (!rc)
        qsort(f->class_ids, f->class_count, sizeof *f->class_ids, compare_ids);
    return rc;
}

int ec_index_query_open(ec_index_query **ret, ec_store *store, const ec_index_query_filter *filter, ea_err *err) {
    ec_index_query *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "look batches up");
    f->store = store;
    f->filter = filter;
    int rc = index_query_prepare(
        store,
        "SELECT number, event_count, begin_utc_ns, end_utc_ns, len_bytes, segment, offset, kind, classes,"
        " pids FROM batches WHERE stream_id = ?1 AND event_count > 0 AND end_utc_ns >= ?2"
        " AND begin_utc_ns <= ?3 ORDER BY number",
        &f->s, err);
    if (!rc && filter->classes)
        rc = look_classes_up(f, err);
    if (rc) {
        ec_index_query_close(f);
        return rc;
    }
    int64_t from = filter->from_utc_ns, to = filter->to_utc_ns;
    f->from_ns = from > INT64_MIN + TICK_NS ? from - TICK_NS : INT64_MIN;
    f->to_ns = to < INT64_MAX - TICK_NS ? to + TICK_NS : INT64_MAX;
    sqlite3_bind_int64(f->s, 2, f->from_ns);
    sqlite3_bind_int64(f->s, 3, f->to_ns);
    *ret = f;
    return 0;
}

void ec_index_query_stream(ec_index_query *f, const ec_index_query_row *stream) {
    int is_known = stream->begin_utc_ns || stream->end_utc_ns; /* no time is in the index as NULL, here as 0 */
    int is_elsewhere = is_known && (stream->end_utc_ns < f->from_ns || stream->begin_utc_ns > f->to_ns);
    f->stream_id = is_elsewhere ? 0 : stream->stream_id;
    sqlite3_reset(f->s);
    sqlite3_bind_int64(f->s, 1, (int64_t)f->stream_id);
}

/* One LEB128 number: 1, 0 at the end or when it is none. */
static int next_leb128(const uint8_t **at, const uint8_t *end, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t b = *(*at)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = v;
            return 1;
        }
    }
    return 0;
}

static int index_query_has_class(const ec_index_query *f, const uint8_t *at, size_t len_bytes) {
    const uint8_t *end = at + len_bytes;
    uint64_t id, events;
    while (next_leb128(&at, end, &id) && next_leb128(&at, end, &events)) {
        int64_t key = (int64_t)id;
        if (bsearch(&key, f->class_ids, f->class_count, sizeof key, compare_ids))
            return 1;
    }
    return 0;
}

static int has_pid(const ec_index_query *f, const uint8_t *at, size_t len_bytes) {
    const uint8_t *end = at + len_bytes;
    uint64_t pid = 0, step;
    size_t k = 0;
    while (k < f->filter->pid_count && next_leb128(&at, end, &step)) {
        pid += step;
        while (k < f->filter->pid_count && f->filter->pids[k] < pid)
            k++;
        if (k < f->filter->pid_count && f->filter->pids[k] == pid)
            return 1;
    }
    return 0;
}

int ec_index_query_next(ec_index_query *f, ec_found *ret, ea_err *err) {
    int code;
    if (!f->stream_id || (f->filter->classes && !f->class_count))
        return 0;
    while ((code = sqlite3_step(f->s)) == SQLITE_ROW) {
        if (f->filter->classes && sqlite3_column_type(f->s, 8) == SQLITE_BLOB &&
            !index_query_has_class(f, sqlite3_column_blob(f->s, 8), (size_t)sqlite3_column_bytes(f->s, 8))) {
            f->counts.other_classes++;
            continue;
        }
        if (f->filter->pids && sqlite3_column_type(f->s, 9) == SQLITE_BLOB &&
            !has_pid(f, sqlite3_column_blob(f->s, 9), (size_t)sqlite3_column_bytes(f->s, 9))) {
            f->counts.other_pids++;
            continue;
        }
        f->counts.given++;
        *ret = (ec_found){.row = {.stream_id = f->stream_id,
                                  .number = (uint64_t)sqlite3_column_int64(f->s, 0),
                                  .event_count = (uint32_t)sqlite3_column_int64(f->s, 1),
                                  .begin_utc_ns = sqlite3_column_int64(f->s, 2),
                                  .end_utc_ns = sqlite3_column_int64(f->s, 3),
                                  .len_bytes = (uint64_t)sqlite3_column_int64(f->s, 4),
                                  .segment = (uint64_t)sqlite3_column_int64(f->s, 5),
                                  .offset = (uint64_t)sqlite3_column_int64(f->s, 6)},
                          .kind = (uint32_t)sqlite3_column_int64(f->s, 7)};
        return 1;
    }
    return code == SQLITE_DONE ? 0 : index_query_fail(f->store, err, "look batches up");
}

const ec_index_query_counts *ec_index_query_counted(const ec_index_query *f) {
    return &f->counts;
}

int ec_index_query_batches(ec_index_query *f, uint64_t stream_id, uint64_t *ret, ea_err *err) {
    int rc = f->batches ? 0
                        : index_query_prepare(f->store,
                                              "SELECT count(*) FROM batches WHERE stream_id = ?1 AND event_count > 0",
                                              &f->batches, err);
    if (rc)
        return rc;
    sqlite3_reset(f->batches);
    sqlite3_bind_int64(f->batches, 1, (int64_t)stream_id);
    if (sqlite3_step(f->batches) != SQLITE_ROW)
        return index_query_fail(f->store, err, "count batches");
    *ret = (uint64_t)sqlite3_column_int64(f->batches, 0);
    return 0;
}

int ec_index_query_has_all(ec_index_query *f, uint64_t first, uint64_t last, ea_err *err) {
    int rc = f->count
                 ? 0
                 : index_query_prepare(f->store,
                                       "SELECT count(*) FROM batches WHERE stream_id = ?1 AND number BETWEEN ?2 AND ?3"
                                       " AND kind <> ?4",
                                       &f->count, err);
    if (rc)
        return rc;
    sqlite3_reset(f->count);
    sqlite3_bind_int64(f->count, 1, (int64_t)f->stream_id);
    sqlite3_bind_int64(f->count, 2, (int64_t)first);
    sqlite3_bind_int64(f->count, 3, (int64_t)last);
    sqlite3_bind_int(f->count, 4, EA_BATCH_TOMBSTONE);
    if (sqlite3_step(f->count) != SQLITE_ROW)
        return index_query_fail(f->store, err, "look batches up");
    return (uint64_t)sqlite3_column_int64(f->count, 0) == last - first + 1;
}

void ec_index_query_close(ec_index_query *f) {
    if (!f)
        return;
    sqlite3_finalize(f->s);
    sqlite3_finalize(f->count);
    sqlite3_finalize(f->batches);
    free(f->class_ids);
    free(f);
}

int ec_index_query_streams(ec_store *store, const char *host, int (*fn)(const ec_index_query_row *row, void *arg),
                           void *arg, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int code = SQLITE_DONE, stopped = 0;
    int rc =
        index_query_prepare(store,
                            host ? "SELECT stream_id, agent, stream, event_count, begin_utc_ns, end_utc_ns FROM streams"
                                   " WHERE agent = ?1 ORDER BY stream_id"
                                 : "SELECT stream_id, agent, stream, event_count, begin_utc_ns, end_utc_ns FROM streams"
                                   " ORDER BY stream_id",
                            &s, err);
    if (!rc && host && sqlite3_bind_text(s, 1, host, -1, SQLITE_STATIC) != SQLITE_OK)
        rc = index_query_fail(store, err, "read the streams");
    while (!rc && !stopped && (code = sqlite3_step(s)) == SQLITE_ROW) {
        ec_index_query_row row = {.stream_id = (uint64_t)sqlite3_column_int64(s, 0),
                                  .host = (const char *)sqlite3_column_text(s, 1),
                                  .event_count = (uint64_t)sqlite3_column_int64(s, 3),
                                  .begin_utc_ns = sqlite3_column_int64(s, 4),
                                  .end_utc_ns = sqlite3_column_int64(s, 5)};
        const void *id = sqlite3_column_blob(s, 2);
        if (id && sqlite3_column_bytes(s, 2) == EA_STREAM_ID_BYTES)
            memcpy(row.stream, id, EA_STREAM_ID_BYTES);
        if (row.host)
            stopped = fn(&row, arg);
    }
    if (!rc && !stopped && code != SQLITE_DONE)
        rc = index_query_fail(store, err, "read the streams");
    sqlite3_finalize(s);
    return rc;
}

int ec_index_query_classes(ec_store *store, ea_registry *registry, int (*fn)(const ea_class *c, void *arg), void *arg,
                           ea_err *err) {
    sqlite3_stmt *s = NULL;
    int code = SQLITE_DONE,
        rc = index_query_prepare(store, "SELECT description FROM classes ORDER BY class_id", &s, err);
    while (!rc && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const ea_class *c = NULL;
        rc = ea_registry_add_description(registry, sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0), &c,
                                         err);
        if (rc == EA_ELIMIT)
            rc = 0;
        else if (!rc)
            rc = fn(c, arg);
    }
    if (!rc && code != SQLITE_DONE)
        rc = index_query_fail(store, err, "read the classes");
    sqlite3_finalize(s);
    return rc;
}
