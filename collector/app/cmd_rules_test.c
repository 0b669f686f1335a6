/* etwcollector rules test: Sigma rules on the stored events of a time range. Called by: main.c. Calls: rules_store.h,
 * proto/rules, collector/query/sql (ask.h). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/rules_own_tests.h"
#include "collector/detect/rules_files.h"
#include "collector/detect/stored_correlations.h"
#include "collector/query/scan/archive.h"
#include "collector/query/scan/data_times.h"
#include "collector/query/sql/ask.h"
#include "collector/state/state_worker.h"
#include "proto/base/arena.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_EXIT_FAILED = 1, TEST_EXIT_LIMIT = 4 };

typedef struct test_options {
    const char *store, *host, *from, *to;
    int64_t limit_ns, wait_ns;
    uint64_t limit_bytes, limit_temp_bytes, limit_matches;
    int json;
} test_options;

typedef struct rules_test {
    const test_options *options;
    const ea_rules *rules;
    ea_rules_run *run;
    ec_archive *archive;
    int64_t from_utc_ns, to_utc_ns;
    uint64_t *matches, *suppressed;       /* by rule, and then by correlation */
    ec_stored_correlations *correlations; /* NULL: the files have none */
    uint64_t left_out;                    /* by its bounds */
    uint8_t *is_tested;                   /* by group */
    uint8_t *is_rule_tested;              /* as matches */
    const ec_archive_stream *stream;      /* of the last path */
    uint64_t event_count, match_count, suppressed_count, printed_count, class_count;
    ec_outcome worst; /* of the statements */
    ea_text out;
    ea_err *err;
    /* the statement that runs */
    const ea_sigma_source *source;
    uint32_t group;
    const ec_rules_statement *statement;
    ea_arena arena; /* types of its columns */
    const char **types;
    ea_text cells[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX];
    enum ec_look looks[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX];
    int rc;
} rules_test;

static const char *test_cell(const rules_test *t, size_t i) {
    return t->cells[i].len_bytes ? t->cells[i].data : "";
}

/* A match, or a detection of a correlation, up to its fields. pid NULL: it is not known. */
static void test_print_head(rules_test *t, const ea_rule_info *info, const char *time, const char *host,
                            const char *pid) {
    ea_text *out = &t->out;
    if (!t->options->json) {
        ea_text_printf(out, "%s  ", time);
        ea_text_safe(out, host, strlen(host));
        ea_text_printf(out, "  process %s  ", pid ? pid : "unknown");
        ea_text_safe(out, info->level, strlen(info->level));
        ea_text_str(out, *info->level ? ": " : "");
        ea_text_safe(out, info->title, strlen(info->title));
        ea_text_char(out, '\n');
        return;
    }
    ea_text_str(out, t->printed_count ? ",\n  {\"time\": " : "\n  {\"time\": ");
    ea_text_json_str(out, time);
    ea_text_str(out, ", \"host\": ");
    ea_text_json_str(out, host);
    ea_text_printf(out, ", \"pid\": %s, \"title\": ", pid ? pid : "null");
    ea_text_json_str(out, info->title);
    ea_text_str(out, ", \"level\": ");
    ea_text_json_str(out, info->level);
    ea_text_str(out, ", \"file\": ");
    ea_text_json_str(out, info->file);
    ea_text_printf(out, ", \"line\": %" PRIu32 ", \"fields\": ", info->line);
}

static void test_print_fields(rules_test *t) {
    ea_text *out = &t->out;
    const char *before = "{";
    for (size_t i = 0; i < t->statement->field_count; i++) {
        size_t column = EC_RULES_HEAD_COLUMNS + i;
        if (t->looks[column] == EC_LOOK_EMPTY)
            continue;
        if (t->options->json) {
            ea_text_str(out, before);
            ea_text_json_str(out, t->statement->names[i]);
            ea_text_str(out, ": ");
            ea_text_json_str(out, test_cell(t, column));
            before = ", ";
        } else {
            ea_text_printf(out, "    %s: ", t->statement->names[i]);
            ea_text_safe(out, test_cell(t, column), t->cells[column].len_bytes);
            ea_text_char(out, '\n');
        }
    }
    if (t->options->json)
        ea_text_str(out, *before == '{' ? "{}}" : "}}");
}

/* A detection of a correlation. */
static void test_on_correlation(void *arg, const ec_stored_detection *d) {
    rules_test *t = arg;
    const ea_rule_info *info = &ea_rules_correlation(t->rules, d->correlation)->info;
    ea_text time;
    char pid[16];
    t->matches[ea_rules_count(t->rules) + d->correlation]++;
    t->match_count++;
    if (t->printed_count == t->options->limit_matches)
        return;
    ea_text_init(&time);
    ea_text_utc_ns(&time, d->utc_ns);
    snprintf(pid, sizeof pid, "%" PRIu32, d->pid);
    test_print_head(t, info, time.len_bytes ? time.data : "", d->host, d->has_pid ? pid : NULL);
    ea_text_str(&t->out, t->options->json ? "" : "    ");
    if (t->options->json)
        ea_text_str(&t->out, d->fields);
    else
        ea_text_safe(&t->out, d->fields, strlen(d->fields));
    ea_text_str(&t->out, t->options->json ? "}" : "\n");
    ea_text_deinit(&time);
    t->printed_count++;
}

static int test_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    rules_test *t = arg;
    (void)names;
    ea_arena_reset(&t->arena);
    t->types = ea_arena_zalloc(&t->arena, count + 1, sizeof *t->types);
    if (!t->types || count != EC_RULES_HEAD_COLUMNS + t->statement->field_count)
        return t->rc = ea_fail(t->err, EA_ENOMEM, "run the rules");
    for (size_t i = 0; i < count; i++)
        if (!(t->types[i] = ea_arena_strdup(&t->arena, types[i])))
            return t->rc = ea_fail(t->err, EA_ENOMEM, "run the rules");
    return 0;
}

/* The stream of the row; NULL: it arrived after the command began. */
static const ec_archive_stream *test_stream(rules_test *t) {
    const char *host = test_cell(t, EC_RULES_HOST), *id = test_cell(t, EC_RULES_STREAM);
    if (!t->stream || strcmp(t->stream->id, id) != 0 || strcmp(t->stream->row.host, host) != 0)
        t->stream = ec_rules_find_stream(t->archive, host, id);
    return t->stream;
}

/* Puts a drive letter in place of a device, where the trace has it. */
static void test_name_drive(rules_test *t, size_t column) {
    const ec_archive_stream *stream = test_stream(t);
    if (stream)
        ec_rules_name_drive(t->archive, stream, &t->cells[column]);
}

static int test_on_row(void *arg, size_t count, const ec_value *cells) {
    rules_test *t = arg;
    ea_rules_value values[EC_RULES_COLUMNS_MAX];
    size_t value_count = 0;
    for (size_t i = 0; i < count; i++) {
        ea_text_clear(&t->cells[i]);
        t->looks[i] = ec_cell_text(&t->cells[i], &cells[i], t->types[i]);
        if (t->cells[i].failed)
            return t->rc = ea_fail(t->err, EA_ENOMEM, "run the rules");
        size_t field = i - EC_RULES_HEAD_COLUMNS;
        if (i >= EC_RULES_HEAD_COLUMNS && t->statement->is_path[field] && t->cells[i].len_bytes)
            test_name_drive(t, i);
        if (i >= EC_RULES_HEAD_COLUMNS && t->looks[i] != EC_LOOK_EMPTY)
            values[value_count++] =
                (ea_rules_value){t->statement->fields[field], test_cell(t, i), t->cells[i].len_bytes};
    }
    const uint32_t *found = NULL;
    size_t found_count = 0;
    int rc = ea_rules_run_event(t->run, t->group, values, value_count, &found, &found_count);
    if (rc)
        return t->rc = ea_fail(t->err, rc, "run the rules");
    t->event_count++;
    for (size_t i = 0; i < found_count; i++) {
        if (ea_rules_run_excepted(t->run, found[i], test_cell(t, EC_RULES_HOST), cells[EC_RULES_TIME].i) !=
            UINT32_MAX) {
            t->suppressed[found[i]]++;
            t->suppressed_count++;
            continue;
        }
        t->matches[found[i]]++;
        t->match_count++;
        if (t->correlations &&
            ec_stored_correlations_take(t->correlations, t->statement, t->cells, t->looks, cells, found[i], t->err))
            return t->rc = t->err->code;
        if (t->printed_count == t->options->limit_matches)
            continue;
        test_print_head(t, ea_rules_info(t->rules, found[i]), test_cell(t, EC_RULES_TIME), test_cell(t, EC_RULES_HOST),
                        t->looks[EC_RULES_PID] == EC_LOOK_EMPTY ? NULL : test_cell(t, EC_RULES_PID));
        test_print_fields(t);
        t->printed_count++;
    }
    return 0;
}

static int test_ask(rules_test *t) {
    const test_options *o = t->options;
    const ec_value range[2] = {{.type = EC_INT, .i = t->from_utc_ns}, {.type = EC_INT, .i = t->to_utc_ns}};
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    ec_question question = {.store = o->store,
                            .host = o->host,
                            .sql = t->statement->sql.data,
                            .params = range,
                            .param_count = 2,
                            .limit_ns = o->limit_ns,
                            .limit_bytes = o->limit_bytes,
                            .limit_temp_bytes = o->limit_temp_bytes};
    int rc = ec_ask(&question, &(ec_listener){.on_columns = test_on_columns, .on_row = test_on_row, .arg = t},
                    ea_stop_flag(), &outcome, t->err);
    if (!rc)
        rc = t->rc;
    if (outcome.ending != EC_ENDED_WHOLE)
        t->worst.ending = outcome.ending;
    if (outcome.backlog > t->worst.backlog)
        t->worst.backlog = outcome.backlog;
    if (outcome.damaged > t->worst.damaged)
        t->worst.damaged = outcome.damaged;
    return rc;
}

static int test_part(rules_test *t, const char *class_name, size_t len, const char *table) {
    ec_rules_statement statement;
    int rc = ec_rules_statement_make(&statement, t->rules, t->group, t->source, class_name, len, table,
                                     EC_RULES_OF_RANGE, EC_RULES_NOT_EARLY);
    if (rc)
        rc = ea_fail(t->err, rc, "make the statement for %s", table);
    t->statement = &statement;
    if (!rc)
        rc = test_ask(t);
    t->statement = NULL;
    ec_rules_statement_deinit(&statement);
    return rc;
}

static int test_class(void *arg, const char *class_name, size_t len) {
    rules_test *t = arg;
    const ec_class_set *set = NULL, *const *parts = NULL;
    size_t count = 0, left_out = 0;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)len, class_name);
    int rc = ec_archive_set(t->archive, name, &set, t->err);
    if (!rc && set) /* else nothing of the class is stored */
        rc = ec_archive_parts(t->archive, set, &parts, &count, &left_out, t->err);
    if (left_out)
        fprintf(stderr, EC_RULES_PARTS_NOTE "\n", name, EC_CLASS_PARTS_MAX, left_out);
    for (size_t i = 0; i < count && !rc; i++)
        rc = test_part(t, class_name, len, parts[i]->name);
    t->class_count += count > 0;
    return rc;
}

static int test_all(rules_test *t, const ea_sigma_tables *tables) {
    size_t count = 0;
    const ea_sigma_source *sources = ea_sigma_sources(tables, &count);
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        if (sources[i].is_service)
            continue;
        t->source = &sources[i];
        t->group = ea_rules_group(t->rules, "windows", sources[i].name, "");
        if (t->group == UINT32_MAX)
            continue;
        t->is_tested[t->group] = 1;
        rc = ec_rules_each_class(t->source, test_class, t);
    }
    return rc;
}

/* Of a rule, or, after all rules, of a correlation. */
static const ea_rule_info *test_info(const rules_test *t, uint32_t number) {
    size_t rules = ea_rules_count(t->rules);
    return number < rules ? ea_rules_info(t->rules, number)
                          : &ea_rules_correlation(t->rules, number - (uint32_t)rules)->info;
}

/* A correlation is tested when one of its rules is. Called in the order of their numbers: those that a correlation
 * names come before it. */
static int test_is_tested(rules_test *t, uint32_t number) {
    uint32_t rules = (uint32_t)ea_rules_count(t->rules);
    if (number < rules) {
        t->is_rule_tested[number] = t->is_tested[ea_rules_info(t->rules, number)->group];
    } else {
        const ea_rule_correlation *c = ea_rules_correlation(t->rules, number - rules);
        for (uint32_t i = 0; i < c->rule_count; i++)
            t->is_rule_tested[number] |=
                t->is_rule_tested[c->rules[i] & EA_RULES_CORRELATION ? rules + (c->rules[i] & ~EA_RULES_CORRELATION)
                                                                     : c->rules[i]];
    }
    return t->is_rule_tested[number];
}

static void test_print_end(rules_test *t, const ec_rules_files *files) {
    ea_text *out = &t->out;
    uint64_t tested = 0, fired = 0;
    if (t->options->json)
        ea_text_str(out, "],\n\"rules\": [");
    size_t count = ea_rules_count(t->rules) + ea_rules_correlation_count(t->rules);
    for (uint32_t i = 0; i < count; i++) {
        const ea_rule_info *info = test_info(t, i);
        int is_tested = test_is_tested(t, i);
        tested += (uint64_t)is_tested;
        fired += t->matches[i] > 0;
        if (t->options->json) {
            ea_text_str(out, i ? ",\n  {\"file\": " : "\n  {\"file\": ");
            ea_text_json_str(out, info->file);
            ea_text_printf(out, ", \"line\": %" PRIu32 ", \"title\": ", info->line);
            ea_text_json_str(out, info->title);
            ea_text_printf(out, ", \"tested\": %s, \"matches\": %" PRIu64 ", \"suppressed\": %" PRIu64 "}",
                           is_tested ? "true" : "false", t->matches[i], t->suppressed[i]);
        } else if (t->matches[i] || t->suppressed[i]) {
            ea_text_printf(out, "%8" PRIu64 " times ", t->matches[i]);
            if (t->suppressed[i])
                ea_text_printf(out, "(%" PRIu64 " suppressed) ", t->suppressed[i]);
            ea_text_safe(out, info->file, strlen(info->file));
            ea_text_printf(out, ":%" PRIu32 ": ", info->line);
            ea_text_safe(out, info->title, strlen(info->title));
            ea_text_char(out, '\n');
        }
    }
    if (t->options->json)
        ea_text_str(out, "],\n\"problems\": [");
    ea_text_add(out, files->problems.data, files->problems.len_bytes);
    ea_text_printf(out,
                   t->options->json ? "],\n\"tested\": %" PRIu64 ", \"fired\": %" PRIu64 ", \"events\": %" PRIu64
                                      ", \"match_count\": %" PRIu64 ", \"suppressed\": %" PRIu64
                                      ", \"left_out\": %" PRIu64 ", \"ended\": \"%s\", \"behind_batches\": %" PRIu64
                                      ", \"damaged_batches\": %" PRIu64 "}\n"
                                    : "%" PRIu64 " rules tested, %" PRIu64 " matched; %" PRIu64 " events, %" PRIu64
                                      " matches, %" PRIu64 " suppressed by filters, %" PRIu64
                                      " left out of correlations; ended: %s; batches that the history lacks: %" PRIu64
                                      ", damaged: %" PRIu64 "\n",
                   tested, fired, t->event_count, t->match_count, t->suppressed_count, t->left_out,
                   ec_ending_name(t->worst.ending), t->worst.backlog, t->worst.damaged);
}

static int test_open(rules_test *t, const test_options *o, ea_err *err) {
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    t->to_utc_ns = INT64_MAX;
    int rc = ec_state_worker_catch_up(o->store, o->host, EC_WAIT_FOLDED, o->wait_ns, &t->worst.backlog, err);
    if (!rc)
        rc = ec_question_confine_asking(o->store, o->limit_bytes, err);
    if (!rc)
        rc = ec_archive_open(&t->archive, o->store, NULL, o->host, err);
    if (!rc && o->host)
        rc = ec_archive_streams(t->archive, &streams, &count, err);
    if (!rc && o->host && !count)
        rc = ec_unknown_host(o->host, err);
    if (!rc && o->from)
        rc = ec_data_time("--from", o->from, o->store, o->host, NULL, &t->from_utc_ns, err);
    if (!rc && o->to)
        rc = ec_data_time("--to", o->to, o->store, o->host, NULL, &t->to_utc_ns, err);
    if (!rc) {
        size_t rules = ea_rules_count(t->rules) + ea_rules_correlation_count(t->rules);
        t->matches = calloc(rules + 1, sizeof *t->matches);
        t->suppressed = calloc(rules + 1, sizeof *t->suppressed);
        t->is_tested = calloc(ea_rules_group_count(t->rules) + 1, 1);
        t->is_rule_tested = calloc(rules + 1, 1);
        if (!t->is_rule_tested || !t->matches || !t->suppressed || !t->is_tested ||
            ea_rules_run_create(&t->run, t->rules))
            rc = ea_fail(err, EA_ENOMEM, "run the rules");
    }
    if (!rc && ea_rules_correlation_count(t->rules))
        rc = ec_stored_correlations_create(&t->correlations, t->rules, err);
    return rc;
}

/* ---- without a store: the rules' own tests ---- */

static int own_tests_read(const test_options *o, int operand_count, char **operands, ec_rules_files *files,
                          ea_err *err) {
    if (o->host || o->from || o->to)
        return ea_fail(err, EA_EUSAGE, "--host, --from and --to choose stored events: give --store, too");
    return ec_rules_files_read(files, operand_count, operands, err);
}

static int run_own_tests(const test_options *o, int operand_count, char **operands) {
    ea_err err = {0};
    ea_rule_tests tests;
    ec_own_tests_sum sum = {.tested = 0};
    ea_text out;
    ea_rule_tests_init(&tests);
    ea_text_init(&out);
    ec_rules_files files = {.is_json = o->json, .tests = &tests};
    int rc = own_tests_read(o, operand_count, operands, &files, &err);
    ea_text_str(&out, o->json ? "{\"tests\": [" : "");
    if (!rc)
        rc = ec_own_tests_run(files.rules, &tests, o->json, &out, &sum, &err);
    if (!rc) {
        ea_text_str(&out, o->json ? "],\n\"problems\": [" : "");
        ea_text_add(&out, files.problems.data, files.problems.len_bytes);
        ea_text_printf(&out,
                       o->json ? "],\n\"rules\": %zu, \"tested\": %" PRIu64 ", \"test_count\": %" PRIu64
                                 ", \"failed\": %" PRIu64 ", \"left_out\": %" PRIu64 "}\n"
                               : "%zu rules and correlations, %" PRIu64 " with tests; %" PRIu64 " tests, %" PRIu64
                                 " failed, %" PRIu64 " of documents that are no rules\n",
                       ea_rules_count(files.rules) + ea_rules_correlation_count(files.rules), sum.tested, sum.tests,
                       sum.failed, sum.left_out);
        rc = ec_answer_write(&out, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    int code = rc                    ? ea_exit_code(rc)
               : sum.failed          ? TEST_EXIT_FAILED
               : files.mistake_count ? ea_exit_code(EA_EFORMAT)
                                     : 0;
    ec_rules_files_deinit(&files);
    ea_rule_tests_deinit(&tests);
    ea_text_deinit(&out);
    return code;
}

static int rules_test_run(const void *arg, int operand_count, char **operands) {
    const test_options *o = arg;
    ea_err err = {0};
    if (!o->store)
        return run_own_tests(o, operand_count, operands);
    ea_sigma_tables *tables = NULL;
    ec_rules_files files = {.is_json = o->json};
    rules_test t = {.options = o, .err = &err};
    ea_text_init(&t.out);
    ea_arena_init(&t.arena, 1 << 20);
    for (size_t i = 0; i < sizeof t.cells / sizeof *t.cells; i++)
        ea_text_init(&t.cells[i]);
    int rc = ea_sigma_tables_create(&tables, ea_sigma_files, &err);
    if (!rc)
        rc = ec_rules_files_read(&files, operand_count, operands, &err);
    t.rules = files.rules;
    if (!rc)
        rc = test_open(&t, o, &err);
    if (!rc && o->json)
        ea_text_str(&t.out, "{\"matches\": [");
    if (!rc)
        rc = test_all(&t, tables);
    if (!rc && t.correlations)
        rc = ec_stored_correlations_judge(t.correlations, test_on_correlation, &t, &t.left_out, &err);
    if (!rc) {
        test_print_end(&t, &files);
        rc = ec_answer_write(&t.out, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    int code = rc ? ea_exit_code(rc) : files.mistake_count ? ea_exit_code(EA_EFORMAT) : 0;
    if (!rc && t.worst.ending != EC_ENDED_WHOLE)
        code = TEST_EXIT_LIMIT;
    for (size_t i = 0; i < sizeof t.cells / sizeof *t.cells; i++)
        ea_text_deinit(&t.cells[i]);
    ea_arena_deinit(&t.arena);
    ea_text_deinit(&t.out);
    ea_rules_run_destroy(t.run);
    ec_stored_correlations_destroy(t.correlations);
    free(t.matches);
    free(t.suppressed);
    free(t.is_tested);
    free(t.is_rule_tested);
    ec_archive_close(t.archive);
    ec_rules_files_deinit(&files);
    ea_sigma_tables_destroy(tables);
    return code;
}

static const ea_option TEST_OPTIONS[] = {
    {.name = "store",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(test_options, store),
     .help = "the collector's folder; without it the rules' own tests are run"},
    {EC_HOST_OF(test_options, host), .help = "only this agent's events"},
    {EC_FROM_OF(test_options, from), .help = "only events from this time on"},
    {EC_TO_OF(test_options, to), .help = "only events before this time"},
    {.name = "matches",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(test_options, limit_matches),
     .fallback = "100",
     .help = "print at most so many matches; all are counted",
     .max = 1000000},
    {.name = "time-limit",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(test_options, limit_ns),
     .fallback = "10m",
     .help = "how long the events of one class may take",
     .min = 1000000,
     .max = INT64_C(7) * 86400 * 1000000000},
    {.name = "memory",
     .argument = "BYTES",
     .type = EA_OPT_SIZE,
     .offset = offsetof(test_options, limit_bytes),
     .fallback = "1GiB",
     .help = "memory of the process that reads the store",
     .min = 16 << 20,
     .max = UINT64_C(1) << 40},
    {.name = "temp",
     .argument = "BYTES",
     .type = EA_OPT_SIZE,
     .offset = offsetof(test_options, limit_temp_bytes),
     .fallback = "4GiB",
     .help = "temporary files of that process",
     .max = UINT64_C(1) << 44},
    {EC_WAIT_OF(test_options, wait_ns), .help = "how long to wait until all stored batches are in the history"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(test_options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_rules_test = {
    .name = "rules test",
    .operands = "RULES...",
    .summary = "Run Sigma rules on the stored events of a time range, or their own tests",
    .details =
        "RULES are rule files (.yml, .yaml) or folders of them, as for rules check. Prints the events that rules "
        "match, "
        "with\nthe fields that the rules of the log source name, then how often each rule matched. Rules of services, "
        "rules of log\nsources that no event serves, and fields that rules check lists as missing are not tested.\n"
        "--json: {matches: [{time, host, pid, title, level, file, line, fields}], rules: [{file, line, title, tested, "
        "matches,\nsuppressed}], problems (as rules check), tested, fired, events, match_count, suppressed, left_out, "
        "ended, behind_batches,\ndamaged_batches}. Correlations are among the rules, and their detections among the "
        "matches, by time after those of rules.\n"
        "Without --store the tests that are in the rule files are run (tests: {positive: [{FIELD: VALUE}], negative: "
        "[...]}; of a\ncorrelation: [{at: 30s, rule: NAME, event: {...}}]), and those that fail are printed. --json: "
        "{tests: [{file, "
        "line, title,\nexpected, matches, fields, mistake}], problems, rules, tested, test_count, failed, left_out}.\n"
        "Exit codes: 0 done, 1 failed, also a test, 2 usage, 3 a rule file has a mistake, 4 ended at a limit.\n\n"
        "  etwcollector rules test --store /var/lib/etwcollector --from -30d rules/windows\n"
        "  etwcollector rules test rules/windows",
    .options = TEST_OPTIONS,
    .options_size = sizeof(test_options),
    .run = rules_test_run,
    .min_operands = 1,
    .max_operands = -1,
};
