/* Regular expressions and patterns with wildcards become an NFA over bytes. See rules_regex.h. The syntax is that of
 * PCRE without what needs more than linear time: look-around, back-references, atomic groups and possessive repeats are
 * refused. Letters outside of ASCII match themselves only, with and without RULES_REGEX_I; \d, \w, \s and \b know
 * ASCII. `$` without RULES_REGEX_M matches at the end and before a last line break, as in PCRE. Thread: the compiler's.
 */
#include "proto/rules/rules_regex.h"

#include "proto/base/array.h"
#include "proto/base/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_MAX = 0x10ffff, RANGES_MAX = 4096 };

typedef struct range {
    uint32_t low, high;
} range;

enum tree_kind { TREE_EMPTY, TREE_CHARS, TREE_CAT, TREE_ALT, TREE_REPEAT, TREE_ASSERT };

typedef struct tree {
    enum tree_kind kind;
    uint32_t min, max; /* of a repeat; max UINT32_MAX: no bound */
    enum rules_assert assert_kind;
    range *ranges; /* sorted, without overlap */
    uint32_t range_count;
    struct tree *first, *next; /* children; the next sibling */
} tree;

typedef struct builder {
    ea_arena *arena;
    const char *text, *at, *end;
    unsigned flags;
    int depth;
    rules_inst *insts;
    size_t count, capacity;
    range set[RANGES_MAX]; /* of the class that is read */
    uint32_t set_count;
    rules_regex_problem *problem;
    int code;
    jmp_buf failed;
} builder;

_Noreturn static void fail(builder *b, const char *at, const char *format, ...) EA_PRINTF(3, 4);

_Noreturn static void fail(builder *b, const char *at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    b->problem->at = (size_t)(at - b->text);
    vsnprintf(b->problem->message, sizeof b->problem->message, format, args);
    va_end(args);
    b->code = EA_EINVAL;
    longjmp(b->failed, 1);
}

static void *take(builder *b, size_t count, size_t size) {
    void *p = ea_arena_zalloc(b->arena, count ? count : 1, size);
    if (!p && ea_arena_error(b->arena) == EA_ELIMIT)
        fail(b, b->text, "the expression takes too much memory: split it");
    if (!p) {
        b->code = EA_ENOMEM;
        longjmp(b->failed, 1);
    }
    return p;
}

static tree *new_tree(builder *b, enum tree_kind kind) {
    tree *t = take(b, 1, sizeof *t);
    t->kind = kind;
    return t;
}

/* ---- classes of characters ---- */
static void set_add(builder *b, uint32_t low, uint32_t high) {
    if (b->set_count == RANGES_MAX)
        fail(b, b->at, "a class has more than %d ranges: split the expression", RANGES_MAX);
    b->set[b->set_count++] = (range){low, high};
}

static int compare_ranges(const void *a, const void *b) {
    const range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static void set_sort(builder *b) {
    uint32_t n = 0;
    qsort(b->set, b->set_count, sizeof *b->set, compare_ranges);
    for (uint32_t i = 0; i < b->set_count; i++) {
        if (n && b->set[i].low <= b->set[n - 1].high + 1) {
            if (b->set[i].high > b->set[n - 1].high)
                b->set[n - 1].high = b->set[i].high;
        } else {
            b->set[n++] = b->set[i];
        }
    }
    b->set_count = n;
}

/* Adds the other case of the ASCII letters. */
static void set_fold(builder *b) {
    uint32_t count = b->set_count;
    for (uint32_t i = 0; i < count; i++) {
        range r = b->set[i];
        uint32_t low = r.low > 'A' ? r.low : 'A', high = r.high < 'Z' ? r.high : 'Z';
        if (low <= high)
            set_add(b, low + 32, high + 32);
        low = r.low > 'a' ? r.low : 'a';
        high = r.high < 'z' ? r.high : 'z';
        if (low <= high)
            set_add(b, low - 32, high - 32);
    }
}

static void set_negate(builder *b, uint32_t from) {
    range old[RANGES_MAX];
    uint32_t count = b->set_count - from, at = 0;
    memcpy(old, b->set + from, count * sizeof *old);
    qsort(old, count, sizeof *old, compare_ranges);
    b->set_count = from;
    for (uint32_t i = 0; i < count; i++) {
        if (old[i].low > at)
            set_add(b, at, old[i].low - 1);
        if (old[i].high + 1 > at)
            at = old[i].high + 1;
    }
    if (at <= CODE_MAX)
        set_add(b, at, CODE_MAX);
}

static tree *set_tree(builder *b) {
    if (b->flags & RULES_REGEX_I)
        set_fold(b);
    set_sort(b);
    tree *t = new_tree(b, TREE_CHARS);
    t->ranges = take(b, b->set_count, sizeof *t->ranges);
    memcpy(t->ranges, b->set, b->set_count * sizeof *t->ranges);
    t->range_count = b->set_count;
    return t;
}

static tree *char_tree(builder *b, uint32_t code) {
    b->set_count = 0;
    set_add(b, code, code);
    return set_tree(b);
}

static tree *any_tree(builder *b, int with_lines) {
    b->set_count = 0;
    if (with_lines) {
        set_add(b, 0, CODE_MAX);
    } else {
        set_add(b, 0, '\n' - 1);
        set_add(b, '\n' + 1, CODE_MAX);
    }
    return set_tree(b);
}

/* \d, \w, \s, \h and their opposites; 0: the letter is none of them. */
static int rules_regex_add_named(builder *b, char name) {
    uint32_t from = b->set_count;
    switch (name | 32) {
    case 'd':
        set_add(b, '0', '9');
        break;
    case 'w':
        set_add(b, '0', '9');
        set_add(b, 'A', 'Z');
        set_add(b, '_', '_');
        set_add(b, 'a', 'z');
        break;
    case 's':
        set_add(b, '\t', '\r');
        set_add(b, ' ', ' ');
        break;
    case 'h':
        set_add(b, '\t', '\t');
        set_add(b, ' ', ' ');
        break;
    default:
        return 0;
    }
    if (!(name & 32))
        set_negate(b, from);
    return 1;
}

static const struct {
    const char *name;
    const char *ranges; /* pairs */
} POSIX[] = {{"alnum", "09AZaz"}, {"alpha", "AZaz"},   {"digit", "09"},      {"lower", "az"},
             {"upper", "AZ"},     {"space", "\t\r  "}, {"xdigit", "09AFaf"}, {"punct", "!/:@[`{~"},
             {"blank", "\t\t  "}, {"word", "09AZ__az"}};

/* ---- the parser ---- */
static uint32_t take_code(builder *b) {
    const uint8_t *p = (const uint8_t *)b->at;
    size_t n = (size_t)(b->end - b->at);
    if (p[0] < 0x80) {
        b->at++;
        return p[0];
    }
    unsigned more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n <= more)
        fail(b, b->at, "the expression is not valid UTF-8");
    uint32_t code = p[0] & (0x3fu >> more);
    for (unsigned i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            fail(b, b->at, "the expression is not valid UTF-8");
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code > CODE_MAX)
        fail(b, b->at, "the expression is not valid UTF-8");
    b->at += more + 1;
    return code;
}

static int hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static uint32_t rules_regex_take_hex(builder *b, const char *begin, int digits) {
    uint32_t code = 0;
    int is_braced = b->at < b->end && *b->at == '{';
    if (is_braced) {
        b->at++;
        digits = 6;
    }
    int i = 0;
    for (; i < digits && b->at < b->end && hex_of(*b->at) >= 0; i++)
        code = code << 4 | (uint32_t)hex_of(*b->at++);
    if (is_braced ? i == 0 || b->at == b->end || *b->at++ != '}' : i != digits)
        fail(b, begin, "expected hexadecimal digits");
    if (code > CODE_MAX)
        fail(b, begin, "there is no such character");
    return code;
}

/* An escape that stands for one character; the backslash is before b->at. */
static uint32_t rules_regex_take_escape(builder *b) {
    const char *begin = b->at - 1;
    char c = *b->at;
    if ((unsigned char)c >= 0x80)
        return take_code(b);
    b->at++;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case 'a':
        return 7;
    case 'e':
        return 27;
    case 'x':
        return rules_regex_take_hex(b, begin, 2);
    case 'u':
        return rules_regex_take_hex(b, begin, 4);
    case '0':
        if (b->at < b->end && *b->at >= '0' && *b->at <= '7')
            fail(b, begin, "octal characters are not supported: write \\x and two hexadecimal digits");
        return 0;
    default:
        if ((c >= '1' && c <= '9') || c == 'k' || c == 'g')
            fail(b, begin, "back-references are not supported: they need more than linear time");
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            fail(b, begin, "\\%c is not supported", c);
        return (unsigned char)c;
    }
}

static void take_posix(builder *b) {
    const char *begin = b->at;
    for (size_t i = 0; i < sizeof POSIX / sizeof *POSIX; i++) {
        size_t n = strlen(POSIX[i].name);
        if ((size_t)(b->end - b->at) >= n + 4 && memcmp(b->at + 2, POSIX[i].name, n) == 0 &&
            memcmp(b->at + 2 + n, ":]", 2) == 0) {
            for (const char *r = POSIX[i].ranges; *r; r += 2)
                set_add(b, (unsigned char)r[0], (unsigned char)r[1]);
            b->at += n + 4;
            return;
        }
    }
    fail(b, begin, "expected a class such as [:alnum:]");
}

static tree *rules_regex_parse_class(builder *b) {
    const char *begin = b->at++;
    int is_negated = b->at < b->end && *b->at == '^';
    b->set_count = 0;
    b->at += is_negated;
    for (int is_first = 1;; is_first = 0) {
        uint32_t low;
        if (b->at == b->end)
            fail(b, begin, "the class has no ]");
        if (*b->at == ']' && !is_first)
            break;
        if (b->end - b->at > 1 && b->at[0] == '[' && b->at[1] == ':') {
            take_posix(b);
            continue;
        }
        if (*b->at == '\\') {
            if (++b->at == b->end)
                fail(b, b->at - 1, "the expression ends after a backslash");
            if (rules_regex_add_named(b, *b->at)) {
                b->at++;
                continue;
            }
            low = *b->at == 'b' ? 8 : 0;
            if (low)
                b->at++;
            else
                low = rules_regex_take_escape(b);
        } else {
            low = take_code(b);
        }
        uint32_t high = low;
        if (b->end - b->at > 1 && b->at[0] == '-' && b->at[1] != ']') {
            const char *dash = b->at++;
            if (*b->at == '\\') {
                if (++b->at == b->end)
                    fail(b, b->at - 1, "the expression ends after a backslash");
                if (strchr("dDwWsShH", *b->at)) {
                    set_add(b, '-', '-');
                    set_add(b, low, low);
                    b->at--;
                    continue;
                }
                high = rules_regex_take_escape(b);
            } else {
                high = take_code(b);
            }
            if (high < low)
                fail(b, dash, "the range of the class ends before it begins");
        }
        set_add(b, low, high);
    }
    b->at++;
    if (b->flags & RULES_REGEX_I)
        set_fold(b);
    if (is_negated) {
        set_negate(b, 0);
        tree *t = new_tree(b, TREE_CHARS); /* both cases are excluded: not folded again */
        set_sort(b);
        t->ranges = take(b, b->set_count, sizeof *t->ranges);
        memcpy(t->ranges, b->set, b->set_count * sizeof *t->ranges);
        t->range_count = b->set_count;
        return t;
    }
    return set_tree(b);
}

static tree *assert_tree(builder *b, enum rules_assert kind) {
    tree *t = new_tree(b, TREE_ASSERT);
    t->assert_kind = kind;
    return t;
}

static tree *cat_of(builder *b, tree *first, tree *second) {
    tree *t = new_tree(b, TREE_CAT);
    t->first = first;
    first->next = second;
    return t;
}

static tree *repeat_of(builder *b, tree *child, uint32_t min, uint32_t max) {
    tree *t = new_tree(b, TREE_REPEAT);
    t->first = child;
    t->min = min;
    t->max = max;
    return t;
}

/* At the end, and before a line break that is the last byte. */
static tree *end_tree(builder *b) {
    unsigned was = b->flags;
    b->flags = 0;
    tree *t = cat_of(b, repeat_of(b, char_tree(b, '\n'), 0, 1), assert_tree(b, RULES_END));
    b->flags = was;
    return t;
}

static tree *parse_alternatives(builder *b);

/* "(?" and what follows; NULL: the flags of the rest of the group were set. */
static tree *parse_special_group(builder *b, const char *begin) {
    unsigned flags = b->flags;
    int is_off = 0;
    if (b->at < b->end && strchr("=!", *b->at))
        fail(b, begin, "look-ahead is not supported: it needs more than linear time");
    if (b->end - b->at > 1 && *b->at == '<' && strchr("=!", b->at[1]))
        fail(b, begin, "look-behind is not supported: it needs more than linear time");
    if (b->at < b->end && *b->at == '>')
        fail(b, begin, "atomic groups are not supported");
    if (b->end - b->at > 1 && b->at[0] == 'P' && b->at[1] == '<')
        b->at++;
    if (b->at < b->end && (*b->at == '<' || *b->at == '\'')) { /* a name: there are no captures */
        char close = *b->at == '<' ? '>' : '\'';
        for (b->at++; b->at < b->end && *b->at != close;)
            b->at++;
        if (b->at++ == b->end)
            fail(b, begin, "the group's name does not end");
        return parse_alternatives(b);
    }
    for (; b->at < b->end && !strchr(":)", *b->at); b->at++) {
        unsigned flag = *b->at == 'i'   ? RULES_REGEX_I
                        : *b->at == 'm' ? RULES_REGEX_M
                        : *b->at == 's' ? RULES_REGEX_S
                                        : 0;
        if (*b->at == '-' && !is_off)
            is_off = 1;
        else if (!flag)
            fail(b, begin, "a group that begins with (?%c is not supported", *b->at);
        else
            flags = is_off ? flags & ~flag : flags | flag;
    }
    if (b->at == b->end)
        fail(b, begin, "the group has no )");
    if (*b->at == ')') {
        b->flags = flags;
        return NULL;
    }
    b->at++;
    unsigned was = b->flags;
    b->flags = flags;
    tree *t = parse_alternatives(b);
    b->flags = was;
    return t;
}

static tree *rules_regex_parse_group(builder *b) {
    const char *begin = b->at++;
    unsigned was = b->flags;
    tree *t;
    if (++b->depth > RULES_DEPTH_MAX)
        fail(b, begin, "more than %d groups are nested", RULES_DEPTH_MAX);
    if (b->at < b->end && *b->at == '?') {
        b->at++;
        t = parse_special_group(b, begin);
        if (!t) {
            b->at++;
            b->depth--;
            return new_tree(b, TREE_EMPTY);
        }
    } else {
        t = parse_alternatives(b);
    }
    b->flags = was;
    if (b->at == b->end)
        fail(b, begin, "the group has no )");
    b->at++;
    b->depth--;
    return t;
}

static tree *parse_escape(builder *b) {
    if (++b->at == b->end)
        fail(b, b->at - 1, "the expression ends after a backslash");
    b->set_count = 0;
    if (rules_regex_add_named(b, *b->at)) {
        b->at++;
        set_sort(b);
        return set_tree(b);
    }
    char c = *b->at;
    if (strchr("AzZbB", c)) {
        b->at++;
        return c == 'Z' ? end_tree(b)
                        : assert_tree(b, c == 'A'   ? RULES_BEGIN
                                         : c == 'z' ? RULES_END
                                         : c == 'b' ? RULES_WORD
                                                    : RULES_NO_WORD);
    }
    return char_tree(b, rules_regex_take_escape(b));
}

static int rules_regex_take_number(builder *b, uint32_t *ret) {
    const char *begin = b->at;
    uint32_t n = 0;
    for (; b->at < b->end && *b->at >= '0' && *b->at <= '9'; b->at++)
        n = n > RULES_REPEAT_MAX ? n : n * 10 + (uint32_t)(*b->at - '0');
    *ret = n;
    return b->at > begin;
}

/* {n}, {n,}, {n,m}; 0: the brace is a character. */
static int parse_braces(builder *b, uint32_t *min, uint32_t *max) {
    const char *begin = b->at++;
    int has_min = rules_regex_take_number(b, min);
    *max = *min;
    if (has_min && b->at < b->end && *b->at == ',') {
        b->at++;
        if (!rules_regex_take_number(b, max))
            *max = UINT32_MAX;
    }
    if (!has_min || b->at == b->end || *b->at != '}') {
        b->at = begin;
        return 0;
    }
    b->at++;
    if (*min > RULES_REPEAT_MAX || (*max != UINT32_MAX && *max > RULES_REPEAT_MAX))
        fail(b, begin, "more than %d repeats: use * or +, or a lower number", RULES_REPEAT_MAX);
    if (*max < *min)
        fail(b, begin, "the highest number of repeats is less than the lowest");
    return 1;
}

static tree *parse_repeats(builder *b, tree *t) {
    for (int is_second = 0; b->at < b->end; is_second = 1) {
        uint32_t min = 0, max = UINT32_MAX;
        const char *begin = b->at;
        if (*b->at == '{') {
            if (!parse_braces(b, &min, &max))
                return t;
        } else if (*b->at == '*' || *b->at == '+' || *b->at == '?') {
            min = *b->at == '+';
            max = *b->at == '?' ? 1 : UINT32_MAX;
            b->at++;
        } else {
            return t;
        }
        if (is_second || t->kind == TREE_EMPTY)
            fail(b, begin, "nothing to repeat");
        if (b->at < b->end && *b->at == '+')
            fail(b, begin, "possessive repeats are not supported");
        if (b->at < b->end && *b->at == '?')
            b->at++; /* lazy: the same texts match */
        t = repeat_of(b, t, min, max);
    }
    return t;
}

static tree *rules_regex_parse_one(builder *b) {
    switch (*b->at) {
    case '(':
        return rules_regex_parse_group(b);
    case '[':
        return rules_regex_parse_class(b);
    case '\\':
        return parse_escape(b);
    case '.':
        b->at++;
        return any_tree(b, (b->flags & RULES_REGEX_S) != 0);
    case '^':
        b->at++;
        return assert_tree(b, b->flags & RULES_REGEX_M ? RULES_LINE_BEGIN : RULES_BEGIN);
    case '$':
        b->at++;
        return b->flags & RULES_REGEX_M ? assert_tree(b, RULES_LINE_END) : end_tree(b);
    case '*':
    case '+':
    case '?':
        fail(b, b->at, "nothing to repeat");
    default:
        return char_tree(b, take_code(b));
    }
}

static tree *parse_sequence(builder *b) {
    tree *all = new_tree(b, TREE_CAT), **last = &all->first;
    while (b->at < b->end && *b->at != '|' && *b->at != ')') {
        tree *t = parse_repeats(b, rules_regex_parse_one(b));
        *last = t;
        last = &t->next;
    }
    return all;
}

static tree *parse_alternatives(builder *b) {
    tree *t = parse_sequence(b);
    if (b->at == b->end || *b->at != '|')
        return t;
    tree *all = new_tree(b, TREE_ALT), *last = t;
    all->first = t;
    while (b->at < b->end && *b->at == '|') {
        b->at++;
        last->next = parse_sequence(b);
        last = last->next;
    }
    return all;
}

/* ---- the NFA: each part is emitted before what comes before it, so that it knows where to go on ---- */
static uint32_t emit(builder *b, rules_inst inst) {
    if (b->count == RULES_NFA_MAX)
        fail(b, b->text, "the expression needs more than %d states: lower its repeats, or split it", RULES_NFA_MAX);
    if (EA_GROW(b->insts, b->capacity, b->count + 1, RULES_NFA_MAX)) {
        b->code = EA_ENOMEM;
        longjmp(b->failed, 1);
    }
    b->insts[b->count] = inst;
    return (uint32_t)b->count++;
}

static uint32_t emit_bytes(builder *b, unsigned low, unsigned high, uint32_t next) {
    return emit(b, (rules_inst){.op = RULES_BYTES, .low = (uint8_t)low, .high = (uint8_t)high, .next = next});
}

static uint32_t emit_split(builder *b, uint32_t next, uint32_t other) {
    return emit(b, (rules_inst){.op = RULES_SPLIT, .next = next, .other = other});
}

typedef struct char_emit {
    uint32_t next;
    uint32_t tails[4]; /* of n bytes 80 to BF before next; UINT32_MAX: not made yet */
    uint32_t begin;    /* of the alternatives so far; UINT32_MAX: none */
} char_emit;

static uint32_t tail(builder *b, char_emit *e, unsigned n) {
    if (n == 0)
        return e->next;
    if (e->tails[n] == UINT32_MAX) {
        uint32_t rest = tail(b, e, n - 1);
        e->tails[n] = emit_bytes(b, 0x80, 0xbf, rest);
    }
    return e->tails[n];
}

static void alternative(builder *b, char_emit *e, uint32_t begin) {
    e->begin = e->begin == UINT32_MAX ? begin : emit_split(b, begin, e->begin);
}

static unsigned encode(uint32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xc0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}

/* The bytes from..to of sequences of n bytes each, from the byte `at` on. */
static uint32_t emit_sequences(builder *b, char_emit *e, const uint8_t *from, const uint8_t *to, unsigned at,
                               unsigned n) {
    if (at == n)
        return e->next;
    int is_low = 1, is_high = 1; /* the rest begins at its lowest, ends at its highest */
    for (unsigned i = at + 1; i < n; i++) {
        is_low &= from[i] == 0x80;
        is_high &= to[i] == 0xbf;
    }
    if (from[at] == to[at] || (is_low && is_high)) {
        uint32_t rest = is_low && is_high ? tail(b, e, n - at - 1) : emit_sequences(b, e, from, to, at + 1, n);
        return emit_bytes(b, from[at], to[at], rest);
    }
    static const uint8_t LOWEST[4] = {0x80, 0x80, 0x80, 0x80}, HIGHEST[4] = {0xbf, 0xbf, 0xbf, 0xbf};
    unsigned low = from[at], high = to[at];
    uint32_t found = UINT32_MAX;
    if (!is_low) {
        found = emit_bytes(b, low, low, emit_sequences(b, e, from, HIGHEST, at + 1, n));
        low++;
    }
    if (!is_high) {
        uint32_t last = emit_bytes(b, high, high, emit_sequences(b, e, LOWEST, to, at + 1, n));
        found = found == UINT32_MAX ? last : emit_split(b, found, last);
        high--;
    }
    if (low <= high) {
        uint32_t middle = emit_bytes(b, low, high, tail(b, e, n - at - 1));
        found = emit_split(b, middle, found);
    }
    return found;
}

static uint32_t emit_chars(builder *b, const range *ranges, uint32_t count, uint32_t next) {
    static const uint32_t ENDS[] = {0x7f, 0x7ff, 0xffff, CODE_MAX};
    char_emit e = {.next = next, .tails = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, .begin = UINT32_MAX};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t low = ranges[i].low;
        for (unsigned n = 0; n < 4 && low <= ranges[i].high; n++) {
            uint8_t from[4], to[4];
            if (low > ENDS[n])
                continue;
            uint32_t high = ranges[i].high < ENDS[n] ? ranges[i].high : ENDS[n];
            unsigned len = encode(low, from);
            encode(high, to);
            alternative(b, &e, emit_sequences(b, &e, from, to, 0, len));
            low = high + 1;
        }
    }
    if (e.begin == UINT32_MAX) /* an empty class: a byte that is never there */
        return emit(b, (rules_inst){.op = RULES_BYTES, .low = 1, .high = 0, .next = next});
    return e.begin;
}

static uint32_t emit_tree(builder *b, const tree *t, uint32_t next);

static uint32_t emit_list(builder *b, const tree *t, uint32_t next) {
    uint32_t count = 0;
    for (const tree *child = t; child; child = child->next)
        count++;
    const tree **children = take(b, count, sizeof *children);
    uint32_t i = 0;
    for (const tree *child = t; child; child = child->next)
        children[i++] = child;
    while (i--)
        next = emit_tree(b, children[i], next);
    return next;
}

static uint32_t emit_repeat(builder *b, const tree *t, uint32_t next) {
    uint32_t at = next;
    if (t->max == UINT32_MAX) {
        uint32_t loop = emit_split(b, 0, next);
        uint32_t body = emit_tree(b, t->first, loop);
        b->insts[loop].next = body;
        at = loop;
    } else {
        for (uint32_t i = t->min; i < t->max; i++)
            at = emit_split(b, emit_tree(b, t->first, at), next);
    }
    for (uint32_t i = 0; i < t->min; i++) {
        size_t was = b->count;
        at = emit_tree(b, t->first, at);
        if (b->count == was)
            break; /* a part without a state: repeats change nothing, and cost nothing */
    }
    return at;
}

static uint32_t emit_tree(builder *b, const tree *t, uint32_t next) {
    uint32_t found = UINT32_MAX;
    switch (t->kind) {
    case TREE_EMPTY:
        return next;
    case TREE_CHARS:
        return emit_chars(b, t->ranges, t->range_count, next);
    case TREE_CAT:
        return emit_list(b, t->first, next);
    case TREE_ALT:
        for (const tree *child = t->first; child; child = child->next) {
            uint32_t at = emit_tree(b, child, next);
            found = found == UINT32_MAX ? at : emit_split(b, found, at);
        }
        return found;
    case TREE_REPEAT:
        return emit_repeat(b, t, next);
    case TREE_ASSERT:
        return emit(b, (rules_inst){.op = RULES_ASSERT, .low = (uint8_t)t->assert_kind, .next = next});
    }
    return next;
}

/* ---- a text that each match contains ---- */
typedef struct literal_search {
    char now[RULES_LITERAL_MAX], best[RULES_LITERAL_MAX];
    size_t now_bytes, best_bytes;
} literal_search;

static void literal_break(literal_search *s) {
    if (s->now_bytes > s->best_bytes) {
        memcpy(s->best, s->now, s->now_bytes);
        s->best_bytes = s->now_bytes;
    }
    s->now_bytes = 0;
}

/* The character of a class of one, or of both cases of a letter, in lower case. */
static int single_char(const tree *t, uint32_t *ret) {
    const range *r = t->ranges;
    if (t->range_count == 1 && r[0].low == r[0].high) {
        *ret = r[0].low >= 'A' && r[0].low <= 'Z' ? r[0].low + 32 : r[0].low;
        return 1;
    }
    if (t->range_count == 2 && r[0].low == r[0].high && r[1].low == r[1].high && r[0].low >= 'A' && r[0].low <= 'Z' &&
        r[1].low == r[0].low + 32) {
        *ret = r[1].low;
        return 1;
    }
    return 0;
}

static void literal_of(literal_search *s, const tree *t) {
    uint32_t code;
    switch (t->kind) {
    case TREE_CHARS:
        if (single_char(t, &code)) {
            if (s->now_bytes + 4 > sizeof s->now)
                literal_break(s);
            s->now_bytes += encode(code, (uint8_t *)s->now + s->now_bytes);
        } else {
            literal_break(s);
        }
        break;
    case TREE_CAT:
        for (const tree *child = t->first; child; child = child->next)
            literal_of(s, child);
        break;
    case TREE_REPEAT:
        if (t->min) {
            literal_of(s, t->first); /* the first of them follows what was before */
            if (t->min > 1 || t->max > 1)
                literal_break(s);
        } else {
            literal_break(s);
        }
        break;
    case TREE_ALT:
        literal_break(s);
        break;
    case TREE_ASSERT:
    case TREE_EMPTY:
        break;
    }
}

/* ---- classes of bytes ---- */
static void classes_of(rules_nfa *n) {
    uint8_t begins[257] = {0};
    begins[0] = 1;
    for (uint32_t i = 0; i < n->count; i++) {
        const rules_inst *inst = &n->insts[i];
        if (inst->op == RULES_BYTES && inst->low <= inst->high) {
            begins[inst->low] = 1;
            begins[inst->high + 1] = 1;
        }
        if (inst->op == RULES_ASSERT && inst->low != RULES_BEGIN && inst->low != RULES_END)
            n->has_context = 1;
    }
    for (unsigned c = 0; n->has_context && c < 256; c++)
        if (strchr("0:A[_`a{\n\v", (int)c) && c)
            begins[c] = 1;
    for (unsigned c = 0; c < 256; c++) {
        if (begins[c])
            n->byte_of[n->class_count++] = (uint8_t)c;
        n->class_of[c] = (uint8_t)(n->class_count - 1);
    }
}

static void finish(builder *b, rules_nfa *n) {
    rules_inst *insts = take(b, b->count, sizeof *insts);
    memcpy(insts, b->insts, b->count * sizeof *insts);
    n->insts = insts;
    n->count = (uint32_t)b->count;
    classes_of(n);
}

static void set_literal(builder *b, rules_nfa *n, const char *literal, size_t len_bytes) {
    char *copy = take(b, len_bytes, 1);
    if (!len_bytes)
        return;
    memcpy(copy, literal, len_bytes);
    n->literal = copy;
    n->literal_bytes = len_bytes;
}

static int run_builder(builder *b, void (*build)(builder *, rules_nfa *, void *), void *arg, rules_nfa *ret) {
    rules_nfa n = {0};
    if (setjmp(b->failed) == 0) {
        build(b, &n, arg);
        *ret = n;
    }
    free(b->insts);
    return b->code;
}

static void build_regex(builder *b, rules_nfa *n, void *arg) {
    (void)arg;
    if (memchr(b->text, 0, (size_t)(b->end - b->text)))
        fail(b, b->text, "the expression contains a NUL: write \\0");
    tree *t = parse_alternatives(b);
    if (b->at != b->end)
        fail(b, b->at, "the ) has no group");
    uint32_t accept = emit(b, (rules_inst){.op = RULES_ACCEPT});
    n->start = emit_tree(b, t, accept);
    finish(b, n);
    literal_search *s = take(b, 1, sizeof *s);
    literal_of(s, t);
    literal_break(s);
    set_literal(b, n, s->best, s->best_bytes);
}

int rules_regex_compile(ea_arena *arena, const char *text, size_t len_bytes, unsigned flags, rules_nfa *ret,
                        rules_regex_problem *problem) {
    builder *b = calloc(1, sizeof *b);
    if (!b)
        return EA_ENOMEM;
    b->arena = arena;
    b->text = b->at = text;
    b->end = text + len_bytes;
    b->flags = flags;
    b->problem = problem;
    int rc = run_builder(b, build_regex, NULL, ret);
    free(b);
    return rc;
}

typedef struct wildcards {
    const char *wild;
    int is_cased;
} wildcards;

static uint32_t emit_byte(builder *b, char c, int is_cased, uint32_t next) {
    unsigned low = (uint8_t)c;
    int is_letter = ea_ascii_lower(c) >= 'a' && ea_ascii_lower(c) <= 'z';
    uint32_t at = emit_bytes(b, low, low, next);
    return is_letter && !is_cased ? emit_split(b, at, emit_bytes(b, low ^ 32, low ^ 32, next)) : at;
}

static void build_wildcards(builder *b, rules_nfa *n, void *arg) {
    static const range ANY = {0, CODE_MAX};
    const wildcards *w = arg;
    size_t i = (size_t)(b->end - b->text), best = 0, best_bytes = 0, bytes = 0;
    uint32_t next = emit(b, (rules_inst){.op = RULES_ACCEPT});
    if (i == 0 || w->wild[i - 1] != '*')
        next = emit(b, (rules_inst){.op = RULES_ASSERT, .low = RULES_END, .next = next});
    else
        i--;
    while (i--) {
        bytes = w->wild[i] ? 0 : bytes + 1;
        if (bytes > best_bytes) {
            best_bytes = bytes;
            best = i;
        }
        if (w->wild[i] == '*') {
            uint32_t loop = emit_split(b, 0, next);
            uint32_t body = emit_bytes(b, 0, 255, loop);
            b->insts[loop].next = body;
            next = loop;
        } else if (w->wild[i]) {
            next = emit_chars(b, &ANY, 1, next);
        } else {
            next = emit_byte(b, b->text[i], w->is_cased, next);
        }
    }
    n->start = next;
    n->is_anchored = 1;
    finish(b, n);
    char *literal = take(b, best_bytes, 1);
    for (size_t k = 0; k < best_bytes; k++)
        literal[k] = ea_ascii_lower(b->text[best + k]);
    set_literal(b, n, literal, best_bytes);
}

int rules_wildcards_compile(ea_arena *arena, const char *text, const char *wild, size_t len_bytes, int is_cased,
                            rules_nfa *ret, rules_regex_problem *problem) {
    builder *b = calloc(1, sizeof *b);
    wildcards w = {wild, is_cased};
    if (!b)
        return EA_ENOMEM;
    b->arena = arena;
    b->text = b->at = text;
    b->end = text + len_bytes;
    b->problem = problem;
    int rc = run_builder(b, build_wildcards, &w, ret);
    free(b);
    return rc;
}
