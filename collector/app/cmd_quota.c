/* etwcollector quota: what agents and readers use, what they may use, and what was refused. Called by: main.c. Calls:
 * collector/state (alarms.db, which the collector's watch writes), collector/store. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/state/incidents.h"
#include "collector/state/state_db.h"
#include "collector/store/store.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    const char *store, *host;
    int is_above, json;
} options;

static const char *quota_text_of(sqlite3_stmt *st, int column) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

/* What the store keeps of each agent. */
static int add_kept(ea_text *t, const options *o, sqlite3 *db, ea_err *err) {
    static const char SQL[] =
        "SELECT s.agent, count(*), sum(s.byte_count - ifnull(e.byte_count, 0)),"
        " sum(s.batch_count - ifnull(e.batch_count, 0)), sum(ifnull(d.definition_bytes, 0)),"
        " (SELECT count(*) FROM class_origins c WHERE c.agent = s.agent),"
        " (SELECT count(*) FROM tombstones t JOIN streams x ON x.stream_id = t.stream_id WHERE x.agent = s.agent)"
        " FROM streams s LEFT JOIN expired_streams e ON e.stream_id = s.stream_id"
        " LEFT JOIN stream_bytes d ON d.stream_id = s.stream_id WHERE ?1 IS NULL OR s.agent = ?1"
        " GROUP BY s.agent ORDER BY 3 DESC, 1";
    static const char *const NAMES[] = {"streams", "bytes", "batches", "definition_bytes", "classes", "tombstones"};
    sqlite3_stmt *st = NULL;
    int code, count = 0;
    if (sqlite3_prepare_v2(db, SQL, -1, &st, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read what is kept");
    if (o->host)
        sqlite3_bind_text(st, 1, o->host, -1, SQLITE_STATIC);
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        if (o->json) {
            ea_text_str(t, count++ ? ",\n  {\"host\": " : "\n  {\"host\": ");
            ea_text_json_str(t, quota_text_of(st, 0));
            for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++)
                ea_text_printf(t, ", \"%s\": %lld", NAMES[i], (long long)sqlite3_column_int64(st, 1 + i));
            ea_text_char(t, '}');
        } else {
            ea_text_safe(t, quota_text_of(st, 0), strlen(quota_text_of(st, 0)));
            ea_text_printf(t,
                           "  keeps %lld bytes in %lld batches, %lld bytes of definitions, %lld streams, %lld classes, "
                           "%lld tombstones\n",
                           (long long)sqlite3_column_int64(st, 2), (long long)sqlite3_column_int64(st, 3),
                           (long long)sqlite3_column_int64(st, 4), (long long)sqlite3_column_int64(st, 1),
                           (long long)sqlite3_column_int64(st, 5), (long long)sqlite3_column_int64(st, 6));
        }
    }
    int rc = code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, db, "read what is kept");
    sqlite3_finalize(st);
    return rc;
}

static void add_use_json(ea_text *t, sqlite3_stmt *st, int is_first) {
    ea_text_printf(t, "%s{\"who\": \"%s\", \"name\": ", is_first ? "\n  " : ",\n  ", quota_text_of(st, 0));
    ea_text_json_str(t, quota_text_of(st, 1));
    ea_text_printf(t,
                   ", \"resource\": \"%s\", \"unit\": \"%s\", \"limit\": %lld, \"period_s\": %lld, \"used\": %lld,"
                   " \"refused\": %lld",
                   quota_text_of(st, 2), quota_text_of(st, 3), (long long)sqlite3_column_int64(st, 4),
                   (long long)sqlite3_column_int64(st, 5), (long long)sqlite3_column_int64(st, 6),
                   (long long)sqlite3_column_int64(st, 7));
    ec_json_time(t, "above_since", sqlite3_column_int64(st, 8), sqlite3_column_int64(st, 8) != 0);
    ec_json_time(t, "at", sqlite3_column_int64(st, 9), 1);
    ea_text_char(t, '}');
}

static void add_use_text(ea_text *t, sqlite3_stmt *st) {
    long long limit = sqlite3_column_int64(st, 4), period_s = sqlite3_column_int64(st, 5);
    ea_text_printf(t, "%s ", quota_text_of(st, 0));
    ea_text_safe(t, quota_text_of(st, 1), strlen(quota_text_of(st, 1)));
    ea_text_printf(t, "  %s: %lld %s used", quota_text_of(st, 2), (long long)sqlite3_column_int64(st, 6),
                   quota_text_of(st, 3));
    if (!limit)
        ea_text_str(t, ", no limit");
    else if (period_s)
        ea_text_printf(t, ", %lld in %lld s allowed", limit, period_s);
    else
        ea_text_printf(t, ", %lld at a time allowed", limit);
    if (sqlite3_column_int64(st, 7))
        ea_text_printf(t, ", refused %lld times", (long long)sqlite3_column_int64(st, 7));
    if (sqlite3_column_int64(st, 8)) {
        ea_text_str(t, ", above its quota since ");
        ea_text_utc_ns(t, sqlite3_column_int64(st, 8));
    }
    ea_text_char(t, '\n');
}

static int add_uses(ea_text *t, const options *o, sqlite3 *db, ea_err *err) {
    static const char SQL[] = "SELECT who, name, resource, unit, allowed, period_s, used, refused, above_since_utc_ns,"
                              " utc_ns FROM quotas WHERE (?1 IS NULL OR name = ?1) AND (?2 = 0 OR above_since_utc_ns)"
                              " ORDER BY who, name, position";
    sqlite3_stmt *st = NULL;
    int code, is_first = 1;
    if (sqlite3_prepare_v2(db, SQL, -1, &st, NULL) != SQLITE_OK)
        return 0; /* no collector that knows quotas has run yet */
    if (o->host)
        sqlite3_bind_text(st, 1, o->host, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 2, o->is_above);
    for (; (code = sqlite3_step(st)) == SQLITE_ROW; is_first = 0) {
        if (o->json)
            add_use_json(t, st, is_first);
        else
            add_use_text(t, st);
    }
    int rc = code == SQLITE_DONE ? 0 : ec_fail_sqlite(err, db, "read the quotas");
    sqlite3_finalize(st);
    return rc;
}

static int quota_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_store *store = NULL;
    ec_incidents *alarms = NULL;
    ea_err err = {0};
    ea_text t;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = ec_store_open(&store, o->store, &(ec_store_options){0}, &err);
    if (!rc)
        rc = ec_incidents_open(&alarms, o->store, 0, &err);
    if (!rc)
        rc = ec_question_confine(o->store, &err);
    if (!rc && o->json)
        ea_text_str(&t, "{\"kept\": [");
    if (!rc && (o->json || !o->is_above))
        rc = add_kept(&t, o, ec_store_database(store), &err);
    if (!rc && o->json)
        ea_text_str(&t, "\n], \"uses\": [");
    if (!rc)
        rc = add_uses(&t, o, ec_incidents_database(alarms), &err);
    if (!rc && o->json)
        ea_text_str(&t, "\n]}\n");
    if (!rc)
        rc = ec_answer_write(&t, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_incidents_close(alarms);
    ec_store_close(store);
    ea_text_deinit(&t);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {.name = "host",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, host),
     .help = "only this agent, or the reader whose token has this id"},
    {.name = "above",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, is_above),
     .help = "only what is above its quota now"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_quota = {
    .name = "quota",
    .operands = "",
    .summary = "List what agents and readers use of their quotas, and what was refused",
    .details =
        "First what the store keeps of each agent, then each resource of each agent and reader: how much was "
        "used since\n"
        "the collector's start, the limit (see run --quota-...), refused requests, and since when it is above "
        "its quota.\n"
        "A name is above its quota until nothing of it was refused for a minute. A running collector writes the "
        "numbers\n"
        "every 10 s, of the 1,000 names that were used last.\n"
        "--json: {\"kept\": [{host, streams, bytes, batches, definition_bytes, classes, tombstones}], \"uses\": "
        "[{who, name,\n"
        "resource, unit, limit, period_s, used, refused, above_since, at}]}. limit 0: none; period_s 0: an amount "
        "at a time.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = quota_run,
};
