/* ETW as Windows has it: its headers, and what mingw-w64's lack, each declared once, with its size and its source. Used
 * by: service/etw, and the tests' emulator. Thread: none. */
#ifndef EA_ETW_ETW_H
#define EA_ETW_ETW_H

#include <windows.h>

#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <stddef.h>
#include <stdint.h>
#include <wmistr.h>

/* evntprov.h of the Windows SDK, "EVENT_FILTER_TYPE_*". */
enum {
    EA_FILTER_NONE =
        0, /* what the provider defines; an EventSource's command Update, and its arguments (add_arguments) */
    EA_FILTER_SCHEMATIZED = (int)0x80000000,        /* ea_filter_header and what the provider defines */
    EA_FILTER_PID = (int)0x80000004,                /* up to 8 ULONGs */
    EA_FILTER_EXECUTABLE_NAME = (int)0x80000008,    /* UTF-16, names separated by ; */
    EA_FILTER_PACKAGE_ID = (int)0x80000010,         /* UTF-16, the same */
    EA_FILTER_PACKAGE_APP_ID = (int)0x80000020,     /* UTF-16, the same */
    EA_FILTER_PAYLOAD = (int)0x80000100,            /* what TdhAggregatePayloadFilters made */
    EA_FILTER_EVENT_ID = (int)0x80000200,           /* ea_filter_event_id */
    EA_FILTER_EVENT_NAME = (int)0x80000400,         /* ea_filter_event_name */
    EA_FILTER_STACKWALK = (int)0x80001000,          /* ea_filter_event_id */
    EA_FILTER_STACKWALK_NAME = (int)0x80002000,     /* ea_filter_event_name */
    EA_FILTER_STACKWALK_LEVEL_KW = (int)0x80004000, /* ea_filter_level_kw */
    EA_FILTER_CONTAINER = (int)0x80008000,          /* UTF-16, GUIDs separated by ; */
};

enum {
    EA_FILTERS_MAX = 13,          /* MAX_EVENT_FILTERS_COUNT */
    EA_FILTER_PAYLOAD_MAX = 4096, /* MAX_EVENT_FILTER_PAYLOAD_SIZE */
    EA_POOL_FILTER_ID = 1,        /* SYSTEM_MEMORY_POOL_FILTER_ID (evntrace.h) */
};

/* EVENT_FILTER_EVENT_ID (evntprov.h). */
typedef struct ea_filter_event_id {
    BOOLEAN filter_in;
    UCHAR reserved;
    USHORT count;
    USHORT events[ANYSIZE_ARRAY];
} ea_filter_event_id;

_Static_assert(sizeof(ea_filter_event_id) == 6 && offsetof(ea_filter_event_id, events) == 4, "EVENT_FILTER_EVENT_ID");

/* EVENT_FILTER_LEVEL_KW (evntprov.h). */
typedef struct ea_filter_level_kw {
    ULONGLONG any, all;
    UCHAR level;
    BOOLEAN filter_in;
} ea_filter_level_kw;

_Static_assert(sizeof(ea_filter_level_kw) == 24 && offsetof(ea_filter_level_kw, level) == 16 &&
                   offsetof(ea_filter_level_kw, filter_in) == 17,
               "EVENT_FILTER_LEVEL_KW");

/* EVENT_FILTER_EVENT_NAME (evntprov.h): of TraceLogging events. Names follow one another, UTF-8, each with its NUL. */
typedef struct ea_filter_event_name {
    ULONGLONG any, all;
    UCHAR level;
    BOOLEAN filter_in;
    USHORT count;
    UCHAR names[ANYSIZE_ARRAY];
} ea_filter_event_name;

_Static_assert(sizeof(ea_filter_event_name) == 24 && offsetof(ea_filter_event_name, count) == 18 &&
                   offsetof(ea_filter_event_name, names) == 20,
               "EVENT_FILTER_EVENT_NAME");

/* EVENT_FILTER_HEADER (evntprov.h). */
typedef struct ea_filter_header {
    USHORT id;
    UCHAR version;
    UCHAR reserved[5];
    ULONGLONG instance_id;
    ULONG size;        /* of all of it */
    ULONG next_offset; /* 0: no more */
} ea_filter_header;

_Static_assert(sizeof(ea_filter_header) == 24 && offsetof(ea_filter_header, instance_id) == 8 &&
                   offsetof(ea_filter_header, size) == 16 && offsetof(ea_filter_header, next_offset) == 20,
               "EVENT_FILTER_HEADER");

/* PAYLOAD_FILTER_PREDICATE (tdh.h). */
typedef struct ea_payload_predicate {
    WCHAR *field;
    USHORT compare;
    WCHAR *value;
} ea_payload_predicate;

_Static_assert(sizeof(ea_payload_predicate) == 24 && offsetof(ea_payload_predicate, value) == 16,
               "PAYLOAD_FILTER_PREDICATE");

/* evntcons.h, "EVENT_ENABLE_PROPERTY_*". */
enum {
    EA_ENABLE_IGNORE_KEYWORD_0 = 0x10,
    EA_ENABLE_PROVIDER_GROUP = 0x20,
    EA_ENABLE_PROCESS_START_KEY = 0x80,
    EA_ENABLE_EVENT_KEY = 0x100,
    EA_ENABLE_EXCLUDE_INPRIVATE = 0x200,
    EA_ENABLE_PSM_KEY = 0x8,
};

/* Documented only in the Windows SDK's evntrace.h: SystemTraceControlGuid. */
#define EA_SYSTEM_TRACE_CONTROL_GUID                                                                                   \
    ((GUID){0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}})

/* TRACE_INFO_CLASS values that mingw lacks (evntrace.h). */
enum {
    EA_TRACE_MAX_PMC_COUNTER_QUERY = 22,
    EA_TRACE_PMC_COUNTER_OWNERS = 25,
    EA_TRACE_PMC_SESSION_INFORMATION = 27,
};

/* TracePmcCounterOwners, since Windows 10 21H2: the counters of a processor in use, by whomever;
 * ETW_PMC_COUNTER_OWNERSHIP_STATUS and ETW_PMC_COUNTER_OWNER (evntrace.h). */
enum { EA_PMC_OWNER_FREE = 0, EA_PMC_OWNER_UNTAGGED, EA_PMC_OWNER_TAGGED, EA_PMC_OWNER_TAGGED_WITH_SOURCE };

typedef struct ea_pmc_owner {
    ULONG type; /* EA_PMC_OWNER_* */
    ULONG source, tag;
} ea_pmc_owner;

typedef struct ea_pmc_owners {
    ULONG processor, count;
    ea_pmc_owner owners[ANYSIZE_ARRAY];
} ea_pmc_owners;

/* TracePmcSessionInformation, since Windows 10 22H2: each session that has counters, followed by its sources (ULONG),
 * then its events' hook ids (USHORT). ETW_PMC_SESSION_INFO (evntrace.h). */
typedef struct ea_pmc_session {
    ULONG next_offset; /* 0: the last one */
    USHORT logger, reserved;
    ULONG source_count, hook_count;
} ea_pmc_session;

_Static_assert(sizeof(ea_pmc_session) == 16 && offsetof(ea_pmc_session, source_count) == 8, "ETW_PMC_SESSION_INFO");
_Static_assert(sizeof(ea_pmc_owner) == 12 && offsetof(ea_pmc_owners, owners) == 8, "ETW_PMC_COUNTER_OWNERSHIP_STATUS");

/* The structures that are passed to Windows, as the SDK's headers (wmistr.h, evntrace.h, evntcons.h, evntprov.h) lay
 * them out on 64-bit machines: each member that is read or written here. */
_Static_assert(sizeof(WNODE_HEADER) == 48 && offsetof(WNODE_HEADER, BufferSize) == 0 &&
                   offsetof(WNODE_HEADER, HistoricalContext) == 8 && offsetof(WNODE_HEADER, Guid) == 24 &&
                   offsetof(WNODE_HEADER, ClientContext) == 40 && offsetof(WNODE_HEADER, Flags) == 44,
               "WNODE_HEADER");
_Static_assert(sizeof(EVENT_TRACE_PROPERTIES) == 120 && offsetof(EVENT_TRACE_PROPERTIES, BufferSize) == 48 &&
                   offsetof(EVENT_TRACE_PROPERTIES, MinimumBuffers) == 52 &&
                   offsetof(EVENT_TRACE_PROPERTIES, MaximumBuffers) == 56 &&
                   offsetof(EVENT_TRACE_PROPERTIES, MaximumFileSize) == 60 &&
                   offsetof(EVENT_TRACE_PROPERTIES, LogFileMode) == 64 &&
                   offsetof(EVENT_TRACE_PROPERTIES, FlushTimer) == 68 &&
                   offsetof(EVENT_TRACE_PROPERTIES, EnableFlags) == 72 &&
                   offsetof(EVENT_TRACE_PROPERTIES, NumberOfBuffers) == 80 &&
                   offsetof(EVENT_TRACE_PROPERTIES, FreeBuffers) == 84 &&
                   offsetof(EVENT_TRACE_PROPERTIES, EventsLost) == 88 &&
                   offsetof(EVENT_TRACE_PROPERTIES, BuffersWritten) == 92 &&
                   offsetof(EVENT_TRACE_PROPERTIES, LogBuffersLost) == 96 &&
                   offsetof(EVENT_TRACE_PROPERTIES, RealTimeBuffersLost) == 100 &&
                   offsetof(EVENT_TRACE_PROPERTIES, LoggerThreadId) == 104 &&
                   offsetof(EVENT_TRACE_PROPERTIES, LogFileNameOffset) == 112 &&
                   offsetof(EVENT_TRACE_PROPERTIES, LoggerNameOffset) == 116,
               "EVENT_TRACE_PROPERTIES");
_Static_assert(
    sizeof(EVENT_TRACE_LOGFILEW) == 448 && offsetof(EVENT_TRACE_LOGFILEW, LogFileName) == 0 &&
        offsetof(EVENT_TRACE_LOGFILEW, LoggerName) == 8 && offsetof(EVENT_TRACE_LOGFILEW, BuffersRead) == 24 &&
        offsetof(EVENT_TRACE_LOGFILEW, ProcessTraceMode) == 28 && offsetof(EVENT_TRACE_LOGFILEW, CurrentEvent) == 32 &&
        offsetof(EVENT_TRACE_LOGFILEW, LogfileHeader) == 120 && offsetof(EVENT_TRACE_LOGFILEW, BufferCallback) == 400 &&
        offsetof(EVENT_TRACE_LOGFILEW, EventRecordCallback) == 424 && offsetof(EVENT_TRACE_LOGFILEW, Context) == 440,
    "EVENT_TRACE_LOGFILEW");
_Static_assert(
    sizeof(TRACE_LOGFILE_HEADER) == 280 && offsetof(TRACE_LOGFILE_HEADER, BufferSize) == 0 &&
        offsetof(TRACE_LOGFILE_HEADER, Version) == 4 && offsetof(TRACE_LOGFILE_HEADER, ProviderVersion) == 8 &&
        offsetof(TRACE_LOGFILE_HEADER, NumberOfProcessors) == 12 && offsetof(TRACE_LOGFILE_HEADER, LogFileMode) == 32 &&
        offsetof(TRACE_LOGFILE_HEADER, PointerSize) == 44 && offsetof(TRACE_LOGFILE_HEADER, CpuSpeedInMHz) == 52 &&
        offsetof(TRACE_LOGFILE_HEADER, TimeZone) == 72 && offsetof(TRACE_LOGFILE_HEADER, BootTime) == 248 &&
        offsetof(TRACE_LOGFILE_HEADER, PerfFreq) == 256 && offsetof(TRACE_LOGFILE_HEADER, ReservedFlags) == 272,
    "TRACE_LOGFILE_HEADER");
_Static_assert(sizeof(EVENT_HEADER) == 80 && offsetof(EVENT_HEADER, Flags) == 4 &&
                   offsetof(EVENT_HEADER, EventProperty) == 6 && offsetof(EVENT_HEADER, ThreadId) == 8 &&
                   offsetof(EVENT_HEADER, ProcessId) == 12 && offsetof(EVENT_HEADER, TimeStamp) == 16 &&
                   offsetof(EVENT_HEADER, ProviderId) == 24 && offsetof(EVENT_HEADER, EventDescriptor) == 40 &&
                   offsetof(EVENT_HEADER, KernelTime) == 56 && offsetof(EVENT_HEADER, UserTime) == 60 &&
                   offsetof(EVENT_HEADER, ActivityId) == 64,
               "EVENT_HEADER");
_Static_assert(sizeof(EVENT_RECORD) == 112 && offsetof(EVENT_RECORD, BufferContext) == 80 &&
                   offsetof(EVENT_RECORD, ExtendedDataCount) == 84 && offsetof(EVENT_RECORD, UserDataLength) == 86 &&
                   offsetof(EVENT_RECORD, ExtendedData) == 88 && offsetof(EVENT_RECORD, UserData) == 96 &&
                   offsetof(EVENT_RECORD, UserContext) == 104,
               "EVENT_RECORD");
_Static_assert(sizeof(EVENT_HEADER_EXTENDED_DATA_ITEM) == 16 &&
                   offsetof(EVENT_HEADER_EXTENDED_DATA_ITEM, ExtType) == 2 &&
                   offsetof(EVENT_HEADER_EXTENDED_DATA_ITEM, DataSize) == 6 &&
                   offsetof(EVENT_HEADER_EXTENDED_DATA_ITEM, DataPtr) == 8,
               "EVENT_HEADER_EXTENDED_DATA_ITEM");
_Static_assert(sizeof(ENABLE_TRACE_PARAMETERS) == 48 && offsetof(ENABLE_TRACE_PARAMETERS, Version) == 0 &&
                   offsetof(ENABLE_TRACE_PARAMETERS, EnableProperty) == 4 &&
                   offsetof(ENABLE_TRACE_PARAMETERS, ControlFlags) == 8 &&
                   offsetof(ENABLE_TRACE_PARAMETERS, EnableFilterDesc) == 32 &&
                   offsetof(ENABLE_TRACE_PARAMETERS, FilterDescCount) == 40,
               "ENABLE_TRACE_PARAMETERS");
_Static_assert(sizeof(EVENT_FILTER_DESCRIPTOR) == 16 && offsetof(EVENT_FILTER_DESCRIPTOR, Ptr) == 0 &&
                   offsetof(EVENT_FILTER_DESCRIPTOR, Size) == 8 && offsetof(EVENT_FILTER_DESCRIPTOR, Type) == 12,
               "EVENT_FILTER_DESCRIPTOR");
_Static_assert(sizeof(TRACE_GUID_INFO) == 8 && offsetof(TRACE_GUID_INFO, InstanceCount) == 0, "TRACE_GUID_INFO");
_Static_assert(sizeof(TRACE_PROVIDER_INSTANCE_INFO) == 16 && offsetof(TRACE_PROVIDER_INSTANCE_INFO, NextOffset) == 0 &&
                   offsetof(TRACE_PROVIDER_INSTANCE_INFO, EnableCount) == 4 &&
                   offsetof(TRACE_PROVIDER_INSTANCE_INFO, Flags) == 12,
               "TRACE_PROVIDER_INSTANCE_INFO");
_Static_assert(sizeof(TRACE_ENABLE_INFO) == 32 && offsetof(TRACE_ENABLE_INFO, IsEnabled) == 0 &&
                   offsetof(TRACE_ENABLE_INFO, Level) == 4 && offsetof(TRACE_ENABLE_INFO, LoggerId) == 6 &&
                   offsetof(TRACE_ENABLE_INFO, MatchAnyKeyword) == 16 &&
                   offsetof(TRACE_ENABLE_INFO, MatchAllKeyword) == 24,
               "TRACE_ENABLE_INFO");
_Static_assert(sizeof(CLASSIC_EVENT_ID) == 24 && offsetof(CLASSIC_EVENT_ID, EventGuid) == 0 &&
                   offsetof(CLASSIC_EVENT_ID, Type) == 16,
               "CLASSIC_EVENT_ID");
_Static_assert(sizeof(TRACE_PROFILE_INTERVAL) == 8 && offsetof(TRACE_PROFILE_INTERVAL, Source) == 0 &&
                   offsetof(TRACE_PROFILE_INTERVAL, Interval) == 4,
               "TRACE_PROFILE_INTERVAL");
_Static_assert(sizeof(PROFILE_SOURCE_INFO) == 32 && offsetof(PROFILE_SOURCE_INFO, NextEntryOffset) == 0 &&
                   offsetof(PROFILE_SOURCE_INFO, Source) == 4 && offsetof(PROFILE_SOURCE_INFO, MinInterval) == 8 &&
                   offsetof(PROFILE_SOURCE_INFO, MaxInterval) == 12 && offsetof(PROFILE_SOURCE_INFO, Description) == 24,
               "PROFILE_SOURCE_INFO");

/* TdhEnumerateProviders: PROVIDER_ENUMERATION_INFO and TRACE_PROVIDER_INFO (tdh.h). */
typedef struct ea_tdh_provider {
    GUID guid;
    ULONG source; /* 0: a manifest, 1: MOF */
    ULONG name_offset;
} ea_tdh_provider;

typedef struct ea_tdh_providers {
    ULONG count;
    ULONG reserved;
    ea_tdh_provider items[ANYSIZE_ARRAY];
} ea_tdh_providers;

_Static_assert(sizeof(ea_tdh_provider) == 24 && offsetof(ea_tdh_provider, source) == 16 &&
                   offsetof(ea_tdh_provider, name_offset) == 20 && offsetof(ea_tdh_providers, items) == 8,
               "PROVIDER_ENUMERATION_INFO");

/* TdhEnumerateProviderFieldInformation: PROVIDER_FIELD_INFOARRAY and PROVIDER_FIELD_INFO (tdh.h). */
enum { EA_TDH_KEYWORDS = 0, EA_TDH_LEVELS = 1 };

typedef struct ea_tdh_field {
    ULONG name_offset;
    ULONG description_offset;
    ULONGLONG value;
} ea_tdh_field;

typedef struct ea_tdh_fields {
    ULONG count;
    ULONG kind;
    ea_tdh_field items[ANYSIZE_ARRAY];
} ea_tdh_fields;

_Static_assert(sizeof(ea_tdh_field) == 16 && offsetof(ea_tdh_field, value) == 8 && offsetof(ea_tdh_fields, kind) == 4 &&
                   offsetof(ea_tdh_fields, items) == 8,
               "PROVIDER_FIELD_INFOARRAY");

/* TdhEnumerateManifestProviderEvents: PROVIDER_EVENT_INFO (tdh.h). */
typedef struct ea_tdh_events {
    ULONG count;
    ULONG reserved;
    EVENT_DESCRIPTOR items[ANYSIZE_ARRAY];
} ea_tdh_events;

_Static_assert(sizeof(EVENT_DESCRIPTOR) == 16 && offsetof(EVENT_DESCRIPTOR, Opcode) == 5 &&
                   offsetof(EVENT_DESCRIPTOR, Keyword) == 8 && offsetof(ea_tdh_events, items) == 8,
               "EVENT_DESCRIPTOR, PROVIDER_EVENT_INFO");

#endif
