/* Counts, sums, least and greatest values of events by one or two columns and time: a native scan that groups while it
 * reads columns, because SQLite would take them row by row. The tables called *_by and dashboards ask it. Input:
 * scan.h. Used by: sql_aggregate.c, collector/web. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_AGGREGATE_H
#define EC_QUERY_ANALYSIS_AGGREGATE_H

#include "collector/query/scan/scan.h"

enum { EC_BY_MAX = 3 };

typedef struct ec_aggregate_options {
    const ec_annotator *annotator;  /* as ec_scan_open's */
    const ec_condition *conditions; /* on columns of the shape; may be NULL */
    size_t condition_count;
    size_t by[EC_BY_MAX]; /* columns of the shape */
    size_t by_count;
    int has_value;
    size_t value;        /* a column of numbers, whose sum, least and greatest value are wanted */
    int64_t every_ns;    /* width of a time bucket; buckets begin at multiples of it since 1970; 0: no buckets */
    uint64_t top;        /* keep only so many keys: those with the greatest sum (without a value: count) over all time;
                            equal ones in the order of their keys; 0: all */
    size_t limit_groups; /* EA_ELIMIT beyond; 0: 1,048,576 */
} ec_aggregate_options;

/* One group. Texts are borrowed from the aggregate. */
typedef struct ec_group {
    int64_t bucket_utc_ns; /* its beginning; 0 without buckets */
    ec_value key[EC_BY_MAX];
    uint64_t count;       /* events */
    uint64_t value_count; /* of them with a value */
    int is_overflow;      /* the whole sum is beyond 64 bits, as SQL's sum() says it: there is none */
    int is_real;          /* a value was no whole number: sum_real is the sum */
    int64_t sum;
    double sum_real;
    ec_value least, greatest; /* EC_NULL without a value */
} ec_group;

typedef struct ec_aggregate ec_aggregate;

/* Scans and groups. Groups are sorted by bucket, then in the order of their first event. Without columns and buckets
 * there is one group, whose count may be 0. EA_EUSAGE: a condition that the scan does not keep exactly (ec_scan_keeps),
 * except that texts are compared with =; a value's column that has no numbers. EA_ECANCELED, EA_ENOMEM. */
EA_MUST_CHECK int ec_aggregate_run(ec_aggregate **ret, ec_archive *archive, const ec_table_schema *shape,
                                   const ec_aggregate_options *options, ea_err *err);
const ec_group *ec_aggregate_groups(const ec_aggregate *a, size_t *ret_count);
void ec_aggregate_destroy(ec_aggregate *a); /* NULL is allowed */

#endif
