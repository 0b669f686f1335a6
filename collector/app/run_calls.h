/* What parts of a running collector call when something has happened. arg: as the parameter's name says. Called by: the
 * parts that cmd_run.c starts. Calls: collector/state, collector/net. Thread: any. */
#ifndef EC_APP_RUN_CALLS_H
#define EC_APP_RUN_CALLS_H

#include "collector/net/log.h"
#include "collector/net/quota.h"

#include <stdint.h>

typedef struct ec_run_uses {
    ec_log *log;
    ec_quota *quota;
} ec_run_uses;

/* history: ec_state_worker_worker. */
void ec_run_on_stored(void *history);
void ec_run_on_space(void *history);
int ec_run_wants_keyframe(void *history, const char *agent, const uint8_t *stream);
/* log: ec_log. */
void ec_run_on_store_note(void *log, const char *text);
void ec_run_on_watch_note(void *log, const char *text);
/* arg: ec_run_uses. */
void ec_run_on_history_note(void *arg, const char *text);
void ec_run_on_history_used(void *arg, const char *host, int64_t cpu_ns);
int ec_run_has_processor(void *arg, const char *host);
void ec_run_on_rules_note(void *arg, const char *text);

#endif
