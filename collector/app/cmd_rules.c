/* etwcollector rules check: which Sigma rules of a folder can fire, and what the others lack. Called by: main.c. Calls:
 * rules_coverage.h, proto/rules. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/rules_attack.h"
#include "collector/app/rules_coverage.h"
#include "collector/detect/rules_files.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_PARTS_MAX = 16 };

typedef struct check_options {
    const char *agent_config, *store, *host;
    int json, attack, navigator;
} check_options;

/* ---- what would bring more ---- */

/* Options that are not set, together, and how many rules need no more than these to be full. */
typedef struct rules_gain {
    char *options; /* sorted, with " + " between */
    uint64_t count;
} rules_gain;

typedef struct rules_report {
    const ec_coverage *coverage;
    const ea_rules *rules;
    ea_text out;
    int json;
    uint64_t counts[EC_COVERAGE_VERDICTS];
    rules_gain *gains;
    size_t gain_count, gain_capacity;
} rules_report;

typedef struct rules_part {
    const char *text;
    size_t len;
} rules_part;

/* The options that a rule lacks. */
typedef struct rules_lack {
    rules_part parts[RULES_PARTS_MAX];
    size_t count;
    int is_hopeless; /* nothing, or nothing in this list, makes the rule full */
} rules_lack;

static int rules_compare_parts(const void *a, const void *b) {
    const rules_part *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->text, y->text, n);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void rules_add_part(rules_lack *l, const char *text, size_t len) {
    for (size_t i = 0; i < l->count; i++)
        if (l->parts[i].len == len && memcmp(l->parts[i].text, text, len) == 0)
            return;
    if (l->count == RULES_PARTS_MAX)
        l->is_hopeless = 1;
    else
        l->parts[l->count++] = (rules_part){text, len};
}

/* The parts of a row's option that are not set. */
static void rules_lacks(const ec_coverage *c, const ea_sigma_row *row, rules_lack *l) {
    const char *at = row->option, *text, *value;
    size_t len, value_len;
    enum ea_sigma_option kind;
    int is_lacking = 0;
    while (ea_sigma_option_next(&at, &kind, &text, &len, &value, &value_len)) {
        l->is_hopeless |= kind == EA_SIGMA_NONE || kind == EA_SIGMA_PART;
        if (ec_coverage_lacks(c, row, kind, value, value_len)) {
            rules_add_part(l, text, len);
            is_lacking = 1;
        }
    }
    l->is_hopeless |= !is_lacking; /* of a host, the events are missing, not an option */
}

static int rules_note_gain(rules_report *r, rules_lack *l, ea_err *err) {
    ea_text t;
    int rc = 0;
    if (l->is_hopeless || !l->count)
        return 0;
    qsort(l->parts, l->count, sizeof *l->parts, rules_compare_parts);
    ea_text_init(&t);
    for (size_t i = 0; i < l->count; i++) {
        ea_text_str(&t, i ? " + " : "");
        ea_text_add(&t, l->parts[i].text, l->parts[i].len);
    }
    if (t.failed)
        rc = ea_fail(err, EA_ENOMEM, "count the rules");
    for (size_t i = 0; i < r->gain_count && !rc; i++)
        if (strcmp(r->gains[i].options, t.data) == 0) {
            r->gains[i].count++;
            ea_text_deinit(&t);
            return 0;
        }
    char *options = rc ? NULL : strdup(t.data);
    if (!rc && (!options || EA_GROW(r->gains, r->gain_capacity, r->gain_count + 1, SIZE_MAX)))
        rc = ea_fail(err, EA_ENOMEM, "count the rules");
    if (rc)
        free(options);
    else
        r->gains[r->gain_count++] = (rules_gain){options, 1};
    ea_text_deinit(&t);
    return rc;
}

static int rules_compare_gains(const void *a, const void *b) {
    const rules_gain *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->options, y->options);
}

/* ---- the answer ---- */

static const char NO_EVENTS[] = "none: no event of this program serves this log source";
static const char NO_ROW[] = "none: no event of this log source has this field";

static void rules_print_missing(rules_report *r, const char *field, enum ec_coverage_state state, const char *option,
                                int is_first) {
    ea_text *t = &r->out;
    if (r->json) {
        ea_text_str(t, is_first ? "{\"field\": " : ", {\"field\": ");
        ea_text_json_str(t, field);
        ea_text_printf(t, ", \"state\": \"%s\", \"option\": ", state == EC_COVERAGE_PART ? "part" : "missing");
        ea_text_json_str(t, option);
        ea_text_char(t, '}');
    } else {
        ea_text_str(t, "        ");
        if (field)
            ea_text_safe(t, field, strlen(field));
        else
            ea_text_str(t, "all fields");
        ea_text_printf(t, ": %s\n", option);
    }
}

static void rules_print_head(rules_report *r, const ea_rule_info *info, enum ec_coverage_verdict verdict, uint32_t n) {
    ea_text *t = &r->out;
    if (!r->json) {
        ea_text_printf(t, "%-7s ", ec_coverage_words[verdict]);
        ea_text_safe(t, info->file, strlen(info->file));
        ea_text_printf(t, ":%" PRIu32 ": ", info->line);
        ea_text_safe(t, info->title, strlen(info->title));
        ea_text_char(t, '\n');
        return;
    }

    const struct {
        const char *name, *value;
    } TEXTS[] = {{"file", info->file},         {"title", info->title},    {"id", info->id},
                 {"level", info->level},       {"status", info->status},  {"product", info->product},
                 {"category", info->category}, {"service", info->service}};

    ea_text_str(t, n ? ",\n  {" : "\n  {");
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        ea_text_printf(t, "\"%s\": ", TEXTS[i].name);
        ea_text_json_str(t, TEXTS[i].value);
        ea_text_str(t, ", ");
    }
    ea_text_printf(t, "\"line\": %" PRIu32 ", \"coverage\": \"%s\", \"missing\": [", info->line,
                   ec_coverage_words[verdict]);
}

static int rules_print_rule(rules_report *r, uint32_t rule, ea_err *err) {
    const ea_rule_info *info = ea_rules_info(r->rules, rule);
    const ea_sigma_source *s = ec_coverage_source(r->coverage, info);
    const ea_sigma_row *row = NULL;
    enum ec_coverage_verdict verdict = EC_COVERAGE_NEVER;
    rules_lack lack = {0};
    int is_first = 1;
    int rc = ec_coverage_of_rule(r->coverage, r->rules, rule, &verdict, err);
    if (rc)
        return rc;
    r->counts[verdict]++;
    rules_print_head(r, info, verdict, rule);
    if (!s) {
        rules_print_missing(r, NULL, EC_COVERAGE_MISSING, NO_EVENTS, 1);
        lack.is_hopeless = 1;
    } else if (!info->field_count && ec_coverage_events(r->coverage, s, &row) == EC_COVERAGE_MISSING) {
        rules_print_missing(r, NULL, EC_COVERAGE_MISSING, row->option, 1);
        rules_lacks(r->coverage, row, &lack);
    }
    for (uint32_t i = 0; s && i < info->field_count; i++) {
        enum ec_coverage_state state = ec_coverage_field(r->coverage, s, info->fields[i], &row);
        if (state == EC_COVERAGE_THERE)
            continue;
        rules_print_missing(r, info->fields[i], state, row ? row->option : NO_ROW, is_first);
        is_first = 0;
        if (row)
            rules_lacks(r->coverage, row, &lack);
        else
            lack.is_hopeless = 1;
    }
    if (r->json)
        ea_text_str(&r->out, "]}");
    return verdict == EC_COVERAGE_FULL ? 0 : rules_note_gain(r, &lack, err);
}

static void rules_print_end(rules_report *r, const ec_rules_files *files) {
    ea_text *t = &r->out;
    if (r->gain_count)
        qsort(r->gains, r->gain_count, sizeof *r->gains, rules_compare_gains);
    if (r->json) {
        ea_text_str(t, "],\n\"problems\": [");
        ea_text_add(t, files->problems.data, files->problems.len_bytes);
        ea_text_str(t, "],\n\"gains\": [");
    } else {
        ea_text_add(t, files->problems.data, files->problems.len_bytes);
    }
    for (size_t i = 0; i < r->gain_count; i++)
        if (r->json) {
            ea_text_str(t, i ? ", {\"options\": " : "{\"options\": ");
            ea_text_json_str(t, r->gains[i].options);
            ea_text_printf(t, ", \"rules\": %" PRIu64 "}", r->gains[i].count);
        } else {
            ea_text_printf(t, "%" PRIu64 " more full with %s\n", r->gains[i].count, r->gains[i].options);
        }
    ea_text_printf(
        t,
        r->json ? "],\n\"files\": %" PRIu64 ", \"rule_count\": %" PRIu64 ", \"full\": %" PRIu64 ", \"partly\": %" PRIu64
                  ", \"never\": %" PRIu64 ", \"mistakes\": %" PRIu64 ", \"unsupported\": %" PRIu64
                  ", \"filters\": %" PRIu64 ", \"correlations\": %" PRIu64 "}\n"
                : "%" PRIu64 " files, %" PRIu64 " rules: %" PRIu64 " full, %" PRIu64 " partly, %" PRIu64
                  " never; documents with a mistake: %" PRIu64 ", not supported: %" PRIu64 "; filters: %" PRIu64
                  ", correlations: %" PRIu64 "\n",
        files->file_count, (uint64_t)ea_rules_count(r->rules), r->counts[EC_COVERAGE_FULL],
        r->counts[EC_COVERAGE_PARTLY], r->counts[EC_COVERAGE_NEVER], files->mistake_count, files->unsupported_count,
        (uint64_t)ea_rules_filter_count(r->rules), (uint64_t)ea_rules_correlation_count(r->rules));
}

static int rules_print_all(rules_report *r, const ec_rules_files *files, ea_err *err) {
    int rc = 0;
    if (r->json)
        ea_text_str(&r->out, "{\"rules\": [");
    for (uint32_t i = 0; !rc && i < ea_rules_count(r->rules); i++)
        rc = rules_print_rule(r, i, err);
    if (!rc)
        rules_print_end(r, files);
    return rc;
}

static int rules_check_run(const void *arg, int operand_count, char **operands) {
    const check_options *o = arg;
    ec_coverage *coverage = NULL;
    ea_err err = {0};
    ec_rules_files files = {.is_json = o->json};
    rules_report report = {.json = o->json};
    int rc = 0;
    ea_text_init(&report.out);
    int is_attack = o->attack || o->navigator;
    if (is_attack && o->host && !o->store)
        rc = ea_fail(&err, EA_EUSAGE, "--host needs --store");
    else if (!is_attack && !o->host != !o->store)
        rc = ea_fail(&err, EA_EUSAGE, "--host and --store belong together: give both or neither");
    else if (o->host && o->agent_config)
        rc = ea_fail(&err, EA_EUSAGE, "--host and --agent-config exclude each other: give one of them");
    if (!rc)
        rc = ec_rules_files_read(&files, operand_count, operands, &err);
    if (!rc && !o->host)
        rc = ec_coverage_open(&coverage, o->agent_config, NULL, NULL, &err);
    if (!rc && o->store)
        rc = ec_question_confine(o->store, &err);
    if (!rc && o->host)
        rc = ec_coverage_open(&coverage, NULL, o->store, o->host, &err);
    report.coverage = coverage;
    report.rules = files.rules;
    if (!rc && is_attack)
        rc = ec_attack_print(&report.out,
                             o->navigator ? EC_ATTACK_LAYER
                             : o->json    ? EC_ATTACK_JSON
                                          : EC_ATTACK_TEXT,
                             coverage, files.rules, o->store, o->host, &err);
    else if (!rc)
        rc = rules_print_all(&report, &files, &err);
    if (!rc)
        rc = ec_answer_write(&report.out, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    int code = rc ? ea_exit_code(rc) : files.mistake_count ? ea_exit_code(EA_EFORMAT) : 0;
    for (size_t i = 0; i < report.gain_count; i++)
        free(report.gains[i].options);
    free(report.gains);
    ec_rules_files_deinit(&files);
    ec_coverage_close(coverage);
    ea_text_deinit(&report.out);
    return code;
}

static const ea_option CHECK_OPTIONS[] = {
    {.name = "agent-config",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(check_options, agent_config),
     .help = "an agent's configuration or a profile: only what its sessions and its channels of the event log record "
             "counts; default: all that this version can record"},
    {EC_HOST_OF(check_options, host), .help = "with --store: only classes of events that this host has sent count"},
    {.name = "store",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(check_options, store),
     .help = "with --host: the collector's folder; with --attack also alone: what its detections say"},
    {.name = "attack",
     .type = EA_OPT_FLAG,
     .offset = offsetof(check_options, attack),
     .help = "list the techniques of ATT&CK that the rules' tags name, in place of the rules"},
    {.name = "navigator",
     .type = EA_OPT_FLAG,
     .offset = offsetof(check_options, navigator),
     .help = "print these techniques as a layer of ATT&CK Navigator (format 4.5)"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(check_options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_rules_check = {
    .name = "rules check",
    .operands = "RULES...",
    .summary = "List which Sigma rules can fire, and what the others lack",
    .details =
        "RULES are rule files (.yml, .yaml) or folders of them. Each rule is full (all fields of its detection are "
        "there),\npartly (its condition can hold without the fields that are missing, or a field has only a part of "
        "its "
        "value), or\nnever. For each missing field the options that bring it are printed: flags, images, provider (of "
        "a "
        "session),\npolicy (of Windows), log (an event log file that the agent reads), or none, with the reason. The "
        "end lists how\nmany more rules would be full with which options. Values of fields are not looked at, nor "
        "are keywords and\nlevels of providers.\n"
        "--json: {rules: [{file, title, id, level, status, product, category, service, line, coverage, missing: "
        "[{field (null: all),\nstate (missing, part), option}]}], problems: [{file, line, column, kind (mistake, "
        "unsupported), message}],\ngains: [{options, rules}], files, rule_count, full, partly, never, mistakes, "
        "unsupported, filters, correlations}.\n"
        "--attack: a technique is covered (a rule that names it is full), partly, or blind, with the numbers of rules, "
        "and with\n--store of detections. --json with it: {techniques: [{technique, state, full, partly, never, "
        "detections}], rules_without}.\n"
        "Exit codes: 0 all rules were read or are not supported, 1 failed, 2 usage, 3 a rule file has a mistake.\n\n"
        "  etwcollector rules check --agent-config config/profiles/security.yaml rules/windows",
    .options = CHECK_OPTIONS,
    .options_size = sizeof(check_options),
    .run = rules_check_run,
    .min_operands = 1,
    .max_operands = -1,
};
