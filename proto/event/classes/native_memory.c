/* Memory and pool: events that Windows' own schema leaves out and a public header names. As in native_sched.c. See
 * classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row PAGE_FAULT = {
    EA_PROVIDER_PAGE_FAULT, EA_KERNEL_TRACE, 1};

/* ntwmi.h PERFINFO_PFMAPPED_SECTION_INFORMATION */
static const ea_field_row section_fields[] = {
    {"RangeBase", EA_POINTER, EA_SEM_ADDRESS},
    {"RangeEnd", EA_POINTER, EA_SEM_ADDRESS},
    {"CreatingProcessId", EA_U32, EA_SEM_PID},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_PFMAPPED_SECTION_OBJECT_INFORMATION */
static const ea_field_row section_object_fields[] = {
    {"SectionObject", EA_POINTER, EA_SEM_ADDRESS},
    {"RangeBase", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

/* ntwmi.h PERFINFO_SESSIONCREATE_INFORMATION */
static const ea_field_row session_create_fields[] = {
    {"UniqueSessionId", EA_POINTER},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_MEMORY_INFORMATION; perfview reads its free pages at the same place */
static const ea_field_row mem_info_fields[] = {
    {"ZeroPageCount", EA_SIZE},
    {"FreePageCount", EA_SIZE},
    {"ModifiedPageCount", EA_SIZE},
    {"ModifiedNoWritePageCount", EA_SIZE},
    {"BadPageCount", EA_SIZE},
    {"PageCountByPriority", EA_SIZE, .count = 8},
    {"RepurposedPagesByPriority", EA_SIZE, .count = 8},
    {"ModifiedPageCountPageFile", EA_SIZE},
    {"More", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_CONTIGUOUS_PAGE_GENERATE */
static const ea_field_row contiguous_fields[] = {
    {"ThreadId", EA_U64, EA_SEM_TID},
    {"NumberOfBytes", EA_U64, EA_SEM_BYTE_COUNT},
    {0},
};

/* ntwmi.h PERFINFO_KERNELMEMORY_USAGE_TYPE, in the lowest five bits */
static const ea_map_entry usage_type_names[] = {
    {0, "PfnMetadata"},
};
static const ea_enum usage_type = EA_VALUES("KernelMemoryUsageType", usage_type_names);

/* ntwmi.h PERFINFO_KERNELMEMORY_RANGE_USAGE */
static const ea_field_row kernel_usage_fields[] = {
    {"UsageType", EA_U32, .map = &usage_type},
    {"Alignment", EA_BYTES, .count = 4, .only = 8},
    {"VirtualAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"PageCount", EA_SIZE},
    {0},
};

/* ntwmi.h PERFINFO_MM_STAT, in the lowest six bits */
static const ea_map_entry stat_type_names[] = {
    {0, "NotUsed"},
    {1, "AggregatePageCombine"},
    {2, "IterationPageCombine"},
};
static const ea_enum stat_type = EA_VALUES("MmStatType", stat_type_names);

/* ntwmi.h PERFINFO_PAGECOMBINE_AGGREGATE_STAT or PERFINFO_PAGECOMBINE_ITERATION_STAT, as the type says */
static const ea_field_row mm_stats_fields[] = {
    {"StatType", EA_U32, .map = &stat_type},
    {"Statistics", EA_U32, .count = EA_COUNT_REST},
    {0},
};

/* KernelTraceEventParser.cs MemoryProcessMemInfoValues before version 2: the first five members */
static const ea_field_row process_ws_v1_fields[] = {
    {"Count", EA_U32},
    {"WsEntry", EA_STRUCT, .count_field = "Count", .child_count = 5},
    {"UniqueProcessId", EA_U32, EA_SEM_PID},
    {"WorkingSetPageCount", EA_SIZE},
    {"CommitPageCount", EA_SIZE},
    {"VirtualSizeInPages", EA_SIZE},
    {"PrivateWorkingSetPageCount", EA_SIZE},
    {0},
};

/* ntwmi.h PERFINFO_WORKINGSET_INFORMATION, PERFINFO_WORKINGSET_ENTRY */
static const ea_field_row process_ws_fields[] = {
    {"Count", EA_U32},
    {"WsEntry", EA_STRUCT, .count_field = "Count", .child_count = 9},
    {"UniqueProcessId", EA_U32, EA_SEM_PID},
    {"WorkingSetPageCount", EA_SIZE},
    {"CommitPageCount", EA_SIZE},
    {"VirtualSizeInPages", EA_SIZE},
    {"PrivateWorkingSetPageCount", EA_SIZE},
    {"StoreSizeInPages", EA_SIZE},
    {"StoredPageCount", EA_SIZE},
    {"CommitDebtInPages", EA_SIZE},
    {"SharedCommitInPages", EA_SIZE},
    {0},
};

/* KernelTraceEventParser.cs MemoryProcessMemInfoValues before version 2: the first five members */
static const ea_field_row session_ws_v1_fields[] = {
    {"Count", EA_U32},
    {"WsEntry", EA_STRUCT, .count_field = "Count", .child_count = 5},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {"WorkingSetPageCount", EA_SIZE},
    {"CommitPageCount", EA_SIZE},
    {"PagedPoolPageCount", EA_SIZE},
    {"PrivateWorkingSetPageCount", EA_SIZE},
    {0},
};

/* ntwmi.h PERFINFO_WORKINGSET_INFORMATION, PERFINFO_WORKINGSET_ENTRY */
static const ea_field_row session_ws_fields[] = {
    {"Count", EA_U32},
    {"WsEntry", EA_STRUCT, .count_field = "Count", .child_count = 9},
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},
    {"WorkingSetPageCount", EA_SIZE},
    {"CommitPageCount", EA_SIZE},
    {"PagedPoolPageCount", EA_SIZE},
    {"PrivateWorkingSetPageCount", EA_SIZE},
    {"StoreSizeInPages", EA_SIZE},
    {"StoredPageCount", EA_SIZE},
    {"CommitDebtInPages", EA_SIZE},
    {"SharedCommitInPages", EA_SIZE},
    {0},
};

/* MemInfoWS and MemInfoSessionWS have longer entries since version 2. */
static const ea_class_row page_fault_native_rows[] = {
    {"PageFault/RemovePageByColor", 33, 0, 2, NULL},
    {"PageFault/RemovePageFromList", 34, 0, 2, NULL},
    {"PageFault/PageInMemory", 35, 0, 2, NULL},
    {"PageFault/InsertInFreeList", 36, 0, 2, NULL},
    {"PageFault/InsertInModifiedList", 37, 0, 2, NULL},
    {"PageFault/InsertInList", 38, 0, 2, NULL},
    {"PageFault/InsertAtFront", 40, 0, 2, NULL},
    {"PageFault/UnlinkFromStandby", 41, 0, 2, NULL},
    {"PageFault/UnlinkFromFreeOrZero", 42, 0, 2, NULL},
    {"PageFault/WorkingSetManager", 43, 0, 2, NULL},
    {"PageFault/TrimProcess", 44, 0, 2, NULL},
    {"PageFault/ZeroShareCount", 46, 0, 2, NULL},
    {"PageFault/WsInfoProcess", 60, 0, 2, NULL},
    {"PageFault/FaultAddrWithIp", 69, 0, 2, NULL},
    {"PageFault/TrimSession", 70, 0, 2, NULL},
    {"PageFault/MemorySnapLite", 71, 0, 2, NULL},
    {"PageFault/PfMappedSectionRundown", 72, 0, 2, section_fields},
    {"PageFault/PfMappedSectionCreate", 73, 0, 2, section_fields},
    {"PageFault/WsInfoSession", 74, 0, 2, NULL},
    {"PageFault/SessionCreate", 75, 0, 2, session_create_fields},
    {"PageFault/SessionRundownDCEnd", 76, 0, 2, NULL},
    {"PageFault/SessionRundownDCStart", 77, 0, 2, NULL},
    {"PageFault/SessionDelete", 78, 0, 2, NULL},
    {"PageFault/PfMappedSectionDelete", 79, 0, 2, section_fields},
    {"PageFault/MemInfo", 112, 0, 2, mem_info_fields},
    {"PageFault/ContiguousPageGenerate", 113, 0, 2, contiguous_fields},
    {"PageFault/FileStoreFault", 114, 0, 2, NULL},
    {"PageFault/InMemoryStoreFault", 115, 0, 2, NULL},
    {"PageFault/CompressedPage", 116, 0, 2, NULL},
    {"PageFault/PageInMemoryActive", 117, 0, 2, NULL},
    {"PageFault/PageAccess", 118, 0, 2, NULL},
    {"PageFault/PageRelease", 119, 0, 2, NULL},
    {"PageFault/PageRangeAccess", 120, 0, 2, NULL},
    {"PageFault/PageRangeRelease", 121, 0, 2, NULL},
    {"PageFault/PageCombine", 122, 0, 2, NULL},
    {"PageFault/KernelMemUsage", 123, 0, 2, kernel_usage_fields},
    {"PageFault/MmStats", 124, 0, 2, mm_stats_fields},
    {"PageFault/MemInfoWS", 125, 0, 1, process_ws_v1_fields},
    {"PageFault/MemInfoWS", 125, 2, 2, process_ws_fields},
    {"PageFault/MemInfoSessionWS", 126, 0, 1, session_ws_v1_fields},
    {"PageFault/MemInfoSessionWS", 126, 2, 2, session_ws_fields},
    {"PageFault/PageAccessEx", 130, 0, 2, NULL},
    {"PageFault/RemoveFromWs", 131, 0, 2, NULL},
    {"PageFault/WsShareableRundown", 132, 0, 2, NULL},
    {"PageFault/InMemoryActiveRundown", 133, 0, 2, NULL},
    {"PageFault/PfMappedSectionObjectCreate", 135, 0, 2, section_object_fields},
    {"PageFault/PfMappedSectionObjectDelete", 136, 0, 2, section_object_fields},
};

const ea_family ea_family_page_fault_native =
    EA_FAMILY(PAGE_FAULT, page_fault_native_rows, "ntwmi.h PERFINFO_MEMORY_INFORMATION, PERFINFO_WORKINGSET_*, PERFINFO_PFMAPPED_SECTION_*; KernelTraceEventParser.cs");

static const ea_provider_row POOL = {
    EA_PROVIDER_POOL, EA_KERNEL_TRACE, 1};

static const ea_class_row pool_native_rows[] = {
    {"Pool/AddPoolPage", 36, 0, 2, NULL},
    {"Pool/AddSessionPoolPage", 37, 0, 2, NULL},
    {"Pool/BigPoolPage", 38, 0, 2, NULL},
    {"Pool/SessionBigPoolPage", 39, 0, 2, NULL},
};

const ea_family ea_family_pool_native =
    EA_FAMILY(POOL, pool_native_rows, "ntwmi.h PERFINFO_LOG_TYPE_ADDPOOLPAGE*, PERFINFO_LOG_TYPE_BIGPOOLPAGE*");
