/* See otlp.h. */
#include "collector/sink/otlp.h"

#include "proto/base/json_cursor.h"
#include "proto/event/render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OTLP_VARINT = 0, /* types of the wire */
    OTLP_FIXED64 = 1,
    OTLP_BYTES = 2,
    OTLP_FIXED32 = 5,
    OTLP_VARINT_MAX = 10, /* bytes */
    OTLP_DEPTH_MAX = 16,  /* of values in values: readers of protobuf take 100 messages in each other, a value has 3 */
    OTLP_REASON_MAX = 250,
    OTLP_NO_PID = -1,
};

/* ---- messages: a number with the type of the wire before each member, a length before a message in a message ---- */

/* member: below 16. */
static void put_tag(ea_text *out, unsigned member, unsigned type) {
    ea_text_char(out, (char)(member << 3 | type));
}

/* A message as a member: the result is where it begins, after room for a length of one byte. */
static size_t otlp_begin_message(ea_text *out, unsigned member) {
    put_tag(out, member, OTLP_BYTES);
    ea_text_char(out, 0);
    return out->len_bytes;
}

/* Sets its length. A message that is longer than that room moves. */
static void otlp_end_message(ea_text *out, size_t begin) {
    uint8_t length[OTLP_VARINT_MAX];
    size_t len = out->len_bytes - begin, n = 0;
    for (size_t left = len; n == 0 || left; left >>= 7)
        length[n++] = (uint8_t)((left & 0x7F) | (left >> 7 ? 0x80 : 0));
    if (n > 1)
        ea_text_add(out, length, n - 1); /* room */
    if (out->failed)
        return;
    if (n > 1)
        memmove(out->data + begin - 1 + n, out->data + begin, len);
    memcpy(out->data + begin - 1, length, n);
}

static void otlp_put_bytes(ea_text *out, unsigned member, const char *data, size_t len_bytes) {
    put_tag(out, member, OTLP_BYTES);
    ea_text_varint(out, len_bytes);
    ea_text_add(out, data, len_bytes);
}

static void put_fixed64(ea_text *out, unsigned member, int64_t v) {
    put_tag(out, member, OTLP_FIXED64);
    ea_text_le64(out, (uint64_t)v);
}

/* ---- AnyValue ---- */

enum { ANY_STRING = 1, ANY_BOOL, ANY_INT, ANY_DOUBLE, ANY_ARRAY, ANY_MAP };

/* An attribute: a KeyValue whose value is a text. */
static void otlp_put_text(ea_text *out, unsigned member, const char *key, const char *text, size_t len_bytes) {
    size_t pair = otlp_begin_message(out, member);
    otlp_put_bytes(out, 1, key, strlen(key));
    size_t value = otlp_begin_message(out, 2);
    otlp_put_bytes(out, ANY_STRING, text, len_bytes);
    otlp_end_message(out, value);
    otlp_end_message(out, pair);
}

static void put_int(ea_text *out, unsigned member, const char *key, int64_t v) {
    size_t pair = otlp_begin_message(out, member);
    otlp_put_bytes(out, 1, key, strlen(key));
    size_t value = otlp_begin_message(out, 2);
    put_tag(out, ANY_INT, OTLP_VARINT);
    ea_text_varint(out, (uint64_t)v);
    otlp_end_message(out, value);
    otlp_end_message(out, pair);
}

/* Reads a value of JSON, and writes it. */
typedef struct otlp_json {
    ea_json_cursor at;
    ea_text *out;
    ea_text text; /* at hand */
} otlp_json;

static int json_value(otlp_json *j, int depth);

/* A text after its first quote. Mostly it has no escapes, and is the bytes up to the next quote. */
static int otlp_json_text(otlp_json *j, unsigned member) {
    const char *begin = j->at.at, *quote = memchr(begin, '"', (size_t)(j->at.end - begin));
    if (quote && !memchr(begin, '\\', (size_t)(quote - begin))) {
        otlp_put_bytes(j->out, member, begin, (size_t)(quote - begin));
        j->at.at = quote + 1;
        return 1;
    }
    if (!ea_json_take_text(&j->at, &j->text))
        return 0;
    if (j->text.len_bytes)
        ea_utf8_repair(j->text.data, j->text.len_bytes); /* a lone surrogate */
    otlp_put_bytes(j->out, member, j->text.len_bytes ? j->text.data : "", j->text.len_bytes);
    return 1;
}

/* A number that no int64 is stays as it is written. */
static int json_word(otlp_json *j) {
    if (!ea_json_take_word(&j->at, &j->text))
        return 0;
    const char *word = j->text.data;
    int is_minus = *word == '-';
    uint64_t v;
    if (strcmp(word, "null") == 0)
        return 1; /* a value of no kind */
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        put_tag(j->out, ANY_BOOL, OTLP_VARINT);
        ea_text_varint(j->out, *word == 't');
    } else if (strpbrk(word, ".eE")) {
        double real = strtod(word, NULL);
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        put_tag(j->out, ANY_DOUBLE, OTLP_FIXED64);
        ea_text_le64(j->out, bits);
    } else if (!ea_u64_parse(word + is_minus, &v) && v <= (uint64_t)INT64_MAX + (is_minus ? 1 : 0)) {
        put_tag(j->out, ANY_INT, OTLP_VARINT);
        ea_text_varint(j->out, is_minus ? 0 - v : v);
    } else {
        otlp_put_bytes(j->out, ANY_STRING, word, j->text.len_bytes);
    }
    return 1;
}

/* Members of an object, or items of an array. */
static int json_many(otlp_json *j, int is_map, int depth) {
    char end = is_map ? '}' : ']';
    if (ea_json_take_char(&j->at, end))
        return 1;
    do {
        size_t item = otlp_begin_message(j->out, 1), value = item;
        if (is_map) {
            if (!ea_json_take_char(&j->at, '"') || !otlp_json_text(j, 1) || !ea_json_take_char(&j->at, ':'))
                return 0;
            value = otlp_begin_message(j->out, 2);
        }
        if (!json_value(j, depth))
            return 0;
        otlp_end_message(j->out, value);
        if (is_map)
            otlp_end_message(j->out, item);
    } while (ea_json_take_char(&j->at, ','));
    return ea_json_take_char(&j->at, end);
}

/* The value as its text of JSON. */
static int json_raw(otlp_json *j) {
    const char *begin = j->at.at;
    int open = 0, is_text = 0;
    do {
        if (j->at.at >= j->at.end)
            return 0;
        char c = *j->at.at++;
        if (c == '\\' && is_text && j->at.at < j->at.end)
            j->at.at++;
        else if (c == '"')
            is_text = !is_text;
        else if (!is_text && (c == '{' || c == '['))
            open++;
        else if (!is_text && (c == '}' || c == ']'))
            open--;
    } while (open);
    otlp_put_bytes(j->out, ANY_STRING, begin, (size_t)(j->at.at - begin));
    return 1;
}

/* The members of an AnyValue. 0: it is no JSON, or there is no memory. */
static int json_value(otlp_json *j, int depth) {
    ea_json_skip_blanks(&j->at);
    char first = j->at.at < j->at.end ? *j->at.at : 0;
    if (first != '{' && first != '[')
        return ea_json_take_char(&j->at, '"') ? otlp_json_text(j, ANY_STRING) : json_word(j);
    if (depth >= OTLP_DEPTH_MAX)
        return json_raw(j);
    j->at.at++;
    size_t many = otlp_begin_message(j->out, first == '{' ? ANY_MAP : ANY_ARRAY);
    if (!json_many(j, first == '{', depth + 1))
        return 0;
    otlp_end_message(j->out, many);
    return 1;
}

/* ---- LogRecord ---- */

enum { LOG_TIME = 1, LOG_SEVERITY = 2, LOG_BODY = 5, LOG_ATTRIBUTES = 6, LOG_OBSERVED = 11, LOG_EVENT_NAME = 12 };

/* Levels of Windows, 1 (critical) to 5 (verbose), as numbers of severity; 0: others. */
static uint64_t otlp_severity_of(uint8_t level) {
    enum { FATAL = 21, ERROR = 17, WARN = 13, INFO = 9, DEBUG = 5 };

    static const uint8_t SEVERITIES[] = {0, FATAL, ERROR, WARN, INFO, DEBUG};
    return level < sizeof SEVERITIES ? SEVERITIES[level] : 0;
}

/* What is a member of the record, or an attribute of a name that OpenTelemetry has. */
static int is_own_member(const char *key) {
    static const char *const OWN[] = {"time", "name", "pid", "tid"};
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (strcmp(key, OWN[i]) == 0)
            return 1;
    return 0;
}

/* A member of the event's JSON: fields are the body, others are attributes etw.NAME. */
static int json_member(otlp_json *j, ea_text *ignored) {
    char key[96] = "etw.";
    size_t before = strlen(key);
    if (!ea_json_take_char(&j->at, '"') || !ea_json_take_text(&j->at, &j->text) || !ea_json_take_char(&j->at, ':') ||
        j->text.len_bytes >= sizeof key - before)
        return 0;
    memcpy(key + before, j->text.data ? j->text.data : "", j->text.len_bytes + (j->text.data != NULL));
    ea_text *out = j->out;
    int is_null = j->at.at < j->at.end && *j->at.at == 'n';
    if (is_null || is_own_member(key + before)) {
        j->out = ignored;
        int rc = json_value(j, 0);
        j->out = out;
        return rc;
    }
    int is_body = strcmp(key + before, "fields") == 0;
    size_t pair = otlp_begin_message(out, is_body ? LOG_BODY : LOG_ATTRIBUTES), value = pair;
    if (!is_body) {
        otlp_put_bytes(out, 1, key, strlen(key));
        value = otlp_begin_message(out, 2);
    }
    if (!json_value(j, 0))
        return 0;
    otlp_end_message(out, value);
    if (!is_body)
        otlp_end_message(out, pair);
    return 1;
}

static int put_members(ea_text *out, const ea_text *event) {
    otlp_json j = {.at = {event->data, event->data + event->len_bytes}, .out = out};
    ea_text ignored;
    ea_text_init(&j.text);
    ea_text_init(&ignored);
    int is_good = ea_json_take_char(&j.at, '{');
    while (is_good && !ea_json_take_char(&j.at, '}')) {
        ea_text_clear(&ignored);
        is_good = json_member(&j, &ignored);
        (void)ea_json_take_char(&j.at, ',');
    }
    is_good = is_good && !j.text.failed && !ignored.failed;
    ea_text_deinit(&j.text);
    ea_text_deinit(&ignored);
    return is_good;
}

size_t ec_otlp_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                       const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    char id[EC_SINK_ID_BYTES];
    ec_sink_row_id(id, sizeof id, batch, position);
    int64_t utc_ns = ea_clock_to_utc_ns(clock, record->time_raw);
    put_fixed64(out, LOG_TIME, utc_ns < 0 ? 0 : utc_ns); /* 0: it is not known */
    put_fixed64(out, LOG_OBSERVED, batch->received_utc_ns);
    if (otlp_severity_of(record->level)) {
        put_tag(out, LOG_SEVERITY, OTLP_VARINT);
        ea_text_varint(out, otlp_severity_of(record->level));
    }
    otlp_put_bytes(out, LOG_EVENT_NAME, c->name, strlen(c->name));
    otlp_put_text(out, LOG_ATTRIBUTES, "log.record.uid", id, strlen(id));
    if (record->pid != (uint32_t)OTLP_NO_PID)
        put_int(out, LOG_ATTRIBUTES, "process.pid", record->pid);
    if (record->tid != (uint32_t)OTLP_NO_PID)
        put_int(out, LOG_ATTRIBUTES, "thread.id", record->tid);
    if (process)
        otlp_put_text(out, LOG_ATTRIBUTES, "process.executable.name", process, strlen(process));
    ea_text_clear(scratch);
    ea_render_json(scratch, record, c, clock, 0);
    if (scratch->failed || !scratch->data || !put_members(out, scratch))
        out->failed = 1;
    return 0;
}

/* ---- the request: ResourceLogs of a host, with ScopeLogs, with LogRecords ---- */

void ec_otlp_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target) {
    static const char SCOPE[] = "etwcollector", SERVICE[] = "etwagent";
    (void)target;
    for (size_t i = 0; i < count;) {
        const char *host = items[i]->host;
        size_t resource_logs = otlp_begin_message(body, 1), resource = otlp_begin_message(body, 1);
        otlp_put_text(body, 1, "host.name", host, strlen(host));
        otlp_put_text(body, 1, "service.name", SERVICE, sizeof SERVICE - 1);
        otlp_end_message(body, resource);
        size_t scope_logs = otlp_begin_message(body, 2), scope = otlp_begin_message(body, 1);
        otlp_put_bytes(body, 1, SCOPE, sizeof SCOPE - 1);
        otlp_end_message(body, scope);
        for (; i < count && strcmp(items[i]->host, host) == 0; i++)
            otlp_put_bytes(body, 2, rows + items[i]->offset, items[i]->len_bytes);
        otlp_end_message(body, scope_logs);
        otlp_end_message(body, resource_logs);
    }
}

/* ---- answers ---- */

typedef struct otlp_bytes {
    const uint8_t *data;
    size_t len_bytes;
} otlp_bytes;

/* A member of a message, as it comes. */
typedef struct otlp_member {
    uint64_t number, value; /* value: of a varint */
    otlp_bytes bytes;       /* of a text or a message */
} otlp_member;

static int take_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *ret = v;
            return 1;
        }
    }
    return 0;
}

/* 1: the next member; 0: the end; -1: this is no message. */
static int take_member(const uint8_t **at, const uint8_t *end, otlp_member *ret) {
    uint64_t tag, len = 0;
    *ret = (otlp_member){0};
    if (*at >= end)
        return 0;
    if (!take_varint(at, end, &tag))
        return -1;
    ret->number = tag >> 3;
    switch (tag & 7) {
    case OTLP_VARINT:
        return take_varint(at, end, &ret->value) ? 1 : -1;
    case OTLP_BYTES:
        if (!take_varint(at, end, &len))
            return -1;
        break;
    case OTLP_FIXED64:
        len = 8;
        break;
    case OTLP_FIXED32:
        len = 4;
        break;
    default:
        return -1;
    }
    if (!ret->number || len > (uint64_t)(end - *at))
        return -1;
    ret->bytes = (otlp_bytes){*at, (size_t)len};
    *at += len;
    return 1;
}

/* The last member of that number in a message: 1; 0: none; -1: this is no message. */
static int otlp_find_member(otlp_bytes message, uint64_t number, otlp_member *ret) {
    const uint8_t *at = message.data, *end = at + message.len_bytes;
    otlp_member m;
    int found = 0, rc;
    while ((rc = take_member(&at, end, &m)) > 0)
        if (m.number == number) {
            *ret = m;
            found = 1;
        }
    return rc < 0 ? -1 : found;
}

/* A text of the receiver's. */
static void otlp_add_reason(ea_text *reason, otlp_bytes text) {
    if (!text.len_bytes)
        return;
    size_t len = text.len_bytes < OTLP_REASON_MAX ? text.len_bytes : OTLP_REASON_MAX, begin = reason->len_bytes;
    const uint8_t *nul = memchr(text.data, 0, len);
    ea_text_add(reason, text.data, nul ? (size_t)(nul - text.data) : len);
    if (!reason->failed && reason->len_bytes > begin)
        ea_utf8_repair(reason->data + begin, reason->len_bytes - begin);
}

int ec_otlp_judge(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
                  ea_text *reason, ea_err *err) {
    otlp_member partial = {0}, rejected = {0}, why = {0};
    (void)j;
    int rc = otlp_find_member((otlp_bytes){(const uint8_t *)answer, len_bytes}, 1, &partial);
    if (rc > 0 && (rc = otlp_find_member(partial.bytes, 1, &rejected)) >= 0)
        rc = otlp_find_member(partial.bytes, 2, &why);
    if (rc < 0 || rejected.value > INT64_MAX)
        return ea_fail(err, EA_EFORMAT, "read the answer: expected ExportLogsServiceResponse");
    size_t refused = rejected.value < count ? (size_t)rejected.value : count;
    for (size_t i = 0; i < count; i++)
        items[i]->verdict = i < count - refused ? EC_VERDICT_ACCEPTED : EC_VERDICT_REFUSED;
    if (refused) {
        ea_text_printf(reason, "%zu of the request's %zu rows were rejected: ", refused, count);
        otlp_add_reason(reason, why.bytes);
    }
    return 0;
}

void ec_otlp_why(ea_text *reason, const char *answer, size_t len_bytes) {
    otlp_member message = {0};
    if (otlp_find_member((otlp_bytes){(const uint8_t *)answer, len_bytes}, 2, &message) > 0)
        otlp_add_reason(reason, message.bytes);
}
