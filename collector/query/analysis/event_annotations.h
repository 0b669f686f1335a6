/* What other events of its stream say of an event: the stack that was joined to it, and what its hardware counters are
 * called. Worked out for a stream when it is first asked for, and kept. Input: stack_query.h (the join),
 * counter_names.h. Used by: scan_values.c, through ec_annotator. Thread: the archive's. */
#ifndef EC_QUERY_ANALYSIS_EVENT_ANNOTATIONS_H
#define EC_QUERY_ANALYSIS_EVENT_ANNOTATIONS_H

#include "collector/query/scan/scan.h"

typedef struct ec_annotations ec_annotations;

EA_MUST_CHECK int ec_annotations_create(ec_annotations **ret, ec_archive *archive); /* archive: borrowed */
void ec_annotations_destroy(ec_annotations *l);                                     /* NULL is allowed */

/* For scans; valid as long as l. All stacks of a range are joined when one is asked for: the same range, or one inside
 * it, costs a look-up from then on. A stack's errors: EA_EFULL when more than 8,388,608 events have one; else as
 * ec_stack_query_links. */
ec_annotator ec_annotations_annotator(ec_annotations *l);

#endif
