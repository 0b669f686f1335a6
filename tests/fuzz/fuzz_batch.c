/* Fuzz target: a whole batch from outside, read in every way that the reader offers.
 * Input: the bytes of a batch. Seeds: seed_batch.c. */
#include "proto/wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition)
        abort();
}

/* Reads n bytes in pieces: a sanitizer looks at a piece at once, and the fuzzer's own counting does not slow it. */
static void touch(const uint8_t *data, size_t n) {
    static uint8_t copy[1 << 16];
    for (size_t at = 0, piece; at < n; at += piece) {
        piece = n - at < sizeof copy ? n - at : sizeof copy;
        memcpy(copy, data + at, piece);
        check(copy[0] == data[at]);
    }
}

/* Many rows can be the same long one: of those beyond the bound only the ends are looked at. */
static void touch_rows(const ea_column *column) {
    size_t total = 0;
    for (uint32_t i = 0; i < column->count; i++) {
        ea_slice s = ea_column_row(column, i);
        total += s.len_bytes;
        if (total <= EA_BATCH_MAX_RAW_BYTES) {
            touch(s.data, s.len_bytes);
        } else if (s.len_bytes) {
            touch(s.data, 1);
            touch(s.data + s.len_bytes - 1, 1);
        }
    }
}

static int on_description(const uint8_t *data, size_t n, void *arg) {
    touch(data, n);
    ++*(unsigned *)arg;
    return 0;
}

static int on_tombstone(const ea_tombstone *t, void *arg) {
    check(t->first && t->first <= t->last);
    ++*(unsigned *)arg;
    return 0;
}

static int on_count(const ea_ledger_count *c, void *arg) {
    (void)arg;
    touch((const uint8_t *)c->family, strlen(c->family));
    return 0;
}

static void read_columns(ea_batch_view *v) {
    ea_err err;
    const ea_batch_events *events;
    const uint32_t *rows, *pids;
    size_t pid_count;
    ea_column column;
    if (!ea_batch_pids(v, &pids, &pid_count, &err))
        for (size_t i = 1; i < pid_count; i++)
            check(pids[i - 1] < pids[i]);
    if (ea_batch_get_events(v, &events, &err))
        return;
    for (size_t k = 0; k < ea_batch_group_count(v); k++) {
        uint32_t n = ea_batch_group_events(v, k);
        check(!ea_batch_group_rows(v, k, &rows, &err));
        for (uint32_t i = 0; i < n; i++)
            check(events->group[rows[i]] == k && events->source[rows[i]] < ea_batch_source_count(v));
        uint16_t type;
        for (size_t i = 0; i < ea_batch_group_constants(v, k)->ext_count; i++)
            if (!ea_batch_item(v, k, i, &type, &column, &err))
                check(column.count == n);
        if (ea_batch_activities(v, k, &column, &err) == 1)
            touch(ea_column_row(&column, n - 1).data, ea_column_row(&column, n - 1).len_bytes);
        for (size_t f = 0; f < ea_batch_group_class(v, k)->top_count; f++)
            if (ea_batch_dictionary(v, k, f, &column, &rows, &err) == 1)
                for (uint32_t i = 0; i < n; i++)
                    check(rows[i] < column.count);
        for (size_t f = 0; f < ea_batch_group_class(v, k)->top_count; f++)
            if (!ea_batch_column(v, k, f, &column, &err))
                touch_rows(&column);
    }
}

static void read_records(ea_batch_view *v, uint32_t expected) {
    ea_err err;
    const ea_record *r;
    const ea_class *c;
    uint32_t n = 0;
    int rc;
    while ((rc = ea_batch_next(v, &r, &c, &err)) > 0) {
        touch(r->payload, r->payload_bytes);
        check(r->ext_count <= EA_EXT_MAX);
        for (unsigned i = 0; i < r->ext_count; i++)
            touch(r->ext[i].data, r->ext[i].size_bytes);
        n++;
    }
    check(rc < 0 || n == expected);
    rc = ea_batch_verify(v, &err);
    check(rc == 0 || rc == EA_ECORRUPT || rc == EA_ELIMIT || rc == EA_EUNSUPPORTED);
}

/* Under another name it is the same batch. */
static void check_renamed(const uint8_t *data, size_t size, const ea_batch_head *head) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "renamed";
    ea_err err;
    ea_batch_head now;
    ea_text out;
    ea_text_init(&out);
    if (!ea_batch_rename(data, size, STREAM, 7, &out, &err)) {
        check(!ea_batch_read_head((const uint8_t *)out.data, out.len_bytes, &now, &err));
        check(now.number == 7 && memcmp(now.stream, STREAM, sizeof STREAM) == 0 && now.kind == head->kind &&
              now.event_count == head->event_count && now.checksum == head->checksum);
    }
    ea_text_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ea_err err;
    ea_batch_head head;
    unsigned descriptions = 0, tombstones = 0;
    int rc = ea_batch_read_head(data, size, &head, &err);
    if (rc == 0) {
        check(!ea_batch_each_description(data, size, on_description, &descriptions, &err));
        check(descriptions == head.description_count && head.time_min <= head.time_max);
        if (!ea_batch_each_tombstone(data, size, on_tombstone, &tombstones, &err))
            check(tombstones == head.tombstone_count);
        (void)!ea_batch_each_count(data, size, on_count, NULL, &err);
        check_renamed(data, size, &head);
    }
    ea_batch_view *v = NULL;
    if (!ea_batch_open(&v, data, size, NULL, &err)) {
        check(rc == 0);
        for (size_t k = 0; k < ea_batch_group_count(v); k++)
            touch(ea_batch_group_hash(v, k), EA_CLASS_HASH_BYTES);
        ea_batch_close(v);
    }
    ea_registry *registry = NULL;
    check(!ea_registry_create(&registry, 1000, &err));
    for (int order = 0; order < 2; order++) {
        if (ea_batch_open(&v, data, size, registry, &err))
            break;
        /* columns before records, and the other way round: what is decoded first must not matter */
        if (order)
            read_columns(v);
        read_records(v, head.event_count);
        if (!order)
            read_columns(v);
        ea_batch_close(v);
    }
    ea_registry_destroy(registry);
    return 0;
}
