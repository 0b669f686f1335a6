/* The daemon's log. See log.h. */
#include "collector/net/log.h"

#include "proto/base/line_log.h"
#include "proto/base/platform.h"

#include <stdarg.h>
#include <stdlib.h>

static const char *const KIND_TEXTS[] = {
#define X(kind, text) "about " text " were suppressed",
    EC_LOG_KINDS(X)
#undef X
};

_Static_assert((int)EC_LOG_KIND_COUNT <= (int)EA_LINE_LOG_KINDS_MAX, "line_log.h");

struct ec_log {
    ea_mutex *mutex;
    FILE *out;
    ea_counters *counters;
    ea_line_log lines;
};

static void log_write_line(void *arg, const char *line, size_t len_bytes) {
    const ec_log *log = arg;
    FILE *out = log->out;
    ea_text t;
    ea_mutex_assert_held(log->mutex);
    ea_text_init(&t);
    ea_line_log_date(&t, line, len_bytes);
    if (!t.failed) {
        fwrite(t.data, 1, t.len_bytes, out);
        fflush(out);
    }
    ea_text_deinit(&t);
}

int ec_log_create(ec_log **ret, FILE *out, unsigned lines_a_minute, ea_counters *counters, ea_err *err) {
    ec_log *log = calloc(1, sizeof *log);
    if (!log)
        return ea_fail(err, EA_ENOMEM, "open the log");
    int rc = ea_mutex_create(&log->mutex, err);
    if (rc) {
        free(log);
        return rc;
    }
    log->out = out;
    log->counters = counters;
    log->lines = (ea_line_log){.lines_a_minute = lines_a_minute ? lines_a_minute : 60,
                               .write = log_write_line,
                               .arg = log,
                               .kinds = KIND_TEXTS,
                               .kind_count = EC_LOG_KIND_COUNT};
    *ret = log;
    return 0;
}

void ec_log_destroy(ec_log *log) {
    if (!log)
        return;
    ea_mutex_destroy(log->mutex);
    free(log);
}

EA_PRINTF(3, 0)

static void log_add(ec_log *log, enum ec_log_kind kind, const char *format, va_list ap) {
    ea_text line;
    ea_text_init(&line);
    ea_line_log_format(&line, format, ap);
    if (!line.failed) {
        ea_mutex_lock(log->mutex);
        if (!ea_line_log_add(&log->lines, kind, &line) && log->counters)
            ea_count(log->counters, EA_COUNT_log_suppressed, 1);
        ea_mutex_unlock(log->mutex);
    }
    ea_text_deinit(&line);
}

void ec_log_about(ec_log *log, enum ec_log_kind kind, const char *format, ...) {
    va_list ap;
    if (!log)
        return;
    va_start(ap, format);
    log_add(log, kind, format, ap);
    va_end(ap);
}

void ec_log_line(ec_log *log, const char *format, ...) {
    va_list ap;
    if (!log)
        return;
    va_start(ap, format);
    log_add(log, EC_LOG_COLLECTOR, format, ap);
    va_end(ap);
}

void ec_log_renew(ec_log *log) {
    ea_mutex_lock(log->mutex);
    ea_line_log_renew(&log->lines);
    ea_mutex_unlock(log->mutex);
}
