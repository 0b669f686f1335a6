/* etwagent session start, stop, flush, show, enable, disable: one ETW session, by its name in Windows; etwagent
 * counters: what the machine can count. No program of ours watches what is started here. Called by: main.c. Calls:
 * service/etw/control.h. Thread: the main one. */
#include "service/app/agent_commands.h"
#include "service/app/session_text.h"
#include "service/core/agent_config.h"
#include "service/etw/control.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char JSON_HELP[] = "print JSON";

static void print_note(void *arg, const char *text) {
    (void)arg;
    fprintf(stderr, "etwagent: %s\n", text);
}

/* Writes what was gathered, or the error; returns the exit code. */
static int session_end(ea_text *t, int rc, ea_err *err) {
    if (!rc && t->failed)
        rc = ea_fail(err, EA_ENOMEM, "print a session");
    if (!rc && t->len_bytes && fwrite(t->data, 1, t->len_bytes, stdout) != t->len_bytes)
        rc = ea_fail(err, EA_EIO, "write to standard output");
    if (rc && rc != EA_EFORMAT) /* mistakes of a configuration were printed, each with its place */
        ea_err_print(stderr, "etwagent", err);
    ea_text_deinit(t);
    return ea_exit_code(rc);
}

static void session_add_session(ea_text *t, const ea_live_status *s, int json) {
    if (json)
        ea_text_char(t, '{'), ea_session_text_json(t, s), ea_text_str(t, "}\n");
    else
        ea_session_text_line(t, s);
}

/* ---- start ---- */

typedef struct start_options {
    const char *config, *file;
    int json;
} start_options;

static void session_print_problem(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

static int session_choose(const ea_tables *sessions, const char *config, const char *name,
                          const ea_session_config **ret, ea_err *err) {
    const ea_session_config *all = sessions->items;
    for (size_t i = 0; i < sessions->count; i++)
        if (name ? strcmp(all[i].name, name) == 0 : sessions->count == 1) {
            *ret = &all[i];
            return 0;
        }
    return name ? ea_fail(err, EA_EUSAGE, "%s: it has no session %.64s", config, name)
                : ea_fail(err, EA_EUSAGE, "%s: it has %zu sessions: give the NAME of one", config, sessions->count);
}

static int session_run_start(const void *arg, int operand_count, char **operands) {
    const start_options *o = arg;
    ea_agent_config c = {0};
    ea_config *memory = NULL;
    const ea_session_config *given = NULL;
    ea_live_status status;
    ea_err err = {0};
    ea_text t;
    ea_text_init(&t);
    int rc = ea_config_read(&memory, o->config, &ea_agent_table, &c, session_print_problem, NULL, &err);
    if (!rc)
        rc = session_choose(&c.sessions, o->config, operand_count ? operands[0] : NULL, &given, &err);
    if (!rc) {
        ea_session_config session = *given;
        if (o->file) {
            session.output = EA_OUTPUT_FILE;
            session.file = o->file;
        }
        rc = ea_control_start(&session, print_note, NULL, &status, &err);
    }
    if (!rc)
        session_add_session(&t, &status, o->json);
    ea_config_destroy(memory);
    return session_end(&t, rc, &err);
}

const ea_command ea_cmd_session_start = {
    .name = "session start",
    .operands = "[NAME]",
    .summary = "Start a session of a configuration and leave it running",
    .details =
        "NAME is the session's in the configuration; without NAME the configuration has one session. In Windows its "
        "name is\n"
        "etwagent-NAME, or the NT Kernel Logger's. Windows writes its events to a file until \"session stop\", or "
        "until\n"
        "Windows ends; nothing restarts it, and no program gives it more buffers when it loses events. It has\n"
        "max-buffers from its start. \"etwagent import\" writes a configuration from a command line of logman, xperf "
        "or "
        "PerfView.\n"
        "JSON keys: " EA_SESSION_TEXT_KEYS ".\n"
        "Exit codes: 0 it runs, 3 the configuration has mistakes, 2 it has no such session or the session has no file, "
        "1 failed,\n"
        "or no Windows.",
    .options =
        (const ea_option[]){
            {.name = "config",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(start_options, config),
             .required = 1,
             .help = "the configuration or profile, YAML"},
            {.name = "file",
             .argument = "FILE.etl",
             .type = EA_OPT_STRING,
             .offset = offsetof(start_options, file),
             .help = "where Windows writes the events; default: the session's file"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(start_options, json), .help = JSON_HELP},
            {.name = NULL}},
    .options_size = sizeof(start_options),
    .run = session_run_start,
    .max_operands = 1,
};

/* ---- stop, flush ---- */

typedef struct json_options {
    int json;
} json_options;

static const ea_option JSON_OPTIONS[] = {
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(json_options, json), .help = JSON_HELP}, {.name = NULL}};

typedef int (*control)(const char *name, ea_live_status *ret, ea_err *err);

static int run_control(const void *arg, const char *name, control fn) {
    const json_options *o = arg;
    ea_live_status s;
    ea_err err = {0};
    ea_text t;
    ea_text_init(&t);
    int rc = fn(name, &s, &err);
    if (!rc)
        session_add_session(&t, &s, o->json);
    return session_end(&t, rc, &err);
}

static int session_run_stop(const void *arg, int operand_count, char **operands) {
    (void)operand_count;
    return run_control(arg, operands[0], ea_control_stop);
}

static int session_run_flush(const void *arg, int operand_count, char **operands) {
    (void)operand_count;
    return run_control(arg, operands[0], ea_control_flush);
}

const ea_command ea_cmd_session_stop = {
    .name = "session stop",
    .operands = "NAME",
    .summary = "Stop an ETW session, also of another program",
    .details = "NAME is the name in Windows, as \"sessions --all\" prints it. It prints the session's last numbers. A "
               "session of a\n"
               "running agent is started again by the agent.\n"
               "JSON keys: " EA_SESSION_TEXT_KEYS ".\n"
               "Exit codes: 0 stopped, 1 no such session, failed, or no Windows.",
    .options = JSON_OPTIONS,
    .options_size = sizeof(json_options),
    .run = session_run_stop,
    .min_operands = 1,
    .max_operands = 1,
};

const ea_command ea_cmd_session_flush = {
    .name = "session flush",
    .operands = "NAME",
    .summary = "Have Windows deliver the buffers of an ETW session that are not full yet",
    .details = "JSON keys: " EA_SESSION_TEXT_KEYS ".\n"
               "Exit codes: 0 flushed, 1 no such session, failed, or no Windows.",
    .options = JSON_OPTIONS,
    .options_size = sizeof(json_options),
    .run = session_run_flush,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- show ---- */

typedef struct showing {
    int json;
    size_t count;
    ea_text *text;
} showing;

static int session_add_provider(const ea_control_provider *p, void *arg) {
    showing *s = arg;
    char guid[37];
    ea_guid_format(&p->guid, guid);
    ea_text_printf(s->text,
                   s->json ? "%s{\"provider\": \"%s\", \"level\": %u, \"any\": \"0x%" PRIx64 "\", \"all\": \"0x%" PRIx64
                             "\", \"properties\": \"0x%" PRIx32 "\"}"
                           : "%s  provider %s: level %u, keywords any 0x%" PRIx64 " all 0x%" PRIx64
                             ", properties 0x%" PRIx32 "\n",
                   s->json && s->count ? ", " : "", guid, p->level, p->any, p->all, p->properties);
    s->count++;
    return 0;
}

static int session_run_show(const void *arg, int operand_count, char **operands) {
    const json_options *o = arg;
    ea_live_status status;
    ea_err err = {0};
    ea_text t;
    (void)operand_count;
    ea_text_init(&t);
    int rc = ea_control_query(operands[0], &status, &err);
    if (!rc && o->json) {
        ea_text_char(&t, '{');
        ea_session_text_json(&t, &status);
        ea_text_str(&t, ", \"providers\": [");
    } else if (!rc) {
        ea_session_text_line(&t, &status);
    }
    if (!rc)
        rc = ea_control_providers(&status, session_add_provider, &(showing){.json = o->json, .text = &t}, &err);
    if (o->json)
        ea_text_str(&t, "]}\n");
    return session_end(&t, rc, &err);
}

const ea_command ea_cmd_session_show = {
    .name = "session show",
    .operands = "NAME",
    .summary = "Print an ETW session, also of another program, with its providers",
    .details = "NAME is the name in Windows, as \"sessions --all\" prints it.\n"
               "JSON keys: " EA_SESSION_TEXT_KEYS ",\n"
               "providers: [provider, level, any, all (keywords), properties (EVENT_ENABLE_PROPERTY_*)].\n"
               "Exit codes: 0 printed, 1 no such session, failed, or no Windows.",
    .options = JSON_OPTIONS,
    .options_size = sizeof(json_options),
    .run = session_run_show,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- enable, disable ---- */

typedef struct enable_options {
    ea_provider_config provider;
} enable_options;

static int run_enable(const void *arg, int operand_count, char **operands) {
    const enable_options *o = arg;
    ea_provider_config p = o->provider;
    const char *key = NULL;
    ea_err err = {0};
    ea_text t;
    (void)operand_count;
    ea_text_init(&t);
    p.provider = operands[1];
    int rc = ea_provider_table.check(&p, &key, &err);
    if (rc) { /* the options are wrong, not a file */
        fprintf(stderr, "etwagent: %s: %s\n", key ? key : "provider", err.message);
        return ea_exit_code(EA_EUSAGE);
    }
    rc = ea_control_enable(operands[0], &p, print_note, NULL, &err);
    return session_end(&t, rc, &err);
}

#define AT(field) .offset = offsetof(enable_options, provider.field)
const ea_command ea_cmd_session_enable = {
    .name = "session enable",
    .operands = "NAME PROVIDER",
    .summary = "Enable a provider in an ETW session that runs, or change its level and keywords",
    .details =
        "NAME is the name in Windows, as \"sessions --all\" prints it; PROVIDER a name, a GUID, or *NAME for the "
        "GUID that\n"
        "EventSource and TraceLogging make of NAME. The agent's configuration does not change; a session that "
        "the agent\n"
        "starts again has its configured providers.\n"
        "Exit codes: 0 enabled, 2 wrong options, 1 no such session, refused, or no Windows.",
    .options =
        (const ea_option[]){
            {.name = "level",
             .argument = "LEVEL",
             .type = EA_OPT_STRING,
             AT(level),
             .fallback = "verbose",
             .help = "events up to this level: critical, error, warning, information, verbose, or 0 to 255"},
            {.name = "any",
             .argument = "KEYWORDS",
             .type = EA_OPT_STRING,
             AT(any),
             .help = "events with one of these keywords: a mask, or names joined by +; default: all events"},
            {.name = "all",
             .argument = "KEYWORDS",
             .type = EA_OPT_STRING,
             AT(all),
             .help = "only events with all of these keywords"},
            {.name = "event-ids",
             .argument = "IDS",
             .type = EA_OPT_STRINGS,
             AT(event_ids),
             .help = "only these events: 7 or 10-19; may be repeated"},
            {.name = "pids",
             .argument = "PID",
             .type = EA_OPT_STRINGS,
             AT(pids),
             .help = "only events of this process; may be repeated"},
            {.name = "stacks", .type = EA_OPT_FLAG, AT(stacks), .help = "each event has its call stack"},
            {.name = "capture-state",
             .type = EA_OPT_FLAG,
             AT(capture_state),
             .help = "ask the provider to log its state"},
            {.name = NULL}},
    .options_size = sizeof(enable_options),
    .run = run_enable,
    .min_operands = 2,
    .max_operands = 2,
};
#undef AT

static int run_disable(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    ea_text t;
    (void)arg, (void)operand_count;
    ea_text_init(&t);
    return session_end(&t, ea_control_disable(operands[0], operands[1], &err), &err);
}

const ea_command ea_cmd_session_disable = {
    .name = "session disable",
    .operands = "NAME PROVIDER",
    .summary = "Disable a provider in an ETW session that runs",
    .details = "Exit codes: 0 disabled, 1 no such session or provider, refused, or no Windows.",
    .options = (const ea_option[]){{.name = NULL}},
    .options_size = 1,
    .run = run_disable,
    .min_operands = 2,
    .max_operands = 2,
};

/* ---- counters ---- */

static int session_add_counter(const ea_control_counter *c, void *arg) {
    showing *s = arg;
    if (s->json) {
        ea_text_str(s->text, s->count ? ",\n {\"name\": " : "[{\"name\": ");
        ea_text_json_str(s->text, c->name);
        ea_text_printf(s->text,
                       ", \"source\": %" PRIu32 ", \"min\": %" PRIu32 ", \"max\": %" PRIu32 ", \"interval\": %" PRIu32
                       "}",
                       c->source, c->least, c->most, c->interval);
    } else {
        ea_text_safe(s->text, c->name, strlen(c->name));
        ea_text_printf(s->text, ": source %" PRIu32 ", sampled every %" PRIu32 " to %" PRIu32, c->source, c->least,
                       c->most);
        if (c->interval)
            ea_text_printf(s->text, ", now %" PRIu32, c->interval);
        ea_text_char(s->text, '\n');
    }
    s->count++;
    return 0;
}

static int run_counters(const void *arg, int operand_count, char **operands) {
    const json_options *o = arg;
    ea_err err = {0};
    uint32_t at_once = 0;
    ea_text t;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    showing s = {.json = o->json, .text = &t};
    int rc = ea_control_counters(session_add_counter, &s, &at_once, &err);
    if (o->json)
        ea_text_str(&t, s.count ? "]\n" : "[]\n");
    else if (at_once)
        ea_text_printf(&t, "counted at a time: at most %" PRIu32 "\n", at_once);
    return session_end(&t, rc, &err);
}

const ea_command ea_cmd_counters = {
    .name = "counters",
    .operands = "",
    .summary = "List the machine's hardware counters, with the bounds of their sampling intervals",
    .details =
        "Their names are those that \"pmc-samples\" and \"pmc-counters\" of a configuration take. Intervals are events "
        "a sample;\n"
        "of the source Timer they are units of 100 ns.\n"
        "JSON keys: name, source (its number), min, max, interval (as it is set now; 0: Windows does not say).\n"
        "Exit codes: 0 listed, 1 failed, the machine has none, or no Windows.",
    .options = JSON_OPTIONS,
    .options_size = sizeof(json_options),
    .run = run_counters,
};
