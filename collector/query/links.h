/* What other events of its stream say of an event: the stack that was joined to it, and what its hardware counters are
 * called. Worked out for a stream when it is first asked for, and kept as long as the archive.
 * Before it: profile.h (the join), counter_names.h. After it: scan_values.c. Thread: the archive's. */
#ifndef EC_QUERY_LINKS_H
#define EC_QUERY_LINKS_H

#include "counter_names.h"

typedef struct ec_links ec_links;

EA_MUST_CHECK int ec_links_create(ec_links **ret, ec_archive *archive); /* archive: borrowed */
void ec_links_destroy(ec_links *l);                                     /* NULL is allowed */

/* The hash of the stack (ec_stack_sum) of a stream's event at a place (ec_tape_place), whose time is in the range, both
 * ends included: 1 and *ret, 0 when it has none. All stacks of the range are joined for it: the same range, or one
 * inside it, costs a look-up from then on. Errors: EA_EFULL when more than 8,388,608 events have a stack; else as
 * ec_profile_links. */
EA_MUST_CHECK int ec_links_stack(ec_links *l, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                                 uint64_t place, uint64_t *ret, ea_err *err);
/* The configuration of the counters at a place; *ret NULL: there is none. */
EA_MUST_CHECK int ec_links_counters(ec_links *l, const ec_archive_stream *stream, uint64_t place,
                                    const ec_counter_config **ret, ea_err *err);

#endif
