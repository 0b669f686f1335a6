/* The sender: takes batches out of the spool, uploads them over HTTPS, and settles them by the collector's answer.
 *
 * POST {collector}/v1/batches over TLS 1.3 with a client certificate on a connection that is kept; the body is batches
 * with their lengths (ack.h), all of one stream; the answer an Ack message. One request is under way at a time. The
 * peer is always verified; there is no way to turn that off. A failure is retried after a pause with decorrelated
 * jitter (each pause is random between the shortest one and three times the last), or when the collector says
 * (Retry-After). Of several collectors it stays with one while that works and goes to the next after two failures in a
 * row.
 *
 * An answer counts only for batches that this request held: an acknowledgement of anything else changes nothing.
 *
 * Input: the spool. Server: collector/ingest. Thread: its own; callbacks run on it. */
#ifndef EA_SHIP_SENDER_H
#define EA_SHIP_SENDER_H

#include "service/ship/proxy.h"
#include "service/spool/spool.h"

typedef struct ea_sender ea_sender;

/* How it may send now, from fast to not at all. */
enum ea_sender_pace {
    EA_PACE_NORMAL,
    EA_PACE_SLOW, /* EA_SENDER_SLOW_BYTES a second at the most */
    EA_PACE_HOLD, /* nothing new; a request under way goes on */
};

enum { EA_SENDER_SLOW_BYTES = 64 << 10 };

/* Asks the collector in use, beside the uploads, whether it has requests (FORMAT.md, "Requests"). Its failures are no
 * failures of the sender. */
typedef struct ea_sender_poll {
    void *arg;
    void (*ask)(void *arg, ea_text *out); /* the body */
    /* status 0: there was no answer. Returns the time until the next poll, about. */
    int64_t (*answer)(void *arg, long status, const uint8_t *data, size_t len_bytes);
} ea_sender_poll;

typedef struct ea_sender_options {
    const char *const *collectors; /* base URLs, https only; copied */
    size_t collector_count;
    const char *cert, *key, *ca; /* PEM files, or places of certificate stores (tls_store.h); copied */
    /* The name, folded, of which the certificate has to be at each connection: a file may be replaced by that of
     * another name. NULL: any. Copied. */
    const char *name;
    const char *proxy;                  /* http://HOST:PORT through which collectors are reached; NULL: none; copied */
    ea_proxy_ask system_proxy;          /* instead: the function that finds it for each collector; NULL: none */
    uint64_t bytes_a_second;            /* limit of uploads; 0: none */
    size_t request_bytes;               /* of batches in one request; 0: 4 MiB */
    int64_t connect_timeout_ns;         /* 0: 10 s */
    int64_t request_timeout_ns;         /* from its start to the end of the answer; 0: 120 s */
    int64_t idle_timeout_ns;            /* without a byte in either direction; 0: 30 s */
    int64_t pause_min_ns, pause_max_ns; /* 0: 250 ms, 60 s */
    /* 1 for a command that a person waits for: what waiting does not mend (certificates, authorisation, a conflict)
     * ends the sender. 0 for a service: it is reported and tried again. */
    int fail_fast;
    int64_t give_up_ns;    /* end when all has failed for so long; 0: never */
    int drain;             /* end when the spool is empty (see ea_sender_drain) */
    ea_counters *counters; /* borrowed: batches_sent, batches_refused, collector_moves */

    void *arg;
    /* The collector has this definition durably for this stream. May be NULL. */
    void (*on_known)(void *arg, const uint8_t *stream, const ea_class_hash *hash);
    /* The collector lacks it (the sender sends it again; so should the encoders of new batches). May be NULL. */
    void (*on_unknown)(void *arg, const uint8_t *stream, const ea_hash_ref *ref);
    /* A collector refused a batch for good (its events are counted as lost). May be NULL. */
    void (*on_refused)(void *arg, const ea_spool_item *item, const ea_refusal *refusal);
    /* After a conflict, the number being taken by another content: gives the stream a new name (ea_spool_renew), so
     * that all of it is sent under that. Nothing is taken from the spool meanwhile. NULL: what conflicts is refused for
     * good (with fail_fast: ends it). */
    int (*renew)(void *arg, const uint8_t *stream, ea_err *err);
    int renew_all; /* also streams that can be taken up again, which go on under their old name otherwise */
    void (*on_keyframe_wanted)(void *arg, const uint8_t *stream); /* may be NULL */
    /* Asked before each request. NULL: normal. */
    enum ea_sender_pace (*pace)(void *pace_arg);
    void *pace_arg;
    const ea_sender_poll *poll; /* NULL: none; its struct is copied */
    /* Something went wrong, or (err->code 0) works again: once for each change. May be NULL. */
    void (*on_error)(void *arg, const ea_err *err);
} ea_sender_options;

typedef struct ea_sender_status {
    uint64_t requests, failures, sent_bytes; /* bodies, repeats included */
    size_t collector;                        /* index of the one in use */
} ea_sender_status;

/* Checks the options and starts the thread. spool is borrowed until ea_sender_destroy. */
EA_MUST_CHECK int ea_sender_start(ea_sender **ret, ea_spool *spool, const ea_sender_options *options, ea_err *err);
/* Ends as soon as the spool is empty. Any thread. */
void ea_sender_drain(ea_sender *s);
/* Ends the current or the next pause after a failure early; a pause that the collector requested is not shortened. Any
 * thread. */
void ea_sender_end_pause(ea_sender *s);
/* Ends now; a request under way is broken off and its batches stay in the spool. Any thread. */
void ea_sender_stop(ea_sender *s);
/* 1 when the sender has ended, after at most timeout_ns; 0 when it still runs. Any thread. */
int ea_sender_wait(ea_sender *s, int64_t timeout_ns);
/* Why it ended: 0 (drained), EA_ECANCELED (stopped), or what fail_fast or give_up_ns ended it for. Only after it ended.
 */
EA_MUST_CHECK int ea_sender_result(ea_sender *s, ea_err *err);
void ea_sender_get_status(ea_sender *s, ea_sender_status *ret);
/* Stops it if it runs, and waits. */
void ea_sender_destroy(ea_sender *s);

#endif
