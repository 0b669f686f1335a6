/* See watcher.h. */
#include "service/core/watcher.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/stack/stack_feed.h"

#include <stdlib.h>
#include <string.h>

/* A walk follows its event within the buffer of its processor; buffers of other processors come up to a flush later. */
static const int64_t DELAY_NS = 1000000000;
/* Records come up to a flush of the session later than their time: a tick waits for so long. */
static const int64_t LATE_NS = (int64_t)2 * 1000000000;

static const size_t LIMIT_BYTES = (size_t)64 << 20;

enum { RUNS_MAX = 64 };

/* A record that waits for its stack, with copies of all that it points to. */
typedef struct waiting {
    struct waiting *next;
    ea_record record;
    const ea_class *c;
    const ea_clock *clock;
    int64_t utc_ns;
    uint64_t number;
    uint32_t half[EA_STACK_HALVES];
    size_t bytes; /* of this block */
} waiting;

/* Halves of an event that has left the join's window. */
typedef struct found {
    uint64_t number;
    uint32_t half[EA_STACK_HALVES];
    uint32_t pid; /* of the walk */
} found;

struct ea_watcher {
    ea_lang_run *runs[RUNS_MAX];
    uint8_t is_over[RUNS_MAX];
    size_t run_count;
    size_t limit_bytes;
    ea_machine *machine;
    /* the tree */
    int has_tree;
    ea_u64_map tree; /* pid -> 1 */
    /* stacks */
    ea_stacks *stacks; /* NULL: no program uses them */
    ea_stack_join *join;
    ea_stack_feed *feed;
    waiting *first, **last;
    size_t waiting_bytes;
    uint64_t next_number, settled; /* events before `settled` get no further half */
    found *found;
    size_t found_first, found_count, found_capacity;
    /* time */
    int64_t last_utc_ns, last_monotonic_ns;
    int has_last, is_live;
};

static int on_joined(void *arg, const ea_stack_joined *e) {
    ea_watcher *w = arg;
    if (e->tag < w->settled)
        return 0; /* its record did not wait any longer */
    w->settled = e->tag + 1;
    if (!e->half[EA_STACK_KERNEL] && !e->half[EA_STACK_USER])
        return 0;
    if (w->found_first == w->found_count)
        w->found_first = w->found_count = 0;
    if (EA_GROW(w->found, w->found_capacity, w->found_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    w->found[w->found_count++] = (found){e->tag, {e->half[EA_STACK_KERNEL], e->half[EA_STACK_USER]}, e->pid};
    return 0;
}

static const uint64_t *frames_of(const void *arg, uint32_t number, size_t *ret_count) {
    return ea_stacks_get(arg, number, ret_count);
}

int ea_watcher_create(ea_watcher **ret, size_t limit_bytes, ea_err *err) {
    ea_watcher *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "watch");
    w->limit_bytes = limit_bytes ? limit_bytes : LIMIT_BYTES;
    w->last = &w->first;
    ea_u64_map_init(&w->tree, 0);
    int rc = ea_machine_create(&w->machine, &(ea_machine_options){.limit_bytes = w->limit_bytes}, err);
    if (rc) {
        ea_watcher_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ea_watcher_destroy(ea_watcher *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->run_count; i++)
        ea_lang_run_destroy(w->runs[i]);
    for (waiting *q = w->first, *next; q; q = next) {
        next = q->next;
        free(q);
    }
    ea_stack_feed_destroy(w->feed);
    ea_stack_join_destroy(w->join);
    ea_stacks_destroy(w->stacks);
    ea_machine_destroy(w->machine);
    ea_u64_map_deinit(&w->tree);
    free(w->found);
    free(w);
}

static int open_stacks(ea_watcher *w, ea_err *err) {
    ea_stack_join_options how = {.limit_bytes = w->limit_bytes, .on_event = on_joined, .arg = w};
    int rc = ea_stacks_create(&w->stacks, w->limit_bytes, err);
    if (!rc)
        rc = ea_stack_join_create(&w->join, w->stacks, &how, err);
    return rc ? rc : ea_stack_feed_create(&w->feed, w->join, err);
}

int ea_watcher_program(ea_watcher *w, const ea_lang_program *program, const ea_lang_run_options *how,
                       ea_lang_run **ret_run, ea_err *err) {
    ea_lang_run_options o = *how;
    int rc = 0;
    if (w->run_count == RUNS_MAX)
        return ea_fail(err, EA_ELIMIT, "watch: more than %d programs", RUNS_MAX);
    if (ea_lang_needs_stacks(program) && !w->stacks)
        rc = open_stacks(w, err);
    if (rc)
        return rc;
    o.machine = w->machine;
    if (ea_lang_needs_stacks(program)) {
        o.frames = frames_of;
        o.frames_arg = w->stacks;
    }
    rc = ea_lang_run_create(&w->runs[w->run_count], program, &o, err);
    if (rc)
        return rc;
    ea_lang_run *run = w->runs[w->run_count++];
    rc = ea_lang_run_begin(run);
    if (rc < 0)
        return ea_fail(err, rc, "run a program");
    w->is_over[w->run_count - 1] = rc != 0;
    *ret_run = run;
    return 0;
}

/* ---- the tree ---- */

int ea_watcher_tree(ea_watcher *w, uint32_t root_pid, ea_err *err) {
    w->has_tree = 1;
    return ea_u64_map_put(&w->tree, root_pid, 1) ? ea_fail(err, EA_ENOMEM, "watch a command") : 0;
}

int ea_watcher_is_of_tree(const void *watcher, int64_t pid) {
    const ea_watcher *w = watcher;
    return pid >= 0 && ea_u64_map_get(&w->tree, (uint64_t)pid) != NULL;
}

static int follow_tree(ea_watcher *w, const ea_record *r, const ea_class *c, ea_err *err) {
    uint64_t pid, parent;
    if (strcmp(c->name, "Process/Start") != 0 || !ea_event_u64(c, r, "ProcessId", &pid) ||
        !ea_event_u64(c, r, "ParentId", &parent))
        return 0;
    if (ea_u64_map_get(&w->tree, parent))
        return ea_u64_map_put(&w->tree, pid, 1) ? ea_fail(err, EA_ENOMEM, "watch a command") : 0;
    (void)ea_u64_map_remove(&w->tree, pid); /* the number is another process's now */
    return 0;
}

/* ---- records ---- */

static int all_are_over(const ea_watcher *w) {
    size_t n = 0;
    for (size_t i = 0; i < w->run_count; i++)
        n += w->is_over[i];
    return w->run_count && n == w->run_count;
}

static int finish_step(ea_watcher *w, size_t i, int rc, ea_err *err) {
    if (rc < 0)
        return ea_fail(err, rc, "run a program");
    w->is_over[i] |= rc == 1;
    return 0;
}

/* A record with all that is known of it, to the programs. */
static int watcher_release(ea_watcher *w, const ea_lang_event *e, ea_err *err) {
    int rc = ea_machine_apply(w->machine, e->record, e->c, e->utc_ns, err);
    if (!rc && w->has_tree)
        rc = follow_tree(w, e->record, e->c, err);
    for (size_t i = 0; i < w->run_count && !rc; i++)
        if (!w->is_over[i])
            rc = finish_step(w, i, ea_lang_run_event(w->runs[i], e), err);
    return rc;
}

/* Takes the halves that were found for a number; numbers only rise. */
static void take_halves(ea_watcher *w, uint64_t number, ea_lang_event *e) {
    while (w->found_first < w->found_count && w->found[w->found_first].number < number)
        w->found_first++;
    if (w->found_first < w->found_count && w->found[w->found_first].number == number) {
        const found *f = &w->found[w->found_first];
        e->stack[EA_STACK_KERNEL] = f->half[EA_STACK_KERNEL];
        e->stack[EA_STACK_USER] = f->half[EA_STACK_USER];
        e->stack_pid = f->pid;
        w->found_first++;
    }
}

static int release_settled(ea_watcher *w, ea_err *err) {
    int rc = 0;
    while (!rc && w->first && w->first->number < w->settled) {
        waiting *q = w->first;
        ea_lang_event e = {.record = &q->record, .c = q->c, .clock = q->clock, .utc_ns = q->utc_ns};
        take_halves(w, q->number, &e);
        rc = watcher_release(w, &e, err);
        w->first = q->next;
        if (!w->first)
            w->last = &w->first;
        w->waiting_bytes -= q->bytes;
        free(q);
    }
    return rc;
}

/* Times are what traces say: a sum of theirs may have no room. */
static int64_t time_plus(int64_t utc_ns, int64_t ns) {
    if (ns < 0)
        return utc_ns < INT64_MIN - ns ? INT64_MIN : utc_ns + ns;
    return utc_ns > INT64_MAX - ns ? INT64_MAX : utc_ns + ns;
}

/* Events until a time wait no longer, nor do the records between them. */
static int watcher_settle(ea_watcher *w, int64_t until_utc_ns, ea_err *err) {
    uint64_t until = w->settled;
    int64_t before_raw = INT64_MIN;
    for (const waiting *q = w->first; q && q->utc_ns <= until_utc_ns; q = q->next) {
        until = q->number + 1;
        before_raw = q->record.time_raw > before_raw ? q->record.time_raw : before_raw;
    }
    if (until <= w->settled)
        return 0;
    if (before_raw < INT64_MAX && ea_stack_join_settle(w->join, before_raw + 1))
        return ea_fail(err, EA_ENOMEM, "join stacks");
    if (until > w->settled)
        w->settled = until;
    return release_settled(w, err);
}

static waiting *copy_of(const ea_record *r) {
    size_t bytes = sizeof(waiting) + r->ext_count * sizeof *r->ext + r->payload_bytes;
    for (size_t i = 0; i < r->ext_count; i++)
        bytes += r->ext[i].size_bytes;
    waiting *q = malloc(bytes);
    if (!q)
        return NULL;
    ea_ext *ext = (ea_ext *)(q + 1);
    uint8_t *at = (uint8_t *)(ext + r->ext_count);
    *q = (waiting){.record = *r, .bytes = bytes};
    for (size_t i = 0; i < r->ext_count; i++) {
        ext[i] = r->ext[i];
        ext[i].data = at;
        if (ext[i].size_bytes)
            memcpy(at, r->ext[i].data, ext[i].size_bytes);
        at += ext[i].size_bytes;
    }
    if (r->payload_bytes)
        memcpy(at, r->payload, r->payload_bytes);
    q->record.ext = ext;
    q->record.payload = at;
    return q;
}

static int add_to_queue(ea_watcher *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                        int64_t utc_ns, ea_err *err) {
    waiting *q = copy_of(record);
    if (!q)
        return ea_fail(err, EA_ENOMEM, "watch");
    q->c = c;
    q->clock = clock;
    q->utc_ns = utc_ns;
    q->number = w->next_number++;
    w->waiting_bytes += q->bytes;
    *w->last = q;
    w->last = &q->next;
    int rc = ea_stack_feed_record(w->feed, &q->record, c, q->number);
    if (rc)
        return ea_fail(err, rc, "join stacks");
    rc = release_settled(w, err);
    if (!rc && w->first && w->first->utc_ns <= time_plus(utc_ns, -DELAY_NS))
        rc = watcher_settle(w, time_plus(utc_ns, -DELAY_NS), err);
    while (!rc && w->first && w->waiting_bytes > w->limit_bytes) /* the oldest go without waiting any longer */
        rc = watcher_settle(w, w->first->utc_ns, err);
    return rc;
}

int ea_watcher_add(ea_watcher *w, const ea_record *record, const ea_class *c, const ea_clock *clock, int64_t utc_ns,
                   ea_err *err) {
    int rc;
    w->has_last = 1;
    w->last_utc_ns = utc_ns;
    w->last_monotonic_ns = 0;
    if (w->stacks)
        rc = add_to_queue(w, record, c, clock, utc_ns, err);
    else
        rc = watcher_release(w, &(ea_lang_event){.record = record, .c = c, .clock = clock, .utc_ns = utc_ns}, err);
    return rc ? rc : all_are_over(w);
}

void ea_watcher_live(ea_watcher *w) {
    w->is_live = 1;
}

int ea_watcher_idle(ea_watcher *w, ea_err *err) {
    int rc = 0;
    if (!w->has_last && w->is_live) {
        w->has_last = 1;
        w->last_utc_ns = ea_utc_ns();
    }
    if (!w->has_last)
        return all_are_over(w);
    if (!w->last_monotonic_ns) /* the first pause after a record */
        w->last_monotonic_ns = ea_monotonic_ns();
    int64_t passed_ns = ea_monotonic_ns() - w->last_monotonic_ns;
    if (passed_ns < LATE_NS)
        return all_are_over(w);
    if (w->stacks)
        rc = watcher_settle(w, INT64_MAX, err);
    for (size_t i = 0; i < w->run_count && !rc; i++)
        if (!w->is_over[i])
            rc = finish_step(w, i, ea_lang_run_time(w->runs[i], time_plus(w->last_utc_ns, passed_ns - LATE_NS)), err);
    return rc ? rc : all_are_over(w);
}

int ea_watcher_end(ea_watcher *w, ea_err *err) {
    int rc = w->stacks ? watcher_settle(w, INT64_MAX, err) : 0;
    for (size_t i = 0; i < w->run_count && !rc; i++) {
        rc = ea_lang_run_end(w->runs[i]);
        if (rc)
            rc = ea_fail(err, rc, "run a program");
    }
    return rc;
}
