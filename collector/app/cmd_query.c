/* etwcollector query: SQL over a store, printed as a table, CSV or JSON. The statement runs in a process of its own.
 * Called by: main.c. Calls: collector/query/sql (ask.h). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/query/scan/cell.h"
#include "collector/query/scan/data_times.h"
#include "collector/query/sql/ask.h"
#include "collector/state/state_db.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum format { TABLE, CSV, JSONL, JSON };

static const char *const FORMATS[] = {"table", "csv", "jsonl", "json", NULL};

enum {
    SQL_MAX = 1 << 20,
    FLUSH_BYTES = 1 << 16,
    MEASURED_ROWS = 500,      /* of a table, by which its columns' widths are chosen */
    MEASURED_BYTES = 4 << 20, /* or so much of it */
    WIDTH_MAX = 80,           /* what is longer pushes its line to the right */
    EXIT_LIMIT = 4,
    EXIT_ROWS = 5,
    EXIT_UNKNOWN = 6, /* no rows, and nothing is stored of a name in a condition */
};

typedef struct options {
    const char *store, *host;
    int format, json, fail_if_rows;
    int64_t limit_ns, wait_ns;
    uint64_t limit_bytes, limit_rows, limit_temp_bytes;
    ec_symbol_options symbols;
} options;

typedef struct printer {
    enum format format;
    size_t columns;
    char **names, **types;
    uint64_t rows;
    ea_text out, cell;
    /* a table's first rows, until the widths are chosen */
    ea_text held; /* the cells one after another, each with its NUL */
    uint8_t *held_looks;
    size_t held_cells, held_capacity, *widths;
    int is_measured;
    int is_terminal; /* csv: cells are made safe first */
    ea_err *err;
    int rc;
} printer;

/* ---- cells ---- */

static const char *cell_text(const printer *p) {
    return p->cell.data ? p->cell.data : "";
}

static int query_write_out(printer *p) {
    if (p->out.failed || p->cell.failed || p->held.failed)
        return p->rc = ea_fail(p->err, EA_ENOMEM, "print the answer");
    if (p->out.len_bytes && fwrite(p->out.data, 1, p->out.len_bytes, stdout) != p->out.len_bytes)
        return p->rc = ea_fail(p->err, EA_EIO, "write to standard output");
    ea_text_clear(&p->out);
    return 0;
}

/* ---- tables ---- */

/* Columns on a screen, about: characters of UTF-8. */
static size_t query_width_of(const char *s) {
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put_cell(printer *p, size_t column, const char *text, int to_the_right) {
    size_t width = p->widths[column], n = query_width_of(text), pad = n < width ? width - n : 0;
    if (column)
        ea_text_str(&p->out, "  ");
    for (size_t i = 0; to_the_right && i < pad; i++)
        ea_text_char(&p->out, ' ');
    ea_text_str(&p->out, text);
    for (size_t i = 0; !to_the_right && i < pad && column + 1 < p->columns; i++)
        ea_text_char(&p->out, ' ');
    if (column + 1 == p->columns)
        ea_text_char(&p->out, '\n');
}

/* Chooses the widths by the rows that are held, and prints them. */
static void query_measure(printer *p) {
    size_t at = 0;
    uint8_t *to_the_right = calloc(p->columns + 1, 1);
    p->is_measured = 1;
    if (!to_the_right) {
        p->out.failed = 1;
        return;
    }
    for (size_t i = 0; i < p->columns; i++)
        p->widths[i] = query_width_of(p->names[i]);
    for (size_t i = 0; i < p->held_cells && !p->held.failed; i++) {
        const char *text = p->held.data + at;
        size_t column = i % p->columns, n = query_width_of(text);
        to_the_right[column] |= p->held_looks[i] == EC_LOOK_NUMBER;
        if (n > p->widths[column])
            p->widths[column] = n < WIDTH_MAX ? n : WIDTH_MAX;
        at += strlen(text) + 1;
    }
    for (size_t i = 0; i < p->columns; i++)
        put_cell(p, i, p->names[i], to_the_right[i]);
    for (size_t i = 0; i < p->columns; i++) {
        if (i)
            ea_text_str(&p->out, "  ");
        for (size_t k = 0; k < p->widths[i]; k++)
            ea_text_char(&p->out, '-');
    }
    ea_text_char(&p->out, '\n');
    at = 0;
    for (size_t i = 0; i < p->held_cells && !p->held.failed; i++) {
        const char *text = p->held.data + at;
        put_cell(p, i % p->columns, text, p->held_looks[i] == EC_LOOK_NUMBER);
        at += strlen(text) + 1;
    }
    free(to_the_right);
    ea_text_deinit(&p->held);
    ea_text_init(&p->held);
    p->held_cells = 0;
}

static void query_hold(printer *p, enum ec_look look, const char *text) {
    if (EA_GROW(p->held_looks, p->held_capacity, p->held_cells + 1, SIZE_MAX)) {
        p->held.failed = 1;
        return;
    }
    p->held_looks[p->held_cells++] = (uint8_t)look;
    ea_text_add(&p->held, text, strlen(text) + 1);
}

static void table_row(printer *p, size_t count, const ec_value *cells) {
    ea_text safe;
    ea_text_init(&safe);
    for (size_t i = 0; i < count; i++) {
        enum ec_look look = ec_cell_text(&p->cell, &cells[i], p->types[i]);
        ea_text_clear(&safe);
        ea_text_safe(&safe, cell_text(p), p->cell.len_bytes);
        if (p->is_measured)
            put_cell(p, i, safe.len_bytes ? safe.data : "", look == EC_LOOK_NUMBER);
        else
            query_hold(p, look, safe.len_bytes ? safe.data : "");
    }
    p->out.failed |= safe.failed;
    ea_text_deinit(&safe);
    if (!p->is_measured && (p->rows >= MEASURED_ROWS || p->held.len_bytes >= MEASURED_BYTES))
        query_measure(p);
}

/* ---- the other forms ---- */

/* A field as it is, or on a terminal without what the terminal would take for commands. */
static void put_csv(printer *p, const char *text, size_t len_bytes) {
    if (!p->is_terminal) {
        ea_text_csv(&p->out, text, len_bytes);
        return;
    }
    ea_text safe;
    ea_text_init(&safe);
    ea_text_safe(&safe, text, len_bytes);
    ea_text_csv(&p->out, safe.data ? safe.data : "", safe.len_bytes);
    p->out.failed |= safe.failed;
    ea_text_deinit(&safe);
}

static void csv_row(printer *p, size_t count, const ec_value *cells) {
    for (size_t i = 0; i < count; i++) {
        if (i)
            ea_text_char(&p->out, ',');
        if (ec_cell_text(&p->cell, &cells[i], p->types[i]) != EC_LOOK_EMPTY && p->cell.len_bytes)
            put_csv(p, cell_text(p), p->cell.len_bytes);
    }
    ea_text_char(&p->out, '\n'); /* for scripts; the API's CSV ends lines as RFC 4180 says */
}

static void json_row(printer *p, size_t count, const ec_value *cells) {
    if (p->format == JSON)
        ea_text_str(&p->out, p->rows > 1 ? ",\n  " : "\n  ");
    ea_text_char(&p->out, '{');
    for (size_t i = 0; i < count; i++) {
        enum ec_look look = ec_cell_text(&p->cell, &cells[i], p->types[i]);
        if (i)
            ea_text_char(&p->out, ',');
        ea_text_json_str(&p->out, p->names[i]);
        ea_text_char(&p->out, ':');
        if (look == EC_LOOK_WORD)
            ea_text_char(&p->out, '"');
        if (look == EC_LOOK_EMPTY)
            ea_text_str(&p->out, "null");
        else
            ea_text_json(&p->out, cell_text(p), p->cell.len_bytes);
        if (look == EC_LOOK_WORD)
            ea_text_char(&p->out, '"');
    }
    ea_text_str(&p->out, p->format == JSON ? "}" : "}\n");
}

/* ---- listening ---- */

/* 1 when a column before this one has the name. */
static int is_name_before(const printer *p, size_t column, const char *name) {
    for (size_t i = 0; i < column; i++)
        if (strcmp(p->names[i], name) == 0)
            return 1;
    return 0;
}

/* Copies of the names: for a table without what a terminal would take for commands; for JSON each one different. */
static char *query_name_of(const printer *p, size_t column, const char *name) {
    ea_text t;
    size_t same = 1;
    ea_text_init(&t);
    if (p->format == TABLE)
        ea_text_safe(&t, name, strlen(name));
    else
        ea_text_str(&t, name);
    size_t n = t.len_bytes;
    while ((p->format == JSONL || p->format == JSON) && !t.failed && is_name_before(p, column, t.data ? t.data : "")) {
        t.len_bytes = n;
        ea_text_printf(&t, "_%zu", ++same);
    }
    if (!t.data && !t.failed)
        ea_text_add(&t, "", 0);
    char *s = t.failed ? NULL : t.data ? t.data : calloc(1, 1);
    if (t.failed)
        ea_text_deinit(&t);
    return s;
}

static int query_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    printer *p = arg;
    p->names = calloc(count + 1, sizeof *p->names);
    p->types = calloc(count + 1, sizeof *p->types);
    p->widths = calloc(count + 1, sizeof *p->widths);
    if (!p->names || !p->types || !p->widths)
        return p->rc = ea_fail(p->err, EA_ENOMEM, "print the answer");
    p->columns = count;
    for (size_t i = 0; i < count; i++) {
        p->names[i] = query_name_of(p, i, names[i]);
        p->types[i] = calloc(strlen(types[i]) + 1, 1);
        if (!p->names[i] || !p->types[i])
            return p->rc = ea_fail(p->err, EA_ENOMEM, "print the answer");
        memcpy(p->types[i], types[i], strlen(types[i]));
    }
    for (size_t i = 0; p->format == CSV && i < count; i++) {
        if (i)
            ea_text_char(&p->out, ',');
        put_csv(p, p->names[i], strlen(p->names[i]));
    }
    if (p->format == CSV)
        ea_text_char(&p->out, '\n');
    if (p->format == JSON)
        ea_text_str(&p->out, "{\"rows\": [");
    return 0;
}

static int query_on_row(void *arg, size_t count, const ec_value *cells) {
    printer *p = arg;
    p->rows++;
    if (p->format == TABLE)
        table_row(p, count, cells);
    else if (p->format == CSV)
        csv_row(p, count, cells);
    else
        json_row(p, count, cells);
    return p->out.len_bytes >= FLUSH_BYTES || p->out.failed || p->held.failed ? query_write_out(p) : 0;
}

/* Writes what follows the rows: how the query ended, and what its answer lacks. */
static int query_finish(printer *p, const ec_outcome *outcome) {
    if (p->format == TABLE && p->columns && !p->is_measured)
        query_measure(p);
    if (p->format == JSON) {
        ea_text_printf(&p->out,
                       "%s%s], \"row_count\": %" PRIu64 ", \"ended\": \"%s\", \"damaged_batches\": %" PRIu64
                       ", \"behind_batches\": %" PRIu64,
                       p->columns ? "" : "{\"rows\": [", p->rows ? "\n" : "", p->rows, ec_ending_name(outcome->ending),
                       outcome->damaged, outcome->backlog);
        if (*outcome->notice) {
            ea_text_str(&p->out, ", \"notice\": \"");
            ea_text_json(&p->out, outcome->notice, strlen(outcome->notice));
            ea_text_char(&p->out, '"');
        }
        ea_text_str(&p->out, "}\n");
    } else if (!ec_is_whole(outcome))
        ea_text_printf(
            &p->out,
            p->format == JSONL ? "{\"ended\":\"%s\",\"damaged_batches\":%" PRIu64 ",\"behind_batches\":%" PRIu64 "}\n"
                               : "# not whole: ended %s; damaged batches %" PRIu64
                                 "; batches that the history lacks %" PRIu64 "%s\n",
            ec_ending_name(outcome->ending), outcome->damaged, outcome->backlog, p->format == CSV ? "\r" : "");
    int rc = query_write_out(p);
    if (!rc && fflush(stdout))
        rc = ea_fail(p->err, EA_EIO, "write to standard output");
    return rc;
}

static void query_deinit(printer *p) {
    for (size_t i = 0; i < p->columns; i++) {
        free(p->names[i]);
        free(p->types[i]);
    }
    free(p->names);
    free(p->types);
    free(p->widths);
    free(p->held_looks);
    ea_text_deinit(&p->out);
    ea_text_deinit(&p->cell);
    ea_text_deinit(&p->held);
}

/* ---- the command ---- */

static int read_sql(const char *operand, char **ret, ea_err *err) {
    if (operand && strcmp(operand, "-") != 0) {
        size_t n = strlen(operand);
        char *copy = malloc(n + 1);
        if (!copy)
            return ea_fail(err, EA_ENOMEM, "read the statement");
        memcpy(copy, operand, n + 1);
        *ret = copy;
        return 0;
    }
    char *sql = malloc(SQL_MAX + 1);
    if (!sql)
        return ea_fail(err, EA_ENOMEM, "read the statement");
    size_t n = fread(sql, 1, SQL_MAX + 1, stdin);
    if (n > SQL_MAX || ferror(stdin)) {
        free(sql);
        return n > SQL_MAX ? ea_fail(err, EA_ELIMIT, "a statement has at most %d bytes", SQL_MAX)
                           : ea_fail(err, EA_EIO, "read standard input");
    }
    sql[n] = 0;
    *ret = sql;
    return 0;
}

/* Says what is missing from the answer; the exit code. */
static int query_report_missing(const options *o, const ec_outcome *outcome) {
    switch (outcome->ending) {
    case EC_ENDED_ROWS:
        fprintf(stderr, "etwcollector: ended at the limit of %" PRIu64 " rows; there are more (--rows)\n",
                o->limit_rows);
        break;
    case EC_ENDED_TIME:
        fprintf(stderr, "etwcollector: ended at the time limit of %g s (--time-limit)\n", (double)o->limit_ns / 1e9);
        break;
    case EC_ENDED_MEMORY:
        fprintf(stderr, "etwcollector: ended at the memory limit of %" PRIu64 " MiB (--memory)\n",
                o->limit_bytes >> 20);
        break;
    case EC_ENDED_TEMP:
        fprintf(stderr,
                "etwcollector: ended at the limit of temporary files: %" PRIu64
                " MiB (--temp), or a quarter of what was free on their disk\n",
                o->limit_temp_bytes >> 20);
        break;
    case EC_ENDED_CANCELED:
        fprintf(stderr, "etwcollector: stopped on request\n");
        return 1;
    default:
        break;
    }
    if (outcome->backlog)
        fprintf(stderr, "etwcollector: %" PRIu64 " stored batches are not in the history yet\n", outcome->backlog);
    if (outcome->damaged)
        fprintf(stderr,
                "etwcollector: %" PRIu64 " batches are damaged and were left out from where the damage is; %s\n",
                outcome->damaged, outcome->damage);
    if (*outcome->notice)
        fprintf(stderr, "etwcollector: %s\n", outcome->notice);
    if (outcome->ending != EC_ENDED_WHOLE)
        return EXIT_LIMIT;
    return outcome->damaged ? ea_exit_code(EA_ECORRUPT) : *outcome->notice && !outcome->rows ? EXIT_UNKNOWN : 0;
}

static int query_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    char *sql = NULL;
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    printer p = {.format = o->json ? JSON : (enum format)o->format, .is_terminal = ea_is_terminal(stdout), .err = &err};
    ea_text_init(&p.out);
    ea_text_init(&p.cell);
    ea_text_init(&p.held);
    ec_symbol_desk desk;
    int rc = read_sql(operand_count ? operands[0] : NULL, &sql, &err);
    int has_symbols = !rc && ec_symbol_options_are_given(&o->symbols);
    if (has_symbols && (rc = ec_symbol_desk_prepare(&desk, &o->symbols, NULL, &err)))
        has_symbols = 0;
    if (!rc) {
        ec_question question = {.store = o->store,
                                .host = o->host,
                                .sql = sql,
                                .is_written = 1,
                                .limit_ns = o->limit_ns,
                                .wait_ns = o->wait_ns,
                                .limit_temp_bytes = o->limit_temp_bytes,
                                .limit_bytes = o->limit_bytes,
                                .limit_rows = o->limit_rows,
                                .symbols = has_symbols ? &desk.options : NULL};
        rc = ec_ask(&question, &(ec_listener){.on_columns = query_on_columns, .on_row = query_on_row, .arg = &p},
                    ea_stop_flag(), &outcome, &err);
        if (!rc)
            rc = p.rc;
    }
    if (!rc)
        rc = query_finish(&p, &outcome);
    int code = rc ? ea_exit_code(rc) : query_report_missing(o, &outcome);
    int64_t begin_utc_ns, end_utc_ns;
    if (!rc && !p.rows && p.format == TABLE && ea_is_terminal(stderr) &&
        ec_data_span(o->store, o->host, NULL, &begin_utc_ns, &end_utc_ns, NULL) > 0)
        ec_answer_none("no rows", begin_utc_ns, end_utc_ns);
    if (o->fail_if_rows && p.rows && (!code || code == EXIT_LIMIT))
        code = EXIT_ROWS;
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    if (has_symbols)
        ec_symbol_desk_close(&desk);
    query_deinit(&p);
    free(sql);
    return code;
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {EC_HOST_OF(options, host), .help = "only the data of this agent"},
    {.name = "format",
     .letter = 'f',
     .argument = "FORMAT",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, format),
     .fallback = "table",
     .choices = FORMATS,
     .help = "how rows are printed: jsonl is one object a row, json one object with all"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "the same as --format json"},
    {.name = "fail-if-rows",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, fail_if_rows),
     .help = "exit with 5 when there is a row: for a timer that reports what a query finds"},
    {.name = "rows",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, limit_rows),
     .fallback = "100000",
     .help = "end after so many rows; 0 for no limit"},
    {.name = "time-limit",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, limit_ns),
     .fallback = "60s",
     .help = "end after this time"},
    {.name = "memory",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, limit_bytes),
     .fallback = "1GiB",
     .help = "end when the statement needs more memory"},
    {.name = "temp",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, limit_temp_bytes),
     .fallback = "8GiB",
     .help =
         "end when sorts that memory does not hold need larger temporary files, or a quarter of what is free on their "
         "disk"},
    {EC_WAIT_OF(options, wait_ns), .help = "how long to wait until all stored batches are in the tables of machines"},
    EC_SYMBOL_OPTIONS(options, symbols, EC_SYMBOL_CACHE),
    {.name = NULL},
};

const ea_command ec_cmd_query = {
    .name = "query",
    .operands = EC_TRACES_OPERANDS " [SQL]",
    .summary = "Ask the store in SQL: events, processes, threads, modules, hosts, ledgers",
    .details =
        "One SELECT, as SQLite understands it; without one, or for -, it is read from standard input. It runs in a\n"
        "process of its own, can only read, and ends at its limits or with Ctrl-C; the collector may run meanwhile.\n"
        "\n"
        "Tables: events, and one a class of events, named as the class is: \"Process/Start\". processes, threads,\n"
        "modules; hosts, streams, batches, classes; ledger, gaps, incidents, alerts, host_totals; thread_times, waits, "
        "disk_times,\n"
        "cpu_usage, stacks, runtime_counters and others over a time range. Each event has host,\n"
        "time, cpu, pid, tid and, not in SELECT *, provider_name, name, stream, batch, position, version, opcode, "
        "keyword, activity_id,\n"
        "fields (JSON), stack (JSON) and more; a class's table has the fields as columns, too.\n"
        "SELECT name, type FROM pragma_table_xinfo('Process/Start') lists a table's columns.\n"
        "GROUP BY over one table of events is counted while columns are read where EXPLAIN QUERY PLAN shows (grouped;\n"
        "NAME_by beside each table of events always counts so:\n"
        "events_by(by1, by2, value, every, top, by3) gives bucket, count, value_count, sum, min, max and the columns "
        "by1,\n"
        "by2 and by3: SELECT pid, bucket, count FROM events_by('pid', NULL, NULL, '1s', 5).\n"
        "\n"
        "Conditions on host, name, time, pid and fields are asked of the store's index and of the stored columns; "
        "only\n"
        "the columns that the statement names are decoded. Functions: time_ns('2024-05-17T14:03:07Z'), now(), "
        "ago('24h'), time_text(ns),\n"
        "time_bucket(ns, '1s'), duration_ns('5ms'), u64('0xfffff80000000000') and u64_text(address), "
        "u64_number(address),\n"
        "hex_text(n), guid, sid, ip (text or bytes to text), guid_bytes, sid_bytes, ip_bytes, ip_in(ip, "
        "'10.0.0.0/8'),\n"
        "ntstatus(n). With --symbols, --symbol-cache or --lines, function_counters names functions, as profile does.\n"
        "After a table without rows, a terminal shows from when to when events are stored.\n"
        "Addresses are 64 bits, unsigned: compare columns of them with u64('0x...'). SQL.md in\n"
        "collector/query describes all tables and functions, with examples.\n"
        "\n"
        "Exit codes: 0 answered, 1 failed, stopped, or nothing is stored of --host, 2 usage or wrong SQL, 3 something\n"
        "stored is damaged and was left out, 4 ended at a limit (what had come by then is printed), 5 there are rows\n"
        "and --fail-if-rows is given, 6 there are no rows, and nothing is stored of a host, provider or class that a\n"
        "condition names, or a text is stored in another case alone (standard error says which).",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = query_run,
    .max_operands = 1,
};
