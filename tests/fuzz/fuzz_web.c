/* Fuzz target: the HTTP listeners of the collector for people and for new agents: collector/web without and with
 * tokens, and enrolment. Each is a real listener on loopback. The functions that they call (a query, a profile, the
 * signer) are replaced by mocks (--wrap), so that no child process starts. The mocks check their arguments.
 *
 * First byte, & 3: 0 web, 1 web with tokens, 2 and 3 enrolment; & 4: the remaining bytes are sent unchanged. Otherwise
 * the remaining bytes are "METHOD TARGET\nHEADER\nHEADER\n\nBODY", which is sent as HTTP/1.1 with the length of the
 * body. Second byte, & 7: how the mock ends; & 8: the request is sent in two parts. */
#include "collector/access/access.h"
#include "collector/access/audit.h"
#include "collector/enroll/enroll_server.h"
#include "collector/net/listen.h"
#include "collector/web/call.h"
#include "collector/web/profile_worker.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/web_words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    DEADLINE_S = 60,  /* more than any of the server's own */
    PATIENCE_MS = 10, /* for an answer, before the client says that nothing follows */
    ANSWER_BYTES = 8 << 20,
    REQUEST_BYTES = 1 << 20,
    ROWS = 5,
    TAIL_LOOKS = 3,
};

static const int64_t AN_HOUR_NS = INT64_C(3600000000000);

typedef struct site {
    ea_counters counters;
    ec_audit *audit;
    ec_access *access;
    ec_web *webs[2];
    ec_enroll *enroll;
    uint16_t ports[4];
    sqlite3 *db;
    sqlite3_stmt *json_valid;
    ea_text request;
} site;

static site the_site;
static atomic_int the_ending; /* how the mock ends */
static _Thread_local const ec_call *the_call;
static _Thread_local int the_looks;

static void must_at(int condition, int line) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_web.c:%d does not hold\n", line);
    abort();
}

#define must(condition) must_at(condition, __LINE__)

/* ---- mocks ---- */

/* Each mock has the type of the function that it replaces. When one of the two signatures changes, the build fails. */
#define STAND_IN(name) __typeof__(name) __wrap_##name
__typeof__(ec_rate_limiter_take) __real_ec_rate_limiter_take;
__typeof__(ec_rate_take) __real_ec_rate_take;
__typeof__(ec_call_ask) __real_ec_call_ask;
STAND_IN(ec_rate_limiter_take);
STAND_IN(ec_rate_take);
STAND_IN(ec_call_ask);
STAND_IN(ec_call_wait);
STAND_IN(ec_ask);
STAND_IN(ec_profile_ask);
STAND_IN(ec_signer_enroll);
STAND_IN(ec_signer_renew);
STAND_IN(ec_signer_look);

/* An hour passes between two requests, so that no rate is used up. */
static int64_t later(int64_t now_ns) {
    static atomic_llong hours;
    return now_ns + atomic_fetch_add(&hours, 1) * AN_HOUR_NS;
}

int __wrap_ec_rate_limiter_take(ec_rate_limiter *r, const char *address, int64_t now_ns, ec_rate **ret, ea_err *err) {
    return __real_ec_rate_limiter_take(r, address, later(now_ns), ret, err);
}

int __wrap_ec_rate_take(ec_rate *b, int64_t now_ns) {
    return __real_ec_rate_take(b, later(now_ns));
}

/* 1 when a statement is one, its quotes and parentheses end, and it has no comment: nothing of a parameter became SQL.
 */
static int is_one_statement(const char *sql) {
    int depth = 0;
    for (const char *p = sql; *p; p++) {
        if (*p == '\'' || *p == '"') {
            const char quote = *p;
            for (p++; *p && (*p != quote || p[1] == quote); p++)
                p += *p == quote;
            if (!*p)
                return 0;
            continue;
        }
        depth += (*p == '(') - (*p == ')');
        if (depth < 0 || *p == ';' || (*p == '-' && p[1] == '-') || (*p == '/' && p[1] == '*'))
            return 0;
    }
    return depth == 0;
}

/* The tokens that this target has; hosts: what they may read. */
static void check_caller(const ec_call *c, const char *shown) {
    must(!c->options->access == !c->token);
    must(!c->token || c->token->scope >= (strcmp(c->route->path, "/metrics") == 0 ? EC_SCOPE_METRICS : EC_SCOPE_READ));
    if (c->token && strcmp(c->token->name, "some") == 0)
        must(shown && strcmp(shown, "web*") == 0);
    else
        must(!shown);
}

int __wrap_ec_call_ask(ec_call *c, const ec_question *question, const ec_listener *listener, ec_outcome *ret,
                       ea_err *err) {
    must(c->route->method != EC_POST || c->body);
    the_call = c;
    if (strcmp(c->route->path, "/api/v1/sql") != 0) {
        must(is_one_statement(question->sql));
        must(!question->first_sql || is_one_statement(question->first_sql));
    }
    if (strncmp(question->sql, "SELECT 0,", 9) == 0)
        the_looks = 0;
    int rc = __real_ec_call_ask(c, question, listener, ret, err);
    the_call = NULL;
    return rc;
}

int __wrap_ec_call_wait(ec_call *c, int64_t ns, ea_err *err) {
    must(c->route->pool == EC_POOL_LISTEN && ns > 0);
    return ++the_looks > TAIL_LOOKS ? ea_fail(err, EA_ECANCELED, "wait") : 0;
}

/* The row of a first statement: of a page of events, where the step back begins; of another question, that what it asks
 * about is known. */
static void say_first(const ec_question *q, const ec_listener *listener) {
    must(listener->on_first != NULL);
    if (strncmp(q->sql, "SELECT e.time", 13) != 0) {
        must(listener->on_first(listener->arg, 1, &(ec_value){.type = EC_INT, .i = 1}) == 0);
        return;
    }
    must(q->param_count >= 2);
    uint64_t wide = (uint64_t)q->params[1].i - (uint64_t)q->params[0].i;
    int64_t from = wide >> 40 ? q->params[1].i - (int64_t)(wide >> 1) : q->params[0].i;
    must(listener->on_first(listener->arg, 1, &(ec_value){.type = EC_INT, .i = from}) == 0);
}

static int say_rows(const ec_question *q, const ec_listener *listener, uint64_t *ret_rows) {
    static const char *const NAMES[] = {"time", "ho\"st", "fields", "a", "b"}, *const TYPES[] = {"TIME", "", "JSON", "",
                                                                                                 ""};
    static const char TEXT[] = "a \"text\", \x01\xff\r\n</script>";
    const ec_value cells[] = {{.type = EC_INT, .i = INT64_MAX},
                              {.type = EC_TEXT, .data = TEXT, .len_bytes = sizeof TEXT - 1},
                              {.type = EC_REAL, .r = 1e300},
                              {.type = EC_BLOB, .data = TEXT, .len_bytes = 3},
                              {.type = EC_NULL}};
    const ec_value span[] = {{.type = EC_INT, .i = the_looks + 1}, {.type = EC_INT, .i = 7}};
    int is_span = strncmp(q->sql, "SELECT max(received)", 20) == 0 || strncmp(q->sql, "SELECT 0,", 9) == 0;
    uint64_t count = is_span ? 1 : q->limit_rows && q->limit_rows < ROWS ? q->limit_rows : ROWS;
    if (listener->on_columns(listener->arg, is_span ? 2 : ROWS, NAMES, TYPES))
        return 1;
    for (; *ret_rows < count; ++*ret_rows)
        if (listener->on_row(listener->arg, is_span ? 2 : ROWS, is_span ? span : cells))
            return 1;
    return 0;
}

int __wrap_ec_ask(const ec_question *q, const ec_listener *listener, atomic_int *stop, ec_outcome *ret, ea_err *err) {
    int ending = atomic_load(&the_ending);
    must(q->sql && q->limit_ns > 0 && q->limit_bytes > 0 && stop);
    check_caller(the_call, q->shown);
    if (q->host && q->shown)
        must(strncasecmp(q->host, "web", 3) == 0); /* names of agents ignore case */
    for (size_t i = 0; i < q->param_count; i++)    /* all are set, and texts have no NUL */
        must(q->params[i].type != EC_TEXT || strlen(q->params[i].data) == q->params[i].len_bytes);
    *ret = (ec_outcome){.ending = EC_ENDED_WHOLE};
    if (ending == 5)
        return ea_fail(err, EA_EUSAGE, "no such table: \"x\"");
    if (ending == 6)
        return ea_fail(err, EA_EUSAGE, "no state tables yet");
    if (ending == 7)
        return ea_fail(err, EA_ENOTFOUND, "there is no store");
    if (q->first_sql)
        say_first(q, listener);
    ret->ending = say_rows(q, listener, &ret->rows) ? EC_ENDED_CANCELED : (enum ec_ending)ending;
    return 0;
}

int __wrap_ec_profile_ask(const ec_profile_question *q, atomic_int *stop, int64_t *ret_processor_ns, ea_err *err) {
    static const char PIECE[] = "{\"stacks\":[]}";
    *ret_processor_ns = 1000000;
    must(stop && q->request->store && q->limit_ns > 0);
    for (int side = 0; side < (q->request->has_other ? 2 : 1); side++) {
        const ec_profile_side *s = &q->request->side[side];
        for (size_t i = 0; i < s->host_count; i++)
            must(*s->hosts[i] && (!q->request->shown || strncmp(s->hosts[i], "web", 3) == 0));
        for (size_t i = 0; i < s->label_count; i++)
            must(strchr(s->labels[i], '=') != NULL);
    }
    must(!q->request->shown || strcmp(q->request->shown, "web*") == 0);
    return atomic_load(&the_ending) > 3 ? ea_fail(err, EA_ELIMIT, "too many stacks")
                                        : q->on_piece(q->arg, PIECE, sizeof PIECE - 1, err);
}

int __wrap_ec_signer_enroll(ec_signer *s, const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret,
                            ea_err *err) {
    static const int CODES[] = {0, EA_EINVAL, EA_EREFUSED, EA_EEXIST, EA_ELIMIT, EA_EBUSY, EA_ETIMEOUT, EA_EIO};
    int code = CODES[atomic_load(&the_ending) & 7];
    (void)s;
    must(strlen(token) < 256 && len_bytes <= EC_CA_CSR_MAX &&
         (!len_bytes || memchr(csr, csr[len_bytes - 1], len_bytes)));
    if (code)
        return ea_fail(err, code, "not for %.40s", token);
    *ret = (ec_ca_enrolled){.name = "pc", .serial = "01", .pem = strdup("PEM\n"), .pem_bytes = 4};
    must(ret->pem != NULL);
    return 0;
}

/* Without TLS no client has a certificate. */
int __wrap_ec_signer_renew(ec_signer *s, const uint8_t *cert, size_t cert_bytes, const char *csr, size_t csr_bytes,
                           ec_ca_enrolled *ret, ea_err *err) {
    (void)s, (void)cert, (void)cert_bytes, (void)csr, (void)csr_bytes, (void)ret, (void)err;
    must(0);
    return EA_EREFUSED;
}

void __wrap_ec_signer_look(ec_signer *s) {
    (void)s;
}

/* ---- the servers ---- */

static void close_site(void) {
    site *t = &the_site;
    ea_text report;
    uint64_t faults = 0;
    ea_err err;
    ec_enroll_stop(t->enroll);
    ec_web_stop(t->webs[0]);
    ec_web_stop(t->webs[1]);
    ec_access_close(t->access);
    ec_audit_close(t->audit);
    ea_text_init(&report); /* whatever was asked, the audit log's chain holds */
    must(ec_audit_verify(folder, &report, &faults, &err) == 0);
    must(faults == 0);
    ea_text_deinit(&report);
    ea_text_deinit(&t->request);
    sqlite3_finalize(t->json_valid);
    sqlite3_close(t->db);
}

/* Tokens whose texts an input can have. */
static void write_tokens(void) {
    static const struct {
        const char *text, *rest;
    } ROWS_OF[] = {{WEB_TOKEN_READ, "read\t1\tall\t"},
                   {WEB_TOKEN_SOME, "read\t1\tsome\tweb*"},
                   {WEB_TOKEN_METRICS, "metrics\t1\tmetrics\t"},
                   {WEB_TOKEN_ADMIN, "admin\t1\tadmin\t"}};

    char path[sizeof folder + 8];
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < sizeof ROWS_OF / sizeof *ROWS_OF; i++) {
        uint8_t hash[EC_SECRET_HASH_BYTES];
        const char *secret = ROWS_OF[i].text + EC_SECRET_PREFIX_BYTES + EC_SECRET_ID_BYTES;
        must(EVP_Digest(secret, strlen(secret), hash, NULL, EVP_sha256(), NULL) == 1);
        ea_text_printf(&t, "%.8s\t", ROWS_OF[i].text + EC_SECRET_PREFIX_BYTES);
        ea_text_hex(&t, hash, sizeof hash);
        ea_text_printf(&t, "\t%s\n", ROWS_OF[i].rest);
    }
    snprintf(path, sizeof path, "%s/tokens", folder);
    umask(077);
    FILE *f = fopen(path, "wb");
    must(f && !t.failed && fwrite(t.data, 1, t.len_bytes, f) == t.len_bytes && fclose(f) == 0);
    ea_text_deinit(&t);
    ec_token *tokens = NULL;
    size_t count = 0;
    ea_err err;
    must(ec_api_tokens_read(folder, &tokens, &count, &err) == 0 && count == sizeof ROWS_OF / sizeof *ROWS_OF);
    free(tokens);
}

static void open_site(site *t) {
    ea_err err;
    signal(SIGPIPE, SIG_IGN);
    folder_make("web");
    write_tokens();
    must(ec_audit_open(&t->audit, folder, &(ec_audit_options){.max_bytes = 1 << 20, .counters = &t->counters}, &err) ==
         0);
    must(ec_access_open(&t->access, folder, &err) == 0);
    for (int i = 0; i < 2; i++) {
        must(ec_web_start(&t->webs[i],
                          &(ec_web_options){.listen = "127.0.0.1:0",
                                            .store = folder,
                                            .counters = &t->counters,
                                            .access = i ? t->access : NULL,
                                            .audit = t->audit},
                          &err) == 0);
        t->ports[i] = ec_web_port(t->webs[i]);
    }
    must(ec_enroll_start(&t->enroll,
                         &(ec_enroll_options){.listen = "127.0.0.1:0", .audit = t->audit, .counters = &t->counters},
                         &err) == 0);
    t->ports[2] = t->ports[3] = ec_enroll_port(t->enroll);
    must(sqlite3_open(":memory:", &t->db) == SQLITE_OK);
    must(sqlite3_prepare_v2(t->db, "SELECT json_valid(?1)", -1, &t->json_valid, NULL) == SQLITE_OK);
    ea_text_init(&t->request);
    atexit(close_site);
}

/* ---- a request and its answer ---- */

static int open_socket(uint16_t port) {
    const struct timeval timeout = {.tv_sec = DEADLINE_S};
    const struct linger at_once = {.l_onoff = 1}; /* no port waits for what is over */
    const int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int failed = connect(fd, (const struct sockaddr *)&address, sizeof address) ? errno : 0;
    if (failed == EINTR) { /* by the alarm of libFuzzer, which comes every 31 s: the connection is made nevertheless */
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        socklen_t length = sizeof failed;
        while (poll(&p, 1, DEADLINE_S * 1000) < 0 && errno == EINTR)
            ;
        must(p.revents && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0);
    }
    if (failed) {
        char text[128];
        ea_os_error_text(failed, text, sizeof text);
        (void)fprintf(stderr, "connect: %s\n", text);
        must(0);
    }
    return fd;
}

/* "METHOD TARGET\nHEADER\n\nBODY" as HTTP. */
static void write_request(ea_text *t, const char *data, size_t size) {
    const char *end = data + size, *at = data;
    for (int line = 0; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        if (line && !n) {
            at++;
            break;
        }
        ea_text_add(t, at, n);
        ea_text_str(t, line ? "\r\n" : " HTTP/1.1\r\n");
        at += n + (stop != NULL);
    }
    if (at < end)
        ea_text_printf(t, "Content-Length: %zu\r\n", (size_t)(end - at));
    ea_text_str(t, "Connection: close\r\n\r\n");
    if (at < end)
        ea_text_add(t, at, (size_t)(end - at));
    must(!t->failed);
}

static void check_answer(site *t, char *answer, size_t n) {
    char *body = strstr(answer, "\r\n\r\n");
    const char *status = n > 12 && memcmp(answer, "HTTP/", 5) == 0 ? strchr(answer, ' ') : NULL;
    must(status != NULL);
    int code = atoi(status + 1);
    must(code >= 100 && code <= 505);
    if (!body || code == 100)
        return; /* cut, since the client said that nothing follows */
    *body = 0;
    body += 4;
    const char *length = strcasestr(answer, "\r\nContent-Length: ");
    int is_problem = strstr(answer, "application/problem+json") != NULL;
    int is_json = is_problem || strstr(answer, "Content-Type: application/json") != NULL;
    if (!strstr(answer, "Cache-Control: ")) /* libevent's own */
        return;
    must(code != 500);
    if (strstr(answer, "Content-Security-Policy: "))
        must(strstr(answer, "\r\nX-Content-Type-Options: nosniff") && strstr(answer, "\r\nContent-Type: "));
    if (!is_json || !length || (size_t)(answer + n - body) < strtoull(length + 18, NULL, 10))
        return;
    if (strstr(answer, "Content-Encoding: gzip"))
        return;
    must(sqlite3_bind_text(t->json_valid, 1, body, (int)strtoull(length + 18, NULL, 10), SQLITE_STATIC) == SQLITE_OK);
    must(sqlite3_step(t->json_valid) == SQLITE_ROW && sqlite3_column_int(t->json_valid, 0) == 1);
    (void)sqlite3_reset(t->json_valid);
}

static void request(site *t, uint16_t port, const char *data, size_t size, int in_pieces) {
    static char answer[ANSWER_BYTES];
    int fd = open_socket(port);
    size_t half = in_pieces ? size / 2 : size, n = 0;
    ssize_t got = send(fd, data, half, MSG_NOSIGNAL);
    if (got >= 0 && half < size)
        (void)!send(fd, data + half, size - half, MSG_NOSIGNAL);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t begin = ea_monotonic_ns();
    if (poll(&p, 1, PATIENCE_MS) == 0)
        (void)shutdown(fd, SHUT_WR);
    while (n < sizeof answer - 1 && (got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0) {
        n += (size_t)got;
        if (poll(&p, 1, PATIENCE_MS) == 0) /* the connection is kept open */
            (void)shutdown(fd, SHUT_WR);
    }
    must(ea_monotonic_ns() - begin < DEADLINE_S * INT64_C(1000000000));
    close(fd);
    answer[n] = 0;
    if (n)
        check_answer(t, answer, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    site *t = &the_site;
    if (!t->db)
        open_site(t);
    if (size < 2 || size > REQUEST_BYTES)
        return 0;
    atomic_store(&the_ending, data[1] & 7);
    ea_text_clear(&t->request);
    if (data[0] & 4)
        ea_text_add(&t->request, (const char *)data + 2, size - 2);
    else
        write_request(&t->request, (const char *)data + 2, size - 2);
    if (t->request.len_bytes)
        request(t, t->ports[data[0] & 3], t->request.data, t->request.len_bytes, data[1] & 8);
    return 0;
}
