/* A request to Splunk's HTTP Event Collector, and the question whether its rows are indexed, when the token has
 * acknowledgement. See sink_sender.h. */
#include "collector/curl/webhook.h"
#include "collector/sink/sink_sender.h"
#include "collector/sink/splunk.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SPLUNK_MS = 1000000, SPLUNK_ASK_MIN_NS = 100 * SPLUNK_MS, SPLUNK_ASK_MAX_NS = 3200 * SPLUNK_MS;

typedef struct splunk {
    const ec_sink_sender_options *o;
    ec_webhook *webhook;
    ec_sink_judge *judge;
    ea_text headers, ack_url, body;
    char channel[37]; /* in which Splunk numbers what it acknowledges: this sender's own */
} splunk;

static void splunk_destroy(void *sender) {
    splunk *p = sender;
    if (!p)
        return;
    ec_sink_judge_close(p->judge);
    ec_webhook_destroy(p->webhook);
    ea_text_deinit(&p->headers);
    ea_text_deinit(&p->ack_url);
    ea_text_deinit(&p->body);
    free(p);
}

/* A random GUID, of version 4. */
static int splunk_make_channel(splunk *p, ea_err *err) {
    ea_guid id;
    int rc = ea_random_bytes(id.bytes, sizeof id.bytes, err);
    if (rc)
        return rc;
    id.bytes[7] = (uint8_t)((id.bytes[7] & 0x0F) | 0x40);
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3F) | 0x80);
    ea_guid_format(&id, p->channel);
    return 0;
}

static int splunk_open(splunk *p, ea_err *err) {
    const ec_sink_sender_options *o = p->o;
    int rc = splunk_make_channel(p, err);
    if (!rc)
        rc = ec_splunk_ack_url(&p->ack_url, o->to, p->channel, err);
    if (rc)
        return rc;
    if (o->headers)
        ea_text_printf(&p->headers, "%s\n", o->headers);
    ea_text_printf(&p->headers, "X-Splunk-Request-Channel: %s\n", p->channel);
    if (p->headers.failed)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    rc = ec_webhook_create(&p->webhook,
                           &(ec_webhook_options){.url = o->to,
                                                 .ca = o->ca,
                                                 .headers = p->headers.data,
                                                 .type = o->kind->type,
                                                 .answer_ms = (uint32_t)(o->answer_ns / SPLUNK_MS),
                                                 .answer_max_bytes = o->kind->answer_max_bytes,
                                                 .has_cookies = 1,
                                                 .stop = o->stop},
                           err);
    return rc ? rc : ec_sink_judge_open(&p->judge, err);
}

static int splunk_create(void **ret, const ec_sink_sender_options *o, ea_err *err) {
    splunk *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    p->o = o;
    ea_text_init(&p->headers);
    ea_text_init(&p->ack_url);
    ea_text_init(&p->body);
    int rc = splunk_open(p, err);
    if (rc) {
        splunk_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

static const char *splunk_receiver(const void *sender, size_t *ret_len_bytes) {
    return ec_webhook_receiver(((const splunk *)sender)->webhook, ret_len_bytes);
}

/* Waits until the end, or until it is asked to stop: EA_ECANCELED. */
static int splunk_rest(const splunk *p, int64_t ns, ea_err *err) {
    for (int64_t end = ea_monotonic_ns() + ns, left = ns; left > 0; left = end - ea_monotonic_ns()) {
        if (p->o->stop && atomic_load(p->o->stop))
            return ea_fail(err, EA_ECANCELED, "wait for an acknowledgement");
        ea_sleep_ns(left < SPLUNK_ASK_MIN_NS ? left : SPLUNK_ASK_MIN_NS);
    }
    return 0;
}

/* Asks once: 1: the rows are indexed; 0: not yet, or no answer came. */
static int splunk_ask(splunk *p, int64_t ack_id, ea_err *err) {
    char question[64];
    ec_webhook_answer answer = {0};
    snprintf(question, sizeof question, "{\"acks\":[%" PRId64 "]}", ack_id);
    int rc = ec_webhook_send(p->webhook, question, strlen(question), &answer, err);
    if (rc == EA_ENET || rc == EA_ETIMEOUT)
        return 0; /* the rows are there: sent again they would be there twice */
    if (rc)
        return rc;
    if (answer.status == 200)
        return ec_sink_judge_splunk_ack(p->judge, answer.data, answer.len_bytes, ack_id, err);
    return answer.status >= 500 || answer.status == 429
               ? 0
               : ea_fail(err, EA_ENET, "the question for an acknowledgement was answered with status %ld",
                         answer.status);
}

/* Until the rows of a request are indexed: 0. */
static int splunk_wait_indexed(splunk *p, int64_t ack_id, ea_err *err) {
    int64_t end_ns = ea_monotonic_ns() + p->o->ack_ns, rest_ns = SPLUNK_ASK_MIN_NS;
    int rc = ec_webhook_turn(p->webhook, p->ack_url.data, err);
    if (rc)
        return rc;
    for (rc = splunk_ask(p, ack_id, err); !rc; rc = splunk_ask(p, ack_id, err)) {
        if (ea_monotonic_ns() >= end_ns) {
            rc = ea_fail(err, EA_ETIMEOUT, "rows came, and were not acknowledged as indexed within %" PRId64 " s",
                         p->o->ack_ns / (1000 * SPLUNK_MS));
            break;
        }
        rc = splunk_rest(p, rest_ns, err);
        if (rc)
            break;
        rest_ns = rest_ns < SPLUNK_ASK_MAX_NS ? rest_ns * 2 : SPLUNK_ASK_MAX_NS;
    }
    ea_err turned = {0};
    int back = ec_webhook_turn(p->webhook, p->o->to, rc < 0 ? &turned : err);
    return rc < 0 ? rc : back;
}

/* An answer that is no 2xx. Of a request that was refused for one event, that one is known. */
static int splunk_refused(splunk *p, const ec_webhook_answer *answer, ec_sink_item **items, size_t count,
                          ec_sink_answer *ret, ea_err *err) {
    ec_sink_splunk_answer says = {.code = -1, .refused = -1};
    ea_err unreadable = {0};
    int rc = ec_sink_judge_splunk(p->judge, answer->data, answer->len_bytes, &says, ret->reason, &unreadable);
    if (rc && rc != EA_EFORMAT) {
        *err = unreadable;
        return rc;
    }
    int is_refusal = ec_sink_is_refusal(answer->status) && (says.code < 0 || ec_splunk_is_refusal(says.code));
    if (is_refusal && says.refused >= 0 && (uint64_t)says.refused < count)
        items[says.refused]->verdict = EC_VERDICT_REFUSED;
    return ea_fail(err, is_refusal ? EA_EREFUSED : EA_ENET, "the receiver answered with status %ld%s%s", answer->status,
                   ret->reason->len_bytes ? ": " : "", ret->reason->len_bytes ? ret->reason->data : "");
}

static int splunk_send(void *sender, const char *rows, ec_sink_item **items, size_t count, ec_sink_answer *ret,
                       ea_err *err) {
    splunk *p = sender;
    ec_webhook_answer answer = {0};
    ec_sink_splunk_answer says;
    ea_text_clear(&p->body);
    p->o->kind->body(&p->body, rows, items, count, p->o->index);
    if (p->body.failed)
        return ea_fail(err, EA_ENOMEM, "make a request");
    int rc = ec_webhook_send(p->webhook, p->body.data, p->body.len_bytes, &answer, err);
    ret->retry_after_s = answer.retry_after_s;
    if (rc)
        return rc;
    if (answer.status < 200 || answer.status >= 300)
        return splunk_refused(p, &answer, items, count, ret, err);
    rc = ec_sink_judge_splunk(p->judge, answer.data, answer.len_bytes, &says, ret->reason, err);
    if (!rc && says.code != 0)
        rc = ea_fail(err, EA_EFORMAT, "expected code 0 in the answer, found %" PRId64, says.code);
    if (!rc && says.ack_id >= 0)
        rc = splunk_wait_indexed(p, says.ack_id, err);
    if (rc == EA_EFORMAT) /* it says nothing of the rows: as if it had not come */
        rc = err->code = EA_ENET;
    for (size_t i = 0; !rc && i < count; i++)
        items[i]->verdict = EC_VERDICT_ACCEPTED;
    return rc;
}

const ec_sink_sender EC_SINK_SPLUNK = {splunk_create, splunk_destroy, splunk_send, splunk_receiver};
