/* Fuzz target: the collector's front door, sockets and all. First byte: bit 0: the rest is HTTP inside TLS, by an agent
 * that was let in (else it is what a stranger sends in place of a handshake); bit 1: it comes in two pieces. Whatever
 * it is, the server answers in HTTP or closes the connection, within its deadlines; and others are served all the same.
 */
#include "collector/ca/ca.h"
#include "collector/ingest/ingest.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    DEADLINE_S = 60,        /* more than the server's own */
    PATIENCE_MS = 3,        /* for an answer, before the client says that nothing follows */
    INPUTS_A_QUESTION = 16, /* after so many inputs a health check follows */
    ANSWER_BYTES = 1 << 16,
    CONNECT_ATTEMPTS = 8,
};

typedef struct door {
    ea_counters counters;
    ec_store *store;
    ec_ingest *ingest;
    SSL_CTX *tls;
    SSL_SESSION *session;
    struct sockaddr_in address;
    unsigned inputs;
} door;

static door the_door;

static void must_at(int condition, int line) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_front.c:%d does not hold\n", line);
    abort();
}

#define must(condition) must_at(condition, __LINE__)

static void close_door(void) {
    ec_ingest_stop(the_door.ingest);
    ec_store_close(the_door.store);
    SSL_SESSION_free(the_door.session);
    SSL_CTX_free(the_door.tls);
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    (void)ssl;
    SSL_SESSION_free(the_door.session);
    the_door.session = session;
    return 1;
}

static const char *in_folder(const char *name) {
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void open_door(door *d) {
    static const char *const SANS[] = {"IP:127.0.0.1"};
    static const ec_ca_request REQUESTS[] = {{.name = "server", .server = 1, .sans = SANS, .san_count = 1, .days = 30},
                                             {.name = "fuzz", .days = 30}};
    static char cert[128], key[128], ca[128], crl[128], store[128];
    ea_err err;
    signal(SIGPIPE, SIG_IGN);
    folder_make("front");
    must(ec_ca_init(folder, &(ec_ca_init_options){.name = "fuzz ca", .days = 30}, &err) == 0 &&
         ec_ca_issue(folder, REQUESTS, 2, NULL, &err) == 0);
    snprintf(cert, sizeof cert, "%s/server.crt", folder);
    snprintf(key, sizeof key, "%s/server.key", folder);
    snprintf(ca, sizeof ca, "%s/ca.crt", folder);
    snprintf(crl, sizeof crl, "%s/ca.crl", folder);
    snprintf(store, sizeof store, "%s/store", folder);
    must(ec_store_open(&d->store, store, &(ec_store_options){.writable = 1, .counters = &d->counters}, &err) == 0);
    const ec_ingest_options options = {.listen = "127.0.0.1:0",
                                       .cert_path = cert,
                                       .key_path = key,
                                       .ca_path = ca,
                                       .crl_path = crl,
                                       .max_body_bytes = 1 << 20,
                                       .limits.handshake_ns = (int64_t)20e9,
                                       .limits.body_ns = (int64_t)2e9,
                                       .limits.idle_ns = (int64_t)4e9,
                                       .store = d->store,
                                       .counters = &d->counters};
    must(ec_ingest_start(&d->ingest, &options, &err) == 0);
    d->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ec_ingest_port(d->ingest))};
    d->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    d->tls = SSL_CTX_new(TLS_client_method());
    must(d->tls && SSL_CTX_load_verify_locations(d->tls, ca, NULL) == 1);
    must(SSL_CTX_use_certificate_file(d->tls, in_folder("fuzz.crt"), SSL_FILETYPE_PEM) == 1);
    must(SSL_CTX_use_PrivateKey_file(d->tls, in_folder("fuzz.key"), SSL_FILETYPE_PEM) == 1);
    SSL_CTX_set_verify(d->tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(d->tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(d->tls, keep_session);
    atexit(close_door);
}

/* A busy machine, not the collector, is the cause: its queue of connections is full, or no port is free at the moment.
 */
static int is_transient(int error) {
    return error == EINTR || error == EAGAIN || error == ETIMEDOUT || error == ECONNRESET || error == EADDRNOTAVAIL ||
           error == ENOBUFS || error == ENOMEM;
}

/* Without a deadline: on a busy machine the queue of accepted connections may be full for a while. */
static int connected(const door *d) {
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    for (int attempt = 0;; attempt++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(fd >= 0);
        if (connect(fd, (const struct sockaddr *)&d->address, sizeof d->address) == 0)
            return fd;
        int error = errno;
        close(fd);
        if (!is_transient(error) || attempt + 1 == CONNECT_ATTEMPTS) {
            char text[128];
            ea_os_error_text(error, text, sizeof text);
            fprintf(stderr, "fuzz_front.c: connect, attempt %d: %s\n", attempt + 1, text);
            abort();
        }
        nanosleep(&pause, NULL);
    }
}

static int open_socket(const door *d) {
    const struct timeval timeout = {.tv_sec = DEADLINE_S};
    const struct linger at_once = {.l_onoff = 1}; /* no port waits for what is over */
    const int one = 1;
    int fd = connected(d);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static SSL *open_tls(door *d, int fd) {
    SSL *ssl = SSL_new(d->tls);
    must(ssl != NULL);
    SSL_set_fd(ssl, fd);
    if (d->session) { /* a copy: OpenSSL spoils the session of a connection that was not shut down in order */
        SSL_SESSION *copy = SSL_SESSION_dup(d->session);
        SSL_set_session(ssl, copy);
        SSL_SESSION_free(copy);
    }
    if (SSL_connect(ssl) != 1) { /* its deadline passed: the machine has other work */
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    return ssl;
}

static void wait_a_moment(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)poll(&p, 1, PATIENCE_MS);
}

/* The status of an HTTP answer; it is one. libevent answers in the version that it was asked in, be it HTTP/-1.1. */
static int status_of(const char *answer, size_t n) {
    const char *status = n > 5 && memcmp(answer, "HTTP/", 5) == 0 ? memchr(answer, ' ', n) : NULL;
    must(status != NULL && answer + n - status >= 5 && status[4] == ' ');
    return atoi(status + 1);
}

/* The status of the first answer that is not "100 Continue", which precedes another one; 0: there is none. */
static int final_status(const char *answer, size_t n) {
    while (n) {
        int status = status_of(answer, n);
        const char *end = strstr(answer, "\r\n\r\n");
        if (status != 100)
            return status;
        must(end != NULL);
        n -= (size_t)(end + 4 - answer);
        answer = end + 4;
    }
    return 0;
}

/* What is HTTP, by an agent: answered, or the connection is closed. Returns the first answer's status, 0 without one.
 */
static int as_agent(door *d, const uint8_t *data, size_t size, int in_pieces, int is_whole) {
    static char answer[ANSWER_BYTES];
    int fd = open_socket(d);
    SSL *ssl = open_tls(d, fd);
    if (!ssl) {
        close(fd);
        return 0;
    }
    size_t half = in_pieces ? size / 2 : size, n = 0, got;
    int ok = !half || SSL_write_ex(ssl, data, half, &got) == 1;
    if (ok && half < size)
        ok = SSL_write_ex(ssl, data + half, size - half, &got) == 1;
    if (ok && !is_whole) { /* a whole question is answered, and the server closes */
        wait_a_moment(fd);
        (void)SSL_shutdown(ssl);
        (void)shutdown(fd, SHUT_WR);
    }
    int64_t begin = ea_monotonic_ns();
    while (n < sizeof answer - 1 && SSL_read_ex(ssl, answer + n, sizeof answer - 1 - n, &got) == 1)
        n += got;
    must(ea_monotonic_ns() - begin < (int64_t)DEADLINE_S * 1000000000);
    answer[n] = 0;
    int status = final_status(answer, n);
    SSL_free(ssl);
    close(fd);
    ERR_clear_error();
    return status;
}

/* Sends bytes that are no TLS handshake. The server must never answer in plain text. */
static void as_stranger(door *d, const uint8_t *data, size_t size, int in_pieces) {
    char answer[4096];
    int fd = open_socket(d);
    size_t half = in_pieces ? size / 2 : size;
    ssize_t n = send(fd, data, half, MSG_NOSIGNAL);
    if (n >= 0 && half < size)
        (void)!send(fd, data + half, size - half, MSG_NOSIGNAL);
    wait_a_moment(fd);
    (void)shutdown(fd, SHUT_WR);
    int64_t begin = ea_monotonic_ns();
    while ((n = recv(fd, answer, sizeof answer, 0)) > 0)
        must(n < 5 || memcmp(answer, "HTTP/", 5) != 0);
    must(ea_monotonic_ns() - begin < (int64_t)DEADLINE_S * 1000000000);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char QUESTION[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    door *d = &the_door;
    if (!d->ingest)
        open_door(d);
    if (!size)
        return 0;
    if (data[0] & 1) {
        int status = as_agent(d, data + 1, size - 1, data[0] & 2, 0);
        must(status == 0 || (status >= 200 && status <= 505));
    } else {
        as_stranger(d, data + 1, size - 1, data[0] & 2);
    }
    if (++d->inputs % INPUTS_A_QUESTION == 1) {
        int status = 0; /* a handshake may take a busy machine too long */
        for (int i = 0; i < 3 && !status; i++)
            status = as_agent(d, (const uint8_t *)QUESTION, sizeof QUESTION - 1, 0, 1);
        must(status == 200);
    }
    return 0;
}
