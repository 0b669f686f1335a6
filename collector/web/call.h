/* One request while it is answered, and what a route is. Input: server.c, which makes calls out of HTTP. Used by: the
 * handlers in api*.c. Thread: the handler's, but for `canceled`, which any may set. */
#ifndef EC_WEB_CALL_H
#define EC_WEB_CALL_H

#include "collector/access/access.h"
#include "collector/query/sql/ask.h"
#include "collector/web/web.h"
#include "proto/base/text.h"

#include <stdatomic.h>

enum { EC_PARTS_MAX = 4 };

enum ec_method { EC_GET = 1, EC_POST = 2 };

typedef struct ec_param {
    char *name, *value; /* decoded, without NUL inside */
} ec_param;

typedef struct ec_route ec_route;

typedef struct ec_call {
    const ec_web_options *options;
    const ec_route *route;
    char *path; /* decoded */
    ec_param *params;
    size_t param_count;
    char *parts[EC_PARTS_MAX]; /* the values at the {names} of the route's path, decoded */
    char *statement;           /* SQL of a POST, for the audit log; NULL: none */
    char *note;                /* what was done, for the audit log; NULL: nothing */
    const char *body;          /* of a POST, followed by a NUL */
    size_t body_bytes;
    char *if_none_match; /* NULL: none */
    int accepts_gzip;
    int accepts_open_metrics;
    const ec_token *token; /* the caller's; NULL: anybody on this machine */
    const char *caller;    /* the token's id, or the address: whose turn, and whose quota */
    atomic_int canceled;   /* who asked is gone, or the server stops */

    /* the answer: filled in by the handler */
    int status;             /* 0: 200 */
    unsigned retry_after_s; /* with 429 and 503; 0: 1 s */
    const char *type;       /* of the content; NULL: JSON */
    const char *etag;       /* NULL: none, and not kept by browsers */
    const char *encoding;
    char disposition[96]; /* Content-Disposition; "": none */
    ea_text out;
    struct ec_sender *sender; /* server_parts.h */
} ec_call;

/* Answers a call. An error becomes a problem document (RFC 9457) with its message: EA_EUSAGE 400, EA_ENOTFOUND 404,
 * EA_EREFUSED 403, EA_ELIMIT 422, EA_ETIMEOUT 503, others 500. */
typedef int (*ec_handler)(ec_call *c, ea_err *err);

/* Calls of a pool share its threads and its queue, so that those who listen for long do not hold up the others. */
enum ec_pool { EC_POOL_QUESTION, EC_POOL_LISTEN, EC_POOL_COUNT };

struct ec_route {
    enum ec_method method;
    const char *path; /* "/api/v1/hosts/{host}"; a part in braces is any one part */
    enum ec_pool pool;
    ec_handler answer;
    const char *params; /* names of the parameters of the query string that it reads, with spaces between; "": none;
                         * NULL: the handler checks them, or they are the browser's */
};

/* The value of a parameter of the query string; NULL when it is not there. */
const char *ec_call_param(const ec_call *c, const char *name);
/* EA_EUSAGE, with the names that there are, when the query string has a parameter that is not among known: a misspelt
 * filter would be no filter. known: as ec_route.params. */
EA_MUST_CHECK int ec_call_check_params(const ec_call *c, const char *known, ea_err *err);
/* EA_EREFUSED when the call's token may not see the host. */
EA_MUST_CHECK int ec_call_may_see(const ec_call *c, const char *host, ea_err *err);
/* Patterns of the hosts that the call's token may see (pattern.h), borrowed from the call; NULL: all. */
const char *ec_call_shown(const ec_call *c);
/* Asks (ask.h) on behalf of the call: nothing of a host that its token may not see is there. EA_EREFUSED when the
 * question names such a host. */
EA_MUST_CHECK int ec_call_ask(ec_call *c, const ec_question *question, const ec_listener *listener, ec_outcome *ret,
                              ea_err *err);
/* Charges the caller's quota with what an answer took of a processor. Thread: the handler's. */
void ec_call_charge(const ec_call *c, int64_t processor_ns);
/* Sends what is in `out` now; the handler goes on afterwards. Waits while the other side is slow. EA_ECANCELED. */
EA_MUST_CHECK int ec_call_flush(ec_call *c, ea_err *err);
/* Waits for so long, or until the call is canceled: then EA_ECANCELED. */
EA_MUST_CHECK int ec_call_wait(ec_call *c, int64_t ns, ea_err *err);

#endif
