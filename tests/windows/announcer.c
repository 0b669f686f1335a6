/* A program with a module format of its own, for tests/windows/test_announce.py: it announces what it loads by
 * etwagent_announce.h, which is compiled as C89 here. In place of ETW it has the functions below, which write what
 * would be logged as lines of JSON; a session begins, asks for the state and ends at fixed places of the program.
 *
 * announcer FILE   writes the events to FILE, and figures and results to standard output as JSON */
#include <windows.h>

#include <evntprov.h>
#include <stdio.h>
#include <stdlib.h>

static ULONG record_register(LPCGUID provider, PENABLECALLBACK callback, PVOID context, PREGHANDLE handle);
static ULONG record_unregister(REGHANDLE handle);
static ULONG record_write(REGHANDLE handle, PCEVENT_DESCRIPTOR e, ULONG count, PEVENT_DATA_DESCRIPTOR data);

#define EventRegister   record_register
#define EventUnregister record_unregister
#define EventWrite      record_write
#define ETWAGENT_ANNOUNCE_IMPLEMENTATION
#include "proto/announce/etwagent_announce.h"

enum { PROVIDERS = 2, THREADS = 4, ROUNDS = 3000, RUNS = 500, CALLS = 200, MODULE_BYTES = 0x8000 };

static struct {
    PENABLECALLBACK callback;
    PVOID context;
    GUID provider;
} providers[PROVIDERS];

static int provider_count;
static FILE *out;
static CRITICAL_SECTION out_lock;
static volatile LONG events, is_quiet;
static int is_early; /* sessions have enabled the providers before the program registers them */

static ULONG record_register(LPCGUID provider, PENABLECALLBACK callback, PVOID context, PREGHANDLE handle) {
    static const GUID none;
    providers[provider_count].callback = callback;
    providers[provider_count].context = context;
    providers[provider_count].provider = *provider;
    if (is_early) /* as ETW does: the caller has no handle yet */
        callback(&none, 1, 4, ~(ULONGLONG)0, 0, NULL, context);
    *handle = (REGHANDLE)++provider_count;
    return 0;
}

static ULONG record_unregister(REGHANDLE handle) {
    providers[handle - 1].callback = NULL;
    return 0;
}

static ULONG record_write(REGHANDLE handle, PCEVENT_DESCRIPTOR e, ULONG count, PEVENT_DATA_DESCRIPTOR data) {
    LARGE_INTEGER now;
    ULONG i, k;
    if (!handle)
        return ERROR_INVALID_HANDLE;
    InterlockedIncrement(&events);
    if (is_quiet)
        return 0;
    EnterCriticalSection(&out_lock);
    QueryPerformanceCounter(&now);
    fprintf(
        out, "{\"provider\": \"%08lx\", \"id\": %u, \"level\": %u, \"keyword\": %u, \"channel\": %u, \"pid\": %lu, ",
        providers[handle - 1].provider.Data1, e->Id, e->Level, (unsigned)e->Keyword, e->Channel, GetCurrentProcessId());
    fprintf(out, "\"tid\": %lu, \"clock\": %.0f, \"parts\": [", GetCurrentThreadId(), (double)now.QuadPart);
    for (i = 0; i < count; i++) {
        const unsigned char *bytes = (const unsigned char *)(ULONG_PTR)data[i].Ptr;
        fprintf(out, "%s[%lu, \"", i ? ", " : "", data[i].Reserved);
        for (k = 0; k < data[i].Size; k++)
            fprintf(out, "%02x", bytes[k]);
        fprintf(out, "\"]");
    }
    fprintf(out, "]}\n");
    LeaveCriticalSection(&out_lock);
    return 0;
}

/* What ETW calls: 1 a session has enabled the providers, 0 none has any more, 2 the state is asked for. */
static void control(int first, int last, ULONG code) {
    static const GUID none;
    int i;
    for (i = first; i <= last && i < provider_count; i++)
        providers[i].callback(&none, code, 4, ~(ULONGLONG)0, 0, NULL, providers[i].context);
}

static double seconds(void) {
    LARGE_INTEGER now, frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What announcing is measured beside: a call that does nothing. */
static int announce_nothing(const void *start, SIZE_T size_bytes, const char *name, const char *source, ULONG line) {
    (void)start, (void)size_bytes, (void)name, (void)source, (void)line;
    return 1;
}

typedef int announce_function(const void *, SIZE_T, const char *, const char *, ULONG);

/* ns a call: the median of short runs, as other programs take the processor meanwhile. Each call is of another
 * address. */
static double ns_a_call(announce_function *volatile announce) {
    static double runs[RUNS];
    char name[3];
    long run, i;
    name[0] = 'f';
    name[2] = 0;
    for (run = 0; run < RUNS; run++) {
        double begin = seconds();
        for (i = 0; i < CALLS; i++) {
            name[1] = (char)('a' + i % 26);
            announce((void *)(ULONG_PTR)(0x100000 + 64 * (run * CALLS + i)), 64, name, "measured.src", 7);
        }
        runs[run] = (seconds() - begin) / CALLS * 1e9;
    }
    for (i = 0; i < RUNS * CALLS; i++)
        etwagent_announce_function_unload((void *)(ULONG_PTR)(0x100000 + 64 * i));
    qsort(runs, RUNS, sizeof *runs, by_size);
    return runs[RUNS / 2];
}

static DWORD WINAPI work(LPVOID arg) {
    ULONG_PTR base = 0x40000000 + ((ULONG_PTR)arg << 24), at;
    long i;
    for (i = 0; i < ROUNDS; i++) {
        at = base + 0x100 * (ULONG_PTR)(i % 50);
        etwagent_announce_function((void *)at, 0x100, "thread", "t.src", (ULONG)i);
        if (i % 3 == 0)
            etwagent_announce_function_unload((void *)at);
        if (i % 7 == 0)
            etwagent_announce_module((void *)(at + 0x10000), 0x100, L"C:\\t.plug", NULL, 0, NULL);
    }
    for (i = 0; i < 50; i++) {
        etwagent_announce_function_unload((void *)(base + 0x100 * (ULONG_PTR)i));
        etwagent_announce_unload((void *)(base + 0x100 * (ULONG_PTR)i + 0x10000));
    }
    return 0;
}

/* Announcements of several threads while sessions come, ask and go. */
static void rush(void) {
    HANDLE threads[THREADS];
    ULONG_PTR i;
    int round;
    is_quiet = 1;
    for (i = 0; i < THREADS; i++)
        threads[i] = CreateThread(NULL, 0, work, (LPVOID)i, 0, NULL);
    for (round = 0; round < 20; round++) {
        control(0, 1, round % 2);
        control(0, 1, 2);
        Sleep(1);
    }
    WaitForMultipleObjects(THREADS, threads, TRUE, INFINITE);
    for (i = 0; i < THREADS; i++)
        CloseHandle(threads[i]);
    is_quiet = 0;
}

int main(int argc, char **argv) {
    static const GUID pdb = {0x01020304, 0x0506, 0x0708, {9, 10, 11, 12, 13, 14, 15, 16}};
    char *first = (char *)VirtualAlloc(NULL, MODULE_BYTES, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    char *second = (char *)VirtualAlloc(NULL, MODULE_BYTES, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    wchar_t drive[MAX_PATH];
    char longest[3000];
    double empty, quiet, again;
    int kept, i;
    if (argc < 2 || !first || !second || (out = fopen(argv[1], "wb")) == NULL)
        return 1;
    InitializeCriticalSection(&out_lock);
    for (i = 0; i < (int)sizeof longest - 1; i++) /* two bytes a character: the cut falls between two of them */
        longest[i] = i % 2 ? (char)0xA4 : (char)0xC3;
    longest[sizeof longest - 1] = 0;
    kept = etwagent_announce_module(first, MODULE_BYTES,
                                    L"C:\\Plug-ins\\gr\x00f6\x00df"
                                    L"e.plug",
                                    &pdb, 3,
                                    "c:\\build\\gr\xc3\xb6\xc3\x9f"
                                    "e.pdb");
    kept += etwagent_announce_function(first + 0x1000, 0x1000, "draw", "draw.src", 17);
    kept += etwagent_announce_begin(ETWAGENT_ANNOUNCE_JSCRIPT) == 0; /* what came before it is kept */
    empty = ns_a_call(announce_nothing);
    quiet = ns_a_call(etwagent_announce_function);
    again = ns_a_call(etwagent_announce_function); /* the memory of the first ones is used again */
    if (events)
        return 2; /* no session listens */
    control(0, 0, 1);
    control(0, 0, 2); /* a rundown */
    kept += etwagent_announce_module(second, MODULE_BYTES, L"\\\\files\\share\\other.plug", NULL, 0, NULL);
    kept += etwagent_announce_function(second + 0x2000, 0x800, longest, NULL, 0);
    control(1, 1, 1); /* a session of JavaScript's: it gets all that is loaded, without a request */
    kept += etwagent_announce_function(first + 0x3000, 0x100, "jit", "draw.src", 40);
    control(1, 1, 0);
    etwagent_announce_function_unload(first + 0x1000);
    etwagent_announce_unload(first);
    etwagent_announce_unload(first); /* it is gone: no event */
    control(0, 0, 0);
    etwagent_announce_unload((void *)1);
    rush();
    control(0, 0, 2); /* what is left of all: the second module and two functions */
    etwagent_announce_end();
    /* another program, which registers while sessions listen */
    provider_count = 0;
    is_early = 1;
    kept += etwagent_announce_function((void *)0x2000, 0x100, "early", NULL, 3);
    kept += etwagent_announce_begin(ETWAGENT_ANNOUNCE_JSCRIPT) == 0;
    etwagent_announce_end();
    if (!QueryDosDeviceW(L"C:", drive, MAX_PATH))
        drive[0] = 0;
    printf("{\"kept\": %d, \"ns\": %.1f, \"ns_again\": %.1f, \"ns_empty\": %.1f, \"first\": %.0f, ", kept, quiet, again,
           empty, (double)(ULONG_PTR)first);
    printf("\"second\": %.0f, \"drive\": \"", (double)(ULONG_PTR)second);
    for (i = 0; drive[i]; i++)
        printf("%04x", (unsigned)drive[i]);
    printf("\"}\n");
    return fclose(out) ? 1 : 0;
}
