/* Correlations over matches of stored events: all of them are taken first, and then judged in the order of their times,
 * by the rules and the bounds of correlations.h, in memory. Called by: the command rules test. Calls: correlations.h,
 * matched_row.h. Thread: the owner's. */
#ifndef EC_DETECT_STORED_CORRELATIONS_H
#define EC_DETECT_STORED_CORRELATIONS_H

#include "collector/detect/matched_row.h"

enum {
    EC_STORED_HITS_MAX = 1000000,         /* matches for correlations; further ones are left out */
    EC_STORED_HITS_MAX_BYTES = 256 << 20, /* of their texts, likewise */
};

typedef struct ec_stored_correlations ec_stored_correlations;

/* rules: borrowed. EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_stored_correlations_create(ec_stored_correlations **ret, const ea_rules *rules, ea_err *err);
void ec_stored_correlations_destroy(ec_stored_correlations *c); /* NULL is allowed */

/* A row of a statement of EC_RULES_OF_RANGE that a rule matched. cells, looks: of its columns; values: likewise. */
EA_MUST_CHECK int ec_stored_correlations_take(ec_stored_correlations *c, const ec_rules_statement *statement,
                                              const ea_text *cells, const enum ec_look *looks, const ec_value *values,
                                              uint32_t rule, ea_err *err);

typedef struct ec_stored_detection {
    uint32_t correlation;      /* of ea_rules */
    int64_t utc_ns;            /* of the event that completes it */
    const char *host, *fields; /* borrowed; fields: a JSON object */
    uint32_t pid;
    int has_pid;
} ec_stored_detection;

/* Judges what was taken, once. fn is called for each detection, by time. *ret_left_out: matches and detections beyond
 * the bounds. */
EA_MUST_CHECK int ec_stored_correlations_judge(ec_stored_correlations *c,
                                               void (*fn)(void *arg, const ec_stored_detection *d), void *arg,
                                               uint64_t *ret_left_out, ea_err *err);

#endif
