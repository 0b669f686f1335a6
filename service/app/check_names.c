/* See check_names.h. */
#include "service/app/check_names.h"

#include "config/sessions.h"
#include "proto/base/cli.h"
#include "proto/base/pattern.h"
#include "proto/event/schema/catalogue.h"
#include "proto/event/schemas.h"

#include <inttypes.h>
#include <string.h>

enum { NEAR_MAX = 3, WORD_BYTES = 80, ANY_VERSION = 255 };

/* The nearest of some names so far. */
typedef struct nearest {
    const char *asked, *name;
    size_t distance;
} nearest;

static void check_names_consider(nearest *n, const char *name) {
    size_t d = strlen(n->asked) < WORD_BYTES && strlen(name) < WORD_BYTES ? ea_name_distance(n->asked, name) : SIZE_MAX;
    if (d <= NEAR_MAX && (!n->name || d < n->distance)) {
        n->name = name;
        n->distance = d;
    }
}

static void add_near(ea_text *t, const nearest *n) {
    if (n->name)
        ea_text_printf(t, "; did you mean '%s'?", n->name);
    ea_text_char(t, '\n');
}

/* One provider has several entries when several sources describe it. */
static const ea_schema_provider *find_provider(const ea_schemas *s, const char *name, nearest *near) {
    for (size_t i = 0; i < ea_schemas_provider_count(s); i++) {
        const ea_schema_provider *p = ea_schemas_provider_at(s, i);
        if (ea_name_equal(p->name, name))
            return p;
        check_names_consider(near, p->name);
    }
    return NULL;
}

static void check_keyword(const ea_schema_provider *p, const char *word, ea_text *t) {
    nearest near = {.asked = word};
    uint64_t number;
    if (ea_u64_parse(word, &number) == 0 || !p->keyword_count)
        return;
    for (size_t i = 0; i < p->keyword_count; i++) {
        if (ea_name_equal(p->keywords[i].name, word))
            return;
        check_names_consider(&near, p->keywords[i].name);
    }
    ea_text_printf(t, "  note: %s has no keyword ", p->name);
    ea_text_safe(t, word, strlen(word));
    add_near(t, &near);
}

static void check_keywords(const ea_schema_provider *p, const char *text, ea_text *t) {
    char word[WORD_BYTES];
    for (const char *at = text; at && *at; at += *at == '+') {
        size_t n = strcspn(at, "+"), begin = strspn(at, " "), end = n;
        while (end > begin && at[end - 1] == ' ')
            end--;
        if (begin < end && end - begin < sizeof word) {
            memcpy(word, at + begin, end - begin);
            word[end - begin] = 0;
            check_keyword(p, word, t);
        }
        at += n;
    }
}

static void check_events(ea_schemas *s, const ea_schema_provider *p, const ea_strings *ids, ea_text *t) {
    for (size_t i = 0; i < ids->count; i++) {
        uint64_t id;
        ea_schema schema;
        int newer;
        if (ea_u64_parse(ids->items[i], &id) || id > UINT16_MAX)
            continue;
        if (!ea_schemas_find(s, &p->guid, (uint16_t)id, ANY_VERSION, 0, &schema, &newer))
            ea_text_printf(t, "  note: no event %" PRIu64 " of %s is known here\n", id, p->name);
    }
}

static void check_names_check_provider(ea_schemas *s, const ea_provider_config *c, ea_text *t) {
    nearest near = {.asked = c->provider};
    const ea_schema_provider *p = find_provider(s, c->provider, &near);
    if (!p && near.name) {
        ea_text_str(t, "  note: no provider ");
        ea_text_safe(t, c->provider, strlen(c->provider));
        ea_text_str(t, " is known here");
        add_near(t, &near);
    }
    if (!p)
        return;
    check_keywords(p, c->any, t);
    check_keywords(p, c->all, t);
    check_events(s, p, &c->event_ids, t);
    check_events(s, p, &c->exclude_event_ids, t);
}

int ea_check_names(const ea_agent_config *config, ea_text *notes, ea_err *err) {
    ea_schemas *s;
    int rc = ea_schemas_create(&s, 0, err);
    if (rc)
        return rc;
    rc = ea_catalogue_read(s, err);
    for (size_t i = 0; !rc && i < config->sessions.count; i++) {
        const ea_session_config *session = (const ea_session_config *)config->sessions.items + i;
        for (size_t k = 0; k < session->providers.count; k++)
            check_names_check_provider(s, (const ea_provider_config *)session->providers.items + k, notes);
    }
    ea_schemas_destroy(s);
    return rc;
}
