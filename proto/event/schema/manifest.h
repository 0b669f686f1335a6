/* Instrumentation manifests (.man files, and what EventSource writes into a trace) into schemas. Input: a file or
 * intrace.c. Output: schemas.h. Thread: any. */
#ifndef EA_EVENT_SCHEMA_MANIFEST_H
#define EA_EVENT_SCHEMA_MANIFEST_H

#include "proto/event/schemas.h"

/* One mistake: its place (from 1; 0 in a file without lines) and its description, as "event 7: template 'T' is not
 * defined: expected ...". */
typedef void (*ea_problem_fn)(void *arg, unsigned long line, unsigned long column, const char *text);

typedef struct ea_manifest_options {
    const char *file;     /* its name in messages and as the origin */
    const char *language; /* of texts: "en-US"; NULL: that. Without texts in it, the first ones that there are. */
    enum ea_schema_layer layer;
    ea_problem_fn on_problem; /* NULL: none */
    void *arg;
} ea_manifest_options;

typedef struct ea_manifest_result {
    size_t providers, events, problems;
    int changed; /* schemas that were not there like that before */
} ea_manifest_result;

enum { EA_MANIFEST_MAX_BYTES = 64 << 20 };

/* Reads a manifest and adds its contents; an event with a mistake is skipped, and the mistake is reported. into: NULL
 * to check only. Errors: the data are not a manifest: EA_EFORMAT with "FILE:LINE:COLUMN: what". EA_ELIMIT,
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_manifest_read(ea_schemas *into, const void *data, size_t len_bytes,
                                   const ea_manifest_options *options, ea_manifest_result *ret, ea_err *err);

#endif
