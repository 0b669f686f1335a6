/* How the value of a field looks: numbers, text, bytes, addresses, names beside numbers, structs and arrays.
 * What came from an event passes an escaping function here. For render.c alone. Thread: any. */
#ifndef EA_EVENT_RENDER_VALUES_H
#define EA_EVENT_RENDER_VALUES_H

#include "proto/event/render.h"

enum ea_style_form {
    EA_FORM_JSON,
    EA_FORM_PLAIN,  /* text */
    EA_FORM_BARE,   /* text whose strings have no quotes: the caller escapes it */
    EA_FORM_MESSAGE /* the same inside a sentence: names instead of numbers that have one */
};

/* What names may add to an event's text. A schema may name each byte of a payload, and insert it into a message again
 * and again: beyond EA_RENDER_MAX_BYTES names are missing, arrays end with their rest in hex, messages with "...". */
typedef struct ea_render_bound {
    size_t end_bytes; /* of out */
    size_t work;      /* entries of maps that may be looked at */
} ea_render_bound;

/* How values look, and what is known beside the record; resolver and clock are NULL where values stay bare. */
typedef struct ea_render_style {
    enum ea_style_form form;
    const ea_resolver *resolver;
    const ea_clock *clock;
    const ea_record *record;
    int64_t utc_ns; /* of the record */
    ea_render_bound *bound;
} ea_render_style;

/* Of an event, or a value, that is appended to out. */
ea_render_bound ea_render_bound_of(const ea_text *out);

/* All append to out, which notes by itself when memory is out. */
void ea_render_put_hex(ea_text *out, const ea_render_style *how, uint64_t v);
void ea_render_put_bytes(ea_text *out, const ea_render_style *how, const uint8_t *data, size_t len_bytes);
/* UTF-8 from an event or a schema. */
void ea_render_put_text(ea_text *out, const ea_render_style *how, const char *s, size_t len_bytes);
/* The name of a class, field or provider: without quotes in text. */
void ea_render_put_name(ea_text *out, const ea_render_style *how, const char *s);
void ea_render_put_integer(ea_text *out, const ea_render_style *how, const ea_class *c, const ea_field *f, uint64_t v);
/* A whole field of c as ea_class_split found it, arrays and structs too. */
void ea_render_put_value(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field,
                         const ea_slice *slice);

#endif
