/* Rows to a topic of Kafka. See sink_sender.h.
 *
 * librdkafka is loaded when a sink is opened. Its producer, which has threads of its own, is made with the first
 * request, when the process is confined. It is idempotent: what it sends again by itself is in the topic once. A row
 * that is sent again after a kill, or after a producer was given up, may be there twice, and has its name in its value.
 */
#include "collector/sink/sink_sender.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

enum {
    KAFKA_TOPIC_MAX = 249,
    KAFKA_SERVERS_MAX = 1024,
    KAFKA_TEXT_MAX = 300,
    KAFKA_POLL_MS = 100,
    KAFKA_PROPERTIES_MAX = 64,
    KAFKA_PROPERTY_BYTES = 64 << 10
};

static const int64_t KAFKA_MS_NS = 1000000, KAFKA_GRACE_NS = INT64_C(5000000000);

static const char KAFKA_LIBRARY[] = "librdkafka.so.1", KAFKA_SCHEME[] = "kafka://";

#define KAFKA_CALLS(X)                                                                                                 \
    X(rd_kafka_conf_t *, conf_new, (void))                                                                             \
    X(void, conf_destroy, (rd_kafka_conf_t * conf))                                                                    \
    X(rd_kafka_conf_res_t, conf_set,                                                                                   \
      (rd_kafka_conf_t * conf, const char *name, const char *value, char *text, size_t text_bytes))                    \
    X(void, conf_set_opaque, (rd_kafka_conf_t * conf, void *opaque))                                                   \
    X(void, conf_set_dr_msg_cb,                                                                                        \
      (rd_kafka_conf_t * conf, void (*fn)(rd_kafka_t * rk, const rd_kafka_message_t *message, void *opaque)))          \
    X(void, conf_set_error_cb,                                                                                         \
      (rd_kafka_conf_t * conf, void (*fn)(rd_kafka_t * rk, int code, const char *reason, void *opaque)))               \
    X(void, conf_set_log_cb,                                                                                           \
      (rd_kafka_conf_t * conf, void (*fn)(const rd_kafka_t *rk, int level, const char *fac, const char *text)))        \
    X(rd_kafka_t *, new, (rd_kafka_type_t type, rd_kafka_conf_t * conf, char *text, size_t text_bytes))                \
    X(void, destroy_flags, (rd_kafka_t * rk, int flags))                                                               \
    X(int, poll, (rd_kafka_t * rk, int timeout_ms))                                                                    \
    X(rd_kafka_error_t *, produceva, (rd_kafka_t * rk, const rd_kafka_vu_t *values, size_t count))                     \
    X(rd_kafka_resp_err_t, error_code, (const rd_kafka_error_t *error))                                                \
    X(void, error_destroy, (rd_kafka_error_t * error))                                                                 \
    X(rd_kafka_resp_err_t, fatal_error, (rd_kafka_t * rk, char *text, size_t text_bytes))                              \
    X(rd_kafka_resp_err_t, purge, (rd_kafka_t * rk, int flags))                                                        \
    X(const char *, err2str, (rd_kafka_resp_err_t code))

typedef struct kafka {
    const ec_sink_sender_options *o;
    char servers[KAFKA_SERVERS_MAX + 1], topic[KAFKA_TOPIC_MAX + 1];
    rd_kafka_conf_t *conf; /* of the next producer */
    rd_kafka_t *producer;  /* NULL: there is none now */
    /* of the request at hand */
    size_t unanswered, refused;
    rd_kafka_resp_err_t reason;   /* of the first row that was not accepted; a final one takes precedence */
    char problem[KAFKA_TEXT_MAX]; /* of a connection, the last one */
#define CALL(type, name, arguments) type(*name) arguments;
    KAFKA_CALLS(CALL)
#undef CALL
} kafka;

/* ---- options ---- */

/* What a file of properties may set: how a connection is made, and how much is sent at a time. No other property: some
 * name programs, plug-ins and files, and the sink relies on others. */
static const char *const KAFKA_ALLOWED[] = {
    "security.protocol",
    "sasl.mechanisms",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "client.id",
    "broker.address.family",
    "compression.codec",
    "compression.type",
    "message.max.bytes",
    "batch.size",
    "batch.num.messages",
    "linger.ms",
    "socket.keepalive.enable",
    "partitioner",
};

static int kafka_load(kafka *k, ea_err *err) {
    ea_library *library = NULL;
    const char *missing = NULL;
    const void *at;
    int rc = ea_library_open(&library, KAFKA_LIBRARY, err);
    if (rc)
        return rc;
#define CALL(type, name, arguments)                                                                                    \
    if (!(at = ea_library_symbol(library, "rd_kafka_" #name)))                                                         \
        missing = "rd_kafka_" #name;                                                                                   \
    memcpy(&k->name, &at, sizeof at);
    KAFKA_CALLS(CALL)
#undef CALL
    return missing ? ea_fail(err, EA_EUNSUPPORTED, "%s has no %s", KAFKA_LIBRARY, missing) : 0;
}

/* kafka://SERVER[:PORT][,...]/TOPIC */
static int kafka_take_url(kafka *k, ea_err *err) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *servers = k->o->to, *slash = NULL;
    if (strncmp(servers, KAFKA_SCHEME, sizeof KAFKA_SCHEME - 1) == 0) {
        servers += sizeof KAFKA_SCHEME - 1;
        slash = strchr(servers, '/');
    }
    size_t servers_len = slash ? (size_t)(slash - servers) : 0, topic_len = slash ? strlen(slash + 1) : 0;
    if (!servers_len || servers_len > KAFKA_SERVERS_MAX || !topic_len || topic_len > KAFKA_TOPIC_MAX ||
        strspn(slash + 1, LETTERS) != topic_len || strcspn(servers, "/@?# ") != servers_len)
        return ea_fail(err, EA_EUSAGE, "--to: expected kafka://SERVER:PORT[,SERVER:PORT...]/TOPIC");
    snprintf(k->servers, sizeof k->servers, "%.*s", (int)servers_len, servers);
    snprintf(k->topic, sizeof k->topic, "%s", slash + 1);
    return 0;
}

static int kafka_set(const kafka *k, const char *name, const char *value, ea_err *err) {
    char text[KAFKA_TEXT_MAX] = "";
    if (k->conf_set(k->conf, name, value, text, sizeof text) == RD_KAFKA_CONF_OK)
        return 0;
    return ea_fail(err, EA_EUSAGE, "librdkafka does not take the property %s: %s", name, text);
}

static int kafka_set_number(const kafka *k, const char *name, int64_t value, ea_err *err) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    return kafka_set(k, name, text, err);
}

/* A line NAME=VALUE, of which the value may have \n for a new line, as certificates in PEM need. */
static int kafka_take_property(const kafka *k, char *line, ea_err *err) {
    char *value = strchr(line, '='), *out = value;
    int is_allowed = 0;
    if (!value)
        return ea_fail(err, EA_EUSAGE, "--properties: expected lines NAME=VALUE");
    *value++ = 0;
    for (size_t i = 0; i < sizeof KAFKA_ALLOWED / sizeof *KAFKA_ALLOWED; i++)
        is_allowed |= strcmp(KAFKA_ALLOWED[i], line) == 0;
    if (!is_allowed)
        return ea_fail(err, EA_EUSAGE, "--properties: %.64s cannot be set here; docs/guides/sinks.md lists what can",
                       line);
    char *text = value;
    for (out = text; *value; value++)
        if (value[0] == '\\' && value[1] == 'n') {
            *out++ = '\n';
            value++;
        } else {
            *out++ = *value;
        }
    *out = 0;
    return kafka_set(k, line, text, err);
}

static int kafka_take_properties(const kafka *k, ea_err *err) {
    size_t count = 0;
    char *text = strdup(k->o->properties);
    int rc = text ? 0 : ea_fail(err, EA_ENOMEM, "open a sink");
    for (char *line = text, *next = NULL; !rc && line && *line; line = next) {
        size_t n = strcspn(line, "\n");
        next = line[n] ? line + n + 1 : line + n;
        line[n] = 0;
        if (n && line[n - 1] == '\r')
            line[n - 1] = 0;
        if (!*line || *line == '#')
            continue;
        rc = ++count > KAFKA_PROPERTIES_MAX
                 ? ea_fail(err, EA_EUSAGE, "--properties: more than %d lines", KAFKA_PROPERTIES_MAX)
                 : kafka_take_property(k, line, err);
    }
    free(text);
    return rc;
}

/* ---- calls of librdkafka, during kafka_poll ---- */

static int kafka_is_final(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || code == RD_KAFKA_RESP_ERR_INVALID_RECORD ||
           code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE;
}

static void kafka_take_report(kafka *k, ec_sink_item *item, rd_kafka_resp_err_t code) {
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        item->verdict = EC_VERDICT_ACCEPTED;
        return;
    }
    if (!k->reason || (kafka_is_final(code) && !k->refused))
        k->reason = code;
    k->refused += (size_t)kafka_is_final(code);
}

static void kafka_on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    kafka *k = opaque;
    (void)rk;
    kafka_take_report(k, message->_private, message->err);
    k->unanswered--;
}

static void kafka_on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque) {
    kafka *k = opaque;
    (void)rk;
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || !*k->problem) /* which says less than what was before it */
        snprintf(k->problem, sizeof k->problem, "%s", reason ? reason : k->err2str((rd_kafka_resp_err_t)code));
}

/* ---- the producer ---- */

static int kafka_configure(kafka *k, ea_err *err) {
    const int64_t answer_ms = k->o->answer_ns / KAFKA_MS_NS;
    k->conf = k->conf_new();
    if (!k->conf)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    k->conf_set_opaque(k->conf, k);
    k->conf_set_dr_msg_cb(k->conf, kafka_on_report);
    k->conf_set_error_cb(k->conf, kafka_on_error);
    k->conf_set_log_cb(k->conf, NULL); /* what matters comes to kafka_on_error */
    int rc = kafka_set(k, "bootstrap.servers", k->servers, err);
    static const char *const VALUES[][2] = {
        {"client.id", "etwcollector"},        {"compression.codec", "lz4"},
        {"partitioner", "murmur2_random"}, /* as Kafka's own clients place a key */
        {"reconnect.backoff.max.ms", "2000"}, {"allow.auto.create.topics", "true"},
    };
    for (size_t i = 0; !rc && i < sizeof VALUES / sizeof *VALUES; i++)
        rc = kafka_set(k, VALUES[i][0], VALUES[i][1], err);
    if (!rc && k->o->ca)
        rc = kafka_set(k, "security.protocol", "ssl", err);
    if (!rc && k->o->ca)
        rc = kafka_set(k, "ssl.ca.location", k->o->ca, err);
    if (!rc && k->o->properties)
        rc = kafka_take_properties(k, err);
    if (!rc)
        rc = kafka_set(k, "enable.idempotence", "true", err);
    if (!rc)
        rc = kafka_set_number(k, "message.timeout.ms", answer_ms, err);
    if (!rc) /* at least as librdkafka wants it */
        rc = kafka_set_number(k, "socket.timeout.ms", answer_ms < 60000 ? answer_ms : 60000, err);
    return rc;
}

static void kafka_drop_producer(kafka *k) {
    if (k->producer)
        k->destroy_flags(k->producer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    k->producer = NULL;
}

static int kafka_make_producer(kafka *k, ea_err *err) {
    char text[KAFKA_TEXT_MAX] = "";
    int rc = k->conf ? 0 : kafka_configure(k, err);
    if (rc || k->producer)
        return rc;
    k->producer = k->new (RD_KAFKA_PRODUCER, k->conf, text, sizeof text);
    if (!k->producer)
        return ea_fail(err, EA_EUSAGE, "prepare librdkafka: %s", text);
    k->conf = NULL; /* the producer's */
    return 0;
}

static void kafka_destroy(void *sender) {
    kafka *k = sender;
    if (!k)
        return;
    kafka_drop_producer(k);
    if (k->conf)
        k->conf_destroy(k->conf);
    free(k);
}

static int kafka_create(void **ret, const ec_sink_sender_options *o, ea_err *err) {
    kafka *k = calloc(1, sizeof *k);
    if (!k)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    k->o = o;
    int rc = kafka_load(k, err);
    if (!rc)
        rc = kafka_take_url(k, err);
    if (!rc)
        rc = kafka_configure(k, err);
    if (rc) {
        kafka_destroy(k);
        return rc;
    }
    *ret = k;
    return 0;
}

static const char *kafka_receiver(const void *sender, size_t *ret_len_bytes) {
    const kafka *k = sender;
    *ret_len_bytes = strlen(k->servers);
    return k->servers;
}

/* ---- a request ---- */

static int kafka_is_stopped(const kafka *k) {
    return k->o->stop && atomic_load(k->o->stop);
}

/* Hands a row to the producer, whose queue it waits for. */
static rd_kafka_resp_err_t kafka_hand(kafka *k, const char *rows, ec_sink_item *item, int64_t end_ns) {
    const rd_kafka_vu_t values[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = k->topic},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = (void *)(uintptr_t)item->host, .size = strlen(item->host)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u.mem = {.ptr = (void *)(uintptr_t)(rows + item->offset), .size = item->len_bytes}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = item},
    };
    for (;;) {
        rd_kafka_error_t *error = k->produceva(k->producer, values, sizeof values / sizeof *values);
        if (!error)
            return RD_KAFKA_RESP_ERR_NO_ERROR;
        rd_kafka_resp_err_t code = k->error_code(error);
        k->error_destroy(error);
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || kafka_is_stopped(k) || ea_monotonic_ns() > end_ns)
            return code;
        (void)k->poll(k->producer, KAFKA_POLL_MS);
    }
}

static void kafka_wait_for_reports(kafka *k, int64_t end_ns) {
    while (k->unanswered && !kafka_is_stopped(k) && ea_monotonic_ns() < end_ns)
        (void)k->poll(k->producer, KAFKA_POLL_MS);
    if (!k->unanswered)
        return;
    /* what is given up is reported at once; a row that was on its way may have arrived all the same */
    (void)k->purge(k->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (k->poll(k->producer, 0) > 0)
        ;
}

static int kafka_send(void *sender, const char *rows, ec_sink_item **items, size_t count, ec_sink_answer *ret,
                      ea_err *err) {
    kafka *k = sender;
    int64_t end_ns = ea_monotonic_ns() + k->o->answer_ns + KAFKA_GRACE_NS;
    size_t accepted = 0;
    k->unanswered = k->refused = 0;
    k->reason = RD_KAFKA_RESP_ERR_NO_ERROR;
    *k->problem = 0;
    int rc = kafka_make_producer(k, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count && !kafka_is_stopped(k); i++) {
        rd_kafka_resp_err_t code = kafka_hand(k, rows, items[i], end_ns);
        if (code)
            kafka_take_report(k, items[i], code);
        else
            k->unanswered++;
        (void)k->poll(k->producer, 0);
        if (code && !kafka_is_final(code))
            break;
    }
    kafka_wait_for_reports(k, end_ns);
    char text[KAFKA_TEXT_MAX] = "";
    int is_fatal = k->fatal_error(k->producer, text, sizeof text) != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (k->unanswered || is_fatal) /* its reports may come no more, or it sends no more */
        kafka_drop_producer(k);
    if (kafka_is_stopped(k))
        return ea_fail(err, EA_ECANCELED, "send to %.100s: asked to stop", k->servers);
    for (size_t i = 0; i < count; i++)
        accepted += items[i]->verdict == EC_VERDICT_ACCEPTED;
    if (accepted == count)
        return 0;
    const char *why = is_fatal ? text : *k->problem && !k->refused ? k->problem : k->err2str(k->reason);
    if (k->refused)
        return ea_fail(err, EA_EREFUSED, "%s", why);
    if (!accepted)
        return ea_fail(err, EA_ENET, "send to %.100s: %s", k->servers, why);
    ea_text_str(ret->reason, why);
    return 0;
}

const ec_sink_sender EC_SINK_KAFKA = {kafka_create, kafka_destroy, kafka_send, kafka_receiver};
