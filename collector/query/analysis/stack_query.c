/* See stack_query.h. A stream's events go through the stack join in their order; its results are summed by process and
 * stack, or reported event by event. */
#include "collector/query/analysis/stack_query.h"

#include "collector/query/analysis/event_roles.h"
#include "collector/query/analysis/query.h"
#include "collector/query/analysis/request_tracker.h"
#include "collector/query/analysis/sample_sources.h"
#include "collector/query/analysis/stack_missed.h"
#include "collector/query/analysis/stack_sums.h"
#include "collector/query/analysis/stackwalk_reader.h"
#include "collector/query/analysis/thread_time.h"
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

enum { DEFAULT_INTERVAL = 10000, FRAMES_MAX = 4096, ASK_EVERY = 1 << 16, SAMPLES_MAX = 1 << 22 };

static const char TOO_MANY_ROWS[] = "join stacks: more than 1,048,576 rows; narrow the time range";

typedef struct plan {
    ec_event_cursor_plan cursor; /* first */
    ea_stack_plan stack;
    enum ec_role role;
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

/* An event that counts by itself. pair: the key of its sum, its time and weight. */
typedef struct sample {
    ec_stack_pair pair;
    uint32_t pid, tid;
} sample;

struct ec_stack_query {
    ec_stack_query_options options;
    ec_stack_counts *counts;
    ec_archive *archive;
    ea_arena arena; /* plans */
    int64_t from_utc_ns, to_utc_ns;
    const ec_archive_stream *stream;
    ea_stacks *stacks;
    ea_stack_join *join;
    ec_thread_time times;
    ec_address_space *space;
    ec_methods *methods;
    ec_event_cursor *cursor;
    ec_stackwalk_reader walks; /* with the clock's times */
    int (*wants)(const ec_stack_query *q, const plan *p);
    subject *subjects; /* a ring: those that are in the window */
    uint64_t first_subject, next_subject;
    size_t subject_mask;
    ec_request_tracker requests; /* of disks; their subjects are numbers of subjects */
    ea_u64_map unanswered;       /* tags of events that count as incomplete since their user half has not come */
    ec_stack_sums sums;
    sample *samples; /* with wants_samples */
    size_t sample_count, sample_capacity;
    ec_sample_sources sources;
    uint64_t source; /* the wanted counter's */
    int has_source;
    const ea_clock *clock; /* of the batch at hand, to know it again: gone with the batch. NULL: there was none */
    ea_clock clock_copy;   /* raw_from, raw_to and raw_until are of this one */
    int64_t raw_from, raw_to;
    int64_t raw_until;      /* events until then may have weight in the range */
    int64_t raw_last;       /* the latest event so far */
    int64_t subject_utc_ns; /* the latest event with weight */
    unsigned pointer_size;  /* of the machine's kernel */
    uint64_t steps;
    int open_rc;             /* a time without a recorded end had no room */
    int is_each_event;       /* every event counts, with its class and thread: ec_stack_query_sums */
    ec_stack_links *links;   /* with is_each_event: it counts by itself. NULL: with those that are alike */
    ec_stack_missed *missed; /* with is_each_event: halves without an event count, not events. NULL: events */
    const char **names;      /* of classes, each once */
    uint32_t name_count;
};

/* ---- classes ---- */

/* The roles of events that have this weight, or are needed for it. */
static uint32_t roles_of_weight(enum ec_weight weight) {
    uint32_t roles =
        EC_ROLE_BIT(CPU_SAMPLE) | EC_ROLE_BIT(COUNTER_SAMPLE) | EC_ROLE_BIT(SWITCH) | EC_ROLE_BIT(SAMPLE_INTERVAL);
    if (weight == EC_WEIGHT_READY || weight == EC_WEIGHT_WAIT)
        roles |= EC_ROLE_BIT(READY) | EC_ROLE_BIT(THREAD_BEGIN) | EC_ROLE_BIT(THREAD_END) | EC_ROLE_BIT(LOST);
    if (weight == EC_WEIGHT_DISK)
        roles |= EC_ROLE_BIT(DISK_BEGIN) | EC_ROLE_BIT(FLUSH_BEGIN) | EC_ROLE_BIT(DISK_END) | EC_ROLE_BIT(FLUSH_END);
    if (weight == EC_WEIGHT_FAULTS)
        roles |= EC_ROLE_BIT(FAULT);
    return roles;
}

/* Of disk requests the IRP and the response time are enough. */
static unsigned field_count_of_weight(enum ec_weight weight) {
    return weight == EC_WEIGHT_DISK ? EC_DISK_RESPONSE + 1 : EC_EVENT_CURSOR_FIELDS;
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

static const ec_event_cursor_plan *join_plan_class(void *arg, const ea_class *c) {
    ec_stack_query *q = arg;
    plan *p = ea_arena_zalloc(&q->arena, 1, sizeof *p);
    if (!p)
        return &EC_EVENT_CURSOR_NO_MEMORY;
    for (unsigned i = 0; i < EC_EVENT_CURSOR_FIELDS; i++)
        p->cursor.fields[i] = -1;
    p->cursor.addresses = -1;
    p->stack = ea_stack_plan_of(c);
    if (q->is_each_event && number_name(q, c->name, &p->name))
        return &EC_EVENT_CURSOR_NO_MEMORY;
    switch (p->stack.role) {
    case EA_STACK_IS_NOTHING:
        return NULL;
    case EA_STACK_IS_EVENT:
        p->role = ec_role_of(c, roles_of_weight(q->options.weight), field_count_of_weight(q->options.weight),
                             &p->cursor, NULL);
        p->cursor.wants_items = 1;
        break;
    case EA_STACK_IS_MATCH:
        p->cursor.wants_items = 1;
        break;
    default:
        ec_stackwalk_reader_plan(&p->cursor, &p->stack);
        break;
    }
    return q->wants(q, p) ? &p->cursor : NULL;
}

static int wants_all(const ec_stack_query *q, const plan *p) {
    (void)q, (void)p;
    return 1;
}

static int wants_intervals(const ec_stack_query *q, const plan *p) {
    (void)q;
    return p->role == EC_ROLE_SAMPLE_INTERVAL;
}

static int wants_definitions(const ec_stack_query *q, const plan *p) {
    (void)q;
    return p->stack.role == EA_STACK_IS_DEFINITION;
}

/* ---- what is summed ---- */

static int wants_pid(const ec_stack_query *q, uint32_t pid) {
    for (size_t i = 0; i < q->options.pid_count; i++)
        if (q->options.pids[i] == pid)
            return 1;
    return q->options.pid_count == 0;
}

/* A counted event lacks a half: it is counted, and *half becomes EC_STACK_HALF_IS_MISSING, so that it is counted once.
 * When there is no memory for its tag it stays unanswered. */
static void note_lack(ec_stack_query *q, const ea_stack_joined *e, uint32_t *half) {
    enum ec_profile_lack lack = e->lacks & EA_STACK_LACKS_ROOM ? EC_LACKS_NO_ROOM : EC_LACKS_UNANSWERED;
    q->counts->incomplete[lack]++;
    *half = EC_STACK_HALF_IS_MISSING;
    if (lack == EC_LACKS_UNANSWERED && ea_u64_map_put(&q->unanswered, e->tag, 1))
        return;
}

/* The half came after all, too late for its event. */
static void on_late(void *arg, uint64_t tag) {
    ec_stack_query *q = arg;
    if (q->missed)
        ec_stack_missed_answer(q->missed, tag);
    else if (ea_u64_map_remove(&q->unanswered, tag)) {
        q->counts->incomplete[EC_LACKS_UNANSWERED]--;
        q->counts->incomplete[EC_LACKS_LATE]++;
    }
}

/* The hash is made of the numbers when all keys have been defined. */
static int add_link(ec_stack_query *q, uint64_t place, uint32_t kernel, uint32_t user) {
    ec_stack_links *l = q->links;
    int rc = EA_GROW(l->links, l->capacity, l->count + 1, l->limit_count);
    if (!rc)
        l->links[l->count++] = (ec_stack_link){.place = place, .hash = (uint64_t)kernel << 32 | user};
    return rc;
}

/* An event that counts, where each one is wanted by itself. pair: the key of its sum. */
static int note_sample(ec_stack_query *q, ec_stack_pair pair, uint32_t pid, uint32_t tid) {
    int rc = EA_GROW(q->samples, q->sample_capacity, q->sample_count + 1, SAMPLES_MAX);
    if (!rc)
        q->samples[q->sample_count++] = (sample){.pair = pair, .pid = pid, .tid = tid};
    return rc;
}

/* An event leaves the window. */
static int stack_query_on_event(void *arg, const ea_stack_joined *e) {
    ec_stack_query *q = arg;
    if (!e->tag)
        return 0;
    EA_ASSERT(e->tag > q->first_subject && e->tag <= q->next_subject); /* they leave in the order of their coming */
    const subject *s = &q->subjects[(e->tag - 1) & q->subject_mask];
    EA_PREFETCH(&q->subjects[(e->tag + EC_STACK_SUMS_COMING) & q->subject_mask]);
    q->first_subject = e->tag;
    if (s->is_open || !s->weight) {
        q->counts->unfinished += s->is_open;
        return 0;
    }
    uint32_t pid = e->pid != UINT32_MAX ? e->pid : s->pid;
    if (pid == UINT32_MAX)
        pid = ec_address_space_pid_of_thread(q->space, e->tid, s->utc_ns);
    if ((q->options.weight == EC_WEIGHT_CPU && (pid == 0 || e->tid == 0)) || !wants_pid(q, pid))
        return 0;
    uint32_t kernel = e->half[EA_STACK_KERNEL], user = e->half[EA_STACK_USER];
    if (q->missed)
        return e->lacks & EA_STACK_LACKS_ANSWER
                   ? ec_stack_missed_await(
                         q->missed, e->tag,
                         &(ec_missed_half){.place = s->place, .utc_ns = s->utc_ns, .pid = pid, .tid = e->tid})
                   : 0;
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
    uint32_t process = ec_address_space_process(q->space, pid, s->utc_ns);
    if (q->options.wants_samples) {
        int rc = note_sample(q,
                             (ec_stack_pair){.process = process,
                                             .epoch = ec_address_space_epoch(q->space, process, s->utc_ns),
                                             .kernel = kernel,
                                             .user = user,
                                             .code = ec_methods_epoch(q->methods, pid, s->utc_ns),
                                             .first_utc_ns = s->utc_ns,
                                             .weight = s->weight},
                             pid, e->tid);
        if (rc)
            return rc;
    }
    return ec_stack_sums_add(&q->sums, (ec_stack_pair){.process = process,
                                                       .epoch = ec_address_space_epoch(q->space, process, s->utc_ns),
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

static int64_t join_later(int64_t utc_ns, int64_t by_ns) {
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
    if (q->missed)
        ec_stack_missed_clock(q->missed, ec_event_position(q->cursor), c);
    q->raw_from = raw_of(c, q->from_utc_ns);
    q->raw_to = raw_of(c, q->to_utc_ns);
    ec_thread_time_range(&q->times, c, q->raw_from, q->raw_to);
    q->raw_until = is_thread_time(q) ? INT64_MAX : q->raw_to;
    q->raw_last = INT64_MIN;
    q->walks = (ec_stackwalk_reader){q->cursor, q->stacks, q->join, q->raw_from, q->raw_until};
    if (ec_event_cursor_pointer_size(q->cursor) > q->pointer_size)
        q->pointer_size = ec_event_cursor_pointer_size(q->cursor);
}

static int may_count(const ec_stack_query *q, int64_t raw) {
    return raw >= q->raw_from && raw < q->raw_until;
}

/* The wanted counter's source, as soon as events say which one it is. sample_class: NULL when no sample has come. */
static void stack_query_find_source(ec_stack_query *q, const ea_class *sample_class) {
    if (q->options.counter && !q->has_source)
        q->has_source = ec_sample_source_find(&q->sources, q->options.counter, sample_class, &q->source);
}

static int on_interval(ec_stack_query *q, const ec_event_cursor_event *e) {
    int rc = ec_sample_sources_add(&q->sources, q->cursor, e);
    stack_query_find_source(q, NULL);
    return rc;
}

/* Notes a source of counter samples that was not requested. */
static void note_source(ec_stack_query *q, uint64_t source) {
    size_t i = 0;
    while (i < q->counts->other_source_count && q->counts->other_sources[i] != source)
        i++;
    if (i == q->counts->other_source_count && i < EC_OTHER_SOURCES)
        q->counts->other_sources[q->counts->other_source_count++] = source;
}

/* The weight of an event; *ret_open: it comes later. */
static uint64_t weight_of(ec_stack_query *q, const ec_event_cursor_event *e, const plan *p, int *ret_open) {
    enum ec_weight w = q->options.weight;
    uint64_t source, n;
    if (q->is_each_event)
        return 1;
    switch (p->role) {
    case EC_ROLE_CPU_SAMPLE:
        if (w != EC_WEIGHT_CPU && w != EC_WEIGHT_SAMPLES)
            return 0;
        n = ec_event_cursor_u64_or_0(q->cursor, e, EC_SAMPLE_COUNT);
        n = n ? n : 1;
        return w == EC_WEIGHT_SAMPLES ? n : n * 100 * (q->sources.timer ? q->sources.timer : DEFAULT_INTERVAL);
    case EC_ROLE_COUNTER_SAMPLE:
        if (w != EC_WEIGHT_PMC)
            return 0;
        stack_query_find_source(q, e->c);
        source = ec_event_cursor_u64_or_0(q->cursor, e, EC_SAMPLE_SOURCE);
        if (!q->has_source || source != q->source) {
            if (may_count(q, e->time))
                note_source(q, source);
            return 0;
        }
        n = ec_sample_interval(&q->sources, source);
        return n ? n : 1;
    case EC_ROLE_SWITCH:
        return w == EC_WEIGHT_READY || w == EC_WEIGHT_WAIT ? ec_thread_time_switch(&q->times, q->cursor, e) : 0;
    case EC_ROLE_READY:
        ec_thread_time_ready(&q->times, q->cursor, e);
        return 0;
    case EC_ROLE_THREAD_BEGIN:
    case EC_ROLE_THREAD_END:
        ec_thread_time_life(&q->times, q->cursor, e, p->role);
        return 0;
    case EC_ROLE_LOST:
        ec_thread_time_lost(&q->times, e->time, EC_OPEN_AT_LOSS);
        return 0;
    case EC_ROLE_DISK_BEGIN:
    case EC_ROLE_FLUSH_BEGIN:
        *ret_open = 1;
        return 0;
    case EC_ROLE_FAULT:
        return 1;
    default:
        return 0;
    }
}

static void end_disk(ec_stack_query *q, const ec_event_cursor_event *e) {
    ec_request r;
    uint64_t ns = ec_disk_request_ns(q->cursor, e);
    if (!ec_request_end(&q->requests, ec_event_cursor_u64_or_0(q->cursor, e, EC_DISK_IRP), &r)) {
        uint64_t ticks = ec_event_cursor_u64_or_0(q->cursor, e, EC_DISK_RESPONSE);
        if (may_count(q, e->time - (int64_t)(ticks & INT64_MAX))) {
            q->counts->unbegun++;
            q->counts->unbegun_ns += ns;
        }
        return;
    }
    if (r.subject < q->first_subject)
        return;
    EA_ASSERT(r.subject < q->next_subject);
    subject *s = &q->subjects[r.subject & q->subject_mask];
    s->is_open = 0;
    s->weight = ns;
}

static int is_sample(const plan *p) {
    return p->role == EC_ROLE_CPU_SAMPLE || p->role == EC_ROLE_COUNTER_SAMPLE;
}

static int on_other(ec_stack_query *q, const ec_event_cursor_event *e, const plan *p) {
    uint64_t thread, tag = 0;
    uint32_t tid = e->tid;
    int is_open = 0;
    int rc = p->role == EC_ROLE_SAMPLE_INTERVAL ? on_interval(q, e) : 0;
    if (rc)
        return rc;
    if (p->role == EC_ROLE_DISK_END || p->role == EC_ROLE_FLUSH_END)
        end_disk(q, e);
    if ((is_sample(p) && ec_event_cursor_u64(q->cursor, e, EC_SAMPLE_TID, &thread)) ||
        (p->role == EC_ROLE_SWITCH && ec_event_cursor_u64(q->cursor, e, EC_SWITCH_NEW_TID, &thread)))
        tid = (uint32_t)thread;
    uint64_t weight = weight_of(q, e, p, &is_open);
    if ((weight || is_open) && may_count(q, e->time)) {
        rc = subject_room(q);
        if (rc)
            return rc;
        subject *s = &q->subjects[q->next_subject & q->subject_mask];
        *s = (subject){.utc_ns = ec_event_cursor_utc_ns(e),
                       .weight = weight,
                       .pid = e->pid,
                       .name = p->name,
                       .is_open = (uint8_t)is_open};
        if (q->is_each_event)
            s->place = ec_event_position(q->cursor);
        else if (is_sample(p))
            s->address = ec_event_cursor_u64_or_0(q->cursor, e, EC_SAMPLE_ADDRESS);
        if (is_open) { /* without room it stays open: its end does not come */
            int full = ec_request_begin(&q->requests, ec_event_cursor_u64_or_0(q->cursor, e, EC_DISK_BEGIN_IRP),
                                        &(ec_request){.time = e->time, .subject = q->next_subject});
            (void)full;
        }
        tag = ++q->next_subject;
        q->subject_utc_ns = s->utc_ns > q->subject_utc_ns ? s->utc_ns : q->subject_utc_ns;
    }
    rc = ea_stack_join_event(q->join, e->time, tid, e->cpu, tag);
    if (p->stack.clr)
        ea_stack_join_clr_event(q->join, (uint64_t)p->stack.clr << 32 | e->tid);
    ea_ext item;
    for (unsigned i = 0; !rc && ec_event_cursor_item(q->cursor, e, i, &item); i++)
        ea_stack_feed_item(q->join, &item, EA_STACK_IS_EVENT);
    return rc;
}

/* Each time that threads waited or were ready in the range has ended, and its stack is there. */
static int all_has_ended(const ec_stack_query *q, const ec_event_cursor_event *e) {
    int64_t last = q->subject_utc_ns > q->to_utc_ns ? q->subject_utc_ns : q->to_utc_ns;
    return is_thread_time(q) && ec_event_cursor_utc_ns(e) > join_later(last, LATE_NS) &&
           !ec_thread_time_is_open(&q->times, e->time);
}

/* Everything of a pass over the stream. Definitions count that came after after_utc_ns, until to_utc_ns. */
static int join_play(ec_stack_query *q, int64_t from_utc_ns, int64_t to_utc_ns, int64_t after_utc_ns, ea_err *err) {
    ec_event_cursor_event e;
    int rc = ec_event_cursor_open(&q->cursor, q->archive,
                                  &(ec_event_cursor_options){.stream = q->stream,
                                                             .from_utc_ns = from_utc_ns,
                                                             .to_utc_ns = to_utc_ns,
                                                             .plan = join_plan_class,
                                                             .arg = q,
                                                             .wants_gaps = q->wants == wants_all && is_thread_time(q)},
                                  err);
    if (rc)
        return rc;
    int is_over = 0; /* only definitions still count */
    q->clock = NULL;
    while ((rc = ec_event_cursor_next(q->cursor, &e, err)) == 1) {
        const plan *p = (const plan *)e.plan;
        if (e.is_after_gap)
            ec_thread_time_lost(&q->times, q->raw_last, EC_OPEN_AT_LOSS);
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
            ea_stack_join_from(q->join, &(ea_stack_origin){ec_event_position(q->cursor), e.time, e.pid, e.tid});
        switch (p->stack.role) {
        case EA_STACK_IS_EVENT:
            rc = q->wants == wants_all ? on_other(q, &e, p) : 0;
            if (q->wants == wants_intervals)
                rc = on_interval(q, &e);
            break;
        case EA_STACK_IS_MATCH: {
            ea_ext item;
            for (unsigned i = 0; ec_event_cursor_item(q->cursor, &e, i, &item); i++)
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
        rc = rc ? rc : q->open_rc;
        if (rc) {
            rc = ea_fail(err, rc,
                         rc == EA_ELIMIT ? "make a profile: too many distinct stacks or events; narrow the time range"
                                         : "make a profile");
            break;
        }
    }
    ec_event_cursor_close(q->cursor);
    q->cursor = NULL;
    return rc;
}

/* ---- a stream's end ---- */

/* The .NET method that an address was in: of no module, or of a native image that was compiled ahead of time. */
static const ec_method *method_at(const ec_stack_query *q, const ec_stack_pair *p, uint64_t address) {
    const ea_process *process = ec_address_space_get_process(q->space, p->process);
    const ec_method *m = process ? ec_methods_find(q->methods, process->pid, address, p->last_utc_ns) : NULL;
    if (m && m->begin_utc_ns != INT64_MIN && m->begin_utc_ns < process->life.begin_utc_ns)
        return NULL; /* of a process that had this number before */
    return m;
}

/* All frames of a sum's stack, the innermost first, FRAMES_MAX at most: 0, or what fn returned. */
static int each_frame(const ec_stack_query *q, const ec_stack_pair *p, int (*fn)(void *arg, const ec_stack_frame *f),
                      void *arg) {
    size_t n = 0;
    int rc = 0;
    for (int h = 0; !rc && h < EA_STACK_HALVES; h++) {
        size_t count;
        const uint64_t *addresses = ea_stacks_get(q->stacks, h == EA_STACK_KERNEL ? p->kernel : p->user, &count);
        for (size_t i = 0; !rc && addresses && i < count && n < FRAMES_MAX; i++, n++) {
            ec_stack_frame f = {.address = addresses[i], .is_return = n > 0};
            int is_kernel = ea_stack_is_kernel(f.address, q->pointer_size);
            f.module = ec_address_space_module(q->space, p->process, p->epoch, f.address, is_kernel, &f.is_unloaded);
            /* a call may be the last that a method does */
            f.method = is_kernel ? NULL : method_at(q, p, f.address - (uint64_t)f.is_return);
            rc = fn(arg, &f);
        }
    }
    return rc;
}

/* A sum on its way to a caller. */
typedef struct frames_json {
    ea_text *frames;
    size_t depth;
} frames_json;

static int add_frame_json(void *arg, const ec_stack_frame *f) {
    frames_json *to = arg;
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

/* Whether anything of the stack is known: halves may be keys that were never defined. */
static int has_frames(const ec_stack_query *q, uint32_t kernel, uint32_t user) {
    size_t kernel_count, user_count;
    (void)ea_stacks_get(q->stacks, kernel, &kernel_count);
    (void)ea_stacks_get(q->stacks, user, &user_count);
    return kernel_count || user_count;
}

static int report_pair(const ec_stack_query *q, const ec_stack_pair *p, ea_text *t,
                       int (*fn)(void *arg, const ec_stack_sum *s), void *arg) {
    ec_stack_sum sum = {.name = q->names[p->name],
                        .image = ec_address_space_process_name(q->space, p->process),
                        .pid = p->pid,
                        .tid = p->tid,
                        .process_key = ec_address_space_process_key(q->space, p->process),
                        .count = p->events,
                        .hash = hash_of_stack(q, p->kernel, p->user),
                        .first_utc_ns = p->first_utc_ns,
                        .last_utc_ns = p->last_utc_ns};
    ea_text_clear(t);
    ea_text_char(t, '[');
    frames_json to = {.frames = t};
    (void)each_frame(q, p, add_frame_json, &to);
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
    ec_thread_time_deinit(&q->times);
    ec_address_space_close(q->space);
    ec_methods_close(q->methods);
    ec_request_tracker_deinit(&q->requests);
    ec_sample_sources_deinit(&q->sources);
    ea_u64_map_deinit(&q->unanswered);
    ea_large_free(q->subjects, (q->subject_mask + 1) * sizeof *q->subjects);
    ec_stack_sums_deinit(&q->sums);
    free(q->samples);
    free(q->names);
    ea_arena_deinit(&q->arena);
    free(q);
}

static int join_create(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
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
    ec_request_tracker_init(&q->requests);
    ec_sample_sources_init(&q->sources);
    ea_u64_map_init(&q->unanswered, 1 << 20);
    return 0;
}

static void on_missed(void *arg, const ea_stack_missed *half) {
    ec_stack_query *q = arg;
    ec_stack_missed_add(q->missed, half);
}

/* Whether a thread's process is requested. */
static int wants_thread(void *arg, uint32_t tid, int64_t utc_ns) {
    ec_stack_query *q = arg;
    return wants_pid(q, ec_address_space_pid_of_thread(q->space, tid, utc_ns));
}

/* A wait or a ready time of a thread without a recorded end: the stack of its end is that of the switch that did not
 * come. */
static void on_open(void *arg, const ec_thread_open *o) {
    ec_stack_query *q = arg;
    uint32_t pid = ec_address_space_pid_of_thread(q->space, o->tid, o->begin_utc_ns);
    if (q->options.wants_samples && !q->open_rc)
        q->open_rc = note_sample(q,
                                 (ec_stack_pair){.process = ec_address_space_process(q->space, pid, o->begin_utc_ns),
                                                 .name = o->kind,
                                                 .first_utc_ns = o->begin_utc_ns,
                                                 .weight = o->ns},
                                 pid, o->tid);
    int rc =
        ec_stack_sums_add(&q->sums, (ec_stack_pair){.process = ec_address_space_process(q->space, pid, o->begin_utc_ns),
                                                    .name = o->kind,
                                                    .first_utc_ns = o->begin_utc_ns,
                                                    .last_utc_ns = o->begin_utc_ns,
                                                    .weight = o->ns,
                                                    .events = 1});
    q->open_rc = q->open_rc ? q->open_rc : rc;
    q->counts->total += o->ns;
    q->counts->events++;
    q->counts->without_stack++;
}

static int begin_stream(ec_stack_query *q, ea_err *err) {
    uint64_t left_out = 0;
    int rc = ec_address_space_open_run(&q->space, q->archive, q->stream, err);
    if (!rc && q->missed)
        q->missed->space = q->space;
    if (!rc) /* without batches that hold methods nothing is read */
        rc = ec_methods_open(&q->methods, q->archive, q->stream, NULL, &left_out, err);
    q->counts->methods_left_out += left_out;
    if (!rc)
        rc = ea_stacks_create(&q->stacks, q->options.limit_stacks_bytes, err);
    if (!rc)
        rc = ea_stack_join_create(&q->join, q->stacks,
                                  &(ea_stack_join_options){.limit_bytes = q->options.limit_window_bytes
                                                                              ? q->options.limit_window_bytes
                                                                              : WINDOW_BYTES,
                                                           .on_event = stack_query_on_event,
                                                           .on_late = on_late,
                                                           .on_missed = q->missed ? on_missed : NULL,
                                                           .arg = q},
                                  err);
    if (!rc)
        rc = ec_thread_time_init(&q->times, q->options.weight == EC_WEIGHT_WAIT ? EC_SCHED_WAITING : EC_SCHED_READY,
                                 wants_thread, q, err);
    if (!rc)
        q->times.on_open = on_open;
    return rc;
}

/* Reads the stream: its sums are in pairs. */
static int join_stream(ec_stack_query *q, ea_err *err) {
    int needs_history = is_thread_time(q);
    int64_t late = needs_history ? INT64_MAX : join_later(q->to_utc_ns, LATE_NS);
    int rc = begin_stream(q, err);
    if (!rc && !needs_history && !q->is_each_event) {
        q->wants = wants_intervals;
        rc = join_play(q, INT64_MIN, q->from_utc_ns, INT64_MAX, err);
    }
    q->wants = wants_all;
    if (!rc)
        rc = join_play(q, needs_history ? INT64_MIN : q->from_utc_ns, late, INT64_MIN, err);
    if (!rc && needs_history)
        ec_thread_time_lost(&q->times, q->raw_last, EC_OPEN_AT_END);
    if (!rc && ((rc = q->open_rc) || (rc = ea_stack_join_end(q->join)) || (rc = ec_stack_sums_flush(&q->sums))))
        rc = ea_fail(err, rc, "make a profile");
    q->wants = wants_definitions;
    if (!rc && late < INT64_MAX && ea_stacks_count(q->stacks).undefined)
        rc = join_play(q, late, INT64_MAX, late, err);
    q->counts->unfinished += q->times.unfinished;
    q->counts->unfinished_ns += q->times.unfinished_ns;
    if (!rc && ec_thread_time_is_short(&q->times))
        rc = ea_fail(err, EA_ENOMEM, "make a profile");
    return rc;
}

/* Whether a half is a key without a definition; an event that lacks a half is counted as such already. */
static int is_undefined(const ec_stack_query *q, const ec_stack_pair *p) {
    return p->kernel != EC_STACK_HALF_IS_MISSING && p->user != EC_STACK_HALF_IS_MISSING &&
           (ea_stacks_is_undefined(q->stacks, p->kernel) || ea_stacks_is_undefined(q->stacks, p->user));
}

int ec_stack_query_run(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                       const ec_stack_query_options *options, ec_stack_counts *counts, ea_err *err) {
    ec_stack_query *q = NULL;
    int rc = join_create(&q, archive, stream, options, counts, err);
    if (!rc)
        rc = join_stream(q, err);
    if (rc) {
        ec_stack_query_close(q);
        return rc;
    }
    for (size_t i = 0; i < q->sums.count; i++)
        if (is_undefined(q, &q->sums.pairs[i]))
            counts->incomplete[EC_LACKS_UNDEFINED] += q->sums.pairs[i].events;
    const uint64_t *halves = ea_stack_join_counts(q->join);
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        counts->halves[i] += halves[i];
    counts->keys_undefined += ea_stacks_count(q->stacks).undefined;
    counts->is_interval_assumed |= options->weight == EC_WEIGHT_CPU && q->sums.count && !q->sources.timer;
    *ret = q;
    return 0;
}

size_t ec_stack_query_count(const ec_stack_query *q) {
    return q->sums.count;
}

void ec_stack_query_get(const ec_stack_query *q, size_t i, ec_stack_weight *ret) {
    const ec_stack_pair *p = &q->sums.pairs[i];
    *ret = (ec_stack_weight){ec_address_space_process_name(q->space, p->process),
                             !q->is_each_event && p->name ? ec_thread_open_name(p->name) : NULL, p->weight, p->events};
}

int ec_stack_query_frames(const ec_stack_query *q, size_t i, int (*fn)(void *arg, const ec_stack_frame *f), void *arg) {
    return each_frame(q, &q->sums.pairs[i], fn, arg);
}

size_t ec_stack_query_sample_count(const ec_stack_query *q) {
    return q->sample_count;
}

void ec_stack_query_sample(const ec_stack_query *q, size_t i, ec_stack_sample *ret) {
    const sample *s = &q->samples[i];
    *ret = (ec_stack_sample){.sum = ec_stack_sums_find(&q->sums, &s->pair),
                             .process = s->pair.process,
                             .pid = s->pid,
                             .tid = s->tid,
                             .utc_ns = s->pair.first_utc_ns,
                             .weight = s->pair.weight};
}

/* ---- each event ---- */

/* Joins all of a stream's stacks to their events: the results are in pairs, or in links. */
static int join_each_event(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                           int64_t from_utc_ns, int64_t to_utc_ns, ec_stack_missed *missed, ec_stack_links *links,
                           ec_stack_counts *counts, ea_err *err) {
    const ec_stack_query_options options = {
        .weight = EC_WEIGHT_SAMPLES, .from_utc_ns = from_utc_ns, .to_utc_ns = to_utc_ns};
    int rc = join_create(ret, archive, stream, &options, counts, err);
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
    for (size_t i = 0; !rc && i < q->sums.count; i++)
        if (has_frames(q, q->sums.pairs[i].kernel, q->sums.pairs[i].user) &&
            (rc = report_pair(q, &q->sums.pairs[i], &t, fn, arg)))
            rc = ea_fail(err, rc, rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    ec_stack_query_close(q);
    ea_text_deinit(&t);
    return rc;
}

int ec_stack_query_missed(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                          int (*fn)(void *arg, const ec_missed_half *m), void *arg, ea_err *err) {
    ec_stack_missed missed;
    ec_stack_missed_init(&missed, fn, arg, from_utc_ns, to_utc_ns);
    ec_stack_counts counts = {.total = 0};
    ec_stack_query *q = NULL;
    int rc = join_each_event(&q, archive, stream, INT64_MIN, to_utc_ns, &missed, NULL, &counts, err);
    int missed_rc = rc ? 0 : ec_stack_missed_end(&missed);
    if (missed_rc)
        rc = ea_fail(err, missed_rc, missed_rc == EA_ELIMIT ? TOO_MANY_ROWS : "join stacks");
    ec_stack_query_close(q);
    ec_stack_missed_deinit(&missed);
    return rc;
}

int ec_stack_query_links(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                         ec_stack_links *ret, ea_err *err) {
    ec_stack_counts counts = {.total = 0};
    ec_stack_query *q = NULL;
    int rc = join_each_event(&q, archive, stream, from_utc_ns, to_utc_ns, NULL, ret, &counts, err);
    size_t kept = 0;
    for (size_t i = 0; !rc && i < ret->count; i++) {
        const ec_stack_link *l = &ret->links[i];
        uint32_t kernel = (uint32_t)(l->hash >> 32), user = (uint32_t)l->hash;
        if (has_frames(q, kernel, user))
            ret->links[kept++] = (ec_stack_link){.place = l->place, .hash = hash_of_stack(q, kernel, user)};
    }
    if (!rc)
        ret->count = kept;
    ec_stack_query_close(q);
    return rc;
}
