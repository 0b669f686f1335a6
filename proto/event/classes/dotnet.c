/* .NET: Microsoft-Windows-DotNETRuntime. Names are the task and the opcode in the texts of the manifest; where several
 * ids share them, the id follows. See dotnet.h. */
#include "proto/event/classes/dotnet.h"
#include "proto/base/provider_guids.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DOTNET = {
    EA_PROVIDER_DOTNET_RUNTIME,
    "Microsoft-Windows-DotNETRuntime", 0};

static const ea_field_row gc_start_fields[] = {
    {"Count", EA_U32},
    {"Depth", EA_U32},
    {"Reason", EA_U32, .map = &ea_dotnet_gc_reason},
    {"Type", EA_U32, .map = &ea_dotnet_gc_type},
    {"ClrInstanceID", EA_U16},
    {"ClientSequenceNumber", EA_U64, .since = 2},
    {0},
};

static const ea_field_row gc_start_0_fields[] = {
    {"Count", EA_U32},
    {"Reason", EA_U32, .map = &ea_dotnet_gc_reason},
    {0},
};

static const ea_field_row gc_end_fields[] = {
    {"Count", EA_U32},
    {"Depth", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_end_0_fields[] = {
    {"Count", EA_U32},
    {"Depth", EA_U16},
    {0},
};

static const ea_field_row gc_no_user_data_fields[] = {
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row gc_heap_stats_fields[] = {
    {"GenerationSize0", EA_U64, EA_SEM_BYTE_COUNT},
    {"TotalPromotedSize0", EA_U64, EA_SEM_BYTE_COUNT},
    {"GenerationSize1", EA_U64, EA_SEM_BYTE_COUNT},
    {"TotalPromotedSize1", EA_U64, EA_SEM_BYTE_COUNT},
    {"GenerationSize2", EA_U64, EA_SEM_BYTE_COUNT},
    {"TotalPromotedSize2", EA_U64, EA_SEM_BYTE_COUNT},
    {"GenerationSize3", EA_U64, EA_SEM_BYTE_COUNT},
    {"TotalPromotedSize3", EA_U64, EA_SEM_BYTE_COUNT},
    {"FinalizationPromotedSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"FinalizationPromotedCount", EA_U64},
    {"PinnedObjectCount", EA_U32},
    {"SinkBlockCount", EA_U32},
    {"GCHandleCount", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"GenerationSize4", EA_U64, EA_SEM_BYTE_COUNT, .since = 2},
    {"TotalPromotedSize4", EA_U64, EA_SEM_BYTE_COUNT, .since = 2},
    {0},
};

static const ea_field_row gc_create_segment_fields[] = {
    {"Address", EA_HEX64},
    {"Size", EA_U64, EA_SEM_BYTE_COUNT},
    {"Type", EA_U32, .map = &ea_dotnet_gc_segment_type},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row gc_free_segment_fields[] = {
    {"Address", EA_HEX64},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row gc_suspend_ee_fields[] = {
    {"Reason", EA_U32, .map = &ea_dotnet_gc_suspend_ee_reason},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_suspend_ee_0_fields[] = {
    {"Reason", EA_U16, .map = &ea_dotnet_gc_suspend_ee_reason},
    {0},
};

static const ea_field_row gc_allocation_tick_fields[] = {
    {"AllocationAmount", EA_U32, EA_SEM_BYTE_COUNT},
    {"AllocationKind", EA_U32, .map = &ea_dotnet_gc_allocation_kind},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"AllocationAmount64", EA_U64, EA_SEM_BYTE_COUNT, .since = 2},
    {"TypeID", EA_POINTER, .since = 2},
    {"TypeName", EA_UTF16Z, .since = 2},
    {"HeapIndex", EA_U32, .since = 2},
    {"Address", EA_POINTER, .since = 3},
    {"ObjectSize", EA_U64, EA_SEM_BYTE_COUNT, .since = 4},
    {0},
};

static const ea_field_row gc_finalizers_end_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row bulk_type_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 8, .count_field = "Count"},
    {"TypeID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"TypeNameID", EA_U32},
    {"Flags", EA_HEX32, .map = &ea_dotnet_type_flags},
    {"CorElementType", EA_U8},
    {"Name", EA_UTF16Z},
    {"TypeParameterCount", EA_U32},
    {"TypeParameters", EA_HEX64, .count_field = "TypeParameterCount"},
    {0},
};

static const ea_field_row gc_bulk_root_edge_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 4, .count_field = "Count"},
    {"RootedNodeAddress", EA_POINTER},
    {"GCRootKind", EA_U8, .map = &ea_dotnet_gc_root_kind},
    {"GCRootFlag", EA_HEX32, .map = &ea_dotnet_gc_root_flags},
    {"GCRootID", EA_POINTER},
    {0},
};

static const ea_field_row gc_bulk_root_conditional_weak_table_element_edge_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 3, .count_field = "Count"},
    {"GCKeyNodeID", EA_POINTER},
    {"GCValueNodeID", EA_POINTER},
    {"GCRootID", EA_POINTER},
    {0},
};

static const ea_field_row gc_bulk_node_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 4, .count_field = "Count"},
    {"Address", EA_POINTER},
    {"Size", EA_U64},
    {"TypeID", EA_U64},
    {"EdgeCount", EA_U64},
    {0},
};

static const ea_field_row gc_bulk_edge_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 2, .count_field = "Count"},
    {"Value", EA_POINTER},
    {"ReferencingFieldID", EA_U32},
    {0},
};

static const ea_field_row gc_sampled_object_allocation_fields[] = {
    {"Address", EA_POINTER},
    {"TypeID", EA_POINTER},
    {"ObjectCountForTypeSample", EA_U32},
    {"TotalSizeForTypeSample", EA_U64, EA_SEM_BYTE_COUNT},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_bulk_surviving_object_ranges_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 2, .count_field = "Count"},
    {"RangeBase", EA_POINTER},
    {"RangeLength", EA_U64},
    {0},
};

static const ea_field_row gc_bulk_moved_object_ranges_fields[] = {
    {"Index", EA_U32},
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 3, .count_field = "Count"},
    {"OldRangeBase", EA_POINTER},
    {"NewRangeBase", EA_POINTER},
    {"RangeLength", EA_U64},
    {0},
};

static const ea_field_row gc_generation_range_fields[] = {
    {"Generation", EA_U8},
    {"RangeStart", EA_POINTER},
    {"RangeUsedLength", EA_U64, EA_SEM_BYTE_COUNT},
    {"RangeReservedLength", EA_U64, EA_SEM_BYTE_COUNT},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_mark_fields[] = {
    {"HeapNum", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row finalize_object_fields[] = {
    {"TypeID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_set_gc_handle_fields[] = {
    {"HandleID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"Kind", EA_U32, .map = &ea_dotnet_gc_handle_kind},
    {"Generation", EA_U32},
    {"AppDomainID", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_destroy_gc_handle_fields[] = {
    {"HandleID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row pin_object_at_gc_time_fields[] = {
    {"HandleID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"ObjectSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"TypeName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_triggered_fields[] = {
    {"Reason", EA_U32, .map = &ea_dotnet_gc_reason},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_bulk_root_ccw_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 7, .count_field = "Count"},
    {"GCRootID", EA_HEX64},
    {"ObjectID", EA_HEX64},
    {"TypeID", EA_HEX64},
    {"IUnknown", EA_HEX64},
    {"RefCount", EA_U32},
    {"PeggedRefCount", EA_U32},
    {"Flags", EA_HEX32, .map = &ea_dotnet_gc_root_ccw_flags},
    {0},
};

static const ea_field_row gc_bulk_rcw_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 6, .count_field = "Count"},
    {"ObjectID", EA_HEX64},
    {"TypeID", EA_HEX64},
    {"IUnknown", EA_HEX64},
    {"VTable", EA_HEX64},
    {"RefCount", EA_U32},
    {"Flags", EA_U32},
    {0},
};

static const ea_field_row gc_bulk_root_static_var_fields[] = {
    {"Count", EA_U32},
    {"AppDomainID", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {"Values", EA_STRUCT, .child_count = 5, .count_field = "Count"},
    {"GCRootID", EA_HEX64},
    {"ObjectID", EA_HEX64},
    {"TypeID", EA_HEX64},
    {"Flags", EA_HEX32, .map = &ea_dotnet_gc_root_static_var_flags},
    {"FieldName", EA_UTF16Z},
    {0},
};

static const ea_field_row clr_worker_thread_fields[] = {
    {"WorkerThreadCount", EA_U32},
    {"RetiredWorkerThreads", EA_U32},
    {0},
};

static const ea_field_row io_thread_fields[] = {
    {"IOThreadCount", EA_U32},
    {"RetiredIOThreads", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row clr_thread_pool_suspend_fields[] = {
    {"ClrThreadID", EA_U32},
    {"CpuUtilization", EA_U32},
    {0},
};

static const ea_field_row thread_pool_worker_thread_fields[] = {
    {"ActiveWorkerThreadCount", EA_U32},
    {"RetiredWorkerThreadCount", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_worker_thread_adjustment_sample_fields[] = {
    {"Throughput", EA_F64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_worker_thread_adjustment_adjustment_fields[] = {
    {"AverageThroughput", EA_F64},
    {"NewWorkerThreadCount", EA_U32},
    {"Reason", EA_U32, .map = &ea_dotnet_thread_adjustment_reason},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_worker_thread_adjustment_stats_fields[] = {
    {"Duration", EA_F64},
    {"Throughput", EA_F64},
    {"ThreadWave", EA_F64},
    {"ThroughputWave", EA_F64},
    {"ThroughputErrorEstimate", EA_F64},
    {"AverageThroughputErrorEstimate", EA_F64},
    {"ThroughputRatio", EA_F64},
    {"Confidence", EA_F64},
    {"NewControlSetting", EA_F64},
    {"NewThreadWaveMagnitude", EA_U16},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_working_thread_count_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_work_fields[] = {
    {"WorkID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_io_work_enqueue_fields[] = {
    {"NativeOverlapped", EA_POINTER},
    {"Overlapped", EA_POINTER},
    {"MultiDequeues", EA_BOOL32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_pool_io_work_fields[] = {
    {"NativeOverlapped", EA_POINTER},
    {"Overlapped", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_start_work_fields[] = {
    {"ID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row exception_fields[] = {
    {"ExceptionType", EA_UTF16Z, .since = 1},
    {"ExceptionMessage", EA_UTF16Z, .since = 1},
    {"ExceptionEIP", EA_POINTER, EA_SEM_ADDRESS, .since = 1},
    {"ExceptionHRESULT", EA_HEX32, EA_SEM_HRESULT, .since = 1},
    {"ExceptionFlags", EA_HEX16, .since = 1, .map = &ea_dotnet_exception_thrown_flags},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row contention_fields[] = {
    {"ContentionFlags", EA_U8, .since = 1, .map = &ea_dotnet_contention_flags},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"LockID", EA_POINTER, .since = 2},
    {"AssociatedObjectID", EA_POINTER, .since = 2},
    {"LockOwnerThreadID", EA_U64, .since = 2},
    {0},
};

const ea_field_row ea_dotnet_clr_stack_walk_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Reserved1", EA_U8},
    {"Reserved2", EA_U8},
    {"FrameCount", EA_U32},
    {"Stack", EA_POINTER, EA_SEM_STACK, .count_field = "FrameCount"},
    {0},
};

static const ea_field_row app_domain_mem_allocated_fields[] = {
    {"AppDomainID", EA_HEX64},
    {"Allocated", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row app_domain_mem_survived_fields[] = {
    {"AppDomainID", EA_HEX64},
    {"Survived", EA_HEX64},
    {"ProcessSurvived", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_thread_created_fields[] = {
    {"ManagedThreadID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"Flags", EA_HEX32, .map = &ea_dotnet_thread_flags},
    {"ManagedThreadIndex", EA_U32},
    {"OSThreadID", EA_U32, EA_SEM_TID},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row thread_terminated_or_transition_fields[] = {
    {"ManagedThreadID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row il_stub_generated_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_HEX64},
    {"StubMethodID", EA_HEX64},
    {"StubFlags", EA_HEX32, .map = &ea_dotnet_il_stub_generated_flags},
    {"ManagedInteropMethodToken", EA_HEX32},
    {"ManagedInteropMethodNamespace", EA_UTF16Z},
    {"ManagedInteropMethodName", EA_UTF16Z},
    {"ManagedInteropMethodSignature", EA_UTF16Z},
    {"NativeMethodSignature", EA_UTF16Z},
    {"StubMethodSignature", EA_UTF16Z},
    {"StubMethodILCode", EA_UTF16Z},
    {0},
};

static const ea_field_row il_stub_cache_hit_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_HEX64},
    {"StubMethodID", EA_HEX64},
    {"ManagedInteropMethodToken", EA_HEX32},
    {"ManagedInteropMethodNamespace", EA_UTF16Z},
    {"ManagedInteropMethodName", EA_UTF16Z},
    {"ManagedInteropMethodSignature", EA_UTF16Z},
    {0},
};

static const ea_field_row contention_stop_fields[] = {
    {"ContentionFlags", EA_U8, .map = &ea_dotnet_contention_flags},
    {"ClrInstanceID", EA_U16},
    {"DurationNs", EA_F64, .since = 1},
    {0},
};

static const ea_field_row method_load_unload_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodStartAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodToken", EA_HEX32},
    {"MethodFlags", EA_HEX32, .map = &ea_dotnet_method_flags},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"ReJITID", EA_HEX64, .since = 2},
    {0},
};

const ea_field_row ea_dotnet_method_load_unload_verbose_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodStartAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodToken", EA_HEX32},
    {"MethodFlags", EA_HEX32, .map = &ea_dotnet_method_flags},
    {"MethodNamespace", EA_UTF16Z},
    {"MethodName", EA_UTF16Z},
    {"MethodSignature", EA_UTF16Z},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"ReJITID", EA_HEX64, .since = 2},
    {0},
};

static const ea_field_row method_jitting_started_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodToken", EA_HEX32},
    {"MethodILSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodNamespace", EA_UTF16Z},
    {"MethodName", EA_UTF16Z},
    {"MethodSignature", EA_UTF16Z},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

const ea_field_row ea_dotnet_module_load_unload_fields[] = {
    {"ModuleID", EA_HEX64},
    {"AssemblyID", EA_HEX64},
    {"ModuleFlags", EA_HEX32, .map = &ea_dotnet_module_flags},
    {"Reserved1", EA_U32},
    {"ModuleILPath", EA_UTF16Z, EA_SEM_PATH},
    {"ModuleNativePath", EA_UTF16Z, EA_SEM_PATH},
    {"ClrInstanceID", EA_U16, .since = 1},
    {"ManagedPdbSignature", EA_GUID, .since = 2},
    {"ManagedPdbAge", EA_U32, .since = 2},
    {"ManagedPdbBuildPath", EA_UTF16Z, EA_SEM_PATH, .since = 2},
    {"NativePdbSignature", EA_GUID, .since = 2},
    {"NativePdbAge", EA_U32, .since = 2},
    {"NativePdbBuildPath", EA_UTF16Z, EA_SEM_PATH, .since = 2},
    {"NativeBuildID", EA_UTF16Z, .since = 3},
    {0},
};

const ea_field_row ea_dotnet_domain_module_load_unload_fields[] = {
    {"ModuleID", EA_HEX64},
    {"AssemblyID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"ModuleFlags", EA_HEX32, .map = &ea_dotnet_module_flags},
    {"Reserved1", EA_U32},
    {"ModuleILPath", EA_UTF16Z, EA_SEM_PATH},
    {"ModuleNativePath", EA_UTF16Z, EA_SEM_PATH},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

const ea_field_row ea_dotnet_assembly_load_unload_fields[] = {
    {"AssemblyID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"BindingID", EA_HEX64},
    {"AssemblyFlags", EA_HEX32, .map = &ea_dotnet_assembly_flags},
    {"FullyQualifiedAssemblyName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_assembly_load_unload_0_fields[] = {
    {"AssemblyID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"AssemblyFlags", EA_HEX32, .map = &ea_dotnet_assembly_flags},
    {"FullyQualifiedAssemblyName", EA_UTF16Z},
    {0},
};

const ea_field_row ea_dotnet_app_domain_load_unload_fields[] = {
    {"AppDomainID", EA_HEX64},
    {"AppDomainFlags", EA_HEX32, .map = &ea_dotnet_app_domain_flags},
    {"AppDomainName", EA_UTF16Z},
    {"AppDomainIndex", EA_U32, .since = 1},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

const ea_field_row ea_dotnet_module_range_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_HEX64},
    {"RangeBegin", EA_HEX32},
    {"RangeSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"RangeType", EA_HEX8, .map = &ea_dotnet_module_range_type},
    {0},
};

static const ea_field_row strong_name_verification_fields[] = {
    {"VerificationFlags", EA_HEX32},
    {"ErrorCode", EA_HEX32},
    {"FullyQualifiedAssemblyName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row authenticode_verification_fields[] = {
    {"VerificationFlags", EA_HEX32},
    {"ErrorCode", EA_HEX32},
    {"ModulePath", EA_UTF16Z, EA_SEM_PATH},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row method_jit_inlining_succeeded_fields[] = {
    {"MethodBeingCompiledNamespace", EA_UTF16Z},
    {"MethodBeingCompiledName", EA_UTF16Z},
    {"MethodBeingCompiledNameSignature", EA_UTF16Z},
    {"InlinerNamespace", EA_UTF16Z},
    {"InlinerName", EA_UTF16Z},
    {"InlinerNameSignature", EA_UTF16Z},
    {"InlineeNamespace", EA_UTF16Z},
    {"InlineeName", EA_UTF16Z},
    {"InlineeNameSignature", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row method_jit_inlining_failed_fields[] = {
    {"MethodBeingCompiledNamespace", EA_UTF16Z},
    {"MethodBeingCompiledName", EA_UTF16Z},
    {"MethodBeingCompiledNameSignature", EA_UTF16Z},
    {"InlinerNamespace", EA_UTF16Z},
    {"InlinerName", EA_UTF16Z},
    {"InlinerNameSignature", EA_UTF16Z},
    {"InlineeNamespace", EA_UTF16Z},
    {"InlineeName", EA_UTF16Z},
    {"InlineeNameSignature", EA_UTF16Z},
    {"FailAlways", EA_BOOL32},
    {"FailReason", EA_ANSIZ},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_runtime_information_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Sku", EA_HEX16, .map = &ea_dotnet_runtime_sku},
    {"BclMajorVersion", EA_U16},
    {"BclMinorVersion", EA_U16},
    {"BclBuildNumber", EA_U16},
    {"BclQfeNumber", EA_U16},
    {"VMMajorVersion", EA_U16},
    {"VMMinorVersion", EA_U16},
    {"VMBuildNumber", EA_U16},
    {"VMQfeNumber", EA_U16},
    {"StartupFlags", EA_HEX32, .map = &ea_dotnet_startup_flags},
    {"StartupMode", EA_HEX8, .map = &ea_dotnet_startup_mode},
    {"CommandLine", EA_UTF16Z, EA_SEM_COMMAND_LINE},
    {"ComObjectGuid", EA_GUID},
    {"RuntimeDllPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row method_jit_tail_call_succeeded_fields[] = {
    {"MethodBeingCompiledNamespace", EA_UTF16Z},
    {"MethodBeingCompiledName", EA_UTF16Z},
    {"MethodBeingCompiledNameSignature", EA_UTF16Z},
    {"CallerNamespace", EA_UTF16Z},
    {"CallerName", EA_UTF16Z},
    {"CallerNameSignature", EA_UTF16Z},
    {"CalleeNamespace", EA_UTF16Z},
    {"CalleeName", EA_UTF16Z},
    {"CalleeNameSignature", EA_UTF16Z},
    {"TailPrefix", EA_BOOL32},
    {"TailCallType", EA_U32, .map = &ea_dotnet_tail_call_type},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row method_jit_tail_call_failed_fields[] = {
    {"MethodBeingCompiledNamespace", EA_UTF16Z},
    {"MethodBeingCompiledName", EA_UTF16Z},
    {"MethodBeingCompiledNameSignature", EA_UTF16Z},
    {"CallerNamespace", EA_UTF16Z},
    {"CallerName", EA_UTF16Z},
    {"CallerNameSignature", EA_UTF16Z},
    {"CalleeNamespace", EA_UTF16Z},
    {"CalleeName", EA_UTF16Z},
    {"CalleeNameSignature", EA_UTF16Z},
    {"TailPrefix", EA_BOOL32},
    {"FailReason", EA_ANSIZ},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_method_il_to_native_map_fields[] = {
    {"MethodID", EA_HEX64},
    {"ReJITID", EA_HEX64},
    {"MethodExtent", EA_U8},
    {"CountOfMapEntries", EA_U16},
    {"ILOffsets", EA_U32, .count_field = "CountOfMapEntries"},
    {"NativeOffsets", EA_U32, .count_field = "CountOfMapEntries"},
    {"ClrInstanceID", EA_U16},
    {"ILVersionID", EA_U64, .since = 1},
    {0},
};

static const ea_field_row increase_memory_pressure_fields[] = {
    {"BytesAllocated", EA_U64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row decrease_memory_pressure_fields[] = {
    {"BytesFreed", EA_U64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_class_row dotnet_rows[] = {
    {"GC/Start", 1, 0, 0, gc_start_0_fields},
    {"GC/Start", 1, 1, 2, gc_start_fields},
    {"GC/Stop", 2, 0, 0, gc_end_0_fields},
    {"GC/Stop", 2, 1, 1, gc_end_fields},
    {"GC/RestartEEStop", 3, 0, 1, gc_no_user_data_fields},
    {"GC/HeapStats", 4, 0, 2, gc_heap_stats_fields},
    {"GC/CreateSegment", 5, 0, 1, gc_create_segment_fields},
    {"GC/FreeSegment", 6, 0, 1, gc_free_segment_fields},
    {"GC/RestartEEStart", 7, 0, 1, gc_no_user_data_fields},
    {"GC/SuspendEEStop", 8, 0, 1, gc_no_user_data_fields},
    {"GC/SuspendEEStart", 9, 0, 0, gc_suspend_ee_0_fields},
    {"GC/SuspendEEStart", 9, 1, 1, gc_suspend_ee_fields},
    {"GC/AllocationTick", 10, 0, 4, gc_allocation_tick_fields},
    {"GC/CreateConcurrentThread", 11, 0, 1, gc_no_user_data_fields},
    {"GC/TerminateConcurrentThread", 12, 0, 1, gc_no_user_data_fields},
    {"GC/FinalizersStop", 13, 0, 1, gc_finalizers_end_fields},
    {"GC/FinalizersStart", 14, 0, 1, gc_no_user_data_fields},
    {"Type/BulkType", 15, 0, 0, bulk_type_fields},
    {"GC/GCBulkRootEdge", 16, 0, 0, gc_bulk_root_edge_fields},
    {"GC/GCBulkRootConditionalWeakTableElementEdge", 17, 0, 0, gc_bulk_root_conditional_weak_table_element_edge_fields},
    {"GC/GCBulkNode", 18, 0, 0, gc_bulk_node_fields},
    {"GC/GCBulkEdge", 19, 0, 0, gc_bulk_edge_fields},
    {"GC/GCSampledObjectAllocation", 20, 0, 0, gc_sampled_object_allocation_fields},
    {"GC/GCBulkSurvivingObjectRanges", 21, 0, 0, gc_bulk_surviving_object_ranges_fields},
    {"GC/GCBulkMovedObjectRanges", 22, 0, 0, gc_bulk_moved_object_ranges_fields},
    {"GC/GCGenerationRange", 23, 0, 0, gc_generation_range_fields},
    {"GC/MarkStackRoots", 25, 0, 0, gc_mark_fields},
    {"GC/MarkFinalizeQueueRoots", 26, 0, 0, gc_mark_fields},
    {"GC/MarkHandles", 27, 0, 0, gc_mark_fields},
    {"GC/MarkCards", 28, 0, 0, gc_mark_fields},
    {"GC/FinalizeObject", 29, 0, 0, finalize_object_fields},
    {"GC/SetGCHandle", 30, 0, 0, ea_dotnet_set_gc_handle_fields},
    {"GC/DestoryGCHandle", 31, 0, 0, ea_dotnet_destroy_gc_handle_fields},
    {"GC/GCSampledObjectAllocation32", 32, 0, 0, gc_sampled_object_allocation_fields},
    {"GC/PinObjectAtGCTime", 33, 0, 0, pin_object_at_gc_time_fields},
    {"GC/Triggered", 35, 0, 0, gc_triggered_fields},
    {"GC/GCBulkRootCCW", 36, 0, 0, gc_bulk_root_ccw_fields},
    {"GC/GCBulkRCW", 37, 0, 0, gc_bulk_rcw_fields},
    {"GC/GCBulkRootStaticVar", 38, 0, 0, gc_bulk_root_static_var_fields},
    {"WorkerThreadCreationV2/Start", 40, 0, 0, clr_worker_thread_fields},
    {"WorkerThreadCreationV2/Stop", 41, 0, 0, clr_worker_thread_fields},
    {"WorkerThreadRetirementV2/Start", 42, 0, 0, clr_worker_thread_fields},
    {"WorkerThreadRetirementV2/Stop", 43, 0, 0, clr_worker_thread_fields},
    {"IOThreadCreation/Start", 44, 0, 1, io_thread_fields},
    {"IOThreadCreation/Stop", 45, 0, 1, io_thread_fields},
    {"IOThreadRetirement/Start", 46, 0, 1, io_thread_fields},
    {"IOThreadRetirement/Stop", 47, 0, 1, io_thread_fields},
    {"ThreadpoolSuspensionV2/Start", 48, 0, 0, clr_thread_pool_suspend_fields},
    {"ThreadpoolSuspensionV2/Stop", 49, 0, 0, clr_thread_pool_suspend_fields},
    {"ThreadPoolWorkerThread/Start", 50, 0, 0, thread_pool_worker_thread_fields},
    {"ThreadPoolWorkerThread/Stop", 51, 0, 0, thread_pool_worker_thread_fields},
    {"ThreadPoolWorkerThreadRetirement/Start", 52, 0, 0, thread_pool_worker_thread_fields},
    {"ThreadPoolWorkerThreadRetirement/Stop", 53, 0, 0, thread_pool_worker_thread_fields},
    {"ThreadPoolWorkerThreadAdjustment/Sample", 54, 0, 0, thread_pool_worker_thread_adjustment_sample_fields},
    {"ThreadPoolWorkerThreadAdjustment/Adjustment", 55, 0, 0, thread_pool_worker_thread_adjustment_adjustment_fields},
    {"ThreadPoolWorkerThreadAdjustment/Stats", 56, 0, 0, thread_pool_worker_thread_adjustment_stats_fields},
    {"ThreadPoolWorkerThread/Wait", 57, 0, 0, thread_pool_worker_thread_fields},
    {"ThreadPoolWorkingThreadCount/Start", 60, 0, 0, thread_pool_working_thread_count_fields},
    {"ThreadPool/Enqueue", 61, 0, 0, thread_pool_work_fields},
    {"ThreadPool/Dequeue", 62, 0, 0, thread_pool_work_fields},
    {"ThreadPool/IOEnqueue", 63, 0, 0, thread_pool_io_work_enqueue_fields},
    {"ThreadPool/IODequeue", 64, 0, 0, thread_pool_io_work_fields},
    {"ThreadPool/IOPack", 65, 0, 0, thread_pool_io_work_fields},
    {"Thread/Creating", 70, 0, 0, thread_start_work_fields},
    {"Thread/Running", 71, 0, 0, thread_start_work_fields},
    {"Exception/Start", 80, 0, 1, exception_fields},
    {"Contention/Start", 81, 0, 2, contention_fields},
    {"ClrStack/Walk", 82, 0, 0, ea_dotnet_clr_stack_walk_fields},
    {"AppDomainResourceManagement/MemAllocated", 83, 0, 0, app_domain_mem_allocated_fields},
    {"AppDomainResourceManagement/MemSurvived", 84, 0, 0, app_domain_mem_survived_fields},
    {"AppDomainResourceManagement/ThreadCreated", 85, 0, 0, ea_dotnet_thread_created_fields},
    {"AppDomainResourceManagement/ThreadTerminated", 86, 0, 0, thread_terminated_or_transition_fields},
    {"AppDomainResourceManagement/DomainEnter", 87, 0, 0, thread_terminated_or_transition_fields},
    {"ILStub/StubGenerated", 88, 0, 0, il_stub_generated_fields},
    {"ILStub/StubCacheHit", 89, 0, 0, il_stub_cache_hit_fields},
    {"Contention/Stop", 91, 0, 1, contention_stop_fields},
    {"Method/DCStartCompleteV2", 135, 0, 0, ea_no_fields},
    {"Method/DCEndCompleteV2", 136, 0, 0, ea_no_fields},
    {"Method/DCStartV2", 137, 0, 0, method_load_unload_fields},
    {"Method/DCStopV2", 138, 0, 0, method_load_unload_fields},
    {"Method/DCStartVerboseV2", 139, 0, 0, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/DCStopVerboseV2", 140, 0, 0, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/Load", 141, 0, 2, method_load_unload_fields},
    {"Method/Unload", 142, 0, 2, method_load_unload_fields},
    {"Method/LoadVerbose", 143, 0, 2, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/UnloadVerbose", 144, 0, 2, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/JittingStarted", 145, 0, 1, method_jitting_started_fields},
    {"Loader/ModuleDCStartV2", 149, 0, 0, ea_dotnet_module_load_unload_fields},
    {"Loader/ModuleDCStopV2", 150, 0, 0, ea_dotnet_module_load_unload_fields},
    {"Loader/DomainModuleLoad", 151, 0, 1, ea_dotnet_domain_module_load_unload_fields},
    {"Loader/ModuleLoad", 152, 0, 3, ea_dotnet_module_load_unload_fields},
    {"Loader/ModuleUnload", 153, 0, 2, ea_dotnet_module_load_unload_fields},
    {"Loader/AssemblyLoad", 154, 0, 0, ea_dotnet_assembly_load_unload_0_fields},
    {"Loader/AssemblyLoad", 154, 1, 1, ea_dotnet_assembly_load_unload_fields},
    {"Loader/AssemblyUnload", 155, 0, 0, ea_dotnet_assembly_load_unload_0_fields},
    {"Loader/AssemblyUnload", 155, 1, 1, ea_dotnet_assembly_load_unload_fields},
    {"Loader/AppDomainLoad", 156, 0, 1, ea_dotnet_app_domain_load_unload_fields},
    {"Loader/AppDomainUnload", 157, 0, 1, ea_dotnet_app_domain_load_unload_fields},
    {"ClrPerfTrack/ModuleRangeLoad", 158, 0, 0, ea_dotnet_module_range_fields},
    {"StrongNameVerification/Start", 181, 0, 1, strong_name_verification_fields},
    {"StrongNameVerification/Stop", 182, 0, 1, strong_name_verification_fields},
    {"AuthenticodeVerification/Start", 183, 0, 1, authenticode_verification_fields},
    {"AuthenticodeVerification/Stop", 184, 0, 1, authenticode_verification_fields},
    {"Method/InliningSucceeded", 185, 0, 0, method_jit_inlining_succeeded_fields},
    {"Method/InliningFailed", 186, 0, 0, method_jit_inlining_failed_fields},
    {"Runtime/Start", 187, 0, 0, ea_dotnet_runtime_information_fields},
    {"Method/TailCallSucceeded", 188, 0, 0, method_jit_tail_call_succeeded_fields},
    {"Method/TailCallFailed", 189, 0, 0, method_jit_tail_call_failed_fields},
    {"Method/MethodILToNativeMap", 190, 0, 1, ea_dotnet_method_il_to_native_map_fields},
    {"GC/IncreaseMemoryPressure", 200, 0, 0, increase_memory_pressure_fields},
    {"GC/DecreaseMemoryPressure", 201, 0, 0, decrease_memory_pressure_fields},
    {"DebugIPCEvent/Start", 240, 0, 0, ea_no_fields},
    {"DebugIPCEvent/Stop", 241, 0, 0, ea_no_fields},
    {"DebugExceptionProcessing/Start", 242, 0, 0, ea_no_fields},
    {"DebugExceptionProcessing/Stop", 243, 0, 0, ea_no_fields},
};

const ea_family ea_family_dotnet = EA_FAMILY(DOTNET, dotnet_rows, EA_CLR_MANIFEST);
