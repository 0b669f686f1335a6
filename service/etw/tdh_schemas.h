/* The schemas that Windows' TDH has of providers and events, in the layer EA_SCHEMA_WINDOWS. Slow: a query may take
 * seconds. Called by: service/decode/schema_resolver.h, "etwagent providers". Calls: Windows. Thread: its owner's. On
 * systems other than Windows opening fails with EA_EUNSUPPORTED. */
#ifndef EA_ETW_TDH_SCHEMAS_H
#define EA_ETW_TDH_SCHEMAS_H

#include "proto/base/record.h"
#include "proto/event/schemas.h"

typedef struct ea_tdh ea_tdh;

EA_MUST_CHECK int ea_tdh_open(ea_tdh **ret, ea_err *err);
void ea_tdh_close(ea_tdh *t); /* NULL is allowed */

/* Adds the schema of an event of this kind, its fields' maps included, each of which is asked for once. arg: an ea_tdh.
 * EA_ENOTFOUND: Windows has none. */
EA_MUST_CHECK int ea_tdh_describe(void *arg, const ea_record *event, ea_schemas *into, ea_err *err);

/* Adds all providers that are registered, with their names alone. */
EA_MUST_CHECK int ea_tdh_list(ea_tdh *t, ea_schemas *into, ea_err *err);
/* Adds what is known of one provider: keywords, levels, events and their fields. name: what ea_tdh_list has. What
 * Windows cannot say (events of MOF classes; what ea_tdh_lacks names) is left out. */
EA_MUST_CHECK int ea_tdh_show(ea_tdh *t, const ea_guid *guid, const char *name, ea_schemas *into, ea_err *err);

/* What this Windows has no functions for, of what ea_tdh_show adds, for a person; NULL: nothing. */
const char *ea_tdh_lacks(const ea_tdh *t);

#endif
