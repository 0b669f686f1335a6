/* See sink_kinds.h. */
#include "collector/sink/sink_kinds.h"

#include "collector/sink/sink_rows.h"
#include "collector/sqlite/sqlite.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX_BYTES = 16 << 20, REASON_MAX_BYTES = 300 };

struct ec_sink_judge {
    sqlite3 *db;
    sqlite3_stmt *items;
};

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

/* Members of items have the name of the action. */
static const char BULK_ITEMS[] =
    "SELECT i.key, json_extract(i.value, '$.create.status'), json_extract(i.value, '$.create.error.type'),"
    " json_extract(i.value, '$.create.error.reason') FROM json_each(?1, '$.items') i";

/* Other answers, as those about rights or an index that is missing, may end. */
static enum ec_sink_verdict bulk_verdict(int64_t status) {
    if (status == 200 || status == 201)
        return EC_VERDICT_ACCEPTED;
    if (status == 409)
        return EC_VERDICT_KNOWN;
    return status == 400 || status == 413 || status == 422 ? EC_VERDICT_REFUSED : EC_VERDICT_WAITS;
}

static void bulk_reason(ea_text *reason, sqlite3_stmt *st, int64_t status) {
    const char *type = (const char *)sqlite3_column_text(st, 2), *why = (const char *)sqlite3_column_text(st, 3);
    if (reason->len_bytes)
        return;
    ea_text_printf(reason, "status %lld: %.*s: %.*s", (long long)status, REASON_MAX_BYTES / 4, type ? type : "no type",
                   REASON_MAX_BYTES, why ? why : "no reason");
}

static int bulk_judge(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
                      ea_text *reason, ea_err *err) {
    static const char DOING[] = "read the answer to _bulk";
    enum ec_sink_verdict *verdicts = malloc((count + 1) * sizeof *verdicts);
    size_t found = 0;
    int code = SQLITE_DONE, is_refused = 0;
    int rc = verdicts ? ec_sqlite_prepare(j->db, &j->items, BULK_ITEMS, DOING, err) : ea_fail(err, EA_ENOMEM, DOING);
    if (rc) {
        free(verdicts);
        return rc;
    }
    sqlite3_bind_text(j->items, 1, answer, (int)len_bytes, SQLITE_STATIC);
    while ((code = sqlite3_step(j->items)) == SQLITE_ROW && found < count) {
        if (sqlite3_column_int64(j->items, 0) != (int64_t)found || sqlite3_column_type(j->items, 1) != SQLITE_INTEGER)
            break;
        int64_t status = sqlite3_column_int64(j->items, 1);
        verdicts[found] = bulk_verdict(status);
        if (verdicts[found] == EC_VERDICT_REFUSED && !is_refused) {
            ea_text_clear(reason); /* a final reason takes precedence over one that may end */
            is_refused = 1;
        }
        if (verdicts[found] == EC_VERDICT_REFUSED || (verdicts[found] == EC_VERDICT_WAITS && !is_refused))
            bulk_reason(reason, j->items, status);
        found++;
    }
    int is_no_memory = (code & 0xff) == SQLITE_NOMEM;
    sqlite3_reset(j->items);
    sqlite3_clear_bindings(j->items);
    if (is_no_memory)
        rc = ea_fail(err, EA_ENOMEM, DOING);
    else if (code != SQLITE_DONE || found != count)
        rc = ea_fail(err, EA_EFORMAT, "%s: expected JSON with %zu items that have a status, found %zu", DOING, count,
                     found);
    for (size_t i = 0; !rc && i < count; i++)
        items[i]->verdict = verdicts[i];
    if (rc)
        ea_text_clear(reason);
    free(verdicts);
    return rc;
}

static const ec_sink_kind NDJSON = {"ndjson", "application/x-ndjson", ndjson_add, ndjson_judge, 0};
static const ec_sink_kind BULK = {"bulk", "application/x-ndjson", bulk_add, bulk_judge, ANSWER_MAX_BYTES};

const char *const EC_SINK_KIND_NAMES[] = {"ndjson", "bulk", NULL};
const ec_sink_kind *const EC_SINK_KINDS[] = {&NDJSON, &BULK};

int ec_sink_judge_open(ec_sink_judge **ret, ea_err *err) {
    ec_sink_judge *j = calloc(1, sizeof *j);
    if (!j)
        return ea_fail(err, EA_ENOMEM, "prepare a sink");
    if (sqlite3_open_v2(":memory:", &j->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        int rc = ec_fail_sqlite(err, j->db, "prepare a sink");
        ec_sink_judge_close(j);
        return rc;
    }
    *ret = j;
    return 0;
}

void ec_sink_judge_close(ec_sink_judge *j) {
    if (!j)
        return;
    sqlite3_finalize(j->items);
    sqlite3_close(j->db);
    free(j);
}
