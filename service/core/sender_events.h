/* What a sender reports: brought to the pipeline whose stream it is about, and to the log. The one set of callbacks for
 * all who send: the agent, a replay, draining a spool.
 * Called by: the sender (service/ship/sender.h). Calls: pipeline.h, the spool, agent_log.h. Thread: the sender's. */
#ifndef EA_CORE_SENDER_EVENTS_H
#define EA_CORE_SENDER_EVENTS_H

#include "service/core/pipeline.h"
#include "service/ship/sender.h"

/* Returns 1 when no other pipeline has to be visited. name: whose pipeline it is, for the log; "": there is only one.
 */
typedef int (*ea_pipeline_visit)(void *visit_arg, const char *name, ea_pipeline *pipeline);

enum { EA_REFUSED_LINES = 10 }; /* of a command, for a person at a terminal */

typedef struct ea_sender_events {
    ea_spool *spool; /* borrowed; where streams of earlier runs are renewed */
    /* Visits the pipelines that make batches now; it holds what keeps them alive meanwhile. NULL: there are none. */
    void (*each_pipeline)(void *pipelines, ea_pipeline_visit visit, void *visit_arg);
    void *pipelines; /* its first argument */
    /* Logs a line, without a newline; part of it may come from the collector. NULL: ea_log_info. */
    void (*log)(void *arg, const char *line);
    /* As ea_sender_options has it. NULL: each change is logged. */
    void (*on_error)(void *arg, const ea_err *err);
    void *arg;              /* of log and on_error */
    unsigned refused_lines; /* so many refusals are logged; 0: all */
    unsigned refused_count; /* refusals so far */
} ea_sender_events;

/* Sets the callbacks of options that say what becomes of definitions, keyframes, refusals and failures; events is
 * borrowed until the sender is destroyed. */
void ea_sender_events_set(ea_sender_options *options, ea_sender_events *events);
/* The callback for a conflict: a stream whose numbers the collector has with other content goes on under a new name.
 * For ea_sender_options.renew. */
int ea_sender_events_renew(void *events, const uint8_t *stream, ea_err *err);

#endif
