/* etwcollector detections list, detections set: events that Sigma rules matched, and what people did about them. Called
 * by: main.c. Calls: collector/state (detections.h; alarms.db). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/detection_rows.h"
#include "collector/app/question.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "collector/store/store.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const STATES[] = {"open", "acknowledged", "closed", NULL};
static const char *const STATES_OR_ALL[] = {"open", "acknowledged", "closed", "all", NULL};

enum { ANY_STATE = 3, SUPPRESSED_MAX = 1000 };

typedef struct detections_options {
    const char *store, *host;
    int state, json;
    uint64_t number, limit;
} detections_options;

enum detections_column {
    NUMBER,
    TIME,
    HOST,
    LEVEL,
    TITLE,
    RULE,
    SOURCE,
    STATE,
    WHO,
    COMMENT,
    STATE_TIME,
    PID,
    PROCESS,
    STREAM,
    BATCH,
    POSITION,
    FIELDS,
    FOUND,
    TAGS,
    TEXT,
    CHAIN,
};

static const char LIST[] = "SELECT " EC_DETECTION_COLUMNS(
    "CASE WHEN ?3 THEN (SELECT r.text FROM detections_rules r WHERE r.text_id ="
    " d.text_id) END") " FROM detections d WHERE (?1 IS NULL OR host = ?1) AND (?2 IS NULL OR"
                       " state = ?2) AND (?3 = 0 OR detection_id = ?3) ORDER BY utc_ns DESC, detection_id DESC LIMIT "
                       "?4";

static const char CHAIN_SQL[] =
    "SELECT json_extract(value, '$.image_name'), json_extract(value, '$.pid'), json_extract(value, '$.account'),"
    " json_extract(value, '$.command_line') FROM json_each(iif(json_valid(?1), ?1, '[]'))";

static const char *detections_text(sqlite3_stmt *st, enum detections_column column) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

static void detections_add_member(ea_text *t, sqlite3_stmt *st, const char *name, enum detections_column column) {
    ea_text_printf(t, ", \"%s\": ", name);
    ea_text_json_str(t, (const char *)sqlite3_column_text(st, column));
}

void ec_detection_add_json(ea_text *t, sqlite3_stmt *st, unsigned parts) {
    ea_text_printf(t, "{\"number\": %lld", (long long)sqlite3_column_int64(st, NUMBER));
    ec_json_time(t, "time", sqlite3_column_int64(st, TIME), 1);
    detections_add_member(t, st, "host", HOST);
    detections_add_member(t, st, "level", LEVEL);
    detections_add_member(t, st, "title", TITLE);
    detections_add_member(t, st, "rule", RULE);
    detections_add_member(t, st, "source", SOURCE);
    detections_add_member(t, st, "state", STATE);
    detections_add_member(t, st, "who", WHO);
    detections_add_member(t, st, "comment", COMMENT);
    ec_json_time(t, "state_time", sqlite3_column_int64(st, STATE_TIME),
                 sqlite3_column_type(st, STATE_TIME) != SQLITE_NULL);
    if (sqlite3_column_type(st, PID) == SQLITE_NULL)
        ea_text_str(t, ", \"pid\": null");
    else
        ea_text_printf(t, ", \"pid\": %lld", (long long)sqlite3_column_int64(st, PID));
    detections_add_member(t, st, "process", PROCESS);
    detections_add_member(t, st, "stream", STREAM);
    ea_text_printf(t, ", \"batch\": %lld, \"position\": %lld", (long long)sqlite3_column_int64(st, BATCH),
                   (long long)sqlite3_column_int64(st, POSITION));
    ec_json_time(t, "found", sqlite3_column_int64(st, FOUND), 1);
    ea_text_printf(t, ", \"tags\": %s", detections_text(st, TAGS));
    if (parts & EC_DETECTION_RULE_TEXT)
        detections_add_member(t, st, "rule_text", TEXT);
    if (parts & EC_DETECTION_CHAIN)
        ea_text_printf(t, ", \"chain\": %s", detections_text(st, CHAIN));
    ea_text_printf(t, ", \"fields\": %s}", detections_text(st, FIELDS));
}

static void detections_add_safe(ea_text *t, sqlite3_stmt *st, enum detections_column column) {
    ea_text_safe(t, detections_text(st, column), strlen(detections_text(st, column)));
}

/* The process and its parents, a line each, by SQLite's JSON functions. */
static void detections_add_chain(ea_text *t, sqlite3_stmt *row) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(sqlite3_db_handle(row), CHAIN_SQL, -1, &st, NULL) != SQLITE_OK)
        return;
    sqlite3_bind_text(st, 1, detections_text(row, CHAIN), -1, SQLITE_STATIC);
    for (int i = 0; sqlite3_step(st) == SQLITE_ROW; i++) {
        ea_text_str(t, i ? "\n    started by: " : "\n    process: ");
        for (int k = 0; k < 4; k++) {
            static const char *const BEFORE[] = {"", " (", "), ", ": "};
            const char *text = (const char *)sqlite3_column_text(st, k);
            ea_text_str(t, k == 1 || (text && *text) ? BEFORE[k] : k == 2 ? ")" : "");
            if (text)
                ea_text_safe(t, text, strlen(text));
        }
    }
    sqlite3_finalize(st);
}

static void detections_add_text(ea_text *t, sqlite3_stmt *st, int is_long) {
    ea_text_printf(t, "%lld  ", (long long)sqlite3_column_int64(st, NUMBER));
    ea_text_utc_ns(t, sqlite3_column_int64(st, TIME));
    ea_text_str(t, "  ");
    detections_add_safe(t, st, HOST);
    ea_text_str(t, "  ");
    detections_add_safe(t, st, LEVEL);
    ea_text_str(t, *detections_text(st, LEVEL) ? ": " : "");
    detections_add_safe(t, st, TITLE);
    if (sqlite3_column_type(st, PID) != SQLITE_NULL) {
        ea_text_str(t, "  ");
        detections_add_safe(t, st, PROCESS);
        ea_text_printf(t, " (%lld)", (long long)sqlite3_column_int64(st, PID));
    }
    ea_text_printf(t, "  %s", detections_text(st, STATE));
    if (*detections_text(st, WHO)) {
        ea_text_str(t, " by ");
        detections_add_safe(t, st, WHO);
    }
    if (*detections_text(st, COMMENT)) {
        ea_text_str(t, ": ");
        detections_add_safe(t, st, COMMENT);
    }
    ea_text_char(t, '\n');
    if (is_long) {
        ea_text_str(t, "    rule: ");
        detections_add_safe(t, st, RULE);
        ea_text_str(t, "\n    of: ");
        detections_add_safe(t, st, SOURCE);
        ea_text_printf(t,
                       "\n    event: stream %s, batch %lld, position %lld\n    fields: ", detections_text(st, STREAM),
                       (long long)sqlite3_column_int64(st, BATCH), (long long)sqlite3_column_int64(st, POSITION));
        detections_add_safe(t, st, FIELDS);
        detections_add_chain(t, st);
        ea_text_str(t, "\n    tags: ");
        detections_add_safe(t, st, TAGS);
        ea_text_str(t, "\n    the rule as it was:\n");
        for (const char *line = detections_text(st, TEXT); *line;) {
            size_t len = strcspn(line, "\r\n");
            ea_text_str(t, "        ");
            ea_text_safe(t, line, len);
            ea_text_char(t, '\n');
            line += len;
            line += strncmp(line, "\r\n", 2) == 0 ? 2 : *line != 0;
        }
    }
}

static int detections_list_rows(ea_text *t, const detections_options *o, sqlite3 *db, uint64_t *ret_count,
                                ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code, rc = ec_sqlite_prepare(db, &st, LIST, "read the detections", err);
    if (rc)
        return rc;
    if (o->host)
        sqlite3_bind_text(st, 1, o->host, -1, SQLITE_STATIC);
    if (o->state != ANY_STATE && !o->number)
        sqlite3_bind_text(st, 2, STATES[o->state], -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)o->number);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)o->limit);
    for (; (code = sqlite3_step(st)) == SQLITE_ROW; ++*ret_count) {
        if (o->json) {
            ea_text_str(t, *ret_count ? ",\n  " : "\n  ");
            ec_detection_add_json(t, st, o->number ? EC_DETECTION_CHAIN | EC_DETECTION_RULE_TEXT : 0);
        } else {
            detections_add_text(t, st, o->number != 0);
        }
    }
    rc = ec_sqlite_end(st, code, 0, "read the detections", err);
    sqlite3_finalize(st);
    return rc;
}

/* What was left out since its rule has too many, of a host or of all. */
static int count_left_out(const detections_options *o, sqlite3 *db, int64_t *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    *ret = 0;
    int rc = 0;
    if (sqlite3_prepare_v2(db, "SELECT total(count) FROM detections_left_out WHERE ?1 IS NULL OR host = ?1", -1, &st,
                           NULL) != SQLITE_OK)
        return 0; /* no collector that has rules has run yet */
    if (o->host)
        sqlite3_bind_text(st, 1, o->host, -1, SQLITE_STATIC);
    rc = ec_sqlite_step(st, "read the detections", err);
    if (rc > 0)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

/* What filters suppressed, of a host or of all: the most of it first. */
static int print_suppressed(ea_text *t, const detections_options *o, sqlite3 *db, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code, rc = 0, count = 0;
    if (o->json)
        ea_text_str(t, "\"suppressed\": [");
    if (sqlite3_prepare_v2(db,
                           "SELECT rule, filter, total(count) FROM detections_suppressed WHERE ?1 IS NULL OR host = ?1"
                           " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT ?2",
                           -1, &st, NULL) == SQLITE_OK) { /* else a collector of before, or none with rules */
        if (o->host)
            sqlite3_bind_text(st, 1, o->host, -1, SQLITE_STATIC);
        sqlite3_bind_int(st, 2, SUPPRESSED_MAX);
        for (; (code = sqlite3_step(st)) == SQLITE_ROW; count++) {
            const char *rule = (const char *)sqlite3_column_text(st, 0), *by = (const char *)sqlite3_column_text(st, 1);
            if (o->json) {
                ea_text_str(t, count ? ",\n  {\"rule\": " : "\n  {\"rule\": ");
                ea_text_json_str(t, rule);
                ea_text_str(t, ", \"filter\": ");
                ea_text_json_str(t, by);
                ea_text_printf(t, ", \"count\": %lld}", (long long)sqlite3_column_int64(st, 2));
            } else if (rule && by) {
                ea_text_printf(t, "%lld matches of ", (long long)sqlite3_column_int64(st, 2));
                ea_text_safe(t, rule, strlen(rule));
                ea_text_str(t, " were suppressed by the filter ");
                ea_text_safe(t, by, strlen(by));
                ea_text_char(t, '\n');
            }
        }
        rc = ec_sqlite_end(st, code, 0, "read the detections", err);
        sqlite3_finalize(st);
    }
    if (o->json)
        ea_text_str(t, "]");
    return rc;
}

static int detections_on_stream(const ec_stream_row *row, void *arg) {
    (void)row;
    *(int *)arg = 1;
    return 1;
}

/* Where there is no detection of a host: EA_ENOTFOUND when nothing at all is stored of it. */
static int detections_check_host(const detections_options *o, ea_err *err) {
    ec_store *store = NULL;
    int is_stored = 0;
    int rc = ec_store_open(&store, o->store, &(ec_store_options){0}, err);
    if (!rc)
        rc = ec_store_each_stream(store, o->host, detections_on_stream, &is_stored, err);
    ec_store_close(store);
    if (rc < 0 || is_stored)
        return rc < 0 ? rc : 0;
    return ea_fail(err, EA_ENOTFOUND,
                   "nothing is stored of host %.200s: expected a name that 'etwcollector hosts' lists", o->host);
}

static int detections_list_run(const void *arg, int operand_count, char **operands) {
    const detections_options *o = arg;
    ec_incidents *file = NULL;
    ea_err err = {0};
    ea_text t;
    uint64_t count = 0;
    int64_t left_out = 0;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = ec_store_check_readable(o->store, &err);
    if (!rc)
        rc = ec_incidents_open(&file, o->store, 0, &err);
    if (!rc && o->json)
        ea_text_str(&t, "{\"detections\": [");
    if (!rc)
        rc = detections_list_rows(&t, o, ec_incidents_database(file), &count, &err);
    if (!rc)
        rc = count_left_out(o, ec_incidents_database(file), &left_out, &err);
    if (!rc && o->host && !count)
        rc = detections_check_host(o, &err);
    if (!rc && o->number && !count)
        rc = ea_fail(&err, EA_ENOTFOUND, "there is no detection %" PRIu64, o->number);
    if (!rc && o->json)
        ea_text_printf(&t, "\n], \"left_out\": %" PRId64 ", ", left_out);
    else if (!rc && left_out)
        ea_text_printf(&t, "%" PRId64 " further matches were not kept: their rule has too many in an hour\n", left_out);
    if (!rc && (o->json || !o->number))
        rc = print_suppressed(&t, o, ec_incidents_database(file), &err);
    if (!rc && o->json)
        ea_text_str(&t, "}\n");
    if (!rc)
        rc = ec_answer_write(&t, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_incidents_close(file);
    ea_text_deinit(&t);
    return ea_exit_code(rc);
}

static const ea_option LIST_OPTIONS[] = {
    EC_STORE_OPTION(detections_options, store),
    {EC_HOST_OF(detections_options, host), .help = "only this agent's"},
    {.name = "state",
     .argument = "STATE",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(detections_options, state),
     .fallback = "open",
     .choices = STATES_OR_ALL,
     .help = "only those in this state"},
    {.name = "number",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(detections_options, number),
     .max = INT64_MAX,
     .help = "only this one, in any state, with its fields and the rule's text"},
    {.name = "limit",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(detections_options, limit),
     .fallback = "1000",
     .max = 1000000,
     .help = "print at most so many, the newest"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(detections_options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_detections_list = {
    .name = "detections list",
    .operands = "",
    .summary = "List events that Sigma rules matched while they arrived",
    .details =
        "The collector runs the rules of its option --rules on all that arrives, also late. An event and a rule are "
        "one\ndetection, however often the event comes. Of one rule and host 100 are kept for each hour of the events' "
        "time;\nfurther matches are counted. The collector may be running meanwhile.\n"
        "--json: {detections: [{number, time, host, level, title, rule, source, state, who, comment, state_time, pid, "
        "process,\nstream, batch, position, found, tags, fields}], left_out, suppressed: [{rule, filter, count}]}; "
        "with --number also rule_text and\nchain [{stream, instance, pid, image_name, command_line, account, begin}]: "
        "the process, its parent, and so on. SQL has "
        "them as table "
        "detections.",
    .options = LIST_OPTIONS,
    .options_size = sizeof(detections_options),
    .run = detections_list_run,
};

/* ---- set ---- */

typedef struct set_options {
    const char *store, *who, *comment;
    int state;
} set_options;

static int detections_set_run(const void *arg, int operand_count, char **operands) {
    const set_options *o = arg;
    ec_detections *d = NULL;
    ea_err err = {0};
    const char *user = getenv("USER"), *who = o->who ? o->who : user ? user : "";
    int rc = ec_store_check_readable(o->store, &err);
    if (!rc)
        rc = ec_detections_open(&d, o->store, &err);
    for (int i = 0; i < operand_count && !rc; i++) {
        uint64_t number;
        if (ea_u64_parse(operands[i], &number) || number > INT64_MAX)
            rc = ea_fail(&err, EA_EUSAGE, "%.100s is no number of a detection", operands[i]);
        else
            rc = ec_detections_set(d, number, (enum ec_detection_state)o->state, who, o->comment ? o->comment : "",
                                   ea_utc_ns(), &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_detections_close(d);
    return ea_exit_code(rc);
}

static const ea_option SET_OPTIONS[] = {
    EC_STORE_OPTION(set_options, store),
    {.name = "state",
     .argument = "STATE",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(set_options, state),
     .required = 1,
     .choices = STATES,
     .help = "the new state"},
    {.name = "who",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(set_options, who),
     .help = "who sets it; default: the environment variable USER"},
    {.name = "comment",
     .argument = "TEXT",
     .type = EA_OPT_STRING,
     .offset = offsetof(set_options, comment),
     .help = "why; it replaces the comment before"},
    {.name = NULL},
};

const ea_command ec_cmd_detections_set = {
    .name = "detections set",
    .operands = "NUMBER...",
    .summary = "Set the state of detections: open, acknowledged, closed",
    .details = "With who and why; detections list shows both. The collector may be running meanwhile.\n\n"
               "  etwcollector detections set --store /var/lib/etwcollector --state closed --comment 'a test' 17",
    .options = SET_OPTIONS,
    .options_size = sizeof(set_options),
    .run = detections_set_run,
    .min_operands = 1,
    .max_operands = -1,
};
