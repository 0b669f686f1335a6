/* Detects duplicate agent identities: two agents that present the same certificate at the same time (a cloned machine,
 * a copied key, a second agent beside the first).
 * Called by: writer.c, once an upload. Calls: none. Thread: the writer's.
 *
 * An agent names its run by a random word in each request (FORMAT.md, "Upload") and has one connection at a time. So
 * runs and connections of one identity follow each other: when a run returns after another run was seen, both agents
 * run. This is noted from the second such return within an hour on, since a single return may be a late request of an
 * ended run. Only the note depends on it: stream, number and checksum decide what is stored. */
#ifndef EC_INGEST_DUPLICATE_AGENTS_H
#define EC_INGEST_DUPLICATE_AGENTS_H

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

/* What is worth a note: the other run. Texts are the table's, valid until the next call. */
typedef struct ec_duplicate_agent {
    const char *other_run, *other_peer;
    int64_t other_age_ns; /* since its last visit */
} ec_duplicate_agent;

/* agents: the number of agents that are remembered. A new agent replaces the agent that was silent longest among the
 * few that share its set in the table. 0: 16,384, which is 11 MB when all of them have come. */
EA_MUST_CHECK int ec_duplicate_agents_create(ec_duplicate_agents **ret, uint32_t agents, ea_err *err);
void ec_duplicate_agents_destroy(ec_duplicate_agents *t); /* NULL is allowed */

/* Notes a visit at now_ns (monotonic). 1 with ret when the identity is in use twice at a time, else 0. */
int ec_duplicate_agents_see(ec_duplicate_agents *t, const ec_visit *visit, int64_t now_ns, ec_duplicate_agent *ret);
/* Whether a notice of kind `what` (0 ... 7, the caller's numbers) of this agent may be logged now: once an hour. */
int ec_duplicate_agents_may_report(ec_duplicate_agents *t, const char *agent, unsigned what, int64_t now_ns);

#endif
