/* What a running thread does next: its program's weights decide. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

/* A weight's index by chance. */
static enum tg_work choose(tg_machine *m, const tg_program *program) {
    uint64_t n = tg_below(&m->dice, program->weight_sum);
    for (int i = 0; i < TG_WORK_COUNT; i++) {
        if (n < program->weights[i])
            return (enum tg_work)i;
        n -= program->weights[i];
    }
    return TG_WORK_WAIT;
}

static int64_t burst(tg_machine *m, const tg_thread *t) {
    return tg_pick_us(m, &t->process->program->burst_us);
}

int64_t tg_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    const tg_program *program = t->process->program;
    if (t->operation)
        return tg_file_work(m, cpu, t);
    if (!program->weight_sum) {
        tg_wait(m, t, TG_WAIT_QUEUE, INT64_MAX);
        return 0;
    }
    switch (choose(m, program)) {
    case TG_WORK_SYSCALL:
        for (uint64_t n = 1 + tg_below(&m->dice, 4); n; n--)
            tg_system_call(m, cpu, t, tg_chance(&m->dice, 3) ? 0xC0000034 : 0);
        break;
    case TG_WORK_FILE:
        return tg_file_work(m, cpu, t);
    case TG_WORK_REGISTRY:
        tg_registry_work(m, cpu, t);
        break;
    case TG_WORK_NETWORK:
        tg_network_work(m, cpu, t);
        break;
    case TG_WORK_MEMORY:
        tg_memory_work(m, cpu, t);
        break;
    case TG_WORK_DISK:
        return tg_disk_work(m, cpu, t);
    case TG_WORK_DOTNET:
        tg_dotnet_work(m, cpu, t);
        break;
    case TG_WORK_EVENTS:
        tg_event_work(m, cpu, t);
        break;
    case TG_WORK_HANDLE:
        tg_handle_work(m, cpu, t);
        break;
    case TG_WORK_WAIT: {
        static const uint8_t reasons[] = {TG_WAIT_USER_REQUEST, TG_WAIT_QUEUE, TG_WAIT_DELAY, TG_WAIT_ALERT};
        int64_t until = tg_system_call_enter(m, cpu, t);
        until += tg_pick_us(m, &program->wait_us);
        tg_wait(m, t, reasons[tg_below(&m->dice, 4)], until);
        return 0;
    }
    default:
        break;
    }
    return burst(m, t);
}
