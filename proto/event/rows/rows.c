/* The list of all families. See rows.h. */
#include "rows.h"

const ea_field_row ea_no_fields[1] = {{0}};

const ea_family *const ea_families[] = {
#define X(name) &ea_family_##name,
    EA_FAMILIES(X)
#undef X
};
const size_t ea_family_count = sizeof ea_families / sizeof *ea_families;

const ea_family *const *ea_event_families(size_t *ret_count) {
    *ret_count = ea_family_count;
    return ea_families;
}
