/* A request by HTTP POST. See sink_sender.h. */
#include "collector/curl/webhook.h"
#include "collector/sink/sink_sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t HTTP_MS_NS = 1000000;

typedef struct http {
    const ec_sink_sender_options *o;
    ec_webhook *webhook;
    ec_sink_judge *judge;
    ea_text url, body;
} http;

static void http_destroy(void *sender) {
    http *h = sender;
    if (!h)
        return;
    ec_sink_judge_close(h->judge);
    ec_webhook_destroy(h->webhook);
    ea_text_deinit(&h->url);
    ea_text_deinit(&h->body);
    free(h);
}

/* The URL with the kind's statement as the parameter query. */
static int http_make_url(http *h, ea_err *err) {
    ea_text query;
    ea_text_init(&query);
    ea_text_str(&h->url, h->o->to);
    if (h->o->kind->query) {
        h->o->kind->query(&query, h->o->table);
        ea_text_str(&h->url, strchr(h->o->to, '?') ? "&query=" : "?query=");
    }
    ea_text_percent(&h->url, query.data, query.len_bytes, "-_.");
    int is_bad = query.failed || h->url.failed;
    ea_text_deinit(&query);
    return is_bad ? ea_fail(err, EA_ENOMEM, "open a sink") : 0;
}

static int http_create(void **ret, const ec_sink_sender_options *o, ea_err *err) {
    http *h = calloc(1, sizeof *h);
    if (!h)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    h->o = o;
    ea_text_init(&h->url);
    ea_text_init(&h->body);
    int rc = http_make_url(h, err);
    if (!rc)
        rc = ec_webhook_create(&h->webhook,
                               &(ec_webhook_options){.url = h->url.data,
                                                     .ca = o->ca,
                                                     .headers = o->headers,
                                                     .type = o->kind->type,
                                                     .answer_ms = (uint32_t)(o->answer_ns / HTTP_MS_NS),
                                                     .answer_max_bytes = o->kind->answer_max_bytes,
                                                     .stop = o->stop},
                               err);
    if (!rc)
        rc = ec_sink_judge_open(&h->judge, err);
    if (rc) {
        http_destroy(h);
        return rc;
    }
    *ret = h;
    return 0;
}

static const char *http_receiver(const void *sender, size_t *ret_len_bytes) {
    return ec_webhook_receiver(((const http *)sender)->webhook, ret_len_bytes);
}

static int http_send(void *sender, const char *rows, ec_sink_item **items, size_t count, ec_sink_answer *ret,
                     ea_err *err) {
    http *h = sender;
    const ec_sink_kind *kind = h->o->kind;
    ec_webhook_answer answer = {0};
    ea_text_clear(&h->body);
    kind->body(&h->body, rows, items, count, h->o->index);
    if (h->body.failed)
        return ea_fail(err, EA_ENOMEM, "make a request");
    int rc = ec_webhook_send(h->webhook, h->body.data, h->body.len_bytes, &answer, err);
    ret->retry_after_s = answer.retry_after_s;
    if (rc)
        return rc;
    if (answer.status >= 200 && answer.status < 300) {
        rc = kind->judge(h->judge, answer.data, answer.len_bytes, items, count, ret->reason, err);
        if (rc == EA_EFORMAT) /* it says nothing of the rows: as if it had not come */
            rc = err->code = EA_ENET;
        return rc;
    }
    if (kind->why)
        kind->why(ret->reason, answer.data, answer.len_bytes);
    size_t len = ret->reason->len_bytes;
    return ea_fail(err, ec_sink_is_refusal(answer.status) ? EA_EREFUSED : EA_ENET,
                   "the receiver answered with status %ld%s%s", answer.status, len ? ": " : "",
                   len ? ret->reason->data : "");
}

const ec_sink_sender EC_SINK_HTTP = {http_create, http_destroy, http_send, http_receiver};
