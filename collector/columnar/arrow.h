/* An Arrow file (IPC, with a footer), written without its library: columns of buffers as record batches. Source: Apache
 * Arrow's "Columnar format" and its Schema.fbs, Message.fbs, File.fbs. Called by: collector/query/files. Thread: its
 * owner's. The functions are those of parquet.h. */
#ifndef EC_COLUMNAR_ARROW_H
#define EC_COLUMNAR_ARROW_H

#include "collector/columnar/column_buffer.h"
#include "collector/columnar/column_file.h"

typedef struct ec_arrow ec_arrow;

EA_MUST_CHECK int ec_arrow_create(ec_arrow **ret, const char *path, const ec_column_file_options *options, ea_err *err);
/* Writes the rows as one record batch, or as several when their texts take more than 64 MiB. */
EA_MUST_CHECK int ec_arrow_add(ec_arrow *a, const ec_column_buffer *buffers, ea_err *err);
EA_MUST_CHECK int ec_arrow_finish(ec_arrow *a, ea_err *err);
EA_MUST_CHECK int ec_arrow_publish(ec_arrow *a, ea_err *err);
uint64_t ec_arrow_rows(const ec_arrow *a);
uint64_t ec_arrow_bytes(const ec_arrow *a);
void ec_arrow_destroy(ec_arrow *a); /* NULL is allowed; a file that was not published is removed */

#endif
