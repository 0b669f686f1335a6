/* What a running agent says: lines for a person, on standard error or in a log file of bounded size, no faster than a
 * rate, and the more important ones to a listener (the Windows event log). Before it: agent.h. After it: a terminal, a
 * file, service/scm/eventlog.h. Thread: any. */
#ifndef EA_CORE_SAY_H
#define EA_CORE_SAY_H

#include "proto/base/err.h"

#include <stdint.h>

enum ea_said {
    EA_SAID_NOTE, /* the only kind that a rate holds back */
    EA_SAID_STARTED,
    EA_SAID_STOPPED,
    EA_SAID_RELOADED,
    EA_SAID_REFUSED, /* a configuration was refused; what ran goes on */
    EA_SAID_TROUBLE, /* something cannot work now */
    EA_SAID_WORKS,   /* ... and works again */
    EA_SAID_LOST,    /* events were lost */
    EA_SAID_FAILED,  /* the program ends */
};

typedef struct ea_say_options {
    int quiet;               /* nothing on standard error */
    const char *path;        /* a log file, appended to; NULL: none; copied */
    uint64_t file_bytes;     /* a file that would become larger is renamed to path + ".1" first */
    unsigned lines_a_minute; /* so many notes and troubles, then they are counted only; 0: all */
    void (*on_said)(void *arg, enum ea_said kind, const char *line);
    void *arg;
} ea_say_options;

/* Where lines go from now on; without it they go to standard error. Called before other threads speak. Errors: what
 * opening the file says; lines then go elsewhere as asked. */
EA_MUST_CHECK int ea_say_to(const ea_say_options *options, ea_err *err);
/* Another file (NULL: none), size and rate. Any thread. */
EA_MUST_CHECK int ea_say_file(const char *path, uint64_t file_bytes, unsigned lines_a_minute, ea_err *err);
/* Closes the file; lines go to standard error again. */
void ea_say_end(void);

/* One line, without a newline; what is in it of control characters is made visible. */
void ea_say(enum ea_said kind, const char *format, ...) EA_PRINTF(2, 3);

#endif
