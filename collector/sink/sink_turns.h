/* Whose rows a sink sends next. All agents share one place, in the order of arrival. An agent that takes more than its
 * share of a request, or whose rows are refused or fail, gets a place of its own and is apart: it has turns of its
 * own, with its rows alone, until it has caught up. The turn is of whom has used least time; the time of a shared
 * request counts in equal parts for the agents in it. So an agent apart delays the others by about one turn, as if it
 * were one agent among them, whatever it sends. Called by: sink.c. Calls: sink_places.h. Thread: its owner's. */
#ifndef EC_SINK_SINK_TURNS_H
#define EC_SINK_SINK_TURNS_H

#include "collector/state/sink_places.h"

enum {
    EC_TURNS_MAX = 1024,      /* agents apart; further ones stay with the others */
    EC_TURN_ROWS_FIRST = 256, /* of the first turn of an agent apart; they double while turns are short */
    EC_TURN_ROWS_LEAST = 16,
};

typedef struct ec_sink_turn {
    ec_sink_apart own;      /* host "": of all that are not apart */
    uint64_t rows_max;      /* of a turn */
    size_t limit;           /* rows of a request */
    int failures;           /* in a row */
    int64_t wait_ns;        /* after the next failure */
    int64_t used_ns;        /* compared with that of other turns */
    int64_t not_before_ns;  /* monotonic; 0: it does not wait */
    int64_t alone_until_ns; /* monotonic: caught up or not, it stays apart until then */
    int is_changed;         /* since it was written */
} ec_sink_turn;

typedef struct ec_sink_turns {
    ec_sink_turn all, *apart; /* apart: of EC_TURNS_MAX */
    size_t count;
    int is_quiet;     /* the others had nothing when they were asked last */
    int64_t begun_ns; /* the most that a turn had used when it was chosen */
    ec_sink_turn *now;
} ec_sink_turns;

EA_MUST_CHECK int ec_sink_turns_init(ec_sink_turns *t, uint64_t rows_max, int64_t wait_ns, ea_err *err);
void ec_sink_turns_deinit(ec_sink_turns *t);
/* NULL: the host is not apart. */
ec_sink_turn *ec_sink_turns_find(const ec_sink_turns *t, const char *host);
/* The host is apart from this place on. NULL: there are too many. */
ec_sink_turn *ec_sink_turns_add(ec_sink_turns *t, const char *host, const ec_sink_place *place);
/* It is no more. The turn is that of all then. */
void ec_sink_turns_remove(ec_sink_turns *t, ec_sink_turn *turn);
/* Whose turn it is; NULL: of none now. */
ec_sink_turn *ec_sink_turns_choose(ec_sink_turns *t, int64_t now_ns);
/* A turn took so long, for rows of so many hosts. */
void ec_sink_turns_charge(ec_sink_turns *t, int64_t took_ns, size_t host_count);
/* Those of all had nothing. */
void ec_sink_turns_quiet(ec_sink_turns *t);

#endif
