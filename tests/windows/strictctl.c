/* Makes wrong calls to the emulator directly. The agent never makes these calls, or makes them correctly, so that only
 * this program shows whether the emulator refuses them. Each line of output is a call that did not return the
 * documented result. Needs a script with a provider and two counters (19 and 10, one of them at a time). EMULATOR.md
 * has the rules. Called by: test_strict.py. Calls: emulator.c. Thread: the main one. */
#include "tests/windows/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define FUNCTIONS(X)                                                                                                   \
    X(StartTraceW, ULONG, (PTRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES))                                            \
    X(ControlTraceW, ULONG, (TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES, ULONG))                                    \
    X(EnableTraceEx2, ULONG,                                                                                           \
      (TRACEHANDLE, LPCGUID, ULONG, UCHAR, ULONGLONG, ULONGLONG, ULONG, PENABLE_TRACE_PARAMETERS))                     \
    X(TraceSetInformation, ULONG, (TRACEHANDLE, TRACE_INFO_CLASS, PVOID, ULONG))                                       \
    X(TraceQueryInformation, ULONG, (TRACEHANDLE, TRACE_INFO_CLASS, PVOID, ULONG, PULONG))                             \
    X(OpenTraceW, TRACEHANDLE, (PEVENT_TRACE_LOGFILEW))                                                                \
    X(ProcessTrace, ULONG, (PTRACEHANDLE, ULONG, LPFILETIME, LPFILETIME))                                              \
    X(CloseTrace, ULONG, (TRACEHANDLE))                                                                                \
    X(QueryAllTracesW, ULONG, (PEVENT_TRACE_PROPERTIES *, ULONG, PULONG))                                              \
    X(EnumerateTraceGuidsEx, ULONG, (int, PVOID, ULONG, PVOID, ULONG, PULONG))                                         \
    X(TdhEnumerateProviders, ULONG, (void *, ULONG *))                                                                 \
    X(TdhEnumerateProviderFieldInformation, ULONG, (const GUID *, int, void *, ULONG *))                               \
    X(TdhGetEventInformation, ULONG, (EVENT_RECORD *, ULONG, void *, void *, ULONG *))                                 \
    X(TdhCreatePayloadFilter, ULONG,                                                                                   \
      (const GUID *, const EVENT_DESCRIPTOR *, BOOLEAN, ULONG, ea_payload_predicate *, void **))

static struct {
#define X(name, result, parameters) result(WINAPI *name) parameters;
    FUNCTIONS(X)
#undef X
} f;

static const GUID NO_PROVIDER = {0x11111111, 0x2222, 0x3333, {1, 2, 3, 4, 5, 6, 7, 8}};
static int tried, wrong;

static void expect(const char *what, ULONG answer, ULONG right) {
    tried++;
    if (answer == right)
        return;
    wrong++;
    printf("%s: answered %lu, not %lu\n", what, answer, right);
}

/* ---- sessions ---- */

typedef struct properties {
    EVENT_TRACE_PROPERTIES p;
    WCHAR name[64], file[64];
} properties;

static properties good(void) {
    properties p = {.p = {.Wnode = {.BufferSize = sizeof p, .Flags = WNODE_FLAG_TRACED_GUID},
                          .LoggerNameOffset = offsetof(properties, name),
                          .LogFileMode = EVENT_TRACE_REAL_TIME_MODE}};
    return p;
}

static TRACEHANDLE started;

/* Starts a session; one that does start is stopped again, unless it is to stay. */
static ULONG start(const WCHAR *name, properties *p, int stays) {
    properties end = good();
    ULONG error = f.StartTraceW(&started, name, &p->p);
    if (!error && !stays)
        error = f.ControlTraceW(started, NULL, &end.p, EVENT_TRACE_CONTROL_STOP);
    return error;
}

static void stop(const WCHAR *name) {
    properties p = good();
    (void)f.ControlTraceW(0, name, &p.p, EVENT_TRACE_CONTROL_STOP);
}

/* One member of the properties is other than a good one's. */
#define START(what, right, ...)                                                                                        \
    do {                                                                                                               \
        properties p = good();                                                                                         \
        __VA_ARGS__;                                                                                                   \
        expect("StartTrace: " what, start(L"strict", &p, 0), right);                                                   \
    } while (0)

static void wrong_properties(void) {
    START("good", 0, (void)0);
    START("a structure that is too small", ERROR_BAD_LENGTH, p.p.Wnode.BufferSize = sizeof p.p - 1);
    START("without WNODE_FLAG_TRACED_GUID", ERROR_INVALID_PARAMETER, p.p.Wnode.Flags = 0);
    START("without a name's offset", ERROR_INVALID_PARAMETER, p.p.LoggerNameOffset = 0);
    START("a name inside of the structure", ERROR_INVALID_PARAMETER, p.p.LoggerNameOffset = 8);
    START("a name outside of it", ERROR_INVALID_PARAMETER, p.p.LoggerNameOffset = sizeof p);
    START("a file outside of it", ERROR_INVALID_PARAMETER, p.p.LogFileNameOffset = sizeof p + 2);
    START("no room for the name", ERROR_BAD_LENGTH, p.p.LoggerNameOffset = sizeof p - 4);
    START("flags of the kernel in a user's session", ERROR_INVALID_PARAMETER, p.p.EnableFlags = 1);
    START("events that go nowhere", ERROR_BAD_PATHNAME, p.p.LogFileMode = 0);
    START("a file's mode without a file", ERROR_BAD_PATHNAME, p.p.LogFileMode |= EVENT_TRACE_FILE_MODE_SEQUENTIAL);
    START("two modes of files", ERROR_INVALID_PARAMETER, p.p.LogFileNameOffset = offsetof(properties, file),
          wcscpy(p.file, L"C:\\strict.etl"), p.p.MaximumFileSize = 1,
          p.p.LogFileMode |= EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_FILE_MODE_CIRCULAR);
    START("a circular file without a size", ERROR_INVALID_PARAMETER, p.p.LogFileNameOffset = offsetof(properties, file),
          wcscpy(p.file, L"C:\\strict.etl"), p.p.LogFileMode = EVENT_TRACE_FILE_MODE_CIRCULAR);
    START("a file, of a session that is stopped at once", 0, p.p.LogFileNameOffset = offsetof(properties, file),
          wcscpy(p.file, L"C:\\strict.etl"), p.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL);
    START("real time and buffering", ERROR_INVALID_PARAMETER, p.p.LogFileMode |= EVENT_TRACE_BUFFERING_MODE);
    START("a private session in real time", ERROR_INVALID_PARAMETER,
          p.p.LogFileMode |= EVENT_TRACE_PRIVATE_LOGGER_MODE);
    START("buffers of 16 MiB and one", ERROR_INVALID_PARAMETER, p.p.BufferSize = 16385);
    START("a clock 4", ERROR_INVALID_PARAMETER, p.p.Wnode.ClientContext = 4);
    START("the kernel logger's GUID, another name", ERROR_INVALID_PARAMETER,
          p.p.Wnode.Guid = EA_SYSTEM_TRACE_CONTROL_GUID);
    properties p = good();
    expect("StartTrace: the kernel logger without its GUID", start(KERNEL_LOGGER_NAMEW, &p, 0),
           ERROR_INVALID_PARAMETER);
    p = good();
    p.p.Wnode.Guid = EA_SYSTEM_TRACE_CONTROL_GUID;
    p.p.LogFileMode |= EVENT_TRACE_INDEPENDENT_SESSION_MODE;
    expect("StartTrace: an independent kernel logger", start(KERNEL_LOGGER_NAMEW, &p, 0), ERROR_INVALID_PARAMETER);
    p = good();
    expect("StartTrace: without a name", start(NULL, &p, 0), ERROR_INVALID_PARAMETER);
    expect("StartTrace: without properties", f.StartTraceW(&started, L"strict", NULL), ERROR_INVALID_PARAMETER);
    expect("StartTrace: without a place for the handle", f.StartTraceW(NULL, L"strict", &p.p), ERROR_INVALID_PARAMETER);
}

static void names_and_handles(void) {
    properties p = good();
    SYSTEM_INFO info;
    GetNativeSystemInfo(&info);
    expect("StartTrace: one that stays", start(L"Strict-A", &p, 1), 0);
    expect("StartTrace: at least two buffers a processor", p.p.MinimumBuffers >= 2 * info.dwNumberOfProcessors, 1);
    TRACEHANDLE first = started;
    p = good();
    expect("StartTrace: a name that is taken, in another case", start(L"sTRICT-a", &p, 0), ERROR_ALREADY_EXISTS);
    p = good();
    p.p.Wnode.BufferSize = sizeof p.p - 1;
    expect("ControlTrace: a structure that is too small", f.ControlTraceW(first, NULL, &p.p, 0), ERROR_BAD_LENGTH);
    p = good();
    p.p.LoggerNameOffset = sizeof p - 4;
    expect("ControlTrace: no room for the name", f.ControlTraceW(first, NULL, &p.p, 0), ERROR_MORE_DATA);
    p = good();
    expect("ControlTrace: neither name nor handle", f.ControlTraceW(0, NULL, &p.p, 0), ERROR_INVALID_PARAMETER);
    expect("ControlTrace: an unknown code", f.ControlTraceW(first, NULL, &p.p, 77), ERROR_INVALID_PARAMETER);
    expect("ControlTrace: a name that no session has", f.ControlTraceW(0, L"absent", &p.p, 0),
           ERROR_WMI_INSTANCE_NOT_FOUND);
    p = good();
    expect("ControlTrace: stop", f.ControlTraceW(first, NULL, &p.p, EVENT_TRACE_CONTROL_STOP), 0);
    p = good();
    expect("StartTrace: again, in the same place", start(L"Strict-A", &p, 1), 0);
    expect("StartTrace: the same number", started & 0xffff, first & 0xffff);
    p = good();
    expect("ControlTrace: the handle of a session that ended", f.ControlTraceW(first, NULL, &p.p, 0),
           ERROR_WMI_INSTANCE_NOT_FOUND);
    stop(L"Strict-A");
}

/* So many sessions, then one more. */
static void limit(ULONG mode, int most, ULONG more_mode, const char *what) {
    WCHAR name[32];
    properties p;
    for (int i = 0; i <= most; i++) {
        _snwprintf(name, 32, L"strict-%d", i);
        p = good();
        p.p.LogFileMode |= i < most ? mode : more_mode;
        expect(what, start(name, &p, 1), i < most ? 0 : ERROR_NO_SYSTEM_RESOURCES);
    }
    for (int i = 0; i <= most; i++) {
        _snwprintf(name, 32, L"strict-%d", i);
        stop(name);
    }
}

/* ---- providers ---- */

static ULONG enable(EVENT_FILTER_DESCRIPTOR *filters, ULONG count, ULONG property) {
    ENABLE_TRACE_PARAMETERS e = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                 .EnableProperty = property,
                                 .EnableFilterDesc = filters,
                                 .FilterDescCount = count};
    return f.EnableTraceEx2(started, &NO_PROVIDER, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, &e);
}

static ULONG one(int type, const void *data, size_t bytes, ULONG property) {
    EVENT_FILTER_DESCRIPTOR d = {.Ptr = (uintptr_t)data, .Size = (ULONG)bytes, .Type = (ULONG)type};
    return enable(&d, 1, property);
}

/* One filter that is good, and what makes it wrong. */
#define FILTER(what, type, data, bytes, property, right)                                                               \
    expect("EnableTraceEx2: " what, one(type, data, bytes, property), right)

static void wrong_filters(void) {
    enum { STACK = EVENT_ENABLE_PROPERTY_STACK_TRACE, BAD = ERROR_INVALID_PARAMETER };

    static uint8_t big[4098], names[4097];
    static WCHAR text[600];
    uint16_t ids[2 + 65] = {1, 64}; /* filter in, so many */
    ULONG pids[9] = {4};
    ea_filter_level_kw level = {.level = 4, .filter_in = 1};
    FILTER("event ids", EA_FILTER_EVENT_ID, ids, 4 + 128, 0, 0);
    FILTER("fewer event ids than it says", EA_FILTER_EVENT_ID, ids, 4 + 126, 0, BAD);
    ids[1] = 65;
    FILTER("65 event ids", EA_FILTER_EVENT_ID, ids, 4 + 130, 0, BAD);
    ids[1] = 0;
    FILTER("no event id", EA_FILTER_EVENT_ID, ids, 6, 0, BAD);
    ids[1] = 1;
    FILTER("stacks of ids", EA_FILTER_STACKWALK, ids, 6, STACK, 0);
    FILTER("stacks of ids, no stacks", EA_FILTER_STACKWALK, ids, 6, 0, BAD);
    ids[0] = 2;
    FILTER("event ids neither in nor out", EA_FILTER_EVENT_ID, ids, 6, 0, BAD);
    FILTER("eight processes", EA_FILTER_PID, pids, 32, 0, 0);
    FILTER("nine processes", EA_FILTER_PID, pids, 36, 0, BAD);
    FILTER("half a process", EA_FILTER_PID, pids, 6, 0, BAD);
    FILTER("stacks of a level", EA_FILTER_STACKWALK_LEVEL_KW, &level, sizeof level, STACK, 0);
    FILTER("stacks of a level, no stacks", EA_FILTER_STACKWALK_LEVEL_KW, &level, sizeof level, 0, BAD);
    FILTER("stacks of a level, too short", EA_FILTER_STACKWALK_LEVEL_KW, &level, sizeof level - 1, STACK, BAD);
    wmemset(text, L'x', 600);
    text[511] = 0;
    FILTER("1,024 bytes of names", EA_FILTER_EXECUTABLE_NAME, text, 1024, 0, 0);
    FILTER("names without an end", EA_FILTER_EXECUTABLE_NAME, text, 1022, 0, BAD);
    text[512] = 0;
    FILTER("names with two ends", EA_FILTER_PACKAGE_ID, text + 500, 26, 0, BAD);
    FILTER("1,026 bytes of names", EA_FILTER_CONTAINER, text, 1026, 0, BAD);
    FILTER("an odd number of bytes", EA_FILTER_PACKAGE_APP_ID, text + 500, 23, 0, BAD);
    ea_filter_event_name head = {.level = 5, .filter_in = 1, .count = 1};
    memset(names, 'n', sizeof names);
    memcpy(names, &head, 20);
    names[4095] = 0;
    FILTER("4,096 bytes of an event's name", EA_FILTER_EVENT_NAME, names, 4096, 0, 0);
    FILTER("4,097 bytes", EA_FILTER_EVENT_NAME, names, 4097, 0, BAD);
    FILTER("an event's name without an end", EA_FILTER_EVENT_NAME, names, 4095, 0, BAD);
    FILTER("no event's name", EA_FILTER_EVENT_NAME, names, 20, 0, BAD);
    FILTER("stacks of an event's name", EA_FILTER_STACKWALK_NAME, names, 4096, STACK, 0);
    FILTER("stacks of an event's name, no stacks", EA_FILTER_STACKWALK_NAME, names, 4096, 0, BAD);
    names[100] = 0;
    FILTER("two names of events where it says one", EA_FILTER_EVENT_NAME, names, 4096, 0, BAD);
    names[101] = 0;
    head.count = 3;
    memcpy(names, &head, 20);
    FILTER("an event's name that is empty", EA_FILTER_EVENT_NAME, names, 4096, 0, BAD);
    FILTER("a payload filter that TDH did not make", EA_FILTER_PAYLOAD, big, 64, 0, BAD);
    FILTER("4,097 bytes of payload filters", EA_FILTER_PAYLOAD, big, 4097, 0, BAD);
    FILTER("a type that there is not", (int)0x80040000, big, 8, 0, BAD);
    FILTER("no data", EA_FILTER_PID, NULL, 4, 0, BAD);
    FILTER("no bytes", EA_FILTER_PID, pids, 0, 0, BAD);
    EVENT_FILTER_DESCRIPTOR two[2];
    for (int i = 0; i < 2; i++)
        two[i] = (EVENT_FILTER_DESCRIPTOR){.Ptr = (uintptr_t)pids, .Size = 4, .Type = (ULONG)EA_FILTER_PID};
    expect("EnableTraceEx2: two filters of a type", enable(two, 2, 0), BAD);
    expect("EnableTraceEx2: a number of filters without them", enable(NULL, 1, 0), BAD);
    ENABLE_TRACE_PARAMETERS e = {.Version = 3};
    expect("EnableTraceEx2: version 3", f.EnableTraceEx2(started, &NO_PROVIDER, 1, 5, 0, 0, 0, &e), BAD);
    e = (ENABLE_TRACE_PARAMETERS){.Version = 2, .ControlFlags = 1};
    expect("EnableTraceEx2: control flags", f.EnableTraceEx2(started, &NO_PROVIDER, 1, 5, 0, 0, 0, &e), BAD);
    expect("EnableTraceEx2: an unknown code", f.EnableTraceEx2(started, &NO_PROVIDER, 3, 5, 0, 0, 0, NULL), BAD);
    expect("EnableTraceEx2: no provider", f.EnableTraceEx2(started, NULL, 1, 5, 0, 0, 0, NULL), BAD);
    expect("EnableTraceEx2: no session", f.EnableTraceEx2(12345, &NO_PROVIDER, 1, 5, 0, 0, 0, NULL), BAD);
}

/* ---- the kernel's part ---- */

static ULONG set(TRACEHANDLE handle, int which, void *data, size_t bytes) {
    return f.TraceSetInformation(handle, (TRACE_INFO_CLASS)which, data, (ULONG)bytes);
}

/* An administrator's token has it, disabled. */
static void take_privilege(void) {
    HANDLE token;
    TOKEN_PRIVILEGES p = {.PrivilegeCount = 1, .Privileges = {{.Attributes = SE_PRIVILEGE_ENABLED}}};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token))
        return;
    if (LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &p.Privileges[0].Luid))
        AdjustTokenPrivileges(token, FALSE, &p, sizeof p, NULL, NULL);
    CloseHandle(token);
}

static void wrong_information(TRACEHANDLE user, TRACEHANDLE kernel) {
    static CLASSIC_EVENT_ID events[257];
    ULONG masks[8] = {1}, samples[8] = {1, 2}, sources[2] = {19, 10}, five[5], bytes = 0;
    TRACE_PROFILE_INTERVAL interval = {0, 10000};

    enum { BAD = ERROR_INVALID_PARAMETER };

    expect("flags of a user's session", set(user, TraceSystemTraceEnableFlagsInfo, masks, 32), BAD);
    expect("flags of samples, the privilege being disabled", set(kernel, TraceSystemTraceEnableFlagsInfo, samples, 32),
           ERROR_PRIVILEGE_NOT_HELD);
    expect("an interval, the privilege being disabled",
           set(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_PRIVILEGE_NOT_HELD);
    take_privilege();
    expect("flags of samples, the privilege being enabled", set(kernel, TraceSystemTraceEnableFlagsInfo, samples, 32),
           0);
    expect("seven words of flags", set(kernel, TraceSystemTraceEnableFlagsInfo, masks, 28), ERROR_BAD_LENGTH);
    expect("flags", set(kernel, TraceSystemTraceEnableFlagsInfo, masks, 32), 0);
    expect("no data", set(kernel, TraceSystemTraceEnableFlagsInfo, NULL, 32), BAD);
    expect("stacks of 256 events", set(kernel, TraceStackTracingInfo, events, 256 * sizeof *events), 0);
    expect("stacks of 257", set(kernel, TraceStackTracingInfo, events, sizeof events), ERROR_BAD_LENGTH);
    expect("stacks of half an event", set(kernel, TraceStackTracingInfo, events, 12), ERROR_BAD_LENGTH);
    expect("stacks in a user's session", set(user, TraceStackTracingInfo, events, sizeof *events), BAD);
    expect("an interval", set(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), 0);
    expect("an interval of a session", set(kernel, TraceSampledProfileIntervalInfo, &interval, sizeof interval), BAD);
    expect("half an interval", set(0, TraceSampledProfileIntervalInfo, &interval, 4), ERROR_BAD_LENGTH);
    interval.Interval = 1220;
    expect("an interval below 122.1 us", set(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), BAD);
    interval.Interval = 10000001;
    expect("an interval above 1 s", set(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval), BAD);
    for (int i = 0; i < 5; i++)
        five[i] = 19;
    expect("five counters", set(kernel, TracePmcCounterListInfo, five, sizeof five), ERROR_INCORRECT_SIZE);
    expect("five sampled sources", set(0, TraceProfileSourceConfigInfo, five, sizeof five), ERROR_INCORRECT_SIZE);
    expect("five events with counters", set(kernel, TracePmcEventListInfo, events, 5 * sizeof *events),
           ERROR_INCORRECT_SIZE);
    expect("events with counters before counters", set(kernel, TracePmcEventListInfo, events, sizeof *events), BAD);
    expect("two counters where there is one", set(kernel, TracePmcCounterListInfo, sources, 8),
           ERROR_NO_SYSTEM_RESOURCES);
    sources[1] = 77;
    expect("an unknown counter", set(kernel, TracePmcCounterListInfo, sources + 1, 4), BAD);
    expect("counters in a user's session", set(user, TracePmcCounterListInfo, sources, 4), BAD);
    expect("a counter", set(kernel, TracePmcCounterListInfo, sources, 4), 0);
    expect("counters again", set(kernel, TracePmcCounterListInfo, sources, 4), BAD);
    expect("events with counters", set(kernel, TracePmcEventListInfo, events, sizeof *events), 0);
    expect("events with counters again", set(kernel, TracePmcEventListInfo, events, sizeof *events), BAD);
    expect("what is sampled", set(0, TraceProfileSourceConfigInfo, sources, 4), 0);
    expect("what is sampled in a session", set(kernel, TraceProfileSourceConfigInfo, sources, 4), BAD);
    expect("half a source that is sampled", set(0, TraceProfileSourceConfigInfo, sources, 2), ERROR_BAD_LENGTH);
    expect("an unknown source that is sampled", set(0, TraceProfileSourceConfigInfo, sources + 1, 4), BAD);
    expect("an unknown class", set(kernel, 99, masks, 32), ERROR_NOT_SUPPORTED);
    expect("how many counters, two bytes",
           f.TraceQueryInformation(0, (TRACE_INFO_CLASS)EA_TRACE_MAX_PMC_COUNTER_QUERY, masks, 2, &bytes),
           ERROR_BAD_LENGTH);
    expect("the counters, no room", f.TraceQueryInformation(0, TraceProfileSourceListInfo, masks, 8, &bytes),
           ERROR_BAD_LENGTH);
    expect("the counters, the room that they want", bytes > 48 && bytes % 8 == 0, 1);
    ULONG got_flags[8];
    expect("the flags of a session",
           f.TraceQueryInformation(kernel, TraceSystemTraceEnableFlagsInfo, got_flags, sizeof got_flags, &bytes), 0);
    expect("the flags that were set", got_flags[0], masks[0]);
    expect("the flags of a user's session",
           f.TraceQueryInformation(user, TraceSystemTraceEnableFlagsInfo, got_flags, sizeof got_flags, &bytes), BAD);
    expect("the flags, no room",
           f.TraceQueryInformation(kernel, TraceSystemTraceEnableFlagsInfo, got_flags, 28, &bytes), ERROR_BAD_LENGTH);
    expect("what sessions count, of an older Windows",
           f.TraceQueryInformation(0, (TRACE_INFO_CLASS)EA_TRACE_PMC_SESSION_INFORMATION, masks, sizeof masks, &bytes),
           BAD);
    expect("the counters of a session", f.TraceQueryInformation(kernel, TraceProfileSourceListInfo, masks, 8, &bytes),
           ERROR_NOT_SUPPORTED);
}

/* ---- consumers ---- */

static void WINAPI on_event(PEVENT_RECORD e) {
    (void)e;
}

static ULONG open_error(const EVENT_TRACE_LOGFILEW *given) {
    EVENT_TRACE_LOGFILEW l = *given;
    SetLastError(0);
    TRACEHANDLE h = f.OpenTraceW(&l);
    if (h != INVALID_PROCESSTRACE_HANDLE)
        f.CloseTrace(h);
    return h == INVALID_PROCESSTRACE_HANDLE ? GetLastError() : 0;
}

static void wrong_consumers(void) {
    static WCHAR name[] = L"absent", file[] = L"C:\\x.etl";
    EVENT_TRACE_LOGFILEW l = {.LoggerName = name, .EventRecordCallback = on_event};

    enum { BAD = ERROR_INVALID_PARAMETER };

    l.ProcessTraceMode =
        PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    EVENT_TRACE_LOGFILEW other = l;
    expect("OpenTrace: a session", open_error(&l), 0);
    other.LogFileName = file;
    expect("OpenTrace: a file beside it", open_error(&other), BAD);
    other = l;
    other.LoggerName = NULL;
    expect("OpenTrace: no session", open_error(&other), BAD);
    other = l;
    other.ProcessTraceMode &= ~(ULONG)PROCESS_TRACE_MODE_EVENT_RECORD;
    expect("OpenTrace: not by records", open_error(&other), BAD);
    other = l;
    other.EventRecordCallback = NULL;
    expect("OpenTrace: no callback", open_error(&other), BAD);
    other = l;
    other.ProcessTraceMode &= ~(ULONG)PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    expect("OpenTrace: times that are not raw, which the emulator has not", open_error(&other), ERROR_NOT_SUPPORTED);
    TRACEHANDLE two[2] = {f.OpenTraceW(&l), f.OpenTraceW(&l)};
    expect("ProcessTrace: two sessions at a time", f.ProcessTrace(two, 2, NULL, NULL), BAD);
    expect("ProcessTrace: a session that is not there", f.ProcessTrace(two, 1, NULL, NULL),
           ERROR_WMI_INSTANCE_NOT_FOUND);
    expect("CloseTrace", f.CloseTrace(two[0]) | f.CloseTrace(two[1]), 0);
    expect("CloseTrace: again", f.CloseTrace(two[0]), ERROR_INVALID_HANDLE);
    expect("ProcessTrace: a handle that was closed", f.ProcessTrace(two, 1, NULL, NULL), ERROR_INVALID_HANDLE);
}

/* ---- who is registered, and TDH ---- */

static void wrong_questions(const GUID *known) {
    uint8_t room[64];
    GUID guid = NO_PROVIDER, there = *known;
    ULONG bytes = 0;
    EVENT_RECORD event = {.EventHeader = {.ProviderId = NO_PROVIDER}};
    EVENT_DESCRIPTOR d = {.Id = 1};
    static WCHAR field[] = L"Field", value[] = L"1";
    ea_payload_predicate conditions[9];
    void *filter;

    enum { BAD = ERROR_INVALID_PARAMETER };

    for (int i = 0; i < 9; i++)
        conditions[i] = (ea_payload_predicate){field, 0, value};
    expect("EnumerateTraceGuidsEx: half a GUID",
           f.EnumerateTraceGuidsEx(TraceGuidQueryInfo, &guid, 8, room, 64, &bytes), BAD);
    expect("EnumerateTraceGuidsEx: no provider's",
           f.EnumerateTraceGuidsEx(TraceGuidQueryInfo, &guid, 16, room, 64, &bytes), ERROR_WMI_GUID_NOT_FOUND);
    expect("EnumerateTraceGuidsEx: no room", f.EnumerateTraceGuidsEx(TraceGuidQueryInfo, &there, 16, NULL, 0, &bytes),
           ERROR_INSUFFICIENT_BUFFER);
    expect("EnumerateTraceGuidsEx: the room that it wants", bytes,
           sizeof(TRACE_GUID_INFO) + sizeof(TRACE_PROVIDER_INSTANCE_INFO));
    expect("EnumerateTraceGuidsEx: another question", f.EnumerateTraceGuidsEx(3, &guid, 16, room, 64, &bytes), BAD);
    bytes = 0;
    expect("TdhEnumerateProviders: no room", f.TdhEnumerateProviders(NULL, &bytes), ERROR_INSUFFICIENT_BUFFER);
    expect("TdhEnumerateProviders: the room that it wants", bytes > 8 + sizeof(ea_tdh_provider), 1);
    bytes = sizeof room;
    expect("TdhEnumerateProviderFieldInformation: no keywords",
           f.TdhEnumerateProviderFieldInformation(&guid, EA_TDH_KEYWORDS, room, &bytes), ERROR_NOT_FOUND);
    expect("TdhGetEventInformation: unknown", f.TdhGetEventInformation(&event, 0, NULL, room, &bytes), ERROR_NOT_FOUND);
    expect("TdhGetEventInformation: no event", f.TdhGetEventInformation(NULL, 0, NULL, room, &bytes), BAD);
    expect("TdhCreatePayloadFilter: no condition", f.TdhCreatePayloadFilter(&guid, &d, FALSE, 0, conditions, &filter),
           BAD);
    expect("TdhCreatePayloadFilter: nine", f.TdhCreatePayloadFilter(&guid, &d, FALSE, 9, conditions, &filter), BAD);
    expect("TdhCreatePayloadFilter: an unknown event",
           f.TdhCreatePayloadFilter(&guid, &d, FALSE, 1, conditions, &filter), ERROR_NOT_FOUND);
}

/* The kernel's providers in a session without EVENT_TRACE_SYSTEM_LOGGER_MODE: Windows refuses them since build 20348.
 * Before that build they are like any other unregistered provider. */
static void kernel_providers(int is_older) {
    static const GUID PROCESS = {0x151f55dc, 0x467d, 0x471f, {0x83, 0xb5, 0x5f, 0x88, 0x9d, 0x46, 0xff, 0x66}};
    properties p = good();
    expect("StartTrace: for the kernel's providers", start(L"strict-user", &p, 1), 0);
    expect("EnableTraceEx2: one of the kernel's in a user's session",
           f.EnableTraceEx2(started, &PROCESS, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 1, 0, 0, NULL),
           is_older ? 0 : ERROR_INVALID_PARAMETER);
    stop(L"strict-user");
}

static int print_result(void) {
    printf("%d calls, %d answered otherwise than documented\n", tried, wrong);
    return wrong != 0;
}

/* With an argument: only the calls for which an older Windows returns another result. */
int main(int argc, char **argv) {
    static const GUID KNOWN = {0xe13c0d23, 0xccbc, 0x4e12, {0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4}};
    HMODULE dll = LoadLibraryExW(L"etwemul8.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    FARPROC address;
    properties p = good();
    if (!dll)
        return 2;
#define X(name, result, parameters)                                                                                    \
    address = GetProcAddress(dll, #name);                                                                              \
    memcpy(&f.name, &address, sizeof address);                                                                         \
    if (!address)                                                                                                      \
        return 2;
    FUNCTIONS(X)
#undef X
    (void)argv;
    kernel_providers(argc > 1);
    if (argc > 1)
        return print_result();
    wrong_properties();
    names_and_handles();
    limit(0, 64, 0, "StartTrace: a 65th session");
    limit(EVENT_TRACE_SYSTEM_LOGGER_MODE, 6, EVENT_TRACE_SYSTEM_LOGGER_MODE, "StartTrace: a seventh system logger");
    expect("StartTrace: a user's session", start(L"strict-user", &p, 1), 0);
    wrong_filters();
    TRACEHANDLE user = started;
    p = good();
    p.p.LogFileMode |= EVENT_TRACE_SYSTEM_LOGGER_MODE;
    expect("StartTrace: a system's session", start(L"strict-kernel", &p, 1), 0);
    wrong_information(user, started);
    stop(L"strict-kernel");
    stop(L"strict-user");
    wrong_consumers();
    wrong_questions(&KNOWN);
    return print_result();
}
