/* See stack_join.h. */
#include "proto/stack/stack_join.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <stdlib.h>

enum { DEFAULT_LIMIT_MIB = 128, ENTRIES_MIN = 512, CHAIN_MAX = 256, ENTRIES_PER_CHAIN = 16, ENTRIES_AHEAD = 12 };

/* No more chains than stay in the processor's cache (128 KiB): every event begins at one of them. They are longer in a
 * large window, but only their entries since the walk's time are looked at. */
enum { CHAINS_MAX = 8192 };

enum { PENDING_FIRST = 64 };

/* Entries whose times hash alike, the newest first. */
typedef struct chain {
    int64_t latest; /* no entry of the chain has a later time; entries that left the window count, too. With it, old
                     * entries, which are far away in memory, are not read for a time that only a new entry can have */
    uint32_t first; /* sequence number + 1 of the newest entry; 0: none. It may be long gone */
} chain;

/* An event in the window, or a walk that waits for its event. */
typedef struct entry {
    int64_t time;
    uint64_t tag;
    int64_t next_latest; /* of the chain from the next entry on */
    uint32_t next;
    uint32_t tid, pid;
    uint32_t half[EA_STACK_HALVES];
    uint16_t cpu;
    uint8_t is_walk; /* tag is its origin's, half[0] is its number, walk_half which half it is, outcome[0] why it waits;
                        is_done: joined */
    uint8_t walk_half, is_done;
    uint8_t outcome[EA_STACK_HALVES];
    uint8_t lacks; /* EA_STACK_LACKS_... */
} entry;

/* An event that named a match id. They have numbers in the order in which they came. */
typedef struct pending_match {
    uint64_t match_id, tag;
    uint32_t sequence; /* of the event */
    uint8_t is_answered;
} pending_match;

struct ea_stack_join {
    ea_stacks *stacks;
    ea_stack_joined_fn on_event;
    void *arg;
    entry *entries; /* a ring; its memory has the chains, too */
    size_t memory_bytes;
    uint32_t mask;
    uint32_t first, next; /* sequence numbers: of the oldest entry, of the next one */
    chain *chains;        /* by hash of the time */
    uint32_t chain_mask;
    int64_t left_time; /* the latest time of an event that has left */
    int64_t begin;     /* walks of events before it do not count */
    uint32_t waiting;  /* walks in the window that are not joined */
    ea_stack_late_fn on_late;
    ea_stack_missed_fn on_missed;
    ea_stack_origin from; /* with on_missed */
    pending_match
        *pending; /* a ring: pending_mask + 1 of them, at the most as many as entries; NULL: there was none yet */
    uint32_t pending_mask;
    uint64_t first_pending, first_pending_inside, next_pending; /* numbers: the oldest one; the oldest whose event is in
                                                       the window; the next one */
    ea_u64_map by_match_id;                                     /* -> number of the last pending match of this id */
    ea_u64_map by_clr_thread;                                   /* -> sequence number */
    uint64_t counts[EA_STACK_OUTCOME_COUNT];
    uint64_t unanswered;
};

static const char *const NAMES[] = {
#define X(name, text) #name,
    EA_STACK_OUTCOMES(X)
#undef X
};
static const char *const TEXTS[] = {
#define X(name, text) text,
    EA_STACK_OUTCOMES(X)
#undef X
};

const char *ea_stack_outcome_name(enum ea_stack_outcome o) {
    return NAMES[o];
}

const char *ea_stack_outcome_text(enum ea_stack_outcome o) {
    return TEXTS[o];
}

int ea_stack_join_create(ea_stack_join **ret, ea_stacks *stacks, const ea_stack_join_options *options, ea_err *err) {
    size_t limit = options->limit_bytes ? options->limit_bytes : (size_t)DEFAULT_LIMIT_MIB << 20, n = ENTRIES_MIN;
    size_t entry_bytes = sizeof(entry) + sizeof(chain) / ENTRIES_PER_CHAIN;
    while (n * 2 * entry_bytes <= limit && n < (size_t)1 << 30)
        n *= 2;
    size_t chains = n / ENTRIES_PER_CHAIN < CHAINS_MAX ? n / ENTRIES_PER_CHAIN : CHAINS_MAX;
    ea_stack_join *j = calloc(1, sizeof *j);
    if (j) {
        j->stacks = stacks;
        j->on_event = options->on_event;
        j->on_late = options->on_late;
        j->on_missed = options->on_missed;
        j->arg = options->arg;
        j->mask = (uint32_t)n - 1;
        j->left_time = INT64_MIN;
        j->begin = options->has_begin ? options->begin : INT64_MIN;
        j->chain_mask = (uint32_t)chains - 1;
        j->memory_bytes = n * sizeof *j->entries + chains * sizeof *j->chains;
        j->entries = ea_large_alloc(j->memory_bytes);
        j->chains = (void *)(j->entries + n);
        ea_u64_map_init(&j->by_match_id, n);
        ea_u64_map_init(&j->by_clr_thread, n);
    }
    if (!j || !j->entries) {
        ea_stack_join_destroy(j);
        return ea_fail(err, EA_ENOMEM, "join stacks");
    }
    *ret = j;
    return 0;
}

void ea_stack_join_destroy(ea_stack_join *j) {
    if (!j)
        return;
    ea_u64_map_deinit(&j->by_match_id);
    ea_u64_map_deinit(&j->by_clr_thread);
    ea_large_free(j->entries, j->memory_bytes);
    free(j->pending);
    free(j);
}

ea_stacks *ea_stack_join_stacks(ea_stack_join *j) {
    return j->stacks;
}

const uint64_t *ea_stack_join_counts(const ea_stack_join *j) {
    return j->counts;
}

uint64_t ea_stack_join_unanswered(const ea_stack_join *j) {
    return j->unanswered;
}

static chain *stack_join_chain_of(const ea_stack_join *j, int64_t time) {
    return &j->chains[(uint64_t)time * 0x9E3779B97F4A7C15u >> 40 & j->chain_mask];
}

static int stack_join_is_in_window(const ea_stack_join *j, uint32_t sequence) {
    return sequence - j->first < j->next - j->first;
}

static entry *stack_join_at(const ea_stack_join *j, uint32_t sequence) {
    return &j->entries[sequence & j->mask];
}

/* 1 when an entry of that time may be in the chain that begins so. */
static int stack_join_may_hold(const ea_stack_join *j, uint32_t first, int64_t latest, int64_t time) {
    return first && latest >= time && stack_join_is_in_window(j, first - 1);
}

static void count_missed(ea_stack_join *j, const ea_stack_origin *from, enum ea_stack_half half,
                         enum ea_stack_outcome outcome) {
    j->counts[outcome]++;
    if (j->on_missed)
        j->on_missed(j->arg, &(ea_stack_missed){*from, half, outcome});
}

/* A half of the record that was named last. */
static void miss(ea_stack_join *j, enum ea_stack_half half, enum ea_stack_outcome outcome) {
    count_missed(j, &j->from, half, outcome);
}

void ea_stack_join_from(ea_stack_join *j, const ea_stack_origin *from) {
    j->from = *from;
}

/* ---- match ids ---- */

static pending_match *pending_at(const ea_stack_join *j, uint64_t number) {
    return &j->pending[number & j->pending_mask];
}

/* Drops the oldest pending match. If it is not answered yet, its answer can no longer be joined. */
static void drop_pending(ea_stack_join *j) {
    const pending_match *a = pending_at(j, j->first_pending);
    const uint64_t *known = ea_u64_map_get(&j->by_match_id, a->match_id);
    if (known && *known == j->first_pending)
        (void)ea_u64_map_remove(&j->by_match_id, a->match_id);
    if (j->first_pending == j->first_pending_inside) { /* an event that named many ids is in the window still */
        if (!a->is_answered)
            stack_join_at(j, a->sequence)->lacks |= EA_STACK_LACKS_ANSWER;
        j->first_pending_inside++;
    }
    j->first_pending++;
}

/* Room for one more pending match: in a ring of twice the size, else where the oldest was. EA_ENOMEM: there is no ring.
 */
static int pending_room(ea_stack_join *j) {
    if (j->pending && j->next_pending - j->first_pending <= j->pending_mask)
        return 0;
    uint32_t count = j->pending ? j->pending_mask + 1 : 0, bigger = count ? count * 2 : PENDING_FIRST;
    pending_match *grown = bigger <= j->mask + 1 ? malloc(bigger * sizeof *grown) : NULL;
    if (!grown) {
        if (j->pending)
            drop_pending(j);
        return j->pending ? 0 : EA_ENOMEM;
    }
    for (uint64_t i = j->first_pending; i < j->next_pending; i++)
        grown[i & (bigger - 1)] = *pending_at(j, i);
    free(j->pending);
    j->pending = grown;
    j->pending_mask = bigger - 1;
    return 0;
}

/* The event given last awaits its user half. */
static void await(ea_stack_join *j, uint64_t match_id, uint64_t tag) {
    const uint64_t *known = ea_u64_map_get(&j->by_match_id, match_id);
    if (known && pending_at(j, *known)->sequence == j->next - 1)
        return; /* both halves came with it */
    j->unanswered++;
    int rc = pending_room(j);
    if (!rc)
        rc = ea_u64_map_put(&j->by_match_id, match_id, j->next_pending);
    if (!rc)
        *pending_at(j, j->next_pending++) = (pending_match){.match_id = match_id, .tag = tag, .sequence = j->next - 1};
    /* without memory its other half counts as one without an event */
}

/* The entry of a sequence number has left: 1 when it is an event that an answer is still missing of. */
static int close_pending(ea_stack_join *j, uint32_t sequence) {
    int lacks = 0;
    for (; j->first_pending_inside < j->next_pending && pending_at(j, j->first_pending_inside)->sequence == sequence;
         j->first_pending_inside++)
        lacks |= !pending_at(j, j->first_pending_inside)->is_answered;
    while (j->first_pending < j->first_pending_inside && pending_at(j, j->first_pending)->is_answered)
        drop_pending(j);
    return lacks;
}

/* The oldest entry leaves. */
static int stack_join_leave(ea_stack_join *j) {
    uint32_t sequence = j->first++;
    entry *e = stack_join_at(j, sequence);
    int is_unanswered = j->first_pending_inside != j->next_pending && close_pending(j, sequence);
    if (e->is_walk) {
        if (!e->is_done) {
            count_missed(j, &(ea_stack_origin){e->tag, e->time, e->pid, e->tid}, e->walk_half, e->outcome[0]);
            j->waiting--;
        }
        return 0;
    }
    if (e->time > j->left_time)
        j->left_time = e->time;
    ea_stack_joined event = {.tag = e->tag,
                             .time = e->time,
                             .tid = e->tid,
                             .pid = e->pid,
                             .half = {e->half[0], e->half[1]},
                             .outcome = {e->outcome[0], e->outcome[1]},
                             .lacks = e->lacks};
    if (is_unanswered)
        event.lacks |= EA_STACK_LACKS_ANSWER;
    if (e->half[EA_STACK_USER])
        event.lacks &= (uint8_t)~EA_STACK_LACKS_ANSWER;
    return j->on_event ? j->on_event(j->arg, &event) : 0;
}

/* A new entry, member by member: a copy of a whole one waits until its members have been written elsewhere. */
static int stack_join_push(ea_stack_join *j, int64_t time, uint32_t tid, uint16_t cpu, entry **ret) {
    int rc = 0;
    if (j->next - j->first > j->mask)
        rc = stack_join_leave(j);
    chain *c = stack_join_chain_of(j, time);
    entry *to = stack_join_at(j, j->next);
    EA_PREFETCH(stack_join_at(j, j->next + ENTRIES_AHEAD));
    to->time = time;
    to->tag = 0;
    to->next_latest = 0;
    to->next = 0;
    to->tid = tid;
    to->pid = (uint32_t)EA_STACK_ANY_THREAD;
    to->half[0] = to->half[1] = 0;
    to->cpu = cpu;
    to->is_walk = to->walk_half = to->is_done = 0;
    to->outcome[0] = to->outcome[1] = 0;
    to->lacks = 0;
    if (c->first && stack_join_is_in_window(j, c->first - 1)) {
        to->next = c->first;
        to->next_latest = c->latest;
        c->latest = c->latest > time ? c->latest : time;
    } else {
        c->latest = time;
    }
    c->first = ++j->next; /* its sequence number + 1 */
    *ret = to;
    return rc;
}

static void stack_join_give(ea_stack_join *j, entry *to, unsigned half, uint32_t number,
                            enum ea_stack_outcome outcome) {
    to->half[half] = number;
    to->outcome[half] = (uint8_t)outcome;
    j->counts[outcome]++;
}

/* How well a walk fits an event of its time: 0 not at all, more is better. */
static unsigned stack_join_fit(const entry *e, uint32_t tid, uint16_t cpu) {
    unsigned thread;
    if (e->tid == (uint32_t)EA_STACK_ANY_THREAD || tid == (uint32_t)EA_STACK_ANY_THREAD)
        thread = 1;
    else
        thread = e->tid == tid ? 2 : 0;
    return thread ? thread * 2 + (e->cpu == cpu) : 0;
}

/* What a half finds among the events of its walk's time. */
typedef struct match {
    entry *best;
    unsigned fit, equals;
    enum ea_stack_outcome why; /* there is no best one */
} match;

/* One more event of the walk's time, the newer ones first: so of equal ones the first comes last. f: how well it fits
 */
static void stack_join_consider(match *m, entry *e, unsigned half, unsigned f) {
    if (f && e->half[half]) {
        m->why = EA_STACK_taken;
    } else if (f >= m->fit && f) {
        m->equals = f > m->fit ? 1 : m->equals + 1;
        m->fit = f;
        m->best = e;
    } else if (!f && m->why == EA_STACK_no_event) {
        m->why = EA_STACK_other_thread;
    }
}

/* Looks for the halves from first to last at once. */
static void find_event(const ea_stack_join *j, int64_t time, uint32_t tid, uint16_t cpu, unsigned first, unsigned last,
                       match found[EA_STACK_HALVES]) {
    const chain *c = stack_join_chain_of(j, time);
    uint32_t k = c->first;
    int64_t latest = c->latest;
    for (unsigned h = first; h <= last; h++)
        found[h] = (match){.why = EA_STACK_no_event};
    for (unsigned steps = 0; stack_join_may_hold(j, k, latest, time) && steps < CHAIN_MAX; steps++) {
        entry *e = stack_join_at(j, k - 1);
        if (e->time == time && !e->is_walk) {
            unsigned f = stack_join_fit(e, tid, cpu);
            for (unsigned h = first; h <= last; h++)
                stack_join_consider(&found[h], e, h, f);
        }
        k = e->next;
        latest = e->next_latest;
    }
}

static void give_best(ea_stack_join *j, const match *m, uint32_t pid, unsigned half, uint32_t number) {
    stack_join_give(j, m->best, half, number, m->equals > 1 ? EA_STACK_ambiguous : EA_STACK_joined);
    m->best->pid = pid;
}

int ea_stack_join_walk(ea_stack_join *j, int64_t time, uint32_t pid, uint32_t tid, uint16_t cpu,
                       enum ea_stack_half half, uint32_t number) {
    match found[EA_STACK_HALVES];
    j->from = (ea_stack_origin){j->from.tag, time, pid, tid};
    if (time < j->begin) {
        miss(j, half, EA_STACK_too_late);
        return 0;
    }
    find_event(j, time, tid, cpu, half, half, found);
    if (!number) {
        miss(j, half, EA_STACK_no_room);
        if (found[half].best)
            found[half].best->lacks |= EA_STACK_LACKS_ROOM;
        return 0;
    }
    if (found[half].best) {
        give_best(j, &found[half], pid, half, number);
        return 0;
    }
    if (time <= j->left_time) {
        miss(j, half, found[half].why == EA_STACK_no_event ? EA_STACK_too_late : found[half].why);
        return 0;
    }
    entry *waits = NULL;
    j->waiting++;
    int rc = stack_join_push(j, time, tid, cpu, &waits);
    waits->pid = pid;
    waits->tag = j->from.tag;
    waits->is_walk = 1;
    waits->walk_half = (uint8_t)half;
    waits->half[0] = number;
    waits->outcome[0] = (uint8_t)found[half].why;
    return rc;
}

int ea_stack_join_walks(ea_stack_join *j, int64_t time, uint32_t pid, uint32_t tid, uint16_t cpu,
                        const uint32_t numbers[EA_STACK_HALVES]) {
    match found[EA_STACK_HALVES];
    if (numbers[EA_STACK_KERNEL] && numbers[EA_STACK_USER]) {
        find_event(j, time, tid, cpu, EA_STACK_KERNEL, EA_STACK_USER, found);
        if (found[EA_STACK_KERNEL].best && found[EA_STACK_USER].best) {
            give_best(j, &found[EA_STACK_KERNEL], pid, EA_STACK_KERNEL, numbers[EA_STACK_KERNEL]);
            give_best(j, &found[EA_STACK_USER], pid, EA_STACK_USER, numbers[EA_STACK_USER]);
            return 0;
        }
    }
    int rc = ea_stack_join_walk(j, time, pid, tid, cpu, EA_STACK_KERNEL, numbers[EA_STACK_KERNEL]);
    return rc ? rc : ea_stack_join_walk(j, time, pid, tid, cpu, EA_STACK_USER, numbers[EA_STACK_USER]);
}

/* Joins walks that wait for this event. For each half it takes the walk that fits best; of several such walks it takes
 * the walk that came first. */
static void take_waiting(ea_stack_join *j, entry *event) {
    entry *best[EA_STACK_HALVES] = {NULL, NULL};
    unsigned best_fit[EA_STACK_HALVES] = {0, 0}, steps = 0;
    uint32_t k = event->next;
    int64_t latest = event->next_latest;
    for (; stack_join_may_hold(j, k, latest, event->time) && steps < CHAIN_MAX; steps++) {
        entry *e = stack_join_at(j, k - 1);
        if (e->is_walk && !e->is_done && e->time == event->time) {
            unsigned f = stack_join_fit(event, e->tid, e->cpu);
            if (f && f >= best_fit[e->walk_half]) {
                best_fit[e->walk_half] = f;
                best[e->walk_half] = e;
            }
        }
        k = e->next;
        latest = e->next_latest;
    }
    for (unsigned h = 0; h < EA_STACK_HALVES; h++) {
        if (!best[h])
            continue;
        stack_join_give(j, event, h, best[h]->half[0], EA_STACK_joined);
        event->pid = best[h]->pid;
        best[h]->is_done = 1;
        j->waiting--;
    }
}

int ea_stack_join_event(ea_stack_join *j, int64_t time, uint32_t tid, uint16_t cpu, uint64_t tag) {
    entry *in = NULL;
    int rc = stack_join_push(j, time, tid, cpu, &in);
    in->tag = tag;
    if (j->waiting && in->next)
        take_waiting(j, in);
    return rc;
}

/* The newest entry. It is the event that was given last, unless a walk that waits came later than that event. */
static entry *newest(ea_stack_join *j) {
    return j->next != j->first ? stack_join_at(j, j->next - 1) : NULL;
}

void ea_stack_join_inside(ea_stack_join *j, enum ea_stack_half half, uint32_t number, uint64_t match_id) {
    entry *e = newest(j);
    if (!number) {
        miss(j, half, EA_STACK_no_room);
        if (e && !e->is_walk)
            e->lacks |= EA_STACK_LACKS_ROOM;
    } else if (!e || e->is_walk || e->half[half]) {
        miss(j, half, EA_STACK_taken);
    } else {
        stack_join_give(j, e, half, number, EA_STACK_in_event);
    }
    if (e && !e->is_walk && match_id)
        await(j, match_id, e->tag);
}

void ea_stack_join_match(ea_stack_join *j, uint64_t match_id, uint32_t number) {
    const uint64_t *known = ea_u64_map_get(&j->by_match_id, match_id);
    pending_match *a = known ? pending_at(j, *known) : NULL;
    int is_inside = known && *known >= j->first_pending_inside;
    entry *e = is_inside ? stack_join_at(j, a->sequence) : NULL;
    if (a) {
        (void)ea_u64_map_remove(&j->by_match_id, match_id);
        a->is_answered = 1;
        j->unanswered--;
    }
    if (a && !is_inside && j->on_late)
        j->on_late(j->arg, a->tag);
    if (e && !number)
        e->lacks |= EA_STACK_LACKS_ROOM;
    if (!number)
        miss(j, EA_STACK_USER, EA_STACK_no_room);
    else if (!a)
        miss(j, EA_STACK_USER, EA_STACK_no_match_id);
    else if (!e)
        miss(j, EA_STACK_USER, EA_STACK_too_late);
    else if (e->half[EA_STACK_USER])
        miss(j, EA_STACK_USER, EA_STACK_taken);
    else
        stack_join_give(j, e, EA_STACK_USER, number, EA_STACK_joined);
}

void ea_stack_join_clr_event(ea_stack_join *j, uint64_t thread) {
    entry *e = newest(j);
    if (!e || e->is_walk)
        return;
    int rc = ea_u64_map_put(&j->by_clr_thread, thread, j->next - 1);
    if (rc) { /* more threads than events in the window: most are gone */
        ea_u64_map_clear(&j->by_clr_thread);
        rc = ea_u64_map_put(&j->by_clr_thread, thread, j->next - 1);
    }
    (void)rc; /* then its walk counts as one without an event */
}

static entry *find_clr_event(ea_stack_join *j, uint64_t thread) {
    const uint64_t *known = ea_u64_map_get(&j->by_clr_thread, thread);
    if (!known)
        return NULL;
    uint32_t sequence = (uint32_t)*known;
    (void)ea_u64_map_remove(&j->by_clr_thread, thread);
    return stack_join_is_in_window(j, sequence) && !stack_join_at(j, sequence)->is_walk ? stack_join_at(j, sequence)
                                                                                        : NULL;
}

void ea_stack_join_clr_walk(ea_stack_join *j, uint64_t thread, uint32_t number) {
    entry *e = find_clr_event(j, thread);
    if (e && !number)
        e->lacks |= EA_STACK_LACKS_ROOM;
    if (!number)
        miss(j, EA_STACK_USER, EA_STACK_no_room);
    else if (!e)
        miss(j, EA_STACK_USER, EA_STACK_no_clr_event);
    else if (e->half[EA_STACK_USER])
        miss(j, EA_STACK_USER, EA_STACK_taken);
    else
        stack_join_give(j, e, EA_STACK_USER, number, EA_STACK_joined);
}

void ea_stack_join_unusable(ea_stack_join *j) {
    miss(j, EA_STACK_HALVES, EA_STACK_too_short);
}

int ea_stack_join_settle(ea_stack_join *j, int64_t before) {
    int rc = 0;
    while (!rc && j->first != j->next && stack_join_at(j, j->first)->time < before)
        rc = stack_join_leave(j);
    return rc;
}

int ea_stack_join_end(ea_stack_join *j) {
    int rc = 0;
    while (!rc && j->first != j->next)
        rc = stack_join_leave(j);
    return rc;
}
