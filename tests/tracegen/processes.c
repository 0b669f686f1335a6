/* Processes, threads and modules: what is logged of them, how they begin and end. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

/* ---- events ---- */

void tg_emit_process(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_process *p, int *ret_logged) {
    *ret_logged =
        TG_EMIT(m->trace, form, who, tg_n(p->unique_key), tg_n(p->pid), tg_n(p->parent_pid), tg_n(p->session),
                tg_n((uint32_t)(form == TG_PROCESS_END ? p->exit_status : TG_STILL_ACTIVE)),
                tg_n(p->directory_table_base), tg_n(0), tg_bytes(m->sids[p->user].bytes, m->sids[p->user].len_bytes),
                tg_text(p->program->name), tg_text(p->command_line));
}

static uint64_t affinity(const tg_machine *m, const tg_thread *t) {
    unsigned group = t->ideal_cpu / 64u, cpus = m->scenario->cpus - 64 * group;
    uint64_t mask = cpus >= 64 ? UINT64_MAX : ((uint64_t)1 << cpus) - 1;
    mask = t->is_idle ? (uint64_t)1 << t->cpu % 64 : mask;
    return m->scenario->pointer_bytes == 4 ? mask & UINT32_MAX : mask;
}

void tg_emit_thread(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_thread *t, int *ret_logged) {
    *ret_logged = TG_EMIT(m->trace, form, who, tg_n(t->process->pid), tg_n(t->tid), tg_n(t->stack_base),
                          tg_n(t->stack_base - 0x6000), tg_n(t->user_stack_base),
                          tg_n(t->user_stack_base ? t->user_stack_base - 0x10000 : 0), tg_n(affinity(m, t)),
                          tg_n(t->start_address), tg_n(t->teb), tg_n(t->priority), tg_n(5), tg_n(2), tg_text(t->name));
}

/* What the tool that merges traces puts before an image's event, at its very time: the file's identity and its PDB's.
 */
void tg_emit_image(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_process *p, const tg_image *i,
                   int *ret_logged) {
    uint32_t pid = p->pid;
    if (i->is_announced) {
        tg_context own = *who;
        own.pid = pid;
        *ret_logged = tg_announce(m, &own, form, i);
        return;
    }
    if (form != TG_IMAGE_UNLOAD && m->scenario->image_ids) {
        TG_EMIT(m->trace, TG_IMAGE_ID, who, tg_n(i->base), tg_n(i->size_bytes), tg_n(pid), tg_n(i->timestamp),
                tg_text(i->file));
        TG_EMIT(m->trace, TG_IMAGE_RSDS, who, tg_n(i->base), tg_n(pid), tg_bytes(i->pdb_guid.bytes, 16),
                tg_n(i->pdb_age), tg_text(i->pdb_name));
    }
    *ret_logged = TG_EMIT(m->trace, form, who, tg_n(i->base), tg_n(i->size_bytes), tg_n(pid), tg_n(i->checksum),
                          tg_n(i->timestamp), tg_n(i->base), tg_text(i->path));
}

/* ---- finding ---- */

const tg_program *tg_find_program(const tg_machine *m, const char *name, size_t variant) {
    const tg_scenario *s = m->scenario;
    size_t count = 0;
    for (size_t i = 0; i < s->program_count; i++)
        count += strcmp(s->programs[i].name, name) == 0;
    if (!count)
        return NULL;
    variant %= count;
    for (size_t i = 0; i < s->program_count; i++)
        if (strcmp(s->programs[i].name, name) == 0 && variant-- == 0)
            return &s->programs[i];
    return NULL;
}

tg_process *tg_newest(const tg_machine *m, const char *name) {
    for (size_t i = m->processes.count; i-- > 0;) {
        tg_process *p = m->processes.items[i];
        if (tg_is_alive(&p->life) && !p->is_ending && strcmp(p->program->name, name) == 0)
            return p;
    }
    return NULL;
}

tg_thread *tg_any_thread(tg_machine *m, const tg_process *p) {
    for (int tries = 0; tries < 12 && p->threads.count; tries++) {
        tg_thread *t = p->threads.items[tg_below(&m->dice, p->threads.count)];
        if (tg_is_alive(&t->life))
            return t->is_idle ? NULL : t;
    }
    for (size_t i = p->threads.count; i-- > 0;) {
        tg_thread *t = p->threads.items[i];
        if (tg_is_alive(&t->life))
            return t->is_idle ? NULL : t;
    }
    return NULL;
}

const tg_module *tg_main_module(const tg_process *p) {
    return p->role->image && p->modules.count ? p->modules.items[0] : NULL;
}

/* ---- beginnings ---- */

static uint64_t start_address(tg_machine *m, const tg_process *p) {
    const tg_image *home = p->role->image ? p->role->image : m->images.items[0];
    return home->base + 0x1000 + tg_below(&m->dice, home->size_bytes - 0x2000) / 16 * 16;
}

static tg_thread *add_thread(tg_machine *m, tg_process *p, int64_t begin) {
    tg_thread *t = tg_new(m, sizeof *t);
    if (!t)
        return NULL;
    *t = (tg_thread){.process = p,
                     .life = {.begin = begin, .end = INT64_MAX},
                     .tid = p->pid ? tg_take_id(m) : 0,
                     .priority = (uint8_t)p->program->priority,
                     .state = TG_STATE_WAITING};
    t->ideal_cpu = t->cpu = (uint16_t)tg_below(&m->dice, m->scenario->cpus);
    t->stack_base = m->kernel_stack_next += 0x8000 * (1 + tg_below(&m->dice, 3));
    t->start_address = start_address(m, p);
    t->last = t->state_since = m->now;
    if (p->role->image) {
        int is_32_bit = tg_is_narrow(m, p->program);
        t->teb = is_32_bit ? 0x7FFDF000 - 0x1000 * (uint64_t)(t->tid / 4 % 0x1000)
                           : 0x4D00000000 + (uint64_t)t->tid * 0x1000;
        t->user_stack_base =
            is_32_bit ? 0x00090000 + (uint64_t)(t->tid / 4 % 0x300) * 0x100 : 0x4E00000000 + (uint64_t)t->tid * 0x40000;
        if (is_32_bit)
            t->user_stack_base = 0x10000000 + (uint64_t)(t->tid / 4 % 0x1000) * 0x20000 % 0x20000000;
    }
    if (p->threads.count && tg_chance(&m->dice, 25))
        t->name = tg_chance(&m->dice, 50) ? "Pool worker" : "Zeitgeber \xE2\x8F\xB1";
    tg_push(m, &p->threads, t);
    return t;
}

static tg_module *add_module(tg_machine *m, tg_process *p, const tg_image *image, int64_t begin) {
    tg_module *module = tg_new(m, sizeof *module);
    if (!module)
        return NULL;
    *module = (tg_module){.image = image, .life = {.begin = begin, .end = INT64_MAX}};
    tg_push(m, &p->modules, module);
    return module;
}

/* One of the command line's alternatives, with numbers for its #s. */
static const char *command_line(tg_machine *m, const char *pattern) {
    size_t alternatives = 1;
    for (const char *p = pattern; *p; p++)
        alternatives += *p == '|';
    for (size_t skip = tg_below(&m->dice, alternatives); skip; skip--)
        pattern = strchr(pattern, '|') + 1;
    ea_text t;
    ea_text_init(&t);
    for (; *pattern && *pattern != '|'; pattern++) {
        if (*pattern == '#')
            ea_text_u64(&t, tg_below(&m->dice, 9000) + 1000);
        else
            ea_text_char(&t, *pattern);
    }
    return tg_keep_text(m, &t);
}

static tg_process *add_process(tg_machine *m, const tg_program *program, const tg_process *parent, int64_t begin) {
    tg_process *p = tg_new(m, sizeof *p);
    if (!p)
        return NULL;
    uint32_t pid = strcmp(program->name, "Idle") == 0 ? 0 : strcmp(program->name, "System") == 0 ? 4 : tg_take_id(m);
    int is_32_bit = m->scenario->pointer_bytes == 4;
    *p = (tg_process){.program = program,
                      .role = &m->roles[program - m->scenario->programs],
                      .parent = parent,
                      .life = {.begin = begin, .end = INT64_MAX},
                      .pid = pid,
                      .parent_pid = parent ? parent->pid : 0,
                      .session = program->session,
                      .user = (uint8_t)program->user,
                      .exit_status = TG_STILL_ACTIVE};
    p->unique_key = (is_32_bit ? 0x84000030 : 0xFFFF9A0000000080) + (++m->next_key << 12);
    p->directory_table_base = 0x1AD000 + tg_below(&m->dice, 0x80000) * 0x1000;
    p->heap = p->next_private =
        tg_is_narrow(m, program) ? 0x01000000 : 0x20000000000 + (tg_below(&m->dice, 0x10000) << 16);
    p->command_line = command_line(m, program->command);
    tg_push(m, &m->processes, p);
    return p;
}

tg_process *tg_place_process(tg_machine *m, const tg_program *program, tg_process *parent) {
    tg_process *p = add_process(m, program, parent, INT64_MIN);
    if (!p)
        return NULL;
    if (p->role->image)
        add_module(m, p, p->role->image, INT64_MIN);
    for (size_t i = 0; i < m->images.count; i++) {
        tg_image *image = m->images.items[i];
        int is_driver = (image->sets & TG_DLLS_DRIVER) != 0;
        if (p->pid == 0 ? is_driver : p->role->image && tg_loads(program, image))
            add_module(m, p, image, INT64_MIN);
    }
    p->first_plugin = p->modules.count;
    for (uint32_t i = 0; p->pid == 0 && i < m->scenario->cpus; i++) { /* each processor's own */
        tg_thread *t = add_thread(m, p, INT64_MIN);
        if (!t)
            return p;
        t->is_idle = 1;
        t->priority = 0;
        t->state = TG_STATE_RUNNING;
        t->name = NULL;
        t->cpu = t->ideal_cpu = (uint16_t)i;
        m->cpus[i].idle = m->cpus[i].running = t;
    }
    if (p->pid == 0)
        return p;
    int64_t threads = tg_between(&m->dice, program->threads.low, program->threads.high);
    for (int64_t i = 0; i < threads && !m->failed; i++)
        add_thread(m, p, INT64_MIN);
    return p;
}

tg_thread *tg_start_thread(tg_machine *m, tg_thread *by, tg_process *in, uint64_t at, const char *name) {
    tg_thread *t = add_thread(m, in, 0);
    if (!t)
        return NULL;
    tg_cpu *cpu = tg_cpu_of(m, by);
    if (at)
        t->start_address = at;
    if (name)
        t->name = name;
    int logged;
    t->life.begin = t->last = tg_stamp_state(m, cpu, by);
    tg_context who = tg_who(m, cpu, by, t->life.begin);
    tg_emit_thread(m, &who, TG_THREAD_START, t, &logged);
    t->life.begin_lost = !logged;
    tg_stack_of(m, cpu, by, t->life.begin, TG_STACK_OF_THREAD, 1);
    tg_first_ready(m, cpu, t);
    return t;
}

/* The first thing that a new process's first thread does. */
static void load_all(tg_machine *m, tg_thread *t, void *subject) {
    tg_process *p = subject;
    tg_load(m, t, p->role->image);
    for (size_t i = 0; i < m->images.count; i++) {
        const tg_image *image = m->images.items[i];
        if (tg_loads(p->program, image))
            tg_load(m, t, image);
    }
    p->first_plugin = p->modules.count;
    tg_plan_life(m, p);
}

tg_process *tg_start_process(tg_machine *m, tg_thread *by, const tg_program *program, const char *command,
                             uint32_t session, uint8_t user) {
    tg_process *parent = by->process, *p = add_process(m, program, parent, 0);
    if (!p)
        return NULL;
    tg_cpu *cpu = tg_cpu_of(m, by);
    int logged;
    p->session = session;
    p->user = user;
    if (command)
        p->command_line = command;
    p->life.begin = tg_stamp_state(m, cpu, by);
    tg_context who = tg_who(m, cpu, by, p->life.begin);
    tg_emit_process(m, &who, TG_PROCESS_START, p, &logged);
    p->life.begin_lost = !logged;
    tg_thread *first = tg_start_thread(m, by, p, 0, NULL);
    if (first)
        tg_send(m, first, p->role->image ? load_all : NULL, p);
    return p;
}

void tg_load(tg_machine *m, tg_thread *by, const tg_image *image) {
    tg_process *p = by->process;
    tg_cpu *cpu = tg_cpu_of(m, by);
    tg_module *module = add_module(m, p, image, 0);
    if (!module)
        return;
    int logged;
    module->life.begin = tg_stamp_state(m, cpu, by);
    tg_context who = tg_who(m, cpu, by, module->life.begin);
    tg_emit_image(m, &who, TG_IMAGE_LOAD, p, image, &logged);
    module->life.begin_lost = !logged;
    tg_stack_of(m, cpu, by, module->life.begin, TG_STACK_OF_THREAD, 1);
}

/* ---- ends ---- */

static void unload(tg_machine *m, tg_thread *by, tg_module *module) {
    tg_cpu *cpu = tg_cpu_of(m, by);
    int logged;
    module->life.end = tg_stamp_state(m, cpu, by);
    tg_context who = tg_who(m, cpu, by, module->life.end);
    tg_emit_image(m, &who, TG_IMAGE_UNLOAD, by->process, module->image, &logged);
    module->life.end_lost = !logged;
}

/* by: the running thread, which is t itself or another thread that ends the process. */
static void log_thread_end(tg_machine *m, tg_thread *by, tg_thread *t) {
    tg_cpu *cpu = tg_cpu_of(m, by);
    int logged;
    tg_drop_operation(m, cpu, t);
    tg_late_stacks(m, cpu, t, 1);
    if (by->last < t->last)
        by->last = t->last; /* it ends after its last event, on whichever processor that was */
    t->life.end = tg_stamp_state(m, cpu, by);
    t->last = t->life.end;
    tg_context who = tg_who(m, cpu, by, t->life.end);
    tg_emit_thread(m, &who, TG_THREAD_END, t, &logged);
    t->life.end_lost = !logged;
    tg_give_id_back(m, t->tid);
}

void tg_end_thread(tg_machine *m, tg_thread *t) {
    log_thread_end(m, t, t);
    tg_forget_thread(m, t);
}

void tg_end_process(tg_machine *m, tg_thread *by) {
    tg_process *p = by->process;
    tg_cpu *cpu = tg_cpu_of(m, by);
    p->exit_status = tg_chance(&m->dice, 85) ? 0 : (int32_t)tg_between(&m->dice, 1, 3);
    tg_end_flows(m, p);
    tg_context who = tg_who(m, cpu, by, tg_stamp(m, cpu, by));
    TG_EMIT(m->trace, TG_PROCESS_TERMINATE, &who, tg_n(p->pid));
    for (size_t i = p->threads.count; i-- > 0;) {
        tg_thread *t = p->threads.items[i];
        if (!tg_is_alive(&t->life) || t == by)
            continue;
        log_thread_end(m, by, t);
        tg_forget_thread(m, t);
    }
    for (size_t i = p->modules.count; i-- > 0;) {
        tg_module *module = p->modules.items[i];
        if (tg_is_alive(&module->life))
            unload(m, by, module);
    }
    log_thread_end(m, by, by);
    int logged;
    p->life.end = tg_stamp_state(m, cpu, by);
    who = tg_who(m, cpu, by, p->life.end);
    tg_emit_process(m, &who, TG_PROCESS_END, p, &logged);
    p->life.end_lost = !logged;
    tg_give_id_back(m, p->pid);
    tg_forget_thread(m, by);
}

/* ---- plugins: sessions.c sends threads here ---- */

void tg_change_plugin(tg_machine *m, tg_thread *t, void *subject) {
    tg_process *p = subject;
    if (p->plugin) {
        unload(m, t, p->plugin);
        p->plugin = NULL;
    } else {
        const tg_list *plugins = p->program->wow64 ? &m->narrow_plugins : &m->plugins;
        tg_load(m, t, plugins->items[tg_below(&m->dice, plugins->count)]);
        p->plugin = p->modules.items[p->modules.count - 1];
    }
}
