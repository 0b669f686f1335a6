/* The ETW session that a program of the query language needs: exactly the kernel flags, stacks, performance counters
 * and providers of its probes' classes. Called by: "etwagent watch". Calls: config/, proto/lang. Thread: the main one.
 */
#ifndef EA_APP_WATCH_SESSION_H
#define EA_APP_WATCH_SESSION_H

#include "config/sessions.h"
#include "proto/base/arena.h"
#include "proto/base/text.h"
#include "proto/lang/lang.h"

typedef struct ea_watch_session {
    ea_session_config session;
    /* what it points to */
    char name[EA_SESSION_NAME_MAX + 1];
    ea_provider_config *providers;
    ea_pmc_sample_config samples[EA_PMC_MAX];
    ea_arena words;
    ea_strings unknown; /* classes of probes for which no flag is known: others of the probes' classes may have some */
    size_t unknown_count;
} ea_watch_session;

typedef struct ea_watch_session_options {
    const char *name;
    int needs_processes;           /* also when the program does not read anything of them */
    int is_plain_stacks;           /* stacks are addresses: the program needs no modules for them */
    const ea_strings *pmc_samples; /* sources for PerfInfo/PmcCounterProf */
} ea_watch_session_options;

/* Errors: EA_EUSAGE: a probe is about all events, or its class comes with no session. On failure, too, the caller calls
 * ea_watch_session_deinit. */
EA_MUST_CHECK int ea_watch_session_init(ea_watch_session *ret, const ea_lang_program *program,
                                        const ea_watch_session_options *options, ea_err *err);
void ea_watch_session_deinit(ea_watch_session *s);
/* 1 when the class is one of the kernel's own events. */
int ea_watch_is_kernel(const ea_lang_need *n);
/* One line about what it enables, without a newline. */
void ea_watch_session_describe(const ea_watch_session *s, ea_text *t);

#endif
