/* One visitor of a dashboard that lasts as long as a command ("etwcollector open --web"): a ticket in the address that
 * the command prints is good once, for a limited time, and gives the browser a cookie, which every later request has.
 *
 * So another user of the machine, who can reach the port, reads nothing: also not with the ticket, which a browser's
 * command line shows to every user. The first request with the ticket takes it: a visitor who finds it used knows that
 * another has it. An address that was left in a terminal or a history is of no use later. Both secrets are 256 random
 * bits and live in memory alone. Times are monotonic.
 * Called by: collector/web, on every request; etwcollector open. Calls: nothing. Thread: the server's loop, but for
 * ec_visit_has_expired: any. */
#ifndef EC_ACCESS_VISIT_H
#define EC_ACCESS_VISIT_H

#include "proto/base/err.h"

#include <stdint.h>

enum { EC_VISIT_SECRET_BYTES = 65, EC_VISIT_COOKIE_BYTES = 160 };

typedef struct ec_visit ec_visit;

/* until_ns: the ticket is good before it. */
EA_MUST_CHECK int ec_visit_create(ec_visit **ret, int64_t until_ns, ea_err *err);
void ec_visit_destroy(ec_visit *v); /* NULL is allowed */
/* What the address has as ?ticket=...; hex digits. */
const char *ec_visit_ticket(const ec_visit *v);
/* Whether the visitor's process may be of that user: of this process's, of root, or of the one who typed sudo. */
int ec_visit_may_be(const ec_visit *v, uint32_t user);
/* 1 for the right ticket that was not used, in its time. */
int ec_visit_is_right(const ec_visit *v, const char *ticket, int64_t now_ns);
/* 1 when the time of the ticket passed without its use: then there will be no visitor. */
int ec_visit_has_expired(const ec_visit *v, int64_t now_ns);
/* 1, once, for the right ticket: then ret_cookie is the value of Set-Cookie. port: of the server, since browsers send
 * cookies to all ports of a host. */
int ec_visit_redeem(ec_visit *v, const char *ticket, int64_t now_ns, uint16_t port,
                    char ret_cookie[EC_VISIT_COOKIE_BYTES]);
/* 1 when the header Cookie (NULL: there is none) has the visitor's. */
int ec_visit_has_cookie(const ec_visit *v, const char *header, uint16_t port);

#endif
