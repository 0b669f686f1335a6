/* The upload's frame and its answer: the form of batches in a request body, and the Ack message as a plain struct.
 * FORMAT.md, "Upload", is the specification.
 * Called by: service/ship (writes bodies, reads answers) and collector/ingest (reads bodies, writes answers). Thread:
 * any; everything belongs to its caller. */
#ifndef EA_WIRE_ACK_H
#define EA_WIRE_ACK_H

#include "proto/base/arena.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

#define EA_UPLOAD_PATH       "/v1/batches"
#define EA_UPLOAD_TYPE       "application/x-etwagent-batches"
#define EA_UPLOAD_RUN_HEADER "Etwagent-Run" /* what this run of an agent calls itself */

enum {
    EA_UPLOAD_FRAME_BYTES = 4,      /* before each batch: its length, u32 little-endian */
    EA_UPLOAD_MAX_BATCHES = 2048,   /* in one body */
    EA_UPLOAD_MAX_EVENTS = 1 << 22, /* of all its batches: what one request may cost a collector in time */
    EA_ACK_MAX_BYTES = 1 << 20,     /* an answer; more is refused unread */
    EA_ACK_MAX_RANGES = 1 << 16,    /* of one answer; so many refusals and class hashes at the most, too */
};

typedef struct ea_range {
    uint64_t first, last; /* inclusive */
} ea_range;

/* Refusal.Cause of batch.proto. */
enum ea_refusal_cause { EA_REFUSED_CONFLICT = 0, EA_REFUSED_MALFORMED = 1, EA_REFUSED_RETRY = 2 };

typedef struct ea_refusal {
    uint64_t number;
    uint32_t cause;   /* enum ea_refusal_cause, or a newer one: treat it as EA_REFUSED_RETRY */
    const char *text; /* for a person; never NULL */
} ea_refusal;

typedef struct ea_class_hash {
    uint8_t bytes[EA_CLASS_HASH_BYTES];
} ea_class_hash;

/* An answer. All pointers are borrowed: from the caller (encode) or from the arena (decode). */
typedef struct ea_ack {
    uint8_t stream[EA_STREAM_ID_BYTES];
    const ea_range *acknowledged;
    size_t acknowledged_count;
    const ea_refusal *refused;
    size_t refused_count;
    const ea_hash_ref *unknown; /* definitions that the collector lacks */
    size_t unknown_count;
    const ea_class_hash *known; /* definitions that are durable */
    size_t known_count;
    uint64_t credit_bytes;   /* how much may be sent before the next answer; 0: no bound */
    uint32_t retry_after_ms; /* wait so long before the next upload */
    int keyframe_wanted;
} ea_ack;

/* Appends the message's bytes to out (check out->failed afterwards). */
void ea_ack_encode(const ea_ack *ack, ea_text *out);

/* Reads an answer of a peer that may be hostile: len_bytes at most EA_ACK_MAX_BYTES, ranges in order of their ends
 * (first 1 or more, first <= last), hashes of a right length. Strings are cut to 255 bytes. EA_ECORRUPT, EA_ELIMIT,
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_ack_decode(ea_ack *ret, ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_err *err);

/* 1 when number is in one of the ranges. */
int ea_ranges_have(const ea_range *ranges, size_t count, uint64_t number);

/* Walks a request body: start with *offset 0. 1 and the next batch (borrowed from body), 0 at the end, EA_ECORRUPT when
 * a length is 0, above EA_BATCH_MAX_BYTES or beyond the body's end. */
EA_MUST_CHECK int ea_upload_next(const uint8_t *body, size_t len_bytes, size_t *offset, const uint8_t **ret_batch,
                                 size_t *ret_len_bytes, ea_err *err);

/* Appends one more definition to a batch's bytes (a repeated field may be appended to a protobuf message; the batch's
 * checksum does not cover definitions). */
void ea_batch_add_definition(ea_text *batch, enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes);

#endif
