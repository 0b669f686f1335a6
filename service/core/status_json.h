/* The agent's status as JSON: what "etwagent status" and the service's pipe show.
 * Called by: agent.c. Calls: what it asks of each part. Thread: the agent's main one. */
#ifndef EA_CORE_STATUS_JSON_H
#define EA_CORE_STATUS_JSON_H

#include "proto/base/text.h"
#include "service/core/agent_parts.h"

/* The whole status: one object and a newline. *lost: the events that are lost are added to it. */
void ea_status_put(ea_agent *a, const char *state, ea_text *t, uint64_t *lost);
/* The status of an agent that has no configuration yet: why it waits. every_ns: how often it is written. */
void ea_status_put_waiting(const ea_agent *a, int64_t every_ns, ea_text *t);

#endif
