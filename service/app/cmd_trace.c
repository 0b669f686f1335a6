/* etwagent trace: runs a command and records only the command and the processes that it starts.
 *
 *     command, suspended ─▶ sessions, written by Windows to files ─▶ command runs ─▶ the processes' events ─▶ one .etl
 *
 * Which events belong to these processes is decided after all files are complete, in time order over all sessions: a
 * child's events in one session may precede its start event in another. Called by: main.c. Calls: service/etw (live.h,
 * launch.h), process_tree_filter.h, etl_writer.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/base/provider_guids.h"
#include "proto/base/stop_flag.h"
#include "proto/etl/etl_writer.h"
#include "proto/event/provider_name.h"
#include "proto/event/schema/intrace.h"
#include "proto/state/process_tree_filter.h"
#include "service/app/agent_commands.h"
#include "service/core/agent_config.h"
#include "service/etw/launch.h"
#include "service/etw/live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t TICK_NS = 50000000, FAREWELL_NS = 5000000000;

static const char MARKS_PROVIDER[] = "*Etwagent-Marks"; /* by its name */

enum { PATH_BYTES = 4096, EXIT_INTERRUPTED = 130, BUFFER_BYTES = 1 << 20 };

typedef struct options {
    const char *command, *output, *config, *name;
    ea_strings flags, providers;
    int alone;
} options;

typedef struct path {
    char text[PATH_BYTES];
} path;

/* One session of the recording. */
typedef struct part {
    ea_session_config session;
    char name[EA_SESSION_NAME_MAX + 1], file[PATH_BYTES]; /* of its first start */
    ea_source *source;                                    /* NULL: it is not open */
    ea_counters counters;
    ea_live_status status; /* at its end */
} part;

/* What the command line asks for, as sessions. */
typedef struct plan {
    part *parts;
    size_t count;
    ea_config *memory; /* of the configuration file; NULL: none */
    ea_provider_config *providers;
    ea_provider_config marks;
} plan;

static void trace_log_note(void *arg, const char *text) {
    const part *p = arg;
    fprintf(stderr, "etwagent: session %s: %s\n", p->name, text);
}

static void trace_print_problem(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

/* ---- which sessions ---- */

static int trace_add_part(plan *p, const options *o, const ea_session_config *session, const char *suffix,
                          ea_err *err) {
    part *q = &p->parts[p->count];
    int n = snprintf(q->name, sizeof q->name, "%s%s%s", o->name, *suffix ? "-" : "", suffix);
    int m = snprintf(q->file, sizeof q->file, "%s.%zu.tmp", o->output, p->count);
    if (n < 0 || (size_t)n >= sizeof q->name || m < 0 || (size_t)m >= sizeof q->file)
        return ea_fail(err, EA_ELIMIT, "%s %s: a name too long", o->name, suffix);
    q->session = *session;
    q->session.name = q->name;
    q->session.output = EA_OUTPUT_FILE;
    q->session.file = q->file;
    if (session->images)
        fprintf(stderr, "etwagent: session %s: images: ignored; files of images are read for shipped sessions only\n",
                session->name);
    q->session.circular = 0;
    q->session.file_bytes = 0;
    q->session.keep_files = 0;         /* files of a killed recording are overwritten */
    q->session.clock = EA_SESSION_QPC; /* all files have one clock */
    q->session.stale = EA_STALE_STOP;
    p->count++;
    return 0;
}

static int add_string(ea_strings *to, const char *text, ea_err *err) {
    if (to->count == EA_STRINGS_MAX)
        return ea_fail(err, EA_EUSAGE, "more than %d kernel flags", EA_STRINGS_MAX);
    to->items[to->count++] = text;
    return 0;
}

/* The kernel's session: processes, threads and images, by which children are found, the flags that are asked for, and
 * marks. */
static int add_own(plan *p, const options *o, ea_err *err) {
    ea_session_config kernel = {0}, user = {0};
    const char *key = NULL;
    int rc = ea_option_fallbacks(ea_session_table.rows, &kernel, err);
    if (!rc)
        rc = ea_option_fallbacks(ea_provider_table.rows, &p->marks, err);
    p->marks.provider = MARKS_PROVIDER;
    kernel.providers = (ea_tables){&p->marks, 1};
    kernel.kind = EA_SESSION_SYSTEM;
    kernel.buffer_bytes = BUFFER_BYTES;
    if (!rc)
        rc = add_string(&kernel.flags, "PROC_THREAD", err);
    if (!rc)
        rc = add_string(&kernel.flags, "LOADER", err);
    for (size_t i = 0; i < o->flags.count && !rc; i++)
        rc = add_string(&kernel.flags, o->flags.items[i], err);
    kernel.name = o->name;
    if (!rc && (rc = ea_session_table.check(&kernel, &key, err)))
        rc = EA_EUSAGE;
    if (!rc)
        rc = trace_add_part(p, o, &kernel, "", err);
    if (rc || !o->providers.count)
        return rc;
    p->providers = calloc(o->providers.count, sizeof *p->providers);
    rc = p->providers ? ea_option_fallbacks(ea_session_table.rows, &user, err) : ea_fail(err, EA_ENOMEM, "trace");
    for (size_t i = 0; i < o->providers.count && !rc; i++) {
        rc = ea_option_fallbacks(ea_provider_table.rows, &p->providers[i], err);
        p->providers[i].provider = o->providers.items[i];
    }
    user.buffer_bytes = BUFFER_BYTES;
    user.providers = (ea_tables){p->providers, o->providers.count};
    user.name = "providers";
    if (!rc && (rc = ea_session_table.check(&user, &key, err)))
        rc = EA_EUSAGE;
    return rc ? rc : trace_add_part(p, o, &user, "providers", err);
}

static int trace_make_plan(plan *p, const options *o, ea_err *err) {
    ea_agent_config c = {0};
    int rc = o->config ? ea_config_read(&p->memory, o->config, &ea_agent_table, &c, trace_print_problem, NULL, err) : 0;
    if (rc)
        return rc;
    const ea_session_config *given = c.sessions.items;
    p->parts = calloc(c.sessions.count + 2, sizeof *p->parts);
    if (!p->parts)
        return ea_fail(err, EA_ENOMEM, "trace");
    rc = add_own(p, o, err);
    for (size_t i = 0; i < c.sessions.count && !rc; i++)
        if (given[i].kind == EA_SESSION_KERNEL_LOGGER)
            rc = ea_fail(err, EA_EUSAGE, "session %s: a recording does not take the NT Kernel Logger", given[i].name);
        else
            rc = trace_add_part(p, o, &given[i], given[i].name, err);
    return rc;
}

/* The existing files of the sessions. A session that another program ended was continued in another file. The caller
 * frees *ret. */
static int list_files(const plan *p, path **ret, size_t *ret_count, ea_err *err) {
    size_t most = 0, n = 0;
    for (size_t i = 0; i < p->count; i++)
        most += 1 + p->parts[i].status.starts;
    path *all = calloc(most + 1, sizeof *all);
    if (!all)
        return ea_fail(err, EA_ENOMEM, "trace");
    for (size_t i = 0; i < p->count; i++)
        for (uint64_t start = 1; start == 1 || start <= p->parts[i].status.starts; start++) {
            ea_session_file(&p->parts[i].session, start, all[n].text, sizeof all[n].text);
            n += ea_path_exists(all[n].text) != 0;
        }
    *ret = all;
    *ret_count = n;
    return 0;
}

/* keeps_files: what the sessions recorded is in no other file. */
static void free_plan(plan *p, int keeps_files) {
    path *files = NULL;
    size_t count = 0;
    EA_IGNORE(list_files(p, &files, &count, NULL));
    for (size_t i = 0; i < count; i++)
        if (keeps_files)
            fprintf(stderr, "etwagent: %s stays: what a session recorded\n", files[i].text);
        else
            EA_IGNORE(ea_path_remove(files[i].text, NULL));
    free(files);
    free(p->parts);
    free(p->providers);
    ea_config_destroy(p->memory);
}

/* ---- recording ---- */

static int trace_open_all(plan *p, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; i < p->count && !rc; i++) {
        part *q = &p->parts[i];
        ea_live_options o = {
            .session = &q->session, .counters = &q->counters, .on_note = trace_log_note, .on_note_arg = q};
        rc = ea_live_open(&q->source, &o, err);
        if (rc)
            q->source = NULL;
    }
    return rc;
}

static void close_all(plan *p) {
    const ea_record *none;
    for (size_t i = 0; i < p->count; i++)
        if (p->parts[i].source)
            ea_source_stop(p->parts[i].source);
    for (size_t i = 0; i < p->count; i++) {
        part *q = &p->parts[i];
        while (q->source && ea_source_next(q->source, &none, NULL) > 0)
            ;
        if (q->source) {
            ea_live_get_status(q->source, &q->status);
            ea_source_close(q->source);
        }
        q->source = NULL;
    }
}

/* Until the command and what it started have ended. Ctrl-C reaches the command, too: it has a moment to end by it. */
static void trace_watch(ea_launch *command) {
    int64_t until_ns = 0;
    while (!ea_launch_wait(command, TICK_NS)) {
        if (atomic_load(ea_stop_flag()) && !until_ns)
            until_ns = ea_monotonic_ns() + FAREWELL_NS;
        if (until_ns && ea_monotonic_ns() >= until_ns)
            return;
    }
}

/* ---- whose events ---- */

typedef struct sieve {
    ea_etl_set *set;
    ea_etl_writer *writer;
    ea_registry *registry;
    ea_schemas *schemas;
    ea_trace_schemas *from_trace;
    ea_process_tree_filter *tree;
    ea_guid marks; /* their provider: anybody's are kept */
    uint64_t seen, kept, too_large;
} sieve;

static int trace_is_header(const ea_record *r) {
    static const ea_guid EVENT_TRACE = EA_PROVIDER_EVENT_TRACE;
    return r->opcode == 0 && (r->flags & EA_FLAG_CLASSIC_HEADER) && ea_guid_equal(&r->provider, &EVENT_TRACE);
}

static int begin_file(sieve *s, const options *o, int64_t start_raw, ea_err *err) {
    ea_etl_info info = *ea_etl_file_info(s->set, 0);
    info.log_file_mode = 1; /* sequential */
    info.compression = 0;
    info.buffer_size_bytes = BUFFER_BYTES;
    return ea_etl_writer_create(&s->writer, o->output, &(ea_etl_writer_options){.info = &info, .start_raw = start_raw},
                                err);
}

static int trace_keep(sieve *s, const ea_record *r, ea_err *err) {
    ea_record own = *r;
    own.source = 0;
    int rc = ea_etl_writer_add(s->writer, &own, err);
    s->kept += !rc;
    if (rc != EA_ELIMIT)
        return rc;
    s->too_large++; /* said at the end */
    return 0;
}

static int sift(sieve *s, const options *o, ea_err *err) {
    const ea_record *r;
    int rc;
    while ((rc = ea_etl_next(s->set, &r, err)) > 0) {
        if (!s->writer && (rc = begin_file(s, o, r->time_raw, err)))
            return rc;
        if (trace_is_header(r))
            continue;
        s->seen++;
        if (ea_trace_schemas_concerns(r) && ea_trace_schemas_feed(s->from_trace, r))
            ea_registry_schemas_changed(s->registry);
        rc = ea_process_tree_filter_take(s->tree, r, ea_registry_find(s->registry, r), err);
        if (rc > 0 || (!rc && ea_guid_equal(&r->provider, &s->marks)))
            rc = trace_keep(s, r, err);
        if (rc)
            return rc;
    }
    return rc;
}

static int open_files(const plan *p, ea_etl_set **ret, ea_err *err) {
    path *files = NULL;
    size_t count = 0;
    int rc = list_files(p, &files, &count, err);
    const char **names = rc ? NULL : calloc(count + 1, sizeof *names);
    if (!rc && !names)
        rc = ea_fail(err, EA_ENOMEM, "trace");
    for (size_t i = 0; !rc && i < count; i++)
        names[i] = files[i].text;
    if (!rc)
        rc = ea_etl_open(ret, names, count, &(ea_etl_options){0}, err);
    free(names);
    free(files);
    return rc;
}

/* What became of the recording. */
static void print_end(const plan *p, const options *o, const sieve *s, const ea_etl_writer_end *end) {
    uint64_t ended = 0;
    for (size_t i = 0; i < p->count; i++)
        ended += p->parts[i].status.steals;
    fprintf(stderr,
            "etwagent: %s: %" PRIu64 " of %" PRIu64 " events, of %zu processes; Windows lost %" PRIu32
            " events and %" PRIu32 " buffers\n",
            o->output, s->kept, s->seen, ea_process_tree_filter_processes(s->tree), end->events_lost,
            end->buffers_lost);
    if (ended)
        fprintf(stderr,
                "etwagent: %s: others ended its sessions %" PRIu64
                " times; until the next start nothing was recorded\n",
                o->output, ended);
}

static int write_own(const plan *p, const options *o, uint32_t pid, sieve *s, ea_err *err) {
    ea_etl_writer_end end = {.end_filetime = ea_utc_ns_to_filetime(ea_utc_ns())};
    for (size_t i = 0; i < p->count; i++) {
        end.events_lost += (uint32_t)p->parts[i].status.lost_events;
        end.buffers_lost += (uint32_t)p->parts[i].status.lost_buffers;
    }
    int rc = open_files(p, &s->set, err);
    if (!rc)
        rc = ea_provider_guid_of_name(MARKS_PROVIDER + 1, &s->marks, err);
    if (!rc)
        rc = ea_schemas_create(&s->schemas, 0, err);
    if (!rc)
        rc = ea_trace_schemas_create(&s->from_trace, s->schemas, err);
    if (!rc)
        rc = ea_registry_create(&s->registry, 0, err);
    if (!rc)
        ea_registry_set_schemas(s->registry, s->schemas);
    if (!rc)
        rc = ea_process_tree_filter_create(&s->tree, pid, !o->alone, err);
    if (!rc)
        rc = sift(s, o, err);
    if (!rc && s->writer)
        rc = ea_etl_writer_finish(s->writer, &end, err);
    if (!rc)
        print_end(p, o, s, &end);
    if (s->too_large)
        fprintf(stderr, "etwagent: %s: %" PRIu64 " events were too large for it\n", o->output, s->too_large);
    return rc;
}

static void free_sieve(sieve *s) {
    ea_etl_writer_destroy(s->writer);
    ea_etl_close(s->set);
    ea_registry_destroy(s->registry);
    ea_trace_schemas_destroy(s->from_trace);
    ea_schemas_destroy(s->schemas);
    ea_process_tree_filter_destroy(s->tree);
}

static int trace_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    plan p = {0};
    sieve s = {0};
    ea_launch *command = NULL;
    uint32_t pid = 0, exit_code = EXIT_INTERRUPTED;
    ea_err err = {0};
    int is_recorded = 0, is_mistake;
    (void)operand_count, (void)operands;
    (void)ea_stop_flag();
    int rc = trace_make_plan(&p, o, &err);
    is_mistake = rc == EA_EFORMAT; /* of the configuration: reported already, each with its place */
    if (!rc)
        rc = ea_launch_suspended(&command, o->command, &pid, &err);
    if (!rc)
        rc = trace_open_all(&p, &err);
    if (!rc)
        rc = ea_launch_resume(command, &err);
    if (!rc)
        trace_watch(command);
    close_all(&p);
    if (!rc && !ea_launch_exit_code(command, &exit_code))
        fprintf(stderr, "etwagent: the command continues without being recorded\n");
    ea_launch_close(command);
    is_recorded = !rc;
    if (!rc)
        rc = write_own(&p, o, pid, &s, &err);
    if (rc && !is_mistake)
        ea_err_print(stderr, "etwagent", &err);
    free_sieve(&s);
    free_plan(&p, rc && is_recorded);
    if (rc && is_recorded)
        return ea_exit_code(EA_EIO); /* that of a recording which could not be written, whatever its files are */
    return rc ? ea_exit_code(rc) : (int)exit_code;
}

const ea_command ea_cmd_trace = {
    .name = "trace",
    .operands = "",
    .summary = "Run a command and record it alone, with what it starts, to an .etl file",
    .details =
        "The command is started suspended and resumed when the sessions run, so that none of its events is missed. A "
        "session "
        "of the\n"
        "kernel records processes, threads and images, and what --flag adds; --provider and --config add others, "
        "all of them\n"
        "private and stopped at the end. The file has the events that name the command, a process that it or its "
        "children started,\n"
        "or one of their threads, what describes the machine and names files, and the marks of \"etwagent mark\" in "
        "any\n"
        "process. Windows writes all events to "
        "FILE.etl.N.tmp while\n"
        "the command runs; these go when FILE.etl is written, and stay when it could not be. With --alone the file has "
        "the events of the command's own "
        "process, and\n"
        "Windows is not asked for a filter by its id: drivers would log nothing then.\n"
        "It ends when the command and what it started have ended; after Ctrl-C, which the command gets, too, at the "
        "latest five\n"
        "seconds later.\n"
        "Exit codes: the command's; 130 when it went on after Ctrl-C; 1 when nothing could be recorded, or no Windows, "
        "2 usage,\n"
        "3 the configuration has mistakes; the command has not run then.\n"
        "Example: etwagent trace -c \"ping localhost\" --flag NETWORKTRACE -o ping.etl",
    .options = (const ea_option[]){{.name = "command",
                                    .letter = 'c',
                                    .argument = "COMMAND",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, command),
                                    .required = 1,
                                    .help = "the command, in one argument; for the shell's own: \"cmd /c dir\""},
                                   {.name = "output",
                                    .letter = 'o',
                                    .argument = "FILE.etl",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, output),
                                    .fallback = "trace.etl",
                                    .help = "the file for the events"},
                                   {.name = "flag",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRINGS,
                                    .offset = offsetof(options, flags),
                                    .help = "further kernel events: a flag or group by xperf's name; may be repeated"},
                                   {.name = "provider",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRINGS,
                                    .offset = offsetof(options, providers),
                                    .help = "a provider by name or GUID, with all of its events; may be repeated"},
                                   {.name = "config",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, config),
                                    .help = "a configuration or profile, YAML, whose sessions are recorded, too"},
                                   {.name = "alone",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, alone),
                                    .help = "only the command itself, without what it starts"},
                                   {.name = "name",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, name),
                                    .fallback = "trace",
                                    .help = "name of the sessions; two recordings at a time need two names"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = trace_run,
    .min_operands = 0,
    .max_operands = 0,
};
