/* See unknown_names.h. */
#include "collector/web/unknown_names.h"

#include "collector/query/sql/ask.h"
#include "proto/base/pattern.h"
#include "proto/event/class_names.h"

#include <string.h>

enum { PATH_BYTES = 2048 };

/* sql: two columns, a stored name and the GUID of a provider. */
typedef struct named {
    const char *param, *what, *sql;
    int (*is_meant)(const char *asked, const char *name, const ea_guid *provider);
} named;

static int names_is_provider(const char *asked, const char *name, const ea_guid *provider) {
    return ea_provider_is_named(asked, strlen(asked), name, provider);
}

static int names_is_equal(const char *asked, const char *name, const ea_guid *provider) {
    (void)provider;
    return strcmp(asked, name) == 0;
}

/* A program's tables are NAME and NAME_ANYTHING. */
static int names_is_program(const char *asked, const char *name, const ea_guid *provider) {
    size_t n = strlen(asked);
    (void)provider;
    return strncmp(asked, name, n) == 0 && (!name[n] || name[n] == '_');
}

/* A part of a stored text, in any case. */
static int names_is_part(const char *asked, const char *name, const ea_guid *provider) {
    size_t n = strlen(asked);
    (void)provider;
    for (; *name; name++) {
        size_t k = 0;
        while (k < n && name[k] && ea_ascii_lower(name[k]) == ea_ascii_lower(asked[k]))
            k++;
        if (k == n)
            return 1;
    }
    return !n;
}

#define OF_PROGRAMS "SELECT image_name, NULL FROM processes GROUP BY 1"

/* Parameters that are a part of a name. path: of the route; query: its name when it is a named query. */
static const struct {
    const char *path, *query;
    named name;
} PARTS[] = {
    {"/api/v1/queries/{name}",
     "process-starts",
     {"parent", "no stored process has a parent", "SELECT parent_image_name, NULL FROM processes GROUP BY 1",
      names_is_part}},
    {"/api/v1/queries/{name}", "process-starts", {"q", "no stored process has a program", OF_PROGRAMS, names_is_part}},
    {"/api/v1/processes", NULL, {"q", "no stored process has a program", OF_PROGRAMS, names_is_part}},
    {"/api/v1/hosts/{host}/processes", NULL, {"q", "no stored process has a program", OF_PROGRAMS, names_is_part}},
    {"/api/v1/modules",
     NULL,
     {"q", "no stored module has a file", "SELECT path, NULL FROM modules GROUP BY 1", names_is_part}},
};

static const named NAMED[] = {
    {"provider_name", "provider", "SELECT DISTINCT provider_name, provider FROM classes", names_is_provider},
    {"stream", "stream", "SELECT DISTINCT stream, NULL FROM streams", names_is_equal},
    {"level", "level",
     "SELECT column1, NULL FROM (VALUES('informational'), ('low'), ('medium'), ('high'), ('critical')) UNION SELECT"
     " level, NULL FROM detections",
     names_is_equal},
    {"program", "program",
     "SELECT DISTINCT substr(name, 7), NULL FROM classes WHERE provider_name = 'etwagent-watch' AND substr(name, 1, 6) "
     "="
     " 'watch_'",
     names_is_program},
};

typedef struct names_search {
    const named *of;
    const char *asked;
    int is_known;
    ea_near near;
} names_search;

static int names_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    (void)arg, (void)count, (void)names, (void)types;
    return 0;
}

/* What people write of a path: its file, and a program without its ending. */
static void names_note_file(names_search *s, const char *path) {
    const char *slash = strrchr(path, '\\'), *file = slash ? slash + 1 : path, *dot = strrchr(file, '.');
    char stem[EA_NEAR_BYTES];
    ea_near_note(&s->near, s->asked, file);
    if (dot && dot > file && (size_t)(dot - file) < sizeof stem) {
        memcpy(stem, file, (size_t)(dot - file));
        stem[dot - file] = 0;
        ea_near_note(&s->near, s->asked, stem);
    }
}

static int names_on_row(void *arg, size_t count, const ec_value *cells) {
    names_search *s = arg;
    char name[PATH_BYTES], guid[40] = "";
    ea_guid provider;
    if (count != 2 || cells[0].type != EC_TEXT || cells[0].len_bytes >= sizeof name)
        return 0;
    memcpy(name, cells[0].data, cells[0].len_bytes);
    name[cells[0].len_bytes] = 0;
    if (cells[1].type == EC_TEXT && cells[1].len_bytes < sizeof guid)
        memcpy(guid, cells[1].data, cells[1].len_bytes);
    if (ea_guid_parse(guid, &provider))
        memset(&provider, 0, sizeof provider);
    s->is_known |= s->of->is_meant(s->asked, name, &provider);
    ea_near_note(&s->near, s->asked, name);
    if (s->of->is_meant == names_is_provider)
        ea_near_note(&s->near, s->asked, ea_provider_short_name(name));
    if (s->of->is_meant == names_is_part)
        names_note_file(s, name);
    return 0;
}

/* *ret_is_known: 1 also when the question did not end. */
static int names_look(ec_call *c, const char *host, names_search *s, int *ret_is_known, ea_err *err) {
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    ec_question q = {.store = c->options->store,
                     .host = host,
                     .sql = s->of->sql,
                     .limit_ns = c->options->limit_ns,
                     .limit_bytes = c->options->limit_bytes};
    int rc = ec_call_ask(c, &q, &(ec_listener){.on_columns = names_on_columns, .on_row = names_on_row, .arg = s},
                         &outcome, err);
    *ret_is_known = s->is_known || outcome.ending != EC_ENDED_WHOLE;
    return rc;
}

static int names_check(ec_call *c, const char *host, const named *of, const char *asked, ea_err *err) {
    names_search s = {.of = of, .asked = asked};
    int is_known, rc = names_look(c, host, &s, &is_known, err);
    if (rc || is_known)
        return rc;
    return ea_fail(err, EA_EUSAGE, "%s: nothing is stored of a %s '%.80s'%s%s%s", of->param, of->what, asked,
                   *s.near.name ? "; did you mean '" : "", s.near.name, *s.near.name ? "'?" : "");
}

int ec_unknown_names_check(ec_call *c, const char *host, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof NAMED / sizeof NAMED[0]; i++) {
        const char *asked = ec_call_param(c, NAMED[i].param);
        if (asked && *asked)
            rc = names_check(c, host, &NAMED[i], asked, err);
    }
    return rc;
}

int ec_unknown_names_note(ec_call *c, const char *host, ea_text *out, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof PARTS / sizeof PARTS[0]; i++) {
        const named *of = &PARTS[i].name;
        names_search s = {.of = of, .asked = ec_call_param(c, of->param)};
        int is_known = 1;
        if (s.asked && *s.asked && strcmp(c->route->path, PARTS[i].path) == 0 &&
            (!PARTS[i].query || strcmp(c->parts[0], PARTS[i].query) == 0))
            rc = names_look(c, host, &s, &is_known, err);
        if (!is_known && !rc)
            ea_text_printf(out, "; %s whose name contains '%.80s'%s%s%s", of->what, s.asked,
                           *s.near.name ? "; did you mean '" : "", s.near.name, *s.near.name ? "'?" : "");
    }
    return rc;
}
