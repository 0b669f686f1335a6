/* See detector.h. */
#include "collector/detect/detector.h"

#include "collector/detect/correlations.h"
#include "collector/detect/detector_reach.h"
#include "collector/detect/matched_row.h"
#include "collector/detect/rules_files.h"
#include "collector/detect/rules_row.h"
#include "collector/query/sql/sql.h"
#include "collector/state/detections.h"
#include "collector/state/state_db.h"
#include "collector/store/sqlite_memory.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_MS = 500,
    STREAMS_A_ROUND = 1024,
    QUICK_PART = 4,           /* of a turn */
    FADE_S = 10,              /* until what a host has taken counts half */
    HOSTS_MAX = 16384,        /* whose use is remembered; beyond it all of them begin anew */
    OPEN_MS = 1000,           /* of processor time, until what was read of streams is released */
    DEADLINE_ROWS = 64,       /* between looks at the time, which is a system call; or */
    DEADLINE_BYTES = 1 << 16, /* of their values */
    REFUSED_ATTEMPTS = 3,     /* rounds in which SQLite refuses a batch, until its rows are tried one by one */
    CHAIN_NAME_MAX_BYTES = 256,
    CHAIN_COMMAND_MAX_BYTES = 1024,
    CHAIN_PROCESS_MAX_BYTES = 1600, /* of JSON */
    FOUND_MAX_BYTES = 16 << 20,
};

#define NS_OF_MS(ms) ((int64_t)(ms)*1000000)

/* A class of a log source, prepared for the store of this round. */
typedef struct detector_class {
    ec_rules_class of;
    char name[256];
} detector_class;

typedef struct detector_match {
    uint64_t batch, position;
    int64_t utc_ns;
    uint32_t rule, pid;
    int has_pid;
    const char *process, *fields, *chain; /* in the arena */
} detector_match;

/* Matches of a rule in a batch that are not kept. */
typedef struct detector_left_out {
    uint64_t batch, count;
    uint32_t rule, filter; /* that excepts them; UINT32_MAX: beyond the bound */
} detector_left_out;

/* A stream of the round. */
typedef struct detector_turn {
    uint64_t taken_ns; /* by its host */
    size_t stream;
} detector_turn;

struct ec_detector {
    ec_detector_options options;
    char *store, *folder;
    ea_thread *thread;
    ea_mutex *mutex;
    ea_cond *cond;
    atomic_int stop, reload;
    ea_sigma_tables *tables;
    /* the thread's */
    ec_rules_files files;
    ea_rules_run *run;
    ec_detections *kept;
    ec_correlations *correlations;
    ec_detections_stream *streams; /* by host */
    size_t stream_count, stream_capacity;
    ec_detections_stream after; /* where this round begins, when the last one did not come to the end */
    int has_after;
    int is_left;         /* a turn has ended: more can be judged at once */
    ea_u64_map taken_ns; /* hash of a host -> processor time that its batches took, which fades */
    ea_u64_map used_ns;  /* likewise -> monotonic time at which it was judged last */
    int64_t faded_ns;    /* monotonic */
    detector_turn turns[STREAMS_A_ROUND];
    ec_sql *sql; /* of the round */
    sqlite3_stmt *process_of_key;
    ec_process_facts *facts;
    int is_broken;        /* it could not be opened in this round */
    int64_t opened_ns;    /* of the thread's processor time */
    uint64_t range_count; /* since it was opened */
    detector_class *classes;
    size_t class_count, class_capacity;
    const ea_sigma_source *source; /* while the classes are prepared */
    int64_t deadline_ns;           /* of the thread's processor time */
    ea_text unprepared;            /* lines: classes that were reported as not judged, or not all of their events */
    ea_u64_map refused;            /* hash of a stream -> rounds in which SQLite refused its batch at hand */
    uint64_t row_bytes;            /* of values that were judged since the last look at the time */
    int is_by_rows;                /* this batch's rows are tried before they are judged */
    /* of the range of batches at hand */
    detector_match *matches;
    size_t match_count, match_capacity;
    detector_left_out *left_out;
    size_t left_out_count, left_out_capacity;
    ec_correlation_hit *hits; /* texts are in the arena */
    size_t hit_count, hit_capacity;
    uint32_t *counts; /* matches by rule */
    uint64_t event_count;
    ea_arena arena;
    ec_rules_row event;
    ec_matched_row row; /* of that */
    char said[400];     /* the last failure that was reported */
};

static void detector_note(const ec_detector *d, const char *text) {
    if (d->options.on_note)
        d->options.on_note(d->options.arg, text);
}

/* A line about a class, once until the rules are read again. */
static void detector_note_once(ec_detector *d, const char *name, const char *text) {
    char key[260];
    snprintf(key, sizeof key, "%s\n", name);
    if (d->unprepared.len_bytes && strstr(d->unprepared.data, key))
        return;
    ea_text_str(&d->unprepared, key);
    detector_note(d, text);
}

/* ---- rules ---- */

/* Whether a rule is of a log source whose events are judged. */
static int detector_asks(const ec_detector *d, const ea_rule_info *info) {
    size_t count = 0;
    const ea_sigma_source *sources = ea_sigma_sources(d->tables, &count);
    int is_known = 0;
    for (size_t i = 0; i < count && !is_known; i++)
        is_known = !sources[i].is_service && strcmp(sources[i].name, info->category) == 0;
    return is_known && strcmp(info->product, "windows") == 0 && !*info->service;
}

static void note_rules(const ec_detector *d, const ec_rules_files *f) {
    const char *at = f->problems.len_bytes ? f->problems.data : "";
    uint64_t all = f->mistake_count + f->unsupported_count;
    size_t unasked = 0;
    char line[1000];
    for (int i = 0; *at && i < EC_DETECTOR_PROBLEMS_MAX; i++) {
        size_t len = strcspn(at, "\n");
        snprintf(line, sizeof line, "rule is not used: %.*s", len > 900 ? 900 : (int)len, at);
        detector_note(d, line);
        at += len + (at[len] != 0);
    }
    snprintf(line, sizeof line,
             "%zu Sigma rules, %zu filters and %zu correlations of %.500s, %" PRIu64 " are not used%s",
             ea_rules_count(f->rules), ea_rules_filter_count(f->rules), ea_rules_correlation_count(f->rules), d->folder,
             all, all > EC_DETECTOR_PROBLEMS_MAX ? "; etwcollector rules check lists all" : "");
    detector_note(d, line);
    for (uint32_t i = 0; i < ea_rules_count(f->rules); i++)
        unasked += !detector_asks(d, ea_rules_info(f->rules, i));
    if (unasked) {
        snprintf(line, sizeof line,
                 "%zu of these rules are not run: they are of a service, or of a log source without a table", unasked);
        detector_note(d, line);
    }
}

/* Replaces the rules when the new ones can be read. */
static int load_rules(ec_detector *d, ea_err *err) {
    ec_rules_files files = {.is_json = 0};
    ea_rules_run *run = NULL;
    uint32_t *counts = NULL;
    int rc = ec_rules_files_read(&files, 1, &d->folder, err);
    if (!rc) {
        counts = calloc(ea_rules_count(files.rules) + 1, sizeof *counts);
        if (!counts || ea_rules_run_create(&run, files.rules))
            rc = ea_fail(err, EA_ENOMEM, "read the rules");
    }
    if (rc) {
        free(counts);
        ea_rules_run_destroy(run);
        ec_rules_files_deinit(&files);
        return rc;
    }
    ea_rules_run_destroy(d->run);
    ec_rules_files_deinit(&d->files);
    free(d->counts);
    d->files = files;
    d->run = run;
    d->counts = counts;
    ea_text_clear(&d->unprepared);
    note_rules(d, &d->files);
    return 0;
}

/* ---- the events of a range of batches ---- */

/* ---- the process and its parents ---- */

enum chain_column {
    CHAIN_STREAM,
    CHAIN_INSTANCE,
    CHAIN_PID,
    CHAIN_NAME,
    CHAIN_COMMAND,
    CHAIN_ACCOUNT,
    CHAIN_BEGIN,
    CHAIN_PARENT_KEY
};

static const char CHAIN_SQL[] = "SELECT stream, instance, pid, image_name, command_line, account, begin, parent_key"
                                " FROM processes WHERE process_key = ?1";

static void chain_add_text(ec_detector *d, sqlite3_stmt *st, const char *name, enum chain_column column,
                           size_t limit_bytes) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    ea_text_printf(&d->row.json, ", \"%s\": ", name);
    if (text)
        ec_matched_row_add_cut(&d->row, text, (size_t)sqlite3_column_bytes(st, column), limit_bytes);
    else
        ea_text_str(&d->row.json, "null");
}

static void chain_add_process(ec_detector *d, sqlite3_stmt *st) {
    ea_text *t = &d->row.json;
    ea_text_printf(t, "{\"stream\": \"%s\", \"instance\": %lld, \"pid\": %lld",
                   (const char *)sqlite3_column_text(st, CHAIN_STREAM),
                   (long long)sqlite3_column_int64(st, CHAIN_INSTANCE), (long long)sqlite3_column_int64(st, CHAIN_PID));
    chain_add_text(d, st, "image_name", CHAIN_NAME, CHAIN_NAME_MAX_BYTES);
    chain_add_text(d, st, "command_line", CHAIN_COMMAND, CHAIN_COMMAND_MAX_BYTES);
    chain_add_text(d, st, "account", CHAIN_ACCOUNT, CHAIN_NAME_MAX_BYTES);
    if (sqlite3_column_type(st, CHAIN_BEGIN) == SQLITE_NULL) {
        ea_text_str(t, ", \"begin\": null}");
    } else {
        ea_text_str(t, ", \"begin\": \"");
        ea_text_utc_ns(t, sqlite3_column_int64(st, CHAIN_BEGIN));
        ea_text_str(t, "\"}");
    }
}

/* The process of a row, its parent, and so on, as a JSON array; NULL: there is none, or no memory. A parent that cannot
 * be read ends it. */
static const char *match_chain(ec_detector *d, const ec_process *process) {
    sqlite3_stmt *st = d->process_of_key;
    sqlite3_int64 key = process ? process->key : 0;
    int has_more = process != NULL;
    ea_text_clear(&d->row.json);
    for (int i = 0; has_more && i < EC_DETECTOR_CHAIN_MAX &&
                    d->row.json.len_bytes + CHAIN_PROCESS_MAX_BYTES < EC_DETECTOR_CHAIN_MAX_BYTES;
         i++) {
        sqlite3_bind_int64(st, 1, key);
        has_more = sqlite3_step(st) == SQLITE_ROW;
        if (has_more) {
            ea_text_str(&d->row.json, i ? ", " : "[");
            chain_add_process(d, st);
            key = sqlite3_column_int64(st, CHAIN_PARENT_KEY);
            has_more = sqlite3_column_type(st, CHAIN_PARENT_KEY) != SQLITE_NULL;
        }
        sqlite3_reset(st);
    }
    if (!d->row.json.len_bytes)
        return NULL;
    ea_text_char(&d->row.json, ']');
    return d->row.json.failed || d->row.cut.failed ? NULL : ea_arena_strdup(&d->arena, d->row.json.data);
}

static int leave_out(ec_detector *d, uint32_t rule, uint32_t filter, uint64_t batch, ea_err *err) {
    for (size_t i = d->left_out_count; i-- > 0;)
        if (d->left_out[i].rule == rule && d->left_out[i].filter == filter && d->left_out[i].batch == batch) {
            d->left_out[i].count++;
            return 0;
        }
    if (EA_GROW(d->left_out, d->left_out_capacity, d->left_out_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "run the rules");
    d->left_out[d->left_out_count++] = (detector_left_out){.rule = rule, .filter = filter, .batch = batch, .count = 1};
    return 0;
}

/* ---- correlations ---- */

static int detector_take_hit(ec_detector *d, const detector_match *m, uint32_t correlation, ea_err *err) {
    ec_correlation_hit h = {.correlation = correlation,
                            .rule = m->rule,
                            .batch = m->batch,
                            .position = m->position,
                            .utc_ns = m->utc_ns,
                            .pid = m->pid,
                            .has_pid = m->has_pid};
    if (ec_matched_row_hit(&d->row, ea_rules_correlation(d->files.rules, correlation), &h))
        return leave_out(d, m->rule, UINT32_MAX, m->batch, err);
    if (EA_GROW(d->hits, d->hit_capacity, d->hit_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "run the rules");
    d->hits[d->hit_count++] = h;
    return 0;
}

/* A match for each correlation of its rule. */
static int take_hits(ec_detector *d, const detector_match *m, ea_err *err) {
    int rc = 0;
    for (uint32_t i = 0; i < ea_rules_correlation_count(d->files.rules) && !rc; i++) {
        const ea_rule_correlation *r = ea_rules_correlation(d->files.rules, i);
        uint32_t k = 0;
        while (k < r->rule_count && r->rules[k] != m->rule)
            k++;
        if (k < r->rule_count)
            rc = detector_take_hit(d, m, i, err);
    }
    return rc;
}

/* Where and when the row at hand happened, and in which process. */
static int match_of_row(ec_detector *d, sqlite3_stmt *st, detector_match *ret, const ec_process **ret_process,
                        ea_err *err) {
    *ret = (detector_match){.batch = (uint64_t)sqlite3_column_int64(st, EC_RULES_BATCH),
                            .position = (uint64_t)sqlite3_column_int64(st, EC_RULES_POSITION),
                            .utc_ns = d->event.utc_ns,
                            .pid = (uint32_t)sqlite3_column_int64(st, EC_RULES_PID)};
    int rc = ec_rules_row_fill(&d->event, err);
    if (!rc)
        rc = ec_rules_row_process(&d->event, EC_RULES_OF_PROCESS, ret_process, err);
    if (rc)
        return rc;
    if (*ret_process && (*ret_process)->facts[EC_FACT_ID].text)
        ret->pid = (uint32_t)strtoll((*ret_process)->facts[EC_FACT_ID].text, NULL, 10);
    ret->has_pid = ret->pid != UINT32_MAX;
    return 0;
}

static int take_matches(ec_detector *d, sqlite3_stmt *st, const char *host, const uint32_t *rules, size_t count,
                        ea_err *err) {
    detector_match m;
    const ec_process *process = NULL;
    int got = match_of_row(d, st, &m, &process, err);
    if (got)
        return got;
    int is_kept = 0;
    for (size_t i = 0; i < count; i++) {
        m.rule = rules[i];
        uint32_t filter = ea_rules_run_excepted(d->run, m.rule, host, m.utc_ns);
        int rc = 0;
        if (filter != UINT32_MAX) {
            if ((rc = leave_out(d, m.rule, filter, m.batch, err)))
                return rc;
            continue;
        }
        if ((rc = take_hits(d, &m, err)))
            return rc;
        if (ea_rules_info(d->files.rules, m.rule)->is_part)
            continue;
        if (d->counts[m.rule] < EC_DETECTIONS_AN_HOUR && !is_kept) {
            m.fields = ec_matched_row_fields(&d->row);
            m.process = ec_matched_row_process(&d->row);
            m.chain = match_chain(d, process);
            is_kept = 1;
        }
        if (d->counts[m.rule] >= EC_DETECTIONS_AN_HOUR || !m.fields)
            rc = leave_out(d, m.rule, UINT32_MAX, m.batch, err);
        else if (EA_GROW(d->matches, d->match_capacity, d->match_count + 1, SIZE_MAX))
            rc = ea_fail(err, EA_ENOMEM, "run the rules");
        else
            d->matches[d->match_count++] = m;
        d->counts[m.rule]++;
        if (rc)
            return rc;
    }
    return 0;
}

static int judge_row(ec_detector *d, sqlite3_stmt *st, const char *host, int judges, ea_err *err) {
    size_t found_count = 0;
    const uint32_t *found = NULL;
    int rc = ec_rules_row_judge(&d->event, !judges, &found, &found_count, err);
    d->row_bytes += d->event.len_bytes;
    d->event_count += judges && !rc;
    d->row.statement = &d->event.of->statement;
    return rc || !found_count ? rc : take_matches(d, st, host, found, found_count, err);
}

/* ---- rows that SQLite refuses ---- */

static void bind_range(sqlite3_stmt *st, const ec_detections_stream *s, uint64_t last, uint64_t from, uint64_t to) {
    sqlite3_bind_text(st, 1, s->host, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, s->stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)s->next);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)last);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)from);
    sqlite3_bind_int64(st, 6, (sqlite3_int64)to);
}

/* Judges the rows of a statement whose range is bound. EA_ECANCELED: the time is over. EA_EFORMAT: SQLite refuses a
 * row, which is not among those that were judged. judges 0: the rows are read alone. */
static int judge_rows(ec_detector *d, const ec_rules_class *c, const char *host, int judges, ea_err *err) {
    sqlite3_stmt *st = c->prepared;
    int code = SQLITE_DONE, rc = 0;
    uint64_t rows = 0;
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        rc = judge_row(d, st, host, judges, err);
        if (!rc && (++rows % DEADLINE_ROWS == 0 || d->row_bytes > DEADLINE_BYTES)) {
            d->row_bytes = 0;
            rc = ea_thread_cpu_ns() > d->deadline_ns ? EA_ECANCELED : 0;
        }
    }
    if (!rc && code != SQLITE_DONE)
        rc = ec_rules_fail_sqlite(err, ec_sql_database(d->sql), code);
    sqlite3_reset(st);
    uint64_t left = c->columns ? ec_rules_columns_take(c->columns) : 0;
    d->event_count += judges ? left : 0;
    return rc;
}

static void refuse_row(ec_detector *d, const detector_class *c, const ec_detections_stream *s, uint64_t position,
                       const char *why) {
    char line[700];
    ea_count(d->options.counters, EA_COUNT_rules_refused, 1);
    snprintf(line, sizeof line,
             "rules are not run on an event of %.100s, host %.100s, stream %s, batch %" PRIu64 ", position %" PRIu64
             ": %.200s; etwcollector_rules_refused_total counts such events",
             c->name, s->host, s->stream, s->next, position, why);
    detector_note_once(d, why, line);
}

/* Judges the rows of a batch at positions from to to without those that SQLite refuses: halves are tried until a half
 * has none, or is one. */
static int judge_allowed(ec_detector *d, const detector_class *c, const ec_detections_stream *s, uint64_t from,
                         uint64_t to, ea_err *err) {
    ea_err why = {0};
    bind_range(c->of.prepared, s, s->next, from, to);
    int rc = judge_rows(d, &c->of, s->host, 0, &why);
    if (!rc)
        return judge_rows(d, &c->of, s->host, 1, err);
    if (rc == EA_EFORMAT && from == to) {
        refuse_row(d, c, s, from, why.message);
        return 0;
    }
    if (rc != EA_EFORMAT) {
        *err = why;
        return rc;
    }
    uint64_t middle = from + (to - from) / 2;
    rc = judge_allowed(d, c, s, from, middle, err);
    return rc ? rc : judge_allowed(d, c, s, middle + 1, to, err);
}

/* Asks the rules of one class. Errors: of judge_rows. */
static int judge_class(ec_detector *d, detector_class *c, const ec_detections_stream *s, uint64_t last, ea_err *err) {
    int rc = 0;
    d->event.host = s->host;
    d->event.stream = s->stream;
    ec_rules_row_begin(&d->event, &c->of);
    if (d->is_by_rows) {
        rc = judge_allowed(d, c, s, 0, EA_BATCH_MAX_EVENTS - 1, err);
    } else {
        bind_range(c->of.prepared, s, last, 0, EA_BATCH_MAX_EVENTS);
        rc = judge_rows(d, &c->of, s->host, 1, err);
    }
    ec_rules_row_begin(&d->event, NULL);
    sqlite3_clear_bindings(c->of.prepared);
    return rc;
}

/* The rule's tags as a JSON array in d->row.json. */
static int write_tags(ec_detector *d, const ea_rule_info *info, ea_err *err) {
    ea_text_clear(&d->row.json);
    for (uint32_t i = 0; i < info->tag_count; i++) {
        ea_text_str(&d->row.json, i ? ", " : "[");
        ea_text_json_str(&d->row.json, info->tags[i]);
    }
    ea_text_str(&d->row.json, info->tag_count ? "]" : "[]");
    return d->row.json.failed ? ea_fail(err, EA_ENOMEM, "keep detections") : 0;
}

/* What was found in the batches up to last, and that they are judged, in one transaction. */
static int keep_range(ec_detector *d, const ec_detections_stream *s, uint64_t last, int is_all, ea_err *err) {
    uint64_t new_count = 0, left_out = 0, suppressed = 0;
    ec_correlations_found correlated = {.new_count = 0};
    char source[1200];
    int rc = ec_detections_begin(d->kept, err);
    for (size_t i = 0; !rc && i < d->match_count; i++) {
        const detector_match *m = &d->matches[i];
        const ea_rule_info *info = ea_rules_info(d->files.rules, m->rule);
        int kept = 0;
        if ((rc = write_tags(d, info, err)))
            break;
        snprintf(source, sizeof source, "%s:%" PRIu32, info->file, info->line);
        const ec_detection row = {.batch = m->batch,
                                  .position = m->position,
                                  .rule = ec_rules_key(info, source),
                                  .title = info->title,
                                  .level = info->level,
                                  .source = source,
                                  .utc_ns = m->utc_ns,
                                  .pid = m->pid,
                                  .has_pid = m->has_pid,
                                  .process = m->process,
                                  .fields = m->fields,
                                  .tags = d->row.json.data,
                                  .text = info->text,
                                  .chain = m->chain};
        rc = ec_detections_add(d->kept, s, &row, ea_utc_ns(), &kept, err);
        new_count += kept == 1;
        if (!rc && kept == 2)
            rc = leave_out(d, m->rule, UINT32_MAX, m->batch, err);
    }
    for (size_t i = 0; !rc && i < d->left_out_count; i++) {
        const detector_left_out *l = &d->left_out[i];
        const ea_rule_info *info = ea_rules_info(d->files.rules, l->rule);
        char filter[1200];
        snprintf(source, sizeof source, "%s:%" PRIu32, info->file, info->line);
        const char *rule = ec_rules_key(info, source);
        if (l->filter == UINT32_MAX) {
            left_out += l->count;
            rc = ec_detections_leave_out(d->kept, s, l->batch, rule, l->count, err);
        } else {
            suppressed += l->count;
            rc = ec_detections_suppress(
                d->kept, s, l->batch, rule,
                ec_rules_filter_key(ea_rules_filter(d->files.rules, l->filter), filter, sizeof filter), l->count, err);
        }
    }
    for (size_t i = 0; i < d->hit_count; i++)
        d->hits[i].stream = s;
    if (!rc)
        rc = ec_correlations_judge(d->correlations, d->files.rules, d->hits, d->hit_count, ea_utc_ns(), &correlated,
                                   err);
    if (!rc)
        rc = ec_detections_judged(d->kept, s, last + 1, is_all, err);
    if (rc) {
        ec_detections_undo(d->kept);
        return rc;
    }
    ea_count(d->options.counters, EA_COUNT_rules_events, d->event_count);
    ea_count(d->options.counters, EA_COUNT_rules_matched, new_count + correlated.new_count);
    ea_count(d->options.counters, EA_COUNT_rules_left_out, left_out + correlated.left_out);
    ea_count(d->options.counters, EA_COUNT_rules_correlations_cut, correlated.cut);
    ea_count(d->options.counters, EA_COUNT_rules_matches_deleted, correlated.deleted);
    ea_count(d->options.counters, EA_COUNT_rules_suppressed, suppressed);
    return 0;
}

/* ---- the classes that are stored ---- */

static void drop_classes(ec_detector *d) {
    for (size_t i = 0; i < d->class_count; i++)
        ec_rules_class_deinit(&d->classes[i].of);
    d->class_count = 0;
}

typedef struct detector_preparing {
    ec_detector *d;
    uint32_t group;
    ea_err *err;
} detector_preparing;

/* A class as agents describe it, without a field that rules name: it must not keep the rules from all other events. */
static void leave_class(ec_detector *d, const char *name, const char *why) {
    char line[600];
    ec_rules_class_deinit(&d->classes[--d->class_count].of);
    snprintf(line, sizeof line, "rules are not run on events of %s as they are stored: %.200s", name, why);
    detector_note_once(d, name, line);
}

/* table: of the class, or of a part of it. */
static int prepare_part(const detector_preparing *p, const char *class_name, size_t len, const char *table) {
    ec_detector *d = p->d;
    char name[256];
    int code = SQLITE_OK;
    snprintf(name, sizeof name, "%.*s", (int)len, class_name);
    if (EA_GROW(d->classes, d->class_capacity, d->class_count + 1, SIZE_MAX))
        return ea_fail(p->err, EA_ENOMEM, "run the rules");
    detector_class *c = &d->classes[d->class_count];
    *c = (detector_class){.of = {.group = p->group}};
    snprintf(c->name, sizeof c->name, "%s", name);
    int rc = ec_rules_statement_make(&c->of.statement, d->files.rules, p->group, d->source, class_name, len, table,
                                     EC_RULES_OF_BATCHES);
    d->class_count++;
    if (rc)
        return ea_fail(p->err, rc, "make the statement for %s", name);
    rc = ec_rules_class_prepare(&c->of, d->sql, d->files.rules, d->run, p->group, 1, d->facts, &code, p->err);
    if (rc && ((code & 0xff) == SQLITE_ERROR || p->err->code == EA_EUSAGE)) {
        leave_class(d, name, p->err->message);
        *p->err = (ea_err){0};
        return 0;
    }
    return rc;
}

static int prepare_class(void *arg, const char *class_name, size_t len) {
    const detector_preparing *p = arg;
    ec_detector *d = p->d;
    const ec_class_set *set = NULL, *const *parts = NULL;
    size_t count = 0, left_out = 0;
    char name[256], line[400];
    snprintf(name, sizeof name, "%.*s", (int)len, class_name);
    int rc = ec_archive_set(ec_sql_archive(d->sql), name, &set, p->err);
    if (!rc && set) /* else nothing of the class is stored */
        rc = ec_archive_parts(ec_sql_archive(d->sql), set, &parts, &count, &left_out, p->err);
    if (left_out) {
        snprintf(line, sizeof line, EC_RULES_PARTS_NOTE, name, EC_CLASS_PARTS_MAX, left_out);
        detector_note_once(d, name, line);
    }
    for (size_t i = 0; i < count && !rc; i++)
        rc = prepare_part(p, class_name, len, parts[i]->name);
    return rc;
}

static int detector_keep_going(void *arg) {
    const ec_detector *d = arg;
    return !atomic_load_explicit(&d->stop, memory_order_relaxed) && ea_thread_cpu_ns() <= d->deadline_ns;
}

/* Opens the store as it is now, and prepares the statements for the classes in it. */
static int open_round(ec_detector *d, ea_err *err) {
    const ec_sql_options options = {.keep_going = detector_keep_going, .arg = d};
    size_t count = 0;
    const ea_sigma_source *sources = ea_sigma_sources(d->tables, &count);
    const char *tail;
    d->deadline_ns = INT64_MAX;
    d->range_count = 0;
    int rc = ec_sql_open(&d->sql, d->store, &options, err);
    if (!rc && ec_sql_prepare(d->sql, CHAIN_SQL, &d->process_of_key, &tail, err) != SQLITE_OK)
        rc = err->code ? err->code : ec_fail_sqlite(err, ec_sql_database(d->sql), "run the rules");
    if (!rc)
        rc = ec_process_facts_create(&d->facts, d->sql, err);
    d->event.sql = d->sql;
    d->event.facts = d->facts;
    d->event.run = d->run;
    for (size_t i = 0; i < count && !rc; i++) {
        detector_preparing p = {.d = d, .err = err};
        if (sources[i].is_service)
            continue;
        d->source = &sources[i];
        p.group = ea_rules_group(d->files.rules, "windows", sources[i].name, "");
        if (p.group != UINT32_MAX)
            rc = ec_rules_each_class(d->source, prepare_class, &p);
    }
    d->opened_ns = ea_thread_cpu_ns(); /* however long that took, it is of use for a while */
    return rc;
}

static void close_round(ec_detector *d) {
    drop_classes(d);
    sqlite3_finalize(d->process_of_key);
    d->process_of_key = NULL;
    ec_process_facts_destroy(d->facts);
    d->facts = NULL;
    ec_sql_close(d->sql);
    d->sql = NULL;
    d->event.archived = NULL;
}

/* ---- streams ---- */

/* EA_ECANCELED: it took too long, or SQLite too much memory (*ret_is_large). */
static int judge_range(ec_detector *d, const ec_detections_stream *s, uint64_t last, int64_t limit_ns,
                       int *ret_is_large, ea_err *err) {
    int rc = 0;
    d->match_count = d->left_out_count = d->hit_count = 0;
    d->event_count = 0;
    d->range_count++;
    ea_arena_reset(&d->arena);
    memset(d->counts, 0, ea_rules_count(d->files.rules) * sizeof *d->counts);
    (void)ec_sqlite_memory_refused();
    d->deadline_ns = ea_thread_cpu_ns() + limit_ns;
    for (size_t i = 0; i < d->class_count && !rc; i++)
        rc = judge_class(d, &d->classes[i], s, last, err);
    d->deadline_ns = INT64_MAX;
    *ret_is_large = rc && ec_sqlite_memory_refused();
    return *ret_is_large ? EA_ECANCELED : rc;
}

/* Begins anew with the store, without what was read of it. */
static int open_again(ec_detector *d, const ec_detections_stream *s, ea_err *err) {
    close_round(d);
    int rc = open_round(d, err);
    d->is_broken = rc != 0;
    if (!rc)
        d->event.archived = ec_rules_find_stream(ec_sql_archive(d->sql), s->host, s->stream);
    return rc;
}

/* Whether SQLite has refused a batch of a stream in REFUSED_ATTEMPTS rounds: what failed was not this moment's. */
static int is_refused_again(ec_detector *d, const ec_detections_stream *s) {
    uint64_t key = ea_hash64(s->host, strlen(s->host), ea_hash64(s->id, sizeof s->id, s->next));
    const uint64_t *known = ea_u64_map_get(&d->refused, key);
    uint64_t count = known ? *known + 1 : 1;
    if (!known && d->refused.count >= HOSTS_MAX)
        ea_u64_map_clear(&d->refused);
    EA_IGNORE(ea_u64_map_put(&d->refused, key, count)); /* no memory: it is tried once more */
    return count >= REFUSED_ATTEMPTS;
}

/* Judges a stream's batches up to its reach, or until its host's turn ends: at least one range. Ranges become longer
 * while they are quick. */
static int judge_stream(ec_detector *d, ec_detections_stream *s, const ec_detector_reach *reach, int64_t turn_ends_ns,
                        ea_err *err) {
    uint64_t step = 1;
    int rc = 0, is_over = 0, is_large = 0;
    d->is_by_rows = 0;
    d->event.archived = ec_rules_find_stream(ec_sql_archive(d->sql), s->host, s->stream);
    while (!rc && !is_over && s->next <= reach->last && !atomic_load(&d->stop)) {
        uint64_t last = reach->last - s->next < step ? reach->last : s->next + step - 1;
        int64_t begin_ns = ea_thread_cpu_ns();
        int is_one = last == s->next;
        rc = judge_range(d, s, last, NS_OF_MS(is_one ? EC_DETECTOR_LIMIT_MS : EC_DETECTOR_RANGE_MS), &is_large, err);
        if (rc == EA_ECANCELED && atomic_load(&d->stop))
            return 0;
        if (rc == EA_EFORMAT && !d->is_by_rows && (!is_one || is_refused_again(d, s))) {
            d->is_by_rows = is_one;
            step = 1;
            rc = 0;
            continue;
        }
        int is_again = rc == EA_ECANCELED && (!is_one || (is_large && d->range_count > 1));
        if (is_large) {
            int opened = open_again(d, s, err);
            if (opened)
                return opened;
        }
        if (is_again) {
            step = 1;
            rc = 0;
            continue;
        }
        if (rc == EA_ECANCELED) {
            ea_count(d->options.counters, EA_COUNT_rules_skipped, 1);
            rc = 0;
        }
        if (!rc)
            rc = keep_range(d, s, last, last == reach->highest, err);
        if (!rc) {
            s->next = last + 1;
            d->is_by_rows = 0;
        }
        int64_t now_ns = ea_thread_cpu_ns();
        is_over = now_ns >= turn_ends_ns;
        if (step < EC_DETECTOR_RANGE_MAX && now_ns - begin_ns < NS_OF_MS(EC_DETECTOR_TURN_MS) / QUICK_PART)
            step *= 2;
    }
    return rc;
}

static int take_stream(const ec_detections_stream *s, void *arg) {
    ec_detector *d = arg;
    if (d->stream_count == STREAMS_A_ROUND)
        return 1;
    if (EA_GROW(d->streams, d->stream_capacity, d->stream_count + 1, STREAMS_A_ROUND))
        return EA_ENOMEM;
    d->streams[d->stream_count++] = *s;
    return 0;
}

/* Nothing is stored of a stream any more: retention or a removal took it. */
static int detector_forget_stream(ec_detector *d, const ec_detections_stream *s, ea_err *err) {
    int rc = ec_detections_begin(d->kept, err);
    if (!rc && (rc = ec_detections_judged(d->kept, s, 0, 1, err)))
        ec_detections_undo(d->kept);
    return rc;
}

/* ---- turns ---- */

static uint64_t turn_key(const char *host) {
    return ea_hash64(host, strlen(host), 0);
}

/* Also a turn in which nothing could be judged: a host with many such streams would else come first for ever. */
static void turn_used(ec_detector *d, const char *host, int64_t cpu_ns, int has_judged) {
    uint64_t key = turn_key(host), host_ns = cpu_ns > 0 ? (uint64_t)cpu_ns : 0;
    const uint64_t *known = ea_u64_map_get(&d->taken_ns, key);
    if (!known && d->taken_ns.count >= HOSTS_MAX) {
        ea_u64_map_clear(&d->taken_ns);
        ea_u64_map_clear(&d->used_ns);
    }
    /* no memory: the host comes first */
    EA_IGNORE(ea_u64_map_put(&d->taken_ns, key, (known ? *known : 0) + host_ns));
    if (has_judged)
        EA_IGNORE(ea_u64_map_put(&d->used_ns, key, (uint64_t)ea_monotonic_ns()));
    if (d->options.on_used)
        d->options.on_used(d->options.arg, host, cpu_ns);
}

/* What was taken long ago counts less. */
static void turns_fade(ec_detector *d) {
    size_t cursor = 0;
    uint64_t key, taken_ns;
    if (ea_monotonic_ns() - d->faded_ns < NS_OF_MS(1000) * FADE_S)
        return;
    d->faded_ns = ea_monotonic_ns();
    while (ea_u64_map_next(&d->taken_ns, &cursor, &key, &taken_ns))
        *ea_u64_map_get(&d->taken_ns, key) = taken_ns / 2;
}

/* Whether the host has used up its quota, and has had its range of a while. */
static int turn_waits(const ec_detector *d, const char *host) {
    if (!d->options.has_room || d->options.has_room(d->options.arg, host))
        return 0;
    const uint64_t *used_ns = ea_u64_map_get(&d->used_ns, turn_key(host));
    return used_ns && ea_monotonic_ns() - (int64_t)*used_ns < NS_OF_MS(1000) * EC_DETECTOR_WAIT_S;
}

/* Judges what a stream's reach allows until its turn ends, and at least one range of it. */
static int judge_turn(ec_detector *d, ec_store *store, ec_state_db *state, ec_detections_stream *s,
                      int64_t turn_ends_ns, int *ret_has_judged, ea_err *err) {
    ec_detector_reach reach;
    int rc = ec_detector_read_reach(store, state, s, &reach, err);
    if (!rc && !reach.highest)
        rc = detector_forget_stream(d, s, err);
    if (rc || !reach.highest || s->next > reach.last)
        return rc;
    if (turn_waits(d, s->host)) {
        ea_count(d->options.counters, EA_COUNT_rules_waited, 1);
        return 0;
    }
    if (!d->sql && (rc = open_round(d, err))) {
        d->is_broken = 1;
        return rc;
    }
    *ret_has_judged = 1;
    rc = judge_stream(d, s, &reach, turn_ends_ns, err);
    d->is_left |= !rc && s->next <= reach.last;
    return rc;
}

static int take_turn(ec_detector *d, ec_store *store, ec_state_db *state, ec_detections_stream *s, int64_t turn_ns,
                     ea_err *err) {
    int64_t begin_ns = ea_thread_cpu_ns();
    int has_judged = 0, rc = judge_turn(d, store, state, s, begin_ns + turn_ns, &has_judged, err);
    turn_used(d, s->host, ea_thread_cpu_ns() - begin_ns, has_judged);
    if (d->sql && ea_thread_cpu_ns() - d->opened_ns > NS_OF_MS(OPEN_MS))
        close_round(d);
    return rc;
}

static int detector_goes_on(ec_detector *d) {
    return !d->is_broken && !atomic_load(&d->stop) && !atomic_load(&d->reload);
}

static int by_taken(const void *a, const void *b) {
    const detector_turn *x = a, *y = b;
    if (x->taken_ns != y->taken_ns)
        return x->taken_ns < y->taken_ns ? -1 : 1;
    return (x->stream > y->stream) - (x->stream < y->stream);
}

/* The streams of this round, those of the hosts first that have taken least; a round that takes long leaves the others
 * to the next one, which looks at what has arrived. A stream that fails holds up no other: its failure is returned when
 * the others are done. */
static int judge_streams(ec_detector *d, ec_store *store, ec_state_db *state, ea_err *err) {
    int64_t ends_ns = ea_thread_cpu_ns() + NS_OF_MS(EC_DETECTOR_ROUND_MS);
    int first = 0;
    turns_fade(d);
    for (size_t i = 0; i < d->stream_count; i++) {
        const uint64_t *taken_ns = ea_u64_map_get(&d->taken_ns, turn_key(d->streams[i].host));
        d->turns[i] = (detector_turn){.taken_ns = taken_ns ? *taken_ns : 0, .stream = i};
    }
    if (d->stream_count)
        qsort(d->turns, d->stream_count, sizeof *d->turns, by_taken);
    for (size_t i = 0; i < d->stream_count && detector_goes_on(d); i++) {
        ec_detections_stream *s = &d->streams[d->turns[i].stream];
        ea_err own = {0};
        if (ea_thread_cpu_ns() >= ends_ns) {
            d->is_left = 1;
            break;
        }
        int rc = take_turn(d, store, state, s, NS_OF_MS(EC_DETECTOR_TURN_MS), &own);
        if (rc && !first)
            *err = own;
        first = first ? first : rc;
    }
    return first;
}

static int open_kept(ec_detector *d, ea_err *err) {
    int rc = d->kept ? 0 : ec_detections_open(&d->kept, d->store, err);
    return rc || d->correlations ? rc : ec_correlations_open(&d->correlations, d->kept, err);
}

static int judge_round(ec_detector *d, ea_err *err) {
    ec_store *store = NULL;
    ec_state_db *state = NULL;
    uint64_t arrived = 0;
    d->stream_count = 0;
    d->is_left = d->is_broken = 0;
    int rc = open_kept(d, err);
    if (!rc)
        rc = ec_store_open(&store, d->store, &(ec_store_options){0}, err);
    if (!rc)
        rc = ec_detections_notice(d->kept, store, ea_utc_ns(), &arrived, err);
    if (!rc) {
        rc = ec_detections_each(d->kept, d->has_after ? &d->after : NULL, take_stream, d, err);
        d->has_after = rc > 0; /* the next round begins with the others */
        if (d->has_after)
            d->after = d->streams[d->stream_count - 1];
        rc = rc > 0 ? 0 : rc;
    }
    if (!rc && d->stream_count) {
        rc = ec_state_db_open(&state, d->store, 0, err);
        if (rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED)
            rc = d->stream_count = 0; /* the history is not made yet */
    }
    if (!rc)
        rc = judge_streams(d, store, state, err);
    close_round(d);
    ec_state_db_close(state);
    ec_store_close(store);
    return rc;
}

/* ---- the thread ---- */

static void work(void *arg) {
    ec_detector *d = arg;
    ec_sqlite_memory_limit(EC_DETECTOR_SQL_MAX);
    while (!atomic_load(&d->stop)) {
        ea_err err = {0};
        int rc = atomic_exchange(&d->reload, 0) ? load_rules(d, &err) : 0;
        if (rc) {
            char line[600];
            snprintf(line, sizeof line, "the rules stay as they were: %s", err.message);
            detector_note(d, line);
        }
        err = (ea_err){0};
        rc = judge_round(d, &err);
        if (rc && strcmp(d->said, err.message) != 0)
            detector_note(d, err.message);
        snprintf(d->said, sizeof d->said, "%s", rc ? err.message : "");
        ea_mutex_lock(d->mutex);
        if (!atomic_load(&d->stop) && !atomic_load(&d->reload) && (rc || !d->is_left))
            (void)ea_cond_wait_for(d->cond, d->mutex, NS_OF_MS(IDLE_MS));
        ea_mutex_unlock(d->mutex);
    }
}

static void detector_destroy(ec_detector *d) {
    ec_correlations_close(d->correlations);
    ec_detections_close(d->kept);
    ec_rules_row_deinit(&d->event);
    ec_matched_row_deinit(&d->row);
    ea_text_deinit(&d->unprepared);
    ea_arena_deinit(&d->arena);
    ea_u64_map_deinit(&d->taken_ns);
    ea_u64_map_deinit(&d->used_ns);
    ea_u64_map_deinit(&d->refused);
    ea_rules_run_destroy(d->run);
    ec_rules_files_deinit(&d->files);
    ea_sigma_tables_destroy(d->tables);
    ea_cond_destroy(d->cond);
    ea_mutex_destroy(d->mutex);
    free(d->streams);
    free(d->classes);
    free(d->matches);
    free(d->left_out);
    free(d->hits);
    free(d->counts);
    free(d->store);
    free(d->folder);
    free(d);
}

int ec_detector_start(ec_detector **ret, const ec_detector_options *options, ea_err *err) {
    ec_detector *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "start the thread of the rules");
    d->options = *options;
    ea_text_init(&d->files.problems);
    ec_rules_row_init(&d->event);
    ea_text_init(&d->unprepared);
    ea_arena_init(&d->arena, FOUND_MAX_BYTES);
    ec_matched_row_init(&d->row, &d->arena);
    d->row.cells = d->event.cells;
    d->row.looks = d->event.looks;
    ea_u64_map_init(&d->taken_ns, 0);
    ea_u64_map_init(&d->used_ns, 0);
    ea_u64_map_init(&d->refused, 0);
    d->store = strdup(options->store);
    d->folder = strdup(options->rules);
    int rc = d->store && d->folder ? 0 : ea_fail(err, EA_ENOMEM, "start the thread of the rules");
    if (!rc)
        rc = ea_sigma_tables_create(&d->tables, ea_sigma_files, err);
    if (!rc)
        rc = load_rules(d, err);
    if (!rc)
        rc = open_kept(d, err);
    if (!rc)
        rc = ea_mutex_create(&d->mutex, err);
    if (!rc)
        rc = ea_cond_create(&d->cond, err);
    if (!rc)
        rc = ea_thread_start(&d->thread, "rules", work, d, err);
    if (rc) {
        detector_destroy(d);
        return rc;
    }
    *ret = d;
    return 0;
}

static void detector_ask(ec_detector *d, atomic_int *what) {
    ea_mutex_lock(d->mutex);
    atomic_store(what, 1);
    ea_cond_signal(d->cond);
    ea_mutex_unlock(d->mutex);
}

void ec_detector_reload(ec_detector *d) {
    detector_ask(d, &d->reload);
}

void ec_detector_stop(ec_detector *d) {
    if (!d)
        return;
    detector_ask(d, &d->stop);
    ea_thread_join(d->thread);
    detector_destroy(d);
}
