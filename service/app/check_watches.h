/* What programs of the configuration need of their session and do not get: kernel flags, providers and their event ids,
 * stacks, performance counters. Windows runs such a session, and the program gives nothing.
 * Called by: cmd_check.c. Calls: proto/lang, config/, watch_session.h. Thread: the main one. */
#ifndef EA_APP_CHECK_WATCHES_H
#define EA_APP_CHECK_WATCHES_H

#include "proto/base/text.h"
#include "service/core/agent_config.h"

/* Appends a line "  note: ..." for each. The configuration was checked. */
EA_MUST_CHECK int ea_check_watches(const ea_agent_config *config, ea_text *notes, ea_err *err);

#endif
