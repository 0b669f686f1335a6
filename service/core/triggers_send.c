/* Which batches of a recorder a window needs, and their way into the spool. See triggers_parts.h.
 * Files are read as another process would (ea_spool_visit), so that what records does not wait. Thread: the triggers'.
 */
#include "service/core/triggers_parts.h"

#include "proto/base/array.h"
#include "service/spool/recorder_window.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILE_NAME_BYTES = 24,
    MISSING_MAX = 65536, /* that get tombstones, between two batches */
};

void triggers_drop_plans(ea_triggers *t) {
    for (size_t i = 0; i < t->plan_count; i++) {
        free(t->plans[i].numbers.ranges);
        free(t->plans[i].done.ranges);
    }
    t->plan_count = 0;
}

void triggers_drop_sent(ea_triggers *t) {
    for (size_t i = 0; i < t->sent_count; i++)
        free(t->sent[i].numbers.ranges);
    t->sent_count = 0;
}

static int is_stopped(const ea_triggers *t, ea_err *err) {
    return atomic_load(&t->stop) ? ea_fail(err, EA_ECANCELED, "send windows") : 0;
}

/* ---- which files ---- */

typedef struct planning {
    ea_triggers *t;
    int64_t from_utc_ns, to_utc_ns; /* of all windows at hand together */
    /* Of the files with summaries: from first on they are read ("": none is), all until last; and the last one with a
     * keyframe before the first one with events of the time. */
    char first[FILE_NAME_BYTES], last[FILE_NAME_BYTES], keyframe[FILE_NAME_BYTES];
    ea_recorded_list batches;
    ea_err *err;
} planning;

static trigger_sent *find_sent(ea_triggers *t, const uint8_t *recording) {
    for (size_t i = 0; i < t->sent_count; i++)
        if (memcmp(t->sent[i].recording, recording, EA_STREAM_ID_BYTES) == 0)
            return &t->sent[i];
    return NULL;
}

static void plan_note_oldest(ea_triggers *t, const uint8_t *recording, uint64_t number) {
    trigger_sent *sent = find_sent(t, recording);
    if (sent && (!sent->oldest || number < sent->oldest))
        sent->oldest = number;
}

/* Which files have events of the time, and the last one with a keyframe before these. */
static int plan_look_at_file(const char *segment, const ea_spool_summary *s, void *arg) {
    planning *p = arg;
    for (size_t i = 0; i < s->share_count; i++)
        plan_note_oldest(p->t, s->shares[i].stream, s->shares[i].numbers.ranges[0].first);
    if (s->last_utc_ns >= p->from_utc_ns && s->first_utc_ns <= p->to_utc_ns) {
        if (!*p->first)
            snprintf(p->first, sizeof p->first, "%.23s", *p->keyframe ? p->keyframe : segment);
        snprintf(p->last, sizeof p->last, "%.23s", segment);
    } else if (s->has_keyframe && !*p->first) {
        snprintf(p->keyframe, sizeof p->keyframe, "%.23s", segment);
    }
    return is_stopped(p->t, p->err);
}

static int plan_is_wanted(const char *segment, const ea_spool_summary *s, void *arg) {
    const planning *p = arg;
    return *p->first && strcmp(segment, p->first) >= 0 &&
           (strcmp(segment, p->last) <= 0 || s->first_utc_ns <= p->to_utc_ns || s->first_utc_ns == INT64_MAX);
}

static int plan_record(const ea_spool_seen *seen, void *arg) {
    planning *p = arg;
    ea_err unread;
    plan_note_oldest(p->t, seen->record->stream, seen->record->number);
    int rc = ea_recorded_add(&p->batches, seen, &unread);
    if (rc == EA_ENOMEM)
        return ea_fail(p->err, rc, "look into a recorder");
    return is_stopped(p->t, p->err); /* what cannot be read gets a tombstone, or is not of the time */
}

/* ---- plans ---- */

/* What the recorder has removed counts as given out, so that the ranges are as many as the ring is long at the most. */
static int forget_removed(ea_triggers *t) {
    int rc = 0;
    for (size_t i = 0; !rc && i < t->sent_count; i++)
        if (t->sent[i].oldest > 1)
            rc = ea_range_set_add(&t->sent[i].numbers, 1, t->sent[i].oldest - 1);
    return rc;
}

/* What was sent of recordings that the recorder has nothing of any more is forgotten when there are many. */
static int room_for_sent(ea_triggers *t) {
    size_t n = 0;
    if (t->sent_count < EA_SPOOL_STREAMS_MAX / 2)
        return EA_GROW(t->sent, t->sent_capacity, t->sent_count + 1, EA_SPOOL_STREAMS_MAX);
    for (size_t i = 0; i < t->sent_count; i++) {
        if (t->sent[i].oldest || i >= t->sent_count / 2)
            t->sent[n++] = t->sent[i];
        else
            free(t->sent[i].numbers.ranges);
    }
    t->sent_count = n;
    return EA_GROW(t->sent, t->sent_capacity, t->sent_count + 1, EA_SPOOL_STREAMS_MAX);
}

/* Its batches get a stream of the same run. One that follows from the recording's name would have a number twice when
 * the file is lost. */
static int add_sent(ea_triggers *t, const uint8_t *recording, trigger_sent **ret, ea_err *err) {
    trigger_sent fresh = {.count = 0};
    int rc = room_for_sent(t) ? ea_fail(err, EA_ENOMEM, "plan windows") : 0;
    memcpy(fresh.recording, recording, sizeof fresh.recording);
    memcpy(fresh.stream, recording, sizeof fresh.stream);
    if (!rc)
        rc = ea_random_bytes(fresh.stream + EA_STREAM_RUN_BYTES, sizeof fresh.stream - EA_STREAM_RUN_BYTES, err);
    if (rc)
        return rc;
    *ret = &t->sent[t->sent_count++];
    **ret = fresh;
    return 0;
}

/* Adds those of first..last that were not given out. */
static int plan_add(trigger_plan *plan, const trigger_sent *sent, uint64_t first, uint64_t last, uint64_t *count) {
    int rc = 0;
    for (uint64_t left = last - first + 1, n = first; !rc && left; left--, n++) {
        if (sent && ea_range_set_has(&sent->numbers, n))
            continue;
        ++*count;
        rc = ea_range_set_add(&plan->numbers, n, n);
    }
    return rc;
}

/* Those of one recording, items[0..count), that are chosen and were not given out. Numbers that are missing between two
 * that are chosen are, too: they get tombstones. With lock. */
static int plan_recording(ea_triggers *t, const ea_recorded *items, size_t count, ea_err *err) {
    trigger_plan plan = {.base = 0};
    trigger_sent *sent = find_sent(t, items->stream);
    int rc = 0;
    uint64_t n = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        uint64_t number = items[i].number, after = i && items[i - 1].is_chosen ? items[i - 1].number : number - 1;
        if (items[i].is_chosen && number != after) /* a copy of a record is none of ours */
            rc = plan_add(&plan, sent, number - after > MISSING_MAX ? number : after + 1, number, &n);
    }
    if (!rc && n)
        rc = EA_GROW(t->plans, t->plan_capacity, t->plan_count + 1, EA_SPOOL_STREAMS_MAX);
    if (rc)
        ea_fail(err, rc, "plan windows");
    if (!rc && n && !sent)
        rc = add_sent(t, items->stream, &sent, err);
    for (size_t i = 0; !rc && n && i < plan.numbers.count; i++)
        if ((rc = ea_range_set_add(&sent->numbers, plan.numbers.ranges[i].first, plan.numbers.ranges[i].last)) != 0)
            ea_fail(err, rc, "plan windows");
    if (rc || !n) {
        free(plan.numbers.ranges);
        return rc;
    }
    memcpy(plan.recording, sent->recording, sizeof plan.recording);
    memcpy(plan.stream, sent->stream, sizeof plan.stream);
    plan.base = sent->count + 1;
    sent->count += n;
    t->plans[t->plan_count++] = plan;
    return 0;
}

/* Windows of which the recorder has nothing. */
static size_t count_empty(ea_recorded_list *l, const trigger_window *windows, size_t count) {
    size_t empty = 0;
    for (size_t i = 0; i < count; i++) {
        int has = 0;
        for (size_t k = 0; !has && k < l->count; k++)
            has = l->items[k].events && !l->items[k].is_keyframe && l->items[k].to_utc_ns >= windows[i].from_utc_ns &&
                  l->items[k].from_utc_ns <= windows[i].to_utc_ns;
        empty += !has;
    }
    return empty;
}

/* What a request's window has, and how much of it may be sent: in the order of the batches, until the limit. With lock.
 */
static void plan_within_limit(ea_triggers *t, ea_recorded_list *l, uint64_t limit_bytes, ea_triggers_outcome *ret) {
    uint64_t left = limit_bytes;
    for (size_t i = 0; i < l->count; i++) {
        ea_recorded *r = &l->items[i];
        const trigger_sent *sent = r->is_chosen ? find_sent(t, r->stream) : NULL;
        int is_new = r->is_chosen && !(sent && ea_range_set_has(&sent->numbers, r->number));
        if (!r->is_chosen)
            continue;
        if (is_new && r->len_bytes > left) {
            left = 0; /* what follows would lack what is left out */
            r->is_chosen = 0;
            ret->withheld_batches++;
            continue;
        }
        left -= is_new ? r->len_bytes : 0;
        ret->batches++;
        ret->events += r->events;
        ret->bytes += r->len_bytes;
    }
}

int triggers_plan(ea_triggers *t, const trigger_window *windows, size_t count, ea_triggers_outcome *ret, ea_err *err) {
    planning p = {.t = t, .from_utc_ns = INT64_MAX, .to_utc_ns = INT64_MIN, .err = err};
    const char *dir = ea_spool_folder(t->o.recorder);
    for (size_t i = 0; i < count; i++) {
        p.from_utc_ns = windows[i].from_utc_ns < p.from_utc_ns ? windows[i].from_utc_ns : p.from_utc_ns;
        p.to_utc_ns = windows[i].to_utc_ns > p.to_utc_ns ? windows[i].to_utc_ns : p.to_utc_ns;
    }
    for (size_t i = 0; i < t->sent_count; i++)
        t->sent[i].oldest = 0;
    int rc = ea_spool_visit(dir, &(ea_spool_visitor){.on_summary = plan_look_at_file, .arg = &p}, err);
    if (!rc && !*p.first) /* files without a summary, which are read, alone may have it */
        memcpy(p.first, p.keyframe, sizeof p.first);
    if (!rc)
        rc = ea_spool_visit(dir,
                            &(ea_spool_visitor){.on_summary = plan_is_wanted,
                                                .on_record = plan_record,
                                                .keys = ea_spool_keys_of(t->o.recorder),
                                                .arg = &p},
                            err);
    ea_recorded_sort(&p.batches);
    for (size_t i = 0; !rc && i < count; i++)
        ea_recorded_choose(&p.batches, windows[i].from_utc_ns,
                           windows[i].to_utc_ns < INT64_MAX ? windows[i].to_utc_ns + 1 : INT64_MAX);
    size_t empty = rc ? 0 : count_empty(&p.batches, windows, count);
    ea_mutex_lock(t->lock);
    if (!rc && (rc = forget_removed(t)) != 0)
        ea_fail(err, rc, "plan windows");
    if (!rc && windows->serial)
        plan_within_limit(t, &p.batches, windows->limit_bytes, ret);
    for (size_t first = 0, end; !rc && first < p.batches.count; first = end) {
        end = ea_recorded_end(&p.batches, first);
        rc = plan_recording(t, p.batches.items + first, end - first, err);
    }
    ea_mutex_unlock(t->lock);
    free(p.batches.items);
    if (!rc) /* else they are planned again */
        ea_ledger_post(t->o.ledger, &(ea_posting){EA_COUNT_windows_untriggered, (int64_t)empty}, 1, NULL, 0);
    return rc;
}

/* ---- into the spool ---- */

typedef struct sending {
    ea_triggers *t;
    ea_text batch;
    ea_err *err;
} sending;

/* Claims a number of the sent stream, and appends what is in x->batch. One that is there since an earlier try stays: 1
 * when that may be another one than this, as the recorder had its batch then, and has not now. */
static int send_batch(sending *x, const uint8_t *stream, uint64_t number, uint32_t events) {
    ea_spool *spool = x->t->o.spool;
    ea_err why;
    int rc = is_stopped(x->t, x->err);
    if (!rc && x->batch.failed)
        rc = ea_fail(x->err, EA_ENOMEM, "send windows");
    if (rc)
        return rc;
    rc = ea_spool_claim(spool, stream, number, events, NULL, 0, &why);
    if (rc == EA_SPOOL_KEPT)
        return 0;
    if (rc == EA_SPOOL_ACKNOWLEDGED || rc == EA_ECONFLICT)
        return 1;
    return rc ? ea_fail(x->err, rc, "%s", why.message)
              : ea_spool_append(spool,
                                &(ea_spool_batch){.stream = stream,
                                                  .number = number,
                                                  .priority = x->t->o.priority,
                                                  .event_count = events,
                                                  .data = (const uint8_t *)x->batch.data,
                                                  .len_bytes = x->batch.len_bytes},
                                x->err);
}

static int send_is_wanted(const char *segment, const ea_spool_summary *s, void *arg) {
    const sending *x = arg;
    (void)segment;
    for (size_t i = 0; i < s->share_count; i++) /* by numbers alone: a stream may have a new name */
        for (size_t k = 0; k < x->t->plan_count; k++) {
            const ea_range_set *have = &s->shares[i].numbers, *want = &x->t->plans[k].numbers;
            if (have->ranges[0].first <= want->ranges[want->count - 1].last &&
                have->ranges[have->count - 1].last >= want->ranges[0].first)
                return 1;
        }
    return 0;
}

static int send_record(const ea_spool_seen *seen, void *arg) {
    sending *x = arg;
    const ea_spool_record *r = seen->record;
    uint64_t rank = 0;
    ea_err why;
    trigger_plan *p = NULL;
    for (size_t i = 0; !p && i < x->t->plan_count; i++)
        if (memcmp(x->t->plans[i].recording, r->stream, EA_STREAM_ID_BYTES) == 0 &&
            ea_range_set_rank(&x->t->plans[i].numbers, r->number, &rank))
            p = &x->t->plans[i];
    if (!p || seen->opened != 1 || ea_range_set_has(&p->done, r->number))
        return is_stopped(x->t, x->err);
    ea_text_clear(&x->batch);
    int rc = ea_batch_rename(r->batch, r->len_bytes, p->stream, p->base + rank, &x->batch, &why);
    if (rc == EA_ENOMEM)
        return ea_fail(x->err, rc, "send windows");
    if (rc)
        return 0; /* it gets a tombstone */
    rc = send_batch(x, p->stream, p->base + rank, r->event_count);
    if (rc > 0)
        rc = 0;
    if (!rc && ea_range_set_add(&p->done, r->number, r->number))
        rc = ea_fail(x->err, EA_ENOMEM, "send windows");
    if (!rc)
        ea_ledger_post(x->t->o.ledger, &(ea_posting){EA_COUNT_events_triggered, r->event_count}, 1, NULL, 0);
    return rc;
}

/* Tombstones take the numbers of batches that the recorder does not have. */
static int send_gaps(sending *x, trigger_plan *p) {
    int rc = 0;
    uint64_t number = p->base;
    for (size_t i = 0; !rc && i < p->numbers.count; i++)
        for (uint64_t n = p->numbers.ranges[i].first; !rc && n <= p->numbers.ranges[i].last; n++, number++) {
            if (ea_range_set_has(&p->done, n))
                continue;
            ea_tombstone row = {
                .first = number, .last = number, .cause = ea_counter_row(EA_COUNT_events_evicted_damage)->number};
            ea_text_clear(&x->batch);
            rc = ea_batch_make_tombstone(p->stream, number, &row, 1, &x->batch, x->err);
            if (!rc)
                rc = send_batch(x, p->stream, number, 0);
            if (rc >= 0 && ea_range_set_add(&p->done, n, n))
                rc = ea_fail(x->err, EA_ENOMEM, "send windows");
            if (!rc)
                ea_ledger_post(x->t->o.ledger, &(ea_posting){EA_COUNT_batches_untriggered, 1}, 1, NULL, 0);
            if (rc > 0)
                rc = 0;
        }
    return rc;
}

static int triggers_send_open_stream(ea_triggers *t, trigger_plan *p, ea_err *err) {
    int rc = ea_spool_stream(t->o.spool, p->stream, 1, 0, NULL, err);
    ea_mutex_lock(t->lock);
    p->is_open = !rc;
    ea_mutex_unlock(t->lock);
    return rc;
}

static void close_streams(ea_triggers *t, int is_complete) {
    ea_mutex_lock(t->lock);
    for (size_t i = 0; i < t->plan_count; i++) {
        if (!t->plans[i].is_open)
            continue;
        t->plans[i].is_open = 0;
        ea_spool_stream_end(t->o.spool, t->plans[i].stream, is_complete);
    }
    ea_mutex_unlock(t->lock);
}

int triggers_send(ea_triggers *t, ea_err *err) {
    sending x = {.t = t, .err = err};
    int rc = 0;
    ea_text_init(&x.batch);
    for (size_t i = 0; !rc && i < t->plan_count; i++)
        rc = triggers_send_open_stream(t, &t->plans[i], err);
    if (!rc)
        rc = is_stopped(t, err); /* the streams that are open now are canceled by who stops it later */
    if (!rc)
        rc = ea_spool_visit(ea_spool_folder(t->o.recorder),
                            &(ea_spool_visitor){.on_summary = send_is_wanted,
                                                .on_record = send_record,
                                                .keys = ea_spool_keys_of(t->o.recorder),
                                                .arg = &x},
                            err);
    for (size_t i = 0; !rc && i < t->plan_count; i++)
        rc = send_gaps(&x, &t->plans[i]);
    if (!rc)
        rc = ea_spool_sync(t->o.spool, err); /* before the file says that it is sent */
    close_streams(t, !rc);
    ea_text_deinit(&x.batch);
    return rc;
}
