/* See correlations.h. incidents.c has the tables. */
#include "collector/detect/correlations.h"

#include "collector/detect/rules_files.h"
#include "collector/detect/span_numbers.h"
#include "collector/sqlite/sqlite.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_BYTES = 1300,
    TOGETHER = 4096 /* hits that are judged at once: of more the first ones are not among those that are looked at */
};

static const char CORRELATING[] = "correlate detections";

enum correlations_statement {
    ADD_HIT,
    ADD_ALERT,
    HITS,
    ALERTS,
    FORGET_HITS,
    FORGET_ALERTS,
    MEMBER,
    CORRELATIONS_STATEMENTS
};

static const char ADD_HIT_SQL[] =
    "INSERT OR REPLACE INTO correlation_hits(host, stream, batch, position, rule, correlation, grouped, utc_ns,"
    " found_utc_ns, value, pid, process, fields) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
/* In the order of its index: hits of one time are not sorted in SQLite's memory. */
static const char HITS_SQL[] =
    "SELECT host, stream, batch, position, rule, utc_ns, value, pid, process, fields FROM correlation_hits WHERE"
    " correlation = ?1 AND grouped = ?2 AND utc_ns BETWEEN ?3 AND ?4 ORDER BY utc_ns DESC LIMIT ?5";
static const char ALERTS_SQL[] =
    "SELECT 1 FROM correlation_alerts WHERE correlation = ?1 AND grouped = ?2 AND utc_ns > ?3 AND utc_ns < ?4 LIMIT 1";

static const char *const CORRELATIONS_SQL[CORRELATIONS_STATEMENTS] = {
    [ADD_HIT] = ADD_HIT_SQL,
    [ADD_ALERT] = "INSERT OR IGNORE INTO correlation_alerts VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [HITS] = HITS_SQL,
    [ALERTS] = ALERTS_SQL,
    [FORGET_HITS] = "DELETE FROM correlation_hits WHERE correlation = ?1 AND found_utc_ns < ?2",
    [MEMBER] = "SELECT value FROM json_each(?1) WHERE key = ?2 AND type = 'text'",
    [FORGET_ALERTS] = "DELETE FROM correlation_alerts WHERE correlation = ?1 AND found_utc_ns < ?2",
};

/* A hit as it is kept. */
typedef struct correlations_row {
    ec_detections_stream stream;
    uint64_t batch, position;
    int64_t utc_ns;
    uint32_t part; /* which of the correlation's rules; UINT32_MAX: none of them any more */
    uint32_t pid;
    int has_pid;
    const char *value, *process, *fields; /* in the arena */
} correlations_row;

typedef struct correlations_chained {
    ec_detections_stream stream;
    ec_correlation_hit hit;
} correlations_chained;

struct ec_correlations {
    ec_detections *detections;
    sqlite3 *db;
    sqlite3_stmt *statements[CORRELATIONS_STATEMENTS];
    ea_arena arena;
    correlations_row *rows; /* by time */
    size_t row_count, row_capacity;
    ea_bytes_map values; /* of the span: to 1 + how many hits have it */
    ec_span_numbers numbers;
    ea_text fields, tags, group, found; /* found: the member that says what holds */
    ea_arena chain_arena;               /* texts of these */
    correlations_chained *chained; /* hits that detections of correlations are for others, which are to be judged */
    size_t chained_count, chained_capacity;
    int is_chain_full; /* a text of the hit at hand was more than their arena takes */
};

int ec_correlations_open(ec_correlations **ret, ec_detections *d, ea_err *err) {
    ec_correlations *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, CORRELATING);
    c->detections = d;
    c->db = ec_detections_database(d);
    ea_arena_init(&c->arena, EC_HITS_LOOK_BYTES);
    ea_bytes_map_init(&c->values, 0);
    ea_text_init(&c->fields);
    ea_text_init(&c->tags);
    ea_text_init(&c->group);
    ea_text_init(&c->found);
    ec_span_numbers_init(&c->numbers);
    ea_arena_init(&c->chain_arena, EC_HITS_LOOK_BYTES);
    *ret = c;
    return 0;
}

void ec_correlations_close(ec_correlations *c) {
    if (!c)
        return;
    for (int i = 0; i < CORRELATIONS_STATEMENTS; i++)
        sqlite3_finalize(c->statements[i]);
    ea_arena_deinit(&c->arena);
    ea_bytes_map_deinit(&c->values);
    ea_text_deinit(&c->fields);
    ea_text_deinit(&c->tags);
    ea_text_deinit(&c->group);
    ea_text_deinit(&c->found);
    ec_span_numbers_deinit(&c->numbers);
    ea_arena_deinit(&c->chain_arena);
    free(c->chained);
    free(c->rows);
    free(c);
}

static int correlations_prepare(ec_correlations *c, enum correlations_statement which, sqlite3_stmt **ret,
                                ea_err *err) {
    int rc = ec_sqlite_prepare(c->db, &c->statements[which], CORRELATIONS_SQL[which], CORRELATING, err);
    *ret = c->statements[which];
    return rc;
}

static void correlations_bind_text(sqlite3_stmt *st, int at, const char *text) {
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

/* The name of a rule or a correlation in detections. */
static const char *key_of_info(const ea_rule_info *info, char buffer[KEY_BYTES]) {
    snprintf(buffer, KEY_BYTES, "%s:%" PRIu32, info->file, info->line);
    return ec_rules_key(info, buffer);
}

static const ea_rule_info *info_of_part(const ea_rules *rules, uint32_t rule) {
    return rule & EA_RULES_CORRELATION ? &ea_rules_correlation(rules, rule & ~EA_RULES_CORRELATION)->info
                                       : ea_rules_info(rules, rule);
}

static int add_hit(ec_correlations *c, const ea_rules *rules, const ec_correlation_hit *hit, int64_t now_utc_ns,
                   ea_err *err) {
    char rule[KEY_BYTES], correlation[KEY_BYTES];
    sqlite3_stmt *st = NULL;
    int rc = correlations_prepare(c, ADD_HIT, &st, err);
    if (rc)
        return rc;
    correlations_bind_text(st, 1, hit->stream->host);
    correlations_bind_text(st, 2, hit->stream->stream);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)hit->batch);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)hit->position);
    correlations_bind_text(st, 5, key_of_info(info_of_part(rules, hit->rule), rule));
    correlations_bind_text(st, 6, key_of_info(&ea_rules_correlation(rules, hit->correlation)->info, correlation));
    correlations_bind_text(st, 7, hit->group);
    sqlite3_bind_int64(st, 8, hit->utc_ns);
    sqlite3_bind_int64(st, 9, now_utc_ns);
    correlations_bind_text(st, 10, hit->value);
    if (hit->has_pid)
        sqlite3_bind_int64(st, 11, hit->pid);
    else
        sqlite3_bind_null(st, 11);
    correlations_bind_text(st, 12, hit->process);
    correlations_bind_text(st, 13, hit->fields);
    return ec_sqlite_run(st, CORRELATING, err);
}

/* ---- one correlation and group ---- */

typedef struct look {
    const ea_rules *rules;
    const ea_rule_correlation *correlation;
    uint32_t number; /* of the correlation */
    const char *name, *group;
    int64_t from_ns, to_ns; /* of the new hits */
    int64_t now_utc_ns;
    uint64_t alert_count, new_count, left_out_count, cut_count, deleted_count;
} look;

static int64_t minus_span(int64_t ns, int64_t span_ns) {
    return ns < INT64_MIN + span_ns ? INT64_MIN : ns - span_ns;
}

static int64_t plus_span(int64_t ns, int64_t span_ns) {
    return ns > INT64_MAX - span_ns ? INT64_MAX : ns + span_ns;
}

static uint32_t correlations_part_of(const look *l, const char *rule) {
    char key[KEY_BYTES];
    for (uint32_t i = 0; rule && i < l->correlation->rule_count; i++)
        if (strcmp(key_of_info(info_of_part(l->rules, l->correlation->rules[i]), key), rule) == 0)
            return i;
    return UINT32_MAX;
}

static const char *keep_cell(ec_correlations *c, sqlite3_stmt *st, int column, int *is_full) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    const char *kept = text ? ea_arena_strdup(&c->arena, text) : NULL;
    *is_full |= text && !kept;
    return kept;
}

static int compare_rows(const void *a, const void *b) {
    const correlations_row *x = a, *y = b;
    if (x->utc_ns != y->utc_ns)
        return x->utc_ns < y->utc_ns ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* The newest hits around the new ones, as many as there is room for: with an error the stream would not go on. */
static int read_hits(ec_correlations *c, look *l, ea_err *err) {
    int64_t span_ns = l->correlation->span_ns;
    sqlite3_stmt *st = NULL;
    int is_full = 0, code, rc = correlations_prepare(c, HITS, &st, err);
    c->row_count = 0;
    ea_arena_reset(&c->arena);
    if (rc)
        return rc;
    correlations_bind_text(st, 1, l->name);
    correlations_bind_text(st, 2, l->group);
    sqlite3_bind_int64(st, 3, minus_span(l->from_ns, span_ns));
    sqlite3_bind_int64(st, 4, plus_span(l->to_ns, span_ns));
    sqlite3_bind_int(st, 5, EC_HITS_LOOKED_AT + 1);
    while ((code = sqlite3_step(st)) == SQLITE_ROW && !rc && !is_full) {
        if (c->row_count == EC_HITS_LOOKED_AT) {
            is_full = 1;
            continue;
        }
        correlations_row row = {.batch = (uint64_t)sqlite3_column_int64(st, 2),
                                .position = (uint64_t)sqlite3_column_int64(st, 3),
                                .part = correlations_part_of(l, (const char *)sqlite3_column_text(st, 4)),
                                .utc_ns = sqlite3_column_int64(st, 5),
                                .pid = (uint32_t)sqlite3_column_int64(st, 7),
                                .has_pid = sqlite3_column_type(st, 7) != SQLITE_NULL};
        snprintf(row.stream.host, sizeof row.stream.host, "%s", (const char *)sqlite3_column_text(st, 0));
        snprintf(row.stream.stream, sizeof row.stream.stream, "%s", (const char *)sqlite3_column_text(st, 1));
        row.value = keep_cell(c, st, 6, &is_full);
        row.process = keep_cell(c, st, 8, &is_full);
        row.fields = keep_cell(c, st, 9, &is_full);
        if (is_full)
            continue;
        if (!row.fields || EA_GROW(c->rows, c->row_capacity, c->row_count + 1, SIZE_MAX))
            rc = ea_fail(err, EA_ENOMEM, CORRELATING);
        else
            c->rows[c->row_count++] = row;
    }
    rc = ec_sqlite_end(st, is_full ? SQLITE_DONE : code, rc, CORRELATING, err);
    l->cut_count += (uint64_t)is_full;
    if (c->row_count > 1)
        qsort(c->rows, c->row_count, sizeof *c->rows, compare_rows);
    return rc;
}

/* 1 when a detection of the group is near. */
static int is_alerted(ec_correlations *c, const look *l, int64_t utc_ns, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = correlations_prepare(c, ALERTS, &st, err);
    if (rc)
        return rc;
    correlations_bind_text(st, 1, l->name);
    correlations_bind_text(st, 2, l->group);
    sqlite3_bind_int64(st, 3, minus_span(utc_ns, l->correlation->span_ns));
    sqlite3_bind_int64(st, 4, plus_span(utc_ns, l->correlation->span_ns));
    rc = ec_sqlite_step(st, CORRELATING, err);
    sqlite3_reset(st);
    return rc;
}

/* ---- correlations of correlations ---- */

/* A text of a hit that is to be judged; NULL: no memory, or the arena is full. */
static const char *keep_chained(ec_correlations *c, const char *text) {
    const char *kept = ea_arena_strdup(&c->chain_arena, text);
    c->is_chain_full |= !kept && ea_arena_error(&c->chain_arena) == EA_ELIMIT;
    return kept;
}

/* A text of a JSON object, in the chain's arena; *ret is NULL when it has none. */
static int correlations_member_of(ec_correlations *c, const char *json, const char *name, const char **ret,
                                  ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = correlations_prepare(c, MEMBER, &st, err);
    *ret = NULL;
    if (rc)
        return rc;
    correlations_bind_text(st, 1, json);
    correlations_bind_text(st, 2, name);
    rc = ec_sqlite_step(st, CORRELATING, err);
    if (rc > 0 && !(*ret = keep_chained(c, (const char *)sqlite3_column_text(st, 0))))
        rc = ea_fail(err, EA_ENOMEM, CORRELATING);
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

/* What is compared, and for a person, as detector.c writes it of an event: out of the fields of a detection. */
static int write_chained(ec_correlations *c, const ea_rule_correlation *r, const char *fields, ec_correlation_hit *h,
                         ea_err *err) {
    const char *before = "", *value = NULL;
    int rc = 0;
    ea_text_clear(&c->group);
    ea_text_clear(&c->tags);
    ea_text_char(&c->tags, '{');
    for (uint32_t i = 0; i < r->field_count && !rc; i++) {
        rc = correlations_member_of(c, fields, r->fields[i], &value, err);
        ea_text_str(&c->group, i ? ", " : "");
        if (rc || !value) {
            ea_text_str(&c->group, "null");
            continue;
        }
        ea_text_json_str(&c->group, value);
        ea_text_str(&c->tags, before);
        ea_text_json_str(&c->tags, r->fields[i]);
        ea_text_str(&c->tags, ": ");
        ea_text_json_str(&c->tags, value);
        before = ", ";
    }
    ea_text_char(&c->tags, '}');
    for (size_t i = 0; i < c->group.len_bytes; i++)
        c->group.data[i] = ea_ascii_lower(c->group.data[i]);
    h->group = keep_chained(c, c->group.len_bytes ? c->group.data : "");
    h->fields = c->tags.failed ? NULL : keep_chained(c, c->tags.data);
    if (!rc && *r->field)
        rc = correlations_member_of(c, fields, r->field, &h->value, err);
    return !rc && (c->group.failed || !h->group || !h->fields) ? ea_fail(err, EA_ENOMEM, CORRELATING) : rc;
}

/* A detection of a correlation is a hit of those that name it. One for which there is no room is left out and counted:
 * with an error the stream would not go on. */
static int chain_alert(ec_correlations *c, look *l, const correlations_row *row, ea_err *err) {
    uint32_t named = EA_RULES_CORRELATION | l->number;
    int rc = 0;
    for (uint32_t i = l->number + 1; i < ea_rules_correlation_count(l->rules) && !rc; i++) {
        const ea_rule_correlation *r = ea_rules_correlation(l->rules, i);
        uint32_t k = 0;
        while (k < r->rule_count && r->rules[k] != named)
            k++;
        if (k == r->rule_count)
            continue;
        ec_correlation_hit h = {.correlation = i,
                                .rule = named,
                                .batch = row->batch,
                                .position = row->position,
                                .utc_ns = row->utc_ns,
                                .pid = row->pid,
                                .has_pid = row->has_pid};
        c->is_chain_full = 0;
        rc = write_chained(c, r, row->fields, &h, err);
        if (!rc && row->process && !(h.process = keep_chained(c, row->process)))
            rc = ea_fail(err, EA_ENOMEM, CORRELATING);
        if (c->is_chain_full) {
            l->cut_count++;
            rc = 0;
            continue;
        }
        if (!rc && EA_GROW(c->chained, c->chained_capacity, c->chained_count + 1, SIZE_MAX))
            rc = ea_fail(err, EA_ENOMEM, CORRELATING);
        if (!rc)
            c->chained[c->chained_count++] = (correlations_chained){.stream = row->stream, .hit = h};
    }
    return rc;
}

/* Keeps the detection. */
static int keep_alert(ec_correlations *c, look *l, const correlations_row *row, ea_err *err) {
    const ea_rule_info *info = &l->correlation->info;
    char source[KEY_BYTES];
    int kept = 0, rc = 0;
    ea_text_clear(&c->tags);
    ea_text_clear(&c->fields);
    for (uint32_t i = 0; i < info->tag_count; i++) {
        ea_text_str(&c->tags, i ? ", " : "[");
        ea_text_json_str(&c->tags, info->tags[i]);
    }
    ea_text_str(&c->tags, info->tag_count ? "]" : "[]");
    ea_text_add(&c->fields, row->fields, strlen(row->fields) - 1); /* without } */
    ea_text_str(&c->fields, row->fields[1] == '}' ? "" : ", ");
    ea_text_add(&c->fields, c->found.data, c->found.len_bytes);
    ea_text_char(&c->fields, '}');
    snprintf(source, sizeof source, "%s:%" PRIu32, info->file, info->line);
    if (c->tags.failed || c->fields.failed || c->found.failed)
        return ea_fail(err, EA_ENOMEM, CORRELATING);
    const ec_detection detection = {.batch = row->batch,
                                    .position = row->position,
                                    .rule = l->name,
                                    .title = info->title,
                                    .level = info->level,
                                    .source = source,
                                    .utc_ns = row->utc_ns,
                                    .pid = row->pid,
                                    .has_pid = row->has_pid,
                                    .process = row->process,
                                    .fields = c->fields.data,
                                    .tags = c->tags.data,
                                    .text = info->text};
    rc = ec_detections_add(c->detections, &row->stream, &detection, l->now_utc_ns, &kept, err);
    l->new_count += kept == 1;
    l->left_out_count += kept == 2;
    return !rc && kept == 2 ? ec_detections_leave_out_one(c->detections, &row->stream, row->batch, l->name, err) : rc;
}

static int correlations_add_alert(ec_correlations *c, look *l, const correlations_row *row, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = is_alerted(c, l, row->utc_ns, err);
    if (rc)
        return rc < 0 ? rc : 0;
    if (!l->correlation->info.is_part)
        rc = keep_alert(c, l, row, err);
    l->alert_count++;
    if (!rc)
        rc = chain_alert(c, l, row, err);
    if (!rc)
        rc = correlations_prepare(c, ADD_ALERT, &st, err);
    if (rc)
        return rc;
    correlations_bind_text(st, 1, l->name);
    correlations_bind_text(st, 2, l->group);
    sqlite3_bind_int64(st, 3, row->utc_ns);
    sqlite3_bind_int64(st, 4, l->now_utc_ns);
    correlations_bind_text(st, 5, row->stream.host);
    correlations_bind_text(st, 6, row->stream.stream);
    return ec_sqlite_run(st, CORRELATING, err);
}

/* A value comes into the span, or leaves it. */
static int count_value(ec_correlations *c, const char *value, int change, uint64_t *distinct) {
    if (!value)
        return 0;
    uintptr_t before = (uintptr_t)ea_bytes_map_get(&c->values, value, strlen(value));
    uintptr_t now = (before ? before : 1) + (uintptr_t)(intptr_t)change;
    *distinct += (now > 1) - (uint64_t)(before > 1);
    return ea_bytes_map_put(&c->values, value, strlen(value), (void *)now);
}

/* The types whose conditions are about numbers. */
static int correlations_is_of_numbers(const ea_rule_correlation *r) {
    return r->type >= EA_VALUE_SUM && r->type <= EA_VALUE_PERCENTILE;
}

static const char *value_of_row(void *arg, size_t i) {
    const ec_correlations *c = arg;
    return c->rows[i].part == UINT32_MAX ? NULL : c->rows[i].value;
}

/* What the span has, as a member of the detection's fields. */
static void correlations_write_found(ec_correlations *c, const ea_rule_correlation *r, uint64_t in_span,
                                     uint64_t distinct) {
    static const char *const NAMES[] = {"matches", "values", "sum", "average", "percentile", "matches", "matches"};
    ea_text_clear(&c->found);
    ea_text_printf(&c->found, "\"%s\": \"", NAMES[r->type]);
    if (correlations_is_of_numbers(r))
        ec_span_numbers_write(&c->numbers, r, &c->found);
    else
        ea_text_printf(&c->found, "%" PRIu64, r->type == EA_VALUE_COUNT ? distinct : in_span);
    ea_text_char(&c->found, '"');
}

/* Goes through the hits in time: the span ends at each of them in turn. */
static int judge_hits(ec_correlations *c, look *l, ea_err *err) {
    const ea_rule_correlation *r = l->correlation;
    uint64_t counts[EA_RULES_CORRELATED_MAX] = {0}, distinct = 0;
    int64_t begun_ns[EA_RULES_CORRELATED_MAX]; /* of the latest sequence of the rules up to each */
    int is_begun[EA_RULES_CORRELATED_MAX] = {0}, rc = 0;
    int has_numbers = correlations_is_of_numbers(r);
    uint32_t seen = 0; /* rules with a hit in the span */
    uint64_t in_span = 0;
    size_t first = 0;
    ea_bytes_map_clear(&c->values);
    if (has_numbers && ec_span_numbers_begin(&c->numbers, c->row_count, value_of_row, c))
        return ea_fail(err, EA_ENOMEM, CORRELATING);
    for (size_t i = 0; i < c->row_count && !rc; i++) {
        const correlations_row *row = &c->rows[i];
        if (row->part == UINT32_MAX)
            continue;
        for (; minus_span(row->utc_ns, r->span_ns) > c->rows[first].utc_ns; first++) {
            const correlations_row *old = &c->rows[first];
            if (old->part == UINT32_MAX)
                continue;
            in_span--;
            seen -= --counts[old->part] == 0;
            if (has_numbers)
                ec_span_numbers_remove(&c->numbers, first);
            else
                rc = count_value(c, old->value, -1, &distinct);
        }
        in_span++;
        seen += ++counts[row->part] == 1;
        if (has_numbers)
            ec_span_numbers_add(&c->numbers, i);
        else
            rc = rc ? rc : count_value(c, row->value, 1, &distinct);
        if (row->part == 0 || is_begun[row->part - 1]) {
            begun_ns[row->part] = row->part ? begun_ns[row->part - 1] : row->utc_ns;
            is_begun[row->part] = 1;
        }
        uint32_t last = r->rule_count - 1;
        int holds = r->type == EA_EVENT_COUNT   ? in_span >= r->least
                    : r->type == EA_VALUE_COUNT ? distinct >= r->least
                    : has_numbers               ? ec_span_numbers_hold(&c->numbers, r)
                    : r->type == EA_TEMPORAL
                        ? seen == r->rule_count
                        : row->part == last && is_begun[last] && minus_span(row->utc_ns, r->span_ns) <= begun_ns[last];
        if (rc)
            return ea_fail(err, rc, CORRELATING);
        if (!holds || row->utc_ns < l->from_ns)
            continue;
        correlations_write_found(c, r, in_span, distinct);
        rc = correlations_add_alert(c, l, row, err);
    }
    return rc;
}

static int forget_old(ec_correlations *c, const look *l, ea_err *err) {
    int rc = 0;
    for (int i = FORGET_HITS; i <= FORGET_ALERTS && !rc; i++) {
        sqlite3_stmt *st = NULL;
        rc = correlations_prepare(c, (enum correlations_statement)i, &st, err);
        if (rc)
            return rc;
        correlations_bind_text(st, 1, l->name);
        sqlite3_bind_int64(st, 2, minus_span(l->now_utc_ns, EC_HITS_SPANS * l->correlation->span_ns));
        rc = ec_sqlite_run(st, CORRELATING, err);
    }
    return rc;
}

static int bound_hits(ec_correlations *c, look *sum, ea_err *err) {
    char sql[600];
    snprintf(sql, sizeof sql,
             "DELETE FROM correlation_hits WHERE rowid IN (SELECT rowid FROM correlation_hits WHERE host = (SELECT host"
             " FROM correlation_hits GROUP BY host ORDER BY count(*) DESC LIMIT 1) ORDER BY rowid LIMIT max(0, (SELECT"
             " count(*) FROM correlation_hits) - %d))",
             EC_HITS_KEPT);
    int rc = ec_sqlite_exec(c->db, sql, CORRELATING, err);
    sum->deleted_count += rc ? 0 : (uint64_t)sqlite3_changes(c->db);
    return rc;
}

static int bound_alerts(ec_correlations *c, ea_err *err) {
    char sql[600];
    snprintf(sql, sizeof sql,
             "DELETE FROM correlation_alerts WHERE (correlation, grouped, utc_ns) IN (SELECT correlation, grouped,"
             " utc_ns FROM correlation_alerts WHERE host = (SELECT host FROM correlation_alerts GROUP BY host ORDER BY"
             " count(*) DESC LIMIT 1) ORDER BY found_utc_ns LIMIT max(0, (SELECT count(*) FROM correlation_alerts) -"
             " %d))",
             EC_ALERTS_KEPT);
    return ec_sqlite_exec(c->db, sql, CORRELATING, err);
}

static int compare_hits(const void *a, const void *b) {
    const ec_correlation_hit *x = *(const ec_correlation_hit *const *)a, *y = *(const ec_correlation_hit *const *)b;
    int order = (x->correlation > y->correlation) - (x->correlation < y->correlation);
    return order ? order : strcmp(x->group, y->group);
}

/* Judges hits that are kept, correlation by correlation and group by group. sorted: of count; it is put in order. */
static int judge_groups(ec_correlations *c, const ea_rules *rules, const ec_correlation_hit **sorted, size_t count,
                        look *sum, ea_err *err) {
    char name[KEY_BYTES];
    int rc = 0;
    qsort(sorted, count, sizeof *sorted, compare_hits);
    for (size_t i = 0; i < count && !rc;) {
        const ec_correlation_hit *h = sorted[i];
        look l = {.rules = rules,
                  .correlation = ea_rules_correlation(rules, h->correlation),
                  .number = h->correlation,
                  .group = h->group,
                  .from_ns = h->utc_ns,
                  .to_ns = h->utc_ns,
                  .now_utc_ns = sum->now_utc_ns};
        l.name = key_of_info(&l.correlation->info, name);
        for (; i < count && compare_hits(&sorted[i], &h) == 0; i++) {
            l.from_ns = sorted[i]->utc_ns < l.from_ns ? sorted[i]->utc_ns : l.from_ns;
            l.to_ns = sorted[i]->utc_ns > l.to_ns ? sorted[i]->utc_ns : l.to_ns;
        }
        rc = read_hits(c, &l, err);
        if (!rc)
            rc = judge_hits(c, &l, err);
        if (!rc)
            rc = forget_old(c, &l, err);
        sum->new_count += l.new_count;
        sum->left_out_count += l.left_out_count;
        sum->alert_count += l.alert_count;
        sum->cut_count += l.cut_count;
    }
    return rc;
}

/* Judges what detections of correlations are for others, until nothing comes of it: as often as they are one over the
 * other. */
static int judge_chained(ec_correlations *c, const ea_rules *rules, look *sum, ea_err *err) {
    int rc = 0;
    for (size_t from = 0; from < c->chained_count && !rc;) {
        size_t count = c->chained_count - from;
        correlations_chained *now = malloc(count * sizeof *now);
        const ec_correlation_hit **sorted = malloc(count * sizeof(ec_correlation_hit *));
        if (!now || !sorted)
            rc = ea_fail(err, EA_ENOMEM, CORRELATING);
        for (size_t i = 0; i < count && !rc; i++) { /* more may come, and move them */
            now[i] = c->chained[from + i];
            now[i].hit.stream = &now[i].stream;
            sorted[i] = &now[i].hit;
            rc = add_hit(c, rules, &now[i].hit, sum->now_utc_ns, err);
        }
        from += count;
        if (!rc)
            rc = judge_groups(c, rules, sorted, count, sum, err);
        free(sorted);
        free(now);
    }
    return rc;
}

/* Keeps hits and judges them. sorted: of count; it is put in another order. */
static int judge_together(ec_correlations *c, const ea_rules *rules, const ec_correlation_hit **sorted, size_t count,
                          look *sum, ea_err *err) {
    uint64_t alerts = sum->alert_count;
    int rc = 0;
    c->chained_count = 0;
    ea_arena_reset(&c->chain_arena);
    for (size_t i = 0; i < count && !rc; i++)
        rc = add_hit(c, rules, sorted[i], sum->now_utc_ns, err);
    if (!rc)
        rc = judge_groups(c, rules, sorted, count, sum, err);
    if (!rc)
        rc = judge_chained(c, rules, sum, err);
    if (!rc && sum->alert_count > alerts)
        rc = bound_alerts(c, err);
    return rc ? rc : bound_hits(c, sum, err);
}

static int compare_hit_times(const void *a, const void *b) {
    const ec_correlation_hit *x = *(const ec_correlation_hit *const *)a, *y = *(const ec_correlation_hit *const *)b;
    if (x->utc_ns != y->utc_ns)
        return x->utc_ns < y->utc_ns ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x > y) - (x < y); /* as they were given */
}

int ec_correlations_judge(ec_correlations *c, const ea_rules *rules, const ec_correlation_hit *hits, size_t count,
                          int64_t now_utc_ns, ec_correlations_found *ret, ea_err *err) {
    look sum = {.now_utc_ns = now_utc_ns};
    int rc = 0;
    *ret = (ec_correlations_found){.new_count = 0};
    if (!count)
        return 0;
    const ec_correlation_hit **sorted = calloc(count, sizeof(ec_correlation_hit *));
    if (!sorted)
        return ea_fail(err, EA_ENOMEM, CORRELATING);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &hits[i];
    qsort(sorted, count, sizeof *sorted, compare_hit_times);
    for (size_t i = 0; i < count && !rc; i += TOGETHER)
        rc = judge_together(c, rules, sorted + i, count - i < TOGETHER ? count - i : TOGETHER, &sum, err);
    free(sorted);
    *ret = (ec_correlations_found){
        .new_count = sum.new_count, .left_out = sum.left_out_count, .cut = sum.cut_count, .deleted = sum.deleted_count};
    return rc;
}
