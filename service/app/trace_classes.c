/* See trace_classes.h. */
#include "service/app/trace_classes.h"

int ea_trace_classes_open(ea_trace_classes *ret, const ea_schema_options *options, ea_err *err) {
    *ret = (ea_trace_classes){0};
    int rc = ea_schema_options_read(&ret->schemas, options, err);
    if (!rc)
        rc = ea_trace_schemas_create(&ret->from_trace, ret->schemas, err);
    if (!rc)
        rc = ea_registry_create(&ret->registry, 0, err);
    if (!rc)
        ea_registry_set_schemas(ret->registry, ret->schemas);
    return rc ? rc : ea_plugin_decoder_create(&ret->unfolding, ret->registry, ret->schemas, err);
}

void ea_trace_classes_close(ea_trace_classes *c) {
    ea_plugin_decoder_destroy(c->unfolding);
    ea_registry_destroy(c->registry);
    ea_trace_schemas_destroy(c->from_trace);
    ea_schemas_destroy(c->schemas);
}

const ea_class *ea_trace_classes_next(ea_trace_classes *c, const ea_record **r) {
    if (ea_trace_schemas_concerns(*r) && ea_trace_schemas_feed(c->from_trace, *r))
        ea_registry_schemas_changed(c->registry);
    return ea_plugin_decoder_run(c->unfolding, r, ea_registry_find(c->registry, *r));
}
