/* Classes of the events of traces that are read in order: built-in ones, those of files and folders of schemas, those
 * that the trace itself contains, those of plug-ins. Called by: cmd_dump.c, relog_forms.c. Thread: the main one. */
#ifndef EA_APP_TRACE_CLASSES_H
#define EA_APP_TRACE_CLASSES_H

#include "proto/event/schema/intrace.h"
#include "service/core/schema_options.h"
#include "service/decode/plugin_decode.h"

typedef struct ea_trace_classes {
    ea_schemas *schemas;
    ea_trace_schemas *from_trace;
    ea_registry *registry;
    ea_plugin_decoder *unfolding;
} ea_trace_classes;

/* *ret is to be closed, also after a failure. Errors: those of reading schemas. */
EA_MUST_CHECK int ea_trace_classes_open(ea_trace_classes *ret, const ea_schema_options *options, ea_err *err);
void ea_trace_classes_close(ea_trace_classes *c);

/* The class of the next event; NULL: it has none. *r becomes what a plug-in makes of it, which is valid until the next
 * call. */
const ea_class *ea_trace_classes_next(ea_trace_classes *c, const ea_record **r);

#endif
