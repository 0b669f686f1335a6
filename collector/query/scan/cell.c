/* Cells as text. See cell.h. */
#include "collector/query/scan/cell.h"

#include "collector/state/state_db.h"
#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum ec_look ec_cell_text(ea_text *t, const ec_value *v, const char *type) {
    ea_text_clear(t);
    switch (v->type) {
    case EC_NULL:
        return EC_LOOK_EMPTY;
    case EC_INT:
        if (strcmp(type, "TIME") == 0)
            ea_text_utc_ns(t, v->i);
        else if (strcmp(type, "ADDRESS") == 0)
            ea_text_hex64(t, ec_u64_from_sql(v->i));
        else if (strcmp(type, "HEX") == 0)
            ea_text_hex64(t, (uint64_t)v->i);
        else {
            ea_text_i64(t, v->i);
            return EC_LOOK_NUMBER;
        }
        return EC_LOOK_WORD;
    case EC_REAL:
        if (v->r - v->r != 0) {
            ea_text_str(t, v->r > 0 ? "Infinity" : "-Infinity");
            return EC_LOOK_WORD;
        }
        ea_text_printf(t, "%.15g", v->r);
        if (strtod(t->data ? t->data : "", NULL) != v->r) {
            ea_text_clear(t);
            ea_text_printf(t, "%.17g", v->r);
        }
        return EC_LOOK_NUMBER;
    case EC_BLOB:
        ea_text_hex(t, v->data, v->len_bytes);
        return EC_LOOK_WORD;
    default:
        ea_text_add(t, v->data, v->len_bytes);
        return EC_LOOK_WORD;
    }
}
