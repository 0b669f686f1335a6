/* What the collector and its signer say to each other: frames of fields, each bounded.
 *
 *     bytes of the body, 32 bits \t kind, one byte \t body: for each field its length, 32 bits, its bytes, and a NUL
 *
 * Integers are little-endian. A kind has a fixed number of fields; text holds no NUL. The signer trusts nothing of it:
 * the other side is the process that parses what comes from the network. Used by: signer.c, on both sides. Thread: any.
 */
#ifndef EC_ENROLL_SIGNER_MESSAGE_H
#define EC_ENROLL_SIGNER_MESSAGE_H

#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

enum { EC_SIGNER_HEAD_BYTES = 5, EC_SIGNER_BODY_MAX = 80 << 10, EC_SIGNER_FIELDS_MAX = 7 };

enum ec_signer_kind {
    EC_SIGNER_OPEN = 'O',   /* process id of the collector, CA folder, file of those whose certificates are renewed */
    EC_SIGNER_ENROLL = 'E', /* token, request */
    EC_SIGNER_RENEW = 'R',  /* certificate, request */
    EC_SIGNER_ANSWER = 'A', /* code, its sentence, name, serial number, token's id, flags, certificates */
};

enum {
    EC_ANSWER_CODE,
    EC_ANSWER_TEXT,
    EC_ANSWER_NAME,
    EC_ANSWER_SERIAL,
    EC_ANSWER_TOKEN,
    EC_ANSWER_FLAGS,
    EC_ANSWER_PEM
};

/* Flags: "k", the certificate is known; "t", it was to be renewed twice. */

typedef struct ec_signer_field {
    const char *data; /* with a NUL after it */
    size_t len_bytes;
} ec_signer_field;

typedef struct ec_signer_message {
    char kind;
    ec_signer_field fields[EC_SIGNER_FIELDS_MAX]; /* as many as the kind has */
} ec_signer_message;

/* The body's length out of a head. EA_ECORRUPT: the kind is unknown, or the body longer than EC_SIGNER_BODY_MAX. */
EA_MUST_CHECK int ec_signer_parse_head(const uint8_t head[EC_SIGNER_HEAD_BYTES], char *ret_kind, size_t *ret_body_bytes,
                                       ea_err *err);
/* Views into the body. EA_ECORRUPT. */
EA_MUST_CHECK int ec_signer_parse(char kind, const uint8_t *body, size_t body_bytes, ec_signer_message *ret,
                                  ea_err *err);
/* Appends a whole frame. EA_EINVAL when a field is longer than its kind allows, or a text holds a NUL; EA_ENOMEM. */
EA_MUST_CHECK int ec_signer_print(const ec_signer_message *m, ea_text *out, ea_err *err);

#endif
