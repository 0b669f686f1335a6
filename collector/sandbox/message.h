/* Messages between this process and its children, over pipes: a letter, the length (u32, little-endian), so many bytes.
 * Neither side trusts the other's: what is cut or too long is found. Used by: collector/query/sql (ask.c, worker.c),
 * collector/symbols (symbol_worker.c), collector/web (profile_worker.c), on both sides. Thread: the owner's of each
 * struct. */
#ifndef EC_SANDBOX_MESSAGE_H
#define EC_SANDBOX_MESSAGE_H

#include "proto/base/text.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { EC_MESSAGE_MAX = 16 << 20 };

/* ---- writing: one message ---- */

void ec_message_begin(ea_text *t, char letter); /* empties t */
void ec_message_u8(ea_text *t, uint8_t v);
void ec_message_u32(ea_text *t, uint32_t v);
void ec_message_u64(ea_text *t, uint64_t v);
void ec_message_string(ea_text *t, const char *s);                     /* NULL is written as "" */
void ec_message_bytes(ea_text *t, const void *data, size_t len_bytes); /* any, also NUL */
/* Writes the message, waiting for the reader: 0, EA_ENOMEM, EA_ELIMIT (longer than EC_MESSAGE_MAX), EA_EIO. */
EA_MUST_CHECK int ec_message_send(int fd, ea_text *t);

/* ---- writing: many short messages, each with its own end, and written together ---- */

/* Appends a message's head; returns where the message begins, for ec_message_end. */
size_t ec_message_append(ea_text *t, char letter);
/* Its length is known now: 0, EA_ENOMEM, EA_ELIMIT (longer than max_bytes). */
EA_MUST_CHECK int ec_message_end(ea_text *t, size_t begin, size_t max_bytes);
/* Writes all of t, waiting for the reader, and empties it: 0, EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int ec_message_flush(int fd, ea_text *t);

/* ---- reading ---- */

/* What is left of a message. */
typedef struct ec_message {
    char letter;
    const uint8_t *at, *end;
    int failed; /* more was asked for than there is */
} ec_message;

uint64_t ec_message_get(ec_message *m, unsigned bytes); /* 0 when it is cut */
const char *ec_message_get_string(ec_message *m);       /* NUL-terminated, no NUL inside; "" when it is not */
const void *ec_message_get_bytes(ec_message *m, size_t *ret_bytes); /* what ec_message_bytes wrote; "" when it is cut */

/* One end of a pipe, and what came and was not taken. {.fd = ...} is a new one. */
typedef struct ec_message_reader {
    int fd;
    int64_t deadline_ns; /* monotonic */
    atomic_int *stop;    /* looked at ten times a second; may be NULL */
    size_t max_bytes;    /* of a message; 0: EC_MESSAGE_MAX */
    uint8_t *data;
    size_t bytes, capacity, taken; /* taken: of the bytes, before the next message */
} ec_message_reader;

/* Waits for the next message, which is valid until the next call: 1; 0 at the end. EA_ECANCELED (*stop), EA_ETIMEOUT
 * (the deadline), EA_ECORRUPT (longer than max_bytes), EA_ENOMEM, EA_EIO (also: the end is inside a message). A message
 * that has come as a whole is returned also after the deadline. */
EA_MUST_CHECK int ec_message_next(ec_message_reader *r, ec_message *ret);
void ec_message_reader_deinit(ec_message_reader *r); /* leaves fd open */

#endif
