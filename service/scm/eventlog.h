/* Messages of the service in Windows' event log (Application, source etwagent). The texts are in the events themselves:
 * the message file is Windows' own EventCreate.exe, whose messages 1 to 1000 are "%1". A file of this program would be
 * held by the event log's service, which reads texts from it, and an upgrade could not replace it without a restart.
 * Input: what the agent says (agent_log.h). Output: the event log. Thread: any, after open. */
#ifndef EA_SCM_EVENTLOG_H
#define EA_SCM_EVENTLOG_H

#include "proto/base/err.h"

enum ea_eventlog_kind {
    EA_EVENTLOG_STARTED,
    EA_EVENTLOG_STOPPED,
    EA_EVENTLOG_RELOADED,
    EA_EVENTLOG_REFUSED,
    EA_EVENTLOG_WARNING,
    EA_EVENTLOG_WORKS,
    EA_EVENTLOG_LOST,
    EA_EVENTLOG_FAILED,
};

/* Without it, or when it fails, ea_eventlog_write does nothing. */
EA_MUST_CHECK int ea_eventlog_open(ea_err *err);
void ea_eventlog_close(void);
void ea_eventlog_write(enum ea_eventlog_kind kind, const char *line);

/* Writes the source into the registry; takes it out again. */
EA_MUST_CHECK int ea_eventlog_register(ea_err *err);
EA_MUST_CHECK int ea_eventlog_unregister(ea_err *err);

#endif
