/* What a session says at its beginning and its end: all that is there, the machine's configuration, names, keys of
 * stacks; and the times when it loses events. See subsystems.h. Nothing begins or ends meanwhile. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

static void rundown(tg_machine *m, tg_cpu *cpu, enum tg_form_id process_form, enum tg_form_id thread_form,
                    enum tg_form_id image_form) {
    const tg_process *system = m->processes.count > 1 ? m->processes.items[1] : m->processes.items[0];
    const tg_thread *logs = system->threads.items[0];
    int logged;
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        if (!tg_is_alive(&p->life))
            continue;
        tg_context who = tg_who(m, cpu, logs, tg_stamp(m, cpu, NULL));
        tg_emit_process(m, &who, process_form, p, &logged);
        for (size_t k = 0; k < p->threads.count; k++) {
            const tg_thread *t = p->threads.items[k];
            if (!tg_is_alive(&t->life))
                continue;
            who = tg_who(m, cpu, logs, tg_stamp(m, cpu, NULL));
            tg_emit_thread(m, &who, thread_form, t, &logged);
        }
        for (size_t k = 0; k < p->modules.count; k++) {
            const tg_module *module = p->modules.items[k];
            if (!tg_is_alive(&module->life))
                continue;
            who = tg_who(m, cpu, logs, tg_stamp(m, cpu, NULL));
            tg_emit_image(m, &who, image_form, p, module->image, &logged);
        }
    }
}

static void configuration(tg_machine *m, tg_cpu *cpu) {
    const tg_scenario *s = m->scenario;
    const tg_thread *logs = m->cpus[0].idle;
#define NOW tg_who(m, cpu, logs, tg_stamp(m, cpu, NULL))
    tg_context who = NOW;
    TG_EMIT(m->trace, TG_CONFIG_PATHS, &who, tg_text("C:\\Windows\\system32\\"), tg_text("C:\\Windows\\"));
    who = NOW;
    TG_EMIT(m->trace, TG_CONFIG_VOLUME, &who, tg_text("\\Device\\HarddiskVolume3\\"), tg_text("C:\\"));
    who = NOW;
    TG_EMIT(m->trace, TG_CONFIG_CPU, &who, tg_n(s->mhz), tg_n(s->cpus), tg_n(s->pointer_bytes == 4 ? 4096 : 32768),
            tg_n(4096), tg_n(65536), tg_text("DESK-17"), tg_text("example"));
    who = NOW;
    TG_EMIT(m->trace, TG_CONFIG_NIC, &who, tg_n(0x665544332211), tg_n(6), tg_n(12), tg_n(12),
            tg_text("Ethernet Adapter"), tg_text("10.0.0.17"), tg_text("10.0.0.1"));
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        if (!tg_is_alive(&p->life) || !p->program->service)
            continue;
        who = NOW;
        TG_EMIT(m->trace, TG_CONFIG_SERVICE, &who, tg_n(p->pid), tg_n(4), tg_n(20 + i), tg_text(p->program->service),
                tg_text(p->program->service), tg_text(p->program->name), tg_text(""));
    }
#undef NOW
}

/* The names of the counters that follow every context switch. As long as they are: one record of its own. */
static void counter_names(tg_machine *m, tg_cpu *cpu) {
    static const char *const names[TG_PMC_MAX] = {"TotalCycles", "InstructionRetired", "CacheMisses"};
    tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, NULL));
    uint8_t text[256];
    size_t n = 0;
    for (int i = 0; i < TG_PMC_MAX; i++) {
        n += ea_utf8_to_utf16(names[i], strlen(names[i]), text + n, sizeof text - n - 2);
        ea_store16(text + n, 0);
        n += 2;
    }
    TG_EMIT(m->trace, TG_PMC_CONFIG, &who, tg_n(TG_PMC_MAX), tg_bytes(text, n));
}

void tg_begin_session(tg_machine *m) {
    tg_cpu *cpu = &m->cpus[0];
    const tg_scenario *s = m->scenario;
    rundown(m, cpu, TG_PROCESS_DCSTART, TG_THREAD_DCSTART, TG_IMAGE_DCSTART);
    if (tg_records(m->trace, TG_GROUP_REGISTRY))
        tg_registry_rundown(m, cpu, 1);
    if (s->pmc_on_switches)
        counter_names(m, cpu);
    if (s->samples_per_second) {
        uint32_t interval = 10000000 / s->samples_per_second;
        tg_context who = tg_who(m, cpu, cpu->idle, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_SAMPLE_BEGIN, &who, tg_n(0), tg_n(interval), tg_n(interval), tg_text("Timer"));
    }
    if (s->pmc_samples_per_second) {
        tg_context who = tg_who(m, cpu, cpu->idle, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_SAMPLE_BEGIN, &who, tg_n(TG_SOURCE_CYCLES), tg_n(65536), tg_n(65536),
                tg_text("TotalCycles"));
        who = tg_who(m, cpu, cpu->idle, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_SAMPLE_BEGIN, &who, tg_n(TG_SOURCE_INSTRUCTIONS), tg_n(100003), tg_n(100003),
                tg_text("InstructionRetired"));
    }
    tg_provider_rundown(m, cpu);
    m->now = cpu->clock + 1;
    for (uint32_t i = 0; i < s->cpus; i++) {
        m->cpus[i].clock = m->cpus[i].switched_at = m->cpus[i].counted_to = m->now;
        m->cpus[i].idle->last = m->cpus[i].idle->state_since = m->now;
    }
}

/* ---- losses ---- */

static void end_loss(tg_machine *m, void *subject) {
    tg_cpu *cpu = subject;
    if (!cpu->lost_from)
        return;
    uint32_t buffers;
    int64_t to = cpu->clock > m->now ? cpu->clock : m->now;
    uint64_t events = tg_trace_found(m->trace, cpu->number, cpu->lost_as_buffers, &buffers);
    tg_truth_loss(m->truth, m, cpu->number, cpu->lost_from, to, events, buffers);
    cpu->lost_from = 0;
    cpu->clock = to;
    if (!events)
        return;
    tg_context who = tg_who(m, cpu, cpu->idle, to);
    TG_EMIT(m->trace, buffers ? TG_LOST_BUFFER : TG_LOST_EVENT, &who, tg_n(0));
}

static void begin_loss(tg_machine *m, int as_buffers) {
    tg_cpu *cpu = &m->cpus[tg_below(&m->dice, m->scenario->cpus)];
    if (cpu->lost_from)
        return;
    cpu->lost_from = cpu->clock > m->now ? cpu->clock : m->now;
    cpu->lost_as_buffers = as_buffers;
    tg_trace_lose(m->trace, cpu->number);
    tg_schedule_in(m, (int64_t)m->scenario->loss_us * (TG_TICKS_PER_MS / 1000), end_loss, cpu);
}

static void lose_events(tg_machine *m, void *subject) {
    (void)subject;
    begin_loss(m, 0);
}

static void lose_buffers(tg_machine *m, void *subject) {
    (void)subject;
    begin_loss(m, 1);
}

void tg_begin_losses(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    uint64_t length = (uint64_t)s->duration_ms * TG_TICKS_PER_MS;
    for (uint32_t i = 0; i < s->lost_events_windows; i++)
        tg_schedule_in(m, (int64_t)tg_below(&m->dice, length), lose_events, m);
    for (uint32_t i = 0; i < s->lost_buffers_windows; i++)
        tg_schedule_in(m, (int64_t)tg_below(&m->dice, length), lose_buffers, m);
}

void tg_end_session(tg_machine *m) {
    tg_cpu *cpu = &m->cpus[0];
    const tg_scenario *s = m->scenario;
    for (uint32_t i = 0; i < s->cpus; i++)
        end_loss(m, &m->cpus[i]);
    for (uint32_t i = 0; i < s->cpus; i++) /* every processor is past the end */
        if (m->cpus[i].clock >= m->now)
            m->now = m->cpus[i].clock + 1;
    if (m->last_state >= m->now)
        m->now = m->last_state + 1;
    tg_stack_rundown(m, cpu);
    rundown(m, cpu, TG_PROCESS_DCEND, TG_THREAD_DCEND, TG_IMAGE_DCEND);
    tg_file_rundown(m, cpu);
    tg_registry_rundown(m, cpu, 0);
    tg_end_flows(m, NULL);
    tg_dotnet_rundown(m, cpu);
    if (s->samples_per_second) {
        uint32_t interval = 10000000 / s->samples_per_second;
        tg_context who = tg_who(m, cpu, cpu->idle, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_SAMPLE_END, &who, tg_n(0), tg_n(interval), tg_n(interval), tg_text("Timer"));
    }
    configuration(m, cpu);
    tg_providers_tell(m);
    m->now = cpu->clock + 1;
}
