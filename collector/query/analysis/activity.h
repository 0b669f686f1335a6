/* Sums the activity of a period: how long threads ran, were ready and waited, which thread woke which, the counter
 * values of each thread, how long interrupts, disk requests, file operations, hard faults, .NET collections and
 * compilations took. One table a kind.
 * Called by: sql_activity.c. Calls: event_cursor.h, address_space.h, sched_tracker.h, stack_query.h. Thread: its
 * owner's.
 *
 * Of a time that crosses an end of the range only the part inside counts; a time that began before the first event
 * counts from there, as nothing. Threads are followed from the stream's beginning, so that a range in its middle begins
 * with their state at that time. A time without a recorded end (the stream ends, events were lost, the thread's number
 * begins anew) is summed separately. A .NET collection and a compilation belong to the range in which they began.
 * Everything else belongs to the range in which it ended. */
#ifndef EC_QUERY_ANALYSIS_ACTIVITY_H
#define EC_QUERY_ANALYSIS_ACTIVITY_H

#include "collector/query/analysis/profile.h"
#include "collector/query/scan/scan.h"
#include "collector/query/scan/table_schema.h"

enum { EC_ACTIVITY_KEYS = 5, EC_ACTIVITY_SUMS = 9, EC_ACTIVITY_COLUMNS = 20 };

enum ec_activity_kind {
    EC_ACTIVITY_THREADS,
    EC_ACTIVITY_WAITS,
    EC_ACTIVITY_WAKES,
    EC_ACTIVITY_COUNTERS,
    EC_ACTIVITY_COUNTER_SAMPLES,
    EC_ACTIVITY_MODULE_COUNTERS,
    EC_ACTIVITY_CODE_COUNTERS,
    EC_ACTIVITY_FUNCTION_COUNTERS,
    EC_ACTIVITY_COUNTER_PROBLEMS,
    EC_ACTIVITY_INTERRUPTS,
    EC_ACTIVITY_DISK,
    EC_ACTIVITY_FILES,
    EC_ACTIVITY_FAULTS,
    EC_ACTIVITY_STACKS,
    EC_ACTIVITY_MISSED_STACKS,
    EC_ACTIVITY_CPU_USAGE,
    EC_ACTIVITY_DISK_USAGE,
    EC_ACTIVITY_FILE_USAGE,
    EC_ACTIVITY_NETWORK_USAGE,
    EC_ACTIVITY_GC_PAUSES,
    EC_ACTIVITY_JIT_METHODS,
    EC_ACTIVITY_KINDS
};

/* Where a column's value comes from. */
enum ec_activity_source {
    EC_OF_HOST,
    EC_OF_STREAM,
    EC_OF_KEY,
    EC_OF_SUM,
    EC_OF_KNOWN,    /* a sum; NULL when it is EC_SUM_UNKNOWN */
    EC_OF_INTERVAL, /* a key, events a sample: NULL when it is 0, unknown */
    EC_OF_EVENTS,   /* a sum; NULL of samples whose interval is unknown */
    EC_OF_TEXT,
    EC_OF_PROCESS, /* its instance, as one number */
    EC_OF_IMAGE,
    EC_OF_BUCKET,
    EC_OF_REASON,
    EC_OF_MODULE
};

typedef struct ec_activity_column {
    const char *name;
    enum ec_kind kind;
    enum ec_activity_source source;
    unsigned index; /* of the key or sum; EC_OF_PROCESS, EC_OF_IMAGE: 1 of the second process; EC_OF_REASON,
                       EC_OF_MODULE: of the key that it is about */
} ec_activity_column;

typedef struct ec_activity_table {
    const char *name;
    ec_activity_column columns[EC_ACTIVITY_COLUMNS]; /* ends with a NULL name */
    int has_buckets;                                 /* of time: every_ns */
} ec_activity_table;

const ec_activity_table *ec_activity_table_of(enum ec_activity_kind kind);
/* The column by whose value rows can be found at once; -1: none. */
int ec_activity_hash_column(enum ec_activity_kind kind);

typedef struct ec_activity ec_activity;

/* Whether the table names functions: it needs the source of their names. */
int ec_activity_names_functions(enum ec_activity_kind kind);
/* host NULL: of all. namer: of a table that names functions; NULL: places stay places. every_ns: width of buckets of
 * time, which begin at multiples of it since 1970; 0: none. EA_ELIMIT: more than 1,048,576 rows. */
EA_MUST_CHECK int ec_activity_run(ec_activity **ret, ec_archive *archive, enum ec_activity_kind kind, const char *host,
                                  int64_t from_utc_ns, int64_t to_utc_ns, int64_t every_ns,
                                  const ec_profile_namer *namer, ea_err *err);
void ec_activity_destroy(ec_activity *a); /* NULL is allowed */
size_t ec_activity_count(const ec_activity *a);
/* The rows with that value of ec_activity_hash_column, in their order: *ret of them, borrowed until the next call.
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_activity_find(ec_activity *a, uint64_t value, const uint32_t **ret, size_t *ret_count);
/* The same for the same row of the same range, whichever hosts were asked for. */
uint64_t ec_activity_number(const ec_activity *a, size_t row);
/* Texts live as long as a. */
void ec_activity_value(const ec_activity *a, size_t row, size_t column, ec_value *ret);

#endif
