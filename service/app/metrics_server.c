/* See metrics_server.h. */
#include "service/app/metrics_server.h"

#include "proto/base/clock.h"
#include "proto/base/exposition.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <winsock2.h>
#include <ws2tcpip.h>
typedef SOCKET socket_id;
#define poll WSAPoll

enum { SEND_FLAGS = 0 };
#else
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
typedef int socket_id;
#define INVALID_SOCKET (-1)

enum { SEND_FLAGS = MSG_NOSIGNAL };
#endif

enum { HEAD_MAX = 8 << 10, HOST_BYTES = 64, WAITING_MAX = 8 };

static const int64_t REQUEST_NS = INT64_C(2000000000), MS_NS = 1000000;

struct ea_metrics_server {
    socket_id listener;
    char url[HOST_BYTES + 32];
};

static int last_error(void) {
#if defined(_WIN32)
    return WSAGetLastError();
#else
    return errno;
#endif
}

static void close_socket(socket_id s) {
#if defined(_WIN32)
    closesocket(s);
#else
    close(s);
#endif
}

/* "127.0.0.1:9464", "[::1]:9464": 0 or -1. */
static int metrics_server_read_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len_bytes) {
    char host[HOST_BYTES];
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    char *rest = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &rest, 10) : 0;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (!colon || rest == colon + 1 || *rest || port > UINT16_MAX)
        return -1;
    if (*begin == '[' && end > begin + 1 && end[-1] == ']') {
        begin++;
        end--;
    }
    if ((size_t)(end - begin) >= sizeof host)
        return -1;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    memset(ret, 0, sizeof *ret);
    v4.sin_port = v6.sin6_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1 && ntohl(v4.sin_addr.s_addr) >> 24 == 127) {
        memcpy(ret, &v4, sizeof v4);
        *ret_len_bytes = sizeof v4;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) {
        memcpy(ret, &v6, sizeof v6);
        *ret_len_bytes = sizeof v6;
        return 0;
    }
    return -1;
}

static void write_url(ea_metrics_server *s) {
    struct sockaddr_storage at = {0};
    struct sockaddr_in v4;
    socklen_t len = sizeof at;
    (void)getsockname(s->listener, (struct sockaddr *)&at, &len);
    memcpy(&v4, &at, sizeof v4); /* both have the port at the same offset */
    if (at.ss_family == AF_INET6) {
        snprintf(s->url, sizeof s->url, "http://[::1]:%u/metrics", ntohs(v4.sin_port));
        return;
    }
    uint32_t host = ntohl(v4.sin_addr.s_addr);
    snprintf(s->url, sizeof s->url, "http://%u.%u.%u.%u:%u/metrics", host >> 24, host >> 16 & 255, host >> 8 & 255,
             host & 255, ntohs(v4.sin_port));
}

int ea_metrics_server_open(ea_metrics_server **ret, const char *address, ea_err *err) {
    struct sockaddr_storage at;
    socklen_t len = 0;
#if defined(_WIN32)
    WSADATA ignored;
    if (WSAStartup(MAKEWORD(2, 2), &ignored))
        return ea_fail_os(err, EA_EIO, last_error(), "use the network");
#endif
    if (metrics_server_read_address(address, &at, &len))
        return ea_fail(err, EA_EUSAGE, "'%s': an address on loopback and a port are expected, as 127.0.0.1:9464",
                       address);
    ea_metrics_server *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "serve metrics");
    s->listener = socket(at.ss_family, SOCK_STREAM, 0);
    int rc = s->listener != INVALID_SOCKET ? 0 : ea_fail_os(err, EA_EIO, last_error(), "listen on %s", address);
#if !defined(_WIN32) /* there it would let another program take the same port */
    int yes = 1;
    if (!rc)
        (void)setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
#endif
    if (!rc && (bind(s->listener, (struct sockaddr *)&at, len) || listen(s->listener, WAITING_MAX)))
        rc = ea_fail_os(err, EA_EIO, last_error(), "listen on %s", address);
    if (rc) {
        ea_metrics_server_close(s);
        return rc;
    }
    write_url(s);
    *ret = s;
    return 0;
}

const char *ea_metrics_server_url(const ea_metrics_server *s) {
    return s->url;
}

void ea_metrics_server_close(ea_metrics_server *s) {
    if (!s)
        return;
    if (s->listener != INVALID_SOCKET)
        close_socket(s->listener);
    free(s);
}

/* 1 when the socket can be read (written), 0 when the time is over. */
static int metrics_server_wait_for(socket_id s, short what, int64_t ns) {
    struct pollfd p = {.fd = s, .events = what};
    return ns > 0 && poll(&p, 1, (int)((ns + MS_NS - 1) / MS_NS)) > 0;
}

/* Reads up to the empty line after the headers: its length, or 0. */
static size_t read_head(socket_id s, char head[HEAD_MAX + 1], int64_t deadline_ns) {
    size_t n = 0;
    while (n < HEAD_MAX && metrics_server_wait_for(s, POLLIN, deadline_ns - ea_monotonic_ns())) {
        int got = (int)recv(s, head + n, (int)(HEAD_MAX - n), 0);
        if (got <= 0)
            return 0;
        n += (size_t)got;
        head[n] = 0;
        if (strlen(head) != n) /* a NUL inside */
            return 0;
        if (strstr(head, "\r\n\r\n"))
            return n;
    }
    return 0;
}

static void metrics_server_send_all(socket_id s, const char *data, size_t len_bytes, int64_t deadline_ns) {
    while (len_bytes && metrics_server_wait_for(s, POLLOUT, deadline_ns - ea_monotonic_ns())) {
        int sent = (int)send(s, data, (int)(len_bytes < 1 << 16 ? len_bytes : 1 << 16), SEND_FLAGS);
        if (sent <= 0)
            return;
        data += sent;
        len_bytes -= (size_t)sent;
    }
}

/* Whether text begins with a word in lower case. */
static int metrics_server_begins(const char *text, const char *word) {
    while (*word && ea_ascii_lower(*text) == *word)
        text++, word++;
    return !*word;
}

/* The value of a header, up to its line's end; name in lower case, with its colon. NULL: it is not there. */
static const char *header(const char *head, const char *name) {
    for (const char *at = strstr(head, "\r\n"); at; at = strstr(at + 2, "\r\n"))
        if (metrics_server_begins(at + 2, name)) {
            at += 2 + strlen(name);
            return at + strspn(at, " \t");
        }
    return NULL;
}

/* Accepts only numeric addresses and localhost: with any other name a foreign web page could make a local browser read
 * the metrics for it (DNS rebinding). */
static int metrics_server_is_our_name(const char *host) {
    char name[HOST_BYTES];
    struct in_addr v4;
    int is_v6 = host && *host == '[';
    size_t n = host ? strcspn(host, is_v6 ? "]\r" : ":\r") : 0;
    if (!n || n >= sizeof name)
        return 0;
    memcpy(name, host, n);
    name[n] = 0;
    return is_v6 || strcmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &v4) == 1;
}

static int metrics_server_judge(const char *head) {
    static const char PATH[] = "/metrics";
    const char *path = strchr(head, ' ');
    if (!path || strchr(head, '\r') < path)
        return 400;
    if (strncmp(head, "GET ", 4) != 0)
        return 405;
    path++;
    if (strncmp(path, PATH, sizeof PATH - 1) != 0 || (path[sizeof PATH - 1] != ' ' && path[sizeof PATH - 1] != '?'))
        return 404;
    return metrics_server_is_our_name(header(head, "host:")) ? 200 : 421;
}

static void metrics_server_answer(socket_id s, void (*put)(void *arg, int open_metrics, ea_text *t), void *arg) {
    static const struct {
        int status;
        const char *reason;
    } REASONS[] = {{200, "OK"},
                   {400, "Bad Request"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {421, "Misdirected Request"},
                   {500, "Internal Server Error"}};

    char head[HEAD_MAX + 1];
    ea_text body, out;
    int64_t deadline = ea_monotonic_ns() + REQUEST_NS;
    if (!read_head(s, head, deadline))
        return;
    int status = metrics_server_judge(head), is_open = 0;
    const char *accept = header(head, "accept:"), *wanted = strstr(head, "application/openmetrics-text");
    ea_text_init(&body);
    ea_text_init(&out);
    if (status == 200) {
        is_open = accept && wanted && accept <= wanted && wanted < strstr(accept, "\r\n");
        put(arg, is_open, &body);
        if (body.failed)
            status = 500;
    }
    size_t i = 0;
    while (REASONS[i].status != status)
        i++;
    size_t n = status == 200 ? body.len_bytes : 0;
    ea_text_printf(&out,
                   "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nX-Content-Type-Options: nosniff\r\n"
                   "Connection: close\r\n\r\n",
                   status, REASONS[i].reason, is_open ? EA_EXPOSITION_OPEN_METRICS : EA_EXPOSITION_PROMETHEUS, n);
    if (n)
        ea_text_add(&out, body.data, n);
    if (!out.failed)
        metrics_server_send_all(s, out.data, out.len_bytes, deadline);
    ea_text_deinit(&body);
    ea_text_deinit(&out);
}

void ea_metrics_server_serve(ea_metrics_server *s, int64_t wait_ns,
                             void (*put)(void *arg, int open_metrics, ea_text *t), void *arg) {
    socket_id one =
        metrics_server_wait_for(s->listener, POLLIN, wait_ns) ? accept(s->listener, NULL, NULL) : INVALID_SOCKET;
    if (one == INVALID_SOCKET) /* no client, or the client has already disconnected */
        return;
#if defined(_WIN32)
    DWORD timeout = (DWORD)(REQUEST_NS / MS_NS);
#else
    struct timeval timeout = {.tv_sec = REQUEST_NS / 1000000000};
#endif
    /* a slow reader does not hold up a write for longer */
    (void)setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, (const char *)&timeout, sizeof timeout);
    metrics_server_answer(one, put, arg);
    close_socket(one);
}
