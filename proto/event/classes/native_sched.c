/* Processes, threads and processors: events that Windows' own schema leaves out and a public header names. Those whose
 * structure is public have its fields; the others have a name, and their payload is kept as bytes. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row PROCESS = {
    EA_PROVIDER_PROCESS, EA_KERNEL_TRACE, 1};

/* ntwmi.h PERFINFO_BOOT_PHASE_START */
static const ea_field_row boot_phase_fields[] = {
    {"Phase", EA_I32},
    {0},
};

/* ntwmi.h PERFINFO_DEBUG_EVENT_REASON */
static const ea_map_entry debug_reason_names[] = {
    {1, "Received"},
    {2, "Continued"},
};
static const ea_enum debug_reason = EA_VALUES("DebugEventReason", debug_reason_names);

/* ntwmi.h PERFINFO_DEBUG_EVENT */
static const ea_field_row debug_event_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Reason", EA_U32, .map = &debug_reason},
    {0},
};

static const ea_class_row process_native_rows[] = {
    {"Process/Freeze", 36, 0, 2, NULL},
    {"Process/Thaw", 37, 0, 2, NULL},
    {"Process/BootPhaseStart", 38, 0, 2, boot_phase_fields},
    {"Process/SetAffinity", 40, 0, 2, NULL},
    {"Process/WakeEventPreserveProcess", 100, 0, 2, NULL},
    {"Process/DebugEvent", 112, 0, 2, debug_event_fields},
};

const ea_family ea_family_process_native =
    EA_FAMILY(PROCESS, process_native_rows, "ntwmi.h PERFINFO_LOG_TYPE_PROCESS_*, PERFINFO_BOOT_PHASE_START, PERFINFO_DEBUG_EVENT");

static const ea_provider_row THREAD = {
    EA_PROVIDER_THREAD, EA_KERNEL_TRACE, 1};

/* ntwmi.h WMI_QUEUE_ACTION_* */
static const ea_map_entry queue_action_names[] = {
    {1, "WaitForItem"},
};
static const ea_enum queue_action = EA_VALUES("QueueAction", queue_action_names);

/* ntwmi.h WMI_QUEUE */
static const ea_field_row queue_fields[] = {
    {"Queue", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Action", EA_U8, .map = &queue_action},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h WMI_RESOURCE_ACTION_* */
static const ea_map_entry resource_action_names[] = {
    {0x10022, "CompleteReleaseExclusive"},
    {0x10042, "CompleteReleaseShared"},
    {0x10224, "WaitExcessiveForExclusive"},
    {0x10244, "WaitExcessiveForShared"},
};
static const ea_enum resource_action = EA_VALUES("ResourceAction", resource_action_names);

/* ntwmi.h WMI_RESOURCE */
static const ea_field_row resource_fields[] = {
    {"AcquireTime", EA_U64},
    {"HoldTime", EA_U64},
    {"WaitTime", EA_U64},
    {"MaxRecursionDepth", EA_U32},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Resource", EA_POINTER, EA_SEM_ADDRESS},
    {"Action", EA_HEX32, .map = &resource_action},
    {"ContentionDelta", EA_U32},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h WMI_PUSHLOCK_ACTION_* */
static const ea_map_entry push_lock_action_names[] = {
    {1, "WaitForExclusive"},
    {2, "WaitForShared"},
};
static const ea_enum push_lock_action = EA_VALUES("PushLockAction", push_lock_action_names);

/* ntwmi.h WMI_PUSHLOCK */
static const ea_field_row push_lock_fields[] = {
    {"PushLock", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Action", EA_U8, .map = &push_lock_action},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h WMI_WAIT_SINGLE */
static const ea_field_row wait_single_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Alignment", EA_BYTES, .count = 4, .only = 8},
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"ObjectType", EA_U8},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h WMI_DELAY_EXECUTION */
static const ea_field_row delay_execution_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Alignment", EA_BYTES, .count = 4},
    {"Delta", EA_U64},
    {0},
};

/* ntwmi.h ETW_DFSS_START_NEW_INTERVAL, ETW_PER_SESSION_QUOTA */
static const ea_field_row dfss_start_fields[] = {
    {"CurrentGeneration", EA_U32},
    {"SessionCount", EA_U32},
    {"TotalCycleCredit", EA_U64},
    {"TotalCyclesAccumulated", EA_U64},
    {"SessionQuota", EA_STRUCT, .count_field = "SessionCount", .child_count = 4},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {"CpuShareWeight", EA_U32},
    {"CapturedWeightData", EA_I64},
    {"CyclesAccumulated", EA_U64},
    {0},
};

/* ntwmi.h ETW_DFSS_RELEASE_THREAD_ON_IDLE */
static const ea_field_row dfss_release_fields[] = {
    {"CurrentGeneration", EA_U32},
    {"SessionSelectedToRun", EA_U32, EA_SEM_SESSION_ID},
    {"CycleBaseAllowance", EA_U64},
    {"CyclesRemaining", EA_I64},
    {0},
};

/* Of WaitMultiple the structure is public, but the header's own size of its head contradicts it. */
static const ea_class_row thread_native_rows[] = {
    {"Thread/Queue", 42, 0, 2, queue_fields},
    {"Thread/Resource", 43, 0, 2, resource_fields},
    {"Thread/PushLock", 44, 0, 2, push_lock_fields},
    {"Thread/WaitSingle", 45, 0, 2, wait_single_fields},
    {"Thread/WaitMultiple", 46, 0, 2, NULL},
    {"Thread/DelayExecution", 47, 0, 2, delay_execution_fields},
    {"Thread/DfssStartNewInterval", 58, 0, 2, dfss_start_fields},
    {"Thread/DfssReleaseThreadOnIdle", 59, 0, 2, dfss_release_fields},
};

const ea_family ea_family_thread_native =
    EA_FAMILY(THREAD, thread_native_rows, "ntwmi.h WMI_QUEUE, WMI_RESOURCE, WMI_PUSHLOCK, WMI_WAIT_SINGLE, WMI_DELAY_EXECUTION, ETW_DFSS_*");

static const ea_provider_row PERF_INFO = {
    EA_PROVIDER_PERF_INFO, EA_KERNEL_TRACE, 1};

/* ntwmi.h PERFINFO_SAMPLED_PROFILE_INFORMATION: the upper five bits are the priority */
static const ea_map_entry profile_flags_names[] = {
    {0x1, "ExecutingDpc"},
    {0x2, "ExecutingIsr"},
};
static const ea_enum profile_flags = EA_FLAGS("SampledProfileFlags", profile_flags_names);

/* ntwmi.h PERFINFO_SAMPLED_PROFILE_CACHE */
static const ea_field_row profile_cache_fields[] = {
    {"Entries", EA_U32},
    {"Alignment", EA_BYTES, .count = 4, .only = 8},
    {"Sample", EA_STRUCT, .count_field = "Entries", .child_count = 5},
    {"InstructionPointer", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Count", EA_U16},
    {"Flags", EA_HEX8, .map = &profile_flags},
    {"Rank", EA_U8},
    {0},
};

/* ntwmi.h PERFINFO_EXECUTIVE_RESOURCE_CONFIG */
static const ea_field_row resource_config_fields[] = {
    {"ReleaseSamplingRate", EA_U32},
    {"ContentionSamplingRate", EA_U32},
    {"NumberOfExcessiveTimeouts", EA_U32},
    {0},
};

/* ntwmi.h PERFINFO_CLOCK_INTERRUPT_* */
static const ea_map_entry clock_interrupt_flags_names[] = {
    {0x1, "ClockOwner"},
    {0x8, "TimerPending"},
};
static const ea_enum clock_interrupt_flags = EA_FLAGS("ClockInterruptFlags", clock_interrupt_flags_names);

/* ntwmi.h PERFINFO_CLOCK_INTERRUPT_INFORMATION */
static const ea_field_row clock_interrupt_fields[] = {
    {"InterruptTime", EA_U64},
    {"Flags", EA_HEX16, .map = &clock_interrupt_flags},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_IPI_* */
static const ea_map_entry ipi_request_names[] = {
    {0x1, "Apc"},
    {0x2, "Dpc"},
};
static const ea_enum ipi_request = EA_FLAGS("IpiRequestType", ipi_request_names);

/* ntwmi.h PERFINFO_IPI_INFORMATION */
static const ea_field_row ipi_fields[] = {
    {"RequestType", EA_HEX32, .map = &ipi_request},
    {"TargetProcessor", EA_U32, EA_SEM_CPU},
    {0},
};

/* ntwmi.h ETW_CPU_CACHE_FLUSH_EVENT */
static const ea_field_row cache_flush_fields[] = {
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {"Bytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Clean", EA_BOOL8},
    {"FullFlush", EA_BOOL8},
    {"Rectangle", EA_BOOL8},
    {"Reserved0", EA_BOOL8},
    {"Reserved1", EA_U32},
    {0},
};

/* wdm.h KDPC_IMPORTANCE */
static const ea_map_entry dpc_importance_names[] = {
    {0, "Low"},
    {1, "Medium"},
    {2, "High"},
    {3, "MediumHigh"},
};
static const ea_enum dpc_importance = EA_VALUES("DpcImportance", dpc_importance_names);

/* ntwmi.h PERFINFO_DPC_ENQUEUE_INFORMATION */
static const ea_field_row dpc_enqueue_fields[] = {
    {"Key", EA_POINTER},
    {"DpcQueueDepth", EA_I32},
    {"DpcCount", EA_U32},
    {"TargetProcessorIndex", EA_U32, EA_SEM_CPU},
    {"Importance", EA_U8, .map = &dpc_importance},
    {"Reserved", EA_BYTES, .count = 3},
    {0},
};

/* ntwmi.h PERFINFO_DPC_EXECUTION_INFORMATION */
static const ea_field_row dpc_execution_fields[] = {
    {"DpcRoutine", EA_POINTER, EA_SEM_ADDRESS},
    {"Key", EA_POINTER},
    {0},
};

/* ntwmi.h PERFINFO_YIELD_PROCESSOR_INFORMATION */
static const ea_field_row yield_fields[] = {
    {"YieldReason", EA_U32},
    {"DpcWatchdogCount", EA_U32},
    {"DpcTimeCount", EA_U32},
    {0},
};

static const ea_class_row perf_info_native_rows[] = {
    {"PerfInfo/RundownCheckpoint", 32, 0, 2, NULL},
    {"PerfInfo/AsyncMark", 36, 0, 2, NULL},
    {"PerfInfo/ImageName", 38, 0, 2, NULL},
    {"PerfInfo/DelaysCcCanIWrite", 39, 0, 2, NULL},
    {"PerfInfo/BackTrace", 53, 0, 2, NULL},
    {"PerfInfo/BackTraceUserStack", 54, 0, 2, NULL},
    {"PerfInfo/SampledProfileCache", 55, 0, 2, profile_cache_fields},
    {"PerfInfo/ExceptionStack", 56, 0, 2, NULL},
    {"PerfInfo/BranchTrace", 57, 0, 2, NULL},
    {"PerfInfo/DebuggerExit", 59, 0, 2, NULL},
    {"PerfInfo/BranchTraceDebug", 64, 0, 2, NULL},
    {"PerfInfo/BranchAddressDebug", 65, 0, 2, NULL},
    {"PerfInfo/SampledProfileNmi", 71, 0, 2, NULL},
    {"PerfInfo/ExecutiveResourceDCStart", 77, 0, 2, resource_config_fields},
    {"PerfInfo/ExecutiveResourceDCEnd", 78, 0, 2, resource_config_fields},
    {"PerfInfo/ClockInterrupt", 79, 0, 2, clock_interrupt_fields},
    {"PerfInfo/TimeAdjustment", 86, 0, 2, NULL},
    {"PerfInfo/ClockModeSwitch", 87, 0, 2, NULL},
    {"PerfInfo/ClockDynamicTickVeto", 89, 0, 2, NULL},
    {"PerfInfo/IPI", 91, 0, 2, ipi_fields},
    {"PerfInfo/CpuCacheFlush", 99, 0, 2, cache_flush_fields},
    {"PerfInfo/DpcEnqueue", 100, 0, 2, dpc_enqueue_fields},
    {"PerfInfo/DpcExecution", 101, 0, 2, dpc_execution_fields},
    {"PerfInfo/InterruptSteering", 102, 0, 2, NULL},
    {"PerfInfo/ShouldYieldProcessor", 109, 0, 2, yield_fields},
    {"PerfInfo/FunctionCall", 128, 0, 2, NULL},
    {"PerfInfo/FunctionReturn", 129, 0, 2, NULL},
    {"PerfInfo/FunctionEnter", 130, 0, 2, NULL},
    {"PerfInfo/FunctionExit", 131, 0, 2, NULL},
    {"PerfInfo/TailCall", 132, 0, 2, NULL},
    {"PerfInfo/Trap", 133, 0, 2, NULL},
    {"PerfInfo/SpinLockAcquire", 134, 0, 2, NULL},
    {"PerfInfo/SpinLockRelease", 135, 0, 2, NULL},
    {"PerfInfo/CapComment", 136, 0, 2, NULL},
    {"PerfInfo/CapRundown", 137, 0, 2, NULL},
};

const ea_family ea_family_perf_info_native =
    EA_FAMILY(PERF_INFO, perf_info_native_rows, "ntwmi.h PERFINFO_SAMPLED_PROFILE_CACHE, PERFINFO_IPI_INFORMATION, PERFINFO_DPC_*, ETW_CPU_CACHE_FLUSH_EVENT");

static const ea_provider_row MOD_BOUND = {
    EA_PROVIDER_MOD_BOUND, EA_KERNEL_TRACE, 1};

static const ea_class_row mod_bound_rows[] = {
    {"ModBound/CowHeader", 24, 0, 2, NULL},
    {"ModBound/CowBlob", 25, 0, 2, NULL},
    {"ModBound/CowBlobClosed", 26, 0, 2, NULL},
    {"ModBound/Entry", 32, 0, 2, NULL},
    {"ModBound/Jump", 33, 0, 2, NULL},
    {"ModBound/Return", 34, 0, 2, NULL},
    {"ModBound/Call", 35, 0, 2, NULL},
    {"ModBound/CallReturn", 36, 0, 2, NULL},
    {"ModBound/Int2E", 37, 0, 2, NULL},
    {"ModBound/Int2B", 38, 0, 2, NULL},
    {"ModBound/FullTrace", 39, 0, 2, NULL},
};

const ea_family ea_family_mod_bound =
    EA_FAMILY(MOD_BOUND, mod_bound_rows, "ntwmi.h PERFINFO_LOG_TYPE_COW*, PERFINFO_LOG_TYPE_MODULEBOUND_*");

static const ea_provider_row EVENT_TRACE = {
    EA_PROVIDER_EVENT_TRACE, EA_KERNEL_TRACE, 1};

static const ea_class_row event_trace_native_rows[] = {
    {"EventTrace/RundownBegin", 48, 0, 2, NULL},
    {"EventTrace/RundownEnd", 49, 0, 2, NULL},
    {"EventTrace/DbgIdNB10", 65, 0, 2, NULL},
};

const ea_family ea_family_event_trace_native =
    EA_FAMILY(EVENT_TRACE, event_trace_native_rows, "ntwmi.h WMI_LOG_TYPE_RUNDOWN_*, WMI_LOG_TYPE_DBGID_NB10");
