/* The options of schemas of a command or of the agent's configuration, and their reading. Called by: commands,
 * agent_config.c. Calls: proto/event/schemas.h. Thread: its caller's. */
#ifndef EA_CORE_SCHEMA_OPTIONS_H
#define EA_CORE_SCHEMA_OPTIONS_H

#include "proto/base/cli.h"
#include "proto/event/schemas.h"

/* A command's options struct has one of these; EA_SCHEMA_OPTIONS makes its rows. */
typedef struct ea_schema_options {
    ea_strings manifests, tmfs;
    const char *folder;   /* NULL: none */
    const char *plugins;  /* a folder; NULL: none */
    const char *language; /* of manifests' texts */
} ea_schema_options;

/* base: the offset of the ea_schema_options in the target. */
#define EA_SCHEMA_OPTIONS(base)                                                                                        \
    {.name = "manifest",                                                                                               \
     .letter = 'm',                                                                                                    \
     .argument = "FILE",                                                                                               \
     .type = EA_OPT_STRINGS,                                                                                           \
     .offset = (base) + offsetof(ea_schema_options, manifests),                                                        \
     .help = "decode events of the providers that this instrumentation manifest (.man), PE file (exe, dll, mui) or "   \
             "schema cache describes; may be repeated"},                                                               \
        {.name = "manifest-folder",                                                                                    \
         .argument = "DIR",                                                                                            \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_schema_options, folder),                                                       \
         .help = "the same of all files in this folder whose names end in .man, .dll, .exe, .sys, .schemas or .tmf"},  \
        {.name = "tmf",                                                                                                \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = (base) + offsetof(ea_schema_options, tmfs),                                                         \
         .help = "decode the WPP messages that this trace message format file (.tmf) describes; may be repeated"},     \
        {.name = "plugins",                                                                                            \
         .argument = "DIR",                                                                                            \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_schema_options, plugins),                                                      \
         .help = "decode the events that the plug-ins (.so, .dll) in this folder describe"},                           \
    {                                                                                                                  \
        .name = "language", .argument = "LANGUAGE", .type = EA_OPT_STRING,                                             \
        .offset = (base) + offsetof(ea_schema_options, language), .fallback = "en-US",                                 \
        .help = "of manifests' texts, such as de-DE; what it lacks is in English, or else in any"                      \
    }

/* Makes a set of the schemas that the options name; the catalogue is searched after them. A plug-in that cannot be used
 * is skipped, with a line on standard error. Errors: those of the files, with their names and places. */
EA_MUST_CHECK int ea_schema_options_read(ea_schemas **ret, const ea_schema_options *options, ea_err *err);
/* A hash of the schemas that the options named, independent of their order; 0 when there are none, or NULL. */
uint64_t ea_schema_options_hash(const ea_schemas *schemas);

#endif
