/* The registry: keys, their control blocks (KCBs), whose addresses come again, and what programs do with values. See
 * subsystems.h. A KCB is named when it is made, by the rundowns at both ends, and when it goes. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum { STATUS_NOT_FOUND = 0xC0000034 };

typedef struct reg_key {
    const char *name;
    uint64_t kcb; /* 0: the key is not open */
    uint32_t opens;
    tg_life named;
} reg_key;

struct tg_registry {
    reg_key *keys;
    size_t count, capacity;
    tg_addresses kcbs;
};

void tg_make_registry(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    tg_registry *r = m->registry = tg_new(m, sizeof *r);
    if (!r)
        return;
    r->capacity = s->key_count + s->script_count;
    r->keys = ea_arena_zalloc(&m->arena, r->capacity, sizeof *r->keys);
    r->kcbs = (tg_addresses){.next = s->pointer_bytes == 4 ? 0x95400138 : 0xFFFFB98500001D60, .step = 0xF8};
    if (!r->keys) {
        m->failed = 1;
        return;
    }
    for (size_t i = 0; i < s->key_count; i++) {
        reg_key *k = &r->keys[r->count++];
        *k = (reg_key){.name = s->keys[i].name, .named = {.begin = INT64_MIN, .end = INT64_MAX}};
        if (!s->boots && tg_chance(&m->dice, 50)) {
            k->kcb = tg_take_address(m, &r->kcbs);
            k->opens = 1;
        }
    }
}

/* began: when the operation did; 0: it has no duration. */
static void emit(tg_machine *m, tg_cpu *cpu, tg_thread *t, enum tg_form_id form, uint32_t status, uint64_t kcb,
                 const char *name) {
    int64_t began = tg_stamp(m, cpu, t);
    tg_spend(m, cpu, 3, 80);
    int64_t at = tg_stamp(m, cpu, t);
    tg_context who = tg_who(m, cpu, t, at);
    TG_EMIT(m->trace, form, &who, tg_n((uint64_t)tg_raw(m, began)), tg_n(status), tg_n(0), tg_n(kcb), tg_text(name));
    tg_stack_of(m, cpu, t, at, TG_STACK_OF_REGISTRY, 1);
}

static int emit_kcb(tg_machine *m, tg_cpu *cpu, const tg_thread *t, enum tg_form_id form, const reg_key *k,
                    int64_t at) {
    tg_context who = tg_who(m, cpu, t, at);
    return TG_EMIT(m->trace, form, &who, tg_n(0), tg_n(0), tg_n(0), tg_n(k->kcb), tg_text(k->name));
}

static void open_key(tg_machine *m, tg_cpu *cpu, tg_thread *t, reg_key *k, enum tg_form_id form) {
    if (!k->kcb) {
        k->kcb = tg_take_address(m, &m->registry->kcbs);
        k->named = (tg_life){.begin = tg_stamp_state(m, cpu, t), .end = INT64_MAX};
        k->named.begin_lost = !emit_kcb(m, cpu, t, TG_REG_KCB_CREATE, k, k->named.begin);
    }
    k->opens++;
    emit(m, cpu, t, form, 0, 0, k->name);
}

static void close_key(tg_machine *m, tg_cpu *cpu, tg_thread *t, reg_key *k) {
    emit(m, cpu, t, TG_REG_CLOSE, 0, k->kcb, "");
    if (--k->opens || !tg_chance(&m->dice, 60))
        return;
    k->named.end = tg_stamp_state(m, cpu, t);
    k->named.end_lost = !emit_kcb(m, cpu, t, TG_REG_KCB_DELETE, k, k->named.end);
    tg_truth_name(m->truth, m, TG_NAME_REGISTRY_KEY, k->kcb, k->name, &k->named);
    tg_give_address_back(m, &m->registry->kcbs, k->kcb);
    k->kcb = 0;
    k->named = (tg_life){.begin = INT64_MIN, .end = INT64_MAX};
}

void tg_registry_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    const tg_scenario *s = m->scenario;
    reg_key *k = &m->registry->keys[tg_below(&m->dice, s->key_count)];
    tg_system_call_enter(m, cpu, t);
    if (tg_chance(&m->dice, 12)) {
        emit(m, cpu, t, TG_REG_OPEN, STATUS_NOT_FOUND, k->kcb, "Missing");
        tg_system_call_exit(m, cpu, t, STATUS_NOT_FOUND);
        return;
    }
    open_key(m, cpu, t, k, tg_chance(&m->dice, 15) ? TG_REG_CREATE : TG_REG_OPEN);
    for (uint64_t n = 1 + tg_below(&m->dice, 5); n; n--) {
        static const enum tg_form_id forms[] = {TG_REG_QUERY_VALUE, TG_REG_QUERY_VALUE, TG_REG_QUERY_VALUE,
                                                TG_REG_QUERY_VALUE, TG_REG_QUERY,       TG_REG_ENUMERATE_KEY,
                                                TG_REG_SET_VALUE};
        enum tg_form_id form = forms[tg_below(&m->dice, sizeof forms / sizeof *forms)];
        int has_name = form == TG_REG_QUERY_VALUE || form == TG_REG_SET_VALUE;
        const char *value = has_name ? s->values[tg_below(&m->dice, s->value_count)].name : "";
        emit(m, cpu, t, form, has_name && tg_chance(&m->dice, 20) ? STATUS_NOT_FOUND : 0, k->kcb, value);
    }
    close_key(m, cpu, t, k);
    tg_system_call_exit(m, cpu, t, 0);
}

void tg_registry_step(tg_machine *m, tg_thread *t, const char *key, const char *value, int deletes) {
    tg_registry *r = m->registry;
    tg_cpu *cpu = tg_cpu_of(m, t);
    reg_key *k = NULL;
    for (size_t i = 0; i < r->count && !k; i++)
        if (strcmp(r->keys[i].name, key) == 0)
            k = &r->keys[i];
    if (!k && r->count < r->capacity) {
        k = &r->keys[r->count++];
        *k = (reg_key){.name = key, .named = {.begin = INT64_MIN, .end = INT64_MAX}};
    }
    if (!k)
        return;
    open_key(m, cpu, t, k, TG_REG_CREATE);
    emit(m, cpu, t, deletes ? TG_REG_DELETE_VALUE : TG_REG_SET_VALUE, 0, k->kcb, value);
    close_key(m, cpu, t, k);
}

void tg_registry_rundown(tg_machine *m, tg_cpu *cpu, int begins) {
    tg_registry *r = m->registry;
    for (size_t i = 0; i < r->count; i++) {
        const reg_key *k = &r->keys[i];
        if (!k->kcb)
            continue;
        emit_kcb(m, cpu, NULL, begins ? TG_REG_KCB_RUNDOWN_BEGIN : TG_REG_KCB_RUNDOWN_END, k, tg_stamp(m, cpu, NULL));
        if (!begins)
            tg_truth_name(m->truth, m, TG_NAME_REGISTRY_KEY, k->kcb, k->name, &k->named);
    }
}
