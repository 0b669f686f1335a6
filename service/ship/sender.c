/* The sender. See sender.h. */
#include "service/ship/sender.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/wire/request.h"
#include "service/host/host.h"
#include "service/ship/curl_reason.h"
#include "service/ship/enroll_client.h"
#include "service/ship/tls_store.h"

#include <curl/curl.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ITEMS_MAX = EA_UPLOAD_MAX_BATCHES,
    MISSING_MAX = 4096, /* class descriptions that a collector asked for */
    RUN_BYTES = 16,
    REQUEST_MIN = 65536,    /* bytes; a slow line makes requests smaller down to this */
    PROXY_WAIT_SECONDS = 5, /* for the first answer about the proxy; then it uses none */
    REQUEST_SECONDS = 10,   /* limit of a request's duration at the allowed speed */
    FAILURES_TO_MOVE = 2,   /* in a row, before the next collector is tried */
    BAD_REQUESTS_MAX = 3,   /* answers 400 to one batch alone, with a pause after each; then it is malformed */
};

static const int64_t SECOND_NS = 1000000000, WAIT_MAX_NS = (int64_t)600 * 1000000000;

struct ea_sender {
    ea_spool *spool;
    ea_sender_options o;
    char **urls, **poll_urls; /* with the path */
    ea_sender_poll poll;      /* ask NULL: none */
    char *cert, *key, *ca, *proxy, *name;
    ea_proxies *proxies; /* NULL: proxy is the one */
    ea_tls_keys *keys;   /* of certificate stores; NULL: none is used */
    ea_thread *thread;
    atomic_int stop, drain, end_pause;
    _Atomic uint64_t requests, failures, sent_bytes;
    _Atomic size_t current; /* index into urls */

    ea_mutex *lock;
    ea_cond *changed;
    int ended; /* lock */
    ea_err result;

    /* the thread's own */
    CURL *curl;
    struct curl_slist *headers, *poll_headers;
    int64_t poll_ns; /* monotonic: the next one */
    char curl_text[CURL_ERROR_SIZE];
    ea_err tls; /* why the certificate stores were of no use for the last connection; code 0: they were */
    ea_text body, answer;
    int answer_too_long;
    char run[2 * RUN_BYTES + 1]; /* this sender's name among those with its certificate */
    ea_arena arena;              /* of one answer */
    ea_spool_item *items;
    uint8_t *outcomes;
    size_t item_count;
    size_t limit_bytes, cap_bytes; /* of a request: now, and as far as it may grow again */
    uint64_t credit_bytes;         /* what the collector granted; 0: no bound */
    uint8_t missing_stream[EA_STREAM_ID_BYTES];
    ea_hash_ref *missing; /* what the collector lacks of missing_stream */
    size_t missing_count;
    uint8_t bad_stream[EA_STREAM_ID_BYTES]; /* the batch that was last answered with 400, alone */
    uint64_t bad_number;
    unsigned bad_count; /* how often in a row */
    uint64_t random;
    int64_t pause_ns;         /* the last one; 0 after a success */
    int64_t held_ns;          /* of pauses that a collector asked for, not counted yet: less than a second */
    int64_t failing_since_ns; /* 0: it works */
    unsigned failures_in_a_row;
    ea_err error;                 /* reported last; code 0: none */
    int proxy_waited, proxy_code; /* of the failure to ask for proxies that was reported last */
};

/* ---- pauses ---- */

static uint64_t next_random(ea_sender *s) { /* xorshift64: spreads retries, no secret */
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void pause_for(ea_sender *s, int64_t ns, int may_end) {
    int64_t until = ea_monotonic_ns() + ns;
    ea_mutex_lock(s->lock);
    while (!atomic_load(&s->stop) && !(may_end && atomic_exchange(&s->end_pause, 0))) {
        int64_t left = until - ea_monotonic_ns();
        if (left <= 0)
            break;
        ea_cond_wait_for(s->changed, s->lock, left);
    }
    ea_mutex_unlock(s->lock);
}

/* A pause that a collector asked for: it is made, and whole seconds of it are counted. */
static void sender_hold(ea_sender *s, int64_t ns) {
    int64_t began_ns = ea_monotonic_ns();
    pause_for(s, ns < WAIT_MAX_NS ? ns : WAIT_MAX_NS, 0);
    s->held_ns += ea_monotonic_ns() - began_ns;
    if (s->o.counters)
        ea_count(s->o.counters, EA_COUNT_shipping_held_seconds, (uint64_t)(s->held_ns / SECOND_NS));
    s->held_ns %= SECOND_NS;
}

static int64_t sender_next_pause(ea_sender *s) {
    int64_t low = s->o.pause_min_ns, high = s->pause_ns ? s->pause_ns * 3 : low * 3;
    if (high > s->o.pause_max_ns)
        high = s->o.pause_max_ns;
    s->pause_ns = high <= low ? low : low + (int64_t)(next_random(s) % (uint64_t)(high - low));
    return s->pause_ns;
}

/* ---- reports, once for each change ---- */

static void sender_report(ea_sender *s, const ea_err *err) {
    if (s->error.code == err->code && (err->code == 0 || strcmp(s->error.message, err->message) == 0))
        return;
    s->error = *err;
    if (s->o.on_error)
        s->o.on_error(s->o.arg, err);
}

/* The request failed; err says how. retry_after_ns: when the collector said it, else 0. Non-zero ends the sender. */
static int sender_failed(ea_sender *s, int64_t retry_after_ns, int mends, const ea_err *err) {
    atomic_fetch_add(&s->failures, 1);
    int64_t now = ea_monotonic_ns();
    if (!s->failing_since_ns)
        s->failing_since_ns = now;
    s->failures_in_a_row++;
    if (s->proxies)
        ea_proxies_doubt(s->proxies);
    if (s->o.collector_count > 1 && s->failures_in_a_row % FAILURES_TO_MOVE == 0) {
        atomic_store(&s->current, (atomic_load(&s->current) + 1) % s->o.collector_count);
        if (s->o.counters)
            ea_count(s->o.counters, EA_COUNT_collector_moves, 1);
        retry_after_ns = 0; /* another one is asked next */
    } else if (s->o.fail_fast && !mends && s->failures_in_a_row >= s->o.collector_count) {
        return err->code;
    }
    if (s->o.give_up_ns && now - s->failing_since_ns >= s->o.give_up_ns)
        return err->code;
    sender_report(s, err);
    int64_t wait = sender_next_pause(s);
    if (retry_after_ns) /* not before it, and not all at the same moment */
        sender_hold(s, retry_after_ns + (int64_t)(next_random(s) % (uint64_t)(retry_after_ns / 4 + 1)));
    else
        pause_for(s, wait < WAIT_MAX_NS ? wait : WAIT_MAX_NS, 1);
    return 0;
}

static void worked(ea_sender *s) {
    static const ea_err fine = {0};
    s->pause_ns = 0;
    s->failing_since_ns = 0;
    s->failures_in_a_row = 0;
    sender_report(s, &fine);
}

/* ---- one request ---- */

static size_t sender_on_answer(char *data, size_t size, size_t n, void *arg) {
    ea_sender *s = arg;
    if (size != 1 || n > EA_ACK_MAX_BYTES - s->answer.len_bytes) {
        s->answer_too_long = 1;
        return 0;
    }
    ea_text_add(&s->answer, data, n);
    return s->answer.failed ? 0 : n;
}

static int sender_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&((ea_sender *)arg)->stop);
}

/* The outcomes are AGAIN until an answer says otherwise; a batch that cannot be read leaves the body. */
static int build_body(ea_sender *s, ea_err *err) {
    ea_text_clear(&s->body);
    int lacking = s->missing_count && memcmp(s->missing_stream, s->items[0].stream, EA_STREAM_ID_BYTES) == 0;
    for (size_t i = 0; i < s->item_count; i++) {
        uint8_t frame[EA_UPLOAD_FRAME_BYTES] = {0};
        size_t start = s->body.len_bytes, begin = start + sizeof frame;
        ea_text_add(&s->body, frame, sizeof frame);
        int rc = ea_spool_read(s->spool, &s->items[i], &s->body, err);
        if (s->body.failed)
            return ea_fail(err, EA_ENOMEM, "build a request of %zu batches", s->item_count);
        if (rc == EA_ENOMEM)
            return rc;
        if (rc) {
            s->outcomes[i] = EA_SPOOL_DAMAGED;
            s->body.len_bytes = start;
            sender_report(s, err);
            continue;
        }
        /* the first batch brings along the definitions that the collector asked for */
        for (size_t k = 0; lacking && k < s->missing_count; k++) {
            size_t whole = s->body.len_bytes;
            rc = ea_descriptions_append(ea_spool_descriptions(s->spool), &s->missing[k], &s->body, err);
            if (rc < 0)
                return rc;
            if (s->body.len_bytes - begin > EA_BATCH_MAX_BYTES) {
                s->body.len_bytes = whole;
                break;
            }
        }
        lacking = 0;
        if (s->body.failed)
            return ea_fail(err, EA_ENOMEM, "build a request of %zu batches", s->item_count);
        ea_store32(s->body.data + start, (uint32_t)(s->body.len_bytes - begin));
    }
    return 0;
}

/* With TLS 1.3 the client learns of a refused certificate only when it reads the answer. Any other alert (a bad record,
 * a decode error) is a sign of damaged bytes: a new connection repairs it. */
static int is_refused_certificate(const char *text) {
    static const char *const alerts[] = {"certificate", "unknown ca", "access denied"};
    const char *alert = strstr(text, " alert ");
    for (size_t i = 0; alert && i < sizeof alerts / sizeof alerts[0]; i++)
        if (strstr(alert, alerts[i]))
            return 1;
    return 0;
}

static int sender_from_curl(ea_sender *s, CURLcode code, int *ret_mends, ea_err *err) {
    const char *url = s->urls[atomic_load(&s->current)];
    if (s->tls.code) {
        *ret_mends = 0;
        return ea_fail_os(err, s->tls.code, s->tls.os_error, "send to %s: %s", url, s->tls.message);
    }
    char reason[EA_CURL_REASON_BYTES];
    const char *text = ea_curl_reason(s->curl, code, url, s->curl_text, reason);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        *ret_mends = 0;
        return ea_fail(err, EA_ETLS, "send to %s: the collector's certificate is not to be trusted: %s", url, text);
    case CURLE_SSL_CERTPROBLEM:
        *ret_mends = 0;
        if (ea_key_check_password(s->key, &s->tls))
            return ea_fail(err, s->tls.code, "send to %s: %s", url, s->tls.message);
        return ea_fail(err, EA_ETLS, "send to %s: the client certificate %s with the key %s is not usable: %s", url,
                       s->cert, s->key, text);
    case CURLE_SSL_CACERT_BADFILE:
        *ret_mends = 0;
        return ea_fail(err, EA_ETLS, "send to %s: the CA file %s is not usable: %s", url, s->ca, text);
    case CURLE_OPERATION_TIMEDOUT:
        if (s->limit_bytes / 2 >= REQUEST_MIN)
            s->limit_bytes /= 2; /* a slow line */
        return ea_fail(err, EA_ETIMEOUT, "send to %s: %s", url, text);
    case CURLE_WRITE_ERROR:
        return s->answer_too_long
                   ? ea_fail(err, EA_ELIMIT, "send to %s: the answer is longer than %d bytes", url, EA_ACK_MAX_BYTES)
                   : ea_fail(err, EA_ENOMEM, "send to %s: no memory for the answer", url);
    case CURLE_ABORTED_BY_CALLBACK:
        return ea_fail(err, EA_ECANCELED, "send to %s", url);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        if (is_refused_certificate(text)) {
            *ret_mends = 0;
            return ea_fail(err, EA_ETLS, "send to %s: the collector refuses the client certificate %s: %s", url,
                           s->cert, text);
        }
        return ea_fail(err, EA_ENET, "send to %s: %s", url, text);
    default:
        return ea_fail(err, EA_ENET, "send to %s: %s", url, text);
    }
}

/* Which proxy leads to the collector in use, by what the operating system has said so far. */
static void choose_proxy(ea_sender *s) {
    char proxy[EA_PROXY_BYTES];
    ea_err error;
    size_t url = atomic_load(&s->current);
    int64_t until = ea_monotonic_ns() + PROXY_WAIT_SECONDS * SECOND_NS;
    while (!ea_proxies_get(s->proxies, url, SECOND_NS / 10, proxy, &error))
        if (atomic_load(&s->stop) || s->proxy_waited || ea_monotonic_ns() >= until)
            break;
    s->proxy_waited = 1;
    curl_easy_setopt(s->curl, CURLOPT_PROXY, proxy);
    if (error.code && error.code != s->proxy_code)
        sender_report(s, &error);
    s->proxy_code = error.code;
}

/* 0 when an answer with status 200 came, else the failure. *ret_objection: 413 or 400, which are about the body. */
static int sender_perform(ea_sender *s, int64_t *ret_retry_after_ns, int *ret_mends, int *ret_objection, ea_err *err) {
    const char *url = s->urls[atomic_load(&s->current)];
    long status = 0;
    curl_off_t retry_after = 0;
    ea_text_clear(&s->answer);
    s->answer_too_long = 0;
    s->curl_text[0] = 0;
    s->tls = (ea_err){0};
    curl_easy_setopt(s->curl, CURLOPT_URL, url);
    if (s->proxies)
        choose_proxy(s);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, s->body.data);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len_bytes);
    atomic_fetch_add(&s->requests, 1);
    CURLcode code = curl_easy_perform(s->curl);
    if (code != CURLE_OK)
        return sender_from_curl(s, code, ret_mends, err);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200)
        return 0;
    curl_easy_getinfo(s->curl, CURLINFO_RETRY_AFTER, &retry_after);
    if (retry_after > 0)
        *ret_retry_after_ns = (retry_after < 600 ? (int64_t)retry_after : 600) * SECOND_NS;
    /* what it says for a person; it is foreign text */
    ea_text said;
    ea_text_init(&said);
    size_t len = s->answer.len_bytes < 160 ? s->answer.len_bytes : 160;
    while (len && (s->answer.data[len - 1] == '\n' || s->answer.data[len - 1] == '\r'))
        len--;
    if (len)
        ea_text_safe(&said, s->answer.data, len);
    const char *text = said.data && !said.failed ? said.data : "";
    int rc;
    switch (status) {
    case 401:
    case 403:
        *ret_mends = 0;
        rc = ea_fail(err, EA_EREFUSED, "send to %s: the collector does not accept the certificate %s (status %ld) %s",
                     url, s->cert, status, text);
        break;
    case 404:
        *ret_mends = 0;
        rc = ea_fail(err, EA_EREFUSED, "send to %s: there is no collector at this address (status 404) %s", url, text);
        break;
    case 413:
        *ret_objection = 413;
        rc = ea_fail(err, EA_EREFUSED, "send to %s: a request of %zu bytes is too large for the collector", url,
                     s->body.len_bytes);
        break;
    case 429:
    case 503:
        rc = ea_fail(err, EA_EREFUSED, "send to %s: the collector is busy (status %ld) %s", url, status, text);
        break;
    default:
        *ret_objection = status == 400 ? 400 : 0;
        rc = ea_fail(err, EA_EREFUSED, "send to %s: the collector answered with status %ld %s", url, status, text);
    }
    ea_text_deinit(&said);
    return rc;
}

static int is_missing(const ea_sender *s, const ea_hash_ref *ref) {
    for (size_t i = 0; i < s->missing_count; i++)
        if (memcmp(&s->missing[i], ref, sizeof *ref) == 0)
            return 1;
    return 0;
}

/* Notes what the collector lacks. 1 when that is news, 0 when it was asked for before, EA_ENOTFOUND when one of them is
 * not here. */
static int note_missing(ea_sender *s, const ea_ack *ack, ea_err *err) {
    int news = 0;
    if (memcmp(s->missing_stream, ack->stream, sizeof s->missing_stream) != 0) {
        memcpy(s->missing_stream, ack->stream, sizeof s->missing_stream);
        s->missing_count = 0;
    }
    for (size_t i = 0; i < ack->unknown_count; i++) {
        ea_text probe;
        if (is_missing(s, &ack->unknown[i]) || s->missing_count == MISSING_MAX)
            continue;
        ea_text_init(&probe);
        int rc = ea_descriptions_append(ea_spool_descriptions(s->spool), &ack->unknown[i], &probe, err);
        ea_text_deinit(&probe);
        if (rc == 0) {
            char hex[2 * EA_CLASS_HASH_BYTES + 1];
            for (size_t k = 0; k < ack->unknown[i].len_bytes; k++)
                snprintf(hex + 2 * k, 3, "%02x", ack->unknown[i].bytes[k]);
            return ea_fail(err, EA_ENOTFOUND, "the collector lacks the definition %s, and the spool does not hold it",
                           hex);
        }
        if (rc < 0)
            return rc;
        if (s->o.on_unknown)
            s->o.on_unknown(s->o.arg, ack->stream, &ack->unknown[i]);
        EA_ASSERT(s->missing_count < MISSING_MAX);
        s->missing[s->missing_count++] = ack->unknown[i];
        news = 1;
    }
    return news;
}

static void note_known(ea_sender *s, const ea_ack *ack) {
    for (size_t i = 0; i < ack->known_count; i++) {
        if (s->o.on_known)
            s->o.on_known(s->o.arg, ack->stream, &ack->known[i]);
        if (memcmp(s->missing_stream, ack->stream, sizeof s->missing_stream) != 0)
            continue;
        for (size_t k = s->missing_count; k-- > 0;)
            if (memcmp(s->missing[k].bytes, ack->known[i].bytes, s->missing[k].len_bytes) == 0)
                s->missing[k] = s->missing[--s->missing_count];
    }
}

/* One poll, on the connection of the uploads. */
static void sender_poll(ea_sender *s) {
    long status = 0;
    size_t url = atomic_load(&s->current);
    ea_text_clear(&s->body);
    ea_text_clear(&s->answer);
    s->answer_too_long = 0;
    s->tls = (ea_err){0};
    s->poll.ask(s->poll.arg, &s->body);
    if (s->proxies)
        choose_proxy(s);
    curl_easy_setopt(s->curl, CURLOPT_URL, s->poll_urls[url]);
    curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->poll_headers);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, s->body.data);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len_bytes);
    if (!s->body.failed && curl_easy_perform(s->curl) == CURLE_OK && s->answer.len_bytes <= EA_OFFER_MAX_BYTES)
        curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
    int64_t pause_ns = s->poll.answer(s->poll.arg, status, (const uint8_t *)s->answer.data, s->answer.len_bytes);
    s->poll_ns = ea_monotonic_ns() + pause_ns - pause_ns / 8 + (int64_t)(next_random(s) % (uint64_t)(pause_ns / 4 + 1));
}

/* Reads the answer and sets the outcomes. *ret_progress: something left the spool or can now be sent better.
 * *ret_fatal: this ends a sender with fail_fast. *ret_conflict: the stream needs a new name. */
static int sender_read_answer(ea_sender *s, ea_ack *ack, int *ret_progress, int *ret_fatal, int *ret_conflict,
                              ea_err *err) {
    const char *url = s->urls[atomic_load(&s->current)];
    ea_arena_reset(&s->arena);
    int rc = ea_ack_decode(ack, &s->arena, (const uint8_t *)s->answer.data, s->answer.len_bytes, err);
    if (rc) {
        ea_err why = *err;
        return ea_fail(err, EA_ECORRUPT, "send to %s: its answer is not usable: %s", url, why.message);
    }
    if (memcmp(ack->stream, s->items[0].stream, EA_STREAM_ID_BYTES) != 0)
        return ea_fail(err, EA_ECORRUPT, "send to %s: its answer is for another stream", url);
    ea_err lacking = {0};
    int missing = ack->unknown_count ? note_missing(s, ack, &lacking) : 0;
    if (missing == EA_ENOMEM || missing == EA_EIO)
        return ea_fail(err, missing, "%s", lacking.message);
    *ret_progress = missing == 1;
    for (size_t i = 0; i < s->item_count; i++) {
        const ea_spool_item *item = &s->items[i];
        if (s->outcomes[i] == EA_SPOOL_AGAIN &&
            ea_ranges_have(ack->acknowledged, ack->acknowledged_count, item->number)) {
            s->outcomes[i] = EA_SPOOL_DONE;
            *ret_progress = 1;
        }
    }
    for (size_t r = 0; r < ack->refused_count; r++) {
        const ea_refusal *refusal = &ack->refused[r];
        size_t i = 0;
        while (i < s->item_count && s->items[i].number != refusal->number)
            i++;
        if (i == s->item_count || s->outcomes[i] != EA_SPOOL_AGAIN)
            continue;
        ea_refusal shown = *refusal;
        int conflict = refusal->cause == EA_REFUSED_CONFLICT;
        if (refusal->cause == EA_REFUSED_RETRY) {
            if (missing >= 0)
                continue;
            shown.text = lacking.message; /* this collector can never get the missing definition */
        }
        int renews = conflict && s->o.renew && (s->o.renew_all || !s->items[i].is_resumable);
        if (conflict && s->o.fail_fast && !renews) {
            *ret_fatal = 1;
            ea_fail(err, EA_ECONFLICT, "send to %s: batch %llu is stored with another content %s", url,
                    (unsigned long long)refusal->number, refusal->text);
            continue; /* it stays in the spool */
        }
        if (renews) { /* so does this, for its new name */
            *ret_conflict = 1;
            *ret_progress = 1;
            continue;
        }
        if (s->items[i].is_tombstone && !conflict)
            continue; /* only the tombstone records the loss: it is sent again */
        s->outcomes[i] = EA_SPOOL_REFUSED;
        *ret_progress = 1;
        if (s->o.counters)
            ea_count(s->o.counters, EA_COUNT_batches_refused, 1);
        if (s->o.on_refused)
            s->o.on_refused(s->o.arg, &s->items[i], &shown);
    }
    note_known(s, ack);
    if (ack->keyframe_wanted && s->o.on_keyframe_wanted)
        s->o.on_keyframe_wanted(s->o.arg, ack->stream);
    if (*ret_fatal)
        return EA_ECONFLICT;
    if (!*ret_progress)
        return ea_fail(err, EA_EREFUSED, "send to %s: the collector took none of %zu batches%s%s", url, s->item_count,
                       ack->refused_count ? ": " : "", ack->refused_count ? ack->refused[0].text : "");
    return 0;
}

/* A new name for this run, and the headers with it. */
static int name_run(ea_sender *s, ea_err *err) {
    uint8_t name[RUN_BYTES];
    char run[sizeof EA_UPLOAD_RUN_HEADER ": " + sizeof s->run];
    static const char *const FIXED[] = {"Content-Type: " EA_UPLOAD_TYPE, "Expect:"}; /* no 100-continue round trip */
    int rc = ea_random_bytes(name, sizeof name, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof name; i++)
        snprintf(s->run + 2 * i, 3, "%02x", name[i]);
    snprintf(run, sizeof run, "%s: %s", EA_UPLOAD_RUN_HEADER, s->run);
    struct curl_slist *list = curl_slist_append(NULL, run), *more = list;
    for (size_t i = 0; more && i < sizeof FIXED / sizeof *FIXED; i++)
        more = curl_slist_append(list, FIXED[i]);
    if (!more || curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, list) != CURLE_OK) {
        curl_slist_free_all(list);
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    }
    curl_slist_free_all(s->headers);
    s->headers = list;
    return 0;
}

/* The first batch alone was answered with 400: non-zero when that is enough to call it malformed. So it is for a
 * tombstone: sent for ever, it would keep all that follows it here. The collector's ledger then shows the numbers that
 * it names as missing. */
static int is_malformed(ea_sender *s) {
    const ea_spool_item *item = &s->items[0];
    if (item->number != s->bad_number || memcmp(item->stream, s->bad_stream, sizeof s->bad_stream) != 0)
        s->bad_count = 0;
    s->bad_number = item->number;
    memcpy(s->bad_stream, item->stream, sizeof s->bad_stream);
    return ++s->bad_count >= BAD_REQUESTS_MAX;
}

/* The first batch can never be sent. */
static void drop_first(ea_sender *s, const char *why) {
    ea_refusal refusal = {.number = s->items[0].number, .cause = EA_REFUSED_MALFORMED, .text = why};
    s->outcomes[0] = EA_SPOOL_REFUSED;
    if (s->o.counters)
        ea_count(s->o.counters, EA_COUNT_batches_refused, 1);
    if (s->o.on_refused)
        s->o.on_refused(s->o.arg, &s->items[0], &refusal);
}

/* Sends what was taken. Non-zero ends the sender. */
static int send_items(ea_sender *s, ea_err *err) {
    int mends = 1, objection = 0, progress = 0, fatal = 0, conflict = 0;
    int64_t retry_after_ns = 0;
    ea_ack ack = {0};
    memset(s->outcomes, EA_SPOOL_AGAIN, s->item_count);
    int rc = build_body(s, err);
    size_t sent = 0;
    for (size_t i = 0; i < s->item_count; i++)
        sent += s->outcomes[i] == EA_SPOOL_AGAIN;
    if (!rc && sent) {
        if (s->o.counters)
            ea_count(s->o.counters, EA_COUNT_batches_sent, sent);
        rc = sender_perform(s, &retry_after_ns, &mends, &objection, err);
        if (rc != EA_ENET && rc != EA_ETLS)
            atomic_fetch_add(&s->sent_bytes, s->body.len_bytes);
    }
    int answered = !rc && sent;
    if (answered)
        rc = sender_read_answer(s, &ack, &progress, &fatal, &conflict, err);
    int is_alone = s->item_count == 1 && s->outcomes[0] == EA_SPOOL_AGAIN;
    if (is_alone && (objection == 413 || (objection == 400 && is_malformed(s))))
        drop_first(s, err->message);
    ea_err settle_err;
    int settled = ea_spool_settle(s->spool, s->items, s->outcomes, s->item_count, &settle_err);
    if (settled) {
        *err = settle_err;
        return settled; /* the spool itself fails */
    }
    if (rc == EA_ECANCELED || fatal)
        return rc;
    if (conflict && !rc)
        rc = s->o.renew(s->o.arg, ack.stream, err);
    if (conflict && !rc) /* a machine that was copied while it ran had this name, too */
        rc = name_run(s, err);
    if (objection == 413 || (objection == 400 && !is_alone)) { /* half of it: less, or without the batch at fault */
        s->limit_bytes = s->body.len_bytes / 2 ? s->body.len_bytes / 2 : 1;
        if (objection == 413)
            s->cap_bytes = s->limit_bytes;
        return 0;
    }
    if (rc)
        return sender_failed(s, retry_after_ns, mends, err);
    if (answered) {
        worked(s);
        s->credit_bytes = ack.credit_bytes;
        s->limit_bytes = s->limit_bytes < s->cap_bytes / 2 ? s->limit_bytes * 2 : s->cap_bytes;
        if (ack.retry_after_ms)
            sender_hold(s, ack.retry_after_ms * (int64_t)1000000);
    }
    return 0;
}

/* The certificate that this connection is going to show is of the name whose batches are sent. */
static int sender_check_name(const ea_sender *s, SSL_CTX *context, ea_err *err) {
    ea_certificate c;
    uint8_t *der = NULL;
    X509 *leaf = SSL_CTX_get0_certificate(context);
    int n = leaf ? i2d_X509(leaf, &der) : 0;
    int rc = n > 0 ? ea_certificate_of_der(der, (size_t)n, &c, err)
                   : ea_fail(err, EA_ETLS, "the client certificate %s cannot be read", s->cert);
    OPENSSL_free(der);
    if (!rc && !ea_name_equal(c.name, s->name))
        rc = ea_fail(err, EA_ECONFLICT,
                     "the client certificate %s is of '%s' now, and the spool's batches are those of '%s'; start the "
                     "agent again, so that it keeps those of '%s' apart",
                     s->cert, c.name, s->name, c.name);
    return rc;
}

/* Of each new connection. */
static CURLcode sender_on_tls(CURL *curl, void *context, void *arg) {
    ea_sender *s = arg;
    (void)curl;
    int rc = ea_tls_store_apply(context, s->keys, s->cert, s->ca, &s->tls);
    if (!rc && s->name)
        rc = sender_check_name(s, context, &s->tls);
    return rc ? CURLE_SSL_CERTPROBLEM : CURLE_OK;
}

static int setup(ea_sender *s, ea_err *err) {
    int cert_is_place = ea_store_is_place(s->cert), ca_is_place = ea_store_is_place(s->ca);
    s->curl = curl_easy_init();
    int rc = s->curl ? name_run(s, err) : ea_fail(err, EA_ENOMEM, "prepare libcurl");
    if (!rc && cert_is_place)
        rc = ea_tls_keys_create(&s->keys, err);
    if (rc)
        return rc;
    CURL *c = s->curl;
    CURLcode bad = CURLE_OK;
#define SET(option, value)                                                                                             \
    if (bad == CURLE_OK)                                                                                               \
    bad = curl_easy_setopt(c, option, value)
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, s->curl_text);
    SET(CURLOPT_PROTOCOLS_STR, "https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, s->proxy); /* "": none; not whatever the environment of the process says */
    SET(CURLOPT_NOPROXY, "");
    SET(CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)s->o.bytes_a_second);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_CAINFO, ca_is_place ? NULL : s->ca);
    SET(CURLOPT_CAPATH, NULL);
    if (!cert_is_place) {
        SET(CURLOPT_SSLCERT, s->cert);
        SET(CURLOPT_SSLKEY, s->key);
        SET(CURLOPT_KEYPASSWD, ""); /* else OpenSSL asks on the terminal */
    }
    if (cert_is_place || ca_is_place || s->name) {
        SET(CURLOPT_SSL_CTX_FUNCTION, sender_on_tls);
        SET(CURLOPT_SSL_CTX_DATA, s);
    }
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(s->o.connect_timeout_ns / 1000000));
    SET(CURLOPT_TIMEOUT_MS, (long)(s->o.request_timeout_ns / 1000000));
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)((s->o.idle_timeout_ns + SECOND_NS - 1) / SECOND_NS));
    SET(CURLOPT_USERAGENT, "etwagent");
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_WRITEFUNCTION, sender_on_answer);
    SET(CURLOPT_WRITEDATA, s);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, sender_on_progress);
    SET(CURLOPT_XFERINFODATA, s);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
#undef SET
    if (bad == CURLE_OK && s->poll.ask) {
        s->poll_headers = curl_slist_append(NULL, "Content-Type: " EA_POLL_TYPE);
        if (!s->poll_headers)
            bad = CURLE_OUT_OF_MEMORY;
        s->poll_ns = ea_monotonic_ns();
    }
    return bad == CURLE_OK ? 0 : ea_fail(err, EA_EUNSUPPORTED, "prepare libcurl: %s", curl_easy_strerror(bad));
}

/* The limits of the pace that holds now. 0: nothing may be sent. */
static int keep_pace(ea_sender *s, size_t *limit) {
    enum ea_sender_pace pace = s->o.pace ? s->o.pace(s->o.pace_arg) : EA_PACE_NORMAL;
    uint64_t speed = s->o.bytes_a_second;
    if (pace == EA_PACE_HOLD)
        return 0;
    if (pace == EA_PACE_SLOW) {
        if (!speed || speed > EA_SENDER_SLOW_BYTES)
            speed = EA_SENDER_SLOW_BYTES;
        if (*limit > EA_SENDER_SLOW_BYTES * REQUEST_SECONDS)
            *limit = EA_SENDER_SLOW_BYTES * REQUEST_SECONDS;
    }
    if (s->o.pace)
        curl_easy_setopt(s->curl, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)speed);
    return 1;
}

/* While uploads fail, their pauses are the polls', too. */
static int sender_poll_is_due(const ea_sender *s) {
    return s->poll.ask && !s->failing_since_ns && ea_monotonic_ns() >= s->poll_ns &&
           !(s->o.pace && s->o.pace(s->o.pace_arg) == EA_PACE_HOLD);
}

static int64_t until_poll(const ea_sender *s) {
    int64_t left = s->poll.ask ? s->poll_ns - ea_monotonic_ns() : INT64_MAX;
    return left > 4 * SECOND_NS ? 4 * SECOND_NS : left > SECOND_NS / 100 ? left : SECOND_NS / 100;
}

static int sender_run(ea_sender *s, ea_err *err) {
    int rc = setup(s, err);
    while (!rc) {
        if (atomic_load(&s->stop))
            return ea_fail(err, EA_ECANCELED, "send");
        rc = ea_spool_error(s->spool, err);
        if (rc)
            break;
        if (sender_poll_is_due(s))
            sender_poll(s);
        if (!ea_spool_wait(s->spool, atomic_load(&s->drain) ? 0 : until_poll(s))) {
            if (atomic_load(&s->drain)) {
                if (s->poll.ask && !s->failing_since_ns) /* what became of requests */
                    sender_poll(s);
                return 0;
            }
            if (atomic_load(&s->stop))
                continue;
            /* a cancelled spool does not block: avoids a busy loop until stop or drain is requested */
            pause_for(s, SECOND_NS / 100, 0);
            continue;
        }
        size_t limit = s->limit_bytes;
        if (s->credit_bytes && s->credit_bytes < limit)
            limit = (size_t)s->credit_bytes;
        if (!keep_pace(s, &limit)) {
            pause_for(s, SECOND_NS / 4, 0);
            continue;
        }
        EA_ASSERT(s->limit_bytes);
        s->item_count = ea_spool_take(s->spool, limit, s->items, ITEMS_MAX);
        if (s->item_count)
            rc = send_items(s, err);
    }
    return rc;
}

static void sender_thread_main(void *arg) {
    ea_sender *s = arg;
    ea_err err = {0};
    ea_thread_is_bulk();
    err.code = sender_run(s, &err);
    ea_mutex_lock(s->lock);
    s->result = err;
    s->ended = 1;
    ea_cond_broadcast(s->changed);
    ea_mutex_unlock(s->lock);
}

/* ---- the outside ---- */

static char *sender_copy_text(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

/* BASE and a path, or NULL with err: only https, and nothing that a log should not show. */
static char *sender_url(const char *base, const char *path, ea_err *err) {
    char *scheme = NULL, *user = NULL, *query = NULL, *url = NULL;
    CURLU *u = curl_url();
    CURLUcode bad = u ? curl_url_set(u, CURLUPART_URL, base, 0) : CURLUE_OUT_OF_MEMORY;
    if (bad == CURLUE_OK)
        bad = curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
    if (bad != CURLUE_OK) {
        ea_fail(err, EA_EUSAGE, "collector '%s': %s; expected https://HOST[:PORT]", base, curl_url_strerror(bad));
    } else if (strcmp(scheme, "https") != 0) {
        ea_fail(err, EA_EUSAGE, "collector '%s': batches travel over TLS only; expected https://HOST[:PORT]", base);
    } else if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK ||
               curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_OK) {
        ea_fail(err, EA_EUSAGE, "collector '%s': expected https://HOST[:PORT] without user or query", base);
    } else {
        size_t n = strlen(base);
        while (n && base[n - 1] == '/')
            n--;
        size_t room = n + strlen(path) + 1;
        if ((url = malloc(room)))
            snprintf(url, room, "%.*s%s", (int)n, base, path);
        else
            ea_fail(err, EA_ENOMEM, "collector '%s'", base);
    }
    curl_free(scheme);
    curl_free(user);
    curl_free(query);
    curl_url_cleanup(u);
    return url;
}

static int check_file(const char *what, const char *path, ea_err *err) {
    ea_file *f;
    ea_err why;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, &why);
    if (rc)
        return ea_fail_os(err, rc, why.os_error, "open the %s %s", what, path);
    ea_file_close(f);
    return 0;
}

/* Files are there; places of certificate stores are looked at with each connection. */
static int check_tls(const ea_sender_options *o, ea_err *err) {
    const char *key;
    ea_err why;
    if (!o->cert || !o->key || !o->ca)
        return ea_fail(err, EA_EUSAGE, "no %s is given",
                       !o->cert  ? "client certificate"
                       : !o->key ? "client key"
                                 : "CA file");
    if (ea_tls_store_check(o->cert, o->key, o->ca, &key, &why))
        return ea_fail(err, EA_EUSAGE, "%s: %s", key, why.message);
    int rc = 0;
    if (!ea_store_is_place(o->cert)) {
        rc = check_file("client certificate", o->cert, err);
        if (!rc)
            rc = check_file("client key", o->key, err);
    }
    return rc || ea_store_is_place(o->ca) ? rc : check_file("CA file", o->ca, err);
}

int ea_sender_start(ea_sender **ret, ea_spool *spool, const ea_sender_options *options, ea_err *err) {
    if (!options->collector_count)
        return ea_fail(err, EA_EUSAGE, "no collector is given");
    if (options->request_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_EUSAGE, "requests of %zu bytes of batches: expected %d at most", options->request_bytes,
                       EA_BATCH_MAX_BYTES);
    int rc = check_tls(options, err);
    if (rc)
        return rc;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return ea_fail(err, EA_ENOMEM, "initialise libcurl");
    ea_sender *s = calloc(1, sizeof *s);
    if (!s) {
        curl_global_cleanup();
        return ea_fail(err, EA_ENOMEM, "start the sender");
    }
    s->spool = spool;
    s->o = *options;
    ea_sender_options *o = &s->o;
    if (!o->request_bytes)
        o->request_bytes = 4 << 20;
    if (!o->connect_timeout_ns)
        o->connect_timeout_ns = 10 * SECOND_NS;
    if (!o->request_timeout_ns)
        o->request_timeout_ns = 120 * SECOND_NS;
    if (!o->idle_timeout_ns)
        o->idle_timeout_ns = 30 * SECOND_NS;
    if (!o->pause_min_ns)
        o->pause_min_ns = SECOND_NS / 4;
    if (!o->pause_max_ns)
        o->pause_max_ns = 60 * SECOND_NS;
    s->limit_bytes = s->cap_bytes = o->request_bytes;
    if (o->bytes_a_second && s->cap_bytes > o->bytes_a_second * REQUEST_SECONDS) {
        size_t slow = (size_t)(o->bytes_a_second * REQUEST_SECONDS);
        s->limit_bytes = s->cap_bytes = slow > REQUEST_MIN ? slow : REQUEST_MIN;
    }
    atomic_store(&s->drain, o->drain);
    ea_text_init(&s->body);
    ea_text_init(&s->answer);
    ea_arena_init(&s->arena, 16 << 20);
    s->cert = sender_copy_text(o->cert);
    s->key = sender_copy_text(o->key);
    s->ca = sender_copy_text(o->ca);
    s->proxy = sender_copy_text(o->proxy ? o->proxy : "");
    s->name = o->name ? sender_copy_text(o->name) : NULL;
    s->urls = calloc(o->collector_count, sizeof *s->urls);
    s->poll_urls = calloc(o->collector_count, sizeof *s->poll_urls);
    if (o->poll)
        s->poll = *o->poll;
    o->poll = NULL;
    s->items = calloc(ITEMS_MAX, sizeof *s->items);
    s->outcomes = calloc(ITEMS_MAX, 1);
    s->missing = calloc(MISSING_MAX, sizeof *s->missing);
    if (!s->cert || !s->key || !s->ca || !s->proxy || (o->name && !s->name) || !s->urls || !s->poll_urls || !s->items ||
        !s->outcomes || !s->missing)
        rc = ea_fail(err, EA_ENOMEM, "start the sender");
    for (size_t i = 0; !rc && i < o->collector_count; i++)
        if (!(s->urls[i] = sender_url(o->collectors[i], EA_UPLOAD_PATH, err)) ||
            !(s->poll_urls[i] = sender_url(o->collectors[i], EA_POLL_PATH, err)))
            rc = err && err->code == EA_ENOMEM ? EA_ENOMEM : EA_EUSAGE;
    if (!rc && o->system_proxy)
        rc = ea_proxies_open(&s->proxies, o->system_proxy, (const char *const *)s->urls, o->collector_count, 0, err);
    if (!rc)
        rc = ea_random_bytes(&s->random, sizeof s->random, err);
    s->random |= 1;
    if (!rc)
        rc = ea_mutex_create(&s->lock, err);
    if (!rc)
        rc = ea_cond_create(&s->changed, err);
    if (!rc)
        rc = ea_thread_start(&s->thread, "sender", sender_thread_main, s, err);
    if (rc) {
        ea_sender_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ea_sender_drain(ea_sender *s) {
    atomic_store(&s->drain, 1);
    ea_spool_wake(s->spool);
}

void ea_sender_stop(ea_sender *s) {
    ea_mutex_lock(s->lock);
    atomic_store(&s->stop, 1);
    ea_cond_broadcast(s->changed);
    ea_mutex_unlock(s->lock);
    ea_spool_wake(s->spool);
}

void ea_sender_end_pause(ea_sender *s) {
    ea_mutex_lock(s->lock);
    atomic_store(&s->end_pause, 1);
    ea_cond_broadcast(s->changed);
    ea_mutex_unlock(s->lock);
}

int ea_sender_wait(ea_sender *s, int64_t timeout_ns) {
    int64_t until = ea_monotonic_ns() + timeout_ns;
    ea_mutex_lock(s->lock);
    while (!s->ended) {
        int64_t left = until - ea_monotonic_ns();
        if (left <= 0)
            break;
        ea_cond_wait_for(s->changed, s->lock, left);
    }
    int ended = s->ended;
    ea_mutex_unlock(s->lock);
    return ended;
}

int ea_sender_result(ea_sender *s, ea_err *err) {
    ea_mutex_lock(s->lock);
    ea_err result = s->ended ? s->result : (ea_err){.code = EA_EBUSY, .message = "the sender still runs"};
    ea_mutex_unlock(s->lock);
    if (result.code && err)
        *err = result;
    return result.code;
}

void ea_sender_get_status(ea_sender *s, ea_sender_status *ret) {
    *ret = (ea_sender_status){.requests = atomic_load(&s->requests),
                              .failures = atomic_load(&s->failures),
                              .sent_bytes = atomic_load(&s->sent_bytes),
                              .collector = atomic_load(&s->current)};
}

void ea_sender_destroy(ea_sender *s) {
    if (!s)
        return;
    if (s->thread) {
        ea_sender_stop(s);
        ea_thread_join(s->thread);
    }
    ea_proxies_close(s->proxies);
    for (size_t i = 0; s->urls && i < s->o.collector_count; i++)
        free(s->urls[i]);
    for (size_t i = 0; s->poll_urls && i < s->o.collector_count; i++)
        free(s->poll_urls[i]);
    free(s->urls);
    free(s->poll_urls);
    free(s->cert);
    free(s->name);
    free(s->key);
    free(s->ca);
    free(s->proxy);
    free(s->items);
    free(s->outcomes);
    free(s->missing);
    ea_text_deinit(&s->body);
    ea_text_deinit(&s->answer);
    ea_arena_deinit(&s->arena);
    curl_slist_free_all(s->headers);
    curl_slist_free_all(s->poll_headers);
    curl_easy_cleanup(s->curl);
    ea_tls_keys_destroy(s->keys);
    ea_cond_destroy(s->changed);
    ea_mutex_destroy(s->lock);
    free(s);
    curl_global_cleanup();
}
