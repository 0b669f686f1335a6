/* The tables of kernel_flags.h. */
#include "config/kernel_flags.h"
#include "proto/base/cli.h"
#include "proto/base/text.h"

#include <string.h>

/* clang-format off */
const ea_kernel_flag ea_kernel_flags[] = {
    /* the first word: EVENT_TRACE_FLAG_* */
    {"PROC_THREAD",     0x00000003, "ProcessThread",    NULL,               NULL,                 "processes and threads: start, end, rundown"},
    {"PROCESS",         0x00000001, NULL,               "process",          "Process",            "processes: start, end, rundown"},
    {"THREAD",          0x00000002, NULL,               "thread",           "Thread",             "threads: start, end, rundown"},
    {"LOADER",          0x00000004, "Loader",           "img",              "ImageLoad",          "images: load, unload, rundown"},
    {"PERF_COUNTER",    0x00000008, "ProcessCounter",   "proccntr",         "ProcessCounters",    "a process's memory and fault counts at its end"},
    {"DISK_IO",         0x00000300, "DiskIO",           "disk",             NULL,                 "disk operations at their end, and names of files"},
    {"FILENAME",        0x00000200, "Filename",         "file",             "DiskFileIO",         "names of files: create, delete, rundown"},
    {"DISK_IO_INIT",    0x00000400, "DiskIOInit",       "diskinit",         "DiskIOInit",         "disk operations at their start"},
    {"ALL_FAULTS",      0x00001000, "AllFaults",        "pf",               "Memory",             "all page faults"},
    {"HARD_FAULTS",     0x00002000, "HardFaults",       "hf",               "MemoryHardFaults",   "page faults that read from a disk"},
    {"VAMAP",           0x00008000, "VAMap",            NULL,               "VAMap",              "files mapped into memory"},
    {"NETWORKTRACE",    0x00010000, "NetworkTrace",     "net",              "NetworkTCPIP",       "TCP and UDP: connect, accept, send, receive, disconnect"},
    {"REGISTRY",        0x00020000, "Registry",         "registry",         "Registry",           "registry operations"},
    {"DBGPRINT",        0x00040000, "DebugPrint",       "dbgprint",         NULL,                 "text that drivers print for a debugger"},
    {"JOB",             0x00080000, NULL,               "job",              "Job",                "jobs: create, assign, limits"},
    {"ALPC",            0x00100000, "ALPC",             "alpc",             "AdvancedLocalProcedureCalls", "local procedure calls"},
    {"SPLIT_IO",        0x00200000, "SplitIO",          "splitio",          "SplitIO",            "disk operations that a volume manager split"},
    {"DEBUG_EVENTS",    0x00400000, "DebugEvents",      NULL,               NULL,                 "debugger events of processes"},
    {"FILE_IO",         0x02000000, "FileIO",           "fileiocompletion", "FileIO",             "file operations at their end, with their result"},
    {"FILE_IO_INIT",    0x04000000, "FileIOInit",       "fileio",           "FileIOInit",         "file operations at their start"},
    {"NO_SYSCONFIG",    0x10000000, NULL,               NULL,               NULL,                 "leave out the description of the hardware at the end"},
    /* the second word */
    {"MEMORY",          0x20000001, "Memory",           NULL,               NULL,                 "pages and working sets"},
    {"PROFILE",         0x20000002, "SampledProfile",   "profile",          "Profile",            "a sample of each processor at the profile interval"},
    {"CSWITCH",         0x20000004, "CSwitch",          "cswitch",          "ContextSwitch",      "context switches"},
    {"FOOTPRINT",       0x20000008, "FootPrint",        NULL,               NULL,                 "footprint: working sets emptied at each mark"},
    {"DRIVERS",         0x20000010, "Drivers",          "driver",           "Driver",             "calls of drivers for disk operations"},
    {"REFSET",          0x20000020, "ReferenceSet",     NULL,               "ReferenceSet",       "reference set: footprint with marks at start and stop"},
    {"POOL",            0x20000040, "Pool",             NULL,               NULL,                 "kernel pool: allocate, free"},
    {"DPC",             0x20000080, "DPC",              "dpc",              "DeferedProcedureCalls", "deferred procedure calls"},
    {"COMPACT_CSWITCH", 0x20000100, "CompactCSwitch",   NULL,               NULL,                 "context switches in a compact form"},
    {"DISPATCHER",      0x20000200, "ReadyThread",      "dispatcher",       "Dispatcher",         "threads that become ready, and by whom"},
    {"PMC_PROFILE",     0x20000400, "PmcProfile",       NULL,               "PMCProfile",         "a sample at each overflow of a performance counter"},
    {"PROCESS_INSWAP",  0x20000800, "ProcessInSwap",    NULL,               NULL,                 "processes swapped in"},
    {"AFFINITY",        0x20001000, "Affinity",         NULL,               NULL,                 "changes of affinity"},
    {"PRIORITY",        0x20002000, "Priority",         NULL,               "ThreadPriority",     "changes of thread priority"},
    {"INTERRUPT",       0x20004000, "Interrupt",        "isr",              "Interrupt",          "interrupt service routines"},
    {"VIRT_ALLOC",      0x20008000, "VirtualAllocation", "virtalloc",       "VirtualAlloc",       "virtual memory: allocate, free"},
    {"SPINLOCK",        0x20010000, "SpinLock",         NULL,               NULL,                 "collisions of spin locks"},
    {"SYNC_OBJECTS",    0x20020000, "SynchronizationObjects", NULL,         NULL,                 "waits for synchronisation objects"},
    {"DPC_QUEUE",       0x20040000, "DPCQueue",         NULL,               NULL,                 "deferred procedure calls as they are queued"},
    {"MEMINFO",         0x20080000, "MemoryInfo",       NULL,               NULL,                 "memory lists, twice a second"},
    {"CONTMEM_GEN",     0x20100000, "ContiguousMemorygeneration", NULL,     NULL,                 "contiguous memory"},
    {"SPINLOCK_CNTRS",  0x20200000, "SpinLockCounters", NULL,               NULL,                 "counters of spin locks"},
    {"SESSION",         0x20400000, "Session",          NULL,               NULL,                 "terminal sessions: create, delete, rundown"},
    {"MEMINFO_WS",      0x20800000, "MemoryInfoWS",     NULL,               NULL,                 "working sets of all processes, twice a second"},
    {"KERNEL_QUEUE",    0x21000000, "KernelQueue",      NULL,               NULL,                 "kernel queues: enqueue, dequeue"},
    {"INTERRUPT_STEER", 0x22000000, "InterruptSteer",   NULL,               NULL,                 "interrupts moved between processors"},
    {"SHOULD_YIELD",    0x24000000, "ShouldYield",      NULL,               NULL,                 "processors asked to yield by a DPC"},
    {"WS",              0x28000000, NULL,               NULL,               NULL,                 "changes of working sets"},
    /* the third word */
    {"ANTI_STARVATION", 0x40000001, "AntiStarvation",   NULL,               NULL,                 "boosts of starved threads"},
    {"PROCESS_FREEZE",  0x40000002, "ProcessFreeze",    NULL,               NULL,                 "processes frozen and thawed"},
    {"PFN_LIST",        0x40000004, "PFNList",          NULL,               NULL,                 "lists of page frames"},
    {"HEAP",            0x40000020, NULL,               NULL,               NULL,                 "heaps of processes"},
    {"SYSCALL",         0x40000040, "SystemCall",       "syscall",          "SystemCall",         "system calls: enter, exit"},
    {"OBJECTS",         0x40000400, "Objects",          NULL,               NULL,                 "objects: reference, dereference"},
    {"PROCESSOR_IDLE",  0x40008000, NULL,               NULL,               NULL,                 "processors that become idle"},
    {"CPU_CONFIG",      0x40010000, "CpuConfig",        NULL,               NULL,                 "processors, groups, NUMA nodes"},
    {"TIMER",           0x40020000, "Timer",            NULL,               NULL,                 "kernel timers: set, cancel, expire"},
    {"CLOCK_INTERRUPT", 0x40040000, "ClockInterrupt",   NULL,               NULL,                 "clock interrupts"},
    {"LOAD_BALANCER",   0x40080000, NULL,               NULL,               NULL,                 "threads that the scheduler moves between processors"},
    {"CLOCK_TIMER",     0x40100000, "ClockTimer",       NULL,               NULL,                 "changes of the clock's rate"},
    {"IDLE_STATES",     0x40200000, "IdleStates",       NULL,               NULL,                 "choice of idle states"},
    {"IPI",             0x40400000, "InterProcessorInterrupt", NULL,        NULL,                 "interrupts between processors"},
    {"IO_TIMER",        0x40800000, "IOTimer",          NULL,               NULL,                 "timers of devices"},
    {"REG_HIVE",        0x41000000, "RegistryHive",     NULL,               NULL,                 "registry hives: load, unload, dirty"},
    {"REG_NOTIF",       0x42000000, "RegistryNotify",   NULL,               NULL,                 "registry notifications"},
    {"PPM_EXIT_LATENCY", 0x44000000, NULL,               NULL,               NULL,                 "times that processors take to leave an idle state"},
    {"WORKER_THREAD",   0x48000000, "WorkerThread",     NULL,               NULL,                 "system worker threads"},
    /* the fifth word */
    {"OPTICAL_IO",      0x80000001, "OpticalIO",        NULL,               NULL,                 "optical disks: operations at their end"},
    {"OPTICAL_IO_INIT", 0x80000002, "OpticalIOInit",    NULL,               NULL,                 "optical disks: operations at their start"},
    {"DLL_INFO",        0x80000008, "DllInfo",          NULL,               NULL,                 "sections of images"},
    {"OB_HANDLE",       0x80000040, "Handle",           NULL,               "Handle",             "handles: create, close, duplicate, rundown"},
    {"OB_OBJECT",       0x80000080, "Object",           NULL,               "Object",             "objects: create, delete"},
    {"WAKE_DROP",       0x80000200, NULL,               NULL,               NULL,                 "wake counters of processes: dropped"},
    {"WAKE_EVENT",      0x80000400, NULL,               NULL,               NULL,                 "wake counters of processes: events"},
    {"WAKE_COUNTER",    0x80002000, NULL,               NULL,               NULL,                 "wake counters of processes"},
    {"POWER",           0x80008000, "Power",            NULL,               "Power",              "power states, and calls of drivers for them"},
    {"CC",              0x80020000, "CC",               NULL,               NULL,                 "the cache manager"},
    {"FLT_IO_INIT",     0x80080000, "MiniFilterPreOpInit", NULL,            NULL,                 "file-system filters: operations at their start"},
    {"FLT_IO",          0x80100000, "MiniFilter",       NULL,               NULL,                 "file-system filters: operations at their end"},
    {"FLT_FASTIO",      0x80200000, "MiniFilterFastIo", NULL,               NULL,                 "file-system filters: fast operations"},
    {"FLT_IO_FAILURE",  0x80400000, "MiniFilterFailure", NULL,              NULL,                 "file-system filters: failures"},
    {"HV_PROFILE",      0x80800000, NULL,               NULL,               NULL,                 "samples of the hypervisor"},
    {"WDF_DPC",         0x81000000, "WDFDPC",           NULL,               NULL,                 "deferred procedure calls of framework drivers"},
    {"WDF_INTERRUPT",   0x82000000, "WDFInterrupt",     NULL,               NULL,                 "interrupts of framework drivers"},
    {"CACHE_FLUSH",     0x84000000, "CacheFlush",       NULL,               NULL,                 "processor caches flushed"},
    /* the sixth word */
    {"HIBER_RUNDOWN",   0xa0000001, NULL,               NULL,               NULL,                 "what hibernation logged"},
    /* the seventh word: parts of the description of the hardware */
    {"SYSCFG_SYSTEM",   0xc0000001, NULL,               NULL,               NULL,                 "description of the system"},
    {"SYSCFG_GRAPHICS", 0xc0000002, NULL,               NULL,               NULL,                 "description of the graphics"},
    {"SYSCFG_STORAGE",  0xc0000004, NULL,               NULL,               NULL,                 "description of the storage"},
    {"SYSCFG_NETWORK",  0xc0000008, NULL,               NULL,               NULL,                 "description of the network"},
    {"SYSCFG_SERVICES", 0xc0000010, NULL,               NULL,               NULL,                 "description of the services"},
    {"SYSCFG_PNP",      0xc0000020, NULL,               NULL,               NULL,                 "description of plug-and-play devices"},
    {"SYSCFG_OPTICAL",  0xc0000040, NULL,               NULL,               NULL,                 "description of optical disks"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const ea_kernel_group ea_kernel_groups[] = {
    {"Base",         "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+PROFILE+MEMINFO+MEMINFO_WS"},
    {"Diag",         "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER+COMPACT_CSWITCH"},
    {"DiagEasy",     "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER"},
    {"Latency",      "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PROFILE"},
    {"FileIO",       "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+FILE_IO+FILE_IO_INIT"},
    {"IOTrace",      "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+CSWITCH"},
    {"ResumeTrace",  "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+PROFILE+POWER"},
    {"SysProf",      "PROC_THREAD+LOADER+PROFILE"},
    {"ResidentSet",  "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+MEMORY+MEMINFO+VAMAP+SESSION+VIRT_ALLOC"},
    {"ReferenceSet", "PROC_THREAD+LOADER+HARD_FAULTS+MEMORY+FOOTPRINT+VIRT_ALLOC+MEMINFO+VAMAP+SESSION+REFSET+MEMINFO_WS"},
    {"Network",      "PROC_THREAD+LOADER+NETWORKTRACE"},
    {NULL, NULL},
};

const ea_kernel_stack ea_kernel_stacks[] = {
    {"ProcessCreate",           "ProcessCreate",             "Process/Start"},
    {"ProcessDelete",           "ProcessDelete",             "Process/End"},
    {"ImageLoad",               "ImageLoad",                 "Image/Load"},
    {"ImageUnload",             "ImageUnload",               "Image/UnLoad"},
    {"ThreadCreate",            "ThreadCreate",              "Thread/Start"},
    {"ThreadDelete",            "ThreadDelete",              "Thread/End"},
    {"CSwitch",                 "CSwitch",                   "Thread/CSwitch"},
    {"ReadyThread",             "ReadyThread",               "Thread/ReadyThread"},
    {"ThreadSetPriority",       "ThreadSetPriority",         "Thread/SetPriority"},
    {"ThreadSetBasePriority",   "ThreadSetBasePriority",     "Thread/SetBasePriority"},
    {"KernelQueueEnqueue",      "KernelQueueEnqueue",        "Thread/Kernel Queue Enqueue"},
    {"KernelQueueDequeue",      "KernelQueueDequeue",        "Thread/Kernel Queue Dequeue"},
    {"Profile",                 "SampledProfile",            "PerfInfo/SampleProf"},
    {"ProfileSetInterval",      "ProfileSetInterval",        "PerfInfo/SetInterval"},
    {"PmcInterrupt",            "PmcInterrupt",              "PerfInfo/PmcCounterProf"},
    {"SyscallEnter",            "SyscallEnter",              "PerfInfo/SysClEnter"},
    {"SyscallExit",             "SyscallExit",               "PerfInfo/SysClExit"},
    {"Mark",                    "Mark",                      "PerfInfo/Mark"},
    {"TimerSetOneShot",         "TimerSetOneShot",           "PerfInfo/TimerSetOneShot"},
    {"TimerSetPeriodic",        "TimerSetPeriodic",          "PerfInfo/TimerSetPeriodic"},
    {"CacheFlush",              "CacheFlush",                "PerfInfo/CpuCacheFlush"},
    {"DpcEnqueue",              "DpcEnqueue",                "PerfInfo/DpcEnqueue"},
    {"SpinLockAcquire",         "SpinLockAcquire",           "PerfInfo/SpinLockAcquire"},
    {"SpinLockRelease",         "SpinLockRelease",           "PerfInfo/SpinLockRelease"},
    {"DiskReadInit",            "DiskReadInit",              "DiskIo/ReadInit"},
    {"DiskWriteInit",           "DiskWriteInit",             "DiskIo/WriteInit"},
    {"DiskFlushInit",           "DiskFlushInit",             "DiskIo/FlushInit"},
    {"FileCreate",              "FileCreate",                "FileIo/Create"},
    {"FileCleanup",             "FileCleanup",               "FileIo/Cleanup"},
    {"FileClose",               "FileClose",                 "FileIo/Close"},
    {"FileRead",                "FileRead",                  "FileIo/Read"},
    {"FileWrite",               "FileWrite",                 "FileIo/Write"},
    {"FileSetInformation",      "FileSetInformation",        "FileIo/SetInfo"},
    {"FileDelete",              "FileDelete",                "FileIo/Delete"},
    {"FileRename",              "FileRename",                "FileIo/Rename"},
    {"FileDirEnum",             "FileDirEnum",               "FileIo/DirEnum"},
    {"FileDirNotify",           "FileDirNotify",             "FileIo/DirNotify"},
    {"FileFlush",               "FileFlush",                 "FileIo/Flush"},
    {"FileQueryInformation",    "FileQueryInformation",      "FileIo/QueryInfo"},
    {"FileFSCTL",               "FileFSCTL",                 "FileIo/FSControl"},
    {"FileOpEnd",               "FileOpEnd",                 "FileIo/OperationEnd"},
    {"MapFile",                 "MapFile",                   "FileIo/MapFile"},
    {"UnMapFile",               "UnMapFile",                 "FileIo/UnmapFile"},
    {"MiniFilterPreOpInit",     "MiniFilterPreOpInit",       "FileIo/PreOpInit"},
    {"MiniFilterPostOpInit",    "MiniFilterPostOpInit",      "FileIo/PostOpInit"},
    {"SplitIO",                 "SplitIO",                   "SplitIo/VolMgr"},
    {"HardFault",               "HardFault",                 "PageFault/HardFault"},
    {"PagefaultTransition",     "PagefaultTransition",       "PageFault/TransitionFault"},
    {"PagefaultDemandZero",     "PagefaultDemandZero",       "PageFault/DemandZeroFault"},
    {"PagefaultCopyOnWrite",    "PagefaultCopyOnWrite",      "PageFault/CopyOnWrite"},
    {"PagefaultGuard",          "PagefaultGuard",            "PageFault/GuardPageFault"},
    {"PagefaultHard",           "PagefaultHard",             "PageFault/HardPageFault"},
    {"PagefaultAV",             "PagefaultAV",               "PageFault/AccessViolation"},
    {"VirtualAlloc",            "VirtualAllocation",         "PageFault/VirtualAlloc"},
    {"VirtualFree",             "VirtualFree",               "PageFault/VirtualFree"},
    {"PageAccess",              "PageAccess",                "PageFault/PageAccess"},
    {"PageAccessEx",            "PageAccessEx",              "PageFault/PageAccessEx"},
    {"PageRelease",             "PageRelease",               "PageFault/PageRelease"},
    {"PageRangeAccess",         "PageRangeAccess",           "PageFault/PageRangeAccess"},
    {"PageRangeRelease",        "PageRangeRelease",          "PageFault/PageRangeRelease"},
    {"PageRemovefromWS",        "PageRemovefromWS",          "PageFault/RemoveFromWs"},
    {"ContiguousMemoryGeneration", "ContiguousMemoryGeneration", "PageFault/ContiguousPageGenerate"},
    {"PoolAlloc",               "PoolAllocation",            "Pool/PoolAllocation"},
    {"PoolFree",                "PoolFree",                  "Pool/PoolFree"},
    {"PoolAllocSession",        "PoolAllocationSession",     "Pool/SessionPoolAllocation"},
    {"PoolFreeSession",         "PoolFreeSession",           "Pool/SessionPoolFree"},
    {"RegQueryKey",             "RegistryQueryKey",          "Registry/Query"},
    {"RegEnumerateKey",         "RegistryEnumerateKey",      "Registry/EnumerateKey"},
    {"RegEnumerateValueKey",    "RegistryEnumerateValueKey", "Registry/EnumerateValueKey"},
    {"RegDeleteKey",            "RegistryDeleteKey",         "Registry/Delete"},
    {"RegCreateKey",            "RegistryCreateKey",         "Registry/Create"},
    {"RegOpenKey",              "RegistryOpenKey",           "Registry/Open"},
    {"RegSetValue",             "RegistrySetValue",          "Registry/SetValue"},
    {"RegDeleteValue",          "RegistryDeleteValue",       "Registry/DeleteValue"},
    {"RegQueryValue",           "RegistryQueryValue",        "Registry/QueryValue"},
    {"RegQueryMultipleValue",   "RegistryQueryMultipleValue", "Registry/QueryMultipleValue"},
    {"RegSetInformation",       "RegistrySetInformation",    "Registry/SetInformation"},
    {"RegFlush",                "RegistryFlush",             "Registry/Flush"},
    {"RegKcbCreate",            "RegistryKcbCreate",         "Registry/KCBCreate"},
    {"RegKcbDelete",            "RegistryKcbDelete",         "Registry/KCBDelete"},
    {"RegVirtualize",           "RegistryVirtualize",        "Registry/Virtualize"},
    {"RegCloseKey",             "RegistryCloseKey",          "Registry/Close"},
    {"RegHiveInit",             "RegistryHiveInit",          "Registry/HiveInit"},
    {"RegHiveDestroy",          "RegistryHiveDestroy",       "Registry/HiveDestroy"},
    {"RegHiveLink",             "RegistryHiveLink",          "Registry/HiveLink"},
    {"RegHiveDirty",            "RegistryHiveDirty",         "Registry/HiveDirty"},
    {"HandleCreate",            "HandleCreate",              "Object/CreateHandle"},
    {"HandleClose",             "HandleClose",               "Object/CloseHandle"},
    {"HandleDuplicate",         "HandleDuplicate",           "Object/DuplicateHandle"},
    {"ObjectCreate",            "ObjectCreate",              "Object/CreateObject"},
    {"ObjectDelete",            "ObjectDelete",              "Object/DeleteObject"},
    {"ObjectReference",         "ObjectReference",           "Object/ReferenceObject"},
    {"ObjectDereference",       "ObjectDeReference",         "Object/DereferenceObject"},
    {"PowerSetPowerAction",     "PowerSetPowerAction",       "Power/SetPowerAction"},
    {"PowerSetPowerActionReturn", "PowerSetPowerActionReturn", "Power/SetPowerActionRet"},
    {"PowerSetDevicesState",    "PowerSetDevicesState",      "Power/SetDevicesState"},
    {"PowerSetDevicesStateReturn", "PowerSetDevicesStateReturn", "Power/SetDevicesStateRet"},
    {"PowerDeviceNotify",       "PowerDeviceNotify",         "Power/NotifyDevice"},
    {"PowerDeviceNotifyComplete", "PowerDeviceNotifyComplete", "Power/NotifyDeviceComplete"},
    {"PowerSessionCallout",     "PowerSessionCallout",       "Power/SessionCallout"},
    {"PowerSessionCalloutReturn", "PowerSessionCalloutReturn", "Power/SessionCalloutRet"},
    {"PowerPreSleep",           "PowerPreSleep",             "Power/PreSleep"},
    {"PowerPostSleep",          "PowerPostSleep",            "Power/PostSleep"},
    {"PowerIdleStateChange",    "PowerIdleStateChange",      "Power/PpmIdleStateChange"},
    {"PowerPerfStateChange",    "PowerPerfStateChange",      "Power/PpmPerfStateChange"},
    {"PowerThermalConstraint",  "PowerThermalConstraint",    "Power/PpmThermalConstraint"},
    {"AlpcSendMessage",         "AlpcSendMessage",           "ALPC/ALPC-Send-Message"},
    {"AlpcReceiveMessage",      "AlpcReceiveMessage",        "ALPC/ALPC-Receive-Message"},
    {"AlpcWaitForReply",        "AlpcWaitForReply",          "ALPC/ALPC-Wait-For-Reply"},
    {"AlpcWaitForNewMessage",   "AlpcWaitForNewMessage",     "ALPC/ALPC-Wait-For-New-Message"},
    {"AlpcUnwait",              "AlpcUnwait",                "ALPC/ALPC-Unwait"},
    {"CcWorkitemEnqueue",       "CcWorkitemEnqueue",         "Cc/WorkItemEnqueue"},
    {"CcWorkitemDequeue",       "CcWorkitemDequeue",         "Cc/WorkItemDequeue"},
    {"CcWorkitemComplete",      "CcWorkitemComplete",        "Cc/WorkItemComplete"},
    {"CcReadAhead",             "CcReadAhead",               "Cc/ReadAhead"},
    {"CcWriteBehind",           "CcWriteBehind",             "Cc/WriteBehind"},
    {"CcLazyWriteScan",         "CcLazyWriteScan",           "Cc/LazyWriteScan"},
    {"CcCanIWriteFail",         "CcCanIWriteFail",           "Cc/CanIWriteFail"},
    {"CcFlushCache",            "CcFlushCache",              "Cc/FlushCache"},
    {"CcFlushSection",          "CcFlushSection",            "Cc/FlushSection"},
    {NULL,                      "HeapCreate",                "Heap/Create"},
    {NULL,                      "HeapDestroy",               "Heap/Destroy"},
    {NULL,                      "HeapAllocation",            "Heap/Alloc"},
    {NULL,                      "HeapReallocation",          "Heap/ReAlloc"},
    {NULL,                      "HeapFree",                  "Heap/Free"},
    {NULL, NULL, NULL},
};

/* clang-format on */

/* Both ASCII, in any case. */
static int kernel_flags_same(const char *a, const char *b, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned x = (unsigned char)a[i], y = (unsigned char)b[i];
        if ((x >= 'A' && x <= 'Z' ? x + 32 : x) != (y >= 'A' && y <= 'Z' ? y + 32 : y) || !x)
            return 0;
    }
    return a[len] == 0;
}

int ea_kernel_name_is(const char *row, const char *name, size_t len) {
    return row && kernel_flags_same(row, name, len);
}

const ea_kernel_flag *ea_kernel_flag_find(const char *name, size_t len) {
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++)
        if (kernel_flags_same(f->name, name, len))
            return f;
    return NULL;
}

const ea_kernel_group *ea_kernel_group_find(const char *name, size_t len) {
    for (const ea_kernel_group *g = ea_kernel_groups; g->name; g++)
        if (kernel_flags_same(g->name, name, len))
            return g;
    return NULL;
}

const char *ea_kernel_flag_nearest(const char *name) {
    static const char *const PREFIXES[] = {"EVENT_TRACE_FLAG_", "PERF_"}; /* of the headers' names */
    const char *nearest = NULL;
    size_t best = 4;
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++)
        if (strncmp(name, PREFIXES[i], strlen(PREFIXES[i])) == 0)
            name += strlen(PREFIXES[i]);
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++) {
        size_t d = ea_name_distance(f->name, name);
        if (d < best) {
            best = d;
            nearest = f->name;
        }
    }
    return nearest;
}
