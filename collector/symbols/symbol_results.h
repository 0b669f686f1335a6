/* What symbolizers have answered, kept in the cache's folder (results.db), so that a question that was asked once costs
 * no PDB and no process again. Called by: symbols.c. Calls: SQLite. Thread: its owner's; several processes may share a
 * file. */
#ifndef EC_SYMBOLS_SYMBOL_RESULTS_H
#define EC_SYMBOLS_SYMBOL_RESULTS_H

#include "collector/symbols/symbolizer_answer.h"

typedef struct ec_symbol_results ec_symbol_results;

/* Opens or makes the file; one that cannot be read is made anew. limit_bytes: of the file; beyond it the modules that
 * were asked for longest ago go, and so do those of limit_age_ns. */
EA_MUST_CHECK int ec_symbol_results_open(ec_symbol_results **ret, const char *path, uint64_t limit_bytes,
                                         int64_t limit_age_ns, ea_err *err);
void ec_symbol_results_close(ec_symbol_results *r); /* NULL is allowed */

/* The number of a module (NAME/KEY) here, which counts as used now. */
EA_MUST_CHECK int ec_symbol_results_module(ec_symbol_results *r, const char *module, int64_t *ret_number, ea_err *err);
/* 1: known, and in f; 0: not; or negative. */
int ec_symbol_results_get(ec_symbol_results *r, int64_t module, uint32_t rva, ec_frames *f, ea_err *err);
EA_MUST_CHECK int ec_symbol_results_put(ec_symbol_results *r, int64_t module, uint32_t rva, const ec_frames *f,
                                        ea_err *err);

#endif
