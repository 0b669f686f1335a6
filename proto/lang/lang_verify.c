/* The verifier: whatever the compiler does, a program that passes ends, stays inside its tables and reads registers
 * only as what was written to them. See lang_program.h. Thread: any. */
#include "proto/lang/lang_aggregate.h"
#include "proto/lang/lang_program.h"

#include <stdlib.h>
#include <string.h>

/* What the bits of a register are; a number's sign does not matter here. */
enum kind { KIND_NONE, KIND_NUMBER, KIND_FLOAT, KIND_TEXT, KIND_STACK };

static uint8_t verify_kind_of(uint8_t type) {
    static const uint8_t KINDS[] = {KIND_NONE,  KIND_NUMBER, KIND_NUMBER, KIND_NUMBER,
                                    KIND_FLOAT, KIND_TEXT,   KIND_STACK};
    return type < sizeof KINDS ? KINDS[type] : KIND_NONE;
}

typedef struct checker {
    const ea_lang_program *p;
    const lang_clause *c;
    uint8_t *states;  /* of each instruction: the kinds of the registers before it */
    uint8_t *reached; /* an instruction leads there */
    uint8_t now[LANG_REGISTERS];
} checker;

static int verify_reads(const checker *k, unsigned r, uint8_t kind) {
    return r < k->c->registers && k->now[r] == kind && kind != KIND_NONE;
}

static int verify_reads_all(const checker *k, unsigned first, const uint8_t *types, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (!verify_reads(k, first + i, verify_kind_of(types[i])))
            return 0;
    return 1;
}

static int verify_writes(checker *k, unsigned r, uint8_t kind) {
    if (r >= k->c->registers || kind == KIND_NONE)
        return 0;
    k->now[r] = kind;
    return 1;
}

/* Control may go from here to a later instruction, with the registers as they are, or with none that is known. */
static int verify_flows(checker *k, uint32_t from, uint32_t to, int with_registers) {
    if (to <= from || to >= k->c->op_count)
        return 0;
    uint8_t *state = k->states + (size_t)to * LANG_REGISTERS;
    if (!with_registers) {
        memset(state, KIND_NONE, LANG_REGISTERS);
    } else if (!k->reached[to]) {
        memcpy(state, k->now, LANG_REGISTERS);
    } else {
        for (unsigned r = 0; r < LANG_REGISTERS; r++)
            if (state[r] != k->now[r])
                state[r] = KIND_NONE;
    }
    k->reached[to] = 1;
    return 1;
}

static int verify_may_skip(checker *k, uint32_t at) {
    return verify_flows(k, at, k->c->skips[at], 0);
}

static int verify_variable_fits(const checker *k, const lang_op *op) {
    if (op->imm >= k->p->variable_count)
        return 0;
    const lang_variable *v = &k->p->variables[op->imm];
    if ((v->scope == SCOPE_SELF) != (op->code == CODE_LOAD_SELF || op->code == CODE_STORE_SELF))
        return 0;
    return v->scope != SCOPE_MAP || verify_reads_all(k, op->b, v->keys, v->key_count);
}

static int verify_check_op(checker *k, uint32_t at) {
    const ea_lang_program *p = k->p;
    const lang_op *op = &k->c->ops[at];
    switch ((enum lang_code)op->code) {
    case CODE_END:
    case CODE_EXIT:
        return 1;
    case CODE_CONST:
        return op->imm < p->constant_count &&
               (p->constant_types[op->imm] != TYPE_TEXT || p->constants[op->imm] < p->text_count) &&
               verify_writes(k, op->dst, verify_kind_of(p->constant_types[op->imm]));
    case CODE_MOVE:
        return op->a < k->c->registers && verify_writes(k, op->dst, k->now[op->a]);
    case CODE_FIELD:
        return op->imm < k->c->field_count && verify_may_skip(k, at) &&
               verify_writes(k, op->dst, verify_kind_of(k->c->fields[op->imm].type));
    case CODE_PMC:
        return op->imm < p->counter_count && verify_may_skip(k, at) && verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_HAS:
        return op->imm < k->c->field_count && verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_VALUE:
    case CODE_PARENT:
        return op->imm < VALUE_COUNT && verify_writes(k, op->dst, verify_kind_of((uint8_t)lang_value_type(op->imm)));
    case CODE_STACK:
        return (op->imm & 0xFFFF) >= 1 && (op->imm & 0xFFFF) <= 3 && verify_writes(k, op->dst, KIND_STACK);
    case CODE_LOAD:
    case CODE_LOAD_SELF:
        return verify_variable_fits(k, op) && verify_writes(k, op->dst, verify_kind_of(p->variables[op->imm].type));
    case CODE_STORE:
    case CODE_STORE_SELF:
        return verify_variable_fits(k, op) && verify_reads(k, op->a, verify_kind_of(p->variables[op->imm].type));
    case CODE_ERASE:
        return op->imm < p->variable_count && p->variables[op->imm].scope == SCOPE_MAP;
    case CODE_AGGREGATE: {
        if (op->imm >= p->aggregation_count)
            return 0;
        const lang_aggregation *a = &p->aggregations[op->imm];
        return a->function != FUNCTION_COUNT && verify_reads_all(k, op->a, a->keys, a->key_count) &&
               verify_reads(k, op->b, verify_kind_of(a->type));
    }
    case CODE_COUNT_KEYS:
        return op->imm < p->aggregation_count && p->aggregations[op->imm].function == FUNCTION_COUNT &&
               verify_reads_all(k, op->a, p->aggregations[op->imm].keys, p->aggregations[op->imm].key_count);
    case CODE_READ:
        return op->imm < p->aggregation_count &&
               verify_reads_all(k, op->a, p->aggregations[op->imm].keys, p->aggregations[op->imm].key_count) &&
               verify_writes(k, op->dst, verify_kind_of((uint8_t)lang_aggregate_type(&p->aggregations[op->imm])));
    case CODE_MARK:
    case CODE_DELTA:
        if (!(op->imm & 0xFF) || (op->imm & 0xFF) > EA_LANG_KEYS_MAX)
            return 0;
        for (uint32_t i = 0; i < (op->imm & 0xFF); i++)
            if (op->a + i >= k->c->registers || k->now[op->a + i] == KIND_NONE)
                return 0;
        return op->code == CODE_MARK || (verify_may_skip(k, at) && verify_writes(k, op->dst, KIND_NUMBER));
    case CODE_JUMP_RANGE: {
        uint32_t number = op->imm >> 16, field = number < k->c->range_count ? k->c->ranges[number].field : UINT32_MAX;
        return field < k->c->field_count && verify_may_skip(k, at) &&
               verify_kind_of(k->c->fields[field].type) == KIND_NUMBER && verify_writes(k, op->dst, KIND_NUMBER) &&
               verify_flows(k, at, op->imm & 0xFFFF, 1);
    }
    case CODE_JUMP:
        return verify_flows(k, at, op->imm, 1);
    case CODE_JUMP_FALSE:
    case CODE_JUMP_TRUE:
        return op->a < k->c->registers && k->now[op->a] != KIND_NONE && k->now[op->a] != KIND_FLOAT &&
               verify_flows(k, at, op->imm, 1);
    case CODE_DIV_INT:
    case CODE_DIV_UINT:
    case CODE_MOD_INT:
    case CODE_MOD_UINT:
        if (!verify_may_skip(k, at))
            return 0;
        /* fall through */
    case CODE_ADD:
    case CODE_SUB:
    case CODE_MUL:
    case CODE_AND:
    case CODE_OR:
    case CODE_XOR:
    case CODE_SHL:
    case CODE_SHR_INT:
    case CODE_SHR_UINT:
    case CODE_LT_INT:
    case CODE_LE_INT:
    case CODE_LT_UINT:
    case CODE_LE_UINT:
    case CODE_LT_INT_UINT:
    case CODE_LE_INT_UINT:
    case CODE_LT_UINT_INT:
    case CODE_LE_UINT_INT:
    case CODE_EQ_MIXED:
        return verify_reads(k, op->a, KIND_NUMBER) && verify_reads(k, op->b, KIND_NUMBER) &&
               verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_DIV_FLOAT:
        if (!verify_may_skip(k, at))
            return 0;
        /* fall through */
    case CODE_ADD_FLOAT:
    case CODE_SUB_FLOAT:
    case CODE_MUL_FLOAT:
        return verify_reads(k, op->a, KIND_FLOAT) && verify_reads(k, op->b, KIND_FLOAT) &&
               verify_writes(k, op->dst, KIND_FLOAT);
    case CODE_LT_FLOAT:
    case CODE_LE_FLOAT:
    case CODE_EQ_FLOAT:
        return verify_reads(k, op->a, KIND_FLOAT) && verify_reads(k, op->b, KIND_FLOAT) &&
               verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_EQ:
    case CODE_NE:
        return op->a < k->c->registers && verify_reads(k, op->b, k->now[op->a]) &&
               verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_NEG:
    case CODE_INVERT:
        return verify_reads(k, op->a, KIND_NUMBER) && verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_NOT:
        return op->a < k->c->registers && k->now[op->a] != KIND_NONE && k->now[op->a] != KIND_FLOAT &&
               verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_NEG_FLOAT:
        return verify_reads(k, op->a, KIND_FLOAT) && verify_writes(k, op->dst, KIND_FLOAT);
    case CODE_NOT_FLOAT:
        return verify_reads(k, op->a, KIND_FLOAT) && verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_FLOAT_OF_INT:
    case CODE_FLOAT_OF_UINT:
        return verify_reads(k, op->a, KIND_NUMBER) && verify_writes(k, op->dst, KIND_FLOAT);
    case CODE_LIKE:
        return op->imm < p->constant_count && p->constant_types[op->imm] == TYPE_TEXT &&
               p->constants[op->imm] < p->text_count && verify_reads(k, op->a, KIND_TEXT) &&
               verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_LENGTH:
        return verify_reads(k, op->a, KIND_TEXT) && verify_writes(k, op->dst, KIND_NUMBER);
    case CODE_PRINT:
        return op->imm < p->aggregation_count && (op->a == NO_REGISTER || verify_reads(k, op->a, KIND_NUMBER));
    case CODE_CLEAR:
        return op->imm < p->aggregation_count;
    case CODE_TRUNC:
        return op->imm < p->aggregation_count && verify_reads(k, op->a, KIND_NUMBER);
    case CODE_PRINTF: {
        if (op->imm >= p->format_count)
            return 0;
        const lang_format *f = &p->formats[op->imm];
        unsigned r = op->a;
        for (uint32_t i = 0; i < f->piece_count; i++)
            if (f->pieces[i].letter && !verify_reads(k, r++, verify_kind_of(f->pieces[i].type)))
                return 0;
        return r == op->a + f->arg_count;
    }
    case CODE_EMIT:
        return op->imm < p->row_count && verify_reads_all(k, op->a, p->rows[op->imm].types, p->rows[op->imm].count);
    case CODE_TRIGGER:
        return op->imm < p->trigger_count;
    case CODE_SHIP:
        return 1;
    case CODE_BYTES: {
        uint32_t field = op->imm & 0xFFFF, count = op->imm >> 16;
        return field < k->c->field_count && k->c->fields[field].type == TYPE_TEXT && count >= 1 &&
               count <= sizeof(uint64_t) && verify_reads(k, op->a, KIND_NUMBER) && verify_may_skip(k, at) &&
               verify_writes(k, op->dst, KIND_NUMBER);
    }
    case CODE_COUNT:
        break;
    }
    return 0;
}

static int verify_check_clause(checker *k, uint32_t *ret_op) {
    const lang_clause *c = k->c;
    *ret_op = 0;
    if (!c->op_count || c->op_count > EA_LANG_OPS_MAX || c->registers > LANG_REGISTERS ||
        c->ops[c->op_count - 1].code != CODE_END)
        return 0;
    memset(k->reached, 0, c->op_count);
    memset(k->states, KIND_NONE, (size_t)c->op_count * LANG_REGISTERS);
    k->reached[0] = 1;
    for (uint32_t i = 0; i < c->op_count; i++) {
        *ret_op = i;
        if (!k->reached[i])
            continue;
        memcpy(k->now, k->states + (size_t)i * LANG_REGISTERS, sizeof k->now);
        if (!verify_check_op(k, i))
            return 0;
        if (c->ops[i].code != CODE_END && c->ops[i].code != CODE_EXIT && c->ops[i].code != CODE_JUMP &&
            !verify_flows(k, i, i + 1, 1))
            return 0;
    }
    return 1;
}

int lang_verify(const ea_lang_program *p, uint32_t *ret_clause, uint32_t *ret_op) {
    checker k = {.p = p};
    uint32_t longest = 1;
    for (uint32_t i = 0; i < p->clause_count; i++)
        if (p->clauses[i].op_count > longest && p->clauses[i].op_count <= EA_LANG_OPS_MAX)
            longest = p->clauses[i].op_count;
    k.states = malloc((size_t)longest * LANG_REGISTERS);
    k.reached = malloc(longest);
    int good = k.states && k.reached;
    *ret_op = 0;
    for (*ret_clause = 0; good && *ret_clause < p->clause_count; ++*ret_clause) {
        k.c = &p->clauses[*ret_clause];
        if (!verify_check_clause(&k, ret_op)) {
            good = 0;
            break;
        }
    }
    free(k.states);
    free(k.reached);
    return good;
}
