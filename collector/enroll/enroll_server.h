/* Where agents get their certificates: a listener of its own, TLS 1.3, whose clients may have a certificate.
 *
 *     POST /v1/enroll   Authorization: Bearer TOKEN; body: a PKCS#10 request, PEM (at most EC_CA_CSR_MAX bytes)
 *     POST /v1/renew    with a client certificate that is valid and not revoked; the same body
 *
 * Both answer with the certificate and the CA's, PEM (application/pem-certificate-chain), or with a problem (RFC 9457):
 * 400 the request cannot be read, 401 no token or certificate, 403 the token is not good for this, 404, 405, 409 the
 * name is taken, or the certificate was renewed before, 413, 422 too early for a renewal, 429 too many requests or
 * wrong tokens, 503 it cannot be done now. Requests are answered one after the other; each is noted in the store's
 * audit log. Clients: agents ("etwagent enroll"). Calls: signer.h. Thread: its own; start and stop belong to the main
 * one.
 */
#ifndef EC_ENROLL_ENROLL_SERVER_H
#define EC_ENROLL_ENROLL_SERVER_H

#include "collector/access/audit.h"
#include "collector/enroll/signer.h"
#include "collector/net/guard.h"
#include "collector/net/log.h"
#include "collector/net/quota.h"
#include "proto/base/counters.h"

typedef struct ec_enroll ec_enroll;

typedef struct ec_enroll_options {
    const char *listen; /* "0.0.0.0:8444", "[::1]:0" (any free port) */
    ec_signer *signer;  /* signs; the loop's while it runs */
    struct ec_tls *tls; /* with client_optional; borrowed, as are all others */
    ec_audit *audit;
    ea_counters *counters;
    ec_quota *quota; /* may be NULL */
    ec_log *log;
    ec_guard_limits limits; /* of connections; zeros: guard.h's */
    /* a certificate was to be renewed twice: its name, and a sentence; may be NULL. From the loop's thread. */
    void (*on_renewed_twice)(void *arg, const char *name, const char *text);
    void *arg;
} ec_enroll_options;

/* EA_EUSAGE, EA_EIO when it cannot listen. */
EA_MUST_CHECK int ec_enroll_start(ec_enroll **ret, const ec_enroll_options *options, ea_err *err);
uint16_t ec_enroll_port(const ec_enroll *e);
void ec_enroll_stop(ec_enroll *e); /* NULL is allowed */

#endif
