/* etwagent emit, etwagent mark: events that a user or a script writes to ETW, beside those of programs. Called by:
 * main.c. Calls: proto/relog/own_events.h, service/etw/emitter.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/relog/own_events.h"
#include "service/app/agent_commands.h"
#include "service/core/schema_options.h"
#include "service/etw/emitter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 28, LINE_MAX_BYTES = 1 << 20 };

typedef struct emit_options {
    const char *provider, *name, *id, *version, *events, *level, *opcode, *keyword;
    ea_strings fields;
    ea_schema_options schemas;
    int json;
} emit_options;

typedef struct emit_job {
    ea_own_events *events;
    ea_emitter *emitter;
    ea_schemas *schemas;
    ea_registry *registry;     /* of them */
    uint64_t written, unheard; /* unheard: of those that were written */
    ea_err err;
} emit_job;

static int emit_open(emit_job *j) {
    int rc = ea_own_events_create(&j->events, 1, &j->err);
    return rc ? rc : ea_emitter_create(&j->emitter, &j->err);
}

/* What manifests describe. */
static int emit_read_schemas(emit_job *j, const emit_options *o) {
    int rc = ea_schema_options_read(&j->schemas, &o->schemas, &j->err);
    if (!rc)
        rc = ea_registry_create(&j->registry, 0, &j->err);
    if (!rc) {
        ea_registry_set_schemas(j->registry, j->schemas);
        ea_own_events_describe(j->events, j->registry);
    }
    return rc;
}

/* Writes the events that were read, and forgets them. */
static int emit_write(emit_job *j) {
    size_t count;
    const ea_own_event *items = ea_own_events_items(j->events, &count);
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        int heard = 0;
        rc = ea_emitter_write(j->emitter, &items[i].record, &heard, &j->err);
        j->written += !rc;
        j->unheard += !rc && !heard;
    }
    ea_own_events_clear(j->events);
    return rc;
}

/* A mistake in an event that the command line has is one of usage. */
static int emit_usage(emit_job *j, int rc) {
    if (rc == EA_EINVAL)
        j->err.code = rc = EA_EUSAGE;
    return rc;
}

static int emit_end(emit_job *j, int rc, int json) {
    if (rc)
        ea_err_print(stderr, "etwagent", &j->err);
    if (json && rc != EA_EUSAGE)
        printf("{\"written\":%" PRIu64 ",\"unheard\":%" PRIu64 "}\n", j->written, j->unheard);
    else if (!rc || j->written)
        printf("%" PRIu64 " events written; no session wanted %" PRIu64 " of them\n", j->written, j->unheard);
    ea_emitter_destroy(j->emitter);
    ea_own_events_destroy(j->events);
    ea_registry_destroy(j->registry);
    ea_schemas_destroy(j->schemas);
    return ea_exit_code(rc);
}

/* ---- an event out of arguments ---- */

/* The place after the digits at *at; NULL: there are none. */
static const char *emit_skip_digits(const char *at) {
    size_t n = strspn(at, "0123456789");
    return n ? at + n : NULL;
}

/* Whether a value stands for itself in JSON: a number, true or false. A date, an address and a version do not. */
static int emit_is_word(const char *value) {
    const char *digits = value + (*value == '-'), *at = emit_skip_digits(digits);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        return 1;
    if (!at || (digits[0] == '0' && at > digits + 1))
        return 0;
    if (*at == '.' && !(at = emit_skip_digits(at + 1)))
        return 0;
    if (*at == 'e' || *at == 'E')
        at = emit_skip_digits(at + 1 + (at[1] == '+' || at[1] == '-'));
    return at && !*at;
}

/* NAME=VALUE; a value in quotes is a text whatever it is. */
static int emit_add_field(emit_job *j, ea_text *t, const char *field, const char *separator) {
    const char *equals = strchr(field, '=');
    if (!equals || equals == field)
        return ea_fail(&j->err, EA_EUSAGE, "--field %.100s: expected NAME=VALUE", field);
    const char *value = equals + 1;
    size_t n = strlen(value);
    int is_quoted = n > 1 && value[0] == '"' && value[n - 1] == '"';
    ea_text text;
    ea_text_init(&text);
    ea_text_add(&text, field, (size_t)(equals - field));
    ea_text_char(&text, 0);
    ea_text_str(t, separator);
    ea_text_json_str(t, text.failed ? "" : text.data);
    ea_text_char(t, ':');
    ea_text_clear(&text);
    ea_text_add(&text, value + is_quoted, n - 2 * (size_t)is_quoted);
    ea_text_char(&text, 0);
    if (!is_quoted && emit_is_word(value))
        ea_text_str(t, value);
    else
        ea_text_json_str(t, text.failed ? "" : text.data);
    int failed = text.failed;
    ea_text_deinit(&text);
    return failed ? ea_fail(&j->err, EA_ENOMEM, "emit") : 0;
}

static void emit_add_member(ea_text *t, const char *key, const char *value) {
    if (!value)
        return;
    ea_text_printf(t, ",\"%s\":", key);
    ea_text_json_str(t, value);
}

static int emit_read_arguments(emit_job *j, const emit_options *o) {
    ea_text t;
    int rc = 0;
    ea_text_init(&t);
    ea_text_str(&t, "{\"provider\":");
    ea_text_json_str(&t, o->provider);
    emit_add_member(&t, "name", o->name);
    emit_add_member(&t, "id", o->id);
    emit_add_member(&t, "version", o->version);
    emit_add_member(&t, "level", o->level);
    emit_add_member(&t, "opcode", o->opcode);
    emit_add_member(&t, "keyword", o->keyword);
    ea_text_str(&t, ",\"fields\":{");
    for (size_t i = 0; !rc && i < o->fields.count; i++)
        rc = emit_add_field(j, &t, o->fields.items[i], i ? "," : "");
    ea_text_str(&t, "}}");
    if (!rc && t.failed)
        rc = ea_fail(&j->err, EA_ENOMEM, "emit");
    if (!rc)
        rc = emit_usage(j, ea_own_events_read(j->events, "the arguments", t.data, t.len_bytes, &j->err));
    ea_text_deinit(&t);
    return rc;
}

/* ---- events out of JSON lines ---- */

/* Each line is written before the next one is waited for. */
static int emit_standard_input(emit_job *j) {
    ea_text line;
    int rc = 0, c = 0;
    ea_text_init(&line);
    while (!rc && c != EOF) {
        ea_text_clear(&line);
        while ((c = getc(stdin)) != EOF && c != '\n' && line.len_bytes < LINE_MAX_BYTES && !line.failed)
            ea_text_char(&line, (char)c);
        if (line.failed)
            rc = ea_fail(&j->err, EA_ENOMEM, "emit");
        else if (line.len_bytes == LINE_MAX_BYTES)
            rc = ea_fail(&j->err, EA_ELIMIT, "a line of standard input has more than 1 MiB");
        else if (c != EOF || line.len_bytes) {
            ea_text_char(&line, '\n');
            rc = line.failed ? ea_fail(&j->err, EA_ENOMEM, "emit")
                             : ea_own_events_read(j->events, "standard input", line.data, line.len_bytes, &j->err);
        }
        if (!rc)
            rc = emit_write(j);
    }
    ea_text_deinit(&line);
    return rc;
}

static int emit_file(emit_job *j, const char *path) {
    char *text = NULL;
    size_t len_bytes;
    int rc = ea_path_read_all(path, FILE_MAX_BYTES, &text, &len_bytes, &j->err);
    if (!rc)
        rc = ea_own_events_read(j->events, path, text, len_bytes, &j->err);
    free(text);
    return rc ? rc : emit_write(j);
}

static int emit_run(const void *arg, int operand_count, char **operands) {
    const emit_options *o = arg;
    emit_job j = {.events = NULL};
    int has_arguments =
            o->provider || o->name || o->id || o->version || o->level || o->opcode || o->keyword || o->fields.count,
        rc = 0;
    (void)operand_count, (void)operands;
    if (!o->events == !has_arguments || (has_arguments && (!o->provider || !o->name == !o->id)))
        rc = ea_fail(&j.err, EA_EUSAGE, "expected --provider and --name or --id, or --events");
    if (!rc)
        rc = emit_open(&j);
    if (!rc)
        rc = emit_read_schemas(&j, o);
    if (!rc && o->events)
        rc = strcmp(o->events, "-") == 0 ? emit_standard_input(&j) : emit_file(&j, o->events);
    else if (!rc && !(rc = emit_read_arguments(&j, o)))
        rc = emit_write(&j);
    return emit_end(&j, rc, o->json);
}

const ea_command ea_cmd_emit = {
    .name = "emit",
    .operands = "",
    .summary = "Write events of your own to the ETW sessions that run",
    .details =
        "An event is a TraceLogging event: it has its schema with it, so that every reader decodes it. A session gets "
        "it that has\n"
        "enabled the provider: provider '*Contoso-Build' in a configuration, or record and trace with "
        "--provider '*Contoso-Build'.\n"
        "JSON lines have the keys of relog --events, without time, pid, tid and cpu, which Windows sets; lines of "
        "standard input (-)\n"
        "are written as they come. The first wrong line ends the run; the events of a file are all read first.\n"
        "With an id the event is one that a manifest describes (--manifest, or the catalogue): it has all fields of "
        "the "
        "manifest's event, and\n"
        "level, opcode and keywords as far as they are winmeta's or keywords; task and channel in its header are 0. "
        "Arrays and structures\n"
        "cannot be given.\n"
        "JSON keys: written, unheard (of these, those that no session wanted).\n"
        "Exit codes: 0 written, 1 failed, a wrong line, or no Windows, 2 usage.\n"
        "Example: etwagent emit --provider Contoso-Build --name Step --field file=a.c --field ms=12.5",
    .options = (const ea_option[]){{.name = "provider",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, provider),
                                    .help = "of the event: a name, which gives the GUID as EventSource makes it, or a "
                                            "GUID"},
                                   {.name = "name",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, name),
                                    .help = "of the event"},
                                   {.name = "id",
                                    .argument = "N",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, id),
                                    .help = "in place of --name: the event of that id that a manifest describes"},
                                   {.name = "version",
                                    .argument = "N",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, version),
                                    .help = "of the event with an id; 0 when absent"},
                                   {.name = "field",
                                    .argument = "NAME=VALUE",
                                    .type = EA_OPT_STRINGS,
                                    .offset = offsetof(emit_options, fields),
                                    .help = "a field; a whole number, a fraction, true or false has that type, "
                                            "anything else, and what is in quotes, is a text; may be repeated"},
                                   {.name = "level",
                                    .argument = "N",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, level),
                                    .help = "of the event; 4 (information) when absent"},
                                   {.name = "opcode",
                                    .argument = "N",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, opcode),
                                    .help = "of the event; 1 begins, 2 ends an activity; 0 when absent"},
                                   {.name = "keyword",
                                    .argument = "N",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, keyword),
                                    .help = "of the event, as in 0x10; 0 when absent"},
                                   {.name = "events",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(emit_options, events),
                                    .help = "write the events of this file of JSON lines; -: of standard input"},
                                   EA_SCHEMA_OPTIONS(offsetof(emit_options, schemas)),
                                   {.name = "json",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(emit_options, json),
                                    .help = "print one JSON object"},
                                   {.name = NULL}},
    .options_size = sizeof(emit_options),
    .run = emit_run,
    .min_operands = 0,
    .max_operands = 0,
};

/* ---- a mark ---- */

typedef struct mark_options {
    int json;
} mark_options;

static int mark_run(const void *arg, int operand_count, char **operands) {
    emit_job j = {.events = NULL};
    (void)operand_count;
    int rc = emit_open(&j);
    if (!rc)
        rc = emit_usage(&j, ea_own_events_mark(j.events, NULL, operands[0], &j.err));
    if (!rc)
        rc = emit_write(&j);
    return emit_end(&j, rc, ((const mark_options *)arg)->json);
}

const ea_command ea_cmd_mark = {
    .name = "mark",
    .operands = "TEXT",
    .summary = "Write a mark with a text to the ETW sessions that run",
    .details = "The mark is the event Mark of the provider Etwagent-Marks, with the field Text, as relog --mark adds "
               "it. trace records\n"
               "marks of all processes; another session gets them with the provider '*Etwagent-Marks'.\n"
               "JSON keys: written, unheard (of these, those that no session wanted).\n"
               "Exit codes: 0 written, 1 failed, or no Windows, 2 usage.\n"
               "Example: etwagent mark \"the user presses Save\"",
    .options = (const ea_option[]){{.name = "json",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(mark_options, json),
                                    .help = "print one JSON object"},
                                   {.name = NULL}},
    .options_size = sizeof(mark_options),
    .run = mark_run,
    .min_operands = 1,
    .max_operands = 1,
};
