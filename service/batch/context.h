/* What a small batch names and does not say: the shapes of its groups, its sources, a dictionary, and the context that
 * lists them all under one name. FORMAT.md, "Contexts". Called by: encoder.c, with the groups as they are written.
 * Output: the batch's message. Thread: the encoder's. */
#ifndef EA_BATCH_CONTEXT_H
#define EA_BATCH_CONTEXT_H

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/wire/batch.pb-c.h"
#include "service/batch/acked_definitions.h"
#include "service/batch/open_batch.h"

enum { EA_CONTEXT_SOURCES = 64 }; /* a batch of more sources has no context */

/* From batch to batch: the shapes that were named so far, so that few contexts do for a stream. */
typedef struct ea_context_writer {
    ea_u64_map index; /* a shape's name -> its place, and 1 */
    uint8_t *shapes;  /* their names */
    uint32_t count;
    uint8_t *packed; /* the Context message, EA_CONTEXT_ROOM bytes */
    size_t packed_bytes;
    uint8_t hash[EA_CLASS_HASH_BYTES]; /* of it */
} ea_context_writer;

/* What one batch names. */
typedef struct ea_shapes {
    uint8_t (*hashes)[EA_CLASS_HASH_BYTES]; /* one a group */
    ProtobufCBinaryData *packed;
    uint32_t count; /* 0: they cannot be named */
} ea_shapes;

EA_MUST_CHECK int ea_context_writer_init(ea_context_writer *w, ea_err *err);
void ea_context_writer_deinit(ea_context_writer *w);

/* What differs from the class and from the group before, and the group's header as it is. *ret_header stays NULL when
 * nothing does. EA_ENOMEM. */
EA_MUST_CHECK int ea_group_header(ea_arena *arena, const ea_open_group *g, const ea_record *before,
                                  Etwagent__V1__Header **ret_header, ea_record *ret);
/* What the groups' events have in common with those of other batches, as Shape messages with their hashes. EA_ENOMEM,
 * EA_ECRYPTO. */
EA_MUST_CHECK int ea_shapes_make(ea_arena *arena, const ea_open_batch *o, const ea_open_group *const *groups,
                                 uint32_t count, ea_shapes *ret);

/* Puts the context's name into the batch, with it and its definitions where the collector may lack them. b->sources has
 * all sources. dictionary: its hash as it is named, 0: none. known NULL: the collector has nothing. EA_ENOMEM,
 * EA_ECRYPTO. */
EA_MUST_CHECK int ea_context_put(ea_context_writer *w, ea_arena *arena, const ea_shapes *shapes, uint64_t dictionary,
                                 uint32_t priority, ea_acked_definitions *known, Etwagent__V1__Batch *b);

#endif
