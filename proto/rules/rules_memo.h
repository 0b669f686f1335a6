/* Which atoms texts set that come again and again, such as paths of programs and names of accounts: each is scanned
 * twice, and then known. Texts that come once cost their hash. Called by: rules_run.c. Thread: the run's owner's. */
#ifndef EA_RULES_RULES_MEMO_H
#define EA_RULES_RULES_MEMO_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rules_memo rules_memo;

/* What is known of a text. */
typedef struct rules_known {
    uint64_t hash;
    uint32_t group, field, len_bytes;
    uint32_t atom_count;
    uint32_t atoms[]; /* the text after them */
} rules_known;

/* A text that is looked for. */
typedef struct rules_sought {
    uint32_t group, field;
    const char *text;
    size_t len_bytes;
    uint64_t hash; /* of rules_memo_find */
} rules_sought;

EA_MUST_CHECK int rules_memo_create(rules_memo **ret);
void rules_memo_destroy(rules_memo *m); /* NULL is allowed */
/* The text's atoms, borrowed until the next call of rules_memo_learn; NULL: they are not known. *ret_learns: 1 when
 * they are worth to be learnt. */
const rules_known *rules_memo_find(rules_memo *m, rules_sought *s, int *ret_learns);
/* Keeps the atoms of the text that was found last. Without memory it is not kept. */
void rules_memo_learn(rules_memo *m, const rules_sought *s, const uint32_t *atoms, size_t count);

#endif
