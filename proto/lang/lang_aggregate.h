/* Aggregations of a run: a table of states by keys, and one state for the values of further keys. Called by:
 * lang_run.c, lang_print.c. Thread: the run's. */
#ifndef EA_LANG_LANG_AGGREGATE_H
#define EA_LANG_LANG_AGGREGATE_H

#include "proto/lang/lang_program.h"
#include "proto/lang/lang_strings.h"
#include "proto/lang/lang_table.h"

/* A state is so many words: the number of values, then what the function needs. */
enum { STATE_WORDS_MAX = 3, DISTINCT_EXACT = 256, DISTINCT_REGISTERS = 4096, TOP_PLACES = 256 };

typedef struct lang_histogram {
    int32_t first; /* number of the first bucket of counts */
    uint32_t count;
    uint64_t counts[];
} lang_histogram;

typedef struct lang_top_item {
    uint64_t value, count, over; /* it came count times at the most, and count - over times at the least */
} lang_top_item;

typedef struct lang_top {
    uint32_t count, capacity;
    lang_top_item items[];
} lang_top;

typedef struct lang_distinct {
    uint32_t count;                  /* of hashes; DISTINCT_EXACT + 1: registers are in use */
    uint64_t hashes[DISTINCT_EXACT]; /* in order */
    uint8_t registers[];             /* DISTINCT_REGISTERS; only in use once there are too many hashes */
} lang_distinct;

typedef struct lang_aggregate {
    const lang_aggregation *what;
    lang_table table;
    uint64_t others[STATE_WORDS_MAX];
    int64_t *bounds; /* of lquantize and llquantize: where buckets begin, but for the first */
    size_t bound_count;
} lang_aggregate;

/* 0, EA_ENOMEM. */
int lang_aggregate_init(lang_aggregate *a, const lang_aggregation *what, size_t limit_count, lang_memory *memory);
void lang_aggregate_deinit(lang_aggregate *a);
void lang_aggregate_clear(lang_aggregate *a);

/* Counts a value in. 1 when it went to the others, since there was no room for its keys. */
int lang_aggregate_add(lang_aggregate *a, const uint64_t *keys, uint64_t value, const lang_strings *strings);
/* What the aggregation of these keys is now, 0 without any: of a count, a sum, an extreme, an average, a deviation or a
 * number of distinct values, as lang_aggregate_type says. */
uint64_t lang_aggregate_read(lang_aggregate *a, const uint64_t *keys);
uint64_t lang_aggregate_result(const lang_aggregate *a, const uint64_t *state);
enum lang_type lang_aggregate_type(const lang_aggregation *what);
/* Keeps so many entries with the largest results (negative: the smallest). */
void lang_aggregate_trunc(lang_aggregate *a, int64_t count, const lang_strings *strings);
/* The numbers of the entries in the order in which they are printed, the largest result first; of equal ones by keys;
 * malloc'd; NULL: none, or no memory. */
uint32_t *lang_aggregate_sorted(const lang_aggregate *a, const lang_strings *strings);
/* The bounds of a bucket: values from *ret_from on, below *ret_to; INT64_MIN: open; INT64_MAX of quantize is 2^63. */
void lang_aggregate_bucket(const lang_aggregate *a, int64_t bucket, int64_t *ret_from, int64_t *ret_to);

static inline int lang_has_histogram(enum lang_function f) {
    return f == FUNCTION_QUANTIZE || f == FUNCTION_LQUANTIZE || f == FUNCTION_LLQUANTIZE;
}

/* The bounds that lquantize and llquantize have, for the compiler's check: their number, or 0 when the parameters give
 * none or more than HISTOGRAM_BUCKETS_MAX. bounds: room for so many; NULL: only the number. */
size_t lang_bounds(const lang_aggregation *what, int64_t *bounds);

#endif
