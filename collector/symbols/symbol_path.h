/* The syntax of _NT_SYMBOL_PATH: where symbol files are looked for, and where they are cached.
 * Called by: symbol_cache.c, symbol_confine.c. Reads: an option's text, the environment. Thread: its owner's.
 *
 *   srv*STORE...*STORE   a chain: each store is looked into in turn, and what the later ones have is kept in the
 *                        earlier ones. The last may be a server (http:, https:). An empty store is the default cache,
 *                        which also precedes a chain that is only a server.
 *   srv*                 the default cache, then Microsoft's own server.
 *   symsrv*DLL*STORE...  the same as srv*STORE...
 *   cache*FOLDER         precedes everything to its right; cache* is the default cache.
 *   FOLDER               holds files by their names alone, also in its subfolders symbols/EXT and EXT (pdb, dll ...);
 *                        where a file pingme.txt says that it is a store, it is one, too.
 *   ;                    separates them.
 * Source: Microsoft, "Symbol path for Windows debuggers", "Advanced SymSrv use", "Using SymSrv", ".symfix".
 */
#ifndef EC_SYMBOLS_SYMBOL_PATH_H
#define EC_SYMBOLS_SYMBOL_PATH_H

#include "proto/base/err.h"

#include <stddef.h>

enum { EC_SYMBOL_ELEMENTS_MAX = 64, EC_SYMBOL_STORES_MAX = 10, EC_SYMBOL_PATH_MAX = 65536 };

enum ec_event_position_kind {
    EC_PLACE_STORE,  /* a folder in the layout NAME/KEY/NAME */
    EC_PLACE_SERVER, /* the same over HTTP */
    EC_PLACE_FOLDER, /* files by their names alone */
};

typedef struct ec_symbol_place {
    enum ec_event_position_kind kind;
    const char *where; /* without a slash at its end; borrowed from the path */
} ec_symbol_place;

/* Places of one element, caches first. */
typedef struct ec_chain {
    ec_symbol_place places[EC_SYMBOL_STORES_MAX];
    size_t count;
} ec_chain;

typedef struct ec_symbol_path {
    ec_chain chains[EC_SYMBOL_ELEMENTS_MAX];
    size_t count;
    char *text; /* what the places point to */
} ec_symbol_path;

/* Reads a path. default_cache: a folder; borrowed as long as the path lives. EA_EUSAGE says which element is wrong. */
EA_MUST_CHECK int ec_symbol_path_init(ec_symbol_path *ret, const char *text, const char *default_cache, ea_err *err);
void ec_symbol_path_deinit(ec_symbol_path *p);

#endif
