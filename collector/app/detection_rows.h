/* Detections as JSON, for the commands that print and send them. Called by: cmd_detections.c, which has it,
 * cmd_detections_send.c. Thread: any. */
#ifndef EC_APP_DETECTION_ROWS_H
#define EC_APP_DETECTION_ROWS_H

#include "proto/base/text.h"

#include <sqlite3.h>

/* The columns of a statement whose rows are printed, of the table detections with the alias d; text: an expression for
 * the rule's text. */
#define EC_DETECTION_COLUMNS(text)                                                                                     \
    "detection_id, utc_ns, host, level, title, rule, source, state, who, comment, state_utc_ns, pid, process, stream," \
    " batch, position, fields, found_utc_ns, tags, " text ", chain"

enum ec_detection_parts { EC_DETECTION_CHAIN = 1, EC_DETECTION_RULE_TEXT = 2 };

void ec_detection_add_json(ea_text *t, sqlite3_stmt *row, unsigned parts);

#endif
