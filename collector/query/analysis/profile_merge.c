/* See profile_merge.h. */
#include "collector/query/analysis/profile_merge.h"

#include "collector/query/analysis/address_space.h"
#include "collector/query/analysis/query.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT = 4 << 20, STACK_MAX = 4096, SAMPLES_MAX = 1 << 22 };

typedef struct place {
    uint32_t module;
    uint8_t is_return;
    uint64_t offset;
    /* after naming: the frames that it is, the innermost first */
    uint32_t *frames;
    uint32_t frame_count;
} place;

/* Growing arrays. */
typedef struct list {
    void *items;
    size_t count, capacity;
} list;

struct ec_merge {
    ea_arena arena;
    ea_bytes_map processes, modules, places, stacks, frames; /* -> index + 1 */
    list process_list, module_list, place_list, stack_list, frame_list, thread_list, sample_list;
    ea_bytes_map threads, owners; /* -> index + 1 */
    size_t owner_count;
    ea_bytes_map methods;   /* module and name -> index of its place + 1 */
    uint32_t method_module; /* EC_PROFILE_METHODS; 0: there is none yet */
    uint32_t open_module;   /* EC_PROFILE_OPEN; 0: there is none yet */
    size_t limit_stacks;
    int has_names;
};

static void *merge_append(list *l, size_t element_bytes) {
    if (ea_array_grow(&l->items, &l->capacity, l->count + 1, SIZE_MAX, element_bytes))
        return NULL;
    void *at = (char *)l->items + l->count++ * element_bytes;
    memset(at, 0, element_bytes);
    return at;
}

/* The index that a key has had before: 1; else its key is kept for the index count: 0. EA_ENOMEM. */
static int known_or_next(ec_merge *m, ea_bytes_map *map, const void *key, size_t len_bytes, size_t count,
                         uint32_t *ret) {
    const void *known = ea_bytes_map_get(map, key, len_bytes);
    if (known) {
        *ret = (uint32_t)((uintptr_t)known - 1);
        return 1;
    }
    const void *copy = ea_arena_copy(&m->arena, key, len_bytes);
    if (!copy || ea_bytes_map_put(map, copy, len_bytes, (void *)(uintptr_t)(count + 1)))
        return EA_ENOMEM;
    *ret = (uint32_t)count;
    return 0;
}

int ec_merge_create(ec_merge **ret, size_t limit_stacks, int has_names) {
    ec_merge *m = calloc(1, sizeof *m);
    if (!m)
        return EA_ENOMEM;
    ea_arena_init(&m->arena, 0);
    ea_bytes_map *maps[] = {&m->processes, &m->modules, &m->places, &m->stacks, &m->frames, &m->threads, &m->owners};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ea_bytes_map_init(maps[i], 0);
    m->limit_stacks = limit_stacks ? limit_stacks : DEFAULT_LIMIT;
    m->has_names = has_names;
    ea_bytes_map_init(&m->methods, 0);
    ec_profile_module *none = merge_append(&m->module_list, sizeof *none);
    if (!none) {
        ec_merge_destroy(m);
        return EA_ENOMEM;
    }
    none->name = "?";
    none->path = none->pdb_path = "";
    *ret = m;
    return 0;
}

void ec_merge_destroy(ec_merge *m) {
    if (!m)
        return;
    ea_bytes_map *maps[] = {&m->processes, &m->modules, &m->places, &m->stacks, &m->frames, &m->threads, &m->owners};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ea_bytes_map_deinit(maps[i]);
    ea_bytes_map_deinit(&m->methods);
    list *lists[] = {&m->process_list, &m->module_list, &m->place_list, &m->stack_list,
                     &m->frame_list,   &m->thread_list, &m->sample_list};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]->items);
    ea_arena_deinit(&m->arena);
    free(m);
}

int ec_merge_process(ec_merge *m, const char *name, uint32_t *ret) {
    int rc = known_or_next(m, &m->processes, name, strlen(name) + 1, m->process_list.count, ret);
    if (rc)
        return rc < 0 ? rc : 0;
    const char **to = merge_append(&m->process_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    *to = ea_arena_strdup(&m->arena, name);
    return *to ? 0 : EA_ENOMEM;
}

/* The same file is the same module: its PDB's identity where that is known, else name, time and size. */
static int module_number(ec_merge *m, const ea_module *module, int is_unloaded, uint32_t *ret) {
    struct {
        ea_guid pdb;
        uint32_t age, timestamp, size_bytes, is_kernel, is_unloaded;
        char name[256];
    } key;

    const char *name = ec_base_name(module->path);
    memset(&key, 0, sizeof key);
    key.is_kernel = module->pid == 0;
    key.is_unloaded = is_unloaded != 0;
    if (module->has_pdb) {
        key.pdb = module->pdb_guid;
        key.age = module->pdb_age;
    } else {
        key.timestamp = module->timestamp;
        key.size_bytes = (uint32_t)module->size_bytes;
    }
    for (size_t i = 0; name[i] && i < sizeof key.name - 1; i++)
        key.name[i] = ea_ascii_lower(name[i]);
    int rc = known_or_next(m, &m->modules, &key, sizeof key, m->module_list.count, ret);
    if (rc)
        return rc < 0 ? rc : 0;
    ec_profile_module *to = merge_append(&m->module_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    char marked[1024];
    if (is_unloaded)
        name = ec_unloaded_name(name, marked, sizeof marked);
    *to = (ec_profile_module){.name = ea_arena_strdup(&m->arena, *name ? name : "?"),
                              .is_unloaded = is_unloaded != 0,
                              .path = ea_arena_strdup(&m->arena, module->path),
                              .pdb_path = ea_arena_strdup(&m->arena, module->pdb_path),
                              .has_pdb = module->has_pdb,
                              .pdb_guid = module->pdb_guid,
                              .pdb_age = module->pdb_age,
                              .timestamp = module->timestamp,
                              .size_bytes = (uint32_t)module->size_bytes,
                              .is_kernel = module->pid == 0};
    return to->name && to->path && to->pdb_path ? 0 : EA_ENOMEM;
}

int ec_merge_frame(ec_merge *m, const ea_module *module, int is_unloaded, uint64_t address, int is_return,
                   uint32_t *ret) {
    struct {
        uint64_t offset;
        uint32_t module, is_return;
    } key = {.offset = address};

    if (module) {
        key.offset = address - module->base;
        /* only the look-up of a name depends on it being a return address */
        key.is_return = m->has_names && is_return && key.offset;
        int rc = module_number(m, module, is_unloaded, &key.module);
        if (rc)
            return rc;
    }
    int rc = known_or_next(m, &m->places, &key, sizeof key, m->place_list.count, ret);
    if (rc)
        return rc < 0 ? rc : 0;
    place *to = merge_append(&m->place_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    *to = (place){.module = key.module, .is_return = (uint8_t)key.is_return, .offset = key.offset};
    return 0;
}

int ec_merge_stack(ec_merge *m, int side, uint32_t process, const uint32_t *frames, size_t count, uint64_t weight,
                   uint64_t events, uint32_t *ret) {
    uint32_t key[STACK_MAX + 1], index;
    if (count > STACK_MAX)
        count = STACK_MAX;
    key[0] = process;
    memcpy(key + 1, frames, count * sizeof *frames);
    int rc = known_or_next(m, &m->stacks, key, (count + 1) * sizeof *key, m->stack_list.count, &index);
    if (rc < 0)
        return rc;
    if (!rc) {
        if (m->stack_list.count == m->limit_stacks)
            return EA_ELIMIT;
        ec_profile_stack *to = merge_append(&m->stack_list, sizeof *to);
        uint32_t *copy = ea_arena_copy(&m->arena, frames, count * sizeof *frames);
        if (!to || !copy)
            return EA_ENOMEM;
        *to = (ec_profile_stack){.process = process, .frames = copy, .count = (uint32_t)count};
    }
    ec_profile_stack *s = (ec_profile_stack *)m->stack_list.items + index;
    s->weight[side] += weight;
    s->events[side] += events;
    *ret = index;
    return 0;
}

int ec_merge_sample(ec_merge *m, uint32_t stack, const ec_merge_thread *thread, int64_t utc_ns, uint64_t weight) {
    const uint32_t owner_key[] = {thread->stream, thread->instance, thread->pid},
                   key[] = {thread->stream, thread->instance, thread->pid, thread->tid};
    uint32_t owner = 0, number = 0;
    int rc = known_or_next(m, &m->owners, owner_key, sizeof owner_key, m->owner_count, &owner);
    if (!rc)
        m->owner_count++;
    if (rc >= 0)
        rc = known_or_next(m, &m->threads, key, sizeof key, m->thread_list.count, &number);
    if (rc < 0)
        return rc;
    if (!rc) {
        ec_profile_thread *to = merge_append(&m->thread_list, sizeof *to);
        if (!to)
            return EA_ENOMEM;
        *to = (ec_profile_thread){.host = ea_arena_strdup(&m->arena, thread->host),
                                  .owner = owner,
                                  .process = thread->process,
                                  .pid = thread->pid,
                                  .tid = thread->tid};
        if (!to->host)
            return EA_ENOMEM;
    }
    if (m->sample_list.count == SAMPLES_MAX)
        return EA_ELIMIT;
    ec_profile_sample *to = merge_append(&m->sample_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    *to = (ec_profile_sample){.stack = stack, .thread = number, .utc_ns = utc_ns, .weight = weight};
    return 0;
}

/* ---- names ---- */

static int frame_number(ec_merge *m, uint32_t module, uint64_t offset, const ec_profile_function *f, uint32_t *ret) {
    const ec_profile_module *of = (ec_profile_module *)m->module_list.items + module;
    char label[1024];
    if (f && module == m->open_module)
        snprintf(label, sizeof label, "%s", f->name);
    else if (f)
        snprintf(label, sizeof label, "%s!%s", of->name, f->name);
    else if (module)
        snprintf(label, sizeof label, "%s+0x%" PRIx64, of->name, offset);
    else
        snprintf(label, sizeof label, "0x%" PRIx64, offset);
    char key[1024 + 16];
    int n = snprintf(key, sizeof key, "%" PRIu32 " %s", module, label);
    int rc = known_or_next(m, &m->frames, key, (size_t)n, m->frame_list.count, ret);
    if (rc)
        return rc < 0 ? rc : 0;
    ec_profile_frame *to = merge_append(&m->frame_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    *to = (ec_profile_frame){.module = module, .offset = offset, .label = ea_arena_strdup(&m->arena, label)};
    if (f) {
        to->function = ea_arena_strdup(&m->arena, f->name);
        to->file = f->file ? ea_arena_strdup(&m->arena, f->file) : NULL;
        to->line = f->line;
        if (!to->function || (f->file && !to->file))
            return EA_ENOMEM;
    }
    return to->label ? 0 : EA_ENOMEM;
}

/* A module that has no file: 0 is replaced with its number. */
static int pseudo_module(ec_merge *m, const char *name, uint32_t *number) {
    if (*number)
        return 0;
    ec_profile_module *to = merge_append(&m->module_list, sizeof *to);
    if (!to)
        return EA_ENOMEM;
    to->name = name;
    to->path = to->pdb_path = "";
    *number = (uint32_t)m->module_list.count - 1;
    return 0;
}

/* The number of a place whose name is known already. */
static int named_place(ec_merge *m, uint32_t number, const char *name, uint32_t *ret) {
    char key[1024 + 16];
    int n = snprintf(key, sizeof key, "%" PRIu32 " %s", number, name);
    size_t bytes = n < (int)sizeof key ? (size_t)n : sizeof key - 1;
    int rc = known_or_next(m, &m->methods, key, bytes, m->place_list.count, ret);
    if (rc)
        return rc < 0 ? rc : 0;
    place *to = merge_append(&m->place_list, sizeof *to);
    uint32_t *frame = to ? ea_arena_alloc(&m->arena, sizeof *frame) : NULL;
    if (!frame)
        return EA_ENOMEM;
    *to = (place){.module = number, .frames = frame, .frame_count = 1};
    return frame_number(m, number, 0, &(ec_profile_function){.name = name}, frame);
}

int ec_merge_method(ec_merge *m, const ea_module *module, const char *name, uint32_t *ret) {
    uint32_t number = 0;
    int rc = module ? module_number(m, module, 0, &number) : pseudo_module(m, EC_PROFILE_METHODS, &m->method_module);
    return rc ? rc : named_place(m, module ? number : m->method_module, name, ret);
}

int ec_merge_open(ec_merge *m, const char *name, uint32_t *ret) {
    int rc = pseudo_module(m, EC_PROFILE_OPEN, &m->open_module);
    return rc ? rc : named_place(m, m->open_module, name, ret);
}

typedef struct naming {
    ec_merge *m;
    place **places; /* of the module, by offset */
    size_t count;
} naming;

static int put_names(void *arg, size_t index, const ec_profile_function *functions, size_t count) {
    naming *n = arg;
    if (index >= n->count || !count || n->places[index]->frames)
        return 0;
    place *p = n->places[index];
    uint32_t *frames = ea_arena_alloc(&n->m->arena, count * sizeof *frames);
    if (!frames)
        return EA_ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (frame_number(n->m, p->module, p->offset, &functions[i], &frames[i]))
            return EA_ENOMEM;
    p->frames = frames;
    p->frame_count = (uint32_t)count;
    return 0;
}

static int by_module(const void *a, const void *b) {
    const place *x = *(place *const *)a, *y = *(place *const *)b;
    if (x->module != y->module)
        return (x->module > y->module) - (x->module < y->module);
    uint64_t i = x->offset - x->is_return, j = y->offset - y->is_return;
    return (i > j) - (i < j);
}

static void add_note(ec_profile *p, const char *module, const ea_err *err) {
    size_t n = strlen(p->notes);
    if (n < sizeof p->notes - 1)
        snprintf(p->notes + n, sizeof p->notes - n, "%s%s: %s", n ? "; " : "", module, err->message);
}

static int name_modules(ec_merge *m, const ec_profile_namer *namer, ec_profile *p) {
    size_t n = m->place_list.count;
    place *places = m->place_list.items, **order = malloc((n + 1) * sizeof *order);
    uint32_t *offsets = malloc((n + 1) * sizeof *offsets);
    int rc = order && offsets ? 0 : EA_ENOMEM;
    for (size_t i = 0; !rc && i < n; i++)
        order[i] = &places[i];
    if (!rc && n)
        qsort(order, n, sizeof *order, by_module);
    for (size_t i = 0, next; !rc && i < n; i = next) {
        const ec_profile_module *of = (ec_profile_module *)m->module_list.items + order[i]->module;
        size_t count = 0;
        for (next = i; next < n && order[next]->module == order[i]->module; next++)
            if (order[next]->offset <= UINT32_MAX)
                offsets[count++] = (uint32_t)(order[next]->offset - order[next]->is_return);
        uint32_t module = order[i]->module;
        if (!module || module == m->method_module || module == m->open_module || !count)
            continue;
        naming in = {m, order + i, count};
        ea_err why = {0};
        if (namer->name(namer->arg, of, offsets, count, put_names, &in, &why))
            add_note(p, of->name, &why);
    }
    free(order);
    free(offsets);
    return rc;
}

/* Stacks anew, out of frames instead of places. */
static int restack(ec_merge *m) {
    list old = m->stack_list;
    const place *places = m->place_list.items;
    uint32_t frames[STACK_MAX], *numbers = calloc(old.count + 1, sizeof *numbers);
    int rc = numbers ? 0 : EA_ENOMEM;
    m->stack_list = (list){0};
    ea_bytes_map_clear(&m->stacks);
    for (size_t i = 0; !rc && i < old.count; i++) {
        const ec_profile_stack *s = (ec_profile_stack *)old.items + i;
        size_t n = 0;
        for (uint32_t k = 0; k < s->count; k++)
            for (uint32_t j = 0; j < places[s->frames[k]].frame_count && n < STACK_MAX; j++)
                frames[n++] = places[s->frames[k]].frames[j];
        for (int side = 0; side < 2 && !rc; side++)
            if (s->weight[side] || s->events[side])
                rc = ec_merge_stack(m, side, s->process, frames, n, s->weight[side], s->events[side], &numbers[i]);
    }
    ec_profile_sample *samples = m->sample_list.items;
    for (size_t i = 0; !rc && i < m->sample_list.count; i++)
        samples[i].stack = numbers[samples[i].stack];
    for (size_t i = 0; i < m->stack_list.count; i++)
        ((ec_profile_stack *)m->stack_list.items)[i].number = (uint32_t)i;
    free(numbers);
    free(old.items);
    return rc;
}

static int profile_merge_by_weight(const void *a, const void *b) {
    const ec_profile_stack *x = a, *y = b;
    uint64_t i = x->weight[0] + x->weight[1], j = y->weight[0] + y->weight[1];
    if (i != j)
        return (i < j) - (i > j);
    if (x->process != y->process)
        return (x->process > y->process) - (x->process < y->process);
    size_t n = x->count < y->count ? x->count : y->count;
    for (size_t k = 0; k < n; k++)
        if (x->frames[k] != y->frames[k])
            return (x->frames[k] > y->frames[k]) - (x->frames[k] < y->frames[k]);
    return (x->count > y->count) - (x->count < y->count);
}

static int profile_sample_by_time(const void *a, const void *b) {
    const ec_profile_sample *x = a, *y = b;
    if (x->utc_ns != y->utc_ns)
        return (x->utc_ns > y->utc_ns) - (x->utc_ns < y->utc_ns);
    if (x->thread != y->thread)
        return (x->thread > y->thread) - (x->thread < y->thread);
    return x->stack != y->stack ? (x->stack > y->stack) - (x->stack < y->stack)
                                : (x->weight > y->weight) - (x->weight < y->weight);
}

/* Samples have the numbers of the sorted stacks, and are in the order of time. */
static int sort_samples(ec_merge *m) {
    const ec_profile_stack *stacks = m->stack_list.items;
    ec_profile_sample *samples = m->sample_list.items;
    uint32_t *places = samples ? calloc(m->stack_list.count + 1, sizeof *places) : NULL;
    if (!samples)
        return 0;
    if (!places)
        return EA_ENOMEM;
    for (size_t i = 0; i < m->stack_list.count; i++)
        places[stacks[i].number] = (uint32_t)i;
    for (size_t i = 0; i < m->sample_list.count; i++)
        samples[i].stack = places[samples[i].stack];
    free(places);
    qsort(samples, m->sample_list.count, sizeof *samples, profile_sample_by_time);
    return 0;
}

const ec_profile_frame *ec_merge_innermost(const ec_merge *m, uint32_t place_number) {
    const place *p = (const place *)m->place_list.items + place_number;
    return (const ec_profile_frame *)m->frame_list.items + p->frames[0];
}

int ec_merge_finish(ec_merge *m, const ec_profile_namer *namer, ec_profile *p) {
    int rc = namer ? name_modules(m, namer, p) : 0;
    place *places = m->place_list.items;
    for (size_t i = 0; !rc && i < m->place_list.count; i++) {
        if (places[i].frames)
            continue;
        places[i].frames = ea_arena_alloc(&m->arena, sizeof *places[i].frames);
        places[i].frame_count = 1;
        rc = places[i].frames ? frame_number(m, places[i].module, places[i].offset, NULL, places[i].frames) : EA_ENOMEM;
    }
    if (!rc)
        rc = restack(m);
    if (rc)
        return rc;
    if (m->stack_list.count)
        qsort(m->stack_list.items, m->stack_list.count, sizeof(ec_profile_stack), profile_merge_by_weight);
    if ((rc = sort_samples(m)))
        return rc;
    p->processes = m->process_list.items;
    p->process_count = m->process_list.count;
    p->modules = m->module_list.items;
    p->module_count = m->module_list.count;
    p->frames = m->frame_list.items;
    p->frame_count = m->frame_list.count;
    p->stacks = m->stack_list.items;
    p->stack_count = m->stack_list.count;
    p->threads = m->thread_list.items;
    p->thread_count = m->thread_list.count;
    p->samples = m->sample_list.items;
    p->sample_count = m->sample_list.count;
    return 0;
}
