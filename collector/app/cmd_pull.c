/* etwcollector pull: a time of a machine out of the store as one .etl trace. Called by: main.c. Calls: collector/pull.
 * Thread: the main one; Ctrl-C ends it without an output. */
#include "collector/app/collector_commands.h"
#include "collector/pull/pull.h"
#include "collector/query/scan/data_times.h"
#include "proto/base/clock.h"
#include "proto/base/stop_flag.h"
#include "proto/base/text.h"

#include <inttypes.h>

typedef struct options {
    const char *store, *host, *from, *to, *output, *where;
    uint64_t limit, buffer_bytes;
    int compression, bare, json;
    int64_t wait_ns;
} options;

static const char *const COMPRESSIONS[] = {"none", "lznt1", "xpress", "xpress-huffman", NULL};
static const uint16_t COMPRESSION_CODES[] = {EA_RELOG_COMPRESSION_NONE, EA_RELOG_COMPRESSION_LZNT1,
                                             EA_RELOG_COMPRESSION_XPRESS, EA_RELOG_COMPRESSION_XPRESS_HUFF};

static int pull_goes_on(void *arg) {
    (void)arg;
    return !atomic_load(ea_stop_flag());
}

/* What could not be added: rows of a number and what it counts. */
#define LACKS(X)                                                                                                       \
    X(backlog, "batches that the history does not have yet: what began in them is missing at the beginning")           \
    X(missing_batches, "batches of these sessions never came or were deleted: definitions and methods in them are "    \
                       "missing")                                                                                      \
    X(damaged_batches, "batches are damaged")                                                                          \
    X(runs_inside, "runs of the agent begin in this time: their own rundowns alone describe the machine")              \
    X(runs_unknown, "runs of the agent of which the history has nothing: there is no rundown at the beginning")        \
    X(altered, "texts of the rundown were too long, or had characters that its records cannot hold")

static void pull_add_kinds(ea_text *t, const ec_pull_result *r, int json) {
    const struct {
        const char *name;
        uint64_t n;
    } kinds[] = {

#define X(name) {#name, r->added_kinds.name},
        EA_CUT_KINDS(X)
#undef X
    };

    if (json)
        ea_text_str(t, ",\"added_kinds\":{");
    for (size_t i = 0, n = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (json)
            ea_text_printf(t, "%s\"%s\":%" PRIu64, i ? "," : "", kinds[i].name, kinds[i].n);
        else if (kinds[i].n)
            ea_text_printf(t, "%s %s %" PRIu64, n++ ? "," : "added:", kinds[i].name, kinds[i].n);
    }
    ea_text_char(t, json ? '}' : '\n');
}

static void pull_add_text(ea_text *t, const options *o, const ec_pull_result *r) {
    ea_text_printf(t,
                   "%s: %" PRIu64 " events written, %" PRIu64 " stored of %" PRIu64 " %s, %" PRIu64 " dropped, %" PRIu64
                   " added; %" PRIu64 " bytes\n",
                   o->output, r->written, r->read, r->sessions, r->sessions == 1 ? "session" : "sessions", r->dropped,
                   r->added, r->bytes);
    if (r->added)
        pull_add_kinds(t, r, 0);
    if (r->is_limited) {
        ea_text_str(t, "it ends at ");
        ea_text_utc_ns(t, r->end_utc_ns);
        ea_text_str(t, ": --limit\n");
    }
#define X(name, text)                                                                                                  \
    if (r->name)                                                                                                       \
        ea_text_printf(t, "not whole: %" PRIu64 " %s\n", r->name, text);
    LACKS(X)
#undef X
    if (r->damaged_batches)
        ea_text_printf(t, "the first damage: %s\n", r->damage);
}

static void pull_add_json(ea_text *t, const options *o, const ec_pull_result *r) {
    ea_text_str(t, "{\"output\":");
    ea_text_json_str(t, o->output);
    ea_text_printf(t,
                   ",\"bytes\":%" PRIu64 ",\"sessions\":%" PRIu64 ",\"read\":%" PRIu64 ",\"announced\":%" PRIu64
                   ",\"dropped\":%" PRIu64 ",\"added\":%" PRIu64 ",\"written\":%" PRIu64 ",\"limited\":%s",
                   r->bytes, r->sessions, r->read, r->announced, r->dropped, r->added, r->written,
                   r->is_limited ? "true" : "false");
#define X(name, text) ea_text_printf(t, ",\"" #name "\":%" PRIu64, r->name);
    LACKS(X)
#undef X
    pull_add_kinds(t, r, 1);
    ea_text_str(t, "}\n");
}

static int pull_print(const options *o, const ec_pull_result *r, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    if (o->json)
        pull_add_json(&t, o, r);
    else
        pull_add_text(&t, o, r);
    int rc = t.failed || fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout)
                 ? ea_fail(err, EA_EIO, "write to standard output")
                 : 0;
    ea_text_deinit(&t);
    return rc;
}

static int pull_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_pull_result result;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    (void)ea_stop_flag();
    ec_pull_options pull = {.store = o->store,
                            .host = o->host,
                            .output = o->output,
                            .where = o->where,
                            .limit = o->limit,
                            .bare = o->bare,
                            .compression = COMPRESSION_CODES[o->compression],
                            .buffer_bytes = (uint32_t)o->buffer_bytes,
                            .wait_ns = o->wait_ns,
                            .keep_going = pull_goes_on};
    int rc = ec_data_time("--from", o->from, o->store, o->host, NULL, &pull.from_utc_ns, &err);
    if (!rc)
        rc = ec_data_time("--to", o->to, o->store, o->host, NULL, &pull.to_utc_ns, &err);
    if (!rc && pull.from_utc_ns >= pull.to_utc_ns)
        rc = ea_fail(&err, EA_EUSAGE, "--from %s: expected a time before --to", o->from);
    if (!rc)
        rc = ec_pull(&pull, &result, &err);
    if (!rc)
        rc = pull_print(o, &result, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {EC_HOST_OF(options, host), .required = 1, .help = "the agent whose events are written"},
    {EC_FROM_OF(options, from), .fallback = "start", .help = "the beginning: " EA_TIME_FORMS_OF_DATA},
    {EC_TO_OF(options, to), .fallback = "end", .help = "events before this time; likewise"},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, output),
     .required = 1,
     .help = "the trace to write; it is FILE.partial until it is complete, and replaces an existing FILE then"},
    {.name = "where",
     .argument = "CONDITION",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, where),
     .help = "only events for which this condition of the query language holds, as in 'pid == 4711'"},
    {.name = "limit",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, limit),
     .min = 1,
     .max = INT64_MAX,
     .help = "end the trace with the time of the Nth event of the window"},
    {.name = "bare",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, bare),
     .help = "the stored events of the time alone: nothing is added"},
    {.name = "compression",
     .argument = "KIND",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, compression),
     .choices = COMPRESSIONS,
     .fallback = "xpress",
     .help = "of the trace's buffers"},
    {.name = "buffer-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, buffer_bytes),
     .fallback = "128KiB",
     .min = 1024,
     .max = 16 << 20,
     .help = "of the trace, a multiple of 512 bytes"},
    {EC_WAIT_OF(options, wait_ns), .help = "how long to wait until all stored batches are in the history"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print one JSON object"},
    {.name = NULL},
};

const ea_command ec_cmd_pull = {
    .name = "pull",
    .operands = "",
    .summary = "Write a time of a host as one .etl trace, for WPA, PerfView and other tools",
    .details =
        "The trace contains the stored events of all sessions of the host in this time, record for record, and what\n"
        "its readers need besides: at the beginning a rundown out of the history of processes, threads, modules with\n"
        "their image ids, names of files and registry keys; configuration, schemas, methods of runtimes and stack "
        "keys\n"
        "out of the batches before and after; stacks of its events that came up to a minute later; at the end a\n"
        "rundown. What comes from outside has the time of the beginning or end, and processor 0. Records of several\n"
        "sessions get the session number 0. The agent's keyframes are not written. A time in which the machine was\n"
        "started again fails. The summary says what was added, and what could not be.\n"
        "JSON keys: output, bytes, sessions, read, announced (loads and unloads that image events replace), dropped, "
        "added, written, limited, backlog, missing_batches,\n"
        "damaged_batches, runs_inside, runs_unknown, altered, added_kinds.\n"
        "Exit codes: 0 written, 1 failed or nothing stored, 2 usage.\n\n"
        "  etwcollector pull --store /var/lib/etwcollector --host pc-17 --from 2024-05-17T14:03 --to "
        "2024-05-17T14:04 -o pc-17.etl",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = pull_run,
};
