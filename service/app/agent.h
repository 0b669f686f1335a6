/* The agent: everything that a configuration asks for, running until somebody asks it to stop. What cannot run now (a
 * missing certificate, a trace that is not there yet, a full disk, no collector) is said once and tried again; nothing
 * of it ends the agent.
 *
 *     main thread: starts what is missing, reads the configuration again when asked, writes the status file
 *     a thread for each source (feed.h), its encoders, one sender
 *
 * Before it: "etwagent run". After it: feed.h, service/ship. */
#ifndef EA_APP_AGENT_H
#define EA_APP_AGENT_H

#include "err.h"

#include <stdatomic.h>

/* What somebody wants of a running agent; any thread or a signal handler may set them. */
typedef struct ea_agent_asks {
    atomic_int stop;
    atomic_int reload; /* read the configuration again; it is set back to 0 then */
} ea_agent_asks;

/* Runs until asks->stop. Returns 0 then, or at the start: what ea_config_read says of the file (EA_EFORMAT: its
 * mistakes are printed), EA_ENOMEM, EA_EUSAGE when there is nothing that could run. The main thread. */
EA_MUST_CHECK int ea_agent_run(const char *config_path, ea_agent_asks *asks, ea_err *err);

/* Where the status file is: what the configuration says (NULL: nothing), or status.json in the folder for state. out
 * has room for EA_AGENT_PATH_BYTES. */
enum { EA_AGENT_PATH_BYTES = 4096 };
EA_MUST_CHECK int ea_agent_status_path(const char *given, char *out, ea_err *err);

#endif
