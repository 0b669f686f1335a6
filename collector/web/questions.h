/* The questions with a fixed statement: the API's lists and the named queries are rows of one table each. Called by:
 * api.c. Calls: result.h. Thread: any; the tables are constant. */
#ifndef EC_WEB_QUESTIONS_H
#define EC_WEB_QUESTIONS_H

#include "collector/web/result.h"

/* The handler of lists: the row whose path is the route's. limit, cursor, sort, descending and format are every list's.
 */
EA_MUST_CHECK int ec_list(ec_call *c, ea_err *err);
/* GET /api/v1/queries: the named queries and their parameters; GET /api/v1/queries/{name}: one asked. */
EA_MUST_CHECK int ec_query_names(ec_call *c, ea_err *err);
EA_MUST_CHECK int ec_query_named(ec_call *c, ea_err *err);
/* GET /api/v1/time: a time as people write it, in RFC 3339. */
EA_MUST_CHECK int ec_written_time(ec_call *c, ea_err *err);

/* Parameters that several handlers read. EA_EUSAGE. */
EA_MUST_CHECK int ec_param_time(const ec_call *c, const char *name, int64_t fallback, int64_t *ret, ea_err *err);
/* EA_EUSAGE when a range begins after its end: it has no events. */
EA_MUST_CHECK int ec_param_check_range(int64_t from_ns, int64_t to_ns, ea_err *err);
EA_MUST_CHECK int ec_param_number(const ec_call *c, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                                  ea_err *err);
/* The parameter limit: most rows of a page, or of an export. *ret_is_whole: an export without it, which has all. */
EA_MUST_CHECK int ec_param_limit(const ec_call *c, enum ec_form form, uint64_t *ret, int *ret_is_whole, ea_err *err);
EA_MUST_CHECK int ec_param_form(const ec_call *c, enum ec_form fallback, enum ec_form *ret, ea_err *err);

#endif
