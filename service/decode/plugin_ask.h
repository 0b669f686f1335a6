/* Inside service/decode: a plug-in's library, loaded and asked, and its functions called. Input: a file. Calls:
 * plugin_probe.c, in a process of its own, and plugin_functions.c, in the agent. */
#ifndef EA_DECODE_PLUGIN_ASK_H
#define EA_DECODE_PLUGIN_ASK_H

#include "proto/base/err.h"
#include "proto/base/platform.h"
#include "proto/base/trust.h"
#include "proto/event/schemas.h"
#include "service/decode/etwagent_plugin.h"

typedef int (*ea_plugin_add)(void *context, const etwagent_class *c);

/* Loads the library and lets it call add for each of its classes. *ret_library: to be closed when nothing of it is
 * needed any more, untouched on failure. Errors say what is wrong with the plug-in. */
EA_MUST_CHECK int ea_plugin_ask(const char *path, ea_plugin_add add, void *context, ea_library **ret_library,
                                ea_err *err);

/* Lets the decode function of class c take a record's payload apart, into out: 1, with the bytes; 0: it cannot. */
int ea_plugin_decode(etwagent_decode decode, const ea_class *c, const ea_record *record, uint8_t *out,
                     size_t room_bytes, size_t *ret_bytes);

/* Lets the decode function of an unfolded class, which is described here, take made-up payloads apart: empty, short,
 * random, as long as they can be. NULL, or what is wrong with it. */
const char *ea_plugin_try(const uint8_t *description, size_t len_bytes, etwagent_decode decode);

/* What the plug-ins' functions are for the agent: files that were tried and taken, added one by one, which schemas gets
 * in the end. Thread: its owner's, until schemas has it. */
typedef struct ea_plugin_functions ea_plugin_functions;
EA_MUST_CHECK int ea_plugin_functions_create(ea_plugin_functions **ret, ea_err *err);
void ea_plugin_functions_destroy(ea_plugin_functions *f); /* NULL is allowed */
/* Takes *file, and makes it NULL, on success alone. */
EA_MUST_CHECK int ea_plugin_functions_add(ea_plugin_functions *f, ea_trusted_file **file, ea_err *err);
/* Takes f. With no function in it nothing changes. */
void ea_plugin_functions_give(ea_plugin_functions *f, ea_schemas *schemas);

#endif
