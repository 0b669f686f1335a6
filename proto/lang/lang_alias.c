/* DTrace's names of probes, and the event classes that they stand for: one row a class. See lang_ast.h.
 * Thread: the compiler's. */
#include "proto/base/cli.h"
#include "proto/lang/lang_ast.h"

#include <string.h>

typedef struct alias {
    const char *name; /* DTrace's, module and function empty */
    const char *class_name;
    const char *subject; /* the field that names the thread that DTrace's execname, pid and tid are about; NULL: as in
                          * the event */
} alias;

/* clang-format off */
static const alias ALIASES[] = {
    {"proc:::create", "Process/Start", NULL},
    {"proc:::start", "Process/Start", NULL},
    {"proc:::exit", "Process/End", NULL},
    {"proc:::lwp-create", "Thread/Start", NULL},
    {"proc:::lwp-start", "Thread/Start", NULL},
    {"proc:::lwp-exit", "Thread/End", NULL},
    {"proc:::module-load", "Image/Load", NULL},
    {"proc:::module-unload", "Image/UnLoad", NULL},
    {"sched:::on-cpu", "Thread/CSwitch", "NewThreadId"},
    {"sched:::off-cpu", "Thread/CSwitch", "OldThreadId"},
    {"sched:::wakeup", "Thread/ReadyThread", NULL},
    {"io:::start", "DiskIo/ReadInit", NULL},
    {"io:::start", "DiskIo/WriteInit", NULL},
    {"io:::start", "DiskIo/FlushInit", NULL},
    {"io:::done", "DiskIo/Read", NULL},
    {"io:::done", "DiskIo/Write", NULL},
    {"io:::done", "DiskIo/FlushBuffers", NULL},
    {"fsinfo:::create", "FileIo/Create", NULL},
    {"fsinfo:::open", "FileIo/Create", NULL},
    {"fsinfo:::read", "FileIo/Read", NULL},
    {"fsinfo:::write", "FileIo/Write", NULL},
    {"fsinfo:::close", "FileIo/Close", NULL},
    {"fsinfo:::cleanup", "FileIo/Cleanup", NULL},
    {"fsinfo:::delete", "FileIo/Delete", NULL},
    {"fsinfo:::rename", "FileIo/Rename", NULL},
    {"fsinfo:::flush", "FileIo/Flush", NULL},
    {"fsinfo:::dirs", "FileIo/DirEnum", NULL},
    {"fsinfo:::queryinfo", "FileIo/QueryInfo", NULL},
    {"fsinfo:::setinfo", "FileIo/SetInfo", NULL},
    {"fsinfo:::done", "FileIo/OperationEnd", NULL},
    {"reg:::create", "Registry/Create", NULL},
    {"reg:::open", "Registry/Open", NULL},
    {"reg:::delete", "Registry/Delete", NULL},
    {"reg:::query", "Registry/Query", NULL},
    {"reg:::setvalue", "Registry/SetValue", NULL},
    {"reg:::deletevalue", "Registry/DeleteValue", NULL},
    {"reg:::queryvalue", "Registry/QueryValue", NULL},
    {"reg:::enumeratekey", "Registry/EnumerateKey", NULL},
    {"reg:::enumeratevalue", "Registry/EnumerateValueKey", NULL},
    {"reg:::close", "Registry/Close", NULL},
    {"pf:::hard-flt", "PageFault/HardFault", NULL},
    {"pf:::trans-flt", "PageFault/TransitionFault", NULL},
    {"pf:::zero-flt", "PageFault/DemandZeroFault", NULL},
    {"pf:::copyw-flt", "PageFault/CopyOnWrite", NULL},
    {"pf:::guard-flt", "PageFault/GuardPageFault", NULL},
    {"pf:::access-flt", "PageFault/AccessViolation", NULL},
    {"tcpip:::send", "TcpIp/SendIPV4", NULL},
    {"tcpip:::send", "TcpIp/SendIPV6", NULL},
    {"tcpip:::receive", "TcpIp/RecvIPV4", NULL},
    {"tcpip:::receive", "TcpIp/RecvIPV6", NULL},
    {"tcpip:::connect-established", "TcpIp/ConnectIPV4", NULL},
    {"tcpip:::connect-established", "TcpIp/ConnectIPV6", NULL},
    {"tcpip:::accept-established", "TcpIp/AcceptIPV4", NULL},
    {"tcpip:::accept-established", "TcpIp/AcceptIPV6", NULL},
    {"tcpip:::disconnect", "TcpIp/DisconnectIPV4", NULL},
    {"tcpip:::disconnect", "TcpIp/DisconnectIPV6", NULL},
    {"udpip:::send", "UdpIp/SendIPV4", NULL},
    {"udpip:::send", "UdpIp/SendIPV6", NULL},
    {"udpip:::receive", "UdpIp/RecvIPV4", NULL},
    {"udpip:::receive", "UdpIp/RecvIPV6", NULL},
    {"profile:::profile", "PerfInfo/SampleProf", NULL},
    {"pmc:::profile", "PerfInfo/PmcCounterProf", NULL},
    {"dpc:::dpc", "PerfInfo/DPC", NULL},
    {"dpc:::thread-dpc", "PerfInfo/ThreadedDPC", NULL},
    {"dpc:::timer-dpc", "PerfInfo/TimerDPC", NULL},
    {"isr:::isr", "PerfInfo/ISR", NULL},
    {"syscall:::entry", "PerfInfo/SysClEnter", NULL},
    {"syscall:::return", "PerfInfo/SysClExit", NULL},
    {"dnet:::excp", "Exception/Start", NULL},
    {"dnet:::gc-start", "GC/Start", NULL},
    {"dnet:::gc-stop", "GC/Stop", NULL},
    {"dnet:::gc", "GC/*", NULL},
    {"dnet:::loader", "Loader/*", NULL},
    {"dnet:::lock", "Contention/Start", NULL},
    {"dnet:::jit", "Method/JittingStarted", NULL},
    {"hwconfig:::events", "SystemConfig/*", NULL},
    {"diag:::lostevent", "LostEvent/*", NULL},
};

/* clang-format on */

enum { ALIAS_COUNT = sizeof ALIASES / sizeof *ALIASES };

static int alias_is_profile(span name) {
    /* profile-997, profile-1ms: the interval is the trace's */
    static const char PREFIX[] = "profile:::profile-";
    return name.len_bytes > sizeof PREFIX - 1 && memcmp(name.text, PREFIX, sizeof PREFIX - 1) == 0;
}

const char *ea_lang_alias_at(size_t i) {
    return i < ALIAS_COUNT ? ALIASES[i].name : NULL;
}

int lang_alias(lang_source *s, span name, uint32_t at, probe **list) {
    int found = 0;
    if (alias_is_profile(name))
        name.len_bytes = 17;
    for (size_t i = 0; i < ALIAS_COUNT; i++) {
        if (!span_is(name, ALIASES[i].name))
            continue;
        probe *p = lang_alloc(s, 1, sizeof *p);
        p->at = at;
        p->name = (span){ALIASES[i].class_name, strlen(ALIASES[i].class_name)};
        p->subject = ALIASES[i].subject;
        *list = p;
        list = &p->next;
        found = 1;
    }
    return found;
}

const char *lang_alias_nearest(span name) {
    char copy[64];
    size_t best = 4;
    const char *nearest = NULL;
    if (name.len_bytes >= sizeof copy)
        return NULL;
    memcpy(copy, name.text, name.len_bytes);
    copy[name.len_bytes] = 0;
    for (size_t i = 0; i < ALIAS_COUNT; i++) {
        size_t d = ea_name_distance(copy, ALIASES[i].name);
        if (d < best) {
            best = d;
            nearest = ALIASES[i].name;
        }
    }
    return nearest;
}
