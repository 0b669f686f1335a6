/* The kernel events that the model logs. See forms.h. */
#include "tests/tracegen/forms.h"

#include <stddef.h>

#define X(name, group, header, hook, v10, v8, v7, ...) static const char *const fields_##name[] = {__VA_ARGS__, NULL};
TG_FORMS(X)
#undef X

const tg_form tg_forms[TG_FORM_COUNT] = {
#define X(name, group, header, hook, v10, v8, v7, ...)                                                                 \
    [TG_##name] = {TG_GROUP_##group, TG_##header, hook, {v10, v8, v7}, fields_##name},
    TG_FORMS(X)
#undef X
};

const char *const tg_group_names[TG_GROUP_COUNT + 1] = {
#define X(name, text) #text,
    TG_GROUPS(X)
#undef X
        NULL};
