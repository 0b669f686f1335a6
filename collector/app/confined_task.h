/* A command that reads or changes a store by itself does so in a process of its own, which has the files of the command
 * and nothing else: what is in a store came from agents, and a backup from anywhere. The command waits, and gives
 * afterwards to the store's owner what root has made there. Called by: the commands backup, restore, forget, quota,
 * token. Calls: collector/sandbox. Thread: the main one, before there are others. */
#ifndef EC_APP_CONFINED_TASK_H
#define EC_APP_CONFINED_TASK_H

#include "collector/sandbox/sandbox.h"

enum { EC_TASK_FOLDERS = 2 };

typedef struct ec_task {
    int (*run)(void *arg); /* in the process: the exit code. What it writes to *arg stays there. */
    void *arg;
    const char *folders[EC_TASK_FOLDERS]; /* it may change what is in them; those that are missing stay missing */
    unsigned rights;                      /* EC_SANDBOX_..., beside EC_SANDBOX_MODES */
} ec_task;

/* The exit code. */
int ec_task_run(const ec_task *task);

#endif
