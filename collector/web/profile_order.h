/* The message with which the collector has a profile made in a process of its own: what its profile worker is to do.
 * Used by: profile_worker.c, on both sides. Thread: any. */
#ifndef EC_WEB_PROFILE_ORDER_H
#define EC_WEB_PROFILE_ORDER_H

#include "collector/query/export/profile_write.h"
#include "collector/sandbox/message.h"

enum { EC_PROFILE_LIST_MAX = 4096 }; /* hosts, labels, processes */

typedef struct ec_profile_order {
    ec_profile_request request; /* without namer and keep_going */
    enum ec_profile_format format;
    int has_names;
    uint64_t parent; /* the collector's process */
    int64_t limit_ns;
    uint64_t limit_bytes, limit_temp_bytes; /* memory, temporary files */
} ec_profile_order;

/* Room for what a parsed order points to. */
typedef struct ec_profile_order_room {
    const char *lists[4][EC_PROFILE_LIST_MAX]; /* hosts and labels of each side */
    uint32_t pids[EC_PROFILE_LIST_MAX];
} ec_profile_order_room;

/* Writes the order's message to t, which it empties. */
void ec_profile_order_print(const ec_profile_order *o, ea_text *t);
/* Reads one: 0, or EA_ECORRUPT. The order points into the message and into room. */
EA_MUST_CHECK int ec_profile_order_parse(ec_message *m, ec_profile_order *ret, ec_profile_order_room *room);

#endif
