/* The listener of enrolments. See enroll_server.h. */
#include "collector/enroll/enroll_server.h"

#include "collector/access/rate_limiter.h"
#include "collector/access/token_store.h"
#include "collector/ca/ca.h"
#include "collector/net/http.h"
#include "collector/net/listen.h"
#include "collector/net/tls.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TIMEOUT_S = 15, HEADERS_MAX = 4 << 10, RETRY_AFTER_S = 5, TOKEN_TEXT_MAX = 256 };

struct ec_enroll {
    ec_enroll_options options;
    struct event *look; /* at the signer, each second */
    char host[EC_HOST_BYTES];
    uint16_t port;
    ec_http http;
    ea_thread *loop;
    ec_rate_limiter
        *rates; /* the loop's, as the next two: of addresses, for requests without right token and certificate */
    ec_rate_limiter *callers;  /* of an address with a token's id or a certificate's name */
    ec_rate_limiter *failures; /* wrong tokens and certificates of an address */
};

/* What came of a request. */
typedef struct outcome {
    int status;
    const char *title;
    ec_ca_enrolled got;
    ea_err err;
    unsigned retry_after_s; /* with 429 and 503; 0: RETRY_AFTER_S */
    int is_right;           /* the token is, or the certificate that is to be renewed */
} outcome;

static void set_status(outcome *o, int status) {
    static const struct {
        int status;
        const char *title;
    } TITLES[] = {{200, "OK"},
                  {400, "Bad Request"},
                  {401, "Unauthorized"},
                  {403, "Forbidden"},
                  {404, "Not Found"},
                  {405, "Method Not Allowed"},
                  {409, "Conflict"},
                  {422, "Unprocessable Content"},
                  {429, "Too Many Requests"},
                  {503, "Service Unavailable"}};

    o->status = status;
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        if (TITLES[i].status == status)
            o->title = TITLES[i].title;
}

static int status_of(int rc) {
    switch (rc) {
    case 0:
        return 200;
    case EA_EINVAL:
        return 400;
    case EA_EREFUSED:
        return 403;
    case EA_EEXIST:
        return 409;
    case EA_ELIMIT:
        return 422;
    default:
        return 503;
    }
}

/* ---- answering ---- */

static void enroll_server_reply(struct evhttp_request *http, const outcome *o) {
    struct evkeyvalq *h = evhttp_request_get_output_headers(http);
    struct evbuffer *body = evbuffer_new();
    ea_text t;
    ea_text_init(&t);
    if (o->status == 200) {
        ea_text_add(&t, o->got.pem, o->got.pem_bytes);
    } else {
        ea_text_printf(&t, "{\"type\":\"about:blank\",\"status\":%d,\"title\":", o->status);
        ea_text_json_str(&t, o->title);
        ea_text_str(&t, ",\"detail\":");
        ea_text_json_str(&t, o->err.message);
        ea_text_str(&t, "}\n");
    }
    evhttp_add_header(h, "Content-Type",
                      o->status == 200 ? "application/pem-certificate-chain" : "application/problem+json");
    evhttp_add_header(h, "Cache-Control", "no-store");
    if (o->status == 429 || o->status == 503) {
        char seconds[12];
        snprintf(seconds, sizeof seconds, "%u", o->retry_after_s ? o->retry_after_s : RETRY_AFTER_S);
        evhttp_add_header(h, "Retry-After", seconds);
    }
    if (o->status == 429 && !o->is_right) /* a guess costs a connection */
        evhttp_add_header(h, "Connection", "close");
    if (body && !t.failed && t.len_bytes)
        (void)evbuffer_add(body, t.data, t.len_bytes);
    evhttp_send_reply(http, t.failed || !body ? 503 : o->status, o->title, body);
    if (body)
        evbuffer_free(body);
    ea_text_deinit(&t);
}

/* Logs a request. The secret part of a token is never logged; its id and the name are, for people. */
static void enroll_server_note(const ec_enroll *e, const char *address, const char *path, const outcome *o) {
    char text[640];
    if (o->status == 200)
        snprintf(text, sizeof text, "certificate %s for %s", o->got.serial, o->got.name);
    else
        snprintf(text, sizeof text, "%s%s%s", o->got.name, o->got.name[0] ? ": " : "", o->err.message);
    ec_audit_add(e->options.audit, &(ec_audited){.address = address,
                                                 .token = o->got.token[0] ? o->got.token : NULL,
                                                 .method = "POST",
                                                 .path = path,
                                                 .status = o->status,
                                                 .note = text});
    if (o->status == 503)
        ec_log_about(e->options.log, EC_LOG_AGENT, "enrolment: %s", o->err.message);
}

/* ---- the caller ---- */

/* The certificate that a client renews. */
typedef struct holder {
    char name[EC_AGENT_NAME_BYTES + 1];
    uint8_t *der; /* OpenSSL's */
    size_t len_bytes;
    char id[EC_SECRET_ID_BYTES]; /* a hash of its subject, for the rate */
    int is_brief;                /* it lives for less than a day */
} holder;

/* The client's, after a check. */
static int enroll_server_read_holder(const ec_enroll *e, struct evhttp_request *http, holder *ret, ea_err *err) {
    SSL *ssl = bufferevent_openssl_get_ssl(evhttp_connection_get_bufferevent(evhttp_request_get_connection(http)));
    int days = 0, seconds = 0;
    int rc = ssl ? ec_tls_identify(e->options.tls, ssl, ret->name, err) : ea_fail(err, EA_EREFUSED, "no TLS");
    if (rc)
        return rc;
    const X509 *cert = SSL_get0_peer_certificate(ssl);
    int n = i2d_X509(cert, &ret->der);
    if (n < 1 || n > EC_CA_CERT_MAX)
        return ea_fail(err, EA_EREFUSED, "the client certificate has more than %d bytes", EC_CA_CERT_MAX);
    ret->len_bytes = (size_t)n;
    snprintf(ret->id, sizeof ret->id, "%08lx",
             X509_NAME_hash_ex(X509_get_subject_name(cert), NULL, NULL, NULL) & 0xffffffff);
    ret->is_brief =
        ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(cert), X509_get0_notAfter(cert)) == 1 && days < 1;
    return 0;
}

typedef struct request {
    const char *address, *csr;
    size_t len_bytes; /* of csr */
} request;

/* NULL: none is given. */
static const char *enroll_server_token_of(struct evhttp_request *http) {
    const char *value = evhttp_find_header(evhttp_request_get_input_headers(http), "Authorization");
    return value && strncasecmp(value, "Bearer ", 7) == 0 && strlen(value) < TOKEN_TEXT_MAX ? value + 7 : NULL;
}

/* One request out of the rate of an address with an id. NULL: there were too many, and *o says that. */
static ec_rate *take_caller(const ec_enroll *e, const char *address, const char *id, const char *what, outcome *o) {
    ec_rate *b = ec_rate_limiter_of(e->callers, address, id);
    if (ec_rate_take(b, ea_monotonic_ns()))
        return b;
    (void)ea_fail(&o->err, EA_ELIMIT, "too many requests with this %s", what);
    set_status(o, 429);
    return NULL;
}

/* Only the signer knows whether a token is right. A wrong token is not charged to the rate of the callers that have the
 * right token with the same id. */
static void enroll_server_enroll(ec_enroll *e, struct evhttp_request *http, const request *r, outcome *o) {
    const char *token = enroll_server_token_of(http);
    char id[EC_SECRET_ID_BYTES] = "";
    if (!token) {
        (void)ea_fail(&o->err, EA_EREFUSED, "a token is needed: Authorization: Bearer TOKEN");
        set_status(o, 401);
        return;
    }
    if (strlen(token) > EC_SECRET_PREFIX_BYTES)
        snprintf(id, sizeof id, "%s", token + EC_SECRET_PREFIX_BYTES);
    ec_rate *rate = take_caller(e, r->address, id, "token", o);
    if (!rate)
        return;
    int rc = ec_signer_enroll(e->options.signer, token, r->csr, r->len_bytes, &o->got, &o->err);
    o->is_right = o->got.token[0] != 0;
    if (!o->is_right)
        ec_rate_put_back(rate);
    set_status(o, status_of(rc));
    if (!rc)
        ea_count(e->options.counters, EA_COUNT_enroll_granted, 1);
}

/* A certificate that lives for less than a day has to be renewed more often than the quota allows, and can be at most
 * twice in its life. */
static int take_renewal(const ec_enroll *e, const holder *h, outcome *o) {
    const ec_quota_amounts needed = {.of = {[EC_QUOTA_renewals] = 1}};
    ec_quota_refusal refusal;
    if (h->is_brief || ec_quota_take(e->options.quota, EC_QUOTA_AGENT, h->name, &needed, ea_monotonic_ns(), &refusal))
        return 1;
    (void)ea_fail(&o->err, EA_ELIMIT, "%s", refusal.text);
    o->retry_after_s = refusal.retry_after_s;
    set_status(o, 429);
    return 0;
}

static void note_renewed_twice(const ec_enroll *e, const outcome *o) {
    ea_count(e->options.counters, EA_COUNT_enroll_renewed_twice, 1);
    if (e->options.on_renewed_twice)
        e->options.on_renewed_twice(e->options.arg, o->got.name, o->err.message);
}

static void enroll_server_renew(ec_enroll *e, struct evhttp_request *http, const request *r, outcome *o) {
    holder h = {.der = NULL};
    o->is_right = enroll_server_read_holder(e, http, &h, &o->err) == 0;
    if (!o->is_right) {
        set_status(o, 401);
    } else if (take_caller(e, r->address, h.id, "certificate", o) && take_renewal(e, &h, o)) {
        int rc = ec_signer_renew(e->options.signer, h.der, h.len_bytes, r->csr, r->len_bytes, &o->got, &o->err);
        set_status(o, status_of(rc));
        if (!rc)
            ea_count(e->options.counters, EA_COUNT_enroll_renewed, 1);
        if (o->got.renewed_twice)
            note_renewed_twice(e, o);
        /* A request that yields no new certificate is refunded. Otherwise a holder of a copy of an older certificate
         * could use up the owner's renewals of the name with repeated requests. */
        if (!h.is_brief && (rc || o->got.is_known))
            ec_quota_refund(e->options.quota, EC_QUOTA_renewals, h.name, 1, ea_monotonic_ns());
    }
    OPENSSL_free(h.der);
}

static void route(ec_enroll *e, struct evhttp_request *http, const char *path, const request *r, outcome *o) {
    static const struct {
        const char *path;
        void (*run)(ec_enroll *e, struct evhttp_request *http, const request *r, outcome *o);
    } ROUTES[] = {{"/v1/enroll", enroll_server_enroll}, {"/v1/renew", enroll_server_renew}};

    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
        if (strcmp(path, ROUTES[i].path) != 0)
            continue;
        if (evhttp_request_get_command(http) == EVHTTP_REQ_POST) {
            ROUTES[i].run(e, http, r, o);
        } else {
            (void)ea_fail(&o->err, EA_EINVAL, "expected the method POST");
            set_status(o, 405);
        }
        return;
    }
    (void)ea_fail(&o->err, EA_ENOTFOUND, "unknown path: expected /v1/enroll or /v1/renew");
    set_status(o, 404);
}

/* A request with a right token or certificate counts for its own rate alone: what others of its address do does not
 * refuse it. */
static void enroll_server_answer(ec_enroll *e, struct evhttp_request *http, const char *address, const char *path,
                                 outcome *o) {
    int64_t now_ns = ea_monotonic_ns();
    struct evbuffer *input = evhttp_request_get_input_buffer(http);
    const unsigned char *csr = evbuffer_pullup(input, -1);
    ec_rate *rate = NULL;
    route(e, http, path,
          &(request){.address = address,
                     .csr = csr ? (const char *)csr : "",
                     .len_bytes = csr ? evbuffer_get_length(input) : 0},
          o);
    if (o->is_right)
        return;
    if (ec_rate_limiter_take(e->rates, address, now_ns, &rate, &o->err)) {
        set_status(o, 429);
    } else if (o->status == 401 || o->status == 403) {
        rate = ec_rate_limiter_of(e->failures, address, "");
        if (ec_rate_is_closed(rate, now_ns)) {
            (void)ea_fail(&o->err, EA_ELIMIT, "too many wrong tokens from this address: wait a minute");
            set_status(o, 429);
        } else {
            ec_rate_failed(rate, now_ns);
        }
    }
}

static void enroll_server_on_request(struct evhttp_request *http, void *arg) {
    ec_enroll *e = arg;
    outcome o = {.title = "Service Unavailable"};
    char address[EC_HOST_BYTES];
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(http));
    path = path ? path : "";
    ec_listen_peer(http, address);
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    ec_guest *guest = ec_guard_find(e->http.guard, connection ? evhttp_connection_get_bufferevent(connection) : NULL);
    ec_guest_requested(guest);
    enroll_server_answer(e, http, address, path, &o);
    if (o.status != 200)
        ea_count(e->options.counters, EA_COUNT_enroll_refused, 1);
    enroll_server_note(e, address, path, &o);
    ec_guest_answered(guest);
    enroll_server_reply(http, &o);
    free(o.got.pem);
}

/* ---- start and stop ---- */

static void enroll_server_on_wake(void *arg) {
    const ec_enroll *e = arg;
    event_base_loopbreak(e->http.events);
}

static void on_look(evutil_socket_t none, short what, void *arg) {
    const ec_enroll *e = arg;
    (void)none, (void)what;
    ec_signer_look(e->options.signer);
}

static int look_each_second(ec_enroll *e, ea_err *err) {
    static const struct timeval SECOND = {.tv_sec = 1};
    e->look = event_new(e->http.events, -1, EV_PERSIST, on_look, e);
    return e->look && event_add(e->look, &SECOND) == 0 ? 0 : ea_fail(err, EA_ENOMEM, "serve enrolments");
}

static int enroll_server_start_http(ec_enroll *e, ea_err *err) {
    return ec_http_open(&e->http,
                        &(ec_http_options){.what = "enrolments",
                                           .listen = e->options.listen,
                                           .host = e->host,
                                           .port = e->port,
                                           .tls = e->options.tls,
                                           .counters = e->options.counters,
                                           .log = e->options.log,
                                           .limits = e->options.limits,
                                           .timeout_s = TIMEOUT_S,
                                           .headers_max_bytes = HEADERS_MAX,
                                           .body_max_bytes = EC_CA_CSR_MAX,
                                           .on_request = enroll_server_on_request,
                                           .on_wake = enroll_server_on_wake,
                                           .arg = e},
                        err);
}

int ec_enroll_start(ec_enroll **ret, const ec_enroll_options *options, ea_err *err) {
    ec_enroll *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "serve enrolments");
    e->options = *options;
    int rc = ec_listen_split("--enroll", options->listen, e->host, &e->port, err);
    if (!rc)
        rc = ec_rate_limiter_create(&e->rates, err);
    if (!rc)
        rc = ec_rate_limiter_create(&e->callers, err);
    if (!rc)
        rc = ec_rate_limiter_create(&e->failures, err);
    if (!rc)
        rc = enroll_server_start_http(e, err);
    if (!rc)
        rc = look_each_second(e, err);
    if (!rc)
        rc = ea_thread_start(&e->loop, "enroll", ec_http_loop, &e->http, err);
    if (rc) {
        ec_enroll_stop(e);
        return rc;
    }
    e->options.listen = NULL; /* the caller's */
    *ret = e;
    return 0;
}

uint16_t ec_enroll_port(const ec_enroll *e) {
    return e->http.port;
}

void ec_enroll_stop(ec_enroll *e) {
    if (!e)
        return;
    if (e->loop) {
        ec_wake_now(&e->http.wake);
        ea_thread_join(e->loop);
    }
    if (e->look)
        event_free(e->look);
    ec_http_close(&e->http);
    ec_rate_limiter_destroy(e->rates);
    ec_rate_limiter_destroy(e->callers);
    ec_rate_limiter_destroy(e->failures);
    free(e);
}
