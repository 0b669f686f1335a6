/* A cell of an answer as text, by the type that its column is declared with (table_schema.h). Input: ask.h. Used by:
 * the command query, collector/web. Thread: any. */
#ifndef EC_QUERY_SCAN_CELL_H
#define EC_QUERY_SCAN_CELL_H

#include "collector/query/scan/scan.h"
#include "proto/base/text.h"

enum ec_look { EC_LOOK_EMPTY, EC_LOOK_NUMBER, EC_LOOK_WORD };

/* Puts the cell's text in place of t's: times as RFC 3339, addresses and HEX as "0x…", blobs as hex digits. The result
 * says whether it is a number (as JSON writes one) or a text; NULL is empty. */
enum ec_look ec_cell_text(ea_text *t, const ec_value *v, const char *type);

#endif
