/* What classes of events of the kernel and of .NET mean to the trackers and sums of this folder: one table of classes,
 * their roles and the fields of each role. Called by: activity_events.c, stack_query.c. Calls: event_cursor.h. Thread:
 * any. */
#ifndef EC_QUERY_ANALYSIS_EVENT_ROLES_H
#define EC_QUERY_ANALYSIS_EVENT_ROLES_H

#include "collector/query/scan/event_cursor.h"

enum ec_role {
    EC_ROLE_NONE,
    EC_ROLE_SWITCH,
    EC_ROLE_COMPACT_SWITCHES,
    EC_ROLE_READY,
    EC_ROLE_THREAD_BEGIN,
    EC_ROLE_THREAD_END,
    EC_ROLE_LOST,
    EC_ROLE_CPU_SAMPLE,
    EC_ROLE_COUNTER_SAMPLE,
    EC_ROLE_SAMPLE_INTERVAL,
    EC_ROLE_COUNTER_CORRUPTION,
    EC_ROLE_INTERRUPT,
    EC_ROLE_DISK_BEGIN,
    EC_ROLE_DISK_END,
    EC_ROLE_FLUSH_BEGIN, /* of a disk: a request without bytes */
    EC_ROLE_FLUSH_END,
    EC_ROLE_FILE_BEGIN,
    EC_ROLE_FILE_END,
    EC_ROLE_FILE_TRANSFER,
    EC_ROLE_NETWORK_TRANSFER,
    EC_ROLE_HARD_FAULT,
    EC_ROLE_FAULT,
    EC_ROLE_GC_BEGIN, /* from here: of a .NET runtime */
    EC_ROLE_GC_END,
    EC_ROLE_GC_SUSPEND,
    EC_ROLE_GC_SUSPENDED,
    EC_ROLE_GC_RESTARTED,
    EC_ROLE_GC_HEAPS,
    EC_ROLE_GC_HISTORY,
    EC_ROLE_JIT_BEGIN,
    EC_ROLE_JIT_END
};

#define EC_ROLE_BIT(role) (1u << EC_ROLE_##role)

/* Fields of a plan, by role. */
enum ec_fields_of_switch { EC_SWITCH_NEW_TID, EC_SWITCH_OLD_TID, EC_SWITCH_OLD_STATE, EC_SWITCH_OLD_REASON };

enum ec_fields_of_thread { EC_THREAD_TID }; /* READY, THREAD_BEGIN, THREAD_END */

enum ec_fields_of_samples {
    EC_SAMPLE_TID,
    EC_SAMPLE_ADDRESS,
    EC_SAMPLE_COUNT,                   /* CPU_SAMPLE */
    EC_SAMPLE_SOURCE = EC_SAMPLE_COUNT /* COUNTER_SAMPLE */
};

enum ec_fields_of_interval { EC_INTERVAL_SOURCE, EC_INTERVAL_LENGTH, EC_INTERVAL_NAME };

enum ec_fields_of_corruption { EC_CORRUPTION_CPU, EC_CORRUPTION_LIST };

enum ec_fields_of_interrupt { EC_INTERRUPT_BEGIN, EC_INTERRUPT_ROUTINE };

enum ec_fields_of_disk_begin { EC_DISK_BEGIN_IRP, EC_DISK_BEGIN_TID }; /* FLUSH_BEGIN too */

enum ec_fields_of_disk_end {
    EC_DISK_IRP,
    EC_DISK_RESPONSE,
    EC_DISK_FILE_OBJECT,
    EC_DISK_SIZE,
    EC_DISK_NUMBER,
    EC_DISK_TID
}; /* FLUSH_END too */

enum ec_fields_of_file { EC_FILE_IRP, EC_FILE_OBJECT };

enum ec_fields_of_transfer { EC_TRANSFER_SIZE, EC_TRANSFER_TID, EC_TRANSFER_PID };

enum ec_fields_of_fault { EC_FAULT_BEGIN, EC_FAULT_FILE_OBJECT, EC_FAULT_TID, EC_FAULT_SIZE };

enum ec_fields_of_dotnet { EC_DOTNET_INSTANCE };

enum ec_fields_of_gc { EC_GC_NUMBER = 1, EC_GC_GENERATION, EC_GC_REASON, EC_GC_TYPE }; /* GC_BEGIN, GC_END */

enum ec_fields_of_gc_suspend { EC_GC_SUSPEND_REASON = 1 };

enum ec_fields_of_gc_heaps { EC_GC_HEAP_0 = 1, EC_GC_HEAP_4 = 5 };

enum ec_fields_of_gc_history { EC_GC_HISTORY_COUNT = 1, EC_GC_HISTORY_VALUES };

enum ec_fields_of_jit {
    EC_JIT_METHOD = 1,
    EC_JIT_SIZE,
    EC_JIT_NAMESPACE,                /* JIT_BEGIN */
    EC_JIT_NAME,                     /* JIT_BEGIN */
    EC_JIT_FLAGS = EC_JIT_NAMESPACE, /* JIT_END */
};

/* The role of a class among those wanted (bits: EC_ROLE_BIT), EC_ROLE_NONE when it has none of them. ret->fields become
 * those of the role, at most field_count, the others -1; the rest of *ret stays as it is. *ret_text (may be NULL): the
 * operation in words; NULL when the role has none. */
enum ec_role ec_role_of(const ea_class *c, uint32_t wanted, unsigned field_count, ec_event_cursor_plan *ret,
                        const char **ret_text);

/* The operations of transfers. */
extern const char EC_OPERATION_IN[], EC_OPERATION_OUT[];

/* The number of a class's top-level field; -1: it has no field of that name. */
int16_t ec_class_field(const ea_class *c, const char *name);

#endif
