/* Page faults, virtual memory, pool. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row PAGE_FAULT = {
    EA_PROVIDER_PAGE_FAULT, EA_KERNEL_TRACE, 1};

static const ea_field_row hr_rundown_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"HRFlags", EA_HEX32},
    {"HRPid", EA_U32, EA_SEM_PID},
    {"HRRangeCount", EA_U32},
    {"Reserved", EA_U32, .since = 3, .until = 3},
    {"HRHeapTag", EA_U64, .since = 4},
    {0},
};

static const ea_field_row fault_fields[] = {
    {"VirtualAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"ProgramCounter", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row hard_fault_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"ReadOffset", EA_HEX64},
    {"VirtualAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"ByteCount", EA_U32, EA_SEM_BYTE_COUNT},
    {0},
};

/* winnt.h MEM_* */
static const ea_map_entry allocation_flags_names[] = {
    {0x1000, "COMMIT"},
    {0x2000, "RESERVE"},
    {0x4000, "DECOMMIT"},
    {0x8000, "RELEASE"},
    {0x10000, "FREE"},
    {0x80000, "RESET"},
    {0x100000, "TOP_DOWN"},
    {0x200000, "WRITE_WATCH"},
    {0x400000, "PHYSICAL"},
    {0x20000000, "LARGE_PAGES"},
};
static const ea_enum allocation_flags = EA_FLAGS("AllocationFlags", allocation_flags_names);

/* The schema lacks Flags: ntwmi.h PERFINFO_VIRTUAL_ALLOC, KernelTraceEventParser.cs VirtualAllocTraceData. */
static const ea_field_row virtual_alloc_fields[] = {
    {"BaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"RegionSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"Flags", EA_HEX32, .optional = 1, .map = &allocation_flags},
    {0},
};

static const ea_field_row hr_create_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"FirstRangeSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"HRCreateFlags", EA_HEX32},
    {0},
};

static const ea_field_row hr_reserve_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {"HRAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"HRSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row hr_destroy_fields[] = {
    {"HeapHandle", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

/* ntwmi.h PERFINFO_IMAGELOAD_IN_PAGEFILE_INFO */
static const ea_map_entry load_flags_names[] = {
    {0x1, "ActiveDataReference"},
    {0x2, "DeviceEjectable"},
    {0x4, "WritableHandles"},
};
static const ea_enum load_flags = EA_FLAGS("ImageLoadBackedFlags", load_flags_names);

static const ea_field_row image_load_backed_fields[] = {
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"DeviceChar", EA_HEX32},
    {"FileChar", EA_HEX16},
    {"LoadFlags", EA_HEX16, .map = &load_flags},
    {0},
};

/* wdm.h MM_ROTATE_DIRECTION, in the lowest four bits */
static const ea_map_entry rotate_direction_names[] = {
    {0, "ToFrameBuffer"},
    {1, "ToFrameBufferNoCopy"},
    {2, "ToRegularMemory"},
    {3, "ToRegularMemoryNoCopy"},
};
static const ea_enum rotate_direction = EA_VALUES("RotateDirection", rotate_direction_names);

/* ntwmi.h PERFINFO_MEM_RESET_INFO_TYPE, in the lowest two bits */
static const ea_map_entry reset_type_names[] = {
    {0, "Reset"},
    {1, "ResetUndo"},
    {2, "ResetUndoFailed"},
};
static const ea_enum reset_type = EA_VALUES("MemResetType", reset_type_names);

/* The schema lacks Flags: ntwmi.h PERFINFO_VAD_ROTATE_INFO, PERFINFO_MEM_RESET_INFO. */
static const ea_field_row virtual_rotate_fields[] = {
    {"BaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"SizeInBytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Flags", EA_HEX32, .optional = 1, .map = &rotate_direction},
    {0},
};

static const ea_field_row mem_reset_fields[] = {
    {"BaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"SizeInBytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Flags", EA_HEX32, .optional = 1, .map = &reset_type},
    {0},
};

static const ea_field_row virtual_alloc_dc_start_fields[] = {
    {"BaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"RegionSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"CommitSizeInBytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_class_row page_fault_rows[] = {
    {"PageFault/TransitionFault", 10, 2, 2, fault_fields},
    {"PageFault/DemandZeroFault", 11, 2, 2, fault_fields},
    {"PageFault/CopyOnWrite", 12, 2, 2, fault_fields},
    {"PageFault/GuardPageFault", 13, 2, 2, fault_fields},
    {"PageFault/HardPageFault", 14, 2, 2, fault_fields},
    {"PageFault/AccessViolation", 15, 2, 2, fault_fields},
    {"PageFault/HardFault", 32, 2, 2, hard_fault_fields},
    {"PageFault/VirtualAlloc", 98, 2, 2, virtual_alloc_fields},
    {"PageFault/VirtualFree", 99, 2, 2, virtual_alloc_fields},
    {"PageFault/HRRundown", 100, 2, 4, hr_rundown_fields},
    {"PageFault/HRCreate", 101, 2, 2, hr_create_fields},
    {"PageFault/HRReserve", 102, 2, 2, hr_reserve_fields},
    {"PageFault/HRRelease", 103, 2, 2, hr_reserve_fields},
    {"PageFault/HRDestroy", 104, 2, 2, hr_destroy_fields},
    {"PageFault/ImageLoadBacked", 105, 2, 2, image_load_backed_fields},
    {"PageFault/VirtualRotate", 127, 2, 2, virtual_rotate_fields},
    {"PageFault/VirtualAllocDCStart", 128, 2, 2, virtual_alloc_dc_start_fields},
    {"PageFault/VirtualAllocDCEnd", 129, 2, 2, virtual_alloc_dc_start_fields},
    {"PageFault/MemResetInfo", 134, 2, 2, mem_reset_fields},
};

const ea_family ea_family_page_fault = EA_FAMILY(PAGE_FAULT, page_fault_rows, EA_MOF);

static const ea_provider_row POOL = {
    EA_PROVIDER_POOL, EA_KERNEL_TRACE, 1};

/* wdm.h POOL_TYPE: the base type is the lowest bit, the others say more */
static const ea_map_entry pool_type_names[] = {
    {0x1, "PagedPool"},
    {0x2, "MustSucceed"},
    {0x4, "CacheAligned"},
    {0x8, "RaiseIfAllocationFailure"},
    {0x20, "Session"},
    {0x200, "NonPagedPoolNx"},
};
static const ea_enum pool_type = EA_FLAGS("PoolType", pool_type_names);

static const ea_field_row pool_allocation_fields[] = {
    {"Type", EA_U32, .map = &pool_type},
    {"Tag", EA_HEX32},
    {"NumberOfBytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Entry", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row session_pool_allocation_fields[] = {
    {"Type", EA_U32, .map = &pool_type},
    {"Tag", EA_HEX32},
    {"NumberOfBytes", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"Entry", EA_POINTER, EA_SEM_ADDRESS},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {0},
};

static const ea_class_row pool_rows[] = {
    {"Pool/PoolAllocation", 32, 2, 2, pool_allocation_fields},
    {"Pool/SessionPoolAllocation", 33, 2, 2, session_pool_allocation_fields},
    {"Pool/PoolFree", 34, 2, 2, pool_allocation_fields},
    {"Pool/SessionPoolFree", 35, 2, 2, session_pool_allocation_fields},
    {"Pool/PoolSnapDCStart", 40, 2, 2, ea_no_fields},
    {"Pool/PoolSnapDCEnd", 41, 2, 2, ea_no_fields},
    {"Pool/BigPoolSnapDCStart", 42, 2, 2, ea_no_fields},
    {"Pool/BigPoolSnapDCEnd", 43, 2, 2, ea_no_fields},
    {"Pool/SessionPoolSnapDCStart", 44, 2, 2, ea_no_fields},
    {"Pool/SessionPoolSnapDCEnd", 45, 2, 2, ea_no_fields},
    {"Pool/SessionBigPoolSnapDCStart", 46, 2, 2, ea_no_fields},
    {"Pool/SessionBigPoolSnapDCEnd", 47, 2, 2, ea_no_fields},
};

const ea_family ea_family_pool = EA_FAMILY(POOL, pool_rows, EA_MOF);
