/* The decoding step. See decoder.h. */
#include "service/decode/decoder.h"
#include "proto/event/schema/intrace.h"
#include "service/decode/plugin_decode.h"

#include <stdlib.h>

struct ea_decoder {
    ea_registry *registry;
    ea_schemas *own;              /* NULL: the caller's are used */
    ea_schemas *schemas;          /* these */
    ea_schema_resolver *resolver; /* NULL: no resolver */
    ea_trace_schemas *from_trace;
    ea_plugin_decoder *unfolding;
};

int ea_decoder_create(ea_decoder **ret, ea_schemas *schemas, const ea_schema_lookup *ask, ea_err *err) {
    ea_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "make a decoder");
    int rc = ea_registry_create(&d->registry, 0, err);
    if (!rc && !schemas) {
        rc = ea_schemas_create(&d->own, 0, err);
        schemas = d->own;
    }
    if (!rc)
        rc = ea_trace_schemas_create(&d->from_trace, schemas, err);
    d->schemas = schemas;
    if (!rc && ask)
        rc = ea_schema_resolver_create(&d->resolver, ask, err);
    if (!rc)
        rc = ea_plugin_decoder_create(&d->unfolding, d->registry, schemas, err);
    if (rc) {
        ea_decoder_destroy(d);
        return rc;
    }
    ea_registry_set_schemas(d->registry, schemas);
    *ret = d;
    return 0;
}

void ea_decoder_destroy(ea_decoder *d) {
    if (!d)
        return;
    ea_schema_resolver_destroy(d->resolver);
    ea_plugin_decoder_destroy(d->unfolding);
    ea_registry_destroy(d->registry);
    ea_trace_schemas_destroy(d->from_trace);
    ea_schemas_destroy(d->own);
    free(d);
}

/* For an event whose class is unknown in this version: requests its schema, and returns the class as of now. Events
 * with their own metadata, and WPP messages, have no schema that the resolver could find. */
static EA_RARE const ea_class *ask_for(ea_decoder *d, const ea_record *record, const ea_class *c) {
    if (record->flags & EA_FLAG_TRACE_MESSAGE || ea_record_ext(record, EA_EXT_SCHEMA_TL) ||
        !ea_schema_resolver_request(d->resolver, record, d->schemas))
        return c;
    ea_registry_schemas_changed(d->registry);
    return ea_registry_find(d->registry, record);
}

uint64_t ea_decoder_unread(const ea_decoder *d) {
    return ea_plugin_decoder_failures(d->unfolding);
}

const ea_class *ea_decoder_find(ea_decoder *d, const ea_record **in_out, enum ea_counter *ret_outcome) {
    const ea_record *record = *in_out;
    size_t whole, used;
    if (ea_trace_schemas_concerns(record) && ea_trace_schemas_feed(d->from_trace, record))
        ea_registry_schemas_changed(d->registry);
    const ea_class *c = ea_registry_find(d->registry, record);
    if (c->status != EA_CLASS_KNOWN && d->resolver && !ea_plugin_decodes(d->unfolding, c))
        c = ask_for(d, record, c);
    if (c->status == EA_CLASS_UNKNOWN) {
        const ea_class *unfolded = ea_plugin_decoder_run(d->unfolding, in_out, c);
        *ret_outcome = unfolded == c ? EA_COUNT_decode_unknown : EA_COUNT_decode_whole;
        return unfolded;
    }
    if (c->fixed_fields == c->top_count && record->payload_bytes == c->fixed_bytes) {
        whole = c->top_count;
        used = c->fixed_bytes;
    } else {
        whole = ea_class_places(c, record->payload, record->payload_bytes, NULL, &used);
    }
    *ret_outcome =
        ea_class_is_whole(c, whole, used, record->payload_bytes) ? EA_COUNT_decode_whole : EA_COUNT_decode_partial;
    return c;
}
