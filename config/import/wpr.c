/* Import of WPR's recording profiles (.wprp). See import.h.
 *
 * A file defines collectors (sessions with buffers), providers and counters, each with an Id, and profiles that put
 * them together: a profile's Collectors name a collector and, inside, the providers that it records. Definitions and
 * profiles may build on another one (Base), to which they add (Operation "Add"), or whose lists they replace ("Set").
 * Source: the WPRControlProfiles schema and "Authoring recording profiles", as published by Microsoft. */
#include "config/import/importer.h"

#include "proto/event/schema/xml.h"

#include <inttypes.h>
#include <string.h>

enum { BASES_MAX = 8, CHAIN_ITEMS = BASES_MAX + 1 };

typedef struct reading {
    ea_import *im;
    const ea_xml_node *definitions; /* the element that holds all of them */
} reading;

static const char *wpr_value_of(const ea_xml_node *n, const char *name) {
    const char *v = n ? ea_xml_attribute(n, name) : NULL;
    return v ? v : "";
}

static int is_true(const ea_xml_node *n, const char *name) {
    const char *v = wpr_value_of(n, name);
    return ea_import_is(v, "true") || strcmp(v, "1") == 0;
}

/* The definition of that element name and Id; NULL. */
static const ea_xml_node *wpr_find(const reading *r, const char *element, const char *id) {
    for (const ea_xml_node *n = ea_xml_child(r->definitions, element); n; n = ea_xml_next(n, element))
        if (strcmp(wpr_value_of(n, "Id"), id) == 0)
            return n;
    return NULL;
}

/* A definition and what it builds on, the last base first; ret has room for CHAIN_ITEMS. */
static int chain(const reading *r, const char *element, const ea_xml_node *n, const ea_xml_node **ret,
                 size_t *ret_count, ea_err *err) {
    const ea_xml_node *found[CHAIN_ITEMS];
    size_t count = 0;
    while (n) {
        if (count == CHAIN_ITEMS)
            return ea_fail(err, EA_EFORMAT, "line %lu: more than %d definitions build on each other", n->line,
                           BASES_MAX);
        found[count++] = n;
        const char *base = wpr_value_of(n, "Base");
        if (!*base)
            break;
        const ea_xml_node *next = wpr_find(r, element, base);
        if (!next)
            ea_import_note(r->im, "%s '%.64s' builds on '%.64s', which is in no part of this file; it is left out",
                           element, wpr_value_of(n, "Id"), base);
        n = next;
    }
    for (size_t i = 0; i < count; i++)
        ret[i] = found[count - 1 - i];
    *ret_count = count;
    return 0;
}

/* A list element says that what its base has in this list does not count. */
static int sets(const ea_xml_node *list) {
    return list && ea_import_is(wpr_value_of(list, "Operation"), "Set");
}

/* ---- the system's session ---- */

static int system_keyword(reading *r, ea_session_config *s, const char *word, ea_err *err) {
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++)
        if (ea_kernel_name_is(f->wpr, word, strlen(word)))
            return ea_import_add(r->im, &s->flags, f->name, strlen(f->name), err);
    ea_import_note(r->im, "the kernel keyword '%.64s' has no counterpart", word);
    return 0;
}

/* Values of the children `item` of the child `list`. */
#define EACH(node, list, item, value)                                                                                  \
    for (const ea_xml_node *e_ = ea_xml_child(node, list) ? ea_xml_child(ea_xml_child(node, list), item) : NULL;       \
         !rc && e_ && (value = wpr_value_of(e_, "Value")) != NULL; e_ = ea_xml_next(e_, item))

static int system_provider(reading *r, ea_session_config *s, const ea_xml_node *given, ea_err *err) {
    const ea_xml_node *parts[CHAIN_ITEMS];
    size_t count;
    const char *v;
    int rc = chain(r, "SystemProvider", given, parts, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_xml_node *n = parts[i];
        if (sets(ea_xml_child(n, "Keywords")))
            s->flags.count = 0;
        if (sets(ea_xml_child(n, "Stacks")))
            s->stacks.count = 0;
        if (sets(ea_xml_child(n, "PoolTags")))
            s->pool_tags.count = 0;
        EACH(n, "Keywords", "Keyword", v)
        rc = system_keyword(r, s, v, err);
        EACH(n, "Stacks", "Stack", v)
        rc = ea_import_stack(r->im, s, v, strlen(v), 1, err);
        EACH(n, "PoolTags", "PoolTag", v)
        rc = ea_import_add(r->im, &s->pool_tags, v, strlen(v), err);
        const ea_xml_node *custom =
            ea_xml_child(n, "Keywords") ? ea_xml_child(ea_xml_child(n, "Keywords"), "CustomKeyword") : NULL;
        if (custom)
            ea_import_note(r->im, "the kernel keyword %.20s given as a number is left out; name its flag",
                           wpr_value_of(custom, "Value"));
    }
    return rc;
}

static int hardware_counter(reading *r, ea_session_config *s, const ea_xml_node *n, ea_err *err) {
    enum { SAMPLES_MAX = 4 };

    const char *v;
    int rc = 0;
    ea_pmc_sample_config *samples = ea_arena_zalloc(&r->im->arena, SAMPLES_MAX, sizeof *samples);
    const ea_xml_node *list = ea_xml_child(n, "SampledCounters");
    if (!samples)
        return ea_fail(err, EA_ENOMEM, "import");
    for (const ea_xml_node *c = list ? ea_xml_child(list, "SampledCounter") : NULL; c;
         c = ea_xml_next(c, "SampledCounter")) {
        uint64_t interval = 0;
        const char *given = wpr_value_of(c, "Interval");
        if (s->pmc_samples.count == SAMPLES_MAX)
            return ea_fail(err, EA_EUSAGE, "line %lu: more than %d sampled counters", c->line, SAMPLES_MAX);
        if (*given && (ea_u64_parse(given, &interval) || interval < 1000 || interval > UINT32_MAX))
            return ea_fail(err, EA_EUSAGE, "line %lu: Interval '%.40s': expected 1000 to 4294967295", c->line, given);
        s->pmc_samples.items = samples;
        samples[s->pmc_samples.count++] =
            (ea_pmc_sample_config){.source = wpr_value_of(c, "Value"), .interval = interval ? interval : 65537};
    }
    EACH(n, "Counters", "Counter", v)
    rc = ea_import_add(r->im, &s->pmc_counters, v, strlen(v), err);
    ea_session_config only = {0};
    EACH(n, "Events", "Event", v)
    rc = ea_import_stack(r->im, &only, v, strlen(v), 1, err);
    for (size_t i = 0; !rc && i < only.stacks.count; i++)
        rc = ea_import_add(r->im, &s->pmc_events, only.stacks.items[i], strlen(only.stacks.items[i]), err);
    if (!rc && s->pmc_samples.count)
        rc = ea_import_add(r->im, &s->flags, "PMC_PROFILE", strlen("PMC_PROFILE"), err);
    return rc;
}

/* ---- providers ---- */

static int keywords(const ea_xml_node *n, const char *list, const char *name, uint64_t *bits, ea_err *err) {
    const char *v;
    int rc = 0;
    EACH(n, list, "Keyword", v) {
        uint64_t k;
        if (ea_u64_parse(v, &k))
            rc = ea_fail(err, EA_EUSAGE, "line %lu: keyword '%.40s' of %.100s: expected a number", e_->line, v, name);
        else
            *bits |= k;
    }
    return rc;
}

/* Keywords as the configuration has them. */
static int keyword_text(reading *r, uint64_t bits, const char **ret, ea_err *err) {
    char text[24];
    int n = snprintf(text, sizeof text, "0x%" PRIx64, bits);
    *ret = ea_import_text(r->im, text, (size_t)n);
    return *ret ? 0 : ea_fail(err, EA_ENOMEM, "import");
}

/* Filters by names of TraceLogging events, with a level and keywords of their own. */
static int event_names(reading *r, ea_provider_config *p, const ea_xml_node *n, const char *element, ea_err *err) {
    const char *v, **level = &p->names_level, **any = &p->names_any;
    int rc = 0, stack = strcmp(element, "StackEventNameFilters") == 0;
    const ea_xml_node *list = ea_xml_child(n, element);
    ea_strings *names = &p->event_names;
    uint64_t bits = 0;
    if (!list)
        return 0;
    int only = !*wpr_value_of(list, "FilterIn") || is_true(list, "FilterIn");
    if (stack && !only) {
        ea_import_note(r->im,
                       "%.100s: stacks of all events but some have no counterpart: of all events they are walked",
                       p->provider);
        p->stacks = 1;
        return 0;
    }
    if (stack) {
        names = &p->stack_event_names;
        level = &p->stack_level;
        any = &p->stack_any;
    } else if (!only) {
        names = &p->exclude_event_names;
    }
    EACH(n, element, "EventName", v)
    rc = ea_import_add(r->im, names, v, strlen(v), err);
    if (!rc && *wpr_value_of(list, "Level") &&
        !(*level = ea_import_text(r->im, wpr_value_of(list, "Level"), strlen(wpr_value_of(list, "Level")))))
        rc = ea_fail(err, EA_ENOMEM, "import");
    if (!rc)
        rc = keywords(n, element, p->provider, &bits, err);
    return !rc && bits ? keyword_text(r, bits, any, err) : rc;
}

static int event_ids(reading *r, ea_provider_config *p, const ea_xml_node *n, const char *element, ea_err *err) {
    const char *v;
    int rc = 0, stack = strcmp(element, "StackFilters") == 0;
    const ea_xml_node *list = ea_xml_child(n, element);
    if (!list)
        return 0;
    const char *in = wpr_value_of(list, "FilterIn");
    int only = !*in || is_true(list, "FilterIn");
    if (stack && !only) {
        ea_import_note(r->im,
                       "%.100s: stacks of all events but some have no counterpart: of all events they are walked",
                       p->provider);
        p->stacks = 1;
        return 0;
    }
    EACH(n, element, "EventId", v)
    rc = ea_import_add(r->im,
                       stack  ? &p->stack_event_ids
                       : only ? &p->event_ids
                              : &p->exclude_event_ids,
                       v, strlen(v), err);
    return rc;
}

static int executables(reading *r, ea_provider_config *p, const char *list, ea_err *err) {
    int rc = 0;
    for (const char *s = list; !rc && *s;) {
        size_t n = strcspn(s, ";");
        if (n)
            rc = ea_import_add(r->im, &p->executables, s, n, err);
        s += n + (s[n] == ';');
    }
    return rc;
}

static int event_provider(reading *r, ea_session_config *s, const ea_xml_node *given, ea_err *err) {
    const ea_xml_node *parts[CHAIN_ITEMS];
    size_t count;
    uint64_t bits = 0;
    int rc = chain(r, "EventProvider", given, parts, &count, err);
    const char *name = "";
    for (size_t i = 0; !rc && i < count; i++)
        if (*wpr_value_of(parts[i], "Name"))
            name = wpr_value_of(parts[i], "Name");
    if (!rc && !*name)
        rc = ea_fail(err, EA_EUSAGE, "line %lu: the provider has no name", given->line);
    ea_provider_config *p = rc ? NULL : ea_import_provider(r->im, s, name, strlen(name));
    if (!rc && !p)
        rc = ea_fail(err, EA_ELIMIT, "more than %d providers in a session", EA_PROVIDERS_MAX);
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_xml_node *n = parts[i];
        if (*wpr_value_of(n, "Level"))
            p->level = ea_import_text(r->im, wpr_value_of(n, "Level"), strlen(wpr_value_of(n, "Level")));
        if (*wpr_value_of(n, "Stack"))
            p->stacks = is_true(n, "Stack");
        if (is_true(n, "EventKey"))
            rc = ea_import_add(r->im, &p->properties, "event-key", strlen("event-key"), err);
        if (ea_xml_child(n, "CaptureStateOnStart"))
            p->capture_state = 1;
        if (ea_xml_child(n, "CaptureStateOnSave"))
            ea_import_note(r->im, "%.100s: its state is asked for at the start only, not when a trace is saved", name);
        if (sets(ea_xml_child(n, "Keywords")))
            bits = 0;
        if (!rc)
            rc = keywords(n, "Keywords", name, &bits, err);
        if (!rc)
            rc = event_ids(r, p, n, "EventFilters", err);
        if (!rc)
            rc = event_ids(r, p, n, "StackFilters", err);
        if (!rc)
            rc = event_names(r, p, n, "EventNameFilters", err);
        if (!rc)
            rc = event_names(r, p, n, "StackEventNameFilters", err);
        if (!rc)
            rc = executables(r, p, wpr_value_of(n, "ProcessExeFilter"), err);
    }
    if (!rc && (p->stack_event_ids.count || p->stack_event_names.count))
        p->stacks = 0;
    if (!rc && bits)
        rc = keyword_text(r, bits, &p->any, err);
    return !rc && !p->level ? ea_fail(err, EA_ENOMEM, "import") : rc;
}

/* ---- collectors ---- */

static void wpr_buffers(reading *r, ea_session_config *s, const ea_xml_node *collector) {
    const ea_xml_node *size = ea_xml_child(collector, "BufferSize"), *number = ea_xml_child(collector, "Buffers");
    uint64_t kib = 0, count = 0;
    if (ea_u64_parse(wpr_value_of(size, "Value"), &kib) || kib > 1 << 20)
        kib = 0;
    if (number && is_true(number, "PercentageOfTotalMemory"))
        ea_import_note(r->im, "%s: %.20s percent of the memory for buffers has no counterpart; give max-buffers",
                       s->name, wpr_value_of(number, "Value"));
    else if (ea_u64_parse(wpr_value_of(number, "Value"), &count))
        count = 0;
    ea_import_buffers(r->im, s, kib * 1024, 0, count);
}

/* The session of a collector; the same one when a base had it already. */
static ea_session_config *session(reading *r, const ea_xml_node *collector, const char **names, int kind) {
    const char *id = wpr_value_of(collector, "Id"), *name = wpr_value_of(collector, "Name");
    for (size_t i = 0; i < r->im->count; i++)
        if (names[i] && strcmp(names[i], id) == 0)
            return &r->im->sessions[i];
    if (!*name)
        name = id;
    size_t at = r->im->count;
    ea_session_config *s = ea_import_session(r->im, name, strlen(name), kind);
    if (s) {
        names[at] = id;
        wpr_buffers(r, s, collector);
    }
    return s;
}

typedef int on_part(reading *r, ea_session_config *s, const ea_xml_node *n, ea_err *err);

/* What a collector's reference names (NAMEId Value=...) or has inside (NAME). */
static int parts_of(reading *r, ea_session_config *s, const ea_xml_node *holder, const char *element, on_part *on,
                    ea_err *err) {
    char by_id[64];
    int rc = 0;
    snprintf(by_id, sizeof by_id, "%sId", element);
    for (const ea_xml_node *n = ea_xml_child(holder, element); !rc && n; n = ea_xml_next(n, element))
        rc = on(r, s, n, err);
    for (const ea_xml_node *n = ea_xml_child(holder, by_id); !rc && n; n = ea_xml_next(n, by_id)) {
        const ea_xml_node *found = wpr_find(r, element, wpr_value_of(n, "Value"));
        rc = found ? on(r, s, found, err)
                   : ea_fail(err, EA_EUSAGE, "line %lu: there is no %s with the Id '%.64s'", n->line, element,
                             wpr_value_of(n, "Value"));
    }
    return rc;
}

static int collectors(reading *r, const ea_xml_node *list, const char **names, ea_err *err) {
    int rc = 0;
    for (const ea_xml_node *n = list->child; !rc && n; n = n->next) {
        int is_system = strcmp(n->name, "SystemCollectorId") == 0;
        if (strcmp(n->name, "HeapEventCollectorId") == 0) {
            ea_import_note(r->im, "heap tracing has no counterpart");
            continue;
        }
        if (!is_system && strcmp(n->name, "EventCollectorId") != 0) {
            ea_import_note(r->im, "%.64s has no counterpart", n->name);
            continue;
        }
        const ea_xml_node *c = wpr_find(r, is_system ? "SystemCollector" : "EventCollector", wpr_value_of(n, "Value"));
        if (!c)
            return ea_fail(err, EA_EUSAGE, "line %lu: there is no collector with the Id '%.64s'", n->line,
                           wpr_value_of(n, "Value"));
        ea_session_config *s = session(r, c, names, is_system ? EA_SESSION_SYSTEM : EA_SESSION_USER);
        if (!s)
            return ea_fail(err, EA_ELIMIT, "more than %d sessions", EA_SESSIONS_MAX);
        const ea_xml_node *providers = ea_xml_child(n, "EventProviders");
        if (sets(providers))
            s->providers.count = 0;
        rc = parts_of(r, s, n, is_system ? "SystemProvider" : "EventProvider",
                      is_system ? system_provider : event_provider, err);
        if (!rc && providers)
            rc = parts_of(r, s, providers, "EventProvider", event_provider, err);
        if (!rc && is_system)
            rc = parts_of(r, s, n, "HardwareCounter", hardware_counter, err);
    }
    return rc;
}

/* ---- profiles ---- */

static const ea_xml_node *wpr_choose(const reading *r, const char *wanted, ea_err *err) {
    const ea_xml_node *first = ea_xml_child(r->definitions, "Profile");
    if (!first) {
        (void)ea_fail(err, EA_EUSAGE, "the file has no profile");
        return NULL;
    }
    for (const ea_xml_node *n = first; n; n = ea_xml_next(n, "Profile"))
        if (!wanted || strcmp(wpr_value_of(n, "Id"), wanted) == 0 || ea_import_is(wpr_value_of(n, "Name"), wanted))
            return n;
    (void)ea_fail(err, EA_EUSAGE, "there is no profile '%.64s'; the first one is '%.64s'", wanted,
                  wpr_value_of(first, "Id"));
    return NULL;
}

/* Attributes become text of a configuration and of notes. Elements are nested to a depth that ea_xml_parse bounds. */
static int check_texts(const ea_xml_node *n, ea_err *err) {
    int rc = 0;
    for (; !rc && n; n = n->next) {
        for (const char **a = n->attributes; !rc && *a; a++)
            if (ea_import_check_text(*a, NULL))
                rc = ea_fail(err, EA_EFORMAT, "line %lu: %.64s has control characters", n->line, n->name);
        if (!rc)
            rc = check_texts(n->child, err);
    }
    return rc;
}

int ea_import_wpr(ea_import *im, const char *file, const void *data, size_t len_bytes, const char *profile,
                  ea_err *err) {
    const ea_xml_node *root, *parts[CHAIN_ITEMS];
    const char *names[EA_SESSIONS_MAX] = {0};
    reading r = {.im = im};
    size_t count = 0;
    int rc = ea_xml_parse(&im->arena, file, data, len_bytes, &root, err);
    if (!rc)
        rc = check_texts(root, err);
    if (rc)
        return rc;
    r.definitions = ea_xml_child(root, "Profiles");
    if (strcmp(root->name, "WindowsPerformanceRecorder") != 0 || !r.definitions)
        return ea_fail(err, EA_EFORMAT, "%s: expected a recording profile: WindowsPerformanceRecorder with Profiles",
                       file);
    const ea_xml_node *chosen = wpr_choose(&r, profile, err);
    if (!chosen)
        return EA_EUSAGE;
    if (!profile)
        for (const ea_xml_node *n = ea_xml_next(chosen, "Profile"); n; n = ea_xml_next(n, "Profile"))
            ea_import_note(im, "the file has another profile: --profile %.64s", wpr_value_of(n, "Id"));
    rc = chain(&r, "Profile", chosen, parts, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_xml_node *list = ea_xml_child(parts[i], "Collectors");
        if (sets(list))
            im->count = 0;
        if (list)
            rc = collectors(&r, list, names, err);
    }
    size_t kept = 0; /* a session of the kernel without a flag, or of no provider, would record nothing */
    for (size_t i = 0; !rc && i < im->count; i++)
        if (im->sessions[i].flags.count || im->sessions[i].providers.count)
            im->sessions[kept++] = im->sessions[i];
    if (!rc && !kept)
        return ea_fail(err, EA_EUSAGE, "%s: nothing of the profile '%.64s' has a counterpart", file,
                       wpr_value_of(chosen, "Id"));
    if (!rc)
        im->count = kept;
    return rc ? rc : ea_import_check(im, err);
}
