/* .NET: the rundown of what a runtime has loaded and compiled, and its stress log. See dotnet.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/dotnet.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DOTNET_RUNDOWN = {
    EA_PROVIDER_DOTNET_RUNDOWN,
    "Microsoft-Windows-DotNETRuntimeRundown", 0};

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

static const ea_field_row rundown_dc_start_end_fields[] = {
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

/* GCSettingsFlags of perfview's ClrTraceEventParser.cs; the manifest has no map for it */
static const ea_map_entry gc_settings_names[] = {
    {0x1, "Concurrent"},
    {0x2, "LargePages"},
    {0x4, "FrozenSegments"},
    {0x8, "HardLimitConfig"},
    {0x10, "NoAffinitize"},
};
static const ea_enum gc_settings = EA_FLAGS("GCSettingsFlags", gc_settings_names);

static const ea_field_row rundown_gc_settings_fields[] = {
    {"HardLimit", EA_U64, EA_SEM_BYTE_COUNT},
    {"LOHThreshold", EA_U64, EA_SEM_BYTE_COUNT},
    {"PhysicalMemoryConfig", EA_U64, EA_SEM_BYTE_COUNT},
    {"Gen0MinBudgetConfig", EA_U64, EA_SEM_BYTE_COUNT},
    {"Gen0MaxBudgetConfig", EA_U64, EA_SEM_BYTE_COUNT},
    {"HighMemPercentConfig", EA_U32},
    {"BitSettings", EA_HEX32, .map = &gc_settings},
    {"ClrInstanceID", EA_U16},
    {0},
};

static const ea_class_row dotnet_rundown_rows[] = {
    {"ClrStack/Walk", 0, 0, 0, ea_dotnet_clr_stack_walk_fields},
    {"GC/GCSettingsRundown", 10, 0, 0, rundown_gc_settings_fields},
    {"Method/DCStart", 141, 0, 0, rundown_method_load_unload_rundown_0_fields},
    {"Method/DCStart", 141, 1, 2, rundown_method_load_unload_rundown_fields},
    {"Method/DCStop", 142, 0, 0, rundown_method_load_unload_rundown_0_fields},
    {"Method/DCStop", 142, 1, 2, rundown_method_load_unload_rundown_fields},
    {"Method/DCStartVerbose", 143, 0, 2, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/DCStopVerbose", 144, 0, 2, ea_dotnet_method_load_unload_verbose_fields},
    {"Method/DCStartComplete", 145, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStopComplete", 146, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStartInit", 147, 0, 1, rundown_dc_start_end_fields},
    {"Method/DCStopInit", 148, 0, 1, rundown_dc_start_end_fields},
    {"Method/MethodDCStartILToNativeMap", 149, 0, 1, ea_dotnet_method_il_to_native_map_fields},
    {"Method/MethodDCEndILToNativeMap", 150, 0, 1, ea_dotnet_method_il_to_native_map_fields},
    {"Loader/DomainModuleDCStart", 151, 0, 1, ea_dotnet_domain_module_load_unload_fields},
    {"Loader/DomainModuleDCStop", 152, 0, 1, ea_dotnet_domain_module_load_unload_fields},
    {"Loader/ModuleDCStart", 153, 0, 2, ea_dotnet_module_load_unload_fields},
    {"Loader/ModuleDCStop", 154, 0, 3, ea_dotnet_module_load_unload_fields},
    {"Loader/AssemblyDCStart", 155, 0, 0, ea_dotnet_assembly_load_unload_0_fields},
    {"Loader/AssemblyDCStart", 155, 1, 1, ea_dotnet_assembly_load_unload_fields},
    {"Loader/AssemblyDCStop", 156, 0, 0, ea_dotnet_assembly_load_unload_0_fields},
    {"Loader/AssemblyDCStop", 156, 1, 1, ea_dotnet_assembly_load_unload_fields},
    {"Loader/AppDomainDCStart", 157, 0, 1, ea_dotnet_app_domain_load_unload_fields},
    {"Loader/AppDomainDCStop", 158, 0, 1, ea_dotnet_app_domain_load_unload_fields},
    {"Loader/ThreadDCStop", 159, 0, 0, ea_dotnet_thread_created_fields},
    {"ClrPerfTrack/ModuleRangeDCStart", 160, 0, 0, ea_dotnet_module_range_fields},
    {"ClrPerfTrack/ModuleRangeDCEnd", 161, 0, 0, ea_dotnet_module_range_fields},
    {"Runtime/Start", 187, 0, 0, ea_dotnet_runtime_information_fields},
    {"TieredCompilation/SettingsDCStart", 280, 0, 0, ea_dotnet_tiered_settings_fields},
    {"ExecutionCheckpoint/ExecutionCheckpointDCEnd", 300, 0, 0, ea_dotnet_execution_checkpoint_fields},
};

const ea_family ea_family_dotnet_rundown = EA_FAMILY(DOTNET_RUNDOWN, dotnet_rundown_rows, EA_CLR_MANIFEST_CORE);

static const ea_provider_row DOTNET_STRESS = {
    EA_PROVIDER_DOTNET_STRESS,
    "Microsoft-Windows-DotNETRuntimeStress", 0};

static const ea_field_row stress_stress_log_fields[] = {
    {"Facility", EA_HEX32},
    {"LogLevel", EA_U8},
    {"Message", EA_ANSIZ},
    {"ClrInstanceID", EA_U16, .since = 1},
    {0},
};

static const ea_class_row dotnet_stress_rows[] = {
    {"StressLog/Start", 0, 0, 1, stress_stress_log_fields},
    {"ClrStack/Walk", 1, 0, 0, ea_dotnet_clr_stack_walk_fields},
};

const ea_family ea_family_dotnet_stress = EA_FAMILY(DOTNET_STRESS, dotnet_stress_rows, EA_CLR_MANIFEST);
