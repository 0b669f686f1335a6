/* Names of a profile's places, out of symbols, wherever those are found: here or by a symbol worker. Called by: the
 * command profile, profile_worker.c. Calls: collector/symbols. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_PROFILE_NAMES_H
#define EC_QUERY_ANALYSIS_PROFILE_NAMES_H

#include "collector/query/analysis/profile.h"
#include "collector/symbols/symbols.h"

/* As ec_symbols_resolve, of source. */
typedef int (*ec_resolve_fn)(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                             ec_symbol_fn fn, void *arg, ea_err *err);

typedef struct ec_profile_names {
    ec_resolve_fn resolve;
    void *source;
    /* of the call at hand */
    ec_profile_named_fn put;
    void *put_arg;
    size_t next; /* symbols come in the order in which they were asked for */
} ec_profile_names;

/* An ec_profile_namer's function; its arg is an ec_profile_names. */
EA_MUST_CHECK int ec_profile_name_places(void *arg, const ec_profile_module *module, const uint32_t *offsets,
                                         size_t count, ec_profile_named_fn put, void *put_arg, ea_err *err);

#endif
