/* The import hash of a PE image: MD5 of "library.function,..." in lower case, in the order of its import table, as
 * pefile, YARA and Sysmon make it. The libraries' ".dll", ".sys" and ".ocx" are left out; a function by number is
 * called as the tables of pe_ordinals.c say, "ordN" where they do not. Every offset and size comes from the image and
 * is bounded before it is followed. Called by: pe.c. Thread: any. */
#ifndef EA_IMAGE_PE_IMPORTS_H
#define EA_IMAGE_PE_IMPORTS_H

#include "proto/image/pe_headers.h"

enum {
    EA_PE_IMPHASH_TEXT = 33,
    EA_PE_LIBRARIES_MAX = 4096,
    EA_PE_IMPORTS_MAX = 65536,   /* functions of all libraries */
    EA_PE_IMPORT_NAME_MAX = 512, /* bytes of a name, with its end */
};

/* "" when the image imports nothing. EA_ECORRUPT, EA_ETRUNCATED: the table is damaged; EA_ELIMIT: more names than the
 * limits; EA_ECRYPTO: this system has no MD5. ret is "" then. */
EA_MUST_CHECK int ea_pe_imphash(const ea_pe_image *image, char ret[EA_PE_IMPHASH_TEXT], ea_err *err);

/* The name of a function by number, in lower case; NULL: none is known. library: in lower case, with its ending. */
const char *ea_pe_ordinal_name(const char *library, uint16_t ordinal);

#endif
