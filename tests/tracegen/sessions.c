/* The processes that exist at the beginning and those that start later: a boot, services, users that log on, and the
 * programs that running programs start. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

typedef struct spawner {
    tg_process *parent;
    const tg_activity *activity;
    size_t turns;
} spawner;

typedef struct boot {
    size_t next; /* of scenario->starts */
    uint32_t left;
} boot;

typedef struct logon {
    uint32_t session;
    uint8_t user;
    size_t next; /* of scenario->logon_programs */
    tg_list processes;
} logon;

typedef struct birth {
    const tg_program *program;
    const char *command;
    uint32_t session;
    uint8_t user;
    logon *logon; /* NULL: no session of its own */
} birth;

static void give_birth(tg_machine *m, tg_thread *t, void *subject) {
    const birth *b = subject;
    tg_process *p = tg_start_process(m, t, b->program, b->command, b->session, b->user);
    if (p && b->logon)
        tg_push(m, &b->logon->processes, p);
}

/* Any thread of a process starts a program as the next thing that it does. */
static void order(tg_machine *m, tg_process *parent, const birth *b) {
    tg_thread *t = tg_any_thread(m, parent);
    birth *copy = t ? tg_new(m, sizeof *copy) : NULL;
    if (!copy)
        return;
    *copy = *b;
    tg_send(m, t, give_birth, copy);
}

static birth birth_of(const tg_program *program, const tg_process *parent) {
    /* children of people's processes stay in their session, under their SID */
    int inherits = parent->session != parent->program->session && program->user == TG_USER_PERSON;
    return (birth){.program = program,
                   .session = inherits ? parent->session : program->session,
                   .user = inherits ? parent->user : (uint8_t)program->user};
}

/* ---- while a process lives ---- */

static void exit_now(tg_machine *m, tg_thread *t, void *subject) {
    (void)subject;
    tg_end_process(m, t);
}

static void end_of_life(tg_machine *m, void *subject) {
    tg_process *p = subject;
    if (!tg_is_alive(&p->life) || p->is_ending)
        return;
    p->is_ending = 1;
    tg_send(m, p->threads.items[0], exit_now, NULL);
}

static void end_worker(tg_machine *m, tg_thread *t, void *subject) {
    (void)subject;
    tg_end_thread(m, t);
}

static void worker_is_done(tg_machine *m, void *subject) {
    tg_thread *t = subject;
    if (tg_is_alive(&t->life) && !t->process->is_ending && t != t->process->threads.items[0])
        tg_send(m, t, end_worker, NULL);
}

static void start_worker(tg_machine *m, tg_thread *by, void *subject) {
    static const tg_range life_ms = {20, 1500};
    tg_thread *t = tg_start_thread(m, by, subject, 0, NULL);
    if (t && tg_chance(&m->dice, 50))
        tg_schedule_in(m, tg_pick_ms(m, &life_ms), worker_is_done, t);
}

static void want_worker(tg_machine *m, void *subject) {
    tg_process *p = subject;
    tg_thread *t = tg_is_alive(&p->life) && !p->is_ending ? tg_any_thread(m, p) : NULL;
    if (t)
        tg_send(m, t, start_worker, p);
}

static void want_plugin(tg_machine *m, void *subject) {
    tg_process *p = subject;
    tg_thread *t = tg_is_alive(&p->life) && !p->is_ending ? tg_any_thread(m, p) : NULL;
    if (!t)
        return;
    tg_send(m, t, tg_change_plugin, p);
    tg_schedule_in(m, tg_pick_ms(m, &p->program->plugin_ms), want_plugin, p);
}

static void spawn(tg_machine *m, void *subject) {
    spawner *s = subject;
    if (!tg_is_alive(&s->parent->life) || s->parent->is_ending)
        return;
    const tg_program *program = tg_find_program(m, s->activity->child, s->turns++);
    birth b = birth_of(program, s->parent);
    order(m, s->parent, &b);
    tg_schedule_in(m, tg_pick_ms(m, &s->activity->every_ms), spawn, s);
}

void tg_plan_life(tg_machine *m, tg_process *p) {
    static const tg_range first_worker_ms = {0, 2000};
    const tg_program *program = p->program;
    if (program->life_ms.high)
        tg_schedule_in(m, tg_pick_ms(m, &program->life_ms), end_of_life, p);
    if (p->life.begin != INT64_MIN && p->role->image) {
        int64_t workers = tg_between(&m->dice, program->threads.low, program->threads.high) - 1;
        tg_range when = program->life_ms.high ? (tg_range){0, program->life_ms.low} : first_worker_ms;
        for (int64_t i = 0; i < workers; i++)
            tg_schedule_in(m, tg_pick_ms(m, &when), want_worker, p);
    }
    for (size_t i = 0; i < m->scenario->activity_count; i++) {
        const tg_activity *a = &m->scenario->activities[i];
        spawner *s = strcmp(a->parent, program->name) == 0 ? tg_new(m, sizeof *s) : NULL;
        if (!s)
            continue;
        *s = (spawner){.parent = p, .activity = a};
        tg_schedule_in(m, tg_pick_ms(m, &a->every_ms), spawn, s);
    }
    if (program->plugins)
        tg_schedule_in(m, tg_pick_ms(m, &program->plugin_ms), want_plugin, p);
}

/* ---- the beginning ---- */

static tg_process *first_of(const tg_machine *m, const char *name) {
    for (size_t i = 0; i < m->processes.count; i++) {
        tg_process *p = m->processes.items[i];
        if (tg_is_alive(&p->life) && strcmp(p->program->name, name) == 0)
            return p;
    }
    return NULL;
}

static size_t count_of(const tg_machine *m, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < m->processes.count; i++)
        n += strcmp(((tg_process *)m->processes.items[i])->program->name, name) == 0;
    return n;
}

/* A boot has Idle and System from the beginning, like every trace of one. */
void tg_place_all(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    for (size_t i = 0; i < s->start_count && (!s->boots || i < 2); i++)
        for (uint32_t k = 0; k < s->starts[i].count; k++)
            tg_place_process(m, tg_find_program(m, s->starts[i].program, count_of(m, s->starts[i].program)),
                             s->starts[i].parent ? first_of(m, s->starts[i].parent) : NULL);
}

static void boot_next(tg_machine *m, void *subject) {
    boot *b = subject;
    const tg_scenario *s = m->scenario;
    if (b->next == s->start_count)
        return;
    const tg_start *start = &s->starts[b->next];
    tg_process *parent = start->parent ? first_of(m, start->parent) : NULL;
    if (parent && tg_any_thread(m, parent)) {
        const tg_program *program = tg_find_program(m, start->program, count_of(m, start->program));
        birth first = birth_of(program, parent);
        order(m, parent, &first);
        if (++b->left >= start->count) {
            b->left = 0;
            b->next++;
        }
    }
    tg_schedule_in(m, tg_pick_us(m, &s->boot_gap_us), boot_next, b);
}

/* ---- people ---- */

static void log_off(tg_machine *m, void *subject) {
    logon *l = subject;
    for (size_t i = l->processes.count; i-- > 0;)
        end_of_life(m, l->processes.items[i]);
    for (size_t i = 0; i < m->processes.count; i++) { /* and what these have started */
        tg_process *p = m->processes.items[i];
        if (p->session == l->session)
            end_of_life(m, p);
    }
}

/* smss starts csrss and winlogon of the session, winlogon what the scenario says. */
static void log_on_next(tg_machine *m, void *subject) {
    logon *l = subject;
    const tg_scenario *s = m->scenario;
    static const tg_range gap_ms = {20, 120};
    if (l->next == s->logon_program_count) {
        tg_schedule_in(m, tg_pick_ms(m, &s->logon_lasts_ms), log_off, l);
        return;
    }
    const tg_program *program = tg_find_program(m, s->logon_programs[l->next].name, 0);
    tg_process *parent = first_of(m, l->next < 2 ? "smss.exe" : "explorer.exe");
    if (l->next >= 2) {
        for (size_t i = 0; i < l->processes.count; i++) { /* the session's own */
            tg_process *p = l->processes.items[i];
            if (strcmp(p->program->name, l->next == 2 ? "winlogon.exe" : "explorer.exe") == 0)
                parent = p;
        }
    }
    if (parent) {
        birth b = {.program = program,
                   .session = l->session,
                   .user = program->user == TG_USER_PERSON ? l->user : (uint8_t)program->user,
                   .logon = l};
        order(m, parent, &b);
    }
    l->next++;
    tg_schedule_in(m, tg_pick_ms(m, &gap_ms), log_on_next, l);
}

static void log_on(tg_machine *m, void *subject) {
    uint32_t *left = subject;
    logon *l = tg_new(m, sizeof *l);
    if (!l || !*left)
        return;
    --*left;
    l->session = m->next_session++;
    l->user = (uint8_t)(TG_USER_PERSON + (l->session - 1) % (m->sid_count - TG_USER_PERSON));
    log_on_next(m, l);
    tg_schedule_in(m, tg_pick_ms(m, &m->scenario->logon_every_ms), log_on, left);
}

void tg_begin_sessions(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    if (s->boots) {
        boot *b = tg_new(m, sizeof *b);
        if (b) {
            b->next = 2;
            tg_schedule_in(m, tg_pick_us(m, &s->boot_gap_us), boot_next, b);
        }
    }
    uint32_t *left = s->logons ? tg_new(m, sizeof *left) : NULL;
    if (left) {
        *left = s->logons;
        tg_schedule_in(m, tg_pick_ms(m, &s->logon_every_ms), log_on, left);
    }
}
