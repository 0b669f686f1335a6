/* What the .NET families share: names of numbers (dotnet_maps.c), fields. Sizes and amounts of bytes, which the
 * manifest prints in hex, are decimal here like everywhere else. See classes.h. */
#ifndef EA_EVENT_CLASSES_DOTNET_H
#define EA_EVENT_CLASSES_DOTNET_H

#include "proto/event/classes/classes.h"

#define EA_CLR_MANIFEST      "the .NET runtime's own manifest, ClrEtwAll.man"
#define EA_CLR_MANIFEST_CORE "the .NET runtime's own manifest, ClrEtwAll.man, of .NET Framework 4.5 and of .NET 10"

extern const ea_enum ea_dotnet_gc_global_mechanisms, ea_dotnet_app_domain_flags, ea_dotnet_assembly_flags,
    ea_dotnet_contention_flags, ea_dotnet_exception_thrown_flags, ea_dotnet_gc_allocation_kind,
    ea_dotnet_gc_handle_kind, ea_dotnet_gc_reason, ea_dotnet_gc_root_ccw_flags, ea_dotnet_gc_root_flags,
    ea_dotnet_gc_root_kind, ea_dotnet_gc_root_static_var_flags, ea_dotnet_gc_segment_type,
    ea_dotnet_gc_suspend_ee_reason, ea_dotnet_gc_type, ea_dotnet_il_stub_generated_flags, ea_dotnet_method_flags,
    ea_dotnet_module_flags, ea_dotnet_module_range_ibc_type, ea_dotnet_module_range_section_type,
    ea_dotnet_module_range_type, ea_dotnet_module_range_type2, ea_dotnet_runtime_sku, ea_dotnet_startup_flags,
    ea_dotnet_startup_mode, ea_dotnet_tail_call_type, ea_dotnet_thread_adjustment_reason, ea_dotnet_thread_flags,
    ea_dotnet_type_flags;

/* Fields of events that more than one of the providers writes (dotnet.c). */
extern const ea_field_row ea_dotnet_set_gc_handle_fields[], ea_dotnet_destroy_gc_handle_fields[],
    ea_dotnet_clr_stack_walk_fields[], ea_dotnet_thread_created_fields[], ea_dotnet_method_load_unload_verbose_fields[],
    ea_dotnet_module_load_unload_fields[], ea_dotnet_domain_module_load_unload_fields[],
    ea_dotnet_assembly_load_unload_fields[], ea_dotnet_assembly_load_unload_0_fields[],
    ea_dotnet_app_domain_load_unload_fields[], ea_dotnet_module_range_fields[], ea_dotnet_runtime_information_fields[],
    ea_dotnet_method_il_to_native_map_fields[], ea_dotnet_tiered_settings_fields[],
    ea_dotnet_execution_checkpoint_fields[];

#endif
