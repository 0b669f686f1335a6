/* The summary at the end of a recorder's segment. See spool_file.h. */
#include "service/spool/spool_file.h"

#include <stdlib.h>
#include <string.h>

#define SUMMARY_MAGIC 0x53534145u /* "EASS" */

enum { SUMMARY_HEAD_BYTES = 24, SUMMARY_TAIL_BYTES = 8, SHARE_BYTES = EA_STREAM_ID_BYTES + 20, RANGE_BYTES = 16 };

void ea_spool_summary_deinit(ea_spool_summary *s) {
    for (size_t i = 0; i < s->share_count; i++)
        free(s->shares[i].numbers.ranges);
    free(s->shares);
    s->shares = NULL;
    s->share_count = 0;
}

/* ---- writing ---- */

static void put_share(ea_text *t, const ea_spool_share *share) {
    ea_text_add(t, (const char *)share->stream, sizeof share->stream);
    ea_text_le64(t, share->batches);
    ea_text_le64(t, share->events);
    ea_text_le32(t, (uint32_t)share->numbers.count);
    for (size_t i = 0; i < share->numbers.count; i++) {
        ea_text_le64(t, share->numbers.ranges[i].first);
        ea_text_le64(t, share->numbers.ranges[i].last);
    }
}

int ea_spool_put_summary(ea_text *out, uint64_t sequence, uint16_t priority, const ea_spool_summary *s) {
    size_t bytes = SUMMARY_HEAD_BYTES + SUMMARY_TAIL_BYTES, most = EA_SPOOL_SUMMARY_MAX - EA_SPOOL_RECORD_BYTES;
    uint8_t fields[EA_SPOOL_RECORD_BYTES];
    ea_text t;
    for (size_t i = 0; i < s->share_count; i++) {
        size_t ranges = s->shares[i].numbers.count;
        if (ranges > most / RANGE_BYTES || SHARE_BYTES + ranges * RANGE_BYTES > most - bytes)
            return EA_ELIMIT;
        bytes += SHARE_BYTES + ranges * RANGE_BYTES;
    }
    ea_text_init(&t);
    ea_text_le64(&t, (uint64_t)s->first_utc_ns);
    ea_text_le64(&t, (uint64_t)s->last_utc_ns);
    ea_text_le32(&t, (uint32_t)s->has_keyframe);
    ea_text_le32(&t, (uint32_t)s->share_count);
    for (size_t i = 0; i < s->share_count; i++)
        put_share(&t, &s->shares[i]);
    ea_text_le32(&t, (uint32_t)(EA_SPOOL_RECORD_BYTES + bytes));
    ea_text_le32(&t, SUMMARY_MAGIC);
    if (!t.failed) {
        ea_spool_record r = {.number = 1,
                             .priority = priority,
                             .flags = EA_SPOOL_SUMMARY,
                             .batch = (const uint8_t *)t.data,
                             .len_bytes = (uint32_t)t.len_bytes};
        ea_spool_put_record(fields, &r, sequence);
        ea_text_add(out, (const char *)fields, sizeof fields);
        ea_text_add(out, t.data, t.len_bytes);
    }
    int failed = t.failed || out->failed;
    ea_text_deinit(&t);
    return failed ? EA_ENOMEM : 0;
}

/* ---- reading ---- */

/* The share at the start of data: its bytes, 0 when there is no whole one, or EA_ENOMEM. */
static int64_t get_share(const uint8_t *data, size_t len_bytes, ea_spool_share *ret) {
    if (len_bytes < SHARE_BYTES)
        return 0;
    size_t ranges = ea_load32(data + EA_STREAM_ID_BYTES + 16);
    if (ranges > (len_bytes - SHARE_BYTES) / RANGE_BYTES)
        return 0;
    memcpy(ret->stream, data, sizeof ret->stream);
    ret->batches = ea_load64(data + EA_STREAM_ID_BYTES);
    ret->events = ea_load64(data + EA_STREAM_ID_BYTES + 8);
    uint64_t batches = 0;
    for (size_t i = 0; i < ranges; i++) {
        const uint8_t *at = data + SHARE_BYTES + i * RANGE_BYTES;
        uint64_t first = ea_load64(at), last = ea_load64(at + 8);
        if (!first || first > last || last - first >= ret->batches - batches)
            return 0;
        batches += last - first + 1;
        if (ea_range_set_add(&ret->numbers, first, last))
            return EA_ENOMEM;
    }
    return ranges && batches == ret->batches ? (int64_t)(SHARE_BYTES + ranges * RANGE_BYTES) : 0;
}

static int get_summary(const uint8_t *data, size_t len_bytes, ea_spool_summary *ret) {
    if (len_bytes < SUMMARY_HEAD_BYTES + SUMMARY_TAIL_BYTES)
        return 0;
    size_t at = SUMMARY_HEAD_BYTES, end = len_bytes - SUMMARY_TAIL_BYTES, count = ea_load32(data + 20);
    ret->first_utc_ns = (int64_t)ea_load64(data);
    ret->last_utc_ns = (int64_t)ea_load64(data + 8);
    ret->has_keyframe = ea_load32(data + 16) != 0;
    if (count > (end - at) / SHARE_BYTES)
        return 0;
    ret->shares = calloc(count + 1, sizeof *ret->shares);
    if (!ret->shares)
        return EA_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int64_t n = get_share(data + at, end - at, &ret->shares[ret->share_count++]);
        if (n <= 0)
            return (int)n;
        at += (size_t)n;
    }
    return at == end;
}

int ea_spool_read_summary(ea_file *file, uint64_t sequence, ea_spool_summary *ret, ea_err *err) {
    uint8_t tail[SUMMARY_TAIL_BYTES], *data;
    uint64_t size = 0;
    size_t got = 0;
    ea_spool_record r;
    *ret = (ea_spool_summary){.first_utc_ns = INT64_MAX, .last_utc_ns = INT64_MIN};
    int rc = ea_file_size(file, &size, err);
    if (rc || size < EA_SPOOL_HEAD_BYTES + EA_SPOOL_RECORD_BYTES + SUMMARY_HEAD_BYTES + SUMMARY_TAIL_BYTES)
        return rc;
    rc = ea_file_read_at(file, size - sizeof tail, tail, sizeof tail, &got, err);
    size_t n = ea_load32(tail);
    if (rc || got != sizeof tail || ea_load32(tail + 4) != SUMMARY_MAGIC || n > EA_SPOOL_SUMMARY_MAX ||
        n < EA_SPOOL_RECORD_BYTES || n > size - EA_SPOOL_HEAD_BYTES)
        return rc;
    if (!(data = malloc(n)))
        return ea_fail(err, EA_ENOMEM, "read a summary of a recorder's file");
    rc = ea_file_read_at(file, size - n, data, n, &got, err);
    if (!rc && got == n && ea_spool_get_record(data, n, sequence, &r) && r.flags == EA_SPOOL_SUMMARY &&
        r.len_bytes == n - EA_SPOOL_RECORD_BYTES) {
        rc = get_summary(r.batch, r.len_bytes, ret);
        if (rc <= 0)
            ea_spool_summary_deinit(ret);
        if (rc < 0)
            ea_fail(err, rc, "read a summary of a recorder's file");
    }
    free(data);
    return rc;
}
