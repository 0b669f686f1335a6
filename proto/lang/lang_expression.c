/* Expressions become instructions. See lang_compile.h. */
#include "proto/lang/lang_aggregate.h"
#include "proto/lang/lang_compile.h"

#include <string.h>

enum { EXPRESSION_DEPTH_MAX = 1000 };

static void expression_enter(compiler *k, const node *n) {
    if (++k->depth > EXPRESSION_DEPTH_MAX)
        lang_fail(&k->s, n->at, "more than %d operators follow each other", EXPRESSION_DEPTH_MAX);
}

enum lang_type lang_number_expression(compiler *k, const node *n, unsigned dst, const char *what) {
    enum lang_type t = lang_expression(k, n, dst);
    if (!lang_is_number(t))
        lang_fail(&k->s, n->at, "%s needs a number; this is %s", what, LANG_TYPE_TEXTS[t]);
    return t;
}

/* 1 when the value of an expression is 0 or 1 anyway. */
static int expression_is_truth(const node *n) {
    static const uint32_t OPS[] = {OP2('=', '='), OP2('!', '='), OP1('<'),      OP1('>'),      OP2('<', '='),
                                   OP2('>', '='), OP2('&', '&'), OP2('|', '|'), OP2('=', '~'), OP2('!', '~')};
    if (n->kind == NODE_UNARY)
        return n->op == OP1('!');
    for (size_t i = 0; n->kind == NODE_BINARY && i < sizeof OPS / sizeof *OPS; i++)
        if (n->op == OPS[i])
            return 1;
    return 0;
}

/* Something that is 0 exactly when the value is zero, an empty text or an empty stack: for a jump. */
static void expression_condition(compiler *k, const node *n, unsigned dst) {
    if (lang_expression(k, n, dst) == TYPE_FLOAT) {
        lang_emit(k, CODE_NOT_FLOAT, dst, dst, 0, 0);
        lang_emit(k, CODE_NOT, dst, dst, 0, 0);
    }
}

/* 1 when the node is a whole number of the event. */
static int expression_is_field(compiler *k, const node *n, uint32_t *ret_field, enum lang_type *ret_type) {
    int is_event = n->kind == NODE_MEMBER && span_is(n->base, "event");
    if (!is_event &&
        (n->kind != NODE_NAME || lang_value_of(n->text) >= 0 || lang_find_variable(k, n->text, SCOPE_GLOBAL)))
        return 0;
    return lang_find_field(k, n->text, n->at, ret_field, ret_type) &&
           (*ret_type == TYPE_INT || *ret_type == TYPE_UINT || *ret_type == TYPE_HEX);
}

/* 1 when the node compares a field of the event with a number that is written out: it is most conditions, and one
 * instruction. What no number fulfils is no range. */
static int expression_is_range(compiler *k, const node *n, lang_range *ret) {
    enum lang_type type;
    uint32_t op = n->op;
    *ret = (lang_range){.is_negated = op == OP2('!', '=')};
    if (n->kind != NODE_BINARY || !lang_is_literal(n->b) || !expression_is_field(k, n->a, &ret->field, &type))
        return 0;
    uint64_t c = n->b->number, least = type == TYPE_INT ? (uint64_t)INT64_MIN : 0,
             greatest = type == TYPE_INT ? (uint64_t)INT64_MAX : UINT64_MAX;
    ret->low = op == OP1('<') || op == OP2('<', '=') ? least : op == OP1('>') ? c + 1 : c;
    ret->span = op == OP1('<')                               ? c - 1 - least
                : op == OP2('<', '=')                        ? c - least
                : op == OP1('>') || op == OP2('>', '=')      ? greatest - ret->low
                : op == OP2('=', '=') || op == OP2('!', '=') ? 0
                                                             : UINT64_MAX;
    int is_empty = (op == OP1('<') && c == least) || (op == OP1('>') && c == greatest);
    return !is_empty && (op == OP1('<') || op == OP2('<', '=') || op == OP1('>') || op == OP2('>', '=') ||
                         op == OP2('=', '=') || op == OP2('!', '='));
}

static uint32_t expression_jump_after(compiler *k, const node *n, unsigned dst, uint32_t before) {
    lang_range range;
    if (n->kind == NODE_BINARY && n->op == OP2('&', '&')) {
        expression_enter(k, n);
        before = expression_jump_after(k, n->a, dst, before);
        before = expression_jump_after(k, n->b, dst, before);
        k->depth--;
        return before;
    }
    if (!k->is_dry && expression_is_range(k, n, &range)) {
        uint32_t jump = lang_emit(k, CODE_JUMP_RANGE, lang_use_register(k, dst, n->at), 0, 0, before);
        k->ops[jump].imm |= k->range_count << 16;
        k->ranges[k->range_count++] = range;
        return jump;
    }
    expression_condition(k, n, dst);
    return lang_emit(k, CODE_JUMP_FALSE, 0, dst, 0, before);
}

uint32_t lang_jump_unless(compiler *k, const node *n, unsigned dst) {
    return expression_jump_after(k, n, dst, NO_JUMP);
}

/* The same as 0 or 1. */
static void expression_truth(compiler *k, const node *n, unsigned dst) {
    if (expression_is_truth(n)) {
        (void)lang_expression(k, n, dst);
        return;
    }
    enum lang_type t = lang_expression(k, n, dst);
    lang_emit(k, t == TYPE_FLOAT ? CODE_NOT_FLOAT : CODE_NOT, dst, dst, 0, 0);
    lang_emit(k, CODE_NOT, dst, dst, 0, 0);
}

void lang_keys(compiler *k, const node *n, unsigned dst, uint8_t *types, unsigned count) {
    if (n->arg_count != count)
        lang_fail(&k->s, n->at, "%u keys here and %u elsewhere", n->arg_count, count);
    for (unsigned i = 0; i < count; i++) {
        enum lang_type t = lang_expression(k, n->args[i], lang_use_register(k, dst + i, n->at));
        uint8_t known = !lang_is_literal(n->args[i]);
        uint8_t before = types[i];
        span name = {"of the keys", 11};
        if (before != TYPE_NONE && t != TYPE_NONE && lang_is_number((enum lang_type)before) && lang_is_number(t)) {
            /* a number is the same key whatever its sign; it is shown as where it was seen first */
            if ((before == TYPE_FLOAT) != (t == TYPE_FLOAT)) {
                types[i] = TYPE_FLOAT;
                k->changed |= before != TYPE_FLOAT;
            }
        } else {
            uint8_t assigned = 1;
            lang_take_type(k, &types[i], &assigned, t, !known, n->args[i]->at, "one", name);
        }
        lang_convert(k, dst + i, t, (enum lang_type)types[i]);
    }
}

static enum lang_type expression_load(compiler *k, const lang_variable *v, unsigned dst, unsigned key) {
    lang_emit(k, v->scope == SCOPE_SELF ? CODE_LOAD_SELF : CODE_LOAD, dst, 0, key, lang_variable_number(k, v));
    return (enum lang_type)v->type;
}

static enum lang_type name_expression(compiler *k, const node *n, unsigned dst) {
    uint32_t field;
    enum lang_type type;
    int value = lang_value_of(n->text);
    if (value >= 0) {
        lang_emit(k, CODE_VALUE, dst, 0, 0, (uint32_t)value);
        return lang_value_type((uint32_t)value);
    }
    const lang_variable *v = lang_find_variable(k, n->text, SCOPE_GLOBAL);
    if (v) {
        if (!k->is_dry && lang_find_field_type(k, n->text, n->at) != TYPE_NONE)
            lang_fail(&k->s, n->at,
                      "%.*s is a variable and a field; write event.%.*s for the field, or rename the variable",
                      SHOWN(n->text), SHOWN(n->text));
        return expression_load(k, v, dst, 0);
    }
    if (!lang_find_field(k, n->text, n->at, &field, &type))
        lang_unknown_name(k, n->text, n->at, 0);
    lang_emit(k, CODE_FIELD, dst, 0, 0, field);
    return type;
}

static uint32_t expression_counter_number(compiler *k, const node *n) {
    ea_lang_program *p = k->p;
    uint32_t i = 0;
    while (i < p->counter_count && !span_equal(p->counters[i], n->text))
        i++;
    if (i == p->counter_count) {
        if (i == COUNTERS_MAX)
            lang_fail(&k->s, n->at, "more than %d counters", COUNTERS_MAX);
        p->counters[p->counter_count++] = n->text;
    }
    return i;
}

static enum lang_type member_expression(compiler *k, const node *n, unsigned dst) {
    uint32_t field;
    enum lang_type type;
    if (span_is(n->base, "event")) {
        if (!lang_find_field(k, n->text, n->at, &field, &type))
            lang_unknown_name(k, n->text, n->at, 1);
        lang_emit(k, CODE_FIELD, dst, 0, 0, field);
        return type;
    }
    if (span_is(n->base, "parent")) {
        int value = lang_value_of(n->text);
        if (value != VALUE_execname && value != VALUE_exepath && value != VALUE_cmdline && value != VALUE_pid &&
            value != VALUE_ppid && value != VALUE_user)
            lang_fail(&k->s, n->at, "expected execname, exepath, cmdline, pid, ppid or user of the parent");
        lang_emit(k, CODE_PARENT, dst, 0, 0, (uint32_t)value);
        return lang_value_type((uint32_t)value);
    }
    if (span_is(n->base, "pmc")) {
        lang_emit(k, CODE_PMC, dst, 0, 0, expression_counter_number(k, n));
        return TYPE_UINT;
    }
    if (!span_is(n->base, "this") && !span_is(n->base, "self"))
        lang_fail(&k->s, n->at, "expected this, self, parent, pmc or event before the point");
    const lang_variable *v = lang_find_variable(k, n->text, span_is(n->base, "this") ? SCOPE_THIS : SCOPE_SELF);
    if (!v) {
        nearest m;
        lang_nearest_begin(&m, n->text);
        for (uint32_t i = 0; i < k->p->variable_count; i++) {
            if (k->p->variables[i].scope != SCOPE_THIS && k->p->variables[i].scope != SCOPE_SELF)
                continue;
            char *copy = lang_alloc(&k->s, k->p->variables[i].name.len_bytes + 1, 1);
            memcpy(copy, k->p->variables[i].name.text, k->p->variables[i].name.len_bytes);
            lang_nearest_try(&m, copy);
        }
        lang_fail(&k->s, n->at, "no statement assigns %.*s.%.*s%s%s%s", SHOWN(n->base), SHOWN(n->text), MEANT(m));
    }
    return expression_load(k, v, dst, 0);
}

/* The number of the field that is a call's first argument. */
static uint32_t expression_field_argument(compiler *k, const node *n, const char *form, enum lang_type *ret_type) {
    const node *f = n->args[0];
    uint32_t field;
    if (f->kind != NODE_NAME && !(f->kind == NODE_MEMBER && span_is(f->base, "event")))
        lang_fail(&k->s, n->at, "expected %s", form);
    if (!lang_find_field(k, f->text, f->at, &field, ret_type))
        lang_unknown_name(k, f->text, f->at, 1);
    return field;
}

enum lang_type lang_call_expression(compiler *k, const node *n, unsigned dst) {
    static const char *const STACKS[] = {"kstack", "ustack", "stack"};
    for (uint32_t i = 0; i < 3; i++) {
        if (!span_is(n->text, STACKS[i]))
            continue;
        int64_t frames = n->arg_count ? lang_constant_argument(k, n->args[0]) : 0;
        if (n->arg_count > 1 || frames < 0 || frames > 1000 || (n->arg_count && !frames))
            lang_fail(&k->s, n->at, "expected %s() or %s(n), n of 1 to 1000 frames", STACKS[i], STACKS[i]);
        k->p->needs_stacks = 1;
        lang_emit(k, CODE_STACK, dst, 0, 0, (i + 1) | (uint32_t)frames << 16);
        return TYPE_STACK;
    }
    if (span_is(n->text, "delta")) {
        if (!n->arg_count || n->arg_count > EA_LANG_KEYS_MAX)
            lang_fail(&k->s, n->at, "expected one to %d keys of delta", EA_LANG_KEYS_MAX);
        uint32_t kinds = 0;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            enum lang_type t = lang_expression(k, n->args[i], lang_use_register(k, dst + i, n->at));
            kinds |= (t == TYPE_FLOAT ? 1u : t == TYPE_TEXT ? 2u : t == TYPE_STACK ? 3u : 0u) << 2 * i;
        }
        k->p->needs_delta = 1;
        lang_emit(k, CODE_DELTA, dst, dst, 0, n->arg_count | kinds << 8);
        return TYPE_INT;
    }
    if (span_is(n->text, "strlen")) {
        if (n->arg_count != 1)
            lang_fail(&k->s, n->at, "expected strlen(text)");
        enum lang_type t = lang_expression(k, n->args[0], dst);
        if (t != TYPE_TEXT && t != TYPE_NONE)
            lang_fail(&k->s, n->at, "strlen needs a text; this is %s", LANG_TYPE_TEXTS[t]);
        lang_emit(k, CODE_LENGTH, dst, dst, 0, 0);
        return TYPE_INT;
    }
    if (span_is(n->text, "has")) {
        if (n->arg_count != 1)
            lang_fail(&k->s, n->at, "expected has(field)");
        enum lang_type type;
        lang_emit(k, CODE_HAS, dst, 0, 0, expression_field_argument(k, n, "has(field)", &type));
        return TYPE_INT;
    }
    if (span_is(n->text, "bytes")) {
        static const char FORM[] = "bytes(field, place, count), count of 1 to 8";
        int64_t count = n->arg_count == 3 ? lang_constant_argument(k, n->args[2]) : 0;
        if (count < 1 || count > (int64_t)sizeof(uint64_t))
            lang_fail(&k->s, n->at, "expected %s", FORM);
        enum lang_type type;
        uint32_t field = expression_field_argument(k, n, FORM, &type);
        if (type != TYPE_TEXT)
            lang_fail(&k->s, n->args[0]->at, "bytes reads a text or binary data; this is %s", LANG_TYPE_TEXTS[type]);
        if (lang_number_expression(k, n->args[1], dst, "the place") == TYPE_FLOAT)
            lang_fail(&k->s, n->args[1]->at, "the place is a whole number");
        lang_emit(k, CODE_BYTES, dst, dst, 0, field | (uint32_t)count << 16);
        return TYPE_UINT;
    }
    nearest m;
    lang_nearest_begin(&m, n->text);
    lang_nearest_words(&m, EA_LANG_WORD_CALL);
    const function *f = lang_function_of(n->text);
    if (f)
        lang_fail(&k->s, n->at, "%s aggregates: write @name = %s", f->name, f->form);
    lang_fail(&k->s, n->at, "unknown function %.*s%s%s%s", SHOWN(n->text), MEANT(m));
}

static enum lang_type expression_compare(compiler *k, const node *n, unsigned dst, enum lang_type a, enum lang_type b) {
    uint32_t op = n->op;
    unsigned x = dst, y = dst + 1;
    int equality = op == OP2('=', '=') || op == OP2('!', '=');
    if (a == TYPE_NONE || b == TYPE_NONE) /* not known yet */
        return TYPE_INT;
    if (!lang_is_number(a) || !lang_is_number(b)) {
        if (a != b)
            lang_fail(&k->s, n->at, "%s is compared with %s", LANG_TYPE_TEXTS[a], LANG_TYPE_TEXTS[b]);
        if (!equality)
            lang_fail(&k->s, n->at, "%s has no order; expected ==, != or =~", LANG_TYPE_TEXTS[a]);
        lang_emit(k, op == OP2('=', '=') ? CODE_EQ : CODE_NE, dst, x, y, 0);
        return TYPE_INT;
    }
    if (lang_is_literal(n->b) && b != TYPE_FLOAT && a != TYPE_FLOAT)
        b = a;
    else if (lang_is_literal(n->a) && b != TYPE_FLOAT && a != TYPE_FLOAT)
        a = b;
    if (op == OP1('>') || op == OP2('>', '=')) {
        enum lang_type t = a;
        a = b;
        b = t;
        x = dst + 1;
        y = dst;
        op = op == OP1('>') ? OP1('<') : OP2('<', '=');
    }
    int less = op == OP1('<');
    if (a == TYPE_FLOAT || b == TYPE_FLOAT) {
        lang_convert(k, x, a, TYPE_FLOAT);
        lang_convert(k, y, b, TYPE_FLOAT);
        lang_emit(k, equality ? CODE_EQ_FLOAT : less ? CODE_LT_FLOAT : CODE_LE_FLOAT, dst, x, y, 0);
    } else if ((a == TYPE_INT) == (b == TYPE_INT)) {
        int is_signed = a == TYPE_INT;
        lang_emit(k,
                  equality    ? CODE_EQ
                  : is_signed ? (less ? CODE_LT_INT : CODE_LE_INT)
                              : (less ? CODE_LT_UINT : CODE_LE_UINT),
                  dst, x, y, 0);
    } else if (equality) {
        lang_emit(k, CODE_EQ_MIXED, dst, x, y, 0);
    } else if (a == TYPE_INT) {
        lang_emit(k, less ? CODE_LT_INT_UINT : CODE_LE_INT_UINT, dst, x, y, 0);
    } else {
        lang_emit(k, less ? CODE_LT_UINT_INT : CODE_LE_UINT_INT, dst, x, y, 0);
    }
    if (op == OP2('!', '='))
        lang_emit(k, CODE_NOT, dst, dst, 0, 0);
    return TYPE_INT;
}

enum lang_type lang_arithmetic(compiler *k, uint32_t op, uint32_t at, unsigned dst, enum lang_type a, enum lang_type b,
                               int literal_a, int literal_b) {
    enum lang_type t = literal_b && a != TYPE_FLOAT ? a : literal_a && b != TYPE_FLOAT ? b : lang_common_type(a, b);
    if (t == TYPE_NONE && k->guesses)
        t = lang_common_type(a, b);
    if (t == TYPE_NONE)
        return TYPE_NONE;
    if (t == TYPE_FLOAT) {
        lang_convert(k, dst, a, t);
        lang_convert(k, dst + 1, b, t);
        enum lang_code code = op == OP1('+')   ? CODE_ADD_FLOAT
                              : op == OP1('-') ? CODE_SUB_FLOAT
                              : op == OP1('*') ? CODE_MUL_FLOAT
                              : op == OP1('/') ? CODE_DIV_FLOAT
                                               : CODE_COUNT;
        if (code == CODE_COUNT)
            lang_fail(&k->s, at, "this operation needs whole numbers");
        lang_emit(k, code, dst, dst, dst + 1, 0);
        return t;
    }
    int is_signed = t == TYPE_INT;
    enum lang_code code = CODE_ADD;
    switch (op) {
    case OP1('+'):
        break;
    case OP1('-'):
        code = CODE_SUB;
        t = TYPE_INT; /* what is less than zero shows so */
        break;
    case OP1('*'):
        code = CODE_MUL;
        break;
    case OP1('/'):
        code = is_signed ? CODE_DIV_INT : CODE_DIV_UINT;
        break;
    case OP1('%'):
        code = is_signed ? CODE_MOD_INT : CODE_MOD_UINT;
        break;
    case OP1('&'):
        code = CODE_AND;
        break;
    case OP1('|'):
        code = CODE_OR;
        break;
    case OP1('^'):
        code = CODE_XOR;
        break;
    case OP2('<', '<'):
        code = CODE_SHL;
        t = a;
        break;
    default:
        code = a == TYPE_INT ? CODE_SHR_INT : CODE_SHR_UINT;
        t = a;
    }
    lang_emit(k, code, dst, dst, dst + 1, 0);
    return t;
}

static enum lang_type binary_expression(compiler *k, const node *n, unsigned dst) {
    uint32_t op = n->op;
    if (op == OP2('&', '&') || op == OP2('|', '|')) {
        expression_truth(k, n->a, dst);
        uint32_t jump = lang_emit(k, op == OP2('&', '&') ? CODE_JUMP_FALSE : CODE_JUMP_TRUE, 0, dst, 0, 0);
        expression_truth(k, n->b, dst);
        lang_land(k, jump);
        return TYPE_INT;
    }
    if (op == OP2('=', '~') || op == OP2('!', '~')) {
        enum lang_type t = lang_expression(k, n->a, dst);
        if (t != TYPE_TEXT && t != TYPE_NONE)
            lang_fail(&k->s, n->at, "=~ needs a text on its left; this is %s", LANG_TYPE_TEXTS[t]);
        if (n->b->kind != NODE_TEXT)
            lang_fail(&k->s, n->b->at, "expected a pattern that is written out, as in execname =~ \"sql*\"");
        if (n->b->text.len_bytes > EA_LANG_PATTERN_MAX_BYTES)
            lang_fail(&k->s, n->b->at, "the pattern is longer than %d bytes", EA_LANG_PATTERN_MAX_BYTES);
        lang_emit(k, CODE_LIKE, dst, dst, 0, lang_text_constant(k, n->b->text));
        if (op == OP2('!', '~'))
            lang_emit(k, CODE_NOT, dst, dst, 0, 0);
        return TYPE_INT;
    }
    lang_use_register(k, dst + 1, n->at);
    enum lang_type a = lang_expression(k, n->a, dst), b = lang_expression(k, n->b, dst + 1);
    if (op == OP2('=', '=') || op == OP2('!', '=') || op == OP1('<') || op == OP1('>') || op == OP2('<', '=') ||
        op == OP2('>', '='))
        return expression_compare(k, n, dst, a, b);
    if (!lang_is_number(a) || !lang_is_number(b))
        lang_fail(&k->s, n->at, "the operation needs numbers; this is %s", LANG_TYPE_TEXTS[lang_is_number(a) ? b : a]);
    return lang_arithmetic(k, op, n->at, dst, a, b, lang_is_literal(n->a), lang_is_literal(n->b));
}

static enum lang_type conditional_expression(compiler *k, const node *n, unsigned dst) {
    expression_condition(k, n->a, dst);
    uint32_t to_second = lang_emit(k, CODE_JUMP_FALSE, 0, dst, 0, 0);
    /* the types of both are needed before either is emitted */
    int was = k->is_dry;
    k->is_dry = 1;
    enum lang_type a = lang_expression(k, n->b, dst), b = lang_expression(k, n->c, dst);
    k->is_dry = was;
    enum lang_type t = lang_is_literal(n->c) && a != TYPE_FLOAT && lang_is_number(a)   ? a
                       : lang_is_literal(n->b) && b != TYPE_FLOAT && lang_is_number(b) ? b
                                                                                       : lang_common_type(a, b);
    if (t == TYPE_NONE && k->guesses)
        t = lang_common_type(a, b);
    if (t == TYPE_NONE && a != TYPE_NONE && b != TYPE_NONE)
        lang_fail(&k->s, n->at, "the condition gives %s or %s", LANG_TYPE_TEXTS[a], LANG_TYPE_TEXTS[b]);
    if (k->is_dry)
        return t;
    lang_convert(k, dst, lang_expression(k, n->b, dst), t);
    uint32_t to_end = lang_emit(k, CODE_JUMP, 0, 0, 0, 0);
    lang_land(k, to_second);
    lang_convert(k, dst, lang_expression(k, n->c, dst), t);
    lang_land(k, to_end);
    return t;
}

static enum lang_type expression_at_depth(compiler *k, const node *n, unsigned dst) {
    uint64_t bits;
    enum lang_type t;
    lang_use_register(k, dst, n->at);
    switch (n->kind) {
    case NODE_INT:
        t = n->number > INT64_MAX ? TYPE_UINT : TYPE_INT;
        lang_emit(k, CODE_CONST, dst, 0, 0, lang_constant(k, t, n->number));
        return t;
    case NODE_FLOAT:
        memcpy(&bits, &n->real, sizeof bits);
        lang_emit(k, CODE_CONST, dst, 0, 0, lang_constant(k, TYPE_FLOAT, bits));
        return TYPE_FLOAT;
    case NODE_TEXT:
        lang_emit(k, CODE_CONST, dst, 0, 0, lang_text_constant(k, n->text));
        return TYPE_TEXT;
    case NODE_NAME:
        return name_expression(k, n, dst);
    case NODE_MEMBER:
        return member_expression(k, n, dst);
    case NODE_INDEX: {
        lang_variable *v = lang_find_variable(k, n->text, SCOPE_MAP);
        if (!v)
            lang_fail(&k->s, n->at, "no statement assigns %.*s[...]", SHOWN(n->text));
        lang_keys(k, n, dst, v->keys, v->key_count);
        return expression_load(k, v, dst, dst);
    }
    case NODE_AGGREGATION: {
        lang_aggregation *a = lang_find_aggregation(k, n);
        lang_keys(k, n, dst, a->keys, a->key_count);
        if (lang_has_histogram(a->function) || a->function == FUNCTION_TOP)
            lang_fail(&k->s, n->at, "@%.*s is a distribution; it has no single value", SHOWN(n->text));
        lang_emit(k, CODE_READ, dst, dst, 0, lang_aggregation_number(k, a));
        return lang_aggregate_type(a);
    }
    case NODE_CALL:
        return lang_call_expression(k, n, dst);
    case NODE_TRIGGER:
        lang_fail(&k->s, n->at, "trigger() has no value: it is a statement");
    case NODE_NAMED:
        lang_fail(&k->s, n->at, "only emit has arguments with names");
    case NODE_UNARY:
        if (n->op == OP1('!')) {
            t = lang_expression(k, n->a, dst);
            lang_emit(k, t == TYPE_FLOAT ? CODE_NOT_FLOAT : CODE_NOT, dst, dst, 0, 0);
            return TYPE_INT;
        }
        t = lang_number_expression(k, n->a, dst, n->op == OP1('-') ? "-" : "~");
        if (n->op == OP1('~') && t == TYPE_FLOAT)
            lang_fail(&k->s, n->at, "this operation needs whole numbers");
        lang_emit(k, n->op == OP1('~') ? CODE_INVERT : t == TYPE_FLOAT ? CODE_NEG_FLOAT : CODE_NEG, dst, dst, 0, 0);
        return n->op == OP1('-') && t != TYPE_FLOAT && t != TYPE_NONE ? TYPE_INT : t;
    case NODE_BINARY:
        return binary_expression(k, n, dst);
    default:
        return conditional_expression(k, n, dst);
    }
}

/* Of 1 + 2 + 3 each operator is one level: what compiles it calls itself for each. */
enum lang_type lang_expression(compiler *k, const node *n, unsigned dst) {
    expression_enter(k, n);
    enum lang_type t = expression_at_depth(k, n, dst);
    k->depth--;
    return t;
}
