/* Symbols for a profile that is asked for over HTTP: named in a process of its own, which waits for disks, symbol
 * servers and llvm-symbolizer, and reads PDBs, whatever is in them. It ends with the question, and in any case at its
 * time limit; what has no name by then keeps its offset.
 * Before it: profile_worker.c, whose parent starts the clerk and whose child talks to it. After it: collector/symbols,
 * in the clerk. Thread: the one that asks.
 *
 * Messages (message.h), in: O (options), then M (a module and its addresses) again and again. Out, for each M: S (a
 * symbol) for each address, in their order, then E (an error's code and text; code 0: none). */
#ifndef EC_WEB_CLERK_H
#define EC_WEB_CLERK_H

#include "collector/sandbox/broker.h"
#include "collector/symbols/symbols.h"

#include <sys/types.h>

#define EC_CLERK_NAME "symbol-clerk"

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
/* Ends it, and waits for it. */
void ec_symbol_worker_end(ec_symbol_worker_process *p);

/* Who asks: over both descriptors, which stay the caller's. */
typedef struct ec_symbol_worker ec_symbol_worker;
EA_MUST_CHECK int ec_symbol_worker_open(ec_symbol_worker **ret, int in, int out, int64_t deadline_ns, ea_err *err);
/* As ec_symbols_resolve. EA_ETIMEOUT: its time is over; then there is no answer to any further question. */
EA_MUST_CHECK int ec_symbol_worker_resolve(ec_symbol_worker *c, const ec_symbol_module *module, const uint32_t *rvas,
                                           size_t count, ec_symbol_fn fn, void *arg, ea_err *err);
void ec_symbol_worker_close(ec_symbol_worker *c); /* NULL is allowed */

/* The process's main(): returns its exit code. */
int ec_symbol_worker_main(void);

#endif
