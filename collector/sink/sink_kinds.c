/* See sink_kinds.h. */
#include "collector/sink/sink_kinds.h"

#include "collector/sink/sink_rows.h"
#include "collector/sink/sink_sender.h"

#include <string.h>

enum { ANSWER_MAX_BYTES = 16 << 20 };

/* ---- NDJSON: a row a line; an answer with 2xx accepts all ---- */

static void ndjson_add(ea_text *body, const char *row, const ec_sink_item *item, const char *target) {
    (void)target;
    ea_text_add(body, row, item->len_bytes);
    ea_text_char(body, '\n');
}

static int ndjson_judge(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
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

static const ec_sink_kind NDJSON = {"ndjson", &EC_SINK_HTTP, 0, "application/x-ndjson", ndjson_add, ndjson_judge, 0};
static const ec_sink_kind BULK = {
    "bulk", &EC_SINK_HTTP, 0, "application/x-ndjson", bulk_add, ec_sink_judge_bulk, ANSWER_MAX_BYTES};
static const ec_sink_kind KAFKA = {.name = "kafka", .sender = &EC_SINK_KAFKA, .has_threads = 1};

const char *const EC_SINK_KIND_NAMES[] = {"ndjson", "bulk", "kafka", NULL};
const ec_sink_kind *const EC_SINK_KINDS[] = {&NDJSON, &BULK, &KAFKA};
