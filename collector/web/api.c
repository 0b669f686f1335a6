/* What can be requested, and the answers that are no rows of a fixed statement: metrics, SQL. See call.h. */
#include "collector/web/api.h"

#include "collector/metrics/metrics.h"
#include "collector/web/assets.h"
#include "collector/web/body.h"
#include "collector/web/detection_state.h"
#include "collector/web/events.h"
#include "collector/web/flame.h"
#include "collector/web/questions.h"
#include "collector/web/request_queue.h"
#include "collector/web/result.h"
#include "collector/web/server.h"
#include "collector/web/watch_metrics.h"
#include "proto/base/exposition.h"

#include <stdlib.h>
#include <string.h>

enum { SQL_ROWS = 10000, SQL_ROWS_MAX = 1000000 };

static int metrics(ec_call *c, ea_err *err) {
    c->type = c->accepts_open_metrics ? EA_EXPOSITION_OPEN_METRICS : EA_EXPOSITION_PROMETHEUS;
    if (c->options->gauges)
        ec_metrics_gauges(c->options->gauges, c->accepts_open_metrics, &c->out);
    int rc = ec_watch_metrics(c, err);
    return rc ? rc
              : ec_metrics_text(c->options->store, c->options->counters, EC_METRICS_STREAMS, c->accepts_open_metrics,
                                &c->out, err);
}

/* Lists the tokens' ids, names and rights; never the tokens themselves, nor their hashes. */
static int tokens(ec_call *c, ea_err *err) {
    ec_token *all = NULL;
    size_t count = 0;
    int rc = ec_api_tokens_read(c->options->store, &all, &count, err);
    if (rc)
        return rc;
    ea_text_str(&c->out, "{\"items\":[");
    for (size_t i = 0; i < count; i++) {
        ea_text_printf(&c->out, "%s{\"id\":\"%s\",\"name\":", i ? "," : "", all[i].secret.id);
        ea_text_json_str(&c->out, all[i].name);
        ea_text_printf(&c->out, ",\"scope\":\"%s\",\"hosts\":", ec_scope_name(all[i].scope));
        ea_text_json_str(&c->out, all[i].hosts);
        ea_text_printf(&c->out, ",\"created_seconds\":%lld,\"expires_seconds\":", (long long)all[i].created_s);
        if (all[i].expires_s)
            ea_text_printf(&c->out, "%lld}", (long long)all[i].expires_s);
        else
            ea_text_str(&c->out, "null}");
    }
    ea_text_str(&c->out, "]}\n");
    free(all);
    return 0;
}

/* POST {"sql": "SELECT ...", "host": "...", "rows": 1000, "format": "json"} */
static int sql(ec_call *c, ea_err *err) {
    static const char *const NAMES[] = {"sql", "host", "rows", "format", NULL};
    ec_body body;
    uint64_t rows = SQL_ROWS;
    int rc = ec_body_read(&body, c->body, c->body_bytes, NAMES, err);
    if (rc)
        return rc;
    const char *statement = ec_body_get(&body, "sql"), *limit = ec_body_get(&body, "rows"),
               *format = ec_body_get(&body, "format");
    ec_result q = {.sql = statement, .host = ec_body_get(&body, "host"), .is_written = 1, .form = EC_FORM_ARRAY};
    if (!statement)
        rc = ea_fail(err, EA_EUSAGE, "\"sql\" is missing");
    else if (limit && (ea_u64_parse(limit, &rows) || !rows || rows > SQL_ROWS_MAX))
        rc = ea_fail(err, EA_EUSAGE, "\"rows\": a number from 1 to %d", SQL_ROWS_MAX);
    else if (format && strcmp(format, "csv") == 0)
        q.form = EC_FORM_CSV;
    else if (format && strcmp(format, "jsonl") == 0)
        q.form = EC_FORM_JSONL;
    else if (format && strcmp(format, "json") != 0)
        rc = ea_fail(err, EA_EUSAGE, "\"format\": json, csv or jsonl");
    q.limit_rows = limit || q.form == EC_FORM_ARRAY ? rows : 0; /* an export without a number has all */
    if (statement && !(c->statement = strdup(statement)) && !rc)
        rc = ea_fail(err, EA_ENOMEM, "answer");
    if (!rc)
        rc = ec_result_answer(c, &q, err);
    ec_body_deinit(&body);
    return rc;
}

/* A file of the dashboard. Browsers keep it, and ask each time whether it is still the same. */
static int asset(ec_call *c, ea_err *err) {
    for (const ec_asset *a = EC_ASSETS; a->path; a++) {
        if (strcmp(a->path, c->route->path) != 0)
            continue;
        c->type = a->type;
        c->etag = a->etag;
        if (c->if_none_match && strstr(c->if_none_match, a->etag)) {
            c->status = 304;
            return 0;
        }
        c->encoding = c->accepts_gzip ? "gzip" : NULL;
        ea_text_add(&c->out, c->accepts_gzip ? a->packed : a->plain,
                    c->accepts_gzip ? a->packed_bytes : a->plain_bytes);
        return 0;
    }
    return ea_fail(err, EA_ENOTFOUND, "unknown file of the dashboard");
}

const ec_route EC_ROUTES[] = {
    {EC_GET, "/", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/app.js", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/editor.js", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/app.css", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/icon.svg", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/api/v1/openapi.json", EC_POOL_QUESTION, asset, NULL},
    {EC_GET, "/metrics", EC_POOL_QUESTION, metrics, ""},
    {EC_GET, "/api/v1/tokens", EC_POOL_QUESTION, tokens, ""},
    {EC_POST, "/api/v1/sql", EC_POOL_QUESTION, sql, ""},
    {EC_GET, "/api/v1/queries", EC_POOL_QUESTION, ec_query_names, ""},
    {EC_GET, "/api/v1/queries/{name}", EC_POOL_QUESTION, ec_query_named, NULL},
    {EC_GET, "/api/v1/profile", EC_POOL_QUESTION, ec_flame,
     "host label pid from to other_host other_label other_from other_to weight other_weight names format"},
    {EC_GET, "/api/v1/events", EC_POOL_QUESTION, ec_events_search,
     "host from to class stream provider_name id pid tid cpu q where columns order limit cursor format"},
    {EC_GET, "/api/v1/events/counts", EC_POOL_QUESTION, ec_events_counts,
     "host from to class stream provider_name id pid tid cpu q where buckets"},
    {EC_GET, "/api/v1/events/values", EC_POOL_QUESTION, ec_events_values,
     "host from to class stream provider_name id pid tid cpu q where field limit format"},
    {EC_GET, "/api/v1/events/tail", EC_POOL_LISTEN, ec_events_tail,
     "host from to class stream provider_name id pid tid cpu q where columns"},
    {EC_GET, "/api/v1/fleet", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/fleet/labels", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/fleet/groups", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/load", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/streams", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}/children", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}/modules", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}/threads", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}/files", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/processes/{stream}/{instance}/registry", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/gaps", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/blindness", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/cpu", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/files", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/disk", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/network", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/processes", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/modules", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/connections", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/classes", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/counters", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/columns", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/alerts", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/incidents", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/detections", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/detections/{number}", EC_POOL_QUESTION, ec_list, NULL},
    {EC_POST, "/api/v1/detections/{number}", EC_POOL_QUESTION, ec_detection_set, ""},
    {EC_GET, "/api/v1/requests", EC_POOL_QUESTION, ec_list, NULL},
    {EC_POST, "/api/v1/requests", EC_POOL_QUESTION, ec_request_hand_in, ""},
    {EC_GET, "/api/v1/gaps", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/blindness", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/hosts/{host}/ledger", EC_POOL_QUESTION, ec_list, NULL},
    {EC_GET, "/api/v1/time", EC_POOL_QUESTION, ec_written_time, "text host"},
    {0},
};

int ec_web_start(ec_web **ret, const ec_web_options *options, ea_err *err) {
    return ec_server_start(ret, options, EC_ROUTES, err);
}
