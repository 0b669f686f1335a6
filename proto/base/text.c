/* Text. See text.h. */
#include "proto/base/text.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256 };

static const char HEX[] = "0123456789abcdef";

void ea_text_init(ea_text *t) {
    *t = (ea_text){0};
}

void ea_text_deinit(ea_text *t) {
    free(t->data);
    *t = (ea_text){0};
}

void ea_text_clear(ea_text *t) {
    t->len_bytes = 0;
    t->failed = 0;
    if (t->data)
        t->data[0] = 0;
}

/* Makes room for len_bytes more and the NUL; NULL when there is no memory. */
static char *text_reserve(ea_text *t, size_t len_bytes) {
    if (t->failed)
        return NULL;
    size_t need = t->len_bytes + len_bytes + 1;
    if (len_bytes >= SIZE_MAX / 4 - t->len_bytes ||
        (need > t->capacity && EA_GROW(t->data, t->capacity, need < FIRST_BYTES ? FIRST_BYTES : need, SIZE_MAX))) {
        t->failed = 1;
        return NULL;
    }
    return t->data + t->len_bytes;
}

void ea_text_add(ea_text *t, const void *data, size_t len_bytes) {
    char *p = text_reserve(t, len_bytes);
    if (!p)
        return;
    if (len_bytes)
        memcpy(p, data, len_bytes);
    p[len_bytes] = 0;
    t->len_bytes += len_bytes;
}

void ea_text_str(ea_text *t, const char *s) {
    ea_text_add(t, s, strlen(s));
}

void ea_text_char(ea_text *t, char c) {
    ea_text_add(t, &c, 1);
}

void ea_text_printf(ea_text *t, const char *format, ...) {
    va_list args, again;
    if (t->failed)
        return;
    va_start(args, format);
    va_copy(again, args);
    size_t room = t->capacity - t->len_bytes;
    int n = vsnprintf(room ? t->data + t->len_bytes : NULL, room, format, args); /* mostly there is room */
    va_end(args);
    char *p = n >= 0 && (size_t)n >= room ? text_reserve(t, (size_t)n) : NULL;
    if (p)
        vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    if (n >= 0 && !t->failed)
        t->len_bytes += (size_t)n;
    else if (t->data)
        t->data[t->len_bytes] = 0;
}

void ea_text_u64(ea_text *t, uint64_t v) {
    char digits[20];
    size_t i = sizeof digits;
    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    ea_text_add(t, digits + i, sizeof digits - i);
}

void ea_text_i64(ea_text *t, int64_t v) {
    if (v < 0)
        ea_text_char(t, '-');
    ea_text_u64(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void ea_text_le32(ea_text *t, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

void ea_text_le64(ea_text *t, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

size_t ea_utf8_fit(const char *utf8, size_t len_bytes, size_t max_bytes) {
    if (len_bytes <= max_bytes)
        return len_bytes;
    while (max_bytes && ((unsigned char)utf8[max_bytes] & 0xC0) == 0x80)
        max_bytes--;
    return max_bytes;
}

void ea_text_str_nul(ea_text *t, const char *utf8, size_t max_bytes) {
    ea_text_add(t, utf8, ea_utf8_fit(utf8, strlen(utf8), max_bytes));
    ea_text_char(t, 0);
}

void ea_text_percent(ea_text *t, const char *utf8, size_t len_bytes, const char *plain) {
    for (size_t i = 0; i < len_bytes; i++) {
        unsigned char c = (unsigned char)utf8[i], letter = c | 0x20;
        if ((letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || (c && strchr(plain, c)))
            ea_text_char(t, (char)c);
        else
            ea_text_printf(t, "%%%02X", c);
    }
}

void ea_text_hex64(ea_text *t, uint64_t v) {
    char digits[18];
    size_t i = sizeof digits;
    do {
        digits[--i] = HEX[v & 15];
        v >>= 4;
    } while (v);
    digits[--i] = 'x';
    digits[--i] = '0';
    ea_text_add(t, digits + i, sizeof digits - i);
}

void ea_text_hex(ea_text *t, const void *data, size_t len_bytes) {
    const uint8_t *b = data;
    char *p = len_bytes > SIZE_MAX / 8 ? NULL : text_reserve(t, len_bytes * 2);
    if (!p)
        return;
    for (size_t i = 0; i < len_bytes; i++) {
        p[2 * i] = HEX[b[i] >> 4];
        p[2 * i + 1] = HEX[b[i] & 15];
    }
    p[2 * len_bytes] = 0;
    t->len_bytes += len_bytes * 2;
}

void ea_guid_format(const ea_guid *g, char *out) {
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char *p = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = HEX[g->bytes[order[i]] >> 4];
        *p++ = HEX[g->bytes[order[i]] & 15];
    }
    *p = 0;
}

void ea_text_varint(ea_text *t, uint64_t v) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    ea_text_add(t, bytes, n);
}

void ea_text_guid(ea_text *t, const ea_guid *g) {
    char out[37];
    ea_guid_format(g, out);
    ea_text_add(t, out, 36);
}

/* A SID: revision, number of parts, authority (6 bytes, the high one first), parts (u32). */
enum { SID_HEAD_BYTES = 8, SID_PART_BYTES = 4, SID_PARTS_MAX = (EA_SID_MAX_BYTES - SID_HEAD_BYTES) / SID_PART_BYTES };

int ea_text_sid(ea_text *t, const uint8_t *p, size_t len_bytes) {
    uint64_t authority = 0;
    if (len_bytes < SID_HEAD_BYTES || p[1] > SID_PARTS_MAX ||
        len_bytes < SID_HEAD_BYTES + (size_t)SID_PART_BYTES * p[1])
        return 0;
    for (int i = 2; i < SID_HEAD_BYTES; i++)
        authority = authority << 8 | p[i];
    ea_text_str(t, "S-");
    ea_text_u64(t, p[0]);
    ea_text_char(t, '-');
    if (authority >> 32) /* as Windows prints it */
        ea_text_printf(t, "0x%012" PRIX64, authority);
    else
        ea_text_u64(t, authority);
    for (unsigned i = 0; i < p[1]; i++) {
        ea_text_char(t, '-');
        ea_text_u64(t, ea_load32(p + SID_HEAD_BYTES + (size_t)SID_PART_BYTES * i));
    }
    return 1;
}

void ea_text_code_point(ea_text *t, uint32_t c) {
    char b[4];
    if (c < 0x80) {
        ea_text_char(t, (char)c);
    } else if (c < 0x800) {
        b[0] = (char)(0xC0 | c >> 6);
        b[1] = (char)(0x80 | (c & 63));
        ea_text_add(t, b, 2);
    } else if (c < 0x10000) {
        b[0] = (char)(0xE0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 63));
        b[2] = (char)(0x80 | (c & 63));
        ea_text_add(t, b, 3);
    } else {
        b[0] = (char)(0xF0 | c >> 18);
        b[1] = (char)(0x80 | (c >> 12 & 63));
        b[2] = (char)(0x80 | (c >> 6 & 63));
        b[3] = (char)(0x80 | (c & 63));
        ea_text_add(t, b, 4);
    }
}

void ea_text_utf16(ea_text *t, const void *utf16, size_t len_bytes) {
    const uint8_t *p = utf16;
    size_t n = len_bytes / 2;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = ea_load16(p + 2 * i);
        if (c >= 0xD800 && c < 0xDC00 && i + 1 < n) {
            uint32_t low = ea_load16(p + 2 * i + 2);
            if (low >= 0xDC00 && low < 0xE000) {
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                i++;
            }
        }
        ea_text_code_point(t, c);
    }
}

void ea_text_ansi(ea_text *t, const void *data, size_t len_bytes) {
    /* 0x80-0x9F of Windows-1252; the five undefined bytes stay C1 controls, as Windows' own conversion has them */
    static const uint16_t high[32] = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                      0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                      0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                      0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};
    const uint8_t *p = data;
    for (size_t i = 0; i < len_bytes; i++)
        ea_text_code_point(t, p[i] >= 0x80 && p[i] < 0xA0 ? high[p[i] - 0x80] : p[i]);
}

/* Length of the valid UTF-8 (or WTF-8 surrogate) sequence at p, 0 when it is none; *ret_code gets the code point. */
static size_t sequence(const uint8_t *p, size_t left, uint32_t *ret_code) {
    uint8_t c = p[0];
    size_t n = 0;
    uint32_t code = 0;
    if (c < 0x80) {
        n = 1;
        code = c;
    } else if (c >= 0xC2 && c < 0xE0) {
        n = 2;
        code = c & 31u;
    } else if (c >= 0xE0 && c < 0xF0) {
        n = 3;
        code = c & 15u;
    } else if (c >= 0xF0 && c < 0xF5) {
        n = 4;
        code = c & 7u;
    }
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 63u);
    }
    if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10FFFF)))
        return 0;
    *ret_code = code;
    return n;
}

void ea_utf8_repair(char *utf8, size_t len_bytes) {
    for (size_t i = 0; i < len_bytes;) {
        uint32_t code = 0;
        size_t n = sequence((const uint8_t *)utf8 + i, len_bytes - i, &code);
        if (!n)
            utf8[i] = '?';
        else if (code >= 0xD800 && code < 0xE000)
            memcpy(utf8 + i, "\xEF\xBF\xBD", 3);
        i += n ? n : 1;
    }
}

size_t ea_utf8_to_utf16(const char *utf8, size_t len_bytes, void *out, size_t capacity_bytes) {
    const uint8_t *p = (const uint8_t *)utf8;
    uint8_t *to = out;
    size_t need = 0;
    for (size_t i = 0; i < len_bytes;) {
        uint32_t code = 0xFFFD;
        size_t n = sequence(p + i, len_bytes - i, &code);
        i += n ? n : 1;
        size_t width = code >= 0x10000 ? 4 : 2;
        if (need + width <= capacity_bytes) {
            if (width == 4) {
                ea_store16(to + need, (uint16_t)(0xD800 + ((code - 0x10000) >> 10)));
                ea_store16(to + need + 2, (uint16_t)(0xDC00 + ((code - 0x10000) & 0x3FF)));
            } else {
                ea_store16(to + need, (uint16_t)code);
            }
        } else {
            capacity_bytes = 0; /* writes nothing after a character that did not fit */
        }
        need += width;
    }
    return need;
}

/* Characters that change the order in which others are shown, so that a text looks like another one. */
static int is_bidi_control(uint32_t code) {
    return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

void ea_text_json(ea_text *t, const char *utf8, size_t len_bytes) {
    const uint8_t *p = (const uint8_t *)utf8;
    size_t i = 0, plain = 0;
    while (i < len_bytes) {
        uint8_t c = p[i];
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            i++;
            continue;
        }
        uint32_t code = 0;
        size_t n = c >= 0x80 ? sequence(p + i, len_bytes - i, &code) : 0;
        if (n > 1 && code >= 0xA0 && (code < 0xD800 || code > 0xDFFF) && code != 0x2028 && code != 0x2029 &&
            !is_bidi_control(code)) {
            i += n;
            continue;
        }
        ea_text_add(t, utf8 + plain, i - plain);
        if (c == '"' || c == '\\')
            ea_text_printf(t, "\\%c", c);
        else if (c == '\n')
            ea_text_str(t, "\\n");
        else if (c == '\r')
            ea_text_str(t, "\\r");
        else if (c == '\t')
            ea_text_str(t, "\\t");
        else
            ea_text_printf(t, "\\u%04x", (unsigned)(n > 1 ? code : c));
        i += n ? n : 1;
        plain = i;
    }
    ea_text_add(t, utf8 + plain, i - plain);
}

void ea_text_json_str(ea_text *t, const char *s) {
    if (!s) {
        ea_text_str(t, "null");
        return;
    }
    ea_text_char(t, '"');
    ea_text_json(t, s, strlen(s));
    ea_text_char(t, '"');
}

void ea_text_safe(ea_text *t, const char *utf8, size_t len_bytes) {
    const uint8_t *p = (const uint8_t *)utf8;
    for (size_t i = 0; i < len_bytes;) {
        uint32_t code = 0;
        size_t n = sequence(p + i, len_bytes - i, &code);
        if (n && code >= 0x20 && code != 0x7F && (code < 0x80 || code >= 0xA0) && (code < 0xD800 || code > 0xDFFF) &&
            !is_bidi_control(code)) {
            ea_text_add(t, utf8 + i, n);
            i += n;
        } else {
            size_t step = n ? n : 1;
            for (size_t k = 0; k < step; k++)
                ea_text_printf(t, "\\x%02x", p[i + k]);
            i += step;
        }
    }
}

void ea_text_html(ea_text *t, const char *utf8, size_t len_bytes) {
    for (size_t i = 0; i < len_bytes; i++)
        switch (utf8[i]) {
        case '&':
            ea_text_str(t, "&amp;");
            break;
        case '<':
            ea_text_str(t, "&lt;");
            break;
        case '>':
            ea_text_str(t, "&gt;");
            break;
        case '"':
            ea_text_str(t, "&quot;");
            break;
        case '\'':
            ea_text_str(t, "&#39;");
            break;
        default:
            ea_text_char(t, utf8[i]);
        }
}

void ea_text_csv(ea_text *t, const char *utf8, size_t len_bytes) {
    int formula = 0;
    if (len_bytes && utf8[0] && strchr("=+-@\t\r", utf8[0])) {
        formula = 1;
        if (utf8[0] == '-' && len_bytes > 1) { /* a negative number is no formula */
            formula = 0;
            for (size_t i = 1; i < len_bytes; i++)
                if (!((utf8[i] >= '0' && utf8[i] <= '9') || utf8[i] == '.'))
                    formula = 1;
        }
    }
    int quote = formula;
    for (size_t i = 0; !quote && i < len_bytes; i++)
        quote = utf8[i] == '"' || utf8[i] == ',' || utf8[i] == '\n' || utf8[i] == '\r';
    if (!quote) {
        ea_text_add(t, utf8, len_bytes);
        return;
    }
    ea_text_char(t, '"');
    if (formula)
        ea_text_char(t, '\'');
    for (size_t i = 0; i < len_bytes; i++) {
        if (utf8[i] == '"')
            ea_text_char(t, '"');
        ea_text_char(t, utf8[i]);
    }
    ea_text_char(t, '"');
}

static int text_hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int ea_guid_parse(const char *s, ea_guid *ret) {
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    ea_guid g;
    int brace = *s == '{';
    s += brace;
    for (int i = 0; i < 16; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *s++ != '-')
            return EA_EINVAL;
        int high = text_hex_digit(s[0]), low = high < 0 ? -1 : text_hex_digit(s[1]);
        if (low < 0)
            return EA_EINVAL;
        g.bytes[order[i]] = (uint8_t)(high << 4 | low);
        s += 2;
    }
    if (brace && *s++ != '}')
        return EA_EINVAL;
    if (*s)
        return EA_EINVAL;
    *ret = g;
    return 0;
}

size_t ea_sid_parse(const char *s, uint8_t out[EA_SID_MAX_BYTES]) {
    uint64_t authority, part;
    size_t bytes = SID_HEAD_BYTES;
    if (strncmp(s, "S-1-", 4) != 0)
        return 0;
    s += 4;
    int is_hex = s[0] == '0' && s[1] == 'x';
    s += is_hex ? 2 : 0;
    if (!ea_digits_parse(&s, is_hex ? 16 : 10, &authority) || authority >> 48)
        return 0;
    out[0] = 1;
    for (unsigned i = 0; i < 6; i++)
        out[2 + i] = (uint8_t)(authority >> (40 - 8 * i));
    for (; *s == '-' && bytes < EA_SID_MAX_BYTES; bytes += SID_PART_BYTES) {
        s++;
        if (!ea_digits_parse(&s, 10, &part) || part > UINT32_MAX)
            return 0;
        ea_store32(out + bytes, (uint32_t)part);
    }
    out[1] = (uint8_t)((bytes - SID_HEAD_BYTES) / SID_PART_BYTES);
    return *s ? 0 : bytes;
}

int ea_hex_parse(const char *s, void *out, size_t capacity, size_t *ret_len_bytes) {
    uint8_t *p = out;
    size_t n = 0;
    for (; *s; s += 2, n++) {
        int high = text_hex_digit(s[0]), low = high < 0 ? -1 : text_hex_digit(s[1]);
        if (low < 0 || n == capacity)
            return EA_EINVAL;
        p[n] = (uint8_t)(high << 4 | low);
    }
    *ret_len_bytes = n;
    return 0;
}

int ea_text_parse(const char **at, const char *text) {
    size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0)
        return 0;
    *at += n;
    return 1;
}

int ea_digits_parse(const char **at, unsigned base, uint64_t *ret) {
    uint64_t v = 0;
    const char *p = *at;
    for (int d; (d = text_hex_digit(*p)) >= 0 && (unsigned)d < base; p++) {
        if (v > (UINT64_MAX - (unsigned)d) / base)
            return 0;
        v = v * base + (unsigned)d;
    }
    if (p == *at)
        return 0;
    *at = p;
    *ret = v;
    return 1;
}

int ea_u64_parse(const char *s, uint64_t *ret) {
    uint64_t v;
    unsigned base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
    if (base == 16)
        s += 2;
    if (!ea_digits_parse(&s, base, &v) || *s)
        return EA_EINVAL;
    *ret = v;
    return 0;
}
