/* See json_cursor.h. */
#include "proto/base/json_cursor.h"

#include <string.h>

enum { HEX_DIGITS = 4 };

void ea_json_skip_blanks(ea_json_cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

int ea_json_take_char(ea_json_cursor *c, char wanted) {
    ea_json_skip_blanks(c);
    if (c->at >= c->end || *c->at != wanted)
        return 0;
    c->at++;
    return 1;
}

/* Four hex digits after \u. */
static int json_cursor_take_unit(ea_json_cursor *c, uint32_t *ret) {
    uint64_t unit = 0;
    char digits[HEX_DIGITS + 1] = "";
    const char *at = digits;
    if (c->end - c->at < HEX_DIGITS)
        return 0;
    memcpy(digits, c->at, HEX_DIGITS);
    c->at += HEX_DIGITS;
    if (!ea_digits_parse(&at, 16, &unit) || *at)
        return 0;
    *ret = (uint32_t)unit;
    return 1;
}

static int json_cursor_take_escape(ea_json_cursor *c, ea_text *ret) {
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    uint32_t unit, low;
    if (c->at >= c->end)
        return 0;
    char name = *c->at++;
    const char *known = name ? strchr(NAMES, name) : NULL;
    if (known) {
        ea_text_char(ret, VALUES[known - NAMES]);
        return 1;
    }
    if (name != 'u' || !json_cursor_take_unit(c, &unit))
        return 0;
    if (unit >= 0xD800 && unit < 0xDC00 && c->end - c->at > HEX_DIGITS + 1 && c->at[0] == '\\' && c->at[1] == 'u') {
        c->at += 2;
        if (!json_cursor_take_unit(c, &low) || low < 0xDC00 || low > 0xDFFF)
            return 0;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    ea_text_code_point(ret, unit);
    return 1;
}

int ea_json_take_text(ea_json_cursor *c, ea_text *ret) {
    ea_text_clear(ret);
    while (c->at < c->end && *c->at != '"') {
        char byte = *c->at++;
        if (byte != '\\')
            ea_text_char(ret, byte);
        else if (!json_cursor_take_escape(c, ret))
            return 0;
    }
    return c->at < c->end && *c->at++ == '"' && !ret->failed;
}

int ea_json_take_word(ea_json_cursor *c, ea_text *ret) {
    ea_json_skip_blanks(c);
    ea_text_clear(ret);
    while (c->at < c->end && ((*c->at >= '0' && *c->at <= '9') || (*c->at >= 'a' && *c->at <= 'z') || *c->at == '-' ||
                              *c->at == '+' || *c->at == '.' || *c->at == 'E'))
        ea_text_char(ret, *c->at++);
    return ret->len_bytes && !ret->failed;
}
