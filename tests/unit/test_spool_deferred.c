/* Owed tombstones (the spool was too full for them), and a kill. A copy of the files at that moment is what a killed
 * process leaves. The counts of the evicted events must be recovered from it. */
#include "tests/unit/spool_kit.h"

#include "proto/base/bytes.h"

#include <stdio.h>

enum {
    KEPT = 8,             /* security batches that fill the spool */
    FIRST_DEFERRED = 11,  /* after two tombstones, which may go beyond the bound */
    LAST = 40,            /* batches that are offered */
    DEFERRED_ROW_AT = 24, /* of a slot of the file "owed": see spool_deferred.c */
    DEFERRED_SLOT_BYTES = 24 + 512 * 64 + 8,
};

static const ea_spool_options NARROW = {.limit_batches = KEPT, .sync = EA_SPOOL_SYNC_NEVER};

static int copy_one(const char *name, int is_dir, void *arg) {
    char from[1024], to[1024], *data;
    const char *const *folders = arg;
    size_t len_bytes;
    if (is_dir || strcmp(name, "lock") == 0)
        return 0;
    snprintf(from, sizeof from, "%s/%s", folders[0], name);
    snprintf(to, sizeof to, "%s/%s", folders[1], name);
    read_file(from, &data, &len_bytes);
    write_file(to, data, len_bytes);
    free(data);
    return 0;
}

/* The files of one folder, as they are now, into another one. */
static void copy_files(const char *from, const char *to) {
    ea_err err;
    const char *folders[] = {from, to};
    must(ea_path_make_dirs(to, &err), &err);
    must(ea_path_list(from, copy_one, folders, &err), &err);
}

/* Another process opens the files of a killed process in the folder, and delivers everything. A third process finds
 * nothing to report. */
static void take_up(const char *folder, arrived *a) {
    ea_err err;
    for (int turn = 0; turn < 2; turn++) {
        ea_spool *s;
        arrived none = {0};
        ea_spool_options o = {.sync = EA_SPOOL_SYNC_NEVER, .key_path = sealed ? scratch_path("key") : NULL};
        must(ea_spool_open(&s, folder, &o, &err), &err);
        ea_spool_item item;
        arrived *to = turn ? &none : a;
        while (ea_spool_take(s, 1, &item, 1)) {
            ea_text body;
            ea_batch_head head;
            ea_text_init(&body);
            must(ea_spool_read(s, &item, &body, &err), &err);
            if (ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err)) {
                to->batch[item.number]++;
                to->batch_events += item.event_count;
            }
            must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, on_tombstone, to, &err), &err);
            ea_text_deinit(&body);
            uint8_t done = EA_SPOOL_DONE;
            must(ea_spool_settle(s, &item, &done, 1, &err), &err);
        }
        close_spool(s);
        assert_int_equal(none.batch_events + none.gone_count, 0);
    }
    assert_int_equal(scratch_remove_folder(folder), 0);
}

static void check_all_once(const arrived *a, uint64_t last) {
    for (uint64_t n = 1; n <= 2000; n++)
        if (a->batch[n] + a->tombstone[n] != (n <= last))
            fail_msg("number %llu of %llu: %d batches, %d tombstones", (unsigned long long)n, (unsigned long long)last,
                     a->batch[n], a->tombstone[n]);
}

/* A spool full of batches of higher priority, and batches of 10 events that are evicted. Their tombstones are owed from
 * the third on. */
static ea_spool *fill(uint64_t last) {
    ea_err err;
    ea_spool *s = open_with(&NARROW);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= last; n++)
        must(offer_batch(s, STREAM, n, 10, n <= KEPT ? 2 : 0, 100, &err), &err);
    return s;
}

/* The same; the state file has come to know the stream, as it does within a second of delivering. */
static ea_spool *fill_and_save(uint64_t last) {
    ea_err err;
    ea_spool_item item;
    ea_spool *s = fill(KEPT);
    ea_sleep_ns(1100000000);
    assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
    settle_one(s, &item, EA_SPOOL_AGAIN);
    for (uint64_t n = KEPT + 1; n <= last; n++)
        must(offer_batch(s, STREAM, n, 10, 0, 100, &err), &err);
    return s;
}

/* Killed at each moment: each number arrives once, and each evicted event is counted. */
static void a_kill_costs_no_counts(void **state) {
    (void)state;
    ea_err err;
    ea_spool *s = fill(KEPT);
    for (uint64_t n = KEPT + 1; n <= LAST; n++) {
        arrived a = {0};
        must(offer_batch(s, STREAM, n, 10, 0, 100, &err), &err);
        copy_files(scratch_path("spool"), scratch_path("killed"));
        take_up(scratch_path("killed"), &a);
        check_all_once(&a, n);
        assert_int_equal(a.batch_events, 10 * KEPT);
        assert_int_equal(a.tombstone_events, 10 * (n - KEPT));
        for (size_t i = 0; i < a.gone_count; i++)
            assert_int_equal(a.cause[i], ea_counter_row(EA_COUNT_events_evicted_size)->number);
    }
    close_spool(s);
}

/* It still owes when the next process owes more, and that one is killed, too. */
static void what_is_owed_outlives_several_kills(void **state) {
    (void)state;
    ea_err err;
    arrived a = {0};
    ea_spool *s = fill(20);
    copy_files(scratch_path("spool"), scratch_path("second"));
    close_spool(s);
    assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
    copy_files(scratch_path("second"), scratch_path("spool"));
    new_process();
    s = open_with(&NARROW); /* no more room than before */
    assert_int_equal(waiting(s), KEPT + 2);
    a.base[OTHER[15]] = 0;
    static const uint8_t THIRD[EA_STREAM_ID_BYTES] = {[0] = 5, [15] = 1};
    a.base[1] = 1000;
    begin(s, THIRD, 0);
    for (uint64_t n = 1; n <= 5; n++)
        must(offer_batch(s, THIRD, n, 10, 0, 100, &err), &err);
    copy_files(scratch_path("spool"), scratch_path("killed"));
    close_spool(s);
    assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
    copy_files(scratch_path("killed"), scratch_path("spool"));
    s = open_spool();
    deliver(s, &a, 1000);
    close_spool(s);
    for (uint64_t n = 1; n <= 20; n++)
        assert_int_equal(a.batch[n] + a.tombstone[n], 1);
    for (uint64_t n = 1001; n <= 1005; n++)
        assert_int_equal(a.tombstone[n], 1);
    assert_int_equal(a.tombstone_events, 10 * (20 - KEPT) + 50);
}

/* Killed after the tombstones were written, before the file was emptied: they are reported once. */
static void what_was_written_is_not_reported_again(void **state) {
    (void)state;
    ea_err err;
    arrived a = {0};
    char *owed, *later;
    size_t len_bytes, later_bytes;
    ea_spool *s = fill(LAST);
    read_file(scratch_path("spool/owed"), &owed, &len_bytes);
    assert_int_equal(len_bytes, 2 * DEFERRED_SLOT_BYTES);
    deliver(s, &a, 6);
    must(offer_batch(s, STREAM, LAST + 1, 10, 2, 100, &err), &err); /* which takes the tombstones along */
    copy_files(scratch_path("spool"), scratch_path("killed"));
    read_file(scratch_path("killed/owed"), &later, &later_bytes);
    assert_true(later_bytes == len_bytes && memcmp(owed, later, len_bytes) != 0);
    write_file(scratch_path("killed/owed"), owed, len_bytes);
    free(later);
    free(owed);
    close_spool(s);
    arrived rest = {0};
    take_up(scratch_path("killed"), &rest);
    for (uint64_t n = KEPT + 1; n <= LAST + 1; n++)
        assert_int_equal(a.batch[n] + a.tombstone[n] + rest.batch[n] + rest.tombstone[n], 1);
    assert_int_equal(a.tombstone_events + rest.tombstone_events, 10 * (LAST - KEPT));
}

/* Killed after the file recorded the batches of a segment as lost, before the segment was removed: these batches are
 * sent, and only the others are counted as lost. */
static void what_is_here_after_all_is_no_loss(void **state) {
    (void)state;
    arrived a = {0};
    char *owed;
    size_t len_bytes;
    ea_spool *s = fill(LAST);
    copy_files(scratch_path("spool"), scratch_path("killed"));
    close_spool(s);
    read_file(scratch_path("killed/owed"), &owed, &len_bytes);
    for (size_t slot = 0; slot < 2;
         slot++) { /* 5 to LAST: four batches of 10 events, which are in the segment, and all */
        uint8_t *p = (uint8_t *)owed + slot * DEFERRED_SLOT_BYTES;
        assert_int_equal(ea_load32(p + 16), 1);
        assert_int_equal(ea_load64(p + DEFERRED_ROW_AT + 16), FIRST_DEFERRED);
        ea_store64(p + DEFERRED_ROW_AT + 16, 5);
        ea_store64(p + DEFERRED_ROW_AT + 32, ea_load64(p + DEFERRED_ROW_AT + 32) + 40);
        ea_store64(p + DEFERRED_ROW_AT + 64, ea_hash64(p, DEFERRED_ROW_AT + 64, 0x6561736f77656431u));
    }
    write_file(scratch_path("killed/owed"), owed, len_bytes);
    free(owed);
    take_up(scratch_path("killed"), &a);
    check_all_once(&a, LAST);
    assert_int_equal(a.batch_events, 10 * KEPT);
    assert_int_equal(a.tombstone_events, 10 * (LAST - KEPT));
}

/* A damaged file: the earlier slot is used, or none. Without a slot, a hole is reported without a count. */
static void a_damaged_file_tells_less(void **state) {
    (void)state;
    char *owed;
    size_t len_bytes, counted = 0, less = 0;
    ea_spool *s = fill_and_save(LAST);
    copy_files(scratch_path("spool"), scratch_path("left"));
    close_spool(s);
    read_file(scratch_path("left/owed"), &owed, &len_bytes);
    for (size_t way = 0; way < 150; way++) {
        arrived a = {0};
        size_t at = way % 50 + (way >= 50 && way < 100) * DEFERRED_SLOT_BYTES, n = len_bytes;
        char was = owed[at];
        if (way < 100)
            owed[at] = (char)(was ^ 0x11);
        else
            n = (way - 100) * len_bytes / 50; /* cut */
        copy_files(scratch_path("left"), scratch_path("killed"));
        write_file(scratch_path("killed/owed"), owed, n);
        owed[at] = was;
        take_up(scratch_path("killed"), &a);
        uint64_t last = LAST;
        while (last >= FIRST_DEFERRED && !a.tombstone[last])
            last--; /* an end that nothing else knows of */
        for (uint64_t number = 1; number <= last; number++)
            assert_int_equal(a.batch[number] + a.tombstone[number], 1);
        assert_true(a.tombstone_events <= 10 * (LAST - KEPT));
        counted += a.tombstone_events == 10 * (LAST - KEPT);
        less += a.tombstone_events < 10 * (LAST - KEPT);
    }
    free(owed);
    assert_true(counted > 25 && less > 25);
}

/* More ranges than the limit: the remaining ranges are holes without a count, and no range is reported twice. */
static void beyond_the_bound_holes_are_left(void **state) {
    (void)state;

    enum { BATCHES = 1400 };

    ea_err err;
    arrived a = {0};
    ea_spool *s = fill_and_save(FIRST_DEFERRED - 1);
    for (uint64_t n = FIRST_DEFERRED; n <= BATCHES; n++) {
        if (n % 2) /* claimed, and in an encoder when the process is killed */
            must(ea_spool_claim(s, STREAM, n, 0, NULL, 0, &err), &err);
        else
            must(offer_batch(s, STREAM, n, 10, 0, 100, &err), &err);
    }
    copy_files(scratch_path("spool"), scratch_path("killed"));
    close_spool(s);
    take_up(scratch_path("killed"), &a);
    uint64_t last = BATCHES;
    while (last >= FIRST_DEFERRED && !a.tombstone[last])
        last--;
    assert_true(last >= 2 * 256);
    check_all_once(&a, last);
    assert_int_equal(a.tombstone_events, 10 * (FIRST_DEFERRED - 1 - KEPT + 256));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TWICE(a_kill_costs_no_counts),
        T(what_is_owed_outlives_several_kills),
        T(what_was_written_is_not_reported_again),
        T(what_is_here_after_all_is_no_loss),
        T(a_damaged_file_tells_less),
        T(beyond_the_bound_holes_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
