/* The emulator's consumers: OpenTrace, ProcessTrace, CloseTrace. The events of a session are delivered buffer by buffer
 * on the caller's thread. See emulator.h. */
#include "service/etw/machine_facts.h"
#include "tests/windows/emulator_stream.h"

#include <stdlib.h>
#include <string.h>

enum { CONSUMERS = 64, EXT_MAX = EA_EXT_MAX, BEHIND_MS = 100 };

typedef struct consumer {
    LONG used, closed;
    WCHAR name[EMUL_NAME];
    EVENT_TRACE_LOGFILEW logfile;
    uint32_t incarnation;
    size_t index; /* the session's place in the table */
    uint16_t logger;
    uint32_t clock;             /* the session's */
    const ea_clock *of_trace;   /* while the stream is open; NULL: there is no trace */
    emul_stream_counts counted; /* the counts that the table already has */
} consumer;

static consumer consumers[CONSUMERS]; /* of this process; their number is the handle */

/* The trace's time by the session's clock; times in payloads stay what they are. */
static int64_t time_by(const consumer *c, int64_t raw) {
    if (!c->of_trace || c->clock == c->of_trace->type)
        return raw;
    if (c->clock == EA_CLOCK_SYSTEM_TIME)
        return ea_utc_ns_to_filetime(ea_clock_to_utc_ns(c->of_trace, raw));
    if (c->clock == EA_CLOCK_CPU_CYCLES)
        return (int64_t)((double)raw * (double)ea_machine_cycle_frequency() / (double)c->of_trace->frequency);
    return raw;
}

static void deliver(void *arg, const ea_record *r) {
    const consumer *c = arg;
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
    e.EventHeader.TimeStamp.QuadPart = time_by(c, r->time_raw);
    memcpy(&e.EventHeader.ProviderId, r->provider.bytes, sizeof e.EventHeader.ProviderId);
    e.EventHeader.EventDescriptor =
        (EVENT_DESCRIPTOR){r->id, r->version, r->channel, r->level, r->opcode, r->task, r->keyword};
    e.EventHeader.KernelTime = r->kernel_time;
    e.EventHeader.UserTime = r->user_time;
    memcpy(&e.EventHeader.ActivityId, r->activity_id.bytes, sizeof e.EventHeader.ActivityId);
    e.BufferContext.ProcessorIndex = r->cpu;
    e.BufferContext.LoggerId = c->logger;
    e.ExtendedDataCount = r->ext_count;
    e.ExtendedData = r->ext_count ? items : NULL;
    e.UserDataLength = r->payload_bytes;
    e.UserData = (void *)(uintptr_t)r->payload;
    c->logfile.EventRecordCallback(&e);
}

/* The first event of every consumer: what the session and the machine are. */
static void deliver_header(consumer *c, const emul_session *s, int64_t time_raw) {
    static const ea_guid HEADER = EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
    TRACE_LOGFILE_HEADER h = c->logfile.LogfileHeader;
    uint8_t payload[sizeof h + sizeof s->name + sizeof s->file];
    size_t name = (wcslen((const WCHAR *)s->name) + 1) * 2, file = (wcslen((const WCHAR *)s->file) + 1) * 2;
    h.BufferSize = s->buffer_kib * 1024;
    h.LogFileMode = s->mode;
    h.MaximumFileSize = s->max_file_mib;
    h.StartBuffers = s->min_buffers;
    h.EventsLost = s->lost_events;
    h.BuffersLost = s->lost_log_buffers;
    h.LoggerName = h.LogFileName = NULL;
    memcpy(payload, &h, sizeof h);
    memcpy(payload + sizeof h, s->name, name);
    memcpy(payload + sizeof h + name, s->file, file);
    ea_record r = {.provider = HEADER,
                   .version = 2,
                   .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                   .pointer_size = 8,
                   .header_type = EA_HEADER_SYSTEM64,
                   .time_raw = time_raw,
                   .payload_bytes = (uint16_t)(sizeof h + name + file),
                   .payload = payload};
    deliver(c, &r);
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
    /* of a real-time session: pointers of 4 bytes, no times, and the build of an earlier Windows */
    h->PointerSize = 4;
    h->NumberOfProcessors = info.dwNumberOfProcessors;
    h->PerfFreq = frequency;
    h->ReservedFlags = 1;
    emul_table *t = emul_lock();
    for (size_t k = 0; k < EMUL_SESSIONS; k++)
        if (t->sessions[k].used && _wcsicmp((const WCHAR *)t->sessions[k].name, c->name) == 0)
            h->ReservedFlags = t->sessions[k].clock;
    emul_unlock();
    h->Version = 0x0000000a;
    h->ProviderVersion = 19041;
    const char *paths[8];
    ea_etl_set *set = NULL;
    for (uint32_t k = 0; k < w->trace_count; k++)
        paths[k] = w->traces[k];
    if (w->trace_count && ea_etl_open(&set, paths, w->trace_count, &(ea_etl_options){0}, NULL) == 0) {
        const ea_etl_info *trace = ea_etl_file_info(set, 0);
        h->PerfFreq.QuadPart = (LONGLONG)trace->clock.frequency;
    }
    ea_etl_close(set);
    c->logfile = *logfile;
    return i + 1;
}

static consumer *of_handle(TRACEHANDLE handle) {
    return handle && handle <= CONSUMERS && consumers[handle - 1].used ? &consumers[handle - 1] : NULL;
}

/* The session runs, and the consumer was not closed. */
static int goes_on(const consumer *c, emul_session *ret) {
    emul_table *t = emul_lock();
    const emul_session *s = &t->sessions[c->index];
    int yes = s->used && s->incarnation == c->incarnation && !c->closed;
    if (ret && yes)
        *ret = *s;
    emul_unlock();
    return yes;
}

/* Adds to the table what the stream has logged and lost since the last call, and the number of delivered buffers. */
static void note(consumer *c, const emul_stream *st, uint32_t buffers, int over) {
    emul_stream_counts now = emul_stream_get(st);
    emul_table *t = emul_lock();
    emul_session *s = &t->sessions[c->index];
    s->played = now.position;
    s->written += buffers;
    s->over = over;
    s->logged += now.logged - c->counted.logged;
    s->lost_events += now.lost - c->counted.lost;
    s->late_ms = now.late_ms;
    emul_unlock();
    c->counted = now;
}

/* Ends a buffer: calls the consumer's BufferCallback when it has one. */
static int end_buffer(consumer *c, const emul_stream *st) {
    note(c, st, 1, 0);
    c->logfile.BuffersRead++;
    return c->logfile.BufferCallback ? (int)c->logfile.BufferCallback(&c->logfile) : 1;
}

/* Delays the remaining events of the session that the script names (stall=). A caller that does not wait for them
 * closes the consumer. */
static void stall(const consumer *c) {
    const emul_script *w = emul_what();
    ULONGLONG began = GetTickCount64();
    while (_wcsicmp(c->name, w->stall_session) == 0 && GetTickCount64() - began < w->stall_ms && !c->closed)
        Sleep(10);
}

/* How far what was logged is within the script's rate. */
typedef struct pacing {
    ULONGLONG due_ms; /* by the machine's clock: when that many events may have come */
    uint64_t events;
} pacing;

/* Waits until the logged events are within the script's rate. A session that was delayed for more than BEHIND_MS does
 * not catch up, so that a slow machine gets no larger bursts. */
static void pace(const consumer *c, uint64_t logged, pacing *p) {
    const emul_script *w = emul_what();
    ULONGLONG now_ms = GetTickCount64();
    if (!w->rate)
        return;
    if (p->due_ms + BEHIND_MS < now_ms)
        p->due_ms = now_ms - BEHIND_MS;
    uint64_t ms = (logged - p->events) * 1000 / w->rate;
    p->due_ms += ms;
    p->events += ms * w->rate / 1000;
    while (GetTickCount64() < p->due_ms && goes_on(c, NULL))
        Sleep(1);
}

/* Plays the trace until the session is stopped, or the consumer is closed or ends it. */
static void play(consumer *c, emul_session *now) {
    emul_stream *st = emul_stream_open(now);
    pacing paced = {0};
    int wanted = 1;
    if (!st)
        return;
    c->counted = (emul_stream_counts){0};
    c->clock = now->clock;
    c->of_trace = emul_stream_info(st) ? &emul_stream_info(st)->clock : NULL;
    if (!emul_what()->has_no_header)
        deliver_header(c, now, emul_stream_time(st));
    while (wanted && goes_on(c, now)) {
        int handed = emul_stream_pump(st, now, deliver, c);
        if (handed == 1) {
            wanted = end_buffer(c, st);
        } else {
            note(c, st, 0, handed < 0);
            Sleep(handed ? 5 : 1);
        }
        pace(c, emul_stream_get(st).logged, &paced);
    }
    stall(c);
    if (wanted && !c->closed) {
        emul_stream_end(st, deliver, c);
        end_buffer(c, st);
    }
    c->of_trace = NULL;
    emul_stream_close(st);
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
        c->logger = (uint16_t)s->id;
        now = *s;
    }
    emul_unlock();
    if (!found)
        return ERROR_WMI_INSTANCE_NOT_FOUND;
    if (!(now.mode & EVENT_TRACE_REAL_TIME_MODE))
        error = ERROR_INVALID_PARAMETER;
    else
        play(c, &now);
    t = emul_lock();
    t->sessions[c->index].readers--;
    emul_unlock();
    return error; /* success also when another program stopped the session */
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
