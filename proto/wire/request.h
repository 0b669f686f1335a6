/* What a collector asks of an agent: signed requests, the agent's poll for them, and its reports. FORMAT.md,
 * "Requests", is the specification.
 * Called by: service/core (polls, checks), collector/state (keeps, offers), "etwcollector request" (makes). Thread:
 * any; everything belongs to its caller. */
#ifndef EA_WIRE_REQUEST_H
#define EA_WIRE_REQUEST_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

#define EA_POLL_PATH "/v1/requests"
#define EA_POLL_TYPE "application/x-etwagent-poll"
/* Before the bytes of a request, in what is signed: the key's signature under anything else is none of a request. */
#define EA_REQUEST_CONTEXT "etwagent request 1\n"

enum {
    EA_REQUEST_MAX_BYTES = 1024, /* a Request message */
    EA_REQUEST_HOSTS_BYTES = 256,
    EA_REQUEST_SIGNATURE_BYTES = 64, /* Ed25519 */
    EA_REQUEST_KEY_BYTES = 8,        /* of a key's name: the first bytes of SHA-256 of the 32 of the public key */
    EA_OFFER_MAX_REQUESTS = 16,      /* in an answer to a poll */
    EA_OFFER_MAX_BYTES = 32 << 10,
    EA_POLL_MAX_REPORTS = 64,
    EA_POLL_MAX_BYTES = 64 << 10,
    EA_REPORT_TEXT_BYTES = 256,
};

enum ea_request_kind { EA_REQUEST_WINDOW = 1 };

/* What is asked, and of whom. */
typedef struct ea_request {
    uint32_t kind; /* enum ea_request_kind, or a newer one */
    uint64_t serial;
    char hosts[EA_REQUEST_HOSTS_BYTES]; /* patterns of names, as ea_name_in has them */
    int64_t from_utc_ns, to_utc_ns;     /* [from, to) */
    uint64_t limit_bytes;               /* of batches that each recorder of an agent sends for it */
    int64_t expires_utc_ns;
} ea_request;

/* A request as it travels. All is borrowed; signature and key have the lengths above. */
typedef struct ea_signed_request {
    const uint8_t *request;
    size_t request_bytes;
    const uint8_t *signature, *key;
} ea_signed_request;

/* ReportState of batch.proto. */
enum ea_report_state { EA_REPORT_ACCEPTED = 1, EA_REPORT_REFUSED = 2, EA_REPORT_SENT = 3, EA_REPORT_EXPIRED = 4 };

typedef struct ea_report {
    uint64_t serial;
    uint32_t state; /* enum ea_report_state */
    int64_t utc_ns;
    uint64_t batches, events, bytes; /* that the window has, of what the recorder had; bytes: on its disk */
    char text[EA_REPORT_TEXT_BYTES];
} ea_report;

/* Appends the message's bytes to out (check out->failed afterwards). */
void ea_request_encode(const ea_request *r, ea_text *out);
void ea_signed_request_encode(const ea_signed_request *r, ea_text *out);
/* One more request of an answer to a poll. */
void ea_offer_add(ea_text *out, const uint8_t *signed_request, size_t len_bytes);
void ea_poll_encode(uint64_t serial, const ea_report *reports, size_t count, ea_text *out);
/* What is signed, of a Request's bytes. */
void ea_request_put_signed(const uint8_t *request, size_t len_bytes, ea_text *out);

/* Read what a hostile peer may have made. A Request and a SignedRequest have each of their fields once, in the order of
 * their numbers, and no other: EA_ECORRUPT. EA_ELIMIT: too large. */
EA_MUST_CHECK int ea_request_decode(ea_request *ret, const uint8_t *data, size_t len_bytes, ea_err *err);
EA_MUST_CHECK int ea_signed_request_decode(ea_signed_request *ret, const uint8_t *data, size_t len_bytes, ea_err *err);
/* Walks an answer to a poll: start with *offset 0. 1 and a SignedRequest's bytes (borrowed), 0 at the end, EA_ECORRUPT.
 * The caller bounds how many it takes. */
EA_MUST_CHECK int ea_offer_next(const uint8_t *data, size_t len_bytes, size_t *offset, const uint8_t **ret,
                                size_t *ret_len_bytes, ea_err *err);
/* reports: room for EA_POLL_MAX_REPORTS. Texts are valid UTF-8 afterwards. */
EA_MUST_CHECK int ea_poll_decode(uint64_t *ret_serial, ea_report *reports, size_t *ret_count, const uint8_t *data,
                                 size_t len_bytes, ea_err *err);

#endif
