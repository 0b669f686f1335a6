/* etwcollector rules test: Sigma rules on the stored events of a time range. Called by: main.c. Calls: rules_row.h,
 * proto/rules, collector/query/sql. Threads: the main one, and one for each of several statements at once. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/rules_own_tests.h"
#include "collector/detect/rules_files.h"
#include "collector/detect/rules_row.h"
#include "collector/detect/stored_correlations.h"
#include "collector/query/scan/archive.h"
#include "collector/query/scan/data_times.h"
#include "collector/query/sql/ask.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/state_worker.h"
#include "collector/store/sqlite_memory.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TEST_EXIT_FAILED = 1,
    TEST_EXIT_LIMIT = 4,
    WORKERS_MAX = 8,
    SHOWN_EVENTS = 16384, /* between updates of the terminal */
    SHOWN_NS = 200000000,
};

static const char TEST_DOING[] = "run the rules";

typedef struct test_options {
    const char *store, *host, *from, *to;
    int64_t limit_ns, wait_ns;
    uint64_t limit_bytes, limit_matches;
    int json;
} test_options;

/* A statement: a class of events of a log source, or a part of it. */
typedef struct test_task {
    const ea_sigma_source *source;
    uint32_t group;
    char class_name[256];
    char *table;
    ea_text out;  /* the matches that are printed */
    size_t *ends; /* of each of them in out */
    size_t printed, capacity;
} test_task;

typedef struct rules_test {
    const test_options *options;
    const ea_rules *rules;
    ec_archive *archive;
    int64_t from_utc_ns, to_utc_ns;
    uint64_t *matches, *suppressed;       /* by rule, and then by correlation */
    ec_stored_correlations *correlations; /* NULL: the files have none; workers hold the mutex */
    uint64_t left_out;                    /* by its bounds */
    uint8_t *is_tested;                   /* by group */
    uint8_t *is_rule_tested;              /* as matches */
    uint64_t event_count, match_count, suppressed_count, printed_count;
    ec_outcome worst; /* of the statements */
    ea_text out;
    ea_err *err;
    /* the statements, which workers take in turn */
    test_task *tasks;
    size_t task_count, task_capacity;
    const ea_sigma_source *source; /* of the classes that are listed */
    uint32_t group;
    ea_mutex *mutex;
    atomic_size_t next_task;
    atomic_int has_failed;
    size_t done_count; /* under the mutex, as the next two: what the terminal shows */
    uint64_t seen_count;
    int64_t shown_ns;
    int shows_progress;
} rules_test;

/* A thread that runs statements, each on the store as a connection of its own has it. */
typedef struct test_worker {
    rules_test *t;
    ea_thread *thread;
    ea_rules_run *run;
    ec_rules_row row;
    const ec_archive_stream *stream; /* of the last row */
    int64_t deadline_ns;             /* monotonic, of the statement */
    int is_late;
    uint64_t *matches, *suppressed; /* by rule */
    uint64_t event_count, match_count, suppressed_count, unshown_count;
    ec_outcome worst;
    test_task *task;
    int rc;
    ea_err err;
} test_worker;

static const char *test_cell(const test_worker *w, size_t i) {
    return w->row.cells[i].len_bytes ? w->row.cells[i].data : "";
}

static const char *test_column(const test_worker *w, enum ec_rules_head column) {
    const char *text = (const char *)sqlite3_column_text(w->row.st, column);
    return text ? text : "";
}

/* A match, or a detection of a correlation, up to its fields. pid NULL: it is not known. */
static void test_print_head(const rules_test *t, ea_text *out, const ea_rule_info *info, const char *time,
                            const char *host, const char *pid) {
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
    ea_text_str(out, "\n  {\"time\": ");
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

static void test_print_fields(test_worker *w) {
    ea_text *out = &w->task->out;
    int is_json = w->t->options->json;
    const char *before = "{";
    const ec_rules_statement *statement = &w->row.of->statement;
    for (size_t i = 0; i < statement->field_count; i++) {
        size_t column = EC_RULES_HEAD_COLUMNS + i;
        if (w->row.looks[column] == EC_LOOK_EMPTY)
            continue;
        if (is_json) {
            ea_text_str(out, before);
            ea_text_json_str(out, statement->names[i]);
            ea_text_str(out, ": ");
            ea_text_json_str(out, test_cell(w, column));
            before = ", ";
        } else {
            ea_text_printf(out, "    %s: ", statement->names[i]);
            ea_text_safe(out, test_cell(w, column), w->row.cells[column].len_bytes);
            ea_text_char(out, '\n');
        }
    }
    if (is_json)
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
    ea_text_str(&t->out, t->options->json && t->printed_count ? "," : "");
    test_print_head(t, &t->out, info, time.len_bytes ? time.data : "", d->host, d->has_pid ? pid : NULL);
    ea_text_str(&t->out, t->options->json ? "" : "    ");
    if (t->options->json)
        ea_text_str(&t->out, d->fields);
    else
        ea_text_safe(&t->out, d->fields, strlen(d->fields));
    ea_text_str(&t->out, t->options->json ? "}" : "\n");
    ea_text_deinit(&time);
    t->printed_count++;
}

/* The stream of the row, whose drives paths are named by; NULL: it arrived after the command began. */
static void test_set_stream(test_worker *w) {
    const char *host = test_column(w, EC_RULES_HOST), *id = test_column(w, EC_RULES_STREAM);
    if (!w->stream || strcmp(w->stream->id, id) != 0 || strcmp(w->stream->row.host, host) != 0)
        w->stream = ec_rules_find_stream(ec_sql_archive(w->row.sql), host, id);
    w->row.archived = w->stream;
}

/* A line on the terminal, five times a second at the most. is_done: of a statement. */
static void test_show(test_worker *w, int is_done) {
    rules_test *t = w->t;
    ea_mutex_lock(t->mutex);
    t->done_count += (size_t)is_done;
    t->seen_count += w->unshown_count;
    w->unshown_count = 0;
    if (t->shows_progress && ea_monotonic_ns() - t->shown_ns > SHOWN_NS) {
        t->shown_ns = ea_monotonic_ns();
        fprintf(stderr, "\r\x1b[K%zu of %zu classes of events, %" PRIu64 " events", t->done_count, t->task_count,
                t->seen_count);
    }
    ea_mutex_unlock(t->mutex);
}

static int test_correlate(test_worker *w, const ec_value *head, uint32_t rule) {
    if (!w->t->correlations)
        return 0;
    ea_mutex_lock(w->t->mutex);
    int rc = ec_stored_correlations_take(w->t->correlations, &w->row.of->statement, w->row.cells, w->row.looks, head,
                                         rule, &w->err);
    ea_mutex_unlock(w->t->mutex);
    return rc;
}

static int test_print_match(test_worker *w, uint32_t rule) {
    test_task *k = w->task;
    if (k->printed == w->t->options->limit_matches)
        return 0;
    if (EA_GROW(k->ends, k->capacity, k->printed + 1, SIZE_MAX))
        return ea_fail(&w->err, EA_ENOMEM, TEST_DOING);
    test_print_head(w->t, &k->out, ea_rules_info(w->t->rules, rule), test_cell(w, EC_RULES_TIME),
                    test_cell(w, EC_RULES_HOST),
                    w->row.looks[EC_RULES_PID] == EC_LOOK_EMPTY ? NULL : test_cell(w, EC_RULES_PID));
    test_print_fields(w);
    k->ends[k->printed++] = k->out.len_bytes;
    return k->out.failed ? ea_fail(&w->err, EA_ENOMEM, TEST_DOING) : 0;
}

static int test_take_matches(test_worker *w, const uint32_t *found, size_t found_count) {
    ec_value head[EC_RULES_HEAD_COLUMNS];
    int rc = ec_rules_row_fill(&w->row, &w->err);
    for (int i = 0; i < EC_RULES_HEAD_COLUMNS; i++)
        head[i] = ec_sql_cell(w->row.st, i);
    for (size_t i = 0; i < found_count && !rc; i++) {
        if (ea_rules_run_excepted(w->run, found[i], test_cell(w, EC_RULES_HOST), w->row.utc_ns) != UINT32_MAX) {
            w->suppressed[found[i]]++;
            w->suppressed_count++;
            continue;
        }
        w->matches[found[i]]++;
        w->match_count++;
        rc = test_correlate(w, head, found[i]);
        if (!rc)
            rc = test_print_match(w, found[i]);
    }
    return rc;
}

static void test_count(test_worker *w, uint64_t events) {
    w->event_count += events;
    w->unshown_count += events;
    if (w->unshown_count >= SHOWN_EVENTS)
        test_show(w, 0);
}

/* Runs the prepared statement of a class: 0 also at a limit, which *ret_ending has. */
static int test_run_rows(test_worker *w, const ec_rules_class *c, enum ec_ending *ret_ending) {
    int code = SQLITE_DONE, rc = 0;
    while (!rc && (code = sqlite3_step(c->prepared)) == SQLITE_ROW) {
        const uint32_t *found = NULL;
        size_t found_count = 0;
        test_set_stream(w);
        rc = ec_rules_row_judge(&w->row, 0, &found, &found_count, &w->err);
        if (rc)
            break;
        test_count(w, 1);
        rc = found_count ? test_take_matches(w, found, found_count) : 0;
    }
    if (c->columns)
        test_count(w, ec_rules_columns_take(c->columns));
    if (!rc && code != SQLITE_DONE && ec_sqlite_lacks_memory(code))
        rc = EA_ENOMEM;
    else if (!rc && code != SQLITE_DONE)
        rc = ec_rules_fail_sqlite(&w->err, ec_sql_database(w->row.sql), code);
    if (rc == EA_ENOMEM || (rc && ec_sqlite_memory_refused()))
        *ret_ending = EC_ENDED_MEMORY;
    else if (rc == EA_ECANCELED)
        *ret_ending = w->is_late ? EC_ENDED_TIME : EC_ENDED_CANCELED;
    else
        return rc;
    w->err = (ea_err){0};
    return 0;
}

static int test_keep_going(void *arg) {
    test_worker *w = arg;
    w->is_late |= ea_monotonic_ns() > w->deadline_ns;
    return !w->is_late && !atomic_load(ea_stop_flag()) && !atomic_load(&w->t->has_failed);
}

static int test_ask(test_worker *w, ec_rules_class *c) {
    const rules_test *t = w->t;
    ec_process_facts *facts = NULL;
    const char *damage;
    int code = SQLITE_OK;
    int64_t now_ns = ea_monotonic_ns();
    w->deadline_ns = t->options->limit_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + t->options->limit_ns;
    w->is_late = 0;
    w->stream = NULL;
    int rc = ec_sql_open(&w->row.sql, t->options->store,
                         &(ec_sql_options){.host = t->options->host, .keep_going = test_keep_going, .arg = w}, &w->err);
    if (!rc)
        rc = ec_process_facts_create(&facts, w->row.sql, &w->err);
    if (!rc)
        rc = ec_rules_class_prepare(c, w->row.sql, t->rules, w->run, w->task->group, 1, facts, &code, &w->err);
    if (!rc) {
        enum ec_ending ending = EC_ENDED_WHOLE;
        w->row.facts = facts;
        sqlite3_bind_int64(c->prepared, 1, t->from_utc_ns);
        sqlite3_bind_int64(c->prepared, 2, t->to_utc_ns);
        ec_rules_row_begin(&w->row, c);
        rc = test_run_rows(w, c, &ending);
        ec_rules_row_begin(&w->row, NULL);
        if (ending != EC_ENDED_WHOLE)
            w->worst.ending = ending;
        uint64_t damaged = ec_archive_damage(ec_sql_archive(w->row.sql), &damage);
        w->worst.damaged = damaged > w->worst.damaged ? damaged : w->worst.damaged;
    }
    sqlite3_finalize(c->prepared);
    c->prepared = NULL;
    ec_process_facts_destroy(facts);
    ec_sql_close(w->row.sql);
    w->row.sql = NULL;
    return rc;
}

static int test_run_task(test_worker *w, test_task *k) {
    ec_rules_class c = {.group = k->group};
    int rc = ec_rules_statement_make(&c.statement, w->t->rules, k->group, k->source, k->class_name,
                                     strlen(k->class_name), k->table, EC_RULES_OF_RANGE);
    if (rc)
        rc = ea_fail(&w->err, rc, "make the statement for %s", k->table);
    w->task = k;
    if (!rc)
        rc = test_ask(w, &c);
    ec_rules_class_deinit(&c);
    return rc;
}

static void test_work(void *arg) {
    test_worker *w = arg;
    rules_test *t = w->t;
    int rc = 0;
    ec_sqlite_memory_limit(t->options->limit_bytes);
    while (!rc && !atomic_load(&t->has_failed)) {
        size_t i = atomic_fetch_add(&t->next_task, 1);
        if (i >= t->task_count)
            break;
        rc = test_run_task(w, &t->tasks[i]);
        test_show(w, 1);
    }
    w->rc = rc;
    if (rc)
        atomic_store(&t->has_failed, 1);
}

static int test_worker_init(test_worker *w, rules_test *t) {
    *w = (test_worker){.t = t};
    ec_rules_row_init(&w->row);
    w->matches = calloc(ea_rules_count(t->rules) + 1, sizeof *w->matches);
    w->suppressed = calloc(ea_rules_count(t->rules) + 1, sizeof *w->suppressed);
    if (!w->matches || !w->suppressed || ea_rules_run_create(&w->run, t->rules))
        return ea_fail(&w->err, EA_ENOMEM, TEST_DOING);
    w->row.run = w->run;
    return 0;
}

static void test_worker_deinit(test_worker *w) {
    ec_rules_row_deinit(&w->row);
    ea_rules_run_destroy(w->run);
    free(w->matches);
    free(w->suppressed);
}

static void test_add_sums(rules_test *t, const test_worker *w) {
    for (size_t i = 0; i < ea_rules_count(t->rules); i++) {
        t->matches[i] += w->matches[i];
        t->suppressed[i] += w->suppressed[i];
    }
    t->event_count += w->event_count;
    t->match_count += w->match_count;
    t->suppressed_count += w->suppressed_count;
    if (w->worst.ending != EC_ENDED_WHOLE)
        t->worst.ending = w->worst.ending;
    if (w->worst.backlog > t->worst.backlog)
        t->worst.backlog = w->worst.backlog;
    if (w->worst.damaged > t->worst.damaged)
        t->worst.damaged = w->worst.damaged;
}

/* The matches of the statements in their order, whichever ended first. */
static void test_print_matches(rules_test *t) {
    for (size_t i = 0; i < t->task_count; i++) {
        const test_task *k = &t->tasks[i];
        size_t begin = 0;
        for (size_t m = 0; m < k->printed && t->printed_count < t->options->limit_matches; m++) {
            ea_text_str(&t->out, t->options->json && t->printed_count ? "," : "");
            ea_text_add(&t->out, k->out.data + begin, k->ends[m] - begin);
            begin = k->ends[m];
            t->printed_count++;
        }
    }
}

static int test_run_tasks(rules_test *t) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = t->task_count < WORKERS_MAX ? t->task_count : WORKERS_MAX, begun = 0;
    count = processors > 0 && (size_t)processors < count ? (size_t)processors : count;
    test_worker *workers = calloc(count + 1, sizeof *workers);
    int rc = workers ? 0 : ea_fail(t->err, EA_ENOMEM, TEST_DOING);
    for (; begun < count && !rc; begun++) {
        rc = test_worker_init(&workers[begun], t);
        if (!rc)
            rc = ea_thread_start(&workers[begun].thread, "rules test", test_work, &workers[begun], &workers[begun].err);
        if (rc) { /* it has no thread */
            workers[begun].rc = rc;
            atomic_store(&t->has_failed, 1);
        }
    }
    rc = workers ? 0 : rc;
    for (size_t i = 0; i < begun; i++) {
        if (workers[i].thread)
            ea_thread_join(workers[i].thread);
        if (workers[i].rc && !rc) {
            rc = workers[i].rc;
            *t->err = workers[i].err;
        }
        test_add_sums(t, &workers[i]);
        test_worker_deinit(&workers[i]);
    }
    free(workers);
    if (t->shows_progress)
        fputs("\r\x1b[K", stderr);
    if (!rc)
        test_print_matches(t);
    return rc;
}

static int test_add_class(void *arg, const char *class_name, size_t len) {
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
    for (size_t i = 0; i < count && !rc; i++) {
        if (EA_GROW(t->tasks, t->task_capacity, t->task_count + 1, SIZE_MAX))
            return ea_fail(t->err, EA_ENOMEM, TEST_DOING);
        test_task *k = &t->tasks[t->task_count++];
        *k = (test_task){.source = t->source, .group = t->group, .table = strdup(parts[i]->name)};
        snprintf(k->class_name, sizeof k->class_name, "%s", name);
        ea_text_init(&k->out);
        if (!k->table)
            rc = ea_fail(t->err, EA_ENOMEM, TEST_DOING);
    }
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
        rc = ec_rules_each_class(t->source, test_add_class, t);
    }
    return rc ? rc : test_run_tasks(t);
}

static void test_free_tasks(rules_test *t) {
    for (size_t i = 0; i < t->task_count; i++) {
        ea_text_deinit(&t->tasks[i].out);
        free(t->tasks[i].ends);
        free(t->tasks[i].table);
    }
    free(t->tasks);
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
        rc = ec_question_confine_with(o->store, &(ec_sandbox){.rights = EC_SANDBOX_THREADS}, err);
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
        if (!t->is_rule_tested || !t->matches || !t->suppressed || !t->is_tested)
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
    rules_test t = {.options = o, .err = &err, .shows_progress = isatty(STDERR_FILENO)};
    ea_text_init(&t.out);
    int rc = ec_sqlite_memory_start(&err);
    if (!rc)
        rc = ea_sigma_tables_create(&tables, ea_sigma_files, &err);
    if (!rc)
        rc = ec_rules_files_read(&files, operand_count, operands, &err);
    t.rules = files.rules;
    if (!rc)
        rc = ea_mutex_create(&t.mutex, &err);
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
    test_free_tasks(&t);
    ea_mutex_destroy(t.mutex);
    ea_text_deinit(&t.out);
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
     .help = "SQLite's memory of each thread that reads the store: one a processor, at most 8",
     .min = 16 << 20,
     .max = UINT64_C(1) << 40},
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
