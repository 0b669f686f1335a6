/* Ingest over real TLS on loopback: who is let in, what is answered, and what a bad client can do to others. */
#include "collector/ingest/ingest.h"
#include "collector/ingest/writer.h"
#include "proto/base/platform.h"
#include "proto/wire/ack.h"
#include "tests/unit/batches.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- certificates ---- */

typedef struct authority {
    EVP_PKEY *key;
    X509 *cert;
    long serial;
} authority;

static char folder[] = "/tmp/ec-ingest-XXXXXX";
static authority ours, theirs;

static void path_of(char *out, size_t out_bytes, const char *name) {
    snprintf(out, out_bytes, "%s/%s", folder, name);
}

static void extend(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

/* A certificate for name, signed by ca (NULL: by itself); written with its key to folder/NAME.crt and .key. */
static X509 *issue(authority *ca, const char *file, const char *name, int server, long not_after_s,
                   EVP_PKEY **ret_key) {
    char path[128];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_true(key && cert);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ca ? ++ca->serial : 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), not_after_s);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1,
                               0);
    X509_set_issuer_name(cert, X509_get_subject_name(ca ? ca->cert : cert));
    extend(cert, ca ? ca->cert : cert, NID_basic_constraints, ca ? "CA:FALSE" : "critical,CA:TRUE");
    if (ca)
        extend(cert, ca->cert, NID_ext_key_usage, server ? "serverAuth" : "clientAuth");
    assert_true(X509_sign(cert, ca ? ca->key : key, EVP_sha256()) > 0);
    snprintf(path, sizeof path, "%s/%s.crt", folder, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, cert), 1);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s.key", folder, file);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    if (ret_key)
        *ret_key = key;
    else
        EVP_PKEY_free(key);
    return cert;
}

/* Writes the revocation list: revoked (may be NULL) is on it. */
static void write_crl(X509 *revoked) {
    char path[128], fresh[128];
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, -60), *next = X509_gmtime_adj(NULL, 86400);
    X509_CRL_set_version(crl, 1);
    X509_CRL_set_issuer_name(crl, X509_get_subject_name(ours.cert));
    X509_CRL_set1_lastUpdate(crl, now);
    X509_CRL_set1_nextUpdate(crl, next);
    if (revoked) {
        X509_REVOKED *entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked));
        X509_REVOKED_set_revocationDate(entry, now);
        X509_CRL_add0_revoked(crl, entry);
    }
    X509_CRL_sort(crl);
    assert_true(X509_CRL_sign(crl, ours.key, EVP_sha256()) > 0);
    path_of(path, sizeof path, "ca.crl");
    path_of(fresh, sizeof fresh, "ca.crl.new");
    FILE *f = fopen(fresh, "w");
    assert_int_equal(PEM_write_X509_CRL(f, crl), 1);
    fclose(f);
    assert_int_equal(rename(fresh, path), 0);
    ASN1_TIME_free(now);
    ASN1_TIME_free(next);
    X509_CRL_free(crl);
}

static int make_certificates(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder))
        return -1;
    ours.cert = issue(NULL, "ca", "our authority", 0, 86400, &ours.key);
    theirs.cert = issue(NULL, "other-ca", "their authority", 0, 86400, &theirs.key);
    X509_free(issue(&ours, "server", "localhost", 1, 86400, NULL));
    X509_free(issue(&ours, "alpha", "alpha", 0, 86400, NULL));
    X509_free(issue(&ours, "beta", "beta", 0, 86400, NULL));
    X509_free(issue(&ours, "nameless", "../etc passwd", 0, 86400, NULL));
    X509_free(issue(&ours, "expired", "expired", 0, -60, NULL));
    X509_free(issue(&theirs, "foreign", "alpha", 0, 86400, NULL));
    return 0;
}

static int remove_certificates(void **state) {
    char command[128];
    (void)state;
    EVP_PKEY_free(ours.key);
    EVP_PKEY_free(theirs.key);
    X509_free(ours.cert);
    X509_free(theirs.cert);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- the server under test ---- */

typedef struct server {
    ea_err err;
    ea_counters counters;
    ec_store *store;
    ec_ingest *ingest;
    ec_ingest_options options;
    uint16_t port;
    char store_dir[128], cert[128], key[128], ca[128], crl[128];
} server;

static int setup(void **state) {
    static int number;
    server *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    snprintf(s->store_dir, sizeof s->store_dir, "%s/store-%d", folder, ++number);
    path_of(s->cert, sizeof s->cert, "server.crt");
    path_of(s->key, sizeof s->key, "server.key");
    path_of(s->ca, sizeof s->ca, "ca.crt");
    path_of(s->crl, sizeof s->crl, "ca.crl");
    write_crl(NULL);
    s->options = (ec_ingest_options){.listen = "127.0.0.1:0",
                                     .cert_path = s->cert,
                                     .key_path = s->key,
                                     .ca_path = s->ca,
                                     .crl_path = s->crl,
                                     .threads = 2};
    *state = s;
    return 0;
}

static void start(server *s) {
    ec_store_options o = {.writable = 1, .counters = &s->counters};
    if (ec_store_open(&s->store, s->store_dir, &o, &s->err))
        fail_msg("%s", s->err.message);
    s->options.store = s->store;
    s->options.counters = &s->counters;
    if (ec_ingest_start(&s->ingest, &s->options, &s->err))
        fail_msg("%s", s->err.message);
    s->port = ec_ingest_port(s->ingest);
}

static void stop(server *s) {
    ec_ingest_stop(s->ingest);
    ec_store_close(s->store);
    s->ingest = NULL;
    s->store = NULL;
}

static int teardown(void **state) {
    server *s = *state;
    stop(s);
    free(s);
    return 0;
}

/* ---- a client ---- */

typedef struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    SSL_SESSION *session; /* the last ticket */
    int fd;
} client;

typedef struct response {
    int status; /* 0: the connection ended before an answer */
    unsigned retry_after_s;
    char *body;
    size_t body_bytes;
    int closed;
} response;

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    client *c = SSL_get_app_data(ssl);
    SSL_SESSION_free(c->session);
    c->session = session;
    return 1;
}

/* Opens a connection as `name` (NULL: without a certificate), resuming `session` when given. 1 when the handshake went
 * through on this side; TLS 1.3 says only at the first read whether the server took the certificate. */
static int client_open(client *c, const server *s, const char *name, SSL_SESSION *session) {
    char path[128];
    memset(c, 0, sizeof *c);
    c->ctx = SSL_CTX_new(TLS_client_method());
    path_of(path, sizeof path, "ca.crt");
    assert_int_equal(SSL_CTX_load_verify_locations(c->ctx, path, NULL), 1);
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(c->ctx, keep_session);
    if (name) {
        snprintf(path, sizeof path, "%s/%s.crt", folder, name);
        assert_int_equal(SSL_CTX_use_certificate_file(c->ctx, path, SSL_FILETYPE_PEM), 1);
        snprintf(path, sizeof path, "%s/%s.key", folder, name);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(c->ctx, path, SSL_FILETYPE_PEM), 1);
    }
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(s->port)};
    struct timeval timeout = {.tv_sec = 20};
    const int one = 1;
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int connected = connect(c->fd, (struct sockaddr *)&sa, sizeof sa) == 0;
    c->ssl = SSL_new(c->ctx);
    SSL_set_app_data(c->ssl, c);
    SSL_set_fd(c->ssl, c->fd);
    if (session) { /* a copy: OpenSSL spoils the session of a connection that was not shut down in order */
        SSL_SESSION *copy = SSL_SESSION_dup(session);
        SSL_set_session(c->ssl, copy);
        SSL_SESSION_free(copy);
    }
    int ok = connected && SSL_connect(c->ssl) == 1;
    ERR_clear_error();
    return ok;
}

static void client_close(client *c) {
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    SSL_SESSION_free(c->session);
    close(c->fd);
    memset(c, 0, sizeof *c);
    ERR_clear_error();
}

static int client_write(client *c, const void *data, size_t len_bytes) {
    size_t n = 0;
    int ok = len_bytes == 0 || SSL_write_ex(c->ssl, data, len_bytes, &n) == 1;
    ERR_clear_error();
    return ok;
}

static void client_read(client *c, response *r) {
    static const char LENGTH[] = "Content-Length: ", RETRY[] = "Retry-After: ";
    size_t capacity = 1 << 16, n = 0, got, head = 0, length = 0;
    char *data = calloc(1, capacity + 1);
    memset(r, 0, sizeof *r);
    while (n < capacity && SSL_read_ex(c->ssl, data + n, capacity - n, &got) == 1) {
        n += got;
        char *end = strstr(data, "\r\n\r\n"), *at;
        if (!end)
            continue;
        head = (size_t)(end - data) + 4;
        at = strstr(data, LENGTH);
        length = at ? strtoul(at + sizeof LENGTH - 1, NULL, 10) : 0;
        at = strstr(data, RETRY);
        r->retry_after_s = at && at < end ? (unsigned)strtoul(at + sizeof RETRY - 1, NULL, 10) : 0;
        if (n >= head + length)
            break;
    }
    ERR_clear_error();
    if (head)
        r->status = atoi(data + sizeof "HTTP/1.1 " - 1);
    r->body_bytes = length;
    r->body = malloc(length + 1);
    memcpy(r->body, data + head, length);
    r->body[length] = 0;
    free(data);
}

static void post(client *c, const void *body, size_t len_bytes, response *r) {
    char head[256];
    int n = snprintf(head, sizeof head,
                     "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " EA_UPLOAD_TYPE
                     "\r\nContent-Length: %zu\r\n\r\n",
                     len_bytes);
    if (client_write(c, head, (size_t)n))
        (void)client_write(c, body, len_bytes);
    client_read(c, r);
}

static int get_status(client *c, const char *path) {
    char head[256];
    response r;
    int n = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    if (!client_write(c, head, (size_t)n))
        return 0;
    client_read(c, &r);
    free(r.body);
    return r.status;
}

/* A whole visit that asks for /healthz: the status, 0 when it was not let in. */
static int visit(const server *s, const char *name) {
    client c;
    int status = client_open(&c, s, name, NULL) ? get_status(&c, "/healthz") : 0;
    client_close(&c);
    return status;
}

static void add_frame(ea_text *body, const test_batch *b) {
    uint8_t length[4];
    ea_store32(length, (uint32_t)b->len_bytes);
    ea_text_add(body, length, sizeof length);
    ea_text_add(body, b->data, b->len_bytes);
}

/* Posts batches and reads the Ack into arena memory. */
static void upload(client *c, const test_batch *batches, size_t count, ea_arena *arena, ea_ack *ret) {
    ea_text body;
    response r;
    ea_err err;
    ea_text_init(&body);
    for (size_t i = 0; i < count; i++)
        add_frame(&body, &batches[i]);
    post(c, body.data, body.len_bytes, &r);
    assert_int_equal(r.status, 200);
    const uint8_t *copy = ea_arena_copy(arena, r.body, r.body_bytes);
    if (ea_ack_decode(ret, arena, copy, r.body_bytes, &err))
        fail_msg("%s", err.message);
    free(r.body);
    ea_text_deinit(&body);
}

/* ---- tests ---- */

static void lets_in_whom_it_should(void **state) {
    server *s = *state;
    start(s);
    assert_int_equal(visit(s, "alpha"), 200);
    assert_int_equal(visit(s, NULL), 0);
    assert_int_equal(visit(s, "foreign"), 0);
    assert_int_equal(visit(s, "expired"), 0);
    assert_int_equal(visit(s, "server"), 0); /* its certificate is for servers */
    assert_int_equal(visit(s, "nameless"), 403);
    assert_int_equal(visit(s, "beta"), 200);
}

static void revocation_holds_for_open_and_resumed_sessions(void **state) {
    server *s = *state;
    client first, resumed;
    X509 *cert = issue(&ours, "gamma", "gamma", 0, 86400, NULL);
    start(s);
    assert_true(client_open(&first, s, "gamma", NULL));
    assert_int_equal(get_status(&first, "/healthz"), 200);
    assert_non_null(first.session);
    SSL_SESSION *session = SSL_SESSION_dup(first.session);
    assert_true(client_open(&resumed, s, "gamma", session));
    assert_int_equal(get_status(&resumed, "/healthz"), 200);
    assert_true(SSL_session_reused(resumed.ssl)); /* so that the next one shows something */
    client_close(&resumed);

    write_crl(cert);
    assert_int_equal(get_status(&first, "/healthz"), 403);
    assert_true(client_open(&resumed, s, "gamma", session));
    assert_true(SSL_session_reused(resumed.ssl));
    assert_int_equal(get_status(&resumed, "/healthz"), 403);
    client_close(&resumed);
    assert_int_equal(visit(s, "gamma"), 0);
    assert_int_equal(visit(s, "alpha"), 200);

    write_crl(NULL); /* off the list again */
    assert_int_equal(visit(s, "gamma"), 200);
    client_close(&first);
    SSL_SESSION_free(session);
    X509_free(cert);
}

/* OpenSSL would ask on the terminal, and a service would wait there for ever. */
static void a_key_with_a_password_is_refused(void **state) {
    server *s = *state;
    const ec_store_options o = {.writable = 1, .counters = &s->counters};
    FILE *f = fopen(s->key, "r");
    assert_non_null(f);
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(key);
    path_of(s->key, sizeof s->key, "locked.key");
    f = fopen(s->key, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, key, EVP_aes_256_cbc(), (const unsigned char *)"secret", 6, NULL, NULL),
                     1);
    fclose(f);
    EVP_PKEY_free(key);
    if (ec_store_open(&s->store, s->store_dir, &o, &s->err))
        fail_msg("%s", s->err.message);
    s->options.store = s->store;
    s->options.counters = &s->counters;
    assert_int_equal(ec_ingest_start(&s->ingest, &s->options, &s->err), EA_EUNSUPPORTED);
    s->ingest = NULL;
    assert_non_null(strstr(s->err.message, "locked.key: the key has a password, which a service cannot ask for"));
}

/* A revocation list that is damaged, or that is signed by another CA, leaves the last valid list in force. */
static void a_bad_list_changes_nothing(void **state) {
    server *s = *state;
    X509 *cert = issue(&ours, "delta", "delta", 0, 86400, NULL);
    write_crl(cert);
    start(s);
    assert_int_equal(visit(s, "delta"), 0);
    assert_int_equal(ea_path_write_all(s->crl, "nonsense", 8, 0, &s->err), 0);
    assert_int_equal(visit(s, "delta"), 0);
    EVP_PKEY *key = ours.key;
    ours.key = theirs.key;
    write_crl(NULL);
    ours.key = key;
    assert_int_equal(visit(s, "delta"), 0);
    assert_int_equal(visit(s, "alpha"), 200);
    ec_ingest_stop(s->ingest);
    s->ingest = NULL;
    assert_true(ec_ingest_start(&s->ingest, &s->options, &s->err) < 0); /* at the start a bad list is an error */
    s->ingest = NULL;
    X509_free(cert);
}

static void sessions_outlive_a_restart(void **state) {
    server *s = *state;
    client c;
    start(s);
    assert_true(client_open(&c, s, "alpha", NULL));
    assert_int_equal(get_status(&c, "/healthz"), 200);
    SSL_SESSION *session = SSL_SESSION_dup(c.session);
    client_close(&c);
    stop(s);
    start(s);
    assert_true(client_open(&c, s, "alpha", session));
    assert_int_equal(get_status(&c, "/healthz"), 200);
    assert_true(SSL_session_reused(c.ssl));
    client_close(&c);
    stop(s);
    /* another CA: the old sessions are worth nothing */
    path_of(s->ca, sizeof s->ca, "other-ca.crt");
    s->options.crl_path = NULL;
    start(s);
    int ok = client_open(&c, s, "alpha", session) && get_status(&c, "/healthz") == 200;
    assert_false(ok);
    client_close(&c);
    assert_int_equal(visit(s, "foreign"), 200);
    SSL_SESSION_free(session);
}

static void stores_and_acknowledges(void **state) {
    server *s = *state;
    test_maker m;
    test_batch b[4], other, undescribed;
    ea_arena arena;
    ea_ack ack;
    client c;
    ea_arena_init(&arena, 0);
    test_maker_init(&m, 9);
    for (size_t i = 0; i < 4; i++)
        test_make(&m, i + 1, 5, 10 * (int64_t)i, &b[i]);
    test_make(&m, 2, 6, 77, &other);
    start(s);
    assert_true(client_open(&c, s, "alpha", NULL));
    upload(&c, b, 3, &arena, &ack);
    assert_memory_equal(ack.stream, m.stream, sizeof ack.stream);
    assert_int_equal(ack.acknowledged_count, 1);
    assert_true(ack.acknowledged[0].first == 1 && ack.acknowledged[0].last == 3);
    assert_int_equal(ack.refused_count + ack.unknown_count, 0);
    assert_int_equal(ack.known_count, 1);
    assert_memory_equal(ack.known[0].bytes, m.c->hash, EA_CLASS_HASH_BYTES);
    assert_true(ack.credit_bytes > 0);
    /* on the same connection: repeats are acknowledged again, another content under 2 is not */
    test_batch mixed[3] = {b[3], b[0], other};
    upload(&c, mixed, 3, &arena, &ack);
    assert_int_equal(ack.acknowledged_count, 2);
    assert_true(ack.acknowledged[0].first == 1 && ack.acknowledged[1].last == 4);
    assert_int_equal(ack.refused_count, 1);
    assert_int_equal(ack.refused[0].number, 2);
    assert_int_equal(ack.refused[0].cause, EA_REFUSED_CONFLICT);
    client_close(&c);

    /* a stream whose classes were never described */
    test_maker fresh;
    test_maker_init(&fresh, 10);
    test_maker_forget_descriptions(&fresh);
    test_make(&fresh, 1, 5, 0, &undescribed);
    assert_true(client_open(&c, s, "alpha", NULL));
    upload(&c, &undescribed, 1, &arena, &ack);
    assert_int_equal(ack.acknowledged_count, 0);
    assert_int_equal(ack.refused_count, 1);
    assert_int_equal(ack.refused[0].cause, EA_REFUSED_RETRY);
    assert_int_equal(ack.unknown_count, 1);
    assert_memory_equal(ack.unknown[0].bytes, fresh.c->hash, EA_CLASS_HASH_BYTES);
    client_close(&c);

    stop(s);
    ec_store *reader;
    ec_batch_row row = {0};
    uint64_t count = 0;
    assert_int_equal(ec_store_open(&reader, s->store_dir, &(ec_store_options){0}, &s->err), 0);
    while (ec_store_next_batch(reader, 1, row.number, &row, &s->err) == 1) {
        const uint8_t *data;
        size_t n;
        assert_int_equal(ec_store_read(reader, &row, &data, &n, &s->err), 0);
        assert_int_equal(n, b[count].len_bytes);
        assert_memory_equal(data, b[count].data, n);
        count++;
    }
    assert_int_equal(count, 4);
    assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_batches), 4);
    assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_duplicates), 1);
    assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_conflicts), 1);
    ec_store_close(reader);
    for (size_t i = 0; i < 4; i++)
        free(b[i].data);
    free(other.data);
    free(undescribed.data);
    test_maker_deinit(&m);
    test_maker_deinit(&fresh);
    ea_arena_deinit(&arena);
}

static int post_status(const server *s, const void *body, size_t len_bytes) {
    client c;
    response r;
    assert_true(client_open(&c, s, "alpha", NULL));
    post(&c, body, len_bytes, &r);
    free(r.body);
    client_close(&c);
    return r.status;
}

/* The status, and what the answer says is in its text. */
static void post_refused(const server *s, const ea_text *body, int status, const char *reason) {
    client c;
    response r;
    assert_true(client_open(&c, s, "alpha", NULL));
    post(&c, body->data, body->len_bytes, &r);
    assert_int_equal(r.status, status);
    assert_non_null(strstr(r.body, reason));
    free(r.body);
    client_close(&c);
}

/* A few bytes may claim many events: a request's work is bounded by what its batches say, before any is looked at. */
static void refuses_too_many_events(const server *s, const test_batch *b) {
    enum { CLAIMED = EA_BATCH_MAX_EVENTS };

    static const uint8_t claim[] = {5 << 3, 0x80 | (CLAIMED & 0x7F), 0x80 | (CLAIMED >> 7 & 0x7F), CLAIMED >> 14};
    ea_text large, body;
    ea_text_init(&large);
    ea_text_init(&body);
    ea_text_add(&large, b->data, b->len_bytes);
    ea_text_add(&large, claim, sizeof claim); /* of a number that is there twice the last one counts */
    test_batch claims = {.data = (uint8_t *)large.data, .len_bytes = large.len_bytes};
    for (int i = 0; i <= EA_UPLOAD_MAX_EVENTS / CLAIMED; i++)
        add_frame(&body, &claims);
    post_refused(s, &body, 400, "at most 4194304 events");
    ea_text_deinit(&body);
    ea_text_deinit(&large);
}

static void refuses_too_many_batches(void **state) {
    server *s = *state;
    test_maker m;
    test_batch b;
    ea_text body;
    start(s);
    test_maker_init(&m, 1);
    test_make(&m, 1, 1, 0, &b);
    ea_text_init(&body);
    for (int i = 0; i < EA_UPLOAD_MAX_BATCHES; i++)
        add_frame(&body, &b);
    assert_int_equal(post_status(s, body.data, body.len_bytes), 200); /* the same batch again and again */
    add_frame(&body, &b);
    post_refused(s, &body, 400, "at most 2048 batches");
    ea_text_deinit(&body);
    test_maker_deinit(&m);
    free(b.data);
}

static void refuses_bad_bodies(void **state) {
    server *s = *state;
    test_maker m, m2;
    test_batch a, b;
    ea_text body;
    s->options.max_body_bytes = 64 << 10;
    start(s);
    test_maker_init(&m, 1);
    test_maker_init(&m2, 2);
    test_make(&m, 1, 5, 0, &a);
    test_make(&m2, 2, 5, 0, &b);
    ea_text_init(&body);
    add_frame(&body, &a);
    for (size_t cut = 0; cut < body.len_bytes; cut += 1 + cut / 8) /* cut off anywhere */
        assert_int_equal(post_status(s, body.data, cut), 400);
    ea_text_add(&body, "\0\0\0\0", 4); /* an empty frame */
    assert_int_equal(post_status(s, body.data, body.len_bytes), 400);
    ea_text_clear(&body);
    add_frame(&body, &a);
    add_frame(&body, &b); /* two streams */
    assert_int_equal(post_status(s, body.data, body.len_bytes), 400);
    assert_int_equal(post_status(s, "\xff\xff\xff\xff garbage", 12), 400);
    static const uint8_t noise[4096] = {40, 0, 0, 0, 0xff, 0x13};
    assert_int_equal(post_status(s, noise, sizeof noise), 400);
    uint8_t *large = calloc(1, 1 << 20);
    assert_int_equal(post_status(s, large, 1 << 20), 413);
    assert_int_equal(post_status(s, large, 64 << 10), 400); /* just within */
    free(large);
    refuses_too_many_events(s, &a);
    assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_batches), 0);

    client c;
    response r;
    static const char *const bad[] = {
        "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
        "GET " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        "DELETE /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "complete nonsense\r\n\r\n",
    };
    static const int expected[] = {415, 405, 404, 501, 400};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_true(client_open(&c, s, "alpha", NULL));
        assert_true(client_write(&c, bad[i], strlen(bad[i])));
        client_read(&c, &r);
        assert_int_equal(r.status, expected[i]);
        free(r.body);
        client_close(&c);
    }
    /* headers without end */
    assert_true(client_open(&c, s, "alpha", NULL));
    char line[1100];
    memset(line, 'a', sizeof line);
    memcpy(line, "x: ", 3);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    (void)client_write(&c, "GET /healthz HTTP/1.1\r\n", 23);
    for (int i = 0; i < 200 && client_write(&c, line, sizeof line); i++) {
    }
    client_read(&c, &r);
    assert_true(r.status != 200);
    free(r.body);
    client_close(&c);
    assert_int_equal(visit(s, "alpha"), 200);
    ea_text_deinit(&body);
    test_maker_deinit(&m);
    test_maker_deinit(&m2);
    free(a.data);
    free(b.data);
}

/* Seconds until the server ends the connection, at most limit_s; one byte is sent every 100 ms. */
static double trickle(client *c, double limit_s) {
    int64_t begin = ea_monotonic_ns();
    for (;;) {
        double passed = (double)(ea_monotonic_ns() - begin) / 1e9;
        struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
        if (passed > limit_s)
            return passed;
        if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
            return passed;
        ea_sleep_ns(INT64_C(100000000));
        if (!client_write(c, "x", 1))
            return passed;
    }
}

static void slow_clients_are_cut_off(void **state) {
    server *s = *state;
    client slow, silent, good;
    const char head[] = "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: " EA_UPLOAD_TYPE
                        "\r\nContent-Length: 60000\r\n\r\n";
    s->options.limits.body_ns = s->options.limits.head_ns = INT64_C(1500000000);
    s->options.limits.handshake_ns = INT64_C(4000000000); /* which those who do shake hands must not need */
    start(s);
    /* a body that trickles */
    assert_true(client_open(&slow, s, "alpha", NULL));
    assert_true(client_write(&slow, head, sizeof head - 1));
    double passed = trickle(&slow, 60);
    assert_true(passed > 1 && passed < 60);
    client_close(&slow);
    /* headers that trickle */
    assert_true(client_open(&slow, s, "alpha", NULL));
    assert_true(client_write(&slow, head, 20));
    passed = trickle(&slow, 60);
    assert_true(passed > 1 && passed < 60);
    client_close(&slow);
    /* no handshake at all */
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(s->port)};
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(&silent, 0, sizeof silent);
    silent.fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(silent.fd, (struct sockaddr *)&sa, sizeof sa), 0);
    struct pollfd p = {.fd = silent.fd, .events = POLLIN | POLLRDHUP};
    assert_true(poll(&p, 1, 60000) > 0);
    close(silent.fd);
    /* an idle one after a request stays, longer than a request may take */
    assert_true(client_open(&good, s, "alpha", NULL));
    assert_int_equal(get_status(&good, "/healthz"), 200);
    ea_sleep_ns(INT64_C(3500000000));
    assert_int_equal(get_status(&good, "/healthz"), 200);
    client_close(&good);
}

/* Uploads that begin and never end fill the bound on memory: theirs are paused, an honest small one goes through. */
static void hoarders_do_not_stop_others(void **state) {
    server *s = *state;

    enum { HOARDERS = 6, PIECE = 40 << 10 };

    client hoarder[HOARDERS], good;
    test_maker m;
    test_batch b;
    ea_arena arena;
    ea_ack ack;
    static char piece[PIECE];
    const char head[] = "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: " EA_UPLOAD_TYPE
                        "\r\nContent-Length: 1000000\r\n\r\n";
    s->options.threads = 1;
    s->options.max_waiting_bytes = 100 << 10;
    s->options.max_body_bytes = 2 << 20;
    start(s);
    for (size_t i = 0; i < HOARDERS; i++) {
        assert_true(client_open(&hoarder[i], s, "beta", NULL));
        assert_true(client_write(&hoarder[i], head, sizeof head - 1));
        assert_true(client_write(&hoarder[i], piece, sizeof piece));
    }
    ea_sleep_ns(INT64_C(200000000));
    ea_arena_init(&arena, 0);
    test_maker_init(&m, 1);
    test_make(&m, 1, 5, 0, &b);
    assert_true(client_open(&good, s, "alpha", NULL));
    upload(&good, &b, 1, &arena, &ack);
    assert_int_equal(ack.acknowledged_count, 1);
    client_close(&good);
    /* when some go, the paused ones go on: the last one's body arrives whole and is judged */
    for (size_t i = 0; i + 1 < HOARDERS; i++)
        client_close(&hoarder[i]);
    for (size_t sent = sizeof piece; sent < 1000000;) {
        size_t n = 1000000 - sent < sizeof piece ? 1000000 - sent : sizeof piece;
        assert_true(client_write(&hoarder[HOARDERS - 1], piece, n));
        sent += n;
    }
    response r;
    client_read(&hoarder[HOARDERS - 1], &r);
    assert_int_equal(r.status, 400);
    free(r.body);
    client_close(&hoarder[HOARDERS - 1]);
    test_maker_deinit(&m);
    free(b.data);
    ea_arena_deinit(&arena);
}

static void connections_are_capped(void **state) {
    server *s = *state;
    client c[4];
    s->options.threads = 1;
    s->options.max_agent_connections = 2;
    start(s);
    for (size_t i = 0; i < 2; i++) {
        assert_true(client_open(&c[i], s, "alpha", NULL));
        assert_int_equal(get_status(&c[i], "/healthz"), 200);
    }
    assert_true(client_open(&c[2], s, "alpha", NULL));
    assert_int_equal(get_status(&c[2], "/healthz"), 0); /* one too many of this agent */
    assert_int_equal(visit(s, "beta"), 200);
    client_close(&c[2]);
    client_close(&c[1]);
    for (int i = 0; i < 3000 && visit(s, "alpha") != 200; i++)
        ea_sleep_ns(INT64_C(20000000));
    assert_int_equal(visit(s, "alpha"), 200);
    client_close(&c[0]);
    stop(s);

    s->options.max_agent_connections = 0;
    s->options.limits.connections = 2; /* of all: others wait until one goes */
    start(s);
    for (size_t i = 0; i < 2; i++) {
        assert_true(client_open(&c[i], s, "alpha", NULL));
        assert_int_equal(get_status(&c[i], "/healthz"), 200);
    }
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(s->port)};
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0); /* in the kernel's queue */
    close(fd);
    client_close(&c[0]);
    assert_int_equal(visit(s, "beta"), 200);
    client_close(&c[1]);
}

/* Clients in parallel, each with its own stream; then a stop in the middle of it: what was acknowledged is in the
 * store. */
enum { PARALLEL = 4, EACH = 40 };

typedef struct sender {
    const server *server;
    uint8_t stream;
    const char *name;
    uint64_t acknowledged; /* highest */
    int failed;
} sender;

static void send_all(void *arg) {
    sender *me = arg;
    client c;
    test_maker m;
    ea_arena arena;
    ea_arena_init(&arena, 0);
    test_maker_init(&m, me->stream);
    if (!client_open(&c, me->server, me->name, NULL))
        me->failed = 1;
    for (uint64_t i = 1; i <= EACH && !me->failed; i++) {
        test_batch b;
        ea_text body;
        response r;
        ea_ack ack;
        ea_err err;
        test_make(&m, i, 20, 0, &b);
        ea_text_init(&body);
        add_frame(&body, &b);
        post(&c, body.data, body.len_bytes, &r);
        if (r.status != 200)
            me->failed = 1; /* the server is going */
        else if (ea_ack_decode(&ack, &arena, (const uint8_t *)r.body, r.body_bytes, &err))
            me->failed = 2;
        else if (ack.refused_count == 1 && ack.refused[0].cause == EA_REFUSED_RETRY)
            me->failed = 1; /* it stops, and leaves the batch for later */
        else if (ack.acknowledged_count != 1 || ack.acknowledged[0].first != i)
            me->failed = 2;
        else
            me->acknowledged = i;
        free(r.body);
        free(b.data);
        ea_text_deinit(&body);
    }
    client_close(&c);
    test_maker_deinit(&m);
    ea_arena_deinit(&arena);
}

static void parallel_senders(void **state, int stop_early) {
    server *s = *state;
    sender senders[PARALLEL];
    ea_thread *threads[PARALLEL];
    start(s);
    for (int i = 0; i < PARALLEL; i++) {
        senders[i] = (sender){.server = s, .stream = (uint8_t)(i + 1), .name = i % 2 ? "alpha" : "beta"};
        assert_int_equal(ea_thread_start(&threads[i], "sender", send_all, &senders[i], &s->err), 0);
    }
    if (stop_early) {
        ea_sleep_ns(INT64_C(60000000));
        ec_ingest_stop(s->ingest);
        s->ingest = NULL;
    }
    for (size_t i = 0; i < PARALLEL; i++)
        ea_thread_join(threads[i]);
    for (int i = 0; i < PARALLEL; i++) {
        uint8_t stream[EA_STREAM_ID_BYTES];
        ec_range ranges[4];
        size_t n = 0;
        memset(stream, i + 1, sizeof stream);
        assert_true(senders[i].failed != 2);
        if (!stop_early) {
            assert_int_equal(senders[i].failed, 0);
            continue;
        }
        assert_int_equal(ec_store_ranges(s->store, senders[i].name, stream, ranges, 4, &n, &s->err), 0);
        if (senders[i].acknowledged) {
            assert_int_equal(n, 1);
            assert_true(ranges[0].first == 1 && ranges[0].last >= senders[i].acknowledged);
        }
    }
    if (!stop_early) {
        assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_batches), PARALLEL * EACH);
        assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_store_events), PARALLEL * EACH * 20);
    }
}

static void many_at_a_time(void **state) {
    parallel_senders(state, 0);
}

static void a_stop_in_the_middle(void **state) {
    parallel_senders(state, 1);
}

/* ---- a stop leaves batches ---- */

typedef struct stopping {
    atomic_int has_begun, is_stopping, is_answered;
} stopping;

/* After the first batch: the rest comes after the stop. */
static void wait_for_stop(void *arg, const char *agent, int64_t cpu_ns) {
    stopping *t = arg;
    (void)agent, (void)cpu_ns;
    if (atomic_exchange(&t->has_begun, 1))
        return;
    for (int i = 0; i < 1000 && !atomic_load(&t->is_stopping); i++)
        ea_sleep_ns(INT64_C(10000000));
    ea_sleep_ns(INT64_C(200000000)); /* until ec_writer_stop has said so */
}

static void note_answer(void *arg, ec_upload *u) {
    (void)u;
    atomic_fetch_add(&((stopping *)arg)->is_answered, 1);
}

/* An upload that is being stored when the collector stops: batches that are not stored yet wait for a later upload, so
 * that a stop takes no longer than one batch. */
static void a_stop_leaves_batches(void **state) {
    enum { COUNT = 50 };

    server *s = *state;
    stopping t = {.has_begun = 0};
    ec_writer *w = NULL;
    ec_upload u = {.agent = "alpha"};
    test_maker m;
    ea_text body;
    ea_arena arena;
    ea_ack ack;
    ec_store_options o = {.writable = 1, .counters = &s->counters};
    assert_int_equal(ec_store_open(&s->store, s->store_dir, &o, &s->err), 0);
    test_maker_init(&m, 1);
    ea_text_init(&body);
    ea_text_init(&u.answer);
    ea_arena_init(&u.texts, 0);
    ea_arena_init(&arena, 0);
    for (uint64_t i = 1; i <= COUNT; i++) {
        test_batch b;
        test_make(&m, i, 5, 0, &b);
        add_frame(&body, &b);
        free(b.data);
    }
    u.data = (const uint8_t *)body.data;
    u.len_bytes = body.len_bytes;
    int rc;
    while ((rc = ec_upload_check_next(&u, &s->err)) == 1) {
    }
    assert_int_equal(rc, 0);
    assert_int_equal(ec_writer_start(&w,
                                     &(ec_writer_options){.store = s->store,
                                                          .counters = &s->counters,
                                                          .on_used = wait_for_stop,
                                                          .done = note_answer,
                                                          .done_arg = &t},
                                     &s->err),
                     0);
    assert_int_equal(ec_writer_push(w, &u), 0);
    for (int i = 0; i < 3000 && !atomic_load(&t.has_begun); i++)
        ea_sleep_ns(INT64_C(10000000));
    atomic_store(&t.is_stopping, 1);
    ec_writer_stop(w);
    assert_int_equal(atomic_load(&t.is_answered), 1);
    assert_int_equal(u.status, 200);
    assert_int_equal(ea_ack_decode(&ack, &arena, (const uint8_t *)u.answer.data, u.answer.len_bytes, &s->err), 0);
    assert_int_equal(ack.acknowledged_count, 1);
    assert_true(ack.acknowledged[0].first == 1 && ack.acknowledged[0].last == 1);
    assert_int_equal(ack.refused_count, COUNT - 1);
    assert_int_equal(ack.refused[0].cause, EA_REFUSED_RETRY);
    assert_non_null(strstr(ack.refused[0].text, "stopping"));
    assert_int_equal(ea_counter_get(&s->counters, EA_COUNT_ingest_batches), 1);
    ec_writer_destroy(w);
    ec_upload_deinit(&u);
    ea_arena_deinit(&arena);
    ea_text_deinit(&body);
    test_maker_deinit(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lets_in_whom_it_should, setup, teardown),
        cmocka_unit_test_setup_teardown(revocation_holds_for_open_and_resumed_sessions, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_with_a_password_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_list_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(sessions_outlive_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(stores_and_acknowledges, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_too_many_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_clients_are_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(hoarders_do_not_stop_others, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_are_capped, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_leaves_batches, setup, teardown),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
