/* Names of which nothing is stored, in conditions of a statement: host = 'WEB-71', name IN ('Process/Strat'). The
 * answer is right, and empty for a reason that its reader may not know.
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

enum compared { NOTHING, HOST, PROVIDER, CLASS };

typedef struct search {
    ec_sql *sql;
    int names_events; /* the statement names the table events or one of its kin */
    size_t looked_at;
    ea_err *why; /* EA_ENOTFOUND: the first name of which nothing is stored */
} search;

static enum compared unknown_column(const ec_sql_token *t) {
    static const struct {
        const char *name;
        enum compared is;
    } COLUMNS[] = {{"host", HOST}, {"provider_name", PROVIDER}, {"name", CLASS}};

    char name[NAME_BYTES];
    if ((t->kind != EC_TOKEN_WORD && t->kind != EC_TOKEN_NAME) || t->len_bytes >= sizeof name)
        return NOTHING;
    ec_sql_token_value(t, name);
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        if (ea_name_equal(name, COLUMNS[i].name))
            return COLUMNS[i].is;
    return NOTHING;
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

/* 0: something is stored of it, or it is no name to look at. */
static int unknown_check(search *s, enum compared what, const ec_sql_token *value) {
    char name[NAME_BYTES];
    if (what == NOTHING || value->len_bytes >= sizeof name || s->looked_at++ >= NAMES_MAX)
        return 0;
    ec_sql_token_value(value, name);
    if (!*name || strchr(name, '*'))
        return 0;
    if (what == HOST)
        return unknown_host(s, name);
    if (what == CLASS && (!s->names_events || !strchr(name, '/')))
        return 0; /* other tables have a column of this name, too */
    return look_among_classes(s, what, name);
}

static int is_equal_sign(const ec_sql_token *t) {
    return t->kind == EC_TOKEN_SIGN && (ec_sql_token_is(t, "=") || ec_sql_token_is(t, "=="));
}

/* Whether COLLATE comes next: then the comparison may be without case. */
static int has_collation(ec_sql_lexer l) {
    ec_sql_lexer_next(&l);
    return ec_sql_token_is(&l.token, "COLLATE");
}

static int names_events(const char *sql) {
    ec_sql_lexer l = {.at = sql, .end = sql + strlen(sql)};
    for (ec_sql_lexer_next(&l); l.token.kind != EC_TOKEN_END; ec_sql_lexer_next(&l))
        if (l.token.kind == EC_TOKEN_WORD &&
            (ec_sql_token_is(&l.token, "events") || ec_sql_token_is(&l.token, "events_by") ||
             ec_sql_token_is(&l.token, "classes")))
            return 1;
    return 0;
}

int ec_sql_check_known(ec_sql *sql, const char *statement, ea_err *why) {
    search s = {.sql = sql, .names_events = names_events(statement), .why = why};
    ec_sql_lexer l = {.at = statement, .end = statement + strlen(statement)};
    ec_sql_token before = {0}, two_before = {0};
    enum compared list = NOTHING; /* inside IN (...) of this column */
    int rc = 0;
    for (ec_sql_lexer_next(&l); !rc && l.token.kind != EC_TOKEN_END; ec_sql_lexer_next(&l)) {
        const ec_sql_token *t = &l.token;
        if (t->kind == EC_TOKEN_STRING && is_equal_sign(&before) && !has_collation(l))
            rc = unknown_check(&s, unknown_column(&two_before), t);
        else if (ec_sql_token_is(t, "(") && ec_sql_token_is(&before, "IN"))
            list = unknown_column(&two_before);
        else if (list != NOTHING && t->kind == EC_TOKEN_STRING)
            rc = unknown_check(&s, list, t);
        else if (list != NOTHING && !ec_sql_token_is(t, ","))
            list = NOTHING;
        two_before = before;
        before = *t;
    }
    return rc == EA_ENOTFOUND ? rc : 0;
}
