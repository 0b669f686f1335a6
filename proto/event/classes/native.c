/* Kernel classes that Windows' own schema leaves out: heaps, critical sections, jobs, the thread pool, WNF and the
 * cache manager. Those whose structure is public have its fields; the others have a name, and their payload is kept as
 * bytes. A compiler's padding inside is a field, at the end an optional one. No trace at hand holds one. Versions: the
 * structures have none; a newer one than 2 is decoded as such (status "newer"). See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row HEAP = {
    EA_PROVIDER_HEAP, EA_KERNEL_TRACE, 1};

/* winnt.h HEAP_* */
static const ea_map_entry heap_flags_names[] = {
    {0x1, "NoSerialize"},
    {0x2, "Growable"},
    {0x4, "GenerateExceptions"},
    {0x8, "ZeroMemory"},
    {0x10, "ReallocInPlaceOnly"},
    {0x20, "TailCheckingEnabled"},
    {0x40, "FreeCheckingEnabled"},
    {0x80, "DisableCoalesceOnFree"},
    {0x10000, "CreateAlign16"},
    {0x20000, "CreateEnableTracing"},
    {0x40000, "CreateEnableExecute"},
};
static const ea_enum heap_flags = EA_FLAGS("HeapFlags", heap_flags_names);

static const ea_field_row heap_create_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"Flags", EA_HEX32, .map = &heap_flags},
    {"ReserveSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"CommitSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"AllocatedSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row heap_alloc_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"Size", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {"Source", EA_U32},
    {0},
};

static const ea_field_row heap_re_alloc_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"NewAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"OldAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"NewSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"OldSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Source", EA_U32},
    {0},
};

static const ea_field_row heap_destroy_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row heap_free_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {"Source", EA_U32},
    {0},
};

static const ea_field_row heap_extend_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"CommittedSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {"FreeSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"CommittedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ReservedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"NoOfUCRs", EA_U32},
    {"AllocatedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row heap_snapshot_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"FreeSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"CommittedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ReservedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Flags", EA_HEX32, .map = &heap_flags},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"LargeUCRSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeListLength", EA_U32},
    {"UCRLength", EA_U32},
    {"AllocatedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row heap_contract_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"DeCommitSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"DeCommitAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"FreeSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"CommittedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ReservedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"NoOfUCRs", EA_U32},
    {"AllocatedSpace", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row heap_sub_segment_alloc_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegment", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegmentSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"BlockSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row heap_commit_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"Block", EA_POINTER, EA_SEM_ADDRESS},
    {"Size", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Caller", EA_U32},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row heap_sub_segment_init_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegment", EA_POINTER, EA_SEM_ADDRESS},
    {"BlockSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"BlockCount", EA_SIZE},
    {"AffinityIndex", EA_U32},
    {0},
};

static const ea_field_row heap_affinity_enable_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"BucketIndex", EA_U32},
    {0},
};

static const ea_field_row heap_sub_segment_activated_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegment", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row heap_affinity_assign_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegment", EA_POINTER, EA_SEM_ADDRESS},
    {"SlotIndex", EA_U32},
    {0},
};

static const ea_field_row heap_reuse_threshold_activated_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"SubSegment", EA_POINTER, EA_SEM_ADDRESS},
    {"BucketIndex", EA_U32},
    {0},
};

static const ea_class_row heap_rows[] = {
    {"Heap/Create", 32, 0, 2, heap_create_fields},
    {"Heap/Alloc", 33, 0, 2, heap_alloc_fields},
    {"Heap/ReAlloc", 34, 0, 2, heap_re_alloc_fields},
    {"Heap/Destroy", 35, 0, 2, heap_destroy_fields},
    {"Heap/Free", 36, 0, 2, heap_free_fields},
    {"Heap/Extend", 37, 0, 2, heap_extend_fields},
    {"Heap/Snapshot", 38, 0, 2, heap_snapshot_fields},
    {"Heap/CreateSnapshot", 39, 0, 2, NULL},
    {"Heap/DestroySnapshot", 40, 0, 2, NULL},
    {"Heap/ExtendSnapshot", 41, 0, 2, NULL},
    {"Heap/Contract", 42, 0, 2, heap_contract_fields},
    {"Heap/Lock", 43, 0, 2, heap_destroy_fields},
    {"Heap/Unlock", 44, 0, 2, heap_destroy_fields},
    {"Heap/Validate", 45, 0, 2, heap_destroy_fields},
    {"Heap/Walk", 46, 0, 2, heap_destroy_fields},
    {"Heap/SubSegmentAlloc", 47, 0, 2, heap_sub_segment_alloc_fields},
    {"Heap/SubSegmentFree", 48, 0, 2, heap_sub_segment_alloc_fields},
    {"Heap/SubSegmentAllocCache", 49, 0, 2, heap_sub_segment_alloc_fields},
    {"Heap/SubSegmentFreeCache", 50, 0, 2, heap_sub_segment_alloc_fields},
    {"Heap/Commit", 51, 0, 2, heap_commit_fields},
    {"Heap/Decommit", 52, 0, 2, heap_commit_fields},
    {"Heap/SubSegmentInit", 53, 0, 2, heap_sub_segment_init_fields},
    {"Heap/AffinityEnable", 54, 0, 2, heap_affinity_enable_fields},
    {"Heap/SubSegmentActivated", 56, 0, 2, heap_sub_segment_activated_fields},
    {"Heap/AffinityAssign", 57, 0, 2, heap_affinity_assign_fields},
    {"Heap/ReuseThresholdActivated", 58, 0, 2, heap_reuse_threshold_activated_fields},
};

const ea_family ea_family_heap = EA_FAMILY(HEAP, heap_rows, "ntwmi.h ETW_HEAP_EVENT_*, HEAP_*");

static const ea_provider_row CRIT_SEC = {
    EA_PROVIDER_CRIT_SEC, EA_KERNEL_TRACE, 1};

static const ea_field_row crit_sec_collision_fields[] = {
    {"LockCount", EA_U32},
    {"SpinCount", EA_U32},
    {"OwningThread", EA_POINTER, EA_SEM_ADDRESS},
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row crit_sec_initialize_fields[] = {
    {"SpinCount", EA_POINTER},
    {"Address", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_class_row crit_sec_rows[] = {
    {"CritSec/Enter", 32, 0, 2, NULL},
    {"CritSec/Leave", 33, 0, 2, NULL},
    {"CritSec/Collision", 34, 0, 2, crit_sec_collision_fields},
    {"CritSec/Initialize", 35, 0, 2, crit_sec_initialize_fields},
};

const ea_family ea_family_crit_sec = EA_FAMILY(CRIT_SEC, crit_sec_rows, "ntwmi.h ETW_CRITSEC_EVENT_*");

static const ea_provider_row JOB = {
    EA_PROVIDER_JOB, EA_KERNEL_TRACE, 1};

static const ea_field_row job_create_fields[] = {
    {"JobId", EA_GUID},
    {"JobHandle", EA_HEX32},
    {"Flags", EA_HEX32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row job_assign_process_fields[] = {
    {"JobId", EA_GUID},
    {"JobHandle", EA_HEX32},
    {"UniqueProcessId", EA_U32, EA_SEM_PID},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row job_remove_process_fields[] = {
    {"JobId", EA_GUID},
    {"UniqueProcessId", EA_U32, EA_SEM_PID},
    {"RemovalFlags", EA_HEX32},
    {"ExitStatus", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row job_send_notification_fields[] = {
    {"JobId", EA_GUID},
    {"NotificationId", EA_U32},
    {0},
};

/* ntwmi.h WMI_JOB_SET_QUERY_INFORMATION; what may follow it has no public layout */
static const ea_field_row job_set_query_fields[] = {
    {"JobId", EA_GUID},
    {"JobHandle", EA_HEX32},
    {"JobObjectInformationClass", EA_U32},
    {"More", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_class_row job_rows[] = {
    {"Job/Create", 32, 0, 2, job_create_fields},
    {"Job/Terminate", 33, 0, 2, job_create_fields},
    {"Job/Open", 34, 0, 2, job_create_fields},
    {"Job/AssignProcess", 35, 0, 2, job_assign_process_fields},
    {"Job/RemoveProcess", 36, 0, 2, job_remove_process_fields},
    {"Job/Set", 37, 0, 2, job_set_query_fields},
    {"Job/Query", 38, 0, 2, job_set_query_fields},
    {"Job/SetFailed", 39, 0, 2, NULL},
    {"Job/QueryFailed", 40, 0, 2, NULL},
    {"Job/SetNotification", 41, 0, 2, NULL},
    {"Job/SendNotification", 42, 0, 2, job_send_notification_fields},
    {"Job/QueryViolation", 43, 0, 2, NULL},
    {"Job/SetCpuRate", 44, 0, 2, NULL},
    {"Job/SetNetRate", 45, 0, 2, NULL},
};

const ea_family ea_family_job = EA_FAMILY(JOB, job_rows, "ntwmi.h WMI_JOB_*");

static const ea_provider_row THREAD_POOL = {
    EA_PROVIDER_THREAD_POOL, EA_KERNEL_TRACE, 1};

static const ea_field_row thread_pool_callback_enqueue_fields[] = {
    {"PoolId", EA_POINTER, EA_SEM_ADDRESS},
    {"TaskId", EA_POINTER, EA_SEM_ADDRESS},
    {"Callback", EA_POINTER, EA_SEM_ADDRESS},
    {"Context", EA_POINTER, EA_SEM_ADDRESS},
    {"SubProcessTag", EA_POINTER},
    {0},
};

static const ea_field_row thread_pool_callback_cancel_fields[] = {
    {"PoolId", EA_POINTER, EA_SEM_ADDRESS},
    {"TaskId", EA_POINTER, EA_SEM_ADDRESS},
    {"Callback", EA_POINTER, EA_SEM_ADDRESS},
    {"Context", EA_POINTER, EA_SEM_ADDRESS},
    {"SubProcessTag", EA_POINTER},
    {"CancelCount", EA_U32},
    {0},
};

static const ea_field_row thread_pool_pool_create_fields[] = {
    {"PoolId", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row thread_pool_thread_min_set_fields[] = {
    {"PoolId", EA_POINTER, EA_SEM_ADDRESS},
    {"ThreadNum", EA_U32},
    {0},
};

static const ea_field_row thread_pool_worker_numa_node_switch_fields[] = {
    {"PoolId", EA_POINTER, EA_SEM_ADDRESS},
    {"CurrentNode", EA_U32},
    {"NextNode", EA_U32},
    {"CurrentGroup", EA_U16},
    {"NextGroup", EA_U16},
    {"CurrentWorkerCount", EA_U32},
    {"NextWorkerCount", EA_U32},
    {0},
};

static const ea_field_row thread_pool_timer_set_fields[] = {
    {"DueTime", EA_I64},
    {"SubQueue", EA_POINTER, EA_SEM_ADDRESS},
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {"Period", EA_U32},
    {"WindowLength", EA_U32},
    {"Absolute", EA_U32},
    {0},
};

static const ea_field_row thread_pool_timer_cancelled_fields[] = {
    {"SubQueue", EA_POINTER, EA_SEM_ADDRESS},
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row thread_pool_timer_set_nt_timer_fields[] = {
    {"DueTime", EA_I64},
    {"SubQueue", EA_POINTER, EA_SEM_ADDRESS},
    {"TolerableDelay", EA_U32},
    {0},
};

static const ea_field_row thread_pool_timer_cancel_nt_timer_fields[] = {
    {"SubQueue", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row thread_pool_timer_expiration_fields[] = {
    {"DueTime", EA_I64},
    {"SubQueue", EA_POINTER, EA_SEM_ADDRESS},
    {"Timer", EA_POINTER, EA_SEM_ADDRESS},
    {"Period", EA_U32},
    {"WindowLength", EA_U32},
    {0},
};

static const ea_class_row thread_pool_rows[] = {
    {"ThreadPool/CallbackEnqueue", 32, 0, 2, thread_pool_callback_enqueue_fields},
    {"ThreadPool/CallbackDequeue", 33, 0, 2, thread_pool_callback_enqueue_fields},
    {"ThreadPool/CallbackStart", 34, 0, 2, thread_pool_callback_enqueue_fields},
    {"ThreadPool/CallbackStop", 35, 0, 2, thread_pool_callback_enqueue_fields},
    {"ThreadPool/CallbackCancel", 36, 0, 2, thread_pool_callback_cancel_fields},
    {"ThreadPool/PoolCreate", 37, 0, 2, thread_pool_pool_create_fields},
    {"ThreadPool/PoolClose", 38, 0, 2, thread_pool_pool_create_fields},
    {"ThreadPool/ThreadMinSet", 39, 0, 2, thread_pool_thread_min_set_fields},
    {"ThreadPool/ThreadMaxSet", 40, 0, 2, thread_pool_thread_min_set_fields},
    {"ThreadPool/WorkerNumaNodeSwitch", 41, 0, 2, thread_pool_worker_numa_node_switch_fields},
    {"ThreadPool/TimerSet", 42, 0, 2, thread_pool_timer_set_fields},
    {"ThreadPool/TimerCancelled", 43, 0, 2, thread_pool_timer_cancelled_fields},
    {"ThreadPool/TimerSetNtTimer", 44, 0, 2, thread_pool_timer_set_nt_timer_fields},
    {"ThreadPool/TimerCancelNtTimer", 45, 0, 2, thread_pool_timer_cancel_nt_timer_fields},
    {"ThreadPool/TimerExpirationBegin", 46, 0, 2, thread_pool_timer_cancel_nt_timer_fields},
    {"ThreadPool/TimerExpirationEnd", 47, 0, 2, thread_pool_timer_cancel_nt_timer_fields},
    {"ThreadPool/TimerExpiration", 48, 0, 2, thread_pool_timer_expiration_fields},
};

const ea_family ea_family_thread_pool = EA_FAMILY(THREAD_POOL, thread_pool_rows, "ntwmi.h ETW_TP_EVENT_*");

static const ea_provider_row WNF = {
    EA_PROVIDER_WNF, EA_KERNEL_TRACE, 1};

static const ea_field_row wnf_subscribe_fields[] = {
    {"StateName", EA_HEX64},
    {"Subscription", EA_POINTER, EA_SEM_ADDRESS},
    {"NameSub", EA_POINTER, EA_SEM_ADDRESS},
    {"Callback", EA_POINTER, EA_SEM_ADDRESS},
    {"RefCount", EA_U32},
    {"DeliveryFlags", EA_HEX32},
    {0},
};

static const ea_field_row wnf_callback_fields[] = {
    {"StateName", EA_HEX64},
    {"Subscription", EA_POINTER, EA_SEM_ADDRESS},
    {"NameSub", EA_POINTER, EA_SEM_ADDRESS},
    {"Callback", EA_POINTER, EA_SEM_ADDRESS},
    {"ChangeStamp", EA_U32},
    {"DeliveryFlags", EA_HEX32},
    {"Return", EA_HEX32, EA_SEM_NTSTATUS},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row wnf_publish_fields[] = {
    {"StateName", EA_HEX64},
    {"DataLength", EA_U32, EA_SEM_BYTE_COUNT},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row wnf_name_sub_rundown_fields[] = {
    {"StateName", EA_HEX64},
    {"NameSub", EA_POINTER, EA_SEM_ADDRESS},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_class_row wnf_rows[] = {
    {"Wnf/Subscribe", 32, 0, 2, wnf_subscribe_fields},
    {"Wnf/Unsubscribe", 33, 0, 2, wnf_subscribe_fields},
    {"Wnf/Callback", 34, 0, 2, wnf_callback_fields},
    {"Wnf/Publish", 35, 0, 2, wnf_publish_fields},
    {"Wnf/NameSubRundown", 36, 0, 2, wnf_name_sub_rundown_fields},
};

const ea_family ea_family_wnf = EA_FAMILY(WNF, wnf_rows, "ntwmi.h ETW_WNF_EVENT_*");

static const ea_provider_row CC = {
    EA_PROVIDER_CACHE, EA_KERNEL_TRACE, 1};

/* ntwmi.h PERFINFO_CC_NOTIFY_* */
static const ea_map_entry cc_flush_reason_names[] = {
    {1, "LowMemory"},
    {2, "Power"},
    {4, "PeriodicScan"},
    {8, "WaitingTeardown"},
    {16, "FlushDuringCoalescing"},
};
static const ea_enum cc_flush_reason = EA_FLAGS("CcFlushReason", cc_flush_reason_names);

/* ntwmi.h PERFINFO_CC_WORKQUEUE_* */
static const ea_map_entry cc_queue_names[] = {
    {1, "FastTeardown"},
    {2, "Express"},
    {3, "Regular"},
    {4, "PostTick"},
    {5, "AsyncRead"},
    {6, "CompAsyncRead"},
};
static const ea_enum cc_queue = EA_VALUES("CcWorkQueue", cc_queue_names);

/* ntwmi.h PERFINFO_CC_WORKITEM_TYPE_* */
static const ea_map_entry cc_work_item_names[] = {
    {1, "ReadAhead"},
    {2, "WriteBehind"},
    {3, "LazyWriteScan"},
    {4, "EventSet"},
};
static const ea_enum cc_work_item = EA_VALUES("CcWorkItemType", cc_work_item_names);

/* ntwmi.h PERFINFO_CC_FLUSH_DATA_* */
static const ea_map_entry cc_flush_flags_names[] = {
    {1, "IsLazyWriter"},
    {2, "FastLazyWrite"},
    {4, "ForceFullFlush"},
};
static const ea_enum cc_flush_flags = EA_FLAGS("CcFlushFlags", cc_flush_flags_names);

/* ntwmi.h PERFINFO_CC_EXTRA_WB_THREAD_* */
static const ea_map_entry cc_thread_action_names[] = {
    {1, "Add"},
    {2, "Remove"},
};
static const ea_enum cc_thread_action = EA_VALUES("CcThreadAction", cc_thread_action_names);

static const ea_field_row cc_work_item_enqueue_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"QueueType", EA_U8, .map = &cc_queue},
    {"WorkItemType", EA_U8, .map = &cc_work_item},
    {"Requeue", EA_BOOL8},
    {"Reserved", EA_U8},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row cc_work_item_dequeue_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row cc_lazy_write_scan_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"ReasonForFlush", EA_HEX32, .map = &cc_flush_reason},
    {"PagesToWrite", EA_U32},
    {"TotalDirtyPages", EA_SIZE},
    {"AvailablePages", EA_SIZE},
    {"DirtyPageThreshold", EA_SIZE},
    {"NumberOfMappedVacbs", EA_SIZE},
    {"TopDirtyPageThreshold", EA_SIZE},
    {"BottomDirtyPageThreshold", EA_SIZE},
    {"AverageAvailablePages", EA_SIZE},
    {"AverageDirtyPages", EA_SIZE},
    {"ConsecutiveWorklessLazywriteScans", EA_SIZE},
    {0},
};

static const ea_field_row cc_can_i_write_fail_fields[] = {
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"TotalDirtyPages", EA_SIZE},
    {"DirtyPageThreshold", EA_SIZE},
    {"BytesToWrite", EA_U32, EA_SEM_BYTE_COUNT},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row cc_flush_cache_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"Offset", EA_U64},
    {"Length", EA_U32, EA_SEM_BYTE_COUNT},
    {"SharedCacheMapFlags", EA_HEX32},
    {"Flags", EA_HEX32, .map = &cc_flush_flags},
    {"Reserved", EA_U32},
    {0},
};

static const ea_field_row cc_flush_section_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"Offset", EA_U64},
    {"Length", EA_U32, EA_SEM_BYTE_COUNT},
    {"MmFlushFlags", EA_HEX32},
    {0},
};

static const ea_field_row cc_extra_write_behind_thread_fields[] = {
    {"ThreadAction", EA_U32, .map = &cc_thread_action},
    {"ActiveExtraWBThreads", EA_U32},
    {"TotalDirtyPages", EA_SIZE},
    {"DirtyPageThreshold", EA_SIZE},
    {"AvailablePages", EA_SIZE},
    {0},
};

/* ntwmi.h PERFINFO_CC_READ_AHEAD */
static const ea_field_row cc_read_ahead_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"Alignment", EA_BYTES, .count = 4, .only = 4},
    {"FileOffset", EA_U64},
    {"Size", EA_U32, EA_SEM_BYTE_COUNT},
    {"PagePriority", EA_U32},
    {"DetectedPattern", EA_U32},
    {"Reserved", EA_U32},
    {0},
};

/* ntwmi.h PERFINFO_CC_SCHEDULE_READ_AHEAD */
static const ea_field_row cc_schedule_read_ahead_fields[] = {
    {"WorkItemKey", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileOffset", EA_U64},
    {"Length", EA_U32, EA_SEM_BYTE_COUNT},
    {"ReadAheadUnit", EA_U32, EA_SEM_BYTE_COUNT},
    {"ReadAheadLength", EA_U32, EA_SEM_BYTE_COUNT},
    {"Alignment", EA_BYTES, .count = 4},
    {"ReadAheadOffset", EA_U64},
    {"ReadAheadBeyondLastByte", EA_U64},
    {"ReadPattern", EA_U8},
    {"Alignment2", EA_BYTES, .count = 3},
    {"SequentialReadCount", EA_U32},
    {"SharedCacheMapFlags", EA_HEX32},
    {"ReadAheadFlags", EA_HEX32},
    {0},
};

/* ntwmi.h PERFINFO_CC_LOGGED_STREAM_INFO */
static const ea_field_row cc_logged_stream_fields[] = {
    {"FileObjectKey", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"ReasonForFlush", EA_HEX32, .map = &cc_flush_reason},
    {"PagesToWrite", EA_U32},
    {"DirtyLoggedPages", EA_SIZE},
    {"DirtyLoggedPageThreshold", EA_SIZE},
    {"Alignment", EA_BYTES, .count = 4, .only = 4},
    {"LargestLsnForLWS", EA_I64},
    {0},
};

static const ea_class_row cc_rows[] = {
    {"Cc/WorkItemEnqueue", 0, 0, 2, cc_work_item_enqueue_fields},
    {"Cc/WorkItemDequeue", 1, 0, 2, cc_work_item_dequeue_fields},
    {"Cc/WorkItemComplete", 2, 0, 2, cc_work_item_dequeue_fields},
    {"Cc/ReadAhead", 3, 0, 2, cc_read_ahead_fields},
    {"Cc/WriteBehind", 4, 0, 2, NULL},
    {"Cc/LazyWriteScan", 5, 0, 2, cc_lazy_write_scan_fields},
    {"Cc/CanIWriteFail", 6, 0, 2, cc_can_i_write_fail_fields},
    {"Cc/MapView", 7, 0, 2, NULL},
    {"Cc/UnmapView", 8, 0, 2, NULL},
    {"Cc/FlushCache", 9, 0, 2, cc_flush_cache_fields},
    {"Cc/FlushSection", 10, 0, 2, cc_flush_section_fields},
    {"Cc/ReadAheadPrefetch", 11, 0, 2, NULL},
    {"Cc/ScheduleReadAhead", 12, 0, 2, cc_schedule_read_ahead_fields},
    {"Cc/LoggedStreamInfo", 13, 0, 2, cc_logged_stream_fields},
    {"Cc/ExtraWriteBehindThread", 14, 0, 2, cc_extra_write_behind_thread_fields},
};

const ea_family ea_family_cc = EA_FAMILY(CC, cc_rows, "ntwmi.h PERFINFO_CC_*");

/* Timers and the clock: opcodes of PerfInfo beside those of the schema. */
static const ea_provider_row PERF_INFO_TIMERS = {
    EA_PROVIDER_PERF_INFO, EA_KERNEL_TRACE, 1};

static const ea_map_entry timer_flags_names[] = {
    {0x1, "Coalescable"}, {0x2, "Dpc"}, {0x4, "IdleResilient"}, {0x8, "HighResolution"}, {0x10, "NoWake"},
};
static const ea_enum timer_flags = EA_FLAGS("TimerFlags", timer_flags_names);

static const ea_field_row timer_set_fields[] = {
    {"ExpectedDueTime", EA_U64},
    {"TimerAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"TargetProcessorGroup", EA_U16},
    {"TargetProcessorIndex", EA_U8, EA_SEM_CPU},
    {"Flags", EA_HEX8, .map = &timer_flags},
    {"Period", EA_U32},
    {"EncodedDelay", EA_U8},
    {"Reserved0", EA_U8},
    {"Reserved1", EA_U16},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row timer_cancel_fields[] = {
    {"TimerAddress", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row timer_expiration_fields[] = {
    {"ExpectedDueTime", EA_U64},
    {"TimerAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"DeferredRoutine", EA_POINTER, EA_SEM_ADDRESS},
    {"EncodedDelay", EA_U8},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_field_row timer_expiration_start_fields[] = {
    {"InterruptTime", EA_U64},
    {0},
};

static const ea_field_row clock_time_update_fields[] = {
    {"InterruptTime", EA_U64},
    {"ClockOwner", EA_U32},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

static const ea_map_entry tick_disable_names[] = {
    {0, "None"}, {1, "BcdOverride"}, {2, "NoHwSupport"}, {3, "EmOverride"},
};
static const ea_enum tick_disable = EA_VALUES("DynamicTickDisableReason", tick_disable_names);

static const ea_field_row clock_configuration_fields[] = {
    {"KnownType", EA_U32},
    {"Capabilities", EA_HEX32},
    {"DisableReason", EA_U32, .map = &tick_disable},
    {0},
};

static const ea_class_row perf_info_timers_rows[] = {
    {"PerfInfo/TimerExpirationStart", 80, 0, 2, timer_expiration_start_fields},
    {"PerfInfo/TimerExpiration", 81, 0, 2, timer_expiration_fields},
    {"PerfInfo/TimerSetPeriodic", 82, 0, 2, timer_set_fields},
    {"PerfInfo/TimerSetOneShot", 83, 0, 2, timer_set_fields},
    {"PerfInfo/TimerSetThread", 84, 0, 2, timer_set_fields},
    {"PerfInfo/TimerCancel", 85, 0, 2, timer_cancel_fields},
    {"PerfInfo/ClockTimeUpdate", 88, 0, 2, clock_time_update_fields},
    {"PerfInfo/ClockConfiguration", 90, 0, 2, clock_configuration_fields},
};

const ea_family ea_family_perf_info_timers =
    EA_FAMILY(PERF_INFO_TIMERS, perf_info_timers_rows, "ntwmi.h ETW_*_TIMER_EVENT, ETW_CLOCK_*");
