/* The daemon's thread, which folds what comes. See state_worker.h. */
#include "collector/state/state_worker_parts.h"

#include "proto/base/cpu_throttle.h"
#include "proto/base/platform.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKER_IDLE_MS = 1000,
    WORKER_PAUSE_MS = 100, /* between two folds, so that arrivals are folded together */
    TURN_MS = 50,          /* of processor time, of an agent in a round of the daemon */
    KEYFRAME_WISHES = 6,   /* for one gap: an agent may have none that is whole */
    KEYFRAME_SECONDS = 10, /* between two wishes for a keyframe of one stream */
    GAPS_MAX = 1024,       /* streams whose gaps are remembered */
};

/* A stream whose state has a gap. */
typedef struct gap {
    char host[256];
    uint8_t stream[EA_STREAM_ID_BYTES];
    int64_t not_before_ns; /* monotonic: when to ask again */
    unsigned asked;
} gap;

struct ec_state_worker_worker {
    ec_state_worker_options options; /* the caller's */
    char *dir;
    ea_thread *thread;
    ea_cpu_throttle pace; /* the thread's own */
    ea_mutex *mutex;
    ea_cond *cond;
    int woken, has_space; /* under the mutex, as are the next two */
    gap *gaps;            /* GAPS_MAX; the oldest first */
    size_t gap_count;
    atomic_int stop;
};

static int worker_goes_on(void *arg) {
    ec_state_worker_worker *w = arg;
    return !atomic_load_explicit(&w->stop, memory_order_relaxed);
}

/* Before each batch. */
static int worker_takes_on(void *arg) {
    ec_state_worker_worker *w = arg;
    while (worker_goes_on(w) && ea_cpu_throttle_wait(&w->pace, w->options.counters, EA_COUNT_ingest_paced_seconds)) {
    }
    return worker_goes_on(w);
}

static void worker_used(void *arg, const char *host, int64_t cpu_ns) {
    const ec_state_worker_worker *w = arg;
    if (w->options.on_used)
        w->options.on_used(w->options.arg, host, cpu_ns);
}

static void worker_note(void *arg, const char *text) {
    const ec_state_worker_worker *w = arg;
    if (w->options.on_note)
        w->options.on_note(w->options.arg, text);
}

static gap *find_gap(ec_state_worker_worker *w, const char *host, const uint8_t *stream) {
    ea_mutex_assert_held(w->mutex);
    for (size_t i = 0; i < w->gap_count; i++)
        if (memcmp(w->gaps[i].stream, stream, EA_STREAM_ID_BYTES) == 0 && strcmp(w->gaps[i].host, host) == 0)
            return &w->gaps[i];
    return NULL;
}

static void worker_gap(void *arg, const char *host, const uint8_t *stream, int is_gap) {
    ec_state_worker_worker *w = arg;
    ea_mutex_lock(w->mutex);
    gap *at = find_gap(w, host, stream);
    if (!is_gap && at) {
        w->gap_count--;
        memmove(at, at + 1, (size_t)(w->gaps + w->gap_count - at) * sizeof *at);
    } else if (at) {
        at->asked = 0; /* another one */
    } else if (is_gap) {
        if (w->gap_count == GAPS_MAX)
            memmove(w->gaps, w->gaps + 1, --w->gap_count * sizeof *w->gaps);
        EA_ASSERT(w->gap_count < GAPS_MAX);
        at = &w->gaps[w->gap_count++];
        *at = (gap){.not_before_ns = 0};
        snprintf(at->host, sizeof at->host, "%s", host);
        memcpy(at->stream, stream, sizeof at->stream);
    }
    ea_mutex_unlock(w->mutex);
}

int ec_state_worker_wants_keyframe(ec_state_worker_worker *w, const char *host, const uint8_t *stream) {
    int64_t now_ns = ea_monotonic_ns();
    ea_mutex_lock(w->mutex);
    gap *at = find_gap(w, host, stream);
    int wanted = at && at->asked < KEYFRAME_WISHES && now_ns >= at->not_before_ns;
    if (wanted)
        at->asked++;
    if (wanted)
        at->not_before_ns = now_ns + EC_MS_TO_NS(1000) * KEYFRAME_SECONDS;
    ea_mutex_unlock(w->mutex);
    return wanted;
}

/* Waits until the worker is woken, is asked to stop, or the time is over. */
static void worker_wait(ec_state_worker_worker *w, int64_t wait_ns) {
    ea_mutex_lock(w->mutex);
    if (!w->woken && worker_goes_on(w))
        (void)ea_cond_wait_for(w->cond, w->mutex, wait_ns);
    w->woken = 0;
    ea_mutex_unlock(w->mutex);
}

static int take_space(ec_state_worker_worker *w) {
    ea_mutex_lock(w->mutex);
    int has_space = w->has_space;
    w->has_space = 0;
    ea_mutex_unlock(w->mutex);
    return has_space;
}

/* What a history leaves alone, for the next one. */
typedef struct left_alone {
    ea_u64_map failed, lacked_space;
} left_alone;

static void swap_maps(ea_u64_map *a, ea_u64_map *b) {
    ea_u64_map mine = *a;
    *a = *b;
    *b = mine;
}

static void swap_failed(ec_state_worker *h, left_alone *other) {
    swap_maps(&h->failed, &other->failed);
    swap_maps(&h->lacked_space, &other->lacked_space);
}

static void work_until_stopped(void *arg) {
    ec_state_worker_worker *w = arg;
    ec_state_worker *h = NULL;
    ec_state_worker_options options = w->options;
    options.keep_going = worker_takes_on;
    options.on_note = worker_note;
    options.on_gap = worker_gap;
    options.on_used = worker_used;
    options.arg = w;
    if (!options.turn_ns)
        options.turn_ns = EC_MS_TO_NS(TURN_MS);
    int is_reported = 0, failed;
    left_alone before; /* what the history before it remembered of failures */
    ea_u64_map_init(&before.failed, EC_STATE_FAILED_MAX);
    ea_u64_map_init(&before.lacked_space, EC_STATE_FAILED_MAX);
    while (worker_goes_on(w)) {
        ea_err err = {0};
        int opens = !h, rc = h ? 0 : ec_state_worker_open(&h, w->dir, &options, &err);
        if (!rc && opens)
            swap_failed(h, &before);
        if (!rc && take_space(w))
            ec_state_worker_has_space(h);
        if (!rc)
            rc = ec_state_fold_round(h, NULL, &failed, &err);
        if (rc && rc != EA_EBUSY && !is_reported) /* a query that folds releases the lock soon */
            worker_note(w, err.message);
        is_reported = rc && rc != EA_EBUSY;
        /* Begin anew, in a while. On a full disk the tables stay open: to open them, for readers too, takes space where
         * the file of the WAL's index is gone. */
        if (rc && rc != EA_EFULL && h) {
            swap_failed(h, &before);
            ec_state_worker_close(h);
            h = NULL;
        }
        if (!rc && h->is_left) /* more is to be done already */
            continue;
        worker_wait(w, EC_MS_TO_NS(WORKER_IDLE_MS));
        if (worker_goes_on(w))
            ea_sleep_ns(EC_MS_TO_NS(WORKER_PAUSE_MS));
    }
    ec_state_worker_close(h);
    ea_u64_map_deinit(&before.failed);
    ea_u64_map_deinit(&before.lacked_space);
}

static void worker_destroy(ec_state_worker_worker *w) {
    ea_cond_destroy(w->cond);
    ea_mutex_destroy(w->mutex);
    free(w->gaps);
    free(w->dir);
    free(w);
}

int ec_state_worker_start(ec_state_worker_worker **ret, const char *dir, const ec_state_worker_options *options,
                          ea_err *err) {
    ec_state_worker_worker *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "start the history's thread");
    w->options = *options;
    w->pace.percent = options->cpu_percent;
    w->dir = strdup(dir);
    w->gaps = calloc(GAPS_MAX, sizeof *w->gaps);
    int rc =
        w->dir && w->gaps ? ea_mutex_create(&w->mutex, err) : ea_fail(err, EA_ENOMEM, "start the history's thread");
    if (!rc)
        rc = ea_cond_create(&w->cond, err);
    if (!rc)
        rc = ea_thread_start(&w->thread, "history", work_until_stopped, w, err);
    if (rc) {
        worker_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_state_worker_wake(ec_state_worker_worker *w) {
    ea_mutex_lock(w->mutex);
    w->woken = 1;
    ea_cond_signal(w->cond);
    ea_mutex_unlock(w->mutex);
}

void ec_state_worker_retry(ec_state_worker_worker *w) {
    ea_mutex_lock(w->mutex);
    w->woken = w->has_space = 1;
    ea_cond_signal(w->cond);
    ea_mutex_unlock(w->mutex);
}

void ec_state_worker_stop(ec_state_worker_worker *w) {
    if (!w)
        return;
    atomic_store_explicit(&w->stop, 1, memory_order_relaxed);
    ec_state_worker_wake(w);
    ea_thread_join(w->thread);
    worker_destroy(w);
}
