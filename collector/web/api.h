/* What can be requested of the dashboard's server. Before it: api.c. After it: server.c gets it from ec_web_start. */
#ifndef EC_WEB_API_H
#define EC_WEB_API_H

#include "collector/web/call.h"

extern const ec_route EC_ROUTES[]; /* ends with a NULL path */

#endif
