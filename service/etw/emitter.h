/* Events that this program writes to ETW for its user, as providers of any name. Input: a record. Output: what sessions
 * that have enabled the provider log. Called by: "etwagent emit", "etwagent mark". Calls: etw_api.h. Thread: its
 * owner's. On other systems EA_EUNSUPPORTED. */
#ifndef EA_ETW_EMITTER_H
#define EA_ETW_EMITTER_H

#include "proto/base/err.h"
#include "proto/base/record.h"

enum { EA_EMITTER_PROVIDERS_MAX = 64 };

typedef struct ea_emitter ea_emitter;

/* EA_EUNSUPPORTED, EA_ENOMEM. */
EA_MUST_CHECK int ea_emitter_create(ea_emitter **ret, ea_err *err);
/* Unregisters its providers. NULL is allowed. */
void ea_emitter_destroy(ea_emitter *e);
/* Writes an event now, in this thread: provider, descriptor, payload, and the items of TraceLogging; the rest of the
 * header is Windows'. Registers the provider first where it is new. *ret_heard: 1 when a session wants the event.
 * Errors: EA_ELIMIT (more than EA_EMITTER_PROVIDERS_MAX providers), EA_EINVAL, EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int ea_emitter_write(ea_emitter *e, const ea_record *r, int *ret_heard, ea_err *err);

#endif
