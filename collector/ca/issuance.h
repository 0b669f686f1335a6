/* The issuance log of a CA: DIR/issued.tsv, one line for each certificate or change of a certificate. Lines are
 * appended. When the log is twice as long as the lines that are still needed, it is rewritten without expired
 * certificates.
 *
 *     serial, hex \t agent|server|ca \t not after, UTC \t revoked at, UTC, or - \t name [\t serial of the certificate
 * that this one renews, or -]
 *
 * The last line of a serial number counts: a revocation appends the certificate's line again. Lines of five fields are
 * of earlier versions; they renew nothing. A line without its end remains when a crash interrupts an append, which was
 * never acknowledged: it is skipped, and cut off before the next append. A certificate stays in the log for
 * EC_ISSUANCE_KEPT_S after its end. Memory: about 250 bytes a certificate.
 *
 * Called by: ca.c. Writes: the file. Thread: one at a time. A writer holds the CA folder's lock. */
#ifndef EC_CA_ISSUANCE_H
#define EC_CA_ISSUANCE_H

#include "collector/ca/ca.h"

enum { EC_ISSUANCE_KEPT_S = 3600, EC_ISSUANCE_SLACK = 1024 /* lines beyond twice the certificates that are kept */ };

typedef struct ec_issuance ec_issuance;

/* Reads the log in folder dir. EA_ENOTFOUND, EA_ECORRUPT (with the line's number). */
EA_MUST_CHECK int ec_issuance_open(ec_issuance **ret, const char *dir, int writable, ea_err *err);
void ec_issuance_close(ec_issuance *l); /* NULL is allowed */
/* Reads what other processes have written since; after a failure the log must be closed. */
EA_MUST_CHECK int ec_issuance_catch_up(ec_issuance *l, ea_err *err);
/* Appends a line for each row, durably, after ec_issuance_catch_up under the same lock. A row of a serial number that
 * the log has replaces it. After a failure the log holds none or some of the rows, as the file does. */
EA_MUST_CHECK int ec_issuance_add(ec_issuance *l, const ec_ca_row *rows, size_t count, ea_err *err);
/* Rewrites the file and the memory when that is worth it. Under the lock. */
EA_MUST_CHECK int ec_issuance_compact(ec_issuance *l, int64_t now_utc_ns, ea_err *err);

/* Rows are the log's until the next call that may change it. */
size_t ec_issuance_count(const ec_issuance *l);
const ec_ca_row *ec_issuance_row(const ec_issuance *l, size_t at);           /* in the order of the file */
const ec_ca_row *ec_issuance_find(const ec_issuance *l, const char *serial); /* NULL: none */
/* The next certificate of a name, in any case of its letters, or the next one that renews a serial number: after is the
 * one before, NULL for the first. NULL: no more. */
const ec_ca_row *ec_issuance_next_of_name(const ec_issuance *l, const char *name, const ec_ca_row *after);
const ec_ca_row *ec_issuance_next_successor(const ec_issuance *l, const char *serial, const ec_ca_row *after);

/* One line without its end, which is changed: 0 when it is none. For the log and its tests. */
int ec_issuance_parse(char *line, ec_ca_row *ret);

#endif
