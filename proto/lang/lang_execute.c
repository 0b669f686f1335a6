/* The instructions of a program, on the event at hand: variables, times of keys, triggers. See lang_run.h. */
#include "proto/lang/lang_run.h"

#include <string.h>

enum { VISITS = 1 << 28, VISITS_OF_EVENT = 256 };

static EA_APART void execute_keep_texts(ea_lang_run *r, const lang_table *t, uint64_t *keys, const uint8_t *types) {
    if (t->count >= t->limit_count)
        return;
    for (unsigned i = 0; i < t->key_count; i++)
        if (lang_has_text(types[i]))
            keys[i] = lang_keep(r, keys[i]);
}

/* Before keys go to a table. One that has no room for a further entry keeps no text for it. */
static inline void execute_keep_keys(ea_lang_run *r, const lang_table *t, uint64_t *keys, const uint8_t *types) {
    if (r->strings.count != r->strings.kept)
        execute_keep_texts(r, t, keys, types);
}

static const uint64_t *execute_find_thread_key(ea_lang_run *r) {
    lang_know_thread(r);
    r->thread_key = lang_thread_key(r, r->tid);
    return &r->thread_key;
}

static uint64_t execute_load(ea_lang_run *r, uint32_t number, const uint64_t *keys) {
    enum lang_scope scope = r->p->variables[number].scope;
    if (scope == SCOPE_GLOBAL)
        return r->scalars[2 * number];
    if (scope == SCOPE_THIS)
        return r->scalars[2 * number + 1] == r->this_number ? r->scalars[2 * number] : 0;
    const uint64_t *words = lang_table_get(&r->tables[number], keys);
    return words ? *words : 0;
}

/* What is zero needs no place: a variable that has none is zero. */
static void execute_store_word(ea_lang_run *r, lang_table *t, const uint64_t *keys, uint64_t value, int has_room,
                               int is_text) {
    if (!value) {
        lang_table_remove(t, keys);
        return;
    }
    uint64_t *words = has_room ? lang_table_put(t, keys) : NULL;
    if (words)
        *words = is_text ? lang_keep(r, value) : value;
    else
        r->counts.dropped++;
}

static void execute_store(ea_lang_run *r, uint32_t number, const uint64_t *keys, uint64_t value) {
    const lang_variable *v = &r->p->variables[number];
    int is_text = lang_has_text(v->type);
    if (v->scope == SCOPE_GLOBAL) {
        r->scalars[2 * number] = is_text ? lang_keep(r, value) : value;
    } else if (v->scope == SCOPE_THIS) {
        r->scalars[2 * number] = value;
        r->scalars[2 * number + 1] = r->this_number;
    } else {
        lang_table *t = &r->tables[number];
        int has_room = 1; /* a key whose text has no room is no key: no event finds it again */
        for (unsigned i = 0; value && i < v->key_count && t->count < t->limit_count; i++)
            has_room &= !lang_has_text(v->keys[i]) || lang_strings_keep(&r->strings, keys[i]) == keys[i];
        execute_store_word(r, t, keys, value, has_room, is_text);
    }
}

static void execute_store_self(ea_lang_run *r, uint32_t number, uint64_t value) {
    execute_store_word(r, &r->tables[number], execute_find_thread_key(r), value, 1,
                       lang_has_text(r->p->variables[number].type));
}

/* The keys of delta: a number and a text are never the same one. imm: as of CODE_DELTA. */
static lang_table *execute_times_of(ea_lang_run *r, const uint64_t *keys, uint32_t imm, uint64_t *ret_keys) {
    uint32_t count = imm & 0xFF;
    memcpy(ret_keys, keys, count * sizeof *keys);
    ret_keys[count] = imm >> 8 | (uint64_t)r->machine << MACHINE_SHIFT;
    return &r->deltas[count - 1];
}

static EA_APART void execute_mark(ea_lang_run *r, const uint64_t *given, uint32_t imm) {
    uint64_t keys[EA_LANG_KEYS_MAX + 1];
    lang_table *t = execute_times_of(r, given, imm, keys);
    int has_room = 1; /* as of a map's key */
    for (uint32_t i = 0; i < (imm & 0xFF) && t->count < t->limit_count; i++)
        has_room &= !(imm >> (8 + 2 * i) & 2) || lang_strings_keep(&r->strings, keys[i]) == keys[i];
    uint64_t *words = has_room ? lang_table_put(t, keys) : NULL;
    if (words)
        *words = (uint64_t)r->now_utc_ns;
    else
        r->counts.dropped++;
}

static EA_APART int execute_delta(ea_lang_run *r, const uint64_t *given, uint32_t imm, uint64_t *ret) {
    uint64_t keys[EA_LANG_KEYS_MAX + 1];
    lang_table *t = execute_times_of(r, given, imm, keys);
    const uint64_t *words = lang_table_get(t, keys);
    if (!words)
        return 0;
    *ret = (uint64_t)r->now_utc_ns - *words;
    lang_table_remove(t, keys);
    return 1;
}

static EA_APART int execute_like(const ea_lang_run *r, uint64_t text, uint64_t pattern) {
    const lang_string *s = lang_string_at(&r->strings, text), *p = lang_string_at(&r->strings, pattern);
    return lang_glob((span){p->text, p->len_bytes}, s->text, s->len_bytes);
}

/* print and trunc cost what an aggregation has, not what an event does: 0 when the run has done more of this than its
 * events allow. */
static EA_APART int execute_may_visit(ea_lang_run *r, uint32_t aggregation) {
    uint64_t keys = r->aggregates[aggregation].table.count;
    uint64_t limit = r->o.limit_visits ? r->o.limit_visits : VISITS;
    if (!r->is_ending && r->visits + keys > limit + r->counts.events * VISITS_OF_EVENT) {
        r->counts.costly++;
        return 0;
    }
    r->visits += keys;
    return 1;
}

/* ---- triggers ---- */

static void execute_note_firing(lang_firings *f, int64_t utc_ns) {
    f->utc_ns[f->count++ % EA_LANG_TRIGGER_MOST] = utc_ns;
}

void ea_lang_run_fired(ea_lang_run *r, const char *trigger, int64_t utc_ns) {
    for (uint32_t i = 0; i < r->p->trigger_count; i++)
        if (strcmp(r->p->triggers[i].name, trigger) == 0)
            execute_note_firing(&r->firings[i], utc_ns);
}

/* Events may be a little out of order: what is before a firing is as near as what is after it. */
static int execute_is_near(int64_t a, int64_t b, int64_t ns) {
    uint64_t apart = a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
    return apart < (uint64_t)ns;
}

static EA_APART void execute_trigger(ea_lang_run *r, uint32_t number) {
    const ea_lang_trigger *t = &r->p->triggers[number];
    lang_firings *f = &r->firings[number];
    uint64_t kept = f->count < EA_LANG_TRIGGER_MOST ? f->count : EA_LANG_TRIGGER_MOST;
    uint32_t recent = 0;
    int is_hot = 0;
    if (!r->has_first) /* the end of a run without events: there is no time */
        return;
    for (uint64_t i = 1; i <= kept; i++) {
        int64_t fired = f->utc_ns[(f->count - i) % EA_LANG_TRIGGER_MOST];
        is_hot |= execute_is_near(fired, r->now_utc_ns, t->cooldown_ns);
        recent += (uint32_t)execute_is_near(fired, r->now_utc_ns, t->per_ns);
    }
    if (is_hot || recent >= t->most) {
        r->counts.unfired++;
        return;
    }
    execute_note_firing(f, r->now_utc_ns);
    lang_print_trigger(r, t);
}

void lang_execute(ea_lang_run *r, const lang_clause *c, const bound_field *fields) {
    uint64_t *v = r->registers;
    const lang_op *op = c->ops;
    const uint64_t *constants = r->constants;

#define A     v[op->a]
#define B     v[op->b]
#define DST   v[op->dst]
#define INT_A (int64_t) A
#define INT_B (int64_t) B
#define FLT_A lang_double(A)
#define FLT_B lang_double(B)

    for (;; op++) {
        switch ((enum lang_code)op->code) {

        case CODE_CONST:
            DST = constants[op->imm];
            continue;
        case CODE_MOVE:
            DST = A;
            continue;
        case CODE_FIELD: {
            const bound_field *b = &fields[op->imm];
            if (lang_read_quickly(r, b, &DST) || lang_read_field(r, b, &DST))
                continue;
            r->counts.absent++;
            break;
        }
        case CODE_PMC:
            if (lang_read_counter(r, op->imm, &DST))
                continue;
            r->counts.absent++;
            break;
        case CODE_HAS: {
            int has = lang_read_field(r, &fields[op->imm], &DST);
            DST = (uint64_t)has;
            continue;
        }
        case CODE_VALUE:
            if (op->imm == VALUE_timestamp) {
                DST = (uint64_t)r->now_utc_ns;
            } else if (op->imm == VALUE_tid) {
                lang_know_thread(r);
                DST = (uint64_t)r->tid;
            } else {
                DST = op->imm == VALUE_module ? lang_read_module(r) : lang_read_value(r, op->imm);
            }
            continue;
        case CODE_PARENT:
            DST = lang_read_parent(r, op->imm);
            continue;
        case CODE_STACK:
            DST = lang_read_stack(r, op->imm);
            r->has_missed |= DST == STRING_EMPTY;
            continue;
        case CODE_LOAD:
            DST = execute_load(r, op->imm, &B);
            continue;
        case CODE_LOAD_SELF: {
            const uint64_t *words = lang_table_get(&r->tables[op->imm], execute_find_thread_key(r));
            DST = words ? *words : 0;
            continue;
        }
        case CODE_STORE:
            execute_store(r, op->imm, &B, A);
            continue;
        case CODE_STORE_SELF:
            execute_store_self(r, op->imm, A);
            continue;
        case CODE_AGGREGATE: {
            lang_aggregate *a = &r->aggregates[op->imm];
            execute_keep_keys(r, &a->table, &A, a->what->keys);
            if (a->what->function == FUNCTION_TOP && lang_has_text(a->what->type))
                B = lang_keep(r, B);
            r->counts.others += (uint64_t)lang_aggregate_add(a, &A, B, &r->strings);
            continue;
        }
        case CODE_COUNT_KEYS: {
            lang_aggregate *a = &r->aggregates[op->imm];
            execute_keep_keys(r, &a->table, &A, a->what->keys);
            uint64_t *count = lang_table_put(&a->table, &A);
            if (!count) {
                count = a->others;
                r->counts.others++;
            }
            ++*count;
            continue;
        }
        case CODE_READ:
            DST = lang_aggregate_read(&r->aggregates[op->imm], &A);
            continue;
        case CODE_MARK:
            execute_mark(r, &A, op->imm);
            continue;
        case CODE_DELTA:
            if (execute_delta(r, &A, op->imm, &DST))
                continue;
            r->counts.absent++;
            break;
        case CODE_JUMP:
            op = c->ops + op->imm - 1;
            continue;
        case CODE_JUMP_FALSE:
            if (!A)
                op = c->ops + op->imm - 1;
            continue;
        case CODE_JUMP_TRUE:
            if (A)
                op = c->ops + op->imm - 1;
            continue;
        case CODE_JUMP_RANGE: {
            const lang_range *range = &c->ranges[op->imm >> 16];
            const bound_field *b = &fields[range->field];
            if (lang_read_quickly(r, b, &DST) || lang_read_field(r, b, &DST)) {
                if ((DST - range->low > range->span) != range->is_negated)
                    op = c->ops + (op->imm & 0xFFFF) - 1;
                continue;
            }
            r->counts.absent++;
            break;
        }
        case CODE_ADD:
            DST = A + B;
            continue;
        case CODE_SUB:
            DST = A - B;
            continue;
        case CODE_MUL:
            DST = A * B;
            continue;
        case CODE_DIV_INT:
        case CODE_MOD_INT:
        case CODE_DIV_UINT:
        case CODE_MOD_UINT:
            if (!B) {
                r->counts.divided_by_zero++;
                break;
            }
            if (op->code == CODE_DIV_UINT)
                DST = A / B;
            else if (op->code == CODE_MOD_UINT)
                DST = A % B;
            else if (INT_B == -1) /* the least number has no positive twin */
                DST = op->code == CODE_DIV_INT ? 0 - A : 0;
            else
                DST = (uint64_t)(op->code == CODE_DIV_INT ? INT_A / INT_B : INT_A % INT_B);
            continue;
        case CODE_AND:
            DST = A & B;
            continue;
        case CODE_OR:
            DST = A | B;
            continue;
        case CODE_XOR:
            DST = A ^ B;
            continue;
        case CODE_SHL:
            DST = B > 63 ? 0 : A << B;
            continue;
        case CODE_SHR_INT:
            DST = (uint64_t)(INT_A < 0 ? ~(~INT_A >> (B > 63 ? 63 : B)) : INT_A >> (B > 63 ? 63 : B));
            continue;
        case CODE_SHR_UINT:
            DST = B > 63 ? 0 : A >> B;
            continue;
        case CODE_ADD_FLOAT:
            DST = lang_bits(FLT_A + FLT_B);
            continue;
        case CODE_SUB_FLOAT:
            DST = lang_bits(FLT_A - FLT_B);
            continue;
        case CODE_MUL_FLOAT:
            DST = lang_bits(FLT_A * FLT_B);
            continue;
        case CODE_DIV_FLOAT:
            if (FLT_B == 0) {
                r->counts.divided_by_zero++;
                break;
            }
            DST = lang_bits(FLT_A / FLT_B);
            continue;
        case CODE_NEG:
            DST = 0 - A;
            continue;
        case CODE_NEG_FLOAT:
            DST = lang_bits(-FLT_A);
            continue;
        case CODE_INVERT:
            DST = ~A;
            continue;
        case CODE_NOT:
            DST = !A;
            continue;
        case CODE_NOT_FLOAT:
            DST = FLT_A == 0;
            continue;
        case CODE_FLOAT_OF_INT:
            DST = lang_bits((double)INT_A);
            continue;
        case CODE_FLOAT_OF_UINT:
            DST = lang_bits((double)A);
            continue;
        case CODE_EQ:
            DST = A == B;
            continue;
        case CODE_NE:
            DST = A != B;
            continue;
        case CODE_LT_INT:
            DST = INT_A < INT_B;
            continue;
        case CODE_LE_INT:
            DST = INT_A <= INT_B;
            continue;
        case CODE_LT_UINT:
            DST = A < B;
            continue;
        case CODE_LE_UINT:
            DST = A <= B;
            continue;
        case CODE_LT_INT_UINT:
            DST = INT_A < 0 || A < B;
            continue;
        case CODE_LE_INT_UINT:
            DST = INT_A < 0 || A <= B;
            continue;
        case CODE_LT_UINT_INT:
            DST = INT_B > 0 && A < B;
            continue;
        case CODE_LE_UINT_INT:
            DST = INT_B >= 0 && A <= B;
            continue;
        case CODE_EQ_MIXED: /* equal, and the signed one is not negative: then neither has the highest bit */
            DST = A == B && INT_A >= 0;
            continue;
        case CODE_LT_FLOAT:
            DST = FLT_A < FLT_B;
            continue;
        case CODE_LE_FLOAT:
            DST = FLT_A <= FLT_B;
            continue;
        case CODE_EQ_FLOAT:
            DST = FLT_A == FLT_B;
            continue;
        case CODE_LIKE:
            DST = (uint64_t)execute_like(r, A, constants[op->imm]);
            continue;
        case CODE_LENGTH:
            DST = lang_string_at(&r->strings, A)->len_bytes;
            continue;
        case CODE_PRINT:
            if (execute_may_visit(r, op->imm))
                lang_print_aggregate(r, op->imm, op->a == NO_REGISTER ? UINT64_MAX : A);
            continue;
        case CODE_CLEAR:
            lang_aggregate_clear(&r->aggregates[op->imm]);
            continue;
        case CODE_TRUNC:
            if (execute_may_visit(r, op->imm))
                lang_aggregate_trunc(&r->aggregates[op->imm], INT_A, &r->strings);
            continue;
        case CODE_ERASE:
            lang_table_clear(&r->tables[op->imm]);
            continue;
        case CODE_PRINTF:
            lang_print_format(r, op->imm, &A);
            continue;
        case CODE_EMIT:
            lang_print_row(r, op->imm, &A);
            continue;
        case CODE_BYTES:
            if (lang_read_bytes(r, &fields[op->imm & 0xFFFF], A, op->imm >> 16, &DST))
                continue;
            r->counts.absent++;
            break;
        case CODE_SHIP:
            r->counts.shipped += !r->is_shipped;
            r->is_shipped = 1;
            continue;
        case CODE_TRIGGER:
            execute_trigger(r, op->imm);
            continue;
        case CODE_EXIT:
            r->is_over = 1;
            return;
        case CODE_END:
            return;
        case CODE_COUNT:
        default:
            __builtin_unreachable(); /* the verifier refuses all other codes */
        }
        /* the statement cannot go on */
        op = c->ops + c->skips[op - c->ops] - 1;
    }
#undef A
#undef B
#undef DST
#undef INT_A
#undef INT_B
#undef FLT_A
#undef FLT_B
}
