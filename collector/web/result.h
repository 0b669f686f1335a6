/* Answers that are rows of a statement: JSON with paging, CSV, one JSON object a line. Called by: the handlers. Calls:
 * ask.h. Thread: the handler's. */
#ifndef EC_WEB_RESULT_H
#define EC_WEB_RESULT_H

#include "collector/query/sql/ask.h"
#include "collector/web/call.h"

enum ec_form {
    EC_FORM_ITEMS, /* {"items": [{...}], "next": cursor, "ending": "whole", "damaged": 0} */
    EC_FORM_ONE,   /* the first row as an object, with "damaged" and "behind"; EA_ENOTFOUND without one */
    EC_FORM_ARRAY, /* {"columns": [{"name", "type"}], "rows": [[...]], "ending", "damaged"}, and "notice" */
    EC_FORM_CSV,   /* RFC 4180, sent as it comes */
    EC_FORM_JSONL, /* likewise */
};

/* Both ends are included; INT64_MIN + 1 and INT64_MAX - 1: open. */
typedef struct ec_asked_range {
    int64_t from_ns, to_ns;
} ec_asked_range;

typedef struct ec_result {
    const char *sql, *host; /* host NULL: of all */
    const ec_value *params;
    size_t param_count;
    int is_written; /* as of ec_question */
    uint64_t limit_rows;
    enum ec_form form;
    /* paging: the statement gives one row more than limit_rows when there are more; a cursor is the place of the next
     * row. has_pages 0: EC_ENDED_ROWS says that there are more */
    int has_pages;
    uint64_t offset;
    const char *subject; /* a statement whose row is the params again, without which the answer is 404; NULL: none */
    const char *missing; /* the sentence of a 404; NULL: "there is no such thing" */
    int is_empty_without_table;  /* a class that was never stored has no table: no rows then */
    int names_class;             /* ... which the caller names: one that is unknown is an error */
    const ec_asked_range *range; /* that was asked for; NULL: the question has none */
} ec_result;

/* Asks, and fills the call's answer (or sends it in pieces). */
EA_MUST_CHECK int ec_result_answer(ec_call *c, const ec_result *q, ea_err *err);

/* Whether a question failed for a table that is not there: a class of which no event is stored, or a name that no class
 * has. */
int ec_result_is_no_table(int rc, const ea_err *err);

/* Appends a cell as a JSON value: whole numbers beyond 2^53, which JavaScript cannot represent exactly, as texts. */
void ec_result_json_cell(ea_text *out, ea_text *scratch, const ec_value *v, const char *type);

#endif
