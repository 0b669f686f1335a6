/* The emulator's consumers: OpenTrace, ProcessTrace, CloseTrace. The events of real traces come, by buffers, on the
 * caller's thread, to the sessions that enabled them. See emulator.h. */
#include "emulator.h"

#include "etl.h"
#include "event.h"

#include <stdlib.h>
#include <string.h>

enum { CONSUMERS = 64, EXT_MAX = EA_EXT_MAX };

typedef struct consumer {
    LONG used, closed;
    WCHAR name[EMUL_NAME];
    EVENT_TRACE_LOGFILEW logfile;
    uint32_t incarnation;
    size_t index; /* the session's place in the table */
} consumer;

static consumer consumers[CONSUMERS]; /* of this process; their number is the handle */

/* Which kernel classes a flag turns on: masks in the first word (EnableFlags) and in the second (PERF_*).
 * Source: config/kernel_flags.c, and the documentation of EnableFlags. */
static const struct {
    uint32_t guid; /* its first word */
    uint8_t low, high;
    uint32_t bits[2];
} FLAGS[] = {
    {0x3d6fa8d0, 0, 255, {0x1, 0}},           /* Process */
    {0x3d6fa8d1, 36, 36, {0x10, 0x4}},        /* Thread/CSwitch */
    {0x3d6fa8d1, 50, 50, {0x800, 0x200}},     /* Thread/ReadyThread */
    {0x3d6fa8d1, 0, 255, {0x2, 0}},           /* Thread */
    {0x2cb15d1d, 0, 255, {0x4, 0}},           /* Image */
    {0x3d6fa8d4, 0, 255, {0x500, 0}},         /* DiskIo */
    {0x90cbdc39, 0, 255, {0x6000200, 0}},     /* FileIo */
    {0x3d6fa8d3, 0, 255, {0xf000, 0x8001}},   /* PageFault */
    {0x9a280ac0, 0, 255, {0x10000, 0}},       /* TcpIp */
    {0xbf3a50c5, 0, 255, {0x10000, 0}},       /* UdpIp */
    {0xae53722e, 0, 255, {0x20000, 0}},       /* Registry */
    {0xce1dbfb4, 46, 47, {0x1000000, 0x402}}, /* PerfInfo/SampleProf, PmcCounterProf */
    {0xce1dbfb4, 51, 52, {0x80, 0}},          /* PerfInfo/SysCl */
    {0xce1dbfb4, 66, 69, {0x60, 0x4080}},     /* PerfInfo/DPC, ISR */
    {0x45d8cccd, 0, 255, {0x100000, 0}},      /* ALPC */
};

/* A file's kernel event: by the form of its header, or, of what a merge added, by its class. */
static int is_kernel(const ea_record *r) {
    switch (r->header_type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        return 1;
    default:
        break;
    }
    return (r->flags & EA_FLAG_CLASSIC_HEADER) && ea_event_family_of(&r->provider, 1) != 0;
}

static int wants_kernel(const emul_session *s, const ea_record *r) {
    uint32_t first = ea_load32(r->provider.bytes), any = 0;
    for (size_t i = 0; i < 8; i++)
        any |= s->masks[i];
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (FLAGS[i].guid == first && r->opcode >= FLAGS[i].low && r->opcode <= FLAGS[i].high)
            return (s->masks[0] & FLAGS[i].bits[0]) || (s->masks[1] & FLAGS[i].bits[1]);
    return any != 0; /* configuration, stacks, names: they come with any flag */
}

static int wants_user(const emul_session *s, const ea_record *r) {
    for (size_t i = 0; i < s->provider_count; i++) {
        const emul_provider *p = &s->providers[i];
        if (!ea_guid_equal(&p->guid, &r->provider))
            continue;
        if (p->level && r->level > p->level)
            return 0;
        if (r->keyword && ((p->any && !(r->keyword & p->any)) || (r->keyword & p->all) != p->all))
            return 0;
        for (size_t k = 0; p->has_ids && k <= p->id_count; k++) {
            if (k == p->id_count) {
                if (p->ids_in)
                    return 0;
                break;
            }
            if (p->ids[k] == r->id) {
                if (!p->ids_in)
                    return 0;
                break;
            }
        }
        for (size_t k = 0; p->pid_count && k <= p->pid_count; k++) {
            if (k == p->pid_count)
                return 0;
            if (p->pids[k] == r->pid)
                break;
        }
        return 1;
    }
    return 0;
}

static void deliver(const consumer *c, const ea_record *r, uint16_t logger) {
    EVENT_HEADER_EXTENDED_DATA_ITEM items[EXT_MAX];
    EVENT_RECORD e = {.UserContext = c->logfile.Context};
    for (size_t i = 0; i < r->ext_count && i < EXT_MAX; i++) {
        items[i] = (EVENT_HEADER_EXTENDED_DATA_ITEM){
            .ExtType = r->ext[i].type, .DataSize = (USHORT)r->ext[i].size_bytes, .DataPtr = (uintptr_t)r->ext[i].data};
        memcpy((uint8_t *)&items[i] + 4, &r->ext[i].linkage, 2);
    }
    e.EventHeader.Size = sizeof e.EventHeader;
    /* in a file the header's type says how wide pointers are, in memory these flags do */
    e.EventHeader.Flags =
        (USHORT)(r->flags | (r->pointer_size == 4 ? EVENT_HEADER_FLAG_32_BIT_HEADER : EVENT_HEADER_FLAG_64_BIT_HEADER));
    e.EventHeader.EventProperty = r->property;
    e.EventHeader.ThreadId = r->tid;
    e.EventHeader.ProcessId = r->pid;
    e.EventHeader.TimeStamp.QuadPart = r->time_raw;
    memcpy(&e.EventHeader.ProviderId, r->provider.bytes, sizeof e.EventHeader.ProviderId);
    e.EventHeader.EventDescriptor =
        (EVENT_DESCRIPTOR){r->id, r->version, r->channel, r->level, r->opcode, r->task, r->keyword};
    e.EventHeader.KernelTime = r->kernel_time;
    e.EventHeader.UserTime = r->user_time;
    memcpy(&e.EventHeader.ActivityId, r->activity_id.bytes, sizeof e.EventHeader.ActivityId);
    e.BufferContext.ProcessorIndex = r->cpu;
    e.BufferContext.LoggerId = logger;
    e.ExtendedDataCount = r->ext_count;
    e.ExtendedData = r->ext_count ? items : NULL;
    e.UserDataLength = r->payload_bytes;
    e.UserData = (void *)(uintptr_t)r->payload;
    c->logfile.EventRecordCallback(&e);
}

TRACEHANDLE WINAPI EmulOpenTraceW(PEVENT_TRACE_LOGFILEW logfile);
TRACEHANDLE WINAPI EmulOpenTraceW(PEVENT_TRACE_LOGFILEW logfile) {
    ULONG error = emul_fault("OpenTraceW");
    const emul_script *w = emul_what();
    if (!error && (!logfile || !logfile->LoggerName || !logfile->LoggerName[0] || logfile->LogFileName ||
                   !(logfile->ProcessTraceMode & PROCESS_TRACE_MODE_REAL_TIME) ||
                   !(logfile->ProcessTraceMode & PROCESS_TRACE_MODE_EVENT_RECORD) || !logfile->EventRecordCallback ||
                   wcslen(logfile->LoggerName) >= EMUL_NAME))
        error = ERROR_INVALID_PARAMETER;
    if (!error && !(logfile->ProcessTraceMode & PROCESS_TRACE_MODE_RAW_TIMESTAMP))
        error = ERROR_NOT_SUPPORTED; /* Windows would turn times into FILETIMEs; nothing here wants that */
    size_t i = 0;
    while (!error && i < CONSUMERS && InterlockedCompareExchange(&consumers[i].used, 1, 0) != 0)
        i++;
    if (error || i == CONSUMERS) {
        SetLastError(error ? error : ERROR_NO_SYSTEM_RESOURCES);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    consumer *c = &consumers[i];
    c->closed = 0;
    wcscpy_s(c->name, EMUL_NAME, logfile->LoggerName);
    LARGE_INTEGER frequency;
    SYSTEM_INFO info;
    QueryPerformanceFrequency(&frequency);
    GetNativeSystemInfo(&info);
    TRACE_LOGFILE_HEADER *h = &logfile->LogfileHeader;
    h->PointerSize = 8;
    h->NumberOfProcessors = info.dwNumberOfProcessors;
    h->PerfFreq = frequency;
    h->ReservedFlags = 1;
    h->Version = 0x0000000a;
    h->ProviderVersion = 19041;
    const char *paths[8];
    ea_etl_set *set = NULL;
    for (uint32_t k = 0; k < w->trace_count; k++)
        paths[k] = w->traces[k];
    if (w->trace_count && ea_etl_open(&set, paths, w->trace_count, &(ea_etl_options){0}, NULL) == 0) {
        const ea_etl_info *trace = ea_etl_file_info(set, 0);
        h->PerfFreq.QuadPart = (LONGLONG)trace->clock.frequency;
        h->NumberOfProcessors = trace->cpu_count;
        h->PointerSize = trace->pointer_size;
        h->BootTime.QuadPart = trace->boot_filetime;
        h->ProviderVersion = trace->os_build;
    }
    ea_etl_close(set);
    c->logfile = *logfile;
    return i + 1;
}

static consumer *of_handle(TRACEHANDLE handle) {
    return handle && handle <= CONSUMERS && consumers[handle - 1].used ? &consumers[handle - 1] : NULL;
}

/* The session goes on, and nobody closed the consumer. */
static int goes_on(const consumer *c, emul_session *ret) {
    emul_table *t = emul_lock();
    const emul_session *s = &t->sessions[c->index];
    int yes = s->used && s->incarnation == c->incarnation && !c->closed;
    if (ret && yes)
        *ret = *s;
    emul_unlock();
    return yes;
}

static void note_buffer(const consumer *c, uint64_t played) {
    emul_table *t = emul_lock();
    emul_session *s = &t->sessions[c->index];
    s->played = played;
    s->written++;
    emul_unlock();
}

/* A buffer's end: told to whoever asked for it. */
static int end_buffer(consumer *c, uint64_t played) {
    note_buffer(c, played);
    c->logfile.BuffersRead++;
    return c->logfile.BufferCallback ? (int)c->logfile.BufferCallback(&c->logfile) : 1;
}

static void play(consumer *c, emul_session *now) {
    const emul_script *w = emul_what();
    const char *paths[8];
    ea_etl_set *set = NULL;
    const ea_record *r;
    uint64_t position = 0, filled = 0, delivered = 0;
    ULONGLONG began = GetTickCount64();
    for (uint32_t k = 0; k < w->trace_count; k++)
        paths[k] = w->traces[k];
    if (w->trace_count && ea_etl_open(&set, paths, w->trace_count, &(ea_etl_options){0}, NULL))
        return;
    while (set && ea_etl_next(set, &r, NULL) == 1) {
        if (position++ < now->played)
            continue;
        if (!(is_kernel(r) ? wants_kernel(now, r) : wants_user(now, r)))
            continue;
        deliver(c, r, (uint16_t)now->id);
        filled += 80u + r->payload_bytes;
        delivered++;
        if (filled < (uint64_t)now->buffer_kib * 1024)
            continue;
        filled = 0;
        while (w->rate && (GetTickCount64() - began) * w->rate < delivered * 1000 && goes_on(c, NULL))
            Sleep(1);
        uint64_t from = now->played;
        if (!end_buffer(c, position) || !goes_on(c, now))
            break;
        now->played = from; /* of this incarnation's beginning */
    }
    ea_etl_close(set);
    end_buffer(c, position);
}

ULONG WINAPI EmulProcessTrace(PTRACEHANDLE handles, ULONG count, LPFILETIME start, LPFILETIME stop);
ULONG WINAPI EmulProcessTrace(PTRACEHANDLE handles, ULONG count, LPFILETIME start, LPFILETIME stop) {
    ULONG error = emul_fault("ProcessTrace");
    (void)start, (void)stop;
    if (error || !handles || count != 1) /* one real-time handle at a time */
        return error ? error : ERROR_INVALID_PARAMETER;
    consumer *c = of_handle(handles[0]);
    if (!c)
        return ERROR_INVALID_HANDLE;
    emul_session now;
    emul_table *t = emul_lock();
    int found = 0;
    for (size_t i = 0; i < EMUL_SESSIONS && !found; i++) {
        emul_session *s = &t->sessions[i];
        if (!s->used || _wcsicmp((const WCHAR *)s->name, c->name) != 0)
            continue;
        found = 1;
        c->index = i;
        c->incarnation = s->incarnation;
        s->readers++;
        now = *s;
    }
    emul_unlock();
    if (!found)
        return ERROR_WMI_INSTANCE_NOT_FOUND;
    if (!(now.mode & EVENT_TRACE_REAL_TIME_MODE))
        error = ERROR_INVALID_PARAMETER;
    else
        play(c, &now);
    while (!error && goes_on(c, NULL))
        Sleep(5);
    t = emul_lock();
    t->sessions[c->index].readers--;
    emul_unlock();
    return error; /* success, too, when somebody else stopped the session */
}

ULONG WINAPI EmulCloseTrace(TRACEHANDLE handle);
ULONG WINAPI EmulCloseTrace(TRACEHANDLE handle) {
    consumer *c = of_handle(handle);
    if (!c)
        return ERROR_INVALID_HANDLE;
    InterlockedExchange(&c->closed, 1);
    InterlockedExchange(&c->used, 0);
    return 0;
}
