/* What the hardware counters on a stream's events are called, and from when on: PerfInfo/PmcCtrConfig. Input:
 * event_cursor.h. Used by: activity.c, scan_values.c. Thread: its owner's. */
#ifndef EC_QUERY_SCAN_COUNTER_NAMES_H
#define EC_QUERY_SCAN_COUNTER_NAMES_H

#include "collector/query/scan/archive.h"

/* COUNTERS_MAX: on an event; a header has room for 7. NAME_BYTES: 64 UTF-16 units are 192 bytes at most, and a zero. */
enum { EC_COUNTERS_MAX = 8, EC_COUNTER_NAME_BYTES = 200 };

typedef struct ec_counter_config {
    uint64_t place; /* it holds from this event on: ec_event_position */
    uint64_t count; /* so many counters Windows says that there are */
    uint32_t name_count;
    char names[EC_COUNTERS_MAX][EC_COUNTER_NAME_BYTES]; /* UTF-8, at most 64 characters each */
} ec_counter_config;

typedef struct ec_counter_names ec_counter_names;

/* Reads all of a stream's configurations. After 4,096 changes counters have no names. Errors: as a cursor's. */
EA_MUST_CHECK int ec_counter_names_open(ec_counter_names **ret, ec_archive *archive, const ec_archive_stream *stream,
                                        ea_err *err);
void ec_counter_names_close(ec_counter_names *n); /* NULL is allowed */
/* The configuration that holds at a place: the last one by then, in front of all the first; NULL: there is none. The
 * same pointer as long as nothing changes; borrowed until close. */
const ec_counter_config *ec_counter_names_at(const ec_counter_names *n, uint64_t place);
/* The name of counter i of `count` on an event; NULL when the event has another number of counters than were
 * configured, so that their order is unknown. */
const char *ec_counter_name(const ec_counter_config *c, size_t count, size_t i);

#endif
