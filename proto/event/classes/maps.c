/* What several families share: names of numbers, and the fields of an event without a payload. See classes.h. */
#include "proto/event/classes/classes.h"

const ea_field_row ea_no_fields[1] = {{0}};

/* one line a field, one line a class */
// clang-format off

/* wdm.h IRP_MJ_* */
static const ea_map_entry irp_major_names[] = {
    {0, "Create"},
    {1, "CreateNamedPipe"},
    {2, "Close"},
    {3, "Read"},
    {4, "Write"},
    {5, "QueryInformation"},
    {6, "SetInformation"},
    {7, "QueryEa"},
    {8, "SetEa"},
    {9, "FlushBuffers"},
    {10, "QueryVolumeInformation"},
    {11, "SetVolumeInformation"},
    {12, "DirectoryControl"},
    {13, "FileSystemControl"},
    {14, "DeviceControl"},
    {15, "InternalDeviceControl"},
    {16, "Shutdown"},
    {17, "LockControl"},
    {18, "Cleanup"},
    {19, "CreateMailslot"},
    {20, "QuerySecurity"},
    {21, "SetSecurity"},
    {22, "Power"},
    {23, "SystemControl"},
    {24, "DeviceChange"},
    {25, "QueryQuota"},
    {26, "SetQuota"},
    {27, "Pnp"},
};
const ea_enum ea_irp_major = EA_VALUES("IrpMajorFunction", irp_major_names);

/* wdm.h IRP_*; the priority is a number in bits 17 to 19, so that the entries with two bits come first */
static const ea_map_entry irp_flags_names[] = {
    {0x1, "Nocache"},
    {0x2, "PagingIo"},
    {0x4, "SynchronousApi"},
    {0x8, "AssociatedIrp"},
    {0x10, "BufferedIo"},
    {0x20, "DeallocateBuffer"},
    {0x40, "SynchronousPagingIo"},
    {0x80, "Create"},
    {0x100, "Read"},
    {0x200, "Write"},
    {0x400, "Close"},
    {0x800, "DeferIoCompletion"},
    {0x1000, "ObQueryName"},
    {0x2000, "HoldDeviceQueue"},
    {0x4000, "UmDriverInitiatedIo"},
    {0xa0000, "PriorityCritical"},
    {0x60000, "PriorityNormal"},
    {0x80000, "PriorityHigh"},
    {0x40000, "PriorityLow"},
    {0x20000, "PriorityVeryLow"},
};
const ea_enum ea_irp_flags = EA_FLAGS("IrpFlags", irp_flags_names);

/* evntrace.h TRACE_LEVEL_* */
static const ea_map_entry trace_level_names[] = {
    {0, "LogAlways"},
    {1, "Critical"},
    {2, "Error"},
    {3, "Warning"},
    {4, "Information"},
    {5, "Verbose"},
};
const ea_enum ea_trace_level = EA_VALUES("TraceLevel", trace_level_names);

/* evntrace.h EVENT_TRACE_*_MODE */
static const ea_map_entry log_mode_names[] = {
    {0x1, "FileSequential"},
    {0x2, "FileCircular"},
    {0x4, "FileAppend"},
    {0x8, "FileNewFile"},
    {0x10, "UseMsFlushTimer"},
    {0x20, "FilePreallocate"},
    {0x40, "Nonstoppable"},
    {0x80, "Secure"},
    {0x100, "RealTime"},
    {0x200, "DelayOpenFile"},
    {0x400, "Buffering"},
    {0x800, "PrivateLogger"},
    {0x1000, "AddHeader"},
    {0x2000, "UseKbytesForSize"},
    {0x4000, "UseGlobalSequence"},
    {0x8000, "UseLocalSequence"},
    {0x10000, "Relog"},
    {0x20000, "PrivateInProc"},
    {0x40000, "BufferInterface"},
    {0x80000, "KdFilter"},
    {0x100000, "RealTimeRelog"},
    {0x200000, "LostEventsDebug"},
    {0x400000, "StopOnHybridShutdown"},
    {0x800000, "PersistOnHybridShutdown"},
    {0x1000000, "UsePagedMemory"},
    {0x2000000, "SystemLogger"},
    {0x4000000, "CompressMode"},
    {0x8000000, "IndependentSession"},
    {0x10000000, "NoPerProcessorBuffering"},
    {0x20000000, "Blocking"},
    {0x80000000, "AddToTriageDump"},
};
const ea_enum ea_log_mode = EA_FLAGS("LogFileMode", log_mode_names);

/* ntwmi.h ETW_PROCESS_EVENT_FLAG_* */
static const ea_map_entry process_flag_names[] = {
    {0x1, "ApplicationId"},
    {0x2, "Wow64"},
    {0x4, "Protected"},
    {0x8, "Packaged"},
};
const ea_enum ea_process_flags = EA_FLAGS("ProcessFlags", process_flag_names);
