/* Decompression: the specification's own examples, streams that other implementations wrote, our compressor's, and
 * damage. Sources of the vectors: [MS-XCA] 3.1 and 3.2 (plain LZ77, LZ77+Huffman); a stream that RtlCompressBuffer
 * wrote (albertziegenhagel/snail-server tests/unit/common/compression.cpp, MIT); LZNT1 by hand after [MS-XCA] 2.5. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

typedef int (*decompressor)(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes);

static uint64_t rng_state = 1;

static uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Decompresses from and to allocations of just the right size, so that a sanitizer sees a byte too far. */
static int decompress(decompressor fn, const void *in, size_t in_bytes, size_t room, uint8_t **ret_out,
                      size_t *ret_bytes) {
    uint8_t *copy = malloc(in_bytes ? in_bytes : 1), *out = malloc(room ? room : 1);
    assert_non_null(copy);
    assert_non_null(out);
    memcpy(copy, in, in_bytes);
    *ret_bytes = SIZE_MAX;
    int rc = fn(copy, in_bytes, out, room, ret_bytes);
    assert_true(*ret_bytes <= room);
    free(copy);
    *ret_out = out;
    return rc;
}

static void expect(decompressor fn, const void *in, size_t in_bytes, const void *want, size_t want_bytes) {
    uint8_t *out;
    size_t got;
    assert_int_equal(decompress(fn, in, in_bytes, want_bytes, &out, &got), 0);
    assert_int_equal(got, want_bytes);
    assert_memory_equal(out, want, want_bytes);
    free(out);
    for (size_t room = 0; room < want_bytes; room += 1 + want_bytes / 64) { /* any room gives as much as fits */
        assert_int_equal(decompress(fn, in, in_bytes, room, &out, &got), 0);
        assert_int_equal(got, room);
        assert_memory_equal(out, want, room);
        free(out);
    }
}

static char *repeated(const char *piece, size_t times) {
    size_t len = strlen(piece);
    char *s = malloc(len * times + 1);
    assert_non_null(s);
    for (size_t i = 0; i < times; i++)
        memcpy(s + i * len, piece, len);
    s[len * times] = 0;
    return s;
}

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";

static void plain_lz77_vectors(void **state) {
    (void)state;
    static const uint8_t example1[] = {0x3f, 0,    0,    0,    0x61, 0x62, 0x63, 0x64, 0x65, 0x66,
                                       0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70,
                                       0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a};
    static const uint8_t example2[] = {0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01};
    char *abc = repeated("abc", 100);
    expect(ea_xpress_decompress, example1, sizeof example1, alphabet, 26);
    expect(ea_xpress_decompress, example2, sizeof example2, abc, 300);
    uint8_t *out;
    size_t got;
    /* a flag of one at the end of the input ends the stream, whatever room there is */
    assert_int_equal(decompress(ea_xpress_decompress, example1, sizeof example1, 1000, &out, &got), 0);
    assert_int_equal(got, 26);
    free(out);
    free(abc);

    static const uint8_t windows[] = {0xaf, 0xea, 0x0a, 0x00, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x67,
                                      0x68, 0x68, 0x68, 0x69, 0x00, 0x00, 0x6a, 0x01, 0x00, 0x6b, 0x06, 0x00,
                                      0x72, 0x00, 0x27, 0x00, 0xf5, 0x6c, 0x07, 0x00, 0x0e, 0x6d, 0x07, 0x00,
                                      0xff, 0x36, 0x6f, 0x07, 0x00, 0x86, 0x70, 0x07, 0x00, 0xff, 0xff, 0x3c,
                                      0x01, 0x71, 0x07, 0x00, 0xff, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00};

    static const struct {
        char letter;
        size_t count;
    } runs[] = {{'g', 2},  {'h', 3},  {'i', 4},   {'j', 5},   {'k', 10},   {'j', 20},
                {'l', 40}, {'m', 80}, {'o', 160}, {'p', 320}, {'q', 65540}};

    size_t n = 6;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        n += runs[i].count;
    char *text = malloc(n), *p = text + 6;
    assert_non_null(text);
    memcpy(text, "abcdef", 6);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; p += runs[i].count, i++)
        memset(p, runs[i].letter, runs[i].count);
    expect(ea_xpress_decompress, windows, sizeof windows, text, n); /* lengths of 16 and of 32 bits */
    free(text);
}

static void huffman_vectors(void **state) {
    (void)state;
    static const uint8_t codes[] = {0xd8, 0x52, 0x3e, 0xd7, 0x94, 0x11, 0x5b, 0xe9, 0x19, 0x5f,
                                    0xf9, 0xd6, 0x7c, 0xdf, 0x8d, 0x04, 0x00, 0x00, 0x00, 0x00};
    uint8_t example1[256 + sizeof codes] = {0}, example2[256 + 7] = {0};
    example1[48] = 0x50;
    memset(example1 + 49, 0x55, 10);
    example1[59] = 0x45;
    example1[60] = 0x44;
    example1[61] = 0x04;
    example1[128] = 0x04;
    memcpy(example1 + 256, codes, sizeof codes);
    expect(ea_xpress_huff_decompress, example1, sizeof example1, alphabet, 26);

    example2[48] = 0x30;
    example2[49] = 0x23;
    example2[128] = 0x02;
    example2[143] = 0x20;
    memcpy(example2 + 256, "\xa8\xdc\x00\x00\xff\x26\x01", 7);
    char *abc = repeated("abc", 100);
    expect(ea_xpress_huff_decompress, example2, sizeof example2, abc, 300);
    free(abc);

    uint8_t *out;
    size_t got;
    uint8_t bad[300];
    memset(bad, 0x11, sizeof bad); /* 512 codes of one bit */
    assert_int_equal(decompress(ea_xpress_huff_decompress, bad, sizeof bad, 100, &out, &got), EA_ECORRUPT);
    free(out);
    memset(bad, 0, sizeof bad); /* no code at all */
    assert_int_equal(decompress(ea_xpress_huff_decompress, bad, sizeof bad, 100, &out, &got), EA_ECORRUPT);
    free(out);
    assert_int_equal(decompress(ea_xpress_huff_decompress, bad, 100, 100, &out, &got), EA_ECORRUPT);
    free(out);
}

static void lznt1_vectors(void **state) {
    (void)state;
    static const uint8_t text[] = "\x1a\xb0\x00"
                                  "compress\x00"
                                  "edtestda\x04ta\x07\x88"
                                  "alot";
    expect(ea_lznt1_decompress, text, sizeof text - 1, "compressedtestdatacompressedalot", 32);
    /* a chunk that is stored, then one that is compressed: "ab" and a match of 3 + 61 at distance 2 (position 2: 4 bits
     * of distance, 12 of length) */
    static const uint8_t mixed[] = {0x03, 0x30, 'w', 'x', 'y', 'z', 0x04, 0xb0, 0x04, 'a', 'b', 0x3d, 0x10};
    char want[4 + 66];
    memcpy(want, "wxyz", 4);
    for (size_t i = 4; i < sizeof want; i++)
        want[i] = i % 2 ? 'b' : 'a';
    expect(ea_lznt1_decompress, mixed, sizeof mixed, want, sizeof want);
    /* the distance reaches back 17 bytes at position 17: there it takes 5 bits */
    static const uint8_t far[] = {0x15, 0xb0, 0,   '0', '1', '2', '3', '4', '5',  '6', '7',  0,
                                  '8',  '9',  'a', 'b', 'c', 'd', 'e', 'f', 0x02, 'g', 0x01, 0x80};
    uint8_t *out;
    size_t got;
    assert_int_equal(decompress(ea_lznt1_decompress, far, sizeof far, 21, &out, &got), 0);
    assert_memory_equal(out, "0123456789abcdefg0123", 21);
    free(out);
    /* A damaged chunk is replaced by zeros, and the next chunk is at its correct offset. */
    static const uint8_t damaged[] = {0x03, 0xb0, 0x01, 0xff, 0xff, 0xff, 0x01, 0x30, 'o', 'k'};
    assert_int_equal(decompress(ea_lznt1_decompress, damaged, sizeof damaged, 5000, &out, &got), EA_ECORRUPT);
    assert_int_equal(got, 4096 + 2);
    assert_int_equal(out[0], 0);
    assert_memory_equal(out + 4096, "ok", 2);
    free(out);
}

/* Data as buffers hold them: records that are like the ones before them, zeros, some noise. */
static size_t make_data(uint8_t *data, size_t capacity) {
    size_t n = 0, wanted = rng() % capacity;
    while (n < wanted) {
        size_t len = 1 + rng() % 300, kind = rng() % 4;
        if (len > wanted - n)
            len = wanted - n;
        for (size_t i = 0; i < len; i++) {
            size_t distance = 1 + (kind == 0 ? rng() % 8 : kind * 96);
            data[n + i] = kind == 3 ? (uint8_t)rng() : n + i >= distance ? data[n + i - distance] : (uint8_t)i;
        }
        n += len;
    }
    return n;
}

static void compressed_by_us(void **state) {
    (void)state;

    enum { CAPACITY = 200000 };

    uint8_t *data = malloc(CAPACITY), *packed = malloc(ea_xpress_bound(CAPACITY));
    assert_non_null(data);
    assert_non_null(packed);
    for (int round = 0; round < 60; round++) {
        size_t n = make_data(data, round < 30 ? 500 : CAPACITY);
        size_t packed_bytes = ea_xpress_compress(data, n, packed);
        expect(ea_xpress_decompress, packed, packed_bytes, data, n);
        /* taken up again at any place */
        uint8_t *out = malloc(n ? n : 1);
        assert_non_null(out);
        ea_xpress_state s = {0};
        while (s.out < n) {
            size_t stop = s.out + 1 + rng() % 5000;
            assert_int_equal(ea_xpress_run(&s, packed, packed_bytes, out, stop < n ? stop : n, n), 0);
            assert_true(s.out >= (stop < n ? stop : n));
        }
        assert_memory_equal(out, data, n);
        free(out);
    }
    free(data);
    free(packed);
}

/* For any input, no byte outside the buffers is read or written, and the reported number of bytes is written. */
static void noise(void **state) {
    (void)state;
    static const decompressor all[] = {ea_xpress_decompress, ea_xpress_huff_decompress, ea_lznt1_decompress};
    uint8_t in[700];
    for (int round = 0; round < 6000; round++) {
        size_t n = rng() % sizeof in, room = rng() % 5000, got;
        for (size_t i = 0; i < n; i++)
            in[i] = rng() % 4 ? (uint8_t)(rng() % 9) : (uint8_t)rng();
        for (size_t k = 0; k < 3; k++) {
            uint8_t *out;
            int rc = decompress(all[k], in, n, room, &out, &got);
            assert_true(rc == 0 || rc == EA_ECORRUPT);
            free(out);
        }
    }
}

static void cut_streams(void **state) {
    (void)state;
    uint8_t data[3000], packed[8000];
    size_t n = 0;
    while (n < 2000)
        n = make_data(data, sizeof data);
    size_t packed_bytes = ea_xpress_compress(data, n, packed);
    for (size_t cut = 0; cut < packed_bytes; cut++) {
        uint8_t *out;
        size_t got;
        int rc = decompress(ea_xpress_decompress, packed, cut, n, &out, &got);
        assert_true(got < n || rc == 0);
        assert_memory_equal(out, data, got); /* what came out is right */
        free(out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_lz77_vectors), cmocka_unit_test(huffman_vectors), cmocka_unit_test(lznt1_vectors),
        cmocka_unit_test(compressed_by_us),   cmocka_unit_test(noise),           cmocka_unit_test(cut_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
