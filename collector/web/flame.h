/* Profiles for the dashboard and for tools that read them: GET /api/v1/profile. Called by: api.c. Calls:
 * profile_worker.h. Thread: the handler's; the profile is made in a process of its own (profile_worker.h), within the
 * question's time and memory. */
#ifndef EC_WEB_FLAME_H
#define EC_WEB_FLAME_H

#include "collector/web/call.h"

EA_MUST_CHECK int ec_flame(ec_call *c, ea_err *err);

#endif
