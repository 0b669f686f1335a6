/* etwagent relog: traces into one trace, record for record. Called by: main.c. Calls: proto/relog. Thread: the main
 * one; Ctrl-C ends the run without an output. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/relog/relog.h"
#include "service/app/agent_commands.h"

#include <inttypes.h>

enum { PROGRESS_EVENTS = 1 << 16 };

typedef struct options {
    const char *output;
    int compression, json;
    uint64_t buffer_bytes;
} options;

static const char *const COMPRESSIONS[] = {"same", "none", "lznt1", "xpress", "xpress-huffman", NULL};
static const uint32_t COMPRESSION_CODES[] = {EA_RELOG_COMPRESSION_SAME, EA_RELOG_COMPRESSION_NONE,
                                             EA_RELOG_COMPRESSION_LZNT1, EA_RELOG_COMPRESSION_XPRESS,
                                             EA_RELOG_COMPRESSION_XPRESS_HUFF};

typedef struct relog_job {
    int shows_progress;
    uint64_t seen;
} relog_job;

static int relog_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    relog_job *j = arg;
    (void)input;
    (void)event;
    if (++j->seen % PROGRESS_EVENTS == 0) {
        if (atomic_load(ea_stop_flag()))
            ea_relog_cancel(relog);
        if (j->shows_progress)
            fprintf(stderr, "\r%3.0f %%  %" PRIu64 " events ", 100 * ea_relog_progress(relog), j->seen);
    }
    return EA_RELOG_KEEP;
}

static void relog_summary(ea_text *t, const options *o, const ea_relog *relog, int input_count, uint64_t bytes) {
    const ea_relog_counts *c = ea_relog_count(relog);
    uint64_t written = ea_relog_written(relog, 0);
    if (!o->json) {
        ea_text_printf(t,
                       "%s: %" PRIu64 " events written, %" PRIu64 " read from %d %s, %" PRIu64 " dropped, %" PRIu64
                       " added; %" PRIu64 " bytes\n",
                       o->output, written, c->read, input_count, input_count == 1 ? "file" : "files", c->dropped,
                       c->added, bytes);
        if (c->damaged)
            ea_text_printf(t, "not readable: %" PRIu64 " records and buffers\n", c->damaged);
        if (c->events_lost || c->buffers_lost)
            ea_text_printf(t, "lost by Windows: %" PRIu64 " events, %" PRIu64 " buffers\n", c->events_lost,
                           c->buffers_lost);
        return;
    }
    ea_text_str(t, "{\"output\":");
    ea_text_json_str(t, o->output);
    ea_text_printf(t,
                   ",\"bytes\":%" PRIu64 ",\"inputs\":%d,\"headers\":%" PRIu64 ",\"read\":%" PRIu64
                   ",\"dropped\":%" PRIu64 ",\"added\":%" PRIu64 ",\"written\":%" PRIu64 ",\"damaged\":%" PRIu64
                   ",\"events_lost\":%" PRIu64 ",\"buffers_lost\":%" PRIu64 "}\n",
                   bytes, input_count, c->headers, c->read, c->dropped, c->added, written, c->damaged, c->events_lost,
                   c->buffers_lost);
}

static int print_relog_summary(const options *o, const ea_relog *relog, int input_count, ea_err *err) {
    ea_text t;
    ea_file *f = NULL;
    uint64_t bytes = 0;
    ea_text_init(&t);
    int rc = ea_file_open(&f, o->output, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_size(f, &bytes, err);
    ea_file_close(f);
    if (!rc) {
        relog_summary(&t, o, relog, input_count, bytes);
        if (t.failed || fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout))
            rc = ea_fail(err, EA_EIO, "write to standard output");
    }
    ea_text_deinit(&t);
    return rc;
}

static int relog_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    relog_job job = {.shows_progress = ea_is_terminal(stderr)};
    const ea_relog_callbacks callbacks = {.on_event = relog_event};
    const ea_relog_output output = {.compression = COMPRESSION_CODES[o->compression],
                                    .buffer_size_bytes = (uint32_t)o->buffer_bytes};
    ea_err err = {0};
    ea_relog *relog = NULL;
    int rc = ea_relog_create(&relog);
    if (rc)
        return ea_exit_code(rc);
    (void)ea_stop_flag();
    for (int i = 0; !rc && i < operand_count; i++)
        rc = ea_relog_add_input(relog, operands[i], NULL, NULL);
    if (!rc)
        rc = ea_relog_add_output(relog, o->output, &output, NULL);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, &job);
    if (job.shows_progress && job.seen >= PROGRESS_EVENTS)
        fputs("\r                                        \r", stderr);
    if (rc) {
        fprintf(stderr, "etwagent: %s\n", ea_relog_error(relog));
    } else {
        rc = print_relog_summary(o, relog, operand_count, &err);
        if (rc)
            ea_err_print(stderr, "etwagent", &err);
    }
    ea_relog_destroy(relog);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, output),
     .required = 1,
     .help = "the trace to write; it is FILE.partial until it is complete, and replaces an existing FILE then"},
    {.name = "compression",
     .argument = "KIND",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, compression),
     .choices = COMPRESSIONS,
     .fallback = "same",
     .help = "of the output's buffers; same: that of the first trace"},
    {.name = "buffer-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, buffer_bytes),
     .min = 1024,
     .max = 16 << 20,
     .help = "of the output, a multiple of 512 bytes; default: the largest of the traces'"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print one JSON object"},
    {.name = NULL},
};

const ea_command ea_cmd_relog = {
    .name = "relog",
    .operands = "TRACE...",
    .summary = "Write traces again as one trace, record for record",
    .details =
        "Several traces of one machine are merged by time (then file, CPU, position); they need one clock. Every "
        "record "
        "keeps\n"
        "its header form, extended items and payload. Of the header event the first trace's is written; buffer size,\n"
        "compression, number of buffers, end and losses are those of the output. Records of several sessions get the\n"
        "session number 0. Damaged records are skipped and counted.\n"
        "The summary counts events without header events; written = read - dropped + added, or there is no output.\n"
        "JSON keys: output, bytes, inputs, headers, read, dropped, added, written, damaged, events_lost, "
        "buffers_lost.\n"
        "Exit codes: 0 written, 1 failed, 2 usage, 3 not a trace.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = relog_run,
    .min_operands = 1,
    .max_operands = -1,
};
