/* A text becomes a program: its clauses, one after the other. See lang_compile.h. */
#include "proto/lang/lang_compile.h"
#include "proto/base/array.h"
#include "proto/event/class_names.h"

#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 1024, PROGRAM_MAX_BYTES = 16 << 20 };

static void compile_add_class(compiler *k, const ea_class *c) {
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

static int compile_row_may_fit(const probe *first, const ea_family *family, const ea_class_row *row) {
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
void lang_find_classes(compiler *k) {
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
            if (!compile_row_may_fit(k->c->probes, family, row))
                continue;
            for (unsigned version = row->since; version <= row->until; version++) {
                ea_record record = {.provider = family->provider->guid, .version = (uint8_t)version, .pointer_size = 8};
                if (family->provider->classic) {
                    record.flags = EA_FLAG_CLASSIC_HEADER;
                    record.opcode = (uint8_t)row->code;
                } else {
                    record.id = row->code;
                }
                compile_add_class(k, ea_registry_find(k->from->registry, &record));
            }
        }
    }
    for (size_t i = 0; i < k->from->class_count; i++)
        compile_add_class(k, k->from->classes[i]);
    for (const probe *p = k->c->probes; p; p = p->next) {
        size_t c = 0;
        if (p->kind != PROBE_CLASS)
            continue;
        while (c < k->class_count && !lang_probe_fits(p, k->class_buffer[c]))
            c++;
        if (c < k->class_count)
            continue;
        nearest n;
        lang_nearest_begin(&n, p->name);
        for (size_t i = 0; i < family_count; i++)
            for (size_t r = 0; r < families[i]->row_count; r++)
                lang_nearest_try(&n, families[i]->rows[r].name);
        for (size_t i = 0; i < k->from->class_count; i++)
            lang_nearest_try(&n, k->from->classes[i]->name);
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
    k->op_count = k->range_count = 0;
    k->field_count = found->field_count;
    if (found->field_count)
        memcpy(k->fields, found->fields, found->field_count * sizeof *found->fields);
    k->registers = 0;
    k->classes = found->classes;
    k->class_count = found->count;
    k->has_class_probe = k->class_count != 0;
    uint32_t jump = NO_JUMP;
    if (c->condition)
        jump = lang_jump_unless(k, c->condition, 0);
    lang_statements(k, c->body);
    lang_end_statement(k, 0);
    lang_land_all(k, jump);
    lang_emit(k, CODE_END, 0, 0, 0, 0);
    if (k->is_dry) {
        if (k->field_count > found->field_count) {
            found->fields = lang_alloc(&k->s, k->field_count, sizeof *found->fields);
            found->field_count = k->field_count;
            memcpy(found->fields, k->fields, k->field_count * sizeof *k->fields);
        }
        return;
    }
    lang_op *ops = lang_alloc(&k->s, k->op_count, sizeof *ops);
    uint16_t *skips = lang_alloc(&k->s, k->op_count, sizeof *skips);
    lang_field *fields = lang_alloc(&k->s, k->field_count, sizeof *fields);
    lang_range *ranges = lang_alloc(&k->s, k->range_count, sizeof *ranges);
    memcpy(ranges, k->ranges, k->range_count * sizeof *ranges);
    memcpy(skips, k->skips, k->op_count * sizeof *skips);
    memcpy(ops, k->ops, k->op_count * sizeof *ops);
    memcpy(fields, k->fields, k->field_count * sizeof *fields);
    k->p->clauses[c->number] = (lang_clause){.probes = c->probes,
                                             .ops = ops,
                                             .skips = skips,
                                             .ranges = ranges,
                                             .range_count = k->range_count,
                                             .op_count = k->op_count,
                                             .fields = fields,
                                             .field_count = k->field_count,
                                             .registers = (uint8_t)k->registers};
}

static int compile_lacks_type(const lang_aggregation *a) {
    return a->type == TYPE_NONE && a->function != FUNCTION_COUNT;
}

static int compile_has_untyped(const compiler *k) {
    for (uint32_t i = 0; i < k->p->variable_count; i++)
        if (k->p->variables[i].type == TYPE_NONE)
            return 1;
    for (uint32_t i = 0; i < k->p->aggregation_count; i++)
        if (compile_lacks_type(&k->p->aggregations[i]))
            return 1;
    return 0;
}

static void compile_infer_types(compiler *k, const clause *first) {
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
    k->ranges = lang_alloc(&k->s, EA_LANG_OPS_MAX, sizeof *k->ranges);
    k->skips = lang_alloc(&k->s, EA_LANG_OPS_MAX, sizeof *k->skips);
    k->found = lang_alloc(&k->s, p->clause_count, sizeof *k->found);
    for (const clause *c = first; c; c = c->next) {
        k->c = c;
        lang_find_classes(k);
        k->found[c->number].classes = lang_alloc(&k->s, k->class_count, sizeof *k->classes);
        k->found[c->number].count = k->class_count;
        if (k->class_count)
            memcpy(k->found[c->number].classes, k->class_buffer, k->class_count * sizeof *k->classes);
    }
    for (const clause *c = first; c; c = c->next) {
        k->c = c;
        lang_declare_variables(k, c->body);
        lang_declare_aggregations(k, c->body, 0);
    }
    for (const clause *c = first; c; c = c->next)
        for (const probe *pr = c->probes; pr; pr = pr->next)
            if (pr->kind == PROBE_END)
                lang_declare_aggregations(k, c->body, 1);
    k->is_dry = 1;
    compile_infer_types(k, first);
    if (compile_has_untyped(k)) {
        k->guesses = 1;
        compile_infer_types(k, first);
    }
    for (uint32_t i = 0; i < p->variable_count; i++)
        if (p->variables[i].type == TYPE_NONE)
            lang_fail(&k->s, p->variables[i].at, "variable %.*s gets its value from itself alone",
                      SHOWN(p->variables[i].name));
    for (uint32_t i = 0; i < p->aggregation_count; i++)
        if (compile_lacks_type(&p->aggregations[i]))
            lang_fail(&k->s, p->aggregations[i].at, "aggregation @%.*s gets its value from itself alone",
                      SHOWN(p->aggregations[i].name));
    k->is_dry = 0;
    for (const clause *c = first; c; c = c->next)
        compile_clause(k, c);
    for (const clause *c = first; c; c = c->next)
        for (const probe *pr = c->probes; pr; pr = pr->next)
            if (pr->kind == PROBE_MISSING && !p->needs_stacks)
                lang_fail(&k->s, pr->at, "no clause reads a stack, as by stack(), so that none can be missing");
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
        lang_note_needs(k);
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
