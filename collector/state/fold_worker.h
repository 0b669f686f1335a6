/* Folding without a collector: a process of its own reads the stored batches, confined to the store. Called by: main.c.
 * Calls: collector/sandbox, state_worker.h. Thread: the caller's. */
#ifndef EC_STATE_FOLD_WORKER_H
#define EC_STATE_FOLD_WORKER_H

#include "proto/base/err.h"

#define EC_FOLD_WORKER_NAME "fold-worker"

/* From now on ec_state_worker_catch_up starts such a process where it would fold itself. The program's main function
 * runs ec_fold_worker_main for EC_FOLD_WORKER_NAME. */
void ec_fold_in_worker(void);
/* The process: folds what its standard input says, and exits. */
int ec_fold_worker_main(void);

#endif
