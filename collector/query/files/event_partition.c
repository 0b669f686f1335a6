/* See event_partition.h. */
#include "collector/query/files/event_partition.h"

#include "proto/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 200, HASH_DIGITS = 16 };

static const int64_t DAY_NS = INT64_C(86400) * 1000000000;

void ec_event_partition_day(int64_t day, char out[EC_DAY_BYTES]) {
    enum { DATE_BYTES = 10 };

    ea_text t;
    *out = 0;
    if (day == EC_NO_DAY)
        return;
    ea_text_init(&t);
    ea_text_utc_ns(&t, day < INT64_MIN / DAY_NS ? INT64_MIN : day * DAY_NS); /* the first one has a begin of its own */
    if (!t.failed && t.len_bytes > DATE_BYTES) {
        memcpy(out, t.data, DATE_BYTES);
        out[DATE_BYTES] = 0;
    }
    ea_text_deinit(&t);
}

/* KEY=VALUE of a folder's name, escaped as in a URL. What would be too long for a name is cut, and has a hash. */
static void add_folder(ea_text *path, const char *key, const char *value) {
    ea_text name;
    ea_text_init(&name);
    ea_text_percent(&name, value, strlen(value), "-_.");
    if (name.failed)
        path->failed = 1;
    ea_text_printf(path, "/%s=", key);
    if (!*value)
        ea_text_str(path, "__HIVE_DEFAULT_PARTITION__");
    else if (name.len_bytes <= NAME_MAX_BYTES)
        ea_text_add(path, name.data, name.len_bytes);
    else {
        size_t n = NAME_MAX_BYTES - HASH_DIGITS - 1;
        while (name.data[n - 1] == '%' || name.data[n - 2] == '%') /* no half of an escape */
            n--;
        ea_text_add(path, name.data, n);
        ea_text_printf(path, "~%016" PRIx64, ea_hash64(value, strlen(value), 0));
    }
    ea_text_deinit(&name);
}

int ec_event_partition_create(ec_event_partition **ret, const ec_event_files_options *options, int64_t day,
                              const char *host, ec_event_columns *columns, ea_err *err) {
    ec_event_partition *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "write a file");
    p->columns = columns;
    ea_text_init(&p->path);
    p->buffers = calloc((size_t)columns->count + 1, sizeof *p->buffers);
    p->host = strdup(host);
    if (p->buffers)
        for (uint32_t i = 0; i < columns->count; i++)
            ec_column_buffer_init(&p->buffers[i], &columns->columns[i]);
    ec_event_partition_day(day, p->day);
    ea_text_str(&p->path, options->folder);
    add_folder(&p->path, "day", p->day);
    add_folder(&p->path, "host", host);
    add_folder(&p->path, "class", columns->shape.set->name);
    ea_text_printf(&p->path, "/%s.%s", options->part, ec_file_format_name(options->format));
    if (!p->buffers || !p->host || p->path.failed) {
        ec_event_partition_destroy(p);
        return ea_fail(err, EA_ENOMEM, "write a file");
    }
    p->labels[p->label_count++] = (ea_label){"etwagent.class", columns->shape.set->name};
    p->labels[p->label_count++] = (ea_label){"etwagent.class_versions", columns->versions};
    p->labels[p->label_count++] = (ea_label){"etwagent.host", p->host};
    p->labels[p->label_count++] = (ea_label){"etwagent.day", p->day};
    p->labels[p->label_count++] = (ea_label){"etwagent.version", options->created_by};
    *ret = p;
    return 0;
}

int ec_event_partition_add(ec_event_partition *p, ec_scan *s, const ec_block *b, const uint32_t *selected,
                           uint32_t count, ea_err *err) {
    int rc = ec_event_columns_add(p->columns, s, b, selected, count, p->buffers, err);
    if (rc)
        return rc;
    p->rows += count;
    p->memory_bytes = 0;
    for (uint32_t i = 0; i < p->columns->count; i++)
        p->memory_bytes += ec_column_buffer_memory(&p->buffers[i]);
    return 0;
}

uint32_t ec_event_partition_pending(const ec_event_partition *p) {
    return p->columns->count ? p->buffers[0].rows : 0;
}

int ec_event_partition_flush(ec_event_partition *p, const ec_event_files_options *options, ea_err *err) {
    if (!ec_event_partition_pending(p))
        return 0;
    int rc = 0;
    if (!p->writer)
        rc = ec_column_writer_create(&p->writer, options->format, p->path.data,
                                     &(ec_column_file_options){.columns = p->columns->columns,
                                                               .column_count = p->columns->count,
                                                               .labels = p->labels,
                                                               .label_count = p->label_count,
                                                               .created_by = options->created_by,
                                                               .replaces = options->replaces},
                                     err);
    if (!rc)
        rc = ec_column_writer_add(p->writer, p->buffers, err);
    for (uint32_t i = 0; i < p->columns->count; i++)
        ec_column_buffer_clear(&p->buffers[i]);
    p->memory_bytes = 0;
    return rc;
}

int ec_event_partition_finish(ec_event_partition *p, const ec_event_files_options *options, ea_err *err) {
    int rc = ec_event_partition_flush(p, options, err);
    if (!rc)
        rc = ec_column_writer_finish(p->writer, err);
    if (!rc && ec_column_writer_rows(p->writer) != p->rows)
        rc = ea_fail(err, EA_ECORRUPT, "write %.400s: expected %" PRIu64 " rows, wrote %" PRIu64, p->path.data, p->rows,
                     ec_column_writer_rows(p->writer));
    return rc;
}

int ec_event_partition_publish(ec_event_partition *p, ea_err *err) {
    return ec_column_writer_publish(p->writer, err);
}

void ec_event_partition_destroy(ec_event_partition *p) {
    if (!p)
        return;
    ec_column_writer_destroy(p->writer);
    for (uint32_t i = 0; p->buffers && i < p->columns->count; i++)
        ec_column_buffer_deinit(&p->buffers[i]);
    free(p->buffers);
    free(p->host);
    ea_text_deinit(&p->path);
    free(p);
}
