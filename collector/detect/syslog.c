/* See syslog.h. */
#include "collector/detect/syslog.h"

#include "collector/detect/receiver_address.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/curl/curl.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LOOK_MS = 10,
    HOST_TEXT_MAX = 255,
    UNASKED_MAX_BYTES = 64 << 10, /* that a receiver has sent since the last look */
};

enum syslog_way { SYSLOG_TLS, SYSLOG_TCP, SYSLOG_UDP, SYSLOG_WAYS };

static const ec_receiver_way WAYS[SYSLOG_WAYS] = {
    {"syslog+tls://", "6514"}, {"syslog+tcp://", "601"}, {"syslog+udp://", "514"}};
static const char *const CONNECTS[SYSLOG_WAYS] = {"https", "http", NULL}; /* the URL by which libcurl connects */

struct ec_syslog {
    enum syslog_way way;
    ec_receiver_address at;
    char *ca;
    ea_curl lib;
    int fd; /* of the connection, which libcurl has, or of UDP; -1: none */
    ea_text frame;
};

/* ---- the address ---- */

int ec_syslog_is_url(const char *url) {
    return ec_receiver_way_of(WAYS, SYSLOG_WAYS, url) < SYSLOG_WAYS;
}

int ec_syslog_create(ec_syslog **ret, const char *url, const char *ca, ea_err *err) {
    size_t way = ec_receiver_way_of(WAYS, SYSLOG_WAYS, url);
    ec_syslog *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "prepare a connection");
    s->way = (enum syslog_way)way;
    s->fd = -1;
    ea_text_init(&s->frame);
    int rc = way < SYSLOG_WAYS && ec_receiver_address_read(url + strlen(WAYS[way].scheme), WAYS[way].port, &s->at)
                 ? 0
                 : ea_fail(err, EA_EUSAGE,
                           "expected syslog+tls://HOST:PORT, syslog+tcp://HOST:PORT or syslog+udp://HOST:PORT");
    if (!rc && ca && !(s->ca = strdup(ca)))
        rc = ea_fail(err, EA_ENOMEM, "prepare a connection");
    if (!rc && way != SYSLOG_UDP) { /* a missing library is found now */
        rc = ea_curl_open(&s->lib, err);
        ea_curl_close(&s->lib);
    }
    if (rc) {
        ec_syslog_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static void syslog_disconnect(ec_syslog *s) {
    if (s->way == SYSLOG_UDP && s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    ea_curl_close(&s->lib);
}

void ec_syslog_destroy(ec_syslog *s) {
    if (!s)
        return;
    syslog_disconnect(s);
    ea_text_deinit(&s->frame);
    free(s->ca);
    free(s);
}

static int syslog_failed(const ec_syslog *s, int code, const char *why, ea_err *err) {
    return ea_fail(err, code, "send to %.255s port %s: %s", s->at.host, s->at.port, why);
}

static int syslog_failed_os(const ec_syslog *s, int os_error, ea_err *err) {
    return ea_fail_os(err, EA_ENET, os_error, "send to %.255s port %s", s->at.host, s->at.port);
}

/* ---- TCP and TLS ---- */

static int curl_failed(const ec_syslog *s, CURLcode code, ea_err *err) {
    return syslog_failed(s,
                         code == CURLE_OPERATION_TIMEDOUT                                            ? EA_ETIMEOUT
                         : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ? EA_ETLS
                                                                                                     : EA_ENET,
                         s->lib.easy_strerror(code), err);
}

static int connect_stream(ec_syslog *s, ea_err *err) {
    char url[EC_RECEIVER_HOST_BYTES + 32];
    CURLcode bad = CURLE_OK;
    curl_socket_t fd = CURL_SOCKET_BAD;
    int rc = ea_curl_open(&s->lib, err);
    if (rc)
        return rc;
    snprintf(url, sizeof url, "%s://%s%s%s:%s/", CONNECTS[s->way], s->at.is_v6 ? "[" : "", s->at.host,
             s->at.is_v6 ? "]" : "", s->at.port);
    EA_CURL_SET(&s->lib, bad, CURLOPT_URL, url);
    EA_CURL_SET(&s->lib, bad, CURLOPT_CONNECT_ONLY, 1L);
    EA_CURL_SET(&s->lib, bad, CURLOPT_PROXY, ""); /* one of HTTP is none of syslog */
    EA_CURL_SET(&s->lib, bad, CURLOPT_SSL_ENABLE_ALPN, 0L);
    EA_CURL_SET(&s->lib, bad, CURLOPT_TIMEOUT_MS, (long)EC_SYSLOG_WAIT_MS);
    if (s->ca)
        EA_CURL_SET(&s->lib, bad, CURLOPT_CAINFO, s->ca);
    rc = ea_curl_check(&s->lib, bad, err);
    CURLcode code = rc ? CURLE_OK : s->lib.easy_perform(s->lib.handle);
    if (!rc && code == CURLE_OK)
        code = s->lib.easy_getinfo(s->lib.handle, CURLINFO_ACTIVESOCKET, &fd);
    if (!rc && code != CURLE_OK)
        rc = curl_failed(s, code, err);
    if (!rc && fd == CURL_SOCKET_BAD)
        rc = syslog_failed(s, EA_ENET, "the connection is closed", err);
    if (rc)
        syslog_disconnect(s);
    else
        s->fd = (int)fd;
    return rc;
}

/* Whether the receiver has closed the connection: why, or NULL. What it sends is not read. A receiver that
 * keeps sending would hold the sender here, and hides whether it closes. */
static const char *find_end(ec_syslog *s) {
    char unused[4096];
    size_t n = 0, total = 0;
    CURLcode code;
    while ((code = s->lib.easy_recv(s->lib.handle, unused, sizeof unused, &n)) == CURLE_OK && n)
        if ((total += n) > UNASKED_MAX_BYTES)
            return "the receiver sends more than 64 KiB, which is no syslog";
    return code == CURLE_AGAIN ? NULL : "the receiver closed the connection";
}

static int write_frame(ec_syslog *s, int64_t deadline_ns, ea_err *err) {
    for (size_t at = 0; at < s->frame.len_bytes;) {
        size_t n = 0;
        CURLcode code = s->lib.easy_send(s->lib.handle, s->frame.data + at, s->frame.len_bytes - at, &n);
        if (code != CURLE_OK && code != CURLE_AGAIN)
            return curl_failed(s, code, err);
        at += code == CURLE_OK ? n : 0;
        if (code == CURLE_AGAIN) {
            struct pollfd p = {.fd = s->fd, .events = POLLOUT};
            (void)poll(&p, 1, LOOK_MS * 10);
        }
        if (at < s->frame.len_bytes && ea_monotonic_ns() > deadline_ns)
            return syslog_failed(s, EA_ETIMEOUT, "the receiver reads nothing", err);
    }
    return 0;
}

/* Until the receiver's system has all bytes. */
static int wait_acknowledged(ec_syslog *s, int64_t deadline_ns, ea_err *err) {
    for (;;) {
        struct tcp_info info = {0};
        socklen_t len = sizeof info;
        if (getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
            return syslog_failed_os(s, errno, err);
        if (!info.tcpi_unacked && !info.tcpi_notsent_bytes)
            return 0;
        if (ea_monotonic_ns() > deadline_ns)
            return syslog_failed(s, EA_ETIMEOUT, "the receiver acknowledges nothing", err);
        ea_sleep_ns(INT64_C(1000000));
    }
}

static int send_stream(ec_syslog *s, ea_err *err) {
    const char *end = NULL;
    int rc = 0;
    if (s->fd >= 0 && find_end(s))
        syslog_disconnect(s);
    if (s->fd < 0)
        rc = connect_stream(s, err);
    if (rc)
        return rc;
    int64_t deadline_ns = ea_monotonic_ns() + INT64_C(1000000) * EC_SYSLOG_WAIT_MS;
    rc = write_frame(s, deadline_ns, err);
    if (!rc)
        rc = wait_acknowledged(s, deadline_ns, err);
    if (!rc && (end = find_end(s)))
        rc = syslog_failed(s, EA_ENET, end, err);
    if (rc)
        syslog_disconnect(s);
    return rc;
}

/* ---- UDP ---- */

static int connect_datagrams(ec_syslog *s, ea_err *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(s->at.host, s->at.port, &hints, &found), os_error = 0;
    if (code)
        return syslog_failed(s, EA_ENET, gai_strerror(code), err);
    for (struct addrinfo *a = found; a && s->fd < 0; a = a->ai_next) {
        s->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s->fd < 0 || connect(s->fd, a->ai_addr, a->ai_addrlen)) {
            os_error = errno;
            syslog_disconnect(s);
        }
    }
    freeaddrinfo(found);
    return s->fd < 0 ? syslog_failed_os(s, os_error, err) : 0;
}

/* A receiver that is not there answers by ICMP, which the next message fails with: that one is sent again. */
static int send_datagram(ec_syslog *s, const char *message, size_t len_bytes, ea_err *err) {
    if (len_bytes > EC_SYSLOG_UDP_BYTES)
        return syslog_failed(s, EA_EREFUSED, "the message is too long for UDP", err);
    int rc = s->fd < 0 ? connect_datagrams(s, err) : 0;
    if (rc)
        return rc;
    ssize_t n = send(s->fd, message, len_bytes, MSG_NOSIGNAL);
    if (n == (ssize_t)len_bytes)
        return 0;
    int os_error = errno;
    syslog_disconnect(s);
    return os_error == EMSGSIZE ? syslog_failed(s, EA_EREFUSED, "the message is too long for UDP", err)
                                : syslog_failed_os(s, os_error, err);
}

int ec_syslog_send(ec_syslog *s, const char *message, size_t len_bytes, ea_err *err) {
    if (s->way == SYSLOG_UDP)
        return send_datagram(s, message, len_bytes, err);
    ea_text_clear(&s->frame);
    ea_text_printf(&s->frame, "%zu ", len_bytes);
    ea_text_add(&s->frame, message, len_bytes);
    return s->frame.failed ? ea_fail(err, EA_ENOMEM, "send a message") : send_stream(s, err);
}

/* ---- messages ---- */

/* The character at the begin of a text of UTF-8, and its bytes; U+FFFD and 1 for what is none. */
static uint32_t character_of(const uint8_t *at, size_t len, size_t *ret_bytes) {
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *at >= 0xf0 && *at < 0xf5 ? 4 : *at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xc2 && *at < 0xe0 ? 2 : 0;
    *ret_bytes = 1;
    if (!n || n > len)
        return 0xfffd;
    uint32_t code = *at & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0xfffd;
        code = code << 6 | (at[i] & 0x3fu);
    }
    if (code < LEAST[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0xfffd;
    *ret_bytes = n;
    return code;
}

/* All that is not ASCII is in texts of the JSON. */
static void add_ascii(ea_text *t, const char *json, size_t len_bytes) {
    for (size_t i = 0, n; i < len_bytes; i += n) {
        uint8_t c = (uint8_t)json[i];
        n = 1;
        if (c < 0x80) {
            ea_text_char(t, json[i]);
            continue;
        }
        uint32_t code = character_of((const uint8_t *)json + i, len_bytes - i, &n);
        if (code >= 0x10000)
            ea_text_printf(t, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((code - 0x10000) >> 10),
                           0xdc00 + ((code - 0x10000) & 0x3ff));
        else
            ea_text_printf(t, "\\u%04" PRIx32, code);
    }
}

/* Critical, error, warning, notice, informational of RFC 5424. */
static int syslog_severity_of(const char *level) {
    static const char *const LEVELS[] = {"critical", "high", "medium", "low", "informational"};

    enum { FIRST = 2, NOTICE = 5 };

    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        if (strcasecmp(level, LEVELS[i]) == 0)
            return FIRST + (int)i;
    return NOTICE;
}

void ec_syslog_message(ea_text *t, int facility, const char *level, int64_t utc_ns, const char *host, const char *json,
                       size_t len_bytes) {
    enum { DIGITS_LESS = 2 }; /* the seventh, and Z */

    ea_text_clear(t);
    ea_text_printf(t, "<%d>1 ", facility * 8 + syslog_severity_of(level));
    ea_text_utc_ns(t, utc_ns);
    if (!t->failed)
        t->len_bytes -= DIGITS_LESS;
    ea_text_str(t, "Z ");
    size_t begin = t->len_bytes;
    for (const char *at = host; *at && t->len_bytes - begin < HOST_TEXT_MAX; at++)
        ea_text_char(t, *at > ' ' && *at < 0x7f ? *at : '_');
    ea_text_str(t, t->len_bytes == begin ? "- etwcollector - detection - " : " etwcollector - detection - ");
    add_ascii(t, json, len_bytes);
}
