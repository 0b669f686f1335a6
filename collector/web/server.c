/* HTTP: one thread with libevent's loop that owns all connections, and a few threads that answer. See web.h.
 *
 * Nothing of libevent crosses threads. The loop makes a call out of a request and puts it in its pool's queue; a thread
 * of the pool answers it and leaves pieces in a list, and an eventfd wakes the loop to send them. A call is the
 * answering thread's until it leaves the last piece; then the loop frees it. When a connection ends first, the call is
 * marked canceled, and what is sent of it goes nowhere.
 *
 * What a browser is kept from: pages of other sites (the Host header must be an address or a name of ours, against DNS
 * rebinding; no CORS; a POST must be JSON of our own origin), and scripts in what is shown (Content-Security-Policy).
 */
#include "collector/web/server.h"

#include "collector/web/server_parts.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    TIMEOUT_S = 30, /* of a connection that says nothing */
    HEADERS_MAX = 16 << 10,
    BODY_MAX = 2 << 20,
    PARAMS_MAX = 64,
    QUESTION_THREADS = 4,
    QUEUE_MAX = 256,       /* calls that wait in a ec_web_pool */
    QUEUE_OF_ONE = 64,     /* of them of one ec_caller */
    LISTEN_OF_ONE = 4,     /* threads of the pool of those who listen that one caller has at a time */
    WHOLE_MAX = 256 << 10, /* bytes of an answer that the loop keeps until they are taken, without its thread */
    DEFAULT_LIMIT_S = 30,
    DEFAULT_OF_ONE = 2, /* questions of one caller that are answered at a time */
    DEFAULT_UNREAD_S = 10,
    DEFAULT_MEMORY_MIB = 512,
    RETRY_AFTER_S = 1,
};

/* Puts a problem document in place of the answer. */
static void put_problem(ec_call *c, int status, const char *title, const char *detail) {
    ea_text_clear(&c->out);
    c->status = status;
    c->type = "application/problem+json";
    c->etag = NULL;
    c->encoding = NULL;
    c->disposition[0] = 0;
    ea_text_printf(&c->out, "{\"type\":\"about:blank\",\"status\":%d,\"title\":", status);
    ea_text_json_str(&c->out, title);
    ea_text_str(&c->out, ",\"detail\":");
    ea_text_json_str(&c->out, detail);
    ea_text_str(&c->out, "}\n");
}

/* ---- answering ---- */

static void fail_call(ec_call *c, int rc, const ea_err *err) {
    switch (rc) {
    case EA_EUSAGE:
        put_problem(c, 400, "Bad Request", err->message);
        break;
    case EA_ENOTFOUND:
        put_problem(c, 404, "Not Found", err->message);
        break;
    case EA_EREFUSED:
        put_problem(c, 403, "Forbidden", err->message);
        break;
    case EA_ELIMIT:
        put_problem(c, 422, "Unprocessable Content", err->message);
        break;
    case EA_ETIMEOUT:
    case EA_ECANCELED:
        put_problem(c, 503, "Service Unavailable", err->message);
        break;
    default:
        ec_log_about(c->options->log, EC_LOG_READER, "web: %s: %s", c->path, err->message);
        put_problem(c, 500, "Internal Server Error", err->message);
    }
}

static void server_answer(ec_sender *s) {
    ec_call *c = &s->call;
    ea_err err = {0};
    int rc = c->canceled ? ea_fail(&err, EA_ECANCELED, "answer") : 0;
    if (!rc && c->route->params)
        rc = ec_call_check_params(c, c->route->params, &err);
    if (!rc)
        rc = c->route->answer(c, &err);
    if (!rc && c->out.failed)
        rc = ea_fail(&err, EA_ENOMEM, "answer");
    if (!rc && c->out.len_bytes > WHOLE_MAX) /* until it is taken it counts as one of its caller's answers */
        rc = ec_call_flush_to(c, WHOLE_MAX, &err);
    int is_whole = !s->was_flushed;
    if (rc && is_whole)
        fail_call(c, rc, &err);
    else if (rc)
        ea_text_clear(&c->out); /* an answer that has begun can only break off */
    while (ec_call_leave(s, 1, is_whole, rc && !is_whole))
        ea_sleep_ns(INT64_C(10000000)); /* no memory for a piece: wait until other calls free some */
}

/* ---- pools: callers take turns. All under the mutex ---- */

/* The caller of that key, made when there is none; NULL without memory. */
static ec_caller *caller_of(ec_web_pool *l, const char *key) EA_REQUIRES(l->web->mutex) {
    ea_mutex_assert_held(l->web->mutex);
    ec_caller *at = l->ring;
    if (at) {
        do {
            if (strcmp(at->key, key) == 0)
                return at;
            at = at->next;
        } while (at != l->ring);
    }
    ec_caller *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    snprintf(made->key, sizeof made->key, "%s", key);
    made->last = &made->first;
    made->next = l->ring ? l->ring->next : made;
    if (l->ring)
        l->ring->next = made;
    l->ring = made; /* the turn of those before it comes first */
    return made;
}

/* Frees a caller without calls. */
static void drop_idle(ec_web_pool *l, ec_caller *gone) EA_REQUIRES(l->web->mutex) {
    ea_mutex_assert_held(l->web->mutex);
    if (gone->running || gone->waiting)
        return;
    ec_caller *before = gone;
    while (before->next != gone)
        before = before->next;
    before->next = gone->next;
    if (l->ring == gone)
        l->ring = before == gone ? NULL : before;
    free(gone);
}

/* The next call: of the caller that has the fewest answered now, in turns among equal ones. NULL: none may begin. */
static ec_sender *server_take(ec_web_pool *l) EA_REQUIRES(l->web->mutex) {
    ea_mutex_assert_held(l->web->mutex);
    ec_caller *at = l->ring, *next = NULL;
    if (at) {
        do {
            at = at->next;
            if (at->waiting && at->running < l->of_one && (!next || at->running < next->running))
                next = at;
        } while (at != l->ring);
    }
    if (!next)
        return NULL;
    ec_sender *s = next->first;
    next->first = s->next;
    if (!next->first)
        next->last = &next->first;
    next->waiting--;
    next->running++;
    l->waiting--;
    l->ring = next;
    return s;
}

static void answer_lane(void *arg) {
    ec_web_pool *l = arg;
    ec_web *w = l->web;
    for (;;) {
        ea_mutex_lock(l->web->mutex);
        ec_sender *s;
        while (!(s = server_take(l)) && !w->quit)
            ea_cond_wait(w->changed, l->web->mutex);
        ea_mutex_unlock(l->web->mutex);
        if (!s)
            return;
        ec_caller *of = s->caller;
        size_t body_bytes = s->call.body_bytes;
        server_answer(s); /* the loop frees it */
        ea_mutex_lock(l->web->mutex);
        of->running--;
        of->body_bytes -= body_bytes;
        drop_idle(l, of);
        ea_cond_broadcast(w->changed); /* another call of this caller may begin */
        ea_mutex_unlock(l->web->mutex);
    }
}

/* ---- the loop: answers ---- */

static const char *reason_of(int status) {
    switch (status) {
    case 200:
        return "OK";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 415:
        return "Unsupported Media Type";
    case 421:
        return "Misdirected Request";
    case 422:
        return "Unprocessable Content";
    case 429:
        return "Too Many Requests";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}

static void add_headers(const ec_web *w, struct evhttp_request *http, const ec_call *c) {
    struct evkeyvalq *h = evhttp_request_get_output_headers(http);
    evhttp_add_header(h, "Content-Type", c->type ? c->type : "application/json");
    evhttp_add_header(h, "Content-Security-Policy",
                      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (w->options.tls)
        evhttp_add_header(h, "Strict-Transport-Security", "max-age=31536000");
    evhttp_add_header(h, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(h, "X-Frame-Options", "DENY");
    evhttp_add_header(h, "Referrer-Policy", "no-referrer");
    evhttp_add_header(h, "Cross-Origin-Resource-Policy", "same-origin");
    evhttp_add_header(h, "Cross-Origin-Opener-Policy", "same-origin");
    evhttp_add_header(h, "Cache-Control", c->etag ? "no-cache" : "no-store");
    if (c->etag)
        evhttp_add_header(h, "ETag", c->etag);
    if (c->encoding) {
        evhttp_add_header(h, "Content-Encoding", c->encoding);
        evhttp_add_header(h, "Vary", "Accept-Encoding");
    }
    if (c->disposition[0])
        evhttp_add_header(h, "Content-Disposition", c->disposition);
    if (c->status == 401 && !w->options.visit) /* a browser asks for the token as a password then, whatever the name */
        evhttp_add_header(h, "WWW-Authenticate",
                          "Basic realm=\"etwcollector: a token as password\", charset=\"UTF-8\"");
    if (c->status == 429 && !c->token) /* a guess costs a connection */
        evhttp_add_header(h, "Connection", "close");
    if (c->status == 503 || c->status == 429) {
        char seconds[12];
        snprintf(seconds, sizeof seconds, "%u", c->retry_after_s ? c->retry_after_s : RETRY_AFTER_S);
        evhttp_add_header(h, "Retry-After", seconds);
    }
}

static void free_sender(ec_sender *s) {
    if (s->all_link) {
        *s->all_link = s->all_next;
        if (s->all_next)
            s->all_next->all_link = s->all_link;
    }
    for (size_t i = 0; i < s->call.param_count; i++) {
        free(s->call.params[i].name);
        free(s->call.params[i].value);
    }
    for (size_t i = 0; i < EC_PARTS_MAX; i++)
        free(s->call.parts[i]);
    free(s->call.params);
    free(s->call.path);
    free(s->call.statement);
    free(s->call.note);
    free(s->query);
    free(s->call.if_none_match);
    free(s->input);
    ea_text_deinit(&s->call.out);
    free(s);
}

/* Bytes left a connection's output buffer. */
static void on_sent(struct evbuffer *output, const struct evbuffer_cb_info *info, void *arg) {
    ec_sender *s = arg;
    if (!info->n_deleted)
        return;
    ea_mutex_lock(s->web->mutex);
    s->output_bytes = evbuffer_get_length(output);
    s->taken_bytes += info->n_deleted;
    ea_cond_broadcast(s->web->changed);
    ea_mutex_unlock(s->web->mutex);
}

/* The connection may be used for the next request. */
static void release_connection(ec_sender *s) {
    if (!s->connection)
        return;
    struct bufferevent *bev = evhttp_connection_get_bufferevent(s->connection);
    if (s->has_begun)
        (void)evbuffer_remove_cb(bufferevent_get_output(bev), on_sent, s);
    evhttp_connection_set_closecb(s->connection, NULL, NULL);
    evhttp_connection_set_timeout(s->connection, TIMEOUT_S);
    ec_guest_answered(ec_guard_find(s->web->http.guard, bev));
    s->connection = NULL;
}

static void reply_whole(const ec_web *w, struct evhttp_request *http, const ec_call *c, const ea_text *text) {
    int status = c->status ? c->status : 200;
    struct evbuffer *body = evbuffer_new();
    add_headers(w, http, c);
    if (body && text->len_bytes)
        (void)evbuffer_add(body, text->data, text->len_bytes);
    evhttp_send_reply(http, status, reason_of(status), body); /* frees http, also when its connection is gone */
    if (body)
        evbuffer_free(body);
}

/* ---- the caller ---- */

/* A request that was refused before it had a call. path: as it was sent. */
static void audit_refused(const ec_web *w, const char *address, const ec_token *token, enum ec_method method,
                          const char *path, int status, const char *note) {
    if (w->options.audit)
        ec_audit_add(w->options.audit, &(ec_audited){.address = address,
                                                     .token = token ? token->name : NULL,
                                                     .method = method == EC_POST ? "POST" : "GET",
                                                     .path = path,
                                                     .status = status,
                                                     .note = note});
}

/* Adds a call to the audit log, once, when its answer begins, also when the client is gone. */
static void audit_call(ec_sender *s) {
    const ec_call *c = &s->call;
    if (s->web->options.audit && !s->is_audited)
        ec_audit_add(s->web->options.audit, &(ec_audited){.address = s->address,
                                                          .token = c->token ? c->token->name : NULL,
                                                          .method = c->route->method == EC_POST ? "POST" : "GET",
                                                          .path = c->path,
                                                          .query = s->query,
                                                          .statement = c->statement,
                                                          .status = c->status ? c->status : 200,
                                                          .note = c->note});
    s->is_audited = 1;
}

/* 0; 403 when the token is not good for this. A POST that is no question changes something. */
static int is_forbidden(const ec_call *c) {
    int changes = c->route->method == EC_POST && strcmp(c->route->path, "/api/v1/sql") != 0;
    enum ec_scope needed = strcmp(c->route->path, "/metrics") == 0                      ? EC_SCOPE_METRICS
                           : strcmp(c->route->path, "/api/v1/tokens") == 0              ? EC_SCOPE_ADMIN
                           : changes && strcmp(c->route->path, "/api/v1/requests") == 0 ? EC_SCOPE_OPERATE
                           : changes                                                    ? EC_SCOPE_RESPOND
                                                                                        : EC_SCOPE_READ;
    /* metrics name all hosts */
    return c->token && (c->token->scope < needed || (needed == EC_SCOPE_METRICS && *c->token->hosts)) ? 403 : 0;
}

static void send_piece(ec_piece *p) {
    ec_sender *s = p->from;
    ec_web *w = s->web;
    size_t n = p->text.len_bytes;
    audit_call(s);
    if (n && s->connection) /* only the loop clears it */
        ec_quota_charge(w->options.quota, EC_QUOTA_downloads, s->call.caller, n, ea_monotonic_ns());
    if (p->is_whole) {
        release_connection(s);
        reply_whole(w, s->http, &s->call, &p->text);
        free_sender(s);
        return;
    }
    if (!s->has_begun && s->connection) {
        int status = s->call.status ? s->call.status : 200;
        add_headers(w, s->http, &s->call);
        evhttp_send_reply_start(s->http, status, reason_of(status));
        (void)evbuffer_add_cb(bufferevent_get_output(evhttp_connection_get_bufferevent(s->connection)), on_sent, s);
        s->has_begun = 1;
    }
    struct evbuffer *body = n && s->connection ? evbuffer_new() : NULL;
    if (body) {
        if (evbuffer_add(body, p->text.data, n) == 0)
            evhttp_send_reply_chunk(s->http, body);
        evbuffer_free(body);
    }
    if (p->is_last && p->is_broken && s->connection) {
        /* without the chunk that ends an answer, so that the client sees that it is incomplete; on_close does the rest
         */
        struct bufferevent *bev = evhttp_connection_get_bufferevent(s->connection);
        s->is_broken = 1;
        bufferevent_enable(bev, EV_READ);
        (void)shutdown(bufferevent_getfd(bev), SHUT_RDWR);
        return;
    }
    if (p->is_last) {
        release_connection(s);
        evhttp_send_reply_end(s->http);
        free_sender(s);
        return;
    }
    ea_mutex_lock(w->mutex);
    s->queued_bytes -= n;
    s->output_bytes =
        s->connection ? evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(s->connection)))
                      : 0;
    ea_cond_broadcast(w->changed);
    ea_mutex_unlock(w->mutex);
}

static void server_on_wake(void *arg) {
    ec_web *w = arg;
    ea_mutex_lock(w->mutex);
    ec_piece *list = w->pieces;
    int quit = w->quit;
    w->pieces = NULL;
    w->pieces_last = &w->pieces;
    ea_mutex_unlock(w->mutex);
    while (list) {
        ec_piece *p = list;
        list = p->next;
        send_piece(p);
        ea_text_deinit(&p->text);
        free(p);
    }
    if (quit) {
        for (ec_sender *s = w->calls; s; s = s->all_next)
            atomic_store(&s->call.canceled, 1);
        ea_mutex_lock(w->mutex);
        ea_cond_broadcast(w->changed);
        ea_mutex_unlock(w->mutex);
        if (!w->calls)
            event_base_loopbreak(w->http.events);
    }
}

/* ---- the loop: requests ---- */

static ec_guest *guest_of(const ec_web *w, struct evhttp_request *http) {
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    return ec_guard_find(w->http.guard, connection ? evhttp_connection_get_bufferevent(connection) : NULL);
}

static void server_refuse(const ec_web *w, struct evhttp_request *http, const ec_token *token, int status,
                          unsigned retry_after_s, const char *detail) {
    ec_call c = {.status = status, .token = token, .retry_after_s = retry_after_s};
    ec_guest_answered(guest_of(w, http));
    ea_text_init(&c.out);
    put_problem(&c, status, reason_of(status), detail);
    reply_whole(w, http, &c, &c.out);
    ea_text_deinit(&c.out);
}

/* 1 for localhost or an address in digits, with or without a port: "localhost:8453", "127.0.0.1", "[::1]:8453". Any
 * other name may be one that a foreign site has pointed to this machine (DNS rebinding). */
static int server_is_our_name(const char *host) {
    char name[EC_HOST_BYTES];
    struct in_addr v4;
    struct in6_addr v6;
    const char *begin = host ? host : "";
    int is_v6 = *begin == '[';
    begin += is_v6;
    size_t n = strcspn(begin, is_v6 ? "]" : ":");
    const char *rest = begin + n;
    if (!n || n >= sizeof name || (is_v6 && *rest++ != ']'))
        return 0;
    if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return 0;
    memcpy(name, begin, n);
    name[n] = 0;
    return is_v6 ? inet_pton(AF_INET6, name, &v6) == 1
                 : strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &v4) == 1;
}

/* The name of a header that a proxy adds to a request that it passes on; NULL: there is none. */
static const char *proxy_header(struct evhttp_request *http) {
    static const char *const NAMES[] = {"Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                        "X-Forwarded-Proto", "X-Real-IP",       "Via"};
    struct evkeyvalq *h = evhttp_request_get_input_headers(http);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (evhttp_find_header(h, NAMES[i]))
            return NAMES[i];
    return NULL;
}

/* NULL, or why the request could come from a page of another site. */
static const char *foreign(struct evhttp_request *http, enum ec_method method, const char *host) {
    struct evkeyvalq *h = evhttp_request_get_input_headers(http);
    const char *origin = evhttp_find_header(h, "Origin"), *site = evhttp_find_header(h, "Sec-Fetch-Site"),
               *mode = evhttp_find_header(h, "Sec-Fetch-Mode");
    if (origin) {
        const char *at = strstr(origin, "://");
        if (!at || strcasecmp(at + 3, host) != 0)
            return "the request comes from another site";
    }
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
        !(method == EC_GET && mode && strcmp(mode, "navigate") == 0))
        return "the request comes from another site";
    return NULL;
}

static char *decoded(const char *s, size_t n) {
    size_t len = 0;
    char *copy = strndup(s, n), *out = copy ? evhttp_uridecode(copy, 0, &len) : NULL;
    free(copy);
    if (out && strlen(out) != len) { /* a NUL inside */
        free(out);
        out = NULL;
    }
    return out;
}

/* 1 when a path is the route's; its parts are then in the call. */
static int matches(const ec_route *r, const char *path, ec_call *c) {
    const char *a = r->path, *b = path;
    size_t n = 0;
    while (*a && *b) {
        if (*a != '{') {
            if (*a++ != *b++)
                return 0;
            continue;
        }
        size_t length = strcspn(b, "/");
        if (!length || n == EC_PARTS_MAX)
            return 0;
        free(c->parts[n]);
        c->parts[n] = decoded(b, length);
        if (!c->parts[n++])
            return 0;
        b += length;
        a += strcspn(a, "}") + 1;
    }
    return !*a && !*b;
}

/* 0; 404, 405. */
static int find_route(const ec_route *routes, ec_call *c, const char *path, enum ec_method method) {
    int status = 404;
    for (const ec_route *r = routes; r->path; r++) {
        if (!matches(r, path, c))
            continue;
        if (r->method == method) {
            c->route = r;
            return 0;
        }
        status = 405;
    }
    return status;
}

static int read_params(ec_call *c, const char *query) {
    while (query && *query) {
        size_t n = strcspn(query, "&"), name = strcspn(query, "=&");
        if (n) {
            ec_param *bigger =
                c->param_count < PARAMS_MAX ? realloc(c->params, (c->param_count + 1) * sizeof *bigger) : NULL;
            if (!bigger)
                return -1;
            c->params = bigger;
            ec_param *p = &c->params[c->param_count];
            size_t skip = name < n ? name + 1 : n;
            for (int i = 0; i < 2; i++) {
                size_t len = 0;
                char *raw = strndup(query + (i ? skip : 0), i ? n - skip : name);
                char *out = raw ? evhttp_uridecode(raw, 1, &len) : NULL;
                free(raw);
                if (out && strlen(out) != len) {
                    free(out);
                    out = NULL;
                }
                *(i ? &p->value : &p->name) = out;
            }
            c->param_count++;
            if (!p->name || !p->value)
                return -1;
        }
        query += n + (query[n] == '&');
    }
    return 0;
}

static void on_close(struct evhttp_connection *connection, void *arg) {
    ec_sender *s = arg;
    if (s->has_begun)
        (void)evbuffer_remove_cb(bufferevent_get_output(evhttp_connection_get_bufferevent(connection)), on_sent, s);
    s->connection = NULL;
    atomic_store(&s->call.canceled, 1);
    ea_mutex_lock(s->web->mutex);
    s->output_bytes = 0;
    ea_cond_broadcast(s->web->changed);
    ea_mutex_unlock(s->web->mutex);
    if (s->is_broken) { /* its last piece has come already */
        evhttp_send_reply_end(s->http);
        free_sender(s);
    }
}

/* More of the same connection while a call is answered: it stays in the buffer, up to a bound. */
static void on_pipelined(struct bufferevent *bev, void *arg) {
    (void)arg;
    if (evbuffer_get_length(bufferevent_get_input(bev)) > HEADERS_MAX)
        bufferevent_disable(bev, EV_READ);
}

/* From now on the connection waits for the answer: it may be silent, and its end is detected. */
static void server_watch(ec_sender *s) {
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    bufferevent_data_cb on_read, on_write;
    bufferevent_event_cb on_event;
    void *arg;
    struct bufferevent *bev = evhttp_connection_get_bufferevent(s->connection);
    bufferevent_getcb(bev, &on_read, &on_write, &on_event, &arg);
    bufferevent_setcb(bev, on_pipelined, on_write, on_event, arg);
    bufferevent_set_timeouts(bev, NULL, &timeout);
    bufferevent_enable(bev, EV_READ); /* evhttp stops reading after a body */
    evhttp_connection_set_closecb(s->connection, on_close, s);
}

static int enqueue(ec_sender *s) {
    ec_web *w = s->web;
    ec_web_pool *l = &w->pools[s->call.route->pool];
    ea_mutex_lock(l->web->mutex);
    ec_caller *of = l->waiting < QUEUE_MAX && !w->quit ? caller_of(l, s->call.caller) : NULL;
    int is_full = !of || of->waiting >= QUEUE_OF_ONE || of->body_bytes + s->call.body_bytes > EC_HTTP_BODIES_OF_ONE;
    if (!is_full) {
        of->body_bytes += s->call.body_bytes;
        s->caller = of;
        *of->last = s;
        of->last = &s->next;
        of->waiting++;
        l->waiting++;
        ea_cond_broadcast(w->changed);
    }
    ea_mutex_unlock(l->web->mutex);
    return is_full ? -1 : 0;
}

/* 0, or the status of a refusal. */
static int server_read_request(ec_sender *s, enum ec_method method, const char **ret_detail) {
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(s->http);
    struct evkeyvalq *h = evhttp_request_get_input_headers(s->http);
    const char *path = evhttp_uri_get_path(uri), *value;
    ec_call *c = &s->call;
    *ret_detail = "the request cannot be read";
    c->path = decoded(path ? path : "", path ? strlen(path) : 0);
    const char *query = evhttp_uri_get_query(uri);
    if (!path || !c->path || read_params(c, query))
        return 400;
    if (query && !(s->query = strdup(query)))
        return 503;
    int status = find_route(s->web->routes, c, path, method);
    if (status) {
        *ret_detail = status == 405 ? "this path takes another method" : "unknown path: /api/v1/openapi.json lists all";
        return status;
    }
    value = evhttp_find_header(h, "If-None-Match");
    if (value && !(c->if_none_match = strdup(value)))
        return 503;
    value = evhttp_find_header(h, "Accept-Encoding");
    c->accepts_gzip = value && strstr(value, "gzip");
    value = evhttp_find_header(h, "Accept");
    c->accepts_open_metrics = value && strstr(value, "application/openmetrics-text");
    if (method != EC_POST)
        return 0;
    value = evhttp_find_header(h, "Content-Type");
    if (!value || strncasecmp(value, "application/json", 16) != 0) {
        *ret_detail = "the body has to be application/json";
        return 415;
    }
    struct evbuffer *input = evhttp_request_get_input_buffer(s->http);
    c->body_bytes = evbuffer_get_length(input);
    s->input = malloc(c->body_bytes + 1);
    if (!s->input)
        return 503;
    (void)evbuffer_remove(input, s->input, c->body_bytes); /* no second copy while it waits */
    s->input[c->body_bytes] = 0;
    c->body = s->input;
    return 0;
}

/* Where there is one visitor: a ticket gives the cookie and leads to the page without it, 0 with *ret_is_answered; a
 * request with the cookie is 0; others are 401. */
static int admit_visitor(const ec_web *w, struct evhttp_request *http, enum ec_method method, int *ret_is_answered,
                         const char **ret_detail) {
    static const char TICKET[] = "ticket=";
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(http));
    const char *ticket = query && strncmp(query, TICKET, sizeof TICKET - 1) == 0 ? query + sizeof TICKET - 1 : "";
    char cookie[EC_VISIT_COOKIE_BYTES];
    int64_t now_ns = ea_monotonic_ns();
    uint32_t user;
    if (ec_visit_has_cookie(w->options.visit, evhttp_find_header(evhttp_request_get_input_headers(http), "Cookie"),
                            w->http.port))
        return 0;
    if (ec_visit_is_right(w->options.visit, ticket, now_ns) && ec_listen_peer_user(http, &user) &&
        !ec_visit_may_be(w->options.visit, user)) {
        ec_log_line(w->options.log, "web: user %" PRIu32 " of this machine sent the ticket of another: refused", user);
        ticket = "";
    }
    if (method == EC_GET && ec_visit_redeem(w->options.visit, ticket, now_ns, w->http.port, cookie)) {
        struct evkeyvalq *h = evhttp_request_get_output_headers(http);
        ec_guest_answered(guest_of(w, http));
        evhttp_add_header(h, "Set-Cookie", cookie);
        evhttp_add_header(h, "Location", "/");
        evhttp_add_header(h, "Cache-Control", "no-store");
        evhttp_add_header(h, "Referrer-Policy", "no-referrer");
        evhttp_send_reply(http, 303, "See Other", NULL);
        *ret_is_answered = 1;
        return 0;
    }
    *ret_detail =
        "this dashboard is for the one who opened the address that \"etwcollector open\" printed, which is good "
        "once and for a limited time: open the trace again for another address";
    return 401;
}

/* 0, or the status of a refusal, with the reason in *ret_detail or err. */
static int server_admit(ec_web *w, struct evhttp_request *http, enum ec_method method, const char *address,
                        ec_token *ret, const char **ret_detail, ea_err *err) {
    struct evkeyvalq *h = evhttp_request_get_input_headers(http);
    const char *host = evhttp_find_header(h, "Host");
    /* where tokens are asked for, a foreign name has no certificate, and no browser sends it a token */
    if (!w->options.access && !server_is_our_name(host)) {
        *ret_detail = "the Host header names another machine: use this one's address";
        return 421;
    }
    const char *proxy = w->options.access ? NULL : proxy_header(http);
    if (proxy) {
        (void)ea_fail(
            err, EA_EREFUSED,
            "the request has the header %s, so a proxy passes on what others ask; without tokens only users of "
            "this machine are served: start the collector with --web-tokens",
            proxy);
        *ret_detail = err->message;
        return 403;
    }
    if ((*ret_detail = foreign(http, method, host ? host : "")))
        return 403;
    if (!w->options.access)
        return 0;
    int rc = ec_access_admit(w->options.access, address, evhttp_find_header(h, "Authorization"), ea_monotonic_ns(), ret,
                             err);
    *ret_detail = err->message;
    if (rc && rc != EA_EREFUSED && rc != EA_ELIMIT)
        ec_log_about(w->options.log, EC_LOG_READER, "web: %s", err->message);
    return rc == 0 ? 0 : rc == EA_EREFUSED ? 401 : rc == EA_ELIMIT ? 429 : 503;
}

static void server_on_request(struct evhttp_request *http, void *arg) {
    ec_web *w = arg;
    const char *detail = NULL;
    enum ec_method method = evhttp_request_get_command(http) == EVHTTP_REQ_POST ? EC_POST : EC_GET;
    ec_token token = {.scope = 0};
    ea_err err = {0};
    char address[EC_HOST_BYTES];
    ea_count(w->options.counters, EA_COUNT_web_requests, 1);
    ec_listen_peer(http, address);
    ec_guest_requested(guest_of(w, http));
    int is_answered = 0, refused = server_admit(w, http, method, address, &token, &detail, &err);
    if (!refused && w->options.visit)
        refused = admit_visitor(w, http, method, &is_answered, &detail);
    if (is_answered)
        return;
    ec_sender *s = refused ? NULL : calloc(1, sizeof *s);
    if (!s) {
        ea_count(w->options.counters, EA_COUNT_web_refused, 1);
        ea_count(w->options.counters, EA_COUNT_web_limited, refused == 429);
        const ec_token *known = token.scope ? &token : NULL;
        audit_refused(w, address, known, method, evhttp_request_get_uri(http), refused ? refused : 503, detail);
        server_refuse(w, http, known, refused ? refused : 503, 0, refused ? detail : "out of memory");
        return;
    }
    s->token = token;
    snprintf(s->address, sizeof s->address, "%s", address);
    s->web = w;
    s->http = http;
    s->call.options = &w->options;
    s->call.token = w->options.access ? &s->token : NULL;
    s->call.caller = s->call.token ? s->token.secret.id : s->address;
    s->call.sender = s;
    s->checked_ns = ea_monotonic_ns();
    ea_text_init(&s->call.out);
    s->connection = evhttp_request_get_connection(http);
    int status = server_read_request(s, method, &detail);
    if (!status && (status = is_forbidden(&s->call)))
        detail = "this token is not good for that";
    ec_quota_refusal above = {.retry_after_s = 0};
    if (!status && !ec_quota_check(w->options.quota, EC_QUOTA_READER, s->call.caller, ea_monotonic_ns(), &above)) {
        status = 429;
        detail = above.text;
    }
    if (!status && enqueue(s)) {
        status = 503;
        detail = "too many requests are waiting";
    }
    if (status) {
        ea_count(w->options.counters, EA_COUNT_web_refused, 1);
        audit_refused(w, address, s->call.token, method, evhttp_request_get_uri(http), status, detail);
        free_sender(s);
        server_refuse(w, http, &token, status, above.retry_after_s, detail);
        return;
    }
    /* the call can be answered already, but its pieces are sent by this thread */
    s->all_next = w->calls;
    s->all_link = &w->calls;
    if (w->calls)
        w->calls->all_link = &s->all_next;
    w->calls = s;
    server_watch(s);
}

/* ---- start and stop ---- */

static int server_start_http(ec_web *w, ea_err *err) {
    return ec_http_open(&w->http,
                        &(ec_http_options){.what = "the dashboard",
                                           .listen = w->listen,
                                           .host = w->host,
                                           .port = w->port,
                                           .tls = w->options.tls,
                                           .counters = w->options.counters,
                                           .log = w->options.log,
                                           .limits = w->options.limits,
                                           .timeout_s = TIMEOUT_S,
                                           .headers_max_bytes = HEADERS_MAX,
                                           .body_max_bytes = BODY_MAX,
                                           .on_request = server_on_request,
                                           .on_wake = server_on_wake,
                                           .arg = w},
                        err);
}

static int start_threads(ec_web *w, ea_err *err) {
    /* the memory of all questions together bounds how many are answered at a time */
    uint64_t fit = w->options.limit_all_bytes / w->options.limit_bytes;
    const size_t COUNTS[EC_POOL_COUNT] = {fit < QUESTION_THREADS ? (size_t)fit : QUESTION_THREADS, EC_LISTEN_THREADS};
    w->pools[EC_POOL_QUESTION].of_one = w->options.questions_of_one;
    w->pools[EC_POOL_LISTEN].of_one = LISTEN_OF_ONE;
    int rc = 0;
    for (int i = 0; i < EC_POOL_COUNT; i++)
        for (ec_web_pool *l = &w->pools[i]; !rc && l->thread_count < COUNTS[i]; l->thread_count += !rc)
            rc = ea_thread_start(&l->threads[l->thread_count], "web-answer", answer_lane, l, err);
    return rc ? rc : ea_thread_start(&w->loop, "web", ec_http_loop, &w->http, err);
}

int ec_server_start(ec_web **ret, const ec_web_options *options, const ec_route *routes, ea_err *err) {
    ec_web *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "serve the dashboard");
    w->pieces_last = &w->pieces;
    for (int i = 0; i < EC_POOL_COUNT; i++)
        w->pools[i].web = w;
    w->routes = routes;
    w->options = *options;
    w->options.listen = w->listen = strdup(options->listen);
    w->options.store = w->store = strdup(options->store);
    if (!w->options.limit_ns)
        w->options.limit_ns = DEFAULT_LIMIT_S * INT64_C(1000000000);
    if (!w->options.limit_bytes)
        w->options.limit_bytes = (uint64_t)DEFAULT_MEMORY_MIB << 20;
    if (w->options.limit_all_bytes < w->options.limit_bytes)
        w->options.limit_all_bytes = QUESTION_THREADS * w->options.limit_bytes;
    if (!w->options.questions_of_one)
        w->options.questions_of_one = DEFAULT_OF_ONE;
    if (!w->options.unread_ns)
        w->options.unread_ns = DEFAULT_UNREAD_S * INT64_C(1000000000);
    int rc = w->listen && w->store ? 0 : ea_fail(err, EA_ENOMEM, "serve the dashboard");
    if (!rc)
        rc = ec_listen_split("--web", w->listen, w->host, &w->port, err);
    if (!rc && !(w->options.tls && w->options.access) && !ec_is_loopback(w->host))
        rc = ea_fail(err, EA_EUSAGE, "--web '%s': only an address on loopback; others need --web-tokens", w->listen);
    if (!rc)
        rc = ea_mutex_create(&w->mutex, err);
    if (!rc)
        rc = ea_cond_create(&w->changed, err);
    if (!rc)
        rc = server_start_http(w, err);
    if (!rc)
        rc = start_threads(w, err);
    if (rc) {
        ec_web_stop(w);
        return rc;
    }
    *ret = w;
    return 0;
}

uint16_t ec_web_port(const ec_web *w) {
    return w->http.port;
}

void ec_web_stop(ec_web *w) {
    if (!w)
        return;
    if (w->mutex && w->changed) {
        ea_mutex_lock(w->mutex);
        w->quit = 1;
        ea_cond_broadcast(w->changed);
        ea_mutex_unlock(w->mutex);
    }
    if (w->loop) {
        ec_wake_now(&w->http.wake);
        ea_thread_join(w->loop);
    }
    for (int i = 0; i < EC_POOL_COUNT; i++)
        for (size_t k = 0; k < w->pools[i].thread_count; k++)
            ea_thread_join(w->pools[i].threads[k]);
    ec_http_close(&w->http);
    if (w->changed)
        ea_cond_destroy(w->changed);
    if (w->mutex)
        ea_mutex_destroy(w->mutex);
    free(w->listen);
    free(w->store);
    free(w);
}
