/* Columns of a block of events as arrays of keys and of numbers, one element for each selected event: what grouping is
 * built on. A text is interned, so that it is compared once a distinct value of a batch, not once an event. Input:
 * scan.h. Used by: aggregate.c, group_events.c. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_BLOCK_KEYS_H
#define EC_QUERY_ANALYSIS_BLOCK_KEYS_H

#include "collector/query/scan/scan.h"
#include "proto/base/map.h"

/* A value as a number: of an EC_INT its bits, of an EC_REAL those of the double (0.0 for -0.0), of texts and blobs the
 * index of an interned one. Values that SQL finds equal have one key. */
typedef struct ec_key {
    uint64_t bits;
    uint32_t type; /* enum ec_value_type */
} ec_key;

typedef struct ec_key_text {
    const char *data;
    size_t len_bytes;
} ec_key_text;

typedef struct ec_keys {
    ec_scan *scan; /* set by the owner, once it is open */
    const ec_table_schema *shape;
    ea_arena arena;        /* of the interned texts */
    ea_bytes_map interned; /* text -> its index + 1 */
    ec_key_text *texts;
    size_t text_count, text_capacity;
    ec_key *memo; /* of a dictionary's values */
    size_t memo_capacity;
} ec_keys;

void ec_keys_init(ec_keys *k, const ec_table_schema *shape);
void ec_keys_deinit(ec_keys *k); /* harmless on a zeroed one */

/* EA_ENOMEM. */
EA_MUST_CHECK int ec_keys_intern(ec_keys *k, const char *data, size_t len_bytes, uint64_t *ret);
EA_MUST_CHECK int ec_keys_of_value(ec_keys *k, const ec_value *v, ec_key *ret);
/* The value of a key; a text is borrowed from k. */
void ec_keys_value(const ec_keys *k, const ec_key *key, ec_value *ret);

/* The key of a column that all events of the block have alike (ec_scan_is_constant); the block may be whole. */
EA_MUST_CHECK int ec_keys_constant(ec_keys *k, size_t column, const ec_block *b, ec_key *ret, ea_err *err);
/* The keys of a column of the block's selected events. to: room for selected_count. EA_ENOMEM and errors of reading;
 * damaged values are NULL and reported. */
EA_MUST_CHECK int ec_keys_take(ec_keys *k, size_t column, const ec_block *b, ec_key *to, ea_err *err);
/* The same as numbers: 1 when the column's rows are whole numbers of a fixed width, so that all are in `to`; 0 when
 * they have to be read one by one; *ret_all_null: no event of the block has the field. */
EA_MUST_CHECK int ec_keys_numbers(ec_keys *k, size_t column, const ec_block *b, int64_t *to, int *ret_all_null,
                                  ea_err *err);

/* The bucket of time that was last computed, and raw times of one source that are in it for sure. */
typedef struct ec_bucket {
    int64_t begin_utc_ns, first_raw, last_raw;
    uint16_t source;
    int is_known; /* 0 at the beginning of each block: a batch has its own sources */
} ec_bucket;

/* The beginning of the bucket of an event: rows[row] of the block; width above 0. */
int64_t ec_bucket_of(ec_bucket *last, const ec_keys *k, const ec_block *b, int64_t width, uint32_t row);

#endif
