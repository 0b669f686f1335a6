/* See watch_session.h. */
#include "service/app/watch_session.h"

#include "config/class_flags.h"
#include "proto/event/event.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

static const char NO_ID[] = "0"; /* TraceLogging's events, and what makes a list too long: nothing is filtered by id */

static const int64_t FLUSH_NS = 1000000000;

static int watch_session_add_word(ea_strings *to, const char *word, const char *what, ea_err *err) {
    for (size_t i = 0; i < to->count; i++)
        if (strcmp(to->items[i], word) == 0)
            return 0;
    if (to->count == EA_STRINGS_MAX)
        return ea_fail(err, EA_EUSAGE, "the program needs more than %d %s", EA_STRINGS_MAX, what);
    to->items[to->count++] = word;
    return 0;
}

/* Flags joined by +. */
static int watch_session_add_flags(ea_watch_session *s, const char *flags, ea_err *err) {
    int rc = 0;
    while (*flags && !rc) {
        size_t n = strcspn(flags, "+");
        char *word = ea_arena_zalloc(&s->words, n + 1, 1);
        if (word)
            memcpy(word, flags, n);
        rc = word ? watch_session_add_word(&s->session.flags, word, "kernel flags", err)
                  : ea_fail(err, EA_ENOMEM, "watch");
        flags += n + (flags[n] == '+');
    }
    return rc;
}

int ea_watch_is_kernel(const ea_lang_need *n) {
    size_t count;
    const ea_family *const *families = ea_event_families(&count);
    for (size_t i = 0; n->is_classic && i < count; i++)
        if (families[i]->provider->classic && families[i]->provider->kind == EA_KIND_EVENT &&
            ea_guid_equal(&families[i]->provider->guid, &n->provider))
            return 1;
    return 0;
}

static int add_kernel(ea_watch_session *s, const ea_lang_need *n, int needs_processes, ea_err *err) {
    const char *flags = ea_class_flags(n->name);
    ea_session_config *c = &s->session;
    if (!flags) {
        s->unknown_count++;
        if (s->unknown.count < EA_STRINGS_MAX)
            s->unknown.items[s->unknown.count++] = n->name;
        return 0;
    }
    c->kind = EA_SESSION_SYSTEM;
    int rc = watch_session_add_flags(s, flags, err);
    if (!rc && needs_processes && !n->has_thread && strcmp(flags, "REGISTRY") != 0)
        rc = watch_session_add_flags(s, "CSWITCH", err); /* the thread that runs on their processor */
    if (!rc && n->has_stacks)
        rc = watch_session_add_word(&c->stacks, n->name, "classes with stacks", err);
    if (!rc && n->has_counters)
        rc = watch_session_add_word(&c->pmc_events, n->name, "classes with counters", err);
    return rc;
}

static int watch_session_add_provider(ea_watch_session *s, const ea_lang_need *n, ea_err *err) {
    ea_tables *list = &s->session.providers;
    ea_provider_config *all = s->providers, *p = NULL;
    char guid[37], id[12];
    ea_guid_format(&n->provider, guid);
    for (size_t i = 0; i < list->count && !p; i++)
        if (strcmp(all[i].provider, guid) == 0)
            p = &all[i];
    if (!p) {
        if (list->count == EA_PROVIDERS_MAX)
            return ea_fail(err, EA_EUSAGE, "the program needs more than %d providers", EA_PROVIDERS_MAX);
        p = &s->providers[list->count];
        int rc = ea_option_fallbacks(ea_provider_table.rows, p, err);
        if (rc)
            return rc;
        p->provider = ea_arena_strdup(&s->words, guid);
        list->count++;
    }
    snprintf(id, sizeof id, "%u", n->code);
    const char *word = ea_arena_strdup(&s->words, id);
    if (!p->provider || !word)
        return ea_fail(err, EA_ENOMEM, "watch");
    p->stacks |= n->has_stacks;
    if (p->event_ids.count < EA_STRINGS_MAX)
        p->event_ids.items[p->event_ids.count++] = word;
    else
        p->event_ids.items[0] = NO_ID;
    return 0;
}

/* Windows filters by few ids. */
static void limit_ids(ea_provider_config *p) {
    for (size_t i = 0; i < p->event_ids.count; i++)
        if (strcmp(p->event_ids.items[i], NO_ID) == 0 || p->event_ids.count > EA_FILTER_IDS_MAX) {
            p->event_ids.count = 0;
            break;
        }
}

static int add_samples(ea_watch_session *s, const ea_strings *sources, ea_err *err) {
    int rc = 0;
    if (!sources->count)
        return ea_fail(err, EA_EUSAGE,
                       "PerfInfo/PmcCounterProf needs --pmc-sample COUNTER; \"etwagent counters\" prints "
                       "this machine's");
    if (sources->count > EA_PMC_MAX)
        return ea_fail(err, EA_EUSAGE, "--pmc-sample: Windows samples at most %d counters", EA_PMC_MAX);
    for (size_t i = 0; i < sources->count; i++)
        s->samples[i] = (ea_pmc_sample_config){sources->items[i], 65537};
    s->session.pmc_samples = (ea_tables){s->samples, sources->count};
    return rc;
}

int ea_watch_session_init(ea_watch_session *ret, const ea_lang_program *program,
                          const ea_watch_session_options *options, ea_err *err) {
    size_t count;
    const ea_lang_need *needs = ea_lang_needs(program, &count);
    ea_watch_session *s = ret;
    ea_session_config *c = &s->session;
    const char *key = NULL;
    memset(s, 0, sizeof *s);
    ea_arena_init(&s->words, 0);
    int needs_processes = options->needs_processes || ea_lang_needs_processes(program);
    int rc = ea_option_fallbacks(ea_session_table.rows, c, err);
    if (!rc && ea_lang_needs_all(program))
        rc = ea_fail(err, EA_EUSAGE,
                     "a probe is about all events, and no session logs all; expected classes or providers by name");
    snprintf(s->name, sizeof s->name, "%s", options->name);
    c->name = s->name;
    c->kind = EA_SESSION_USER;
    c->output = EA_OUTPUT_REALTIME;
    c->stale = EA_STALE_STOP;
    c->flush_ns = FLUSH_NS;
    c->buffer_bytes = BUFFER_BYTES;
    s->providers = calloc(count + 1, sizeof *s->providers);
    if (!rc && !s->providers)
        rc = ea_fail(err, EA_ENOMEM, "watch");
    c->providers = (ea_tables){s->providers, 0};
    for (size_t i = 0; i < count && !rc; i++)
        rc = ea_watch_is_kernel(&needs[i]) ? add_kernel(s, &needs[i], needs_processes, err)
                                           : watch_session_add_provider(s, &needs[i], err);
    for (size_t i = 0; i < c->providers.count; i++)
        limit_ids(&s->providers[i]);
    if (!rc && s->unknown.count && c->kind == EA_SESSION_USER && !c->providers.count)
        rc = ea_fail(err, EA_EUSAGE,
                     "%s: no kernel flag of a session is known to turn these events on; expected a trace",
                     s->unknown.items[0]);
    if (!rc && needs_processes) {
        c->kind = EA_SESSION_SYSTEM;
        rc = watch_session_add_flags(s, "PROC_THREAD", err);
    }
    if (!rc && ea_lang_needs_modules(program) && !options->is_plain_stacks) {
        c->kind = EA_SESSION_SYSTEM;
        rc = watch_session_add_flags(s, "LOADER", err);
    }
    if (!rc && c->kind == EA_SESSION_SYSTEM && !c->flags.count) /* events that come with any flag */
        rc = watch_session_add_flags(s, "PROC_THREAD", err);
    for (size_t i = 0; i < c->flags.count && !rc; i++)
        if (strcmp(c->flags.items[i], "PMC_PROFILE") == 0)
            rc = add_samples(s, options->pmc_samples, err);
    for (size_t i = 0; ea_lang_counter(program, i) && !rc; i++)
        if (c->pmc_events.count)
            rc = watch_session_add_word(&c->pmc_counters, ea_lang_counter(program, i), "counters", err);
    if (!rc && !c->pmc_counters.count)
        c->pmc_events.count = 0;
    if (!rc && c->kind == EA_SESSION_USER && !c->providers.count)
        rc = ea_fail(err, EA_EUSAGE, "the program runs on no events; expected a probe of a class");
    if (!rc && (rc = ea_session_table.check(c, &key, err)))
        rc = EA_EUSAGE;
    return rc;
}

void ea_watch_session_deinit(ea_watch_session *s) {
    free(s->providers);
    ea_arena_deinit(&s->words);
}

static void put_words(ea_text *t, const char *what, const ea_strings *words) {
    if (!words->count)
        return;
    ea_text_printf(t, "; %s", what);
    for (size_t i = 0; i < words->count; i++)
        ea_text_printf(t, " %s", words->items[i]);
}

void ea_watch_session_describe(const ea_watch_session *s, ea_text *t) {
    const ea_session_config *c = &s->session;
    ea_text_printf(t, "session etwagent-%s", c->name);
    put_words(t, "flags", &c->flags);
    put_words(t, "stacks", &c->stacks);
    put_words(t, "counters", &c->pmc_counters);
    put_words(t, "counters on", &c->pmc_events);
    for (size_t i = 0; i < c->pmc_samples.count; i++)
        ea_text_printf(t, "%s%s", i ? " " : "; samples of ", s->samples[i].source);
    for (size_t i = 0; i < c->providers.count; i++) {
        ea_text_printf(t, "; provider %s", s->providers[i].provider);
        for (size_t k = 0; k < s->providers[i].event_ids.count; k++)
            ea_text_printf(t, "%s%s", k ? "," : " ids ", s->providers[i].event_ids.items[k]);
        if (s->providers[i].stacks)
            ea_text_str(t, " with stacks");
    }
    put_words(t, "no flag is known for", &s->unknown);
    if (s->unknown_count > s->unknown.count)
        ea_text_printf(t, " and %zu more", s->unknown_count - s->unknown.count);
}
