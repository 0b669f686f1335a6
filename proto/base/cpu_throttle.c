/* See cpu_throttle.h. */
#include "proto/base/cpu_throttle.h"
#include "proto/base/platform.h"

enum { WAIT_MOST_MS = 100 };

#define MS_NS     INT64_C(1000000)
#define SECOND_NS INT64_C(1000000000)

int ea_cpu_throttle_wait(ea_cpu_throttle *p, ea_counters *counters, enum ea_counter counter) {
    if (!p->percent)
        return 0;
    int64_t now_ns = ea_monotonic_ns(), cpu_ns = ea_process_cpu_ns();
    if (!p->begin_ns) {
        p->begin_ns = now_ns;
        p->begin_cpu_ns = cpu_ns;
    }
    int64_t ahead_ns = (cpu_ns - p->begin_cpu_ns) * 100 / (int64_t)p->percent - (now_ns - p->begin_ns);
    if (ahead_ns <= 0) {
        if (now_ns - p->begin_ns >= SECOND_NS) { /* unused CPU time does not accumulate: a new span begins */
            p->begin_ns = now_ns;
            p->begin_cpu_ns = cpu_ns;
        }
        return 0;
    }
    ahead_ns = ahead_ns < WAIT_MOST_MS * MS_NS ? ahead_ns : WAIT_MOST_MS * MS_NS;
    ea_sleep_ns(ahead_ns);
    p->waited_ns += ahead_ns;
    if (counters)
        ea_count(counters, counter, (uint64_t)(p->waited_ns / SECOND_NS));
    p->waited_ns %= SECOND_NS;
    return 1;
}
