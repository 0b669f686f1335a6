/* Events in groups by several columns, with several columns counted, summed and compared in one scan: what SQL hands
 * down of a GROUP BY. Input: scan.h, block_keys.h. Used by: sql_groups.c. Thread: its owner's.
 *
 * A block goes through column by column: the columns of the keys become arrays, these one array of the numbers of
 * groups, and then each column of values is added to its groups. The sums are of whole numbers and exact; where SQL's
 * own result depends on the order of events, the measure says it. */
#ifndef EC_QUERY_ANALYSIS_GROUP_EVENTS_H
#define EC_QUERY_ANALYSIS_GROUP_EVENTS_H

#include "collector/query/analysis/block_keys.h"

enum { EC_GROUPING_KEYS_MAX = 8, EC_GROUPING_VALUES_MAX = 16, EC_GROUPING_STEPS_MAX = 11 };

enum ec_step_what {
    EC_STEP_COLUMN,
    EC_STEP_NUMBER,
    EC_STEP_ADD, /* this and the next ones: of the two values before it, as SQL computes whole numbers */
    EC_STEP_SUBTRACT,
    EC_STEP_MULTIPLY,
    EC_STEP_DIVIDE, /* by 0: NULL, as the rest is */
    EC_STEP_REST,
};

/* A step of an expression in postfix order. */
typedef struct ec_grouping_step {
    enum ec_step_what what;
    int64_t number; /* EC_STEP_COLUMN: of the shape; EC_STEP_NUMBER: its value */
} ec_grouping_step;

typedef struct ec_grouping_key {
    size_t column;     /* of the shape; with steps: one of theirs */
    int64_t width_ns;  /* above 0: whole numbers are rounded down to a multiple of it, as SQL's time_bucket does */
    int is_descending; /* its order in the answer */
    size_t step_count; /* above 0: the key is the value of these steps; width_ns: 0 */
    ec_grouping_step steps[EC_GROUPING_STEPS_MAX];
} ec_grouping_key;

enum ec_grouping_what {
    EC_GROUPING_NUMBERS,  /* count, sum, least and greatest of whole numbers */
    EC_GROUPING_EXTREMES, /* count, least and greatest of any values but reals */
    EC_GROUPING_DISTINCT, /* how many distinct values */
};

typedef struct ec_grouping_value {
    ec_grouping_key of; /* its order means nothing */
    enum ec_grouping_what what;
} ec_grouping_value;

typedef struct ec_grouping_options {
    const ec_annotator *annotator;  /* as ec_scan_open's */
    const ec_condition *conditions; /* ec_condition_is_exact */
    size_t condition_count;
    const ec_row_filter *filter; /* NULL: none */
    const ec_grouping_key *keys;
    size_t key_count; /* at most EC_GROUPING_KEYS_MAX; 0: one group, whose count may be 0 */
    const ec_grouping_value *values;
    size_t value_count; /* at most EC_GROUPING_VALUES_MAX */
    size_t limit_bytes; /* of memory for groups; EA_ELIMIT beyond */
    int is_unordered;   /* groups are in the order of their first events; EA_ELIMIT when most are of few events */
} ec_grouping_options;

/* What a group's events say of a column of values. */
typedef struct ec_measure {
    uint64_t count;         /* events with a value; of EC_GROUPING_DISTINCT: distinct values */
    int64_t sum;            /* exact while magnitude is at most INT64_MAX */
    uint64_t magnitude;     /* the sum of absolute values; UINT64_MAX: that, or more */
    int has_other;          /* of EC_GROUPING_NUMBERS: a value is no whole number, so that only count holds */
    ec_key least, greatest; /* while count is above 0 */
} ec_measure;

typedef struct ec_grouping ec_grouping;

/* Whether a column can be a key or have its values taken: never a real among them. */
int ec_grouping_takes(const ec_table_schema *shape, size_t column);
/* Whether a key is more than its column. */
int ec_grouping_is_computed(const ec_grouping_key *key);
/* Whether two keys have the same values; their orders may differ. */
int ec_grouping_is_same_key(const ec_grouping_key *a, const ec_grouping_key *b);
/* Scans and groups. options: copied, with what they point to borrowed during the call. EA_EUSAGE: a condition that the
 * scan does not keep exactly, a column that ec_grouping_takes refuses, or steps whose value is no whole number of 64
 * bits; EA_ELIMIT: limit_bytes, is_unordered; EA_ECANCELED, EA_ENOMEM. */
EA_MUST_CHECK int ec_grouping_run(ec_grouping **ret, ec_archive *archive, const ec_table_schema *shape,
                                  const ec_grouping_options *options, ea_err *err);
void ec_grouping_destroy(ec_grouping *g); /* NULL is allowed */

size_t ec_grouping_count(const ec_grouping *g);
/* Of group `at` in the order of the keys, which is SQL's: NULL, numbers, texts, blobs, or the other way round. Texts
 * are borrowed. */
void ec_grouping_key_value(const ec_grouping *g, size_t at, size_t which, ec_value *ret);
uint64_t ec_grouping_events(const ec_grouping *g, size_t at);
const ec_measure *ec_grouping_measure(const ec_grouping *g, size_t at, size_t which);
/* The value that least or greatest of a measure stands for. */
void ec_grouping_value_of(const ec_grouping *g, const ec_key *key, ec_value *ret);

#endif
