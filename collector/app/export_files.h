/* export --format parquet|arrow: files of columns in place of printed events. Called by: cmd_export.c. Calls:
 * collector/query/files. Thread: the main one; Ctrl-C ends it without files. */
#ifndef EC_APP_EXPORT_FILES_H
#define EC_APP_EXPORT_FILES_H

#include "collector/query/files/event_files.h"
#include "proto/event/print.h"

typedef struct ec_export_files {
    const char *store, *host, *stream, *folder;
    enum ec_file_format format;
    const ea_print_options *print; /* classes, columns and times */
    int json;
} ec_export_files;

/* Writes the files and prints their counts. Returns what the command returns as an error: EA_ECORRUPT after files that
 * lack damaged batches. */
EA_MUST_CHECK int ec_export_files_run(const ec_export_files *x, ea_err *err);

#endif
