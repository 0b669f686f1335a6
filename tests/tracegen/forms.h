/* The kernel events that the model logs: the group that enables them, the header that Windows gives them, the hook id,
 * the version for each version of Windows, and the fields that the model fills in, in the order of the values. The
 * class rows of proto/event define the rest of the layout. Header forms and versions come from real traces of Windows 8
 * to 11; an event that is in no real trace has the newest version of its class row. Uses: proto/event. Used by:
 * trace_out.c. Thread: any (constants). */
#ifndef EA_TESTS_TRACEGEN_FORMS_H
#define EA_TESTS_TRACEGEN_FORMS_H

#include <stdint.h>

/* What a session may record, as scenarios name it (session: events). */
// clang-format off
#define TG_GROUPS(X)                                                                                                   \
    X(PROCESS, process) X(THREAD, thread) X(IMAGE, image) X(CSWITCH, cswitch) X(READY, readythread)                    \
    X(SYSCALL, syscall) X(DPC, dpc) X(ISR, isr) X(SAMPLE, sample) X(PMC, pmc) X(DISK, disk) X(FILEIO, fileio)          \
    X(FILENAME, filename) X(REGISTRY, registry) X(FAULT, pagefault) X(HARDFAULT, hardfault) X(VIRTUAL, virtualalloc)   \
    X(TCPIP, tcpip) X(UDPIP, udpip) X(CONFIG, config) X(DOTNET, dotnet) X(TRACELOGGING, tracelogging)                  \
    X(MANIFEST, manifest) X(STACK, stack) X(OBJECT, object) X(LOST, lost)

enum tg_group {
#define X(name, text) TG_GROUP_##name,
    TG_GROUPS(X)
#undef X
    TG_GROUP_COUNT
};

enum tg_header { TG_SYSTEM, TG_PERFINFO, TG_FULL };

/* name, group, header, hook id, version since Windows 10, of Windows 8, of Windows 7; fields: a ? follows a field that
 * some versions lack */
#define TG_FORMS(X)                                                                                                    \
    X(PROCESS_START, PROCESS, SYSTEM, 0x0301, 4, 4, 3, TG_PROCESS_FIELDS)                                              \
    X(PROCESS_END, PROCESS, SYSTEM, 0x0302, 4, 4, 3, TG_PROCESS_FIELDS)                                                \
    X(PROCESS_DCSTART, PROCESS, PERFINFO, 0x0303, 4, 4, 3, TG_PROCESS_FIELDS)                                          \
    X(PROCESS_DCEND, PROCESS, PERFINFO, 0x0304, 4, 4, 3, TG_PROCESS_FIELDS)                                            \
    X(PROCESS_TERMINATE, PROCESS, SYSTEM, 0x030B, 2, 2, 2, "ProcessId")                                                \
    X(THREAD_START, THREAD, SYSTEM, 0x0501, 3, 3, 3, TG_THREAD_FIELDS)                                                 \
    X(THREAD_END, THREAD, SYSTEM, 0x0502, 3, 3, 3, TG_THREAD_FIELDS)                                                   \
    X(THREAD_DCSTART, THREAD, SYSTEM, 0x0503, 3, 3, 3, TG_THREAD_FIELDS)                                               \
    X(THREAD_DCEND, THREAD, SYSTEM, 0x0504, 3, 3, 3, TG_THREAD_FIELDS)                                                 \
    X(THREAD_NAME, THREAD, SYSTEM, 0x0548, 2, 2, 2, "ProcessId", "ThreadId", "ThreadName")                             \
    X(IMAGE_LOAD, IMAGE, SYSTEM, 0x030A, 3, 2, 2, TG_IMAGE_FIELDS)                                                     \
    X(IMAGE_UNLOAD, IMAGE, SYSTEM, 0x1402, 3, 2, 2, TG_IMAGE_FIELDS)                                                   \
    X(IMAGE_DCSTART, IMAGE, PERFINFO, 0x1403, 3, 2, 2, TG_IMAGE_FIELDS)                                                \
    X(IMAGE_DCEND, IMAGE, PERFINFO, 0x1404, 3, 2, 2, TG_IMAGE_FIELDS)                                                  \
    X(IMAGE_ID, IMAGE, FULL, 0, 2, 2, 2, "ImageBase", "ImageSize", "ProcessId", "TimeDateStamp", "OriginalFileName")   \
    X(IMAGE_RSDS, IMAGE, FULL, 36, 2, 2, 2, "ImageBase", "ProcessId", "GuidSig", "Age", "PdbFileName")                 \
    X(CSWITCH, CSWITCH, PERFINFO, 0x0524, 4, 3, 2, "NewThreadId", "OldThreadId", "NewThreadPriority",                  \
      "OldThreadPriority", "PreviousCState", "OldThreadWaitReason", "OldThreadWaitMode?", "OldThreadState",            \
      "OldThreadWaitIdealProcessor", "NewThreadWaitTime")                                                              \
    X(READY_THREAD, READY, PERFINFO, 0x0532, 2, 2, 2, "TThreadId", "AdjustReason", "AdjustIncrement", "Flag")          \
    X(SET_PRIORITY, THREAD, PERFINFO, 0x0530, 3, 3, 3, "ThreadId", "OldPriority", "NewPriority")                       \
    X(SAMPLE, SAMPLE, PERFINFO, 0x0F2E, 2, 2, 2, "InstructionPointer", "ThreadId", "Count")                            \
    X(PMC_SAMPLE, PMC, PERFINFO, 0x0F2F, 2, 2, 2, "InstructionPointer", "ThreadId", "ProfileSource")                   \
    X(SAMPLE_BEGIN, SAMPLE, SYSTEM, 0x0F49, 3, 3, 3, "Source", "NewInterval", "OldInterval", "SourceName?")            \
    X(SAMPLE_END, SAMPLE, SYSTEM, 0x0F4A, 3, 3, 3, "Source", "NewInterval", "OldInterval", "SourceName?")              \
    X(PMC_CONFIG, PMC, SYSTEM, 0x0F30, 2, 2, 2, "CounterCount", "CounterName")                                         \
    X(SYSCALL_ENTER, SYSCALL, PERFINFO, 0x0F33, 2, 2, 2, "SysCallAddress")                                             \
    X(SYSCALL_EXIT, SYSCALL, PERFINFO, 0x0F34, 2, 2, 2, "SysCallNtStatus")                                             \
    X(ISR, ISR, PERFINFO, 0x0F43, 2, 2, 2, "InitialTime", "Routine", "ReturnValue", "Vector")                          \
    X(DPC, DPC, PERFINFO, 0x0F44, 2, 2, 2, "InitialTime", "Routine")                                                   \
    X(TIMER_DPC, DPC, PERFINFO, 0x0F45, 2, 2, 2, "InitialTime", "Routine")                                             \
    X(STACK, STACK, PERFINFO, 0x1820, 2, 2, 2, "EventTimeStamp", "StackProcess", "StackThread", "Stack")               \
    X(STACK_KEY_DELETE, STACK, PERFINFO, 0x1823, 2, 2, 2, "key", "StackFrame")                                         \
    X(STACK_KEY_RUNDOWN, STACK, PERFINFO, 0x1824, 2, 2, 2, "key", "StackFrame")                                        \
    X(STACK_KEY_KERNEL, STACK, PERFINFO, 0x1825, 2, 2, 2, "EventTimeStamp", "StackProcess", "StackThread", "StackKey") \
    X(STACK_KEY_USER, STACK, PERFINFO, 0x1826, 2, 2, 2, "EventTimeStamp", "StackProcess", "StackThread", "StackKey")   \
    X(DISK_READ, DISK, PERFINFO, 0x010A, 3, 3, 2, TG_DISK_FIELDS)                                                      \
    X(DISK_WRITE, DISK, PERFINFO, 0x010B, 3, 3, 2, TG_DISK_FIELDS)                                                     \
    X(DISK_READ_INIT, DISK, SYSTEM, 0x010C, 3, 3, 2, "Irp", "IssuingThreadId?")                                        \
    X(DISK_WRITE_INIT, DISK, SYSTEM, 0x010D, 3, 3, 2, "Irp", "IssuingThreadId?")                                       \
    X(DISK_FLUSH, DISK, PERFINFO, 0x010E, 3, 3, 2, "DiskNumber", "IrpFlags", "HighResResponseTime", "Irp",             \
      "IssuingThreadId?")                                                                                              \
    X(DISK_FLUSH_INIT, DISK, SYSTEM, 0x010F, 3, 3, 2, "Irp", "IssuingThreadId?")                                       \
    X(FILE_NAME_CREATE, FILENAME, PERFINFO, 0x0420, 2, 2, 2, "FileObject", "FileName")                                 \
    X(FILE_NAME_DELETE, FILENAME, PERFINFO, 0x0423, 2, 2, 2, "FileObject", "FileName")                                 \
    X(FILE_NAME_RUNDOWN, FILENAME, PERFINFO, 0x0424, 2, 2, 2, "FileObject", "FileName")                                \
    X(FILE_CREATE, FILEIO, SYSTEM, 0x0440, 3, 3, 2, "IrpPtr", "FileObject", "TTID", "CreateOptions", "FileAttributes", \
      "ShareAccess", "OpenPath")                                                                                       \
    X(FILE_CLEANUP, FILEIO, SYSTEM, 0x0441, 3, 3, 2, TG_FILE_FIELDS)                                                   \
    X(FILE_CLOSE, FILEIO, SYSTEM, 0x0442, 3, 3, 2, TG_FILE_FIELDS)                                                     \
    X(FILE_READ, FILEIO, SYSTEM, 0x0443, 3, 3, 2, TG_FILE_FIELDS, "Offset", "IoSize", "IoFlags")                       \
    X(FILE_WRITE, FILEIO, SYSTEM, 0x0444, 3, 3, 2, TG_FILE_FIELDS, "Offset", "IoSize", "IoFlags")                      \
    X(FILE_SET_INFO, FILEIO, SYSTEM, 0x0445, 3, 3, 2, TG_FILE_FIELDS, "ExtraInfo", "InfoClass")                        \
    X(FILE_DELETE, FILEIO, SYSTEM, 0x0446, 3, 3, 2, TG_FILE_FIELDS, "ExtraInfo", "InfoClass")                          \
    X(FILE_QUERY_INFO, FILEIO, SYSTEM, 0x044A, 3, 3, 2, TG_FILE_FIELDS, "ExtraInfo", "InfoClass")                      \
    X(FILE_DIR_ENUM, FILEIO, SYSTEM, 0x0448, 3, 3, 2, TG_FILE_FIELDS, "Length", "InfoClass", "FileIndex", "FileName")  \
    X(FILE_FLUSH, FILEIO, SYSTEM, 0x0449, 3, 3, 2, TG_FILE_FIELDS)                                                     \
    X(FILE_OPERATION_END, FILEIO, SYSTEM, 0x044C, 3, 3, 2, "IrpPtr", "ExtraInfo", "NtStatus")                          \
    X(REG_CREATE, REGISTRY, SYSTEM, 0x090A, 2, 2, 2, TG_REG_FIELDS)                                                    \
    X(REG_OPEN, REGISTRY, SYSTEM, 0x090B, 2, 2, 2, TG_REG_FIELDS)                                                      \
    X(REG_QUERY, REGISTRY, SYSTEM, 0x090D, 2, 2, 2, TG_REG_FIELDS)                                                     \
    X(REG_SET_VALUE, REGISTRY, SYSTEM, 0x090E, 2, 2, 2, TG_REG_FIELDS)                                                 \
    X(REG_DELETE_VALUE, REGISTRY, SYSTEM, 0x090F, 2, 2, 2, TG_REG_FIELDS)                                              \
    X(REG_QUERY_VALUE, REGISTRY, SYSTEM, 0x0910, 2, 2, 2, TG_REG_FIELDS)                                               \
    X(REG_ENUMERATE_KEY, REGISTRY, SYSTEM, 0x0911, 2, 2, 2, TG_REG_FIELDS)                                             \
    X(REG_KCB_CREATE, REGISTRY, SYSTEM, 0x0916, 2, 2, 2, TG_REG_FIELDS)                                                \
    X(REG_KCB_DELETE, REGISTRY, SYSTEM, 0x0917, 2, 2, 2, TG_REG_FIELDS)                                                \
    X(REG_KCB_RUNDOWN_BEGIN, REGISTRY, SYSTEM, 0x0918, 2, 2, 2, TG_REG_FIELDS)                                         \
    X(REG_KCB_RUNDOWN_END, REGISTRY, SYSTEM, 0x0919, 2, 2, 2, TG_REG_FIELDS)                                           \
    X(REG_CLOSE, REGISTRY, SYSTEM, 0x091B, 2, 2, 2, TG_REG_FIELDS)                                                     \
    X(FAULT_TRANSITION, FAULT, PERFINFO, 0x020A, 2, 2, 2, "VirtualAddress", "ProgramCounter")                          \
    X(FAULT_DEMAND_ZERO, FAULT, PERFINFO, 0x020B, 2, 2, 2, "VirtualAddress", "ProgramCounter")                         \
    X(FAULT_COPY_ON_WRITE, FAULT, PERFINFO, 0x020C, 2, 2, 2, "VirtualAddress", "ProgramCounter")                       \
    X(FAULT_HARD, HARDFAULT, PERFINFO, 0x0220, 2, 2, 2, "InitialTime", "ReadOffset", "VirtualAddress", "FileObject",   \
      "TThreadId", "ByteCount")                                                                                        \
    X(VIRTUAL_ALLOC, VIRTUAL, PERFINFO, 0x0262, 2, 2, 2, "BaseAddress", "RegionSize", "ProcessId", "Flags")            \
    X(VIRTUAL_FREE, VIRTUAL, PERFINFO, 0x0263, 2, 2, 2, "BaseAddress", "RegionSize", "ProcessId", "Flags")             \
    X(TCP_SEND4, TCPIP, PERFINFO, 0x060A, 2, 2, 2, TG_NET_FIELDS, "startime", "endtime")                               \
    X(TCP_RECV4, TCPIP, PERFINFO, 0x060B, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(TCP_CONNECT4, TCPIP, PERFINFO, 0x060C, 2, 2, 2, TG_NET_FIELDS, "mss", "rcvwin")                                  \
    X(TCP_DISCONNECT4, TCPIP, PERFINFO, 0x060D, 2, 2, 2, TG_NET_FIELDS)                                                \
    X(TCP_RETRANSMIT4, TCPIP, PERFINFO, 0x060E, 2, 2, 2, TG_NET_FIELDS)                                                \
    X(TCP_ACCEPT4, TCPIP, PERFINFO, 0x060F, 2, 2, 2, TG_NET_FIELDS, "mss", "rcvwin")                                   \
    X(TCP_SEND6, TCPIP, PERFINFO, 0x061A, 2, 2, 2, TG_NET_FIELDS, "startime", "endtime")                               \
    X(TCP_RECV6, TCPIP, PERFINFO, 0x061B, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(TCP_CONNECT6, TCPIP, PERFINFO, 0x061C, 2, 2, 2, TG_NET_FIELDS, "mss", "rcvwin")                                  \
    X(TCP_DISCONNECT6, TCPIP, PERFINFO, 0x061D, 2, 2, 2, TG_NET_FIELDS)                                                \
    X(TCP_RETRANSMIT6, TCPIP, PERFINFO, 0x061E, 2, 2, 2, TG_NET_FIELDS)                                                \
    X(TCP_ACCEPT6, TCPIP, PERFINFO, 0x061F, 2, 2, 2, TG_NET_FIELDS, "mss", "rcvwin")                                   \
    X(UDP_SEND4, UDPIP, PERFINFO, 0x080A, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(UDP_RECV4, UDPIP, PERFINFO, 0x080B, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(UDP_SEND6, UDPIP, PERFINFO, 0x081A, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(UDP_RECV6, UDPIP, PERFINFO, 0x081B, 2, 2, 2, TG_NET_FIELDS)                                                      \
    X(CONFIG_CPU, CONFIG, SYSTEM, 0x0B0A, 3, 3, 2, "MHz", "NumberOfProcessors", "MemSize", "PageSize",                 \
      "AllocationGranularity", "ComputerName", "DomainName")                                                           \
    X(CONFIG_SERVICE, CONFIG, SYSTEM, 0x0B0F, 3, 3, 2, "ProcessId", "ServiceState", "SubProcessTag", "ServiceName",    \
      "DisplayName", "ProcessName", "SvchostGroup?")                                                                   \
    X(CONFIG_NIC, CONFIG, SYSTEM, 0x0B0D, 2, 2, 2, "PhysicalAddr", "PhysicalAddrLen", "Ipv4Index", "Ipv6Index",        \
      "NICDescription", "IpAddresses", "DnsServerAddresses")                                                           \
    X(CONFIG_VOLUME, CONFIG, FULL, 35, 0, 0, 0, "NtPath", "DosPath")                                                   \
    X(CONFIG_PATHS, CONFIG, FULL, 33, 0, 0, 0, "SystemDirectory", "SystemWindowsDirectory")                            \
    X(HANDLE_CREATE, OBJECT, SYSTEM, 0x1120, 2, 2, 2, "Object", "Handle", "ObjectType")                                \
    X(HANDLE_CLOSE, OBJECT, SYSTEM, 0x1121, 2, 2, 2, "Object", "Handle", "ObjectType")                                 \
    X(EVENT_INFO, MANIFEST, FULL, 32, 0, 0, 0, "ProviderGuid", "Id", "Level", "Task", "Keyword", "ProviderNameOffset", \
      "TaskNameOffset", "PropertyCount", "TopLevelPropertyCount", "Properties")                                        \
    X(MAP_INFO, MANIFEST, FULL, 33, 0, 0, 0, "ProviderGuid", "NameOffset", "Flag", "EntryCount", "Entries")            \
    X(LOST_EVENT, LOST, FULL, 32, 0, 0, 0, NULL)                                                                       \
    X(LOST_BUFFER, LOST, FULL, 33, 0, 0, 0, NULL)

#define TG_PROCESS_FIELDS                                                                                              \
    "UniqueProcessKey", "ProcessId", "ParentId", "SessionId", "ExitStatus", "DirectoryTableBase", "Flags?", "UserSID", \
        "ImageFileName", "CommandLine"
#define TG_THREAD_FIELDS                                                                                               \
    "ProcessId", "TThreadId", "StackBase", "StackLimit", "UserStackBase", "UserStackLimit", "Affinity",                \
        "Win32StartAddr", "TebBase", "BasePriority", "PagePriority", "IoPriority", "ThreadName?"
#define TG_IMAGE_FIELDS                                                                                                \
    "ImageBase", "ImageSize", "ProcessId", "ImageChecksum", "TimeDateStamp", "DefaultBase", "FileName"
#define TG_DISK_FIELDS                                                                                                 \
    "DiskNumber", "IrpFlags", "TransferSize", "ByteOffset", "FileObject", "Irp", "HighResResponseTime",                \
        "IssuingThreadId?"
#define TG_FILE_FIELDS "IrpPtr", "FileObject", "FileKey", "TTID"
#define TG_REG_FIELDS  "InitialTime", "Status", "Index", "KeyHandle", "KeyName"
#define TG_NET_FIELDS  "PID", "size", "daddr", "saddr", "dport", "sport", "connid"

// clang-format on

enum tg_form_id {

#define X(name, ...) TG_##name,
    TG_FORMS(X)
#undef X
        TG_FORM_COUNT
};

typedef struct tg_form {
    uint8_t group, header;
    uint16_t hook_id;
    uint8_t versions[3]; /* by enum tg_windows_age */
    const char *const *fields;
} tg_form;

enum tg_windows_age { TG_AGE_10, TG_AGE_8, TG_AGE_7 };

extern const tg_form tg_forms[TG_FORM_COUNT];
extern const char *const tg_group_names[TG_GROUP_COUNT + 1]; /* ends with NULL */

#endif
