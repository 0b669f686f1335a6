/* An .etl file being written: one open buffer a CPU, the trace header event, what is completed at the end.
 * Before it: encode.c. After it: a file. Thread: its owner's. Source: as layout.h says; the values that real files have
 * in fields which no documentation explains (flags 0x01 and 0x21 on the first and the last buffer, state 3, type 4 of
 * the header buffer) were read off traces of Windows 7 to 11. */
#include "etl_writer.h"
#include "layout.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_BUFFER_BYTES = 64 * 1024,
    SMALLEST_BUFFER_BYTES = 1024,
    RELOGGED_HEADER_BYTES = 512, /* the header buffer of a compressed file is a multiple of this on disk */
    FLAG_FIRST_OR_LAST = 0x01,
    STATE_IN_USE = 3,
    TYPE_HEADER = 4,
    FIELDS_BYTES_MAX = 288, /* of TRACE_LOGFILE_HEADER, the names behind it apart */
    ZONE_BYTES = 172,
    WINDOWS_8 = 6 << 8 | 2,
};

typedef struct cpu_buffer {
    uint8_t *data; /* EA_ETL_HEADER_BYTES of room for the header, then records; NULL until the CPU has any */
    uint32_t used_bytes;
    uint16_t logger;
    int64_t last_time;
} cpu_buffer;

struct ea_etl_writer {
    ea_file *file;
    char *path;
    uint64_t file_bytes;
    uint64_t record_count, buffer_count;
    uint32_t buffer_bytes;
    uint16_t compression;
    uint8_t has_cpu_index; /* Windows 8 and later */
    uint8_t keeps_header;  /* options.header was given */
    uint8_t pointer_size;
    uint64_t last_buffer_at; /* in the file */
    cpu_buffer *cpus;
    size_t cpu_count;
    uint8_t *record;  /* EA_ETL_RECORD_MAX_BYTES + 8 */
    uint8_t *on_disk; /* room for a compressed buffer */
};

/* ---- the trace header event ---- */

/* A name as UTF-16 with a NUL, or an empty one when it does not fit. Returns the bytes, at most capacity. */
static size_t put_name(const char *utf8, uint8_t *out, size_t capacity) {
    size_t n = utf8 ? ea_utf8_to_utf16(utf8, strlen(utf8), out, capacity - 2) : 0;
    if (n > capacity - 2)
        n = 0;
    ea_store16(out + n, 0);
    return n + 2;
}

/* TRACE_LOGFILE_HEADER and the two names. Returns its bytes; out has room for FIELDS_BYTES_MAX and the names. */
static uint32_t make_header_fields(const ea_etl_info *info, uint32_t buffer_bytes, uint8_t pointer_size, uint8_t *out,
                                   size_t capacity) {
    memset(out, 0, FIELDS_BYTES_MAX);
    ea_store32(out, buffer_bytes);
    ea_store32(out + 4, info->os_version);
    ea_store32(out + 8, info->os_build);
    ea_store32(out + 12, info->cpu_count);
    ea_store32(out + 24, info->timer_resolution);
    ea_store32(out + 28, info->max_file_size_mib);
    ea_store32(out + 32, info->log_file_mode);
    ea_store32(out + 40, info->start_buffers ? info->start_buffers : 1);
    ea_store32(out + 44, pointer_size);
    ea_store32(out + 52, info->cpu_mhz);
    uint32_t zone = 56 + 2u * pointer_size, tail = (zone + ZONE_BYTES + 7) & ~7u;
    ea_store32(out + zone, (uint32_t)info->bias_minutes);
    ea_store64(out + tail, (uint64_t)info->boot_filetime);
    ea_store64(out + tail + 8, (uint64_t)info->perf_frequency);
    ea_store64(out + tail + 16, (uint64_t)info->start_filetime);
    ea_store32(out + tail + 24, info->clock_type);
    size_t used = tail + 32;
    used += put_name(info->session_name, out + used, (capacity - used) / 2);
    used += put_name(info->log_file_name, out + used, capacity - used);
    return (uint32_t)used;
}

/* ---- buffers ---- */

/* A WMI_BUFFER_HEADER at p. used: valid bytes, decompressed; size: on disk. */
static void put_buffer_header(const ea_etl_writer *w, uint8_t *p, uint16_t cpu, const cpu_buffer *b, uint32_t size,
                              uint16_t flags, uint16_t type) {
    memset(p, 0, EA_ETL_HEADER_BYTES);
    ea_store32(p, size);
    ea_store32(p + 0x04, b->used_bytes);
    ea_store32(p + 0x08, b->used_bytes);
    ea_store64(p + 0x10, type == TYPE_HEADER ? 0 : (uint64_t)b->last_time);
    ea_store64(p + 0x18, w->buffer_count);
    if (w->has_cpu_index)
        ea_store16(p + 0x28, cpu);
    else
        p[0x28] = (uint8_t)cpu;
    ea_store16(p + 0x2a, b->logger);
    ea_store32(p + 0x2c, STATE_IN_USE);
    ea_store32(p + 0x30, b->used_bytes);
    ea_store16(p + 0x34, (uint16_t)(flags | (w->has_cpu_index ? EA_ETL_BUFFER_PROC_INDEX : 0)));
    ea_store16(p + 0x36, type);
}

static int append(ea_etl_writer *w, const uint8_t *data, uint32_t len_bytes, ea_err *err) {
    int rc = ea_file_write_at(w->file, w->file_bytes, data, len_bytes, err);
    if (rc)
        return rc;
    w->last_buffer_at = w->file_bytes;
    w->file_bytes += len_bytes;
    w->buffer_count++;
    return 0;
}

static int write_out(ea_etl_writer *w, uint16_t cpu, cpu_buffer *b, ea_err *err) {
    if (!b->data || b->used_bytes <= EA_ETL_HEADER_BYTES)
        return 0;
    int rc;
    if (w->compression) {
        size_t packed = ea_xpress_compress(b->data + EA_ETL_HEADER_BYTES, b->used_bytes - EA_ETL_HEADER_BYTES,
                                           w->on_disk + EA_ETL_HEADER_BYTES);
        uint32_t size = (uint32_t)(EA_ETL_HEADER_BYTES + packed);
        put_buffer_header(w, w->on_disk, cpu, b, size, EA_ETL_BUFFER_COMPRESSED, 0);
        rc = append(w, w->on_disk, size, err);
    } else {
        put_buffer_header(w, b->data, cpu, b, w->buffer_bytes, 0, 0);
        memset(b->data + b->used_bytes, 0xFF, w->buffer_bytes - b->used_bytes);
        rc = append(w, b->data, w->buffer_bytes, err);
    }
    if (!rc)
        b->used_bytes = EA_ETL_HEADER_BYTES;
    return rc;
}

/* The buffer of a CPU, made when it is the first time. */
static int buffer_of(ea_etl_writer *w, uint16_t cpu, cpu_buffer **ret, ea_err *err) {
    if (cpu >= w->cpu_count) {
        size_t count = (size_t)cpu + 1;
        cpu_buffer *cpus = realloc(w->cpus, count * sizeof *cpus);
        if (!cpus)
            return ea_fail(err, EA_ENOMEM, "write %s", w->path);
        memset(cpus + w->cpu_count, 0, (count - w->cpu_count) * sizeof *cpus);
        w->cpus = cpus;
        w->cpu_count = count;
    }
    cpu_buffer *b = &w->cpus[cpu];
    if (!b->data) {
        b->data = malloc(w->buffer_bytes);
        if (!b->data)
            return ea_fail(err, EA_ENOMEM, "write %s", w->path);
        b->used_bytes = EA_ETL_HEADER_BYTES;
    }
    *ret = b;
    return 0;
}

/* ---- the file ---- */

/* The first buffer holds the header event alone and goes to the file at once, so that a file that is cut off can be
 * read. */
static int write_header_buffer(ea_etl_writer *w, const ea_etl_writer_options *o, ea_err *err) {
    ea_record made = {0};
    const ea_record *header = o->header;
    uint8_t fields[FIELDS_BYTES_MAX + 2 * 2 * 1024];
    if (!header) {
        uint32_t len = make_header_fields(o->info, w->buffer_bytes, w->pointer_size, fields, sizeof fields);
        made = (ea_record){.header_type = w->pointer_size == 4 ? EA_HEADER_SYSTEM32 : EA_HEADER_SYSTEM64,
                           .header_word = 2,
                           .tid = o->tid,
                           .pid = o->pid,
                           .time_raw = o->start_raw,
                           .payload = fields,
                           .payload_bytes = (uint16_t)len,
                           .logger = o->info->logger};
        header = &made;
    }
    size_t n;
    int rc = ea_etl_encode_record(header, w->record, EA_ETL_RECORD_MAX_BYTES, &n, err);
    if (rc)
        return rc;
    uint32_t padded = (uint32_t)(n + 7) & ~7u;
    uint32_t size = w->compression ? (EA_ETL_HEADER_BYTES + padded + RELOGGED_HEADER_BYTES - 1) /
                                         RELOGGED_HEADER_BYTES * RELOGGED_HEADER_BYTES
                                   : w->buffer_bytes;
    if (EA_ETL_HEADER_BYTES + padded > w->buffer_bytes)
        return ea_fail(err, EA_ELIMIT, "write %s: the trace header event takes %zu bytes, a buffer has %u", w->path, n,
                       w->buffer_bytes);
    uint8_t *p = malloc(size);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "write %s", w->path);
    cpu_buffer b = {
        .used_bytes = EA_ETL_HEADER_BYTES + padded, .logger = header->logger, .last_time = header->time_raw};
    memset(p, 0xFF, size);
    put_buffer_header(w, p, header->cpu, &b, size, FLAG_FIRST_OR_LAST, TYPE_HEADER);
    memset(p + EA_ETL_HEADER_BYTES, 0, padded);
    memcpy(p + EA_ETL_HEADER_BYTES, w->record, n);
    rc = append(w, p, size, err);
    free(p);
    w->record_count = 1;
    return rc;
}

int ea_etl_writer_create(ea_etl_writer **ret, const char *path, const ea_etl_writer_options *o, ea_err *err) {
    const ea_etl_info *info = o->info;
    uint32_t buffer_bytes = info->buffer_size_bytes ? info->buffer_size_bytes : DEFAULT_BUFFER_BYTES;
    uint32_t pointer_size = info->pointer_size ? info->pointer_size : 8;
    if (buffer_bytes < SMALLEST_BUFFER_BYTES || buffer_bytes > EA_ETL_MAX_BUFFER_BYTES || buffer_bytes % 512 != 0)
        return ea_fail(err, EA_EINVAL, "write %s: buffers of %u bytes; expected a multiple of 512, at least %d", path,
                       buffer_bytes, SMALLEST_BUFFER_BYTES);
    if (pointer_size != 4 && pointer_size != 8)
        return ea_fail(err, EA_EINVAL, "write %s: pointers of %u bytes; expected 4 or 8", path, pointer_size);
    if (info->compression != EA_ETL_NONE && info->compression != EA_ETL_XPRESS)
        return ea_fail(err, EA_EUNSUPPORTED, "write %s: compression %u; written are 0 (none) and 3 (XPRESS)", path,
                       info->compression);
    ea_etl_writer *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    size_t path_bytes = strlen(path) + 1;
    w->buffer_bytes = buffer_bytes;
    w->pointer_size = (uint8_t)pointer_size;
    w->compression = info->compression;
    w->keeps_header = o->header != NULL;
    w->has_cpu_index = ((info->os_version & 0xFF) << 8 | (info->os_version >> 8 & 0xFF)) >= WINDOWS_8;
    w->path = malloc(path_bytes);
    w->record = malloc(EA_ETL_RECORD_MAX_BYTES + 8);
    w->on_disk = w->compression ? malloc(EA_ETL_HEADER_BYTES + ea_xpress_bound(buffer_bytes)) : NULL;
    int rc = w->path && w->record && (w->on_disk || !w->compression) ? 0 : ea_fail(err, EA_ENOMEM, "write %s", path);
    if (!rc) {
        memcpy(w->path, path, path_bytes);
        rc = ea_file_open(&w->file, path, EA_OPEN_CREATE, err);
    }
    if (!rc)
        rc = write_header_buffer(w, o, err);
    if (rc) {
        ea_etl_writer_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int ea_etl_writer_add(ea_etl_writer *w, const ea_record *r, ea_err *err) {
    size_t n;
    int rc = ea_etl_encode_record(r, w->record, EA_ETL_RECORD_MAX_BYTES, &n, err);
    if (rc)
        return rc;
    uint32_t padded = (uint32_t)(n + 7) & ~7u;
    if (padded > w->buffer_bytes - EA_ETL_HEADER_BYTES)
        return ea_fail(err, EA_ELIMIT, "write %s: a record of %zu bytes, a buffer has %u", w->path, n, w->buffer_bytes);
    if (!w->has_cpu_index && r->cpu > 0xFF)
        return ea_fail(err, EA_EINVAL, "write %s: CPU %u; before Windows 8 the number is one byte", w->path, r->cpu);
    cpu_buffer *b;
    rc = buffer_of(w, r->cpu, &b, err);
    if (!rc && b->used_bytes > EA_ETL_HEADER_BYTES &&
        (padded > w->buffer_bytes - b->used_bytes || b->logger != r->logger))
        rc = write_out(w, r->cpu, b, err);
    if (rc)
        return rc;
    memset(w->record + n, 0, padded - n);
    memcpy(b->data + b->used_bytes, w->record, padded);
    b->used_bytes += padded;
    b->logger = r->logger;
    b->last_time = r->time_raw;
    w->record_count++;
    return 0;
}

int ea_etl_writer_flush(ea_etl_writer *w, uint16_t cpu, ea_err *err) {
    return cpu < w->cpu_count ? write_out(w, cpu, &w->cpus[cpu], err) : 0;
}

int ea_etl_writer_finish(ea_etl_writer *w, const ea_etl_writer_end *end, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < w->cpu_count; i++)
        rc = write_out(w, (uint16_t)i, &w->cpus[i], err);
    if (rc)
        return rc;
    /* the last buffer says so */
    uint8_t flags[2];
    size_t n;
    rc = ea_file_read_at(w->file, w->last_buffer_at + 0x34, flags, 2, &n, err);
    if (!rc) {
        ea_store16(flags, (uint16_t)(ea_load16(flags) | FLAG_FIRST_OR_LAST));
        rc = ea_file_write_at(w->file, w->last_buffer_at + 0x34, flags, 2, err);
    }
    if (rc || w->keeps_header)
        return rc;
    /* in the header event, which stands behind the first buffer's header: 16 end time, 36 buffers, 48 events lost; the
     * buffers lost stand behind the clock type */
    const uint64_t fields = EA_ETL_HEADER_BYTES + 32;
    uint32_t tail = (56 + 2u * w->pointer_size + ZONE_BYTES + 7) & ~7u, buffers = (uint32_t)w->buffer_count;
    rc = ea_file_write_at(w->file, fields + 16, &end->end_filetime, 8, err);
    if (!rc)
        rc = ea_file_write_at(w->file, fields + 36, &buffers, 4, err);
    if (!rc)
        rc = ea_file_write_at(w->file, fields + 48, &end->events_lost, 4, err);
    if (!rc)
        rc = ea_file_write_at(w->file, fields + tail + 28, &end->buffers_lost, 4, err);
    return rc;
}

void ea_etl_writer_destroy(ea_etl_writer *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->cpu_count; i++)
        free(w->cpus[i].data);
    ea_file_close(w->file);
    free(w->cpus);
    free(w->path);
    free(w->record);
    free(w->on_disk);
    free(w);
}

uint64_t ea_etl_writer_records(const ea_etl_writer *w) {
    return w->record_count;
}
uint64_t ea_etl_writer_buffers(const ea_etl_writer *w) {
    return w->buffer_count;
}
