/* Schema cache files: what manifests and PE files describe, read once and kept in a form that loads at once. Input: a
 * file. Output: schemas.h. Thread: any.
 *
 * Little-endian: "EASCHEMA", u32 version (1), u32 number of providers, u32 number of schemas, u32 0, u64 bytes of what
 * follows, u64 XXH3 of what follows, with the two
 * numbers as its seed. Then each provider: GUID, its name, origin and message, its keywords and its levels
 * (u32 number, each u64 value and a text); then each schema: u32 bytes and its description (DESCRIPTIONS.md), in the
 * order of their bytes, so that the same schemas make the same file. A text is u32 bytes, the bytes, and a NUL. */
#ifndef EA_EVENT_SCHEMA_CACHE_H
#define EA_EVENT_SCHEMA_CACHE_H

#include "proto/event/schemas.h"

enum { EA_SCHEMA_CACHE_MAGIC_BYTES = 8 };

/* 1 when the bytes begin as a cache file's. */
int ea_schema_cache_is(const void *data, size_t len_bytes);
/* Adds the contents of the file to this layer. The checksum is verified first; all data after it are checked, too.
 * Errors: EA_EFORMAT, EA_EUNSUPPORTED (of a newer version), EA_ECORRUPT, EA_ELIMIT, EA_ENOMEM, with the file's name. */
EA_MUST_CHECK int ea_schema_cache_read(ea_schemas *into, const char *file, const void *data, size_t len_bytes,
                                       enum ea_schema_layer layer, size_t *ret_events, ea_err *err);
/* Appends a file with all schemas of a layer and their providers. EA_ENOMEM. */
EA_MUST_CHECK int ea_schema_cache_write(const ea_schemas *from, enum ea_schema_layer layer, ea_text *out, ea_err *err);

#endif
