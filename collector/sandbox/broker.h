/* A process outside of the daemon's sandbox. The daemon, which parses what agents and readers send, gives up the right
 * to open the files of its configuration and the CA's folder (sandbox.h); the broker, which it starts before, opens a
 * fixed list of files for it, starts a fixed list of children, and reads nothing that came over the network. It is this
 * program again, with EC_BROKER_NAME as its only argument, and it ends with the daemon.
 *
 * What a request can name is a place in the list that ec_broker_settle gave; the list cannot be changed later. So code
 * that takes over the daemon gets the listed files for reading, as the daemon had them, and nothing else. Called by:
 * collector/app. Calls: child.h. Thread: any, one request at a time (a lock in it). */
#ifndef EC_SANDBOX_BROKER_H
#define EC_SANDBOX_BROKER_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EC_BROKER_NAME "file-broker"

typedef struct ec_broker ec_broker;

enum { EC_BROKER_PATHS_MAX = 16, EC_BROKER_WRITE_MAX = 64, EC_BROKER_CHILDREN_MAX = 17 };

/* A child that it starts when it is asked to, one at a time. */
typedef struct ec_broker_child {
    const char *name;             /* as ec_child_options has it */
    const char *const *variables; /* of the broker's environment, that it gets; NULL: none */
    const void *greeting;         /* the first bytes on its standard input, fewer than a pipe holds */
    size_t greeting_bytes;
} ec_broker_child;

typedef struct ec_broker_duties {
    const char *const *paths; /* that it opens for reading; NULL among them is skipped */
    size_t path_count;        /* at most EC_BROKER_PATHS_MAX */
    const char *written;      /* the one file that it writes; NULL: none */
    const ec_broker_child *children;
    size_t child_count; /* at most EC_BROKER_CHILDREN_MAX */
} ec_broker_duties;

/* Starts it. variables: those of this environment that it gets, for its children; NULL: none. */
EA_MUST_CHECK int ec_broker_start(ec_broker **ret, const char *const *variables, ea_err *err);
pid_t ec_broker_pid(const ec_broker *b);
/* Says, once, what it is for. Borrows duties during the call. EA_ELIMIT: too many paths or bytes. */
EA_MUST_CHECK int ec_broker_settle(ec_broker *b, const ec_broker_duties *duties, ea_err *err);
/* Ends it and its children. NULL is allowed. */
void ec_broker_stop(ec_broker *b);
/* 1 when the process has ended, which leaves the daemon without it: it must end, too. */
int ec_broker_has_ended(ec_broker *b);

/* Reads a listed file: its bytes, malloc'd, followed by a NUL. b NULL: this process opens the file itself. EA_EIO (with
 * the operating system's error), EA_ELIMIT: more than max_bytes. */
EA_MUST_CHECK int ec_broker_read(ec_broker *b, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes,
                                 ea_err *err);
/* Writes the one file that it writes; at most EC_BROKER_WRITE_MAX bytes. */
EA_MUST_CHECK int ec_broker_write(ec_broker *b, const void *data, size_t len_bytes, ea_err *err);

/* Starts a child of the list, whose standard input and output the caller gets and closes; the greeting was sent.
 * EA_EBUSY: the one before was not ended yet. */
EA_MUST_CHECK int ec_broker_start_child(ec_broker *b, size_t child, int *ret_in, int *ret_out, ea_err *err);
/* 1 when the child has ended, by itself: *ret_status as of waitpid. 0: it runs, or there is none. */
int ec_broker_child_ended(ec_broker *b, size_t child, int *ret_status);
/* Asks it to end, by SIGTERM. */
void ec_broker_ask_child(ec_broker *b, size_t child);
void ec_broker_end_child(ec_broker *b, size_t child);

/* Gives a child of the daemon the out-of-memory score of a child (child.h), which one of a confined process cannot give
 * itself. b NULL: nothing is done. */
void ec_broker_lower(ec_broker *b, pid_t child);

/* The process's main(): returns its exit code. */
int ec_broker_main(void);

#endif
