/* The functions of ETW and TDH, loaded from System32's DLLs by name into one table. No other code of this program calls
 * them. A function that a Windows version lacks causes a message, instead of a program that does not start.
 * Called by: session.h, live.h. Calls: Windows. Thread: any, after it is loaded. */
#ifndef EA_ETW_ETW_API_H
#define EA_ETW_ETW_API_H

#include "proto/base/err.h"
#include "service/etw/etw.h"

/* DLL, name, result, parameters, and whether nothing works without it. */
#define EA_ETW_FUNCTIONS(X)                                                                                            \
    X(ETW, StartTraceW, ULONG, (PTRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES), 1)                                    \
    X(ETW, ControlTraceW, ULONG, (TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES, ULONG), 1)                            \
    X(ETW, EnableTraceEx2, ULONG,                                                                                      \
      (TRACEHANDLE, LPCGUID, ULONG, UCHAR, ULONGLONG, ULONGLONG, ULONG, PENABLE_TRACE_PARAMETERS), 1)                  \
    X(ETW, OpenTraceW, TRACEHANDLE, (PEVENT_TRACE_LOGFILEW), 1)                                                        \
    X(ETW, ProcessTrace, ULONG, (PTRACEHANDLE, ULONG, LPFILETIME, LPFILETIME), 1)                                      \
    X(ETW, CloseTrace, ULONG, (TRACEHANDLE), 1)                                                                        \
    X(ETW, QueryAllTracesW, ULONG, (PEVENT_TRACE_PROPERTIES *, ULONG, PULONG), 0)                                      \
    X(ETW, TraceSetInformation, ULONG, (TRACEHANDLE, TRACE_INFO_CLASS, PVOID, ULONG), 0)                               \
    X(ETW, TraceQueryInformation, ULONG, (TRACEHANDLE, TRACE_INFO_CLASS, PVOID, ULONG, PULONG), 0)                     \
    X(ETW, EventRegister, ULONG, (LPCGUID, PENABLECALLBACK, PVOID, PREGHANDLE), 0)                                     \
    X(ETW, EventUnregister, ULONG, (REGHANDLE), 0)                                                                     \
    X(ETW, EventEnabled, BOOLEAN, (REGHANDLE, PCEVENT_DESCRIPTOR), 0)                                                  \
    X(ETW, EventWrite, ULONG, (REGHANDLE, PCEVENT_DESCRIPTOR, ULONG, PEVENT_DATA_DESCRIPTOR), 0)                       \
    X(ETW, EnumerateTraceGuidsEx, ULONG, (TRACE_QUERY_INFO_CLASS, PVOID, ULONG, PVOID, ULONG, PULONG), 0)              \
    X(TDH, TdhEnumerateProviders, ULONG, (ea_tdh_providers *, ULONG *), 0)                                             \
    X(TDH, TdhEnumerateProviderFieldInformation, ULONG, (const GUID *, int, ea_tdh_fields *, ULONG *), 0)              \
    X(TDH, TdhGetEventInformation, ULONG, (EVENT_RECORD *, ULONG, void *, void *, ULONG *), 0)                         \
    X(TDH, TdhGetEventMapInformation, ULONG, (EVENT_RECORD *, WCHAR *, void *, ULONG *), 0)                            \
    X(TDH, TdhEnumerateManifestProviderEvents, ULONG, (GUID *, ea_tdh_events *, ULONG *), 0)                           \
    X(TDH, TdhGetManifestEventInformation, ULONG, (GUID *, EVENT_DESCRIPTOR *, void *, ULONG *), 0)                    \
    X(TDH, TdhCreatePayloadFilter, ULONG,                                                                              \
      (const GUID *, const EVENT_DESCRIPTOR *, BOOLEAN, ULONG, ea_payload_predicate *, void **), 0)                    \
    X(TDH, TdhDeletePayloadFilter, ULONG, (void **), 0)                                                                \
    X(TDH, TdhAggregatePayloadFilters, ULONG, (ULONG, void **, BOOLEAN *, EVENT_FILTER_DESCRIPTOR *), 0)               \
    X(TDH, TdhCleanupPayloadEventFilterDescriptor, ULONG, (EVENT_FILTER_DESCRIPTOR *), 0)

typedef struct ea_etw_api {
#define X(dll, name, result, parameters, required) result(WINAPI *name) parameters;
    EA_ETW_FUNCTIONS(X)
#undef X
} ea_etw_api;

/* The table, filled at the first call; a function that this Windows lacks is NULL. EA_EUNSUPPORTED when one is missing
 * without which nothing works. Constant from then on. */
EA_MUST_CHECK int ea_etw_load(const ea_etw_api **ret, ea_err *err);

/* One call of a function of TDH that says how much room its answer takes. */
typedef ULONG (*ea_tdh_call)(const void *question, void *data, ULONG *bytes);
/* Calls it until the answer has the room that it wants, which may be more a moment later. *ret: the caller frees it. */
EA_MUST_CHECK int ea_tdh_get(ea_tdh_call call, const void *question, void **ret, ULONG *ret_bytes, ea_err *err);

/* The code for what Windows answered: EA_EREFUSED (access denied), EA_EEXIST, EA_ENOTFOUND, EA_EFULL (no more
 * sessions), EA_EINVAL, EA_ENOMEM, EA_EIO. */
int ea_etw_code(ULONG error);

#endif
