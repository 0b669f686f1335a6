/* A small collector of the tests' own, which answers as each test's script says: honestly, late, wrong, or not at all.
 * And the certificates that it and the agent need, in a folder of all tests. */
#ifndef EA_TESTS_UNIT_FALSE_COLLECTOR_H
#define EA_TESTS_UNIT_FALSE_COLLECTOR_H

#include "collector/ca/ca.h"
#include "proto/wire/ack.h"
#include "proto/wire/envelope.h"
#include "tests/unit/scratch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t MS = 1000000;
static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {7, 7, 7};

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* ---- the server ---- */

enum answer {
    HONEST, /* acknowledges all that came */
    FIRST_ONLY,
    NOTHING,      /* an empty acknowledgement */
    BEYOND,       /* acknowledges 1 to 1,000,000, whatever came */
    OTHER_STREAM, /* all that came, for another stream */
    GARBAGE,      /* status 200, no protobuf */
    EMPTY,        /* status 200, no body */
    ENDLESS,      /* status 200 and more bytes than are allowed */
    BUSY,         /* 503, Retry-After: 1 */
    BUSY_UNDATED, /* 503 */
    BROKEN,       /* 500 */
    TOO_LARGE,    /* 413 when the request holds more than one batch */
    ALWAYS_TOO_LARGE,
    BAD_THIRD, /* 400 when the request holds the batch 3, not its tombstone */
    BAD_ONCE,  /* 400 */
    FORBIDDEN,
    NOT_FOUND,
    CUT_BODY,   /* closes in the middle of the request's body */
    CUT_ANSWER, /* closes in the middle of its answer, after having stored what came */
    NO_ANSWER,  /* says nothing until the client goes */
    CONFLICT,   /* refuses the first, takes the others */
    MALFORMED,
    RETRY,         /* refuses the first for now, takes the others */
    UNKNOWN_CLASS, /* does not know the class "abc"; takes what brings it along */
    MANY_UNKNOWN,  /* knows none of "d00000" to "d04999" that no request brought it; takes a batch when it has them all
                    */
    SMALL_CREDIT,  /* honest; grants 3,000 bytes */
    WAIT_A_LITTLE, /* honest; asks for 300 ms of peace */
    KEYFRAME,
};

enum { REQUESTS_MAX = 256, BATCHES_MAX = 64, MANY = 5000, MANY_BYTES = 6, TOMBSTONE_BYTES = 200 };

typedef struct request {
    size_t count;
    uint64_t numbers[BATCHES_MAX];
    size_t len_bytes[BATCHES_MAX];
    int64_t at_ns;
    unsigned connection;
    size_t many; /* definitions of the many */
} request;

typedef struct server {
    int listener;
    int port;
    SSL_CTX *tls;
    ea_thread *thread;
    atomic_int stop;
    const enum answer *script; /* the last one is repeated */
    size_t script_count;
    /* read after server_stop only, or by the server's thread */
    request requests[REQUESTS_MAX];
    size_t request_count;
    unsigned connections;
    uint8_t has[MANY];    /* of the many: 1 when a request brought it */
    uint8_t stored[1000]; /* by number: how often an answer that acknowledged it was made */
} server;

/* SHA-256 of "abc" (FIPS 180-2, appendix B.1), first half */
static const ea_class_hash ABC = {
    {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23}};

static const ea_hash_ref ABC_REF = {.bytes = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01}, .len_bytes = 6};

static int readable(server *s, SSL *ssl) {
    struct pollfd p = {.fd = SSL_get_fd(ssl), .events = POLLIN};
    while (!SSL_pending(ssl)) {
        if (atomic_load(&s->stop))
            return 0;
        if (poll(&p, 1, 20) > 0)
            return 1;
    }
    return 1;
}

static int read_some(server *s, SSL *ssl, void *out, size_t n) {
    return readable(s, ssl) ? SSL_read(ssl, out, (int)n) : 0;
}

static void respond(SSL *ssl, const char *status, const char *headers, const ea_text *body, size_t shown_bytes) {
    char head[512];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
                     body ? body->len_bytes : 0, headers);
    SSL_write(ssl, head, n);
    if (body && shown_bytes)
        SSL_write(ssl, body->data, (int)shown_bytes);
}

/* The batch's number and its stream; *ret_described: it carries a description. */
static uint64_t look_at(const uint8_t *batch, size_t len_bytes, uint8_t *ret_stream, int *ret_described) {
    size_t offset = 0;
    ea_pb_field f;
    uint64_t number = 0;
    *ret_described = 0;
    while (ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.number == 2 && f.type == 2 && f.len_bytes == EA_STREAM_ID_BYTES)
            memcpy(ret_stream, f.data, f.len_bytes);
        if (f.number == 3 && f.type == 0)
            number = f.value;
        if (f.number == 12 && f.type == 2 && f.len_bytes == 3 && memcmp(f.data, "abc", 3) == 0)
            *ret_described = 1;
    }
    return number;
}

static void many_text(size_t i, char ret[MANY_BYTES + 1]) {
    snprintf(ret, MANY_BYTES + 1, "d%05zu", i % 100000);
}

/* Notes which of the many a batch brings. */
static void note_many(server *s, request *r, const uint8_t *batch, size_t len_bytes) {
    size_t offset = 0, i;
    ea_pb_field f;
    while (ea_pb_next(batch, len_bytes, &offset, &f) > 0)
        if (f.number == 12 && f.type == 2 && f.len_bytes == MANY_BYTES && *f.data == 'd') {
            char digits[MANY_BYTES] = {0};
            memcpy(digits, f.data + 1, MANY_BYTES - 1);
            i = strtoull(digits, NULL, 10);
            r->many++;
            if (i < MANY)
                s->has[i] = 1;
        }
}

/* What it has of the many, and what it lacks; the caller frees both. */
static void tell_many(const server *s, ea_ack *ack, ea_class_hash **ret_known, ea_hash_ref **ret_unknown) {
    ea_class_hash *known = calloc(MANY, sizeof *known);
    ea_hash_ref *unknown = calloc(MANY, sizeof *unknown);
    ea_err err;
    assert_true(known && unknown);
    for (size_t i = 0; i < MANY; i++) {
        char text[MANY_BYTES + 1];
        ea_class_hash hash;
        many_text(i, text);
        must(ea_definition_hash((const uint8_t *)text, MANY_BYTES, hash.bytes, &err), &err);
        if (s->has[i]) {
            known[ack->known_count++] = hash;
        } else {
            ea_hash_ref *ref = &unknown[ack->unknown_count++];
            ref->len_bytes = ABC_REF.len_bytes;
            memcpy(ref->bytes, hash.bytes, ref->len_bytes);
        }
    }
    *ret_known = known;
    *ret_unknown = unknown;
    ack->known = known;
    ack->unknown = unknown;
}

/* Answers one request; 0 when the connection is to be closed. */
static int answer_request(server *s, SSL *ssl, enum answer how, const uint8_t *body, size_t body_bytes) {
    request *r = &s->requests[s->request_count < REQUESTS_MAX ? s->request_count++ : REQUESTS_MAX - 1];
    *r = (request){.at_ns = ea_monotonic_ns(), .connection = s->connections};
    ea_range taken[BATCHES_MAX];
    ea_refusal refusal = {.text = "the test refuses it"};
    ea_ack ack = {.acknowledged = taken, .refused = &refusal};
    const uint8_t *batch;
    size_t offset = 0, n;
    int described = 0;
    ea_err err;
    while (ea_upload_next(body, body_bytes, &offset, &batch, &n, &err) > 0 && r->count < BATCHES_MAX) {
        int has;
        r->len_bytes[r->count] = n;
        r->numbers[r->count++] = look_at(batch, n, ack.stream, &has);
        described |= has;
        if (how == MANY_UNKNOWN)
            note_many(s, r, batch, n);
    }
    size_t first = 0, count = r->count;
    if (how == FIRST_ONLY)
        count = 1;
    if (how == CONFLICT || how == MALFORMED || how == RETRY) {
        refusal.number = r->numbers[0];
        refusal.cause = how == CONFLICT    ? EA_REFUSED_CONFLICT
                        : how == MALFORMED ? EA_REFUSED_MALFORMED
                                           : EA_REFUSED_RETRY;
        ack.refused_count = 1;
        first = 1;
    }
    if (how == UNKNOWN_CLASS && !described) {
        ack.unknown = &ABC_REF;
        ack.unknown_count = 1;
        refusal.number = r->numbers[0];
        refusal.cause = EA_REFUSED_RETRY;
        ack.refused_count = 1;
        count = 0;
    }
    if (described) {
        ack.known = &ABC;
        ack.known_count = 1;
    }
    ea_class_hash *known = NULL;
    ea_hash_ref *unknown = NULL;
    if (how == MANY_UNKNOWN)
        tell_many(s, &ack, &known, &unknown);
    if (ack.unknown_count && unknown) {
        refusal.number = r->numbers[0];
        refusal.cause = EA_REFUSED_RETRY;
        ack.refused_count = 1;
        count = 0;
    }
    int honest = 1;
    const char *status = "200 OK", *headers = "";
    switch (how) {
    case NOTHING:
        count = 0;
        break;
    case BUSY:
        status = "503 Busy", headers = "Retry-After: 1\r\n", honest = 0;
        break;
    case BUSY_UNDATED:
        status = "503 Busy", honest = 0;
        break;
    case BROKEN:
        status = "500 Broken", honest = 0;
        break;
    case FORBIDDEN:
        status = "403 Forbidden", honest = 0;
        break;
    case NOT_FOUND:
        status = "404 Not Found", honest = 0;
        break;
    case TOO_LARGE:
    case ALWAYS_TOO_LARGE:
        if (r->count > 1 || how == ALWAYS_TOO_LARGE)
            status = "413 Too Large", honest = 0;
        break;
    case BAD_THIRD:
        for (size_t i = 0; i < r->count; i++)
            if (r->numbers[i] == 3 && r->len_bytes[i] > TOMBSTONE_BYTES)
                status = "400 Bad Request", honest = 0;
        break;
    case BAD_ONCE:
        status = "400 Bad Request", honest = 0;
        break;
    case OTHER_STREAM:
        ack.stream[0] ^= 1;
        break;
    case SMALL_CREDIT:
        ack.credit_bytes = 3000;
        break;
    case WAIT_A_LITTLE:
        ack.retry_after_ms = 300;
        break;
    case KEYFRAME:
        ack.keyframe_wanted = 1;
        break;
    default:
        break;
    }
    if (!honest) {
        ea_text text;
        ea_text_init(&text);
        ea_text_str(&text, "no \x1b[31m today");
        respond(ssl, status, headers, &text, text.len_bytes);
        ea_text_deinit(&text);
        return 1;
    }
    if (how == BEYOND) {
        taken[0] = (ea_range){1, 1000000};
        ack.acknowledged_count = 1;
        first = count;
    }
    for (size_t i = first; i < count; i++) {
        taken[ack.acknowledged_count++] = (ea_range){r->numbers[i], r->numbers[i]};
        if (how != OTHER_STREAM && r->numbers[i] < sizeof s->stored)
            s->stored[r->numbers[i]]++;
    }
    ea_text text;
    ea_text_init(&text);
    ea_ack_encode(&ack, &text);
    if (how == GARBAGE || how == EMPTY)
        ea_text_clear(&text);
    if (how == GARBAGE)
        ea_text_str(&text, "<html>It works!</html>");
    for (int i = 0; how == ENDLESS && i < 80000; i++)
        ea_text_str(&text, "sixteen bytes!!\n");
    respond(ssl, status, headers, &text, how == CUT_ANSWER ? text.len_bytes / 2 : text.len_bytes);
    ea_text_deinit(&text);
    free(known);
    free(unknown);
    return how != CUT_ANSWER;
}

static void serve_connection(server *s, SSL *ssl) {
    size_t capacity = 1 << 20, have = 0;
    char *data = malloc(capacity + 1);
    for (int open = data != NULL; open;) {
        char *end = NULL;
        while (!end) {
            int n = have < capacity ? read_some(s, ssl, data + have, capacity - have) : 0;
            if (n <= 0) {
                free(data);
                return;
            }
            have += (size_t)n;
            data[have] = 0;
            end = strstr(data, "\r\n\r\n");
        }
        const char *length = strstr(data, "Content-Length: ");
        size_t body = length ? strtoull(length + 16, NULL, 10) : 0, begin = (size_t)(end + 4 - data);
        enum answer how = s->script[s->request_count < s->script_count ? s->request_count : s->script_count - 1];
        if (begin + body > capacity || strncmp(data, "POST /v1/batches HTTP/1.1\r\n", 27) != 0)
            break;
        size_t wanted = begin + (how == CUT_BODY ? body / 2 : body);
        while (have < wanted) {
            int n = read_some(s, ssl, data + have, wanted - have);
            if (n <= 0) {
                free(data);
                return;
            }
            have += (size_t)n;
        }
        if (how == CUT_BODY || how == NO_ANSWER) {
            s->request_count++;
            char sink[64];
            while (how == NO_ANSWER && read_some(s, ssl, sink, sizeof sink) > 0)
                ;
            break;
        }
        open = answer_request(s, ssl, how, (const uint8_t *)data + begin, body);
        have = 0; /* one request at a time: no bytes of another one follow */
    }
    free(data);
}

static void serve(void *arg) {
    server *s = arg;
    struct pollfd p = {.fd = s->listener, .events = POLLIN};
    while (!atomic_load(&s->stop)) {
        if (poll(&p, 1, 20) <= 0)
            continue;
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            continue;
        SSL *ssl = SSL_new(s->tls);
        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1) {
            s->connections++;
            serve_connection(s, ssl);
            SSL_shutdown(ssl);
        }
        SSL_free(ssl);
        ERR_clear_error();
        /* closing with unread bytes would reset the connection before the peer has read what came last */
        shutdown(fd, SHUT_WR);
        char sink[4096];
        struct pollfd q = {.fd = fd, .events = POLLIN};
        while (poll(&q, 1, 100) > 0 && read(fd, sink, sizeof sink) > 0)
            ;
        close(fd);
    }
}

static char *ca_folder; /* of all tests: certificates */

static const char *cert_path(const char *name) {
    static char paths[8][512];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", ca_folder, name);
    return p;
}

typedef struct server_how {
    const char *cert, *key, *client_ca;
    int tls_max; /* 0: whatever is there */
    int port;    /* 0: any */
} server_how;

static server *server_start_how(const enum answer *script, size_t count, server_how how) {
    server *s = calloc(1, sizeof *s);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)how.port)};
    socklen_t len = sizeof a;
    int one = 1;
    ea_err err;
    assert_non_null(s);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    s->script = script;
    s->script_count = count;
    s->tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(s->tls, how.cert ? how.cert : cert_path("server.crt")), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(s->tls, how.key ? how.key : cert_path("server.key"), SSL_FILETYPE_PEM),
                     1);
    assert_int_equal(SSL_CTX_load_verify_file(s->tls, how.client_ca ? how.client_ca : cert_path("ca.crt")), 1);
    SSL_CTX_set_verify(s->tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_id_context(s->tls, (const unsigned char *)"t", 1);
    if (how.tls_max)
        SSL_CTX_set_max_proto_version(s->tls, how.tls_max);
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->listener, 16), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    must(ea_thread_start(&s->thread, "server", serve, s, &err), &err);
    return s;
}

static server *server_start(const enum answer *script, size_t count) {
    return server_start_how(script, count, (server_how){0});
}

#define SERVER(...)                                                                                                    \
    server_start((const enum answer[]){__VA_ARGS__}, sizeof((enum answer[]){__VA_ARGS__}) / sizeof(enum answer))

/* What it saw can be read from then on. */
static void server_stop(server *s) {
    atomic_store(&s->stop, 1);
    ea_thread_join(s->thread);
    s->thread = NULL;
    close(s->listener);
    SSL_CTX_free(s->tls);
}

/* ---- certificates for all tests ---- */

/* The server's certificate, signed again with dates in the past. */
static void make_expired(void) {
    FILE *f = fopen(cert_path("ca.key"), "r");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    f = fopen(cert_path("server.crt"), "r");
    X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    assert_true(key && cert);
    X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
    X509_gmtime_adj(X509_getm_notAfter(cert), -3600);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    f = fopen(cert_path("expired.crt"), "w");
    PEM_write_X509(f, cert);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int make_certificates(void **state) {
    ea_err err = {0};
    static char folder[64];
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (scratch_make(NULL))
        return -1;
    snprintf(folder, sizeof folder, "%s", scratch);
    ca_folder = folder;
    static const char *const SANS[] = {"IP:127.0.0.1", "DNS:localhost"}, *const ELSEWHERE[] = {"DNS:elsewhere.example"};
    char other[128];
    snprintf(other, sizeof other, "%s/other", folder);
    int rc = ec_ca_init(folder, &(ec_ca_init_options){.name = "a CA", .days = 10}, &err);
    if (!rc)
        rc = ec_ca_init(other, &(ec_ca_init_options){.name = "another CA", .days = 10}, &err);
    if (!rc)
        rc = ec_ca_issue(folder,
                         &(ec_ca_request){.name = "server", .server = 1, .sans = SANS, .san_count = 2, .days = 5}, 1,
                         NULL, &err);
    if (!rc)
        rc = ec_ca_issue(
            folder, &(ec_ca_request){.name = "elsewhere", .server = 1, .sans = ELSEWHERE, .san_count = 1, .days = 5}, 1,
            NULL, &err);
    if (!rc)
        rc = ec_ca_issue(folder, &(ec_ca_request){.name = "agent", .days = 5}, 1, NULL, &err);
    if (rc) {
        ea_err_print(stderr, "test_sender", &err);
        return -1;
    }
    make_expired();
    /* expired.crt goes with the server's key: found by server_how.key NULL */
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    return scratch_remove_folder(ca_folder);
}

#endif
