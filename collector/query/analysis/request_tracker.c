/* See request_tracker.h. */
#include "collector/query/analysis/request_tracker.h"

#include "collector/query/analysis/event_roles.h"
#include "proto/base/array.h"

#include <stdlib.h>

enum { REQUESTS_MAX = 1 << 20 };

void ec_request_tracker_init(ec_request_tracker *t) {
    *t = (ec_request_tracker){.count = 0};
    ea_u64_map_init(&t->by_irp, REQUESTS_MAX);
}

void ec_request_tracker_deinit(ec_request_tracker *t) {
    ea_u64_map_deinit(&t->by_irp);
    free(t->requests);
    free(t->unused);
}

int ec_request_begin(ec_request_tracker *t, uint64_t irp, const ec_request *request) {
    const uint64_t *known = ea_u64_map_get(&t->by_irp, irp);
    size_t at = known ? (size_t)*known : t->unused_count ? t->unused[t->unused_count - 1] : t->count;
    int rc = EA_GROW(t->requests, t->capacity, at + 1, REQUESTS_MAX);
    if (!rc && !known)
        rc = ea_u64_map_put(&t->by_irp, irp, at);
    if (rc)
        return rc;
    t->requests[at] = *request;
    if (!known && at == t->count)
        t->count++;
    else if (!known)
        t->unused_count--;
    return 0;
}

int ec_request_end(ec_request_tracker *t, uint64_t irp, ec_request *ret) {
    const uint64_t *known = ea_u64_map_get(&t->by_irp, irp);
    if (!known)
        return 0;
    size_t at = (size_t)*known;
    *ret = t->requests[at];
    ea_u64_map_remove(&t->by_irp, irp);
    if (!EA_GROW(t->unused, t->unused_capacity, t->unused_count + 1, SIZE_MAX)) /* else its place stays unused */
        t->unused[t->unused_count++] = (uint32_t)at;
    return 1;
}

void ec_request_tracker_clear(ec_request_tracker *t) {
    ea_u64_map_clear(&t->by_irp);
    t->count = t->unused_count = 0;
}

uint64_t ec_event_span_ns(const ec_event_cursor_event *e, int64_t begin_raw, int64_t end_raw) {
    int64_t begin = ea_clock_to_utc_ns(e->clock, begin_raw), end = ea_clock_to_utc_ns(e->clock, end_raw);
    return end > begin ? (uint64_t)(end - begin) : 0;
}

uint64_t ec_disk_request_ns(const ec_event_cursor *t, const ec_event_cursor_event *e) {
    uint64_t ticks = ec_event_cursor_u64_or_0(t, e, EC_DISK_RESPONSE);
    return ec_event_span_ns(e, e->time - (int64_t)(ticks & INT64_MAX), e->time);
}
