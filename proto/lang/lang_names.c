/* Names of a program: fields, variables, aggregations and their functions. See lang_compile.h. */
#include "proto/base/cli.h"
#include "proto/event/render.h"
#include "proto/lang/lang_compile.h"

#include <string.h>

void lang_nearest_begin(nearest *n, span name) {
    *n = (nearest){.distance = name.len_bytes > 4 ? 4 : 3};
    if (name.len_bytes < sizeof n->wanted)
        memcpy(n->wanted, name.text, name.len_bytes);
}

void lang_nearest_try(nearest *n, const char *name) {
    size_t d = *n->wanted ? ea_name_distance(n->wanted, name) : SIZE_MAX;
    if (d < n->distance) {
        n->distance = d;
        n->found = name;
    }
}

void lang_nearest_words(nearest *n, enum ea_lang_word_kind kind) {
    ea_lang_word w;
    for (size_t i = 0; ea_lang_word_at(i, &w); i++)
        if (w.kind == kind)
            lang_nearest_try(n, w.text);
}

/* A field that the clause read before: a look among all classes is not needed again. FIELDS_MAX: there is none. */
static uint32_t names_known_field(const compiler *k, span name, int is_name) {
    for (uint32_t i = 0; i < k->field_count; i++)
        if (k->fields[i].is_name == is_name && strlen(k->fields[i].name) == name.len_bytes &&
            memcmp(k->fields[i].name, name.text, name.len_bytes) == 0)
            return i;
    return FIELDS_MAX;
}

static uint32_t names_new_field(compiler *k, span name, enum lang_type type, int is_name, uint32_t at) {
    uint32_t known = names_known_field(k, name, is_name);
    if (known < FIELDS_MAX)
        return known;
    if (k->field_count == FIELDS_MAX)
        lang_fail(&k->s, at, "the clause uses more than %d fields", FIELDS_MAX);
    char *copy = lang_alloc(&k->s, name.len_bytes + 1, 1);
    memcpy(copy, name.text, name.len_bytes);
    k->fields[k->field_count] = (lang_field){copy, (uint8_t)type, (uint8_t)is_name};
    return k->field_count++;
}

enum lang_type lang_find_field_type(compiler *k, span name, uint32_t at) {
    enum lang_type type = TYPE_NONE;
    const ea_class *decided = NULL;
    for (size_t i = 0; i < k->class_count; i++) {
        const ea_class *c = k->classes[i];
        size_t f = lang_field_of(c, name.text, name.len_bytes);
        if (f == c->field_count)
            continue;
        enum lang_type other = lang_field_type(&c->fields[f]), both = lang_common_type(type, other);
        if (both == TYPE_NONE && strcmp(c->name, decided->name) != 0)
            lang_fail(&k->s, at, "field %.*s is %s in %s and %s in %s; write a clause for each", SHOWN(name),
                      LANG_TYPE_TEXTS[type], decided->name, LANG_TYPE_TEXTS[other], c->name);
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
static uint8_t names_comes_from_others(compiler *k, span name) {
    for (size_t i = 0; i < k->class_count; i++) {
        size_t f = lang_field_of(k->classes[i], name.text, name.len_bytes);
        if (f < k->classes[i]->field_count && !lang_names_are_fixed(&k->classes[i]->fields[f]))
            return 1;
    }
    return 0;
}

static const char SUFFIX[] = "_name";

enum { SUFFIX_BYTES = sizeof SUFFIX - 1 };

int lang_find_field(compiler *k, span name, uint32_t at, uint32_t *ret_field, enum lang_type *ret_type) {
    *ret_field = names_known_field(k, name, 0);
    if (*ret_field < FIELDS_MAX) {
        *ret_type = (enum lang_type)k->fields[*ret_field].type;
        return 1;
    }
    int has_suffix =
        name.len_bytes > SUFFIX_BYTES && memcmp(name.text + name.len_bytes - SUFFIX_BYTES, SUFFIX, SUFFIX_BYTES) == 0;
    span base = {name.text, name.len_bytes - (has_suffix ? SUFFIX_BYTES : 0)};
    *ret_field = has_suffix ? names_known_field(k, base, 1) : FIELDS_MAX;
    if (*ret_field < FIELDS_MAX) {
        *ret_type = TYPE_TEXT;
        return 1;
    }
    enum lang_type type = lang_find_field_type(k, name, at);
    if (type != TYPE_NONE) {
        *ret_field = names_new_field(k, name, type, 0, at);
        *ret_type = type;
        return 1;
    }
    if (!has_suffix || lang_find_field_type(k, base, at) == TYPE_NONE)
        return 0;
    if (!has_names(k, base))
        lang_fail(&k->s, at, "the values of field %.*s have no names", SHOWN(base));
    k->p->needs_names |= names_comes_from_others(k, base);
    *ret_field = names_new_field(k, base, TYPE_TEXT, 1, at);
    *ret_type = TYPE_TEXT;
    return 1;
}

_Noreturn void lang_unknown_name(compiler *k, span name, uint32_t at, int is_field) {
    nearest n;
    lang_nearest_begin(&n, name);
    for (size_t i = 0; i < VALUE_COUNT && !is_field; i++)
        lang_nearest_try(&n, lang_value_name((uint32_t)i));
    for (uint32_t i = 0; i < k->p->variable_count && !is_field; i++) {
        lang_variable *v = &k->p->variables[i];
        if (v->scope == SCOPE_GLOBAL) {
            char *copy = lang_alloc(&k->s, v->name.len_bytes + 1, 1);
            memcpy(copy, v->name.text, v->name.len_bytes);
            lang_nearest_try(&n, copy);
        }
    }
    for (size_t i = 0; i < k->class_count; i++)
        for (size_t f = 0; f < k->classes[i]->field_count; f += k->classes[i]->fields[f].span)
            if (!k->classes[i]->fields[f].hidden)
                lang_nearest_try(&n, k->classes[i]->fields[f].name);
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

lang_variable *lang_find_variable(const compiler *k, span name, enum lang_scope scope) {
    for (uint32_t i = 0; i < k->p->variable_count; i++)
        if (k->p->variables[i].scope == scope && span_equal(k->p->variables[i].name, name))
            return &k->p->variables[i];
    return NULL;
}

uint32_t lang_variable_number(const compiler *k, const lang_variable *v) {
    return (uint32_t)(v - k->p->variables);
}

int lang_value_of(span name) {
    for (int i = 0; i < VALUE_COUNT; i++)
        if (span_is(name, lang_value_name((uint32_t)i)))
            return i;
    return -1;
}

enum lang_scope lang_scope_of(compiler *k, const node *n) {
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

static void names_declare(compiler *k, const node *n) {
    enum lang_scope scope = lang_scope_of(k, n);
    if (scope == SCOPE_GLOBAL && lang_value_of(n->text) >= 0)
        lang_fail(&k->s, n->at, "%.*s is a value of the event; choose another name for the variable", SHOWN(n->text));
    lang_variable *v = lang_find_variable(k, n->text, scope);
    if (!v) {
        if (lang_find_variable(k, n->text, scope == SCOPE_MAP ? SCOPE_GLOBAL : SCOPE_MAP) &&
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

void lang_declare_variables(compiler *k, const statement *st) {
    for (; st; st = st->next) {
        if (st->kind == STATEMENT_ASSIGN)
            names_declare(k, st->target);
        lang_declare_variables(k, st->body);
        lang_declare_variables(k, st->rest);
    }
}

void lang_take_type(compiler *k, uint8_t *slot, uint8_t *is_assigned, enum lang_type type, int literal, uint32_t at,
                    const char *what, span name) {
    enum lang_type old = (enum lang_type) * slot;
    if (type == TYPE_NONE)
        return;
    /* a variable of which only numbers without a sign of their own are known takes the type of others */
    enum lang_type both = literal && lang_is_number(old) && old != TYPE_NONE         ? old
                          : !*is_assigned && old == TYPE_INT && lang_is_number(type) ? type
                                                                                     : lang_common_type(old, type);
    if (both == TYPE_NONE)
        lang_fail(&k->s, at, "%s %.*s is %s here and %s elsewhere", what, SHOWN(name), LANG_TYPE_TEXTS[type],
                  LANG_TYPE_TEXTS[old]);
    if (!literal && !*is_assigned) {
        *is_assigned = 1;
        k->changed = 1;
    }
    if (both != old) {
        *slot = (uint8_t)both;
        k->changed = 1;
    }
}

static lang_aggregation *names_find_aggregation(const compiler *k, span name) {
    for (uint32_t i = 0; i < k->p->aggregation_count; i++)
        if (span_equal(k->p->aggregations[i].name, name))
            return &k->p->aggregations[i];
    return NULL;
}

lang_aggregation *lang_find_aggregation(compiler *k, const node *n) {
    lang_aggregation *a = n->kind == NODE_AGGREGATION ? names_find_aggregation(k, n->text) : NULL;
    if (n->kind != NODE_AGGREGATION)
        lang_fail(&k->s, n->at, "expected an aggregation, as in @name");
    if (!a) {
        nearest m;
        lang_nearest_begin(&m, n->text);
        for (uint32_t i = 0; i < k->p->aggregation_count; i++) {
            char *copy = lang_alloc(&k->s, k->p->aggregations[i].name.len_bytes + 1, 1);
            memcpy(copy, k->p->aggregations[i].name.text, k->p->aggregations[i].name.len_bytes);
            lang_nearest_try(&m, copy);
        }
        lang_fail(&k->s, n->at, "no statement aggregates into @%.*s%s%s%s%s", SHOWN(n->text),
                  m.found ? "; did you mean @" : "", m.found ? m.found : "", m.found ? "?" : "", "");
    }
    return a;
}

uint32_t lang_aggregation_number(const compiler *k, const lang_aggregation *a) {
    return (uint32_t)(a - k->p->aggregations);
}

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

const function *lang_function_of(span name) {
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (span_is(name, FUNCTIONS[i].name))
            return &FUNCTIONS[i];
    return NULL;
}

const function *lang_find_function(compiler *k, const node *call) {
    const function *f = lang_function_of(call->text);
    if (f)
        return f;
    nearest n;
    lang_nearest_begin(&n, call->text);
    lang_nearest_words(&n, EA_LANG_WORD_FUNCTION);
    lang_fail(&k->s, call->at, "%.*s is no aggregating function%s%s%s", SHOWN(call->text), MEANT(n));
}

void lang_declare_aggregations(compiler *k, const statement *st, int is_end) {
    for (; st; st = st->next) {
        if (st->kind == STATEMENT_AGGREGATE) {
            const node *t = st->target;
            const function *f = lang_find_function(k, st->value);
            lang_aggregation *a = names_find_aggregation(k, t->text);
            if (t->arg_count > EA_LANG_KEYS_MAX)
                lang_fail(&k->s, t->at, "more than %d keys", EA_LANG_KEYS_MAX);
            if (!a) {
                if (t->text.len_bytes > EA_LANG_NAME_MAX_BYTES)
                    lang_fail(&k->s, t->at, "the name has %zu bytes; at most %d name a table of results",
                              t->text.len_bytes, EA_LANG_NAME_MAX_BYTES);
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
            lang_aggregation *a = names_find_aggregation(k, st->value->args[0]->text);
            if (a)
                a->is_ended = 1;
        }
        lang_declare_aggregations(k, st->body, is_end);
        lang_declare_aggregations(k, st->rest, is_end);
    }
}

int64_t lang_constant_argument(compiler *k, const node *n) {
    int negative = n->kind == NODE_UNARY && n->op == OP1('-') && n->a->kind == NODE_INT;
    const node *v = negative ? n->a : n;
    if (v->kind != NODE_INT || v->number > INT64_MAX)
        lang_fail(&k->s, n->at, "expected a whole number that is written out");
    return negative ? -(int64_t)v->number : (int64_t)v->number;
}
