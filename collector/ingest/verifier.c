/* Lanes of threads that look at uploads. See verifier.h. */
#include "collector/ingest/verifier.h"

#include "collector/net/log.h"
#include "proto/base/cpu_throttle.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    USES = 4096, /* places for what agents used lately; two agents of one place share it */
    RETRY_S = 1,
    RETRY_STOPPING_S = 5,
    THREADS_MAX = EC_QUICK_THREADS + EC_SLOW_THREADS_MAX,
    CLASSES_MAX = 1 << 16, /* of an upload's descriptions that were read; the writer reads more than those itself */
};

enum which_lane { QUICK, SLOW, LANES };

/* How much more than its share of the processors an agent has used, as of a time. */
typedef struct use {
    int64_t above_ns, at_ns;
} use;

typedef struct lane {
    ec_turns turns;
    ea_cond *wake;
} lane;

typedef struct worker {
    ec_verifier *v;
    ea_thread *thread;
    enum which_lane lane;
    const ec_upload *at_hand; /* NULL: none; guarded by the verifier's mutex */
    ec_store *store;          /* the thread's own; NULL: it could not be opened */
    int64_t charged_cpu_ns;   /* of the thread, up to which agents are charged */
} worker;

struct ec_verifier {
    ec_verifier_options options;
    uint64_t seed;
    ea_mutex *mutex; /* guards all that follows */
    lane lanes[LANES];
    use uses[USES];
    int stopping;
    size_t worker_count;
    worker workers[THREADS_MAX];
};

/* ---- shares ---- */

/* The mutex is held. */
static use *use_of(ec_verifier *v, const char *agent) EA_REQUIRES(v->mutex) {
    ea_mutex_assert_held(v->mutex);
    use *u = &v->uses[ea_hash64(agent, strlen(agent), v->seed) % USES];
    int64_t now_ns = ea_monotonic_ns();
    u->above_ns -= (now_ns - u->at_ns) / EC_QUICK_SHARE;
    if (u->above_ns < 0)
        u->above_ns = 0;
    u->at_ns = now_ns;
    return u;
}

/* 1: the agent's place is the slow lane from now on. */
static int add_use(ec_verifier *v, const char *agent, int64_t used_ns) {
    ea_mutex_lock(v->mutex);
    use *of = use_of(v, agent);
    of->above_ns += used_ns;
    int is_slow = of->above_ns >= EC_QUICK_NS;
    ea_mutex_unlock(v->mutex);
    return is_slow;
}

/* Charges the agent of an upload what this thread used since the last time; 1: its place is the slow lane. */
static int verifier_charge(worker *me, const ec_upload *u) {
    ec_verifier *v = me->v;
    int64_t cpu_ns = ea_thread_cpu_ns(), used_ns = cpu_ns - me->charged_cpu_ns;
    me->charged_cpu_ns = cpu_ns;
    ec_quota_charge(v->options.quota, EC_QUOTA_processor, u->agent, (uint64_t)used_ns, ea_monotonic_ns());
    return add_use(v, u->agent, used_ns);
}

/* ---- one upload ---- */

/* What is kept beside the body is the agent's as the body is. */
static void verifier_keep(const ec_verifier *v, ec_upload *u, size_t bytes) {
    u->held_bytes += bytes;
    ec_quota_hold(v->options.quota, EC_QUOTA_uploads, u->agent, (int64_t)bytes, ea_monotonic_ns());
}

/* Its framing is sound: takes what it needs of the quotas. */
static void take_quota(ec_verifier *v, ec_upload *u) {
    ec_quota *q = v->options.quota;
    int64_t now_ns = ea_monotonic_ns();
    ec_quota_refusal above;
    const ec_quota_amounts needed = {
        .of = {
            [EC_QUOTA_bytes] = u->len_bytes, [EC_QUOTA_batches] = u->batch_count, [EC_QUOTA_events] = u->event_count}};
    if (!ec_quota_check(q, EC_QUOTA_AGENT, u->agent, now_ns, &above) ||
        !ec_quota_take(q, EC_QUOTA_AGENT, u->agent, &needed, now_ns, &above)) {
        ec_upload_refuse(u, 429, above.retry_after_s, above.text);
        return;
    }
    u->is_walked = 1;
    u->checks = calloc(u->batch_count, sizeof *u->checks);
    if (u->checks)
        verifier_keep(v, u, u->batch_count * sizeof *u->checks);
    else
        ec_upload_refuse(u, 503, RETRY_S, "out of memory");
}

/* Looks at the framing of one batch. */
static void verifier_walk(worker *me, ec_upload *u) {
    ec_verifier *v = me->v;
    ea_err err;
    int rc = ec_upload_check_next(u, &err);
    if (rc == 0) {
        take_quota(v, u);
    } else if (rc == EA_ENOMEM || rc == EA_ECRYPTO) { /* it says nothing of the upload */
        ec_upload_refuse(u, 503, RETRY_S, err.message);
    } else if (rc < 0) {
        ea_count(v->options.counters, EA_COUNT_ingest_bad_batches, 1);
        ec_log_about(v->options.log, EC_LOG_AGENT, "refused an upload of %s: %s", u->agent, err.message);
        ec_upload_refuse(u, 400, 0, err.message);
    }
}

static void note_check(ec_upload *u, int rc, const char *text) {
    EA_ASSERT(u->checks && u->check_count < u->batch_count);
    ec_check *check = &u->checks[u->check_count];
    check->text = rc < 0 || rc == EC_CHECK_LATER ? ea_arena_strdup(&u->texts, text) : NULL;
    if (!check->text && (rc < 0 || rc == EC_CHECK_LATER)) {
        check->text = "out of memory";
        rc = EC_CHECK_LATER;
    }
    check->rc = rc;
    u->check_count++;
}

/* Of the last check: the writer need not read the descriptions again. */
static void keep_classes(const worker *me, ec_upload *u) {
    ec_check *check = &u->checks[u->check_count - 1];
    size_t count;
    const ea_class_hash *classes = ec_store_checked_classes(me->store, &count);
    if (!count || count > CLASSES_MAX - u->class_count)
        return;
    check->classes = ea_arena_copy(&u->texts, classes, count * sizeof *classes);
    check->class_count = check->classes ? count : 0;
    verifier_keep(me->v, u, check->class_count * sizeof *classes);
    u->class_count += check->class_count;
}

/* Reads the records of one batch; 0: there is none left. */
static int read_records(worker *me, ec_upload *u) {
    const uint8_t *batch;
    size_t n = 0;
    ea_err err;
    ec_quota_refusal above;
    if (!me->store || u->check_count == u->batch_count ||
        ea_upload_next(u->data, u->len_bytes, &u->offset, &batch, &n, &err) != 1)
        return 0;
    if (u->check_count && !ec_quota_check(me->v->options.quota, EC_QUOTA_AGENT, u->agent, ea_monotonic_ns(), &above)) {
        u->pause_s = above.retry_after_s;
        while (u->check_count < u->batch_count)
            note_check(u, EC_CHECK_LATER, above.text);
        return 0;
    }
    note_check(u, ec_store_check(me->store, u->agent, batch, n, &err), err.message);
    keep_classes(me, u);
    return 1;
}

static int verifier_is_stopping(ec_verifier *v) {
    ea_mutex_lock(v->mutex);
    int stopping = v->stopping;
    ea_mutex_unlock(v->mutex);
    return stopping;
}

static int verifier_others_wait(worker *me, const ec_upload *u) {
    ea_mutex_lock(me->v->mutex);
    int others = ec_turns_have_other(me->v->lanes[me->lane].turns.first, u->agent);
    ea_mutex_unlock(me->v->mutex);
    return others;
}

/* Goes on with an upload: 1 when it is looked at, 0 when it is to wait for its next turn (u->is_slow: in the slow
 * lane). */
static int go_on(worker *me, ec_upload *u) {
    int64_t begin_cpu_ns = ea_thread_cpu_ns();
    int goes_on = 1;
    me->charged_cpu_ns = begin_cpu_ns;
    while (goes_on && !u->status) {
        if (verifier_is_stopping(me->v)) {
            if (!u->is_walked)
                ec_upload_refuse(u, 503, RETRY_STOPPING_S, "stopping");
            return 1;
        }
        if (u->is_walked)
            goes_on = read_records(me, u);
        else
            verifier_walk(me, u);
        u->is_slow = verifier_charge(me, u);
        if (!goes_on || u->status)
            return 1;
        if (me->lane == QUICK ? u->is_slow
                              : me->charged_cpu_ns - begin_cpu_ns > EC_SLOW_SLICE_NS && verifier_others_wait(me, u))
            return 0;
    }
    return 1;
}

/* ---- lanes ---- */

/* The mutex is held. Whether another thread of the lane has an upload of the agent. */
static int is_served(const worker *me, const char *agent) EA_REQUIRES(me->v->mutex) {
    ea_mutex_assert_held(me->v->mutex);
    const ec_verifier *v = me->v;
    for (size_t i = 0; i < v->worker_count; i++)
        if (v->workers[i].lane == me->lane && v->workers[i].at_hand && strcmp(v->workers[i].at_hand->agent, agent) == 0)
            return 1;
    return 0;
}

/* The mutex is held. The next upload of the lane; NULL: none that may be served now. */
static ec_upload *take_next(worker *me) EA_REQUIRES(me->v->mutex) {
    ea_mutex_assert_held(me->v->mutex);
    ec_turns *turns = &me->v->lanes[me->lane].turns;
    ec_upload **at = &turns->first;
    while (*at && is_served(me, (*at)->agent))
        at = &(*at)->next;
    if (!*at && me->lane == SLOW)
        at = &turns->first;
    return *at ? ec_turns_take(turns, at) : NULL;
}

/* The mutex is held. */
static void verifier_add(ec_verifier *v, ec_upload *u) EA_REQUIRES(v->mutex) {
    ea_mutex_assert_held(v->mutex);
    lane *l = &v->lanes[u->is_slow ? SLOW : QUICK];
    ec_turns_add(&l->turns, u);
    ea_cond_broadcast(l->wake);
}

/* The mutex is held. The upload at hand is so no more; u: it waits for its next turn. */
static void verifier_leave(worker *me, ec_upload *u) EA_REQUIRES(me->v->mutex) {
    ea_mutex_assert_held(me->v->mutex);
    me->at_hand = NULL;
    if (u)
        verifier_add(me->v, u);
    ea_cond_broadcast(me->v->lanes[me->lane].wake); /* its agent's next one may be served */
}

static void verifier_open_store(worker *me) {
    const ec_verifier_options *o = &me->v->options;
    ea_err err;
    if (o->folder && !me->store && ec_store_open(&me->store, o->folder, &(ec_store_options){0}, &err))
        ec_log_line(o->log, "the writer reads all records: %s", err.message);
}

static void worker_main(void *arg) {
    worker *me = arg;
    ec_verifier *v = me->v;
    ea_cpu_throttle pace = {.percent = v->options.cpu_percent};
    if (me->lane == SLOW)
        ea_thread_lower(EA_BULK_LOW);
    ea_mutex_lock(me->v->mutex);
    for (;;) {
        ec_upload *u = take_next(me);
        if (!u && v->stopping)
            break;
        if (!u) {
            ea_cond_wait(v->lanes[me->lane].wake, me->v->mutex);
            continue;
        }
        EA_ASSERT(!me->at_hand);
        me->at_hand = u;
        ea_mutex_unlock(me->v->mutex);
        while (!verifier_is_stopping(v) &&
               ea_cpu_throttle_wait(&pace, v->options.counters, EA_COUNT_ingest_paced_seconds)) {
        }
        verifier_open_store(me);
        while (u && !go_on(me, u)) {
            ea_mutex_lock(me->v->mutex);
            int is_left = !v->stopping; /* else its lane's threads may have ended */
            if (is_left)
                verifier_leave(me, u);
            ea_mutex_unlock(me->v->mutex);
            if (is_left)
                u = NULL;
        }
        if (u) {
            ea_mutex_lock(me->v->mutex);
            verifier_leave(me, NULL);
            ea_mutex_unlock(me->v->mutex);
            v->options.done(v->options.done_arg, u);
        }
        ea_mutex_lock(me->v->mutex);
    }
    ea_mutex_unlock(me->v->mutex);
}

/* ---- from outside ---- */

static size_t slow_threads(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    return n < 1 ? 1 : n > EC_SLOW_THREADS_MAX ? EC_SLOW_THREADS_MAX : (size_t)n;
}

int ec_verifier_start(ec_verifier **ret, const ec_verifier_options *options, ea_err *err) {
    ec_verifier *v = calloc(1, sizeof *v);
    if (!v)
        return ea_fail(err, EA_ENOMEM, "start the verifier");
    v->options = *options;
    if (!v->options.max_waiting_uploads)
        v->options.max_waiting_uploads = 4096;
    int rc = ea_random_bytes(&v->seed, sizeof v->seed, err);
    if (!rc)
        rc = ea_mutex_create(&v->mutex, err);
    for (size_t i = 0; !rc && i < LANES; i++)
        rc = ea_cond_create(&v->lanes[i].wake, err);
    size_t count = EC_QUICK_THREADS + slow_threads();
    if (rc) {
        ec_verifier_destroy(v);
        return rc;
    }
    ea_mutex_lock(v->mutex);
    for (size_t i = 0; !rc && i < count; i++) {
        worker *me = &v->workers[i];
        *me = (worker){.v = v, .lane = i < EC_QUICK_THREADS ? QUICK : SLOW};
        rc = ea_thread_start(&me->thread, me->lane == QUICK ? "verifier" : "verifier-slow", worker_main, me, err);
        v->worker_count += !rc;
    }
    ea_mutex_unlock(v->mutex);
    if (rc) {
        ec_verifier_destroy(v);
        return rc;
    }
    *ret = v;
    return 0;
}

int ec_verifier_push(ec_verifier *v, ec_upload *u) {
    int rc = 0;
    ea_mutex_lock(v->mutex);
    if (v->stopping) {
        rc = EA_ECANCELED;
    } else if (v->lanes[QUICK].turns.count + v->lanes[SLOW].turns.count >= v->options.max_waiting_uploads) {
        rc = EA_EFULL;
    } else {
        use *of = use_of(v, u->agent);
        of->above_ns += (int64_t)u->len_bytes * EC_BYTE_NS;
        u->is_slow = of->above_ns >= EC_QUICK_NS;
        verifier_add(v, u);
    }
    ea_mutex_unlock(v->mutex);
    return rc;
}

void ec_verifier_used(ec_verifier *v, const char *agent, int64_t cpu_ns) {
    (void)add_use(v, agent, cpu_ns);
}

uint64_t ec_verifier_waiting_bytes(ec_verifier *v) {
    ea_mutex_lock(v->mutex);
    uint64_t bytes = v->lanes[QUICK].turns.len_bytes + v->lanes[SLOW].turns.len_bytes;
    ea_mutex_unlock(v->mutex);
    return bytes;
}

void ec_verifier_stop(ec_verifier *v) {
    ea_mutex_lock(v->mutex);
    v->stopping = 1;
    for (size_t i = 0; i < LANES; i++)
        ea_cond_broadcast(v->lanes[i].wake);
    ea_mutex_unlock(v->mutex);
    for (size_t i = 0; i < v->worker_count; i++) {
        ea_thread_join(v->workers[i].thread);
        ec_store_close(v->workers[i].store);
    }
    v->worker_count = 0;
}

void ec_verifier_destroy(ec_verifier *v) {
    if (!v)
        return;
    if (v->worker_count)
        ec_verifier_stop(v);
    for (size_t i = 0; i < LANES; i++)
        ea_cond_destroy(v->lanes[i].wake);
    ea_mutex_destroy(v->mutex);
    free(v);
}
