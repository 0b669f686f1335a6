/* A row of a statement of rules_store.h that rules matched: what is kept of it, as texts of bounded length. Called by:
 * detector.c, the command rules test. Calls: proto/rules, correlations.h. Thread: the owner's. */
#ifndef EC_DETECT_MATCHED_ROW_H
#define EC_DETECT_MATCHED_ROW_H

#include "collector/detect/correlations.h"
#include "collector/detect/rules_store.h"
#include "collector/query/scan/cell.h"
#include "proto/base/arena.h"

enum {
    EC_MATCHED_FIELD_MAX = 8192, /* bytes of a field */
    EC_MATCHED_ROW_MAX = 32768,  /* bytes of all of them, as JSON */
};

typedef struct ec_matched_row {
    ea_arena *arena; /* borrowed: what is kept is in it */
    /* The row at hand, borrowed: cells by column, as texts; looks EC_LOOK_EMPTY: it has no value. */
    const ec_rules_statement *statement;
    const ea_text *cells;
    const enum ec_look *looks;
    ea_text json, cut, group; /* of the functions; json: its owner may use it between them */
} ec_matched_row;

void ec_matched_row_init(ec_matched_row *r, ea_arena *arena);
void ec_matched_row_deinit(ec_matched_row *r);

/* Adds a text to r->json that takes at most limit_bytes and its quotation marks. */
void ec_matched_row_add_cut(ec_matched_row *r, const char *value, size_t len_bytes, size_t limit_bytes);
/* The name of the process's program; NULL: it is not known, or no memory. */
const char *ec_matched_row_process(ec_matched_row *r);
/* A JSON object of the fields that rules name; NULL: no memory. */
const char *ec_matched_row_fields(ec_matched_row *r);
/* What a correlation compares of the row: sets the hit's group, fields, value and process. EA_ENOMEM. */
EA_MUST_CHECK int ec_matched_row_hit(ec_matched_row *r, const ea_rule_correlation *correlation,
                                     ec_correlation_hit *ret);

#endif
