/* /metrics on loopback, for a Prometheus on this machine: GET alone, one request after the other, each bounded in bytes
 * and time. Called by: cmd_status.c. Clients: a scraper. Thread: its owner's. */
#ifndef EA_APP_METRICS_SERVER_H
#define EA_APP_METRICS_SERVER_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stdint.h>

typedef struct ea_metrics_server ea_metrics_server;

/* Listens at "127.0.0.1:9464" or "[::1]:9464"; port 0: any that is free. EA_EUSAGE: it is no address on loopback. */
EA_MUST_CHECK int ea_metrics_server_open(ea_metrics_server **ret, const char *address, ea_err *err);
/* "http://127.0.0.1:9464/metrics"; the server's. */
const char *ea_metrics_server_url(const ea_metrics_server *s);
/* Waits at most wait_ns for a request, and answers it with the output of put. A request that fails is ignored. */
void ea_metrics_server_serve(ea_metrics_server *s, int64_t wait_ns,
                             void (*put)(void *arg, int open_metrics, ea_text *t), void *arg);
void ea_metrics_server_close(ea_metrics_server *s); /* NULL is allowed */

#endif
