/* What somebody else does to the emulated sessions: starts, stops and lists them, and lets them lose events.
 * usage: emulctl start NAME [system] | fill N [system] | stop NAME | lose NAME EVENTS LOG-BUFFERS REALTIME-BUFFERS |
 * list | linger FILE CODE (runs until the file is there, and ends with the code)
 * Before it: tests. After it: emulator.c, by its exports. Thread: the main one. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static struct {
    ULONG(WINAPI *StartTraceW)(PTRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES);
    ULONG(WINAPI *ControlTraceW)(TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES, ULONG);
    void(WINAPI *EmulCalm)(void);
    ULONG(WINAPI *EmulLose)(LPCWSTR, ULONG, ULONG, ULONG);
    ULONG(WINAPI *EmulLook)(ULONG, emul_session *);
} f;

typedef struct properties {
    EVENT_TRACE_PROPERTIES p;
    WCHAR name[256], file[1024];
} properties;

static void clear(properties *p) {
    memset(p, 0, sizeof *p);
    p->p.Wnode.BufferSize = sizeof *p;
    p->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    p->p.LoggerNameOffset = offsetof(properties, name);
    p->p.LogFileNameOffset = offsetof(properties, file);
}

static void list(void) {
    emul_session *s = malloc(sizeof *s);
    for (ULONG i = 0; s && f.EmulLook(i, s) == 0; i++)
        if (s->used)
            printf("{\"name\": \"%ls\", \"id\": %u, \"mode\": %u, \"clock\": %u, \"buffer_kib\": %u, \"min\": %u, "
                   "\"max\": %u, \"flush\": %u, \"masks\": [%u, %u, %u, %u, %u, %u, %u, %u], \"providers\": %u, "
                   "\"stacks\": %u, \"pmc_sources\": %u, \"pmc_events\": %u, \"flushes\": %u, \"captures\": %u, "
                   "\"played\": %llu, \"logged\": %llu, \"lost\": %u, \"file_events\": %llu, \"over\": %d, \"ids\": "
                   "%u, \"pids\": "
                   "%u, \"property\": %u, "
                   "\"any\": %llu, \"level\": %u, \"system_providers\": %u, \"pool_tag\": %u}\n",
                   (const WCHAR *)s->name, s->id, s->mode, s->clock, s->buffer_kib, s->min_buffers, s->max_buffers,
                   s->flush_timer, s->masks[0], s->masks[1], s->masks[2], s->masks[3], s->masks[4], s->masks[5],
                   s->masks[6], s->masks[7], s->provider_count, s->stacks, s->pmc_sources, s->pmc_events, s->flushes,
                   s->captures, (unsigned long long)s->played, (unsigned long long)s->logged, s->lost_events,
                   (unsigned long long)s->file_events, s->over, s->providers[0].ids.count, s->providers[0].pid_count,
                   s->providers[0].property, (unsigned long long)s->providers[0].any, s->providers[0].level,
                   s->system_providers, s->pool_tags);
    free(s);
}

static ULONG start(const WCHAR *name, int is_system) {
    static properties p;
    TRACEHANDLE handle = 0;
    clear(&p);
    p.p.LogFileNameOffset = 0;
    p.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | (is_system ? EVENT_TRACE_SYSTEM_LOGGER_MODE : 0);
    return f.StartTraceW(&handle, name, &p.p);
}

/* N sessions of others: fill-1 to fill-N, or system-1 to system-N. */
static ULONG fill(ULONG n, int is_system) {
    ULONG error = 0;
    for (ULONG i = 1; i <= n && !error; i++) {
        WCHAR name[32];
        _snwprintf(name, sizeof name / sizeof *name, is_system ? L"system-%lu" : L"fill-%lu", i);
        error = start(name, is_system);
    }
    return error;
}

int wmain(int argc, WCHAR **argv);
int wmain(int argc, WCHAR **argv) {
    HMODULE dll = LoadLibraryExW(L"etwemul8.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    static properties p;
    ULONG error = ERROR_INVALID_PARAMETER;
    if (!dll || argc < 2)
        return 2;
#define GET(name)                                                                                                      \
    do {                                                                                                               \
        FARPROC address = GetProcAddress(dll, #name);                                                                  \
        memcpy(&f.name, &address, sizeof address);                                                                     \
    } while (0)
    GET(StartTraceW);
    GET(ControlTraceW);
    GET(EmulCalm);
    GET(EmulLose);
    GET(EmulLook);
    f.EmulCalm();
    clear(&p);
    if (argc >= 4 && wcscmp(argv[1], L"linger") == 0) {
        while (GetFileAttributesW(argv[2]) == INVALID_FILE_ATTRIBUTES)
            Sleep(20);
        return (int)wcstoul(argv[3], NULL, 0);
    }
    if (wcscmp(argv[1], L"list") == 0) {
        list();
        error = 0;
    } else if (argc >= 3 && wcscmp(argv[1], L"start") == 0) {
        error = start(argv[2], argc > 3);
    } else if (argc >= 3 && wcscmp(argv[1], L"fill") == 0) {
        error = fill(wcstoul(argv[2], NULL, 0), argc > 3);
    } else if (argc >= 3 && wcscmp(argv[1], L"stop") == 0) {
        error = f.ControlTraceW(0, argv[2], &p.p, EVENT_TRACE_CONTROL_STOP);
    } else if (argc >= 6 && wcscmp(argv[1], L"lose") == 0) {
        error = f.EmulLose(argv[2], wcstoul(argv[3], NULL, 0), wcstoul(argv[4], NULL, 0), wcstoul(argv[5], NULL, 0));
    }
    if (error)
        fprintf(stderr, "emulctl: error %lu\n", error);
    return error ? 1 : 0;
}
