/* CPU samples, counters, interrupts, DPCs, system calls, timers. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row PERF_INFO = {
    EA_PROVIDER_PERF_INFO, EA_KERNEL_TRACE, 1};

/* wdm.h KPROFILE_SOURCE; larger numbers are the machine's own counters */
static const ea_map_entry profile_source_names[] = {
    {0, "Time"},
    {1, "AlignmentFixup"},
    {2, "TotalIssues"},
    {3, "PipelineDry"},
    {4, "LoadInstructions"},
    {5, "PipelineFrozen"},
    {6, "BranchInstructions"},
    {7, "TotalNonissues"},
    {8, "DcacheMisses"},
    {9, "IcacheMisses"},
    {10, "CacheMisses"},
    {11, "BranchMispredictions"},
    {12, "StoreInstructions"},
    {13, "FpInstructions"},
    {14, "IntegerInstructions"},
    {15, "2Issue"},
    {16, "3Issue"},
    {17, "4Issue"},
    {18, "SpecialInstructions"},
    {19, "TotalCycles"},
    {20, "IcacheIssues"},
    {21, "DcacheAccesses"},
    {22, "MemoryBarrierCycles"},
    {23, "LoadLinkedIssues"},
};
static const ea_enum profile_source = EA_VALUES("ProfileSource", profile_source_names);

static const ea_field_row sample_prof_fields[] = {
    {"InstructionPointer", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Count", EA_U16},
    {"Reserved", EA_U16, .since = 2},
    {0},
};

static const ea_field_row isr_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {"ReturnValue", EA_U32},
    {0},
};

static const ea_field_row isr_v2_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {"ReturnValue", EA_U8},
    {"Vector", EA_U16},
    {"Reserved", EA_U8},
    {0},
};

static const ea_field_row dpc_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row interval_fields[] = {
    {"Source", EA_U32, .map = &profile_source},
    {"NewInterval", EA_U32},
    {"OldInterval", EA_U32},
    {"SourceName", EA_UTF16Z, .since = 3},
    {0},
};

static const ea_field_row spin_lock_collection_start_fields[] = {
    {"SpinLockSpinThreshold", EA_U32},
    {"SpinLockContentionSampleRate", EA_U32},
    {"SpinLockAcquireSampleRate", EA_U32},
    {"SpinLockHoldThreshold", EA_U32, .since = 3},
    {0},
};

static const ea_field_row mark_fields[] = {
    {"Message", EA_ANSIZ},
    {"Padding", EA_UTF16_FIXED, .optional = 1},
    {0},
};

static const ea_field_row pmc_counter_prof_fields[] = {
    {"InstructionPointer", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"ProfileSource", EA_U16, .map = &profile_source},
    {"Reserved", EA_U16},
    {0},
};

static const ea_field_row pmc_ctr_config_fields[] = {
    {"CounterCount", EA_U32},
    {"CounterName", EA_UTF16Z, .count_field = "CounterCount"},
    {0},
};

/* The schema has CounterStatus as an object of no class; its parts are read off a real record
 * (albertziegenhagel/snail-server). */
static const ea_field_row pmc_ctr_conrruption_fields[] = {
    {"ProcessorNumber", EA_U32, EA_SEM_CPU},
    {"CounterCount", EA_U32},
    {"CounterStatus", EA_STRUCT, .count_field = "CounterCount", .child_count = 2},
    {"ProfileSource", EA_U32},
    {"LastKnownGoodTimestamp", EA_U64, EA_SEM_QPC},
    {0},
};

static const ea_field_row isr_msi_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {"ReturnValue", EA_U8},
    {"Vector", EA_U16},
    {"Reserved", EA_U8},
    {"MessageNumber", EA_U32},
    {0},
};

static const ea_field_row sys_cl_enter_fields[] = {
    {"SysCallAddress", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row sys_cl_exit_fields[] = {
    {"SysCallNtStatus", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row isr_unexpected_fields[] = {
    {"Vector", EA_U16},
    {0},
};

static const ea_field_row io_start_timer_fields[] = {
    {"DeviceObject", EA_POINTER, EA_SEM_ADDRESS},
    {"TimerRoutine", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row wdf_isr_fields[] = {
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

/* ntwmi.h ETW_KTIMER2_* */
static const ea_map_entry timer2_flags_names[] = {
    {0x1, "HasCallback"},
    {0x2, "Periodic"},
    {0x4, "IdleResilient"},
    {0x8, "HighResolution"},
    {0x10, "NoWake"},
    {0x20, "NoWakeFinite"},
};
static const ea_enum timer2_flags = EA_FLAGS("KTimer2Flags", timer2_flags_names);

static const ea_field_row set_k_timer2_fields[] = {
    {"DueTime", EA_U64},
    {"MaximumDueTime", EA_U64},
    {"Period", EA_U64},
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {"Callback", EA_POINTER, EA_SEM_ADDRESS},
    {"CallbackContext", EA_POINTER, EA_SEM_ADDRESS},
    {"TimerFlags", EA_U8, .map = &timer2_flags},
    {0},
};

static const ea_field_row cancel_k_timer2_fields[] = {
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row disable_k_timer2_fields[] = {
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {"DisableCallback", EA_POINTER, EA_SEM_ADDRESS},
    {"DisableContext", EA_POINTER, EA_SEM_ADDRESS},
    {"TimerFlags", EA_U8, .map = &timer2_flags},
    {0},
};

static const ea_field_row finalize_k_timer2_fields[] = {
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {"DisableCallback", EA_POINTER, EA_SEM_ADDRESS},
    {"DisableContext", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row kernel_hypercall_fields[] = {
    {"CallCode", EA_U32},
    {"IsFast", EA_U8},
    {"IsNested", EA_U8},
    {0},
};

static const ea_class_row perf_info_rows[] = {
    {"PerfInfo/Mark", 34, 0, 0, mark_fields},
    {"PerfInfo/SampleProf", 46, 1, 2, sample_prof_fields},
    {"PerfInfo/PmcCounterProf", 47, 2, 2, pmc_counter_prof_fields},
    {"PerfInfo/PmcCtrConfig", 48, 2, 2, pmc_ctr_config_fields},
    {"PerfInfo/PmcCtrConrruption", 49, 2, 2, pmc_ctr_conrruption_fields},
    {"PerfInfo/ISR-MSI", 50, 2, 2, isr_msi_fields},
    {"PerfInfo/SysClEnter", 51, 2, 2, sys_cl_enter_fields},
    {"PerfInfo/SysClExit", 52, 2, 2, sys_cl_exit_fields},
    {"PerfInfo/DebuggerEnabled", 58, 2, 2, ea_no_fields},
    {"PerfInfo/ThreadedDPC", 66, 2, 2, dpc_fields},
    {"PerfInfo/ISR", 67, 1, 1, isr_fields},
    {"PerfInfo/ISR", 67, 2, 2, isr_v2_fields},
    {"PerfInfo/DPC", 68, 1, 2, dpc_fields},
    {"PerfInfo/TimerDPC", 69, 1, 2, dpc_fields},
    {"PerfInfo/IOTimer", 70, 2, 2, dpc_fields},
    {"PerfInfo/SetInterval", 72, 2, 2, interval_fields},
    {"PerfInfo/CollectionStart", 73, 2, 3, interval_fields},
    {"PerfInfo/CollectionEnd", 74, 2, 3, interval_fields},
    {"PerfInfo/SpinLockCollectionStart", 75, 2, 3, spin_lock_collection_start_fields},
    {"PerfInfo/SpinLockCollectionEnd", 76, 2, 3, spin_lock_collection_start_fields},
    {"PerfInfo/ISR-Unexpected", 92, 2, 2, isr_unexpected_fields},
    {"PerfInfo/IoStartTimer", 93, 2, 2, io_start_timer_fields},
    {"PerfInfo/IoStopTimer", 94, 2, 2, io_start_timer_fields},
    {"PerfInfo/ISR-PASS", 95, 1, 1, isr_fields},
    {"PerfInfo/ISR-PASS", 95, 2, 2, isr_v2_fields},
    {"PerfInfo/WdfISR", 96, 2, 2, wdf_isr_fields},
    {"PerfInfo/WdfPassiveISR", 97, 2, 2, wdf_isr_fields},
    {"PerfInfo/WdfDPC", 98, 2, 2, wdf_isr_fields},
    {"PerfInfo/WdfWorkItem", 103, 2, 2, wdf_isr_fields},
    {"PerfInfo/SetKTimer2", 104, 2, 2, set_k_timer2_fields},
    {"PerfInfo/ExpireKTimer2", 105, 2, 2, set_k_timer2_fields},
    {"PerfInfo/CancelKTimer2", 106, 2, 2, cancel_k_timer2_fields},
    {"PerfInfo/DisableKTimer2", 107, 2, 2, disable_k_timer2_fields},
    {"PerfInfo/FinalizeKTimer2", 108, 2, 2, finalize_k_timer2_fields},
    {"PerfInfo/KernelHypercall", 114, 2, 2, kernel_hypercall_fields},
};

const ea_family ea_family_perf_info = EA_FAMILY(PERF_INFO, perf_info_rows, EA_MOF);
