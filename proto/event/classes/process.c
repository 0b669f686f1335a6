/* Processes. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row PROCESS = {
    EA_PROVIDER_PROCESS, EA_KERNEL_TRACE, 1};

static const ea_field_row process_v0_fields[] = {
    {"ProcessId", EA_SIZE, EA_SEM_PID},
    {"ParentId", EA_SIZE, EA_SEM_PARENT_PID},
    {"UserSID", EA_WBEM_SID, EA_SEM_SID},
    {"ImageFileName", EA_ANSIZ},
    {0},
};

/* The schema lacks Flags, which version 4 has: ntwmi.h WMI_PROCESS_INFORMATION, and every trace of Windows 8 and later.
 */
static const ea_field_row process_fields[] = {
    {"PageDirectoryBase", EA_POINTER, EA_SEM_ADDRESS, .until = 1},
    {"UniqueProcessKey", EA_POINTER, EA_SEM_PROCESS_KEY, .since = 2},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ParentId", EA_U32, EA_SEM_PARENT_PID},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {"ExitStatus", EA_I32, EA_SEM_NTSTATUS},
    {"DirectoryTableBase", EA_POINTER, EA_SEM_ADDRESS, .since = 3},
    {"Flags", EA_HEX32, .since = 4, .map = &ea_process_flags},
    {"UserSID", EA_WBEM_SID, EA_SEM_SID},
    {"ImageFileName", EA_ANSIZ},
    {"CommandLine", EA_UTF16Z, EA_SEM_COMMAND_LINE, .since = 2},
    {"PackageFullName", EA_UTF16Z, .since = 4},
    {"ApplicationId", EA_UTF16Z, .since = 4},
    {"ExitTime", EA_FILETIME, .since = 5},
    {0},
};

static const ea_field_row terminate_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row perf_ctr_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"PageFaultCount", EA_U32},
    {"HandleCount", EA_U32},
    {"Reserved", EA_U32},
    {"PeakVirtualSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PeakWorkingSetSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PeakPagefileUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"QuotaPeakPagedPoolUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"QuotaPeakNonPagedPoolUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"VirtualSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"WorkingSetSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PagefileUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"QuotaPagedPoolUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"QuotaNonPagedPoolUsage", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PrivatePageCount", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row in_swap_fields[] = {
    {"DirectoryTableBase", EA_POINTER, EA_SEM_ADDRESS},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row wake_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"Tag", EA_POINTER, EA_SEM_ADDRESS},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"Count", EA_U32},
    {0},
};

static const ea_field_row wake_event_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_class_row process_rows[] = {
    {"Process/Start", 1, 0, 0, process_v0_fields},
    {"Process/Start", 1, 1, 4, process_fields},
    {"Process/End", 2, 0, 0, process_v0_fields},
    {"Process/End", 2, 1, 4, process_fields},
    {"Process/DCStart", 3, 0, 0, process_v0_fields},
    {"Process/DCStart", 3, 1, 4, process_fields},
    {"Process/DCEnd", 4, 0, 0, process_v0_fields},
    {"Process/DCEnd", 4, 1, 4, process_fields},
    {"Process/Terminate", 11, 2, 2, terminate_fields},
    {"Process/PerfCtr", 32, 2, 2, perf_ctr_fields},
    {"Process/PerfCtrRundown", 33, 2, 2, perf_ctr_fields},
    {"Process/InSwap", 35, 2, 2, in_swap_fields},
    {"Process/Defunct", 39, 2, 5, process_fields},
    {"Process/WakeChargeUser", 48, 2, 2, wake_fields},
    {"Process/WakeChargeExecution", 49, 2, 2, wake_fields},
    {"Process/WakeChargeKernel", 50, 2, 2, wake_fields},
    {"Process/WakeChargeInstrumentation", 51, 2, 2, wake_fields},
    {"Process/WakeChargePreserveProcess", 52, 2, 2, wake_fields},
    {"Process/WakeReleaseUser", 64, 2, 2, wake_fields},
    {"Process/WakeReleaseExecution", 65, 2, 2, wake_fields},
    {"Process/WakeReleaseKernel", 66, 2, 2, wake_fields},
    {"Process/WakeReleaseInstrumentation", 67, 2, 2, wake_fields},
    {"Process/WakeReleasePreserveProcess", 68, 2, 2, wake_fields},
    {"Process/WakeDropUser", 80, 2, 2, wake_fields},
    {"Process/WakeDropExecution", 81, 2, 2, wake_fields},
    {"Process/WakeDropKernel", 82, 2, 2, wake_fields},
    {"Process/WakeDropInstrumentation", 83, 2, 2, wake_fields},
    {"Process/WakeDropPreserveProcess", 84, 2, 2, wake_fields},
    {"Process/WakeEventUser", 96, 2, 2, wake_event_fields},
    {"Process/WakeEventExecution", 97, 2, 2, wake_event_fields},
    {"Process/WakeEventKernel", 98, 2, 2, wake_event_fields},
    {"Process/WakeEventInstrumentation", 99, 2, 2, wake_event_fields},
};

const ea_family ea_family_process = EA_FAMILY(PROCESS, process_rows, EA_MOF);
