/* tracegen: traces of machines that never were, with the truth beside them.
 * Before it: the command line. After it: make.c, fleet.c. Thread: the main one. */
#include "cli.h"
#include "make.h"
#include "platform.h"
#include "scenario.h"

#ifdef TG_FLEET
#include "fleet.h"
#endif

#include <inttypes.h>
#include <string.h>

typedef struct make_options {
    uint64_t seed, seconds;
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
    {.name = "seconds",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(seconds),
     .fallback = "0",
     .help = "length of the trace; 0: the preset's"},
    {.name = "compress", .type = EA_OPT_FLAG, .offset = AT(compress), .help = "XPRESS-compressed buffers"},
    {.name = NULL},
};

static int run_make(const void *options, int operand_count, char **operands) {
    (void)operand_count;
    (void)operands;
    const make_options *o = options;
    tg_made made;
    ea_err err;
    int rc = o->seconds <= UINT32_MAX ? tg_make(&(tg_make_options){.preset = o->preset,
                                                                   .seed = o->seed,
                                                                   .seconds = (uint32_t)o->seconds,
                                                                   .compress = o->compress,
                                                                   .out = o->out,
                                                                   .truth = o->truth},
                                                &made, &err)
                                      : ea_fail(&err, EA_EUSAGE, "--seconds: too long");
    if (rc)
        ea_err_print(stderr, "tracegen make", &err);
    else
        printf("%s: %" PRIu64 " events, %zu processes\n", o->out, made.events, made.processes);
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
static const ea_command *const commands[] = {&make_command,
#ifdef TG_FLEET
                                             &tg_fleet_command,
#endif
                                             &presets_command, NULL};

int main(int argc, char **argv) {
    ea_stdio_init();
    return ea_cli_main("tracegen", "0.1.0", "Traces of machines that never were, with the truth beside them.", commands,
                       argc, argv);
}
