/* Sends texts to a syslog receiver: messages of RFC 5424 over TLS (RFC 5425) or TCP (RFC 6587, octet counting), by
 * libcurl's connections, or over UDP (RFC 5426). Called by: send_worker.c, the command detections send (messages).
 * Thread: its owner's; it waits.
 *
 * Syslog has no answer. By TCP and TLS a message is taken for accepted when the receiver's system has acknowledged all
 * of its bytes and the connection is open; what its program has not read when it ends is lost. By UDP it is taken for
 * accepted when it was sent. */
#ifndef EC_DETECT_SYSLOG_H
#define EC_DETECT_SYSLOG_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>

enum {
    EC_SYSLOG_WAIT_MS = 10000,    /* for a connection, and for the acknowledgement of a message */
    EC_SYSLOG_UDP_BYTES = 65507,  /* of a message; a longer one is refused */
    EC_SYSLOG_FACILITY_COUNT = 24 /* numbers of RFC 5424 */
};

typedef struct ec_syslog ec_syslog;

/* Whether a URL is one of syslog. */
int ec_syslog_is_url(const char *url);

/* url: syslog+tls://HOST:PORT (6514 when it has none), syslog+tcp://HOST:PORT (601), syslog+udp://HOST:PORT (514). ca:
 * a file of certificates in place of the system's; NULL: none. Errors: EA_EUSAGE (the URL cannot be used), EA_ENOTFOUND
 * (no libcurl), EA_ENOMEM. Connects when something is sent. */
EA_MUST_CHECK int ec_syslog_create(ec_syslog **ret, const char *url, const char *ca, ea_err *err);
void ec_syslog_destroy(ec_syslog *s); /* NULL is allowed */
/* 0: it is taken for accepted (see above). EA_EREFUSED: too long for UDP. Others may end: EA_ENET, EA_ETLS,
 * EA_ETIMEOUT. */
EA_MUST_CHECK int ec_syslog_send(ec_syslog *s, const char *message, size_t len_bytes, ea_err *err);

/* Makes a message of a detection in t, which is emptied: severity by level, the event's time and its host, and the JSON
 * as text, of ASCII alone (other characters as \uXXXX), so that it needs no mark of its encoding. */
void ec_syslog_message(ea_text *t, int facility, const char *level, int64_t utc_ns, const char *host, const char *json,
                       size_t len_bytes);

#endif
