/* From records to the spool. See pipeline.h. */
#include "pipeline.h"
#include "decoder.h"
#include "keyframe.h"
#include "platform.h"
#include "stack_meter.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000, WANTED_PAUSE_NS = (int64_t)10 * 1000000000;
static const int64_t TOLD_NS = (int64_t)15 * 1000000000;       /* a second session's longest start and end are over */
static const int64_t FAR_BEHIND_NS = (int64_t)60 * 1000000000; /* more than events are out of order */
enum {
    PROGRESS_EVENTS = 4096,    /* how often the count of events is made visible */
    ALL_FAMILIES_BATCHES = 64, /* how often all families' numbers travel, changed or not */
    KEYFRAME_BYTES = 64 << 20, /* of the tables behind keyframes */
};

typedef struct job {
    ea_open_batch *batch; /* NULL: none, only the ledger */
    uint64_t number;
    enum ea_batch_kind kind;
    ea_counters ledger; /* when the batch was closed */
    ea_ledger_families families;
    uint64_t changed; /* which families differ from what travelled before: a bit each */
    int64_t utc_ns;
    ea_family_count of[EA_LEDGER_FAMILIES]; /* its events */
    size_t of_count;
} job;

typedef struct worker {
    ea_pipeline *pipeline;
    ea_encoder *encoder; /* encode: the worker's thread */
    ea_ledger_count counts[EA_LEDGER_FAMILIES * EA_LEDGER_FAMILY_COUNTERS];
    ea_thread *thread;
} worker;

struct ea_pipeline {
    ea_pipeline_options o;
    uint8_t stream[EA_STREAM_ID_BYTES]; /* lock */
    uint64_t incarnation;               /* of the ledger: the stream's beginning in this run, UTC in ns; turn */
    worker workers[EA_PIPELINE_ENCODERS_MAX];
    unsigned worker_count;
    _Atomic uint64_t keyframes, events, batches, encoded_events, encoded_batches, encoded_bytes, kept_batches;
    atomic_int failed;
    atomic_int keyframe_wanted;

    ea_mutex *turn;   /* who gives out numbers: the source's thread that closes a batch, or a renewal */
    ea_counters base; /* turn: what the ledger of this stream does not count, since the stream before had it */
    ea_ledger_families family_base;
    uint64_t number;         /* turn */
    int ended;               /* turn: the batch that is handed on now is the stream's closing one */
    int finished;            /* turn: the source has come to its end; what was its thread's may be used by a renewal */
    ea_ledger_families told; /* turn: what travelled last of each family */
    ea_counters told_counters; /* turn: and of the session */
    uint64_t told_number;      /* turn: the batch that told all of them */

    /* the source's thread */
    ea_decoder *decoder;
    ea_stack_meter *stacks;
    uint64_t unread;                       /* of ea_decoder_unread, what the ledger has */
    uint64_t outcomes[3];                  /* of the open batch's events: whole, partial, unknown */
    uint32_t families[EA_LEDGER_FAMILIES]; /* of the open batch's events */
    uint64_t lost_records;                 /* in the open batch */
    uint8_t lost_family;                   /* whose records say that events were lost */
    ea_builder *builder;
    uint64_t delivered;
    ea_clock *clocks;    /* of the sources, when there is a machine */
    ea_machine *machine; /* NULL: no keyframes */
    ea_open_names *names;
    ea_counters state; /* the machine's */
    uint64_t given_up; /* of them, in the ledger */
    ea_record last;    /* without its payload */
    uint64_t events_since_keyframe;
    int64_t held_ns;          /* waited for encoders, and not counted yet: less than a second */
    int64_t keyframe_due_ns;  /* by the events' time; INT64_MAX: before the first event */
    int64_t keyframe_wait_ns; /* what that was away when it was set */
    int64_t last_utc_ns;      /* of the last event */
    int64_t wanted_ns;        /* when a keyframe was written on request last, monotonic */
    ea_err *err;              /* of the keyframe at hand */

    ea_mutex *lock;
    ea_cond *changed;
    job *ring; /* lock; ring_size is the number of spare batches, so that there is always room */
    size_t ring_size, first, count, busy;
    int closing;
    ea_err error; /* the first one */
};

static void fail(ea_pipeline *p, const ea_err *err) {
    ea_mutex_lock(p->lock);
    if (!p->error.code)
        p->error = *err;
    atomic_store(&p->failed, 1);
    ea_cond_broadcast(p->changed);
    ea_mutex_unlock(p->lock);
}

/* The families that travel with a batch: those whose numbers changed. Zeros are left out. */
static size_t list_families(worker *w, const job *j) {
    size_t n = 0;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; (j->changed >> f & 1) && k < EA_LEDGER_FAMILY_COUNTERS; k++)
            if (j->families.values[f][k])
                w->counts[n++] = (ea_ledger_count){.counter = ea_counter_row(ea_ledger_family_counter(k))->number,
                                                   .value = j->families.values[f][k],
                                                   .family = ea_event_family_name((uint8_t)f)};
    return n;
}

static void encode(ea_pipeline *p, worker *w, const job *j) {
    const uint8_t *data;
    size_t len_bytes;
    uint32_t events = j->batch ? ea_open_batch_events(j->batch) : 0;
    ea_err err;
    ea_batch_stamp stamp = {.number = j->number,
                            .priority = p->o.priority,
                            .kind = j->kind,
                            .ledger = &j->ledger,
                            .ledger_utc_ns = j->utc_ns,
                            .family_counts = w->counts,
                            .family_count_count = list_families(w, j),
                            .incarnation = p->incarnation};
    int rc = ea_encoder_encode(w->encoder, j->batch, &stamp, &data, &len_bytes, &err);
    if (j->batch)
        ea_open_batch_release(j->batch);
    if (!rc)
        rc = ea_spool_append(p->o.spool,
                             &(ea_spool_batch){.stream = p->stream,
                                               .number = j->number,
                                               .priority = p->o.priority,
                                               .event_count = events,
                                               .data = data,
                                               .len_bytes = len_bytes,
                                               .families = j->of,
                                               .family_count = j->of_count},
                             &err);
    if (rc) {
        fail(p, &err);
        return;
    }
    atomic_fetch_add(&p->encoded_events, events);
    atomic_fetch_add(&p->encoded_batches, 1);
    atomic_fetch_add(&p->encoded_bytes, len_bytes);
}

static void worker_main(void *arg) {
    worker *w = arg;
    ea_pipeline *p = w->pipeline;
    ea_thread_is_bulk();
    ea_mutex_lock(p->lock);
    for (;;) {
        while (!p->count && !p->closing)
            ea_cond_wait(p->changed, p->lock);
        if (!p->count)
            break;
        job j = p->ring[p->first];
        p->first = (p->first + 1) % p->ring_size;
        p->count--;
        p->busy++;
        ea_mutex_unlock(p->lock);
        if (!atomic_load(&p->failed))
            encode(p, w, &j);
        else if (j.batch)
            ea_open_batch_release(j.batch); /* so that nobody waits for it */
        ea_mutex_lock(p->lock);
        p->busy--;
        ea_cond_broadcast(p->changed);
    }
    ea_mutex_unlock(p->lock);
}

/* An encoder for the stream's name of now; in place of the one that there is. No batch may be in its hands. */
static int make_encoder(ea_pipeline *p, worker *w, ea_err *err) {
    ea_encoder *fresh;
    ea_encoder_options e = {.zstd_level = p->o.zstd_level,
                            .dictionary = p->o.dictionary,
                            .dictionary_bytes = p->o.dictionary_bytes,
                            .is_numbered = p->o.is_numbered};
    memcpy(e.stream, p->stream, sizeof e.stream);
    int rc = ea_encoder_create(&fresh, &e, err);
    if (rc)
        return rc;
    ea_encoder_destroy(w->encoder);
    w->encoder = fresh;
    return 0;
}

/* What keyframes are made from. A quarter of the memory is for names. */
static int make_tables(ea_pipeline *p, size_t limit_bytes, ea_err *err) {
    if (!limit_bytes)
        limit_bytes = KEYFRAME_BYTES;
    int rc = ea_machine_create(
        &p->machine, &(ea_machine_options){.limit_bytes = limit_bytes - limit_bytes / 4, .counters = &p->state}, err);
    return rc ? rc : ea_open_names_create(&p->names, limit_bytes / 4, &p->state, err);
}

int ea_pipeline_create(ea_pipeline **ret, const ea_pipeline_options *options, ea_err *err) {
    ea_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "make a pipeline");
    p->o = *options;
    memcpy(p->stream, options->stream, sizeof p->stream);
    p->incarnation = (uint64_t)ea_utc_ns();
    while (strcmp(ea_event_family_name(p->lost_family), "lost_event") != 0)
        p->lost_family++;
    unsigned n = options->encoders ? options->encoders : 1;
    if (n > EA_PIPELINE_ENCODERS_MAX)
        n = EA_PIPELINE_ENCODERS_MAX;
    p->ring_size = 2 * (size_t)n; /* each has one at hand and one that waits */
    p->ring = calloc(p->ring_size, sizeof *p->ring);
    int rc = p->ring ? ea_mutex_create(&p->lock, err) : ea_fail(err, EA_ENOMEM, "make a pipeline");
    if (!rc)
        rc = ea_cond_create(&p->changed, err);
    if (!rc)
        rc = ea_mutex_create(&p->turn, err);
    if (!rc)
        rc = ea_decoder_create(&p->decoder, options->schemas, options->ask, err);
    if (!rc)
        rc = ea_stack_meter_create(&p->stacks, err);
    if (!rc)
        rc = ea_builder_create(&p->builder,
                               &(ea_builder_options){.max_events = options->batch_events,
                                                     .max_bytes = options->batch_bytes,
                                                     .spare_batches = (uint32_t)p->ring_size,
                                                     .sources = options->sources,
                                                     .source_count = options->source_count},
                               err);
    p->keyframe_due_ns = INT64_MAX;
    if (!rc && (options->keyframe_events || options->keyframe_ns || options->live))
        rc = make_tables(p, options->keyframe_bytes, err);
    if (!rc && p->machine) {
        p->clocks = calloc(options->source_count, sizeof *p->clocks);
        if (!p->clocks)
            rc = ea_fail(err, EA_ENOMEM, "make a pipeline");
        for (size_t i = 0; !rc && i < options->source_count; i++)
            p->clocks[i] = options->sources[i].clock;
    }
    for (unsigned i = 0; !rc && i < n; i++) {
        worker *w = &p->workers[i];
        w->pipeline = p;
        rc = make_encoder(p, w, err);
        if (!rc) {
            p->worker_count++;
            rc = ea_thread_start(&w->thread, "encoder", worker_main, w, err);
        }
    }
    if (rc) {
        ea_pipeline_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ea_pipeline_destroy(ea_pipeline *p) {
    if (!p)
        return;
    if (p->changed) {
        ea_mutex_lock(p->lock);
        p->closing = 1;
        atomic_store(&p->failed, 1);
        ea_cond_broadcast(p->changed);
        ea_mutex_unlock(p->lock);
    }
    for (unsigned i = 0; i < p->worker_count; i++) {
        ea_thread_join(p->workers[i].thread);
        ea_encoder_destroy(p->workers[i].encoder);
    }
    ea_machine_destroy(p->machine);
    ea_open_names_destroy(p->names);
    free(p->clocks);
    ea_builder_destroy(p->builder);
    ea_stack_meter_destroy(p->stacks);
    ea_decoder_destroy(p->decoder);
    ea_cond_destroy(p->changed);
    ea_mutex_destroy(p->turn);
    ea_mutex_destroy(p->lock);
    free(p->ring);
    free(p);
}

static int why(ea_pipeline *p, ea_err *err) {
    ea_mutex_lock(p->lock);
    ea_err first = p->error;
    ea_mutex_unlock(p->lock);
    if (err)
        *err = first;
    return first.code;
}

/* What the ledger says of this stream: all of this run without what went under the stream's earlier names. */
static void take_base(const ea_pipeline *p, job *j) {
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        ea_uncount(&j->ledger, (enum ea_counter)c, ea_counter_get(&p->base, (enum ea_counter)c));
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            j->families.values[f][k] -= p->family_base.values[f][k];
}

/* Which families a reader must be told of: cumulative numbers travel when they changed, and all now and then, since a
 * batch may be lost. */
static uint64_t note_changes(ea_pipeline *p, uint64_t number, const ea_ledger_families *now) {
    uint64_t changed = 0;
    int all = number - p->told_number >= ALL_FAMILIES_BATCHES;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        if (all || memcmp(p->told.values[f], now->values[f], sizeof now->values[f]) != 0)
            changed |= (uint64_t)1 << f;
    if (all)
        p->told_number = number;
    p->told = *now;
    return changed;
}

/* The families of the open batch's events; it starts anew. */
static size_t take_families(ea_pipeline *p, ea_family_count *ret) {
    size_t n = 0;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        if (p->families[f])
            ret[n++] = (ea_family_count){p->families[f], (uint8_t)f};
    memset(p->families, 0, sizeof p->families);
    return n;
}

/* Gives the next number to a batch, or to none, and hands it to the encoders with the ledger as it is now. With turn.
 */
static int hand_on(ea_pipeline *p, ea_open_batch *batch, enum ea_batch_kind kind, uint32_t n,
                   const ea_family_count *families, size_t family_count, ea_err *err) {
    uint64_t number = ++p->number;
    int rc = ea_spool_claim(p->o.spool, p->stream, number, n, families, family_count, err);
    if (rc) {
        if (batch)
            ea_open_batch_release(batch);
        if (rc > 0) { /* an earlier run told the ledger with it */
            atomic_fetch_add(&p->kept_batches, 1);
            ea_ledger_snapshot(p->o.ledger, &p->told_counters, NULL);
        }
    } else {
        ea_mutex_lock(p->lock);
        while (p->count == p->ring_size) /* spare batches do not bound those without events */
            ea_cond_wait(p->changed, p->lock);
        job *j = &p->ring[(p->first + p->count) % p->ring_size];
        j->batch = batch;
        j->number = number;
        j->kind = kind;
        j->utc_ns = ea_utc_ns();
        if (family_count)
            memcpy(j->of, families, family_count * sizeof *families);
        j->of_count = family_count;
        ea_ledger_snapshot(p->o.ledger, &j->ledger, &j->families);
        p->told_counters = j->ledger;
        take_base(p, j);
        ea_count(&j->ledger, EA_COUNT_stream_ended, (uint64_t)p->ended);
        j->changed = note_changes(p, number, &j->families);
        p->count++;
        ea_cond_broadcast(p->changed);
        ea_mutex_unlock(p->lock);
    }
    atomic_store(&p->batches, number);
    return rc < 0 ? rc : 0;
}

/* 1 when the source has counted something since the last batch: what it delivered, dropped, lost or decoded. What
 * became of batches on their way is no news, since telling it changes it. With turn. */
static int has_news(ea_pipeline *p) {
    enum {
        DELIVERY_END = 10,
        SOURCE_FIRST = 30,
        DECODE_END = 70,
        STACKS_FIRST = 110,
        STACKS_END = 119
    }; /* of counters' numbers */
    ea_counters now;
    ea_ledger_snapshot(p->o.ledger, &now, NULL);
    for (enum ea_counter c = 0; c < EA_COUNTER_COUNT; c++) {
        uint32_t number = ea_counter_row(c)->number;
        int is_news = number < DELIVERY_END || (number >= SOURCE_FIRST && number < DECODE_END) ||
                      (number >= STACKS_FIRST && number < STACKS_END);
        is_news &= c != EA_COUNT_events_pending && c != EA_COUNT_source_held_seconds; /* a replay need not wait again */
        if (is_news && ea_counter_get(&now, c) != ea_counter_get(&p->told_counters, c))
            return 1;
    }
    return 0;
}

/* What was counted behind the last batch goes out with one that holds no events. */
static int tell_news(ea_pipeline *p, ea_err *err) {
    ea_mutex_lock(p->turn);
    int rc = has_news(p) ? hand_on(p, NULL, EA_BATCH_EVENTS, 0, NULL, 0, err) : 0;
    ea_mutex_unlock(p->turn);
    return rc;
}

/* With turn, for which no encoder waits. Whole seconds of it are counted. */
static void wait_for_encoders(ea_pipeline *p) {
    int64_t began_ns = ea_monotonic_ns();
    ea_builder_wait(p->builder);
    p->held_ns += ea_monotonic_ns() - began_ns;
    ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_source_held_seconds, p->held_ns / SECOND_NS}, 1, NULL, 0);
    p->held_ns %= SECOND_NS;
}

static void post_stacks(ea_pipeline *p) {
    uint64_t counts[EA_STACK_OUTCOME_COUNT];
    ea_stack_meter_take(p->stacks, counts);
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        if (counts[i])
            ea_ledger_post(p->o.ledger,
                           &(ea_posting){ea_stack_meter_counter((enum ea_stack_outcome)i), (int64_t)counts[i]}, 1, NULL,
                           0);
}

/* With turn. */
static int close_in_turn(ea_pipeline *p, enum ea_batch_kind kind, uint32_t n, ea_err *err) {
    ea_open_batch *batch;
    ea_family_count families[EA_LEDGER_FAMILIES];
    size_t family_count = take_families(p, families);
    if (kind == EA_BATCH_KEYFRAME) { /* nobody delivered them: the claim's move from pending to batched is evened out */
        ea_ledger_post(p->o.ledger,
                       (ea_posting[]){{EA_COUNT_events_synthesised, n},
                                      {EA_COUNT_events_batched, -(int64_t)n},
                                      {EA_COUNT_events_pending, n}},
                       3, families, family_count);
    } else {
        ea_posting postings[] = {{EA_COUNT_events_delivered, n},
                                 {EA_COUNT_events_pending, n},
                                 {EA_COUNT_decode_whole, (int64_t)p->outcomes[0]},
                                 {EA_COUNT_decode_partial, (int64_t)p->outcomes[1]},
                                 {EA_COUNT_decode_unknown, (int64_t)p->outcomes[2]},
                                 {EA_COUNT_decode_unread, (int64_t)(ea_decoder_unread(p->decoder) - p->unread)},
                                 {EA_COUNT_source_lost_records, (int64_t)p->lost_records}};
        ea_ledger_post(p->o.ledger, postings, sizeof postings / sizeof *postings, families, family_count);
        memset(p->outcomes, 0, sizeof p->outcomes);
        p->lost_records = 0;
        p->unread = ea_decoder_unread(p->decoder);
    }
    post_stacks(p);
    while (!(batch = ea_builder_take(p->builder)))
        wait_for_encoders(p);
    return hand_on(p, batch, kind, n, families, family_count, err);
}

/* Closes the open batch, if it holds anything, and hands it on. */
static int close_batch(ea_pipeline *p, enum ea_batch_kind kind, ea_err *err) {
    uint32_t n = ea_builder_pending(p->builder);
    if (!n)
        return 0;
    ea_mutex_lock(p->turn);
    int rc = close_in_turn(p, kind, n, err);
    ea_mutex_unlock(p->turn);
    return rc;
}

/* ---- keyframes ---- */

/* A record of a keyframe: into a batch of its own kind. */
static int add_made(void *arg, const ea_record *record) {
    ea_pipeline *p = arg;
    enum ea_counter outcome;
    const ea_class *c = ea_decoder_find(p->decoder, &record, &outcome);
    int rc = ea_builder_add(p->builder, record, c);
    if (rc == EA_EFULL) {
        if ((rc = close_batch(p, EA_BATCH_KEYFRAME, p->err)))
            return rc;
        rc = ea_builder_add(p->builder, record, c);
    }
    if (rc >= 0)
        p->families[c->family % EA_LEDGER_FAMILIES]++;
    if (rc == 1)
        return close_batch(p, EA_BATCH_KEYFRAME, p->err);
    return rc ? ea_fail(p->err, rc, "add to a keyframe") : 0;
}

static void count_pending_id(void *arg, const ea_module *id, int64_t utc_ns) {
    (void)id, (void)utc_ns;
    ++*(size_t *)arg;
}

static void wait_for_keyframe(ea_pipeline *p, int64_t wait_ns) {
    p->keyframe_due_ns = p->last_utc_ns + wait_ns;
    p->keyframe_wait_ns = wait_ns;
}

/* A live session's event far behind the others begins the waiting anew: its time, not theirs, is what goes on. */
static int is_due_by_time(ea_pipeline *p) {
    if (p->o.live && p->keyframe_due_ns - p->last_utc_ns > p->keyframe_wait_ns + FAR_BEHIND_NS)
        wait_for_keyframe(p, p->keyframe_wait_ns);
    return p->last_utc_ns >= p->keyframe_due_ns;
}

static int is_keyframe_due(ea_pipeline *p) {
    if (p->o.keyframe_events && p->events_since_keyframe >= p->o.keyframe_events)
        return 1;
    if (p->o.keyframe_ns && p->keyframe_due_ns != INT64_MAX && is_due_by_time(p)) {
        if (!p->o.is_numbered || ea_machine_open_count(p->machine) || ea_open_names_count(p->names))
            return 1;
        wait_for_keyframe(p, p->o.keyframe_ns); /* sessions of other events state nothing */
    }
    /* by a clock of ours, so never in a replay, which must find the same places again */
    return p->o.live && atomic_load_explicit(&p->keyframe_wanted, memory_order_relaxed) && p->events_since_keyframe &&
           (!p->wanted_ns || ea_monotonic_ns() - p->wanted_ns >= WANTED_PAUSE_NS);
}

/* The state as it is now, in batches of its own. The open batch must be closed. */
static int write_keyframe(ea_pipeline *p, ea_err *err) {
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
        wait_for_keyframe(p, p->o.keyframe_ns);
    uint64_t number = atomic_fetch_add(&p->keyframes, 1) + 1;
    int rc = ea_keyframe_write(p->machine, p->names, number, &p->last, add_made, p, err);
    if (!rc)
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_keyframes_written, 1}, 1, NULL, 0);
    return rc ? rc : close_batch(p, EA_BATCH_KEYFRAME, err);
}

/* A keyframe stands between two events at a place that they alone decide, and which every run finds again. An image's
 * id that has come without its image belongs to neither side: then it waits, for as long as events have the id's time.
 */
static int keyframe_if_due(ea_pipeline *p, ea_err *err) {
    size_t waiting = 0;
    if (!is_keyframe_due(p))
        return 0;
    int rc = ea_machine_settle_ids(p->machine, p->last_utc_ns);
    if (rc)
        return ea_fail(err, rc, "make a keyframe");
    ea_machine_each_pending_id(p->machine, count_pending_id, &waiting);
    if (waiting)
        return 0;
    rc = close_batch(p, EA_BATCH_EVENTS, err);
    return rc ? rc : write_keyframe(p, err);
}
static int fold(ea_pipeline *p, const ea_record *record, const ea_class *c, ea_err *err) {
    if (record->source >= p->o.source_count)
        return 0; /* the builder drops and counts it */
    p->last = *record;
    p->last.payload = NULL;
    p->last.ext = NULL;
    p->events_since_keyframe++;
    p->last_utc_ns = ea_clock_to_utc_ns(&p->clocks[record->source], record->time_raw);
    if (p->keyframe_due_ns == INT64_MAX)
        wait_for_keyframe(p, p->o.live && p->o.is_numbered ? TOLD_NS : SECOND_NS);
    int rc = ea_machine_apply(p->machine, record, c, p->last_utc_ns, err);
    return rc ? rc : ea_open_names_apply(p->names, record, c, p->last_utc_ns, err);
}

int ea_pipeline_add(ea_pipeline *p, const ea_record *record, ea_err *err) {
    enum ea_counter outcome;
    const ea_class *c = ea_decoder_find(p->decoder, &record, &outcome);
    int rc = 0;
    if (p->machine) {
        rc = keyframe_if_due(p, err);
        if (!rc)
            rc = fold(p, record, c, err);
        if (rc)
            return rc;
    }
    rc = ea_stack_meter_add(p->stacks, record, c);
    if (rc)
        return ea_fail(err, rc, "count stacks");
    rc = ea_builder_add(p->builder, record, c);
    if (rc == EA_EFULL) {
        if ((rc = close_batch(p, EA_BATCH_EVENTS, err)))
            return rc;
        rc = ea_builder_add(p->builder, record, c);
    }
    if (++p->delivered % PROGRESS_EVENTS == 0)
        atomic_store_explicit(&p->events, p->delivered, memory_order_relaxed);
    if (rc >= 0) {
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
        return why(p, err);
    return close_batch(p, EA_BATCH_EVENTS, err);
}

int ea_pipeline_flush(ea_pipeline *p, ea_err *err) {
    atomic_store(&p->events, p->delivered);
    if (atomic_load(&p->failed))
        return why(p, err);
    int rc = close_batch(p, EA_BATCH_EVENTS, err);
    return rc ? rc : tell_news(p, err);
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

static void wait_for_all(ea_pipeline *p) {
    ea_mutex_lock(p->lock);
    while (p->count || p->busy)
        ea_cond_wait(p->changed, p->lock);
    ea_mutex_unlock(p->lock);
}

int ea_pipeline_finish(ea_pipeline *p, ea_err *err) {
    ea_stack_meter_end(p->stacks);
    int rc = close_batch(p, EA_BATCH_EVENTS, err);
    post_stacks(p); /* when there was no batch to close */
    if (!rc)
        rc = tell_news(p, err);
    ea_mutex_lock(p->turn);
    p->finished = 1;
    ea_mutex_unlock(p->turn);
    atomic_store(&p->events, p->delivered);
    wait_for_all(p);
    return rc ? rc : why(p, err);
}

int ea_pipeline_end(ea_pipeline *p, ea_err *err) {
    ea_mutex_lock(p->turn);
    p->ended = 1;
    int rc = hand_on(p, NULL, EA_BATCH_EVENTS, 0, NULL, 0, err);
    ea_mutex_unlock(p->turn);
    wait_for_all(p);
    return rc ? rc : why(p, err);
}

int ea_pipeline_set_labels(ea_pipeline *p, const ea_labels *labels, ea_err *err) {
    return ea_builder_set_labels(p->builder, labels, err);
}

int ea_pipeline_set_clock(ea_pipeline *p, size_t source, const ea_clock *clock, ea_err *err) {
    int rc = close_batch(p, EA_BATCH_EVENTS, err);
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

static int is_mine(ea_pipeline *p, const uint8_t *stream) {
    return memcmp(p->stream, stream, sizeof p->stream) == 0;
}

void ea_pipeline_known(ea_pipeline *p, const uint8_t *stream, const uint8_t *hash) {
    ea_mutex_lock(p->lock);
    for (unsigned i = 0; is_mine(p, stream) && i < p->worker_count; i++)
        ea_encoder_known(p->workers[i].encoder, hash);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_unknown(ea_pipeline *p, const uint8_t *stream, const ea_hash_ref *ref) {
    ea_mutex_lock(p->lock);
    for (unsigned i = 0; is_mine(p, stream) && i < p->worker_count; i++)
        ea_encoder_unknown(p->workers[i].encoder, ref);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_stream(const ea_pipeline *p, uint8_t *ret) {
    ea_mutex_lock(p->lock);
    memcpy(ret, p->stream, sizeof p->stream);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_want_keyframe(ea_pipeline *p) {
    atomic_store(&p->keyframe_wanted, 1);
}

/* The base of a ledger that begins anew: what is in no batch yet, or in one that goes on, counts in the new stream;
 * what was acknowledged, evicted, filtered ... does not. All that goes on is in the spool now. made: the counter of
 * what goes on and was made by us, synthesised; else it was delivered and batched. */
static void rebase(const uint64_t *now, uint64_t *base, uint64_t going_on_made) {
    uint64_t going_on = now[EA_COUNT_events_spooled] - going_on_made;
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        base[c] = now[c];
    static const enum ea_counter LEVELS[] = {EA_COUNT_events_pending, EA_COUNT_events_compressing,
                                             EA_COUNT_events_spooled, EA_COUNT_events_unanswered};
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        base[LEVELS[i]] = 0;
    base[EA_COUNT_events_synthesised] -= going_on_made;
    base[EA_COUNT_events_batched] -= going_on;
    base[EA_COUNT_events_delivered] -= going_on + now[EA_COUNT_events_pending];
}

static void rebase_all(ea_pipeline *p) {
    ea_counters now;
    ea_ledger_families families;
    uint64_t values[EA_COUNTER_COUNT], base[EA_COUNTER_COUNT], made = 0;
    ea_ledger_snapshot(p->o.ledger, &now, &families);
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++) {
        memset(values, 0, sizeof values);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            values[ea_ledger_family_counter(k)] = families.values[f][k];
        int is_made = values[EA_COUNT_events_synthesised] != 0; /* keyframes' families have no others */
        uint64_t going_on_made = is_made ? values[EA_COUNT_events_spooled] : 0;
        made += going_on_made;
        rebase(values, base, going_on_made);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            p->family_base.values[f][k] = base[ea_ledger_family_counter(k)];
    }
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        values[c] = ea_counter_get(&now, (enum ea_counter)c);
    rebase(values, base, made);
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        atomic_init(&p->base.values[c], base[c]);
    memset(&p->told, 0, sizeof p->told);
    p->told_number = 0;
}

int ea_pipeline_renew(ea_pipeline *p, ea_err *err) {
    uint8_t fresh[EA_STREAM_ID_BYTES];
    uint64_t count = 0;
    if (!p->o.live)
        return ea_fail(err, EA_ECONFLICT, "a replay's stream keeps its name");
    int rc = ea_random_bytes(fresh, sizeof fresh, err);
    if (rc)
        return rc;
    ea_mutex_lock(p->turn); /* no batch is closed meanwhile; those that are come into the spool, which never waits */
    ea_mutex_lock(p->lock);
    while (p->count || p->busy)
        ea_cond_wait(p->changed, p->lock);
    rc = ea_spool_renew(p->o.spool, p->stream, fresh, &count, err);
    if (!rc) {
        memcpy(p->stream, fresh, sizeof p->stream);
        p->number = count;
        p->incarnation = (uint64_t)ea_utc_ns();
        rebase_all(p);
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_streams_renewed, 1}, 1, NULL, 0);
        atomic_store(&p->keyframe_wanted, 1);
        atomic_store(&p->batches, count);
    }
    for (unsigned i = 0; !rc && i < p->worker_count; i++)
        rc = make_encoder(p, &p->workers[i], err);
    int finished = p->finished;
    ea_mutex_unlock(p->lock);
    ea_mutex_unlock(p->turn);
    return !rc && finished && p->events_since_keyframe ? write_keyframe(p, err) : rc; /* no event will bring it along */
}

void ea_pipeline_get_status(const ea_pipeline *p, ea_pipeline_status *ret) {
    *ret = (ea_pipeline_status){.events = atomic_load(&p->events),
                                .batches = atomic_load(&p->batches),
                                .keyframes = atomic_load(&p->keyframes),
                                .encoded_events = atomic_load(&p->encoded_events),
                                .encoded_batches = atomic_load(&p->encoded_batches),
                                .encoded_bytes = atomic_load(&p->encoded_bytes),
                                .kept_batches = atomic_load(&p->kept_batches)};
}
