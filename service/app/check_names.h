/* Names in a configuration that no provider has: of providers, keywords and events, as far as the catalogue knows them.
 * Windows takes such a session, and nothing comes. Called by: cmd_check.c. Calls: proto/event/schema. Thread: the main
 * one. */
#ifndef EA_APP_CHECK_NAMES_H
#define EA_APP_CHECK_NAMES_H

#include "proto/base/text.h"
#include "service/core/agent_config.h"

/* Appends a line "  note: ..." for each. A provider that the catalogue does not know is no mistake: only one whose name
 * is nearly that of a known one is named. */
EA_MUST_CHECK int ea_check_names(const ea_agent_config *config, ea_text *notes, ea_err *err);

#endif
