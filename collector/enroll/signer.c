/* The signer, seen from both sides. See signer.h. */
#include "collector/enroll/signer.h"

#include "collector/enroll/signer_message.h"
#include "collector/sandbox/child.h"
#include "collector/sandbox/sandbox.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES_MAX = 64, KEY_PATHS_MAX = 32 };

static const int64_t SECOND_NS = 1000000000;
static const int64_t ANSWER_S = 30, START_S = 120; /* to read a long log, or to reach a token */
static const int64_t PAUSE_MIN_S = 1, PAUSE_MAX_S = 60;
static const uint64_t MEMORY_BYTES = UINT64_C(1) << 30, FILE_BYTES = UINT64_C(1) << 30;

const char *const ec_signer_variables[] = {"OPENSSL_CONF",  "OPENSSL_MODULES",  "PKCS11_PROVIDER_MODULE",
                                           "SOFTHSM2_CONF", "TPM2OPENSSL_TCTI", NULL};

struct ec_signer {
    ec_signer_options options;
    int has_child;
    int in, out;
    int64_t pause_s, next_ns; /* when it is started again, monotonic */
};

/* ---- frames ---- */

/* Reads n bytes. deadline_ns: monotonic; 0: none. EA_EIO at the end of the stream. */
static int read_bytes(int fd, uint8_t *out, size_t n, int64_t deadline_ns, ea_err *err) {
    for (size_t at = 0; at < n;) {
        int64_t left_ms = deadline_ns ? (deadline_ns - ea_monotonic_ns()) / 1000000 : 0;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (deadline_ns && left_ms <= 0)
            return ea_fail(err, EA_ETIMEOUT, "the signer did not answer in time");
        int ready = poll(&p, 1, deadline_ns ? (int)left_ms : -1);
        ssize_t got = ready > 0 ? read(fd, out + at, n - at) : 0;
        if (got > 0)
            at += (size_t)got;
        else if (ready > 0 && (got == 0 || errno != EINTR))
            return ea_fail(err, EA_EIO, "the signer has ended");
        else if (ready < 0 && errno != EINTR)
            return ea_fail_os(err, EA_EIO, errno, "wait for the signer");
    }
    return 0;
}

/* The next message, in a body that the caller frees, on failure, too. */
static int signer_read_message(int fd, int64_t deadline_ns, uint8_t **ret_body, ec_signer_message *ret, ea_err *err) {
    uint8_t head[EC_SIGNER_HEAD_BYTES];
    char kind;
    size_t n;
    int rc = read_bytes(fd, head, sizeof head, deadline_ns, err);
    if (!rc)
        rc = ec_signer_parse_head(head, &kind, &n, err);
    if (rc)
        return rc;
    *ret_body = malloc(n + 1);
    if (!*ret_body)
        return ea_fail(err, EA_ENOMEM, "read a message of the signer");
    rc = read_bytes(fd, *ret_body, n, deadline_ns, err);
    return rc ? rc : ec_signer_parse(kind, *ret_body, n, ret, err);
}

static int write_message(int fd, const ec_signer_message *m, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    int rc = ec_signer_print(m, &t, err);
    for (size_t at = 0; !rc && at < t.len_bytes;) {
        ssize_t n = write(fd, t.data + at, t.len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = ea_fail(err, EA_EIO, "the signer has ended");
    }
    if (t.data) /* a token may be in it */
        memset(t.data, 0, t.len_bytes);
    ea_text_deinit(&t);
    return rc;
}

static ec_signer_field text_field(const char *s) {
    return (ec_signer_field){.data = s, .len_bytes = strlen(s)};
}

/* ---- the collector's side ---- */

static void signer_end_child(ec_signer *s) {
    if (!s->has_child)
        return;
    close(s->in);
    close(s->out);
    ec_broker_end_child(s->options.broker, s->options.child); /* what it had logged is durable, the rest was not */
    s->has_child = 0;
}

/* It ended, or said what it must not. */
static void lose_child(ec_signer *s, const char *why) {
    signer_end_child(s);
    s->pause_s = s->pause_s * 2 > PAUSE_MAX_S ? PAUSE_MAX_S : s->pause_s ? s->pause_s * 2 : PAUSE_MIN_S;
    s->next_ns = ea_monotonic_ns() + s->pause_s * SECOND_NS;
    ea_count(s->options.counters, EA_COUNT_signer_ended, 1);
    ec_log_line(s->options.log, "the process that signs certificates ended: %s; it is started again in %" PRId64 " s",
                why, s->pause_s);
}

static int signer_take_answer(const ec_signer_message *m, ec_ca_enrolled *ret, ea_err *err) {
    const ec_signer_field *f = m->fields;
    if (m->kind != EC_SIGNER_ANSWER)
        return ea_fail(err, EA_ECORRUPT, "read a message of the signer: expected an answer");
    const char *flags = f[EC_ANSWER_FLAGS].data;
    ec_ca_enrolled got = {.is_known = strcmp(flags, "k") == 0, .renewed_twice = strcmp(flags, "t") == 0};
    uint64_t code = 0;
    snprintf(got.name, sizeof got.name, "%s", f[EC_ANSWER_NAME].data);
    snprintf(got.serial, sizeof got.serial, "%s", f[EC_ANSWER_SERIAL].data);
    snprintf(got.token, sizeof got.token, "%s", f[EC_ANSWER_TOKEN].data);
    if (ea_u64_parse(f[EC_ANSWER_CODE].data, &code) || code > 1000)
        return ea_fail(err, EA_ECORRUPT, "read a message of the signer: expected a code");
    int rc = code ? ea_fail(err, -(int)code, "%s", f[EC_ANSWER_TEXT].data) : 0;
    if (!rc && f[EC_ANSWER_PEM].len_bytes) {
        got.pem = malloc(f[EC_ANSWER_PEM].len_bytes + 1);
        if (!got.pem)
            return ea_fail(err, EA_ENOMEM, "read a certificate");
        memcpy(got.pem, f[EC_ANSWER_PEM].data, f[EC_ANSWER_PEM].len_bytes + 1);
        got.pem_bytes = f[EC_ANSWER_PEM].len_bytes;
    }
    *ret = got;
    return rc;
}

/* *ret_is_lost: there is no answer, and the signer is of no use any more. */
static int take_reply(const ec_signer *s, int64_t wait_s, ec_ca_enrolled *ret, int *ret_is_lost, ea_err *err) {
    uint8_t *body = NULL;
    ec_signer_message signer_answer;
    *ret_is_lost = 1;
    int rc = signer_read_message(s->out, ea_monotonic_ns() + wait_s * SECOND_NS, &body, &signer_answer, err);
    if (!rc) {
        *ret_is_lost = signer_answer.kind != EC_SIGNER_ANSWER;
        rc = signer_take_answer(&signer_answer, ret, err);
    }
    free(body);
    return rc;
}

/* Sends a message and takes the answer. */
static int exchange(const ec_signer *s, const ec_signer_message *m, ec_ca_enrolled *ret, int *ret_is_lost,
                    ea_err *err) {
    int rc = write_message(s->in, m, err);
    *ret_is_lost = rc != 0 && rc != EA_EINVAL; /* a field that is too long: nothing was sent */
    return rc ? rc : take_reply(s, ANSWER_S, ret, ret_is_lost, err);
}

int ec_signer_greeting(const ec_broker *broker, const char *ca_dir, const char *trust_path, ea_text *t, ea_err *err) {
    char pid[24];
    snprintf(pid, sizeof pid, "%ld", (long)ec_broker_pid(broker));
    const ec_signer_message m = {.kind = EC_SIGNER_OPEN,
                                 .fields = {text_field(pid), text_field(ca_dir), text_field(trust_path)}};
    return ec_signer_print(&m, t, err);
}

static int signer_start_child(ec_signer *s, ea_err *err) {
    int is_lost = 1;
    ec_ca_enrolled none = {.pem = NULL};
    int rc = ec_broker_start_child(s->options.broker, s->options.child, &s->in, &s->out, err);
    if (rc)
        return rc;
    s->has_child = 1;
    rc = take_reply(s, START_S, &none, &is_lost, err); /* to the greeting */
    free(none.pem);
    if (rc)
        signer_end_child(s);
    return rc;
}

int ec_signer_start(ec_signer **ret, const ec_signer_options *options, ea_err *err) {
    ec_signer *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "start the signer");
    s->options = *options;
    int rc = signer_start_child(s, err);
    if (rc) {
        ec_signer_stop(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ec_signer_stop(ec_signer *s) {
    if (!s)
        return;
    signer_end_child(s);
    free(s);
}

void ec_signer_look(ec_signer *s) {
    ea_err err = {0};
    int status;
    if (s->has_child && ec_broker_child_ended(s->options.broker, s->options.child, &status)) {
        char why[80];
        close(s->in);
        close(s->out);
        s->has_child = 0;
        if (WIFSIGNALED(status))
            snprintf(why, sizeof why, "signal %d", WTERMSIG(status));
        else
            snprintf(why, sizeof why, "exit code %d", WEXITSTATUS(status));
        lose_child(s, why);
    }
    if (s->has_child || ea_monotonic_ns() < s->next_ns)
        return;
    if (signer_start_child(s, &err))
        lose_child(s, err.message);
    else
        ec_log_line(s->options.log, "the process that signs certificates has been started again");
}

static int signer_ask(ec_signer *s, const ec_signer_message *m, ec_ca_enrolled *ret, ea_err *err) {
    int is_lost = 0;
    *ret = (ec_ca_enrolled){.pem = NULL};
    ec_signer_look(s);
    if (!s->has_child)
        return ea_fail(err, EA_EBUSY, "no certificate can be signed now; ask again later");
    int rc = exchange(s, m, ret, &is_lost, err);
    if (is_lost) {
        lose_child(s, err ? err->message : "");
        if (rc != EA_ETIMEOUT)
            rc = ea_fail(err, EA_EBUSY, "no certificate can be signed now; ask again later");
    } else if (!rc) {
        s->pause_s = 0;
    }
    return rc;
}

int ec_signer_enroll(ec_signer *s, const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret,
                     ea_err *err) {
    const ec_signer_message m = {.kind = EC_SIGNER_ENROLL,
                                 .fields = {text_field(token), {.data = csr, .len_bytes = len_bytes}}};
    return signer_ask(s, &m, ret, err);
}

int ec_signer_renew(ec_signer *s, const uint8_t *cert, size_t cert_bytes, const char *csr, size_t csr_bytes,
                    ec_ca_enrolled *ret, ea_err *err) {
    const ec_signer_message m = {
        .kind = EC_SIGNER_RENEW,
        .fields = {{.data = (const char *)cert, .len_bytes = cert_bytes}, {.data = csr, .len_bytes = csr_bytes}}};
    return signer_ask(s, &m, ret, err);
}

/* ---- the signer's side ---- */

static int signer_answer(int rc, const ec_ca_enrolled *got, const ea_err *failure) {
    char code[12];
    ea_err err;
    snprintf(code, sizeof code, "%d", -rc);
    ec_signer_message m = {.kind = EC_SIGNER_ANSWER};
    m.fields[EC_ANSWER_CODE] = text_field(code);
    m.fields[EC_ANSWER_TEXT] = text_field(rc ? failure->message : "");
    m.fields[EC_ANSWER_NAME] = text_field(got->name);
    m.fields[EC_ANSWER_SERIAL] = text_field(got->serial);
    m.fields[EC_ANSWER_TOKEN] = text_field(got->token);
    m.fields[EC_ANSWER_FLAGS] = text_field(got->renewed_twice ? "t" : got->is_known ? "k" : "");
    m.fields[EC_ANSWER_PEM] = (ec_signer_field){.data = got->pem ? got->pem : "", .len_bytes = got->pem_bytes};
    return write_message(STDOUT_FILENO, &m, &err);
}

static void signer_limit_one(int which, uint64_t value) {
    struct rlimit l = {.rlim_cur = value, .rlim_max = value};
    (void)setrlimit((__rlimit_resource_t)which, &l);
}

static void signer_limit(uint64_t parent) {
    ec_child_limit(parent, 0, MEMORY_BYTES);
    (void)signal(SIGTERM, SIG_IGN); /* it goes to all processes of a service; the collector answers what it has first */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no ptrace, and no /proc/PID/mem, by other processes of this user */
    signer_limit_one(RLIMIT_NOFILE, FILES_MAX);
    signer_limit_one(RLIMIT_FSIZE, FILE_BYTES);
}

/* A provider's libraries and what OpenSSL reads late; the rest is in ca.uri. */
static const ec_sandbox_path OF_PROVIDERS[] = {
    {.path = "/usr", .access = EC_SANDBOX_READ},
    {.path = "/lib", .access = EC_SANDBOX_READ},
    {.path = "/lib64", .access = EC_SANDBOX_READ},
    {.path = "/etc/ld.so.cache", .access = EC_SANDBOX_READ},
    {.path = "/etc/ssl/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/pki/tls/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/crypto-policies", .access = EC_SANDBOX_READ},
    {.path = "/etc/localtime", .access = EC_SANDBOX_READ},
    {.path = "/dev/null", .access = EC_SANDBOX_SHARE},
    {.path = "/dev/urandom", .access = EC_SANDBOX_READ},
};

enum { OF_PROVIDERS_COUNT = sizeof OF_PROVIDERS / sizeof *OF_PROVIDERS };

/* A key that a provider holds: paths (separated by colons) and the CA's folder alone; without paths all files. */
static int confine_provider(char *paths, const char *dir, ea_err *err) {
    ec_sandbox_path list[OF_PROVIDERS_COUNT + 1 + KEY_PATHS_MAX];
    size_t count = OF_PROVIDERS_COUNT;
    char *rest = NULL;
    if (!*paths)
        return ec_sandbox_enter(&(ec_sandbox){.rights = EC_SANDBOX_PROVIDER | EC_SANDBOX_ALL_FILES}, err);
    memcpy(list, OF_PROVIDERS, sizeof OF_PROVIDERS);
    list[count++] = (ec_sandbox_path){.path = dir, .access = EC_SANDBOX_WRITE};
    for (char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        if (count == sizeof list / sizeof *list)
            return ea_fail(err, EA_ELIMIT, "%s/ca.uri: more than %d paths", dir, KEY_PATHS_MAX);
        list[count++] = (ec_sandbox_path){.path = path, .access = EC_SANDBOX_WRITE};
    }
    return ec_sandbox_enter(&(ec_sandbox){.rights = EC_SANDBOX_PROVIDER, .paths = list, .path_count = count}, err);
}

/* With the key in memory nothing but the CA's folder is needed. */
static int signer_confine(const ec_ca *ca, const char *dir, ea_err *err) {
    const ec_sandbox_path path = {.path = dir, .access = EC_SANDBOX_WRITE};
    if (!ec_ca_key_is_elsewhere(ca))
        return ec_sandbox_enter(&(ec_sandbox){.rights = EC_SANDBOX_MODES, .paths = &path, .path_count = 1}, err);
    ea_text paths;
    ea_text_init(&paths);
    int rc = ec_ca_key_paths(ca, &paths, err);
    char none[] = "";
    if (!rc)
        rc = confine_provider(paths.len_bytes ? paths.data : none, dir, err);
    ea_text_deinit(&paths);
    return rc;
}

static int signer_serve_one(ec_ca *ca, const ec_signer_message *m) {
    const ec_signer_field *f = m->fields;
    ec_ca_enrolled got = {.pem = NULL};
    ea_err err = {0};
    int rc;
    if (m->kind == EC_SIGNER_ENROLL)
        rc = ec_ca_enroll(ca, f[0].data, f[1].data, f[1].len_bytes, &got, &err);
    else if (m->kind == EC_SIGNER_RENEW)
        rc = ec_ca_renew(ca, (const uint8_t *)f[0].data, f[0].len_bytes, f[1].data, f[1].len_bytes, &got, &err);
    else
        rc = ea_fail(&err, EA_EINVAL, "this message is not expected here");
    int written = signer_answer(rc, &got, &err);
    free(got.pem);
    return written;
}

int ec_signer_main(void) {
    uint8_t *body = NULL;
    ec_signer_message m;
    ec_ca *ca = NULL;
    ea_err err = {0};
    uint64_t parent = 0;
    const ec_ca_enrolled none = {.pem = NULL};
    int rc = signer_read_message(STDIN_FILENO, 0, &body, &m, &err);
    if (rc || m.kind != EC_SIGNER_OPEN || ea_u64_parse(m.fields[0].data, &parent)) {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_SIGNER_NAME);
        free(body);
        return 2;
    }
    signer_limit(parent);
    rc = ec_ca_open(&ca, m.fields[1].data, m.fields[2].data, &err);
    if (!rc)
        rc = signer_confine(ca, m.fields[1].data, &err);
    if (!rc)
        rc = ec_ca_make_crl(ca, 1, &err);
    free(body);
    int written = signer_answer(rc, &none, &err);
    while (!rc && !written) {
        body = NULL;
        rc = signer_read_message(STDIN_FILENO, 0, &body, &m, &err);
        if (!rc)
            written = signer_serve_one(ca, &m);
        free(body);
    }
    ec_ca_close(ca);
    return 0;
}
