/* One generated trace with its truth: scenario, machine and writer put together.
 * Before it: the commands (main.c, fleet.c). After it: model.h, trace_out.h, truth.h. Thread: any; nothing is shared.
 */
#ifndef EA_TRACEGEN_MAKE_H
#define EA_TRACEGEN_MAKE_H

#include "err.h"

#include <stddef.h>
#include <stdint.h>

enum { TG_DURATION_MAX_MS = 86400000 };

typedef struct tg_make_options {
    const char *preset; /* or the path of a scenario.yaml */
    uint64_t seed;
    uint32_t duration_ms; /* 0: the preset's */
    int compress;
    int64_t start_filetime;  /* when the trace begins; 0: the preset's date. Raw times do not depend on it */
    const char *out, *truth; /* NULL: not written */
} tg_make_options;

typedef struct tg_made {
    uint64_t events;
    size_t processes;
} tg_made;

/* Writes the trace and its truth. EA_EUSAGE for a preset that there is not. */
EA_MUST_CHECK int tg_make(const tg_make_options *o, tg_made *ret, ea_err *err);

#endif
