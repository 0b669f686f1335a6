/* Sessions and providers in a configuration. See sessions.h. */
#include "config/sessions.h"
#include "config/kernel_flags.h"
#include "config/system_providers.h"
#include "proto/base/clock.h"
#include "proto/event/event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const KINDS[] = {"user", "system", "kernel-logger", NULL};
static const char *const OUTPUTS[] = {"realtime", "file", "both", NULL};
static const char *const CLOCKS[] = {"qpc", "system", "cycle", NULL};
static const char *const STALE[] = {"stop", "adopt", NULL};
static const char *const PRIORITIES[] = {"security", "bulk", NULL};
static const char *const LEVELS[] = {"log-always", "critical", "error", "warning", "information", "verbose", NULL};
static const char *const PROPERTIES[] = {"sid",       "terminal-session",   "psm-key",          "process-start-key",
                                         "event-key", "exclude-in-private", "ignore-keyword-0", NULL};
static const char *const RUNDOWNS[] = {"process", "thread", "image", "file-name", "driver", "registry", "dotnet", NULL};

const ea_payload_compare ea_payload_compares[] = {
    {"equals", 0},   {"differs", 1}, {"at-most", 2},     {"above", 3},       {"below", 4},
    {"at-least", 5}, {"between", 6}, {"not-between", 7}, {"multiple-of", 8}, {"contains", 20},
    {"lacks", 21},   {"is", 30},     {"is-not", 31},     {NULL, 0}};
/* their names, for the row */
static const char *const COMPARES[] = {"equals",   "differs", "at-most",     "above",       "below",
                                       "at-least", "between", "not-between", "multiple-of", "contains",
                                       "lacks",    "is",      "is-not",      NULL};
_Static_assert(sizeof COMPARES / sizeof *COMPARES == sizeof ea_payload_compares / sizeof *ea_payload_compares,
               "a name for each number");

/* ---- providers ---- */

int ea_level_parse(const char *text, uint8_t *ret) {
    uint64_t number;
    for (unsigned i = 0; LEVELS[i]; i++)
        if (strcmp(text, LEVELS[i]) == 0) {
            *ret = (uint8_t)i;
            return 0;
        }
    if (ea_u64_parse(text, &number) || number > 255)
        return EA_EINVAL;
    *ret = (uint8_t)number;
    return 0;
}

int ea_keywords_parse(const char *text, uint64_t *ret, int *ret_has_names) {
    uint64_t mask = 0;
    int names = 0;
    for (const char *p = text; p; p = *p ? p + 1 : NULL) {
        char word[32];
        uint64_t number;
        size_t n = strcspn(p, "+");
        if (!n)
            return EA_EINVAL;
        if (n < sizeof word) {
            memcpy(word, p, n);
            word[n] = 0;
        }
        if (n < sizeof word && ea_u64_parse(word, &number) == 0)
            mask |= number;
        else
            names = 1;
        p += n;
    }
    *ret = mask;
    *ret_has_names = names;
    return 0;
}

static int in_list(const char *const *list, const char *word) {
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return 1;
    return 0;
}

static int words_are_of(const ea_strings *given, const char *const *known, ea_err *err) {
    for (size_t i = 0; i < given->count; i++)
        if (!in_list(known, given->items[i])) {
            ea_text t;
            ea_text_init(&t);
            for (size_t k = 0; known[k]; k++)
                ea_text_printf(&t, "%s%s", k ? ", " : "", known[k]);
            int rc = ea_fail(err, EA_EINVAL, "'%.64s': expected some of %s", given->items[i], t.failed ? "" : t.data);
            ea_text_deinit(&t);
            return rc;
        }
    return 0;
}

/* "7" or "100-199", within 0..65535 (max). */
static int ranges_are_ids(const ea_strings *given, uint64_t max, ea_err *err) {
    for (size_t i = 0; i < given->count; i++) {
        char low[24], high[24];
        uint64_t a = 0, b = 0;
        const char *s = given->items[i], *dash = strchr(s, '-');
        size_t n = dash ? (size_t)(dash - s) : strlen(s), m = dash ? strlen(dash + 1) : n;
        int ok = n < sizeof low && m < sizeof high;
        if (ok) {
            memcpy(low, s, n);
            low[n] = 0;
            memcpy(high, dash ? dash + 1 : s, m);
            high[m] = 0;
            ok = ea_u64_parse(low, &a) == 0 && ea_u64_parse(high, &b) == 0 && a <= b && b <= max;
        }
        if (!ok)
            return ea_fail(err, EA_EINVAL, "'%.40s': expected a number or a range such as 10-19, at most %" PRIu64, s,
                           max);
    }
    return 0;
}

size_t ea_ids_expand(const ea_strings *given, uint16_t *ids, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < given->count; i++) {
        const char *dash = strchr(given->items[i], '-');
        unsigned long low = strtoul(given->items[i], NULL, 0), high = dash ? strtoul(dash + 1, NULL, 0) : low;
        for (; low <= high && low <= UINT16_MAX; low++, n++)
            if (n < max)
                ids[n] = (uint16_t)low;
    }
    return n;
}

/* A filter by event ids is whole or it is none. */
static int are_few_ids(const ea_strings *given, ea_err *err) {
    int rc = ranges_are_ids(given, 65535, err);
    size_t n = rc ? 0 : ea_ids_expand(given, NULL, 0);
    return n > EA_FILTER_IDS_MAX
               ? ea_fail(err, EA_EINVAL, "%zu event ids: Windows filters by at most %d", n, EA_FILTER_IDS_MAX)
               : rc;
}

/* Names of TraceLogging events, UTF-8, each with its end. */
static int are_event_names(const ea_strings *given, ea_err *err) {
    size_t bytes = EA_FILTER_NAMES_HEAD_BYTES;
    for (size_t i = 0; i < given->count; i++) {
        if (!*given->items[i])
            return ea_fail(err, EA_EINVAL, "expected names of events");
        bytes += strlen(given->items[i]) + 1;
    }
    return bytes > EA_FILTER_NAMES_BYTES_MAX
               ? ea_fail(err, EA_EINVAL, "%zu bytes with their ends: Windows takes at most %d",
                         bytes - EA_FILTER_NAMES_HEAD_BYTES, EA_FILTER_NAMES_BYTES_MAX - EA_FILTER_NAMES_HEAD_BYTES)
               : 0;
}

static int is_level(const char *text, ea_err *err) {
    uint8_t level;
    return text && ea_level_parse(text, &level)
               ? ea_fail(err, EA_EINVAL, "'%.40s': expected critical, error, warning, information, verbose or 0 to 255",
                         text)
               : 0;
}

static int are_keywords(const char *text, ea_err *err) {
    uint64_t mask;
    int names;
    return ea_keywords_parse(text, &mask, &names)
               ? ea_fail(err, EA_EINVAL, "'%.64s': expected keywords joined by +, or a number such as 0x30", text)
               : 0;
}

static int check_event_names(const ea_provider_config *p, const char **ret_key, ea_err *err) {
    int rc, any = p->event_names.count || p->exclude_event_names.count;
    *ret_key = "event-names";
    if ((rc = are_event_names(&p->event_names, err)))
        return rc;
    *ret_key = "exclude-event-names";
    if (p->event_names.count && p->exclude_event_names.count)
        return ea_fail(err, EA_EINVAL, "Windows filters by one of event-names and exclude-event-names, not by both");
    if ((rc = are_event_names(&p->exclude_event_names, err)))
        return rc;
    *ret_key = "names-level";
    if (p->names_level && !any)
        return ea_fail(err, EA_EINVAL, "event-names or exclude-event-names say which names; they are missing");
    if ((rc = is_level(p->names_level, err)))
        return rc;
    *ret_key = "names-any";
    if (p->names_any && !any)
        return ea_fail(err, EA_EINVAL, "event-names or exclude-event-names say which names; they are missing");
    return are_keywords(p->names_any, err);
}

/* Names that become one text, separated by semicolons, UTF-16 with its end. */
static int are_short(const ea_strings *given, ea_err *err) {
    size_t units = given->count; /* separators, and the end */
    for (size_t i = 0; i < given->count; i++) {
        const char *name = given->items[i];
        if (!*name || strchr(name, ';'))
            return ea_fail(err, EA_EINVAL, "'%.64s': expected a name without a semicolon", name);
        units += ea_utf8_to_utf16(name, strlen(name), NULL, 0) / 2;
    }
    return 2 * units > EA_FILTER_BYTES_MAX ? ea_fail(err, EA_EINVAL, "%zu bytes of UTF-16: Windows takes at most %d",
                                                     2 * units, EA_FILTER_BYTES_MAX)
                                           : 0;
}

static int check_names(const ea_provider_config *p, const char **ret_key, ea_err *err) {
    const struct {
        const char *key;
        const ea_strings *names;
    } LISTS[] = {{"executables", &p->executables},
                 {"packages", &p->packages},
                 {"app-ids", &p->app_ids},
                 {"containers", &p->containers}};

    int rc = 0;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS && !rc; i++) {
        *ret_key = LISTS[i].key;
        rc = are_short(LISTS[i].names, err);
    }
    return rc;
}

static int check_stack_filter(const ea_provider_config *p, const char **ret_key, ea_err *err) {
    int rc;
    *ret_key = "stack-event-ids";
    if (p->stacks && p->stack_event_ids.count)
        return ea_fail(err, EA_EINVAL, "stacks: true walks the stacks of all events; give one of the two");
    if ((rc = are_few_ids(&p->stack_event_ids, err)))
        return rc;
    *ret_key = "stack-event-names";
    if (p->stack_event_names.count && (p->stacks || p->stack_event_ids.count))
        return ea_fail(err, EA_EINVAL, "stacks are walked by one of stacks, stack-event-ids and stack-event-names");
    if ((rc = are_event_names(&p->stack_event_names, err)))
        return rc;
    *ret_key = "stack-level";
    if (p->stack_level && (p->stacks || p->stack_event_ids.count))
        return ea_fail(err, EA_EINVAL, "stacks are walked by one of stacks, stack-event-ids and stack-level");
    if ((rc = is_level(p->stack_level, err)))
        return rc;
    *ret_key = "stack-any";
    if (p->stack_any && !p->stack_level && !p->stack_event_names.count)
        return ea_fail(err, EA_EINVAL, "stack-level is missing: expected the level up to which stacks are walked");
    return are_keywords(p->stack_any, err);
}

static int check_payload(const ea_provider_config *p, ea_err *err) {
    const ea_payload_config *all = p->payload.items;
    size_t events = 0;
    for (size_t i = 0; i < p->payload.count; i++) {
        size_t same = 0, is_first = 1;
        for (size_t k = 0; k < p->payload.count; k++) {
            same += all[k].event == all[i].event;
            is_first &= k >= i || all[k].event != all[i].event;
        }
        events += is_first;
        if (same > EA_FILTER_PREDICATES_MAX)
            return ea_fail(err, EA_EINVAL, "%zu conditions on event %" PRIu64 ": Windows takes at most %d of one event",
                           same, all[i].event, EA_FILTER_PREDICATES_MAX);
    }
    if (events > EA_FILTER_PAYLOAD_EVENTS_MAX)
        return ea_fail(err, EA_EINVAL, "conditions on %zu events: at most %d", events, EA_FILTER_PAYLOAD_EVENTS_MAX);
    return 0;
}

/* The kernel's own: keywords are known here, and nothing filters them. */
static int check_system_provider(const ea_system_provider *system, const ea_provider_config *p, const char **ret_key,
                                 ea_err *err) {
    const struct {
        const char *key;
        int is_given;
    } NOT_ITS[] = {{"all", p->all != NULL},
                   {"event-ids", p->event_ids.count != 0},
                   {"exclude-event-ids", p->exclude_event_ids.count != 0},
                   {"event-names", p->event_names.count != 0},
                   {"exclude-event-names", p->exclude_event_names.count != 0},
                   {"names-level", p->names_level != NULL},
                   {"names-any", p->names_any != NULL},
                   {"pids", p->pids.count != 0},
                   {"executables", p->executables.count != 0},
                   {"packages", p->packages.count != 0},
                   {"app-ids", p->app_ids.count != 0},
                   {"containers", p->containers.count != 0},
                   {"payload", p->payload.count != 0},
                   {"properties", p->properties.count != 0},
                   {"stacks", p->stacks},
                   {"stack-event-ids", p->stack_event_ids.count != 0},
                   {"stack-event-names", p->stack_event_names.count != 0},
                   {"stack-level", p->stack_level != NULL},
                   {"stack-any", p->stack_any != NULL},
                   {"groups", p->groups},
                   {"capture-state", p->capture_state},
                   {"capture-every", p->capture_every_ns != 0}};

    uint64_t mask;
    for (size_t i = 0; i < sizeof NOT_ITS / sizeof *NOT_ITS; i++)
        if (NOT_ITS[i].is_given) {
            *ret_key = NOT_ITS[i].key;
            return ea_fail(err, EA_EINVAL, "%s is the kernel's: it has keywords (any), and stacks are its session's",
                           system->name);
        }
    *ret_key = "any";
    if (!p->any)
        return ea_fail(err, EA_EINVAL, "%s: expected keywords, such as %s", system->name, system->keywords[0].name);
    return ea_system_keywords(system, p->any, &mask, err);
}

static int check_provider(const void *table, const char **ret_key, ea_err *err) {
    const ea_provider_config *p = table;
    ea_guid guid;
    uint64_t mask;
    const char *name = p->provider[0] == '*' ? p->provider + 1 : p->provider;
    size_t n = strlen(name);
    *ret_key = "provider";
    if (!n || n > 255)
        return ea_fail(err, EA_EINVAL, "expected a provider's name or GUID");
    if ((name[0] == '{' || (n == 36 && name[8] == '-')) && ea_guid_parse(name, &guid))
        return ea_fail(err, EA_EINVAL, "'%s' is not a GUID such as 22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", name);
    *ret_key = "level";
    int rc = is_level(p->level, err);
    if (rc)
        return rc;
    *ret_key = "any";
    if ((rc = are_keywords(p->any, err)))
        return rc;
    *ret_key = "all";
    if ((rc = are_keywords(p->all, err)))
        return rc;
    const ea_system_provider *system = ea_system_provider_find(p->provider);
    if (system && (rc = check_system_provider(system, p, ret_key, err)))
        return rc;
    *ret_key = "event-ids";
    if ((rc = are_few_ids(&p->event_ids, err)))
        return rc;
    *ret_key = "exclude-event-ids";
    if (p->event_ids.count && p->exclude_event_ids.count)
        return ea_fail(err, EA_EINVAL, "Windows filters by one of event-ids and exclude-event-ids, not by both");
    if ((rc = are_few_ids(&p->exclude_event_ids, err)))
        return rc;
    if ((rc = check_event_names(p, ret_key, err)))
        return rc;
    if ((rc = check_stack_filter(p, ret_key, err)))
        return rc;
    *ret_key = "pids";
    if (p->pids.count > EA_FILTER_PIDS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu process ids: Windows filters by at most %d", p->pids.count,
                       EA_FILTER_PIDS_MAX);
    for (size_t i = 0; i < p->pids.count; i++)
        if (ea_u64_parse(p->pids.items[i], &mask) || mask > UINT32_MAX)
            return ea_fail(err, EA_EINVAL, "'%.40s': expected a process id", p->pids.items[i]);
    if ((rc = check_names(p, ret_key, err)))
        return rc;
    *ret_key = "payload";
    if ((rc = check_payload(p, err)))
        return rc;
    *ret_key = "properties";
    if ((rc = words_are_of(&p->properties, PROPERTIES, err)))
        return rc;
    *ret_key = NULL;
    return 0;
}

static int check_condition(const void *table, const char **ret_key, ea_err *err) {
    const ea_payload_config *p = table;
    *ret_key = "field";
    if (!*p->field || strlen(p->field) > 255)
        return ea_fail(err, EA_EINVAL, "expected the name of a field");
    *ret_key = "value";
    size_t commas = 0;
    for (const char *c = p->value; *c; c++)
        commas += *c == ',';
    const char *compare = COMPARES[p->compare];
    if ((strcmp(compare, "between") == 0 || strcmp(compare, "not-between") == 0) && commas != 1)
        return ea_fail(err, EA_EINVAL, "'%.64s': expected two numbers, such as 7,16", p->value);
    if (!*p->value || strlen(p->value) > 255)
        return ea_fail(err, EA_EINVAL, "expected a value of at most 255 bytes");
    return 0;
}

#define AT(field) offsetof(ea_payload_config, field)
static const ea_option PAYLOAD_ROWS[] = {
    {.name = "event",
     .type = EA_OPT_U64,
     .offset = AT(event),
     .required = 1,
     .max = 65535,
     .example = "12",
     .help = "the event's number; each version of it that this machine knows"},
    {.name = "field",
     .type = EA_OPT_STRING,
     .offset = AT(field),
     .required = 1,
     .example = "FileName",
     .help = "a field of it, as the provider's manifest calls it"},
    {.name = "compare",
     .type = EA_OPT_CHOICE,
     .offset = AT(compare),
     .fallback = "is",
     .choices = COMPARES,
     .help = "numbers: equals, differs, at-most, above, below, at-least, between, not-between, multiple-of; texts: "
             "contains, lacks; texts and others: is, is-not"},
    {.name = "value",
     .type = EA_OPT_STRING,
     .offset = AT(value),
     .required = 1,
     .example = "cmd.exe",
     .help = "what it is compared with; of between two numbers with a comma"},
    {.name = NULL},
};
#undef AT
static const ea_table PAYLOAD = {
    .summary = "A condition on a field of an event. All conditions on an event hold together; other "
               "events of the provider are not touched.",
    .rows = PAYLOAD_ROWS,
    .size = sizeof(ea_payload_config),
    .check = check_condition};

#define AT(field) offsetof(ea_provider_config, field)
static const ea_option PROVIDER_ROWS[] = {
    {.name = "provider",
     .type = EA_OPT_STRING,
     .offset = AT(provider),
     .required = 1,
     .example = "Microsoft-Windows-DNS-Client",
     .help = "name or GUID; *Name for an EventSource or a TraceLogging provider, whose GUID is made of its name; in a "
             "system session also the kernel's own, such as SystemProcessProvider"},
    {.name = "level",
     .type = EA_OPT_STRING,
     .offset = AT(level),
     .fallback = "verbose",
     .help = "events up to this level: critical, error, warning, information, verbose or a number to 255"},
    {.name = "any",
     .type = EA_OPT_STRING,
     .offset = AT(any),
     .help =
         "keywords of which an event has one at the least, joined by +, names or 0x numbers; all events without it"},
    {.name = "all", .type = EA_OPT_STRING, .offset = AT(all), .help = "keywords that an event has all of"},
    {.name = "event-ids",
     .type = EA_OPT_STRINGS,
     .offset = AT(event_ids),
     .help = "only these events, numbers or ranges, at most 64"},
    {.name = "exclude-event-ids",
     .type = EA_OPT_STRINGS,
     .offset = AT(exclude_event_ids),
     .help = "all events but these, at most 64"},
    {.name = "event-names",
     .type = EA_OPT_STRINGS,
     .offset = AT(event_names),
     .help = "only these TraceLogging events, by name; 4,076 bytes, a byte more for each"},
    {.name = "exclude-event-names",
     .type = EA_OPT_STRINGS,
     .offset = AT(exclude_event_names),
     .help = "all TraceLogging events but these, by name"},
    {.name = "names-level",
     .type = EA_OPT_STRING,
     .offset = AT(names_level),
     .help = "with names: meant are events up to this level; without it, those of level"},
    {.name = "names-any",
     .type = EA_OPT_STRING,
     .offset = AT(names_any),
     .help = "with names: meant are events that have one of these keywords; without it, those of any and all"},
    {.name = "stacks", .type = EA_OPT_FLAG, .offset = AT(stacks), .help = "walk the stack at each event"},
    {.name = "stack-event-ids",
     .type = EA_OPT_STRINGS,
     .offset = AT(stack_event_ids),
     .help = "walk the stack at these events only, at most 64"},
    {.name = "stack-event-names",
     .type = EA_OPT_STRINGS,
     .offset = AT(stack_event_names),
     .help = "walk the stack at these TraceLogging events only, by name"},
    {.name = "stack-level",
     .type = EA_OPT_STRING,
     .offset = AT(stack_level),
     .help = "walk the stack at events up to this level only; with stack-event-names, at those of them"},
    {.name = "stack-any",
     .type = EA_OPT_STRING,
     .offset = AT(stack_any),
     .help = "with stack-level or stack-event-names: at those only that have one of these keywords"},
    {.name = "pids", .type = EA_OPT_STRINGS, .offset = AT(pids), .help = "only processes with these ids, at most 8"},
    {.name = "executables",
     .type = EA_OPT_STRINGS,
     .offset = AT(executables),
     .help = "only processes of these file names, such as dns.exe"},
    {.name = "packages",
     .type = EA_OPT_STRINGS,
     .offset = AT(packages),
     .help = "only processes of these app packages"},
    {.name = "app-ids",
     .type = EA_OPT_STRINGS,
     .offset = AT(app_ids),
     .help = "only processes of these apps within their packages"},
    {.name = "containers",
     .type = EA_OPT_STRINGS,
     .offset = AT(containers),
     .help = "only these containers, by their GUIDs"},
    {.name = "payload",
     .type = EA_OPT_TABLES,
     .offset = AT(payload),
     .table = &PAYLOAD,
     .min = 1,
     .max = 64,
     .help = "conditions on fields of events, which Windows checks before it logs them"},
    {.name = "properties",
     .type = EA_OPT_STRINGS,
     .offset = AT(properties),
     .help = "what Windows adds to each event: sid, terminal-session, psm-key, process-start-key, event-key; or "
             "exclude-in-private, ignore-keyword-0"},
    {.name = "groups", .type = EA_OPT_FLAG, .offset = AT(groups), .help = "the name is a provider group's"},
    {.name = "capture-state",
     .type = EA_OPT_FLAG,
     .offset = AT(capture_state),
     .help = "ask the provider for its state at the start"},
    {.name = "capture-every",
     .type = EA_OPT_DURATION,
     .offset = AT(capture_every_ns),
     .help = "ask for it again and again"},
    {.name = NULL},
};
#undef AT
const ea_table ea_provider_table = {.summary = "A provider that a session enables.",
                                    .rows = PROVIDER_ROWS,
                                    .size = sizeof(ea_provider_config),
                                    .check = check_provider};

/* ---- sessions ---- */

static const ea_option PMC_SAMPLE_ROWS[] = {
    {.name = "source",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_pmc_sample_config, source),
     .required = 1,
     .example = "CacheMisses",
     .help = "a performance counter by its name in Windows"},
    {.name = "interval",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_pmc_sample_config, interval),
     .fallback = "65537",
     .min = 1000,
     .max = UINT32_MAX,
     .help = "a sample each time that it has counted so far"},
    {.name = NULL},
};
static const ea_table PMC_SAMPLE = {
    .summary = "A performance counter that is sampled.", .rows = PMC_SAMPLE_ROWS, .size = sizeof(ea_pmc_sample_config)};

static int is_kernel_class(const char *name) {
    size_t families;
    const ea_family *const *all = ea_event_families(&families);
    for (size_t i = 0; i < families; i++)
        for (size_t k = 0; all[i]->provider->classic && k < all[i]->row_count; k++)
            if (strcmp(all[i]->rows[k].name, name) == 0)
                return 1;
    return 0;
}

static int are_kernel_classes(const ea_strings *names, ea_err *err) {
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (is_kernel_class(name))
            continue;
        for (const ea_kernel_stack *s = ea_kernel_stacks; s->class_name; s++)
            if (ea_kernel_name_is(s->xperf, name, strlen(name)) || ea_kernel_name_is(s->wpr, name, strlen(name)))
                return ea_fail(err, EA_EINVAL, "'%s' is another tool's name; the class is %s", name, s->class_name);
        return ea_fail(err, EA_EINVAL, "'%.64s' is no class of kernel events; \"etwagent schema\" prints all", name);
    }
    return 0;
}

static int are_flags(const ea_strings *names, ea_err *err) {
    for (size_t i = 0; i < names->count; i++) {
        const char *s = names->items[i], *nearest;
        if (ea_kernel_flag_find(s, strlen(s)) || ea_kernel_group_find(s, strlen(s)))
            continue;
        nearest = ea_kernel_flag_nearest(s);
        return nearest ? ea_fail(err, EA_EINVAL, "there is no kernel flag '%.40s'; did you mean %s?", s, nearest)
                       : ea_fail(err, EA_EINVAL, "there is no kernel flag '%.40s'", s);
    }
    return 0;
}

static int check_name(const char *name, ea_err *err) {
    size_t n = strlen(name);
    if (n > EA_SESSION_NAME_MAX)
        return ea_fail(err, EA_EINVAL, "%zu characters: a session's name has at most %d", n, EA_SESSION_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || strchr("-_.", name[i])))
            return ea_fail(err, EA_EINVAL, "'%s': a session's name is made of letters, digits, -, _ and .", name);
    return 0;
}

/* The group masks of the session's flags, and of the flags that its providers of the kernel's stand for. */
static void all_masks(const ea_session_config *s, uint32_t *ret_masks) {
    const ea_provider_config *providers = s->providers.items;
    ea_session_masks(s, ret_masks);
    for (size_t i = 0; i < s->providers.count; i++) {
        const ea_system_provider *system = ea_system_provider_find(providers[i].provider);
        uint64_t keywords;
        if (system && providers[i].any && !ea_system_keywords(system, providers[i].any, &keywords, NULL))
            (void)ea_system_masks(system, keywords, ret_masks);
    }
}

/* Whether the session logs what a kernel flag stands for, by the flag or by a keyword of the kernel's providers. */
static int has_flag(const ea_session_config *s, const char *name) {
    const ea_kernel_flag *f = ea_kernel_flag_find(name, strlen(name));
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    all_masks(s, masks);
    return f && (masks[ea_kernel_flag_word(f->mask)] & ea_kernel_flag_bits(f->mask)) != 0;
}

static int check_kernel_part(const ea_session_config *s, const char **ret_key, ea_err *err) {
    int rc;

    const struct {
        const char *key;
        size_t count;
    } KERNEL_ONLY[] = {{"flags", s->flags.count},
                       {"stacks", s->stacks.count},
                       {"pool-tags", s->pool_tags.count},
                       {"pmc-samples", s->pmc_samples.count},
                       {"pmc-counters", s->pmc_counters.count},
                       {"profile-interval", s->profile_interval_ns != 0},
                       {"images", s->images != 0}};

    for (size_t i = 0; s->kind == EA_SESSION_USER && i < sizeof KERNEL_ONLY / sizeof *KERNEL_ONLY; i++)
        if (KERNEL_ONLY[i].count) {
            *ret_key = KERNEL_ONLY[i].key;
            return ea_fail(err, EA_EINVAL, "this is a user session; a session of kind: system has it");
        }
    size_t system_providers = 0;
    const ea_provider_config *providers = s->providers.items;
    for (size_t i = 0; i < s->providers.count; i++)
        system_providers += ea_system_provider_find(providers[i].provider) != NULL;
    *ret_key = "providers";
    if (system_providers && s->kind != EA_SESSION_SYSTEM)
        return ea_fail(err, EA_EINVAL, "the kernel's providers (System...Provider) need a session of kind: system");
    *ret_key = "kind";
    if (s->kind != EA_SESSION_USER && !s->flags.count && !system_providers)
        return ea_fail(err, EA_EINVAL,
                       "a system session has flags, or providers of the kernel's such as SystemProcessProvider");
    *ret_key = "flags";
    if ((rc = are_flags(&s->flags, err)))
        return rc;
    *ret_key = "stacks";
    if ((rc = are_kernel_classes(&s->stacks, err)))
        return rc;
    *ret_key = "pmc-samples";
    if (s->pmc_samples.count && !has_flag(s, "PMC_PROFILE"))
        return ea_fail(err, EA_EINVAL, "the samples come with the kernel flag PMC_PROFILE; it is missing");
    *ret_key = "pmc-events";
    if (s->pmc_events.count && !s->pmc_counters.count)
        return ea_fail(err, EA_EINVAL, "pmc-counters is missing: expected the counters that these events carry");
    if ((rc = are_kernel_classes(&s->pmc_events, err)))
        return rc;
    if (s->pmc_events.count > EA_PMC_MAX)
        return ea_fail(err, EA_EINVAL, "%zu events: Windows puts counters on at most %d", s->pmc_events.count,
                       EA_PMC_MAX);
    *ret_key = "pmc-counters";
    if (s->pmc_counters.count && !s->pmc_events.count)
        return ea_fail(err, EA_EINVAL, "pmc-events is missing: expected the events that carry the counters");
    if (s->pmc_counters.count > EA_PMC_MAX)
        return ea_fail(err, EA_EINVAL, "%zu counters: Windows takes at most %d, and never more than the hardware has",
                       s->pmc_counters.count, EA_PMC_MAX);
    *ret_key = "rundown";
    if ((rc = words_are_of(&s->rundown, RUNDOWNS, err)))
        return rc;
    for (size_t i = 0; s->kind == EA_SESSION_KERNEL_LOGGER && i < s->rundown.count; i++)
        if (strcmp(s->rundown.items[i], "dotnet") == 0)
            return ea_fail(err, EA_EINVAL, "the NT Kernel Logger takes no providers; .NET's rundown comes from one");
    if (s->rundown.count && s->output == EA_OUTPUT_FILE && s->kind == EA_SESSION_USER)
        return ea_fail(err, EA_EINVAL, "it goes into what is shipped; output is file");
    *ret_key = "pool-tags";
    if (s->pool_tags.count && s->kind == EA_SESSION_KERNEL_LOGGER)
        return ea_fail(err, EA_EINVAL, "only a session of kind: system filters by pool tags");
    if (s->pool_tags.count > EA_POOL_TAGS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu tags: Windows filters by at most %d", s->pool_tags.count, EA_POOL_TAGS_MAX);
    for (size_t i = 0; i < s->pool_tags.count; i++)
        if (!s->pool_tags.items[i][0] || strlen(s->pool_tags.items[i]) > 4)
            return ea_fail(err, EA_EINVAL, "'%.40s': a pool tag has one to four characters", s->pool_tags.items[i]);
    return 0;
}

static int check_images(const ea_session_config *s, const char **ret_key, ea_err *err) {
    *ret_key = "images";
    if (s->images && s->output == EA_OUTPUT_FILE)
        return ea_fail(err, EA_EINVAL, "what is found goes into what is shipped; output is file");
    if (s->images && !has_flag(s, "LOADER"))
        return ea_fail(err, EA_EINVAL, "the session does not say which images are loaded; expected the flag LOADER");
    *ret_key = NULL;
    return 0;
}

static int check_session(const void *table, const char **ret_key, ea_err *err) {
    const ea_session_config *s = table;
    int rc;
    *ret_key = "name";
    if ((rc = check_name(s->name, err)) || (rc = check_kernel_part(s, ret_key, err)) ||
        (rc = check_images(s, ret_key, err)))
        return rc;
    *ret_key = "providers";
    if (s->kind == EA_SESSION_USER && !s->providers.count)
        return ea_fail(err, EA_EINVAL, "a user session has providers");
    if (s->kind == EA_SESSION_KERNEL_LOGGER && s->providers.count)
        return ea_fail(err, EA_EINVAL, "the NT Kernel Logger takes no providers; give them a session of their own");
    *ret_key = "buffer-size";
    if (s->buffer_bytes % 1024)
        return ea_fail(err, EA_EINVAL, "expected whole KiB");
    *ret_key = "max-buffers";
    if (s->max_buffers && s->max_buffers < s->min_buffers)
        return ea_fail(err, EA_EINVAL, "fewer than min-buffers (%" PRIu64 ")", s->min_buffers);
    *ret_key = "file";
    if (s->output != EA_OUTPUT_REALTIME && !s->file)
        return ea_fail(err, EA_EINVAL, "output %s needs a file", OUTPUTS[s->output]);
    if (s->output == EA_OUTPUT_REALTIME && s->file)
        return ea_fail(err, EA_EINVAL, "nothing is written to it: output is realtime");
    *ret_key = "boot-file";
    size_t boot_bytes = s->boot_file ? strlen(s->boot_file) : 0;
    if (s->boot_file && s->kind != EA_SESSION_USER)
        return ea_fail(err, EA_EINVAL, "Windows starts no session with kernel events at boot; expected kind: user");
    if (s->boot_file && (boot_bytes < 5 || boot_bytes > 1000 || strcmp(s->boot_file + boot_bytes - 4, ".etl") != 0))
        return ea_fail(err, EA_EINVAL, "'%.64s': expected the path of an .etl file", s->boot_file);
    if (s->boot_file && s->file && strcmp(s->boot_file, s->file) == 0)
        return ea_fail(err, EA_EINVAL, "it is the session's own file, too");
    *ret_key = "circular";
    if (s->circular && !s->file_bytes)
        return ea_fail(err, EA_EINVAL, "file-size is missing: expected the size at which the file begins anew");
    *ret_key = NULL;
    for (size_t i = 0; i < s->providers.count; i++)
        for (size_t k = 0; k < i; k++) {
            const ea_provider_config *a = s->providers.items;
            if (strcmp(a[i].provider, a[k].provider) == 0) {
                *ret_key = "providers";
                return ea_fail(err, EA_EINVAL, "%s is given twice; a session enables a provider once", a[i].provider);
            }
        }
    return 0;
}

#define AT(field) offsetof(ea_session_config, field)
static const ea_option SESSION_ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = AT(name),
     .required = 1,
     .example = "security",
     .help = "its name here; in Windows the session is called etwagent-NAME"},
    {.name = "kind",
     .type = EA_OPT_CHOICE,
     .offset = AT(kind),
     .fallback = "user",
     .choices = KINDS,
     .help = "user: providers only; system: kernel flags, and providers too, one of eight such sessions; "
             "kernel-logger: the NT Kernel Logger, of which there is one"},
    {.name = "priority",
     .type = EA_OPT_CHOICE,
     .offset = AT(priority),
     .fallback = "bulk",
     .choices = PRIORITIES,
     .help = "bulk is dropped first when the spool is full"},
    {.name = "flags",
     .type = EA_OPT_STRINGS,
     .offset = AT(flags),
     .help = "what the kernel logs: flags and groups by xperf's names, such as PROC_THREAD, LOADER, DiagEasy"},
    {.name = "stacks",
     .type = EA_OPT_STRINGS,
     .offset = AT(stacks),
     .help = "kernel events whose stacks are walked, such as PerfInfo/SampleProf, Thread/CSwitch"},
    {.name = "profile-interval",
     .type = EA_OPT_DURATION,
     .offset = AT(profile_interval_ns),
     .min = 122100,
     .max = 1000000000,
     .help = "time between two samples of each processor; for the whole machine"},
    {.name = "pmc-samples",
     .type = EA_OPT_TABLES,
     .offset = AT(pmc_samples),
     .table = &PMC_SAMPLE,
     .min = 1,
     .max = EA_PMC_MAX,
     .help =
         "performance counters that are sampled at their overflow, with the flag PMC_PROFILE; for the whole machine: "
         "one session says which"},
    {.name = "pmc-counters",
     .type = EA_OPT_STRINGS,
     .offset = AT(pmc_counters),
     .help = "performance counters that the events of pmc-events carry, such as InstructionRetired, TotalCycles"},
    {.name = "pmc-events",
     .type = EA_OPT_STRINGS,
     .offset = AT(pmc_events),
     .help = "kernel events that carry pmc-counters, such as Thread/CSwitch"},
    {.name = "pool-tags",
     .type = EA_OPT_STRINGS,
     .offset = AT(pool_tags),
     .help =
         "with the flag POOL: pool events of these tags only, at most 4; Windows filters by them since build 20348"},
    {.name = "rundown",
     .type = EA_OPT_STRINGS,
     .offset = AT(rundown),
     .help = "existing objects to record at the start: process, thread, image, driver, file-name, registry (names of "
             "keys), "
             "dotnet (modules and compiled methods); what the session's own flags do not bring comes from a "
             "second session, which runs for less than a second"},
    {.name = "images",
     .type = EA_OPT_FLAG,
     .offset = AT(images),
     .help =
         "look at the file of each image that is loaded: its size, PDB, version and SHA-256, by a thread of the lowest "
         "priority; on this machine's disks only; needs LOADER. And ask Windows what the accounts of processes are "
         "called"},
    {.name = "image-rate",
     .type = EA_OPT_SIZE,
     .offset = AT(image_rate_bytes),
     .fallback = "8MiB",
     .min = 64 << 10,
     .max = (uint64_t)1 << 32,
     .help = "most bytes of images' files that are read in a second; a file counts as 16 KiB at the least"},
    {.name = "image-hash-size",
     .type = EA_OPT_SIZE,
     .offset = AT(image_hash_bytes),
     .fallback = "128MiB",
     .min = 0,
     .max = (uint64_t)1 << 40,
     .help = "a larger image has no hash"},
    {.name = "buffer-size",
     .type = EA_OPT_SIZE,
     .offset = AT(buffer_bytes),
     .fallback = "256KiB",
     .min = 4096,
     .max = 16 << 20,
     .help = "a buffer's size; small ones arrive sooner, large ones lose less"},
    {.name = "min-buffers",
     .type = EA_OPT_U64,
     .offset = AT(min_buffers),
     .fallback = "64",
     .min = 2,
     .max = 65536,
     .help = "buffers at the start, two for each processor at the least"},
    {.name = "max-buffers",
     .type = EA_OPT_U64,
     .offset = AT(max_buffers),
     .fallback = "256",
     .min = 2,
     .max = 65536,
     .help = "how many they may become"},
    {.name = "flush",
     .type = EA_OPT_DURATION,
     .offset = AT(flush_ns),
     .fallback = "1s",
     .min = 1000000,
     .max = 3600000000000,
     .help = "buffers that are not full are delivered after this; fractions of a second by the agent's own flush"},
    {.name = "keyframe-every",
     .type = EA_OPT_DURATION,
     .offset = AT(keyframe_ns),
     .fallback = "4h",
     .help =
         "interval between keyframes (all open processes, threads, modules and names, from the session's events), in "
         "event time; the first is written 15s after the first event; 0: only when a collector asks, or at the "
         "interval of the batching part's option of that name, which takes precedence"},
    {.name = "clock",
     .type = EA_OPT_CHOICE,
     .offset = AT(clock),
     .fallback = "qpc",
     .choices = CLOCKS,
     .help = "the clock that stamps events"},
    {.name = "output",
     .type = EA_OPT_CHOICE,
     .offset = AT(output),
     .fallback = "realtime",
     .choices = OUTPUTS,
     .help = "realtime: shipped; file: kept on this machine; both"},
    {.name = "file", .type = EA_OPT_STRING, .offset = AT(file), .help = "an .etl file on this machine"},
    {.name = "file-size",
     .type = EA_OPT_SIZE,
     .offset = AT(file_bytes),
     .min = 1 << 20,
     .max = UINT64_C(1) << 42,
     .help = "how large the file may become"},
    {.name = "keep-files",
     .type = EA_OPT_U64,
     .offset = AT(keep_files),
     .fallback = "3",
     .max = 64,
     .help = "files of earlier starts that are kept, as FILE.1.etl (the newest), FILE.2.etl; 0: none"},
    {.name = "circular", .type = EA_OPT_FLAG, .offset = AT(circular), .help = "a full file begins anew"},
    {.name = "boot-file",
     .type = EA_OPT_STRING,
     .offset = AT(boot_file),
     .help =
         "Windows starts the session at boot, without filters, and writes to this .etl file until the service runs; "
         "then the file is shipped as source NAME-boot, out of FILE-booted.etl, which becomes FILE-taken.etl when the "
         "spool has it; of boots whose files are not taken yet there are as many as keep-files says beside the newest; "
         "with Fast Startup, the default of Windows clients, it starts at a restart and not after a shutdown"},
    {.name = "per-processor",
     .type = EA_OPT_FLAG,
     .offset = AT(per_processor),
     .fallback = "true",
     .help = "each processor has buffers of its own; false: all share them, which keeps events in order and is slow; "
             "events have no processor number then"},
    {.name = "independent",
     .type = EA_OPT_FLAG,
     .offset = AT(independent),
     .fallback = "true",
     .help = "a provider that fails in another session cannot stop this one"},
    {.name = "stale",
     .type = EA_OPT_CHOICE,
     .offset = AT(stale),
     .fallback = "stop",
     .choices = STALE,
     .help = "what to do with an existing session of this name at the start"},
    {.name = "providers",
     .type = EA_OPT_TABLES,
     .offset = AT(providers),
     .table = &ea_provider_table,
     .min = 1,
     .max = EA_PROVIDERS_MAX,
     .example = "",
     .help = "providers that it enables"},
    {.name = NULL},
};
#undef AT
const ea_table ea_session_table = {
    .summary = "An ETW session.", .rows = SESSION_ROWS, .size = sizeof(ea_session_config), .check = check_session};

int ea_sessions_check(const ea_tables *sessions, ea_err *err) {
    const ea_session_config *all = sessions->items;
    size_t kernel = 0, loggers = 0;
    const ea_session_config *sampler = NULL;
    for (size_t i = 0; i < sessions->count; i++) {
        if (all[i].pmc_samples.count && sampler)
            return ea_fail(err, EA_EINVAL,
                           "sessions %s and %s have pmc-samples, of which Windows has one list for the whole machine; "
                           "each session with the flag PMC_PROFILE gets the samples",
                           sampler->name, all[i].name);
        if (all[i].pmc_samples.count)
            sampler = &all[i];
        kernel += all[i].kind == EA_SESSION_SYSTEM;
        loggers += all[i].kind == EA_SESSION_KERNEL_LOGGER;
        for (size_t k = 0; k < i; k++)
            if (strcmp(all[i].name, all[k].name) == 0)
                return ea_fail(err, EA_EINVAL, "two sessions are called %s", all[i].name);
            else if (all[i].boot_file && all[k].boot_file && strcmp(all[i].boot_file, all[k].boot_file) == 0)
                return ea_fail(err, EA_EINVAL, "sessions %s and %s have one boot-file", all[k].name, all[i].name);
    }
    if (loggers > 1)
        return ea_fail(err, EA_EINVAL, "%zu sessions are of kind: kernel-logger; Windows has one", loggers);
    if (kernel > EA_SYSTEM_SESSIONS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu sessions are of kind: system; Windows has %d for all programs", kernel,
                       EA_SYSTEM_SESSIONS_MAX);
    return 0;
}

static void add_mask(uint32_t *masks, const ea_kernel_flag *f) {
    masks[ea_kernel_flag_word(f->mask)] |= ea_kernel_flag_bits(f->mask);
}

void ea_session_masks(const ea_session_config *session, uint32_t *ret_masks) {
    memset(ret_masks, 0, EA_KERNEL_MASK_WORDS * sizeof *ret_masks);
    for (size_t i = 0; i < session->flags.count; i++) {
        const char *s = session->flags.items[i];
        const ea_kernel_flag *f = ea_kernel_flag_find(s, strlen(s));
        const ea_kernel_group *g = f ? NULL : ea_kernel_group_find(s, strlen(s));
        if (f)
            add_mask(ret_masks, f);
        for (const char *p = g ? g->flags : NULL; p; p = *p ? p + 1 : NULL) {
            size_t n = strcspn(p, "+");
            if ((f = ea_kernel_flag_find(p, n)))
                add_mask(ret_masks, f);
            p += n;
        }
    }
}

/* ---- in words ---- */

static const char KERNEL_PREFIX[] = "Microsoft-Windows-Kernel-";

static void list(ea_text *t, const char *before, const ea_strings *s) {
    for (size_t i = 0; i < s->count; i++) {
        ea_text_str(t, i ? ", " : before);
        ea_text_safe(t, s->items[i], strlen(s->items[i]));
    }
}

int ea_provider_has_process_filter(const ea_provider_config *p) {
    return p->pids.count || p->executables.count || p->packages.count || p->app_ids.count || p->containers.count;
}

static void describe_provider(const ea_provider_config *p, ea_text *t) {
    ea_text_str(t, "    provider ");
    ea_text_safe(t, p->provider, strlen(p->provider));
    ea_text_printf(t, ", level %s", p->level);
    if (p->any)
        ea_text_printf(t, ", any of the keywords %s", p->any);
    if (p->all)
        ea_text_printf(t, ", all of the keywords %s", p->all);
    list(t, ", only events ", &p->event_ids);
    list(t, ", without events ", &p->exclude_event_ids);
    list(t, ", only events named ", &p->event_names);
    list(t, ", without events named ", &p->exclude_event_names);
    if (p->names_level || p->names_any)
        ea_text_printf(t, " up to level %s%s%s", p->names_level ? p->names_level : p->level, p->names_any ? " of " : "",
                       p->names_any ? p->names_any : "");
    list(t, ", only processes ", &p->pids);
    list(t, ", only programs ", &p->executables);
    list(t, ", only packages ", &p->packages);
    list(t, ", only apps ", &p->app_ids);
    list(t, ", only containers ", &p->containers);
    for (size_t i = 0; i < p->payload.count; i++) {
        const ea_payload_config *c = (const ea_payload_config *)p->payload.items + i;
        ea_text_printf(t, ", event %" PRIu64 " only if ", c->event);
        ea_text_safe(t, c->field, strlen(c->field));
        ea_text_printf(t, " %s ", COMPARES[c->compare]);
        ea_text_safe(t, c->value, strlen(c->value));
    }
    if (p->stacks)
        ea_text_str(t, ", with stacks");
    list(t, ", with stacks of events ", &p->stack_event_ids);
    list(t, ", with stacks of events named ", &p->stack_event_names);
    if (p->stack_level)
        ea_text_printf(t, ", with stacks up to level %s%s%s", p->stack_level, p->stack_any ? " of " : "",
                       p->stack_any ? p->stack_any : "");
    list(t, ", with ", &p->properties);
    if (p->groups)
        ea_text_str(t, ", a group");
    if (p->capture_state)
        ea_text_str(t, ", its state at the start");
    if (p->capture_every_ns)
        ea_text_printf(t, ", its state each %.0f s", (double)p->capture_every_ns / 1e9);
    ea_text_char(t, '\n');
    if (ea_provider_has_process_filter(p) && strncmp(p->provider, KERNEL_PREFIX, strlen(KERNEL_PREFIX)) == 0)
        ea_text_str(t, "      warning: drivers log no events under a filter by process, and this provider is the "
                       "kernel's; the filter is left out where a driver has it registered\n");
}

void ea_session_file(const ea_session_config *s, uint64_t start, char *out, size_t capacity) {
    const char *end = strrchr(s->file, '.');
    size_t stem = end ? (size_t)(end - s->file) : strlen(s->file);
    if (start > 1)
        snprintf(out, capacity, "%.*s-%" PRIu64 "%s", (int)stem, s->file, start, s->file + stem);
    else
        snprintf(out, capacity, "%s", s->file);
}

void ea_session_describe(const ea_session_config *s, ea_text *t) {
    static const char *const KIND_TEXT[] = {"user session", "system session", "NT Kernel Logger"};
    static const char *const OUTPUT_TEXT[] = {"shipped", "kept in ", "shipped, and kept in "};
    ea_text_printf(t, "  %s \"etwagent-%s\", priority %s, %s%s\n", KIND_TEXT[s->kind], s->name, PRIORITIES[s->priority],
                   OUTPUT_TEXT[s->output], s->file ? s->file : "");
    ea_text_printf(t,
                   "    %" PRIu64 " to %" PRIu64 " buffers of %" PRIu64
                   " KiB (%.0f to %.0f MiB), delivered after %.3f s at the latest\n",
                   s->min_buffers, s->max_buffers, s->buffer_bytes / 1024,
                   (double)s->min_buffers * (double)s->buffer_bytes / 1048576.0,
                   (double)s->max_buffers * (double)s->buffer_bytes / 1048576.0, (double)s->flush_ns / 1e9);
    if (s->output == EA_OUTPUT_BOTH)
        ea_text_str(
            t, "    warning: with real time beside a file Windows writes partly filled buffers each second, and a full "
               "playback file ends the file, too\n");
    if (s->boot_file)
        ea_text_printf(t, "    from boot on, in %s until the service runs\n", s->boot_file);
    for (size_t i = 0; i < s->flags.count; i++) {
        const ea_kernel_flag *f = ea_kernel_flag_find(s->flags.items[i], strlen(s->flags.items[i]));
        const ea_kernel_group *g = f ? NULL : ea_kernel_group_find(s->flags.items[i], strlen(s->flags.items[i]));
        ea_text_printf(t, "    kernel %s: %s\n",
                       f   ? f->name
                       : g ? g->name
                           : s->flags.items[i],
                       f   ? f->help
                       : g ? g->flags
                           : "");
    }
    list(t, "    pool tags ", &s->pool_tags);
    if (s->pool_tags.count)
        ea_text_char(t, '\n');
    list(t, "    rundown of existing objects: ", &s->rundown);
    if (s->rundown.count)
        ea_text_char(t, '\n');
    list(t, "    stacks of ", &s->stacks);
    if (s->stacks.count)
        ea_text_char(t, '\n');
    if (s->profile_interval_ns)
        ea_text_printf(t, "    a sample each %.3f ms\n", (double)s->profile_interval_ns / 1e6);
    for (size_t i = 0; i < s->pmc_samples.count; i++) {
        const ea_pmc_sample_config *p = (const ea_pmc_sample_config *)s->pmc_samples.items + i;
        ea_text_printf(t, "    a sample each %" PRIu64 " of %s\n", p->interval, p->source);
    }
    list(t, "    counters ", &s->pmc_counters);
    list(t, " on ", &s->pmc_events);
    if (s->pmc_counters.count)
        ea_text_char(t, '\n');
    if (s->images)
        ea_text_printf(t,
                       "    the files of images that are loaded: size, PDB, version, and SHA-256 up to %.0f MiB; "
                       "%.1f MiB a second\n",
                       (double)s->image_hash_bytes / 1048576.0, (double)s->image_rate_bytes / 1048576.0);
    for (size_t i = 0; i < s->providers.count; i++)
        describe_provider((const ea_provider_config *)s->providers.items + i, t);
}

/* ---- as YAML ---- */

/* A text as a YAML scalar: plain where that is safe, else in single quotes (a quote doubled). */
static void scalar(ea_text *t, const char *s) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+";
    static const char *const WORDS[] = {"true", "false", "yes", "no", "on", "off", "null", NULL};
    int plain = *s && strspn(s, PLAIN) == strlen(s) && *s != '-' && !in_list(WORDS, s);
    if (plain) {
        ea_text_str(t, s);
        return;
    }
    int control = 0;
    for (const char *p = s; *p; p++)
        control |= (unsigned char)*p < 0x20 || *p == 0x7f;
    if (control) { /* a JSON string is a YAML string in double quotes */
        ea_text_json_str(t, s);
        return;
    }
    ea_text_char(t, '\'');
    for (; *s; s++) {
        if (*s == '\'')
            ea_text_char(t, '\'');
        ea_text_char(t, *s);
    }
    ea_text_char(t, '\'');
}

static void write_rows(const ea_option *rows, const void *item, unsigned indent, int first_dash, ea_text *t);

static void write_value(const ea_option *o, const void *target, unsigned indent, ea_text *t) {
    switch (o->type) {
    case EA_OPT_FLAG:
        ea_text_str(t, *(const int *)target ? " true\n" : " false\n");
        break;
    case EA_OPT_STRING:
        ea_text_char(t, ' ');
        scalar(t, *(const char *const *)target);
        ea_text_char(t, '\n');
        break;
    case EA_OPT_STRINGS: {
        const ea_strings *s = target;
        ea_text_str(t, " [");
        for (size_t i = 0; i < s->count; i++) {
            ea_text_str(t, i ? ", " : "");
            scalar(t, s->items[i]);
        }
        ea_text_str(t, "]\n");
        break;
    }
    case EA_OPT_CHOICE:
        ea_text_printf(t, " %s\n", o->choices[*(const int *)target]);
        break;
    case EA_OPT_U64:
    case EA_OPT_SIZE:
    case EA_OPT_DURATION:
        ea_text_char(t, ' ');
        ea_option_amount(o, *(const uint64_t *)target, t);
        ea_text_char(t, '\n');
        break;
    case EA_OPT_TABLES: {
        const ea_tables *list_of = target;
        ea_text_char(t, '\n');
        for (size_t i = 0; i < list_of->count; i++)
            write_rows(o->table->rows, (const char *)list_of->items + i * o->table->size, indent + 2, 1, t);
        break;
    }
    case EA_OPT_TABLE:
    case EA_OPT_LABELS:
        break; /* no session has one */
    }
}

/* Whether the option differs from its default. defaults: a struct with the fallbacks. */
static int is_given(const ea_option *o, const void *item, const void *defaults) {
    const char *a = (const char *)item + o->offset, *b = (const char *)defaults + o->offset;
    switch (o->type) {
    case EA_OPT_FLAG:
    case EA_OPT_CHOICE:
        return *(const int *)(const void *)a != *(const int *)(const void *)b;
    case EA_OPT_STRING: {
        const char *x = *(const char *const *)(const void *)a, *y = *(const char *const *)(const void *)b;
        return x && !(y && strcmp(x, y) == 0);
    }
    case EA_OPT_STRINGS:
        return ((const ea_strings *)(const void *)a)->count != 0;
    case EA_OPT_TABLES:
        return ((const ea_tables *)(const void *)a)->count != 0;
    case EA_OPT_U64:
    case EA_OPT_SIZE:
    case EA_OPT_DURATION:
        return memcmp(a, b, sizeof(uint64_t)) != 0;
    case EA_OPT_TABLE:
    case EA_OPT_LABELS:
        return 0;
    }
    return 0;
}

static void write_rows(const ea_option *rows, const void *item, unsigned indent, int first_dash, ea_text *t) {
    union {
        ea_session_config session;
        ea_provider_config provider;
        ea_pmc_sample_config pmc;
        ea_payload_config payload;
    } defaults;

    ea_err err;
    memset(&defaults, 0, sizeof defaults);
    if (ea_option_fallbacks(rows, &defaults, &err))
        t->failed = 1;
    for (const ea_option *o = rows; o->name; o++) {
        if (!is_given(o, item, &defaults))
            continue;
        for (unsigned i = 0; i < indent; i++)
            ea_text_char(t, ' ');
        ea_text_printf(t, "%s%s:", first_dash ? "- " : "  ", o->name);
        first_dash = 0;
        write_value(o, (const char *)item + o->offset, indent + 2, t);
    }
}

void ea_session_write(const ea_session_config *session, ea_text *t) {
    write_rows(SESSION_ROWS, session, 2, 1, t);
}
