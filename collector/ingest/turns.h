/* The queue of waiting uploads, in the order of their agents' turns: the first upload of each agent comes before the
 * second upload of any agent, in whatever order they arrived. Called by: ingest_server.c's uploads. Calls: none.
 * Uploads leave it for verifier.c and writer.c. Thread: its owner locks. */
#ifndef EC_INGEST_TURNS_H
#define EC_INGEST_TURNS_H

#include "collector/ingest/upload.h"

typedef struct ec_turns {
    ec_upload *first; /* in the order of turns, then of arrival */
    uint64_t turn;    /* of the last upload that was taken */
    size_t count;
    uint64_t len_bytes;
} ec_turns;

/* Appends an upload, which takes the turn after its agent's last one. */
void ec_turns_add(ec_turns *t, ec_upload *upload);
/* Takes an upload out; *at is an upload's place in the list, such as &t->first. */
ec_upload *ec_turns_take(ec_turns *t, ec_upload **at);
/* Whether an upload of another agent is in a list of uploads. */
int ec_turns_have_other(const ec_upload *list, const char *agent);

#endif
