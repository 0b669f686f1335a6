/* See announced_records.h. */
#include "proto/relog/announced_records.h"

#include "proto/base/provider_guids.h"

#include <string.h>

static const ea_guid ANNOUNCE = EA_PROVIDER_ANNOUNCE;

enum { ID_LOAD = 1, ID_UNLOAD = 2, ID_DC_START = 3 };

/* The layout of proto/event/classes/announce.c: base, size, GUID, age, then the texts. */
enum { SIZE_AT = 8, GUID_AT = 16, AGE_AT = 32, TEXTS_AT = 36 };

int ea_is_announced_module(const ea_record *r) {
    return r->id >= ID_LOAD && r->id <= ID_DC_START && r->version == 0 && !(r->flags & EA_FLAG_CLASSIC_HEADER) &&
           ea_guid_equal(&r->provider, &ANNOUNCE) && !ea_record_ext(r, EA_EXT_SCHEMA_TL);
}

/* Appends a text with its NUL. Returns the bytes of it with its end, 0: it has none. */
static size_t announced_text(const uint8_t *data, size_t len_bytes, ea_text *out) {
    size_t n = 0;
    while (n + 2 <= len_bytes && (data[n] || data[n + 1]))
        n += 2;
    if (n + 2 > len_bytes)
        return 0;
    ea_text_utf16(out, data, n);
    ea_text_char(out, 0);
    return n + 2;
}

static const char *announced_name(const char *path) {
    const char *end = strrchr(path, '\\');
    return end ? end + 1 : path;
}

static int announced_emit(const ea_record *r, const ea_text *texts, size_t pdb_at, const ea_module_place *place,
                          int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    static const ea_guid NONE;
    ea_module m = {.pid = r->pid,
                   .base = ea_load64(r->payload),
                   .size_bytes = ea_load64(r->payload + SIZE_AT),
                   .default_base = ea_load64(r->payload),
                   .pdb_age = ea_load32(r->payload + AGE_AT),
                   .path = texts->data,
                   .pdb_path = texts->data + pdb_at,
                   .original_name = announced_name(texts->data)};
    memcpy(m.pdb_guid.bytes, r->payload + GUID_AT, sizeof m.pdb_guid.bytes);
    m.has_pdb = !ea_guid_equal(&m.pdb_guid, &NONE);
    if (place->pointer_size == 4 && (m.base > UINT32_MAX || m.size_bytes > UINT32_MAX))
        return EA_ENOTFOUND;
    return ea_module_records(&m, place, emit, arg, err);
}

int ea_announced_records(const ea_record *r, uint8_t version, uint8_t pointer_size,
                         int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    const ea_module_place place = {.verb = r->id == ID_LOAD     ? EA_MODULE_LOAD
                                           : r->id == ID_UNLOAD ? EA_MODULE_UNLOAD
                                                                : EA_MODULE_DC_START,
                                   .time_raw = r->time_raw,
                                   .cpu = r->cpu,
                                   .logger = r->logger,
                                   .tid = r->tid,
                                   .version = version,
                                   .pointer_size = pointer_size};
    ea_text texts;
    if (r->payload_bytes < TEXTS_AT || r->payload_bytes > EA_ANNOUNCED_BYTES_MAX)
        return EA_ENOTFOUND;
    ea_text_init(&texts);
    size_t path_bytes = announced_text(r->payload + TEXTS_AT, r->payload_bytes - TEXTS_AT, &texts), pdb_at;
    pdb_at = texts.len_bytes;
    size_t pdb_bytes = path_bytes ? announced_text(r->payload + TEXTS_AT + path_bytes,
                                                   r->payload_bytes - TEXTS_AT - path_bytes, &texts)
                                  : 0;
    int rc = texts.failed ? ea_fail(err, EA_ENOMEM, "describe a module")
             : !pdb_bytes ? EA_ENOTFOUND
                          : announced_emit(r, &texts, pdb_at, &place, emit, arg, err);
    ea_text_deinit(&texts);
    return rc;
}
