/* The decoder of payloads that fields cannot describe and a plug-in's function parses. The resulting record has the
 * function's values before the payload that Windows logged, and a class with these fields. A reader without the plug-in
 * and without tables reads it like any other record; ea_class_logged returns the original payload.
 * Called by: decoder.c, cmd_dump.c. Calls: a registry, schemas.h. Thread: its owner's. */
#ifndef EA_DECODE_PLUGIN_DECODE_H
#define EA_DECODE_PLUGIN_DECODE_H

#include "proto/event/schemas.h"

typedef struct ea_plugin_decoder ea_plugin_decoder;

/* registry, schemas: borrowed; the registry asks these schemas. */
EA_MUST_CHECK int ea_plugin_decoder_create(ea_plugin_decoder **ret, ea_registry *registry, ea_schemas *schemas,
                                           ea_err *err);
void ea_plugin_decoder_destroy(ea_plugin_decoder *u); /* NULL is allowed */

/* 1 when a plug-in decodes records of class c. */
int ea_plugin_decodes(ea_plugin_decoder *u, const ea_class *c);
/* c: the record's class. If a plug-in decodes such records, returns the decoded record's class and sets *record to the
 * decoded record, which is valid until the next call. Otherwise, and when the plug-in cannot read this record, returns
 * c. The function's values must match the class's fields exactly; with the payload they have 65,535 bytes at the most.
 */
const ea_class *ea_plugin_decoder_run(ea_plugin_decoder *u, const ea_record **record, const ea_class *c);

/* The number of events that a plug-in could not read. */
uint64_t ea_plugin_decoder_failures(const ea_plugin_decoder *u);

#endif
