/* The encrypted spool: descriptions and batches under keys that rotate and get lost. */
#include "tests/unit/spool_kit.h"

/* ---- class descriptions ---- */

/* A definition of n bytes that begins with this number, as field 12 of a batch. */
static void put_definition(ea_text *batch, uint32_t number, size_t n) {
    ea_text_char(batch, (char)(12 << 3 | 2));
    ea_text_varint(batch, n);
    ea_text_add(batch, (const char *)&number, sizeof number);
    for (size_t i = sizeof number; i < n; i++)
        ea_text_char(batch, 'x');
}

/* 65,536 of them, or 64 MiB, are kept beside a spool; further ones are not, and the batch that has them is whole. */
static void definitions_are_bounded(void **state) {
    enum { LARGE = 8 << 20 };

    (void)state;
    ea_descriptions *d;
    ea_text batch;
    ea_err err;
    size_t added, sum = 0;
    ea_text_init(&batch);
    must(ea_descriptions_open(&d, scratch_path("many"), 0, NULL, &err), &err);
    for (uint32_t i = 0; i < EA_DESCRIPTIONS_MAX + 1024;) {
        ea_text_clear(&batch);
        for (uint32_t end = i + 1024; i < end; i++)
            put_definition(&batch, i, 4);
        must(ea_descriptions_add_batch(d, (const uint8_t *)batch.data, batch.len_bytes, &added, &err), &err);
        sum += added;
    }
    assert_int_equal(sum, 65536);
    ea_descriptions_close(d);
    must(ea_descriptions_open(&d, scratch_path("large"), 0, NULL, &err), &err);
    for (uint32_t i = 0; i < 9; i++) { /* with its head each is a little more than an eighth of the bound */
        ea_text_clear(&batch);
        put_definition(&batch, i, LARGE);
        must(ea_descriptions_add_batch(d, (const uint8_t *)batch.data, batch.len_bytes, &added, &err), &err);
        assert_int_equal(added, i < 7);
    }
    ea_text_clear(&batch);
    put_definition(&batch, 9, 4); /* there is room for a small one */
    must(ea_descriptions_add_batch(d, (const uint8_t *)batch.data, batch.len_bytes, &added, &err), &err);
    assert_int_equal(added, 1);
    ea_descriptions_close(d);
    ea_text_deinit(&batch);
}

static void descriptions_are_kept(void **state) {
    (void)state;
    /* two batches with field 12 (a description) each, the second's with the first's as well */
    static const uint8_t FIRST[] = {12 << 3 | 2, 3, 'a', 'b', 'c'},
                         SECOND[] = {12 << 3 | 2, 3, 'a', 'b', 'c', 12 << 3 | 2, 2, 'x', 'y'};
    /* SHA-256 of "abc" (FIPS 180-2, appendix B.1), first half */
    static const ea_hash_ref ABC_REF = {
        {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23}, 16};
    ea_descriptions *d;
    ea_text batch;
    ea_err err;
    size_t added;
    const char *path = scratch_path("classes");
    ea_spool_keys read = {0}, *keys = sealed ? &read : NULL;
    if (sealed)
        must(ea_spool_keys_read(&read, scratch_path("key"), 1, &err), &err);
    ea_text_init(&batch);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    must(ea_descriptions_add_batch(d, FIRST, sizeof FIRST, &added, &err), &err);
    assert_int_equal(added, 1);
    must(ea_descriptions_add_batch(d, SECOND, sizeof SECOND, &added, &err), &err);
    assert_int_equal(added, 1);
    assert_int_equal(ea_descriptions_add_batch(d, (const uint8_t *)"\xff", 1, &added, &err), EA_ECORRUPT);
    ea_descriptions_close(d);
    char *bytes;
    size_t all;
    read_file(path, &bytes, &all);
    for (size_t i = 0; sealed && i + 3 <= all; i++)
        assert_memory_not_equal(bytes + i, "abc", 3);
    free(bytes);
    /* a torn tail does no harm */
    ea_file *f;
    uint64_t size;
    must(ea_file_open(&f, path, EA_OPEN_APPEND, &err), &err);
    must(ea_file_size(f, &size, &err), &err);
    must(ea_file_write_at(f, size, "\4\0\0\0half", 8, &err), &err);
    ea_file_close(f);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 1);
    assert_int_equal(batch.len_bytes, sizeof FIRST);
    assert_memory_equal(batch.data, FIRST, sizeof FIRST);
    assert_int_equal(ea_descriptions_append(d, &(ea_hash_ref){{1}, 16}, &batch, &err), 0);
    must(ea_descriptions_add_batch(d, (const uint8_t[]){12 << 3 | 2, 1, 'z'}, 3, &added, &err), &err);
    ea_descriptions_close(d);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    must(ea_descriptions_add_batch(d, (const uint8_t[]){12 << 3 | 2, 1, 'z'}, 3, &added, &err), &err);
    assert_int_equal(added, 0);
    ea_descriptions_close(d);
    if (sealed) { /* without the key they are not known, and those that came before the key are */
        must(ea_descriptions_open(&d, path, 0, NULL, &err), &err);
        assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 0);
        must(ea_descriptions_add_batch(d, FIRST, sizeof FIRST, &added, &err), &err);
        assert_int_equal(added, 1);
        ea_descriptions_close(d);
        must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
        assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 1);
        ea_descriptions_close(d);
    }
    must(ea_descriptions_open(&d, path, 1, keys, &err), &err);
    assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 0);
    ea_descriptions_close(d);
    ea_text_deinit(&batch);
}

/* ---- encryption ---- */

static void the_key_file(void **state) {
    (void)state;
    ea_spool_keys a, b;
    ea_err err;
    char *data;
    size_t len_bytes;
    const char *path = scratch_path("key");
    assert_int_equal(ea_spool_keys_read(&a, path, 0, &err), EA_ENOTFOUND);
    must(ea_spool_keys_read(&a, path, 1, &err), &err);
    must(ea_spool_keys_read(&b, path, 1, &err), &err);
    assert_int_equal(a.count, 1);
    assert_memory_equal(&a, &b, sizeof a);
    must(ea_path_check_private(path, &err), &err);
    for (size_t n = 2; n <= 40; n++) {
        a = b;
        must(ea_spool_keys_rotate(path, &err), &err);
        must(ea_spool_keys_read(&b, path, 0, &err), &err);
        assert_int_equal(b.count, n < EA_SPOOL_KEYS_MAX ? n : EA_SPOOL_KEYS_MAX);
        assert_memory_equal(b.keys[b.count - 2], a.keys[a.count - 1], EA_SPOOL_KEY_BYTES);
        assert_memory_not_equal(ea_spool_keys_newest(&b), ea_spool_keys_newest(&a), EA_SPOOL_KEY_ID_BYTES);
    }
    static const char SECOND[] = "etwagent spool keys 2\n";
    assert_int_equal(ea_spool_keys_parse(&(ea_spool_keys){.count = 0}, SECOND, path, &err), EA_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "another format (version 2, this program reads 1)"));
    /* every byte of it counts */
    read_file(path, &data, &len_bytes);
    for (size_t at = 0; at < len_bytes; at += at % 7 + 1) {
        data[at] ^= 1;
        write_file(path, data, len_bytes);
        data[at] ^= 1;
        int rc = ea_spool_keys_read(&a, path, 1, &err);
#if defined(_WIN32)
        /* DPAPI's own check; what it does not look at of its wrapper changes no key */
        if (!rc)
            assert_memory_equal(ea_spool_keys_newest(&a), ea_spool_keys_newest(&b), EA_SPOOL_KEY_ID_BYTES);
        else
#endif
            assert_true(rc == EA_ECORRUPT || rc == EA_ECRYPTO);
    }
    for (size_t n = 0; n < len_bytes; n += 13) {
        write_file(path, data, n);
        int rc = ea_spool_keys_read(&a, path, 1, &err);
        assert_true(rc == EA_ECORRUPT || rc == EA_ECRYPTO);
    }
    ea_spool *s;
    write_file(path, data, len_bytes / 2);
    assert_true(ea_spool_open(&s, scratch_path("spool"), &(ea_spool_options){.key_path = path}, &err) < 0);
    assert_non_null(strstr(err.message, path)); /* a damaged key file is an error, and is never overwritten */
#if !defined(_WIN32)
    must(ea_path_write_all(path, data, len_bytes, 0, &err), &err);
    assert_int_equal(ea_spool_keys_read(&a, path, 1, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "chmod 600"));
#endif
    free(data);
}

/* This is the algorithm that it says it is. */
static void sealing_is_aes_256_gcm(void **state) {
    (void)state;
    /* McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 and 14: key 0, nonce 0 */
    static const uint8_t TAG_13[] = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9,
                                     0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b};
    static const uint8_t CASE_14[] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5,
                                      0xd3, 0xba, 0xf3, 0x9d, 0x18, 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99,
                                      0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    static const ea_sealing_key ZERO = {{0}};
    uint8_t out[64] = {0}, back[64];
    ea_err err;
    must(ea_seal(&ZERO, 0, NULL, 0, out, 0, out, &err), &err);
    assert_memory_equal(out, TAG_13, sizeof TAG_13);
    must(ea_seal(&ZERO, 0, NULL, 0, ZERO.bytes, 16, out, &err), &err);
    assert_memory_equal(out, CASE_14, sizeof CASE_14);
    must(ea_unseal(&ZERO, 0, NULL, 0, out, 32, back, &err), &err);
    assert_memory_equal(back, ZERO.bytes, 16);
    assert_int_equal(ea_unseal(&ZERO, 1, NULL, 0, out, 32, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, "x", 1, out, 32, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, NULL, 0, out, 31, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, NULL, 0, out, 15, back, &err), EA_ECORRUPT);
}

static int has_bytes(const char *data, size_t len_bytes, const uint8_t *wanted, size_t n) {
    for (size_t i = 0; i + n <= len_bytes; i++)
        if (memcmp(data + i, wanted, n) == 0)
            return 1;
    return 0;
}

/* No byte of a batch can be read on disk. A change on disk is detected, even when its checksum is corrected. */
static void what_is_sealed_stays_so(void **state) {
    (void)state;
    uint8_t batch[200];
    char *data;
    size_t len_bytes;
    ea_spool_item item;
    ea_text body;
    ea_err err;
    for (sealed = 0; sealed < 2; sealed++) {
        ea_spool *s = open_spool();
        begin(s, STREAM, 1);
        offer(s, 1, sizeof batch);
        offer(s, 2, sizeof batch);
        close_spool(s);
        read_file(first_segment(), &data, &len_bytes);
        make_batch(1, sizeof batch, batch);
        assert_int_equal(has_bytes(data, len_bytes, batch + 6, 16), !sealed);
        new_process();
        if (!sealed)
            assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
        free(sealed ? NULL : data);
    }
    sealed = 1;
    /* the two records have nonces of their own */
    uint8_t *first = (uint8_t *)data + head_bytes(), *second = first + record_bytes(sizeof batch);
    assert_memory_not_equal(first + EA_SPOOL_RECORD_BYTES, second + EA_SPOOL_RECORD_BYTES, 8);
    static const size_t PLACES[] = {
        16, 32, 40, EA_SPOOL_RECORD_BYTES, EA_SPOOL_RECORD_BYTES + 8, EA_SPOOL_RECORD_BYTES + 100};
    for (size_t i = 0; i <= sizeof PLACES / sizeof *PLACES; i++) {
        ea_spool_record r;
        uint8_t *copy = malloc(len_bytes);
        assert_non_null(copy);
        memcpy(copy, data, len_bytes);
        uint8_t *at = copy + head_bytes();
        size_t place = i < sizeof PLACES / sizeof *PLACES ? PLACES[i] : record_bytes(sizeof batch) - 1;
        assert_int_equal(ea_spool_get_record(at, len_bytes - head_bytes(), 1, &r), 1);
        at[place] ^= 4;
        if (place < EA_SPOOL_RECORD_BYTES) { /* as a record: its members */
            memcpy(r.stream, at + 16, sizeof r.stream);
            r.number = ea_load64(at + 32);
            r.event_count = ea_load32(at + 40);
        }
        ea_spool_put_record(at, &r, 1);
        write_file(first_segment(), copy, len_bytes);
        free(copy);
        new_process();
        ea_spool *s = open_spool();
        assert_int_equal(waiting(s), 2);
        ea_text_init(&body);
        int good = 0, bad = 0;
        while (ea_spool_take(s, 1, &item, 1)) {
            int rc = ea_spool_read(s, &item, &body, &err);
            good += rc == 0;
            bad += rc == EA_ECORRUPT;
        }
        assert_int_equal(good, 1);
        assert_int_equal(bad, 1);
        ea_text_deinit(&body);
        close_spool(s);
    }
    free(data);
}

typedef struct notes {
    char text[512];
    int times;
} notes;

static void on_note(void *arg, const char *text) {
    notes *t = arg;
    snprintf(t->text, sizeof t->text, "%s", text);
    t->times++;
}

static ea_spool *open_noting(const char *key, notes *t, uint64_t limit_bytes) {
    *t = (notes){.times = 0};
    return open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER,
                                         .limit_bytes = limit_bytes,
                                         .segment_bytes = 2048,
                                         .key_path = scratch_path(key),
                                         .on_note = on_note,
                                         .arg = t});
}

static void a_lost_key_costs_its_records_only(void **state) {
    (void)state;
    ea_spool_item item;
    ea_spool_status status;
    ea_err err;
    notes t;
    ea_spool *s = open_noting("key", &t, 0);
    begin(s, STREAM, 0);
    begin(s, OTHER, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 300);
    must(offer_batch(s, OTHER, 1, 10, 1, 300, &err), &err);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
    for (int again = 0; again < 2; again++) { /* it does not pass away by opening */
        new_process();
        s = open_noting("another", &t, 0);
        assert_int_equal(t.times, 1);
        assert_non_null(strstr(t.text, "2 batches with 20 events"));
        assert_non_null(strstr(t.text, "another"));
        assert_int_equal(counter(EA_COUNT_spool_locked_events), 20);
        ea_spool_get_status(s, &status);
        assert_int_equal(status.locked, 2);
        assert_int_equal(status.waiting, 0);
        if (!again)
            close_spool(s);
    }
    /* what is made anew goes on; a replay's batch is made again */
    begin(s, OTHER, 1);
    assert_int_equal(offer_batch(s, OTHER, 1, 10, 1, 300, &err), EA_SPOOL_NEW);
    static const uint8_t NEXT[EA_STREAM_ID_BYTES] = {77};
    begin(s, NEXT, 0);
    must(offer_batch(s, NEXT, 1, 10, 1, 300, &err), &err);
    while (take_one(s, &item))
        settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 20);
    close_spool(s);
    /* the key is found again */
    new_process();
    s = open_noting("key", &t, 0);
    assert_int_equal(t.times, 0);
    assert_int_equal(counter(EA_COUNT_spool_locked_events), 0);
    assert_int_equal(take_one(s, &item), 2);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 3);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 0);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* Locked batches are evicted like others, and the tombstones have the counts of their events. */
static void locked_batches_give_way(void **state) {
    (void)state;
    ea_err err;
    notes t;
    uint64_t events = 0;
    ea_range_set seen = {0};
    ea_spool *s = open_noting("key", &t, 16 << 10);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 20; n++)
        offer(s, n, 400);
    close_spool(s);
    new_process();
    s = open_noting("another", &t, 16 << 10);
    assert_int_equal(counter(EA_COUNT_spool_locked_events), 200);
    begin(s, OTHER, 0);
    for (uint64_t n = 1; n <= 200; n++) {
        ea_spool_item item;
        ea_text body;
        ea_batch_head head;
        must(offer_batch(s, OTHER, n, 10, 1, 400, &err), &err);
        if (n < 100)
            continue; /* nothing leaves */
        while (ea_spool_take(s, 1, &item, 1)) {
            ea_text_init(&body);
            must(ea_spool_read(s, &item, &body, &err), &err);
            if (memcmp(item.stream, STREAM, sizeof STREAM) == 0) {
                must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
                assert_int_equal(head.kind, EA_BATCH_TOMBSTONE);
                graves_seen g = {&seen, 0};
                must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, see_grave, &g, &err), &err);
                events += g.events;
            }
            ea_text_deinit(&body);
            settle_one(s, &item, EA_SPOOL_DONE);
        }
    }
    assert_int_equal(events, 200);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.ranges[0].first, 1);
    assert_int_equal(seen.ranges[0].last, 20);
    free(seen.ranges);
    check_ledger();
    close_spool(s);
}

static void keys_rotate(void **state) {
    (void)state;
    ea_spool_item item;
    ea_err err;
    notes t;
    ea_spool *s;
    for (uint64_t n = 1; n <= 5; n++) {
        new_process();
        s = open_noting("key", &t, 0);
        begin(s, STREAM, 1);
        must(offer_batch(s, STREAM, n, 10, 1, 300, &err), &err);
        close_spool(s);
        must(ea_spool_keys_rotate(scratch_path("key"), &err), &err);
    }
    new_process();
    s = open_noting("key", &t, 0);
    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(take_one(s, &item), n);
    close_spool(s);
    /* encryption that begins with batches here, and ends with batches here */
    new_process();
    sealed = 0;
    s = open_spool();
    assert_int_equal(waiting(s), 0); /* of a replay: made again */
    begin(s, STREAM, 1);
    offer(s, 1, 300);
    close_spool(s);
    new_process();
    s = open_noting("key", &t, 0);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TWICE(descriptions_are_kept), T(the_key_file),
        T(definitions_are_bounded),   T(sealing_is_aes_256_gcm),
        T(what_is_sealed_stays_so),   S(a_lost_key_costs_its_records_only),
        S(locked_batches_give_way),   S(keys_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
