/* The agent's own memory, which its files share. See agent.h.
 * Called by: agent.c, status_json.c. Calls: nothing. Thread: the main one, unless a field says otherwise. */
#ifndef EA_CORE_AGENT_PARTS_H
#define EA_CORE_AGENT_PARTS_H

#include "service/core/agent.h"
#include "service/core/enroller.h"
#include "service/core/remote.h"
#include "service/core/source_task.h"
#include "service/ship/power_policy.h"

typedef struct ea_agent {
    const ea_agent_options *o;
    ea_agent_control *control;
    const char *path;
    uint64_t lost;         /* events, as far as it was logged */
    ea_counters counters;  /* the spool's and the sender's */
    ea_source_tasks tasks; /* with the spool, once it is open */
    ea_config_snapshot *snapshot;
    int64_t started_utc_ns, tried_ns, status_ns;
    uint64_t reloads, reloads_refused;
    ea_sender *sender;
    ea_sender_events events;      /* its callbacks */
    ea_sender_poll poll;          /* of the tasks' remote */
    ea_enroller *enroller;        /* NULL: the configuration asks for no enrolment */
    ea_power_policy power_policy; /* the sender's thread */
    ea_sticky_error config_error, log_error, enroll_error, spool_error, sender_error, status_error, remote_error;
    ea_sticky_error line_error; /* the collector's line; the tasks' lock */
} ea_agent;

#endif
