/* Keys and values of the registry as text. See registry_text.h.
 *
 * Sources: Sysmon's documentation (learn.microsoft.com, "Event ID 12: RegistryEvent", the table of root keys); the
 * forms of DWORD, QWORD and "Binary Data" as Elastic's ingest pipeline for Sysmon parses them, and "(Empty)" as rules
 * of SigmaHQ ask for it. */
#include "proto/event/registry_text.h"

#include "proto/base/bytes.h"
#include "proto/base/pattern.h"

#include <string.h>

enum {
    REG_TYPE_SZ = 1,
    REG_TYPE_EXPAND_SZ = 2,
    REG_TYPE_DWORD = 4,
    REG_TYPE_LINK = 6,
    REG_TYPE_QWORD = 11
}; /* winnt.h */

int ea_registry_data_text(ea_text *t, uint32_t type, uint64_t value_bytes, const void *data, size_t data_bytes) {
    static const char EMPTY[] = "(Empty)";
    const uint8_t *p = data;
    size_t text_bytes = 0;
    if (value_bytes == 0) {
        ea_text_str(t, EMPTY);
        return 1;
    }
    if (data_bytes == 0)
        return 0;
    switch (type) {
    case REG_TYPE_SZ:
    case REG_TYPE_EXPAND_SZ:
    case REG_TYPE_LINK:
        while (data_bytes - text_bytes >= 2 && ea_load16(p + text_bytes))
            text_bytes += 2;
        if (text_bytes)
            ea_text_utf16(t, p, text_bytes);
        else
            ea_text_str(t, EMPTY);
        return 1;
    case REG_TYPE_DWORD:
        if (data_bytes < 4 && value_bytes >= 4)
            return 0;
        if (value_bytes != 4)
            break;
        ea_text_printf(t, "DWORD (0x%08x)", (unsigned)ea_load32(p));
        return 1;
    case REG_TYPE_QWORD:
        if (data_bytes < 8 && value_bytes >= 8)
            return 0;
        if (value_bytes != 8)
            break;
        ea_text_printf(t, "QWORD (0x%08x-0x%08x)", (unsigned)ea_load32(p + 4), (unsigned)ea_load32(p));
        return 1;
    default:
        break;
    }
    ea_text_str(t, "Binary Data");
    return 1;
}

/* The rest of path after a prefix that ends at a separator or with the path, in any case; NULL: it begins otherwise. */
static const char *after(const char *path, const char *prefix) {
    for (; *prefix; path++, prefix++) {
        if (ea_ascii_lower(*path) != *prefix)
            return NULL;
    }
    return *path == 0 || *path == '\\' ? path : NULL;
}

/* \ControlSet001 and its like. */
static const char *after_control_set(const char *path) {
    static const char NAME[] = "\\controlset";
    for (size_t i = 0; i < sizeof NAME - 1; i++, path++) {
        if (ea_ascii_lower(*path) != NAME[i])
            return NULL;
    }
    size_t digits = strspn(path, "0123456789");
    return digits == 3 && (path[digits] == 0 || path[digits] == '\\') ? path + digits : NULL;
}

void ea_registry_path_text(ea_text *t, const char *path) {
    const char *rest = after(path, "\\registry\\machine\\system"), *set = rest ? after_control_set(rest) : NULL;
    const char *root = "";
    if (set) {
        root = "HKLM\\System\\CurrentControlSet";
        rest = set;
    } else if ((rest = after(path, "\\registry\\machine\\software\\classes"))) {
        root = "HKCR";
    } else if ((rest = after(path, "\\registry\\machine"))) {
        root = "HKLM";
    } else if ((rest = after(path, "\\registry\\user"))) {
        root = "HKU";
    }
    ea_text_str(t, root);
    ea_text_str(t, rest ? rest : path);
}
