/* See run_calls.h. */
#include "collector/app/run_calls.h"

#include "collector/state/state_worker.h"
#include "proto/base/platform.h"

void ec_run_on_stored(void *history) {
    ec_state_worker_wake(history);
}

void ec_run_on_space(void *history) {
    ec_state_worker_retry(history);
}

int ec_run_wants_keyframe(void *history, const char *agent, const uint8_t *stream) {
    return ec_state_worker_wants_keyframe(history, agent, stream);
}

void ec_run_on_store_note(void *log, const char *text) {
    ec_log_line(log, "%s", text);
}

void ec_run_on_watch_note(void *log, const char *text) {
    ec_log_about(log, EC_LOG_WATCH, "%s", text);
}

/* Agents cause these lines, so they take none of the collector's own. */
void ec_run_on_history_note(void *arg, const char *text) {
    const ec_run_uses *uses = arg;
    ec_log_about(uses->log, EC_LOG_STATE, "%s", text);
}

/* Folding an agent's new batches counts as their upload does. */
void ec_run_on_history_used(void *arg, const char *host, int64_t cpu_ns) {
    const ec_run_uses *uses = arg;
    ec_quota_charge(uses->quota, EC_QUOTA_processor, host, (uint64_t)cpu_ns, ea_monotonic_ns());
}

/* So does asking the rules about them. */
int ec_run_has_processor(void *arg, const char *host) {
    const ec_run_uses *uses = arg;
    return ec_quota_has_room(uses->quota, EC_QUOTA_processor, host, 0, ea_monotonic_ns());
}

void ec_run_on_rules_note(void *arg, const char *text) {
    const ec_run_uses *uses = arg;
    ec_log_line(uses->log, "%s", text);
}
