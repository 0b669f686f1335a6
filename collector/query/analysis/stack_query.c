/* See stack_query.h. A stream's events go through the stack join in their order; its results are summed by process and
 * stack, or reported event by event. */
#include "collector/query/analysis/stack_query.h"

#include "collector/query/analysis/query.h"
#include "collector/query/analysis/sched_tracker.h"
#include "collector/query/analysis/stackwalk_reader.h"
#include "collector/query/scan/event_cursor.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The farthest half that was measured came 9,227 events late; a window that fits into a processor's cache has some
 * 260,000. */
static const size_t WINDOW_BYTES = 16 << 20;
/* Halves of stacks, and ends of disk requests, may come so long after the range, or after the last wait that began in
 * it has ended. */
static const int64_t LATE_NS = 30ll * 1000 * 1000 * 1000;

enum { DEFAULT_INTERVAL = 10000, SOURCES_MAX = 4096, FRAMES_MAX = 4096, PAIRS_MAX = 1 << 24, ASK_EVERY = 1 << 16 };

static const char TOO_MANY_ROWS[] = "join stacks: more than 1,048,576 rows; take less time";

enum kind { OTHER, SAMPLE, COUNTER_SAMPLE, SWITCH, READY, START, END, LOST, DISK_BEGIN, DISK_END, FAULT, INTERVAL };

/* Fields of a class: what slot holds what depends on its kind. */
enum { THREAD, ADDRESS, SOURCE }; /* samples; an event with a thread */

enum { NEW_TID, OLD_TID, OLD_STATE, OLD_REASON }; /* switches */

enum { IRP, RESPONSE }; /* disk */

enum { INTERVAL_SOURCE, INTERVAL_LENGTH, INTERVAL_NAME }; /* of samples */

typedef struct plan {
    ec_event_cursor_plan tape; /* first */
    ea_stack_plan stack;
    uint8_t kind;
    uint32_t name; /* of the class, among the query's */
} plan;

/* An event with a weight, until it leaves the window. */
typedef struct subject {
    int64_t utc_ns;
    uint64_t weight;

    union {
        uint64_t address; /* where it was, 0 unknown */
        uint64_t place;   /* where each event counts: ec_event_position */
    };

    uint32_t pid, name; /* pid: of its header */
    uint8_t is_open;    /* its weight comes later */
} subject;

/* One sum of a stream. It fills a cache line, and is aligned to one. */
typedef struct pair {
    uint32_t process, epoch, kernel, user, code; /* process: index, or EC_NO_PROCESS; code: epoch of methods */
    uint32_t pid, tid, name;                     /* 0 in a profile: it separates programs, not threads */
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

struct ec_stack_query {
    ec_stack_query_options options;
    ec_stack_counts *counts;
    ec_archive *archive;
    ea_arena arena; /* plans */
    int64_t from_utc_ns, to_utc_ns;
    const ec_archive_stream *stream;
    ea_stacks *stacks;
    ea_stack_join *join;
    ec_sched *sched;
    ec_address_space *places;
    ec_methods *methods;
    ec_event_cursor *tape;
    ec_stackwalk_reader walks; /* with the clock's times */
    int (*wants)(const ec_stack_query *q, const plan *p);
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
    const ea_clock *clock; /* of the batch at hand, to know it again: gone with the batch. NULL: there was none */
    ea_clock clock_copy;   /* raw_from, raw_to and raw_until are of this one */
    int64_t raw_from, raw_to;
    int64_t raw_until;      /* events until then may have weight in the range */
    int64_t raw_last;       /* the latest event so far */
    int64_t subject_utc_ns; /* the latest event with weight */
    unsigned pointer_size;  /* of the machine's kernel */
    uint64_t steps;
    int is_each_event;     /* every event counts, with its class and thread: ec_stack_query_sums */
    ec_stack_links *links; /* with is_each_event: it counts by itself. NULL: with those that are alike */
    missed_halves *missed; /* with is_each_event: halves without an event count, not events. NULL: events */
    const char **names;    /* of classes, each once */
    uint32_t name_count;
};

/* ---- classes ---- */

static int16_t field(const ea_class *c, const char *name) {
    for (size_t i = 0; i < ea_class_top_count(c); i++)
        if (strcmp(c->fields[ea_class_top_field(c, i)].name, name) == 0)
            return (int16_t)i;
    return -1;
}

static void set_fields(plan *p, const ea_class *c, enum kind kind, const char *const *names) {
    p->kind = (uint8_t)kind;
    for (unsigned i = 0; i < EC_EVENT_CURSOR_FIELDS && names[i]; i++)
        p->tape.fields[i] = field(c, names[i]);
}

static void plan_kind(plan *p, const ea_class *c, enum ec_weight weight) {
    static const struct {
        const char *class_name;
        enum kind kind;
        int weights; /* bits: for which weights; 0: all */
        const char *fields[EC_EVENT_CURSOR_FIELDS];
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
static int number_name(ec_stack_query *q, const char *name, uint32_t *ret) {
    name = name && *name ? name : "?";
    for (*ret = 0; *ret < q->name_count; ++*ret)
        if (strcmp(q->names[*ret], name) == 0)
            return 0;
    const char **grown = realloc(q->names, (q->name_count + 1) * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    q->names = grown;
    q->names[q->name_count++] = name;
    return 0;
}

static const ec_event_cursor_plan *plan_class(void *arg, const ea_class *c) {
    ec_stack_query *q = arg;
    plan *p = ea_arena_zalloc(&q->arena, 1, sizeof *p);
    if (!p)
        return &EC_EVENT_CURSOR_NO_MEMORY;
    for (unsigned i = 0; i < EC_EVENT_CURSOR_FIELDS; i++)
        p->tape.fields[i] = -1;
    p->tape.addresses = -1;
    p->stack = ea_stack_plan_of(c);
    if (q->is_each_event && number_name(q, c->name, &p->name))
        return &EC_EVENT_CURSOR_NO_MEMORY;
    switch (p->stack.role) {
    case EA_STACK_IS_NOTHING:
        return NULL;
    case EA_STACK_IS_EVENT:
        plan_kind(p, c, q->options.weight);
        p->tape.wants_items = 1;
        break;
    case EA_STACK_IS_MATCH:
        p->tape.wants_items = 1;
        break;
    default:
        ec_stackwalk_reader_plan(&p->tape, &p->stack);
        break;
    }
    return q->wants(q, p) ? &p->tape : NULL;
}

static int wants_all(const ec_stack_query *q, const plan *p) {
    (void)q, (void)p;
    return 1;
}

static int wants_intervals(const ec_stack_query *q, const plan *p) {
    (void)q;
    return p->kind == INTERVAL;
}

static int wants_definitions(const ec_stack_query *q, const plan *p) {
    (void)q;
    return p->stack.role == EA_STACK_IS_DEFINITION;
}

/* ---- what is summed ---- */

static size_t hash_of(const pair *p) {
    const uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b = UINT64_C(0xC2B2AE3D27D4EB4F), c = UINT64_C(0x165667B19E3779F9);
    uint64_t x = ((uint64_t)p->kernel << 32 | p->user) * a ^ ((uint64_t)p->process << 32 | p->epoch) * b;
    x = (x ^ x >> 29) * c ^ ((uint64_t)p->code << 32 | p->tid) * a ^ ((uint64_t)p->pid << 32 | p->name) * b;
    return (size_t)(x ^ x >> 32);
}

static int grow_slots(ec_stack_query *q) {
    size_t mask = q->slot_mask ? q->slot_mask * 2 + 1 : 4095;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i < q->pair_count; i++) {
        size_t at = hash_of(&q->pairs[i]) & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    free(q->slots);
    q->slots = slots;
    q->slot_mask = mask;
    return 0;
}

static int add_pair(ec_stack_query *q, const pair *add, size_t hash) {
    if (!q->slots || q->pair_count >= q->slot_mask / 2) {
        int rc = grow_slots(q);
        if (rc)
            return rc;
    }
    size_t at = hash & q->slot_mask;
    for (; q->slots[at]; at = (at + 1) & q->slot_mask) {
        pair *p = &q->pairs[q->slots[at] - 1];
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
    if (q->pair_count == PAIRS_MAX)
        return EA_ELIMIT;
    if (q->pair_count == q->pair_capacity) {
        size_t capacity = q->pair_capacity ? q->pair_capacity * 2 : 4096;
        pair *grown = ea_large_alloc(capacity * sizeof *grown);
        if (!grown)
            return EA_ENOMEM;
        if (q->pair_count)
            memcpy(grown, q->pairs, q->pair_count * sizeof *grown);
        ea_large_free(q->pairs, q->pair_capacity * sizeof *grown);
        q->pairs = grown;
        q->pair_capacity = capacity;
    }
    q->pairs[q->pair_count++] = *add;
    q->slots[at] = (uint32_t)q->pair_count;
    return 0;
}

static int add_first_coming(ec_stack_query *q) {
    const coming_pair *c = &q->coming[q->coming_first++ % COMING];
    return add_pair(q, &c->add, c->hash);
}

/* Not inlined members: what was just written in halves would be waited for when it is read whole. */
static inline int pair_comes(ec_stack_query *q, pair add) {
    size_t hash = hash_of(&add);
    int rc = q->coming_next - q->coming_first == COMING ? add_first_coming(q) : 0;
    coming_pair *c = &q->coming[q->coming_next++ % COMING];
    c->add = add;
    c->hash = hash;
    if (q->slots) {
        EA_PREFETCH(&q->slots[hash & q->slot_mask]);
        const coming_pair *half_way = &q->coming[(q->coming_next + COMING / 2) % COMING];
        uint32_t number = q->slots[half_way->hash & q->slot_mask];
        EA_PREFETCH(&q->pairs[number ? number - 1 : 0]);
    }
    return rc;
}

static int add_all_coming(ec_stack_query *q) {
    int rc = 0;
    while (!rc && q->coming_first != q->coming_next)
        rc = add_first_coming(q);
    return rc;
}

static int wants_pid(const ec_stack_query *q, uint32_t pid) {
    for (size_t i = 0; i < q->options.pid_count; i++)
        if (q->options.pids[i] == pid)
            return 1;
    return q->options.pid_count == 0;
}

/* A counted event lacks a half: it is counted, and *half becomes HALF_IS_MISSING, so that it is counted once. When
 * there is no memory for its tag it stays unanswered. */
static void note_lack(ec_stack_query *q, const ea_stack_joined *e, uint32_t *half) {
    enum ec_profile_lack lack = e->lacks & EA_STACK_LACKS_ROOM ? EC_LACKS_NO_ROOM : EC_LACKS_UNANSWERED;
    q->counts->incomplete[lack]++;
    *half = HALF_IS_MISSING;
    if (lack == EC_LACKS_UNANSWERED && ea_u64_map_put(&q->unanswered, e->tag, 1))
        return;
}

static const char *process_name(const ec_stack_query *q, uint32_t process) {
    const ea_process *p = ec_address_space_get_process(q->places, process);
    if (p && p->pid == 0)
        return "Idle";
    return p && *p->image_name ? ec_base_name(p->image_name) : "?";
}

static void tell_missed(ec_stack_query *q, ec_missed_half m) {
    missed_halves *to = q->missed;
    if (to->rc || m.utc_ns < to->from_utc_ns || m.utc_ns >= q->to_utc_ns)
        return;
    if (m.pid == UINT32_MAX)
        m.pid = ec_address_space_pid_of_thread(q->places, m.tid, m.utc_ns);
    uint32_t process = ec_address_space_process(q->places, m.pid, m.utc_ns);
    m.image = process_name(q, process);
    m.process_key = ec_address_space_process_key(q->places, process);
    to->rc = to->fn(to->arg, &m);
}

/* The clock of a record: a walk may wait in the window until another one is in force. */
static const ea_clock *clock_at(const missed_halves *m, uint64_t place) {
    size_t low = 0, high = m->clock_count; /* the first one after it */
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
    ec_stack_query *q = arg;
    if (q->missed->rc) /* its clock may have found no memory */
        return;
    tell_missed(q,
                (ec_missed_half){.place = missed->from.tag,
                                 .utc_ns = ea_clock_to_utc_ns(clock_at(q->missed, missed->from.tag), missed->from.time),
                                 .half = missed->half == EA_STACK_KERNEL ? "kernel"
                                         : missed->half == EA_STACK_USER ? "user"
                                                                         : NULL,
                                 .outcome = ea_stack_outcome_name(missed->outcome),
                                 .pid = missed->from.pid,
                                 .tid = missed->from.tid});
}

/* An event without its user half has left the window. */
static int note_unanswered(ec_stack_query *q, const ea_stack_joined *e, const subject *s, uint32_t pid) {
    missed_halves *m = q->missed;
    int rc = EA_GROW(m->unanswered, m->unanswered_capacity, m->unanswered_count + 1, PAIRS_MAX);
    if (!rc)
        rc = ea_u64_map_put(&q->unanswered, e->tag, m->unanswered_count);
    if (!rc)
        m->unanswered[m->unanswered_count++] =
            (struct unanswered){.place = s->place, .utc_ns = s->utc_ns, .pid = pid, .tid = e->tid};
    return rc;
}

static void tell_unanswered(ec_stack_query *q) {
    for (size_t i = 0; i < q->missed->unanswered_count; i++) {
        const struct unanswered *u = &q->missed->unanswered[i];
        if (!u->is_answered)
            tell_missed(q, (ec_missed_half){.place = u->place,
                                            .utc_ns = u->utc_ns,
                                            .half = "user",
                                            .outcome = "no_answer",
                                            .pid = u->pid,
                                            .tid = u->tid});
    }
}

/* The half came after all, too late for its event. */
static void on_late(void *arg, uint64_t tag) {
    ec_stack_query *q = arg;
    const uint64_t *index = q->missed ? ea_u64_map_get(&q->unanswered, tag) : NULL;
    if (index)
        q->missed->unanswered[*index].is_answered = 1;
    if (q->missed)
        return;
    if (!ea_u64_map_remove(&q->unanswered, tag))
        return;
    q->counts->incomplete[EC_LACKS_UNANSWERED]--;
    q->counts->incomplete[EC_LACKS_LATE]++;
}

/* The hash is made of the numbers when all keys have been defined. */
static int add_link(ec_stack_query *q, uint64_t place, uint32_t kernel, uint32_t user) {
    ec_stack_links *l = q->links;
    int rc = EA_GROW(l->links, l->capacity, l->count + 1, l->limit_count);
    if (!rc)
        l->links[l->count++] = (ec_stack_link){.place = place, .hash = (uint64_t)kernel << 32 | user};
    return rc;
}

/* An event leaves the window. */
static int on_event(void *arg, const ea_stack_joined *e) {
    ec_stack_query *q = arg;
    if (!e->tag)
        return 0;
    const subject *s = &q->subjects[(e->tag - 1) & q->subject_mask];
    EA_PREFETCH(&q->subjects[(e->tag + COMING) & q->subject_mask]);
    q->first_subject = e->tag;
    if (s->is_open || !s->weight) {
        q->counts->unfinished += s->is_open;
        return 0;
    }
    uint32_t pid = e->pid != UINT32_MAX ? e->pid : s->pid;
    if (pid == UINT32_MAX)
        pid = ec_address_space_pid_of_thread(q->places, e->tid, s->utc_ns);
    if ((q->options.weight == EC_WEIGHT_CPU && (pid == 0 || e->tid == 0)) || !wants_pid(q, pid))
        return 0;
    uint32_t kernel = e->half[EA_STACK_KERNEL], user = e->half[EA_STACK_USER];
    if (q->missed)
        return e->lacks & EA_STACK_LACKS_ANSWER ? note_unanswered(q, e, s, pid) : 0;
    if (q->links)
        return kernel || user ? add_link(q, s->place, kernel, user) : 0;
    if (!kernel && !user) {
        if (q->is_each_event)
            return 0;
        q->counts->without_stack++;
        if (s->address)
            user = ea_stacks_add(q->stacks, (const uint8_t *)&s->address, 1, 8);
    }
    if (e->lacks && (!user || !kernel))
        note_lack(q, e, user ? &kernel : &user);
    q->counts->total += s->weight;
    q->counts->events++;
    uint32_t process = ec_address_space_process(q->places, pid, s->utc_ns);
    return pair_comes(q, (pair){.process = process,
                                .epoch = ec_address_space_epoch(q->places, process, s->utc_ns),
                                .kernel = kernel,
                                .user = user,
                                .code = ec_methods_epoch(q->methods, pid, s->utc_ns),
                                .pid = q->is_each_event ? pid : 0,
                                .tid = q->is_each_event ? e->tid : 0,
                                .name = q->is_each_event ? s->name : 0,
                                .first_utc_ns = s->utc_ns,
                                .last_utc_ns = s->utc_ns,
                                .weight = s->weight,
                                .events = 1});
}

/* Room for one more subject: those in the window move to a larger ring. */
static int subject_room(ec_stack_query *q) {
    if (q->subjects && q->next_subject - q->first_subject <= q->subject_mask)
        return 0;
    size_t count = q->subjects ? (q->subject_mask + 1) * 2 : 4096;
    subject *grown = ea_large_alloc(count * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    for (uint64_t i = q->first_subject; q->subjects && i < q->next_subject; i++)
        grown[i & (count - 1)] = q->subjects[i & q->subject_mask];
    ea_large_free(q->subjects, (q->subject_mask + 1) * sizeof *grown);
    q->subjects = grown;
    q->subject_mask = count - 1;
    return 0;
}

/* ---- events ---- */

static int64_t later(int64_t utc_ns, int64_t by_ns) {
    return utc_ns > INT64_MAX - by_ns ? INT64_MAX : utc_ns + by_ns;
}

/* Time that a thread was ready or waited: known when the thread continues, which may be after the range. */
static int is_thread_time(const ec_stack_query *q) {
    return !q->is_each_event && (q->options.weight == EC_WEIGHT_READY || q->options.weight == EC_WEIGHT_WAIT);
}

/* The first tick that is not before a time. */
static int64_t raw_of(const ea_clock *c, int64_t utc_ns) {
    int64_t raw = ea_clock_from_utc_ns(c, utc_ns);
    return raw + (ea_clock_to_utc_ns(c, raw) < utc_ns && raw < INT64_MAX);
}

/* The times that count, in ticks of the clock at hand. */
static void use_clock(ec_stack_query *q, const ea_clock *c) {
    const ea_clock *was = &q->clock_copy;
    if (q->clock && c == q->clock && c->frequency == was->frequency && c->base_raw == was->base_raw &&
        c->base_utc_ns == was->base_utc_ns)
        return;
    q->clock = c;
    q->clock_copy = *c;
    if (q->missed && EA_GROW(q->missed->clocks, q->missed->clock_capacity, q->missed->clock_count + 1, SIZE_MAX))
        q->missed->rc = q->missed->rc ? q->missed->rc : EA_ENOMEM;
    else if (q->missed)
        q->missed->clocks[q->missed->clock_count++] = (struct clock_since){ec_event_position(q->tape), *c};
    q->raw_from = raw_of(c, q->from_utc_ns);
    q->raw_to = raw_of(c, q->to_utc_ns);
    q->raw_until = is_thread_time(q) ? INT64_MAX : q->raw_to;
    q->raw_last = INT64_MIN;
    q->walks = (ec_stackwalk_reader){q->tape, q->stacks, q->join, q->raw_from, q->raw_until};
    if (ec_event_cursor_pointer_size(q->tape) > q->pointer_size)
        q->pointer_size = ec_event_cursor_pointer_size(q->tape);
}

static int may_count(const ec_stack_query *q, int64_t raw) {
    return raw >= q->raw_from && raw < q->raw_until;
}

static void on_interval(ec_stack_query *q, const ec_event_cursor_event *e) {
    uint64_t source = ec_event_cursor_u64_or_0(q->tape, e, INTERVAL_SOURCE);
    const char *counter = q->options.counter;
    if (source >= SOURCES_MAX)
        return;
    q->intervals[source] = ec_event_cursor_u64_or_0(q->tape, e, INTERVAL_LENGTH);
    ea_slice name = ec_event_cursor_bytes(q->tape, e, INTERVAL_NAME);
    if (!counter || q->has_source || !name.data)
        return;
    size_t n = strlen(counter), i = 0;
    while (i < n && 2 * i + 1 < name.len_bytes && (ea_load16(name.data + 2 * i) | 0x20) == (counter[i] | 0x20))
        i++;
    if (i == n && (name.len_bytes <= 2 * n + 1 || ea_load16(name.data + 2 * n) == 0)) {
        q->has_source = 1;
        q->source = (uint32_t)source;
    }
}

/* A counter by its number, or by the name that the class's map has for it. */
static void find_source(ec_stack_query *q, const ea_class *c) {
    const char *counter = q->options.counter;
    int16_t top = field(c, "ProfileSource");
    uint64_t number;
    if (!counter || q->has_source)
        return;
    if (ea_u64_parse(counter, &number) == 0 && number < SOURCES_MAX) {
        q->source = (uint32_t)number;
        q->has_source = 1;
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
        q->source = (uint32_t)map->entries[i].value;
        q->has_source = 1;
    }
}

/* Notes a source of counter samples that was not requested. */
static void note_source(ec_stack_query *q, uint64_t source) {
    size_t i = 0;
    while (i < q->counts->other_source_count && q->counts->other_sources[i] != source)
        i++;
    if (i == q->counts->other_source_count && i < EC_OTHER_SOURCES)
        q->counts->other_sources[q->counts->other_source_count++] = source;
}

static uint64_t span_ns(const ec_stack_query *q, const ec_sched_slice *s) {
    int64_t begin = s->begin > q->raw_from ? s->begin : q->raw_from, end = s->end < q->raw_to ? s->end : q->raw_to;
    if (end <= begin)
        return 0;
    return (uint64_t)(ea_clock_to_utc_ns(&q->clock_copy, end) - ea_clock_to_utc_ns(&q->clock_copy, begin));
}

static uint64_t switch_weight(ec_stack_query *q, const ec_event_cursor_event *e) {
    ec_sched_slice stretches[3];
    uint64_t weight = 0, new_tid = ec_event_cursor_u64_or_0(q->tape, e, NEW_TID);
    size_t n = ec_sched_switch(q->sched, e->time, e->cpu, (uint32_t)ec_event_cursor_u64_or_0(q->tape, e, OLD_TID),
                               (uint8_t)ec_event_cursor_u64_or_0(q->tape, e, OLD_STATE),
                               (uint8_t)ec_event_cursor_u64_or_0(q->tape, e, OLD_REASON), (uint32_t)new_tid, stretches);
    for (size_t i = 0; i < n; i++) {
        if (stretches[i].tid != new_tid)
            continue;
        if (stretches[i].state == (q->options.weight == EC_WEIGHT_READY ? EC_SCHED_READY : EC_SCHED_WAITING))
            weight = span_ns(q, &stretches[i]);
    }
    return weight;
}

/* What a wait was until its thread became ready counts where the thread goes on. */
static uint64_t waited(ec_stack_query *q, uint32_t tid, uint64_t weight, int is_switch) {
    uint64_t *known = ea_u64_map_get(&q->by_irp, tid);
    if (is_switch) {
        if (known) {
            weight += *known;
            *known = 0;
        }
        return weight;
    }
    if (known)
        *known += weight;
    else if (ea_u64_map_put(&q->by_irp, tid, weight))
        q->counts->unfinished++;
    return 0;
}

/* How much of a thread's state at raw_now, whose end was not recorded, is inside the range. */
static uint64_t open_time(const ec_stack_query *q, ec_sched_slice s, int64_t raw_now) {
    int is_wait = q->options.weight == EC_WEIGHT_WAIT;
    uint64_t ns = 0;
    const uint64_t *waited_ns = is_wait ? ea_u64_map_get(&q->by_irp, s.tid) : NULL;
    if (s.state == (is_wait ? EC_SCHED_WAITING : EC_SCHED_READY)) {
        s.end = raw_now;
        ns = span_ns(q, &s);
    }
    ns += waited_ns ? *waited_ns : 0; /* it is ready by now, and has not gone on */
    return ns && wants_pid(
                     q, ec_address_space_pid_of_thread(q->places, s.tid, ea_clock_to_utc_ns(&q->clock_copy, s.begin)))
               ? ns
               : 0;
}

/* The same of all threads: how many, and how much of them is added to *ret_ns (may be NULL). */
static uint64_t open_times(const ec_stack_query *q, int64_t raw_now, uint64_t *ret_ns) {
    uint64_t count = 0;
    ec_sched_slice s;
    for (size_t cursor = 0; q->clock && ec_sched_next_open(q->sched, &cursor, &s);) {
        uint64_t ns = open_time(q, s, raw_now);
        count += ns > 0;
        if (ret_ns)
            *ret_ns += ns;
    }
    return count;
}

/* From raw_now on, the state of all threads is unknown. */
static void know_nothing(ec_stack_query *q, int64_t raw_now) {
    q->counts->unfinished += open_times(q, raw_now, &q->counts->unfinished_ns);
    ec_sched_lost(q->sched);
    ea_u64_map_clear(&q->by_irp);
}

static void on_thread_life(ec_stack_query *q, const ec_event_cursor_event *e, enum kind kind) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(q->tape, e, THREAD);
    ec_sched_slice s;
    int is_open = kind == START ? ec_sched_begin(q->sched, tid, &s) : ec_sched_end(q->sched, tid, &s);
    uint64_t ns = is_open ? open_time(q, s, e->time) : 0;
    q->counts->unfinished += ns > 0;
    q->counts->unfinished_ns += ns;
    (void)ea_u64_map_remove(&q->by_irp, tid);
}

/* The weight of an event; *ret_open: it comes later. */
static uint64_t weight_of(ec_stack_query *q, const ec_event_cursor_event *e, const plan *p, int *ret_open) {
    enum ec_weight w = q->options.weight;
    uint64_t source, n;
    ec_sched_slice stretches[3];
    if (q->is_each_event)
        return 1;
    switch (p->kind) {
    case SAMPLE:
        if (w != EC_WEIGHT_CPU && w != EC_WEIGHT_SAMPLES)
            return 0;
        n = ec_event_cursor_u64_or_0(q->tape, e, SOURCE); /* the field Count */
        n = n ? n : 1;
        return w == EC_WEIGHT_SAMPLES ? n : n * 100 * (q->intervals[0] ? q->intervals[0] : DEFAULT_INTERVAL);
    case COUNTER_SAMPLE:
        if (w != EC_WEIGHT_PMC)
            return 0;
        find_source(q, e->c);
        source = ec_event_cursor_u64_or_0(q->tape, e, SOURCE);
        if (!q->has_source || source != q->source) {
            if (may_count(q, e->time))
                note_source(q, source);
            return 0;
        }
        return q->intervals[source] ? q->intervals[source] : 1;
    case SWITCH:
        if (w != EC_WEIGHT_READY && w != EC_WEIGHT_WAIT)
            return 0;
        n = switch_weight(q, e);
        return w == EC_WEIGHT_WAIT ? waited(q, (uint32_t)ec_event_cursor_u64_or_0(q->tape, e, NEW_TID), n, 1) : n;
    case READY: {
        uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(q->tape, e, THREAD);
        if (ec_sched_ready(q->sched, e->time, tid, e->tid, stretches) && w == EC_WEIGHT_WAIT &&
            stretches[0].state == EC_SCHED_WAITING)
            (void)waited(q, tid, span_ns(q, &stretches[0]), 0);
        return 0;
    }
    case START:
    case END:
        on_thread_life(q, e, p->kind);
        return 0;
    case LOST:
        know_nothing(q, e->time);
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

static void end_disk(ec_stack_query *q, const ec_event_cursor_event *e) {
    uint64_t irp = ec_event_cursor_u64_or_0(q->tape, e, IRP), ticks = ec_event_cursor_u64_or_0(q->tape, e, RESPONSE);
    const uint64_t *number = ea_u64_map_get(&q->by_irp, irp);
    if (!number)
        return;
    if (*number >= q->first_subject) {
        subject *s = &q->subjects[*number & q->subject_mask];
        s->is_open = 0;
        s->weight = (uint64_t)(ea_clock_to_utc_ns(&q->clock_copy, e->time) -
                               ea_clock_to_utc_ns(&q->clock_copy, e->time - (int64_t)(ticks & INT64_MAX)));
    }
    ea_u64_map_remove(&q->by_irp, irp);
}

static int on_other(ec_stack_query *q, const ec_event_cursor_event *e, const plan *p) {
    uint64_t thread, tag = 0;
    uint32_t tid = e->tid;
    int is_open = 0;
    if (p->kind == INTERVAL)
        on_interval(q, e);
    if (p->kind == DISK_END)
        end_disk(q, e);
    if ((p->kind == SAMPLE || p->kind == COUNTER_SAMPLE || p->kind == SWITCH) &&
        ec_event_cursor_u64(q->tape, e, THREAD, &thread)) /* NEW_TID has the same index */
        tid = (uint32_t)thread;
    uint64_t weight = weight_of(q, e, p, &is_open);
    if ((weight || is_open) && may_count(q, e->time)) {
        int rc = subject_room(q);
        if (rc)
            return rc;
        subject *s = &q->subjects[q->next_subject & q->subject_mask];
        *s = (subject){.utc_ns = ec_event_cursor_utc_ns(e),
                       .weight = weight,
                       .pid = e->pid,
                       .name = p->name,
                       .is_open = (uint8_t)is_open};
        if (q->is_each_event)
            s->place = ec_event_position(q->tape);
        else if (p->kind == SAMPLE || p->kind == COUNTER_SAMPLE)
            s->address = ec_event_cursor_u64_or_0(q->tape, e, ADDRESS);
        if (is_open) { /* without room it stays open: its end does not come */
            int full = ea_u64_map_put(&q->by_irp, ec_event_cursor_u64_or_0(q->tape, e, IRP), q->next_subject);
            (void)full;
        }
        tag = ++q->next_subject;
        q->subject_utc_ns = s->utc_ns > q->subject_utc_ns ? s->utc_ns : q->subject_utc_ns;
    }
    int rc = ea_stack_join_event(q->join, e->time, tid, e->cpu, tag);
    if (p->stack.clr)
        ea_stack_join_clr_event(q->join, (uint64_t)p->stack.clr << 32 | e->tid);
    ea_ext item;
    for (unsigned i = 0; !rc && ec_event_cursor_item(q->tape, e, i, &item); i++)
        ea_stack_feed_item(q->join, &item, EA_STACK_IS_EVENT);
    return rc;
}

/* Each time that threads waited or were ready in the range has ended, and its stack is there. */
static int all_has_ended(const ec_stack_query *q, const ec_event_cursor_event *e) {
    int64_t last = q->subject_utc_ns > q->to_utc_ns ? q->subject_utc_ns : q->to_utc_ns;
    return is_thread_time(q) && ec_event_cursor_utc_ns(e) > later(last, LATE_NS) && !open_times(q, e->time, NULL);
}

/* Everything of a pass over the stream. Definitions count that came after after_utc_ns, until to_utc_ns. */
static int play(ec_stack_query *q, int64_t from_utc_ns, int64_t to_utc_ns, int64_t after_utc_ns, ea_err *err) {
    ec_event_cursor_event e;
    int rc = ec_event_cursor_open(&q->tape, q->archive,
                                  &(ec_event_cursor_options){.stream = q->stream,
                                                             .from_utc_ns = from_utc_ns,
                                                             .to_utc_ns = to_utc_ns,
                                                             .plan = plan_class,
                                                             .arg = q,
                                                             .wants_gaps = q->wants == wants_all && is_thread_time(q)},
                                  err);
    if (rc)
        return rc;
    int is_over = 0; /* only definitions still count */
    q->clock = NULL;
    while ((rc = ec_event_cursor_next(q->tape, &e, err)) == 1) {
        const plan *p = (const plan *)e.plan;
        if (e.is_behind_gap)
            know_nothing(q, q->raw_last);
        use_clock(q, e.clock);
        q->raw_last = e.time > q->raw_last ? e.time : q->raw_last;
        if (++q->steps % ASK_EVERY == 0) {
            if (q->options.keep_going && !q->options.keep_going(q->options.arg)) {
                rc = ea_fail(err, EA_ECANCELED, "make a profile");
                break;
            }
            is_over |= all_has_ended(q, &e);
            if (is_over && !ea_stacks_count(q->stacks).undefined) {
                rc = 0;
                break;
            }
        }
        if (is_over && p->stack.role != EA_STACK_IS_DEFINITION)
            continue;
        if (q->missed)
            ea_stack_join_from(q->join, &(ea_stack_origin){ec_event_position(q->tape), e.time, e.pid, e.tid});
        switch (p->stack.role) {
        case EA_STACK_IS_EVENT:
            rc = q->wants == wants_all ? on_other(q, &e, p) : 0;
            if (q->wants == wants_intervals)
                on_interval(q, &e);
            break;
        case EA_STACK_IS_MATCH: {
            ea_ext item;
            for (unsigned i = 0; ec_event_cursor_item(q->tape, &e, i, &item); i++)
                ea_stack_feed_item(q->join, &item, EA_STACK_IS_MATCH);
            rc = 0;
            break;
        }
        case EA_STACK_IS_DEFINITION: {
            int64_t utc_ns = ec_event_cursor_utc_ns(&e);
            rc = utc_ns > after_utc_ns && utc_ns <= to_utc_ns ? ec_stackwalk_reader_add(&q->walks, &e, &p->stack) : 0;
            break;
        }
        default:
            rc = ec_stackwalk_reader_add(&q->walks, &e, &p->stack);
        }
        if (rc) {
            rc = ea_fail(err, rc,
                         rc == EA_ELIMIT ? "make a profile: too many different stacks; take less time"
                                         : "make a profile");
            break;
        }
    }
    ec_event_cursor_close(q->tape);
    q->tape = NULL;
    return rc;
}

/* ---- a stream's end ---- */

/* The .NET method that an address was in: of no module, or of a native image that was compiled ahead of time. */
static const ec_method *method_at(const ec_stack_query *q, const pair *p, uint64_t address) {
    const ea_process *process = ec_address_space_get_process(q->places, p->process);
    const ec_method *m = process ? ec_methods_find(q->methods, process->pid, address, p->last_utc_ns) : NULL;
    if (m && m->begin_utc_ns != INT64_MIN && m->begin_utc_ns < process->life.begin_utc_ns)
        return NULL; /* of a process that had this number before */
    return m;
}

/* All frames of a sum's stack, the innermost first, FRAMES_MAX at most: 0, or what fn returned. */
static int each_frame(const ec_stack_query *q, const pair *p, int (*fn)(void *arg, const ec_stack_frame *f),
                      void *arg) {
    size_t n = 0;
    int rc = 0;
    for (int h = 0; !rc && h < EA_STACK_HALVES; h++) {
        size_t count;
        const uint64_t *addresses = ea_stacks_get(q->stacks, h == EA_STACK_KERNEL ? p->kernel : p->user, &count);
        for (size_t i = 0; !rc && addresses && i < count && n < FRAMES_MAX; i++, n++) {
            ec_stack_frame f = {.address = addresses[i], .is_return = n > 0};
            int is_kernel = ea_stack_is_kernel(f.address, q->pointer_size);
            f.module = ec_address_space_module(q->places, p->process, p->epoch, f.address, is_kernel, &f.is_unloaded);
            /* a call may be the last that a method does */
            f.method = is_kernel ? NULL : method_at(q, p, f.address - (uint64_t)f.is_return);
            rc = fn(arg, &f);
        }
    }
    return rc;
}

/* A sum on its way to a caller. */
typedef struct telling {
    ea_text *frames;
    size_t depth;
} telling;

static int add_frame(void *arg, const ec_stack_frame *f) {
    telling *to = arg;
    ea_text *t = to->frames;
    to->depth++;
    ea_text_printf(t, "%s{\"address\":\"0x%" PRIx64 "\"", t->len_bytes > 1 ? "," : "", f->address);
    if (f->method) {
        ea_text_str(t, ",\"method\":");
        ea_text_json_str(t, f->method->name);
    }
    if (f->module && !(f->method && f->is_unloaded)) {
        ea_text_str(t, ",\"module\":");
        ea_text_json_str(t, ec_base_name(f->module->path));
        ea_text_printf(t, ",\"offset\":\"0x%" PRIx64 "\"%s", f->address - f->module->base,
                       f->is_unloaded ? ",\"unloaded\":true" : "");
    }
    ea_text_char(t, '}');
    return 0;
}

static uint64_t hash_of_stack(const ec_stack_query *q, uint32_t kernel, uint32_t user) {
    size_t kernel_count, user_count;
    const uint64_t *frames = ea_stacks_get(q->stacks, kernel, &kernel_count);
    uint64_t hash = frames && kernel_count ? ea_hash64(frames, kernel_count * sizeof *frames, 0) : 0;
    frames = ea_stacks_get(q->stacks, user, &user_count);
    return frames && user_count ? ea_hash64(frames, user_count * sizeof *frames, hash) : hash;
}

static int tell_pair(const ec_stack_query *q, const pair *p, ea_text *t, int (*fn)(void *arg, const ec_stack_sum *s),
                     void *arg) {
    ec_stack_sum sum = {.name = q->names[p->name],
                        .image = process_name(q, p->process),
                        .pid = p->pid,
                        .tid = p->tid,
                        .process_key = ec_address_space_process_key(q->places, p->process),
                        .count = p->events,
                        .hash = hash_of_stack(q, p->kernel, p->user),
                        .first_utc_ns = p->first_utc_ns,
                        .last_utc_ns = p->last_utc_ns};
    ea_text_clear(t);
    ea_text_char(t, '[');
    telling to = {.frames = t};
    (void)each_frame(q, p, add_frame, &to);
    sum.depth = to.depth;
    ea_text_char(t, ']');
    sum.frames = t->data;
    return t->failed ? EA_ENOMEM : fn(arg, &sum);
}

void ec_stack_query_close(ec_stack_query *q) {
    if (!q)
        return;
    ea_stack_join_destroy(q->join);
    ea_stacks_destroy(q->stacks);
    ec_sched_destroy(q->sched);
    ec_address_space_close(q->places);
    ec_methods_close(q->methods);
    ea_u64_map_deinit(&q->by_irp);
    ea_u64_map_deinit(&q->unanswered);
    ea_large_free(q->subjects, (q->subject_mask + 1) * sizeof *q->subjects);
    ea_large_free(q->pairs, q->pair_capacity * sizeof *q->pairs);
    free(q->slots);
    free(q->names);
    ea_arena_deinit(&q->arena);
    free(q);
}

static int create(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                  const ec_stack_query_options *options, ec_stack_counts *counts, ea_err *err) {
    ec_stack_query *q = calloc(1, sizeof *q);
    if (!q)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    *ret = q;
    q->options = *options;
    q->counts = counts;
    q->archive = archive;
    q->stream = stream;
    q->from_utc_ns = options->from_utc_ns;
    q->to_utc_ns = options->to_utc_ns;
    q->subject_utc_ns = INT64_MIN;
    q->pointer_size = 4;
    ea_arena_init(&q->arena, 0);
    ea_u64_map_init(&q->by_irp, 1 << 20);
    ea_u64_map_init(&q->unanswered, 1 << 20);
    return 0;
}

static int begin_stream(ec_stack_query *q, ea_err *err) {
    int rc = ec_address_space_open(&q->places, q->archive, q->stream, 1, err);
    if (!rc) /* without batches that hold methods nothing is read */
        rc = ec_methods_open(&q->methods, q->archive, q->stream, NULL, NULL, err);
    if (!rc)
        rc = ea_stacks_create(&q->stacks, q->options.limit_stacks_bytes, err);
    if (!rc)
        rc = ea_stack_join_create(&q->join, q->stacks,
                                  &(ea_stack_join_options){.limit_bytes = q->options.limit_window_bytes
                                                                              ? q->options.limit_window_bytes
                                                                              : WINDOW_BYTES,
                                                           .on_event = on_event,
                                                           .on_late = on_late,
                                                           .on_missed = q->missed ? on_missed : NULL,
                                                           .arg = q},
                                  err);
    return rc ? rc : ec_sched_create(&q->sched, 0, err);
}

/* Reads the stream: its sums are in pairs. */
static int join_stream(ec_stack_query *q, ea_err *err) {
    int needs_history = is_thread_time(q);
    int64_t late = needs_history ? INT64_MAX : later(q->to_utc_ns, LATE_NS);
    int rc = begin_stream(q, err);
    if (!rc && !needs_history && !q->is_each_event) {
        q->wants = wants_intervals;
        rc = play(q, INT64_MIN, q->from_utc_ns, INT64_MAX, err);
    }
    q->wants = wants_all;
    if (!rc)
        rc = play(q, needs_history ? INT64_MIN : q->from_utc_ns, late, INT64_MIN, err);
    if (!rc && needs_history)
        q->counts->unfinished += open_times(q, q->raw_last, &q->counts->unfinished_ns);
    if (!rc && ((rc = ea_stack_join_end(q->join)) || (rc = add_all_coming(q))))
        rc = ea_fail(err, rc, "make a profile");
    q->wants = wants_definitions;
    if (!rc && late < INT64_MAX && ea_stacks_count(q->stacks).undefined)
        rc = play(q, late, INT64_MAX, late, err);
    if (!rc && ec_sched_is_short(q->sched))
        rc = ea_fail(err, EA_ENOMEM, "make a profile");
    return rc;
}

/* Whether a half is a key without a definition; an event that lacks a half is counted as such already. */
static int is_undefined(const ec_stack_query *q, const pair *p) {
    return p->kernel != HALF_IS_MISSING && p->user != HALF_IS_MISSING &&
           (ea_stacks_is_undefined(q->stacks, p->kernel) || ea_stacks_is_undefined(q->stacks, p->user));
}

int ec_stack_query_run(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                       const ec_stack_query_options *options, ec_stack_counts *counts, ea_err *err) {
    ec_stack_query *q = NULL;
    int rc = create(&q, archive, stream, options, counts, err);
    if (!rc)
        rc = join_stream(q, err);
    if (rc) {
        ec_stack_query_close(q);
        return rc;
    }
    for (size_t i = 0; i < q->pair_count; i++)
        if (is_undefined(q, &q->pairs[i]))
            counts->incomplete[EC_LACKS_UNDEFINED] += q->pairs[i].events;
    const uint64_t *halves = ea_stack_join_counts(q->join);
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        counts->halves[i] += halves[i];
    counts->keys_undefined += ea_stacks_count(q->stacks).undefined;
    counts->is_interval_assumed |= options->weight == EC_WEIGHT_CPU && q->pair_count && !q->intervals[0];
    *ret = q;
    return 0;
}

size_t ec_stack_query_count(const ec_stack_query *q) {
    return q->pair_count;
}

void ec_stack_query_get(const ec_stack_query *q, size_t i, ec_stack_weight *ret) {
    const pair *p = &q->pairs[i];
    *ret = (ec_stack_weight){process_name(q, p->process), p->weight, p->events};
}

int ec_stack_query_frames(const ec_stack_query *q, size_t i, int (*fn)(void *arg, const ec_stack_frame *f), void *arg) {
    return each_frame(q, &q->pairs[i], fn, arg);
}

/* ---- each event ---- */

/* Joins all of a stream's stacks to their events: the results are in pairs, or in links. */
static int join_each_event(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                           int64_t from_utc_ns, int64_t to_utc_ns, missed_halves *missed, ec_stack_links *links,
                           ec_stack_counts *counts, ea_err *err) {
    const ec_stack_query_options options = {
        .weight = EC_WEIGHT_SAMPLES, .from_utc_ns = from_utc_ns, .to_utc_ns = to_utc_ns};
    int rc = create(ret, archive, stream, &options, counts, err);
    if (rc)
        return rc;
    (*ret)->is_each_event = 1;
    (*ret)->missed = missed;
    (*ret)->links = links;
    return join_stream(*ret, err);
}

int ec_stack_query_sums(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                        int (*fn)(void *arg, const ec_stack_sum *s), void *arg, ea_err *err) {
    ec_stack_counts counts = {.total = 0};
    ec_stack_query *q = NULL;
    ea_text t;
    ea_text_init(&t);
    int rc = join_each_event(&q, archive, stream, from_utc_ns, to_utc_ns, NULL, NULL, &counts, err);
    for (size_t i = 0; !rc && i < q->pair_count; i++)
        if ((rc = tell_pair(q, &q->pairs[i], &t, fn, arg)))
            rc = ea_fail(err, rc, rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    ec_stack_query_close(q);
    ea_text_deinit(&t);
    return rc;
}

int ec_stack_query_missed(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                          int (*fn)(void *arg, const ec_missed_half *m), void *arg, ea_err *err) {
    missed_halves missed = {.fn = fn, .arg = arg, .from_utc_ns = from_utc_ns};
    ec_stack_counts counts = {.total = 0};
    ec_stack_query *q = NULL;
    int rc = join_each_event(&q, archive, stream, INT64_MIN, to_utc_ns, &missed, NULL, &counts, err);
    if (!rc)
        tell_unanswered(q);
    if (!rc && missed.rc)
        rc = ea_fail(err, missed.rc, missed.rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    ec_stack_query_close(q);
    free(missed.clocks);
    free(missed.unanswered);
    return rc;
}

int ec_stack_query_links(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                         ec_stack_links *ret, ea_err *err) {
    ec_stack_counts counts = {.total = 0};
    ec_stack_query *q = NULL;
    int rc = join_each_event(&q, archive, stream, from_utc_ns, to_utc_ns, NULL, ret, &counts, err);
    for (size_t i = 0; !rc && i < ret->count; i++) {
        ec_stack_link *l = &ret->links[i];
        l->hash = hash_of_stack(q, (uint32_t)(l->hash >> 32), (uint32_t)l->hash);
    }
    ec_stack_query_close(q);
    return rc;
}
