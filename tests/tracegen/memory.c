/* Page faults and virtual memory. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

enum { MEM_COMMIT_RESERVE = 0x3000, MEM_RELEASE = 0x8000, PAGE = 4096, HARD_FAULT_PERCENT = 2 };

void tg_allocate(tg_machine *m, tg_thread *by, tg_process *in, uint64_t size_bytes) {
    tg_cpu *cpu = tg_cpu_of(m, by);
    int64_t at = tg_stamp(m, cpu, by);
    tg_context who = tg_who(m, cpu, NULL, at);
    TG_EMIT(m->trace, TG_VIRTUAL_ALLOC, &who, tg_n(in->next_private), tg_n(size_bytes), tg_n(in->pid),
            tg_n(MEM_COMMIT_RESERVE));
    tg_stack_of(m, cpu, by, at, TG_STACK_OF_MEMORY, 1);
    in->next_private += (size_bytes + 0xFFFF) & ~(uint64_t)0xFFFF;
    if (in->next_private > in->heap + 0x4000000)
        in->next_private = in->heap; /* the same addresses come again */
}

void tg_memory_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    tg_process *p = t->process;
    uint64_t what = tg_below(&m->dice, 100);
    if (what < 10) {
        tg_allocate(m, t, p, PAGE << tg_below(&m->dice, 8));
        return;
    }
    if (what < 16 && p->next_private > p->heap) {
        tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, t));
        TG_EMIT(m->trace, TG_VIRTUAL_FREE, &who, tg_n(p->next_private - 0x10000), tg_n(0x10000), tg_n(p->pid),
                tg_n(MEM_RELEASE));
        return;
    }
    uint64_t address = p->heap + PAGE * tg_below(&m->dice, 0x3000);
    address += tg_below(&m->dice, PAGE);
    uint64_t counter = t->start_address + tg_below(&m->dice, 0x800);
    for (uint64_t n = 1 + tg_below(&m->dice, 6); n; n--, address += PAGE) {
        static const enum tg_form_id forms[] = {TG_FAULT_DEMAND_ZERO, TG_FAULT_DEMAND_ZERO, TG_FAULT_TRANSITION,
                                                TG_FAULT_COPY_ON_WRITE};

        tg_spend(m, cpu, 4, 40);
        int64_t at = tg_stamp(m, cpu, t);
        tg_context who = tg_who(m, cpu, NULL, at);
        TG_EMIT(m->trace, forms[tg_below(&m->dice, 4)], &who, tg_n(address), tg_n(counter));
        tg_stack_of(m, cpu, t, at, TG_STACK_OF_MEMORY, 1);
    }
    if (tg_chance(&m->dice, HARD_FAULT_PERCENT))
        tg_hard_fault(m, cpu, t, address);
}
