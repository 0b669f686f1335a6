/* etwcollector open, ingest: trace files without a network. See collector/traces/trace_ingest.h. Called by: main.c.
 * Calls: collector/traces, collector/web. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/confine_run.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/app/trace_operands.h"
#include "collector/net/descriptors.h"
#include "collector/traces/trace_store.h"
#include "collector/web/web.h"
#include "proto/base/clock.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *store, *host;
    ea_strings manifests;
    ec_symbol_options symbols;
    const char *listen;
    int64_t address_life_ns;
    int is_web, has_no_browser, json;
} options;

typedef struct opening {
    const options *o;
    const char *const *paths;
    size_t path_count;
    const char *store;
    char host[EC_TRACE_HOST_BYTES];
    char folder[EC_TRACE_STORE_BYTES]; /* of a store that does not stay */
    ec_trace_report report;
    ec_stream_row row;
    double seconds;
} opening;

enum { STOP_POLL_NS = 50000000 };

static const int64_t S_NS = INT64_C(1000000000), VISIT_GRACE_NS = S_NS; /* a request that came in time is answered */

/* ---- reading ---- */

static int open_on_stream(const ec_stream_row *row, void *arg) {
    opening *x = arg;
    if (memcmp(row->stream, x->report.stream, sizeof row->stream) != 0)
        return 0;
    x->row = *row;
    return 1;
}

static int ingest(opening *x, ea_err *err) {
    int64_t begin_ns = ea_monotonic_ns();
    ec_store *store = NULL;
    int rc = ec_trace_ingest(&(ec_trace_order){.store = x->store,
                                               .host = x->host,
                                               .paths = x->paths,
                                               .path_count = x->path_count,
                                               .manifests = x->o->manifests.items,
                                               .manifest_count = x->o->manifests.count,
                                               .shows_progress = ea_is_terminal(stderr),
                                               .is_scratch = !x->o->store},
                             ea_stop_flag(), &x->report, err);
    ec_trace_warn(&x->report);
    x->seconds = (double)(ea_monotonic_ns() - begin_ns) / 1e9;
    if (!rc)
        rc = ec_store_open(&store, x->store, &(ec_store_options){0}, err);
    if (!rc)
        rc = ec_store_each_stream(store, x->host, open_on_stream, x, err);
    ec_store_close(store);
    return rc < 0 ? rc : 0;
}

/* ---- the summary ---- */

/* A word of a command line for a shell. */
static void open_add_word(ea_text *t, const char *s) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/:=@%,";
    if (*s && strspn(s, PLAIN) == strlen(s)) {
        ea_text_str(t, s);
        return;
    }
    ea_text_char(t, '\'');
    for (; *s; s++)
        if (*s == '\'')
            ea_text_str(t, "'\\''");
        else
            ea_text_safe(t, s, 1);
    ea_text_char(t, '\'');
}

/* What names the events in a further command: the files, or the store that stays. */
static void open_add_source(ea_text *t, const opening *x) {
    if (x->o->store) {
        ea_text_str(t, " --store ");
        open_add_word(t, x->o->store);
        return;
    }
    for (size_t i = 0; i < x->path_count; i++) {
        ea_text_char(t, ' ');
        open_add_word(t, x->paths[i]);
    }
}

static void open_add_next(ea_text *t, const opening *x) {
    static const struct {
        const char *command, *end;
    } NEXT[] = {
        {"profile", "                     where processor time went, by call stack"},
        {"ps --tree", "                   the processes that were alive at the end"},
        {"query", " \"SELECT name, count(*) FROM events GROUP BY name ORDER BY 2 DESC\""},
    };

    ea_text_str(t, "next:\n");
    if (!x->o->store) {
        ea_text_str(t, "  etwcollector open --web");
        open_add_source(t, x);
        ea_text_str(t, "                  the dashboard, in a browser\n");
    }
    for (size_t i = 0; i < sizeof NEXT / sizeof *NEXT; i++) {
        ea_text_printf(t, "  etwcollector %s", NEXT[i].command);
        open_add_source(t, x);
        ea_text_printf(t, "%s\n", NEXT[i].end);
    }
}

static void open_add_json(ea_text *t, const opening *x) {
    const ec_trace_report *r = &x->report;
    ea_text_str(t, "{\"host\": ");
    ea_text_json_str(t, x->host);
    ea_text_str(t, ", \"stream\": \"");
    ea_text_hex(t, r->stream, sizeof r->stream);
    ea_text_printf(t,
                   "\", \"events\": %" PRIu64 ", \"batches\": %" PRIu64 ", \"repeated_batches\": %" PRIu64
                   ", \"trace_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 ", \"lost_events\": %" PRIu64
                   ", \"damaged_places\": %" PRIu64 ", \"seconds\": %.3f",
                   r->events, r->stored + r->repeated, r->repeated, r->trace_bytes, x->row.byte_count, r->lost_events,
                   r->damaged_places, x->seconds);
    ec_json_time(t, "begin", x->row.begin_utc_ns, r->events > 0);
    ec_json_time(t, "end", x->row.end_utc_ns, r->events > 0);
    ea_text_str(t, "}\n");
}

static void open_add_text(ea_text *t, const opening *x) {
    const ec_trace_report *r = &x->report;
    ea_text_printf(t, "host %s, run ", x->host);
    ea_text_hex(t, r->stream, sizeof r->stream);
    ea_text_printf(t, ": %" PRIu64 " events, read in %.2f s\n", r->events, x->seconds);
    if (r->events) {
        ea_text_str(t, "from ");
        ea_text_utc_ns(t, x->row.begin_utc_ns);
        ea_text_str(t, " to ");
        ea_text_utc_ns(t, x->row.end_utc_ns);
        ea_text_char(t, '\n');
    }
    if (!r->stored)
        ea_text_str(t, "all of it was stored before\n");
}

static int open_print_summary(const opening *x, int with_next, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    if (x->o->json)
        open_add_json(&t, x);
    else
        open_add_text(&t, x);
    if (with_next && !x->o->json)
        open_add_next(&t, x);
    int rc = ec_answer_write(&t, err);
    ea_text_deinit(&t);
    return rc;
}

/* ---- the dashboard ---- */

/* Starts a process outside of the sandbox that opens the address which comes through *ret_fd, where there is a browser;
 * -1: there is none, and the printed address is enough. The browser outlives this command and its Ctrl-C. */
static int start_browser(void) {
    char url[512], program[] = "xdg-open", *const argv[] = {program, url, NULL};
    int ends[2];
    if ((!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) || pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        close(ends[1]);
        ssize_t n = read(ends[0], url, sizeof url - 1);
        if (n <= 0 || null < 0)
            _exit(0);
        url[n] = 0;
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        (void)setsid();
        (void)execvp(program, argv);
        _exit(1);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return -1;
    }
    return ends[1];
}

/* Serves until the process is asked to stop. What reads the trace's content has the daemon's sandbox from here on. */
static int open_serve(opening *x, ea_err *err) {
    ec_symbol_desk desk = {.symbols = NULL};
    const options *o = x->o;
    ec_symbols_options symbols;
    ec_web *web = NULL;
    ec_visit *visit = NULL;
    ec_broker *broker = NULL;
    ea_counters counters = {0};
    ec_log *log = NULL;
    int ca_in_reach, has_symbols = o->symbols.path || o->symbols.cache || o->symbols.has_lines, has_desk = 0;
    int rc = ec_log_create(&log, stderr, 0, &counters, err);
    ec_libevent_log(log);
    if (!rc && has_symbols) {
        rc = ec_symbol_desk_open(&desk, &o->symbols, NULL, err);
        has_desk = !rc;
    }
    if (has_desk)
        symbols =
            (ec_symbols_options){.path = desk.path.data ? desk.path.data : "",
                                 .folder = desk.folder.data,
                                 .has_lines = o->symbols.has_lines,
                                 .symbolizer = {.program = o->symbols.symbolizer, .limit_ns = o->symbols.limit_ns}};
    if (!rc)
        rc = ec_visit_create(&visit, ea_monotonic_ns() + o->address_life_ns, err);
    if (!rc)
        rc = ec_broker_start(&broker, NULL, err);
    if (!rc)
        rc = ec_broker_settle(broker, &(ec_broker_duties){.path_count = 0}, err);
    ea_text url;
    ea_text_init(&url);
    int browser = rc || o->has_no_browser ? -1 : start_browser();
    if (!rc)
        rc = ec_run_confine(&(ec_run_confinement){.store = x->store, .symbols = has_desk ? &symbols : NULL, .log = log},
                            &ca_in_reach, err);
    if (!rc)
        rc = ec_web_start(&web,
                          &(ec_web_options){.listen = o->listen,
                                            .store = x->store,
                                            .counters = &counters,
                                            .visit = visit,
                                            .log = log,
                                            .broker = broker,
                                            .symbols = has_desk ? &symbols : NULL},
                          err);
    if (!rc) {
        ea_text_printf(&url, "http://%.*s:%u/?ticket=%s", (int)(strrchr(o->listen, ':') - o->listen), o->listen,
                       ec_web_port(web), ec_visit_ticket(visit));
        printf("dashboard on %s\nThe address is good once, within %" PRId64 " s; Ctrl-C ends the dashboard%s\n",
               url.failed ? "?" : url.data, o->address_life_ns / S_NS, o->store ? "." : " and removes what was read.");
        fflush(stdout);
        if (browser >= 0 && !url.failed)
            EA_IGNORE(write(browser, url.data, url.len_bytes));
    }
    if (browser >= 0)
        close(browser);
    while (!rc && !atomic_load(ea_stop_flag())) {
        ea_sleep_ns(STOP_POLL_NS);
        if (ec_broker_has_ended(broker))
            rc = ea_fail(err, EA_EIO, "the process %s has ended", EC_BROKER_NAME);
        else if (ec_visit_has_expired(visit, ea_monotonic_ns() - VISIT_GRACE_NS))
            rc = ea_fail(err, EA_ETIMEOUT, "the dashboard's address was not opened within %" PRId64 " s",
                         o->address_life_ns / S_NS);
    }
    ec_web_stop(web);
    ec_broker_stop(broker);
    ec_visit_destroy(visit);
    if (has_desk)
        ec_symbol_desk_close(&desk);
    ea_text_deinit(&url);
    ec_libevent_log(NULL);
    ec_log_destroy(log);
    return rc;
}

/* ---- the commands ---- */

static int choose_host(opening *x, ea_err *err) {
    if (!x->o->host) {
        ec_trace_host(x->paths[0], x->host);
        return 0;
    }
    size_t n = strlen(x->o->host);
    if (n >= sizeof x->host || !ea_name_is_agent(x->o->host, n))
        return ea_fail(err, EA_EUSAGE, "--host '%s': expected letters, digits, '.', '_' and '-', beginning with no '.'",
                       x->o->host);
    memcpy(x->host, x->o->host, n + 1);
    ea_name_to_lower(x->host); /* as ingest calls an agent */
    return 0;
}

static int run_open(void *arg) {
    opening *x = arg;
    ea_err err = {0};
    (void)ea_stop_flag();
    int rc = ingest(x, &err);
    if (!rc)
        rc = open_print_summary(x, !x->o->is_web, &err);
    if (!rc && x->o->is_web)
        rc = open_serve(x, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

static int open_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    opening x = {
        .o = o, .paths = (const char *const *)operands, .path_count = (size_t)operand_count, .store = o->store};
    ea_err err = {0};
    int code = 0, rc = choose_host(&x, &err);
    if (!rc && !o->store) {
        rc = ec_trace_store_make(x.folder, &err);
        x.store = x.folder;
    }
    if (!rc)
        rc = ec_trace_store_apart(run_open, &x, &code, &err);
    if (x.folder[0])
        ec_trace_store_remove(x.folder);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return rc ? ea_exit_code(rc) : code;
}

static int run_ingest(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    opening x = {
        .o = o, .paths = (const char *const *)operands, .path_count = (size_t)operand_count, .store = o->store};
    ea_err err = {0};
    (void)ea_stop_flag();
    int rc = choose_host(&x, &err);
    if (!rc)
        rc = ingest(&x, &err);
    if (!rc)
        rc = open_print_summary(&x, 0, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

#define TRACE_OPTIONS                                                                                                  \
    {.name = "host",                                                                                                   \
     .argument = "HOST",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(options, host),                                                                                \
     .help = "name of the machine in the store; default: the first file's name without its ending"},                   \
        {.name = "manifest",                                                                                           \
         .letter = 'm',                                                                                                \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = offsetof(options, manifests),                                                                       \
         .help =                                                                                                       \
             "decode events of the providers that this instrumentation manifest (.man) or PE file describes; may be "  \
             "repeated"},                                                                                              \
    {                                                                                                                  \
        .name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json),                                        \
        .help = "print the summary as one JSON object"                                                                 \
    }

static const ea_option OPEN_OPTIONS[] = {
    {.name = "web",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, is_web),
     .help = "serve the dashboard on loopback, and open it in the browser where there is one"},
    {.name = "no-browser",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, has_no_browser),
     .help = "with --web: only print its address"},
    {.name = "address-life",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, address_life_ns),
     .fallback = "10m",
     .min = INT64_C(1000000000),
     .max = INT64_C(7) * 86400 * 1000000000,
     .help = "with --web: how long the printed address can be opened; the command ends when it was not"},
    {.name = "listen",
     .argument = "HOST:PORT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, listen),
     .fallback = "127.0.0.1:0",
     .help = "with --web: an address on loopback; port 0 takes any free one"},
    {.name = "store",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, store),
     .help = "read into this store, which stays; a temporary one otherwise"},
    EC_SYMBOL_OPTIONS(options, symbols, EC_SYMBOL_CACHE),
    TRACE_OPTIONS,
    {.name = NULL},
};

static const ea_option INGEST_OPTIONS[] = {EC_STORE_OPTION(options, store), TRACE_OPTIONS, {.name = NULL}};

const ea_command ec_cmd_open = {
    .name = "open",
    .operands = "TRACE...",
    .summary = "Read trace files without certificates, and look at them",
    .details =
        "Several files are read as one recording of one machine, such as those of a kernel and a user session. The "
        "files\n"
        "are read by a process that can open them and the store alone, for a trace may come from anywhere. Without "
        "--web\n"
        "the command prints what is in the files and the commands for further questions, which read the files again.\n"
        "With --web it serves the dashboard until Ctrl-C. The printed address has a ticket that can be used once, for "
        "a limited time: the browser\n"
        "that opens it first is the only reader.\n"
        "--json: {host, stream, events, batches, repeated_batches, trace_bytes, stored_bytes, lost_events,\n"
        "damaged_places, seconds, begin, end}. Damage is reported on standard error. Exit codes: 0 read, 1 failed,\n"
        "2 usage.\n"
        "\n"
        "  etwcollector open --web trace.etl",
    .options = OPEN_OPTIONS,
    .options_size = sizeof(options),
    .run = open_run,
    .min_operands = 1,
    .max_operands = EC_TRACE_PATHS_MAX,
};

const ea_command ec_cmd_ingest = {
    .name = "ingest",
    .operands = "TRACE...",
    .summary = "Read trace files into a store that stays",
    .details = "A missing store is made. While a collector uses the store, the command fails; \"etwagent replay\" "
               "sends the files to that\n"
               "collector. The same files are stored once. --json and what is read: as \"etwcollector open\".\n"
               "Exit codes: 0 stored, 1 failed, 2 usage.\n"
               "\n"
               "  etwcollector ingest --store traces --host pc-17 trace.etl",
    .options = INGEST_OPTIONS,
    .options_size = sizeof(options),
    .run = run_ingest,
    .min_operands = 1,
    .max_operands = EC_TRACE_PATHS_MAX,
};
