/* The running agent's log. See agent_log.h. */
#include "service/core/agent_log.h"

#include "proto/base/line_log.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void agent_log_put(void *arg, const char *line, size_t len_bytes);

static const char *const BOUNDED[] = {"of the last minute were left out"};

static struct {
    ea_mutex *lock; /* NULL: only standard error is used */
    ea_log_options o;
    char *path;
    ea_file *file;
    uint64_t size_bytes;
    ea_line_log lines; /* one budget: of the kinds that lines_a_minute bounds */
} the_log = {.lines = {.write = agent_log_put, .kinds = BOUNDED, .kind_count = 1}};

static void agent_log_close_file(void) {
    ea_file_close(the_log.file);
    the_log.file = NULL;
    free(the_log.path);
    the_log.path = NULL;
}

static int agent_log_open_file(ea_err *err) {
    int rc = ea_file_open(&the_log.file, the_log.path, EA_OPEN_APPEND, err);
    if (rc)
        return rc;
    rc = ea_file_size(the_log.file, &the_log.size_bytes, err);
    if (rc) {
        ea_file_close(the_log.file);
        the_log.file = NULL;
    }
    return rc;
}

/* The caller holds `lock`. A line that cannot be written to the file is written to standard error only: the disk may be
 * the cause. */
static void to_file(const char *line, size_t len_bytes) {
    ea_err err;
    if (!the_log.path)
        return;
    if (the_log.file && the_log.size_bytes && the_log.size_bytes + len_bytes > the_log.o.file_bytes) {
        size_t n = strlen(the_log.path) + 3;
        char *older = malloc(n);
        ea_file_close(the_log.file);
        the_log.file = NULL;
        if (older) {
            snprintf(older, n, "%s.1", the_log.path);
            if (ea_path_rename(the_log.path, older, &err) && ea_path_remove(the_log.path, &err))
                fprintf(stderr, "etwagent: %s\n", err.message);
            free(older);
        }
    }
    if (!the_log.file && agent_log_open_file(&err))
        return;
    if (!ea_file_write_at(the_log.file, the_log.size_bytes, line, len_bytes, &err))
        the_log.size_bytes += len_bytes;
}

/* With the lock. */
static void agent_log_put(void *arg, const char *line, size_t len_bytes) {
    (void)arg;
    if (!the_log.o.quiet) {
        ea_text t;
        ea_text_init(&t);
        ea_text_str(&t, "etwagent: ");
        ea_text_add(&t, line, len_bytes);
        ea_text_char(&t, '\n');
        if (!t.failed) {
            fwrite(t.data, 1, t.len_bytes, stderr);
            fflush(stderr); /* Windows' C library keeps it back when it is a file */
        }
        ea_text_deinit(&t);
    }
    if (the_log.path) {
        ea_text t;
        ea_text_init(&t);
        ea_line_log_date(&t, line, len_bytes);
        if (!t.failed)
            to_file(t.data, t.len_bytes);
        ea_text_deinit(&t);
    }
}

/* With the lock. 0: this line is only counted. */
static int agent_log_add(enum ea_log_kind kind, const ea_text *line) {
    if (kind == EA_LOG_INFO || kind == EA_LOG_WARNING || kind == EA_LOG_WORKS)
        return ea_line_log_add(&the_log.lines, 0, line);
    ea_line_log_renew(&the_log.lines);
    agent_log_put(NULL, line->data ? line->data : "", line->len_bytes);
    return 1;
}

int ea_log_open(const ea_log_options *options, ea_err *err) {
    if (!the_log.lock) {
        int rc = ea_mutex_create(&the_log.lock, err);
        if (rc)
            return rc;
    }
    ea_mutex_lock(the_log.lock);
    the_log.o = *options;
    ea_mutex_unlock(the_log.lock);
    return ea_log_set_file(options->path, options->file_bytes, options->lines_a_minute, err);
}

int ea_log_set_file(const char *path, uint64_t file_bytes, unsigned lines_a_minute, ea_err *err) {
    int rc = 0;
    if (!the_log.lock && (rc = ea_mutex_create(&the_log.lock, err)))
        return rc;
    ea_mutex_lock(the_log.lock);
    the_log.o.file_bytes = file_bytes;
    the_log.lines.lines_a_minute = lines_a_minute;
    if (!path || !the_log.path || strcmp(path, the_log.path) != 0) {
        agent_log_close_file();
        if (path) {
            size_t n = strlen(path) + 1;
            the_log.path = malloc(n);
            if (the_log.path) {
                memcpy(the_log.path, path, n);
                rc = agent_log_open_file(err);
            } else {
                rc = ea_fail(err, EA_ENOMEM, "log to %s", path);
            }
        }
    }
    ea_mutex_unlock(the_log.lock);
    return rc;
}

void ea_log_close(void) {
    if (!the_log.lock)
        return;
    ea_mutex_lock(the_log.lock);
    agent_log_close_file();
    ea_mutex_unlock(the_log.lock);
    ea_mutex_destroy(the_log.lock);
    the_log.lock = NULL;
    the_log.o = (ea_log_options){0};
    the_log.size_bytes = 0;
    the_log.lines.lines_a_minute = 0;
    the_log.lines.budgets[0] = (ea_line_budget){0};
}

/* Without a lock before ea_log_open. */
void ea_log_line(enum ea_log_kind kind, const char *format, ...) EA_NO_THREAD_SAFETY_ANALYSIS {
    ea_text t;
    va_list args;
    ea_text_init(&t);
    va_start(args, format);
    ea_line_log_format(&t, format, args);
    va_end(args);
    if (!t.failed) {
        if (the_log.lock)
            ea_mutex_lock(the_log.lock);
        int is_written = agent_log_add(kind, &t);
        if (the_log.lock)
            ea_mutex_unlock(the_log.lock);
        if (is_written && the_log.o.on_line)
            the_log.o.on_line(the_log.o.arg, kind, t.data ? t.data : "");
    }
    ea_text_deinit(&t);
}
