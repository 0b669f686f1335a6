/* Providers in a configuration: their levels, keywords, filters and rows. See sessions.h. */
#include "config/session_parts.h"
#include "config/sessions.h"
#include "config/system_providers.h"
#include "proto/base/provider_guids.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const LEVELS[] = {"log-always", "critical", "error", "warning", "information", "verbose", NULL};
static const char *const PROPERTIES[] = {"sid",       "terminal-session",   "psm-key",          "process-start-key",
                                         "event-key", "exclude-in-private", "ignore-keyword-0", NULL};

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

int ea_word_is_in(const char *const *list, const char *word) {
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return 1;
    return 0;
}

int ea_words_are_of(const ea_strings *given, const char *const *known, ea_err *err) {
    for (size_t i = 0; i < given->count; i++)
        if (!ea_word_is_in(known, given->items[i])) {
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

int ea_filter_data_parse(const char *text, uint8_t *out, size_t capacity, size_t *ret_bytes) {
    uint64_t number;
    if (strncmp(text, "u32:", 4) == 0) {
        if (ea_u64_parse(text + 4, &number) || number > UINT32_MAX || capacity < 4)
            return EA_EINVAL;
        ea_store32(out, (uint32_t)number);
        *ret_bytes = 4;
        return 0;
    }
    int rc = strncmp(text, "hex:", 4) == 0 ? ea_hex_parse(text + 4, out, capacity, ret_bytes) : EA_EINVAL;
    return rc || *ret_bytes == 0 ? EA_EINVAL : 0;
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

static int session_providers_check_names(const ea_provider_config *p, const char **ret_key, ea_err *err) {
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

/* NAME=VALUE, which an EventSource gets as one text after the other, UTF-8, each with its end. */
static int check_arguments(const ea_provider_config *p, const char **ret_key, ea_err *err) {
    size_t bytes = 0;
    *ret_key = "arguments";
    for (size_t i = 0; i < p->arguments.count; i++) {
        const char *argument = p->arguments.items[i];
        if (*argument == '=' || !strchr(argument, '='))
            return ea_fail(err, EA_EINVAL, "'%.64s': expected NAME=VALUE, such as EventCounterIntervalSec=1", argument);
        bytes += strlen(argument) + 1;
    }
    if (bytes > EA_FILTER_BYTES_MAX)
        return ea_fail(err, EA_EINVAL, "%zu bytes with their ends: Windows takes at most %d", bytes,
                       EA_FILTER_BYTES_MAX);
    return p->arguments.count && p->groups
               ? ea_fail(err, EA_EINVAL, "a provider group has no arguments: give the provider's name")
               : 0;
}

static int is_registry_provider(const ea_provider_config *p) {
    static const char NAME[] = "microsoft-windows-kernel-registry";
    static const ea_guid GUID = EA_PROVIDER_KERNEL_REGISTRY;
    ea_guid guid;
    size_t i = 0;
    if (ea_guid_parse(p->provider, &guid) == 0)
        return ea_guid_equal(&guid, &GUID);
    for (; NAME[i]; i++) {
        char c = p->provider[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c) != NAME[i])
            return 0;
    }
    return p->provider[i] == 0;
}

/* Filters of type 0 are the provider's own, and Windows takes one filter of each type. */
static int check_filter_data(const ea_provider_config *p, const char **ret_key, ea_err *err) {
    static const uint64_t SCHEMATIZED = 0x80000000; /* EVENT_FILTER_TYPE_SCHEMATIZED (evntprov.h) */
    uint8_t data[EA_FILTER_BYTES_MAX];
    size_t bytes;
    *ret_key = "filter-data";
    if (p->filter_data && ea_filter_data_parse(p->filter_data, data, sizeof data, &bytes))
        return ea_fail(err, EA_EINVAL, "'%.64s': expected u32:NUMBER, or hex: and the hex digits of at most %d bytes",
                       p->filter_data, EA_FILTER_BYTES_MAX);
    if (p->filter_data && p->groups)
        return ea_fail(err, EA_EINVAL, "a provider group has no filter data: give the provider's name");
    if (p->filter_data && p->arguments.count && !p->filter_data_type)
        return ea_fail(err, EA_EINVAL, "arguments are a filter of type 0, too, and Windows takes one of each type");
    *ret_key = "filter-data-type";
    if (p->filter_data_type && !p->filter_data)
        return ea_fail(err, EA_EINVAL, "filter-data says which data; it is missing");
    if (p->filter_data_type && p->filter_data_type != SCHEMATIZED)
        return ea_fail(err, EA_EINVAL,
                       "expected 0, the provider's own, or 0x80000000 for one of the form that begins with "
                       "EVENT_FILTER_HEADER; other types have options of their own");
    *ret_key = "registry-values";
    if (!p->registry_values)
        return 0;
    if (!is_registry_provider(p))
        return ea_fail(err, EA_EINVAL, "only Microsoft-Windows-Kernel-Registry has values of the registry");
    return p->filter_data || p->arguments.count
               ? ea_fail(err, EA_EINVAL, "registry-values sets the filter data itself; give one of the two")
               : 0;
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
                   {"arguments", p->arguments.count != 0},
                   {"stacks", p->stacks},
                   {"stack-event-ids", p->stack_event_ids.count != 0},
                   {"stack-event-names", p->stack_event_names.count != 0},
                   {"stack-level", p->stack_level != NULL},
                   {"stack-any", p->stack_any != NULL},
                   {"groups", p->groups},
                   {"capture-state", p->capture_state},
                   {"capture-every", p->capture_every_ns != 0},
                   {"filter-data", p->filter_data != NULL},
                   {"filter-data-type", p->filter_data_type != 0},
                   {"registry-values", p->registry_values}};

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

static int session_providers_check_provider(const void *table, const char **ret_key, ea_err *err) {
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
    if ((rc = session_providers_check_names(p, ret_key, err)) || (rc = check_arguments(p, ret_key, err)) ||
        (rc = check_filter_data(p, ret_key, err)))
        return rc;
    *ret_key = "payload";
    if ((rc = check_payload(p, err)))
        return rc;
    *ret_key = "properties";
    if ((rc = ea_words_are_of(&p->properties, PROPERTIES, err)))
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
     .help = "with event-names or exclude-event-names: level of the named events; default: level"},
    {.name = "names-any",
     .type = EA_OPT_STRING,
     .offset = AT(names_any),
     .help =
         "with event-names or exclude-event-names: the named events have one of these keywords; default: any and all"},
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
     .help = "conditions on fields of events, which Windows checks before it logs them; they reach the programs that "
             "have the provider registered when it is enabled"},
    {.name = "properties",
     .type = EA_OPT_STRINGS,
     .offset = AT(properties),
     .help = "what Windows adds to each event: sid, terminal-session, psm-key, process-start-key, event-key; or "
             "exclude-in-private, ignore-keyword-0"},
    {.name = "arguments",
     .type = EA_OPT_STRINGS,
     .offset = AT(arguments),
     .help = "arguments of an EventSource of .NET, NAME=VALUE: EventCounterIntervalSec=1 turns its counters on, in "
             "programs that run at that time; with capture-every also in programs that start later"},
    {.name = "groups",
     .type = EA_OPT_FLAG,
     .offset = AT(groups),
     .help = "the name or GUID is that of a provider group"},
    {.name = "capture-state",
     .type = EA_OPT_FLAG,
     .offset = AT(capture_state),
     .help = "ask the provider for its state at the start"},
    {.name = "capture-every",
     .type = EA_OPT_DURATION,
     .offset = AT(capture_every_ns),
     .help = "ask for the state at this interval; a provider with arguments gets its arguments again instead"},
    {.name = "filter-data",
     .type = EA_OPT_STRING,
     .offset = AT(filter_data),
     .help = "data that the provider defines and Windows hands to it as an event filter: u32:NUMBER, or hex: and hex "
             "digits, at most 1,024 bytes"},
    {.name = "filter-data-type",
     .type = EA_OPT_U64,
     .offset = AT(filter_data_type),
     .max = UINT32_MAX,
     .help = "the type of filter-data: 0, or 0x80000000 (schematized)"},
    {.name = "registry-values",
     .type = EA_OPT_FLAG,
     .offset = AT(registry_values),
     .help = "of Microsoft-Windows-Kernel-Registry: events have the data of values that are set; filter-data u32:2"},
    {.name = NULL},
};
#undef AT
const ea_table ea_provider_table = {.summary = "A provider that a session enables.",
                                    .rows = PROVIDER_ROWS,
                                    .size = sizeof(ea_provider_config),
                                    .check = session_providers_check_provider};
