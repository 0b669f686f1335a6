/* Tracks requests to disks and files from their begin to their end, by their IRP. One tracker is for one machine.
 * Called by: activity_events.c, stack_query.c. Calls: event_cursor.h. Thread: its owner's.
 *
 * An IRP is used again: a request that still has it when the next one begins never ended. */
#ifndef EC_QUERY_ANALYSIS_REQUEST_TRACKER_H
#define EC_QUERY_ANALYSIS_REQUEST_TRACKER_H

#include "collector/query/scan/event_cursor.h"
#include "proto/base/map.h"

typedef struct ec_request {
    int64_t time; /* of its begin, raw */
    uint32_t tid, pid;
    uint64_t subject;      /* the caller's: a file object, a number */
    const char *operation; /* borrowed; may be NULL */
} ec_request;

typedef struct ec_request_tracker {
    ea_u64_map by_irp; /* -> index of a request */
    ec_request *requests;
    uint32_t *unused; /* requests that have ended */
    size_t count, capacity, unused_count, unused_capacity;
} ec_request_tracker;

void ec_request_tracker_init(ec_request_tracker *t);
void ec_request_tracker_deinit(ec_request_tracker *t);
/* EA_ELIMIT: 1,048,576 requests have begun and not ended. EA_ENOMEM. */
EA_MUST_CHECK int ec_request_begin(ec_request_tracker *t, uint64_t irp, const ec_request *request);
/* The request of an IRP ends: 1 and *ret; 0 when its begin is unknown. */
int ec_request_end(ec_request_tracker *t, uint64_t irp, ec_request *ret);
/* Events are missing: the requests that have begun may have ended meanwhile. */
void ec_request_tracker_clear(ec_request_tracker *t);
/* How long the disk request took that an event of EC_ROLE_DISK_END or EC_ROLE_FLUSH_END ends. */
uint64_t ec_disk_request_ns(const ec_event_cursor *t, const ec_event_cursor_event *e);
/* From one time of an event's clock to another; 0 when the end is not later. */
uint64_t ec_event_span_ns(const ec_event_cursor_event *e, int64_t begin_raw, int64_t end_raw);

#endif
