/* An .etl file being written: one open buffer a CPU, the trace header event, what is completed at the end. Input:
 * etl_encode.c. Output: a file. Thread: its owner's. Source: as layout.h says; the values that real files have in
 * fields which no documentation explains were read off traces of Windows 7 to 11:
 * - State is 3 in every buffer, type 4 in the first one; the first and the last buffer have flag 1. The first buffer of
 *   a merged file has the compression as its state.
 * - CurrentOffset runs on: by the record that did not fit, or by a buffer's size when it was flushed.
 * - The header buffer of a session repeats its valid length in SavedOffset and CurrentOffset; Windows 7 leaves the
 *   former 0. In merged files SavedOffset is where the header event ends, and CurrentOffset is 0.
 * - Merged files have the time of a flush as FILETIME. */
#include "proto/etl/etl_writer.h"
#include "proto/base/text.h"
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_BUFFER_BYTES = 64 * 1024,
    SMALLEST_BUFFER_BYTES = 1024,
    SYSTEM_BYTES = 32,         /* the header event's header */
    MERGED_HEADER_BYTES = 512, /* the header buffer of a compressed file is a multiple of this on disk */
    STATE_IN_USE = 3,
    TYPE_HEADER = 4,
    ALIGNMENT = 8, /* before Windows 8 it follows the CPU's number */
    WINDOWS_8 = 6 << 8 | 2,
    BUILD_8 = 9200,
    BUILD_1809 = 17763, /* from here on a partition is named */
    HOOK_MASKS = 5,
    HOOK_PARTITION = 0x50,
    PARTITION_BYTES = 48,
    MASK_COUNT = 8,
};

typedef struct cpu_buffer {
    uint8_t *data; /* EA_ETL_HEADER_BYTES of room for the header, then records; NULL until the CPU has any */
    uint32_t used_bytes;
    uint16_t logger;
    uint16_t lost; /* flags of losses */
    int64_t last_time;
} cpu_buffer;

/* A buffer in its form on disk, waiting to be written. */
typedef struct held_buffer {
    uint8_t *data;
    uint32_t len_bytes;
} held_buffer;

struct ea_etl_writer {
    ea_file *file;
    int borrows_file;
    char *path;
    uint64_t file_bytes;
    uint64_t record_count, buffer_count;
    ea_etl_info info; /* its names are copies */
    int64_t start_raw;
    size_t (*compress)(const uint8_t *in, size_t in_bytes, uint8_t *out); /* NULL: buffers stay plain */
    uint8_t has_cpu_index;                                                /* Windows 8 and later */
    uint8_t keeps_header;                                                 /* options.header stays unchanged */
    uint32_t given_bytes; /* of the payload of options.header, which is completed; 0: a header event made from info */
    uint8_t is_merged;
    uint64_t last_buffer_at; /* in the file */
    cpu_buffer *cpus;
    size_t cpu_count;
    uint8_t *record;  /* EA_ETL_RECORD_MAX_BYTES + 8 */
    uint8_t *on_disk; /* room for a compressed buffer */
    held_buffer *held;
    size_t held_count, held_max;
    uint64_t random;
};

/* ---- buffers ---- */

static int etl_writer_append(ea_etl_writer *w, const uint8_t *data, uint32_t len_bytes, ea_err *err) {
    int rc = ea_file_write_at(w->file, w->file_bytes, data, len_bytes, err);
    if (rc)
        return rc;
    w->last_buffer_at = w->file_bytes;
    w->file_bytes += len_bytes;
    return 0;
}

/* One of the held buffers goes to the file; which is chance. */
static int write_held_buffer(ea_etl_writer *w, ea_err *err) {
    w->random ^= w->random << 13; /* xorshift64 */
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    held_buffer *h = &w->held[w->random % w->held_count];
    int rc = etl_writer_append(w, h->data, h->len_bytes, err);
    free(h->data);
    *h = w->held[--w->held_count];
    return rc;
}

/* A buffer that is done: into the file, or among the held ones. */
static int put_buffer(ea_etl_writer *w, const uint8_t *data, uint32_t len_bytes, ea_err *err) {
    int rc = 0;
    w->buffer_count++;
    if (!w->held_max)
        return etl_writer_append(w, data, len_bytes, err);
    if (w->held_count == w->held_max && (rc = write_held_buffer(w, err)))
        return rc;
    uint8_t *copy = malloc(len_bytes);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "write %s", w->path);
    memcpy(copy, data, len_bytes);
    w->held[w->held_count++] = (held_buffer){copy, len_bytes};
    return 0;
}

static uint64_t ticks_per_second(const ea_etl_info *info) {
    return info->clock_type == EA_CLOCK_SYSTEM_TIME  ? 10000000
           : info->clock_type == EA_CLOCK_CPU_CYCLES ? (uint64_t)info->cpu_mhz * 1000000
                                                     : (uint64_t)info->perf_frequency;
}

/* When a buffer was flushed, as its header has it. */
static int64_t flush_time(const ea_etl_writer *w, int64_t raw) {
    uint64_t ticks = ticks_per_second(&w->info);
    if (!w->is_merged || !ticks)
        return raw;
    const ea_clock clock = {.type = EA_CLOCK_QPC,
                            .frequency = ticks,
                            .base_raw = w->start_raw,
                            .base_utc_ns = ea_filetime_to_utc_ns(w->info.start_filetime)};
    return ea_utc_ns_to_filetime(ea_clock_to_utc_ns(&clock, raw));
}

/* beyond: by how much CurrentOffset ran over the valid length. */
static int etl_writer_write_out(ea_etl_writer *w, uint16_t cpu, cpu_buffer *b, uint32_t beyond, ea_err *err) {
    if (!b->data || b->used_bytes <= EA_ETL_HEADER_BYTES)
        return 0;
    uint8_t *data = b->data;
    ea_etl_buffer_header h = {.size_bytes = w->info.buffer_size_bytes,
                              .saved_offset = b->used_bytes,
                              .current_offset = b->used_bytes + beyond,
                              .flush_time = flush_time(w, b->last_time),
                              .sequence = (int64_t)w->buffer_count,
                              .cpu = cpu,
                              .alignment = w->has_cpu_index ? 0 : ALIGNMENT,
                              .logger = b->logger,
                              .state = STATE_IN_USE,
                              .used_bytes = b->used_bytes,
                              .flags = (uint16_t)(b->lost | (w->has_cpu_index ? EA_ETL_BUFFER_PROC_INDEX : 0))};
    if (w->compress) {
        data = w->on_disk;
        h.flags |= EA_ETL_BUFFER_COMPRESSED;
        h.size_bytes = (uint32_t)(EA_ETL_HEADER_BYTES + w->compress(b->data + EA_ETL_HEADER_BYTES,
                                                                    b->used_bytes - EA_ETL_HEADER_BYTES,
                                                                    w->on_disk + EA_ETL_HEADER_BYTES));
    } else {
        memset(data + b->used_bytes, 0xFF, h.size_bytes - b->used_bytes);
    }
    ea_etl_put_buffer_header(data, &h);
    int rc = put_buffer(w, data, h.size_bytes, err);
    if (!rc) {
        b->used_bytes = EA_ETL_HEADER_BYTES;
        b->lost = 0;
    }
    return rc;
}

/* The buffer of a CPU, made when it is the first time. */
static int buffer_of(ea_etl_writer *w, uint16_t cpu, cpu_buffer **ret, ea_err *err) {
    if (!w->has_cpu_index && cpu > 0xFF)
        return ea_fail(err, EA_EINVAL, "write %s: CPU %u; before Windows 8 the number is one byte", w->path, cpu);
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
        b->data = malloc(w->info.buffer_size_bytes);
        if (!b->data)
            return ea_fail(err, EA_ENOMEM, "write %s", w->path);
        b->used_bytes = EA_ETL_HEADER_BYTES;
    }
    *ret = b;
    return 0;
}

/* ---- records that a session writes about itself ---- */

static ea_record own_record(const ea_etl_writer *w, uint8_t type64, uint16_t hook_id, int64_t time_raw) {
    uint8_t type = (uint8_t)(w->info.pointer_size == 8 ? type64 : type64 - 1);
    return (ea_record){
        .header_type = type, .header_word = 2, .hook_id = hook_id, .time_raw = time_raw, .logger = w->info.logger};
}

/* The group masks of a kernel session that begins, by which it says what it records: all zero, as in traces of Windows
 * 8 to 11 before the rundown; and the version of the kernel's events, which grew with Windows. */
static size_t put_masks(const ea_etl_writer *w, uint8_t *out) {
    static const struct {
        uint32_t build, version;
    } versions[] = {{26100, 0x55}, {19041, 0x50}, {18362, 0x46}, {BUILD_8, 0x2a}};

    size_t i = 0, n = sizeof versions / sizeof *versions;
    memset(out, 0, (size_t)4 * MASK_COUNT);
    if (!w->has_cpu_index)
        return (size_t)4 * MASK_COUNT; /* Windows 7 has the masks alone */
    while (i + 1 < n && w->info.os_build < versions[i].build)
        i++;
    ea_store32(out + (size_t)4 * MASK_COUNT, versions[i].version);
    return (size_t)4 * MASK_COUNT + 4;
}

/* Writes a record at p + *used. *used becomes the place of the next record. */
static int put_own(ea_etl_writer *w, const ea_record *r, uint8_t *p, size_t capacity, size_t *used, ea_err *err) {
    size_t n;
    int rc = ea_etl_encode_record(r, p + *used, capacity - *used, &n, err);
    if (rc)
        return rc;
    size_t end = (*used + n + 7) & ~(size_t)7;
    if (end > capacity)
        return ea_fail(err, EA_ELIMIT, "write %s: no room for the trace header's records", w->path);
    memset(p + *used + n, 0, end - *used - n);
    *used = end;
    w->record_count++;
    return 0;
}

/* ---- the file ---- */

/* Writes the header event and the records after it at p. *ret_first: bytes of the header event. */
static int put_header_records(ea_etl_writer *w, const ea_etl_writer_options *o, uint8_t *p, size_t capacity,
                              size_t *ret_first, size_t *ret_used, ea_err *err) {
    uint8_t fields[EA_ETL_FIELDS_MAX_BYTES];
    static const uint8_t no_partition[PARTITION_BYTES];
    size_t used = 0;
    int rc;
    if (o->header) {
        rc = put_own(w, o->header, p, capacity, &used, err);
        if (!rc && o->completes_header)
            ea_etl_patch_info(&w->info, p + SYSTEM_BYTES, o->header->payload_bytes);
        *ret_first = *ret_used = used;
        return rc;
    }
    ea_record r = own_record(w, EA_HEADER_SYSTEM64, 0, o->start_raw);
    r.pid = o->pid;
    r.tid = o->tid;
    r.kernel_time = o->kernel_time;
    r.user_time = o->user_time;
    r.payload = fields;
    r.payload_bytes = (uint16_t)ea_etl_put_info(&w->info, fields, sizeof fields);
    rc = put_own(w, &r, p, capacity, &used, err);
    *ret_first = used;
    if (!rc && o->session == EA_ETL_KERNEL_SESSION) {
        r.hook_id = HOOK_MASKS;
        r.payload_bytes = (uint16_t)put_masks(w, fields);
        rc = put_own(w, &r, p, capacity, &used, err);
    }
    if (!rc && o->session != EA_ETL_HEADER_ALONE && w->info.os_build >= BUILD_1809 && w->has_cpu_index) {
        r.hook_id = HOOK_PARTITION;
        r.payload = no_partition;
        r.payload_bytes = sizeof no_partition;
        rc = put_own(w, &r, p, capacity, &used, err);
    }
    *ret_used = used;
    return rc;
}

/* The first buffer goes to the file at once, so that a file that is cut off can be read. */
static int write_header_buffer(ea_etl_writer *w, const ea_etl_writer_options *o, ea_err *err) {
    size_t first = 0, used = 0, capacity = w->info.buffer_size_bytes - EA_ETL_HEADER_BYTES;
    uint8_t *p = malloc(w->info.buffer_size_bytes);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "write %s", w->path);
    memset(p, 0xFF, w->info.buffer_size_bytes);
    int rc = put_header_records(w, o, p + EA_ETL_HEADER_BYTES, capacity, &first, &used, err);
    uint32_t valid = (uint32_t)(EA_ETL_HEADER_BYTES + used);
    ea_etl_buffer_header h = {.size_bytes = w->info.buffer_size_bytes,
                              .saved_offset = valid,
                              .current_offset = valid,
                              .cpu = o->header ? o->header->cpu : 0,
                              .alignment = w->has_cpu_index ? 0 : ALIGNMENT,
                              .logger = o->header ? o->header->logger : w->info.logger,
                              .state = w->compress    ? w->info.compression
                                       : w->is_merged ? 0
                                                      : STATE_IN_USE,
                              .used_bytes = valid,
                              .flags = EA_ETL_BUFFER_FIRST_OR_LAST,
                              .type = TYPE_HEADER};
    if (w->is_merged) {
        h.saved_offset = (uint32_t)(EA_ETL_HEADER_BYTES + first);
        h.current_offset = 0;
        if (h.cpu > 0xFF) /* which one byte does not hold */
            h.flags |= EA_ETL_BUFFER_PROC_INDEX;
        h.alignment = 0;
    } else if (w->has_cpu_index) {
        h.flags |= EA_ETL_BUFFER_PROC_INDEX;
    } else {
        h.saved_offset = 0;
    }
    if (w->compress)
        h.size_bytes = (valid + MERGED_HEADER_BYTES - 1) / MERGED_HEADER_BYTES * MERGED_HEADER_BYTES;
    ea_etl_put_buffer_header(p, &h);
    if (!rc) {
        w->buffer_count++;
        rc = etl_writer_append(w, p, h.size_bytes, err);
    }
    free(p);
    return rc;
}

static char *copy_name(const char *name) {
    size_t n = name ? strlen(name) + 1 : 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, name ? name : "", n) : NULL;
}

static int etl_writer_check(const char *path, const ea_etl_writer_options *o, ea_err *err) {
    const ea_etl_info *info = o->info;
    if (info->buffer_size_bytes && (info->buffer_size_bytes < SMALLEST_BUFFER_BYTES ||
                                    info->buffer_size_bytes > EA_ETL_MAX_BUFFER_BYTES || info->buffer_size_bytes % 512))
        return ea_fail(err, EA_EINVAL, "write %s: buffers of %u bytes; expected a multiple of 512, at least %d", path,
                       info->buffer_size_bytes, SMALLEST_BUFFER_BYTES);
    if (o->completes_header &&
        (!o->header || (o->header->header_type != EA_HEADER_SYSTEM32 && o->header->header_type != EA_HEADER_SYSTEM64)))
        return ea_fail(err, EA_EINVAL, "write %s: expected a header event with a SYSTEM header", path);
    if (info->pointer_size && info->pointer_size != 4 && info->pointer_size != 8)
        return ea_fail(err, EA_EINVAL, "write %s: pointers of %u bytes; expected 4 or 8", path, info->pointer_size);
    if (o->held_buffers > EA_ETL_HELD_BUFFERS_MAX)
        return ea_fail(err, EA_EINVAL, "write %s: %u held buffers; expected %d at most", path, o->held_buffers,
                       EA_ETL_HELD_BUFFERS_MAX);
    if (info->compression == EA_ETL_NONE ||
        (info->compression >= EA_ETL_LZNT1 && info->compression <= EA_ETL_XPRESS_HUFF))
        return 0;
    return ea_fail(err, EA_EUNSUPPORTED,
                   "write %s: compression %u; written are 0 (none), 2 (LZNT1), 3 (XPRESS) and 4 (XPRESS_HUFF)", path,
                   info->compression);
}

int ea_etl_writer_create(ea_etl_writer **ret, const char *path, const ea_etl_writer_options *o, ea_err *err) {
    static const struct {
        size_t (*compress)(const uint8_t *in, size_t in_bytes, uint8_t *out);
        size_t (*bound)(size_t in_bytes);
    } compressions[] = {[EA_ETL_LZNT1] = {ea_lznt1_compress, ea_lznt1_bound},
                        [EA_ETL_XPRESS] = {ea_xpress_compress, ea_xpress_bound},
                        [EA_ETL_XPRESS_HUFF] = {ea_xpress_huff_compress, ea_xpress_huff_bound}};

    int rc = etl_writer_check(path, o, err);
    if (rc)
        return rc;
    ea_etl_writer *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    w->info = *o->info;
    ea_etl_info *info = &w->info;
    info->session_name = copy_name(o->info->session_name);
    info->log_file_name = copy_name(o->info->log_file_name);
    if (!info->buffer_size_bytes)
        info->buffer_size_bytes = DEFAULT_BUFFER_BYTES;
    if (!info->pointer_size)
        info->pointer_size = 8;
    if (!info->start_buffers)
        info->start_buffers = 1;
    info->end_filetime = 0;
    info->buffers_written = info->events_lost = info->buffers_lost = 0;
    w->start_raw = o->header ? o->header->time_raw : o->start_raw;
    w->compress = compressions[info->compression].compress;
    w->is_merged = o->merged || w->compress;
    w->keeps_header = o->header && !o->completes_header;
    w->given_bytes = o->header ? o->header->payload_bytes : 0;
    w->has_cpu_index = ((info->os_version & 0xFF) << 8 | (info->os_version >> 8 & 0xFF)) >= WINDOWS_8;
    w->random = o->seed | 1;
    w->held_max = o->held_buffers;
    w->path = copy_name(path);
    w->record = malloc(EA_ETL_RECORD_MAX_BYTES + 8);
    w->on_disk = w->compress
                     ? malloc(EA_ETL_HEADER_BYTES + compressions[info->compression].bound(info->buffer_size_bytes))
                     : NULL;
    w->held = w->held_max ? calloc(w->held_max, sizeof *w->held) : NULL;
    if (!w->path || !w->record || (!w->on_disk && w->compress) || (!w->held && w->held_max) || !info->session_name ||
        !info->log_file_name)
        rc = ea_fail(err, EA_ENOMEM, "write %s", path);
    w->borrows_file = o->file != NULL;
    w->file = o->file;
    if (!rc && !w->file)
        rc = ea_file_open(&w->file, path, EA_OPEN_CREATE, err);
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
    uint32_t padded = (uint32_t)(n + 7) & ~7u, room = w->info.buffer_size_bytes;
    if (padded > room - EA_ETL_HEADER_BYTES)
        return ea_fail(err, EA_ELIMIT, "write %s: a record of %zu bytes, a buffer has %u", w->path, n, room);
    cpu_buffer *b;
    rc = buffer_of(w, r->cpu, &b, err);
    if (!rc && b->used_bytes > EA_ETL_HEADER_BYTES && padded > room - b->used_bytes)
        rc = etl_writer_write_out(w, r->cpu, b, padded, err);
    if (!rc && b->used_bytes > EA_ETL_HEADER_BYTES && b->logger != r->logger)
        rc = etl_writer_write_out(w, r->cpu, b, room, err);
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

int ea_etl_writer_lose(ea_etl_writer *w, uint16_t cpu, uint32_t events, uint32_t buffers, ea_err *err) {
    cpu_buffer *b;
    int rc = buffer_of(w, cpu, &b, err);
    if (rc)
        return rc;
    b->lost |= (uint16_t)((events ? EA_ETL_BUFFER_EVENTS_LOST : 0) | (buffers ? EA_ETL_BUFFER_BUFFERS_LOST : 0));
    w->info.events_lost += events;
    w->info.buffers_lost += buffers;
    return 0;
}

int ea_etl_writer_flush(ea_etl_writer *w, uint16_t cpu, ea_err *err) {
    return cpu < w->cpu_count ? etl_writer_write_out(w, cpu, &w->cpus[cpu], w->info.buffer_size_bytes, err) : 0;
}

int ea_etl_writer_finish(ea_etl_writer *w, const ea_etl_writer_end *end, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < w->cpu_count; i++)
        rc = ea_etl_writer_flush(w, (uint16_t)i, err);
    while (!rc && w->held_count)
        rc = write_held_buffer(w, err);
    if (rc)
        return rc;
    /* the last buffer has a flag that marks it as the last */
    uint8_t flags[2], fields[EA_ETL_FIELDS_MAX_BYTES];
    size_t n;
    rc = ea_file_read_at(w->file, w->last_buffer_at + 0x34, flags, 2, &n, err);
    if (!rc) {
        ea_store16(flags, (uint16_t)(ea_load16(flags) | EA_ETL_BUFFER_FIRST_OR_LAST));
        rc = ea_file_write_at(w->file, w->last_buffer_at + 0x34, flags, 2, err);
    }
    if (rc || w->keeps_header)
        return rc;
    ea_etl_info now = w->info;
    now.end_filetime = end->end_filetime;
    now.buffers_written = (uint32_t)w->buffer_count;
    now.events_lost += end->events_lost;
    now.buffers_lost += end->buffers_lost;
    if (w->given_bytes) {
        size_t want = w->given_bytes < sizeof fields ? w->given_bytes : sizeof fields;
        rc = ea_file_read_at(w->file, EA_ETL_HEADER_BYTES + SYSTEM_BYTES, fields, want, &n, err);
        if (rc)
            return rc;
        ea_etl_patch_info(&now, fields, n);
    } else {
        n = ea_etl_put_info(&now, fields, sizeof fields);
    }
    return ea_file_write_at(w->file, EA_ETL_HEADER_BYTES + SYSTEM_BYTES, fields, n, err);
}

int ea_etl_writer_sync(ea_etl_writer *w, ea_err *err) {
    return ea_file_sync(w->file, err);
}

void ea_etl_writer_destroy(ea_etl_writer *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->cpu_count; i++)
        free(w->cpus[i].data);
    for (size_t i = 0; i < w->held_count; i++)
        free(w->held[i].data);
    if (!w->borrows_file)
        ea_file_close(w->file);
    free(w->cpus);
    free(w->held);
    free(w->path);
    free(w->info.session_name);
    free(w->info.log_file_name);
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
