/* etwagent dump: every event as text, JSON lines or CSV, in canonical order.
 * Before it: main.c. After it: proto/etl, proto/event (printing). Thread: the main one. */
#include "commands.h"
#include "input.h"
#include "print.h"
#include "render.h"

typedef struct options {
    ea_print_options print;
    int strict;
} options;

static int read_all(ea_printer *printer, ea_input *in, ea_registry *registry, ea_err *err) {
    const ea_record *r;
    int rc;
    while ((rc = ea_etl_next(in->set, &r, err)) > 0) {
        const ea_clock *clock = &ea_etl_file_info(in->set, r->source)->clock;
        rc = ea_printer_event(printer, r, ea_registry_find(registry, r), clock, err);
        if (rc)
            return rc;
    }
    return rc ? rc : ea_printer_flush(printer, err);
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_input in;
    ea_registry *registry = NULL;
    ea_printer *printer = NULL;
    int rc = ea_printer_create(&printer, &o->print, stdout, &err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, &err);
    int exit_code = ea_exit_code(rc);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else if ((exit_code = ea_input_open(&in, operands, operand_count)) == 0) {
        rc = read_all(printer, &in, registry, &err);
        exit_code = ea_input_close(&in, rc, o->strict, &err);
    }
    ea_registry_destroy(registry);
    ea_printer_destroy(printer);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EA_PRINT_OPTIONS(options, print, "text"),
    {.name = "strict",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, strict),
     .help = "exit with 3 when a file is damaged"},
    {.name = NULL},
};

const ea_command ea_cmd_dump = {
    .name = "dump",
    .operands = "TRACE...",
    .summary = "Print every event of traces in time order",
    .details = EA_RENDER_HELP
    "\n\nSeveral files are read as one trace, merged by time (then file, CPU, position). Columns for --fields: time, "
    "clock,\n"
    "provider, provider_name, name, id, version, channel, level, opcode, task, keyword, cpu, pid, tid, activity_id,\n"
    "related_activity_id, stack, fields (all of them as JSON), or any field's name.\n"
    "Exit codes: 0 read, 1 failed, 2 usage, 3 not a trace, or damaged with --strict.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = run,
    .min_operands = 1,
    .max_operands = -1,
};
