/* Event logs as buffers: a chunk of an .evtx file becomes the buffer of records that a session would have written of
 * its events, so that everything that reads traces reads event logs. Each event describes itself (TraceLogging
 * metadata): its fields are those of the System element that rules ask for, then those of its data. Called by:
 * header.c, index.c, decode.c. Calls: proto/evtx. Thread: the source's. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/evtx_record.h"
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

int ea_etl_read_evtx_header(ea_etl_file *file, ea_err *err) {
    ea_etl_info *info = &file->info;
    uint8_t *data = malloc(EA_EVTX_CHUNK_BYTES);
    uint64_t at = 0;
    uint32_t bytes;
    ea_evtx_chunk chunk;
    ea_evtx_place place = {0};
    info->session_name = calloc(1, 1);
    info->log_file_name = calloc(1, 1);
    int rc = data && info->session_name && info->log_file_name
                 ? ea_evtx_find_chunk(file->handle, info->file_bytes, &at, data, &bytes, err)
                 : ea_fail(err, EA_ENOMEM, "read %s", info->path);
    if (rc > 0) {
        ea_evtx_chunk_open(&chunk, data, bytes);
        (void)ea_evtx_chunk_next(&chunk, &place);
        rc = 0;
    }
    free(data);
    file->is_evtx = 1;
    file->scan_buffers = 1;
    file->window_raw = INT64_MAX / 4;
    info->buffer_size_bytes = EA_EVTX_CHUNK_BYTES;
    info->cpu_count = 1;
    info->pointer_size = 8;
    info->clock_type = EA_CLOCK_SYSTEM_TIME;
    info->start_filetime = place.filetime;
    info->clock = (ea_clock){.type = EA_CLOCK_SYSTEM_TIME,
                             .frequency = 10000000,
                             .base_raw = INT64_C(116444736000000000)}; /* 1970 as a FILETIME */
    return rc;
}

int ea_etl_index_evtx(ea_etl_index *index, ea_etl_file *file, uint16_t file_number, ea_err *err) {
    ea_etl_info *info = &file->info;
    uint8_t *data = malloc(EA_EVTX_CHUNK_BYTES);
    uint64_t at = 0;
    uint32_t bytes;
    int64_t first = INT64_MAX, last = INT64_MIN;
    int rc = data ? 0 : ea_fail(err, EA_ENOMEM, "read %s", info->path);
    while (!rc && (rc = ea_evtx_find_chunk(file->handle, info->file_bytes, &at, data, &bytes, err)) > 0) {
        ea_evtx_chunk chunk;
        ea_evtx_place place;
        int64_t begin = INT64_MAX;
        ea_evtx_chunk_open(&chunk, data, bytes);
        while (ea_evtx_chunk_next(&chunk, &place)) {
            begin = place.filetime < begin ? place.filetime : begin;
            last = place.filetime > last ? place.filetime : last;
        }
        first = begin < first ? begin : first;
        rc = ea_etl_index_add(index,
                              &(ea_etl_entry){.key = begin == INT64_MAX ? info->start_filetime : begin,
                                              .offset = at & ((UINT64_C(1) << 48) - 1),
                                              .file = file_number,
                                              .size_bytes = bytes,
                                              .number = (uint32_t)info->buffer_count++},
                              err);
        at += bytes;
    }
    free(data);
    if (first <= last) {
        info->start_filetime = first;
        info->end_filetime = last;
    }
    return rc;
}

struct ea_etl_evtx {
    uint8_t chunk[EA_EVTX_CHUNK_BYTES];
    ea_evtx_reader reader;
    ea_evtx_event event;
    ea_evtx_record made;
};

static int put_record(const ea_record *r, ea_etl_buffer *buffer, ea_err *err) {
    size_t need = buffer->used_bytes + EA_ETL_RECORD_MAX_BYTES + 8u, made;
    if (buffer->data_capacity < need) {
        size_t capacity = 2 * need;
        uint8_t *data = realloc(buffer->data, capacity + EA_ETL_SLACK_BYTES);
        if (!data)
            return ea_fail(err, EA_ENOMEM, "read an event log");
        buffer->data = data;
        buffer->data_capacity = capacity;
    }
    int rc = ea_etl_encode_record(r, buffer->data + buffer->used_bytes, EA_ETL_RECORD_MAX_BYTES, &made, err);
    while (!rc && made % 8)
        buffer->data[buffer->used_bytes + made++] = 0;
    if (!rc)
        buffer->used_bytes += (uint32_t)made;
    return rc;
}

/* A place that is damaged: of a chunk, or one record of it. */
static void bad_place(const ea_etl_file *file, const ea_etl_entry *entry, const ea_etl_options *options, int is_chunk,
                      uint32_t inside, uint32_t bytes, const char *reason) {
    if (!options)
        return;
    if (options->counters) {
        ea_count(options->counters, is_chunk ? EA_COUNT_source_bad_buffers : EA_COUNT_source_bad_records, 1);
        ea_count(options->counters, EA_COUNT_source_bad_bytes, bytes);
    }
    ea_etl_report(options, file, entry->offset, inside, bytes, reason);
}

static int one_event(ea_etl_evtx *x, ea_evtx_chunk *chunk, const ea_evtx_place *place, const ea_etl_file *file,
                     const ea_etl_entry *entry, ea_etl_buffer *ret, const ea_etl_options *options, ea_err *err) {
    const char *wrong;
    int rc = ea_evtx_read(&x->reader, chunk, place, &wrong);
    if (!rc && wrong)
        bad_place(file, entry, options, 0, place->offset, place->size_bytes, wrong);
    if (!rc)
        rc = ea_evtx_event_fill(&x->event, &x->reader, place);
    if (!rc && wrong && !x->event.event_id && !*x->event.channel)
        return 0; /* nothing of it could be read */
    if (!rc)
        rc = ea_evtx_record_fill(&x->made, &x->event, place->filetime);
    if (rc)
        return ea_fail(err, rc, "read %s", file->info.path);
    if (x->made.is_cut)
        bad_place(file, entry, options, 0, place->offset, 0,
                  "an event is too large for a record: its last fields are cut, or left out");
    return put_record(&x->made.record, ret, err);
}

int ea_etl_decode_evtx(const ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *ret, ea_etl_scratch *scratch,
                       const ea_etl_options *options, ea_err *err) {
    ea_etl_evtx *x = scratch->evtx;
    ea_evtx_chunk chunk;
    ea_evtx_place place;
    size_t got;
    if (!x) {
        if (!(x = scratch->evtx = calloc(1, sizeof *x)))
            return ea_fail(err, EA_ENOMEM, "read %s", file->info.path);
        ea_evtx_event_init(&x->event);
    }
    int rc = ea_file_read_at(file->handle, entry->offset, x->chunk, entry->size_bytes, &got, err);
    if (rc)
        return rc;
    ret->header = (ea_etl_buffer_header){0};
    ret->used_bytes = EA_ETL_HEADER_BYTES;
    ea_evtx_chunk_open(&chunk, x->chunk, (uint32_t)got);
    if (chunk.wrong)
        bad_place(file, entry, options, 1, 0, 0, chunk.wrong);
    for (int more = 1; more && !rc;) {
        more = ea_evtx_chunk_next(&chunk, &place);
        if (chunk.gap)
            bad_place(file, entry, options, 0, chunk.gap_at, chunk.gap, "expected an event's record");
        if (more)
            rc = one_event(x, &chunk, &place, file, entry, ret, options, err);
    }
    return rc;
}

void ea_etl_scratch_deinit(ea_etl_scratch *s) {
    free(s->data);
    if (s->evtx) {
        ea_evtx_reader_deinit(&s->evtx->reader);
        ea_evtx_event_deinit(&s->evtx->event);
        free(s->evtx);
    }
    *s = (ea_etl_scratch){0};
}
