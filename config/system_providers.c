/* The table of system_providers.h. */
#include "config/system_providers.h"

#include "config/kernel_flags.h"
#include "proto/base/text.h"

#include <string.h>

/* clang-format off */
static const ea_system_provider providers[] = {
    {"SystemAlpcProvider", "SYSTEM_ALPC_KW_", EA_GUID(0xfcb9baaf, 0xe529, 0x4980, 0x92, 0xe9, 0xce, 0xd1, 0xa6, 0xaa, 0xdf, 0xdf),
     {{"GENERAL", 1, "ALPC"}, {NULL, 0, NULL}}},
    {"SystemConfigProvider", "SYSTEM_CONFIG_KW_", EA_GUID(0xfef3a8b6, 0x318d, 0x4b67, 0xa9, 0x6a, 0x3b, 0x0f, 0x6b, 0x8f, 0x18, 0xfe),
     {{"SYSTEM", 1, "SYSCFG_SYSTEM"}, {"GRAPHICS", 2, "SYSCFG_GRAPHICS"}, {"STORAGE", 4, "SYSCFG_STORAGE"}, {"NETWORK", 8, "SYSCFG_NETWORK"}, {"SERVICES", 16, "SYSCFG_SERVICES"},
      {"PNP", 32, "SYSCFG_PNP"}, {"OPTICAL", 64, "SYSCFG_OPTICAL"}, {NULL, 0, NULL}}},
    {"SystemCpuProvider", "SYSTEM_CPU_KW_", EA_GUID(0xc6c5265f, 0xeae8, 0x4650, 0xaa, 0xe4, 0x9d, 0x48, 0x60, 0x3d, 0x85, 0x10),
     {{"CONFIG", 1, "CPU_CONFIG"}, {"CACHE_FLUSH", 2, "CACHE_FLUSH"}, {"SPEC_CONTROL", 4, NULL}, {"DOMAIN_CHANGE", 8, NULL},
      {NULL, 0, NULL}}},
    {"SystemHypervisorProvider", "SYSTEM_HYPERVISOR_KW_", EA_GUID(0xbafa072a, 0x918a, 0x4bed, 0xb6, 0x22, 0xbc, 0x15, 0x20, 0x97, 0x09, 0x8f),
     {{"PROFILE", 1, "HV_PROFILE"}, {"CALLOUTS", 2, NULL}, {"VTL_CHANGE", 4, NULL}, {NULL, 0, NULL}}},
    {"SystemInterruptProvider", "SYSTEM_INTERRUPT_KW_", EA_GUID(0xd4bbee17, 0xb545, 0x4888, 0x85, 0x8b, 0x74, 0x41, 0x69, 0x01, 0x5b, 0x25),
     {{"GENERAL", 1, "INTERRUPT"}, {"CLOCK_INTERRUPT", 2, "CLOCK_INTERRUPT"}, {"DPC", 4, "DPC"}, {"DPC_QUEUE", 8, "DPC_QUEUE"},
      {"WDF_DPC", 16, "WDF_DPC"}, {"WDF_INTERRUPT", 32, "WDF_INTERRUPT"}, {"IPI", 64, "IPI"}, {NULL, 0, NULL}}},
    {"SystemIoProvider", "SYSTEM_IO_KW_", EA_GUID(0x3d5c43e3, 0x0f1c, 0x4202, 0xb8, 0x17, 0x17, 0x4c, 0x00, 0x70, 0xdc, 0x79),
     {{"DISK", 1, "DISK_IO"}, {"DISK_INIT", 2, "DISK_IO_INIT"}, {"FILENAME", 4, "FILENAME"}, {"SPLIT", 8, "SPLIT_IO"},
      {"FILE", 16, "FILE_IO"}, {"OPTICAL", 32, "OPTICAL_IO"}, {"OPTICAL_INIT", 64, "OPTICAL_IO_INIT"}, {"DRIVERS", 128, "DRIVERS"},
      {"CC", 256, "CC"}, {"NETWORK", 512, "NETWORKTRACE"}, {"FILE_INIT", 1024, "FILE_IO_INIT"}, {"TIMER", 2048, "IO_TIMER"},
      {NULL, 0, NULL}}},
    {"SystemIoFilterProvider", "SYSTEM_IOFILTER_KW_", EA_GUID(0xfbd09363, 0x9e22, 0x4661, 0xb8, 0xbf, 0xe7, 0xa3, 0x4b, 0x53, 0x5b, 0x8c),
     {{"GENERAL", 1, "FLT_IO"}, {"INIT", 2, "FLT_IO_INIT"}, {"FASTIO", 4, "FLT_FASTIO"}, {"FAILURE", 8, "FLT_IO_FAILURE"},
      {NULL, 0, NULL}}},
    {"SystemLockProvider", "SYSTEM_LOCK_KW_", EA_GUID(0x721ddfd3, 0xdacc, 0x4e1e, 0xb2, 0x6a, 0xa2, 0xcb, 0x31, 0xd4, 0x70, 0x5a),
     {{"SPINLOCK", 1, "SPINLOCK"}, {"SPINLOCK_COUNTERS", 2, "SPINLOCK_CNTRS"}, {"SYNC_OBJECTS", 4, "SYNC_OBJECTS"},
      {NULL, 0, NULL}}},
    {"SystemMemoryProvider", "SYSTEM_MEMORY_KW_", EA_GUID(0x82958ca9, 0xb6cd, 0x47f8, 0xa3, 0xa8, 0x03, 0xae, 0x85, 0xa4, 0xbc, 0x24),
     {{"GENERAL", 1, "MEMORY"}, {"HARD_FAULTS", 2, "HARD_FAULTS"}, {"ALL_FAULTS", 4, "ALL_FAULTS"}, {"POOL", 8, "POOL"},
      {"MEMINFO", 16, "MEMINFO"}, {"PFSECTION", 32, "SESSION"}, {"MEMINFO_WS", 64, "MEMINFO_WS"}, {"HEAP", 128, "HEAP"}, {"WS", 256, "WS"},
      {"CONTMEM_GEN", 512, "CONTMEM_GEN"}, {"VIRTUAL_ALLOC", 1024, "VIRT_ALLOC"}, {"FOOTPRINT", 2048, "FOOTPRINT"},
      {"SESSION", 4096, "SESSION"}, {"REFSET", 8192, "REFSET"}, {"VAMAP", 16384, "VAMAP"}, {"NONTRADEABLE", 32768, NULL},
      {NULL, 0, NULL}}},
    {"SystemObjectProvider", "SYSTEM_OBJECT_KW_", EA_GUID(0xfebd7460, 0x3d1d, 0x47eb, 0xaf, 0x49, 0xc9, 0xee, 0xb1, 0xe1, 0x46, 0xf2),
     {{"GENERAL", 1, "OB_OBJECT"}, {"HANDLE", 2, "OB_HANDLE"}, {NULL, 0, NULL}}},
    {"SystemPowerProvider", "SYSTEM_POWER_KW_", EA_GUID(0xc134884a, 0x32d5, 0x4488, 0x80, 0xe5, 0x14, 0xed, 0x7a, 0xbb, 0x82, 0x69),
     {{"GENERAL", 1, "POWER"}, {"HIBER_RUNDOWN", 2, "HIBER_RUNDOWN"}, {"PROCESSOR_IDLE", 4, "PROCESSOR_IDLE"}, {"IDLE_SELECTION", 8, "IDLE_STATES"},
      {"PPM_EXIT_LATENCY", 16, "PPM_EXIT_LATENCY"}, {NULL, 0, NULL}}},
    {"SystemProcessProvider", "SYSTEM_PROCESS_KW_", EA_GUID(0x151f55dc, 0x467d, 0x471f, 0x83, 0xb5, 0x5f, 0x88, 0x9d, 0x46, 0xff, 0x66),
     {{"GENERAL", 1, "PROCESS"}, {"INSWAP", 2, "PROCESS_INSWAP"}, {"FREEZE", 4, "PROCESS_FREEZE"}, {"PERF_COUNTER", 8, "PERF_COUNTER"},
      {"WAKE_COUNTER", 16, "WAKE_COUNTER"}, {"WAKE_DROP", 32, "WAKE_DROP"}, {"WAKE_EVENT", 64, "WAKE_EVENT"}, {"DEBUG_EVENTS", 128, "DEBUG_EVENTS"},
      {"DBGPRINT", 256, "DBGPRINT"}, {"JOB", 512, "JOB"}, {"WORKER_THREAD", 1024, "WORKER_THREAD"}, {"THREAD", 2048, "THREAD"},
      {"LOADER", 4096, "LOADER"}, {NULL, 0, NULL}}},
    {"SystemProfileProvider", "SYSTEM_PROFILE_KW_", EA_GUID(0xbfeb0324, 0x1cee, 0x496f, 0xa4, 0x09, 0x2a, 0xc2, 0xb4, 0x8a, 0x63, 0x22),
     {{"GENERAL", 1, "PROFILE"}, {"PMC_PROFILE", 2, "PMC_PROFILE"}, {NULL, 0, NULL}}},
    {"SystemRegistryProvider", "SYSTEM_REGISTRY_KW_", EA_GUID(0x16156bd9, 0xfab4, 0x4cfa, 0xa2, 0x32, 0x89, 0xd1, 0x09, 0x90, 0x58, 0xe3),
     {{"GENERAL", 1, "REGISTRY"}, {"HIVE", 2, "REG_HIVE"}, {"NOTIFICATION", 4, "REG_NOTIF"}, {NULL, 0, NULL}}},
    {"SystemSchedulerProvider", "SYSTEM_SCHEDULER_KW_", EA_GUID(0x599a2a76, 0x4d91, 0x4910, 0x9a, 0xc7, 0x7d, 0x33, 0xf2, 0xe9, 0x7a, 0x6c),
     {{"XSCHEDULER", 1, NULL}, {"DISPATCHER", 2, "DISPATCHER"}, {"KERNEL_QUEUE", 4, "KERNEL_QUEUE"}, {"SHOULD_YIELD", 8, "SHOULD_YIELD"},
      {"ANTI_STARVATION", 16, "ANTI_STARVATION"}, {"LOAD_BALANCER", 32, "LOAD_BALANCER"}, {"AFFINITY", 64, "AFFINITY"}, {"PRIORITY", 128, "PRIORITY"},
      {"IDEAL_PROCESSOR", 256, NULL}, {"CONTEXT_SWITCH", 512, "CSWITCH"}, {"COMPACT_CSWITCH", 1024, "COMPACT_CSWITCH"},
      {"SCHEDULE_THREAD", 2048, NULL}, {"READY_QUEUE", 4096, NULL}, {"CPU_PARTITION", 8192, NULL}, {"THREAD_FEEDBACK_READ", 16384, NULL},
      {"WORKLOAD_CLASS_UPDATE", 32768, NULL}, {"AUTOBOOST", 65536, NULL}, {NULL, 0, NULL}}},
    {"SystemSyscallProvider", "SYSTEM_SYSCALL_KW_", EA_GUID(0x434286f7, 0x6f1b, 0x45bb, 0xb3, 0x7e, 0x95, 0xf6, 0x23, 0x04, 0x6c, 0x7c),
     {{"GENERAL", 1, "SYSCALL"}, {NULL, 0, NULL}}},
    {"SystemTimerProvider", "SYSTEM_TIMER_KW_", EA_GUID(0x4f061568, 0xe215, 0x499f, 0xab, 0x2e, 0xed, 0xa0, 0xae, 0x89, 0x0a, 0x5b),
     {{"GENERAL", 1, "TIMER"}, {"CLOCK_TIMER", 2, "CLOCK_TIMER"}, {NULL, 0, NULL}}},
    {.name = NULL},
};

/* clang-format on */

const ea_system_provider *ea_system_provider_find(const char *name) {
    ea_guid guid;
    int is_guid = ea_guid_parse(name, &guid) == 0;
    for (const ea_system_provider *p = providers; p->name; p++)
        if (is_guid ? ea_guid_equal(&p->guid, &guid) : ea_kernel_name_is(p->name, name, strlen(name)))
            return p;
    return NULL;
}

static const ea_system_keyword *find_keyword(const ea_system_provider *p, const char *name, size_t len) {
    size_t prefix = strlen(p->prefix);
    if (len > prefix && ea_kernel_name_is(p->prefix, name, prefix)) {
        name += prefix;
        len -= prefix;
    }
    for (const ea_system_keyword *k = p->keywords; k->name; k++)
        if (ea_kernel_name_is(k->name, name, len))
            return k;
    return NULL;
}

int ea_system_keywords(const ea_system_provider *p, const char *text, uint64_t *ret, ea_err *err) {
    uint64_t mask = 0;
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t n = strcspn(at, "+");
        char word[24];
        uint64_t number;
        const ea_system_keyword *k = find_keyword(p, at, n);
        if (n < sizeof word) {
            memcpy(word, at, n);
            word[n] = 0;
        }
        if (k)
            mask |= k->value;
        else if (n && n < sizeof word && ea_u64_parse(word, &number) == 0)
            mask |= number;
        else
            return ea_fail(err, EA_EINVAL, "%s has no keyword '%.*s'", p->name, (int)(n < 64 ? n : 64), at);
        at += n;
    }
    *ret = mask;
    return 0;
}

uint64_t ea_system_masks(const ea_system_provider *p, uint64_t keywords, uint32_t *masks) {
    for (const ea_system_keyword *k = p->keywords; k->name; k++) {
        const ea_kernel_flag *f = k->flag ? ea_kernel_flag_find(k->flag, strlen(k->flag)) : NULL;
        if ((keywords & k->value) && f) {
            masks[ea_kernel_flag_word(f->mask)] |= ea_kernel_flag_bits(f->mask);
            keywords &= ~(uint64_t)k->value;
        }
    }
    return keywords;
}
