/* llvm-symbolizer as a child process: function, file, line and inline frames of an address of a PDB. Called by:
 * symbols.c, after pdb.h has found that the file is the right one. Thread: its owner's; a call waits for the child, so
 * never one that others wait for.
 *
 * One child reads one PDB, which may be hostile: what it does to the child, no other file sees. The child is held by
 * limits of memory and CPU time and by a deadline for each answer; it is niced, has an empty environment, no terminal
 * and only the descriptors of its question. One that dies, hangs or talks nonsense is replaced, three times a file;
 * then the file's other addresses go without. It ends with its standard input, so with its parent. */
#ifndef EC_SYMBOLS_SYMBOLIZER_H
#define EC_SYMBOLS_SYMBOLIZER_H

#include "collector/symbols/pdb.h"
#include "collector/symbols/symbolizer_answer.h"

typedef struct ec_symbolizer_options {
    const char *program;  /* borrowed; looked up in PATH when it has no slash */
    int64_t limit_ns;     /* of one answer; 0: 30 s */
    uint64_t limit_bytes; /* the child's address space; 0: 4 GiB */
} ec_symbolizer_options;

typedef struct ec_symbolizer ec_symbolizer;

/* A child for the PDB at path, which pdb has read (ec_pdb_load). Borrows options and pdb until the destroy.
 * EA_ENOTFOUND: there is no such program. */
EA_MUST_CHECK int ec_symbolizer_create(ec_symbolizer **ret, const ec_symbolizer_options *options, const ec_pdb *pdb,
                                       const char *path, ea_err *err);
void ec_symbolizer_destroy(ec_symbolizer *s); /* NULL is allowed */

/* The frames of rva; none when nothing is known. EA_ETIMEOUT, EA_EIO (it died), EA_EFORMAT, EA_EREFUSED: this address
 * has no answer, the next one may have. EA_ELIMIT: no child is tried any more for this file. */
EA_MUST_CHECK int ec_symbolizer_ask(ec_symbolizer *s, uint32_t rva, ec_frames *ret, ea_err *err);

#endif
