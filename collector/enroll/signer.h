/* The process that signs: it alone opens the CA's key and the enrolment tokens. The broker (collector/sandbox), which
 * is not confined, starts it for the collector, which is. The collector sends it a token or a certificate with a
 * request (signer_message.h); the signer checks both itself, against its own log, and answers with a certificate. It is
 * this program again, with EC_SIGNER_NAME as its only argument. It cannot gain privileges, its memory cannot be read by
 * other processes of its user, and it ends with the broker, which ends with the collector.
 *
 * One that ends is started again, after 1 s, then twice as long each time up to 60 s; meanwhile requests fail with
 * EA_EBUSY. Called by: enroll_server.c. Calls: collector/ca. Thread: one at a time on the collector's side. */
#ifndef EC_ENROLL_SIGNER_H
#define EC_ENROLL_SIGNER_H

#include "collector/ca/ca.h"
#include "collector/net/log.h"
#include "collector/sandbox/broker.h"
#include "proto/base/counters.h"

#define EC_SIGNER_NAME "certificate-signer"

typedef struct ec_signer ec_signer;

typedef struct ec_signer_options {
    ec_broker *broker; /* settled with ec_signer_greeting; borrowed, as are counters and log */
    size_t child;      /* which of the broker's children it is */
    ea_counters *counters;
    ec_log *log;
} ec_signer_options;

/* How OpenSSL and its providers are configured, for a key that ca.uri names: the broker's variables. */
extern const char *const ec_signer_variables[];
/* What the broker sends the signer first (its greeting): which CA it is. trust_path: as for ec_ca_open, not NULL. */
EA_MUST_CHECK int ec_signer_greeting(const ec_broker *broker, const char *ca_dir, const char *trust_path, ea_text *t,
                                     ea_err *err);
/* Starts it by the broker, and waits until it has opened the CA and made ca.crl when that is missing. Fails as
 * ec_ca_open does. */
EA_MUST_CHECK int ec_signer_start(ec_signer **ret, const ec_signer_options *options, ea_err *err);
void ec_signer_stop(ec_signer *s); /* NULL is allowed */
/* Notices that it has ended, and starts it again when it is time; to be called each second or so. */
void ec_signer_look(ec_signer *s);

/* As ec_ca_enroll and ec_ca_renew. EA_EBUSY: there is no signer now; EA_ETIMEOUT: it did not answer within 30 s, and
 * was ended. */
EA_MUST_CHECK int ec_signer_enroll(ec_signer *s, const char *token, const char *csr, size_t len_bytes,
                                   ec_ca_enrolled *ret, ea_err *err);
EA_MUST_CHECK int ec_signer_renew(ec_signer *s, const uint8_t *cert, size_t cert_bytes, const char *csr,
                                  size_t csr_bytes, ec_ca_enrolled *ret, ea_err *err);

/* The signer's own main. */
int ec_signer_main(void);

#endif
