/* Connections and requests: one libevent base a thread, each with its own listening socket of the same port
 * (SO_REUSEPORT). See ingest.h.
 *
 * Nothing of libevent crosses threads: a base's objects are touched by its own thread alone, and the writer hands
 * finished uploads back through a list and an eventfd.
 *
 * evhttp reads a whole body before it calls us. So each connection's input buffer is watched from below: its bytes are
 * counted against one bound for all and against its agent's quota; a connection that wants more than a little
 * while a bound is reached is not read from until there is room. What comes of an agent counts of its quota as it is
 * read, whatever it is: above it nothing more is read, and its requests are refused. So that
 * uploads end at all then, one connection of an agent and GOING_MAX of a base may exceed the bounds. Connections and
 * deadlines are the guard's (guard.h). (Pausing is bufferevent_disable, not a read watermark: above its watermark, a
 * TLS bufferevent calls its reader in a busy loop and leaves decrypted bytes in OpenSSL, where no event announces
 * them.) */
#include "collector/ingest/ingest.h"

#include "collector/ingest/disk_gate.h"
#include "collector/ingest/duplicate_agents.h"
#include "collector/ingest/verifier.h"
#include "collector/ingest/writer.h"
#include "collector/net/guard.h"
#include "collector/net/log.h"
#include "collector/net/tls.h"
#include "collector/net/wake.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/wire/request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 4 << 10,       /* that a read counts of an agent's quota, at least */
    REQUEST_BYTES = 64 << 10,   /* that a request counts, beside its bytes */
    CHARGED_BYTES = 256 << 10,  /* are charged to the quota at a time */
    PIPELINED_BYTES = 64 << 10, /* of further requests of a connection, before one is answered */
    FREE_BYTES = 16 << 10,      /* a connection may always buffer so much (and one TLS record) */
    GOING_MAX = 4,              /* connections of a base that go on when there is no room */
    MAX_HEADER_BYTES = 8 << 10,
    BACKLOG = 4096,
    AGENT_BUCKETS = 4096,
    RETRY_BUSY_S = 1,
    RETRY_STOPPING_S = 5,
    EVHTTP_PATIENCE_S = 60,
    FLUSH_MS = 300, /* for the last answers, when stopping */
};

static const int64_t SECOND_NS = INT64_C(1000000000);

/* What one agent has open on one base. */
typedef struct agent {
    struct agent *next;
    uint32_t connections, requests;
    uint32_t admitted; /* of the connections: those that may buffer more than a little */
    int has_going;     /* one of its connections goes on without room */
    uint64_t received; /* bytes that count of its quota and are not charged yet */
    char name[EC_AGENT_NAME_BYTES + 1];
} agent;

typedef struct base base;
typedef struct request request;

/* One connection; the guard makes and frees it. */
typedef struct conn {
    ec_guest guest;                      /* first member */
    struct conn *wait_next, **wait_link; /* in base->paused; wait_link NULL: not paused */
    agent *agent;                        /* NULL before the handshake is done, or of a refused one */
    request *request;                    /* being stored; NULL: none */
    uint64_t buffered_bytes;             /* in the input buffer now */
    uint64_t serial;                     /* no two connections of this process have the same */
    char peer[EC_PEER_BYTES + 1];
    int is_admitted; /* may buffer more than a little; its bytes are counted as held */
    int is_going;    /* goes on, though there is no room */
} conn;

/* An upload in the verifier's or the writer's hands. */
struct request {
    ec_upload upload; /* first member: what these give back */
    base *base;
    conn *conn; /* NULL when the connection is gone */
    agent *agent;
    struct evhttp_request *http;
    struct evbuffer *body;
};

struct base {
    ec_ingest *in;
    ea_thread *thread;
    struct event_base *events;
    struct evhttp *http;
    ec_guard *guard;
    ec_wake wake;
    conn *paused, **paused_last;
    uint32_t going; /* connections that go on without room */
    agent *agents[AGENT_BUCKETS];

    ea_mutex *mutex; /* guards what other threads leave here */
    ec_upload *answered, **answered_last;
    int quit;
};

struct ec_ingest {
    ec_ingest_options options;
    ec_tls *tls;
    ec_verifier *verifier;
    ec_writer *writer;
    uint16_t port;
    unsigned base_count;
    base *bases;
    atomic_int stopping;
    _Atomic uint64_t serial;     /* of the last connection */
    _Atomic uint64_t held_bytes; /* bodies of admitted connections, and in the writer's hands */
};

/* ---- agents ---- */

static agent **agent_slot(base *b, const char *name) {
    agent **at = &b->agents[ea_hash64(name, strlen(name), 0) % AGENT_BUCKETS];
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static agent *agent_get(base *b, const char *name) {
    agent **at = agent_slot(b, name);
    if (!*at) {
        agent *a = calloc(1, sizeof *a);
        if (!a)
            return NULL;
        snprintf(a->name, sizeof a->name, "%s", name);
        *at = a;
    }
    return *at;
}

/* Counts what came of an agent, also where nothing of it is stored. is_whole: all that is not charged yet. */
static void server_charge(const base *b, agent *a, uint64_t bytes, int is_whole) {
    a->received += bytes;
    if (a->received < CHARGED_BYTES && !is_whole)
        return;
    ec_quota_charge(b->in->options.quota, EC_QUOTA_received, a->name, a->received, ea_monotonic_ns());
    a->received = 0;
}

/* Whether nothing more of an agent may be read now. is_counted: as a refusal. */
static int has_sent_too_much(const base *b, const agent *a, int is_counted) {
    return !ec_quota_has_room(b->in->options.quota, EC_QUOTA_received, a->name, is_counted, ea_monotonic_ns());
}

static void agent_release(base *b, agent *a) {
    if (!a || a->connections || a->requests)
        return;
    server_charge(b, a, 0, 1);
    *agent_slot(b, a->name) = a->next;
    free(a);
}

/* ---- connections ---- */

static base *base_of(const conn *c) {
    return ec_guard_arg(c->guest.guard);
}

/* Counts what an agent's uploads take, against the bound for all and against the agent's own. */
static void ingest_server_hold(base *b, const agent *a, int64_t bytes) {
    atomic_fetch_add_explicit(&b->in->held_bytes, (uint64_t)bytes, memory_order_relaxed);
    ec_quota_hold(b->in->options.quota, EC_QUOTA_uploads, a->name, bytes, ea_monotonic_ns());
}

/* Whether there is memory for more of the agent's uploads. is_counted: as a refusal of the quota. */
static int ingest_server_has_room(const base *b, const agent *a, int is_counted) {
    const ec_ingest_options *o = &b->in->options;
    return atomic_load_explicit(&b->in->held_bytes, memory_order_relaxed) < o->max_waiting_bytes &&
           ec_quota_has_room(o->quota, EC_QUOTA_uploads, a->name, is_counted, ea_monotonic_ns());
}

/* Whether an agent's connection may buffer more. */
static int may_grow(base *b, conn *c) {
    /* more than one request is pipelined: it can wait in the kernel */
    if (c->buffered_bytes > b->in->options.max_body_bytes + FREE_BYTES || has_sent_too_much(b, c->agent, 0))
        return 0;
    if (c->is_going)
        return 1;
    if (!c->is_admitted && c->agent->admitted >= b->in->options.max_agent_requests)
        return 0;
    if (ingest_server_has_room(b, c->agent, 0))
        return 1;
    if (c->agent->has_going || b->going >= GOING_MAX)
        return 0;
    c->is_going = c->agent->has_going = 1;
    b->going++;
    return 1;
}

static void stop_going(conn *c) {
    if (!c->is_going)
        return;
    c->is_going = c->agent->has_going = 0;
    base_of(c)->going--;
}

/* Its bytes are counted no more. */
static void dismiss(conn *c) {
    stop_going(c);
    if (!c->is_admitted)
        return;
    ingest_server_hold(base_of(c), c->agent, -(int64_t)c->buffered_bytes);
    c->is_admitted = 0;
    c->agent->admitted--;
}

static void unpause(conn *c) {
    if (!c->wait_link)
        return;
    *c->wait_link = c->wait_next;
    if (c->wait_next)
        c->wait_next->wait_link = c->wait_link;
    else
        base_of(c)->paused_last = c->wait_link;
    c->wait_link = NULL;
}

static void let_in(conn *c) {
    if (c->is_admitted)
        return;
    ingest_server_hold(base_of(c), c->agent, (int64_t)c->buffered_bytes);
    c->is_admitted = 1;
    c->agent->admitted++;
}

/* Lets paused connections go on while there is room, the longest waiting first. */
static void ingest_server_admit(base *b) {
    for (conn *c = b->paused, *next; c; c = next) {
        next = c->wait_next;
        if (!may_grow(b, c))
            continue;
        unpause(c);
        let_in(c);
        ec_guest_go_on(&c->guest);
    }
}

static void ingest_server_on_end(ec_guest *guest) {
    conn *c = (conn *)(void *)guest;
    base *b = base_of(c);
    unpause(c);
    dismiss(c);
    if (c->request) {
        c->request->conn = NULL;
        c->request->http = NULL;
    }
    if (c->agent) {
        c->agent->connections--;
        agent_release(b, c->agent);
    }
}

static const char *ingest_server_name_of(const ec_guest *guest) {
    const conn *c = (const conn *)(const void *)guest;
    return c->agent ? c->agent->name : NULL;
}

/* The address of the other side, for a person. */
static void note_peer(conn *c) {
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    if (getpeername(bufferevent_getfd(c->guest.bev), (struct sockaddr *)&address, &n) != 0 ||
        getnameinfo((struct sockaddr *)&address, n, c->peer, sizeof c->peer, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(c->peer, sizeof c->peer, "?");
}

/* The handshake is done: who is it? */
static void on_handshake(ec_guest *guest) {
    conn *c = (conn *)(void *)guest;
    base *b = base_of(c);
    char name[EC_AGENT_NAME_BYTES + 1];
    ea_err err;
    c->serial = atomic_fetch_add_explicit(&b->in->serial, 1, memory_order_relaxed) + 1;
    ea_count(b->in->options.counters, EA_COUNT_ingest_handshakes, 1);
    if (SSL_session_reused(guest->ssl))
        ea_count(b->in->options.counters, EA_COUNT_ingest_resumed, 1);
    if (ec_tls_identify(b->in->tls, guest->ssl, name, &err)) {
        guest->is_stranger = 1; /* its request is refused with the reason */
        return;
    }
    c->agent = agent_get(b, ec_store_agent_name(b->in->options.store, name));
    if (!c->agent) {
        ec_guest_doom(guest, EA_COUNT_net_refused_agents, "out of memory");
        return;
    }
    if (++c->agent->connections > b->in->options.max_agent_connections)
        ec_guest_doom(guest, EA_COUNT_net_refused_agents, "too many connections of this agent");
}

/* The disk of the store is full, or a quota is reached: answers an upload before the rest of its body comes. */
static void refuse_body(const base *b, conn *c, unsigned retry_after_s) {
    char answer[400];
    const char *why = ec_writer_refusal(b->in->writer);
    int n = snprintf(answer, sizeof answer,
                     "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: %u\r\n"
                     "Connection: close\r\nContent-Length: %zu\r\n\r\n%s\n",
                     retry_after_s, strlen(why) + 1, why);
    ea_count(b->in->options.counters, EA_COUNT_ingest_refused, 1);
    ea_count(b->in->options.counters, EA_COUNT_ingest_refused_disk_full, 1);
    ec_guest_refuse(&c->guest, answer, n < 0 ? 0 : (size_t)n);
    dismiss(c);
}

/* Bytes came into, or left, a connection's input buffer. Only counts and marks: evhttp's own reading follows. */
static void ingest_server_on_input(ec_guest *guest, size_t added, size_t deleted) {
    conn *c = (conn *)(void *)guest;
    base *b = base_of(c);
    c->buffered_bytes += added;
    c->buffered_bytes -= deleted;
    if (c->is_admitted)
        ingest_server_hold(b, c->agent, (int64_t)added - (int64_t)deleted);
    if (added && c->agent)
        server_charge(b, c->agent, added > READ_BYTES ? added : READ_BYTES, 0);
    if (added && guest->refused_ns && !guest->is_doomed && has_sent_too_much(b, c->agent, 1))
        ec_guest_doom(guest, EA_COUNT_net_refused_agents, "it sends on after its upload was refused");
    if (guest->refused_ns)
        return;
    if (!added || guest->is_doomed || c->wait_link || c->buffered_bytes < FREE_BYTES)
        return;
    if (!c->agent) {
        ec_guest_doom(guest, EA_COUNT_net_refused_agents, "a refused agent sends an upload");
        return;
    }
    unsigned disk_pause_s = c->request || guest->step != EC_GUEST_BODY ? 0 : ec_writer_refuses_s(b->in->writer);
    if (disk_pause_s) {
        refuse_body(b, c, disk_pause_s);
        return;
    }
    if (may_grow(b, c)) {
        let_in(c);
        return;
    }
    ea_count(b->in->options.counters, EA_COUNT_ingest_upload_waits, 1);
    if (!has_sent_too_much(b, c->agent, 1))
        (void)ingest_server_has_room(b, c->agent, 1);
    c->wait_next = NULL;
    c->wait_link = b->paused_last;
    *b->paused_last = c;
    b->paused_last = &c->wait_next;
    ec_guest_pause(guest);
}

static void ingest_server_on_second(void *arg) {
    ingest_server_admit(arg);
}

/* ---- requests ---- */

static const char *reason(int status) {
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 415:
        return "Unsupported Media Type";
    case 429:
        return "Too Many Requests";
    default:
        return "Service Unavailable";
    }
}

static void ingest_server_reply(base *b, conn *c, struct evhttp_request *http, int status, unsigned retry_after_s,
                                const char *type, const void *data, size_t len_bytes) {
    struct evkeyvalq *headers = evhttp_request_get_output_headers(http);
    struct evbuffer *body = evbuffer_new();
    if (status != 200)
        ea_count(b->in->options.counters, EA_COUNT_ingest_refused, 1);
    if (status == 403)
        evhttp_add_header(headers, "Connection", "close");
    evhttp_add_header(headers, "Content-Type", type);
    if (retry_after_s) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%u", retry_after_s);
        evhttp_add_header(headers, "Retry-After", seconds);
    }
    if (body && len_bytes)
        evbuffer_add(body, data, len_bytes);
    if (c) { /* the next request may begin */
        dismiss(c);
        ec_guest_answered(&c->guest);
    }
    evhttp_send_reply(http, status, reason(status), body); /* may free http and the connection */
    if (body)
        evbuffer_free(body);
}

static void reply_text(base *b, conn *c, struct evhttp_request *http, int status, unsigned retry_after_s,
                       const char *text) {
    char line[600];
    int n = snprintf(line, sizeof line, "%s\n", text);
    ingest_server_reply(b, c, http, status, retry_after_s, "text/plain", line,
                        n < 0                     ? 0
                        : (size_t)n < sizeof line ? (size_t)n
                                                  : sizeof line - 1);
}

static void request_free(request *r) {
    base *b = r->base;
    ingest_server_hold(b, r->agent, -(int64_t)r->upload.len_bytes);
    ec_quota_hold(b->in->options.quota, EC_QUOTA_uploads, r->agent->name, -(int64_t)r->upload.held_bytes,
                  ea_monotonic_ns());
    if (r->conn)
        r->conn->request = NULL;
    r->agent->requests--;
    agent_release(b, r->agent);
    if (r->body)
        evbuffer_free(r->body);
    ec_upload_deinit(&r->upload);
    free(r);
}

/* The writer's thread, or one of the verifier's: an answer is ready. */
static void on_done(void *arg, ec_upload *u) {
    base *b = ((request *)(void *)u)->base;
    (void)arg;
    ea_mutex_lock(b->mutex);
    u->next = NULL;
    *b->answered_last = u;
    b->answered_last = &u->next;
    ea_mutex_unlock(b->mutex);
    ec_wake_now(&b->wake);
}

static const char *why_not_stored(int rc) {
    return rc == EA_EFULL ? "too much waits to be stored" : "stopping";
}

/* One of the verifier's threads: an upload is looked at. */
static void on_looked_at(void *arg, ec_upload *u) {
    ec_ingest *in = arg;
    if (!u->status) {
        int rc = ec_writer_push(in->writer, u);
        if (!rc)
            return; /* the writer has it, and perhaps answered it already */
        ec_upload_refuse(u, 503, RETRY_BUSY_S, why_not_stored(rc));
    }
    on_done(in, u);
}

static void on_used(void *arg, const char *name, int64_t cpu_ns) {
    const ec_ingest *in = arg;
    ec_verifier_used(in->verifier, name, cpu_ns);
}

static uint64_t on_waiting(void *arg) {
    const ec_ingest *in = arg;
    return ec_verifier_waiting_bytes(in->verifier);
}

/* The base's thread: sends what is answered, or ends. */
static void ingest_server_on_wake(void *arg) {
    base *b = arg;
    ea_mutex_lock(b->mutex);
    ec_upload *list = b->answered;
    int quit = b->quit;
    b->answered = NULL;
    b->answered_last = &b->answered;
    ea_mutex_unlock(b->mutex);
    while (list) {
        request *r = (request *)(void *)list;
        list = list->next;
        struct evhttp_request *http = r->http;
        conn *c = r->conn;
        if (http) {
            c->request = NULL;
            r->conn = NULL;
            ingest_server_reply(b, c, http, r->upload.status, r->upload.retry_after_s,
                                r->upload.status == 200 ? "application/x-protobuf" : "text/plain",
                                r->upload.answer.data, r->upload.answer.len_bytes);
        }
        request_free(r);
    }
    ingest_server_admit(b);
    if (quit) {
        struct timeval flush = {.tv_usec = FLUSH_MS * 1000};
        event_base_loopexit(b->events, &flush);
    }
}

/* What the agent calls its run: letters and digits; anything else counts as not said. */
static void take_run(struct evhttp_request *http, char ret[EC_RUN_BYTES + 1]) {
    const char *run = evhttp_find_header(evhttp_request_get_input_headers(http), EA_UPLOAD_RUN_HEADER);
    size_t n = run ? strlen(run) : 0;
    ret[0] = 0;
    if (!n || n > EC_RUN_BYTES || strspn(run, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != n)
        return;
    memcpy(ret, run, n + 1);
}

static void take_upload(base *b, conn *c, struct evhttp_request *http) {
    const ec_ingest_options *o = &b->in->options;
    ea_err err;
    const char *type = evhttp_find_header(evhttp_request_get_input_headers(http), "Content-Type");
    ea_count(o->counters, EA_COUNT_ingest_requests, 1);
    if (!type || strcmp(type, EA_UPLOAD_TYPE) != 0) {
        reply_text(b, c, http, 415, 0, "expected Content-Type: " EA_UPLOAD_TYPE);
        return;
    }
    if (atomic_load(&b->in->stopping)) {
        reply_text(b, c, http, 503, RETRY_STOPPING_S, "stopping");
        return;
    }
    unsigned disk_pause_s = ec_writer_refuses_s(b->in->writer);
    if (disk_pause_s) {
        ea_count(o->counters, EA_COUNT_ingest_refused_disk_full, 1);
        reply_text(b, c, http, 503, disk_pause_s, ec_writer_refusal(b->in->writer));
        return;
    }
    if (c->agent->requests >= o->max_agent_requests) {
        reply_text(b, c, http, 429, RETRY_BUSY_S, "too many uploads of this agent at a time");
        return;
    }
    request *r = calloc(1, sizeof *r);
    struct evbuffer *input = evhttp_request_get_input_buffer(http);
    size_t len_bytes = evbuffer_get_length(input);
    if (r)
        r->body = evbuffer_new();
    if (!r || !r->body || evbuffer_add_buffer(r->body, input) != 0) {
        if (r && r->body)
            evbuffer_free(r->body);
        free(r);
        reply_text(b, c, http, 503, RETRY_BUSY_S, "out of memory");
        return;
    }
    r->base = b;
    r->conn = c;
    r->agent = c->agent;
    r->http = http;
    r->agent->requests++;
    c->request = r;
    ingest_server_hold(b, c->agent, (int64_t)len_bytes);
    r->upload.len_bytes = len_bytes;
    ea_text_init(&r->upload.answer);
    snprintf(r->upload.agent, sizeof r->upload.agent, "%s", c->agent->name);
    take_run(http, r->upload.run);
    if (!c->peer[0])
        note_peer(c);
    snprintf(r->upload.peer, sizeof r->upload.peer, "%s", c->peer);
    r->upload.connection = c->serial;
    r->upload.data = len_bytes ? evbuffer_pullup(r->body, -1) : (const uint8_t *)"";
    int status = 0, rc;
    unsigned retry_after_s = RETRY_BUSY_S;
    ec_quota_refusal above;
    if (!r->upload.data) {
        status = 503;
        (void)ea_fail(&err, EA_ENOMEM, "out of memory");
    } else if (!ec_quota_check(o->quota, EC_QUOTA_AGENT, r->upload.agent, ea_monotonic_ns(), &above)) {
        status = 429;
        retry_after_s = above.retry_after_s;
        (void)ea_fail(&err, EA_ELIMIT, "%s", above.text);
    } else if ((rc = ec_verifier_push(b->in->verifier, &r->upload)) != 0) {
        status = 503;
        (void)ea_fail(&err, rc, "%s", why_not_stored(rc));
    }
    if (status) {
        c->request = NULL;
        r->conn = NULL;
        request_free(r);
        reply_text(b, c, http, status, retry_after_s, err.message);
    }
}

/* A poll for what is asked of the agent. */
static void ingest_server_poll(base *b, conn *c, struct evhttp_request *http) {
    const ec_ingest_options *o = &b->in->options;
    struct evbuffer *input = evhttp_request_get_input_buffer(http);
    const char *type = evhttp_find_header(evhttp_request_get_input_headers(http), "Content-Type");
    size_t len_bytes = evbuffer_get_length(input);
    ea_text answer;
    ea_err err = {0};
    if (!o->poll) {
        reply_text(b, c, http, 404, 0, "not found");
        return;
    }
    if (!type || strcmp(type, EA_POLL_TYPE) != 0) {
        reply_text(b, c, http, 415, 0, "expected Content-Type: " EA_POLL_TYPE);
        return;
    }
    const uint8_t *data = len_bytes ? evbuffer_pullup(input, -1) : (const uint8_t *)"";
    ea_text_init(&answer);
    int rc = !data || len_bytes > EA_POLL_MAX_BYTES
                 ? ea_fail(&err, EA_ELIMIT, "a poll has at most %d bytes", EA_POLL_MAX_BYTES)
                 : o->poll(o->poll_arg, c->agent->name, data, len_bytes, &answer, &err);
    if (rc == EA_ECORRUPT || rc == EA_ELIMIT) {
        reply_text(b, c, http, 400, 0, err.message);
    } else if (rc) {
        ec_log_about(o->log, EC_LOG_AGENT, "a poll of %s: %s", c->agent->name, err.message);
        reply_text(b, c, http, 503, RETRY_BUSY_S, "requests cannot be read now");
    } else {
        ingest_server_reply(b, c, http, 200, 0, "application/x-protobuf", answer.data, answer.len_bytes);
    }
    ea_text_deinit(&answer);
}

/* A request of an agent that may be served. */
static void ingest_server_serve(base *b, conn *c, struct evhttp_request *http) {
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(http));
    enum evhttp_cmd_type method = evhttp_request_get_command(http);
    unsigned disk_pause_s;
    if (path && strcmp(path, EA_UPLOAD_PATH) == 0) {
        if (method == EVHTTP_REQ_POST)
            take_upload(b, c, http);
        else
            reply_text(b, c, http, 405, 0, "expected POST");
    } else if (path && strcmp(path, EA_POLL_PATH) == 0) {
        if (method == EVHTTP_REQ_POST)
            ingest_server_poll(b, c, http);
        else
            reply_text(b, c, http, 405, 0, "expected POST");
    } else if (path && strcmp(path, "/healthz") == 0) {
        if (method != EVHTTP_REQ_GET)
            reply_text(b, c, http, 405, 0, "expected GET");
        else if (atomic_load(&b->in->stopping))
            reply_text(b, c, http, 503, RETRY_STOPPING_S, "stopping");
        else if ((disk_pause_s = ec_writer_refuses_s(b->in->writer)) != 0)
            reply_text(b, c, http, 503, disk_pause_s, ec_writer_refusal(b->in->writer));
        else if (ec_writer_is_failing(b->in->writer))
            reply_text(b, c, http, 503, RETRY_BUSY_S, "the last commit failed");
        else
            reply_text(b, c, http, 200, 0, "ok");
    } else {
        reply_text(b, c, http, 404, 0, "not found");
    }
}

/* A whole request. */
static void ingest_server_on_request(struct evhttp_request *http, void *arg) {
    base *b = arg;
    char name[EC_AGENT_NAME_BYTES + 1];
    ea_err err;
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(http));
    conn *c = (conn *)(void *)ec_guard_find(b->guard, bev);
    /* again on every request: a list may have changed, and a resumed session skipped the chain */
    int rc = c ? ec_tls_identify(b->in->tls, c->guest.ssl, name, &err) : ea_fail(&err, EA_EREFUSED, "no TLS session");
    if (!rc && !c->agent)
        rc = ea_fail(&err, EA_EREFUSED, "this connection was refused: open another one");
    if (c) {
        unpause(c); /* its body was whole when it was paused */
        ec_guest_requested(&c->guest);
    }
    if (rc) {
        if (c && c->agent)
            ec_log_about(b->in->options.log, EC_LOG_AGENT, "refused a request of %s: %s", c->agent->name, err.message);
        else
            ec_log_about(b->in->options.log, EC_LOG_STRANGER, "refused a request: %s", err.message);
        reply_text(b, c, http, 403, 0, err.message);
        return;
    }
    server_charge(b, c->agent, REQUEST_BYTES, 1);
    int is_piped = evbuffer_get_length(bufferevent_get_input(bev)) > PIPELINED_BYTES; /* each answer lets in more */
    if (is_piped || has_sent_too_much(b, c->agent, 1)) {
        evhttp_add_header(evhttp_request_get_output_headers(http), "Connection", "close");
        reply_text(b, c, http, 429, RETRY_BUSY_S,
                   is_piped ? "further requests came before the answer: an agent has one under way at a time"
                            : "the agent sends more than its quota of received bytes (--quota-received)");
        return;
    }
    ingest_server_serve(b, c, http);
}

/* ---- bases ---- */

/* "HOST:PORT" or "[V6]:PORT". */
static int split_address(const char *listen, char *host, size_t host_bytes, const char **ret_port, ea_err *err) {
    const char *colon = strrchr(listen, ':');
    if (!colon || !colon[1])
        return ea_fail(err, EA_EINVAL, "listen on %s: expected HOST:PORT", listen);
    size_t n = (size_t)(colon - listen);
    if (n >= 2 && listen[0] == '[' && listen[n - 1] == ']') {
        listen++;
        n -= 2;
    }
    if (n >= host_bytes)
        return ea_fail(err, EA_EINVAL, "listen on %s: the name is too long", listen);
    memcpy(host, listen, n);
    host[n] = 0;
    *ret_port = colon + 1;
    return 0;
}

static uint16_t port_of(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};

    socklen_t n = sizeof address;
    if (getsockname(fd, &address.any, &n) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

/* A listening socket; port: in place of the address's when not 0. */
static int listen_on(const char *listen_address, uint16_t port, int shared, int *ret_fd, ea_err *err) {
    char host[256], number[8];
    const char *service;
    int rc = split_address(listen_address, host, sizeof host, &service, err);
    if (rc)
        return rc;
    if (port) {
        snprintf(number, sizeof number, "%u", port);
        service = number;
    }
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int gai = getaddrinfo(host[0] ? host : NULL, service, &hints, &list);
    if (gai)
        return ea_fail(err, EA_EINVAL, "listen on %s: %s", listen_address, gai_strerror(gai));
    const int one = 1;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* TCP_NODELAY here, where every accepted socket inherits it: without it an answer waits 40 ms for the peer's
     * delayed acknowledgement */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        rc = ea_fail_os(err, EA_EIO, errno, "listen on %s", listen_address);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    if (!rc)
        *ret_fd = fd;
    return rc;
}

static void base_main(void *arg) {
    base *b = arg;
    event_base_loop(b->events, EVLOOP_NO_EXIT_ON_EMPTY);
    ec_guard_close(b->guard);
    /* libevent frees connections in two steps: the second runs in one more round */
    evhttp_free(b->http);
    b->http = NULL;
    event_base_loop(b->events, EVLOOP_NONBLOCK);
    ERR_clear_error();
}

static int base_init(base *b, ec_ingest *in, ea_err *err) {
    const ec_ingest_options *o = &in->options;
    /* the guard's deadlines come first */
    const struct timeval timeout = {.tv_sec = (time_t)(o->limits.idle_ns / SECOND_NS + EVHTTP_PATIENCE_S)};
    int fd = -1;
    b->in = in;
    b->paused_last = &b->paused;
    b->answered_last = &b->answered;
    int rc = ea_mutex_create(&b->mutex, err);
    if (!rc)
        rc = listen_on(o->listen, in->port, in->options.threads > 1, &fd, err);
    if (rc)
        return rc;
    if (!in->port)
        in->port = port_of(fd);
    struct event_config *config = event_config_new();
    if (config) {
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* nothing of a base crosses threads */
        b->events = event_base_new_with_config(config);
        event_config_free(config);
    }
    b->http = b->events ? evhttp_new(b->events) : NULL;
    struct evhttp_bound_socket *bound = b->http ? evhttp_accept_socket_with_handle(b->http, fd) : NULL;
    if (!bound) {
        close(fd);
        return ea_fail(err, EA_ENOMEM, "set up the server");
    }
    ec_guard_options guard = {.what = "agents",
                              .events = b->events,
                              .http = b->http,
                              .tls = in->tls,
                              .limits = o->limits,
                              .counters = o->counters,
                              .log = o->log,
                              .guest_bytes = sizeof(conn),
                              .on_handshake = on_handshake,
                              .on_input = ingest_server_on_input,
                              .on_end = ingest_server_on_end,
                              .name_of = ingest_server_name_of,
                              .on_second = ingest_server_on_second,
                              .arg = b};
    if ((rc = ec_guard_create(&b->guard, &guard, err)))
        return rc;
    ec_guard_listen(b->guard, bound);
    if ((rc = ec_wake_open(&b->wake, b->events, ingest_server_on_wake, b, err)))
        return rc;
    evhttp_set_gencb(b->http, ingest_server_on_request, b);
    evhttp_set_allowed_methods(b->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_max_headers_size(b->http, MAX_HEADER_BYTES);
    evhttp_set_max_body_size(b->http, (ev_ssize_t)o->max_body_bytes);
    evhttp_set_flags(b->http,
                     EVHTTP_SERVER_LINGERING_CLOSE); /* a 413 is read only by a client that may finish sending */
    evhttp_set_default_content_type(b->http, NULL);
    evhttp_set_timeout_tv(b->http, &timeout);
    return 0;
}

static void base_deinit(base *b) {
    while (b->answered) { /* no loop remains to send these answers */
        request *r = (request *)(void *)b->answered;
        b->answered = b->answered->next;
        request_free(r);
    }
    ec_guard_close(b->guard);
    if (b->http)
        evhttp_free(b->http);
    ec_guard_destroy(b->guard);
    ec_wake_close(&b->wake);
    if (b->events)
        event_base_free(b->events);
    ea_mutex_destroy(b->mutex);
}

static void ingest_server_use_defaults(ec_ingest_options *o) {
    if (!o->threads)
        o->threads = 1;
    if (!o->max_body_bytes)
        o->max_body_bytes = EA_BATCH_MAX_BYTES + EA_UPLOAD_FRAME_BYTES;
    if (!o->max_waiting_bytes)
        o->max_waiting_bytes = 256 << 20;
    if (!o->limits.connections)
        o->limits.connections = 16384;
    o->limits.connections = o->limits.connections / o->threads ? o->limits.connections / o->threads : 1;
    if (!o->max_agent_connections)
        o->max_agent_connections = 64;
    if (!o->max_agent_requests)
        o->max_agent_requests = 4;
    if (!o->limits.idle_ns)
        o->limits.idle_ns = 600 * SECOND_NS;
}

static int start_tls(ec_ingest *in, ea_err *err) {
    const ec_ingest_options *o = &in->options;
    ea_text tickets;
    ea_text_init(&tickets);
    ea_text_printf(&tickets, "%s/tickets.key", ec_store_folder(o->store));
    ec_tls_options tls = {.cert_path = o->cert_path,
                          .key_path = o->key_path,
                          .ca_path = o->ca_path,
                          .crl_path = o->crl_path,
                          .ticket_path = tickets.data,
                          .broker = o->broker,
                          .log = o->log};
    int rc = tickets.failed ? ea_fail(err, EA_ENOMEM, "start") : ec_tls_create(&in->tls, &tls, err);
    ea_text_deinit(&tickets);
    return rc;
}

int ec_ingest_start(ec_ingest **ret, const ec_ingest_options *options, ea_err *err) {
    ec_ingest *in = calloc(1, sizeof *in);
    if (!in)
        return ea_fail(err, EA_ENOMEM, "start");
    in->options = *options;
    ingest_server_use_defaults(&in->options);
    const ec_ingest_options *o = &in->options;
    int rc = start_tls(in, err);
    if (!rc) {
        ec_writer_options writer = {.store = o->store,
                                    .counters = o->counters,
                                    .quota = o->quota,
                                    .log = o->log,
                                    .max_waiting_bytes = o->max_waiting_bytes,
                                    .max_body_bytes = o->max_body_bytes,
                                    .also_waiting = on_waiting,
                                    .on_used = on_used,
                                    .done = on_done,
                                    .done_arg = in,
                                    .on_stored = o->on_stored,
                                    .on_space = o->on_space,
                                    .wants_keyframe = o->wants_keyframe,
                                    .on_stored_arg = o->on_stored_arg,
                                    .retention = o->retention,
                                    .retain_every_ns = o->retain_every_ns,
                                    .cpu_percent = o->cpu_percent};
        rc = ec_writer_start(&in->writer, &writer, err);
    }
    if (!rc) {
        ec_verifier_options verifier = {.folder = o->trusts_checksums ? NULL : ec_store_folder(o->store),
                                        .counters = o->counters,
                                        .quota = o->quota,
                                        .log = o->log,
                                        .cpu_percent = o->cpu_percent,
                                        .done = on_looked_at,
                                        .done_arg = in};
        rc = ec_verifier_start(&in->verifier, &verifier, err);
    }
    if (!rc) {
        in->bases = calloc(o->threads, sizeof *in->bases);
        if (!in->bases)
            rc = ea_fail(err, EA_ENOMEM, "start");
    }
    for (unsigned i = 0; !rc && i < o->threads; i++) {
        in->base_count++;
        rc = base_init(&in->bases[i], in, err);
    }
    for (unsigned i = 0; !rc && i < in->base_count; i++)
        rc = ea_thread_start(&in->bases[i].thread, "ingest", base_main, &in->bases[i], err);
    if (rc) {
        ec_ingest_stop(in);
        return rc;
    }
    *ret = in;
    return 0;
}

uint16_t ec_ingest_port(const ec_ingest *in) {
    return in->port;
}

void ec_ingest_set_retention(ec_ingest *in, const ec_retention *limits) {
    ec_writer_set_retention(in->writer, limits);
}

int ec_ingest_renew(ec_ingest *in, ea_err *err) {
    return ec_tls_renew(in->tls, err);
}

ec_tls_ends ec_ingest_certificate_ends(ec_ingest *in) {
    return ec_tls_certificate_ends(in->tls);
}

ec_crl_times ec_ingest_crl_times(ec_ingest *in) {
    return ec_tls_crl_times(in->tls);
}

void ec_ingest_stop(ec_ingest *in) {
    if (!in)
        return;
    /* uploads that come now are refused; those that wait are stored and answered; then the bases end */
    atomic_store(&in->stopping, 1);
    if (in->verifier)
        ec_verifier_stop(in->verifier);
    if (in->writer)
        ec_writer_stop(in->writer);
    for (unsigned i = 0; i < in->base_count; i++) {
        base *b = &in->bases[i];
        if (!b->thread)
            continue;
        ea_mutex_lock(b->mutex);
        b->quit = 1;
        ea_mutex_unlock(b->mutex);
        ec_wake_now(&b->wake);
        ea_thread_join(b->thread);
    }
    for (unsigned i = 0; i < in->base_count; i++)
        base_deinit(&in->bases[i]);
    free(in->bases);
    ec_verifier_destroy(in->verifier);
    ec_writer_destroy(in->writer);
    ec_tls_destroy(in->tls);
    free(in);
}
