/* The remaining rights of processes around symbols: llvm-symbolizer, which reads hostile PDBs, and the process that
 * fetches them. Called by: symbolizer.c between fork and exec; collector/web's symbol worker. Calls: sandbox.h. Thread:
 * the caller's. */
#ifndef EC_SYMBOLS_SYMBOL_CONFINE_H
#define EC_SYMBOLS_SYMBOL_CONFINE_H

#include "collector/sandbox/sandbox.h"
#include "collector/symbols/symbols.h"

enum { EC_PROGRAM_PATH_MAX = 4096, EC_SYMBOLIZER_PATHS = 13 };

/* A symbolizer on disk, and what it needs to run. */
typedef struct ec_symbolizer_files {
    char program[EC_PROGRAM_PATH_MAX];                         /* as it is started */
    char real[EC_PROGRAM_PATH_MAX];                            /* without symbolic links */
    char lib[EC_PROGRAM_PATH_MAX], lib64[EC_PROGRAM_PATH_MAX]; /* beside its bin folder; "": it is in none */
    ec_sandbox_path paths[EC_SYMBOLIZER_PATHS];                /* point into this struct, which must not be moved */
    size_t path_count;
} ec_symbolizer_files;

/* Finds a program: by its path, or in PATH when its name has no slash. EA_ENOTFOUND: there is none. */
EA_MUST_CHECK int ec_symbolizer_find(ec_symbolizer_files *ret, const char *program, ea_err *err);

/* Enters a sandbox in which the process can do what ec_symbols_resolve needs with these options: read and write the
 * caches, read the folders of the path, connect when a server is in the path, start the symbolizer when lines are
 * wanted. A file.ptr that points out of these folders is not followed. Errors: as ec_sandbox_enter, EA_EUSAGE (the
 * path), EA_ENOMEM. */
EA_MUST_CHECK int ec_symbols_confine(const ec_symbols_options *options, ea_err *err);

/* What such a sandbox has to allow: the caller, which starts processes that enter it, may itself be confined, and needs
 * at least this. */
typedef struct ec_symbols_needs ec_symbols_needs;
/* options NULL: no symbols are resolved; nothing is needed. Errors: EA_EUSAGE (the path), EA_ENOMEM. */
EA_MUST_CHECK int ec_symbols_needs_open(ec_symbols_needs **ret, const ec_symbols_options *options, ea_err *err);
void ec_symbols_needs_close(ec_symbols_needs *n); /* NULL is allowed */
unsigned ec_symbols_needs_rights(const ec_symbols_needs *n);
const ec_sandbox_path *ec_symbols_needs_paths(const ec_symbols_needs *n, size_t *ret_count);

#endif
