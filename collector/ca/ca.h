/* The certificate authority of a small installation: a folder with a CA's key and certificate, what it issued, and the
 * revocation list. Nobody has to know OpenSSL's command line.
 *
 *   ca.key      the CA's private key, readable by its owner only (EC P-256, PKCS#8, PEM)
 *   ca.crt      the CA's certificate: CA:TRUE, pathlen 0, keyCertSign and cRLSign
 *   ca.crl      the revocation list; valid as long as the CA, replaced when something is revoked
 *   issued.tsv  one line a certificate: serial (hex), role, not after (UTC), revoked at (UTC) or -, name
 *   NAME.crt, NAME.key   what was issued, unless another folder was named
 *   enroll-tokens        who may have a certificate without a key that was made here (grants.h)
 *   enrolled/NAME.crt    what they got last
 *
 * Before it: collector/app (the `ca` commands), collector/enroll. After it: TLS on both sides reads the files.
 * Thread: any; a lock in the folder lets one process at a time change it (others wait two seconds: EA_EBUSY). */
#ifndef EC_CA_CA_H
#define EC_CA_CA_H

#include "secrets.h"

#include <stddef.h>
#include <stdint.h>

enum { EC_CA_NAME_MAX = 64, EC_CA_SAN_MAX = 32, EC_CA_SERIAL_HEX = 40 };

/* Makes the CA. name: its common name; days: how long it is valid. EA_EEXIST when the folder holds one already. */
EA_MUST_CHECK int ec_ca_init(const char *dir, const char *name, uint64_t days, ea_err *err);

typedef struct ec_ca_request {
    const char *
        name; /* 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with . or -: common name, file name, an agent's identity */
    int server;              /* 1: for a collector (serverAuth); 0: for an agent (clientAuth) */
    const char *const *sans; /* server: "DNS:host" or "IP:address"; none: DNS:name */
    size_t san_count;
    uint64_t days;
    const char *out_dir; /* for NAME.crt and NAME.key; NULL: the CA's folder */
} ec_ca_request;

/* Issues a key and a certificate for each request; the list of what was issued is written once, before the files.
 * EA_EEXIST when a NAME.key or NAME.crt is there already: a key is never overwritten. Names differ from each other.
 * ret_serial: of the last one, room for EC_CA_SERIAL_HEX + 1; may be NULL. */
EA_MUST_CHECK int ec_ca_issue(const char *dir, const ec_ca_request *requests, size_t count, char *ret_serial,
                              ea_err *err);

/* Revokes by serial number, or all certificates of a name that are not revoked yet. *ret_count: how many.
 * EA_ENOTFOUND when there is none, EA_EEXIST when all are revoked already. */
EA_MUST_CHECK int ec_ca_revoke(const char *dir, const char *name_or_serial, size_t *ret_count, ea_err *err);

enum { EC_CA_CSR_MAX = 8 << 10 }; /* bytes of a request for a certificate, PEM */

typedef struct ec_ca_enrolled {
    char name[EC_CA_NAME_MAX + 1], serial[EC_CA_SERIAL_HEX + 1];
    char token[EC_SECRET_ID_BYTES]; /* its id; "" at a renewal */
    char *pem;                      /* the certificate and the CA's; the caller frees it */
    size_t pem_bytes;
} ec_ca_enrolled;

/* Signs the key of a PKCS#10 request (EC P-256 or P-384) for whoever has an enrolment token. The name is the token's;
 * where that allows several, the request's common name is one of them. A use of the token is taken durably before this
 * returns. The same request with the same key again gets the same certificate and takes no use, so that an answer may
 * get lost.
 * ret->token is set as soon as the token is known to be right, also on failure.
 * EA_EREFUSED: the token is wrong, revoked, expired, used up, or not good for this name; EA_EEXIST: another
 * certificate of this name is valid; EA_EINVAL: the request cannot be read, or its key is none that is taken. */
EA_MUST_CHECK int ec_ca_enroll(const char *dir, const char *token, const char *csr, size_t len_bytes,
                               ec_ca_enrolled *ret, ea_err *err);

/* The certificate that somebody has who asks for the next one. */
typedef struct ec_ca_holder {
    char name[EC_CA_NAME_MAX + 1], serial[EC_CA_SERIAL_HEX + 1];
    int64_t not_before_s, not_after_s; /* since 1970 */
} ec_ca_holder;
/* Signs another key for the name of a certificate that was checked, for as long as that one was given. EA_ELIMIT: more
 * than half of its life is left; EA_EREFUSED: it is revoked, or the CA itself ends with it; EA_EINVAL as above. */
EA_MUST_CHECK int ec_ca_renew(const char *dir, const ec_ca_holder *holder, const char *csr, size_t len_bytes,
                              ec_ca_enrolled *ret, ea_err *err);

typedef struct ec_ca_row {
    char serial[EC_CA_SERIAL_HEX + 1]; /* hex, lower case */
    int server;
    int64_t not_after_utc_ns;
    int64_t revoked_utc_ns; /* 0: not revoked */
    char name[EC_CA_NAME_MAX + 1];
} ec_ca_row;
/* What was issued, in order; fn returns non-zero to stop. */
EA_MUST_CHECK int ec_ca_each(const char *dir, int (*fn)(const ec_ca_row *row, void *arg), void *arg, ea_err *err);

#endif
