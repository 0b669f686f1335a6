/* Starts this program again as a child, so that a process of its own reads the data that others wrote. Called by:
 * ask.c, collector/web. The child calls the main functions of the children, and sandbox.h. Thread: any. */
#ifndef EC_SANDBOX_CHILD_H
#define EC_SANDBOX_CHILD_H

#include "proto/base/err.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct ec_child_options {
    const char *name;             /* its only argument: main() knows by it what to run */
    const char *const *variables; /* those of this environment that the child gets too, up to a NULL; NULL: none */
    int extra_in, extra_out;      /* with has_extra: become its descriptors EC_CHILD_EXTRA_IN and ..._OUT */
    int has_extra;
} ec_child_options;

enum { EC_CHILD_EXTRA_IN = 3, EC_CHILD_EXTRA_OUT = 4 };

/* Starts it. It has standard input and output, of which *ret_in and *ret_out are this side, this process's standard
 * error and no other descriptor. Its environment is LC_ALL=C, TZ (so that it need not read /etc/localtime later), what
 * `variables` names, and the options of a sanitizer. The caller closes both descriptors and waits for the child. */
EA_MUST_CHECK int ec_child_start(const ec_child_options *options, pid_t *ret_pid, int *ret_in, int *ret_out,
                                 ea_err *err);

/* In the child: it ends with its parent (and at once when that has ended), and leaves SIGINT and SIGPIPE to it. */
void ec_child_follow(uint64_t parent);
/* Makes the process the first that the kernel ends when memory runs out: 0 or errno. A child of a confined process
 * cannot do it for itself; the broker does (broker.h). */
int ec_child_set_score(pid_t pid);
/* In the child, before ec_sandbox_enter: ec_child_follow, and it leaves no core, has
 * so much processor time and, beyond what it has already, so much memory (0: no bound; none under a sanitizer), runs at
 * a lower priority than its parent and is the first that the kernel ends when memory runs out. */
void ec_child_limit(uint64_t parent, uint64_t cpu_s, uint64_t limit_bytes);

/* Of this process: beyond what it has already, so much memory (none under a sanitizer). */
void ec_child_limit_memory(uint64_t limit_bytes);

/* Waits for the end of a child that this process started: the time in ns that it, and children that it waited for, had
 * of a processor. ret_status: as of waitpid. */
int64_t ec_child_wait(pid_t pid, int *ret_status);

#endif
