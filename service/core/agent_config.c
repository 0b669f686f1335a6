/* The rows of the agent's configuration file. See agent_config.h. */
#include "service/core/agent_config.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "service/core/filter.h"
#include "service/core/labels.h"
#include "service/core/watch_results.h"
#include "service/eventlog/positions.h"
#include "service/ship/enroll_client.h"
#include "service/ship/tls_store.h"

#include <string.h>

enum { SOURCES_MAX = 64, MEMORY_LIMIT_MIN = 64 << 20 };

static const char *const PROCESS_PRIORITIES[] = {"normal", "below-normal", "idle", NULL};
static const char *const BULK_PRIORITIES[] = {"normal", "low", "background", NULL};

static const ea_option SERVICE_ROWS[] = {
    {.name = "status",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_service_config, status),
     .help = "file with the agent's status, for \"etwagent status\"; default: status.json in the folder for state"},
    {.name = "status-every",
     .type = EA_OPT_DURATION,
     .offset = offsetof(ea_service_config, status_every_ns),
     .fallback = "5s",
     .min = 100000000,
     .max = INT64_C(3600000000000),
     .help = "interval at which the status file is written"},
    {.name = "log",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_service_config, log),
     .help = "file for the agent's log; default: log.txt in the folder for state when Windows runs it as a service, "
             "else none"},
    {.name = "log-bytes",
     .type = EA_OPT_SIZE,
     .offset = offsetof(ea_service_config, log_bytes),
     .fallback = "4MiB",
     .min = 4096,
     .max = UINT64_C(1) << 40,
     .help = "most bytes of the log file; then it is renamed to .1, and a new one begins"},
    {.name = "log-lines",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_service_config, log_lines),
     .fallback = "120",
     .max = 1000000,
     .help = "most lines in a minute; further lines are only counted; 0: no limit"},
    {.name = "watchdog",
     .type = EA_OPT_DURATION,
     .offset = offsetof(ea_service_config, watchdog_ns),
     .fallback = "5m",
     .max = INT64_C(86400000000000),
     .help =
         "a service whose main thread does nothing for so long writes a minidump and ends, so that Windows starts it "
         "again; 0: never"},
    {.name = "memory-limit",
     .type = EA_OPT_SIZE,
     .offset = offsetof(ea_service_config, memory_limit_bytes),
     .max = UINT64_C(1) << 44,
     .help = "Windows gives the process no more memory than this, by a job object; 0: no limit"},
    {.name = "cpu-limit",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_service_config, cpu_limit_percent),
     .max = 100,
     .help = "percent of all processors that Windows gives the process, by a job object; 0: no limit"},
    {.name = "priority",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_service_config, priority),
     .fallback = "normal",
     .choices = PROCESS_PRIORITIES,
     .help = "the process's priority class in Windows"},
    {.name = "bulk-priority",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_service_config, bulk_priority),
     .fallback = "low",
     .choices = BULK_PRIORITIES,
     .help = "the threads that encode and send: low: below the machine's other work; background: their disk and memory "
             "use, too"},
    {.name = NULL},
};

static int check_service(const void *table, const char **ret_key, ea_err *err) {
    const ea_service_config *c = table;
    *ret_key = "memory-limit";
    if (c->memory_limit_bytes && c->memory_limit_bytes < MEMORY_LIMIT_MIN)
        return ea_fail(err, EA_EINVAL, "expected 64MiB or more, or 0");
    return 0;
}

static const ea_table SERVICE = {
    .summary = "The running program.",
    .rows = SERVICE_ROWS,
    .size = sizeof(ea_service_config),
    .check = check_service,
};

static int check_shipping(const void *table, const char **ret_key, ea_err *err) {
    const ea_shipping_options *o = table;
    *ret_key = "collector";
    for (size_t i = 0; i < o->collectors.count; i++)
        if (strncmp(o->collectors.items[i], "https://", 8) != 0 || !o->collectors.items[i][8])
            return ea_fail(err, EA_EINVAL, "'%.128s': expected https://HOST[:PORT]", o->collectors.items[i]);
    int rc = ea_tls_store_check(o->cert, o->key, o->ca, ret_key, err);
    if (rc)
        return rc;
    *ret_key = "enroll";
    if (o->enroll && (strncmp(o->enroll, "https://", 8) != 0 || !o->enroll[8]))
        return ea_fail(err, EA_EINVAL, "'%.128s': expected https://HOST:PORT", o->enroll);
    if (o->enroll && ea_store_is_place(o->cert))
        return ea_fail(err, EA_EINVAL, "it needs files for cert and key, not a store");
    *ret_key = o->token_file ? "token-file" : "enroll-name";
    if ((o->token_file || o->enroll_name) && !o->enroll)
        return ea_fail(err, EA_EINVAL, "it needs enroll");
    *ret_key = "enroll-name";
    if (o->enroll_name && !ea_enroll_name_is_good(o->enroll_name))
        return ea_fail(err, EA_EINVAL,
                       "'%.128s': expected 1 to 64 of letters, digits, . _ -, not beginning with . or -",
                       o->enroll_name);
    *ret_key = "proxy";
    if (o->proxy && strcmp(o->proxy, EA_PROXY_SYSTEM) != 0 && (strncmp(o->proxy, "http://", 7) != 0 || !o->proxy[7]))
        return ea_fail(err, EA_EINVAL, "'%.128s': expected http://HOST:PORT or " EA_PROXY_SYSTEM, o->proxy);
    *ret_key = "bandwidth";
    if (o->bandwidth_bytes && (o->bandwidth_bytes < 1024 || o->bandwidth_bytes > UINT64_C(1) << 40))
        return ea_fail(err, EA_EINVAL, "expected 1KiB to 1TiB a second, or 0");
    return 0;
}

static const char *const PACES[] = {"normal", "slow", "hold", NULL};

static const ea_option SHIPPING_ROWS[] = {
    EA_SHIPPING_OPTIONS(0),
    {.name = "enroll",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_shipping_options, enroll),
     .example = "https://collector.example:8444",
     .help = "https://HOST:PORT where a collector gives certificates (its --enroll): the agent gets cert and key there "
             "with a token, and renews them when less than a third of their life is left; default: they are managed "
             "outside of the agent"},
    {.name = "token-file",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_shipping_options, token_file),
     .help = "file with the enrolment token, which is removed after its use; default: token in the folder for state"},
    {.name = "enroll-name",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_shipping_options, enroll_name),
     .help = "the name to request at enroll, if the token allows several; default: this machine's"},
    {.name = "on-battery",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_shipping_options, on_battery),
     .fallback = "normal",
     .choices = PACES,
     .help =
         "while the machine runs on its battery: slow: 64 KiB a second at the most; hold: batches wait in the spool"},
    {.name = "on-metered",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_shipping_options, on_metered),
     .fallback = "normal",
     .choices = PACES,
     .help = "likewise while Windows calls the network metered, or roaming"},
    EA_SPOOL_OPTIONS(0),
    {.name = NULL},
};
const ea_table ea_shipping_table = {
    .summary = "Where batches go, and where they wait. " EA_SPOOL_FOLDER_TEXT,
    .rows = SHIPPING_ROWS,
    .size = sizeof(ea_shipping_options),
    .check = check_shipping,
};

static const ea_option BATCHING_ROWS[] = {EA_BATCHING_OPTIONS(0), {.name = NULL}};
const ea_table ea_batching_table = {
    .summary = "How events become batches.", .rows = BATCHING_ROWS, .size = sizeof(ea_batching_options)};

static const ea_option REMOTE_ROWS[] = {
    {.name = "key", .type = EA_OPT_STRING, .offset = offsetof(ea_remote_config, key), .help = EA_REMOTE_KEY_TEXT},
    {.name = "allow",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(ea_remote_config, allow),
     .help = "with key: what may be asked: window, a time of this machine's recorders; any other request is refused, "
             "also when the key signed it"},
    {.name = "poll",
     .type = EA_OPT_DURATION,
     .offset = offsetof(ea_remote_config, poll_ns),
     .fallback = "10s",
     .min = 100000000,
     .max = INT64_C(3600000000000),
     .help = EA_REMOTE_POLL_TEXT},
    {.name = NULL},
};

static int check_remote(const void *table, const char **ret_key, ea_err *err) {
    const ea_remote_config *c = table;
    uint32_t kind;
    *ret_key = c->key ? "key" : "allow";
    if (!c->key != !c->allow.count)
        return ea_fail(err, EA_EINVAL, c->key ? "it needs allow: window" : "it needs key");
    *ret_key = "allow";
    for (size_t i = 0; i < c->allow.count; i++)
        if (!ea_remote_kind(c->allow.items[i], &kind))
            return ea_fail(err, EA_EINVAL, "'%.64s' is nothing that can be allowed; expected window",
                           c->allow.items[i]);
    return 0;
}

const ea_table ea_remote_table = {
    .summary = "What a collector may ask of this agent: signed requests, of the kinds that are allowed here.",
    .rows = REMOTE_ROWS,
    .size = sizeof(ea_remote_config),
    .check = check_remote};

static const ea_option SCHEMA_ROWS[] = {EA_SCHEMA_OPTIONS(0), {.name = NULL}};
const ea_table ea_schemas_table = {
    .summary = "What decodes events that neither this program nor the events themselves describe.",
    .rows = SCHEMA_ROWS,
    .size = sizeof(ea_schema_options)};

static const char *const PRIORITIES[] = {"security", "bulk", NULL};

uint32_t ea_priority_of(int choice) {
    return choice == 0 ? 1 : 0;
}

static const char *const BEGINS[] = {"new", "oldest", NULL};

static const ea_option SOURCE_ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_file_source_config, name),
     .required = 1,
     .example = "boot",
     .help = "its name in messages and in the status"},
    {.name = "files",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(ea_file_source_config, files),
     .example = "boot.etl",
     .help = ".etl and .evtx files of one machine; several are merged by time"},
    {.name = "eventlog",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(ea_file_source_config, channels),
     .help =
         "in place of files: channels of Windows' event log, such as Security, which are read while the agent runs; "
         "at most 32; a channel goes on after the last record that an earlier run had put into the spool"},
    {.name = "query",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_file_source_config, query),
     .help =
         "of eventlog: which records, as an XPath of the event log, such as *[System[(EventID=4688)]]; default: all; "
         "with a query, missing records are not counted"},
    {.name = "begin",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_file_source_config, begin),
     .fallback = "new",
     .choices = BEGINS,
     .help = "of eventlog: a channel that was not read before begins with new records, or with its oldest one"},
    {.name = "speed",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_file_source_config, speed),
     .fallback = "0",
     .max = 1000000,
     .help = "of files: times real time; 0: as fast as it goes"},
    {.name = "priority",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_file_source_config, priority),
     .fallback = "bulk",
     .choices = PRIORITIES,
     .help = "what is sent first"},
    EA_FILTERS_OPTION(offsetof(ea_file_source_config, filters)),
    EA_WATCHES_OPTION(offsetof(ea_file_source_config, watches)),
    {.name = NULL},
};

static int check_source(const void *table, const char **ret_key, ea_err *err) {
    const ea_file_source_config *c = table;
    *ret_key = "eventlog";
    if (c->files.count && c->channels.count)
        return ea_fail(err, EA_EINVAL, "a source has files or eventlog, not both");
    if (c->channels.count > EA_CHANNELS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu channels; a source has at most %d", c->channels.count, EA_CHANNELS_MAX);
    for (size_t i = 0; i < c->channels.count; i++) {
        if (!ea_channel_name_is_good(c->channels.items[i]))
            return ea_fail(err, EA_EINVAL, "'%.128s' is no name of a channel", c->channels.items[i]);
        if (ea_name_equal(c->channels.items[i], "ForwardedEvents"))
            return ea_fail(err, EA_EINVAL, "ForwardedEvents: its records have the numbers of other machines' channels");
        for (size_t k = 0; k < i; k++)
            if (ea_name_equal(c->channels.items[i], c->channels.items[k]))
                return ea_fail(err, EA_EINVAL, "channel %s is named twice", c->channels.items[i]);
    }
    *ret_key = "files";
    if (!c->files.count && !c->channels.count)
        return ea_fail(err, EA_EINVAL, "a source needs files or eventlog");
    *ret_key = "speed";
    if (c->speed && c->channels.count)
        return ea_fail(err, EA_EINVAL, "it is of files");
    *ret_key = c->query ? "query" : "begin";
    if ((c->query || c->begin) && !c->channels.count)
        return ea_fail(err, EA_EINVAL, "it needs eventlog");
    if (c->query && c->query[strspn(c->query, " \t\r\n")] == '<') /* Windows would ignore the source's channels */
        return ea_fail(err, EA_EINVAL,
                       "expected an XPath, such as *[System[(EventID=4688)]]; a QueryList names channels of its own");
    return 0;
}

const ea_table ea_file_source_table = {
    .summary = "Trace files that are shipped, each event once, however often the agent is started; or channels of the "
               "event log.",
    .rows = SOURCE_ROWS,
    .size = sizeof(ea_file_source_config),
    .check = check_source};

/* A boot session's file is a source NAME-boot, those of earlier boots NAME-boot.1 and so on. */
static int is_name_of_boot(const char *source, const ea_session_config *session) {
    size_t n = strlen(session->name);
    return session->boot_file && strncmp(source, session->name, n) == 0 && strncmp(source + n, "-boot", 5) == 0 &&
           (!source[n + 5] || (source[n + 5] == '.' && strspn(source + n + 6, "0123456789") == strlen(source + n + 6)));
}

static int check_agent(const void *table, const char **ret_key, ea_err *err) {
    const ea_agent_config *c = table;
    const ea_file_source_config *sources = c->sources.items;
    *ret_key = "labels";
    int rc = ea_labels_check(&c->labels, err);
    if (rc)
        return rc;
    *ret_key = "sources";
    for (size_t i = 0; i < c->sources.count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(sources[i].name, sources[k].name) == 0)
                return ea_fail(err, EA_EINVAL, "two sources are called %s", sources[i].name);
    const ea_session_config *sessions = c->sessions.items;
    for (size_t i = 0; i < c->sources.count; i++)
        for (size_t k = 0; k < c->sessions.count; k++)
            if (is_name_of_boot(sources[i].name, &sessions[k]))
                return ea_fail(err, EA_EINVAL, "%s is what the boot-file of session %s is called", sources[i].name,
                               sessions[k].name);
    *ret_key = "sessions";
    return ea_sessions_check(&c->sessions, err);
}

/* ---- programs ---- */

/* A program's name is that of its table: two of one name are a mistake, but not those of several sessions and sources
 * with one text, whose rows add up. */
static int check_program_names(const char *list, size_t item, const ea_agent_config *c, ea_option_place *ret_place,
                               ea_err *err) {
    const ea_file_source_config *sources = c->sources.items;
    const ea_session_config *sessions = c->sessions.items;
    int is_session = strcmp(list, "sessions") == 0;
    const ea_tables *these = is_session ? &sessions[item].watches : &sources[item].watches;
    const ea_watch_config *all = these->items;
    for (size_t i = 0; i < these->count; i++) {
        snprintf(ret_place->path, sizeof ret_place->path, "%s/%zu/watch/%zu/name", list, item, i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(all[i].name, all[k].name) == 0)
                return ea_fail(err, EA_EINVAL, "two programs are called %s", all[i].name);
        for (size_t other = 0; other < c->sources.count + (is_session ? item : 0); other++) {
            int is_source = other < c->sources.count;
            if (!is_session && other >= item)
                break;
            const ea_tables *those = is_source ? &sources[other].watches : &sessions[other - c->sources.count].watches;
            const ea_watch_config *theirs = those->items;
            for (size_t k = 0; k < those->count; k++)
                if (strcmp(all[i].name, theirs[k].name) == 0 && strcmp(all[i].program, theirs[k].program) != 0)
                    return ea_fail(
                        err, EA_EINVAL, "%s %s has another program called %s, and the rows of both would be one table",
                        is_source ? "source" : "session",
                        is_source ? sources[other].name : sessions[other - c->sources.count].name, all[i].name);
        }
    }
    return 0;
}

/* The programs of one list; files of schemas are read when a class or a field is not known without them. */
static int check_watches(const char *list, size_t item, const ea_tables *watches, int has_recorder,
                         const ea_schema_options *options, ea_option_place *ret_place, ea_err *err) {
    ea_watches *w = NULL;
    ea_schemas *schemas = NULL;
    ea_watch_problem problem = {0};
    ea_err unread;
    int has_schemas = options->folder || options->plugins || options->manifests.count || options->tmfs.count;
    if (!watches->count)
        return 0;
    int rc = ea_watches_create(&w, watches, has_recorder, NULL, &problem, err);
    if (rc == EA_EINVAL && problem.is_class && has_schemas && !ea_schema_options_read(&schemas, options, &unread))
        rc = ea_watches_create(&w, watches, has_recorder, schemas, &problem, err);
    ea_schemas_destroy(schemas);
    if (!rc)
        ea_watches_destroy(w);
    snprintf(ret_place->path, sizeof ret_place->path, "%s/%zu/watch/%zu/program", list, item, problem.program);
    ret_place->line = problem.line;
    ret_place->column = problem.column;
    return rc;
}

/* ---- filters ---- */

/* The filters of one list; files of schemas are read when a class or a field is not known without them. */
static int check_filters(const ea_tables *filters, const ea_schema_options *options, ea_filter_problem *ret_problem,
                         ea_err *err) {
    ea_event_filters *f = NULL;
    ea_schemas *schemas = NULL;
    ea_err unread;
    int has_schemas = options->folder || options->plugins || options->manifests.count || options->tmfs.count;
    int rc = ea_event_filters_create(&f, filters, NULL, 0, ret_problem, err);
    if (rc == EA_EINVAL && ret_problem->is_class && has_schemas && !ea_schema_options_read(&schemas, options, &unread))
        rc = ea_event_filters_create(&f, filters, schemas, 0, ret_problem, err);
    if (!rc)
        ea_event_filters_destroy(f);
    ea_schemas_destroy(schemas);
    return rc;
}

static int agent_config_check_list(const char *list, size_t item, const ea_tables *filters, const ea_agent_config *c,
                                   ea_option_place *ret_place, ea_err *err) {
    ea_filter_problem problem;
    int rc = filters->count ? check_filters(filters, &c->schemas, &problem, err) : 0;
    if (rc != EA_EINVAL)
        return rc;
    snprintf(ret_place->path, sizeof ret_place->path, "%s/%zu/filters/%zu/%s/%zu", list, item, problem.filter,
             problem.key, problem.item);
    ret_place->line = problem.line;
    ret_place->column = problem.at;
    return rc;
}

static int agent_config_check_values(const void *table, ea_option_place *ret_place, ea_err *err) {
    const ea_agent_config *c = table;
    const ea_file_source_config *sources = c->sources.items;
    const ea_session_config *sessions = c->sessions.items;
    int rc = 0;
    for (size_t i = 0; i < c->sources.count && !rc; i++)
        rc = agent_config_check_list("sources", i, &sources[i].filters, c, ret_place, err);
    for (size_t i = 0; i < c->sources.count && !rc; i++)
        if (!(rc = check_program_names("sources", i, c, ret_place, err)))
            rc = check_watches("sources", i, &sources[i].watches, 0, &c->schemas, ret_place, err);
    for (size_t i = 0; i < c->sessions.count && !rc; i++)
        rc = agent_config_check_list("sessions", i, &sessions[i].filters, c, ret_place, err);
    for (size_t i = 0; i < c->sessions.count && !rc; i++)
        if (!(rc = check_program_names("sessions", i, c, ret_place, err)))
            rc = check_watches("sessions", i, &sessions[i].watches, sessions[i].recorder.size_bytes != 0, &c->schemas,
                               ret_place, err);
    return rc;
}

static const ea_option ROWS[] = {
    {.name = "labels",
     .type = EA_OPT_LABELS,
     .offset = offsetof(ea_agent_config, labels),
     .example = "site: north, system: '${machine.os} ${machine.os-version}'",
     .help = "what this machine is called beside its certificate's name, for questions about many: at most 32 names of "
             "64 bytes, values of 256; a value may name environment variables, ${NAME}, and ${machine.name}, .domain, "
             ".os, .os-version, .architecture, .cpus, .memory; $$ is a dollar; a change goes out with each source's "
             "next batch"},
    {.name = "service",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, service),
     .table = &SERVICE,
     .help = "the running program"},
    {.name = "shipping",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, shipping),
     .table = &ea_shipping_table,
     .help = "where data goes, and where it waits"},
    {.name = "batching",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, batching),
     .table = &ea_batching_table,
     .help = "how events become batches"},
    {.name = "remote",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, remote),
     .table = &ea_remote_table,
     .help = "what a collector may ask of this agent; without it nothing"},
    {.name = "schemas",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, schemas),
     .table = &ea_schemas_table,
     .help = "what decodes events of other providers"},
    {.name = "sources",
     .type = EA_OPT_TABLES,
     .offset = offsetof(ea_agent_config, sources),
     .table = &ea_file_source_table,
     .min = 1,
     .max = SOURCES_MAX,
     .example = "",
     .help = "trace files, and channels of the event log, that are shipped"},
    {.name = "sessions",
     .type = EA_OPT_TABLES,
     .offset = offsetof(ea_agent_config, sessions),
     .table = &ea_session_table,
     .min = 1,
     .max = EA_SESSIONS_MAX,
     .example = "",
     .help = "ETW sessions that run while the agent runs"},
    {.name = NULL},
};
const ea_table ea_agent_table = {.summary = "The agent's configuration.",
                                 .rows = ROWS,
                                 .size = sizeof(ea_agent_config),
                                 .check = check_agent,
                                 .check_values = agent_config_check_values};

int ea_agent_file_path(const char *given, const char *name, char *out, ea_err *err) {
    size_t n = strlen(name) + 2;
    if (given) {
        if (strlen(given) >= EA_AGENT_PATH_BYTES)
            return ea_fail(err, EA_EUSAGE, "%s: expected a file's path", name);
        memcpy(out, given, strlen(given) + 1);
        return 0;
    }
    int rc = ea_state_dir(out, EA_AGENT_PATH_BYTES - n, err);
    if (!rc)
        snprintf(out + strlen(out), n, "/%s", name);
    return rc;
}
