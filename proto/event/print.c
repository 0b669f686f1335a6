/* Printing events. See print.h. */
#include "proto/event/print.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/event/classes/classes.h"
#include "proto/event/compact_cswitch.h"
#include "proto/event/render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const EA_PRINT_FORMATS[] = {"text", "jsonl", "csv", "raw", NULL};

enum { MAX_COLUMNS = 256, FLUSH_BYTES = 1 << 18 };

struct ea_printer {
    const ea_print_options *options;
    FILE *file; /* NULL: write has the text */
    int (*write)(void *arg, const void *data, size_t len_bytes, ea_err *err);
    void *write_arg;
    const ea_resolver *resolver; /* NULL: none */
    int raw;
    const char *columns[MAX_COLUMNS];
    size_t column_count;
    char *column_text; /* what columns point into */
    uint64_t pids[EA_STRINGS_MAX];
    int64_t from_utc_ns, to_utc_ns; /* [from, to) */
    ea_class_chooser chooser;
    ea_u64_map looked_at;            /* addresses of classes whose columns are noted */
    uint8_t has_column[MAX_COLUMNS]; /* requested columns that an event had */
    ea_near near_column[MAX_COLUMNS];
    size_t missing_columns; /* of has_column */
    ea_time_reference times;
    uint64_t printed;
    int has_event_in_range, has_event_of_pid; /* whatever else the options ask for */
    ea_text out;
    ea_cswitch_expander *expander; /* made when the first record needs it */
    ea_err *err;                   /* of the call, while records are expanded */
};

static int print_parse_columns(ea_printer *p, ea_err *err) {
    static const char *const standard[] = {"time", "provider_name", "name", "cpu", "pid", "tid", "fields"};
    const ea_strings *given = &p->options->fields;
    if (!given->count && p->options->format == EA_PRINT_CSV) {
        for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
            p->columns[p->column_count++] = standard[i];
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
    p->column_text = all.data;
    for (char *at = all.data; at && *at;) {
        size_t len = strcspn(at, ",");
        at[len] = 0;
        if (len && p->column_count == MAX_COLUMNS)
            return ea_fail(err, EA_EUSAGE, "--fields: at most %d columns", MAX_COLUMNS);
        if (len)
            p->columns[p->column_count++] = at;
        at += len + 1;
    }
    return 0;
}

/* A time that refers to data is kept for ea_printer_set_data. */
static int print_parse_time(const ea_printer *p, const char *name, const char *text, int64_t *ret, ea_err *err) {
    int rc = text ? ea_time_parse(text, &p->times, ret) : 0;
    return rc == EA_EINVAL ? ea_fail(err, EA_EUSAGE, "--%s '%s': expected " EA_TIME_FORMS_OF_DATA, name, text) : 0;
}

static int parse_times(ea_printer *p, ea_err *err) {
    p->from_utc_ns = INT64_MIN;
    p->to_utc_ns = INT64_MAX;
    int rc = print_parse_time(p, "from", p->options->from, &p->from_utc_ns, err);
    if (!rc)
        rc = print_parse_time(p, "to", p->options->to, &p->to_utc_ns, err);
    if (!rc && p->from_utc_ns >= p->to_utc_ns)
        rc = ea_fail(err, EA_EUSAGE, "--from '%s' is not before --to '%s'", p->options->from, p->options->to);
    return rc;
}

static int print_parse(ea_printer *p, ea_err *err) {
    const ea_print_options *o = p->options;
    p->raw = o->raw || o->format == EA_PRINT_RAW;
    int rc = print_parse_columns(p, err);
    if (!rc && p->raw && ((o->format != EA_PRINT_JSONL && o->format != EA_PRINT_RAW) || p->column_count))
        rc = ea_fail(err, EA_EUSAGE, "--raw is for --format jsonl without --fields");
    for (size_t i = 0; !rc && i < o->pids.count; i++)
        if (ea_u64_parse(o->pids.items[i], &p->pids[i]))
            rc = ea_fail(err, EA_EUSAGE, "--pid '%s': expected a whole number", o->pids.items[i]);
    p->times.now_utc_ns = ea_utc_ns();
    return rc ? rc : parse_times(p, err);
}

void ea_printer_set_output(ea_printer *p, int (*write)(void *arg, const void *data, size_t len_bytes, ea_err *err),
                           void *arg) {
    p->file = NULL;
    p->write = write;
    p->write_arg = arg;
}

int ea_printer_set_data(ea_printer *p, int64_t begin_utc_ns, int64_t end_utc_ns, ea_err *err) {
    p->times.has_data = 1;
    p->times.begin_utc_ns = begin_utc_ns;
    p->times.end_utc_ns = end_utc_ns;
    return parse_times(p, err);
}

int ea_printer_create(ea_printer **ret, const ea_print_options *options, FILE *out, ea_err *err) {
    ea_printer *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "print events");
    p->options = options;
    p->file = out;
    ea_text_init(&p->out);
    ea_u64_map_init(&p->looked_at, 65536);
    int rc = ea_class_chooser_init(&p->chooser, &options->choice, err);
    if (!rc)
        rc = print_parse(p, err);
    if (rc) {
        ea_printer_destroy(p);
        return rc;
    }
    for (size_t i = 0; options->format == EA_PRINT_CSV && i < p->column_count; i++) {
        if (i)
            ea_text_char(&p->out, ',');
        ea_text_csv(&p->out, p->columns[i], strlen(p->columns[i]));
    }
    if (options->format == EA_PRINT_CSV)
        ea_text_str(&p->out, "\r\n"); /* RFC 4180 */
    p->missing_columns = p->column_count;
    *ret = p;
    return 0;
}

void ea_printer_destroy(ea_printer *p) {
    if (!p)
        return;
    ea_class_chooser_deinit(&p->chooser);
    ea_u64_map_deinit(&p->looked_at);
    ea_text_deinit(&p->out);
    ea_cswitch_expander_destroy(p->expander);
    free(p->column_text);
    free(p);
}

void ea_printer_forget_classes(ea_printer *p) {
    ea_class_chooser_forget(&p->chooser);
    ea_u64_map_clear(&p->looked_at);
}

void ea_printer_window(const ea_printer *p, int64_t *ret_from_utc_ns, int64_t *ret_to_utc_ns) {
    *ret_from_utc_ns = p->from_utc_ns;
    *ret_to_utc_ns = p->to_utc_ns;
}

/* Marks the columns that an event of this class has and no earlier class had. Once for each class. */
static void look_for_columns(ea_printer *p, const ea_class *c) {
    if (ea_u64_map_get(&p->looked_at, (uintptr_t)c))
        return;
    EA_IGNORE(ea_u64_map_put(&p->looked_at, (uintptr_t)c, 1));
    for (size_t i = 0; i < p->column_count; i++) {
        if (p->has_column[i])
            continue;
        p->has_column[i] = (uint8_t)ea_render_has(c, p->columns[i]);
        p->missing_columns -= p->has_column[i];
        for (size_t f = 0; !p->has_column[i] && f < c->field_count; f++)
            ea_near_note(&p->near_column[i], p->columns[i], c->fields[f].name);
    }
}

/* A field of a class that this program has a row for, whether an event of it came by or not. */
static int is_known_column(const char *column) {
    for (size_t i = 0; i < ea_family_count; i++)
        for (size_t k = 0; k < ea_families[i]->row_count; k++)
            for (const ea_field_row *f = ea_families[i]->rows[k].fields; f && f->name; f++)
                if (strcmp(f->name, column) == 0)
                    return 1;
    return 0;
}

/* Nothing was printed: whether nothing could be, by the time or the process. */
static int check_range(const ea_printer *p, ea_err *err) {
    const ea_print_options *o = p->options;
    ea_text t;
    if (p->has_event_in_range && o->pids.count && !p->has_event_of_pid)
        return ea_fail(err, EA_ENOTFOUND, "--pid %s%s: no event in the range is of or about %s", o->pids.items[0],
                       o->pids.count > 1 ? ", ..." : "", o->pids.count > 1 ? "these processes" : "this process");
    if (p->has_event_in_range || (!o->from && !o->to))
        return 0;
    ea_text_init(&t);
    ea_text_utc_ns(&t, p->times.begin_utc_ns);
    ea_text_str(&t, " to ");
    ea_text_utc_ns(&t, p->times.end_utc_ns);
    int rc = ea_fail(err, EA_ENOTFOUND, "no event is in the range of --from and --to: the events are of %s",
                     t.failed ? "?" : t.data);
    ea_text_deinit(&t);
    return rc;
}

int ea_printer_check(ea_printer *p, ea_err *err) {
    int rc = ea_class_chooser_check(&p->chooser, err);
    if (rc)
        return rc;
    for (size_t i = 0; p->printed && p->options->fields.count && i < p->column_count; i++) {
        const ea_near *n = &p->near_column[i];
        if (!p->has_column[i] && !is_known_column(p->columns[i]))
            return ea_fail(err, EA_ENOTFOUND, "--fields '%.80s': none of the %" PRIu64 " events has this column%s%s%s",
                           p->columns[i], p->printed, n->name[0] ? "; did you mean '" : "", n->name,
                           n->name[0] ? "'?" : "");
    }
    return p->printed || !p->times.has_data ? 0 : check_range(p, err);
}

uint64_t ea_printer_printed(const ea_printer *p) {
    return p->printed;
}

/* The pid in the event's header, or in a field that says whose process the event is about. */
static int pid_wanted(const ea_printer *p, const ea_record *r, const ea_class *c) {
    size_t n = p->options->pids.count;
    for (size_t i = 0; i < n; i++)
        if (p->pids[i] == r->pid)
            return 1;
    for (size_t f = 0; n && f < c->field_count; f += c->fields[f].span) {
        uint64_t pid;
        if (c->fields[f].semantic != EA_SEM_PID || !ea_event_u64(c, r, c->fields[f].name, &pid))
            continue;
        for (size_t i = 0; i < n; i++)
            if (p->pids[i] == pid)
                return 1;
    }
    return n == 0;
}

static int print_write_out(ea_printer *p, ea_err *err) {
    if (p->out.failed)
        return ea_fail(err, EA_ENOMEM, "print an event");
    int rc = 0;
    if (p->out.len_bytes && p->write)
        rc = p->write(p->write_arg, p->out.data, p->out.len_bytes, err);
    else if (p->out.len_bytes && fwrite(p->out.data, 1, p->out.len_bytes, p->file) != p->out.len_bytes)
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_clear(&p->out);
    return rc;
}

int ea_printer_flush(ea_printer *p, ea_err *err) {
    int rc = print_write_out(p, err);
    if (!rc && p->file && fflush(p->file))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    return rc;
}

int ea_printer_wants_names(const ea_printer *p) {
    return !p->raw && !p->options->no_names;
}

void ea_printer_set_resolver(ea_printer *p, const ea_resolver *resolver) {
    p->resolver = ea_printer_wants_names(p) ? resolver : NULL;
}

static void print_record(ea_printer *p, const ea_record *r, const ea_class *c, const ea_clock *clock) {
    int csv = p->options->format == EA_PRINT_CSV;
    ea_rendering how = {.form = csv                                   ? EA_RENDER_CSV
                                : p->options->format == EA_PRINT_TEXT ? EA_RENDER_TEXT
                                                                      : EA_RENDER_JSON,
                        .clock = clock,
                        .resolver = p->resolver,
                        .raw = p->raw,
                        .columns = p->columns,
                        .column_count = p->column_count};
    ea_render(&p->out, r, c, &how);
    ea_text_str(&p->out, csv ? "\r\n" : "\n");
}

/* Whether the options want it; notes what ea_printer_check reports on. */
static int print_is_wanted(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    if (p->options->from || p->options->to) {
        int64_t utc_ns = ea_clock_to_utc_ns(clock, record->time_raw);
        if (utc_ns < p->times.begin_utc_ns)
            p->times.begin_utc_ns = utc_ns;
        if (utc_ns > p->times.end_utc_ns)
            p->times.end_utc_ns = utc_ns;
        if (utc_ns < p->from_utc_ns || utc_ns >= p->to_utc_ns)
            return 0;
    }
    p->has_event_in_range = 1;
    if (!p->has_event_of_pid)
        p->has_event_of_pid = pid_wanted(p, record, c);
    return ea_class_chooser_wants(&p->chooser, c) && pid_wanted(p, record, c);
}

void ea_printer_pass(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    (void)print_is_wanted(p, record, c, clock);
}

static int print_wanted(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock, ea_err *err) {
    if (!print_is_wanted(p, record, c, clock))
        return 0;
    print_record(p, record, c, clock);
    p->printed++;
    if (p->missing_columns)
        look_for_columns(p, c);
    return p->out.len_bytes >= FLUSH_BYTES ? print_write_out(p, err) : 0;
}

static int print_on_switch(void *arg, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    ea_printer *p = arg;
    return print_wanted(p, record, c, clock, p->err);
}

int ea_printer_event(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock, ea_err *err) {
    if (!ea_is_compact_cswitch(c) || !ea_printer_wants_names(p))
        return print_wanted(p, record, c, clock, err);
    int rc = p->expander ? 0 : ea_cswitch_expander_create(&p->expander, err);
    p->err = err;
    return rc ? rc : ea_cswitch_expand(p->expander, record, c, clock, print_on_switch, p, err);
}

int ea_printer_end(ea_printer *p, ea_err *err) {
    p->err = err;
    return p->expander ? ea_cswitch_expand_end(p->expander, print_on_switch, p) : 0;
}

void ea_printer_report_left_over(const ea_printer *p, const char *program) {
    if (!p->expander)
        return;
    ea_cswitch_expand_counts n = ea_cswitch_expander_counts(p->expander);
    if (n.short_records)
        fprintf(stderr,
                "%s: %" PRIu64 " of %" PRIu64 " records of compact context switches end inside a switch: %" PRIu64
                " bytes are not shown (--raw shows them)\n",
                program, n.short_records, n.records, n.bytes_left_over);
    if (n.new_threads_left_out)
        fprintf(stderr, "%s: %" PRIu64 " context switches have no new thread, since the trace has too many CPUs\n",
                program, n.new_threads_left_out);
}
