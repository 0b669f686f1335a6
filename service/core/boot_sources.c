/* Boot sessions' files. See boot_sources.h. */
#include "service/core/boot_sources.h"

#include "proto/base/platform.h"
#include "service/core/agent_log.h"
#include "service/etw/autologger.h"
#include "service/etw/boot_files.h"

#include <stdio.h>
#include <string.h>

static void log_boot(void *arg, const char *line) {
    ea_log_warning("session %s: %s", (const char *)arg, line);
}

/* Appends a session's boot files that wait to be read to the sources. Returns how many there are now. */
static size_t add_boot_files(ea_config_snapshot *snapshot, const ea_session_config *s, ea_file_source_config *sources,
                             size_t n) {
    for (int age = 0; age < EA_BOOT_FILES_MAX; age++) {
        char path[EA_BOOT_PATH_BYTES], taken[EA_BOOT_PATH_BYTES], name[EA_SESSION_NAME_MAX + 16];
        ea_boot_file_path(s, age, path);
        if (!ea_path_exists(path))
            continue;
        taken[0] = 0;
        if (age == 0)
            ea_boot_file_path(s, -1, taken);
        snprintf(name, sizeof name, age ? "%s-boot.%d" : "%s-boot", s->name, age);
        ea_file_source_config *c = &sources[n];
        c->name = ea_arena_strdup(&snapshot->arena, name);
        c->files = (ea_strings){.items = {ea_arena_strdup(&snapshot->arena, path)}, .count = 1};
        c->taken = ea_arena_strdup(&snapshot->arena, taken);
        c->priority = s->priority;
        c->filters = s->filters;
        c->watches = s->watches;
        n += c->name && c->files.items[0] && c->taken;
    }
    return n;
}

void ea_boot_sources_add(ea_config_snapshot *s) {
    const ea_session_config *sessions = s->c.sessions.items;
    size_t n = s->c.sources.count, count = s->c.sessions.count;
    ea_file_source_config *all = count ? ea_arena_zalloc(&s->arena, n + count * EA_BOOT_FILES_MAX, sizeof *all) : NULL;
    s->boot_files_lost = count ? ea_arena_zalloc(&s->arena, count, sizeof *s->boot_files_lost) : NULL;
    if (!all || !s->boot_files_lost)
        return;
    if (n)
        memcpy(all, s->c.sources.items, n * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        ea_err why = {0};
        if (!sessions[i].boot_file)
            continue;
        if (ea_autologger_take(&sessions[i], log_boot, (void *)(uintptr_t)sessions[i].name, &s->boot_files_lost[i],
                               &why))
            ea_log_warning("session %s: %s", sessions[i].name, why.message);
        n = add_boot_files(s, &sessions[i], all, n);
    }
    s->c.sources = (ea_tables){all, n};
}

void ea_boot_sources_retire(ea_source_tasks *tasks) {
    for (ea_source_task *t = tasks->first; t; t = t->next) {
        ea_err err;
        if (!t->c || !t->c->taken || t->is_retired)
            continue;
        t->is_retired = ea_source_task_is_in_spool(t);
        if (!t->is_retired)
            continue;
        const char *file = t->c->files.items[0], *name = t->c->taken;
        int rc = ea_spool_sync(tasks->spool, &err);
        if (!rc)
            rc = *name ? ea_path_rename(file, name, &err) : ea_path_remove(file, &err);
        if (rc)
            ea_log_warning("source %.128s: %s", t->name, err.message);
    }
}
