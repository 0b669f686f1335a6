/* See profile_names.h. */
#include "collector/query/analysis/profile_names.h"

static int profile_names_on_symbol(void *arg, const ec_symbol *symbol) {
    enum { INLINED_MAX = 64 };

    ec_profile_names *n = arg;
    ec_profile_function functions[INLINED_MAX];
    size_t count = 0;
    for (size_t i = 0; i < symbol->frame_count && count < INLINED_MAX; i++) {
        const ec_frame *f = &symbol->frames[i];
        if (*f->function)
            functions[count++] =
                (ec_profile_function){.name = f->function, .file = *f->file ? f->file : NULL, .line = f->line};
    }
    return n->put(n->put_arg, n->next++, functions, count);
}

int ec_profile_name_places(void *arg, const ec_profile_module *module, const uint32_t *offsets, size_t count,
                           ec_profile_named_fn put, void *put_arg, ea_err *err) {
    ec_profile_names *n = arg;
    const ec_symbol_module of = {.pdb_name = module->has_pdb ? module->pdb_path : NULL,
                                 .pdb = {module->pdb_guid, module->pdb_age},
                                 .image_name = module->path,
                                 .timestamp = module->timestamp,
                                 .size_bytes = module->size_bytes};
    n->put = put;
    n->put_arg = put_arg;
    n->next = 0;
    return n->resolve(n->source, &of, offsets, count, profile_names_on_symbol, n, err);
}
