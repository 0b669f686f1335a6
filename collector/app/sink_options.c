/* See sink_options.h. */
#include "collector/app/sink_options.h"

#include "collector/sink/clickhouse.h"

#include <string.h>

/* Which options are for one kind alone, or for all but it. */
static int check_kind(const ec_sink_choice *c, const char **ret_key, ea_err *err) {
    const char *kind = EC_SINK_KINDS[c->kind]->name;
    int is_kafka = strcmp(kind, "kafka") == 0, is_bulk = strcmp(kind, "bulk") == 0,
        is_clickhouse = strcmp(kind, "clickhouse") == 0, is_splunk = strcmp(kind, "splunk") == 0;
    if (c->index && !is_bulk && !is_splunk) {
        *ret_key = "index";
        return ea_fail(err, EA_EUSAGE, "--index is for --kind bulk and splunk");
    }
    if (c->table && !is_clickhouse) {
        *ret_key = "table";
        return ea_fail(err, EA_EUSAGE, "--table is for --kind clickhouse");
    }
    if (c->properties && !is_kafka) {
        *ret_key = "properties";
        return ea_fail(err, EA_EUSAGE, "--properties is for --kind kafka");
    }
    if (c->headers && is_kafka) {
        *ret_key = "headers";
        return ea_fail(err, EA_EUSAGE, "--headers is not for --kind kafka: use --properties");
    }
    *ret_key = "table";
    return c->table ? ec_clickhouse_check_table(c->table, err) : 0;
}

int ec_sink_choice_check(const ec_sink_choice *c, const char **ret_key, ea_err *err) {
    const char *ignored, **key = ret_key ? ret_key : &ignored;
    *key = "name";
    int rc = ec_sinks_check_name(c->name, err);
    if (!rc)
        rc = check_kind(c, key, err);
    for (size_t i = 0; !rc && i < c->labels.count; i++)
        if (!strchr(c->labels.items[i], '=')) {
            *key = "label";
            rc = ea_fail(err, EA_EUSAGE, "label \"%s\": expected NAME=VALUE", c->labels.items[i]);
        }
    if (!rc && !c->redact != !c->redact_key) {
        *key = c->redact ? "redact" : "redact-key";
        rc = ea_fail(err, EA_EUSAGE, "--redact and --redact-key go together");
    }
    unsigned kinds;
    if (!rc && c->redact) {
        *key = "redact";
        rc = ea_redact_parse(c->redact, &kinds, err);
    }
    if (!rc && c->retry_min_ns > c->retry_max_ns) {
        *key = "retry-min";
        rc = ea_fail(err, EA_EUSAGE, "--retry-min is above --retry-max");
    }
    return rc;
}
