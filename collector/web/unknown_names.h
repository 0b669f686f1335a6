/* Names in a request of which nothing is stored: a provider, a stream, a level, a program. Called by: result.c,
 * events.c, nothing_found.c. Calls: ask.h. Thread: the handler's. */
#ifndef EC_WEB_UNKNOWN_NAMES_H
#define EC_WEB_UNKNOWN_NAMES_H

#include "collector/web/call.h"

/* After an answer without rows: EA_EUSAGE, with the nearest stored name, when nothing is stored of a name that a
 * parameter has. host: of the question; NULL for all that the caller may see. */
EA_MUST_CHECK int ec_unknown_names_check(ec_call *c, const char *host, ea_err *err);
/* Appends "; no stored process has a ... with ..." for each parameter that is a part of a name, when no stored name has
 * that part, with the nearest stored name. */
EA_MUST_CHECK int ec_unknown_names_note(ec_call *c, const char *host, ea_text *out, ea_err *err);

#endif
