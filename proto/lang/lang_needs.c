/* What a program needs of a session and of its surroundings. See lang.h. */
#include "proto/lang/lang_compile.h"

#include <string.h>

static const char *needs_copy_name(compiler *k, const char *name) {
    size_t n = strlen(name);
    char *copy = lang_alloc(&k->s, n + 1, 1);
    memcpy(copy, name, n + 1);
    return copy;
}

static int is_need_of(const ea_lang_need *n, const ea_class *c) {
    return n->code == c->code && n->is_classic == c->classic && ea_guid_equal(&n->provider, &c->provider) &&
           strcmp(n->name, c->name) == 0;
}

int lang_has_own_process(const ea_class *c) {
    return strcmp(c->name, "Object/DuplicateHandle") != 0; /* its field is the process that gets the handle */
}

static uint8_t needs_names_thread(const ea_class *c) {
    for (size_t i = 0; i < c->field_count; i++)
        if (c->fields[i].semantic == EA_SEM_TID || (c->fields[i].semantic == EA_SEM_PID && lang_has_own_process(c)))
            return 1;
    return 0;
}

static int needs_has_code(const lang_clause *c, enum lang_code code) {
    for (uint32_t i = 0; i < c->op_count; i++)
        if (c->ops[i].code == code)
            return 1;
    return 0;
}

void lang_note_needs(compiler *k) {
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
                                               .provider_name = needs_copy_name(k, class->provider_name),
                                               .name = needs_copy_name(k, class->name),
                                               .code = class->code,
                                               .is_classic = class->classic};
            p->needs[at].has_thread |= needs_names_thread(class); /* the newer versions do */
            p->needs[at].has_stacks |= (uint8_t)needs_has_code(&p->clauses[i], CODE_STACK);
            p->needs[at].has_counters |= (uint8_t)needs_has_code(&p->clauses[i], CODE_PMC);
        }
    p->need_count = n;
    for (uint32_t i = 0; i < p->counter_count; i++) {
        char *copy = lang_alloc(&k->s, p->counters[i].len_bytes + 1, 1);
        memcpy(copy, p->counters[i].text, p->counters[i].len_bytes);
        copy[p->counters[i].len_bytes] = 0;
        p->counters[i].text = copy;
    }
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

static int needs_is_any(span pattern) {
    size_t i = 0;
    while (i < pattern.len_bytes && pattern.text[i] == '*')
        i++;
    return i == pattern.len_bytes;
}

int ea_lang_needs_all(const ea_lang_program *p) {
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (const probe *pr = p->clauses[i].probes; pr; pr = pr->next)
            if (pr->kind == PROBE_UNMATCHED ||
                (pr->kind == PROBE_CLASS && !pr->has_code && needs_is_any(pr->provider) && needs_is_any(pr->name)))
                return 1;
    return 0;
}

static int needs_is_of_processes(const lang_op *op) {
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
    case VALUE_module:
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
            if (needs_is_of_processes(&p->clauses[i].ops[k]))
                return 1;
    return 0;
}

int lang_needs_threads(const ea_lang_program *p) {
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (uint32_t k = 0; k < p->clauses[i].op_count; k++)
            if (p->clauses[i].ops[k].code == CODE_VALUE && p->clauses[i].ops[k].imm == VALUE_tid)
                return 1;
    return ea_lang_needs_processes(p); /* these are found by threads */
}

int ea_lang_needs_modules(const ea_lang_program *p) {
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (uint32_t k = 0; k < p->clauses[i].op_count; k++) {
            const lang_op *op = &p->clauses[i].ops[k];
            if (op->code == CODE_STACK || (op->code == CODE_VALUE && op->imm == VALUE_module))
                return 1;
        }
    return 0;
}

const char *ea_lang_counter(const ea_lang_program *p, size_t i) {
    return i < p->counter_count ? p->counters[i].text : NULL;
}

int ea_lang_result_at(const ea_lang_program *p, size_t i, ea_lang_result *ret) {
    *ret = (ea_lang_result){.name = "emit", .name_bytes = 4};
    if (i < p->aggregation_count) {
        const lang_aggregation *a = &p->aggregations[i];
        *ret = (ea_lang_result){.name = a->name.text, .name_bytes = a->name.len_bytes, .line = 1, .column = 1};
        for (uint32_t at = 0; at < a->at; at++) {
            ret->line += p->text[at] == '\n';
            ret->column = p->text[at] == '\n' ? 1 : ret->column + 1;
        }
        return 1;
    }
    i -= p->aggregation_count;
    if (p->row_count && i-- == 0)
        return 1;
    *ret = (ea_lang_result){.name = "printf", .name_bytes = 6};
    if (p->format_count && i-- == 0)
        return 1;
    *ret = (ea_lang_result){.name = "trigger", .name_bytes = 7};
    return p->trigger_count && i == 0;
}

int ea_lang_ships(const ea_lang_program *p, uint32_t *ret_line, uint32_t *ret_column) {
    *ret_line = p->ship_line;
    *ret_column = p->ship_column;
    return p->ship_line != 0;
}

const ea_lang_trigger *ea_lang_trigger_at(const ea_lang_program *p, size_t i) {
    return i < p->trigger_count ? &p->triggers[i] : NULL;
}
