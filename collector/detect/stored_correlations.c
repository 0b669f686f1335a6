/* See stored_correlations.h. */
#include "collector/detect/stored_correlations.h"

#include "collector/detect/rules_files.h"
#include "collector/sqlite/sqlite.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char DOING[] = "correlate stored events";

struct ec_stored_correlations {
    const ea_rules *rules;
    ec_detections *detections; /* in memory */
    ec_correlations *correlations;
    ea_arena arena; /* texts of the hits, streams */
    ec_matched_row row;
    ec_correlation_hit *hits;
    size_t hit_count, hit_capacity;
    ea_bytes_map streams; /* host, a new line, id in hex -> ec_detections_stream */
    ea_text key;
    uint64_t left_out;
};

int ec_stored_correlations_create(ec_stored_correlations **ret, const ea_rules *rules, ea_err *err) {
    ec_stored_correlations *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, DOING);
    c->rules = rules;
    ea_arena_init(&c->arena, EC_STORED_HITS_MAX_BYTES);
    ec_matched_row_init(&c->row, &c->arena);
    ea_bytes_map_init(&c->streams, 0);
    ea_text_init(&c->key);
    int rc = ec_detections_open(&c->detections, NULL, err);
    if (!rc)
        rc = ec_correlations_open(&c->correlations, c->detections, err);
    if (rc)
        ec_stored_correlations_destroy(c);
    else
        *ret = c;
    return rc;
}

void ec_stored_correlations_destroy(ec_stored_correlations *c) {
    if (!c)
        return;
    ec_correlations_close(c->correlations);
    ec_detections_close(c->detections);
    ec_matched_row_deinit(&c->row);
    ea_bytes_map_deinit(&c->streams);
    ea_text_deinit(&c->key);
    ea_arena_deinit(&c->arena);
    free(c->hits);
    free(c);
}

static const char *stored_cell(const ea_text *t) {
    return t->len_bytes ? t->data : "";
}

/* NULL: no memory. */
static const ec_detections_stream *find_stream(ec_stored_correlations *c, const ea_text *cells) {
    const char *host = stored_cell(&cells[EC_RULES_HOST]), *id = stored_cell(&cells[EC_RULES_STREAM]);
    ea_text_clear(&c->key);
    ea_text_printf(&c->key, "%s\n%s", host, id);
    if (c->key.failed)
        return NULL;
    ec_detections_stream *s = ea_bytes_map_get(&c->streams, c->key.data, c->key.len_bytes);
    if (s)
        return s;
    s = ea_arena_zalloc(&c->arena, 1, sizeof *s);
    const char *key = s ? ea_arena_strdup(&c->arena, c->key.data) : NULL;
    if (!key || ea_bytes_map_put(&c->streams, key, c->key.len_bytes, s))
        return NULL;
    snprintf(s->host, sizeof s->host, "%s", host);
    snprintf(s->stream, sizeof s->stream, "%s", id);
    return s;
}

static int stored_take_hit(ec_stored_correlations *c, ec_correlation_hit *h, const ea_text *cells, ea_err *err) {
    h->stream = c->hit_count < EC_STORED_HITS_MAX ? find_stream(c, cells) : NULL;
    if (!h->stream || ec_matched_row_hit(&c->row, ea_rules_correlation(c->rules, h->correlation), h)) {
        c->left_out++;
        return 0;
    }
    if (EA_GROW(c->hits, c->hit_capacity, c->hit_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, DOING);
    c->hits[c->hit_count++] = *h;
    return 0;
}

int ec_stored_correlations_take(ec_stored_correlations *c, const ec_rules_statement *statement, const ea_text *cells,
                                const enum ec_look *looks, const ec_value *values, uint32_t rule, ea_err *err) {
    int rc = 0;
    c->row.statement = statement;
    c->row.cells = cells;
    c->row.looks = looks;
    for (uint32_t i = 0; i < ea_rules_correlation_count(c->rules) && !rc; i++) {
        const ea_rule_correlation *r = ea_rules_correlation(c->rules, i);
        uint32_t k = 0;
        while (k < r->rule_count && r->rules[k] != rule)
            k++;
        if (k == r->rule_count)
            continue;
        ec_correlation_hit h = {.correlation = i,
                                .rule = rule,
                                .batch = (uint64_t)values[EC_RULES_BATCH].i,
                                .position = (uint64_t)values[EC_RULES_POSITION].i,
                                .utc_ns = values[EC_RULES_TIME].i,
                                .pid = (uint32_t)values[EC_RULES_PID].i,
                                .has_pid = looks[EC_RULES_PID] != EC_LOOK_EMPTY};
        rc = stored_take_hit(c, &h, cells, err);
    }
    return rc;
}

static int stored_correlations_compare_times(const void *a, const void *b) {
    const ec_correlation_hit *x = a, *y = b;
    if (x->utc_ns != y->utc_ns)
        return x->utc_ns < y->utc_ns ? -1 : 1;
    int order = strcmp(x->stream->host, y->stream->host);
    if (!order)
        order = strcmp(x->stream->stream, y->stream->stream);
    if (!order)
        order = (x->batch > y->batch) - (x->batch < y->batch);
    if (!order)
        order = (x->position > y->position) - (x->position < y->position);
    return order ? order : (x->rule > y->rule) - (x->rule < y->rule); /* whichever was taken first */
}

/* The correlation that a detection is of; UINT32_MAX: none. */
static uint32_t find_correlation(const ec_stored_correlations *c, const char *rule) {
    char source[1200];
    for (uint32_t i = 0; rule && i < ea_rules_correlation_count(c->rules); i++) {
        const ea_rule_info *info = &ea_rules_correlation(c->rules, i)->info;
        snprintf(source, sizeof source, "%s:%" PRIu32, info->file, info->line);
        if (strcmp(ec_rules_key(info, source), rule) == 0)
            return i;
    }
    return UINT32_MAX;
}

static int each_detection(ec_stored_correlations *c, void (*fn)(void *arg, const ec_stored_detection *d), void *arg,
                          ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code, rc = ec_sqlite_prepare(ec_detections_database(c->detections), &st,
                                     "SELECT rule, utc_ns, host, fields, pid FROM detections ORDER BY utc_ns,"
                                     " detection_id",
                                     DOING, err);
    if (rc)
        return rc;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const ec_stored_detection d = {.correlation = find_correlation(c, (const char *)sqlite3_column_text(st, 0)),
                                       .utc_ns = sqlite3_column_int64(st, 1),
                                       .host = (const char *)sqlite3_column_text(st, 2),
                                       .fields = (const char *)sqlite3_column_text(st, 3),
                                       .pid = (uint32_t)sqlite3_column_int64(st, 4),
                                       .has_pid = sqlite3_column_type(st, 4) != SQLITE_NULL};
        if (d.correlation != UINT32_MAX && d.host && d.fields)
            fn(arg, &d);
    }
    rc = ec_sqlite_end(st, code, 0, DOING, err);
    sqlite3_finalize(st);
    return rc;
}

int ec_stored_correlations_judge(ec_stored_correlations *c, void (*fn)(void *arg, const ec_stored_detection *d),
                                 void *arg, uint64_t *ret_left_out, ea_err *err) {
    int rc = ec_detections_begin(c->detections, err);
    if (c->hit_count > 1)
        qsort(c->hits, c->hit_count, sizeof *c->hits, stored_correlations_compare_times);
    ec_correlations_found found = {.new_count = 0};
    if (!rc) /* at one time, so that no hit is forgotten by its age */
        rc = ec_correlations_judge(c->correlations, c->rules, c->hits, c->hit_count, 0, &found, err);
    c->left_out += found.left_out + found.cut;
    if (!rc)
        rc = each_detection(c, fn, arg, err);
    *ret_left_out = c->left_out;
    return rc;
}
