/* How an agent comes to its certificate, and to the next one: it makes a key (EC P-256), asks a collector that runs
 * with --enroll to sign it, and puts both files in place.
 *
 * The new files first lie beside the old ones, CERT.new and KEY.new, and are moved when both are whole: a crash between
 * any two steps is mended by ea_enroll_install, and an attempt that got no answer goes on with the key that it made,
 * for which the collector gives the same certificate again. Called by: "etwagent enroll", service/core/enroller.h.
 * Server: collector/enroll. Thread: any, one for each pair of files. */
#ifndef EA_SHIP_ENROLL_CLIENT_H
#define EA_SHIP_ENROLL_CLIENT_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EA_CERTIFICATE_NAME_BYTES = 65, /* with its NUL */
    EA_ENROLL_TOKEN_MAX = 128,
};

typedef struct ea_enroll_options {
    const char *url;        /* https://HOST:PORT */
    const char *ca;         /* who signs the collector's certificate: a PEM file, or a place of a store (host.h) */
    const char *proxy;      /* http://HOST:PORT; NULL: none */
    const char *cert, *key; /* PEM files */
    const char *token;      /* NULL: the certificate in cert speaks for the next one */
    const char *name;       /* to ask for */
    int64_t timeout_ns;     /* of the request; 0: 30 s */
    const atomic_int *stop; /* breaks it off; may be NULL */
} ea_enroll_options;

/* Asks, and leaves the answer beside the files. EA_EEXIST: the collector says that another machine has the name;
 * EA_EREFUSED: it refuses for another reason; EA_ETLS, EA_ENET, EA_ETIMEOUT, EA_EIO, EA_EFORMAT, EA_ECANCELED. */
EA_MUST_CHECK int ea_enroll_ask(const ea_enroll_options *o, ea_err *err);
/* Moves what lies beside the files to them. *ret_installed: 1 when there was something. */
EA_MUST_CHECK int ea_enroll_install(const char *cert, const char *key, int *ret_installed, ea_err *err);

typedef struct ea_certificate {
    char name[EA_CERTIFICATE_NAME_BYTES]; /* the common name */
    int64_t not_before_s, not_after_s;    /* since 1970 */
} ea_certificate;

/* EA_EUNSUPPORTED, with what to do, when the key of a PEM file has a password; else 0, whatever the file is. */
EA_MUST_CHECK int ea_key_check_password(const char *path, ea_err *err);
/* The first certificate of a PEM file. EA_ENOTFOUND, EA_EFORMAT. */
EA_MUST_CHECK int ea_certificate_read(const char *path, ea_certificate *ret, ea_err *err);
EA_MUST_CHECK int ea_certificate_of_der(const uint8_t *der, size_t len_bytes, ea_certificate *ret, ea_err *err);

/* The token in a file, without the white space around it; the caller's token has room for EA_ENROLL_TOKEN_MAX.
 * EA_ENOTFOUND, EA_EFORMAT. */
EA_MUST_CHECK int ea_enroll_token_read(const char *path, char *token, ea_err *err);
/* 1 when a certificate of an agent may have the name. */
int ea_enroll_name_is_good(const char *name);
/* given, or (NULL) this machine's name, of letters, digits, . _ - alone and not beginning with . or -; others become -.
 */
void ea_enroll_name(const char *given, char out[EA_CERTIFICATE_NAME_BYTES]);

#endif
