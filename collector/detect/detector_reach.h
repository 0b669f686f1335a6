/* How far the batches of a stream can be judged by Sigma rules. Called by: detector.c. Calls: collector/state,
 * collector/store. Thread: the detector's. */
#ifndef EC_DETECT_DETECTOR_REACH_H
#define EC_DETECT_DETECTOR_REACH_H

#include "collector/state/detections.h"
#include "collector/state/state_db.h"

typedef struct ec_detector_reach {
    uint64_t last;    /* number of a batch */
    uint64_t highest; /* that is stored; 0: nothing */
} ec_detector_reach;

/* A batch waits for EC_DETECTOR_HOLD_MS, and until the history has what was received meanwhile. Errors: EA_EDATABASE,
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_detector_read_reach(ec_store *store, ec_state_db *state, const ec_detections_stream *s,
                                         ec_detector_reach *ret, ea_err *err);

#endif
