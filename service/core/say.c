/* Lines for a person. See say.h. */
#include "service/core/say.h"

#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX = 1024 };

static const int64_t MINUTE_NS = (int64_t)60 * 1000000000;

static struct {
    ea_mutex *lock; /* NULL: only standard error is used */
    ea_say_options o;
    char *path;
    ea_file *file;
    uint64_t size_bytes;
    int64_t window_ns; /* the minute that is counted */
    unsigned said, left_out;
} voice;

static void close_file(void) {
    ea_file_close(voice.file);
    voice.file = NULL;
    free(voice.path);
    voice.path = NULL;
}

static int open_file(ea_err *err) {
    int rc = ea_file_open(&voice.file, voice.path, EA_OPEN_APPEND, err);
    if (rc)
        return rc;
    rc = ea_file_size(voice.file, &voice.size_bytes, err);
    if (rc) {
        ea_file_close(voice.file);
        voice.file = NULL;
    }
    return rc;
}

/* The caller holds `lock`. A line that cannot be written to the file is written to standard error only: the disk may be
 * the cause. */
static void to_file(const char *line, size_t len_bytes) {
    ea_err err;
    if (!voice.path)
        return;
    if (voice.file && voice.size_bytes && voice.size_bytes + len_bytes > voice.o.file_bytes) {
        size_t n = strlen(voice.path) + 3;
        char *older = malloc(n);
        ea_file_close(voice.file);
        voice.file = NULL;
        if (older) {
            snprintf(older, n, "%s.1", voice.path);
            if (ea_path_rename(voice.path, older, &err) && ea_path_remove(voice.path, &err))
                fprintf(stderr, "etwagent: %s\n", err.message);
            free(older);
        }
    }
    if (!voice.file && open_file(&err))
        return;
    if (!ea_file_write_at(voice.file, voice.size_bytes, line, len_bytes, &err))
        voice.size_bytes += len_bytes;
}

/* With the lock. */
static void put(const char *line, size_t len_bytes) {
    if (!voice.o.quiet) {
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
    if (voice.path) {
        ea_text t;
        ea_text_init(&t);
        ea_text_utc_ns(&t, ea_utc_ns());
        ea_text_char(&t, ' ');
        ea_text_add(&t, line, len_bytes);
        ea_text_char(&t, '\n');
        if (!t.failed)
            to_file(t.data, t.len_bytes);
        ea_text_deinit(&t);
    }
}

/* With the lock. 0: this line is counted only. */
static int admits(enum ea_said kind) {
    int64_t now = ea_monotonic_ns();
    if (!voice.o.lines_a_minute)
        return 1;
    if (!voice.window_ns || now - voice.window_ns >= MINUTE_NS) {
        if (voice.left_out) {
            char line[80];
            int n = snprintf(line, sizeof line, "%u lines of the last minute were left out", voice.left_out);
            put(line, (size_t)n);
        }
        voice.window_ns = now;
        voice.said = voice.left_out = 0;
    }
    if (kind != EA_SAID_NOTE && kind != EA_SAID_TROUBLE && kind != EA_SAID_WORKS)
        return 1;
    if (voice.said < voice.o.lines_a_minute) {
        voice.said++;
        return 1;
    }
    voice.left_out++;
    return 0;
}

int ea_say_to(const ea_say_options *options, ea_err *err) {
    if (!voice.lock) {
        int rc = ea_mutex_create(&voice.lock, err);
        if (rc)
            return rc;
    }
    ea_mutex_lock(voice.lock);
    voice.o = *options;
    ea_mutex_unlock(voice.lock);
    return ea_say_file(options->path, options->file_bytes, options->lines_a_minute, err);
}

int ea_say_file(const char *path, uint64_t file_bytes, unsigned lines_a_minute, ea_err *err) {
    int rc = 0;
    if (!voice.lock && (rc = ea_mutex_create(&voice.lock, err)))
        return rc;
    ea_mutex_lock(voice.lock);
    voice.o.file_bytes = file_bytes;
    voice.o.lines_a_minute = lines_a_minute;
    if (!path || !voice.path || strcmp(path, voice.path) != 0) {
        close_file();
        if (path) {
            size_t n = strlen(path) + 1;
            voice.path = malloc(n);
            if (voice.path) {
                memcpy(voice.path, path, n);
                rc = open_file(err);
            } else {
                rc = ea_fail(err, EA_ENOMEM, "log to %s", path);
            }
        }
    }
    ea_mutex_unlock(voice.lock);
    return rc;
}

void ea_say_end(void) {
    if (!voice.lock)
        return;
    ea_mutex_lock(voice.lock);
    close_file();
    ea_mutex_unlock(voice.lock);
    ea_mutex_destroy(voice.lock);
    memset(&voice, 0, sizeof voice);
}

void ea_say(enum ea_said kind, const char *format, ...) {
    char line[LINE_MAX];
    ea_text t;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ea_text_init(&t);
    ea_text_safe(&t, line, strlen(line));
    if (!t.failed) {
        if (voice.lock)
            ea_mutex_lock(voice.lock);
        int admitted = admits(kind);
        if (admitted)
            put(t.data ? t.data : "", t.len_bytes);
        if (voice.lock)
            ea_mutex_unlock(voice.lock);
        if (admitted && voice.o.on_said)
            voice.o.on_said(voice.o.arg, kind, t.data ? t.data : "");
    }
    ea_text_deinit(&t);
}
