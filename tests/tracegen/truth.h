/* The truth beside a generated trace, as JSON lines: every process, thread and module with its interval, the events of
 * each class, the machine. What a reader makes of the trace is judged by it.
 * Before it: a machine that has run. After it: tests. Thread: its owner's. */
#ifndef EA_TRACEGEN_TRUTH_H
#define EA_TRACEGEN_TRUTH_H

#include "model.h"

typedef struct tg_truth_head {
    const char *preset;
    uint64_t seed;
    int64_t start_raw, end_raw;
} tg_truth_head;

/* Writes path. A line's "type" is machine, process, thread, module, class or totals. Times are raw ticks and ns since
 * 1970; null: before the trace, or not in it. Addresses are in hex. */
EA_MUST_CHECK int tg_truth_write(const char *path, const tg_machine *m, const tg_trace *trace,
                                 const tg_truth_head *head, ea_err *err);

#endif
