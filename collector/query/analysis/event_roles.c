/* See event_roles.h. */
#include "collector/query/analysis/event_roles.h"
#include "proto/base/provider_guids.h"

#include <string.h>

const char EC_OPERATION_IN[] = "read", EC_OPERATION_OUT[] = "write";

typedef struct role_row {
    const char *class_name;
    enum ec_role role;
    const char *text;
    const char *fields[EC_EVENT_CURSOR_FIELDS];
} role_row;

// clang-format off
#define DISK_FIELDS {"Irp", "HighResResponseTime", "FileObject", "TransferSize", "DiskNumber", "IssuingThreadId"}
#define INTERVAL_FIELDS {"Source", "NewInterval", "SourceName"}
#define INTERRUPT_FIELDS {"InitialTime", "Routine"}
#define FILE_FIELDS {"IrpPtr", "FileObject"}
#define NETWORK_FIELDS {"size", "", "PID"}
static const role_row ROLES[] = {
    {"Thread/CSwitch", EC_ROLE_SWITCH, NULL, {"NewThreadId", "OldThreadId", "OldThreadState", "OldThreadWaitReason"}},
    {"Thread/CompCS", EC_ROLE_COMPACT_SWITCHES, NULL, {NULL}},
    {"Thread/ReadyThread", EC_ROLE_READY, NULL, {"TThreadId"}},
    {"Thread/Start", EC_ROLE_THREAD_BEGIN, NULL, {"TThreadId"}},
    {"Thread/End", EC_ROLE_THREAD_END, NULL, {"TThreadId"}},
    {"LostEvent/RTLostEvent", EC_ROLE_LOST, NULL, {NULL}},
    {"LostEvent/RTLostBuffer", EC_ROLE_LOST, NULL, {NULL}},
    {"LostEvent/RTLostFile", EC_ROLE_LOST, NULL, {NULL}},
    {"PerfInfo/SampleProf", EC_ROLE_CPU_SAMPLE, NULL, {"ThreadId", "InstructionPointer", "Count"}},
    {"PerfInfo/PmcCounterProf", EC_ROLE_COUNTER_SAMPLE, NULL, {"ThreadId", "InstructionPointer", "ProfileSource"}},
    {"PerfInfo/SetInterval", EC_ROLE_SAMPLE_INTERVAL, NULL, INTERVAL_FIELDS},
    {"PerfInfo/CollectionStart", EC_ROLE_SAMPLE_INTERVAL, NULL, INTERVAL_FIELDS},
    {"PerfInfo/PmcCtrConrruption", EC_ROLE_COUNTER_CORRUPTION, "corruption", {"ProcessorNumber", "CounterStatus"}},
    {"PerfInfo/ISR", EC_ROLE_INTERRUPT, "isr", INTERRUPT_FIELDS},
    {"PerfInfo/ISR-MSI", EC_ROLE_INTERRUPT, "isr", INTERRUPT_FIELDS},
    {"PerfInfo/ISR-PASS", EC_ROLE_INTERRUPT, "isr", INTERRUPT_FIELDS},
    {"PerfInfo/DPC", EC_ROLE_INTERRUPT, "dpc", INTERRUPT_FIELDS},
    {"PerfInfo/TimerDPC", EC_ROLE_INTERRUPT, "timer_dpc", INTERRUPT_FIELDS},
    {"PerfInfo/ThreadedDPC", EC_ROLE_INTERRUPT, "threaded_dpc", INTERRUPT_FIELDS},
    {"DiskIo/ReadInit", EC_ROLE_DISK_BEGIN, NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/WriteInit", EC_ROLE_DISK_BEGIN, NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/FlushInit", EC_ROLE_FLUSH_BEGIN, NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/Read", EC_ROLE_DISK_END, EC_OPERATION_IN, DISK_FIELDS},
    {"DiskIo/Write", EC_ROLE_DISK_END, EC_OPERATION_OUT, DISK_FIELDS},
    {"DiskIo/FlushBuffers", EC_ROLE_FLUSH_END, "flush", {"Irp", "HighResResponseTime", "", "", "DiskNumber", "IssuingThreadId"}},
    {"FileIo/Create", EC_ROLE_FILE_BEGIN, "create", FILE_FIELDS},
    {"FileIo/Cleanup", EC_ROLE_FILE_BEGIN, "cleanup", FILE_FIELDS},
    {"FileIo/Close", EC_ROLE_FILE_BEGIN, "close", FILE_FIELDS},
    {"FileIo/Read", EC_ROLE_FILE_BEGIN, EC_OPERATION_IN, FILE_FIELDS},
    {"FileIo/Write", EC_ROLE_FILE_BEGIN, EC_OPERATION_OUT, FILE_FIELDS},
    {"FileIo/SetInfo", EC_ROLE_FILE_BEGIN, "set_info", FILE_FIELDS},
    {"FileIo/Delete", EC_ROLE_FILE_BEGIN, "delete", FILE_FIELDS},
    {"FileIo/Rename", EC_ROLE_FILE_BEGIN, "rename", FILE_FIELDS},
    {"FileIo/DirEnum", EC_ROLE_FILE_BEGIN, "dir_enum", FILE_FIELDS},
    {"FileIo/Flush", EC_ROLE_FILE_BEGIN, "flush", FILE_FIELDS},
    {"FileIo/QueryInfo", EC_ROLE_FILE_BEGIN, "query_info", FILE_FIELDS},
    {"FileIo/FSControl", EC_ROLE_FILE_BEGIN, "fs_control", FILE_FIELDS},
    {"FileIo/OperationEnd", EC_ROLE_FILE_END, NULL, {"IrpPtr"}},
    {"FileIo/Read", EC_ROLE_FILE_TRANSFER, EC_OPERATION_IN, {"IoSize", "TTID"}},
    {"FileIo/Write", EC_ROLE_FILE_TRANSFER, EC_OPERATION_OUT, {"IoSize", "TTID"}},
    {"TcpIp/RecvIPV4", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"TcpIp/SendIPV4", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"TcpIp/RecvIPV6", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"TcpIp/SendIPV6", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"TcpIp/Recv", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"TcpIp/Send", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"UdpIp/RecvIPV4", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"UdpIp/SendIPV4", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"UdpIp/RecvIPV6", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"UdpIp/SendIPV6", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"UdpIp/Recv", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_IN, NETWORK_FIELDS},
    {"UdpIp/Send", EC_ROLE_NETWORK_TRANSFER, EC_OPERATION_OUT, NETWORK_FIELDS},
    {"PageFault/HardFault", EC_ROLE_HARD_FAULT, NULL, {"InitialTime", "FileObject", "TThreadId", "ByteCount"}},
    {"PageFault/TransitionFault", EC_ROLE_FAULT, NULL, {NULL}},
    {"PageFault/DemandZeroFault", EC_ROLE_FAULT, NULL, {NULL}},
    {"PageFault/CopyOnWrite", EC_ROLE_FAULT, NULL, {NULL}},
    {"PageFault/GuardPageFault", EC_ROLE_FAULT, NULL, {NULL}},
    {"PageFault/HardPageFault", EC_ROLE_FAULT, NULL, {NULL}},
    {"PageFault/AccessViolation", EC_ROLE_FAULT, NULL, {NULL}},
    {".NET/GCStart", EC_ROLE_GC_BEGIN, NULL, {"ClrInstanceID", "Count", "Depth", "Reason", "Type"}},
    {".NET/GCEnd", EC_ROLE_GC_END, NULL, {"ClrInstanceID", "Count"}},
    {".NET/GCSuspendEEBegin", EC_ROLE_GC_SUSPEND, NULL, {"ClrInstanceID", "Reason"}},
    {".NET/GCSuspendEEEnd", EC_ROLE_GC_SUSPENDED, NULL, {"ClrInstanceID"}},
    {".NET/GCRestartEEEnd", EC_ROLE_GC_RESTARTED, NULL, {"ClrInstanceID"}},
    {".NET/GCHeapStats", EC_ROLE_GC_HEAPS, NULL, {"ClrInstanceID", "GenerationSize0", "GenerationSize1", "GenerationSize2", "GenerationSize3", "GenerationSize4"}},
    {".NET/GCPerHeapHistory", EC_ROLE_GC_HISTORY, NULL, {"ClrInstanceID", "Count", "Values"}},
    {".NET/MethodJittingStarted", EC_ROLE_JIT_BEGIN, NULL, {"ClrInstanceID", "MethodID", "MethodILSize", "MethodNamespace", "MethodName"}},
    {".NET/MethodLoadVerbose", EC_ROLE_JIT_END, NULL, {"ClrInstanceID", "MethodID", "MethodSize", "MethodFlags"}},
};

// clang-format on

/* Events of Microsoft-Windows-Kernel-Network, by id: sent and received, over TCP and UDP, of IPv4 and IPv6. NULL: of
 * another provider. */
static const char *kernel_network_name(const ea_class *c) {
    static const ea_guid KERNEL_NETWORK = EA_PROVIDER_KERNEL_NETWORK;
    if (c->classic || memcmp(&c->provider, &KERNEL_NETWORK, sizeof KERNEL_NETWORK) != 0)
        return NULL;
    switch (c->code) {
    case 10:
    case 26:
    case 42:
    case 58:
        return "UdpIp/SendIPV4";
    case 11:
    case 27:
    case 43:
    case 59:
        return "UdpIp/RecvIPV4";
    default:
        return NULL;
    }
}

/* Events of Microsoft-Windows-DotNETRuntime, by id. NULL: of another provider, or not among the roles. */
static const char *dotnet_name(const ea_class *c) {
    static const ea_guid RUNTIME = EA_PROVIDER_DOTNET_RUNTIME;
    if (c->classic || c->status == EA_CLASS_UNKNOWN || memcmp(&c->provider, &RUNTIME, sizeof RUNTIME) != 0)
        return NULL;
    switch (c->code) {
    case 1:
        return ".NET/GCStart";
    case 2:
        return ".NET/GCEnd";
    case 3:
        return ".NET/GCRestartEEEnd";
    case 4:
        return ".NET/GCHeapStats";
    case 8:
        return ".NET/GCSuspendEEEnd";
    case 9:
        return ".NET/GCSuspendEEBegin";
    case 143:
        return ".NET/MethodLoadVerbose";
    case 145:
        return ".NET/MethodJittingStarted";
    case 204:
        return ".NET/GCPerHeapHistory";
    default:
        return NULL;
    }
}

int16_t ec_class_field(const ea_class *c, const char *name) {
    for (size_t i = 0; i < ea_class_top_count(c); i++)
        if (strcmp(c->fields[ea_class_top_field(c, i)].name, name) == 0)
            return (int16_t)i;
    return -1;
}

enum ec_role ec_role_of(const ea_class *c, uint32_t wanted, unsigned field_count, ec_event_cursor_plan *ret,
                        const char **ret_text) {
    const char *network = kernel_network_name(c), *dotnet = dotnet_name(c);
    const char *name = network ? network : dotnet ? dotnet : c->name;
    for (unsigned k = 0; k < EC_EVENT_CURSOR_FIELDS; k++)
        ret->fields[k] = -1;
    if (ret_text)
        *ret_text = NULL;
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        const role_row *r = &ROLES[i];
        if (!(wanted >> r->role & 1) || strcmp(name, r->class_name) != 0)
            continue;
        for (unsigned k = 0; k < field_count && k < EC_EVENT_CURSOR_FIELDS && r->fields[k]; k++)
            ret->fields[k] = ec_class_field(c, r->fields[k]);
        if (ret_text)
            *ret_text = r->text;
        return r->role;
    }
    return EC_ROLE_NONE;
}
