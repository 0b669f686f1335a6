/* etwagent watch: runs a program of the query language over traces, or on a live session (watch_live.h). Called by:
 * main.c. Calls: proto/lang, service/decode, proto/state. Thread: the main one. */
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"
#include "service/app/input.h"
#include "service/app/look_ahead.h"
#include "service/app/programs.h"
#include "service/app/watch_live.h"
#include "service/decode/decoder.h"
#include "service/etw/live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    ea_schema_options schemas;
    ea_lang_options lang;
    int strict;
    const char *command, *name, *complete;
    ea_strings pmc_samples;
} options;

typedef struct watch {
    const options *o;
    const char *name; /* of the program, for messages */
    char *text;
    size_t text_bytes;
    ea_lang_program *program;
    ea_lang_run *run;
    ea_machine *machine;
    char **paths;
    int path_count;
    int has_stacks, is_broken; /* is_broken: standard output takes nothing any more */
    ea_look_ahead ahead;
    ea_object_names *names; /* NULL: the program uses none */
    ea_resolver resolver;
} watch;

static int take_output(void *arg, ea_text *out) {
    watch *w = arg;
    size_t n = out->len_bytes;
    w->is_broken |= n && fwrite(out->data, 1, n, stdout) != n;
    ea_text_clear(out);
    return w->is_broken ? EA_EIO : 0;
}

static int watch_flush(watch *w, ea_err *err) {
    if (take_output(w, ea_lang_run_output(w->run)))
        return ea_fail(err, EA_EIO, "write to standard output");
    return 0;
}

/* rc: of the run, below 0. */
static int run_failed(const watch *w, int rc, ea_err *err) {
    if (w->is_broken)
        return ea_fail(err, EA_EIO, "write to standard output");
    return ea_fail(err, rc, "run the program");
}

static int run_all(watch *w, ea_input *in, ea_decoder *decoder, ea_err *err) {
    const ea_record *r;
    enum ea_counter outcome;
    uint64_t number = 0;
    int rc = ea_lang_run_begin(w->run);
    while (rc == 0 && (rc = ea_input_next(in, &r, err)) > 0) {
        ea_lang_event event = {.clock = &ea_etl_file_info(in->set, r->source)->clock};
        event.c = ea_decoder_find(decoder, &r, &outcome);
        event.record = r;
        event.utc_ns = ea_clock_to_utc_ns(event.clock, r->time_raw);
        rc = ea_machine_apply(w->machine, r, event.c, event.utc_ns, err);
        if (!rc && w->has_stacks)
            rc = ea_look_ahead_find(&w->ahead, number++, &event, err);
        if (rc)
            return rc;
        rc = ea_lang_run_event(w->run, &event);
        if (rc < 0)
            return run_failed(w, rc, err);
        if (ea_lang_run_output(w->run)->len_bytes) {
            int written = watch_flush(w, err);
            if (written)
                return written;
        }
    }
    if (rc < 0 && !err->code)
        return ea_fail(err, rc, "run the program");
    ea_err later; /* what came before the damage is printed, too */
    int ended = ea_lang_run_end(w->run);
    if (ended)
        ended = run_failed(w, ended, rc < 0 ? &later : err);
    else
        ended = watch_flush(w, rc < 0 ? &later : err);
    if (!ended && fflush(stdout))
        ended = ea_fail(rc < 0 ? &later : err, EA_EIO, "write to standard output");
    return rc < 0 ? rc : ended;
}

static void report_live(void *arg, ea_lang_run *run) {
    (void)arg;
    ea_lang_report_counts(run, "etwagent");
}

static ea_lang_run_options run_options(const options *o, watch *w) {
    ea_lang_run_options how = ea_lang_options_run(&o->lang);
    how.flush = take_output;
    how.flush_arg = w;
    return how;
}

/* Without a trace. */
static int run_live(watch *w, ea_err *err) {
    const options *o = w->o;
    ea_lang_run_options how = run_options(o, w);
    how.is_redrawn = ea_terminal_takes_sequences(stdout);
    int rc = ea_watch_live(&(ea_watch_live_options){.program = w->program,
                                                    .how = how,
                                                    .name = o->name,
                                                    .command = o->command,
                                                    .pmc_samples = &o->pmc_samples,
                                                    .schemas = &o->schemas,
                                                    .report = report_live},
                           err);
    if (!rc && fflush(stdout))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    if (rc)
        ea_err_print(stderr, "etwagent", err);
    ea_lang_program_destroy(w->program);
    free(w->text);
    return ea_exit_code(rc);
}

static int watch_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    watch w = {.o = o, .name = "program", .paths = operands, .path_count = operand_count};
    ea_decoder *decoder = NULL;
    ea_registry *registry = NULL;
    ea_schemas *schemas = NULL;
    ea_input in;
    int rc = 0;
    if (o->complete) {
        rc = ea_program_complete(o->complete, &(ea_program_classes){w.paths, w.path_count, &o->schemas}, &err);
        if (rc)
            ea_err_print(stderr, "etwagent", &err);
        return ea_exit_code(rc);
    }
    rc = ea_lang_options_read(&o->lang, operand_count > 0 ? operands[0] : NULL, &w.name, &w.text, &w.text_bytes, &err);
    if (!rc && !o->lang.program) {
        w.paths++;
        w.path_count--;
    }
    if (!rc && w.path_count < 1 && !ea_live_is_possible())
        rc = ea_fail(&err, EA_EUSAGE,
                     "expected a trace after the program: only Windows has live sessions. Record one there by "
                     "\"etwagent record\" or \"etwagent trace\", and give the .etl file");
    if (!rc && w.path_count > 0 && (o->command || o->pmc_samples.count))
        rc = ea_fail(&err, EA_EUSAGE, "--command and --pmc-sample are of a live session; there is a trace");
    if (!rc)
        rc = ea_program_compile(&w.program, w.name, w.text, w.text_bytes, &o->lang.args,
                                &(ea_program_classes){w.paths, w.path_count, &o->schemas}, &err);
    if (!rc && w.path_count < 1)
        return run_live(&w, &err);
    if (!rc)
        rc = ea_schema_options_read(&schemas, &o->schemas, &err);
    if (!rc)
        rc = ea_decoder_create(&decoder, schemas, NULL, &err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, &err);
    if (!rc)
        rc = ea_machine_create(&w.machine, &(ea_machine_options){0}, &err);
    if (!rc) {
        ea_lang_run_options how = run_options(o, &w);
        how.machine = w.machine;
        if (ea_lang_needs_stacks(w.program)) {
            w.has_stacks = 1;
            rc = ea_look_ahead_open(&w.ahead, w.paths, w.path_count, &err);
            how.frames = ea_look_ahead_frames;
            how.frames_arg = w.ahead.stacks;
        }
        if (!rc && ea_lang_needs_names(w.program)) {
            rc = ea_input_names(&w.names, w.paths, w.path_count, registry, &err);
            if (!rc)
                w.resolver = ea_object_names_resolver(w.names);
            how.resolver = &w.resolver;
        }
        if (!rc)
            rc = ea_lang_run_create(&w.run, w.program, &how, &err);
    }
    int exit_code = ea_exit_code(rc);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else if ((exit_code = ea_input_open(&in, w.paths, w.path_count, 0, o->strict)) == 0) {
        rc = run_all(&w, &in, decoder, &err);
        exit_code = ea_input_close(&in, rc, &err);
        ea_lang_report_counts(w.run, "etwagent");
    }
    ea_lang_run_destroy(w.run);
    ea_look_ahead_close(&w.ahead);
    ea_lang_program_destroy(w.program);
    ea_machine_destroy(w.machine);
    ea_object_names_destroy(w.names);
    ea_registry_destroy(registry);
    ea_decoder_destroy(decoder);
    ea_schemas_destroy(schemas);
    free(w.text);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EA_LANG_OPTIONS(offsetof(options, lang)),
    {.name = "command",
     .letter = 'c',
     .argument = "COMMAND",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, command),
     .help = "start this command, run the clauses of events only for it and what it starts, and end with them"},
    {.name = "name",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, name),
     .fallback = "watch",
     .help = "name of the live session, etwagent-NAME in Windows; two at a time need two names"},
    {.name = "pmc-sample",
     .argument = "COUNTER",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, pmc_samples),
     .help = "of a live session: a performance counter that PerfInfo/PmcCounterProf samples; may be repeated"},
    {.name = "complete-probe",
     .argument = "TEXT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, complete),
     .help =
         "print the words with which a program that begins with TEXT may go on, one a line: probes, and in a clause "
         "fields and functions; of the traces, too"},
    {.name = "strict",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, strict),
     .help = "end with 3 at the first place that is damaged"},
    EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
    {.name = NULL},
};

const ea_command ea_cmd_watch = {
    .name = "watch",
    .operands = "[FILE.watch] [TRACE...]",
    .summary = "Run a program of the query language live or over traces: filter, count, sum, distributions",
    .details =
        "docs/reference/language.md describes the language, config/watch/ has programs.\n"
        "  etwagent watch -e 'sched:::on-cpu { @[execname] = count(); }' trace.etl\n"
        "  etwagent watch -e '\"DiskIo/*\" /TransferSize > 64KiB/ { @[execname] = quantize(TransferSize); }' "
        "trace.etl\n"
        "  etwagent watch -e 'tick:10s { print(@); clear(@); } sched:::on-cpu { @[execname] = count(); }'\n"
        "Without a trace it runs on Windows on a session of its own until Ctrl-C, exit() or the end of COMMAND. The "
        "session has\n"
        "exactly the kernel flags, stacks, counters and providers that the program's probes need; standard error says "
        "which.\n"
        "Several files are read as one trace, merged by time. A program with a mistake is refused before anything is\n"
        "read, with line, column and the nearest name. Aggregations that no end clause prints are printed at the end.\n"
        "With --json each line is an object: aggregation, time, keys [...], others (when it is the sum of the keys "
        "that\n"
        "had no room), and the value under the function's name; {printf, time} of printf and {row, time} of emit.\n"
        "With --csv an aggregation has a line with its columns, then a line an entry (of distributions: a bucket).\n"
        "Exit codes: 0 read, 1 failed, 2 usage or a mistake in the program, 3 not a trace, or damaged with --strict.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = watch_run,
    .min_operands = 0,
    .max_operands = -1,
};
