/* What answers of _bulk and of Splunk say, by SQLite's JSON functions. See sink_kinds.h. */
#include "collector/sink/sink_kinds.h"
#include "collector/sqlite/sqlite.h"

#include <stdlib.h>

enum { REASON_MAX_BYTES = 300 };

struct ec_sink_judge {
    sqlite3 *db;
    sqlite3_stmt *items, *splunk, *ack;
};

/* Members of items have the name of the action. */
static const char BULK_ITEMS[] =
    "SELECT i.key, json_extract(i.value, '$.create.status'), json_extract(i.value, '$.create.error.type'),"
    " json_extract(i.value, '$.create.error.reason') FROM json_each(?1, '$.items') i";

int ec_sink_is_refusal(int64_t status) {
    return status == 400 || status == 413 || status == 422;
}

static enum ec_sink_verdict bulk_verdict(int64_t status) {
    if (status == 200 || status == 201)
        return EC_VERDICT_ACCEPTED;
    if (status == 409)
        return EC_VERDICT_KNOWN;
    return ec_sink_is_refusal(status) ? EC_VERDICT_REFUSED : EC_VERDICT_WAITS;
}

static void bulk_reason(ea_text *reason, sqlite3_stmt *st, int64_t status) {
    const char *type = (const char *)sqlite3_column_text(st, 2), *why = (const char *)sqlite3_column_text(st, 3);
    if (reason->len_bytes)
        return;
    ea_text_printf(reason, "status %lld: %.*s: %.*s", (long long)status, REASON_MAX_BYTES / 4, type ? type : "no type",
                   REASON_MAX_BYTES, why ? why : "no reason");
}

int ec_sink_judge_bulk(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
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

/* ---- Splunk ---- */

static const char SPLUNK_MEMBERS[] =
    "SELECT json_extract(?1, '$.code'), json_extract(?1, '$.ackId'), json_extract(?1, '$.\"invalid-event-number\"'),"
    " json_extract(?1, '$.text')";

static const char SPLUNK_ACK[] = "SELECT json_extract(?1, '$.acks.\"' || ?2 || '\"')";

/* The first row of a statement that reads an answer: 0; or EA_EFORMAT, and the statement is reset. */
static int judge_step(sqlite3_stmt *st, const char *doing, ea_err *err) {
    int code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        return 0;
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return (code & 0xff) == SQLITE_NOMEM ? ea_fail(err, EA_ENOMEM, "%s", doing)
                                         : ea_fail(err, EA_EFORMAT, "%s: expected JSON", doing);
}

static int64_t judge_number(sqlite3_stmt *st, int column) {
    return sqlite3_column_type(st, column) == SQLITE_INTEGER ? sqlite3_column_int64(st, column) : -1;
}

int ec_sink_judge_splunk(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_splunk_answer *ret,
                         ea_text *reason, ea_err *err) {
    static const char DOING[] = "read the answer of Splunk";
    int rc = ec_sqlite_prepare(j->db, &j->splunk, SPLUNK_MEMBERS, DOING, err);
    if (rc)
        return rc;
    sqlite3_bind_text(j->splunk, 1, answer, (int)len_bytes, SQLITE_STATIC);
    rc = judge_step(j->splunk, DOING, err);
    if (rc)
        return rc;
    *ret = (ec_sink_splunk_answer){judge_number(j->splunk, 0), judge_number(j->splunk, 1), judge_number(j->splunk, 2)};
    const char *text = (const char *)sqlite3_column_text(j->splunk, 3);
    ea_text_printf(reason, "%.*s", REASON_MAX_BYTES, text ? text : "no reason");
    sqlite3_reset(j->splunk);
    sqlite3_clear_bindings(j->splunk);
    return 0;
}

int ec_sink_judge_splunk_ack(ec_sink_judge *j, const char *answer, size_t len_bytes, int64_t ack_id, ea_err *err) {
    static const char DOING[] = "read the acknowledgement of Splunk";
    int rc = ec_sqlite_prepare(j->db, &j->ack, SPLUNK_ACK, DOING, err);
    if (rc)
        return rc;
    sqlite3_bind_text(j->ack, 1, answer, (int)len_bytes, SQLITE_STATIC);
    sqlite3_bind_int64(j->ack, 2, ack_id);
    rc = judge_step(j->ack, DOING, err);
    if (rc)
        return rc;
    int is_indexed = judge_number(j->ack, 0) == 1; /* true */
    sqlite3_reset(j->ack);
    sqlite3_clear_bindings(j->ack);
    return is_indexed;
}

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
    sqlite3_finalize(j->splunk);
    sqlite3_finalize(j->ack);
    sqlite3_close(j->db);
    free(j);
}
