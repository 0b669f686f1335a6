/* What weights, and causes of incomplete stacks, are called; what no profile can be made of. See profile.h. */
#include "profile.h"

#include <string.h>

static const char *const LACK_NAMES[] = {
#define X(id, name, text) name,
    EC_PROFILE_LACKS(X)
#undef X
};
static const char *const LACK_TEXTS[] = {
#define X(id, name, text) text,
    EC_PROFILE_LACKS(X)
#undef X
};
const char *ec_lack_name(enum ec_profile_lack l) {
    return LACK_NAMES[l];
}
const char *ec_lack_text(enum ec_profile_lack l) {
    return LACK_TEXTS[l];
}

static const char *const WEIGHT_NAMES[] = {
#define X(id, name, unit, text) name,
    EC_WEIGHTS(X)
#undef X
};
static const char *const WEIGHT_UNITS[] = {
#define X(id, name, unit, text) unit,
    EC_WEIGHTS(X)
#undef X
};
const char *ec_weight_name(enum ec_weight w) {
    return WEIGHT_NAMES[w];
}
const char *ec_weight_unit(enum ec_weight w) {
    return WEIGHT_UNITS[w];
}

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

int ec_weight_parse(const char *text, enum ec_weight *ret, const char **ret_counter, ea_err *err) {
    if (strncmp(text, "pmc:", 4) == 0 && text[4]) {
        *ret = EC_WEIGHT_PMC;
        *ret_counter = text + 4;
        return 0;
    }
    for (int i = 0; i < EC_WEIGHT_COUNT; i++)
        if (i != EC_WEIGHT_PMC && strcmp(text, WEIGHT_NAMES[i]) == 0) {
            *ret = (enum ec_weight)i;
            *ret_counter = NULL;
            return 0;
        }
    return ea_fail(err, EA_EUSAGE, "\"%s\" is no weight: cpu, samples, pmc:NAME, ready, wait, disk, faults", text);
}
