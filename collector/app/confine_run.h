/* The sandbox of the daemon itself: it parses what agents and readers send, in its own process, and cannot open the
 * files that it does not need for that. Called by: cmd_run.c, before the first thread and the first listener;
 * question.c. Calls: collector/sandbox. Thread: the main one. */
#ifndef EC_APP_CONFINE_RUN_H
#define EC_APP_CONFINE_RUN_H

#include "collector/net/log.h"
#include "collector/sandbox/sandbox.h"
#include "collector/symbols/symbols.h"

typedef struct ec_run_confinement {
    const char *store;                 /* the folder of the store, which stays whole: read, written, made, removed */
    const ec_symbols_options *symbols; /* NULL: names are not resolved */
    const char *ca_dir;                /* which must be out of reach afterwards; NULL: there is none */
    const char *archive;               /* the folder of the archive, like the store's; NULL: there is none */
    const char *rules;                 /* the folder of Sigma rules, which is read again later; NULL: there is none */
    ec_log *log;
} ec_run_confinement;

/* Gives up, for good and for all processes that are started later: files but those of the store, of the symbol path,
 * of the rules, programs and libraries; connections, when the symbol path names no server; new privileges,
 * capabilities, and system calls that reach into other processes. What the kernel lacks is skipped. *ret_ca_in_reach: 1
 * when the CA's folder can be opened all the same, which is logged with the reason. Errors: as ec_sandbox_enter,
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_run_confine(const ec_run_confinement *c, int *ret_ca_in_reach, ea_err *err);

/* What processes of this program load and read when a confined process starts them. */
typedef struct ec_own_programs {
    ec_sandbox_path *paths;
    size_t count, capacity;
    int failed; /* the list is not whole */
} ec_own_programs;

/* *p: zeroed; it is to be given to ec_own_programs_deinit, also on failure. Errors: EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ec_own_programs_list(ec_own_programs *p, ea_err *err);
void ec_own_programs_deinit(ec_own_programs *p);

#endif
