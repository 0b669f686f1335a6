/* The parser of the query language: statements by recursive descent, expressions by precedence (Pratt). See lang_ast.h.
 * Thread: the compiler's. */
#include "proto/lang/lang_ast.h"

#include "proto/base/clock.h"
#include "proto/base/pattern.h"

#include <string.h>

enum { ARGS_MAX = 32, TICK_LEAST_NS = 1000000, PREFIX_BINDING = 23, TRIGGER_ARGS = 6 };

typedef struct parser {
    lang_source *s;
    uint32_t at; /* where the token after `now` begins */
    token now;
    uint32_t end;     /* of the token before `now` */
    int in_condition; /* a slash before a brace ends the expression */
    int depth;
} parser;

static void parse_advance(parser *p) {
    p->end = p->now.end;
    p->now = lang_lex(p->s, &p->at);
}

static int parse_is_op(const parser *p, uint32_t op) {
    return p->now.kind == TOKEN_PUNCTUATION && p->now.op == op;
}

static int parse_accept(parser *p, uint32_t op) {
    if (!parse_is_op(p, op))
        return 0;
    parse_advance(p);
    return 1;
}

static void parse_expect(parser *p, uint32_t op, const char *what) {
    if (!parse_accept(p, op))
        lang_fail(p->s, p->now.at, "expected %s", what);
}

static void parse_deeper(parser *p) {
    if (++p->depth > EA_LANG_DEPTH_MAX)
        lang_fail(p->s, p->now.at, "more than %d levels are nested", EA_LANG_DEPTH_MAX);
}

static node *parse_new_node(parser *p, enum node_kind kind, uint32_t at) {
    node *n = lang_alloc(p->s, 1, sizeof *n);
    n->kind = kind;
    n->at = at;
    n->end = at;
    return n;
}

static const int64_t TRIGGER_MOST_NS = INT64_C(86400) * 1000000000;

static node *parse_expression(parser *p, int least);

static node *parse_argument(parser *p) {
    uint32_t at = p->at;
    token name = p->now;
    if (name.kind == TOKEN_NAME) {
        token next = lang_lex(p->s, &at);
        if (next.kind == TOKEN_PUNCTUATION && next.op == OP1('=')) {
            parse_advance(p);
            parse_advance(p);
            node *n = parse_new_node(p, NODE_NAMED, name.at);
            n->text = name.text;
            n->a = parse_expression(p, 0);
            n->end = n->a->end;
            return n;
        }
    }
    return parse_expression(p, 0);
}

/* The list after an opening bracket or parenthesis, its end included. */
static void parse_args(parser *p, node *n, uint32_t close, const char *what) {
    node *args[ARGS_MAX];
    span texts[ARGS_MAX];
    if (!parse_is_op(p, close)) {
        do {
            uint32_t begin = p->now.at;
            if (n->arg_count == ARGS_MAX)
                lang_fail(p->s, p->now.at, "more than %d arguments", ARGS_MAX);
            args[n->arg_count] = parse_argument(p);
            texts[n->arg_count++] = (span){p->s->text + begin, p->end - begin};
        } while (parse_accept(p, OP1(',')));
    }
    n->end = p->now.end;
    parse_expect(p, close, what);
    n->args = lang_alloc(p->s, n->arg_count, sizeof *n->args);
    n->texts = lang_alloc(p->s, n->arg_count, sizeof *n->texts);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        n->args[i] = args[i];
        n->texts[i] = texts[i];
    }
}

/* ---- trigger("name", before 60s, after 10s, at most 3/d, cooldown 1h) ---- */

static int64_t parse_duration(parser *p, span text, uint32_t at) {
    char copy[32];
    int64_t ns;
    if (text.len_bytes < sizeof copy) {
        memcpy(copy, text.text, text.len_bytes);
        copy[text.len_bytes] = 0;
        if (!ea_duration_parse(copy, &ns) && ns >= 0 && ns <= TRIGGER_MOST_NS)
            return ns;
    }
    lang_fail(p->s, at, "expected a duration up to 1d, as in 60s");
}

/* The text after the word at hand, up to a comma, a parenthesis or a space; the next token becomes the one at hand. */
static span parse_word_after(parser *p, uint32_t *ret_at) {
    uint32_t at = lang_skip_space(p->s, p->at), end = at;
    while (end < p->s->len_bytes && p->s->text[end] && !strchr(", )\t\r\n", p->s->text[end]))
        end++;
    *ret_at = at;
    p->at = end;
    parse_advance(p);
    return (span){p->s->text + at, end - at};
}

/* N/UNIT: how many in how long a time. */
static void parse_rate(parser *p, uint64_t *ret_most, uint64_t *ret_per_ns) {
    static const char UNITS[] = "smhd";
    static const uint64_t SECONDS[] = {1, 60, 3600, 86400};

    uint32_t at;
    span text = parse_word_after(p, &at);
    uint64_t most = 0;
    size_t i = 0;
    while (i < text.len_bytes && text.text[i] >= '0' && text.text[i] <= '9' && most <= EA_LANG_TRIGGER_MOST)
        most = most * 10 + (uint64_t)(text.text[i++] - '0');
    const char *unit = i + 2 == text.len_bytes && text.text[i] == '/' ? strchr(UNITS, text.text[i + 1]) : NULL;
    if (!unit || !most || most > EA_LANG_TRIGGER_MOST)
        lang_fail(p->s, at, "expected a number up to %d and s, m, h or d, as in 3/d", EA_LANG_TRIGGER_MOST);
    *ret_most = most;
    *ret_per_ns = SECONDS[unit - UNITS] * 1000000000;
}

static node *parse_trigger(parser *p, token name) {
    node *n = parse_new_node(p, NODE_TRIGGER, name.at);
    uint64_t numbers[TRIGGER_ARGS] = {0,  (uint64_t)60 * 1000000000,    (uint64_t)10 * 1000000000,
                                      10, (uint64_t)86400 * 1000000000, (uint64_t)60 * 1000000000};
    static const char *const WORDS[TRIGGER_ARGS] = {"", "before", "after", "at", "", "cooldown"};
    unsigned given = 0;
    n->text = name.text;
    n->arg_count = TRIGGER_ARGS;
    n->args = lang_alloc(p->s, TRIGGER_ARGS, sizeof *n->args);
    if (p->now.kind != TOKEN_TEXT)
        lang_fail(p->s, p->now.at, "expected the trigger's name, as in trigger(\"slow\", before 60s, after 10s)");
    for (unsigned i = 0; i < TRIGGER_ARGS; i++)
        n->args[i] = parse_new_node(p, i ? NODE_INT : NODE_TEXT, p->now.at);
    n->args[0]->text = p->now.text;
    parse_advance(p);
    while (parse_accept(p, OP1(','))) {
        unsigned which = 1;
        uint32_t at = p->now.at, value_at;
        while (which < TRIGGER_ARGS &&
               (p->now.kind != TOKEN_NAME || !*WORDS[which] || !span_is(p->now.text, WORDS[which])))
            which++;
        if (which == TRIGGER_ARGS || given & 1u << which)
            lang_fail(p->s, at, "expected before TIME, after TIME, at most N/d or cooldown TIME, each once");
        given |= 1u << which;
        if (which == 3) {
            parse_advance(p);
            if (p->now.kind != TOKEN_NAME || !span_is(p->now.text, "most"))
                lang_fail(p->s, p->now.at, "expected at most N/d");
            parse_rate(p, &numbers[3], &numbers[4]);
        } else {
            span value = parse_word_after(p, &value_at);
            numbers[which] = (uint64_t)parse_duration(p, value, value_at);
        }
    }
    for (unsigned i = 1; i < TRIGGER_ARGS; i++)
        n->args[i]->number = numbers[i];
    n->end = p->now.end;
    parse_expect(p, OP1(')'), ") after the trigger");
    return n;
}

static node *lang_parse_parse_primary(parser *p) {
    token t = p->now;
    node *n;
    switch (t.kind) {
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_TEXT:
        parse_advance(p);
        n = parse_new_node(p, t.kind == TOKEN_INT ? NODE_INT : t.kind == TOKEN_FLOAT ? NODE_FLOAT : NODE_TEXT, t.at);
        n->number = t.number;
        n->real = t.real;
        n->text = t.text;
        n->end = t.end;
        return n;
    case TOKEN_AGGREGATION:
        parse_advance(p);
        n = parse_new_node(p, NODE_AGGREGATION, t.at);
        n->text = t.text;
        n->end = t.end;
        if (parse_accept(p, OP1('[')))
            parse_args(p, n, OP1(']'), "] after the keys");
        return n;
    case TOKEN_NAME:
        parse_advance(p);
        n = parse_new_node(p, NODE_NAME, t.at);
        n->text = t.text;
        n->end = t.end;
        if (parse_is_op(p, OP1('(')) && span_is(t.text, "trigger")) {
            parse_advance(p);
            return parse_trigger(p, t);
        }
        if (parse_accept(p, OP1('('))) {
            n->kind = NODE_CALL;
            parse_args(p, n, OP1(')'), ") after the arguments");
        } else if (parse_is_op(p, OP1('.')) || parse_is_op(p, OP2('-', '>'))) {
            parse_advance(p);
            if (p->now.kind != TOKEN_NAME)
                lang_fail(p->s, p->now.at, "expected a name after the point");
            n->kind = NODE_MEMBER;
            n->base = t.text;
            n->text = p->now.text;
            n->end = p->now.end;
            parse_advance(p);
        } else if (parse_accept(p, OP1('['))) {
            n->kind = NODE_INDEX;
            parse_args(p, n, OP1(']'), "] after the keys");
        }
        return n;
    default:
        if (parse_accept(p, OP1('('))) {
            int was = p->in_condition;
            p->in_condition = 0; /* a slash inside is a division */
            n = parse_expression(p, 0);
            p->in_condition = was;
            parse_expect(p, OP1(')'), ")");
            return n;
        }
        lang_fail(p->s, t.at, t.kind == TOKEN_END ? "the text ends inside an expression" : "expected a value");
    }
}

static node *parse_prefix(parser *p) {
    token t = p->now;
    if (!parse_is_op(p, OP1('-')) && !parse_is_op(p, OP1('!')) && !parse_is_op(p, OP1('~')) &&
        !parse_is_op(p, OP1('+')))
        return lang_parse_parse_primary(p);
    parse_advance(p);
    node *a = parse_expression(p, PREFIX_BINDING);
    if (t.op == OP1('+'))
        return a;
    node *n = parse_new_node(p, NODE_UNARY, t.at);
    n->op = t.op;
    n->a = a;
    n->end = a->end;
    return n;
}

enum { EQUALITY = 13, ORDER = 15 };

typedef struct binding {
    uint32_t op;
    int strength;
} binding;

static const binding BINDINGS[] = {
    {OP2('|', '|'), 3},
    {OP2('&', '&'), 5},
    {OP1('|'), 7},
    {OP1('^'), 9},
    {OP1('&'), 11},
    {OP2('=', '='), EQUALITY},
    {OP2('!', '='), EQUALITY},
    {OP2('=', '~'), EQUALITY},
    {OP2('!', '~'), EQUALITY},
    {OP1('<'), ORDER},
    {OP1('>'), ORDER},
    {OP2('<', '='), ORDER},
    {OP2('>', '='), ORDER},
    {OP2('<', '<'), 17},
    {OP2('>', '>'), 17},
    {OP1('+'), 19},
    {OP1('-'), 19},
    {OP1('*'), 21},
    {OP1('/'), 21},
    {OP1('%'), 21},
};

static int parse_ends_condition(parser *p) {
    uint32_t at = p->at;
    if (!p->in_condition || !parse_is_op(p, OP1('/')))
        return 0;
    token next = lang_lex(p->s, &at);
    return next.kind == TOKEN_PUNCTUATION && next.op == OP1('{');
}

static node *parse_expression(parser *p, int least) {
    parse_deeper(p);
    node *left = parse_prefix(p);
    int compared = 0; /* left is a comparison of this strength, without parentheses */
    while (p->now.kind == TOKEN_PUNCTUATION && !parse_ends_condition(p)) {
        uint32_t op = p->now.op, at = p->now.at;
        if (op == OP1('?') && least <= 1) {
            parse_advance(p);
            node *n = parse_new_node(p, NODE_CONDITIONAL, left->at);
            n->a = left;
            n->b = parse_expression(p, 0);
            parse_expect(p, OP1(':'), ": and the value for when the condition does not hold");
            n->c = parse_expression(p, 1);
            n->end = n->c->end;
            left = n;
            continue;
        }
        int strength = 0;
        for (size_t i = 0; i < sizeof BINDINGS / sizeof *BINDINGS; i++)
            if (BINDINGS[i].op == op)
                strength = BINDINGS[i].strength;
        if (!strength || strength < least)
            break;
        if (strength == compared)
            lang_fail(p->s, at, "comparisons have no chains");
        compared = strength == EQUALITY || strength == ORDER ? strength : 0;
        parse_advance(p);
        node *n = parse_new_node(p, NODE_BINARY, at);
        n->op = op;
        n->a = left;
        n->b = parse_expression(p, strength + 1);
        n->end = n->b->end;
        left = n;
    }
    p->depth--;
    return left;
}

/* ---- statements ---- */

static uint32_t parse_accept_assignment(parser *p, int *ret_is) {
    static const uint32_t WITH[] = {OP2('+', '='),      OP2('-', '='),     OP2('*', '='), OP2('/', '='),
                                    OP2('%', '='),      OP2('&', '='),     OP2('|', '='), OP2('^', '='),
                                    OP3('<', '<', '='), OP3('>', '>', '=')};
    *ret_is = 1;
    if (parse_accept(p, OP1('=')))
        return 0;
    for (size_t i = 0; i < sizeof WITH / sizeof *WITH; i++)
        if (parse_accept(p, WITH[i]))
            return WITH[i] >> 16 ? WITH[i] & 0xFFFF : WITH[i] & 0xFF;
    *ret_is = 0;
    return 0;
}

static node *lang_parse_parse_one(parser *p, uint32_t at) {
    node *n = parse_new_node(p, NODE_INT, at);
    n->number = 1;
    return n;
}

static statement *parse_statement(parser *p);

static statement *parse_block(parser *p) {
    statement *first = NULL, **last = &first;
    parse_expect(p, OP1('{'), "{");
    while (!parse_is_op(p, OP1('}'))) {
        if (parse_accept(p, OP1(';')))
            continue;
        *last = parse_statement(p);
        last = &(*last)->next;
    }
    return first;
}

static statement *parse_body(parser *p) {
    if (!parse_is_op(p, OP1('{')))
        return parse_statement(p);
    statement *block = parse_block(p);
    parse_advance(p);
    return block;
}

static statement *parse_statement(parser *p) {
    statement *st = lang_alloc(p->s, 1, sizeof *st);
    int is_assignment;
    parse_deeper(p);
    st->at = p->now.at;
    if (p->now.kind == TOKEN_NAME && span_is(p->now.text, "if")) {
        parse_advance(p);
        st->kind = STATEMENT_IF;
        parse_expect(p, OP1('('), "( and a condition after if");
        st->value = parse_expression(p, 0);
        parse_expect(p, OP1(')'), ") after the condition");
        st->body = parse_body(p);
        if (p->now.kind == TOKEN_NAME && span_is(p->now.text, "else")) {
            parse_advance(p);
            st->rest = parse_body(p);
        }
        p->depth--;
        return st;
    }
    if (p->now.kind == TOKEN_END)
        lang_fail(p->s, p->now.at, "the program ends inside a block; expected }");
    if (parse_is_op(p, OP2('+', '+')) || parse_is_op(p, OP2('-', '-'))) {
        st->kind = STATEMENT_ASSIGN;
        st->op = p->now.op & 0xFF;
        parse_advance(p);
        st->target = lang_parse_parse_primary(p);
        st->value = lang_parse_parse_one(p, st->at);
    } else {
        node *left = lang_parse_parse_primary(p);
        uint32_t op = parse_accept_assignment(p, &is_assignment);
        if (is_assignment) {
            st->kind = left->kind == NODE_AGGREGATION ? STATEMENT_AGGREGATE : STATEMENT_ASSIGN;
            st->op = op;
            st->target = left;
            st->value = parse_expression(p, 0);
            if (st->kind == STATEMENT_AGGREGATE && (op || st->value->kind != NODE_CALL))
                lang_fail(p->s, left->at,
                          "expected an aggregating function, as in @name = count(), sum(x), quantize(x)");
        } else if (parse_is_op(p, OP2('+', '+')) || parse_is_op(p, OP2('-', '-'))) {
            st->kind = STATEMENT_ASSIGN;
            st->op = p->now.op & 0xFF;
            st->target = left;
            st->value = lang_parse_parse_one(p, st->at);
            parse_advance(p);
        } else if (left->kind == NODE_CALL || left->kind == NODE_TRIGGER) {
            st->kind = STATEMENT_CALL;
            st->value = left;
        } else {
            lang_fail(p->s, left->at, "a value alone does nothing; expected an assignment or a call");
        }
    }
    if (st->kind == STATEMENT_ASSIGN && st->target->kind != NODE_NAME && st->target->kind != NODE_INDEX &&
        st->target->kind != NODE_MEMBER)
        lang_fail(p->s, st->target->at, "this cannot be assigned to; expected a variable");
    if (!parse_is_op(p, OP1('}')))
        parse_expect(p, OP1(';'), "; after the statement");
    p->depth--;
    return st;
}

/* ---- probes ---- */

static int parse_is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int parse_span_is_any_case(span a, const char *name) {
    size_t n = strlen(name);
    if (a.len_bytes != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (ea_ascii_lower(a.text[i]) != name[i])
            return 0;
    return 1;
}

static int parse_begins(span a, const char *prefix) {
    size_t n = strlen(prefix);
    return a.len_bytes > n && memcmp(a.text, prefix, n) == 0;
}

static span parse_after(span a, size_t bytes) {
    return (span){a.text + bytes, a.len_bytes - bytes};
}

static int64_t parse_interval(parser *p, span text, uint32_t at) {
    char copy[32];
    int64_t ns;
    size_t n = text.len_bytes;
    if (n < sizeof copy) {
        memcpy(copy, text.text, n);
        copy[n] = 0;
        if (n > 3 && memcmp(copy + n - 3, "sec", 3) == 0)
            copy[n - 2] = 0; /* DTrace's spelling */
        if (!ea_duration_parse(copy, &ns) && ns >= TICK_LEAST_NS)
            return ns;
    }
    lang_fail(p->s, at, "expected an interval of 1ms at the least after tick, as in tick:10s");
}

/* provider:event, or a class's name */
static void lang_parse_parse_class(parser *p, probe *pr, span text) {
    size_t colon = text.len_bytes;
    for (size_t i = text.len_bytes; i-- > 0;)
        if (text.text[i] == ':')
            colon = i;
    pr->name = pr->whole = text;
    if (colon < text.len_bytes) {
        pr->provider = (span){text.text, colon};
        pr->name = parse_after(text, colon + 1);
        if (!pr->provider.len_bytes)
            lang_fail(p->s, pr->at, "expected a provider before the colon");
    }
    if (!pr->name.len_bytes)
        lang_fail(p->s, pr->at, "expected the name or the number of an event after the colon");
    uint32_t code = 0;
    size_t i = 0;
    while (i < pr->name.len_bytes && pr->name.text[i] >= '0' && pr->name.text[i] <= '9' && code <= UINT16_MAX)
        code = code * 10 + (uint32_t)(pr->name.text[i++] - '0');
    if (i == pr->name.len_bytes && code <= UINT16_MAX) {
        if (!pr->provider.len_bytes)
            lang_fail(p->s, pr->at, "expected PROVIDER:NUMBER, or the name of an event class");
        pr->has_code = 1;
        pr->code = (uint16_t)code;
    }
}

static int parse_has_three_colons(span a) {
    for (size_t i = 0; i + 3 <= a.len_bytes; i++)
        if (memcmp(a.text + i, ":::", 3) == 0)
            return 1;
    return 0;
}

/* Reads one probe at p->at, which is no token: names of classes hold slashes and stars. Returns the end of the list. */
static probe **parse_probe(parser *p, probe **last) {
    lang_source *s = p->s;
    token t = p->now;
    probe *pr = lang_alloc(s, 1, sizeof *pr);
    pr->at = t.at;
    if (t.kind == TOKEN_TEXT) {
        if (!t.text.len_bytes)
            lang_fail(s, t.at, "expected the name of an event class");
        lang_parse_parse_class(p, pr, t.text);
        parse_advance(p);
        *last = pr;
        return &pr->next;
    }
    if (t.kind == TOKEN_END)
        lang_fail(s, t.at, "expected a probe");
    uint32_t end = t.at, colons = 0;
    for (; end < s->len_bytes; end++) {
        char c = s->text[end];
        if (parse_is_space(c) || c == ',' || c == '{' || (c == '/' && colons >= 3))
            break;
        colons = c == ':' ? colons + 1 : colons >= 3 ? colons : 0;
    }
    span word = {s->text + t.at, end - t.at};
    if (!word.len_bytes || word.text[0] == '/' || word.text[0] == '@' || word.text[0] == '}')
        lang_fail(s, t.at,
                  "expected a probe: the name of an event class, provider:event, begin, end, tick:10s, unmatched or "
                  "stack-missing");
    p->at = end;
    if (parse_begins(word, "dtrace:::"))
        word = parse_after(word, 9);
    else if (parse_begins(word, "profile:::tick"))
        word = parse_after(word, 10);
    *last = pr;
    if (parse_span_is_any_case(word, "begin")) {
        pr->kind = PROBE_BEGIN;
    } else if (parse_span_is_any_case(word, "end")) {
        pr->kind = PROBE_END;
    } else if (parse_span_is_any_case(word, "unmatched")) {
        pr->kind = PROBE_UNMATCHED;
    } else if (parse_span_is_any_case(word, "stack-missing") || span_is(word, "diag:::missed-stack") ||
               span_is(word, "diag:::missed-ustack")) {
        pr->kind = PROBE_MISSING;
    } else if (span_is(word, "diag:::events")) {
        lang_parse_parse_class(p, pr, (span){"*", 1});
    } else if (parse_begins(word, "tick:") || parse_begins(word, "tick-")) {
        pr->kind = PROBE_TICK;
        pr->interval_ns = parse_interval(p, parse_after(word, 5), pr->at);
    } else if (parse_span_is_any_case(word, "lost")) {
        pr->name = (span){"LostEvent/*", 11};
    } else if (parse_has_three_colons(word)) {
        *last = NULL;
        if (!lang_alias(s, word, pr->at, last)) {
            const char *near = lang_alias_nearest(word);
            lang_fail(s, pr->at, "no event class stands for the DTrace probe %.*s%s%s%s",
                      (int)(word.len_bytes < 100 ? word.len_bytes : 100), word.text, near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "");
        }
        while (*last)
            last = &(*last)->next;
        parse_advance(p);
        return last;
    } else {
        lang_parse_parse_class(p, pr, word);
    }
    parse_advance(p);
    return &pr->next;
}

/* To a probe, which may begin as no token does: GUIDs begin with digits. */
static void parse_advance_to_probe(parser *p) {
    uint32_t at = lang_skip_space(p->s, p->at);
    if (at < p->s->len_bytes && p->s->text[at] >= '0' && p->s->text[at] <= '9')
        p->now = (token){.kind = TOKEN_NAME, .at = at, .end = at};
    else
        parse_advance(p);
}

static clause *parse_clause(parser *p) {
    clause *c = lang_alloc(p->s, 1, sizeof *c);
    probe **last = &c->probes;
    c->at = p->now.at;
    for (;;) {
        last = parse_probe(p, last);
        if (!parse_is_op(p, OP1(',')))
            break;
        parse_advance_to_probe(p);
    }
    if (parse_accept(p, OP1('/'))) {
        p->in_condition = 1;
        c->condition = parse_expression(p, 0);
        p->in_condition = 0;
        parse_expect(p, OP1('/'), "/ after the condition");
    }
    if (!parse_is_op(p, OP1('{')))
        lang_fail(p->s, p->now.at, "expected { and statements after the probe%s", c->condition ? "'s condition" : "");
    c->body = parse_block(p);
    return c;
}

clause *lang_parse(lang_source *s) {
    parser p = {.s = s};
    clause *first = NULL, **last = &first;
    uint32_t count = 0;
    for (;;) {
        parse_advance_to_probe(&p);
        if (parse_is_op(&p, OP1(';')))
            continue;
        if (p.now.kind == TOKEN_END)
            break;
        if (count == EA_LANG_CLAUSES_MAX)
            lang_fail(s, p.now.at, "more than %d clauses", EA_LANG_CLAUSES_MAX);
        clause *c = parse_clause(&p);
        c->number = count++;
        *last = c;
        last = &c->next;
    }
    if (!first)
        lang_fail(s, 0, "the program is empty; expected a probe and { statements }");
    return first;
}

void lang_parse_expression(lang_source *s) {
    parser p = {.s = s};
    parse_advance(&p);
    (void)parse_expression(&p, 0);
    if (p.now.kind != TOKEN_END)
        lang_fail(s, p.now.at, "expected the end of the expression");
}
