/* Builds and runs the automaton. See rules_automaton.h. The states are numbered breadth first out of the sorted
 * literals: the children of a state follow each other, and a state's shorter endings come before it. rules_cells.c
 * makes a table of their edges. Thread: building is the compiler's; a scan is the caller's. */
#include "proto/rules/rules_cells.h"

#include <stdlib.h>
#include <string.h>

static int compare_literals(const void *a, const void *b) {
    const rules_literal *x = a, *y = b;
    uint32_t n = x->len_bytes < y->len_bytes ? x->len_bytes : y->len_bytes;
    int order = memcmp(x->text, y->text, n);
    if (order)
        return order;
    if (x->len_bytes != y->len_bytes)
        return x->len_bytes < y->len_bytes ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->atom > y->atom) - (x->atom < y->atom);
}

/* While it is built: the literals that begin as the state does. */
typedef struct extent {
    uint32_t begin, end;
} extent;

typedef struct making {
    const rules_literal *literals;
    size_t count;
    rules_trie_state *states;
    extent *extents;
    uint32_t state_count;
    size_t state_limit;
    rules_output *outputs;
    uint32_t output_count, atom_count;
    uint32_t *atoms;
} making;

/* How many states there are: one a prefix that differs. */
static uint64_t count_states(const rules_literal *l, size_t count, uint32_t *ret_outputs) {
    uint64_t states = 1;
    uint32_t outputs = 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t same = 0;
        if (i) {
            uint32_t n = l[i].len_bytes < l[i - 1].len_bytes ? l[i].len_bytes : l[i - 1].len_bytes;
            while (same < n && l[i].text[same] == l[i - 1].text[same])
                same++;
        }
        states += l[i].len_bytes - same;
        outputs += i == 0 || same < l[i].len_bytes || l[i - 1].len_bytes != l[i].len_bytes;
    }
    *ret_outputs = outputs;
    return states;
}

/* The literals that end in the state: the first ones of its extent. */
static void take_outputs(making *m, uint32_t state) {
    rules_trie_state *s = &m->states[state];
    extent *e = &m->extents[state];
    if (e->begin == e->end || m->literals[e->begin].len_bytes != s->depth)
        return;
    rules_output *o = &m->outputs[m->output_count];
    o->state = state;
    o->depth = s->depth;
    for (uint32_t place = 0; place < RULES_PLACES; place++) {
        o->atoms[place] = m->atom_count;
        for (; e->begin < e->end && m->literals[e->begin].len_bytes == s->depth && m->literals[e->begin].place == place;
             e->begin++)
            if (m->atom_count == o->atoms[place] || m->atoms[m->atom_count - 1] != m->literals[e->begin].atom)
                m->atoms[m->atom_count++] = m->literals[e->begin].atom;
    }
    o->atoms[RULES_PLACES] = m->atom_count;
    s->output = m->output_count++;
}

static void add_children(making *m, uint32_t state) {
    rules_trie_state *s = &m->states[state];
    extent e = m->extents[state];
    s->first = m->state_count;
    while (e.begin < e.end) {
        uint8_t label = (uint8_t)m->literals[e.begin].text[s->depth];
        uint32_t from = e.begin;
        while (e.begin < e.end && (uint8_t)m->literals[e.begin].text[s->depth] == label)
            e.begin++;
        m->states[m->state_count] = (rules_trie_state){.depth = (uint16_t)(s->depth + 1), .label = label};
        m->extents[m->state_count++] = (extent){from, e.begin};
        s->child_count++;
    }
}

static uint32_t child_of(const rules_trie_state *states, const rules_trie_state *s, uint8_t label) {
    const rules_trie_state *c = states + s->first;
    unsigned low = 0, high = s->child_count;
    while (high - low > 4) {
        unsigned middle = (low + high) / 2;
        if (c[middle].label <= label)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (c[low].label == label)
            return s->first + low;
    return 0;
}

/* Where a state whose longest ending is `from` goes on with a byte. */
static uint32_t follow(const rules_trie_state *states, uint32_t from, uint8_t label) {
    for (;;) {
        uint32_t found = child_of(states, &states[from], label);
        if (found || !from)
            return found;
        from = states[from].fail;
    }
}

static void link_states(making *m) {
    for (uint32_t i = 0; i < m->state_count; i++) {
        const rules_trie_state *s = &m->states[i];
        for (uint32_t c = s->first; c < s->first + s->child_count; c++) {
            rules_trie_state *child = &m->states[c];
            child->fail = i ? follow(m->states, s->fail, child->label) : 0;
            uint32_t shorter = m->states[child->fail].output;
            if (child->output)
                m->outputs[child->output].next = shorter;
            else
                child->output = shorter;
        }
    }
}

/* The number of a byte's class, by the bytes of the literals. */
static void set_classes(const rules_trie_state *states, uint32_t count, rules_automaton *ret) {
    memset(ret->class_of, 0, sizeof ret->class_of);
    ret->class_count = 1;
    for (uint32_t i = 1; i < count; i++)
        if (!ret->class_of[states[i].label])
            ret->class_of[states[i].label] = (uint8_t)ret->class_count++;
    for (unsigned c = 'A'; c <= 'Z'; c++)
        ret->class_of[c] = ret->class_of[c + 'a' - 'A'];
}

static int build_trie(making *m) {
    m->extents = calloc(m->state_limit, sizeof *m->extents);
    if (!m->extents)
        return EA_ENOMEM;
    m->extents[0] = (extent){0, (uint32_t)m->count};
    for (uint32_t i = 0; i < m->state_count; i++) {
        take_outputs(m, i);
        add_children(m, i);
    }
    free(m->extents);
    link_states(m);
    return 0;
}

int rules_automaton_build(ea_arena *arena, rules_literal *literals, size_t count, rules_automaton *ret) {
    uint32_t outputs = 0;
    if (count > 1)
        qsort(literals, count, sizeof *literals, compare_literals);
    uint64_t states = count_states(literals, count, &outputs);
    if (states > RULES_TRIE_MAX)
        return EA_ELIMIT;
    making m = {.literals = literals, .count = count, .state_count = 1, .state_limit = (size_t)states};
    m.output_count = 1;
    m.states = calloc(m.state_limit, sizeof *m.states);
    m.outputs = ea_arena_zalloc(arena, outputs, sizeof *m.outputs);
    m.atoms = ea_arena_zalloc(arena, count + 1, sizeof *m.atoms);
    int rc = !m.outputs || !m.atoms ? ea_arena_error(arena) : m.states ? build_trie(&m) : EA_ENOMEM;
    if (!rc) {
        *ret = (rules_automaton){.outputs = m.outputs, .atoms = m.atoms};
        ret->output_count = m.output_count;
        ret->atom_count = m.atom_count;
        set_classes(m.states, m.state_count, ret);
        rc = rules_cells_build(arena, m.states, m.state_count, m.outputs, ret);
    }
    free(m.states);
    return rc;
}

typedef struct scan {
    const rules_automaton *a;
    void (*hit)(void *arg, uint32_t atom);
    void *arg;
} scan;

static inline void report(const scan *s, const rules_output *o, enum rules_place place) {
    for (uint32_t i = o->atoms[place]; i < o->atoms[place + 1]; i++)
        s->hit(s->arg, s->a->atoms[i]);
}

/* Where a state without an edge for the byte leads, when its endings have to be asked. */
static uint32_t skip(const rules_automaton *a, uint32_t state, uint32_t class_number, uint32_t shallow) {
    while (state & RULES_STATE_SKIPS) {
        state = a->infos[state & RULES_STATE_INDEX].skip;
        const rules_cell *cell = &a->cells[(state & RULES_STATE_INDEX) + class_number];
        if (cell->state == state)
            return cell->next;
    }
    return shallow;
}

void rules_automaton_scan(const rules_automaton *a, const char *text, size_t len_bytes, uint32_t *marks, uint32_t mark,
                          void (*hit)(void *arg, uint32_t atom), void *arg) {
    const scan s = {a, hit, arg};
    const uint32_t *row = a->shallow + (size_t)a->class_count * a->class_count;
    uint32_t at = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        uint32_t class_number = a->class_of[(uint8_t)text[i]];
        const rules_cell cell = a->cells[(at & RULES_STATE_INDEX) + class_number];
        uint32_t next = cell.state == at ? cell.next : row[class_number];
        if (at & RULES_STATE_SKIPS && cell.state != at)
            next = skip(a, at, class_number, next);
        at = next;
        row = a->shallow + (size_t)class_number * a->class_count;
        if (!(at & RULES_STATE_OUTPUTS))
            continue;
        uint32_t first = a->infos[at & RULES_STATE_INDEX].output;
        for (uint32_t o = first; o && marks[o] != mark; o = a->outputs[o].next) {
            marks[o] = mark;
            report(&s, &a->outputs[o], RULES_CONTAINED);
        }
        /* no byte was passed over so far: the text begins with the state's literals */
        if (a->outputs[first].state == at && a->outputs[first].depth == i + 1)
            report(&s, &a->outputs[first], RULES_AT_BEGIN);
    }
    if (!(at & RULES_STATE_OUTPUTS))
        return;
    uint32_t first = a->infos[at & RULES_STATE_INDEX].output;
    for (uint32_t o = first; o; o = a->outputs[o].next)
        report(&s, &a->outputs[o], RULES_AT_END);
    if (a->outputs[first].state == at && a->outputs[first].depth == len_bytes)
        report(&s, &a->outputs[first], RULES_WHOLE);
}
