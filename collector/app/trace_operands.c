/* See trace_operands.h. */
#include "collector/app/trace_operands.h"

#include "collector/traces/trace_store.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/base/text.h"
#include "proto/wire/batch_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const READERS[] = {"export", "hosts",  "ledger", "modules", "profile", "ps",
                                      "query",  "report", "watch",  "where",   NULL};

typedef struct with_traces {
    int argc;
    char **argv;
    const char *paths[EC_TRACE_PATHS_MAX];
    size_t count; /* of the traces that are named, more than there is room for, too */
    int has_store, has_host, asks_help;
    char dir[EC_TRACE_STORE_BYTES], host[EC_TRACE_HOST_BYTES];
    int (*dispatch)(int argc, char **argv);
} with_traces;

static int is_reader(const char *name) {
    for (size_t i = 0; READERS[i]; i++)
        if (strcmp(READERS[i], name) == 0)
            return 1;
    return 0;
}

static int trace_operands_is_trace(const char *s) {
    size_t n = strlen(s);
    const size_t batches = sizeof EA_BATCH_FILE_SUFFIX - 1;
    return *s != '-' && ((n > 4 && strcasecmp(s + n - 4, ".etl") == 0) ||
                         (n > batches && strcasecmp(s + n - batches, EA_BATCH_FILE_SUFFIX) == 0));
}

/* Divides the arguments into traces and the rest, to which --store DIR is added, and --host HOST where that has to be
 * given: there is one host. */
static int divide(with_traces *w, int argc, char **argv) {
    static char store[] = "--store", host[] = "--host";
    w->argv = calloc((size_t)argc + 5, sizeof *w->argv);
    if (!w->argv)
        return -1;
    for (int i = 0; i < argc; i++) {
        int is_store = i > 1 && (strcmp(argv[i], store) == 0 || strncmp(argv[i], "--store=", sizeof store) == 0);
        if (is_store && i + 1 < argc && trace_operands_is_trace(argv[i + 1])) /* --store x.etl */
            continue;
        w->has_store |= is_store;
        w->has_host |= i > 1 && strncmp(argv[i], host, sizeof host - 1) == 0;
        w->asks_help |= i > 1 && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0);
        if (i > 1 && trace_operands_is_trace(argv[i])) {
            if (w->count < EC_TRACE_PATHS_MAX)
                w->paths[w->count] = argv[i];
            w->count++;
        } else {
            w->argv[w->argc++] = argv[i];
        }
    }
    w->argv[w->argc++] = store;
    w->argv[w->argc++] = w->dir;
    if (!w->has_host && strcmp(argv[1], "export") == 0) {
        w->argv[w->argc++] = host;
        w->argv[w->argc++] = w->host;
    }
    if (w->count)
        ec_trace_host(w->paths[0], w->host);
    return 0;
}

void ec_trace_warn(const ec_trace_report *r) {
    ea_text damage; /* names a file, and comes from the process that read it */
    ea_text_init(&damage);
    ea_text_safe(&damage, r->damage, strlen(r->damage));
    if (r->damaged_places)
        fprintf(stderr, "etwcollector: damaged at %" PRIu64 " places, the rest was read; the first: %s\n",
                r->damaged_places, damage.len_bytes && !damage.failed ? damage.data : "");
    ea_text_deinit(&damage);
    if (r->lost_events)
        fprintf(stderr, "etwcollector: Windows lost %" PRIu64 " events before they were in the file\n", r->lost_events);
}

static int trace_operands_run(void *arg) {
    with_traces *w = arg;
    ec_trace_report report;
    ea_err err = {0};
    int rc = ec_trace_ingest(&(ec_trace_order){.store = w->dir,
                                               .host = w->host,
                                               .paths = w->paths,
                                               .path_count = w->count,
                                               .is_scratch = 1,
                                               .shows_progress = ea_is_terminal(stderr)},
                             NULL, &report, &err);
    ec_trace_warn(&report);
    if (rc) {
        ea_err_print(stderr, "etwcollector", &err);
        return ea_exit_code(rc);
    }
    return w->dispatch(w->argc, w->argv);
}

int ec_run_with_traces(int argc, char **argv, int (*dispatch)(int argc, char **argv), int *ret_code) {
    with_traces w = {.dispatch = dispatch};
    ea_err err = {0};
    int rc = 0;
    if (argc < 3 || !is_reader(argv[1]))
        return 0;
    if (divide(&w, argc, argv))
        rc = ea_fail(&err, EA_ENOMEM, "read the command line");
    if (!rc && (!w.count || w.asks_help)) {
        free(w.argv);
        return 0;
    }
    if (!rc && w.has_store)
        rc =
            ea_fail(&err, EA_EUSAGE, "expected --store or trace files, and found both; ingest adds a trace to a store");
    if (!rc)
        rc = ec_trace_store_make(w.dir, &err);
    if (!rc) {
        rc = ec_trace_store_apart(trace_operands_run, &w, ret_code, &err);
        ec_trace_store_remove(w.dir);
    }
    if (rc) {
        ea_err_print(stderr, "etwcollector", &err);
        *ret_code = ea_exit_code(rc);
    }
    free(w.argv);
    return 1;
}
