/* Inside collector/query/files: one file of one day, host and class while its rows are collected. Called by:
 * event_files.c. */
#ifndef EC_QUERY_FILES_EVENT_PARTITION_H
#define EC_QUERY_FILES_EVENT_PARTITION_H

#include "collector/columnar/column_writer.h"
#include "collector/query/files/event_columns.h"
#include "collector/query/files/event_files.h"

enum { EC_DAY_BYTES = 16 };

/* How ec_partition_add has a day that is not a folder of its own. */
#define EC_NO_DAY INT64_MIN

typedef struct ec_event_partition {
    ec_event_columns *columns; /* borrowed */
    ec_column_buffer *buffers;
    ec_column_writer *writer; /* NULL: no row group is written yet */
    ea_text path;
    char day[EC_DAY_BYTES];
    char *host;
    ea_label labels[5];
    size_t label_count;
    uint64_t rows; /* all that were added */
    size_t memory_bytes;
} ec_event_partition;

/* day: since 1970. columns, and the texts of options: borrowed until destroy. */
EA_MUST_CHECK int ec_event_partition_create(ec_event_partition **ret, const ec_event_files_options *options,
                                            int64_t day, const char *host, ec_event_columns *columns, ea_err *err);
/* Adds rows of the block at hand. */
EA_MUST_CHECK int ec_event_partition_add(ec_event_partition *p, ec_scan *s, const ec_block *b, const uint32_t *selected,
                                         uint32_t count, ea_err *err);
uint32_t ec_event_partition_pending(const ec_event_partition *p); /* rows that no row group has yet */
/* Writes the rows that are pending, and gives their memory back. */
EA_MUST_CHECK int ec_event_partition_flush(ec_event_partition *p, const ec_event_files_options *options, ea_err *err);
EA_MUST_CHECK int ec_event_partition_finish(ec_event_partition *p, const ec_event_files_options *options, ea_err *err);
EA_MUST_CHECK int ec_event_partition_publish(ec_event_partition *p, ea_err *err);
void ec_event_partition_destroy(ec_event_partition *p); /* NULL is allowed */

/* "2026-11-28" of a day since 1970. */
void ec_event_partition_day(int64_t day, char out[EC_DAY_BYTES]);

#endif
