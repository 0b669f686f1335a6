/* One generated trace with its truth: scenario, machine and writer put together. Called by: the commands (main.c,
 * fleet.c). Calls: model.h, trace_out.h, truth.h. Thread: any; the scenario is only read. */
#ifndef EA_TESTS_TRACEGEN_MAKE_H
#define EA_TESTS_TRACEGEN_MAKE_H

#include "proto/base/err.h"
#include "tests/tracegen/scenario.h"

#include <stddef.h>
#include <stdint.h>

enum { TG_DURATION_MAX_MS = 86400000 };

typedef struct tg_make_options {
    const tg_scenario *scenario; /* shared by many */
    const char *preset;          /* what it is called */
    uint64_t seed;
    int compress;
    int64_t start_filetime;  /* when the trace begins; 0: the preset's date. Raw times do not depend on it */
    const char *out, *truth; /* NULL: not written */
} tg_make_options;

typedef struct tg_made {
    uint64_t events;
    size_t processes;
} tg_made;

/* Writes the trace and its truth. */
EA_MUST_CHECK int tg_make(const tg_make_options *o, tg_made *ret, ea_err *err);

#endif
