/* The machine: its queue of actions, its ids and addresses, a run from begin to end. See subsystems.h. */
#include "proto/base/map.h"
#include "tests/tracegen/subsystems.h"

#include <stdlib.h>
#include <string.h>

static const int64_t START_FILETIME = 133592040000000000; /* 2024-05-03T10:00:00Z */

/* ---- memory ---- */

void tg_push(tg_machine *m, tg_list *l, void *item) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 8;
        void **items = ea_arena_alloc(&m->arena, capacity * sizeof *items);
        if (!items) {
            m->failed = 1;
            return;
        }
        if (l->count)
            memcpy(items, l->items, l->count * sizeof *items);
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->count++] = item;
}

void *tg_new(tg_machine *m, size_t size_bytes) {
    void *p = ea_arena_zalloc(&m->arena, 1, size_bytes);
    if (!p)
        m->failed = 1;
    return p;
}

char *tg_keep_text(tg_machine *m, ea_text *t) {
    char *s = t->failed ? NULL : ea_arena_copy(&m->arena, t->data ? t->data : "", t->len_bytes + 1);
    if (!s)
        m->failed = 1;
    ea_text_deinit(t);
    return s;
}

/* ---- the queue ---- */

static int is_before(const tg_queue_row *a, const tg_queue_row *b) {
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

void tg_schedule(tg_machine *m, int64_t at, tg_action *run, void *subject) {
    if (m->queue_count == m->queue_capacity) {
        size_t capacity = m->queue_capacity ? m->queue_capacity * 2 : 1024;
        tg_queue_row *queue = realloc(m->queue, capacity * sizeof *queue);
        if (!queue) {
            m->failed = 1;
            return;
        }
        m->queue = queue;
        m->queue_capacity = capacity;
    }
    tg_queue_row a = {.time = at < m->now ? m->now : at, .number = ++m->action_count, .run = run, .subject = subject};
    size_t i = m->queue_count++;
    for (; i && is_before(&a, &m->queue[(i - 1) / 2]); i = (i - 1) / 2)
        m->queue[i] = m->queue[(i - 1) / 2];
    m->queue[i] = a;
}

void tg_schedule_in(tg_machine *m, int64_t in_ticks, tg_action *run, void *subject) {
    tg_schedule(m, m->now + in_ticks, run, subject);
}

static tg_queue_row next_action(tg_machine *m) {
    tg_queue_row first = m->queue[0], last = m->queue[--m->queue_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->queue_count)
            break;
        if (child + 1 < m->queue_count && is_before(&m->queue[child + 1], &m->queue[child]))
            child++;
        if (!is_before(&m->queue[child], &last))
            break;
        m->queue[i] = m->queue[child];
        i = child;
    }
    if (m->queue_count)
        m->queue[i] = last;
    return first;
}

static int64_t pick(tg_machine *m, const tg_range *r, int64_t ticks) {
    int64_t whole = tg_between(&m->dice, r->low, r->high) * ticks;
    return whole + (int64_t)tg_below(&m->dice, (uint64_t)ticks);
}

int64_t tg_pick_ms(tg_machine *m, const tg_range *ms) {
    return pick(m, ms, TG_TICKS_PER_MS);
}

int64_t tg_pick_us(tg_machine *m, const tg_range *us) {
    return pick(m, us, TG_TICKS_PER_MS / 1000);
}

/* ---- ids and addresses ---- */

/* Process and thread ids are of one kind, multiples of 4, and come again some time after their owner's end. */
uint32_t tg_take_id(tg_machine *m) {
    if (m->freed_count &&
        m->now - m->freed[m->freed_first].since > (int64_t)m->scenario->id_rest_ms * TG_TICKS_PER_MS &&
        tg_chance(&m->dice, 80)) {
        uint32_t id = m->freed[m->freed_first].id;
        m->freed_first++;
        m->freed_count--;
        return id;
    }
    uint32_t id = m->next_id;
    m->next_id += 4 * (uint32_t)tg_between(&m->dice, 1, 5);
    return id;
}

void tg_give_id_back(tg_machine *m, uint32_t id) {
    if (m->freed_first + m->freed_count == m->freed_capacity) {
        size_t capacity = m->freed_capacity ? m->freed_capacity * 2 : 256;
        tg_freed_id *freed = realloc(m->freed, capacity * sizeof *freed);
        if (!freed) {
            m->failed = 1;
            return;
        }
        m->freed = freed;
        m->freed_capacity = capacity;
    }
    m->freed[m->freed_first + m->freed_count++] = (tg_freed_id){.id = id, .since = m->now};
}

uint64_t tg_take_address(tg_machine *m, tg_addresses *a) {
    if (a->count > 8 || (a->count && tg_chance(&m->dice, 50))) {
        uint64_t address = a->freed[a->first];
        a->first = (a->first + 1) % a->capacity;
        a->count--;
        return address;
    }
    uint64_t address = a->next;
    a->next += a->step * (uint64_t)tg_between(&m->dice, 1, 3);
    return address;
}

void tg_give_address_back(tg_machine *m, tg_addresses *a, uint64_t address) {
    if (a->count == a->capacity) {
        size_t capacity = a->capacity ? a->capacity * 2 : 64;
        uint64_t *freed = ea_arena_alloc(&m->arena, capacity * sizeof *freed);
        if (!freed) {
            m->failed = 1;
            return;
        }
        for (size_t i = 0; i < a->count; i++)
            freed[i] = a->freed[(a->first + i) % a->capacity];
        a->freed = freed;
        a->first = 0;
        a->capacity = capacity;
    }
    a->freed[(a->first + a->count++) % a->capacity] = address;
}

/* ---- time ---- */

int64_t tg_stamp(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    int64_t at = cpu->clock + 1;
    if (at < m->now)
        at = m->now;
    if (t && at <= t->last)
        at = t->last + 1;
    cpu->clock = at;
    if (t)
        t->last = at;
    return at;
}

int64_t tg_stamp_state(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    int64_t at = tg_stamp(m, cpu, t);
    if (at <= m->last_state)
        at = m->last_state + 1;
    m->last_state = cpu->clock = at;
    if (t)
        t->last = at;
    return at;
}

void tg_spend(tg_machine *m, tg_cpu *cpu, int64_t low, int64_t high) {
    if (cpu->clock < m->now)
        cpu->clock = m->now;
    cpu->clock += tg_between(&m->dice, low, high);
}

uint64_t tg_cycles(const tg_machine *m, uint64_t ticks) {
    uint32_t mhz = m->scenario->mhz;
    return ticks / 10 * mhz + ticks % 10 * mhz / 10; /* ticks * mhz need not fit in 64 bits */
}

/* Without the step back. */
static int64_t steady_raw(const tg_machine *m, int64_t ticks) {
    if (m->scenario->clock == EA_CLOCK_SYSTEM_TIME)
        return m->start_filetime + (ticks - m->start);
    if (m->scenario->clock == EA_CLOCK_CPU_CYCLES)
        return (int64_t)tg_cycles(m, (uint64_t)ticks);
    return ticks;
}

int64_t tg_raw(const tg_machine *m, int64_t ticks) {
    int is_back = m->scenario->clock == EA_CLOCK_SYSTEM_TIME && ticks - m->start >= (m->end - m->start) / 2;
    return steady_raw(m, ticks) - (is_back ? (int64_t)m->scenario->clock_back_ms * TG_TICKS_PER_MS : 0);
}

uint64_t tg_raw_between(const tg_machine *m, int64_t from, int64_t to) {
    return (uint64_t)(steady_raw(m, to) - steady_raw(m, from));
}

tg_context tg_who(const tg_machine *m, const tg_cpu *cpu, const tg_thread *t, int64_t time) {
    tg_context who = {.time_raw = tg_raw(m, time), .cpu = cpu->number, .pid = UINT32_MAX, .tid = UINT32_MAX};
    if (t) {
        who.pid = t->process->pid;
        who.tid = t->tid;
        who.is_wow64 = t->process->program->wow64 != 0;
        who.kernel_time = (uint32_t)(t->run_ticks / 4 / 156250);
        who.user_time = (uint32_t)(t->run_ticks / 156250) - who.kernel_time;
    }
    return who;
}

/* ---- the whole ---- */

static void add_sid(tg_machine *m, const uint32_t *parts, size_t count) {
    if (m->sid_count == sizeof m->sids / sizeof *m->sids)
        return;
    uint8_t *sid = m->sids[m->sid_count].bytes;
    sid[0] = 1;
    sid[1] = (uint8_t)count;
    sid[7] = 5;
    for (size_t i = 0; i < count; i++)
        ea_store32(sid + 8 + 4 * i, parts[i]);
    m->sids[m->sid_count++].len_bytes = 8 + 4 * count;
}

/* The four of enum tg_user, then people who log on. */
static void make_sids(tg_machine *m) {
    for (uint32_t well_known = 18; well_known <= 20; well_known++)
        add_sid(m, &well_known, 1);
    uint32_t person[5] = {21};
    for (size_t i = 1; i < 4; i++)
        person[i] = (uint32_t)tg_roll(&m->dice);
    for (uint32_t i = 0; i < 60; i++) {
        person[4] = 1001 + i;
        add_sid(m, person, 5);
    }
}

int tg_machine_create(tg_machine **ret, const tg_scenario *scenario, uint64_t seed, ea_err *err) {
    tg_machine *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "make the machine");
    m->scenario = scenario;
    m->dice.state = seed;
    ea_arena_init(&m->arena, 0);
    m->start = scenario->boots ? 30LL * TG_TICKS_PER_SECOND : 36000LL * TG_TICKS_PER_SECOND;
    m->start += (int64_t)tg_below(&m->dice, (scenario->boots ? 10 : 1000) * (uint64_t)TG_TICKS_PER_SECOND);
    if (scenario->uptime_s)
        m->start = (int64_t)scenario->uptime_s * TG_TICKS_PER_SECOND;
    m->now = m->last_state = m->start;
    m->end = m->start + (int64_t)scenario->duration_ms * TG_TICKS_PER_MS;
    m->next_id = 100;
    m->next_session = 2;
    m->is_placing = 1;
    int is_32_bit = scenario->pointer_bytes == 4;
    m->kernel_low = is_32_bit ? 0x82000000 : 0xFFFFF80000000000 + (tg_below(&m->dice, 0x4000) << 21);
    m->user_low = is_32_bit ? 0x70000000 : 0x7FFA00000000 + (tg_below(&m->dice, 0x8000) << 16);
    m->narrow_low = 0x70000000;
    m->kernel_stack_next = is_32_bit ? 0x8B000000 : 0xFFFFF80F00000000;
    make_sids(m);
    tg_make_images(m);
    tg_make_stacks(m);
    tg_make_filesystem(m);
    tg_make_registry(m);
    tg_make_network(m);
    tg_make_providers(m);
    tg_make_cpus(m);
    if (!m->failed)
        tg_place_all(m);
    if (m->failed) {
        tg_machine_destroy(m);
        return ea_fail(err, EA_ENOMEM, "make the machine");
    }
    *ret = m;
    return 0;
}

void tg_machine_destroy(tg_machine *m) {
    if (!m)
        return;
    free(m->queue);
    free(m->freed);
    ea_arena_deinit(&m->arena);
    free(m);
}

void tg_machine_trace_options(tg_machine *m, int64_t start_filetime, ea_etl_info *info, tg_trace_options *ret) {
    static char session_name[] = "Generated trace", log_file_name[] = "C:\\traces\\generated.etl";

    static const struct {
        uint32_t version, build;
        enum tg_windows_age age;
    } systems[] = {{0x04010106, 7601, TG_AGE_7},   {0x03000206, 9200, TG_AGE_8},   {0x0501000A, 19045, TG_AGE_10},
                   {0x0501000A, 22631, TG_AGE_10}, {0x0501000A, 17763, TG_AGE_10}, {0x0501000A, 20348, TG_AGE_10}};

    const tg_scenario *s = m->scenario;
    m->start_filetime = start_filetime ? start_filetime : START_FILETIME;
    *info = (ea_etl_info){.buffer_size_bytes = s->buffer_kib * 1024,
                          .os_version = systems[s->os].version,
                          .os_build = systems[s->os].build,
                          .cpu_count = s->cpus,
                          .timer_resolution = 156250,
                          .log_file_mode = 0x00010001,
                          .pointer_size = s->pointer_bytes,
                          .cpu_mhz = s->mhz,
                          .boot_filetime = m->start_filetime - m->start,
                          .perf_frequency = TG_TICKS_PER_SECOND,
                          .start_filetime = m->start_filetime,
                          .clock_type = s->clock,
                          .session_name = session_name,
                          .log_file_name = log_file_name,
                          .logger = 1};
    *ret = (tg_trace_options){.info = info,
                              .start_raw = tg_raw(m, m->start),
                              .groups = (uint32_t)s->events,
                              .age = systems[s->os].age,
                              .held_buffers = s->held_buffers};
}

int tg_machine_run(tg_machine *m, tg_trace *trace, tg_truth *truth, int64_t *ret_end_raw, ea_err *err) {
    m->trace = trace;
    m->truth = truth;
    int rc = tg_providers_ready(m, err);
    if (!rc)
        rc = tg_dotnet_make(m, err);
    if (!rc)
        rc = tg_printing_make(m, err);
    if (!rc)
        rc = tg_stacks_ready(m, err);
    if (rc)
        return rc;
    m->is_placing = 0;
    tg_begin_session(m);
    m->end = m->now + (int64_t)m->scenario->duration_ms * TG_TICKS_PER_MS;
    for (size_t i = 0; i < m->processes.count; i++)
        tg_plan_life(m, m->processes.items[i]);
    tg_begin_scheduler(m);
    tg_begin_sessions(m);
    tg_begin_interrupts(m);
    tg_begin_incoming(m);
    tg_begin_script(m);
    tg_begin_losses(m);
    while (m->queue_count && !m->failed) {
        tg_queue_row a = next_action(m);
        if (a.time >= m->end)
            break;
        m->now = a.time;
        m->number = a.number;
        a.run(m, a.subject);
    }
    m->now = m->end;
    tg_end_session(m);
    *ret_end_raw = tg_raw(m, m->now);
    return m->failed ? ea_fail(err, EA_ENOMEM, "run the machine") : 0;
}

size_t tg_machine_process_count(const tg_machine *m) {
    return m->processes.count;
}
