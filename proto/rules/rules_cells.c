/* See rules_cells.h. A state has edges to states of three bytes or more: its own, and those of its endings, where these
 * are few; else it has its own, and its longest ending is asked where it has none. Each state takes the first place
 * where its cells are free. The place is looked for in a window that moves on, so that the work is linear. */
#include "proto/rules/rules_cells.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    EDGES_MAX = 24,  /* of a state, its own apart */
    ENDINGS_MAX = 8, /* whose edges it has */
    WINDOW = 128,
    NO_CLASS = 256
};

typedef struct edge {
    uint32_t class_number, to; /* to: a state of the trie */
} edge;

typedef struct placing {
    const rules_trie_state *states;
    uint32_t count;
    const uint8_t *class_of;
    rules_cell *cells;
    size_t cell_capacity;
    uint8_t *is_taken; /* by index: a state has it */
    size_t taken_capacity, ready;
    uint32_t *names; /* of states: the index, RULES_STATE_* */
    size_t from, top, leaf, last;
    edge edges[2 * NO_CLASS];
    uint32_t edge_count;
    uint32_t seen[NO_CLASS]; /* by class: 1 + the state that has an edge for it */
} placing;

static void add_edges(placing *p, uint32_t state, const rules_trie_state *of) {
    for (uint32_t c = of->first; c < of->first + of->child_count; c++) {
        uint32_t class_number = p->class_of[p->states[c].label];
        if (p->seen[class_number] == state + 1)
            continue;
        p->seen[class_number] = state + 1;
        p->edges[p->edge_count++] = (edge){class_number, c};
    }
}

/* The edges of a state: 1 when its longest ending has to be asked for others. */
static int collect_edges(placing *p, uint32_t state) {
    const rules_trie_state *s = &p->states[state], *ending;
    p->edge_count = 0;
    if (s->depth < 2)
        return 0;
    add_edges(p, state, s);
    uint32_t own = p->edge_count, endings = 0;
    for (ending = &p->states[s->fail]; ending->depth >= 2; ending = &p->states[ending->fail]) {
        if (++endings > ENDINGS_MAX || p->edge_count > own + EDGES_MAX) {
            p->edge_count = own;
            return 1;
        }
        add_edges(p, state, ending);
    }
    return 0;
}

/* Room for a state at an index. */
static int prepare(placing *p, size_t index) {
    size_t wanted = index + NO_CLASS;
    if (EA_GROW(p->cells, p->cell_capacity, wanted, SIZE_MAX) ||
        EA_GROW(p->is_taken, p->taken_capacity, wanted, SIZE_MAX))
        return EA_ENOMEM;
    for (; p->ready < wanted; p->ready++) {
        p->cells[p->ready].state = UINT32_MAX;
        p->is_taken[p->ready] = 0;
    }
    return 0;
}

static int cells_fits(const placing *p, size_t index) {
    if (p->is_taken[index])
        return 0;
    for (uint32_t i = 0; i < p->edge_count; i++)
        if (p->cells[index + p->edges[i].class_number].state != UINT32_MAX)
            return 0;
    return 1;
}

static int find_place(placing *p, size_t *ret) {
    size_t index = p->edge_count ? p->from : p->leaf;
    for (;; index++) {
        if (prepare(p, index))
            return EA_ENOMEM;
        if (cells_fits(p, index))
            break;
        if (p->edge_count && index - p->from == WINDOW) {
            p->from += WINDOW / 2;
            index = p->top > index ? p->top : index;
        }
    }
    if (!p->edge_count)
        p->leaf = index + 1;
    *ret = index;
    return 0;
}

static int place_state(placing *p, uint32_t state) {
    int skips = collect_edges(p, state);
    size_t index;
    if (find_place(p, &index))
        return EA_ENOMEM;
    if (index + NO_CLASS > RULES_STATE_INDEX)
        return EA_ELIMIT;
    p->is_taken[index] = 1;
    p->last = index > p->last ? index : p->last;
    p->names[state] =
        (uint32_t)index | (skips ? RULES_STATE_SKIPS : 0) | (p->states[state].output ? RULES_STATE_OUTPUTS : 0);
    for (uint32_t i = 0; i < p->edge_count; i++) {
        size_t at = index + p->edges[i].class_number;
        p->cells[at] = (rules_cell){p->names[state], p->edges[i].to};
        p->top = at >= p->top ? at + 1 : p->top;
    }
    return 0;
}

/* The state of one or two bytes, or the root. */
static void fill_shallow(const placing *p, uint32_t class_count, uint32_t *rows) {
    const rules_trie_state *root = &p->states[0];
    uint32_t *begin = rows + (size_t)class_count * class_count;
    for (uint32_t c = root->first; c < root->first + root->child_count; c++)
        begin[p->class_of[p->states[c].label]] = p->names[c];
    for (uint32_t i = 0; i < class_count; i++)
        memcpy(rows + (size_t)i * class_count, begin, class_count * sizeof *rows);
    for (uint32_t c = root->first; c < root->first + root->child_count; c++) {
        const rules_trie_state *s = &p->states[c];
        uint32_t *row = rows + (size_t)p->class_of[s->label] * class_count;
        for (uint32_t k = s->first; k < s->first + s->child_count; k++)
            row[p->class_of[p->states[k].label]] = p->names[k];
    }
}

static int keep_cells(ea_arena *arena, placing *p, rules_output *outputs, rules_automaton *ret) {
    uint32_t class_count = ret->class_count;
    ret->info_count = (uint32_t)p->last + 1;
    ret->cell_count = (uint32_t)p->last + class_count;
    rules_cell *cells = ea_arena_zalloc(arena, ret->cell_count, sizeof *cells);
    rules_info *infos = ea_arena_zalloc(arena, ret->info_count, sizeof *infos);
    uint32_t *rows = ea_arena_zalloc(arena, ((size_t)class_count + 1) * class_count, sizeof *rows);
    if (!cells || !infos || !rows)
        return ea_arena_error(arena);
    for (uint32_t i = 0; i < ret->cell_count; i++) {
        cells[i] = p->cells[i];
        cells[i].next = cells[i].state == UINT32_MAX ? 0 : p->names[cells[i].next];
    }
    for (uint32_t i = 0; i < p->count; i++)
        infos[p->names[i] & RULES_STATE_INDEX] = (rules_info){p->states[i].output, p->names[p->states[i].fail]};
    for (uint32_t i = 1; i < ret->output_count; i++)
        outputs[i].state = p->names[outputs[i].state];
    fill_shallow(p, class_count, rows);
    ret->cells = cells;
    ret->infos = infos;
    ret->shallow = rows;
    return 0;
}

int rules_cells_build(ea_arena *arena, const rules_trie_state *states, uint32_t count, rules_output *outputs,
                      rules_automaton *ret) {
    placing *p = calloc(1, sizeof *p);
    int rc = p ? 0 : EA_ENOMEM;
    if (!rc) {
        p->states = states;
        p->count = count;
        p->class_of = ret->class_of;
        p->names = calloc(count, sizeof *p->names);
        rc = p->names ? 0 : EA_ENOMEM;
    }
    for (uint32_t i = 0; i < count && !rc; i++)
        rc = place_state(p, i);
    if (!rc)
        rc = keep_cells(arena, p, outputs, ret);
    if (p) {
        free(p->cells);
        free(p->is_taken);
        free(p->names);
    }
    free(p);
    return rc;
}
