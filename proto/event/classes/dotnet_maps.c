/* .NET: names of numbers. See dotnet.h. */
#include "proto/event/classes/dotnet.h"

/* one line a name */
// clang-format off

static const ea_map_entry runtime_sku_names[] = {
    {0x1, "DesktopClr"},
    {0x2, "CoreClr"},
    {0x4, "Mono"},
};
const ea_enum ea_dotnet_runtime_sku = EA_FLAGS("RuntimeSkuMap", runtime_sku_names);

static const ea_map_entry startup_flags_names[] = {
    {0x1, "CONCURRENT_GC"},
    {0x2, "LOADER_OPTIMIZATION_SINGLE_DOMAIN"},
    {0x4, "LOADER_OPTIMIZATION_MULTI_DOMAIN"},
    {0x10, "LOADER_SAFEMODE"},
    {0x100, "LOADER_SETPREFERENCE"},
    {0x1000, "SERVER_GC"},
    {0x2000, "HOARD_GC_VM"},
    {0x4000, "SINGLE_VERSION_HOSTING_INTERFACE"},
    {0x10000, "LEGACY_IMPERSONATION"},
    {0x20000, "DISABLE_COMMITTHREADSTACK"},
    {0x40000, "ALWAYSFLOW_IMPERSONATION"},
    {0x80000, "TRIM_GC_COMMIT"},
    {0x100000, "ETW"},
    {0x200000, "SERVER_BUILD"},
    {0x400000, "ARM"},
};
const ea_enum ea_dotnet_startup_flags = EA_FLAGS("StartupFlagsMap", startup_flags_names);

static const ea_map_entry startup_mode_names[] = {
    {0x1, "ManagedExe"},
    {0x2, "HostedClr"},
    {0x4, "IjwDll"},
    {0x8, "ComActivated"},
    {0x10, "Other"},
};
const ea_enum ea_dotnet_startup_mode = EA_FLAGS("StartupModeMap", startup_mode_names);

static const ea_map_entry module_flags_names[] = {
    {0x1, "DomainNeutral"},
    {0x2, "Native"},
    {0x4, "Dynamic"},
    {0x8, "Manifest"},
    {0x10, "IbcOptimized"},
    {0x20, "ReadyToRunModule"},
    {0x40, "PartialReadyToRunModule"},
};
const ea_enum ea_dotnet_module_flags = EA_FLAGS("ModuleFlagsMap", module_flags_names);

static const ea_map_entry tail_call_type_names[] = {
    {0, "OptimizedTailCall"},
    {1, "RecursiveLoop"},
    {2, "HelperAssistedTailCall"},
};
const ea_enum ea_dotnet_tail_call_type = EA_VALUES("TailCallTypeMap", tail_call_type_names);

static const ea_map_entry type_flags_names[] = {
    {0x1, "Delegate"},
    {0x2, "Finalizable"},
    {0x4, "ExternallyImplementedCOMObject"},
    {0x8, "Array"},
    {0x10, "ModuleBaseAddress"},
    {0x100, "ArrayRankBit0"},
    {0x200, "ArrayRankBit1"},
    {0x400, "ArrayRankBit2"},
    {0x800, "ArrayRankBit3"},
    {0x1000, "ArrayRankBit4"},
    {0x2000, "ArrayRankBit5"},
};
const ea_enum ea_dotnet_type_flags = EA_FLAGS("TypeFlagsMap", type_flags_names);

static const ea_map_entry il_stub_generated_flags_names[] = {
    {0x1, "ReverseInterop"},
    {0x2, "ComInterop"},
    {0x4, "NGenedStub"},
    {0x8, "Delegate"},
    {0x10, "VarArg"},
    {0x20, "UnmanagedCallee"},
    {0x40, "StructMarshal"},
};
const ea_enum ea_dotnet_il_stub_generated_flags = EA_FLAGS("ILStubGeneratedFlagsMap", il_stub_generated_flags_names);

static const ea_map_entry method_flags_names[] = {
    {0x1, "Dynamic"},
    {0x2, "Generic"},
    {0x4, "HasSharedGenericCode"},
    {0x8, "Jitted"},
    {0x10, "JitHelper"},
    {0x20, "ProfilerRejectedPrecompiledCode"},
    {0x40, "ReadyToRunRejectedPrecompiledCode"},
};
const ea_enum ea_dotnet_method_flags = EA_FLAGS("MethodFlagsMap", method_flags_names);

static const ea_map_entry gc_root_ccw_flags_names[] = {
    {0x1, "Strong"},
    {0x2, "Pegged"},
};
const ea_enum ea_dotnet_gc_root_ccw_flags = EA_FLAGS("GCRootCCWFlagsMap", gc_root_ccw_flags_names);

static const ea_map_entry gc_root_static_var_flags_names[] = {
    {0x1, "ThreadLocal"},
};
const ea_enum ea_dotnet_gc_root_static_var_flags = EA_FLAGS("GCRootStaticVarFlagsMap", gc_root_static_var_flags_names);

static const ea_map_entry gc_allocation_kind_names[] = {
    {0, "Small"},
    {1, "Large"},
    {2, "Pinned"},
};
const ea_enum ea_dotnet_gc_allocation_kind = EA_VALUES("GCAllocationKindMap", gc_allocation_kind_names);

static const ea_map_entry gc_root_kind_names[] = {
    {0, "Stack"},
    {1, "Finalizer"},
    {2, "Handle"},
    {3, "Older"}, /* "Other" in .NET Framework's manifest */
    {4, "SizedRef"},
    {5, "Overflow"},
    {6, "DependentHandle"},
    {7, "NewFQ"},
    {8, "Steal"},
    {9, "BGC"},
};
const ea_enum ea_dotnet_gc_root_kind = EA_VALUES("GCRootKindMap", gc_root_kind_names);

static const ea_map_entry gc_root_flags_names[] = {
    {0x1, "Pinning"},
    {0x2, "WeakRef"},
    {0x4, "Interior"},
    {0x8, "RefCounted"},
};
const ea_enum ea_dotnet_gc_root_flags = EA_FLAGS("GCRootFlagsMap", gc_root_flags_names);

static const ea_map_entry gc_reason_names[] = {
    {0, "AllocSmall"},
    {1, "Induced"},
    {2, "LowMemory"},
    {3, "Empty"},
    {4, "AllocLarge"},
    {5, "OutOfSpaceSmallObjectHeap"},
    {6, "OutOfSpaceLargeObjectHeap"},
    {7, "InducedNoForce"},
    {8, "Stress"},
    {9, "InducedLowMemory"},
};
const ea_enum ea_dotnet_gc_reason = EA_VALUES("GCReasonMap", gc_reason_names);

static const ea_map_entry gc_type_names[] = {
    {0, "NonConcurrentGC"},
    {1, "BackgroundGC"},
    {2, "ForegroundGC"},
};
const ea_enum ea_dotnet_gc_type = EA_VALUES("GCTypeMap", gc_type_names);

static const ea_map_entry gc_handle_kind_names[] = {
    {0, "WeakShort"},
    {1, "WeakLong"},
    {2, "Strong"},
    {3, "Pinned"},
    {4, "Variable"},
    {5, "RefCounted"},
    {6, "Dependent"},
    {7, "AsyncPinned"},
    {8, "SizedRef"},
};
const ea_enum ea_dotnet_gc_handle_kind = EA_VALUES("GCHandleKindMap", gc_handle_kind_names);

static const ea_map_entry exception_thrown_flags_names[] = {
    {0x1, "HasInnerException"},
    {0x2, "Nested"},
    {0x4, "ReThrown"},
    {0x8, "CorruptedState"},
    {0x10, "CLSCompliant"},
};
const ea_enum ea_dotnet_exception_thrown_flags = EA_FLAGS("ExceptionThrownFlagsMap", exception_thrown_flags_names);

static const ea_map_entry thread_flags_names[] = {
    {0x1, "GCSpecial"},
    {0x2, "Finalizer"},
    {0x4, "ThreadPoolWorker"},
};
const ea_enum ea_dotnet_thread_flags = EA_FLAGS("ThreadFlagsMap", thread_flags_names);

static const ea_map_entry assembly_flags_names[] = {
    {0x1, "DomainNeutral"},
    {0x2, "Dynamic"},
    {0x4, "Native"},
    {0x8, "Collectible"},
};
const ea_enum ea_dotnet_assembly_flags = EA_FLAGS("AssemblyFlagsMap", assembly_flags_names);

static const ea_map_entry app_domain_flags_names[] = {
    {0x1, "Default"},
    {0x2, "Executable"},
    {0x4, "Shared"},
};
const ea_enum ea_dotnet_app_domain_flags = EA_FLAGS("AppDomainFlagsMap", app_domain_flags_names);

static const ea_map_entry module_range_type_names[] = {
    {0x4, "ColdRange"},
};
const ea_enum ea_dotnet_module_range_type = EA_FLAGS("ModuleRangeTypeMap", module_range_type_names);

static const ea_map_entry gc_segment_type_names[] = {
    {0, "SmallObjectHeap"},
    {1, "LargeObjectHeap"},
    {2, "ReadOnlyHeap"},
    {3, "PinnedHeap"},
};
const ea_enum ea_dotnet_gc_segment_type = EA_VALUES("GCSegmentTypeMap", gc_segment_type_names);

static const ea_map_entry thread_adjustment_reason_names[] = {
    {0, "Warmup"},
    {1, "Initializing"},
    {2, "RandomMove"},
    {3, "ClimbingMove"},
    {4, "ChangePoint"},
    {5, "Stabilizing"},
    {6, "Starvation"},
    {7, "ThreadTimedOut"},
};
const ea_enum ea_dotnet_thread_adjustment_reason = EA_VALUES("ThreadAdjustmentReasonMap", thread_adjustment_reason_names);

static const ea_map_entry gc_suspend_ee_reason_names[] = {
    {0, "SuspendOther"},
    {1, "SuspendForGC"},
    {2, "SuspendForAppDomainShutdown"},
    {3, "SuspendForCodePitching"},
    {4, "SuspendForShutdown"},
    {5, "SuspendForDebugger"},
    {6, "SuspendForGCPrep"},
    {7, "SuspendForDebuggerSweep"},
};
const ea_enum ea_dotnet_gc_suspend_ee_reason = EA_VALUES("GCSuspendEEReasonMap", gc_suspend_ee_reason_names);

static const ea_map_entry contention_flags_names[] = {
    {0, "Managed"},
    {1, "Native"},
};
const ea_enum ea_dotnet_contention_flags = EA_VALUES("ContentionFlagsMap", contention_flags_names);

static const ea_map_entry module_range_type2_names[] = {
    {0x1, "HotRange"},
    {0x2, "WarmRange"},
    {0x4, "ColdRange"},
    {0x8, "HotColdSortedRange"},
};
const ea_enum ea_dotnet_module_range_type2 = EA_FLAGS("ModuleRangeTypeMap", module_range_type2_names);

static const ea_map_entry module_range_ibc_type_names[] = {
    {0x1, "IBCUnprofiledSection"},
    {0x2, "IBCProfiledSection"},
};
const ea_enum ea_dotnet_module_range_ibc_type = EA_FLAGS("ModuleRangeIBCTypeMap", module_range_ibc_type_names);

static const ea_map_entry module_range_section_type_names[] = {
    {1, "ModuleSection"},
    {2, "EETableSection"},
    {3, "WriteDataSection"},
    {4, "WriteableDataSection"},
    {5, "DataSection"},
    {6, "RVAStaticsSection"},
    {7, "EEDataSection"},
    {8, "DelayLoadInfoTableEagerSection"},
    {9, "DelayLoadInfoTableSection"},
    {10, "EEReadonlyData"},
    {11, "ReadonlyData"},
    {12, "ClassSection"},
    {13, "CrossDomainInfoSection"},
    {14, "MethodDescSection"},
    {15, "MethodDescWriteableSection"},
    {16, "ExceptionSection"},
    {17, "InstrumentSection"},
    {18, "VirtualImportThunkSection"},
    {19, "ExternalMethodThunkSection"},
    {20, "HelperTableSection"},
    {21, "MethodPrecodeWriteableSection"},
    {22, "MethodPrecodeWriteSection"},
    {23, "MethodPrecodeSection"},
    {24, "Win32ResourcesSection"},
    {25, "HeaderSection"},
    {26, "MetadataSection"},
    {27, "DelayLoadInfoSection"},
    {28, "ImportTableSection"},
    {29, "CodeSection"},
    {30, "CodeHeaderSection"},
    {31, "CodeManagerSection"},
    {32, "UnwindDataSection"},
    {33, "RuntimeFunctionSection"},
    {34, "StubsSection"},
    {35, "StubDispatchDataSection"},
    {36, "ExternalMethodDataSection"},
    {37, "DelayLoadInfoDelayListSection"},
    {38, "ReadonlySharedSection"},
    {39, "ReadonlySection"},
    {40, "ILSection"},
    {41, "GCInfoSection"},
    {42, "ILMetadataSection"},
    {43, "ResourcesSection"},
    {44, "CompressedMapsSection"},
    {45, "DebugSection"},
    {46, "BaseRelocsSection"},
};
const ea_enum ea_dotnet_module_range_section_type = EA_VALUES("ModuleRangeSectionTypeMap", module_range_section_type_names);

/* the manifest has no map for it: perfview ClrTraceEventParser.cs GCGlobalMechanisms */
static const ea_map_entry gc_global_mechanisms_names[] = {
    {0x1, "Concurrent"},
    {0x2, "Compaction"},
    {0x4, "Promotion"},
    {0x8, "Demotion"},
    {0x10, "CardBundles"},
};
const ea_enum ea_dotnet_gc_global_mechanisms = EA_FLAGS("GCGlobalMechanisms", gc_global_mechanisms_names);
