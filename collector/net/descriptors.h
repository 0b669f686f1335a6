/* What the process has for its listeners as a whole: descriptors, and libevent's messages. Called by: cmd_run.c, before
 * the listeners start. Thread: the main one, before it starts any other. */
#ifndef EC_NET_DESCRIPTORS_H
#define EC_NET_DESCRIPTORS_H

#include "collector/net/guard.h"
#include "collector/net/log.h"

/* Raises the soft limit of open descriptors to the hard one. Returns how many the listeners may use in all: the rest is
 * reserved for the store and child processes (half of the limit, at most EC_DESCRIPTORS_RESERVED). */
enum { EC_DESCRIPTORS_RESERVED = 1024 };

uint64_t ec_descriptors_raise(void);

/* One listener's bound of connections. */
typedef struct ec_descriptors_share {
    const char *option; /* for the log */
    uint32_t *connections;
    unsigned listeners; /* which have this bound each; 0: none */
} ec_descriptors_share;

/* Lowers the bounds until all fit into descriptors: those that want more than an equal share of what the smaller ones
 * leave get that share. Each bound that is lowered is logged. Bounds are at least 1. */
void ec_descriptors_divide(uint64_t descriptors, ec_descriptors_share *shares, size_t count, ec_log *log);

/* libevent's warnings and errors go to this log from now on; NULL: to standard error, as libevent does. */
void ec_libevent_log(ec_log *log);

#endif
