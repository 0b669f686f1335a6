/* Event logs as buffers: a chunk of an .evtx file becomes the buffer of records that a session would have written of
 * its events, so that everything that reads traces reads event logs. Each event describes itself (TraceLogging
 * metadata): its fields are those of the System element that rules ask for, then those of its data. Called by:
 * header.c, index.c, decode.c. Calls: proto/evtx. Thread: the source's. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "proto/evtx/evtx.h"

#include <stdlib.h>
#include <string.h>

enum {
    METADATA_MAX_BYTES = 16384,
    TRAITS_MAX_BYTES = 1024,
    NAME_MAX_BYTES = 512,
    ITEMS_MAX_BYTES = 256, /* headers and padding of the items, and those of a fixed size */
    IN_COUNTED_STRING = 22,
    IN_ARRAY = 0x40,
};

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

/* ---- one event as a record ---- */

/* Bytes that describe an event's fields, and the fields' bytes: both grow together, within a record's size. */
typedef struct event_bytes {
    uint8_t metadata[METADATA_MAX_BYTES], traits[TRAITS_MAX_BYTES], payload[EA_ETL_RECORD_MAX_BYTES];
    uint32_t metadata_bytes, traits_bytes, payload_bytes;
    int cut; /* a field was cut, or left out */
} event_bytes;

struct ea_etl_evtx {
    uint8_t chunk[EA_EVTX_CHUNK_BYTES];
    ea_evtx_reader reader;
    ea_evtx_event event;
    event_bytes b;
};

/* What of a text fits into room, whole characters of UTF-8. */
static uint32_t fit(const char *s, size_t room) {
    size_t len = strlen(s);
    if (len <= room)
        return (uint32_t)len;
    while (room && ((unsigned char)s[room] & 0xC0) == 0x80)
        room--;
    return (uint32_t)room;
}

static uint32_t room_left(const event_bytes *b) {
    return EA_ETL_RECORD_MAX_BYTES - 80 - ITEMS_MAX_BYTES - b->traits_bytes - b->metadata_bytes - b->payload_bytes;
}

/* Room for a field's name and type, and for payload bytes: 1, or 0 and b->cut. */
static int add_name(event_bytes *b, const char *name, unsigned in, uint32_t payload_bytes) {
    uint32_t len = fit(name, NAME_MAX_BYTES), need = len + 2;
    if (need > METADATA_MAX_BYTES - b->metadata_bytes || need + (uint64_t)payload_bytes > room_left(b)) {
        b->cut = 1;
        return 0;
    }
    memcpy(b->metadata + b->metadata_bytes, name, len);
    b->metadata[b->metadata_bytes + len] = 0;
    b->metadata[b->metadata_bytes + len + 1] = (uint8_t)in;
    b->metadata_bytes += need;
    return 1;
}

static void add_payload(event_bytes *b, const void *data, uint32_t len_bytes) {
    if (len_bytes)
        memcpy(b->payload + b->payload_bytes, data, len_bytes);
    b->payload_bytes += len_bytes;
}

/* A number of this many bytes, zero-extended or cut to them. */
static void add_number(event_bytes *b, const char *name, unsigned in, uint64_t v, uint32_t len_bytes) {
    if (add_name(b, name, in, len_bytes))
        add_payload(b, &v, len_bytes); /* little-endian */
}

/* A string or bytes, after their u16 length. What is too long is cut. */
static void add_counted(event_bytes *b, const char *name, unsigned in, const uint8_t *data, uint32_t len_bytes) {
    uint32_t room = room_left(b), taken = fit(name, NAME_MAX_BYTES) + 4, len = len_bytes;
    uint8_t count[2];
    if (taken > room || len > room - taken) {
        len = taken > room ? 0 : (room - taken) & ~1u;
        b->cut = 1;
    }
    if (!add_name(b, name, in, 2 + len))
        return;
    ea_store16(count, (uint16_t)len);
    add_payload(b, count, sizeof count);
    add_payload(b, data, len);
}

static uint32_t utf16_bytes(const uint8_t *data, uint32_t len_bytes) {
    uint32_t n = 0;
    while (n + 2 <= len_bytes && ea_load16(data + n))
        n += 2;
    return n;
}

static void add_text(event_bytes *b, const char *name, const char *utf8) {
    uint8_t utf16[2 * NAME_MAX_BYTES];
    size_t need = ea_utf8_to_utf16(utf8, fit(utf8, NAME_MAX_BYTES), utf16, sizeof utf16);
    add_counted(b, name, IN_COUNTED_STRING, utf16, (uint32_t)(need < sizeof utf16 ? need : sizeof utf16));
}

/* Numbers of one width after their u16 count. */
static void add_array(event_bytes *b, const ea_evtx_field *f, unsigned in, uint32_t width) {
    uint32_t count = f->len_bytes / width, room = room_left(b), taken = fit(f->name, NAME_MAX_BYTES) + 4;
    uint8_t number[2];
    if (taken > room || count > (room - taken) / width) {
        count = taken > room ? 0 : (room - taken) / width;
        b->cut = 1;
    }
    if (!add_name(b, f->name, in | IN_ARRAY, 2 + count * width))
        return;
    ea_store16(number, (uint16_t)count);
    add_payload(b, number, sizeof number);
    add_payload(b, f->data, count * width);
}

/* Every value that is not of its type's width, and every other array, is text as the XML has it. */
static int add_as_text(event_bytes *b, const ea_evtx_field *f) {
    ea_text text;
    uint8_t *utf16 = NULL;
    ea_text_init(&text);
    ea_evtx_put_value(&text, f->type, f->data, f->len_bytes);
    size_t need = text.failed ? 0 : ea_utf8_to_utf16(text.data, text.len_bytes, NULL, 0);
    int rc = text.failed || !(utf16 = malloc(need + 1)) ? EA_ENOMEM : 0;
    if (!rc) {
        ea_utf8_to_utf16(text.data, text.len_bytes, utf16, need);
        add_counted(b, f->name, IN_COUNTED_STRING, utf16, (uint32_t)need);
    }
    free(utf16);
    ea_text_deinit(&text);
    return rc;
}

static int add_evtx_field(event_bytes *b, const ea_evtx_field *f) {
    unsigned of = f->type & (EA_EVTX_ARRAY - 1u);
    uint32_t width = ea_evtx_type_bytes((uint8_t)of);
    if (f->type == EA_EVTX_STRING)
        add_counted(b, f->name, IN_COUNTED_STRING, f->data, utf16_bytes(f->data, f->len_bytes));
    else if (f->type == EA_EVTX_BINARY)
        add_counted(b, f->name, of, f->data, f->len_bytes);
    else if (f->type == EA_EVTX_SIZE && (f->len_bytes == 4 || f->len_bytes == 8))
        add_number(b, f->name, EA_EVTX_HEX64, ea_load_uint(f->data, f->len_bytes), 8);
    else if (f->type == EA_EVTX_SID && f->len_bytes >= 8 && f->len_bytes == 8 + 4u * f->data[1]) {
        if (add_name(b, f->name, of, f->len_bytes))
            add_payload(b, f->data, f->len_bytes);
    } else if (width && f->type == of && f->len_bytes == width) {
        if (add_name(b, f->name, of, width))
            add_payload(b, f->data, width);
    } else if (width && f->type != of && f->len_bytes % width == 0)
        add_array(b, f, of, width);
    else
        return add_as_text(b, f);
    return 0;
}

/* The event's name is its channel and number, as in Security/4688. */
static int describe_event(event_bytes *b, const ea_evtx_event *e) {
    uint32_t len = fit(e->channel, NAME_MAX_BYTES), name_len = fit(e->provider_name, TRAITS_MAX_BYTES - 3);
    uint8_t *m = b->metadata;
    int rc = 0;
    b->cut = e->left_out != 0;
    b->payload_bytes = 0;
    m[2] = 0; /* no tag */
    memcpy(m + 3, e->channel, len);
    len += 3;
    m[len++] = '/';
    char digits[8];
    size_t n = 0;
    for (unsigned id = e->event_id; n == 0 || id; id /= 10)
        digits[n++] = (char)('0' + id % 10);
    while (n)
        m[len++] = (uint8_t)digits[--n];
    m[len++] = 0;
    b->metadata_bytes = len;
    b->traits_bytes = 3 + name_len;
    ea_store16(b->traits, (uint16_t)b->traits_bytes);
    memcpy(b->traits + 2, e->provider_name, name_len);
    b->traits[2 + name_len] = 0;

    add_number(b, "EventRecordID", EA_EVTX_U64, e->record_id, 8);
    add_text(b, "Channel", e->channel);
    add_text(b, "Provider_Name", e->provider_name);
    add_number(b, "EventID", EA_EVTX_U16, e->event_id, 2);
    add_text(b, "Computer", e->computer);
    if (e->qualifiers)
        add_number(b, "Qualifiers", EA_EVTX_U16, e->qualifiers, 2);
    for (size_t i = 0; i < e->field_count && !rc; i++)
        rc = add_evtx_field(b, &e->fields[i]);
    ea_store16(m, (uint16_t)b->metadata_bytes);
    return rc;
}

/* ---- a chunk as a buffer ---- */

static int put_record(const ea_evtx_event *e, const event_bytes *b, int64_t filetime, ea_etl_buffer *buffer,
                      ea_err *err) {
    ea_ext ext[4];
    ea_record r = {.provider = e->provider,
                   .keyword = e->keyword,
                   .id = e->event_id,
                   .task = e->task,
                   .version = e->version,
                   .level = e->level,
                   .opcode = e->opcode,
                   .flags = EA_FLAG_64_BIT_HEADER | EA_FLAG_EXTENDED_INFO,
                   .pointer_size = 8,
                   .header_type = EA_HEADER_EVENT64,
                   .time_raw = filetime,
                   .pid = e->pid,
                   .tid = e->tid,
                   .activity_id = e->activity_id,
                   .payload_bytes = (uint16_t)b->payload_bytes,
                   .payload = b->payload,
                   .ext = ext};
    if (!ea_guid_is_zero(&e->related_activity_id))
        ext[r.ext_count++] = (ea_ext){EA_EXT_RELATED_ACTIVITY_ID, 1, 16, e->related_activity_id.bytes};
    if (e->user && e->user_bytes <= 68)
        ext[r.ext_count++] = (ea_ext){EA_EXT_SID, 1, e->user_bytes, e->user};
    ext[r.ext_count++] = (ea_ext){EA_EXT_SCHEMA_TL, 1, b->metadata_bytes, b->metadata};
    ext[r.ext_count++] = (ea_ext){EA_EXT_PROV_TRAITS, 0, b->traits_bytes, b->traits};
    size_t need = buffer->used_bytes + EA_ETL_RECORD_MAX_BYTES + 8u, made;
    if (buffer->data_capacity < need) {
        size_t capacity = 2 * need;
        uint8_t *data = realloc(buffer->data, capacity + EA_ETL_SLACK_BYTES);
        if (!data)
            return ea_fail(err, EA_ENOMEM, "read an event log");
        buffer->data = data;
        buffer->data_capacity = capacity;
    }
    int rc = ea_etl_encode_record(&r, buffer->data + buffer->used_bytes, EA_ETL_RECORD_MAX_BYTES, &made, err);
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
        rc = describe_event(&x->b, &x->event);
    if (rc)
        return ea_fail(err, rc, "read %s", file->info.path);
    if (x->b.cut)
        bad_place(file, entry, options, 0, place->offset, 0,
                  "an event is too large for a record: its last fields are cut, or left out");
    return put_record(&x->event, &x->b, place->filetime, ret, err);
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
