/* Runs the rules of a group on an event. See rules.h. The automata set atoms; an atom that was not set before makes
 * its rules candidates; the candidates' programs are run, and evaluate what they ask for. Thread: the run's owner's. */
#include "proto/rules/rules_parts.h"

#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/rules/rules_memo.h"

#include <stdlib.h>
#include <string.h>

enum { DFA_MAX_BYTES = 32 << 20 }; /* of all expressions of a run; then they are made anew */

struct ea_rules_run {
    const ea_rules *rules;
    const rules_group *g; /* of the event */
    const ea_rules_value *values;
    size_t value_count;
    uint64_t *is_true, *is_known; /* bits of atoms; known: of those that are evaluated when they are asked for */
    uint32_t *touched;            /* words of either that are not 0 */
    size_t touched_count;
    uint32_t *seen;       /* a program's last event */
    uint32_t *candidates; /* programs */
    size_t candidate_count;
    uint32_t *found;
    uint32_t *filters; /* whose exceptions the event is among */
    size_t filter_count;
    uint32_t *marks; /* of a scan */
    uint32_t mark, event;
    rules_memo *memo;
    uint32_t *learnt; /* atoms that a text sets */
    size_t learnt_count, learnt_capacity;
    int learns; /* they are collected */
    rules_dfa **dfas;
    size_t dfa_bytes;
    uint32_t *passed, *path; /* of ea_rules_run_may: a test's last program; tests where it goes on */
    uint32_t pass;
    uint32_t atom_max, program_max, output_max, test_max;
    ea_rules_stats stats;
};

static void find_sizes(ea_rules_run *r) {
    for (size_t i = 0; i < r->rules->group_count; i++) {
        const rules_group *g = &r->rules->groups[i];
        r->atom_max = g->atom_count > r->atom_max ? g->atom_count : r->atom_max;
        r->program_max = g->program_count > r->program_max ? g->program_count : r->program_max;
        r->output_max = g->output_max > r->output_max ? g->output_max : r->output_max;
        for (uint32_t k = 0; k < g->program_count; k++)
            if (g->programs[k].start < RULES_FAILS && g->programs[k].start >= r->test_max)
                r->test_max = g->programs[k].start + 1;
    }
}

int ea_rules_run_create(ea_rules_run **ret, const ea_rules *rules) {
    ea_rules_run *r = calloc(1, sizeof *r);
    if (!r)
        return EA_ENOMEM;
    r->rules = rules;
    find_sizes(r);
    size_t words = r->atom_max / 64 + 1;
    r->is_true = calloc(words, sizeof *r->is_true);
    r->is_known = calloc(words, sizeof *r->is_known);
    r->touched = calloc(words * 2, sizeof *r->touched);
    r->seen = calloc((size_t)r->program_max + 1, sizeof *r->seen);
    r->candidates = calloc((size_t)r->program_max + 1, sizeof *r->candidates);
    r->found = calloc((size_t)r->program_max + 1, sizeof *r->found);
    r->filters = calloc(rules->filter_count + 1, sizeof *r->filters);
    r->marks = calloc((size_t)r->output_max + 1, sizeof *r->marks);
    r->dfas = calloc(rules->pattern_count + 1, sizeof(rules_dfa *));
    r->passed = calloc((size_t)r->test_max + 1, sizeof *r->passed);
    r->path = calloc((size_t)r->test_max * 2 + 2, sizeof *r->path); /* each test goes on at two */
    if (!r->passed || !r->path || !r->is_true || !r->is_known || !r->touched || !r->seen || !r->candidates ||
        !r->found || !r->filters || !r->marks || !r->dfas || rules_memo_create(&r->memo)) {
        ea_rules_run_destroy(r);
        return EA_ENOMEM;
    }
    *ret = r;
    return 0;
}

static void forget_dfas(ea_rules_run *r) {
    for (size_t i = 0; i < r->rules->pattern_count; i++) {
        rules_dfa_destroy(r->dfas[i]);
        r->dfas[i] = NULL;
    }
    r->dfa_bytes = 0;
}

void ea_rules_run_destroy(ea_rules_run *r) {
    if (!r)
        return;
    if (r->dfas)
        forget_dfas(r);
    free(r->is_true);
    free(r->is_known);
    free(r->touched);
    free(r->seen);
    free(r->candidates);
    free(r->found);
    free(r->filters);
    free(r->marks);
    free(r->passed);
    free(r->path);
    free(r->learnt);
    rules_memo_destroy(r->memo);
    free(r->dfas);
    free(r);
}

static void set_bit(ea_rules_run *r, uint64_t *bits, uint32_t atom) {
    uint32_t word = atom / 64;
    if (!r->is_true[word] && !r->is_known[word])
        r->touched[r->touched_count++] = word;
    bits[word] |= (uint64_t)1 << (atom % 64);
}

static void add_candidate(ea_rules_run *r, uint32_t program) {
    if (r->seen[program] == r->event)
        return;
    r->seen[program] = r->event;
    r->candidates[r->candidate_count++] = program;
}

static void hit(void *arg, uint32_t atom) {
    ea_rules_run *r = arg;
    if (r->learns) {
        r->learns = EA_GROW(r->learnt, r->learnt_capacity, r->learnt_count + 1, SIZE_MAX) == 0;
        if (r->learns)
            r->learnt[r->learnt_count++] = atom;
    }
    if (r->is_true[atom / 64] >> (atom % 64) & 1)
        return;
    set_bit(r, r->is_true, atom);
    const uint32_t *at = &r->g->trigger_at[atom];
    for (uint32_t i = at[0]; i < at[1]; i++)
        add_candidate(r, r->g->triggers[i]);
}

static void scan(ea_rules_run *r, const rules_automaton *a, const ea_rules_value *v) {
    if (!a->output_count)
        return;
    if (++r->mark == 0) {
        memset(r->marks, 0, ((size_t)r->output_max + 1) * sizeof *r->marks);
        r->mark = 1;
    }
    rules_automaton_scan(a, v->text, v->len_bytes, r->marks, r->mark, hit, r);
}

/* The networks of a field are sorted by family, length and address: one search a length. */
static void find_networks(ea_rules_run *r, const rules_field *f, const ea_rules_value *v) {
    rules_address a;
    if (!f->network_count || !rules_address_parse(v->text, v->len_bytes, &a))
        return;
    for (uint32_t i = 0; i < f->network_count;) {
        const rules_network *n = &f->networks[i];
        uint32_t end = i;
        uint8_t masked[16];
        while (end < f->network_count && f->networks[end].address.bits == n->address.bits &&
               f->networks[end].address.is_v6 == n->address.is_v6)
            end++;
        for (unsigned k = 0; k < 16; k++) {
            unsigned kept = n->address.bits > k * 8 ? n->address.bits - k * 8 : 0;
            masked[k] = kept >= 8 ? a.bytes[k] : (uint8_t)(a.bytes[k] & (0xff00u >> kept));
        }
        uint32_t low = i, high = end;
        while (n->address.is_v6 == a.is_v6 && low < high) {
            uint32_t middle = low + (high - low) / 2;
            int order = memcmp(f->networks[middle].address.bytes, masked, sizeof masked);
            if (order == 0) {
                hit(r, f->networks[middle].atom);
                break;
            }
            if (order < 0)
                low = middle + 1;
            else
                high = middle;
        }
        i = end;
    }
}

/* Sets the atoms of a value. */
static void find_atoms(ea_rules_run *r, const ea_rules_value *v) {
    const rules_group *g = r->g;
    if (g->any)
        hit(r, g->any - 1);
    scan(r, &g->keywords, v);
    if (v->field == UINT32_MAX)
        return;
    const rules_field *f = &g->fields[v->field];
    if (f->exists)
        hit(r, f->exists - 1);
    if (f->empty && !v->len_bytes)
        hit(r, f->empty - 1);
    scan(r, &f->automaton, v);
    find_networks(r, f, v);
}

/* Likewise, as it was found before when the value came before. */
static void rules_run_look_at(ea_rules_run *r, uint32_t group, const ea_rules_value *v) {
    rules_sought s = {.group = group, .field = v->field, .text = v->text, .len_bytes = v->len_bytes};
    const rules_known *known = rules_memo_find(r->memo, &s, &r->learns);
    if (known) {
        for (uint32_t i = 0; i < known->atom_count; i++)
            hit(r, known->atoms[i]);
        return;
    }
    r->learnt_count = 0;
    find_atoms(r, v);
    if (r->learns)
        rules_memo_learn(r->memo, &s, r->learnt, r->learnt_count);
    r->learns = 0;
}

static int same(const char *a, const char *b, size_t n, int is_cased) {
    for (size_t i = 0; i < n; i++)
        if (is_cased ? a[i] != b[i] : ea_ascii_lower(a[i]) != ea_ascii_lower(b[i]))
            return 0;
    return 1;
}

static int compare_fields(const rules_atom *a, const ea_rules_value *v, const ea_rules_value *w) {
    enum rules_place place = (enum rules_place)(a->how & 127);
    if (place == RULES_WHOLE ? v->len_bytes != w->len_bytes : v->len_bytes < w->len_bytes)
        return 0;
    return same(v->text + (place == RULES_AT_END ? v->len_bytes - w->len_bytes : 0), w->text, w->len_bytes,
                a->how & 128);
}

static int match_pattern(ea_rules_run *r, uint32_t number, const ea_rules_value *v) {
    rules_dfa **d = &r->dfas[number];
    if (r->dfa_bytes > DFA_MAX_BYTES)
        forget_dfas(r);
    if (!*d) {
        if (rules_dfa_create(d, &r->rules->patterns[number]))
            return EA_ENOMEM;
        r->dfa_bytes += rules_dfa_bytes(*d);
    }
    size_t before = rules_dfa_bytes(*d);
    int rc = rules_dfa_match(*d, v->text, v->len_bytes);
    r->dfa_bytes += rules_dfa_bytes(*d) - before;
    r->stats.patterns++;
    return rc;
}

static int evaluate_value(ea_rules_run *r, const rules_atom *a, const ea_rules_value *v) {
    rules_number number;
    if (a->kind == RULES_ATOM_PATTERN)
        return match_pattern(r, a->pattern, v);
    if (a->kind == RULES_ATOM_NUMBER)
        return rules_number_parse(v->text, v->len_bytes, &number) &&
               rules_number_compare(&number, (enum rules_compare)a->how, &a->number);
    for (size_t i = 0; i < r->value_count; i++)
        if (r->values[i].field == a->other && compare_fields(a, v, &r->values[i]))
            return 1;
    return 0;
}

static int evaluate(ea_rules_run *r, const rules_atom *a) {
    uint32_t gate = a->gate - 1;
    if (!(r->is_true[gate / 64] >> (gate % 64) & 1))
        return 0;
    for (size_t i = 0; i < r->value_count; i++) {
        if (a->field != UINT32_MAX && r->values[i].field != a->field)
            continue;
        int rc = evaluate_value(r, a, &r->values[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* 1 the atom is true, 0 it is not, EA_ENOMEM. */
static int test(ea_rules_run *r, uint32_t atom) {
    const rules_atom *a = &r->g->atoms[atom];
    if (a->kind >= RULES_ATOM_PATTERN && !(r->is_known[atom / 64] >> (atom % 64) & 1)) {
        int rc = evaluate(r, a);
        if (rc < 0)
            return rc;
        set_bit(r, r->is_known, atom);
        if (rc)
            set_bit(r, r->is_true, atom);
        return rc;
    }
    return (int)(r->is_true[atom / 64] >> (atom % 64) & 1);
}

static int run_program(ea_rules_run *r, const rules_program *p) {
    uint32_t at = p->start;
    while (at < RULES_FAILS) {
        const rules_test *t = &p->tests[at];
        int rc = test(r, t->atom);
        if (rc < 0)
            return rc;
        at = rc ? t->yes : t->no;
    }
    return at == RULES_HOLDS;
}

static void begin(ea_rules_run *r) {
    for (size_t i = 0; i < r->touched_count; i++)
        r->is_true[r->touched[i]] = r->is_known[r->touched[i]] = 0;
    r->touched_count = 0;
    r->candidate_count = 0;
    r->filter_count = 0;
    if (++r->event == 0) {
        memset(r->seen, 0, ((size_t)r->program_max + 1) * sizeof *r->seen);
        r->event = 1;
    }
}

static int rules_run_compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Runs the candidates that are rules, or those that are filters; those that hold are in ret. */
static int run_candidates(ea_rules_run *r, int are_filters, uint32_t *ret, size_t *ret_count) {
    for (size_t i = 0; i < r->candidate_count; i++) {
        const rules_program *p = &r->g->programs[r->candidates[i]];
        if (((p->rule & RULES_FILTER) != 0) != are_filters)
            continue;
        int rc = run_program(r, p);
        if (rc < 0)
            return rc;
        if (rc)
            ret[(*ret_count)++] = p->rule & ~(uint32_t)RULES_FILTER;
    }
    if (*ret_count > 1)
        qsort(ret, *ret_count, sizeof *ret, rules_run_compare_u32);
    return 0;
}

static void run_values(ea_rules_run *r, uint32_t group, const ea_rules_value *values, size_t count) {
    begin(r);
    r->g = &r->rules->groups[group];
    r->values = values;
    r->value_count = count;
    for (size_t i = 0; i < count; i++)
        rules_run_look_at(r, group, &values[i]);
}

int rules_run_atoms(ea_rules_run *r, uint32_t group, const ea_rules_value *v, const uint32_t **ret, size_t *ret_count) {
    size_t n = 0;
    begin(r);
    r->g = &r->rules->groups[group];
    r->learnt_count = 0;
    r->learns = 1;
    find_atoms(r, v);
    if (!r->learns)
        return EA_ENOMEM;
    r->learns = 0;
    if (r->learnt_count)
        qsort(r->learnt, r->learnt_count, sizeof *r->learnt, rules_run_compare_u32);
    for (size_t i = 0; i < r->learnt_count; i++)
        if (!n || r->learnt[n - 1] != r->learnt[i])
            r->learnt[n++] = r->learnt[i];
    *ret = r->learnt;
    *ret_count = n;
    return 0;
}

int ea_rules_run_event(ea_rules_run *r, uint32_t group, const ea_rules_value *values, size_t count,
                       const uint32_t **ret_rules, size_t *ret_count) {
    size_t found = 0;
    run_values(r, group, values, count);
    for (uint32_t i = 0; i < r->g->always_count; i++)
        add_candidate(r, r->g->always[i]);
    int rc = run_candidates(r, 0, r->found, &found);
    if (!rc && found)
        rc = run_candidates(r, 1, r->filters, &r->filter_count);
    if (rc)
        return rc;
    r->stats.events++;
    r->stats.candidates += r->candidate_count;
    r->stats.matches += found;
    *ret_rules = r->found;
    *ret_count = found;
    return 0;
}

/* ---- with fields that are not known ---- */

struct ea_rules_prospect {
    uint32_t group;
    uint64_t *is_unknown; /* bits of atoms */
    uint32_t *always;     /* programs of rules that may be candidates by an unknown atom, or always are */
    uint32_t always_count;
};

static int prospect_lacks(const uint32_t *unknown, size_t count, uint32_t field) {
    for (size_t i = 0; i < count; i++)
        if (unknown[i] == field || field == UINT32_MAX) /* keywords look at all fields */
            return 1;
    return 0;
}

static void prospect_add(ea_rules_prospect *p, const rules_group *g, uint8_t *is_added, uint32_t program) {
    if (!is_added[program] && !(g->programs[program].rule & RULES_FILTER))
        p->always[p->always_count++] = program;
    is_added[program] = 1;
}

int ea_rules_prospect_create(ea_rules_prospect **ret, const ea_rules *r, uint32_t group, const uint32_t *unknown,
                             size_t count) {
    const rules_group *g = &r->groups[group];
    ea_rules_prospect *p = calloc(1, sizeof *p);
    uint8_t *is_added = calloc((size_t)g->program_count + 1, 1);
    if (p) {
        p->group = group;
        p->is_unknown = calloc((size_t)g->atom_count / 64 + 1, sizeof *p->is_unknown);
        p->always = calloc((size_t)g->program_count + 1, sizeof *p->always);
    }
    if (!p || !is_added || !p->is_unknown || !p->always) {
        free(is_added);
        ea_rules_prospect_destroy(p);
        return EA_ENOMEM;
    }
    for (uint32_t i = 0; i < g->atom_count; i++) {
        const rules_atom *a = &g->atoms[i];
        if (!prospect_lacks(unknown, count, a->field) &&
            (a->kind != RULES_ATOM_FIELD || !prospect_lacks(unknown, count, a->other)))
            continue;
        p->is_unknown[i / 64] |= (uint64_t)1 << (i % 64);
        for (uint32_t k = g->trigger_at[i]; k < g->trigger_at[i + 1]; k++)
            prospect_add(p, g, is_added, g->triggers[k]);
    }
    for (uint32_t i = 0; i < g->always_count; i++)
        prospect_add(p, g, is_added, g->always[i]);
    free(is_added);
    *ret = p;
    return 0;
}

void ea_rules_prospect_destroy(ea_rules_prospect *p) {
    if (!p)
        return;
    free(p->is_unknown);
    free(p->always);
    free(p);
}

/* Whether the program can come to hold: after an unknown atom it goes both ways, at each test once. */
static int rules_run_may_hold(ea_rules_run *r, const ea_rules_prospect *p, const rules_program *program) {
    size_t left = 0;
    if (++r->pass == 0) {
        memset(r->passed, 0, ((size_t)r->test_max + 1) * sizeof *r->passed);
        r->pass = 1;
    }
    r->path[left++] = program->start;
    while (left) {
        uint32_t at = r->path[--left];
        if (at == RULES_HOLDS)
            return 1;
        if (at == RULES_FAILS || r->passed[at] == r->pass)
            continue;
        r->passed[at] = r->pass;
        const rules_test *t = &program->tests[at];
        if (p->is_unknown[t->atom / 64] >> (t->atom % 64) & 1) {
            r->path[left++] = t->yes;
            r->path[left++] = t->no;
            continue;
        }
        int rc = test(r, t->atom);
        if (rc < 0)
            return rc;
        r->path[left++] = rc ? t->yes : t->no;
    }
    return 0;
}

int ea_rules_run_may(ea_rules_run *r, const ea_rules_prospect *p, const ea_rules_value *values, size_t count,
                     int *ret) {
    int rc = 0;
    run_values(r, p->group, values, count);
    for (size_t i = 0; i < r->candidate_count && !rc; i++)
        if (!(r->g->programs[r->candidates[i]].rule & RULES_FILTER))
            rc = rules_run_may_hold(r, p, &r->g->programs[r->candidates[i]]);
    for (uint32_t i = 0; i < p->always_count && !rc; i++)
        if (r->seen[p->always[i]] != r->event)
            rc = rules_run_may_hold(r, p, &r->g->programs[p->always[i]]);
    *ret = rc > 0;
    return rc < 0 ? rc : 0;
}

uint32_t ea_rules_run_excepted(const ea_rules_run *r, uint32_t rule, const char *host, int64_t utc_ns) {
    for (size_t i = 0; i < r->filter_count; i++)
        if (rules_filter_is_for(&r->rules->filters[r->filters[i]], &r->rules->infos[rule], host, utc_ns))
            return r->filters[i];
    return UINT32_MAX;
}

ea_rules_stats ea_rules_run_stats(const ea_rules_run *r) {
    return r->stats;
}
