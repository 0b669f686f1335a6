/* What people did about a detection, over the API. Called by: api.c. Calls: body.h, collector/state (detections.h).
 * Thread: the handler's. */
#ifndef EC_WEB_DETECTION_STATE_H
#define EC_WEB_DETECTION_STATE_H

#include "collector/web/call.h"

/* POST /api/v1/detections/{number} {"state": "closed", "comment": "..."}: by the token's name. EA_EREFUSED without a
 * token; EA_ENOTFOUND also of a host that the token may not see. */
EA_MUST_CHECK int ec_detection_set(ec_call *c, ea_err *err);

#endif
