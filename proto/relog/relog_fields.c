/* Fields of events by name, for programs with a relogger. See relog.h. Called by: programs of others. Calls:
 * proto/event. Thread: its owner's. */
#include "proto/event/encode.h"
#include "proto/event/schema/catalogue.h"
#include "proto/event/schema/intrace.h"
#include "proto/event/schema/load.h"
#include "proto/relog/relog.h"

#include <stdlib.h>
#include <string.h>

enum { PAYLOAD_MAX = 65000 }; /* with any header it is a record */

_Static_assert(sizeof(ea_relog_event) == sizeof(ea_record) && sizeof(ea_relog_item) == sizeof(ea_ext),
               "an event of relog.h is a record");

struct ea_relog_fields {
    ea_schemas *schemas;
    ea_trace_schemas *from_trace;
    ea_registry *registry;
    ea_arena arena;
    ea_text text;
    uint8_t payload[PAYLOAD_MAX], written[PAYLOAD_MAX];
};

int ea_relog_fields_create(ea_relog_fields **ret) {
    ea_relog_fields *f = calloc(1, sizeof *f);
    if (!f)
        return EA_ENOMEM;
    ea_arena_init(&f->arena, 0);
    ea_text_init(&f->text);
    int rc = ea_schemas_create(&f->schemas, 0, NULL);
    if (!rc)
        rc = ea_trace_schemas_create(&f->from_trace, f->schemas, NULL);
    if (!rc)
        rc = ea_registry_create(&f->registry, 0, NULL);
    if (rc) {
        ea_relog_fields_destroy(f);
        return rc;
    }
    ea_catalogue_use(f->schemas);
    ea_registry_set_schemas(f->registry, f->schemas);
    *ret = f;
    return 0;
}

void ea_relog_fields_destroy(ea_relog_fields *fields) {
    if (!fields)
        return;
    ea_registry_destroy(fields->registry);
    ea_trace_schemas_destroy(fields->from_trace);
    ea_schemas_destroy(fields->schemas);
    ea_arena_deinit(&fields->arena);
    ea_text_deinit(&fields->text);
    free(fields);
}

int ea_relog_fields_manifest(ea_relog_fields *fields, const char *path) {
    int rc = ea_schema_file_load(fields->schemas, path, NULL, NULL);
    ea_registry_schemas_changed(fields->registry);
    return rc;
}

void ea_relog_fields_learn(ea_relog_fields *fields, const ea_relog_event *event) {
    const ea_record *r = (const ea_record *)event;
    if (ea_trace_schemas_concerns(r) && ea_trace_schemas_feed(fields->from_trace, r))
        ea_registry_schemas_changed(fields->registry);
}

static const ea_class *fields_class(ea_relog_fields *fields, const ea_relog_event *event) {
    return ea_registry_find(fields->registry, (const ea_record *)event);
}

const char *ea_relog_event_name(ea_relog_fields *fields, const ea_relog_event *event) {
    return fields_class(fields, event)->name;
}

int ea_relog_get_number(ea_relog_fields *fields, const ea_relog_event *event, const char *field, uint64_t *ret) {
    return ea_event_u64(fields_class(fields, event), (const ea_record *)event, field, ret) ? 0 : EA_ENOTFOUND;
}

const char *ea_relog_get_text(ea_relog_fields *fields, const ea_relog_event *event, const char *field) {
    ea_text_clear(&fields->text);
    if (!ea_event_text(fields_class(fields, event), (const ea_record *)event, field, &fields->text))
        return NULL;
    ea_text_char(&fields->text, 0);
    return fields->text.failed ? NULL : fields->text.data;
}

/* Writes the payload anew with another value of one field, whose kind it has. */
static int fields_set(ea_relog_fields *fields, ea_relog_event *event, const char *field, const ea_event_value *value) {
    const ea_class *c = fields_class(fields, event);
    const ea_event_value *read;
    size_t count, used, bytes, at = 0;
    ea_arena_reset(&fields->arena);
    int rc = ea_event_read_values(c, event->payload, event->payload_bytes, &fields->arena, &read, &count, &used, NULL);
    if (rc)
        return rc;
    while (at < count && strcmp(c->fields[ea_class_top_field(c, at)].name, field) != 0)
        at++;
    if (at == count)
        return EA_ENOTFOUND;
    ea_event_value *values = ea_arena_copy(&fields->arena, read, count * sizeof *values);
    if (!values)
        return EA_ENOMEM;
    if (values[at].kind == EA_VALUE_LIST || (value->kind == EA_VALUE_NUMBER) != (values[at].kind == EA_VALUE_NUMBER))
        return EA_EINVAL;
    if (value->kind == EA_VALUE_TEXT)
        ea_event_set_text(c, values, at, value->data, value->count);
    else
        values[at] = *value;
    rc = ea_event_write_values(c, values, count, fields->written, sizeof fields->written, &bytes, NULL);
    size_t rest = event->payload_bytes - used;
    if (!rc && rest > sizeof fields->written - bytes)
        rc = EA_ELIMIT;
    if (rc)
        return rc;
    if (rest)
        memcpy(fields->written + bytes, event->payload + used, rest);
    memcpy(fields->payload, fields->written, bytes + rest); /* the event may have its payload here already */
    event->payload = fields->payload;
    event->payload_bytes = (uint16_t)(bytes + rest);
    return 0;
}

int ea_relog_set_number(ea_relog_fields *fields, ea_relog_event *event, const char *field, uint64_t value) {
    return fields_set(fields, event, field, &(ea_event_value){.kind = EA_VALUE_NUMBER, .number = value});
}

int ea_relog_set_text(ea_relog_fields *fields, ea_relog_event *event, const char *field, const char *text) {
    return fields_set(fields, event, field,
                      &(ea_event_value){.kind = EA_VALUE_TEXT, .data = text, .count = strlen(text)});
}
