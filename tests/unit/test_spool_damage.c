/* The spool on disk: its formats, and files that are torn, changed, lost or foreign. */
#include "tests/unit/spool_kit.h"

static void torn_at_every_byte(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool *s = open_spool();
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 120);
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t last = len_bytes - record_bytes(120);
    for (size_t cut = 0; cut <= len_bytes; cut++) {
        ea_spool_item item;
        new_process();
        write_file(first_segment(), data, cut);
        s = open_spool();
        size_t whole = cut < head_bytes() ? 0 : (cut - head_bytes()) / record_bytes(120);
        assert_int_equal(waiting(s), whole);
        size_t kept = cut < head_bytes() ? 0 : head_bytes() + whole * record_bytes(120);
        assert_int_equal(counter(EA_COUNT_spool_torn_bytes), cut - kept);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 0);
        for (uint64_t n = 1; n <= whole; n++)
            assert_int_equal(take_one(s, &item), n);
        close_spool(s);
        /* cut off for good: a second opening finds nothing torn */
        new_process();
        s = open_spool();
        assert_int_equal(waiting(s), whole);
        assert_int_equal(counter(EA_COUNT_spool_torn_bytes), 0);
        close_spool(s);
    }
    assert_true(last > 0);
    free(data);
}

static void a_flipped_bit_costs_one_record(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool *s = open_spool();
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 120);
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t record = record_bytes(120);
    for (size_t at = 0; at < record; at++) {
        char *copy = malloc(len_bytes);
        assert_non_null(copy);
        memcpy(copy, data, len_bytes);
        copy[head_bytes() + record + at] ^= (char)(1 << at % 8); /* in the middle one */
        write_file(first_segment(), copy, len_bytes);
        free(copy);
        new_process();
        ea_spool_item item;
        s = open_spool();
        assert_int_equal(waiting(s), 2);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes), record);
        assert_int_equal(take_one(s, &item), 1);
        assert_int_equal(take_one(s, &item), 3);
        close_spool(s);
    }
    free(data);
}

static void damage_while_it_is_open_is_noticed(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool_item item;
    ea_text body;
    ea_err err;
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    read_file(first_segment(), &data, &len_bytes);
    ea_file *f;
    must(ea_file_open(&f, first_segment(), EA_OPEN_APPEND, &err), &err);
    const char other = (char)~data[len_bytes - 1]; /* of an encrypted record it may be any byte */
    must(ea_file_write_at(f, len_bytes - 1, &other, 1, &err), &err);
    ea_file_close(f);
    assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
    ea_text_init(&body);
    assert_int_equal(ea_spool_read(s, &item, &body, &err), EA_ECORRUPT);
    assert_int_equal(body.len_bytes, 0);
    settle_one(s, &item, EA_SPOOL_DAMAGED);
    assert_int_equal(counter(EA_COUNT_events_evicted_damage), 10);
    free(data);
    close_spool(s);
    /* A tombstone has the number of its batch, and its events, also in the next run. */
    arrived a = {0};
    new_process();
    s = open_spool();
    assert_int_equal(waiting(s), 1);
    deliver(s, &a, 10);
    assert_true(a.gone_count == 1 && a.gone[0].first == 1 && a.gone[0].last == 1 && a.tombstone_events == 10);
    assert_int_equal(a.cause[0], ea_counter_row(EA_COUNT_events_evicted_damage)->number);
    close_spool(s);
    s = open_spool();
    assert_int_equal(waiting(s), 0);
    close_spool(s);
}

/* The same for a run that has ended, whose stream has no other user. A tombstone that a collector refuses creates no
 * further tombstone. */
static void what_is_refused_of_an_earlier_run_is_named(void **state) {
    (void)state;

    static const enum ea_spool_outcome HOW[] = {EA_SPOOL_REFUSED, EA_SPOOL_DAMAGED};

    for (size_t i = 0; i < 2; i++) {
        ea_spool_item item;
        arrived a = {0};
        ea_spool *s = open_spool();
        begin(s, STREAM, 0);
        offer(s, 1, 120);
        offer(s, 2, 120);
        close_spool(s);
        new_process();
        s = open_spool();
        assert_int_equal(take_one(s, &item), 1);
        settle_one(s, &item, HOW[i]);
        assert_int_equal(waiting(s), 2);
        deliver(s, &a, 10);
        assert_true(a.tombstone[1] == 1 && a.batch[2] == 1 && a.tombstone_events == 10);
        close_spool(s);
        assert_int_equal(segments(), 0);
        s = open_spool();
        begin(s, OTHER, 0);
        must(offer_batch(s, OTHER, 1, 10, 1, 120, NULL), NULL);
        assert_int_equal(take_one(s, &item), 1);
        settle_one(s, &item, HOW[i]);
        assert_int_equal(ea_spool_take(s, 1, &item, 1), 1); /* the tombstone */
        settle_one(s, &item, EA_SPOOL_REFUSED);
        assert_int_equal(waiting(s), 0);
        close_spool(s);
        assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
    }
}

static void a_foreign_segment_is_set_aside(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    close_spool(s);
    write_file(scratch_path("spool/00000000000000aa.seg"), "this is no segment, but it is long enough to be one", 51);
    s = open_spool();
    assert_true(ea_path_exists(scratch_path("spool/00000000000000aa.seg.bad")));
    assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 51);
    begin(s, OTHER, 0);
    must(offer_batch(s, OTHER, 2, 10, 1, 120, &err), &err);
    assert_true(ea_path_exists(scratch_path("spool/00000000000000ab.seg"))); /* a name is not used twice */
    assert_int_equal(take_one(s, &item), 1);
    assert_int_equal(take_one(s, &item), 2);
    close_spool(s);
}

typedef struct said {
    char text[1024];
    unsigned times;
} said;

static void on_note(void *arg, const char *text) {
    said *s = arg;
    snprintf(s->text, sizeof s->text, "%s", text);
    s->times++;
}

static int forget_segment(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                          void *arg) {
    said *s = arg;
    (void)name, (void)len_bytes, (void)scanned;
    snprintf(s->text, sizeof s->text, "%s", why ? why : "");
    s->times++;
    return 0;
}

/* Files of another version are reported with their version and renamed, so that the program that reads them can still
 * use them. */
static void another_version_is_called_so(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    said notes = {.times = 0};
    ea_err err;
    ea_spool *s = open_spool();
    ea_spool_options o = {.sync = EA_SPOOL_SYNC_NEVER, .on_note = on_note, .arg = &notes};
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    data[7] = '2';
    write_file(first_segment(), data, len_bytes);
    free(data);
    must(ea_spool_visit(scratch_path("spool"), &(ea_spool_visitor){.on_segment = forget_segment, .arg = &notes}, &err),
         &err);
    assert_int_equal(notes.times, 1);
    assert_non_null(strstr(notes.text, "another format (version 2, this program reads 1)"));
    notes.times = 0;
    s = open_with(&o);
    assert_int_equal(notes.times, 1);
    assert_non_null(strstr(notes.text, "another format (version 2, this program reads 1)"));
    assert_non_null(strstr(notes.text, "it is set aside as "));
    assert_true(ea_path_exists(scratch_path("spool/0000000000000001.seg.bad")));
    close_spool(s);
    write_file(scratch_path("spool/state"), "etwagent spool state 12\n", 24);
    s = open_with(&o);
    assert_int_equal(notes.times, 2);
    assert_non_null(strstr(notes.text, "another format (version 12, this program reads 1)"));
    assert_true(ea_path_exists(scratch_path("spool/state.bad")));
    close_spool(s);
    write_file(scratch_path("spool/state"), "etwagent spool state 1\nnonsense", 31);
    s = open_with(&o);
    assert_int_equal(notes.times, 3);
    assert_non_null(strstr(notes.text, "damaged at offset"));
    close_spool(s);
}

static void a_lost_state_file_means_sending_again(void **state) {
    (void)state;
    ea_spool_item item;
    static const char *const BAD[] = {"", "etwagent spool state 1\n", "etwagent spool state 1\nend 0000000000000000\n",
                                      "\1\2\3"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        ea_spool *s = open_spool();
        begin(s, STREAM, 1);
        offer(s, 2 * i + 1, 300);
        offer(s, 2 * i + 2, 300);
        close_spool(s);
        write_file(scratch_path("spool/state"), BAD[i], strlen(BAD[i]));
        new_process();
        s = open_spool();
        assert_int_equal(waiting(s), 2);
        begin(s, STREAM, 1);
        for (uint64_t n = 1; n <= 2; n++) {
            assert_int_equal(take_one(s, &item), 2 * i + n);
            settle_one(s, &item, EA_SPOOL_DONE);
        }
        close_spool(s);
        new_process();
    }
}

static void a_hole_in_an_earlier_run_gets_a_tombstone(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 6; n++)
        offer(s, n, 120);
    ea_spool_item item;
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    must(ea_spool_claim(s, STREAM, 7, 0, NULL, 0, &err), &err); /* was being compressed when the process ended */
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t record = record_bytes(120);
    data[head_bytes() + 2 * record + 60] ^= 1; /* numbers 3 and 4 */
    data[head_bytes() + 3 * record + 60] ^= 1;
    write_file(first_segment(), data, len_bytes);
    free(data);
    for (int again = 0; again < 3; again++) { /* also when nothing was sent in between */
        s = open_spool();
        assert_int_equal(waiting(s), 4); /* 2, 5, 6, the tombstone */
        if (again < 2)
            close_spool(s);
    }
    deliver(s, &a, 10);
    assert_int_equal(a.gone_count, 2);
    assert_true(a.gone[0].first == 3 && a.gone[0].last == 4 && a.gone[1].first == 7 && a.gone[1].last == 7);
    assert_int_equal(a.cause[0], ea_counter_row(EA_COUNT_events_evicted_damage)->number);
    assert_true(a.batch[2] && a.batch[5] && a.batch[6]);
    close_spool(s);
    s = open_spool();
    assert_int_equal(waiting(s), 0);
    close_spool(s);
}

/* The same of a run that was killed before anything of it was answered. */
static void a_hole_of_a_run_that_was_killed_at_once(void **state) {
    (void)state;
    char *data, *known = NULL;
    size_t len_bytes, known_bytes;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    must(ea_spool_claim(s, STREAM, 2, 0, NULL, 0, &err), &err); /* was being compressed */
    offer(s, 3, 120);
    read_file(first_segment(), &data, &len_bytes);
    if (ea_path_exists(scratch_path("spool/state")))
        read_file(scratch_path("spool/state"), &known, &known_bytes);
    close_spool(s);
    write_file(first_segment(), data, len_bytes); /* as a kill would have left both */
    if (known)
        write_file(scratch_path("spool/state"), known, known_bytes);
    else
        must(ea_path_remove(scratch_path("spool/state"), &err), &err);
    free(data);
    free(known);
    new_process();
    s = open_spool();
    deliver(s, &a, 10);
    assert_true(a.batch[1] && a.batch[3] && a.tombstone[2] == 1);
    close_spool(s);
}

/* ---- the formats ---- */

static void ranges_against_a_bitmap(void **state) {
    (void)state;
    ea_range_set s = {0};
    uint8_t bitmap[400] = {0};
    uint64_t random = 7;
    for (int i = 0; i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t first = 1 + (random >> 33) % 300, last = first + (random >> 50) % 4;
        assert_int_equal(ea_range_set_add(&s, first, last), 0);
        memset(bitmap + first, 1, last - first + 1);
        for (uint64_t n = 0; n < 400; n++)
            assert_int_equal(ea_range_set_has(&s, n), bitmap[n]);
        for (size_t k = 1; k < s.count; k++)
            assert_true(s.ranges[k].first > s.ranges[k - 1].last + 1);
        if (i % 100 == 99) {
            memset(bitmap, 0, sizeof bitmap);
            s.count = 0;
        }
    }
    s.count = 0;
    assert_int_equal(ea_range_set_add(&s, UINT64_MAX, UINT64_MAX), 0);
    assert_int_equal(ea_range_set_add(&s, 1, UINT64_MAX - 1), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(ea_range_set_add(&s, 5, UINT64_MAX), 0);
    assert_int_equal(s.count, 1);
    free(s.ranges);
}

static int compare_state(ea_spool_stream_state *s, void *arg) {
    const ea_spool_stream_state **expected = arg;
    assert_memory_equal(s->stream, (*expected)->stream, sizeof s->stream);
    assert_int_equal(s->resumable, (*expected)->resumable);
    assert_int_equal(s->target, (*expected)->target);
    assert_int_equal(s->highest, (*expected)->highest);
    assert_int_equal(s->acknowledged.count, (*expected)->acknowledged.count);
    for (size_t i = 0; i < s->acknowledged.count; i++) {
        assert_int_equal(s->acknowledged.ranges[i].first, (*expected)->acknowledged.ranges[i].first);
        assert_int_equal(s->acknowledged.ranges[i].last, (*expected)->acknowledged.ranges[i].last);
    }
    assert_int_equal(s->numbers != NULL, (*expected)->numbers != NULL);
    if (s->numbers)
        assert_memory_equal(s->numbers, (*expected)->numbers, sizeof *s->numbers);
    free(s->acknowledged.ranges);
    free(s->numbers);
    ++*expected;
    return 0;
}

static void state_comes_back(void **state) {
    (void)state;
    ea_range ranges[] = {{1, 5}, {7, 7}, {1000000, UINT64_MAX}};
    static ea_last_numbers numbers = {.incarnation = UINT64_MAX, .priority = 2};
    numbers.values[EA_COUNT_events_delivered] = UINT64_MAX;
    numbers.values[EA_COUNT_source_events_lost] = 1;
    numbers.families.values[2][0] = 5;
    numbers.families.values[2][EA_LEDGER_FAMILY_COUNTERS - 1] = 6;
    numbers.families.values[3][1] = 7;
    ea_spool_stream_state states[] = {{.stream = {0xab, 0xcd},
                                       .resumable = 1,
                                       .target = UINT64_MAX,
                                       .highest = UINT64_MAX,
                                       .acknowledged = {ranges, 3, 3}},
                                      {.stream = {1}, .highest = 12, .numbers = &numbers}};
    ea_text t;
    ea_err err;
    ea_text_init(&t);
    ea_spool_state_begin(&t);
    for (size_t i = 0; i < 2; i++)
        ea_spool_state_stream(&t, &states[i]);
    ea_spool_state_end(&t);
    const ea_spool_stream_state *expected = states;
    must(ea_spool_state_parse(t.data, t.len_bytes, compare_state, &expected, &err), &err);
    assert_ptr_equal(expected, states + 2);
    for (size_t i = 0; i < t.len_bytes; i++) {
        t.data[i] ^= 1;
        expected = states;
        assert_int_equal(ea_spool_state_parse(t.data, t.len_bytes, compare_state, &expected, &err), EA_ECORRUPT);
        t.data[i] ^= 1;
    }
    ea_text_deinit(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TWICE(torn_at_every_byte),
        TWICE(a_flipped_bit_costs_one_record),
        TWICE(damage_while_it_is_open_is_noticed),
        T(a_foreign_segment_is_set_aside),
        TWICE(another_version_is_called_so),
        TWICE(a_lost_state_file_means_sending_again),
        TWICE(a_hole_in_an_earlier_run_gets_a_tombstone),
        TWICE(a_hole_of_a_run_that_was_killed_at_once),
        TWICE(what_is_refused_of_an_earlier_run_is_named),
        T(ranges_against_a_bitmap),
        T(state_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
