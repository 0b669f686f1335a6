/* See thread_time.h. */
#include "collector/query/analysis/thread_time.h"

enum { THREADS_MAX = 1 << 20 };

int ec_thread_time_init(ec_thread_time *t, enum ec_sched_state state,
                        int (*wants)(void *arg, uint32_t tid, int64_t utc_ns), void *arg, ea_err *err) {
    *t = (ec_thread_time){.state = state, .wants = wants, .arg = arg};
    ea_u64_map_init(&t->waited_ns, THREADS_MAX);
    return ec_sched_create(&t->sched, 0, err);
}

void ec_thread_time_deinit(ec_thread_time *t) {
    ec_sched_destroy(t->sched);
    ea_u64_map_deinit(&t->waited_ns);
}

void ec_thread_time_range(ec_thread_time *t, const ea_clock *clock, int64_t raw_from, int64_t raw_to) {
    t->clock = *clock;
    t->raw_from = raw_from;
    t->raw_to = raw_to;
}

static uint64_t ns_in_range(const ec_thread_time *t, const ec_sched_slice *s) {
    int64_t begin = s->begin > t->raw_from ? s->begin : t->raw_from, end = s->end < t->raw_to ? s->end : t->raw_to;
    if (end <= begin)
        return 0;
    return (uint64_t)(ea_clock_to_utc_ns(&t->clock, end) - ea_clock_to_utc_ns(&t->clock, begin));
}

uint64_t ec_thread_time_switch(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e) {
    ec_sched_slice slices[3];
    uint64_t ns = 0, new_tid = ec_event_cursor_u64_or_0(cursor, e, EC_SWITCH_NEW_TID);
    size_t n = ec_sched_event(t->sched, cursor, e, EC_ROLE_SWITCH, slices);
    for (size_t i = 0; i < n; i++)
        if (slices[i].tid == new_tid && slices[i].state == t->state)
            ns = ns_in_range(t, &slices[i]);
    uint64_t *waited = t->state == EC_SCHED_WAITING ? ea_u64_map_get(&t->waited_ns, new_tid) : NULL;
    if (waited) {
        ns += *waited;
        *waited = 0;
    }
    return ns;
}

void ec_thread_time_ready(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e) {
    ec_sched_slice slices[3];
    if (!ec_sched_event(t->sched, cursor, e, EC_ROLE_READY, slices) || t->state != EC_SCHED_WAITING ||
        slices[0].state != EC_SCHED_WAITING)
        return;
    uint64_t ns = ns_in_range(t, &slices[0]), *waited = ea_u64_map_get(&t->waited_ns, slices[0].tid);
    if (waited)
        *waited += ns;
    else if (ea_u64_map_put(&t->waited_ns, slices[0].tid, ns))
        t->unfinished++;
}

/* By what the thread did, then by cause. */
static const char *const OPEN_NAMES[EC_THREAD_OPEN_KINDS] = {
    "[still waiting at the end of the data]",
    "[waiting when events were lost]",
    "[waiting when the thread ended]",
    "[still ready at the end of the data]",
    "[ready when events were lost]",
    "[ready when the thread ended]",
    "[woken, without a processor until the end of the data]",
    "[woken, without a processor until events were lost]",
    "[woken, without a processor until the thread ended]",
};

const char *ec_thread_open_name(unsigned kind) {
    return OPEN_NAMES[kind - 1];
}

/* How much of a thread's state at raw_now, whose end was not recorded, is inside the range. */
static uint64_t open_ns(const ec_thread_time *t, ec_sched_slice s, int64_t raw_now) {
    uint64_t ns = 0;
    const uint64_t *waited = t->state == EC_SCHED_WAITING ? ea_u64_map_get(&t->waited_ns, s.tid) : NULL;
    if (s.state == t->state) {
        s.end = raw_now;
        ns = ns_in_range(t, &s);
    }
    ns += waited ? *waited : 0; /* it is ready by now, and has not continued */
    return ns && t->wants(t->arg, s.tid, ea_clock_to_utc_ns(&t->clock, s.begin)) ? ns : 0;
}

static void add_open(ec_thread_time *t, const ec_sched_slice *s, uint64_t ns, enum ec_open_cause cause) {
    if (!ns)
        return;
    t->unfinished++;
    t->unfinished_ns += ns;
    unsigned did = t->state == EC_SCHED_READY ? 1 : s->state == EC_SCHED_WAITING ? 0 : 2;
    if (t->on_open)
        t->on_open(t->arg, &(ec_thread_open){.tid = s->tid,
                                             .begin_utc_ns = ea_clock_to_utc_ns(&t->clock, s->begin),
                                             .ns = ns,
                                             .kind = 1 + did * EC_OPEN_CAUSES + cause});
}

void ec_thread_time_lost(ec_thread_time *t, int64_t raw_now, enum ec_open_cause cause) {
    ec_sched_slice s;
    for (size_t cursor = 0; ec_sched_next_open(t->sched, &cursor, &s);)
        add_open(t, &s, open_ns(t, s, raw_now), cause);
    ec_sched_lost(t->sched);
    ea_u64_map_clear(&t->waited_ns);
}

void ec_thread_time_life(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e,
                         enum ec_role role) {
    ec_sched_slice s;
    if (ec_sched_life_event(t->sched, cursor, e, role, &s))
        add_open(t, &s, open_ns(t, s, e->time), EC_OPEN_AT_THREAD_END);
    (void)ea_u64_map_remove(&t->waited_ns, ec_event_cursor_u64_or_0(cursor, e, EC_THREAD_TID));
}

int ec_thread_time_is_open(const ec_thread_time *t, int64_t raw_now) {
    ec_sched_slice s;
    for (size_t cursor = 0; ec_sched_next_open(t->sched, &cursor, &s);)
        if (open_ns(t, s, raw_now))
            return 1;
    return 0;
}

int ec_thread_time_is_short(const ec_thread_time *t) {
    return ec_sched_is_short(t->sched);
}
