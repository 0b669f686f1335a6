/* A record's way, top-down, in the order in which it goes:
 *
 *     ea_pipeline_add           its class; the machine's state; filters; stacks; the open batch
 *     pipeline_keyframe_if_due  before it, where one is due: the state, as batches of its own
 *     pipeline_close_batch      a full batch: its events go into the ledger
 *     pipeline_hand_on          its number, the claim in the spool, the ledger as it is now, the ring to the encoders
 *     worker_encode             on an encoder's thread: bytes, and into the spool
 *
 * Then what comes between two records, and after the last one. See pipeline.h. */
#include "service/core/pipeline_parts.h"

#include <string.h>

static const int64_t SECOND_NS = 1000000000, WANTED_PAUSE_NS = (int64_t)10 * 1000000000;
static const int64_t RUNDOWN_OVER_NS = (int64_t)15 * 1000000000; /* a second session's longest start and end are over */
static const int64_t FAR_AFTER_NS = (int64_t)60 * 1000000000;    /* more than events are out of order */

enum {
    PROGRESS_EVENTS = 4096, /* how often the count of events is made visible */
    RAISED_PRIORITY = 1,    /* security */
};

static int pipeline_keyframe_if_due(ea_pipeline *p, ea_err *err);
static int pipeline_apply_state(ea_pipeline *p, const ea_record *record, const ea_class *c, ea_err *err);
static int pipeline_close_batch(ea_pipeline *p, enum ea_batch_kind kind, ea_err *err);
static int pipeline_failure(ea_pipeline *p, ea_err *err);
static int pipeline_redact(ea_pipeline *p, const ea_record **in_out, const ea_class *c, enum ea_counter *in_out_outcome,
                           ea_err *err);
static int pipeline_filter(ea_pipeline *p, const ea_record *given, const ea_record *redacted, const ea_class *c,
                           ea_err *err);

static void count_delivered(ea_pipeline *p) {
    if (++p->delivered % PROGRESS_EVENTS == 0)
        atomic_store_explicit(&p->events, p->delivered, memory_order_relaxed);
}

static int pipeline_watch(ea_pipeline *p, const ea_record **in_out, ea_record *own, const ea_class *c, ea_err *err);
static void pipeline_count_drop(ea_pipeline *p, const ea_class *c, enum ea_counter place);

int ea_pipeline_add(ea_pipeline *p, const ea_record *record, ea_err *err) {
    enum ea_counter outcome;
    const ea_class *c = ea_decoder_find(p->decoder, &record, &outcome);
    const ea_record *given = record;
    int rc = 0, watched = 0;
    ea_record own;
    if (p->o.filters && (rc = pipeline_redact(p, &record, c, &outcome, err)))
        return rc;
    if (p->machine) {
        rc = pipeline_keyframe_if_due(p, err);
        if (!rc)
            rc = pipeline_apply_state(p, record, c, err);
        if (rc)
            return rc;
    }
    if (p->o.filters && (rc = pipeline_filter(p, given, record, c, err)))
        return rc < 0 ? rc : 0;
    if (p->o.watches && (watched = pipeline_watch(p, &record, &own, c, err)) < 0)
        return watched;
    rc = ea_stack_meter_add(p->stacks, record, c);
    if (rc)
        return ea_fail(err, rc, "count stacks");
    if (watched == EA_WATCHES_AGGREGATED) {
        pipeline_count_drop(p, c, EA_COUNT_events_aggregated);
        return 0;
    }
    rc = ea_builder_add(p->builder, record, c);
    if (rc == EA_EFULL) {
        if ((rc = pipeline_close_batch(p, EA_BATCH_EVENTS, err)))
            return rc;
        rc = ea_builder_add(p->builder, record, c);
    }
    count_delivered(p);
    if (rc >= 0) {
        p->is_raised |= watched == EA_WATCHES_SHIPPED;
        p->outcomes[outcome - EA_COUNT_decode_whole]++;
        p->families[c->family % EA_LEDGER_FAMILIES]++;
        p->lost_records += c->family == p->lost_family;
    }
    if (rc == 0)
        return 0;
    if (rc == EA_ELIMIT) {
        ea_ledger_post(p->o.ledger,
                       (ea_posting[]){{EA_COUNT_events_delivered, 1}, {EA_COUNT_events_dropped_oversize, 1}}, 2,
                       &(ea_family_count){1, (uint8_t)(c->family % EA_LEDGER_FAMILIES)}, 1);
        return 0;
    }
    if (rc < 0)
        return ea_fail(err, rc, "add an event to a batch");
    if (atomic_load(&p->failed))
        return pipeline_failure(p, err);
    return pipeline_close_batch(p, EA_BATCH_EVENTS, err);
}

/* ---- filters ---- */

static const enum ea_counter DROPS[EA_PIPELINE_DROPS] = {EA_COUNT_events_filtered, EA_COUNT_events_sampled_out,
                                                         EA_COUNT_events_limited, EA_COUNT_events_repeated,
                                                         EA_COUNT_events_aggregated};

/* What filters dropped into the ledger, with its delivery. */
static void pipeline_post_drops(ea_pipeline *p) {
    for (size_t i = 0; p->dropped_count && i < EA_PIPELINE_DROPS; i++) {
        ea_family_count families[EA_LEDGER_FAMILIES];
        size_t count = 0;
        int64_t n = 0;
        for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
            if (p->dropped[i][f]) {
                families[count++] = (ea_family_count){p->dropped[i][f], (uint8_t)f};
                n += p->dropped[i][f];
            }
        if (n)
            ea_ledger_post(p->o.ledger, (ea_posting[]){{EA_COUNT_events_delivered, n}, {DROPS[i], n}}, 2, families,
                           count);
    }
    if (p->dropped_count)
        memset(p->dropped, 0, sizeof p->dropped);
    p->dropped_count = 0;
    if (p->redacted)
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_events_redacted, (int64_t)p->redacted}, 1, NULL, 0);
    p->redacted = 0;
}

/* Before anything of the event is kept, be it in the state. A payload with other fields is judged anew. */
static int pipeline_redact(ea_pipeline *p, const ea_record **in_out, const ea_class *c, enum ea_counter *in_out_outcome,
                           ea_err *err) {
    size_t used;
    int rc = ea_event_filters_redact(p->o.filters, in_out, c);
    if (rc <= 0)
        return rc ? ea_fail(err, rc, "filter an event") : 0;
    p->redacted++;
    if (*in_out_outcome == EA_COUNT_decode_whole) {
        size_t whole = ea_class_places(c, (*in_out)->payload, (*in_out)->payload_bytes, NULL, &used);
        if (!ea_class_is_whole(c, whole, used, (*in_out)->payload_bytes))
            *in_out_outcome = EA_COUNT_decode_partial;
    }
    return 0;
}

/* An event that does not travel. */
static void pipeline_count_drop(ea_pipeline *p, const ea_class *c, enum ea_counter place) {
    for (size_t i = 0; i < EA_PIPELINE_DROPS; i++)
        p->dropped[i][c->family % EA_LEDGER_FAMILIES] += DROPS[i] == place;
    count_delivered(p);
    if (++p->dropped_count >= PROGRESS_EVENTS)
        pipeline_post_drops(p);
}

/* 1 when a filter drops the event, which is counted then; 0; or an error. The expressions see it as it came. */
static int pipeline_filter(ea_pipeline *p, const ea_record *given, const ea_record *redacted, const ea_class *c,
                           ea_err *err) {
    enum ea_counter place;
    if (given->source >= p->o.source_count)
        return 0; /* the builder drops and counts it */
    int rc = ea_event_filters_judge(p->o.filters, given, redacted, c, &p->clocks[given->source], &place, err);
    if (rc || place == EA_COUNT_events_batched)
        return rc;
    pipeline_count_drop(p, c, place);
    return 1;
}

/* ---- programs ---- */

/* A result of a program, into the open batch. */
static int pipeline_add_row(void *arg, const ea_record *result) {
    ea_pipeline *p = arg;
    enum ea_counter outcome;
    ea_record own = *result;
    const ea_record *record = &own;
    if (p->o.is_numbered)
        own.position = p->next_position + p->rows_made;
    const ea_class *c = ea_decoder_find(p->decoder, &record, &outcome);
    int rc = ea_builder_add(p->builder, record, c);
    if (rc == EA_EFULL) {
        if ((rc = pipeline_close_batch(p, EA_BATCH_EVENTS, &p->row_error)))
            return rc;
        rc = ea_builder_add(p->builder, record, c);
    }
    if (rc < 0)
        return ea_fail(&p->row_error, rc, "add a result to a batch");
    p->rows_made++;
    p->rows++;
    p->row_family = c->family % EA_LEDGER_FAMILIES;
    p->families[p->row_family]++;
    return rc ? pipeline_close_batch(p, EA_BATCH_EVENTS, &p->row_error) : 0;
}

int ea_pipeline_start_watches(ea_pipeline *p, ea_err *err) {
    return ea_watches_start(p->o.watches, pipeline_add_row, p, err);
}

/* The state of the machine travels all the same: 1 for its classes, 0, or EA_ENOMEM. */
static int pipeline_is_state(ea_pipeline *p, const ea_class *c) {
    const uint64_t *known = ea_u64_map_get(&p->states, (uintptr_t)c);
    if (known)
        return (int)*known;
    int is_state = ea_filter_is_state(c);
    return ea_u64_map_put(&p->states, (uintptr_t)c, (uint64_t)is_state) ? EA_ENOMEM : is_state;
}

static int pipeline_watch_failed(ea_pipeline *p, int rc, ea_err *err) {
    if (rc < 0 && p->row_error.code) {
        if (err)
            *err = p->row_error;
        return p->row_error.code;
    }
    return rc;
}

/* An event to the programs: as ea_watches_add. Then *in_out is after their results, by its number. */
static int pipeline_watch(ea_pipeline *p, const ea_record **in_out, ea_record *own, const ea_class *c, ea_err *err) {
    const ea_record *record = *in_out;
    if (record->source >= p->o.source_count)
        return 0; /* the builder drops and counts it */
    p->next_position = record->position;
    int rc = ea_watches_add(p->o.watches, record, c, &p->clocks[record->source], err);
    if (p->rows_made && p->o.is_numbered) {
        *own = *record;
        own->position += p->rows_made;
        *in_out = own;
    }
    p->next_position++;
    if (rc != EA_WATCHES_AGGREGATED)
        return pipeline_watch_failed(p, rc, err);
    int is_state = pipeline_is_state(p, c);
    return is_state < 0 ? ea_fail(err, is_state, "run programs") : !is_state;
}

int ea_pipeline_idle(ea_pipeline *p, ea_err *err) {
    return p->o.watches ? pipeline_watch_failed(p, ea_watches_idle(p->o.watches, err), err) : 0;
}

/* ---- keyframes ---- */

static void count_pending_id(void *arg, const ea_module *id, int64_t utc_ns) {
    (void)id, (void)utc_ns;
    ++*(size_t *)arg;
}

static int keyframe_is_due(ea_pipeline *p);

/* Writes a keyframe between two events if one is due. Its position depends on the events alone, so that every run of a
 * replay finds it again. An image's id that came without its image belongs to neither side of a keyframe: the keyframe
 * then waits while events have the time of the id. */
static int pipeline_keyframe_if_due(ea_pipeline *p, ea_err *err) {
    size_t waiting = 0;
    if (!keyframe_is_due(p))
        return 0;
    int rc = ea_machine_settle_ids(p->machine, p->last_utc_ns);
    if (rc)
        return ea_fail(err, rc, "make a keyframe");
    ea_machine_each_pending_id(p->machine, count_pending_id, &waiting);
    if (waiting)
        return 0;
    rc = pipeline_close_batch(p, EA_BATCH_EVENTS, err);
    return rc ? rc : ea_pipeline_write_keyframe(p, err);
}

static void pipeline_wait_for_keyframe(ea_pipeline *p, int64_t wait_ns) {
    p->keyframe_due_ns = p->last_utc_ns + wait_ns;
    p->keyframe_wait_ns = wait_ns;
}

/* In a live session, an event whose time is far before the others' restarts the wait: the following events continue
 * from its time. */
static int keyframe_is_due_by_time(ea_pipeline *p) {
    if (p->o.live && p->keyframe_due_ns - p->last_utc_ns > p->keyframe_wait_ns + FAR_AFTER_NS)
        pipeline_wait_for_keyframe(p, p->keyframe_wait_ns);
    return p->last_utc_ns >= p->keyframe_due_ns;
}

static int keyframe_is_due(ea_pipeline *p) {
    if (p->o.keyframe_events && p->events_since_keyframe >= p->o.keyframe_events)
        return 1;
    if (p->o.keyframe_ns && p->keyframe_due_ns != INT64_MAX && keyframe_is_due_by_time(p)) {
        if (!p->o.is_numbered || ea_machine_open_count(p->machine) || ea_open_object_names_count(p->names))
            return 1;
        pipeline_wait_for_keyframe(p, p->o.keyframe_ns); /* sessions of other events state nothing */
    }
    /* by a clock of ours, so never in a replay, which must find the same places again */
    return p->o.live && atomic_load_explicit(&p->keyframe_wanted, memory_order_relaxed) && p->events_since_keyframe &&
           (!p->wanted_ns || ea_monotonic_ns() - p->wanted_ns >= WANTED_PAUSE_NS);
}

static int pipeline_add_made(void *arg, const ea_record *record);

int ea_pipeline_write_keyframe(ea_pipeline *p, ea_err *err) {
    if (atomic_exchange(&p->keyframe_wanted, 0))
        p->wanted_ns = ea_monotonic_ns();
    uint64_t given_up =
        ea_counter_get(&p->state, EA_COUNT_state_evicted) + ea_counter_get(&p->state, EA_COUNT_state_texts_left_out);
    ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_keyframe_rows_given_up, (int64_t)(given_up - p->given_up)}, 1,
                   NULL, 0);
    p->given_up = given_up;
    p->err = err;
    p->events_since_keyframe = 0;
    if (p->o.keyframe_ns)
        pipeline_wait_for_keyframe(p, p->o.keyframe_ns);
    uint64_t number = atomic_fetch_add(&p->keyframes, 1) + 1;
    int rc = ea_keyframe_write(p->machine, p->names, number, &p->last, pipeline_add_made, p, err);
    if (!rc)
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_keyframes_written, 1}, 1, NULL, 0);
    return rc ? rc : pipeline_close_batch(p, EA_BATCH_KEYFRAME, err);
}

/* A record of a keyframe: into a batch of its own kind. */
static int pipeline_add_made(void *arg, const ea_record *record) {
    ea_pipeline *p = arg;
    enum ea_counter outcome;
    const ea_class *c = ea_decoder_find(p->decoder, &record, &outcome);
    int rc = ea_builder_add(p->builder, record, c);
    if (rc == EA_EFULL) {
        if ((rc = pipeline_close_batch(p, EA_BATCH_KEYFRAME, p->err)))
            return rc;
        rc = ea_builder_add(p->builder, record, c);
    }
    if (rc >= 0)
        p->families[c->family % EA_LEDGER_FAMILIES]++;
    if (rc == 1)
        return pipeline_close_batch(p, EA_BATCH_KEYFRAME, p->err);
    return rc ? ea_fail(p->err, rc, "add to a keyframe") : 0;
}

/* ---- the state that keyframes are made from ---- */

static int pipeline_apply_state(ea_pipeline *p, const ea_record *record, const ea_class *c, ea_err *err) {
    if (record->source >= p->o.source_count)
        return 0; /* the builder drops and counts it */
    p->last = *record;
    p->last.payload = NULL;
    p->last.ext = NULL;
    p->events_since_keyframe++;
    p->last_utc_ns = ea_clock_to_utc_ns(&p->clocks[record->source], record->time_raw);
    if (p->keyframe_due_ns == INT64_MAX)
        pipeline_wait_for_keyframe(p, p->o.live && p->o.is_numbered ? RUNDOWN_OVER_NS : SECOND_NS);
    int rc = ea_machine_apply(p->machine, record, c, p->last_utc_ns, err);
    return rc ? rc : ea_open_object_names_apply(p->names, record, c, p->last_utc_ns, err);
}

/* ---- a full batch ---- */

static void pipeline_post_watches(ea_pipeline *p);
static int pipeline_close_in_turn(ea_pipeline *p, enum ea_batch_kind kind, uint32_t n, ea_err *err)
    EA_REQUIRES(p->turn);

/* Closes the open batch, if it holds anything, and hands it on. */
static int pipeline_close_batch(ea_pipeline *p, enum ea_batch_kind kind, ea_err *err) {
    uint32_t n = ea_builder_pending(p->builder);
    pipeline_post_drops(p);
    pipeline_post_watches(p);
    if (!n)
        return 0;
    ea_mutex_lock(p->turn);
    int rc = pipeline_close_in_turn(p, kind, n, err);
    ea_mutex_unlock(p->turn);
    return rc;
}

static size_t pipeline_take_families(ea_pipeline *p, ea_family_count *ret);
static void pipeline_post_stacks(ea_pipeline *p);
static void pipeline_wait_for_encoders(ea_pipeline *p) EA_REQUIRES(p->turn);
static int pipeline_hand_on(ea_pipeline *p, ea_open_batch *batch, enum ea_batch_kind kind, uint32_t n,
                            const ea_family_count *families, size_t family_count, ea_err *err) EA_REQUIRES(p->turn);

/* Results in the open batch: no source delivered them. Returns how many they are. */
static uint32_t pipeline_post_rows(ea_pipeline *p) {
    uint32_t n = p->rows;
    if (n)
        ea_ledger_post(p->o.ledger,
                       (ea_posting[]){{EA_COUNT_events_synthesised, n},
                                      {EA_COUNT_events_batched, -(int64_t)n},
                                      {EA_COUNT_events_pending, n}},
                       3, &(ea_family_count){n, p->row_family}, 1);
    p->rows = 0;
    return n;
}

/* With turn. */
static int pipeline_close_in_turn(ea_pipeline *p, enum ea_batch_kind kind, uint32_t n, ea_err *err) {
    ea_mutex_assert_held(p->turn);
    ea_open_batch *batch;
    ea_family_count families[EA_LEDGER_FAMILIES];
    size_t family_count = pipeline_take_families(p, families);
    if (kind == EA_BATCH_KEYFRAME) { /* no source delivered them: evens out the claim's move from pending to batched */
        ea_ledger_post(p->o.ledger,
                       (ea_posting[]){{EA_COUNT_events_synthesised, n},
                                      {EA_COUNT_events_batched, -(int64_t)n},
                                      {EA_COUNT_events_pending, n}},
                       3, families, family_count);
    } else {
        ea_family_count delivered[EA_LEDGER_FAMILIES];
        uint32_t rows = pipeline_post_rows(p);
        memcpy(delivered, families, family_count * sizeof *families);
        for (size_t i = 0; i < family_count; i++)
            delivered[i].events -= delivered[i].family == p->row_family ? rows : 0;
        ea_posting postings[] = {{EA_COUNT_events_delivered, n - rows},
                                 {EA_COUNT_events_pending, n - rows},
                                 {EA_COUNT_decode_whole, (int64_t)p->outcomes[0]},
                                 {EA_COUNT_decode_partial, (int64_t)p->outcomes[1]},
                                 {EA_COUNT_decode_unknown, (int64_t)p->outcomes[2]},
                                 {EA_COUNT_decode_unread, (int64_t)(ea_decoder_unread(p->decoder) - p->unread)},
                                 {EA_COUNT_source_lost_records, (int64_t)p->lost_records}};
        ea_ledger_post(p->o.ledger, postings, sizeof postings / sizeof *postings, delivered, family_count);
        memset(p->outcomes, 0, sizeof p->outcomes);
        p->lost_records = 0;
        p->unread = ea_decoder_unread(p->decoder);
    }
    pipeline_post_stacks(p);
    while (!(batch = ea_builder_take(p->builder)))
        pipeline_wait_for_encoders(p);
    int rc = pipeline_hand_on(p, batch, kind, n, families, family_count, err);
    p->is_raised = 0;
    return rc;
}

/* The families of the open batch's events; it starts anew. */
static size_t pipeline_take_families(ea_pipeline *p, ea_family_count *ret) {
    size_t n = 0;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        if (p->families[f])
            ret[n++] = (ea_family_count){p->families[f], (uint8_t)f};
    memset(p->families, 0, sizeof p->families);
    return n;
}

static void pipeline_post_stacks(ea_pipeline *p) {
    uint64_t counts[EA_STACK_OUTCOME_COUNT];
    ea_stack_meter_take(p->stacks, counts);
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        if (counts[i])
            ea_ledger_post(p->o.ledger,
                           &(ea_posting){ea_stack_meter_counter((enum ea_stack_outcome)i), (int64_t)counts[i]}, 1, NULL,
                           0);
}

/* What programs could not do as they say. */
static void pipeline_post_watches(ea_pipeline *p) {
    if (!p->o.watches)
        return;
    ea_lang_counts now = ea_watches_counts(p->o.watches), had = p->watched;
    ea_posting postings[] = {
        {EA_COUNT_watch_skipped, (int64_t)(now.absent + now.divided_by_zero - had.absent - had.divided_by_zero)},
        {EA_COUNT_watch_others, (int64_t)(now.others - had.others)},
        {EA_COUNT_triggers_limited, (int64_t)(now.unfired - had.unfired)},
        {EA_COUNT_watch_shipped, (int64_t)(now.shipped - had.shipped)},
        {EA_COUNT_watch_dropped,
         (int64_t)(now.dropped + now.texts + now.costly - had.dropped - had.texts - had.costly)}};
    int has_any = 0;
    for (size_t i = 0; i < sizeof postings / sizeof *postings; i++)
        has_any |= postings[i].events != 0;
    if (has_any)
        ea_ledger_post(p->o.ledger, postings, sizeof postings / sizeof *postings, NULL, 0);
    p->watched = now;
}

/* With turn, for which no encoder waits. Whole seconds of it are counted. */
static void pipeline_wait_for_encoders(ea_pipeline *p) {
    ea_mutex_assert_held(p->turn);
    int64_t began_ns = ea_monotonic_ns();
    ea_builder_wait(p->builder);
    p->held_ns += ea_monotonic_ns() - began_ns;
    ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_source_held_seconds, p->held_ns / SECOND_NS}, 1, NULL, 0);
    p->held_ns %= SECOND_NS;
}

/* How far the recorder reaches back; 0: it has no event, or there is no recorder. */
static uint64_t pipeline_recorder_oldest_s(const ea_pipeline *p) {
    ea_spool_status status = {.first_utc_ns = INT64_MAX};
    if (p->o.recorder)
        ea_spool_get_status(p->o.recorder, &status);
    return status.first_utc_ns == INT64_MAX || status.first_utc_ns < 0 ? 0
                                                                       : (uint64_t)(status.first_utc_ns / SECOND_NS);
}

/* Gives the next number to a batch, or to none, and hands it to the encoders with the ledger as it is now. With turn.
 */
static int pipeline_hand_on(ea_pipeline *p, ea_open_batch *batch, enum ea_batch_kind kind, uint32_t n,
                            const ea_family_count *families, size_t family_count, ea_err *err) {
    ea_mutex_assert_held(p->turn);
    int is_recorded = batch && p->o.recorder;
    uint64_t number = is_recorded ? ++p->recorded_number : ++p->number;
    int rc = ea_spool_claim(is_recorded ? p->o.recorder : p->o.spool, is_recorded ? p->recording : p->stream, number, n,
                            families, family_count, err);
    if (rc) {
        if (batch)
            ea_open_batch_release(batch);
        if (rc > 0) { /* an earlier run sent the ledger with it */
            atomic_fetch_add(&p->kept_batches, 1);
            ea_ledger_snapshot(p->o.ledger, &p->sent_counters, NULL);
        }
    } else {
        uint64_t oldest_s = is_recorded ? 0 : pipeline_recorder_oldest_s(p);
        ea_mutex_lock(p->lock);
        while (p->count == p->ring_size) /* spare batches do not bound those without events */
            ea_cond_wait(p->changed, p->lock);
        EA_ASSERT(p->count < p->ring_size);
        ea_pipeline_job *j = &p->ring[(p->first + p->count) % p->ring_size];
        j->batch = batch;
        j->number = number;
        j->is_recorded = is_recorded;
        j->priority = batch && p->is_raised && p->o.priority < RAISED_PRIORITY ? RAISED_PRIORITY : p->o.priority;
        j->kind = kind;
        j->utc_ns = ea_utc_ns();
        if (family_count)
            memcpy(j->of, families, family_count * sizeof *families);
        j->of_count = family_count;
        ea_ledger_snapshot(p->o.ledger, &j->ledger, &j->families);
        if (!is_recorded)
            p->sent_counters = j->ledger;
        ea_pipeline_take_base(p, j);
        ea_count(&j->ledger, EA_COUNT_stream_ended, (uint64_t)p->ended);
        ea_count(&j->ledger, EA_COUNT_recorder_oldest_seconds, oldest_s);
        j->changed = is_recorded ? 0 : ea_pipeline_note_changes(p, number, &j->families);
        p->count++;
        ea_cond_broadcast(p->changed);
        ea_mutex_unlock(p->lock);
    }
    atomic_store(&p->batches, p->number + p->recorded_number);
    return rc < 0 ? rc : 0;
}

/* ---- an encoder's thread ---- */

static void worker_encode(ea_pipeline *p, ea_pipeline_worker *w, const ea_pipeline_job *j);

void ea_pipeline_worker_main(void *arg) {
    ea_pipeline_worker *w = arg;
    ea_pipeline *p = w->pipeline;
    ea_thread_is_bulk();
    ea_mutex_lock(p->lock);
    for (;;) {
        while (!p->count && !p->closing)
            ea_cond_wait(p->changed, p->lock);
        if (!p->count)
            break;
        ea_pipeline_job j = p->ring[p->first];
        p->first = (p->first + 1) % p->ring_size;
        p->count--;
        p->busy++;
        ea_mutex_unlock(p->lock);
        if (!atomic_load(&p->failed))
            worker_encode(p, w, &j);
        else if (j.batch)
            ea_open_batch_release(j.batch); /* so that no thread waits for it */
        ea_mutex_lock(p->lock);
        EA_ASSERT(p->busy);
        p->busy--;
        ea_cond_broadcast(p->changed);
    }
    ea_mutex_unlock(p->lock);
}

static void pipeline_fail(ea_pipeline *p, const ea_err *err);

static void worker_encode(ea_pipeline *p, ea_pipeline_worker *w, const ea_pipeline_job *j) {
    const uint8_t *data;
    size_t len_bytes;
    uint32_t events = j->batch ? ea_open_batch_events(j->batch) : 0;
    ea_err err;
    ea_batch_stamp stamp = {.number = j->number,
                            .priority = j->priority,
                            .kind = j->kind,
                            .ledger = &j->ledger,
                            .ledger_utc_ns = j->utc_ns,
                            .family_counts = w->counts,
                            .family_count_count = ea_pipeline_list_families(w, j),
                            .incarnation = p->incarnation};
    int rc = ea_encoder_encode(j->is_recorded ? w->recording : w->encoder, j->batch, &stamp, &data, &len_bytes, &err);
    if (j->batch)
        ea_open_batch_release(j->batch);
    if (!rc)
        rc = ea_spool_append(j->is_recorded ? p->o.recorder : p->o.spool,
                             &(ea_spool_batch){.stream = j->is_recorded ? p->recording : p->stream,
                                               .number = j->number,
                                               .priority = j->priority,
                                               .event_count = events,
                                               .data = data,
                                               .len_bytes = len_bytes,
                                               .families = j->of,
                                               .family_count = j->of_count},
                             &err);
    if (rc) {
        pipeline_fail(p, &err);
        return;
    }
    atomic_fetch_add(&p->encoded_events, events);
    atomic_fetch_add(&p->encoded_batches, 1);
    atomic_fetch_add(&p->encoded_bytes, len_bytes);
}

static void pipeline_fail(ea_pipeline *p, const ea_err *err) {
    ea_mutex_lock(p->lock);
    if (!p->error.code)
        p->error = *err;
    atomic_store(&p->failed, 1);
    ea_cond_broadcast(p->changed);
    ea_mutex_unlock(p->lock);
}

static int pipeline_failure(ea_pipeline *p, ea_err *err) {
    ea_mutex_lock(p->lock);
    ea_err first = p->error;
    ea_mutex_unlock(p->lock);
    if (err)
        *err = first;
    return first.code;
}

/* ---- between two records, and after the last one ---- */

static int pipeline_may_ship_news(const ea_pipeline *p, int at_the_end) EA_REQUIRES(p->turn);
static int pipeline_ship_news(ea_pipeline *p, int at_the_end, ea_err *err);
static void pipeline_wait_for_all(ea_pipeline *p);

int ea_pipeline_flush(ea_pipeline *p, ea_err *err) {
    atomic_store(&p->events, p->delivered);
    if (atomic_load(&p->failed))
        return pipeline_failure(p, err);
    int rc = pipeline_close_batch(p, EA_BATCH_EVENTS, err);
    return rc ? rc : pipeline_ship_news(p, 0, err);
}

int ea_pipeline_store(ea_pipeline *p, ea_err *err) {
    int rc = ea_pipeline_flush(p, err);
    if (rc)
        return rc;
    pipeline_wait_for_all(p);
    return pipeline_failure(p, err);
}

/* With turn. A recorded stream has such batches only, and each of its events is news. */
static int pipeline_may_ship_news(const ea_pipeline *p, int at_the_end) {
    ea_mutex_assert_held(p->turn);
    return !p->o.recorder || at_the_end || !p->news_ns || ea_monotonic_ns() - p->news_ns >= EA_PIPELINE_NEWS_NS;
}

/* Sends the counts since the last batch in a batch without events. */
static int pipeline_ship_news(ea_pipeline *p, int at_the_end, ea_err *err) {
    int rc = 0;
    ea_mutex_lock(p->turn);
    if (pipeline_may_ship_news(p, at_the_end) && ea_pipeline_has_news(p)) {
        p->news_ns = ea_monotonic_ns();
        rc = pipeline_hand_on(p, NULL, EA_BATCH_EVENTS, 0, NULL, 0, err);
    }
    ea_mutex_unlock(p->turn);
    return rc;
}

void ea_pipeline_note_dropped(ea_pipeline *p, const ea_record *kind, uint64_t count, enum ea_counter cause) {
    enum ea_counter outcome;
    uint8_t family = ea_decoder_find(p->decoder, &kind, &outcome)->family % EA_LEDGER_FAMILIES;
    while (count) {
        uint32_t part = count > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)count;
        ea_ledger_post(p->o.ledger, (ea_posting[]){{EA_COUNT_events_delivered, part}, {cause, part}}, 2,
                       &(ea_family_count){part, family}, 1);
        count -= part;
    }
}

int ea_pipeline_set_clock(ea_pipeline *p, size_t source, const ea_clock *clock, ea_err *err) {
    int rc = pipeline_close_batch(p, EA_BATCH_EVENTS, err);
    if (!rc)
        rc = ea_builder_set_clock(p->builder, source, clock, err);
    if (rc || !p->clocks)
        return rc;
    int64_t moved_ns = clock->base_utc_ns - ea_clock_to_utc_ns(&p->clocks[source], clock->base_raw);
    p->clocks[source] = *clock;
    if (p->keyframe_due_ns != INT64_MAX) { /* a clock that was set back puts off no keyframe */
        p->last_utc_ns += moved_ns;
        p->keyframe_due_ns += moved_ns;
    }
    return 0;
}

int ea_pipeline_finish(ea_pipeline *p, ea_err *err) {
    ea_stack_meter_end(p->stacks);
    int rc = p->o.watches ? pipeline_watch_failed(p, ea_watches_end(p->o.watches, err), err) : 0;
    if (!rc)
        rc = pipeline_close_batch(p, EA_BATCH_EVENTS, err);
    pipeline_post_stacks(p); /* when there was no batch to close */
    if (!rc && p->o.live)    /* a replay's closing batch has them; until it is made, the replay can be resumed */
        rc = pipeline_ship_news(p, 1, err);
    ea_mutex_lock(p->turn);
    p->finished = 1;
    ea_mutex_unlock(p->turn);
    atomic_store(&p->events, p->delivered);
    pipeline_wait_for_all(p);
    return rc ? rc : pipeline_failure(p, err);
}

int ea_pipeline_end(ea_pipeline *p, ea_err *err) {
    ea_mutex_lock(p->turn);
    p->ended = 1;
    int rc = pipeline_hand_on(p, NULL, EA_BATCH_EVENTS, 0, NULL, 0, err);
    ea_mutex_unlock(p->turn);
    pipeline_wait_for_all(p);
    if (!rc)
        rc = pipeline_failure(p, err);
    ea_mutex_lock(p->turn); /* no renewal meanwhile */
    if (!rc)
        ea_spool_ledger_end(p->o.spool, p->stream);
    ea_mutex_unlock(p->turn);
    return rc;
}

static void pipeline_wait_for_all(ea_pipeline *p) {
    ea_mutex_lock(p->lock);
    while (p->count || p->busy)
        ea_cond_wait(p->changed, p->lock);
    ea_mutex_unlock(p->lock);
}
