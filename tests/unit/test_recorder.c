/* The recorder: a spool as a ring, what becomes of its events at its limits and after a kill, and files of batches. */

#include "proto/wire/batch_file.h"
#include "service/spool/recorder.h"
#include "tests/unit/spool_kit.h"

static const ea_spool_options RING = {
    .limit_bytes = 64 << 10, .segment_bytes = 16 << 10, .sync = EA_SPOOL_SYNC_NEVER, .live = 1, .is_recorder = 1};

/* ---- the ring ---- */

static void the_oldest_is_removed(void **state) {
    (void)state;
    ea_err err;
    ea_spool_status status;
    ea_spool *s = open_with(&RING);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 40; n++) {
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
        ea_spool_get_status(s, &status);
        assert_true(status.disk_bytes <= 64 << 10);
        assert_int_equal(counter(EA_COUNT_events_recorded) + counter(EA_COUNT_events_removed_size), 10 * n);
        assert_int_equal(status.events, counter(EA_COUNT_events_recorded));
    }
    assert_in_range(counter(EA_COUNT_events_removed_size), 280, 380);
    assert_in_range(counter(EA_COUNT_recorder_files_removed), 9, 14);
    assert_int_equal(counter(EA_COUNT_events_spooled) + counter(EA_COUNT_events_evicted_size), 0);
    assert_int_equal(status.waiting, counter(EA_COUNT_events_recorded) / 10); /* no tombstones */
    close_spool(s);
    assert_false(ea_path_exists(scratch_path("spool/classes")));
}

static void a_later_run_continues_the_ring(void **state) {
    (void)state;
    ea_err err;
    ea_spool_status status;
    ea_spool *s = open_with(&RING);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 10; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
    uint64_t kept = counter(EA_COUNT_events_recorded);
    close_spool(s);
    new_process();
    s = open_with(&RING);
    ea_spool_get_status(s, &status);
    assert_int_equal(status.events, kept);
    assert_int_equal(counter(EA_COUNT_events_recorded), 0); /* the earlier run's ledger has ended */
    begin(s, OTHER, 0);
    for (uint64_t n = 1; n <= 20; n++)
        must(offer_batch(s, OTHER, n, 10, 1, 5000, &err), &err);
    assert_int_equal(counter(EA_COUNT_recorder_earlier_removed), kept);
    assert_int_equal(counter(EA_COUNT_events_recorded) + counter(EA_COUNT_events_removed_size), 200);
    close_spool(s);
}

static void the_too_old_is_removed(void **state) {
    (void)state;
    ea_err err;
    ea_spool_options o = RING;
    o.limit_age_ns = 10000000;
    ea_spool *s = open_with(&o);
    begin(s, STREAM, 0);
    must(offer_batch(s, STREAM, 1, 10, 1, 5000, &err), &err);
    for (int i = 0; i < 500 && !counter(EA_COUNT_events_removed_age); i++)
        ea_sleep_ns(10000000); /* it looks each second */
    assert_int_equal(counter(EA_COUNT_events_removed_age), 10);
    assert_int_equal(counter(EA_COUNT_events_recorded), 0);
    check_ledger();
    close_spool(s);
}

static void what_never_fits_is_unrecorded(void **state) {
    (void)state;
    ea_err err;
    ea_spool *s = open_with(&RING);
    begin(s, STREAM, 0);
    must(offer_batch(s, STREAM, 1, 10, 1, 70000, &err), &err); /* larger than the ring */
    assert_int_equal(counter(EA_COUNT_events_unrecorded), 10);
    must(offer_batch(s, STREAM, 2, 10, 1, 5000, &err), &err);
    assert_int_equal(counter(EA_COUNT_events_recorded), 10);
    close_spool(s);
}

/* Each run has a stream of its own, as long as its batches are in the ring: when there is no place for one more, the
 * oldest file goes, also when the ring has room. */
static void runs_are_not_bounded(void **state) {
    enum { ALL = 1024, OTHERS = ALL - 6, RUNS = 12 };

    (void)state;
    ea_err err;
    ea_spool_status status;
    ea_spool_options o = RING;
    o.limit_bytes = 1 << 20;
    ea_spool *s = open_with(&o);
    for (uint32_t i = 1; i <= OTHERS + RUNS; i++) {
        uint8_t id[EA_STREAM_ID_BYTES] = {0};
        memcpy(id, &i, sizeof i);
        begin(s, id, i <= OTHERS); /* these take places alone; they have no batches */
        if (i <= OTHERS)
            continue;
        must(offer_batch(s, id, 1, 10, 1, 5000, &err), &err);
        ea_spool_stream_end(s, id, 0);
    }
    ea_spool_get_status(s, &status);
    assert_in_range(status.streams, OTHERS + 1, ALL);
    assert_int_equal(status.events, counter(EA_COUNT_events_recorded));
    assert_in_range(counter(EA_COUNT_events_removed_size), 60, 100);
    assert_int_equal(counter(EA_COUNT_events_recorded) + counter(EA_COUNT_events_removed_size), 10 * RUNS);
    close_spool(s);
}

static void batches_are_not_bounded(void **state) {
    (void)state;
    ea_err err;
    ea_spool_status status;
    ea_spool_options o = RING;
    o.limit_batches = 8;
    ea_spool *s = open_with(&o);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 40; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 100, &err), &err);
    ea_spool_get_status(s, &status);
    assert_int_equal(status.waiting, 40);
    assert_int_equal(counter(EA_COUNT_events_recorded), 400);
    close_spool(s);
}

/* ---- opening without reading ---- */

typedef struct files {
    char dir[200], names[16][24], path[256];
    size_t count;
} files;

static int add_segment(const char *name, int is_dir, void *arg) {
    files *f = arg;
    size_t n = strlen(name);
    (void)is_dir;
    if (n > 4 && strcmp(name + n - 4, ".seg") == 0) {
        assert_true(f->count < 16);
        snprintf(f->names[f->count++], sizeof f->names[0], "%s", name);
    }
    return 0;
}

static files ring_files(const char *name) {
    ea_err err;
    files f = {.count = 0};
    snprintf(f.dir, sizeof f.dir, "%s", scratch_path(name));
    must(ea_path_list(f.dir, add_segment, &f, &err), &err);
    assert_true(f.count > 0);
    return f;
}

static void file_path(files *f, size_t i) {
    char path[sizeof f->path];
    snprintf(path, sizeof path, "%s/%s", f->dir, f->names[i]);
    memcpy(f->path, path, sizeof path);
}

/* Damages each file, at a place from its begin, or from its end when that is negative. */
static void damage(const char *name, int place) {
    files f = ring_files(name);
    for (size_t i = 0; i < f.count; i++) {
        char *data;
        size_t len_bytes;
        file_path(&f, i);
        read_file(f.path, &data, &len_bytes);
        data[place < 0 ? len_bytes - (size_t)-place : (size_t)place] ^= 0x55;
        write_file(f.path, data, len_bytes);
        free(data);
    }
}

/* Files in whose middle a byte is wrong: an opening that reads them counts it. */
static void an_opening_reads_no_file(void **state) {
    (void)state;
    ea_err err;
    ea_spool_status before, now;
    ea_spool *s = open_with(&RING);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 20; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
    ea_spool_get_status(s, &before);
    close_spool(s);
    damage("spool", 2000);
    new_process();
    s = open_with(&RING);
    ea_spool_get_status(s, &now);
    assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 0);
    assert_int_equal(now.events, before.events);
    assert_int_equal(now.waiting, before.waiting);
    assert_in_range(now.disk_bytes, before.disk_bytes, before.disk_bytes + 256); /* the last file's summary */
    close_spool(s);
    damage("spool", -20); /* the summary itself: then the file is read, and gets another one */
    for (int i = 0; i < 2; i++) {
        new_process();
        s = open_with(&RING);
        ea_spool_get_status(s, &now);
        assert_true(now.events < before.events && now.events >= before.events / 2);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes) + counter(EA_COUNT_spool_torn_bytes) > 0, i == 0);
        close_spool(s);
    }
}

static void copy_segments(const char *to) {
    ea_err err;
    files f = ring_files("spool");
    must(ea_path_make_dirs(scratch_path(to), &err), &err);
    for (size_t i = 0; i < f.count; i++) {
        char *data, path[300];
        size_t len_bytes;
        file_path(&f, i);
        read_file(f.path, &data, &len_bytes);
        snprintf(path, sizeof path, "%s/%s", scratch_path(to), f.names[i]);
        write_file(path, data, len_bytes);
        free(data);
    }
}

/* After a kill only the file is read that was being written, and only once. */
static void after_a_kill_one_file_is_read(void **state) {
    (void)state;
    ea_err err;
    ea_spool_status before, now;
    ea_spool_options o = RING;
    o.counters = &counters;
    ea_spool *s = open_with(&RING);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 8; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
    ea_spool_get_status(s, &before);
    copy_segments("killed");
    close_spool(s);
    for (int i = 0; i < 2; i++) {
        new_process();
        if (i)
            damage("killed", 2000);
        must(ea_spool_open(&s, scratch_path("killed"), &o, &err), &err);
        ea_spool_get_status(s, &now);
        assert_int_equal(now.events, before.events);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 0);
        close_spool(s);
    }
}

/* A stream's new name: numbers stay, and a later process finds the events under it. */
static void a_renewed_recording_is_found(void **state) {
    (void)state;
    ea_err err;
    uint64_t count = 0, events = 0;
    uint8_t recording[EA_STREAM_ID_BYTES], other[EA_STREAM_ID_BYTES];
    ea_spool *s;
    ea_last_numbers *n = calloc(1, sizeof *n);
    ea_spool_options o = RING;
    assert_non_null(n);
    o.counters = &counters;
    ea_recorder_stream(STREAM, recording);
    ea_recorder_stream(OTHER, other);
    for (int i = 0; i < 2; i++) {
        must(ea_spool_open(&s, scratch_path("spool/recorder/x"), &o, &err), &err);
        if (!i) {
            must(ea_spool_stream(s, recording, 0, 0, ledger, &err), &err);
            for (uint64_t k = 1; k <= 5; k++)
                must(offer_batch(s, recording, k, 10, 1, 5000, &err), &err);
            must(ea_spool_renew(s, recording, other, &count, &err), &err);
            assert_int_equal(count, 5);
            for (uint64_t k = 6; k <= 8; k++)
                must(offer_batch(s, other, k, 10, 1, 5000, &err), &err);
            assert_int_equal(counter(EA_COUNT_events_recorded), 80);
        }
        close_spool(s); /* the second time from the summaries alone */
        must(ea_recorder_find(scratch_path("spool"), NULL, OTHER, n, &events, &err), &err);
        assert_int_equal(events, 80);
        must(ea_recorder_find(scratch_path("spool"), NULL, STREAM, n, &events, &err), &err);
        assert_int_equal(events, 0);
    }
    free(n);
}

/* ---- names ---- */

enum { SEEN_BYTES = 64 };

static int list_recorder(const char *dir, const char *name, void *arg) {
    char *seen = arg;
    size_t n = strlen(seen);
    assert_non_null(strstr(dir, name));
    snprintf(seen + n, SEEN_BYTES - n, "%s,", name);
    return 0;
}

static void recorders_are_listed_by_name(void **state) {
    (void)state;
    ea_err err;
    char dir[256], seen[SEEN_BYTES] = "";
    uint8_t once[EA_STREAM_ID_BYTES], twice[EA_STREAM_ID_BYTES];
    must(ea_recorder_each(scratch_path("none"), list_recorder, seen, &err), &err);
    assert_string_equal(seen, "");
    must(ea_recorder_folder(scratch_path("root"), "b", dir, sizeof dir, &err), &err);
    must(ea_path_make_dirs(dir, &err), &err);
    must(ea_recorder_folder(scratch_path("root"), "a", dir, sizeof dir, &err), &err);
    must(ea_path_make_dirs(dir, &err), &err);
    must(ea_recorder_each(scratch_path("root"), list_recorder, seen, &err), &err);
    assert_string_equal(seen, "a,b,");
    assert_int_equal(ea_recorder_folder(scratch_path("root"), "a", dir, 8, &err), EA_ELIMIT);
    ea_recorder_stream(STREAM, once);
    assert_memory_not_equal(STREAM, once, sizeof once);
    ea_recorder_stream(once, twice);
    assert_memory_equal(STREAM, twice, sizeof twice);
}

/* ---- a stream that was cut off ---- */

/* These batches have no numbers in them: what is on the disk counts, and the rest is lost. */
static void recorded_events_are_found(void **state) {
    (void)state;
    ea_err err;
    uint64_t events = 0;
    uint8_t recording[EA_STREAM_ID_BYTES];
    ea_spool *s;
    ea_last_numbers *n = calloc(1, sizeof *n);
    assert_non_null(n);
    ea_spool_options o = RING;
    o.counters = &counters;
    ea_recorder_stream(STREAM, recording);
    must(ea_spool_open(&s, scratch_path("spool/recorder/x"), &o, &err), &err);
    must(ea_spool_stream(s, recording, 0, 0, ledger, &err), &err);
    for (uint64_t i = 1; i <= 5; i++)
        must(offer_batch(s, recording, i, 10, 1, 500, &err), &err);
    close_spool(s);
    n->values[EA_COUNT_events_batched] = 64;
    must(ea_recorder_find(scratch_path("spool"), NULL, STREAM, n, &events, &err), &err);
    assert_int_equal(events, 50);
    assert_int_equal(ea_last_numbers_settle(n, EA_COUNT_events_recorded, events), 0);
    assert_int_equal(n->values[EA_COUNT_events_recorded], 50);
    assert_int_equal(n->values[EA_COUNT_events_evicted_damage], 14);
    assert_int_equal(n->values[EA_COUNT_events_spooled], 0);
    /* of this one the ring has nothing any more: what it had was removed, not lost */
    memset(n, 0, sizeof *n);
    n->values[EA_COUNT_events_batched] = 64;
    n->values[EA_COUNT_events_recorded] = 50;
    n->values[EA_COUNT_events_removed_size] = 10;
    must(ea_recorder_find(scratch_path("spool"), NULL, OTHER, n, &events, &err), &err);
    assert_int_equal(events, 0);
    (void)ea_last_numbers_settle(n, EA_COUNT_events_recorded, events);
    assert_int_equal(n->values[EA_COUNT_events_recorded], 0);
    assert_int_equal(n->values[EA_COUNT_events_removed_size], 60);
    assert_int_equal(n->values[EA_COUNT_events_evicted_damage], 4);
    free(n);
}

/* ---- files of batches ---- */

typedef struct found {
    size_t count, bytes;
} found;

static int see_batch(const uint8_t *batch, size_t len_bytes, void *arg) {
    found *f = arg;
    f->count++;
    f->bytes += len_bytes;
    assert_int_equal(batch[0], f->count);
    return 0;
}

static size_t write_batches(const char *path) {
    ea_batch_file_writer w;
    ea_file *file;
    ea_err err;
    uint8_t batch[100] = {0};
    must(ea_file_open(&file, path, EA_OPEN_CREATE, &err), &err);
    must(ea_batch_file_begin(&w, file, &err), &err);
    for (uint8_t i = 1; i <= 3; i++) {
        batch[0] = i;
        must(ea_batch_file_add(&w, batch, 30u * i, &err), &err);
    }
    assert_int_equal(ea_batch_file_add(&w, batch, 0, &err), EA_EINVAL);
    must(ea_batch_file_end(&w, &err), &err);
    ea_file_close(file);
    return (size_t)w.at;
}

static void a_file_of_batches_is_read_back(void **state) {
    (void)state;
    ea_err err;
    found f = {0};
    const char *path = scratch_path("x.etwb");
    size_t size = write_batches(path);
    assert_int_equal(size, 8 + 3 * 4 + 180 + 20);
    assert_true(ea_path_is_batch_file(path));
    must(ea_batch_file_each(path, see_batch, &f, &err), &err);
    assert_int_equal(f.count, 3);
    assert_int_equal(f.bytes, 180);
}

/* Each beginning of the file, and each changed byte: never more than the batches, and always a reason. */
static void a_broken_file_is_refused(void **state) {
    (void)state;
    ea_err err;
    char *data;
    size_t size, len_bytes;
    const char *path = scratch_path("x.etwb"), *broken = scratch_path("broken.etwb");
    size = write_batches(path);
    read_file(path, &data, &len_bytes);
    for (size_t n = 0; n < size; n++) {
        found f = {0};
        write_file(broken, data, n);
        int rc = ea_batch_file_each(broken, see_batch, &f, &err);
        assert_int_equal(rc, n < 8 ? EA_EFORMAT : EA_ETRUNCATED);
        assert_true(f.count <= 3);
    }
    data[size - 1] ^= 1;
    write_file(broken, data, size);
    assert_int_equal(ea_batch_file_each(broken, see_batch, &(found){0}, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "does not fit its batches"));
    data[size - 1] ^= 1;
    data[8 + 3] = 0x7f; /* a batch of 2 GiB */
    write_file(broken, data, size);
    assert_int_equal(ea_batch_file_each(broken, see_batch, &(found){0}, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "a batch of "));
    data[0] ^= 1;
    write_file(broken, data, size);
    assert_int_equal(ea_batch_file_each(broken, see_batch, &(found){0}, &err), EA_EFORMAT);
    assert_false(ea_path_is_batch_file(broken));
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TWICE(the_oldest_is_removed),    TWICE(a_later_run_continues_the_ring),
        T(the_too_old_is_removed),       T(what_never_fits_is_unrecorded),
        T(runs_are_not_bounded),         T(recorders_are_listed_by_name),
        T(recorded_events_are_found),    T(a_file_of_batches_is_read_back),
        T(batches_are_not_bounded),      TWICE(an_opening_reads_no_file),
        T(a_renewed_recording_is_found), TWICE(after_a_kill_one_file_is_read),
        T(a_broken_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
