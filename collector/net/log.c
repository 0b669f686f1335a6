/* The daemon's log. See log.h. */
#include "collector/net/log.h"

#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

static const int64_t MINUTE_NS = 60 * INT64_C(1000000000);

static const char *const KIND_TEXTS[] = {
#define X(kind, text) text,
    EC_LOG_KINDS(X)
#undef X
};

/* One kind's minute. */
typedef struct budget {
    unsigned lines;
    uint64_t suppressed;
    int64_t began_ns;
} budget;

struct ec_log {
    ea_mutex *mutex;
    FILE *out;
    ea_counters *counters;
    unsigned lines_a_minute;
    budget budgets[EC_LOG_KIND_COUNT];
};

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
    log->lines_a_minute = lines_a_minute ? lines_a_minute : 60;
    for (int k = 0; k < EC_LOG_KIND_COUNT; k++)
        log->budgets[k].began_ns = ea_monotonic_ns();
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

/* Under the mutex. */
static void renew(ec_log *log, int64_t now_ns) {
    for (int k = 0; k < EC_LOG_KIND_COUNT; k++) {
        budget *b = &log->budgets[k];
        if (now_ns - b->began_ns < MINUTE_NS)
            continue;
        uint64_t suppressed = b->suppressed;
        *b = (budget){.began_ns = now_ns};
        if (suppressed) {
            char note[160];
            int n =
                snprintf(note, sizeof note, "%" PRIu64 " lines about %s were suppressed", suppressed, KIND_TEXTS[k]);
            write_line(log->out, note, (size_t)n);
        }
    }
}

EA_PRINTF(3, 0)

static void add(ec_log *log, enum ec_log_kind kind, const char *format, va_list ap) {
    char line[1024];
    int n = vsnprintf(line, sizeof line, format, ap);
    if (n < 0)
        return;
    ea_mutex_lock(log->mutex);
    renew(log, ea_monotonic_ns());
    budget *b = &log->budgets[kind];
    if (b->lines < log->lines_a_minute) {
        b->lines++;
        write_line(log->out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    } else {
        b->suppressed++;
        if (log->counters)
            ea_count(log->counters, EA_COUNT_log_suppressed, 1);
    }
    ea_mutex_unlock(log->mutex);
}

void ec_log_about(ec_log *log, enum ec_log_kind kind, const char *format, ...) {
    va_list ap;
    if (!log)
        return;
    va_start(ap, format);
    add(log, kind, format, ap);
    va_end(ap);
}

void ec_log_line(ec_log *log, const char *format, ...) {
    va_list ap;
    if (!log)
        return;
    va_start(ap, format);
    add(log, EC_LOG_COLLECTOR, format, ap);
    va_end(ap);
}

void ec_log_renew(ec_log *log) {
    ea_mutex_lock(log->mutex);
    renew(log, ea_monotonic_ns());
    ea_mutex_unlock(log->mutex);
}
