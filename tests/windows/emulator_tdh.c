/* The emulator's TDH: providers, and their keywords, levels, tasks and opcodes, that the script names. See emulator.h.
 */
#include "tests/windows/emulator.h"

#include <string.h>
#include <wchar.h>

static ULONG add_text(uint8_t *data, ULONG at, const WCHAR *text) {
    ULONG bytes = (ULONG)(wcslen(text) + 1) * 2;
    if (data)
        memcpy(data + at, text, bytes);
    return bytes;
}

ULONG WINAPI TdhEnumerateProviders(ea_tdh_providers *out, ULONG *bytes);

ULONG WINAPI TdhEnumerateProviders(ea_tdh_providers *out, ULONG *bytes) {
    const emul_script *w = emul_what();
    ULONG error = emul_fault("TdhEnumerateProviders");
    emul_read_schemas(); /* a caller that looks up a provider by name asks about its events soon */
    Sleep(w->tdh_delay_ms);
    if (error || !bytes)
        return error ? error : ERROR_INVALID_PARAMETER;
    ULONG at = (ULONG)(offsetof(ea_tdh_providers, items) + w->provider_count * sizeof(ea_tdh_provider)), need = at;
    for (uint32_t i = 0; i < w->provider_count; i++)
        need += add_text(NULL, 0, w->providers[i].name);
    if (!out || *bytes < need) {
        *bytes = need;
        return ERROR_INSUFFICIENT_BUFFER;
    }
    *bytes = need;
    out->count = w->provider_count;
    for (uint32_t i = 0; i < w->provider_count; i++) {
        ea_tdh_provider *p = &out->items[i];
        memcpy(&p->guid, w->providers[i].guid.bytes, sizeof p->guid);
        p->source = 0;
        p->name_offset = at;
        at += add_text((uint8_t *)out, at, w->providers[i].name);
    }
    return 0;
}

ULONG WINAPI TdhEnumerateProviderFieldInformation(const GUID *provider, int kind, ea_tdh_fields *out, ULONG *bytes);

ULONG WINAPI TdhEnumerateProviderFieldInformation(const GUID *provider, int kind, ea_tdh_fields *out, ULONG *bytes) {
    const emul_script *w = emul_what();
    ULONG error = emul_fault("TdhEnumerateProviderFieldInformation"), n = 0, need = 0;
    Sleep(w->tdh_delay_ms);
    if (error || !provider || !bytes)
        return error ? error : ERROR_INVALID_PARAMETER;
    for (uint32_t i = 0; i < w->field_count; i++)
        if (w->fields[i].kind == kind && memcmp(provider, w->fields[i].guid.bytes, sizeof *provider) == 0) {
            n++;
            need += add_text(NULL, 0, w->fields[i].name);
        }
    if (!n)
        return ERROR_NOT_FOUND;
    ULONG at = (ULONG)(offsetof(ea_tdh_fields, items) + n * sizeof(ea_tdh_field));
    need += at;
    if (!out || *bytes < need) {
        *bytes = need;
        return ERROR_INSUFFICIENT_BUFFER;
    }
    *bytes = need;
    out->count = n;
    out->kind = (ULONG)kind;
    for (uint32_t i = 0, k = 0; i < w->field_count; i++)
        if (w->fields[i].kind == kind && memcmp(provider, w->fields[i].guid.bytes, sizeof *provider) == 0) {
            out->items[k] = (ea_tdh_field){.name_offset = at, .value = w->fields[i].value};
            at += add_text((uint8_t *)out, at, w->fields[i].name);
            k++;
        }
    return 0;
}
