/* The filters of a provider's part of the configuration, in the form of EnableTraceEx2.
 * Called by: enable.c. Configured by: config/sessions.h. Thread: its owner's. */
#ifndef EA_ETW_FILTERS_H
#define EA_ETW_FILTERS_H

#include "service/etw/session.h"

typedef struct ea_filters {
    EVENT_FILTER_DESCRIPTOR items[EA_FILTERS_MAX];
    ULONG count;
    uint64_t data[EA_FILTERS_MAX][EA_FILTER_BYTES_MAX / 8];
    uint64_t names[2][EA_FILTER_NAMES_BYTES_MAX / 8]; /* of events, and of events that have stacks */
    /* the last of the items, when there are conditions on payloads: TDH's memory */
    const ea_etw_api *api;
    EVENT_FILTER_DESCRIPTOR payload; /* Ptr 0: none */
} ea_filters;

/* The filters of a provider, whose configuration was checked. A condition on payloads that TDH does not know how to
 * check is left out: 0, and err says which. EA_ENOMEM; EA_EINVAL or EA_ENOTFOUND of stack-any and names-any. Destroyed
 * with ea_filters_destroy when Windows has them. */
EA_MUST_CHECK int ea_filters_create(ea_filters **ret, const ea_etw_api *api, const ea_guid *provider,
                                    const ea_provider_config *c, ea_err *err);
void ea_filters_destroy(ea_filters *f);

#endif
