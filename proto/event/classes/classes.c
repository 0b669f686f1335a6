/* The list of all families. See classes.h. */
#include "proto/event/classes/classes.h"

const ea_family *const ea_families[] = {
#define X(name) &ea_family_##name,
    EA_FAMILIES(X)
#undef X
};
const size_t ea_family_count = sizeof ea_families / sizeof *ea_families;

static const char *const NAMES[] = {"other",
#define X(name) #name,
                                    EA_FAMILIES(X)
#undef X
};
_Static_assert(sizeof NAMES / sizeof *NAMES <= 255, "a family's number is a byte");

uint8_t ea_event_family_of(const ea_guid *provider, int classic) {
    for (size_t i = 0; i < ea_family_count; i++)
        if (ea_families[i]->provider->classic == classic && ea_guid_equal(&ea_families[i]->provider->guid, provider))
            return (uint8_t)(i + 1);
    return 0;
}

const char *ea_event_family_name(uint8_t family) {
    return NAMES[family < sizeof NAMES / sizeof *NAMES ? family : 0];
}

const ea_family *const *ea_event_families(size_t *ret_count) {
    *ret_count = ea_family_count;
    return ea_families;
}
