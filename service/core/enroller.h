/* Sees to the agent's certificate while the agent runs: gets the first one with a token, and the next one when less
 * than a third of its life is left. What fails is tried again, after pauses that grow to five minutes.
 *
 * It never touches files that are in use: new ones lie beside them until the main thread, which then starts the sender
 * anew, has them installed. The token's file is removed when it has served. Called by: agent.c. Calls:
 * service/ship/enroll_client.h. Thread: one of its own; the functions are the main thread's. */
#ifndef EA_CORE_ENROLLER_H
#define EA_CORE_ENROLLER_H

#include "service/core/shipping.h"

typedef struct ea_enroller ea_enroller;

enum ea_enroller_state {
    EA_ENROLLER_WANTS, /* there is no certificate that is valid; error says why not */
    EA_ENROLLER_HAS,   /* error: why there is no next one, if that is due */
    EA_ENROLLER_FRESH, /* a new one waits for ea_enroller_install */
};

typedef struct ea_enroller_status {
    enum ea_enroller_state state;
    int64_t not_after_s; /* of the certificate, since 1970; 0: none */
    ea_err error;        /* code 0: none */
} ea_enroller_status;

/* o->enroll is set; o is read here and not kept. Mends what a crash left between two files before anything else. */
EA_MUST_CHECK int ea_enroller_start(ea_enroller **ret, const ea_shipping_options *o, ea_err *err);
void ea_enroller_stop(ea_enroller *e); /* NULL is allowed; breaks off a request under way */
void ea_enroller_get_status(ea_enroller *e, ea_enroller_status *ret);
/* In state FRESH: moves the new files into place. The status has the result. */
void ea_enroller_install(ea_enroller *e);

#endif
