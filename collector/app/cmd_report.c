/* etwcollector report: what the time of a machine was spent on, as text, JSON or one HTML file. Each section is a
 * statement of report_questions.h, which runs in a process of its own. Called by: main.c. Calls: collector/query/sql
 * (ask.h). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/report_questions.h"
#include "collector/query/scan/cell.h"
#include "collector/query/scan/data_times.h"
#include "collector/query/sql/ask.h"
#include "proto/base/array.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 16, WIDTH_MAX = 60, EXIT_LIMIT = 4 };

typedef struct options {
    const char *store, *host, *from, *to;
    int json, html;
    uint64_t top;
    int64_t limit_ns, wait_ns;
} options;

/* A cell's text is at its place in the section's texts. */
typedef struct cell {
    size_t at, len_bytes;
    enum ec_look look;
} cell;

/* The rows of a section. */
typedef struct section {
    size_t columns, count, capacity; /* count: of cells */
    char *names[COLUMNS_MAX];
    char *types[COLUMNS_MAX];
    cell *cells;
    ea_text texts, scratch;
    int is_short; /* there was no memory for a cell */
    ec_outcome outcome;
} section;

typedef struct report {
    const options *o;
    const ec_report *what;
    ec_value range[2];
    section machines, sections[EC_REPORT_SECTIONS];
    size_t count;
    ea_text out;
} report;

/* The machines and their times, which every report begins with. */
static const char MACHINES[] = "SELECT host, begin, end, events FROM hosts ORDER BY host";

/* ---- asking ---- */

static int report_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    section *s = arg;
    if (count > COLUMNS_MAX)
        return s->is_short = 1;
    for (size_t i = 0; i < count; i++) {
        s->names[i] = strdup(names[i]);
        s->types[i] = strdup(types[i]);
        s->columns = i + 1;
        if (!s->names[i] || !s->types[i])
            return s->is_short = 1;
    }
    return 0;
}

static int report_on_row(void *arg, size_t count, const ec_value *values) {
    section *s = arg;
    if (EA_GROW(s->cells, s->capacity, s->count + count, SIZE_MAX))
        return s->is_short = 1;
    for (size_t i = 0; i < count; i++) {
        enum ec_look look = ec_cell_text(&s->scratch, &values[i], s->types[i]);
        s->cells[s->count++] = (cell){s->texts.len_bytes, look == EC_LOOK_EMPTY ? 0 : s->scratch.len_bytes, look};
        if (look != EC_LOOK_EMPTY && s->scratch.len_bytes)
            ea_text_add(&s->texts, s->scratch.data, s->scratch.len_bytes);
    }
    return s->is_short = s->texts.failed || s->scratch.failed;
}

static int report_ask(report *r, const char *sql, uint64_t limit_rows, section *s, ea_err *err) {
    ec_question question = {.store = r->o->store,
                            .host = r->o->host,
                            .sql = sql,
                            .params = r->range,
                            .param_count = strstr(sql, "?1") ? 2 : 0,
                            .limit_ns = r->o->limit_ns,
                            .wait_ns = r->o->wait_ns,
                            .limit_bytes = (uint64_t)1 << 30,
                            .limit_temp_bytes = (uint64_t)8 << 30,
                            .limit_rows = limit_rows};
    ea_text_init(&s->texts);
    ea_text_init(&s->scratch);
    int rc = ec_ask(&question, &(ec_listener){.on_columns = report_on_columns, .on_row = report_on_row, .arg = s},
                    ea_stop_flag(), &s->outcome, err);
    return !rc && s->is_short ? ea_fail(err, EA_ENOMEM, "keep the rows of a report") : rc;
}

static void section_deinit(section *s) {
    for (size_t i = 0; i < s->columns; i++) {
        free(s->names[i]);
        free(s->types[i]);
    }
    free(s->cells);
    ea_text_deinit(&s->texts);
    ea_text_deinit(&s->scratch);
}

/* ---- cells ---- */

static size_t row_count(const section *s) {
    return s->columns ? s->count / s->columns : 0;
}

static const cell *report_cell_at(const section *s, size_t row, size_t column) {
    return &s->cells[row * s->columns + column];
}

static const char *report_text_of(const section *s, const cell *c) {
    return s->texts.data ? s->texts.data + c->at : "";
}

/* What a column is in, by its name: times are shown in milliseconds, sizes in KiB. */
static const char *report_unit_of(const char *name, size_t *ret_stem_bytes) {
    size_t n = strlen(name);
    *ret_stem_bytes = n;
    if (strcmp(name, "ns") == 0 || (n > 3 && strcmp(name + n - 3, "_ns") == 0)) {
        *ret_stem_bytes = n > 3 ? n - 3 : 0;
        return "ms";
    }
    if (n > 6 && strcmp(name + n - 6, "_bytes") == 0) {
        *ret_stem_bytes = n - 6;
        return "KiB";
    }
    if (n > 8 && strcmp(name + n - 8, "_percent") == 0)
        *ret_stem_bytes = n - 8;
    else if (strcmp(name, "percent") != 0)
        return NULL;
    else
        *ret_stem_bytes = 0;
    return "%";
}

static void report_add_name(ea_text *t, const char *name) {
    size_t n;
    const char *unit = report_unit_of(name, &n);
    for (size_t i = 0; i < n; i++)
        ea_text_char(t, name[i] == '_' ? ' ' : name[i]);
    if (unit)
        ea_text_printf(t, "%s%s", n ? " " : "", unit);
}

/* A cell for a person; what a terminal or a page would take for commands is escaped. */
static void add_shown(ea_text *t, const section *s, size_t row, size_t column) {
    size_t n;
    const cell *c = report_cell_at(s, row, column);
    const char *unit = report_unit_of(s->names[column], &n);
    char number[32];
    if (!unit || c->look != EC_LOOK_NUMBER || c->len_bytes >= sizeof number) {
        ea_text_safe(t, report_text_of(s, c), c->len_bytes);
        return;
    }
    memcpy(number, report_text_of(s, c), c->len_bytes);
    number[c->len_bytes] = 0;
    double value = strtod(number, NULL);
    if (strcmp(unit, "ms") == 0)
        ea_text_printf(t, "%.3f", value / 1e6);
    else if (strcmp(unit, "KiB") == 0)
        ea_text_printf(t, "%.1f", value / 1024);
    else
        ea_text_printf(t, "%.2f", value);
}

/* The first column that a person sees: the host only where there are several. */
static size_t first_column(const report *r) {
    return row_count(&r->machines) > 1 ? 0 : 1;
}

static int is_number_column(const section *s, size_t column) {
    for (size_t row = 0; row < row_count(s); row++)
        if (report_cell_at(s, row, column)->look == EC_LOOK_WORD)
            return 0;
    return 1;
}

/* ---- text ---- */

/* Characters, not bytes: continuation bytes of UTF-8 take no place. */
static size_t report_width_of(const ea_text *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->len_bytes; i++)
        n += ((unsigned char)t->data[i] & 0xC0) != 0x80;
    return n;
}

static void add_padded(report *r, const ea_text *word, size_t width, int is_right, int is_last) {
    size_t n = report_width_of(word), pad = n < width ? width - n : 0;
    for (size_t i = 0; is_right && i < pad; i++)
        ea_text_char(&r->out, ' ');
    if (word->len_bytes)
        ea_text_add(&r->out, word->data, word->len_bytes);
    for (size_t i = 0; !is_right && !is_last && i < pad; i++)
        ea_text_char(&r->out, ' ');
    ea_text_str(&r->out, is_last ? "\n" : "  ");
}

static void report_add_table(report *r, const section *s) {
    size_t widths[COLUMNS_MAX] = {0}, first = first_column(r), rows = row_count(s);
    int right[COLUMNS_MAX];
    ea_text word;
    ea_text_init(&word);
    for (size_t i = first; i < s->columns; i++) {
        right[i] = is_number_column(s, i);
        for (size_t row = 0; row <= rows; row++) {
            ea_text_clear(&word);
            if (row < rows)
                add_shown(&word, s, row, i);
            else
                report_add_name(&word, s->names[i]);
            size_t n = report_width_of(&word);
            n = n < WIDTH_MAX ? n : WIDTH_MAX;
            widths[i] = n > widths[i] ? n : widths[i];
        }
    }
    for (size_t row = 0; row <= rows; row++)
        for (size_t i = first; i < s->columns; i++) {
            ea_text_clear(&word);
            if (row)
                add_shown(&word, s, row - 1, i);
            else
                report_add_name(&word, s->names[i]);
            add_padded(r, &word, widths[i], right[i], i + 1 == s->columns);
        }
    r->out.failed |= word.failed;
    ea_text_deinit(&word);
}

static void add_machine(ea_text *t, const section *s, size_t row) {
    ea_text_str(t, "host ");
    add_shown(t, s, row, 0);
    ea_text_str(t, ": ");
    add_shown(t, s, row, 3);
    ea_text_str(t, " events from ");
    add_shown(t, s, row, 1);
    ea_text_str(t, " to ");
    add_shown(t, s, row, 2);
}

static int is_cut(const section *s) {
    return s->outcome.ending == EC_ENDED_ROWS;
}

/* It has not all rows, and not because of --top. */
static int is_at_limit(const section *s) {
    return s->outcome.ending != EC_ENDED_WHOLE && !is_cut(s);
}

/* A section that ended at a limit may have had rows. */
static int is_empty(const report *r) {
    for (size_t i = 0; i < r->count; i++)
        if (row_count(&r->sections[i]) || is_at_limit(&r->sections[i]))
            return 0;
    return 1;
}

/* What no section could read: batches. */
typedef struct lacks {
    uint64_t damaged, backlog;
    const char *damage; /* of the first batch */
} lacks;

static lacks lacks_of(const report *r) {
    lacks x = {.damage = ""};
    for (size_t i = 0; i < r->count; i++) {
        const ec_outcome *o = &r->sections[i].outcome;
        if (o->damaged > x.damaged) {
            x.damaged = o->damaged;
            x.damage = o->damage;
        }
        x.backlog = o->backlog > x.backlog ? o->backlog : x.backlog;
    }
    return x;
}

static void add_nothing(ea_text *t, const report *r) {
    lacks x = lacks_of(r);
    ea_text_printf(t, "no rows: the report needs %s, and none %s", r->what->needs,
                   x.damaged || x.backlog ? "was found in what could be read"
                                          : "is stored of these machines in this range");
}

static void add_limit(ea_text *t, const section *s) {
    ea_text_printf(t, "not whole: it ended at a limit (%s)", ec_ending_name(s->outcome.ending));
}

static void report_add_text(report *r) {
    ea_text_printf(&r->out, "%s\n", r->what->title);
    for (size_t i = 0; i < row_count(&r->machines); i++) {
        add_machine(&r->out, &r->machines, i);
        ea_text_char(&r->out, '\n');
    }
    if (is_empty(r)) {
        add_nothing(&r->out, r);
        ea_text_char(&r->out, '\n');
    }
    for (size_t i = 0; i < r->count; i++) {
        const section *s = &r->sections[i];
        if (!row_count(s) && !is_at_limit(s))
            continue;
        ea_text_printf(&r->out, "\n%s\n", r->what->sections[i].title);
        if (row_count(s))
            report_add_table(r, s);
        if (is_at_limit(s)) {
            ea_text_char(&r->out, '(');
            add_limit(&r->out, s);
            ea_text_str(&r->out, ")\n");
        }
        if (is_cut(s))
            ea_text_printf(&r->out, "(the first %zu; --top %zu shows more)\n", row_count(s), 10 * row_count(s));
    }
}

/* ---- JSON ---- */

static void add_json_rows(report *r, const section *s) {
    ea_text_char(&r->out, '[');
    for (size_t row = 0; row < row_count(s); row++) {
        ea_text_str(&r->out, row ? ",\n  {" : "\n  {");
        for (size_t i = 0; i < s->columns; i++) {
            const cell *c = report_cell_at(s, row, i);
            if (i)
                ea_text_str(&r->out, ", ");
            ea_text_json_str(&r->out, s->names[i]);
            ea_text_str(&r->out, c->look == EC_LOOK_WORD ? ": \"" : ": ");
            if (c->look == EC_LOOK_EMPTY)
                ea_text_str(&r->out, "null");
            else
                ea_text_json(&r->out, report_text_of(s, c), c->len_bytes);
            if (c->look == EC_LOOK_WORD)
                ea_text_char(&r->out, '"');
        }
        ea_text_char(&r->out, '}');
    }
    ea_text_str(&r->out, row_count(s) ? "\n]" : "]");
}

static void add_json(report *r) {
    ea_text_str(&r->out, "{\"report\": ");
    ea_text_json_str(&r->out, r->what->name);
    ea_text_str(&r->out, ",\n\"hosts\": ");
    add_json_rows(r, &r->machines);
    for (size_t i = 0; i < r->count; i++) {
        const section *s = &r->sections[i];
        ea_text_str(&r->out, ",\n");
        ea_text_json_str(&r->out, r->what->sections[i].name);
        ea_text_str(&r->out, ": {\"rows\": ");
        add_json_rows(r, s);
        ea_text_printf(&r->out,
                       ", \"row_count\": %zu, \"ended\": \"%s\", \"damaged_batches\": %" PRIu64
                       ", \"behind_batches\": %" PRIu64 "}",
                       row_count(s), ec_ending_name(s->outcome.ending), s->outcome.damaged, s->outcome.backlog);
    }
    ea_text_str(&r->out, "}\n");
}

/* ---- HTML ---- */

static void add_element(ea_text *out, const char *begin, ea_text *t, const char *end) {
    ea_text_str(out, begin);
    ea_text_html(out, t->data, t->len_bytes);
    out->failed |= t->failed;
    ea_text_str(out, end);
    ea_text_clear(t);
}

static void add_html_table(report *r, const section *s, ea_text *word) {
    size_t first = first_column(r);
    ea_text_str(&r->out, "<table>\n<tr>");
    for (size_t i = first; i < s->columns; i++) {
        report_add_name(word, s->names[i]);
        add_element(&r->out, is_number_column(s, i) ? "<th class=\"n\">" : "<th>", word, "</th>");
    }
    ea_text_str(&r->out, "</tr>\n");
    for (size_t row = 0; row < row_count(s); row++) {
        ea_text_str(&r->out, "<tr>");
        for (size_t i = first; i < s->columns; i++) {
            add_shown(word, s, row, i);
            add_element(&r->out, report_cell_at(s, row, i)->look == EC_LOOK_NUMBER ? "<td class=\"n\">" : "<td>", word,
                        "</td>");
        }
        ea_text_str(&r->out, "</tr>\n");
    }
    ea_text_str(&r->out, "</table>\n");
}

/* One file that refers to nothing outside of itself. */
static void add_page(report *r) {
    ea_text word;
    ea_text_init(&word);
    ea_text_str(&r->out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
                         "http-equiv=\"Content-Security-Policy\" "
                         "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>");
    ea_text_str(&word, r->what->title);
    add_element(&r->out, "", &word, "</title>\n");
    ea_text_str(&r->out, "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:1em}"
                         "th,td{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd}.n{text-align:right;"
                         "font-variant-numeric:tabular-nums}</style></head><body>\n");
    ea_text_str(&word, r->what->title);
    add_element(&r->out, "<h1>", &word, "</h1>\n");
    for (size_t i = 0; i < row_count(&r->machines); i++) {
        add_machine(&word, &r->machines, i);
        add_element(&r->out, "<p>", &word, "</p>\n");
    }
    if (is_empty(r)) {
        add_nothing(&word, r);
        add_element(&r->out, "<p>", &word, "</p>\n");
    }
    for (size_t i = 0; i < r->count; i++) {
        const section *s = &r->sections[i];
        if (!row_count(s) && !is_at_limit(s))
            continue;
        ea_text_str(&word, r->what->sections[i].title);
        add_element(&r->out, "<h2>", &word, "</h2>\n");
        if (row_count(s))
            add_html_table(r, s, &word);
        if (is_at_limit(s)) {
            add_limit(&word, s);
            add_element(&r->out, "<p>", &word, "</p>\n");
        }
        if (is_cut(s))
            ea_text_printf(&r->out, "<p>The first %zu rows; there are more.</p>\n", row_count(s));
    }
    lacks x = lacks_of(r);
    if (x.damaged)
        ea_text_printf(&r->out, "<p>%" PRIu64 " batches are damaged and were left out from where the damage is.</p>\n",
                       x.damaged);
    if (x.backlog)
        ea_text_printf(&r->out, "<p>%" PRIu64 " stored batches are not in the history yet.</p>\n", x.backlog);
    ea_text_str(&r->out, "</body></html>\n");
    r->out.failed |= word.failed;
    ea_text_deinit(&word);
}

/* ---- the command ---- */

static int report_take_time(const options *o, const char *what, const char *text, ec_value *ret, ea_err *err) {
    *ret = (ec_value){.type = EC_NULL};
    if (!text || !*text)
        return 0;
    ret->type = EC_INT;
    return ec_data_time(what, text, o->store, o->host, NULL, &ret->i, err);
}

/* Says what the sections lack; the exit code. */
static int report_missing(const report *r) {
    int code = 0;
    lacks lacking = lacks_of(r);
    for (size_t i = 0; i <= r->count; i++) {
        const section *s = i < r->count ? &r->sections[i] : &r->machines;
        if (is_at_limit(s)) {
            fprintf(stderr, "etwcollector: \"%s\" is not whole: it ended at a limit (%s)\n",
                    i < r->count ? r->what->sections[i].title : "Machines", ec_ending_name(s->outcome.ending));
            code = EXIT_LIMIT;
        }
    }
    if (lacking.backlog)
        fprintf(stderr, "etwcollector: %" PRIu64 " stored batches are not in the history yet\n", lacking.backlog);
    if (lacking.damaged)
        fprintf(stderr,
                "etwcollector: %" PRIu64 " batches are damaged and were left out from where the damage is; %s\n",
                lacking.damaged, lacking.damage);
    return code ? code : lacking.damaged ? ea_exit_code(EA_ECORRUPT) : 0;
}

static int report_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    report r = {.o = o, .what = operand_count ? ec_report_of(operands[0]) : NULL};
    int rc = 0, code = 0;
    ea_text_init(&r.out);
    if (!r.what)
        rc = ea_fail(&err, EA_EUSAGE, "expected a report: gc, jit, cpu, waits, disk, network or boot%s%s",
                     operand_count ? ", and found " : "", operand_count ? operands[0] : "");
    if (!rc && o->json && o->html)
        rc = ea_fail(&err, EA_EUSAGE, "expected --json or --html, and found both");
    if (!rc && !o->top)
        rc = ea_fail(&err, EA_EUSAGE, "--top 0: expected a number of rows");
    if (!rc)
        rc = report_take_time(o, "--from", o->from, &r.range[0], &err);
    if (!rc)
        rc = report_take_time(o, "--to", o->to, &r.range[1], &err);
    if (!rc && o->from && o->to && r.range[0].i >= r.range[1].i)
        rc = ea_fail(&err, EA_EUSAGE, "--from '%s' is not before --to '%s'", o->from, o->to);
    if (!rc)
        rc = report_ask(&r, MACHINES, 0, &r.machines, &err);
    for (; !rc && r.what->sections[r.count].name; r.count++)
        rc = report_ask(&r, r.what->sections[r.count].sql, o->top, &r.sections[r.count], &err);
    if (!rc) {
        if (o->json)
            add_json(&r);
        else if (o->html)
            add_page(&r);
        else
            report_add_text(&r);
        rc = ec_answer_write(&r.out, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    code = rc ? ea_exit_code(rc) : report_missing(&r);
    section_deinit(&r.machines);
    for (size_t i = 0; i < EC_REPORT_SECTIONS; i++)
        section_deinit(&r.sections[i]);
    ea_text_deinit(&r.out);
    return code;
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {EC_HOST_OF(options, host),
     .help = "only the data of this agent; without it each row names its host where there are several"},
    {EC_FROM_OF(options, from),
     .help = "from this time on: RFC 3339, a date, now, -1h, or such as +10s after the start"},
    {EC_TO_OF(options, to), .help = "before this time"},
    {.name = "top",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, top),
     .fallback = "20",
     .help = "at most so many rows of each section"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON: ns and bytes"},
    {.name = "html",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, html),
     .help = "print one HTML file, which refers to nothing outside of itself"},
    {.name = "time-limit",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, limit_ns),
     .fallback = "60s",
     .help = "end each section after this time"},
    {EC_WAIT_OF(options, wait_ns), .help = "how long to wait until all stored batches are in the history"},
    {.name = NULL},
};

const ea_command ec_cmd_report = {
    .name = "report",
    .operands = EC_TRACES_OPERANDS " REPORT",
    .summary = "Print what the time of a machine was spent on: gc, jit, cpu, waits, disk, network, boot",
    .details =
        "  gc       garbage collections of .NET: how often, for how long threads were stopped, sizes of heaps\n"
        "  jit      methods that .NET compiled while programs ran, and how long that took\n"
        "  cpu      samples by process, running time by thread, interrupts\n"
        "  waits    what threads waited for, how long they were ready, which threads ended the waits\n"
        "  disk     bytes by process, requests by disk and by file, hard faults\n"
        "  network  bytes by process and by peer\n"
        "  boot     phases of a start, when its programs began, all processes in the order of their start\n"
        "\n"
        "Each section is the sum of a table that `query` has, too (SQL.md in collector/query). Text and HTML show "
        "times\n"
        "in ms and sizes in KiB; JSON has ns and bytes. An empty cell (JSON: null) was not recorded.\n"
        "\n"
        "Exit codes: 0 printed, 1 failed, or nothing is stored of --host, 2 usage, 3 something stored is damaged and "
        "was\n"
        "left out, 4 a section ended at a limit of time or memory.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = report_run,
    .max_operands = 1,
};
