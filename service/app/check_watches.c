/* See check_watches.h. */
#include "service/app/check_watches.h"

#include "config/class_flags.h"
#include "config/sessions.h"
#include "proto/base/pattern.h"
#include "proto/lang/lang_where.h"
#include "service/app/watch_session.h"

#include <string.h>

typedef struct looking {
    const ea_session_config *session;
    const ea_watch_config *watch;
    const ea_lang_program *program;
    ea_text *notes;
    ea_text said; /* what was noted for this program: a line each */
} looking;

static int has_word(const ea_strings *words, const char *word) {
    for (size_t i = 0; i < words->count; i++)
        if (ea_name_equal(words->items[i], word))
            return 1;
    return 0;
}

/* Once for each thing that is missing, with the first class that needs it. */
static void check_watches_note(looking *l, const char *missing, const char *what_for) {
    ea_text line;
    ea_text_init(&line);
    ea_text_printf(&line, "\n%s\n", missing);
    if (!line.failed && !(l->said.len_bytes && strstr(l->said.data, line.data))) {
        ea_text_str(&l->said, line.data);
        ea_text_printf(l->notes, "  note: program %s of session ", l->watch->name);
        ea_text_safe(l->notes, l->session->name, strlen(l->session->name));
        ea_text_str(l->notes, ": the session lacks ");
        ea_text_safe(l->notes, missing, strlen(missing));
        ea_text_printf(l->notes, ", %s\n", what_for);
    }
    l->notes->failed |= line.failed;
    ea_text_deinit(&line);
}

static void note_of(looking *l, const char *kind, const char *name, const char *suffix, const char *what_for) {
    char missing[200];
    snprintf(missing, sizeof missing, "%s%.120s%s", kind, name, suffix);
    check_watches_note(l, missing, what_for);
}

static void look_at_flags(looking *l, const char *flags, const char *class_name) {
    char flag[64], what_for[160];
    snprintf(what_for, sizeof what_for, "with which %.100s comes", class_name);
    while (*flags) {
        size_t n = strcspn(flags, "+");
        snprintf(flag, sizeof flag, "%.*s", (int)(n < sizeof flag ? n : sizeof flag - 1), flags);
        if (l->session->kind == EA_SESSION_USER || !ea_session_has_flag(l->session, flag))
            note_of(l, "the flag ", flag, "", what_for);
        flags += n + (flags[n] == '+');
    }
}

static void look_at_kernel(looking *l, const ea_lang_need *n) {
    const ea_session_config *s = l->session;
    const char *flags = ea_class_flags(n->name);
    if (flags)
        look_at_flags(l, flags, n->name);
    if (flags && !n->has_thread && strcmp(flags, "REGISTRY") != 0 && ea_lang_needs_processes(l->program) &&
        (s->kind == EA_SESSION_USER || !ea_session_has_flag(s, "CSWITCH"))) {
        char what_for[160];
        snprintf(what_for, sizeof what_for, "without which the thread of %.100s is not known", n->name);
        check_watches_note(l, "the flag CSWITCH", what_for);
    }
    if (n->has_stacks && !has_word(&s->stacks, n->name))
        note_of(l, "stacks of ", n->name, "", "which the program reads");
    if (n->has_counters && !has_word(&s->pmc_events, n->name))
        note_of(l, "counters on ", n->name, " (pmc-events)", "which the program reads");
    if (strcmp(n->name, "PerfInfo/PmcCounterProf") == 0 && !s->pmc_samples.count)
        check_watches_note(l, "pmc-samples", "without which PerfInfo/PmcCounterProf does not come");
}

static int is_of_provider(const ea_provider_config *p, const ea_lang_need *n) {
    ea_guid guid;
    if (ea_guid_parse(p->provider, &guid) == 0)
        return ea_guid_equal(&guid, &n->provider);
    return ea_name_equal(p->provider, n->provider_name);
}

static int passes_id(const ea_provider_config *p, uint16_t id) {
    uint16_t ids[EA_FILTER_IDS_MAX];
    int wants = p->event_ids.count != 0;
    const ea_strings *list = wants ? &p->event_ids : &p->exclude_event_ids;
    size_t count = ea_ids_expand(list, ids, EA_FILTER_IDS_MAX);
    for (size_t i = 0; i < count && i < EA_FILTER_IDS_MAX; i++)
        if (ids[i] == id)
            return wants;
    return !wants;
}

static void look_at_providers(looking *l, const ea_lang_need *n) {
    const ea_provider_config *all = l->session->providers.items;
    const char *name = *n->provider_name ? n->provider_name : n->name;
    int is_there = 0, has_id = 0, has_stacks = 0;
    char id[12];
    for (size_t i = 0; i < l->session->providers.count; i++) {
        const ea_provider_config *p = &all[i];
        if (!is_of_provider(p, n))
            continue;
        is_there = 1;
        has_id |= passes_id(p, n->code);
        has_stacks |= p->stacks || p->stack_event_ids.count || p->stack_event_names.count || p->stack_level;
    }
    snprintf(id, sizeof id, " %u of ", n->code);
    if (!is_there)
        note_of(l, "the provider ", name, "", "which the program names");
    else if (!has_id && n->code)
        note_of(l, "the event", id, name, "which its event-ids leave out");
    else if (n->has_stacks && !has_stacks)
        note_of(l, "stacks of the provider ", name, "", "which the program reads");
}

static void look_at_program(looking *l) {
    size_t count;
    const ea_lang_need *needs = ea_lang_needs(l->program, &count);
    if (!ea_lang_needs_all(l->program)) /* about whatever comes */
        for (size_t i = 0; i < count; i++) {
            if (ea_watch_is_kernel(&needs[i]))
                look_at_kernel(l, &needs[i]);
            else
                look_at_providers(l, &needs[i]);
        }
    for (size_t i = 0; ea_lang_counter(l->program, i); i++)
        if (!has_word(&l->session->pmc_counters, ea_lang_counter(l->program, i)))
            note_of(l, "the counter ", ea_lang_counter(l->program, i), " (pmc-counters)", "which the program reads");
    if (ea_lang_needs_processes(l->program) &&
        (l->session->kind == EA_SESSION_USER || !ea_session_has_flag(l->session, "PROC_THREAD")))
        check_watches_note(l, "the flag PROC_THREAD", "without which names of processes and threads are not known");
}

int ea_check_watches(const ea_agent_config *config, ea_text *notes, ea_err *err) {
    const ea_session_config *sessions = config->sessions.items;
    ea_registry *registry = NULL;
    ea_schemas *schemas = NULL;
    ea_lang_problem problem;
    ea_err unread;
    size_t programs = 0;
    for (size_t i = 0; i < config->sessions.count; i++)
        programs += sessions[i].watches.count;
    if (!programs)
        return 0;
    int rc = ea_registry_create(&registry, 0, err);
    if (!rc && ea_schema_options_read(&schemas, &config->schemas, &unread)) /* files that come later */
        schemas = NULL;
    ea_lang_classes classes = {.registry = registry, .schemas = schemas};
    for (size_t i = 0; i < config->sessions.count && !rc; i++)
        for (size_t k = 0; k < sessions[i].watches.count && !rc; k++) {
            looking l = {.session = &sessions[i],
                         .watch = (const ea_watch_config *)sessions[i].watches.items + k,
                         .notes = notes};
            ea_lang_program *p = NULL;
            const char *text = l.watch->program;
            rc = ea_lang_compile_text(&p, text, strlen(text), NULL, &classes, &problem, err);
            if (rc == EA_EINVAL) /* its schemas cannot be read here */
                rc = 0;
            if (p) {
                ea_text_init(&l.said);
                l.program = p;
                look_at_program(&l);
                notes->failed |= l.said.failed;
                ea_text_deinit(&l.said);
            }
            ea_lang_program_destroy(p);
        }
    ea_lang_classes_deinit(&classes);
    ea_schemas_destroy(schemas);
    ea_registry_destroy(registry);
    return rc;
}
