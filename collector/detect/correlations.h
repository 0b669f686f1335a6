/* Sigma correlations over what rules matched, and over detections of correlations, in DIR/alarms.db: each match of a
 * correlation's rule is kept as a hit for some time, and hits that are together within the timespan make a detection.
 * Called by: detector.c. Calls: proto/rules, collector/state (detections.h). Thread: that of its ec_detections.
 *
 * A hit is kept in the transaction of its batch; an event and a rule are one hit, however often they are judged. After
 * a detection there is no further one of the same correlation and group within its timespan. Hits are forgotten
 * EC_HITS_SPANS timespans after they were found, not after they happened: those of an agent that was away for hours are
 * correlated when they come. */
#ifndef EC_DETECT_CORRELATIONS_H
#define EC_DETECT_CORRELATIONS_H

#include "collector/state/detections.h"
#include "proto/rules/rules.h"

enum {
    EC_HITS_SPANS = 2,
    EC_HITS_KEPT = 200000,         /* of the host that has most, the oldest are deleted, and counted */
    EC_HITS_LOOKED_AT = 20000,     /* newest ones of one correlation and group at once */
    EC_HITS_LOOK_BYTES = 64 << 20, /* of their texts, and of hits of detections; what is more is counted */
    EC_ALERTS_KEPT = 100000,       /* detections after which there is none for a timespan; as for hits */
};

typedef struct ec_correlations ec_correlations;

/* Texts are borrowed. */
typedef struct ec_correlation_hit {
    const ec_detections_stream *stream;
    uint32_t correlation, rule; /* of ea_rules; rule: also a correlation, as ea_rule_correlation names them */
    uint64_t batch, position;
    int64_t utc_ns;
    uint32_t pid;
    int has_pid;
    const char *process; /* as of ec_detection */
    const char *group;   /* what has to be the same */
    const char *fields;  /* a JSON object for a person */
    const char *value;   /* of EA_VALUE_*; NULL: the event has none, or it is another type */
} ec_correlation_hit;

EA_MUST_CHECK int ec_correlations_open(ec_correlations **ret, ec_detections *d, ea_err *err);
void ec_correlations_close(ec_correlations *c); /* NULL is allowed; before its ec_detections */

typedef struct ec_correlations_found {
    uint64_t new_count, left_out; /* detections; left_out: those beyond EC_DETECTIONS_AN_HOUR */
    /* Looks at a group that has more hits than are looked at, and detections that are no hits of the correlations over
     * theirs since there are too many at once. */
    uint64_t cut;
    uint64_t deleted; /* hits beyond EC_HITS_KEPT */
} ec_correlations_found;

/* Keeps hits and the detections that they make, between ec_detections_begin and _judged. */
EA_MUST_CHECK int ec_correlations_judge(ec_correlations *c, const ea_rules *rules, const ec_correlation_hit *hits,
                                        size_t count, int64_t now_utc_ns, ec_correlations_found *ret, ea_err *err);

#endif
