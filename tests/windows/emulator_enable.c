/* The emulator's EnableTraceEx2, with every structure as the documentation defines it. See emulator.h. */
#include "tests/windows/emulator.h"

#include <string.h>

/* Text with its end, which is its only one. */
static ULONG take_names(uint16_t *to, const uint8_t *data, ULONG bytes) {
    if (bytes % 2 || bytes < 4 || ea_load16(data + bytes - 2))
        return ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i + 2 < bytes; i += 2)
        if (!ea_load16(data + i))
            return ERROR_INVALID_PARAMETER;
    memcpy(to, data, bytes);
    return 0;
}

static ULONG take_ids(emul_ids *to, const uint8_t *data, ULONG bytes) {
    if (bytes < 6)
        return ERROR_INVALID_PARAMETER;
    uint16_t n = ea_load16(data + 2);
    if (!n || n > EMUL_IDS || bytes < 4u + 2u * n || data[0] > 1)
        return ERROR_INVALID_PARAMETER;
    to->is_given = 1;
    to->filter_in = data[0];
    to->count = n;
    memcpy(to->ids, data + 4, 2u * n);
    return 0;
}

/* The data holds a sequence of names, each with a terminating zero, and nothing else. */
static ULONG take_event_names(emul_event_names *to, const uint8_t *data, ULONG bytes) {
    ULONG at = offsetof(ea_filter_event_name, names), n = 0;
    if (bytes <= at)
        return ERROR_INVALID_PARAMETER;
    memcpy(&to->head, data, at);
    while (at < bytes) {
        const uint8_t *end = memchr(data + at, 0, bytes - at);
        if (!end || end == data + at)
            return ERROR_INVALID_PARAMETER;
        at = (ULONG)(end - data) + 1;
        n++;
    }
    memcpy(to->names, data + offsetof(ea_filter_event_name, names), bytes - offsetof(ea_filter_event_name, names));
    return !n || n != to->head.count || to->head.filter_in > 1 ? ERROR_INVALID_PARAMETER : 0;
}

static ULONG most_bytes(int type) {
    switch (type) {
    case EA_FILTER_PAYLOAD:
        return EMUL_PAYLOAD_BYTES;
    case EA_FILTER_EVENT_NAME:
    case EA_FILTER_STACKWALK_NAME:
        return EMUL_NAMES_BYTES;
    default:
        return EMUL_FILTER_BYTES;
    }
}

static ULONG take_payload(emul_lists *to, const uint8_t *data, ULONG bytes) {
    if (!emul_payload_is_whole(data, bytes))
        return ERROR_INVALID_PARAMETER;
    memcpy(to->payload, data, bytes);
    to->payload_bytes = bytes;
    return 0;
}

/* Names and values in turn, each with its end. Windows takes whatever the provider defines; another form is a mistake
 * of ours. */
static ULONG take_arguments(emul_lists *to, const uint8_t *data, ULONG bytes) {
    unsigned ends = 0;
    for (ULONG i = 0; i < bytes; i++)
        ends += !data[i];
    if (!data[0] || data[bytes - 1] || ends % 2)
        return ERROR_INVALID_PARAMETER;
    memcpy(to->arguments, data, bytes);
    to->argument_bytes = bytes;
    return 0;
}

/* Kernel-Registry takes four bytes; another size is a mistake of ours. */
static ULONG take_registry(emul_provider *to, const uint8_t *data, ULONG bytes) {
    if (bytes != 4)
        return ERROR_INVALID_PARAMETER;
    to->registry_filter = ea_load32(data);
    return 0;
}

static ULONG take_filter(emul_provider *to, emul_lists *lists, const EVENT_FILTER_DESCRIPTOR *f, ULONG property) {
    const uint8_t *data = (const uint8_t *)(uintptr_t)f->Ptr;
    if (!data || !f->Size || f->Size > most_bytes((int)f->Type))
        return ERROR_INVALID_PARAMETER;
    switch ((int)f->Type) {
    case EA_FILTER_NONE:
        return ea_guid_equal(&to->guid, &EMUL_KERNEL_REGISTRY) ? take_registry(to, data, f->Size)
                                                               : take_arguments(lists, data, f->Size);
    case EA_FILTER_EVENT_ID:
        return take_ids(&to->ids, data, f->Size);
    case EA_FILTER_STACKWALK:
        return property & EVENT_ENABLE_PROPERTY_STACK_TRACE ? take_ids(&to->stack_ids, data, f->Size)
                                                            : ERROR_INVALID_PARAMETER;
    case EA_FILTER_EVENT_NAME:
        return take_event_names(&lists->event_names, data, f->Size);
    case EA_FILTER_STACKWALK_NAME:
        return property & EVENT_ENABLE_PROPERTY_STACK_TRACE ? take_event_names(&lists->stack_names, data, f->Size)
                                                            : ERROR_INVALID_PARAMETER;
    case EA_FILTER_STACKWALK_LEVEL_KW:
        if (f->Size != sizeof to->stack_level || !(property & EVENT_ENABLE_PROPERTY_STACK_TRACE))
            return ERROR_INVALID_PARAMETER;
        memcpy(&to->stack_level, data, sizeof to->stack_level);
        to->has_stack_level = 1;
        return to->stack_level.filter_in > 1 ? ERROR_INVALID_PARAMETER : 0;
    case EA_FILTER_PID:
        if (f->Size % 4 || f->Size / 4 > EMUL_PIDS)
            return ERROR_INVALID_PARAMETER;
        to->pid_count = f->Size / 4;
        memcpy(to->pids, data, f->Size);
        return 0;
    case EA_FILTER_EXECUTABLE_NAME:
        return take_names(lists->executables, data, f->Size);
    case EA_FILTER_PACKAGE_ID:
        return take_names(lists->packages, data, f->Size);
    case EA_FILTER_PACKAGE_APP_ID:
        return take_names(lists->app_ids, data, f->Size);
    case EA_FILTER_CONTAINER:
        return take_names(lists->containers, data, f->Size);
    case EA_FILTER_PAYLOAD:
        return take_payload(lists, data, f->Size);
    default:
        return ERROR_INVALID_PARAMETER;
    }
}

static ULONG take_filters(emul_provider *to, emul_lists *lists, const ENABLE_TRACE_PARAMETERS *e) {
    if (e->FilterDescCount > EA_FILTERS_MAX || (e->FilterDescCount && !e->EnableFilterDesc))
        return ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i < e->FilterDescCount; i++) {
        for (ULONG k = 0; k < i; k++)
            if (e->EnableFilterDesc[k].Type == e->EnableFilterDesc[i].Type)
                return ERROR_INVALID_PARAMETER; /* one of each type */
        ULONG error = take_filter(to, lists, &e->EnableFilterDesc[i], e->EnableProperty);
        if (error)
            return error;
    }
    return 0;
}

static ULONG check(LPCGUID provider, ULONG code, const ENABLE_TRACE_PARAMETERS *e) {
    ULONG error = emul_fault("EnableTraceEx2");
    if (error)
        return error;
    if (!provider || code > EVENT_CONTROL_CODE_CAPTURE_STATE)
        return ERROR_INVALID_PARAMETER;
    if (e && e->Version != ENABLE_TRACE_PARAMETERS_VERSION && e->Version != ENABLE_TRACE_PARAMETERS_VERSION_2)
        return ERROR_INVALID_PARAMETER;
    return e && e->ControlFlags ? ERROR_INVALID_PARAMETER : 0;
}

/* Microsoft-Windows-DotNETRuntimeRundown, which runs down when it is enabled with StartRundown or EndRundown. Source:
 * dotnet/runtime src/coreclr/vm/eventtrace.cpp. */
static int runs_down(const emul_provider *p) {
    static const ea_guid CLR_RUNDOWN =
        EA_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18);

    enum { START_RUNDOWN = 0x40, END_RUNDOWN = 0x100 };

    return ea_guid_equal(&p->guid, &CLR_RUNDOWN) && (p->any & (START_RUNDOWN | END_RUNDOWN)) != 0;
}

/* The table is locked. */
static ULONG enable(emul_table *t, emul_session *s, emul_provider *p, const emul_lists *lists) {
    size_t i = 0;
    while (i < s->provider_count && !ea_guid_equal(&s->providers[i].guid, &p->guid))
        i++;
    if (i == EMUL_PROVIDERS)
        return ERROR_NO_SYSTEM_RESOURCES;
    if (lists->executables[0] || lists->packages[0] || lists->app_ids[0] || lists->containers[0] ||
        lists->payload_bytes || lists->event_names.head.count || lists->stack_names.head.count ||
        lists->argument_bytes) {
        int has_own = i < s->provider_count && s->providers[i].lists;
        size_t place = has_own ? s->providers[i].lists - 1 : emul_new_lists(t, s->incarnation);
        if (place == EMUL_LISTS)
            return ERROR_NO_SYSTEM_RESOURCES;
        t->lists[place] = *lists;
        t->lists[place].incarnation = s->incarnation;
        p->lists = (uint32_t)place + 1;
    }
    p->captures = (i < s->provider_count ? s->providers[i].captures : 0) + (uint32_t)runs_down(p);
    s->arguments_given += lists->argument_bytes != 0;
    s->providers[i] = *p;
    s->provider_count += i == s->provider_count;
    return 0;
}

/* The table is locked. */
static void capture_or_disable(emul_session *s, const emul_provider *asked, ULONG code) {
    size_t i = 0;
    while (i < s->provider_count && !ea_guid_equal(&s->providers[i].guid, &asked->guid))
        i++;
    s->captures += code == EVENT_CONTROL_CODE_CAPTURE_STATE;
    if (i == s->provider_count)
        return;
    if (code != EVENT_CONTROL_CODE_CAPTURE_STATE) {
        s->providers[i] = s->providers[--s->provider_count];
        return;
    }
    /* what is logged before the consumer of a session without a file is there, is lost */
    s->providers[i].captures += s->readers || s->file[0];
    s->providers[i].state_level = asked->level;
    s->providers[i].state_any = asked->any;
    s->providers[i].state_all = asked->all;
}

ULONG WINAPI EmulEnableTraceEx2(TRACEHANDLE handle, LPCGUID provider, ULONG code, UCHAR level, ULONGLONG any,
                                ULONGLONG all, ULONG timeout, PENABLE_TRACE_PARAMETERS e);

ULONG WINAPI EmulEnableTraceEx2(TRACEHANDLE handle, LPCGUID provider, ULONG code, UCHAR level, ULONGLONG any,
                                ULONGLONG all, ULONG timeout, PENABLE_TRACE_PARAMETERS e) {
    emul_provider p = {
        .level = level, .any = any, .all = all, .state_level = level, .state_any = any, .state_all = all};
    emul_lists lists = {0};
    ULONG error = check(provider, code, e);
    (void)timeout;
    if (error)
        return error;
    memcpy(p.guid.bytes, provider, sizeof p.guid);
    if (code == EVENT_CONTROL_CODE_ENABLE_PROVIDER) {
        emul_table *t = emul_lock();
        emul_session *s = emul_by_handle(t, handle);
        int is_system = s && emul_enable_system(s, provider, any, e, &error);
        emul_unlock();
        if (is_system)
            return error;
    }
    if (e) {
        p.property = e->EnableProperty;
        if (e->Version == ENABLE_TRACE_PARAMETERS_VERSION_2 && emul_fault("filters"))
            error = e->FilterDescCount ? ERROR_NOT_SUPPORTED : 0;
        else if (e->Version == ENABLE_TRACE_PARAMETERS_VERSION_2)
            error = take_filters(&p, &lists, e);
    }
    if (error)
        return error;
    emul_table *t = emul_lock();
    emul_session *s = emul_by_handle(t, handle);
    if (!s)
        error = ERROR_INVALID_PARAMETER;
    else if (code == EVENT_CONTROL_CODE_ENABLE_PROVIDER)
        error = enable(t, s, &p, &lists);
    else
        capture_or_disable(s, &p, code);
    emul_unlock();
    return error;
}
