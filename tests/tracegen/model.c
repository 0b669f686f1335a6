/* The machine that a trace is of. See model.h. */
#include "model.h"
#include "arena.h"
#include "dice.h"
#include "map.h"

#include <stdlib.h>
#include <string.h>

enum {
    TICKS_PER_SECOND = 10000000,
    TICKS_PER_MS = TICKS_PER_SECOND / 1000,
    PLUGIN_COUNT = 4,
    SID_BYTES_MAX = 28,
    FRAMES_MAX = 192,
    ID_REST_TICKS = TICKS_PER_SECOND, /* how long an id of something that ended is not used again */
    STILL_ACTIVE = 259,

    HOOK_PROCESS_START = 0x0301,
    HOOK_PROCESS_END = 0x0302,
    HOOK_PROCESS_DC_START = 0x0303,
    HOOK_PROCESS_DC_END = 0x0304,
    HOOK_PROCESS_TERMINATE = 0x030B,
    HOOK_IMAGE_LOAD = 0x030A,
    HOOK_IMAGE_UNLOAD = 0x1402,
    HOOK_IMAGE_DC_START = 0x1403,
    HOOK_IMAGE_DC_END = 0x1404,
    HOOK_THREAD_START = 0x0501,
    HOOK_THREAD_END = 0x0502,
    HOOK_THREAD_DC_START = 0x0503,
    HOOK_THREAD_DC_END = 0x0504,
    HOOK_SAMPLE = 0x0F2E,
    HOOK_STACK = 0x1820,
};

static const ea_guid IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);

typedef struct action {
    int64_t time;
    uint64_t number; /* the order among those of one time */
    void (*run)(tg_machine *m, void *subject);
    void *subject;
} action;

typedef struct spawner {
    tg_process *parent;
    const tg_activity *activity;
} spawner;

typedef struct freed_id {
    uint32_t id;
    int64_t since;
} freed_id;

struct tg_machine {
    const tg_scenario *scenario;
    tg_dice dice;
    ea_arena arena; /* everything that lives as long as the machine */
    tg_trace *trace;
    int64_t start_raw, now, end_raw;
    action *queue; /* a heap */
    size_t queue_count, queue_capacity;
    uint64_t action_count;
    tg_list processes, images, running; /* running: tg_thread that a CPU may run, once for each unit of busy */
    tg_image *plugins[PLUGIN_COUNT];
    uint32_t next_id;
    freed_id *freed;
    size_t freed_first, freed_count, freed_capacity;
    uint64_t next_key;
    struct {
        uint8_t bytes[SID_BYTES_MAX];
        size_t len_bytes;
    } sids[4];
    int failed; /* out of memory; checked once at the end */
};

/* ---- small things ---- */

static void push(tg_machine *m, tg_list *l, void *item) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 8;
        void **items = realloc(l->items, capacity * sizeof *items);
        if (!items) {
            m->failed = 1;
            return;
        }
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->count++] = item;
}

static void *make(tg_machine *m, size_t size_bytes) {
    void *p = ea_arena_zalloc(&m->arena, 1, size_bytes);
    if (!p)
        m->failed = 1;
    return p;
}

static char *copy_text(tg_machine *m, ea_text *t) {
    char *s = t->failed ? NULL : ea_arena_copy(&m->arena, t->data ? t->data : "", t->len_bytes + 1);
    if (!s)
        m->failed = 1;
    ea_text_deinit(t);
    return s;
}

/* The time of the next thing that happens: no two are at the same. */
static int64_t tick(tg_machine *m) {
    m->now += 1 + (int64_t)tg_below(&m->dice, 20);
    return m->now;
}

static tg_context context(tg_machine *m, uint32_t pid, uint32_t tid) {
    return (tg_context){
        .time_raw = tick(m), .cpu = (uint16_t)tg_below(&m->dice, m->scenario->cpus), .pid = pid, .tid = tid};
}

static int is_before(const action *a, const action *b) {
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void schedule(tg_machine *m, int64_t in_ticks, void (*run)(tg_machine *, void *), void *subject) {
    if (m->queue_count == m->queue_capacity) {
        size_t capacity = m->queue_capacity ? m->queue_capacity * 2 : 256;
        action *queue = realloc(m->queue, capacity * sizeof *queue);
        if (!queue) {
            m->failed = 1;
            return;
        }
        m->queue = queue;
        m->queue_capacity = capacity;
    }
    action a = {.time = m->now + in_ticks, .number = m->action_count++, .run = run, .subject = subject};
    size_t i = m->queue_count++;
    for (; i && is_before(&a, &m->queue[(i - 1) / 2]); i = (i - 1) / 2)
        m->queue[i] = m->queue[(i - 1) / 2];
    m->queue[i] = a;
}

static action next_action(tg_machine *m) {
    action first = m->queue[0], last = m->queue[--m->queue_count];
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

/* Process and thread ids are of one kind, multiples of 4, and come again some time after their owner's end. */
static uint32_t take_id(tg_machine *m) {
    if (m->freed_count && m->now - m->freed[m->freed_first].since > ID_REST_TICKS && tg_chance(&m->dice, 80)) {
        uint32_t id = m->freed[m->freed_first].id;
        m->freed_first++;
        m->freed_count--;
        return id;
    }
    uint32_t id = m->next_id;
    m->next_id += 4 * (uint32_t)tg_between(&m->dice, 1, 5);
    return id;
}

static void give_id_back(tg_machine *m, uint32_t id) {
    if (m->freed_first + m->freed_count == m->freed_capacity) {
        size_t capacity = m->freed_capacity ? m->freed_capacity * 2 : 256;
        freed_id *freed = realloc(m->freed, capacity * sizeof *freed);
        if (!freed) {
            m->failed = 1;
            return;
        }
        m->freed = freed;
        m->freed_capacity = capacity;
    }
    m->freed[m->freed_first + m->freed_count++] = (freed_id){.id = id, .since = m->now};
}

/* ---- events ---- */

#define EMIT(function, m, who, hook, version, values)                                                                  \
    function((m)->trace, who, hook, version, values, sizeof(values) / sizeof *(values))

static void emit_process(tg_machine *m, const tg_context *who, uint16_t hook, const tg_process *p) {
    size_t sid_bytes;
    const uint8_t *sid = tg_user_sid(m, p->program->user, &sid_bytes);
    int ends = hook == HOOK_PROCESS_END;
    tg_value values[] = {tg_number("UniqueProcessKey", p->unique_key),
                         tg_number("ProcessId", p->pid),
                         tg_number("ParentId", p->parent_pid),
                         tg_number("SessionId", p->program->session),
                         tg_number("ExitStatus", (uint32_t)(ends ? p->exit_status : STILL_ACTIVE)),
                         tg_number("DirectoryTableBase", p->directory_table_base),
                         tg_bytes("UserSID", sid, sid_bytes),
                         tg_text("ImageFileName", p->program->name),
                         tg_text("CommandLine", p->command_line)};
    EMIT(tg_kernel, m, who, hook, 4, values);
}

static void emit_thread(tg_machine *m, const tg_context *who, uint16_t hook, const tg_thread *t) {
    tg_value values[] = {
        tg_number("ProcessId", t->process->pid),
        tg_number("TThreadId", t->tid),
        tg_number("StackBase", t->stack_base),
        tg_number("StackLimit", t->stack_base - 0x7000),
        tg_number("UserStackBase", t->user_stack_base),
        tg_number("UserStackLimit", t->user_stack_base ? t->user_stack_base - 0x10000 : 0),
        tg_number("Affinity", t->process->pid ? ((uint64_t)1 << m->scenario->cpus) - 1 : (uint64_t)1 << t->cpu),
        tg_number("Win32StartAddr", t->start_address),
        tg_number("TebBase", t->teb),
        tg_number("BasePriority", t->process->pid ? 8 : 0),
        tg_number("PagePriority", 5),
        tg_number("IoPriority", 2),
        tg_text("ThreadName", t->name)};
    EMIT(tg_kernel, m, who, hook, 3, values);
}

/* What the tool that merges traces puts before an image's event, at its very time: the file's identity and its PDB's.
 */
static void emit_image(tg_machine *m, const tg_context *who, uint16_t hook, const tg_process *p, const tg_image *i) {
    uint32_t pid = p->pid;
    if (hook != HOOK_IMAGE_UNLOAD) {
        tg_value id[] = {tg_number("ImageBase", i->base), tg_number("ImageSize", i->size_bytes),
                         tg_number("ProcessId", pid), tg_number("TimeDateStamp", i->timestamp),
                         tg_text("OriginalFileName", i->file)};
        tg_classic(m->trace, who, &IMAGE_ID, 0, 2, id, sizeof id / sizeof *id);
        tg_value pdb[] = {tg_number("ImageBase", i->base), tg_number("ProcessId", pid),
                          tg_bytes("GuidSig", i->pdb_guid.bytes, sizeof i->pdb_guid.bytes),
                          tg_number("Age", i->pdb_age), tg_text("PdbFileName", i->pdb_name)};
        tg_classic(m->trace, who, &IMAGE_ID, 36, 2, pdb, sizeof pdb / sizeof *pdb);
    }
    tg_value values[] = {tg_number("ImageBase", i->base),
                         tg_number("ImageSize", i->size_bytes),
                         tg_number("ProcessId", pid),
                         tg_number("ImageChecksum", i->checksum),
                         tg_number("TimeDateStamp", i->timestamp),
                         tg_number("DefaultBase", i->base),
                         tg_text("FileName", i->path)};
    EMIT(tg_kernel, m, who, hook, 3, values);
}

/* ---- images ---- */

static const char *last_part(const char *path) {
    const char *p = strrchr(path, '\\');
    return p ? p + 1 : path;
}

static tg_image *make_image(tg_machine *m, const char *path, uint32_t size_bytes, uint64_t base, uint8_t sets) {
    tg_image *i = make(m, sizeof *i);
    if (!i)
        return NULL;
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "\\Device\\HarddiskVolume3%s%s", *path == '\\' ? "" : "\\Windows\\", path);
    i->path = copy_text(m, &t);
    if (!i->path)
        return NULL;
    i->file = last_part(i->path);
    ea_text_init(&t);
    ea_text_printf(&t, "%.*s.pdb", (int)strcspn(i->file, "."), i->file);
    i->pdb_name = copy_text(m, &t);
    i->base = base;
    i->size_bytes = size_bytes;
    i->sets = sets;
    i->checksum = (uint32_t)tg_below(&m->dice, 0x1000000);
    i->timestamp = (uint32_t)tg_roll(&m->dice);
    i->pdb_age = 1 + (uint32_t)tg_below(&m->dice, 3);
    ea_store64(i->pdb_guid.bytes, tg_roll(&m->dice));
    ea_store64(i->pdb_guid.bytes + 8, tg_roll(&m->dice));
    push(m, &m->images, i);
    return i;
}

static tg_image *image_of(tg_machine *m, const tg_program *program) {
    for (size_t i = 0; i < m->images.count; i++) {
        tg_image *image = m->images.items[i];
        if (strcmp(image->file, last_part(program->path)) == 0)
            return image;
    }
    uint64_t base = 0x7FF600000000 + (tg_below(&m->dice, 0x90000) << 16);
    return make_image(m, program->path, program->size_bytes, base, 0);
}

static void make_images(tg_machine *m) {
    uint64_t kernel = 0xFFFFF80000000000 + (tg_below(&m->dice, 0x4000) << 21);
    uint64_t user = 0x7FFA00000000 + (tg_below(&m->dice, 0x8000) << 16);
    for (const tg_dll *d = m->scenario->dlls; d->file; d++) {
        uint64_t *at = d->sets ? &user : &kernel;
        make_image(m, d->file, d->size_bytes, *at, d->sets);
        *at += ((uint64_t)d->size_bytes + 0x1FFFF) & ~(uint64_t)0xFFFF;
    }
    for (int i = 0; i < PLUGIN_COUNT; i++) { /* one address for all: an address alone says nothing */
        char path[64];
        snprintf(path, sizeof path, "\\Program Files\\Plugins\\plugin%d.dll", i + 1);
        m->plugins[i] = make_image(m, path, (uint32_t)(0x20000 + 0x8000 * i), user + 0x4000000, 0);
    }
}

/* ---- life ---- */

static void end_process(tg_machine *m, void *subject);
static void end_thread(tg_machine *m, void *subject);
static void start_worker(tg_machine *m, void *subject);
static void start_child(tg_machine *m, void *subject);
static void change_plugin(tg_machine *m, void *subject);

static int64_t random_ms(tg_machine *m, uint32_t low, uint32_t high) {
    return tg_between(&m->dice, low, high) * TICKS_PER_MS + (int64_t)tg_below(&m->dice, TICKS_PER_MS);
}

static int is_alive(const tg_life *life) {
    return life->end_raw == INT64_MAX;
}

static tg_thread *add_thread(tg_machine *m, tg_process *p, int64_t begin_raw) {
    tg_thread *t = make(m, sizeof *t);
    if (!t)
        return NULL;
    *t = (tg_thread){.process = p, .life = {begin_raw, INT64_MAX}, .tid = p->pid ? take_id(m) : 0};
    t->stack_base = 0xFFFFF80F00000000 + ((m->next_key += 1 + tg_below(&m->dice, 4)) << 15);
    const tg_image *home = p->program->path ? ((tg_module *)p->modules.items[0])->image : m->images.items[0];
    t->start_address = home->base + 0x1000 + tg_below(&m->dice, home->size_bytes - 0x2000) / 16 * 16;
    if (p->program->path) {
        t->teb = 0x4D00000000 + (uint64_t)t->tid * 0x1000;
        t->user_stack_base = 0x4E00000000 + (uint64_t)t->tid * 0x40000;
    }
    if (p->threads.count && tg_chance(&m->dice, 25))
        t->name = tg_chance(&m->dice, 50) ? "Pool worker" : "Zeitgeber \xE2\x8F\xB1";
    push(m, &p->threads, t);
    for (unsigned i = 0; i < p->program->busy; i++)
        push(m, &m->running, t);
    return t;
}

static tg_module *add_module(tg_machine *m, tg_process *p, const tg_image *image, int64_t begin_raw) {
    tg_module *module = make(m, sizeof *module);
    if (!module)
        return NULL;
    *module = (tg_module){.image = image, .life = {begin_raw, INT64_MAX}};
    push(m, &p->modules, module);
    return module;
}

/* One of the command line's alternatives, with numbers for its #s. */
static char *command_line(tg_machine *m, const char *pattern) {
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
    return copy_text(m, &t);
}

static tg_process *add_process(tg_machine *m, const tg_program *program, const tg_process *parent, int64_t begin_raw) {
    tg_process *p = make(m, sizeof *p);
    if (!p)
        return NULL;
    uint32_t pid = strcmp(program->name, "Idle") == 0 ? 0 : strcmp(program->name, "System") == 0 ? 4 : take_id(m);
    *p = (tg_process){.program = program,
                      .parent = parent,
                      .life = {begin_raw, INT64_MAX},
                      .pid = pid,
                      .parent_pid = parent ? parent->pid : 0,
                      .exit_status = STILL_ACTIVE};
    p->unique_key = 0xFFFF9A0000000080 + (++m->next_key << 12);
    p->directory_table_base = 0x1AD000 + tg_below(&m->dice, 0x100000) * 0x1000;
    p->command_line = command_line(m, program->command);
    push(m, &m->processes, p);
    return p;
}

static const tg_thread *any_thread(tg_machine *m, const tg_process *p) {
    const tg_thread *found = NULL;
    size_t seen = 0;
    for (size_t i = 0; i < p->threads.count; i++) {
        const tg_thread *t = p->threads.items[i];
        if (is_alive(&t->life) && tg_below(&m->dice, ++seen) == 0)
            found = t;
    }
    return found;
}

/* What a process has to do for the rest of its life. */
static void plan_life(tg_machine *m, tg_process *p) {
    const tg_program *program = p->program;
    if (program->life_ms_max)
        schedule(m, random_ms(m, program->life_ms_min, program->life_ms_max), end_process, p);
    for (const tg_activity *a = m->scenario->activities; a->parent; a++) {
        if (strcmp(a->parent, program->name) != 0)
            continue;
        spawner *s = make(m, sizeof *s);
        if (!s)
            return;
        *s = (spawner){.parent = p, .activity = a};
        schedule(m, random_ms(m, a->every_ms_min, a->every_ms_max), start_child, s);
    }
    if (program->plugins)
        schedule(m, random_ms(m, 200, 900), change_plugin, p);
}

/* A process as it stands when the trace begins. */
static void place_process(tg_machine *m, const tg_program *program, const tg_process *parent) {
    tg_process *p = add_process(m, program, parent, INT64_MIN);
    if (!p)
        return;
    if (program->path)
        add_module(m, p, image_of(m, program), INT64_MIN);
    for (size_t i = 0; i < m->images.count; i++) {
        tg_image *image = m->images.items[i];
        if (p->pid == 0 ? i < m->images.count && image->base >> 63 : program->path && (image->sets & program->dlls))
            add_module(m, p, image, INT64_MIN);
    }
    p->first_plugin = p->modules.count;
    int64_t threads = p->pid ? tg_between(&m->dice, program->threads_min, program->threads_max) : m->scenario->cpus;
    for (int64_t i = 0; i < threads && !m->failed; i++) {
        tg_thread *t = add_thread(m, p, INT64_MIN);
        if (t && p->pid == 0)
            t->cpu = (uint16_t)i;
    }
}

static void start_process(tg_machine *m, const tg_program *program, tg_process *parent) {
    const tg_thread *creator = any_thread(m, parent);
    if (!creator)
        return;
    tg_process *p = add_process(m, program, parent, 0);
    if (!p)
        return;
    tg_context who = context(m, parent->pid, creator->tid);
    p->life.begin_raw = who.time_raw;
    emit_process(m, &who, HOOK_PROCESS_START, p);
    const tg_image *own = image_of(m, program);
    if (!own || !add_module(m, p, own, 0))
        return;
    tg_thread *first = add_thread(m, p, 0);
    if (!first)
        return;
    who.time_raw = first->life.begin_raw = tick(m);
    emit_thread(m, &who, HOOK_THREAD_START, first);
    for (size_t i = 0; i < m->images.count; i++) {
        const tg_image *image = m->images.items[i];
        if (image->sets & program->dlls)
            add_module(m, p, image, 0);
    }
    p->first_plugin = p->modules.count;
    who = context(m, p->pid, first->tid);
    for (size_t i = 0; i < p->modules.count; i++) {
        tg_module *module = p->modules.items[i];
        module->life.begin_raw = who.time_raw;
        emit_image(m, &who, HOOK_IMAGE_LOAD, p, module->image);
        who.time_raw = tick(m);
    }
    int64_t workers = tg_between(&m->dice, program->threads_min, program->threads_max) - 1;
    int64_t life = program->life_ms_max ? program->life_ms_min : 2000;
    for (int64_t i = 0; i < workers; i++)
        schedule(m, random_ms(m, 0, (uint32_t)life), start_worker, p);
    plan_life(m, p);
}

static void start_child(tg_machine *m, void *subject) {
    spawner *s = subject;
    if (!is_alive(&s->parent->life))
        return;
    for (const tg_program *program = m->scenario->programs; program->name; program++) {
        if (strcmp(program->name, s->activity->child) == 0) {
            start_process(m, program, s->parent);
            break;
        }
    }
    schedule(m, random_ms(m, s->activity->every_ms_min, s->activity->every_ms_max), start_child, s);
}

static void start_worker(tg_machine *m, void *subject) {
    tg_process *p = subject;
    const tg_thread *creator = is_alive(&p->life) ? any_thread(m, p) : NULL;
    tg_thread *t = creator ? add_thread(m, p, 0) : NULL;
    if (!t)
        return;
    tg_context who = context(m, p->pid, creator->tid);
    t->life.begin_raw = who.time_raw;
    emit_thread(m, &who, HOOK_THREAD_START, t);
    if (tg_chance(&m->dice, 50))
        schedule(m, random_ms(m, 20, 1500), end_thread, t);
}

static void log_thread_end(tg_machine *m, tg_thread *t, tg_context *who) {
    t->life.end_raw = who->time_raw;
    emit_thread(m, who, HOOK_THREAD_END, t);
    size_t kept = 0;
    for (size_t i = 0; i < m->running.count; i++)
        if (m->running.items[i] != t)
            m->running.items[kept++] = m->running.items[i];
    m->running.count = kept;
    if (t->tid)
        give_id_back(m, t->tid);
}

static void end_thread(tg_machine *m, void *subject) {
    tg_thread *t = subject;
    if (!is_alive(&t->life) || t == t->process->threads.items[0])
        return; /* the first thread stays until its process ends */
    tg_context who = context(m, t->process->pid, t->tid);
    log_thread_end(m, t, &who);
}

static void end_process(tg_machine *m, void *subject) {
    tg_process *p = subject;
    if (!is_alive(&p->life))
        return;
    tg_thread *last = p->threads.items[0];
    p->exit_status = tg_chance(&m->dice, 85) ? 0 : (int32_t)tg_between(&m->dice, 1, 3);
    tg_context who = context(m, p->pid, last->tid);
    tg_value terminated[] = {tg_number("ProcessId", p->pid)};
    EMIT(tg_kernel, m, &who, HOOK_PROCESS_TERMINATE, 2, terminated);
    for (size_t i = p->threads.count; i-- > 0;) {
        tg_thread *t = p->threads.items[i];
        if (!is_alive(&t->life))
            continue;
        who.time_raw = tick(m);
        log_thread_end(m, t, &who);
    }
    for (size_t i = p->modules.count; i-- > 0;) {
        tg_module *module = p->modules.items[i];
        if (!is_alive(&module->life))
            continue;
        module->life.end_raw = who.time_raw = tick(m);
        emit_image(m, &who, HOOK_IMAGE_UNLOAD, p, module->image);
    }
    p->life.end_raw = who.time_raw = tick(m);
    emit_process(m, &who, HOOK_PROCESS_END, p);
    give_id_back(m, p->pid);
}

static void change_plugin(tg_machine *m, void *subject) {
    tg_process *p = subject;
    const tg_thread *t = is_alive(&p->life) ? any_thread(m, p) : NULL;
    if (!t)
        return;
    tg_context who = context(m, p->pid, t->tid);
    if (p->plugin) {
        p->plugin->life.end_raw = who.time_raw;
        emit_image(m, &who, HOOK_IMAGE_UNLOAD, p, p->plugin->image);
        p->plugin = NULL;
    } else {
        p->plugin = add_module(m, p, m->plugins[tg_below(&m->dice, PLUGIN_COUNT)], who.time_raw);
        if (p->plugin)
            emit_image(m, &who, HOOK_IMAGE_LOAD, p, p->plugin->image);
    }
    schedule(m, random_ms(m, 200, 900), change_plugin, p);
}

/* ---- the profiler ---- */

/* The address of function `number` of an image, or of a place inside it. */
static uint64_t function_address(const tg_image *i, uint64_t number, unsigned inside) {
    return i->base + 0x1000 + number % ((i->size_bytes - 0x2000) / 256) * 256 + inside % 256;
}

/* Walks down a call graph, in which each function calls three others, from a root that the thread's start decides. The
 * innermost frame comes first. images: those that functions come from. */
static size_t walk_stack(tg_machine *m, const tg_image *const *images, size_t image_count, uint64_t root, size_t depth,
                         uint64_t *frames) {
    uint64_t function = root;
    for (size_t i = depth; i-- > 0;) {
        uint64_t h = ea_hash64(&function, sizeof function, 7);
        frames[i] = function_address(images[h % image_count], h >> 16, (unsigned)(h >> 8));
        function = h * 3 + tg_below(&m->dice, 3);
    }
    return depth;
}

static void emit_stack(tg_machine *m, uint16_t cpu, int64_t of_raw, uint32_t pid, uint32_t tid, const uint64_t *frames,
                       size_t count) {
    tg_context who = {.time_raw = tick(m), .cpu = cpu};
    tg_value values[] = {tg_number("EventTimeStamp", (uint64_t)of_raw), tg_number("StackProcess", pid),
                         tg_number("StackThread", tid), tg_numbers("Stack", frames, count)};
    EMIT(tg_perfinfo, m, &who, HOOK_STACK, 2, values);
}

enum { IMAGES_OF_A_STACK = 64 };

/* Kernel and drivers, or the modules that a process keeps; at most IMAGES_OF_A_STACK. */
static size_t stack_images(const tg_machine *m, const tg_process *p, int kernel, const tg_image **out) {
    size_t n = 0;
    for (size_t i = 0; kernel && i < m->images.count && n < IMAGES_OF_A_STACK; i++) {
        const tg_image *image = m->images.items[i];
        if (image->base >> 63)
            out[n++] = image;
    }
    for (size_t i = 0; !kernel && i < p->first_plugin && n < IMAGES_OF_A_STACK; i++) {
        const tg_module *module = p->modules.items[i];
        out[n++] = module->image;
    }
    return n;
}

static void take_sample(tg_machine *m, void *subject) {
    uint16_t cpu = *(uint16_t *)subject;
    const tg_thread *t = NULL;
    if (m->running.count && !tg_chance(&m->dice, m->scenario->idle_percent))
        t = m->running.items[tg_below(&m->dice, m->running.count)];
    const tg_process *p = t ? t->process : m->processes.items[0];
    const tg_image *images[IMAGES_OF_A_STACK];
    uint64_t kernel[FRAMES_MAX], user[FRAMES_MAX];
    size_t kernel_count = 0, user_count = 0;
    int has_user = t && p->program->path;
    if (!has_user || tg_chance(&m->dice, 25)) {
        size_t n = stack_images(m, p, 1, images);
        kernel_count = walk_stack(m, images, n, t ? 1 : 2, 1 + tg_below(&m->dice, t ? 12 : 4), kernel);
    }
    if (has_user) {
        size_t n = stack_images(m, p, 0, images);
        size_t depth = tg_chance(&m->dice, 3) ? 100 + tg_below(&m->dice, FRAMES_MAX - 100) : 3 + tg_below(&m->dice, 25);
        user_count = walk_stack(m, images, n, t->start_address, depth, user);
    }
    tg_context who = {.time_raw = tick(m), .cpu = cpu};
    tg_value values[] = {tg_number("InstructionPointer", kernel_count ? kernel[0] : user[0]),
                         tg_number("ThreadId", t ? t->tid : 0), tg_number("Count", 1)};
    EMIT(tg_perfinfo, m, &who, HOOK_SAMPLE, 2, values);
    if (kernel_count)
        emit_stack(m, cpu, who.time_raw, p->pid, t ? t->tid : 0, kernel, kernel_count);
    if (user_count)
        emit_stack(m, cpu, who.time_raw, p->pid, t->tid, user, user_count);
    schedule(m, TICKS_PER_SECOND / m->scenario->samples_per_second, take_sample, subject);
}

/* ---- the whole ---- */

static void rundown(tg_machine *m, uint16_t process_hook, uint16_t thread_hook, uint16_t image_hook) {
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        if (!is_alive(&p->life))
            continue;
        tg_context who = {.time_raw = tick(m), .cpu = 0, .pid = 4, .tid = 8};
        emit_process(m, &who, process_hook, p);
        for (size_t k = 0; k < p->threads.count; k++) {
            const tg_thread *t = p->threads.items[k];
            who.time_raw = tick(m);
            if (is_alive(&t->life))
                emit_thread(m, &who, thread_hook, t);
        }
        for (size_t k = 0; k < p->modules.count; k++) {
            const tg_module *module = p->modules.items[k];
            who.time_raw = tick(m);
            if (is_alive(&module->life))
                emit_image(m, &who, image_hook, p, module->image);
        }
    }
}

static void make_sids(tg_machine *m) {
    static const uint8_t well_known[3] = {18, 19, 20};
    for (size_t i = 0; i < 3; i++) {
        uint8_t sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, well_known[i]};
        memcpy(m->sids[i].bytes, sid, sizeof sid);
        m->sids[i].len_bytes = sizeof sid;
    }
    uint8_t *person = m->sids[TG_USER_PERSON].bytes;
    person[0] = 1;
    person[1] = 5;
    person[7] = 5;
    ea_store32(person + 8, 21);
    for (size_t i = 0; i < 3; i++)
        ea_store32(person + 12 + 4 * i, (uint32_t)tg_roll(&m->dice));
    ea_store32(person + 24, 1001);
    m->sids[TG_USER_PERSON].len_bytes = SID_BYTES_MAX;
}

const uint8_t *tg_user_sid(const tg_machine *m, uint8_t user, size_t *ret_len_bytes) {
    *ret_len_bytes = m->sids[user].len_bytes;
    return m->sids[user].bytes;
}

/* Places the processes that run at the beginning. A program that stands in the list several times gives its variants in
 * turn. */
static void place_all(tg_machine *m) {
    for (const tg_start *s = m->scenario->starts; s->program; s++) {
        const tg_process *parent = NULL;
        size_t variant = 0, seen = 0;
        for (size_t i = 0; i < m->processes.count; i++) {
            const tg_process *p = m->processes.items[i];
            if (!parent && s->parent && strcmp(p->program->name, s->parent) == 0)
                parent = p;
            variant += strcmp(p->program->name, s->program) == 0;
        }
        const tg_program *chosen = NULL;
        for (const tg_program *program = m->scenario->programs; program->name; program++)
            if (strcmp(program->name, s->program) == 0 && (!chosen || seen++ < variant))
                chosen = program;
        if (chosen)
            place_process(m, chosen, parent);
    }
}

int tg_machine_create(tg_machine **ret, const tg_scenario *scenario, uint64_t seed, ea_err *err) {
    tg_machine *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "make the machine");
    m->scenario = scenario;
    m->dice.state = seed;
    ea_arena_init(&m->arena, 0);
    m->start_raw = 36000LL * TICKS_PER_SECOND + (int64_t)tg_below(&m->dice, 1000 * (uint64_t)TICKS_PER_SECOND);
    m->now = m->start_raw;
    m->next_id = 100;
    make_sids(m);
    make_images(m);
    place_all(m);
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
    for (size_t i = 0; i < m->processes.count; i++) {
        tg_process *p = m->processes.items[i];
        free(p->threads.items);
        free(p->modules.items);
    }
    free(m->processes.items);
    free(m->images.items);
    free(m->running.items);
    free(m->queue);
    free(m->freed);
    ea_arena_deinit(&m->arena);
    free(m);
}

void tg_machine_info(const tg_machine *m, ea_etl_info *ret, int64_t *ret_start_raw) {
    static char session_name[] = "Generated trace", log_file_name[] = "C:\\traces\\generated.etl";
    static const int64_t start_filetime = 133592040000000000; /* 2024-05-03T10:00:00Z */
    *ret = (ea_etl_info){.buffer_size_bytes = 64 * 1024,
                         .os_version = m->scenario->os_version,
                         .os_build = m->scenario->os_build,
                         .cpu_count = m->scenario->cpus,
                         .timer_resolution = 156250,
                         .log_file_mode = 0x00010001,
                         .pointer_size = 8,
                         .cpu_mhz = 3000,
                         .boot_filetime = start_filetime - m->start_raw,
                         .perf_frequency = TICKS_PER_SECOND,
                         .start_filetime = start_filetime,
                         .clock_type = EA_CLOCK_QPC,
                         .session_name = session_name,
                         .log_file_name = log_file_name,
                         .logger = 1};
    *ret_start_raw = m->start_raw;
}

int tg_machine_run(tg_machine *m, tg_trace *trace, int64_t *ret_end_raw, ea_err *err) {
    m->trace = trace;
    rundown(m, HOOK_PROCESS_DC_START, HOOK_THREAD_DC_START, HOOK_IMAGE_DC_START);
    for (size_t i = 0; i < m->processes.count; i++)
        plan_life(m, m->processes.items[i]);
    for (uint16_t cpu = 0; cpu < m->scenario->cpus && m->scenario->samples_per_second; cpu++) {
        uint16_t *number = make(m, sizeof *number);
        if (!number)
            break;
        *number = cpu;
        schedule(m, (int64_t)tg_below(&m->dice, TICKS_PER_SECOND / m->scenario->samples_per_second), take_sample,
                 number);
    }
    int64_t end = m->start_raw + (int64_t)m->scenario->seconds * TICKS_PER_SECOND;
    while (m->queue_count && !m->failed) {
        action a = next_action(m);
        if (a.time >= end)
            break;
        if (a.time > m->now)
            m->now = a.time;
        a.run(m, a.subject);
    }
    if (m->now < end)
        m->now = end;
    rundown(m, HOOK_PROCESS_DC_END, HOOK_THREAD_DC_END, HOOK_IMAGE_DC_END);
    m->end_raw = tick(m);
    *ret_end_raw = m->end_raw;
    return m->failed ? ea_fail(err, EA_ENOMEM, "run the machine") : 0;
}

const tg_list *tg_machine_processes(const tg_machine *m) {
    return &m->processes;
}
