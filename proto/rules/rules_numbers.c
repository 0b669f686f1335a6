/* Numbers and addresses out of texts, of rules and of events. See rules_parts.h. Thread: any. */
#include "proto/rules/rules_parts.h"

#include <stdlib.h>
#include <string.h>

/* [-+]digits, 0x and hex digits, and decimals with a point: all of the text. */
int rules_number_parse(const char *text, size_t len_bytes, rules_number *ret) {
    char copy[64];
    size_t i = 0;
    int is_negative = 0, is_hex = 0, has_point = 0;
    uint64_t v = 0;
    if (!len_bytes || len_bytes >= sizeof copy)
        return 0;
    memcpy(copy, text, len_bytes);
    copy[len_bytes] = 0;
    if (copy[0] == '-' || copy[0] == '+')
        is_negative = copy[i++] == '-';
    if (copy[i] == '0' && (copy[i + 1] | 32) == 'x') {
        is_hex = 1;
        i += 2;
    }
    size_t begin = i;
    int is_large = 0;
    for (; i < len_bytes; i++) {
        char c = copy[i];
        unsigned base = is_hex ? 16 : 10, digit;
        if (c == '.' && !is_hex && !has_point && i > begin && i + 1 < len_bytes) {
            has_point = 1;
            continue;
        }
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (is_hex && (c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (unsigned)((c | 32) - 'a' + 10);
        else
            return 0;
        is_large |= v > (UINT64_MAX - digit) / base;
        v = v * base + digit;
    }
    if (i == begin)
        return 0;
    ret->is_integer = !has_point && !is_large;
    ret->is_negative = is_negative && v;
    ret->magnitude = ret->is_integer ? v : 0;
    ret->real = strtod(copy, NULL);
    return 1;
}

int rules_number_compare(const rules_number *a, enum rules_compare compare, const rules_number *b) {
    int less, more;
    if (a->is_integer && b->is_integer) {
        int order = (a->magnitude > b->magnitude) - (a->magnitude < b->magnitude);
        if (a->is_negative)
            order = -order;
        if (a->is_negative != b->is_negative)
            order = a->is_negative ? -1 : 1;
        less = order < 0;
        more = order > 0;
    } else {
        less = a->real < b->real;
        more = a->real > b->real;
    }
    switch (compare) {
    case RULES_LT:
        return less;
    case RULES_LTE:
        return !more;
    case RULES_GT:
        return more;
    case RULES_GTE:
        return !less;
    }
    return 0;
}

/* a.b.c.d without leading zeros: the count of bytes that were read, 0 when it is none. */
static size_t parse_v4(const char *text, size_t len_bytes, uint8_t *out) {
    size_t i = 0;
    for (unsigned part = 0; part < 4; part++) {
        unsigned v = 0;
        size_t begin = i;
        if (part && (i == len_bytes || text[i++] != '.'))
            return 0;
        begin = i;
        while (i < len_bytes && i - begin < 3 && text[i] >= '0' && text[i] <= '9')
            v = v * 10 + (unsigned)(text[i++] - '0');
        if (i == begin || v > 255 || (i - begin > 1 && text[begin] == '0'))
            return 0;
        out[part] = (uint8_t)v;
    }
    return i;
}

static int numbers_hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static int parse_v6(const char *text, size_t len_bytes, uint8_t *out) {
    uint8_t bytes[16] = {0};
    size_t at = 0, i = 0;
    int gap = -1;
    if (len_bytes >= 2 && text[0] == ':' && text[1] == ':') {
        gap = 0;
        i = 2;
    }
    while (i < len_bytes) {
        unsigned v = 0;
        size_t begin = i;
        if (at == 16)
            return 0;
        while (i < len_bytes && i - begin < 4 && numbers_hex_of(text[i]) >= 0)
            v = v << 4 | (unsigned)numbers_hex_of(text[i++]);
        if (i < len_bytes && text[i] == '.') {
            if (at > 12 || parse_v4(text + begin, len_bytes - begin, bytes + at) != len_bytes - begin)
                return 0;
            at += 4;
            break;
        }
        if (i == begin)
            return 0;
        bytes[at++] = (uint8_t)(v >> 8);
        bytes[at++] = (uint8_t)v;
        if (i == len_bytes)
            break;
        if (text[i++] != ':' || i == len_bytes)
            return 0;
        if (text[i] == ':') {
            if (gap >= 0)
                return 0;
            gap = (int)at;
            i++;
        }
    }
    if (gap < 0 ? at != 16 : at >= 16)
        return 0;
    memset(out, 0, 16);
    size_t before = gap < 0 ? 16 : (size_t)gap, after = at - (gap < 0 ? 16 : before);
    memcpy(out, bytes, before);
    if (gap >= 0)
        memcpy(out + 16 - after, bytes + before, after);
    return 1;
}

int rules_address_parse(const char *text, size_t len_bytes, rules_address *ret) {
    rules_address a = {.bits = 32};
    size_t n = parse_v4(text, len_bytes, a.bytes);
    if (!n || n != len_bytes) {
        if (!memchr(text, ':', len_bytes) || !parse_v6(text, len_bytes, a.bytes))
            return 0;
        a.bits = 128;
        a.is_v6 = 1;
    }
    *ret = a;
    return 1;
}
