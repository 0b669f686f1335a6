/* Who uses an identity: notices when two agents present the same certificate at a time (a cloned machine, a copied
 * key, a second agent beside the first).
 * Before it: writer.c, once an upload. After it: nothing. Thread: the writer's.
 *
 * An agent names its run by a random word in each request (FORMAT.md, "Upload") and has one connection at a time. So
 * runs and connections of one identity follow each other: one that comes back after another has come means that both
 * are there. It is noted from the second such return within an hour on, since a single one may be a request that an
 * ended run left behind. Nothing depends on it but the note: what is stored is decided by stream, number and checksum.
 */
#ifndef EC_INGEST_IDENTITIES_H
#define EC_INGEST_IDENTITIES_H

#include "proto/base/err.h"

#include <stdint.h>

typedef struct ec_duplicate_agents ec_duplicate_agents;

enum {
    EC_RUN_BYTES = 32,   /* longest name of a run */
    EC_PEER_BYTES = 63,  /* longest address that is kept */
    EC_RUNS_OF_AGENT = 4 /* the last ones are remembered */
};

/* One upload, as far as this is about it. */
typedef struct ec_visit {
    const char *agent;
    const char *run;     /* "": the agent does not say */
    const char *peer;    /* address, for a person */
    uint64_t connection; /* of this process; no number comes twice */
} ec_visit;

/* What is worth telling: the other one. Texts are the table's, until the next call. */
typedef struct ec_twin {
    const char *other_run, *other_peer;
    int64_t other_age_ns; /* since its last visit */
} ec_twin;

/* agents: how many are remembered, in all; the one that was silent longest gives way to a new one (of the few
 * that share its place in the table). 0: 16,384, which is 11 MB when all of them have come. */
EA_MUST_CHECK int ec_duplicate_agents_create(ec_duplicate_agents **ret, uint32_t agents, ea_err *err);
void ec_duplicate_agents_destroy(ec_duplicate_agents *t); /* NULL is allowed */

/* Notes a visit at now_ns (monotonic). 1 with ret when the identity is in use twice at a time, else 0. */
int ec_duplicate_agents_see(ec_duplicate_agents *t, const ec_visit *visit, int64_t now_ns, ec_twin *ret);
/* Whether something about this agent (0 ... 7, the caller's numbers) may be told now: once an hour. */
int ec_duplicate_agents_may_tell(ec_duplicate_agents *t, const char *agent, unsigned what, int64_t now_ns);

#endif
