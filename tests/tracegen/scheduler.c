/* Processors: who runs, who is ready, who waits and is woken; what each thread used. Strict priorities with a quantum,
 * a ready queue a processor, idle processors take what others have waiting. See subsystems.h. */
#include "proto/base/map.h"
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum {
    QUANTUM_TICKS = 20 * TG_TICKS_PER_MS,
    DISPATCH_TICKS = 30, /* from a switch to the first thing that the thread does */
    CLOCK_TICKS = 156250,
    BOOST_MAX = 15, /* priorities above are real-time: never boosted */
    READY_UNWAIT = 1,
};

static void step(tg_machine *m, void *subject);

void tg_make_cpus(tg_machine *m) {
    m->cpus = ea_arena_zalloc(&m->arena, m->scenario->cpus, sizeof *m->cpus);
    if (!m->cpus) {
        m->failed = 1;
        return;
    }
    for (uint32_t i = 0; i < m->scenario->cpus; i++) {
        m->cpus[i].number = (uint16_t)i;
        m->cpus[i].clock = m->cpus[i].switched_at = m->cpus[i].counted_to = m->start;
        m->idle_cpus[i / 64] |= (uint64_t)1 << i % 64;
        for (int k = 0; k < TG_PMC_MAX; k++)
            m->cpus[i].pmc[k] = tg_below(&m->dice, (uint64_t)1 << 40);
    }
}

tg_cpu *tg_cpu_of(tg_machine *m, const tg_thread *t) {
    return &m->cpus[t->cpu];
}

/* ---- counters ---- */

/* Cycles, instructions, cache misses: each program has its own instructions a cycle and its own misses. */
void tg_count_cycles(tg_machine *m, tg_cpu *cpu, int64_t to) {
    if (to <= cpu->counted_to)
        return;
    tg_thread *t = cpu->running;
    uint64_t ticks = (uint64_t)(to - cpu->counted_to), cycles = tg_cycles(m, ticks);
    uint64_t kind = (uint64_t)(t->process->program - m->scenario->programs);
    if (t->is_idle)
        cycles /= 64; /* it is halted most of the time */
    uint64_t instructions = cycles * (40 + kind * 37 % 120) / 64, misses = instructions / (150 + kind * 53 % 2000);
    const uint64_t delta[TG_PMC_MAX] = {cycles, instructions, misses};
    for (int i = 0; i < TG_PMC_MAX; i++) {
        cpu->pmc[i] += delta[i];
        t->pmc[i] += delta[i];
    }
    cpu->counted_to = to;
}

/* ---- ready queues ---- */

static void push_ready(tg_machine *m, tg_cpu *cpu, tg_thread *t, int in_front) {
    unsigned p = t->priority;
    t->cpu = cpu->number;
    t->next_ready = NULL;
    if (!cpu->ready_first[p]) {
        cpu->ready_first[p] = cpu->ready_last[p] = t;
    } else if (in_front) {
        t->next_ready = cpu->ready_first[p];
        cpu->ready_first[p] = t;
    } else {
        cpu->ready_last[p]->next_ready = t;
        cpu->ready_last[p] = t;
    }
    cpu->ready_mask |= 1u << p;
    m->ready_total++;
}

static unsigned highest(uint32_t mask) {
    unsigned p = 31;
    while (!(mask >> p & 1))
        p--;
    return p;
}

static void remove_ready(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    unsigned p = t->priority;
    tg_thread *before = NULL, *at = cpu->ready_first[p];
    while (at && at != t) {
        before = at;
        at = at->next_ready;
    }
    if (!at)
        return;
    if (before)
        before->next_ready = t->next_ready;
    else
        cpu->ready_first[p] = t->next_ready;
    if (cpu->ready_last[p] == t)
        cpu->ready_last[p] = before;
    if (!cpu->ready_first[p])
        cpu->ready_mask &= ~(1u << p);
    m->ready_total--;
}

/* Takes the thread that runs next on a processor: the first one of the highest priority, else one from the ready queue
 * of another processor, else the idle thread. */
static tg_thread *take_next(tg_machine *m, tg_cpu *cpu) {
    tg_cpu *from = cpu;
    if (!cpu->ready_mask && m->ready_total) {
        uint32_t n = m->scenario->cpus;
        for (uint32_t i = 1; i < n && !from->ready_mask; i++)
            from = &m->cpus[(cpu->number + i) % n];
    }
    if (!from->ready_mask)
        return cpu->idle;
    tg_thread *t = from->ready_first[highest(from->ready_mask)];
    remove_ready(m, from, t);
    return t;
}

/* ---- switching ---- */

static void go_on(tg_machine *m, tg_cpu *cpu, int64_t in_ticks) {
    tg_schedule(m, (cpu->clock > m->now ? cpu->clock : m->now) + in_ticks, step, cpu);
    cpu->step_number = m->action_count;
}

static void switch_to(tg_machine *m, tg_cpu *cpu, tg_thread *next, uint8_t reason, uint8_t state) {
    tg_thread *old = cpu->running;
    if (old->last > cpu->clock)
        cpu->clock = old->last;
    next->cpu = cpu->number;
    int64_t at = tg_stamp(m, cpu, next);
    tg_count_cycles(m, cpu, at);
    old->run_ticks += (uint64_t)(at - cpu->switched_at);
    old->waits += state == TG_STATE_WAITING;
    old->state = old->is_idle ? TG_STATE_READY : state;
    old->wait_reason = reason;
    old->last = at;
    uint64_t waited = (uint64_t)(at - next->state_since);
    if (next->state == TG_STATE_READY && !next->is_idle)
        next->ready_ticks += waited;
    old->state_since = next->state_since = at;
    next->state = TG_STATE_RUNNING;
    next->switches++;
    cpu->running = next;
    cpu->switched_at = at;
    uint64_t bit = (uint64_t)1 << cpu->number % 64;
    if (next->is_idle)
        m->idle_cpus[cpu->number / 64] |= bit;
    else
        m->idle_cpus[cpu->number / 64] &= ~bit;
    tg_context who = tg_who(m, cpu, NULL, at);
    if (m->scenario->pmc_on_switches) {
        who.pmc = cpu->pmc;
        who.pmc_count = TG_PMC_MAX;
    }
    TG_EMIT(m->trace, TG_CSWITCH, &who, tg_n(next->tid), tg_n(old->tid), tg_n(next->priority), tg_n(old->priority),
            tg_n(old->is_idle), tg_n(reason), tg_n(reason == TG_WAIT_USER_REQUEST),
            tg_n(old->is_idle ? TG_STATE_RUNNING : state), tg_n(old->ideal_cpu), tg_n(waited / CLOCK_TICKS));
    if (next->is_idle)
        return;
    tg_stack_of(m, cpu, next, at, TG_STACK_OF_CSWITCH, 1);
    cpu->quantum_end = at + QUANTUM_TICKS;
    go_on(m, cpu, DISPATCH_TICKS + (int64_t)tg_below(&m->dice, DISPATCH_TICKS));
}

/* A ready thread finds a processor: its ideal one, the last one, any idle one; else it queues or preempts. */
static void place(tg_machine *m, tg_thread *t) {
    uint32_t cpus = m->scenario->cpus, groups = (cpus + 63) / 64;
    tg_cpu *target = &m->cpus[t->ideal_cpu];
    if (!target->running->is_idle && m->cpus[t->cpu].running->is_idle)
        target = &m->cpus[t->cpu];
    for (uint32_t g = 0; g < groups && !target->running->is_idle; g++) {
        uint64_t idle = m->idle_cpus[(t->ideal_cpu / 64u + g) % groups];
        if (idle) {
            uint32_t n = (t->ideal_cpu / 64u + g) % groups * 64;
            for (; !(idle & 1); idle >>= 1)
                n++;
            target = &m->cpus[n];
        }
    }
    if (target->running->is_idle) {
        switch_to(m, target, t, 0, TG_STATE_READY);
    } else if (t->priority > target->running->priority) {
        tg_thread *old = target->running;
        push_ready(m, target, old, 1);
        switch_to(m, target, t, TG_WAIT_PREEMPTED, TG_STATE_READY);
    } else {
        push_ready(m, target, t, 0);
    }
}

void tg_wake(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint8_t boost) {
    if (t->state != TG_STATE_WAITING || !tg_is_alive(&t->life))
        return;
    int64_t at = tg_stamp(m, cpu, t);
    if (t->waits)
        t->wait_ticks += (uint64_t)(at - t->state_since);
    t->state = TG_STATE_READY;
    t->state_since = at;
    t->wake_number = 0;
    t->pinned_by = NULL;
    unsigned base = t->process->program->priority;
    if (base <= BOOST_MAX)
        t->priority = (uint8_t)(base + boost > BOOST_MAX ? BOOST_MAX : base + boost);
    tg_context who = tg_who(m, cpu, NULL, at);
    TG_EMIT(m->trace, TG_READY_THREAD, &who, tg_n(t->tid), tg_n(READY_UNWAIT), tg_n(boost),
            tg_n(cpu->running->is_idle));
    tg_stack_of(m, cpu, cpu->running, at, TG_STACK_OF_READY, 1);
    place(m, t);
}

static void wake_by_timer(tg_machine *m, void *subject) {
    tg_thread *t = subject;
    if (t->wake_number == m->number)
        tg_wake(m, tg_cpu_of(m, t), t, 0);
}

void tg_wait(tg_machine *m, tg_thread *t, uint8_t reason, int64_t until) {
    tg_cpu *cpu = tg_cpu_of(m, t);
    t->wake_number = 0;
    switch_to(m, cpu, take_next(m, cpu), reason, TG_STATE_WAITING);
    if (until != INT64_MAX) {
        tg_schedule(m, until > t->last ? until : t->last + 1, wake_by_timer, t);
        t->wake_number = m->action_count;
    }
}

void tg_first_ready(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    t->state_since = t->last;
    tg_wake(m, cpu, t, 0);
}

void tg_begin_scheduler(tg_machine *m) {
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        for (size_t k = 0; k < p->threads.count && p->program->weight_sum; k++) {
            tg_thread *t = p->threads.items[k];
            t->last = t->state_since = m->now;
            tg_schedule_in(m, tg_pick_us(m, &p->program->wait_us), wake_by_timer, t);
            t->wake_number = m->action_count;
        }
    }
}

void tg_forget_thread(tg_machine *m, tg_thread *t) {
    tg_cpu *cpu = tg_cpu_of(m, t);
    t->errands = t->errands_end = NULL;
    t->pinned_by = NULL;
    t->wake_number = 0;
    if (t->state == TG_STATE_RUNNING)
        switch_to(m, cpu, take_next(m, cpu), TG_WAIT_TERMINATED, TG_STATE_TERMINATED);
    else if (t->state == TG_STATE_READY)
        remove_ready(m, cpu, t);
    t->state = TG_STATE_TERMINATED;
}

void tg_send(tg_machine *m, tg_thread *t, tg_errand *run, void *subject) {
    tg_errand_row *e = tg_new(m, sizeof *e);
    if (!e)
        return;
    *e = (tg_errand_row){.run = run, .subject = subject};
    if (t->errands)
        t->errands_end->next = e;
    else
        t->errands = e;
    t->errands_end = e;
    if (t->state == TG_STATE_WAITING && !t->pinned_by)
        tg_wake(m, tg_cpu_of(m, t), t, 1);
}

/* ---- running ---- */

/* The running thread's next step on a processor. */
static void step(tg_machine *m, void *subject) {
    tg_cpu *cpu = subject;
    tg_thread *t = cpu->running;
    if (cpu->step_number != m->number || t->is_idle)
        return;
    int64_t in_ticks = DISPATCH_TICKS;
    tg_late_stacks(m, cpu, t, 0);
    tg_errand_row *e = t->errands;
    if (e) {
        t->errands = e->next;
        if (e->run)
            e->run(m, t, e->subject);
    } else {
        in_ticks = tg_work(m, cpu, t);
    }
    if (cpu->running != t)
        return; /* it waits or has ended: the switch has planned the next step */
    if (cpu->clock + in_ticks > cpu->quantum_end && cpu->ready_mask >> t->priority) {
        if (t->priority > t->process->program->priority)
            t->priority--; /* a boost wears off */
        tg_thread *next = take_next(m, cpu);
        push_ready(m, cpu, t, 0);
        switch_to(m, cpu, next, TG_WAIT_QUANTUM_END, TG_STATE_READY);
        return;
    }
    if (cpu->clock > cpu->quantum_end)
        cpu->quantum_end = cpu->clock + QUANTUM_TICKS;
    go_on(m, cpu, in_ticks);
}
