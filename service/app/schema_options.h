/* The options with which a command is told of schemas, and reading them. Before it: a command line. After it:
 * proto/event/schema. Thread: the main one. */
#ifndef EA_APP_SCHEMA_OPTIONS_H
#define EA_APP_SCHEMA_OPTIONS_H

#include "cli.h"
#include "schemas.h"

/* A command's options struct has one of these; EA_SCHEMA_OPTIONS makes its rows. */
typedef struct ea_schema_options {
    ea_strings manifests, tmfs;
    const char *language; /* of manifests' texts; NULL: "en-US" */
} ea_schema_options;

// clang-format off
#define EA_SCHEMA_OPTIONS(owner, member)                                                                               \
    {.name = "manifest", .letter = 'm', .argument = "FILE", .type = EA_OPT_STRINGS,                                    \
     .offset = offsetof(owner, member) + offsetof(ea_schema_options, manifests),                                       \
     .help = "decode events of the providers that this instrumentation manifest (.man) or PE file (exe, dll, mui) "        \
             "describes; may be repeated"},                                                                            \
    {.name = "language", .argument = "LANGUAGE", .type = EA_OPT_STRING,                                                \
     .offset = offsetof(owner, member) + offsetof(ea_schema_options, language),                                        \
     .help = "of manifests' texts, such as de-DE; what it lacks is in English, or else in any (default: en-US)"},      \
    {.name = "tmf", .argument = "FILE", .type = EA_OPT_STRINGS,                                                        \
     .offset = offsetof(owner, member) + offsetof(ea_schema_options, tmfs),                                            \
     .help = "decode the WPP messages that this trace message format file (.tmf) describes; may be repeated"}
// clang-format on

/* Makes a set with what the options name. Errors: those of the files, with their names and places. */
EA_MUST_CHECK int ea_schema_options_read(ea_schemas **ret, const ea_schema_options *options, ea_err *err);
/* A number that says which schemas somebody named, whatever their order; 0 when none are, or NULL. */
uint64_t ea_schema_options_hash(const ea_schemas *schemas);

#endif
