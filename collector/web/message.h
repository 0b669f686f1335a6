/* Messages between this process and its children, over pipes: a letter, the length (u32, little-endian), so many bytes.
 * Before and after it: symbol_worker.c, profile_worker.c, on both sides. Thread: the owner's of each struct. */
#ifndef EC_WEB_MESSAGE_H
#define EC_WEB_MESSAGE_H

#include "proto/base/text.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { EC_MESSAGE_MAX = 16 << 20 };

/* ---- writing ---- */

void ec_message_begin(ea_text *t, char letter); /* empties t */
void ec_message_u32(ea_text *t, uint32_t v);
void ec_message_u64(ea_text *t, uint64_t v);
void ec_message_string(ea_text *t, const char *s); /* NULL is written as "" */
/* Writes the message, waiting for the reader: 0, EA_ENOMEM, EA_ELIMIT (longer than EC_MESSAGE_MAX), EA_EIO. */
EA_MUST_CHECK int ec_message_send(int fd, ea_text *t);

/* ---- reading ---- */

/* What is left of a message. */
typedef struct ec_message {
    char letter;
    const uint8_t *at, *end;
    int failed; /* more was asked for than there is */
} ec_message;

uint64_t ec_message_get(ec_message *m, unsigned bytes); /* 0 when it is cut */
const char *ec_message_get_string(ec_message *m);       /* NUL-terminated, no NUL inside; "" when it is not */

/* One end of a pipe, and what came and was not taken. {.fd = ...} is a new one. */
typedef struct ec_message_reader {
    int fd;
    int64_t deadline_ns; /* monotonic */
    atomic_int *stop;    /* looked at ten times a second; may be NULL */
    uint8_t *data;
    size_t bytes, capacity, taken;
} ec_message_reader;

/* Waits for the next message, which is valid until the next call: 1; 0 at the end. EA_ECANCELED (*stop), EA_ETIMEOUT
 * (the deadline), EA_ECORRUPT (longer than EC_MESSAGE_MAX), EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int ec_message_next(ec_message_reader *r, ec_message *ret);
void ec_message_reader_deinit(ec_message_reader *r); /* leaves fd open */

#endif
