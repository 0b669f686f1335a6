/* Searching events, counting them over time, and following them as they are stored. Called by: api.c. Calls: result.h,
 * ask.h. Thread: the handler's.
 *
 * Newest first would mean sorting all that a search may find. So the search goes back in steps: the index says when the
 * last events were and how many a second; a time in which a few pages of them are is searched and sorted, and only when
 * too little of it fits, a time eight times as wide is searched next. A page ends when it is full, or when its time is
 * up: then the cursor goes on.
 */
#ifndef EC_WEB_EVENTS_H
#define EC_WEB_EVENTS_H

#include "collector/web/call.h"

/* GET /api/v1/events */
EA_MUST_CHECK int ec_events_search(ec_call *c, ea_err *err);
/* GET /api/v1/events/counts: how many events a search finds, by time. The range is divided into at most so many
 * buckets, of a usual width; each begins at a multiple of it, but for the first and the last, which end with the range.
 */
EA_MUST_CHECK int ec_events_counts(ec_call *c, ea_err *err);
/* GET /api/v1/events/values: the values that a column has in the events that a search finds, and how many have each,
 * the most frequent first. */
EA_MUST_CHECK int ec_events_values(ec_call *c, ea_err *err);
/* GET /api/v1/events/tail: server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) */
EA_MUST_CHECK int ec_events_tail(ec_call *c, ea_err *err);

#endif
