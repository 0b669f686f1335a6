/* The store: what was appended is there, once, and is found; classes, definitions and tombstones of an agent. */
#include "proto/wire/envelope.h"
#include "tests/unit/store_rig.h"

static int count_rows(const ec_stream_row *row, void *arg) {
    (void)row;
    ++*(int *)arg;
    return 0;
}

static void stores_and_reads(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    open_store(f);
    uint64_t events = 0;
    for (size_t i = 0; i < SENT; i++) {
        if (append(f, "alpha", &sent[i]) != EC_STORED)
            fail_msg("append: %s", f->err.message);
        events += sent[i].event_count;
    }
    ec_store *reader;
    assert_int_equal(ec_store_open(&reader, f->dir, &(ec_store_options){0}, &f->err), 0);
    int rows = 0;
    assert_int_equal(ec_store_each_stream(reader, NULL, count_rows, &rows, &f->err), 0);
    assert_int_equal(rows, 0); /* nothing is seen before the commit */
    commit(f);
    ec_stream_row row;
    assert_int_equal(ec_store_each_stream(reader, "alpha", keep_first, &row, &f->err), 0);
    assert_string_equal(row.host, "alpha");
    assert_string_equal(row.source_host, TEST_HOST);
    assert_int_equal(row.batch_count, SENT);
    assert_int_equal(row.event_count, events);
    assert_int_equal(row.highest_number, SENT);
    assert_int_equal(row.missing_count, 0);
    assert_true(row.begin_utc_ns == sent[0].begin_utc_ns && row.end_utc_ns == sent[SENT - 1].end_utc_ns);
    assert_int_equal(readable(f, reader, row.stream_id, sent, SENT), SENT);
    rows = 0;
    assert_int_equal(ec_store_each_stream(reader, "beta", count_rows, &rows, &f->err), 0);
    assert_int_equal(rows, 0);

    /* the stored classes explain the stored batches */
    ea_registry *registry;
    assert_int_equal(ea_registry_create(&registry, 0, &f->err), 0);
    assert_int_equal(ec_store_load_classes(reader, row.stream_id, sent[2].data, sent[2].len_bytes, registry, &f->err),
                     0);
    ea_batch_view *v;
    if (ea_batch_open(&v, sent[2].data, sent[2].len_bytes, registry, &f->err))
        fail_msg("%s", f->err.message);
    assert_int_equal(ea_batch_verify(v, &f->err), 0);
    ea_batch_close(v);
    ea_registry_destroy(registry);
    assert_int_equal(ec_store_append(reader, "alpha", sent[0].data, sent[0].len_bytes, &f->err), EA_EINVAL);
    ec_store_close(reader);
    free_all(sent, SENT);
}

typedef struct listing {
    const fixture *f;
    size_t count, limit;
    uint64_t last_id, batches;
} listing;

/* Rows are in order, and the store may be asked while they come. */
static int list_one(const ec_stream_row *row, void *arg) {
    listing *l = arg;
    ec_batch_row batch;
    ea_err err;
    char name[16];
    snprintf(name, sizeof name, "host-%03zu", l->count);
    assert_string_equal(row->host, name);
    assert_true(row->stream_id > l->last_id);
    assert_int_equal(row->highest_number, 1);
    l->batches += ec_store_next_batch(l->f->store, row->stream_id, 0, &batch, &err) == 1;
    l->last_id = row->stream_id;
    return ++l->count == l->limit;
}

static void lists_many_streams(void **state) {
    enum { HOSTS = 150 };

    static const size_t LIMITS[] = {0, 1, 63, 64, 65, 128, HOSTS};
    fixture *f = *state;
    test_batch sent;
    char name[16];
    int rows = 0;
    make_all(&sent, 1);
    open_store(f);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(name, sizeof name, "host-%03d", i);
        assert_int_equal(append(f, name, &sent), EC_STORED);
    }
    commit(f);
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        listing l = {.f = f, .limit = LIMITS[i]};
        assert_int_equal(ec_store_each_stream(f->store, NULL, list_one, &l, &f->err), 0);
        assert_int_equal(l.count, LIMITS[i] ? LIMITS[i] : HOSTS);
        assert_int_equal(l.batches, l.count);
    }
    assert_int_equal(ec_store_each_stream(f->store, "host-149", count_rows, &rows, &f->err), 0);
    assert_int_equal(rows, 1);
    free_all(&sent, 1);
}

/* One search over streams at different times: whatever the range, the batches that the index has there. */
static void finds_by_time_in_many_streams(void **state) {
    enum { TICK_NS = 1000000 };

    static const char *const NAMES[SENT] = {"host-0", "host-1", "host-2", "host-3", "host-4"};
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    open_store(f);
    for (size_t i = 0; i < SENT; i++)
        assert_int_equal(append(f, NAMES[i], &sent[i]), EC_STORED);
    commit(f);
    for (size_t from = 0; from < 2 * SENT; from++) {
        for (int moved = -2; moved <= 2; moved++) {
            int64_t edge = from % 2 ? sent[from / 2].end_utc_ns + 1 : sent[from / 2].begin_utc_ns;
            ec_index_query_filter filter = {.from_utc_ns = edge + moved * TICK_NS,
                                            .to_utc_ns = sent[SENT / 2].end_utc_ns};
            ec_index_query *find = NULL;
            assert_int_equal(ec_index_query_open(&find, f->store, &filter, &f->err), 0);
            for (size_t i = 0; i < SENT; i++) {
                ec_stream_row stream;
                ec_found found;
                int is_there = sent[i].end_utc_ns >= filter.from_utc_ns - TICK_NS &&
                               sent[i].begin_utc_ns <= filter.to_utc_ns + TICK_NS;
                assert_int_equal(ec_store_each_stream(f->store, NAMES[i], keep_first, &stream, &f->err), 0);
                ec_index_query_stream(find, &(ec_index_query_row){.stream_id = stream.stream_id,
                                                                  .begin_utc_ns = stream.begin_utc_ns,
                                                                  .end_utc_ns = stream.end_utc_ns});
                assert_int_equal(ec_index_query_next(find, &found, &f->err), is_there);
                if (!is_there)
                    continue;
                assert_int_equal(found.row.stream_id, stream.stream_id);
                assert_int_equal(found.row.number, i + 1);
                if (i % 2) /* the next stream may begin before this one ended */
                    assert_int_equal(ec_index_query_next(find, &found, &f->err), 0);
            }
            ec_index_query_close(find);
        }
    }
    free_all(sent, SENT);
}

static void duplicates_and_conflicts(void **state) {
    fixture *f = *state;
    test_batch sent[SENT], other;
    test_maker m;
    make_all(sent, SENT);
    test_maker_init(&m, 7); /* the same stream, other events under number 2 */
    test_make(&m, 2, 9, 5, &other);
    test_maker_deinit(&m);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_DUPLICATE); /* in the same group */
    assert_int_equal(append(f, "alpha", &other), EA_ECONFLICT);
    commit(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_DUPLICATE);
    assert_int_equal(append(f, "alpha", &other), EA_ECONFLICT);
    assert_int_equal(append(f, "beta", &other), EC_STORED); /* another agent's numbers are its own */
    commit(f);
    close_store(f);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_DUPLICATE);
    assert_int_equal(append(f, "alpha", &other), EA_ECONFLICT);
    assert_int_equal(append(f, "alpha", &sent[4]), EC_STORED);
    commit(f);
    ec_range ranges[4];
    size_t n = 0;
    assert_int_equal(ec_store_ranges(f->store, "alpha", sent[0].stream, ranges, 4, &n, &f->err), 0);
    assert_int_equal(n, 2);
    assert_true(ranges[0].first == 1 && ranges[0].last == 2 && ranges[1].first == 5 && ranges[1].last == 5);
    assert_int_equal(append(f, "alpha", &sent[3]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[2]), EC_STORED);
    commit(f);
    assert_int_equal(ec_store_ranges(f->store, "alpha", sent[0].stream, ranges, 4, &n, &f->err), 0);
    assert_int_equal(n, 1);
    assert_true(ranges[0].first == 1 && ranges[0].last == 5);
    ec_stream_row row;
    assert_int_equal(ec_store_each_stream(f->store, "alpha", keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, SENT);
    assert_int_equal(readable(f, f->store, row.stream_id, sent, SENT), SENT);
    free_all(sent, SENT);
    free(other.data);
}

static void refuses_what_cannot_be_read_back(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    open_store(f);
    static const uint8_t garbage[64] = {0xff, 1, 2, 3};
    int rc = ec_store_append(f->store, "alpha", garbage, sizeof garbage, &f->err);
    assert_true(rc == EA_EFORMAT || rc == EA_ECORRUPT);
    assert_true(ec_store_append(f->store, "alpha", garbage, 0, &f->err) < 0);
    /* cut anywhere: refused, and the next one is taken */
    for (size_t cut = 0; cut < sent[0].len_bytes; cut += 1 + sent[0].len_bytes / 64)
        assert_true(ec_store_append(f->store, "alpha", sent[0].data, cut, &f->err) < 0);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    commit(f);
    int rows = 0;
    assert_int_equal(ec_store_each_stream(f->store, NULL, count_rows, &rows, &f->err), 0);
    assert_int_equal(rows, 1);
    free_all(sent, SENT);
}

/* A bit of a record's payload that changed on the way: the envelope is as it was, and the columns can be read. */
static void refuses_another_content(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ea_counters counters = {0};
    make_all(sent, SENT);
    test_batch changed = sent[0];
    changed.data = malloc(changed.len_bytes);
    assert_non_null(changed.data);
    memcpy(changed.data, sent[0].data, changed.len_bytes);
    /* the pool's first bytes are the first event's payload: 0x07 and so on, counted by test_make */
    size_t at = 0;
    while (at + 4 < changed.len_bytes && memcmp(changed.data + at, (const uint8_t[]){7, 8, 9, 10}, 4) != 0)
        at++;
    assert_true(at + 4 < changed.len_bytes);
    changed.data[at] ^= 1;
    if (ec_store_open(&f->store, f->dir, &(ec_store_options){.writable = 1, .counters = &counters}, &f->err))
        fail_msg("open: %s", f->err.message);
    assert_int_equal(append(f, "alpha", &changed), EA_ECORRUPT);
    assert_non_null(strstr(f->err.message, "checksum"));
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_ingest_bad_checksums), 1);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED); /* its number is not taken */
    commit(f);
    ec_store_close(f->store);
    /* a store with trusts_checksums accepts it */
    if (ec_store_open(&f->store, f->dir, &(ec_store_options){.writable = 1, .trusts_checksums = 1}, &f->err))
        fail_msg("open: %s", f->err.message);
    assert_int_equal(append(f, "beta", &changed), EC_STORED);
    commit(f);
    free(changed.data);
    free_all(sent, SENT);
}

/* A batch of another agent without events, with count descriptions of classes that were not there before. */
static void crowd_one(fixture *f, uint32_t *which, size_t count, size_t entries) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "crowd";
    const ea_tombstone t = {.first = *which + 1, .last = *which + 1, .cause = 15};
    ea_text batch;
    ea_text_init(&batch);
    assert_int_equal(ea_batch_make_tombstone(STREAM, t.first, &t, 1, &batch, &f->err), 0);
    for (size_t i = 0; i < count; i++)
        test_describe(&batch, (*which)++, entries);
    assert_false(batch.failed);
    int rc = ec_store_append(f->store, "crowd", (const uint8_t *)batch.data, batch.len_bytes, &f->err);
    if (rc != EC_STORED)
        fail_msg("%u classes: %s", *which, f->err.message);
    ea_text_deinit(&batch);
}

/* In batches, as many as are needed. */
static void crowd(fixture *f, uint32_t *which, size_t count, size_t entries) {
    for (size_t n; count; count -= n) {
        n = count < EA_BATCH_MAX_DESCRIPTIONS ? count : EA_BATCH_MAX_DESCRIPTIONS;
        crowd_one(f, which, n, entries);
    }
}

/* The pages that a batch of many new classes changes stay in memory until the commit: of an index by hash each would be
 * written and read again several times. */
static void new_classes_are_written_once(void **state) {
    fixture *f = *state;
    uint32_t which = 0;
    int used = 0, spilled = 0, unused;
    open_store(f);
    sqlite3 *db = ec_store_database(f->store);
    crowd_one(f, &which, EA_BATCH_MAX_DESCRIPTIONS, 2);
    assert_int_equal(sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &used, &unused, 0), SQLITE_OK);
    assert_int_equal(sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_SPILL, &spilled, &unused, 0), SQLITE_OK);
    assert_true(used > 2 << 20); /* more than SQLite keeps unless it is set */
    assert_int_equal(spilled, 0);
    commit(f);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM classes"), EA_BATCH_MAX_DESCRIPTIONS);
}

static int count_class(const ea_class *c, void *arg) {
    (void)c;
    ++*(size_t *)arg;
    return 0;
}

/* What the collector remembers of classes is bounded, for all agents together: as many as one of them sends, and
 * however large they are, others' batches are stored, with new classes and with those of before. */
static void one_agents_classes_leave_room_for_others(void **state) {
    enum { CLASSES_MAX = 65536, OWN = 1, HUGE_ENTRIES = 100000, HUGE_COUNT = 80 };

    fixture *f = *state;
    test_maker m;
    test_batch described, undescribed, again;
    uint32_t which = 0;
    test_maker_init(&m, 3);
    test_make(&m, 1, 4, 0, &described);
    test_maker_forget_descriptions(&m);
    test_make(&m, 2, 4, 10, &undescribed);
    test_make(&m, 3, 4, 10, &again);
    test_maker_deinit(&m);
    open_store(f);
    assert_int_equal(append(f, "alpha", &described), EC_STORED);
    crowd(f, &which, CLASSES_MAX - OWN - 1, 0); /* and alpha's */
    crowd(f, &which, 1, 0);                     /* alpha's is forgotten */
    crowd(f, &which, CLASSES_MAX - OWN - 1, 0);
    if (append(f, "alpha", &undescribed) != EC_STORED)
        fail_msg("after %u classes: %s", which, f->err.message);
    for (int i = 0; i < HUGE_COUNT; i++)
        crowd(f, &which, 1, HUGE_ENTRIES);
    if (append(f, "alpha", &again) != EC_STORED)
        fail_msg("after huge classes: %s", f->err.message);
    commit(f);
    /* a query loads the classes that fit its limit, and continues without the others */
    ea_registry *registry;
    size_t count = 0;
    assert_int_equal(ea_registry_create(&registry, 0, &f->err), 0);
    if (ec_index_query_classes(f->store, registry, count_class, &count, &f->err))
        fail_msg("%s", f->err.message);
    assert_int_equal(count, CLASSES_MAX - OWN);
    ea_batch_view *v;
    if (ea_batch_open(&v, again.data, again.len_bytes, registry, &f->err))
        fail_msg("%s", f->err.message);
    ea_batch_close(v);
    ea_registry_destroy(registry);
    free(described.data);
    free(undescribed.data);
    free(again.data);
}

static void missing_classes_are_requested(void **state) {
    fixture *f = *state;
    test_maker m;
    test_batch described, undescribed, other;
    test_maker_init(&m, 3);
    test_make(&m, 1, 4, 0, &described);
    test_maker_forget_descriptions(&m);
    test_make(&m, 2, 4, 10, &undescribed);
    test_maker_deinit(&m);
    test_maker_init(&m, 4); /* another stream, whose collector knows nothing yet */
    test_maker_forget_descriptions(&m);
    test_make(&m, 1, 4, 0, &other);
    test_maker_deinit(&m);
    open_store(f);
    assert_int_equal(append(f, "alpha", &undescribed), EA_ENOTFOUND);
    const ec_store_notes *notes = ec_store_last_notes(f->store);
    assert_int_equal(notes->number, 2);
    assert_int_equal(notes->missing_count, 1);
    ea_hash_ref missing = notes->missing[0];
    assert_int_equal(missing.len_bytes, EA_CLASS_HASH_BYTES);
    assert_int_equal(append(f, "alpha", &described), EC_STORED);
    notes = ec_store_last_notes(f->store);
    assert_int_equal(notes->missing_count, 0);
    assert_int_equal(notes->described_count, 1);
    assert_memory_equal(notes->described[0].bytes, missing.bytes, EA_CLASS_HASH_BYTES);
    assert_int_equal(append(f, "alpha", &undescribed), EC_STORED);
    assert_int_equal(append(f, "beta", &other), EA_ENOTFOUND); /* descriptions in another stream do not count */
    commit(f);
    ec_stream_row row;
    int rows = 0;
    assert_int_equal(ec_store_each_stream(f->store, NULL, count_rows, &rows, &f->err), 0);
    assert_int_equal(rows, 1); /* a refused batch leaves no stream */
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, 2);
    free(described.data);
    free(undescribed.data);
    free(other.data);
}

static int count_statement(unsigned kind, void *arg, void *statement, void *sql) {
    (void)kind;
    (void)statement;
    (void)sql;
    ++*(size_t *)arg;
    return 0;
}

/* Appends a batch to which what its class descriptions, or shapes, are is added; returns how many statements of SQL
 * ran.
 */
static size_t statements_of(fixture *f, const test_batch *b, size_t classes, size_t shapes, int expected) {
    size_t count = 0;
    ea_text batch;
    ea_text_init(&batch);
    ea_text_add(&batch, b->data, b->len_bytes);
    for (size_t i = 0; i < classes; i++)
        test_describe(&batch, (uint32_t)i, 0);
    for (size_t i = 0; i < shapes; i++) /* field 22, 8 bytes */
        ea_text_printf(&batch, "\xb2\x01\x08%08zu", i);
    assert_int_equal(sqlite3_trace_v2(ec_store_database(f->store), SQLITE_TRACE_STMT, count_statement, &count),
                     SQLITE_OK);
    int rc = ec_store_append(f->store, "alpha", (const uint8_t *)batch.data, batch.len_bytes, &f->err);
    (void)sqlite3_trace_v2(ec_store_database(f->store), 0, NULL, NULL);
    if (rc != expected)
        fail_msg("%d: %s", rc, f->err.message);
    ea_text_deinit(&batch);
    return count;
}

/* A batch of tombstones of which the last one cannot be read has written nothing, either. */
static void tombstones_are_read_before_they_are_stored(void **state) {
    enum { COUNT = 1000 };

    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "tombs";
    fixture *f = *state;
    ea_tombstone graves[COUNT];
    ea_text batch;
    test_batch b;
    for (size_t i = 0; i < COUNT; i++)
        graves[i] = (ea_tombstone){.first = 10 + 2 * i, .last = 10 + 2 * i, .cause = 15};
    ea_text_init(&batch);
    assert_int_equal(ea_batch_make_tombstone(STREAM, graves[0].first, graves, COUNT, &batch, &f->err), 0);
    open_store(f);
    b = (test_batch){.data = (uint8_t *)batch.data, .len_bytes = batch.len_bytes};
    ea_text damaged;
    ea_text_init(&damaged);
    ea_text_add(&damaged, batch.data, batch.len_bytes);
    ea_text_add(&damaged, "\x7a\x02\x08\x00", 4); /* field 15: a tombstone whose first number is 0 */
    test_batch wrong = {.data = (uint8_t *)damaged.data, .len_bytes = damaged.len_bytes};
    assert_true(statements_of(f, &wrong, 0, 0, EA_ECORRUPT) < 20);
    assert_true(statements_of(f, &b, 0, 0, EC_STORED) > 3 * COUNT);
    commit(f);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM tombstones"), COUNT);
    ea_text_deinit(&batch);
    ea_text_deinit(&damaged);
}

/* Earlier agents put more tombstones into a batch than agents do now: it is stored and read back, and its index can be
 * made anew. One that comes again and again is not looked at whole. */
static void tombstones_of_an_earlier_agent(void **state) {
    enum { COUNT = EA_WRITER_TOMBSTONES + 900 };

    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "tombs";
    static ea_tombstone graves[COUNT];
    fixture *f = *state;
    ea_text batch;
    ec_stream_row stream;
    ec_batch_row row;
    const uint8_t *data;
    size_t len_bytes;
    char path[128];
    for (size_t i = 0; i < COUNT; i++)
        graves[i] = (ea_tombstone){.first = 10 + 2 * i, .last = 10 + 2 * i, .cause = 15};
    ea_text_init(&batch);
    assert_int_equal(ea_batch_make_tombstone(STREAM, graves[0].first, graves, COUNT, &batch, &f->err), 0);
    open_store(f);
    const test_batch b = {.data = (uint8_t *)batch.data, .len_bytes = batch.len_bytes};
    assert_int_equal(append(f, "alpha", &b), EC_STORED);
    commit(f);
    assert_in_range(statements_of(f, &b, 0, 0, EC_DUPLICATE), EA_WRITER_TOMBSTONES, EA_WRITER_TOMBSTONES + 20);
    commit(f);
    close_store(f);
    snprintf(path, sizeof path, "%s/index.db", f->dir);
    assert_int_equal(ea_path_remove(path, &f->err), 0);
    open_store(f);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM tombstones"), COUNT);
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &stream, &f->err), 0);
    assert_int_equal(ec_store_next_batch(f->store, stream.stream_id, 0, &row, &f->err), 1);
    assert_int_equal(ec_store_read(f->store, &row, &data, &len_bytes, &f->err), 0);
    assert_int_equal(len_bytes, batch.len_bytes);
    ea_text_deinit(&batch);
}

/* Descriptions are read by ec_store_check, on another thread: the thread that appends takes the classes from it, also
 * for a batch that it refuses; of an unreadable one it reads none. */
static void descriptions_are_read_by_the_check(void **state) {
    fixture *f = *state;
    test_maker m;
    test_batch b, next;
    ec_store *reader = NULL;
    size_t count = 0;
    test_maker_init(&m, 6);
    test_make(&m, 1, 3, 0, &b);
    test_make(&m, 2, 3, 0, &next);
    open_store(f);
    assert_int_equal(ec_store_open(&reader, f->dir, &(ec_store_options){0}, &f->err), 0);
    ec_check check = {.rc = ec_store_check(reader, "alpha", b.data, b.len_bytes, &f->err)};
    check.classes = ec_store_checked_classes(reader, &count);
    check.class_count = count;
    assert_int_equal(check.rc, EC_CHECK_SOUND);
    assert_int_equal(count, 1);
    assert_memory_equal(check.classes[0].bytes, m.c->hash, EA_CLASS_HASH_BYTES);
    ea_class_hash other = {.bytes = {1}};
    const ec_check wrong = {.rc = EC_CHECK_SOUND, .classes = &other, .class_count = 1};
    assert_int_equal(ec_store_append_checked(f->store, "alpha", b.data, b.len_bytes, &wrong, &f->err), EA_ENOTFOUND);
    check.rc = EC_CHECK_EARLY; /* its records are read here, by its descriptions */
    assert_int_equal(ec_store_append_checked(f->store, "alpha", b.data, b.len_bytes, &check, &f->err), EC_STORED);
    commit(f);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM classes"), 1);
    /* two bytes that are no description, in field 12 */
    ea_text damaged;
    ea_text_init(&damaged);
    ea_text_add(&damaged, (const char *)next.data, next.len_bytes);
    ea_text_add(&damaged, "\x62\x02\xff\xff", 4);
    const uint8_t *data = (const uint8_t *)damaged.data;
    check = (ec_check){.rc = ec_store_check(reader, "alpha", data, damaged.len_bytes, &f->err), .text = "unreadable"};
    (void)ec_store_checked_classes(reader, &count);
    assert_true(check.rc < 0);
    assert_int_equal(count, 0);
    assert_int_equal(ec_store_append(f->store, "alpha", data, damaged.len_bytes, &f->err), check.rc);
    assert_int_equal(ec_store_append_checked(f->store, "alpha", data, damaged.len_bytes, &check, &f->err), check.rc);
    assert_string_equal(f->err.message, "unreadable"); /* said without a look at it */
    ec_store_close(reader);
    ea_text_deinit(&damaged);
    free(b.data);
    free(next.data);
    test_maker_deinit(&m);
}

/* Batch `number` of a stream with one definition of 1,000 bytes more; tag: its field, two bytes. */
static int append_defining(fixture *f, const test_maker *m, uint64_t number, const char *tag) {
    test_batch b;
    ea_text batch;
    test_make(m, number, 1, 0, &b);
    ea_text_init(&batch);
    ea_text_add(&batch, (const char *)b.data, b.len_bytes);
    ea_text_printf(&batch, "%s\xe8\x07%01000d", tag, (int)number);
    int rc = ec_store_append(f->store, "alpha", (const uint8_t *)batch.data, batch.len_bytes, &f->err);
    ea_text_deinit(&batch);
    free(b.data);
    return rc;
}

/* A stream keeps eight dictionaries: a ninth one takes nothing of its agent's bytes, and is no reason to refuse its
 * batch. */
static void a_dictionary_that_is_not_kept_counts_nothing(void **state) {
    enum { KEPT = 8 };

    static const char DICTIONARY[] = "\xc2\x01", SHAPE[] = "\xb2\x01"; /* fields 24 and 22 */
    fixture *f = *state;
    test_maker m;
    test_maker_init(&m, 5);
    ec_store_options o = {.writable = 1, .agent_definition_bytes = KEPT * 1512 + 1000, .counters = &f->counters};
    assert_int_equal(ec_store_open(&f->store, f->dir, &o, &f->err), 0);
    for (uint64_t n = 1; n <= KEPT; n++)
        assert_int_equal(append_defining(f, &m, n, DICTIONARY), EC_STORED);
    assert_int_equal(append_defining(f, &m, KEPT + 1, DICTIONARY), EC_STORED);
    assert_int_equal(append_defining(f, &m, KEPT + 2, SHAPE), EA_EREFUSED);
    commit(f);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM stream_definitions WHERE kind = 24"), KEPT);
    test_maker_deinit(&m);
}

/* A description that the stream has costs no statement; a batch that is refused in the end has written nothing, so that
 * what it described is unknown, and nothing is taken back. */
static void known_names_cost_no_statements(void **state) {
    enum { CLASSES = 200, SHAPES = 300, NUMBERS = 6 };

    fixture *f = *state;
    test_maker m;
    test_batch sent[NUMBERS], undescribed[2];
    f->segment_bytes = 1; /* a segment each */
    test_maker_init(&m, 5);
    for (size_t i = 0; i < NUMBERS; i++)
        test_make(&m, 10 + i, 4, 0, &sent[i]);
    test_maker_forget_descriptions(&m);
    test_make(&m, 1, 4, 0, &undescribed[0]);
    test_make(&m, 2, 4, 0, &undescribed[1]);
    test_maker_deinit(&m);
    open_store(f);
    /* its own class is described by no batch: 500 rows are not written for that */
    size_t refused = statements_of(f, &undescribed[0], CLASSES, SHAPES, EA_ENOTFOUND);
    assert_true(refused < 20);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM classes"), 0);
    size_t fresh = statements_of(f, &sent[0], CLASSES, SHAPES, EC_STORED);
    assert_true(fresh > 3 * CLASSES + 4 * SHAPES);
    commit(f);
    size_t plain = statements_of(f, &sent[1], 0, 0, EC_STORED); /* the transaction's begin is one of them */
    commit(f);
    size_t known = statements_of(f, &sent[2], CLASSES, SHAPES, EC_STORED);
    const ec_store_notes *notes = ec_store_last_notes(f->store);
    assert_int_equal(notes->described_count, 1 + CLASSES + SHAPES); /* each is acknowledged again */
    assert_int_equal(known, plain);
    /* a group that is taken back takes back what was known of it */
    size_t more = statements_of(f, &sent[3], CLASSES + 1, SHAPES + 1, EC_STORED);
    assert_true(more >= plain && more < plain + 20);
    ec_store_close(f->store);
    open_store(f);
    more = statements_of(f, &sent[3], CLASSES + 1, SHAPES + 1, EC_STORED);
    assert_true(more > plain);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM classes"), CLASSES + 2);
    commit(f);
    assert_int_equal(statements_of(f, &sent[4], CLASSES + 1, SHAPES + 1, EC_STORED), plain);
    commit(f);
    /* deleted with the stream's batches */
    retain_all(f, &(ec_retention){.bytes = 1});
    assert_int_equal(ask_index(f, "SELECT count(*) FROM definitions"), 0);
    more = statements_of(f, &sent[5], 0, SHAPES, EC_STORED);
    assert_true(more > 3 * SHAPES);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM definitions"), SHAPES);
    commit(f);
    for (size_t i = 0; i < NUMBERS; i++)
        free(sent[i].data);
    free(undescribed[0].data);
    free(undescribed[1].data);
}

static void tombstones(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ea_text stone;
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[3]), EC_STORED);
    commit(f);
    ec_stream_row row;
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
    assert_int_equal(row.missing_count, 2);
    ea_tombstone gone = {.first = 2, .last = 4, .cause = 15, .event_count = 30};
    ea_text_init(&stone);
    assert_int_equal(ea_batch_make_tombstone(sent[0].stream, 2, &gone, 1, &stone, &f->err), 0);
    test_batch stone_batch = {.data = (uint8_t *)stone.data, .len_bytes = stone.len_bytes};
    assert_int_equal(append(f, "alpha", &stone_batch), EC_STORED);
    commit(f);
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
    assert_int_equal(row.missing_count, 0);
    assert_int_equal(row.highest_number, 4);
    assert_int_equal(append(f, "alpha", &stone_batch), EC_DUPLICATE);
    /* events that come after all are better than the stone, and a stone for stored events adds nothing */
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    assert_int_equal(append(f, "alpha", &stone_batch), EC_DUPLICATE);
    commit(f);
    assert_int_equal(readable(f, f->store, row.stream_id, sent, SENT), 3);
    ea_text_deinit(&stone);
    free_all(sent, SENT);
}

/* A batch arrived, but its agent got no acknowledgement and evicted it with others. The tombstone is stored under the
 * number of the batch, and the other batches are recorded as lost nevertheless. This also holds after the index is
 * rebuilt. */
static void a_tombstone_under_a_number_that_came(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ea_text stone, more;
    char path[128];
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[3]), EC_STORED);
    commit(f);
    ea_tombstone gone[] = {{.first = 2, .last = 3, .cause = 15, .event_count = 20},
                           {.first = 5, .last = 9, .cause = 15, .event_count = 50}};
    ea_text_init(&stone);
    ea_text_init(&more);
    assert_int_equal(ea_batch_make_tombstone(sent[0].stream, 2, gone, 1, &stone, &f->err), 0);
    assert_int_equal(ea_batch_make_tombstone(sent[0].stream, 2, gone, 2, &more, &f->err), 0);
    const test_batch stones[] = {{.data = (uint8_t *)stone.data, .len_bytes = stone.len_bytes},
                                 {.data = (uint8_t *)more.data, .len_bytes = more.len_bytes}};
    ec_stream_row row;
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(append(f, "alpha", &stones[i]), again ? EC_DUPLICATE : EC_STORED);
            assert_int_equal(ec_store_last_notes(f->store)->number, 2); /* what is acknowledged */
        }
        commit(f);
        assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
        assert_int_equal(row.missing_count, 0);
        assert_int_equal(row.highest_number, 9);
        assert_int_equal(row.batch_count, 5);
        assert_int_equal(append(f, "alpha", &sent[1]), EC_DUPLICATE); /* it is there still */
        if (again == 1) {
            close_store(f);
            snprintf(path, sizeof path, "%s/index.db", f->dir);
            assert_int_equal(ea_path_remove(path, &f->err), 0);
            open_store(f);
        }
    }
    ea_text_deinit(&stone);
    ea_text_deinit(&more);
    free_all(sent, SENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stores_and_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_many_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_by_time_in_many_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(duplicates_and_conflicts, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_cannot_be_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_another_content, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_classes_are_requested, setup, teardown),
        cmocka_unit_test_setup_teardown(new_classes_are_written_once, setup, teardown),
        cmocka_unit_test_setup_teardown(one_agents_classes_leave_room_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(known_names_cost_no_statements, setup, teardown),
        cmocka_unit_test_setup_teardown(tombstones_are_read_before_they_are_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(tombstones_of_an_earlier_agent, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptions_are_read_by_the_check, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dictionary_that_is_not_kept_counts_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(tombstones, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tombstone_under_a_number_that_came, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
