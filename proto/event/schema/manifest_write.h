/* Writes an instrumentation manifest (.man) out of a short description of one provider's events. The description is
 * JSON lines. The first one is of the provider:
 *
 *   provider         needed; its name
 *   guid             when absent, EventSource and TraceLogging make it of the name, and so does this
 *
 * and each further one of an event:
 *
 *   id, name         needed; the name is that of the task, or "Task/Opcode"
 *   version, level, keyword   0, 4 (information) and 0 when absent; levels to 5; a mask of the lower 48 bits
 *   message          what people are shown, with %1, %2, ... for fields
 *   fields           an object of names and types: "UInt32", "UnicodeString", "UInt32 PID", as eventman.xsd has them
 *                    without their prefixes; Binary needs a length, so CountedBinary stands for it
 *
 * Input: bytes of a file. Called by: "etwagent schema compile --man". Thread: any. */
#ifndef EA_EVENT_SCHEMA_MANIFEST_WRITE_H
#define EA_EVENT_SCHEMA_MANIFEST_WRITE_H

#include "proto/base/err.h"
#include "proto/base/text.h"

/* Appends the manifest to out. name: of the file, for messages; resources: the program or library that will have the
 * compiled manifest; NULL: the provider's name and ".dll". EA_EFORMAT with "FILE:LINE: what"; EA_ELIMIT, EA_ENOMEM,
 * EA_ECRYPTO. */
EA_MUST_CHECK int ea_manifest_write(const char *name, const char *text, size_t len_bytes, const char *resources,
                                    ea_text *out, ea_err *err);

#endif
