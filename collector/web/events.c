/* Events. See events.h. */
#include "collector/web/events.h"

#include "collector/query/sql/sql.h"
#include "collector/web/nothing_found.h"
#include "collector/web/questions.h"
#include "collector/web/result.h"
#include "collector/web/unknown_names.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_MAX = 64,
    WHERE_MAX = 16,
    PARAMS_MAX = 2 * WHERE_MAX + 8,
    FIRST_BATCHES = 8,       /* the first step back has no more than these, and those at its beginning */
    FIRST_TIMES = 4,         /* ... and about so many times the page's events in it */
    FIRST_TIMES_CHOOSY = 24, /* ... when there are conditions */
    FIRST_TIMES_CLASS = 400, /* ... when only one class is wanted: others are hardly looked at */
    STEP_BATCHES = 1024,     /* so many that began last are looked at, and those that a step may have */
    WIDER = 8,               /* each further step */
    COUNTS = 60,             /* buckets, when their number is not given */
    COUNTS_MIN = 10,         /* so few have a width for any range of 64 bits of ns */
    COUNTS_MAX = 1000,
    FIELD_BYTES = 128,     /* of a column's name */
    TAIL_BATCHES = 64,     /* of one look */
    TAIL_ROWS = 500,       /* sent of one look; further rows are counted as skipped */
    TAIL_TRIES_QUIET = 15, /* looks without anything until a sign of life */
};

static const int64_t SECOND_NS = INT64_C(1000000000), STEP_BACK_NS = INT64_C(5000000000);

/* What is searched for, as parts of a statement. */
typedef struct search {
    const char *host;
    int64_t from_ns, to_ns;
    uint64_t limit, skip; /* skip: events with time to_ns that were given already */
    enum ec_form form;
    int is_oldest_first, is_newest_first; /* as the question says; newest is what a page has, too */
    int is_whole;                         /* an export without a limit */
    uint64_t first_times;                 /* FIRST_TIMES... */
    ea_text columns, where;               /* where: " AND ..." */
    ea_text table;                        /* quoted */
    ea_text texts[WHERE_MAX + 1];
    size_t text_count;
    ec_value params[PARAMS_MAX]; /* the first are from, to, and one more: of the statement at hand */
    size_t param_count;
} search;

enum { OWN_PARAMS = 3 };

static void events_deinit(search *s) {
    ea_text_deinit(&s->columns);
    ea_text_deinit(&s->where);
    ea_text_deinit(&s->table);
    for (size_t i = 0; i < s->text_count; i++)
        ea_text_deinit(&s->texts[i]);
}

static int add_param(search *s, ec_value v, ea_err *err) {
    if (s->param_count == PARAMS_MAX)
        return ea_fail(err, EA_EUSAGE, "there are too many conditions");
    s->params[s->param_count++] = v;
    return 0;
}

static ec_value text_value(const char *s) {
    return (ec_value){.type = EC_TEXT, .data = s, .len_bytes = strlen(s)};
}

/* A text that contains another. */
static int events_add_like(search *s, const char *what, const char *part, ea_err *err) {
    if (s->text_count > WHERE_MAX)
        return ea_fail(err, EA_EUSAGE, "there are too many conditions");
    ea_text *t = &s->texts[s->text_count++];
    ea_text_init(t);
    ea_text_char(t, '%');
    for (; *part; part++) {
        if (strchr("%_\\", *part))
            ea_text_char(t, '\\');
        ea_text_char(t, *part);
    }
    ea_text_char(t, '%');
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "search for events");
    ea_text_printf(&s->where, " AND %s LIKE ?%zu ESCAPE '\\'", what, s->param_count + 1);
    return add_param(s, (ec_value){.type = EC_TEXT, .data = t->data, .len_bytes = t->len_bytes}, err);
}

/* A text of a statement, not a parameter: what no value of the column equals is refused when it is prepared. */
static void events_add_literal(ea_text *sql, const char *value) {
    ea_text_char(sql, '\'');
    for (; *value; value++) {
        if (*value == '\'')
            ea_text_char(sql, '\'');
        ea_text_char(sql, *value);
    }
    ea_text_char(sql, '\'');
}

/* A whole number as it is printed; "007", "+7" and what 64 bits do not hold are texts, which a number's column reads.
 */
static int events_is_number(const char *text, int64_t *ret) {
    char printed[24];
    *ret = strtoll(text, NULL, 10);
    snprintf(printed, sizeof printed, "%" PRId64, *ret);
    return strcmp(printed, text) == 0;
}

/* "FIELD=VALUE", with = != < <= > >= or ~ (contains). */
static int add_condition(search *s, const char *text, ea_err *err) {
    size_t n = strcspn(text, "=!<>~");
    char name[128];
    ea_text column;
    const char *op = text + n, *value;
    int64_t number = 0;
    uint64_t bits = 0;
    if (!n || n >= sizeof name || !*op)
        return ea_fail(err, EA_EUSAGE, "where: a condition is FIELD=VALUE, with = != < <= > >= or ~, not '%.60s'",
                       text);
    memcpy(name, text, n);
    name[n] = 0;
    size_t length = op[1] == '=' && *op != '~' ? 2 : 1;
    value = op + length;
    if (*op == '!' && length == 1)
        return ea_fail(err, EA_EUSAGE, "where: '!' is no operator; != is");
    ea_text_init(&column);
    ea_text_str(&column, "e.");
    ec_sql_add_name(&column, name);
    int rc = column.failed ? ea_fail(err, EA_ENOMEM, "search for events") : 0;
    int is_number = events_is_number(value, &number);
    if (rc) {
        /* nothing more */
    } else if (*op == '~') {
        rc = events_add_like(s, column.data, value, err);
    } else if (strncmp(value, "0x", 2) == 0 && ea_u64_parse(value, &bits) == 0) {
        /* an address, a number that is shown as one, or a text that looks so */
        size_t at = s->param_count + 1;
        if (*op == '=' || *op == '!')
            ea_text_printf(&s->where, " AND %s %sIN (u64(?%zu), ?%zu, ?%zu)", column.data, *op == '!' ? "NOT " : "", at,
                           at + 1, at);
        else
            ea_text_printf(&s->where, " AND %s %.*s u64(?%zu) AND ?%zu IS NOT NULL", column.data, (int)length, op, at,
                           at + 1);
        rc = add_param(s, text_value(value), err);
        if (!rc)
            rc = add_param(s, (ec_value){.type = EC_INT, .i = (int64_t)bits}, err);
    } else {
        int64_t ns;
        ea_text_printf(&s->where, " AND %s %.*s ", column.data, (int)length, op);
        if (is_number || (strlen(value) > 18 && value[10] == 'T' && ea_utc_ns_parse(value, &ns) == 0)) {
            ea_text_printf(&s->where, "?%zu", s->param_count + 1);
            rc = add_param(s, (ec_value){.type = EC_INT, .i = is_number ? number : ns}, err);
        } else {
            events_add_literal(&s->where, value);
        }
    }
    ea_text_deinit(&column);
    return rc;
}

/* "a,b,c"; none: what a person wants to see first. */
static int events_add_listed(search *s, const char *list, int has_class, ea_err *err) {
    size_t count = 0;
    if (!list || !*list) {
        ea_text_str(&s->columns, has_class ? "e.*, e.stream, e.batch, e.position"
                                           : "e.host, e.time, e.cpu, e.pid, e.tid, e.provider_name, e.name, e.fields,"
                                             " e.stream, e.batch, e.position");
        return 0;
    }
    while (*list) {
        size_t n = strcspn(list, ",");
        char name[FIELD_BYTES];
        if (n >= sizeof name || (n && count++ == COLUMNS_MAX))
            return ea_fail(err, EA_EUSAGE, "columns: at most %d names are expected, of at most %d bytes", COLUMNS_MAX,
                           FIELD_BYTES - 1);
        if (n) {
            memcpy(name, list, n);
            name[n] = 0;
            ea_text_str(&s->columns, s->columns.len_bytes ? ", e." : "e.");
            ec_sql_add_name(&s->columns, name);
        }
        list += n + (list[n] == ',');
    }
    if (!s->columns.len_bytes)
        ea_text_str(&s->columns, "e.time");
    return 0;
}

/* A cursor is "TIME.SKIP": the search goes on at events of that time, after so many of them. */
static int read_cursor(search *s, const char *cursor, ea_err *err) {
    char *rest = NULL;
    if (!cursor || !*cursor)
        return 0;
    s->to_ns = strtoll(cursor, &rest, 10);
    if (*rest != '.' || ea_u64_parse(rest + 1, &s->skip) || s->skip > INT64_MAX)
        return ea_fail(err, EA_EUSAGE, "cursor: expected the value of \"next\" of an answer");
    return 0;
}

static int read_search(const ec_call *c, search *s, ea_err *err) {
    const char *class = ec_call_param(c, "class"), *order = ec_call_param(c, "order"), *q = ec_call_param(c, "q");

    static const struct {
        const char *name;
        uint64_t max;
    } NUMBERS[] = {{"pid", UINT32_MAX}, {"tid", UINT32_MAX}, {"cpu", 65535}, {"id", 65535}};

    *s = (search){.param_count = OWN_PARAMS};
    s->host = ec_call_param(c, "host");
    int rc = ec_param_form(c, EC_FORM_ITEMS, &s->form, err);
    if (!rc)
        rc = ec_param_time(c, "from", INT64_MIN + 1, &s->from_ns, err);
    if (!rc)
        rc = ec_param_time(c, "to", INT64_MAX - 1, &s->to_ns, err);
    if (!rc)
        rc = ec_param_limit(c, s->form, &s->limit, &s->is_whole, err);
    if (!rc)
        rc = ec_param_check_range(s->from_ns, s->to_ns, err);
    if (!rc && order && strcmp(order, "oldest") != 0 && strcmp(order, "newest") != 0)
        rc = ea_fail(err, EA_EUSAGE, "order: newest or oldest");
    s->is_oldest_first = order && strcmp(order, "oldest") == 0;
    s->is_newest_first = order && strcmp(order, "newest") == 0;
    if (!rc && s->is_oldest_first && ec_call_param(c, "cursor"))
        rc = ec_param_number(c, "cursor", 0, INT64_MAX, &s->skip, err);
    else if (!rc)
        rc = read_cursor(s, ec_call_param(c, "cursor"), err);
    if (class && *class)
        ec_sql_add_name(&s->table, class);
    else
        ea_text_str(&s->table, "events");
    if (!rc)
        rc = events_add_listed(s, ec_call_param(c, "columns"), class && *class, err);
    for (size_t i = 0; !rc && i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        uint64_t n = UINT64_MAX;
        rc = ec_param_number(c, NUMBERS[i].name, UINT64_MAX, NUMBERS[i].max, &n, err);
        if (rc || n == UINT64_MAX)
            continue;
        ea_text_printf(&s->where, " AND e.%s = ?%zu", NUMBERS[i].name, s->param_count + 1);
        rc = add_param(s, (ec_value){.type = EC_INT, .i = (int64_t)n}, err);
    }
    static const char *const TEXTS[] = {"stream", "provider_name"};
    for (size_t i = 0; !rc && i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        const char *text = ec_call_param(c, TEXTS[i]);
        if (!text || !*text)
            continue;
        ea_text_printf(&s->where, " AND e.%s = ?%zu", TEXTS[i], s->param_count + 1);
        rc = add_param(s, text_value(text), err);
    }
    for (size_t i = 0; !rc && i < c->param_count; i++)
        if (strcmp(c->params[i].name, "where") == 0 && *c->params[i].value)
            rc = add_condition(s, c->params[i].value, err);
    if (!rc && q && *q)
        rc = events_add_like(s, "e.fields", q, err);
    s->first_times = class && *class ? FIRST_TIMES_CLASS : s->where.len_bytes ? FIRST_TIMES_CHOOSY : FIRST_TIMES;
    return !rc && (s->columns.failed || s->where.failed || s->table.failed)
               ? ea_fail(err, EA_ENOMEM, "search for events")
               : rc;
}

static void events_set_times(search *s, int64_t from_ns, int64_t to_ns, uint64_t skip) {
    s->params[0] = (ec_value){.type = EC_INT, .i = from_ns};
    s->params[1] = (ec_value){.type = EC_INT, .i = to_ns};
    s->params[2] = (ec_value){.type = EC_INT, .i = (int64_t)skip};
}

static const char *host_of(const search *s) {
    return s->host && *s->host ? s->host : NULL;
}

static ec_question question_of(const ec_call *c, const search *s, const char *sql, size_t param_count,
                               uint64_t limit_rows) {
    return (ec_question){.store = c->options->store,
                         .host = host_of(s),
                         .sql = sql,
                         .params = s->params,
                         .param_count = param_count,
                         .limit_ns = c->options->limit_ns,
                         .limit_bytes = c->options->limit_bytes,
                         .limit_rows = limit_rows};
}

/* ---- pages, newest first ---- */

typedef struct page {
    ec_call *call;
    const search *s;
    char **names, **types;
    size_t columns;
    uint64_t rows;
    int has_more;
    int64_t last_ns;    /* time of the last event given */
    uint64_t last_same; /* how many of that time were given, those of pages before too */
    ea_text cell;
    int failed;
    int has_step; /* the step at hand has events' batches, and begins at from_ns */
    int64_t from_ns;
} page;

static void forget_columns(page *p) {
    for (size_t i = 0; i < p->columns; i++) {
        free(p->names[i]);
        free(p->types[i]);
    }
    free(p->names);
    free(p->types);
    p->names = p->types = NULL;
    p->columns = 0;
}

static int events_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    page *p = arg;
    forget_columns(p);
    p->names = calloc(count + 1, sizeof *p->names);
    p->types = calloc(count + 1, sizeof *p->types);
    p->failed = !p->names || !p->types;
    for (size_t i = 0; !p->failed && i < count; i++) {
        p->columns = i + 1;
        p->names[i] = strdup(names[i]);
        p->types[i] = strdup(types[i]);
        p->failed = !p->names[i] || !p->types[i];
    }
    return p->failed;
}

/* The event without the first column, which is its time for us. */
static void add_event(page *p, size_t count, const ec_value *cells) {
    ea_text *out = &p->call->out;
    ea_text_char(out, '{');
    for (size_t i = 1; i < count && i < p->columns; i++) {
        if (i > 1)
            ea_text_char(out, ',');
        ea_text_json_str(out, p->names[i]);
        ea_text_char(out, ':');
        ec_result_json_cell(out, &p->cell, &cells[i], p->types[i]);
    }
    ea_text_char(out, '}');
}

static int events_on_event(void *arg, size_t count, const ec_value *cells) {
    page *p = arg;
    if (p->rows == p->s->limit) {
        p->has_more = 1;
        return 0;
    }
    ea_text_str(&p->call->out, p->rows++ ? ",\n" : "\n");
    add_event(p, count, cells);
    int64_t ns = count ? cells[0].i : 0;
    p->last_same = ns == p->last_ns ? p->last_same + 1 : 1;
    p->last_ns = ns;
    return 0;
}

/* Computes where a step back from ?2 begins, so that the step covers few batches and few events. The index has the
 * times of the last events of the range, and the rate of events at that time. One row: from, to, skip. */
static void write_step(const search *s, uint64_t batches, uint64_t times, ea_text *sql) {
    ea_text_printf(sql,
                   "WITH b AS MATERIALIZED (SELECT begin, \"end\", events FROM batches WHERE kind = 'events' AND"
                   " begin <= ?2 AND \"end\" >= ?1 ORDER BY begin DESC LIMIT %" PRIu64
                   "), m AS (SELECT min(max(\"end\"), ?2) AS last FROM b),"
                   " r AS (SELECT last, (SELECT \"end\" FROM b ORDER BY 1 DESC LIMIT 1 OFFSET %" PRIu64
                   ") AS before, (SELECT sum(events * 1e9 / max(\"end\" - begin, 1000000)) FROM b WHERE \"end\" >="
                   " last - 1000000) AS per_second FROM m WHERE last IS NOT NULL)"
                   " SELECT max(last - CAST(min(%" PRIu64 " * 1e9 / max(coalesce(per_second, 1), 1), 9e18) AS INTEGER),"
                   " coalesce(before, ?1), ?1), ?2, ?3 FROM r",
                   STEP_BATCHES + batches, batches, (s->limit + s->skip + 1) * times);
}

static int on_step(void *arg, size_t count, const ec_value *cells) {
    page *p = arg;
    p->has_step = count && cells[0].type == EC_INT;
    p->from_ns = p->has_step ? cells[0].i : INT64_MAX;
    return 0;
}

static int find_page(ec_call *c, search *s, page *p, int64_t *ret_next_ns, ec_outcome *outcome, ea_err *err) {
    int64_t to = s->to_ns, deadline = ea_monotonic_ns() + STEP_BACK_NS;
    uint64_t batches = FIRST_BATCHES, times = s->first_times, skip = s->skip, damaged = 0;
    ea_text sql, step;
    int rc = 0;
    *ret_next_ns = INT64_MIN;
    ea_text_init(&sql);
    ea_text_init(&step);
    while (!rc && !p->has_more && to >= s->from_ns) {
        events_set_times(s, s->from_ns, to, skip);
        ea_text_clear(&sql);
        ea_text_clear(&step);
        write_step(s, batches, times, &step);
        ea_text_printf(&sql,
                       "SELECT e.time, %s FROM %s e WHERE e.time BETWEEN ?1 AND ?2%s ORDER BY 1 DESC, e.host, e.stream,"
                       " e.batch, e.position LIMIT %" PRIu64 " OFFSET ?3",
                       s->columns.data, s->table.data, s->where.len_bytes ? s->where.data : "", s->limit - p->rows + 1);
        if (sql.failed || step.failed) {
            rc = ea_fail(err, EA_ENOMEM, "search for events");
            break;
        }
        ec_question q = question_of(c, s, sql.data, s->param_count, 0);
        q.first_sql = step.data;
        p->has_step = 0;
        rc = ec_call_ask(
            c, &q,
            &(ec_listener){.on_columns = events_on_columns, .on_row = events_on_event, .arg = p, .on_first = on_step},
            outcome, err);
        damaged = outcome->damaged > damaged ? outcome->damaged : damaged;
        if (rc == EA_ENOTFOUND && ec_result_is_no_table(rc, err)) { /* a class of which nothing was ever stored */
            rc = 0;
            break;
        }
        if (rc || outcome->ending != EC_ENDED_WHOLE || !p->has_step || p->from_ns <= s->from_ns)
            break;
        to = p->from_ns - 1;
        skip = 0;
        batches *= WIDER;
        times *= WIDER;
        if (!p->has_more && ea_monotonic_ns() > deadline && to >= s->from_ns) {
            *ret_next_ns = to;
            break;
        }
    }
    outcome->damaged = damaged;
    ea_text_deinit(&sql);
    ea_text_deinit(&step);
    return rc;
}

static int on_nothing(void *arg, size_t count, const char *const *names, const char *const *types) {
    (void)arg, (void)count, (void)names, (void)types;
    return 0;
}

/* The last part of an answer: why it ends, and what it lacks; a whole one without events has the times that are stored.
 */
static int write_ending(ec_call *c, const search *s, int is_empty, const char *ending, const ec_outcome *outcome,
                        ea_err *err) {
    int rc = 0;
    ea_text_printf(&c->out, ",\"ending\":\"%s\",\"damaged\":%" PRIu64 ",\"behind\":%" PRIu64, ending, outcome->damaged,
                   outcome->backlog);
    if (is_empty && outcome->ending == EC_ENDED_WHOLE)
        rc = ec_nothing_found(c, host_of(s), &(ec_asked_range){s->from_ns, s->to_ns}, "", err);
    ea_text_str(&c->out, "}\n");
    return rc;
}

static int answer_newest(ec_call *c, search *s, ea_err *err) {
    page p = {.call = c, .s = s, .last_ns = s->to_ns, .last_same = s->skip};
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    int64_t next = INT64_MIN;
    ea_text_init(&p.cell);
    ea_text_str(&c->out, "{\"items\":[");
    int rc = find_page(c, s, &p, &next, &outcome, err);
    if (!rc && p.failed)
        rc = ea_fail(err, EA_ENOMEM, "search for events");
    if (!rc && outcome.ending == EC_ENDED_CANCELED)
        rc = ea_fail(err, EA_ECANCELED, "stopped on request");
    if (!rc && !p.rows && next == INT64_MIN && outcome.ending == EC_ENDED_WHOLE)
        rc = ec_unknown_names_check(c, host_of(s), err);
    ea_text_str(&c->out, "],\"next\":");
    if (p.has_more)
        ea_text_printf(&c->out, "\"%" PRId64 ".%" PRIu64 "\"", p.last_ns, p.last_same);
    else if (next != INT64_MIN)
        ea_text_printf(&c->out, "\"%" PRId64 ".0\"", next);
    else
        ea_text_str(&c->out, "null");
    if (!rc)
        rc = write_ending(c, s, !p.rows && next == INT64_MIN && !ec_call_param(c, "cursor"),
                          next != INT64_MIN ? "time" : ec_ending_name(outcome.ending), &outcome, err);
    forget_columns(&p);
    ea_text_deinit(&p.cell);
    return rc;
}

/* ---- in the order in which they are stored, for exports; or by time ---- */

static int answer_in_order(ec_call *c, search *s, ea_err *err) {
    ec_asked_range range = {s->from_ns, s->to_ns};
    ea_text sql;
    ec_result q = {.host = s->host,
                   .params = s->params,
                   .form = s->form,
                   .limit_rows = s->is_whole ? 0 : s->limit,
                   .range = &range,
                   .offset = s->skip,
                   .is_empty_without_table = 1,
                   .names_class = 1,
                   .has_pages = s->form == EC_FORM_ITEMS};
    events_set_times(s, s->from_ns, s->to_ns, s->skip);
    q.param_count = s->param_count;
    ea_text_init(&sql);
    ea_text_printf(&sql, "SELECT %s FROM %s e WHERE e.time BETWEEN ?1 AND ?2%s%s LIMIT %" PRId64 " OFFSET ?3",
                   s->columns.data, s->table.data, s->where.len_bytes ? s->where.data : "",
                   s->is_oldest_first   ? " ORDER BY e.time, e.host, e.stream, e.batch, e.position"
                   : s->is_newest_first ? " ORDER BY e.time DESC, e.host, e.stream, e.batch, e.position"
                                        : "",
                   s->is_whole ? (int64_t)-1 : (int64_t)(s->limit + 1));
    int rc = sql.failed ? ea_fail(err, EA_ENOMEM, "search for events") : 0;
    q.sql = sql.data;
    if (!rc && s->form != EC_FORM_ITEMS)
        snprintf(c->disposition, sizeof c->disposition, "attachment; filename=\"events.%s\"",
                 s->form == EC_FORM_CSV ? "csv" : "jsonl");
    if (!rc)
        rc = ec_result_answer(c, &q, err);
    ea_text_deinit(&sql);
    return rc;
}

int ec_events_search(ec_call *c, ea_err *err) {
    search s;
    int rc = read_search(c, &s, err);
    if (!rc)
        rc = s.form == EC_FORM_ITEMS && !s.is_oldest_first ? answer_newest(c, &s, err) : answer_in_order(c, &s, err);
    events_deinit(&s);
    return rc;
}

/* ---- counts over time ---- */

typedef struct counts {
    int64_t from_ns, to_ns, width_ns;
    uint64_t total, of[COUNTS_MAX];
    size_t count; /* buckets of the range; 0: nothing is stored */
} counts;

/* The whole number not above the quotient, for a divisor above 0. */
static int64_t floored(int64_t n, int64_t by) {
    return n / by - (n % by < 0);
}

/* The least usual width that divides a range into at most so many buckets, wherever it begins. */
static int64_t events_width_of(uint64_t span_ns, uint64_t most) {
    static const int SECONDS[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200},
                     STEPS[] = {1, 2, 5};

    enum { LEAST_NS = 1000, STEP_COUNT = sizeof STEPS / sizeof STEPS[0], DAY_S = 86400, DAYS_MAX = 10000 };

    int64_t width = 0;
    for (int64_t unit = LEAST_NS; unit < SECOND_NS; unit *= 10)
        for (size_t i = 0; i < STEP_COUNT; i++)
            if (span_ns / (uint64_t)(width = unit * STEPS[i]) + 2 <= most)
                return width;
    for (size_t i = 0; i < sizeof SECONDS / sizeof SECONDS[0]; i++)
        if (span_ns / (uint64_t)(width = SECONDS[i] * SECOND_NS) + 2 <= most)
            return width;
    for (int64_t unit = 1; unit <= DAYS_MAX; unit *= 10)
        for (size_t i = 0; i < STEP_COUNT; i++)
            if (span_ns / (uint64_t)(width = unit * STEPS[i] * DAY_S * SECOND_NS) + 2 <= most)
                return width;
    return width;
}

static int on_stored(void *arg, size_t count, const ec_value *cells) {
    counts *n = arg;
    if (count != 2 || cells[0].type != EC_INT || cells[1].type != EC_INT)
        return 0;
    n->from_ns = cells[0].i;
    n->to_ns = cells[1].i;
    n->count = 1;
    return 0;
}

static int on_bucket(void *arg, size_t count, const ec_value *cells) {
    counts *n = arg;
    if (count != 2 || cells[0].type != EC_INT || cells[1].type != EC_INT)
        return 0;
    int64_t place = floored(cells[0].i, n->width_ns) - floored(n->from_ns, n->width_ns);
    if (place >= 0 && (uint64_t)place < n->count) {
        n->of[place] += (uint64_t)cells[1].i;
        n->total += (uint64_t)cells[1].i;
    }
    return 0;
}

/* The range of the answer: without a begin or an end, that of the stored events. */
static int set_range(ec_call *c, search *s, counts *n, ec_outcome *outcome, ea_err *err) {
    if (s->from_ns > INT64_MIN + 1 && s->to_ns < INT64_MAX - 1) {
        n->count = 1;
    } else {
        ec_question q = question_of(c, s, "SELECT min(begin), max(\"end\") FROM streams", 0, 1);
        int rc =
            ec_call_ask(c, &q, &(ec_listener){.on_columns = on_nothing, .on_row = on_stored, .arg = n}, outcome, err);
        if (rc)
            return rc;
    }
    if (s->from_ns > INT64_MIN + 1)
        n->from_ns = s->from_ns;
    if (s->to_ns < INT64_MAX - 1)
        n->to_ns = s->to_ns;
    if (n->to_ns < n->from_ns)
        n->count = 0;
    return 0;
}

/* RFC 3339 with as many digits as the time has. */
static void events_add_time(ea_text *out, int64_t ns) {
    ea_text_utc_ns(out, ns);
    int below = (int)(ns % 100 + 100) % 100;
    if (below && !out->failed) {
        out->len_bytes--; /* the Z */
        ea_text_printf(out, "%02dZ", below);
    }
}

static int write_counts(ec_call *c, const search *s, const counts *n, const ec_outcome *outcome, ea_err *err) {
    int64_t first = n->count ? floored(n->from_ns, n->width_ns) : 0;
    ea_text_str(&c->out, "{\"items\":[");
    for (size_t i = 0; i < n->count; i++) {
        int64_t begin = i ? (first + (int64_t)i) * n->width_ns : n->from_ns;
        int64_t end = i + 1 < n->count ? (first + (int64_t)i + 1) * n->width_ns - 1 : n->to_ns;
        ea_text_str(&c->out, i ? ",\n{\"begin\":\"" : "\n{\"begin\":\"");
        events_add_time(&c->out, begin);
        ea_text_str(&c->out, "\",\"end\":\"");
        events_add_time(&c->out, end);
        ea_text_printf(&c->out, "\",\"count\":%" PRIu64 "}", n->of[i]);
    }
    ea_text_char(&c->out, ']');
    return write_ending(c, s, !n->total, ec_ending_name(outcome->ending), outcome, err);
}

static int answer_counts(ec_call *c, search *s, uint64_t most, counts *n, ea_err *err) {
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    ea_text sql;
    int rc = set_range(c, s, n, &outcome, err);
    ea_text_init(&sql);
    if (!rc && n->count) {
        n->width_ns = events_width_of((uint64_t)n->to_ns - (uint64_t)n->from_ns, most);
        n->count = (size_t)(floored(n->to_ns, n->width_ns) - floored(n->from_ns, n->width_ns)) + 1;
    }
    /* a class that is unknown is refused for a range without events, too */
    events_set_times(s, n->from_ns, n->to_ns, 0);
    ea_text_printf(&sql,
                   "SELECT time_bucket(e.time, %" PRId64 ") AS bucket, count(*) AS count FROM %s e WHERE e.time BETWEEN"
                   " ?1 AND ?2%s GROUP BY 1",
                   n->count ? n->width_ns : SECOND_NS, s->table.data, s->where.len_bytes ? s->where.data : "");
    if (!rc && sql.failed)
        rc = ea_fail(err, EA_ENOMEM, "count events");
    if (!rc && outcome.ending == EC_ENDED_WHOLE) {
        size_t params = s->param_count > OWN_PARAMS ? s->param_count : OWN_PARAMS - 1; /* the statement has no ?3 */
        ec_question q = question_of(c, s, sql.data, params, 0);
        rc = ec_call_ask(c, &q, &(ec_listener){.on_columns = on_nothing, .on_row = on_bucket, .arg = n}, &outcome, err);
        if (rc == EA_ENOTFOUND && ec_result_is_no_table(rc, err)) /* a class of which nothing was ever stored */
            rc = 0;
    }
    if (!rc && outcome.ending == EC_ENDED_CANCELED)
        rc = ea_fail(err, EA_ECANCELED, "stopped on request");
    if (!rc && !n->total && outcome.ending == EC_ENDED_WHOLE)
        rc = ec_unknown_names_check(c, host_of(s), err);
    if (outcome.ending != EC_ENDED_WHOLE)
        n->count = 0; /* a part of the counts would look like all */
    if (!rc)
        rc = write_counts(c, s, n, &outcome, err);
    ea_text_deinit(&sql);
    return rc;
}

int ec_events_counts(ec_call *c, ea_err *err) {
    search s;
    uint64_t most = COUNTS;
    int rc = read_search(c, &s, err);
    if (!rc)
        rc = ec_param_number(c, "buckets", COUNTS, COUNTS_MAX, &most, err);
    if (!rc && most < COUNTS_MIN)
        rc = ea_fail(err, EA_EUSAGE, "buckets: a number from %d to %d", COUNTS_MIN, COUNTS_MAX);
    counts *n = rc ? NULL : calloc(1, sizeof *n);
    if (!rc && !n)
        rc = ea_fail(err, EA_ENOMEM, "count events");
    if (!rc)
        rc = answer_counts(c, &s, most, n, err);
    free(n);
    events_deinit(&s);
    return rc;
}

/* ---- values of a field ---- */

int ec_events_values(ec_call *c, ea_err *err) {
    search s;
    ea_text sql;
    const char *field = ec_call_param(c, "field");
    int rc = read_search(c, &s, err);
    ea_text_init(&sql);
    if (!rc && (!field || !*field || strlen(field) >= FIELD_BYTES))
        rc = ea_fail(err, EA_EUSAGE, "field: the name of a column is expected, of at most %d bytes", FIELD_BYTES - 1);
    if (!rc) {
        events_set_times(&s, s.from_ns, s.to_ns, 0);
        ea_text_str(&sql, "SELECT e.");
        ec_sql_add_name(&sql, field);
        ea_text_printf(&sql,
                       " AS value, count(*) AS count FROM %s e WHERE e.time BETWEEN ?1 AND ?2%s GROUP BY 1 ORDER BY 2"
                       " DESC, 1",
                       s.table.data, s.where.len_bytes ? s.where.data : "");
        if (sql.failed)
            rc = ea_fail(err, EA_ENOMEM, "count values");
    }
    if (!rc)
        rc = ec_result_answer(
            c,
            &(ec_result){.sql = sql.data,
                         .host = s.host,
                         .params = s.params,
                         .param_count = s.param_count > OWN_PARAMS ? s.param_count : OWN_PARAMS - 1, /* it has no ?3 */
                         .limit_rows = s.is_whole ? 0 : s.limit,
                         .form = s.form,
                         .range = &(ec_asked_range){s.from_ns, s.to_ns},
                         .is_empty_without_table = 1,
                         .names_class = 1},
            err);
    ea_text_deinit(&sql);
    events_deinit(&s);
    return rc;
}

/* ---- as they are stored ---- */

static int on_tail_event(void *arg, size_t count, const ec_value *cells) {
    page *p = arg;
    if (p->rows++ >= TAIL_ROWS)
        return 0;
    ea_text_str(&p->call->out, "event: event\ndata: ");
    add_event(p, count, cells);
    ea_text_str(&p->call->out, "\n\n");
    return 0;
}

/* When the last batch came, of those that were looked at, and in which segment: later ones are in none before it. */
typedef struct span {
    int64_t end_ns, segment;
} span;

static int on_span(void *arg, size_t count, const ec_value *cells) {
    span *s = arg;
    if (count == 2 && cells[0].type == EC_INT && cells[1].type == EC_INT)
        *s = (span){cells[0].i, cells[1].i};
    return 0;
}

/* From now on: *ret is the segment that batches are received into, and the time. */
static int begin_here(ec_call *c, search *s, span *ret, ea_err *err) {
    ec_outcome outcome;
    ec_question q = question_of(c, s, "SELECT 0, segment FROM batches ORDER BY segment DESC LIMIT 1", 0, 1);
    int rc = ec_call_ask(c, &q, &(ec_listener){.on_columns = on_nothing, .on_row = on_span, .arg = ret}, &outcome, err);
    ret->end_ns = ea_utc_ns();
    return rc;
}

/* One look: what was received after *at; moves it on. */
static int events_look(ec_call *c, search *s, span *at, uint64_t *ret_rows, ea_err *err) {
    span last = *at;
    ec_outcome outcome;
    page p = {.call = c, .s = s};
    ea_text sql;
    events_set_times(s, at->end_ns, TAIL_BATCHES, (uint64_t)at->segment);
    ec_question q = question_of(c, s,
                                "SELECT max(received), max(segment) FROM (SELECT received, segment FROM batches WHERE"
                                " segment >= ?3 AND received > ?1 ORDER BY received LIMIT ?2)",
                                OWN_PARAMS, 1);
    int rc =
        ec_call_ask(c, &q, &(ec_listener){.on_columns = on_nothing, .on_row = on_span, .arg = &last}, &outcome, err);
    if (rc || last.end_ns == at->end_ns)
        return rc;
    events_set_times(s, at->end_ns, last.end_ns, (uint64_t)at->segment);
    ea_text_init(&p.cell);
    ea_text_init(&sql);
    ea_text_printf(
        &sql,
        "WITH b AS MATERIALIZED (SELECT host, stream, batch FROM batches WHERE segment >= ?3 AND received > ?1 AND"
        " received <= ?2 AND kind = 'events') SELECT e.time, %s FROM b CROSS JOIN %s e ON e.host = b.host AND e.stream "
        "="
        " b.stream AND e.batch = b.batch WHERE 1%s LIMIT %d",
        s->columns.data, s->table.data, s->where.len_bytes ? s->where.data : "", TAIL_ROWS + 1);
    rc = sql.failed ? ea_fail(err, EA_ENOMEM, "follow events") : 0;
    if (!rc) {
        q = question_of(c, s, sql.data, s->param_count, 0);
        rc = ec_call_ask(c, &q, &(ec_listener){.on_columns = events_on_columns, .on_row = on_tail_event, .arg = &p},
                         &outcome, err);
        if (ec_result_is_no_table(rc, err))
            rc = 0;
    }
    if (!rc && p.rows > TAIL_ROWS)
        ea_text_str(&c->out, "event: skipped\ndata: {}\n\n");
    if (!rc)
        *at = last;
    *ret_rows = p.rows;
    forget_columns(&p);
    ea_text_deinit(&p.cell);
    ea_text_deinit(&sql);
    return rc;
}

int ec_events_tail(ec_call *c, ea_err *err) {
    search s;
    span at = {0};
    unsigned quiet = 0;
    int64_t begin_ns = ea_monotonic_ns();
    int rc = read_search(c, &s, err);
    if (!rc && s.host && *s.host) /* before the answer begins */
        rc = ec_call_may_see(c, s.host, err);
    if (rc) {
        events_deinit(&s);
        return rc;
    }
    c->type = "text/event-stream";
    ea_text_str(&c->out, ": events as they are stored\n\n");
    rc = begin_here(c, &s, &at, err);
    while (!rc && !(c->options->tail_ns && ea_monotonic_ns() - begin_ns >= c->options->tail_ns) &&
           !(rc = ec_call_flush(c, err)) && !(rc = ec_call_wait(c, SECOND_NS, err))) {
        uint64_t rows = 0;
        rc = events_look(c, &s, &at, &rows, err);
        quiet = rows ? 0 : quiet + 1;
        if (!rc && quiet == TAIL_TRIES_QUIET) {
            ea_text_str(&c->out, ": still here\n\n");
            quiet = 0;
        }
    }
    if (!rc)
        ea_text_str(&c->out, ": this stream has reached its longest life, connect again\n\n");
    events_deinit(&s);
    return rc;
}
