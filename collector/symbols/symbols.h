/* Symbols: what an address of a module is called, and where in the source it is. Input: a module's identity, from its
 * events (collector/state) or a file. Used by: a command that prints. Thread: its owner's; a call waits for disks,
 * servers and child processes, so it belongs into a process that asks (symbols, where, profile), never on a thread of
 * ingest.
 *
 * The way: kept results; the PDB from the cache or the symbol path, whose GUID and age must be the module's; a child
 * llvm-symbolizer for lines and inline frames; what the child has no answer for is named by the PDB's own records. */
#ifndef EC_SYMBOLS_SYMBOLS_H
#define EC_SYMBOLS_SYMBOLS_H

#include "collector/symbols/symbol_cache.h"
#include "collector/symbols/symbolizer.h"

typedef struct ec_symbols_options {
    const char *path;   /* symbol path; NULL: none */
    const char *folder; /* the cache's; made when it is missing */
    int has_lines;      /* ask a symbolizer for files, lines and inline frames */
    ec_symbolizer_options symbolizer;
    uint64_t limit_file_bytes;   /* of a file that is fetched; 0: 2 GiB */
    uint64_t limit_cache_bytes;  /* of the files in the cache; 0: 20 GiB */
    size_t limit_absent;         /* of the cache's marks that a server lacked a file; 0: 65,536 */
    uint64_t limit_result_bytes; /* of the kept results; 0: 512 MiB */
    int64_t limit_age_ns;        /* since something in the cache was used; 0: 90 days */
    int64_t absent_ns;           /* how long "no such file" of a server holds; 0: a day */
    int64_t failure_ns;          /* how long a server that failed is left alone, for that file; 0: 5 minutes */
    int64_t timeout_ns;          /* of a file from a server; 0: 10 minutes */
    int64_t idle_ns;             /* of a server's silence; 0: 10 s */
    int64_t pause_ns;            /* before a server is asked again; 0: 500 ms, then twice as long */
} ec_symbols_options;

/* What is known of a module. A PDB's name may be a path, as linkers write it; its last part counts. */
typedef struct ec_symbol_module {
    const char *pdb_name; /* NULL or "": unknown; then the image is looked for, which says it */
    ec_pdb_id pdb;
    const char *image_name;
    uint32_t timestamp, size_bytes; /* of the image; 0: unknown */
} ec_symbol_module;

typedef struct ec_symbol {
    uint32_t rva;
    const ec_frame *frames; /* the innermost first; valid during the call */
    size_t frame_count;     /* 0: nothing is known of this address */
    uint32_t offset_bytes;  /* from the beginning of the last frame's function, when has_offset */
    int has_offset;
} ec_symbol;

/* Called for each address in the order of the request; a result other than 0 ends the call and is returned. */
typedef int (*ec_symbol_fn)(void *arg, const ec_symbol *symbol);

typedef struct ec_symbols ec_symbols;

/* Strings of options are borrowed until the close. EA_EUSAGE: the symbol path is wrong. */
EA_MUST_CHECK int ec_symbols_open(ec_symbols **ret, const ec_symbols_options *options, ea_err *err);
void ec_symbols_close(ec_symbols *s); /* NULL is allowed */

/* Names count addresses, relative to the module's base. ret_note->code is 0, or says in one line why some of them have
 * no lines although has_lines is set (they are named by the PDB's own records then); may be NULL. Fails when the
 * module's PDB cannot be had, with one line that says why: EA_ENOTFOUND, EA_ECONFLICT (it is another one's),
 * EA_EFORMAT, EA_ETRUNCATED, EA_ECORRUPT, EA_EUNSUPPORTED, EA_ELIMIT, EA_ENET. */
EA_MUST_CHECK int ec_symbols_resolve(ec_symbols *s, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                                     ec_symbol_fn fn, void *arg, ea_err *ret_note, ea_err *err);
/* The same with the PDB in a file of any module: no file is looked for, and no result is kept. */
EA_MUST_CHECK int ec_symbols_resolve_file(ec_symbols *s, const char *pdb_path, const uint32_t *rvas, size_t count,
                                          ec_symbol_fn fn, void *arg, ea_err *ret_note, ea_err *err);

/* "3844DBB920174967BE7AA4A2C20430FA2": the folder of a PDB in a store; out has room for EC_SYMBOL_KEY_MAX + 1. */
void ec_symbol_pdb_key(const ec_pdb_id *id, char *out);
/* The way back: 0, or EA_EFORMAT. */
EA_MUST_CHECK int ec_symbol_pdb_key_parse(const char *key, ec_pdb_id *ret);

#endif
