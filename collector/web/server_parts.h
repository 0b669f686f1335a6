/* What call.c and server.c share: the server, its calls, and the pieces of answers on their way from the threads that
 * answer to the loop that sends. Uses: call.h, web.h. Thread: said of each member. */
#ifndef EC_WEB_SERVER_PARTS_H
#define EC_WEB_SERVER_PARTS_H

#include "collector/net/http.h"
#include "collector/net/listen.h"
#include "collector/web/call.h"
#include "proto/base/platform.h"

enum { EC_LISTEN_THREADS = 16 };

typedef struct ec_sender ec_sender;

/* A call, and what the server knows of it. */
struct ec_sender {
    ec_call call;
    ec_web *web;
    struct ec_sender *next;                 /* in its caller's queue */
    struct ec_caller *caller;               /* under the mutex; NULL: not queued */
    struct ec_sender *all_next, **all_link; /* of all calls: the loop's */
    struct evhttp_request *http;            /* the loop's */
    struct evhttp_connection *connection;   /* the loop's; NULL when it is gone */
    ec_token token;                         /* what call.token points to */
    char address[EC_HOST_BYTES];
    char *input;                       /* the body's copy */
    char *query;                       /* of the URL, as it was sent; NULL: none */
    int is_audited;                    /* the loop's */
    int has_begun;                     /* the loop has sent the head of an answer in pieces */
    int was_flushed;                   /* the answering thread's: there are pieces already */
    int is_broken;                     /* the loop has cut the connection: the answer stays incomplete */
    int64_t checked_ns;                /* the answering thread's: when the token was looked at last */
    size_t queued_bytes, output_bytes; /* in pieces; in the connection's buffer. Under the mutex */
    uint64_t taken_bytes;              /* that left the connection's buffer; under the mutex */
};

typedef struct ec_piece {
    struct ec_piece *next;
    ec_sender *from;
    ea_text text;
    int is_last, is_whole; /* whole: the answer's only one */
    int is_broken;         /* the last one of an answer that stays incomplete */
} ec_piece;

/* One token, or without tokens one address: its calls of a pool. */
typedef struct ec_caller {
    struct ec_caller *next; /* of the pool's ring */
    char key[EC_HOST_BYTES];
    ec_sender *first, **last; /* that wait */
    size_t waiting, running;
    size_t body_bytes; /* of both */
} ec_caller;

typedef struct ec_web_pool {
    ec_caller *ring;        /* the caller that was served last: the next one's turn is first. NULL: no caller */
    size_t waiting, of_one; /* of_one: calls of one caller that are answered at a time */
    ea_thread *threads[EC_LISTEN_THREADS];
    size_t thread_count;
    ec_web *web;
} ec_web_pool;

struct ec_web {
    ec_web_options options;
    char *listen, *store;
    char host[EC_HOST_BYTES];
    uint16_t port;
    const ec_route *routes; /* ends with a NULL path */
    ec_http http;
    ec_sender *calls; /* the loop's */
    ea_thread *loop;

    ea_mutex *mutex; /* guards all that follows, and what is in pools */
    ea_cond *changed;
    ec_web_pool pools[EC_POOL_COUNT];
    ec_piece *pieces, **pieces_last;
    int quit;
};

/* Hands the text of a call to the loop; is_last: the answer's end. 0 or EA_ENOMEM. Thread: the answering one. */
int ec_call_leave(ec_sender *s, int is_last, int is_whole, int is_broken);
/* ec_call_flush, but waits while more than most_bytes of the answer are not taken. */
EA_MUST_CHECK int ec_call_flush_to(ec_call *c, size_t most_bytes, ea_err *err);

#endif
