/* Messages of the service in Windows' event log (Application, source etwagent). Their texts are in messages.mc.
 * Before it: what the agent says (agent_log.h). After it: the event log. Thread: any, after open. */
#ifndef EA_SCM_EVENTLOG_H
#define EA_SCM_EVENTLOG_H

#include "proto/base/err.h"

enum ea_eventlog_kind {
    EA_EVENTLOG_STARTED,
    EA_EVENTLOG_STOPPED,
    EA_EVENTLOG_RELOADED,
    EA_EVENTLOG_REFUSED,
    EA_EVENTLOG_TROUBLE,
    EA_EVENTLOG_WORKS,
    EA_EVENTLOG_LOST,
    EA_EVENTLOG_FAILED,
};

/* Without it, or when it fails, ea_eventlog_write does nothing. */
EA_MUST_CHECK int ea_eventlog_open(ea_err *err);
void ea_eventlog_close(void);
void ea_eventlog_write(enum ea_eventlog_kind kind, const char *line);

/* Names program as the file that holds the texts; takes that out again. */
EA_MUST_CHECK int ea_eventlog_register(const char *program, ea_err *err);
EA_MUST_CHECK int ea_eventlog_unregister(ea_err *err);

#endif
