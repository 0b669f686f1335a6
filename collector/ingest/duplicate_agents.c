/* Identities in use. See duplicate_agents.h. */
#include "collector/ingest/duplicate_agents.h"

#include "proto/base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAYS = 8, /* agents that share a place */
    DEFAULT_AGENTS = 16384,
    RETURNS_TO_TELL = 2,
    KINDS = 8,
    CONNECTIONS = 3, /* of one run: the last one, and those before */
};

static const int64_t HOUR_NS = INT64_C(3600) * 1000000000;

typedef struct run_entry {
    char run[EC_RUN_BYTES + 1], peer[EC_PEER_BYTES + 1];
    uint64_t connections[CONNECTIONS]; /* 0: none */
    int64_t seen_ns;                   /* 0: unused */
} run_entry;

typedef struct identity {
    char agent[256];
    run_entry runs[EC_RUNS_OF_AGENT]; /* the run of the latest upload is first */
    run_entry other;                  /* the other run when the last return was noted */
    int64_t seen_ns, returned_ns;
    uint32_t returns;
    int64_t reported_ns[KINDS]; /* 0: never */
} identity;

struct ec_duplicate_agents {
    identity *rows;
    uint64_t sets;
};

int ec_duplicate_agents_create(ec_duplicate_agents **ret, uint32_t agents, ea_err *err) {
    ec_duplicate_agents *t = calloc(1, sizeof *t);
    if (t) {
        t->sets = ((agents ? agents : DEFAULT_AGENTS) + WAYS - 1) / WAYS;
        t->rows = calloc((size_t)t->sets * WAYS, sizeof *t->rows);
    }
    if (!t || !t->rows) {
        ec_duplicate_agents_destroy(t);
        return ea_fail(err, EA_ENOMEM, "remember identities");
    }
    *ret = t;
    return 0;
}

void ec_duplicate_agents_destroy(ec_duplicate_agents *t) {
    if (!t)
        return;
    free(t->rows);
    free(t);
}

/* Finds the agent's row. A new agent replaces the agent of the same set that was silent longest. */
static identity *duplicate_agents_row_of(ec_duplicate_agents *t, const char *agent) {
    identity *set = &t->rows[ea_hash64(agent, strlen(agent), 0) % t->sets * WAYS], *oldest = set;
    for (int i = 0; i < WAYS; i++) {
        if (strcmp(set[i].agent, agent) == 0)
            return &set[i];
        if (set[i].seen_ns < oldest->seen_ns)
            oldest = &set[i];
    }
    memset(oldest, 0, sizeof *oldest);
    snprintf(oldest->agent, sizeof oldest->agent, "%s", agent);
    return oldest;
}

/* 1 when the connection came before another one of the same run. */
static int take_connection(run_entry *r, uint64_t connection) {
    int known = 0;
    if (r->connections[0] == connection)
        return 0;
    for (int i = 1; i < CONNECTIONS; i++)
        known |= r->connections[i] == connection;
    memmove(&r->connections[1], &r->connections[0], (CONNECTIONS - 1) * sizeof r->connections[0]);
    r->connections[0] = connection;
    return known;
}

int ec_duplicate_agents_see(ec_duplicate_agents *t, const ec_visit *v, int64_t now_ns, ec_duplicate_agent *ret) {
    identity *row = duplicate_agents_row_of(t, v->agent);
    int at = 0, returned = 0;
    row->seen_ns = now_ns;
    while (at < EC_RUNS_OF_AGENT && (!row->runs[at].seen_ns || strcmp(row->runs[at].run, v->run) != 0))
        at++;
    if (at == 0) {
        returned = take_connection(&row->runs[0], v->connection);
        if (returned)
            row->other = row->runs[0];
    } else {
        run_entry mine = {0};
        if (at < EC_RUNS_OF_AGENT) {
            mine = row->runs[at];
            returned = 1;
            row->other = row->runs[0];
        } else {
            at = EC_RUNS_OF_AGENT - 1; /* the oldest is forgotten */
            snprintf(mine.run, sizeof mine.run, "%s", v->run);
        }
        (void)take_connection(&mine, v->connection);
        memmove(&row->runs[1], &row->runs[0], (size_t)at * sizeof row->runs[0]);
        row->runs[0] = mine;
    }
    snprintf(row->runs[0].peer, sizeof row->runs[0].peer, "%s", v->peer);
    int64_t other_ns = row->other.seen_ns;
    row->runs[0].seen_ns = now_ns;
    if (!returned)
        return 0;
    if (now_ns - row->returned_ns > HOUR_NS)
        row->returns = 0;
    row->returned_ns = now_ns;
    if (++row->returns < RETURNS_TO_TELL)
        return 0;
    *ret = (ec_duplicate_agent){
        .other_run = row->other.run, .other_peer = row->other.peer, .other_age_ns = now_ns - other_ns};
    return 1;
}

int ec_duplicate_agents_may_report(ec_duplicate_agents *t, const char *agent, unsigned what, int64_t now_ns) {
    identity *row = duplicate_agents_row_of(t, agent);
    int64_t *reported_ns = &row->reported_ns[what % KINDS];
    if (*reported_ns && now_ns - *reported_ns < HOUR_NS)
        return 0;
    *reported_ns = now_ns ? now_ns : 1;
    if (!row->seen_ns)
        row->seen_ns = now_ns;
    return 1;
}
