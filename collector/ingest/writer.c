/* Group commit. See writer.h. */
#include "collector/ingest/writer.h"

#include "collector/ingest/disk_gate.h"
#include "collector/ingest/duplicate_agents.h"
#include "collector/net/log.h"
#include "proto/base/array.h"
#include "proto/base/cpu_throttle.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4096 }; /* definitions that one answer names as kept now, and as nowhere */

enum { RETRY_STORE_S = 2, MIN_CREDIT_BYTES = 256 << 10, BUSY_PAUSE_MS = 200, KEPT_PAUSE_MS = 60000, RETRY_FULL_S = 60 };

enum { LANES = 2 };

static const uint64_t GROUP_BYTES = 64 << 20;            /* most of a group: one upload of each agent */
static const uint64_t SEVERAL_TURNS_BYTES = 8 << 20;     /* most of a group that holds several uploads of an agent */
static const int64_t ACTIVE_NS = 100 * INT64_C(1000000); /* so long a group of the quick lane counts as activity */
static const int64_t RETAIN_BUSY_NS = 5 * INT64_C(1000000);
static const int64_t SLICE_NS = 5 * INT64_C(1000000); /* processor time of an upload while other agents wait */

struct ec_writer {
    ec_writer_options options;
    ea_thread *thread;
    atomic_int failing;
    ec_disk_gate disk;

    ea_mutex *mutex; /* guards the queue */
    ea_cond *wake;
    ec_turns turns[LANES]; /* by is_slow */
    int was_slow;          /* the lane of the last group */
    int64_t quick_at_ns;   /* monotonic: when a group of the quick lane was taken last */
    int64_t slow_at_ns;    /* monotonic: the slow lane rests until then */
    int stopping;
    ec_retention retention;
    int64_t retain_at_ns; /* monotonic: when the store is looked at next */

    /* the writer thread's own */
    ea_range *acknowledged; /* of the upload at hand */
    ea_refusal *refused;
    size_t capacity, acknowledged_count, refused_count;
    int conflicted;        /* a batch of the upload at hand */
    int is_kept_full;      /* likewise: so much of its agent is kept that no more is */
    unsigned disk_pause_s; /* likewise: the disk is full, and the agent is asked to send nothing for so long; 0: not */
    ea_class_hash *known;
    ea_hash_ref *unknown;
    size_t known_count, known_capacity, unknown_count, unknown_capacity;
    ea_u64_map known_seen, unknown_seen;
    ea_arena texts;
    ec_duplicate_agents *identities;
    uint64_t group_stored, group_repeated;    /* batches; counted when the group is committed */
    int group_met_full;                       /* a batch of the group found no space on the disk */
    const ec_upload *group;                   /* the uploads that are stored now; NULL: none */
    uint64_t expired_segments, expired_bytes; /* that the log has */
};

/* ---- one upload's answer ---- */

static int reserve_answer(ec_writer *w, size_t batches) { /* two arrays of one capacity */
    size_t capacity = w->capacity;
    int rc = EA_GROW(w->acknowledged, capacity, batches, SIZE_MAX);
    return rc ? rc : EA_GROW(w->refused, w->capacity, batches, SIZE_MAX);
}

/* Adds elements that are not there yet; seen: where they are, by their hashes. What does not fit is left to a later
 * answer. */
static void writer_add_names(void **list, size_t *count, size_t *capacity, ea_u64_map *seen, const void *more,
                             size_t more_count, size_t element_bytes) {
    for (size_t i = 0; i < more_count; i++) {
        const uint8_t *one = (const uint8_t *)more + i * element_bytes;
        uint64_t hash = ea_hash64(one, element_bytes, 0);
        if (ea_u64_map_get(seen, hash)) /* two of one hash are as good as the same: an agent harms itself alone */
            continue;
        if (ea_array_grow(list, capacity, *count + 1, NAMES_MAX, element_bytes) || ea_u64_map_put(seen, hash, *count))
            return;
        memcpy((uint8_t *)*list + (*count)++ * element_bytes, one, element_bytes);
    }
}

static void add_known(ec_writer *w, const ec_store_notes *notes) {
    void *list = w->known;
    writer_add_names(&list, &w->known_count, &w->known_capacity, &w->known_seen, notes->described,
                     notes->described_count, sizeof *w->known);
    w->known = list;
}

static void add_unknown(ec_writer *w, const ec_store_notes *notes) {
    void *list = w->unknown;
    writer_add_names(&list, &w->unknown_count, &w->unknown_capacity, &w->unknown_seen, notes->missing,
                     notes->missing_count, sizeof *w->unknown);
    w->unknown = list;
}

static void writer_refuse(ec_writer *w, uint64_t number, enum ea_refusal_cause cause, const char *text) {
    char shown[200]; /* many refusals have to fit into one answer */
    snprintf(shown, sizeof shown, "%.199s", text);
    const char *copy = ea_arena_strdup(&w->texts, shown);
    w->refused[w->refused_count++] = (ea_refusal){.number = number, .cause = cause, .text = copy ? copy : ""};
}

/* Adds a notice to the store, unless one of the same kind was logged for this agent within the hour. When the store
 * fails, the notice is only logged: no batch depends on it. */
static void writer_add_notice(ec_writer *w, const char *agent, enum ec_notice_kind kind, const char *text) {
    ea_err err;
    if (!ec_duplicate_agents_may_report(w->identities, agent, kind, ea_monotonic_ns()))
        return;
    if (kind != EC_NOTICE_CONFLICT) /* that is logged each time */
        ec_log_about(w->options.log, EC_LOG_AGENT, "%s: %s", agent, text);
    if (ec_store_add_notice(w->options.store, agent, kind, text, &err))
        ec_log_line(w->options.log, "%s: %s", agent, err.message);
}

/* Is it the only one of its name? */
static void look_at_identity(ec_writer *w, const ec_upload *u) {
    char text[400];
    ec_duplicate_agent other;
    ec_visit visit = {.agent = u->agent, .run = u->run, .peer = u->peer, .connection = u->connection};
    if (!ec_duplicate_agents_see(w->identities, &visit, ea_monotonic_ns(), &other))
        return;
    ea_count(w->options.counters, EA_COUNT_ingest_identities_twice, 1);
    snprintf(text, sizeof text,
             "two agents use this identity at a time: run %.8s at %s and run %.8s at %s, %.1f s apart (a cloned "
             "machine, a copied key, or a second agent)",
             *u->run ? u->run : "?", u->peer, *other.other_run ? other.other_run : "?", other.other_peer,
             (double)other.other_age_ns / 1e9);
    writer_add_notice(w, u->agent, EC_NOTICE_TWICE, text);
}

static int writer_is_stopping(ec_writer *w) {
    ea_mutex_lock(w->mutex);
    int stopping = w->stopping;
    ea_mutex_unlock(w->mutex);
    return stopping;
}

/* The upload at hand. */
typedef struct appending {
    ec_upload *upload;
    int64_t begin_cpu_ns, charged_cpu_ns; /* of the thread, when it began, and up to which its agent is charged */
    size_t index;                         /* of the batch at hand */
    const char *later;                    /* why the rest is left to a later request; NULL: it is not */
    ec_quota_refusal above;               /* what later names, perhaps */
} appending;

static const ec_check *check_of(const appending *a) {
    return a->index < a->upload->check_count ? &a->upload->checks[a->index] : NULL;
}

/* Whether others wait to be stored: in the queue, or in this group, whose answers come when it is committed. */
static int writer_others_wait(ec_writer *w, const char *agent) {
    ea_mutex_lock(w->mutex);
    int others = ec_turns_have_other(w->group, agent) || ec_turns_have_other(w->turns[0].first, agent) ||
                 ec_turns_have_other(w->turns[1].first, agent);
    ea_mutex_unlock(w->mutex);
    return others;
}

/* Why the rest of an upload is left to a later request; NULL: it goes on. */
static const char *why_later(ec_writer *w, appending *a) {
    ec_upload *u = a->upload;
    const ec_check *check = check_of(a);
    if (w->conflicted) /* the stream goes on under a new name, and has there all that has not been stored yet */
        return "a batch before it conflicts";
    if (check && check->rc == EC_CHECK_LATER)
        return check->text;
    if (!w->acknowledged_count && !w->refused_count) /* each upload makes progress */
        return NULL;
    if (writer_is_stopping(w))
        return "the collector is stopping";
    if (ea_thread_cpu_ns() - a->begin_cpu_ns > SLICE_NS && writer_others_wait(w, u->agent))
        return "uploads of other agents wait";
    if (check && check->rc == EC_CHECK_EARLY && u->is_slow && writer_others_wait(w, u->agent))
        return "it refers to batches that are not durable yet, and uploads of other agents wait";
    if (!ec_quota_check(w->options.quota, EC_QUOTA_AGENT, u->agent, ea_monotonic_ns(), &a->above)) {
        u->pause_s = a->above.retry_after_s;
        return a->above.text;
    }
    return NULL;
}

/* Charges the agent what its batches took since the last time. */
static void writer_charge(ec_writer *w, appending *a) {
    int64_t cpu_ns = ea_thread_cpu_ns();
    ec_quota_charge(w->options.quota, EC_QUOTA_processor, a->upload->agent, (uint64_t)(cpu_ns - a->charged_cpu_ns),
                    ea_monotonic_ns());
    if (w->options.on_used)
        w->options.on_used(w->options.done_arg, a->upload->agent, cpu_ns - a->charged_cpu_ns);
    a->charged_cpu_ns = cpu_ns;
}

/* Appends one batch and notes what to answer. */
static void writer_append(ec_writer *w, const appending *a, const uint8_t *batch, size_t len_bytes) {
    const ec_upload *u = a->upload;
    const char *later = a->later;
    char reason[160];
    ea_err err = {0};
    ea_batch_head head;
    ea_counters *c = w->options.counters;
    if (later && !ea_batch_read_head(batch, len_bytes, &head, &err)) {
        writer_refuse(w, head.number, EA_REFUSED_RETRY, later);
        return;
    }
    int rc = ec_store_append_checked(w->options.store, u->agent, batch, len_bytes, check_of(a), &err);
    const ec_store_notes *notes = ec_store_last_notes(w->options.store);
    if (rc == EC_STORED || rc == EC_DUPLICATE) {
        *(rc == EC_STORED ? &w->group_stored : &w->group_repeated) += 1;
        w->acknowledged[w->acknowledged_count++] = (ea_range){notes->number, notes->number};
        add_known(w, notes);
        int64_t now_ns = ea_monotonic_ns();
        ec_quota_charge(w->options.quota, EC_QUOTA_streams, u->agent, notes->new_streams, now_ns);
        ec_quota_charge(w->options.quota, EC_QUOTA_classes, u->agent, notes->new_classes, now_ns);
        ec_quota_charge(w->options.quota, EC_QUOTA_tombstones, u->agent, notes->new_tombstones, now_ns);
        return;
    }
    uint64_t number = notes->number;
    switch (rc) {
    case EA_ECONFLICT:
        ea_count(c, EA_COUNT_ingest_conflicts, 1);
        w->conflicted = 1;
        writer_refuse(w, number, EA_REFUSED_CONFLICT, err.message);
        writer_add_notice(w, u->agent, EC_NOTICE_CONFLICT, err.message);
        ec_log_about(w->options.log, EC_LOG_AGENT, "%s: %s", u->agent, err.message);
        break;
    case EA_ECORRUPT:
    case EA_EFORMAT:
    case EA_ELIMIT:
    case EA_ETRUNCATED:
    case EA_EUNSUPPORTED:
        ea_count(c, EA_COUNT_ingest_bad_batches, 1);
        writer_refuse(w, number, EA_REFUSED_MALFORMED, err.message);
        ec_log_about(w->options.log, EC_LOG_AGENT, "%s: batch %" PRIu64 " refused: %s", u->agent, number, err.message);
        break;
    case EA_EREFUSED: /* so much of the agent is kept that an operator has to look at it; the agent keeps the rest */
        writer_refuse(w, number, EA_REFUSED_RETRY, err.message);
        writer_add_notice(w, u->agent, EC_NOTICE_KEPT, err.message);
        w->is_kept_full = 1;
        break;
    case EA_ENOTFOUND:
        add_unknown(w, notes);
        writer_refuse(w, number, EA_REFUSED_RETRY, err.message);
        break;
    default:                                   /* ours to mend: memory, disk, database */
        if (ec_disk_gate_is_cause(rc, &err)) { /* the gate logs it once */
            w->disk_pause_s = ec_disk_gate_close(&w->disk, &err, ea_monotonic_ns());
            writer_refuse(w, number, EA_REFUSED_RETRY, ec_disk_gate_text(&w->disk));
            w->group_met_full = 1;
            break;
        }
        writer_refuse(w, number, EA_REFUSED_RETRY, ea_code_text(rc));
        ea_os_error_text(err.os_error, reason, sizeof reason);
        ec_log_line(w->options.log, "%s: batch %" PRIu64 " could not be stored: %s%s%s", u->agent, number, err.message,
                    err.os_error ? ": " : "", err.os_error ? reason : "");
    }
}

static int by_first(const void *a, const void *b) {
    uint64_t x = ((const ea_range *)a)->first, y = ((const ea_range *)b)->first;
    return x < y ? -1 : x > y;
}

static void join_ranges(ec_writer *w) {
    size_t n = 0;
    ea_range *a = w->acknowledged;
    qsort(a, w->acknowledged_count, sizeof *a, by_first);
    for (size_t i = 0; i < w->acknowledged_count; i++) {
        if (n && a[i].first <= a[n - 1].last + 1) {
            if (a[i].last > a[n - 1].last)
                a[n - 1].last = a[i].last;
        } else {
            a[n++] = a[i];
        }
    }
    w->acknowledged_count = n;
}

static uint64_t waiting(ec_writer *w) {
    ea_mutex_lock(w->mutex);
    uint64_t bytes = w->turns[0].len_bytes + w->turns[1].len_bytes;
    ea_mutex_unlock(w->mutex);
    return bytes + (w->options.also_waiting ? w->options.also_waiting(w->options.done_arg) : 0);
}

/* Appends an upload's batches and prepares its answer, which holds only if the commit does. */
static void append_upload(ec_writer *w, ec_upload *u) {
    size_t offset = 0, n = 0;
    const uint8_t *batch;
    ea_err err;
    w->acknowledged_count = w->refused_count = w->known_count = w->unknown_count = 0;
    ea_u64_map_clear(&w->known_seen);
    ea_u64_map_clear(&w->unknown_seen);
    w->conflicted = w->is_kept_full = 0;
    w->disk_pause_s = 0;
    ea_arena_reset(&w->texts);
    ea_text_clear(&u->answer);
    u->retry_after_s = 0;
    u->met_full_disk = 0;
    if (reserve_answer(w, u->batch_count)) {
        ec_upload_refuse(u, 503, RETRY_STORE_S, "out of memory");
        return;
    }
    look_at_identity(w, u);
    int grows = ec_store_may_grow(w->options.store, u->agent, &err);
    if (grows < 0)
        ec_log_line(w->options.log, "%s", err.message);
    if (grows == 0) {
        static const char FULL[] =
            "the store is full of what is younger than --retain-min-age, and this agent has more "
            "than its share of it";
        ea_count(w->options.counters, EA_COUNT_store_refused_full, 1);
        writer_add_notice(w, u->agent, EC_NOTICE_SHARE, FULL);
        ec_upload_refuse(u, 429, RETRY_FULL_S, FULL);
        return;
    }
    appending a = {.upload = u, .begin_cpu_ns = ea_thread_cpu_ns()};
    a.charged_cpu_ns = a.begin_cpu_ns;
    uint64_t done_bytes = 0; /* of a part; 0: all of it */
    for (; ea_upload_next(u->data, u->len_bytes, &offset, &batch, &n, &err) == 1; a.index++) {
        if (!a.later && (a.later = why_later(w, &a)))
            done_bytes = offset - n;
        writer_append(w, &a, batch, n);
        writer_charge(w, &a);
    }
    join_ranges(w);
    /* the more waits here, the less each agent may send before it hears from us again */
    uint64_t max = w->options.max_waiting_bytes, used = waiting(w), credit = used < max ? (max - used) / 8 : 0;
    if (done_bytes && done_bytes < credit)
        credit = done_bytes;
    if (credit < MIN_CREDIT_BYTES)
        credit = MIN_CREDIT_BYTES;
    if (credit > w->options.max_body_bytes)
        credit = w->options.max_body_bytes;
    ea_ack ack = {.acknowledged = w->acknowledged,
                  .acknowledged_count = w->acknowledged_count,
                  .refused = w->refused,
                  .refused_count = w->refused_count,
                  .unknown = w->unknown,
                  .unknown_count = w->unknown_count,
                  .known = w->known,
                  .known_count = w->known_count,
                  .credit_bytes = credit,
                  .keyframe_wanted = w->options.wants_keyframe &&
                                     w->options.wants_keyframe(w->options.on_stored_arg, u->agent, u->stream),
                  .retry_after_ms = w->is_kept_full      ? KEPT_PAUSE_MS
                                    : w->disk_pause_s    ? w->disk_pause_s * 1000
                                    : u->pause_s         ? u->pause_s * 1000
                                    : used > max / 4 * 3 ? BUSY_PAUSE_MS
                                                         : 0};
    u->met_full_disk = w->disk_pause_s != 0;
    memcpy(ack.stream, u->stream, sizeof ack.stream);
    ea_ack_encode(&ack, &u->answer);
    u->status = 200;
    if (u->answer.failed) {
        u->status = 503; /* stored perhaps, but not said so: the agent repeats it, and that is a duplicate */
        u->retry_after_s = RETRY_STORE_S;
        ea_text_deinit(&u->answer);
        ea_text_init(&u->answer);
    }
}

/* Stores a list of uploads as one group; 0 or the commit's error. */
static int store_group(ec_writer *w, ec_upload *list, ea_err *err) {
    w->group_stored = w->group_repeated = 0;
    w->group_met_full = 0;
    w->group = list;
    for (ec_upload *u = list; u; u = u->next)
        append_upload(w, u);
    w->group = NULL;
    int rc = ec_store_commit(w->options.store, err);
    if (rc)
        return rc;
    ea_count(w->options.counters, EA_COUNT_ingest_batches, w->group_stored);
    ea_count(w->options.counters, EA_COUNT_ingest_duplicates, w->group_repeated);
    return 0;
}

static void writer_answer(ec_writer *w, ec_upload *list) {
    while (list) {
        ec_upload *u = list;
        list = u->next;
        u->next = NULL;
        if (u->met_full_disk)
            ea_count(w->options.counters, EA_COUNT_ingest_refused_disk_full, 1);
        w->options.done(w->options.done_arg, u);
    }
}

static void commit_group(ec_writer *w, ec_upload *list) {
    ea_err err;
    int rc = store_group(w, list, &err), stored = !rc;
    if (rc && list->next) {
        /* the batch of one upload may be the cause: store each upload alone, so that it does not affect the others */
        ec_upload *rest = list, *u;
        while ((u = rest)) {
            rest = u->next;
            u->next = NULL;
            commit_group(w, u);
        }
        return;
    }
    if (rc) {
        int is_full = ec_disk_gate_is_cause(rc, &err);
        list->met_full_disk = is_full;
        if (!is_full)
            ec_log_line(w->options.log, "nothing stored: %s", err.message);
        unsigned pause_s = is_full ? ec_disk_gate_close(&w->disk, &err, ea_monotonic_ns()) : RETRY_STORE_S;
        ec_upload_refuse(list, 503, pause_s, is_full ? ec_disk_gate_text(&w->disk) : "the store cannot take it now");
    } else if (w->group_stored && !w->group_met_full && ec_disk_gate_open(&w->disk) && w->options.on_space) {
        w->options.on_space(w->options.on_stored_arg);
    }
    atomic_store_explicit(&w->failing, rc != 0, memory_order_relaxed);
    writer_answer(w, list);
    if (stored && w->options.on_stored)
        w->options.on_stored(w->options.on_stored_arg);
}

/* The mutex is held. The lane of the next group; -1: nothing is to be stored now, until *ret_ns. When both lanes wait
 * they alternate. */
static int choose_lane(const ec_writer *w, int64_t now_ns, int64_t *ret_ns) EA_REQUIRES(w->mutex) {
    ea_mutex_assert_held(w->mutex);
    int quick = w->turns[0].first != NULL, slow = w->turns[1].first != NULL;
    *ret_ns = w->retain_at_ns;
    if (slow && !w->stopping && now_ns < w->slow_at_ns) {
        slow = 0;
        if (w->slow_at_ns < *ret_ns)
            *ret_ns = w->slow_at_ns;
    }
    return quick && slow ? !w->was_slow : quick ? 0 : slow ? 1 : -1;
}

/* Takes one upload of each agent, up to a group's size, and more of an agent while the group is small; NULL when
 * nothing waits, and it is time to stop (*ret_stop) or to look at the store. Groups are of one lane, so that the others
 * do not wait for slow agents' uploads and their part of the commit. */
static ec_upload *take_group(ec_writer *w, int *ret_stop) {
    int64_t until_ns, now_ns;
    int which;
    ea_mutex_lock(w->mutex);
    while ((which = choose_lane(w, now_ns = ea_monotonic_ns(), &until_ns)) < 0 && !w->stopping && until_ns > now_ns)
        (void)ea_cond_wait_for(w->wake, w->mutex, until_ns - now_ns);
    *ret_stop = which < 0 && w->stopping;
    ec_turns *t = &w->turns[which == 1];
    if (which >= 0)
        w->was_slow = which;
    if (which == 0)
        w->quick_at_ns = now_ns;
    ec_upload *list = NULL, **end = &list, *next;
    uint64_t bytes = 0, turn = t->first ? t->first->turn : 0;
    /* each upload may take SLICE_NS: while the quick lane stores something, an agent of the slow one has one of them */
    uint64_t several_turns = which == 1 && now_ns - w->quick_at_ns < ACTIVE_NS ? 0 : SEVERAL_TURNS_BYTES;
    while (which >= 0 && (next = t->first) &&
           (bytes == 0 || bytes + next->len_bytes <= (next->turn == turn ? GROUP_BYTES : several_turns))) {
        bytes += next->len_bytes;
        *end = ec_turns_take(t, &t->first);
        end = &next->next;
    }
    ea_mutex_unlock(w->mutex);
    return list;
}

/* What was deleted since the last line, when a round of retention is over. */
static void log_expired(ec_writer *w, const ec_retention *limits) {
    uint64_t segments = ea_counter_get(w->options.counters, EA_COUNT_store_expired_segments);
    uint64_t bytes = ea_counter_get(w->options.counters, EA_COUNT_store_expired_bytes);
    if (segments != w->expired_segments)
        ec_log_line(w->options.log, "retention deleted %" PRIu64 " segments with %.1f MiB of the oldest batches",
                    segments - w->expired_segments, (double)(bytes - w->expired_bytes) / 1048576.0);
    ec_store_size size;
    if (segments != w->expired_segments && limits->bytes && !ec_store_measure(w->options.store, &size, NULL) &&
        size.index_bytes + size.state_bytes > limits->bytes)
        ec_log_line(
            w->options.log,
            "index.db and state.db alone take %.1f MiB, more than retain-size (%.1f MiB): only the open segment "
            "is kept, and a larger retain-size keeps more",
            (double)(size.index_bytes + size.state_bytes) / 1048576.0, (double)limits->bytes / 1048576.0);
    w->expired_segments = segments;
    w->expired_bytes = bytes;
}

/* One step of the store's retention when its time has come: uploads that arrive meanwhile are stored between steps. */
static void retain(ec_writer *w) {
    ea_err err;
    int64_t now_ns = ea_monotonic_ns();
    ea_mutex_lock(w->mutex);
    int due = now_ns >= w->retain_at_ns && !w->stopping;
    ec_retention limits = w->retention;
    ea_mutex_unlock(w->mutex);
    if (!due)
        return;
    int rc = ec_store_retain(w->options.store, &limits, &err);
    if (rc < 0)
        ec_log_line(w->options.log, "old batches could not be deleted: %s", err.message);
    if (rc == 0)
        log_expired(w, &limits);
    ea_mutex_lock(w->mutex);
    w->retain_at_ns = now_ns + (rc == 1 ? 0 : rc == EC_RETAIN_BUSY ? RETAIN_BUSY_NS : w->options.retain_every_ns);
    ea_mutex_unlock(w->mutex);
}

/* After a group: while others store something, the slow lane has a third of the writer's time. */
static void writer_rest(ec_writer *w, int64_t begin_ns) {
    int64_t now_ns = ea_monotonic_ns(), pause_ns = 2 * (now_ns - begin_ns);
    ea_mutex_lock(w->mutex);
    if (w->was_slow && now_ns - w->quick_at_ns < ACTIVE_NS)
        w->slow_at_ns = now_ns + (pause_ns < ACTIVE_NS ? pause_ns : ACTIVE_NS);
    ea_mutex_unlock(w->mutex);
}

static void writer_main(void *arg) {
    ec_writer *w = arg;
    ea_cpu_throttle pace = {.percent = w->options.cpu_percent};
    int stop = 0;
    while (!stop) {
        ec_upload *list = take_group(w, &stop);
        while (list && !writer_is_stopping(w) &&
               ea_cpu_throttle_wait(&pace, w->options.counters, EA_COUNT_ingest_paced_seconds)) {
        }
        if (list) {
            int64_t begin_ns = ea_monotonic_ns();
            commit_group(w, list);
            writer_rest(w, begin_ns);
        }
        retain(w);
    }
}

void ec_writer_set_retention(ec_writer *w, const ec_retention *limits) {
    ea_mutex_lock(w->mutex);
    w->retention = *limits;
    w->retain_at_ns = ea_monotonic_ns();
    ea_cond_signal(w->wake);
    ea_mutex_unlock(w->mutex);
}

int ec_writer_start(ec_writer **ret, const ec_writer_options *options, ea_err *err) {
    ec_writer *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "start the writer");
    w->options = *options;
    if (!w->options.max_waiting_uploads)
        w->options.max_waiting_uploads = 4096;
    if (!w->options.max_waiting_bytes)
        w->options.max_waiting_bytes = 256 << 20;
    if (!w->options.max_body_bytes)
        w->options.max_body_bytes = EA_BATCH_MAX_BYTES + EA_UPLOAD_FRAME_BYTES;
    if (!w->options.retain_every_ns)
        w->options.retain_every_ns = 60 * INT64_C(1000000000);
    w->retention = options->retention;
    w->retain_at_ns = ea_monotonic_ns();
    ea_arena_init(&w->texts, 0);
    ec_disk_gate_init(&w->disk, ec_store_folder(w->options.store), w->options.log);
    int rc = ea_mutex_create(&w->mutex, err);
    if (!rc)
        rc = ec_duplicate_agents_create(&w->identities, 0, err);
    if (!rc)
        rc = ea_cond_create(&w->wake, err);
    if (!rc)
        rc = ea_thread_start(&w->thread, "writer", writer_main, w, err);
    if (rc) {
        ec_writer_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int ec_writer_push(ec_writer *w, ec_upload *u) {
    int rc = 0;
    ea_mutex_lock(w->mutex);
    size_t count = w->turns[0].count + w->turns[1].count;
    if (w->stopping) {
        rc = EA_ECANCELED;
    } else if (count >= w->options.max_waiting_uploads ||
               (count && w->turns[0].len_bytes + w->turns[1].len_bytes + u->len_bytes > w->options.max_waiting_bytes)) {
        rc = EA_EFULL;
    } else {
        ec_turns_add(&w->turns[u->is_slow != 0], u);
        ea_cond_signal(w->wake);
    }
    ea_mutex_unlock(w->mutex);
    return rc;
}

int ec_writer_is_failing(ec_writer *w) {
    return atomic_load_explicit(&w->failing, memory_order_relaxed);
}

unsigned ec_writer_refuses_s(ec_writer *w) {
    return ec_disk_gate_refuses(&w->disk, ea_monotonic_ns());
}

const char *ec_writer_refusal(const ec_writer *w) {
    return ec_disk_gate_text(&w->disk);
}

void ec_writer_stop(ec_writer *w) {
    ea_mutex_lock(w->mutex);
    w->stopping = 1;
    ea_cond_signal(w->wake);
    ea_mutex_unlock(w->mutex);
    ea_thread_join(w->thread);
    w->thread = NULL;
}

void ec_writer_destroy(ec_writer *w) {
    if (!w)
        return;
    if (w->thread)
        ec_writer_stop(w);
    ea_cond_destroy(w->wake);
    ea_mutex_destroy(w->mutex);
    free(w->acknowledged);
    free(w->refused);
    free(w->known);
    ea_u64_map_deinit(&w->known_seen);
    ea_u64_map_deinit(&w->unknown_seen);
    free(w->unknown);
    ea_arena_deinit(&w->texts);
    ec_duplicate_agents_destroy(w->identities);
    free(w);
}
