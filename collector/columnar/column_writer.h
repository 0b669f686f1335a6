/* A file of columns in one of the formats. Called by: collector/query/files. Calls: parquet.h, arrow.h. Thread: its
 * owner's. */
#ifndef EC_COLUMNAR_COLUMN_WRITER_H
#define EC_COLUMNAR_COLUMN_WRITER_H

#include "collector/columnar/column_buffer.h"
#include "collector/columnar/column_file.h"

enum ec_file_format { EC_FILE_PARQUET, EC_FILE_ARROW };

typedef struct ec_column_writer ec_column_writer;

/* "parquet", "arrow": also what names of such files end with. */
const char *ec_file_format_name(enum ec_file_format format);

/* As the functions of parquet.h. */
EA_MUST_CHECK int ec_column_writer_create(ec_column_writer **ret, enum ec_file_format format, const char *path,
                                          const ec_column_file_options *options, ea_err *err);
EA_MUST_CHECK int ec_column_writer_add(ec_column_writer *w, const ec_column_buffer *buffers, ea_err *err);
EA_MUST_CHECK int ec_column_writer_finish(ec_column_writer *w, ea_err *err);
EA_MUST_CHECK int ec_column_writer_publish(ec_column_writer *w, ea_err *err);
uint64_t ec_column_writer_rows(const ec_column_writer *w);
uint64_t ec_column_writer_bytes(const ec_column_writer *w);
void ec_column_writer_destroy(ec_column_writer *w); /* NULL is allowed */

#endif
