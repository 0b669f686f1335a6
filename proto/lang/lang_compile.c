/* The compiler: names become values, variables and fields; types are inferred until they no longer change; then each
 * clause becomes instructions for registers. See lang_program.h. Thread: its caller's. */
#include "proto/base/array.h"
#include "proto/base/cli.h"
#include "proto/event/class_names.h"
#include "proto/event/render.h"
#include "proto/lang/lang_aggregate.h"
#include "proto/lang/lang_program.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXPRESSION_DEPTH_MAX = 1000,
    FIELDS_MAX = 128,
    VARIABLES_MAX = 256,
    CONSTANTS_MAX = 65536,
    PASSES_MAX = 1024,
    PROGRAM_MAX_BYTES = 16 << 20
};

typedef struct compiler {
    lang_source s;
    ea_lang_program *p;
    const ea_lang_sources *from;
    int is_dry;  /* types alone: nothing is emitted */
    int changed; /* a type became another one */
    int guesses; /* a number that is written out gives its type to what has none yet: x = x + 1 */
    int depth;   /* of the expression at hand */
    size_t constant_capacity, text_capacity, format_capacity, row_capacity;
    /* the clause at hand */
    const clause *c;
    const ea_class **classes;
    size_t class_count, class_capacity;
    const ea_class **class_buffer;
    int has_class_probe;

    struct clause_classes {
        const ea_class **classes;
        size_t count;
        lang_field *fields; /* which the pass before read */
        uint32_t field_count;
    } * found; /* of each clause */

    lang_op *ops;
    uint32_t op_count;
    lang_field fields[FIELDS_MAX];
    uint32_t field_count, registers;
} compiler;

static const char *const TYPE_TEXTS[] = {"nothing",  "a number", "a number", "a number",
                                         "a number", "a text",   "a stack"};

static int shown(span s) {
    return (int)(s.len_bytes < 80 ? s.len_bytes : 80);
}

#define SHOWN(s) shown(s), (s).text

/* ---- the nearest name ---- */

typedef struct nearest {
    char wanted[33];
    const char *found;
    size_t distance;
} nearest;

static void nearest_begin(nearest *n, span name) {
    *n = (nearest){.distance = name.len_bytes > 4 ? 4 : 3};
    if (name.len_bytes < sizeof n->wanted)
        memcpy(n->wanted, name.text, name.len_bytes);
}

static void nearest_try(nearest *n, const char *name) {
    size_t d = *n->wanted ? ea_name_distance(n->wanted, name) : SIZE_MAX;
    if (d < n->distance) {
        n->distance = d;
        n->found = name;
    }
}

#define MEANT(n) (n).found ? "; did you mean " : "", (n).found ? (n).found : "", (n).found ? "?" : ""

/* ---- instructions ---- */

static uint32_t emit(compiler *k, enum lang_code code, unsigned dst, unsigned a, unsigned b, uint32_t imm) {
    if (k->is_dry)
        return 0;
    if (k->op_count == EA_LANG_OPS_MAX)
        lang_fail(&k->s, k->c->at, "the clause is longer than %d instructions", EA_LANG_OPS_MAX);
    k->ops[k->op_count] = (lang_op){(uint8_t)code, (uint8_t)dst, (uint8_t)a, (uint8_t)b, imm};
    return k->op_count++;
}

static void land(compiler *k, uint32_t jump) {
    if (!k->is_dry)
        k->ops[jump].imm = k->op_count;
}

static unsigned use_register(compiler *k, unsigned r, uint32_t at) {
    if (r >= LANG_REGISTERS)
        lang_fail(&k->s, at, "the expression needs too many values at a time");
    if (k->registers <= r)
        k->registers = r + 1;
    return r;
}

/* The array, with room for one more element: as it is, or a copy that is twice as large. first: the first capacity. */
static void *room_for_one(compiler *k, void *array, size_t count, size_t size, size_t *capacity, size_t first) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : first;
    void *larger = lang_alloc(&k->s, *capacity, size);
    if (count)
        memcpy(larger, array, count * size);
    return larger;
}

static uint32_t constant(compiler *k, enum lang_type type, uint64_t value) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    for (uint32_t i = 0; i < p->constant_count; i++)
        if (p->constants[i] == value && p->constant_types[i] == type)
            return i;
    if (p->constant_count == CONSTANTS_MAX)
        lang_fail(&k->s, 0, "the program has too many constants");
    if (p->constant_count == k->constant_capacity) {
        size_t capacity = k->constant_capacity ? 2 * k->constant_capacity : 64;
        uint64_t *values = lang_alloc(&k->s, capacity, sizeof *values);
        uint8_t *types = lang_alloc(&k->s, capacity, 1);
        if (p->constant_count) {
            memcpy(values, p->constants, p->constant_count * sizeof *values);
            memcpy(types, p->constant_types, p->constant_count);
        }
        p->constants = values;
        p->constant_types = types;
        k->constant_capacity = capacity;
    }
    p->constants[p->constant_count] = value;
    p->constant_types[p->constant_count] = (uint8_t)type;
    return p->constant_count++;
}

static uint32_t text_constant(compiler *k, span text) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    uint32_t i = 0;
    while (i < p->text_count && !span_equal(p->texts[i], text))
        i++;
    if (i == p->text_count) {
        p->texts = room_for_one(k, p->texts, p->text_count, sizeof *p->texts, &k->text_capacity, 64);
        p->texts[p->text_count++] = text;
    }
    return constant(k, TYPE_TEXT, i);
}

/* ---- types ---- */

static int is_number(enum lang_type t) {
    return t == TYPE_INT || t == TYPE_UINT || t == TYPE_HEX || t == TYPE_FLOAT || t == TYPE_NONE;
}

static int is_literal(const node *n) {
    return n->kind == NODE_INT && n->number <= INT64_MAX;
}

/* What holds values of both types; TYPE_NONE when there is none. */
static enum lang_type common(enum lang_type a, enum lang_type b) {
    if (a == b || b == TYPE_NONE)
        return a;
    if (a == TYPE_NONE)
        return b;
    if (!is_number(a) || !is_number(b))
        return TYPE_NONE;
    if (a == TYPE_FLOAT || b == TYPE_FLOAT)
        return TYPE_FLOAT;
    return a == TYPE_INT || b == TYPE_INT ? TYPE_INT : TYPE_UINT;
}

static void convert(compiler *k, unsigned r, enum lang_type from, enum lang_type to) {
    if (to == TYPE_FLOAT && (from == TYPE_INT || from == TYPE_UINT || from == TYPE_HEX))
        emit(k, from == TYPE_INT ? CODE_FLOAT_OF_INT : CODE_FLOAT_OF_UINT, r, r, 0, 0);
}

static enum lang_type expression(compiler *k, const node *n, unsigned dst);

static enum lang_type number_expression(compiler *k, const node *n, unsigned dst, const char *what) {
    enum lang_type t = expression(k, n, dst);
    if (!is_number(t))
        lang_fail(&k->s, n->at, "%s needs a number; this is %s", what, TYPE_TEXTS[t]);
    return t;
}

/* 1 when the value of an expression is 0 or 1 anyway. */
static int is_truth(const node *n) {
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
static void condition(compiler *k, const node *n, unsigned dst) {
    if (expression(k, n, dst) == TYPE_FLOAT) {
        emit(k, CODE_NOT_FLOAT, dst, dst, 0, 0);
        emit(k, CODE_NOT, dst, dst, 0, 0);
    }
}

/* The same as 0 or 1. */
static void truth(compiler *k, const node *n, unsigned dst) {
    if (is_truth(n)) {
        (void)expression(k, n, dst);
        return;
    }
    enum lang_type t = expression(k, n, dst);
    emit(k, t == TYPE_FLOAT ? CODE_NOT_FLOAT : CODE_NOT, dst, dst, 0, 0);
    emit(k, CODE_NOT, dst, dst, 0, 0);
}

/* ---- fields ---- */

/* A field that the clause read before: a look among all classes is not needed again. FIELDS_MAX: there is none. */
static uint32_t known_field(const compiler *k, span name, int is_name) {
    for (uint32_t i = 0; i < k->field_count; i++)
        if (k->fields[i].is_name == is_name && strlen(k->fields[i].name) == name.len_bytes &&
            memcmp(k->fields[i].name, name.text, name.len_bytes) == 0)
            return i;
    return FIELDS_MAX;
}

static uint32_t new_field(compiler *k, span name, enum lang_type type, int is_name, uint32_t at) {
    uint32_t known = known_field(k, name, is_name);
    if (known < FIELDS_MAX)
        return known;
    if (k->field_count == FIELDS_MAX)
        lang_fail(&k->s, at, "the clause uses more than %d fields", FIELDS_MAX);
    char *copy = lang_alloc(&k->s, name.len_bytes + 1, 1);
    memcpy(copy, name.text, name.len_bytes);
    k->fields[k->field_count] = (lang_field){copy, (uint8_t)type, (uint8_t)is_name};
    return k->field_count++;
}

/* Whether classes of the clause have the field, and its type: TYPE_NONE when none has it. Where versions of one class
 * disagree, the newest decides, and others do not have it. */
static enum lang_type field_type(compiler *k, span name, uint32_t at) {
    enum lang_type type = TYPE_NONE;
    const ea_class *decided = NULL;
    for (size_t i = 0; i < k->class_count; i++) {
        const ea_class *c = k->classes[i];
        size_t f = lang_field_of(c, name.text, name.len_bytes);
        if (f == c->field_count)
            continue;
        enum lang_type other = lang_field_type(&c->fields[f]), both = common(type, other);
        if (both == TYPE_NONE && strcmp(c->name, decided->name) != 0)
            lang_fail(&k->s, at, "field %.*s is %s in %s and %s in %s; write a clause for each", SHOWN(name),
                      TYPE_TEXTS[type], decided->name, TYPE_TEXTS[other], c->name);
        if (both == TYPE_NONE)
            both = c->version > decided->version ? other : type;
        type = both;
        decided = !decided || c->version > decided->version ? c : decided;
    }
    return type;
}

static int has_names(compiler *k, span name) {
    for (size_t i = 0; i < k->class_count; i++) {
        size_t f = lang_field_of(k->classes[i], name.text, name.len_bytes);
        if (f < k->classes[i]->field_count && ea_field_has_names(&k->classes[i]->fields[f]))
            return 1;
    }
    return 0;
}

/* 1 when the name is not that of an enumeration or a status: other events say it. */
static uint8_t comes_from_others(compiler *k, span name) {
    for (size_t i = 0; i < k->class_count; i++) {
        size_t f = lang_field_of(k->classes[i], name.text, name.len_bytes);
        if (f < k->classes[i]->field_count && !lang_names_are_fixed(&k->classes[i]->fields[f]))
            return 1;
    }
    return 0;
}

static const char SUFFIX[] = "_name";

enum { SUFFIX_BYTES = sizeof SUFFIX - 1 };

/* A field, or the name of its number; 0 when there is no such field. */
static int find_field(compiler *k, span name, uint32_t at, uint32_t *ret_field, enum lang_type *ret_type) {
    *ret_field = known_field(k, name, 0);
    if (*ret_field < FIELDS_MAX) {
        *ret_type = (enum lang_type)k->fields[*ret_field].type;
        return 1;
    }
    int has_suffix =
        name.len_bytes > SUFFIX_BYTES && memcmp(name.text + name.len_bytes - SUFFIX_BYTES, SUFFIX, SUFFIX_BYTES) == 0;
    span base = {name.text, name.len_bytes - (has_suffix ? SUFFIX_BYTES : 0)};
    *ret_field = has_suffix ? known_field(k, base, 1) : FIELDS_MAX;
    if (*ret_field < FIELDS_MAX) {
        *ret_type = TYPE_TEXT;
        return 1;
    }
    enum lang_type type = field_type(k, name, at);
    if (type != TYPE_NONE) {
        *ret_field = new_field(k, name, type, 0, at);
        *ret_type = type;
        return 1;
    }
    if (!has_suffix || field_type(k, base, at) == TYPE_NONE)
        return 0;
    if (!has_names(k, base))
        lang_fail(&k->s, at, "the values of field %.*s have no names", SHOWN(base));
    k->p->needs_names |= comes_from_others(k, base);
    *ret_field = new_field(k, base, TYPE_TEXT, 1, at);
    *ret_type = TYPE_TEXT;
    return 1;
}

static lang_variable *find_variable(const compiler *k, span name, enum lang_scope scope);

_Noreturn static void unknown_name(compiler *k, span name, uint32_t at, int is_field) {
    nearest n;
    nearest_begin(&n, name);
    for (size_t i = 0; i < VALUE_COUNT && !is_field; i++)
        nearest_try(&n, lang_value_name((uint32_t)i));
    for (uint32_t i = 0; i < k->p->variable_count && !is_field; i++) {
        lang_variable *v = &k->p->variables[i];
        if (v->scope == SCOPE_GLOBAL) {
            char *copy = lang_alloc(&k->s, v->name.len_bytes + 1, 1);
            memcpy(copy, v->name.text, v->name.len_bytes);
            nearest_try(&n, copy);
        }
    }
    for (size_t i = 0; i < k->class_count; i++)
        for (size_t f = 0; f < k->classes[i]->field_count; f += k->classes[i]->fields[f].span)
            if (!k->classes[i]->fields[f].hidden)
                nearest_try(&n, k->classes[i]->fields[f].name);
    /* a pattern, or a provider, may name further classes of a trace */
    for (const probe *p = k->c->probes; p; p = p->next)
        k->s.problem->is_class |=
            p->provider.len_bytes || memchr(p->name.text ? p->name.text : "", '*', p->name.len_bytes);
    int others = 0;
    for (size_t i = 0; i < k->class_count; i++)
        others |= strcmp(k->classes[i]->name, k->classes[0]->name) != 0;
    if (k->class_count)
        lang_fail(&k->s, at, "unknown field %.*s of %s%s%s%s%s", SHOWN(name), k->classes[0]->name,
                  others ? " and the clause's other classes" : "", MEANT(n));
    lang_fail(&k->s, at, "unknown name %.*s: no variable of this name is assigned%s%s%s%s", SHOWN(name),
              k->has_class_probe ? "" : ", and the probe has no fields", MEANT(n));
}

/* ---- variables and aggregations ---- */

static lang_variable *find_variable(const compiler *k, span name, enum lang_scope scope) {
    for (uint32_t i = 0; i < k->p->variable_count; i++)
        if (k->p->variables[i].scope == scope && span_equal(k->p->variables[i].name, name))
            return &k->p->variables[i];
    return NULL;
}

static uint32_t variable_number(const compiler *k, const lang_variable *v) {
    return (uint32_t)(v - k->p->variables);
}

static int value_of(span name) {
    for (int i = 0; i < VALUE_COUNT; i++)
        if (span_is(name, lang_value_name((uint32_t)i)))
            return i;
    return -1;
}

static enum lang_scope scope_of(compiler *k, const node *n) {
    if (n->kind == NODE_NAME)
        return SCOPE_GLOBAL;
    if (n->kind == NODE_INDEX)
        return SCOPE_MAP;
    if (span_is(n->base, "this"))
        return SCOPE_THIS;
    if (span_is(n->base, "self"))
        return SCOPE_SELF;
    lang_fail(&k->s, n->at, "this cannot be assigned to; expected a variable");
}

static void declare(compiler *k, const node *n) {
    enum lang_scope scope = scope_of(k, n);
    if (scope == SCOPE_GLOBAL && value_of(n->text) >= 0)
        lang_fail(&k->s, n->at, "%.*s is a value of the event; choose another name for the variable", SHOWN(n->text));
    lang_variable *v = find_variable(k, n->text, scope);
    if (!v) {
        if (find_variable(k, n->text, scope == SCOPE_MAP ? SCOPE_GLOBAL : SCOPE_MAP) &&
            (scope == SCOPE_MAP || scope == SCOPE_GLOBAL))
            lang_fail(&k->s, n->at, "%.*s is used with keys and without", SHOWN(n->text));
        if (k->p->variable_count == VARIABLES_MAX)
            lang_fail(&k->s, n->at, "more than %d variables", VARIABLES_MAX);
        v = &k->p->variables[k->p->variable_count++];
        *v = (lang_variable){.name = n->text, .scope = scope, .at = n->at, .key_count = (uint8_t)n->arg_count};
    }
    if (n->kind == NODE_INDEX && (n->arg_count > EA_LANG_KEYS_MAX || !n->arg_count))
        lang_fail(&k->s, n->at, "expected one to %d keys", EA_LANG_KEYS_MAX);
}

static void declare_all(compiler *k, const statement *st) {
    for (; st; st = st->next) {
        if (st->kind == STATEMENT_ASSIGN)
            declare(k, st->target);
        declare_all(k, st->body);
        declare_all(k, st->rest);
    }
}

static void take_type(compiler *k, uint8_t *slot, uint8_t *is_assigned, enum lang_type type, int literal, uint32_t at,
                      const char *what, span name) {
    enum lang_type old = (enum lang_type) * slot;
    if (type == TYPE_NONE)
        return;
    /* a variable of which only numbers without a sign of their own are known takes the type of others */
    enum lang_type both = literal && is_number(old) && old != TYPE_NONE         ? old
                          : !*is_assigned && old == TYPE_INT && is_number(type) ? type
                                                                                : common(old, type);
    if (both == TYPE_NONE)
        lang_fail(&k->s, at, "%s %.*s is %s here and %s elsewhere", what, SHOWN(name), TYPE_TEXTS[type],
                  TYPE_TEXTS[old]);
    if (!literal && !*is_assigned) {
        *is_assigned = 1;
        k->changed = 1;
    }
    if (both != old) {
        *slot = (uint8_t)both;
        k->changed = 1;
    }
}

/* Keys go to registers from dst on. */
static void keys(compiler *k, const node *n, unsigned dst, uint8_t *types, unsigned count) {
    if (n->arg_count != count)
        lang_fail(&k->s, n->at, "%u keys here and %u elsewhere", n->arg_count, count);
    for (unsigned i = 0; i < count; i++) {
        enum lang_type t = expression(k, n->args[i], use_register(k, dst + i, n->at));
        uint8_t known = !is_literal(n->args[i]);
        uint8_t before = types[i];
        span name = {"of the keys", 11};
        if (before != TYPE_NONE && t != TYPE_NONE && is_number((enum lang_type)before) && is_number(t)) {
            /* a number is the same key whatever its sign; it is shown as where it was seen first */
            if ((before == TYPE_FLOAT) != (t == TYPE_FLOAT)) {
                types[i] = TYPE_FLOAT;
                k->changed |= before != TYPE_FLOAT;
            }
        } else {
            uint8_t assigned = 1;
            take_type(k, &types[i], &assigned, t, !known, n->args[i]->at, "one", name);
        }
        convert(k, dst + i, t, (enum lang_type)types[i]);
    }
}

static lang_aggregation *find_aggregation(const compiler *k, span name) {
    for (uint32_t i = 0; i < k->p->aggregation_count; i++)
        if (span_equal(k->p->aggregations[i].name, name))
            return &k->p->aggregations[i];
    return NULL;
}

static lang_aggregation *the_aggregation(compiler *k, const node *n) {
    lang_aggregation *a = n->kind == NODE_AGGREGATION ? find_aggregation(k, n->text) : NULL;
    if (n->kind != NODE_AGGREGATION)
        lang_fail(&k->s, n->at, "expected an aggregation, as in @name");
    if (!a) {
        nearest m;
        nearest_begin(&m, n->text);
        for (uint32_t i = 0; i < k->p->aggregation_count; i++) {
            char *copy = lang_alloc(&k->s, k->p->aggregations[i].name.len_bytes + 1, 1);
            memcpy(copy, k->p->aggregations[i].name.text, k->p->aggregations[i].name.len_bytes);
            nearest_try(&m, copy);
        }
        lang_fail(&k->s, n->at, "no statement aggregates into @%.*s%s%s%s%s", SHOWN(n->text),
                  m.found ? "; did you mean @" : "", m.found ? m.found : "", m.found ? "?" : "", "");
    }
    return a;
}

static uint32_t aggregation_number(const compiler *k, const lang_aggregation *a) {
    return (uint32_t)(a - k->p->aggregations);
}

typedef struct function {
    const char *name;
    enum lang_function function;
    unsigned params; /* constants after the value */
    const char *form;
} function;

static const function FUNCTIONS[] = {
    {"count", FUNCTION_COUNT, 0, "count()"},
    {"sum", FUNCTION_SUM, 0, "sum(x)"},
    {"min", FUNCTION_MIN, 0, "min(x)"},
    {"max", FUNCTION_MAX, 0, "max(x)"},
    {"avg", FUNCTION_AVG, 0, "avg(x)"},
    {"stddev", FUNCTION_STDDEV, 0, "stddev(x)"},
    {"quantize", FUNCTION_QUANTIZE, 0, "quantize(x)"},
    {"lquantize", FUNCTION_LQUANTIZE, 3, "lquantize(x, low, high, step)"},
    {"llquantize", FUNCTION_LLQUANTIZE, 4, "llquantize(x, factor, low, high, steps)"},
    {"top", FUNCTION_TOP, 1, "top(x, n)"},
    {"distinct", FUNCTION_DISTINCT, 0, "distinct(x)"},
};

static const function *find_function(compiler *k, const node *call) {
    nearest n;
    nearest_begin(&n, call->text);
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        if (span_is(call->text, FUNCTIONS[i].name))
            return &FUNCTIONS[i];
        nearest_try(&n, FUNCTIONS[i].name);
    }
    lang_fail(&k->s, call->at, "%.*s is no aggregating function%s%s%s", SHOWN(call->text), MEANT(n));
}

static void declare_aggregations(compiler *k, const statement *st, int is_end) {
    for (; st; st = st->next) {
        if (st->kind == STATEMENT_AGGREGATE) {
            const node *t = st->target;
            const function *f = find_function(k, st->value);
            lang_aggregation *a = find_aggregation(k, t->text);
            if (t->arg_count > EA_LANG_KEYS_MAX)
                lang_fail(&k->s, t->at, "more than %d keys", EA_LANG_KEYS_MAX);
            if (!a) {
                if (k->p->aggregation_count == VARIABLES_MAX)
                    lang_fail(&k->s, t->at, "more than %d aggregations", VARIABLES_MAX);
                a = &k->p->aggregations[k->p->aggregation_count++];
                *a = (lang_aggregation){
                    .name = t->text, .function = f->function, .at = t->at, .key_count = (uint8_t)t->arg_count};
                for (uint32_t i = 0; i < t->arg_count; i++) {
                    span key = t->texts[i];
                    char *label = lang_alloc(&k->s, key.len_bytes + 1, 1);
                    memcpy(label, key.text, key.len_bytes);
                    for (char *x = label; *x; x++)
                        if (*x == '\n' || *x == '\r' || *x == '\t')
                            *x = ' ';
                    a->labels[i] = label;
                }
            } else if (a->function != f->function) {
                lang_fail(&k->s, st->value->at, "@%.*s has another function in another statement", SHOWN(t->text));
            }
        }
        if (is_end && st->kind == STATEMENT_CALL && st->value->arg_count &&
            st->value->args[0]->kind == NODE_AGGREGATION &&
            (span_is(st->value->text, "print") || span_is(st->value->text, "printa"))) {
            lang_aggregation *a = find_aggregation(k, st->value->args[0]->text);
            if (a)
                a->is_ended = 1;
        }
        declare_aggregations(k, st->body, is_end);
        declare_aggregations(k, st->rest, is_end);
    }
}

static int64_t constant_argument(compiler *k, const node *n) {
    int negative = n->kind == NODE_UNARY && n->op == OP1('-') && n->a->kind == NODE_INT;
    const node *v = negative ? n->a : n;
    if (v->kind != NODE_INT || v->number > INT64_MAX)
        lang_fail(&k->s, n->at, "expected a whole number that is written out");
    return negative ? -(int64_t)v->number : (int64_t)v->number;
}

/* ---- expressions ---- */

static enum lang_type load(compiler *k, const lang_variable *v, unsigned dst, unsigned key) {
    emit(k, CODE_LOAD, dst, 0, key, variable_number(k, v));
    return (enum lang_type)v->type;
}

static enum lang_type name_expression(compiler *k, const node *n, unsigned dst) {
    uint32_t field;
    enum lang_type type;
    int value = value_of(n->text);
    if (value >= 0) {
        emit(k, CODE_VALUE, dst, 0, 0, (uint32_t)value);
        return lang_value_type((uint32_t)value);
    }
    const lang_variable *v = find_variable(k, n->text, SCOPE_GLOBAL);
    if (v) {
        if (!k->is_dry && field_type(k, n->text, n->at) != TYPE_NONE)
            lang_fail(&k->s, n->at,
                      "%.*s is a variable and a field; write event.%.*s for the field, or rename the variable",
                      SHOWN(n->text), SHOWN(n->text));
        return load(k, v, dst, 0);
    }
    if (!find_field(k, n->text, n->at, &field, &type))
        unknown_name(k, n->text, n->at, 0);
    emit(k, CODE_FIELD, dst, 0, 0, field);
    return type;
}

static uint32_t counter_number(compiler *k, const node *n) {
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
        if (!find_field(k, n->text, n->at, &field, &type))
            unknown_name(k, n->text, n->at, 1);
        emit(k, CODE_FIELD, dst, 0, 0, field);
        return type;
    }
    if (span_is(n->base, "parent")) {
        int value = value_of(n->text);
        if (value != VALUE_execname && value != VALUE_exepath && value != VALUE_cmdline && value != VALUE_pid &&
            value != VALUE_ppid && value != VALUE_user)
            lang_fail(&k->s, n->at, "expected execname, exepath, cmdline, pid, ppid or user of the parent");
        emit(k, CODE_PARENT, dst, 0, 0, (uint32_t)value);
        return lang_value_type((uint32_t)value);
    }
    if (span_is(n->base, "pmc")) {
        emit(k, CODE_PMC, dst, 0, 0, counter_number(k, n));
        return TYPE_UINT;
    }
    if (!span_is(n->base, "this") && !span_is(n->base, "self"))
        lang_fail(&k->s, n->at, "expected this, self, parent, pmc or event before the point");
    const lang_variable *v = find_variable(k, n->text, span_is(n->base, "this") ? SCOPE_THIS : SCOPE_SELF);
    if (!v) {
        nearest m;
        nearest_begin(&m, n->text);
        for (uint32_t i = 0; i < k->p->variable_count; i++) {
            if (k->p->variables[i].scope != SCOPE_THIS && k->p->variables[i].scope != SCOPE_SELF)
                continue;
            char *copy = lang_alloc(&k->s, k->p->variables[i].name.len_bytes + 1, 1);
            memcpy(copy, k->p->variables[i].name.text, k->p->variables[i].name.len_bytes);
            nearest_try(&m, copy);
        }
        lang_fail(&k->s, n->at, "no statement assigns %.*s.%.*s%s%s%s", SHOWN(n->base), SHOWN(n->text), MEANT(m));
    }
    return load(k, v, dst, 0);
}

static enum lang_type call_expression(compiler *k, const node *n, unsigned dst) {
    static const char *const STACKS[] = {"kstack", "ustack", "stack"};
    for (uint32_t i = 0; i < 3; i++) {
        if (!span_is(n->text, STACKS[i]))
            continue;
        int64_t frames = n->arg_count ? constant_argument(k, n->args[0]) : 0;
        if (n->arg_count > 1 || frames < 0 || frames > 1000 || (n->arg_count && !frames))
            lang_fail(&k->s, n->at, "expected %s() or %s(n), n of 1 to 1000 frames", STACKS[i], STACKS[i]);
        k->p->needs_stacks = 1;
        emit(k, CODE_STACK, dst, 0, 0, (i + 1) | (uint32_t)frames << 16);
        return TYPE_STACK;
    }
    if (span_is(n->text, "delta")) {
        if (!n->arg_count || n->arg_count > EA_LANG_KEYS_MAX)
            lang_fail(&k->s, n->at, "expected one to %d keys of delta", EA_LANG_KEYS_MAX);
        uint32_t kinds = 0;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            enum lang_type t = expression(k, n->args[i], use_register(k, dst + i, n->at));
            kinds |= (t == TYPE_FLOAT ? 1u : t == TYPE_TEXT ? 2u : t == TYPE_STACK ? 3u : 0u) << 2 * i;
        }
        k->p->needs_delta = 1;
        emit(k, CODE_DELTA, dst, dst, 0, n->arg_count | kinds << 8);
        return TYPE_INT;
    }
    if (span_is(n->text, "strlen")) {
        if (n->arg_count != 1)
            lang_fail(&k->s, n->at, "expected strlen(text)");
        enum lang_type t = expression(k, n->args[0], dst);
        if (t != TYPE_TEXT && t != TYPE_NONE)
            lang_fail(&k->s, n->at, "strlen needs a text; this is %s", TYPE_TEXTS[t]);
        emit(k, CODE_LENGTH, dst, dst, 0, 0);
        return TYPE_INT;
    }
    if (span_is(n->text, "has")) {
        uint32_t field;
        enum lang_type type;
        const node *f = n->arg_count == 1 ? n->args[0] : NULL;
        if (!f || (f->kind != NODE_NAME && !(f->kind == NODE_MEMBER && span_is(f->base, "event"))))
            lang_fail(&k->s, n->at, "expected has(field)");
        if (!find_field(k, f->text, f->at, &field, &type))
            unknown_name(k, f->text, f->at, 1);
        emit(k, CODE_HAS, dst, 0, 0, field);
        return TYPE_INT;
    }
    nearest m;
    nearest_begin(&m, n->text);
    static const char *const CALLS[] = {"stack", "ustack", "kstack", "delta", "strlen", "has"};
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        nearest_try(&m, CALLS[i]);
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (span_is(n->text, FUNCTIONS[i].name))
            lang_fail(&k->s, n->at, "%s aggregates: write @name = %s", FUNCTIONS[i].name, FUNCTIONS[i].form);
    lang_fail(&k->s, n->at, "unknown function %.*s%s%s%s", SHOWN(n->text), MEANT(m));
}

static enum lang_type compare(compiler *k, const node *n, unsigned dst, enum lang_type a, enum lang_type b) {
    uint32_t op = n->op;
    unsigned x = dst, y = dst + 1;
    int equality = op == OP2('=', '=') || op == OP2('!', '=');
    if (a == TYPE_NONE || b == TYPE_NONE) /* not known yet */
        return TYPE_INT;
    if (!is_number(a) || !is_number(b)) {
        if (a != b)
            lang_fail(&k->s, n->at, "%s is compared with %s", TYPE_TEXTS[a], TYPE_TEXTS[b]);
        if (!equality)
            lang_fail(&k->s, n->at, "%s has no order; expected ==, != or =~", TYPE_TEXTS[a]);
        emit(k, op == OP2('=', '=') ? CODE_EQ : CODE_NE, dst, x, y, 0);
        return TYPE_INT;
    }
    if (is_literal(n->b) && b != TYPE_FLOAT && a != TYPE_FLOAT)
        b = a;
    else if (is_literal(n->a) && b != TYPE_FLOAT && a != TYPE_FLOAT)
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
        convert(k, x, a, TYPE_FLOAT);
        convert(k, y, b, TYPE_FLOAT);
        emit(k, equality ? CODE_EQ_FLOAT : less ? CODE_LT_FLOAT : CODE_LE_FLOAT, dst, x, y, 0);
    } else if ((a == TYPE_INT) == (b == TYPE_INT)) {
        int is_signed = a == TYPE_INT;
        emit(k,
             equality    ? CODE_EQ
             : is_signed ? (less ? CODE_LT_INT : CODE_LE_INT)
                         : (less ? CODE_LT_UINT : CODE_LE_UINT),
             dst, x, y, 0);
    } else if (equality) {
        emit(k, CODE_EQ_MIXED, dst, x, y, 0);
    } else if (a == TYPE_INT) {
        emit(k, less ? CODE_LT_INT_UINT : CODE_LE_INT_UINT, dst, x, y, 0);
    } else {
        emit(k, less ? CODE_LT_UINT_INT : CODE_LE_UINT_INT, dst, x, y, 0);
    }
    if (op == OP2('!', '='))
        emit(k, CODE_NOT, dst, dst, 0, 0);
    return TYPE_INT;
}

static enum lang_type arithmetic(compiler *k, uint32_t op, uint32_t at, unsigned dst, enum lang_type a,
                                 enum lang_type b, int literal_a, int literal_b) {
    enum lang_type t = literal_b && a != TYPE_FLOAT ? a : literal_a && b != TYPE_FLOAT ? b : common(a, b);
    if (t == TYPE_NONE && k->guesses)
        t = common(a, b);
    if (t == TYPE_NONE)
        return TYPE_NONE;
    if (t == TYPE_FLOAT) {
        convert(k, dst, a, t);
        convert(k, dst + 1, b, t);
        enum lang_code code = op == OP1('+')   ? CODE_ADD_FLOAT
                              : op == OP1('-') ? CODE_SUB_FLOAT
                              : op == OP1('*') ? CODE_MUL_FLOAT
                              : op == OP1('/') ? CODE_DIV_FLOAT
                                               : CODE_COUNT;
        if (code == CODE_COUNT)
            lang_fail(&k->s, at, "this operation needs whole numbers");
        emit(k, code, dst, dst, dst + 1, 0);
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
    emit(k, code, dst, dst, dst + 1, 0);
    return t;
}

static enum lang_type binary_expression(compiler *k, const node *n, unsigned dst) {
    uint32_t op = n->op;
    if (op == OP2('&', '&') || op == OP2('|', '|')) {
        truth(k, n->a, dst);
        uint32_t jump = emit(k, op == OP2('&', '&') ? CODE_JUMP_FALSE : CODE_JUMP_TRUE, 0, dst, 0, 0);
        truth(k, n->b, dst);
        land(k, jump);
        return TYPE_INT;
    }
    if (op == OP2('=', '~') || op == OP2('!', '~')) {
        enum lang_type t = expression(k, n->a, dst);
        if (t != TYPE_TEXT && t != TYPE_NONE)
            lang_fail(&k->s, n->at, "=~ needs a text on its left; this is %s", TYPE_TEXTS[t]);
        if (n->b->kind != NODE_TEXT)
            lang_fail(&k->s, n->b->at, "expected a pattern that is written out, as in execname =~ \"sql*\"");
        if (n->b->text.len_bytes > EA_LANG_PATTERN_MAX_BYTES)
            lang_fail(&k->s, n->b->at, "the pattern is longer than %d bytes", EA_LANG_PATTERN_MAX_BYTES);
        emit(k, CODE_LIKE, dst, dst, 0, text_constant(k, n->b->text));
        if (op == OP2('!', '~'))
            emit(k, CODE_NOT, dst, dst, 0, 0);
        return TYPE_INT;
    }
    use_register(k, dst + 1, n->at);
    enum lang_type a = expression(k, n->a, dst), b = expression(k, n->b, dst + 1);
    if (op == OP2('=', '=') || op == OP2('!', '=') || op == OP1('<') || op == OP1('>') || op == OP2('<', '=') ||
        op == OP2('>', '='))
        return compare(k, n, dst, a, b);
    if (!is_number(a) || !is_number(b))
        lang_fail(&k->s, n->at, "the operation needs numbers; this is %s", TYPE_TEXTS[is_number(a) ? b : a]);
    return arithmetic(k, op, n->at, dst, a, b, is_literal(n->a), is_literal(n->b));
}

static enum lang_type conditional_expression(compiler *k, const node *n, unsigned dst) {
    condition(k, n->a, dst);
    uint32_t to_second = emit(k, CODE_JUMP_FALSE, 0, dst, 0, 0);
    /* the types of both are needed before either is emitted */
    int was = k->is_dry;
    k->is_dry = 1;
    enum lang_type a = expression(k, n->b, dst), b = expression(k, n->c, dst);
    k->is_dry = was;
    enum lang_type t = is_literal(n->c) && a != TYPE_FLOAT && is_number(a)   ? a
                       : is_literal(n->b) && b != TYPE_FLOAT && is_number(b) ? b
                                                                             : common(a, b);
    if (t == TYPE_NONE && k->guesses)
        t = common(a, b);
    if (t == TYPE_NONE && a != TYPE_NONE && b != TYPE_NONE)
        lang_fail(&k->s, n->at, "the condition gives %s or %s", TYPE_TEXTS[a], TYPE_TEXTS[b]);
    if (k->is_dry)
        return t;
    convert(k, dst, expression(k, n->b, dst), t);
    uint32_t to_end = emit(k, CODE_JUMP, 0, 0, 0, 0);
    land(k, to_second);
    convert(k, dst, expression(k, n->c, dst), t);
    land(k, to_end);
    return t;
}

static enum lang_type expression_at_depth(compiler *k, const node *n, unsigned dst) {
    uint64_t bits;
    enum lang_type t;
    use_register(k, dst, n->at);
    switch (n->kind) {
    case NODE_INT:
        t = n->number > INT64_MAX ? TYPE_UINT : TYPE_INT;
        emit(k, CODE_CONST, dst, 0, 0, constant(k, t, n->number));
        return t;
    case NODE_FLOAT:
        memcpy(&bits, &n->real, sizeof bits);
        emit(k, CODE_CONST, dst, 0, 0, constant(k, TYPE_FLOAT, bits));
        return TYPE_FLOAT;
    case NODE_TEXT:
        emit(k, CODE_CONST, dst, 0, 0, text_constant(k, n->text));
        return TYPE_TEXT;
    case NODE_NAME:
        return name_expression(k, n, dst);
    case NODE_MEMBER:
        return member_expression(k, n, dst);
    case NODE_INDEX: {
        lang_variable *v = find_variable(k, n->text, SCOPE_MAP);
        if (!v)
            lang_fail(&k->s, n->at, "no statement assigns %.*s[...]", SHOWN(n->text));
        keys(k, n, dst, v->keys, v->key_count);
        return load(k, v, dst, dst);
    }
    case NODE_AGGREGATION: {
        lang_aggregation *a = the_aggregation(k, n);
        keys(k, n, dst, a->keys, a->key_count);
        if (lang_has_histogram(a->function) || a->function == FUNCTION_TOP)
            lang_fail(&k->s, n->at, "@%.*s is a distribution; it has no single value", SHOWN(n->text));
        emit(k, CODE_READ, dst, dst, 0, aggregation_number(k, a));
        return lang_aggregate_type(a);
    }
    case NODE_CALL:
        return call_expression(k, n, dst);
    case NODE_NAMED:
        lang_fail(&k->s, n->at, "only emit has arguments with names");
    case NODE_UNARY:
        if (n->op == OP1('!')) {
            t = expression(k, n->a, dst);
            emit(k, t == TYPE_FLOAT ? CODE_NOT_FLOAT : CODE_NOT, dst, dst, 0, 0);
            return TYPE_INT;
        }
        t = number_expression(k, n->a, dst, n->op == OP1('-') ? "-" : "~");
        if (n->op == OP1('~') && t == TYPE_FLOAT)
            lang_fail(&k->s, n->at, "this operation needs whole numbers");
        emit(k, n->op == OP1('~') ? CODE_INVERT : t == TYPE_FLOAT ? CODE_NEG_FLOAT : CODE_NEG, dst, dst, 0, 0);
        return n->op == OP1('-') && t != TYPE_FLOAT && t != TYPE_NONE ? TYPE_INT : t;
    case NODE_BINARY:
        return binary_expression(k, n, dst);
    default:
        return conditional_expression(k, n, dst);
    }
}

/* Of 1 + 2 + 3 each operator is one level: what compiles it calls itself for each. */
static enum lang_type expression(compiler *k, const node *n, unsigned dst) {
    if (++k->depth > EXPRESSION_DEPTH_MAX)
        lang_fail(&k->s, n->at, "more than %d operators follow each other", EXPRESSION_DEPTH_MAX);
    enum lang_type t = expression_at_depth(k, n, dst);
    k->depth--;
    return t;
}

/* ---- statements ---- */

static void assign(compiler *k, const statement *st) {
    const node *n = st->target;
    lang_variable *v = find_variable(k, n->text, scope_of(k, n));
    if (!v)
        lang_fail(&k->s, n->at, "unknown variable %.*s", SHOWN(n->text));
    unsigned value = v->key_count;
    if (v->scope == SCOPE_MAP)
        keys(k, n, 0, v->keys, v->key_count);
    enum lang_type t;
    int literal = is_literal(st->value);
    use_register(k, value + 1, n->at);
    if (st->op) {
        emit(k, CODE_LOAD, value, 0, 0, variable_number(k, v));
        enum lang_type a = (enum lang_type)v->type, b = number_expression(k, st->value, value + 1, "the assignment");
        if (!is_number(a))
            lang_fail(&k->s, n->at, "the operation needs numbers; this is %s", TYPE_TEXTS[a]);
        t = arithmetic(k, st->op, n->at, value, a == TYPE_NONE ? b : a, b, 0, literal);
        /* x++ keeps the type of x; x -= y may go below zero, so it is signed if nothing else says */
        if (v->type != TYPE_NONE && v->is_assigned && t != TYPE_FLOAT)
            t = (enum lang_type)v->type;
    } else {
        t = expression(k, st->value, value);
    }
    take_type(k, &v->type, &v->is_assigned, t, literal, n->at, "variable", n->text);
    convert(k, value, t, (enum lang_type)v->type);
    emit(k, CODE_STORE, 0, value, 0, variable_number(k, v));
}

static void aggregate(compiler *k, const statement *st) {
    const node *n = st->target, *call = st->value;
    const function *f = find_function(k, call);
    lang_aggregation *a = the_aggregation(k, n);
    unsigned value = a->key_count, wanted = f->function == FUNCTION_COUNT ? 0 : 1 + f->params;
    if (call->arg_count != wanted)
        lang_fail(&k->s, call->at, "expected %s", f->form);
    keys(k, n, 0, a->keys, a->key_count);
    lang_aggregation params = *a;
    for (unsigned i = 0; i < f->params; i++)
        params.params[i] = constant_argument(k, call->args[1 + i]);
    if (a->params[0] || a->params[1] || a->params[2] || a->params[3]) {
        if (memcmp(a->params, params.params, sizeof a->params) != 0)
            lang_fail(&k->s, call->at, "@%.*s has other parameters in another statement", SHOWN(n->text));
    } else {
        if ((f->function == FUNCTION_LQUANTIZE || f->function == FUNCTION_LLQUANTIZE) && !lang_bounds(&params, NULL))
            lang_fail(&k->s, call->at, "%s: these parameters give no buckets, or more than %d", f->form,
                      HISTOGRAM_BUCKETS_MAX);
        if (f->function == FUNCTION_TOP && (params.params[0] < 1 || params.params[0] > TOP_MAX))
            lang_fail(&k->s, call->at, "top(x, n): expected n of 1 to %d", TOP_MAX);
        memcpy(a->params, params.params, sizeof a->params);
    }
    use_register(k, value, n->at);
    if (wanted) {
        int any = f->function == FUNCTION_TOP || f->function == FUNCTION_DISTINCT;
        enum lang_type t =
            any ? expression(k, call->args[0], value) : number_expression(k, call->args[0], value, f->name);
        uint8_t assigned = 1;
        take_type(k, &a->type, &assigned, t, is_literal(call->args[0]), call->at, "aggregation", n->text);
        convert(k, value, t, (enum lang_type)a->type);
    }
    emit(k, wanted ? CODE_AGGREGATE : CODE_COUNT_KEYS, 0, 0, value, aggregation_number(k, a));
}

static uint32_t parse_format(compiler *k, const node *n, const enum lang_type *types, uint32_t count) {
    span f = n->args[0]->text;
    lang_piece *pieces = lang_alloc(&k->s, f.len_bytes + 1, sizeof *pieces);
    uint32_t piece_count = 0, arg = 0;
    for (size_t i = 0; i < f.len_bytes;) {
        lang_piece *p = &pieces[piece_count++];
        size_t begin = i;
        while (i < f.len_bytes && f.text[i] != '%')
            i++;
        *p = (lang_piece){.text = {f.text + begin, i - begin}, .precision = -1};
        if (i == f.len_bytes)
            break;
        i++;
        if (i < f.len_bytes && f.text[i] == '%') { /* the sign itself: the piece ends with it */
            p->text.len_bytes++;
            i++;
            continue;
        }
        int left = 0;
        for (; i < f.len_bytes && (f.text[i] == '-' || f.text[i] == '0'); i++) {
            left |= f.text[i] == '-';
            p->has_zero |= f.text[i] == '0';
        }
        for (; i < f.len_bytes && f.text[i] >= '0' && f.text[i] <= '9' && p->width < 1000; i++)
            p->width = p->width * 10 + (f.text[i] - '0');
        if (i < f.len_bytes && f.text[i] == '.') {
            p->precision = 0;
            for (i++; i < f.len_bytes && f.text[i] >= '0' && f.text[i] <= '9' && p->precision < 20; i++)
                p->precision = p->precision * 10 + (f.text[i] - '0');
        }
        while (i < f.len_bytes && f.text[i] == 'l')
            i++;
        p->letter = i < f.len_bytes ? f.text[i++] : 0;
        if (p->letter == 'i')
            p->letter = 'd';
        if (!p->letter || !strchr("duxsf", p->letter))
            lang_fail(&k->s, n->args[0]->at, "printf knows %%d, %%u, %%x, %%s, %%f and %%%%");
        if (p->precision >= 0 && p->letter != 'f')
            lang_fail(&k->s, n->args[0]->at, "printf: %%f alone has a precision");
        if (p->width > 200 || p->precision > 17)
            lang_fail(&k->s, n->args[0]->at, "printf: expected a width up to 200 and a precision up to 17");
        p->width = left ? -p->width : p->width;
        if (arg >= count)
            lang_fail(&k->s, n->at, "printf has fewer arguments than its format");
        enum lang_type t = types[arg++];
        int fits = p->letter == 's'   ? t == TYPE_TEXT || t == TYPE_STACK
                   : p->letter == 'f' ? is_number(t)
                                      : is_number(t) && t != TYPE_FLOAT;
        if (!fits && t != TYPE_NONE)
            lang_fail(&k->s, n->args[arg]->at, "printf: %%%c does not fit %s", p->letter,
                      t == TYPE_FLOAT ? "a number with a fraction; use %f"
                      : is_number(t)  ? "a number; use %d, %u or %x"
                                      : TYPE_TEXTS[t]);
        p->type = (uint8_t)t;
    }
    if (arg < count)
        lang_fail(&k->s, n->at, "printf has more arguments than its format");
    if (k->is_dry)
        return 0;
    ea_lang_program *p = k->p;
    p->formats = room_for_one(k, p->formats, p->format_count, sizeof *p->formats, &k->format_capacity, 16);
    p->formats[p->format_count] = (lang_format){pieces, piece_count, count};
    return p->format_count++;
}

static uint32_t add_row(compiler *k, const lang_row *row) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    p->rows = room_for_one(k, p->rows, p->row_count, sizeof *p->rows, &k->row_capacity, 16);
    p->rows[p->row_count] = *row;
    return p->row_count++;
}

static void call_statement(compiler *k, const node *n) {
    if (span_is(n->text, "printf")) {
        enum lang_type types[32];
        if (!n->arg_count || n->args[0]->kind != NODE_TEXT)
            lang_fail(&k->s, n->at, "expected printf(\"format\", arguments)");
        for (uint32_t i = 1; i < n->arg_count; i++)
            types[i - 1] = expression(k, n->args[i], i - 1);
        emit(k, CODE_PRINTF, 0, 0, 0, parse_format(k, n, types, n->arg_count - 1));
    } else if (span_is(n->text, "print") || span_is(n->text, "printa") || span_is(n->text, "trunc")) {
        int is_trunc = span_is(n->text, "trunc");
        if (!n->arg_count || n->arg_count > 2)
            lang_fail(&k->s, n->at, "expected %.*s(@name) or %.*s(@name, rows)", SHOWN(n->text), SHOWN(n->text));
        lang_aggregation *a = the_aggregation(k, n->args[0]);
        if (n->args[0]->arg_count)
            lang_fail(&k->s, n->args[0]->at, "expected the whole aggregation, without keys");
        if (n->arg_count == 2) {
            enum lang_type t = number_expression(k, n->args[1], 0, "the number of rows");
            if (t == TYPE_FLOAT)
                lang_fail(&k->s, n->args[1]->at, "the number of rows is a whole number");
        } else if (is_trunc) {
            emit(k, CODE_CONST, use_register(k, 0, n->at), 0, 0, constant(k, TYPE_INT, 0));
        }
        emit(k, is_trunc ? CODE_TRUNC : CODE_PRINT, 0, n->arg_count == 2 || is_trunc ? 0 : NO_REGISTER, 0,
             aggregation_number(k, a));
    } else if (span_is(n->text, "clear")) {
        if (n->arg_count != 1)
            lang_fail(&k->s, n->at, "expected clear(@name) or clear(map)");
        const lang_variable *v = n->args[0]->kind == NODE_NAME ? find_variable(k, n->args[0]->text, SCOPE_MAP) : NULL;
        if (v)
            emit(k, CODE_ERASE, 0, 0, 0, variable_number(k, v));
        else
            emit(k, CODE_CLEAR, 0, 0, 0, aggregation_number(k, the_aggregation(k, n->args[0])));
    } else if (span_is(n->text, "emit")) {
        lang_row row = {0};
        if (!n->arg_count || n->arg_count > ARGS_OF_ROW_MAX)
            lang_fail(&k->s, n->at, "expected emit(name = value, ...), 1 to %d of them", ARGS_OF_ROW_MAX);
        for (; row.count < n->arg_count; row.count++) {
            const node *arg = n->args[row.count];
            if (arg->kind != NODE_NAMED)
                lang_fail(&k->s, arg->at, "expected name = value");
            char *name = lang_alloc(&k->s, arg->text.len_bytes + 1, 1);
            memcpy(name, arg->text.text, arg->text.len_bytes);
            for (uint32_t i = 0; i < row.count; i++)
                if (strcmp(row.names[i], name) == 0)
                    lang_fail(&k->s, arg->at, "emit has %s twice", name);
            row.names[row.count] = name;
            row.types[row.count] = (uint8_t)expression(k, arg->a, row.count);
        }
        emit(k, CODE_EMIT, 0, 0, 0, add_row(k, &row));
    } else if (span_is(n->text, "exit")) {
        if (n->arg_count > 1 || (n->arg_count && (n->args[0]->kind != NODE_INT || n->args[0]->number)))
            lang_fail(&k->s, n->at, "expected exit()");
        emit(k, CODE_EXIT, 0, 0, 0, 0);
    } else if (span_is(n->text, "delta")) {
        (void)call_expression(k, n, use_register(k, 0, n->at));
        if (!k->is_dry)
            k->ops[k->op_count - 1].code = CODE_MARK;
    } else {
        nearest m;
        nearest_begin(&m, n->text);
        static const char *const CALLS[] = {"print", "printf", "trunc", "clear", "emit", "exit", "delta"};
        for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
            nearest_try(&m, CALLS[i]);
        lang_fail(&k->s, n->at, "%.*s is no statement%s%s%s", SHOWN(n->text), MEANT(m));
    }
}

static void statements(compiler *k, const statement *st) {
    for (; st; st = st->next) {
        uint32_t skip = emit(k, CODE_SKIP_TO, 0, 0, 0, 0), jump, end;
        switch (st->kind) {
        case STATEMENT_ASSIGN:
            assign(k, st);
            break;
        case STATEMENT_AGGREGATE:
            aggregate(k, st);
            break;
        case STATEMENT_CALL:
            call_statement(k, st->value);
            break;
        case STATEMENT_IF:
            condition(k, st->value, 0);
            jump = emit(k, CODE_JUMP_FALSE, 0, 0, 0, 0);
            statements(k, st->body);
            end = st->rest ? emit(k, CODE_JUMP, 0, 0, 0, 0) : 0;
            land(k, jump);
            statements(k, st->rest);
            if (st->rest)
                land(k, end);
            break;
        }
        land(k, skip);
    }
}

/* ---- clauses ---- */

static void add_class(compiler *k, const ea_class *c) {
    for (const probe *p = k->c->probes; p; p = p->next) {
        if (!lang_probe_fits(p, c))
            continue;
        for (size_t i = 0; i < k->class_count; i++)
            if (k->class_buffer[i] == c)
                return;
        if (EA_GROW(k->class_buffer, k->class_capacity, k->class_count + 1, SIZE_MAX)) {
            k->s.rc = EA_ENOMEM;
            longjmp(k->s.out, 1);
        }
        k->class_buffer[k->class_count++] = c;
        return;
    }
}

static int row_may_fit(const probe *first, const ea_family *family, const ea_class_row *row) {
    for (const probe *p = first; p; p = p->next)
        if (p->kind == PROBE_CLASS &&
            (p->has_code ? p->code == row->code
                         : lang_glob(p->name, row->name, strlen(row->name)) ||
                               ea_event_has_alias(p->whole.text, p->whole.len_bytes, &family->provider->guid,
                                                  family->provider->name, family->provider->classic, row->code)) &&
            family->provider->kind == EA_KIND_EVENT)
            return 1;
    return 0;
}

/* The classes that the clause's probes name, of the tables and of the caller. */
static void find_classes(compiler *k) {
    size_t family_count;
    const ea_family *const *families = ea_event_families(&family_count);
    k->class_count = 0;
    k->has_class_probe = 0;
    for (const probe *p = k->c->probes; p; p = p->next)
        k->has_class_probe |= p->kind == PROBE_CLASS;
    if (!k->has_class_probe)
        return;
    for (size_t i = 0; i < family_count; i++) {
        const ea_family *family = families[i];
        for (size_t r = 0; r < family->row_count; r++) {
            const ea_class_row *row = &family->rows[r];
            if (!row_may_fit(k->c->probes, family, row))
                continue;
            for (unsigned version = row->since; version <= row->until; version++) {
                ea_record record = {.provider = family->provider->guid, .version = (uint8_t)version, .pointer_size = 8};
                if (family->provider->classic) {
                    record.flags = EA_FLAG_CLASSIC_HEADER;
                    record.opcode = (uint8_t)row->code;
                } else {
                    record.id = row->code;
                }
                add_class(k, ea_registry_find(k->from->registry, &record));
            }
        }
    }
    for (size_t i = 0; i < k->from->class_count; i++)
        add_class(k, k->from->classes[i]);
    for (const probe *p = k->c->probes; p; p = p->next) {
        size_t c = 0;
        if (p->kind != PROBE_CLASS)
            continue;
        while (c < k->class_count && !lang_probe_fits(p, k->class_buffer[c]))
            c++;
        if (c < k->class_count)
            continue;
        nearest n;
        nearest_begin(&n, p->name);
        for (size_t i = 0; i < family_count; i++)
            for (size_t r = 0; r < families[i]->row_count; r++)
                nearest_try(&n, families[i]->rows[r].name);
        for (size_t i = 0; i < k->from->class_count; i++)
            nearest_try(&n, k->from->classes[i]->name);
        k->s.problem->is_class = 1;
        if (p->provider.len_bytes)
            lang_fail(&k->s, p->at, "no event class %.*s of a provider %.*s is known%s%s%s", SHOWN(p->name),
                      SHOWN(p->provider), MEANT(n));
        lang_fail(&k->s, p->at, "no event class %.*s is known%s%s%s", SHOWN(p->name), MEANT(n));
    }
}

static void compile_clause(compiler *k, const clause *c) {
    k->c = c;
    struct clause_classes *found = &k->found[c->number];
    k->op_count = 0;
    k->field_count = found->field_count;
    if (found->field_count)
        memcpy(k->fields, found->fields, found->field_count * sizeof *found->fields);
    k->registers = 0;
    k->classes = found->classes;
    k->class_count = found->count;
    k->has_class_probe = k->class_count != 0;
    uint32_t skip = emit(k, CODE_SKIP_TO, 0, 0, 0, 0), jump = 0;
    if (c->condition) {
        condition(k, c->condition, 0);
        jump = emit(k, CODE_JUMP_FALSE, 0, 0, 0, 0);
    }
    statements(k, c->body);
    land(k, skip);
    if (c->condition)
        land(k, jump);
    emit(k, CODE_END, 0, 0, 0, 0);
    if (k->is_dry) {
        if (k->field_count > found->field_count) {
            found->fields = lang_alloc(&k->s, k->field_count, sizeof *found->fields);
            found->field_count = k->field_count;
            memcpy(found->fields, k->fields, k->field_count * sizeof *k->fields);
        }
        return;
    }
    lang_op *ops = lang_alloc(&k->s, k->op_count, sizeof *ops);
    lang_field *fields = lang_alloc(&k->s, k->field_count, sizeof *fields);
    memcpy(ops, k->ops, k->op_count * sizeof *ops);
    memcpy(fields, k->fields, k->field_count * sizeof *fields);
    k->p->clauses[c->number] = (lang_clause){.probes = c->probes,
                                             .ops = ops,
                                             .op_count = k->op_count,
                                             .fields = fields,
                                             .field_count = k->field_count,
                                             .registers = (uint8_t)k->registers};
}

static int lacks_type(const lang_aggregation *a) {
    return a->type == TYPE_NONE && a->function != FUNCTION_COUNT;
}

static int has_untyped(const compiler *k) {
    for (uint32_t i = 0; i < k->p->variable_count; i++)
        if (k->p->variables[i].type == TYPE_NONE)
            return 1;
    for (uint32_t i = 0; i < k->p->aggregation_count; i++)
        if (lacks_type(&k->p->aggregations[i]))
            return 1;
    return 0;
}

static void infer_types(compiler *k, const clause *first) {
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        k->changed = 0;
        for (const clause *c = first; c; c = c->next)
            compile_clause(k, c);
        if (!k->changed)
            return;
    }
    lang_fail(&k->s, 0, "the types of the variables depend on each other over too many statements");
}

static void compile(compiler *k) {
    ea_lang_program *p = k->p;
    clause *first = lang_parse(&k->s);
    for (const clause *c = first; c; c = c->next)
        p->clause_count++;
    p->clauses = lang_alloc(&k->s, p->clause_count, sizeof *p->clauses);
    p->variables = lang_alloc(&k->s, VARIABLES_MAX, sizeof *p->variables);
    p->aggregations = lang_alloc(&k->s, VARIABLES_MAX, sizeof *p->aggregations);
    p->counters = lang_alloc(&k->s, COUNTERS_MAX, sizeof *p->counters);
    k->ops = lang_alloc(&k->s, EA_LANG_OPS_MAX, sizeof *k->ops);
    k->found = lang_alloc(&k->s, p->clause_count, sizeof *k->found);
    for (const clause *c = first; c; c = c->next) {
        k->c = c;
        find_classes(k);
        k->found[c->number].classes = lang_alloc(&k->s, k->class_count, sizeof *k->classes);
        k->found[c->number].count = k->class_count;
        if (k->class_count)
            memcpy(k->found[c->number].classes, k->class_buffer, k->class_count * sizeof *k->classes);
    }
    for (const clause *c = first; c; c = c->next) {
        k->c = c;
        declare_all(k, c->body);
        declare_aggregations(k, c->body, 0);
    }
    for (const clause *c = first; c; c = c->next)
        for (const probe *pr = c->probes; pr; pr = pr->next)
            if (pr->kind == PROBE_END)
                declare_aggregations(k, c->body, 1);
    k->is_dry = 1;
    infer_types(k, first);
    if (has_untyped(k)) {
        k->guesses = 1;
        infer_types(k, first);
    }
    for (uint32_t i = 0; i < p->variable_count; i++)
        if (p->variables[i].type == TYPE_NONE)
            lang_fail(&k->s, p->variables[i].at, "variable %.*s gets its value from itself alone",
                      SHOWN(p->variables[i].name));
    for (uint32_t i = 0; i < p->aggregation_count; i++)
        if (lacks_type(&p->aggregations[i]))
            lang_fail(&k->s, p->aggregations[i].at, "aggregation @%.*s gets its value from itself alone",
                      SHOWN(p->aggregations[i].name));
    k->is_dry = 0;
    for (const clause *c = first; c; c = c->next)
        compile_clause(k, c);
}

/* ---- what a program needs ---- */

static const char *copy_name(compiler *k, const char *name) {
    size_t n = strlen(name);
    char *copy = lang_alloc(&k->s, n + 1, 1);
    memcpy(copy, name, n + 1);
    return copy;
}

static int is_need_of(const ea_lang_need *n, const ea_class *c) {
    return n->code == c->code && n->is_classic == c->classic && ea_guid_equal(&n->provider, &c->provider) &&
           strcmp(n->name, c->name) == 0;
}

static uint8_t names_thread(const ea_class *c) {
    for (size_t i = 0; i < c->field_count; i++)
        if (c->fields[i].semantic == EA_SEM_TID || c->fields[i].semantic == EA_SEM_PID)
            return 1;
    return 0;
}

static int has_code(const lang_clause *c, enum lang_code code) {
    for (uint32_t i = 0; i < c->op_count; i++)
        if (c->ops[i].code == code)
            return 1;
    return 0;
}

/* Notes the classes of all clauses, each once. Names of counters get an end. */
static void note_needs(compiler *k) {
    ea_lang_program *p = k->p;
    size_t most = 0, n = 0;
    for (uint32_t i = 0; i < p->clause_count; i++)
        most += k->found[i].count;
    p->needs = lang_alloc(&k->s, most, sizeof *p->needs);
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (size_t c = 0; c < k->found[i].count; c++) {
            const ea_class *class = k->found[i].classes[c];
            size_t at = 0;
            while (at < n && !is_need_of(&p->needs[at], class))
                at++;
            if (at == n)
                p->needs[n++] = (ea_lang_need){.provider = class->provider,
                                               .provider_name = copy_name(k, class->provider_name),
                                               .name = copy_name(k, class->name),
                                               .code = class->code,
                                               .is_classic = class->classic};
            p->needs[at].has_thread |= names_thread(class); /* the newer versions do */
            p->needs[at].has_stacks |= (uint8_t)has_code(&p->clauses[i], CODE_STACK);
            p->needs[at].has_counters |= (uint8_t)has_code(&p->clauses[i], CODE_PMC);
        }
    p->need_count = n;
    for (uint32_t i = 0; i < p->counter_count; i++) {
        char *copy = lang_alloc(&k->s, p->counters[i].len_bytes + 1, 1);
        memcpy(copy, p->counters[i].text, p->counters[i].len_bytes);
        copy[p->counters[i].len_bytes] = 0;
        p->counters[i].text = copy;
    }
}

int ea_lang_compile(ea_lang_program **ret, const char *text, size_t len_bytes, const ea_lang_sources *sources,
                    ea_lang_problem *ret_problem) {
    *ret_problem = (ea_lang_problem){.line = 1, .column = 1};
    compiler *k = calloc(1, sizeof *k);
    if (!k)
        return EA_ENOMEM;
    ea_arena_init(&k->s.arena, PROGRAM_MAX_BYTES);
    k->from = sources;
    k->s.args = sources->args;
    k->s.arg_count = sources->arg_count;
    k->s.problem = ret_problem;
    if (setjmp(k->s.out) == 0) {
        k->p = lang_alloc(&k->s, 1, sizeof *k->p);
        k->s.text = "";
        if (len_bytes > EA_LANG_TEXT_MAX_BYTES)
            lang_fail(&k->s, 0, "the program is longer than %d bytes", EA_LANG_TEXT_MAX_BYTES);
        char *copy = lang_alloc(&k->s, len_bytes + 1, 1);
        memcpy(copy, text, len_bytes);
        k->s.text = k->p->text = copy;
        k->s.len_bytes = len_bytes;
        compile(k);
        note_needs(k);
        uint32_t clause_number = 0, op = 0;
        if (!lang_verify(k->p, &clause_number, &op))
            lang_fail(&k->s, 0, "the verifier refused instruction %u of clause %u: this is a fault of the compiler", op,
                      clause_number);
    }
    int rc = k->s.rc;
    free(k->class_buffer);
    if (rc) {
        ea_arena_deinit(&k->s.arena);
    } else {
        k->p->arena = k->s.arena;
        *ret = k->p;
    }
    free(k);
    return rc;
}

int ea_lang_check_expression(const char *text, size_t len_bytes, ea_lang_problem *ret_problem) {
    *ret_problem = (ea_lang_problem){.line = 1, .column = 1};
    lang_source *s = calloc(1, sizeof *s);
    if (!s)
        return EA_ENOMEM;
    ea_arena_init(&s->arena, PROGRAM_MAX_BYTES);
    s->problem = ret_problem;
    if (setjmp(s->out) == 0) {
        s->text = "";
        if (len_bytes > EA_LANG_TEXT_MAX_BYTES)
            lang_fail(s, 0, "the expression is longer than %d bytes", EA_LANG_TEXT_MAX_BYTES);
        char *copy = lang_alloc(s, len_bytes + 1, 1);
        memcpy(copy, text, len_bytes);
        s->text = copy;
        s->len_bytes = len_bytes;
        lang_parse_expression(s);
    }
    int rc = s->rc;
    ea_arena_deinit(&s->arena);
    free(s);
    return rc;
}

void ea_lang_program_destroy(ea_lang_program *p) {
    if (!p)
        return;
    ea_arena arena = p->arena; /* it holds the program, too */
    ea_arena_deinit(&arena);
}

int ea_lang_needs_names(const ea_lang_program *p) {
    return p->needs_names;
}

int ea_lang_needs_stacks(const ea_lang_program *p) {
    return p->needs_stacks;
}

const ea_lang_need *ea_lang_needs(const ea_lang_program *p, size_t *ret_count) {
    *ret_count = p->need_count;
    return p->needs;
}

static int is_any(span pattern) {
    size_t i = 0;
    while (i < pattern.len_bytes && pattern.text[i] == '*')
        i++;
    return i == pattern.len_bytes;
}

int ea_lang_needs_all(const ea_lang_program *p) {
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (const probe *pr = p->clauses[i].probes; pr; pr = pr->next)
            if (pr->kind == PROBE_UNMATCHED ||
                (pr->kind == PROBE_CLASS && !pr->has_code && is_any(pr->provider) && is_any(pr->name)))
                return 1;
    return 0;
}

static int is_of_processes(const lang_op *op) {
    if (op->code == CODE_PARENT)
        return 1;
    if (op->code != CODE_VALUE)
        return 0;
    switch ((enum lang_value)op->imm) {
    case VALUE_pid: /* of kernel events whose header names none */
    case VALUE_execname:
    case VALUE_exepath:
    case VALUE_cmdline:
    case VALUE_ppid:
    case VALUE_user:
    case VALUE_threadname:
        return 1;
    default:
        return 0;
    }
}

int ea_lang_needs_processes(const ea_lang_program *p) {
    for (uint32_t i = 0; i < p->variable_count; i++)
        if (p->variables[i].scope == SCOPE_SELF)
            return 1;
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (uint32_t k = 0; k < p->clauses[i].op_count; k++)
            if (is_of_processes(&p->clauses[i].ops[k]))
                return 1;
    return 0;
}

const char *ea_lang_counter(const ea_lang_program *p, size_t i) {
    return i < p->counter_count ? p->counters[i].text : NULL;
}
