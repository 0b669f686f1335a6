/* The name of an account, as a record that the agent makes (proto/event/classes/image_file.c): the machine that knows
 * the account has named it. The record is among the events of the session in which the SID was met.
 * Called by: service/image. Output: the session's batches, collector/query (account_names.h). Thread: any. */
#ifndef EA_STATE_ACCOUNT_FACTS_H
#define EA_STATE_ACCOUNT_FACTS_H

#include "proto/state/image_facts.h"

enum { EA_ACCOUNT_FACTS_OPCODE = 2 };

/* Makes a record's payload (cleared first; payload->failed: no memory). sid: "S-1-5-21-..."; account: "DOMAIN\name".
 * The rest of the record is ea_image_facts_record's, with this opcode. */
void ea_account_facts_write(ea_text *payload, const char *sid, const char *account);

#endif
