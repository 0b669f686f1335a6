/* The fold over the store. See state_worker.h. */
#include "collector/state/state_worker.h"

#include "collector/state/ledger_report.h"
#include "collector/state/object_names_db.h"
#include "collector/state/state_db.h"
#include "collector/store/retention.h"
#include "collector/store/store.h"
#include "proto/base/array.h"
#include "proto/base/cpu_throttle.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/state/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_ENDED = 8192, /* ended rows that a machine remembers; they are read back with it */
    WORKER_IDLE_MS = 1000,
    WORKER_PAUSE_MS = 100, /* between two folds, so that arrivals are folded together */
    CATCH_UP_POLL_MS = 20,
    TURN_MS = 50,           /* of processor time, of an agent in a round of the daemon */
    LOOK_BACK = 8,          /* batches in which a lost record's CPU is looked for */
    ALERT_SECONDS = 10,     /* between two lines about ledgers */
    KEYFRAME_WISHES = 6,    /* for one gap: an agent may have none that is whole */
    KEYFRAME_SECONDS = 10,  /* between two wishes for a keyframe of one stream */
    GAPS_MAX = 1024,        /* streams whose gaps are remembered */
    CLASS_BYTES = 64 << 20, /* that the classes of one stream take; batches of further ones cannot be read */
    AGAIN_SECONDS = 10,     /* at least so long between two folds of a stream from its start, or after a failure */
    FAILURES_IN_A_ROW = 8,  /* without a stream that goes on: then it is not the streams */
    FAILED_MAX = 1024,      /* streams whose failure is remembered */
};

#define MS_TO_NS(ms) ((int64_t)(ms)*1000000)

/* One stream whose machine is in memory. */
typedef struct live {
    ec_state_worker *history;
    ec_state_fold fold;
    ea_machine *machine;
    ea_registry *registry;
    ec_ledger *ledger;
    ec_object_names_db *naming;
    uint64_t number;        /* of the batch at hand */
    uint64_t missing_count; /* before it */
    uint64_t stream_id;     /* the store's */
    uint64_t used;          /* the least recently used is evicted */
    int has_gap;            /* since the last whole keyframe; -1: not reported yet */
    int64_t again_ns;       /* processor time of a fold from the start that is not done yet; 0: there is none */
    /* of a hole that is waited for: when the last batch had come, and that by the monotonic clock */
    int64_t hole_received_utc_ns, hole_since_ns;
} live;

/* A stream that has something new. */
typedef struct work {
    uint64_t stream_id, batch_count, event_count, highest_number;
    uint64_t expired_batch_count, expired_event_count;
    int64_t received_last_utc_ns;
    char host[256];
    uint8_t stream[EA_STREAM_ID_BYTES];
} work;

struct ec_state_worker {
    ec_state_worker_options options;
    ec_store *store;
    ec_state_db *tables;
    live **lives;
    size_t live_count;
    uint64_t use_count;
    uint64_t pruned_below; /* the tables hold nothing of segments below this number */
    ea_u64_map done;       /* the store's stream id -> batches + events that are folded */
    ea_u64_map again;  /* the store's stream id -> monotonic time before which it is not folded from its start again */
    ea_u64_map failed; /* the store's stream id -> monotonic time before which it is not tried again; FAILED_MAX */
    work *works;
    size_t work_count, work_capacity;
    ec_store_place begin;     /* the end of the store when this worker was opened */
    ec_store_place looked;    /* what the tables have of the last round */
    uint64_t first_stream_id; /* the stream with which the next round begins; 0: the first one */
    ea_u64_map turns;         /* hash of the host -> processor time of its turn in this round */
    int64_t turn_ends_cpu_ns; /* of the thread: when the turn at hand is over */
    int64_t used_cpu_ns;      /* of new batches of the stream at hand */
    int is_left;              /* a turn ended before its streams were done */
    ea_err *err;              /* where the observers write an error; of the call at hand */
    uint64_t folded_count;
    int64_t alert_logged_ns; /* monotonic */
    uint64_t alerts_untold;
    int64_t failure_logged_ns; /* monotonic */
    uint64_t failures_untold;
    int stopping;
};

static void note(const ec_state_worker *h, const char *format, ...) EA_PRINTF(2, 3);

static void note(const ec_state_worker *h, const char *format, ...) {
    char line[512];
    va_list args;
    if (!h->options.on_note)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    h->options.on_note(h->options.arg, line);
}

/* A ledger that does not balance, in the log: alerts may come with every batch, lines do not. */
static void note_alert(void *arg, const char *text) {
    ec_state_worker *h = arg;
    int64_t now_ns = ea_monotonic_ns();
    if (h->alert_logged_ns && now_ns - h->alert_logged_ns < MS_TO_NS(1000) * ALERT_SECONDS) {
        h->alerts_untold++;
        return;
    }
    if (h->alerts_untold)
        note(h, "%s (and %" PRIu64 " alerts before it; see etwcollector ledger)", text, h->alerts_untold);
    else
        note(h, "%s", text);
    h->alert_logged_ns = now_ns;
    h->alerts_untold = 0;
}

/* ---- one machine ---- */

static int on_process(void *arg, const ea_process *p) {
    const live *l = arg;
    return ec_state_db_put_process(l->history->tables, l->fold.stream_number, p, l->history->err);
}

static int on_thread(void *arg, const ea_thread_row *t) {
    const live *l = arg;
    return ec_state_db_put_thread(l->history->tables, l->fold.stream_number, t, l->history->err);
}

static int on_module(void *arg, const ea_module *m) {
    const live *l = arg;
    return ec_state_db_put_module(l->history->tables, l->fold.stream_number, m, l->history->err);
}

/* The state of the stream at hand lacks something, or nothing any more. */
static void tell_gap(live *l, int gap) {
    const ec_state_worker *h = l->history;
    if (!gap && !l->has_gap)
        return;
    l->has_gap = gap;
    if (h->options.on_gap)
        h->options.on_gap(h->options.arg, l->fold.host, l->fold.stream, gap);
}

/* A keyframe's corrections show rows that were lost, or folded wrongly: both raise an alert. */
static int on_keyframe(void *arg, const ea_keyframe_result *r) {
    live *l = arg;
    char text[1024];
    if (r->whole)
        tell_gap(l, 0);
    if (r->whole && !r->added && !r->completed && !r->closed)
        return 0;
    snprintf(text, sizeof text,
             "a keyframe of %" PRIu32 " rows%s differs from the state: %" PRIu32 " added, %" PRIu32
             " completed, %" PRIu32 " closed: %s",
             r->named, r->whole ? "" : ", of which parts are missing,", r->added, r->completed, r->closed, r->text);
    return ec_ledger_alert(l->ledger, l->number, "", EC_ALERT_KEYFRAME, r->utc_ns, (uint64_t)r->added + r->completed,
                           r->closed, text, l->history->err);
}

static void live_destroy(live *l) {
    if (!l)
        return;
    ea_machine_destroy(l->machine);
    ec_ledger_close(l->ledger);
    ec_object_names_db_close(l->naming);
    ea_registry_destroy(l->registry);
    free(l);
}

static void drop_live(ec_state_worker *h, const live *l) {
    for (size_t i = 0; i < h->live_count; i++)
        if (h->lives[i] == l) {
            live_destroy(h->lives[i]);
            h->lives[i] = h->lives[--h->live_count];
            return;
        }
}

static int live_create(live **ret, ec_state_worker *h, const work *w, ea_err *err) {
    static const ea_machine_observer OBSERVER = {on_process, on_thread, on_module, on_keyframe};
    live *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "fold a stream");
    l->history = h;
    l->stream_id = w->stream_id;
    l->has_gap = -1;
    ea_machine_options options = {.limit_ended = LIMIT_ENDED,
                                  .limit_bytes = h->options.limit_state_bytes,
                                  .observer = &OBSERVER,
                                  .observer_arg = l,
                                  .counters = h->options.counters};
    ec_object_names_db_options naming = {.limit_names = h->options.limit_names,
                                         .limit_operations = h->options.limit_operations,
                                         .counters = h->options.counters};
    int rc = ec_state_db_get_fold(h->tables, w->host, w->stream, &l->fold, err);
    if (!rc)
        rc = ea_machine_create(&l->machine, &options, err);
    if (!rc)
        rc = ea_registry_create(&l->registry, 0, err);
    if (!rc) {
        ea_registry_limit_bytes(l->registry, CLASS_BYTES);
        rc = ec_ledger_open(&l->ledger, h->tables, &l->fold, err);
    }
    if (!rc)
        rc = ec_object_names_db_open(&l->naming, h->tables, l->fold.stream_number, &naming, err);
    if (!rc && l->fold.position)
        rc = ec_state_db_restore(h->tables, &l->fold, l->machine, err);
    if (rc) {
        live_destroy(l);
        return rc;
    }
    /* what was deleted before its turn came counts as folded, else the fold would wait for it */
    if (!l->fold.position && !l->fold.batch_count) {
        l->fold.batch_count = w->expired_batch_count;
        l->fold.event_count = w->expired_event_count;
    }
    tell_gap(l, l->fold.missing_count || l->fold.damaged_count); /* which keyframes came since is not kept */
    *ret = l;
    return 0;
}

static int get_live(live **ret, ec_state_worker *h, const work *w, ea_err *err) {
    size_t oldest = 0;
    for (size_t i = 0; i < h->live_count; i++) {
        if (h->lives[i]->stream_id == w->stream_id) {
            h->lives[i]->used = ++h->use_count;
            *ret = h->lives[i];
            return 0;
        }
        if (h->lives[i]->used < h->lives[oldest]->used)
            oldest = i;
    }
    if (h->live_count == h->options.live_streams)
        drop_live(h, h->lives[oldest]);
    int rc = live_create(ret, h, w, err);
    if (rc)
        return rc;
    (*ret)->used = ++h->use_count;
    EA_ASSERT(h->live_count < h->options.live_streams);
    h->lives[h->live_count++] = *ret;
    return 0;
}

/* ---- one batch ---- */

/* A batch that can never be read, as opposed to a call that failed this time. */
static int is_damage(int rc) {
    return rc == EA_ECORRUPT || rc == EA_EFORMAT || rc == EA_ETRUNCATED || rc == EA_ELIMIT || rc == EA_EUNSUPPORTED ||
           rc == EA_ENOTFOUND;
}

static int concerns(const ea_batch_view *v) {
    for (size_t g = 0; g < ea_batch_group_count(v); g++) {
        const ea_class *c = ea_batch_group_class(v, g);
        if (ea_machine_concerns(&c->provider, c->code) || ea_object_names_concerns(&c->provider, c->code))
            return 1;
    }
    return 0;
}

/* The records of one batch, in arrival order. A live session delivers late buffers; the place to hold records back for
 * a bounded time, and to fold them by time, is here. */
static int fold_records(live *l, ea_batch_view *v, ea_err *err) {
    const ea_record *record;
    const ea_class *c;
    int rc;
    if (!concerns(v))
        return 0;
    while ((rc = ea_batch_next(v, &record, &c, err)) == 1) {
        int names = ea_object_names_concerns(&c->provider, c->code),
            machine = ea_machine_concerns(&c->provider, c->code);
        if (!names && !machine)
            continue;
        if (record->source >= ea_batch_source_count(v))
            return ea_fail(err, EA_ECORRUPT, "a record names source %u", record->source);
        int64_t utc_ns = ea_clock_to_utc_ns(&ea_batch_source(v, record->source)->clock, record->time_raw);
        rc = machine ? ea_machine_apply(l->machine, record, c, utc_ns, err) : 0;
        if (!rc && names)
            rc = ec_object_names_db_apply(l->naming, record, c, utc_ns, err);
        if (rc)
            return rc;
    }
    return rc;
}

static int on_tombstone(const ea_tombstone *t, void *arg) {
    if (t->event_count)
        tell_gap(arg, 1);
    return 0;
}

/* Reads a batch of the stream with its classes; *ret_view is to be closed. */
static int open_batch(live *l, const uint8_t *data, size_t len_bytes, ea_batch_view **ret_view, ea_err *err) {
    int rc = ea_batch_open(ret_view, data, len_bytes, l->registry, err);
    if (rc == EA_ENOTFOUND) { /* described before this process began, or by a batch of a higher number */
        rc = ec_store_load_classes(l->history->store, l->stream_id, data, len_bytes, l->registry, err);
        if (!rc)
            rc = ea_batch_open(ret_view, data, len_bytes, l->registry, err);
    }
    return rc;
}

/* Where Windows lost something in a CPU's events: the last event before may be in an earlier batch. What LOOK_BACK
 * batches do not have begins with the first of them, or, near the stream's beginning, with the session. */
static int look_back(live *l, const ec_batch_row *row, ec_lost_record *lost, size_t count, ea_err *err) {
    ec_batch_row earlier;
    const uint8_t *data;
    size_t len_bytes, open = 0;
    int64_t seen_utc_ns = row->begin_utc_ns;
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        open += lost[i].begin_utc_ns == INT64_MIN;
    for (uint64_t back = 1; !rc && open && back <= LOOK_BACK && back < row->number; back++) {
        ea_batch_view *v = NULL;
        rc = ec_store_next_batch(l->history->store, l->stream_id, row->number - back - 1, &earlier, err);
        if (rc < 0)
            return rc;
        rc = 0;
        if (earlier.number != row->number - back || !earlier.event_count)
            continue;
        if (earlier.begin_utc_ns < seen_utc_ns)
            seen_utc_ns = earlier.begin_utc_ns;
        rc = ec_store_read(l->history->store, &earlier, &data, &len_bytes, err);
        if (!rc)
            rc = open_batch(l, data, len_bytes, &v, err);
        if (!rc)
            rc = ec_lost_look_back(v, lost, count, &open, err);
        ea_batch_close(v);
        if (is_damage(rc))
            rc = 0;
    }
    for (size_t i = 0; row->number > LOOK_BACK && i < count; i++)
        if (lost[i].begin_utc_ns == INT64_MIN)
            lost[i].begin_utc_ns = seen_utc_ns;
    return rc;
}

static int fold_batch(live *l, const ec_batch_row *row, ea_err *err) {
    ec_state_worker *h = l->history;
    const uint8_t *data;
    size_t len_bytes, lost_count = 0;
    ea_batch_view *v = NULL;
    ec_session_facts facts;
    ec_lost_record lost[EC_LOST_RECORDS];
    ea_err why = {0};
    l->number = row->number;
    int rc = ec_store_read(h->store, row, &data, &len_bytes, err);
    if (rc)
        return rc;
    int opened = row->event_count ? open_batch(l, data, len_bytes, &v, &why) : 0;
    if (v)
        ec_session_facts_of(v, &facts);
    rc = ec_ledger_take(l->ledger, &l->fold, row, data, len_bytes, l->missing_count, v ? &facts : NULL, note_alert, h,
                        err);
    if (!rc && row->event_count == 0)
        rc = ea_batch_each_tombstone(data, len_bytes, on_tombstone, l, err);
    if (rc || row->event_count == 0) {
        ea_batch_close(v);
        return rc;
    }
    if (l->fold.begin_utc_ns == INT64_MIN) {
        l->fold.begin_utc_ns = row->begin_utc_ns;
        ea_machine_restore_position(l->machine, l->fold.last_instance, row->begin_utc_ns);
    }
    if (row->end_utc_ns > l->fold.end_utc_ns)
        l->fold.end_utc_ns = row->end_utc_ns;
    if (opened) {
        if (err)
            *err = why;
        return opened;
    }
    rc = ec_lost_find(v, lost, &lost_count, err);
    if (!rc)
        rc = fold_records(l, v, err);
    ea_batch_close(v);
    if (!rc && lost_count)
        rc = look_back(l, row, lost, lost_count, err);
    return rc || !lost_count ? rc : ec_ledger_take_lost(l->ledger, lost, lost_count, err);
}

/* ---- one stream ---- */

/* How many of the numbers first..last are neither stored nor covered by a tombstone. */
static int missing_numbers(ec_state_worker *h, const work *w, uint64_t first, uint64_t last, uint64_t *ret,
                           ea_err *err) {
    size_t capacity = 256, n = 0;
    for (;;) {
        ec_range *ranges = malloc(capacity * sizeof *ranges);
        if (!ranges)
            return ea_fail(err, EA_ENOMEM, "look for missing batches");
        int rc = ec_store_ranges(h->store, w->host, w->stream, ranges, capacity, &n, err);
        uint64_t missing = last - first + 1;
        for (size_t i = 0; !rc && i < n; i++) {
            uint64_t a = ranges[i].first > first ? ranges[i].first : first;
            uint64_t b = ranges[i].last < last ? ranges[i].last : last;
            if (a <= b)
                missing -= b - a + 1;
        }
        /* more ranges than asked for, and the last one that came does not reach our numbers yet */
        int more = !rc && n == capacity && ranges[n - 1].last < last;
        free(ranges);
        if (rc)
            return rc;
        if (!more || capacity >= (size_t)1 << 24) {
            *ret = missing;
            return 0;
        }
        capacity *= 4;
    }
}

/* 1 when nothing has come for as long as a hole is waited for. What passed before this process saw it is by UTC. */
static int has_waited(live *l, const work *w) {
    int64_t now_ns = ea_monotonic_ns(), passed_ns = ea_utc_ns() - w->received_last_utc_ns;
    if (!l->hole_since_ns || l->hole_received_utc_ns != w->received_last_utc_ns) {
        l->hole_received_utc_ns = w->received_last_utc_ns;
        l->hole_since_ns = now_ns - (passed_ns > 0 ? passed_ns : 0);
    }
    return now_ns - l->hole_since_ns > l->history->options.hole_wait_ns;
}

/* The next batch whose turn it is: 1, 0 when there is none yet. */
static int next_batch(live *l, const work *w, ec_batch_row *ret, ea_err *err) {
    ec_state_worker *h = l->history;
    ec_batch_row row;
    uint64_t missing = 0, expected = l->fold.position + 1;
    int rc = ec_store_next_batch(h->store, l->stream_id, l->fold.position, &row, err);
    if (rc <= 0)
        return rc;
    if (row.number > expected) {
        rc = missing_numbers(h, w, expected, row.number - 1, &missing, err);
        if (rc)
            return rc;
    }
    if (missing) {
        int given_up = h->options.hole_wait_ns < 0 || has_waited(l, w) ||
                       w->highest_number - row.number >= h->options.hole_batches;
        if (!given_up)
            return 0;
        note(h, "%s: %" PRIu64 " batches before number %" PRIu64 " have not come; the state goes on without them",
             w->host, missing, row.number);
        l->fold.missing_count += missing;
    }
    l->missing_count = missing;
    if (missing)
        tell_gap(l, 1);
    *ret = row;
    return 1;
}

static int is_before(const ec_store_place *a, const ec_store_place *b) {
    return a->segment < b->segment || (a->segment == b->segment && a->offset < b->offset);
}

static int is_turn_over(const ec_state_worker *h) {
    return ea_thread_cpu_ns() >= h->turn_ends_cpu_ns;
}

/* Whether to go on with the stream at hand. */
static int goes_on(ec_state_worker *h, int more) {
    if (!more || h->stopping)
        return 0;
    if (is_turn_over(h))
        h->is_left = 1;
    return !h->is_left;
}

/* Up to batches_per_commit batches, one at the least, and their transaction. *ret_more: there may be more. */
static int fold_some(live *l, const work *w, int *ret_more, ea_err *err) {
    ec_state_worker *h = l->history;
    ec_batch_row row;
    uint32_t n = 0;
    int rc = ec_state_db_begin(h->tables, err), more = 0;
    if (rc)
        return rc;
    while (n < h->options.batches_per_commit && !h->stopping && !(n && is_turn_over(h)) &&
           (more = next_batch(l, w, &row, err)) == 1) {
        /* each batch once, in the order of their numbers; what is missing is between two of them */
        EA_ASSERT(row.number > l->fold.position && row.number - l->fold.position > l->missing_count);
        int64_t begin_cpu_ns = ea_thread_cpu_ns();
        rc = fold_batch(l, &row, err);
        if (!is_before(&(ec_store_place){row.segment, row.offset}, &h->begin))
            h->used_cpu_ns += ea_thread_cpu_ns() - begin_cpu_ns;
        if (is_damage(rc)) {
            note(h, "%s: batch %" PRIu64 " cannot be read; the state goes on without it: %s", w->host, row.number,
                 err ? err->message : ea_code_text(rc));
            l->fold.damaged_count++;
            tell_gap(l, 1);
            rc = 0;
        }
        if (rc)
            return rc;
        l->fold.position = row.number;
        l->fold.batch_count++;
        l->fold.event_count += row.event_count;
        n++;
        if (h->options.keep_going && !h->options.keep_going(h->options.arg))
            h->stopping = 1;
    }
    if (more < 0)
        return more;
    l->fold.last_instance = ea_machine_last_instance(l->machine);
    rc = ec_state_db_put_pending_ids(h->tables, l->fold.stream_number, l->machine, err);
    if (!rc)
        rc = ec_state_db_set_fold(h->tables, &l->fold, err);
    if (!rc)
        rc = ec_state_db_commit(h->tables, err);
    if (!rc)
        h->folded_count += n;
    *ret_more = more;
    return rc;
}

/* A batch came whose number had been given up, or in place of a tombstone: only a fold from the start puts it where it
 * belongs. *ret_started 0: not now, the last time was too recent. */
static int fold_again(ec_state_worker *h, const work *w, int *ret_started, ea_err *err) {
    live *l;
    const uint64_t *not_before = ea_u64_map_get(&h->again, w->stream_id);
    *ret_started = 0;
    if (not_before && (uint64_t)ea_monotonic_ns() < *not_before)
        return 0;
    int rc = ec_state_db_begin(h->tables, err);
    if (!rc)
        rc = get_live(&l, h, w, err);
    if (rc)
        return rc;
    note(h, "%s: a batch came late; its stream is folded again from the start", w->host);
    rc = ec_state_db_reset_fold(h->tables, &l->fold, err);
    if (!rc)
        rc = ec_state_db_commit(h->tables, err);
    drop_live(h, l);
    *ret_started = !rc;
    return rc;
}

/* How long a stream is left alone after work that began then: that work takes a tenth of the time at the most. */
static uint64_t pause_after(int64_t began_ns) {
    int64_t now_ns = ea_monotonic_ns(), pause_ns = 10 * (now_ns - began_ns);
    if (pause_ns < MS_TO_NS(1000) * AGAIN_SECONDS)
        pause_ns = MS_TO_NS(1000) * AGAIN_SECONDS;
    return (uint64_t)(now_ns + pause_ns);
}

/* Folds the stream until it is done, or its agent's turn is over; one batch at the least: reading its machine back may
 * have taken the whole turn. */
static int fold_turn(live *l, const work *w, ea_err *err) {
    ec_state_worker *h = l->history;
    int64_t begin_cpu_ns = ea_thread_cpu_ns();
    int rc, more;
    do
        rc = fold_some(l, w, &more, err);
    while (!rc && goes_on(h, more));
    if (!rc && l->again_ns) { /* folded from the start: it is not done again before ten times this time has passed */
        l->again_ns += ea_thread_cpu_ns() - begin_cpu_ns;
        rc = ea_u64_map_put(&h->again, w->stream_id, pause_after(ea_monotonic_ns() - l->again_ns));
        if (!h->is_left)
            l->again_ns = 0;
    }
    return rc;
}

static int fold_all_of(ec_state_worker *h, const work *w, ea_err *err) {
    live *l = NULL;
    int rc = get_live(&l, h, w, err);
    if (!rc)
        rc = fold_turn(l, w, err);
    if (rc || h->stopping || h->is_left)
        return rc;
    if (l->fold.batch_count >= w->batch_count && l->fold.event_count >= w->event_count)
        return ea_u64_map_put(&h->done, w->stream_id, w->batch_count + w->event_count);
    ec_batch_row row;
    rc = ec_store_next_batch(h->store, w->stream_id, l->fold.position, &row, err);
    if (rc)
        return rc < 0 ? rc : 0; /* it waits for a hole to be filled */
    int64_t begin_cpu_ns = ea_thread_cpu_ns();
    int started;
    rc = fold_again(h, w, &started, err);
    if (rc || !started)
        return rc;
    rc = get_live(&l, h, w, err);
    if (rc)
        return rc;
    l->again_ns = ea_thread_cpu_ns() - begin_cpu_ns + 1;
    return fold_turn(l, w, err);
}

/* A stream that cannot go on: it is left alone for a while, and said, in a line at most every ALERT_SECONDS. */
static void set_aside(ec_state_worker *h, const work *w, int64_t began_ns, const char *why) {
    int64_t now_ns = ea_monotonic_ns();
    if (h->options.counters)
        ea_count(h->options.counters, EA_COUNT_state_failures, 1);
    if (h->failed.count >= FAILED_MAX)
        ea_u64_map_clear(&h->failed); /* all of them are tried again */
    if (ea_u64_map_put(&h->failed, w->stream_id, pause_after(began_ns)))
        ea_u64_map_clear(&h->failed);
    if (h->failure_logged_ns && now_ns - h->failure_logged_ns < MS_TO_NS(1000) * ALERT_SECONDS) {
        h->failures_untold++;
        return;
    }
    note(h, "%s: its state cannot go on, and is tried again in a while: %s (%" PRIu64 " failures since the last line)",
         w->host, why, h->failures_untold + 1);
    h->failure_logged_ns = now_ns;
    h->failures_untold = 0;
}

static int fold_stream(ec_state_worker *h, const work *w, ea_err *err) {
    int64_t began_ns = ea_monotonic_ns();
    h->err = err;
    h->used_cpu_ns = 0;
    int rc = fold_all_of(h, w, err);
    h->err = NULL;
    if (h->used_cpu_ns && h->options.on_used)
        h->options.on_used(h->options.arg, w->host, h->used_cpu_ns);
    if (!rc) {
        ea_u64_map_remove(&h->failed, w->stream_id);
        return 0;
    }
    /* The machine is ahead of the tables now: both go back to the last commit. */
    ec_state_db_rollback(h->tables);
    for (size_t i = 0; i < h->live_count; i++)
        if (h->lives[i]->stream_id == w->stream_id) {
            drop_live(h, h->lives[i]);
            break;
        }
    if (rc == EA_ENOMEM)
        (void)ea_fail(err, rc, "fold a stream");
    set_aside(h, w, began_ns, err->message);
    return rc;
}

/* ---- all streams ---- */

static int add_work(const ec_stream_row *row, void *arg) {
    ec_state_worker *h = arg;
    const uint64_t *done = ea_u64_map_get(&h->done, row->stream_id);
    if (row->batch_count == 0 || (done && *done == row->batch_count + row->event_count))
        return 0;
    if (EA_GROW(h->works, h->work_capacity, h->work_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    work *w = &h->works[h->work_count++];
    *w = (work){.stream_id = row->stream_id,
                .batch_count = row->batch_count,
                .event_count = row->event_count,
                .highest_number = row->highest_number,
                .expired_batch_count = row->expired_batch_count,
                .expired_event_count = row->expired_event_count,
                .received_last_utc_ns = row->received_last_utc_ns};
    memcpy(w->host, row->host, sizeof w->host);
    memcpy(w->stream, row->stream, sizeof w->stream);
    return 0;
}

/* ---- what is too old ---- */

typedef struct folds {
    ec_state_fold *items;
    size_t count, capacity;
} folds;

static int state_worker_add_fold(const ec_state_fold *fold, void *arg) {
    folds *f = arg;
    if (EA_GROW(f->items, f->capacity, f->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    f->items[f->count++] = *fold;
    return 0;
}

static int prune_fold(ec_state_worker *h, ec_state_fold *fold, ea_err *err) {
    uint64_t number = UINT64_MAX;
    int64_t begin_utc_ns = INT64_MAX;
    int left = ec_store_what_is_left(h->store, fold->host, fold->stream, &number, &begin_utc_ns, err);
    if (left < 0 && left != EA_ENOTFOUND)
        return left;
    int rc = ec_state_db_begin(h->tables, err);
    if (rc)
        return rc;
    rc = left == EA_ENOTFOUND ? ec_state_db_drop_fold(h->tables, fold, err)
                              : ec_state_db_prune(h->tables, fold, begin_utc_ns, number, err);
    if (!rc)
        rc = ec_state_db_commit(h->tables, err);
    if (rc)
        ec_state_db_rollback(h->tables);
    return rc;
}

/* Retention has deleted segments: rows that came only from them are deleted from the tables, too. */
static int prune(ec_state_worker *h, ea_err *err) {
    uint64_t first = 0;
    folds all = {0};
    int rc = ec_store_first_segment(h->store, &first, err);
    if (rc || first == h->pruned_below)
        return rc;
    rc = ec_state_db_each_fold(h->tables, NULL, state_worker_add_fold, &all, err);
    if (rc == EA_ENOMEM)
        rc = ea_fail(err, rc, "delete what is too old");
    while (h->live_count) /* machines know what the tables hold: they are read back */
        drop_live(h, h->lives[0]);
    for (size_t i = 0; i < all.count && !rc; i++) {
        if (h->options.keep_going && !h->options.keep_going(h->options.arg))
            h->stopping = 1;
        if (h->stopping)
            break;
        rc = prune_fold(h, &all.items[i], err);
    }
    free(all.items);
    if (!rc && !h->stopping)
        h->pruned_below = first;
    return rc;
}

/* A stream in its agent's turn. When the turn is over already, the stream waits, and the next round begins with the
 * first stream that waited. */
static int fold_in_turn(ec_state_worker *h, const work *w, ea_err *err) {
    uint64_t key = ea_hash64(w->host, strlen(w->host), 0);
    const uint64_t *before = h->options.turn_ns ? ea_u64_map_get(&h->turns, key) : NULL;
    int64_t used_ns = before ? (int64_t)*before : 0, begin_cpu_ns = ea_thread_cpu_ns();
    int was_left = h->is_left, rc = 0;
    h->is_left = h->options.turn_ns && used_ns >= h->options.turn_ns;
    h->turn_ends_cpu_ns = h->options.turn_ns ? begin_cpu_ns + h->options.turn_ns - used_ns : INT64_MAX;
    if (!h->is_left)
        rc = fold_stream(h, w, err);
    else if (!h->first_stream_id)
        h->first_stream_id = w->stream_id;
    used_ns += ea_thread_cpu_ns() - begin_cpu_ns;
    if (h->options.turn_ns && ea_u64_map_put(&h->turns, key, (uint64_t)used_ns))
        ea_u64_map_clear(&h->turns); /* without memory for them turns are longer */
    h->is_left |= was_left;
    return rc;
}

/* All streams but those that failed a while ago, beginning with the one at which the round before left off. One that
 * fails holds up no other: *ret_failed is the first such failure, and err says it. Any other failure is returned. */
static int fold_streams(ec_state_worker *h, int *ret_failed, ea_err *err) {
    unsigned in_a_row = 0;
    size_t first = 0;
    *ret_failed = 0;
    ea_u64_map_clear(&h->turns);
    h->is_left = 0;
    while (first < h->work_count && h->works[first].stream_id < h->first_stream_id)
        first++;
    h->first_stream_id = 0;
    for (size_t k = 0; k < h->work_count && !h->stopping; k++) {
        const work *w = &h->works[(first + k) % h->work_count];
        const uint64_t *not_before = ea_u64_map_get(&h->failed, w->stream_id);
        if (not_before && (uint64_t)ea_monotonic_ns() < *not_before)
            continue;
        ea_err why = {0};
        int rc = fold_in_turn(h, w, &why);
        in_a_row = rc ? in_a_row + 1 : 0;
        if (rc && !*ret_failed) {
            *ret_failed = rc;
            *err = why;
        }
        if (in_a_row == FAILURES_IN_A_ROW) {
            *err = why;
            return rc;
        }
    }
    return 0;
}

/* The round has looked at all that was stored at its begin. */
static int keep_round(ec_state_worker *h, const ec_store_place *place, ea_err *err) {
    if (place->segment == h->looked.segment && place->offset == h->looked.offset)
        return 0;
    int rc = ec_state_db_set_round(h->tables, place, err);
    if (!rc)
        h->looked = *place;
    return rc;
}

/* The streams of host; NULL: all. */
static int fold_round(ec_state_worker *h, const char *host, int *ret_failed, ea_err *err) {
    ea_err why = {0};
    ec_store_place place;
    h->work_count = 0;
    h->folded_count = 0;
    h->stopping = 0;
    *ret_failed = 0;
    int rc = ec_store_position(h->store, &place, err);
    if (!rc)
        rc = ec_store_each_stream(h->store, host, add_work, h, err);
    if (rc == EA_ENOMEM)
        return ea_fail(err, rc, "fold the streams");
    if (!rc)
        rc = fold_streams(h, ret_failed, err);
    if (rc || h->stopping)
        return rc;
    rc = host ? 0 : keep_round(h, &place, &why);
    if (!rc)
        rc = prune(h, &why);
    if (rc)
        *err = why;
    return rc;
}

int ec_state_worker_fold(ec_state_worker *h, uint64_t *ret_batches, ea_err *err) {
    ea_err local = {0};
    int failed, rc = fold_round(h, NULL, &failed, err ? err : &local);
    if (!rc && ret_batches)
        *ret_batches = h->folded_count;
    return rc ? rc : failed;
}

int ec_state_worker_open(ec_state_worker **ret, const char *dir, const ec_state_worker_options *options, ea_err *err) {
    ec_state_worker *h = calloc(1, sizeof *h);
    if (!h)
        return ea_fail(err, EA_ENOMEM, "open the history of %s", dir);
    h->options = *options;
    if (!h->options.live_streams)
        h->options.live_streams = 64;
    if (!h->options.limit_state_bytes)
        h->options.limit_state_bytes = (size_t)64 << 20;
    if (!h->options.batches_per_commit)
        h->options.batches_per_commit = 16;
    if (!h->options.hole_wait_ns)
        h->options.hole_wait_ns = MS_TO_NS(30000);
    if (!h->options.hole_batches)
        h->options.hole_batches = 256;
    ea_u64_map_init(&h->done, 0);
    ea_u64_map_init(&h->again, 0);
    ea_u64_map_init(&h->failed, FAILED_MAX);
    ea_u64_map_init(&h->turns, 0);
    h->lives = calloc(h->options.live_streams, sizeof(live *));
    int rc = h->lives ? ec_store_open(&h->store, dir, &(ec_store_options){0}, err)
                      : ea_fail(err, EA_ENOMEM, "open the history of %s", dir);
    if (!rc)
        rc = ec_state_db_open(&h->tables, dir, 1, err);
    if (!rc)
        rc = ec_store_position(h->store, &h->begin, err);
    if (!rc)
        rc = ec_state_db_get_round(h->tables, &h->looked, err);
    if (rc) {
        ec_state_worker_close(h);
        return rc;
    }
    *ret = h;
    return 0;
}

void ec_state_worker_close(ec_state_worker *h) {
    if (!h)
        return;
    for (size_t i = 0; h->lives && i < h->live_count; i++)
        live_destroy(h->lives[i]);
    free(h->lives);
    free(h->works);
    ea_u64_map_deinit(&h->done);
    ea_u64_map_deinit(&h->again);
    ea_u64_map_deinit(&h->failed);
    ea_u64_map_deinit(&h->turns);
    ec_state_db_close(h->tables);
    ec_store_close(h->store);
    free(h);
}

/* ---- catching up, for queries ---- */

/* A stream as the store has it, and how far its fold is. */
typedef struct goal {
    char host[256];
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t batch_count, event_count;
    uint64_t backlog;
} goal;

typedef struct goals {
    goal *items;
    size_t count, capacity;
    size_t next;           /* where the fold at hand is looked for first */
    ec_store_place place;  /* the end of the store, once the streams were read */
    ec_store_place looked; /* of the last round */
} goals;

static int add_goal(const ec_stream_row *row, void *arg) {
    goals *g = arg;
    if (EA_GROW(g->items, g->capacity, g->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    goal *to = &g->items[g->count++];
    *to = (goal){.batch_count = row->batch_count, .event_count = row->event_count, .backlog = row->batch_count};
    memcpy(to->host, row->host, sizeof to->host);
    memcpy(to->stream, row->stream, sizeof to->stream);
    return 0;
}

static int measure_goal(const ec_state_fold *fold, void *arg) {
    goals *g = arg;
    for (size_t k = 0; k < g->count; k++) { /* mostly the next one: folds begin in the order of their streams */
        size_t i = (g->next + k) % g->count;
        goal *to = &g->items[i];
        if (memcmp(to->stream, fold->stream, sizeof to->stream) != 0 || strcmp(to->host, fold->host) != 0)
            continue;
        to->backlog = to->batch_count > fold->batch_count   ? to->batch_count - fold->batch_count
                      : to->event_count > fold->event_count ? 1 /* a batch in place of a tombstone */
                                                            : 0;
        g->next = i + 1;
        break;
    }
    return 0;
}

static int measure(const char *dir, const char *host, goals *g, uint64_t *ret_backlog, ea_err *err) {
    ec_state_db *t = NULL;
    for (size_t i = 0; i < g->count; i++)
        g->items[i].backlog = g->items[i].batch_count;
    int rc = ec_state_db_open(&t, dir, 0, err);
    /* the round before the folds: what it has looked at is in them */
    if (!rc)
        rc = ec_state_db_get_round(t, &g->looked, err);
    if (!rc)
        rc = ec_state_db_each_fold(t, host, measure_goal, g, err);
    if (rc == EA_ENOTFOUND)
        rc = 0; /* nothing is folded yet */
    ec_state_db_close(t);
    *ret_backlog = 0;
    for (size_t i = 0; i < g->count; i++)
        *ret_backlog += g->items[i].backlog;
    return rc;
}

int ec_state_worker_catch_up(const char *dir, const char *host, enum ec_state_wait wait, int64_t wait_ns,
                             uint64_t *ret_backlog, ea_err *err) {
    ea_err local = {0};
    if (!err)
        err = &local;
    int64_t deadline_ns = ea_monotonic_ns() + wait_ns;
    ec_store *store = NULL;
    goals g = {0};
    uint64_t backlog = 0;
    int rc = ec_store_open(&store, dir, &(ec_store_options){0}, err);
    if (!rc)
        rc = ec_store_each_stream(store, host, add_goal, &g, err);
    if (!rc)
        rc = ec_store_position(store, &g.place, err);
    ec_store_close(store);
    if (rc == EA_ENOMEM)
        rc = ea_fail(err, rc, "look at the streams of %s", dir);
    while (!rc && !(rc = measure(dir, host, &g, &backlog, err)) && backlog) {
        ec_state_worker *h = NULL;
        ec_state_worker_options options = {.hole_wait_ns = -1};
        ea_err why = {0};
        int can = ec_state_worker_open(&h, dir, &options, &why);
        if (can == 0) {
            int failed;
            rc = fold_round(h, host, &failed, err);
            ec_state_worker_close(h);
            /* a stream that cannot continue is a stream with unfolded batches; a call for its host alone gets the
             * reason */
            rc = rc ? rc : host ? failed : 0;
            if (!rc)
                rc = measure(dir, host, &g, &backlog, err);
            break;
        }
        /* who may only read (a question in its sandbox) waits for the daemon, too */
        int is_the_daemons = can == EA_EBUSY || why.os_error == EACCES;
        int is_enough = wait == EC_WAIT_ROUND && !is_before(&g.looked, &g.place);
        if (!is_the_daemons || is_enough || ea_monotonic_ns() >= deadline_ns)
            break;
        ea_sleep_ns(MS_TO_NS(CATCH_UP_POLL_MS));
    }
    free(g.items);
    if (!rc)
        *ret_backlog = backlog;
    return rc;
}

/* ---- the daemon's thread ---- */

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
    int woken; /* under the mutex, as are the next two */
    gap *gaps; /* GAPS_MAX; the oldest first */
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
        at->not_before_ns = now_ns + MS_TO_NS(1000) * KEYFRAME_SECONDS;
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

/* The next history leaves the same streams alone. */
static void swap_failed(ec_state_worker *h, ea_u64_map *other) {
    ea_u64_map mine = h->failed;
    h->failed = *other;
    *other = mine;
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
        options.turn_ns = MS_TO_NS(TURN_MS);
    int is_reported = 0, failed;
    ea_u64_map left_alone; /* what the history before it remembered of failures */
    ea_u64_map_init(&left_alone, FAILED_MAX);
    while (worker_goes_on(w)) {
        ea_err err = {0};
        int opens = !h, rc = h ? 0 : ec_state_worker_open(&h, w->dir, &options, &err);
        if (!rc && opens)
            swap_failed(h, &left_alone);
        if (!rc)
            rc = fold_round(h, NULL, &failed, &err);
        if (rc && rc != EA_EBUSY && !is_reported) /* a query that folds releases the lock soon */
            worker_note(w, err.message);
        is_reported = rc && rc != EA_EBUSY;
        if (rc && h) { /* begin anew, in a while */
            swap_failed(h, &left_alone);
            ec_state_worker_close(h);
            h = NULL;
        }
        if (!rc && h->is_left) /* more is to be done already */
            continue;
        worker_wait(w, MS_TO_NS(WORKER_IDLE_MS));
        if (worker_goes_on(w))
            ea_sleep_ns(MS_TO_NS(WORKER_PAUSE_MS));
    }
    ec_state_worker_close(h);
    ea_u64_map_deinit(&left_alone);
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

void ec_state_worker_stop(ec_state_worker_worker *w) {
    if (!w)
        return;
    atomic_store_explicit(&w->stop, 1, memory_order_relaxed);
    ec_state_worker_wake(w);
    ea_thread_join(w->thread);
    worker_destroy(w);
}
