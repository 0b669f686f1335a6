/* Limits the process and records its crashes: limits by a job object, priority, a watchdog, minidumps. Called by: the
 * service. Calls: Windows. Thread: the main one; the watchdog has its own. */
#ifndef EA_SCM_WATCHDOG_H
#define EA_SCM_WATCHDOG_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stdint.h>

/* From now on a crash ends the process, after a second process has written folder\crash-N.dmp (three of them, the
 * oldest goes), or EA_DUMP_MS (minidump.h) have passed. folder is copied. */
EA_MUST_CHECK int ea_watchdog_crashes(const char *folder, ea_err *err);

/* priority: index into normal, below-normal, idle. Zeros are no limit; a limit that was set can be changed, but not
 * removed before the process ends. Each part that Windows refuses is reported to on_note, and skipped. */
typedef struct ea_watchdog_limits {
    uint64_t memory_bytes;
    unsigned cpu_percent;
    int priority;
} ea_watchdog_limits;

void ea_watchdog_limit(const ea_watchdog_limits *limits, void (*on_note)(void *arg, const char *line), void *arg);

/* Ends the process, with a minidump, when *beats has not changed for limit_ns. The limit may be changed; 0: never. */
typedef struct ea_watchdog ea_watchdog;
EA_MUST_CHECK int ea_watchdog_start(ea_watchdog **ret, const atomic_uint *beats, ea_err *err);
void ea_watchdog_set(ea_watchdog *w, int64_t limit_ns);
void ea_watchdog_stop(ea_watchdog *w); /* NULL is allowed; frees it */

#endif
