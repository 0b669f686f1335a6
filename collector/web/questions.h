/* The questions with a fixed statement: the API's lists and the named queries are rows of one table each.
 * Before it: api.c. After it: rows.h. Thread: any; the tables are constant. */
#ifndef EC_WEB_QUESTIONS_H
#define EC_WEB_QUESTIONS_H

#include "rows.h"

enum { EC_QUESTION_PARAMS_MAX = 8 };

enum ec_param_kind {
    EC_PARAM_TEXT,
    EC_PARAM_LIKE, /* a part of a text; case does not matter */
    EC_PARAM_HOST, /* an agent's name: only what it sent is looked at; "" or not given: all */
    EC_PARAM_TIME, /* RFC 3339, or ns since 1970 */
    EC_PARAM_NUMBER,
    EC_PARAM_WIDTH, /* a duration: "1s" */
};

typedef struct ec_param_spec {
    const char *name; /* of a part of the path, or of a parameter; NULL ends the list */
    enum ec_param_kind kind;
    const char *fallback; /* NULL: it has to be given */
} ec_param_spec;

enum ec_fixed_kind {
    EC_FIXED_LIST,
    EC_FIXED_ONE,
    EC_FIXED_HOSTS, /* a row for each host: of all rows only what they are sorted by is read, of a page's rows the rest
                     */
};

typedef struct ec_fixed {
    const char *name;  /* of a named query; its route's path otherwise */
    const char *text;  /* one sentence for a person */
    const char *sql;   /* ?1 ... are params, in their order */
    const char *order; /* ORDER BY when nobody says; NULL: as the statement gives them */
    ec_param_spec params[EC_QUESTION_PARAMS_MAX];
    enum ec_fixed_kind kind;
} ec_fixed;

extern const ec_fixed EC_LISTS[];   /* ends with a NULL name */
extern const ec_fixed EC_QUERIES[]; /* likewise */

/* Answers with the rows of f; parameters are the call's. limit, cursor, sort, descending and format are every list's.
 */
EA_MUST_CHECK int ec_fixed_answer(ec_call *c, const ec_fixed *f, ea_err *err);
/* The route's handler: f is the row of EC_LISTS with its path. */
EA_MUST_CHECK int ec_list(ec_call *c, ea_err *err);
/* GET /api/v1/queries: the named queries and their parameters; GET /api/v1/queries/{name}: one asked. */
EA_MUST_CHECK int ec_query_names(ec_call *c, ea_err *err);
EA_MUST_CHECK int ec_query_named(ec_call *c, ea_err *err);

/* Parameters that several handlers read. EA_EUSAGE. */
EA_MUST_CHECK int ec_param_time(const ec_call *c, const char *name, int64_t fallback, int64_t *ret, ea_err *err);
EA_MUST_CHECK int ec_param_number(const ec_call *c, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                                  ea_err *err);
EA_MUST_CHECK int ec_param_form(const ec_call *c, enum ec_form fallback, enum ec_form *ret, ea_err *err);

#endif
