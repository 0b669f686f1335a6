/* One buffer: read, decompressed, its records found. Input: the places of buffers (index.c). Used by: merge.c. Thread:
 * the source's. */
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_READ_BYTES = 64 << 10 }; /* of a buffer that is not compressed, in which its header is */

/* Makes *data hold at least wanted bytes and EA_ETL_SLACK_BYTES after them; the contents are lost. */
static int ensure(uint8_t **data, size_t *capacity, size_t wanted) {
    if (*capacity >= wanted && *data)
        return 0;
    uint8_t *p = malloc(wanted + EA_ETL_SLACK_BYTES);
    if (!p)
        return EA_ENOMEM;
    free(*data);
    *data = p;
    *capacity = wanted;
    return 0;
}

void ea_etl_buffer_deinit(ea_etl_buffer *b) {
    free(b->data);
    ea_etl_walk_deinit(&b->walk);
    memset(b, 0, sizeof *b);
}

/* A buffer on its way to records. */
typedef struct decoding {
    const ea_etl_file *file;
    const ea_etl_entry *entry;
    const ea_etl_options *options;
    ea_etl_buffer *buffer;
    ea_err *err;
    ea_etl_walk_options walk;
} decoding;

/* A whole buffer is in trouble. */
static void bad_buffer(const decoding *d, uint32_t inside, uint64_t bytes, const char *reason) {
    if (d->options && d->options->counters) {
        ea_count(d->options->counters, EA_COUNT_source_bad_buffers, 1);
        ea_count(d->options->counters, EA_COUNT_source_bad_bytes, bytes);
    }
    ea_etl_report(d->options, d->file, d->entry->offset, inside, bytes, reason);
}

static void on_gap(const ea_etl_gap *gap, void *arg) {
    const decoding *d = arg;
    if (d->options->counters) {
        ea_count(d->options->counters, EA_COUNT_source_bad_records, 1);
        ea_count(d->options->counters, EA_COUNT_source_bad_bytes, gap->bytes);
    }
    ea_etl_report(d->options, d->file, d->entry->offset, gap->offset, gap->bytes, gap->reason);
}

static int decompress(uint16_t compression, const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
                      size_t *ret_bytes) {
    switch (compression) {
    case EA_ETL_LZNT1:
        return ea_lznt1_decompress(in, in_bytes, out, out_bytes, ret_bytes);
    case EA_ETL_XPRESS_HUFF:
        return ea_xpress_huff_decompress(in, in_bytes, out, out_bytes, ret_bytes);
    default:
        return ea_xpress_decompress(in, in_bytes, out, out_bytes, ret_bytes);
    }
}

/* The valid length that a header claims, or what else in it can be believed; 0 when nothing can. */
static uint32_t claimed_bytes(const ea_etl_buffer_header *h, uint32_t most) {
    if (h->used_bytes >= EA_ETL_HEADER_BYTES && h->used_bytes <= most)
        return h->used_bytes;
    if (h->saved_offset > EA_ETL_HEADER_BYTES && h->saved_offset <= most)
        return h->saved_offset;
    return 0;
}

static int decode_fail_memory(const decoding *d) {
    return ea_fail(d->err, EA_ENOMEM, "read %s", d->file->info.path);
}

static int find_records(decoding *d) {
    ea_etl_buffer *b = d->buffer;
    if (ea_etl_walk_buffer(&b->walk, b->data, EA_ETL_HEADER_BYTES, b->used_bytes, &d->walk))
        return decode_fail_memory(d);
    return 0;
}

/* Decompresses to a length (or, with 0, to as much as comes out) and walks. *ret_good: all came, and all of it is
 * records. */
static int decompress_to(decoding *d, const uint8_t *in, size_t in_bytes, uint32_t length, int *ret_good) {
    ea_etl_buffer *b = d->buffer;
    size_t made = 0;
    uint32_t room = length;
    if (!room) {
        uint64_t most = 64 * (uint64_t)in_bytes + 65536;
        room = most < EA_ETL_MAX_BUFFER_BYTES ? (uint32_t)most : EA_ETL_MAX_BUFFER_BYTES;
    }
    if (ensure(&b->data, &b->data_capacity, room))
        return decode_fail_memory(d);
    int rc = decompress(d->file->info.compression, in + EA_ETL_HEADER_BYTES, in_bytes - EA_ETL_HEADER_BYTES,
                        b->data + EA_ETL_HEADER_BYTES, room - EA_ETL_HEADER_BYTES, &made);
    memcpy(b->data, in, EA_ETL_HEADER_BYTES);
    b->used_bytes = EA_ETL_HEADER_BYTES + (uint32_t)made;
    *ret_good = !rc && (!length || b->used_bytes == length);
    rc = find_records(d);
    *ret_good &= b->walk.gap_count == 0;
    return rc;
}

static int decode_compressed(decoding *d, int mend, ea_etl_scratch *scratch) {
    ea_etl_buffer *b = d->buffer;
    const ea_etl_entry *entry = d->entry;
    size_t got;
    if (ensure(&scratch->data, &scratch->capacity, entry->size_bytes))
        return decode_fail_memory(d);
    uint8_t *in = scratch->data;
    int rc = ea_file_read_at(d->file->handle, entry->offset, in, entry->size_bytes, &got, d->err), good;
    if (rc)
        return rc;
    if (got < EA_ETL_HEADER_BYTES) {
        bad_buffer(d, 0, got, "the file ends inside a buffer header");
        return 0;
    }
    ea_etl_parse_buffer_header(in, &b->header);
    uint32_t length = claimed_bytes(&b->header, EA_ETL_MAX_BUFFER_BYTES), other = b->header.saved_offset;
    if ((rc = decompress_to(d, in, got, length, &good)) || good)
        return rc;

    if (other != length && other > EA_ETL_HEADER_BYTES && other <= EA_ETL_MAX_BUFFER_BYTES) {
        /* the length may be what is wrong */
        if ((rc = decompress_to(d, in, got, other, &good)))
            return rc;
        if (good) {
            bad_buffer(d, 0, 0, "a buffer header's length is wrong; the saved one fits");
            return 0;
        }
    }
    if (got < entry->size_bytes) {
        rc = decompress_to(d, in, got, length, &good);
        bad_buffer(d, b->used_bytes, length > b->used_bytes ? length - b->used_bytes : 0,
                   "the file ends inside a compressed buffer");
        return rc;
    }
    int mended = 0;
    if (mend && length && d->file->info.compression == EA_ETL_XPRESS) {
        mended = ea_etl_repair(in + EA_ETL_HEADER_BYTES, got - EA_ETL_HEADER_BYTES, b->data, length, d->walk.near_raw,
                               d->walk.window_raw, !d->file->scan_buffers, &b->mend_work);
        if (mended < 0)
            return decode_fail_memory(d);
    }
    if ((rc = decompress_to(d, in, got, length, &good)))
        return rc;
    uint32_t missing = length > b->used_bytes ? length - b->used_bytes : 0;
    bad_buffer(d, missing ? b->used_bytes : 0, missing + (uint32_t)mended,
               mended ? "the compressed data are damaged; bytes were mended by what fits"
                      : "the compressed data are damaged");
    return 0;
}

/* Reads on until the buffer's first `wanted` bytes are there, or the file ends. *got: bytes that are there. */
static int read_on(const decoding *d, uint32_t wanted, size_t *got) {
    size_t more = 0;
    int rc = 0;
    if (wanted > *got)
        rc = ea_file_read_at(d->file->handle, d->entry->offset + *got, d->buffer->data + *got, wanted - *got, &more,
                             d->err);
    if (!rc)
        *got += more;
    return rc;
}

/* Windows writes a large buffer whole, even when few of its bytes are used. The bytes after the used ones are not
 * read. */
static int decode_plain(decoding *d) {
    ea_etl_buffer *b = d->buffer;
    const ea_etl_entry *entry = d->entry;
    size_t got = 0;
    if (ensure(&b->data, &b->data_capacity, entry->size_bytes))
        return decode_fail_memory(d);
    int rc = read_on(d, entry->size_bytes < FIRST_READ_BYTES ? entry->size_bytes : FIRST_READ_BYTES, &got);
    if (rc)
        return rc;
    if (got < EA_ETL_HEADER_BYTES) {
        bad_buffer(d, 0, got, "the file ends inside a buffer header");
        return 0;
    }
    ea_etl_parse_buffer_header(b->data, &b->header);
    uint32_t used = claimed_bytes(&b->header, entry->size_bytes);
    if (!used)
        used = entry->size_bytes;
    if ((rc = read_on(d, used, &got)))
        return rc;
    if (used > got) {
        bad_buffer(d, (uint32_t)got, used - got, "the file ends inside a buffer");
        used = (uint32_t)got;
    }
    b->used_bytes = used;
    rc = find_records(d);
    uint32_t other = b->header.saved_offset;
    if (!rc && b->walk.gap_count && other > EA_ETL_HEADER_BYTES && other != used && other <= entry->size_bytes &&
        !(rc = read_on(d, other, &got)) && other <= got) {
        /* the length may be what is wrong */
        uint32_t gaps = b->walk.gap_count;
        b->used_bytes = other;
        rc = find_records(d);
        if (!rc && b->walk.gap_count < gaps) {
            bad_buffer(d, 0, 0, "a buffer header's length is wrong; the saved one fits");
        } else if (!rc) {
            b->used_bytes = used;
            rc = find_records(d);
        }
    }
    return rc;
}

/* Raw times are signed: those of a clock that passes 2^63 ticks inside a trace are 2^64 ticks before the others. */
static int passes_63_bits(const ea_etl_walk *walk, int64_t base_raw) {
    int64_t ticks;
    return walk->min_time <= walk->max_time && (__builtin_sub_overflow(walk->min_time, base_raw, &ticks) ||
                                                __builtin_sub_overflow(walk->max_time, base_raw, &ticks));
}

int ea_etl_decode(const ea_etl_file *file, const ea_etl_entry *entry, int mend, ea_etl_buffer *ret,
                  ea_etl_scratch *scratch, const ea_etl_options *options, ea_err *err) {
    decoding d = {.file = file, .entry = entry, .options = options, .buffer = ret, .err = err};
    d.walk.window_raw = file->window_raw;
    d.walk.near_raw = file->by_utc ? ea_clock_from_utc_ns(&file->info.clock, entry->key) : entry->key;
    ret->used_bytes = 0;
    ret->walk.count = 0;
    ret->walk.gap_count = 0;
    ret->walk.disordered = 0;
    ret->mend_work = 0;
    int rc;
    if (file->is_evtx) {
        rc = ea_etl_decode_evtx(file, entry, ret, scratch, options, err);
        if (!rc)
            rc = find_records(&d);
    } else {
        rc = entry->compressed ? decode_compressed(&d, mend, scratch) : decode_plain(&d);
    }
    if (rc || ret->used_bytes == 0)
        return rc;
    if (options && passes_63_bits(&ret->walk, file->info.clock.base_raw))
        bad_buffer(&d, 0, 0, "times are 2^63 ticks or more from the trace's begin: they are wrong, and out of order");
    if (entry->damaged)
        bad_buffer(&d, 0, 0, "a buffer header contradicts itself or the file");
    if (ret->walk.gap_count && options) {
        d.walk.on_gap = on_gap;
        d.walk.arg = &d;
        if ((rc = find_records(&d)))
            return rc;
    }
    if (ret->walk.disordered) {
        if (ea_etl_walk_sort(&ret->walk, ret->data))
            return decode_fail_memory(&d);
        if (options && options->counters)
            ea_count(options->counters, EA_COUNT_source_disordered_buffers, 1);
    }
    return 0;
}
