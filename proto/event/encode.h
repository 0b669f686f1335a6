/* Reads field values from payloads, and makes payloads from field values, with the same class both ways.
 * Input: a class and a payload, or values that a program makes. Called by: proto/etl/etl_writer.h; tests.
 * Thread: any (pure functions; the arena is the caller's). */
#ifndef EA_EVENT_ENCODE_H
#define EA_EVENT_ENCODE_H

#include "proto/base/arena.h"
#include "proto/event/event.h"

enum ea_value_kind {
    EA_VALUE_NUMBER, /* integers, sign-extended when they have a sign; addresses; ports in the host's order; FILETIME;
                      * the bits of F32 and F64 */
    EA_VALUE_TEXT,   /* UTF-8 (WTF-8) without NUL and count: all strings, and arrays of characters */
    EA_VALUE_BYTES,  /* GUID, SYSTEMTIME, network addresses, SID, BYTES: the bytes of the payload. Also a string that
                      * text cannot represent (it has characters after its NUL, or no characters): with its NUL or its
                      * count */
    EA_VALUE_LIST,   /* an array: its elements; a STRUCT: its members; a WBEM_SID: nothing, or two pointers and a SID */
};

typedef struct ea_event_value {
    enum ea_value_kind kind;
    uint64_t number;
    const void *data;                   /* TEXT, BYTES: count bytes; borrowed */
    const struct ea_event_value *items; /* LIST: count values; borrowed */
    size_t count;
} ea_event_value;

/* The values of the top-level fields that are whole in the payload, in the class's order: *ret_values (in the arena,
 * with all that they point to; the payload must outlive them) and *ret_count. *ret_used: the number of bytes of these
 * values; the bytes after them are the tail. EA_ENOMEM. */
EA_MUST_CHECK int ea_event_read_values(const ea_class *c, const uint8_t *payload, size_t payload_bytes, ea_arena *arena,
                                       const ea_event_value **ret_values, size_t *ret_count, size_t *ret_used,
                                       ea_err *err);

/* Makes the value of the top-level field number `at` a text (borrowed). Where an earlier field counts its elements,
 * that one becomes their number. */
void ea_event_set_text(const ea_class *c, ea_event_value *values, size_t at, const char *text, size_t len_bytes);

/* The payload of the class's first count top-level fields. What ea_event_read_values gave becomes the very bytes that
 * it read. Errors: EA_EINVAL (a value of a kind that its field cannot hold, a number that does not fit, an array whose
 * length is not what its count field says, too many values), EA_ELIMIT (more than capacity bytes). */
EA_MUST_CHECK int ea_event_write_values(const ea_class *c, const ea_event_value *values, size_t count, uint8_t *out,
                                        size_t capacity, size_t *ret_bytes, ea_err *err);

#endif
