/* PE images, as far as symbols need them: whose PDB an image wants; and an image without content that stands for the
 * one of a PDB, since llvm-symbolizer finds a PDB only through an image. Input: proto/image, a file. Used by:
 * symbols.c, symbolizer.c. Thread: any. Source of the layouts: Microsoft, "PE Format". */
#ifndef EC_SYMBOLS_PE_IMAGE_H
#define EC_SYMBOLS_PE_IMAGE_H

#include "collector/symbols/pdb.h"
#include "proto/base/text.h"
#include "proto/image/pe.h"

enum { EC_PDB_NAME_MAX = EA_PE_PDB_PATH_MAX };

/* What an image says of itself. */
typedef struct ec_pe_identity {
    uint32_t timestamp, size_bytes; /* of the file's header; the size in memory: what a symbol server files it under */
    ec_pdb_id pdb;
    char pdb_path[EC_PDB_NAME_MAX]; /* as the linker wrote it */
} ec_pe_identity;

/* Reads an image file. EA_EFORMAT: it is none; EA_ETRUNCATED, EA_ECORRUPT; EA_ENOTFOUND: it names no PDB. */
EA_MUST_CHECK int ec_pe_read(const char *path, ec_pe_identity *ret, ea_err *err);

/* Writes the image that stands for the one of pdb (after ec_pdb_load): its machine, its sections without content, and
 * the name of its PDB. pdb_name: a file in the same folder. EA_ELIMIT when its sections leave no room. */
EA_MUST_CHECK int ec_pe_stand_in(ea_text *out, const ec_pdb *pdb, const char *pdb_name, ea_err *err);

#endif
