/* .NET: the rundown of what a runtime has loaded and compiled, and its stress log. See dotnet.h. */
#include "dotnet.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DOTNET_RUNDOWN = {
    EA_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18),
    "Microsoft-Windows-DotNETRuntimeRundown", 0};

static const ea_field_row rundown_clr_stack_walk_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Reserved1", EA_U8},
    {"Reserved2", EA_U8},
    {"FrameCount", EA_U32},
    {"Stack", EA_POINTER, EA_SEM_STACK, .count_field = "FrameCount"},
    {0},
};

static const ea_field_row rundown_method_load_unload_rundown_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodStartAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodToken", EA_HEX32},
    {"MethodFlags", EA_HEX32, .map = &ea_dotnet_method_flags},
    {"ClrInstanceID", EA_U16},
    {"ReJITID", EA_HEX64, .since = 2},
    {0},
};

static const ea_field_row rundown_method_load_unload_rundown_0_fields[] = {
    {"MethodID", EA_HEX64},
    {"ModuleID", EA_HEX64},
    {"MethodStartAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"MethodToken", EA_U32},
    {"MethodFlags", EA_HEX32, .map = &ea_dotnet_method_flags},
    {0},
};

static const ea_field_row rundown_method_load_unload_rundown_verbose_fields[] = {
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

static const ea_field_row rundown_dc_start_end_fields[] = {
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row rundown_method_il_to_native_map_rundown_fields[] = {
    {"MethodID", EA_HEX64},
    {"ReJITID", EA_HEX64},
    {"MethodExtent", EA_U8},
    {"CountOfMapEntries", EA_U16},
    {"ILOffsets", EA_U32, .count_field = "CountOfMapEntries"},
    {"NativeOffsets", EA_U32, .count_field = "CountOfMapEntries"},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row rundown_domain_module_load_unload_rundown_fields[] = {
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

static const ea_field_row rundown_module_load_unload_rundown_fields[] = {
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
    {0},
};

static const ea_field_row rundown_assembly_load_unload_rundown_fields[] = {
    {"AssemblyID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"BindingID", EA_HEX64},
    {"AssemblyFlags", EA_HEX32, .map = &ea_dotnet_assembly_flags},
    {"FullyQualifiedAssemblyName", EA_UTF16Z},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row rundown_assembly_load_unload_rundown_0_fields[] = {
    {"AssemblyID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"AssemblyFlags", EA_HEX32, .map = &ea_dotnet_assembly_flags},
    {"FullyQualifiedAssemblyName", EA_UTF16Z},
    {0},
};

static const ea_field_row rundown_app_domain_load_unload_rundown_fields[] = {
    {"AppDomainID", EA_HEX64},
    {"AppDomainFlags", EA_HEX32, .map = &ea_dotnet_app_domain_flags},
    {"AppDomainName", EA_UTF16Z},
    {"AppDomainIndex", EA_U32, .since = 1},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row rundown_thread_created_rundown_fields[] = {
    {"ManagedThreadID", EA_HEX64},
    {"AppDomainID", EA_HEX64},
    {"Flags", EA_HEX32, .map = &ea_dotnet_thread_flags},
    {"ManagedThreadIndex", EA_U32},
    {"OSThreadID", EA_U32, EA_SEM_TID},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_field_row rundown_module_range_rundown_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"ModuleID", EA_HEX64},
    {"RangeBegin", EA_HEX32},
    {"RangeSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"RangeType", EA_HEX8, .map = &ea_dotnet_module_range_type},
    {0},
};

static const ea_field_row rundown_runtime_information_rundown_fields[] = {
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

static const ea_class_row dotnet_rundown_rows[] = {
    {"ClrStack/Walk", 0, 0, 0, rundown_clr_stack_walk_fields},
    {"Method/DCStart", 141, 0, 0, rundown_method_load_unload_rundown_0_fields},
    {"Method/DCStart", 141, 1, 2, rundown_method_load_unload_rundown_fields},
    {"Method/DCStop", 142, 0, 0, rundown_method_load_unload_rundown_0_fields},
    {"Method/DCStop", 142, 1, 2, rundown_method_load_unload_rundown_fields},
    {"Method/DCStartVerbose", 143, 0, 2, rundown_method_load_unload_rundown_verbose_fields},
    {"Method/DCStopVerbose", 144, 0, 2, rundown_method_load_unload_rundown_verbose_fields},
    {"Method/DCStartComplete", 145, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStopComplete", 146, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStartInit", 147, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStopInit", 148, 0, 1, rundown_dc_start_end_fields},
    {"Method/MethodDCStartILToNativeMap", 149, 0, 0, rundown_method_il_to_native_map_rundown_fields},
    {"Method/MethodDCEndILToNativeMap", 150, 0, 0, rundown_method_il_to_native_map_rundown_fields},
    {"Loader/DomainModuleDCStart", 151, 0, 1, rundown_domain_module_load_unload_rundown_fields},
    {"Loader/DomainModuleDCStop", 152, 0, 1, rundown_domain_module_load_unload_rundown_fields},
    {"Loader/ModuleDCStart", 153, 0, 2, rundown_module_load_unload_rundown_fields},
    {"Loader/ModuleDCStop", 154, 0, 2, rundown_module_load_unload_rundown_fields},
    {"Loader/AssemblyDCStart", 155, 0, 0, rundown_assembly_load_unload_rundown_0_fields},
    {"Loader/AssemblyDCStart", 155, 1, 1, rundown_assembly_load_unload_rundown_fields},
    {"Loader/AssemblyDCStop", 156, 0, 0, rundown_assembly_load_unload_rundown_0_fields},
    {"Loader/AssemblyDCStop", 156, 1, 1, rundown_assembly_load_unload_rundown_fields},
    {"Loader/AppDomainDCStart", 157, 0, 1, rundown_app_domain_load_unload_rundown_fields},
    {"Loader/AppDomainDCStop", 158, 0, 1, rundown_app_domain_load_unload_rundown_fields},
    {"Loader/ThreadDCStop", 159, 0, 0, rundown_thread_created_rundown_fields},
    {"ClrPerfTrack/ModuleRangeDCStart", 160, 0, 0, rundown_module_range_rundown_fields},
    {"ClrPerfTrack/ModuleRangeDCEnd", 161, 0, 0, rundown_module_range_rundown_fields},
    {"Runtime/Start", 187, 0, 0, rundown_runtime_information_rundown_fields},
};

const ea_family ea_family_dotnet_rundown = EA_FAMILY(DOTNET_RUNDOWN, dotnet_rundown_rows, EA_CLR_MANIFEST);

static const ea_provider_row DOTNET_STRESS = {
    EA_GUID(0xcc2bcbba, 0x16b6, 0x4cf3, 0x89, 0x90, 0xd7, 0x4c, 0x2e, 0x8a, 0xf5, 0x00),
    "Microsoft-Windows-DotNETRuntimeStress", 0};

static const ea_field_row stress_stress_log_fields[] = {
    {"Facility", EA_HEX32},
    {"LogLevel", EA_U8},
    {"Message", EA_ANSIZ},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_field_row stress_clr_stack_walk_fields[] = {
    {"ClrInstanceID", EA_U16},
    {"Reserved1", EA_U8},
    {"Reserved2", EA_U8},
    {"FrameCount", EA_U32},
    {"Stack", EA_POINTER, EA_SEM_STACK, .count_field = "FrameCount"},
    {0},
};

static const ea_class_row dotnet_stress_rows[] = {
    {"StressLog/Start", 0, 0, 1, stress_stress_log_fields},
    {"ClrStack/Walk", 1, 0, 0, stress_clr_stack_walk_fields},
};

const ea_family ea_family_dotnet_stress = EA_FAMILY(DOTNET_STRESS, dotnet_stress_rows, EA_CLR_MANIFEST);
