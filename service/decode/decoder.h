/* The decoding step: which class a record is of, and whether its payload can be understood whole. Input:
 * service/source. Used by: service/core/pipeline.c. Thread: the source's; one decoder belongs to one source. */
#ifndef EA_DECODE_DECODER_H
#define EA_DECODE_DECODER_H

#include "proto/base/counters.h"
#include "proto/event/event.h"
#include "proto/event/schemas.h"
#include "service/decode/schema_resolver.h"

typedef struct ea_decoder ea_decoder;

/* schemas: the schemas that the registry searches after its own tables, and to which the schemas of records are added;
 * borrowed; NULL: its own. ask: resolves unknown schemas, asynchronously; copied; NULL: none. */
EA_MUST_CHECK int ea_decoder_create(ea_decoder **ret, ea_schemas *schemas, const ea_schema_lookup *ask, ea_err *err);
void ea_decoder_destroy(ea_decoder *d); /* NULL is allowed */

/* First adds the schemas that the record brings along, for the records after it. Then returns the record's class: never
 * NULL, valid until the decoder is destroyed. *in_out: the record; a record that a plug-in decodes (plugin_decode.h) is
 * replaced by the decoded one, which is valid until the next call. *ret_outcome is EA_COUNT_decode_whole,
 * EA_COUNT_decode_partial or EA_COUNT_decode_unknown. A class whose fields are all fixed costs one look-up and one
 * comparison; another is split once. */
const ea_class *ea_decoder_find(ea_decoder *d, const ea_record **in_out, enum ea_counter *ret_outcome);
/* Events that a plug-in was asked about and could not read; they are of no known class. */
uint64_t ea_decoder_unread(const ea_decoder *d);

#endif
