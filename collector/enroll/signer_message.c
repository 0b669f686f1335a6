/* Frames between the collector and its signer. See signer_message.h. */
#include "collector/enroll/signer_message.h"

#include "collector/ca/ca.h"
#include "proto/base/bytes.h"

#include <string.h>

enum {
    TEXT = 1 << 24,
    PATH_BYTES = 4096,
    CODE_BYTES = 12,
    TOKEN_BYTES = 256,
    SENTENCE_BYTES = 511,
    PEM_BYTES = 72 << 10
};

/* The most bytes of each field; TEXT: without a NUL. */
static const struct shape {
    char kind;
    uint32_t fields[EC_SIGNER_FIELDS_MAX]; /* 0: no more */
} SHAPES[] = {
    {EC_SIGNER_OPEN, {CODE_BYTES | TEXT, PATH_BYTES | TEXT, PATH_BYTES | TEXT}},
    {EC_SIGNER_ENROLL, {TOKEN_BYTES | TEXT, EC_CA_CSR_MAX}},
    {EC_SIGNER_RENEW, {EC_CA_CERT_MAX, EC_CA_CSR_MAX}},
    {EC_SIGNER_ANSWER,
     {CODE_BYTES | TEXT, SENTENCE_BYTES | TEXT, EC_CA_NAME_MAX | TEXT, EC_CA_SERIAL_HEX | TEXT,
      EC_SECRET_ID_BYTES | TEXT, 1 | TEXT, PEM_BYTES}},
};

static const struct shape *shape_of(char kind) {
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (SHAPES[i].kind == kind)
            return &SHAPES[i];
    return NULL;
}

static int field_is_good(uint32_t bound, const char *data, size_t len_bytes) {
    return len_bytes <= (bound & (TEXT - 1)) && (!(bound & TEXT) || !memchr(data, 0, len_bytes));
}

int ec_signer_parse_head(const uint8_t head[EC_SIGNER_HEAD_BYTES], char *ret_kind, size_t *ret_body_bytes,
                         ea_err *err) {
    size_t n = ea_load32(head);
    if (!shape_of((char)head[4]) || n > EC_SIGNER_BODY_MAX)
        return ea_fail(err, EA_ECORRUPT, "read a message of the signer: expected O, E, R or A and at most %d bytes",
                       EC_SIGNER_BODY_MAX);
    *ret_kind = (char)head[4];
    *ret_body_bytes = n;
    return 0;
}

int ec_signer_parse(char kind, const uint8_t *body, size_t body_bytes, ec_signer_message *ret, ea_err *err) {
    const struct shape *shape = shape_of(kind);
    ec_signer_message m = {.kind = kind};
    size_t at = 0;
    if (!shape)
        return ea_fail(err, EA_ECORRUPT, "read a message of the signer: its kind is unknown");
    for (size_t i = 0; i < EC_SIGNER_FIELDS_MAX && shape->fields[i]; i++) {
        if (body_bytes - at < 4)
            return ea_fail(err, EA_ECORRUPT, "read a message of the signer: field %zu is missing", i);
        size_t n = ea_load32(body + at);
        at += 4;
        if (n >= body_bytes - at || body[at + n] != 0)
            return ea_fail(err, EA_ECORRUPT, "read a message of the signer: field %zu is cut", i);
        m.fields[i] = (ec_signer_field){.data = (const char *)body + at, .len_bytes = n};
        if (!field_is_good(shape->fields[i], m.fields[i].data, n))
            return ea_fail(err, EA_ECORRUPT, "read a message of the signer: field %zu is too long, or no text", i);
        at += n + 1;
    }
    if (at != body_bytes)
        return ea_fail(err, EA_ECORRUPT, "read a message of the signer: bytes follow the last field");
    *ret = m;
    return 0;
}

int ec_signer_print(const ec_signer_message *m, ea_text *out, ea_err *err) {
    const struct shape *shape = shape_of(m->kind);
    uint8_t number[4];
    size_t body = 0;
    if (!shape)
        return ea_fail(err, EA_EINVAL, "write a message of the signer: its kind is unknown");
    for (size_t i = 0; i < EC_SIGNER_FIELDS_MAX && shape->fields[i]; i++) {
        if (!field_is_good(shape->fields[i], m->fields[i].data, m->fields[i].len_bytes))
            return ea_fail(err, EA_EINVAL, "write a message of the signer: field %zu is too long, or no text", i);
        body += 4 + m->fields[i].len_bytes + 1;
    }
    ea_store32(number, (uint32_t)body);
    ea_text_add(out, number, sizeof number);
    ea_text_char(out, m->kind);
    for (size_t i = 0; i < EC_SIGNER_FIELDS_MAX && shape->fields[i]; i++) {
        ea_store32(number, (uint32_t)m->fields[i].len_bytes);
        ea_text_add(out, number, sizeof number);
        ea_text_add(out, m->fields[i].data, m->fields[i].len_bytes);
        ea_text_add(out, "", 1);
    }
    if (!out->failed)
        return 0;
    return ea_fail(err, EA_ENOMEM, "write a message of the signer");
}
