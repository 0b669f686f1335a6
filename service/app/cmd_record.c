/* etwagent record: sessions of a configuration, written by Windows itself to .etl files. Called by: main.c. Calls:
 * service/etw/live.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/app/agent_commands.h"
#include "service/core/agent_config.h"
#include "service/etw/live.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t TICK_NS = 50000000;

enum { PATH_BYTES = 4096 };

typedef struct options {
    const char *config;
    ea_strings sessions;
    int64_t duration_ns; /* 0: until Ctrl-C */
    int json;
} options;

/* One session that is recorded. */
typedef struct recording {
    ea_session_config session;
    char file[PATH_BYTES];
    ea_source *source; /* NULL: it could not be started */
    ea_counters counters;
    ea_live_status status; /* at its end */
} recording;

static void record_log_note(void *arg, const char *text) {
    const recording *r = arg;
    fprintf(stderr, "etwagent: session %s: %s\n", r->session.name, text);
}

static void record_print_problem(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

static int record_is_wanted(const options *o, const char *name) {
    for (size_t i = 0; i < o->sessions.count; i++)
        if (strcmp(o->sessions.items[i], name) == 0)
            return 1;
    return !o->sessions.count;
}

/* FILE.etl, or of several sessions FILE-NAME.etl. */
static int record_name_file(recording *r, const char *file, int is_only, ea_err *err) {
    size_t n = strlen(file), stem = n > 4 && strcmp(file + n - 4, ".etl") == 0 ? n - 4 : n;
    int written = is_only ? snprintf(r->file, sizeof r->file, "%s", file)
                          : snprintf(r->file, sizeof r->file, "%.*s-%s%s", (int)stem, file, r->session.name,
                                     *(file + stem) ? file + stem : ".etl");
    return written > 0 && (size_t)written < sizeof r->file ? 0
                                                           : ea_fail(err, EA_ELIMIT, "%.64s...: a path too long", file);
}

/* Runs until all have ended: by themselves, by Ctrl-C, or when the time is over. */
static void wait_for_end(const options *o, recording *all, size_t count) {
    int64_t begun_ns = ea_monotonic_ns();
    int goes_on = 1;
    while (goes_on) {
        int is_over = atomic_load(ea_stop_flag()) || (o->duration_ns && ea_monotonic_ns() - begun_ns >= o->duration_ns);
        goes_on = 0;
        for (size_t i = 0; i < count; i++) {
            const ea_record *record;
            if (!all[i].source)
                continue;
            if (is_over)
                ea_source_stop(all[i].source);
            goes_on |= ea_source_next(all[i].source, &record, NULL) > 0;
        }
        if (goes_on && !is_over)
            ea_sleep_ns(TICK_NS);
    }
}

static void record_print(const options *o, const recording *all, size_t count) {
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0, printed = 0; i < count; i++) {
        const ea_live_status *s = &all[i].status;
        if (!all[i].source)
            continue;
        if (o->json) {
            ea_text_str(&t, printed++ ? ",\n {\"session\": " : "[{\"session\": ");
            ea_text_json_str(&t, all[i].session.name);
            ea_text_str(&t, ", \"file\": ");
            ea_text_json_str(&t, all[i].file);
            ea_text_printf(&t,
                           ", \"written_buffers\": %" PRIu64 ", \"buffer_bytes\": %" PRIu64
                           ", \"lost_events\": %" PRIu64 ", \"lost_buffers\": %" PRIu64
                           ", \"ended_by_others\": %" PRIu64 "}",
                           s->written_buffers, s->buffer_bytes, s->lost_events, s->lost_buffers, s->steals);
        } else {
            ea_text_safe(&t, all[i].file, strlen(all[i].file));
            ea_text_printf(
                &t, ": %" PRIu64 " buffers of %" PRIu64 " KiB written; lost: %" PRIu64 " events, %" PRIu64 " buffers",
                s->written_buffers, s->buffer_bytes / 1024, s->lost_events, s->lost_buffers);
            if (s->steals) {
                char last[PATH_BYTES];
                ea_session_file(&all[i].session, s->starts, last, sizeof last);
                ea_text_printf(&t, "; others ended it %" PRIu64 " times, the last file is ", s->steals);
                ea_text_safe(&t, last, strlen(last));
            }
            ea_text_char(&t, '\n');
        }
    }
    if (o->json)
        ea_text_str(&t, t.len_bytes ? "]\n" : "[]\n");
    if (t.data)
        fwrite(t.data, 1, t.len_bytes, stdout);
    ea_text_deinit(&t);
}

/* Starts what is wanted; what cannot be started is the error, and nothing is recorded then. */
static int record_start(const options *o, const char *file, const ea_tables *sessions, recording *all,
                        size_t *ret_count, ea_err *err) {
    const ea_session_config *given = sessions->items;
    size_t count = 0;
    int rc = 0;
    for (size_t i = 0; i < sessions->count; i++)
        if (record_is_wanted(o, given[i].name))
            all[count++].session = given[i];
    if (!count)
        return ea_fail(err, EA_EUSAGE, "%s: it has no such session", o->config);
    *ret_count = count;
    for (size_t i = 0; i < count && !rc; i++) {
        recording *r = &all[i];
        rc = record_name_file(r, file, count == 1, err);
        r->session.output = EA_OUTPUT_FILE;
        r->session.file = r->file;
        if (r->session.images)
            record_log_note(r, "images: ignored; files of images are read for shipped sessions only");
        if (!rc)
            rc = ea_live_open(
                &r->source,
                &(ea_live_options){
                    .session = &r->session, .counters = &r->counters, .on_note = record_log_note, .on_note_arg = r},
                err);
        if (rc)
            r->source = NULL;
    }
    return rc;
}

static int record_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_agent_config c = {0};
    ea_config *memory = NULL;
    recording *all = NULL;
    size_t count = 0;
    ea_err err = {0};
    (void)operand_count;
    int rc = ea_config_read(&memory, o->config, &ea_agent_table, &c, record_print_problem, NULL, &err);
    if (!rc && !(all = calloc(c.sessions.count + 1, sizeof *all)))
        rc = ea_fail(&err, EA_ENOMEM, "record %s", operands[0]);
    (void)ea_stop_flag();
    if (!rc)
        rc = record_start(o, operands[0], &c.sessions, all, &count, &err);
    if (rc)
        atomic_store(ea_stop_flag(), 1);
    wait_for_end(o, all, count);
    for (size_t i = 0; i < count; i++)
        if (all[i].source) {
            ea_live_get_status(all[i].source, &all[i].status);
            ea_source_close(all[i].source);
        }
    if (!rc)
        record_print(o, all, count);
    else if (rc != EA_EFORMAT) /* mistakes were already reported, each with its place */
        ea_err_print(stderr, "etwagent", &err);
    free(all);
    ea_config_destroy(memory);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_record = {
    .name = "record",
    .operands = "FILE.etl",
    .summary = "Record the sessions of a configuration to .etl files, until Ctrl-C",
    .details =
        "Windows itself writes the files: one session's is FILE.etl, several sessions' are FILE-NAME.etl. Existing "
        "files are\n"
        "kept as FILE.1.etl and so on, as keep-files says. Nothing is shipped, and the configuration needs no part "
        "\"shipping\".\n"
        "At the end it prints what Windows wrote and lost. A session that another program ends is started again and "
        "continues in\n"
        "FILE-2.etl, FILE-3.etl, and so on.\n"
        "JSON keys: session, file, written_buffers, buffer_bytes, lost_events, lost_buffers, ended_by_others.\n"
        "Exit codes: 0 recorded, 3 the configuration has mistakes, 2 it has no such session, 1 failed, or no Windows.",
    .options = (const ea_option[]){{.name = "config",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, config),
                                    .required = 1,
                                    .help = "the configuration or profile, YAML"},
                                   {.name = "session",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRINGS,
                                    .offset = offsetof(options, sessions),
                                    .help = "only this session; may be repeated; default: all"},
                                   {.name = "duration",
                                    .argument = "TIME",
                                    .type = EA_OPT_DURATION,
                                    .offset = offsetof(options, duration_ns),
                                    .max = INT64_C(31536000000000000),
                                    .help = "end after this time; default: at Ctrl-C"},
                                   {.name = "json",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, json),
                                    .help = "print a JSON array at the end"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = record_run,
    .min_operands = 1,
    .max_operands = 1,
};
