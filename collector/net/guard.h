/* The guard of a listener: how many connections all clients and one address may have, by when each step of a request
 * must be done, and which connection is closed when the listener is full.
 *
 * A client that changes its TLS keys again and again costs a processor and sends no byte of a request: after
 * EC_GUARD_MESSAGES its connection is closed, and until then the loop has its turn after each such message.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 address. A new connection is judged before its TLS
 * handshake. The deadlines begin once a step, not at every byte as those of libevent do.
 *
 * When the listener is full (connections or handshakes) and another connection waits, one connection is evicted. The
 * address with the most connections without a finished request loses its oldest such connection, when it has more than
 * one. Else the oldest unfinished handshake is evicted; else the oldest connection without a finished request; else,
 * with evicts_idle, the connection that is idle longest; these three only after EC_GUARD_GRACE_MS. When there is no
 * such connection, accepting pauses: further connections wait in the kernel's queue.
 *
 * Called by: collector/ingest, collector/web, collector/enroll, for connections that evhttp accepts. Calls: libevent.
 * Thread: the loop's; create and destroy while no loop runs. */
#ifndef EC_NET_GUARD_H
#define EC_NET_GUARD_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC_GUARD_GRACE_MS = 1000,
    EC_GUARD_PAUSE_MS = 100, /* of accepting, when it failed or the listener is full */
    EC_GUARD_ADDRESS_BYTES = 9,
    EC_GUARD_BURST_S = 10,
    EC_GUARD_RATES = 4096, /* places for addresses' rates; those of one place share it */
    EC_GUARD_RATE_SLOTS = 6,
    EC_GUARD_FREE_BYTES = 16 << 10, /* of input that a connection may have, whatever the others have */
    EC_GUARD_MESSAGES = 16,         /* of TLS after the handshake, without a finished request in between */
    EC_GUARD_LINGER_S = 5,          /* that a client has to read the answer to a request whose body is not read */
};

typedef struct ec_guard ec_guard;
struct bufferevent;
struct ec_log;
struct ec_tls;
struct event_base;
struct evhttp;
struct evhttp_bound_socket;
struct evhttp_request;

typedef struct ec_guard_limits {
    uint32_t connections;            /* of all addresses; 0: 2,048 */
    uint32_t address_connections;    /* of one address; 0: as connections */
    uint32_t handshakes;             /* unfinished, of all addresses; 0: 1,024; at most half of connections */
    uint32_t address_handshakes;     /* unfinished, of one address; 0: 128; at most half of handshakes */
    uint32_t address_handshake_rate; /* begun by one address in a second, EC_GUARD_BURST_S of it at once; 0: any */
    int64_t handshake_ns;            /* from the connection to the handshake's end; 0: 10 s */
    int64_t head_ns;                 /* from a request's first byte to its head's end; 0: 10 s */
    int64_t body_ns;                 /* the time over which rate_bytes is measured; 0: 30 s */
    uint64_t rate_bytes;             /* least bytes a second of a body; 0: 4 KiB */
    int64_t idle_ns;                 /* without a request under way; 0: 30 s */
} ec_guard_limits;

enum ec_guest_stage {
    EC_GUEST_SHAKING, /* the handshake is not finished */
    EC_GUEST_NEW,     /* no request was whole yet */
    EC_GUEST_USED,
    EC_GUEST_STAGE_COUNT
};

enum ec_guest_step { EC_GUEST_IDLE, EC_GUEST_HEAD, EC_GUEST_BODY, EC_GUEST_ANSWER };

/* One connection. The guard makes and frees it; owners read it. */
typedef struct ec_guest {
    struct ec_guest *next, **link; /* in its stage's list */
    ec_guard *guard;
    struct ec_guard_address *address; /* NULL: not judged yet */
    struct ssl_st *ssl;               /* NULL: plain */
    struct bufferevent *bev;
    struct event *soon;
    int64_t accepted_ns;
    int64_t step_ns; /* when the step began */
    int64_t slot_ns; /* when the current slot of the body's rate began */
    uint32_t slots[EC_GUARD_RATE_SLOTS];
    uint32_t slot, slot_count;
    uint32_t line_bytes;  /* of the head's last line, without its end */
    uint32_t messages;    /* of TLS (KeyUpdate) since the last request */
    uint64_t input_bytes; /* of a request that is not whole: in the input buffer, and chunks that evhttp took from it */
    uint64_t kept_bytes;  /* of these: chunks that evhttp took */
    int is_chunked;       /* the body's length is unknown: evhttp takes it in pieces */
    uint32_t matched;     /* bytes of the head's line that match the header of a chunked body */
    enum ec_guest_stage stage;
    enum ec_guest_step step;
    int is_judged, is_stranger; /* stranger: set by the owner; it may be idle for head_ns only */
    int is_paused;              /* the owner reads nothing of it: no deadline runs (ec_guest_pause) */
    int is_doomed;
    int64_t paused_ns;
    int64_t refused_ns; /* when it was answered before its body (ec_guest_refuse); 0: it was not */
} ec_guest;

typedef struct ec_guard_options {
    const char *what; /* "agents", for the log; borrowed */
    struct event_base *events;
    struct evhttp *http;
    struct ec_tls *tls; /* NULL: plain */
    ec_guard_limits limits;
    int evicts_idle;
    /* Most bytes of requests that are not whole, of all connections and of one address: a connection that goes beyond
     * that, and has more than EC_GUARD_FREE_BYTES, is closed. 0: the owner counts. */
    uint64_t input_bytes, address_input_bytes;
    ea_counters *counters; /* borrowed */
    struct ec_log *log;    /* borrowed; may be NULL */
    /* The owner's part; all may be 0. guest_bytes: of its struct, whose first member is an ec_guest; zeroed. */
    size_t guest_bytes;
    void (*on_handshake)(ec_guest *guest); /* the handshake is finished */
    /* after the guard's own look; chunks that evhttp took are deleted when the request is whole */
    void (*on_input)(ec_guest *guest, size_t added, size_t deleted);
    void (*on_end)(ec_guest *guest);               /* before it is freed */
    const char *(*name_of)(const ec_guest *guest); /* for the log; NULL: a stranger */
    void (*on_second)(void *arg);                  /* after the deadlines */
    void *arg;
} ec_guard_options;

/* Takes the making of http's connections (evhttp_set_bevcb). */
EA_MUST_CHECK int ec_guard_create(ec_guard **ret, const ec_guard_options *options, ea_err *err);
/* The listener, once it is bound to http. */
void ec_guard_listen(ec_guard *g, struct evhttp_bound_socket *bound);
/* No connection is accepted any more; before evhttp_free. NULL is allowed. */
void ec_guard_close(ec_guard *g);
/* After evhttp_free; NULL is allowed. */
void ec_guard_destroy(ec_guard *g);

void *ec_guard_arg(const ec_guard *g);
/* A connection's guest; NULL: bev is NULL or none of the guard's. */
ec_guest *ec_guard_find(const ec_guard *g, struct bufferevent *bev);
/* A whole request of a connection was read; its answer was given to evhttp. guest may be NULL. */
void ec_guest_requested(ec_guest *guest);
void ec_guest_answered(ec_guest *guest);
/* The owner stops and starts reading (bufferevent_disable and _enable). */
void ec_guest_pause(ec_guest *guest);
void ec_guest_go_on(ec_guest *guest);
/* Answers a request, of which a part of the body has come, and ends the connection: answer is the whole response. It is
 * written from below, since evhttp answers a whole request only. What still comes of the body is dropped until the
 * client closes, EC_GUARD_LINGER_S at the longest. For a connection of which no other answer is under way. */
void ec_guest_refuse(ec_guest *guest, const char *answer, size_t len_bytes);
/* Closes a connection from below: libevent sees the end of the stream and frees all that belongs to it. why: for the
 * log, NULL: it is not worth a line; cause: is counted. */
void ec_guest_doom(ec_guest *guest, enum ea_counter cause, const char *why);

#endif
