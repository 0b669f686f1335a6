/* Symbols for a profile that is asked for over HTTP: named in a process of its own, which waits for disks, symbol
 * servers and llvm-symbolizer, and reads PDBs, whatever is in them. It ends with the question, and in any case at its
 * time limit; what has no name by then keeps its offset.
 * Before it: flame.c. After it: collector/symbols, in the child. Thread: the one that asks.
 *
 * The child gets frames on its standard input and answers with frames on its standard output: a letter, the length
 * (u32, little-endian), so many bytes. In: O (options), then M (a module and its addresses) again and again. Out, for
 * each M: S (a symbol) for each address, in their order, then E (an error's code and text; code 0: none). */
#ifndef EC_WEB_CLERK_H
#define EC_WEB_CLERK_H

#include "symbols.h"

#include <stdatomic.h>

#define EC_CLERK_NAME "symbol-clerk"

typedef struct ec_clerk ec_clerk;

/* Starts the child. deadline_ns: of the monotonic clock; stop: looked at now and then; both are borrowed until the end,
 * as the options' strings are during the call. */
EA_MUST_CHECK int ec_clerk_start(ec_clerk **ret, const ec_symbols_options *options, int64_t deadline_ns,
                                 atomic_int *stop, ea_err *err);
/* As ec_symbols_resolve. EA_ETIMEOUT: its time is over; then there is no answer to any further question. */
EA_MUST_CHECK int ec_clerk_resolve(ec_clerk *c, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                                   ec_symbol_fn fn, void *arg, ea_err *err);
/* Ends the child. NULL is allowed. */
void ec_clerk_end(ec_clerk *c);

/* The child's main(): returns its exit code. */
int ec_clerk_main(void);

#endif
