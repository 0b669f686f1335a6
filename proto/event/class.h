/* Inside proto/event: how a class is made. The schema of a class is a row, a description from the wire, or a
 * description found in a trace. One function makes every class from the bytes of its description, so that a class that
 * came over the wire equals the class on the machine that sent it.
 * Input: rows, descriptions. Called by: registry.c and the readers of schemas. Thread: the registry's, or that of the
 * reader of a schema. */
#ifndef EA_EVENT_CLASS_H
#define EA_EVENT_CLASS_H

#include "proto/base/arena.h"
#include "proto/event/event.h"

/* Bounds of a description beside EA_DESCRIPTION_MAX_BYTES and EA_FIELDS_MAX; DESCRIPTIONS.md states them. */
enum {
    EA_DEPTH_MAX = 16,
    EA_NAME_MAX_BYTES = 1024,
    EA_MAPS_MAX = 256,
    EA_MESSAGE_MAX_BYTES = 65535,
    EA_KEYWORDS_MAX = 64
};

/* What a description says about the class as a whole. Strings are borrowed. */
typedef struct ea_class_head {
    ea_guid provider;
    const char *provider_name, *name;
    uint16_t code;
    uint8_t version, classic, pointer_size, kind, status, unfolded;
} ea_class_head;

/* Appends the description of a row's class in one version; row NULL: a class without fields. Sets out->failed when
 * there is no memory. The row is trusted: tests/unit/test_rows.c compiles all of them. */
void ea_class_describe(ea_text *out, const ea_class_head *head, const ea_class_row *row);

/* The same out of fields as a class has them, of which name, type, semantic, count, count_field, child_count, optional,
 * hidden and map are read; for schemas from elsewhere, which ea_class_parse judges. A name longer than allowed is cut.
 * notes: NULL for none. */
void ea_class_describe_fields(ea_text *out, const ea_class_head *head, const ea_field *fields, size_t field_count,
                              const ea_class_notes *notes);

/* Makes a class out of description bytes from anywhere. Everything lives in the arena, the description's copy included.
 * Errors: EA_ECORRUPT, EA_EUNSUPPORTED (a newer format), EA_ENOMEM, EA_ELIMIT (the arena's limit). */
EA_MUST_CHECK int ea_class_parse(ea_arena *arena, const uint8_t *description, size_t len_bytes, ea_class **ret,
                                 ea_err *err);

/* 1 when these bytes, which ea_class_parse has taken, describe an unfolded class. */
int ea_class_describes_decoded(const uint8_t *description);

/* 1 for what may have a map, or count something. */
int ea_type_is_integer(uint8_t type);

/* First half of SHA-256: what names a description. */
EA_MUST_CHECK int ea_class_hash(const uint8_t *description, size_t len_bytes, uint8_t ret_hash[16], ea_err *err);

#endif
