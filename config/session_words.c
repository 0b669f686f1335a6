/* What a session does, in words and as YAML. See sessions.h. */
#include "config/kernel_flags.h"
#include "config/session_parts.h"
#include "config/sessions.h"

#include <inttypes.h>
#include <string.h>

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
        ea_text_printf(t, " %s ", ea_payload_compares[c->compare].name);
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
    list(t, ", with the arguments ", &p->arguments);
    if (p->filter_data) {
        ea_text_str(t, ", with the filter data ");
        ea_text_safe(t, p->filter_data, strlen(p->filter_data));
        ea_text_printf(t, " of type 0x%" PRIx64, p->filter_data_type);
    }
    if (p->registry_values)
        ea_text_str(t, ", with the data of values");
    if (p->groups)
        ea_text_str(t, ", a group");
    if (p->capture_state)
        ea_text_str(t, ", its state at the start");
    if (p->capture_every_ns)
        ea_text_printf(t, p->arguments.count ? ", given again each %.0f s" : ", its state each %.0f s",
                       (double)p->capture_every_ns / 1e9);
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
    ea_text_printf(t, "  %s \"etwagent-%s\", priority %s, %s%s\n", KIND_TEXT[s->kind], s->name,
                   ea_session_priorities[s->priority], OUTPUT_TEXT[s->output], s->file ? s->file : "");
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
    if (s->recorder.size_bytes)
        ea_text_printf(t, "    not shipped: a recorder keeps at most %.0f MiB of it, %s\n",
                       (double)s->recorder.size_bytes / 1048576.0,
                       s->recorder.age_ns ? "and no longer than its age" : "of any age");
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
    if (s->pmc_samples.count)
        ea_text_str(t, "    warning: the list of sampled counters is the machine's, replaces any other, and stays when "
                       "the session ends: Windows does not return the list from before\n");
    list(t, "    counters ", &s->pmc_counters);
    list(t, " on ", &s->pmc_events);
    if (s->pmc_counters.count)
        ea_text_char(t, '\n');
    if (s->images)
        ea_text_printf(t,
                       "    the files of images that are loaded: size, PDB, version, and SHA-256 up to %.0f MiB; "
                       "%.1f MiB a second\n",
                       (double)s->image_hash_bytes / 1048576.0, (double)s->image_rate_bytes / 1048576.0);
    if (s->announced_modules)
        ea_text_str(t, "    modules that programs announce\n");
    for (size_t i = 0; i < s->providers.count; i++)
        describe_provider((const ea_provider_config *)s->providers.items + i, t);
}

/* ---- as YAML ---- */

/* A text as a YAML scalar: plain where that is safe, else in single quotes (a quote doubled). */
static void scalar(ea_text *t, const char *s) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+";
    static const char *const WORDS[] = {"true", "false", "yes", "no", "on", "off", "null", NULL};
    int plain = *s && strspn(s, PLAIN) == strlen(s) && *s != '-' && !ea_word_is_in(WORDS, s);
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

static void session_words_write_value(const ea_option *o, const void *target, unsigned indent, ea_text *t) {
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
        ea_text_char(t, '\n');
        write_rows(o->table->rows, target, indent, 0, t);
        break;
    case EA_OPT_LABELS:
        break; /* no session has one */
    }
}

/* Whether the option differs from its default. defaults: a struct with the fallbacks. */
static int session_words_is_given(const ea_option *o, const void *item, const void *defaults) {
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
    case EA_OPT_TABLE: /* a session's have numbers alone */
        return memcmp(a, b, o->table->size) != 0;
    case EA_OPT_LABELS:
        return 0;
    }
    return 0;
}

static void write_rows(const ea_option *rows, const void *item, unsigned indent, int first_dash, ea_text *t) {
    union {
        ea_session_config session;
        ea_recorder_config recorder;
        ea_provider_config provider;
        ea_pmc_sample_config pmc;
        ea_payload_config payload;
    } defaults;

    ea_err err;
    memset(&defaults, 0, sizeof defaults);
    if (ea_option_fallbacks(rows, &defaults, &err))
        t->failed = 1;
    for (const ea_option *o = rows; o->name; o++) {
        if (!session_words_is_given(o, item, &defaults))
            continue;
        for (unsigned i = 0; i < indent; i++)
            ea_text_char(t, ' ');
        ea_text_printf(t, "%s%s:", first_dash ? "- " : "  ", o->name);
        first_dash = 0;
        session_words_write_value(o, (const char *)item + o->offset, indent + 2, t);
    }
}

void ea_session_write(const ea_session_config *session, ea_text *t) {
    write_rows(ea_session_table.rows, session, 2, 1, t);
}
