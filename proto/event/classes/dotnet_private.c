/* .NET: the runtime's private provider: start-up, binding, what the collector decided. See dotnet.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/dotnet.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DOTNET_PRIVATE = {
    EA_PROVIDER_DOTNET_PRIVATE,
    "Microsoft-Windows-DotNETRuntimePrivate", 0};

static const ea_field_row private_gc_decision_fields[] = {
    {"DoCompact", EA_BOOL32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_gc_settings_fields[] = {
    {"SegmentSize", EA_U64},
    {"LargeObjectSegmentSize", EA_U64},
    {"ServerGC", EA_BOOL32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_gc_optimized_fields[] = {
    {"DesiredAllocation", EA_HEX64},
    {"NewAllocation", EA_HEX64},
    {"GenerationNumber", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_gc_per_heap_history_fields[] = {
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_gc_global_heap_fields[] = {
    {"FinalYoungestDesired", EA_HEX64},
    {"NumHeaps", EA_I32},
    {"CondemnedGeneration", EA_U32},
    {"Gen0ReductionCount", EA_U32},
    {"Reason", EA_U32, .map = &ea_dotnet_gc_reason},
    {"GlobalMechanisms", EA_HEX32, .map = &ea_dotnet_gc_global_mechanisms},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_gc_join_fields[] = {
    {"Heap", EA_U32},
    {"JoinTime", EA_U32},
    {"JoinType", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_prv_gc_mark_fields[] = {
    {"HeapNum", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_bgc_drain_mark_fields[] = {
    {"Objects", EA_U64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_bgc_revisit_fields[] = {
    {"Pages", EA_U64},
    {"Objects", EA_U64},
    {"IsLarge", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_bgc_overflow_fields[] = {
    {"Min", EA_U64},
    {"Max", EA_U64},
    {"Objects", EA_U64},
    {"IsLarge", EA_U32},
    {"ClrInstanceID", EA_U16},
    {"GenNumber", EA_U32, .since = 1},
    {0},
};

static const ea_field_row private_bgc_1st_sweep_fields[] = {
    {"GenNumber", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_bgc_alloc_wait_fields[] = {
    {"Reason", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_gc_full_notify_fields[] = {
    {"GenNumber", EA_U32},
    {"IsAlloc", EA_U32},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_startup_fields[] = {
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row private_module_range_private_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_HEX64},
    {"RangeBegin", EA_HEX32},
    {"RangeSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"RangeType", EA_HEX8, .map = &ea_dotnet_module_range_type2},
    {"IBCType", EA_HEX8, .map = &ea_dotnet_module_range_ibc_type},
    {"SectionType", EA_U16, .map = &ea_dotnet_module_range_section_type},
    {0},
};

static const ea_field_row private_binding_fields[] = {
    {"AppDomainID", EA_U32},
    {"LoadContextID", EA_U32},
    {"FromLoaderCache", EA_U32},
    {"DynamicLoad", EA_U32},
    {"AssemblyCodebase", EA_UTF16Z},
    {"AssemblyName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_evidence_generated_fields[] = {
    {"Type", EA_U32},
    {"AppDomain", EA_U32},
    {"ILImage", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_module_transparency_calculation_fields[] = {
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_module_transparency_calculation_result_fields[] = {
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"IsAllCritical", EA_BOOL32},
    {"IsAllTransparent", EA_BOOL32},
    {"IsTreatAsSafe", EA_BOOL32},
    {"IsOpportunisticallyCritical", EA_BOOL32},
    {"SecurityRuleSet", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_type_transparency_calculation_fields[] = {
    {"Type", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_type_transparency_calculation_result_fields[] = {
    {"Type", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"IsAllCritical", EA_BOOL32},
    {"IsAllTransparent", EA_BOOL32},
    {"IsCritical", EA_BOOL32},
    {"IsTreatAsSafe", EA_BOOL32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_method_transparency_calculation_fields[] = {
    {"Method", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_method_transparency_calculation_result_fields[] = {
    {"Method", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"IsCritical", EA_BOOL32},
    {"IsTreatAsSafe", EA_BOOL32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_field_transparency_calculation_fields[] = {
    {"Field", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_field_transparency_calculation_result_fields[] = {
    {"Field", EA_UTF16Z},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"IsCritical", EA_BOOL32},
    {"IsTreatAsSafe", EA_BOOL32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_token_transparency_calculation_fields[] = {
    {"Token", EA_U32},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_token_transparency_calculation_result_fields[] = {
    {"Token", EA_U32},
    {"Module", EA_UTF16Z},
    {"AppDomainID", EA_U32},
    {"IsCritical", EA_BOOL32},
    {"IsTreatAsSafe", EA_BOOL32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_ngen_bind_event_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"BindingID", EA_U64},
    {"ReasonCode", EA_U32},
    {"AssemblyName", EA_UTF16Z},
    {0},
};

static const ea_field_row private_rich_debug_info_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"MethodID", EA_HEX64},
    {"ReJITID", EA_HEX64},
    {"ILVersionID", EA_U64},
    {"ChunkIndex", EA_U32},
    {"DataSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"Data", EA_BYTES, .count_field = "DataSize"},
    {0},
};

static const ea_field_row private_fail_fast_fields[] = {
    {"FailFastUserMessage", EA_UTF16Z},
    {"FailedEIP", EA_POINTER},
    {"OSExitCode", EA_U32},
    {"ClrExitCode", EA_U32},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_prv_finalize_object_fields[] = {
    {"TypeID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {"TypeName", EA_UTF16Z},
    {0},
};

static const ea_field_row private_ccw_ref_count_change_fields[] = {
    {"HandleID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"COMInterfacePointer", EA_POINTER},
    {"NewRefCount", EA_U32},
    {"AppDomainID", EA_HEX64},
    {"ClassName", EA_ANSIZ},
    {"NameSpace", EA_ANSIZ},
    {"Operation", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_ccw_ref_count_change_utf16_fields[] = {
    {"HandleID", EA_POINTER},
    {"ObjectID", EA_POINTER},
    {"COMInterfacePointer", EA_POINTER},
    {"NewRefCount", EA_U32},
    {"AppDomainID", EA_HEX64},
    {"ClassName", EA_UTF16Z},
    {"NameSpace", EA_UTF16Z},
    {"Operation", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_fusion_message_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Prepend", EA_BOOL32},
    {"Message", EA_UTF16Z},
    {0},
};

static const ea_field_row private_fusion_error_code_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Category", EA_U32},
    {"ErrorCode", EA_U32},
    {0},
};

static const ea_field_row private_pin_plug_at_gc_time_fields[] = {
    {"PlugStart", EA_POINTER},
    {"PlugEnd", EA_POINTER},
    {"GapBeforeSize", EA_POINTER},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_multicore_jit_private_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"String1", EA_UTF16Z},
    {"String2", EA_UTF16Z},
    {"Int1", EA_I32},
    {"Int2", EA_I32},
    {"Int3", EA_I32},
    {0},
};

static const ea_field_row private_multicore_jit_method_code_returned_private_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_U64},
    {"MethodID", EA_U64},
    {0},
};

static const ea_field_row private_loader_heap_private_fields[] = {
    {"LoaderHeapPtr", EA_POINTER},
    {"MemoryAddress", EA_POINTER},
    {"RequestSize", EA_U32},
    {"Unused1", EA_U32},
    {"Unused2", EA_HEX64},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_dynamic_type_use_private_fields[] = {
    {"TypeName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_dynamic_type_use_two_parameters_private_fields[] = {
    {"TypeName", EA_UTF16Z},
    {"SecondTypeName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_dynamic_type_use_private_variance_fields[] = {
    {"TypeName", EA_UTF16Z},
    {"InterfaceTypeName", EA_UTF16Z},
    {"VariantInterfaceTypeName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row private_dynamic_type_use_string_and_int_private_fields[] = {
    {"TypeName", EA_UTF16Z},
    {"Int1", EA_I32},
    {"ClrInstanceID", EA_U16},
    {0},
};

/* The manifest has no fields here. A record is the collector's own structure, which no public source lays out, followed
 * by the instance: 264 records of clr-kernel-win8-x64 have 433 bytes each, the last byte of which is the instance. */
static const ea_field_row private_gc_per_heap_history_2_fields[] = {
    {"History", EA_BYTES, .count = 432, .only = 8},
    {"ClrInstanceID", EA_U8, .only = 8},
    {0},
};

static const ea_class_row dotnet_private_rows[] = {
    {"GC/Decision", 1, 0, 1, private_gc_decision_fields},
    {"GC/Settings", 2, 0, 1, private_gc_settings_fields},
    {"GC/Optimized", 3, 0, 1, private_gc_optimized_fields},
    {"GC/PerHeapHistory", 4, 1, 1, private_gc_per_heap_history_fields},
    {"GC/PerHeapHistory", 4, 2, 2, private_gc_per_heap_history_2_fields},
    {"GC/GlobalHeapHistory", 5, 0, 1, private_gc_global_heap_fields},
    {"GC/Join", 6, 0, 1, private_gc_join_fields},
    {"GC/MarkStackRoots", 7, 0, 1, private_prv_gc_mark_fields},
    {"GC/MarkFinalizeQueueRoots", 8, 0, 1, private_prv_gc_mark_fields},
    {"GC/MarkHandles", 9, 0, 1, private_prv_gc_mark_fields},
    {"GC/MarkCards", 10, 0, 1, private_prv_gc_mark_fields},
    {"GC/BGCStart", 11, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC1stNonCondStop", 12, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC1stConStop", 13, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC2ndNonConStart", 14, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC2ndNonConStop", 15, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC2ndConStart", 16, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGC2ndConStop", 17, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGCPlanStop", 18, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGCSweepStop", 19, 0, 0, private_gc_per_heap_history_fields},
    {"GC/BGCDrainMark", 20, 0, 0, private_bgc_drain_mark_fields},
    {"GC/BGCRevisit", 21, 0, 0, private_bgc_revisit_fields},
    {"GC/BGCOverflow", 22, 0, 1, private_bgc_overflow_fields},
    {"GC/BGCAllocWaitStart", 23, 0, 0, private_bgc_alloc_wait_fields},
    {"GC/BGCAllocWaitStop", 24, 0, 0, private_bgc_alloc_wait_fields},
    {"GC/FullNotify", 25, 0, 1, private_gc_full_notify_fields},
    {"GC/BGC1stSweepEnd", 26, 0, 0, private_bgc_1st_sweep_fields},
    {"Startup/EEStartupStart", 80, 0, 1, private_startup_fields},
    {"Startup/EEStartupStop", 81, 0, 1, private_startup_fields},
    {"Startup/EEConfigSetupStart", 82, 0, 1, private_startup_fields},
    {"Startup/EEConfigSetupStop", 83, 0, 1, private_startup_fields},
    {"Startup/LoadSystemBasesStart", 84, 0, 1, private_startup_fields},
    {"Startup/LoadSystemBasesStop", 85, 0, 1, private_startup_fields},
    {"Startup/ExecExeStart", 86, 0, 1, private_startup_fields},
    {"Startup/ExecExeStop", 87, 0, 1, private_startup_fields},
    {"Startup/MainStart", 88, 0, 1, private_startup_fields},
    {"Startup/MainStop", 89, 0, 1, private_startup_fields},
    {"Startup/ApplyPolicyStart", 90, 0, 1, private_startup_fields},
    {"Startup/ApplyPolicyStop", 91, 0, 1, private_startup_fields},
    {"Startup/LdLibShFolderStart", 92, 0, 1, private_startup_fields},
    {"Startup/LdLibShFolderStop", 93, 0, 1, private_startup_fields},
    {"Startup/PrestubWorkerStart", 94, 0, 1, private_startup_fields},
    {"Startup/PrestubWorkerStop", 95, 0, 1, private_startup_fields},
    {"Startup/GetInstallationStart", 96, 0, 1, private_startup_fields},
    {"Startup/GetInstallationStop", 97, 0, 1, private_startup_fields},
    {"Startup/OpenHModuleStart", 98, 0, 1, private_startup_fields},
    {"Startup/OpenHModuleStop", 99, 0, 1, private_startup_fields},
    {"Startup/ExplicitBindStart", 100, 0, 1, private_startup_fields},
    {"Startup/ExplicitBindStop", 101, 0, 1, private_startup_fields},
    {"Startup/ParseXmlStart", 102, 0, 1, private_startup_fields},
    {"Startup/ParseXmlStop", 103, 0, 1, private_startup_fields},
    {"Startup/InitDefaultDomainStart", 104, 0, 1, private_startup_fields},
    {"Startup/InitDefaultDomainStop", 105, 0, 1, private_startup_fields},
    {"Startup/InitSecurityStart", 106, 0, 1, private_startup_fields},
    {"Startup/InitSecurityStop", 107, 0, 1, private_startup_fields},
    {"Startup/AllowBindingRedirsStart", 108, 0, 1, private_startup_fields},
    {"Startup/AllowBindingRedirsStop", 109, 0, 1, private_startup_fields},
    {"Startup/EEConfigSyncStart", 110, 0, 1, private_startup_fields},
    {"Startup/EEConfigSyncStop", 111, 0, 1, private_startup_fields},
    {"Startup/BindingStart", 112, 0, 1, private_startup_fields},
    {"Startup/BindingStop", 113, 0, 1, private_startup_fields},
    {"Startup/LoaderCatchCallStart", 114, 0, 1, private_startup_fields},
    {"Startup/LoaderCatchCallStop", 115, 0, 1, private_startup_fields},
    {"Startup/FusionInitStart", 116, 0, 1, private_startup_fields},
    {"Startup/FusionInitStop", 117, 0, 1, private_startup_fields},
    {"Startup/FusionAppCtxStart", 118, 0, 1, private_startup_fields},
    {"Startup/FusionAppCtxStop", 119, 0, 1, private_startup_fields},
    {"Startup/Fusion2EEStart", 120, 0, 1, private_startup_fields},
    {"Startup/Fusion2EEStop", 121, 0, 1, private_startup_fields},
    {"Startup/SecurityCatchCallStart", 122, 0, 1, private_startup_fields},
    {"Startup/SecurityCatchCallStop", 123, 0, 1, private_startup_fields},
    {"ClrStack/Walk", 151, 0, 0, ea_dotnet_clr_stack_walk_fields},
    {"ClrPerfTrack/ModuleRangeLoad", 158, 0, 0, private_module_range_private_fields},
    {"Binding/PolicyPhaseStart", 159, 0, 0, private_binding_fields},
    {"Binding/PolicyPhaseStop", 160, 0, 0, private_binding_fields},
    {"Binding/NgenPhaseStart", 161, 0, 0, private_binding_fields},
    {"Binding/NgenPhaseStop", 162, 0, 0, private_binding_fields},
    {"Binding/LoopupAndProbingPhaseStart", 163, 0, 0, private_binding_fields},
    {"Binding/LookupAndProbingPhaseStop", 164, 0, 0, private_binding_fields},
    {"Binding/LoaderPhaseStart", 165, 0, 0, private_binding_fields},
    {"Binding/LoaderPhaseStop", 166, 0, 0, private_binding_fields},
    {"Binding/PhaseStart", 167, 0, 0, private_binding_fields},
    {"Binding/PhaseStop", 168, 0, 0, private_binding_fields},
    {"Binding/DownloadPhaseStart", 169, 0, 0, private_binding_fields},
    {"Binding/DownloadPhaseStop", 170, 0, 0, private_binding_fields},
    {"Binding/LoaderAssemblyInitPhaseStart", 171, 0, 0, private_binding_fields},
    {"Binding/LoaderAssemblyInitPhaseStop", 172, 0, 0, private_binding_fields},
    {"Binding/LoaderMappingPhaseStart", 173, 0, 0, private_binding_fields},
    {"Binding/LoaderMappingPhaseStop", 174, 0, 0, private_binding_fields},
    {"Binding/LoaderDeliverEventPhaseStart", 175, 0, 0, private_binding_fields},
    {"Binding/LoaderDeliverEventsPhaseStop", 176, 0, 0, private_binding_fields},
    {"EvidenceGeneration/EvidenceGenerated", 177, 0, 0, private_evidence_generated_fields},
    {"Transparency/ModuleTransparencyComputationStart", 178, 0, 0, private_module_transparency_calculation_fields},
    {"Transparency/ModuleTransparencyComputationStop", 179, 0, 0, private_module_transparency_calculation_result_fields},
    {"Transparency/TypeTransparencyComputationStart", 180, 0, 0, private_type_transparency_calculation_fields},
    {"Transparency/TypeTransparencyComputationStop", 181, 0, 0, private_type_transparency_calculation_result_fields},
    {"Transparency/MethodTransparencyComputationStart", 182, 0, 0, private_method_transparency_calculation_fields},
    {"Transparency/MethodTransparencyComputationStop", 183, 0, 0, private_method_transparency_calculation_result_fields},
    {"Transparency/FieldTransparencyComputationStart", 184, 0, 0, private_field_transparency_calculation_fields},
    {"Transparency/FieldTransparencyComputationStop", 185, 0, 0, private_field_transparency_calculation_result_fields},
    {"Transparency/TokenTransparencyComputationStart", 186, 0, 0, private_token_transparency_calculation_fields},
    {"Transparency/TokenTransparencyComputationStop", 187, 0, 0, private_token_transparency_calculation_result_fields},
    {"NgenBinder/NgenBind", 188, 0, 0, private_ngen_bind_event_fields},
    {"CLRMethodPrivate/JittedMethodRichDebugInfo", 189, 0, 0, private_rich_debug_info_fields},
    {"FailFast/FailFast", 191, 0, 0, private_fail_fast_fields},
    {"GC/FinalizeObject", 192, 0, 0, private_prv_finalize_object_fields},
    {"GC/CCWRefCountChange", 193, 0, 0, private_ccw_ref_count_change_fields},
    {"GC/SetGCHandle", 194, 0, 0, ea_dotnet_set_gc_handle_fields},
    {"GC/DestoryGCHandle", 195, 0, 0, ea_dotnet_destroy_gc_handle_fields},
    {"Binding/FusionMessage", 196, 0, 0, private_fusion_message_fields},
    {"Binding/FusionErrorCode", 197, 0, 0, private_fusion_error_code_fields},
    {"GC/PinPlugAtGCTime", 199, 0, 0, private_pin_plug_at_gc_time_fields},
    {"GC/CCWRefCountChange200", 200, 0, 0, private_ccw_ref_count_change_utf16_fields},
    {"ClrMulticoreJit/Common", 201, 0, 0, private_multicore_jit_private_fields},
    {"ClrMulticoreJit/MethodCodeReturned", 202, 0, 0, private_multicore_jit_method_code_returned_private_fields},
    {"LoaderHeap/LoaderHeapAllocRequest", 310, 0, 0, private_loader_heap_private_fields},
    {"ClrDynamicTypeUsage/IInspectableRuntimeClassName", 400, 0, 0, private_dynamic_type_use_private_fields},
    {"ClrDynamicTypeUsage/WinRTUnbox", 401, 0, 0, private_dynamic_type_use_two_parameters_private_fields},
    {"ClrDynamicTypeUsage/CreateRCW", 402, 0, 0, private_dynamic_type_use_private_fields},
    {"ClrDynamicTypeUsage/RCWVariance", 403, 0, 0, private_dynamic_type_use_private_variance_fields},
    {"ClrDynamicTypeUsage/RCWIEnumerableCasting", 404, 0, 0, private_dynamic_type_use_two_parameters_private_fields},
    {"ClrDynamicTypeUsage/CreateCCW", 405, 0, 0, private_dynamic_type_use_private_fields},
    {"ClrDynamicTypeUsage/CCWVariance", 406, 0, 0, private_dynamic_type_use_private_variance_fields},
    {"ClrDynamicTypeUsage/ObjectVariantMarshallingToNative", 407, 0, 0, private_dynamic_type_use_string_and_int_private_fields},
    {"ClrDynamicTypeUsage/GetTypeFromGUID", 408, 0, 0, private_dynamic_type_use_two_parameters_private_fields},
    {"ClrDynamicTypeUsage/GetTypeFromProgID", 409, 0, 0, private_dynamic_type_use_two_parameters_private_fields},
    {"ClrDynamicTypeUsage/ConvertToCallbackEtw", 410, 0, 0, private_dynamic_type_use_two_parameters_private_fields},
    {"ClrDynamicTypeUsage/BeginCreateManagedReference", 411, 0, 0, private_gc_per_heap_history_fields},
    {"ClrDynamicTypeUsage/EndCreateManagedReference", 412, 0, 0, private_gc_per_heap_history_fields},
    {"ClrDynamicTypeUsage/ObjectVariantMarshallingToManaged", 413, 0, 0, private_dynamic_type_use_string_and_int_private_fields},
};

const ea_family ea_family_dotnet_private = EA_FAMILY(DOTNET_PRIVATE, dotnet_private_rows, EA_CLR_MANIFEST_CORE);
