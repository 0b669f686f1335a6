/* "etwagent watch" without a trace: a session of its own for the program, until Ctrl-C, exit() or the command's end.
 * Called by: cmd_watch.c. Calls: service/etw, service/core/watcher.h. Thread: the main one. */
#ifndef EA_APP_WATCH_LIVE_H
#define EA_APP_WATCH_LIVE_H

#include "proto/lang/lang.h"
#include "service/core/schema_options.h"

typedef struct ea_watch_live_options {
    const ea_lang_program *program;
    ea_lang_run_options how; /* with flush */
    const char *name;        /* of the session */
    const char *command;     /* NULL: none */
    const ea_strings *pmc_samples;
    const ea_schema_options *schemas;
    void (*report)(void *arg, ea_lang_run *run); /* at the end, before the run is destroyed */
    void *report_arg;
} ea_watch_live_options;

EA_MUST_CHECK int ea_watch_live(const ea_watch_live_options *options, ea_err *err);

#endif
