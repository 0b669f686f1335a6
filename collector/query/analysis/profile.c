/* See profile.h. One stream after the other: its stacks are joined and summed (stack_query.h), each address becomes a
 * place, and the stacks go to the merge. */
#include "collector/query/analysis/profile.h"

#include "collector/query/analysis/profile_merge.h"
#include "collector/query/analysis/query.h"
#include "collector/query/analysis/stack_query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t FOLD_WAIT_NS = 10ll * 1000 * 1000 * 1000;

enum { FRAMES_MAX = 4096 };

typedef struct run {
    const ec_profile_request *request;
    ec_profile *profile;
    ec_archive *archive;
    ec_merge *merge;
    ec_stack_counts counts[2]; /* of each side */
    int side;
    const ec_archive_stream *stream;
} run;

/* Which counters there are samples of, on either side. */
static size_t other_sources(const run *r, uint64_t sources[EC_OTHER_SOURCES]) {
    size_t count = 0;
    for (int side = 0; side < 2; side++)
        for (size_t k = 0; k < r->counts[side].other_source_count; k++) {
            size_t i = 0;
            while (i < count && sources[i] != r->counts[side].other_sources[k])
                i++;
            if (i == count && count < EC_OTHER_SOURCES)
                sources[count++] = r->counts[side].other_sources[k];
        }
    return count;
}

/* Nothing is stored of the counter that was asked for: which ones there are, so that a slip of the pen is no idle
 * machine. */
static void say_sources(const run *r, int side) {
    uint64_t sources[EC_OTHER_SOURCES];
    size_t count = other_sources(r, sources);
    char *notes = r->profile->notes;
    const size_t room = sizeof r->profile->notes;
    int n = (int)strlen(notes);
    n += snprintf(notes + n, room - (size_t)n, "%sno sample of the counter %.64s is stored in this range",
                  n ? "; " : "", r->request->side[side].counter);
    for (size_t i = 0; i < count && n < (int)room; i++)
        n += snprintf(notes + n, room - (size_t)n, "%s%" PRIu64, i ? ", " : "; there are such of the sources ",
                      sources[i]);
}

/* ---- a stream ---- */

/* A stack on its way to the merge. */
typedef struct merging {
    ec_merge *merge;
    uint32_t frames[FRAMES_MAX];
    size_t count;
} merging;

static int merge_frame(void *arg, const ec_stack_frame *f) {
    merging *to = arg;
    if (to->count == FRAMES_MAX)
        return 0;
    uint32_t *frame = &to->frames[to->count++];
    return f->method ? ec_merge_method(to->merge, f->is_unloaded ? NULL : f->module, f->method->name, frame)
                     : ec_merge_frame(to->merge, f->module, f->is_unloaded, f->address, f->is_return, frame);
}

static int merge_stack(run *r, const ec_stack_query *q, size_t i, uint32_t *ret_process, uint32_t *ret_stack) {
    ec_stack_weight w;
    merging to; /* 16 KiB, not initialised: each part is written before it is read */
    uint32_t process = 0;
    to.merge = r->merge;
    to.count = 0;
    ec_stack_query_get(q, i, &w);
    int rc = ec_merge_process(r->merge, w.image, &process);
    if (!rc && w.open) {
        to.count = 1;
        rc = ec_merge_open(r->merge, w.open, to.frames);
    } else if (!rc) {
        rc = ec_stack_query_frames(q, i, merge_frame, &to);
    }
    *ret_process = process;
    return rc ? rc : ec_merge_stack(r->merge, r->side, process, to.frames, to.count, w.weight, w.events, ret_stack);
}

/* What a sum became in the merge. */
typedef struct merged {
    uint32_t process, stack;
} merged;

static int merge_samples(run *r, const ec_stack_query *q, const merged *sums) {
    int rc = 0;
    for (size_t i = 0; !rc && i < ec_stack_query_sample_count(q); i++) {
        ec_stack_sample s;
        ec_stack_query_sample(q, i, &s);
        if (s.sum >= ec_stack_query_count(q))
            continue;
        rc = ec_merge_sample(r->merge, sums[s.sum].stack,
                             &(ec_merge_thread){.host = r->stream->row.host,
                                                .stream = (uint32_t)r->stream->row.stream_id,
                                                .instance = s.process,
                                                .process = sums[s.sum].process,
                                                .pid = s.pid,
                                                .tid = s.tid},
                             s.utc_ns, s.weight);
    }
    return rc;
}

static int profile_stream(run *r, ea_err *err) {
    const ec_profile_request *request = r->request;
    const ec_profile_side *side = &request->side[r->side];
    const ec_stack_query_options options = {.weight = side->weight,
                                            .counter = side->counter,
                                            .from_utc_ns = side->from_utc_ns,
                                            .to_utc_ns = side->to_utc_ns,
                                            .pids = request->pids,
                                            .pid_count = request->pid_count,
                                            .limit_window_bytes = request->limit_window_bytes,
                                            .limit_stacks_bytes = request->limit_stacks_bytes,
                                            .wants_samples = request->wants_samples && r->side == 0,
                                            .keep_going = request->keep_going,
                                            .arg = request->arg};
    ec_stack_query *q = NULL;
    int rc = ec_stack_query_run(&q, r->archive, r->stream, &options, &r->counts[r->side], err);
    merged *sums = rc ? NULL : calloc(ec_stack_query_count(q) + 1, sizeof *sums);
    if (!rc && !sums)
        rc = ea_fail(err, EA_ENOMEM, "make a profile");
    for (size_t i = 0; !rc && i < ec_stack_query_count(q); i++)
        if ((rc = merge_stack(r, q, i, &sums[i].process, &sums[i].stack)))
            rc = ea_fail(err, rc, "make a profile: too many distinct stacks; narrow the time range");
    if (!rc && (rc = merge_samples(r, q, sums)))
        rc = ea_fail(err, rc, "make a profile: more than 4,194,304 events; narrow the time range");
    free(sums);
    ec_stack_query_close(q);
    return rc;
}

/* What was counted of a side's streams. */
static void profile_add_counts(ec_profile *p, int side, const ec_stack_counts *c) {
    p->total[side] = c->total;
    p->events[side] = c->events;
    p->without_stack[side] = c->without_stack;
    memcpy(p->incomplete[side], c->incomplete, sizeof p->incomplete[side]);
    p->unfinished[side] = c->unfinished;
    p->unfinished_ns[side] = c->unfinished_ns;
    p->unbegun[side] = c->unbegun;
    p->unbegun_ns[side] = c->unbegun_ns;
    memcpy(p->halves[side], c->halves, sizeof p->halves[side]);
    p->keys_undefined[side] = c->keys_undefined;
    p->is_interval_assumed |= c->is_interval_assumed;
    size_t n = strlen(p->notes);
    if (c->methods_left_out && n < sizeof p->notes - 1)
        snprintf(p->notes + n, sizeof p->notes - n,
                 "%s%" PRIu64 " methods or scripts, whose events are cut or which are more than a profile can name",
                 n ? "; " : "", c->methods_left_out);
}

/* ---- all of it ---- */

/* Whether the stream at hand is of a side's machines: 1, 0, or an error. */
static int profile_wants_stream(run *r, const ec_profile_side *side, ea_err *err) {
    int rc = side->host_count == 0;
    for (size_t i = 0; !rc && i < side->host_count; i++)
        rc = strcmp(side->hosts[i], r->stream->row.host) == 0;
    for (size_t i = 0; rc == 1 && i < side->label_count; i++)
        rc = ec_store_has_label(ec_archive_store(r->archive), r->stream->row.stream_id, side->labels[i], err);
    return rc;
}

static int note_host(run *r, const char *host) {
    ec_profile *p = r->profile;
    const char ***hosts = &p->hosts[r->side];
    size_t *count = &p->host_count[r->side];
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*hosts)[i], host) == 0)
            return 0;
    const char **grown = realloc(*hosts, (*count + 1) * sizeof *grown);
    char *copy = grown ? strdup(host) : NULL;
    if (grown)
        *hosts = grown;
    if (!copy)
        return EA_ENOMEM;
    (*hosts)[(*count)++] = copy;
    return 0;
}

static int profile_side(run *r, int number, ea_err *err) {
    const ec_profile_side *side = &r->request->side[number];
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    int rc = ec_archive_streams(r->archive, &streams, &count, err), has_labels = !side->label_count;
    r->side = number;
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_index_query_row *row = &streams[i].row;
        int is_outside = row->end_utc_ns < side->from_utc_ns || row->begin_utc_ns >= side->to_utc_ns;
        r->stream = &streams[i];
        if (is_outside && has_labels)
            continue;
        if ((rc = profile_wants_stream(r, side, err)) != 1)
            continue;
        has_labels = 1;
        rc = is_outside                ? 0
             : note_host(r, row->host) ? ea_fail(err, EA_ENOMEM, "make a profile")
                                       : profile_stream(r, err);
    }
    if (!rc && !has_labels)
        rc = ea_fail(err, EA_ENOTFOUND, "no stored run of an agent had the label %s%s", side->labels[0],
                     side->label_count > 1 ? " and the others that were given" : "");
    return rc;
}

/* The only host that is asked about; NULL: there are several. */
static const char *only_host(const ec_profile_request *q) {
    const ec_profile_side *a = &q->side[0], *b = &q->side[1];
    if (a->host_count != 1 || (q->has_other && (b->host_count != 1 || strcmp(a->hosts[0], b->hosts[0]) != 0)))
        return NULL;
    return a->hosts[0];
}

int ec_profile_run(ec_profile **ret, const ec_profile_request *request, ea_err *err) {
    run *r = calloc(1, sizeof *r);
    ec_profile *p = calloc(1, sizeof *p);
    ec_query *history = NULL;
    int rc = r && p ? ec_profile_check(request, err) : ea_fail(err, EA_ENOMEM, "make a profile");
    const char *host = rc ? NULL : only_host(request);
    int sides = request->has_other ? 2 : 1;
    if (!rc) {
        r->request = request;
        r->profile = p;
        p->has_other = request->has_other;
        for (int i = 0; i < sides; i++) {
            const ec_profile_side *s = &request->side[i];
            p->weight[i] = s->weight;
            p->counter[i] = s->counter ? strdup(s->counter) : NULL;
            p->from_utc_ns[i] = s->from_utc_ns;
            p->to_utc_ns[i] = s->to_utc_ns;
        }
        rc = ec_merge_create(&p->memory, request->limit_stacks, request->namer != NULL);
        r->merge = p->memory;
        if (rc)
            rc = ea_fail(err, rc, "make a profile");
    }
    if (!rc) /* folds batches that the history lacks */
        rc = ec_query_open(&history, request->store, host, FOLD_WAIT_NS, &p->backlog, err);
    ec_query_close(history);
    if (!rc)
        rc = ec_archive_open(&r->archive, request->store, host, request->shown, err);
    for (int i = 0; !rc && i < sides; i++)
        rc = ec_archive_has_hosts(r->archive, request->side[i].hosts, request->side[i].host_count, err);
    for (int i = 0; !rc && i < sides; i++)
        rc = profile_side(r, i, err);
    for (int i = 0; !rc && i < sides; i++)
        profile_add_counts(p, i, &r->counts[i]);
    for (int i = 0; !rc && i < sides; i++) /* of one counter on both sides it is enough that one has some */
        if (p->weight[i] == EC_WEIGHT_PMC && !p->events[i] &&
            (i ? ec_profile_has_two_weights(p) : !p->events[1] || ec_profile_has_two_weights(p)))
            say_sources(r, i);
    if (!rc && (rc = ec_merge_finish(p->memory, request->namer, p)))
        rc = ea_fail(err, rc, "make a profile");
    if (!rc) {
        const char *first;
        p->damaged = ec_archive_damage(r->archive, &first);
        snprintf(p->damage, sizeof p->damage, "%s", first);
    }
    if (r)
        ec_archive_close(r->archive);
    free(r);
    if (rc) {
        ec_profile_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ec_profile_destroy(ec_profile *p) {
    if (!p)
        return;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->host_count[side]; i++)
            free((void *)(uintptr_t)p->hosts[side][i]);
        free(p->hosts[side]);
        free((void *)(uintptr_t)p->counter[side]);
    }
    ec_merge_destroy(p->memory);
    free(p);
}
