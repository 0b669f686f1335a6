/* etwagent dump: every event as text, JSON lines or CSV, in canonical order. Names come at the end of a trace, so that
 * a first pass collects them and a second one prints. Called by: main.c. Calls: proto/etl, proto/event (printing).
 * Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/event/print.h"
#include "proto/event/render.h"
#include "proto/state/object_names.h"
#include "service/app/agent_commands.h"
#include "service/app/dump_xml.h"
#include "service/app/input.h"
#include "service/app/programs.h"
#include "service/app/trace_classes.h"

typedef struct options {
    ea_print_options print;
    ea_schema_options schemas;
    const char *where;
    int strict, follow, xml;
} options;

static int print_all(ea_printer *printer, ea_input *in, ea_trace_classes *classes, ea_where *where, ea_err *err) {
    const ea_record *r;
    int rc;
    while ((rc = ea_input_next(in, &r, err)) > 0) {
        if (rc == EA_ETL_NOTHING_YET) {
            if ((rc = ea_printer_flush(printer, err)))
                return rc;
            continue;
        }
        const ea_clock *clock = &ea_etl_file_info(in->set, r->source)->clock;
        const ea_class *c = ea_trace_classes_next(classes, &r);
        rc = where ? ea_where_holds(where, r, c, clock, err) : 1;
        if (rc > 0)
            rc = ea_printer_event(printer, r, c, clock, err);
        else if (!rc)
            ea_printer_pass(printer, r, c, clock);
        if (rc)
            return rc;
    }
    ea_err later; /* what came before the damage is printed, too */
    int printed = ea_printer_end(printer, rc ? &later : err);
    ea_printer_report_left_over(printer, "etwagent");
    if (!printed)
        printed = ea_printer_flush(printer, rc ? &later : err);
    if (!rc && !printed)
        return ea_printer_check(printer, err);
    return rc ? rc : printed;
}

/* When the files' events are, by their headers, and by their events where the options ask for the end: a file that is
 * still being written has no end yet. */
static int set_data(ea_printer *printer, const options *o, const ea_input *in, char **paths, int path_count,
                    ea_err *err) {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    if (!o->follow && (ea_input_names_end(o->print.from) || ea_input_names_end(o->print.to))) {
        int rc = ea_input_read_end(paths, path_count, NULL, &end_ns, err);
        if (rc)
            return rc;
    }
    int is_read = end_ns > INT64_MIN;
    for (size_t i = 0; i < ea_etl_file_count(in->set); i++) {
        const ea_etl_info *info = ea_etl_file_info(in->set, i);
        int64_t from_ns = ea_filetime_to_utc_ns(info->start_filetime),
                to_ns = info->end_filetime ? ea_filetime_to_utc_ns(info->end_filetime) : ea_utc_ns();
        begin_ns = from_ns < begin_ns ? from_ns : begin_ns;
        end_ns = !is_read && to_ns > end_ns ? to_ns : end_ns;
    }
    return ea_printer_set_data(printer, begin_ns, end_ns, err);
}

/* Options that --xml has no answer to: it prints whole records, of all events. */
static int restricts_xml(const options *o) {
    const ea_print_options *p = &o->print;
    return o->where || o->follow || p->from || p->to || p->raw || p->format || p->fields.count || p->pids.count ||
           p->choice.classes.count || p->choice.ids.count || p->choice.providers.count;
}

static int dump_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_input in;
    ea_trace_classes classes = {0};
    ea_printer *printer = NULL;
    ea_object_names *names = NULL;
    ea_resolver resolver = {0};
    ea_where *where = NULL;
    int rc = 0;
    if (o->xml) {
        rc = restricts_xml(o)
                 ? ea_fail(&err, EA_EUSAGE,
                           "--xml prints whole records of all events: without options that choose events, columns or "
                           "another form, and without --follow")
                 : ea_dump_xml(operands, operand_count, o->strict, &err);
        if (rc)
            ea_err_print(stderr, "etwagent", &err);
        return ea_exit_code(rc);
    }
    rc = ea_printer_create(&printer, &o->print, stdout, &err);
    if (!rc)
        rc = ea_trace_classes_open(&classes, &o->schemas, &err);
    if (!rc && o->where)
        rc = ea_program_where(&where, o->where, &o->print.choice,
                              &(ea_program_classes){operands, operand_count, &o->schemas}, &err);
    if (!rc && ea_printer_wants_names(printer) && !o->follow) {
        rc = ea_input_names(&names, operands, operand_count, classes.registry, &err);
        if (!rc) {
            resolver = ea_object_names_resolver(names);
            ea_printer_set_resolver(printer, &resolver);
        }
    }
    int exit_code = ea_exit_code(rc);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else if ((exit_code = ea_input_open(&in, operands, operand_count, o->follow, o->strict)) == 0) {
        rc = set_data(printer, o, &in, operands, operand_count, &err);
        if (!rc)
            rc = print_all(printer, &in, &classes, where, &err);
        exit_code = ea_input_close(&in, rc, &err);
    }
    ea_where_destroy(where);
    ea_trace_classes_close(&classes);
    ea_printer_destroy(printer);
    ea_object_names_destroy(names);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EA_PRINT_OPTIONS(options, print, "text"),
    EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
    {.name = "where",
     .argument = "CONDITION",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, where),
     .help = "only events for which this condition of the query language holds, as in 'TransferSize > 64KiB'"},
    {.name = "strict",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, strict),
     .help = "end with 3 at the first place that is damaged"},
    {.name = "follow",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, follow),
     .help = "continue to read while the files grow, until their sessions end or Ctrl-C"},
    {.name = "xml",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, xml),
     .help = "event logs (.evtx) only: each record's whole XML on one line, file by file, in the order of the file"},
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
    "With --follow events come as their buffers reach the file, in the order of time as far as two buffers a CPU "
    "reach\n"
    "(later ones come late), after a second without news at the latest; names of files and keys, which come at a\n"
    "trace's end, are not looked up.\n"
    "An event log (.evtx) is read like a trace. Its events have the fields EventRecordID, Channel, Provider_Name, "
    "EventID\n"
    "and Computer, then those of their data; the class is the channel and the number, as in Security/4688.\n"
    "Exit codes: 0 read, 1 failed, or a class or a column that no event has, 2 usage, 3 not a trace, or damaged with "
    "--strict.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = dump_run,
    .min_operands = 1,
    .max_operands = -1,
};
