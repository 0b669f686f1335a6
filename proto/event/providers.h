/* Inside proto/event: names of providers that everybody knows and no row describes yet. See registry.c. */
#ifndef EA_EVENT_PROVIDERS_H
#define EA_EVENT_PROVIDERS_H

#include "proto/base/bytes.h"

/* "" when the GUID is not in the table. */
const char *ea_well_known_provider(const ea_guid *provider);

#endif
