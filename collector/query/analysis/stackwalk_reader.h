/* Stored walks on their way into the stack join: read from columns, and looked up once where a batch stores several
 * alike once. proto/stack/stack_feed.h does the same with records. Input: event_cursor.h. Used by: profile.c. Thread:
 * its owner's. */
#ifndef EC_QUERY_ANALYSIS_STACKWALK_READER_H
#define EC_QUERY_ANALYSIS_STACKWALK_READER_H

#include "collector/query/scan/event_cursor.h"
#include "proto/stack/stack_feed.h"

/* All borrowed. */
typedef struct ec_stackwalk_reader {
    ec_event_cursor *cursor;
    ea_stacks *stacks;
    ea_stack_join *join;
    int64_t raw_from, raw_to; /* walks of events of these times count; raw_to is not included */
} ec_stackwalk_reader;

/* What the cursor has to read of a class of walks or definitions. */
void ec_stackwalk_reader_plan(ec_event_cursor_plan *cursor, const ea_stack_plan *plan);
/* An event of such a class: a definition is kept, a walk is handed to the join. Returns 0 or what the join's on_event
 * returned. */
EA_MUST_CHECK int ec_stackwalk_reader_add(const ec_stackwalk_reader *w, const ec_event_cursor_event *e,
                                          const ea_stack_plan *plan);

#endif
