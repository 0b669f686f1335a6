/* The status as JSON. See status_json.h. */
#include "service/core/status_json.h"

#include "proto/base/platform.h"
#include "service/etw/live.h"

#include <inttypes.h>

static void put_error(ea_text *t, const ea_sticky_error *e) {
    static const char *const KEYS[] = {"error", "trouble"}; /* the second is the old name, until version 0.2 */
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        ea_text_printf(t, ", \"%s\": ", KEYS[i]);
        ea_text_json_str(t, e->text);
    }
}

/* By their names; which ends with EA_COUNTER_COUNT. */
static void put_counters(ea_text *t, const ea_counters *c, const enum ea_counter *which) {
    for (; *which != EA_COUNTER_COUNT; which++)
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(*which)->name, ea_counter_get(c, *which));
}

/* What Windows made of a session, and what it admits to. With the agent's lock. */
static void put_session(ea_text *t, const ea_source_task *task, const ea_counters *c) {
    ea_mutex_assert_held(task->tasks->lock);
    ea_live_status s = {.name = ""};
    if (task->feed && task->live)
        ea_live_get_status(task->live, &s);
    ea_text_str(t, ",\n   \"session\": {\"name\": ");
    ea_text_json_str(t, s.name);
    ea_text_printf(t,
                   ", \"runs\": %s, \"logger\": %" PRIu32 ", \"buffer_bytes\": %" PRIu64 ", \"min_buffers\": %" PRIu32
                   ", \"max_buffers\": %" PRIu32 ", \"buffers\": %" PRIu32 ", \"free_buffers\": %" PRIu32
                   ", \"mode\": \"0x%08" PRIx32 "\", \"flush_seconds\": %" PRIu32 ", \"clock\": %" PRIu32
                   ", \"file_mib\": %" PRIu32 ", \"starts\": %" PRIu64 ", \"ended_by_others\": %" PRIu64
                   ", \"grown\": %" PRIu64 ", \"rundowns\": %" PRIu64 ", \"rundown_events\": %" PRIu64
                   ", \"events\": %" PRIu64 ", \"written_buffers\": %" PRIu64 ", \"lost_events\": %" PRIu64
                   ", \"lost_buffers\": %" PRIu64 ", \"dropped_events\": %" PRIu64 ", \"refused_counters\": %" PRIu64
                   ", \"refused_parts\": %" PRIu64 ", \"ring_used_bytes\": %zu",
                   s.runs ? "true" : "false", s.logger, s.buffer_bytes, s.min_buffers, s.max_buffers, s.buffers,
                   s.free_buffers, s.mode, s.flush_seconds, s.clock, s.file_mib, s.starts, s.steals, s.grown,
                   s.rundowns, s.rundown_records, s.delivered, s.written_buffers, s.lost_events, s.lost_buffers,
                   ea_counter_get(c, EA_COUNT_events_dropped_full), ea_counter_get(c, EA_COUNT_source_counters_refused),
                   ea_counter_get(c, EA_COUNT_source_parts_refused), s.ring_used_bytes);
    put_counters(t, c, (const enum ea_counter[]){EA_COUNT_decode_asked, EA_COUNT_decode_unanswered, EA_COUNTER_COUNT});

    static const enum ea_counter IMAGES[] = {
        EA_COUNT_images_asked,     EA_COUNT_images_told,     EA_COUNT_images_read,       EA_COUNT_images_cached,
        EA_COUNT_images_absent,    EA_COUNT_images_refused,  EA_COUNT_images_unreadable, EA_COUNT_images_other,
        EA_COUNT_images_left_full, EA_COUNT_images_left_end, EA_COUNT_accounts_asked,    EA_COUNT_accounts_named,
        EA_COUNT_accounts_unnamed, EA_COUNT_accounts_left};

    for (size_t i = 0; task->session->images && i < sizeof IMAGES / sizeof *IMAGES; i++)
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(IMAGES[i])->name, ea_counter_get(c, IMAGES[i]));
    ea_text_char(t, '}');
}

/* What a session's recorder has, its earlier runs' events, too. With the agent's lock. */
static void put_recorder(ea_text *t, const ea_source_task *task, const ea_counters *c) {
    ea_mutex_assert_held(task->tasks->lock);
    ea_spool_status s;
    if (!task->recorder)
        return;
    ea_spool_get_status(task->recorder, &s);
    ea_text_printf(t,
                   ",\n   \"recorder\": {\"batches\": %zu, \"events\": %" PRIu64 ", \"disk_bytes\": %" PRIu64
                   ", \"limit_bytes\": %" PRIu64 ", \"first_utc_ns\": %" PRId64,
                   s.waiting + s.locked, s.events, s.disk_bytes, s.limit_bytes,
                   s.first_utc_ns == INT64_MAX ? 0 : s.first_utc_ns);
    put_counters(t, c,
                 (const enum ea_counter[]){EA_COUNT_events_recorded, EA_COUNT_events_removed_size,
                                           EA_COUNT_events_removed_age, EA_COUNT_recorder_files_removed,
                                           EA_COUNT_recorder_earlier_removed, EA_COUNT_spool_torn_bytes,
                                           EA_COUNT_spool_bad_bytes, EA_COUNT_triggers_fired, EA_COUNT_triggers_limited,
                                           EA_COUNT_events_triggered, EA_COUNT_batches_untriggered,
                                           EA_COUNT_windows_untriggered, EA_COUNTER_COUNT});
    ea_text_char(t, '}');
}

/* With the agent's lock. Adds to *lost. */
static int put_source(ea_text *t, const ea_source_task *task, uint64_t *lost) {
    ea_mutex_assert_held(task->tasks->lock);
    static const char *const STATES[] = {
        [EA_SOURCE_WAITING] = "waiting", [EA_SOURCE_READING] = "reading", [EA_SOURCE_READ] = "read"};
    uint8_t stream[EA_STREAM_ID_BYTES] = {0};
    ea_pipeline_status p = {0};
    ea_counters c = {0};
    ea_ledger_families families;
    ea_err err;
    int balanced = 1, shipped = 0;
    if (task->feed) {
        ea_pipeline_stream(task->feed->pipeline, stream);
        ea_pipeline_get_status(task->feed->pipeline, &p);
        ea_ledger_snapshot(task->feed->ledger, &c, &families);
        balanced = ea_ledger_check(&c, &families, &err) == 0;
        shipped = task->state == EA_SOURCE_READ &&
                  ea_counter_get(&c, EA_COUNT_events_acknowledged) ==
                      ea_counter_get(&c, EA_COUNT_events_batched) + ea_counter_get(&c, EA_COUNT_events_synthesised);
    }
    ea_text_str(t, "{\"name\": ");
    ea_text_json_str(t, task->name);
    ea_text_printf(t, ", \"state\": \"%s\", \"stream\": \"", shipped ? "shipped" : STATES[task->state]);
    ea_text_hex(t, stream, sizeof stream);
    ea_text_printf(t, "\", \"progress_permille\": %u", task->feed ? atomic_load(&task->feed->progress_permille) : 0);

    static const enum ea_counter SHOWN[] = {
        EA_COUNT_events_delivered,      EA_COUNT_events_synthesised,     EA_COUNT_events_acknowledged,
        EA_COUNT_events_pending,        EA_COUNT_events_compressing,     EA_COUNT_events_spooled,
        EA_COUNT_events_unanswered,     EA_COUNT_events_evicted_size,    EA_COUNT_events_evicted_age,
        EA_COUNT_events_evicted_damage, EA_COUNT_events_evicted_refused, EA_COUNT_events_dropped_oversize,
        EA_COUNT_events_unrecorded};

    enum { FIRST_LOST = 7 }; /* of SHOWN: from here on they are gone */

    for (size_t i = 0; i < sizeof SHOWN / sizeof *SHOWN; i++) {
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(SHOWN[i])->name, ea_counter_get(&c, SHOWN[i]));
        if (i >= FIRST_LOST)
            *lost += ea_counter_get(&c, SHOWN[i]);
    }
    put_counters(t, &c,
                 (const enum ea_counter[]){
                     EA_COUNT_events_filtered, EA_COUNT_events_sampled_out, EA_COUNT_events_limited,
                     EA_COUNT_events_repeated, EA_COUNT_events_aggregated, EA_COUNT_events_redacted,
                     EA_COUNT_watch_skipped, EA_COUNT_watch_others, EA_COUNT_watch_dropped, EA_COUNT_watch_shipped,
                     EA_COUNT_source_held_seconds, EA_COUNT_source_paced_seconds, EA_COUNTER_COUNT});
    ea_text_printf(t, ", \"batches\": %" PRIu64 ", \"ledger_balanced\": %s", p.batches, balanced ? "true" : "false");
    if (task->c && task->c->channels.count) {
        *lost += ea_counter_get(&c, EA_COUNT_source_records_missing);
        ea_text_printf(t, ", \"channels\": %zu", task->c->channels.count);
        put_counters(t, &c,
                     (const enum ea_counter[]){EA_COUNT_source_records_missing, EA_COUNT_source_bad_records,
                                               EA_COUNT_source_parts_refused, EA_COUNTER_COUNT});
    }
    put_error(t, &task->error);
    put_recorder(t, task, &c);
    if (task->session) {
        *lost += ea_counter_get(&c, EA_COUNT_events_dropped_full) + ea_counter_get(&c, EA_COUNT_source_events_lost);
        put_session(t, task, &c);
    }
    ea_text_char(t, '}');
    return balanced;
}

/* What each status begins with. */
static void put_status_head(const ea_agent *a, const char *state, int64_t every_ns, ea_text *t) {
    ea_text_printf(t, "{\"state\": \"%s\", \"version\": \"%s\", \"pid\": %" PRIu32 ", \"configuration\": ", state,
                   EA_VERSION, ea_process_id());
    ea_text_json_str(t, a->path);
    ea_text_printf(t, ", \"started_utc_ns\": %" PRId64 ", \"written_utc_ns\": %" PRId64 ", \"every_ns\": %" PRId64,
                   a->started_utc_ns, ea_utc_ns(), every_ns);
}

static void put_enrolment(const ea_agent *a, ea_text *t) {
    static const char *const STATES[] = {
        [EA_ENROLLER_WANTS] = "waiting", [EA_ENROLLER_HAS] = "enrolled", [EA_ENROLLER_FRESH] = "enrolled"};
    ea_enroller_status s = {.state = EA_ENROLLER_WANTS};
    if (!a->enroller)
        return;
    ea_enroller_get_status(a->enroller, &s);
    ea_text_printf(t, "},\n \"enrolment\": {\"state\": \"%s\", \"until_utc_ns\": %" PRId64, STATES[s.state],
                   s.not_after_s * INT64_C(1000000000));
    put_error(t, &a->enroll_error);
}

void ea_status_put(ea_agent *a, const char *state, ea_text *t, uint64_t *lost) {
    const ea_agent_config *c = &a->snapshot->c;
    int balanced = 1;
    put_status_head(a, state, c->service.status_every_ns, t);
    ea_text_printf(t, ", \"reloads\": %" PRIu64 ", \"reloads_refused\": %" PRIu64 ",\n \"sources\": [", a->reloads,
                   a->reloads_refused);
    ea_mutex_lock(a->tasks.lock);
    for (const ea_source_task *task = a->tasks.first; task; task = task->next) {
        balanced &= put_source(t, task, lost);
        ea_text_str(t, task->next ? ",\n  " : "");
    }
    ea_spool_status s = {0};
    ea_sender_status n = {0};
    if (a->tasks.spool)
        ea_spool_get_status(a->tasks.spool, &s);
    if (a->sender)
        ea_sender_get_status(a->sender, &n);
    ea_text_printf(t, "],\n \"spool\": {\"batches\": %zu, \"disk_bytes\": %" PRIu64, s.waiting + s.taken, s.disk_bytes);
    put_counters(t, &a->counters,
                 (const enum ea_counter[]){EA_COUNT_spool_torn_bytes, EA_COUNT_spool_bad_bytes,
                                           EA_COUNT_spool_locked_events, EA_COUNTER_COUNT});
    put_error(t, &a->spool_error);
    ea_text_printf(t,
                   "},\n \"shipping\": {\"requests\": %" PRIu64 ", \"failures\": %" PRIu64 ", \"sent_bytes\": %" PRIu64
                   ", \"collector\": ",
                   n.requests, n.failures, n.sent_bytes);
    ea_text_json_str(
        t, a->sender && n.collector < c->shipping.collectors.count ? c->shipping.collectors.items[n.collector] : "");
    put_counters(t, &a->counters,
                 (const enum ea_counter[]){EA_COUNT_batches_sent, EA_COUNT_batches_refused, EA_COUNT_collector_moves,
                                           EA_COUNT_shipping_held_seconds, EA_COUNTER_COUNT});
    put_error(t, a->sender_error.text[0] ? &a->sender_error : &a->line_error);
    ea_text_printf(t, "},\n \"remote\": {\"accepts\": %s", a->tasks.remote ? "true" : "false");
    put_counters(t, &a->counters,
                 (const enum ea_counter[]){EA_COUNT_requests_accepted, EA_COUNT_requests_refused_malformed,
                                           EA_COUNT_requests_refused_key, EA_COUNT_requests_refused_signature,
                                           EA_COUNT_requests_refused_host, EA_COUNT_requests_refused_replayed,
                                           EA_COUNT_requests_refused_reordered, EA_COUNT_requests_refused_expired,
                                           EA_COUNT_requests_refused_policy, EA_COUNT_requests_refused_limits,
                                           EA_COUNTER_COUNT});
    put_error(t, &a->remote_error);
    ea_mutex_unlock(a->tasks.lock);
    put_enrolment(a, t);
    ea_text_printf(t, "},\n \"ledger_balanced\": %s}\n", balanced ? "true" : "false");
}

void ea_status_put_waiting(const ea_agent *a, int64_t every_ns, ea_text *t) {
    put_status_head(a, "waiting", every_ns, t);
    put_error(t, &a->config_error);
    ea_text_str(t, ", \"ledger_balanced\": true}\n");
}
