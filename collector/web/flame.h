/* Profiles for the dashboard and for tools that read them: GET /api/v1/profile.
 * Before it: api.c. After it: collector/query's profile. Thread: the handler's; it reads with a store handle of its
 * own, within the question's time, and bounds of memory are profile.h's. */
#ifndef EC_WEB_FLAME_H
#define EC_WEB_FLAME_H

#include "call.h"

EA_MUST_CHECK int ec_flame(ec_call *c, ea_err *err);

#endif
