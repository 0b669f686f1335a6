/* Threads, context switches, user-mode scheduling. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row THREAD = {
    EA_PROVIDER_THREAD, EA_KERNEL_TRACE, 1};

/* wdm.h MODE */
static const ea_map_entry wait_mode_names[] = {
    {0, "KernelMode"},
    {1, "UserMode"},
};
static const ea_enum wait_mode = EA_VALUES("WaitMode", wait_mode_names);

static const ea_field_row thread_v0_fields[] = {
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

/* The schema gives ThreadName to version 4 only, but Windows 10 and 11 write it in version 3 too; Windows 8 does not.
 */
static const ea_field_row thread_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"StackBase", EA_POINTER, EA_SEM_ADDRESS},
    {"StackLimit", EA_POINTER, EA_SEM_ADDRESS},
    {"UserStackBase", EA_POINTER, EA_SEM_ADDRESS},
    {"UserStackLimit", EA_POINTER, EA_SEM_ADDRESS},
    {"StartAddr", EA_POINTER, EA_SEM_ADDRESS, .until = 2},
    {"Affinity", EA_POINTER, .since = 3},
    {"Win32StartAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"WaitMode", EA_I8, .until = 1, .map = &wait_mode},
    {"TebBase", EA_POINTER, EA_SEM_ADDRESS, .since = 2},
    {"SubProcessTag", EA_HEX32, .since = 2},
    {"BasePriority", EA_U8, .since = 3},
    {"PagePriority", EA_U8, .since = 3},
    {"IoPriority", EA_U8, .since = 3},
    {"ThreadFlags", EA_U8, .since = 3},
    {"ThreadName", EA_UTF16Z, .since = 3, .until = 3, .optional = 1},
    {"ThreadName", EA_UTF16Z, .since = 4},
    {0},
};

static const ea_field_row thread_end_v1_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"TThreadId", EA_U32, EA_SEM_TID},
    {0},
};

/* A CPU's context switches, packed: packets of 2, 4 and 8 bytes that point into the two tables. The schema leaves the
 * payload out. Source: ntwmi.h PERFINFO_CCSWAP_BUFFER. */
static const ea_field_row compact_switch_fields[] = {
    {"FirstTimeStamp", EA_I64, EA_SEM_QPC},
    {"TidTable", EA_U32, EA_SEM_TID, .count = 16},
    {"ThreadBasePriority", EA_I8, .count = 16},
    {"Packets", EA_BYTES, .count = EA_COUNT_REST},
    {0},
};

/* wdm.h KWAIT_REASON */
static const ea_map_entry wait_reason_names[] = {
    {0, "Executive"},
    {1, "FreePage"},
    {2, "PageIn"},
    {3, "PoolAllocation"},
    {4, "DelayExecution"},
    {5, "Suspended"},
    {6, "UserRequest"},
    {7, "WrExecutive"},
    {8, "WrFreePage"},
    {9, "WrPageIn"},
    {10, "WrPoolAllocation"},
    {11, "WrDelayExecution"},
    {12, "WrSuspended"},
    {13, "WrUserRequest"},
    {14, "WrSpare0"},
    {15, "WrQueue"},
    {16, "WrLpcReceive"},
    {17, "WrLpcReply"},
    {18, "WrVirtualMemory"},
    {19, "WrPageOut"},
    {20, "WrRendezvous"},
    {21, "WrKeyedEvent"},
    {22, "WrTerminated"},
    {23, "WrProcessInSwap"},
    {24, "WrCpuRateControl"},
    {25, "WrCalloutStack"},
    {26, "WrKernel"},
    {27, "WrResource"},
    {28, "WrPushLock"},
    {29, "WrMutex"},
    {30, "WrQuantumEnd"},
    {31, "WrDispatchInt"},
    {32, "WrPreempted"},
    {33, "WrYieldExecution"},
    {34, "WrFastMutex"},
    {35, "WrGuardedMutex"},
    {36, "WrRundown"},
    {37, "WrAlertByThreadId"},
    {38, "WrDeferredPreempt"},
    {39, "WrPhysicalFault"},
    {40, "WrIoRing"},
    {41, "WrMdlCache"},
    {42, "WrRcu"},
};
static const ea_enum wait_reason = EA_VALUES("WaitReason", wait_reason_names);

/* wdm.h KTHREAD_STATE */
static const ea_map_entry thread_state_names[] = {
    {0, "Initialized"},
    {1, "Ready"},
    {2, "Running"},
    {3, "Standby"},
    {4, "Terminated"},
    {5, "Waiting"},
    {6, "Transition"},
    {7, "DeferredReady"},
    {8, "GateWaitObsolete"},
    {9, "WaitingForProcessInSwap"},
};
static const ea_enum thread_state = EA_VALUES("ThreadState", thread_state_names);

static const ea_field_row c_switch_fields[] = {
    {"NewThreadId", EA_U32, EA_SEM_TID},
    {"OldThreadId", EA_U32, EA_SEM_TID},
    {"NewThreadPriority", EA_I8},
    {"OldThreadPriority", EA_I8},
    {"NewThreadQuantum", EA_I8, .until = 1},
    {"OldThreadQuantum", EA_I8, .until = 1},
    {"PreviousCState", EA_U8, .since = 2},
    {"SpareByte", EA_I8, .since = 2},
    {"OldThreadWaitReason", EA_I8, .map = &wait_reason},
    {"OldThreadWaitMode", EA_I8, .until = 2, .map = &wait_mode},
    {"ThreadFlags", EA_I8, .since = 3},
    {"OldThreadState", EA_I8, .map = &thread_state},
    {"OldThreadWaitIdealProcessor", EA_I8, EA_SEM_CPU},
    {"NewThreadWaitTime", EA_HEX32, .since = 2},
    {"Reserved", EA_U32, .since = 2},
    {0},
};

static const ea_field_row worker_thread_fields[] = {
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"StartTime", EA_U64},
    {"ThreadRoutine", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

/* ntwmi.h WMI_SPINLOCK: the lowest six bits are the mode of the acquire */
static const ea_map_entry spin_lock_flags_names[] = {
    {0x40, "ExecuteDpc"},
    {0x80, "ExecuteIsr"},
};
static const ea_enum spin_lock_flags = EA_FLAGS("SpinLockFlags", spin_lock_flags_names);

static const ea_field_row spin_lock_fields[] = {
    {"SpinLockAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"CallerAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"AcquireTime", EA_U64},
    {"ReleaseTime", EA_U64},
    {"WaitTimeInCycles", EA_U32},
    {"SpinCount", EA_U32},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"InterruptCount", EA_U32},
    {"Irql", EA_U8},
    {"AcquireDepth", EA_U8},
    {"Flag", EA_U8, .map = &spin_lock_flags},
    {"Reserved", EA_BYTES, .count = 5},
    {0},
};

static const ea_field_row priority_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"OldPriority", EA_U8},
    {"NewPriority", EA_U8},
    {"Reserved", EA_U16},
    {0},
};

/* KernelTraceEventParser.cs DispatcherReadyThreadTraceData */
static const ea_map_entry adjust_reason_names[] = {
    {0, "None"},
    {1, "Unwait"},
    {2, "Boost"},
};
static const ea_enum adjust_reason = EA_VALUES("AdjustReason", adjust_reason_names);

/* ntwmi.h ETW_READY_THREAD_EVENT */
static const ea_map_entry ready_flags_names[] = {
    {0x1, "ExecutingDpc"},
    {0x2, "KernelStackNotResident"},
    {0x4, "ProcessOutOfMemory"},
    {0x8, "DirectSwitchAttempt"},
};
static const ea_enum ready_flags = EA_FLAGS("ReadyThreadFlags", ready_flags_names);

static const ea_field_row ready_thread_fields[] = {
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"AdjustReason", EA_I8, .map = &adjust_reason},
    {"AdjustIncrement", EA_I8},
    {"Flag", EA_I8, .map = &ready_flags},
    {"Reserved", EA_I8},
    {0},
};

static const ea_field_row thread_affinity_fields[] = {
    {"Affinity", EA_POINTER},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"Group", EA_U16},
    {"Reserved", EA_U16},
    {0},
};

static const ea_field_row anti_starvation_boost_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"ProcessorIndex", EA_U16, EA_SEM_CPU},
    {"Priority", EA_U8},
    {"Reserved", EA_U8},
    {0},
};

static const ea_field_row thread_migration_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"SourceProcessorIndex", EA_U16, EA_SEM_CPU},
    {"TargetProcessorIndex", EA_U16, EA_SEM_CPU},
    {"Priority", EA_U8},
    {"IdealProcessorAdjust", EA_BOOL8},
    {"OldIdealProcessorIndex", EA_U16, EA_SEM_CPU},
    {0},
};

static const ea_field_row kernel_queue_enqueue_fields[] = {
    {"Entry", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {0},
};

static const ea_field_row kernel_queue_dequeue_fields[] = {
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"EntryCount", EA_U32},
    {"Entries", EA_POINTER, EA_SEM_ADDRESS, .count_field = "EntryCount"},
    {0},
};

static const ea_field_row worker_callback_fields[] = {
    {"CallbackRoutine", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row auto_boost_set_floor_fields[] = {
    {"Lock", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"NewCpuPriorityFloor", EA_U8},
    {"OldCpuPriority", EA_U8},
    {"IoPriorities", EA_U8},
    {"BoostFlags", EA_U8},
    {0},
};

static const ea_field_row auto_boost_clear_floor_fields[] = {
    {"LockAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"BoostBitmap", EA_U32},
    {0},
};

static const ea_field_row auto_boost_entry_exhaustion_fields[] = {
    {"LockAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {0},
};

static const ea_field_row sub_process_tag_changed_fields[] = {
    {"OldTag", EA_HEX32},
    {"NewTag", EA_HEX32},
    {0},
};

static const ea_field_row set_name_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ThreadId", EA_U32, EA_SEM_TID},
    {"ThreadName", EA_UTF16Z},
    {0},
};

static const ea_class_row thread_rows[] = {
    {"Thread/Start", 1, 0, 0, thread_v0_fields},
    {"Thread/Start", 1, 1, 4, thread_fields},
    {"Thread/End", 2, 0, 0, thread_v0_fields},
    {"Thread/End", 2, 1, 1, thread_end_v1_fields},
    {"Thread/End", 2, 2, 4, thread_fields},
    {"Thread/DCStart", 3, 0, 0, thread_v0_fields},
    {"Thread/DCStart", 3, 1, 4, thread_fields},
    {"Thread/DCEnd", 4, 0, 0, thread_v0_fields},
    {"Thread/DCEnd", 4, 1, 4, thread_fields},
    {"Thread/CSwitch", 36, 1, 4, c_switch_fields},
    {"Thread/CompCS", 37, 2, 2, compact_switch_fields},
    {"Thread/SpinLock", 41, 2, 2, spin_lock_fields},
    {"Thread/SetPriority", 48, 3, 3, priority_fields},
    {"Thread/SetBasePriority", 49, 3, 3, priority_fields},
    {"Thread/ReadyThread", 50, 2, 2, ready_thread_fields},
    {"Thread/SetPagePriority", 51, 3, 3, priority_fields},
    {"Thread/SetIoPriority", 52, 3, 3, priority_fields},
    {"Thread/ThreadAffinity", 53, 2, 2, thread_affinity_fields},
    {"Thread/WorkerThread", 57, 1, 2, worker_thread_fields},
    {"Thread/AntiStarvationBoost", 60, 2, 2, anti_starvation_boost_fields},
    {"Thread/Thread Migration", 61, 2, 2, thread_migration_fields},
    {"Thread/Kernel Queue Enqueue", 62, 2, 2, kernel_queue_enqueue_fields},
    {"Thread/Kernel Queue Dequeue", 63, 2, 2, kernel_queue_dequeue_fields},
    {"Thread/WorkerThreadStart", 64, 2, 2, worker_callback_fields},
    {"Thread/WorkerThreadEnd", 65, 2, 2, worker_callback_fields},
    {"Thread/AutoBoost Set Floor", 66, 2, 2, auto_boost_set_floor_fields},
    {"Thread/AutoBoost Clear Floor", 67, 2, 2, auto_boost_clear_floor_fields},
    {"Thread/AutoBoost Entry Exhaustion", 68, 2, 2, auto_boost_entry_exhaustion_fields},
    {"Thread/SubProcessTag Changed", 69, 2, 2, sub_process_tag_changed_fields},
    {"Thread/SetName", 72, 2, 2, set_name_fields},
};

const ea_family ea_family_thread = EA_FAMILY(THREAD, thread_rows, EA_MOF);

/* The packets of Thread/CompCS become records of this provider when a reader expands them: compact_cswitch.h. It is
 * never logged or stored itself. */
static const ea_provider_row COMPACT_SWITCH = {
    EA_PROVIDER_THREAD, EA_KERNEL_TRACE, 0};

static const ea_map_entry compact_packet_names[] = {
    {0, "IdleShort"},
    {1, "Idle"},
    {2, "Lite"},
    {3, "Full"},
};
static const ea_enum compact_packet = EA_VALUES("CompactSwitchPacket", compact_packet_names);

/* An idle packet says nothing of priority and state (0 here), only a full one of the wait time. */
static const ea_field_row compact_c_switch_fields[] = {
    {"Packet", EA_U8, .map = &compact_packet},
    {"OldThreadId", EA_U32, EA_SEM_TID},
    {"OldThreadPriority", EA_I8},
    {"OldThreadStateWr", EA_U8},
    {"NewThreadWaitTime", EA_U32},
    {"NewThreadId", EA_U32, EA_SEM_TID, .optional = 1},
    {0},
};

static const ea_class_row compact_switch_rows[] = {
    {"Thread/CompactCSwitch", 0x525, 0, 2, compact_c_switch_fields},
};

const ea_family ea_family_compact_switch = EA_FAMILY(COMPACT_SWITCH, compact_switch_rows, "compact_cswitch.h");

static const ea_provider_row UMS = {EA_PROVIDER_UMS,
                                    EA_KERNEL_TRACE, 1};

/* ntwmi.h UMS_ETW_DIRECTED_SWITCH_START_VOLATILE, UMS_ETW_DIRECTED_SWITCH_END_FAST */
static const ea_map_entry switch_flags_names[] = {
    {0x1, "VolatileOrFast"},
};
static const ea_enum switch_flags = EA_FLAGS("UmsSwitchFlags", switch_flags_names);

/* ntwmi.h UMS_ETW_PARK_* */
static const ea_map_entry park_flags_names[] = {
    {0x1, "Volatile"},
    {0x2, "PrimaryPresent"},
    {0x4, "PrimaryDeliveredContext"},
};
static const ea_enum park_flags = EA_FLAGS("UmsParkFlags", park_flags_names);

static const ea_field_row d_switch_start_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ScheduledThreadId", EA_U32, EA_SEM_TID},
    {"PrimaryThreadId", EA_U32, EA_SEM_TID},
    {"SwitchFlags", EA_HEX32, .map = &switch_flags},
    {0},
};

static const ea_field_row scheduled_park_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ScheduledThreadId", EA_U32, EA_SEM_TID},
    {"ParkFlags", EA_HEX32, .map = &park_flags},
    {0},
};

static const ea_field_row disassociate_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ScheduledThreadId", EA_U32, EA_SEM_TID},
    {"PrimaryThreadId", EA_U32, EA_SEM_TID},
    {"UmsApcControlFlags", EA_HEX32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row ums_c_switch_fields[] = {
    {"ScheduledThreadId", EA_U32, EA_SEM_TID},
    {"SwitchCount", EA_U32},
    {"KernelYieldCount", EA_U32},
    {"MixedYieldCount", EA_U32},
    {"YieldCount", EA_U32},
    {0},
};

static const ea_class_row ums_rows[] = {
    {"UMS/DSwitchStart", 32, 2, 2, d_switch_start_fields},
    {"UMS/DSwitchEnd", 33, 2, 2, d_switch_start_fields},
    {"UMS/ScheduledPark", 34, 2, 2, scheduled_park_fields},
    {"UMS/Disassociate", 35, 2, 2, disassociate_fields},
    {"UMS/CSwitch", 36, 2, 2, ums_c_switch_fields},
};

const ea_family ea_family_ums = EA_FAMILY(UMS, ums_rows, EA_MOF);
