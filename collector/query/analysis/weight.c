/* What weights, and causes of incomplete stacks, are called. See weight.h. */
#include "collector/query/analysis/weight.h"

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
    return ea_fail(err, EA_EUSAGE, "\"%s\" is no weight; expected cpu, samples, pmc:NAME, ready, wait, disk or faults",
                   text);
}
