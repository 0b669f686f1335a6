/* The condition of a rule: names of searches with and, or, not, parentheses, "1 of NAME*", "all of them". See
 * rules_parts.h. Thread: the compiler's. */
#include "proto/rules/rules_parts.h"

#include "proto/base/pattern.h"

#include <string.h>

enum { WORDS_MAX = 4096 };

typedef struct words {
    rules_reading *r;
    rules_scalar text;
    uint32_t column;
    const rules_named *names;
    size_t count;
    size_t at;        /* after the word */
    size_t begin;     /* of the word */
    size_t len_bytes; /* 0: the end */
    int depth;
} words;

static int rules_condition_is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void rules_condition_next_word(words *w) {
    const char *t = w->text.text;
    size_t end = w->text.len_bytes;
    while (w->at < end && rules_condition_is_space(t[w->at]))
        w->at++;
    w->begin = w->at;
    if (w->at < end && (t[w->at] == '(' || t[w->at] == ')' || t[w->at] == '|'))
        w->at++;
    else
        while (w->at < end && !rules_condition_is_space(t[w->at]) && t[w->at] != '(' && t[w->at] != ')' &&
               t[w->at] != '|')
            w->at++;
    w->len_bytes = w->at - w->begin;
}

static int condition_is_word(const words *w, const char *word) {
    if (strlen(word) != w->len_bytes)
        return 0;
    for (size_t i = 0; i < w->len_bytes; i++)
        if (ea_ascii_lower(w->text.text[w->begin + i]) != word[i])
            return 0;
    return 1;
}

static uint32_t condition_column_of(const words *w) {
    return w->column + (uint32_t)w->begin;
}

/* A name with * for any text. */
static int condition_fits(const char *name, const char *pattern, size_t n) {
    const char *kept = NULL;
    size_t i = 0, after = 0;
    while (*name) {
        if (i < n && pattern[i] == '*') {
            after = ++i;
            kept = name;
        } else if (i < n && pattern[i] == *name) {
            i++;
            name++;
        } else if (kept) {
            i = after;
            name = ++kept;
        } else {
            return 0;
        }
    }
    while (i < n && pattern[i] == '*')
        i++;
    return i == n;
}

static rules_expr *parse_or(words *w);

/* "1 of x*", "any of them", "all of x*": the quantifier is the current word. */
static rules_expr *parse_of(words *w, int is_all) {
    uint32_t begin = condition_column_of(w);
    rules_condition_next_word(w); /* of */
    rules_condition_next_word(w);
    if (!w->len_bytes || condition_is_word(w, "(") || condition_is_word(w, ")"))
        rules_fail(w->r, w->text.line, begin, "expected a name after \"of\", such as selection_*, or them");
    int is_them = condition_is_word(w, "them");
    const char *pattern = w->text.text + w->begin;
    rules_expr *e = rules_expr_new(w->r, is_all ? RULES_AND : RULES_OR, (uint32_t)w->count);
    e->count = 0;
    for (size_t i = 0; i < w->count; i++)
        if (is_them ? w->names[i].name[0] != '_' : condition_fits(w->names[i].name, pattern, w->len_bytes))
            e->children[e->count++] = w->names[i].expr;
    if (!e->count)
        rules_fail(w->r, w->text.line, condition_column_of(w), "no search of the detection has a name like %.*s",
                   (int)(w->len_bytes < 80 ? w->len_bytes : 80), pattern);
    rules_condition_next_word(w);
    return e;
}

static int is_of_next(const words *w) {
    words ahead = *w;
    rules_condition_next_word(&ahead);
    return condition_is_word(&ahead, "of");
}

static rules_expr *condition_parse_one(words *w) {
    if (!w->len_bytes)
        rules_fail(w->r, w->text.line, condition_column_of(w),
                   "the condition ends too early: expected the name of a search");
    if (condition_is_word(w, "(")) {
        uint32_t begin = condition_column_of(w);
        if (++w->depth > RULES_DEPTH_MAX)
            rules_fail(w->r, w->text.line, begin, "more than %d parentheses are nested", RULES_DEPTH_MAX);
        rules_condition_next_word(w);
        rules_expr *e = parse_or(w);
        if (!condition_is_word(w, ")"))
            rules_fail(w->r, w->text.line, begin, "the parenthesis is not closed");
        rules_condition_next_word(w);
        w->depth--;
        return e;
    }
    if (is_of_next(w)) {
        if (condition_is_word(w, "1") || condition_is_word(w, "any"))
            return parse_of(w, 0);
        if (condition_is_word(w, "all"))
            return parse_of(w, 1);
        rules_refuse(w->r, w->text.line, condition_column_of(w), "expected 1, any or all before \"of\"");
    }
    const char *text = w->text.text + w->begin;
    for (size_t i = 0; i < w->count; i++)
        if (strlen(w->names[i].name) == w->len_bytes && memcmp(w->names[i].name, text, w->len_bytes) == 0) {
            rules_condition_next_word(w);
            return w->names[i].expr;
        }
    if (memchr(text, '*', w->len_bytes))
        rules_fail(w->r, w->text.line, condition_column_of(w), "a name with * needs \"1 of\" or \"all of\" before it");
    rules_fail(w->r, w->text.line, condition_column_of(w), "the detection has no search named \"%.*s\"",
               (int)(w->len_bytes < 80 ? w->len_bytes : 80), text);
}

static rules_expr *rules_condition_parse_not(words *w) {
    int is_not = 0;
    uint32_t count = 0;
    for (; condition_is_word(w, "not"); rules_condition_next_word(w)) {
        is_not = !is_not;
        if (++count > WORDS_MAX)
            rules_fail(w->r, w->text.line, condition_column_of(w), "more than %d words", WORDS_MAX);
    }
    rules_expr *e = condition_parse_one(w);
    if (!is_not)
        return e;
    rules_expr *n = rules_expr_new(w->r, RULES_NOT, 1);
    n->children[0] = e;
    return n;
}

static rules_expr *rules_condition_parse_list(words *w, const char *word, enum rules_expr_kind kind,
                                              rules_expr *(*parse)(words *)) {
    rules_expr *found[WORDS_MAX / 16];
    uint32_t count = 0;
    for (;;) {
        if (count == sizeof found / sizeof *found)
            rules_fail(w->r, w->text.line, condition_column_of(w),
                       "more than %u searches in a row: use \"1 of\" or \"all of\"", count);
        found[count++] = parse(w);
        if (!condition_is_word(w, word))
            break;
        rules_condition_next_word(w);
    }
    if (count == 1)
        return found[0];
    rules_expr *e = rules_expr_new(w->r, kind, count);
    memcpy(e->children, found, count * sizeof(rules_expr *));
    return e;
}

static rules_expr *parse_and(words *w) {
    return rules_condition_parse_list(w, "and", RULES_AND, rules_condition_parse_not);
}

static rules_expr *parse_or(words *w) {
    return rules_condition_parse_list(w, "or", RULES_OR, parse_and);
}

rules_expr *rules_condition(rules_reading *r, rules_scalar text, uint32_t from_column, const rules_named *names,
                            size_t count) {
    words w = {.r = r, .text = text, .column = from_column, .names = names, .count = count};
    rules_condition_next_word(&w);
    rules_expr *e = parse_or(&w);
    if (condition_is_word(&w, "|"))
        rules_refuse(r, text.line, condition_column_of(&w),
                     "aggregations after | are not supported: Sigma 2 has correlation rules for them");
    if (w.len_bytes)
        rules_fail(r, text.line, condition_column_of(&w), "expected and, or, or the condition's end");
    return e;
}
