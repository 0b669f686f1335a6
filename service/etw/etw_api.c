/* The table of ETW's functions. See etw_api.h. */
#include "service/etw/etw_api.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ANSWER_MAX_BYTES = 64 << 20, ATTEMPTS = 4 };

static const WCHAR ETW[] = L"advapi32.dll", TDH[] = L"tdh.dll";

typedef void (*any_function)(void);

/* Two threads that load concurrently both do the same work. A DLL is still loaded only once, and it is never unloaded.
 */
static any_function etw_api_find(const WCHAR *dll, const char *name) {
    HMODULE module = LoadLibraryExW(dll, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    return module ? (any_function)GetProcAddress(module, name) : NULL;
}

static ea_etw_api table;
static atomic_int state; /* 0 not loaded, 1 being loaded, 2 loaded, 3 something that is required is missing */
static const char *_Atomic missing;

int ea_etw_load(const ea_etw_api **ret, ea_err *err) {
    int expected = 0;
    if (atomic_compare_exchange_strong(&state, &expected, 1)) {
        any_function f;
#define X(dll, name, result, parameters, required)                                                                     \
    f = etw_api_find(dll, #name);                                                                                      \
    memcpy(&table.name, &f, sizeof f);                                                                                 \
    if (!f && (required))                                                                                              \
        atomic_store(&missing, #name);
        EA_ETW_FUNCTIONS(X)
#undef X
        atomic_store(&state, atomic_load(&missing) ? 3 : 2);
    }
    while (atomic_load(&state) == 1)
        Sleep(1);
    if (atomic_load(&state) == 3)
        return ea_fail(err, EA_EUNSUPPORTED, "this Windows has no function %s", atomic_load(&missing));
    *ret = &table;
    return 0;
}

int ea_etw_code(ULONG error) {
    switch (error) {
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return EA_EREFUSED;
    case ERROR_ALREADY_EXISTS:
        return EA_EEXIST;
    case ERROR_WMI_INSTANCE_NOT_FOUND:
    case ERROR_NOT_FOUND:
    case ERROR_FILE_NOT_FOUND:
        return EA_ENOTFOUND;
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_DISK_FULL:
        return EA_EFULL;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return EA_ENOMEM;
    case ERROR_INVALID_PARAMETER:
    case ERROR_BAD_LENGTH:
        return EA_EINVAL;
    case ERROR_NOT_SUPPORTED:
    case ERROR_CALL_NOT_IMPLEMENTED:
        return EA_EUNSUPPORTED;
    default:
        return EA_EIO;
    }
}

int ea_tdh_get(ea_tdh_call call, const void *question, void **ret, ULONG *ret_bytes, ea_err *err) {
    ULONG bytes = 0;
    void *data = NULL;
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        ULONG had = bytes, error = call(question, data, &bytes);
        if (!error && data && bytes <= had) {
            *ret = data;
            *ret_bytes = bytes;
            return 0;
        }
        free(data);
        data = NULL;
        if (error != ERROR_INSUFFICIENT_BUFFER || !bytes || bytes > ANSWER_MAX_BYTES)
            return ea_fail_os(err, error ? ea_etw_code(error) : EA_EIO, (int)error, "ask TDH");
        data = calloc(1, bytes);
        if (!data)
            return ea_fail(err, EA_ENOMEM, "ask TDH");
    }
    free(data);
    return ea_fail(err, EA_EIO, "ask TDH: its answer grows all the time");
}
