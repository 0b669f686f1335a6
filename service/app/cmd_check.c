/* etwagent check: reads a configuration file, says what is wrong with it or what it would do, and starts nothing.
 * Called by: main.c. Calls: config/. Thread: the main one. */
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"
#include "service/app/check_names.h"
#include "service/app/check_watches.h"
#include "service/core/agent_config.h"
#include "service/core/filter.h"
#include "service/core/labels.h"
#include "service/host/host.h"
#include "service/ship/tls_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    int json, example, reference;
} options;

static void check_print_line(void *arg, const char *line) {
    fprintf(arg, "%s\n", line);
}

static void print_json_line(void *arg, const char *line) {
    ea_text *t = arg;
    if (t->len_bytes)
        ea_text_str(t, ", ");
    ea_text_json_str(t, line);
}

/* Files that the configuration names and that cannot be read now: they may come later, so it is no mistake. */
static void look_at_file(const char *what, const char *path, ea_text *notes) {
    ea_file *f;
    ea_err err;
    if (!path)
        return;
    if (ea_file_open(&f, path, EA_OPEN_READ, &err)) {
        ea_text_printf(notes, "  note: %s ", what);
        ea_text_safe(notes, path, strlen(path));
        ea_text_str(notes, " cannot be read now\n");
        return;
    }
    ea_file_close(f);
}

/* The same of a certificate in a store, with its key. */
static void look_at_store(const char *place, ea_text *notes) {
    uint8_t *der;
    size_t len_bytes;
    ea_err err;
    if (ea_tls_store_certificate(place, &der, &len_bytes, &err)) {
        ea_text_str(notes, "  note: ");
        ea_text_safe(notes, err.message, strlen(err.message));
        ea_text_char(notes, '\n');
        return;
    }
    free(der);
}

static void note_left_out(const char *label, const char *variable) {
    fprintf(stderr, "etwagent: label %s would be left out here: there is no environment variable %s\n", label,
            variable);
}

static void describe_labels(const ea_labels *given, ea_text *t) {
    ea_arena arena;
    ea_labels labels;
    ea_err err;
    ea_arena_init(&arena, 0);
    if (ea_labels_resolve(&labels, given, &arena, note_left_out, &err))
        t->failed = 1;
    else
        for (size_t i = 0; i < labels.count; i++) {
            ea_text_printf(t, "labels this machine %s: ", labels.items[i].name);
            ea_text_safe(t, labels.items[i].value, strlen(labels.items[i].value));
            ea_text_char(t, '\n');
        }
    ea_arena_deinit(&arena);
}

/* ---- programs ---- */

static void describe_watches(const char *what, const char *name, const ea_tables *watches, ea_text *t) {
    for (size_t i = 0; i < watches->count; i++) {
        const ea_watch_config *w = (const ea_watch_config *)watches->items + i;
        ea_text_printf(t, "program %s of %s %s: tables watch_%s; the events on which it runs %s\n", w->name, what, name,
                       w->name, w->events == EA_WATCH_SHIP ? "travel, too" : "do not travel");
    }
}

/* ---- filters ---- */

static void check_put_note(void *arg, const char *text) {
    ea_text *t = arg;
    ea_text_str(t, "  note: ");
    ea_text_safe(t, text, strlen(text));
    ea_text_char(t, '\n');
}

static void check_put_part(ea_text *t, const char *name, const char *value) {
    if (!value)
        return;
    ea_text_printf(t, " %s ", name);
    ea_text_safe(t, value, strlen(value));
    ea_text_char(t, ';');
}

/* What becomes of the events of one session or source, and what a filter does not drop. */
static void describe_filters(const char *what, const char *name, const ea_tables *filters, const ea_agent_config *c,
                             ea_text *t) {
    ea_filter_problem problem;
    ea_event_filters *f = NULL;
    ea_schemas *schemas = NULL;
    ea_err err;
    for (size_t i = 0; i < filters->count; i++) {
        const ea_filter_config *one = (const ea_filter_config *)filters->items + i;
        ea_text_printf(t, "filters %s %s:", what, name);
        for (size_t k = 0; k < one->classes.count; k++) {
            ea_text_char(t, ' ');
            ea_text_safe(t, one->classes.items[k], strlen(one->classes.items[k]));
        }
        ea_text_char(t, ';');
        check_put_part(t, "where", one->where);
        check_put_part(t, "drop", one->drop);
        check_put_part(t, "repeat", one->repeat);
        check_put_part(t, "sample", one->sample);
        check_put_part(t, "limit", one->limit);
        for (size_t k = 0; k < one->redact.count; k++)
            check_put_part(t, one->redact_key ? "hash" : "redact", one->redact.items[k]);
        t->len_bytes--; /* the last semicolon */
        ea_text_char(t, '\n');
        look_at_file("redact-key", one->redact_key, t);
    }
    if (!filters->count)
        return;
    if (!ea_schema_options_read(&schemas, &c->schemas, &err) &&
        !ea_event_filters_create(&f, filters, schemas, 0, &problem, &err))
        ea_event_filters_each_note(f, check_put_note, t);
    ea_event_filters_destroy(f);
    ea_schemas_destroy(schemas);
}

static void check_describe_session(const ea_session_config *s, const ea_agent_config *c, ea_text *t) {
    ea_session_describe(s, t);
    describe_filters("session", s->name, &s->filters, c, t);
    describe_watches("session", s->name, &s->watches, t);
}

static void check_describe(const ea_agent_config *c, ea_text *t) {
    const ea_shipping_options *s = &c->shipping;
    for (size_t i = 0; i < s->collectors.count; i++) {
        ea_text_str(t, i ? "when that fails, to " : "ships to ");
        ea_text_safe(t, s->collectors.items[i], strlen(s->collectors.items[i]));
        ea_text_char(t, '\n');
    }
    if (s->collectors.count)
        ea_text_printf(t, "keeps at most %.0f MiB of batches on disk until they are acknowledged\n",
                       (double)s->spool_bytes / 1048576.0);
    if (s->collectors.count && s->spool_age_ns)
        ea_text_printf(t, "drops batches of sessions that have waited there for %.10g s%s\n",
                       (double)s->spool_age_ns / 1e9,
                       c->sources.count ? "; batches of file sources wait however old they are" : "");
    if (!s->collectors.count)
        ea_text_str(t, "ships nothing: there is no part \"shipping\" with a collector\n");
    describe_labels(&c->labels, t);
    for (size_t i = 0; i < c->sources.count; i++) {
        const ea_file_source_config *f = (const ea_file_source_config *)c->sources.items + i;
        const ea_strings *all = f->channels.count ? &f->channels : &f->files;
        ea_text_printf(t, "reads source %s:%s", f->name, f->channels.count ? " event log" : "");
        for (size_t k = 0; k < all->count; k++) {
            ea_text_str(t, f->channels.count && k ? ", " : " ");
            ea_text_safe(t, all->items[k], strlen(all->items[k]));
        }
        if (f->channels.count) {
            if (f->query) {
                ea_text_str(t, "; query ");
                ea_text_safe(t, f->query, strlen(f->query));
            }
            ea_text_printf(t, "; after the last record that was read before, at first from the %s on\n",
                           f->begin ? "oldest one" : "next one");
        } else if (f->speed)
            ea_text_printf(t, " at %" PRIu64 " times real time\n", f->speed);
        else
            ea_text_str(t, " as fast as it goes\n");
        describe_filters("source", f->name, &f->filters, c, t);
        describe_watches("source", f->name, &f->watches, t);
    }
    if (c->sessions.count)
        ea_text_printf(t, "runs %zu ETW session%s:\n", c->sessions.count, c->sessions.count == 1 ? "" : "s");
    for (size_t i = 0; i < c->sessions.count; i++)
        check_describe_session((const ea_session_config *)c->sessions.items + i, c, t);
    if (!c->sources.count && !c->sessions.count)
        ea_text_str(t, "reads nothing: there are no sources and no sessions\n");
    if (ea_store_is_place(s->cert)) {
        look_at_store(s->cert, t);
    } else {
        look_at_file("certificate", s->cert, t);
        look_at_file("key", s->key, t);
    }
    if (!ea_store_is_place(s->ca))
        look_at_file("CA", s->ca, t);
    for (size_t i = 0; i < c->sources.count; i++) {
        const ea_file_source_config *f = (const ea_file_source_config *)c->sources.items + i;
        for (size_t k = 0; k < f->files.count; k++)
            look_at_file("trace", f->files.items[k], t);
    }
}

static int check_put(const ea_text *t, ea_err *err) {
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "print");
    if (fwrite(t->data, 1, t->len_bytes, stdout) != t->len_bytes || fflush(stdout))
        return ea_fail(err, EA_EIO, "write to standard output");
    return 0;
}

static int check_configuration_file(const options *o, const char *path, ea_text *t, ea_err *err) {
    ea_agent_config c = {0};
    ea_config *config;
    ea_text problems;
    ea_text_init(&problems);
    int rc = ea_config_read(&config, path, &ea_agent_table, &c, o->json ? print_json_line : check_print_line,
                            o->json ? (void *)&problems : (void *)stderr, err);
    int wrong = rc == EA_EFORMAT, is_read = !rc;
    if (o->json && (!rc || wrong)) {
        ea_text_printf(t, "{\"valid\": %s, \"problems\": [%s]", rc ? "false" : "true",
                       problems.len_bytes ? problems.data : "");
        ea_text_printf(t, ", \"collectors\": %zu, \"sources\": %zu, \"sessions\": %zu}\n",
                       wrong ? 0 : c.shipping.collectors.count, wrong ? 0 : c.sources.count,
                       wrong ? 0 : c.sessions.count);
    } else if (!rc) {
        check_describe(&c, t);
        rc = ea_check_names(&c, t, err);
        if (!rc)
            rc = ea_check_watches(&c, t, err);
    }
    ea_text_deinit(&problems);
    if (is_read)
        ea_config_destroy(config);
    return rc;
}

static int check_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0}, later;
    ea_text t;
    int rc = 0, wrong = 0;
    ea_text_init(&t);
    if (o->example || o->reference) {
        if (operand_count || (o->example && o->reference))
            rc = ea_fail(&err, EA_EUSAGE, "--example and --reference go alone");
        else if (o->example)
            ea_config_example(&ea_agent_table, &t);
        else
            ea_config_reference(&ea_agent_table, "Options of etwagent's configuration file", &t);
    } else if (!operand_count) {
        rc = ea_fail(&err, EA_EUSAGE, "expected FILE");
    } else {
        rc = check_configuration_file(o, operands[0], &t, &err);
        wrong = rc == EA_EFORMAT; /* its mistakes were printed */
    }
    if ((!rc || wrong) && t.len_bytes) {
        int printed = check_put(&t, &later);
        if (printed) {
            rc = printed;
            err = later;
            wrong = 0;
        }
    }
    ea_text_deinit(&t);
    if (rc && !wrong)
        ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print one JSON object"},
    {.name = "example",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, example),
     .help = "print a commented example of a configuration file instead"},
    {.name = "reference",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, reference),
     .help = "print the reference page of all options, in Markdown, instead"},
    {.name = NULL},
};

const ea_command ea_cmd_check = {
    .name = "check",
    .operands = "[FILE]",
    .summary = "Check a configuration file and print what it does",
    .details = "Nothing is started, and no network is used. Each mistake is one line, FILE:LINE:COLUMN: the mistake;\n"
               "at most 20 lines. Names of providers, keywords and events that the catalogue does not have are notes, "
               "and so is what a program under watch needs and its session lacks. "
               "Exit codes: 0 the file is valid, 3 it is not, 2 usage, 1 it cannot be read.\n"
               "\n"
               "JSON keys: valid, problems [text], collectors, sources, sessions (counts).",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = check_run,
    .min_operands = 0,
    .max_operands = 1,
};
