/* Requests as bytes. See request.h. */
#include "proto/wire/request.h"

#include "proto/base/bytes.h"
#include "proto/wire/definitions.h"
#include "proto/wire/envelope.h"

#include <string.h>

/* Wire types are protobuf's (protobuf.dev, "Encoding"). */
enum { TYPE_VARINT = 0, TYPE_FIXED64 = 1, TYPE_BYTES = 2 };

/* Field numbers of batch.proto. */
enum { REQUEST_KIND = 1, REQUEST_SERIAL, REQUEST_HOSTS, REQUEST_FROM, REQUEST_TO, REQUEST_LIMIT, REQUEST_EXPIRES };

enum { SIGNED_REQUEST = 1, SIGNED_SIGNATURE, SIGNED_KEY };

enum { OFFER_REQUESTS = 1 };

enum { POLL_SERIAL = 1, POLL_REPORTS };

enum { REPORT_SERIAL = 1, REPORT_STATE, REPORT_UTC, REPORT_BATCHES, REPORT_EVENTS, REPORT_BYTES, REPORT_TEXT };

static const char HOST_CHARACTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*,";

static void request_put_varint(ea_text *out, unsigned number, uint64_t v) {
    ea_text_varint(out, number << 3 | TYPE_VARINT);
    ea_text_varint(out, v);
}

static void request_put_fixed64(ea_text *out, unsigned number, int64_t v) {
    ea_text_varint(out, number << 3 | TYPE_FIXED64);
    ea_text_le64(out, (uint64_t)v);
}

void ea_request_encode(const ea_request *r, ea_text *out) {
    request_put_varint(out, REQUEST_KIND, r->kind);
    request_put_varint(out, REQUEST_SERIAL, r->serial);
    ea_pb_put_bytes(out, REQUEST_HOSTS, r->hosts, strlen(r->hosts));
    request_put_fixed64(out, REQUEST_FROM, r->from_utc_ns);
    request_put_fixed64(out, REQUEST_TO, r->to_utc_ns);
    request_put_varint(out, REQUEST_LIMIT, r->limit_bytes);
    request_put_fixed64(out, REQUEST_EXPIRES, r->expires_utc_ns);
}

void ea_signed_request_encode(const ea_signed_request *r, ea_text *out) {
    ea_pb_put_bytes(out, SIGNED_REQUEST, r->request, r->request_bytes);
    ea_pb_put_bytes(out, SIGNED_SIGNATURE, r->signature, EA_REQUEST_SIGNATURE_BYTES);
    ea_pb_put_bytes(out, SIGNED_KEY, r->key, EA_REQUEST_KEY_BYTES);
}

void ea_offer_add(ea_text *out, const uint8_t *signed_request, size_t len_bytes) {
    ea_pb_put_bytes(out, OFFER_REQUESTS, signed_request, len_bytes);
}

void ea_request_put_signed(const uint8_t *request, size_t len_bytes, ea_text *out) {
    ea_text_str(out, EA_REQUEST_CONTEXT);
    ea_text_add(out, request, len_bytes);
}

void ea_poll_encode(uint64_t serial, const ea_report *reports, size_t count, ea_text *out) {
    ea_text one;
    ea_text_init(&one);
    request_put_varint(out, POLL_SERIAL, serial);
    for (size_t i = 0; i < count; i++) {
        const ea_report *r = &reports[i];
        ea_text_clear(&one);
        request_put_varint(&one, REPORT_SERIAL, r->serial);
        request_put_varint(&one, REPORT_STATE, r->state);
        request_put_fixed64(&one, REPORT_UTC, r->utc_ns);
        request_put_varint(&one, REPORT_BATCHES, r->batches);
        request_put_varint(&one, REPORT_EVENTS, r->events);
        request_put_varint(&one, REPORT_BYTES, r->bytes);
        ea_pb_put_bytes(&one, REPORT_TEXT, r->text, strlen(r->text));
        ea_pb_put_bytes(out, POLL_REPORTS, one.data, one.len_bytes);
    }
    out->failed |= one.failed;
    ea_text_deinit(&one);
}

/* ---- reading ---- */

/* The next field, which must have this number and type. */
static int take(const uint8_t *data, size_t len_bytes, size_t *offset, unsigned number, unsigned type,
                ea_pb_field *ret) {
    return ea_pb_next(data, len_bytes, offset, ret) == 1 && ret->number == number && ret->type == type;
}

int ea_request_decode(ea_request *ret, const uint8_t *data, size_t len_bytes, ea_err *err) {
    ea_request r = {.kind = 0};
    ea_pb_field f;
    size_t at = 0;
    if (len_bytes > EA_REQUEST_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a request of %zu bytes: at most %d are allowed", len_bytes,
                       EA_REQUEST_MAX_BYTES);
    int good = take(data, len_bytes, &at, REQUEST_KIND, TYPE_VARINT, &f) && f.value && f.value <= UINT32_MAX;
    if (good)
        r.kind = (uint32_t)f.value;
    good = good && take(data, len_bytes, &at, REQUEST_SERIAL, TYPE_VARINT, &f) && f.value && f.value <= INT64_MAX;
    if (good)
        r.serial = f.value;
    good = good && take(data, len_bytes, &at, REQUEST_HOSTS, TYPE_BYTES, &f) && f.len_bytes &&
           f.len_bytes < sizeof r.hosts;
    if (good)
        memcpy(r.hosts, f.data, f.len_bytes);
    good = good && strspn(r.hosts, HOST_CHARACTERS) == f.len_bytes;
    good = good && take(data, len_bytes, &at, REQUEST_FROM, TYPE_FIXED64, &f);
    if (good)
        r.from_utc_ns = (int64_t)f.value;
    good = good && take(data, len_bytes, &at, REQUEST_TO, TYPE_FIXED64, &f);
    if (good)
        r.to_utc_ns = (int64_t)f.value;
    good = good && take(data, len_bytes, &at, REQUEST_LIMIT, TYPE_VARINT, &f) && f.value && f.value <= INT64_MAX;
    if (good)
        r.limit_bytes = f.value;
    good = good && take(data, len_bytes, &at, REQUEST_EXPIRES, TYPE_FIXED64, &f);
    if (good)
        r.expires_utc_ns = (int64_t)f.value;
    if (!good || at != len_bytes || r.from_utc_ns < 0 || r.to_utc_ns <= r.from_utc_ns || r.expires_utc_ns <= 0)
        return ea_fail(err, EA_ECORRUPT, "read a request: it has no valid form");
    *ret = r;
    return 0;
}

int ea_signed_request_decode(ea_signed_request *ret, const uint8_t *data, size_t len_bytes, ea_err *err) {
    ea_pb_field request, signature, key;
    size_t at = 0;
    if (!take(data, len_bytes, &at, SIGNED_REQUEST, TYPE_BYTES, &request) ||
        !take(data, len_bytes, &at, SIGNED_SIGNATURE, TYPE_BYTES, &signature) ||
        !take(data, len_bytes, &at, SIGNED_KEY, TYPE_BYTES, &key) || at != len_bytes ||
        signature.len_bytes != EA_REQUEST_SIGNATURE_BYTES || key.len_bytes != EA_REQUEST_KEY_BYTES ||
        request.len_bytes > EA_REQUEST_MAX_BYTES)
        return ea_fail(err, EA_ECORRUPT, "read a signed request: it has no valid form");
    *ret = (ea_signed_request){
        .request = request.data, .request_bytes = request.len_bytes, .signature = signature.data, .key = key.data};
    return 0;
}

int ea_offer_next(const uint8_t *data, size_t len_bytes, size_t *offset, const uint8_t **ret, size_t *ret_len_bytes,
                  ea_err *err) {
    ea_pb_field f;
    int rc;
    while ((rc = ea_pb_next(data, len_bytes, offset, &f)) > 0)
        if (f.number == OFFER_REQUESTS && f.type == TYPE_BYTES) {
            *ret = f.data;
            *ret_len_bytes = f.len_bytes;
            return 1;
        } /* any other field comes from a newer collector */
    return rc ? ea_fail(err, EA_ECORRUPT, "read requests: it is no protobuf message") : 0;
}

static int read_report(const ea_pb_field *message, ea_report *ret) {
    ea_report r = {.serial = 0};
    ea_pb_field f;
    size_t at = 0;
    int rc;
    while ((rc = ea_pb_next(message->data, message->len_bytes, &at, &f)) > 0) {
        if (f.type == TYPE_VARINT && f.number == REPORT_SERIAL)
            r.serial = f.value;
        if (f.type == TYPE_VARINT && f.number == REPORT_STATE)
            r.state = f.value <= EA_REPORT_EXPIRED ? (uint32_t)f.value : 0;
        if (f.type == TYPE_FIXED64 && f.number == REPORT_UTC)
            r.utc_ns = (int64_t)f.value;
        if (f.type == TYPE_VARINT && f.number == REPORT_BATCHES)
            r.batches = f.value & INT64_MAX;
        if (f.type == TYPE_VARINT && f.number == REPORT_EVENTS)
            r.events = f.value & INT64_MAX;
        if (f.type == TYPE_VARINT && f.number == REPORT_BYTES)
            r.bytes = f.value & INT64_MAX;
        if (f.type == TYPE_BYTES && f.number == REPORT_TEXT) {
            size_t n = f.len_bytes < sizeof r.text ? f.len_bytes : sizeof r.text - 1;
            memcpy(r.text, f.data, n);
            r.text[n] = 0;
            ea_utf8_repair(r.text, strlen(r.text));
        }
    }
    *ret = r;
    return rc == 0 && r.state;
}

int ea_poll_decode(uint64_t *ret_serial, ea_report *reports, size_t *ret_count, const uint8_t *data, size_t len_bytes,
                   ea_err *err) {
    uint64_t serial = 0;
    size_t at = 0, count = 0;
    ea_pb_field f;
    int rc = 0;
    if (len_bytes > EA_POLL_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a poll of %zu bytes: at most %d are allowed", len_bytes,
                       EA_POLL_MAX_BYTES);
    while ((rc = ea_pb_next(data, len_bytes, &at, &f)) > 0) {
        if (f.type == TYPE_VARINT && f.number == POLL_SERIAL)
            serial = f.value;
        if (f.type != TYPE_BYTES || f.number != POLL_REPORTS)
            continue;
        if (count == EA_POLL_MAX_REPORTS)
            return ea_fail(err, EA_ELIMIT, "read a poll: it has more than %d reports", EA_POLL_MAX_REPORTS);
        if (!read_report(&f, &reports[count++]))
            return ea_fail(err, EA_ECORRUPT, "read a poll: a report has no valid form");
    }
    if (rc)
        return ea_fail(err, EA_ECORRUPT, "read a poll: it is no protobuf message");
    *ret_serial = serial;
    *ret_count = count;
    return 0;
}
