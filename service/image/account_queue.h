/* SIDs on their way to a machine's names of accounts: those that wait, and those whose name was found. Each is looked
 * up once a session, and again after a while when it had no name: Windows does not say whether there is none, or
 * whether a domain controller was away. Called by: images.c, which has the lock. Calls: none. Thread: any, with the
 * caller's lock. */
#ifndef EA_IMAGE_ACCOUNT_QUEUE_H
#define EA_IMAGE_ACCOUNT_QUEUE_H

#include "proto/base/err.h"
#include "proto/base/map.h"

#include <stdint.h>

enum { EA_ACCOUNTS_MAX = 4096, EA_ACCOUNTS_WAITING = 256, EA_ACCOUNT_NAME_BYTES = 1024 };

typedef struct ea_account_pair {
    char *sid, *name; /* malloc'd */
} ea_account_pair;

typedef struct ea_account_ring {
    ea_account_pair items[EA_ACCOUNTS_WAITING];
    size_t first, count;
} ea_account_ring;

typedef struct ea_account_queue {
    ea_u64_map known; /* hashes of the SIDs that were asked about, EA_ACCOUNTS_MAX at most */
    uint64_t seed;
    int64_t again_ns; /* before one that had no name is asked about again */
    ea_account_ring waiting, found;
    int is_at_hand; /* one is looked up: it has its place in found */
} ea_account_queue;

void ea_account_queue_init(ea_account_queue *q, uint64_t seed, int64_t again_ns);
void ea_account_queue_deinit(ea_account_queue *q);
/* 1: it waits now; 0: it was asked about before; EA_ELIMIT, EA_ENOMEM: there is no room. */
EA_MUST_CHECK int ea_account_queue_ask(ea_account_queue *q, const char *sid, int64_t now_ns);
/* The next one to look up: the caller's; NULL: none waits. */
char *ea_account_queue_next(ea_account_queue *q);
/* What was found for it; name NULL or without memory: nothing. Takes sid. 1 when there is a name. */
int ea_account_queue_put(ea_account_queue *q, char *sid, const char *name, int64_t now_ns);
/* A pair that was found: 1, and it is the caller's; 0: there is none. */
int ea_account_queue_take(ea_account_queue *q, ea_account_pair *ret);
/* Nothing waits any more: how many did. */
size_t ea_account_queue_clear(ea_account_queue *q);

#endif
