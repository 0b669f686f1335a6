/* Addresses. See listen.h. */
#include "collector/net/listen.h"

#include <arpa/inet.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int ec_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

int ec_listen_split(const char *option, const char *listen, char host[EC_HOST_BYTES], uint16_t *ret_port, ea_err *err) {
    const char *colon = strrchr(listen, ':'), *begin = listen, *end = colon;
    char *rest = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &rest, 10) : 0;
    if (!colon || rest == colon + 1 || *rest || port > UINT16_MAX)
        return ea_fail(err, EA_EUSAGE, "%s '%s': expected an address and a port", option, listen);
    if (*begin == '[' && end > begin + 1 && end[-1] == ']') {
        begin++;
        end--;
    }
    snprintf(host, EC_HOST_BYTES, "%.*s", (int)(end - begin), begin);
    *ret_port = (uint16_t)port;
    return 0;
}

uint16_t ec_listen_port(evutil_socket_t fd) {
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    struct sockaddr_in v4;
    if (getsockname(fd, (struct sockaddr *)&a, &len))
        return 0;
    memcpy(&v4, &a, sizeof v4); /* the port is at the same offset in IPv4 and IPv6 addresses */
    return ntohs(v4.sin_port);
}

void ec_listen_peer(struct evhttp_request *http, char out[EC_HOST_BYTES]) {
    char *address = NULL;
    ev_uint16_t port = 0;
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    if (connection)
        evhttp_connection_get_peer(connection, &address, &port);
    snprintf(out, EC_HOST_BYTES, "%s", address ? address : "");
}
