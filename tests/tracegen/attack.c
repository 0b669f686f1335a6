/* The scenario's script: at set times, processes do set things. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

static void run_step(tg_machine *m, tg_thread *t, void *subject) {
    const tg_script_step *s = subject;
    tg_process *p = t->process;
    uint32_t pid = p->pid, tid = t->tid;
    tg_process *target = s->program && s->kind != TG_STEP_START ? tg_newest(m, s->program) : NULL;
    static const char *const names[] = {"start",        "load",          "connect",   "set-value",
                                        "delete-value", "write-file",    "read-file", "delete-file",
                                        "open-process", "inject-thread", "exit"};
    switch (s->kind) {
    case TG_STEP_START:
        tg_start_process(m, t, tg_find_program(m, s->program, 0), s->command, p->session, p->user);
        break;
    case TG_STEP_LOAD:
        tg_load(m, t, tg_find_image(m, s->path ? s->path : "\\unknown.dll"));
        break;
    case TG_STEP_CONNECT:
        tg_connect_to(m, t, s->address, s->port, s->sent_bytes, s->received_bytes);
        break;
    case TG_STEP_SET_VALUE:
    case TG_STEP_DELETE_VALUE:
        tg_registry_step(m, t, s->path ? s->path : "", s->value ? s->value : "", s->kind == TG_STEP_DELETE_VALUE);
        break;
    case TG_STEP_WRITE_FILE:
    case TG_STEP_READ_FILE:
    case TG_STEP_DELETE_FILE:
        tg_file_step(m, t, s->path ? s->path : "", (int)s->kind);
        break;
    case TG_STEP_OPEN_PROCESS:
        if (target)
            tg_open_process(m, t, target);
        break;
    case TG_STEP_INJECT_THREAD:
        if (target && target->threads.count) {
            tg_open_process(m, t, target);
            tg_allocate(m, t, target, 0x3000);
            tg_start_thread(m, t, target, target->next_private - 0x10000 + 0x40, NULL);
        }
        break;
    default:
        p->is_ending = 1;
        break;
    }
    tg_truth_step(m->truth, m, s->technique ? s->technique : "", names[s->kind], pid, tid, t->last);
    if (s->kind == TG_STEP_EXIT)
        tg_end_process(m, t);
}

static void step_is_due(tg_machine *m, void *subject) {
    const tg_script_step *s = subject;
    tg_process *by = tg_newest(m, s->by);
    tg_thread *t = by && by->threads.count ? by->threads.items[0] : NULL;
    if (t && tg_is_alive(&t->life) && !t->is_idle)
        tg_send(m, t, run_step, subject);
}

void tg_begin_script(tg_machine *m) {
    for (size_t i = 0; i < m->scenario->script_count; i++)
        tg_schedule_in(m, (int64_t)m->scenario->script[i].at_ms * TG_TICKS_PER_MS, step_is_due,
                       &m->scenario->script[i]);
}
