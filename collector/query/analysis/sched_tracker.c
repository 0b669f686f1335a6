/* See sched_tracker.h. */
#include "collector/query/analysis/sched_tracker.h"

#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>

enum { DEFAULT_LIMIT = 1 << 20 };

enum { STATE_TERMINATED = 4, STATE_WAITING = 5 };

typedef struct thread {
    int64_t since;
    uint32_t waker;
    uint8_t state, reason;
    uint16_t cpu;
} thread;

typedef struct processor {
    uint32_t tid; /* UINT32_MAX: unknown */
} processor;

struct ec_sched {
    ea_u64_map by_tid; /* -> index */
    thread *threads;
    size_t count, capacity, limit;
    processor *cpus;
    size_t cpu_count;
    int is_short; /* there was no memory for a thread or a CPU */
};

int ec_sched_create(ec_sched **ret, size_t limit_threads, ea_err *err) {
    ec_sched *s = calloc(1, sizeof *s);
    if (s)
        s->limit = limit_threads ? limit_threads : DEFAULT_LIMIT;
    if (!s)
        return ea_fail(err, EA_ENOMEM, "follow threads");
    ea_u64_map_init(&s->by_tid, s->limit);
    *ret = s;
    return 0;
}

int ec_sched_is_short(const ec_sched *s) {
    return s->is_short;
}

void ec_sched_destroy(ec_sched *s) {
    if (!s)
        return;
    ea_u64_map_deinit(&s->by_tid);
    free(s->threads);
    free(s->cpus);
    free(s);
}

/* NULL: there is no room for it. */
static thread *sched_tracker_thread_of(ec_sched *s, uint32_t tid) {
    const uint64_t *known = ea_u64_map_get(&s->by_tid, tid);
    EA_ASSERT(!known || *known < s->count);
    if (known)
        return &s->threads[*known];
    int rc = EA_GROW(s->threads, s->capacity, s->count + 1, s->limit);
    if (!rc)
        rc = ea_u64_map_put(&s->by_tid, tid, s->count);
    s->is_short |= rc == EA_ENOMEM;
    if (rc)
        return NULL;
    s->threads[s->count] = (thread){.state = EC_SCHED_UNKNOWN, .waker = UINT32_MAX};
    return &s->threads[s->count++];
}

static processor *processor_of(ec_sched *s, uint16_t cpu) {
    if (cpu >= s->cpu_count) {
        size_t count = ((size_t)cpu + 64) / 64 * 64;
        processor *grown = realloc(s->cpus, count * sizeof *grown);
        s->is_short |= !grown;
        if (!grown)
            return NULL;
        for (size_t i = s->cpu_count; i < count; i++)
            grown[i].tid = UINT32_MAX;
        s->cpus = grown;
        s->cpu_count = count;
    }
    return &s->cpus[cpu];
}

/* The thread's state changes; what it was in until now goes out. */
static size_t sched_change(thread *t, uint32_t tid, int64_t time, enum ec_sched_state to, ec_sched_slice *ret) {
    size_t n = 0;
    if (t->state != EC_SCHED_UNKNOWN && time >= t->since) {
        *ret = (ec_sched_slice){.tid = tid,
                                .state = t->state,
                                .reason = t->reason,
                                .cpu = t->cpu,
                                .begin = t->since,
                                .end = time,
                                .waker = t->waker};
        n = 1;
    }
    t->state = (uint8_t)to;
    t->since = time;
    t->reason = 0;
    t->waker = UINT32_MAX;
    return n;
}

size_t ec_sched_switch(ec_sched *s, int64_t time, uint16_t cpu, uint32_t old_tid, uint8_t old_state, uint8_t old_reason,
                       uint32_t new_tid, ec_sched_slice ret[3]) {
    size_t n = 0;
    processor *p = processor_of(s, cpu);
    if (p && p->tid != UINT32_MAX && p->tid != old_tid &&
        p->tid) { /* a switch was lost: what it ran until is unknown */
        thread *lost = sched_tracker_thread_of(s, p->tid);
        if (lost && lost->state == EC_SCHED_RUNNING && lost->cpu == cpu)
            lost->state = EC_SCHED_UNKNOWN;
    }
    if (p)
        p->tid = new_tid;
    thread *old = old_tid ? sched_tracker_thread_of(s, old_tid) : NULL;
    if (old) {
        if (old->state != EC_SCHED_RUNNING || old->cpu != cpu)
            old->state = EC_SCHED_UNKNOWN;
        enum ec_sched_state to = old_state == STATE_WAITING      ? EC_SCHED_WAITING
                                 : old_state == STATE_TERMINATED ? EC_SCHED_UNKNOWN
                                                                 : EC_SCHED_READY;
        n += sched_change(old, old_tid, time, to, &ret[n]);
        old->reason = old_reason;
    }
    thread *new = new_tid ? sched_tracker_thread_of(s, new_tid) : NULL;
    if (new) {
        if (new->state == EC_SCHED_RUNNING)
            new->state = EC_SCHED_UNKNOWN;
        n += sched_change(new, new_tid, time, EC_SCHED_RUNNING, &ret[n]);
        new->cpu = cpu;
    }
    return n;
}

size_t ec_sched_ready(ec_sched *s, int64_t time, uint32_t tid, uint32_t waker, ec_sched_slice ret[3]) {
    thread *t = tid ? sched_tracker_thread_of(s, tid) : NULL;
    if (!t || t->state == EC_SCHED_RUNNING || t->state == EC_SCHED_READY)
        return 0;
    if (t->state == EC_SCHED_WAITING)
        t->waker = waker;
    return sched_change(t, tid, time, EC_SCHED_READY, ret);
}

uint32_t ec_sched_running(const ec_sched *s, uint16_t cpu) {
    return cpu < s->cpu_count ? s->cpus[cpu].tid : UINT32_MAX;
}

/* The state of a thread: 1 and *ret, 0 when it is unknown. */
static int sched_tracker_read_open(const thread *t, uint32_t tid, ec_sched_slice *ret) {
    if (t->state == EC_SCHED_UNKNOWN)
        return 0;
    *ret = (ec_sched_slice){.tid = tid,
                            .state = t->state,
                            .reason = t->reason,
                            .cpu = t->cpu,
                            .begin = t->since,
                            .end = INT64_MAX,
                            .waker = t->waker};
    return 1;
}

int ec_sched_begin(ec_sched *s, uint32_t tid, ec_sched_slice *ret) {
    const uint64_t *known = ea_u64_map_get(&s->by_tid, tid);
    int is_open = known && sched_tracker_read_open(&s->threads[*known], tid, ret);
    if (known)
        s->threads[*known] = (thread){.state = EC_SCHED_UNKNOWN, .waker = UINT32_MAX};
    return is_open;
}

int ec_sched_end(ec_sched *s, uint32_t tid, ec_sched_slice *ret) {
    const uint64_t *known = ea_u64_map_get(&s->by_tid, tid);
    return known && s->threads[*known].state != EC_SCHED_RUNNING ? ec_sched_begin(s, tid, ret) : 0;
}

int ec_sched_next_open(const ec_sched *s, size_t *cursor, ec_sched_slice *ret) {
    uint64_t tid, index;
    while (ea_u64_map_next(&s->by_tid, cursor, &tid, &index))
        if (sched_tracker_read_open(&s->threads[index], (uint32_t)tid, ret))
            return 1;
    return 0;
}

void ec_sched_lost(ec_sched *s) {
    for (size_t i = 0; i < s->count; i++)
        s->threads[i].state = EC_SCHED_UNKNOWN;
    for (size_t i = 0; i < s->cpu_count; i++)
        s->cpus[i].tid = UINT32_MAX;
}

size_t ec_sched_event(ec_sched *s, const ec_event_cursor *t, const ec_event_cursor_event *e, enum ec_role role,
                      ec_sched_slice ret[3]) {
    uint64_t new_tid, old_tid, state, reason;
    if (role == EC_ROLE_READY)
        return ec_sched_ready(s, e->time, (uint32_t)ec_event_cursor_u64_or_0(t, e, EC_THREAD_TID),
                              e->tid != UINT32_MAX ? e->tid : ec_sched_running(s, e->cpu), ret);
    if (!ec_event_cursor_u64(t, e, EC_SWITCH_NEW_TID, &new_tid) ||
        !ec_event_cursor_u64(t, e, EC_SWITCH_OLD_TID, &old_tid) ||
        !ec_event_cursor_u64(t, e, EC_SWITCH_OLD_STATE, &state))
        return 0;
    reason = ec_event_cursor_u64_or_0(t, e, EC_SWITCH_OLD_REASON);
    return ec_sched_switch(s, e->time, e->cpu, (uint32_t)old_tid, (uint8_t)state, (uint8_t)reason, (uint32_t)new_tid,
                           ret);
}

int ec_sched_life_event(ec_sched *s, const ec_event_cursor *t, const ec_event_cursor_event *e, enum ec_role role,
                        ec_sched_slice *ret) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(t, e, EC_THREAD_TID);
    return role == EC_ROLE_THREAD_BEGIN ? ec_sched_begin(s, tid, ret) : ec_sched_end(s, tid, ret);
}
