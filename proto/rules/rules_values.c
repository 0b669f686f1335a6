/* One item of a detection: a field, its modifiers and its values become an expression. Wildcards and escapes, windash,
 * base64, UTF-16, networks and numbers are resolved here, so that the engine compares bytes. See rules_parts.h. Thread:
 * the compiler's. */
#include "proto/rules/rules_parts.h"

#include <stdlib.h>
#include <string.h>

enum { VARIANTS_MAX = 625, MODIFIERS_MAX = 16 };

enum modifier {
    MOD_ALL,
    MOD_BASE64,
    MOD_BASE64OFFSET,
    MOD_CASED,
    MOD_CIDR,
    MOD_CONTAINS,
    MOD_ENDSWITH,
    MOD_EXISTS,
    MOD_EXPAND,
    MOD_FIELDREF,
    MOD_GT,
    MOD_GTE,
    MOD_I,
    MOD_LT,
    MOD_LTE,
    MOD_M,
    MOD_NEQ,
    MOD_RE,
    MOD_S,
    MOD_STARTSWITH,
    MOD_UTF16,
    MOD_UTF16BE,
    MOD_UTF16LE,
    MOD_WIDE,
    MOD_WINDASH,
    MOD_COUNT
};

static const char *const NAMES[MOD_COUNT] = {
    "all",      "base64",     "base64offset", "cased",   "cidr",    "contains", "endswith", "exists", "expand",
    "fieldref", "gt",         "gte",          "i",       "lt",      "lte",      "m",        "neq",    "re",
    "s",        "startswith", "utf16",        "utf16be", "utf16le", "wide",     "windash"};

static const char *const UNSUPPORTED[] = {"minute", "hour", "day", "week", "month", "year"};

#define BIT(m) (1u << (m))

enum {
    ENCODINGS = BIT(MOD_BASE64) | BIT(MOD_BASE64OFFSET) | BIT(MOD_UTF16) | BIT(MOD_UTF16BE) | BIT(MOD_UTF16LE) |
                BIT(MOD_WIDE) | BIT(MOD_WINDASH),
    PLACES = BIT(MOD_CONTAINS) | BIT(MOD_STARTSWITH) | BIT(MOD_ENDSWITH),
    COMPARES = BIT(MOD_LT) | BIT(MOD_LTE) | BIT(MOD_GT) | BIT(MOD_GTE),
    OF_REGEX = BIT(MOD_I) | BIT(MOD_M) | BIT(MOD_S),
    KINDS = BIT(MOD_RE) | BIT(MOD_CIDR) | BIT(MOD_EXISTS) | BIT(MOD_FIELDREF) | COMPARES
};

typedef struct item {
    rules_reading *r;
    rules_scalar key;
    const char *field; /* NULL: keywords */
    enum modifier order[MODIFIERS_MAX];
    unsigned count, mods;
} item;

static void read_modifier(item *it, const char *at, size_t n) {
    uint32_t column = it->key.column + (uint32_t)(at - it->key.text);
    for (unsigned i = 0; i < sizeof UNSUPPORTED / sizeof *UNSUPPORTED; i++)
        if (strlen(UNSUPPORTED[i]) == n && memcmp(UNSUPPORTED[i], at, n) == 0)
            rules_refuse(it->r, it->key.line, column, "the modifier %s is not supported", UNSUPPORTED[i]);
    for (unsigned m = 0; m < MOD_COUNT; m++) {
        if (strlen(NAMES[m]) != n || memcmp(NAMES[m], at, n) != 0)
            continue;
        if (m == MOD_EXPAND)
            rules_refuse(it->r, it->key.line, column,
                         "placeholders are not supported: replace the value by those that it stands for");
        if (it->count == MODIFIERS_MAX)
            rules_fail(it->r, it->key.line, column, "more than %d modifiers", MODIFIERS_MAX);
        it->order[it->count++] = (enum modifier)m;
        it->mods |= BIT(m);
        return;
    }
    rules_fail(it->r, it->key.line, column,
               "unknown modifier \"%.*s\": expected contains, startswith, endswith, all, windash, re, cidr, base64, "
               "base64offset, utf16le, utf16be, utf16, wide, fieldref, exists, cased, neq, lt, lte, gt or gte",
               (int)(n < 40 ? n : 40), at);
}

/* At most one of the bits. */
static int rules_values_is_single(unsigned bits) {
    return (bits & (bits - 1)) == 0;
}

static void check_modifiers(const item *it) {
    unsigned m = it->mods;
    if (!rules_values_is_single(m & KINDS))
        rules_fail(it->r, it->key.line, it->key.column,
                   "re, cidr, exists, fieldref, lt, lte, gt and gte exclude each other: keep one of them");
    if ((m & OF_REGEX) && !(m & BIT(MOD_RE)))
        rules_fail(it->r, it->key.line, it->key.column, "the modifiers i, m and s belong to re: put re before them");
    if ((m & (KINDS & ~BIT(MOD_FIELDREF))) && (m & (PLACES | ENCODINGS)))
        rules_fail(
            it->r, it->key.line, it->key.column,
            "re, cidr, exists, lt, lte, gt and gte take no other form of the value: remove contains, startswith, "
            "endswith, windash, base64, base64offset or utf16");
    if ((m & BIT(MOD_FIELDREF)) && (m & (ENCODINGS | BIT(MOD_CONTAINS))))
        rules_refuse(it->r, it->key.line, it->key.column,
                     "fieldref supports startswith, endswith, cased and neq alone");
    if (!rules_values_is_single(m & PLACES))
        rules_fail(it->r, it->key.line, it->key.column,
                   "contains, startswith and endswith exclude each other: keep one");
    if (!it->field && (m & KINDS & ~BIT(MOD_RE)))
        rules_fail(it->r, it->key.line, it->key.column, "keywords have no field: name one before the modifiers");
}

static void rules_values_read_key(item *it) {
    const char *bar = strchr(it->key.text, '|');
    size_t n = bar ? (size_t)(bar - it->key.text) : it->key.len_bytes;
    if (n) {
        char *name = rules_take(it->r, n + 1, 1);
        memcpy(name, it->key.text, n);
        it->field = name;
    }
    while (bar) {
        const char *at = bar + 1;
        bar = strchr(at, '|');
        read_modifier(it, at, bar ? (size_t)(bar - at) : strlen(at));
    }
    check_modifiers(it);
}

/* ---- texts ---- */
static rules_string new_string(const item *it, size_t len_bytes) {
    rules_string s = {rules_take(it->r, len_bytes + 1, 1), rules_take(it->r, len_bytes + 1, 1), (uint32_t)len_bytes};
    return s;
}

/* A backslash before *, ? or a backslash makes it plain; others stand for themselves. */
static rules_string unescape(const item *it, const rules_scalar *v) {
    rules_string s = new_string(it, v->len_bytes);
    s.len_bytes = 0;
    for (size_t i = 0; i < v->len_bytes; i++) {
        char c = v->text[i];
        int is_escaped = c == '\\' && i + 1 < v->len_bytes && strchr("*?\\", v->text[i + 1]) && v->text[i + 1];
        if (is_escaped)
            c = v->text[++i];
        s.wild[s.len_bytes] = !is_escaped && (c == '*' || c == '?') ? c : 0;
        s.text[s.len_bytes++] = c;
    }
    return s;
}

static int has_wildcards(const rules_string *s) {
    for (uint32_t i = 0; i < s->len_bytes; i++)
        if (s->wild[i])
            return 1;
    return 0;
}

typedef struct variants {
    rules_string *items;
    size_t count;
} variants;

static variants new_variants(const item *it, const rules_scalar *v, size_t count) {
    if (count > VARIANTS_MAX)
        rules_fail(it->r, v->line, v->column, "the value stands for more than %d texts: split it", VARIANTS_MAX);
    return (variants){rules_take(it->r, count, sizeof(rules_string)), count};
}

static const char *const DASHES[] = {"-", "/", "\xe2\x80\x93", "\xe2\x80\x94", "\xe2\x80\x95"};

enum { DASH_COUNT = 5, PLACES_MAX = 8 };

static int rules_values_is_word(const rules_string *s, size_t i) {
    unsigned char c = (unsigned char)s->text[i];
    return !s->wild[i] && ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c >= 0x80);
}

/* The length of the dash at i that begins a word and follows none; 0: there is none. */
static size_t dash_at(const rules_string *s, size_t i) {
    if (s->wild[i] || (i && rules_values_is_word(s, i - 1)))
        return 0;
    for (unsigned d = 0; d < DASH_COUNT; d++) {
        size_t n = strlen(DASHES[d]);
        if (s->len_bytes - i > n && memcmp(s->text + i, DASHES[d], n) == 0 && rules_values_is_word(s, i + n) &&
            (unsigned char)s->text[i + n] < 0x80)
            return n;
    }
    return 0;
}

static variants windash(const item *it, const rules_scalar *v, variants from) {
    variants all = {0};
    size_t total = 0, at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < from.count; k++) {
            const rules_string *s = &from.items[k];
            size_t places[PLACES_MAX], count = 0, combinations = 1;
            for (size_t i = 0; i < s->len_bytes; i++)
                if (dash_at(s, i)) {
                    if (count == PLACES_MAX || combinations > VARIANTS_MAX)
                        (void)new_variants(it, v, SIZE_MAX);
                    places[count++] = i;
                    combinations *= DASH_COUNT;
                }
            total += combinations;
            for (size_t c = 0; pass && c < combinations; c++) {
                rules_string *out = &all.items[at++];
                size_t number = c, next = 0;
                *out = new_string(it, s->len_bytes + count * 3);
                out->len_bytes = 0;
                for (size_t i = 0; i < s->len_bytes; i++) {
                    if (next < count && places[next] == i) {
                        const char *dash = DASHES[number % DASH_COUNT];
                        memcpy(out->text + out->len_bytes, dash, strlen(dash));
                        out->len_bytes += (uint32_t)strlen(dash);
                        i += dash_at(s, i) - 1;
                        number /= DASH_COUNT;
                        next++;
                    } else {
                        out->text[out->len_bytes] = s->text[i];
                        out->wild[out->len_bytes++] = s->wild[i];
                    }
                }
            }
        }
        if (!pass)
            all = new_variants(it, v, total);
    }
    return all;
}

static rules_string encode_base64(const item *it, const rules_string *s, unsigned offset, int is_part) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const unsigned BEGIN[] = {0, 2, 3}, CUT[] = {0, 3, 2};
    size_t n = s->len_bytes + offset, len = (n + 2) / 3 * 4;
    rules_string out = new_string(it, len);
    for (size_t i = 0, k = 0; i < n; i += 3, k += 4) {
        unsigned bytes[3] = {0};
        for (size_t j = 0; j < 3 && i + j < n; j++)
            bytes[j] = i + j < offset ? ' ' : (unsigned char)s->text[i + j - offset];
        unsigned group = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
        for (size_t j = 0; j < 4; j++)
            out.text[k + j] = i + j > n ? '=' : DIGITS[group >> (18 - 6 * j) & 63];
    }
    if (is_part) {
        size_t cut = len - CUT[n % 3];
        out.len_bytes = cut > BEGIN[offset] ? (uint32_t)(cut - BEGIN[offset]) : 0;
        out.text += BEGIN[offset];
    }
    return out;
}

static rules_string encode_utf16(const item *it, const rules_string *s, int is_big, int has_mark) {
    size_t n = ea_utf8_to_utf16(s->text, s->len_bytes, NULL, 0);
    rules_string out = new_string(it, n + 2);
    char *at = out.text;
    if (has_mark) {
        *at++ = (char)0xff;
        *at++ = (char)0xfe;
    }
    ea_utf8_to_utf16(s->text, s->len_bytes, at, n);
    for (size_t i = 0; is_big && i + 1 < n; i += 2) {
        char low = at[i];
        at[i] = at[i + 1];
        at[i + 1] = low;
    }
    out.len_bytes = (uint32_t)((size_t)(at - out.text) + n);
    return out;
}

static variants values_encode(const item *it, const rules_scalar *v, enum modifier m, variants from) {
    variants all = new_variants(it, v, m == MOD_BASE64OFFSET ? from.count * 3 : from.count);
    for (size_t i = 0; i < from.count; i++) {
        const rules_string *s = &from.items[i];
        if (has_wildcards(s))
            rules_fail(it->r, v->line, v->column,
                       "a value with wildcards cannot be encoded: escape them by a backslash, or split the value");
        if (!s->len_bytes)
            rules_fail(it->r, v->line, v->column, "an empty value cannot be encoded");
        switch (m) {
        case MOD_BASE64:
            all.items[i] = encode_base64(it, s, 0, 0);
            break;
        case MOD_BASE64OFFSET:
            for (unsigned k = 0; k < 3; k++) {
                all.items[i * 3 + k] = encode_base64(it, s, k, 1);
                if (!all.items[i * 3 + k].len_bytes)
                    rules_fail(it->r, v->line, v->column,
                               "the value is too short for base64offset: use 3 bytes or more");
            }
            break;
        case MOD_UTF16BE:
            all.items[i] = encode_utf16(it, s, 1, 0);
            break;
        case MOD_UTF16:
            all.items[i] = encode_utf16(it, s, 0, 1);
            break;
        default:
            all.items[i] = encode_utf16(it, s, 0, 0);
        }
    }
    return all;
}

/* Puts the wildcards of contains, startswith and endswith around the text, and keeps one of several * in a row. */
static rules_string surround(const item *it, const rules_string *s) {
    int before = (it->mods & (BIT(MOD_CONTAINS) | BIT(MOD_ENDSWITH))) != 0,
        after = (it->mods & (BIT(MOD_CONTAINS) | BIT(MOD_STARTSWITH))) != 0;
    if (!it->field && !(it->mods & PLACES))
        before = after = 1; /* keywords are searched for */
    rules_string out = new_string(it, s->len_bytes + 2u);
    out.len_bytes = 0;
    for (int64_t i = before ? -1 : 0; i < (int64_t)s->len_bytes + after; i++) {
        int is_added = i < 0 || i == (int64_t)s->len_bytes;
        char c = is_added ? '*' : s->text[i], wild = is_added ? '*' : s->wild[i];
        if (wild == '*' && out.len_bytes && out.wild[out.len_bytes - 1] == '*')
            continue;
        out.wild[out.len_bytes] = wild;
        out.text[out.len_bytes++] = c;
    }
    return out;
}

/* ---- leaves ---- */
static rules_expr *new_leaf(const item *it, const rules_scalar *v, enum rules_leaf_kind kind) {
    if (++it->r->value_count > EA_RULES_VALUES_MAX)
        rules_fail(it->r, v->line, v->column, "the rule has more than %d values: split it", EA_RULES_VALUES_MAX);
    rules_expr *e = rules_expr_new(it->r, RULES_LEAF, 0);
    e->leaf.kind = kind;
    e->leaf.field = it->field;
    e->leaf.is_cased = (it->mods & BIT(MOD_CASED)) != 0;
    return e;
}

static rules_expr *not_of(const item *it, rules_expr *e) {
    rules_expr *n = rules_expr_new(it->r, RULES_NOT, 1);
    n->children[0] = e;
    return n;
}

static rules_expr *string_leaf(const item *it, const rules_scalar *v, const rules_string *s) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_STRING);
    e->leaf.string = surround(it, s);
    if (e->leaf.string.len_bytes > RULES_LITERAL_MAX)
        rules_fail(it->r, v->line, v->column, "the value has more than %d bytes", RULES_LITERAL_MAX);
    it->r->text_bytes += e->leaf.string.len_bytes;
    if (it->r->text_bytes > EA_RULES_TEXT_MAX_BYTES)
        rules_fail(it->r, v->line, v->column, "the values of the rule have more than %d MiB: split it",
                   EA_RULES_TEXT_MAX_BYTES >> 20);
    return e;
}

static rules_expr *string_value(const item *it, const rules_scalar *v) {
    variants all = new_variants(it, v, 1);
    all.items[0] = unescape(it, v);
    for (unsigned i = 0; i < it->count; i++) {
        if (it->order[i] == MOD_WINDASH)
            all = windash(it, v, all);
        else if (BIT(it->order[i]) & ENCODINGS)
            all = values_encode(it, v, it->order[i], all);
    }
    if (all.count == 1)
        return string_leaf(it, v, &all.items[0]);
    rules_expr *e = rules_expr_new(it->r, RULES_OR, (uint32_t)all.count);
    for (size_t i = 0; i < all.count; i++)
        e->children[i] = string_leaf(it, v, &all.items[i]);
    return e;
}

static rules_expr *regex_value(const item *it, const rules_scalar *v) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_REGEX);
    rules_nfa nfa;
    rules_regex_problem problem;
    e->leaf.flags = (it->mods & BIT(MOD_I) ? RULES_REGEX_I : 0u) | (it->mods & BIT(MOD_M) ? RULES_REGEX_M : 0u) |
                    (it->mods & BIT(MOD_S) ? RULES_REGEX_S : 0u);
    e->leaf.string = new_string(it, v->len_bytes);
    memcpy(e->leaf.string.text, v->text, v->len_bytes);
    int rc = rules_regex_compile(it->r->scratch, v->text, v->len_bytes, e->leaf.flags, &nfa, &problem);
    ea_arena_recycle(it->r->scratch);
    if (rc == EA_EINVAL)
        rules_refuse(it->r, v->line, v->column, "the regular expression, at its byte %zu: %s", problem.at + 1,
                     problem.message);
    if (rc) {
        it->r->code = EA_ENOMEM;
        longjmp(it->r->failed, 1);
    }
    it->r->state_count += nfa.count;
    if (it->r->state_count > EA_RULES_STATES_MAX)
        rules_refuse(it->r, v->line, v->column,
                     "the regular expressions of the rule need more than %d states: lower their repeats, or split it",
                     EA_RULES_STATES_MAX);
    return e;
}

static rules_expr *number_value(const item *it, const rules_scalar *v) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_NUMBER);
    if (!rules_number_parse(v->text, v->len_bytes, &e->leaf.number))
        rules_fail(it->r, v->line, v->column, "expected a number");
    e->leaf.compare = it->mods & BIT(MOD_LT)    ? RULES_LT
                      : it->mods & BIT(MOD_LTE) ? RULES_LTE
                      : it->mods & BIT(MOD_GT)  ? RULES_GT
                                                : RULES_GTE;
    return e;
}

static rules_expr *cidr_value(const item *it, const rules_scalar *v) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_CIDR);
    const char *slash = memchr(v->text, '/', v->len_bytes);
    size_t n = slash ? (size_t)(slash - v->text) : v->len_bytes;
    rules_number bits = {0};
    rules_address *a = &e->leaf.network;
    if (!rules_address_parse(v->text, n, a) ||
        (slash && (!rules_number_parse(slash + 1, v->len_bytes - n - 1, &bits) || !bits.is_integer ||
                   bits.is_negative || bits.magnitude > a->bits)))
        rules_fail(it->r, v->line, v->column, "expected a network such as 10.0.0.0/8 or fe80::/10");
    if (slash)
        a->bits = (uint8_t)bits.magnitude;
    for (unsigned i = 0; i < 16; i++) {
        unsigned kept = a->bits > i * 8 ? a->bits - i * 8 : 0;
        if (kept < 8)
            a->bytes[i] &= (uint8_t)(0xff00u >> kept);
    }
    return e;
}

static int rules_values_is_text(const rules_scalar *v, const char *text) {
    return v->len_bytes == strlen(text) && memcmp(v->text, text, v->len_bytes) == 0;
}

static rules_expr *exists_value(const item *it, const rules_scalar *v) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_EXISTS);
    if (rules_values_is_text(v, "true") || rules_values_is_text(v, "yes"))
        return e;
    if (!rules_values_is_text(v, "false") && !rules_values_is_text(v, "no"))
        rules_fail(it->r, v->line, v->column, "expected true or false");
    return not_of(it, e);
}

static rules_expr *rules_values_field_value(const item *it, const rules_scalar *v) {
    rules_expr *e = new_leaf(it, v, RULES_LEAF_FIELD);
    char *other = rules_take(it->r, v->len_bytes + 1, 1);
    if (!v->len_bytes || memchr(v->text, 0, v->len_bytes))
        rules_fail(it->r, v->line, v->column, "expected the name of a field");
    memcpy(other, v->text, v->len_bytes);
    e->leaf.other = other;
    e->leaf.place = it->mods & BIT(MOD_STARTSWITH) ? RULES_AT_BEGIN
                    : it->mods & BIT(MOD_ENDSWITH) ? RULES_AT_END
                                                   : RULES_WHOLE;
    return e;
}

static rules_expr *value_expr(const item *it, const rules_scalar *v) {
    if (v->is_null && !it->field) /* an entry without a text: the rule would hold for each event */
        rules_fail(it->r, v->line, v->column, "null is no keyword: remove the entry, or put its text in quotes");
    if (v->is_null && it->field && !(it->mods & BIT(MOD_EXISTS))) /* no such field */
        return not_of(it, new_leaf(it, v, RULES_LEAF_EXISTS));
    if (it->mods & BIT(MOD_RE))
        return regex_value(it, v);
    if (it->mods & BIT(MOD_CIDR))
        return cidr_value(it, v);
    if (it->mods & BIT(MOD_EXISTS))
        return exists_value(it, v);
    if (it->mods & BIT(MOD_FIELDREF))
        return rules_values_field_value(it, v);
    if (it->mods & COMPARES)
        return number_value(it, v);
    return string_value(it, v);
}

rules_expr *rules_item(rules_reading *r, rules_scalar key, const rules_scalar *values, size_t count) {
    item it = {.r = r, .key = key};
    rules_values_read_key(&it);
    if (!count)
        rules_fail(r, key.line, key.column, "the list of values is empty");
    rules_expr *e;
    if (count == 1) {
        e = value_expr(&it, &values[0]);
    } else {
        e = rules_expr_new(r, it.mods & BIT(MOD_ALL) ? RULES_AND : RULES_OR, (uint32_t)count);
        for (size_t i = 0; i < count; i++)
            e->children[i] = value_expr(&it, &values[i]);
    }
    return it.mods & BIT(MOD_NEQ) ? not_of(&it, e) : e;
}
