/* What the program of a process was called when an event came, by the history of its machine (DIR/state.db). Called by:
 * sink.c. Calls: collector/state. Thread: its owner's. */
#ifndef EC_SINK_SINK_PROCESS_H
#define EC_SINK_SINK_PROCESS_H

#include "collector/sink/outbox.h"
#include "proto/base/text.h"

typedef struct ec_sink_process ec_sink_process;

/* A store without a history: nothing is known. dir: borrowed until close. */
EA_MUST_CHECK int ec_sink_process_open(ec_sink_process **ret, const char *dir, ea_err *err);
void ec_sink_process_close(ec_sink_process *p); /* NULL is allowed */
/* Events of this batch follow: nothing of the batch before is remembered. 1: its history is complete, 0: it is not yet.
 */
EA_MUST_CHECK int ec_sink_process_begin(ec_sink_process *p, const ec_outbox_batch *batch, ea_err *err);
/* The name; NULL: it is not known. Borrowed until the next call. */
EA_MUST_CHECK int ec_sink_process_name(ec_sink_process *p, uint32_t pid, int64_t utc_ns, const char **ret, ea_err *err);

#endif
