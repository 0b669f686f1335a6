/* The GUID that EventSource and TraceLogging providers have by their name. Called by: service/etw, proto/relog. Thread:
 * any. */
#ifndef EA_EVENT_PROVIDER_NAME_H
#define EA_EVENT_PROVIDER_NAME_H

#include "proto/base/err.h"
#include "proto/base/record.h"

/* EA_EINVAL for a name of more than 256 characters; EA_ECRYPTO. */
EA_MUST_CHECK int ea_provider_guid_of_name(const char *name, ea_guid *ret, ea_err *err);

#endif
