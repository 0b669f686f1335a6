/* Asking a plug-in. See plugin_ask.h. Thread: any. */
#include "service/decode/plugin_ask.h"
#include "proto/base/text.h"

#include <string.h>

typedef struct room {
    uint8_t *out;
    size_t used, bytes;
    int overflow;
} room;

static int plugin_ask_put(void *context, const void *bytes, size_t len_bytes) {
    room *r = context;
    if (r->overflow || len_bytes > r->bytes - r->used) {
        r->overflow = 1;
        return -1;
    }
    if (len_bytes)
        memcpy(r->out + r->used, bytes, len_bytes);
    r->used += len_bytes;
    return 0;
}

int ea_plugin_decode(etwagent_decode decode, const ea_class *c, const ea_record *record, uint8_t *out,
                     size_t room_bytes, size_t *ret_bytes) {
    room r = {.out = out, .bytes = room_bytes};
    const etwagent_values values = {&r, plugin_ask_put};
    const etwagent_event event = {.payload = record->payload_bytes ? record->payload : (const uint8_t *)"",
                                  .payload_bytes = record->payload_bytes,
                                  .code = c->code,
                                  .version = c->version,
                                  .pointer_size = c->pointer_size};
    int rc = decode(&event, &values);
    *ret_bytes = r.used;
    return rc == 0 && !r.overflow;
}

static int plugin_ask_start(const etwagent_plugin *plugin, ea_plugin_add add, void *context, ea_err *err) {
    const etwagent_host host = {ETWAGENT_PLUGIN_VERSION, context, add};
    if (!plugin)
        return ea_fail(err, EA_EFORMAT, "it exports no " ETWAGENT_PLUGIN_SYMBOL);
    if (plugin->version != ETWAGENT_PLUGIN_VERSION)
        return ea_fail(err, EA_EUNSUPPORTED, "it is of plug-in version %u, this program takes version %d",
                       plugin->version, ETWAGENT_PLUGIN_VERSION);
    if (!plugin->start)
        return ea_fail(err, EA_EFORMAT, "it has no start function");
    return plugin->start(&host) ? ea_fail(err, EA_EREFUSED, "it does not want to run") : 0;
}

int ea_plugin_ask(const char *path, ea_plugin_add add, void *context, ea_library **ret_library, ea_err *err) {
    ea_library *library;
    ea_text file; /* a bare name would be looked for on the library path */
    ea_text_init(&file);
    ea_text_printf(&file, strpbrk(path, "/\\") ? "%s" : "./%s", path);
    int rc = file.failed ? ea_fail(err, EA_ENOMEM, "open %.128s", path) : ea_library_open(&library, file.data, err);
    ea_text_deinit(&file);
    if (rc)
        return rc;
    rc = plugin_ask_start(ea_library_symbol(library, ETWAGENT_PLUGIN_SYMBOL), add, context, err);
    if (rc)
        ea_library_close(library);
    else
        *ret_library = library;
    return rc;
}
