/* Uploads and their answers as bytes. See ack.h. */
#include "proto/wire/ack.h"
#include "proto/wire/column.h"
#include "proto/wire/definitions.h"

#include <string.h>

/* The messages are walked by ea_pb_next and not unpacked: the answer comes from outside, and so each of its elements is
 * checked before anything is allocated for it. Wire types are protobuf's (protobuf.dev, "Encoding"). */
enum { TYPE_VARINT = 0, TYPE_BYTES = 2 };

static void put_u64(ea_text *out, unsigned number, uint64_t v) {
    if (!v) /* proto3: zero is what an absent field means */
        return;
    ea_text_varint(out, number << 3 | TYPE_VARINT);
    ea_text_varint(out, v);
}

static size_t u64_bytes(uint64_t v) {
    return v ? 1 + ea_varint_bytes(v) : 0;
}

/* Field numbers of Ack, Range and Refusal in batch.proto. */
enum {
    ACK_STREAM = 1,
    ACK_ACKNOWLEDGED,
    ACK_REFUSED,
    ACK_UNKNOWN,
    ACK_CREDIT,
    ACK_RETRY_AFTER,
    ACK_KEYFRAME,
    ACK_KNOWN
};

enum { RANGE_FIRST = 1, RANGE_LAST };

enum { REFUSAL_NUMBER = 1, REFUSAL_CAUSE, REFUSAL_TEXT };

void ea_ack_encode(const ea_ack *a, ea_text *out) {
    ea_pb_put_bytes(out, ACK_STREAM, a->stream, sizeof a->stream);
    for (size_t i = 0; i < a->acknowledged_count; i++) {
        const ea_range *r = &a->acknowledged[i];
        ea_text_varint(out, ACK_ACKNOWLEDGED << 3 | TYPE_BYTES);
        ea_text_varint(out, u64_bytes(r->first) + u64_bytes(r->last));
        put_u64(out, RANGE_FIRST, r->first);
        put_u64(out, RANGE_LAST, r->last);
    }
    for (size_t i = 0; i < a->refused_count; i++) {
        const ea_refusal *r = &a->refused[i];
        size_t text_bytes = r->text ? strlen(r->text) : 0;
        ea_text_varint(out, ACK_REFUSED << 3 | TYPE_BYTES);
        ea_text_varint(out, u64_bytes(r->number) + u64_bytes(r->cause) +
                                (text_bytes ? 1 + ea_varint_bytes(text_bytes) + text_bytes : 0));
        put_u64(out, REFUSAL_NUMBER, r->number);
        put_u64(out, REFUSAL_CAUSE, r->cause);
        if (text_bytes)
            ea_pb_put_bytes(out, REFUSAL_TEXT, r->text, text_bytes);
    }
    for (size_t i = 0; i < a->unknown_count; i++)
        ea_pb_put_bytes(out, ACK_UNKNOWN, a->unknown[i].bytes, a->unknown[i].len_bytes);
    put_u64(out, ACK_CREDIT, a->credit_bytes);
    put_u64(out, ACK_RETRY_AFTER, a->retry_after_ms);
    put_u64(out, ACK_KEYFRAME, a->keyframe_wanted ? 1 : 0);
    for (size_t i = 0; i < a->known_count; i++)
        ea_pb_put_bytes(out, ACK_KNOWN, a->known[i].bytes, EA_CLASS_HASH_BYTES);
}

static int read_range(const ea_pb_field *f, ea_range *ret, ea_err *err) {
    size_t offset = 0;
    ea_range range = {0, 0};
    ea_pb_field in;
    int rc;
    while ((rc = ea_pb_next(f->data, f->len_bytes, &offset, &in)) > 0) {
        if (in.type == TYPE_VARINT && in.number == RANGE_FIRST)
            range.first = in.value;
        if (in.type == TYPE_VARINT && in.number == RANGE_LAST)
            range.last = in.value;
    }
    if (rc || range.first == 0 || range.first > range.last)
        return ea_fail(err, EA_ECORRUPT, "read an acknowledgement: %llu..%llu is no range of batch numbers",
                       (unsigned long long)range.first, (unsigned long long)range.last);
    *ret = range;
    return 0;
}

static int read_refusal(const ea_pb_field *f, ea_refusal *ret, ea_arena *arena, ea_err *err) {
    size_t offset = 0;
    ea_refusal refusal = {.text = ""};
    ea_pb_field in;
    int rc;
    while ((rc = ea_pb_next(f->data, f->len_bytes, &offset, &in)) > 0) {
        if (in.type == TYPE_VARINT && in.number == REFUSAL_NUMBER)
            refusal.number = in.value;
        if (in.type == TYPE_VARINT && in.number == REFUSAL_CAUSE)
            refusal.cause = in.value > EA_REFUSED_RETRY ? EA_REFUSED_RETRY : (uint32_t)in.value;
        if (in.type == TYPE_BYTES && in.number == REFUSAL_TEXT) {
            size_t n = in.len_bytes < 255 ? in.len_bytes : 255;
            char *text = ea_arena_alloc(arena, n + 1);
            if (!text)
                return ea_fail(err, EA_ENOMEM, "read an acknowledgement");
            memcpy(text, in.data, n);
            text[n] = 0;
            refusal.text = text;
        }
    }
    if (rc || refusal.number == 0)
        return ea_fail(err, EA_ECORRUPT, "read an acknowledgement: a refusal names no batch");
    *ret = refusal;
    return 0;
}

int ea_ack_decode(ea_ack *ret, ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_err *err) {
    if (len_bytes > EA_ACK_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read an acknowledgement of %zu bytes: at most %d are allowed", len_bytes,
                       EA_ACK_MAX_BYTES);
    /* first the counts, so that each list is one allocation of a checked size */
    size_t counts[ACK_KNOWN + 1] = {0};
    size_t offset = 0;
    ea_pb_field f;
    int rc;
    while ((rc = ea_pb_next(data, len_bytes, &offset, &f)) > 0)
        if (f.type == TYPE_BYTES && f.number <= ACK_KNOWN && ++counts[f.number] > EA_ACK_MAX_RANGES)
            return ea_fail(err, EA_ELIMIT, "read an acknowledgement: more than %d elements of one kind",
                           EA_ACK_MAX_RANGES);
    if (rc)
        return ea_fail(err, EA_ECORRUPT, "read an acknowledgement: it is no protobuf message");
    if (counts[ACK_STREAM] != 1)
        return ea_fail(err, EA_ECORRUPT, "read an acknowledgement: it names no stream");
    ea_range *ranges = ea_arena_zalloc(arena, counts[ACK_ACKNOWLEDGED], sizeof *ranges);
    ea_refusal *refusals = ea_arena_zalloc(arena, counts[ACK_REFUSED], sizeof *refusals);
    ea_hash_ref *unknown = ea_arena_zalloc(arena, counts[ACK_UNKNOWN], sizeof *unknown);
    ea_class_hash *known = ea_arena_zalloc(arena, counts[ACK_KNOWN], sizeof *known);
    if (!ranges || !refusals || !unknown || !known)
        return ea_fail(err, EA_ENOMEM, "read an acknowledgement");
    ea_ack ack = {.acknowledged = ranges, .refused = refusals, .unknown = unknown, .known = known};
    offset = 0;
    while (ea_pb_next(data, len_bytes, &offset, &f) > 0) {
        size_t wanted = f.number == ACK_STREAM ? EA_STREAM_ID_BYTES : EA_CLASS_HASH_BYTES;
        if (f.type == TYPE_BYTES && f.number == ACK_UNKNOWN && f.len_bytes >= EA_REF_MIN_BYTES && f.len_bytes <= wanted)
            wanted = f.len_bytes;
        if (f.type == TYPE_BYTES && (f.number == ACK_STREAM || f.number == ACK_UNKNOWN || f.number == ACK_KNOWN)) {
            if (f.len_bytes != wanted)
                return ea_fail(err, EA_ECORRUPT,
                               "read an acknowledgement: an identifier of %zu bytes, %zu were expected", f.len_bytes,
                               wanted);
            uint8_t *to = f.number == ACK_STREAM    ? ack.stream
                          : f.number == ACK_UNKNOWN ? unknown[ack.unknown_count++].bytes
                                                    : known[ack.known_count++].bytes;
            memcpy(to, f.data, wanted);
            if (f.number == ACK_UNKNOWN)
                unknown[ack.unknown_count - 1].len_bytes = (uint8_t)wanted;
        } else if (f.type == TYPE_BYTES && f.number == ACK_ACKNOWLEDGED) {
            if ((rc = read_range(&f, &ranges[ack.acknowledged_count++], err)))
                return rc;
        } else if (f.type == TYPE_BYTES && f.number == ACK_REFUSED) {
            if ((rc = read_refusal(&f, &refusals[ack.refused_count++], arena, err)))
                return rc;
        } else if (f.type == TYPE_VARINT && f.number == ACK_CREDIT) {
            ack.credit_bytes = f.value;
        } else if (f.type == TYPE_VARINT && f.number == ACK_RETRY_AFTER) {
            ack.retry_after_ms = f.value > UINT32_MAX ? UINT32_MAX : (uint32_t)f.value;
        } else if (f.type == TYPE_VARINT && f.number == ACK_KEYFRAME) {
            ack.keyframe_wanted = f.value != 0;
        } /* any other field comes from a newer collector */
    }
    *ret = ack;
    return 0;
}

int ea_ranges_have(const ea_range *ranges, size_t count, uint64_t number) {
    for (size_t i = 0; i < count; i++)
        if (number >= ranges[i].first && number <= ranges[i].last)
            return 1;
    return 0;
}

int ea_upload_next(const uint8_t *body, size_t len_bytes, size_t *offset, const uint8_t **ret_batch,
                   size_t *ret_len_bytes, ea_err *err) {
    size_t left = len_bytes - *offset;
    if (!left)
        return 0;
    if (left < EA_UPLOAD_FRAME_BYTES)
        return ea_fail(err, EA_ECORRUPT, "read an upload at offset %zu: expected a batch's length", *offset);
    uint32_t n = ea_load32(body + *offset);
    if (n == 0 || n > EA_BATCH_MAX_BYTES || n > left - EA_UPLOAD_FRAME_BYTES)
        return ea_fail(err, EA_ECORRUPT, "read an upload at offset %zu: a batch of %lu bytes", *offset,
                       (unsigned long)n);
    *ret_batch = body + *offset + EA_UPLOAD_FRAME_BYTES;
    *ret_len_bytes = n;
    *offset += EA_UPLOAD_FRAME_BYTES + (size_t)n;
    return 1;
}

void ea_batch_add_definition(ea_text *batch, enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes) {
    ea_pb_put_bytes(batch, (uint32_t)kind, data, len_bytes);
}
