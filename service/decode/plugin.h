/* Plug-ins: decoders of third parties (etwagent_plugin.h). A separate process, this program with another command, asks
 * each plug-in what it decodes. The answer comes back as a schema cache and is validated like any file. Only a plug-in
 * with decode functions is then also loaded in this process, after the separate process has tested them.
 * Called by: schema_options.c. Calls: a folder's shared libraries, proto/event/schemas.h. Thread: its caller's. */
#ifndef EA_DECODE_PLUGIN_H
#define EA_DECODE_PLUGIN_H

#include "proto/event/schemas.h"

/* A line for a person about a plug-in that is left out, no newline. */
typedef void (*ea_plugin_note)(void *arg, const char *line);

/* Adds what the plug-ins in a folder decode, in the layer EA_SCHEMA_PLUGIN, in the order of their names. One that
 * cannot be used is left out with a line; so is one that others may change (ea_trusted_open). A plug-in is opened once:
 * what was checked is what is asked, hashed and loaded. program: this program's path, as ea_program_path gives it.
 * timeout_ns: what each may take; 0: 5 s. EA_ENOMEM, and what keeps the folder from being read. */
EA_MUST_CHECK int ea_plugins_load(ea_schemas *into, const char *program, const char *folder, int64_t timeout_ns,
                                  ea_plugin_note on_note, void *arg, ea_err *err);

/* What the process that asks one plug-in does: loads the library and writes what it decodes to ret as a schema cache.
 * Errors say what is wrong with the plug-in. A plug-in may end the process in any way. */
EA_MUST_CHECK int ea_plugin_probe(const char *path, ea_text *ret, ea_err *err);

#endif
