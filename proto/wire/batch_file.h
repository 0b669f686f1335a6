/* A file of batches: what "etwagent recorder export" writes, and "etwcollector open" and "ingest" read. FORMAT.md,
 * "File of batches", is the specification.
 * Called by: service/app (writes), collector/traces (reads). Calls: proto/base. Thread: its owner's. */
#ifndef EA_WIRE_BATCH_FILE_H
#define EA_WIRE_BATCH_FILE_H

#include "proto/base/err.h"
#include "proto/base/platform.h"

#include <stddef.h>
#include <stdint.h>

/* The usual ending of such a file's name. */
#define EA_BATCH_FILE_SUFFIX ".etwb"

typedef struct ea_batch_file_writer {
    ea_file *file; /* borrowed */
    uint64_t at, count, sum;
} ea_batch_file_writer;

/* Begins the file, which is empty. */
EA_MUST_CHECK int ea_batch_file_begin(ea_batch_file_writer *w, ea_file *file, ea_err *err);
/* len_bytes: 1 to EA_BATCH_MAX_BYTES. */
EA_MUST_CHECK int ea_batch_file_add(ea_batch_file_writer *w, const uint8_t *batch, size_t len_bytes, ea_err *err);
/* Writes its end and syncs it. */
EA_MUST_CHECK int ea_batch_file_end(ea_batch_file_writer *w, ea_err *err);

/* 1 when a file begins as one of batches does; 0: it does not, or cannot be read. */
int ea_path_is_batch_file(const char *path);

/* Calls fn for each batch of a file that others may have written; the batch is borrowed for the call. fn returns
 * non-zero to stop, which is then returned. EA_EFORMAT: no file of batches; EA_ETRUNCATED: its end is missing;
 * EA_ECORRUPT: it was damaged; EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int ea_batch_file_each(const char *path, int (*fn)(const uint8_t *batch, size_t len_bytes, void *arg),
                                     void *arg, ea_err *err);

#endif
