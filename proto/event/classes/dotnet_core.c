/* .NET: events of Microsoft-Windows-DotNETRuntime that came after the manifest of .NET Framework 4.5: what the
 * collector did, by type and generation; exceptions caught; types loaded; tiered compilation and precompiled code; how
 * assemblies were found; locks and waits; sampled allocations. tests/golden/dotnet-events.tsv has all as facts. See
 * dotnet.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/dotnet.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DOTNET_CORE = {
    EA_PROVIDER_DOTNET_RUNTIME,
    "Microsoft-Windows-DotNETRuntime", 0};

static const ea_map_entry bucket_kind_names[] = {
    {0, "FLItem"},
    {1, "Plug"},
};
static const ea_enum bucket_kind = EA_VALUES("GCBucketKindMap", bucket_kind_names);

/* GCLatencyMode of System.Runtime */
static const ea_map_entry pause_mode_names[] = {
    {0, "Batch"},
    {1, "Interactive"},
    {2, "LowLatency"},
    {3, "SustainedLowLatency"},
    {4, "NoGC"},
};
static const ea_enum pause_mode = EA_VALUES("PauseMode", pause_mode_names);

static const ea_map_entry tiered_settings_names[] = {
    {0x0, "None"},
    {0x1, "QuickJit"},
    {0x2, "QuickJitForLoops"},
    {0x4, "TieredPGO"},
    {0x8, "ReadyToRun"},
};
static const ea_enum tiered_settings = EA_FLAGS("TieredCompilationSettingsFlagsMap", tiered_settings_names);

static const ea_map_entry wait_source_names[] = {
    {0, "Unknown"},
    {1, "MonitorWait"},
};
static const ea_enum wait_source = EA_VALUES("WaitHandleWaitSourceMap", wait_source_names);

static const ea_map_entry path_source_names[] = {
    {0, "ApplicationAssemblies"},
    {1, "Unused"},
    {2, "AppPaths"},
    {3, "PlatformResourceRoots"},
    {4, "SatelliteSubdirectory"},
};
static const ea_enum path_source = EA_VALUES("KnownPathSourceMap", path_source_names);

static const ea_map_entry resolution_stage_names[] = {
    {0, "FindInLoadContext"},
    {1, "AssemblyLoadContextLoad"},
    {2, "ApplicationAssemblies"},
    {3, "DefaultAssemblyLoadContextFallback"},
    {4, "ResolveSatelliteAssembly"},
    {5, "AssemblyLoadContextResolvingEvent"},
    {6, "AppDomainAssemblyResolveEvent"},
};
static const ea_enum resolution_stage = EA_VALUES("ResolutionAttemptedStageMap", resolution_stage_names);

static const ea_map_entry resolution_result_names[] = {
    {0, "Success"},
    {1, "AssemblyNotFound"},
    {2, "MismatchedAssemblyName"},
    {3, "IncompatibleVersion"},
    {4, "Failure"},
    {5, "Exception"},
};
static const ea_enum resolution_result = EA_VALUES("ResolutionAttemptedResultMap", resolution_result_names);

static const ea_field_row clr_instance_fields[] = {
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row gc_dynamic_fields[] = {
    {"Name", EA_UTF16Z},
    {"DataSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"Data", EA_BYTES, .count_field = "DataSize"},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row yield_measurement_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"NsPerYield", EA_F64},
    {"EstablishedNsPerYield", EA_F64},
    {0},
};

static const ea_field_row min_max_threads_fields[] = {
    {"MinWorkerThreads", EA_U16},
    {"MaxWorkerThreads", EA_U16},
    {"MinIOCompletionThreads", EA_U16},
    {"MaxIOCompletionThreads", EA_U16},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row lock_created_fields[] = {
    {"LockID", EA_POINTER},
    {"AssociatedObjectID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row tail_call_failed_fields[] = {
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
    {"FailReason", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row inlining_failed_fields[] = {
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
    {"FailReason", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row event_source_fields[] = {
    {"EventID", EA_I32},
    {"EventName", EA_UTF16Z},
    {"EventSourceName", EA_UTF16Z},
    {"Payload", EA_UTF16Z},
    {0},
};

static const ea_field_row profiler_message_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Message", EA_UTF16Z},
    {0},
};

const ea_field_row ea_dotnet_execution_checkpoint_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Name", EA_UTF16Z},
    {"Timestamp", EA_I64},
    {0},
};

static const ea_field_row wait_handle_start_fields[] = {
    {"WaitSource", EA_U8, .map = &wait_source},
    {"AssociatedObjectID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row allocation_sampled_fields[] = {
    {"AllocationKind", EA_U32, .map = &ea_dotnet_gc_allocation_kind},
    {"ClrInstanceID", EA_U16},
    {"TypeID", EA_POINTER},
    {"TypeName", EA_UTF16Z},
    {"Address", EA_POINTER},
    {"ObjectSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"SampledByteOffset", EA_U64, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row method_details_fields[] = {
    {"MethodID", EA_HEX64},
    {"TypeID", EA_HEX64},
    {"MethodToken", EA_HEX32},
    {"TypeParameterCount", EA_U32},
    {"LoaderModuleID", EA_HEX64},
    {"TypeParameters", EA_HEX64, .count_field = "TypeParameterCount"},
    {0},
};

static const ea_field_row type_load_start_fields[] = {
    {"TypeLoadStartID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row type_load_stop_fields[] = {
    {"TypeLoadStartID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"LoadLevel", EA_U16},
    {"TypeID", EA_HEX64},
    {"TypeName", EA_UTF16Z},
    {0},
};

static const ea_field_row jit_memory_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"JitHotCodeRequestSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"JitRODataRequestSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"AllocatedSizeForJitCode", EA_U64, EA_SEM_BYTE_COUNT},
    {"JitAllocFlag", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row r2r_entry_point_fields[] = {
    {"MethodID", EA_HEX64},
    {"MethodNamespace", EA_UTF16Z},
    {"MethodName", EA_UTF16Z},
    {"MethodSignature", EA_UTF16Z},
    {"EntryPoint", EA_HEX64, EA_SEM_ADDRESS},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row r2r_entry_point_start_fields[] = {
    {"MethodID", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row mark_with_type_fields[] = {
    {"HeapNum", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"Type", EA_U32, .map = &ea_dotnet_gc_root_kind},
    {"Bytes", EA_U64, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row join_fields[] = {
    {"Heap", EA_U32},
    {"JoinTime", EA_U32},
    {"JoinType", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"JoinID", EA_U32},
    {0},
};

static const ea_field_row per_heap_history_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"FreeListAllocated", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeListRejected", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"EndOfSegAllocated", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"CondemnedAllocated", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PinnedAllocated", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PinnedAllocatedAdvance", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"RunningFreeListEfficiency", EA_U32},
    {"CondemnReasons0", EA_U32},
    {"CondemnReasons1", EA_U32},
    {"CompactMechanisms", EA_HEX32},
    {"ExpandMechanisms", EA_HEX32},
    {"HeapIndex", EA_U32},
    {"ExtraGen0Commit", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Count", EA_U32},
    {"Values", EA_STRUCT, .child_count = 10, .count_field = "Count"},
    {"SizeBefore", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeListBefore", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeObjBefore", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"SizeAfter", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeListAfter", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"FreeObjAfter", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"In", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"PinnedSurv", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"NonePinnedSurv", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"NewAllocation", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row global_heap_fields[] = {
    {"FinalYoungestDesired", EA_U64, EA_SEM_BYTE_COUNT},
    {"NumHeaps", EA_I32},
    {"CondemnedGeneration", EA_U32},
    {"Gen0ReductionCount", EA_U32},
    {"Reason", EA_U32, .map = &ea_dotnet_gc_reason},
    {"GlobalMechanisms", EA_HEX32, .map = &ea_dotnet_gc_global_mechanisms},
    {"ClrInstanceID", EA_U16},
    {"PauseMode", EA_U32, .map = &pause_mode},
    {"MemoryPressure", EA_U32},
    {"CondemnReasons0", EA_U32, .since = 3},
    {"CondemnReasons1", EA_U32, .since = 3},
    {"Count", EA_U32, .since = 4},
    {"Values", EA_STRUCT, .since = 4, .child_count = 1, .count_field = "Count"},
    {"Time", EA_U32, .since = 4},
    {0},
};

static const ea_field_row gen_aware_fields[] = {
    {"Count", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

/* The manifest knows nothing of a compiler's padding inside the elements of the next two; clr-gc-events has it. */
static const ea_field_row loh_compact_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Count", EA_U16},
    {"Values", EA_STRUCT, .child_count = 6, .count_field = "Count"},
    {"TimePlan", EA_U32},
    {"TimeCompact", EA_U32},
    {"TimeRelocate", EA_U32},
    {"Padding", EA_U32, .only = 8},
    {"TotalRefs", EA_SIZE},
    {"ZeroRefs", EA_SIZE},
    {0},
};

static const ea_field_row fit_bucket_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"BucketKind", EA_U16, .map = &bucket_kind},
    {"TotalSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"Count", EA_U16},
    {"Values", EA_STRUCT, .child_count = 4, .count_field = "Count"},
    {"Index", EA_U16},
    {"Padding", EA_U16},
    {"Count", EA_U32},
    {"Size", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row exception_handling_fields[] = {
    {"EntryEIP", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodID", EA_HEX64},
    {"MethodName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row code_symbols_fields[] = {
    {"ModuleId", EA_HEX64},
    {"TotalChunks", EA_U16},
    {"ChunkNumber", EA_U16},
    {"ChunkLength", EA_U32, EA_SEM_BYTE_COUNT},
    {"Chunk", EA_BYTES, .count_field = "ChunkLength"},
    {"ClrInstanceID", EA_U16},
    {0},
};

const ea_field_row ea_dotnet_tiered_settings_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Flags", EA_HEX32, .map = &tiered_settings},
    {0},
};

static const ea_field_row tiered_resume_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"NewMethodCount", EA_U32},
    {0},
};

static const ea_field_row background_jit_start_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"PendingMethodCount", EA_U32},
    {0},
};

static const ea_field_row background_jit_stop_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"PendingMethodCount", EA_U32},
    {"JittedMethodCount", EA_U32},
    {0},
};

static const ea_field_row assembly_load_start_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"AssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {"RequestingAssembly", EA_UTF16Z},
    {"AssemblyLoadContext", EA_UTF16Z},
    {"RequestingAssemblyLoadContext", EA_UTF16Z},
    {0},
};

static const ea_field_row assembly_load_stop_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"AssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {"RequestingAssembly", EA_UTF16Z},
    {"AssemblyLoadContext", EA_UTF16Z},
    {"RequestingAssemblyLoadContext", EA_UTF16Z},
    {"Success", EA_BOOL32},
    {"ResultAssemblyName", EA_UTF16Z},
    {"ResultAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {"Cached", EA_BOOL32},
    {0},
};

static const ea_field_row resolution_attempted_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"Stage", EA_U16, .map = &resolution_stage},
    {"AssemblyLoadContext", EA_UTF16Z},
    {"Result", EA_U16, .map = &resolution_result},
    {"ResultAssemblyName", EA_UTF16Z},
    {"ResultAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {"ErrorMessage", EA_UTF16Z},
    {0},
};

static const ea_field_row context_resolving_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"HandlerName", EA_UTF16Z},
    {"AssemblyLoadContext", EA_UTF16Z},
    {"ResultAssemblyName", EA_UTF16Z},
    {"ResultAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row domain_resolve_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"HandlerName", EA_UTF16Z},
    {"ResultAssemblyName", EA_UTF16Z},
    {"ResultAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row load_from_resolve_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"AssemblyName", EA_UTF16Z},
    {"IsTrackedLoad", EA_BOOL32},
    {"RequestingAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {"ComputedRequestedAssemblyPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row path_probed_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"FilePath", EA_UTF16Z, EA_SEM_PATH},
    {"Source", EA_U16, .map = &path_source},
    {"Result", EA_HEX32, EA_SEM_HRESULT},
    {0},
};

static const ea_field_row jit_instrumentation_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"MethodFlags", EA_U32},
    {"DataSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodID", EA_HEX64},
    {"Data", EA_BYTES, .count_field = "DataSize"},
    {0},
};

static const ea_field_row jit_instrumentation_verbose_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"MethodFlags", EA_U32},
    {"DataSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodToken", EA_HEX32},
    {"MethodNamespace", EA_UTF16Z},
    {"MethodName", EA_UTF16Z},
    {"MethodSignature", EA_UTF16Z},
    {"Data", EA_BYTES, .count_field = "DataSize"},
    {0},
};

static const ea_class_row dotnet_core_rows[] = {
    {"GC/GCDynamicEvent", 39, 0, 0, gc_dynamic_fields},
    {"YieldProcessorMeasurement/Info", 58, 0, 0, yield_measurement_fields},
    {"ThreadPoolMinMaxThreads/Info", 59, 0, 0, min_max_threads_fields},
    {"Method/MethodDetails", 72, 0, 0, method_details_fields},
    {"TypeLoad/Start", 73, 0, 0, type_load_start_fields},
    {"TypeLoad/Stop", 74, 0, 0, type_load_stop_fields},
    {"Contention/LockCreated", 90, 0, 0, lock_created_fields},
    {"Method/MemoryAllocatedForJitCode", 146, 0, 0, jit_memory_fields},
    {"Method/R2RGetEntryPoint", 159, 0, 0, r2r_entry_point_fields},
    {"Method/R2RGetEntryPointStart", 160, 0, 0, r2r_entry_point_start_fields},
    {"Method/TailCallFailed191", 191, 0, 0, tail_call_failed_fields},
    {"Method/InliningFailed192", 192, 0, 0, inlining_failed_fields},
    {"GC/MarkWithType", 202, 0, 0, mark_with_type_fields},
    {"GC/Join", 203, 2, 2, join_fields},
    {"GC/PerHeapHistory", 204, 3, 3, per_heap_history_fields},
    {"GC/GlobalHeapHistory", 205, 2, 4, global_heap_fields},
    {"GC/GenAwareBegin", 206, 0, 0, gen_aware_fields},
    {"GC/GenAwareEnd", 207, 0, 0, gen_aware_fields},
    {"GC/LOHCompact", 208, 0, 0, loh_compact_fields},
    {"GC/FitBucketInfo", 209, 0, 0, fit_bucket_fields},
    {"ExceptionCatch/Start", 250, 0, 0, exception_handling_fields},
    {"ExceptionCatch/Stop", 251, 0, 0, ea_no_fields},
    {"ExceptionFinally/Start", 252, 0, 0, exception_handling_fields},
    {"ExceptionFinally/Stop", 253, 0, 0, ea_no_fields},
    {"ExceptionFilter/Start", 254, 0, 0, exception_handling_fields},
    {"ExceptionFilter/Stop", 255, 0, 0, ea_no_fields},
    {"Exception/Stop", 256, 0, 0, ea_no_fields},
    {"CodeSymbols/Start", 260, 0, 0, code_symbols_fields},
    {"EventSource/Info", 270, 0, 0, event_source_fields},
    {"TieredCompilation/Settings", 280, 0, 0, ea_dotnet_tiered_settings_fields},
    {"TieredCompilation/Pause", 281, 0, 0, clr_instance_fields},
    {"TieredCompilation/Resume", 282, 0, 0, tiered_resume_fields},
    {"TieredCompilation/BackgroundJitStart", 283, 0, 0, background_jit_start_fields},
    {"TieredCompilation/BackgroundJitStop", 284, 0, 0, background_jit_stop_fields},
    {"AssemblyLoader/Start", 290, 0, 0, assembly_load_start_fields},
    {"AssemblyLoader/Stop", 291, 0, 0, assembly_load_stop_fields},
    {"AssemblyLoader/ResolutionAttempted", 292, 0, 0, resolution_attempted_fields},
    {"AssemblyLoader/AssemblyLoadContextResolvingHandlerInvoked", 293, 0, 0, context_resolving_fields},
    {"AssemblyLoader/AppDomainAssemblyResolveHandlerInvoked", 294, 0, 0, domain_resolve_fields},
    {"AssemblyLoader/AssemblyLoadFromResolveHandlerInvoked", 295, 0, 0, load_from_resolve_fields},
    {"AssemblyLoader/KnownPathProbed", 296, 0, 0, path_probed_fields},
    {"JitInstrumentationData/InstrumentationData", 297, 0, 0, jit_instrumentation_fields},
    {"JitInstrumentationData/InstrumentationDataVerbose", 298, 0, 0, jit_instrumentation_verbose_fields},
    {"Profiler/ProfilerMessage", 299, 0, 0, profiler_message_fields},
    {"ExecutionCheckpoint/ExecutionCheckpoint", 300, 0, 0, ea_dotnet_execution_checkpoint_fields},
    {"WaitHandleWait/Start", 301, 0, 0, wait_handle_start_fields},
    {"WaitHandleWait/Stop", 302, 0, 0, clr_instance_fields},
    {"AllocationSampling/AllocationSampled", 303, 0, 0, allocation_sampled_fields},
};

const ea_family ea_family_dotnet_core =
    EA_FAMILY(DOTNET_CORE, dotnet_core_rows,
              "dotnet/runtime src/coreclr/vm/ClrEtwAll.man; paddings and versions newer than it: traces/clr-gc-events");
