/* The TLS side of all listeners: TLS 1.3 only, a client certificate of our CA required, revocation, ticket keys that
 * outlive the process. Without a CA it is the TLS side of collector/web, whose clients have tokens. Called by:
 * ingest_server.c, collector/web, collector/enroll. Calls: OpenSSL. Thread: any, after ec_tls_create. */
#ifndef EC_NET_TLS_H
#define EC_NET_TLS_H

#include "proto/base/err.h"
#include "proto/base/pattern.h"

#include <openssl/ssl.h>

typedef struct ec_tls ec_tls;

typedef struct ec_tls_options {
    const char *cert_path, *key_path; /* the collector's own, PEM; cert_path may hold the chain */
    const char *ca_path;              /* who may sign clients, PEM; NULL: clients need no certificate */
    int client_optional;              /* with ca_path: clients need no certificate (see ec_tls_identify) */
    const char *crl_path;             /* PEM, one or more; NULL: none */
    const char *ticket_path;          /* keys for session tickets, made when missing, private; NULL: kept in memory */
    struct ec_log *log;               /* borrowed; may be NULL */
    struct ec_broker *broker;         /* opens these files but the tickets'; borrowed; NULL: this process does */
} ec_tls_options;

enum { EC_AGENT_NAME_BYTES = EA_AGENT_NAME_MAX };

/* EA_EINVAL: the own certificate is not a server's. */
EA_MUST_CHECK int ec_tls_create(ec_tls **ret, const ec_tls_options *options, ea_err *err);
void ec_tls_destroy(ec_tls *tls);
/* Reads the own certificate and key again, for the connections from now on; what cannot be read leaves the old ones in
 * force. Thread: any. */
EA_MUST_CHECK int ec_tls_renew(ec_tls *tls, ea_err *err);
/* A server-side session for one connection; NULL without memory. */
SSL *ec_tls_session(ec_tls *tls);
/* Who the peer of a finished handshake is: the common name of its certificate, [A-Za-z0-9._-] and not beginning with a
 * dot, in lower case: names that differ in case alone are one agent. A resumed session skips the chain, so call it on
 * every request: it looks at the certificate's dates and at the revocation list, which is read again when its file has
 * changed. EA_EREFUSED with the reason. ret_agent: EC_AGENT_NAME_BYTES + 1 bytes. */
EA_MUST_CHECK int ec_tls_identify(ec_tls *tls, const SSL *ssl, char *ret_agent, ea_err *err);

/* When the revocation list in force was made (lastUpdate) and is to be replaced (nextUpdate), in seconds since 1970; of
 * several, the earliest of each. 0: none is given, or it says no time. A list that is too old stays in force. */
typedef struct ec_crl_times {
    int64_t made_s, end_s;
} ec_crl_times;

/* Thread: any. */
ec_crl_times ec_tls_crl_times(ec_tls *tls);

/* When certificates end, in seconds since 1970: the own one, with the chain that is sent; the earliest of the CAs of
 * ca_path; the earliest of the clients that were identified and have not ended. 0: there is none. Clients are counted
 * by name, each with its last certificate, up to 65,536 of them. Thread: any. */
typedef struct ec_tls_ends {
    int64_t own_s, ca_s, client_s;
} ec_tls_ends;

ec_tls_ends ec_tls_certificate_ends(ec_tls *tls);

#endif
