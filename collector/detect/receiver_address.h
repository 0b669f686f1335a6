/* Where a receiver is: a host and a port out of a URL. Called by: syslog.c, mail.c. Thread: any. */
#ifndef EC_DETECT_RECEIVER_ADDRESS_H
#define EC_DETECT_RECEIVER_ADDRESS_H

#include <stddef.h>

enum { EC_RECEIVER_HOST_BYTES = 512, EC_RECEIVER_PORT_BYTES = 6 };

typedef struct ec_receiver_address {
    char host[EC_RECEIVER_HOST_BYTES], port[EC_RECEIVER_PORT_BYTES]; /* host: an IPv6 address without its brackets */
    int is_v6;
} ec_receiver_address;

/* How a receiver is reached. */
typedef struct ec_receiver_way {
    const char *scheme; /* with "://" */
    const char *port;   /* of an address without */
} ec_receiver_way;

/* The place of the way whose scheme a URL has, in any case; count: none has it. */
size_t ec_receiver_way_of(const ec_receiver_way *ways, size_t count, const char *url);
/* What follows SCHEME://: HOST or HOST:PORT, and perhaps a slash. port: the one of an address without. 0: it is none.
 */
int ec_receiver_address_read(const char *at, const char *port, ec_receiver_address *ret);
/* Whether the host is this machine by its name: localhost, 127.x.x.x or ::1. */
int ec_receiver_is_local(const ec_receiver_address *a);

#endif
