/* Stacks: a call graph that each program walks along a few dozen paths, so that the same stacks are repeated. The
 * kernel half is logged immediately, the user half when the thread returns to user mode or much later. A stack is
 * logged as frames or by key. See subsystems.h.
 *
 * Keys, as Windows has them: each half has a cache. When the cache is full, the oldest key is evicted, and its frames
 * are logged then (KeyDelete); the frames of the other keys are logged at the end (KeyRundown). A free number is used
 * again. The two caches are independent: one number can mean a kernel stack and another stack of user mode. Stacks
 * inside events may be by key as well: a kernel half whose user half comes later has key and match id in one item
 * (evntcons.h EVENT_EXTENDED_ITEM_STACK_KEY64). From this we infer that the event with the user half has its key in the
 * same form. */
#include "proto/base/map.h"
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum { IMAGES_MAX = 64, KEY_STEP = 0x40, LAYER_MAX = 4 };

typedef struct key_cache {
    tg_stack **slots; /* by slot: the key is made of its number */
    size_t used, next;
} key_cache;

struct tg_stacks {
    tg_stack **kernel[TG_STACK_OF_COUNT]; /* stacks.kernel_paths of each */
    tg_stack *idle[4];
    key_cache caches[2]; /* user, kernel */
    uint32_t last_id;
    uint64_t key_base;
    tg_event user_half; /* made when late_percent is not 0 */
    uint64_t last_match_id;
};

static const tg_event_row user_half_row = {
    "Microsoft-Windows-Kernel-EventTracing",
    EA_GUID(0xb675ec37, 0xbdb6, 0x4648, 0xbc, 0x92, 0xf3, 0xfd, 0xc7, 0x4d, 0x3c, 0xa2),
    18,
    6,
    0,
    4,
    24,
    TG_GROUP_STACK,
    0,
    "StackTrace/UserModeStackTrace",
    ""};

static const char *const what_names[] = {
#define X(name, text) #text,
    TG_STACKS(X)
#undef X
};

void tg_make_stacks(tg_machine *m) {
    m->stacks = tg_new(m, sizeof *m->stacks);
    if (!m->stacks)
        return;
    m->stacks->key_base = m->scenario->pointer_bytes == 4 ? 0x86000000 : 0xFFFFAD0000000000;
    for (int i = 0; i < TG_STACK_OF_COUNT; i++) {
        m->stacks->kernel[i] = ea_arena_zalloc(&m->arena, m->scenario->kernel_paths, sizeof(tg_stack *));
        m->failed |= !m->stacks->kernel[i];
    }
    for (int i = 0; i < 2; i++) {
        m->stacks->caches[i].slots =
            ea_arena_zalloc(&m->arena, m->scenario->stack_key_cache, sizeof *m->stacks->caches[i].slots);
        m->failed |= !m->stacks->caches[i].slots;
    }
}

int tg_stacks_ready(tg_machine *m, ea_err *err) {
    return m->scenario->late_percent ? tg_event_make(m, &user_half_row, &m->stacks->user_half, err) : 0;
}

void tg_stacks_tell(tg_machine *m) {
    if (m->scenario->late_percent)
        tg_truth_provider_event(m->truth, &m->stacks->user_half);
}

/* ---- the call graph ---- */

/* The address of function `number` of an image, or of a place inside it. */
static uint64_t function_address(const tg_image *i, uint64_t number, unsigned inside) {
    return i->base + 0x1000 + number % ((i->size_bytes - 0x2000) / 256) * 256 + inside % 256;
}

/* Walks down a call graph, in which each function calls three others, from a root. In a recursion two functions call
 * each other until the walk ends. The outermost frame is the last. */
static tg_stack *walk(tg_machine *m, const tg_image *const *images, size_t image_count, uint64_t root, unsigned depth,
                      int recurs, int is_kernel) {
    tg_stack *s = tg_new(m, sizeof *s);
    uint64_t *frames = s ? ea_arena_alloc(&m->arena, depth * sizeof *frames) : NULL;
    if (!frames || !image_count) {
        m->failed |= !frames;
        return NULL;
    }
    *s = (tg_stack){
        .id = ++m->stacks->last_id, .count = (uint16_t)depth, .is_kernel = (uint8_t)is_kernel, .frames = frames};
    uint64_t function = root;
    for (unsigned i = depth; i-- > 0;) {
        uint64_t h = ea_hash64(&function, sizeof function, 7);
        if (recurs && depth - i > 12 && i > 4) {
            frames[i] = frames[i + 2];
            continue;
        }
        frames[i] = function_address(images[h % image_count], h >> 16, (unsigned)(h >> 8));
        function = h * 3 + tg_below(&m->dice, 3);
    }
    return s;
}

static size_t kernel_images(const tg_machine *m, const tg_image **out) {
    size_t n = 0;
    for (size_t i = 0; i < m->images.count && n < IMAGES_MAX; i++) {
        const tg_image *image = m->images.items[i];
        if (image->sets & TG_DLLS_DRIVER)
            out[n++] = image;
    }
    return n;
}

/* Those that every process of the program has loaded, whenever it is asked; of a 32-bit program on a 64-bit machine
 * those of its own code. */
static size_t user_images(const tg_machine *m, const tg_role *role, const tg_image **out) {
    size_t n = 0;
    if (role->image)
        out[n++] = role->image;
    for (size_t i = 0; i < m->images.count && n < IMAGES_MAX; i++) {
        const tg_image *image = m->images.items[i];
        if (tg_loads(role->program, image) && image->is_narrow == role->program->wow64 &&
            (image->sets & role->program->dlls))
            out[n++] = image;
    }
    return n;
}

static tg_stack *idle_stack(tg_machine *m) {
    size_t variant = tg_below(&m->dice, 4);
    if (!m->stacks->idle[variant]) {
        const tg_image *images[IMAGES_MAX];
        size_t n = kernel_images(m, images);
        m->stacks->idle[variant] = walk(m, images, n < 2 ? n : 2, 77, 2 + (unsigned)variant, 0, 1);
    }
    return m->stacks->idle[variant];
}

tg_stack *tg_kernel_stack(tg_machine *m, const tg_thread *t, enum tg_stack_of what) {
    if (t->is_idle)
        return idle_stack(m);
    /* the first paths are walked most */
    size_t variant = tg_below(&m->dice, 1 + tg_below(&m->dice, m->scenario->kernel_paths));
    tg_stack **at = &m->stacks->kernel[what][variant];
    if (!*at) {
        const tg_image *images[IMAGES_MAX];
        size_t n = kernel_images(m, images);
        *at = walk(m, images, n, 1000 * (uint64_t)what, 2 + (unsigned)tg_below(&m->dice, 14), 0, 1);
    }
    return *at;
}

/* Puts frames before a stack's innermost one; what is too deep then is cut off. */
static void put_inside(tg_machine *m, tg_stack *s, const uint64_t *frames, size_t count) {
    size_t kept = s->count + count > TG_STACK_MAX ? TG_STACK_MAX - count : s->count;
    uint64_t *all = ea_arena_alloc(&m->arena, (kept + count) * sizeof *all);
    if (!all) {
        m->failed = 1;
        return;
    }
    memcpy(all, frames, count * sizeof *all);
    memcpy(all + count, s->frames, kept * sizeof *all);
    s->frames = all;
    s->count = (uint16_t)(kept + count);
}

/* A 32-bit program that is in the kernel on a 64-bit machine: Windows walks the 64-bit part first, which goes through
 * the layer's images and back (ntdll, wow64, wow64cpu, wow64, ntdll), then the program's own frames. Source: stacks of
 * clr-kernel-win8-x64. */
static void put_layer(tg_machine *m, tg_stack *s) {
    uint64_t frames[2 * LAYER_MAX];
    size_t n = 0;
    for (size_t i = 0; i < m->images.count && n < LAYER_MAX; i++) {
        const tg_image *image = m->images.items[i];
        if (image->sets & TG_DLLS_WOW64) {
            frames[n] = function_address(image, s->id, 1 + (unsigned)n);
            n++;
        }
    }
    for (size_t back = n; back-- > 1; n++)
        frames[n] = frames[back - 1] + 0x40;
    put_inside(m, s, frames, n);
}

static tg_stack **paths(tg_machine *m, tg_stack ***at) {
    if (!*at)
        *at = ea_arena_zalloc(&m->arena, m->scenario->user_paths, sizeof **at);
    m->failed |= !*at;
    return *at;
}

tg_stack *tg_user_stack(tg_machine *m, const tg_thread *t) {
    const tg_process *p = t->process;
    if (!p->role->image || p->modules.count < p->first_plugin || !p->first_plugin)
        return NULL; /* not all is loaded yet */
    tg_role *role = &m->roles[p->program - m->scenario->programs];
    int recurs = tg_chance(&m->dice, m->scenario->recursion_percent);
    size_t variant =
        recurs ? tg_below(&m->dice, 2) : 2 + tg_below(&m->dice, 1 + tg_below(&m->dice, m->scenario->user_paths - 2));
    int in_plugin = m->scenario->plugin_percent && p->plugin && tg_chance(&m->dice, m->scenario->plugin_percent);
    tg_stack **stacks = paths(m, in_plugin ? &role->in_plugin : &role->stacks);
    if (!stacks)
        return NULL;
    if (!stacks[variant]) {
        const tg_image *images[IMAGES_MAX];
        size_t n = user_images(m, role, images);
        unsigned depth = recurs ? TG_STACK_MAX - 8 * (unsigned)variant : 3 + (unsigned)tg_below(&m->dice, 38);
        uint64_t root = ea_hash64(p->program->name, strlen(p->program->name), 11) + variant / 4;
        tg_stack *s = stacks[variant] = walk(m, images, n, root, depth, recurs, 0);
        if (s && in_plugin)
            put_inside(m, s, (uint64_t[]){p->plugin->image->base + 0x1000 + s->id * 16 % (TG_PLUGIN_BYTES - 0x2000)},
                       1);
        if (s && role->program->wow64 && variant % 2)
            put_layer(m, s);
    }
    return stacks[variant];
}

/* ---- halves ---- */

/* Returns when. */
static int64_t define(tg_machine *m, tg_cpu *cpu, enum tg_form_id form, const tg_stack *s) {
    int64_t at = tg_stamp(m, cpu, NULL);
    tg_context who = tg_who(m, cpu, NULL, at);
    TG_EMIT(m->trace, form, &who, tg_n(s->key), tg_array(s->frames, s->count));
    return at;
}

/* Makes the processor's next event later than time, so that uses of one key on different processors have one order. */
static void pass(tg_cpu *cpu, int64_t time) {
    cpu->clock = cpu->clock > time ? cpu->clock : time + 1;
}

/* The key of a stack. A stack without a key gets one; the cache may evict the key of another stack for it. */
static uint64_t key_of(tg_machine *m, tg_cpu *cpu, tg_stack *s) {
    key_cache *cache = &m->stacks->caches[s->is_kernel];
    if (s->is_cached) {
        pass(cpu, s->keyed_at);
        return s->key;
    }
    size_t slot = cache->next++ % m->scenario->stack_key_cache;
    tg_stack *old = cache->slots[slot];
    s->keyed_at = INT64_MIN;
    if (old) {
        pass(cpu, old->used_at);
        s->keyed_at = define(m, cpu, TG_STACK_KEY_DELETE, old);
        old->is_cached = 0;
    }
    cache->slots[slot] = s;
    s->is_cached = 1;
    s->key = m->stacks->key_base + KEY_STEP * (slot + 1);
    return s->key;
}

static void used(tg_stack *s, int64_t at) {
    s->used_at = at > s->used_at ? at : s->used_at;
}

static void log_half(tg_machine *m, tg_cpu *cpu, tg_thread *t, int64_t of, uint16_t of_cpu, tg_stack *s,
                     const char *what) {
    tg_spend(m, cpu, 30, 110); /* the walk */
    uint64_t key = m->scenario->stack_keys ? key_of(m, cpu, s) : 0;
    int64_t at = tg_stamp(m, cpu, NULL);
    used(s, at);
    tg_context who = tg_who(m, cpu, NULL, at);
    int logged;
    if (key)
        logged = TG_EMIT(m->trace, s->is_kernel ? TG_STACK_KEY_KERNEL : TG_STACK_KEY_USER, &who,
                         tg_n((uint64_t)tg_raw(m, of)), tg_n(t->process->pid), tg_n(t->tid), tg_n(key));
    else
        logged = TG_EMIT(m->trace, TG_STACK, &who, tg_n((uint64_t)tg_raw(m, of)), tg_n(t->process->pid), tg_n(t->tid),
                         tg_array(s->frames, s->count));
    const tg_half_facts facts = {
        .what = what, .of = of, .at = at, .cpu = of_cpu, .thread = t, .key = key, .is_lost = !logged};
    tg_truth_stack(m->truth, m, s, &facts);
}

/* The key of a stack inside an event; 0: the event has the frames. */
static uint64_t inner_key(tg_machine *m, tg_cpu *cpu, tg_stack *s) {
    return m->scenario->stack_keys && m->scenario->header_keys ? key_of(m, cpu, s) : 0;
}

/* Logs the user half of a stack whose kernel half is in an event. */
static void answer(tg_machine *m, tg_cpu *cpu, tg_thread *t, const tg_late_stack *late, int is_again) {
    tg_spend(m, cpu, 30, 110);
    uint64_t key = inner_key(m, cpu, late->stack);
    int64_t at = tg_stamp(m, cpu, t);
    used(late->stack, at);
    tg_context who = tg_who(m, cpu, t, at);
    const tg_event_extra extra = {
        .frames = late->stack->frames, .frame_count = late->stack->count, .key = key, .match_id = late->match_id};
    int logged = tg_emit_event(m->trace, &m->stacks->user_half, &who, NULL, &extra);
    const tg_half_facts facts = {.what = late->what,
                                 .of = late->of,
                                 .at = at,
                                 .cpu = late->cpu,
                                 .thread = t,
                                 .key = key,
                                 .match_id = late->match_id,
                                 .is_again = is_again,
                                 .is_lost = !logged};
    tg_truth_stack(m->truth, m, late->stack, &facts);
}

void tg_late_stacks(tg_machine *m, tg_cpu *cpu, tg_thread *t, int all) {
    if (!t->late_count || (t->late_far && !all && --t->late_far))
        return;
    for (uint8_t i = 0; i < t->late_count; i++) {
        const tg_late_stack *late = &t->late[i];
        if (!late->match_id)
            log_half(m, cpu, t, late->of, late->cpu, late->stack, late->what);
        for (int n = 0; late->match_id && n <= late->is_twice; n++)
            answer(m, cpu, t, late, n);
    }
    t->late_count = t->late_far = 0;
}

/* There is room for it. */
static void keep_late(tg_machine *m, tg_thread *t, tg_late_stack late) {
    t->late[t->late_count++] = late;
    if (tg_chance(&m->dice, m->scenario->far_percent))
        t->late_far = (uint8_t)(2 + tg_below(&m->dice, 6)); /* so many steps later */
}

void tg_log_stack(tg_machine *m, tg_cpu *cpu, tg_thread *t, int64_t of, enum tg_stack_of what, tg_stack *kernel,
                  tg_stack *user) {
    if (kernel)
        log_half(m, cpu, t, of, cpu->number, kernel, what_names[what]);
    if (!user)
        return;
    if (!kernel || t->late_count == TG_LATE_STACKS) {
        log_half(m, cpu, t, of, cpu->number, user, what_names[what]);
        return;
    }
    keep_late(m, t, (tg_late_stack){.of = of, .cpu = cpu->number, .stack = user, .what = what_names[what]});
}

tg_inner_stack tg_stack_inside(tg_machine *m, tg_cpu *cpu, const tg_thread *t) {
    const tg_scenario *of = m->scenario;
    tg_inner_stack s = {0};
    if (!of->stacks[TG_STACK_OF_EVENT] || !tg_chance(&m->dice, of->stacks[TG_STACK_OF_EVENT]))
        return s;
    s.inside = tg_user_stack(m, t);
    if (s.inside && of->late_percent && t->late_count < TG_LATE_STACKS && tg_records(m->trace, TG_GROUP_STACK) &&
        tg_chance(&m->dice, of->late_percent)) {
        s.late = s.inside;
        s.inside = tg_kernel_stack(m, t, TG_STACK_OF_EVENT);
        s.match_id = ++m->stacks->last_match_id;
    }
    if (s.inside && tg_records(m->trace, TG_GROUP_STACK))
        s.key = inner_key(m, cpu, s.inside);
    return s;
}

void tg_log_stack_inside(tg_machine *m, tg_cpu *cpu, tg_thread *t, const tg_inner_stack *s, int64_t at, int logged) {
    const char *what = what_names[TG_STACK_OF_EVENT];
    const tg_half_facts facts = {.what = what,
                                 .of = at,
                                 .at = at,
                                 .cpu = cpu->number,
                                 .thread = t,
                                 .key = s->key,
                                 .match_id = s->match_id,
                                 .is_in_header = 1,
                                 .is_lost = !logged};
    used(s->inside, at);
    tg_truth_stack(m->truth, m, s->inside, &facts);
    if (!s->late)
        return;
    uint64_t odd = tg_below(&m->dice, 100), limit = m->scenario->odd_percent;
    if (odd >= limit) /* else it never comes */
        keep_late(m, t,
                  (tg_late_stack){.of = at,
                                  .match_id = s->match_id,
                                  .cpu = cpu->number,
                                  .is_twice = odd < 2 * limit,
                                  .stack = s->late,
                                  .what = what});
}

void tg_stack_of(tg_machine *m, tg_cpu *cpu, tg_thread *t, int64_t of, enum tg_stack_of what, int in_kernel) {
    const tg_scenario *s = m->scenario;
    if (!s->stacks[what] || !tg_records(m->trace, TG_GROUP_STACK) || !tg_chance(&m->dice, s->stacks[what]))
        return;
    tg_stack *kernel = in_kernel || t->is_idle ? tg_kernel_stack(m, t, what) : NULL;
    tg_log_stack(m, cpu, t, of, what, kernel, t->is_idle ? NULL : tg_user_stack(m, t));
}

void tg_stack_rundown(tg_machine *m, tg_cpu *cpu) {
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        for (size_t k = 0; k < p->threads.count; k++)
            if (((tg_thread *)p->threads.items[k])->late_count)
                tg_late_stacks(m, cpu, p->threads.items[k], 1);
    }
    for (int c = 0; c < 2 && m->scenario->stack_keys; c++)
        for (size_t i = 0; i < m->scenario->stack_key_cache; i++)
            if (m->stacks->caches[c].slots[i])
                define(m, cpu, TG_STACK_KEY_RUNDOWN, m->stacks->caches[c].slots[i]);
}
