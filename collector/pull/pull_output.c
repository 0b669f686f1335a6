/* See pull_output.h. */
#include "collector/pull/pull_output.h"

#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/etl/etl_writer.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MODE_SEQUENTIAL = 0x00000001,
    MODE_COMPRESSED = 0x04000000,
    MEGA = 1000000,
    TIMER_RESOLUTION = 156250, /* 100 ns: the clock interrupt of Windows as it starts */
    WPP_TIME = 0x18,           /* options of a message that has a time */
};

struct ec_pull_output {
    ea_text path, partial;
    ea_file *file;
    int is_made;
    ea_etl_writer *writer;
    int64_t *last; /* time of the last record a processor */
    size_t cpu_count, cpu_capacity;
    uint64_t events;
};

int ec_pull_output_claim(ec_pull_output **ret, const char *path, ea_err *err) {
    ec_pull_output *o = calloc(1, sizeof *o);
    if (!o)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    ea_text_init(&o->path);
    ea_text_init(&o->partial);
    ea_text_str(&o->path, path);
    ea_text_printf(&o->partial, "%s.partial", path);
    int rc = o->path.failed || o->partial.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : 0;
    if (!rc && ea_path_exists(path) && !ea_path_is_file(path))
        rc = ea_fail(err, EA_EINVAL, "write %s: expected a file, or a name that does not exist", path);
    if (!rc)
        rc = ea_file_claim(&o->file, o->partial.data, err);
    if (rc == EA_EBUSY)
        rc = ea_fail(err, rc, "write %s: another run writes it", path);
    o->is_made = !rc;
    if (rc) {
        ec_pull_output_destroy(o);
        return rc;
    }
    *ret = o;
    return 0;
}

int ec_pull_output_begin(ec_pull_output *o, const ec_pull_header *h, ea_err *err) {
    const ea_etl_info info = {
        .buffer_size_bytes = h->buffer_bytes,
        .os_version = h->os_version,
        .os_build = h->os_build,
        .cpu_count = h->cpu_count,
        .timer_resolution = TIMER_RESOLUTION,
        .log_file_mode = MODE_SEQUENTIAL | (h->compression ? MODE_COMPRESSED : 0),
        .pointer_size = h->pointer_size,
        .cpu_mhz = h->clock_type == EA_CLOCK_CPU_CYCLES ? (uint32_t)(h->frequency / MEGA) : 0,
        .bias_minutes = h->bias_minutes,
        .boot_filetime = h->boot_filetime,
        .perf_frequency = (int64_t)h->frequency,
        .start_filetime = h->start_filetime,
        .clock_type = h->clock_type,
        .session_name = h->session_name,
        .compression = h->compression,
    };
    const ea_etl_writer_options options = {.info = &info, .start_raw = h->start_raw, .merged = 1, .file = o->file};
    return ea_etl_writer_create(&o->writer, o->partial.data, &options, err);
}

int ec_pull_output_add(ec_pull_output *o, const ea_record *r, ea_err *err) {
    int is_timeless = r->header_type == EA_HEADER_MESSAGE && !(r->header_word & WPP_TIME);
    int rc = 0;
    if (r->cpu >= o->cpu_count) {
        if (EA_GROW(o->last, o->cpu_capacity, (size_t)r->cpu + 1, SIZE_MAX))
            return ea_fail(err, EA_ENOMEM, "write %s", o->path.data);
        for (; o->cpu_count <= r->cpu; o->cpu_count++)
            o->last[o->cpu_count] = INT64_MIN;
    }
    /* A reader finds a buffer by its first time, and gives a message without a time that of the record before it. */
    int64_t last = o->last[r->cpu];
    if (last != INT64_MIN && (r->time_raw < last || (is_timeless && r->time_raw != last)))
        rc = ea_etl_writer_flush(o->writer, r->cpu, err);
    if (!rc)
        rc = ea_etl_writer_add(o->writer, r, err);
    if (rc)
        return rc;
    o->last[r->cpu] = r->time_raw;
    o->events++;
    return 0;
}

int ec_pull_output_publish(ec_pull_output *o, int64_t end_filetime, uint64_t *ret_bytes, ea_err *err) {
    const ea_etl_writer_end end = {.end_filetime = end_filetime};
    int rc = ea_etl_writer_finish(o->writer, &end, err);
    if (!rc && ea_etl_writer_records(o->writer) != o->events + 1)
        rc = ea_fail(err, EA_ECORRUPT, "write %s: expected %" PRIu64 " events, wrote %" PRIu64, o->path.data, o->events,
                     ea_etl_writer_records(o->writer) - 1);
    if (!rc)
        rc = ea_etl_writer_sync(o->writer, err);
    if (!rc)
        rc = ea_file_size(o->file, ret_bytes, err);
    if (rc)
        return rc;
    ea_etl_writer_destroy(o->writer);
    o->writer = NULL;
    rc = ea_path_rename(o->partial.data, o->path.data, err);
    o->is_made = ea_path_exists(o->partial.data); /* it has its name also when only the folder could not be synced */
    return rc;
}

uint64_t ec_pull_output_events(const ec_pull_output *o) {
    return o->events;
}

void ec_pull_output_destroy(ec_pull_output *o) {
    if (!o)
        return;
    ea_etl_writer_destroy(o->writer);
    ea_file_close(o->file);
    if (o->is_made)
        EA_IGNORE(ea_path_remove(o->partial.data, NULL)); /* it may be gone already */
    ea_text_deinit(&o->path);
    ea_text_deinit(&o->partial);
    free(o->last);
    free(o);
}
