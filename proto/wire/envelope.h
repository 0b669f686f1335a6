/* A batch's envelope in place: the walk over a protobuf message, and what the Batch message holds. Nothing is copied or
 * decompressed, and nothing is allocated but single small messages. Input: bytes from a spool, a socket or a store.
 * Used by: definitions.c, view.c. Thread: any. */
#ifndef EA_WIRE_ENVELOPE_H
#define EA_WIRE_ENVELOPE_H

#include "proto/base/arena.h"
#include "proto/wire/batch.pb-c.h"
#include "proto/wire/wire.h"

/* Field numbers of Batch that are walked by hand. */
enum ea_batch_field {
    EA_BATCH_FORMAT = 1,
    EA_BATCH_STREAM = 2,
    EA_BATCH_NUMBER = 3,
    EA_BATCH_KIND = 4,
    EA_BATCH_EVENT_COUNT = 5,
    EA_BATCH_CHECKSUM = 6,
    EA_BATCH_TIME_MIN = 7,
    EA_BATCH_TIME_SPAN = 8,
    EA_BATCH_DIRECTORY_BYTES = 9,
    EA_BATCH_DIRECTORY = 10,
    EA_BATCH_FRAMES = 11,
    EA_BATCH_DESCRIPTIONS = 12,
    EA_BATCH_CONTEXT = 13,
    EA_BATCH_LEDGER = 14,
    EA_BATCH_TOMBSTONES = 15,
    EA_BATCH_PRIORITY = 16,
    EA_BATCH_SOURCES = 17,
    EA_BATCH_SHAPES = 22,
    EA_BATCH_DICTIONARIES = 24,
    EA_BATCH_CONTEXTS = 25,
    EA_BATCH_PADDING = 26,
};

/* Small messages (a source, a tombstone, a ledger) above this are refused. */
enum { EA_MESSAGE_MAX_BYTES = 1 << 16 };

typedef struct ea_pb_field {
    uint32_t number;
    unsigned type;       /* 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32 */
    uint64_t value;      /* the number, unless type is 2 */
    const uint8_t *data; /* type 2 */
    size_t len_bytes;
} ea_pb_field;

/* Walks a protobuf message: start with *offset 0. 1 and a field, 0 at the end, EA_ECORRUPT. */
int ea_pb_next(const uint8_t *message, size_t len_bytes, size_t *offset, ea_pb_field *ret);

/* A Context message. Names are EA_NAME_BYTES each, one after another; borrowed from it. */
typedef struct ea_context {
    const uint8_t *sources, *shapes;
    uint32_t source_count, shape_count;
    uint64_t dictionary; /* 0: none */
    uint32_t priority;
} ea_context;

typedef struct ea_envelope {
    ea_batch_head head;
    const uint8_t *directory; /* as in the batch; of a short one, the bytes after its head */
    size_t directory_bytes;
    uint64_t directory_raw_bytes; /* 0: not compressed */
    int is_short;                 /* see short_directory.h; of its frame there is the block */
    int needs_dictionary;         /* the context's */
    uint32_t frame_count;
    uint64_t padding_bytes;
    uint32_t source_count, shape_count, context_count, dictionary_count; /* messages in it */
    const uint8_t *context_name;                                         /* EA_NAME_BYTES; NULL: it has no context */
    const uint8_t *shape_indexes;                                        /* a varint a group: of the context's shapes */
    size_t shape_indexes_bytes;
    int has_context; /* it is in the batch */
    ea_context context;
    ea_pb_field first_source; /* that is in the batch; .data NULL: none */
    int64_t time_min;         /* as in the batch: from the first source's base on */
    uint64_t time_span;
} ea_envelope;

/* Reads and checks all but what the first source says, and what the batch names. */
EA_MUST_CHECK int ea_envelope_walk(ea_envelope *ret, const uint8_t *batch, size_t len_bytes, ea_err *err);
/* Fills the head with what the first source says; nothing without one (.data NULL). */
EA_MUST_CHECK int ea_envelope_take_source(ea_envelope *e, const ea_pb_field *source, ea_err *err);
/* EA_ELIMIT, EA_ECORRUPT: labels or a version beyond the bounds. */
EA_MUST_CHECK int ea_envelope_check_labels(const Etwagent__V1__Source *source, ea_err *err);
void ea_envelope_clock(const Etwagent__V1__Source *source, ea_clock *ret);

/* Bytes of fields that a message's description lacks, those of the messages in it included. A field that is no protobuf
 * ends the count. */
size_t ea_pb_unknown_bytes(const ProtobufCMessageDescriptor *descriptor, const uint8_t *message, size_t len_bytes,
                           unsigned max_depth);

enum { EA_PB_DEPTH_MAX = 16 }; /* of messages inside messages */

/* The reason why a message cannot be unpacked, or NULL: it is no protobuf message, messages in it are nested deeper
 * than max_depth (protobuf-c unpacks recursively), or a field that holds one message occurs twice (protobuf-c would
 * merge them). */
const char *ea_pb_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *message, size_t len_bytes,
                        unsigned max_depth);

/* Unpacks a message that ea_pb_check accepts, whose memory is the arena's; without one it is malloc's, and
 * protobuf_c_message_free_unpacked frees it. what: "a source", for the error. EA_ECORRUPT: ea_pb_check refuses it, or
 * it is no such message; EA_ELIMIT, without an arena EA_ENOMEM: there is no memory for it. */
EA_MUST_CHECK int ea_pb_unpack(const ProtobufCMessageDescriptor *descriptor, ea_arena *arena, const uint8_t *data,
                               size_t len_bytes, const char *what, ProtobufCMessage **ret, ea_err *err);

#endif
