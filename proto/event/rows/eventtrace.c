/* The trace itself: its header and extensions, lost events. See rows.h. */
#include "rows.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row EVENT_TRACE = {
    EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), EA_KERNEL_TRACE, 1};

static const ea_field_row header_fields[] = {
    {"BufferSize", EA_U32},
    {"Version", EA_U32},
    {"ProviderVersion", EA_U32},
    {"NumberOfProcessors", EA_U32},
    {"EndTime", EA_FILETIME},
    {"TimerResolution", EA_U32},
    {"MaxFileSize", EA_U32},
    {"LogFileMode", EA_HEX32},
    {"BuffersWritten", EA_U32},
    {"StartBuffers", EA_U32},
    {"PointerSize", EA_U32},
    {"EventsLost", EA_U32},
    {"CPUSpeed", EA_U32},
    {"LoggerName", EA_POINTER, EA_SEM_ADDRESS},
    {"LogFileName", EA_POINTER, EA_SEM_ADDRESS},
    {"TimeZoneInformation", EA_BYTES, .count = 176},
    {"BootTime", EA_FILETIME},
    {"PerfFreq", EA_U64},
    {"StartTime", EA_FILETIME},
    {"ReservedFlags", EA_HEX32},
    {"BuffersLost", EA_U32},
    {"SessionNameString", EA_UTF16Z},
    {"LogFileNameString", EA_UTF16Z},
    {0},
};

static const ea_field_row extension_fields[] = {
    {"GroupMask1", EA_HEX32},
    {"GroupMask2", EA_HEX32},
    {"GroupMask3", EA_HEX32},
    {"GroupMask4", EA_HEX32},
    {"GroupMask5", EA_HEX32},
    {"GroupMask6", EA_HEX32},
    {"GroupMask7", EA_HEX32},
    {"GroupMask8", EA_HEX32},
    {"KernelEventVersion", EA_HEX32, .since = 2},
    {0},
};

/* The schema says that version 2 has the two ids as text. The kernel writes version 2 in every header of this kind, and
 * the ids as GUIDs (EventVersion 0), in all traces from Windows 10 1809 to 11 24H2 that were looked at. */
static const ea_field_row partition_info_extension_fields[] = {
    {"EventVersion", EA_U16},
    {"Reserved", EA_U16},
    {"PartitionType", EA_U32},
    {"QpcOffsetFromRoot", EA_I64},
    {"PartitionId", EA_GUID},
    {"ParentId", EA_GUID},
    {0},
};

static const ea_field_row dbg_id_rsds_fields[] = {
    {"Guid", EA_GUID},
    {"Age", EA_U32},
    {"PdbName", EA_ANSIZ},
    {0},
};

static const ea_field_row build_info_fields[] = {
    {"BuildString", EA_ANSIZ},
    {0},
};

static const ea_field_row provider_binary_path_fields[] = {
    {"GuidCount", EA_U32},
    {"Guid", EA_GUID, .count_field = "GuidCount"},
    {"BinaryPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row last_dropped_times_fields[] = {
    {"TimeStampCount", EA_U32},
    {"Padding", EA_U32},
    {"TimeStamp", EA_U64, .count_field = "TimeStampCount"},
    {0},
};

static const ea_class_row event_trace_rows[] = {
    {"EventTrace/Header", 0, 0, 2, header_fields},
    {"EventTrace/Extension", 5, 0, 2, extension_fields},
    {"EventTrace/RDComplete", 8, 0, 2, ea_no_fields},
    {"EventTrace/EndExtension", 32, 0, 2, extension_fields},
    {"EventTrace/DbgIdRSDS", 64, 2, 2, dbg_id_rsds_fields},
    {"EventTrace/BuildInfo", 66, 2, 2, build_info_fields},
    {"EventTrace/ProviderBinaryPath", 67, 2, 2, provider_binary_path_fields},
    {"EventTrace/PartitionInfoExtension", 80, 0, 2, partition_info_extension_fields},
    {"EventTrace/LastDroppedTimes", 82, 2, 2, last_dropped_times_fields},
};

const ea_family ea_family_event_trace = EA_FAMILY(EVENT_TRACE, event_trace_rows, EA_MOF);

static const ea_provider_row LOST_EVENT = {
    EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e), EA_KERNEL_TRACE, 1};

static const ea_class_row lost_event_rows[] = {
    {"LostEvent/RTLostEvent", 32, 0, 0, ea_no_fields},
    {"LostEvent/RTLostBuffer", 33, 0, 0, ea_no_fields},
    {"LostEvent/RTLostFile", 34, 0, 0, ea_no_fields},
};

const ea_family ea_family_lost_event = EA_FAMILY(LOST_EVENT, lost_event_rows, EA_MOF);
