/* Decode functions of plug-ins, in the agent. See plugin_ask.h, schemas.h (ea_payload_decoder). */
#include "proto/base/map.h"
#include "service/decode/plugin_ask.h"

#include <stdlib.h>
#include <string.h>

enum { LIBRARY_MAX_BYTES = 256 << 20 };

/* A library, and the file that it was loaded from: a loader may know a library by its path, which is the file's only
 * while it is open. */
typedef struct loaded {
    ea_library *library;
    ea_trusted_file *file;
} loaded;

typedef struct function {
    ea_guid provider;
    etwagent_decode decode;
    uint16_t code;
    uint8_t first_version, last_version, classic;
} function;

struct ea_plugin_functions {
    function *functions;
    size_t function_count;
    loaded *libraries; /* that have some */
    size_t library_count;
    uint64_t hash; /* of their files */
    int failed;    /* memory ran out */
};

int ea_plugin_functions_create(ea_plugin_functions **ret, ea_err *err) {
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : ea_fail(err, EA_ENOMEM, "load plug-ins");
}

void ea_plugin_functions_destroy(ea_plugin_functions *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->library_count; i++) {
        ea_library_close(f->libraries[i].library);
        ea_trusted_close(f->libraries[i].file);
    }
    free(f->libraries);
    free(f->functions);
    free(f);
}

static int plugin_functions_add(void *context, const etwagent_class *c) {
    ea_plugin_functions *f = context;
    function own = {.decode = c->decode,
                    .code = c->code,
                    .first_version = c->first_version,
                    .last_version = c->last_version,
                    .classic = c->is_classic != 0};
    if (!c->decode || ea_guid_parse(c->provider, &own.provider))
        return 0;
    function *grown = realloc(f->functions, (f->function_count + 1) * sizeof *grown);
    if (!grown) {
        f->failed = 1;
        return -1;
    }
    f->functions = grown;
    f->functions[f->function_count++] = own;
    return 0;
}

int ea_plugin_functions_add(ea_plugin_functions *f, ea_trusted_file **file, ea_err *err) {
    size_t before = f->function_count;
    const char *path = ea_trusted_path(*file);
    ea_library *library = NULL;
    loaded *grown = realloc(f->libraries, (f->library_count + 1) * sizeof *grown);
    if (!grown)
        return ea_fail(err, EA_ENOMEM, "load plug-ins");
    f->libraries = grown;
    char *bytes = NULL;
    size_t byte_count = 0;
    int rc = ea_path_read_all(path, LIBRARY_MAX_BYTES, &bytes, &byte_count, err);
    uint64_t hash = rc ? 0 : ea_hash64(bytes, byte_count, 0);
    free(bytes);
    if (!rc)
        rc = ea_plugin_ask(path, plugin_functions_add, f, &library, err);
    if (f->failed) {
        ea_library_close(library);
        rc = ea_fail(err, EA_ENOMEM, "load plug-ins");
    }
    if (rc) {
        f->function_count = before;
        return rc;
    }
    f->hash += hash;
    f->libraries[f->library_count++] = (loaded){library, *file};
    *file = NULL;
    return 0;
}

static int plugin_functions_unfold(const void *arg, const ea_class *c, const ea_record *r, uint8_t *out,
                                   size_t room_bytes, size_t *ret_bytes) {
    const ea_plugin_functions *f = arg;
    for (size_t i = 0; i < f->function_count; i++) {
        const function *own = &f->functions[i];
        if (own->code == c->code && own->classic == c->classic && c->version >= own->first_version &&
            c->version <= own->last_version && ea_guid_equal(&own->provider, &c->provider))
            return ea_plugin_decode(own->decode, c, r, out, room_bytes, ret_bytes);
    }
    return 0;
}

static void plugin_functions_destroy(void *arg) {
    ea_plugin_functions_destroy(arg);
}

void ea_plugin_functions_give(ea_plugin_functions *f, ea_schemas *schemas) {
    if (f->function_count)
        ea_schemas_set_payload_decoder(
            schemas, &(ea_payload_decoder){f, plugin_functions_unfold, plugin_functions_destroy, f->hash});
    else
        ea_plugin_functions_destroy(f);
}
