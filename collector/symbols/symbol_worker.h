/* Finds the symbols of a profile for an HTTP request, or of a statement of SQL, in a child process, the symbol worker.
 * It waits for disks, symbol servers and llvm-symbolizer, and reads PDBs, which may be hostile. It ends with the
 * request, and at its time limit at the latest; an address without a name by then is shown as an offset. Called by:
 * collector/web/profile_worker.c and collector/query/sql (ask.c, worker.c), whose parent starts the worker and whose
 * child sends it requests. Calls, in the worker: symbols.h. Thread: the caller's.
 *
 * Messages (message.h), in: O (options), then M (a module and its addresses) repeatedly. Out, for each M: S (a
 * symbol) for each address, in their order, then E (an error's code and text; code 0: none). */
#ifndef EC_SYMBOLS_SYMBOL_WORKER_H
#define EC_SYMBOLS_SYMBOL_WORKER_H

#include "collector/sandbox/broker.h"
#include "collector/symbols/symbols.h"

#include <sys/types.h>

#define EC_SYMBOL_WORKER_NAME "symbol-worker"

/* The process, and this side of its standard input and output. */
typedef struct ec_symbol_worker_process {
    pid_t pid;
    int in, out;
} ec_symbol_worker_process;

/* Starts it. limit_ns: its time. The options' strings are borrowed during the call. */
EA_MUST_CHECK int ec_symbol_worker_start(ec_symbol_worker_process *ret, const ec_symbols_options *options,
                                         ec_broker *broker, int64_t limit_ns, ea_err *err);
/* Gives up this side of its pipes; who else has them, goes on. */
void ec_symbol_worker_leave(ec_symbol_worker_process *p);
/* Closes this side of its pipes; another process that has them continues. */
void ec_symbol_worker_end(ec_symbol_worker_process *p);

/* The caller's side, over both descriptors, which stay the caller's. */
typedef struct ec_symbol_worker ec_symbol_worker;
EA_MUST_CHECK int ec_symbol_worker_open(ec_symbol_worker **ret, int in, int out, int64_t deadline_ns, ea_err *err);
/* As ec_symbols_resolve. EA_ETIMEOUT: its time is over; then there is no answer to any further question. */
EA_MUST_CHECK int ec_symbol_worker_resolve(ec_symbol_worker *c, const ec_symbol_module *module, const uint32_t *rvas,
                                           size_t count, ec_symbol_fn fn, void *arg, ea_err *err);
void ec_symbol_worker_close(ec_symbol_worker *c); /* NULL is allowed */

/* The process's main(): returns its exit code. */
int ec_symbol_worker_main(void);

#endif
