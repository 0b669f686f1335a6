/* Class rows: one file a family of events, one line a class, one line a field. Adding a class is adding its line here;
 * nothing else in the program changes. Input: the layouts' sources. Used by: registry.c, which compiles a row for the
 * version and pointer size that a record has. Thread: any (constants).
 *
 * How to read a row: name, opcode or id, first and last version, fields
 *     {"Process/Start", 1, 1, 4, process_fields}
 * and a field: name, type, what it stands for, the versions that have it
 *     {"CommandLine", EA_UTF16Z, EA_SEM_COMMAND_LINE, .since = 2}
 *
 * Names are those of Windows' own schema, typing errors included, since people search for them. */
#ifndef EA_EVENT_CLASSES_CLASSES_H
#define EA_EVENT_CLASSES_CLASSES_H

#include "proto/event/event.h"

#if defined(__GNUC__) || defined(__clang__)
/* what a row leaves out is zero, and that is the point of a table */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

/* Every kernel class belongs to this provider, whatever GUID its class has. */
#define EA_KERNEL_TRACE "Windows Kernel Trace"
#define EA_MOF          "Windows 11's kernel MOF classes (kernel-mof-fields.tsv, names from kernel-event-layouts.tsv)"

#define EA_FAMILY(provider_row, class_rows, source_text)                                                               \
    {                                                                                                                  \
        .provider = &(provider_row), .rows = (class_rows), .row_count = sizeof(class_rows) / sizeof *(class_rows),     \
        .source = (source_text)                                                                                        \
    }

/* Names of whole values, and of bits. */
#define EA_VALUES(map_name, map_entries)                                                                               \
    {                                                                                                                  \
        .name = (map_name), .is_flags = 0, .count = sizeof(map_entries) / sizeof *(map_entries),                       \
        .entries = (map_entries)                                                                                       \
    }
#define EA_FLAGS(map_name, map_entries)                                                                                \
    {                                                                                                                  \
        .name = (map_name), .is_flags = 1, .count = sizeof(map_entries) / sizeof *(map_entries),                       \
        .entries = (map_entries)                                                                                       \
    }

/* Maps that several families share (maps.c). */
extern const ea_enum ea_irp_major, ea_irp_flags, ea_trace_level, ea_log_mode, ea_process_flags;

/* An event without a payload (maps.c). */
extern const ea_field_row ea_no_fields[1];

// clang-format off
#define EA_FAMILIES(X)                                                                                                 \
    X(process) X(thread) X(ums) X(image) X(disk_io) X(split_io) X(file_io) X(page_fault) X(pool) X(tcp_ip)             \
    X(udp_ip) X(registry) X(perf_info) X(stack_walk) X(event_trace) X(lost_event) X(object) X(alpc)                    \
    X(system_config) X(power) X(mmcss) X(debugger) X(image_id) X(sys_config_ex) X(event_metadata) X(win_sat)            \
    X(event_tracing) X(heap) X(crit_sec) X(job) X(thread_pool) X(wnf) X(cc) X(perf_info_timers) X(keyframe)        \
    X(process_native) X(thread_native) X(perf_info_native) X(mod_bound) X(event_trace_native) X(page_fault_native)     \
    X(pool_native) X(disk_io_native) X(file_io_native) X(tcp_ip_native) X(registry_native) X(alpc_native)              \
    X(image_native) X(power_native) X(compact_switch) X(image_file)                                                     \
    X(dotnet) X(dotnet_core) X(dotnet_rundown) X(dotnet_stress) X(dotnet_private) X(jscript)          \
    X(announce)
// clang-format on

#define X(name) extern const ea_family ea_family_##name;
EA_FAMILIES(X)
#undef X

extern const ea_family *const ea_families[];
extern const size_t ea_family_count;

#endif
