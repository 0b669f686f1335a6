/* etwagent dump: every event as text, JSON lines or CSV, in canonical order.
 * Before it: main.c. After it: proto/etl, proto/event (rendering). Thread: the main one. */
#include "commands.h"
#include "input.h"
#include "map.h"
#include "render.h"

#include <stdlib.h>

enum format { FORMAT_TEXT, FORMAT_JSONL, FORMAT_CSV };
static const char *const FORMATS[] = {"text", "jsonl", "csv", NULL};

typedef struct options {
    int format;
    ea_strings fields, classes, pids;
    const char *from, *to;
    int raw, strict;
} options;

enum { MAX_COLUMNS = 256, FLUSH_BYTES = 1 << 18 };

typedef struct dump {
    const options *options;
    const char *columns[MAX_COLUMNS];
    size_t column_count;
    char *column_text; /* what columns point into */
    uint64_t pids[EA_STRINGS_MAX];
    int64_t from_utc_ns, to_utc_ns; /* [from, to) */
    ea_u64_map wanted_classes;      /* address of a class -> 1 when its name is asked for */
    ea_text out;
} dump;

static int parse_columns(dump *d, ea_err *err) {
    static const char *const standard[] = {"time", "provider_name", "name", "cpu", "pid", "tid", "fields"};
    const ea_strings *given = &d->options->fields;
    if (!given->count && d->options->format == FORMAT_CSV) {
        for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
            d->columns[d->column_count++] = standard[i];
        return 0;
    }
    ea_text all;
    ea_text_init(&all);
    for (size_t i = 0; i < given->count; i++) {
        ea_text_str(&all, given->items[i]);
        ea_text_char(&all, ',');
    }
    if (all.failed) {
        ea_text_deinit(&all);
        return ea_fail(err, EA_ENOMEM, "read --fields");
    }
    d->column_text = all.data;
    for (char *at = all.data; at && *at;) {
        size_t len = strcspn(at, ",");
        at[len] = 0;
        if (len && d->column_count == MAX_COLUMNS)
            return ea_fail(err, EA_EUSAGE, "--fields: at most %d columns", MAX_COLUMNS);
        if (len)
            d->columns[d->column_count++] = at;
        at += len + 1;
    }
    return 0;
}

static int parse(dump *d, ea_err *err) {
    const options *o = d->options;
    d->from_utc_ns = INT64_MIN;
    d->to_utc_ns = INT64_MAX;
    int rc = parse_columns(d, err);
    if (!rc && o->raw && (o->format != FORMAT_JSONL || d->column_count))
        rc = ea_fail(err, EA_EUSAGE, "--raw is for --format jsonl without --fields");
    for (size_t i = 0; !rc && i < o->pids.count; i++)
        if (ea_u64_parse(o->pids.items[i], &d->pids[i]))
            rc = ea_fail(err, EA_EUSAGE, "--pid '%s': expected a whole number", o->pids.items[i]);
    if (!rc && o->from && ea_utc_ns_parse(o->from, &d->from_utc_ns))
        rc = ea_fail(err, EA_EUSAGE, "--from '%s': expected a time such as 2024-01-31T12:00:00Z", o->from);
    if (!rc && o->to && ea_utc_ns_parse(o->to, &d->to_utc_ns))
        rc = ea_fail(err, EA_EUSAGE, "--to '%s': expected a time such as 2024-01-31T12:00:00Z", o->to);
    return rc;
}

static int lower(int c) {
    return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
}

/* name, in any case; a * at the pattern's end stands for anything. */
static int name_matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (pattern[0] == '*' && !pattern[1])
            return 1;
        if (lower((unsigned char)*pattern) != lower((unsigned char)*name))
            return 0;
    }
    return !*name;
}

static int class_wanted(dump *d, const ea_class *c) {
    const ea_strings *classes = &d->options->classes;
    if (!classes->count)
        return 1;
    uint64_t *known = ea_u64_map_get(&d->wanted_classes, (uintptr_t)c);
    if (known)
        return (int)*known;
    uint64_t wanted = 0;
    for (size_t i = 0; i < classes->count && !wanted; i++)
        wanted = (uint64_t)name_matches(classes->items[i], c->name);
    /* without memory the question is asked again for each event, with the same answer */
    (void)!ea_u64_map_put(&d->wanted_classes, (uintptr_t)c, wanted);
    return (int)wanted;
}

/* The pid in the event's header, or in a field that says whose process the event is about. */
static int pid_wanted(const dump *d, const ea_record *r, const ea_class *c) {
    size_t n = d->options->pids.count;
    for (size_t i = 0; i < n; i++)
        if (d->pids[i] == r->pid)
            return 1;
    for (size_t f = 0; n && f < c->field_count; f += c->fields[f].span) {
        uint64_t pid;
        if (c->fields[f].semantic != EA_SEM_PID || !ea_event_u64(c, r, c->fields[f].name, &pid))
            continue;
        for (size_t i = 0; i < n; i++)
            if (d->pids[i] == pid)
                return 1;
    }
    return n == 0;
}

static int flush(ea_text *out, ea_err *err) {
    if (out->failed)
        return ea_fail(err, EA_ENOMEM, "print an event");
    if (out->len_bytes && fwrite(out->data, 1, out->len_bytes, stdout) != out->len_bytes)
        return ea_fail(err, EA_EIO, "write to standard output");
    ea_text_clear(out);
    return 0;
}

static void print(dump *d, const ea_record *r, const ea_class *c, const ea_clock *clock) {
    switch (d->options->format) {
    case FORMAT_JSONL:
        if (d->column_count)
            ea_render_columns_json(&d->out, r, c, clock, d->columns, d->column_count);
        else
            ea_render_json(&d->out, r, c, clock, d->options->raw);
        ea_text_char(&d->out, '\n');
        break;
    case FORMAT_CSV:
        ea_render_csv(&d->out, r, c, clock, d->columns, d->column_count);
        ea_text_str(&d->out, "\r\n"); /* RFC 4180 */
        break;
    default:
        if (d->column_count)
            ea_render_columns_text(&d->out, r, c, clock, d->columns, d->column_count);
        else
            ea_render_text(&d->out, r, c, clock);
        ea_text_char(&d->out, '\n');
    }
}

static int read_all(dump *d, ea_input *in, ea_registry *registry, ea_err *err) {
    const ea_record *r;
    int rc;
    while ((rc = ea_etl_next(in->set, &r, err)) > 0) {
        const ea_clock *clock = &ea_etl_file_info(in->set, r->source)->clock;
        const ea_class *c = ea_registry_find(registry, r);
        if (d->options->from || d->options->to) {
            int64_t utc_ns = ea_clock_to_utc_ns(clock, r->time_raw);
            if (utc_ns < d->from_utc_ns || utc_ns >= d->to_utc_ns)
                continue;
        }
        if (!class_wanted(d, c) || !pid_wanted(d, r, c))
            continue;
        print(d, r, c, clock);
        if (d->out.len_bytes >= FLUSH_BYTES && (rc = flush(&d->out, err)) != 0)
            return rc;
    }
    if (!rc)
        rc = flush(&d->out, err);
    if (!rc && fflush(stdout))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    return rc;
}

static int run(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    ea_input in;
    ea_registry *registry = NULL;
    dump d = {.options = arg};
    ea_text_init(&d.out);
    ea_u64_map_init(&d.wanted_classes, 65536);
    int rc = parse(&d, &err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, &err);
    int exit_code = ea_exit_code(rc);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else if ((exit_code = ea_input_open(&in, operands, operand_count)) == 0) {
        for (size_t i = 0; d.options->format == FORMAT_CSV && i < d.column_count; i++) {
            if (i)
                ea_text_char(&d.out, ',');
            ea_text_csv(&d.out, d.columns[i], strlen(d.columns[i]));
        }
        if (d.options->format == FORMAT_CSV)
            ea_text_str(&d.out, "\r\n");
        rc = read_all(&d, &in, registry, &err);
        exit_code = ea_input_close(&in, rc, d.options->strict, &err);
    }
    ea_registry_destroy(registry);
    ea_u64_map_deinit(&d.wanted_classes);
    ea_text_deinit(&d.out);
    free(d.column_text);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    {.name = "format",
     .letter = 'f',
     .argument = "FORMAT",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, format),
     .fallback = "text",
     .choices = FORMATS,
     .help = "how events are printed"},
    {.name = "fields",
     .argument = "A,B,...",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, fields),
     .help = "print these columns only: keys of the JSON form, or names of events' fields"},
    {.name = "class",
     .letter = 'c',
     .argument = "NAME",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, classes),
     .help = "only events of this class, in any case; 'Process/*' for a family; may be repeated"},
    {.name = "pid",
     .letter = 'p',
     .argument = "N",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, pids),
     .help = "only events of or about this process; may be repeated"},
    {.name = "from",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, from),
     .help = "only events at or after this time (RFC 3339)"},
    {.name = "to",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, to),
     .help = "only events before this time"},
    {.name = "raw",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, raw),
     .help = "with jsonl: add the rest of each record's identity, payload and extended items in hex"},
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
