/* Computes a profile for an HTTP request in a child process with limits, so that hostile batches cannot harm the
 * server. Called by: flame.c. Calls, in the child: collector/query's profile. The child can read only the store
 * (confine.h), and gets names from a symbol worker (symbol_worker.h). Thread: the caller's.
 *
 * Messages (message.h), in: P (the request). Out: D (a piece of the answer) repeatedly, then E (an error's code and
 * text; code 0: none). No D comes before an error. */
#ifndef EC_WEB_PROFILE_WORKER_H
#define EC_WEB_PROFILE_WORKER_H

#include "collector/query/export/profile_write.h"
#include "collector/sandbox/broker.h"
#include "collector/symbols/symbols.h"

#include <stdatomic.h>

#define EC_PROFILE_WORKER_NAME "profile-worker"

typedef struct ec_profile_question {
    const ec_profile_request *request; /* without namer and keep_going */
    enum ec_profile_format format;
    const ec_symbols_options *symbols; /* NULL: places stay places */
    ec_broker *broker;                 /* as of ec_question */
    int64_t limit_ns;
    uint64_t limit_bytes, limit_temp_bytes;
    int (*on_piece)(void *arg, const void *data, size_t len_bytes, ea_err *err); /* 0, or what ends the call */
    void *arg;
} ec_profile_question;

/* Asks, and waits for the end. stop: looked at now and then. Errors: as ec_profile_run and ec_profile_write;
 * EA_ETIMEOUT: not within limit_ns, EA_ELIMIT: not within limit_bytes, EA_ECANCELED: *stop; EA_EIO.
 * ret_processor_ns: what its process had of a processor, also when it failed; unchanged when none was started. */
EA_MUST_CHECK int ec_profile_ask(const ec_profile_question *q, atomic_int *stop, int64_t *ret_processor_ns,
                                 ea_err *err);

/* The child's main(): returns its exit code. */
int ec_profile_worker_main(void);

#endif
