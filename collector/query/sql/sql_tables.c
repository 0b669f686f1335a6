/* Tables of what is known about machines and the store: each is a SELECT over the collector's own databases, with typed
 * columns and those conditions handed down that a database can use. What they mean is in collector/state/SCHEMA.md.
 * Called by: sql.c. Calls: collector/state's and collector/store's tables. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/gaps.h"
#include "collector/state/incidents.h"
#include "collector/state/ledger_report.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum place { STORE, STATE, ALARMS, REQUESTS, MEMORY };

enum { COLUMNS_MAX = 32, CONDITIONS_MAX = COLUMNS_MAX * 5, IDLE_MAX = 4 /* SELECTs that a table keeps */ };

/* A column that is computed after grouping: an expression over the values of the group's columns, called t.NAME. */
typedef struct late {
    const char *name, *value; /* NULL ends the list */
} late;

typedef struct spec {
    const char *name;
    enum place place;
    const char *from;
    const char *key; /* a number of its own for each row */

    struct {
        const char *name;
        enum ec_kind kind;
        const char *value;  /* an expression over from; of grouped rows, an aggregate */
    } columns[COLUMNS_MAX]; /* ends with a NULL name; the first is the host, when it is called so */

    const char *group;      /* NULL: a row for each of from's. Else the first column's value, by which they are grouped:
                             * only what a statement names is summed up */
    const late *late;       /* NULL, or the columns of a group that are computed by another expression */
    const char *ordered[2]; /* NULL, or columns by which an index gives the rows in order */
} spec;

/* A sum of a column with this bound stays below 2^63: an agent can claim any number (EC_GAP_COUNT_MAX). */
#define COUNT_MAX   "1099511627775"
#define END_OF_TIME "9223372036854775807"
/* As ea_integrity_level (proto/event/accounts.h). */
#define INTEGRITY_LEVEL                                                                                                \
    "CASE WHEN t.mandatory_label NOT GLOB 'S-1-16-[0-9]*' OR substr(t.mandatory_label, 8) GLOB '*[^0-9]*' THEN NULL"   \
    " WHEN CAST(substr(t.mandatory_label, 8) AS INTEGER) < 4096 THEN 'Untrusted' WHEN CAST(substr(t.mandatory_label,"  \
    " 8) AS INTEGER) < 8192 THEN 'Low' WHEN CAST(substr(t.mandatory_label, 8) AS INTEGER) < 12288 THEN 'Medium' WHEN"  \
    " CAST(substr(t.mandatory_label, 8) AS INTEGER) < 16384 THEN 'High' ELSE 'System' END"
#define STREAM_COLUMNS                                                                                                 \
    {"host", EC_KIND_TEXT, "s.host"}, {                                                                                \
        "stream", EC_KIND_TEXT, "lower(hex(s.id))"                                                                     \
    }
#define LIFE_COLUMNS                                                                                                   \
    STREAM_COLUMNS, {"instance", EC_KIND_INT, "t.instance"}, {"begin", EC_KIND_TIME, "t.begin_utc_ns"},                \
        {"end", EC_KIND_TIME, "nullif(t.end_utc_ns, " END_OF_TIME ")"}, {"seen", EC_KIND_TIME, "t.seen_utc_ns"},       \
        {"begin_cause", EC_KIND_TEXT,                                                                                  \
         "CASE t.begin_cause WHEN 0 THEN 'start' WHEN 1 THEN 'rundown_start' WHEN 2 THEN 'rundown_end' ELSE 'end' "    \
         "END"},                                                                                                       \
    {                                                                                                                  \
        "end_cause", EC_KIND_TEXT,                                                                                     \
            "CASE t.end_cause WHEN 0 THEN NULL WHEN 1 THEN 'end' WHEN 2 THEN 'replaced' WHEN 3 THEN 'process_end'"     \
            " WHEN 4 THEN 'evicted' WHEN 5 THEN 'keyframe' WHEN 6 THEN 'rundown' ELSE 'other' END"                     \
    }

/* An instance of any stream as one number (ec_instance_key), and how it is found where a statement asks for one. */
#define KEY_OF(instance)      "t.stream << 40 | t." instance
#define KEY_OR_NULL(instance) "CASE WHEN t." instance " THEN t.stream << 40 | t." instance " END"

#define PARENTS(column)                                                                                                \
    "(SELECT p." column " FROM processes p WHERE p.stream = t.stream AND p.instance = nullif(t.parent_instance, 0))"

static const struct {
    const char *value, *found;
} KEYS[] = {

#define FOUND(instance) " AND t.stream = ?%d >> 40 AND t." instance " = ?%d & 1099511627775"
    {KEY_OF("instance"), FOUND("instance")},
    {KEY_OR_NULL("process_instance"), FOUND("process_instance")},
    {KEY_OR_NULL("parent_instance"), FOUND("parent_instance")},
#undef FOUND
};

/* Selects, of a machine's streams, the stream that was received last, and of several in one second the newest. */
#define LATEST "max(s.received_last_utc_ns / 1000000000 * 2147483648 + s.stream_id) % 2147483648"

/* Of the streams of a group. Not sum(), which fails beyond 2^63: an agent can claim any numbers. */
#define SUM_OF(select) "CAST(total((" select ")) AS INTEGER)"

/* How many gaps a machine has; a counted loss is one where no record of Windows gives its time. */
#define GAP_PERIODS                                                                                                    \
    SUM_OF("SELECT sum(CASE gap_kind(t.cause) WHEN 'counted' THEN t.unrecorded_count ELSE t.row_count END) FROM"       \
           " gap_sums t WHERE t.stream = s.stream")

/* When the last gap of a stream ended, as the view gap_periods has it: the smallest number when none did. */
#define LEAST "-9223372036854775807 - 1"
#define LAST_GAP_END                                                                                                   \
    "max(ifnull((SELECT max(b.end_utc_ns) FROM gaps b WHERE b.stream = s.stream AND b.end_utc_ns <"                    \
    " 9223372036854775807), " LEAST "), iif(EXISTS(SELECT 1 FROM gaps b WHERE b.stream = s.stream AND"                 \
    " b.end_utc_ns = 9223372036854775807 AND b.begin_utc_ns = " LEAST " AND b.cause IN (" EC_GAP_AT_ONCE               \
    ")) AND NOT EXISTS(SELECT 1 FROM gaps b WHERE b.stream = s.stream AND b.end_utc_ns = 9223372036854775807 AND"      \
    " b.batch_count > 0), s.end_utc_ns, " LEAST "))"

// clang-format off
static const late HOSTS_LATE[] = {
    {"agent_version", "(SELECT nullif(o.agent_version, '') FROM origins o WHERE o.stream_id = t.agent_version)"},
    {"labels", "(SELECT nullif(o.labels, '') FROM origins o WHERE o.stream_id = t.labels)"},
    {"ended", "agent_ended(t.ended)"},
    {0}};
/* Periods of which something is missing. */
#define GAPS STATE, \
     "streams s JOIN gap_periods t ON t.stream = s.stream", \
     "row_key(t.stream, t.first, t.cause, t.position)", \
     {STREAM_COLUMNS, \
      {"first", EC_KIND_INT, "t.first"}, \
      {"last", EC_KIND_INT, "t.last"}, \
      {"kind", EC_KIND_TEXT, "gap_kind(t.cause)"}, \
      {"cause", EC_KIND_TEXT, "gap_name(t.cause)"}, \
      {"batches", EC_KIND_INT, "t.batch_count"}, \
      {"events", EC_KIND_INT, "t.event_count"}, \
      {"at_least", EC_KIND_INT, "t.least_count"}, \
      {"counted", EC_KIND_INT, "t.counted"}, \
      {"records", EC_KIND_INT, "t.record_count"}, \
      {"begin", EC_KIND_TIME, "t.begin_utc_ns"}, \
      {"end", EC_KIND_TIME, "t.end_utc_ns"}}, NULL, NULL, {NULL}

static const spec SPECS[] = {
    {"hosts", STORE,
     "streams s",
     "min(s.stream_id)",
     {{"host", EC_KIND_TEXT, "s.agent"},
      {"machine", EC_KIND_TEXT, "nullif(max(s.source_host), '')"},
      {"agent_version", EC_KIND_TEXT, LATEST},
      {"labels", EC_KIND_TEXT, LATEST},
      {"streams", EC_KIND_INT, "count(*)"},
      {"batches", EC_KIND_INT, "sum(s.batch_count)"},
      {"events", EC_KIND_INT, "sum(s.event_count)"},
      {"bytes", EC_KIND_INT, "sum(s.byte_count)"},
      {"begin", EC_KIND_TIME, "min(s.begin_utc_ns)"},
      {"end", EC_KIND_TIME, "max(s.end_utc_ns)"},
      {"received_first", EC_KIND_TIME, "min(s.received_first_utc_ns)"},
      {"received_last", EC_KIND_TIME, "max(s.received_last_utc_ns)"},
      {"ended", EC_KIND_TIME, "s.agent"}},
     "s.agent", HOSTS_LATE, {NULL}},
    {"streams", STORE,
     "streams t",
     "t.stream_id",
     {{"host", EC_KIND_TEXT, "t.agent"},
      {"stream", EC_KIND_TEXT, "lower(hex(t.stream))"},
      {"machine", EC_KIND_TEXT, "nullif(t.source_host, '')"},
      {"agent_version", EC_KIND_TEXT,
       "(SELECT nullif(o.agent_version, '') FROM origins o WHERE o.stream_id = t.stream_id)"},
      {"labels", EC_KIND_TEXT, "(SELECT nullif(o.labels, '') FROM origins o WHERE o.stream_id = t.stream_id)"},
      {"batches", EC_KIND_INT, "t.batch_count"},
      {"highest", EC_KIND_INT, "(SELECT max(r.last) FROM ranges r WHERE r.stream_id = t.stream_id)"},
      {"missing", EC_KIND_INT,
       "(SELECT min(max(r.last) - sum(r.last - r.first + 1), " COUNT_MAX ") FROM ranges r WHERE r.stream_id = t.stream_id)"},
      {"events", EC_KIND_INT, "t.event_count"},
      {"bytes", EC_KIND_INT, "t.byte_count"},
      {"begin", EC_KIND_TIME, "t.begin_utc_ns"},
      {"end", EC_KIND_TIME, "t.end_utc_ns"},
      {"received_first", EC_KIND_TIME, "t.received_first_utc_ns"},
      {"received_last", EC_KIND_TIME, "t.received_last_utc_ns"}}, NULL, NULL, {NULL}},
    {"batches", STORE,
     "streams s JOIN batches t ON t.stream_id = s.stream_id",
     "t.segment << 40 | t.offset",
     {{"host", EC_KIND_TEXT, "s.agent"},
      {"stream", EC_KIND_TEXT, "lower(hex(s.stream))"},
      {"batch", EC_KIND_INT, "t.number"},
      {"kind", EC_KIND_TEXT, "CASE t.kind WHEN 0 THEN 'events' WHEN 1 THEN 'tombstone' WHEN 2 THEN 'keyframe' ELSE 'other' END"},
      {"events", EC_KIND_INT, "t.event_count"},
      {"bytes", EC_KIND_INT, "t.len_bytes"},
      {"begin", EC_KIND_TIME, "t.begin_utc_ns"},
      {"end", EC_KIND_TIME, "t.end_utc_ns"},
      {"received", EC_KIND_TIME, "t.received_utc_ns"},
      {"segment", EC_KIND_INT, "t.segment"},
      {"offset", EC_KIND_INT, "t.offset"}}, NULL, NULL, {"begin", "segment"}},
    {"classes", MEMORY,
     "classes t",
     "t.rowid",
     {{"name", EC_KIND_TEXT, "t.name"},
      {"provider_name", EC_KIND_TEXT, "t.provider_name"},
      {"provider", EC_KIND_TEXT, "t.provider"},
      {"kind", EC_KIND_TEXT, "t.kind"},
      {"code", EC_KIND_INT, "t.code"},
      {"version", EC_KIND_INT, "t.version"},
      {"pointer_size", EC_KIND_INT, "t.pointer_size"},
      {"schema", EC_KIND_TEXT, "t.schema"},
      {"fields", EC_KIND_INT, "t.fields"},
      {"hash", EC_KIND_TEXT, "t.hash"}}, NULL, NULL, {NULL}},
    {"processes", STATE,
     "streams s JOIN processes t ON t.stream = s.stream",
     "t.stream << 40 | t.instance",
     {LIFE_COLUMNS,
      {"pid", EC_KIND_INT, "t.pid"},
      {"parent_pid", EC_KIND_INT, "t.parent_pid"},
      {"parent_instance", EC_KIND_INT, "nullif(t.parent_instance, 0)"},
      {"parent_image_name", EC_KIND_TEXT, PARENTS("image_name")},
      {"parent_command_line", EC_KIND_TEXT, PARENTS("command_line")},
      {"session_id", EC_KIND_INT, "nullif(t.session_id, 4294967295)"},
      {"image_name", EC_KIND_TEXT, "t.image_name"},
      {"command_line", EC_KIND_TEXT, "t.command_line"},
      {"sid", EC_KIND_TEXT, "nullif(t.sid, '')"},
      {"account", EC_KIND_TEXT, "account_name(t.sid, s.host)"},
      {"package", EC_KIND_TEXT, "t.package"},
      {"application", EC_KIND_TEXT, "t.application"},
      {"mandatory_label", EC_KIND_TEXT, "nullif(t.mandatory_label, '')"},
      {"integrity_level", EC_KIND_TEXT, INTEGRITY_LEVEL},
      {"elevation_type", EC_KIND_TEXT,
       "CASE t.elevation_type WHEN 1 THEN 'default' WHEN 2 THEN 'full' WHEN 3 THEN 'limited' END"},
      {"elevated", EC_KIND_INT, "CASE t.elevated WHEN 1 THEN 0 WHEN 2 THEN 1 END"},
      {"logon_id", EC_KIND_ADDRESS, "nullif(t.logon_id, -9223372036854775807 - 1)"},
      {"exit_status", EC_KIND_HEX, "CASE WHEN t.end_cause = 1 THEN t.exit_status END"},
      {"flags", EC_KIND_HEX, "t.flags"},
      {"unique_key", EC_KIND_ADDRESS, "t.unique_key"},
      {"directory_table_base", EC_KIND_ADDRESS, "t.directory_table_base"},
      {"process_key", EC_KIND_INT, KEY_OF("instance")},
      {"parent_key", EC_KIND_INT, KEY_OR_NULL("parent_instance")}}, NULL, NULL, {NULL}},
    {"threads", STATE,
     "streams s JOIN threads t ON t.stream = s.stream",
     "t.stream << 40 | t.instance",
     {LIFE_COLUMNS,
      {"tid", EC_KIND_INT, "t.tid"},
      {"pid", EC_KIND_INT, "t.pid"},
      {"process_instance", EC_KIND_INT, "nullif(t.process_instance, 0)"},
      {"cpu", EC_KIND_INT, "CASE WHEN t.tid = 0 THEN t.cpu END"},
      {"name", EC_KIND_TEXT, "t.name"},
      {"stack_base", EC_KIND_ADDRESS, "t.stack_base"},
      {"start_address", EC_KIND_ADDRESS, "t.start_address"},
      {"win32_start_address", EC_KIND_ADDRESS, "t.win32_start_address"},
      {"teb", EC_KIND_ADDRESS, "t.teb"},
      {"thread_key", EC_KIND_INT, KEY_OF("instance")},
      {"process_key", EC_KIND_INT, KEY_OR_NULL("process_instance")}}, NULL, NULL, {NULL}},
    {"modules", STATE,
     "streams s JOIN modules t ON t.stream = s.stream",
     "t.stream << 40 | t.instance",
     {LIFE_COLUMNS,
      {"pid", EC_KIND_INT, "t.pid"},
      {"process_instance", EC_KIND_INT, "nullif(t.process_instance, 0)"},
      {"base", EC_KIND_ADDRESS, "t.base"},
      {"size_bytes", EC_KIND_INT, "t.size_bytes"},
      {"path", EC_KIND_TEXT, "t.path"},
      {"default_base", EC_KIND_ADDRESS, "t.default_base"},
      {"checksum", EC_KIND_HEX, "t.checksum"},
      {"timestamp", EC_KIND_INT, "t.timestamp"},
      {"pdb_guid", EC_KIND_TEXT, "t.pdb_guid"},
      {"pdb_age", EC_KIND_INT, "t.pdb_age"},
      {"pdb_path", EC_KIND_TEXT, "t.pdb_path"},
      {"original_name", EC_KIND_TEXT, "t.original_name"},
      {"file_bytes", EC_KIND_INT, "nullif(t.file_bytes, 0)"},
      {"sha256", EC_KIND_TEXT, "t.sha256"},
      {"file_version", EC_KIND_TEXT, "t.file_version"},
      {"company", EC_KIND_TEXT, "t.company"},
      {"product", EC_KIND_TEXT, "t.product"},
      {"description", EC_KIND_TEXT, "t.description"},
      {"md5", EC_KIND_TEXT, "t.md5"},
      {"sha1", EC_KIND_TEXT, "t.sha1"},
      {"imphash", EC_KIND_TEXT, "t.imphash"},
      {"kind", EC_KIND_TEXT, "CASE t.kind WHEN 1 THEN 'announced' ELSE 'image' END"},
      {"process_key", EC_KIND_INT, KEY_OR_NULL("process_instance")}}, NULL, NULL, {NULL}},
    {"ledger", STATE,
     "streams s JOIN ledger_batches b ON b.stream = s.stream"
     " JOIN ledger_counts t ON t.stream = b.stream AND t.number = b.number",
     "row_key(t.stream, t.number, t.counter, t.family)",
     {STREAM_COLUMNS,
      {"batch", EC_KIND_INT, "t.number"},
      {"time", EC_KIND_TIME, "b.utc_ns"},
      {"incarnation", EC_KIND_INT, "b.incarnation"},
      {"family", EC_KIND_TEXT, "t.family"},
      {"counter", EC_KIND_TEXT, "counter_name(t.counter)"},
      {"type", EC_KIND_TEXT, "counter_type(t.counter)"},
      {"value", EC_KIND_INT, "t.value"},
      {"stored", EC_KIND_INT, "b.stored_count"}}, NULL, NULL, {NULL}},
    {"ledger_last", STATE,
     "streams s JOIN ledger_counts t ON t.stream = s.stream AND t.number = (SELECT max(l.number) FROM ledger_counts l"
     " WHERE l.stream = t.stream AND l.family = t.family AND l.counter = t.counter)",
     "row_key(t.stream, t.counter, t.family)",
     {STREAM_COLUMNS,
      {"family", EC_KIND_TEXT, "t.family"},
      {"counter", EC_KIND_TEXT, "counter_name(t.counter)"},
      {"type", EC_KIND_TEXT, "counter_type(t.counter)"},
      {"value", EC_KIND_INT, "t.value"},
      {"stored", EC_KIND_INT, "s.event_count"}}, NULL, NULL, {NULL}},
    {"recorders", STATE,
     "streams s JOIN ledger_counts t ON t.stream = s.stream AND t.family = '' AND t.counter = 244 AND t.number ="
     " (SELECT max(l.number) FROM ledger_counts l WHERE l.stream = t.stream AND l.family = '' AND l.counter = 244)",
     "t.stream",
     {STREAM_COLUMNS,
      {"begin", EC_KIND_TIME, "CASE WHEN t.value BETWEEN 1 AND 9223372036 THEN t.value * 1000000000 END"},
      {"time", EC_KIND_TIME,
       "(SELECT max(b.utc_ns) FROM ledger_batches b WHERE b.stream = t.stream)"},
      {"events", EC_KIND_INT,
       "(SELECT c.value FROM ledger_counts c WHERE c.stream = t.stream AND c.family = '' AND c.counter = 230 ORDER BY"
       " c.number DESC LIMIT 1)"},
      {"ended", EC_KIND_INT,
       "EXISTS (SELECT 1 FROM ledger_counts c WHERE c.stream = t.stream AND c.family = '' AND c.counter = 120 AND"
       " c.value > 0)"}}, NULL, NULL, {NULL}},
    {"gaps", GAPS},
    {"blindness", GAPS}, /* the old name, until version 0.2 */
    {"alerts", STATE,
     "streams s JOIN alerts t ON t.stream = s.stream",
     "row_key(t.stream, t.number, t.kind, t.family)",
     {STREAM_COLUMNS,
      {"batch", EC_KIND_INT, "t.number"},
      {"family", EC_KIND_TEXT, "t.family"},
      {"kind", EC_KIND_TEXT, "alert_name(t.kind)"},
      {"time", EC_KIND_TIME, "t.utc_ns"},
      {"left", EC_KIND_INT, "t.left_count"},
      {"right", EC_KIND_INT, "t.right_count"},
      {"text", EC_KIND_TEXT, "t.text"}}, NULL, NULL, {NULL}},
    {"host_totals", STATE,
     "streams s",
     "min(s.stream)",
     {{"host", EC_KIND_TEXT, "s.host"},
      {"alerts", EC_KIND_INT, SUM_OF("SELECT a.row_count FROM alert_sums a WHERE a.stream = s.stream")},
      {"gap_periods", EC_KIND_INT, GAP_PERIODS},
      {"missing_batches", EC_KIND_INT, SUM_OF("SELECT total(t.batch_count) FROM gap_sums t WHERE t.stream = s.stream")},
      {"lost_events", EC_KIND_INT,
       SUM_OF("SELECT total(CASE gap_kind(t.cause) WHEN 'counted' THEN t.least_count END) FROM gap_sums t WHERE"
              " t.stream = s.stream")},
      {"last_gap_end", EC_KIND_TIME, "nullif(max(" LAST_GAP_END "), " LEAST ")"},
      {"blind_periods", EC_KIND_INT, GAP_PERIODS}}, /* the old name, until version 0.2 */
     "s.host", NULL, {NULL}},
    {"incidents", ALARMS,
     "alarms t",
     "t.alarm_id",
     {{"host", EC_KIND_TEXT, "t.host"},
      {"stream", EC_KIND_TEXT, "nullif(t.stream, '')"},
      {"kind", EC_KIND_TEXT, "t.kind"},
      {"family", EC_KIND_TEXT, "t.family"},
      {"begin", EC_KIND_TIME, "t.begin_utc_ns"},
      {"end", EC_KIND_TIME, "t.end_utc_ns"},
      {"left", EC_KIND_INT, "t.left_count"},
      {"right", EC_KIND_INT, "t.right_count"},
      {"text", EC_KIND_TEXT, "t.text"}}, NULL, NULL, {NULL}},
    {"detections", ALARMS,
     "detections t",
     "t.detection_id",
     {{"host", EC_KIND_TEXT, "t.host"},
      {"time", EC_KIND_TIME, "t.utc_ns"},
      {"level", EC_KIND_TEXT, "nullif(t.level, '')"},
      {"title", EC_KIND_TEXT, "nullif(t.title, '')"},
      {"pid", EC_KIND_INT, "t.pid"},
      {"process", EC_KIND_TEXT, "t.process"},
      {"state", EC_KIND_TEXT, "t.state"},
      {"who", EC_KIND_TEXT, "nullif(t.who, '')"},
      {"comment", EC_KIND_TEXT, "nullif(t.comment, '')"},
      {"state_time", EC_KIND_TIME, "t.state_utc_ns"},
      {"fields", EC_KIND_TEXT, "t.fields"},
      {"rule", EC_KIND_TEXT, "t.rule"},
      {"source", EC_KIND_TEXT, "t.source"},
      {"tags", EC_KIND_TEXT, "t.tags"},
      {"rule_text", EC_KIND_TEXT, "(SELECT r.text FROM detections_rules r WHERE r.text_id = t.text_id)"},
      {"chain", EC_KIND_TEXT, "t.chain"},
      {"stream", EC_KIND_TEXT, "t.stream"},
      {"batch", EC_KIND_INT, "t.batch"},
      {"position", EC_KIND_INT, "t.position"},
      {"found", EC_KIND_TIME, "t.found_utc_ns"},
      {"number", EC_KIND_INT, "t.detection_id"}}, NULL, NULL, {NULL}},
    {"requests", REQUESTS,
     /* of each machine that it names, known or not: of a request that fits no known machine, a row without one */
     "(SELECT m.host, r.*, p.state, p.utc_ns, p.batches, p.events, p.bytes AS sent_bytes, p.text FROM requests r JOIN"
     " machines m LEFT JOIN reports p ON p.serial = r.serial AND p.host = m.host WHERE p.host IS NOT NULL OR"
     " name_in(r.hosts, m.host) UNION ALL SELECT NULL, r.*, NULL, NULL, NULL, NULL, NULL, NULL FROM requests r WHERE NOT"
     " EXISTS (SELECT 1 FROM machines m WHERE name_in(r.hosts, m.host)) AND NOT EXISTS (SELECT 1 FROM reports p WHERE"
     " p.serial = r.serial)) t",
     "row_key(t.serial, t.host)",
     {{"host", EC_KIND_TEXT, "t.host"},
      {"request", EC_KIND_INT, "t.serial"},
      {"kind", EC_KIND_TEXT, "request_part(t.bytes, 'kind')"},
      {"state", EC_KIND_TEXT, "request_state(t.state, t.withdrawn, t.expires_utc_ns)"},
      {"begin", EC_KIND_TIME, "request_part(t.bytes, 'begin')"},
      {"end", EC_KIND_TIME, "request_part(t.bytes, 'end')"},
      {"limit_bytes", EC_KIND_INT, "request_part(t.bytes, 'limit')"},
      {"added", EC_KIND_TIME, "t.added_utc_ns"},
      {"expires", EC_KIND_TIME, "t.expires_utc_ns"},
      {"time", EC_KIND_TIME, "t.utc_ns"},
      {"batches", EC_KIND_INT, "t.batches"},
      {"events", EC_KIND_INT, "t.events"},
      {"bytes", EC_KIND_INT, "t.sent_bytes"},
      {"text", EC_KIND_TEXT, "nullif(t.text, '')"},
      {"hosts", EC_KIND_TEXT, "request_hosts(t.hosts)"}}, NULL, NULL, {NULL}},
    {"unkept_matches", ALARMS,
     "(SELECT host, stream, batch, rule, filter, count FROM detections_suppressed UNION ALL"
     " SELECT host, stream, batch, rule, NULL, count FROM detections_left_out) t",
     "row_key(t.host, t.stream, t.batch, t.rule, t.filter)",
     {{"host", EC_KIND_TEXT, "t.host"},
      {"rule", EC_KIND_TEXT, "t.rule"},
      {"filter", EC_KIND_TEXT, "t.filter"},
      {"matches", EC_KIND_INT, "t.count"},
      {"stream", EC_KIND_TEXT, "t.stream"},
      {"batch", EC_KIND_INT, "t.batch"}}, NULL, NULL, {NULL}},
};

// clang-format on

/* What a module stands for. */
typedef struct source {
    ec_sql *sql;
    const spec *spec;
} source;

/* A parameter of a SELECT. */
typedef struct given {
    int argument; /* of xFilter */
    enum ec_kind kind;
} given;

/* A SELECT of a table, prepared. */
typedef struct selection {
    sqlite3_stmt *statement;
    ea_text key; /* the plan, and which of its arguments the SELECT has */
    given given[CONDITIONS_MAX];
    int given_count;
} selection;

typedef struct table {
    ec_sql_typed base;
    const spec *spec;
    enum ec_kind kinds[COLUMNS_MAX];
    sqlite3 *db;               /* where its SELECTs run */
    selection *idle[IDLE_MAX]; /* of cursors that were closed: a statement that runs again needs them again */
    size_t replaced;           /* the next of them that has to go */
} table;

typedef struct cursor {
    sqlite3_vtab_cursor base;
    selection *selection; /* NULL: none yet */
    ea_text key;          /* of the SELECT that is needed */
    int is_row;
} cursor;

/* ---- the databases ---- */

static void counter_name(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    uint32_t number = (uint32_t)sqlite3_value_int64(v[0]);
    enum ea_counter which = ea_counter_of_number(number);
    if (which < EA_COUNTER_COUNT)
        sqlite3_result_text(c, ea_counter_row(which)->name, -1, SQLITE_STATIC);
    else
        sqlite3_result_value(c, v[0]);
}

static void gap_name(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    sqlite3_result_text(c, ec_gap_name((uint32_t)sqlite3_value_int64(v[0])), -1, SQLITE_STATIC);
}

static void gap_kind(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    sqlite3_result_text(c, ec_gap_kind((uint32_t)sqlite3_value_int64(v[0])), -1, SQLITE_STATIC);
}

/* "counter" or "gauge"; NULL: a newer agent's. */
static void counter_type(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    enum ea_counter which = ea_counter_of_number((uint32_t)sqlite3_value_int64(v[0]));
    if (which < EA_COUNTER_COUNT)
        sqlite3_result_text(c, ea_counter_row(which)->type == EA_GAUGE ? "gauge" : "counter", -1, SQLITE_STATIC);
}

/* A hash of what makes a row the one it is. */
static void row_key(sqlite3_context *c, int count, sqlite3_value **v) {
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) {
        sqlite3_int64 n = sqlite3_value_int64(v[i]);
        hash = sqlite3_value_type(v[i]) == SQLITE_TEXT
                   ? ea_hash64(sqlite3_value_text(v[i]), (size_t)sqlite3_value_bytes(v[i]), hash)
                   : ea_hash64(&n, sizeof n, hash);
    }
    sqlite3_result_int64(c, (sqlite3_int64)(hash >> 1));
}

static void alert_name(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    sqlite3_result_text(c, ec_alert_name((uint32_t)sqlite3_value_int64(v[0])), -1, SQLITE_STATIC);
}

static int tables_failed(ea_err *err, sqlite3 *db, const char *what) {
    return ea_fail(err, ec_sqlite_lacks_memory(sqlite3_extended_errcode(db)) ? EA_ENOMEM : EA_EDATABASE, "%s: %s", what,
                   sqlite3_errmsg(db));
}

static int open_state(ec_sql *s, sqlite3 **ret, ea_err *err) {
    enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC };

    if (!s->state) {
        int rc = ec_state_db_open(&s->state, s->dir, 0, err);
        if (rc)
            return rc;
        sqlite3 *db = ec_state_db_database(s->state);

        static const struct {
            const char *name;
            int arguments;
            void (*function)(sqlite3_context *c, int count, sqlite3_value **v);
        } FUNCTIONS[] = {{"counter_name", 1, counter_name},
                         {"counter_type", 1, counter_type},
                         {"gap_name", 1, gap_name},
                         {"gap_kind", 1, gap_kind},
                         {"alert_name", 1, alert_name},
                         {"row_key", -1, row_key},
                         {"account_name", 2, ec_sql_account_name}};

        int code = SQLITE_OK;
        for (size_t i = 0; code == SQLITE_OK && i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
            code = sqlite3_create_function_v2(db, FUNCTIONS[i].name, FUNCTIONS[i].arguments, FLAGS, s,
                                              FUNCTIONS[i].function, NULL, NULL, NULL);
        if (code != SQLITE_OK || sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) {
            rc = tables_failed(err, db, "read the history");
            ec_state_db_close(s->state);
            s->state = NULL;
            return rc;
        }
    }
    *ret = ec_state_db_database(s->state);
    return 0;
}

/* When the newest run of an agent ended in order; NULL: it did not, or nothing is folded yet. */
static void agent_ended(sqlite3_context *c, int count, sqlite3_value **v) {
    ec_sql *s = sqlite3_user_data(c);
    const char *agent = (const char *)sqlite3_value_text(v[0]);
    sqlite3 *state = NULL;
    int64_t utc_ns = 0;
    ea_err err = {0};
    (void)count;
    int rc = s->ends ? 0 : open_state(s, &state, &err);
    if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
        return;
    if (!rc && !s->ends)
        rc = ec_ends_open(&s->ends, s->state, ec_store_database(ec_archive_store(s->archive)), &err);
    if (!rc && agent)
        rc = ec_ends_of(s->ends, agent, &utc_ns, &err);
    if (rc > 0)
        sqlite3_result_int64(c, utc_ns);
    else if (rc < 0)
        sqlite3_result_error(c, err.message, -1);
}

static int add_row_key(sqlite3 *db, const char *doing, ea_err *err) {
    return sqlite3_create_function_v2(db, "row_key", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, row_key, NULL, NULL,
                                      NULL) == SQLITE_OK
               ? 0
               : tables_failed(err, db, doing);
}

static int open_alarms(ec_sql *s, sqlite3 **ret, ea_err *err) {
    int rc = s->alarms ? 0 : ec_incidents_open(&s->alarms, s->dir, 0, err);
    if (rc)
        return rc;
    *ret = ec_incidents_database(s->alarms);
    return add_row_key(*ret, "read the incidents", err);
}

static int open_requests(ec_sql *s, sqlite3 **ret, ea_err *err) {
    int rc = ec_sql_open_requests(s, ret, err);
    return rc ? rc : add_row_key(*ret, "read the requests", err);
}

static int fill_classes(ec_sql *s, sqlite3 *db, ea_err *err) {
    static const char *const KINDS[] = {"event", "keyframe", "aggregate"};
    static const char *const SCHEMAS[] = {"known", "newer", "unknown"};
    sqlite3_stmt *st = NULL;
    size_t count;
    const ea_class *const *classes = NULL;
    int rc = ec_archive_classes(s->archive, &classes, &count, err);
    if (rc)
        return rc;
    if (sqlite3_exec(db,
                     "CREATE TABLE classes(name, provider_name, provider, kind, code, version, pointer_size, schema,"
                     " fields, hash); BEGIN",
                     NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO classes VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, lower(hex(?10)))", -1,
                           &st, NULL) != SQLITE_OK)
        return tables_failed(err, db, "list the classes");
    int code = SQLITE_DONE;
    for (size_t i = 0; code == SQLITE_DONE && i < count; i++) {
        const ea_class *c = classes[i];
        char guid[37];
        ea_guid_format(&c->provider, guid);
        sqlite3_bind_text(st, 1, c->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, c->provider_name, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 3, guid, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(st, 4, KINDS[c->kind % 3], -1, SQLITE_STATIC);
        sqlite3_bind_int(st, 5, c->code);
        sqlite3_bind_int(st, 6, c->version);
        sqlite3_bind_int(st, 7, c->pointer_size);
        sqlite3_bind_text(st, 8, SCHEMAS[c->status % 3], -1, SQLITE_STATIC);
        sqlite3_bind_int(st, 9, c->top_count);
        sqlite3_bind_blob(st, 10, c->hash, sizeof c->hash, SQLITE_STATIC);
        code = sqlite3_step(st);
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    if (code != SQLITE_DONE || sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return tables_failed(err, db, "list the classes");
    return 0;
}

static int open_memory(ec_sql *s, sqlite3 **ret, ea_err *err) {
    if (!s->memory) {
        sqlite3 *db = NULL;
        if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
            sqlite3_close(db);
            return ea_fail(err, EA_ENOMEM, "list the classes");
        }
        int rc = fill_classes(s, db, err);
        if (rc) {
            sqlite3_close(db);
            return rc;
        }
        s->memory = db;
    }
    *ret = s->memory;
    return 0;
}

/* ---- the virtual table ---- */

static int tables_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                          char **ret_message) {
    const source *from = aux;
    ea_err err = {0};
    ea_text columns;
    sqlite3 *inner = NULL;
    (void)argc, (void)argv;
    int rc = 0;
    from->sql->uses_history |= from->spec->place == STATE;
    if (from->spec->place == STATE)
        rc = open_state(from->sql, &inner, &err);
    else if (from->spec->place == ALARMS)
        rc = open_alarms(from->sql, &inner, &err);
    else if (from->spec->place == REQUESTS)
        rc = open_requests(from->sql, &inner, &err);
    else if (from->spec->place == MEMORY)
        rc = open_memory(from->sql, &inner, &err);
    else {
        inner = ec_store_database(ec_archive_store(from->sql->archive));
        if (sqlite3_create_function_v2(inner, "agent_ended", 1, SQLITE_UTF8, from->sql, agent_ended, NULL, NULL,
                                       NULL) != SQLITE_OK)
            rc = tables_failed(&err, inner, "read the streams");
    }
    ea_text_init(&columns);
    for (size_t i = 0; !rc && i < COLUMNS_MAX && from->spec->columns[i].name; i++) {
        if (i)
            ea_text_char(&columns, ',');
        ec_sql_add_name(&columns, from->spec->columns[i].name);
        ea_text_printf(&columns, " %s", ec_kind_type(from->spec->columns[i].kind));
    }
    int code = ec_sql_make_table(db, rc, &err, &columns, sizeof(table), ret, ret_message);
    if (code != SQLITE_OK)
        return code;
    table *t = (table *)*ret;
    size_t count = 0;
    for (; count < COLUMNS_MAX && from->spec->columns[count].name; count++)
        t->kinds[count] = from->spec->columns[count].kind;
    ec_sql_typed_connect(from->sql, &t->base, t->kinds, count);
    t->spec = from->spec;
    t->db = inner;
    return SQLITE_OK;
}

static void selection_destroy(selection *s) {
    if (!s)
        return;
    sqlite3_finalize(s->statement);
    ea_text_deinit(&s->key);
    sqlite3_free(s);
}

static int tables_disconnect(sqlite3_vtab *base) {
    table *t = (table *)base;
    for (size_t i = 0; i < IDLE_MAX; i++)
        selection_destroy(t->idle[i]);
    ec_sql_typed_disconnect(&t->base);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The order in which rows are wanted, when an index gives it: the column's number and 1, doubled, and 1 more when it is
 * descending; 0: none. */
static int order_of(const spec *s, const sqlite3_index_info *info) {
    int column = info->nOrderBy == 1 ? info->aOrderBy[0].iColumn : -1;
    for (size_t i = 0; column >= 0 && column < COLUMNS_MAX && s->columns[column].name && i < 2; i++)
        if (s->ordered[i] && strcmp(s->columns[column].name, s->ordered[i]) == 0)
            return 2 * (column + 1) + (info->aOrderBy[0].desc != 0);
    return 0;
}

/* How rows with a key are found; NULL: the column is no key. */
static const char *found_by(const spec *s, size_t column) {
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (strcmp(s->columns[column].value, KEYS[i].value) == 0)
            return KEYS[i].found;
    return NULL;
}

/* The plan: the columns that are used, in hex; the order; then "column,operator " for each argument. */
static int best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const table *t = (const table *)base;
    double rows = t->spec->place == STATE ? 20000 : 1000;
    int next = 1, order = order_of(t->spec, info);
    ea_text plan;
    ea_text_init(&plan);
    ea_text_printf(&plan, "%llx %d ", (unsigned long long)info->colUsed, order);
    info->orderByConsumed = order != 0;
    for (int i = 0; i < info->nConstraint && !t->base.sql->options.no_pushdown; i++) {
        enum ec_op op;
        ea_err err = {0};
        int column = info->aConstraint[i].iColumn;
        if (column >= 0 && column < COLUMNS_MAX && t->spec->columns[column].name &&
            ec_sql_check_part(info, i, t->spec->columns[column].kind, t->spec->columns[column].name, &err)) {
            ea_text_deinit(&plan);
            return ec_sql_fail(base, &err);
        }
        if (!info->aConstraint[i].usable || !ec_sql_op(info->aConstraint[i].op, &op) || column < 0 ||
            column >= COLUMNS_MAX || !t->spec->columns[column].name)
            continue;
        if (t->spec->columns[column].kind == EC_KIND_TEXT && (op != EC_OP_EQ || !ec_sql_is_binary(info, i)))
            continue;
        if (ec_sql_is_list_of_addresses(info, i, t->spec->columns[column].kind))
            continue;
        if (t->spec->group && column != 0)
            continue;
        if (t->spec->columns[column].kind == EC_KIND_ADDRESS && ec_sql_hex(info, i)) {
            (void)ea_fail(&err, EA_EUSAGE, EC_SQL_NO_ADDRESS, t->spec->columns[column].name, ec_sql_hex(info, i));
            ea_text_deinit(&plan);
            return ec_sql_fail(base, &err);
        }
        ea_text_printf(&plan, "%d,%d ", column, (int)op);
        /* a time may be compared with a text, which the table turns into a number: SQLite must not look again */
        info->aConstraintUsage[i].omit = t->spec->columns[column].kind == EC_KIND_TIME && next <= CONDITIONS_MAX;
        info->aConstraintUsage[i].argvIndex = next++;
        /* a group, and an instance, are looked up by their keys */
        int is_key = t->spec->group || found_by(t->spec, (size_t)column) == KEYS[0].found;
        rows *= op == EC_OP_EQ ? (is_key ? 0.0001 : 0.05) : 0.4;
    }
    info->estimatedCost = rows + 10;
    info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
    return ec_sql_set_plan(info, &plan);
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    cursor *c = ec_sql_zalloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    ea_text_init(&c->key);
    *ret = &c->base;
    return SQLITE_OK;
}

/* Gives the cursor's SELECT back to its table. */
static void put_away(cursor *c) {
    table *t = (table *)c->base.pVtab;
    size_t i = 0;
    if (!c->selection)
        return;
    sqlite3_reset(c->selection->statement);
    sqlite3_clear_bindings(c->selection->statement);
    while (i < IDLE_MAX && t->idle[i])
        i++;
    if (i == IDLE_MAX) {
        i = t->replaced++ % IDLE_MAX;
        selection_destroy(t->idle[i]);
    }
    t->idle[i] = c->selection;
    c->selection = NULL;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    put_away(c);
    ea_text_deinit(&c->key);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int has_host(const spec *s) {
    return s->columns[0].name && strcmp(s->columns[0].name, "host") == 0;
}

/* Whether the caller may see the row at hand. */
static int is_shown(const cursor *c, const table *t) {
    const char *shown = t->base.sql->options.shown, *host;
    if (!shown || !has_host(t->spec))
        return 1;
    host = (const char *)sqlite3_column_text(c->selection->statement, 0);
    return host && ea_name_in(shown, host);
}

static int tables_step(cursor *c) {
    const table *t = (const table *)c->base.pVtab;
    ea_err err = {0};
    int code;
    do
        code = sqlite3_step(c->selection->statement);
    while (code == SQLITE_ROW && !is_shown(c, t));
    c->is_row = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return SQLITE_OK;
    (void)tables_failed(&err, t->db, "read the tables");
    return ec_sql_fail(c->base.pVtab, &err);
}

static uint64_t plan_number(const char **at, unsigned base) {
    uint64_t n = 0;
    for (; **at && **at != ' ' && **at != ','; ++*at)
        n = n * base + (unsigned)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
    if (**at)
        ++*at;
    return n;
}

/* A condition that the database compares as SQLite would compare our column. */
static int can_compare(enum ec_kind kind, sqlite3_value *v) {
    int type = kind == EC_KIND_TEXT ? sqlite3_value_type(v) : sqlite3_value_numeric_type(v);
    return kind == EC_KIND_TEXT ? type == SQLITE_TEXT : type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* "value, value, ..., key": of the columns that are used. */
static void sql_tables_write_values(ea_text *sql, const spec *s, uint64_t used) {
    for (size_t i = 0; i < COLUMNS_MAX && s->columns[i].name; i++) {
        ea_text_printf(sql, "%s%s", i ? ", " : "", used >> i & 1 ? s->columns[i].value : "NULL");
        if (s->group)
            ea_text_printf(sql, " AS \"%s\"", s->columns[i].name);
    }
    ea_text_printf(sql, ", %s%s FROM %s WHERE 1", s->key, s->group ? " AS group_key" : "", s->from);
}

/* A column of a group, and a comma. */
static void write_late(ea_text *sql, const spec *s, const char *name, int is_used) {
    const late *l = is_used ? s->late : NULL;
    while (l && l->name && strcmp(l->name, name) != 0)
        l++;
    if (l && l->name)
        ea_text_printf(sql, "%s, ", l->value);
    else
        ea_text_printf(sql, "t.\"%s\", ", name);
}

/* A condition of KEYS on parameter number n; %d stands for it. */
static void sql_tables_write_found(ea_text *sql, const char *found, int n) {
    for (const char *at; (at = strstr(found, "%d")); found = at + 2) {
        ea_text_add(sql, found, (size_t)(at - found));
        ea_text_printf(sql, "%d", n);
    }
    ea_text_str(sql, found);
}

/* Passes over the columns and the order of a plan, up to its arguments. */
static const char *plan_arguments(const char *plan) {
    (void)plan_number(&plan, 16);
    (void)plan_number(&plan, 10);
    return plan;
}

/* Which arguments the database compares: a byte each after the plan. */
static void write_key(ea_text *key, const table *t, const char *plan, int argc, sqlite3_value **argv) {
    const char *at = plan_arguments(plan);
    ea_text_clear(key);
    ea_text_str(key, plan);
    for (int i = 0; i < argc; i++) {
        uint64_t column = plan_number(&at, 10);
        enum ec_kind kind = t->spec->columns[column].kind;
        (void)plan_number(&at, 10);
        ea_text_char(key, kind == EC_KIND_TIME || can_compare(kind, argv[i]) ? '+' : '-');
    }
}

/* The SELECT of a plan, and its parameters. is_compared: of each argument, as write_key writes it. */
static void write_select(ea_text *sql, const table *t, const char *plan, const char *is_compared, selection *to) {
    static const char *const OPS[] = {"=", "<", "<=", ">", ">="};
    const spec *s = t->spec;
    int argc = (int)strlen(is_compared);
    uint64_t used = plan_number(&plan, 16) | (t->base.sql->options.shown != NULL); /* is_shown() reads the host */
    uint64_t order = plan_number(&plan, 10);
    int count = 0;
    ea_text_str(sql, "SELECT ");
    for (size_t i = 0; s->group && i < COLUMNS_MAX && s->columns[i].name; i++)
        write_late(sql, s, s->columns[i].name, used >> i & 1);
    if (s->group)
        ea_text_str(sql, "t.group_key FROM (SELECT ");
    sql_tables_write_values(sql, s, used);
    for (int i = 0; i < argc; i++) {
        uint64_t column = plan_number(&plan, 10), op = plan_number(&plan, 10);
        enum ec_kind kind = s->columns[column].kind;
        if (count == CONDITIONS_MAX || is_compared[i] != '+')
            continue;
        const char *found = op == EC_OP_EQ ? found_by(s, column) : NULL;
        if (found)
            sql_tables_write_found(sql, found, count + 1);
        else if (op == EC_OP_EQ && strcmp(s->columns[column].value, "t.pid") == 0)
            /* else SQLite takes the primary key of a stream, and reads all of its rows, before the index of numbers */
            ea_text_printf(sql, " AND unlikely(t.pid = ?%d)", count + 1);
        else
            ea_text_printf(sql, " AND %s %s ?%d", s->columns[column].value, OPS[op], count + 1);
        to->given[count++] = (given){i, kind};
    }
    if (t->base.sql->options.host && has_host(s))
        ea_text_printf(sql, " AND %s = ?%d", s->columns[0].value, count + 1);
    if (s->group)
        ea_text_printf(sql, " GROUP BY %s) t", s->group);
    if (order)
        ea_text_printf(sql, " ORDER BY %s%s", s->columns[order / 2 - 1].value, order & 1 ? " DESC" : "");
    to->given_count = count;
}

/* Sets the cursor's SELECT by its key. */
static int select_for(cursor *c, const char *plan, ea_err *err) {
    table *t = (table *)c->base.pVtab;
    if (c->key.failed)
        return ea_fail(err, EA_ENOMEM, "read the tables");
    if (c->selection && strcmp(c->selection->key.data, c->key.data) == 0) { /* the same of another value */
        sqlite3_reset(c->selection->statement);
        return 0;
    }
    put_away(c);
    for (size_t i = 0; i < IDLE_MAX; i++)
        if (t->idle[i] && strcmp(t->idle[i]->key.data, c->key.data) == 0) {
            c->selection = t->idle[i];
            t->idle[i] = NULL;
            return 0;
        }
    selection *s = ec_sql_zalloc(sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "read the tables");
    ea_text sql;
    int rc = 0;
    ea_text_init(&sql);
    ea_text_init(&s->key);
    ea_text_str(&s->key, c->key.data);
    write_select(&sql, t, plan, c->key.data + strlen(plan), s);
    if (sql.failed || s->key.failed)
        rc = ea_fail(err, EA_ENOMEM, "read the tables");
    else if (sqlite3_prepare_v2(t->db, sql.data, -1, &s->statement, NULL) != SQLITE_OK)
        rc = tables_failed(err, t->db, "read the tables");
    ea_text_deinit(&sql);
    if (rc)
        selection_destroy(s);
    else
        c->selection = s;
    return rc;
}

static int tables_bind(const cursor *c, sqlite3 *db, int number, enum ec_kind kind, sqlite3_value *v, ea_err *err) {
    sqlite3_stmt *st = c->selection->statement;
    ec_sql *s = ((const table *)c->base.pVtab)->base.sql;
    int64_t utc_ns;
    int code;
    if (kind == EC_KIND_TIME && sqlite3_value_numeric_type(v) == SQLITE_TEXT) {
        int rc = ec_sql_time(s, (const char *)sqlite3_value_text(v), &utc_ns, err);
        if (rc)
            return rc;
        code = sqlite3_bind_int64(st, number, utc_ns);
    } else if (kind == EC_KIND_ADDRESS && sqlite3_value_type(v) == SQLITE_TEXT) {
        int rc = ec_sql_address((const char *)sqlite3_value_text(v), &utc_ns, err);
        if (rc)
            return rc;
        code = sqlite3_bind_int64(st, number, utc_ns);
    } else {
        int rc = kind == EC_KIND_TIME ? ec_sql_check_ns(s, v, err) : 0;
        if (rc)
            return rc;
        code = sqlite3_bind_value(st, number, v);
    }
    return code == SQLITE_OK ? 0 : tables_failed(err, db, "read the tables");
}

static int tables_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    const table *t = (const table *)base->pVtab;
    const char *host = t->base.sql->options.host;
    ea_err err = {0};
    (void)number;
    c->is_row = 0;
    for (int i = 0; i < argc; i++) /* nothing compares with NULL, such as the key of a process that is not known */
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return SQLITE_OK;
    write_key(&c->key, t, plan, argc, argv);
    int rc = select_for(c, plan, &err);
    const selection *s = c->selection;
    for (int i = 0; !rc && i < s->given_count; i++)
        rc = tables_bind(c, t->db, i + 1, s->given[i].kind, argv[s->given[i].argument], &err);
    if (!rc && host && sqlite3_bind_parameter_count(s->statement) > s->given_count &&
        sqlite3_bind_text(s->statement, s->given_count + 1, host, -1, SQLITE_STATIC) != SQLITE_OK)
        rc = tables_failed(&err, t->db, "read the tables");
    return rc ? ec_sql_fail(base->pVtab, &err) : tables_step(c);
}

static int tables_next(sqlite3_vtab_cursor *base) {
    return tables_step((cursor *)base);
}

static int at_end(sqlite3_vtab_cursor *base) {
    return !((cursor *)base)->is_row;
}

static int tables_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    sqlite3_result_value(context, sqlite3_column_value(((cursor *)base)->selection->statement, which));
    return SQLITE_OK;
}

/* The same in every scan: SQLite joins what several of them find (OR) by it. */
static int tables_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    sqlite3_stmt *st = ((cursor *)base)->selection->statement;
    *ret = sqlite3_column_int64(st, sqlite3_column_count(st) - 1);
    return SQLITE_OK;
}

static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = tables_connect,
    .xBestIndex = best_index,
    .xDisconnect = tables_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = tables_filter,
    .xNext = tables_next,
    .xEof = at_end,
    .xColumn = tables_column,
    .xRowid = tables_rowid,
};

int ec_sql_history(ec_sql *s, sqlite3 **ret, ea_err *err) {
    return open_state(s, ret, err);
}

static const spec *sql_tables_find(const char *name) {
    size_t i = 0;
    while (i < sizeof SPECS / sizeof SPECS[0] && strcmp(SPECS[i].name, name) != 0)
        i++;
    EA_ASSERT(i < sizeof SPECS / sizeof SPECS[0] && SPECS[i].place == STATE && !SPECS[i].group);
    return &SPECS[i];
}

const char *ec_sql_history_from(const char *name) {
    return sql_tables_find(name)->from;
}

const char *ec_sql_history_column(const char *name, const char *column, const char **ret_type) {
    const spec *s = sql_tables_find(name);
    size_t i = 0;
    while (i < COLUMNS_MAX && s->columns[i].name && strcmp(s->columns[i].name, column) != 0)
        i++;
    EA_ASSERT(i < COLUMNS_MAX && s->columns[i].name);
    *ret_type = ec_kind_type(s->columns[i].kind);
    return s->columns[i].value;
}

int ec_sql_add_tables(ec_sql *s, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof SPECS / sizeof SPECS[0]; i++)
        rc = ec_sql_add_module(s, SPECS[i].name, &MODULE, &(source){s, &SPECS[i]}, sizeof(source), err);
    return rc;
}
