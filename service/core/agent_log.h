/* The running agent's log: lines for an operator, on standard error or in a log file of bounded size, no faster than a
 * rate, and the more important ones to a listener (the Windows event log). Called by: agent.h. Output:
 * proto/base/line_log.h, a terminal, a file, service/scm/eventlog.h. Thread: any. */
#ifndef EA_CORE_AGENT_LOG_H
#define EA_CORE_AGENT_LOG_H

#include "proto/base/err.h"

#include <stdint.h>

enum ea_log_kind {
    EA_LOG_INFO,
    EA_LOG_STARTED,
    EA_LOG_STOPPED,
    EA_LOG_RELOADED,
    EA_LOG_REFUSED, /* a configuration was refused; what ran goes on */
    EA_LOG_WARNING, /* something cannot work now */
    EA_LOG_WORKS,   /* ... and works again */
    EA_LOG_LOST,    /* events were lost */
    EA_LOG_FAILED,  /* the program ends */
};

typedef struct ea_log_options {
    int quiet;               /* nothing on standard error */
    const char *path;        /* a log file, appended to; NULL: none; copied */
    uint64_t file_bytes;     /* a file that would become larger is renamed to path + ".1" first */
    unsigned lines_a_minute; /* so many of EA_LOG_INFO, _WARNING and _WORKS, then they are only counted; 0: all */
    void (*on_line)(void *arg, enum ea_log_kind kind, const char *line);
    void *arg;
} ea_log_options;

/* Where lines go from now on; without it they go to standard error. Called before other threads log. Errors: what
 * opening the file says; lines then go elsewhere as asked. */
EA_MUST_CHECK int ea_log_open(const ea_log_options *options, ea_err *err);
/* Another file (NULL: none), size and rate. Any thread. */
EA_MUST_CHECK int ea_log_set_file(const char *path, uint64_t file_bytes, unsigned lines_a_minute, ea_err *err);
/* Closes the file; lines go to standard error again. */
void ea_log_close(void);

/* One line, without a newline; control characters in it are made visible. */
void ea_log_line(enum ea_log_kind kind, const char *format, ...) EA_PRINTF(2, 3);
#define ea_log_info(...)    ea_log_line(EA_LOG_INFO, __VA_ARGS__)
#define ea_log_warning(...) ea_log_line(EA_LOG_WARNING, __VA_ARGS__)

#endif
