/* The weights of events in a sum by stacks, and what their stacks may lack. Called by: stack_query.h, profile.h, and
 * the code that reads a request. Calls: none. Thread: any. */
#ifndef EC_QUERY_ANALYSIS_WEIGHT_H
#define EC_QUERY_ANALYSIS_WEIGHT_H

#include "proto/base/err.h"

/* What is summed: name, unit, a sentence. */
#define EC_WEIGHTS(X)                                                                                                  \
    X(CPU, "cpu", "nanoseconds",                                                                                       \
      "time on a processor, by samples: each counts for the sampling interval; without Idle")                          \
    X(SAMPLES, "samples", "count", "CPU samples, those of Idle too")                                                   \
    X(PMC, "pmc", "count", "events of a hardware counter, by its samples")                                             \
    X(READY, "ready", "nanoseconds", "time that threads were ready and had no processor")                              \
    X(WAIT, "wait", "nanoseconds", "time that threads waited")                                                         \
    X(DISK, "disk", "nanoseconds", "time that disk requests took, where they were issued")                             \
    X(FAULTS, "faults", "count", "page faults")

enum ec_weight {

#define X(id, name, unit, text) EC_WEIGHT_##id,
    EC_WEIGHTS(X)
#undef X
        EC_WEIGHT_COUNT
};
const char *ec_weight_name(enum ec_weight w);
const char *ec_weight_unit(enum ec_weight w);
/* "cpu", "pmc:CacheMisses", ...: 0, *ret and the counter's name (borrowed from text; NULL for the others); else
 * EA_EUSAGE. */
EA_MUST_CHECK int ec_weight_parse(const char *text, enum ec_weight *ret, const char **ret_counter, ea_err *err);

/* What is known to be missing from the stacks of events: name, what is wrong with such an event's stack. Each event
 * counts under one. What is lost without a trace is not known: see without_stack, and the ledger. */
#define EC_PROFILE_LACKS(X)                                                                                            \
    X(UNANSWERED, "unanswered", "its user half was to come later, and never came")                                     \
    X(LATE, "late", "its user half came when the event had left the window")                                           \
    X(UNDEFINED, "undefined", "a key on it was never defined")                                                         \
    X(NO_ROOM, "no_room", "a half of it had no room in the table of stacks")

enum ec_profile_lack {

#define X(id, name, text) EC_LACKS_##id,
    EC_PROFILE_LACKS(X)
#undef X
        EC_LACKS_COUNT
};
const char *ec_lack_name(enum ec_profile_lack l);
const char *ec_lack_text(enum ec_profile_lack l);

#endif
