/* Inside proto/event: values of fields, shared by value.c, render.c and render_values.c. */
#ifndef EA_EVENT_VALUE_H
#define EA_EVENT_VALUE_H

#include "proto/event/event.h"

/* The slice of a top-level field (index into fields[]) of a payload: 1, or 0 when it is not whole there. */
int ea_field_slice(const ea_class *c, size_t field, const uint8_t *payload, size_t payload_bytes, ea_slice *ret);
/* Index of the top-level field of this name, field_count when there is none. */
size_t ea_field_index(const ea_class *c, const char *name);
/* A fixed-width integer type, sign-extended when it has a sign. 0 for other types. */
int ea_value_u64(const ea_field *f, const uint8_t *data, uint64_t *ret);
/* A string field's text as UTF-8 without NUL and count: 1; 0 for other types. */
int ea_value_text(const ea_field *f, const ea_slice *slice, ea_text *out);
/* "S-1-5-18" for a SID or WBEM_SID field: 1; 0 for an absent or impossible one. */
int ea_value_sid(const ea_field *f, uint8_t pointer_size, const ea_slice *slice, ea_text *out);

#endif
