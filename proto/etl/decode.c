/* One buffer: read, decompressed, its records found.
 * Before it: index.c says where buffers are. After it: merge.c. Thread: the source's. */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

int ea_etl_ensure(uint8_t **data, size_t *capacity, size_t wanted) {
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

void ea_etl_report(const ea_etl_options *options, const ea_etl_file *file, uint64_t offset, uint32_t inside,
                   uint64_t bytes, const char *reason) {
    if (!options || !options->on_damage)
        return;
    ea_etl_damage damage = {
        .path = file->info.path, .offset = offset, .inside = inside, .bytes = bytes, .reason = reason};
    options->on_damage(&damage, options->on_damage_arg);
}

/* A whole buffer is in trouble. */
static void bad_buffer(const ea_etl_file *file, const ea_etl_entry *entry, const ea_etl_options *options,
                       uint32_t inside, uint64_t bytes, const char *reason) {
    if (options && options->counters) {
        ea_count(options->counters, EA_COUNT_source_bad_buffers, 1);
        ea_count(options->counters, EA_COUNT_source_bad_bytes, bytes);
    }
    ea_etl_report(options, file, entry->offset, inside, bytes, reason);
}

typedef struct gap_sink {
    const ea_etl_file *file;
    const ea_etl_entry *entry;
    const ea_etl_options *options;
} gap_sink;

static void on_gap(const ea_etl_gap *gap, void *arg) {
    const gap_sink *s = arg;
    if (s->options && s->options->counters) {
        ea_count(s->options->counters, EA_COUNT_source_bad_records, 1);
        ea_count(s->options->counters, EA_COUNT_source_bad_bytes, gap->bytes);
    }
    ea_etl_report(s->options, s->file, s->entry->offset, gap->offset, gap->bytes, gap->reason);
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

/* Fills ret->data and used_bytes. */
static int read_compressed(const ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *ret,
                           ea_etl_scratch *scratch, const ea_etl_options *options, ea_err *err) {
    size_t got, made = 0;
    if (ea_etl_ensure(&scratch->data, &scratch->capacity, entry->size_bytes))
        return ea_fail(err, EA_ENOMEM, "read %s", file->info.path);
    int rc = ea_file_read_at(file->handle, entry->offset, scratch->data, entry->size_bytes, &got, err);
    if (rc)
        return rc;
    if (got < EA_ETL_HEADER_BYTES) {
        bad_buffer(file, entry, options, 0, got, "the file ends inside a buffer header");
        return 0;
    }
    ea_etl_parse_buffer_header(scratch->data, &ret->header);
    uint32_t claimed = claimed_bytes(&ret->header, EA_ETL_MAX_BUFFER_BYTES);
    uint32_t used = claimed;
    if (!used) { /* no length: as much as comes out, within reason */
        uint64_t most = 64 * (uint64_t)got + 65536;
        used = most < EA_ETL_MAX_BUFFER_BYTES ? (uint32_t)most : EA_ETL_MAX_BUFFER_BYTES;
    }
    if (ea_etl_ensure(&ret->data, &ret->data_capacity, used))
        return ea_fail(err, EA_ENOMEM, "read %s", file->info.path);
    memcpy(ret->data, scratch->data, EA_ETL_HEADER_BYTES);
    rc = decompress(file->info.compression, scratch->data + EA_ETL_HEADER_BYTES, got - EA_ETL_HEADER_BYTES,
                    ret->data + EA_ETL_HEADER_BYTES, used - EA_ETL_HEADER_BYTES, &made);
    ret->used_bytes = EA_ETL_HEADER_BYTES + (uint32_t)made;
    if (got < entry->size_bytes)
        bad_buffer(file, entry, options, ret->used_bytes, claimed > ret->used_bytes ? claimed - ret->used_bytes : 0,
                   "the file ends inside a compressed buffer");
    else if (rc || made + EA_ETL_HEADER_BYTES < claimed)
        bad_buffer(file, entry, options, ret->used_bytes, claimed > ret->used_bytes ? claimed - ret->used_bytes : 0,
                   rc ? "the compressed data are damaged" : "the compressed data end too early");
    return 0;
}

static int read_plain(const ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *ret,
                      const ea_etl_options *options, ea_err *err) {
    size_t got;
    if (ea_etl_ensure(&ret->data, &ret->data_capacity, entry->size_bytes))
        return ea_fail(err, EA_ENOMEM, "read %s", file->info.path);
    int rc = ea_file_read_at(file->handle, entry->offset, ret->data, entry->size_bytes, &got, err);
    if (rc)
        return rc;
    if (got < EA_ETL_HEADER_BYTES) {
        bad_buffer(file, entry, options, 0, got, "the file ends inside a buffer header");
        return 0;
    }
    ea_etl_parse_buffer_header(ret->data, &ret->header);
    uint32_t used = claimed_bytes(&ret->header, entry->size_bytes);
    if (!used)
        used = entry->size_bytes;
    if (used > got) {
        bad_buffer(file, entry, options, (uint32_t)got, used - got, "the file ends inside a buffer");
        used = (uint32_t)got;
    }
    ret->used_bytes = used;
    return 0;
}

int ea_etl_decode(const ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *ret, ea_etl_scratch *scratch,
                  const ea_etl_options *options, ea_err *err) {
    ret->used_bytes = 0;
    ret->walk.count = 0;
    int rc = entry->compressed ? read_compressed(file, entry, ret, scratch, options, err)
                               : read_plain(file, entry, ret, options, err);
    if (rc || ret->used_bytes == 0)
        return rc;
    if (entry->damaged)
        bad_buffer(file, entry, options, 0, 0, "a buffer header contradicts itself or the file");
    gap_sink sink = {.file = file, .entry = entry, .options = options};
    ea_etl_walk_options walk = {
        .window_raw = file->window_raw,
        .near_raw = file->by_utc ? ea_clock_from_utc_ns(&file->info.clock, entry->key) : entry->key,
        .on_gap = on_gap,
        .arg = &sink,
    };
    rc = ea_etl_walk_buffer(&ret->walk, ret->data, EA_ETL_HEADER_BYTES, ret->used_bytes, &walk);
    if (!rc && ret->walk.disordered) {
        rc = ea_etl_walk_sort(&ret->walk, ret->data);
        if (options && options->counters)
            ea_count(options->counters, EA_COUNT_source_disordered_buffers, 1);
    }
    return rc ? ea_fail(err, rc, "read %s", file->info.path) : 0;
}
