/* Instructions, constants and types of the compiler. See lang_compile.h. */
#include "proto/lang/lang_compile.h"

#include <string.h>

enum { CONSTANTS_MAX = 65536 };

const char *const LANG_TYPE_TEXTS[] = {"nothing", "a number", "a number", "a number", "a number", "a text", "a stack"};

uint32_t lang_emit(compiler *k, enum lang_code code, unsigned dst, unsigned a, unsigned b, uint32_t imm) {
    if (k->is_dry)
        return 0;
    if (k->op_count == EA_LANG_OPS_MAX)
        lang_fail(&k->s, k->c->at, "the clause is longer than %d instructions", EA_LANG_OPS_MAX);
    k->skips[k->op_count] = 0;
    k->ops[k->op_count] = (lang_op){(uint8_t)code, (uint8_t)dst, (uint8_t)a, (uint8_t)b, imm};
    return k->op_count++;
}

void lang_end_statement(compiler *k, uint32_t first) {
    for (uint32_t i = first; i < k->op_count; i++)
        if (!k->skips[i])
            k->skips[i] = (uint16_t)k->op_count;
}

void lang_land(compiler *k, uint32_t jump) {
    if (!k->is_dry)
        k->ops[jump].imm = k->op_count;
}

void lang_land_all(compiler *k, uint32_t last) {
    while (!k->is_dry && last != NO_JUMP) {
        lang_op *op = &k->ops[last];
        last = op->imm & NO_JUMP;
        op->imm = (op->imm & ~(uint32_t)NO_JUMP) | k->op_count;
    }
}

unsigned lang_use_register(compiler *k, unsigned r, uint32_t at) {
    if (r >= LANG_REGISTERS)
        lang_fail(&k->s, at, "the expression needs too many values at a time");
    if (k->registers <= r)
        k->registers = r + 1;
    return r;
}

void *lang_room_for_one(compiler *k, void *array, size_t count, size_t size, size_t *capacity, size_t first) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : first;
    void *larger = lang_alloc(&k->s, *capacity, size);
    if (count)
        memcpy(larger, array, count * size);
    return larger;
}

uint32_t lang_constant(compiler *k, enum lang_type type, uint64_t value) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    for (uint32_t i = 0; i < p->constant_count; i++)
        if (p->constants[i] == value && p->constant_types[i] == type)
            return i;
    if (p->constant_count == CONSTANTS_MAX)
        lang_fail(&k->s, 0, "the program has too many constants");
    if (p->constant_count == k->constant_capacity) {
        size_t capacity = k->constant_capacity ? 2 * k->constant_capacity : 64;
        uint64_t *values = lang_alloc(&k->s, capacity, sizeof *values);
        uint8_t *types = lang_alloc(&k->s, capacity, 1);
        if (p->constant_count) {
            memcpy(values, p->constants, p->constant_count * sizeof *values);
            memcpy(types, p->constant_types, p->constant_count);
        }
        p->constants = values;
        p->constant_types = types;
        k->constant_capacity = capacity;
    }
    p->constants[p->constant_count] = value;
    p->constant_types[p->constant_count] = (uint8_t)type;
    return p->constant_count++;
}

uint32_t lang_text_constant(compiler *k, span text) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    uint32_t i = 0;
    while (i < p->text_count && !span_equal(p->texts[i], text))
        i++;
    if (i == p->text_count) {
        p->texts = lang_room_for_one(k, p->texts, p->text_count, sizeof *p->texts, &k->text_capacity, 64);
        p->texts[p->text_count++] = text;
    }
    return lang_constant(k, TYPE_TEXT, i);
}

int lang_is_number(enum lang_type t) {
    return t == TYPE_INT || t == TYPE_UINT || t == TYPE_HEX || t == TYPE_FLOAT || t == TYPE_NONE;
}

int lang_is_literal(const node *n) {
    return n->kind == NODE_INT && n->number <= INT64_MAX;
}

/* What holds values of both types; TYPE_NONE when there is none. */
enum lang_type lang_common_type(enum lang_type a, enum lang_type b) {
    if (a == b || b == TYPE_NONE)
        return a;
    if (a == TYPE_NONE)
        return b;
    if (!lang_is_number(a) || !lang_is_number(b))
        return TYPE_NONE;
    if (a == TYPE_FLOAT || b == TYPE_FLOAT)
        return TYPE_FLOAT;
    return a == TYPE_INT || b == TYPE_INT ? TYPE_INT : TYPE_UINT;
}

void lang_convert(compiler *k, unsigned r, enum lang_type from, enum lang_type to) {
    if (to == TYPE_FLOAT && (from == TYPE_INT || from == TYPE_UINT || from == TYPE_HEX))
        lang_emit(k, from == TYPE_INT ? CODE_FLOAT_OF_INT : CODE_FLOAT_OF_UINT, r, r, 0, 0);
}
