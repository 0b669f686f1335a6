/* See script_names.h. */
#include "collector/query/analysis/script_names.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

/* Of a url, so much says that a name ends with it: a url that was cut ends with what no name has. */
enum { URLS_MAX_BYTES = 64 << 20, NAME_MAX_BYTES = 512, COMPARED_BYTES = 256 };

struct ec_script_names {
    ea_arena arena;
    ea_u64_map by_number; /* of pid, context and source: the index of its url, from 1 */
    const char **urls;
    size_t count, capacity;
};

int ec_script_names_create(ec_script_names **ret, ea_err *err) {
    ec_script_names *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "read scripts");
    ea_arena_init(&s->arena, URLS_MAX_BYTES);
    ea_u64_map_init(&s->by_number, EC_SCRIPTS_MAX);
    *ret = s;
    return 0;
}

void ec_script_names_destroy(ec_script_names *s) {
    if (!s)
        return;
    ea_arena_deinit(&s->arena);
    ea_u64_map_deinit(&s->by_number);
    free(s->urls);
    free(s);
}

static uint64_t script_names_number_of(uint32_t pid, uint64_t context, uint64_t source) {
    uint64_t all[3] = {pid, context, source};
    return ea_hash64(all, sizeof all, 0);
}

int ec_script_names_add(ec_script_names *s, uint32_t pid, uint64_t context, uint64_t source, const char *url) {
    size_t n = ea_utf8_fit(url, strlen(url), EC_SCRIPT_URL_MAX_BYTES);
    const uint64_t *known = ea_u64_map_get(&s->by_number, script_names_number_of(pid, context, source));
    const char *before = known ? s->urls[*known - 1] : NULL;
    if (before && strncmp(before, url, n) == 0 && before[n] == (url[n] ? '.' : '\0'))
        return 0; /* a rundown names it again and again */
    if (s->count == EC_SCRIPTS_MAX)
        return EA_ELIMIT;
    char *own = ea_arena_alloc(&s->arena, n + sizeof "...");
    if (!own)
        return EA_ELIMIT;
    memcpy(own, url, n);
    memcpy(own + n, "...", sizeof "...");
    if (!url[n])
        own[n] = '\0';
    if (EA_GROW(s->urls, s->capacity, s->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    int rc = ea_u64_map_put(&s->by_number, script_names_number_of(pid, context, source), s->count + 1);
    if (!rc)
        s->urls[s->count++] = own;
    return rc;
}

const char *ec_script_names_url(const ec_script_names *s, const ec_script_place *p) {
    const uint64_t *at =
        p->source ? ea_u64_map_get(&s->by_number, script_names_number_of(p->pid, p->context, p->source)) : NULL;
    return at && *s->urls[*at - 1] ? s->urls[*at - 1] : NULL;
}

/* V8's kinds of code that is a function's, and what such code without a name is. */
static const struct {
    const char *prefix, *nameless;
} KINDS[] = {
    {"JS:", "(anonymous)"}, {"LazyCompile:", "(anonymous)"}, {"Function:", "(anonymous)"}, {"Script:", "(program)"},
    {"Eval:", "(eval)"},
};

void ec_script_name(ea_text *out, const char *logged, const char *url, const ec_script_place *p) {
    const char *name = logged, *nameless = "(anonymous)";
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strncmp(logged, KINDS[i].prefix, strlen(KINDS[i].prefix)) == 0) {
            name = logged + strlen(KINDS[i].prefix);
            name += strspn(name, "~^+*'"); /* the tier: interpreted, Sparkplug, Maglev, TurboFan */
            nameless = KINDS[i].nameless;
            break;
        }
    size_t n = ea_utf8_fit(name, strlen(name), NAME_MAX_BYTES);
    int is_whole = !name[n];
    if (url && name != logged) { /* V8 repeats the place in the script, which follows */
        size_t url_bytes = ea_utf8_fit(url, strlen(url), COMPARED_BYTES);
        for (size_t i = 0; i < n; i++)
            if (name[i] == ' ' && strncmp(name + i + 1, url, url_bytes) == 0) {
                n = i;
                is_whole = 1;
            }
    }
    if (!n || *name == ' ')
        ea_text_str(out, nameless);
    ea_text_add(out, name, n);
    if (!is_whole)
        ea_text_str(out, "...");
    if (!url)
        return;
    ea_text_char(out, ' ');
    ea_text_str(out, url);
    if (!p->line || p->line == UINT32_MAX)
        return;
    ea_text_printf(out, ":%u", (unsigned)p->line);
    if (p->column && p->column != UINT32_MAX)
        ea_text_printf(out, ":%u", (unsigned)p->column);
}
