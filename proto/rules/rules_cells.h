/* The edges of an automaton as one table that states share: where a state begins in it is its name, and a cell says
 * whose it is. Called by: rules_automaton.c. Thread: the compiler's. */
#ifndef EA_RULES_RULES_CELLS_H
#define EA_RULES_RULES_CELLS_H

#include "proto/rules/rules_automaton.h"

enum { RULES_TRIE_MAX = 1 << 26 /* states */ };

/* A state while the automaton is built; they are numbered breadth first. */
typedef struct rules_trie_state {
    uint32_t first, fail; /* the first child: children are in a row; its longest ending that is a state */
    uint32_t output;      /* the nearest state with literals, itself or an ending; 0: none */
    uint16_t depth;
    uint8_t label, child_count;
} rules_trie_state;

/* Sets ret's cells, shallow and infos, by its classes, and the states of the outputs. Errors: EA_ENOMEM, EA_ELIMIT of
 * the arena. */
EA_MUST_CHECK int rules_cells_build(ea_arena *arena, const rules_trie_state *states, uint32_t count,
                                    rules_output *outputs, rules_automaton *ret);

#endif
