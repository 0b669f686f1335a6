/* Acts on the emulated sessions as another program does: starts, stops and lists them, and makes them lose events.
 * usage: emulctl start NAME [system] | steal NAME [system] (stops it and starts another) | clock NAME N (starts one
 * with that clock) | fill N [system] | stop NAME | lose NAME EVENTS LOG-BUFFERS REALTIME-BUFFERS | go NAME (past the
 * script's next hold) | list | lists (once for each line of its input, with an empty line after each list) | boot
 * [DIGITS] (starts the autologgers of the registry, whose files' numbers have so many
 * digits, and is there until they end) | linger FILE CODE (runs until the file is there, and ends with the code) | im,
 * um FILE ... (in the place of wevtutil: prints its arguments, and ends with 5 when FILE has "denied" in it) Called by:
 * tests. Calls: emulator.c, by its exports. Thread: the main one.
 */
#include "proto/base/text.h"
#include "tests/windows/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static struct {
    ULONG(WINAPI *StartTraceW)(PTRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES);
    ULONG(WINAPI *ControlTraceW)(TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES, ULONG);
    ULONG(WINAPI *EnableTraceEx2)
    (TRACEHANDLE, LPCGUID, ULONG, UCHAR, ULONGLONG, ULONGLONG, ULONG, PENABLE_TRACE_PARAMETERS);
    void(WINAPI *EmulCalm)(void);
    ULONG(WINAPI *EmulLose)(LPCWSTR, ULONG, ULONG, ULONG);
    ULONG(WINAPI *EmulGo)(LPCWSTR);
    void(WINAPI *EmulAlone)(void);
    void(WINAPI *EmulTogether)(void);
    ULONG(WINAPI *EmulLook)(ULONG, emul_session *);
    ULONG(WINAPI *EmulSampled)(uint32_t *);
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

static void list_hooks(const char *name, const CLASSIC_EVENT_ID *ids, uint32_t count) {
    printf("\"%s\": [", name);
    for (uint32_t i = 0; i < count && i < EMUL_HOOKS; i++)
        printf("%s\"%08lx/%u\"", i ? ", " : "", ids[i].EventGuid.Data1, ids[i].Type);
    printf("], ");
}

static void list_sources(const char *name, const uint32_t *sources, uint32_t count) {
    printf("\"%s\": [", name);
    for (uint32_t i = 0; i < count; i++)
        printf("%s%u", i ? ", " : "", sources[i]);
    printf("], ");
}

/* Prints the kernel settings as they were passed: hooks with stacks, hooks with counters, and counters. */
static void list_kernel(const emul_session *s) {
    uint32_t sampled[EMUL_SOURCES];
    ULONG sampled_count = f.EmulSampled(sampled); /* the machine's */
    list_hooks("stack_ids", s->stack_ids, s->stacks);
    list_hooks("pmc_ids", s->pmc_ids, s->pmc_events);
    list_sources("sampled", sampled, sampled_count);
    list_sources("counters", s->counters, s->counter_count);
}

static void list(void) {
    emul_session *s = malloc(sizeof *s);
    for (ULONG i = 0; s && f.EmulLook(i, s) == 0; i++)
        if (s->used) {
            printf("{");
            list_kernel(s);
            printf("\"name\": \"%ls\", \"max_file_mib\": %u, \"id\": %u, \"mode\": %u, \"clock\": %u, \"buffer_kib\": "
                   "%u, \"min\": %u, "
                   "\"max\": %u, \"flush\": %u, \"masks\": [%u, %u, %u, %u, %u, %u, %u, %u], \"providers\": %u, "
                   "\"stacks\": %u, \"pmc_events\": %u, \"flushes\": %u, \"captures\": %u, \"arguments_given\": %u, "
                   "\"played\": %llu, \"away_ms\": %llu, \"grown_ms\": %llu, \"logged\": %llu, \"late_ms\": %u, "
                   "\"lost\": %u, \"file_events\": %llu, "
                   "\"over\": %d, \"ids\": "
                   "%u, \"pids\": "
                   "%u, \"property\": %u, "
                   "\"any\": %llu, \"level\": %u, \"system_providers\": %u, \"pool_tag\": %u, \"all\": %llu}\n",
                   (const WCHAR *)s->name, s->max_file_mib, s->id, s->mode, s->clock, s->buffer_kib, s->min_buffers,
                   s->max_buffers, s->flush_timer, s->masks[0], s->masks[1], s->masks[2], s->masks[3], s->masks[4],
                   s->masks[5], s->masks[6], s->masks[7], s->provider_count, s->stacks, s->pmc_events, s->flushes,
                   s->captures, s->arguments_given, (unsigned long long)s->played, (unsigned long long)s->away_ms,
                   (unsigned long long)s->grown_ms, (unsigned long long)s->logged, s->late_ms, s->lost_events,
                   (unsigned long long)s->file_events, s->over, s->providers[0].ids.count, s->providers[0].pid_count,
                   s->providers[0].property, (unsigned long long)s->providers[0].any, s->providers[0].level,
                   s->system_providers, s->pool_tags, (unsigned long long)s->providers[0].all);
        }
    free(s);
}

static void list_on_demand(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        list();
        printf("\n");
        fflush(stdout);
    }
}

/* ---- what Windows does at boot ---- */

static DWORD number_of(HKEY key, const WCHAR *name) {
    DWORD value = 0, bytes = sizeof value;
    RegGetValueW(key, NULL, name, RRF_RT_REG_DWORD, NULL, &value, &bytes);
    return value;
}

static ULONGLONG mask_of(HKEY key, const WCHAR *name) {
    ULONGLONG value = 0;
    DWORD bytes = sizeof value;
    RegGetValueW(key, NULL, name, RRF_RT_REG_QWORD, NULL, &value, &bytes);
    return value;
}

static ULONG boot_providers(TRACEHANDLE session, HKEY key) {
    WCHAR name[64];
    ULONG error = 0;
    for (DWORD i = 0, chars = 64; !error && !RegEnumKeyExW(key, i, name, &chars, NULL, NULL, NULL, NULL);
         i++, chars = 64) {
        HKEY provider;
        char text[64];
        ea_guid guid;
        GUID id;
        WideCharToMultiByte(CP_UTF8, 0, name, -1, text, sizeof text, NULL, NULL);
        if (ea_guid_parse(text, &guid) || RegOpenKeyExW(key, name, 0, KEY_READ, &provider))
            return ERROR_INVALID_DATA;
        memcpy(&id, guid.bytes, sizeof id);
        ENABLE_TRACE_PARAMETERS e = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                     .EnableProperty = number_of(provider, L"EnableProperty")};
        if (number_of(provider, L"Enabled") == 1)
            error = f.EnableTraceEx2(session, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                                     (UCHAR)number_of(provider, L"EnableLevel"), mask_of(provider, L"MatchAnyKeyword"),
                                     mask_of(provider, L"MatchAllKeyword"), 0, &e);
        RegCloseKey(provider);
    }
    return error;
}

static ULONG boot_digits = 3;

/* With FileMax each boot has a file of its own: FILE.001 and so on. After the last number the numbering begins again
 * with the first one, and an existing file of that name is replaced. FileCounter is the number. */
static void number_file(HKEY key, WCHAR *file, size_t capacity) {
    DWORD most = number_of(key, L"FileMax"), number = number_of(key, L"FileCounter") + 1;
    size_t n = wcslen(file);
    if (!most)
        return;
    if (number > most)
        number = 1;
    RegSetValueExW(key, L"FileCounter", 0, REG_DWORD, (const BYTE *)&number, sizeof number);
    _snwprintf(file + n, capacity - n, L".%0*lu", (int)boot_digits, number);
}

/* Starts one autologger as its values say; its Status is the result. */
static ULONG boot_one(HKEY root, const WCHAR *name) {
    static properties p;
    TRACEHANDLE handle = 0;
    HKEY key;
    WCHAR guid[64];
    DWORD bytes = sizeof p.file, guid_bytes = sizeof guid;
    ULONG error = (ULONG)RegOpenKeyExW(root, name, 0, KEY_READ | KEY_WRITE, &key);
    if (error || number_of(key, L"Start") != 1)
        return error;
    clear(&p);
    error = (ULONG)RegGetValueW(key, NULL, L"Guid", RRF_RT_REG_SZ, NULL, guid, &guid_bytes); /* required */
    if (!error)
        error = (ULONG)RegGetValueW(key, NULL, L"FileName", RRF_RT_REG_SZ, NULL, p.file, &bytes);
    if (!error)
        number_file(key, p.file, sizeof p.file / sizeof *p.file);
    p.p.Wnode.ClientContext = number_of(key, L"ClockType");
    p.p.BufferSize = number_of(key, L"BufferSize");
    p.p.MinimumBuffers = number_of(key, L"MinimumBuffers");
    p.p.MaximumBuffers = number_of(key, L"MaximumBuffers");
    p.p.MaximumFileSize = number_of(key, L"MaxFileSize");
    p.p.FlushTimer = number_of(key, L"FlushTimer");
    p.p.LogFileMode = number_of(key, L"LogFileMode");
    if (!error)
        error = f.StartTraceW(&handle, name, &p.p);
    if (!error)
        error = boot_providers(handle, key);
    RegSetValueExW(key, L"Status", 0, REG_DWORD, (const BYTE *)&error, sizeof error);
    RegCloseKey(key);
    return error;
}

/* Starts all autologgers; this program is the kernel that writes their files, until they are stopped. */
static ULONG boot(void) {
    static const WCHAR ROOT[] = L"SYSTEM\\CurrentControlSet\\Control\\WMI\\Autologger";
    HKEY root;
    WCHAR name[256];
    static properties p;
    ULONG error = (ULONG)RegOpenKeyExW(HKEY_LOCAL_MACHINE, ROOT, 0, KEY_READ, &root);
    for (DWORD i = 0, chars = 256; !error && !RegEnumKeyExW(root, i, name, &chars, NULL, NULL, NULL, NULL);
         i++, chars = 256)
        if (wcsncmp(name, L"etwagent-", 9) == 0)
            error = boot_one(root, name);
    for (DWORD i = 0, chars = 256; !error && !RegEnumKeyExW(root, i, name, &chars, NULL, NULL, NULL, NULL);
         i++, chars = 256)
        for (clear(&p);
             wcsncmp(name, L"etwagent-", 9) == 0 && !f.ControlTraceW(0, name, &p.p, EVENT_TRACE_CONTROL_QUERY) &&
             !(p.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE);
             clear(&p))
            Sleep(20);
    Sleep(1000); /* the file's last bytes */
    return error;
}

static ULONG start(const WCHAR *name, int is_system, ULONG clock) {
    static properties p;
    TRACEHANDLE handle = 0;
    clear(&p);
    p.p.LogFileNameOffset = 0;
    p.p.Wnode.ClientContext = clock;
    p.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | (is_system ? EVENT_TRACE_SYSTEM_LOGGER_MODE : 0);
    return f.StartTraceW(&handle, name, &p.p);
}

/* As programs do that want the name: the session ends, and theirs has its name. */
static ULONG steal(const WCHAR *name, int is_system) {
    static properties p;
    clear(&p);
    f.EmulAlone();
    ULONG error = f.ControlTraceW(0, name, &p.p, EVENT_TRACE_CONTROL_STOP);
    if (!error)
        error = start(name, is_system, 1);
    f.EmulTogether();
    return error;
}

/* N sessions of others: fill-1 to fill-N, or system-1 to system-N. */
static ULONG fill(ULONG n, int is_system) {
    ULONG error = 0;
    for (ULONG i = 1; i <= n && !error; i++) {
        WCHAR name[32];
        _snwprintf(name, sizeof name / sizeof *name, is_system ? L"system-%lu" : L"fill-%lu", i);
        error = start(name, is_system, 1);
    }
    return error;
}

int wmain(int argc, WCHAR **argv);

int wmain(int argc, WCHAR **argv) {
    HMODULE dll = LoadLibraryExW(L"etwemul8.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    static properties p;
    ULONG error = ERROR_INVALID_PARAMETER;
    if (!dll || argc < 2) {
        fprintf(stderr, "emulctl: %s (error %lu)\n", dll ? "nothing to do" : "no etwemul8.dll", GetLastError());
        return 2;
    }
#define GET(name)                                                                                                      \
    do {                                                                                                               \
        FARPROC address = GetProcAddress(dll, #name);                                                                  \
        memcpy(&f.name, &address, sizeof address);                                                                     \
    } while (0)
    GET(StartTraceW);
    GET(ControlTraceW);
    GET(EnableTraceEx2);
    GET(EmulCalm);
    GET(EmulLose);
    GET(EmulGo);
    GET(EmulAlone);
    GET(EmulTogether);
    GET(EmulLook);
    GET(EmulSampled);
    f.EmulCalm();
    clear(&p);
    if (argc >= 3 && (wcscmp(argv[1], L"im") == 0 || wcscmp(argv[1], L"um") == 0)) {
        for (int i = 1; i < argc; i++)
            printf("wevtutil argument: %ls\n", argv[i]);
        return wcsstr(argv[2], L"denied") ? 5 : 0;
    }
    if (argc >= 4 && wcscmp(argv[1], L"linger") == 0) {
        while (GetFileAttributesW(argv[2]) == INVALID_FILE_ATTRIBUTES)
            Sleep(20);
        return (int)wcstoul(argv[3], NULL, 0);
    }
    if (wcscmp(argv[1], L"boot") == 0) {
        boot_digits = argc > 2 ? wcstoul(argv[2], NULL, 0) : boot_digits;
        error = boot();
    } else if (wcscmp(argv[1], L"list") == 0) {
        list();
        error = 0;
    } else if (wcscmp(argv[1], L"lists") == 0) {
        list_on_demand();
        error = 0;
    } else if (argc >= 3 && wcscmp(argv[1], L"start") == 0) {
        error = start(argv[2], argc > 3, 1);
    } else if (argc >= 3 && wcscmp(argv[1], L"steal") == 0) {
        error = steal(argv[2], argc > 3);
    } else if (argc >= 4 && wcscmp(argv[1], L"clock") == 0) {
        error = start(argv[2], 0, wcstoul(argv[3], NULL, 0));
    } else if (argc >= 3 && wcscmp(argv[1], L"fill") == 0) {
        error = fill(wcstoul(argv[2], NULL, 0), argc > 3);
    } else if (argc >= 3 && wcscmp(argv[1], L"stop") == 0) {
        error = f.ControlTraceW(0, argv[2], &p.p, EVENT_TRACE_CONTROL_STOP);
    } else if (argc >= 3 && wcscmp(argv[1], L"go") == 0) {
        error = f.EmulGo(argv[2]);
    } else if (argc >= 6 && wcscmp(argv[1], L"lose") == 0) {
        error = f.EmulLose(argv[2], wcstoul(argv[3], NULL, 0), wcstoul(argv[4], NULL, 0), wcstoul(argv[5], NULL, 0));
    }
    if (error)
        fprintf(stderr, "emulctl: error %lu\n", error);
    return error ? 1 : 0;
}
