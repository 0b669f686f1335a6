/* The sender against a small collector in this program (false_collector.h) that answers as each test's script says:
 * honestly, late, wrong, or not at all. Whatever it does, a batch leaves the spool once, for a reason, and the ledger
 * balances. */
#include "service/ship/power_policy.h"
#include "service/ship/sender.h"
#include "tests/unit/false_collector.h"

/* ---- the agent's side ---- */

typedef struct calls {
    ea_mutex *lock;
    ea_spool *spool; /* for renewals */
    unsigned known, refused, renewals, keyframes, errors, recoveries;
    uint64_t refused_number;
    char refused_text[256], error[512];
} calls;

static void on_known(void *arg, const uint8_t *stream, const ea_class_hash *hash) {
    calls *t = arg;
    if (memcmp(stream, STREAM, sizeof STREAM) == 0 && memcmp(hash, &ABC, sizeof ABC) == 0)
        t->known++;
}

static void on_refused(void *arg, const ea_spool_item *item, const ea_refusal *refusal) {
    calls *t = arg;
    t->refused++;
    t->refused_number = item->number;
    snprintf(t->refused_text, sizeof t->refused_text, "%s", refusal->text);
}

static int renew(void *arg, const uint8_t *stream, ea_err *err) {
    static const uint8_t FRESH[EA_STREAM_ID_BYTES] = {99};
    uint64_t count;
    calls *t = arg;
    t->renewals++;
    return ea_spool_renew(t->spool, stream, FRESH, &count, err);
}

static void on_keyframe(void *arg, const uint8_t *stream) {
    (void)stream;
    ((calls *)arg)->keyframes++;
}

static void on_error(void *arg, const ea_err *err) {
    calls *t = arg;
    if (err->code) {
        t->errors++;
        snprintf(t->error, sizeof t->error, "%s", err->message);
    } else {
        t->recoveries++;
    }
}

typedef struct agent {
    ea_counters counters;
    ea_ledger *ledger;
    ea_spool *spool;
    ea_sender *sender;
    calls calls; /* the sender's thread writes it; read after that thread ended */
    ea_err result;
} agent;

static agent *the_agent; /* for the teardown */

static void check_ledger(const agent *a) {
    ea_counters now;
    ea_err err;
    ea_ledger_snapshot(a->ledger, &now, NULL);
    must(ea_ledger_check(&now, NULL, &err), &err);
}

static uint64_t counter(const agent *a, enum ea_counter which) {
    return ea_counter_get(&a->counters, which);
}

/* A batch with its stream, its number and padding; "abc" as a description when described. */
static void make_batch(uint64_t number, size_t len_bytes, int described, ea_text *out) {
    ea_text_clear(out);
    ea_text_char(out, 1 << 3);
    ea_text_char(out, 1);
    ea_text_char(out, 2 << 3 | 2);
    ea_text_char(out, sizeof STREAM);
    ea_text_add(out, STREAM, sizeof STREAM);
    ea_text_char(out, 3 << 3);
    for (; number >= 0x80; number >>= 7)
        ea_text_char(out, (char)(number | 0x80));
    ea_text_char(out, (char)number);
    if (described)
        ea_batch_add_definition(out, EA_DEFINES_CLASS, (const uint8_t *)"abc", 3);
    while (out->len_bytes < len_bytes) {
        size_t n = len_bytes - out->len_bytes > 120 ? 117
                   : len_bytes - out->len_bytes > 3 ? len_bytes - out->len_bytes - 3
                                                    : 0;
        ea_text_varint(out, 26 << 3 | 2);
        ea_text_char(out, (char)n);
        for (size_t i = 0; i < n; i++)
            ea_text_char(out, 'x');
    }
}

static void offer(agent *a, uint64_t number, size_t len_bytes, int described) {
    ea_text batch;
    ea_err err;
    ea_text_init(&batch);
    make_batch(number, len_bytes, described, &batch);
    ea_ledger_post(a->ledger, (ea_posting[]){{EA_COUNT_events_delivered, 10}, {EA_COUNT_events_pending, 10}}, 2, NULL,
                   0);
    must(ea_spool_claim(a->spool, STREAM, number, 10, NULL, 0, &err), &err);
    must(ea_spool_append(
             a->spool, &(ea_spool_batch){STREAM, number, 1, 10, (const uint8_t *)batch.data, batch.len_bytes, NULL, 0},
             &err),
         &err);
    ea_text_deinit(&batch);
}

/* A spool with count batches of 1,000 bytes. */
static agent *agent_of(uint64_t count, int is_resumable) {
    agent *a = calloc(1, sizeof *a);
    ea_err err;
    assert_non_null(a);
    the_agent = a;
    must(ea_ledger_create(&a->ledger, &a->counters, &err), &err);
    must(ea_spool_open(&a->spool, scratch_path("spool"),
                       &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .counters = &a->counters}, &err),
         &err);
    must(ea_spool_stream(a->spool, STREAM, is_resumable, 1, a->ledger, &err), &err);
    for (uint64_t n = 1; n <= count; n++)
        offer(a, n, 1000, 0);
    return a;
}

static agent *agent_with(uint64_t count) {
    return agent_of(count, 0);
}

static ea_sender_options options_for(agent *a) {
    return (ea_sender_options){.cert = cert_path("agent.crt"),
                               .key = cert_path("agent.key"),
                               .ca = cert_path("ca.crt"),
                               .request_bytes = 4100, /* four batches */
                               .pause_min_ns = 5 * MS,
                               .pause_max_ns = 40 * MS,
                               .counters = &a->counters,
                               .arg = &a->calls,
                               .on_known = on_known,
                               .on_refused = on_refused,
                               .on_keyframe_wanted = on_keyframe,
                               .on_error = on_error};
}

static void start(agent *a, ea_sender_options o, const server *const *servers, size_t count) {
    char urls[4][64];
    const char *list[4];
    ea_err err;
    for (size_t i = 0; i < count; i++) {
        snprintf(urls[i], sizeof urls[i], "https://127.0.0.1:%d%s", servers[i]->port, i % 2 ? "/" : "");
        list[i] = urls[i];
    }
    o.collectors = list;
    o.collector_count = count;
    must(ea_sender_start(&a->sender, a->spool, &o, &err), &err);
}

/* Sends until the spool is empty or the sender gives up; the result's code. */
static int finish(agent *a) {
    ea_sender_drain(a->sender);
    if (!ea_sender_wait(a->sender, 120000 * MS))
        fail_msg("the sender did not end within two minutes; its error: %s", a->calls.error);
    int rc = ea_sender_result(a->sender, &a->result);
    check_ledger(a);
    return rc;
}

static int send_all(agent *a, ea_sender_options o, const server *s) {
    start(a, o, &s, 1);
    return finish(a);
}

static void agent_close(agent *a) {
    ea_err err;
    ea_sender_destroy(a->sender);
    must(ea_spool_close(a->spool, &err), &err);
    ea_ledger_destroy(a->ledger);
    free(a);
    the_agent = NULL;
}

/* ---- what works ---- */

static void sends_and_settles(void **state) {
    (void)state;
    server *s = SERVER(HONEST);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 100);
    assert_int_equal(counter(a, EA_COUNT_batches_sent), 10);
    assert_int_equal(s->request_count, 3); /* four a request */
    assert_int_equal(s->connections, 1);   /* kept */
    for (uint64_t n = 1; n <= 10; n++)
        assert_int_equal(s->stored[n], 1);
    assert_int_equal(a->calls.errors, 0);
    agent_close(a);
    free(s);
}

static void batches_that_come_later_are_sent(void **state) {
    (void)state;
    server *s = SERVER(HONEST);
    agent *a = agent_with(0);
    const server *list[] = {s};
    start(a, options_for(a), list, 1);
    for (uint64_t n = 1; n <= 30; n++) {
        offer(a, n, 500, 0);
        ea_sleep_ns(MS);
    }
    assert_int_equal(finish(a), 0);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 300);
    agent_close(a);
    free(s);
}

/* ---- what goes wrong and mends: each script ends honestly, and all arrives ---- */

static void mends(const enum answer *script, size_t count, unsigned least_failures) {
    server *s = server_start(script, count);
    agent *a = agent_with(10);
    ea_sender_options o = options_for(a);
    o.idle_timeout_ns = 1000 * MS;
    o.request_timeout_ns = 1000 * MS;
    assert_int_equal(send_all(a, o, s), 0);
    ea_sender_status status;
    ea_sender_get_status(a->sender, &status);
    server_stop(s);
    assert_true(status.failures >= least_failures);
    assert_int_equal(a->calls.recoveries > 0, least_failures > 0);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 100);
    for (uint64_t n = 1; n <= 10; n++)
        assert_true(s->stored[n] >= 1);
    agent_close(a);
    free(s);
}

#define MENDS(failures, ...)                                                                                           \
    mends((const enum answer[]){__VA_ARGS__}, sizeof((enum answer[]){__VA_ARGS__}) / sizeof(enum answer), failures)

static void in_part(void **state) {
    (void)state;
    MENDS(0, FIRST_ONLY, FIRST_ONLY, HONEST);
}

static void not_at_all(void **state) {
    (void)state;
    MENDS(2, NOTHING, NOTHING, HONEST);
}

static void garbage(void **state) {
    (void)state;
    MENDS(2, GARBAGE, EMPTY, HONEST);
}

static void too_much(void **state) {
    (void)state;
    MENDS(1, ENDLESS, HONEST);
}

static void another_stream(void **state) {
    (void)state;
    MENDS(1, OTHER_STREAM, HONEST);
}

static void broken(void **state) {
    (void)state;
    MENDS(3, BROKEN, BUSY_UNDATED, BROKEN, HONEST);
}

static void cut(void **state) {
    (void)state;
    MENDS(3, CUT_BODY, CUT_ANSWER, CUT_BODY, HONEST);
}

static void silent(void **state) {
    (void)state;
    MENDS(1, NO_ANSWER, HONEST);
}

static void refused_for_now(void **state) {
    (void)state;
    MENDS(0, RETRY, HONEST);
}

static void retry_after_is_kept(void **state) {
    (void)state;
    server *s = SERVER(BUSY, WAIT_A_LITTLE, HONEST);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_true(s->requests[1].at_ns - s->requests[0].at_ns >= 1000 * MS);
    assert_true(s->requests[2].at_ns - s->requests[1].at_ns >= 300 * MS);
    assert_non_null(strstr(a->calls.error, "busy"));
    assert_null(strchr(a->calls.error, 0x1b)); /* untrusted text is sanitized */
    agent_close(a);
    free(s);
}

static void pauses_grow_and_stay_bounded(void **state) {
    (void)state;
    server *s =
        SERVER(BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, HONEST);
    agent *a = agent_with(1);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    int64_t least_late = INT64_MAX;
    for (size_t i = 1; i < 13; i++) {
        int64_t gap = s->requests[i].at_ns - s->requests[i - 1].at_ns;
        assert_true(gap >= 5 * MS);
        least_late = i >= 10 && gap < least_late ? gap : least_late;
    }
    /* pauses that kept growing would be 2.5 s long then, and more; these are 40 ms and what a busy machine takes */
    assert_true(least_late < 2000 * MS);
    assert_int_equal(a->calls.errors, 1); /* repeated failures of one kind are reported once */
    assert_int_equal(a->calls.recoveries, 1);
    agent_close(a);
    free(s);
}

static void an_answer_counts_only_for_what_was_sent(void **state) {
    (void)state;
    server *s = SERVER(BEYOND, HONEST);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    for (uint64_t n = 5; n <= 10; n++)
        assert_int_equal(s->stored[n], 1); /* they were sent, although the first answer spoke of them */
    agent_close(a);
    free(s);
}

static void too_large_means_smaller(void **state) {
    (void)state;
    server *s = SERVER(TOO_LARGE);
    agent *a = agent_with(6);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 60);
    assert_int_equal(s->requests[s->request_count - 1].count, 1);
    agent_close(a);
    free(s);
}

static void a_batch_that_is_too_large_alone_is_refused(void **state) {
    (void)state;
    server *s = SERVER(HONEST, ALWAYS_TOO_LARGE, HONEST);
    agent *a = agent_with(0);
    ea_sender_options o = options_for(a);
    o.request_bytes = 1; /* one batch a request */
    for (uint64_t n = 1; n <= 3; n++)
        offer(a, n, 1000, 0);
    assert_int_equal(send_all(a, o, s), 0);
    server_stop(s);
    assert_int_equal(a->calls.refused, 1);
    assert_int_equal(a->calls.refused_number, 2);
    assert_int_equal(counter(a, EA_COUNT_batches_refused), 1);
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 20);
    agent_close(a);
    free(s);
}

/* An old collector, or one with a narrower reader, refuses the framing of one batch: it alone is lost, and counted. */
static void a_batch_that_is_bad_alone_is_refused(void **state) {
    (void)state;
    server *s = SERVER(BAD_THIRD);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    size_t alone = 0;
    for (size_t i = 0; i < s->request_count; i++)
        alone += s->requests[i].count == 1 && s->requests[i].numbers[0] == 3 &&
                 s->requests[i].len_bytes[0] > TOMBSTONE_BYTES;
    assert_int_equal(alone, 3); /* a pause after each: one wrong answer must not cost a batch */
    assert_int_equal(a->calls.refused, 1);
    assert_int_equal(a->calls.refused_number, 3);
    assert_int_equal(counter(a, EA_COUNT_batches_refused), 1);
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 90);
    agent_close(a);
    free(s);
}

/* So does a tombstone, although it is the only record of a loss: what follows it would wait for ever. */
static void a_tombstone_that_is_bad_alone_is_dropped(void **state) {
    (void)state;
    server *s = SERVER(MALFORMED, BAD_ONCE, BAD_ONCE, BAD_ONCE, HONEST);
    agent *a = agent_with(1);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    assert_int_equal(s->request_count, 4); /* the batch, then three times its tombstone */
    assert_int_equal(a->calls.refused, 2);
    assert_int_equal(a->calls.refused_number, 1);
    assert_int_equal(counter(a, EA_COUNT_batches_refused), 2);
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10); /* once */
    ea_sender_destroy(a->sender);
    offer(a, 2, 1000, 0);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(s->stored[1], 0);
    assert_int_equal(s->stored[2], 1);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 10);
    agent_close(a);
    free(s);
}

static void one_bad_request_costs_no_batch(void **state) {
    (void)state;
    server *s = SERVER(BAD_ONCE, BAD_ONCE, HONEST);
    agent *a = agent_with(1);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(a->calls.refused, 0);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 10);
    agent_close(a);
    free(s);
}

static void credit_bounds_the_next_request(void **state) {
    (void)state;
    server *s = SERVER(SMALL_CREDIT);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(s->requests[0].count, 4);
    for (size_t i = 1; i < s->request_count; i++)
        assert_int_equal(s->requests[i].count, 2);
    agent_close(a);
    free(s);
}

static void malformed_is_dropped_and_counted(void **state) {
    (void)state;
    server *s = SERVER(MALFORMED, HONEST);
    agent *a = agent_with(10);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(a->calls.refused, 1);
    assert_int_equal(a->calls.refused_number, 1);
    assert_string_equal(a->calls.refused_text, "the test refuses it");
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 90);
    agent_close(a);
    free(s);
}

/* The tombstone of a refused batch is sent until a collector accepts it: it is the only record of the loss. */
static void a_refused_tombstone_is_sent_again(void **state) {
    (void)state;
    server *s = SERVER(MALFORMED, MALFORMED, MALFORMED, HONEST);
    agent *a = agent_with(1);
    ea_sender_status status;
    assert_int_equal(send_all(a, options_for(a), s), 0);
    ea_sender_get_status(a->sender, &status);
    server_stop(s);
    assert_int_equal(s->request_count, 4);
    assert_int_equal(s->stored[1], 1);
    assert_int_equal(a->calls.refused, 1);
    assert_int_equal(status.failures, 2); /* with a pause after each */
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    agent_close(a);
    free(s);
}

static void a_conflict_ends_a_command(void **state) {
    (void)state;
    server *s = SERVER(CONFLICT);
    agent *a = agent_with(4);
    ea_sender_options o = options_for(a);
    o.fail_fast = 1;
    assert_int_equal(send_all(a, o, s), EA_ECONFLICT);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 30);
    assert_int_equal(counter(a, EA_COUNT_events_spooled), 10); /* it stays */
    agent_close(a);
    free(s);
}

static void a_conflict_does_not_end_a_service(void **state) {
    (void)state;
    server *s = SERVER(CONFLICT, HONEST);
    agent *a = agent_with(4);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    agent_close(a);
    free(s);
}

/* The numbers of a live stream are in use at the collector: the stream continues under a new name. A stream that can be
 * read again keeps its name, unless the sender's option renew_all is set. */
static void a_conflict_renews_live_streams(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        server *s = SERVER(CONFLICT, HONEST);
        agent *a = agent_of(4, kind > 0);
        ea_sender_options o = options_for(a);
        a->calls.spool = a->spool;
        o.renew = renew;
        o.renew_all = kind == 2;
        assert_int_equal(send_all(a, o, s), 0);
        server_stop(s);
        assert_int_equal(a->calls.renewals, kind != 1);
        assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), kind == 1 ? 10 : 0);
        assert_int_equal(counter(a, EA_COUNT_events_acknowledged), kind == 1 ? 30 : 40);
        agent_close(a);
        assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
        free(s);
    }
}

static void a_keyframe_is_asked_for(void **state) {
    (void)state;
    server *s = SERVER(KEYFRAME, HONEST);
    agent *a = agent_with(8);
    assert_int_equal(send_all(a, options_for(a), s), 0);
    server_stop(s);
    assert_int_equal(a->calls.keyframes, 1);
    agent_close(a);
    free(s);
}

/* ---- descriptions ---- */

static void a_description_that_is_lacking_is_sent_again(void **state) {
    (void)state;
    server *s = SERVER(HONEST, UNKNOWN_CLASS);
    agent *a = agent_with(0);
    ea_sender_options o = options_for(a);
    o.request_bytes = 1;
    offer(a, 1, 1000, 1);
    offer(a, 2, 1000, 0);
    assert_int_equal(send_all(a, o, s), 0);
    server_stop(s);
    assert_int_equal(s->request_count, 3);
    assert_int_equal(s->requests[1].len_bytes[0], s->requests[2].len_bytes[0] - 5); /* 12<<3|2, 3, "abc" */
    assert_int_equal(a->calls.known, 2);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 20);
    assert_int_equal(a->calls.errors, 0);
    agent_close(a);
    free(s);
}

/* A collector that lost its store asks for 5,000 at once: 4,096 of them come, then the rest. */
static void descriptions_that_are_asked_for_are_bounded(void **state) {
    (void)state;
    server *s = SERVER(HONEST, MANY_UNKNOWN);
    agent *a = agent_with(0);
    ea_sender_options o = options_for(a);
    ea_text batch;
    ea_err err;
    size_t most = 0, sum = 0, with_some = 0;
    o.request_bytes = 1;
    ea_text_init(&batch);
    make_batch(1, 0, 0, &batch);
    for (size_t i = 0; i < MANY; i++) {
        char text[MANY_BYTES + 1];
        many_text(i, text);
        ea_batch_add_definition(&batch, EA_DEFINES_CLASS, (const uint8_t *)text, MANY_BYTES);
    }
    must(ea_spool_claim(a->spool, STREAM, 1, 10, NULL, 0, &err), &err);
    ea_ledger_post(a->ledger, (ea_posting[]){{EA_COUNT_events_delivered, 10}, {EA_COUNT_events_pending, 10}}, 2, NULL,
                   0);
    must(ea_spool_append(a->spool,
                         &(ea_spool_batch){STREAM, 1, 1, 10, (const uint8_t *)batch.data, batch.len_bytes, NULL, 0},
                         &err),
         &err);
    ea_text_deinit(&batch);
    offer(a, 2, 1000, 0);
    assert_int_equal(send_all(a, o, s), 0);
    server_stop(s);
    for (size_t i = 0; i < s->request_count; i++) {
        most = s->requests[i].many > most ? s->requests[i].many : most;
        sum += s->requests[i].many;
        with_some += s->requests[i].many > 0;
    }
    assert_int_equal(most, 4096);
    assert_int_equal(sum, MANY); /* each once */
    assert_int_equal(with_some, 2);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(s->has[i], 1);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 20);
    assert_int_equal(a->calls.refused, 0);
    agent_close(a);
    free(s);
}

static void a_description_that_is_nowhere_is_a_refusal(void **state) {
    (void)state;
    server *s = SERVER(UNKNOWN_CLASS, HONEST);
    agent *a = agent_with(2);
    ea_sender_options o = options_for(a);
    o.request_bytes = 1;
    assert_int_equal(send_all(a, o, s), 0);
    server_stop(s);
    assert_int_equal(a->calls.refused, 1);
    assert_non_null(strstr(a->calls.refused_text, "ba7816bf8f01"));
    assert_int_equal(counter(a, EA_COUNT_events_evicted_refused), 10);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 10);
    agent_close(a);
    free(s);
}

/* ---- several collectors ---- */

static void moves_on_and_stays(void **state) {
    (void)state;
    server *s = SERVER(HONEST, BROKEN, BROKEN, HONEST), *t = SERVER(HONEST);
    agent *a = agent_with(16);
    const server *list[] = {s, t};
    start(a, options_for(a), list, 2);
    assert_int_equal(finish(a), 0);
    server_stop(s);
    server_stop(t);
    assert_int_equal(s->request_count, 3); /* one good, two bad */
    assert_int_equal(t->request_count, 3); /* and the rest, although the first would work again */
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 160);
    agent_close(a);
    free(s);
    free(t);
}

/* What one asks for is kept while it is the one: the next has asked for nothing. */
static void a_pause_stays_with_who_asked(void **state) {
    (void)state;
    server *s = SERVER(BUSY), *t = SERVER(HONEST);
    agent *a = agent_with(4);
    const server *list[] = {s, t};
    start(a, options_for(a), list, 2);
    assert_int_equal(finish(a), 0);
    server_stop(s);
    server_stop(t);
    assert_int_equal(s->request_count, 2);
    /* one pause of 1 to 1.25 s was made, between these two */
    int64_t first_ns = s->requests[1].at_ns - s->requests[0].at_ns,
            held_ns = (int64_t)counter(a, EA_COUNT_shipping_held_seconds) * 1000 * MS;
    assert_true(held_ns >= 1000 * MS && held_ns <= first_ns);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 40);
    agent_close(a);
    free(s);
    free(t);
}

static void a_collector_that_comes_back(void **state) {
    (void)state;
    server *s = SERVER(HONEST);
    server_stop(s); /* its port is free now */
    agent *a = agent_with(5);
    const server *list[] = {s};
    ea_sender_status status = {0};
    start(a, options_for(a), list, 1);
    for (int i = 0; i < 60000 && !status.failures; i++, ea_sleep_ns(MS))
        ea_sender_get_status(a->sender, &status);
    server *t = server_start_how((const enum answer[]){HONEST}, 1, (server_how){.port = s->port});
    assert_int_equal(finish(a), 0);
    server_stop(t);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 50);
    assert_true(a->calls.errors >= 1);
    agent_close(a);
    free(s);
    free(t);
}

/* ---- what does not mend ---- */

static void ends_with(server_how how, const char *client, const char *ca, int expected, const char *words) {
    char crt[32], key[32];
    server *s = server_start_how((const enum answer[]){HONEST}, 1, how);
    agent *a = agent_with(2);
    ea_sender_options o = options_for(a);
    snprintf(crt, sizeof crt, "%s.crt", client);
    snprintf(key, sizeof key, "%s.key", client);
    o.cert = cert_path(crt);
    o.key = cert_path(key);
    if (ca)
        o.ca = cert_path(ca);
    o.fail_fast = 1;
    o.give_up_ns = 3000 * MS;
    int rc = send_all(a, o, s);
    server_stop(s);
    if (rc != expected || !strstr(a->result.message, words))
        fail_msg("expected %s with '%s', got %s: %s", ea_code_name(expected), words, ea_code_name(rc),
                 a->result.message);
    assert_int_equal(counter(a, EA_COUNT_events_spooled), 20); /* nothing is lost */
    assert_int_equal(s->request_count, 0);
    agent_close(a);
    free(s);
}

static void a_collector_of_another_ca(void **state) {
    (void)state;
    ends_with((server_how){0}, "agent", "other/ca.crt", EA_ETLS, "not to be trusted");
}

static void a_collector_of_another_name(void **state) {
    (void)state;
    ends_with((server_how){.cert = cert_path("elsewhere.crt"), .key = cert_path("elsewhere.key")}, "agent", NULL,
              EA_ETLS, "not to be trusted");
}

static void a_collector_that_expired(void **state) {
    (void)state;
    ends_with((server_how){.cert = cert_path("expired.crt")}, "agent", NULL, EA_ETLS, "expired");
}

static void a_collector_with_an_agents_certificate(void **state) {
    (void)state;
    ends_with((server_how){.cert = cert_path("agent.crt"), .key = cert_path("agent.key")}, "agent", NULL, EA_ETLS,
              "not to be trusted");
}

static void an_agent_of_another_ca(void **state) {
    (void)state;
    ends_with((server_how){.client_ca = cert_path("other/ca.crt")}, "agent", NULL, EA_ETLS,
              "refuses the client certificate");
}

static void an_agent_with_a_servers_certificate(void **state) {
    (void)state;
    ends_with((server_how){0}, "server", NULL, EA_ETLS, "refuses the client certificate");
}

static void a_collector_of_old_tls(void **state) {
    (void)state;
    /* damaged bytes can look like this, too: it is tried until the time is up */
    ends_with((server_how){.tls_max = TLS1_2_VERSION}, "agent", NULL, EA_ENET, "protocol version");
}

static void a_key_of_another_certificate(void **state) {
    (void)state;
    server *s = SERVER(HONEST);
    agent *a = agent_with(1);
    ea_sender_options o = options_for(a);
    o.key = cert_path("server.key");
    o.fail_fast = 1;
    assert_int_equal(send_all(a, o, s), EA_ETLS);
    assert_non_null(strstr(a->result.message, "is not usable"));
    server_stop(s);
    agent_close(a);
    free(s);
}

/* OpenSSL would ask on the terminal, and a service would wait there for ever. */
static void a_key_with_a_password(void **state) {
    (void)state;
    FILE *f = fopen(cert_path("agent.key"), "r");
    assert_non_null(f);
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(key);
    const char *locked = scratch_path("locked.key");
    f = fopen(locked, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, key, EVP_aes_256_cbc(), (const unsigned char *)"secret", 6, NULL, NULL),
                     1);
    fclose(f);
    EVP_PKEY_free(key);
    server *s = SERVER(HONEST);
    agent *a = agent_with(1);
    ea_sender_options o = options_for(a);
    o.key = locked;
    o.fail_fast = 1;
    assert_int_equal(send_all(a, o, s), EA_EUNSUPPORTED);
    assert_non_null(strstr(a->result.message, "locked.key: the key has a password, which a service cannot ask for"));
    assert_non_null(strstr(a->result.message, "openssl pkey"));
    assert_int_equal(s->request_count, 0);
    assert_int_equal(counter(a, EA_COUNT_events_spooled), 10);
    server_stop(s);
    agent_close(a);
    free(s);
}

static void forbidden_and_not_found(void **state) {
    (void)state;

    static const struct {
        enum answer answer;
        const char *words;
    } CASES[] = {{FORBIDDEN, "does not accept"}, {NOT_FOUND, "no collector"}};

    for (size_t i = 0; i < 2; i++) {
        server *s = server_start(&CASES[i].answer, 1);
        agent *a = agent_with(1);
        ea_sender_options o = options_for(a);
        o.fail_fast = 1;
        assert_int_equal(send_all(a, o, s), EA_EREFUSED);
        assert_non_null(strstr(a->result.message, CASES[i].words));
        server_stop(s);
        agent_close(a);
        free(s);
        scratch_clear(NULL);
    }
}

static void gives_up_after_a_while(void **state) {
    (void)state;
    server *s = SERVER(BROKEN);
    agent *a = agent_with(1);
    ea_sender_options o = options_for(a);
    o.give_up_ns = 200 * MS;
    int64_t begin = ea_monotonic_ns();
    assert_int_equal(send_all(a, o, s), EA_EREFUSED);
    assert_true(ea_monotonic_ns() - begin >= 200 * MS);
    server_stop(s);
    agent_close(a);
    free(s);
}

static void stops_at_once(void **state) {
    (void)state;
    server *s = SERVER(NO_ANSWER);
    agent *a = agent_with(1);
    const server *list[] = {s};
    start(a, options_for(a), list, 1);
    for (int i = 0; i < 60000 && counter(a, EA_COUNT_events_unanswered) < 10; i++)
        ea_sleep_ns(MS);
    assert_int_equal(counter(a, EA_COUNT_events_unanswered), 10);
    int64_t begin = ea_monotonic_ns();
    ea_sender_stop(a->sender);
    assert_int_equal(finish(a), EA_ECANCELED);
    assert_true(ea_monotonic_ns() - begin < 60000 * MS); /* an answer would be waited for for two minutes */
    assert_int_equal(counter(a, EA_COUNT_events_spooled), 10);
    server_stop(s);
    agent_close(a);
    free(s);
}

static int says_battery, says_metered;

static int fake_battery(void) {
    return says_battery;
}

static int fake_metered(void) {
    return says_metered;
}

static void count_words(void *arg, const char *text) {
    (void)text;
    ++*(int *)arg;
}

static void power_policy_follows_the_machine(void **state) {
    static const ea_power_policy_facts FAKE = {fake_battery, fake_metered};
    const int64_t look_ns = EA_POWER_POLICY_LOOK_SECONDS * 1000 * MS;
    int64_t now = 1;
    int words = 0;
    ea_power_policy t;
    (void)state;
    says_battery = says_metered = 1;
    ea_power_policy_init(&t, EA_PACE_NORMAL, EA_PACE_NORMAL, &FAKE, count_words, &words);
    assert_int_equal(ea_power_policy_pace(&t, now), EA_PACE_NORMAL);
    assert_int_equal(words, 0);
    ea_power_policy_init(&t, EA_PACE_HOLD, EA_PACE_SLOW, &FAKE, count_words, &words);
    assert_int_equal(ea_power_policy_pace(&t, now), EA_PACE_HOLD);
    assert_int_equal(words, 1);
    says_battery = 0;
    assert_int_equal(ea_power_policy_pace(&t, now + look_ns - 1), EA_PACE_HOLD); /* not looked again yet */
    assert_int_equal(ea_power_policy_pace(&t, now += look_ns), EA_PACE_SLOW);
    assert_int_equal(words, 2);
    says_metered = 0;
    assert_int_equal(ea_power_policy_pace(&t, now += look_ns), EA_PACE_NORMAL);
    assert_int_equal(ea_power_policy_pace(&t, now += look_ns), EA_PACE_NORMAL);
    assert_int_equal(words, 3);
    says_battery = says_metered = -1; /* unknown: reported once, and the sender is not held up */
    ea_power_policy_init(&t, EA_PACE_HOLD, EA_PACE_HOLD, &FAKE, count_words, &words);
    assert_int_equal(ea_power_policy_pace(&t, now += look_ns), EA_PACE_NORMAL);
    assert_int_equal(ea_power_policy_pace(&t, now += look_ns), EA_PACE_NORMAL);
    assert_int_equal(words, 5);
}

static enum ea_sender_pace asked_pace(void *arg) {
    return (enum ea_sender_pace)atomic_load((atomic_int *)arg);
}

static void holds_and_goes_on(void **state) {
    server *s = SERVER(HONEST);
    agent *a = agent_with(3);
    atomic_int pace = EA_PACE_HOLD;
    ea_sender_status status;
    (void)state;
    ea_sender_options o = options_for(a);
    o.pace = asked_pace;
    o.pace_arg = &pace;
    start(a, o, (const server *const[]){s}, 1);
    ea_sleep_ns(400 * MS);
    ea_sender_get_status(a->sender, &status);
    assert_int_equal(status.requests, 0);
    atomic_store(&pace, EA_PACE_SLOW);
    assert_int_equal(finish(a), 0);
    ea_sender_get_status(a->sender, &status);
    assert_true(status.requests > 0);
    server_stop(s);
    assert_int_equal(counter(a, EA_COUNT_events_acknowledged), 30);
    agent_close(a);
    free(s);
}

static void options_are_checked(void **state) {
    (void)state;
    agent *a = agent_with(0);
    static const char *const BAD[] = {"http://127.0.0.1:1", "127.0.0.1:1", "https://me:secret@127.0.0.1",
                                      "https://h/?x=1", "https://"};
    ea_err err;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        ea_sender_options o = options_for(a);
        o.collectors = &BAD[i];
        o.collector_count = 1;
        assert_int_equal(ea_sender_start(&a->sender, a->spool, &o, &err), EA_EUSAGE);
        assert_non_null(strstr(err.message, "https://"));
    }
    static const char *const GOOD[] = {"https://127.0.0.1:1"};
    ea_sender_options o = options_for(a);
    o.collectors = GOOD;
    o.collector_count = 1;
    o.cert = cert_path("nowhere.crt");
    assert_int_equal(ea_sender_start(&a->sender, a->spool, &o, &err), EA_ENOTFOUND);
    assert_non_null(strstr(err.message, "nowhere.crt"));
    agent_close(a);
}

static int teardown(void **state) {
    if (the_agent) { /* the test failed: its threads go, its memory may stay */
        ea_sender_destroy(the_agent->sender);
        the_agent = NULL;
    }
    return ea_path_exists(scratch) ? scratch_clear(state) : 0;
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, scratch_make, teardown)
    const struct CMUnitTest tests[] = {
        T(sends_and_settles),
        T(batches_that_come_later_are_sent),
        T(in_part),
        T(not_at_all),
        T(garbage),
        T(too_much),
        T(another_stream),
        T(broken),
        T(cut),
        T(silent),
        T(refused_for_now),
        T(retry_after_is_kept),
        T(pauses_grow_and_stay_bounded),
        T(an_answer_counts_only_for_what_was_sent),
        T(too_large_means_smaller),
        T(a_batch_that_is_too_large_alone_is_refused),
        T(a_batch_that_is_bad_alone_is_refused),
        T(a_tombstone_that_is_bad_alone_is_dropped),
        T(one_bad_request_costs_no_batch),
        T(credit_bounds_the_next_request),
        T(malformed_is_dropped_and_counted),
        T(a_refused_tombstone_is_sent_again),
        T(a_conflict_ends_a_command),
        T(a_conflict_does_not_end_a_service),
        T(a_conflict_renews_live_streams),
        T(a_keyframe_is_asked_for),
        T(a_description_that_is_lacking_is_sent_again),
        T(descriptions_that_are_asked_for_are_bounded),
        T(a_description_that_is_nowhere_is_a_refusal),
        T(moves_on_and_stays),
        T(a_pause_stays_with_who_asked),
        T(a_collector_that_comes_back),
        T(a_collector_of_another_ca),
        T(a_collector_of_another_name),
        T(a_collector_that_expired),
        T(a_collector_with_an_agents_certificate),
        T(an_agent_of_another_ca),
        T(an_agent_with_a_servers_certificate),
        T(a_collector_of_old_tls),
        T(a_key_of_another_certificate),
        T(a_key_with_a_password),
        T(forbidden_and_not_found),
        T(gives_up_after_a_while),
        T(stops_at_once),
        T(power_policy_follows_the_machine),
        T(holds_and_goes_on),
        T(options_are_checked),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
