/* Lists and named queries. See questions.h; SQL.md in collector/query says what their tables are. */
#include "collector/web/questions.h"

#include "collector/query/scan/data_times.h"
#include "proto/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 100, LIMIT_MAX = 10000, NAME_MAX_BYTES = 64 };

static const uint64_t EXPORT_MAX = INT64_MAX - 1; /* so that one more is a number, too */

enum { PARAMS_MAX = 8 };

enum param_kind {
    PARAM_TEXT,
    PARAM_LIKE, /* a part of a text; case does not matter */
    PARAM_HOST, /* an agent's name: only what it sent is looked at; "" or not given: all */
    PARAM_TIME, /* RFC 3339, or ns since 1970 */
    PARAM_NUMBER,
    PARAM_WIDTH,   /* a duration: "1s" */
    PARAM_FLAG,    /* 0 or 1 */
    PARAM_GROUP,   /* what groups machines: health, host, agent_version or labels.NAME */
    PARAM_ADDRESS, /* an IP address, or a network as 10.0.0.0/8; "": any */
    PARAM_STATE,   /* of a detection; "": any */
    PARAM_REQUEST, /* the state of a request at a machine; "": any */
    PARAM_AMONG,   /* an agent's name: what it sent is compared with that of all others */
};

typedef struct param_spec {
    const char *name; /* of a part of the path, or of a parameter; NULL ends the list */
    enum param_kind kind;
    const char *fallback; /* NULL: it has to be given */
} param_spec;

enum fixed_kind {
    FIXED_LIST,
    FIXED_ONE,
    FIXED_HOSTS, /* a row for each host: of all rows only what they are sorted by is read, of a page's rows the rest
                  */
    FIXED_PROCESS,
    FIXED_DETECTION,
    FIXED_COLUMNS,    /* a list; 404 when there is no such class or table */
    FIXED_OF_PROCESS, /* a list; 404 when there is no such process */
};

typedef struct fixed {
    const char *name;  /* of a named query; its route's path otherwise */
    const char *text;  /* one sentence for a person */
    const char *sql;   /* ?1 ... are params, in their order */
    const char *order; /* the default ORDER BY; NULL: the order of the statement's rows */
    param_spec params[PARAMS_MAX];
    enum fixed_kind kind;
} fixed;

#define HOST                                                                                                           \
    { "host", PARAM_HOST, NULL }
#define ANY_HOST                                                                                                       \
    { "host", PARAM_HOST, "" }
#define AMONG_HOSTS                                                                                                    \
    { "host", PARAM_AMONG, "" }
#define RANGE                                                                                                          \
    {"from", PARAM_TIME, "-9223372036854775807"}, {                                                                    \
        "to", PARAM_TIME, "9223372036854775806"                                                                        \
    }
#define PROCESS                                                                                                        \
    HOST, {"stream", PARAM_TEXT, NULL}, {                                                                              \
        "instance", PARAM_NUMBER, NULL                                                                                 \
    }
#define OVERLAPS "begin <= ?3 AND (\"end\" IS NULL OR \"end\" > ?2)"
/* A period without a begin or an end: which is not known. */
#define GAP_OVERLAPS "(begin IS NULL OR begin <= ?3) AND (\"end\" IS NULL OR \"end\" >= ?2)"
#define PROCESS_COLUMNS                                                                                                \
    "host, stream, instance, begin, \"end\", begin_cause, end_cause, pid, parent_pid, parent_instance,"                \
    " parent_image_name, parent_command_line, session_id, image_name, command_line, sid, account, package, "           \
    "mandatory_label, integrity_level, elevation_type, elevated, logon_id, exit_status"
#define MODULE_COLUMNS                                                                                                 \
    "stream, instance, begin, \"end\", pid, process_instance, base, size_bytes, path, original_name, file_bytes,"      \
    " sha256, file_version, company, product, description, md5, sha1, imphash, kind"

#define DETECTION_COLUMNS                                                                                              \
    "number, host, time, level, title, rule, source, tags, pid, process, state, who, comment, state_time, stream,"     \
    " batch, position, found"

/* Of several gaps: a single agent can say that 2^63 batches are missing, and sum() fails beyond that. */
#define BATCHES_IN_ALL "CAST(total(batches) AS INTEGER)"
/* What the history counts for each machine. Such a question does not read the rows of alerts and gaps: their
 * number is up to each agent. */
#define TOTAL(column)  "(SELECT CAST(total(" column ") AS INTEGER) FROM host_totals)"
#define OPEN_INCIDENTS "(SELECT count(*) FROM incidents WHERE \"end\" IS NULL)"
#define MACHINES                                                                                                       \
    "WITH b AS MATERIALIZED (SELECT host, alerts, gap_periods, missing_batches, lost_events FROM host_totals),"        \
    " i AS MATERIALIZED (SELECT host, count(*) AS n FROM incidents WHERE \"end\" IS NULL GROUP BY host)"
#define MACHINES_WITH_TROUBLE "hosts h LEFT JOIN b ON b.host = h.host LEFT JOIN i ON i.host = h.host"
/* An agent whose newest run ended in order is not silent. */
#define IS_SILENT "(h.received_last < (CAST(strftime('%s', 'now') AS INTEGER) - 60) * 1000000000 AND h.ended IS NULL)"
/* The group of a machine: by is health, host, agent_version or labels.NAME; '' when it has none. */
#define GROUP_OF(by)                                                                                                   \
    "CASE " by                                                                                                         \
    " WHEN 'health' THEN CASE WHEN coalesce(b.alerts, 0) + coalesce(b.missing_batches, 0) + coalesce(i.n, 0) > 0 THEN" \
    " 'alerts, incidents or gaps' WHEN " IS_SILENT                                                                     \
    " THEN 'silent' WHEN h.ended IS NOT NULL THEN 'ended' ELSE 'well' END"                                             \
    " WHEN 'host' THEN h.host WHEN 'agent_version' THEN coalesce(h.agent_version, '') ELSE coalesce((SELECT "          \
    "CAST(l.value AS TEXT) FROM"                                                                                       \
    " json_each(CASE WHEN json_valid(h.labels) THEN h.labels END) l WHERE 'labels.' || l.key = " by "), '') END"

/* What processes used, by time: SQL.md. to is included. The process is joined by its instance: numbers of processes and
 * threads are used again, and two agents may use one stream id (an agent can send any). The stream is the process's,
 * which may be of another session than the events. */
#define UNTIL "min(?3, 9223372036854775806) + 1"
#define USED(table, value)                                                                                             \
    "SELECT u.bucket, coalesce(p.stream, u.stream) AS stream, p.instance, u.pid, p.image_name, " value " FROM " table  \
    "(?2, " UNTIL ", ?4) u LEFT JOIN processes p ON p.process_key = u.process_key WHERE u.host = ?1"

/* Sums of a table of what happened, by process. */
#define TOP(table, sums)                                                                                               \
    "SELECT u.host, coalesce(p.stream, u.stream) AS stream, p.instance, u.pid, p.image_name, " sums " FROM " table     \
    "(?2, " UNTIL ") u LEFT JOIN processes p ON p.process_key = u.process_key WHERE (?1 = '' OR u.host = ?1) AND"      \
    " u.pid IS NOT 0 GROUP BY u.host, u.stream, u.process_key, u.pid"
/* Its rows of threads, of a process number ?4 or of all. */
#define OF_THREADS(table, columns)                                                                                     \
    "SELECT u.host, coalesce(p.stream, u.stream) AS stream, p.instance, u.pid, p.image_name, u.tid, " columns          \
    " FROM " table "(?2, " UNTIL ") u LEFT JOIN processes p ON p.process_key = u.process_key WHERE (?1 = '' OR"        \
    " u.host = ?1) AND (?4 < 0 OR u.pid = ?4)"
#define TIMES(sum)                                                                                                     \
    sum "(u.running_ns) AS running_ns, " sum "(u.ready_ns) AS ready_ns, " sum "(u.waiting_ns) AS waiting_ns, " sum     \
        "(u.switches) AS switches, " sum "(u.waits) AS waits, " sum "(u.unfinished_running_ns + "                      \
        "u.unfinished_ready_ns + u.unfinished_waiting_ns) AS unfinished_ns"

/* Files that were loaded as modules: by SHA-256 where an image fact has it, so that another file under a usual path is
 * a file of its own; else by path without its volume. The loads of a path without a hash count the machines where the
 * path's hash is known, too. With a host ?1, those that the host has; the groups are of all hosts: what is rare or new
 * is so among all. */
#define FILES                                                                                                          \
    "WITH m AS MATERIALIZED (SELECT host, begin, path, path_on_volume(path) AS file, nullif(sha256, '') AS sha256"     \
    " FROM modules WHERE path <> ''), files AS (SELECT min(path) AS path, sha256, count(DISTINCT host) AS hosts,"      \
    " iif(?1 = '', min(host), ?1) AS host, count(*) AS loads, min(begin) AS first FROM m WHERE sha256 IS NOT NULL"     \
    " GROUP BY sha256 HAVING ?1 = '' OR max(host = ?1) UNION ALL SELECT min(path), NULL, count(DISTINCT host),"        \
    " iif(?1 = '', min(host), ?1), count(*), min(begin) FROM m GROUP BY file HAVING count(sha256) < count(*) AND"      \
    " (?1 = '' OR max(host = ?1 AND sha256 IS NULL))) "

/* Instructions and cycles of what programs ran, without Idle: counted from one context switch to the next, or estimated
 * by samples; a machine may have recorded either. of: columns to sum by. */
#define IPC(of)                                                                                                        \
    "WITH c AS (SELECT host, image, 'switches' AS source, counter, value FROM thread_counters(?2, " UNTIL              \
    ") WHERE (?1 = '' OR host = ?1) AND tid <> 0 UNION ALL SELECT host, image, 'samples', source_name, events FROM"    \
    " module_counters(?2, " UNTIL ") WHERE (?1 = '' OR host = ?1) AND pid IS NOT 0) SELECT " of                        \
    ", source, sum(CASE counter WHEN 'InstructionRetired' THEN value END) AS instructions,"                            \
    " nullif(sum(CASE counter WHEN 'TotalCycles' THEN value END), 0) AS cycles, sum(CASE counter WHEN"                 \
    " 'InstructionRetired' THEN value END) * 1.0 / nullif(sum(CASE counter WHEN 'TotalCycles' THEN value END), 0) AS"  \
    " ipc FROM c WHERE counter IN ('InstructionRetired', 'TotalCycles') GROUP BY " of ", source"

/* The same of functions, by samples alone: where a switch was says nothing of what ran before. */
#define IPC_OF_FUNCTIONS                                                                                               \
    "SELECT module, function, sum(CASE source_name WHEN 'InstructionRetired' THEN events END) AS instructions,"        \
    " nullif(sum(CASE source_name WHEN 'TotalCycles' THEN events END), 0) AS cycles, sum(CASE source_name WHEN"        \
    " 'InstructionRetired' THEN events END) * 1.0 / nullif(sum(CASE source_name WHEN 'TotalCycles' THEN events END),"  \
    " 0) AS ipc FROM function_counters(?2, " UNTIL                                                                     \
    ") WHERE (?1 = '' OR host = ?1) AND pid IS NOT 0 AND source_name IN"                                               \
    " ('InstructionRetired', 'TotalCycles') GROUP BY module, function"

/* Its row has the parameters of a list of a process. */
static const char PROCESS_SQL[] =
    "SELECT host, stream, instance FROM processes WHERE host = ?1 AND stream = ?2 AND instance = ?3";
/* Of questions that compare one host with all: they have a second parameter. */
#define UNKNOWN_HOST                                                                                                   \
    "nothing is stored of host %.200s: expected a name that 'etwcollector hosts' or /api/v1/hosts lists"
static const char HOST_SQL[] = "SELECT host FROM hosts WHERE host = ?1 AND ?2 IS ?2";
static const char NO_DETECTION[] = "there is no such detection: /api/v1/detections lists them";
static const char NO_TABLE[] = "there is no table and no stored class of this name: /api/v1/classes lists the classes";
static const char NO_PROCESS[] = "there is no such process: /api/v1/hosts/{host}/processes lists those of a host";

#define GAP_COLUMNS "stream, first, last, kind, cause, batches, events, at_least, counted, records, begin, \"end\""
#define GAPS_OF_HOST                                                                                                   \
    "Gaps: periods of which batches or events are missing",                                                            \
        "SELECT " GAP_COLUMNS " FROM gaps WHERE host = ?1 AND " GAP_OVERLAPS, "begin", {HOST, RANGE}, FIXED_LIST
#define GAPS_OF_ALL                                                                                                    \
    "Gaps of all machines: periods of which batches or events are missing",                                            \
        "SELECT host, " GAP_COLUMNS " FROM gaps WHERE (?1 = '' OR host = ?1) AND " GAP_OVERLAPS, "begin DESC",         \
        {ANY_HOST, RANGE}, FIXED_LIST

static const fixed LISTS[] = {
    {"/api/v1/fleet",
     "All machines in one line; silent: nothing came of them for a minute, and their last run did not end in order",
     "SELECT count(*) AS hosts, coalesce(sum(events), 0) AS events, coalesce(sum(bytes), 0) AS bytes,"
     " coalesce(sum(" IS_SILENT "), 0) AS silent, " TOTAL("alerts") " AS alerts, " TOTAL(
         "missing_batches") " AS missing_batches, " TOTAL("lost_events") " AS lost_events, " OPEN_INCIDENTS
                                                                         " AS incidents FROM hosts h",
     NULL,
     {{0}},
     FIXED_ONE},
    {"/api/v1/fleet/labels",
     "Names of labels, on how many machines each is and how many values it has there",
     "SELECT l.key AS label, count(DISTINCT h.host) AS hosts, count(DISTINCT l.value) AS \"values\" FROM hosts h,"
     " json_each(CASE WHEN json_valid(h.labels) THEN h.labels END) l GROUP BY l.key",
     "hosts DESC, label",
     {{0}},
     FIXED_LIST},
    {"/api/v1/fleet/groups",
     "Machines by health, host, agent_version or a label (labels.NAME): how many, and what came of them",
     MACHINES ", g AS MATERIALIZED (SELECT " GROUP_OF(
         "?1") " AS \"group\", h.events, h.bytes, " IS_SILENT
               " AS silent, b.alerts, i.n AS incidents, b.missing_batches AS batches FROM " MACHINES_WITH_TROUBLE
               " WHERE h.host LIKE ?2 ESCAPE '\\') SELECT \"group\", count(*) AS hosts, sum(events) AS events, "
               "sum(bytes) AS bytes, sum(silent) AS silent, coalesce(sum(alerts), 0) AS alerts,"
               " coalesce(sum(incidents), 0) AS incidents, " BATCHES_IN_ALL
               " AS missing_batches FROM g GROUP BY \"group\"",
     "hosts DESC, \"group\"",
     {{"by", PARAM_GROUP, NULL}, {"q", PARAM_LIKE, ""}},
     FIXED_LIST},
    {"/api/v1/load",
     "What came of the machines over time: batches, events and bytes, by groups",
     MACHINES ", g AS MATERIALIZED (SELECT h.host, CASE ?5 WHEN '' THEN '' ELSE " GROUP_OF(
         "?5") " END AS grp FROM " MACHINES_WITH_TROUBLE
               "), u AS MATERIALIZED (SELECT time_bucket(t.begin, ?4) AS bucket, g.grp, count(*) AS n, sum(t.events)"
               " AS events, sum(t.bytes) AS bytes FROM batches t JOIN g ON g.host = t.host WHERE t.begin BETWEEN ?2 AND"
               " ?3 AND (?1 = '' OR t.host = ?1) GROUP BY 1, 2), k AS MATERIALIZED (SELECT grp FROM u GROUP BY grp "
               "ORDER"
               " BY sum(events) DESC, grp LIMIT max(?6, 0)) SELECT time_text(bucket) AS bucket, CASE WHEN grp IN "
               "(SELECT grp FROM k) THEN "
               "grp"
               " END AS \"group\", sum(n) AS batches, sum(events) AS events, sum(bytes) AS bytes FROM u GROUP BY 1, 2",
     "bucket, \"group\" IS NULL, \"group\"",
     {ANY_HOST, RANGE, {"every", PARAM_WIDTH, "1m"}, {"by", PARAM_GROUP, ""}, {"top", PARAM_NUMBER, "10"}},
     FIXED_LIST},
    {"/api/v1/hosts",
     "Machines: what came of each and when, gaps and alerts; with by and group those of a group alone",
     MACHINES " SELECT h.host, h.machine, h.agent_version, h.labels, h.streams, h.batches, h.events, h.bytes, h.begin, "
              "h.\"end\", h.received_first,"
              " h.received_last, h.ended, coalesce(b.alerts, 0) AS alerts, coalesce(b.gap_periods, 0) AS"
              " gap_periods, coalesce(b.missing_batches, 0) AS missing_batches, coalesce(b.lost_events, 0) AS"
              " lost_events,"
              " coalesce(i.n, 0) AS incidents, coalesce(b.gap_periods, 0) AS blind_periods FROM " MACHINES_WITH_TROUBLE
              " WHERE h.host LIKE ?1 ESCAPE '\\' AND (?2 = '' OR " GROUP_OF("?2") " = ?3)",
     "host",
     {{"q", PARAM_LIKE, ""}, {"by", PARAM_GROUP, ""}, {"group", PARAM_TEXT, ""}},
     FIXED_HOSTS},
    {"/api/v1/hosts/{host}",
     "One machine",
     "SELECT h.host, h.machine, h.agent_version, h.labels, h.streams, h.batches, h.events, h.bytes, h.begin, "
     "h.\"end\", h.received_first,"
     " h.received_last, h.ended, " TOTAL("alerts") " AS alerts, " TOTAL("gap_periods") " AS gap_periods, " TOTAL(
         "missing_batches") " AS missing_batches, " TOTAL("lost_events") " AS lost_events, " OPEN_INCIDENTS
                                                                         " AS incidents, " TOTAL(
                                                                             "gap_periods") " AS blind_periods FROM "
                                                                                            "hosts h WHERE h.host = ?1",
     NULL,
     {HOST},
     FIXED_ONE},
    {"/api/v1/hosts/{host}/streams",
     "Runs of its agent",
     "SELECT * FROM streams WHERE host = ?1",
     "begin DESC",
     {HOST},
     FIXED_LIST},
    {"/api/v1/hosts/{host}/processes",
     "Processes that lived at some time in a range",
     "SELECT " PROCESS_COLUMNS " FROM processes WHERE host = ?1 AND " OVERLAPS " AND (((?4 <> '%%' OR ?5 < 0) AND"
     " (image_name LIKE ?4 ESCAPE '\\' OR command_line LIKE ?4 ESCAPE '\\')) OR pid = ?5)",
     "begin, stream, instance",
     {HOST, RANGE, {"q", PARAM_LIKE, ""}, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}",
     "One process",
     "SELECT " PROCESS_COLUMNS " FROM processes WHERE host = ?1 AND stream = ?2 AND instance = ?3",
     NULL,
     {PROCESS},
     FIXED_PROCESS},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}/children",
     "Processes that it started",
     "SELECT " PROCESS_COLUMNS " FROM processes WHERE host = ?1 AND stream = ?2 AND parent_instance = ?3",
     "begin, instance",
     {PROCESS},
     FIXED_OF_PROCESS},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}/modules",
     "Its modules",
     "SELECT " MODULE_COLUMNS " FROM modules WHERE host = ?1 AND stream = ?2 AND process_instance = ?3",
     "begin, base",
     {PROCESS},
     FIXED_OF_PROCESS},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}/threads",
     "Its threads",
     "SELECT stream, instance, begin, \"end\", tid, name, win32_start_address FROM threads WHERE host = ?1 AND stream "
     "= ?2"
     " AND process_instance = ?3",
     "begin, tid",
     {PROCESS},
     FIXED_OF_PROCESS},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}/files",
     "Files that it opened or tried to open",
     "WITH p AS MATERIALIZED (SELECT pid, begin, \"end\" FROM processes WHERE host = ?1 AND stream = ?2 AND instance = "
     "?3),"
     " f AS MATERIALIZED (SELECT OpenPath AS path, count FROM \"FileIo/Create_by\"('OpenPath') WHERE host = ?1 AND "
     "stream = ?2"
     " AND pid = (SELECT pid FROM p) AND time >= (SELECT begin FROM p) AND time < coalesce((SELECT \"end\" FROM p),"
     " 9223372036854775807)) SELECT path, count FROM f",
     "count DESC, path",
     {PROCESS},
     FIXED_OF_PROCESS},
    {"/api/v1/hosts/{host}/processes/{stream}/{instance}/registry",
     "Registry keys that it opened, made or deleted, and values that it set or deleted, each with its status; key: the "
     "name of its handle's key, if known",
     "WITH p AS MATERIALIZED (SELECT pid, begin, \"end\" FROM processes WHERE host = ?1 AND stream = ?2 AND instance = "
     "?3)"
     " SELECT time, name, registry_key_at(host, stream, json_extract(fields, '$.KeyHandle'), time) AS key,"
     " json_extract(fields, '$.KeyName') AS key_name, coalesce(json_extract(fields, "
     "'$.Status.name'), json_extract(fields, '$.Status.value')) AS status FROM events WHERE host = ?1 AND stream = ?2 "
     "AND"
     " pid = (SELECT pid FROM p) AND time >= (SELECT begin FROM p) AND time < coalesce((SELECT \"end\" FROM p),"
     " 9223372036854775807) AND name IN ('Registry/Create', 'Registry/Open', 'Registry/SetValue', "
     "'Registry/DeleteValue',"
     " 'Registry/Delete')",
     "time",
     {PROCESS},
     FIXED_OF_PROCESS},
    {"/api/v1/hosts/{host}/gaps", GAPS_OF_HOST},
    {"/api/v1/hosts/{host}/blindness", GAPS_OF_HOST}, /* the old name, until version 0.2 */
    {"/api/v1/hosts/{host}/cpu",
     "Samples of the processor by process and time, without Idle",
     USED("cpu_usage", "u.samples AS value") " AND u.pid IS NOT 0",
     "bucket, value DESC, pid",
     {HOST, RANGE, {"every", PARAM_WIDTH, "1s"}},
     FIXED_LIST},
    {"/api/v1/hosts/{host}/disk",
     "Requests to disks by process and time: how many, their bytes and how long they took",
     USED("disk_usage", "u.reads, u.read_bytes, u.writes, u.written_bytes, u.ns, u.max_ns, u.read_bytes + "
                        "u.written_bytes AS value"),
     "bucket, value DESC, pid",
     {HOST, RANGE, {"every", PARAM_WIDTH, "1s"}},
     FIXED_LIST},
    {"/api/v1/hosts/{host}/files",
     "Bytes that programs asked to read and write in files by process and time, those that the cache answered too",
     USED("file_usage", "u.read_bytes, u.written_bytes, u.read_bytes + u.written_bytes AS value"),
     "bucket, value DESC, pid",
     {HOST, RANGE, {"every", PARAM_WIDTH, "1s"}},
     FIXED_LIST},
    {"/api/v1/hosts/{host}/network",
     "Bytes that were sent and received over TCP and UDP, IPv4 and IPv6, by process and time",
     USED("network_usage", "u.received_bytes, u.sent_bytes, u.received_bytes + u.sent_bytes AS value"),
     "bucket, value DESC, pid",
     {HOST, RANGE, {"every", PARAM_WIDTH, "1s"}},
     FIXED_LIST},
    {"/api/v1/processes",
     "Processes of all machines, by name, command line or number",
     "SELECT " PROCESS_COLUMNS " FROM processes WHERE (?1 = '' OR host = ?1) AND " OVERLAPS
     " AND (image_name LIKE ?4 ESCAPE"
     " '\\' OR command_line LIKE ?4 ESCAPE '\\')",
     "begin, host, stream, instance",
     {ANY_HOST, RANGE, {"q", PARAM_LIKE, ""}},
     FIXED_LIST},
    {"/api/v1/modules",
     "Modules by path: on how many machines, how often they were loaded, first and last seen",
     "SELECT min(path) AS path, count(DISTINCT host) AS hosts, count(*) AS loads, time_text(min(begin)) AS first,"
     " time_text(max(begin)) AS last, max(size_bytes) AS size_bytes FROM modules WHERE (?1 = '' OR host = ?1) "
     "AND " OVERLAPS " AND path LIKE ?4 ESCAPE '\\' GROUP BY path COLLATE NOCASE",
     "hosts DESC, loads DESC, path",
     {ANY_HOST, RANGE, {"q", PARAM_LIKE, ""}},
     FIXED_LIST},
    {"/api/v1/connections",
     "TCP connections: who, to where, when",
     "WITH c AS MATERIALIZED (SELECT host, time, stream, name, json_extract(fields, '$.PID') AS pid, "
     "json_extract(fields,"
     " '$.saddr') AS local, json_extract(fields, '$.sport') AS local_port, json_extract(fields, '$.daddr') AS remote,"
     " json_extract(fields, '$.dport') AS remote_port, json_extract(fields, '$.connid') AS connection FROM events WHERE"
     " (?1 = '' OR host = ?1) AND time BETWEEN ?2 AND ?3 AND name IN ('TcpIp/ConnectIPV4', 'TcpIp/ConnectIPV6',"
     " 'TcpIp/AcceptIPV4', 'TcpIp/AcceptIPV6')) SELECT c.host, c.time, c.name, coalesce(p.stream, c.stream) AS stream,"
     " p.instance, c.pid, p.image_name, c.local, c.local_port, c.remote, c.remote_port, c.connection FROM c LEFT JOIN"
     " processes p ON p.process_key = process_at(c.host, c.stream, c.pid, c.time) WHERE CASE WHEN ?4 = '' THEN 1 WHEN"
     " instr(?4, '/') THEN ip_in(c.remote, ?4) ELSE c.remote = ip(?4) END AND"
     " (?5 < 0 OR c.pid = ?5)",
     "time DESC",
     {ANY_HOST, RANGE, {"remote", PARAM_ADDRESS, ""}, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"/api/v1/classes",
     "Classes of events that are stored",
     "SELECT name, provider_name, min(provider) AS provider, count(*) AS versions, max(fields) AS fields FROM classes "
     "WHERE"
     " name <> '' AND kind = 'event' AND name LIKE ?1 ESCAPE '\\' GROUP BY name, provider_name",
     "name",
     {{"q", PARAM_LIKE, ""}},
     FIXED_LIST},
    {"/api/v1/counters",
     "Hardware counters of which samples are stored: what a profile's weight pmc:COUNTER takes",
     "WITH s AS MATERIALIZED (SELECT host, ProfileSource AS source, count FROM \"PerfInfo/PmcCounterProf_by\"('host',"
     " 'ProfileSource') WHERE time BETWEEN ?2 AND ?3), n AS MATERIALIZED (SELECT host, json_extract(fields,"
     " '$.Source.value') AS source, max(json_extract(fields, '$.SourceName')) AS name FROM events WHERE name IN"
     " ('PerfInfo/CollectionStart', 'PerfInfo/SetInterval') GROUP BY 1, 2), k AS MATERIALIZED (SELECT ProfileSource AS"
     " source, max(ProfileSource_name) AS name FROM \"PerfInfo/PmcCounterProf_by\"('ProfileSource',"
     " 'ProfileSource_name') WHERE time BETWEEN ?2 AND ?3 GROUP BY 1) SELECT CAST(coalesce(nullif(n.name, ''), k.name,"
     " s.source) AS TEXT) AS counter, sum(s.count) AS samples, count(DISTINCT s.host) AS hosts FROM s LEFT JOIN n ON"
     " n.host = s.host AND n.source = s.source LEFT JOIN k ON k.source = s.source WHERE (?1 = '' OR s.host = ?1)"
     " GROUP BY 1",
     "samples DESC, counter",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"/api/v1/columns",
     "Columns of a class of events, as SQL has them",
     "SELECT name, type, hidden FROM pragma_table_xinfo(?1)",
     NULL,
     {{"class", PARAM_TEXT, "events"}},
     FIXED_COLUMNS},
    {"/api/v1/alerts",
     "Ledgers that do not add up, gaps, clocks that jump",
     "SELECT host, stream, time, kind, family, \"left\", \"right\", text FROM alerts WHERE (?1 = '' OR host = ?1) AND "
     "time"
     " BETWEEN ?2 AND ?3",
     "time DESC",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"/api/v1/incidents",
     "Machines that fell silent and ledgers that do not balance, with begin and end; without an end they last",
     "SELECT host, stream, kind, family, begin, \"end\", \"left\", \"right\", text FROM incidents WHERE (?1 = '' OR "
     "host ="
     " ?1) AND " OVERLAPS " AND (?4 = 0 OR \"end\" IS NULL)",
     "\"end\" IS NOT NULL, begin DESC",
     {ANY_HOST, RANGE, {"open", PARAM_FLAG, "0"}},
     FIXED_LIST},
    {"/api/v1/detections",
     "Events that Sigma rules matched while they arrived",
     "SELECT " DETECTION_COLUMNS " FROM detections WHERE (?1 = '' OR host = ?1) AND time BETWEEN ?2 AND ?3 AND (?4 = ''"
     " OR state = ?4) AND (?5 = '' OR level = ?5) AND (?6 = '' OR rule = ?6)",
     "time DESC, number DESC",
     {ANY_HOST, RANGE, {"state", PARAM_STATE, ""}, {"level", PARAM_TEXT, ""}, {"rule", PARAM_TEXT, ""}},
     FIXED_LIST},
    {"/api/v1/detections/{number}",
     "One detection, with the fields that its rule may have looked at, the process with its parents, and the text that "
     "the rule had",
     "SELECT " DETECTION_COLUMNS ", fields, chain, rule_text FROM detections WHERE number = ?1",
     NULL,
     {{"number", PARAM_NUMBER, NULL}},
     FIXED_DETECTION},
    {"/api/v1/requests",
     "What machines were asked, and what became of it at each of them",
     "SELECT host, request, kind, state, begin, \"end\", limit_bytes, added, expires, time, batches, events, bytes, "
     "text,"
     " hosts FROM requests WHERE (?1 = '' OR host = ?1) AND (?2 = '' OR state = ?2) AND (?3 = 0 OR request = ?3)",
     "request DESC, host",
     {ANY_HOST, {"state", PARAM_REQUEST, ""}, {"request", PARAM_NUMBER, "0"}},
     FIXED_LIST},
    {"/api/v1/gaps", GAPS_OF_ALL},
    {"/api/v1/blindness", GAPS_OF_ALL}, /* the old name, until version 0.2 */
    {"/api/v1/hosts/{host}/ledger",
     "Where each event of a machine went: every counter's last value, by run",
     "SELECT stream, counter, family, type, value, stored FROM ledger_last WHERE host = ?1 AND family = ''",
     "stream, counter",
     {HOST},
     FIXED_LIST},
    {0},
};

static const fixed QUERIES[] = {
    {"top-processes-by-cpu",
     "Processes with the most samples of the processor",
     TOP("cpu_usage", "sum(u.samples) AS samples"),
     "samples DESC, host, stream, pid",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"top-processes-by-disk",
     "Processes whose requests to disks had the most bytes, with how long the requests took",
     TOP("disk_usage", "sum(u.reads) AS reads, sum(u.read_bytes) AS read_bytes, sum(u.writes) AS writes,"
                       " sum(u.written_bytes) AS written_bytes, sum(u.ns) AS ns, max(u.max_ns) AS max_ns,"
                       " sum(u.read_bytes) + sum(u.written_bytes) AS bytes"),
     "bytes DESC, host, stream, pid",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"top-processes-by-network",
     "Processes that sent and received the most bytes over TCP and UDP",
     TOP("network_usage", "sum(u.receives) AS receives, sum(u.received_bytes) AS received_bytes, sum(u.sends) AS sends,"
                          " sum(u.sent_bytes) AS sent_bytes, sum(u.received_bytes) + sum(u.sent_bytes) AS bytes"),
     "bytes DESC, host, stream, pid",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"process-times",
     "Processes and how long their threads ran, were ready and waited",
     TOP("thread_times", "count(*) AS threads, " TIMES("sum")),
     "running_ns DESC, host, stream, pid",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"thread-times",
     "Threads and how long they ran, were ready and waited",
     OF_THREADS("thread_times", TIMES("")),
     "running_ns DESC, host, stream, pid, tid",
     {ANY_HOST, RANGE, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"thread-waits",
     "Threads and what they waited for",
     OF_THREADS("waits", "u.reason_name, u.count, u.ns, u.max_ns, u.unfinished_ns"),
     "ns DESC, host, stream, pid, tid, reason_name",
     {ANY_HOST, RANGE, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"thread-wakes",
     "Threads that ended the waits of others; Idle: an interrupt did",
     OF_THREADS("wakes", "u.waker_pid, u.waker_image, u.waker_tid, u.count, u.waited_ns"),
     "waited_ns DESC, host, stream, pid, tid, waker_pid, waker_tid",
     {ANY_HOST, RANGE, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"disk-files",
     "Files whose requests took the disks longest; without a name: requests whose file is unknown",
     "SELECT u.host, u.disk, u.file, u.operation, sum(u.count) AS count, sum(u.bytes) AS bytes, sum(u.ns) AS ns,"
     " max(u.max_ns) AS max_ns FROM disk_times(?2, " UNTIL
     ") u WHERE (?1 = '' OR u.host = ?1) AND (?4 < 0 OR u.pid = ?4) GROUP BY u.host, u.disk, u.file, u.operation",
     "ns DESC, host, disk, file, operation",
     {ANY_HOST, RANGE, {"pid", PARAM_NUMBER, "-1"}},
     FIXED_LIST},
    {"silent-machines",
     "Machines of which nothing came for a minute, though their last run did not end in order",
     "SELECT h.host, h.machine, h.agent_version, h.received_last FROM hosts h WHERE " IS_SILENT,
     "received_last, host",
     {{0}},
     FIXED_LIST},
    {"ipc-by-machine",
     "Instructions per cycle by machine: counted at context switches, or by samples",
     IPC("host"),
     "host, source",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"ipc-by-program",
     "Instructions per cycle by machine and program: counted at context switches, or by samples",
     IPC("host, image"),
     "cycles DESC, host, image, source",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"ipc-by-function",
     "Instructions per cycle by function: of samples, with names where symbols are, and places in modules elsewhere",
     IPC_OF_FUNCTIONS,
     "cycles DESC, module, function",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"watch-results",
     "Results of programs that agents run on their events: each row of the tables watch_NAME",
     "SELECT host, time_text(time) AS time, name AS \"table\", fields FROM events WHERE (?1 = '' OR host = ?1) AND time"
     " BETWEEN ?2 AND ?3 AND provider_name = 'etwagent-watch' AND (?4 = '' OR name = 'watch_' || ?4 OR"
     " substr(name, 1, length(?4) + 7) = 'watch_' || ?4 || '_')",
     "time DESC, host, \"table\", fields",
     {ANY_HOST, RANGE, {"program", PARAM_TEXT, ""}},
     FIXED_LIST},
    {"watch-tables",
     "Tables of the results of programs that agents run: on how many machines, how many rows, and the last one's time",
     "SELECT name AS \"table\", count(DISTINCT host) AS hosts, count(*) AS row_count, time_text(max(time)) AS last"
     " FROM events WHERE (?1 = '' OR host = ?1) AND time BETWEEN ?2 AND ?3 AND provider_name = 'etwagent-watch' GROUP"
     " BY name",
     "\"table\"",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"new-binaries",
     "Modules that were seen on no machine before a time, and since then",
     FILES "SELECT path, sha256, hosts, host, time_text(first) AS first FROM files WHERE first >= ?2",
     "first DESC, path",
     {AMONG_HOSTS, {"since", PARAM_TIME, NULL}},
     FIXED_LIST},
    {"who-talks-to",
     "Processes with a connection to an address or a network",
     "WITH c AS MATERIALIZED (SELECT host, stream, time, json_extract(fields, '$.PID') AS pid, json_extract(fields, "
     "'$.daddr') AS remote, json_extract(fields, '$.dport') AS port FROM events WHERE (?1 = '' OR host = ?1) AND time"
     " BETWEEN ?2 AND ?3 AND name IN ('TcpIp/ConnectIPV4', 'TcpIp/ConnectIPV6', 'TcpIp/AcceptIPV4', "
     "'TcpIp/AcceptIPV6'))"
     " SELECT c.host, coalesce(p.stream, c.stream) AS stream, p.instance, c.pid, p.image_name, c.remote, c.port,"
     " count(*) AS connections, time_text(min(c.time)) AS first FROM c LEFT JOIN processes p ON p.process_key ="
     " process_at(c.host, c.stream, c.pid, c.time) WHERE CASE WHEN instr(?4, '/') THEN ip_in(c.remote, ?4) ELSE"
     " c.remote = ip(?4) END GROUP BY 1, 2, 3, 4, 6, 7",
     "connections DESC",
     {ANY_HOST, RANGE, {"address", PARAM_ADDRESS, NULL}},
     FIXED_LIST},
    {"widespread-modules",
     "Modules on more than so many machines",
     FILES "SELECT path, sha256, hosts, loads FROM files WHERE hosts > ?2",
     "hosts DESC, path",
     {AMONG_HOSTS, {"hosts", PARAM_NUMBER, "1"}},
     FIXED_LIST},
    {"rare-modules",
     "Modules on at most so many machines",
     FILES "SELECT path, sha256, hosts, host, loads, time_text(first) AS first FROM files WHERE hosts <= ?2",
     "hosts, first DESC, path",
     {AMONG_HOSTS, {"hosts", PARAM_NUMBER, "1"}},
     FIXED_LIST},
    {"modules-from-unusual-places",
     "Modules that were loaded from a folder that users can write to",
     "SELECT m.host, m.stream, m.process_instance AS instance, m.begin, m.pid, m.path FROM modules m WHERE (?1 = '' OR "
     "m.host"
     " = ?1) AND m.begin BETWEEN ?2 AND ?3 AND m.path <> '' AND (m.path LIKE '%\\Temp\\%' OR m.path LIKE '%\\Users\\%' "
     "OR"
     " m.path LIKE '%\\ProgramData\\%' OR m.path LIKE '%\\Downloads\\%' OR m.path LIKE '%\\$Recycle.Bin\\%' OR m.path "
     "LIKE"
     " '%\\Windows\\Tasks\\%')",
     "begin DESC",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"process-starts",
     "Processes that were started",
     "SELECT " PROCESS_COLUMNS
     " FROM processes WHERE (?1 = '' OR host = ?1) AND begin BETWEEN ?2 AND ?3 AND begin_cause ="
     " 'start' AND (image_name LIKE ?4 ESCAPE '\\' OR command_line LIKE ?4 ESCAPE '\\') AND"
     " coalesce(parent_image_name, '') LIKE ?5 ESCAPE '\\'",
     "begin DESC",
     {ANY_HOST, RANGE, {"q", PARAM_LIKE, ""}, {"parent", PARAM_LIKE, ""}},
     FIXED_LIST},
    {"autostart-keys",
     "Values that were set under keys from which Windows starts programs",
     "SELECT host, time, pid, KeyHandle_name AS key, KeyName AS value_name FROM \"Registry/SetValue\" WHERE (?1 = '' "
     "OR host ="
     " ?1) AND time BETWEEN ?2 AND ?3 AND (KeyHandle_name LIKE '%\\CurrentVersion\\Run%' OR KeyHandle_name LIKE"
     " '%\\Services\\%' OR KeyHandle_name LIKE '%\\Winlogon%' OR KeyHandle_name LIKE '%\\Image File Execution "
     "Options%') AND coalesce(Status, 0) < 0x80000000",
     "time DESC",
     {ANY_HOST, RANGE},
     FIXED_LIST},
    {"hosts-with-gaps",
     "Machines of which batches are missing, or that lost events",
     "SELECT host, gap_periods AS periods, missing_batches AS batches, lost_events, time_text(last_gap_end) AS last "
     "FROM"
     " host_totals WHERE gap_periods > 0 OR missing_batches > 0 OR lost_events > 0",
     "batches DESC, lost_events DESC, host",
     {{0}},
     FIXED_LIST},
    {0},
};

/* ---- parameters ---- */

/* The part of the route's path that has this name; NULL: it has none. */
static const char *questions_part_of(const ec_call *c, const char *name) {
    size_t n = 0, length = strlen(name);
    for (const char *at = c->route->path; (at = strchr(at, '{')); at++, n++)
        if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '}')
            return c->parts[n];
    return NULL;
}

/* The value of a part of the path or of a parameter; NULL: not given. */
static const char *given(const ec_call *c, const char *name) {
    const char *part = questions_part_of(c, name);
    return part ? part : ec_call_param(c, name);
}

/* Of the host that the call names, start and end are its first and last event; else of all that the caller may see. */
static int questions_parse_time(const ec_call *c, const char *name, const char *text, int64_t *ret, ea_err *err) {
    char *rest = NULL;
    long long ns = strtoll(text, &rest, 10);
    if (*text && !*rest && *text != ' ' && *text != '+') {
        *ret = ns;
        return ec_data_check_ns((double)ns, err);
    }
    const char *shown = c->token && *c->token->hosts ? c->token->hosts : NULL;
    return ec_data_time(name, text, c->options->store, given(c, "host"), shown, ret, err);
}

int ec_param_time(const ec_call *c, const char *name, int64_t fallback, int64_t *ret, ea_err *err) {
    const char *text = given(c, name);
    if (!text || !*text) {
        *ret = fallback;
        return 0;
    }
    return questions_parse_time(c, name, text, ret, err);
}

int ec_written_time(ec_call *c, ea_err *err) {
    const char *text = ec_call_param(c, "text"), *host = ec_call_param(c, "host");
    int64_t ns = 0;
    int rc = host && *host ? ec_call_may_see(c, host, err) : 0;
    if (!rc && (!text || !*text))
        rc = ea_fail(err, EA_EUSAGE, "text is missing: expected " EA_TIME_FORMS_OF_DATA);
    if (!rc && host && *host &&
        (rc = questions_parse_time(c, "the host's first event", "start", &ns, err)) == EA_ENOTFOUND)
        (void)ea_fail(err, rc, UNKNOWN_HOST, host);
    if (!rc)
        rc = questions_parse_time(c, "the time", text, &ns, err);
    if (rc)
        return rc;
    ea_text_str(&c->out, "{\"time\":\"");
    ea_text_utc_ns(&c->out, ns);
    ea_text_str(&c->out, "\"}\n");
    return 0;
}

int ec_param_number(const ec_call *c, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret, ea_err *err) {
    const char *text = given(c, name);
    uint64_t n = fallback;
    if (text && *text && (ea_u64_parse(text, &n) || n > max))
        return ea_fail(err, EA_EUSAGE, "%s: a number up to %llu is expected", name, (unsigned long long)max);
    *ret = n;
    return 0;
}

int ec_param_limit(const ec_call *c, enum ec_form form, uint64_t *ret, int *ret_is_whole, ea_err *err) {
    int is_export = form == EC_FORM_CSV || form == EC_FORM_JSONL;
    const char *text = ec_call_param(c, "limit");
    uint64_t max = is_export ? EXPORT_MAX : LIMIT_MAX, limit = LIMIT;
    if (text && *text && (ea_u64_parse(text, &limit) || !limit || limit > max))
        return ea_fail(err, EA_EUSAGE, "limit: a number from 1 to %llu is expected", (unsigned long long)max);
    *ret = limit;
    *ret_is_whole = is_export && (!text || !*text);
    return 0;
}

int ec_param_check_range(int64_t from_ns, int64_t to_ns, ea_err *err) {
    return from_ns <= to_ns ? 0 : ea_fail(err, EA_EUSAGE, "from: the range begins after its end (to)");
}

int ec_param_form(const ec_call *c, enum ec_form fallback, enum ec_form *ret, ea_err *err) {
    const char *text = ec_call_param(c, "format");
    if (!text || strcmp(text, "json") == 0)
        *ret = fallback;
    else if (strcmp(text, "csv") == 0)
        *ret = EC_FORM_CSV;
    else if (strcmp(text, "jsonl") == 0)
        *ret = EC_FORM_JSONL;
    else
        return ea_fail(err, EA_EUSAGE, "format: json, csv or jsonl");
    return 0;
}

/* A pattern of LIKE for "contains"; what is special in it is escaped. */
static void questions_add_like(ea_text *t, const char *text) {
    ea_text_char(t, '%');
    for (; *text; text++) {
        if (strchr("%_\\", *text))
            ea_text_char(t, '\\');
        ea_text_char(t, *text);
    }
    ea_text_char(t, '%');
}

/* 1 for an IP address, or a network. */
static int is_network(const char *text) {
    uint8_t bytes[16];
    char address[INET6_ADDRSTRLEN] = {0};
    size_t n = strcspn(text, "/");
    const char *prefix = text[n] ? text + n + 1 : NULL, *end = prefix;
    uint64_t bits = 0;
    if (n >= sizeof address)
        return 0;
    memcpy(address, text, n);
    int is_v4 = inet_pton(AF_INET, address, bytes) == 1;
    if (!is_v4 && inet_pton(AF_INET6, address, bytes) != 1)
        return 0;
    return !prefix || (ea_digits_parse(&end, 10, &bits) && !*end && bits <= (is_v4 ? 32 : 128));
}

static int is_request_state(const char *text) {
    static const char *const STATES[] = {"", "waiting", "accepted", "sent", "refused", "expired", "withdrawn"};
    for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++)
        if (strcmp(text, STATES[i]) == 0)
            return 1;
    return 0;
}

static int read_param(const ec_call *c, const param_spec *spec, ea_text *like, ec_result *q, ec_value *ret,
                      ea_err *err) {
    const char *text = given(c, spec->name), *name = spec->name;
    int64_t number = 0;
    if (!text && (strcmp(name, "from") == 0 || strcmp(name, "to") == 0)) {
        text = ec_call_param(c, "at"); /* a moment is a range of no width */
        name = text ? "at" : name;
    }
    if (!text || (!*text && spec->kind != PARAM_TEXT))
        text = spec->fallback;
    if (!text)
        return ea_fail(err, EA_EUSAGE, "%s is missing", spec->name);
    switch (spec->kind) {
    case PARAM_LIKE:
        ea_text_clear(like);
        questions_add_like(like, text);
        if (like->failed)
            return ea_fail(err, EA_ENOMEM, "read %s", spec->name);
        *ret = (ec_value){.type = EC_TEXT, .data = like->data, .len_bytes = like->len_bytes};
        return 0;
    case PARAM_HOST:
        q->host = *text ? text : NULL;
        break;
    case PARAM_AMONG:
        if (!*text)
            break;
        ea_text_clear(like);
        ea_text_printf(like, UNKNOWN_HOST, text);
        if (like->failed)
            return ea_fail(err, EA_ENOMEM, "read %s", spec->name);
        q->subject = HOST_SQL;
        q->missing = like->data;
        break;
    case PARAM_TIME:
        if (questions_parse_time(c, name, text, &number, err))
            return EA_EUSAGE;
        *ret = (ec_value){.type = EC_INT, .i = number};
        return 0;
    case PARAM_NUMBER: {
        char *rest = NULL;
        errno = 0;
        number = strtoll(text, &rest, 10);
        if (!strchr("-0123456789", *text) || !*text || *rest || errno)
            return ea_fail(err, EA_EUSAGE, "%s: a number is expected", spec->name);
        *ret = (ec_value){.type = EC_INT, .i = number};
        return 0;
    }
    case PARAM_FLAG:
        if ((*text != '0' && *text != '1') || text[1])
            return ea_fail(err, EA_EUSAGE, "%s: 0 or 1 is expected", spec->name);
        *ret = (ec_value){.type = EC_INT, .i = *text - '0'};
        return 0;
    case PARAM_GROUP:
        if (*text && strcmp(text, "health") != 0 && strcmp(text, "host") != 0 && strcmp(text, "agent_version") != 0 &&
            (strncmp(text, "labels.", 7) != 0 || !text[7]))
            return ea_fail(err, EA_EUSAGE, "%s: health, host, agent_version or labels.NAME is expected", spec->name);
        break;
    case PARAM_ADDRESS:
        if (*text && !is_network(text))
            return ea_fail(err, EA_EUSAGE,
                           "%s '%.60s': an IP address is expected, or a network as 10.0.0.0/8 or fe80::/10", spec->name,
                           text);
        break;
    case PARAM_STATE:
        if (*text && strcmp(text, "open") != 0 && strcmp(text, "acknowledged") != 0 && strcmp(text, "closed") != 0)
            return ea_fail(err, EA_EUSAGE, "%s: open, acknowledged or closed is expected", spec->name);
        break;
    case PARAM_REQUEST:
        if (!is_request_state(text))
            return ea_fail(err, EA_EUSAGE, "%s: waiting, accepted, sent, refused, expired or withdrawn is expected",
                           spec->name);
        break;
    case PARAM_WIDTH:
        if (ea_duration_parse(text, &number) || number <= 0)
            return ea_fail(err, EA_EUSAGE, "%s: a duration is expected, as 250ms", spec->name);
        *ret = (ec_value){.type = EC_INT, .i = number};
        return 0;
    default:
        break;
    }
    *ret = (ec_value){.type = EC_TEXT, .data = text, .len_bytes = strlen(text)};
    return 0;
}

/* A column's name as people write it: nothing that could end a quoted name. */
static int is_column(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n && n < NAME_MAX_BYTES && !s[n];
}

/* " ORDER BY ...". */
static void write_order(const ec_call *c, const fixed *f, ea_text *sql) {
    const char *sort = ec_call_param(c, "sort"), *descending = ec_call_param(c, "descending");
    if (sort && *sort)
        ea_text_printf(sql, " ORDER BY \"%s\"%s%s%s", sort, descending && strcmp(descending, "1") == 0 ? " DESC" : "",
                       f->order ? ", " : "", f->order ? f->order : "");
    else if (f->order)
        ea_text_printf(sql, " ORDER BY %s", f->order);
}

/* "SELECT * FROM (...) ORDER BY ... LIMIT n OFFSET m"; of hosts "SELECT * FROM (...) WHERE host IN (SELECT host FROM
 * (...) ORDER BY ... LIMIT n OFFSET m) ORDER BY ...". */
static int write_statement(const ec_call *c, const fixed *f, const ec_result *q, ea_text *sql, ea_err *err) {
    const char *sort = ec_call_param(c, "sort");
    const char *descending = ec_call_param(c, "descending");
    if (sort && *sort && !is_column(sort))
        return ea_fail(err, EA_EUSAGE, "sort: the name of a column is expected");
    if (descending && *descending && strcmp(descending, "0") != 0 && strcmp(descending, "1") != 0)
        return ea_fail(err, EA_EUSAGE, "descending: 0 or 1 is expected");
    if (f->kind == FIXED_HOSTS)
        ea_text_printf(sql, "SELECT * FROM (%s) WHERE host IN (SELECT host FROM (%s)", f->sql, f->sql);
    else
        ea_text_printf(sql, "SELECT * FROM (%s)", f->sql);
    write_order(c, f, sql);
    ea_text_printf(sql, " LIMIT %lld OFFSET %llu", q->has_pages ? (long long)q->limit_rows + 1 : -1LL,
                   (unsigned long long)q->offset);
    if (f->kind == FIXED_HOSTS) {
        ea_text_char(sql, ')');
        write_order(c, f, sql);
    }
    return sql->failed ? ea_fail(err, EA_ENOMEM, "write the statement") : 0;
}

static int is_one(const fixed *f) {
    return f->kind == FIXED_ONE || f->kind == FIXED_PROCESS || f->kind == FIXED_DETECTION;
}

/* A fixed question takes its own parameters, a moment instead of a range, and those of all lists. */
static int check_params(const ec_call *c, const fixed *f, ea_err *err) {
    const char *by = ec_call_param(c, "by");
    ea_text known;
    int has_range = 0;
    if (f->kind == FIXED_HOSTS && ec_call_param(c, "group") && (!by || !*by))
        return ea_fail(err, EA_EUSAGE, "group: expected together with by");
    if (ec_call_param(c, "at") && (ec_call_param(c, "from") || ec_call_param(c, "to")))
        return ea_fail(err, EA_EUSAGE, "at: expected without from and to");
    ea_text_init(&known);
    for (size_t i = 0; i < PARAMS_MAX && f->params[i].name; i++) {
        if (!questions_part_of(c, f->params[i].name))
            ea_text_printf(&known, "%s ", f->params[i].name);
        has_range |= strcmp(f->params[i].name, "to") == 0;
    }
    if (has_range)
        ea_text_str(&known, "at ");
    if (!is_one(f))
        ea_text_str(&known, "limit cursor sort descending format ");
    if (known.len_bytes)
        known.data[known.len_bytes - 1] = 0; /* the last space */
    int rc = known.failed ? ea_fail(err, EA_ENOMEM, "read the parameters")
                          : ec_call_check_params(c, known.len_bytes ? known.data : "", err);
    ea_text_deinit(&known);
    return rc;
}

static int answer_fixed(ec_call *c, const fixed *f, ea_err *err) {
    ec_value params[PARAMS_MAX];
    ea_text likes[PARAMS_MAX], sql;
    ec_result q = {.params = params,
                   .subject = f->kind == FIXED_OF_PROCESS ? PROCESS_SQL
                              : f->kind == FIXED_COLUMNS  ? "SELECT ?1 FROM pragma_table_xinfo(?1) LIMIT 1"
                                                          : NULL,
                   .missing = f->kind == FIXED_PROCESS || f->kind == FIXED_OF_PROCESS ? NO_PROCESS
                              : f->kind == FIXED_COLUMNS                              ? NO_TABLE
                              : f->kind == FIXED_DETECTION                            ? NO_DETECTION
                                                                                      : NULL,
                   .is_empty_without_table = 1,
                   .has_pages = !is_one(f)};
    int rc = check_params(c, f, err);
    if (!rc)
        rc = ec_param_form(c, is_one(f) ? EC_FORM_ONE : EC_FORM_ITEMS, &q.form, err);
    ec_asked_range range;
    int is_whole = 0;
    if (!rc)
        rc = ec_param_limit(c, q.form, &q.limit_rows, &is_whole, err);
    if (is_whole) {
        q.limit_rows = 0; /* all */
        q.has_pages = 0;
    }
    if (!rc)
        rc = ec_param_number(c, "cursor", 0, INT64_MAX, &q.offset, err);
    ea_text_init(&sql);
    for (size_t i = 0; i < PARAMS_MAX; i++)
        ea_text_init(&likes[i]);
    for (size_t i = 0; !rc && i < PARAMS_MAX && f->params[i].name; i++) {
        rc = read_param(c, &f->params[i], &likes[i], &q, &params[i], err);
        q.param_count = i + 1;
        if (!rc && i && strcmp(f->params[i].name, "to") == 0 && strcmp(f->params[i - 1].name, "from") == 0) {
            range = (ec_asked_range){params[i - 1].i, params[i].i};
            q.range = &range;
            rc = ec_param_check_range(range.from_ns, range.to_ns, err);
        }
    }
    if (!rc)
        rc = write_statement(c, f, &q, &sql, err);
    if (!rc) {
        q.sql = sql.data;
        if (q.form == EC_FORM_CSV || q.form == EC_FORM_JSONL)
            snprintf(c->disposition, sizeof c->disposition, "attachment; filename=\"etwagent.%s\"",
                     q.form == EC_FORM_CSV ? "csv" : "jsonl");
        rc = ec_result_answer(c, &q, err);
    }
    for (size_t i = 0; i < PARAMS_MAX; i++)
        ea_text_deinit(&likes[i]);
    ea_text_deinit(&sql);
    return rc;
}

int ec_list(ec_call *c, ea_err *err) {
    for (const fixed *f = LISTS; f->name; f++)
        if (strcmp(f->name, c->route->path) == 0)
            return answer_fixed(c, f, err);
    return ea_fail(err, EA_ENOTFOUND, "unknown list: /api/v1/openapi.json has all paths");
}

int ec_query_named(ec_call *c, ea_err *err) {
    for (const fixed *f = QUERIES; f->name; f++)
        if (strcmp(f->name, c->parts[0]) == 0)
            return answer_fixed(c, f, err);
    return ea_fail(err, EA_ENOTFOUND, "unknown query: /api/v1/queries lists all");
}

int ec_query_names(ec_call *c, ea_err *err) {
    static const char *const KINDS[] = {
        [PARAM_TEXT] = "text",       [PARAM_LIKE] = "part",      [PARAM_HOST] = "host",  [PARAM_TIME] = "time",
        [PARAM_NUMBER] = "number",   [PARAM_WIDTH] = "duration", [PARAM_FLAG] = "flag",  [PARAM_GROUP] = "group",
        [PARAM_ADDRESS] = "address", [PARAM_STATE] = "state",    [PARAM_AMONG] = "host", [PARAM_REQUEST] = "state",
    };
    ea_text *out = &c->out;
    (void)err;
    ea_text_str(out, "{\"items\":[");
    for (const fixed *f = QUERIES; f->name; f++) {
        ea_text_str(out, f == QUERIES ? "\n{\"name\":" : ",\n{\"name\":");
        ea_text_json_str(out, f->name);
        ea_text_str(out, ",\"text\":");
        ea_text_json_str(out, f->text);
        ea_text_str(out, ",\"sql\":");
        ea_text_json_str(out, f->sql);
        ea_text_str(out, ",\"parameters\":[");
        for (size_t i = 0; i < PARAMS_MAX && f->params[i].name; i++) {
            ea_text_printf(out, "%s{\"name\":\"%s\",\"kind\":\"%s\",\"required\":%s}", i ? "," : "", f->params[i].name,
                           KINDS[f->params[i].kind], f->params[i].fallback ? "false" : "true");
        }
        ea_text_str(out, "]}");
    }
    ea_text_str(out, "]}\n");
    return 0;
}
