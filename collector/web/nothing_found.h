/* What an empty list says: the range that was asked for, what is stored, and a name that is like a misspelt one. Called
 * by: result.c, events.c. Calls: data_times.h, unknown_names.h. Thread: the handler's. */
#ifndef EC_WEB_NOTHING_FOUND_H
#define EC_WEB_NOTHING_FOUND_H

#include "collector/web/result.h"

/* Appends ,"notice":"...","stored":{"from":...,"to":...} to the call's answer; stored is null when there are no events.
 * host: NULL: of all. range: NULL: the question has none. notice: another sentence, which comes first; "": none. */
EA_MUST_CHECK int ec_nothing_found(ec_call *c, const char *host, const ec_asked_range *range, const char *notice,
                                   ea_err *err);

#endif
