/* etwagent open: what is in traces, on the machine at hand and without a store: times, losses, and the tables of a
 * built-in program of the query language, as text, as JSON, or as a page for browsers with a flame graph. The
 * collector's command of this name has the dashboard and SQL besides.
 * Called by: main.c. Calls: proto/lang, service/decode, proto/state. Thread: the main one. */
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"
#include "service/app/input.h"
#include "service/app/look_ahead.h"
#include "service/app/open_page.h"
#include "service/app/programs.h"
#include "service/decode/decoder.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    ea_schema_options schemas;
    const char *html; /* the file of the page; NULL: there is none */
    int json, is_web;
} options;

/* A table is printed only where the trace has its events. A pause of .NET for a collection (reason 1, 6) is from
 * SuspendEEStart to RestartEEStop. */
#define CLAUSES                                                                                                        \
    "profile:::profile-997 /tid != 0/ { @samples[execname] = count(); }\n"                                             \
    "sched:::on-cpu /tid != 0/ { self.began = timestamp; }\n"                                                          \
    "sched:::off-cpu /self.began/ { @running_us[execname] = sum((timestamp - self.began) / 1us); self.began = 0; }\n"  \
    "sched:::off-cpu /tid != 0/ { self.left = timestamp; self.reason = OldThreadWaitReason_name; }\n"                  \
    "sched:::on-cpu /self.left/ { @off_cpu_us[execname, self.reason] = sum((timestamp - self.left) / 1us); self.left " \
    "= 0; }\n"                                                                                                         \
    "DiskIo/Read, DiskIo/Write { @disk_bytes[FileObject_name, probe] = sum(TransferSize); }\n"                         \
    "tcpip:::send { @sent_bytes[execname, daddr, dport] = sum(size); }\n"                                              \
    "tcpip:::receive { @received_bytes[execname, daddr, dport] = sum(size); }\n"                                       \
    "proc:::start { @started[ImageFileName, execname] = count(); }\n"                                                  \
    "dnet:::gc-start { @collections[execname, Depth] = count(); delta(\"gc\", pid, Count); }\n"                        \
    "dnet:::gc-stop { @collection_us[execname] = sum(delta(\"gc\", pid, Count) / 1us); }\n"                            \
    "GC/SuspendEEStart /Reason == 1 || Reason == 6/ { pause[pid] = timestamp; }\n"                                     \
    "GC/RestartEEStop /pause[pid]/ { @pauses[execname] = count(); @pause_us[execname] = sum((timestamp - pause[pid]) " \
    "/ 1us);\n  @longest_pause_us[execname] = max((timestamp - pause[pid]) / 1us); pause[pid] = 0; }\n"                \
    "Method/JittingStarted { jit[tid, MethodID] = timestamp; }\n"                                                      \
    "Method/LoadVerbose /jit[tid, MethodID]/ { @compiled_methods[execname] = count();\n"                               \
    "  @compilation_us[execname] = sum((timestamp - jit[tid, MethodID]) / 1us); jit[tid, MethodID] = 0; }\n"

#define PRINTS(rows)                                                                                                   \
    "print(@samples, " rows "); print(@running_us, " rows "); print(@off_cpu_us, " rows "); print(@disk_bytes, " rows  \
    "); print(@sent_bytes, " rows ");\n      print(@received_bytes, " rows "); print(@started, " rows                  \
    "); print(@collections, " rows "); print(@collection_us, " rows ");\n      print(@pauses, " rows                   \
    "); print(@pause_us, " rows "); print(@longest_pause_us, " rows ");\n      print(@compiled_methods, " rows         \
    "); print(@compilation_us, " rows ");"

static const char PROGRAM[] = CLAUSES "end { " PRINTS("10") " }\n";

static const char PAGE_PROGRAM[] =
    CLAUSES "profile:::profile-997 /tid != 0/ { @stacks[execname, stack()] = count(); }\nend { " PRINTS("30") " }\n";

static const ea_open_title TITLES[] = {
    {"samples", "Samples by program"},
    {"running_us", "Running time by program, \302\265s"},
    {"off_cpu_us", "Time off the processor by program and reason of the wait, \302\265s"},
    {"disk_bytes", "Bytes of disk requests by file"},
    {"sent_bytes", "Bytes sent by program and peer"},
    {"received_bytes", "Bytes received by program and peer"},
    {"started", "Programs that started, and who started them"},
    {"collections", "Collections of .NET by program and generation"},
    {"collection_us", "Duration of collections by program, \302\265s"},
    {"pauses", "Pauses for collections by program"},
    {"pause_us", "Time of these pauses by program, \302\265s"},
    {"longest_pause_us", "Longest such pause by program, \302\265s"},
    {"compiled_methods", "Methods that .NET compiled by program"},
    {"compilation_us", "Time of these compilations by program, \302\265s"},
    {NULL, NULL},
};

typedef struct opening {
    const options *o;
    char **paths;
    int path_count;
    ea_input in;
    ea_decoder *decoder;
    ea_machine *machine;
    ea_lang_run *run;
    ea_open_page *page;  /* NULL: text or JSON is printed */
    ea_look_ahead ahead; /* of the page: stacks */
    uint64_t events, decoded, unknown;
    int64_t first_utc_ns, last_utc_ns;
    int has_tables;
} opening;

static int open_take_tables(void *arg, ea_text *out) {
    opening *x = arg;
    size_t n = out->len_bytes;
    int is_broken = n && fwrite(out->data, 1, n, stdout) != n;
    x->has_tables |= n != 0;
    ea_text_clear(out);
    return is_broken ? EA_EIO : 0;
}

/* Records come in the order of time. */
static int open_take_record(opening *x, const ea_record *r, ea_err *err) {
    enum ea_counter outcome;
    ea_lang_event event = {.clock = &ea_etl_file_info(x->in.set, r->source)->clock};
    event.c = ea_decoder_find(x->decoder, &r, &outcome);
    event.record = r;
    event.utc_ns = ea_clock_to_utc_ns(event.clock, r->time_raw);
    uint64_t number = x->events++;
    if (!number)
        x->first_utc_ns = event.utc_ns;
    x->last_utc_ns = event.utc_ns;
    x->decoded += outcome == EA_COUNT_decode_whole || outcome == EA_COUNT_decode_partial;
    x->unknown += outcome != EA_COUNT_decode_whole && outcome != EA_COUNT_decode_partial;
    int rc = ea_machine_apply(x->machine, r, event.c, event.utc_ns, err);
    if (!rc && x->page)
        rc = ea_look_ahead_find(&x->ahead, number, &event, err);
    if (rc)
        return rc;
    rc = ea_lang_run_event(x->run, &event);
    return rc < 0 ? ea_fail(err, rc, "run the program") : 0;
}

static void open_add_path(ea_text *t, const char *path) {
    int has_blank = strpbrk(path, " \t&'()") != NULL;
    ea_text_str(t, has_blank ? " \"" : " ");
    ea_text_safe(t, path, strlen(path));
    ea_text_str(t, has_blank ? "\"" : "");
}

static void open_add_times(ea_text *t, const opening *x, const char *before, const char *between, const char *after) {
    if (!x->events)
        return;
    ea_text_str(t, before);
    ea_text_utc_ns(t, x->first_utc_ns);
    ea_text_str(t, between);
    ea_text_utc_ns(t, x->last_utc_ns);
    ea_text_str(t, after);
}

static void open_add_summary(ea_text *t, const opening *x) {
    uint64_t lost_events = 0, lost_buffers = 0;
    for (size_t i = 0; i < ea_etl_file_count(x->in.set); i++) {
        lost_events += ea_etl_file_info(x->in.set, i)->events_lost;
        lost_buffers += ea_etl_file_info(x->in.set, i)->buffers_lost;
    }
    if (x->o->json) {
        ea_text_printf(t,
                       "{\"events\":%" PRIu64 ",\"decoded\":%" PRIu64 ",\"unknown\":%" PRIu64
                       ",\"lost_events\":%" PRIu64 ",\"lost_buffers\":%" PRIu64 ",\"damaged_places\":%" PRIu64,
                       x->events, x->decoded, x->unknown, lost_events, lost_buffers, x->in.damage.map.places);
        open_add_times(t, x, ",\"begin\":\"", "\",\"end\":\"", "\"");
        ea_text_str(t, "}\n");
        return;
    }
    ea_text_printf(t,
                   "%" PRIu64 " events, %" PRIu64 " of unknown classes; lost by Windows: %" PRIu64 " events, %" PRIu64
                   " buffers\n",
                   x->events, x->unknown, lost_events, lost_buffers);
    open_add_times(t, x, "from ", " to ", "\n");
    ea_text_char(t, '\n');
}

static void open_add_next(ea_text *t, const opening *x) {
    static const struct {
        const char *command, *what;
    } NEXT[] = {
        {"etwagent stats", "each class of events, damage"},
        {"etwagent dump --class Process/Start", "events of a class"},
        {"etwagent open --html page.html", "a page with a flame graph and these tables, for a browser"},
        {"etwagent watch -e 'sched:::on-cpu { @[execname] = count(); }'", "a question of one's own"},
    };

    if (!x->page && !x->has_tables)
        ea_text_str(t,
                    "no samples, context switches, disk requests, connections, starts of processes or collections\n\n");
    ea_text_str(t, "next:\n");
    for (size_t i = 0; i < sizeof NEXT / sizeof *NEXT; i++) {
        ea_text_printf(t, "  %s", NEXT[i].command);
        for (int k = 0; k < x->path_count; k++)
            open_add_path(t, x->paths[k]);
        ea_text_printf(t, "    %s\n", NEXT[i].what);
    }
    ea_text_str(t, "on Linux, the dashboard, profiles by function, reports and SQL:\n  etwcollector open --web");
    for (int k = 0; k < x->path_count; k++)
        open_add_path(t, x->paths[k]);
    ea_text_char(t, '\n');
}

static int open_print(ea_text *t, ea_err *err) {
    int rc = t->failed ? ea_fail(err, EA_ENOMEM, "print what is in a trace") : 0;
    if (!rc && t->len_bytes && fwrite(t->data, 1, t->len_bytes, stdout) != t->len_bytes)
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_clear(t);
    return rc;
}

static int open_check_page(const char *path, ea_err *err) {
    return ea_path_exists(path) ? ea_fail(err, EA_EEXIST, "--html: %s is there already; name a file that is not", path)
                                : 0;
}

/* Whole, or not at all; for this user alone, as a trace has command lines. */
static int write_page(const opening *x, ea_err *err) {
    ea_text title, summary, page;
    ea_text_init(&title);
    ea_text_init(&summary);
    ea_text_init(&page);
    for (int i = 0; i < x->path_count; i++) {
        ea_text_str(&title, i ? ", " : "");
        ea_text_str(&title, x->paths[i]);
    }
    open_add_summary(&summary, x);
    if (!title.failed && !summary.failed)
        ea_open_page_write(x->page, title.data, &summary, &page);
    int rc = title.failed || summary.failed || page.failed ? ea_fail(err, EA_ENOMEM, "make a page") : 0;
    if (!rc) /* once more: the traces took their time */
        rc = open_check_page(x->o->html, err);
    if (!rc)
        rc = ea_path_write_all(x->o->html, page.data, page.len_bytes, 1, err);
    if (!rc && printf("the page is %s\n\n", x->o->html) < 0)
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_deinit(&title);
    ea_text_deinit(&summary);
    ea_text_deinit(&page);
    return rc;
}

static int open_read_all(opening *x, ea_err *err) {
    const ea_record *r;
    ea_text t;
    int rc = ea_lang_run_begin(x->run);
    while (rc == 0 && (rc = ea_input_next(&x->in, &r, err)) > 0)
        rc = open_take_record(x, r, err);
    if (rc < 0)
        return err->code ? rc : ea_fail(err, rc, "run the program");
    ea_text_init(&t);
    open_add_summary(&t, x);
    rc = open_print(&t, err);
    if (!rc && ea_lang_run_end(x->run))
        rc = ea_fail(err, EA_ENOMEM, "run the program");
    if (!rc && x->page)
        rc = write_page(x, err);
    if (!rc && open_take_tables(x, ea_lang_run_output(x->run)))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    if (!rc && !x->o->json) {
        open_add_next(&t, x);
        rc = open_print(&t, err);
    }
    if (!rc && fflush(stdout))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_deinit(&t);
    return rc;
}

static int open_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    opening x = {.o = o, .paths = operands, .path_count = operand_count};
    ea_lang_program *program = NULL;
    ea_object_names *names = NULL;
    ea_registry *registry = NULL;
    ea_schemas *schemas = NULL;
    ea_resolver resolver;
    ea_lang_run_options how = {.form = o->json ? EA_LANG_JSON : EA_LANG_TEXT,
                               .flush = open_take_tables,
                               .flush_arg = &x,
                               .resolver = &resolver};
    ea_err err = {0};
    int rc = 0;
    if (o->html && o->json)
        rc = ea_fail(&err, EA_EUSAGE, "expected --json or --html, and found both");
    if (!rc && o->html)
        rc = open_check_page(o->html, &err);
    if (!rc && o->is_web)
        rc = ea_fail(&err, EA_EUSAGE,
                     "--web: the dashboard is a part of etwcollector, which is built for Linux alone, as its processes "
                     "confine themselves with that kernel's means; copy the files there, and run \"etwcollector open "
                     "--web\". Here, --html FILE writes a page with a flame graph and tables");
    if (!rc)
        rc = ea_program_compile(&program, "open", o->html ? PAGE_PROGRAM : PROGRAM,
                                o->html ? sizeof PAGE_PROGRAM - 1 : sizeof PROGRAM - 1, NULL,
                                &(ea_program_classes){operands, operand_count, &o->schemas}, &err);
    if (!rc)
        rc = ea_schema_options_read(&schemas, &o->schemas, &err);
    if (!rc)
        rc = ea_decoder_create(&x.decoder, schemas, NULL, &err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, &err);
    if (!rc)
        rc = ea_machine_create(&x.machine, &(ea_machine_options){0}, &err);
    if (!rc)
        rc = ea_input_names(&names, operands, operand_count, registry, &err);
    if (!rc && o->html)
        rc = ea_look_ahead_open(&x.ahead, operands, operand_count, &err);
    if (!rc && o->html)
        rc = ea_open_page_create(&x.page, TITLES, &err);
    if (!rc) {
        resolver = ea_object_names_resolver(names);
        how.machine = x.machine;
        if (x.page) {
            how.form = EA_LANG_ROWS;
            how.on_row = ea_open_page_row;
            how.on_row_arg = x.page;
            how.frames = ea_look_ahead_frames;
            how.frames_arg = x.ahead.stacks;
        }
        rc = ea_lang_run_create(&x.run, program, &how, &err);
    }
    int exit_code = ea_exit_code(rc);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else if ((exit_code = ea_input_open(&x.in, operands, operand_count, 0, 0)) == 0)
        exit_code = ea_input_close(&x.in, open_read_all(&x, &err), &err);
    ea_lang_run_destroy(x.run);
    ea_look_ahead_close(&x.ahead);
    ea_open_page_destroy(x.page);
    ea_lang_program_destroy(program);
    ea_machine_destroy(x.machine);
    ea_object_names_destroy(names);
    ea_registry_destroy(registry);
    ea_decoder_destroy(x.decoder);
    ea_schemas_destroy(schemas);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    {.name = "json",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "print an object with the counts, then one for each row of a table"},
    {.name = "html",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, html),
     .help = "write the tables into this new file as a page for a browser, with a flame graph of the samples"},
    {.name = "web",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, is_web),
     .help = "is refused here: \"etwcollector open --web\" has the dashboard, on Linux"},
    EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
    {.name = NULL},
};

const ea_command ea_cmd_open = {
    .name = "open",
    .operands = "TRACE...",
    .summary = "Look at trace files: times, losses, and what used processor, disk and network",
    .details =
        "Several files are read as one trace, merged by time. The command prints how many events there are, of when,\n"
        "and what Windows lost; then the ten first rows of each table of which the files have events: samples and\n"
        "running time by program, time off the processor by program and reason, disk bytes by file, bytes by peer,\n"
        "starts of processes, collections of .NET and the pauses for them, compilations. --html FILE writes these\n"
        "tables, 30 rows of each, into a page, with a flame graph of the samples by program and module; the page\n"
        "refers to nothing outside of itself.\n"
        "The dashboard, profiles by function, reports and SQL are of \"etwcollector open\", which is built for Linux\n"
        "alone.\n"
        "JSON keys of the first object: events, decoded, unknown, lost_events, lost_buffers, damaged_places, begin,\n"
        "end; of the others: as of \"etwagent watch --json\".\n"
        "Exit codes: 0 read, 1 failed, 2 usage, 3 not a trace.\n"
        "\n"
        "  etwagent open trace.etl\n"
        "  etwagent open --html page.html trace.etl",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = open_run,
    .min_operands = 1,
    .max_operands = -1,
};
