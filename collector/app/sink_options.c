/* See sink_options.h. */
#include "collector/app/sink_options.h"

#include <string.h>

int ec_sink_choice_check(const ec_sink_choice *c, const char **ret_key, ea_err *err) {
    const char *ignored, **key = ret_key ? ret_key : &ignored;
    *key = "name";
    int rc = ec_sinks_check_name(c->name, err);
    if (!rc && c->index && strcmp(EC_SINK_KINDS[c->kind]->name, "bulk") != 0) {
        *key = "index";
        rc = ea_fail(err, EA_EUSAGE, "--index is for --kind bulk");
    }
    if (!rc && c->retry_min_ns > c->retry_max_ns) {
        *key = "retry-min";
        rc = ea_fail(err, EA_EUSAGE, "--retry-min is above --retry-max");
    }
    return rc;
}
