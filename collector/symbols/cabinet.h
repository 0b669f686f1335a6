/* Cabinets with one file, as symbol servers keep a compressed PDB ("ntdll.pd_"): stored or MSZIP. Input: a download.
 * Used by: symbol_cache.c. Thread: any. Sources: Microsoft, [MS-CAB]; [MS-MCI] (MSZIP). */
#ifndef EC_SYMBOLS_CABINET_H
#define EC_SYMBOLS_CABINET_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* 1 when bytes begin as a cabinet does. */
int ec_cabinet_begins(const void *data, size_t len_bytes);
/* Writes the first file of a cabinet to path (not atomically). EA_EUNSUPPORTED: compressed as LZX or Quantum, or spread
 * over several cabinets; EA_ELIMIT: it is larger than max_bytes; EA_ETRUNCATED, EA_ECORRUPT. */
EA_MUST_CHECK int ec_cabinet_extract(const char *cabinet, const char *path, uint64_t max_bytes, ea_err *err);
/* The same of bytes, with what is written handed to put; for tests. name: for messages. */
EA_MUST_CHECK int ec_cabinet_extract_bytes(const char *name, const uint8_t *data, size_t len_bytes, uint64_t max_bytes,
                                           int (*put)(void *arg, const void *data, size_t len_bytes), void *arg,
                                           ea_err *err);

#endif
