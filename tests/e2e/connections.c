/* A load client: one process that is thousands of agents. Each has its own certificate (signed here with the test's CA
 * key), its own TLS 1.3 connection to the collector on loopback and its own stream; they stay idle, or send a batch
 * each, and come back after the collector was restarted, with their TLS sessions.
 *
 *   connections --port P --ca ca.crt --ca-key ca.key --count N [--batch FILE] [--handshakes M] [--prefix NAME]
 *
 * Commands come on standard input, one a line, one at a time; each is answered with one line of JSON:
 *   connect SECONDS   brings up every connection that is down; a failed one tries again after a random wait that grows
 *   send SECONDS      each connection sends one batch, at a random moment of that time; how long until the
 * acknowledgements idle SECONDS      does nothing down SECONDS      waits until every connection has been closed by the
 * other side It ends when its input does.
 *
 * Called by: tests/e2e/test_connections.py. Calls: the collector. Thread: one, around an epoll. */
#include "proto/base/platform.h"
#include "proto/wire/ack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    PER_ADDRESS = 12000, /* connections from one source address: there are about 28,000 ports */
    MAX_ANSWER = 1 << 20,
    MAX_COUNT = 200000,
    WAIT_FIRST_MS = 200, /* before a failed connection tries again; at the most, and doubling */
    WAIT_MOST_MS = 5000,
};

enum state { DOWN, WAITING, CONNECTING, SHAKING, UP };

typedef struct conn {
    enum state state;
    int fd;
    SSL *ssl;
    SSL_SESSION *session; /* of the last connection; NULL: none yet */
    X509 *cert;
    uint32_t tries;
    int64_t wait_until_ns;
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number; /* of the next batch */
    /* the request under way */
    int64_t due_ns; /* 0: none */
    char *out;      /* not sent yet from out_at on; NULL: all is sent */
    size_t out_len, out_at;
    char *in;
    size_t in_len, in_capacity;
} conn;

typedef struct client {
    /* options */
    uint16_t port;
    uint32_t count, handshakes;
    const char *prefix;
    char *batch;
    size_t batch_bytes;
    SSL_CTX *ctx;
    X509 *ca;
    EVP_PKEY *ca_key, *key;
    int conn_index; /* of an SSL object's pointer to its conn */
    /* state */
    int epoll;
    conn *conns;
    uint32_t *order; /* in which they send */
    uint64_t random;
    char input[256];
    size_t input_len;
    int input_over;
    uint32_t up, shaking;
    /* the command under way */
    char command[16];
    int64_t began_ns, until_ns;
    uint32_t next_to_send;
    double seconds;
    int64_t *latencies_ns;
    uint32_t answered, acknowledged, refused, failed, resumed, handshaken, dropped;
    char trouble[640]; /* the first thing that went wrong */
} client;

static const int64_t SECOND_NS = INT64_C(1000000000), MS_NS = 1000000;

static _Noreturn void die(const char *what) {
    char text[256] = "";
    unsigned long code = ERR_get_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    else if (errno)
        ea_os_error_text(errno, text, sizeof text);
    fprintf(stderr, "connections: %s: %s\n", what, text);
    exit(1);
}

static uint64_t next_random(client *k) { /* xorshift64* */
    k->random ^= k->random >> 12;
    k->random ^= k->random << 25;
    k->random ^= k->random >> 27;
    return k->random * 0x2545f4914f6cdd1du;
}

static void trouble(client *k, const char *what, const char *detail) {
    if (!k->trouble[0])
        snprintf(k->trouble, sizeof k->trouble, "%s: %s", what, detail);
}

/* ---- identities ---- */

/* A certificate for one agent. They share a key: what is under test is the collector. */
static X509 *issue(client *k, uint32_t index) {
    char name[64];
    snprintf(name, sizeof name, "%s-%05u", k->prefix, index);
    X509 *cert = X509_new();
    X509_NAME *subject = X509_NAME_new();
    const EVP_MD *digest = EVP_PKEY_is_a(k->ca_key, "ED25519") ? NULL : EVP_sha256();
    if (!cert || !subject || !X509_set_version(cert, 2) ||
        !ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), next_random(k) >> 1) ||
        !X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) ||
        !X509_set_subject_name(cert, subject) || !X509_set_issuer_name(cert, X509_get_subject_name(k->ca)) ||
        !X509_gmtime_adj(X509_getm_notBefore(cert), -60) || !X509_gmtime_adj(X509_getm_notAfter(cert), 86400L) ||
        !X509_set_pubkey(cert, k->key))
        die("make a certificate");

    static const struct {
        int nid;
        const char *value;
    } extensions[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                      {NID_key_usage, "critical,digitalSignature"},
                      {NID_ext_key_usage, "clientAuth"}};

    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, extensions[i].nid, extensions[i].value);
        if (!e || !X509_add_ext(cert, e, -1))
            die("make a certificate's extension");
        X509_EXTENSION_free(e);
    }
    if (!X509_sign(cert, k->ca_key, digest))
        die("sign a certificate");
    X509_NAME_free(subject);
    return cert;
}

/* OpenSSL has a ticket for us; it comes after the handshake. Keeps the newest; a copy, because OpenSSL gives up the
 * session of a connection that breaks. */
static int on_session(SSL *ssl, SSL_SESSION *session) {
    client *k = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    conn *c = SSL_get_ex_data(ssl, k->conn_index);
    SSL_SESSION_free(c->session);
    c->session = SSL_SESSION_dup(session);
    return 0;
}

static void set_up_tls(client *k, const char *ca_path, const char *ca_key_path) {
    FILE *f = fopen(ca_path, "r");
    if (!f || !(k->ca = PEM_read_X509(f, NULL, NULL, NULL)))
        die(ca_path);
    fclose(f);
    f = fopen(ca_key_path, "r");
    if (!f || !(k->ca_key = PEM_read_PrivateKey(f, NULL, NULL, NULL)))
        die(ca_key_path);
    fclose(f);
    k->key = EVP_EC_gen("P-256");
    k->ctx = SSL_CTX_new(TLS_client_method());
    if (!k->key || !k->ctx || !SSL_CTX_set_min_proto_version(k->ctx, TLS1_3_VERSION) ||
        !SSL_CTX_load_verify_file(k->ctx, ca_path))
        die("set up TLS");
    SSL_CTX_set_verify(k->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_app_data(k->ctx, k);
    SSL_CTX_set_session_cache_mode(k->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(k->ctx, on_session);
    SSL_CTX_set_mode(k->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    k->conn_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

/* ---- connections ---- */

static void drop(client *k, conn *c, const char *why, const char *detail) {
    if (c->state == SHAKING || c->state == CONNECTING)
        k->shaking--;
    if (c->state == UP) {
        k->up--;
        k->dropped++;
    }
    if (c->due_ns) { /* a request was under way */
        k->failed++;
        k->answered++;
        c->due_ns = 0;
        trouble(k, why, detail);
    }
    free(c->out);
    free(c->in);
    c->out = c->in = NULL;
    c->out_at = c->in_len = c->in_capacity = 0;
    SSL_free(c->ssl);
    c->ssl = NULL;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = DOWN;
}

/* Tries again after a random wait. */
static void retry(client *k, conn *c, const char *why, const char *detail) {
    drop(k, c, why, detail);
    int64_t most = WAIT_FIRST_MS << (c->tries < 5 ? c->tries : 5);
    c->tries++;
    most = most < WAIT_MOST_MS ? most : WAIT_MOST_MS;
    c->wait_until_ns = ea_monotonic_ns() + (int64_t)(next_random(k) % (uint64_t)most + 1) * MS_NS;
    c->state = WAITING;
    k->failed++;
    trouble(k, why, detail);
}

static void watch(const client *k, conn *c, int operation, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (epoll_ctl(k->epoll, operation, c->fd, &e))
        die("epoll_ctl");
}

static void start(client *k, conn *c) {
    uint32_t index = (uint32_t)(c - k->conns);
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(k->port)};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + index / PER_ADDRESS);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(c->fd, (struct sockaddr *)&from, sizeof from))
        die("bind");
    c->state = CONNECTING;
    k->shaking++;
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) {
        char text[128];
        ea_os_error_text(errno, text, sizeof text);
        retry(k, c, "connect", text);
        return;
    }
    watch(k, c, EPOLL_CTL_ADD, EPOLLOUT);
}

static void shake(client *k, conn *c) {
    int rc = SSL_connect(c->ssl);
    if (rc == 1) {
        c->state = UP;
        c->tries = 0;
        k->shaking--;
        k->up++;
        k->handshaken++;
        k->resumed += (uint32_t)SSL_session_reused(c->ssl);
        watch(k, c, EPOLL_CTL_MOD, EPOLLIN);
        return;
    }
    int why = SSL_get_error(c->ssl, rc);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        watch(k, c, EPOLL_CTL_MOD, why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT);
        return;
    }
    const char *text = ERR_reason_error_string(ERR_peek_error());
    retry(k, c, "handshake", text ? text : "the connection ended");
    ERR_clear_error();
}

static void on_connected(client *k, conn *c) {
    int error = 0;
    socklen_t n = sizeof error;
    char text[128];
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) || error) {
        ea_os_error_text(error, text, sizeof text);
        retry(k, c, "connect", text);
        return;
    }
    if (!c->cert)
        c->cert = issue(k, (uint32_t)(c - k->conns));
    static char host[] = "localhost";
    c->ssl = SSL_new(k->ctx);
    if (!c->ssl || !SSL_set_ex_data(c->ssl, k->conn_index, c) || !SSL_set_fd(c->ssl, c->fd) ||
        !SSL_set1_host(c->ssl, host) || !SSL_set_tlsext_host_name(c->ssl, host) ||
        !SSL_use_certificate(c->ssl, c->cert) || !SSL_use_PrivateKey(c->ssl, k->key))
        die("make a TLS session");
    if (c->session && !SSL_set_session(c->ssl, c->session))
        die("set a TLS session");
    c->state = SHAKING;
    shake(k, c);
}

/* ---- requests ---- */

static int get_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t b = *(*at)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = v;
            return 1;
        }
    }
    return 0;
}

static void put_varint(ea_text *out, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        ea_text_char(out, (char)(v | 0x80));
    ea_text_char(out, (char)v);
}

/* The batch under another stream and number: fields 2 and 3 of its envelope (batch.proto), which its checksum does not
 * cover; everything else as it is. */
static void put_batch(ea_text *out, const client *k, const conn *c) {
    const uint8_t *at = (const uint8_t *)k->batch, *end = at + k->batch_bytes;
    while (at < end) {
        const uint8_t *first = at;
        uint64_t key, n;
        int ok = get_varint(&at, end, &key);
        switch (ok ? key & 7 : 99) {
        case 0:
            ok = get_varint(&at, end, &n);
            n = 0;
            break;
        case 1:
            n = 8;
            break;
        case 2:
            ok = get_varint(&at, end, &n);
            break;
        case 5:
            n = 4;
            break;
        default:
            ok = 0;
            n = 0;
        }
        if (!ok || n > (uint64_t)(end - at)) {
            errno = 0;
            die("--batch: the file holds no batch");
        }
        at += n;
        if (key >> 3 == 2) {
            put_varint(out, key);
            put_varint(out, sizeof c->stream);
            ea_text_add(out, c->stream, sizeof c->stream);
        } else if (key >> 3 == 3) {
            put_varint(out, key);
            put_varint(out, c->number);
        } else {
            ea_text_add(out, first, (size_t)(at - first));
        }
    }
}

static void write_out(client *k, conn *c) {
    while (c->out) {
        int n = SSL_write(c->ssl, c->out + c->out_at, (int)(c->out_len - c->out_at));
        if (n <= 0) {
            int why = SSL_get_error(c->ssl, n);
            if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) {
                watch(k, c, EPOLL_CTL_MOD, EPOLLIN | (why == SSL_ERROR_WANT_WRITE ? EPOLLOUT : 0));
            } else {
                drop(k, c, "send", "the connection ended");
                ERR_clear_error();
            }
            return;
        }
        c->out_at += (size_t)n;
        if (c->out_at == c->out_len) {
            free(c->out);
            c->out = NULL;
            watch(k, c, EPOLL_CTL_MOD, EPOLLIN);
        }
    }
}

static void begin_request(client *k, conn *c, int64_t due_ns) {
    if (c->state != UP) {
        k->failed++;
        k->answered++;
        trouble(k, "send", "not connected");
        return;
    }
    ea_text batch, all;
    ea_text_init(&batch);
    ea_text_init(&all);
    put_batch(&batch, k, c);
    ea_text_printf(&all,
                   "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: localhost:%u\r\nContent-Type: " EA_UPLOAD_TYPE "\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   k->port, batch.len_bytes + EA_UPLOAD_FRAME_BYTES);
    uint8_t length[EA_UPLOAD_FRAME_BYTES];
    ea_store32(length, (uint32_t)batch.len_bytes);
    ea_text_add(&all, length, sizeof length);
    ea_text_add(&all, batch.data, batch.len_bytes);
    if (batch.failed || all.failed)
        die("out of memory");
    ea_text_deinit(&batch);
    c->out = all.data;
    c->out_len = all.len_bytes;
    c->out_at = 0;
    c->due_ns = due_ns;
    write_out(k, c);
}

/* A whole answer: status, body. */
static void on_answer(client *k, conn *c, int status, const char *body, size_t len_bytes) {
    ea_arena arena;
    ea_ack ack;
    ea_err err;
    char text[160];
    ea_arena_init(&arena, EA_ACK_MAX_BYTES);
    k->latencies_ns[k->acknowledged] = ea_monotonic_ns() - c->due_ns;
    k->answered++;
    c->due_ns = 0;
    if (status != 200) {
        snprintf(text, sizeof text, "status %d: %.100s", status, body);
        trouble(k, "answer", text);
        k->refused++;
    } else if (ea_ack_decode(&ack, &arena, (const uint8_t *)body, len_bytes, &err)) {
        trouble(k, "answer", err.message);
        k->refused++;
    } else if (memcmp(ack.stream, c->stream, sizeof c->stream) != 0 ||
               !ea_ranges_have(ack.acknowledged, ack.acknowledged_count, c->number)) {
        trouble(k, "answer", ack.refused_count ? ack.refused[0].text : "it does not acknowledge the batch");
        k->refused++;
    } else {
        k->acknowledged++;
        c->number++;
    }
    ea_arena_deinit(&arena);
}

static void take_answer(client *k, conn *c) {
    char *body = c->in_len ? strstr(c->in, "\r\n\r\n") : NULL;
    if (!body)
        return;
    body += 4;
    const char *length = strcasestr(c->in, "\r\nContent-Length:");
    size_t have = c->in_len - (size_t)(body - c->in);
    size_t want = length && length < body ? strtoul(length + 17, NULL, 10) : 0;
    if (have < want)
        return;
    if (!c->due_ns || have > want || strncmp(c->in, "HTTP/1.1 ", 9) != 0) {
        drop(k, c, "answer", "it was not asked for");
        return;
    }
    on_answer(k, c, atoi(c->in + 9), body, want);
    free(c->in);
    c->in = NULL;
    c->in_len = c->in_capacity = 0;
}

static void read_in(client *k, conn *c) {
    char data[4096];
    for (;;) {
        int n = SSL_read(c->ssl, data, sizeof data);
        if (n <= 0) {
            int why = SSL_get_error(c->ssl, n);
            if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
                drop(k, c, "receive", "the connection ended");
                ERR_clear_error();
            }
            return;
        }
        if (c->in_len + (size_t)n + 1 > c->in_capacity) {
            c->in_capacity = c->in_len + (size_t)n + 1 + sizeof data;
            if (c->in_capacity > MAX_ANSWER) {
                drop(k, c, "answer", "it has no end");
                return;
            }
            c->in = realloc(c->in, c->in_capacity);
            if (!c->in)
                die("out of memory");
        }
        memcpy(c->in + c->in_len, data, (size_t)n);
        c->in_len += (size_t)n;
        c->in[c->in_len] = 0;
        take_answer(k, c);
        if (c->state != UP)
            return;
    }
}

static void on_event(client *k, conn *c, uint32_t events) {
    switch (c->state) {
    case CONNECTING:
        on_connected(k, c);
        break;
    case SHAKING:
        shake(k, c);
        break;
    case UP:
        if (events & EPOLLOUT)
            write_out(k, c);
        if (c->state == UP && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
            read_in(k, c);
        break;
    default:
        break;
    }
}

/* ---- commands ---- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_ms(const client *k, double share) {
    if (!k->acknowledged)
        return 0;
    uint32_t at = (uint32_t)(share * (k->acknowledged - 1));
    return (double)k->latencies_ns[at] / 1e6;
}

static void report(client *k) {
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "{\"command\":\"%s\",\"seconds\":%.3f,\"up\":%u,\"failed\":%u,\"dropped\":%u", k->command,
                   (double)(ea_monotonic_ns() - k->began_ns) / 1e9, k->up, k->failed, k->dropped);
    if (strcmp(k->command, "connect") == 0)
        ea_text_printf(&t, ",\"handshakes\":%u,\"resumed\":%u", k->handshaken, k->resumed);
    if (strcmp(k->command, "send") == 0) {
        qsort(k->latencies_ns, k->acknowledged, sizeof k->latencies_ns[0], by_value);
        ea_text_printf(&t,
                       ",\"acknowledged\":%u,\"refused\":%u,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,"
                       "\"max_ms\":%.3f",
                       k->acknowledged, k->refused, percentile_ms(k, 0.5), percentile_ms(k, 0.9),
                       percentile_ms(k, 0.99), percentile_ms(k, 1));
    }
    ea_text_str(&t, ",\"trouble\":\"");
    ea_text_json(&t, k->trouble, strlen(k->trouble));
    ea_text_str(&t, "\"}\n");
    if (t.failed || fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout))
        die("report");
    ea_text_deinit(&t);
    k->command[0] = 0;
}

static void begin_command(client *k, const char *line) {
    if (sscanf(line, "%15s %lf", k->command, &k->seconds) != 2 || k->seconds <= 0 || k->seconds > 86400) {
        errno = 0;
        die("a command line is not usable");
    }
    k->began_ns = ea_monotonic_ns();
    k->until_ns = k->began_ns + (int64_t)(k->seconds * 1e9);
    k->answered = k->acknowledged = k->refused = k->failed = k->resumed = k->handshaken = k->dropped = 0;
    k->next_to_send = 0;
    k->trouble[0] = 0;
    if (strcmp(k->command, "send") == 0) {
        if (!k->batch) {
            errno = 0;
            die("send: there is no --batch");
        }
        for (uint32_t i = k->count; i > 1; i--) {
            uint32_t j = (uint32_t)(next_random(k) % i), kept = k->order[i - 1];
            k->order[i - 1] = k->order[j];
            k->order[j] = kept;
        }
        k->until_ns += 60 * SECOND_NS; /* for the last answers */
    }
}

/* Does what is due; reports when the command is done. Returns how many ms the next step may wait. */
static int step(client *k) {
    int64_t now = ea_monotonic_ns();
    int over = now >= k->until_ns;
    if (!k->command[0])
        return 100;
    if (strcmp(k->command, "connect") == 0) {
        for (uint32_t i = 0; i < k->count && k->up + k->shaking < k->count && k->shaking < k->handshakes; i++) {
            conn *c = &k->conns[i];
            if (c->state == DOWN || (c->state == WAITING && c->wait_until_ns <= now))
                start(k, c);
        }
        if (k->up == k->count || over)
            report(k);
        return 10;
    }
    if (strcmp(k->command, "send") == 0) {
        while (k->next_to_send < k->count) {
            int64_t due = k->began_ns + (int64_t)(k->seconds * 1e9 * k->next_to_send / k->count);
            if (due > now)
                break;
            begin_request(k, &k->conns[k->order[k->next_to_send++]], due);
        }
        if (k->answered == k->count || over) {
            for (uint32_t i = 0; i < k->count; i++) {
                conn *c = &k->conns[i];
                if (c->due_ns) /* not answered in time: nothing may come in later */
                    drop(k, c, "send", "not answered in time");
            }
            report(k);
        }
        return 1;
    }
    if (over || (strcmp(k->command, "down") == 0 && !k->up))
        report(k);
    return 10;
}

static void read_commands(client *k) {
    ssize_t n = read(0, k->input + k->input_len, sizeof k->input - 1 - k->input_len);
    if (n <= 0) {
        k->input_over = 1;
        return;
    }
    k->input_len += (size_t)n;
    k->input[k->input_len] = 0;
    char *end = strchr(k->input, '\n');
    if (!end)
        return;
    *end = 0;
    begin_command(k, k->input);
    k->input_len = 0;
}

static void run(client *k) {
    struct epoll_event events[512];
    struct epoll_event input = {.events = EPOLLIN};
    k->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (k->epoll < 0 || epoll_ctl(k->epoll, EPOLL_CTL_ADD, 0, &input))
        die("epoll");
    int wait_ms = 100;
    while (!k->input_over) {
        int n = epoll_wait(k->epoll, events, (int)(sizeof events / sizeof events[0]), wait_ms);
        if (n < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                on_event(k, events[i].data.ptr, events[i].events);
            else
                read_commands(k);
        }
        wait_ms = step(k);
    }
}

static void raise_file_limit(uint32_t count) {
    struct rlimit limit;
    rlim_t want = (rlim_t)count + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        die("getrlimit");
    if (limit.rlim_cur >= want)
        return;
    limit.rlim_cur = want;
    if (limit.rlim_max < want)
        limit.rlim_max = want; /* root may */
    if (setrlimit(RLIMIT_NOFILE, &limit))
        die("raise the number of open files");
}

static uint64_t number(const char *text, uint64_t most) {
    uint64_t v;
    if (ea_u64_parse(text, &v) || !v || v > most) {
        errno = 0;
        die("an option's number is not usable");
    }
    return v;
}

int main(int argc, char **argv) {
    client k = {.handshakes = 64, .prefix = "load", .random = 0x9e3779b97f4a7c15u};
    const char *ca = NULL, *ca_key = NULL, *batch = NULL;
    ea_err err;
    ea_stdio_init();
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--port") == 0)
            k.port = (uint16_t)number(value, 65535);
        else if (strcmp(argv[i], "--count") == 0)
            k.count = (uint32_t)number(value, MAX_COUNT);
        else if (strcmp(argv[i], "--handshakes") == 0)
            k.handshakes = (uint32_t)number(value, MAX_COUNT);
        else if (strcmp(argv[i], "--ca") == 0)
            ca = value;
        else if (strcmp(argv[i], "--ca-key") == 0)
            ca_key = value;
        else if (strcmp(argv[i], "--batch") == 0)
            batch = value;
        else if (strcmp(argv[i], "--prefix") == 0)
            k.prefix = value;
        else
            argc = 0;
    }
    if (argc % 2 == 0 || !k.port || !k.count || !ca || !ca_key) {
        fprintf(stderr, "usage: connections --port P --ca CRT --ca-key KEY --count N [--batch FILE] [--handshakes M] "
                        "[--prefix NAME]\n");
        return 2;
    }
    if (batch && ea_path_read_all(batch, EA_BATCH_MAX_BYTES, &k.batch, &k.batch_bytes, &err)) {
        fprintf(stderr, "connections: %s\n", err.message);
        return 1;
    }
    raise_file_limit(k.count);
    set_up_tls(&k, ca, ca_key);
    k.conns = calloc(k.count, sizeof *k.conns);
    k.order = calloc(k.count, sizeof *k.order);
    k.latencies_ns = calloc((size_t)k.count + 1, sizeof *k.latencies_ns);
    if (!k.conns || !k.order || !k.latencies_ns)
        die("out of memory");
    for (uint32_t i = 0; i < k.count; i++) {
        conn *c = &k.conns[i];
        c->fd = -1;
        c->number = 1;
        k.order[i] = i;
        if (ea_random_bytes(c->stream, sizeof c->stream, &err))
            die(err.message);
    }
    run(&k);
    for (uint32_t i = 0; i < k.count; i++) {
        drop(&k, &k.conns[i], "", "");
        SSL_SESSION_free(k.conns[i].session);
        X509_free(k.conns[i].cert);
    }
    SSL_CTX_free(k.ctx);
    X509_free(k.ca);
    EVP_PKEY_free(k.ca_key);
    EVP_PKEY_free(k.key);
    free(k.conns);
    free(k.order);
    free(k.latencies_ns);
    free(k.batch);
    close(k.epoll);
    return 0;
}
