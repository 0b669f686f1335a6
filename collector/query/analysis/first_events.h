/* The first n events of a store in the order of some columns: which they are, not their values. What SQL hands down of
 * ORDER BY with LIMIT. Input: scan.h, block_keys.h. Used by: sql_rows.c. Thread: its owner's.
 *
 * A heap holds the n best events so far, with the values of the columns that order them. Columns of numbers are
 * compared in a loop with the last one's first value, texts once a distinct value of a block. Equal events
 * come in the order of a scan, as SQLite sorts. Where time comes first, the batches are read from that end of
 * time on, until no other batch can hold a better event. */
#ifndef EC_QUERY_ANALYSIS_FIRST_EVENTS_H
#define EC_QUERY_ANALYSIS_FIRST_EVENTS_H

#include "collector/query/scan/scan.h"

enum { EC_FIRST_KEYS_MAX = 8, EC_FIRST_COUNT_MAX = 10000 };

typedef struct ec_first_key {
    size_t column; /* of the shape */
    int is_descending;
    int nulls_are_last;
} ec_first_key;

typedef struct ec_first_options {
    const ec_annotator *annotator;  /* as ec_scan_open's */
    const ec_condition *conditions; /* ec_condition_is_exact */
    size_t condition_count;
    const ec_row_filter *filter; /* its keep alone; NULL: none */
    const ec_first_key *keys;
    size_t key_count;   /* 1 to EC_FIRST_KEYS_MAX */
    size_t count;       /* 1 to EC_FIRST_COUNT_MAX */
    size_t limit_bytes; /* of texts in the heap; EA_ELIMIT beyond */
} ec_first_options;

/* An event: the batch's number in the archive, and the event's place in the batch. */
typedef struct ec_first_event {
    uint64_t ordinal;
    uint64_t stream_id;
    uint64_t batch; /* its number in its stream */
    uint32_t event;
} ec_first_event;

/* *ret: malloc'd, in the order of ordinal and event. EA_EUSAGE: a condition that is not exact, or a column that holds
 * reals and whole numbers; EA_ELIMIT, EA_ECANCELED, EA_ENOMEM. */
EA_MUST_CHECK int ec_first_events(ec_archive *archive, const ec_table_schema *shape, const ec_first_options *options,
                                  ec_first_event **ret, size_t *ret_count, ea_err *err);

#endif
