/* proto/base: errors, text, clocks, maps, arenas, counters, records. */
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "proto/base/counters.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/base/record.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* a small generator of our own, so that a failure can be repeated (xorshift64*) */
static uint64_t rng_state;

static uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * 0x2545F4914F6CDD1Du;
}

#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* ---- errors ---- */

static void errors(void **state) {
    (void)state;
    ea_err err = {0};
    assert_int_equal(ea_fail(&err, EA_EIO, "read %s at %d", "a.etl", 7), EA_EIO);
    assert_string_equal(err.message, "read a.etl at 7");
    assert_int_equal(err.code, EA_EIO);
    assert_int_equal(err.os_error, 0);
    assert_int_equal(ea_fail_os(&err, EA_ENOTFOUND, 2, "open x"), EA_ENOTFOUND);
    assert_int_equal(err.os_error, 2);
    assert_int_equal(ea_fail(NULL, EA_ENOMEM, "no listener"), EA_ENOMEM);
    assert_true(ea_fail(NULL, 0, "a failure never looks like success") < 0);

    char large[2000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    assert_int_equal(ea_fail(&err, EA_EINVAL, "%s", large), EA_EINVAL);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);

    assert_string_equal(ea_code_name(EA_ENOMEM), "EA_ENOMEM");
    assert_string_equal(ea_code_name(0), "EA_OK");
    assert_string_equal(ea_code_name(-9999), "unknown error");
    assert_string_equal(ea_code_text(9999), "unknown error");
    assert_int_equal(ea_exit_code(0), 0);
    assert_int_equal(ea_exit_code(EA_EUSAGE), 2);
    assert_int_equal(ea_exit_code(EA_ECORRUPT), 3);
    assert_int_equal(ea_exit_code(EA_EIO), 1);

    static const int codes[] = {
#define X(name, code, text) name,
        EA_ERRORS(X)
#undef X
    };
    for (size_t i = 0; i < LENGTH(codes); i++) {
        assert_true(codes[i] < 0);
        assert_true(strlen(ea_code_text(codes[i])) > 3);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(codes[i], codes[k]);
    }
}

/* ---- text ---- */

static void text_growth(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);
    assert_null(t.data);
    for (int i = 0; i < 100000; i++)
        ea_text_char(&t, (char)('a' + i % 26));
    assert_int_equal(t.len_bytes, 100000);
    assert_int_equal(t.data[100000], 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(t.data[i], 'a' + i % 26);
    ea_text_clear(&t);
    assert_int_equal(t.len_bytes, 0);
    assert_string_equal(t.data, "");
    ea_text_add(&t, NULL, 0);
    assert_string_equal(t.data, "");

    /* A failed allocation is remembered until the text is cleared. The existing text is kept. */
    ea_text_str(&t, "kept");
    ea_text_add(&t, "x", SIZE_MAX / 2);
    assert_int_equal(t.failed, 1);
    ea_text_str(&t, "more");
    assert_string_equal(t.data, "kept");
    ea_text_clear(&t);
    ea_text_printf(&t, "%s-%05d", "again", 42);
    assert_int_equal(t.failed, 0);
    assert_string_equal(t.data, "again-00042");
    ea_text_deinit(&t);
    assert_null(t.data);
}

static void text_numbers(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);
    ea_text_u64(&t, 0);
    ea_text_char(&t, ' ');
    ea_text_u64(&t, UINT64_MAX);
    ea_text_char(&t, ' ');
    ea_text_i64(&t, INT64_MIN);
    ea_text_char(&t, ' ');
    ea_text_i64(&t, INT64_MAX);
    ea_text_char(&t, ' ');
    ea_text_hex64(&t, 0);
    ea_text_char(&t, ' ');
    ea_text_hex64(&t, UINT64_MAX);
    ea_text_char(&t, ' ');
    ea_text_hex64(&t, 0x1F);
    ea_text_char(&t, ' ');
    static const uint8_t bytes[] = {0x00, 0xFF, 0x10, 0xAb};
    ea_text_hex(&t, bytes, sizeof bytes);
    assert_string_equal(t.data,
                        "0 18446744073709551615 -9223372036854775808 9223372036854775807 0x0 0xffffffffffffffff "
                        "0x1f 00ff10ab");
    uint8_t back[4];
    size_t n;
    assert_int_equal(ea_hex_parse("00FF10ab", back, sizeof back, &n), 0);
    assert_int_equal(n, 4);
    assert_memory_equal(back, bytes, 4);
    assert_int_equal(ea_hex_parse("", back, 0, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ea_hex_parse("0", back, sizeof back, &n), EA_EINVAL);
    assert_int_equal(ea_hex_parse("0g", back, sizeof back, &n), EA_EINVAL);
    assert_int_equal(ea_hex_parse("0011223344", back, sizeof back, &n), EA_EINVAL);
    ea_text_deinit(&t);

    static const struct {
        const char *s;
        uint64_t v;
    } good[] = {{"0", 0},
                {"7", 7},
                {"0018", 18},
                {"18446744073709551615", UINT64_MAX},
                {"0x0", 0},
                {"0Xff", 255},
                {"0xFFFFFFFFFFFFFFFF", UINT64_MAX}};

    for (size_t i = 0; i < LENGTH(good); i++) {
        uint64_t v = 1;
        assert_int_equal(ea_u64_parse(good[i].s, &v), 0);
        assert_true(v == good[i].v);
    }
    static const char *const bad[] = {
        "", "0x", "18446744073709551616", "0x10000000000000000", "-1", "+1", " 1", "1 ", "1.0", "a", "0xg", "1e3"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        uint64_t v = 77;
        assert_int_equal(ea_u64_parse(bad[i], &v), EA_EINVAL);
        assert_true(v == 77);
    }
}

static void digits_and_little_endian_texts(void **state) {
    (void)state;
    uint64_t v = 77;
    const char *at = "0018446744073709551615,";
    assert_int_equal(ea_digits_parse(&at, 10, &v), 1);
    assert_true(v == UINT64_MAX && *at == ',');
    static const char *const bad[] = {"", "x", " 1", "-1", "18446744073709551616", "a"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        at = bad[i];
        assert_int_equal(ea_digits_parse(&at, 10, &v), 0);
        assert_true(at == bad[i] && v == UINT64_MAX);
    }
    at = "00fFg";
    assert_int_equal(ea_digits_parse(&at, 16, &v), 1);
    assert_true(v == 255 && *at == 'g');
    at = "10000000000000000";
    assert_int_equal(ea_digits_parse(&at, 16, &v), 0);
    at = "end of it";
    assert_int_equal(ea_text_parse(&at, "ended"), 0);
    assert_string_equal(at, "end of it");
    assert_int_equal(ea_text_parse(&at, "end "), 1);
    assert_string_equal(at, "of it");
    assert_int_equal(ea_text_parse(&at, "of it."), 0);
    assert_string_equal(at, "of it");

    ea_text t;
    ea_text_init(&t);
    ea_text_percent(&t, "aZ@[`{/:09-_.\0\xC3\xA9", 16, "-_");
    assert_string_equal(t.data, "aZ%40%5B%60%7B%2F%3A09-_%2E%00%C3%A9");
    ea_text_clear(&t);
    ea_text_le32(&t, 0x04030201);
    ea_text_le64(&t, 0x0807060504030201);
    assert_int_equal(t.len_bytes, 12);
    assert_memory_equal(t.data, "\1\2\3\4\1\2\3\4\5\6\7\10", 12);

    static const struct {
        size_t max_bytes;
        const char *text;
    } cut[] = {{0, ""}, {1, "a"}, {2, "a"}, {3, "a\xC3\xA9"}, {4, "a\xC3\xA9"}, {6, "a\xC3\xA9\xE2\x82\xAC"}};

    for (size_t i = 0; i < LENGTH(cut); i++) {
        ea_text_clear(&t);
        ea_text_str_nul(&t, "a\xC3\xA9\xE2\x82\xAC", cut[i].max_bytes);
        assert_int_equal(t.len_bytes, strlen(cut[i].text) + 1);
        assert_memory_equal(t.data, cut[i].text, t.len_bytes);
    }
    ea_text_deinit(&t);
}

static void text_varints(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);
    ea_text_varint(&t, 0);
    ea_text_varint(&t, 127);
    ea_text_varint(&t, 300);
    ea_text_varint(&t, UINT64_MAX);
    assert_int_equal(t.len_bytes, 14);
    assert_memory_equal(t.data, "\0\x7F\xAC\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 14);
    ea_text_deinit(&t);
}

/* SIDs as text and back; bytes and texts that are none. */
static void text_sids(void **state) {
    (void)state;

    static const struct {
        const char *text;
        uint8_t bytes[20];
        size_t len_bytes;
    } sids[] = {
        {"S-1-0", {1, 0}, 8},
        {"S-1-5-18", {1, 1, [7] = 5, [8] = 18}, 12},
        {"S-1-5-32-544", {1, 2, [7] = 5, [8] = 32, [12] = 0x20, 2}, 16},
        {"S-1-4294967295-4294967295", {1, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, 12},
        {"S-1-0x0A0000000001-7", {1, 1, 0x0A, [7] = 1, [8] = 7}, 12},
    };

    static const char *const bad[] = {"",          "S",
                                      "S-1-",      "S-1-5-",
                                      "S-1-5--1",  "S-1-5-4294967296",
                                      "S-2-5-18",  "S-1-281474976710656-1",
                                      "S-1-0x",    "S-1-0x1000000000000-1",
                                      "S-1-5-18 ", "S-1-5-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1"};
    uint8_t made[EA_SID_MAX_BYTES];
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < LENGTH(sids); i++) {
        ea_text_clear(&t);
        assert_int_equal(ea_text_sid(&t, sids[i].bytes, sizeof sids[i].bytes), 1); /* what follows is no part of it */
        assert_string_equal(t.data, sids[i].text);
        assert_int_equal(ea_sid_parse(sids[i].text, made), sids[i].len_bytes);
        assert_memory_equal(made, sids[i].bytes, sids[i].len_bytes);
        ea_text_clear(&t);
        assert_int_equal(ea_text_sid(&t, sids[i].bytes, sids[i].len_bytes - 1), 0);
        assert_int_equal(t.len_bytes, 0);
    }
    assert_int_equal(ea_sid_parse("S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15", made), EA_SID_MAX_BYTES);
    made[1] = 16; /* parts, more than there may be */
    assert_int_equal(ea_text_sid(&t, made, 2 * sizeof made), 0);
    for (size_t i = 0; i < LENGTH(bad); i++)
        assert_int_equal(ea_sid_parse(bad[i], made), 0);
    ea_text_deinit(&t);
}

static void text_guids(void **state) {
    (void)state;
    static const ea_guid sample = EA_GUID(0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39);
    char out[37];
    ea_guid_format(&sample, out);
    assert_string_equal(out, "9e814aad-3204-11d2-9a82-006008a86939");
    ea_guid g;
    assert_int_equal(ea_guid_parse("{9E814AAD-3204-11D2-9A82-006008A86939}", &g), 0);
    assert_true(ea_guid_equal(&g, &sample));
    assert_false(ea_guid_is_zero(&g));
    assert_int_equal(ea_guid_parse("00000000-0000-0000-0000-000000000000", &g), 0);
    assert_true(ea_guid_is_zero(&g));
    static const char *const bad[] = {"",
                                      "{",
                                      "9e814aad",
                                      "9e814aad-3204-11d2-9a82-006008a8693",
                                      "9e814aad-3204-11d2-9a82-006008a869390",
                                      "9e814aad-3204-11d2-9a82-006008a86939}",
                                      "{9e814aad-3204-11d2-9a82-006008a86939",
                                      "9e814aadx3204-11d2-9a82-006008a86939",
                                      "9e814aag-3204-11d2-9a82-006008a86939"};
    for (size_t i = 0; i < LENGTH(bad); i++)
        assert_int_equal(ea_guid_parse(bad[i], &g), EA_EINVAL);
    assert_true(ea_guid_is_zero(&g)); /* a failure leaves the output alone */
    rng_state = 5;
    for (int i = 0; i < 1000; i++) {
        ea_guid a, b;
        ea_store64(a.bytes, rng());
        ea_store64(a.bytes + 8, rng());
        ea_guid_format(&a, out);
        assert_int_equal(ea_guid_parse(out, &b), 0);
        assert_true(ea_guid_equal(&a, &b));
    }
}

static void text_utf16(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);
    static const uint8_t mixed[] = {'a', 0, 0xE9, 0, 0xAC, 0x20, 0x3D, 0xD8, 0x00, 0xDE, 'z', 0, 'x'};
    ea_text_utf16(&t, mixed, sizeof mixed); /* a, e acute, euro, U+1F600, z, and an odd byte that is ignored */
    assert_string_equal(t.data, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
    ea_text_clear(&t);
    static const uint8_t lone[] = {0x00, 0xDC, 0x00, 0xD8, 'a', 0, 0x00, 0xD8};
    ea_text_utf16(&t, lone, sizeof lone); /* low, high before a letter, high at the end: three bytes each */
    assert_string_equal(t.data, "\xED\xB0\x80\xED\xA0\x80"
                                "a\xED\xA0\x80");
    ea_text_clear(&t);
    ea_text_utf16(&t, lone, 0);
    ea_text_utf16(&t, lone, 1);
    assert_int_equal(t.len_bytes, 0);
    /* and back: every code unit, in any order, survives */
    rng_state = 13;
    for (int round = 0; round < 3000; round++) {
        uint8_t in[40], back[40];
        size_t n = rng() % 20 * 2;
        for (size_t i = 0; i < n; i += 2)
            ea_store16(in + i, (uint16_t)(rng() & 1 ? 0xD800 + rng() % 0x800 : rng()));
        ea_text_clear(&t);
        ea_text_utf16(&t, in, n);
        assert_int_equal(ea_utf8_to_utf16(t.data, t.len_bytes, back, sizeof back), n);
        assert_memory_equal(in, back, n);
    }
    uint8_t small[6] = {0};
    assert_int_equal(ea_utf8_to_utf16("a\xF0\x9F\x98\x80z", 6, NULL, 0), 8);
    assert_int_equal(ea_utf8_to_utf16("a\xF0\x9F\x98\x80z", 6, small, 4), 8);
    assert_memory_equal(small, "a\0\0\0\0\0", 6); /* half a pair is not written, nor what follows it */
    assert_int_equal(ea_utf8_to_utf16("\xFF", 1, small, 6), 2);
    assert_int_equal(ea_load16(small), 0xFFFD);
    ea_text_clear(&t);
    static const uint8_t ansi[] = {'A', 0x80, 0x81, 0x99, 0x9F, 0xA0, 0xFF};
    ea_text_ansi(&t, ansi, sizeof ansi);
    assert_string_equal(t.data, "A\xE2\x82\xAC\xC2\x81\xE2\x84\xA2\xC5\xB8\xC2\xA0\xC3\xBF");
    ea_text_deinit(&t);
}

static void json_of(ea_text *t, const char *s, size_t n, const char *expected) {
    ea_text_clear(t);
    ea_text_json(t, s, n);
    assert_false(t->failed);
    assert_string_equal(t->data ? t->data : "", expected);
}

static void text_json(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);

    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},
        {"plain /path", "plain /path"},
        {"a\"b\\c", "a\\\"b\\\\c"},
        {"\n\r\t\x01\x1F\x7F", "\\n\\r\\t\\u0001\\u001f\\u007f"},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\xC2\x85", "\\u0085"},                              /* C1: next line */
        {"\xE2\x80\xA8\xE2\x80\xA9", "\\u2028\\u2029"},       /* line separators end a line in JavaScript */
        {"\xED\xA0\x80\xED\xBF\xBF", "\\ud800\\udfff"},       /* WTF-8 surrogates */
        {"\xC0\x80", "\\u00c0\\u0080"},                       /* overlong NUL */
        {"\xE0\x80\xAF", "\\u00e0\\u0080\\u00af"},            /* overlong slash */
        {"\xF0\x80\x80\xAF", "\\u00f0\\u0080\\u0080\\u00af"}, /* the same in four */
        {"\xF4\x90\x80\x80", "\\u00f4\\u0090\\u0080\\u0080"}, /* above U+10FFFF */
        {"\xF5\xFF\xFE", "\\u00f5\\u00ff\\u00fe"},            /* never in UTF-8 */
        {"\x80x\xBF", "\\u0080x\\u00bf"},                     /* continuation without a start */
        {"\xE2\x82", "\\u00e2\\u0082"},                       /* ends inside */
        {"\xE2\x28\xA1", "\\u00e2(\\u00a1"},                  /* interrupted */
        {"</script>\x1B[31m", "</script>\\u001b[31m"},
    };

    for (size_t i = 0; i < LENGTH(rows); i++)
        json_of(&t, rows[i].in, strlen(rows[i].in), rows[i].out);
    json_of(&t, "a\0b", 3, "a\\u0000b");
    ea_text_clear(&t);
    ea_text_json_str(&t, NULL);
    ea_text_json_str(&t, "x\"");
    assert_string_equal(t.data, "null\"x\\\"\"");
    ea_text_deinit(&t);
}

/* Length of the strictly valid UTF-8 sequence at p (RFC 3629: no surrogates), 0 when it is none; its code point. */
static size_t strict_utf8(const uint8_t *p, size_t left, uint32_t *code) {
    static const struct {
        uint8_t low, high, second_low, second_high;
        size_t n;
    } rows[] = {{0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
                {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
                {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};

    for (size_t r = 0; r < LENGTH(rows); r++) {
        if (p[0] < rows[r].low || p[0] > rows[r].high)
            continue;
        if (rows[r].n > left)
            return 0;
        *code = rows[r].n == 1 ? p[0] : p[0] & (0xFFu >> (rows[r].n + 1));
        for (size_t i = 1; i < rows[r].n; i++) {
            if ((p[i] & 0xC0) != 0x80 || (i == 1 && (p[i] < rows[r].second_low || p[i] > rows[r].second_high)))
                return 0;
            *code = *code << 6 | (p[i] & 0x3Fu);
        }
        return rows[r].n;
    }
    return 0;
}

/* Whatever goes in, what comes out is valid UTF-8 of the same length; what was valid stays. */
static void utf8_mended(void **state) {
    (void)state;
    rng_state = 78;
    for (int round = 0; round < 20000; round++) {
        uint8_t in[24] = {0}, out[24];
        size_t n = rng() % (sizeof in + 1);
        uint32_t code;
        for (size_t i = 0; i < n; i++)
            in[i] = round & 1 ? (uint8_t)rng() : "a\x80\xA0\xC3\xED\xBF\xF4\xE2"[rng() % 8];
        memcpy(out, in, sizeof out);
        ea_utf8_repair((char *)out, n);
        for (size_t i = 0, k; i < n; i += k) {
            k = strict_utf8(out + i, n - i, &code);
            assert_true(k > 0);
            size_t was = strict_utf8(in + i, n - i, &code);
            if (was)
                assert_memory_equal(in + i, out + i, was);
        }
    }
}

/* Whatever goes in, what comes out is valid UTF-8 without control characters; JSON has no quote that ends the string.
 */
static void text_hostile(void **state) {
    (void)state;
    rng_state = 77;
    ea_text t;
    ea_text_init(&t);
    static const uint8_t spice[] = {'"',  '\\', 0x1B, 0x7F, 0x9B, 0xC2, 0xE2, 0x80,
                                    0xA8, 0xED, 0xA0, 0xF0, 0x9F, 0xF4, 'a',  0};
    for (int round = 0; round < 20000; round++) {
        uint8_t in[24];
        size_t n = rng() % (sizeof in + 1);
        for (size_t i = 0; i < n; i++)
            in[i] = round & 1 ? (uint8_t)rng() : spice[rng() % sizeof spice];
        for (int json = 0; json < 2; json++) {
            ea_text_clear(&t);
            if (json)
                ea_text_json(&t, (const char *)in, n);
            else
                ea_text_safe(&t, (const char *)in, n);
            const uint8_t *out = (const uint8_t *)t.data;
            for (size_t i = 0; i < t.len_bytes;) {
                uint32_t code = 0;
                size_t k = strict_utf8(out + i, t.len_bytes - i, &code);
                assert_true(k > 0);
                assert_true(code >= 0x20 && code != 0x7F && !(code >= 0x80 && code < 0xA0));
                if (json) {
                    assert_true(code != '"' && code != 0x2028 && code != 0x2029);
                    if (code == '\\') {
                        assert_true(i + 1 < t.len_bytes && strchr("\"\\nrtu", out[i + 1]));
                        k = out[i + 1] == 'u' ? 6 : 2;
                        assert_true(i + k <= t.len_bytes);
                    }
                }
                i += k;
            }
        }
    }
    ea_text_clear(&t);
    ea_text_safe(&t, "ok \x1B[2J\xC2\x9B\n\xFF", 11);
    assert_string_equal(t.data, "ok \\x1b[2J\\xc2\\x9b\\x0a\\xff");
    /* each character that changes the direction of text; its neighbours stay */
    static const uint16_t marked[] = {0x061C, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C,
                                      0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069};
    for (uint32_t code = 0x0600; code < 0x2100; code++) {
        int is_marked = 0;
        for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
            is_marked |= marked[i] == code;
        char in[4] = {0}, safe[16], json[8];
        size_t n = code < 0x800 ? 2 : 3;
        if (n == 2) {
            in[0] = (char)(0xC0 | code >> 6);
            in[1] = (char)(0x80 | (code & 0x3F));
            snprintf(safe, sizeof safe, "\\x%02x\\x%02x", (uint8_t)in[0], (uint8_t)in[1]);
        } else {
            in[0] = (char)(0xE0 | code >> 12);
            in[1] = (char)(0x80 | (code >> 6 & 0x3F));
            in[2] = (char)(0x80 | (code & 0x3F));
            snprintf(safe, sizeof safe, "\\x%02x\\x%02x\\x%02x", (uint8_t)in[0], (uint8_t)in[1], (uint8_t)in[2]);
        }
        snprintf(json, sizeof json, "\\u%04x", (unsigned)code);
        ea_text_clear(&t);
        ea_text_safe(&t, in, n);
        assert_string_equal(t.data, is_marked ? safe : in);
        if (code == 0x2028 || code == 0x2029) /* lines' ends in JavaScript */
            continue;
        ea_text_clear(&t);
        ea_text_json(&t, in, n);
        assert_string_equal(t.data, is_marked ? json : in);
    }
    ea_text_deinit(&t);
}

static void text_csv(void **state) {
    (void)state;

    static const struct {
        const char *in, *out;
    } rows[] = {{"", ""},
                {"plain", "plain"},
                {"a,b", "\"a,b\""},
                {"a\"b", "\"a\"\"b\""},
                {"a\nb", "\"a\nb\""},
                {"=1+1", "\"'=1+1\""},
                {"+x", "\"'+x\""},
                {"@x", "\"'@x\""},
                {"-5", "-5"},
                {"-5.25", "-5.25"},
                {"-5+cmd", "\"'-5+cmd\""},
                {"-", "\"'-\""},
                {"\tx", "\"'\tx\""},
                {"\rx", "\"'\rx\""}};

    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        ea_text_clear(&t);
        ea_text_csv(&t, rows[i].in, strlen(rows[i].in));
        assert_string_equal(t.data ? t.data : "", rows[i].out);
    }
    ea_text_deinit(&t);
}

static void text_html(void **state) {
    (void)state;
    ea_text t;
    ea_text_init(&t);
    ea_text_html(&t, "<a title=\"x\" b='y'>&\303\274", 22);
    assert_string_equal(t.data, "&lt;a title=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\303\274");
    ea_text_deinit(&t);
}

/* ---- clocks ---- */

static void clock_conversions(void **state) {
    (void)state;
    ea_clock qpc = {.type = EA_CLOCK_QPC, .frequency = 10000000, .base_raw = 1000, .base_utc_ns = 5000000000};
    assert_true(ea_clock_to_utc_ns(&qpc, 1000) == 5000000000);
    assert_true(ea_clock_to_utc_ns(&qpc, 1001) == 5000000100);
    assert_true(ea_clock_to_utc_ns(&qpc, 999) == 4999999900);
    assert_true(ea_clock_from_utc_ns(&qpc, 5000000100) == 1001);
    assert_true(ea_clock_from_utc_ns(&qpc, 5000000099) == 1000);
    assert_true(ea_clock_from_utc_ns(&qpc, 4999999999) == 999);
    ea_clock odd = {.type = EA_CLOCK_QPC, .frequency = 3};
    assert_true(ea_clock_to_utc_ns(&odd, 1) == 333333333);
    assert_true(ea_clock_to_utc_ns(&odd, -1) == -333333334); /* floor, not towards zero */
    ea_clock none = {.frequency = 0, .base_utc_ns = 42};
    assert_true(ea_clock_to_utc_ns(&none, 12345) == 42);

    /* extremes saturate, whatever a hostile header says */
    static const uint64_t frequencies[] = {1,       3,           1000,           10000000,  2441410,
                                           3579545, 3000000000u, 1000000000000u, UINT64_MAX};
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (size_t f = 0; f < LENGTH(frequencies); f++)
        for (size_t a = 0; a < LENGTH(extremes); a++)
            for (size_t b = 0; b < LENGTH(extremes); b++)
                for (size_t v = 0; v < LENGTH(extremes); v++) {
                    ea_clock c = {.frequency = frequencies[f], .base_raw = extremes[a], .base_utc_ns = extremes[b]};
                    long double exact =
                        ((long double)extremes[v] - (long double)c.base_raw) / (long double)c.frequency * 1e9L +
                        (long double)c.base_utc_ns;
                    int64_t got = ea_clock_to_utc_ns(&c, extremes[v]);
                    if (exact > 9.3e18L)
                        assert_true(got == INT64_MAX);
                    else if (exact < -9.3e18L)
                        assert_true(got == INT64_MIN);
                    else if (exact > -9.2e18L && exact < 9.2e18L)
                        assert_true((long double)got - exact < 16 && (long double)got - exact > -16);
                    exact =
                        ((long double)extremes[v] - (long double)c.base_utc_ns) * ((long double)c.frequency / 1e9L) +
                        (long double)c.base_raw;
                    got = ea_clock_from_utc_ns(&c, extremes[v]);
                    if (exact > 9.3e18L)
                        assert_true(got == INT64_MAX);
                    else if (exact < -9.3e18L)
                        assert_true(got == INT64_MIN);
                }

    assert_true(ea_clock_first_tick(&qpc, 5000000100) == 1001);
    assert_true(ea_clock_first_tick(&qpc, 5000000101) == 1002);
    assert_true(ea_clock_first_tick(&qpc, INT64_MAX) >= ea_clock_from_utc_ns(&qpc, INT64_MAX));
    odd.base_raw = INT64_MAX;
    assert_true(ea_clock_first_tick(&odd, INT64_MAX) == INT64_MAX);

    /* a round trip loses less than a tick, and never goes forward; to the first tick it loses none */
    rng_state = 9;
    for (int i = 0; i < 100000; i++) {
        ea_clock c = {.frequency = frequencies[1 + rng() % 6],
                      .base_raw = (int64_t)(rng() >> 8),
                      .base_utc_ns = 1500000000000000000 + (int64_t)(rng() >> 10)};
        int64_t raw = c.base_raw + (int64_t)(rng() >> 24) % (int64_t)(c.frequency * 86400);
        int64_t back = ea_clock_from_utc_ns(&c, ea_clock_to_utc_ns(&c, raw));
        int64_t step = (int64_t)(c.frequency / 1000000000) + 1; /* ticks that one ns may hold */
        assert_true(back <= raw && raw - back <= step);
        int64_t utc_ns = ea_clock_to_utc_ns(&c, raw), first = ea_clock_first_tick(&c, utc_ns);
        assert_true(first <= raw && ea_clock_to_utc_ns(&c, first) == utc_ns);
        assert_true(ea_clock_to_utc_ns(&c, first - 1) < utc_ns);
    }
}

static void clock_filetime(void **state) {
    (void)state;
    assert_true(ea_filetime_to_utc_ns(116444736000000000) == 0);
    assert_true(ea_filetime_to_utc_ns(132404116200000000) == 1595938020000000000);
    assert_true(ea_utc_ns_to_filetime(1595938020000000000) == 132404116200000000);
    assert_true(ea_utc_ns_to_filetime(-1) == 116444736000000000 - 1);
    assert_true(ea_utc_ns_to_filetime(99) == 116444736000000000);
    assert_true(ea_filetime_to_utc_ns(INT64_MAX) == INT64_MAX);
    assert_true(ea_filetime_to_utc_ns(INT64_MIN) == INT64_MIN);
    assert_true(ea_filetime_to_utc_ns(0) == INT64_MIN); /* 1601 is before what ns in 64 bits can say */
    assert_true(ea_utc_ns_to_filetime(INT64_MAX) == 116444736000000000 + 92233720368547758);
    assert_true(ea_utc_ns_to_filetime(INT64_MIN) == 116444736000000000 - 92233720368547759);
    rng_state = 3;
    for (int i = 0; i < 10000; i++) {
        int64_t filetime = 116444736000000000 + (int64_t)(rng() >> 8);
        assert_true(ea_utc_ns_to_filetime(ea_filetime_to_utc_ns(filetime)) == filetime);
    }
}

static void clock_text(void **state) {
    (void)state;

    static const struct {
        int64_t ns;
        const char *s;
    } rows[] = {{0, "1970-01-01T00:00:00.0000000Z"},
                {-1, "1969-12-31T23:59:59.9999999Z"},
                {1595938020620000000, "2020-07-28T12:07:00.6200000Z"},
                {951782400000000000, "2000-02-29T00:00:00.0000000Z"},
                {-2203977600000000000, "1900-02-28T00:00:00.0000000Z"},
                {-2203891200000000000, "1900-03-01T00:00:00.0000000Z"},
                {INT64_MAX, "2262-04-11T23:47:16.8547758Z"},
                {INT64_MIN, "1677-09-21T00:12:43.1452241Z"}};

    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        ea_text_clear(&t);
        ea_text_utc_ns(&t, rows[i].ns);
        assert_string_equal(t.data, rows[i].s);
    }
    rng_state = 4;
    for (int i = 0; i < 20000; i++) {
        int64_t ns = (int64_t)rng(), back;
        ns -= ns % 100;
        ea_text_clear(&t);
        ea_text_utc_ns(&t, ns);
        assert_int_equal(ea_utc_ns_parse(t.data, &back), 0);
        assert_true(back == ns);
    }
    ea_text_deinit(&t);

    static const struct {
        const char *s;
        int64_t ns;
    } good[] = {{"1970-01-01T00:00:00Z", 0},
                {"1970-01-01 00:00:00.5z", 500000000},
                {"1970-01-01t01:00:00+01:00", 0},
                {"1969-12-31T18:30:00.000000001-05:30", 1},
                {"1970-01-01T00:00:00.1234567899Z", 123456789},
                {"2016-12-31T23:59:60Z", 1483228800000000000},
                {"2024-02-29T00:00:00Z", 1709164800000000000},
                {"2262-04-11T23:47:16.854775807Z", INT64_MAX},
                {"1677-09-21T00:12:43.145224192Z", INT64_MIN}};

    for (size_t i = 0; i < LENGTH(good); i++) {
        int64_t ns = -7;
        assert_int_equal(ea_utc_ns_parse(good[i].s, &ns), 0);
        assert_true(ns == good[i].ns);
    }
    static const char *const bad[] = {"",
                                      "2020",
                                      "2020-07-28",
                                      "2020-07-28T12:07:00",
                                      "2020-07-28T12:07:00.Z",
                                      "2020-13-01T00:00:00Z",
                                      "2020-00-01T00:00:00Z",
                                      "2020-02-30T00:00:00Z",
                                      "2023-02-29T00:00:00Z",
                                      "1900-02-29T00:00:00Z",
                                      "2020-01-00T00:00:00Z",
                                      "2020-01-01T24:00:00Z",
                                      "2020-01-01T00:60:00Z",
                                      "2020-01-01T00:00:61Z",
                                      "2020-01-01T00:00:00+24:00",
                                      "2020-01-01T00:00:00+0100",
                                      "2020-01-01T00:00:00Z ",
                                      " 2020-01-01T00:00:00Z",
                                      "2020-1-01T00:00:00Z",
                                      "2262-04-11T23:47:16.854775808Z",
                                      "1677-09-21T00:12:43.145224191Z",
                                      "9999-12-31T23:59:59Z"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        int64_t ns = 77;
        assert_int_equal(ea_utc_ns_parse(bad[i], &ns), EA_EINVAL);
        assert_true(ns == 77);
    }
}

static void times_as_people_write_them(void **state) {
    (void)state;
    const int64_t S = 1000000000, DAY = 86400 * S, NOW = 20000 * DAY + 3 * 3600 * S, BEGIN = 100 * DAY, END = 101 * DAY;
    const ea_time_reference data = {.now_utc_ns = NOW, .begin_utc_ns = BEGIN, .end_utc_ns = END, .has_data = 1},
                            none = {.now_utc_ns = NOW}, early = {.now_utc_ns = -1};

    const struct {
        const char *s;
        int64_t ns;
    } good[] = {{"1970-01-02T00:00:00Z", DAY},
                {"1970-01-02T00:00:01.5", DAY + 3 * S / 2},
                {"1970-01-02 01:00:00+01:00", DAY},
                {"1970-01-02 01:00+01:00", DAY},
                {"1970-01-02T00:02", DAY + 120 * S},
                {"1970-01-02", DAY},
                {"now", NOW},
                {"-1h", NOW - 3600 * S},
                {"now-1h", NOW - 3600 * S},
                {"now+1s", NOW + S},
                {"today", 20000 * DAY},
                {"yesterday", 19999 * DAY},
                {"yesterday+12h", 19999 * DAY + DAY / 2},
                {"start", BEGIN},
                {"end", END},
                {"+1500ms", BEGIN + 3 * S / 2},
                {"start+0", BEGIN},
                {"end-10s", END - 10 * S}};

    for (size_t i = 0; i < LENGTH(good); i++) {
        int64_t ns = -7;
        assert_int_equal(ea_time_parse(good[i].s, &data, &ns), 0);
        if (ns != good[i].ns)
            fail_msg("%s: %lld, expected %lld", good[i].s, (long long)ns, (long long)good[i].ns);
    }
    static const char *const bad[] = {"",
                                      "24h",
                                      "1h",
                                      "-",
                                      "+",
                                      "now-",
                                      "now 1h",
                                      "tomorrow",
                                      "start+",
                                      "-1",
                                      "Now",
                                      "1970-01",
                                      "1970-01-02T",
                                      "1970-01-02 00",
                                      "1970-01-02T00:00:",
                                      "1970-02-30",
                                      "1970-01-02Z",
                                      "1970-01-02T00:00.5",
                                      "now-99999999999s",
                                      "--1h"};
    int64_t ns = 77;
    for (size_t i = 0; i < LENGTH(bad); i++)
        if (ea_time_parse(bad[i], &data, &ns) != EA_EINVAL || ns != 77)
            fail_msg("%s is taken", bad[i]);
    static const char *const of_data[] = {"start", "end", "+10s", "end-1s"};
    for (size_t i = 0; i < LENGTH(of_data); i++)
        assert_int_equal(ea_time_parse(of_data[i], &none, &ns), EA_ENOTFOUND);
    assert_int_equal(ea_time_parse("today", &early, &ns), 0);
    assert_true(ns == -DAY);
}

static void durations_and_sizes(void **state) {
    (void)state;

    static const struct {
        const char *s;
        int64_t ns;
    } good[] = {{"0", 0},
                {"0s", 0},
                {"1ns", 1},
                {"100us", 100000},
                {"250ms", 250000000},
                {"10s", 10000000000},
                {"5m", 300000000000},
                {"2h", 7200000000000},
                {"7d", 604800000000000}};

    for (size_t i = 0; i < LENGTH(good); i++) {
        int64_t ns = -1;
        assert_int_equal(ea_duration_parse(good[i].s, &ns), 0);
        assert_true(ns == good[i].ns);
    }
    static const char *const bad[] = {"",       "1", "s", "-1s", "1 s", "1S", "1sec", "1.5s", "99999999999999999999s",
                                      "106752d"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        int64_t ns = 77;
        assert_int_equal(ea_duration_parse(bad[i], &ns), EA_EINVAL);
        assert_true(ns == 77);
    }

    static const struct {
        const char *s;
        uint64_t bytes;
    } sizes[] = {{"0", 0},
                 {"512", 512},
                 {"12B", 12},
                 {"64KiB", 65536},
                 {"1MiB", 1048576},
                 {"2GiB", (uint64_t)2 << 30},
                 {"3TiB", (uint64_t)3 << 40}};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        uint64_t bytes = 1;
        assert_int_equal(ea_size_parse(sizes[i].s, &bytes), 0);
        assert_true(bytes == sizes[i].bytes);
    }
    uint64_t bytes = 77;
    assert_int_equal(ea_size_parse("64K", &bytes), EA_EINVAL);
    assert_int_equal(ea_size_parse("64kib", &bytes), EA_EINVAL);
    assert_int_equal(ea_size_parse("99999999TiB", &bytes), EA_EINVAL);
    assert_int_equal(ea_size_parse("", &bytes), EA_EINVAL);
    assert_true(bytes == 77);
}

/* ---- maps ---- */

enum { MODEL_KEYS = 512 };

/* Random puts, gets and removes against a table of all keys. Keys share low bits, so that probe sequences overlap. */
static void map_against_model(void **state) {
    (void)state;
    rng_state = 11;
    ea_u64_map m;
    ea_u64_map_init(&m, 0);

    static struct {
        uint64_t value;
        int there;
    } model[MODEL_KEYS];

    memset(model, 0, sizeof model);
    size_t count = 0;
    assert_null(ea_u64_map_get(&m, 1));
    assert_int_equal(ea_u64_map_remove(&m, 1), 0);
    for (int step = 0; step < 400000; step++) {
        unsigned k = (unsigned)(rng() % MODEL_KEYS);
        uint64_t key = k & 1 ? (uint64_t)k << 40 : k; /* half of them differ in high bits only */
        /* growing and shrinking phases */
        int remove = rng() % 100 < (step / 20000 % 2 ? 70 : 35);
        if (remove) {
            assert_int_equal(ea_u64_map_remove(&m, key), model[k].there);
            count -= (size_t)model[k].there;
            model[k].there = 0;
        } else {
            uint64_t value = rng();
            assert_int_equal(ea_u64_map_put(&m, key, value), 0);
            count += !model[k].there;
            model[k].there = 1;
            model[k].value = value;
        }
        assert_int_equal(m.count, count);
        k = (unsigned)(rng() % MODEL_KEYS);
        key = k & 1 ? (uint64_t)k << 40 : k;
        uint64_t *found = ea_u64_map_get(&m, key);
        assert_int_equal(found != NULL, model[k].there);
        if (found)
            assert_true(*found == model[k].value);
        if (step % 5000 == 0) {
            size_t cursor = 0, seen = 0;
            uint64_t value;
            while (ea_u64_map_next(&m, &cursor, &key, &value)) {
                k = (unsigned)(key >> 40 ? key >> 40 : key);
                assert_true(k < MODEL_KEYS && model[k].there && model[k].value == value);
                seen++;
            }
            assert_int_equal(seen, count);
        }
    }
    ea_u64_map_clear(&m);
    assert_int_equal(m.count, 0);
    assert_null(ea_u64_map_get(&m, 2));
    ea_u64_map_deinit(&m);
}

static void map_limits(void **state) {
    (void)state;
    ea_u64_map m;
    ea_u64_map_init(&m, 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(ea_u64_map_put(&m, i, i), 0);
    assert_int_equal(ea_u64_map_put(&m, 3, 3), EA_ELIMIT);
    assert_int_equal(ea_u64_map_put(&m, 2, 22), 0); /* replacing needs no room */
    assert_true(*ea_u64_map_get(&m, 2) == 22);
    assert_int_equal(ea_u64_map_remove(&m, 0), 1);
    assert_int_equal(ea_u64_map_put(&m, UINT64_MAX, 9), 0);
    ea_u64_map_deinit(&m);
    assert_int_equal(m.limit_count, 3);

    ea_bytes_map b;
    ea_bytes_map_init(&b, 2);
    int one = 1, two = 2;
    assert_null(ea_bytes_map_get(&b, "a", 1));
    assert_int_equal(ea_bytes_map_put(&b, "a", 1, &one), 0);
    assert_int_equal(ea_bytes_map_put(&b, "ab", 2, &two), 0);
    assert_int_equal(ea_bytes_map_put(&b, "abc", 3, &one), EA_ELIMIT);
    assert_ptr_equal(ea_bytes_map_get(&b, "ab", 2), &two);
    assert_ptr_equal(ea_bytes_map_get(&b, "ab", 1), &one);
    assert_null(ea_bytes_map_get(&b, "", 0));
    assert_int_equal(ea_bytes_map_put(&b, "ab", 2, &one), 0);
    assert_ptr_equal(ea_bytes_map_get(&b, "ab", 2), &one);
    assert_int_equal(b.count, 2);
    ea_bytes_map_clear(&b);
    assert_null(ea_bytes_map_get(&b, "a", 1));
    ea_bytes_map_deinit(&b);
}

static void map_bytes(void **state) {
    (void)state;

    enum { N = 20000 };

    ea_arena arena;
    ea_arena_init(&arena, 0);
    ea_bytes_map m;
    ea_bytes_map_init(&m, 0);
    for (int i = 0; i < N; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d/%x", i % 7, (unsigned)i);
        char *kept = ea_arena_strdup(&arena, key);
        assert_int_equal(ea_bytes_map_put(&m, kept, strlen(kept), kept), 0);
    }
    assert_int_equal(m.count, N);
    for (int i = 0; i < N; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d/%x", i % 7, (unsigned)i);
        assert_string_equal(ea_bytes_map_get(&m, key, strlen(key)), key);
    }
    size_t cursor = 0, seen = 0, len;
    const void *key;
    void *value;
    while (ea_bytes_map_next(&m, &cursor, &key, &len, &value)) {
        assert_ptr_equal(key, value);
        assert_int_equal(len, strlen(value));
        seen++;
    }
    assert_int_equal(seen, N);
    ea_bytes_map_deinit(&m);
    ea_arena_deinit(&arena);
    /* stored hashes stay what they are */
    assert_true(ea_hash64("", 0, 0) == 0x2D06800538D394C2u);
    assert_true(ea_hash64("abc", 3, 0) != ea_hash64("abc", 3, 1));
}

/* ---- arrays ---- */

static void arrays_grow(void **state) {
    (void)state;
    uint16_t *items = NULL;
    size_t capacity = 0, moves = 0;
    for (size_t count = 0; count < 10000; count++) {
        size_t before = capacity;
        assert_int_equal(EA_GROW(items, capacity, count + 1, 10000), 0);
        assert_true(capacity > count && capacity <= 10000);
        moves += capacity != before;
        items[count] = (uint16_t)count;
    }
    assert_int_equal(capacity, 10000);
    assert_true(moves < 12);
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);

    /* what cannot be leaves all as it was */
    uint16_t *was = items;
    assert_int_equal(EA_GROW(items, capacity, 10001, 10000), EA_ELIMIT);
    assert_int_equal(EA_GROW(items, capacity, SIZE_MAX / 4 + 1, SIZE_MAX), EA_ENOMEM);
    assert_int_equal(EA_GROW(items, capacity, SIZE_MAX, SIZE_MAX), EA_ENOMEM);
    assert_ptr_equal(items, was);
    assert_int_equal(capacity, 10000);
    assert_int_equal(items[9999], 9999);

    /* many at once, and a bound below what an array begins with */
    assert_int_equal(EA_GROW(items, capacity, 50000, SIZE_MAX), 0);
    assert_int_equal(capacity, 50000);
    free(items);
    items = NULL;
    capacity = 0;
    assert_int_equal(EA_GROW(items, capacity, 1, 3), 0);
    assert_int_equal(capacity, 3);
    assert_int_equal(EA_GROW(items, capacity, 4, 3), EA_ELIMIT);
    free(items);
}

/* ---- arenas ---- */

static void arenas(void **state) {
    (void)state;
    ea_arena a;
    ea_arena_init(&a, 0);
    rng_state = 21;

    enum { N = 2000 };

    static struct {
        uint8_t *p;
        size_t n;
    } parts[N];

    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < N; i++) {
            parts[i].n = rng() % 100 ? rng() % 300 : rng() % 100000;
            parts[i].p = ea_arena_alloc(&a, parts[i].n);
            assert_non_null(parts[i].p);
            assert_int_equal((uintptr_t)parts[i].p % _Alignof(max_align_t), 0);
            memset(parts[i].p, i & 0xFF, parts[i].n);
        }
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < parts[i].n; k++)
                assert_int_equal(parts[i].p[k], i & 0xFF);
        if (round % 3 == 1)
            ea_arena_reset(&a);
        else
            ea_arena_recycle(&a);
        assert_int_equal(a.used_bytes, 0);
    }
    /* the same rounds take the same blocks */
    for (int round = 0; round < 3; round++) {
        uint8_t *large = ea_arena_alloc(&a, 3 << 20);
        assert_non_null(large);
        memset(large, round, 3 << 20);
        parts[round].p = large;
        ea_arena_recycle(&a);
    }
    assert_true(parts[1].p == parts[2].p);
    assert_null(ea_arena_alloc(&a, SIZE_MAX));
    assert_null(ea_arena_alloc(&a, SIZE_MAX - 8));
    assert_null(ea_arena_zalloc(&a, SIZE_MAX / 2, 4));
    uint8_t *zero = ea_arena_zalloc(&a, 100, 8);
    for (int i = 0; i < 800; i++)
        assert_int_equal(zero[i], 0);
    assert_string_equal(ea_arena_strdup(&a, "text"), "text");
    assert_non_null(ea_arena_copy(&a, NULL, 0));
    ea_arena_deinit(&a);

    ea_arena_init(&a, 1000);
    assert_non_null(ea_arena_alloc(&a, 600));
    assert_null(ea_arena_alloc(&a, 600));
    assert_non_null(ea_arena_alloc(&a, 300));
    ea_arena_reset(&a);
    assert_non_null(ea_arena_alloc(&a, 900));
    ea_arena_deinit(&a);
}

/* ---- counters ---- */

static void counters(void **state) {
    (void)state;
    static ea_counters c;
    ea_count(&c, EA_COUNT_events_delivered, 5);
    ea_count(&c, EA_COUNT_events_delivered, 1);
    ea_uncount(&c, EA_COUNT_events_delivered, 2);
    assert_int_equal(ea_counter_get(&c, EA_COUNT_events_delivered), 4);
    assert_int_equal(ea_counter_get(&c, EA_COUNT_events_batched), 0);
    for (unsigned i = 0; i < EA_COUNTER_COUNT; i++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)i);
        assert_true(row->number > 0 && strlen(row->text) > 5);
        for (unsigned k = 0; k < i; k++) {
            assert_int_not_equal(row->number, ea_counter_row((enum ea_counter)k)->number);
            assert_string_not_equal(row->name, ea_counter_row((enum ea_counter)k)->name);
        }
    }
}

/* ---- records ---- */

static void records(void **state) {
    (void)state;
    static const uint8_t payload[] = {1, 2, 3}, data[] = {9, 8}, other[] = {9, 7};
    ea_ext ext[2] = {{.type = EA_EXT_SID, .size_bytes = 2, .data = data}, {.type = EA_EXT_PMC_COUNTERS}};
    ea_record a = {.payload = payload, .payload_bytes = 3, .ext = ext, .ext_count = 2, .position = 1};
    ea_record b = a;
    b.position = 2;
    assert_true(ea_record_equal(&a, &b));
    assert_ptr_equal(ea_record_ext(&a, EA_EXT_SID), &ext[0]);
    assert_null(ea_record_ext(&a, EA_EXT_STACK_TRACE64));

    /* every field of the identity counts: a change of any one makes it another record */
#define DIFFERS(change)                                                                                                \
    do {                                                                                                               \
        b = a;                                                                                                         \
        change;                                                                                                        \
        assert_false(ea_record_equal(&a, &b));                                                                         \
    } while (0)
    DIFFERS(b.provider.bytes[15] = 1);
    DIFFERS(b.id = 1);
    DIFFERS(b.version = 1);
    DIFFERS(b.channel = 1);
    DIFFERS(b.level = 1);
    DIFFERS(b.opcode = 1);
    DIFFERS(b.task = 1);
    DIFFERS(b.keyword = (uint64_t)1 << 63);
    DIFFERS(b.time_raw = 1);
    DIFFERS(b.pid = 1);
    DIFFERS(b.tid = 1);
    DIFFERS(b.cpu = 1);
    DIFFERS(b.logger = 1);
    DIFFERS(b.flags = 1);
    DIFFERS(b.property = 1);
    DIFFERS(b.kernel_time = 1);
    DIFFERS(b.user_time = 1);
    DIFFERS(b.activity_id.bytes[0] = 1);
    DIFFERS(b.pointer_size = 4);
    DIFFERS(b.ext_count = 1);
    DIFFERS(b.payload_bytes = 2);
    DIFFERS(b.header_type = 1);
    DIFFERS(b.hook_id = 1);
    DIFFERS(b.header_word = 1);
    DIFFERS(b.source = 1);
    static const uint8_t changed[] = {1, 2, 4};
    DIFFERS(b.payload = changed);
    ea_ext ext2[2] = {ext[0], ext[1]};
    ext2[0].data = other;
    DIFFERS(b.ext = ext2);
    ext2[0] = ext[0];
    ext2[0].linkage = 1;
    DIFFERS(b.ext = ext2);
    ext2[0] = ext[0];
    ext2[1].type = EA_EXT_PEBS_INDEX;
    DIFFERS(b.ext = ext2);
#undef DIFFERS
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),
        cmocka_unit_test(text_growth),
        cmocka_unit_test(text_numbers),
        cmocka_unit_test(digits_and_little_endian_texts),
        cmocka_unit_test(text_varints),
        cmocka_unit_test(text_sids),
        cmocka_unit_test(text_guids),
        cmocka_unit_test(text_utf16),
        cmocka_unit_test(text_json),
        cmocka_unit_test(text_hostile),
        cmocka_unit_test(utf8_mended),
        cmocka_unit_test(text_csv),
        cmocka_unit_test(text_html),
        cmocka_unit_test(clock_conversions),
        cmocka_unit_test(clock_filetime),
        cmocka_unit_test(clock_text),
        cmocka_unit_test(times_as_people_write_them),
        cmocka_unit_test(durations_and_sizes),
        cmocka_unit_test(map_against_model),
        cmocka_unit_test(map_limits),
        cmocka_unit_test(map_bytes),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(arenas),
        cmocka_unit_test(counters),
        cmocka_unit_test(records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
