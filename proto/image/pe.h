/* What a PE image says of itself in its file: when it was linked, how much memory it takes, which PDB is its own, which
 * version it is. Every offset and size comes from the file and is bounded before it is followed. Input: a file, or
 * bytes. Used by: the collector's symbols. Thread: any. Source of the layouts: Microsoft, "PE Format"; VS_VERSIONINFO
 * and VS_FIXEDFILEINFO of the Win32 reference. */
#ifndef EA_IMAGE_PE_H
#define EA_IMAGE_PE_H

#include "proto/base/platform.h"
#include "proto/image/pe_headers.h"
#include "proto/image/pe_imports.h"

enum { EA_PE_PDB_PATH_MAX = 1024, EA_PE_VERSION_TEXT_MAX = 24, EA_PE_STRING_MAX = 256 };

typedef struct ea_pe_facts {
    uint32_t timestamp, size_bytes, checksum; /* of the header; the size in memory */
    uint16_t machine;
    int has_pdb; /* the first RSDS entry of its debug directory */
    ea_guid pdb_guid;
    uint32_t pdb_age;
    char pdb_path[EA_PE_PDB_PATH_MAX]; /* as the linker wrote it, cut */
    int has_version;                   /* 0 too when its version resource cannot be read */
    uint16_t version[4];               /* of the file, as "10.0.19041.1" */
    /* of the first table of strings in its version resource, UTF-8, cut; "" without one */
    char company[EA_PE_STRING_MAX], product[EA_PE_STRING_MAX], original_name[EA_PE_STRING_MAX],
        description[EA_PE_STRING_MAX];
    char imphash[EA_PE_IMPHASH_TEXT]; /* "" when it imports nothing, or its import table is damaged */
} ea_pe_facts;

/* Reads an image; name is for messages. EA_EFORMAT: it is none; EA_ETRUNCATED, EA_ECORRUPT, EA_ELIMIT: its headers or
 * its debug directory are damaged, and *ret has what was read before. */
EA_MUST_CHECK int ea_pe_read(ea_pe_read_fn read, void *arg, const char *name, ea_pe_facts *ret, ea_err *err);
EA_MUST_CHECK int ea_pe_read_file(ea_file *f, const char *name, ea_pe_facts *ret, ea_err *err);
/* "10.0.19041.1"; "" when it has no version. */
void ea_pe_version_text(const ea_pe_facts *facts, char out[EA_PE_VERSION_TEXT_MAX]);

#endif
