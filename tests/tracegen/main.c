/* tracegen: traces of simulated machines, each with a file of the truth.
 * Called by: the command line. Calls: make.c, fleet.c. Thread: the main one. */
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "tests/tracegen/make.h"
#include "tests/tracegen/scenario.h"

#ifdef TG_FLEET
#include "tests/tracegen/fleet.h"
#endif

#include <inttypes.h>
#include <string.h>

typedef struct make_options {
    uint64_t seed, duration_ms;
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
     .help = "the .etl file to write; without it nothing is written"},
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
     .fallback = "office",
     .help = "a preset (see 'tracegen presets'), or the path of a scenario.yaml"},
    {.name = "duration-ms",
     .letter = 'd',
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(duration_ms),
     .fallback = "0",
     .help = "length of the trace; 0: the scenario's"},
    {.name = "compress", .type = EA_OPT_FLAG, .offset = AT(compress), .help = "XPRESS-compressed buffers"},
    {.name = NULL},
};

static int run_make(const void *options, int operand_count, char **operands) {
    (void)operand_count;
    (void)operands;
    const make_options *o = options;
    tg_made made;
    tg_scenario *scenario = NULL;
    ea_err err;
    int64_t began_ns = ea_monotonic_ns();
    int rc = o->duration_ms <= TG_DURATION_MAX_MS ? tg_scenario_read(&scenario, o->preset, &err)
                                                  : ea_fail(&err, EA_EUSAGE, "--duration-ms: a day at the most");
    if (!rc) {
        if (o->duration_ms)
            scenario->duration_ms = (uint32_t)o->duration_ms;
        rc = tg_make(&(tg_make_options){.scenario = scenario,
                                        .preset = o->preset,
                                        .seed = o->seed,
                                        .compress = o->compress,
                                        .out = o->out,
                                        .truth = o->truth},
                     &made, &err);
        tg_scenario_destroy(scenario);
    }
    if (rc)
        ea_err_print(stderr, "tracegen make", &err);
    else
        printf("%s: %" PRIu64 " events, %zu processes, %.2f M events/s\n", o->out ? o->out : "(nothing written)",
               made.events, made.processes, (double)made.events * 1e3 / (double)(ea_monotonic_ns() - began_ns + 1));
    return ea_exit_code(rc);
}

static int run_presets(const void *options, int operand_count, char **operands) {
    (void)options;
    (void)operand_count;
    (void)operands;
    for (size_t i = 0; tg_presets[i].name; i++) {
        ea_err err;
        tg_scenario *s;
        if (tg_scenario_read(&s, tg_presets[i].name, &err))
            continue; /* a base of others alone has no processes */
        if (s->summary)
            printf("%-14s %s\n", tg_presets[i].name, s->summary);
        tg_scenario_destroy(s);
    }
    return 0;
}

static int run_options(const void *options, int operand_count, char **operands) {
    (void)options;
    (void)operand_count;
    (void)operands;
    tg_options_print();
    return 0;
}

static const ea_option no_options[] = {{.name = NULL}};

static const ea_command make_command = {
    .name = "make",
    .operands = "",
    .summary = "Writes a trace and what is true of it",
    .details =
        "The same seed and preset give the same bytes, whatever the compiler. Each line of the truth is a JSON\n"
        "object whose type says what it is about: process, thread, module, name, handle, frames, stack, flow,\n"
        "loss, step (of an attack's script), class and provider_event (counts), machine, totals; its fields are\n"
        "in tests/tracegen/README.md. Times are raw ticks of the trace and ns since 1970; null is before or\n"
        "after the trace.\n\n"
        "A scenario of your own begins with 'base: office' (or another preset) and says what differs: cpus, the\n"
        "session's events and rates, programs and who starts them, a script of set steps. 'tracegen options'\n"
        "prints every key with its values and default.\n\n"
        "  tracegen make --preset attack --out attack.etl --truth attack.jsonl\n"
        "  tracegen make --preset mine.yaml --seed 7 --duration-ms 60000 --compress --out mine.etl",
    .options = options_of_make,
    .options_size = sizeof(make_options),
    .run = run_make};
static const ea_command presets_command = {
    .name = "presets", .operands = "", .summary = "Lists the scenarios", .options = no_options, .run = run_presets};
static const ea_command options_command = {.name = "options",
                                           .operands = "",
                                           .summary = "Prints the table of a scenario's options",
                                           .options = no_options,
                                           .run = run_options};
static const ea_command *const commands[] = {&make_command,
#ifdef TG_FLEET
                                             &tg_fleet_command,
#endif
                                             &presets_command, &options_command, NULL};

int main(int argc, char **argv) {
    ea_stdio_init();
    return ea_cli_main("tracegen", "0.1.0", "Traces of machines that never were, with the truth beside them.", commands,
                       argc, argv);
}
