/* See column_writer.h. */
#include "collector/columnar/column_writer.h"

#include "collector/columnar/arrow.h"
#include "collector/columnar/parquet.h"

#include <stdlib.h>

struct ec_column_writer {
    ec_parquet *parquet; /* one of both */
    ec_arrow *arrow;
};

const char *ec_file_format_name(enum ec_file_format format) {
    return format == EC_FILE_ARROW ? "arrow" : "parquet";
}

int ec_column_writer_create(ec_column_writer **ret, enum ec_file_format format, const char *path,
                            const ec_column_file_options *options, ea_err *err) {
    ec_column_writer *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "write %.500s", path);
    int rc = format == EC_FILE_ARROW ? ec_arrow_create(&w->arrow, path, options, err)
                                     : ec_parquet_create(&w->parquet, path, options, err);
    if (rc) {
        free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int ec_column_writer_add(ec_column_writer *w, const ec_column_buffer *buffers, ea_err *err) {
    return w->arrow ? ec_arrow_add(w->arrow, buffers, err) : ec_parquet_add(w->parquet, buffers, err);
}

int ec_column_writer_finish(ec_column_writer *w, ea_err *err) {
    return w->arrow ? ec_arrow_finish(w->arrow, err) : ec_parquet_finish(w->parquet, err);
}

int ec_column_writer_publish(ec_column_writer *w, ea_err *err) {
    return w->arrow ? ec_arrow_publish(w->arrow, err) : ec_parquet_publish(w->parquet, err);
}

uint64_t ec_column_writer_rows(const ec_column_writer *w) {
    return w->arrow ? ec_arrow_rows(w->arrow) : ec_parquet_rows(w->parquet);
}

uint64_t ec_column_writer_bytes(const ec_column_writer *w) {
    return w->arrow ? ec_arrow_bytes(w->arrow) : ec_parquet_bytes(w->parquet);
}

void ec_column_writer_destroy(ec_column_writer *w) {
    if (!w)
        return;
    ec_parquet_destroy(w->parquet);
    ec_arrow_destroy(w->arrow);
    free(w);
}
