/* Definitions: what a batch only names, by the first bytes of a hash, and where it is found. FORMAT.md, "Definitions",
 * is the specification. Input: envelope.c's walk. Used by: wire.h's functions on bytes, view.c. Thread: any; everything
 * belongs to its caller. */
#ifndef EA_WIRE_DEFINITIONS_H
#define EA_WIRE_DEFINITIONS_H

#include "proto/wire/envelope.h"

/* A definition that a batch holds; data is borrowed from it. */
typedef struct ea_own_definition {
    uint8_t hash[EA_CLASS_HASH_BYTES];
    const uint8_t *data;
    size_t len_bytes;
} ea_own_definition;

/* All definitions of one kind in a batch, by hash. count: how many fields of that kind it has. list: room for them. */
EA_MUST_CHECK int ea_own_definitions(ea_own_definition *list, size_t count, enum ea_definition_kind kind,
                                     const uint8_t *batch, size_t len_bytes, ea_err *err);
/* The only one whose hash begins so: 1; 0 none; EA_ECORRUPT several. */
int ea_own_definitions_find(const ea_own_definition *list, size_t count, const uint8_t *ref, size_t ref_bytes,
                            const ea_own_definition **ret);

/* The name of a group's shape; *at begins with e->shape_indexes, and each call moves it by one group. 1 and the name, 0
 * after the last group, EA_ECORRUPT. */
int ea_context_next_shape(const ea_context *c, const ea_envelope *e, const uint8_t **at, const uint8_t **ret_name);

EA_MUST_CHECK int ea_envelope_read(ea_envelope *ret, const uint8_t *batch, size_t len_bytes, ea_err *err);

/* The bytes are borrowed. */
struct ea_batch {
    ea_envelope envelope;
    const uint8_t *data;
    size_t len_bytes;
};

/* Appends a field of bytes to a message. */
void ea_pb_put_bytes(ea_text *out, uint32_t number, const void *data, size_t len_bytes);

#endif
