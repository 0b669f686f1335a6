/* A client that sends TLS KeyUpdate messages as fast as it can, over connections that it opens again when they are
 * closed (tests/attacks/test_key_updates.py). usage: key_updates PORT CERT KEY CONNECTIONS SECONDS     CERT, KEY: PEM
 * files, or - for none Ends when standard input does, at the latest after SECONDS; prints "opened N closed N updates
 * N". */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, ROUND = 100 };

static SSL *open_connection(SSL_CTX *ctx, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    SSL *ssl = SSL_new(ctx);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || !ssl || connect(fd, (struct sockaddr *)&to, sizeof to) || !SSL_set_fd(ssl, fd) ||
        SSL_connect(ssl) != 1) {
        SSL_free(ssl);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return ssl;
}

static void close_connection(SSL **ssl) {
    int fd = SSL_get_fd(*ssl);
    SSL_free(*ssl);
    close(fd);
    *ssl = NULL;
}

/* 0: the other side closed the connection. */
static int send_updates(SSL *ssl, unsigned long *updates) {
    for (int i = 0; i < ROUND; i++) {
        (void)SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        int rc = SSL_do_handshake(ssl);
        if (rc == 1) {
            ++*updates;
            continue;
        }
        int error = SSL_get_error(ssl, rc);
        return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
    }
    return 1;
}

int main(int argc, char **argv) {
    SSL *open[CONNECTIONS_MAX] = {NULL};
    unsigned long opened = 0, closed = 0, updates = 0;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (argc != 6 || !ctx || atoi(argv[4]) > CONNECTIONS_MAX)
        return 2;
    int port = atoi(argv[1]), count = atoi(argv[4]);
    time_t end = time(NULL) + atoi(argv[5]);
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[2], "-") != 0 && (SSL_CTX_use_certificate_file(ctx, argv[2], SSL_FILETYPE_PEM) != 1 ||
                                      SSL_CTX_use_PrivateKey_file(ctx, argv[3], SSL_FILETYPE_PEM) != 1))
        return 2;
    puts("ready");
    fflush(stdout);
    for (struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN}; time(NULL) < end && poll(&input, 1, 0) == 0;) {
        for (int i = 0; i < count; i++) {
            if (!open[i] && (open[i] = open_connection(ctx, port)))
                opened++;
            if (open[i] && !send_updates(open[i], &updates)) {
                close_connection(&open[i]);
                closed++;
            }
            ERR_clear_error();
        }
    }
    for (int i = 0; i < count; i++)
        if (open[i])
            close_connection(&open[i]);
    SSL_CTX_free(ctx);
    printf("opened %lu closed %lu updates %lu\n", opened, closed, updates);
    return 0;
}
