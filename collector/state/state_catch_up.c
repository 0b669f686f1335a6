/* Catching up, for queries. See state_worker.h. */
#include "collector/state/state_worker_parts.h"

#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CATCH_UP_POLL_MS = 20 };

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
    int is_older; /* the tables are of an older version: they cannot be read before a writer has completed them */
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

static int state_catch_up_measure(const char *dir, const char *host, goals *g, uint64_t *ret_backlog, ea_err *err) {
    ec_state_db *t = NULL;
    for (size_t i = 0; i < g->count; i++)
        g->items[i].backlog = g->items[i].batch_count;
    int rc = ec_state_db_open(&t, dir, 0, err);
    g->is_older = rc == EA_EUNSUPPORTED && ec_state_db_is_older(dir);
    /* the round before the folds: what it has looked at is in them */
    if (!rc)
        rc = ec_state_db_get_round(t, &g->looked, err);
    if (!rc)
        rc = ec_state_db_each_fold(t, host, measure_goal, g, err);
    if (rc == EA_ENOTFOUND || g->is_older)
        rc = 0; /* nothing is folded yet, or how much is known once a writer has completed the tables */
    ec_state_db_close(t);
    *ret_backlog = 0;
    for (size_t i = 0; i < g->count; i++)
        *ret_backlog += g->items[i].backlog;
    return rc;
}

/* The streams of host (NULL: of all) as the store has them now. */
static int state_catch_up_read(goals *g, const char *dir, const char *host, ea_err *err) {
    ec_store *store = NULL;
    int rc = ec_store_open(&store, dir, &(ec_store_options){0}, err);
    if (!rc)
        rc = ec_store_each_stream(store, host, add_goal, g, err);
    if (!rc)
        rc = ec_store_position(store, &g->place, err);
    ec_store_close(store);
    return rc == EA_ENOMEM ? ea_fail(err, rc, "look at the streams of %s", dir) : rc;
}

int ec_state_worker_is_caught_up(const char *dir, const char *host) {
    ea_err ignored = {0};
    goals g = {0};
    uint64_t backlog = 0;
    int rc = state_catch_up_read(&g, dir, host, &ignored);
    if (!rc)
        rc = state_catch_up_measure(dir, host, &g, &backlog, &ignored);
    int is_caught_up = !rc && g.count && !backlog && !g.is_older;
    free(g.items);
    return is_caught_up;
}

int ec_state_fold_here(const char *dir, const char *host, int *ret_rc, ea_err *why, ea_err *err) {
    ec_state_worker *h = NULL;
    int failed, can = ec_state_worker_open(&h, dir, &(ec_state_worker_options){.hole_wait_ns = -1}, why);
    if (can)
        return can;
    int rc = ec_state_fold_round(h, host, &failed, err);
    ec_state_worker_close(h);
    /* a stream that cannot continue is a stream with unfolded batches; a call for its host alone gets the reason */
    *ret_rc = rc ? rc : host ? failed : 0;
    return 0;
}

static ec_state_folder state_folder = ec_state_fold_here;

void ec_state_fold_with(ec_state_folder folder) {
    state_folder = folder;
}

int ec_state_worker_catch_up(const char *dir, const char *host, enum ec_state_wait wait, int64_t wait_ns,
                             uint64_t *ret_backlog, ea_err *err) {
    ea_err local = {0};
    if (!err)
        err = &local;
    int64_t deadline_ns = ea_monotonic_ns() + wait_ns;
    goals g = {0};
    uint64_t backlog = 0;
    int rc = state_catch_up_read(&g, dir, host, err);
    while (!rc && !(rc = state_catch_up_measure(dir, host, &g, &backlog, err)) && (backlog || g.is_older)) {
        ea_err why = {0};
        int can = state_folder(dir, host, &rc, &why, err);
        if (can == 0) {
            if (rc == EA_EFULL) /* the question is answered; its backlog counts the batches that are not folded */
                rc = 0;
            if (!rc)
                rc = state_catch_up_measure(dir, host, &g, &backlog, err);
            break;
        }
        /* who may only read (a question in its sandbox) waits for the daemon, too */
        int is_the_daemons = can == EA_EBUSY || why.os_error == EACCES || why.os_error == EPERM;
        int is_enough = wait == EC_WAIT_ROUND && !ec_state_is_before(&g.looked, &g.place);
        if (!is_the_daemons || is_enough || ea_monotonic_ns() >= deadline_ns)
            break;
        ea_sleep_ns(EC_MS_TO_NS(CATCH_UP_POLL_MS));
    }
    free(g.items);
    if (!rc)
        *ret_backlog = backlog;
    return rc;
}
