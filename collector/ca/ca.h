/* The certificate authority of an installation: a folder with a CA's key and certificate, the certificates that it
 * issued, and the revocation list. It replaces OpenSSL's command line.
 *
 *   ca.key      the CA's private key, readable by its owner only (EC P-256, PKCS#8, PEM)
 *   ca.uri      instead of ca.key: where OpenSSL finds the key, in a token or a TPM (ca_key.c)
 *   ca.crt      the CA's certificate: CA:TRUE, keyCertSign and cRLSign, pathlen 0 (a root for others: 1); followed by
 *               the certificates above it, up to the root
 *   ca.csr      the request of a CA that another CA signs
 *   ca.crl      the revocation list; valid as long as the CA, replaced when something is revoked
 *   issued.tsv  the issuance log (issuance.h)
 *   NAME.crt, NAME.key   issued certificates and their keys, unless another folder was named
 *   enroll-tokens        tokens for certificates whose keys are made by the machines themselves (enroll_tokens.h)
 *   enrolled/NAME.crt    the last certificate of each such machine, under the name in lower case
 *
 * Names that differ only in the case of their letters are one name, as in Windows.
 * Called by: collector/app (the `ca` commands), collector/enroll. TLS on both sides reads the files.
 * Thread: any, one for each open CA; a lock in the folder lets one operation at a time change it (others wait two
 * seconds: EA_EBUSY). */
#ifndef EC_CA_CA_H
#define EC_CA_CA_H

#include "collector/access/token_store.h"
#include "proto/base/cli.h"

#include <stddef.h>
#include <stdint.h>

enum { EC_CA_NAME_MAX = 64, EC_CA_SAN_MAX = 32, EC_CA_SERIAL_HEX = 40 };

/* 1 when an agent or collector may have the name: see ec_ca_request. */
int ec_ca_name_is_good(const char *name);
int ec_ca_serial_is_good(const char *serial); /* 1 to EC_CA_SERIAL_HEX hex digits, lower case */

typedef struct ec_ca_init_options {
    const char *name; /* its common name, 1 to EC_CA_NAME_MAX characters */
    uint64_t days;
    int is_root;                    /* signs other CAs, too (ec_ca_sign) */
    int wants_request;              /* ca.csr in place of a certificate: another CA signs it (ec_ca_import) */
    const char *key_uri, *provider; /* the key that is there already (ca_key.c); NULL: one is made */
    const char *key_paths;          /* what the provider needs of files, separated by colons; NULL: it is not known */
} ec_ca_init_options;

/* Makes the CA. EA_EEXIST when the folder holds one already. */
EA_MUST_CHECK int ec_ca_init(const char *dir, const ec_ca_init_options *o, ea_err *err);
/* Imports the certificate that another CA made of ca.csr, and the certificates above it, as PEM, this CA's own
 * certificate first. The root is at the end or in the file root_path, which may be NULL. Also imports a later
 * certificate of the same key. EA_EINVAL: the certificate is not of this key, is no CA's, or is not below the root. */
EA_MUST_CHECK int ec_ca_import(const char *dir, const char *chain_path, const char *root_path, ea_err *err);
/* Signs the request of a CA below this one: pathlen 0, and names within permitted ("DNS:domain", "IP:address/mask";
 * none: any). Writes it and those above it to out_path. EA_EREFUSED: this CA signs no other one. */
EA_MUST_CHECK int ec_ca_sign(const char *dir, const char *csr_path, uint64_t days, const ea_strings *permitted,
                             const char *out_path, ea_err *err);

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

/* ---- enrolment ---- */

/* A CA whose key and log are in memory, for many operations. */
typedef struct ec_ca ec_ca;
/* trust_path: PEM, whose certificates ec_ca_renew takes; NULL: the CA's own. EA_ENOTFOUND, EA_ECRYPTO, EA_ECORRUPT. */
EA_MUST_CHECK int ec_ca_open(ec_ca **ret, const char *dir, const char *trust_path, ea_err *err);
void ec_ca_close(ec_ca *ca); /* NULL is allowed */
/* 1 when ca.uri names the key: a provider of OpenSSL may need files, devices and daemons for each signature. */
int ec_ca_key_is_elsewhere(const ec_ca *ca);
/* Appends the third line of ca.uri: the files and folders that the provider needs, separated by colons; nothing when
 * they are not known. */
EA_MUST_CHECK int ec_ca_key_paths(const ec_ca *ca, ea_text *ret, ea_err *err);
/* Writes ca.crl; with only_missing: when there is none. */
EA_MUST_CHECK int ec_ca_make_crl(ec_ca *ca, int only_missing, ea_err *err);

enum {
    EC_CA_CSR_MAX = 8 << 10,  /* bytes of a request for a certificate, PEM */
    EC_CA_CERT_MAX = 8 << 10, /* of a certificate that is renewed, DER */
};

typedef struct ec_ca_enrolled {
    char name[EC_CA_NAME_MAX + 1], serial[EC_CA_SERIAL_HEX + 1];
    char token[EC_SECRET_ID_BYTES]; /* its id; "" at a renewal */
    int is_known;                   /* the same key got this certificate before */
    int renewed_twice;              /* why a renewal was refused: another key came first */
    char *pem;                      /* the certificate and those that a verifier needs; the caller frees it */
    size_t pem_bytes;
} ec_ca_enrolled;

/* Signs the key of a PKCS#10 request (EC P-256 or P-384) for the holder of an enrolment token. The name is the token's;
 * where the token allows several names, the request's common name is one of them. A use of the token is taken durably
 * before this returns. The same request with the same key gets the same certificate again and takes no further use,
 * because an answer may get lost. ret->token is set as soon as the token is known to be right, also on failure.
 * EA_EREFUSED: the token is wrong, revoked, expired, used up, or not valid for this name; EA_EEXIST: another
 * certificate of this name is valid; EA_EINVAL: the request cannot be read, or its kind of key is not accepted. */
EA_MUST_CHECK int ec_ca_enroll(ec_ca *ca, const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret,
                               ea_err *err);

/* Signs another key for the name of a certificate (DER), for as long as that one was given. A certificate is renewed
 * once: the same key again gets the same answer, another one is EA_EEXIST with ret->renewed_twice, unless what came of
 * the first renewal is revoked. Certificates that were renewed by versions that did not log it may be renewed once
 * more. EA_ELIMIT: more than half of its life is left; EA_EREFUSED: it is not valid, revoked, or the CA itself ends
 * with it; EA_EINVAL as above. */
EA_MUST_CHECK int ec_ca_renew(ec_ca *ca, const uint8_t *cert, size_t cert_bytes, const char *csr, size_t csr_bytes,
                              ec_ca_enrolled *ret, ea_err *err);

enum ec_ca_role { EC_CA_AGENT, EC_CA_SERVER, EC_CA_AUTHORITY };

extern const char *const ec_ca_role_names[]; /* "agent", "server", "ca" */

typedef struct ec_ca_row {
    char serial[EC_CA_SERIAL_HEX + 1]; /* hex, lower case */
    enum ec_ca_role role;
    int64_t not_after_utc_ns;
    int64_t revoked_utc_ns; /* 0: not revoked */
    char name[EC_CA_NAME_MAX + 1];
    char renews[EC_CA_SERIAL_HEX + 1]; /* the serial number of the certificate that this one follows; "": none */
} ec_ca_row;

/* What was issued and is in the log, in order; fn returns non-zero to stop. */
EA_MUST_CHECK int ec_ca_each(const char *dir, int (*fn)(const ec_ca_row *row, void *arg), void *arg, ea_err *err);

#endif
