/* Addresses. See listen.h. */
#include "collector/net/listen.h"

#include "proto/base/text.h"

#include <arpa/inet.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
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

enum { PLACE_BYTES = 48 };

/* An address and a port as /proc/net/tcp and tcp6 write them: words of the kernel's byte order. */
static int put_place(const struct sockaddr_storage *a, char out[PLACE_BYTES]) {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint32_t words[4];
    if (a->ss_family == AF_INET) {
        memcpy(&v4, a, sizeof v4);
        snprintf(out, PLACE_BYTES, "%08" PRIX32 ":%04X", v4.sin_addr.s_addr, (unsigned)ntohs(v4.sin_port));
    } else if (a->ss_family == AF_INET6) {
        memcpy(&v6, a, sizeof v6);
        memcpy(words, &v6.sin6_addr, sizeof words);
        snprintf(out, PLACE_BYTES, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", words[0], words[1],
                 words[2], words[3], (unsigned)ntohs(v6.sin6_port));
    } else {
        return -1;
    }
    return 0;
}

/* The words of a line, from 0. */
static const char *word_at(const char *line, int which) {
    line += strspn(line, " ");
    for (; which; which--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

static int listen_is_word(const char *at, const char *word) {
    size_t n = strlen(word);
    return strncmp(at, word, n) == 0 && at[n] == ' ';
}

int ec_listen_peer_user(struct evhttp_request *http, uint32_t *ret) {
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    struct bufferevent *bev = connection ? evhttp_connection_get_bufferevent(connection) : NULL;
    struct sockaddr_storage own, theirs;
    socklen_t own_len = sizeof own, their_len = sizeof theirs;
    char to[PLACE_BYTES], from[PLACE_BYTES], line[512];
    uint64_t user = 0;
    int found = 0, fd = bev ? (int)bufferevent_getfd(bev) : -1;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&own, &own_len) ||
        getpeername(fd, (struct sockaddr *)&theirs, &their_len) || put_place(&own, to) || put_place(&theirs, from))
        return 0;
    FILE *list = fopen(own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    while (list && !found && fgets(line, sizeof line, list)) {
        enum { FROM = 1, TO = 2, USER = 7 };

        const char *digits = word_at(line, USER);
        found = listen_is_word(word_at(line, FROM), from) && listen_is_word(word_at(line, TO), to) &&
                ea_digits_parse(&digits, 10, &user);
    }
    if (list)
        fclose(list);
    *ret = (uint32_t)user;
    return found;
}
