/* The fold over the store. See state_worker.h. */
#include "collector/state/state_worker_parts.h"

#include "collector/store/retention.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

enum { FAILURES_IN_A_ROW = 8 /* without a stream that goes on: then it is not the streams */ };

/* ---- all streams ---- */

static int add_work(const ec_stream_row *row, void *arg) {
    ec_state_worker *h = arg;
    const uint64_t *done = ea_u64_map_get(&h->done, row->stream_id);
    if (row->batch_count == 0 || (done && *done == row->batch_count + row->event_count))
        return 0;
    if (EA_GROW(h->works, h->work_capacity, h->work_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    ec_state_work *w = &h->works[h->work_count++];
    *w = (ec_state_work){.stream_id = row->stream_id,
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
        ec_state_drop_live(h, h->lives[0]);
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
static int fold_in_turn(ec_state_worker *h, const ec_state_work *w, ea_err *err) {
    uint64_t key = ea_hash64(w->host, strlen(w->host), 0);
    const uint64_t *before = h->options.turn_ns ? ea_u64_map_get(&h->turns, key) : NULL;
    int64_t used_ns = before ? (int64_t)*before : 0, begin_cpu_ns = ea_thread_cpu_ns();
    int was_left = h->is_left, rc = 0;
    h->is_left = h->options.turn_ns && used_ns >= h->options.turn_ns;
    h->turn_ends_cpu_ns = h->options.turn_ns ? begin_cpu_ns + h->options.turn_ns - used_ns : INT64_MAX;
    if (!h->is_left)
        rc = ec_state_fold_stream(h, w, err);
    else if (!h->first_stream_id)
        h->first_stream_id = w->stream_id;
    used_ns += ea_thread_cpu_ns() - begin_cpu_ns;
    if (h->options.turn_ns && ea_u64_map_put(&h->turns, key, (uint64_t)used_ns))
        ea_u64_map_clear(&h->turns); /* without memory for them turns are longer */
    h->is_left |= was_left;
    return rc;
}

static int state_worker_is_left_alone(const ea_u64_map *failed, const ec_state_work *w) {
    const uint64_t *not_before = ea_u64_map_get(failed, w->stream_id);
    return not_before && (uint64_t)ea_monotonic_ns() < *not_before;
}

void ec_state_worker_has_space(ec_state_worker *h) {
    ea_u64_map_clear(&h->lacked_space);
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
        const ec_state_work *w = &h->works[(first + k) % h->work_count];
        if (state_worker_is_left_alone(&h->failed, w) || state_worker_is_left_alone(&h->lacked_space, w))
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

int ec_state_fold_round(ec_state_worker *h, const char *host, int *ret_failed, ea_err *err) {
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
    int failed, rc = ec_state_fold_round(h, NULL, &failed, err ? err : &local);
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
        h->options.hole_wait_ns = EC_MS_TO_NS(30000);
    if (!h->options.hole_batches)
        h->options.hole_batches = 256;
    ea_u64_map_init(&h->done, 0);
    ea_u64_map_init(&h->again, 0);
    ea_u64_map_init(&h->failed, EC_STATE_FAILED_MAX);
    ea_u64_map_init(&h->lacked_space, EC_STATE_FAILED_MAX);
    ea_u64_map_init(&h->turns, 0);
    h->lives = calloc(h->options.live_streams, sizeof(ec_state_live *));
    int rc = h->lives ? ec_store_open(&h->store, dir, &(ec_store_options){0}, err)
                      : ea_fail(err, EA_ENOMEM, "open the history of %s", dir);
    if (!rc)
        rc = ec_state_db_open(&h->tables, dir, h->options.is_scratch ? EC_STATE_SCRATCH : EC_STATE_WRITE, err);
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
        ec_state_live_destroy(h->lives[i]);
    free(h->lives);
    free(h->works);
    ea_u64_map_deinit(&h->done);
    ea_u64_map_deinit(&h->again);
    ea_u64_map_deinit(&h->failed);
    ea_u64_map_deinit(&h->lacked_space);
    ea_u64_map_deinit(&h->turns);
    ec_state_db_close(h->tables);
    ec_store_close(h->store);
    free(h);
}
