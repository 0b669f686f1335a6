/* The daemon's log. See log.h. */
#include "log.h"

#include "clock.h"
#include "platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

static const int64_t MINUTE_NS = 60 * INT64_C(1000000000);

struct ec_log {
    ea_mutex *mutex;
    FILE *out;
    unsigned lines_a_minute, lines;
    uint64_t suppressed;
    int64_t window_ns;
};

int ec_log_create(ec_log **ret, FILE *out, unsigned lines_a_minute, ea_err *err) {
    ec_log *log = calloc(1, sizeof *log);
    if (!log)
        return ea_fail(err, EA_ENOMEM, "open the log");
    int rc = ea_mutex_create(&log->mutex, err);
    if (rc) {
        free(log);
        return rc;
    }
    log->out = out;
    log->lines_a_minute = lines_a_minute ? lines_a_minute : 60;
    log->window_ns = ea_monotonic_ns();
    *ret = log;
    return 0;
}

void ec_log_destroy(ec_log *log) {
    if (!log)
        return;
    ea_mutex_destroy(log->mutex);
    free(log);
}

static void write_line(FILE *out, const char *line, size_t len_bytes) {
    ea_text t;
    ea_text_init(&t);
    ea_text_utc_ns(&t, ea_utc_ns());
    ea_text_char(&t, ' ');
    ea_text_safe(&t, line, len_bytes);
    ea_text_char(&t, '\n');
    if (!t.failed) {
        fwrite(t.data, 1, t.len_bytes, out);
        fflush(out);
    }
    ea_text_deinit(&t);
}

void ec_log_line(ec_log *log, const char *format, ...) {
    char line[1024];
    if (!log)
        return;
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (n < 0)
        return;
    ea_mutex_lock(log->mutex);
    int64_t now = ea_monotonic_ns();
    if (now - log->window_ns >= MINUTE_NS) {
        log->window_ns = now;
        log->lines = 0;
        if (log->suppressed) {
            char note[80];
            int m = snprintf(note, sizeof note, "%" PRIu64 " lines were left out of the log", log->suppressed);
            write_line(log->out, note, (size_t)m);
            log->suppressed = 0;
        }
    }
    if (log->lines < log->lines_a_minute) {
        log->lines++;
        write_line(log->out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    } else {
        log->suppressed++;
    }
    ea_mutex_unlock(log->mutex);
}
