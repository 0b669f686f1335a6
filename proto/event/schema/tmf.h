/* Trace message format files (.tmf: what a WPP program's PDB says of its messages, as text) into schemas: one event a
 * message, by the message GUID and number, with the text of the message. Input: a file. Output: schemas.h. Thread: any.
 */
#ifndef EA_EVENT_SCHEMA_TMF_H
#define EA_EVENT_SCHEMA_TMF_H

#include "proto/event/schemas.h"

typedef struct ea_tmf_result {
    size_t messages; /* described */
    size_t problems; /* lines that were not understood; the first one is reported */
    unsigned long first_line;
    char first_problem[160];
} ea_tmf_result;

enum { EA_TMF_MAX_BYTES = 64 << 20 };

/* Reads a file's text and adds its messages; a message with a mistake is skipped and counted. When the size of a
 * field's kind is unknown, the field and all fields after it become one field of bytes. file: the origin, for `schema`.
 * Errors: EA_EFORMAT when there is no message in the file, EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ea_tmf_read(ea_schemas *into, const char *file, const void *data, size_t len_bytes,
                              ea_tmf_result *ret, ea_err *err);

/* Reads a file; the first mistake is the error: EA_EFORMAT with "FILE:LINE: what". */
EA_MUST_CHECK int ea_tmf_load(ea_schemas *into, const char *path, ea_err *err);

#endif
