/* etwcollector request window, add, list, withdraw: what agents are asked. A request is signed with a key that no
 * collector needs: it may be made on another machine, and added to the store as a file.
 * Called by: main.c. Calls: collector/state/requests.h, OpenSSL. Thread: the main one. */
#include "collector/access/audit.h"
#include "collector/app/collector_commands.h"
#include "collector/state/requests.h"
#include "proto/base/clock.h"
#include "proto/base/crypto_error.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FILE_MAX = 64 << 10, PUBLIC_KEY_BYTES = 32, SIGNED_MAX_BYTES = 2048, HOST_COLUMNS = 20 };

static const int64_t MS_NS = INT64_C(1000000);

typedef struct options {
    const char *store, *key, *hosts, *from, *to, *output;
    uint64_t limit_bytes, serial;
    int64_t life_ns;
    int json;
} options;

static int request_finish(int rc, const ea_err *err) {
    if (rc)
        ea_err_print(stderr, "etwcollector", err);
    return ea_exit_code(rc);
}

/* Adds a line to the store's audit log. */
static int request_audit(const char *store, const ea_text *note, ea_err *err) {
    ec_audit *a = NULL;
    int rc = note->failed ? ea_fail(err, EA_ENOMEM, "write the audit log")
                          : ec_audit_open(&a, store, &(ec_audit_options){.max_bytes = UINT64_MAX}, err);
    if (!rc)
        ec_audit_add(a, &(ec_audited){.note = note->data});
    ec_audit_close(a);
    return rc;
}

/* ---- making one ---- */

static int read_private_key(const char *path, EVP_PKEY **ret, ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_check_private(path, err);
    if (!rc)
        rc = ea_path_read_all(path, KEY_FILE_MAX, &pem, &len_bytes, err);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    EVP_PKEY *key =
        bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL; /* asks for a password, if it has one */
    BIO_free(bio);
    OPENSSL_cleanse(pem, len_bytes);
    free(pem);
    if (key && EVP_PKEY_is_a(key, "ED25519")) {
        *ret = key;
        return 0;
    }
    EVP_PKEY_free(key);
    ERR_clear_error();
    return ea_fail(err, EA_EINVAL, "%s: expected a private Ed25519 key in PEM (openssl genpkey -algorithm ed25519)",
                   path);
}

/* Appends the signed request. */
static int request_sign(EVP_PKEY *key, const ea_request *q, ea_text *out, ea_err *err) {
    uint8_t public_key[PUBLIC_KEY_BYTES], name[EVP_MAX_MD_SIZE], signature[EA_REQUEST_SIGNATURE_BYTES];
    size_t key_bytes = sizeof public_key, signature_bytes = sizeof signature;
    ea_text request, text;
    ea_text_init(&request);
    ea_text_init(&text);
    ea_request_encode(q, &request);
    ea_request_put_signed((const uint8_t *)request.data, request.len_bytes, &text);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int good = context && !request.failed && !text.failed &&
               EVP_PKEY_get_raw_public_key(key, public_key, &key_bytes) == 1 &&
               EVP_Digest(public_key, key_bytes, name, NULL, EVP_sha256(), NULL) == 1 &&
               EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
               EVP_DigestSign(context, signature, &signature_bytes, (const uint8_t *)text.data, text.len_bytes) == 1 &&
               signature_bytes == sizeof signature;
    if (good)
        ea_signed_request_encode(&(ea_signed_request){.request = (const uint8_t *)request.data,
                                                      .request_bytes = request.len_bytes,
                                                      .signature = signature,
                                                      .key = name},
                                 out);
    EVP_MD_CTX_free(context);
    ea_text_deinit(&text);
    ea_text_deinit(&request);
    return good && !out->failed ? 0 : ea_fail_crypto(err, "sign a request");
}

static int request_time(const char *what, const char *text, int64_t now_utc_ns, int64_t *ret, ea_err *err) {
    const ea_time_reference reference = {.now_utc_ns = now_utc_ns};
    return ea_time_parse(text, &reference, ret)
               ? ea_fail(err, EA_EUSAGE, "%s '%.64s': expected " EA_TIME_FORMS, what, text)
               : 0;
}

/* Without a serial of the caller's it is the time, in ms, so that those of several machines grow, and larger than what
 * the store has. */
static int default_serial(const char *store, int64_t now_utc_ns, uint64_t *ret, ea_err *err) {
    ec_requests *r = NULL;
    uint64_t last = 0;
    int rc = store ? ec_requests_open(&r, store, err) : 0;
    if (!rc && store)
        rc = ec_requests_last(r, &last, err);
    ec_requests_close(r);
    *ret = (uint64_t)(now_utc_ns / MS_NS);
    if (*ret <= last)
        *ret = last + 1;
    if (!rc && *ret > INT64_MAX)
        rc = ea_fail(err, EA_ELIMIT,
                     "the store has a request with the largest serial, %" PRIu64 ": agents take no further one", last);
    return rc;
}

static int make_request(const options *o, int64_t now_utc_ns, ea_request *ret, ea_err *err) {
    ea_request q = {.kind = EA_REQUEST_WINDOW,
                    .serial = o->serial,
                    .limit_bytes = o->limit_bytes,
                    .expires_utc_ns = now_utc_ns + o->life_ns};
    ea_text bytes;
    ea_request same;
    int rc = request_time("--from", o->from, now_utc_ns, &q.from_utc_ns, err);
    if (!rc)
        rc = request_time("--to", o->to, now_utc_ns, &q.to_utc_ns, err);
    if (!rc && !q.serial)
        rc = default_serial(o->store, now_utc_ns, &q.serial, err);
    if (rc)
        return rc;
    if (q.from_utc_ns < 0 || q.from_utc_ns >= q.to_utc_ns)
        return ea_fail(err, EA_EUSAGE, "--from has to be before --to");
    if (snprintf(q.hosts, sizeof q.hosts, "%s", o->hosts) >= (int)sizeof q.hosts)
        return ea_fail(err, EA_EUSAGE, "--host: expected at most %zu bytes", sizeof q.hosts - 1);
    ea_text_init(&bytes);
    ea_request_encode(&q, &bytes);
    rc = bytes.failed ? ea_fail(err, EA_ENOMEM, "make a request")
                      : ea_request_decode(&same, (const uint8_t *)bytes.data, bytes.len_bytes, err);
    ea_text_deinit(&bytes);
    if (rc == EA_ECORRUPT)
        rc = ea_fail(err, EA_EUSAGE,
                     "--host '%.64s': expected names of letters, digits, . _ - and *, with commas between", o->hosts);
    *ret = q;
    return rc;
}

static int keep_request(const char *store, const uint8_t *data, size_t len_bytes, ea_err *err) {
    ec_requests *r = NULL;
    ea_signed_request s;
    ea_request q;
    ea_text note;
    int rc = ea_signed_request_decode(&s, data, len_bytes, err);
    if (!rc)
        rc = ea_request_decode(&q, s.request, s.request_bytes, err);
    if (!rc)
        rc = ec_requests_open(&r, store, err);
    if (!rc)
        rc = ec_requests_add(r, data, len_bytes, ea_utc_ns(), err);
    ec_requests_close(r);
    if (rc)
        return rc;
    ea_text_init(&note);
    ea_text_printf(&note, "request %" PRIu64 " added: ", q.serial);
    ec_request_describe(&q, &note);
    rc = request_audit(store, &note, err);
    if (!rc && (printf("%s\n", note.data) < 0 || fflush(stdout)))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_deinit(&note);
    return rc;
}

static int request_window(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    EVP_PKEY *key = NULL;
    ea_request q;
    ea_text bytes;
    (void)operand_count, (void)operands;
    ea_text_init(&bytes);
    int rc = (o->store != NULL) == (o->output != NULL)
                 ? ea_fail(&err, EA_EUSAGE, "expected --store, or --output for a file that is added later")
                 : make_request(o, ea_utc_ns(), &q, &err);
    if (!rc)
        rc = read_private_key(o->key, &key, &err);
    if (!rc)
        rc = request_sign(key, &q, &bytes, &err);
    EVP_PKEY_free(key);
    if (!rc)
        rc = o->output ? ea_path_write_all(o->output, bytes.data, bytes.len_bytes, 0, &err)
                       : keep_request(o->store, (const uint8_t *)bytes.data, bytes.len_bytes, &err);
    ea_text_deinit(&bytes);
    return request_finish(rc, &err);
}

static int request_add(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    char *data = NULL;
    size_t len_bytes = 0;
    (void)operand_count;
    int rc = ea_path_read_all(operands[0], SIGNED_MAX_BYTES, &data, &len_bytes, &err);
    if (!rc)
        rc = keep_request(o->store, (const uint8_t *)data, len_bytes, &err);
    free(data);
    return request_finish(rc, &err);
}

static int request_withdraw(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ec_requests *r = NULL;
    ea_text note;
    uint64_t serial = 0;
    (void)operand_count;
    int rc = ea_u64_parse(operands[0], &serial)
                 ? ea_fail(&err, EA_EUSAGE, "'%.64s': expected a request's number", operands[0])
                 : ec_requests_open(&r, o->store, &err);
    if (!rc)
        rc = ec_requests_withdraw(r, serial, &err);
    ec_requests_close(r);
    ea_text_init(&note);
    ea_text_printf(&note, "request %" PRIu64 " withdrawn", serial);
    if (!rc)
        rc = request_audit(o->store, &note, &err);
    ea_text_deinit(&note);
    return request_finish(rc, &err);
}

/* ---- the list ---- */

typedef struct listing {
    ea_text out;
    int json, has_request, has_report;
    int64_t now_utc_ns;
} listing;

static const char *request_state(const ec_request_row *row, int64_t now_utc_ns) {
    return row->is_withdrawn ? "withdrawn" : row->request.expires_utc_ns <= now_utc_ns ? "expired" : "open";
}

static void put_time_key(ea_text *t, const char *key, int64_t utc_ns) {
    ea_text_printf(t, ", \"%s\": \"", key);
    ea_text_utc_ns(t, utc_ns);
    ea_text_char(t, '"');
}

static void list_json(listing *l, const ec_request_row *row) {
    const ea_request *q = &row->request;
    const ea_report *p = &row->report;
    if (row->host) {
        ea_text_printf(&l->out, "%s\n  {\"host\": ", l->has_report ? "," : "");
        ea_text_json_str(&l->out, row->host);
        ea_text_printf(&l->out, ", \"state\": \"%s\"", ec_request_state(p->state, 0, 0));
        put_time_key(&l->out, "time", p->utc_ns);
        ea_text_printf(&l->out,
                       ", \"batches\": %" PRIu64 ", \"events\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"text\": ",
                       p->batches, p->events, p->bytes);
        ea_text_json_str(&l->out, p->text);
        ea_text_char(&l->out, '}');
        l->has_report = 1;
        return;
    }
    ea_text_printf(&l->out,
                   "%s\n {\"request\": %" PRIu64 ", \"state\": \"%s\", \"hosts\": ", l->has_request ? "]}," : "",
                   q->serial, request_state(row, l->now_utc_ns));
    ea_text_json_str(&l->out, q->hosts);
    put_time_key(&l->out, "from", q->from_utc_ns);
    put_time_key(&l->out, "to", q->to_utc_ns);
    put_time_key(&l->out, "expires", q->expires_utc_ns);
    put_time_key(&l->out, "added", row->added_utc_ns);
    ea_text_printf(&l->out, ", \"limit_bytes\": %" PRIu64 ", \"agents\": [", q->limit_bytes);
    l->has_request = 1;
    l->has_report = 0;
}

static int list_row(const ec_request_row *row, void *arg) {
    listing *l = arg;
    const ea_report *p = &row->report;
    if (l->json) {
        list_json(l, row);
    } else if (!row->host) {
        ea_text_printf(&l->out, "%" PRIu64 " %s: ", row->request.serial, request_state(row, l->now_utc_ns));
        ec_request_describe(&row->request, &l->out);
        ea_text_char(&l->out, '\n');
    } else {
        ea_text_str(&l->out, "  ");
        size_t begin = l->out.len_bytes;
        ea_text_safe(&l->out, row->host, strlen(row->host));
        while (!l->out.failed && l->out.len_bytes - begin < HOST_COLUMNS)
            ea_text_char(&l->out, ' ');
        ea_text_printf(&l->out, " %-8s", ec_request_state(p->state, 0, 0));
        if (p->state == EA_REPORT_SENT)
            ea_text_printf(&l->out, " %" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes", p->events,
                           p->batches, p->bytes);
        if (*p->text) {
            ea_text_str(&l->out, p->state == EA_REPORT_SENT ? "; " : " ");
            ea_text_safe(&l->out, p->text, strlen(p->text));
        }
        ea_text_char(&l->out, '\n');
    }
    return 0;
}

static int request_list(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ec_requests *r = NULL;
    listing l = {.json = o->json, .now_utc_ns = ea_utc_ns()};
    (void)operand_count, (void)operands;
    ea_text_init(&l.out);
    if (l.json)
        ea_text_str(&l.out, "{\"requests\": [");
    int rc = ec_requests_open(&r, o->store, &err);
    if (!rc)
        rc = ec_requests_each(r, list_row, &l, &err);
    ec_requests_close(r);
    if (l.json)
        ea_text_str(&l.out, l.has_request ? "]}]}\n" : "]}\n");
    if (!rc && l.out.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the requests");
    if (!rc && l.out.len_bytes && (fwrite(l.out.data, 1, l.out.len_bytes, stdout) != l.out.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    ea_text_deinit(&l.out);
    return request_finish(rc, &err);
}

static const ea_option WINDOW_OPTIONS[] = {
    {.name = "store",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, store),
     .help = "the collector's folder, which then has the request"},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, output),
     .help = "in place of --store: a file for \"request add\", so that the key stays on another machine"},
    {.name = "key",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, key),
     .required = 1,
     .help = "the private Ed25519 key, PEM, which the owner alone may read"},
    {EC_HOST_OF(options, hosts), .required = 1, .help = "names of agents with * in them, separated by commas"},
    {EC_FROM_OF(options, from), .required = 1, .help = "begin of the window, such as -10m"},
    {EC_TO_OF(options, to), .fallback = "now", .help = "its end; an agent sends it when it is over"},
    {.name = "limit",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, limit_bytes),
     .fallback = "500MiB",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "most bytes that each recorder of an agent sends for it"},
    {.name = "expires",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, life_ns),
     .fallback = "1d",
     .min = INT64_C(1000000000),
     .max = INT64_C(31) * 86400 * 1000000000,
     .help = "an agent that is away accepts it until then; at most 31 days"},
    {.name = "serial",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, serial),
     .min = 1,
     .max = INT64_MAX,
     .help = "its number, larger than that of each request before; default: the time, in ms since 1970, "
             "or one more than the last in the store"},
    {.name = NULL},
};
static const ea_option STORE_OPTIONS[] = {EC_STORE_OPTION(options, store), {.name = NULL}};
static const ea_option LIST_OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_request_window = {
    .name = "request window",
    .operands = "",
    .summary = "Ask agents for a time of their recorders",
    .details =
        "Agents whose configuration has the public half of the key (part remote) send it once, and it becomes part\n"
        "of the store: SQL, profiles, pull. What was sent before is not sent again. \"request list\" has the results.",
    .options = WINDOW_OPTIONS,
    .options_size = sizeof(options),
    .run = request_window,
};
const ea_command ec_cmd_request_add = {
    .name = "request add",
    .operands = "FILE",
    .summary = "Keep a request that was signed on another machine, for the agents that it names",
    .options = STORE_OPTIONS,
    .options_size = sizeof(options),
    .run = request_add,
    .min_operands = 1,
    .max_operands = 1,
};
const ea_command ec_cmd_request_list = {
    .name = "request list",
    .operands = "",
    .summary = "List requests, and what became of them at each agent that answered",
    .details =
        "JSON keys: requests [{request, state, hosts, from, to, expires, added, limit_bytes, agents [{host, state,\n"
        "time, batches, events, bytes, text}]}].",
    .options = LIST_OPTIONS,
    .options_size = sizeof(options),
    .run = request_list,
};
const ea_command ec_cmd_request_withdraw = {
    .name = "request withdraw",
    .operands = "REQUEST",
    .summary = "Offer a request to no further agent; those that have accepted it go on",
    .options = STORE_OPTIONS,
    .options_size = sizeof(options),
    .run = request_withdraw,
    .min_operands = 1,
    .max_operands = 1,
};
