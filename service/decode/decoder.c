/* The decoding step. See decoder.h. */
#include "decoder.h"

#include <stdlib.h>

struct ea_decoder {
    ea_registry *registry;
    ea_slice slices[EA_FIELDS_MAX];
};

int ea_decoder_create(ea_decoder **ret, const ea_schemas *schemas, ea_err *err) {
    ea_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "make a decoder");
    int rc = ea_registry_create(&d->registry, 0, err);
    if (rc) {
        free(d);
        return rc;
    }
    ea_registry_set_schemas(d->registry, schemas);
    *ret = d;
    return 0;
}

void ea_decoder_destroy(ea_decoder *d) {
    if (!d)
        return;
    ea_registry_destroy(d->registry);
    free(d);
}

const ea_class *ea_decoder_find(ea_decoder *d, const ea_record *record, enum ea_counter *ret_outcome) {
    const ea_class *c = ea_registry_find(d->registry, record);
    size_t whole, used;
    if (c->status == EA_CLASS_UNKNOWN) {
        *ret_outcome = EA_COUNT_decode_unknown;
        return c;
    }
    if (c->fixed_fields == c->top_count && record->payload_bytes == c->fixed_bytes) {
        whole = c->top_count;
        used = c->fixed_bytes;
    } else {
        whole = ea_class_split_rest(c, record->payload, record->payload_bytes, d->slices, &used);
    }
    *ret_outcome =
        ea_class_is_whole(c, whole, used, record->payload_bytes) ? EA_COUNT_decode_whole : EA_COUNT_decode_partial;
    return c;
}
