/* Reads a PDB file: the identity of its image, and the names of addresses in its own symbol records. Lines and inline
 * frames are left to the symbolizer (symbolizer.h); this reader decides whether the file is the right one, and names
 * functions when there is no symbolizer.
 * Called by: symbols.c, for a file that symbol_cache.h found. Calls: none. Thread: its owner's.
 *
 * The file is untrusted input: it is read in blocks, never mapped; every length is bounded, and a length above its
 * bound is an error with a sentence. Source of the layouts: llvm.org/docs/PDB (MsfFile, PdbStream, DbiStream,
 * ModiStream, PublicStream), microsoft/microsoft-pdb cvinfo.h (PUBSYM32, PROCSYM32, THUNKSYM32, DATASYM32), MSDN OMAP.
 */
#ifndef EC_SYMBOLS_PDB_H
#define EC_SYMBOLS_PDB_H

#include "proto/base/bytes.h"
#include "proto/base/err.h"

#include <stddef.h>

/* What an image's debug directory (RSDS) and a PDB have in common: both must agree. */
typedef struct ec_pdb_id {
    ea_guid guid;
    uint32_t age;
} ec_pdb_id;

typedef struct ec_pdb_symbol {
    const char *name; /* as the file has it: a linker's name, any bytes but NUL; at most 4,095 */
    uint32_t rva;
    uint32_t size_bytes; /* 0: unknown */
} ec_pdb_symbol;

enum { EC_PDB_SECTION_BYTES = 40 }; /* of an IMAGE_SECTION_HEADER */

typedef struct ec_pdb ec_pdb;

/* Opens a file and reads its identity. EA_EFORMAT: no PDB of the form MSF 7.0 (said which, where it is known);
 * EA_ETRUNCATED: it is cut; EA_ECORRUPT; EA_ELIMIT. */
EA_MUST_CHECK int ec_pdb_open(ec_pdb **ret, const char *path, ea_err *err);
/* The same of bytes; borrows data. name: for messages, borrowed during the call. */
EA_MUST_CHECK int ec_pdb_open_bytes(ec_pdb **ret, const char *name, const uint8_t *data, size_t len_bytes, ea_err *err);
void ec_pdb_close(ec_pdb *pdb); /* NULL is allowed */

/* The age is the one of the debug information, which the image has too. */
ec_pdb_id ec_pdb_identity(const ec_pdb *pdb);

/* Reads sections, address maps and symbols; once, before the calls below. EA_EUNSUPPORTED: it has no section headers,
 * so nothing in it has an address. */
EA_MUST_CHECK int ec_pdb_load(ec_pdb *pdb, ea_err *err);
size_t ec_pdb_symbol_count(const ec_pdb *pdb);
/* The symbol that holds rva: 1; 0 when there is none. name is valid until the close. */
int ec_pdb_find(const ec_pdb *pdb, uint32_t rva, ec_pdb_symbol *ret);
/* 1 when rva is inside one of the image's sections. */
int ec_pdb_has_rva(const ec_pdb *pdb, uint32_t rva);

/* The address space of the debug information itself: of an image whose parts were moved after linking (OMAP) it is
 * another than the image's. Section headers of it, EC_PDB_SECTION_BYTES each; and where rva was: 1, or 0 when it
 * corresponds to nothing there. */
const uint8_t *ec_pdb_source_sections(const ec_pdb *pdb, size_t *ret_count);
int ec_pdb_source_rva(const ec_pdb *pdb, uint32_t rva, uint32_t *ret);
uint16_t ec_pdb_machine(const ec_pdb *pdb); /* IMAGE_FILE_MACHINE_* */

#endif
