/* Resources of PE files. See pe_resources.h. Every offset of the file is checked where it is used. */
#include "proto/image/pe_resources.h"

#include <string.h>

enum {
    DIRECTORY_BYTES = 16,
    ENTRY_BYTES = 8,
    DATA_ENTRY_BYTES = 16,
    VISITS_MAX = 65536, /* entries of one question */
    MESSAGES_MAX = 1 << 20,
    BLOCK_BYTES = 12,
};

static const uint32_t HIGH_BIT = 0x80000000u;

/* 1 when [at, at + bytes) lies inside. */
static int pe_resources_inside(size_t len_bytes, size_t at, size_t bytes) {
    return at <= len_bytes && bytes <= len_bytes - at;
}

/* Where an address is in the file; *ret_left: the bytes that the file has of its section from there on. 0: nowhere. */
static int offset_of(const ea_pe *pe, uint32_t address, size_t *ret_offset, size_t *ret_left) {
    uint32_t at, left;
    if (!ea_pe_image_offset(&pe->image, address, &at, &left) || at >= pe->len_bytes)
        return 0;
    *ret_offset = at;
    *ret_left = left < pe->len_bytes - at ? left : pe->len_bytes - at;
    return 1;
}

/* ea_pe_read_fn of bytes in memory; arg: an ea_pe. */
static int read_memory(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    const ea_pe *pe = arg;
    size_t left = offset < pe->len_bytes ? pe->len_bytes - (size_t)offset : 0;
    (void)err;
    *ret_read = len_bytes < left ? len_bytes : left;
    if (*ret_read)
        memcpy(out, pe->data + offset, *ret_read);
    return 0;
}

int ea_pe_open(ea_pe *ret, const void *data, size_t len_bytes, const char *name, ea_err *err) {
    uint32_t rva, bytes;
    memset(ret, 0, sizeof *ret);
    ret->data = data;
    ret->len_bytes = len_bytes;
    ret->image = (ea_pe_image){.read = read_memory, .arg = ret, .name = name};
    int rc = ea_pe_image_read(&ret->image, err);
    if (!rc && ea_pe_image_directory(&ret->image, EA_PE_DIRECTORY_RESOURCE, &rva, &bytes) && rva &&
        !offset_of(ret, rva, &ret->resources, &ret->resource_bytes))
        rc = ea_fail(err, EA_EFORMAT, "%s: its resources lie outside the file", name);
    return rc;
}

/* ---- the tree of resources: type, name, language ---- */

typedef struct walk {
    const ea_pe *pe;
    const char *type_name;
    uint16_t type;
    ea_pe_resource *found;
    size_t count, visits, damaged;
    uint16_t language;
} walk;

static int is_type(const walk *w, uint32_t name) {
    if (!(name & HIGH_BIT))
        return !w->type_name && name == w->type;
    size_t at = name & ~HIGH_BIT, n = w->type_name ? strlen(w->type_name) : 0;
    const uint8_t *p = w->pe->data + w->pe->resources + at;
    if (!n || !pe_resources_inside(w->pe->resource_bytes, at, 2 + 2 * n) || ea_load16(p) != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (ea_load16(p + 2 + 2 * i) != (uint8_t)w->type_name[i])
            return 0;
    return 1;
}

static void add_data(walk *w, size_t at) {
    size_t offset, left;
    const uint8_t *p = w->pe->data + w->pe->resources + at;
    uint32_t bytes = pe_resources_inside(w->pe->resource_bytes, at, DATA_ENTRY_BYTES) ? ea_load32(p + 4) : 0;
    if (!bytes || w->count == EA_PE_RESOURCES_MAX || !offset_of(w->pe, ea_load32(p), &offset, &left) || left < bytes)
        w->damaged++;
    else
        w->found[w->count++] = (ea_pe_resource){w->pe->data + offset, bytes, w->language};
}

static void walk_directory(walk *w, size_t at, int level) {
    if (!pe_resources_inside(w->pe->resource_bytes, at, DIRECTORY_BYTES)) {
        w->damaged++;
        return;
    }
    const uint8_t *d = w->pe->data + w->pe->resources + at;
    size_t count = (size_t)ea_load16(d + 12) + ea_load16(d + 14);
    for (size_t i = 0; i < count; i++) {
        size_t entry = at + DIRECTORY_BYTES + i * ENTRY_BYTES;
        if (!pe_resources_inside(w->pe->resource_bytes, entry, ENTRY_BYTES) || ++w->visits > VISITS_MAX) {
            w->damaged++;
            return;
        }
        uint32_t name = ea_load32(w->pe->data + w->pe->resources + entry),
                 to = ea_load32(w->pe->data + w->pe->resources + entry + 4);
        if (level == 0 && !is_type(w, name))
            continue;
        if (level == 2)
            w->language = (uint16_t)name;
        if ((to & HIGH_BIT) && level < 2)
            walk_directory(w, to & ~HIGH_BIT, level + 1);
        else if (!(to & HIGH_BIT) && level == 2)
            add_data(w, to);
        else
            w->damaged++;
    }
}

size_t ea_pe_resources(const ea_pe *pe, const char *type_name, uint16_t type, ea_pe_resource ret[EA_PE_RESOURCES_MAX],
                       size_t *ret_damaged) {
    walk w = {.pe = pe, .type_name = type_name, .type = type, .found = ret};
    if (pe->resource_bytes)
        walk_directory(&w, 0, 0);
    *ret_damaged = w.damaged;
    return w.count;
}

/* ---- message tables ---- */

int ea_messages_add(ea_u64_map *messages, const ea_pe_resource *table) {
    const uint8_t *data = table->data;
    size_t block_count = table->len_bytes >= 4 ? ea_load32(data) : 0, visits = 0;
    for (size_t i = 0; i < block_count && pe_resources_inside(table->len_bytes, 4 + i * BLOCK_BYTES, BLOCK_BYTES);
         i++) {
        const uint8_t *block = data + 4 + i * BLOCK_BYTES;
        uint64_t number = ea_load32(block), last = ea_load32(block + 4);
        size_t at = ea_load32(block + 8);
        for (; number <= last; number++) {
            size_t bytes = pe_resources_inside(table->len_bytes, at, 4) ? ea_load16(data + at) : 0;
            if (bytes < 4 || !pe_resources_inside(table->len_bytes, at, bytes))
                break;
            if (++visits > MESSAGES_MAX)
                return 0;
            if (!ea_u64_map_get(messages, number) && ea_u64_map_put(messages, number, (uint64_t)(uintptr_t)(data + at)))
                return EA_ENOMEM;
            at += bytes;
        }
    }
    return 0;
}

int ea_messages_get(const ea_u64_map *messages, uint32_t number, ea_text *out) {
    enum { IS_UTF16 = 1 };

    const uint64_t *found = ea_u64_map_get(messages, number);
    if (!found)
        return 0;
    const uint8_t *entry = (const uint8_t *)(uintptr_t)*found, *text = entry + 4;
    size_t n = (size_t)ea_load16(entry) - 4, width = ea_load16(entry + 2) & IS_UTF16 ? 2 : 1, used = 0;
    while (used + width <= n && ea_load_uint(text + used, (unsigned)width))
        used += width;
    while (used >= width && (text[used - width] == '\n' || text[used - width] == '\r') &&
           (width == 1 || text[used - 1] == 0))
        used -= width;
    if (width == 2)
        ea_text_utf16(out, text, used);
    else
        ea_text_ansi(out, text, used);
    return 1;
}
