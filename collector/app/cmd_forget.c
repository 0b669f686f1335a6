/* etwcollector forget: removes a host and all it sent. Called by: main.c. Calls: collector/state. Thread: the main one.
 */
#include "collector/app/collector_commands.h"
#include "collector/app/confined_task.h"
#include "collector/app/question.h"
#include "collector/query/scan/archive.h"
#include "collector/state/forget.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

typedef struct options {
    const char *store, *host, *run;
    int is_dry, json;
} options;

/* The run that leading digits of an id mean. */
typedef struct finding {
    const char *digits;
    uint8_t stream[EA_STREAM_ID_BYTES];
    size_t count;
} finding;

static const char REMAINS[] =
    "the audit log (audit.jsonl), tokens, certificates and requests that name the host, the collector's "
    "own log, and backups";

static void forget_add_json(ea_text *t, const options *o, const ec_forgotten *f) {
    ea_text_str(t, "{\"host\": ");
    ea_text_json_str(t, o->host);
    ea_text_str(t, ", \"run\": ");
    ea_text_json_str(t, o->run);
    ea_text_printf(t,
                   ", \"dry_run\": %s, \"streams\": %" PRIu64 ", \"batches\": %" PRIu64 ", \"events\": %" PRIu64
                   ", \"bytes\": %" PRIu64 ", \"incidents\": %" PRIu64 ", \"damaged_bytes\": %" PRIu64
                   ", \"remains\": ",
                   o->is_dry ? "true" : "false", f->streams, f->batches, f->events, f->erased_bytes, f->incidents,
                   f->damaged_bytes);
    ea_text_json_str(t, REMAINS);
    ea_text_str(t, "}\n");
}

static void forget_add_text(ea_text *t, const options *o, const ec_forgotten *f) {
    ea_text_str(t, o->is_dry ? "would remove " : "removed ");
    ea_text_safe(t, o->host, strlen(o->host));
    ea_text_printf(t,
                   ": %" PRIu64 " streams, %" PRIu64 " batches with %" PRIu64 " bytes, %" PRIu64 " events, %" PRIu64
                   " incidents\n",
                   f->streams, f->batches, f->erased_bytes, f->events, f->incidents);
    if (f->damaged_bytes)
        ea_text_printf(t,
                       "%" PRIu64 " bytes of segment files cannot be read: whose they were is not known, and they "
                       "remain\n",
                       f->damaged_bytes);
    ea_text_printf(t, "what remains: %s\n", REMAINS);
}

static void look_at_run(finding *f, const uint8_t *stream) {
    char id[2 * EA_STREAM_ID_BYTES + 1];
    for (size_t i = 0; i < EA_STREAM_ID_BYTES; i++)
        snprintf(id + 2 * i, 3, "%02x", stream[i]);
    if (strncasecmp(id, f->digits, strlen(f->digits)) != 0)
        return;
    memcpy(f->stream, stream, sizeof f->stream);
    f->count++;
}

static int forget_on_stream(const ec_stream_row *row, void *arg) {
    look_at_run(arg, row->stream);
    return 0;
}

/* *ret: NULL when no run is named. */
static int forget_find_run(ec_store *store, const options *o, finding *f, const uint8_t **ret, ea_err *err) {
    *ret = NULL;
    if (!o->run)
        return 0;
    f->digits = o->run;
    uint8_t begun[EA_STREAM_ID_BYTES];
    int rc = *o->run ? ec_store_each_stream(store, o->host, forget_on_stream, f, err) : 0;
    if (!rc && *o->run && !f->count && ec_forget_begun_run(store, o->host, begun))
        look_at_run(f, begun);
    if (!rc && f->count != 1)
        return ea_fail(err, f->count ? EA_EUSAGE : EA_ENOTFOUND,
                       "--run '%s': %zu runs of %s begin with that; see etwcollector hosts", o->run, f->count, o->host);
    *ret = f->stream;
    return rc;
}

/* A store that is opened for writing is made when there is none. kept.db: of a removal that was interrupted. */
static int forget_check_store(const char *dir, ea_err *err) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/kept.db", dir);
    int is_kept = !path.failed && ea_path_exists(path.data);
    ea_text_deinit(&path);
    return is_kept ? 0 : ec_store_check_readable(dir, err);
}

static int forget_confined(void *arg) {
    const options *o = arg;
    ec_store *store = NULL;
    ea_err err = {0};
    ec_forgotten f = {0};
    finding found = {.count = 0};
    const uint8_t *stream = NULL;
    ea_text t;
    ea_text_init(&t);
    int rc = forget_check_store(o->store, &err);
    if (!rc)
        rc = ec_store_open(&store, o->store, &(ec_store_options){.writable = !o->is_dry}, &err);
    if (!rc)
        rc = forget_find_run(store, o, &found, &stream, &err);
    if (!rc)
        rc =
            o->is_dry ? ec_forget_count(store, o->host, stream, &f, &err) : ec_forget(store, o->host, stream, &f, &err);
    if (!rc && !f.streams && !f.batches && !f.incidents && !f.was_begun)
        rc = ec_unknown_host(o->host, &err);
    if (!rc) {
        if (o->json)
            forget_add_json(&t, o, &f);
        else
            forget_add_text(&t, o, &f);
        rc = ec_answer_write(&t, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_store_close(store);
    ea_text_deinit(&t);
    return ea_exit_code(rc);
}

static int cmd_forget_run(const void *arg, int operand_count, char **operands) {
    options o = *(const options *)arg;
    (void)operand_count, (void)operands;
    return ec_task_run(
        &(ec_task){.run = forget_confined, .arg = &o, .folders = {o.store}, .rights = EC_SANDBOX_THREADS});
}

static const ea_option OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {EC_HOST_OF(options, host), .required = 1, .help = "the agent's name, as \"etwcollector hosts\" lists it"},
    {.name = "run",
     .argument = "ID",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, run),
     .help = "only this run of the agent, such as one replay, by the first digits of its id (see hosts)"},
    {.name = "dry-run",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, is_dry),
     .help = "count what would be removed, and remove nothing; the collector may be running"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_forget = {
    .name = "forget",
    .operands = "",
    .summary = "Remove a host and all it sent, or one run of it, from the store",
    .details = "Removes the host's batches from the segment files, its rows from the index, the history and the "
               "incidents, and\n"
               "what only it had described. The collector and sinks (sink run) must be stopped: the command fails "
               "while one runs.\n"
               "When the command is interrupted, the same command or the collector's next start finishes the work. "
               "Revoke the\n"
               "agent's certificate first (ca revoke): an agent that may still connect sends what is in its spool.\n"
               "With --run one run of the host is removed, and the incidents about the host remain.\n"
               "What remains: the audit log, tokens, certificates and requests that name the host, the collector's own "
               "log, and\nbackups.\n"
               "Databases are rewritten, which needs as much free space as the largest of them takes.\n"
               "--json: {host, run, dry_run, streams, batches, events, bytes, incidents, damaged_bytes, remains}.\n"
               "Exit codes: 0 removed, 1 failed, or nothing is stored of the host, 2 usage.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = cmd_forget_run,
};
