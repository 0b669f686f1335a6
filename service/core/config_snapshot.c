/* A configuration that was read. See config_snapshot.h. */
#include "service/core/config_snapshot.h"

#include "service/core/agent_log.h"
#include "service/core/labels.h"
#include "service/etw/live.h"
#include "service/eventlog/channel_api.h"

#include <stdlib.h>
#include <string.h>

void ea_config_snapshot_release(ea_config_snapshot *s) {
    if (!s || --s->users)
        return;
    ea_config_destroy(s->memory);
    ea_arena_deinit(&s->arena);
    free(s);
}

int ea_config_can_run(const ea_file_source_config *source) {
    return !source->channels.count || ea_channel_api_of_machine();
}

size_t ea_config_runnable_sources(const ea_agent_config *c) {
    const ea_file_source_config *sources = c->sources.items;
    size_t n = 0;
    for (size_t i = 0; i < c->sources.count; i++)
        n += (size_t)ea_config_can_run(&sources[i]);
    return n;
}

size_t ea_config_runnable(const ea_agent_config *c) {
    return ea_config_runnable_sources(c) + (ea_live_is_possible() ? c->sessions.count : 0);
}

static void log_left_out(const char *label, const char *variable) {
    ea_log_info("label %s is left out: there is no environment variable %s", label, variable);
}

static void log_problem(void *arg, const char *line) {
    (void)arg;
    ea_log_info("%s", line);
}

int ea_config_snapshot_read(ea_config_snapshot **ret, const char *path, ea_err *err) {
    ea_config_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "read %s", path);
    int rc = ea_config_read(&s->memory, path, &ea_agent_table, &s->c, log_problem, NULL, err);
    if (!rc && ea_config_runnable(&s->c) && !s->c.shipping.collectors.count) {
        rc = ea_fail(err, EA_EUSAGE, "%s: it has no part \"shipping\" with a collector to send to", path);
        ea_config_destroy(s->memory);
    }
    if (rc) {
        free(s);
        return rc;
    }
    s->users = 1;
    ea_arena_init(&s->arena, 0);
    rc = ea_labels_resolve(&s->labels, &s->c.labels, &s->arena, log_left_out, err);
    if (rc) {
        ea_config_snapshot_release(s);
        return rc;
    }
    for (size_t i = 0; !ea_live_is_possible() && i < s->c.sessions.count; i++)
        ea_log_info("session %s is left out: only Windows has ETW sessions",
                    ((const ea_session_config *)s->c.sessions.items)[i].name);
    const ea_file_source_config *sources = s->c.sources.items;
    for (size_t i = 0; i < s->c.sources.count; i++)
        if (!ea_config_can_run(&sources[i]))
            ea_log_info("source %s is left out: only Windows has an event log", sources[i].name);
    *ret = s;
    return 0;
}

/* ---- what differs ---- */

static void count_change(void *arg, const char *path) {
    (void)path;
    ++*(unsigned *)arg;
}

static unsigned count_changes(const ea_table *table, const void *before, const void *after) {
    unsigned n = 0;
    ea_config_compare(table, before, after, count_change, &n);
    return n;
}

static int have_same_labels(const ea_labels *a, const ea_labels *b) {
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->items[i].name, b->items[i].name) == 0 && strcmp(a->items[i].value, b->items[i].value) == 0;
    return same;
}

ea_config_changes ea_config_snapshot_compare(const ea_config_snapshot *before, const ea_config_snapshot *after) {
    const ea_agent_config *a = &before->c, *b = &after->c;
    ea_config_changes changes = {.shipping = count_changes(&ea_shipping_table, &a->shipping, &b->shipping) != 0 ||
                                             count_changes(&ea_remote_table, &a->remote, &b->remote) != 0,
                                 .labels = !have_same_labels(&before->labels, &after->labels)};
    changes.sources = changes.shipping || count_changes(&ea_batching_table, &a->batching, &b->batching) ||
                      count_changes(&ea_schemas_table, &a->schemas, &b->schemas);
    return changes;
}

int ea_config_snapshot_has_same_source(const ea_config_snapshot *s, const ea_file_source_config *source,
                                       const ea_session_config *session) {
    const ea_session_config *sessions = s->c.sessions.items;
    for (size_t i = 0; session && i < s->c.sessions.count; i++)
        if (strcmp(sessions[i].name, session->name) == 0)
            return !count_changes(&ea_session_table, session, &sessions[i]);
    const ea_file_source_config *sources = s->c.sources.items;
    for (size_t i = 0; source && i < s->c.sources.count; i++)
        if (strcmp(sources[i].name, source->name) == 0)
            return !count_changes(&ea_file_source_table, source, &sources[i]);
    return 0;
}
