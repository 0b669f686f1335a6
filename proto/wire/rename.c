/* A batch under another name. See wire.h. Called by: the spool, when a stream goes on under a new name. Output: an
 * upload. Thread: any. */
#include "proto/wire/envelope.h"
#include "proto/wire/wire.h"

enum { FIELD_STREAM = 2, FIELD_NUMBER = 3 };

/* All that it stood for, as one row: under one number there is room for one. Its cause is that of the largest part. */
typedef struct first_tombstone {
    ea_tombstone row;
    uint64_t largest;
    int any;
} first_tombstone;

static int add_grave(const ea_tombstone *t, void *arg) {
    first_tombstone *g = arg;
    ea_tombstone *row = &g->row;
    int has_time = t->utc_min_ns || t->utc_max_ns, had_time = row->utc_min_ns || row->utc_max_ns;
    if (!g->any || t->event_count > g->largest) {
        g->largest = t->event_count;
        row->cause = t->cause;
    }
    g->any = 1;
    row->event_count += t->event_count;
    if (has_time && (!had_time || t->utc_min_ns < row->utc_min_ns))
        row->utc_min_ns = t->utc_min_ns;
    if (has_time && (!had_time || t->utc_max_ns > row->utc_max_ns))
        row->utc_max_ns = t->utc_max_ns;
    return 0;
}

/* Copies all fields but the name, the ledger and tombstones, and appends the new name. */
static int copy_fields(const uint8_t *batch, size_t len_bytes, const uint8_t *stream, uint64_t number, ea_text *out,
                       ea_err *err) {
    size_t offset = 0, before = 0;
    ea_pb_field f;
    int rc;
    for (; (rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0; before = offset)
        if (f.number != FIELD_STREAM && f.number != FIELD_NUMBER && f.number != EA_BATCH_LEDGER)
            ea_text_add(out, batch + before, offset - before);
    if (rc)
        return ea_fail(err, EA_EFORMAT, "rename a batch: it is no protobuf message");
    ea_text_varint(out, FIELD_STREAM << 3 | 2);
    ea_text_varint(out, EA_STREAM_ID_BYTES);
    ea_text_add(out, stream, EA_STREAM_ID_BYTES);
    ea_text_varint(out, FIELD_NUMBER << 3);
    ea_text_varint(out, number);
    return out->failed ? ea_fail(err, EA_ENOMEM, "rename a batch") : 0;
}

int ea_batch_rename(const uint8_t *batch, size_t len_bytes, const uint8_t *stream, uint64_t number, ea_text *out,
                    ea_err *err) {
    ea_batch_head head;
    int rc = ea_batch_read_head(batch, len_bytes, &head, err);
    if (rc)
        return rc;
    if (head.kind != EA_BATCH_TOMBSTONE)
        return copy_fields(batch, len_bytes, stream, number, out, err);
    first_tombstone g = {.row = {.first = number, .last = number}};
    rc = ea_batch_each_tombstone(batch, len_bytes, add_grave, &g, err);
    return rc ? rc : ea_batch_make_tombstone(stream, number, &g.row, 1, out, err);
}
