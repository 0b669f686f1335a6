/* Microsoft-Windows-Kernel-EventTracing: the events of ETW about its own sessions and providers, and the user-mode
 * halves of stacks (id 18, whose stack is an extended item and which has no payload). Names are the manifest's task and
 * opcode; where several ids share them, the id follows, as in the manifest's symbols. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row EVENT_TRACING = {
    EA_PROVIDER_EVENT_TRACING,
    "Microsoft-Windows-Kernel-EventTracing", 0};

static const ea_field_row write_buffer_fields[] = {
    {"SessionName", EA_UTF16Z},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"ErrorCode", EA_HEX32, EA_SEM_NTSTATUS},
    {"LoggingMode", EA_HEX32, .map = &ea_log_mode},
    {0},
};

static const ea_field_row write_buffer_1_fields[] = {
    {"SessionName", EA_UTF16Z},
    {"ErrorCode", EA_HEX32, EA_SEM_NTSTATUS},
    {"LoggingMode", EA_HEX32, .map = &ea_log_mode},
    {0},
};

static const ea_field_row stop_fields[] = {
    {"SessionName", EA_UTF16Z},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"ErrorCode", EA_HEX32, EA_SEM_NTSTATUS},
    {"LoggingMode", EA_HEX32, .map = &ea_log_mode},
    {"FailureReason", EA_U32, .since = 1},
    {0},
};

static const ea_field_row write_buffer_4_fields[] = {
    {"SessionName", EA_UTF16Z},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"ErrorCode", EA_HEX32, EA_SEM_NTSTATUS},
    {"LoggingMode", EA_HEX32, .map = &ea_log_mode},
    {"MaxFileSize", EA_U64, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row register_fields[] = {
    {"ProviderName", EA_GUID},
    {0},
};

static const ea_field_row session_fields[] = {
    {"SessionGuid", EA_GUID},
    {"LoggerMode", EA_HEX32, .map = &ea_log_mode},
    {"SessionName", EA_UTF16Z},
    {"LogFileName", EA_UTF16Z, EA_SEM_PATH},
    {"MinimumBuffers", EA_U32, .since = 1},
    {"MaximumBuffers", EA_U32, .since = 1},
    {"BufferSize", EA_U32, .since = 1},
    {"PeakBuffersCount", EA_U32, .since = 1},
    {"CurrentBuffersCount", EA_U32, .since = 1},
    {"FlushThreshold", EA_U32, .since = 1},
    {0},
};

static const ea_field_row session_20_fields[] = {
    {"SessionGuid", EA_GUID},
    {"LoggerMode", EA_HEX32, .map = &ea_log_mode},
    {"SessionName", EA_UTF16Z},
    {"LogFileName", EA_UTF16Z, EA_SEM_PATH},
    {"MinimumBuffers", EA_U32},
    {"MaximumBuffers", EA_U32},
    {"BufferSize", EA_U32},
    {"PeakBuffersCount", EA_U32},
    {"CurrentBuffersCount", EA_U32},
    {"FlushThreshold", EA_U32},
    {0},
};

static const ea_field_row enable_fields[] = {
    {"ProviderName", EA_GUID},
    {"SessionName", EA_UTF16Z},
    {"MatchAnyKeyword", EA_HEX64, .since = 1},
    {"MatchAllKeyword", EA_HEX64, .since = 1},
    {"EnableProperty", EA_HEX32, .since = 1},
    {"Level", EA_U8, .since = 1, .map = &ea_trace_level},
    {0},
};

static const ea_field_row lost_event_fields[] = {
    {"ProviderId", EA_GUID},
    {"StatusCode", EA_HEX32, EA_SEM_NTSTATUS},
    {"EventId", EA_U16},
    {"SessionName", EA_UTF16Z},
    {0},
};

static const ea_field_row persisted_fields[] = {
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"BufferSize", EA_U32},
    {"BuffersPersisted", EA_U32},
    {"BuffersWritten", EA_U32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_class_row event_tracing_rows[] = {
    {"Logging/WriteBuffer", 0, 0, 0, write_buffer_fields},
    {"Logging/WriteBuffer1", 1, 0, 0, write_buffer_1_fields},
    {"Session/Start", 2, 0, 0, write_buffer_fields},
    {"Session/Stop", 3, 0, 1, stop_fields},
    {"Logging/WriteBuffer4", 4, 0, 0, write_buffer_4_fields},
    {"Logging/FileSwitch", 5, 0, 0, write_buffer_fields},
    {"Provider/Register", 8, 0, 0, register_fields},
    {"Provider/Unregister", 9, 0, 0, register_fields},
    {"Session/Start10", 10, 0, 1, session_fields},
    {"Session/Stop11", 11, 0, 1, session_fields},
    {"Session/Configure", 12, 0, 0, session_fields},
    {"Session/Flush", 13, 0, 0, session_fields},
    {"Provider/Enable", 14, 0, 1, enable_fields},
    {"Provider/Disable", 15, 0, 0, enable_fields},
    {"Session/Configure17", 17, 0, 0, session_fields},
    {"StackTrace/UserModeStackTrace", 18, 0, 0, ea_no_fields},
    {"LostEvent/LostEvent", 19, 0, 0, lost_event_fields},
    {"Session/Info", 20, 0, 0, session_20_fields},
    {"SavePersistedLogger/Start", 21, 0, 0, ea_no_fields},
    {"SavePersistedLogger/Stop", 22, 0, 0, persisted_fields},
    {"SavePersistedLogger/Error", 23, 0, 0, persisted_fields},
};

const ea_family ea_family_event_tracing =
    EA_FAMILY(EVENT_TRACING, event_tracing_rows, "jdu2600/Windows10EtwEvents Microsoft-Windows-Kernel-EventTracing.tsv");
