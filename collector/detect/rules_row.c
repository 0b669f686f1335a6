/* See rules_row.h. */
#include "collector/detect/rules_row.h"

#include <stdlib.h>
#include <string.h>

enum { OWN_SAMPLE = 256 };

/* ---- a class ---- */

/* Own fields that are no columns, such as keys of the registry, are worth a look before the processes are found. */
static int row_is_asked_early(const ec_rules_class *c) {
    const ec_rules_statement *s = &c->statement;
    int has_process = 0, has_other = c->columns == NULL, has_own = 0;
    for (size_t i = 0; i < s->field_count; i++) {
        int is_own = s->sources[i].of == EC_RULES_OF_EVENT;
        has_process |= !is_own;
        has_own |= is_own && s->own[i][0] != '=';
        has_other |= is_own && s->own[i][0] != '=' && strchr(s->own[i], '.');
    }
    return has_process && has_own && has_other;
}

static int row_prepare_early(ec_rules_class *c, const ea_rules *rules, ea_rules_run *run) {
    uint32_t unknown[EC_RULES_COLUMNS_MAX];
    size_t count = 0;
    int rc = ec_rules_columns_create(&c->columns, rules, run, c->group, &c->statement);
    if (rc || !row_is_asked_early(c))
        return rc;
    for (size_t i = 0; i < c->statement.field_count; i++)
        if (c->statement.sources[i].of != EC_RULES_OF_EVENT)
            unknown[count++] = c->statement.fields[i];
    return ea_rules_prospect_create(&c->own, rules, c->group, unknown, count);
}

int ec_rules_class_prepare(ec_rules_class *c, ec_sql *sql, const ea_rules *rules, ea_rules_run *run, uint32_t group,
                           int is_early, ec_process_facts *facts, int *ret_code, ea_err *err) {
    const char *tail;
    c->group = group;
    *ret_code = ec_sql_prepare(sql, c->statement.sql.data, &c->prepared, &tail, err);
    if (*ret_code != SQLITE_OK)
        return err->code ? err->code : ec_rules_fail_sqlite(err, ec_sql_database(sql), *ret_code);
    for (size_t i = 0; i < c->statement.column_count; i++) {
        const char *type = sqlite3_column_decltype(c->prepared, (int)i);
        c->types[i] = type ? type : "";
    }
    for (size_t i = 0; i < c->statement.field_count; i++) {
        const ec_rules_source *s = &c->statement.sources[i];
        if (s->of == EC_RULES_OF_EVENT)
            continue;
        ec_process_facts_need(facts, s->fact);
        c->has_module[s->of] |= s->fact >= EC_FACT_PATH;
    }
    if (is_early && row_prepare_early(c, rules, run))
        return ea_fail(err, EA_ENOMEM, "run the rules");
    return 0;
}

void ec_rules_class_deinit(ec_rules_class *c) {
    sqlite3_finalize(c->prepared);
    ec_rules_columns_destroy(c->columns);
    ea_rules_prospect_destroy(c->own);
    ec_rules_statement_deinit(&c->statement);
}

/* ---- a row ---- */

void ec_rules_row_init(ec_rules_row *r) {
    *r = (ec_rules_row){.of = NULL};
    for (size_t i = 0; i < sizeof r->cells / sizeof *r->cells; i++)
        ea_text_init(&r->cells[i]);
}

void ec_rules_row_deinit(ec_rules_row *r) {
    for (size_t i = 0; i < sizeof r->cells / sizeof *r->cells; i++)
        ea_text_deinit(&r->cells[i]);
}

static int row_filter(void *arg, const ec_table_schema *shape, ec_row_filter *ret) {
    ec_rules_row *r = arg;
    return r->of && r->of->columns && shape->set &&
           ec_rules_columns_filter(r->of->columns, ec_sql_archive(r->sql), shape, ret);
}

void ec_rules_row_begin(ec_rules_row *r, ec_rules_class *c) {
    r->of = c;
    r->st = c ? c->prepared : NULL;
    ec_sql_on_scan(r->sql, c ? row_filter : NULL, r);
}

/* The process whose number a column of the head has. */
static int row_find_process(ec_rules_row *r, enum ec_rules_of of, const ec_process **ret, ea_err *err) {
    int column = of == EC_RULES_OF_TARGET ? EC_RULES_TARGET : EC_RULES_PROCESS;
    const char *host = r->host, *stream = r->stream;
    *ret = NULL;
    if (sqlite3_column_type(r->st, column) != SQLITE_INTEGER)
        return 0;
    if (r->of->statement.scope == EC_RULES_OF_RANGE) {
        host = (const char *)sqlite3_column_text(r->st, EC_RULES_HOST);
        stream = (const char *)sqlite3_column_text(r->st, EC_RULES_STREAM);
    }
    return host && stream ? ec_process_facts_at(r->facts, host, stream, sqlite3_column_int64(r->st, column), r->utc_ns,
                                                r->of->has_module[of], ret, err)
                          : 0;
}

int ec_rules_row_process(ec_rules_row *r, enum ec_rules_of of, const ec_process **ret, ea_err *err) {
    const ec_process *child = NULL;
    int rc;
    *ret = r->processes[of];
    if (r->is_found[of])
        return 0;
    if (of == EC_RULES_OF_PARENT || of == EC_RULES_OF_GRANDPARENT) {
        rc = ec_rules_row_process(r, of == EC_RULES_OF_PARENT ? EC_RULES_OF_PROCESS : EC_RULES_OF_PARENT, &child, err);
        if (!rc)
            rc = ec_process_facts_find(r->facts, child ? child->parent_key : 0, r->of->has_module[of], ret, err);
    } else {
        rc = row_find_process(r, of, ret, err);
    }
    if (rc)
        return rc;
    r->processes[of] = *ret;
    r->is_found[of] = 1;
    return 0;
}

static void row_add_value(ec_rules_row *r, size_t i, const char *text, size_t len_bytes) {
    r->values[r->value_count++] =
        (ea_rules_value){.field = r->of->statement.fields[i], .text = text, .len_bytes = len_bytes};
    r->len_bytes += len_bytes;
}

/* The fields of the event itself, as texts. */
static int row_read_own(ec_rules_row *r, ea_err *err) {
    const ec_rules_statement *s = &r->of->statement;
    for (size_t i = 0; i < s->field_count; i++) {
        size_t at = EC_RULES_HEAD_COLUMNS + i;
        int column = s->sources[i].column;
        if (s->sources[i].of != EC_RULES_OF_EVENT)
            continue;
        const ec_value v = ec_sql_cell(r->st, column);
        r->looks[at] = ec_cell_text(&r->cells[at], &v, r->of->types[column]);
        if (r->cells[at].failed)
            return ea_fail(err, EA_ENOMEM, "run the rules");
        if (r->looks[at] != EC_LOOK_EMPTY)
            row_add_value(r, i, r->cells[at].len_bytes ? r->cells[at].data : "", r->cells[at].len_bytes);
    }
    return 0;
}

static int row_read_processes(ec_rules_row *r, ea_err *err) {
    const ec_rules_statement *s = &r->of->statement;
    for (size_t i = 0; i < s->field_count; i++) {
        const ec_process *p;
        if (s->sources[i].of == EC_RULES_OF_EVENT)
            continue;
        int rc = ec_rules_row_process(r, s->sources[i].of, &p, err);
        if (rc)
            return rc;
        const ec_process_fact *fact = p ? &p->facts[s->sources[i].fact] : NULL;
        if (fact && fact->text)
            row_add_value(r, i, fact->text, fact->len_bytes);
    }
    return 0;
}

/* Whether a rule can hold, by the event's own fields. */
static int row_may_hold(ec_rules_row *r, int *ret) {
    ec_rules_class *c = r->of;
    *ret = 1;
    if (!c->own || (c->own_seen >= OWN_SAMPLE && c->own_stayed > c->own_seen / 2))
        return 0;
    int rc = ea_rules_run_may(r->run, c->own, r->values, r->value_count, ret);
    c->own_seen++;
    c->own_stayed += (uint64_t)*ret;
    return rc;
}

int ec_rules_row_judge(ec_rules_row *r, int is_read_alone, const uint32_t **ret_rules, size_t *ret_count, ea_err *err) {
    int may = 1;
    *ret_count = 0;
    r->value_count = r->len_bytes = 0;
    memset(r->is_found, 0, sizeof r->is_found);
    r->utc_ns = sqlite3_column_int64(r->st, EC_RULES_TIME);
    ec_process_facts_begin(r->facts, r->archived);
    int rc = row_read_own(r, err);
    if (!rc && !is_read_alone && row_may_hold(r, &may))
        rc = ea_fail(err, EA_ENOMEM, "run the rules");
    if (rc || !may)
        return rc;
    rc = row_read_processes(r, err);
    if (rc || is_read_alone)
        return rc;
    rc = ea_rules_run_event(r->run, r->of->group, r->values, r->value_count, ret_rules, ret_count);
    return rc ? ea_fail(err, rc, "run the rules") : 0;
}

/* A fact as a cell. */
static int row_fill(ec_rules_row *r, size_t at, const ec_process *p, enum ec_fact fact, ea_err *err) {
    ea_text_clear(&r->cells[at]);
    r->looks[at] = p && p->facts[fact].text ? EC_LOOK_WORD : EC_LOOK_EMPTY;
    if (r->looks[at] == EC_LOOK_WORD)
        ea_text_add(&r->cells[at], p->facts[fact].text, p->facts[fact].len_bytes);
    return r->cells[at].failed ? ea_fail(err, EA_ENOMEM, "run the rules") : 0;
}

int ec_rules_row_fill(ec_rules_row *r, ea_err *err) {
    const ec_rules_statement *s = &r->of->statement;
    const ec_process *p = NULL;
    for (int i = 0; i < EC_RULES_PROCESS; i++) {
        const ec_value v = ec_sql_cell(r->st, i);
        r->looks[i] = ec_cell_text(&r->cells[i], &v, r->of->types[i]);
        if (r->cells[i].failed)
            return ea_fail(err, EA_ENOMEM, "run the rules");
    }
    int rc = s->scope == EC_RULES_OF_BATCHES ? ec_rules_row_process(r, EC_RULES_OF_PROCESS, &p, err) : 0;
    if (!rc)
        rc = row_fill(r, EC_RULES_PROCESS, p, EC_FACT_IMAGE_NAME, err);
    for (size_t i = 0; i < s->field_count && !rc; i++)
        if (s->sources[i].of != EC_RULES_OF_EVENT && !(rc = ec_rules_row_process(r, s->sources[i].of, &p, err)))
            rc = row_fill(r, EC_RULES_HEAD_COLUMNS + i, p, s->sources[i].fact, err);
    return rc;
}
