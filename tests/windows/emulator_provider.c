/* The emulator's providers: what programs write by EventWrite goes to the sessions that want it, in memory that all
 * programs share. A session logs it at the place of the trace that it has come to. See emulator.h. Source of the types
 * of data: evntprov.h, EVENT_DATA_DESCRIPTOR_TYPE_*. */
#include "tests/windows/emulator_stream.h"

#include <string.h>

enum { EVENT_METADATA = 1, PROVIDER_METADATA = 2, PROVIDERS_MAX = 64, PARTS_MAX = 128, EVENT_BYTES_MAX = 65000 };

/* Providers of this program, by handle. */
static struct {
    ea_guid guid;
    int is_registered;
} providers[PROVIDERS_MAX + 1];

ULONG WINAPI EmulEventRegister(LPCGUID provider, PENABLECALLBACK callback, PVOID context, PREGHANDLE ret);
ULONG WINAPI EmulEventUnregister(REGHANDLE handle);
BOOLEAN WINAPI EmulEventEnabled(REGHANDLE handle, PCEVENT_DESCRIPTOR d);
ULONG WINAPI EmulEventWrite(REGHANDLE handle, PCEVENT_DESCRIPTOR d, ULONG count, PEVENT_DATA_DESCRIPTOR data);

ULONG WINAPI EmulEventRegister(LPCGUID provider, PENABLECALLBACK callback, PVOID context, PREGHANDLE ret) {
    ULONG error = emul_fault("EventRegister");
    (void)context;
    if (callback)
        emul_fail("a provider's callback is not emulated");
    for (size_t i = 1; !error && i <= PROVIDERS_MAX; i++)
        if (!providers[i].is_registered) {
            memcpy(providers[i].guid.bytes, provider, sizeof providers[i].guid);
            providers[i].is_registered = 1;
            *ret = i;
            return 0;
        }
    return error ? error : ERROR_NO_SYSTEM_RESOURCES;
}

static int is_known(REGHANDLE handle) {
    return handle && handle <= PROVIDERS_MAX && providers[handle].is_registered;
}

ULONG WINAPI EmulEventUnregister(REGHANDLE handle) {
    if (!is_known(handle))
        return ERROR_INVALID_HANDLE;
    providers[handle].is_registered = 0;
    return 0;
}

static ea_record record_of(REGHANDLE handle, const EVENT_DESCRIPTOR *d) {
    return (ea_record){.provider = providers[handle].guid,
                       .id = d->Id,
                       .version = d->Version,
                       .channel = d->Channel,
                       .level = d->Level,
                       .opcode = d->Opcode,
                       .task = d->Task,
                       .keyword = d->Keyword,
                       .pid = GetCurrentProcessId(),
                       .tid = GetCurrentThreadId(),
                       .flags = EA_FLAG_64_BIT_HEADER,
                       .header_type = EA_HEADER_EVENT64,
                       .pointer_size = 8};
}

/* The table is locked. */
static int is_wanted(const emul_table *t, const ea_record *r) {
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (t->sessions[i].used && emul_wants(&t->sessions[i], NULL, r))
            return 1;
    return 0;
}

BOOLEAN WINAPI EmulEventEnabled(REGHANDLE handle, PCEVENT_DESCRIPTOR d) {
    if (!is_known(handle))
        return FALSE;
    const ea_record r = record_of(handle, d);
    int wanted = is_wanted(emul_lock(), &r);
    emul_unlock();
    return wanted != 0;
}

static void add_part(emul_written *w, const EVENT_DATA_DESCRIPTOR *data, ULONG count, ULONG type, uint32_t *ret_bytes) {
    for (ULONG i = 0; i < count; i++)
        if ((UCHAR)data[i].Reserved == type) {
            memcpy((uint8_t *)w + w->bytes, (const void *)(ULONG_PTR)data[i].Ptr, data[i].Size);
            w->bytes += data[i].Size;
            *ret_bytes += data[i].Size;
        }
}

ULONG WINAPI EmulEventWrite(REGHANDLE handle, PCEVENT_DESCRIPTOR d, ULONG count, PEVENT_DATA_DESCRIPTOR data) {
    ULONG error = emul_fault("EventWrite");
    size_t bytes = 0;
    if (error)
        return error;
    if (!is_known(handle))
        return ERROR_INVALID_HANDLE;
    if (count > PARTS_MAX || (count && !data))
        return ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i < count; i++)
        bytes += data[i].Size;
    if (bytes > EVENT_BYTES_MAX)
        return ERROR_ARITHMETIC_OVERFLOW;
    emul_table *t = emul_lock();
    emul_written *w = (emul_written *)(void *)(t->written + t->written_bytes);
    const ea_record r = record_of(handle, d);
    if (!is_wanted(t, &r)) {
        emul_unlock();
        return 0;
    }
    if (sizeof t->written - t->written_bytes < sizeof *w + bytes + 8) {
        emul_unlock();
        return ERROR_NOT_ENOUGH_MEMORY; /* no buffer is free: none is given back here */
    }
    *w = (emul_written){.bytes = sizeof *w, .record = r};
    add_part(w, data, count, EVENT_METADATA, &w->schema_bytes);
    add_part(w, data, count, PROVIDER_METADATA, &w->traits_bytes);
    add_part(w, data, count, 0, &w->payload_bytes);
    w->bytes = (w->bytes + 7) & ~7u;
    t->written_bytes += w->bytes;
    emul_unlock();
    return 0;
}

int emul_written_next(size_t *at, ea_record *ret, ea_ext ext[2]) {
    emul_table *t = emul_lock();
    size_t end = t->written_bytes;
    emul_unlock();
    if (*at >= end) /* what comes before it does not change any more */
        return 0;
    const emul_written *w = (const emul_written *)(const void *)(t->written + *at);
    const uint8_t *data = (const uint8_t *)(w + 1);
    *ret = w->record;
    ret->ext = ext;
    ret->ext_count = 0;
    if (w->schema_bytes)
        ext[ret->ext_count++] = (ea_ext){.type = EA_EXT_SCHEMA_TL, .size_bytes = w->schema_bytes, .data = data};
    if (w->traits_bytes)
        ext[ret->ext_count++] =
            (ea_ext){.type = EA_EXT_PROV_TRAITS, .size_bytes = w->traits_bytes, .data = data + w->schema_bytes};
    if (ret->ext_count)
        ret->flags |= EA_FLAG_EXTENDED_INFO;
    if (ret->ext_count == 2)
        ext[0].linkage = 1;
    ret->payload = data + w->schema_bytes + w->traits_bytes;
    ret->payload_bytes = (uint16_t)w->payload_bytes;
    *at += w->bytes;
    return 1;
}
