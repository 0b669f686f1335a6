/* The DFA of a regular expression, built while it runs. See rules_regex.h. A state is the set of the NFA's instructions
 * that the bytes so far lead to, with what the last byte was; a transition is computed when it is needed first. When
 * the cache is full it is emptied, so that a match costs at most the NFA's size a byte. Thread: the owner's. */
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/rules/rules_regex.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_MAX_BYTES = 1 << 19, UNKNOWN = 0, DEAD = 1, MATCH = 2, FIRST = 3 };

/* What the byte before a position was. */
enum { AFTER_BEGIN, AFTER_WORD, AFTER_LINE, AFTER_OTHER };

typedef struct dfa_state {
    uint32_t at, count; /* of its instructions in sets */
    uint32_t after;
} dfa_state;

struct rules_dfa {
    const rules_nfa *nfa;
    dfa_state *states;
    size_t state_count, state_capacity;
    uint32_t *rows; /* class_count + 1 a state: the last is the text's end */
    size_t row_capacity;
    uint32_t *sets;
    size_t set_count, set_capacity;
    uint32_t *slots; /* a hash table of states */
    size_t slot_mask;
    uint32_t *stack, *next, *marks, *next_marks;
    uint32_t mark;
};

int rules_dfa_create(rules_dfa **ret, const rules_nfa *nfa) {
    rules_dfa *d = calloc(1, sizeof *d);
    uint32_t *memory = calloc((size_t)nfa->count * 5 + 1, sizeof *memory);
    if (!d || !memory) {
        free(d);
        free(memory);
        return EA_ENOMEM;
    }
    d->nfa = nfa;
    d->marks = memory;
    d->next_marks = memory + nfa->count;
    d->next = memory + (size_t)nfa->count * 2;
    d->stack = memory + (size_t)nfa->count * 3; /* an instruction is pushed at most twice */
    *ret = d;
    return 0;
}

void rules_dfa_destroy(rules_dfa *d) {
    if (!d)
        return;
    free(d->states);
    free(d->rows);
    free(d->sets);
    free(d->slots);
    free(d->marks);
    free(d);
}

size_t rules_dfa_bytes(const rules_dfa *d) {
    return sizeof *d + d->state_capacity * sizeof *d->states + (d->row_capacity + d->set_capacity) * 4 +
           (d->slots ? (d->slot_mask + 1) * 4 : 0) + (size_t)d->nfa->count * 20;
}

static int dfa_is_word(unsigned c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* next: the byte after the position, 256 at the text's end. */
static int holds(enum rules_assert kind, unsigned after, unsigned next) {
    int is_boundary = (after == AFTER_WORD) != (next < 256 && dfa_is_word(next));
    switch (kind) {
    case RULES_BEGIN:
        return after == AFTER_BEGIN;
    case RULES_END:
        return next == 256;
    case RULES_LINE_BEGIN:
        return after == AFTER_BEGIN || after == AFTER_LINE;
    case RULES_LINE_END:
        return next == 256 || next == '\n';
    case RULES_WORD:
        return is_boundary;
    case RULES_NO_WORD:
        return !is_boundary;
    }
    return 0;
}

static void rules_dfa_add_next(rules_dfa *d, uint32_t inst, uint32_t *count) {
    if (d->next_marks[inst] == d->mark)
        return;
    d->next_marks[inst] = d->mark;
    d->next[(*count)++] = inst;
}

/* What the instructions lead to on a byte: 1 when the text matches already. */
static int step(rules_dfa *d, const dfa_state *s, unsigned byte, uint32_t *ret_count) {
    const rules_inst *insts = d->nfa->insts;
    uint32_t top = 0, count = 0;
    if (++d->mark == 0) {
        memset(d->marks, 0, (size_t)d->nfa->count * 2 * sizeof *d->marks);
        d->mark = 1;
    }
    for (uint32_t i = 0; i < s->count; i++)
        d->stack[top++] = d->sets[s->at + i];
    while (top) {
        uint32_t at = d->stack[--top];
        const rules_inst *inst = &insts[at];
        if (d->marks[at] == d->mark)
            continue;
        d->marks[at] = d->mark;
        switch ((enum rules_inst_op)inst->op) {
        case RULES_ACCEPT:
            return 1;
        case RULES_SPLIT:
            if (d->marks[inst->other] != d->mark)
                d->stack[top++] = inst->other;
            if (d->marks[inst->next] != d->mark)
                d->stack[top++] = inst->next;
            break;
        case RULES_ASSERT:
            if (holds((enum rules_assert)inst->low, s->after, byte) && d->marks[inst->next] != d->mark)
                d->stack[top++] = inst->next;
            break;
        case RULES_BYTES:
            if (byte >= inst->low && byte <= inst->high)
                rules_dfa_add_next(d, inst->next, &count);
        }
    }
    if (!d->nfa->is_anchored)
        rules_dfa_add_next(d, d->nfa->start, &count);
    *ret_count = count;
    return 0;
}

static int dfa_compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint64_t rules_dfa_hash_of(const uint32_t *set, uint32_t count, uint32_t after) {
    return ea_hash64(set, count * sizeof *set, after);
}

static void forget(rules_dfa *d) {
    d->state_count = 0;
    d->set_count = 0;
    if (d->slots)
        memset(d->slots, 0, (d->slot_mask + 1) * sizeof *d->slots);
}

static int rules_dfa_grow_slots(rules_dfa *d) {
    size_t count = d->slots ? (d->slot_mask + 1) * 2 : 64;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    free(d->slots);
    d->slots = slots;
    d->slot_mask = count - 1;
    for (uint32_t i = 0; i < d->state_count; i++) {
        const dfa_state *s = &d->states[i];
        size_t slot = rules_dfa_hash_of(d->sets + s->at, s->count, s->after) & d->slot_mask;
        while (slots[slot])
            slot = (slot + 1) & d->slot_mask;
        slots[slot] = i + FIRST;
    }
    return 0;
}

/* The state of the set in next, which is made when it is new. */
static int rules_dfa_state_of(rules_dfa *d, uint32_t count, uint32_t after, uint32_t *ret) {
    size_t width = (size_t)d->nfa->class_count + 1;
    if (count > 1)
        qsort(d->next, count, sizeof *d->next, dfa_compare_u32);
    if ((!d->slots || d->state_count * 2 > d->slot_mask) && rules_dfa_grow_slots(d))
        return EA_ENOMEM;
    size_t slot = rules_dfa_hash_of(d->next, count, after) & d->slot_mask;
    for (; d->slots[slot]; slot = (slot + 1) & d->slot_mask) {
        const dfa_state *s = &d->states[d->slots[slot] - FIRST];
        if (s->count == count && s->after == after && memcmp(d->sets + s->at, d->next, count * sizeof *d->next) == 0) {
            *ret = d->slots[slot];
            return 0;
        }
    }
    if (EA_GROW(d->states, d->state_capacity, d->state_count + 1, SIZE_MAX) ||
        EA_GROW(d->rows, d->row_capacity, (d->state_count + 1) * width, SIZE_MAX) ||
        EA_GROW(d->sets, d->set_capacity, d->set_count + count, SIZE_MAX))
        return EA_ENOMEM;
    d->states[d->state_count] = (dfa_state){(uint32_t)d->set_count, count, after};
    memcpy(d->sets + d->set_count, d->next, count * sizeof *d->next);
    memset(d->rows + d->state_count * width, 0, width * sizeof *d->rows);
    d->set_count += count;
    *ret = (uint32_t)d->state_count++ + FIRST;
    d->slots[slot] = *ret;
    return 0;
}

static unsigned after_byte(const rules_dfa *d, unsigned byte) {
    if (!d->nfa->has_context)
        return AFTER_OTHER;
    return byte == '\n' ? AFTER_LINE : dfa_is_word(byte) ? AFTER_WORD : AFTER_OTHER;
}

/* Computes a transition; the cache may be emptied, and then the old state is no longer in it. */
static int transition(rules_dfa *d, uint32_t state, unsigned class_number, uint32_t *ret) {
    size_t width = (size_t)d->nfa->class_count + 1;
    unsigned byte = class_number < d->nfa->class_count ? d->nfa->byte_of[class_number] : 256;
    uint32_t count = 0, to = MATCH;
    if (!step(d, &d->states[state - FIRST], byte, &count)) {
        to = DEAD;
        if (byte < 256 && count) {
            int is_full = (d->state_count * width + d->set_count) * sizeof *d->rows > CACHE_MAX_BYTES;
            if (is_full)
                forget(d);
            if (rules_dfa_state_of(d, count, after_byte(d, byte), &to))
                return EA_ENOMEM;
            *ret = to;
            if (is_full)
                return 0;
        }
    }
    d->rows[(state - FIRST) * width + class_number] = to;
    *ret = to;
    return 0;
}

int rules_dfa_match(rules_dfa *d, const char *text, size_t len_bytes) {
    const uint8_t *class_of = d->nfa->class_of;
    size_t width = (size_t)d->nfa->class_count + 1;
    uint32_t state;
    d->next[0] = d->nfa->start;
    if (rules_dfa_state_of(d, 1, AFTER_BEGIN, &state))
        return EA_ENOMEM;
    for (size_t i = 0; i <= len_bytes; i++) {
        unsigned class_number = i < len_bytes ? class_of[(uint8_t)text[i]] : d->nfa->class_count;
        uint32_t to = d->rows[(state - FIRST) * width + class_number];
        if (to == UNKNOWN && transition(d, state, class_number, &to))
            return EA_ENOMEM;
        if (to < FIRST)
            return to == MATCH;
        state = to;
    }
    return 0;
}
