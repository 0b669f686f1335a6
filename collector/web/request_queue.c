/* Signed requests. See request_queue.h. */
#include "collector/web/request_queue.h"

#include "collector/state/requests.h"
#include "collector/web/body.h"
#include "proto/base/pattern.h"
#include "proto/wire/request_key.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNED_TEXT_MAX = 4096 /* of a file of 2 KiB, in lines */ };

/* Decodes base64, in lines or not. ret: room for the text's length. */
static int request_read_base64(const char *text, uint8_t *ret, size_t *ret_bytes, ea_err *err) {
    EVP_ENCODE_CTX *context = EVP_ENCODE_CTX_new();
    int n = 0, last = 0, good = 0;
    if (!context)
        return ea_fail(err, EA_ENOMEM, "read a request");
    EVP_DecodeInit(context);
    good = EVP_DecodeUpdate(context, ret, &n, (const unsigned char *)text, (int)strlen(text)) >= 0 &&
           EVP_DecodeFinal(context, ret + n, &last) == 1 && n + last > 0;
    EVP_ENCODE_CTX_free(context);
    *ret_bytes = (size_t)n + (size_t)last;
    return good ? 0 : ea_fail(err, EA_EUSAGE, "\"signed\": base64 of a signed request is expected");
}

/* Reads a signed request, and checks who signed it and whether the token may ask these hosts. */
static int request_check(const ec_call *c, const uint8_t *data, size_t len_bytes, ea_request *ret, ea_err *err) {
    ea_signed_request s;
    ea_err why;
    if (ea_signed_request_decode(&s, data, len_bytes, &why) || ea_request_decode(ret, s.request, s.request_bytes, &why))
        return ea_fail(err, EA_EUSAGE, "malformed: %s", why.message);
    switch (ea_request_key_check(c->options->request_key, &s)) {
    case EA_REQUEST_SIGNED:
        break;
    case EA_REQUEST_FOREIGN:
        return ea_fail(err, EA_EREFUSED, "foreign key: another key than that of run --request-key signed it");
    case EA_REQUEST_CHANGED:
        return ea_fail(err, EA_EREFUSED, "changed: its signature is not that of its content");
    }
    if (ret->kind != EA_REQUEST_WINDOW)
        return ea_fail(err, EA_EUSAGE, "unknown kind: %" PRIu32, ret->kind);
    if (*c->token->hosts && !ea_patterns_within(ret->hosts, c->token->hosts))
        return ea_fail(err, EA_EREFUSED, "hosts: the request is for %s, this token for %s", ret->hosts,
                       c->token->hosts);
    return 0;
}

static int request_queue(ec_call *c, const char *text, ea_request *ret, ea_err *err) {
    uint8_t data[SIGNED_TEXT_MAX + 1];
    size_t len_bytes = 0;
    ec_requests *r = NULL;
    if (!text || strlen(text) > SIGNED_TEXT_MAX)
        return ea_fail(err, EA_EUSAGE, "\"signed\": at most %d bytes of base64 are expected", SIGNED_TEXT_MAX);
    int rc = request_read_base64(text, data, &len_bytes, err);
    if (!rc)
        rc = request_check(c, data, len_bytes, ret, err);
    if (!rc)
        rc = ec_requests_open(&r, c->options->store, err);
    if (!rc)
        rc = ec_requests_add(r, data, len_bytes, ea_utc_ns(), err);
    ec_requests_close(r);
    if (rc == EA_EINVAL) { /* its number or its expiry: the sender's mistake */
        err->code = EA_EUSAGE;
        rc = EA_EUSAGE;
    }
    return rc;
}

/* A copy for the audit log. */
static void request_note(ec_call *c, const ea_text *note) {
    c->note = note->failed ? NULL : strdup(note->data);
}

int ec_request_hand_in(ec_call *c, ea_err *err) {
    static const char *const NAMES[] = {"signed", NULL};
    ec_body body;
    ea_request q = {.serial = 0};
    ea_text note;
    if (!c->token || !c->options->request_key)
        return ea_fail(err, EA_EREFUSED,
                       "a signed request is handed in with a token of scope operate, to a collector with the public "
                       "key (run --web-tokens --request-key), or by the command request add");
    int rc = ec_body_read(&body, c->body, c->body_bytes, NAMES, err);
    if (!rc) {
        rc = request_queue(c, ec_body_get(&body, "signed"), &q, err);
        ec_body_deinit(&body);
    }
    ea_text_init(&note);
    if (rc) {
        ea_count(c->options->counters, EA_COUNT_web_unqueued, 1);
        ea_text_printf(&note, "request refused: %s", err->message);
        request_note(c, &note);
        ea_text_deinit(&note);
        return rc;
    }
    ea_text_printf(&note, "request %" PRIu64 " added: ", q.serial);
    ec_request_describe(&q, &note);
    request_note(c, &note);
    ea_text_deinit(&note);
    ea_text_printf(&c->out, "{\"request\":%" PRIu64 ",\"hosts\":", q.serial);
    ea_text_json_str(&c->out, q.hosts);
    ea_text_str(&c->out, ",\"state\":\"waiting\"}\n");
    return 0;
}
