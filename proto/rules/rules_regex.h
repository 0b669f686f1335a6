/* Regular expressions and patterns with wildcards, matched in time that is linear in the text. An expression becomes an
 * NFA over bytes of UTF-8; a match builds the DFA as it goes, in a bounded cache. There are no captures: an expression
 * matches a text or it does not. Calls: proto/base. Called by: rules_compile.c, rules_run.c. Thread: an NFA is
 * constant; a DFA belongs to one thread. */
#ifndef EA_RULES_RULES_REGEX_H
#define EA_RULES_RULES_REGEX_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    RULES_NFA_MAX = 1 << 15,    /* instructions of one expression */
    RULES_REPEAT_MAX = 1000,    /* {n,m} */
    RULES_DEPTH_MAX = 100,      /* of nested groups */
    RULES_LITERAL_MAX = 1 << 12 /* bytes of a text without wildcards */
};

enum { RULES_REGEX_I = 1, RULES_REGEX_M = 2, RULES_REGEX_S = 4 };

enum rules_inst_op { RULES_BYTES, RULES_SPLIT, RULES_ASSERT, RULES_ACCEPT };

enum rules_assert { RULES_BEGIN, RULES_END, RULES_LINE_BEGIN, RULES_LINE_END, RULES_WORD, RULES_NO_WORD };

typedef struct rules_inst {
    uint8_t op;
    uint8_t low, high;    /* of bytes: the range; of an assertion: low is its kind */
    uint32_t next, other; /* other: of a split */
} rules_inst;

typedef struct rules_nfa {
    const rules_inst *insts;
    uint32_t count, start;
    uint8_t is_anchored; /* it begins at the text's first byte only */
    uint8_t has_context; /* it has an assertion about neighbours */
    uint16_t class_count;
    uint8_t class_of[256]; /* bytes that all instructions treat alike share a class */
    uint8_t byte_of[256];  /* one byte of each class */
    /* Bytes in lower case that each text with a match contains, without regard to case; NULL: unknown. */
    const char *literal;
    size_t literal_bytes;
} rules_nfa;

typedef struct rules_regex_problem {
    size_t at; /* offset in the expression */
    char message[200];
} rules_regex_problem;

/* flags: RULES_REGEX_*. The expression and the NFA are of the arena. Errors: EA_EINVAL with the problem, EA_ENOMEM. */
EA_MUST_CHECK int rules_regex_compile(ea_arena *arena, const char *text, size_t len_bytes, unsigned flags,
                                      rules_nfa *ret, rules_regex_problem *problem);
/* wild[i]: 0 a byte of the text, '*' any text, '?' any character. The whole text has to match. Errors: EA_EINVAL when
 * the pattern is too long, EA_ENOMEM. */
EA_MUST_CHECK int rules_wildcards_compile(ea_arena *arena, const char *text, const char *wild, size_t len_bytes,
                                          int is_cased, rules_nfa *ret, rules_regex_problem *problem);

typedef struct rules_dfa rules_dfa;

EA_MUST_CHECK int rules_dfa_create(rules_dfa **ret, const rules_nfa *nfa);
void rules_dfa_destroy(rules_dfa *d); /* NULL is allowed */
size_t rules_dfa_bytes(const rules_dfa *d);
/* 1 the text matches, 0 it does not, EA_ENOMEM. */
EA_MUST_CHECK int rules_dfa_match(rules_dfa *d, const char *text, size_t len_bytes);

#endif
