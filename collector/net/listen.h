/* Addresses of listeners and of their clients. Called by: ingest_server.c, collector/enroll. Reads: an option's text.
 * Thread: any. */
#ifndef EC_NET_LISTEN_H
#define EC_NET_LISTEN_H

#include "proto/base/err.h"

#include <event2/util.h>
#include <stdint.h>

enum { EC_HOST_BYTES = 64 };
struct evhttp_request;

/* "127.0.0.1:8453" or "[::1]:8453" of an option. EA_EUSAGE. */
EA_MUST_CHECK int ec_listen_split(const char *option, const char *listen, char host[EC_HOST_BYTES], uint16_t *ret_port,
                                  ea_err *err);
int ec_is_loopback(const char *host);
/* The port that a socket is bound to; 0: unknown. */
uint16_t ec_listen_port(evutil_socket_t fd);
/* Where a request comes from. */
void ec_listen_peer(struct evhttp_request *http, char out[EC_HOST_BYTES]);
/* The user of this machine whose process sent a request over loopback: 1; 0: it is not known. Reads the kernel's list
 * of connections: for what is rare. */
int ec_listen_peer_user(struct evhttp_request *http, uint32_t *ret);

#endif
