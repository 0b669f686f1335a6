/* Sends mails by SMTP (RFC 5321), by libcurl: over TLS from the begin (smtps) or by STARTTLS, which is required unless
 * the server is this machine. Called by: send_worker.c, the command detections send (messages). Thread: its owner's; it
 * waits. */
#ifndef EC_DETECT_MAIL_H
#define EC_DETECT_MAIL_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>

enum {
    EC_MAIL_WAIT_MS = 60000,     /* for one mail, whole, whatever the server answers */
    EC_MAIL_RECIPIENTS_MAX = 32, /* of a mail */
    EC_MAIL_ADDRESS_MAX = 254,   /* bytes of an address */
    EC_MAIL_LOGIN_MAX = 512      /* bytes of a name, of a password */
};

typedef struct ec_mail ec_mail;

typedef struct ec_mail_options {
    const char *url;        /* smtp://HOST:PORT (587 when it has none) or smtps://HOST:PORT (465) */
    const char *ca;         /* a file of certificates in place of the system's; NULL: none */
    const char *from;       /* an address */
    const char *recipients; /* addresses, a line each */
    const char *login;      /* a line with the name, one with the password; NULL: none */
} ec_mail_options;

/* Whether a URL is one of SMTP. */
int ec_mail_is_url(const char *url);

/* Errors: EA_EUSAGE (the URL, an address or the login cannot be used), EA_ENOTFOUND (no libcurl), EA_ENOMEM. */
EA_MUST_CHECK int ec_mail_create(ec_mail **ret, const ec_mail_options *options, ea_err *err);
void ec_mail_destroy(ec_mail *m); /* NULL is allowed */
/* Sends a mail (ec_mail_message), on a connection of its own. 0: the server has taken it. EA_EREFUSED: it will not take
 * this mail, however often it comes (552 or 554, once it has the whole mail). Others may end: EA_ENET, EA_ETLS (also a
 * server without STARTTLS), EA_ETIMEOUT. */
EA_MUST_CHECK int ec_mail_send(ec_mail *m, const char *message, size_t len_bytes, ea_err *err);

/* Makes a mail in t, which is emptied: a text of UTF-8. from, recipients: as above; subject: printable ASCII; number:
 * with from and the time its id. */
void ec_mail_message(ea_text *t, const char *from, const char *recipients, const char *subject, uint64_t number,
                     int64_t utc_ns, const char *text, size_t len_bytes);

#endif
