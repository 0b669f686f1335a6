/* A Parquet file, written without its library: columns of buffers as row groups with dictionaries, statistics and page
 * indexes, compressed by zstd. Source: Apache Parquet's format specification (parquet.thrift, Encodings.md,
 * PageIndex.md). Called by: collector/query/files. Thread: its owner's.
 *
 * The file has a temporary name until it is published: one that is not whole never has its own. */
#ifndef EC_COLUMNAR_PARQUET_H
#define EC_COLUMNAR_PARQUET_H

#include "collector/columnar/column_buffer.h"
#include "collector/columnar/column_file.h"

typedef struct ec_parquet ec_parquet;

/* EA_EEXIST: path exists already. EA_EIO, EA_EFULL, EA_ENOMEM. */
EA_MUST_CHECK int ec_parquet_create(ec_parquet **ret, const char *path, const ec_column_file_options *options,
                                    ea_err *err);
/* Writes a row group: a buffer for each column, all with the same number of rows, at least one. The buffers stay as
 * they are. EA_EINVAL: their rows differ in number; EA_EIO, EA_EFULL, EA_ENOMEM. After an error the file cannot be
 * published. */
EA_MUST_CHECK int ec_parquet_add(ec_parquet *p, const ec_column_buffer *buffers, ea_err *err);
/* Writes the end. The file still has its temporary name, and is durable after ec_column_file_sync_all. */
EA_MUST_CHECK int ec_parquet_finish(ec_parquet *p, ea_err *err);
EA_MUST_CHECK int ec_parquet_publish(ec_parquet *p, ea_err *err);
uint64_t ec_parquet_rows(const ec_parquet *p);
uint64_t ec_parquet_bytes(const ec_parquet *p);
void ec_parquet_destroy(ec_parquet *p); /* NULL is allowed; a file that was not published is removed */

#endif
