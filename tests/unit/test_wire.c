/* The reader of batches against batches made by hand from their messages: every encoding of FORMAT.md, nested columns
 * that our writer does not write, and what a reader must refuse. Also the arithmetic of columns, and the envelope's
 * small parts; answers, and what an upload is cut into. */
#include "proto/wire/ack.h"
#include "proto/wire/batch.pb-c.h"
#include "proto/wire/column.h"
#include "proto/wire/definitions.h"
#include "proto/wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <zstd.h>

#include <cmocka.h>

typedef Etwagent__V1__Column pb_column;

enum { CONSTANT, PLAIN, PLANES, VARINT, DICTIONARY, RESERVED, BITS };

enum { ROWS = 3 };

/* ---- arithmetic ---- */

static void test_numbers(void **state) {
    (void)state;
    static const uint64_t edge[] = {0,          1,          127,        128,       255,          256,
                                    UINT32_MAX, UINT64_MAX, 1ull << 63, INT64_MAX, 0x8000000000, 0xFFFFFFFFFFFFFF};

    enum { N = sizeof edge / sizeof *edge };

    uint8_t bytes[10 * N];
    uint64_t out[N];
    for (unsigned i = 0; i < N; i++) {
        assert_true(ea_unzigzag(ea_zigzag(edge[i])) == edge[i]);
        assert_int_equal(ea_varint_bytes(edge[i]), ea_varint_put(bytes, &edge[i], 1));
        assert_true(ea_bytes_of(edge[i]) == 8 || edge[i] >> (8 * ea_bytes_of(edge[i])) == 0);
        assert_true(edge[i] == 0 || edge[i] >> (8 * (ea_bytes_of(edge[i]) - 1)) != 0);
    }
    assert_true(ea_zigzag((uint64_t)-1) == 1 && ea_zigzag(1) == 2 && ea_zigzag((uint64_t)INT64_MIN) == UINT64_MAX);
    assert_true(ea_extend(0x80, 1) == (uint64_t)-128 && ea_extend(0x7F, 1) == 0x7F && ea_extend(5, 8) == 5);
    size_t n = ea_varint_put(bytes, edge, N);
    assert_int_equal(ea_varint_get(out, N, bytes, n), 0);
    assert_memory_equal(out, edge, sizeof edge);
    assert_int_equal(ea_varint_get(out, N, bytes, n - 1), EA_ECORRUPT);
    assert_int_equal(ea_varint_get(out, N - 1, bytes, n), EA_ECORRUPT);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(ea_varint_get(out, 1, bytes, 10), EA_ECORRUPT); /* above 64 bits */
    for (unsigned planes = 1; planes <= 8; planes++) {
        ea_planes_put(bytes, edge, N, planes);
        ea_planes_get(out, bytes, N, planes);
        for (unsigned i = 0; i < N; i++)
            assert_true(out[i] == ea_cut(edge[i], planes));
        uint32_t narrow[N];
        uint16_t narrower[N];
        if (planes <= 4)
            ea_planes_get32(narrow, bytes, N, planes);
        if (planes <= 2)
            ea_planes_get16(narrower, bytes, N, planes);
        for (unsigned i = 0; i < N; i++)
            assert_true((planes > 4 || narrow[i] == out[i]) && (planes > 2 || narrower[i] == out[i]));
    }
    uint8_t joined[24];
    ea_planes_join(joined, (const uint8_t *)"aA0+bB1-cC2*dD3/eE4%fF5&", 4, 6);
    assert_memory_equal(joined, "abcdefABCDEF012345+-*/%&", 24);
}

/* ---- a batch by hand: ROWS events of one class; payload is the column under test ---- */

typedef struct hand {
    ea_registry *registry;
    const ea_class *c;
    Etwagent__V1__Batch batch;
    Etwagent__V1__Source source, *sources[1];
    Etwagent__V1__Directory directory;
    Etwagent__V1__Group group, *groups[1];
    pb_column group_of, time, cpu, thread, pids, tids;
    Etwagent__V1__Frame frames[2], *frame_list[2];
    ProtobufCBinaryData description;
    uint8_t stream[16], packed[4096], out[8192];
    size_t out_bytes;
} hand;

static ProtobufCBinaryData bytes_of(const void *data, size_t n) {
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)data};
}

#define BYTES(s) bytes_of(s, sizeof(s) - 1)

static pb_column column(int encoding, uint32_t width) {
    pb_column c;
    etwagent__v1__column__init(&c);
    c.encoding = (Etwagent__V1__Encoding)encoding;
    c.width = width;
    return c;
}

static hand *hand_new(void) {
    hand *h = calloc(1, sizeof *h);
    ea_err err;
    ea_record r = {.id = 9, .version = 1, .pointer_size = 8};
    r.provider.bytes[0] = 0x42;
    assert_non_null(h);
    assert_int_equal(ea_registry_create(&h->registry, 0, &err), 0);
    h->c = ea_registry_find(h->registry, &r);
    etwagent__v1__batch__init(&h->batch);
    etwagent__v1__source__init(&h->source);
    etwagent__v1__directory__init(&h->directory);
    etwagent__v1__group__init(&h->group);
    h->description = bytes_of(h->c->description, h->c->description_bytes);
    h->batch.format = 1;
    h->batch.number = 5;
    h->batch.stream = bytes_of(h->stream, 16);
    h->batch.event_count = ROWS;
    h->batch.time_min = 100;
    h->batch.time_span = 20;
    h->batch.n_sources = 1;
    h->batch.sources = h->sources;
    h->sources[0] = &h->source;
    h->batch.n_descriptions = 1;
    h->batch.descriptions = &h->description;
    h->batch.frames = h->frame_list;
    for (unsigned i = 0; i < 2; i++) {
        etwagent__v1__frame__init(&h->frames[i]);
        h->frame_list[i] = &h->frames[i];
    }
    h->directory.n_groups = 1;
    h->directory.groups = h->groups;
    h->groups[0] = &h->group;
    h->group.class_hash = bytes_of(h->c->hash, 16);
    h->group.count = ROWS;
    h->group_of = h->cpu = h->thread = h->pids = h->tids = column(CONSTANT, 0);
    h->time = column(CONSTANT, 0);
    h->time.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    h->time.constant = BYTES("\x14"); /* 10 more each time */
    h->pids.constant = BYTES("\x07");
    h->tids.constant = BYTES("\x09");
    h->directory.group = &h->group_of;
    h->directory.time = &h->time;
    h->directory.cpu = &h->cpu;
    h->directory.thread = &h->thread;
    h->directory.thread_count = 1;
    h->directory.thread_pids = &h->pids;
    h->directory.thread_tids = &h->tids;
    return h;
}

static void hand_free(hand *h) {
    ea_registry_destroy(h->registry);
    free(h);
}

static void hand_pack(hand *h) {
    size_t n = etwagent__v1__directory__get_packed_size(&h->directory);
    assert_true(n <= sizeof h->packed);
    etwagent__v1__directory__pack(&h->directory, h->packed);
    h->batch.directory = bytes_of(h->packed, n);
    h->out_bytes = etwagent__v1__batch__get_packed_size(&h->batch);
    assert_true(h->out_bytes <= sizeof h->out);
    etwagent__v1__batch__pack(&h->batch, h->out);
}

/* Reads every record; each payload goes to out (room for ROWS strings of 32), with its length. 0 or the error. */
static int hand_read(hand *h, char out[ROWS][32], size_t *lengths) {
    ea_err err = {0};
    ea_batch_view *v = NULL;
    const ea_record *r;
    const ea_class *c;
    hand_pack(h);
    /* an exact allocation, so that a sanitizer sees a read past the end */
    uint8_t *exact = malloc(h->out_bytes);
    assert_non_null(exact);
    memcpy(exact, h->out, h->out_bytes);
    int rc = ea_batch_open(&v, exact, h->out_bytes, h->registry, &err);
    for (unsigned i = 0; !rc && i < ROWS; i++) {
        rc = ea_batch_next(v, &r, &c, &err);
        if (rc != 1)
            break;
        rc = 0;
        assert_ptr_equal(c, h->c);
        assert_int_equal(r->time_raw, 110 + 10 * i);
        assert_int_equal(r->pid, 7);
        assert_int_equal(r->tid, 9);
        assert_int_equal(r->id, 9);
        assert_true(r->payload_bytes < 32);
        lengths[i] = r->payload_bytes;
        if (r->payload_bytes)
            memcpy(out[i], r->payload, r->payload_bytes);
    }
    ea_batch_close(v);
    free(exact);
    return rc;
}

static void expect(hand *h, pb_column *payload, const char *pool, size_t pool_bytes, const char *rows[ROWS],
                   const size_t want[ROWS]) {
    char out[ROWS][32];
    size_t lengths[ROWS];
    h->group.payload = payload;
    h->directory.pool = bytes_of(pool, pool_bytes);
    assert_int_equal(hand_read(h, out, lengths), 0);
    for (unsigned i = 0; i < ROWS; i++) {
        assert_int_equal(lengths[i], want[i]);
        assert_memory_equal(out[i], rows[i], want[i]);
    }
}

static void expect_error(hand *h, pb_column *payload, const char *pool, size_t pool_bytes, int code) {
    char out[ROWS][32];
    size_t lengths[ROWS];
    h->group.payload = payload;
    h->directory.pool = bytes_of(pool, pool_bytes);
    assert_int_equal(hand_read(h, out, lengths), code);
}

#define POOL(s) s, sizeof(s) - 1
#define WANT(a, b, c)                                                                                                  \
    (const char *[]){a, b, c}, (const size_t[]) {                                                                      \
        sizeof(a) - 1, sizeof(b) - 1, sizeof(c) - 1                                                                    \
    }

static void test_encodings(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column c = column(CONSTANT, 0);
    expect(h, &c, POOL(""), WANT("", "", ""));
    c.constant = BYTES("xyz");
    expect(h, &c, POOL(""), WANT("xyz", "xyz", "xyz"));
    c.width = 5;
    expect(h, &c, POOL(""), WANT("xyz\0\0", "xyz\0\0", "xyz\0\0"));
    c = column(PLAIN, 2);
    expect(h, &c, POOL("abcdef"), WANT("ab", "cd", "ef"));
    c = column(PLANES, 2);
    expect(h, &c, POOL("acebdf"), WANT("ab", "cd", "ef"));
    c = column(PLANES, 12);
    expect(h, &c, POOL("acebdfacebdfacebdfacebdfacebdfacebdf"), WANT("abababababab", "cdcdcdcdcdcd", "efefefefefef"));
    c = column(PLANES, 4);
    c.planes = 1;
    expect(h, &c, POOL("abc"), WANT("a\0\0\0", "b\0\0\0", "c\0\0\0"));
    c.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    expect(h, &c, POOL("\x80\x01\x04"), WANT("\x40\0\0\0", "\x3F\0\0\0", "\x41\0\0\0"));
    c.relative_to = ETWAGENT__V1__BASE__BASE_PID;
    expect(h, &c, POOL("\x00\x01\x02"), WANT("\x07\0\0\0", "\x06\0\0\0", "\x08\0\0\0"));
    c.relative_to = ETWAGENT__V1__BASE__BASE_TID;
    expect(h, &c, POOL("\x00\x13\x02"), WANT("\x09\0\0\0", "\xFF\xFF\xFF\xFF", "\x0A\0\0\0"));
    c = column(PLANES, 8);
    c.planes = 1;
    c.relative_to = ETWAGENT__V1__BASE__BASE_TIME;
    expect(h, &c, POOL("\x00\x01\x02"), WANT("\x6E\0\0\0\0\0\0\0", "\x77\0\0\0\0\0\0\0", "\x83\0\0\0\0\0\0\0"));
    c = column(CONSTANT, 3);
    c.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    c.constant = BYTES("\x04");
    expect(h, &c, POOL(""), WANT("\x02\0\0", "\x04\0\0", "\x06\0\0"));
    c = column(VARINT, 2);
    c.bytes = 5;
    expect(h, &c, POOL("\x01\x80\x02\xFF\x01"), WANT("\x01\0", "\x00\x01", "\xFF\0"));
    hand_free(h);
}

static void test_lists(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column lengths = column(PLANES, 0), c = column(PLAIN, 0);
    lengths.planes = 1;
    c.lengths = &lengths;
    c.bytes = 6;
    expect(h, &c,
           POOL("\x01\x00\x05"
                "abcdef"),
           WANT("a", "", "bcdef"));
    c = column(PLANES, 2);
    c.lengths = &lengths;
    c.bytes = 6;
    expect(h, &c,
           POOL("\x00\x02\x01"
                "acebdf"),
           WANT("", "abcd", "ef"));
    c = column(CONSTANT, 2); /* elements that are all the same */
    c.lengths = &lengths;
    c.constant = BYTES("-+");
    expect(h, &c, POOL("\x02\x01\x00"), WANT("-+-+", "-+", ""));
    c = column(VARINT, 2); /* differences go on across rows */
    c.lengths = &lengths;
    c.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    c.bytes = 4;
    expect(h, &c, POOL("\x03\x00\x01\x02\x02\x02\x02"), WANT("\x01\0\x02\0\x03\0", "", "\x04\0"));
    hand_free(h);
}

static void test_dictionaries(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column values = column(PLAIN, 2), c = column(DICTIONARY, 0), lengths = column(CONSTANT, 0);
    c.values = &values;
    c.value_count = 2;
    expect(h, &c, POOL("abcd\x01\x00\x01"), WANT("cd", "ab", "cd"));
    c.value_count = 1; /* no indexes at all */
    expect(h, &c, POOL("ab"), WANT("ab", "ab", "ab"));
    /* strings */
    pb_column value_lengths = column(PLANES, 0), strings = column(PLAIN, 0);
    value_lengths.planes = 1;
    strings.lengths = &value_lengths;
    strings.bytes = 4;
    c.values = &strings;
    c.value_count = 2;
    expect(h, &c,
           POOL("\x03\x01"
                "abcd\x00\x00\x01"),
           WANT("abc", "abc", "d"));
    /* a list whose elements are a dictionary's */
    lengths.constant = BYTES("\x02");
    c = column(DICTIONARY, 2);
    c.lengths = &lengths;
    c.values = &values;
    c.value_count = 2;
    c.bytes = 6;
    expect(h, &c, POOL("abcd\x00\x00\x01\x01\x00\x01"), WANT("abab", "cdcd", "abcd"));
    /* a shared one; two columns use it */
    Etwagent__V1__Dictionary shared = ETWAGENT__V1__DICTIONARY__INIT, *list[] = {&shared};
    pb_column c2 = column(DICTIONARY, 0);
    shared.count = 2;
    shared.values = &strings;
    h->directory.n_dictionaries = 1;
    h->directory.dictionaries = list;
    c = column(DICTIONARY, 0);
    c.shared = 1;
    c2.shared = 1;
    Etwagent__V1__Item item = ETWAGENT__V1__ITEM__INIT, *items[] = {&item};
    item.type = 3;
    item.data = &c2;
    h->group.n_items = 1;
    h->group.items = items;
    expect(h, &c,
           POOL("\x00\x01\x00" /* the item's indexes come first */
                "\x01\x00\x01\x03\x01"
                "abcd"),
           WANT("d", "abc", "d"));
    /* inside a dictionary there is no other */
    strings = column(DICTIONARY, 0);
    strings.shared = 1;
    expect_error(h, &c, POOL("\x00\x01\x00\x01\x00\x01\x00\x00"), EA_ECORRUPT);
    hand_free(h);
}

/* Bit i of a number is bit i of the data, from the lowest of the first byte on. */
static void test_bits(void **state) {
    (void)state;
    uint64_t in[40], out[40];
    uint8_t bytes[8 * 40 + 8];
    uint64_t random = 7;
    for (unsigned bits = 1; bits <= 64; bits++) {
        for (unsigned i = 0; i < 40; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            in[i] = random >> (64 - bits);
        }
        size_t n = ea_bits_bytes(37, bits);
        assert_int_equal(n, (37 * bits + 7) / 8);
        memset(bytes, 0xAA, sizeof bytes);
        ea_bits_put(bytes, in, 37, bits);
        assert_int_equal(bytes[n], 0xAA);
        for (size_t at = 0; at < 37 * (size_t)bits; at++) /* by the definition */
            assert_int_equal(bytes[at / 8] >> at % 8 & 1, in[at / bits] >> at % bits & 1);
        memset(out, 0, sizeof out);
        ea_bits_get(out, bytes, 37, bits);
        assert_memory_equal(out, in, 37 * sizeof *in);
    }
    hand *h = hand_new();
    pb_column c = column(BITS, 1);
    c.planes = 3;
    expect(h, &c, POOL("\x4D\x01"), WANT("\x05", "\x01", "\x05")); /* 101 001 101 */
    c.width = 2;
    c.planes = 10;
    expect(h, &c, POOL("\xFF\x07\x00\x20"), WANT("\xFF\x03", "\x01\x00", "\x00\x02"));
    c = column(BITS, 2); /* differences: +2, -1, 0 */
    c.planes = 3;
    c.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    expect(h, &c, POOL("\x0C\x00"), WANT("\x02\x00", "\x01\x00", "\x01\x00"));
    /* a dictionary's indexes: two bits each */
    pb_column values = column(PLAIN, 1), d = column(DICTIONARY, 0);
    d.values = &values;
    d.value_count = 3;
    d.planes = 2;
    expect(h, &d, POOL("xyz\x12"), WANT("z", "x", "y"));
    expect_error(h, &d, POOL("xyz\x13"), EA_ECORRUPT); /* an index too large */
    d.planes = 33;
    expect_error(h, &d, POOL("xyz\x12"), EA_ECORRUPT);
    c = column(BITS, 1);
    expect_error(h, &c, POOL(""), EA_ECORRUPT); /* no bits */
    c.planes = 9;
    expect_error(h, &c, POOL("abcd"), EA_ECORRUPT); /* more than the width */
    c = column(BITS, 9);
    c.planes = 3;
    expect_error(h, &c, POOL("ab"), EA_ECORRUPT);
    c = column(BITS, 1);
    c.planes = 3;
    expect_error(h, &c, POOL("a"), EA_ECORRUPT);   /* short */
    expect_error(h, &c, POOL("abc"), EA_ECORRUPT); /* left over */
    hand_free(h);
}

/* A list of numbers of a width of their own, by differences across rows. */
static void test_list_of_differences(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column lengths = column(PLANES, 0), numbers = column(VARINT, 2);
    lengths.planes = 1;
    numbers.lengths = &lengths;
    numbers.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    numbers.bytes = 4;
    expect(h, &numbers, POOL("\x01\x02\x00\x02\x02\x80\x08"), WANT("\x01\x00", "\x02\x00\x02\x02", ""));
    /* a missing size, and lengths that do not add up */
    numbers.bytes = 0;
    expect_error(h, &numbers, POOL("\x01\x02\x00\x02\x02\x80\x08"), EA_ECORRUPT);
    numbers.bytes = 3;
    expect_error(h, &numbers, POOL("\x01\x02\x00\x02\x02\x80\x08"), EA_ECORRUPT);
    hand_free(h);
}

/* What a reader gets besides the records: numbers of arrival. */
static void test_sequence(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column payload = column(CONSTANT, 0), sequence = column(PLANES, 0);
    const uint64_t *numbers;
    uint64_t first = 0;
    ea_batch_view *v;
    ea_err err;
    h->group.payload = &payload;
    h->directory.first_sequence = 900;
    hand_pack(h);
    assert_int_equal(ea_batch_open(&v, h->out, h->out_bytes, h->registry, &err), 0);
    assert_int_equal(ea_batch_sequence(v, &numbers, &first, &err), 0);
    assert_int_equal(first, 900);
    ea_batch_close(v);
    /* the second came late */
    sequence.planes = 2;
    h->directory.sequence = &sequence;
    h->directory.pool = BYTES("\x85\x83\x86\x03\x03\x03");
    hand_pack(h);
    assert_int_equal(ea_batch_open(&v, h->out, h->out_bytes, h->registry, &err), 0);
    assert_int_equal(ea_batch_sequence(v, &numbers, &first, &err), 1);
    assert_true(numbers[0] == 901 && numbers[1] == 899 && numbers[2] == 902);
    ea_batch_close(v);
    sequence.width = 4; /* its place implies 8 */
    hand_pack(h);
    assert_int_equal(ea_batch_open(&v, h->out, h->out_bytes, h->registry, &err), EA_ECORRUPT);
    hand_free(h);
}

static void test_refused_columns(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column c = column(PLAIN, 2), lengths = column(PLANES, 0), values = column(PLAIN, 1);
    expect_error(h, &c, POOL("abcde"), EA_ECORRUPT);   /* short */
    expect_error(h, &c, POOL("abcdefg"), EA_ECORRUPT); /* left over */
    c.bytes = 6;
    expect_error(h, &c, POOL("abcdef"), EA_ECORRUPT); /* said although implied */
    c = column(PLAIN, 2);
    c.frame = 1;
    expect_error(h, &c, POOL(""), EA_ECORRUPT); /* no such frame */
    c = column(PLAIN, 0);
    expect_error(h, &c, POOL(""), EA_ECORRUPT); /* no width */
    c = column(PLANES, 9);
    c.planes = 1;
    expect_error(h, &c, POOL("abc"), EA_ECORRUPT);
    c = column(PLANES, 2);
    c.planes = 3;
    expect_error(h, &c, POOL("abcabcabc"), EA_ECORRUPT);
    c = column(VARINT, 1);
    c.bytes = 4;
    expect_error(h, &c, POOL("\x01\x80\x02\x01"), EA_ECORRUPT); /* 256 in a byte */
    c.bytes = 3;
    expect_error(h, &c, POOL("\x01\x81\x01"), EA_ECORRUPT); /* two numbers, three rows */
    c = column(7, 1);
    expect_error(h, &c, POOL(""), EA_EUNSUPPORTED);
    c = column(PLANES, 1);
    c.relative_to = (Etwagent__V1__Base)5;
    expect_error(h, &c, POOL("abc"), EA_EUNSUPPORTED);
    /* dictionaries: an index too large, no values, none that is shared */
    c = column(DICTIONARY, 0);
    c.values = &values;
    c.value_count = 2;
    expect_error(h, &c, POOL("ab\x00\x02\x01"), EA_ECORRUPT);
    c.value_count = 0;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    c.values = NULL;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    c.shared = 1;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    /* lists: lengths that do not add up, that exceed every bound, elements relative to events */
    c = column(PLAIN, 0);
    lengths.planes = 1;
    c.lengths = &lengths;
    c.bytes = 6;
    expect_error(h, &c,
                 POOL("\x01\x00\x04"
                      "abcdef"),
                 EA_ECORRUPT);
    lengths = column(CONSTANT, 0);
    lengths.constant = BYTES("\xFF\xFF\xFF\xFF");
    c = column(CONSTANT, 1);
    c.lengths = &lengths;
    expect_error(h, &c, POOL(""), EA_ELIMIT);
    lengths.constant = BYTES("\x00\x00\x01\x00"); /* 65,536 bytes a payload */
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    lengths.constant = BYTES("\x01");
    c = column(CONSTANT, 4);
    c.lengths = &lengths;
    c.relative_to = ETWAGENT__V1__BASE__BASE_PID;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    c = column(RESERVED, 0);
    expect_error(h, &c, POOL(""), EA_EUNSUPPORTED);

    /* columns inside columns without end */
    enum { DEEP = 40 };

    static pb_column nest[DEEP];
    for (unsigned i = 0; i < DEEP; i++) {
        nest[i] = column(i + 1 < DEEP ? DICTIONARY : CONSTANT, 0);
        if (i) {
            nest[i - 1].value_count = 1;
            nest[i - 1].values = &nest[i];
        }
    }
    expect_error(h, &nest[0], POOL(""), EA_ECORRUPT);
    expect(h, &nest[DEEP - 5], POOL(""), WANT("", "", ""));
    hand_free(h);
}

/* What an error says is why the batch was refused. */
static void expect_refusal(hand *h, pb_column *payload, const char *pool, size_t pool_bytes, const char *why) {
    ea_err err = {0};
    ea_batch_view *v = NULL;
    const ea_record *r;
    const ea_class *c;
    h->group.payload = payload;
    h->directory.pool = bytes_of(pool, pool_bytes);
    hand_pack(h);
    int rc = ea_batch_open(&v, h->out, h->out_bytes, h->registry, &err);
    if (!rc)
        rc = ea_batch_next(v, &r, &c, &err);
    ea_batch_close(v);
    assert_true(rc < 0);
    if (!strstr(err.message, why))
        fail_msg("expected '%s', found '%s'", why, err.message);
}

static void test_bounds_of_columns(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column c = column(DICTIONARY, 0), values = column(PLAIN, 1), lengths = column(CONSTANT, 0);
    c.values = &values;
    c.value_count = 2;
    c.relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    expect_refusal(h, &c, POOL("ab"), "a relative dictionary");
    c.relative_to = (Etwagent__V1__Base)0;
    lengths.constant = BYTES("\x01"); /* of a list a column says how many bytes it has */
    c.lengths = &lengths;
    c.value_count = 1;
    c.bytes = 1;
    expect_refusal(h, &c, POOL("ab"), "indexes of a single value");
    c = column(PLAIN, EA_BATCH_MAX_RAW_BYTES + 1);
    expect_refusal(h, &c, POOL(""), "elements of");
    c = column(PLAIN, EA_BATCH_MAX_RAW_BYTES / 2);
    expect_refusal(h, &c, POOL(""), "larger than a batch may be");
    c = column(VARINT, 1);
    c.bytes = UINT64_C(1) << 40;
    expect_refusal(h, &c, POOL(""), "larger than a batch may be");
    c = column(CONSTANT, 1);
    c.lengths = &lengths;
    c.bytes = 1;
    expect_refusal(h, &c, POOL("a"), "a constant with data");
    c = column(CONSTANT, 1 << 20);
    lengths.constant = BYTES("\x00\x01");
    c.lengths = &lengths;
    expect_refusal(h, &c, POOL(""), "a list of more than");
    hand_free(h);
}

static int stop_at_once(const ea_ledger_count *c, void *arg) {
    (void)c, (void)arg;
    return 77;
}

static void test_bounds_of_envelopes(void **state) {
    (void)state;
    hand *h = hand_new();
    ea_err err;
    ea_batch_head head;
    ea_batch_view *v = NULL;
    ea_text t;
    ea_column column_of;
    uint16_t type;
    pb_column c = column(CONSTANT, 0);
    h->group.payload = &c;
    hand_pack(h);
    ea_text_init(&t);
    assert_int_equal(ea_batch_read_head(h->out, (size_t)EA_BATCH_MAX_BYTES + 1, &head, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "are allowed"));
    assert_int_equal(ea_source_origin(h->out, (size_t)EA_MESSAGE_MAX_BYTES + 1, &t, &t, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "a source of"));
    /* a second batch is read with the first one's memory */
    assert_int_equal(ea_batch_open(&v, h->out, h->out_bytes, NULL, &err), 0);
    assert_int_equal(ea_batch_open_next(&v, h->out, h->out_bytes, h->registry, &err), 0);
    assert_int_equal(ea_batch_item(v, 0, 0, &type, &column_of, &err), EA_EINVAL);
    assert_non_null(strstr(err.message, "has no item"));
    ea_batch_close(v);
    h->batch.time_span = UINT64_MAX;
    hand_pack(h);
    assert_int_equal(ea_batch_read_head(h->out, h->out_bytes, &head, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "beyond all clocks"));
    /* The ledger: a callback that ends it, a message that is too large, bytes that are no message. */
    static const uint8_t COUNTS[] = {EA_BATCH_LEDGER << 3 | 2, 6, 1 << 3 | 2, 1, 5, 2 << 3 | 2, 1, 6};
    assert_int_equal(ea_batch_each_count(COUNTS, sizeof COUNTS, stop_at_once, NULL, &err), 77);
    static const uint8_t LARGE[EA_MESSAGE_MAX_BYTES + 1];
    ea_text_clear(&t);
    ea_pb_put_bytes(&t, EA_BATCH_LEDGER, LARGE, sizeof LARGE);
    assert_int_equal(ea_batch_each_count((const uint8_t *)t.data, t.len_bytes, stop_at_once, NULL, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "too large"));
    assert_int_equal(ea_batch_each_count((const uint8_t *)"\xFF", 1, stop_at_once, NULL, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "no protobuf message"));
    /* definitions: fewer than counted, and two whose hashes begin alike */
    ea_own_definition list[3] = {{.hash = {1, 2}}, {.hash = {1, 3}}};
    const ea_own_definition *found;
    assert_int_equal(ea_own_definitions_find(list, 2, list[0].hash, 1, &found), EA_ECORRUPT);
    ea_text_clear(&t);
    ea_pb_put_bytes(&t, EA_DEFINES_CLASS, "abc", 3);
    assert_int_equal(ea_own_definitions(list, 2, EA_DEFINES_CLASS, (const uint8_t *)t.data, t.len_bytes, &err),
                     EA_ECORRUPT);
    assert_non_null(strstr(err.message, "fewer than counted"));
    ea_text_deinit(&t);
    hand_free(h);
}

static void test_refused_directories(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column c = column(CONSTANT, 0), wide = column(CONSTANT, 2);
    Etwagent__V1__Header header = ETWAGENT__V1__HEADER__INIT;
    expect(h, &c, POOL(""), WANT("", "", ""));
    h->group_of.constant = BYTES("\x01");
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->group_of.constant = BYTES("");
    h->thread.constant = BYTES("\x01");
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->thread.constant = BYTES("");
    h->directory.source = &c;
    expect(h, &c, POOL(""), WANT("", "", ""));
    wide.constant = BYTES("\x01");
    h->directory.source = &wide;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->directory.source = NULL;
    h->group.count = ROWS + 1;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->group.count = ROWS - 1;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->group.count = 0;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->group.count = ROWS;
    h->directory.cpu = NULL;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->directory.cpu = &h->cpu;
    h->cpu.width = 4;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->cpu.width = 0;
    h->group.header = &header;
    header.channel = 256;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    header.channel = 255;
    header.provider = BYTES("too short");
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    header.provider = BYTES("sixteen bytes !!");
    expect(h, &c, POOL(""), WANT("", "", ""));
    h->group.header = NULL;
    h->group.class_hash.len = 8;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->group.class_hash.len = 16;
    h->directory.thread_count = ROWS + 1;
    expect_error(h, &c, POOL(""), EA_ELIMIT);
    h->directory.thread_count = 1;
    h->batch.event_count = EA_BATCH_MAX_EVENTS + 1;
    h->group.count = EA_BATCH_MAX_EVENTS + 1;
    expect_error(h, &c, POOL(""), EA_ELIMIT);
    /* the largest number of events with a payload of 65,535 zero bytes each, in a few bytes of batch */
    h->batch.event_count = h->group.count = EA_BATCH_MAX_EVENTS;
    c = column(CONSTANT, 65535);
    expect_error(h, &c, POOL(""), EA_ELIMIT);
    h->batch.event_count = h->group.count = ROWS;
    c = column(CONSTANT, 0);
    expect(h, &c, POOL(""), WANT("", "", ""));
    pb_column *fields[] = {&wide};
    h->group.n_fields = 1;
    h->group.fields = fields;
    expect_error(h, &c, POOL(""), EA_ECORRUPT); /* the class has no fields */
    hand_free(h);
}

static void test_frames(void **state) {
    (void)state;
    hand *h = hand_new();
    pb_column c = column(PLAIN, 2);
    uint8_t packed[200], zeros[3000] = {0};
    size_t n = ZSTD_compress(packed, sizeof packed, "abcdef", 6, 1);
    assert_false(ZSTD_isError(n));
    h->batch.n_frames = 2;
    h->frames[0].data = BYTES("");
    h->frames[1].data = bytes_of(packed, n);
    h->frames[1].raw_bytes = 6;
    c.frame = 2;
    expect(h, &c, POOL(""), WANT("ab", "cd", "ef"));
    h->frames[1].raw_bytes = 7;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->frames[1].raw_bytes = 6;
    packed[n - 1] ^= 0x40;
    h->frames[1].data.len = n - 1; /* cut off */
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->frames[1].data = bytes_of(packed, ZSTD_compress(packed, sizeof packed, zeros, sizeof zeros, 1));
    h->frames[1].raw_bytes = sizeof zeros;
    expect_error(h, &c, POOL(""), EA_ECORRUPT); /* bytes of no column */
    h->frames[1].raw_bytes = UINT64_MAX;
    expect_error(h, &c, POOL(""), EA_ELIMIT);
    h->batch.n_frames = 0;
    h->batch.directory_bytes = 1 << 20;
    expect_error(h, &c, POOL(""), EA_ECORRUPT);
    h->batch.directory_bytes = 0;
    h->batch.context = BYTES("its name"); /* of a context that is nowhere */
    expect_error(h, &c, POOL(""), EA_ENOTFOUND);
    hand_free(h);
}

/* ---- the envelope ---- */

static int head_of(hand *h, ea_batch_head *ret) {
    ea_err err;
    hand_pack(h);
    return ea_batch_read_head(h->out, h->out_bytes, ret, &err);
}

/* Labels and the version, and what is beyond their bounds. */
static void test_labels(void **state) {
    (void)state;
    hand *h = hand_new();
    ea_batch_head head;
    ea_err err;
    ea_text version, labels;
    char name[EA_LABEL_NAME_MAX_BYTES + 2], value[EA_LABEL_VALUE_MAX_BYTES + 2], number[EA_LABELS_MAX + 1][8];
    Etwagent__V1__Label rows[EA_LABELS_MAX + 1], *list[EA_LABELS_MAX + 1];
    for (int i = 0; i <= EA_LABELS_MAX; i++) {
        etwagent__v1__label__init(&rows[i]);
        snprintf(number[i], sizeof number[i], "l%d", i);
        rows[i].name = rows[i].value = number[i];
        list[i] = &rows[i];
    }
    memset(name, 'n', sizeof name);
    memset(value, 'v', sizeof value);
    name[sizeof name - 1] = value[sizeof value - 1] = 0;
    ea_text_init(&version);
    ea_text_init(&labels);
    char text[] = "1.2", odd[] = "\"\n\xff", empty[] = "";
    h->source.agent_version = text;
    h->source.labels = list;
    h->source.n_labels = 2;
    rows[1].value = odd;
    assert_int_equal(head_of(h, &head), 0);
    assert_int_equal(ea_source_origin(head.source, head.source_bytes, &version, &labels, &err), 0);
    assert_string_equal(version.data, "1.2");
    assert_string_equal(labels.data, "{\"l0\": \"l0\", \"l1\": \"\\\"\\n\\u00ff\"}");
    h->source.n_labels = EA_LABELS_MAX;
    assert_int_equal(head_of(h, &head), 0);
    h->source.n_labels = EA_LABELS_MAX + 1;
    assert_int_equal(head_of(h, &head), EA_ELIMIT);
    h->source.n_labels = 2;
    rows[1].name = name;
    assert_int_equal(head_of(h, &head), EA_ELIMIT);
    name[EA_LABEL_NAME_MAX_BYTES] = 0;
    assert_int_equal(head_of(h, &head), 0);
    rows[1].value = value;
    assert_int_equal(head_of(h, &head), EA_ELIMIT);
    value[EA_LABEL_VALUE_MAX_BYTES] = 0;
    assert_int_equal(head_of(h, &head), 0);
    rows[1].name = empty;
    assert_int_equal(head_of(h, &head), EA_ELIMIT);
    rows[1].name = number[0];
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->source.n_labels = 0;
    h->source.agent_version = value;
    assert_int_equal(head_of(h, &head), EA_ELIMIT);
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    hand_free(h);
}

static void test_envelope(void **state) {
    (void)state;
    hand *h = hand_new();
    ea_batch_head head;
    char host[400];
    memset(host, 'h', sizeof host);
    memcpy(host + 254, "\xC3\xA9 ", 4); /* a character across the end of head.host */
    Etwagent__V1__ClockPair first = ETWAGENT__V1__CLOCK_PAIR__INIT, last = first, *pairs[] = {&first, &last};
    first.utc_ns = 1;
    last.raw = 90;
    last.utc_ns = 1000000;
    h->source.host = host;
    h->source.frequency = 1000000;
    h->source.n_clock_pairs = 2;
    h->source.clock_pairs = pairs;
    h->batch.time_min = 100 - last.raw;
    assert_int_equal(head_of(h, &head), 0);
    assert_int_equal(strlen(head.host), 254);
    assert_int_equal(head.number, 5);
    assert_int_equal(head.time_min, 100);
    assert_int_equal(head.time_max, 120);
    assert_int_equal(head.utc_min_ns, 1010000);
    assert_int_equal(head.utc_max_ns, 1030000);
    assert_int_equal(head.description_count, 1);
    h->batch.time_min = INT64_MAX - last.raw - 10;
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.time_min = 0;
    h->batch.format = 2;
    assert_int_equal(head_of(h, &head), EA_EUNSUPPORTED);
    h->batch.format = 1;
    h->batch.number = 0;
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.number = EA_BATCH_MAX_NUMBER + 1; /* an answer about it could not be read */
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.number = EA_BATCH_MAX_NUMBER;
    assert_int_equal(head_of(h, &head), 0);
    h->batch.number = 1;
    h->batch.stream.len = 15;
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.stream.len = 16;
    h->batch.kind = (Etwagent__V1__Kind)3;
    assert_int_equal(head_of(h, &head), EA_EUNSUPPORTED);
    h->batch.kind = ETWAGENT__V1__KIND__KIND_TOMBSTONE;
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.kind = ETWAGENT__V1__KIND__KIND_EVENTS;
    h->batch.n_sources = 0;
    assert_int_equal(head_of(h, &head), EA_ECORRUPT);
    h->batch.n_sources = 1;
    assert_int_equal(head_of(h, &head), 0);
    /* every prefix, and a field of another type */
    ea_err err;
    for (size_t n = 0; n < h->out_bytes; n++)
        (void)!ea_batch_read_head(h->out, n, &head, &err);
    assert_int_equal(ea_batch_read_head((const uint8_t *)"\x0A\x00", 2, &head, &err), EA_ECORRUPT);
    assert_int_equal(ea_batch_read_head((const uint8_t *)"no batch", 8, &head, &err), EA_EFORMAT);
    assert_int_equal(ea_batch_read_head(h->out, 0, &head, &err), EA_EFORMAT);
    hand_free(h);
}

typedef struct seen {
    unsigned count;
    ea_tombstone last;
} seen;

static int see(const ea_tombstone *t, void *arg) {
    seen *s = arg;
    s->count++;
    s->last = *t;
    return s->count == 3 ? 77 : 0;
}

static void test_tombstones(void **state) {
    (void)state;
    ea_err err;
    ea_text out;
    uint8_t stream[16] = "stream";
    ea_tombstone t[] = {
        {.first = 3, .last = 9, .cause = 15, .event_count = UINT64_C(1) << 33, .utc_min_ns = -1, .utc_max_ns = 5},
        {.first = 11, .last = 11, .cause = 16}};
    ea_text_init(&out);
    assert_int_equal(ea_batch_make_tombstone(stream, 9, t, 2, &out, &err), 0);
    const uint8_t *data = (const uint8_t *)out.data;
    ea_batch_head head;
    assert_int_equal(ea_batch_read_head(data, out.len_bytes, &head, &err), 0);
    assert_int_equal(head.kind, EA_BATCH_TOMBSTONE);
    assert_int_equal(head.number, 9);
    assert_int_equal(head.event_count, 0);
    assert_int_equal(head.tombstone_count, 2);
    assert_memory_equal(head.stream, stream, 16);
    seen s = {0};
    assert_int_equal(ea_batch_each_tombstone(data, out.len_bytes, see, &s, &err), 0);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.last.first, 11);
    s.count = 1; /* the callback stops the iteration */
    assert_int_equal(ea_batch_each_tombstone(data, out.len_bytes, see, &s, &err), 77);
    /* it opens like any batch, and is empty */
    ea_registry *registry;
    ea_batch_view *v;
    const ea_record *r;
    const ea_class *c;
    assert_int_equal(ea_registry_create(&registry, 0, &err), 0);
    assert_int_equal(ea_batch_open(&v, data, out.len_bytes, registry, &err), 0);
    assert_int_equal(ea_batch_next(v, &r, &c, &err), 0);
    assert_int_equal(ea_batch_verify(v, &err), 0);
    assert_int_equal(ea_batch_group_count(v), 0);
    const uint32_t *pids;
    size_t count;
    assert_int_equal(ea_batch_pids(v, &pids, &count, &err), 0);
    assert_int_equal(count, 0);
    ea_batch_close(v);
    ea_registry_destroy(registry);
    /* under another number it is one row, of all their time */
    ea_text renamed;
    ea_text_init(&renamed);
    t[1].utc_min_ns = -7;
    t[1].utc_max_ns = 9;
    ea_text_clear(&out);
    assert_int_equal(ea_batch_make_tombstone(stream, 9, t, 2, &out, &err), 0);
    assert_int_equal(ea_batch_rename((const uint8_t *)out.data, out.len_bytes, stream, 20, &renamed, &err), 0);
    s.count = 0;
    assert_int_equal(ea_batch_each_tombstone((const uint8_t *)renamed.data, renamed.len_bytes, see, &s, &err), 0);
    assert_int_equal(s.count, 1);
    assert_true(s.last.first == 20 && s.last.last == 20 && s.last.utc_min_ns == -7 && s.last.utc_max_ns == 9);
    ea_text_clear(&renamed);
    ea_batch_add_definition(&renamed, EA_DEFINES_CLASS, (const uint8_t *)"abc", 3);
    assert_int_equal(renamed.len_bytes, 5);
    ea_text_deinit(&renamed);
    /* ranges that are none */
    t[0].first = 0;
    ea_text_clear(&out);
    assert_int_equal(ea_batch_make_tombstone(stream, 9, t, 1, &out, &err), 0);
    assert_int_equal(ea_batch_each_tombstone((const uint8_t *)out.data, out.len_bytes, see, &s, &err), EA_ECORRUPT);
    ea_text_deinit(&out);
}

/* ---- answers and uploads ---- */

static void test_answers(void **state) {
    (void)state;
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {7, 7, 7};
    ea_arena arena;
    ea_ack ack;
    ea_err err;
    ea_arena_init(&arena, 1 << 20);
    ea_range ranges[] = {{1, 3}, {UINT64_MAX, UINT64_MAX}};
    ea_refusal refusals[] = {{9, EA_REFUSED_CONFLICT, "text"}, {10, EA_REFUSED_RETRY, ""}};
    ea_class_hash hashes[] = {{{1}}, {{2}}};
    ea_hash_ref refs[] = {{{1, 2, 3, 4}, 4}, {{5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}, 16}};
    ea_ack sent = {.acknowledged = ranges,
                   .acknowledged_count = 2,
                   .refused = refusals,
                   .refused_count = 2,
                   .unknown = refs,
                   .unknown_count = 2,
                   .known = hashes,
                   .known_count = 2,
                   .credit_bytes = UINT64_MAX,
                   .retry_after_ms = 7,
                   .keyframe_wanted = 1};
    memcpy(sent.stream, STREAM, sizeof STREAM);
    ea_text t;
    ea_text_init(&t);
    ea_ack_encode(&sent, &t);
    assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)t.data, t.len_bytes, &err), 0);
    assert_memory_equal(ack.stream, STREAM, sizeof STREAM);
    assert_int_equal(ack.acknowledged_count, 2);
    assert_memory_equal(ack.acknowledged, ranges, sizeof ranges);
    assert_int_equal(ack.refused_count, 2);
    assert_int_equal(ack.refused[0].number, 9);
    assert_int_equal(ack.refused[1].cause, EA_REFUSED_RETRY);
    assert_string_equal(ack.refused[0].text, "text");
    assert_int_equal(ack.unknown_count, 2);
    assert_memory_equal(ack.unknown, refs, sizeof refs);
    assert_memory_equal(ack.known, hashes, sizeof hashes);
    assert_true(ack.credit_bytes == UINT64_MAX && ack.retry_after_ms == 7 && ack.keyframe_wanted);
    /* every prefix is read or refused, and never beyond its end */
    for (size_t n = 0; n < t.len_bytes; n++) {
        uint8_t *exact = malloc(n + !n);
        assert_non_null(exact);
        memcpy(exact, t.data, n);
        ea_arena_reset(&arena);
        int rc = ea_ack_decode(&ack, &arena, exact, n, &err);
        assert_true(rc == 0 || rc == EA_ECORRUPT);
        free(exact);
    }
    /* an empty range, one that runs backwards, a short hash, no stream, two streams */
    static const char STREAM_FIELD[] = "\x0a\x10\7\7\7\0\0\0\0\0\0\0\0\0\0\0\0\0";

    static const struct {
        const char *bytes;
        size_t len_bytes;
    } BAD[] = {{"\x12\x00", 2},  {"\x12\x04\x08\x05\x10\x04", 6}, {"\x12\x02\x10\x04", 4},
               {"\x22\x01x", 3}, {"\x1a\x02\x10\x01", 4},         {STREAM_FIELD, 18}};

    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        ea_text_clear(&t);
        ea_text_add(&t, STREAM_FIELD, 18);
        ea_text_add(&t, BAD[i].bytes, BAD[i].len_bytes);
        assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)t.data, t.len_bytes, &err), EA_ECORRUPT);
    }
    assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)"", 0, &err), EA_ECORRUPT);
    /* more than an answer may hold */
    ea_text_clear(&t);
    ea_text_add(&t, STREAM_FIELD, 18);
    for (int i = 0; i <= EA_ACK_MAX_RANGES; i++)
        ea_text_add(&t, "\x12\x04\x08\x01\x10\x01", 6);
    assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)t.data, t.len_bytes, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "more than 65536 elements"));
    for (int i = 0; i < EA_ACK_MAX_BYTES / 6; i++)
        ea_text_add(&t, "\x12\x04\x08\x01\x10\x01", 6);
    assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)t.data, t.len_bytes, &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "bytes: at most"));
    assert_int_equal(ea_ranges_have(ranges, 2, 2), 1);
    assert_int_equal(ea_ranges_have(ranges, 2, 4), 0);
    ea_text_deinit(&t);
    ea_arena_deinit(&arena);
}

static void test_uploads(void **state) {
    (void)state;
    static const uint8_t TWO[] = {1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b', 'c'};
    const uint8_t *batch;
    size_t n, offset = 0;
    ea_err err;
    assert_int_equal(ea_upload_next(TWO, sizeof TWO, &offset, &batch, &n, &err), 1);
    assert_true(n == 1 && batch[0] == 'a');
    assert_int_equal(ea_upload_next(TWO, sizeof TWO, &offset, &batch, &n, &err), 1);
    assert_true(n == 2 && batch[1] == 'c');
    assert_int_equal(ea_upload_next(TWO, sizeof TWO, &offset, &batch, &n, &err), 0);
    for (size_t cut = 6; cut < sizeof TWO; cut++) {
        offset = 5;
        assert_int_equal(ea_upload_next(TWO, cut, &offset, &batch, &n, &err), EA_ECORRUPT);
    }
    offset = 0;
    assert_int_equal(ea_upload_next((const uint8_t[]){0, 0, 0, 0}, 4, &offset, &batch, &n, &err), EA_ECORRUPT);
    assert_int_equal(ea_upload_next((const uint8_t[]){255, 255, 255, 255, 1}, 5, &offset, &batch, &n, &err),
                     EA_ECORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_dictionaries),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_list_of_differences),
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_refused_columns),
        cmocka_unit_test(test_bounds_of_columns),
        cmocka_unit_test(test_bounds_of_envelopes),
        cmocka_unit_test(test_refused_directories),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_envelope),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_tombstones),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_uploads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
