/* What a profile is asked for, and what none can be made of. See profile.h. */
#include "collector/query/analysis/profile.h"

#include <string.h>

int ec_profile_check(const ec_profile_request *q, ea_err *err) {
    for (int side = 0; side < (q->has_other ? 2 : 1); side++) {
        const ec_profile_side *s = &q->side[side];
        if (s->from_utc_ns > s->to_utc_ns)
            return ea_fail(err, EA_EUSAGE, "the %srange ends before it begins", side ? "other " : "");
        for (size_t i = 0; i < s->label_count; i++)
            if (!strchr(s->labels[i], '='))
                return ea_fail(err, EA_EUSAGE, "\"%.80s\" is no label: NAME=VALUE is expected, as site=north",
                               s->labels[i]);
    }
    return 0;
}

int ec_profile_has_two_weights(const ec_profile *p) {
    const char *a = p->counter[0] ? p->counter[0] : "", *b = p->counter[1] ? p->counter[1] : "";
    return p->has_other && (p->weight[0] != p->weight[1] || strcmp(a, b) != 0);
}

void ec_profile_fill_other(ec_profile_request *q, int has_machines, int has_range, int has_weight) {
    const ec_profile_side *from = &q->side[0];
    ec_profile_side *to = &q->side[1];
    q->has_other = has_machines || has_range || has_weight;
    if (!has_machines) {
        to->hosts = from->hosts;
        to->host_count = from->host_count;
        to->labels = from->labels;
        to->label_count = from->label_count;
    }
    if (!has_range) {
        to->from_utc_ns = from->from_utc_ns;
        to->to_utc_ns = from->to_utc_ns;
    }
    if (!has_weight) {
        to->weight = from->weight;
        to->counter = from->counter;
    }
}
