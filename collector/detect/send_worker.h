/* The process that sends detections: it talks to a receiver, so it gives up all but the network, the files that
 * connections need and certificates; it has no store. Called by: the command detections send, main() (the child's).
 * Calls: webhook.h, syslog.h, mail.h, collector/sandbox. Thread: the owner's. */
#ifndef EC_DETECT_SEND_WORKER_H
#define EC_DETECT_SEND_WORKER_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stddef.h>

#define EC_SEND_WORKER_NAME "send-worker"

typedef struct ec_send_worker ec_send_worker;

typedef struct ec_send_options {
    const char *to;                             /* a URL of webhook.h, syslog.h or mail.h */
    const char *ca;                             /* a file of certificates in place of the system's; NULL: none */
    const char *headers;                        /* of ec_webhook_options; NULL: none */
    const char *mail_from, *recipients, *login; /* of ec_mail_options; NULL: none */
    atomic_int *stop;                           /* looked at while it waits; may be NULL */
} ec_send_options;

/* Starts the process, with copies of the texts. Errors: of ec_webhook_create, ec_syslog_create and ec_mail_create, of
 * ec_child_start.
 */
EA_MUST_CHECK int ec_send_worker_start(ec_send_worker **ret, const ec_send_options *options, ea_err *err);
void ec_send_worker_end(ec_send_worker *w); /* NULL is allowed */
/* Sends a text: as ec_webhook_post, ec_syslog_send and ec_mail_send. EA_ECANCELED: *stop. EA_EIO: the process has
 * ended; the next call starts it again. */
EA_MUST_CHECK int ec_send_worker_post(ec_send_worker *w, const char *text, size_t len_bytes, ea_err *err);

/* The child's main(): returns its exit code. */
int ec_send_worker_main(void);

#endif
