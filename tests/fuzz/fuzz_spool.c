/* Fuzz target: the files that a process finds on disk at start: the spool's segments and its state file, with arbitrary
 * damage. The first byte chooses: 0 the state file; 1 a segment with a valid header; 2 the same with corrected
 * checksums of the records where their lengths allow it, so that the code after the check is reached, too; 3 and 4 the
 * same two forms of a segment with sealed records. */
#include "proto/base/map.h"
#include "service/spool/spool_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQUENCE = 1 };

static const ea_sealing_key KEY = {{1, 2, 3}};

typedef struct walk {
    const uint8_t *begin, *end;
    uint64_t bytes, last;
} walk;

static int on_record(const ea_spool_record *r, void *arg) {
    walk *w = arg;
    if (r->batch < w->begin || r->len_bytes > (size_t)(w->end - r->batch) || !r->len_bytes || !r->number ||
        r->offset <= w->last || w->begin + r->offset + EA_SPOOL_RECORD_BYTES != r->batch)
        abort();
    w->last = r->offset;
    if (r->flags & EA_SPOOL_SEALED) { /* not sealed with KEY: unsealing must fail, and reads no byte outside */
        ea_spool_record opened = *r;
        uint8_t *copy = malloc(r->len_bytes), *out = malloc(ea_spool_batch_bytes(r));
        if (!copy || !out)
            abort();
        memcpy(copy, r->batch, r->len_bytes);
        opened.batch = copy;
        if (ea_spool_unseal(&KEY, &opened, out, NULL) == 0)
            abort();
        free(copy);
        free(out);
    }
    w->bytes += EA_SPOOL_RECORD_BYTES + r->len_bytes;
    return 0;
}

static void segment(const uint8_t *data, size_t size, int mend, int is_sealed) {
    size_t head_bytes = is_sealed ? EA_SPOOL_SEALED_HEAD_BYTES : EA_SPOOL_HEAD_BYTES, total = head_bytes + size;
    uint8_t *file = malloc(total);
    if (!file)
        return;
    ea_spool_put_head(file, SEQUENCE, &(ea_spool_head){.is_sealed = is_sealed});
    memcpy(file + head_bytes, data, size);
    for (size_t at = head_bytes; mend && at + EA_SPOOL_RECORD_BYTES < total;) {
        uint32_t n = ea_load32(file + at + 4);
        if (n == 0 || n > total - at - EA_SPOOL_RECORD_BYTES)
            break;
        ea_spool_record r = {.number = ea_load64(file + at + 32),
                             .event_count = ea_load32(file + at + 40),
                             .priority = ea_load16(file + at + 44),
                             .flags = ea_load16(file + at + 46),
                             .batch = file + at + EA_SPOOL_RECORD_BYTES,
                             .len_bytes = n};
        memcpy(r.stream, file + at + 16, sizeof r.stream);
        ea_spool_put_record(file + at, &r, SEQUENCE);
        at += EA_SPOOL_RECORD_BYTES + (size_t)n;
    }
    ea_err err;
    ea_spool_scanned scanned;
    walk w = {.begin = file, .end = file + total};
    if (ea_spool_scan(file, total, SEQUENCE, on_record, &w, &scanned, &err) ||
        scanned.whole_bytes + scanned.torn_bytes != total ||
        head_bytes + w.bytes + scanned.bad_bytes != scanned.whole_bytes)
        abort();
    free(file);
}

static int on_stream(ea_spool_stream_state *s, void *arg) {
    ea_text *again = arg;
    for (size_t i = 0; i < s->acknowledged.count; i++) {
        const ea_range *r = &s->acknowledged.ranges[i];
        if (!r->first || r->first > r->last || (i && r->first - r[-1].last < 2))
            abort();
    }
    ea_spool_state_stream(again, s);
    free(s->acknowledged.ranges);
    return 0;
}

/* The checksum line is made here, so that everything above it is reached. What is read can be written and read again.
 */
static void state(const uint8_t *data, size_t size) {
    ea_text text, again;
    ea_err err;
    ea_text_init(&text);
    ea_text_init(&again);
    ea_text_add(&text, data, size);
    ea_spool_state_end(&text);
    ea_spool_state_begin(&again);
    if (!text.failed && text.data && ea_spool_state_parse(text.data, text.len_bytes, on_stream, &again, &err) == 0) {
        ea_text third;
        ea_text_init(&third);
        ea_spool_state_end(&again);
        if (ea_spool_state_parse(again.data, again.len_bytes, on_stream, &third, &err))
            abort();
        ea_text_deinit(&third);
    }
    ea_text_deinit(&text);
    ea_text_deinit(&again);
}

/* Its checksum line, too, is made here. */
static void keys(const uint8_t *data, size_t size) {
    ea_text text;
    ea_spool_keys k = {0};
    ea_text_init(&text);
    ea_text_add(&text, data, size);
    if (!text.failed && text.data)
        ea_text_printf(&text, "end %016llx\n", (unsigned long long)ea_hash64(text.data, text.len_bytes, 0x7379656bu));
    if (!text.failed && text.data && ea_spool_keys_parse(&k, text.data, "keys", NULL) == 0 &&
        (!k.count || k.count > EA_SPOOL_KEYS_MAX || text.len_bytes < 65 * k.count))
        abort();
    ea_text_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    if (data[0] == 0)
        state(data + 1, size - 1);
    else if (data[0] == 5)
        keys(data + 1, size - 1);
    else
        segment(data + 1, size - 1, data[0] == 2 || data[0] == 4, data[0] >= 3);
    return 0;
}
