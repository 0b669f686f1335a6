/* The HTTP server of the dashboard: routes come from who starts it (api.c). See web.h and server.c. Called by: api.c.
 * Calls: call.h. Thread: the caller's. */
#ifndef EC_WEB_SERVER_H
#define EC_WEB_SERVER_H

#include "collector/web/call.h"

/* ec_web_start, with what can be requested: routes end with a NULL path, and outlive the server. */
EA_MUST_CHECK int ec_server_start(ec_web **ret, const ec_web_options *options, const ec_route *routes, ea_err *err);

#endif
