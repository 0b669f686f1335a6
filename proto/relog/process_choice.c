/* Processes by name, pid and time, and the events that are theirs. See process_choice.h. */
#include "proto/relog/process_choice.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/state/machine.h"

#include <stdlib.h>
#include <string.h>

enum { PROCESSES_MAX = 1 << 20, THREADS_MAX = 1 << 22 };

/* Whether a process is chosen by one that started it: not known yet, being looked at, no. */
enum descent { DESCENT_UNKNOWN, DESCENT_PENDING, DESCENT_NONE };

typedef struct life {
    uint32_t id, pid;      /* id: the key, pid or tid */
    uint64_t instance, of; /* of: the parent's, or the process of a thread; 0: unknown */
    int64_t begin_utc_ns, end_utc_ns;
    char *name; /* of a process, NULL for a thread */
    int is_chosen;
    enum descent descent;
} life;

typedef struct lives {
    life *items;
    size_t count, capacity;
    ea_u64_map places; /* instance: place in items + 1 */
} lives;

struct ea_process_choice {
    ea_machine *machine;
    lives processes, threads;
};

static void lives_deinit(lives *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].name);
    free(l->items);
    ea_u64_map_deinit(&l->places);
}

/* The life of this instance; a new one when it is not known. NULL: out of memory, or too many. */
static life *life_of(lives *l, uint64_t instance, size_t max, int *ret_rc) {
    const uint64_t *place = ea_u64_map_get(&l->places, instance);
    if (place)
        return &l->items[*place - 1];
    *ret_rc = l->count >= max ? EA_ELIMIT : EA_ENOMEM;
    if (l->count >= max || EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX) ||
        ea_u64_map_put(&l->places, instance, l->count + 1))
        return NULL;
    life *new = &l->items[l->count++];
    *new = (life){.instance = instance};
    return new;
}

static int note_process(void *arg, const ea_process *from) {
    ea_process_choice *p = arg;
    int rc;
    life *l = life_of(&p->processes, from->life.instance, PROCESSES_MAX, &rc);
    if (!l)
        return rc;
    l->id = l->pid = from->pid;
    l->of = from->parent_instance;
    l->begin_utc_ns = from->life.begin_utc_ns;
    l->end_utc_ns = from->life.end_utc_ns;
    if (*from->image_name && (!l->name || strcmp(l->name, from->image_name) != 0)) {
        free(l->name);
        l->name = strdup(from->image_name);
        if (!l->name)
            return EA_ENOMEM;
    }
    return 0;
}

static int note_thread(void *arg, const ea_thread_row *from) {
    ea_process_choice *p = arg;
    int rc;
    if (from->tid == 0) /* each processor has one */
        return 0;
    life *l = life_of(&p->threads, from->life.instance, THREADS_MAX, &rc);
    if (!l)
        return rc;
    l->id = from->tid;
    l->pid = from->pid;
    l->of = from->process_instance;
    l->begin_utc_ns = from->life.begin_utc_ns;
    l->end_utc_ns = from->life.end_utc_ns;
    return 0;
}

int ea_process_choice_create(ea_process_choice **ret, ea_err *err) {
    static const ea_machine_observer observer = {.on_process = note_process, .on_thread = note_thread};
    ea_process_choice *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "choose processes");
    ea_u64_map_init(&p->processes.places, 0);
    ea_u64_map_init(&p->threads.places, 0);
    int rc = ea_machine_create(&p->machine, &(ea_machine_options){.observer = &observer, .observer_arg = p}, err);
    if (rc) {
        ea_process_choice_destroy(p);
        return rc;
    }
    /* A process whose beginning no record has was there before the first record, also before the first one that the
     * machine is given: INT64_MIN itself would mean the latter. */
    ea_machine_restore_position(p->machine, 0, INT64_MIN + 1);
    *ret = p;
    return 0;
}

void ea_process_choice_destroy(ea_process_choice *p) {
    if (!p)
        return;
    ea_machine_destroy(p->machine);
    lives_deinit(&p->processes);
    lives_deinit(&p->threads);
    free(p);
}

int ea_process_choice_learn(ea_process_choice *p, const ea_record *r, const ea_class *c, int64_t utc_ns, ea_err *err) {
    if (!ea_machine_concerns(&r->provider, r->opcode))
        return 0;
    int rc = ea_machine_apply(p->machine, r, c, utc_ns, err);
    return rc == EA_ELIMIT
               ? ea_fail(err, rc, "choose processes: more than %d processes or %d threads", PROCESSES_MAX, THREADS_MAX)
               : rc;
}

size_t ea_process_choice_add(ea_process_choice *p, const char *name, int has_pid, uint32_t pid, int64_t utc_ns) {
    size_t count = 0;
    for (size_t i = 0; i < p->processes.count; i++) {
        life *l = &p->processes.items[i];
        if ((has_pid && l->pid != pid) || (name && (!l->name || !ea_name_equal(name, l->name))) ||
            (utc_ns != INT64_MIN && (utc_ns < l->begin_utc_ns || utc_ns >= l->end_utc_ns)))
            continue;
        l->is_chosen = 1;
        count++;
    }
    return count;
}

ea_near ea_process_choice_near(const ea_process_choice *p, const char *name) {
    ea_near near = {.distance = 0};
    for (size_t i = 0; i < p->processes.count; i++) {
        const char *image = p->processes.items[i].name, *dot = image ? strrchr(image, '.') : NULL;
        char stem[EA_NEAR_BYTES];
        if (image)
            ea_near_note(&near, name, image);
        if (!dot || strchr(name, '.') || (size_t)(dot - image) >= sizeof stem)
            continue;
        ea_near of_stem = near;
        memcpy(stem, image, (size_t)(dot - image));
        stem[dot - image] = 0;
        ea_near_note(&of_stem, name, stem);
        if (of_stem.distance < near.distance || !near.name[0]) /* the name with its ending */
            snprintf(near.name, sizeof near.name, "%s", of_stem.name[0] ? image : "");
        near.distance = of_stem.distance;
    }
    return near;
}

static life *process_choice_parent_of(ea_process_choice *p, const life *l) {
    const uint64_t *place = l->of ? ea_u64_map_get(&p->processes.places, l->of) : NULL;
    return place ? &p->processes.items[*place - 1] : NULL;
}

void ea_process_choice_add_children(ea_process_choice *p) {
    for (size_t i = 0; i < p->processes.count; i++) {
        life *first = &p->processes.items[i], *at = first;
        while (at && !at->is_chosen && at->descent == DESCENT_UNKNOWN) {
            at->descent = DESCENT_PENDING;
            at = process_choice_parent_of(p, at);
        }
        int descends = at && at->is_chosen;
        /* the same way again: each process is looked at once or twice altogether */
        for (at = first; at && !at->is_chosen && at->descent == DESCENT_PENDING; at = process_choice_parent_of(p, at)) {
            at->descent = DESCENT_NONE;
            at->is_chosen = descends;
        }
    }
}

static int by_id_and_begin(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->begin_utc_ns != y->begin_utc_ns)
        return x->begin_utc_ns < y->begin_utc_ns ? -1 : 1;
    return x->instance < y->instance ? -1 : x->instance > y->instance;
}

/* The last one of this id that began no later: 1 when it is chosen. An event at the very end is still of it. */
static int is_of_chosen(const lives *l, uint32_t id, int64_t utc_ns) {
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const life *at = &l->items[middle];
        if (at->id < id || (at->id == id && at->begin_utc_ns <= utc_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    const life *at = &l->items[low - 1];
    return at->id == id && at->is_chosen && utc_ns <= at->end_utc_ns;
}

static void sort(lives *l) {
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, by_id_and_begin);
}

void ea_process_choice_settle(ea_process_choice *p) {
    for (size_t i = 0; i < p->threads.count; i++) {
        life *t = &p->threads.items[i];
        const life *process = process_choice_parent_of(p, t);
        t->is_chosen = process && process->is_chosen;
    }
    sort(&p->threads);
    sort(&p->processes);
}

/* A field of the event names a chosen process, or a thread of one. */
static int names_chosen(const ea_process_choice *p, const ea_record *r, const ea_class *c, int64_t utc_ns) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    for (size_t i = 0; i < whole; i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        const lives *of = f->semantic == EA_SEM_PID ? &p->processes : f->semantic == EA_SEM_TID ? &p->threads : NULL;
        if (!of || (slices[i].len_bytes != 4 && slices[i].len_bytes != 8))
            continue;
        uint64_t id = ea_load_uint(slices[i].data, slices[i].len_bytes);
        if (id <= UINT32_MAX && is_of_chosen(of, (uint32_t)id, utc_ns))
            return 1;
    }
    return 0;
}

int ea_process_choice_wants(const ea_process_choice *p, const ea_record *r, const ea_class *c, int64_t utc_ns) {
    if (r->pid != UINT32_MAX ? is_of_chosen(&p->processes, r->pid, utc_ns)
                             : r->tid != UINT32_MAX && is_of_chosen(&p->threads, r->tid, utc_ns))
        return 1;
    return (r->flags & EA_FLAG_CLASSIC_HEADER) && names_chosen(p, r, c, utc_ns);
}
