/* A log's lines, so many of each kind a minute: the rest are counted, and one line says how many there were. Called by:
 * service/core/agent_log.h, collector/net/log.h. Calls: the function that writes a line. Thread: one at a time; the
 * owner of the log has a lock. */
#ifndef EA_BASE_LINE_LOG_H
#define EA_BASE_LINE_LOG_H

#include "proto/base/text.h"

#include <stdarg.h>
#include <stdint.h>

enum { EA_LINE_LOG_KINDS_MAX = 16, EA_LINE_LOG_LINE_MAX = 1024 };

/* One kind's minute. */
typedef struct ea_line_budget {
    int64_t began_ns; /* 0: no line has come yet */
    unsigned lines;
    uint64_t suppressed;
} ea_line_budget;

typedef struct ea_line_log {
    unsigned lines_a_minute; /* of each kind; 0: all */
    /* Writes a line, without a newline, that has no control characters. */
    void (*write)(void *arg, const char *line, size_t len_bytes);
    void *arg;
    const char *const *kinds; /* what follows "N lines" in the line about suppressed ones; as many as kind_count */
    unsigned kind_count;      /* at most EA_LINE_LOG_KINDS_MAX */
    ea_line_budget budgets[EA_LINE_LOG_KINDS_MAX];
} ea_line_log;

/* Makes a line: at most EA_LINE_LOG_LINE_MAX - 1 bytes, control characters made visible. Without memory out has failed.
 */
void ea_line_log_format(ea_text *out, const char *format, va_list args) EA_PRINTF(2, 0);
/* Adds a line in the form of a log file: the current time, a space, the line, a newline. */
void ea_line_log_date(ea_text *out, const char *line, size_t len_bytes);
/* Writes the line, unless those of its kind are used up for this minute; then it is counted. Returns 1 when it is
 * written. */
int ea_line_log_add(ea_line_log *log, unsigned kind, const ea_text *line);
/* The next minute begins for kinds whose minute is over; writes how many lines of it were suppressed. ea_line_log_add
 * does the same. */
void ea_line_log_renew(ea_line_log *log);

#endif
