/* Limits the processor time of this process to a percentage of one processor. A thread calls ea_cpu_throttle_wait
 * before it begins a piece of work; the call sleeps when the process has used more than its share.
 * Called by: service/app (files), collector/ingest, collector/state. Calls: platform.h.
 * Thread: each thread that waits has its own ea_cpu_throttle; all of them measure the processor time of the whole
 * process. */
#ifndef EA_BASE_CPU_THROTTLE_H
#define EA_BASE_CPU_THROTTLE_H

#include "proto/base/counters.h"

typedef struct ea_cpu_throttle {
    uint64_t percent;               /* of one processor; 0: no bound */
    int64_t begin_ns, begin_cpu_ns; /* of the span that is looked at, a second or a little more */
    int64_t waited_ns;              /* and not in a whole second of the counter yet */
} ea_cpu_throttle;

/* 1 after a wait of at most 100 ms, when the process has used more than its share of the span until now; 0: go on.
 * Whole seconds of waiting are added to the counter. counters may be NULL. */
int ea_cpu_throttle_wait(ea_cpu_throttle *p, ea_counters *counters, enum ea_counter counter);

#endif
