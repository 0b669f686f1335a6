/* Resources of PE files (exe, dll, mui): their places, and the texts of message tables.
 * Called by proto/event/schema/wevt.c. Calls pe_headers.h. Thread: any.
 * Source of the layouts: Microsoft's "PE Format" and winnt.h (IMAGE_*, MESSAGE_RESOURCE_*). */
#ifndef EA_IMAGE_PE_RESOURCES_H
#define EA_IMAGE_PE_RESOURCES_H

#include "proto/base/map.h"
#include "proto/base/text.h"
#include "proto/image/pe_headers.h"

typedef struct ea_pe {
    const uint8_t *data; /* borrowed */
    size_t len_bytes;
    ea_pe_image image;
    size_t resources;      /* offset of the root directory */
    size_t resource_bytes; /* from there to the section's end in the file; 0: the file has no resources */
} ea_pe;

typedef struct ea_pe_resource {
    const uint8_t *data;
    size_t len_bytes;
    uint16_t language; /* LANGID */
} ea_pe_resource;

enum { EA_PE_MESSAGE_TABLE = 11, EA_PE_RESOURCES_MAX = 256 };

/* Both forms, PE32 and PE32+, with or without resources. data: borrowed; name: for messages. Errors: those of
 * ea_pe_image_read; EA_EFORMAT: the resources lie outside the file. */
EA_MUST_CHECK int ea_pe_open(ea_pe *ret, const void *data, size_t len_bytes, const char *name, ea_err *err);

/* The resources of a type, whatever their name and language, in the file's order: by name (NULL: by number). Those that
 * do not lie inside the file are left out and counted in *ret_damaged. Returns how many are in ret. */
size_t ea_pe_resources(const ea_pe *pe, const char *type_name, uint16_t type, ea_pe_resource ret[EA_PE_RESOURCES_MAX],
                       size_t *ret_damaged);

/* Notes the place of each text of a message table, by number; an existing entry of a number stays. Stops where the
 * table is damaged. EA_ENOMEM. */
EA_MUST_CHECK int ea_messages_add(ea_u64_map *messages, const ea_pe_resource *table);
/* Appends the text of that number as UTF-8, without the line's end after it: 1, or 0. */
int ea_messages_get(const ea_u64_map *messages, uint32_t number, ea_text *out);

#endif
