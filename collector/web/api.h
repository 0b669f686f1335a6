/* What can be requested of the dashboard's server. Defined by: api.c. Used by: server.c, which gets it from
 * ec_web_start. */
#ifndef EC_WEB_API_H
#define EC_WEB_API_H

#include "collector/web/call.h"

extern const ec_route EC_ROUTES[]; /* ends with a NULL path */

#endif
