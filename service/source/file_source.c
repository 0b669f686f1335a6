/* The file source: .etl files, as fast as they can be read or at a multiple of the speed at which they were written.
 * Input: proto/etl. Used by: service/decode. Thread: the source's; ea_source_stop may come from any. */
#include "service/source/source.h"

#include "proto/base/platform.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t PIECE_NS = 20000000; /* of a wait, after which it looks whether it shall stop */

typedef struct file_source {
    ea_source base; /* first member */
    ea_etl_set *set;
    ea_wire_source *rows;
    size_t count;
    double speed; /* 0: do not wait */
    atomic_int stopped;
    int paced;             /* the first record came: the two below are set */
    int64_t first_utc_ns;  /* time of the first record */
    int64_t first_mono_ns; /* when it was handed out */
} file_source;

static const char *file_name(const char *path) {
    const char *name = path;
    for (const char *p = path; *p; p++)
        if (*p == '/' || *p == '\\')
            name = p + 1;
    return *name ? name : path;
}

static void file_close(ea_source *source) {
    file_source *s = (file_source *)source;
    ea_etl_close(s->set);
    free(s->rows);
    free(s);
}

static void file_stop(ea_source *source) {
    file_source *s = (file_source *)source;
    atomic_store(&s->stopped, 1);
}

/* Sleeps, in short pieces, until the record's time has come. */
static void file_source_wait_for(file_source *s, const ea_record *r) {
    int64_t utc_ns = ea_clock_to_utc_ns(&s->rows[r->source].clock, r->time_raw);
    if (!s->paced) {
        s->paced = 1;
        s->first_utc_ns = utc_ns;
        s->first_mono_ns = ea_monotonic_ns();
        return;
    }
    double ahead_ns = ((double)utc_ns - (double)s->first_utc_ns) / s->speed;
    while (!atomic_load(&s->stopped)) {
        double left_ns = ahead_ns - (double)(ea_monotonic_ns() - s->first_mono_ns);
        if (left_ns < 100000) /* a sleep is no finer than that */
            return;
        ea_sleep_ns(left_ns < (double)PIECE_NS ? (int64_t)left_ns : PIECE_NS);
    }
}

static int file_next(ea_source *source, const ea_record **ret, ea_err *err) {
    file_source *s = (file_source *)source;
    const ea_record *r;
    if (atomic_load_explicit(&s->stopped, memory_order_relaxed))
        return ea_fail(err, EA_ECANCELED, "read the source");
    int rc;
    while ((rc = ea_etl_next(s->set, &r, err)) == EA_ETL_NOTHING_YET) {
        if (atomic_load(&s->stopped))
            return ea_fail(err, EA_ECANCELED, "read the source");
        ea_sleep_ns(PIECE_NS);
    }
    if (rc <= 0)
        return rc;
    if (s->speed > 0) {
        file_source_wait_for(s, r);
        if (atomic_load(&s->stopped))
            return ea_fail(err, EA_ECANCELED, "read the source");
    }
    *ret = r;
    return 1;
}

static size_t file_count(const ea_source *source) {
    return ((const file_source *)source)->count;
}

static const ea_wire_source *file_row(const ea_source *source, size_t which) {
    const file_source *s = (const file_source *)source;
    return which < s->count ? &s->rows[which] : NULL;
}

static double file_progress(const ea_source *source) {
    return ea_etl_progress(((const file_source *)source)->set);
}

int ea_source_open_files(ea_source **ret, const char *const *paths, size_t count, double speed,
                         const ea_etl_options *options, ea_err *err) {
    if (!(speed >= 0) || isinf(speed))
        return ea_fail(err, EA_EINVAL, "replay speed: expected 0 (as fast as it goes) or a positive factor");
    static const ea_source_ops OPS = {.next = file_next,
                                      .stop = file_stop,
                                      .close = file_close,
                                      .count = file_count,
                                      .row = file_row,
                                      .progress = file_progress};
    file_source *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open the source");
    s->base.ops = &OPS;
    s->speed = speed;
    int rc = ea_etl_open(&s->set, paths, count, options, err);
    if (!rc) {
        s->count = ea_etl_file_count(s->set);
        s->rows = calloc(s->count, sizeof *s->rows);
        if (!s->rows)
            rc = ea_fail(err, EA_ENOMEM, "open the source");
    }
    if (rc) {
        file_close(&s->base);
        return rc;
    }
    for (size_t i = 0; i < s->count; i++) {
        const ea_etl_info *info = ea_etl_file_info(s->set, i);
        ea_wire_source *row = &s->rows[i];
        row->name = file_name(info->path);
        row->host = "";
        row->clock = info->clock;
        row->boot_filetime = info->boot_filetime;
        row->pointer_size = info->pointer_size;
        row->cpu_count = info->cpu_count;
        row->os_version = info->os_version;
        row->os_build = info->os_build;
        row->log_file_mode = info->log_file_mode;
        row->logger = info->logger;
        row->bias_minutes = info->bias_minutes;
    }
    *ret = &s->base;
    return 0;
}
