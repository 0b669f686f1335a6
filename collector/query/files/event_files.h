/* Stored events as files of columns (Parquet or Arrow), one for each day, host and class, in folders whose names say
 * which: FOLDER/day=2026-11-28/host=pc-1/class=Thread%2FCSwitch/part-0.parquet. Input: a store. Used by: the command
 * export, the archive of retention. Thread: its owner's.
 *
 * The batches are read once. Files have a temporary name until all of them are whole: a run that fails leaves none. */
#ifndef EC_QUERY_FILES_EVENT_FILES_H
#define EC_QUERY_FILES_EVENT_FILES_H

#include "collector/columnar/column_writer.h"
#include "proto/base/err.h"
#include "proto/base/text.h"
#include "proto/event/class_names.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ec_event_files_options {
    const char *store, *folder;
    const char *host;   /* NULL: all */
    const char *stream; /* id in hex; NULL: all of the host's */
    enum ec_file_format format;
    const char *part; /* of a file's name, "part-0" */
    const char *created_by;
    int64_t from_utc_ns, to_utc_ns; /* [from, to) */
    const ea_class_choice *choice;  /* NULL: all classes */
    const char *const *columns;     /* event_columns.h */
    size_t column_count;
    uint64_t segment;             /* only batches of this segment; 0: of all */
    int replaces;                 /* existing files of the names */
    uint64_t memory_bytes;        /* of rows that are collected; 0: 128 MiB */
    int (*keep_going)(void *arg); /* called before each batch; 0 ends it with EA_ECANCELED. NULL: it is not called */
    void *arg;
} ec_event_files_options;

typedef struct ec_event_file {
    const char *path, *day, *host, *name; /* day: "" of no day */
    uint64_t rows, bytes;
} ec_event_file;

typedef struct ec_event_files ec_event_files;

/* Opens the store; what is needed of it and of the folder is open or made then (the process may confine itself).
 * EA_EUSAGE, EA_ENOTFOUND: nothing is stored of the host. */
EA_MUST_CHECK int ec_event_files_open(ec_event_files **ret, const ec_event_files_options *options, ea_err *err);
/* Reads and writes everything, and publishes the files. EA_EEXIST: one of them exists already; EA_EUSAGE,
 * EA_ENOTFOUND: no event has such a class or column; EA_EFULL, EA_EIO, EA_ENOMEM, EA_ECANCELED. After an error no file
 * is left, but for those that were already published when publishing failed. */
EA_MUST_CHECK int ec_event_files_write(ec_event_files *f, ea_err *err);
/* The files, by path, after ec_event_files_write. */
const ec_event_file *ec_event_files_list(const ec_event_files *f, size_t *ret_count);
uint64_t ec_event_files_rows(const ec_event_files *f);
/* How many batches could not be read whole, and what is wrong with the first. */
uint64_t ec_event_files_damage(const ec_event_files *f, const char **ret_first);
void ec_event_files_close(ec_event_files *f); /* NULL is allowed */

#endif
