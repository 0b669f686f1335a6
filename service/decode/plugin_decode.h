/* Unfolding: payloads that fields cannot describe, which a plug-in's function takes apart. The record that goes on has
 * the function's values in front of the payload that Windows logged, and a class whose fields say so; who has neither
 * plug-in nor tables reads it like any other, and ea_class_logged gives the payload back.
 * Before it: a registry, schemas.h. After it: service/batch, printing. Thread: its owner's. */
#ifndef EA_DECODE_UNFOLD_H
#define EA_DECODE_UNFOLD_H

#include "proto/event/schemas.h"

typedef struct ea_plugin_decoder ea_plugin_decoder;

/* registry, schemas: borrowed; the registry asks these schemas. */
EA_MUST_CHECK int ea_plugin_decoder_create(ea_plugin_decoder **ret, ea_registry *registry, ea_schemas *schemas,
                                           ea_err *err);
void ea_plugin_decoder_destroy(ea_plugin_decoder *u); /* NULL is allowed */

/* 1 when a plug-in unfolds records of class c. */
int ea_plugin_decodes(ea_plugin_decoder *u, const ea_class *c);
/* c: the record's class. When a plug-in unfolds such records: the unfolded one's class, with *record made to point to
 * the unfolded record, which is valid until the next call. Else, and when the plug-in cannot read this one, c. A
 * function's values must be exactly what the class's fields say, and with the payload 65,535 bytes at most. */
const ea_class *ea_plugin_decoder_run(ea_plugin_decoder *u, const ea_record **record, const ea_class *c);

/* Events that a plug-in was asked about and could not read. */
uint64_t ea_plugin_decoder_failures(const ea_plugin_decoder *u);

#endif
