/* An automaton of Aho and Corasick: finds all literals of one field in one pass over its text. Literals are in lower
 * case; the text is folded (ASCII). A literal is searched for anywhere, at the begin, at the end, or as the whole text.
 * Each hit names numbers of the owner's (atoms). Calls: proto/base. Called by: rules_compile.c, rules_run.c. Thread: an
 * automaton is constant; a scan's marks belong to one thread.
 *
 * The work is linear in the text, whatever the literals are: a state's literals are reported once a text, and those
 * that end at the end are looked up there alone. */
#ifndef EA_RULES_RULES_AUTOMATON_H
#define EA_RULES_RULES_AUTOMATON_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum rules_place { RULES_CONTAINED, RULES_AT_BEGIN, RULES_AT_END, RULES_WHOLE, RULES_PLACES };

typedef struct rules_literal {
    const char *text; /* lower case, not empty */
    uint32_t len_bytes;
    uint32_t place; /* enum rules_place */
    uint32_t atom;
} rules_literal;

typedef struct rules_output {
    uint32_t atoms[RULES_PLACES + 1]; /* begins in the automaton's atoms, by place, and the end */
    uint32_t state, next;             /* whose they are; the output of its shorter endings; 0: none */
    uint32_t depth;                   /* bytes of the literals */
} rules_output;

/* A state is its index in infos, and what is known of it without a look at them. */
enum {
    RULES_STATE_SKIPS = 1 << 30,   /* where it has no edge, its longest ending has to be asked */
    RULES_STATE_OUTPUTS = 1 << 29, /* literals end in it, or in an ending of it */
    RULES_STATE_INDEX = RULES_STATE_OUTPUTS - 1
};

/* An edge, at the index of its state and the class of the byte. */
typedef struct rules_cell {
    uint32_t state, next; /* state: whose edge this is; UINT32_MAX: none */
} rules_cell;

typedef struct rules_info {
    uint32_t output; /* the nearest state with literals, itself or an ending of it; 0: none */
    uint32_t skip;   /* a state: the longest ending of one with RULES_STATE_SKIPS */
} rules_info;

/* States of two bytes or less follow from the two bytes before, so that they need no edges to them. */
typedef struct rules_automaton {
    const rules_cell *cells; /* edges to states of three bytes or more */
    const uint32_t *shallow; /* a row for each class of the byte before, and one for the begin; by the byte's class */
    const rules_info *infos;
    const rules_output *outputs;
    const uint32_t *atoms;
    uint32_t cell_count, info_count, output_count, atom_count; /* output_count 0: no literals */
    uint32_t class_count;                                      /* class 0: bytes that no literal has */
    uint8_t class_of[256];                                     /* both cases of a letter are one */
} rules_automaton;

/* Sorts the literals. *ret is of the arena. Errors: EA_ENOMEM, EA_ELIMIT of the arena. */
EA_MUST_CHECK int rules_automaton_build(ea_arena *arena, rules_literal *literals, size_t count, rules_automaton *ret);
/* Calls hit for the atoms of each literal that the text has; an atom may be reported several times.
 * marks: output_count numbers, of which none is `mark` yet. */
void rules_automaton_scan(const rules_automaton *a, const char *text, size_t len_bytes, uint32_t *marks, uint32_t mark,
                          void (*hit)(void *arg, uint32_t atom), void *arg);

#endif
