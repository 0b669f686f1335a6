/* Rules as they were read become groups: fields, atoms, automata, and a program of tests for each rule. See rules.h and
 * rules_parts.h. Thread: the builder's.
 *
 * An atom is what can be true of an event: a field exists, one of several literals is in it, a pattern matches. A rule
 * is a candidate once one of its trigger atoms is true: a set of atoms of which its condition needs one. Of the sets
 * that a condition offers the rarest is taken; how rare a literal is follows from its length and from how many rules
 * have it. */
#include "proto/rules/rules_parts.h"

#include "proto/base/array.h"
#include "proto/base/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPILED_MAX_BYTES = 1 << 30 };

typedef struct rules_node {
    enum rules_expr_kind kind; /* of a leaf: an atom */
    int is_lazy;               /* it has an atom that is evaluated when it is asked for */
    uint32_t atom;
    struct rules_node **children;
    uint32_t count;
} node;

typedef struct making {
    ea_rules *rules;
    const rules_rule *documents;
    ea_arena *arena;   /* of the result */
    ea_arena *scratch; /* of the compilation */
    rules_group *g;
    /* of the group */
    ea_bytes_map atom_of; /* key: 1 + atom */
    rules_atom *atoms;
    size_t atom_capacity;
    float *costs; /* of atoms */
    size_t cost_capacity;

    struct literals {
        rules_literal *items;
        size_t count, capacity;
        rules_network *networks;
        size_t network_count, network_capacity;
    } * fields; /* field_count + 1: the last is the keywords' */

    size_t field_capacity;
    rules_field *field_items;
    size_t field_item_capacity;
    ea_u64_map popular; /* hash of a field's literal: atoms that have it */
    ea_text key;
    /* of all groups */
    rules_nfa *patterns;
    size_t pattern_capacity;
    /* of a rule */
    rules_test *tests;
    size_t test_count, test_capacity;
    const rules_rule *rule;
    size_t state_count; /* of its patterns */
    ea_rules_problem *problem;
    int code;
    jmp_buf failed;
} making;

_Noreturn static void out_of_memory(making *m) {
    m->code = EA_ENOMEM;
    longjmp(m->failed, 1);
}

static void *compile_take(making *m, ea_arena *arena, size_t count, size_t size) {
    void *p = ea_arena_zalloc(arena, count ? count : 1, size);
    if (!p)
        out_of_memory(m);
    return p;
}

static void *compile_keep(making *m, const void *data, size_t count, size_t size) {
    void *p = compile_take(m, m->arena, count, size);
    if (count)
        memcpy(p, data, count * size);
    return p;
}

#define GROW(m, items, capacity, count)                                                                                \
    do {                                                                                                               \
        if (EA_GROW(items, capacity, count, SIZE_MAX))                                                                 \
            out_of_memory(m);                                                                                          \
    } while (0)

/* ---- fields ---- */
static uint32_t field_number(making *m, const char *name) {
    rules_group *g = m->g;
    if (!name)
        return UINT32_MAX;
    uintptr_t known = (uintptr_t)ea_bytes_map_get(&g->numbers, name, strlen(name));
    if (known)
        return (uint32_t)known - 1;
    const char *copy = compile_keep(m, name, strlen(name) + 1, 1);
    GROW(m, m->field_items, m->field_item_capacity, g->field_count + 1);
    GROW(m, m->fields, m->field_capacity, g->field_count + 2);
    m->field_items[g->field_count] = (rules_field){.name = copy};
    m->fields[g->field_count + 1] = m->fields[g->field_count]; /* keywords stay the last */
    memset(&m->fields[g->field_count], 0, sizeof *m->fields);
    if (ea_bytes_map_put(&g->numbers, copy, strlen(copy), (void *)(uintptr_t)(g->field_count + 1)))
        out_of_memory(m);
    return g->field_count++;
}

static struct literals *literals_of(making *m, uint32_t field) {
    return &m->fields[field == UINT32_MAX ? m->g->field_count : field];
}

/* ---- atoms ---- */
static void key_begin(making *m, enum rules_atom_kind kind, uint32_t field) {
    ea_text_clear(&m->key);
    ea_text_char(&m->key, (char)kind);
    ea_text_le32(&m->key, field);
}

/* 1 + the atom of the key; 0: there is none. */
static uint32_t known_atom(making *m) {
    if (m->key.failed)
        out_of_memory(m);
    return (uint32_t)(uintptr_t)ea_bytes_map_get(&m->atom_of, m->key.data, m->key.len_bytes);
}

/* The atom of the key; *ret_is_new: it has to be filled in. */
static uint32_t atom_of_key(making *m, int *ret_is_new) {
    uint32_t known = known_atom(m);
    *ret_is_new = !known;
    if (known)
        return known - 1;
    char *copy = compile_take(m, m->scratch, m->key.len_bytes, 1);
    memcpy(copy, m->key.data, m->key.len_bytes);
    GROW(m, m->atoms, m->atom_capacity, m->g->atom_count + 1);
    GROW(m, m->costs, m->cost_capacity, m->g->atom_count + 1);
    m->costs[m->g->atom_count] = 0;
    m->atoms[m->g->atom_count] = (rules_atom){.kind = (uint8_t)copy[0], .field = ea_load32(copy + 1)};
    if (ea_bytes_map_put(&m->atom_of, copy, m->key.len_bytes, (void *)(uintptr_t)(m->g->atom_count + 1)))
        out_of_memory(m);
    return m->g->atom_count++;
}

static uint32_t exists_atom(making *m, uint32_t field) {
    int is_new;
    key_begin(m, RULES_ATOM_EXISTS, field);
    uint32_t atom = atom_of_key(m, &is_new);
    *(field == UINT32_MAX ? &m->g->any : &m->field_items[field].exists) = atom + 1;
    return atom;
}

static uint32_t empty_atom(making *m, uint32_t field) {
    int is_new;
    key_begin(m, RULES_ATOM_EMPTY, field);
    uint32_t atom = atom_of_key(m, &is_new);
    m->field_items[field].empty = atom + 1; /* keywords are searched for: of them an empty one is in any value */
    return atom;
}

/* How a text can be found: by an automaton, as a field that exists or is empty, or as a pattern. */
enum form { FORM_LITERAL, FORM_EXISTS, FORM_EMPTY, FORM_PATTERN };

static enum form form_of(const rules_leaf *leaf, enum rules_place *ret_place, uint32_t *ret_begin, uint32_t *ret_end) {
    const rules_string *s = &leaf->string;
    uint32_t begin = 0, end = s->len_bytes;
    int is_open = end && s->wild[0] == '*', is_open_after = end && s->wild[end - 1] == '*';
    if (end == 1 && is_open)
        return FORM_EXISTS;
    begin += (uint32_t)is_open;
    end -= (uint32_t)is_open_after;
    for (uint32_t i = begin; i < end; i++)
        if (s->wild[i])
            return FORM_PATTERN;
    if (begin == end)
        return FORM_EMPTY;
    if (leaf->is_cased)
        return FORM_PATTERN;
    *ret_place =
        is_open ? (is_open_after ? RULES_CONTAINED : RULES_AT_END) : (is_open_after ? RULES_AT_BEGIN : RULES_WHOLE);
    *ret_begin = begin;
    *ret_end = end;
    return FORM_LITERAL;
}

static void rules_compile_add_literal(making *m, uint32_t field, const char *folded, uint32_t len_bytes,
                                      enum rules_place place, uint32_t atom) {
    struct literals *l = literals_of(m, field);
    GROW(m, l->items, l->capacity, l->count + 1);
    l->items[l->count++] = (rules_literal){folded, len_bytes, place, atom};
    uint64_t hash = ea_hash64(folded, len_bytes, field), *count = ea_u64_map_get(&m->popular, hash);
    if (ea_u64_map_put(&m->popular, hash, count ? *count + 1 : 1))
        out_of_memory(m);
}

/* One atom for several literals of a field. */
static uint32_t list_atom(making *m, uint32_t field, rules_expr *const *leaves, uint32_t count) {
    enum rules_place place = RULES_WHOLE;
    uint32_t begin = 0, end = 0;
    int is_new;
    key_begin(m, RULES_ATOM_LIST, field);
    for (uint32_t i = 0; i < count; i++) {
        (void)form_of(&leaves[i]->leaf, &place, &begin, &end);
        ea_text_char(&m->key, (char)place);
        ea_text_le32(&m->key, end - begin);
        for (uint32_t k = begin; k < end; k++)
            ea_text_char(&m->key, ea_ascii_lower(leaves[i]->leaf.string.text[k]));
    }
    uint32_t atom = atom_of_key(m, &is_new);
    if (!is_new)
        return atom;
    char *copy = compile_take(m, m->scratch, m->key.len_bytes, 1);
    memcpy(copy, m->key.data, m->key.len_bytes);
    for (size_t at = 5; at < m->key.len_bytes;) {
        uint32_t len = ea_load32(copy + at + 1);
        rules_compile_add_literal(m, field, copy + at + 5, len, (enum rules_place)copy[at], atom);
        at += 5 + len;
    }
    return atom;
}

static uint32_t pattern_atom(making *m, uint32_t field, const rules_leaf *leaf) {
    rules_regex_problem problem = {.message = ""};
    rules_nfa nfa = {0};
    int is_new, rc;
    key_begin(m, RULES_ATOM_PATTERN, field);
    ea_text_char(&m->key, (char)leaf->kind);
    ea_text_char(&m->key, (char)(leaf->kind == RULES_LEAF_REGEX ? leaf->flags : (unsigned)leaf->is_cased));
    ea_text_add(&m->key, leaf->string.text, leaf->string.len_bytes);
    if (leaf->kind == RULES_LEAF_STRING)
        ea_text_add(&m->key, leaf->string.wild, leaf->string.len_bytes);
    uint32_t known = known_atom(m);
    if (known)
        return known - 1;
    if (leaf->kind == RULES_LEAF_REGEX)
        rc = rules_regex_compile(m->arena, leaf->string.text, leaf->string.len_bytes, leaf->flags, &nfa, &problem);
    else
        rc = rules_wildcards_compile(m->arena, leaf->string.text, leaf->string.wild, leaf->string.len_bytes,
                                     leaf->is_cased, &nfa, &problem);
    m->state_count += nfa.count;
    if (!rc && m->state_count > EA_RULES_STATES_MAX) {
        snprintf(problem.message, sizeof problem.message, "all of them need more than %d states: split the rule",
                 EA_RULES_STATES_MAX);
        rc = EA_EINVAL;
    }
    if (rc == EA_EINVAL) {
        *m->problem = (ea_rules_problem){.file = m->rule->info.file,
                                         .line = m->rule->condition_line,
                                         .column = m->rule->column,
                                         .is_unsupported = 1};
        snprintf(m->problem->message, sizeof m->problem->message, "%s: %s",
                 leaf->kind == RULES_LEAF_REGEX ? "a regular expression" : "a value with wildcards", problem.message);
        m->code = EA_EINVAL;
        longjmp(m->failed, 1);
    }
    if (rc)
        out_of_memory(m);
    /* not before: of a refused pattern no atom stays, which another rule would find */
    uint32_t atom = atom_of_key(m, &is_new);
    GROW(m, m->patterns, m->pattern_capacity, m->rules->pattern_count + 1);
    m->patterns[m->rules->pattern_count] = nfa;
    m->atoms[atom].pattern = (uint32_t)m->rules->pattern_count++;
    if (nfa.literal) {
        key_begin(m, RULES_ATOM_LIST, field);
        ea_text_char(&m->key, RULES_CONTAINED);
        ea_text_le32(&m->key, (uint32_t)nfa.literal_bytes);
        ea_text_add(&m->key, nfa.literal, nfa.literal_bytes);
        uint32_t gate = atom_of_key(m, &is_new);
        m->atoms[atom].gate = gate + 1;
        if (is_new)
            rules_compile_add_literal(m, field, nfa.literal, (uint32_t)nfa.literal_bytes, RULES_CONTAINED, gate);
    } else {
        uint32_t exists = exists_atom(m, field); /* may move the atoms */
        m->atoms[atom].gate = exists + 1;
    }
    return atom;
}

static uint32_t cidr_atom(making *m, uint32_t field, const rules_leaf *leaf) {
    int is_new;
    key_begin(m, RULES_ATOM_CIDR, field);
    ea_text_char(&m->key, (char)leaf->network.bits);
    ea_text_char(&m->key, (char)leaf->network.is_v6);
    ea_text_add(&m->key, leaf->network.bytes, 16);
    uint32_t atom = atom_of_key(m, &is_new);
    if (is_new) {
        struct literals *l = literals_of(m, field);
        GROW(m, l->networks, l->network_capacity, l->network_count + 1);
        l->networks[l->network_count++] = (rules_network){leaf->network, atom};
    }
    return atom;
}

static uint32_t number_atom(making *m, uint32_t field, const rules_leaf *leaf) {
    int is_new;
    uint64_t bits;
    memcpy(&bits, &leaf->number.real, sizeof bits);
    key_begin(m, RULES_ATOM_NUMBER, field);
    ea_text_char(&m->key, (char)leaf->compare);
    ea_text_char(&m->key, (char)(leaf->number.is_integer * 2 + leaf->number.is_negative));
    ea_text_le64(&m->key, leaf->number.magnitude);
    ea_text_le64(&m->key, bits);
    uint32_t atom = atom_of_key(m, &is_new);
    if (is_new) {
        uint32_t exists = exists_atom(m, field); /* may move the atoms */
        m->atoms[atom].number = leaf->number;
        m->atoms[atom].how = (uint8_t)leaf->compare;
        m->atoms[atom].gate = exists + 1;
    }
    return atom;
}

static uint32_t field_atom(making *m, uint32_t field, const rules_leaf *leaf) {
    int is_new;
    uint32_t other = field_number(m, leaf->other);
    key_begin(m, RULES_ATOM_FIELD, field);
    ea_text_le32(&m->key, other);
    ea_text_char(&m->key, (char)leaf->place);
    ea_text_char(&m->key, (char)leaf->is_cased);
    uint32_t atom = atom_of_key(m, &is_new);
    if (is_new) {
        uint32_t exists = exists_atom(m, field);
        m->atoms[atom].other = other;
        m->atoms[atom].how = (uint8_t)((unsigned)leaf->place | (leaf->is_cased ? 128u : 0));
        m->atoms[atom].gate = exists + 1;
    }
    return atom;
}

/* ---- conditions ---- */
static node *new_node(making *m, enum rules_expr_kind kind, uint32_t count) {
    node *n = compile_take(m, m->scratch, 1, sizeof *n);
    n->kind = kind;
    n->children = compile_take(m, m->scratch, count, sizeof(node *));
    n->count = count;
    return n;
}

static node *atom_node(making *m, uint32_t atom) {
    node *n = new_node(m, RULES_LEAF, 0);
    n->atom = atom;
    n->is_lazy = m->atoms[atom].kind >= RULES_ATOM_PATTERN;
    return n;
}

static int is_literal(const rules_expr *e) {
    enum rules_place place;
    uint32_t begin, end;
    return e->kind == RULES_LEAF && e->leaf.kind == RULES_LEAF_STRING &&
           form_of(&e->leaf, &place, &begin, &end) == FORM_LITERAL;
}

static node *leaf_node(making *m, rules_expr *e) {
    const rules_leaf *leaf = &e->leaf;
    uint32_t field = field_number(m, leaf->field), begin, end;
    enum rules_place place;
    switch (leaf->kind) {
    case RULES_LEAF_STRING:
        switch (form_of(leaf, &place, &begin, &end)) {
        case FORM_EXISTS:
            return atom_node(m, exists_atom(m, field));
        case FORM_EMPTY:
            return atom_node(m, empty_atom(m, field));
        case FORM_LITERAL:
            return atom_node(m, list_atom(m, field, &e, 1));
        case FORM_PATTERN:
            break;
        }
        return atom_node(m, pattern_atom(m, field, leaf));
    case RULES_LEAF_REGEX:
        return atom_node(m, pattern_atom(m, field, leaf));
    case RULES_LEAF_CIDR:
        return atom_node(m, cidr_atom(m, field, leaf));
    case RULES_LEAF_NUMBER:
        return atom_node(m, number_atom(m, field, leaf));
    case RULES_LEAF_FIELD:
        return atom_node(m, field_atom(m, field, leaf));
    case RULES_LEAF_EXISTS:
        return atom_node(m, exists_atom(m, field));
    }
    return NULL;
}

static int same_field(const rules_expr *a, const rules_expr *b) {
    return a->leaf.field == b->leaf.field ||
           (a->leaf.field && b->leaf.field && strcmp(a->leaf.field, b->leaf.field) == 0);
}

static node *node_of(making *m, rules_expr *e);

/* Children that are literals of one field become one atom. */
static node *or_node(making *m, rules_expr *e) {
    node *n = new_node(m, RULES_OR, e->count);
    rules_expr **group = compile_take(m, m->scratch, e->count, sizeof *group);
    uint8_t *is_taken = compile_take(m, m->scratch, e->count, 1);
    n->count = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t count = 0;
        if (is_taken[i])
            continue;
        if (!is_literal(e->children[i])) {
            n->children[n->count++] = node_of(m, e->children[i]);
            continue;
        }
        for (uint32_t k = i; k < e->count; k++)
            if (!is_taken[k] && is_literal(e->children[k]) && same_field(e->children[i], e->children[k])) {
                group[count++] = e->children[k];
                is_taken[k] = 1;
            }
        n->children[n->count++] = atom_node(m, list_atom(m, field_number(m, e->children[i]->leaf.field), group, count));
    }
    return n;
}

static node *node_of(making *m, rules_expr *e) {
    node *n;
    if (e->node)
        return e->node;
    if (e->kind == RULES_LEAF) {
        n = leaf_node(m, e);
    } else if (e->kind == RULES_OR) {
        n = or_node(m, e);
    } else {
        n = new_node(m, e->kind, e->count);
        for (uint32_t i = 0; i < e->count; i++)
            n->children[i] = node_of(m, e->children[i]);
    }
    for (uint32_t i = 0; i < n->count; i++)
        n->is_lazy |= n->children[i]->is_lazy;
    e->node = n;
    return n;
}

/* ---- programs ---- */
static uint32_t compile_emit(making *m, const node *n, uint32_t yes, uint32_t no) {
    uint32_t at = yes;
    switch (n->kind) {
    case RULES_LEAF:
        if (m->test_count == EA_RULES_TESTS_MAX) {
            *m->problem = (ea_rules_problem){.file = m->rule->info.file,
                                             .line = m->rule->condition_line,
                                             .column = m->rule->column,
                                             .is_unsupported = 1};
            snprintf(m->problem->message, sizeof m->problem->message,
                     "the condition needs more than %d tests: split the rule", EA_RULES_TESTS_MAX);
            m->code = EA_EINVAL;
            longjmp(m->failed, 1);
        }
        GROW(m, m->tests, m->test_capacity, m->test_count + 1);
        m->tests[m->test_count] = (rules_test){n->atom, yes, no};
        return (uint32_t)m->test_count++;
    case RULES_NOT:
        return compile_emit(m, n->children[0], no, yes);
    case RULES_AND: /* what is known already is tested first, so it is emitted last */
        for (int lazy = 1; lazy >= 0; lazy--)
            for (uint32_t i = n->count; i--;)
                if (n->children[i]->is_lazy == lazy)
                    at = compile_emit(m, n->children[i], at, no);
        return at;
    case RULES_OR:
        at = no;
        for (int lazy = 1; lazy >= 0; lazy--)
            for (uint32_t i = n->count; i--;)
                if (n->children[i]->is_lazy == lazy)
                    at = compile_emit(m, n->children[i], yes, at);
        return at;
    }
    return no;
}

/* ---- triggers ---- */
static const float NEVER = 1e30f; /* no atom is needed */

static float atom_cost(making *m, uint32_t atom) {
    const rules_atom *a = &m->atoms[atom];
    switch ((enum rules_atom_kind)a->kind) {
    case RULES_ATOM_LIST:
        return m->costs[atom];
    case RULES_ATOM_EMPTY:
        return 50;
    case RULES_ATOM_CIDR:
        return 100;
    case RULES_ATOM_EXISTS:
        return 10000;
    default:
        return m->atoms[a->gate - 1].kind == RULES_ATOM_LIST ? m->costs[a->gate - 1] : 10001;
    }
}

/* What the cheapest set of triggers costs of a node that is true (is_not: that is false). */
static float rules_compile_cost_of(making *m, const node *n, int is_not) {
    float cost;
    switch (n->kind) {
    case RULES_LEAF:
        return is_not ? NEVER : atom_cost(m, n->atom);
    case RULES_NOT:
        return rules_compile_cost_of(m, n->children[0], !is_not);
    default:
        break;
    }
    int is_all = (n->kind == RULES_AND) != is_not;
    cost = is_all ? NEVER : 0;
    for (uint32_t i = 0; i < n->count; i++) {
        float c = rules_compile_cost_of(m, n->children[i], is_not);
        cost = is_all ? (c < cost ? c : cost) : cost + c;
    }
    return cost > NEVER ? NEVER : cost;
}

/* While triggers are collected: the atom's last program, one more than its number. */
typedef struct trigger {
    uint32_t atom, program;
} trigger;

typedef struct triggers {
    trigger *items;
    size_t count, capacity;
} triggers;

static void collect(making *m, const node *n, int is_not, uint32_t program, triggers *t) {
    if (n->kind == RULES_NOT) {
        collect(m, n->children[0], !is_not, program, t);
        return;
    }
    if (n->kind == RULES_LEAF) {
        const rules_atom *a = &m->atoms[n->atom];
        GROW(m, t->items, t->capacity, t->count + 1);
        t->items[t->count++] = (trigger){a->kind >= RULES_ATOM_PATTERN ? a->gate - 1 : n->atom, program};
        return;
    }
    if ((n->kind == RULES_AND) != is_not) {
        const node *best = n->children[0];
        float least = rules_compile_cost_of(m, best, is_not);
        for (uint32_t i = 1; i < n->count; i++) {
            float c = rules_compile_cost_of(m, n->children[i], is_not);
            if (c < least) {
                least = c;
                best = n->children[i];
            }
        }
        collect(m, best, is_not, program, t);
        return;
    }
    for (uint32_t i = 0; i < n->count; i++)
        collect(m, n->children[i], is_not, program, t);
}

static int compare_triggers(const void *a, const void *b) {
    const trigger *x = a, *y = b;
    if (x->atom != y->atom)
        return x->atom < y->atom ? -1 : 1;
    return (x->program > y->program) - (x->program < y->program);
}

static void keep_triggers(making *m, triggers *t) {
    rules_group *g = m->g;
    uint32_t count = 0;
    size_t next = 0;
    if (t->count > 1)
        qsort(t->items, t->count, sizeof *t->items, compare_triggers);
    g->triggers = compile_take(m, m->arena, t->count, sizeof *g->triggers);
    g->trigger_at = compile_take(m, m->arena, (size_t)g->atom_count + 1, sizeof *g->trigger_at);
    for (uint32_t atom = 0; atom < g->atom_count; atom++) {
        g->trigger_at[atom] = count;
        for (; next < t->count && t->items[next].atom == atom; next++)
            if (!next || compare_triggers(&t->items[next], &t->items[next - 1]) != 0)
                g->triggers[count++] = t->items[next].program;
    }
    g->trigger_at[g->atom_count] = count;
}

/* How often a list's literals are found, as far as one can say without events. */
static void set_costs(making *m) {
    static const float BY_LENGTH[] = {200, 200, 100, 40, 15, 8, 4, 3};
    for (uint32_t f = 0; f <= m->g->field_count; f++) {
        const struct literals *l = &m->fields[f];
        uint32_t field = f == m->g->field_count ? UINT32_MAX : f;
        for (size_t i = 0; i < l->count; i++) {
            const rules_literal *x = &l->items[i];
            const uint64_t *popular = ea_u64_map_get(&m->popular, ea_hash64(x->text, x->len_bytes, field));
            float cost = x->len_bytes < 8 ? BY_LENGTH[x->len_bytes] : 2;
            m->costs[x->atom] +=
                cost * (x->place == RULES_CONTAINED ? 1 : 0.5f) * (1 + (float)(popular ? *popular : 1) / 4);
        }
    }
}

/* ---- groups ---- */
static int compare_networks(const void *a, const void *b) {
    const rules_network *x = a, *y = b;
    if (x->address.is_v6 != y->address.is_v6)
        return x->address.is_v6 < y->address.is_v6 ? -1 : 1;
    if (x->address.bits != y->address.bits)
        return x->address.bits < y->address.bits ? -1 : 1;
    return memcmp(x->address.bytes, y->address.bytes, sizeof x->address.bytes);
}

static void build_automaton(making *m, struct literals *l, rules_automaton *ret) {
    if (!l->count)
        return;
    if (rules_automaton_build(m->arena, l->items, l->count, ret))
        out_of_memory(m);
    if (ret->output_count > m->g->output_max)
        m->g->output_max = ret->output_count;
}

static void finish_group(making *m, node *const *conditions, const rules_program *programs, uint32_t count) {
    rules_group *g = m->g;
    triggers t = {0};
    set_costs(m);
    uint32_t *always = compile_take(m, m->arena, count, sizeof *always);
    g->always = always;
    for (uint32_t i = 0; i < count; i++) {
        if (rules_compile_cost_of(m, conditions[i], 0) >= NEVER)
            always[g->always_count++] = i;
        else
            collect(m, conditions[i], 0, i, &t);
    }
    g->programs = compile_keep(m, programs, count, sizeof *programs);
    g->program_count = count;
    g->atoms = compile_keep(m, m->atoms, g->atom_count, sizeof *g->atoms);
    keep_triggers(m, &t);
    free(t.items);
    for (uint32_t f = 0; f < g->field_count; f++) {
        struct literals *l = &m->fields[f];
        build_automaton(m, l, &m->field_items[f].automaton);
        if (l->network_count > 1)
            qsort(l->networks, l->network_count, sizeof *l->networks, compare_networks);
        m->field_items[f].networks = compile_keep(m, l->networks, l->network_count, sizeof *l->networks);
        m->field_items[f].network_count = (uint32_t)l->network_count;
    }
    build_automaton(m, &m->fields[g->field_count], &g->keywords);
    g->fields = compile_keep(m, m->field_items, g->field_count, sizeof *g->fields);
}

static void end_group(making *m) {
    for (uint32_t f = 0; m->fields && m->g && f <= m->g->field_count; f++) {
        free(m->fields[f].items);
        free(m->fields[f].networks);
    }
    free(m->fields);
    free(m->field_items);
    m->fields = NULL;
    m->field_items = NULL;
    m->field_capacity = m->field_item_capacity = 0;
    ea_bytes_map_clear(&m->atom_of);
    ea_u64_map_clear(&m->popular);
    ea_arena_recycle(m->scratch);
}

static const char *rules_compile_keep_text(making *m, const char *s) {
    return compile_keep(m, s, strlen(s) + 1, 1);
}

static const char *const *keep_texts(making *m, const char *const *texts, uint32_t count) {
    const char **kept = compile_take(m, m->arena, count, sizeof *kept);
    for (uint32_t i = 0; i < count; i++)
        kept[i] = rules_compile_keep_text(m, texts[i]);
    return kept;
}

static void keep_info(making *m, const rules_rule *r, uint32_t group, ea_rule_info *ret) {
    const ea_rule_info *i = &r->info;
    *ret = *i;
    ret->file = rules_compile_keep_text(m, i->file);
    ret->title = rules_compile_keep_text(m, i->title);
    ret->id = rules_compile_keep_text(m, i->id);
    ret->name = rules_compile_keep_text(m, i->name);
    ret->level = rules_compile_keep_text(m, i->level);
    ret->status = rules_compile_keep_text(m, i->status);
    ret->product = rules_compile_keep_text(m, i->product);
    ret->category = rules_compile_keep_text(m, i->category);
    ret->service = rules_compile_keep_text(m, i->service);
    ret->text = rules_compile_keep_text(m, i->text);
    ret->tags = keep_texts(m, i->tags, i->tag_count);
    ret->fields = keep_texts(m, i->fields, i->field_count);
    ret->group = group;
}

static void keep_filter(making *m, const rules_rule *r, uint32_t group, ea_rule_filter *ret) {
    const ea_rule_filter *f = r->filter;
    *ret = *f;
    ret->file = rules_compile_keep_text(m, r->info.file);
    ret->line = r->info.line;
    ret->title = rules_compile_keep_text(m, r->info.title);
    ret->id = rules_compile_keep_text(m, r->info.id);
    ret->shares_title = r->info.shares_title;
    ret->rules = keep_texts(m, f->rules, f->rule_count);
    ret->hosts = keep_texts(m, f->hosts, f->host_count);
    ret->group = group;
}

/* Fields that a correlation of the group's rules compares: events are to be given with them. */
static void add_correlated_fields(making *m, rules_rule *const *rules, size_t count) {
    for (const rules_rule *c = m->documents; c; c = c->next) {
        int is_used = 0;
        for (uint32_t i = 0; c->correlation && i < c->name_count && !is_used; i++)
            for (size_t k = 0; k < count && !is_used; k++)
                is_used = !rules[k]->filter && rules_is_named(&rules[k]->info, c->names[i]);
        for (uint32_t i = 0; is_used && i < c->correlation->field_count; i++)
            (void)field_number(m, c->correlation->fields[i]);
        if (is_used && *c->correlation->field)
            (void)field_number(m, c->correlation->field);
    }
}

/* The condition and the program of a rule; 0, EA_EINVAL with the problem, or EA_ENOMEM. */
static int compile_rule(making *m, rules_rule *r, node **ret_condition, rules_program *ret) {
    m->rule = r;
    m->test_count = 0;
    m->state_count = 0;
    m->code = 0;
    if (setjmp(m->failed))
        return m->code;
    node *condition = node_of(m, r->condition);
    uint32_t start = compile_emit(m, condition, RULES_HOLDS, RULES_FAILS);
    *ret = (rules_program){compile_keep(m, m->tests, m->test_count, sizeof *m->tests), start, 0};
    *ret_condition = condition;
    return 0;
}

/* Adds a rule that was compiled. */
static int keep_rule(making *m, const rules_rule *r, rules_program *program, uint32_t number) {
    ea_rules *all = m->rules;
    if (setjmp(m->failed))
        return m->code;
    if (r->filter) {
        keep_filter(m, r, (uint32_t)all->group_count, &all->filters[all->filter_count]);
        program->rule = RULES_FILTER | (uint32_t)all->filter_count++;
        return 0;
    }
    keep_info(m, r, (uint32_t)all->group_count, &all->infos[all->count]);
    program->rule = (uint32_t)all->count;
    all->program_of[all->count++] = number;
    return 0;
}

static int keep_group(making *m, rules_rule *const *rules, size_t rule_count, node *const *conditions,
                      const rules_program *programs, uint32_t count) {
    const ea_rule_info *source = &rules[0]->info;
    m->code = 0;
    if (setjmp(m->failed))
        return m->code;
    add_correlated_fields(m, rules, rule_count);
    m->g->product = rules_compile_keep_text(m, source->product);
    m->g->category = rules_compile_keep_text(m, source->category);
    m->g->service = rules_compile_keep_text(m, source->service);
    finish_group(m, conditions, programs, count);
    return 0;
}

static int compile_group(making *m, rules_rule *const *rules, size_t count,
                         void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg) {
    node **conditions = calloc(count, sizeof *conditions);
    rules_program *programs = calloc(count, sizeof *programs);
    m->fields = calloc(1, sizeof *m->fields);
    m->field_capacity = m->fields ? 1 : 0;
    int rc = conditions && programs && m->fields ? 0 : EA_ENOMEM;
    uint32_t kept = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        ea_rules_problem problem = {0};
        m->problem = &problem;
        rc = compile_rule(m, rules[i], &conditions[kept], &programs[kept]);
        if (rc == EA_EINVAL) {
            on_problem(arg, &problem);
            rc = 0;
        } else if (!rc) {
            rc = keep_rule(m, rules[i], &programs[kept], kept);
            kept++;
        }
    }
    if (!rc)
        rc = keep_group(m, rules, count, conditions, programs, kept);
    end_group(m);
    free(conditions);
    free(programs);
    return rc;
}

static int compare_sources(const rules_rule *x, const rules_rule *y) {
    int order = strcmp(x->info.product, y->info.product);
    if (!order)
        order = strcmp(x->info.category, y->info.category);
    return order ? order : strcmp(x->info.service, y->info.service);
}

static int compare_rules(const void *a, const void *b) {
    const rules_rule *x = *(rules_rule *const *)a, *y = *(rules_rule *const *)b;
    int order = compare_sources(x, y);
    if (!order)
        order = strcmp(x->info.file, y->info.file);
    return order ? order : (x->info.line > y->info.line) - (x->info.line < y->info.line);
}

/* A rule that a filter names and that is not there: its exceptions would silently be missing. */
static void rules_compile_check_filter(const ea_rules *all, const ea_rule_filter *f,
                                       void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg) {
    for (uint32_t i = 0; i < f->rule_count; i++) {
        size_t k = 0;
        while (k < all->count && (all->infos[k].group != f->group || !rules_is_named(&all->infos[k], f->rules[i])))
            k++;
        if (k < all->count)
            continue;
        ea_rules_problem problem = {.file = f->file, .line = f->line, .column = 1};
        snprintf(problem.message, sizeof problem.message,
                 "the filter names a rule that its log source does not have: no id, name or title is \"%.200s\"",
                 f->rules[i]);
        on_problem(arg, &problem);
    }
}

/* A field that the correlation compares, and that the one which it names does not: it would silently be missing. */
static int check_chained(const ea_rule_correlation *c, const ea_rule_correlation *part, ea_rules_problem *problem) {
    for (uint32_t i = 0; i <= c->field_count; i++) {
        const char *field = i < c->field_count ? c->fields[i] : c->field;
        uint32_t k = 0;
        while (*field && k < part->field_count && strcmp(part->fields[k], field) != 0)
            k++;
        if (*field && k == part->field_count) {
            snprintf(problem->message, sizeof problem->message,
                     "the correlation compares \"%.80s\", which is not in the group-by of \"%.200s\"", field,
                     part->info.title);
            return EA_EINVAL;
        }
    }
    return 0;
}

static int take_found(uint32_t *found, ea_rule_correlation *ret, uint32_t rule, uint32_t before, const char *name,
                      ea_rules_problem *problem) {
    for (uint32_t n = 0; n < ret->rule_count; n++)
        if (found[n] == rule || ret->rule_count > before) {
            snprintf(problem->message, sizeof problem->message,
                     "the correlation names a rule twice, or \"%.200s\" names several", name);
            return EA_EINVAL;
        }
    found[ret->rule_count++] = rule;
    return 0;
}

/* Fails for a name that is no rule and no correlation before it: the correlation would silently never hold. */
static int find_rules(making *m, const rules_rule *r, ea_rule_correlation *ret, ea_rules_problem *problem) {
    const ea_rules *all = m->rules;
    uint32_t *found = compile_take(m, m->arena, EA_RULES_CORRELATED_MAX, sizeof *found);
    int rc = 0;
    for (uint32_t i = 0; i < r->name_count && !rc; i++) {
        uint32_t before = ret->rule_count;
        for (uint32_t k = 0; k < all->count && !rc; k++)
            if (rules_is_named(&all->infos[k], r->names[i]))
                rc = take_found(found, ret, k, before, r->names[i], problem);
        for (uint32_t k = 0; k < all->correlation_count && !rc; k++)
            if (rules_is_named(&all->correlations[k].info, r->names[i])) {
                rc = take_found(found, ret, EA_RULES_CORRELATION | k, before, r->names[i], problem);
                rc = rc ? rc : check_chained(ret, &all->correlations[k], problem);
            }
        if (!rc && ret->rule_count == before) {
            snprintf(problem->message, sizeof problem->message,
                     "the correlation names an unknown rule: no id, name or title is \"%.200s\"", r->names[i]);
            return EA_EINVAL;
        }
    }
    ret->rules = found;
    return rc;
}

/* Whether it names a correlation that is not kept yet, and may still be (is_done 0), or was refused for that (2). */
static int waits_for_another(making *m, const rules_rule *r, const uint8_t *is_done) {
    size_t at = 0;
    for (const rules_rule *c = m->documents; c; c = c->next) {
        if (!c->correlation || is_done[at++] == 1)
            continue;
        for (uint32_t i = 0; i < r->name_count; i++)
            if (rules_is_named(&c->info, r->names[i]))
                return 1;
    }
    return 0;
}

static int keep_correlation(making *m, const rules_rule *r, ea_rules_problem *problem) {
    ea_rules *all = m->rules;
    ea_rule_correlation *c = &all->correlations[all->correlation_count];
    m->code = 0;
    if (setjmp(m->failed))
        return m->code;
    *c = *r->correlation;
    keep_info(m, r, UINT32_MAX, &c->info);
    *problem = (ea_rules_problem){.file = c->info.file, .line = c->info.line, .column = 1};
    c->fields = keep_texts(m, c->fields, c->field_count);
    c->field = rules_compile_keep_text(m, c->field);
    int rc = find_rules(m, r, c, problem);
    for (uint32_t i = 0; i < c->rule_count && !rc; i++) {
        uint32_t below =
            c->rules[i] & EA_RULES_CORRELATION ? all->correlations[c->rules[i] & ~EA_RULES_CORRELATION].depth + 1 : 0;
        c->depth = below > c->depth ? below : c->depth;
    }
    if (!rc && c->depth >= EA_RULES_CHAIN_MAX) {
        snprintf(problem->message, sizeof problem->message, "more than %d correlations are one over the other",
                 EA_RULES_CHAIN_MAX);
        rc = EA_EINVAL;
    }
    all->correlation_count += !rc;
    return rc;
}

static ea_rule_info *part_info(ea_rules *all, uint32_t rule) {
    return rule & EA_RULES_CORRELATION ? &all->correlations[rule & ~EA_RULES_CORRELATION].info : &all->infos[rule];
}

/* A correlation is kept after those that it names. What is left then names itself over others. */
static int keep_correlations(making *m, size_t count, void (*on_problem)(void *arg, const ea_rules_problem *problem),
                             void *arg) {
    ea_rules *all = m->rules;
    uint8_t *is_done = ea_arena_zalloc(m->scratch, count + 1, 1);
    int rc = is_done ? 0 : EA_ENOMEM;
    for (int pass = 0; pass <= EA_RULES_CHAIN_MAX && !rc; pass++) {
        size_t at = 0;
        for (const rules_rule *r = m->documents; r && !rc; r = r->next) {
            ea_rules_problem problem = {.file = r->info.file, .line = r->info.line, .column = 1};
            int waits = r->correlation && !is_done[at] && waits_for_another(m, r, is_done);
            if (!r->correlation || is_done[at++] || (waits && pass < EA_RULES_CHAIN_MAX))
                continue;
            is_done[at - 1] = pass < EA_RULES_CHAIN_MAX ? 1 : 2;
            rc = waits ? EA_EINVAL : keep_correlation(m, r, &problem);
            if (waits)
                snprintf(problem.message, sizeof problem.message,
                         "the correlation names itself, over others or not, or one that is refused for that");
            if (rc == EA_EINVAL) {
                on_problem(arg, &problem);
                rc = 0;
            }
        }
    }
    for (int generates = 0; generates < 2; generates++) /* one that lets a rule make detections is enough */
        for (size_t i = 0; i < all->correlation_count; i++)
            for (uint32_t k = 0; k < all->correlations[i].rule_count; k++)
                if (all->correlations[i].generates == generates)
                    part_info(all, all->correlations[i].rules[k])->is_part = !generates;
    return rc;
}

/* Finds the rules and filters without an id whose titles are ids, or titles of others before: what is kept by the title
 * would be taken for another's. */
static int find_shared_titles(ea_rules_builder *b) {
    ea_bytes_map titles[2]; /* of rules, of filters */
    int rc = 0;
    ea_bytes_map_init(&titles[0], 0);
    ea_bytes_map_init(&titles[1], 0);
    for (rules_rule *r = b->first; r && !rc; r = r->next) {
        ea_bytes_map *known = &titles[r->filter != NULL];
        size_t len = strlen(r->info.title);
        if (*r->info.id || !len)
            continue;
        r->info.shares_title =
            ea_bytes_map_get(known, r->info.title, len) || ea_bytes_map_get(&b->by_id, r->info.title, len);
        if (!r->info.shares_title)
            rc = ea_bytes_map_put(known, r->info.title, len, r);
    }
    ea_bytes_map_deinit(&titles[0]);
    ea_bytes_map_deinit(&titles[1]);
    return rc;
}

int ea_rules_build(ea_rules_builder *b, ea_rules **ret, void (*on_problem)(void *arg, const ea_rules_problem *problem),
                   void *arg) {
    ea_rules *all = calloc(1, sizeof *all);
    rules_rule **rules = calloc(b->count + 1, sizeof *rules);
    making *m = calloc(1, sizeof *m);
    ea_arena scratch;
    size_t count = 0;
    int rc = all && rules && m ? 0 : EA_ENOMEM;
    ea_arena_init(&scratch, COMPILED_MAX_BYTES);
    if (!rc) {
        ea_arena_init(&all->arena, COMPILED_MAX_BYTES);
        all->infos = ea_arena_zalloc(&all->arena, b->count + 1, sizeof *all->infos);
        all->correlations = ea_arena_zalloc(&all->arena, b->correlation_count + 1, sizeof *all->correlations);
        all->filters = ea_arena_zalloc(&all->arena, b->filter_count + 1, sizeof *all->filters);
        all->program_of = ea_arena_zalloc(&all->arena, b->count + 1, sizeof *all->program_of);
        all->groups = ea_arena_zalloc(&all->arena, b->count + 1, sizeof *all->groups);
        m->rules = all;
        m->documents = b->first;
        m->arena = &all->arena;
        m->scratch = &scratch;
        ea_bytes_map_init(&m->atom_of, 0);
        ea_u64_map_init(&m->popular, 0);
        ea_text_init(&m->key);
        if (!all->infos || !all->filters || !all->correlations || !all->program_of || !all->groups)
            rc = EA_ENOMEM;
    }
    if (!rc)
        rc = find_shared_titles(b);
    for (rules_rule *r = b->first; r && rules; r = r->next)
        if (!r->correlation)
            rules[count++] = r;
    if (count > 1 && !rc)
        qsort(rules, count, sizeof *rules, compare_rules);
    for (size_t i = 0; i < count && !rc;) {
        size_t end = i + 1;
        while (end < count && compare_sources(rules[i], rules[end]) == 0)
            end++;
        m->g = &all->groups[all->group_count];
        ea_bytes_map_init(&m->g->numbers, 0);
        rc = compile_group(m, rules + i, end - i, on_problem, arg);
        all->group_count++;
        i = end;
    }
    for (size_t i = 0; !rc && i < all->filter_count; i++)
        rules_compile_check_filter(all, &all->filters[i], on_problem, arg);
    if (!rc)
        rc = keep_correlations(m, b->correlation_count, on_problem, arg);
    if (m) {
        if (all) {
            all->patterns = m->patterns;
            m->patterns = NULL;
        }
        ea_bytes_map_deinit(&m->atom_of);
        ea_u64_map_deinit(&m->popular);
        ea_text_deinit(&m->key);
        free(m->atoms);
        free(m->costs);
        free(m->tests);
        free(m);
    }
    ea_arena_deinit(&scratch);
    free(rules);
    if (rc) {
        ea_rules_destroy(all);
        return rc;
    }
    *ret = all;
    return 0;
}

void ea_rules_destroy(ea_rules *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->group_count; i++)
        ea_bytes_map_deinit(&r->groups[i].numbers);
    free(r->patterns);
    ea_arena_deinit(&r->arena);
    free(r);
}

/* ---- questions ---- */
size_t ea_rules_count(const ea_rules *r) {
    return r->count;
}

const ea_rule_info *ea_rules_info(const ea_rules *r, uint32_t rule) {
    return &r->infos[rule];
}

size_t ea_rules_correlation_count(const ea_rules *r) {
    return r->correlation_count;
}

const ea_rule_correlation *ea_rules_correlation(const ea_rules *r, uint32_t correlation) {
    return &r->correlations[correlation];
}

size_t ea_rules_filter_count(const ea_rules *r) {
    return r->filter_count;
}

const ea_rule_filter *ea_rules_filter(const ea_rules *r, uint32_t filter) {
    return &r->filters[filter];
}

size_t ea_rules_bytes(const ea_rules *r) {
    return r->arena.used_bytes + r->pattern_count * sizeof *r->patterns;
}

size_t ea_rules_group_count(const ea_rules *r) {
    return r->group_count;
}

uint32_t ea_rules_group(const ea_rules *r, const char *product, const char *category, const char *service) {
    for (uint32_t i = 0; i < r->group_count; i++)
        if (strcmp(r->groups[i].product, product) == 0 && strcmp(r->groups[i].category, category) == 0 &&
            strcmp(r->groups[i].service, service) == 0)
            return i;
    return UINT32_MAX;
}

uint32_t ea_rules_field(const ea_rules *r, uint32_t group, const char *name) {
    uintptr_t known = (uintptr_t)ea_bytes_map_get(&r->groups[group].numbers, name, strlen(name));
    return known ? (uint32_t)known - 1 : UINT32_MAX;
}

/* An atom of a missing field is false: what follows from the tests that are reached then. */
int ea_rules_can_hold(const ea_rules *r, uint32_t rule, int (*has)(void *arg, const char *field), void *arg, int *ret) {
    const rules_group *g = &r->groups[r->infos[rule].group];
    const rules_program *p = &g->programs[r->program_of[rule]];
    uint32_t count = p->start + 1;
    int found = 0;
    uint8_t *reached = calloc(count, 1);
    uint8_t *is_there = calloc((size_t)g->field_count + 1, 1);
    if (!reached || !is_there) {
        free(reached);
        free(is_there);
        return EA_ENOMEM;
    }
    for (uint32_t f = 0; f < g->field_count; f++)
        is_there[f] = (uint8_t)(has(arg, g->fields[f].name) != 0);
    reached[p->start] = 1;
    for (uint32_t i = count; i-- && !found;) { /* targets are lower: each is seen after what leads to it */
        const rules_test *t = &p->tests[i];
        const rules_atom *a = &g->atoms[t->atom];
        if (!reached[i])
            continue;
        int may = a->field == UINT32_MAX || (is_there[a->field] && (a->kind != RULES_ATOM_FIELD || is_there[a->other]));
        const uint32_t targets[2] = {t->no, may ? t->yes : t->no};
        for (unsigned k = 0; k < 2; k++) {
            if (targets[k] == RULES_HOLDS)
                found = 1;
            else if (targets[k] != RULES_FAILS)
                reached[targets[k]] = 1;
        }
    }
    free(reached);
    free(is_there);
    *ret = found;
    return 0;
}
