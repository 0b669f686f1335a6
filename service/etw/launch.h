/* A command that is started suspended, so that the recording is complete, and resumed when the sessions run.
 * Called by: "etwagent trace", "etwagent schema install". Calls: Windows. Thread: its owner's. On other systems
 * EA_EUNSUPPORTED. */
#ifndef EA_ETW_LAUNCH_H
#define EA_ETW_LAUNCH_H

#include "proto/base/err.h"

#include <stdint.h>

typedef struct ea_launch ea_launch;

/* command: as one types it; the program is looked for as Windows does. It has this program's console and streams.
 * EA_ENOTFOUND, EA_EREFUSED, EA_EINVAL (a line of more than 32,000 characters), EA_EIO. */
EA_MUST_CHECK int ea_launch_suspended(ea_launch **ret, const char *command, uint32_t *ret_pid, ea_err *err);
/* The same of a program of Windows' own folder System32, such as "wevtutil.exe"; arguments: as one types them. */
EA_MUST_CHECK int ea_launch_system(ea_launch **ret, const char *program, const char *arguments, ea_err *err);
/* Lets it run. */
EA_MUST_CHECK int ea_launch_resume(ea_launch *l, ea_err *err);
/* Waits for it and for all that it started: 1 when they have ended, 0 when they have not after ns. */
int ea_launch_wait(ea_launch *l, int64_t ns);
/* Its exit code: 1 when it has ended, else 0. */
int ea_launch_exit_code(const ea_launch *l, uint32_t *ret);
/* Ends a command that was never resumed; a resumed one keeps running. NULL is allowed. */
void ea_launch_close(ea_launch *l);

#endif
