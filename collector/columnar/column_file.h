/* A file of columns that is being written: what it is called until it is whole, and where its end is. Called by:
 * parquet.c, arrow.c. Calls: the file system. Thread: its owner's.
 *
 * The file is open only while bytes are added, so that many can be written in turn. It has a temporary name (a point
 * before it and ".partial" after it) until it is published. */
#ifndef EC_COLUMNAR_COLUMN_FILE_H
#define EC_COLUMNAR_COLUMN_FILE_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stdint.h>

typedef struct ec_column_file_options {
    const struct ec_file_column *columns; /* borrowed, like labels, until the writer's destroy; names are distinct */
    uint32_t column_count;
    const ea_label *labels; /* of the whole file */
    size_t label_count;
    const char *created_by;
    int replaces; /* an existing file of the name is replaced when the new one is whole */
} ec_column_file_options;

typedef struct ec_column_file {
    ea_text path, partial;
    uint64_t len_bytes;
    int is_made; /* partial exists */
    int replaces;
} ec_column_file;

/* Makes the partial file, and its folder. EA_EEXIST: path exists already, and is not to be replaced; EA_EIO, EA_EFULL,
 * EA_ENOMEM. After an error the file is as if it had never been. */
EA_MUST_CHECK int ec_column_file_make(ec_column_file *f, const char *path, int replaces, ea_err *err);
/* Adds bytes at the end. */
EA_MUST_CHECK int ec_column_file_add(ec_column_file *f, const void *data, size_t len_bytes, ea_err *err);
/* Gives it its name, which is durable after ec_column_file_sync_all. EA_EEXIST: another file has got it meanwhile. */
EA_MUST_CHECK int ec_column_file_publish(ec_column_file *f, ea_err *err);
/* Makes all files below a folder durable, and their names: a thousand small files need one wait for the disk. */
EA_MUST_CHECK int ec_column_file_sync_all(const char *folder, ea_err *err);
void ec_column_file_deinit(ec_column_file *f); /* removes an unpublished file; harmless on a zeroed one */

#endif
