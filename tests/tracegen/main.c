/* tracegen: traces of machines that never were, with the truth beside them.
 * Before it: the command line. After it: model.c. Thread: the main one. */
#include "cli.h"
#include "platform.h"
#include "truth.h"

#include <inttypes.h>
#include <string.h>

typedef struct make_options {
    uint64_t seed;
    const char *out, *truth, *preset;
    int compress;
} make_options;

#define AT(field) offsetof(make_options, field)
static const ea_option options_of_make[] = {
    {.name = "seed",
     .letter = 's',
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(seed),
     .fallback = "1",
     .help = "decides all that the preset leaves to chance"},
    {.name = "out",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = AT(out),
     .required = 1,
     .help = "the .etl file to write"},
    {.name = "truth",
     .letter = 't',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = AT(truth),
     .help = "what is true of it, as JSON lines"},
    {.name = "preset",
     .letter = 'p',
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = AT(preset),
     .fallback = "demo",
     .help = "the scenario; see 'tracegen presets'"},
    {.name = "compress", .type = EA_OPT_FLAG, .offset = AT(compress), .help = "XPRESS-compressed buffers"},
    {.name = NULL},
};

static int generate(const make_options *o, ea_err *err) {
    const tg_scenario *scenario = tg_find_preset(o->preset);
    if (!scenario)
        return ea_fail(err, EA_EUSAGE, "no preset is called '%s'", o->preset);
    tg_machine *machine = NULL;
    tg_trace *trace = NULL;
    ea_etl_info info;
    tg_truth_head head = {.preset = o->preset, .seed = o->seed};
    int rc = tg_machine_create(&machine, scenario, o->seed, err);
    if (!rc) {
        tg_machine_info(machine, &info, &head.start_raw);
        info.compression = o->compress ? 3 : 0;
        info.log_file_mode |= o->compress ? 0x04000000 : 0;
        rc = tg_trace_create(&trace, o->out, &info, head.start_raw, err);
    }
    if (!rc)
        rc = tg_machine_run(machine, trace, &head.end_raw, err);
    if (!rc)
        rc = tg_trace_finish(trace, head.end_raw, err);
    if (!rc && o->truth)
        rc = tg_truth_write(o->truth, machine, trace, &head, err);
    if (!rc)
        printf("%s: %" PRIu64 " events, %zu processes\n", o->out, tg_trace_events(trace),
               tg_machine_processes(machine)->count);
    tg_trace_destroy(trace);
    tg_machine_destroy(machine);
    return rc;
}

static int run_make(const void *options, int operand_count, char **operands) {
    (void)operand_count;
    (void)operands;
    ea_err err;
    int rc = generate(options, &err);
    if (rc)
        ea_err_print(stderr, "tracegen make", &err);
    return ea_exit_code(rc);
}

static int run_presets(const void *options, int operand_count, char **operands) {
    (void)options;
    (void)operand_count;
    (void)operands;
    for (size_t i = 0; tg_preset(i); i++)
        printf("%-12s %s\n", tg_preset(i)->name, tg_preset(i)->summary);
    return 0;
}

static const ea_option no_options[] = {{.name = NULL}};

static const ea_command make_command = {.name = "make",
                                        .operands = "",
                                        .summary = "Writes a trace and what is true of it",
                                        .details =
                                            "The same seed and preset give the same bytes, whatever the compiler.",
                                        .options = options_of_make,
                                        .options_size = sizeof(make_options),
                                        .run = run_make};
static const ea_command presets_command = {
    .name = "presets", .operands = "", .summary = "Lists the scenarios", .options = no_options, .run = run_presets};
static const ea_command *const commands[] = {&make_command, &presets_command, NULL};

int main(int argc, char **argv) {
    ea_stdio_init();
    return ea_cli_main("tracegen", "0.1.0", "Traces of machines that never were, with the truth beside them.", commands,
                       argc, argv);
}
