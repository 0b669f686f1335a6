/* See confined_task.h. */
#include "collector/app/confined_task.h"

#include "collector/sandbox/child.h"
#include "proto/base/cli.h"
#include "proto/base/err.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASK_MEMORY_BYTES (UINT64_C(8) << 30) /* beyond what the command has */

enum { TASK_PATHS = 2 * EC_TASK_FOLDERS + 2 };

static int task_confine(const ec_task *task, ea_err *err) {
    ec_sandbox_path paths[TASK_PATHS];
    ea_text segments[EC_TASK_FOLDERS];
    size_t count = 0;
    int rc = 0;
    for (int i = 0; i < EC_TASK_FOLDERS; i++) {
        ea_text_init(&segments[i]);
        if (!task->folders[i])
            continue;
        ea_text_printf(&segments[i], "%s/segments", task->folders[i]); /* perhaps on another drive */
        if (segments[i].failed)
            rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
        paths[count++] = (ec_sandbox_path){.path = task->folders[i], .access = EC_SANDBOX_WRITE};
        paths[count++] = (ec_sandbox_path){.path = segments[i].data, .access = EC_SANDBOX_WRITE};
    }
    paths[count++] = (ec_sandbox_path){.path = "/dev/urandom", .access = EC_SANDBOX_READ};
    paths[count++] = (ec_sandbox_path){.path = "/etc/localtime", .access = EC_SANDBOX_READ};
    tzset();
    ec_child_limit_memory(TASK_MEMORY_BYTES);
    sqlite3_temp_directory = sqlite3_mprintf("%s", task->folders[0]);
    if (!rc && !sqlite3_temp_directory)
        rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    if (!rc)
        rc = ec_sandbox_enter(
            &(ec_sandbox){.rights = task->rights | EC_SANDBOX_MODES, .paths = paths, .path_count = count}, err);
    for (int i = 0; i < EC_TASK_FOLDERS; i++)
        ea_text_deinit(&segments[i]);
    return rc;
}

static int task_be_child(const ec_task *task, pid_t parent) {
    ea_err err = {0};
    ec_child_follow((uint64_t)parent);
    int rc = task_confine(task, &err);
    if (!rc)
        return task->run(task->arg);
    ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

int ec_task_run(const ec_task *task) {
    int status = 0;
    ea_err err = {0};
    pid_t own = getpid();
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        exit(task_be_child(task, own));
    if (child > 0)
        (void)ec_child_wait(child, &status);
    if (child > 0 && WIFEXITED(status))
        return WEXITSTATUS(status);
    int rc = child < 0 ? ea_fail_os(&err, EA_EIO, errno, "start a process")
                       : ea_fail(&err, EA_EIO, "the process of this command ended by signal %d", WTERMSIG(status));
    ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}
