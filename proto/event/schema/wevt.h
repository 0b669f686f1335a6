/* Compiled manifests: the WEVT_TEMPLATE resource that the message compiler puts into a provider's DLL, with the texts
 * of message tables beside it, into schemas, as manifest.c makes them out of the manifest itself. Input: a file.
 * Output: schemas.h. Thread: any. Source of the layout: libyal/libfwevt, documentation/Windows Event manifest binary
 * format; maps, structs, counts and flags: microsoft/EventLogExpert, WevtTemplateReader and WevtTemplateWriter. */
#ifndef EA_EVENT_SCHEMA_WEVT_H
#define EA_EVENT_SCHEMA_WEVT_H

#include "proto/event/schema/manifest.h"

/* Reads a PE file and adds its schemas. mui: its language file (NULL: none). The texts of the language file take
 * precedence, and its WEVT_TEMPLATE is read when the PE file has none. Problems have no line; their text has the offset
 * in the resource. Of names, the compiled form lacks the events' symbols: an event without a task has none.
 * Errors: EA_EFORMAT when the data are no PE file or it has no such resource, EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ea_wevt_read(ea_schemas *into, const void *data, size_t len_bytes, const void *mui, size_t mui_bytes,
                               const ea_manifest_options *options, ea_manifest_result *ret, ea_err *err);

#endif
