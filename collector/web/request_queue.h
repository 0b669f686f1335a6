/* Signed requests to agents, handed in over the API. The collector has no key that signs: it checks what a person
 * signed elsewhere, and queues it. Called by: api.c. Calls: body.h, collector/state (requests.h), request_key.h.
 * Thread: the handler's. */
#ifndef EC_WEB_REQUEST_QUEUE_H
#define EC_WEB_REQUEST_QUEUE_H

#include "collector/web/call.h"

/* POST /api/v1/requests {"signed": "base64 of the file that \"request window -o\" wrote"}, with a token of scope
 * operate that sees each host of the request. EA_EREFUSED: no such token, or the collector has no key (run
 * --request-key), or another one signed it; EA_EUSAGE: its form, its number, its expiry; EA_ELIMIT. Each refusal is
 * counted, with its reason in the audit log. */
EA_MUST_CHECK int ec_request_hand_in(ec_call *c, ea_err *err);

#endif
