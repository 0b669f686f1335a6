/* See sink_kinds.h. */
#include "collector/sink/sink_kinds.h"

#include "collector/sink/clickhouse.h"
#include "collector/sink/otlp.h"
#include "collector/sink/sink_rows.h"
#include "collector/sink/sink_sender.h"
#include "collector/sink/splunk.h"

#include <string.h>

enum { ANSWER_MAX_BYTES = 16 << 20, REASON_ANSWER_BYTES = 64 << 10, REASON_MAX_BYTES = 250 };

/* ---- NDJSON: a row a line; an answer with 2xx accepts all ---- */

static void ndjson_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target) {
    (void)target;
    for (size_t i = 0; i < count; i++) {
        ea_text_add(body, rows + items[i]->offset, items[i]->len_bytes);
        ea_text_char(body, '\n');
    }
}

static int accept_all(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
                      ea_text *reason, ea_err *err) {
    (void)j, (void)answer, (void)len_bytes, (void)reason, (void)err;
    for (size_t i = 0; i < count; i++)
        items[i]->verdict = EC_VERDICT_ACCEPTED;
    return 0;
}

/* ---- Elasticsearch, OpenSearch: _bulk ----
 * Source: https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk */

static void bulk_add(ea_text *body, const char *row, const ec_sink_item *item, const char *target) {
    size_t begin = sizeof EC_SINK_ROW_BEGIN - 1;
    ea_text_str(body, "{\"create\":{");
    if (target) {
        ea_text_str(body, "\"_index\":");
        ea_text_json_str(body, target);
        ea_text_char(body, ',');
    }
    ea_text_str(body, "\"_id\":");
    ea_text_add(body, row + begin, item->id_bytes);
    ea_text_str(body, "}}\n{\"@timestamp\":\""); /* data streams need it */
    const char *time = row + item->time_offset + sizeof EC_SINK_ROW_TIME - 1;
    const char *end = memchr(time, '"', item->len_bytes - item->time_offset - (sizeof EC_SINK_ROW_TIME - 1));
    ea_text_add(body, time, end ? (size_t)(end - time) : 0);
    ea_text_str(body, "\",");
    ea_text_add(body, row + 1, item->len_bytes - 1);
    ea_text_char(body, '\n');
}

static void bulk_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target) {
    for (size_t i = 0; i < count; i++)
        bulk_add(body, rows + items[i]->offset, items[i], target);
}

/* ---- ClickHouse: an answer with 2xx accepts all ---- */

static void clickhouse_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target) {
    (void)target;
    for (size_t i = 0; i < count; i++)
        ea_text_add(body, rows + items[i]->offset, items[i]->len_bytes);
}

/* Its first line is a sentence. */
static void clickhouse_why(ea_text *reason, const char *answer, size_t len_bytes) {
    (void)len_bytes;
    size_t len = strcspn(answer, "\r\n");
    ea_text_add(reason, answer, len < REASON_MAX_BYTES ? len : REASON_MAX_BYTES);
}

static const ec_sink_kind NDJSON = {.name = "ndjson",
                                    .sender = &EC_SINK_HTTP,
                                    .row = ec_sink_row_add,
                                    .type = "application/x-ndjson",
                                    .body = ndjson_body,
                                    .judge = accept_all};
static const ec_sink_kind BULK = {.name = "bulk",
                                  .sender = &EC_SINK_HTTP,
                                  .row = ec_sink_row_add,
                                  .type = "application/x-ndjson",
                                  .body = bulk_body,
                                  .judge = ec_sink_judge_bulk,
                                  .answer_max_bytes = ANSWER_MAX_BYTES};
static const ec_sink_kind KAFKA = {.name = "kafka", .sender = &EC_SINK_KAFKA, .has_threads = 1, .row = ec_sink_row_add};
static const ec_sink_kind CLICKHOUSE = {.name = "clickhouse",
                                        .sender = &EC_SINK_HTTP,
                                        .row = ec_clickhouse_row_add,
                                        .query = ec_clickhouse_insert,
                                        .type = "application/octet-stream",
                                        .body = clickhouse_body,
                                        .judge = accept_all,
                                        .why = clickhouse_why,
                                        .answer_max_bytes = REASON_ANSWER_BYTES};
static const ec_sink_kind SPLUNK = {.name = "splunk",
                                    .sender = &EC_SINK_SPLUNK,
                                    .row = ec_splunk_row_add,
                                    .type = "application/json",
                                    .body = ec_splunk_body,
                                    .answer_max_bytes = REASON_ANSWER_BYTES};
static const ec_sink_kind OTLP = {.name = "otlp",
                                  .sender = &EC_SINK_HTTP,
                                  .row = ec_otlp_row_add,
                                  .type = "application/x-protobuf",
                                  .body = ec_otlp_body,
                                  .judge = ec_otlp_judge,
                                  .why = ec_otlp_why,
                                  .answer_max_bytes = REASON_ANSWER_BYTES};

const char *const EC_SINK_KIND_NAMES[] = {"ndjson", "bulk", "kafka", "clickhouse", "splunk", "otlp", NULL};
const ec_sink_kind *const EC_SINK_KINDS[] = {&NDJSON, &BULK, &KAFKA, &CLICKHOUSE, &SPLUNK, &OTLP};
