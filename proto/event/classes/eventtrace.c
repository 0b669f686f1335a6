/* The trace itself: its header and extensions, lost events. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row EVENT_TRACE = {
    EA_PROVIDER_EVENT_TRACE, EA_KERNEL_TRACE, 1};

/* evntrace.h WNODE_HEADER.ClientContext */
static const ea_map_entry clock_type_names[] = {
    {1, "Qpc"},
    {2, "SystemTime"},
    {3, "CpuCycles"},
};
static const ea_enum clock_type = EA_VALUES("ClockType", clock_type_names);

static const ea_field_row header_fields[] = {
    {"BufferSize", EA_U32},
    {"Version", EA_U32},
    {"ProviderVersion", EA_U32},
    {"NumberOfProcessors", EA_U32},
    {"EndTime", EA_FILETIME},
    {"TimerResolution", EA_U32},
    {"MaxFileSize", EA_U32},
    {"LogFileMode", EA_HEX32, .map = &ea_log_mode},
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
    {"ReservedFlags", EA_HEX32, .map = &clock_type},
    {"BuffersLost", EA_U32},
    {"SessionNameString", EA_UTF16Z},
    {"LogFileNameString", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

/* evntrace.h EVENT_TRACE_FLAG_* */
static const ea_map_entry group_mask_1_names[] = {
    {0x1, "Process"},
    {0x2, "Thread"},
    {0x4, "ImageLoad"},
    {0x8, "ProcessCounters"},
    {0x10, "CSwitch"},
    {0x20, "Dpc"},
    {0x40, "Interrupt"},
    {0x80, "SystemCall"},
    {0x100, "DiskIo"},
    {0x200, "DiskFileIo"},
    {0x400, "DiskIoInit"},
    {0x800, "Dispatcher"},
    {0x1000, "MemoryPageFaults"},
    {0x2000, "MemoryHardFaults"},
    {0x4000, "VirtualAlloc"},
    {0x8000, "VaMap"},
    {0x10000, "NetworkTcpIp"},
    {0x20000, "Registry"},
    {0x40000, "DbgPrint"},
    {0x80000, "Job"},
    {0x100000, "Alpc"},
    {0x200000, "SplitIo"},
    {0x400000, "DebugEvents"},
    {0x800000, "Driver"},
    {0x1000000, "Profile"},
    {0x2000000, "FileIo"},
    {0x4000000, "FileIoInit"},
    {0x10000000, "NoSysConfig"},
};
static const ea_enum group_mask_1 = EA_FLAGS("KernelGroups1", group_mask_1_names);

/* ntwmi.h PERF_*, group mask 1 */
static const ea_map_entry group_mask_2_names[] = {
    {0x1, "Memory"},
    {0x2, "Profile"},
    {0x4, "ContextSwitch"},
    {0x8, "Footprint"},
    {0x10, "Drivers"},
    {0x20, "Refset"},
    {0x40, "Pool"},
    {0x80, "Dpc"},
    {0x100, "CompactCswitch"},
    {0x200, "Dispatcher"},
    {0x400, "PmcProfile"},
    {0x800, "ProcessInswap"},
    {0x1000, "Affinity"},
    {0x2000, "Priority"},
    {0x4000, "Interrupt"},
    {0x8000, "VirtualAlloc"},
    {0x10000, "Spinlock"},
    {0x20000, "SyncObjects"},
    {0x40000, "DpcQueue"},
    {0x80000, "Meminfo"},
    {0x100000, "ContmemGen"},
    {0x200000, "SpinlockCntrs"},
    {0x400000, "Session"},
    {0x800000, "MeminfoWs"},
    {0x1000000, "KernelQueue"},
    {0x2000000, "InterruptSteer"},
    {0x4000000, "ShouldYield"},
    {0x8000000, "Ws"},
};
static const ea_enum group_mask_2 = EA_FLAGS("KernelGroups2", group_mask_2_names);

/* ntwmi.h PERF_*, group mask 2 */
static const ea_map_entry group_mask_3_names[] = {
    {0x1, "AntiStarvation"},
    {0x2, "ProcessFreeze"},
    {0x4, "PfnList"},
    {0x8, "WsDetail"},
    {0x10, "WsEntry"},
    {0x20, "Heap"},
    {0x40, "Syscall"},
    {0x80, "Ums"},
    {0x100, "Backtrace"},
    {0x200, "Vulcan"},
    {0x400, "Objects"},
    {0x800, "Events"},
    {0x1000, "Fulltrace"},
    {0x2000, "Dfss"},
    {0x4000, "Prefetch"},
    {0x8000, "ProcessorIdle"},
    {0x10000, "CpuConfig"},
    {0x20000, "Timer"},
    {0x40000, "ClockInterrupt"},
    {0x80000, "LoadBalancer"},
    {0x100000, "ClockTimer"},
    {0x200000, "IdleSelection"},
    {0x400000, "Ipi"},
    {0x800000, "IoTimer"},
    {0x1000000, "RegHive"},
    {0x2000000, "RegNotif"},
    {0x4000000, "PpmExitLatency"},
    {0x8000000, "WorkerThread"},
};
static const ea_enum group_mask_3 = EA_FLAGS("KernelGroups3", group_mask_3_names);

/* ntwmi.h PERF_*, group mask 4 */
static const ea_map_entry group_mask_5_names[] = {
    {0x1, "OpticalIo"},
    {0x2, "OpticalIoInit"},
    {0x8, "DllInfo"},
    {0x10, "DllFlushWs"},
    {0x40, "ObHandle"},
    {0x80, "ObObject"},
    {0x200, "WakeDrop"},
    {0x400, "WakeEvent"},
    {0x800, "Debugger"},
    {0x1000, "ProcAttach"},
    {0x2000, "WakeCounter"},
    {0x8000, "Power"},
    {0x10000, "SoftTrim"},
    {0x20000, "Cc"},
    {0x80000, "FltIoInit"},
    {0x100000, "FltIo"},
    {0x200000, "FltFastio"},
    {0x400000, "FltIoFailure"},
    {0x800000, "HvProfile"},
    {0x1000000, "WdfDpc"},
    {0x2000000, "WdfInterrupt"},
    {0x4000000, "CacheFlush"},
};
static const ea_enum group_mask_5 = EA_FLAGS("KernelGroups5", group_mask_5_names);

/* ntwmi.h PERF_*, group mask 5 */
static const ea_map_entry group_mask_6_names[] = {
    {0x1, "HiberRundown"},
    {0x40, "PhysicalMemory"},
};
static const ea_enum group_mask_6 = EA_FLAGS("KernelGroups6", group_mask_6_names);

/* ntwmi.h PERF_*, group mask 6 */
static const ea_map_entry group_mask_7_names[] = {
    {0x1, "SyscfgSystem"},
    {0x2, "SyscfgGraphics"},
    {0x4, "SyscfgStorage"},
    {0x8, "SyscfgNetwork"},
    {0x10, "SyscfgServices"},
    {0x20, "SyscfgPnp"},
    {0x40, "SyscfgOptical"},
};
static const ea_enum group_mask_7 = EA_FLAGS("KernelGroups7", group_mask_7_names);

/* ntwmi.h PERF_*, group mask 7 */
static const ea_map_entry group_mask_8_names[] = {
    {0x1, "MarkWithFlush"},
    {0x2, "MemoryControl"},
};
static const ea_enum group_mask_8 = EA_FLAGS("KernelGroups8", group_mask_8_names);

static const ea_field_row extension_fields[] = {
    {"GroupMask1", EA_HEX32, .map = &group_mask_1},
    {"GroupMask2", EA_HEX32, .map = &group_mask_2},
    {"GroupMask3", EA_HEX32, .map = &group_mask_3},
    {"GroupMask4", EA_HEX32},
    {"GroupMask5", EA_HEX32, .map = &group_mask_5},
    {"GroupMask6", EA_HEX32, .map = &group_mask_6},
    {"GroupMask7", EA_HEX32, .map = &group_mask_7},
    {"GroupMask8", EA_HEX32, .map = &group_mask_8},
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
    {"TimeStamp", EA_U64, EA_SEM_QPC, .count_field = "TimeStampCount"},
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
    EA_PROVIDER_LOST_EVENT, EA_KERNEL_TRACE, 1};

static const ea_class_row lost_event_rows[] = {
    {"LostEvent/RTLostEvent", 32, 0, 0, ea_no_fields},
    {"LostEvent/RTLostBuffer", 33, 0, 0, ea_no_fields},
    {"LostEvent/RTLostFile", 34, 0, 0, ea_no_fields},
};

const ea_family ea_family_lost_event = EA_FAMILY(LOST_EVENT, lost_event_rows, EA_MOF);
