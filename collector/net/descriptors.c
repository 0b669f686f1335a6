/* Descriptors and libevent's messages. See descriptors.h. */
#include "collector/net/descriptors.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/resource.h>

static _Atomic(ec_log *) libevent_log; /* libevent's callback has no argument */

uint64_t ec_descriptors_raise(void) {
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    uint64_t all = limit.rlim_cur == RLIM_INFINITY ? UINT32_MAX : limit.rlim_cur;
    return all / 2 < EC_DESCRIPTORS_RESERVED ? all - all / 2 : all - EC_DESCRIPTORS_RESERVED;
}

void ec_descriptors_divide(uint64_t descriptors, ec_descriptors_share *shares, size_t count, ec_log *log) {
    uint64_t left = descriptors, listeners = 0, fair = 0;
    for (size_t i = 0; i < count; i++)
        listeners += shares[i].listeners;
    /* what wants less than an equal share leaves the rest to the others, whose shares grow by it */
    for (size_t round = 0; listeners && round < count; round++) {
        uint64_t equal = left / listeners;
        size_t settled = 0;
        for (size_t i = 0; i < count; i++) {
            if (!shares[i].listeners || *shares[i].connections <= fair || *shares[i].connections > equal)
                continue;
            left -= (uint64_t)*shares[i].connections * shares[i].listeners;
            listeners -= shares[i].listeners;
            settled++;
        }
        fair = equal;
        if (!settled)
            break;
    }
    for (size_t i = 0; i < count; i++) {
        if (!shares[i].listeners || *shares[i].connections <= fair)
            continue;
        uint32_t most = fair ? (uint32_t)fair : 1;
        ec_log_line(log,
                    "--%s is lowered from %" PRIu32 " to %" PRIu32 ": all listeners together may have %" PRIu64
                    " descriptors open (the process's limit without those reserved); raise the limit, see ulimit -n",
                    shares[i].option, *shares[i].connections, most, descriptors);
        *shares[i].connections = most;
    }
}

static void descriptors_on_message(int severity, const char *text) {
    ec_log *log = atomic_load(&libevent_log);
    if (log && severity >= EVENT_LOG_WARN)
        ec_log_about(log, EC_LOG_LIBRARY, "libevent: %s", text);
}

void ec_libevent_log(ec_log *log) {
    atomic_store(&libevent_log, log);
    event_set_log_callback(log ? descriptors_on_message : NULL);
}
