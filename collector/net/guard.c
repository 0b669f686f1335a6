/* Connections and their deadlines. See guard.h.
 *
 * libevent reports neither that it accepted a connection nor that it frees one, but it asks for the connection's
 * bufferevent just before it gives that a socket. So an event is made active then, which runs in the same round of the
 * loop, before the first byte is read. A TLS connection ends with its SSL object. A plain one has no such object: the
 * guard keeps a reference to its bufferevent and looks once a second whether evhttp has let it go.
 *
 * evconnlistener passes evhttp's own argument to its error callback, so the guard of a thread's loop is found by a
 * thread-local pointer. */
#include "collector/net/guard.h"

#include "collector/net/log.h"
#include "collector/net/tls.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    BUCKETS = 4096,
    HEAD_LOOK = 4 << 10,
    ACCEPTS_A_ROUND = 64, /* then what waits of the other connections has its turn */
};

static const int64_t SECOND_NS = INT64_C(1000000000), MS_NS = INT64_C(1000000);

typedef struct ec_guard_address {
    struct ec_guard_address *next;
    uint32_t connections, handshakes;
    uint32_t fresh; /* without a finished request */
    uint64_t input_bytes;
    uint8_t bytes[EC_GUARD_ADDRESS_BYTES];
} address;

/* Handshakes that addresses began: more than their rate allows, as of a time. */
typedef struct rate {
    double above;
    int64_t at_ns;
} rate;

typedef struct stage {
    ec_guest *first, **last;
    uint32_t count, doomed; /* doomed: of these, about to be freed */
} stage;

struct ec_guard {
    ec_guard_options o;
    stage stages[EC_GUEST_STAGE_COUNT];
    address *buckets[BUCKETS];
    rate rates[EC_GUARD_RATES];
    uint64_t seed;
    int ssl_index; /* of an SSL object's guest */
    struct evconnlistener *listener;
    struct event *second, *retry, *round, *thread;
    uint32_t accepted; /* in this round */
    uint64_t input_bytes;
    int is_listening, is_paused, is_closed;
};

static _Thread_local ec_guard *guard_of_loop;

/* ---- stages ---- */

static void count_stage(const ec_guest *c, uint32_t by) {
    if (!c->address)
        return;
    c->address->handshakes += c->stage == EC_GUEST_SHAKING ? by : 0;
    c->address->fresh += c->stage != EC_GUEST_USED ? by : 0;
}

static void leave_stage(ec_guest *c) {
    count_stage(c, UINT32_MAX);
    stage *s = &c->guard->stages[c->stage];
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    else
        s->last = c->link;
    s->count--;
    s->doomed -= c->is_doomed != 0;
}

static void enter_stage(ec_guest *c, enum ec_guest_stage which) {
    stage *s = &c->guard->stages[which];
    c->stage = which;
    c->next = NULL;
    c->link = s->last;
    *s->last = c;
    s->last = &c->next;
    s->count++;
    s->doomed += c->is_doomed != 0;
    count_stage(c, 1);
}

static uint32_t guard_count_of(const ec_guard *g, enum ec_guest_stage which) {
    return g->stages[which].count - g->stages[which].doomed;
}

static int has_too_many(const ec_guard *g) {
    uint32_t n = 0;
    for (size_t i = 0; i < EC_GUEST_STAGE_COUNT; i++)
        n += guard_count_of(g, i);
    return n >= g->o.limits.connections;
}

/* ---- addresses ---- */

/* The connection's other end: 0, or -1. A path of a Unix socket is an address like any other: zeros. */
static int guard_read_address(ec_guest *c, uint8_t out[EC_GUARD_ADDRESS_BYTES]) {
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memset(out, 0, EC_GUARD_ADDRESS_BYTES);
    if (getpeername(bufferevent_getfd(c->bev), (struct sockaddr *)&a, &len))
        return -1;
    if (a.ss_family == AF_INET) {
        memcpy(&v4, &a, sizeof v4);
        out[0] = 4;
        memcpy(out + 1, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (a.ss_family == AF_INET6) {
        memcpy(&v6, &a, sizeof v6);
        int is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        out[0] = is_v4 ? 4 : 6;
        memcpy(out + 1, (const uint8_t *)&v6.sin6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 8);
    }
    return 0;
}

static address **address_slot(ec_guard *g, const uint8_t bytes[EC_GUARD_ADDRESS_BYTES]) {
    address **at = &g->buckets[ea_hash64(bytes, EC_GUARD_ADDRESS_BYTES, g->seed) % BUCKETS];
    while (*at && memcmp((*at)->bytes, bytes, EC_GUARD_ADDRESS_BYTES) != 0)
        at = &(*at)->next;
    return at;
}

static void release_address(ec_guard *g, address *a) {
    address **at = address_slot(g, a->bytes);
    if (--a->connections)
        return;
    *at = a->next;
    free(a);
}

/* ---- ends ---- */

void ec_guest_doom(ec_guest *c, enum ea_counter cause, const char *why) {
    const ec_guard_options *o = &c->guard->o;
    if (c->is_doomed)
        return;
    c->is_doomed = 1;
    c->guard->stages[c->stage].doomed++;
    ea_count(o->counters, cause, 1);
    const char *name = o->name_of ? o->name_of(c) : NULL;
    if (why)
        ec_log_about(o->log, name ? EC_LOG_AGENT : EC_LOG_STRANGER,
                     "closed a connection of %s to the listener for %s: %s", name ? name : "an unknown client", o->what,
                     why);
    if (c->is_paused) /* or the end is not noticed */
        bufferevent_enable(c->bev, EV_READ);
    (void)shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
}

void ec_guest_refuse(ec_guest *c, const char *answer, size_t len_bytes) {
    int fd = bufferevent_getfd(c->bev);
    struct evbuffer *input = bufferevent_get_input(c->bev);
    if (c->is_doomed || c->refused_ns)
        return;
    c->refused_ns = ea_monotonic_ns();
    /* it is short: when it does not fit, the client took nothing of what it had got before */
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0) {
        if (c->ssl)
            (void)SSL_write(c->ssl, answer, (int)len_bytes);
        else
            (void)send(fd, answer, len_bytes, 0);
    }
    ERR_clear_error();
    /* not both directions: bytes that arrive at a closed socket reset the connection, and the answer may be lost */
    (void)shutdown(fd, SHUT_WR);
    (void)evbuffer_drain(input, evbuffer_get_length(input));
}

static void update_listening(ec_guard *g);

static void finish_handshake(ec_guest *c) {
    if (c->stage != EC_GUEST_SHAKING)
        return;
    leave_stage(c);
    enter_stage(c, EC_GUEST_NEW);
    c->step_ns = ea_monotonic_ns();
}

static void count_input(ec_guest *c, int64_t bytes) {
    c->input_bytes += (uint64_t)bytes;
    c->guard->input_bytes += (uint64_t)bytes;
    if (c->address)
        c->address->input_bytes += (uint64_t)bytes;
}

static void end_guest(ec_guest *c) {
    ec_guard *g = c->guard;
    count_input(c, -(int64_t)c->input_bytes);
    if (g->o.on_end)
        g->o.on_end(c);
    finish_handshake(c);
    leave_stage(c);
    if (c->address)
        release_address(g, c->address);
    if (c->soon)
        event_free(c->soon);
    free(c);
    update_listening(g);
}

static void on_ssl_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int index, long argl, void *argp) {
    (void)parent, (void)ad, (void)index, (void)argl, (void)argp;
    if (ptr)
        end_guest(ptr);
}

/* evhttp clears a bufferevent's callbacks when it lets it go. */
static void end_plain(ec_guard *g) {
    for (size_t i = 0; i < EC_GUEST_STAGE_COUNT; i++)
        for (ec_guest *c = g->stages[i].first, *next; c; c = next) {
            bufferevent_event_cb on_event = NULL;
            next = c->next;
            if (c->ssl || !c->is_judged)
                continue;
            bufferevent_getcb(c->bev, NULL, NULL, &on_event, NULL);
            if (on_event)
                continue;
            struct bufferevent *bev = c->bev;
            end_guest(c);
            bufferevent_decref(bev);
        }
}

/* ---- room ---- */

static int is_full(const ec_guard *g) {
    return has_too_many(g) || guard_count_of(g, EC_GUEST_SHAKING) >= g->o.limits.handshakes;
}

/* The first of a list that waits since before_ns, has not been closed, and is of the address (NULL: any). */
static ec_guest *find_oldest(const ec_guard *g, enum ec_guest_stage which, int64_t before_ns, const address *of) {
    for (ec_guest *c = g->stages[which].first; c; c = c->next)
        if (!c->is_doomed && (!of || c->address == of) && c->step <= EC_GUEST_HEAD && c->step_ns <= before_ns)
            return c;
    return NULL;
}

/* The oldest connection without a finished request of the address that has most of these; NULL: none has more than
 * one. which: the last stage that is looked at. */
static ec_guest *find_greediest(const ec_guard *g, enum ec_guest_stage which) {
    ec_guest *found = NULL;
    for (size_t i = EC_GUEST_SHAKING; i <= which; i++)
        for (ec_guest *c = g->stages[i].first; c; c = c->next)
            if (!c->is_doomed && c->address && c->step <= EC_GUEST_HEAD &&
                c->address->fresh > (found ? found->address->fresh : 1))
                found = c;
    return found;
}

static int has_waiting(const ec_guard *g) {
    struct pollfd p = {.fd = g->listener ? evconnlistener_get_fd(g->listener) : -1, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* The listener is full: when another connection waits, closes one that it can do without. */
static void guard_make_room(ec_guard *g) {
    end_plain(g);
    if (!is_full(g) || !has_waiting(g))
        return;
    int64_t before_ns = ea_monotonic_ns() - EC_GUARD_GRACE_MS * MS_NS;
    int of_all = has_too_many(g);
    ec_guest *c = find_greediest(g, of_all ? EC_GUEST_NEW : EC_GUEST_SHAKING);
    if (!c)
        c = find_oldest(g, EC_GUEST_SHAKING, before_ns, NULL);
    if (!c && of_all)
        c = find_oldest(g, EC_GUEST_NEW, before_ns, NULL);
    if (!c && of_all && g->o.evicts_idle)
        c = find_oldest(g, EC_GUEST_USED, before_ns, NULL);
    if (c)
        ec_guest_doom(c, EA_COUNT_net_evicted, "the listener was full and this connection the slowest");
    else
        ea_count(g->o.counters, EA_COUNT_net_accept_pauses, 1);
}

static void retry_later(ec_guard *g) {
    const struct timeval pause = {.tv_usec = EC_GUARD_PAUSE_MS * 1000};
    (void)event_add(g->retry, &pause);
}

static void update_listening(ec_guard *g) {
    int wanted = !g->is_closed && !g->is_paused && g->accepted < ACCEPTS_A_ROUND && !is_full(g);
    if (!g->listener || wanted == g->is_listening)
        return;
    g->is_listening = wanted;
    if (wanted)
        (void)evconnlistener_enable(g->listener);
    else
        (void)evconnlistener_disable(g->listener);
}

static void on_retry(evutil_socket_t fd, short what, void *arg) {
    ec_guard *g = arg;
    (void)fd, (void)what;
    g->is_paused = 0;
    guard_make_room(g);
    if (is_full(g))
        retry_later(g);
    update_listening(g);
}

static void on_round(evutil_socket_t fd, short what, void *arg) {
    ec_guard *g = arg;
    (void)fd, (void)what;
    g->accepted = 0;
    update_listening(g);
}

static void on_accept_error(struct evconnlistener *listener, void *arg) {
    ec_guard *g = guard_of_loop;
    (void)arg;
    if (!g || g->listener != listener)
        return;
    ea_count(g->o.counters, EA_COUNT_net_accept_errors, 1);
    char text[128];
    ea_os_error_text(EVUTIL_SOCKET_ERROR(), text, sizeof text);
    ec_log_about(g->o.log, EC_LOG_LIBRARY, "the listener for %s could not accept a connection: %s", g->o.what, text);
    g->is_paused = 1;
    retry_later(g);
    update_listening(g);
}

/* ---- a new connection ---- */

/* Whether an address may begin one more handshake now. */
static int may_shake(ec_guard *g, const uint8_t bytes[EC_GUARD_ADDRESS_BYTES]) {
    double each_s = g->o.limits.address_handshake_rate;
    if (each_s <= 0)
        return 1;
    rate *r = &g->rates[ea_hash64(bytes, EC_GUARD_ADDRESS_BYTES, g->seed) % EC_GUARD_RATES];
    int64_t now_ns = ea_monotonic_ns();
    r->above -= (double)(now_ns - r->at_ns) / (double)SECOND_NS * each_s;
    if (r->above < 0)
        r->above = 0;
    r->at_ns = now_ns;
    if (r->above + 1 > each_s * EC_GUARD_BURST_S)
        return 0;
    r->above++;
    return 1;
}

/* NULL, or why it is refused. */
static const char *guard_judge(ec_guest *c, enum ea_counter *ret_cause) {
    ec_guard *g = c->guard;
    const ec_guard_limits *l = &g->o.limits;
    uint8_t bytes[EC_GUARD_ADDRESS_BYTES];
    *ret_cause = EA_COUNT_net_refused_connections;
    if (guard_read_address(c, bytes))
        return "its address is unknown";
    address **at = address_slot(g, bytes);
    if (!*at) {
        address *a = calloc(1, sizeof *a);
        if (!a)
            return "out of memory";
        memcpy(a->bytes, bytes, sizeof a->bytes);
        *at = a;
    }
    address *a = c->address = *at;
    a->connections++;
    a->input_bytes += c->input_bytes;
    count_stage(c, 1);
    if (a->connections > l->address_connections)
        return "its address has too many connections";
    if (c->ssl && !may_shake(g, bytes)) {
        *ret_cause = EA_COUNT_net_refused_rates;
        return "its address began too many handshakes";
    }
    if (a->handshakes <= l->address_handshakes || c->stage != EC_GUEST_SHAKING)
        return NULL;
    /* the address's own silent connections make room for its next */
    ec_guest *oldest = find_oldest(g, EC_GUEST_SHAKING, ea_monotonic_ns() - EC_GUARD_GRACE_MS * MS_NS, a);
    if (oldest) {
        ec_guest_doom(oldest, EA_COUNT_net_evicted, "its address has too many unfinished handshakes");
        return NULL;
    }
    *ret_cause = EA_COUNT_net_refused_handshakes;
    return "its address has too many unfinished handshakes";
}

/* The connection has its socket now. */
static void on_soon(evutil_socket_t none, short what, void *arg) {
    ec_guest *c = arg;
    ec_guard *g = c->guard;
    enum ea_counter cause;
    (void)none, (void)what;
    const char *why = guard_judge(c, &cause);
    c->is_judged = 1;
    if (why) {
        ec_guest_doom(c, cause, why);
        return;
    }
    if (is_full(g)) {
        guard_make_room(g);
        retry_later(g);
    }
    update_listening(g);
}

static void on_info(const SSL *ssl, int where, int ret) {
    (void)ret;
    if (!(where & SSL_CB_HANDSHAKE_DONE) || !guard_of_loop)
        return;
    ec_guest *c = SSL_get_ex_data(ssl, guard_of_loop->ssl_index);
    if (!c || c->stage != EC_GUEST_SHAKING)
        return;
    finish_handshake(c);
    if (c->guard->o.on_handshake)
        c->guard->o.on_handshake(c);
    update_listening(c->guard);
}

/* A message of TLS itself. After the handshake a client has to send none; OpenSSL's sends KeyUpdate once in many
 * millions of records. */
static void guard_on_message(int is_written, int version, int type, const void *bytes, size_t n, SSL *ssl, void *arg) {
    ec_guest *c = arg;
    (void)version, (void)bytes, (void)n, (void)ssl;
    if (is_written || type != SSL3_RT_HANDSHAKE || c->stage == EC_GUEST_SHAKING || c->is_doomed)
        return;
    if (++c->messages > EC_GUARD_MESSAGES)
        ec_guest_doom(c, EA_COUNT_net_refused_messages, "too many TLS messages without a request");
}

/* One byte of the head: whether it says that the body is chunked. */
static void look_for_chunks(ec_guest *c, uint8_t byte) {
    static const char NAME[] = "transfer-encoding:";
    uint8_t lower = byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte;
    if (c->matched == c->line_bytes && c->matched < sizeof NAME - 1 && lower == (uint8_t)NAME[c->matched])
        c->is_chunked |= ++c->matched == sizeof NAME - 1;
}

/* Looks for the end of the head: an empty line. Returns how many of the bytes belong to what follows it. */
static size_t scan_head(ec_guest *c, struct evbuffer *input, size_t at, size_t n) {
    struct evbuffer_ptr from;
    struct evbuffer_iovec pieces[8];
    size_t left = n;
    if (evbuffer_ptr_set(input, &from, at, EVBUFFER_PTR_SET))
        return 0;
    while (left) {
        /* as far as a head goes: what follows it may be many pipelined requests, and peek walks all that it is given */
        int count = evbuffer_peek(input, (ev_ssize_t)(left < HEAD_LOOK ? left : HEAD_LOOK), &from, pieces, 8);
        if (count <= 0)
            break;
        size_t seen = 0;
        for (int i = 0; i < count && i < 8 && left; i++) {
            const uint8_t *bytes = pieces[i].iov_base;
            size_t len_bytes = pieces[i].iov_len < left ? pieces[i].iov_len : left;
            for (size_t k = 0; k < len_bytes; k++) {
                left--;
                if (bytes[k] == '\n') {
                    if (!c->line_bytes)
                        return c->step = EC_GUEST_BODY, left;
                    c->line_bytes = c->matched = 0;
                } else if (bytes[k] != '\r') {
                    look_for_chunks(c, bytes[k]);
                    c->line_bytes++;
                }
            }
            seen += len_bytes;
        }
        if (!left || evbuffer_ptr_set(input, &from, seen, EVBUFFER_PTR_ADD))
            break;
    }
    return 0;
}

static void begin_head(ec_guest *c, int64_t now_ns) {
    c->step = EC_GUEST_HEAD;
    c->step_ns = now_ns;
    c->line_bytes = c->matched = 0;
    c->is_chunked = 0;
}

/* The last n bytes of the input are new. */
static void take_input(ec_guest *c, struct evbuffer *input, size_t n) {
    int64_t now_ns = ea_monotonic_ns();
    if (c->step == EC_GUEST_IDLE)
        begin_head(c, now_ns);
    if (c->step == EC_GUEST_HEAD) {
        n = scan_head(c, input, evbuffer_get_length(input) - n, n);
        if (c->step != EC_GUEST_BODY)
            return;
        c->step_ns = c->slot_ns = now_ns;
        memset(c->slots, 0, sizeof c->slots);
        c->slot = c->slot_count = 0;
    }
    if (c->step == EC_GUEST_BODY)
        c->slots[c->slot] += (uint32_t)n;
}

static void guard_on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *arg) {
    ec_guest *c = arg;
    const ec_guard_options *o = &c->guard->o;
    size_t deleted = info->n_deleted;
    if (c->is_chunked && c->step == EC_GUEST_BODY && !c->refused_ns) {
        c->kept_bytes += deleted;
        deleted = 0;
    }
    count_input(c, (int64_t)info->n_added - (int64_t)deleted);
    if (info->n_added && !c->is_doomed)
        take_input(c, input, info->n_added);
    if (info->n_added && o->input_bytes && c->input_bytes > EC_GUARD_FREE_BYTES &&
        (c->guard->input_bytes > o->input_bytes || (c->address && c->address->input_bytes > o->address_input_bytes)))
        ec_guest_doom(c, EA_COUNT_net_refused_bodies, "bodies of requests take too much memory");
    if (o->on_input)
        o->on_input(c, info->n_added, deleted);
    if (info->n_added && c->refused_ns)
        (void)evbuffer_drain(input, evbuffer_get_length(input));
}

/* Its bufferevent, with the guest in the SSL object; NULL without memory. */
static struct bufferevent *make_encrypted(ec_guard *g, ec_guest *c) {
    SSL *ssl = ec_tls_session(g->o.tls);
    struct bufferevent *bev =
        ssl ? bufferevent_openssl_socket_new(g->o.events, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
            : NULL;
    if (!bev) {
        SSL_free(ssl);
        return NULL;
    }
    c->ssl = ssl;
    SSL_set_info_callback(ssl, on_info);
    SSL_set_msg_callback(ssl, guard_on_message);
    SSL_set_msg_callback_arg(ssl, c);
    /* else one read takes all such messages of a connection, and the loop waits */
    (void)SSL_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
    return bev;
}

/* evhttp asks for a connection's bufferevent. When this returns NULL, evhttp makes a plain one without a guest. */
static struct bufferevent *on_connection(struct event_base *events, void *arg) {
    ec_guard *g = arg;
    ec_guest *c = calloc(1, g->o.guest_bytes);
    struct event *soon = c ? event_new(events, -1, 0, on_soon, c) : NULL;
    struct bufferevent *bev = !soon      ? NULL
                              : g->o.tls ? make_encrypted(g, c)
                                         : bufferevent_socket_new(events, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!bev || !evbuffer_add_cb(bufferevent_get_input(bev), guard_on_input, c) ||
        (c->ssl && !SSL_set_ex_data(c->ssl, g->ssl_index, c))) {
        if (bev)
            bufferevent_free(bev);
        if (soon)
            event_free(soon);
        free(c);
        return NULL;
    }
    if (c->ssl)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    else
        bufferevent_incref(bev);
    c->guard = g;
    c->bev = bev;
    c->soon = soon;
    c->accepted_ns = c->step_ns = ea_monotonic_ns();
    enter_stage(c, c->ssl ? EC_GUEST_SHAKING : EC_GUEST_NEW);
    event_active(soon, EV_TIMEOUT, 1);
    if (!g->accepted++) {
        const struct timeval next_round = {.tv_sec = 0};
        (void)event_add(g->round, &next_round);
    }
    update_listening(g);
    return bev;
}

/* ---- requests ---- */

ec_guest *ec_guard_find(const ec_guard *g, struct bufferevent *bev) {
    SSL *ssl = bev && g->o.tls ? bufferevent_openssl_get_ssl(bev) : NULL;
    if (ssl)
        return SSL_get_ex_data(ssl, g->ssl_index);
    for (size_t i = 0; bev && !g->o.tls && i < EC_GUEST_STAGE_COUNT; i++)
        for (ec_guest *c = g->stages[i].first; c; c = c->next)
            if (c->bev == bev)
                return c;
    return NULL;
}

void *ec_guard_arg(const ec_guard *g) {
    return g->o.arg;
}

void ec_guest_requested(ec_guest *c) {
    if (!c)
        return;
    size_t kept = (size_t)c->kept_bytes;
    c->step = EC_GUEST_ANSWER;
    c->messages = 0;
    c->kept_bytes = 0;
    count_input(c, -(int64_t)kept);
    if (kept && c->guard->o.on_input)
        c->guard->o.on_input(c, 0, kept);
    c->is_paused = 0; /* its body was whole when it was paused */
    c->step_ns = ea_monotonic_ns();
}

void ec_guest_answered(ec_guest *c) {
    if (!c)
        return;
    struct evbuffer *input = bufferevent_get_input(c->bev);
    size_t n = evbuffer_get_length(input);
    finish_handshake(c);
    leave_stage(c); /* to the end: the others are idle longer */
    enter_stage(c, EC_GUEST_USED);
    c->step = EC_GUEST_IDLE;
    c->step_ns = ea_monotonic_ns();
    if (n) /* the next request's beginning came with this one's end */
        take_input(c, input, n);
}

void ec_guest_pause(ec_guest *c) {
    if (c->is_paused)
        return;
    c->is_paused = 1;
    c->paused_ns = ea_monotonic_ns();
    bufferevent_disable(c->bev, EV_READ);
}

void ec_guest_go_on(ec_guest *c) {
    if (!c->is_paused)
        return;
    int64_t waited_ns = ea_monotonic_ns() - c->paused_ns;
    c->is_paused = 0;
    c->step_ns += waited_ns;
    c->slot_ns += waited_ns;
    bufferevent_enable(c->bev, EV_READ);
}

/* ---- deadlines ---- */

/* 1 when fewer bytes came within body_ns than there must. */
static int is_too_slow(ec_guest *c, int64_t now_ns) {
    const ec_guard_limits *l = &c->guard->o.limits;
    int64_t slot_ns = l->body_ns / EC_GUARD_RATE_SLOTS;
    double least = (double)l->rate_bytes * (double)l->body_ns / (double)SECOND_NS;
    while (now_ns - c->slot_ns >= slot_ns) {
        if (++c->slot_count >= EC_GUARD_RATE_SLOTS) {
            double got = 0;
            for (size_t i = 0; i < EC_GUARD_RATE_SLOTS; i++)
                got += c->slots[i];
            if (got < least)
                return 1;
        }
        c->slot = (c->slot + 1) % EC_GUARD_RATE_SLOTS;
        c->slots[c->slot] = 0;
        c->slot_ns += slot_ns;
    }
    return 0;
}

static void guard_look_at(ec_guest *c, int64_t now_ns) {
    const ec_guard_limits *l = &c->guard->o.limits;
    int64_t took_ns = now_ns - c->step_ns;
    if (c->is_doomed || c->is_paused)
        return;
    if (c->refused_ns) {
        if (now_ns - c->refused_ns > EC_GUARD_LINGER_S * SECOND_NS)
            ec_guest_doom(c, EA_COUNT_net_idle, NULL);
    } else if (c->stage == EC_GUEST_SHAKING) {
        if (now_ns - c->accepted_ns > l->handshake_ns)
            ec_guest_doom(c, EA_COUNT_net_late_handshakes, "the TLS handshake took too long");
    } else if (c->step == EC_GUEST_IDLE && took_ns > (c->is_stranger ? l->head_ns : l->idle_ns)) {
        ec_guest_doom(c, EA_COUNT_net_idle, NULL);
    } else if (c->step == EC_GUEST_HEAD && took_ns > l->head_ns) {
        ec_guest_doom(c, EA_COUNT_net_late_heads, "the head of its request took too long");
    } else if (c->step == EC_GUEST_BODY && is_too_slow(c, now_ns)) {
        ec_guest_doom(c, EA_COUNT_net_slow_bodies, "the body of its request came too slowly");
    }
}

static void guard_on_second(evutil_socket_t fd, short what, void *arg) {
    ec_guard *g = arg;
    int64_t now_ns = ea_monotonic_ns();
    (void)fd, (void)what;
    end_plain(g);
    for (size_t i = 0; i < EC_GUEST_STAGE_COUNT; i++)
        for (ec_guest *c = g->stages[i].first; c; c = c->next)
            guard_look_at(c, now_ns);
    if (g->o.on_second)
        g->o.on_second(g->o.arg);
}

/* ---- the guard ---- */

static void guard_on_thread(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    guard_of_loop = arg;
}

static void guard_use_defaults(ec_guard_limits *l) {
    uint32_t half;
    l->connections = l->connections ? l->connections : 2048;
    if (!l->address_connections || l->address_connections > l->connections)
        l->address_connections = l->connections;
    half = l->connections > 1 ? l->connections / 2 : 1;
    l->handshakes = l->handshakes ? l->handshakes : 1024;
    l->handshakes = l->handshakes < half ? l->handshakes : half;
    half = l->handshakes > 1 ? l->handshakes / 2 : 1;
    l->address_handshakes = l->address_handshakes ? l->address_handshakes : 128;
    l->address_handshakes = l->address_handshakes < half ? l->address_handshakes : half;
    l->handshake_ns = l->handshake_ns ? l->handshake_ns : 10 * SECOND_NS;
    l->head_ns = l->head_ns ? l->head_ns : 10 * SECOND_NS;
    l->body_ns = l->body_ns ? l->body_ns : 30 * SECOND_NS;
    l->rate_bytes = l->rate_bytes ? l->rate_bytes : 4 << 10;
    l->idle_ns = l->idle_ns ? l->idle_ns : 30 * SECOND_NS;
}

int ec_guard_create(ec_guard **ret, const ec_guard_options *options, ea_err *err) {
    const struct timeval second = {.tv_sec = 1}, now = {.tv_sec = 0};
    ec_guard *g = calloc(1, sizeof *g);
    if (!g)
        return ea_fail(err, EA_ENOMEM, "guard the listener");
    g->o = *options;
    guard_use_defaults(&g->o.limits);
    if (!g->o.guest_bytes)
        g->o.guest_bytes = sizeof(ec_guest);
    for (size_t i = 0; i < EC_GUEST_STAGE_COUNT; i++)
        g->stages[i].last = &g->stages[i].first;
    int rc = ea_random_bytes(&g->seed, sizeof g->seed, err);
    g->ssl_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, on_ssl_free);
    g->second = event_new(g->o.events, -1, EV_PERSIST, guard_on_second, g);
    g->retry = event_new(g->o.events, -1, 0, on_retry, g);
    g->round = event_new(g->o.events, -1, 0, on_round, g);
    g->thread = event_new(g->o.events, -1, 0, guard_on_thread, g);
    if (!rc && (g->ssl_index < 0 || !g->second || !g->retry || !g->round || !g->thread ||
                event_add(g->second, &second) || event_add(g->thread, &now)))
        rc = ea_fail(err, EA_ENOMEM, "guard the listener");
    if (rc) {
        ec_guard_destroy(g);
        return rc;
    }
    evhttp_set_bevcb(g->o.http, on_connection, g);
    *ret = g;
    return 0;
}

void ec_guard_listen(ec_guard *g, struct evhttp_bound_socket *bound) {
    g->listener = evhttp_bound_socket_get_listener(bound);
    g->is_listening = 1;
    evconnlistener_set_error_cb(g->listener, on_accept_error);
}

void ec_guard_close(ec_guard *g) {
    if (!g)
        return;
    g->is_closed = 1;
    update_listening(g);
    g->listener = NULL; /* evhttp frees it */
}

void ec_guard_destroy(ec_guard *g) {
    if (!g)
        return;
    end_plain(g);
    struct event *events[] = {g->second, g->retry, g->round, g->thread};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    free(g);
}
