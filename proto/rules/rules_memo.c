/* See rules_memo.h. A table of slots by hash. A slot has the hash of a text that came once, or what is known of one; a
 * text that comes often is not replaced by others until as many have come. */
#include "proto/rules/rules_memo.h"

#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 1 << 13,
    TEXT_MAX_BYTES = 1024,
    ATOMS_MAX = 1024,
    MEMORY_MAX_BYTES = 8 << 20,
    USES_MAX = 15 /* that protect a text */
};

typedef struct slot {
    uint64_t hash; /* of the text that came last, when known is NULL */
    rules_known *known;
    uint32_t uses;
} slot;

struct rules_memo {
    size_t used_bytes;
    slot slots[SLOTS];
};

int rules_memo_create(rules_memo **ret) {
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : EA_ENOMEM;
}

void rules_memo_destroy(rules_memo *m) {
    if (!m)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        free(m->slots[i].known);
    free(m);
}

static size_t known_bytes(size_t atom_count, size_t len_bytes) {
    return sizeof(rules_known) + atom_count * sizeof(uint32_t) + len_bytes;
}

static int rules_memo_is_same(const rules_known *k, const rules_sought *s) {
    return k->hash == s->hash && k->group == s->group && k->field == s->field && k->len_bytes == s->len_bytes &&
           (!s->len_bytes || memcmp(k->atoms + k->atom_count, s->text, s->len_bytes) == 0);
}

static slot *rules_memo_slot_of(rules_memo *m, const rules_sought *s) {
    return &m->slots[s->hash & (SLOTS - 1)];
}

const rules_known *rules_memo_find(rules_memo *m, rules_sought *s, int *ret_learns) {
    *ret_learns = 0;
    if (s->len_bytes > TEXT_MAX_BYTES)
        return NULL;
    s->hash = ea_hash64(s->len_bytes ? s->text : "", s->len_bytes, (uint64_t)s->group << 32 | s->field);
    slot *at = rules_memo_slot_of(m, s);
    if (at->known && rules_memo_is_same(at->known, s)) {
        at->uses += at->uses < USES_MAX;
        return at->known;
    }
    if (at->known && at->uses) {
        at->uses--;
        return NULL;
    }
    if (at->known) {
        m->used_bytes -= known_bytes(at->known->atom_count, at->known->len_bytes);
        free(at->known);
        at->known = NULL;
    }
    *ret_learns = at->hash == s->hash;
    at->hash = s->hash;
    return NULL;
}

void rules_memo_learn(rules_memo *m, const rules_sought *s, const uint32_t *atoms, size_t count) {
    slot *at = rules_memo_slot_of(m, s);
    size_t bytes = known_bytes(count, s->len_bytes);
    if (count > ATOMS_MAX || bytes > MEMORY_MAX_BYTES - m->used_bytes)
        return;
    rules_known *k = malloc(bytes);
    if (!k)
        return;
    *k = (rules_known){.hash = s->hash,
                       .group = s->group,
                       .field = s->field,
                       .len_bytes = (uint32_t)s->len_bytes,
                       .atom_count = (uint32_t)count};
    if (count)
        memcpy(k->atoms, atoms, count * sizeof *atoms);
    if (s->len_bytes)
        memcpy(k->atoms + count, s->text, s->len_bytes);
    m->used_bytes += bytes;
    at->known = k;
    at->uses = 1;
}
