/* See watch_metrics.h. */
#include "collector/web/watch_metrics.h"

#include "proto/base/exposition.h"
#include "proto/base/json_cursor.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <string.h>

enum {
    RESULTS_MAX = 4096,
    RESULTS_OF_TABLE = 100,
    CELLS_MAX = 13,  /* tick, others, eight keys, three values */
    LABEL_MAX = 256, /* bytes of a key's name or text; a result with a longer one is left out */
    VALUES_MAX = 3,
    LIMIT_S = 5,
    WINDOW_S = 900,
};

static const char NAME[] = "etwagent_watch_result";

/* The newest print of each table is what has its newest time: rows of one print have the time of one event. Rows come
 * in the order in which the program printed them. */
static const char SQL[] =
    "WITH newest AS MATERIALIZED (SELECT host, name, max(time) AS time FROM events WHERE provider_name ="
    " 'etwagent-watch' AND time BETWEEN ?1 AND ?2 GROUP BY host, name) SELECT e.host, e.name, e.fields FROM newest n"
    " CROSS JOIN events e ON e.host = n.host AND e.name = n.name AND e.time = n.time WHERE e.provider_name ="
    " 'etwagent-watch'";

typedef struct cell {
    ea_text name, value;
    int is_text;
} cell;

typedef struct results {
    ea_text lines;             /* of NAME */
    ea_text labels, host_name; /* of the row at hand; the table at hand, with its host */
    ea_text scratch;
    cell cells[CELLS_MAX];
    size_t cell_count;
    ea_u64_map known; /* hashes of labels: a metric may have each once */
    uint64_t count, count_of_table, left_out;
} results;

static const char *watch_metrics_text(const ea_text *t) {
    return t->len_bytes ? t->data : "";
}

/* Takes a row's object; 0: it is another one than a program's result. */
static int watch_metrics_take_cells(results *r, const ec_value *fields) {
    ea_json_cursor at = {fields->data, fields->data + fields->len_bytes};
    r->cell_count = 0;
    if (!ea_json_take_char(&at, '{'))
        return 0;
    do {
        cell *c = &r->cells[r->cell_count];
        if (r->cell_count == CELLS_MAX || !ea_json_take_char(&at, '"') || !ea_json_take_text(&at, &c->name) ||
            !ea_json_take_char(&at, ':'))
            return 0;
        c->is_text = ea_json_take_char(&at, '"');
        if (!(c->is_text ? ea_json_take_text(&at, &c->value) : ea_json_take_word(&at, &c->value)))
            return 0;
        r->cell_count++;
    } while (ea_json_take_char(&at, ','));
    return ea_json_take_char(&at, '}');
}

static int watch_metrics_is_named(const results *r, size_t at, const char *name) {
    return at < r->cell_count && strcmp(watch_metrics_text(&r->cells[at].name), name) == 0;
}

/* How many cells at the row's end are values: those before them are keys. Of a distribution the bucket's ends are keys,
 * and of top the value is one. */
static size_t watch_metrics_values(const results *r) {
    size_t n = r->cell_count;
    if (watch_metrics_is_named(r, n - 1, "over") || (n > 4 && watch_metrics_is_named(r, n - 3, "stddev")))
        return watch_metrics_is_named(r, n - 1, "over") ? 2 : 3;
    return watch_metrics_is_named(r, n - 2, "avg") && watch_metrics_is_named(r, n - 1, "count") ? 2 : 1;
}

/* A column that a program made is named so; a stored class may have any text there. */
static int watch_metrics_has_name(const cell *c) {
    size_t n = c->name.len_bytes;
    return n && n <= LABEL_MAX &&
           strspn(c->name.data, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static int watch_metrics_put_keys(results *r, size_t end) {
    for (size_t i = 2; i < end; i++) {
        const cell *c = &r->cells[i];
        if (!watch_metrics_has_name(c) || c->value.len_bytes > LABEL_MAX)
            return 0;
        for (size_t k = 2; k < i; k++)
            if (strcmp(watch_metrics_text(&r->cells[k].name), c->name.data) == 0)
                return 0;
        ea_text_printf(&r->labels, ",key_%s=\"", c->name.data);
        ea_exposition_label(&r->labels, watch_metrics_text(&c->value));
        ea_text_char(&r->labels, '"');
    }
    return 1;
}

static int watch_metrics_put(results *r, const cell *value, const char *head, ea_err *err) {
    if (value->is_text || !watch_metrics_has_name(value) ||
        !strchr("-0123456789", *watch_metrics_text(&value->value))) { /* null: no number, as 0.0 / 0 */
        r->left_out++;
        return 0;
    }
    ea_text_clear(&r->scratch);
    ea_text_printf(&r->scratch, "%s,of=\"%s\"%s}", head, watch_metrics_text(&value->name),
                   watch_metrics_text(&r->labels));
    if (r->scratch.failed)
        return ea_fail(err, EA_ENOMEM, "write the metrics");
    uint64_t hash = ea_hash64(r->scratch.data, r->scratch.len_bytes, 0);
    if (ea_u64_map_get(&r->known, hash)) {
        r->left_out++;
        return 0;
    }
    if (ea_u64_map_put(&r->known, hash, 1))
        return ea_fail(err, EA_ENOMEM, "write the metrics");
    ea_text_printf(&r->lines, "%s%s %s\n", NAME, r->scratch.data, value->value.data);
    r->count++;
    return 0;
}

/* Appends a cell's text up to its end or a NUL. */
static void watch_metrics_label(ea_text *t, ea_text *scratch, const ec_value *v) {
    ea_text_clear(scratch);
    ea_text_add(scratch, v->data, v->len_bytes);
    ea_exposition_label(t, watch_metrics_text(scratch));
}

/* The result whose cells are taken. head: the labels of its machine and table. */
static int watch_metrics_put_result(results *r, const char *head) {
    size_t values = watch_metrics_values(r), end = r->cell_count - values;
    int is_others = strcmp(watch_metrics_text(&r->cells[1].value), "0") != 0, rc = 0;
    ea_text_clear(&r->labels);
    if (is_others)
        ea_text_str(&r->labels, ",others=\"1\"");
    if (r->count + values > RESULTS_MAX ||
        !watch_metrics_put_keys(r, is_others && end > 2 && !watch_metrics_is_named(r, end - 1, "to") ? 2 : end)) {
        r->left_out++;
        return 0;
    }
    r->count_of_table++;
    for (size_t i = end; !rc && i < r->cell_count; i++)
        rc = watch_metrics_put(r, &r->cells[i], head, NULL);
    return rc;
}

static int watch_metrics_on_row(void *arg, size_t count, const ec_value *cells) {
    results *r = arg;
    ea_text head;
    int rc = 0;
    if (count != 3 || cells[0].type != EC_TEXT || cells[1].type != EC_TEXT || cells[2].type != EC_TEXT)
        return 0;
    ea_text_init(&head);
    ea_text_str(&head, "{host=\"");
    watch_metrics_label(&head, &r->scratch, &cells[0]);
    ea_text_str(&head, "\",table=\"");
    watch_metrics_label(&head, &r->scratch, &cells[1]);
    ea_text_char(&head, '"');
    if (head.failed) {
        ea_text_deinit(&head);
        return EA_ENOMEM;
    }
    if (strcmp(watch_metrics_text(&r->host_name), head.data) != 0) {
        ea_text_clear(&r->host_name);
        ea_text_str(&r->host_name, head.data);
        r->count_of_table = 0;
    }
    if (r->count_of_table == RESULTS_OF_TABLE)
        r->left_out++;
    else if (watch_metrics_take_cells(r, &cells[2]) && r->cell_count >= 3 && watch_metrics_is_named(r, 1, "others"))
        rc = watch_metrics_put_result(r, head.data); /* what emit and printf gave has no column "others" */
    ea_text_deinit(&head);
    return rc || r->labels.failed || r->lines.failed || r->host_name.failed;
}

static int watch_metrics_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    (void)arg, (void)count, (void)names, (void)types;
    return 0;
}

static void watch_metrics_write(const ec_call *c, const results *r, int is_whole, ea_text *out) {
    ea_exposition_head(out, c->accepts_open_metrics, NAME, EA_GAUGE,
                       "what a program under watch: printed last, of the last 15 minutes");
    ea_text_add(out, r->lines.data, r->lines.len_bytes);
    ea_exposition_head(out, c->accepts_open_metrics, "etwcollector_watch_results_left_out", EA_GAUGE,
                       "results of programs that are not named here: the limits are 100 of a machine's table and 4096");
    ea_text_printf(out, "etwcollector_watch_results_left_out %" PRIu64 "\n", r->left_out);
    ea_exposition_head(out, c->accepts_open_metrics, "etwcollector_watch_results_whole", EA_GAUGE,
                       "1 when all results of programs were read within 5 s; 0: some may be neither here nor counted");
    ea_text_printf(out, "etwcollector_watch_results_whole %d\n", is_whole);
}

int ec_watch_metrics(ec_call *c, ea_err *err) {
    int64_t now_ns = ea_utc_ns(), limit_ns = LIMIT_S * INT64_C(1000000000);
    results r = {.count = 0};
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    ec_value params[2] = {{.type = EC_INT, .i = now_ns - WINDOW_S * INT64_C(1000000000)},
                          {.type = EC_INT, .i = now_ns + WINDOW_S * INT64_C(1000000000)}};
    ec_question q = {.store = c->options->store,
                     .sql = SQL,
                     .params = params,
                     .param_count = 2,
                     .limit_ns =
                         c->options->limit_ns && c->options->limit_ns < limit_ns ? c->options->limit_ns : limit_ns,
                     .limit_bytes = c->options->limit_bytes};
    ea_err ignored = {0};
    ea_text *texts[] = {&r.lines, &r.labels, &r.host_name, &r.scratch};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ea_text_init(texts[i]);
    for (size_t i = 0; i < CELLS_MAX; i++) {
        ea_text_init(&r.cells[i].name);
        ea_text_init(&r.cells[i].value);
    }
    ea_u64_map_init(&r.known, RESULTS_MAX + VALUES_MAX);
    int rc = ec_call_ask(c, &q, &(ec_listener){watch_metrics_on_columns, watch_metrics_on_row, &r, NULL}, &outcome,
                         &ignored);
    int is_whole = !rc && outcome.ending == EC_ENDED_WHOLE && !outcome.damaged;
    if (rc == EA_ENOTFOUND) /* nothing is stored */
        is_whole = 1;
    if (c->canceled)
        rc = ea_fail(err, EA_ECANCELED, "write the metrics");
    else if (r.lines.failed || r.labels.failed || r.host_name.failed || r.scratch.failed)
        rc = ea_fail(err, EA_ENOMEM, "write the metrics");
    else
        rc = 0;
    if (!rc)
        watch_metrics_write(c, &r, is_whole, &c->out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ea_text_deinit(texts[i]);
    for (size_t i = 0; i < CELLS_MAX; i++) {
        ea_text_deinit(&r.cells[i].name);
        ea_text_deinit(&r.cells[i].value);
    }
    ea_u64_map_deinit(&r.known);
    return rc;
}
