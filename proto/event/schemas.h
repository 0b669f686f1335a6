/* Schemas that came from outside: manifests, resources of DLLs, what a trace says of its own events. A schema is a
 * class description (DESCRIPTIONS.md) for a pointer size of 8; the registry asks here for what no row knows. Input:
 * proto/event/schema, which reads them. Used by: registry.c. Thread: its owner's; a registry that uses it belongs to
 * the same thread. */
#ifndef EA_EVENT_SCHEMAS_H
#define EA_EVENT_SCHEMAS_H

#include "proto/event/event.h"

/* Where a schema is from, in the order in which they are asked. */
enum ea_schema_layer {
    EA_SCHEMA_TRACE,     /* the trace itself */
    EA_SCHEMA_PLUGIN,    /* a decoder that a user wrote */
    EA_SCHEMA_GIVEN,     /* a file that a user named */
    EA_SCHEMA_CATALOGUE, /* what ships with the program */
    EA_SCHEMA_WINDOWS,   /* what Windows' TDH says on this machine */
    EA_SCHEMA_LAYERS
};

typedef struct ea_schemas ea_schemas;

/* What is known of a provider as a whole. Strings are borrowed. */
typedef struct ea_schema_provider {
    ea_guid guid;
    const char *name;
    const char *origin;  /* the file, or "trace" */
    const char *message; /* what the provider is; "" */
    size_t keyword_count;
    const ea_map_entry *keywords;
    size_t level_count; /* levels of its own */
    const ea_map_entry *levels;
    uint8_t layer; /* enum ea_schema_layer */
} ea_schema_provider;

/* One event's schema; borrowed until the next ea_schemas_add or destroy. */
typedef struct ea_schema {
    const uint8_t *description;
    uint32_t len_bytes;
    uint8_t layer;
} ea_schema;

/* limit_bytes: of all that is kept; 0: 256 MiB. */
EA_MUST_CHECK int ea_schemas_create(ea_schemas **ret, size_t limit_bytes, ea_err *err);
void ea_schemas_destroy(ea_schemas *s); /* NULL is allowed */

/* Adds the schema of one event, in place of one of the same layer, provider, code and version. Copies. Errors: what
 * ea_class_parse says, EA_ELIMIT. *ret_changed: 1 when it was not there like that; may be NULL. */
EA_MUST_CHECK int ea_schemas_add(ea_schemas *s, enum ea_schema_layer layer, const uint8_t *description,
                                 size_t len_bytes, int *ret_changed, ea_err *err);
/* Adds what is known of a provider, in place of what the same layer knew. Copies. */
EA_MUST_CHECK int ea_schemas_add_provider(ea_schemas *s, const ea_schema_provider *provider, ea_err *err);

/* Adds what another set holds, each in its layer, as far as there is room. 1 when something was not there like that. */
int ea_schemas_merge(ea_schemas *s, const ea_schemas *from);

/* The schema of an event: 1; 0 when there is none. Of this version, or with *ret_newer = 1 of the highest one below it,
 * if that is the highest of all. */
int ea_schemas_find(ea_schemas *s, const ea_guid *provider, uint16_t code, uint8_t version, int classic, ea_schema *ret,
                    int *ret_newer);
/* NULL when nothing is known. */
const ea_schema_provider *ea_schemas_find_provider(ea_schemas *s, const ea_guid *guid);
/* 1 when this layer describes exactly this event. */
int ea_schemas_has(const ea_schemas *s, enum ea_schema_layer layer, const ea_guid *provider, uint16_t code,
                   uint8_t version, int classic);

/* fn is asked when an event or provider is looked for that no layer knows: it may add what it knows of the provider,
 * and returns 1 when it did. Not asked again for a provider of which it added something. */
typedef int (*ea_schemas_resort)(ea_schemas *s, const ea_guid *provider);
void ea_schemas_set_last_resort(ea_schemas *s, ea_schemas_resort fn);

/* What unfolds the payloads of unfolded classes: a plug-in's functions. */
typedef struct ea_payload_decoder {
    void *arg;
    /* Writes the values of a record's payload, as the fields of c, the unfolded class, before the last one describe
     * them, to out: 1, with their bytes in *ret_bytes; 0: it cannot. Any thread, several at a time. */
    int (*unfold)(const void *arg, const ea_class *c, const ea_record *record, uint8_t *out, size_t room_bytes,
                  size_t *ret_bytes);
    void (*destroy)(void *arg);
    uint64_t hash; /* of the functions: other ones may give other values */
} ea_payload_decoder;

/* Takes it, with what it says in unfolder->arg; destroyed with the schemas. Once. */
void ea_schemas_set_payload_decoder(ea_schemas *s, const ea_payload_decoder *unfolder);
const ea_payload_decoder *ea_schemas_payload_decoder(const ea_schemas *s); /* NULL: none */

size_t ea_schemas_provider_count(const ea_schemas *s);
const ea_schema_provider *ea_schemas_provider_at(const ea_schemas *s, size_t i); /* in the order of their coming */
/* All schemas, in no order: start with *cursor = 0; 0 at the end. */
int ea_schemas_next(const ea_schemas *s, size_t *cursor, ea_schema *ret);
size_t ea_schemas_count(const ea_schemas *s);

/* The registry asks these schemas for what no row knows. Borrowed until it is destroyed; NULL: none. */
void ea_registry_set_schemas(ea_registry *r, ea_schemas *schemas);
/* Some were added or replaced: records get their classes anew. Classes that were handed out stay. */
void ea_registry_schemas_changed(ea_registry *r);

#endif
