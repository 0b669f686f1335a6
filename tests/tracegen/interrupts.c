/* What interrupts processors, and what threads ask of the kernel without anything else happening: device interrupts and
 * their DPCs, the clock, the profiler and its counters, system calls, handles; and the system calls and DPCs that bring
 * a scenario to its number of events. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum {
    PACE_ROUND_TICKS = 1600, /* in which every processor is topped up once */
    ROUTINES = 12,           /* system calls that programs use */
    OBJECT_TYPE_PROCESS = 7,
    OBJECT_TYPE_EVENT = 16,
    OBJECT_TYPE_SECTION = 42,
};

static const tg_image *driver(const tg_machine *m, unsigned n) {
    const tg_image *first = NULL;
    unsigned seen = 0;
    for (size_t i = 0; i < m->images.count; i++) {
        const tg_image *image = m->images.items[i];
        if (!(image->sets & TG_DLLS_DRIVER))
            continue;
        first = first ? first : image;
        if (seen++ == n)
            return image;
    }
    return first;
}

static uint64_t routine(const tg_machine *m, unsigned image, unsigned n) {
    const tg_image *i = driver(m, image);
    return i->base + 0x1000 + 0x140 * (uint64_t)(n + 1) % (i->size_bytes - 0x2000);
}

/* ---- devices ---- */

static void dpc(tg_machine *m, tg_cpu *cpu, enum tg_form_id form, uint64_t at_routine) {
    int64_t began = tg_stamp(m, cpu, NULL);
    tg_spend(m, cpu, 15, 250);
    tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, NULL));
    TG_EMIT(m->trace, form, &who, tg_n((uint64_t)tg_raw(m, began)), tg_n(at_routine));
}

void tg_interrupt(tg_machine *m, tg_cpu *cpu, enum tg_device device) {
    int64_t began = tg_stamp(m, cpu, NULL);
    tg_spend(m, cpu, 8, 60);
    tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, NULL));
    TG_EMIT(m->trace, TG_ISR, &who, tg_n((uint64_t)tg_raw(m, began)), tg_n(routine(m, 1 + device, 0)), tg_n(1),
            tg_n(device == TG_DEVICE_CLOCK ? 0xD1 : 0x60 + 0x10 * device));
    if (device != TG_DEVICE_CLOCK)
        dpc(m, cpu, TG_DPC, routine(m, 1 + device, 1));
}

static void clock_tick(tg_machine *m, void *subject) {
    tg_cpu *cpu = subject;
    /* an idle processor's clock interrupt is off most of the time */
    if (!cpu->running->is_idle || tg_chance(&m->dice, 12)) {
        tg_interrupt(m, cpu, TG_DEVICE_CLOCK);
        if (tg_chance(&m->dice, 40))
            dpc(m, cpu, TG_TIMER_DPC, routine(m, 0, 20 + (unsigned)tg_below(&m->dice, 8)));
    }
    tg_schedule_in(m, TG_TICKS_PER_SECOND / m->scenario->clock_interrupts_per_second, clock_tick, cpu);
}

/* ---- the profiler ---- */

static void log_sample(tg_machine *m, tg_cpu *cpu, enum tg_form_id form, enum tg_stack_of what, uint64_t third) {
    tg_thread *t = cpu->running;
    const tg_scenario *s = m->scenario;
    tg_stack *user = t->is_idle ? NULL : tg_user_stack(m, t);
    tg_stack *kernel = !user || tg_chance(&m->dice, 25) ? tg_kernel_stack(m, t, what) : NULL;
    const tg_stack *inner = kernel ? kernel : user;
    int64_t at = tg_stamp(m, cpu, t);
    tg_context who = tg_who(m, cpu, NULL, at);
    t->samples += form == TG_SAMPLE;
    int logged = TG_EMIT(m->trace, form, &who, tg_n(inner ? inner->frames[0] : 0), tg_n(t->tid), tg_n(third));
    /* the stack of the idle loop is never walked */
    if (logged && !t->is_idle && tg_records(m->trace, TG_GROUP_STACK) && s->stacks[what] &&
        tg_chance(&m->dice, s->stacks[what]))
        tg_log_stack(m, cpu, t, at, what, kernel, user);
}

static void take_sample(tg_machine *m, void *subject) {
    log_sample(m, subject, TG_SAMPLE, TG_STACK_OF_SAMPLE, 1);
    tg_schedule_in(m, TG_TICKS_PER_SECOND / m->scenario->samples_per_second, take_sample, subject);
}

static void take_counter_sample(tg_machine *m, void *subject) {
    tg_cpu *cpu = subject;
    if (!cpu->running->is_idle)
        log_sample(m, cpu, TG_PMC_SAMPLE, TG_STACK_OF_PMC,
                   tg_below(&m->dice, 2) ? TG_SOURCE_INSTRUCTIONS : TG_SOURCE_CYCLES);
    tg_schedule_in(m, TG_TICKS_PER_SECOND / m->scenario->pmc_samples_per_second, take_counter_sample, cpu);
}

/* ---- system calls ---- */

int64_t tg_system_call_enter(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    int64_t at = tg_stamp(m, cpu, t);
    if (!tg_records(m->trace, TG_GROUP_SYSCALL))
        return at;
    tg_context who = tg_who(m, cpu, NULL, at);
    TG_EMIT(m->trace, TG_SYSCALL_ENTER, &who, tg_n(routine(m, 0, 40 + (unsigned)tg_below(&m->dice, ROUTINES))));
    tg_stack_of(m, cpu, t, at, TG_STACK_OF_SYSCALL, 1);
    return at;
}

void tg_system_call_exit(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint32_t status) {
    tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, t));
    TG_EMIT(m->trace, TG_SYSCALL_EXIT, &who, tg_n(status));
}

void tg_system_call(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint32_t status) {
    tg_system_call_enter(m, cpu, t);
    tg_spend(m, cpu, 3, 40);
    tg_system_call_exit(m, cpu, t, status);
    tg_spend(m, cpu, 5, 60);
}

/* ---- handles ---- */

static void handle(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint64_t object, unsigned type) {
    uint64_t number = 4 * (1 + tg_below(&m->dice, 0x300));
    tg_life life = {.begin = tg_stamp(m, cpu, t)};
    tg_context who = tg_who(m, cpu, t, life.begin);
    life.begin_lost = !TG_EMIT(m->trace, TG_HANDLE_CREATE, &who, tg_n(object), tg_n(number), tg_n(type));
    tg_spend(m, cpu, 20, 400);
    life.end = tg_stamp(m, cpu, t);
    who = tg_who(m, cpu, t, life.end);
    life.end_lost = !TG_EMIT(m->trace, TG_HANDLE_CLOSE, &who, tg_n(object), tg_n(number), tg_n(type));
    if (tg_records(m->trace, TG_GROUP_OBJECT))
        tg_truth_handle(m->truth, m, t, number, object, type, &life);
}

void tg_handle_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    uint64_t low = m->scenario->pointer_bytes == 4 ? 0x86500030 : 0xFFFFC00D00000060;
    unsigned type = tg_chance(&m->dice, 70) ? OBJECT_TYPE_EVENT : OBJECT_TYPE_SECTION;
    handle(m, cpu, t, low + 0x80 * tg_below(&m->dice, 4000), type);
}

void tg_open_process(tg_machine *m, tg_thread *t, const tg_process *target) {
    handle(m, tg_cpu_of(m, t), t, target->unique_key, OBJECT_TYPE_PROCESS);
}

/* ---- the pace ---- */

/* Adds the events that a processor lacks to reach the scenario's events_per_second: system calls of the running thread,
 * or DPCs when the processor is idle. Their times are between the processor's last event and now. */
static void pace(tg_machine *m, void *subject) {
    tg_cpu *cpu = subject;
    tg_schedule_in(m, PACE_ROUND_TICKS, pace, cpu);
    uint64_t wanted =
        m->pace_base + (uint64_t)(m->now - m->pace_begin) * m->scenario->events_per_second / TG_TICKS_PER_SECOND;
    uint64_t events = tg_trace_events(m->trace);
    if (events >= wanted)
        return;
    uint64_t lacking = wanted - events;
    tg_thread *t = cpu->running;
    int64_t from = !t->is_idle && t->last > cpu->clock ? t->last : cpu->clock, room = m->now - from;
    tg_context who = tg_who(m, cpu, NULL, 0);
    int is_call = !t->is_idle && tg_records(m->trace, TG_GROUP_SYSCALL);
    uint64_t at_routine = routine(m, is_call ? 0 : 2, 50 + cpu->number % ROUTINES), ok = 0;
    int64_t at = from;
    for (uint64_t i = 0; i < lacking; i++) {
        at = room > 0 ? from + (int64_t)((i + 1) * (uint64_t)room / (lacking + 1)) : from;
        who.time_raw = tg_raw(m, at);
        if (!is_call)
            TG_EMIT(m->trace, TG_DPC, &who, tg_n((uint64_t)who.time_raw), tg_n(at_routine));
        else if (i % 2 == 0)
            TG_EMIT(m->trace, TG_SYSCALL_ENTER, &who, tg_n(at_routine));
        else
            TG_EMIT(m->trace, TG_SYSCALL_EXIT, &who, tg_n(ok));
    }
    cpu->clock = at;
    if (!t->is_idle)
        t->last = at;
}

/* ---- the beginning ---- */

/* Every processor's first one at a time of its own. */
static void begin_all(tg_machine *m, uint64_t period_ticks, tg_action *run) {
    for (uint32_t i = 0; i < m->scenario->cpus; i++)
        tg_schedule_in(m, (int64_t)(period_ticks * i / m->scenario->cpus + tg_below(&m->dice, 50)), run, &m->cpus[i]);
}

void tg_begin_interrupts(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    if (s->clock_interrupts_per_second)
        begin_all(m, TG_TICKS_PER_SECOND / s->clock_interrupts_per_second, clock_tick);
    if (s->samples_per_second && tg_records(m->trace, TG_GROUP_SAMPLE))
        begin_all(m, TG_TICKS_PER_SECOND / s->samples_per_second, take_sample);
    if (s->pmc_samples_per_second && tg_records(m->trace, TG_GROUP_PMC))
        begin_all(m, TG_TICKS_PER_SECOND / s->pmc_samples_per_second, take_counter_sample);
    if (s->events_per_second) {
        m->pace_base = tg_trace_events(m->trace);
        m->pace_begin = m->now;
        begin_all(m, PACE_ROUND_TICKS, pace);
    }
}
