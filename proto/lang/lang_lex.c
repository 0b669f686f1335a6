/* The lexer of the query language, and how a compilation fails. See lang_ast.h. Thread: the compiler's. */
#include "proto/lang/lang_ast.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void lang_fail(lang_source *s, uint32_t at, const char *format, ...) {
    va_list args;
    ea_lang_problem *p = s->problem;
    p->line = 1;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < at && i < s->len_bytes; i++) {
        if (s->text[i] == '\n') {
            p->line++;
            begin = i + 1;
        }
    }
    p->column = at - begin + 1;
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    s->rc = EA_EINVAL;
    longjmp(s->out, 1);
}

void *lang_alloc(lang_source *s, size_t count, size_t size_bytes) {
    void *p = ea_arena_zalloc(&s->arena, count ? count : 1, size_bytes);
    if (!p) {
        s->rc = ea_arena_error(&s->arena);
        if (s->rc == EA_ELIMIT)
            lang_fail(s, 0, "the program is too large");
        longjmp(s->out, 1);
    }
    return p;
}

/* A part of a line: a tab is a space, nothing else steers a terminal. */
static void lex_put_line(ea_text *out, const char *text, size_t len_bytes) {
    for (size_t i = 0; i < len_bytes;) {
        size_t n = i;
        while (n < len_bytes && text[n] != '\t')
            n++;
        ea_text_safe(out, text + i, n - i);
        if (n < len_bytes)
            ea_text_char(out, ' ');
        i = n + 1;
    }
}

void ea_lang_problem_print(const ea_lang_problem *p, const char *name, const char *text, size_t len_bytes,
                           ea_text *out) {
    ea_text_safe(out, name, strlen(name));
    ea_text_printf(out, ":%u:%u: ", p->line, p->column);
    ea_text_safe(out, p->message, strlen(p->message));
    size_t begin = 0;
    for (uint32_t line = 1; line < p->line && begin < len_bytes; begin++)
        line += text[begin] == '\n';
    size_t end = begin;
    while (end < len_bytes && text[end] != '\n' && text[end] != '\r')
        end++;
    /* of a long line, what is around the place */
    size_t place = begin + p->column - 1, from = begin;
    if (place > end)
        place = end;
    if (place - from > 80)
        from = place - 80;
    if (end - from > 120)
        end = from + 120;
    while (end > place && end < len_bytes && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    while (from < place && ((unsigned char)text[from] & 0xC0) == 0x80) /* not within a character */
        from++;
    ea_text_str(out, "\n  ");
    size_t shown = out->len_bytes;
    lex_put_line(out, text + from, place - from);
    size_t width = 0;
    for (; shown < out->len_bytes; shown++)
        width += ((unsigned char)out->data[shown] & 0xC0) != 0x80;
    lex_put_line(out, text + place, end - place);
    ea_text_str(out, "\n  ");
    while (width--)
        ea_text_char(out, ' ');
    ea_text_str(out, "^\n");
}

static int lex_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int lex_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int lex_digit_of(char c) {
    if (lex_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static char lex_at(const lang_source *s, uint32_t i) {
    return i < s->len_bytes ? s->text[i] : 0;
}

uint32_t lang_skip_space(lang_source *s, uint32_t i) {
    for (;;) {
        char c = lex_at(s, i);
        if (i >= s->len_bytes)
            return i;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            i++;
        } else if (c == '#' || (c == '/' && lex_at(s, i + 1) == '/')) {
            while (i < s->len_bytes && lex_at(s, i) != '\n')
                i++;
        } else if (c == '/' && lex_at(s, i + 1) == '*') {
            uint32_t begin = i;
            for (i += 2; lex_at(s, i) != '*' || lex_at(s, i + 1) != '/'; i++)
                if (i >= s->len_bytes)
                    lang_fail(s, begin, "the comment has no end");
            i += 2;
        } else {
            return i;
        }
    }
}

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static const unit UNITS[] = {{"ns", 1},          {"us", 1000},         {"ms", 1000000},       {"s", 1000000000},
                             {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {"KiB", 1 << 10},
                             {"MiB", 1 << 20},   {"GiB", 1 << 30}};

static void lex_number(lang_source *s, token *t) {
    uint32_t i = t->at;
    uint64_t v = 0, base = 10;
    if (lex_at(s, i) == '0' && (lex_at(s, i + 1) == 'x' || lex_at(s, i + 1) == 'X')) {
        base = 16;
        i += 2;
        if (lex_digit_of(lex_at(s, i)) > 15)
            lang_fail(s, t->at, "expected hex digits after 0x");
    }
    t->kind = TOKEN_INT;
    while ((uint64_t)lex_digit_of(lex_at(s, i)) < base) {
        uint64_t digit = (uint64_t)lex_digit_of(lex_at(s, i++));
        if (v > (UINT64_MAX - digit) / base)
            lang_fail(s, t->at, "the number has more than 64 bits");
        v = v * base + digit;
    }
    if (base == 10 && lex_at(s, i) == '.' && lex_is_digit(lex_at(s, i + 1))) {
        double scale = 1;
        t->kind = TOKEN_FLOAT;
        t->real = (double)v;
        for (i++; lex_is_digit(lex_at(s, i)); i++)
            t->real += (scale /= 10) * (lex_at(s, i) - '0');
    }
    uint32_t begin = i;
    while (lex_is_letter(lex_at(s, i)) || lex_is_digit(lex_at(s, i)))
        i++;
    if (i > begin) {
        span name = {s->text + begin, i - begin};
        size_t k = 0;
        while (k < sizeof UNITS / sizeof *UNITS && !span_is(name, UNITS[k].name))
            k++;
        if (k == sizeof UNITS / sizeof *UNITS)
            lang_fail(s, begin, "unknown unit; expected ns, us, ms, s, m, h, d, KiB, MiB or GiB");
        if (t->kind == TOKEN_FLOAT) {
            t->real *= (double)UNITS[k].factor;
            if (t->real >= 9e18)
                lang_fail(s, t->at, "the number has more than 64 bits");
            t->kind = TOKEN_INT;
            v = (uint64_t)(t->real + 0.5);
        } else if (v > UINT64_MAX / UNITS[k].factor) {
            lang_fail(s, t->at, "the number has more than 64 bits");
        } else {
            v *= UNITS[k].factor;
        }
    }
    t->number = v;
    t->end = i;
}

static void lex_text(lang_source *s, token *t) {
    uint32_t i = t->at + 1;
    size_t n = 0, room = 1;
    t->kind = TOKEN_TEXT;
    for (uint32_t end = i; end < s->len_bytes && lex_at(s, end) != '"'; end++) {
        room++;
        end += lex_at(s, end) == '\\';
    }
    char *out = lang_alloc(s, room, 1);
    while (lex_at(s, i) != '"') {
        char c = lex_at(s, i);
        if (i >= s->len_bytes || c == '\n')
            lang_fail(s, t->at, "the text has no closing quote on its line");
        if (((unsigned char)c < ' ' && c != '\t' && c != '\r') || c == 127)
            lang_fail(s, i, "a text has no control characters");
        i++;
        if (c == '\\') {
            static const char LETTERS[] = "nt\\\"r", MEANINGS[] = "\n\t\\\"\r";
            const char *found = lex_at(s, i) ? strchr(LETTERS, lex_at(s, i)) : NULL;
            if (!found)
                lang_fail(s, i - 1, "unknown escape; expected \\n, \\t, \\r, \\\\ or \\\"");
            c = MEANINGS[found - LETTERS];
            i++;
        }
        out[n++] = c;
    }
    out[n] = 0;
    ea_utf8_repair(out, n);
    t->text = (span){out, n};
    t->end = i + 1;
}

/* $1: what the caller gave for it. */
static void lex_argument(lang_source *s, token *t) {
    uint32_t i = t->at + 1;
    size_t number = 0;
    while (lex_is_digit(lex_at(s, i)) && number < 1000)
        number = number * 10 + (size_t)(lex_at(s, i++) - '0');
    if (i == t->at + 1)
        lang_fail(s, t->at, "variables have no $; $1, $2 ... are arguments of the program");
    if (!number || number > s->arg_count)
        lang_fail(s, t->at, "there is no argument $%zu; %zu were given", number, s->arg_count);
    const char *value = s->args[number - 1], *digits = value;
    int is_hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    size_t n = strlen(digits + 2 * is_hex);
    digits += 2 * is_hex;
    t->end = i;
    t->kind = TOKEN_TEXT;
    t->text = (span){value, strlen(value)};
    if (n && n <= (is_hex ? 16U : 19U) && strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789") == n) {
        t->kind = TOKEN_INT;
        t->number = strtoull(digits, NULL, is_hex ? 16 : 10);
    }
}

token lang_lex(lang_source *s, uint32_t *in_out_at) {
    token t = {.at = lang_skip_space(s, *in_out_at)};
    uint32_t i = t.at;
    char c = lex_at(s, i);
    if (i >= s->len_bytes) {
        t.end = i;
    } else if (c == '$') {
        lex_argument(s, &t);
    } else if (lex_is_letter(c) || c == '@') {
        t.kind = c == '@' ? TOKEN_AGGREGATION : TOKEN_NAME;
        if (c == '@')
            i++;
        uint32_t begin = i;
        while (lex_is_letter(lex_at(s, i)) || (i > begin && lex_is_digit(lex_at(s, i))))
            i++;
        t.text = (span){s->text + begin, i - begin};
        t.end = i;
    } else if (lex_is_digit(c)) {
        lex_number(s, &t);
    } else if (c == '"') {
        lex_text(s, &t);
    } else {
        static const uint32_t LONG[] = {
            OP3('<', '<', '='), OP3('>', '>', '='), OP2('=', '='), OP2('!', '='), OP2('<', '='), OP2('>', '='),
            OP2('&', '&'),      OP2('|', '|'),      OP2('<', '<'), OP2('>', '>'), OP2('+', '+'), OP2('-', '-'),
            OP2('+', '='),      OP2('-', '='),      OP2('*', '='), OP2('/', '='), OP2('%', '='), OP2('&', '='),
            OP2('|', '='),      OP2('^', '='),      OP2('-', '>'), OP2('=', '~'), OP2('!', '~')};
        t.kind = TOKEN_PUNCTUATION;
        t.op = OP1(c);
        t.end = i + 1;
        for (size_t k = 0; k < sizeof LONG / sizeof *LONG; k++) {
            uint32_t op = LONG[k], bytes = op >> 16 ? 3 : 2, same = 1;
            for (uint32_t b = 0; b < bytes; b++)
                same &= OP1(lex_at(s, i + b)) == (op >> 8 * b & 0xFF);
            if (same) {
                t.op = op;
                t.end = i + bytes;
                break;
            }
        }
        if (t.end == i + 1 && (!c || !strchr("+-*/%<>=!~&|^?:.,;()[]{}", c)))
            lang_fail(s, i, "unexpected character");
    }
    *in_out_at = t.end;
    return t;
}
