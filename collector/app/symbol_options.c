/* What commands that name addresses share. See symbol_options.h. */
#include "collector/app/symbol_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int default_folder(ea_text *t, ea_err *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        ea_text_printf(t, "%s/etwcollector/symbols", cache);
    else if (home && *home == '/')
        ea_text_printf(t, "%s/.cache/etwcollector/symbols", home);
    else
        return ea_fail(err, EA_EUSAGE, "the environment names no folder for symbols; expected --symbol-cache DIR");
    return 0;
}

int ec_symbol_options_are_given(const ec_symbol_options *o) {
    return o->path || o->cache || o->has_lines;
}

int ec_symbol_desk_prepare(ec_symbol_desk *ret, const ec_symbol_options *o, const char *folder, ea_err *err) {
    const char *path = o->path ? o->path : getenv("_NT_SYMBOL_PATH");
    int rc = 0;
    ea_text_init(&ret->path);
    ea_text_init(&ret->folder);
    ret->symbols = NULL;
    if (o->cache)
        ea_text_str(&ret->folder, o->cache);
    else
        rc = default_folder(&ret->folder, err);
    if (folder)
        ea_text_printf(&ret->path, "%s;", folder);
    ea_text_str(&ret->path, path ? path : "");
    if (!rc && (ret->path.failed || ret->folder.failed))
        rc = ea_fail(err, EA_ENOMEM, "open symbols");
    ret->options = (ec_symbols_options){
        .path = ret->path.data,
        .folder = ret->folder.data,
        .has_lines = o->has_lines,
        .symbolizer = {.program = o->symbolizer, .limit_ns = o->limit_ns},
    };
    if (rc)
        ec_symbol_desk_close(ret);
    return rc;
}

int ec_symbol_desk_open(ec_symbol_desk *ret, const ec_symbol_options *o, const char *folder, ea_err *err) {
    int rc = ec_symbol_desk_prepare(ret, o, folder, err);
    if (!rc && (rc = ec_symbols_open(&ret->symbols, &ret->options, err)))
        ec_symbol_desk_close(ret);
    return rc;
}

void ec_symbol_desk_close(ec_symbol_desk *d) {
    ec_symbols_close(d->symbols);
    d->symbols = NULL;
    ea_text_deinit(&d->path);
    ea_text_deinit(&d->folder);
}

void ec_symbol_print(ea_text *t, const ec_symbol *symbol, const char *prefix) {
    if (!symbol->frame_count)
        ea_text_str(t, " ?");
    for (size_t i = 0; i < symbol->frame_count; i++) {
        const ec_frame *f = &symbol->frames[i];
        int is_last = i + 1 == symbol->frame_count;
        if (i) {
            ea_text_char(t, '\n');
            ea_text_str(t, prefix);
        }
        ea_text_char(t, ' ');
        ea_text_safe(t, *f->function ? f->function : "?", *f->function ? strlen(f->function) : 1);
        if (!is_last)
            ea_text_str(t, " (inlined)");
        else if (symbol->has_offset)
            ea_text_printf(t, "+0x%" PRIx32, symbol->offset_bytes);
        if (*f->file) {
            ea_text_char(t, ' ');
            ea_text_safe(t, f->file, strlen(f->file));
        }
        if (f->line)
            ea_text_printf(t, ":%" PRIu32, f->line);
    }
}

void ec_symbol_json(ea_text *t, const ec_symbol *symbol) {
    ea_text_char(t, '[');
    for (size_t i = 0; i < symbol->frame_count; i++) {
        const ec_frame *f = &symbol->frames[i];
        ea_text_str(t, i ? ", {\"function\": " : "{\"function\": ");
        ea_text_json_str(t, *f->function ? f->function : NULL);
        ea_text_str(t, ", \"file\": ");
        ea_text_json_str(t, *f->file ? f->file : NULL);
        ea_text_str(t, ", \"line\": ");
        if (f->line)
            ea_text_u64(t, f->line);
        else
            ea_text_str(t, "null");
        ea_text_str(t, i + 1 < symbol->frame_count ? ", \"inlined\": true}" : ", \"inlined\": false}");
    }
    ea_text_char(t, ']');
}
