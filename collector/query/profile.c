/* See profile.h. One stream after the other: its events go through the stack join in their order; what leaves it is
 * summed by process and stack; at the stream's end addresses become places, and stacks go to the merge. */
#include "profile.h"

#include "arena.h"
#include "array.h"
#include "map.h"
#include "methods.h"
#include "places.h"
#include "platform.h"
#include "profile_merge.h"
#include "query.h"
#include "stretches.h"
#include "tape.h"
#include "walks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The farthest half that was measured came 9,227 events late; a window that fits into a processor's cache has some
 * 260,000. */
static const size_t WINDOW_BYTES = 16 << 20;
/* Halves of stacks, and ends of disk requests, may come so long after the range, or after the last wait that began in
 * it has ended. */
static const int64_t LATE_NS = 30ll * 1000 * 1000 * 1000, FOLD_WAIT_NS = 10ll * 1000 * 1000 * 1000;
enum {
    DEFAULT_INTERVAL = 10000,
    SOURCES_MAX = 4096,
    FRAMES_MAX = 4096,
    PAIRS_MAX = 1 << 24,
    ASK_EVERY = 1 << 16,
    OTHER_SOURCES = 8
};

static const char TOO_MANY_ROWS[] = "join stacks: more than 1,048,576 rows; take less time";

enum kind { OTHER, SAMPLE, COUNTER_SAMPLE, SWITCH, READY, START, END, LOST, DISK_BEGIN, DISK_END, FAULT, INTERVAL };

/* Fields of a class: what slot holds what depends on its kind. */
enum { THREAD, ADDRESS, SOURCE };                         /* samples; an event with a thread */
enum { NEW_TID, OLD_TID, OLD_STATE, OLD_REASON };         /* switches */
enum { IRP, RESPONSE };                                   /* disk */
enum { INTERVAL_SOURCE, INTERVAL_LENGTH, INTERVAL_NAME }; /* of samples */

typedef struct plan {
    ec_tape_plan tape; /* first */
    ea_stack_plan stack;
    uint8_t kind;
    uint32_t name; /* of the class, among the run's */
} plan;

/* An event with a weight, until it leaves the window. */
typedef struct subject {
    int64_t utc_ns;
    uint64_t weight;
    union {
        uint64_t address; /* where it was, 0 unknown */
        uint64_t place;   /* where each event counts: ec_tape_place */
    };
    uint32_t pid, name; /* pid: of its header */
    uint8_t is_open;    /* its weight comes later */
} subject;

/* What is summed of a stream: a cache line, and they stand at the beginnings of such. */
typedef struct pair {
    uint32_t process, epoch, kernel, user, code; /* process: index, or EC_NO_PROCESS; code: epoch of methods */
    uint32_t pid, tid, name;                     /* 0 in a profile, which tells programs apart, not threads */
    int64_t first_utc_ns, last_utc_ns;
    uint64_t weight, events;
} pair;
enum { PAIR_KEY_BYTES = 8 * sizeof(uint32_t) };
/* kernel, user: that half is known to be missing. No stack has this number. */
static const uint32_t HALF_IS_MISSING = UINT32_MAX;
_Static_assert(sizeof(pair) == 64, "a cache line");

/* Halves that joined no event. */
typedef struct missed_halves {
    int (*fn)(void *arg, const ec_missed_half *m);
    void *arg;
    int64_t from_utc_ns; /* of the range; the join begins with the stream */
    int rc;              /* what fn returned, EA_ENOMEM */
    struct clock_since {
        uint64_t place; /* of the first record that has this clock */
        ea_clock clock;
    } * clocks;
    size_t clock_count, clock_capacity;
    /* events whose user half has not come: pid and tid as in the row */
    struct unanswered {
        uint64_t place;
        int64_t utc_ns;
        uint32_t pid, tid;
        int is_answered; /* too late */
    } * unanswered;
    size_t unanswered_count, unanswered_capacity;
} missed_halves;

/* Pairs on their way into the sums: the place of each is fetched from memory while those before it are added. */
enum { COMING = 16 };
typedef struct coming_pair {
    pair add;
    size_t hash;
} coming_pair;

typedef struct run {
    const ec_profile_request *request;
    ec_profile *profile;
    ec_archive *archive;
    ec_merge *merge;
    ea_arena arena; /* plans */
    int side;
    int64_t from_utc_ns, to_utc_ns;
    /* of a stream */
    const ec_archive_stream *stream;
    ea_stacks *stacks;
    ea_stack_join *join;
    ec_sched *sched;
    ec_places *places;
    ec_methods *methods;
    ec_tape *tape;
    ec_walks walks; /* with the clock's times */
    int (*wants)(const struct run *r, const plan *p);
    subject *subjects; /* a ring: those that are in the window */
    uint64_t first_subject, next_subject;
    size_t subject_mask;
    ea_u64_map by_irp;     /* disk: -> number of a subject; wait: by thread, what it waited until it was ready */
    ea_u64_map unanswered; /* tags of events that count as incomplete since their user half has not come; with missed:
                              -> index of it */
    pair *pairs;
    uint32_t *slots; /* hashes to pairs, index + 1 */
    size_t pair_count, pair_capacity, slot_mask;
    coming_pair coming[COMING]; /* a ring */
    uint64_t coming_next, coming_first;
    uint64_t intervals[SOURCES_MAX]; /* of each source, in its unit; 0 unknown */
    uint32_t source;                 /* the wanted counter's */
    int has_source;
    uint64_t other_sources[OTHER_SOURCES]; /* of all streams: the first ones of which there are samples in the range */
    size_t other_source_count;
    const ea_clock *clock; /* of the batch at hand, to know it again: gone with the batch. NULL: there was none */
    ea_clock clock_copy;   /* raw_from, raw_to and raw_until are of this one */
    int64_t raw_from, raw_to;
    int64_t raw_until;      /* events until then may have weight in the range */
    int64_t raw_last;       /* the latest event so far */
    int64_t subject_utc_ns; /* the latest event with weight */
    unsigned pointer_size;  /* of the machine's kernel */
    uint64_t steps;
    int is_each_event;     /* every event counts, with its class and thread: ec_profile_stacks */
    ec_stack_links *links; /* with is_each_event: it counts by itself. NULL: with those that are alike */
    missed_halves *missed; /* with is_each_event: halves without an event count, not events. NULL: events */
    const char **names;    /* of classes, each once */
    uint32_t name_count;
} run;

/* ---- classes ---- */

static int16_t field(const ea_class *c, const char *name) {
    for (size_t i = 0; i < ea_class_top_count(c); i++)
        if (strcmp(c->fields[ea_class_top_field(c, i)].name, name) == 0)
            return (int16_t)i;
    return -1;
}

static void set_fields(plan *p, const ea_class *c, enum kind kind, const char *const *names) {
    p->kind = (uint8_t)kind;
    for (unsigned i = 0; i < EC_TAPE_FIELDS && names[i]; i++)
        p->tape.fields[i] = field(c, names[i]);
}

static void plan_kind(plan *p, const ea_class *c, enum ec_weight weight) {
    static const struct {
        const char *class_name;
        enum kind kind;
        int weights; /* bits: for which weights; 0: all */
        const char *fields[EC_TAPE_FIELDS];
    } KINDS[] = {
        {"PerfInfo/SampleProf", SAMPLE, 0, {"ThreadId", "InstructionPointer", "Count"}},
        {"PerfInfo/PmcCounterProf", COUNTER_SAMPLE, 0, {"ThreadId", "InstructionPointer", "ProfileSource"}},
        {"Thread/CSwitch", SWITCH, 0, {"NewThreadId", "OldThreadId", "OldThreadState", "OldThreadWaitReason"}},
        {"Thread/ReadyThread", READY, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {"TThreadId"}},
        {"Thread/Start", START, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {"TThreadId"}},
        {"Thread/End", END, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {"TThreadId"}},
        {"LostEvent/RTLostEvent", LOST, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {NULL}},
        {"LostEvent/RTLostBuffer", LOST, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {NULL}},
        {"LostEvent/RTLostFile", LOST, 1 << EC_WEIGHT_READY | 1 << EC_WEIGHT_WAIT, {NULL}},
        {"DiskIo/ReadInit", DISK_BEGIN, 1 << EC_WEIGHT_DISK, {"Irp"}},
        {"DiskIo/WriteInit", DISK_BEGIN, 1 << EC_WEIGHT_DISK, {"Irp"}},
        {"DiskIo/FlushInit", DISK_BEGIN, 1 << EC_WEIGHT_DISK, {"Irp"}},
        {"DiskIo/Read", DISK_END, 1 << EC_WEIGHT_DISK, {"Irp", "HighResResponseTime"}},
        {"DiskIo/Write", DISK_END, 1 << EC_WEIGHT_DISK, {"Irp", "HighResResponseTime"}},
        {"DiskIo/FlushBuffers", DISK_END, 1 << EC_WEIGHT_DISK, {"Irp", "HighResResponseTime"}},
        {"PageFault/TransitionFault", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PageFault/DemandZeroFault", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PageFault/CopyOnWrite", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PageFault/GuardPageFault", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PageFault/HardPageFault", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PageFault/AccessViolation", FAULT, 1 << EC_WEIGHT_FAULTS, {NULL}},
        {"PerfInfo/SetInterval", INTERVAL, 0, {"Source", "NewInterval", "SourceName"}},
        {"PerfInfo/CollectionStart", INTERVAL, 0, {"Source", "NewInterval", "SourceName"}},
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(c->name, KINDS[i].class_name) == 0 && (!KINDS[i].weights || KINDS[i].weights >> weight & 1))
            set_fields(p, c, KINDS[i].kind, KINDS[i].fields);
}

/* The number of a class's name. */
static int number_name(run *r, const char *name, uint32_t *ret) {
    name = name && *name ? name : "?";
    for (*ret = 0; *ret < r->name_count; ++*ret)
        if (strcmp(r->names[*ret], name) == 0)
            return 0;
    const char **grown = realloc(r->names, (r->name_count + 1) * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    r->names = grown;
    r->names[r->name_count++] = name;
    return 0;
}

static const ec_tape_plan *plan_class(void *arg, const ea_class *c) {
    run *r = arg;
    plan *p = ea_arena_zalloc(&r->arena, 1, sizeof *p);
    if (!p)
        return &EC_TAPE_NO_MEMORY;
    for (unsigned i = 0; i < EC_TAPE_FIELDS; i++)
        p->tape.fields[i] = -1;
    p->tape.addresses = -1;
    p->stack = ea_stack_plan_of(c);
    if (r->is_each_event && number_name(r, c->name, &p->name))
        return &EC_TAPE_NO_MEMORY;
    switch (p->stack.role) {
    case EA_STACK_IS_NOTHING:
        return NULL;
    case EA_STACK_IS_EVENT:
        plan_kind(p, c, r->request->side[r->side].weight);
        p->tape.wants_items = 1;
        break;
    case EA_STACK_IS_MATCH:
        p->tape.wants_items = 1;
        break;
    default:
        ec_walks_plan(&p->tape, &p->stack);
        break;
    }
    return r->wants(r, p) ? &p->tape : NULL;
}

static int wants_all(const run *r, const plan *p) {
    (void)r, (void)p;
    return 1;
}
static int wants_intervals(const run *r, const plan *p) {
    (void)r;
    return p->kind == INTERVAL;
}
static int wants_definitions(const run *r, const plan *p) {
    (void)r;
    return p->stack.role == EA_STACK_IS_DEFINITION;
}

/* ---- what is summed ---- */

static size_t hash_of(const pair *p) {
    const uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b = UINT64_C(0xC2B2AE3D27D4EB4F), c = UINT64_C(0x165667B19E3779F9);
    uint64_t x = ((uint64_t)p->kernel << 32 | p->user) * a ^ ((uint64_t)p->process << 32 | p->epoch) * b;
    x = (x ^ x >> 29) * c ^ ((uint64_t)p->code << 32 | p->tid) * a ^ ((uint64_t)p->pid << 32 | p->name) * b;
    return (size_t)(x ^ x >> 32);
}

static int grow_slots(run *r) {
    size_t mask = r->slot_mask ? r->slot_mask * 2 + 1 : 4095;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i < r->pair_count; i++) {
        size_t at = hash_of(&r->pairs[i]) & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    free(r->slots);
    r->slots = slots;
    r->slot_mask = mask;
    return 0;
}

static int add_pair(run *r, const pair *add, size_t hash) {
    if (!r->slots || r->pair_count >= r->slot_mask / 2) {
        int rc = grow_slots(r);
        if (rc)
            return rc;
    }
    size_t at = hash & r->slot_mask;
    for (; r->slots[at]; at = (at + 1) & r->slot_mask) {
        pair *p = &r->pairs[r->slots[at] - 1];
        if (memcmp(p, add, PAIR_KEY_BYTES) == 0) {
            if (p->first_utc_ns > add->first_utc_ns)
                p->first_utc_ns = add->first_utc_ns;
            if (p->last_utc_ns < add->last_utc_ns)
                p->last_utc_ns = add->last_utc_ns;
            p->weight += add->weight;
            p->events += add->events;
            return 0;
        }
    }
    if (r->pair_count == PAIRS_MAX)
        return EA_ELIMIT;
    if (r->pair_count == r->pair_capacity) {
        size_t capacity = r->pair_capacity ? r->pair_capacity * 2 : 4096;
        pair *grown = ea_large_alloc(capacity * sizeof *grown);
        if (!grown)
            return EA_ENOMEM;
        if (r->pair_count)
            memcpy(grown, r->pairs, r->pair_count * sizeof *grown);
        ea_large_free(r->pairs, r->pair_capacity * sizeof *grown);
        r->pairs = grown;
        r->pair_capacity = capacity;
    }
    r->pairs[r->pair_count++] = *add;
    r->slots[at] = (uint32_t)r->pair_count;
    return 0;
}

static int add_first_coming(run *r) {
    const coming_pair *c = &r->coming[r->coming_first++ % COMING];
    return add_pair(r, &c->add, c->hash);
}

/* Not inlined members: what was just written in halves would be waited for when it is read whole. */
static inline int pair_comes(run *r, pair add) {
    size_t hash = hash_of(&add);
    int rc = r->coming_next - r->coming_first == COMING ? add_first_coming(r) : 0;
    coming_pair *c = &r->coming[r->coming_next++ % COMING];
    c->add = add;
    c->hash = hash;
    if (r->slots) {
        EA_PREFETCH(&r->slots[hash & r->slot_mask]);
        const coming_pair *half_way = &r->coming[(r->coming_next + COMING / 2) % COMING];
        uint32_t number = r->slots[half_way->hash & r->slot_mask];
        EA_PREFETCH(&r->pairs[number ? number - 1 : 0]);
    }
    return rc;
}

static int add_all_coming(run *r) {
    int rc = 0;
    while (!rc && r->coming_first != r->coming_next)
        rc = add_first_coming(r);
    return rc;
}

static int wants_pid(const run *r, uint32_t pid) {
    for (size_t i = 0; i < r->request->pid_count; i++)
        if (r->request->pids[i] == pid)
            return 1;
    return r->request->pid_count == 0;
}

/* An event that counts lacks a half: it is counted, and *half, which is not there, says so, so that it is counted once.
 * Where there is no room for its tag it stays unanswered. */
static void note_lack(run *r, const ea_stack_joined *e, uint32_t *half) {
    enum ec_profile_lack lack = e->lacks & EA_STACK_LACKS_ROOM ? EC_LACKS_NO_ROOM : EC_LACKS_UNANSWERED;
    r->profile->incomplete[r->side][lack]++;
    *half = HALF_IS_MISSING;
    if (lack == EC_LACKS_UNANSWERED && ea_u64_map_put(&r->unanswered, e->tag, 1))
        return;
}

static const char *process_name(const run *r, uint32_t process) {
    const ea_process *p = ec_places_get_process(r->places, process);
    if (p && p->pid == 0)
        return "Idle";
    return p && *p->image_name ? ec_base_name(p->image_name) : "?";
}

static void tell_missed(run *r, ec_missed_half m) {
    missed_halves *to = r->missed;
    if (to->rc || m.utc_ns < to->from_utc_ns || m.utc_ns >= r->to_utc_ns)
        return;
    if (m.pid == UINT32_MAX)
        m.pid = ec_places_pid_of_thread(r->places, m.tid, m.utc_ns);
    uint32_t process = ec_places_process(r->places, m.pid, m.utc_ns);
    m.image = process_name(r, process);
    m.process_key = ec_places_process_key(r->places, process);
    to->rc = to->fn(to->arg, &m);
}

/* The clock of a record: a walk may wait in the window until another one is in force. */
static const ea_clock *clock_at(const missed_halves *m, uint64_t place) {
    size_t low = 0, high = m->clock_count; /* the first one behind it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->clocks[middle].place <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return &m->clocks[low ? low - 1 : 0].clock;
}

static void on_missed(void *arg, const ea_stack_missed *missed) {
    run *r = arg;
    if (r->missed->rc) /* its clock may have found no memory */
        return;
    tell_missed(r,
                (ec_missed_half){.place = missed->from.tag,
                                 .utc_ns = ea_clock_to_utc_ns(clock_at(r->missed, missed->from.tag), missed->from.time),
                                 .half = missed->half == EA_STACK_KERNEL ? "kernel"
                                         : missed->half == EA_STACK_USER ? "user"
                                                                         : NULL,
                                 .outcome = ea_stack_outcome_name(missed->outcome),
                                 .pid = missed->from.pid,
                                 .tid = missed->from.tid});
}

/* An event without its user half has left the window. */
static int note_unanswered(run *r, const ea_stack_joined *e, const subject *s, uint32_t pid) {
    missed_halves *m = r->missed;
    int rc = EA_GROW(m->unanswered, m->unanswered_capacity, m->unanswered_count + 1, PAIRS_MAX);
    if (!rc)
        rc = ea_u64_map_put(&r->unanswered, e->tag, m->unanswered_count);
    if (!rc)
        m->unanswered[m->unanswered_count++] =
            (struct unanswered){.place = s->place, .utc_ns = s->utc_ns, .pid = pid, .tid = e->tid};
    return rc;
}

static void tell_unanswered(run *r) {
    for (size_t i = 0; i < r->missed->unanswered_count; i++) {
        const struct unanswered *u = &r->missed->unanswered[i];
        if (!u->is_answered)
            tell_missed(r, (ec_missed_half){.place = u->place,
                                            .utc_ns = u->utc_ns,
                                            .half = "user",
                                            .outcome = "no_answer",
                                            .pid = u->pid,
                                            .tid = u->tid});
    }
}

/* The half came after all, too late for its event. */
static void on_late(void *arg, uint64_t tag) {
    run *r = arg;
    const uint64_t *index = r->missed ? ea_u64_map_get(&r->unanswered, tag) : NULL;
    if (index)
        r->missed->unanswered[*index].is_answered = 1;
    if (r->missed)
        return;
    if (!ea_u64_map_remove(&r->unanswered, tag))
        return;
    r->profile->incomplete[r->side][EC_LACKS_UNANSWERED]--;
    r->profile->incomplete[r->side][EC_LACKS_LATE]++;
}

/* The hash is made of the numbers when all keys have been defined. */
static int add_link(run *r, uint64_t place, uint32_t kernel, uint32_t user) {
    ec_stack_links *l = r->links;
    int rc = EA_GROW(l->links, l->capacity, l->count + 1, l->limit_count);
    if (!rc)
        l->links[l->count++] = (ec_stack_link){.place = place, .hash = (uint64_t)kernel << 32 | user};
    return rc;
}

/* An event leaves the window. */
static int on_event(void *arg, const ea_stack_joined *e) {
    run *r = arg;
    if (!e->tag)
        return 0;
    const subject *s = &r->subjects[(e->tag - 1) & r->subject_mask];
    EA_PREFETCH(&r->subjects[(e->tag + COMING) & r->subject_mask]);
    r->first_subject = e->tag;
    if (s->is_open || !s->weight) {
        r->profile->unfinished += s->is_open;
        return 0;
    }
    uint32_t pid = e->pid != UINT32_MAX ? e->pid : s->pid;
    if (pid == UINT32_MAX)
        pid = ec_places_pid_of_thread(r->places, e->tid, s->utc_ns);
    if ((r->request->side[r->side].weight == EC_WEIGHT_CPU && (pid == 0 || e->tid == 0)) || !wants_pid(r, pid))
        return 0;
    uint32_t kernel = e->half[EA_STACK_KERNEL], user = e->half[EA_STACK_USER];
    if (r->missed)
        return e->lacks & EA_STACK_LACKS_ANSWER ? note_unanswered(r, e, s, pid) : 0;
    if (r->links)
        return kernel || user ? add_link(r, s->place, kernel, user) : 0;
    if (!kernel && !user) {
        if (r->is_each_event)
            return 0;
        r->profile->without_stack[r->side]++;
        if (s->address)
            user = ea_stacks_add(r->stacks, (const uint8_t *)&s->address, 1, 8);
    }
    if (e->lacks && (!user || !kernel))
        note_lack(r, e, user ? &kernel : &user);
    r->profile->total[r->side] += s->weight;
    r->profile->events[r->side]++;
    uint32_t process = ec_places_process(r->places, pid, s->utc_ns);
    return pair_comes(r, (pair){.process = process,
                                .epoch = ec_places_epoch(r->places, process, s->utc_ns),
                                .kernel = kernel,
                                .user = user,
                                .code = ec_methods_epoch(r->methods, pid, s->utc_ns),
                                .pid = r->is_each_event ? pid : 0,
                                .tid = r->is_each_event ? e->tid : 0,
                                .name = r->is_each_event ? s->name : 0,
                                .first_utc_ns = s->utc_ns,
                                .last_utc_ns = s->utc_ns,
                                .weight = s->weight,
                                .events = 1});
}

/* Room for one more subject: those in the window move to a larger ring. */
static int subject_room(run *r) {
    if (r->subjects && r->next_subject - r->first_subject <= r->subject_mask)
        return 0;
    size_t count = r->subjects ? (r->subject_mask + 1) * 2 : 4096;
    subject *grown = ea_large_alloc(count * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    for (uint64_t i = r->first_subject; r->subjects && i < r->next_subject; i++)
        grown[i & (count - 1)] = r->subjects[i & r->subject_mask];
    ea_large_free(r->subjects, (r->subject_mask + 1) * sizeof *grown);
    r->subjects = grown;
    r->subject_mask = count - 1;
    return 0;
}

/* ---- events ---- */

static int64_t later(int64_t utc_ns, int64_t by_ns) {
    return utc_ns > INT64_MAX - by_ns ? INT64_MAX : utc_ns + by_ns;
}

/* Time that a thread was ready or waited: known when it goes on, which may be behind the range. */
static int is_thread_time(const run *r) {
    return !r->is_each_event &&
           (r->request->side[r->side].weight == EC_WEIGHT_READY || r->request->side[r->side].weight == EC_WEIGHT_WAIT);
}

/* The first tick that is not before a time. */
static int64_t raw_of(const ea_clock *c, int64_t utc_ns) {
    int64_t raw = ea_clock_from_utc_ns(c, utc_ns);
    return raw + (ea_clock_to_utc_ns(c, raw) < utc_ns && raw < INT64_MAX);
}

/* The times that count, in ticks of the clock at hand. */
static void use_clock(run *r, const ea_clock *c) {
    const ea_clock *was = &r->clock_copy;
    if (r->clock && c == r->clock && c->frequency == was->frequency && c->base_raw == was->base_raw &&
        c->base_utc_ns == was->base_utc_ns)
        return;
    r->clock = c;
    r->clock_copy = *c;
    if (r->missed && EA_GROW(r->missed->clocks, r->missed->clock_capacity, r->missed->clock_count + 1, SIZE_MAX))
        r->missed->rc = r->missed->rc ? r->missed->rc : EA_ENOMEM;
    else if (r->missed)
        r->missed->clocks[r->missed->clock_count++] = (struct clock_since){ec_tape_place(r->tape), *c};
    r->raw_from = raw_of(c, r->from_utc_ns);
    r->raw_to = raw_of(c, r->to_utc_ns);
    r->raw_until = is_thread_time(r) ? INT64_MAX : r->raw_to;
    r->raw_last = INT64_MIN;
    r->walks = (ec_walks){r->tape, r->stacks, r->join, r->raw_from, r->raw_until};
    if (ec_tape_pointer_size(r->tape) > r->pointer_size)
        r->pointer_size = ec_tape_pointer_size(r->tape);
}

static int may_count(const run *r, int64_t raw) {
    return raw >= r->raw_from && raw < r->raw_until;
}

static void on_interval(run *r, const ec_tape_event *e) {
    uint64_t source = ec_tape_u64_or_0(r->tape, e, INTERVAL_SOURCE);
    const char *counter = r->request->side[r->side].counter;
    if (source >= SOURCES_MAX)
        return;
    r->intervals[source] = ec_tape_u64_or_0(r->tape, e, INTERVAL_LENGTH);
    ea_slice name = ec_tape_bytes(r->tape, e, INTERVAL_NAME);
    if (!counter || r->has_source || !name.data)
        return;
    size_t n = strlen(counter), i = 0;
    while (i < n && 2 * i + 1 < name.len_bytes && (ea_load16(name.data + 2 * i) | 0x20) == (counter[i] | 0x20))
        i++;
    if (i == n && (name.len_bytes <= 2 * n + 1 || ea_load16(name.data + 2 * n) == 0)) {
        r->has_source = 1;
        r->source = (uint32_t)source;
    }
}

/* A counter by its number, or by the name that the class's map has for it. */
static void find_source(run *r, const ea_class *c) {
    const char *counter = r->request->side[r->side].counter;
    int16_t top = field(c, "ProfileSource");
    uint64_t number;
    if (!counter || r->has_source)
        return;
    if (ea_u64_parse(counter, &number) == 0 && number < SOURCES_MAX) {
        r->source = (uint32_t)number;
        r->has_source = 1;
        return;
    }
    const ea_enum *map = top >= 0 ? c->fields[ea_class_top_field(c, (size_t)top)].map : NULL;
    for (size_t i = 0; map && i < map->count; i++) {
        size_t k = 0;
        const char *name = map->entries[i].name;
        while (counter[k] && name[k] && (counter[k] | 0x20) == (name[k] | 0x20))
            k++;
        if (counter[k] || name[k] || map->entries[i].value >= SOURCES_MAX)
            continue;
        r->source = (uint32_t)map->entries[i].value;
        r->has_source = 1;
    }
}

/* A source of counter samples that nobody asked for. */
static void note_source(run *r, uint64_t source) {
    size_t i = 0;
    while (i < r->other_source_count && r->other_sources[i] != source)
        i++;
    if (i == r->other_source_count && i < OTHER_SOURCES)
        r->other_sources[r->other_source_count++] = source;
}

/* Nothing is stored of the counter that was asked for: which ones there are, so that a slip of the pen is no idle
 * machine. */
static void say_sources(const run *r, int side) {
    char *notes = r->profile->notes;
    const size_t room = sizeof r->profile->notes;
    int n = (int)strlen(notes);
    n += snprintf(notes + n, room - (size_t)n, "%sno sample of the counter %.64s is stored in this range",
                  n ? "; " : "", r->request->side[side].counter);
    for (size_t i = 0; i < r->other_source_count && n < (int)room; i++)
        n += snprintf(notes + n, room - (size_t)n, "%s%" PRIu64, i ? ", " : "; there are such of the sources ",
                      r->other_sources[i]);
}

static uint64_t span_ns(const run *r, const ec_stretch *s) {
    int64_t begin = s->begin > r->raw_from ? s->begin : r->raw_from, end = s->end < r->raw_to ? s->end : r->raw_to;
    if (end <= begin)
        return 0;
    return (uint64_t)(ea_clock_to_utc_ns(&r->clock_copy, end) - ea_clock_to_utc_ns(&r->clock_copy, begin));
}

static uint64_t switch_weight(run *r, const ec_tape_event *e) {
    ec_stretch stretches[3];
    uint64_t weight = 0, new_tid = ec_tape_u64_or_0(r->tape, e, NEW_TID);
    size_t n = ec_sched_switch(r->sched, e->time, e->cpu, (uint32_t)ec_tape_u64_or_0(r->tape, e, OLD_TID),
                               (uint8_t)ec_tape_u64_or_0(r->tape, e, OLD_STATE),
                               (uint8_t)ec_tape_u64_or_0(r->tape, e, OLD_REASON), (uint32_t)new_tid, stretches);
    for (size_t i = 0; i < n; i++) {
        if (stretches[i].tid != new_tid)
            continue;
        if (stretches[i].state ==
            (r->request->side[r->side].weight == EC_WEIGHT_READY ? EC_SCHED_READY : EC_SCHED_WAITING))
            weight = span_ns(r, &stretches[i]);
    }
    return weight;
}

/* What a wait was until its thread became ready counts where the thread goes on. */
static uint64_t waited(run *r, uint32_t tid, uint64_t weight, int is_switch) {
    uint64_t *known = ea_u64_map_get(&r->by_irp, tid);
    if (is_switch) {
        if (known) {
            weight += *known;
            *known = 0;
        }
        return weight;
    }
    if (known)
        *known += weight;
    else if (ea_u64_map_put(&r->by_irp, tid, weight))
        r->profile->unfinished++;
    return 0;
}

/* What a thread does by raw_now, and nobody has seen the end of: how much of it is inside the range. */
static uint64_t open_time(const run *r, ec_stretch s, int64_t raw_now) {
    int is_wait = r->request->side[r->side].weight == EC_WEIGHT_WAIT;
    uint64_t ns = 0;
    const uint64_t *waited_ns = is_wait ? ea_u64_map_get(&r->by_irp, s.tid) : NULL;
    if (s.state == (is_wait ? EC_SCHED_WAITING : EC_SCHED_READY)) {
        s.end = raw_now;
        ns = span_ns(r, &s);
    }
    ns += waited_ns ? *waited_ns : 0; /* it is ready by now, and has not gone on */
    return ns && wants_pid(r, ec_places_pid_of_thread(r->places, s.tid, ea_clock_to_utc_ns(&r->clock_copy, s.begin)))
               ? ns
               : 0;
}

/* The same of all threads: how many, and how much of them is added to *ret_ns (may be NULL). */
static uint64_t open_times(const run *r, int64_t raw_now, uint64_t *ret_ns) {
    uint64_t count = 0;
    ec_stretch s;
    for (size_t cursor = 0; r->clock && ec_sched_next_open(r->sched, &cursor, &s);) {
        uint64_t ns = open_time(r, s, raw_now);
        count += ns > 0;
        if (ret_ns)
            *ret_ns += ns;
    }
    return count;
}

/* Nobody knows what threads did from then on. */
static void know_nothing(run *r, int64_t raw_now) {
    r->profile->unfinished += open_times(r, raw_now, &r->profile->unfinished_ns);
    ec_sched_lost(r->sched);
    ea_u64_map_clear(&r->by_irp);
}

static void on_thread_life(run *r, const ec_tape_event *e, enum kind kind) {
    uint32_t tid = (uint32_t)ec_tape_u64_or_0(r->tape, e, THREAD);
    ec_stretch s;
    int is_open = kind == START ? ec_sched_begin(r->sched, tid, &s) : ec_sched_end(r->sched, tid, &s);
    uint64_t ns = is_open ? open_time(r, s, e->time) : 0;
    r->profile->unfinished += ns > 0;
    r->profile->unfinished_ns += ns;
    (void)ea_u64_map_remove(&r->by_irp, tid);
}

/* The weight of an event; *ret_open: it comes later. */
static uint64_t weight_of(run *r, const ec_tape_event *e, const plan *p, int *ret_open) {
    enum ec_weight w = r->request->side[r->side].weight;
    uint64_t source, n;
    ec_stretch stretches[3];
    if (r->is_each_event)
        return 1;
    switch (p->kind) {
    case SAMPLE:
        if (w != EC_WEIGHT_CPU && w != EC_WEIGHT_SAMPLES)
            return 0;
        n = ec_tape_u64_or_0(r->tape, e, SOURCE); /* the field Count */
        n = n ? n : 1;
        return w == EC_WEIGHT_SAMPLES ? n : n * 100 * (r->intervals[0] ? r->intervals[0] : DEFAULT_INTERVAL);
    case COUNTER_SAMPLE:
        if (w != EC_WEIGHT_PMC)
            return 0;
        find_source(r, e->c);
        source = ec_tape_u64_or_0(r->tape, e, SOURCE);
        if (!r->has_source || source != r->source) {
            if (may_count(r, e->time))
                note_source(r, source);
            return 0;
        }
        return r->intervals[source] ? r->intervals[source] : 1;
    case SWITCH:
        if (w != EC_WEIGHT_READY && w != EC_WEIGHT_WAIT)
            return 0;
        n = switch_weight(r, e);
        return w == EC_WEIGHT_WAIT ? waited(r, (uint32_t)ec_tape_u64_or_0(r->tape, e, NEW_TID), n, 1) : n;
    case READY: {
        uint32_t tid = (uint32_t)ec_tape_u64_or_0(r->tape, e, THREAD);
        if (ec_sched_ready(r->sched, e->time, tid, e->tid, stretches) && w == EC_WEIGHT_WAIT &&
            stretches[0].state == EC_SCHED_WAITING)
            (void)waited(r, tid, span_ns(r, &stretches[0]), 0);
        return 0;
    }
    case START:
    case END:
        on_thread_life(r, e, p->kind);
        return 0;
    case LOST:
        know_nothing(r, e->time);
        return 0;
    case DISK_BEGIN:
        *ret_open = 1;
        return 0;
    case FAULT:
        return 1;
    default:
        return 0;
    }
}

static void end_disk(run *r, const ec_tape_event *e) {
    uint64_t irp = ec_tape_u64_or_0(r->tape, e, IRP), ticks = ec_tape_u64_or_0(r->tape, e, RESPONSE);
    const uint64_t *number = ea_u64_map_get(&r->by_irp, irp);
    if (!number)
        return;
    if (*number >= r->first_subject) {
        subject *s = &r->subjects[*number & r->subject_mask];
        s->is_open = 0;
        s->weight = (uint64_t)(ea_clock_to_utc_ns(&r->clock_copy, e->time) -
                               ea_clock_to_utc_ns(&r->clock_copy, e->time - (int64_t)(ticks & INT64_MAX)));
    }
    ea_u64_map_remove(&r->by_irp, irp);
}

static int on_other(run *r, const ec_tape_event *e, const plan *p) {
    uint64_t thread, tag = 0;
    uint32_t tid = e->tid;
    int is_open = 0;
    if (p->kind == INTERVAL)
        on_interval(r, e);
    if (p->kind == DISK_END)
        end_disk(r, e);
    if ((p->kind == SAMPLE || p->kind == COUNTER_SAMPLE || p->kind == SWITCH) &&
        ec_tape_u64(r->tape, e, THREAD, &thread)) /* NEW_TID stands there too */
        tid = (uint32_t)thread;
    uint64_t weight = weight_of(r, e, p, &is_open);
    if ((weight || is_open) && may_count(r, e->time)) {
        int rc = subject_room(r);
        if (rc)
            return rc;
        subject *s = &r->subjects[r->next_subject & r->subject_mask];
        *s = (subject){
            .utc_ns = ec_tape_utc_ns(e), .weight = weight, .pid = e->pid, .name = p->name, .is_open = (uint8_t)is_open};
        if (r->is_each_event)
            s->place = ec_tape_place(r->tape);
        else if (p->kind == SAMPLE || p->kind == COUNTER_SAMPLE)
            s->address = ec_tape_u64_or_0(r->tape, e, ADDRESS);
        if (is_open) { /* without room it stays open: its end does not come */
            int full = ea_u64_map_put(&r->by_irp, ec_tape_u64_or_0(r->tape, e, IRP), r->next_subject);
            (void)full;
        }
        tag = ++r->next_subject;
        r->subject_utc_ns = s->utc_ns > r->subject_utc_ns ? s->utc_ns : r->subject_utc_ns;
    }
    int rc = ea_stack_join_event(r->join, e->time, tid, e->cpu, tag);
    if (p->stack.clr)
        ea_stack_join_clr_event(r->join, (uint64_t)p->stack.clr << 32 | e->tid);
    ea_ext item;
    for (unsigned i = 0; !rc && ec_tape_item(r->tape, e, i, &item); i++)
        ea_stack_feed_item(r->join, &item, EA_STACK_IS_EVENT);
    return rc;
}

/* Each time that threads waited or were ready in the range has ended, and its stack is there. */
static int all_has_ended(const run *r, const ec_tape_event *e) {
    int64_t last = r->subject_utc_ns > r->to_utc_ns ? r->subject_utc_ns : r->to_utc_ns;
    return is_thread_time(r) && ec_tape_utc_ns(e) > later(last, LATE_NS) && !open_times(r, e->time, NULL);
}

/* Everything of a pass over the stream. Definitions count that came after after_utc_ns, until to_utc_ns. */
static int play(run *r, int64_t from_utc_ns, int64_t to_utc_ns, int64_t after_utc_ns, ea_err *err) {
    ec_tape_event e;
    int rc = ec_tape_open(&r->tape, r->archive,
                          &(ec_tape_options){.stream = r->stream,
                                             .from_utc_ns = from_utc_ns,
                                             .to_utc_ns = to_utc_ns,
                                             .plan = plan_class,
                                             .arg = r,
                                             .wants_gaps = r->wants == wants_all && is_thread_time(r)},
                          err);
    if (rc)
        return rc;
    int is_over = 0; /* only definitions still count */
    r->clock = NULL;
    while ((rc = ec_tape_next(r->tape, &e, err)) == 1) {
        const plan *p = (const plan *)e.plan;
        if (e.is_behind_gap)
            know_nothing(r, r->raw_last);
        use_clock(r, e.clock);
        r->raw_last = e.time > r->raw_last ? e.time : r->raw_last;
        if (++r->steps % ASK_EVERY == 0) {
            if (r->request->keep_going && !r->request->keep_going(r->request->arg)) {
                rc = ea_fail(err, EA_ECANCELED, "make a profile");
                break;
            }
            is_over |= all_has_ended(r, &e);
            if (is_over && !ea_stacks_count(r->stacks).undefined) {
                rc = 0;
                break;
            }
        }
        if (is_over && p->stack.role != EA_STACK_IS_DEFINITION)
            continue;
        if (r->missed)
            ea_stack_join_from(r->join, &(ea_stack_origin){ec_tape_place(r->tape), e.time, e.pid, e.tid});
        switch (p->stack.role) {
        case EA_STACK_IS_EVENT:
            rc = r->wants == wants_all ? on_other(r, &e, p) : 0;
            if (r->wants == wants_intervals)
                on_interval(r, &e);
            break;
        case EA_STACK_IS_MATCH: {
            ea_ext item;
            for (unsigned i = 0; ec_tape_item(r->tape, &e, i, &item); i++)
                ea_stack_feed_item(r->join, &item, EA_STACK_IS_MATCH);
            rc = 0;
            break;
        }
        case EA_STACK_IS_DEFINITION: {
            int64_t utc_ns = ec_tape_utc_ns(&e);
            rc = utc_ns > after_utc_ns && utc_ns <= to_utc_ns ? ec_walks_add(&r->walks, &e, &p->stack) : 0;
            break;
        }
        default:
            rc = ec_walks_add(&r->walks, &e, &p->stack);
        }
        if (rc) {
            rc = ea_fail(err, rc,
                         rc == EA_ELIMIT ? "make a profile: too many different stacks; take less time"
                                         : "make a profile");
            break;
        }
    }
    ec_tape_close(r->tape);
    r->tape = NULL;
    return rc;
}

/* ---- a stream's end ---- */

/* The .NET method that an address was in: of no module, or of a native image that was compiled ahead of time. */
static const ec_method *method_at(const run *r, const pair *p, uint64_t address) {
    const ea_process *process = ec_places_get_process(r->places, p->process);
    const ec_method *m = process ? ec_methods_find(r->methods, process->pid, address, p->last_utc_ns) : NULL;
    if (m && m->begin_utc_ns != INT64_MIN && m->begin_utc_ns < process->life.begin_utc_ns)
        return NULL; /* of a process that had this number before */
    return m;
}

static int merge_pair(run *r, const pair *p) {
    uint32_t frames[FRAMES_MAX], process = 0;
    size_t n = 0;
    int rc = ec_merge_process(r->merge, process_name(r, p->process), &process), unloaded;
    for (int h = 0; !rc && h < EA_STACK_HALVES; h++) {
        size_t count;
        const uint64_t *addresses = ea_stacks_get(r->stacks, h == EA_STACK_KERNEL ? p->kernel : p->user, &count);
        for (size_t i = 0; !rc && i < count && n < FRAMES_MAX; i++) {
            int is_kernel = ea_stack_is_kernel(addresses[i], r->pointer_size);
            const ea_module *m = ec_places_module(r->places, p->process, p->epoch, addresses[i], is_kernel, &unloaded);
            const ec_method *method = NULL;
            if (!is_kernel)
                method = method_at(r, p, addresses[i] - (n > 0)); /* a call may be the last that a method does */
            rc = method ? ec_merge_method(r->merge, unloaded ? NULL : m, method->name, &frames[n])
                        : ec_merge_frame(r->merge, m, unloaded, addresses[i], n > 0, &frames[n]);
            n++;
        }
    }
    return rc ? rc : ec_merge_stack(r->merge, r->side, process, frames, n, p->weight, p->events);
}

static void add_frame(const run *r, const pair *p, uint64_t address, int is_return, ea_text *t) {
    int is_kernel = ea_stack_is_kernel(address, r->pointer_size), unloaded;
    const ea_module *m = ec_places_module(r->places, p->process, p->epoch, address, is_kernel, &unloaded);
    const ec_method *method = is_kernel ? NULL : method_at(r, p, address - (uint64_t)is_return);
    ea_text_printf(t, "%s{\"address\":\"0x%" PRIx64 "\"", t->len_bytes > 1 ? "," : "", address);
    if (method) {
        ea_text_str(t, ",\"method\":");
        ea_text_json_str(t, method->name);
    }
    if (m && !(method && unloaded)) {
        ea_text_str(t, ",\"module\":");
        ea_text_json_str(t, ec_base_name(m->path));
        ea_text_printf(t, ",\"offset\":\"0x%" PRIx64 "\"%s", address - m->base, unloaded ? ",\"unloaded\":true" : "");
    }
    ea_text_char(t, '}');
}

static uint64_t hash_of_stack(const run *r, uint32_t kernel, uint32_t user) {
    size_t kernel_count, user_count;
    const uint64_t *frames = ea_stacks_get(r->stacks, kernel, &kernel_count);
    uint64_t hash = frames && kernel_count ? ea_hash64(frames, kernel_count * sizeof *frames, 0) : 0;
    frames = ea_stacks_get(r->stacks, user, &user_count);
    return frames && user_count ? ea_hash64(frames, user_count * sizeof *frames, hash) : hash;
}

static int tell_pair(const run *r, const pair *p, ea_text *t, int (*fn)(void *arg, const ec_stack_sum *s), void *arg) {
    ec_stack_sum sum = {.name = r->names[p->name],
                        .image = process_name(r, p->process),
                        .pid = p->pid,
                        .tid = p->tid,
                        .process_key = ec_places_process_key(r->places, p->process),
                        .count = p->events,
                        .hash = hash_of_stack(r, p->kernel, p->user),
                        .first_utc_ns = p->first_utc_ns,
                        .last_utc_ns = p->last_utc_ns};
    ea_text_clear(t);
    ea_text_char(t, '[');
    for (int h = 0; h < EA_STACK_HALVES; h++) {
        size_t count;
        const uint64_t *addresses = ea_stacks_get(r->stacks, h == EA_STACK_KERNEL ? p->kernel : p->user, &count);
        if (!addresses || !count)
            continue;
        for (size_t i = 0; i < count && sum.depth < FRAMES_MAX; i++)
            add_frame(r, p, addresses[i], sum.depth++ > 0, t);
    }
    ea_text_char(t, ']');
    sum.frames = t->data;
    return t->failed ? EA_ENOMEM : fn(arg, &sum);
}

static void end_stream(run *r) {
    ea_stack_join_destroy(r->join);
    ea_stacks_destroy(r->stacks);
    ec_sched_destroy(r->sched);
    ec_places_close(r->places);
    ec_methods_close(r->methods);
    ea_u64_map_deinit(&r->by_irp);
    ea_u64_map_deinit(&r->unanswered);
    ea_large_free(r->subjects, (r->subject_mask + 1) * sizeof *r->subjects);
    ea_large_free(r->pairs, r->pair_capacity * sizeof *r->pairs);
    free(r->slots);
    r->join = NULL;
    r->stacks = NULL;
    r->sched = NULL;
    r->places = NULL;
    r->methods = NULL;
    r->subjects = NULL;
    r->pairs = NULL;
    r->slots = NULL;
    r->first_subject = r->next_subject = r->coming_first = r->coming_next = 0;
    r->subject_mask = r->pair_count = r->pair_capacity = r->slot_mask = 0;
    ea_arena_reset(&r->arena);
}

static int begin_stream(run *r, ea_err *err) {
    ea_u64_map_init(&r->by_irp, 1 << 20);
    ea_u64_map_init(&r->unanswered, 1 << 20);
    memset(r->intervals, 0, sizeof r->intervals);
    r->has_source = 0;
    r->subject_utc_ns = INT64_MIN;
    r->pointer_size = 4;
    int rc = ec_places_open(&r->places, r->archive, r->stream, 1, err);
    if (!rc) /* without batches that hold methods nothing is read */
        rc = ec_methods_open(&r->methods, r->archive, r->stream, NULL, NULL, err);
    if (!rc)
        rc = ea_stacks_create(&r->stacks, r->request->limit_stacks_bytes, err);
    if (!rc)
        rc = ea_stack_join_create(&r->join, r->stacks,
                                  &(ea_stack_join_options){.limit_bytes = r->request->limit_window_bytes
                                                                              ? r->request->limit_window_bytes
                                                                              : WINDOW_BYTES,
                                                           .on_event = on_event,
                                                           .on_late = on_late,
                                                           .on_missed = r->missed ? on_missed : NULL,
                                                           .arg = r},
                                  err);
    return rc ? rc : ec_sched_create(&r->sched, 0, err);
}

/* Reads the stream: its sums stand in pairs. */
static int join_stream(run *r, ea_err *err) {
    int needs_history = is_thread_time(r);
    int64_t late = needs_history ? INT64_MAX : later(r->to_utc_ns, LATE_NS);
    int rc = begin_stream(r, err);
    if (!rc && !needs_history && !r->is_each_event) {
        r->wants = wants_intervals;
        rc = play(r, INT64_MIN, r->from_utc_ns, INT64_MAX, err);
    }
    r->wants = wants_all;
    if (!rc)
        rc = play(r, needs_history ? INT64_MIN : r->from_utc_ns, late, INT64_MIN, err);
    if (!rc && needs_history)
        r->profile->unfinished += open_times(r, r->raw_last, &r->profile->unfinished_ns);
    if (!rc && ((rc = ea_stack_join_end(r->join)) || (rc = add_all_coming(r))))
        rc = ea_fail(err, rc, "make a profile");
    r->wants = wants_definitions;
    if (!rc && late < INT64_MAX && ea_stacks_count(r->stacks).undefined)
        rc = play(r, late, INT64_MAX, late, err);
    if (!rc && ec_sched_is_short(r->sched))
        rc = ea_fail(err, EA_ENOMEM, "make a profile");
    return rc;
}

/* A half is a key that nobody has defined; what lacks a half counts as that already. */
static int is_undefined(const run *r, const pair *p) {
    return p->kernel != HALF_IS_MISSING && p->user != HALF_IS_MISSING &&
           (ea_stacks_is_undefined(r->stacks, p->kernel) || ea_stacks_is_undefined(r->stacks, p->user));
}

static int profile_stream(run *r, ea_err *err) {
    enum ec_weight w = r->request->side[r->side].weight;
    int rc = join_stream(r, err);
    for (size_t i = 0; !rc && i < r->pair_count; i++) {
        if (is_undefined(r, &r->pairs[i]))
            r->profile->incomplete[r->side][EC_LACKS_UNDEFINED] += r->pairs[i].events;
        if ((rc = merge_pair(r, &r->pairs[i])))
            rc = ea_fail(err, rc, "make a profile: too many different stacks; take less time");
    }
    if (!rc) {
        const uint64_t *counts = ea_stack_join_counts(r->join);
        for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
            r->profile->halves[i] += counts[i];
        r->profile->keys_undefined += ea_stacks_count(r->stacks).undefined;
        r->profile->is_interval_assumed |= w == EC_WEIGHT_CPU && r->pair_count && !r->intervals[0];
    }
    end_stream(r);
    return rc;
}

/* ---- all of it ---- */

/* Whether the run of an agent had a label, "NAME=VALUE": 1, 0, or an error. */
static int has_label(run *r, const char *label, ea_err *err) {
    static const char SQL[] =
        "SELECT 1 FROM origins o, json_each(CASE WHEN json_valid(o.labels) THEN o.labels END) l WHERE o.stream_id = ?1"
        " AND l.key = ?2 AND CAST(l.value AS TEXT) = ?3";
    sqlite3 *db = ec_store_database(ec_archive_store(r->archive));
    sqlite3_stmt *s = NULL;
    const char *value = strchr(label, '=') + 1; /* ec_profile_check has seen it */
    if (sqlite3_prepare_v2(db, SQL, -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read the labels");
    sqlite3_bind_int64(s, 1, (sqlite3_int64)r->stream->row.stream_id);
    sqlite3_bind_text64(s, 2, label, (sqlite3_uint64)(value - 1 - label), SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_text(s, 3, value, -1, SQLITE_STATIC);
    int code = sqlite3_step(s);
    int rc = code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, db, "read the labels");
    sqlite3_finalize(s);
    return rc;
}

/* Whether the stream at hand is of a side's machines: 1, 0, or an error. */
static int wants_stream(run *r, const ec_profile_side *side, ea_err *err) {
    int rc = side->host_count == 0;
    for (size_t i = 0; !rc && i < side->host_count; i++)
        rc = strcmp(side->hosts[i], r->stream->row.host) == 0;
    for (size_t i = 0; rc == 1 && i < side->label_count; i++)
        rc = has_label(r, side->labels[i], err);
    return rc;
}

static int note_host(run *r, const char *host) {
    ec_profile *p = r->profile;
    const char ***hosts = &p->hosts[r->side];
    size_t *count = &p->host_count[r->side];
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*hosts)[i], host) == 0)
            return 0;
    const char **grown = realloc(*hosts, (*count + 1) * sizeof *grown);
    char *copy = grown ? strdup(host) : NULL;
    if (grown)
        *hosts = grown;
    if (!copy)
        return EA_ENOMEM;
    (*hosts)[(*count)++] = copy;
    return 0;
}

static int profile_side(run *r, int number, ea_err *err) {
    const ec_profile_side *side = &r->request->side[number];
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    int rc = ec_archive_streams(r->archive, &streams, &count, err);
    r->side = number;
    r->from_utc_ns = side->from_utc_ns;
    r->to_utc_ns = side->to_utc_ns;
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_find_row *row = &streams[i].row;
        r->stream = &streams[i];
        if (row->end_utc_ns < side->from_utc_ns || row->begin_utc_ns >= side->to_utc_ns)
            continue;
        if ((rc = wants_stream(r, side, err)) == 1)
            rc = note_host(r, row->host) ? ea_fail(err, EA_ENOMEM, "make a profile") : profile_stream(r, err);
    }
    return rc;
}

/* The only host that is asked about; NULL: there are several. */
static const char *only_host(const ec_profile_request *q) {
    const ec_profile_side *a = &q->side[0], *b = &q->side[1];
    if (a->host_count != 1 || (q->has_other && (b->host_count != 1 || strcmp(a->hosts[0], b->hosts[0]) != 0)))
        return NULL;
    return a->hosts[0];
}

int ec_profile_run(ec_profile **ret, const ec_profile_request *request, ea_err *err) {
    run *r = calloc(1, sizeof *r);
    ec_profile *p = calloc(1, sizeof *p);
    ec_query *history = NULL;
    int rc = r && p ? ec_profile_check(request, err) : ea_fail(err, EA_ENOMEM, "make a profile");
    const char *host = rc ? NULL : only_host(request);
    int sides = request->has_other ? 2 : 1;
    if (!rc) {
        r->request = request;
        r->profile = p;
        ea_arena_init(&r->arena, 0);
        p->has_other = request->has_other;
        for (int i = 0; i < sides; i++) {
            const ec_profile_side *s = &request->side[i];
            p->weight[i] = s->weight;
            p->counter[i] = s->counter ? strdup(s->counter) : NULL;
            p->from_utc_ns[i] = s->from_utc_ns;
            p->to_utc_ns[i] = s->to_utc_ns;
        }
        rc = ec_merge_create(&p->memory, request->limit_stacks, request->namer != NULL);
        r->merge = p->memory;
        if (rc)
            rc = ea_fail(err, rc, "make a profile");
    }
    if (!rc) /* folds what is not in the history yet */
        rc = ec_query_open(&history, request->store, host, FOLD_WAIT_NS, &p->behind, err);
    ec_query_close(history);
    if (!rc)
        rc = ec_archive_open(&r->archive, request->store, host, request->shown, err);
    for (int i = 0; !rc && i < sides; i++)
        rc = ec_archive_has_hosts(r->archive, request->side[i].hosts, request->side[i].host_count, err);
    for (int i = 0; !rc && i < sides; i++)
        rc = profile_side(r, i, err);
    for (int i = 0; !rc && i < sides; i++) /* of one counter on both sides it is enough that one has some */
        if (p->weight[i] == EC_WEIGHT_PMC && !p->events[i] &&
            (i ? ec_profile_has_two_weights(p) : !p->events[1] || ec_profile_has_two_weights(p)))
            say_sources(r, i);
    if (!rc && (rc = ec_merge_finish(p->memory, request->namer, p)))
        rc = ea_fail(err, rc, "make a profile");
    if (!rc) {
        const char *first;
        p->damaged = ec_archive_damage(r->archive, &first);
        snprintf(p->damage, sizeof p->damage, "%s", first);
    }
    if (r) {
        end_stream(r);
        ec_archive_close(r->archive);
        ea_arena_deinit(&r->arena);
    }
    free(r);
    if (rc) {
        ec_profile_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ec_profile_destroy(ec_profile *p) {
    if (!p)
        return;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->host_count[side]; i++)
            free((void *)(uintptr_t)p->hosts[side][i]);
        free(p->hosts[side]);
        free((void *)(uintptr_t)p->counter[side]);
    }
    ec_merge_destroy(p->memory);
    free(p);
}

/* Joins all of a stream's stacks to their events: they stand in pairs, or in links. */
static int join_each_event(run *r, const ec_profile_request *request, ec_archive *archive,
                           const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns, ea_err *err) {
    r->profile = calloc(1, sizeof *r->profile); /* what join_stream counts */
    if (!r->profile)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    r->request = request;
    r->archive = archive;
    r->stream = stream;
    r->is_each_event = 1;
    r->from_utc_ns = from_utc_ns;
    r->to_utc_ns = to_utc_ns;
    ea_arena_init(&r->arena, 0);
    return join_stream(r, err);
}

static void end_each_event(run *r) {
    if (r->profile) {
        end_stream(r);
        ea_arena_deinit(&r->arena);
    }
    free(r->profile);
    free(r->names);
    free(r);
}

int ec_profile_stacks(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                      int (*fn)(void *arg, const ec_stack_sum *s), void *arg, ea_err *err) {
    const ec_profile_request request = {.side = {{.weight = EC_WEIGHT_SAMPLES}}};
    run *r = calloc(1, sizeof *r);
    ea_text t;
    if (!r)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    ea_text_init(&t);
    int rc = join_each_event(r, &request, archive, stream, from_utc_ns, to_utc_ns, err);
    for (size_t i = 0; !rc && i < r->pair_count; i++)
        if ((rc = tell_pair(r, &r->pairs[i], &t, fn, arg)))
            rc = ea_fail(err, rc, rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    end_each_event(r);
    ea_text_deinit(&t);
    return rc;
}

int ec_profile_missed(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                      int (*fn)(void *arg, const ec_missed_half *m), void *arg, ea_err *err) {
    const ec_profile_request request = {.side = {{.weight = EC_WEIGHT_SAMPLES}}};
    missed_halves missed = {.fn = fn, .arg = arg, .from_utc_ns = from_utc_ns};
    run *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    r->missed = &missed;
    int rc = join_each_event(r, &request, archive, stream, INT64_MIN, to_utc_ns, err);
    if (!rc)
        tell_unanswered(r);
    if (!rc && missed.rc)
        rc = ea_fail(err, missed.rc, missed.rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    end_each_event(r);
    free(missed.clocks);
    free(missed.unanswered);
    return rc;
}

int ec_profile_links(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                     ec_stack_links *ret, ea_err *err) {
    const ec_profile_request request = {.side = {{.weight = EC_WEIGHT_SAMPLES}}};
    run *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    r->links = ret;
    int rc = join_each_event(r, &request, archive, stream, from_utc_ns, to_utc_ns, err);
    for (size_t i = 0; !rc && i < ret->count; i++) {
        ec_stack_link *l = &ret->links[i];
        l->hash = hash_of_stack(r, (uint32_t)(l->hash >> 32), (uint32_t)l->hash);
    }
    end_each_event(r);
    return rc;
}
