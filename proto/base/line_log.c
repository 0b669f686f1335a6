/* See line_log.h. */
#include "proto/base/line_log.h"

#include "proto/base/clock.h"
#include "proto/base/err.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const int64_t MINUTE_NS = 60 * INT64_C(1000000000);

void ea_line_log_format(ea_text *out, const char *format, va_list args) {
    char line[EA_LINE_LOG_LINE_MAX];
    if (vsnprintf(line, sizeof line, format, args) >= 0)
        ea_text_safe(out, line, strlen(line));
}

void ea_line_log_date(ea_text *out, const char *line, size_t len_bytes) {
    ea_text_utc_ns(out, ea_utc_ns());
    ea_text_char(out, ' ');
    ea_text_add(out, line, len_bytes);
    ea_text_char(out, '\n');
}

static void line_log_renew(ea_line_log *log, unsigned kind, int64_t now_ns) {
    ea_line_budget *b = &log->budgets[kind];
    if (b->began_ns && now_ns - b->began_ns < MINUTE_NS)
        return;
    uint64_t suppressed = b->suppressed;
    *b = (ea_line_budget){.began_ns = now_ns};
    if (suppressed) {
        char line[160];
        int n = snprintf(line, sizeof line, "%" PRIu64 " lines %s", suppressed, log->kinds[kind]);
        log->write(log->arg, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    }
}

int ea_line_log_add(ea_line_log *log, unsigned kind, const ea_text *line) {
    EA_ASSERT(kind < log->kind_count && log->kind_count <= EA_LINE_LOG_KINDS_MAX);
    ea_line_log_renew(log);
    ea_line_budget *b = &log->budgets[kind];
    if (log->lines_a_minute && b->lines >= log->lines_a_minute) {
        b->suppressed++;
        return 0;
    }
    b->lines++;
    log->write(log->arg, line->data ? line->data : "", line->len_bytes);
    return 1;
}

void ea_line_log_renew(ea_line_log *log) {
    int64_t now_ns = ea_monotonic_ns();
    for (unsigned k = 0; k < log->kind_count; k++)
        line_log_renew(log, k, now_ns);
}
