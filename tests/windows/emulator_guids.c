/* The emulator's EnumerateTraceGuidsEx: the registered providers, the sessions that enabled them, and the parameters.
 * The providers that the script names are registered by one process, or by a driver (process 0). A provider that a
 * session enabled has an entry, too, with the flag for a provider that is not registered yet
 * (TRACE_PROVIDER_FLAG_PRE_ENABLE). See emulator.h. Thread: any. */
#include "tests/windows/emulator.h"

#include <stdlib.h>
#include <string.h>

enum { OWNER_PID = 1234, /* a driver's: 0 */ GUIDS_MAX = 64 + 8 + EMUL_SESSIONS * EMUL_PROVIDERS };

static int is_enabled(const emul_table *t, const uint8_t *guid, size_t session, const emul_provider **ret) {
    const emul_session *s = &t->sessions[session];
    for (size_t i = 0; s->used && i < s->provider_count; i++)
        if (memcmp(s->providers[i].guid.bytes, guid, sizeof s->providers[i].guid) == 0) {
            *ret = &s->providers[i];
            return 1;
        }
    return 0;
}

static ULONG add(uint8_t *guids, ULONG n, const ea_guid *guid) {
    for (ULONG i = 0; i < n; i++)
        if (memcmp(guids + i * sizeof *guid, guid->bytes, sizeof *guid) == 0)
            return n;
    memcpy(guids + n * sizeof *guid, guid->bytes, sizeof *guid);
    return n + 1;
}

static ULONG list_guids(const emul_table *t, uint8_t *guids) {
    const emul_script *w = emul_what();
    ULONG n = 0;
    for (uint32_t i = 0; i < w->provider_count; i++)
        n = add(guids, n, &w->providers[i].guid);
    for (uint32_t i = 0; i < w->driver_count; i++)
        n = add(guids, n, &w->drivers[i]);
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        for (size_t k = 0; t->sessions[i].used && k < t->sessions[i].provider_count; k++)
            n = add(guids, n, &t->sessions[i].providers[k].guid);
    return n;
}

static int is_registered(const uint8_t *guid) {
    const emul_script *w = emul_what();
    if (emul_is_driver(guid))
        return 1;
    for (uint32_t i = 0; i < w->provider_count; i++)
        if (memcmp(w->providers[i].guid.bytes, guid, sizeof w->providers[i].guid) == 0)
            return 1;
    return 0;
}

/* TRACE_GUID_INFO, one TRACE_PROVIDER_INSTANCE_INFO, and a TRACE_ENABLE_INFO for each session. */
static ULONG describe(const emul_table *t, const uint8_t *guid, uint8_t *out, ULONG room, ULONG *ret) {
    const emul_provider *p;
    ULONG n = 0;
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        n += (ULONG)is_enabled(t, guid, i, &p);
    *ret = (ULONG)(sizeof(TRACE_GUID_INFO) + sizeof(TRACE_PROVIDER_INSTANCE_INFO) + n * sizeof(TRACE_ENABLE_INFO));
    if (room < *ret)
        return ERROR_INSUFFICIENT_BUFFER;
    TRACE_GUID_INFO head = {.InstanceCount = 1};
    TRACE_PROVIDER_INSTANCE_INFO instance = {.EnableCount = n,
                                             .Pid = emul_is_driver(guid) ? 0 : OWNER_PID,
                                             .Flags = is_registered(guid) ? 0 : TRACE_PROVIDER_FLAG_PRE_ENABLE};
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, &instance, sizeof instance);
    out += sizeof head + sizeof instance;
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (is_enabled(t, guid, i, &p)) {
            TRACE_ENABLE_INFO info = {.IsEnabled = 1,
                                      .Level = p->level > emul_what()->level_kept ? emul_what()->level_kept : p->level,
                                      .LoggerId = (USHORT)t->sessions[i].id,
                                      .EnableProperty = p->property,
                                      .MatchAnyKeyword = p->any,
                                      .MatchAllKeyword = p->all};
            memcpy(out, &info, sizeof info);
            out += sizeof info;
        }
    return 0;
}

ULONG WINAPI EmulEnumerateTraceGuidsEx(int which, void *in, ULONG in_bytes, void *out, ULONG out_bytes, PULONG ret);

ULONG WINAPI EmulEnumerateTraceGuidsEx(int which, void *in, ULONG in_bytes, void *out, ULONG out_bytes, PULONG ret) {
    ULONG error = emul_fault("EnumerateTraceGuidsEx"), n;
    if (!error && (!ret || (out_bytes && !out)))
        error = ERROR_INVALID_PARAMETER;
    if (!error && which == TraceGuidQueryInfo && (!in || in_bytes != sizeof(GUID)))
        error = ERROR_INVALID_PARAMETER;
    if (!error && (which < TraceGuidQueryList || which > TraceGuidQueryProcess))
        error = ERROR_INVALID_PARAMETER;
    uint8_t *guids = error ? NULL : malloc(GUIDS_MAX * sizeof(GUID));
    if (!guids)
        return error ? error : ERROR_OUTOFMEMORY;
    emul_table *t = emul_lock();
    n = list_guids(t, guids);
    if (which == TraceGuidQueryInfo) {
        ULONG i = 0;
        while (i < n && memcmp(guids + i * sizeof(GUID), in, sizeof(GUID)) != 0)
            i++;
        error = i == n ? ERROR_WMI_GUID_NOT_FOUND : describe(t, in, out, out_bytes, ret);
    } else {
        if (which == TraceGuidQueryProcess) /* the caller's own: it has registered none */
            n = 0;
        *ret = n * (ULONG)sizeof(GUID);
        if (out_bytes < *ret)
            error = ERROR_INSUFFICIENT_BUFFER;
        else
            memcpy(out, guids, *ret);
    }
    emul_unlock();
    free(guids);
    return error;
}
