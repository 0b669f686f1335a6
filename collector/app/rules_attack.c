/* See rules_attack.h. */
#include "collector/app/rules_attack.h"

#include "collector/detect/rules_files.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/incidents.h"
#include "collector/store/store.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TECHNIQUE_BYTES = 10, /* "T1059.001" */ TECHNIQUES_MAX = 100000 };

typedef struct attack_technique {
    char id[TECHNIQUE_BYTES];
    uint64_t counts[EC_COVERAGE_VERDICTS], detections;
} attack_technique;

/* Detections of a rule. */
typedef struct attack_found {
    char *rule;
    uint64_t count;
} attack_found;

typedef struct attack_report {
    attack_technique *techniques;
    size_t count, capacity;
    attack_found *found; /* sorted */
    size_t found_count, found_capacity;
    uint64_t untagged; /* rules without a technique */
    int has_store;
} attack_report;

/* ---- tags ---- */

/* 1 when a tag names a technique: "attack.t1059", "attack.T1059.001". */
static int attack_technique_of(const char *tag, char ret[TECHNIQUE_BYTES]) {
    static const char BEFORE[] = "attack.";
    size_t n = 0;
    for (; n < sizeof BEFORE - 1; n++)
        if ((tag[n] | 0x20) != BEFORE[n] && tag[n] != BEFORE[n])
            return 0;
    const char *id = tag + n;
    size_t digits = (*id | 0x20) == 't' ? strspn(id + 1, "0123456789") : 0;
    if (digits != 4)
        return 0;
    if (id[5] && (id[5] != '.' || strspn(id + 6, "0123456789") != 3 || id[9]))
        return 0;
    snprintf(ret, TECHNIQUE_BYTES, "T%s", id + 1);
    return 1;
}

static attack_technique *attack_find(attack_report *r, const char *id) {
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->techniques[i].id, id) == 0)
            return &r->techniques[i];
    if (EA_GROW(r->techniques, r->capacity, r->count + 1, TECHNIQUES_MAX))
        return NULL;
    attack_technique *t = &r->techniques[r->count++];
    *t = (attack_technique){.detections = 0};
    snprintf(t->id, sizeof t->id, "%s", id);
    return t;
}

static int attack_compare_found(const void *a, const void *b) {
    const attack_found *x = a, *y = b;
    return strcmp(x->rule, y->rule);
}

static uint64_t attack_found_by(const attack_report *r, const ea_rule_info *info) {
    char source[1200];
    snprintf(source, sizeof source, "%s:%" PRIu32, info->file, info->line);

    union {
        const char *text;
        char *key;
    } rule = {.text = ec_rules_key(info, source)};

    const attack_found wanted = {.rule = rule.key};
    const attack_found *f =
        r->found_count ? bsearch(&wanted, r->found, r->found_count, sizeof *r->found, attack_compare_found) : NULL;
    return f ? f->count : 0;
}

static int attack_add_rule(attack_report *r, const ec_coverage *coverage, const ea_rules *rules, uint32_t rule,
                           ea_err *err) {
    const ea_rule_info *info = ea_rules_info(rules, rule);
    enum ec_coverage_verdict verdict = EC_COVERAGE_NEVER;
    char ids[EA_RULES_TAGS_MAX][TECHNIQUE_BYTES];
    size_t count = 0;
    int rc = ec_coverage_of_rule(coverage, rules, rule, &verdict, err);
    for (uint32_t i = 0; !rc && i < info->tag_count; i++) {
        size_t same = 0;
        if (!attack_technique_of(info->tags[i], ids[count]))
            continue;
        while (same < count && strcmp(ids[same], ids[count]) != 0)
            same++;
        if (same < count) /* named twice */
            continue;
        attack_technique *t = attack_find(r, ids[count++]);
        if (!t)
            return ea_fail(err, EA_ENOMEM, "count the techniques");
        t->counts[verdict]++;
        t->detections += attack_found_by(r, info);
    }
    r->untagged += !rc && !count;
    return rc;
}

/* ---- what was found ---- */

static int attack_read_found(attack_report *r, const char *store, const char *host, ea_err *err) {
    static const char DOING[] = "read the detections";
    ec_incidents *file = NULL;
    sqlite3_stmt *st = NULL;
    int code, rc = ec_store_check_readable(store, err);
    if (!rc)
        rc = ec_incidents_open(&file, store, 0, err);
    if (!rc)
        rc = ec_sqlite_prepare(ec_incidents_database(file), &st,
                               "SELECT rule, count(*) FROM detections WHERE ?1 IS NULL OR host = ?1 GROUP BY rule",
                               DOING, err);
    if (!rc && host)
        sqlite3_bind_text(st, 1, host, -1, SQLITE_STATIC);
    while (!rc && (code = sqlite3_step(st)) != SQLITE_DONE) {
        const char *rule = code == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
        char *copy = rule ? strdup(rule) : NULL;
        if (code != SQLITE_ROW)
            rc = ec_fail_sqlite(err, ec_incidents_database(file), DOING);
        else if (!copy || EA_GROW(r->found, r->found_capacity, r->found_count + 1, SIZE_MAX))
            rc = ea_fail(err, EA_ENOMEM, "read the detections");
        else
            r->found[r->found_count++] = (attack_found){copy, (uint64_t)sqlite3_column_int64(st, 1)};
        if (rc)
            free(copy);
    }
    sqlite3_finalize(st);
    ec_incidents_close(file);
    if (r->found_count)
        qsort(r->found, r->found_count, sizeof *r->found, attack_compare_found);
    return rc;
}

/* ---- the answer ---- */

static const struct {
    const char *word, *color;
    int score;
} STATES[EC_COVERAGE_VERDICTS] = {
    [EC_COVERAGE_FULL] = {"covered", "#8ec843", 100},
    [EC_COVERAGE_PARTLY] = {"partly", "#ffe766", 50},
    [EC_COVERAGE_NEVER] = {"blind", "#ff6666", 0},
};

/* A technique is as its best rule. */
static enum ec_coverage_verdict attack_state(const attack_technique *t) {
    return t->counts[EC_COVERAGE_FULL]     ? EC_COVERAGE_FULL
           : t->counts[EC_COVERAGE_PARTLY] ? EC_COVERAGE_PARTLY
                                           : EC_COVERAGE_NEVER;
}

static void attack_add_counts(ea_text *out, const attack_report *r, const attack_technique *t) {
    ea_text_printf(out, "rules: %" PRIu64 " full, %" PRIu64 " partly, %" PRIu64 " never", t->counts[EC_COVERAGE_FULL],
                   t->counts[EC_COVERAGE_PARTLY], t->counts[EC_COVERAGE_NEVER]);
    if (r->has_store)
        ea_text_printf(out, "; detections: %" PRIu64, t->detections);
}

static void attack_add_text(ea_text *out, const attack_report *r) {
    uint64_t counts[EC_COVERAGE_VERDICTS] = {0};
    for (size_t i = 0; i < r->count; i++) {
        const attack_technique *t = &r->techniques[i];
        ea_text_printf(out, "%-7s %-9s ", STATES[attack_state(t)].word, t->id);
        attack_add_counts(out, r, t);
        ea_text_char(out, '\n');
        counts[attack_state(t)]++;
    }
    ea_text_printf(out,
                   "%zu techniques: %" PRIu64 " covered, %" PRIu64 " partly, %" PRIu64 " blind; rules without a"
                   " technique: %" PRIu64 "\n",
                   r->count, counts[EC_COVERAGE_FULL], counts[EC_COVERAGE_PARTLY], counts[EC_COVERAGE_NEVER],
                   r->untagged);
}

static void attack_add_json(ea_text *out, const attack_report *r) {
    ea_text_str(out, "{\"techniques\": [");
    for (size_t i = 0; i < r->count; i++) {
        const attack_technique *t = &r->techniques[i];
        ea_text_printf(out,
                       "%s\n  {\"technique\": \"%s\", \"state\": \"%s\", \"full\": %" PRIu64 ", \"partly\": %" PRIu64
                       ", \"never\": %" PRIu64 ", \"detections\": ",
                       i ? "," : "", t->id, STATES[attack_state(t)].word, t->counts[EC_COVERAGE_FULL],
                       t->counts[EC_COVERAGE_PARTLY], t->counts[EC_COVERAGE_NEVER]);
        if (r->has_store)
            ea_text_printf(out, "%" PRIu64 "}", t->detections);
        else
            ea_text_str(out, "null}");
    }
    ea_text_printf(out, "\n], \"rules_without\": %" PRIu64 "}\n", r->untagged);
}

/* LAYERFORMATv4_5.md of mitre-attack/attack-navigator. */
static void attack_add_layer(ea_text *out, const attack_report *r) {
    ea_text_str(out, "{\"name\": \"Sigma rules\", \"versions\": {\"layer\": \"4.5\", \"navigator\": \"4.9.0\"},\n"
                     " \"domain\": \"enterprise-attack\", \"description\": \"etwcollector rules check: a technique is "
                     "as the best rule that names it\",\n \"filters\": {\"platforms\": [\"Windows\"]}, \"techniques\": "
                     "[");
    for (size_t i = 0; i < r->count; i++) {
        const attack_technique *t = &r->techniques[i];
        ea_text_printf(out, "%s\n  {\"techniqueID\": \"%s\", \"score\": %d, \"comment\": \"", i ? "," : "", t->id,
                       STATES[attack_state(t)].score);
        attack_add_counts(out, r, t);
        ea_text_str(out, "\"}");
    }
    ea_text_str(out, "\n ],\n \"gradient\": {\"colors\": [");
    for (int i = 0; i < EC_COVERAGE_VERDICTS; i++) /* from the least score on */
        ea_text_printf(out, "%s\"%s\"", i ? ", " : "", STATES[i].color);
    ea_text_str(out, "], \"minValue\": 0, \"maxValue\": 100},\n \"legendItems\": [");
    for (int i = 0; i < EC_COVERAGE_VERDICTS; i++)
        ea_text_printf(out, "%s{\"label\": \"%s\", \"color\": \"%s\"}", i ? ", " : "", STATES[i].word, STATES[i].color);
    ea_text_str(out, "]}\n");
}

static int attack_compare(const void *a, const void *b) {
    const attack_technique *x = a, *y = b;
    return strcmp(x->id, y->id);
}

int ec_attack_print(ea_text *out, enum ec_attack_form form, const ec_coverage *coverage, const ea_rules *rules,
                    const char *store, const char *host, ea_err *err) {
    static void (*const ADD[])(ea_text *, const attack_report *) = {
        [EC_ATTACK_TEXT] = attack_add_text, [EC_ATTACK_JSON] = attack_add_json, [EC_ATTACK_LAYER] = attack_add_layer};
    attack_report r = {.has_store = store != NULL};
    int rc = store ? attack_read_found(&r, store, host, err) : 0;
    for (uint32_t i = 0; !rc && i < ea_rules_count(rules); i++)
        rc = attack_add_rule(&r, coverage, rules, i, err);
    if (!rc) {
        if (r.count)
            qsort(r.techniques, r.count, sizeof *r.techniques, attack_compare);
        ADD[form](out, &r);
    }
    for (size_t i = 0; i < r.found_count; i++)
        free(r.found[i].rule);
    free(r.found);
    free(r.techniques);
    return rc;
}
