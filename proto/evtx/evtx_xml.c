/* A record's XML as text, and its values as text. See evtx.h. */
#include "proto/base/clock.h"
#include "proto/evtx/evtx.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint32_t ea_evtx_type_bytes(uint8_t type) {
    static const uint8_t BYTES[] = {
        [EA_EVTX_I8] = 1,       [EA_EVTX_U8] = 1,    [EA_EVTX_I16] = 2,   [EA_EVTX_U16] = 2,
        [EA_EVTX_I32] = 4,      [EA_EVTX_U32] = 4,   [EA_EVTX_I64] = 8,   [EA_EVTX_U64] = 8,
        [EA_EVTX_F32] = 4,      [EA_EVTX_F64] = 8,   [EA_EVTX_BOOL] = 4,  [EA_EVTX_GUID] = 16,
        [EA_EVTX_FILETIME] = 8, [EA_EVTX_HEX32] = 4, [EA_EVTX_HEX64] = 8, [EA_EVTX_SYSTEMTIME] = 16};
    return type < sizeof BYTES ? BYTES[type] : 0;
}

static void put_hex_upper(ea_text *out, const uint8_t *data, uint32_t len_bytes) {
    for (uint32_t i = 0; i < len_bytes; i++)
        ea_text_printf(out, "%02X", data[i]);
}

static void evtx_xml_put_guid(ea_text *out, const uint8_t *g) {
    ea_text_printf(out, "{%08" PRIX32 "-%04X-%04X-%02X%02X-", ea_load32(g), ea_load16(g + 4), ea_load16(g + 6), g[8],
                   g[9]);
    put_hex_upper(out, g + 10, 6);
    ea_text_char(out, '}');
}

/* 100 ns since 1601, as Windows writes it: seven digits of a second. */
static void put_filetime(ea_text *out, uint64_t filetime) {
    enum { TICKS = 10000000, DAY = 86400 };

    uint64_t ticks = filetime % TICKS, seconds = filetime / TICKS, days = seconds / DAY, of_day = seconds % DAY;
    /* days since 1601-01-01 to a date, by eras of 400 years that begin in March (1600-03-01 is 306 days before) */
    uint64_t shifted = days + 306, era = shifted / 146097, of_era = shifted % 146097;
    uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), m = (5 * of_year + 2) / 153;
    uint64_t day = of_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
    uint64_t year = 1600 + era * 400 + year_of_era + (month <= 2);
    ea_text_printf(out,
                   "%04" PRIu64 "-%02" PRIu64 "-%02" PRIu64 "T%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%07" PRIu64 "Z",
                   year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, ticks);
}

static void evtx_xml_put_float(ea_text *out, double v, int digits) {
    if (isnan(v))
        ea_text_str(out, "NaN");
    else if (isinf(v))
        ea_text_str(out, v < 0 ? "-Inf" : "Inf");
    else
        ea_text_printf(out, "%.*g", digits, v);
}

static void put_fixed(ea_text *out, uint8_t type, const uint8_t *p) {
    float single;
    double wide;
    switch (type) {
    case EA_EVTX_I8:
        ea_text_i64(out, (int8_t)*p);
        break;
    case EA_EVTX_I16:
        ea_text_i64(out, (int16_t)ea_load16(p));
        break;
    case EA_EVTX_I32:
        ea_text_i64(out, (int32_t)ea_load32(p));
        break;
    case EA_EVTX_I64:
        ea_text_i64(out, (int64_t)ea_load64(p));
        break;
    case EA_EVTX_F32:
        memcpy(&single, p, sizeof single);
        evtx_xml_put_float(out, (double)single, 9);
        break;
    case EA_EVTX_F64:
        memcpy(&wide, p, sizeof wide);
        evtx_xml_put_float(out, wide, 17);
        break;
    case EA_EVTX_BOOL:
        ea_text_str(out, ea_load32(p) ? "true" : "false");
        break;
    case EA_EVTX_GUID:
        evtx_xml_put_guid(out, p);
        break;
    case EA_EVTX_FILETIME:
        put_filetime(out, ea_load64(p));
        break;
    case EA_EVTX_SYSTEMTIME:
        ea_text_printf(out, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", ea_load16(p), ea_load16(p + 2), ea_load16(p + 6),
                       ea_load16(p + 8), ea_load16(p + 10), ea_load16(p + 12), ea_load16(p + 14));
        break;
    case EA_EVTX_HEX32:
        ea_text_hex64(out, ea_load32(p));
        break;
    case EA_EVTX_HEX64:
        ea_text_hex64(out, ea_load64(p));
        break;
    default:
        ea_text_u64(out, ea_load_uint(p, ea_evtx_type_bytes(type)));
    }
}

/* Bytes of the string at data, without its NUL. */
static uint32_t evtx_xml_string_bytes(const uint8_t *data, uint32_t len_bytes) {
    uint32_t n = 0;
    while (n + 2 <= len_bytes && ea_load16(data + n))
        n += 2;
    return n;
}

/* The next element of an array, of which *at bytes were taken: 1, or 0 at the end. */
static int next_element(uint8_t type, const uint8_t *data, uint32_t len_bytes, uint32_t *at, ea_evtx_value *ret) {
    uint8_t of = type & (EA_EVTX_ARRAY - 1);
    uint32_t bytes = ea_evtx_type_bytes(of), left = len_bytes - *at;
    if (left == 0 || (bytes && left < bytes))
        return 0;
    *ret = (ea_evtx_value){*at, bytes ? bytes : left, of};
    if (of == EA_EVTX_STRING) {
        ret->len_bytes = evtx_xml_string_bytes(data + *at, left);
        *at += ret->len_bytes + 2 <= left ? ret->len_bytes + 2 : left;
    } else {
        *at += ret->len_bytes;
    }
    return 1;
}

void ea_evtx_put_value(ea_text *out, uint8_t type, const uint8_t *data, uint32_t len_bytes) {
    uint32_t fixed = ea_evtx_type_bytes(type), at = 0;
    ea_evtx_value element;
    if (type & EA_EVTX_ARRAY) {
        for (int first = 1; next_element(type, data, len_bytes, &at, &element); first = 0) {
            ea_text_str(out, first ? "" : ", ");
            ea_evtx_put_value(out, element.type, data + element.at, element.len_bytes);
        }
    } else if (fixed && len_bytes == fixed) {
        put_fixed(out, type, data);
    } else if (type == EA_EVTX_BOOL && len_bytes == 1) {
        ea_text_str(out, *data ? "true" : "false");
    } else if (type == EA_EVTX_STRING) {
        ea_text_utf16(out, data, evtx_xml_string_bytes(data, len_bytes));
    } else if (type == EA_EVTX_ANSI) {
        const uint8_t *nul = len_bytes ? memchr(data, 0, len_bytes) : NULL;
        ea_text_ansi(out, data, nul ? (size_t)(nul - data) : len_bytes);
    } else if (type == EA_EVTX_SID) {
        if (!ea_text_sid(out, data, len_bytes))
            put_hex_upper(out, data, len_bytes);
    } else if ((type == EA_EVTX_SIZE || type == EA_EVTX_HANDLE) && (len_bytes == 4 || len_bytes == 8)) {
        ea_text_hex64(out, ea_load_uint(data, len_bytes));
    } else {
        put_hex_upper(out, data, len_bytes);
    }
}

/* ---- XML ---- */

/* 1 when a character that XML 1.0 does not have begins here in UTF-8, apart from those below U+0020: U+FFFE, U+FFFF. */
static int is_no_character(const char *s, size_t left) {
    return left >= 3 && memcmp(s, "\xEF\xBF", 2) == 0 && (unsigned char)s[2] >= 0xBE;
}

/* Characters that XML 1.0 does not have become U+FFFD. */
static void put_escaped(ea_text *out, const char *s, size_t len_bytes) {
    size_t plain = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        unsigned char ch = (unsigned char)s[i];
        const char *instead = ch == '&'    ? "&amp;"
                              : ch == '<'  ? "&lt;"
                              : ch == '>'  ? "&gt;"
                              : ch == '"'  ? "&quot;"
                              : ch == '\'' ? "&apos;"
                              : ch == '\r' ? "&#13;"
                              : ch == '\n' ? "&#10;"
                              : ch == '\t' ? "&#9;"
                              : ch < 0x20  ? "\xEF\xBF\xBD"
                                           : NULL;
        size_t len = 1;
        if (ch == 0xEF && is_no_character(s + i, len_bytes - i)) {
            instead = "\xEF\xBF\xBD";
            len = 3;
        }
        if (!instead)
            continue;
        ea_text_add(out, s + plain, i - plain);
        ea_text_str(out, instead);
        plain = i + len;
    }
    ea_text_add(out, s + plain, len_bytes - plain);
}

typedef struct writer {
    ea_text *out;
    ea_text value; /* before it is escaped */
    int in_attribute;
    uint64_t repeat_bytes; /* of tags that arrays may still repeat */
} writer;

static void put_content(writer *w, uint8_t type, const uint8_t *data, uint32_t len_bytes) {
    ea_text_clear(&w->value);
    ea_evtx_put_value(&w->value, type, data, len_bytes);
    if (w->value.len_bytes) {
        ea_utf8_repair(w->value.data, w->value.len_bytes);
        put_escaped(w->out, w->value.data, w->value.len_bytes);
    }
    w->out->failed |= w->value.failed;
}

/* A name of hostile bytes is no name: what may not be in one becomes '_'. */
static void evtx_xml_put_name(writer *w, const ea_evtx_node *n) {
    ea_text_clear(&w->value);
    ea_text_utf16(&w->value, n->data, n->len_bytes);
    for (size_t i = 0; i < w->value.len_bytes; i++) {
        unsigned char ch = (unsigned char)w->value.data[i];
        int letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || ch == ':';
        int later = (ch >= '0' && ch <= '9') || ch == '-' || ch == '.';
        if (!letter && !(later && i))
            w->value.data[i] = '_';
    }
    ea_text_add(w->out, w->value.data ? w->value.data : "", w->value.len_bytes);
    w->out->failed |= w->value.failed;
}

static void xml_end_attribute(writer *w) {
    if (w->in_attribute)
        ea_text_char(w->out, '\'');
    w->in_attribute = 0;
}

/* An array that is all of an element's content: one element each, as Windows writes it. 1 when it was written. */
static int put_array(writer *w, const ea_evtx_node *value, size_t begin, const ea_evtx_node *element) {
    uint32_t at = 0, count = 0;
    ea_evtx_value v;
    size_t tag_bytes = w->out->len_bytes - begin;
    while (next_element(value->type, value->data, value->len_bytes, &at, &v))
        count++;
    if (count * (uint64_t)tag_bytes > w->repeat_bytes || w->out->failed)
        return 0;
    w->repeat_bytes -= count * (uint64_t)tag_bytes;
    at = 0;
    for (uint32_t i = 0; i < count && next_element(value->type, value->data, value->len_bytes, &at, &v); i++) {
        if (i) {
            ea_text_str(w->out, "</");
            evtx_xml_put_name(w, element);
            ea_text_char(w->out, '>');
            ea_text_clear(&w->value);
            ea_text_add(&w->value, w->out->data + begin, tag_bytes);
            ea_text_add(w->out, w->value.data, w->value.len_bytes);
        }
        put_content(w, v.type, value->data + v.at, v.len_bytes);
    }
    return 1;
}

static void put_entity(writer *w, const ea_evtx_node *n) {
    static const char KNOWN[][5] = {"amp", "lt", "gt", "quot", "apos"};
    ea_text_clear(&w->value);
    ea_text_utf16(&w->value, n->data, n->len_bytes);
    for (size_t i = 0; w->value.data && i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(w->value.data, KNOWN[i]) == 0)
            ea_text_printf(w->out, "&%s;", KNOWN[i]);
    w->out->failed |= w->value.failed;
}

void ea_evtx_put_xml(ea_text *out, const ea_evtx_reader *r) {
    writer w = {.out = out, .repeat_bytes = EA_EVTX_WORK_PER_BYTE * (uint64_t)r->record_bytes};
    size_t begin = 0, element = 0; /* of the last start tag */
    ea_text_init(&w.value);
    for (size_t i = 0; i < r->node_count && !out->failed; i++) {
        const ea_evtx_node *n = &r->nodes[i];
        uint8_t unit[2];
        switch (n->kind) {
        case EA_EVTX_ELEMENT:
            begin = out->len_bytes;
            element = i;
            ea_text_char(out, '<');
            evtx_xml_put_name(&w, n);
            break;
        case EA_EVTX_ATTRIBUTE:
            xml_end_attribute(&w);
            ea_text_char(out, ' ');
            evtx_xml_put_name(&w, n);
            ea_text_str(out, "='");
            w.in_attribute = 1;
            break;
        case EA_EVTX_CONTENT:
            xml_end_attribute(&w);
            ea_text_char(out, '>');
            if (i + 2 < r->node_count && n[1].kind == EA_EVTX_VALUE && n[1].type & EA_EVTX_ARRAY &&
                n[2].kind == EA_EVTX_END && put_array(&w, &n[1], begin, &r->nodes[element]))
                i++;
            break;
        case EA_EVTX_END: {
            int empty = w.in_attribute || i == 0 || n[-1].kind == EA_EVTX_ELEMENT;
            xml_end_attribute(&w);
            if (empty) {
                ea_text_str(out, "/>");
                break;
            }
            ea_text_str(out, "</");
            evtx_xml_put_name(&w, &r->nodes[n->len_bytes]);
            ea_text_char(out, '>');
            break;
        }
        case EA_EVTX_CHARACTER:
            ea_store16(unit, (uint16_t)n->len_bytes);
            put_content(&w, EA_EVTX_STRING, unit, sizeof unit);
            break;
        case EA_EVTX_ENTITY:
            put_entity(&w, n);
            break;
        default:
            put_content(&w, n->type, n->data, n->len_bytes);
        }
    }
    ea_text_deinit(&w.value);
}
