/* etwcollector watch: a program of the query language over stored events, and over those that arrive. Called by:
 * main.c. Calls: proto/lang, watch_streams.h. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/app/watch_streams.h"
#include "collector/query/scan/data_times.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/lang/lang_where.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_A_LOOK = 1024 }; /* at the clock */

static const int64_t POLL_NS = 200000000;

typedef struct options {
    ea_lang_options lang;
    const char *store, *from, *to;
    ea_strings hosts, labels;
    ec_symbol_options symbols;
    int64_t idle_ns;
    int live;
} options;

/* Functions of stacks' frames, when symbols were asked for. */
typedef struct functions {
    ec_symbol_desk desk;
    ea_u64_map lacking; /* hashes of modules whose symbols cannot be had */
    ea_text *to;        /* the answer at hand */
    int is_named;
    uint64_t lacking_count;
    char first_lack[300];
} functions;

typedef struct watch {
    const options *o;
    const char *name; /* of the program, for messages */
    char *text;
    size_t text_bytes;
    ea_lang_program *program;
    ea_lang_run *run;
    ec_watch_streams *streams;
    functions functions;
    int has_more;  /* events, when the time for them was over */
    int is_whole;  /* all stored events were read */
    int is_broken; /* standard output takes nothing any more */
} watch;

static int compile_program(watch *w, ea_err *err) {
    ea_lang_problem problem = {0};
    ea_registry *registry = NULL;
    int rc = ea_registry_create(&registry, 0, err);
    if (rc)
        return rc;
    ea_lang_sources sources = {.registry = registry, .args = w->o->lang.args.items, .arg_count = w->o->lang.args.count};
    rc = ea_lang_compile(&w->program, w->text, w->text_bytes, &sources, &problem);
    ea_registry_destroy(registry);
    if (rc && rc != EA_ENOMEM && problem.is_class) { /* of an own provider, perhaps: its classes are stored */
        rc = ec_watch_streams_classes(w->streams, &sources, err);
        if (rc)
            return rc;
        rc = ea_lang_compile(&w->program, w->text, w->text_bytes, &sources, &problem);
    }
    if (rc == EA_ENOMEM)
        return ea_fail(err, rc, "compile the program");
    if (!rc)
        return 0;
    return ea_lang_report_problem(&problem, w->name, w->text, w->text_bytes, err);
}

static int take_output(void *arg, ea_text *out) {
    watch *w = arg;
    size_t n = out->len_bytes;
    w->is_broken |= n && fwrite(out->data, 1, n, stdout) != n;
    ea_text_clear(out);
    return w->is_broken ? EA_EIO : 0;
}

/* ---- functions ---- */

/* An inlined function has no frame of its own. */
static int watch_on_symbol(void *arg, const ec_symbol *symbol) {
    functions *f = arg;
    const char *name = symbol->frame_count ? symbol->frames[symbol->frame_count - 1].function : "";
    f->is_named = *name != 0;
    ea_text_str(f->to, name);
    return 0;
}

static int watch_function(void *arg, const ea_module *module, uint64_t offset, ea_text *out) {
    functions *f = arg;
    const char *image = ea_path_end(module->path);
    const ec_symbol_module of = {.pdb_name = module->has_pdb ? module->pdb_path : NULL,
                                 .pdb = {module->pdb_guid, module->pdb_age},
                                 .image_name = module->path,
                                 .timestamp = module->timestamp,
                                 .size_bytes = (uint32_t)module->size_bytes};
    uint64_t hash = ea_hash64(image, strlen(image), module->timestamp) ^
                    ea_hash64(&module->pdb_guid, sizeof module->pdb_guid, module->pdb_age);
    if (offset > UINT32_MAX || ea_u64_map_get(&f->lacking, hash))
        return 0;
    uint32_t rva = (uint32_t)offset;
    ea_err why = {0};
    f->to = out;
    f->is_named = 0;
    if (!ec_symbols_resolve(f->desk.symbols, &of, &rva, 1, watch_on_symbol, f, NULL, &why))
        return f->is_named;
    if (!ea_u64_map_put(&f->lacking, hash, 1) && !f->lacking_count++) /* without memory it is asked for again */
        snprintf(f->first_lack, sizeof f->first_lack, "%s", why.message);
    return 0;
}

/* ---- the program ---- */

static int put_output(watch *w, ea_err *err) {
    if (take_output(w, ea_lang_run_output(w->run)))
        return ea_fail(err, EA_EIO, "write to standard output");
    return 0;
}

static int flush_output(watch *w, ea_err *err) {
    int rc = put_output(w, err);
    return !rc && fflush(stdout) ? ea_fail(err, EA_EIO, "write to standard output") : rc;
}

static int run_failed(const watch *w, int rc, ea_err *err) {
    if (w->is_broken)
        return ea_fail(err, EA_EIO, "write to standard output");
    return err->code ? err->code : ea_fail(err, rc, "run the program");
}

/* The events that are there now, or those of so long a time: 0, EC_WATCH_OVER after exit(), or an error. */
static int run_events(watch *w, const atomic_int *stop, int64_t time_ns, ea_err *err) {
    int64_t until_ns = time_ns < INT64_MAX ? ea_monotonic_ns() + time_ns : INT64_MAX;
    w->has_more = 1;
    for (uint32_t n = 1; !(stop && atomic_load(stop)); n++) {
        if (n % EVENTS_A_LOOK == 0 && until_ns < INT64_MAX && ea_monotonic_ns() >= until_ns)
            return 0;
        int rc = ec_watch_streams_next(w->streams, w->run, err);
        if (rc < 0)
            return run_failed(w, rc, err);
        if (!rc) {
            w->has_more = 0;
            w->is_whole = !w->o->live;
            return 0;
        }
        if (ea_lang_run_output(w->run)->len_bytes) {
            int written = put_output(w, err);
            if (written)
                return written;
        }
        if (rc == EC_WATCH_OVER)
            return rc;
    }
    return 0;
}

/* Until Ctrl-C or exit(). Ticks are those of this machine's clock, also while more events are there than it has time
 * for. */
static int run_arriving(watch *w, ea_err *err) {
    const atomic_int *stop = ea_stop_flag();
    int rc = 0;
    fprintf(stderr, "etwcollector: waiting for events; Ctrl-C ends\n");
    while (!rc && !atomic_load(stop)) {
        rc = ea_lang_run_time(w->run, ea_utc_ns());
        if (rc < 0)
            return run_failed(w, rc, err);
        if (!rc)
            rc = run_events(w, stop, POLL_NS, err);
        int written = flush_output(w, err);
        if (written)
            return written;
        if (rc || atomic_load(stop))
            break;
        if (!w->has_more)
            ea_sleep_ns(POLL_NS);
        rc = ec_watch_streams_refresh(w->streams, w->run, err);
    }
    return rc;
}

static int run_all(watch *w, ea_err *err) {
    int rc = ea_lang_run_begin(w->run);
    if (rc < 0)
        rc = run_failed(w, rc, err);
    else if (!rc)
        rc = w->o->live ? run_arriving(w, err) : run_events(w, NULL, INT64_MAX, err);
    ea_err later = {0}; /* what came before a failure is printed, too */
    ea_err *of_end = rc < 0 ? &later : err;
    int ended = ea_lang_run_end(w->run);
    ended = ended ? run_failed(w, ended, of_end) : flush_output(w, of_end);
    return rc < 0 ? rc : ended;
}

/* Says that the range has no event, and when the stored ones are. */
static void report_none(const watch *w) {
    int64_t begin_utc_ns, end_utc_ns;
    if (!w->is_whole || ea_lang_run_counts(w->run).events)
        return;
    ec_watch_streams_times(w->streams, &begin_utc_ns, &end_utc_ns);
    ec_answer_none("no event is in the range", begin_utc_ns, end_utc_ns);
}

/* The range's times; "" and NULL: it is open. */
static int watch_parse_time(const options *o, const char *what, const char *text, int64_t otherwise, int64_t *ret,
                            ea_err *err) {
    *ret = otherwise;
    if (!text || !*text)
        return 0;
    return ec_data_time(what, text, o->store, o->hosts.count == 1 ? o->hosts.items[0] : NULL, NULL, ret, err);
}

static int watch_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    watch w = {.o = o};
    ec_watch_range range = {
        .store = o->store, .hosts = &o->hosts, .labels = &o->labels, .is_live = o->live, .idle_ns = o->idle_ns};
    const char *damage = "";
    uint64_t damaged = 0;
    int rc = 0;
    if (o->live && o->to)
        rc = ea_fail(&err, EA_EUSAGE, "--live has no end; leave out --to");
    if (!rc && o->lang.program && operand_count)
        rc = ea_fail(&err, EA_EUSAGE, "expected -e PROGRAM or a file with a program, and found both");
    if (!rc)
        rc = ea_lang_options_read(&o->lang, operand_count ? operands[0] : NULL, &w.name, &w.text, &w.text_bytes, &err);
    if (!rc)
        rc = watch_parse_time(o, "--from", o->from, INT64_MIN, &range.from_utc_ns, &err);
    if (!rc)
        rc = watch_parse_time(o, "--to", o->to, INT64_MAX, &range.to_utc_ns, &err);
    if (!rc)
        rc = ec_watch_streams_open(&w.streams, &range, &err);
    if (!rc)
        rc = compile_program(&w, &err);
    if (!rc)
        rc = ec_watch_streams_begin(w.streams,
                                    &(ec_watch_wants){.state = ea_lang_needs_processes(w.program) || o->lang.pid ||
                                                               o->lang.exe || ea_lang_counter(w.program, 0),
                                                      .stacks = ea_lang_needs_stacks(w.program),
                                                      .names = ea_lang_needs_names(w.program)},
                                    &err);
    ea_u64_map_init(&w.functions.lacking, 0);
    int has_symbols = !rc && ec_symbol_options_are_given(&o->symbols);
    if (has_symbols) {
        rc = ec_symbol_desk_open(&w.functions.desk, &o->symbols, NULL, &err);
        has_symbols = !rc;
    }
    if (!rc) {
        ea_lang_run_options how = ea_lang_options_run(&o->lang);
        how.frames = ea_lang_needs_stacks(w.program) ? ec_watch_streams_frames : NULL;
        how.frames_arg = w.streams;
        how.flush = take_output;
        how.flush_arg = &w;
        how.is_clocked = o->live;
        how.is_redrawn = o->live && ea_terminal_takes_sequences(stdout);
        how.function = w.functions.desk.symbols ? watch_function : NULL;
        how.function_arg = &w.functions;
        rc = ea_lang_run_create(&w.run, w.program, &how, &err);
    }
    if (!rc)
        rc = has_symbols ? ec_question_confine_symbols(o->store, &w.functions.desk.options, &err)
                         : ec_question_confine(o->store, &err);
    if (!rc) {
        rc = run_all(&w, &err);
        ea_lang_report_counts(w.run, "etwcollector");
        if (!rc)
            report_none(&w);
    }
    if (w.streams)
        damaged = ec_watch_streams_damage(w.streams, &damage);
    if (damaged)
        fprintf(stderr, "etwcollector: %" PRIu64 " batches could not be read: %s\n", damaged, damage);
    if (w.streams && ec_watch_streams_freed(w.streams))
        fprintf(stderr,
                "etwcollector: %" PRIu64 " times what is kept of a run was freed: it had sent nothing for long\n",
                ec_watch_streams_freed(w.streams));
    if (w.functions.lacking_count)
        fprintf(stderr, "etwcollector: %" PRIu64 " modules are without functions: %s\n", w.functions.lacking_count,
                w.functions.first_lack);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    int exit_code = rc ? ea_exit_code(rc) : damaged ? 3 : 0;
    ea_lang_run_destroy(w.run);
    if (has_symbols)
        ec_symbol_desk_close(&w.functions.desk);
    ea_u64_map_deinit(&w.functions.lacking);
    ec_watch_streams_close(w.streams);
    ea_lang_program_destroy(w.program);
    free(w.text);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    EA_LANG_OPTIONS(offsetof(options, lang)),
    {.name = "host",
     .argument = "HOST",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, hosts),
     .help = "an agent's name; may be repeated; all when none is given"},
    {.name = "label",
     .argument = "NAME=VALUE",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, labels),
     .help = "only runs of agents that had this label; may be repeated: all of them"},
    {EC_FROM_OF(options, from),
     .help = "only events at or after this time: RFC 3339, a date, now, -1h, or such as +10s after the start"},
    {EC_TO_OF(options, to), .help = "only events before this time"},
    {.name = "symbols",
     .argument = "PATH",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, symbols.path),
     .help = "name the functions of stacks; where PDBs are looked for, as in _NT_SYMBOL_PATH: srv*CACHE*URL, "
             "cache*FOLDER, FOLDER; between them ;"},
    {.name = "symbol-cache",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, symbols.cache),
     .help = "the same; where what was fetched and found out is kept; " EC_SYMBOL_CACHE " otherwise"},
    {.name = "live",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, live),
     .help =
         "run on what arrives from now on (with --from: on what is stored since then, too), until Ctrl-C or exit()"},
    {.name = "idle",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, idle_ns),
     .fallback = "1h",
     .min = 1000000,
     .max = (uint64_t)10000 * 3600 * 1000000000,
     .help = "of --live: the state of a run of an agent that has sent nothing for so long is freed, with the variables "
             "of its threads; the state is read again when the run goes on"},
    {.name = NULL},
};

const ea_command ec_cmd_watch = {
    .name = "watch",
    .operands = "[FILE.watch] [TRACE.etl...]",
    .summary = "Run a program of the query language over stored events of any machines, or over those that arrive",
    .details = "docs/reference/language.md describes the language. The program is that of \"etwagent watch\", and its "
               "answers are\n"
               "the same; events of several machines are merged by time, and aggregations are over all of them. The "
               "value host\n"
               "is the agent's name:\n"
               "  etwcollector watch --store DIR -e 'sched:::on-cpu { @[host, execname] = count(); }'\n"
               "  etwcollector watch --store DIR --label site=berlin --from -1h -e 'DiskIo/Read { @ = "
               "quantize(TransferSize); }'\n"
               "  etwcollector watch --store DIR --live -e 'tick:10s { print(@); clear(@); } Process/Start { @[host] = "
               "count(); }'\n"
               "With --live events are taken as they arrive, and ticks are those of this machine's clock.\n"
               "Exit codes: 0 read, 1 failed, 2 usage or a mistake in the program, 3 something stored is damaged.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = watch_run,
    .min_operands = 0,
    .max_operands = 1,
};
