/* Names of which nothing is stored, in conditions of a statement: host = 'WEB-71', name IN ('Process/Strat'); and texts
 * that are stored in another case alone: image_name = 'POWERSHELL.EXE'. The answer is right, and empty for a reason
 * that its reader may not know.
 *
 * The statement is read as tokens, so that joins, common tables and subqueries are covered alike. A parameter's value
 * is not looked at.
 *
 * Called by: worker.c. Calls: archive.h, proto/event. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"
#include "collector/query/sql/sql_tokens.h"
#include "proto/base/pattern.h"
#include "proto/event/class_names.h"

#include <string.h>

enum { NAMES_MAX = 64, NAME_BYTES = 256 }; /* further and longer names are not looked at */

enum compared { NOTHING, HOST, PROVIDER, CLASS, CASED };

/* A column whose texts are compared with their case, which people leave out: of which table, as a statement names it.
 */
static const struct {
    const char *name, *table;
} CASED_COLUMNS[] = {{"image_name", "processes"}, {"parent_image_name", "processes"}, {"command_line", "processes"},
                     {"path", "modules"},         {"original_name", "modules"},       {"machine", "hosts"}};

enum { CASED_COUNT = sizeof CASED_COLUMNS / sizeof *CASED_COLUMNS };

typedef struct compared_name {
    enum compared is;
    size_t cased; /* in CASED_COLUMNS */
    ec_sql_token value;
} compared_name;

typedef struct search {
    ec_sql *sql;
    int names_events;             /* the statement names the table events or one of its kin */
    int names_table[CASED_COUNT]; /* ... the table of the column */
    compared_name all[NAMES_MAX];
    size_t count;
    ea_err *why; /* EA_ENOTFOUND: the first name of which nothing is stored */
} search;

static compared_name unknown_column(const ec_sql_token *t) {
    static const struct {
        const char *name;
        enum compared is;
    } COLUMNS[] = {{"host", HOST}, {"provider_name", PROVIDER}, {"name", CLASS}};

    char name[NAME_BYTES];
    if ((t->kind != EC_TOKEN_WORD && t->kind != EC_TOKEN_NAME) || t->len_bytes >= sizeof name)
        return (compared_name){.is = NOTHING};
    ec_sql_token_value(t, name);
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        if (ea_name_equal(name, COLUMNS[i].name))
            return (compared_name){.is = COLUMNS[i].is};
    for (size_t i = 0; i < CASED_COUNT; i++)
        if (ea_name_equal(name, CASED_COLUMNS[i].name))
            return (compared_name){.is = CASED, .cased = i};
    return (compared_name){.is = NOTHING};
}

static int unknown_host(search *s, const char *host) {
    if (s->sql->options.host) /* the archive has only this one's streams */
        return 0;
    ea_err err = {0};
    int rc = ec_archive_has_hosts(ec_sql_archive(s->sql), &host, 1, &err);
    if (rc == EA_ENOTFOUND)
        *s->why = err;
    return rc;
}

/* Whether a condition finds the class: by its name as it is written, or by PROVIDER/ID, in any case. */
static int is_class_name(const char *asked, const char *name, const ea_class *c) {
    return strcmp(asked, name) == 0 || (!ea_name_equal(asked, name) && ea_class_is_named(asked, c));
}

/* asked: a provider's or a class's name. */
static int look_among_classes(search *s, enum compared what, const char *asked) {
    const ea_class *const *classes;
    size_t count = 0;
    ea_near near = {0};
    ea_err err;
    int rc = ec_archive_classes(ec_sql_archive(s->sql), &classes, &count, &err);
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_class *c = classes[i];
        const char *provider = c->provider_name ? c->provider_name : "", *name = c->name ? c->name : "";
        if (what == PROVIDER ? ea_provider_is_named(asked, strlen(asked), provider, &c->provider)
                             : is_class_name(asked, name, c))
            return 0;
        ea_near_note(&near, asked, what == PROVIDER ? provider : name);
        if (what == PROVIDER)
            ea_near_note(&near, asked, ea_provider_short_name(provider));
    }
    return rc ? rc
              : ea_fail(s->why, EA_ENOTFOUND, "nothing is stored of the %s '%.80s'%s%s%s",
                        what == PROVIDER ? "provider" : "class", asked, *near.name ? "; did you mean '" : "", near.name,
                        *near.name ? "'?" : "");
}

/* A text that is stored in another case alone: such as a program's name. */
static int look_for_case(search *s, size_t cased, const char *asked) {
    const char *name = CASED_COLUMNS[cased].name;
    sqlite3_stmt *st = NULL;
    if (!s->names_table[cased])
        return 0;
    char *sql =
        sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" WHERE \"%w\" = ?1 COLLATE NOCASE ORDER BY \"%w\" <> ?1 LIMIT 1",
                        name, CASED_COLUMNS[cased].table, name, name);
    int code = sql ? sqlite3_prepare_v3(s->sql->db, sql, -1, 0, &st, NULL) : SQLITE_NOMEM, rc = 0;
    sqlite3_free(sql);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(st, 1, asked, -1, SQLITE_STATIC);
    if (code == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        const char *found = (const char *)sqlite3_column_text(st, 0);
        if (found && strcmp(found, asked) != 0)
            rc = ea_fail(s->why, EA_ENOTFOUND,
                         "%s = '%.60s' compares the case of letters, and '%.60s' is stored: %s = '%.60s' COLLATE NOCASE"
                         " finds any case",
                         name, asked, found, name, asked);
    }
    sqlite3_finalize(st);
    return rc;
}

/* 0: something is stored of it, or it is no name to look at. */
static int unknown_check(search *s, const compared_name *c) {
    char name[NAME_BYTES];
    ec_sql_token_value(&c->value, name);
    if (!*name || strchr(name, '*'))
        return 0;
    if (c->is == CASED)
        return look_for_case(s, c->cased, name);
    if (c->is == HOST)
        return unknown_host(s, name);
    if (c->is == CLASS && (!s->names_events || !strchr(name, '/')))
        return 0; /* other tables have a column of this name, too */
    return look_among_classes(s, c->is, name);
}

static void unknown_note(search *s, compared_name c, const ec_sql_token *value) {
    if (c.is == NOTHING || value->len_bytes >= NAME_BYTES || s->count == NAMES_MAX)
        return;
    c.value = *value;
    s->all[s->count++] = c;
}

static int is_equal_sign(const ec_sql_token *t) {
    return t->kind == EC_TOKEN_SIGN && (ec_sql_token_is(t, "=") || ec_sql_token_is(t, "=="));
}

/* Whether COLLATE comes next: then the comparison may be without case. */
static int has_collation(ec_sql_lexer l) {
    ec_sql_lexer_next(&l);
    return ec_sql_token_is(&l.token, "COLLATE");
}

static void unknown_note_table(search *s, const ec_sql_token *t) {
    s->names_events |= ec_sql_token_is(t, "events") || ec_sql_token_is(t, "events_by") || ec_sql_token_is(t, "classes");
    for (size_t i = 0; i < CASED_COUNT; i++)
        s->names_table[i] |= ec_sql_token_is(t, CASED_COLUMNS[i].table);
}

int ec_sql_check_known(ec_sql *sql, const char *statement, int may_be_empty, ea_err *why) {
    search s = {.sql = sql, .why = why};
    ec_sql_lexer l = {.at = statement, .end = statement + strlen(statement)};
    ec_sql_token before = {0}, two_before = {0};
    compared_name list = {.is = NOTHING}; /* inside IN (...) of this column */
    int rc = 0;
    for (ec_sql_lexer_next(&l); l.token.kind != EC_TOKEN_END; ec_sql_lexer_next(&l)) {
        const ec_sql_token *t = &l.token;
        if (t->kind == EC_TOKEN_WORD)
            unknown_note_table(&s, t);
        if (t->kind == EC_TOKEN_STRING && is_equal_sign(&before) && !has_collation(l))
            unknown_note(&s, unknown_column(&two_before), t);
        else if (ec_sql_token_is(t, "(") && ec_sql_token_is(&before, "IN"))
            list = unknown_column(&two_before);
        else if (list.is != NOTHING && t->kind == EC_TOKEN_STRING)
            unknown_note(&s, list, t);
        else if (list.is != NOTHING && !ec_sql_token_is(t, ","))
            list.is = NOTHING;
        two_before = before;
        before = *t;
    }
    for (size_t i = 0; !rc && i < s.count; i++)
        if (s.all[i].is != CASED || may_be_empty)
            rc = unknown_check(&s, &s.all[i]);
    return rc == EA_ENOTFOUND ? rc : 0;
}
