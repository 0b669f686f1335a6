/* The fold of one stream. See state_worker_parts.h. */
#include "collector/state/state_worker_parts.h"

#include "proto/base/platform.h"
#include "proto/state/keyframe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_ENDED = 8192,     /* ended rows that a machine remembers; they are read back with it */
    LOOK_BACK = 8,          /* batches in which a lost record's CPU is looked for */
    ALERT_SECONDS = 10,     /* between two lines about ledgers */
    CLASS_BYTES = 64 << 20, /* that the classes of one stream take; batches of further ones cannot be read */
    AGAIN_SECONDS = 10,     /* at least so long between two folds of a stream from its start, or after a failure */
};

static const uint64_t PART_NS = 1000000000; /* batches of one part are not farther apart */

static void state_fold_note(const ec_state_worker *h, const char *format, ...) EA_PRINTF(2, 3);

static void state_fold_note(const ec_state_worker *h, const char *format, ...) {
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
    if (h->alert_logged_ns && now_ns - h->alert_logged_ns < EC_MS_TO_NS(1000) * ALERT_SECONDS) {
        h->alerts_untold++;
        return;
    }
    if (h->alerts_untold)
        state_fold_note(h, "%s (and %" PRIu64 " alerts before it; see etwcollector ledger)", text, h->alerts_untold);
    else
        state_fold_note(h, "%s", text);
    h->alert_logged_ns = now_ns;
    h->alerts_untold = 0;
}

/* ---- one machine ---- */

static int on_process(void *arg, const ea_process *p) {
    const ec_state_live *l = arg;
    return ec_state_db_put_process(l->history->tables, l->fold.stream_number, p, l->history->err);
}

static int state_fold_on_thread(void *arg, const ea_thread_row *t) {
    const ec_state_live *l = arg;
    return ec_state_db_put_thread(l->history->tables, l->fold.stream_number, t, l->history->err);
}

static int on_module(void *arg, const ea_module *m) {
    const ec_state_live *l = arg;
    return ec_state_db_put_module(l->history->tables, l->fold.stream_number, m, l->history->err);
}

/* The state of the stream at hand lacks something, or nothing any more. */
static void report_gap(ec_state_live *l, int gap) {
    const ec_state_worker *h = l->history;
    if (!gap && !l->has_gap)
        return;
    l->has_gap = gap;
    if (h->options.on_gap)
        h->options.on_gap(h->options.arg, l->fold.host, l->fold.stream, gap);
}

/* 1 when all that came before the keyframe should be here. A stream without the agent's numbers has parts of a
 * recording, each of which begins with a keyframe if the recorder has one; a keyframe's time is that of the event
 * before it, so that one in the middle of a part is within the batch before it. */
static int is_continued(const ec_state_live *l, const ea_keyframe_result *r) {
    return ec_ledger_has_numbers(l->ledger) ||
           (l->is_part_known && r->utc_ns >= l->part_begin_utc_ns && r->utc_ns <= l->part_end_utc_ns);
}

/* A keyframe's corrections show rows that were lost, or folded wrongly: both raise an alert. */
static int on_keyframe(void *arg, const ea_keyframe_result *r) {
    ec_state_live *l = arg;
    char text[1024];
    int is_expected = (r->whole && !r->added && !r->completed && !r->closed) || !is_continued(l, r);
    if (r->whole) {
        report_gap(l, 0);
        l->is_part_known = 1;
    }
    if (is_expected)
        return 0;
    snprintf(text, sizeof text,
             "a keyframe of %" PRIu32 " rows%s differs from the state: %" PRIu32 " added, %" PRIu32
             " completed, %" PRIu32 " closed: %s",
             r->named, r->whole ? "" : ", of which parts are missing,", r->added, r->completed, r->closed, r->text);
    return ec_ledger_alert(l->ledger, l->number, "", EC_ALERT_KEYFRAME, r->utc_ns, (uint64_t)r->added + r->completed,
                           r->closed, text, l->history->err);
}

void ec_state_live_destroy(ec_state_live *l) {
    if (!l)
        return;
    ea_machine_destroy(l->machine);
    ec_ledger_close(l->ledger);
    ec_object_names_db_close(l->naming);
    ea_registry_destroy(l->registry);
    free(l);
}

void ec_state_drop_live(ec_state_worker *h, const ec_state_live *l) {
    for (size_t i = 0; i < h->live_count; i++)
        if (h->lives[i] == l) {
            ec_state_live_destroy(h->lives[i]);
            h->lives[i] = h->lives[--h->live_count];
            return;
        }
}

static int live_create(ec_state_live **ret, ec_state_worker *h, const ec_state_work *w, ea_err *err) {
    static const ea_machine_observer OBSERVER = {on_process, state_fold_on_thread, on_module, on_keyframe};
    ec_state_live *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "fold a stream");
    l->history = h;
    l->stream_id = w->stream_id;
    l->has_gap = -1;
    l->part_begin_utc_ns = INT64_MAX;
    l->part_end_utc_ns = INT64_MIN;
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
        ec_state_live_destroy(l);
        return rc;
    }
    /* what was deleted before its turn came counts as folded, else the fold would wait for it */
    if (!l->fold.position && !l->fold.batch_count) {
        l->fold.batch_count = w->expired_batch_count;
        l->fold.event_count = w->expired_event_count;
    }
    report_gap(l, l->fold.missing_count || l->fold.damaged_count); /* which keyframes came since is not kept */
    *ret = l;
    return 0;
}

static int get_live(ec_state_live **ret, ec_state_worker *h, const ec_state_work *w, ea_err *err) {
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
        ec_state_drop_live(h, h->lives[oldest]);
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
static int state_fold_is_damage(int rc) {
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
static int fold_records(ec_state_live *l, ea_batch_view *v, ea_err *err) {
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

/* A batch that is no keyframe: where it does not follow the one before it, another part of a recording begins. */
static void note_part(ec_state_live *l, const ea_batch_view *v, const ec_batch_row *row) {
    if (ea_batch_group_count(v) && ea_guid_equal(&ea_batch_group_class(v, 0)->provider, &ea_keyframe_provider))
        return;
    uint64_t begin = (uint64_t)row->begin_utc_ns;
    if ((row->begin_utc_ns > l->part_end_utc_ns && begin - (uint64_t)l->part_end_utc_ns > PART_NS) ||
        (row->begin_utc_ns < l->part_begin_utc_ns && (uint64_t)l->part_begin_utc_ns - begin > PART_NS))
        l->is_part_known = 0;
    l->part_begin_utc_ns = row->begin_utc_ns;
    l->part_end_utc_ns = row->end_utc_ns;
}

static int on_tombstone(const ea_tombstone *t, void *arg) {
    if (t->event_count)
        report_gap(arg, 1);
    return 0;
}

/* Reads a batch of the stream with its classes; *ret_view is to be closed. */
static int state_fold_open_batch(ec_state_live *l, const uint8_t *data, size_t len_bytes, ea_batch_view **ret_view,
                                 ea_err *err) {
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
static int state_fold_look_back(ec_state_live *l, const ec_batch_row *row, ec_lost_record *lost, size_t count,
                                ea_err *err) {
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
            rc = state_fold_open_batch(l, data, len_bytes, &v, err);
        if (!rc)
            rc = ec_lost_look_back(v, lost, count, &open, err);
        ea_batch_close(v);
        if (state_fold_is_damage(rc))
            rc = 0;
    }
    for (size_t i = 0; row->number > LOOK_BACK && i < count; i++)
        if (lost[i].begin_utc_ns == INT64_MIN)
            lost[i].begin_utc_ns = seen_utc_ns;
    return rc;
}

/* Before a batch without events is read: what the session is, by the last batches before it. */
static int find_facts(ec_state_live *l, ea_err *err) {
    ec_batch_row earlier = {.number = 0};
    const uint8_t *data;
    size_t len_bytes;
    int rc = 0;
    for (uint64_t back = 0; !rc && !l->has_facts && back < LOOK_BACK && back < l->fold.position; back++) {
        ea_batch_view *v = NULL;
        uint64_t number = l->fold.position - back;
        rc = ec_store_next_batch(l->history->store, l->stream_id, number - 1, &earlier, err);
        if (rc < 0)
            return rc;
        rc = 0;
        if (earlier.number != number || !earlier.event_count)
            continue;
        rc = ec_store_read(l->history->store, &earlier, &data, &len_bytes, err);
        if (!rc)
            rc = state_fold_open_batch(l, data, len_bytes, &v, err);
        if (v)
            ec_session_facts_of(v, &l->facts);
        l->has_facts = v != NULL;
        ea_batch_close(v);
        if (state_fold_is_damage(rc))
            rc = 0;
    }
    return rc;
}

static int fold_batch(ec_state_live *l, const ec_batch_row *row, ea_err *err) {
    ec_state_worker *h = l->history;
    const uint8_t *data;
    size_t len_bytes, lost_count = 0;
    ea_batch_view *v = NULL;
    ec_lost_record lost[EC_LOST_RECORDS];
    ea_err why = {0};
    l->number = row->number;
    int rc = row->event_count ? 0 : find_facts(l, err);
    if (!rc)
        rc = ec_store_read(h->store, row, &data, &len_bytes, err);
    if (rc)
        return rc;
    int opened = row->event_count ? state_fold_open_batch(l, data, len_bytes, &v, &why) : 0;
    if (v)
        ec_session_facts_of(v, &l->facts);
    l->has_facts |= v != NULL;
    rc = ec_ledger_take(l->ledger, &l->fold, row, data, len_bytes, l->missing_count,
                        v || (l->has_facts && !row->event_count) ? &l->facts : NULL, note_alert, h, err);
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
    note_part(l, v, row);
    rc = ec_lost_find(v, lost, &lost_count, err);
    if (!rc)
        rc = fold_records(l, v, err);
    ea_batch_close(v);
    if (!rc && lost_count)
        rc = state_fold_look_back(l, row, lost, lost_count, err);
    return rc || !lost_count ? rc : ec_ledger_take_lost(l->ledger, lost, lost_count, err);
}

/* ---- one stream ---- */

/* How many of the numbers first..last are neither stored nor covered by a tombstone. */
static int missing_numbers(ec_state_worker *h, const ec_state_work *w, uint64_t first, uint64_t last, uint64_t *ret,
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
static int has_waited(ec_state_live *l, const ec_state_work *w) {
    int64_t now_ns = ea_monotonic_ns(), passed_ns = ea_utc_ns() - w->received_last_utc_ns;
    if (!l->hole_since_ns || l->hole_received_utc_ns != w->received_last_utc_ns) {
        l->hole_received_utc_ns = w->received_last_utc_ns;
        l->hole_since_ns = now_ns - (passed_ns > 0 ? passed_ns : 0);
    }
    return now_ns - l->hole_since_ns > l->history->options.hole_wait_ns;
}

/* The next batch whose turn it is: 1, 0 when there is none yet. */
static int next_batch(ec_state_live *l, const ec_state_work *w, ec_batch_row *ret, ea_err *err) {
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
        state_fold_note(
            h, "%s: %" PRIu64 " batches before number %" PRIu64 " have not come; the state goes on without them",
            w->host, missing, row.number);
        l->fold.missing_count += missing;
    }
    l->missing_count = missing;
    if (missing)
        report_gap(l, 1);
    *ret = row;
    return 1;
}

static int is_turn_over(const ec_state_worker *h) {
    return ea_thread_cpu_ns() >= h->turn_ends_cpu_ns;
}

/* Whether to go on with the stream at hand. */
static int state_fold_goes_on(ec_state_worker *h, int more) {
    if (!more || h->stopping)
        return 0;
    if (is_turn_over(h))
        h->is_left = 1;
    return !h->is_left;
}

/* Up to batches_per_commit batches, one at the least, and their transaction. *ret_more: there may be more. */
static int fold_some(ec_state_live *l, const ec_state_work *w, int *ret_more, ea_err *err) {
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
        if (!ec_state_is_before(&(ec_store_place){row.segment, row.offset}, &h->begin))
            h->used_cpu_ns += ea_thread_cpu_ns() - begin_cpu_ns;
        if (state_fold_is_damage(rc)) {
            state_fold_note(h, "%s: batch %" PRIu64 " cannot be read; the state goes on without it: %s", w->host,
                            row.number, err ? err->message : ea_code_text(rc));
            l->fold.damaged_count++;
            report_gap(l, 1);
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
        rc = ec_state_db_put_pending_facts(h->tables, l->fold.stream_number, l->machine, err);
    if (!rc)
        rc = ec_object_names_db_flush(l->naming, err);
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
static int fold_again(ec_state_worker *h, const ec_state_work *w, int *ret_started, ea_err *err) {
    ec_state_live *l;
    const uint64_t *not_before = ea_u64_map_get(&h->again, w->stream_id);
    *ret_started = 0;
    if (not_before && (uint64_t)ea_monotonic_ns() < *not_before)
        return 0;
    int rc = ec_state_db_begin(h->tables, err);
    if (!rc)
        rc = get_live(&l, h, w, err);
    if (rc)
        return rc;
    state_fold_note(h, "%s: a batch came late; its stream is folded again from the start", w->host);
    rc = ec_state_db_reset_fold(h->tables, &l->fold, err);
    if (!rc)
        rc = ec_state_db_commit(h->tables, err);
    ec_state_drop_live(h, l);
    *ret_started = !rc;
    return rc;
}

/* How long a stream is left alone after work that began then: that work takes a tenth of the time at the most. */
static uint64_t pause_after(int64_t began_ns) {
    int64_t now_ns = ea_monotonic_ns(), pause_ns = 10 * (now_ns - began_ns);
    if (pause_ns < EC_MS_TO_NS(1000) * AGAIN_SECONDS)
        pause_ns = EC_MS_TO_NS(1000) * AGAIN_SECONDS;
    return (uint64_t)(now_ns + pause_ns);
}

/* Folds the stream until it is done, or its agent's turn is over; one batch at the least: reading its machine back may
 * have taken the whole turn. */
static int fold_turn(ec_state_live *l, const ec_state_work *w, ea_err *err) {
    ec_state_worker *h = l->history;
    int64_t begin_cpu_ns = ea_thread_cpu_ns();
    int rc, more;
    do
        rc = fold_some(l, w, &more, err);
    while (!rc && state_fold_goes_on(h, more));
    if (!rc && l->again_ns) { /* folded from the start: it is not done again before ten times this time has passed */
        l->again_ns += ea_thread_cpu_ns() - begin_cpu_ns;
        rc = ea_u64_map_put(&h->again, w->stream_id, pause_after(ea_monotonic_ns() - l->again_ns));
        if (!h->is_left)
            l->again_ns = 0;
    }
    return rc;
}

static int fold_all_of(ec_state_worker *h, const ec_state_work *w, ea_err *err) {
    ec_state_live *l = NULL;
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
static void state_fold_set_aside(ec_state_worker *h, const ec_state_work *w, int64_t began_ns, int rc,
                                 const char *why) {
    int64_t now_ns = ea_monotonic_ns();
    ea_u64_map *where = rc == EA_EFULL ? &h->lacked_space : &h->failed;
    if (h->options.counters)
        ea_count(h->options.counters, EA_COUNT_state_failures, 1);
    if (where->count >= EC_STATE_FAILED_MAX)
        ea_u64_map_clear(where); /* all of them are tried again */
    if (ea_u64_map_put(where, w->stream_id, pause_after(began_ns)))
        ea_u64_map_clear(where);
    if (h->failure_logged_ns && now_ns - h->failure_logged_ns < EC_MS_TO_NS(1000) * ALERT_SECONDS) {
        h->failures_untold++;
        return;
    }
    state_fold_note(
        h, "%s: its state cannot go on, and is tried again in a while: %s (%" PRIu64 " failures since the last line)",
        w->host, why, h->failures_untold + 1);
    h->failure_logged_ns = now_ns;
    h->failures_untold = 0;
}

int ec_state_fold_stream(ec_state_worker *h, const ec_state_work *w, ea_err *err) {
    int64_t began_ns = ea_monotonic_ns();
    h->err = err;
    h->used_cpu_ns = 0;
    int rc = fold_all_of(h, w, err);
    h->err = NULL;
    if (h->used_cpu_ns && h->options.on_used)
        h->options.on_used(h->options.arg, w->host, h->used_cpu_ns);
    if (!rc) {
        ea_u64_map_remove(&h->failed, w->stream_id);
        ea_u64_map_remove(&h->lacked_space, w->stream_id);
        return 0;
    }
    /* The machine is ahead of the tables now: both go back to the last commit. */
    ec_state_db_rollback(h->tables);
    for (size_t i = 0; i < h->live_count; i++)
        if (h->lives[i]->stream_id == w->stream_id) {
            ec_state_drop_live(h, h->lives[i]);
            break;
        }
    if (rc == EA_ENOMEM)
        (void)ea_fail(err, rc, "fold a stream");
    state_fold_set_aside(h, w, began_ns, rc, err->message);
    return rc;
}
