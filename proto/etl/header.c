/* The trace header event: the facts about a file that the file itself states.
 * Input: the start of a file. Called by: index.c, merge.c; ea_etl_file_info. Called for writing by: etl_writer.c.
 * Thread: the source's, the writer's. Source: TRACE_LOGFILE_HEADER (evntrace.h); its 64-bit layout has 8-byte pointers
 * at 56 and 64, which moves the fields after them (microsoft/perfview KernelTraceEventParser.cs,
 * "EventTraceHeaderTraceData"); checked on real traces. */
#include "proto/etl/layout.h"
#include "proto/evtx/evtx.h"

#include <stdlib.h>
#include <string.h>

enum {
    PREFIX_BYTES = 32768, /* of the first buffer: the header event with two names of 1024 characters fits well */
    EVENT_AT = EA_ETL_HEADER_BYTES,
    FIELDS_AT = EVENT_AT + 32, /* after a SYSTEM header */
    ZONE_BYTES = 172,          /* TIME_ZONE_INFORMATION */
    DAY_SECONDS = 86400,
};

/* Offsets of the fields after the pointers, from FIELDS_AT. */
typedef struct tail_layout {
    unsigned zone, boot, frequency, start, clock, lost, end;
} tail_layout;

static tail_layout header_layout_of(unsigned pointer_size) {
    tail_layout l;
    l.zone = 56 + 2 * pointer_size;
    l.boot = (l.zone + ZONE_BYTES + 7) & ~7u;
    l.frequency = l.boot + 8;
    l.start = l.boot + 16;
    l.clock = l.boot + 24;
    l.lost = l.boot + 28;
    l.end = l.boot + 32;
    return l;
}

/* How well the fields fit a layout: this chooses between the two layouts when the pointer size itself is damaged. */
static unsigned score_layout(const uint8_t *fields, unsigned pointer_size) {
    const int64_t year_1990 = 122726448000000000, year_2200 = 188996544000000000;
    tail_layout l = header_layout_of(pointer_size);
    int64_t frequency = (int64_t)ea_load64(fields + l.frequency), start = (int64_t)ea_load64(fields + l.start);
    uint32_t clock = ea_load32(fields + l.clock);
    return (clock >= 1 && clock <= 3) + (frequency > 0 && frequency < INT64_C(100000000000)) +
           (start > year_1990 && start < year_2200);
}

static char *header_take_name(const uint8_t *data, size_t *at, size_t to) {
    ea_text t;
    size_t end = *at;
    while (end + 2 <= to && ea_load16(data + end) != 0)
        end += 2;
    ea_text_init(&t);
    ea_text_utf16(&t, data + *at, end - *at);
    ea_text_str(&t, "");
    *at = end + 2 <= to ? end + 2 : to;
    if (t.failed) {
        ea_text_deinit(&t);
        return NULL;
    }
    if (!t.data)
        return calloc(1, 1);
    return t.data; /* malloc'd; the caller owns it now */
}

static void make_clock(ea_etl_info *info, int64_t header_raw) {
    ea_clock *c = &info->clock;
    c->type = info->clock_type;
    c->base_raw = header_raw;
    c->base_utc_ns = ea_filetime_to_utc_ns(info->start_filetime);
    switch (info->clock_type) {
    case EA_CLOCK_SYSTEM_TIME:
        c->frequency = 10000000;
        c->base_raw = INT64_C(116444736000000000); /* 1970 as a FILETIME: no rounding anywhere */
        c->base_utc_ns = 0;
        break;
    case EA_CLOCK_CPU_CYCLES:
        c->frequency = (uint64_t)info->cpu_mhz * 1000000;
        break;
    default:
        c->frequency = info->perf_frequency > 0 ? (uint64_t)info->perf_frequency : 0;
        break;
    }
}

/* data: the first buffer's start, decompressed. Fills everything of info that the header event says; 0 when data do not
 * look like one. Some damage is forgiven: of marker, buffer size and version two have to be right. */
static int parse_event(ea_etl_file *file, const uint8_t *data, size_t data_bytes, ea_err *err) {
    ea_etl_info *info = &file->info;
    ea_etl_buffer_header h;
    if (data_bytes < FIELDS_AT + header_layout_of(8).end)
        return 0;
    ea_etl_parse_buffer_header(data, &h);
    const uint8_t *event = data + EVENT_AT, *fields = data + FIELDS_AT;
    unsigned type = event[2], major = fields[4];
    uint32_t says_size = ea_load32(fields);
    int marker_good =
        event[3] == 0xc0 && (type == EA_HEADER_SYSTEM32 || type == EA_HEADER_SYSTEM64) && ea_load16(event + 6) == 0;
    int size_good = says_size >= 512 && says_size <= EA_ETL_MAX_BUFFER_BYTES && says_size % 512 == 0;
    int version_good = major >= 5 && major <= 10 && fields[5] <= 3;
    int buffer_good = ea_etl_score_buffer_header(&h) >= EA_ETL_HEADER_LIKELY;
    if (marker_good + size_good + version_good + buffer_good < 3)
        return 0;

    uint32_t pointer_size = ea_load32(fields + 44);
    unsigned narrow = score_layout(fields, 4), wide = score_layout(fields, 8);
    if ((pointer_size != 4 && pointer_size != 8) || (pointer_size == 4 ? narrow + 1 < wide : wide + 1 < narrow))
        pointer_size = narrow > wide ? 4 : 8;
    tail_layout l = header_layout_of(pointer_size);

    info->buffer_size_bytes = size_good                                                        ? says_size
                              : h.size_bytes >= 512 && h.size_bytes <= EA_ETL_MAX_BUFFER_BYTES ? h.size_bytes
                                                                                               : 65536;
    info->os_version = ea_load32(fields + 4);
    info->os_build = ea_load32(fields + 8);
    info->cpu_count = ea_load32(fields + 12);
    info->end_filetime = (int64_t)ea_load64(fields + 16);
    info->timer_resolution = ea_load32(fields + 24);
    info->max_file_size_mib = ea_load32(fields + 28);
    info->log_file_mode = ea_load32(fields + 32);
    info->buffers_written = ea_load32(fields + 36);
    info->start_buffers = ea_load32(fields + 40);
    info->pointer_size = pointer_size;
    info->events_lost = ea_load32(fields + 48);
    info->cpu_mhz = ea_load32(fields + 52);
    info->bias_minutes = (int32_t)ea_load32(fields + l.zone);
    memcpy(info->time_zone, fields + l.zone, sizeof info->time_zone);
    for (unsigned i = 0; i < 2; i++)
        info->name_pointers[i] = ea_load_uint(fields + 56 + (size_t)i * pointer_size, pointer_size);
    info->boot_filetime = (int64_t)ea_load64(fields + l.boot);
    info->perf_frequency = (int64_t)ea_load64(fields + l.frequency);
    info->start_filetime = (int64_t)ea_load64(fields + l.start);
    info->clock_type = ea_load32(fields + l.clock);
    info->buffers_lost = ea_load32(fields + l.lost);
    if (info->clock_type < EA_CLOCK_QPC || info->clock_type > EA_CLOCK_CPU_CYCLES)
        info->clock_type = EA_CLOCK_QPC; /* 0, "raw", is the performance counter too */
    uint16_t state = (uint16_t)h.state;
    info->compression = state >= EA_ETL_LZNT1 && state <= EA_ETL_XPRESS_HUFF ? state : EA_ETL_XPRESS;
    make_clock(info, (int64_t)ea_load64(event + 16));

    size_t at = FIELDS_AT + l.end, to = EVENT_AT + ea_load16(event + 4);
    if (to > data_bytes)
        to = data_bytes;
    if (at > to)
        at = to;
    info->session_name = header_take_name(data, &at, to);
    info->log_file_name = header_take_name(data, &at, to);
    if (!info->session_name || !info->log_file_name)
        return ea_fail(err, EA_ENOMEM, "read %s", info->path);
    info->logger = h.logger;
    file->scan_buffers = (info->log_file_mode & EA_ETL_MODE_NO_PER_PROCESSOR) != 0;
    uint64_t ticks = info->clock.frequency ? info->clock.frequency : 10000000;
    file->window_raw = (int64_t)(ticks < INT64_MAX / DAY_SECONDS ? ticks * DAY_SECONDS : INT64_MAX);
    return 1;
}

int ea_etl_read_header(ea_etl_file *file, ea_err *err) {
    ea_etl_info *info = &file->info;
    size_t got;
    uint8_t *data = malloc(PREFIX_BYTES + EA_ETL_SLACK_BYTES);
    if (!data)
        return ea_fail(err, EA_ENOMEM, "read %s", info->path);
    int rc = ea_file_read_at(file->handle, 0, data, PREFIX_BYTES, &got, err);
    if (!rc && ea_evtx_is_log(data, got)) {
        rc = ea_etl_read_evtx_header(file, err);
    } else if (!rc) {
        rc = parse_event(file, data, got, err);
        if (rc == 0) {
            if (got == 0)
                rc = ea_fail(err, EA_EFORMAT, "read %s: expected an .etl trace, the file is empty", info->path);
            else if (got < FIELDS_AT + header_layout_of(8).end)
                rc = ea_fail(err, EA_EFORMAT,
                             "read %s: expected an .etl trace, whose header takes 384 bytes; the file has %zu",
                             info->path, got);
            else
                rc = ea_fail(err, EA_EFORMAT,
                             "read %s: expected an .etl trace (a buffer header, then a trace header event at byte 72), "
                             "found 0x%08x 0x%08x there",
                             info->path, ea_load32(data + EVENT_AT), ea_load32(data + EVENT_AT + 4));
        } else if (rc > 0) {
            rc = 0;
        }
    }
    free(data);
    return rc;
}

/* A name as UTF-16 with a NUL, or an empty one when it does not fit. Returns the bytes, at most capacity. */
static size_t header_put_name(const char *utf8, uint8_t *out, size_t capacity) {
    size_t n = utf8 ? ea_utf8_to_utf16(utf8, strlen(utf8), out, capacity - 2) : 0;
    if (n > capacity - 2)
        n = 0;
    ea_store16(out + n, 0);
    return n + 2;
}

uint32_t ea_etl_put_info(const ea_etl_info *info, uint8_t *out, size_t capacity) {
    tail_layout l = header_layout_of(info->pointer_size);
    if (capacity < l.end + 4)
        return 0;
    memset(out, 0, l.end);
    ea_store32(out, info->buffer_size_bytes);
    ea_store32(out + 4, info->os_version);
    ea_store32(out + 8, info->os_build);
    ea_store32(out + 12, info->cpu_count);
    ea_store64(out + 16, (uint64_t)info->end_filetime);
    ea_store32(out + 24, info->timer_resolution);
    ea_store32(out + 28, info->max_file_size_mib);
    ea_store32(out + 32, info->log_file_mode);
    ea_store32(out + 36, info->buffers_written);
    ea_store32(out + 40, info->start_buffers);
    ea_store32(out + 44, info->pointer_size);
    ea_store32(out + 48, info->events_lost);
    ea_store32(out + 52, info->cpu_mhz);
    for (unsigned i = 0; i < 2; i++) /* little-endian: the low bytes */
        memcpy(out + 56 + (size_t)i * info->pointer_size, &info->name_pointers[i], info->pointer_size);
    memcpy(out + l.zone, info->time_zone, sizeof info->time_zone);
    ea_store32(out + l.zone, (uint32_t)info->bias_minutes);
    ea_store64(out + l.boot, (uint64_t)info->boot_filetime);
    ea_store64(out + l.frequency, (uint64_t)info->perf_frequency);
    ea_store64(out + l.start, (uint64_t)info->start_filetime);
    ea_store32(out + l.clock, info->clock_type);
    ea_store32(out + l.lost, info->buffers_lost);
    size_t used = l.end;
    used += header_put_name(info->session_name, out + used, (capacity - used) / 2);
    used += header_put_name(info->log_file_name, out + used, capacity - used);
    return (uint32_t)used;
}

void ea_etl_patch_info(const ea_etl_info *info, uint8_t *fields, size_t len_bytes) {
    tail_layout l = header_layout_of(info->pointer_size);
    if (len_bytes < 40)
        return;
    ea_store32(fields, info->buffer_size_bytes);
    ea_store64(fields + 16, (uint64_t)info->end_filetime);
    ea_store32(fields + 32, info->log_file_mode);
    ea_store32(fields + 36, info->buffers_written);
    if (len_bytes < l.end)
        return;
    ea_store32(fields + 48, info->events_lost);
    ea_store32(fields + l.lost, info->buffers_lost);
}

int ea_etl_read_header_record(ea_etl_file *file, uint8_t *data, ea_record *ret, ea_err *err) {
    ea_etl_buffer_header h;
    size_t got;
    int rc = ea_file_read_at(file->handle, 0, data, PREFIX_BYTES, &got, err);
    if (rc)
        return rc;
    uint32_t n = got > EVENT_AT ? ea_etl_record_bytes(data + EVENT_AT, (uint32_t)(got - EVENT_AT)) : 0;
    const uint8_t *event = data + EVENT_AT;
    if (!n || (event[2] != EA_HEADER_SYSTEM32 && event[2] != EA_HEADER_SYSTEM64) || ea_load16(event + 6) != 0 ||
        n < FIELDS_AT - EVENT_AT + header_layout_of(file->info.pointer_size).end)
        return ea_fail(err, EA_EFORMAT, "read %s: its header event is damaged", file->info.path);
    ea_etl_parse_buffer_header(data, &h);
    ea_etl_fill_record(ret, NULL, event, n, (uint8_t)file->info.pointer_size); /* a SYSTEM header has no items */
    ret->time_raw = ea_etl_record_time(event, 0);
    ret->cpu = h.cpu;
    ret->logger = h.logger;
    ret->position = EVENT_AT;
    return 0;
}

int ea_etl_is_header_record(const ea_record *r) {
    return r->position == EVENT_AT && r->hook_id == 0 &&
           (r->header_type == EA_HEADER_SYSTEM32 || r->header_type == EA_HEADER_SYSTEM64);
}

int ea_etl_reread_header(ea_etl_file *file, int *ret_over, ea_err *err) {
    uint8_t data[FIELDS_AT + 512];
    tail_layout l = header_layout_of(file->info.pointer_size);
    size_t got;
    int rc = ea_file_read_at(file->handle, 0, data, sizeof data, &got, err);
    if (rc)
        return rc;
    const uint8_t *fields = data + FIELDS_AT;
    if (got < FIELDS_AT + l.end || (int64_t)ea_load64(fields + l.start) != file->info.start_filetime)
        return ea_fail(err, EA_ECORRUPT, "follow %s: the file is another one now", file->info.path);
    file->info.end_filetime = (int64_t)ea_load64(fields + 16);
    file->info.buffers_written = ea_load32(fields + 36);
    file->info.events_lost = ea_load32(fields + 48);
    file->info.buffers_lost = ea_load32(fields + l.lost);
    *ret_over = file->info.end_filetime != 0;
    return 0;
}

void ea_etl_info_deinit(ea_etl_info *info) {
    free(info->path);
    free(info->session_name);
    free(info->log_file_name);
}
