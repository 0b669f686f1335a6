/* Facts of the machine. See machine_facts.h. */
#include "service/etw/machine_facts.h"

#include <windows.h>

#include <string.h>
#include <x86intrin.h>

enum { MEASURE_MS = 100, TRIES = 8, SYSTEM_TIME_OF_DAY = 3 };

/* SYSTEM_TIMEOFDAY_INFORMATION (winternl.h of the SDK has it opaque). Source: ntexapi.h, System Informer. */
typedef struct time_of_day {
    LARGE_INTEGER boot_time, current_time, zone_bias;
    ULONG zone, reserved;
    ULONGLONG boot_bias, sleep_bias;
} time_of_day;

static FARPROC of_ntdll(const char *name) {
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    return ntdll ? GetProcAddress(ntdll, name) : NULL;
}

/* The kernel's own value, which its headers of files have; else the time of day less the time since then. */
static int64_t boot_filetime(void) {
    typedef LONG WINAPI query_system(int, void *, ULONG, ULONG *);
    time_of_day t = {.zone = 0};
    query_system *query = (query_system *)(void (*)(void))of_ntdll("NtQuerySystemInformation");
    FILETIME now;
    if (query && query(SYSTEM_TIME_OF_DAY, &t, sizeof t, NULL) >= 0 && t.boot_time.QuadPart > 0)
        return t.boot_time.QuadPart;
    GetSystemTimeAsFileTime(&now);
    return (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - (int64_t)GetTickCount64() * 10000;
}

void ea_machine_facts_read(ea_machine_facts *ret) {
    typedef LONG WINAPI get_version(OSVERSIONINFOW *);
    OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof v};
    SYSTEM_INFO info;
    get_version *get = (get_version *)(void (*)(void))of_ntdll("RtlGetVersion");
    memset(ret, 0, sizeof *ret);
    if (get && get(&v) == 0) {
        ret->os_version = v.dwMajorVersion | v.dwMinorVersion << 8;
        ret->os_build = v.dwBuildNumber;
    }
    GetNativeSystemInfo(&info);
    ret->pointer_size = info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_INTEL ? 4 : 8;
    ret->cpu_count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    if (!ret->cpu_count)
        ret->cpu_count = info.dwNumberOfProcessors;
    ret->boot_filetime = boot_filetime();
}

int64_t ea_machine_cycles(void) {
    return (int64_t)__rdtsc();
}

/* A pair of both counters at one moment: of TRIES tries the one with the least time between its two reads of the
 * cycles. */
static void facts_take_pair(int64_t *cycles, int64_t *ticks) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        LARGE_INTEGER counter;
        int64_t before = ea_machine_cycles();
        QueryPerformanceCounter(&counter);
        int64_t took = ea_machine_cycles() - before;
        if (took >= least)
            continue;
        least = took;
        *cycles = before + took / 2;
        *ticks = counter.QuadPart;
    }
}

static uint64_t frequency;
static INIT_ONCE measured = INIT_ONCE_STATIC_INIT;

static BOOL CALLBACK machine_facts_measure(INIT_ONCE *once, void *parameter, void **context) {
    LARGE_INTEGER per_second;
    int64_t cycles[2] = {0, 0}, ticks[2] = {0, 0};
    (void)once, (void)parameter, (void)context;
    QueryPerformanceFrequency(&per_second);
    facts_take_pair(&cycles[0], &ticks[0]);
    Sleep(MEASURE_MS);
    facts_take_pair(&cycles[1], &ticks[1]);
    double seconds = (double)(ticks[1] - ticks[0]) / (double)per_second.QuadPart;
    frequency = seconds > 0 ? (uint64_t)((double)(cycles[1] - cycles[0]) / seconds) : 0;
    return TRUE;
}

uint64_t ea_machine_cycle_frequency(void) {
    const uint64_t least = 1000000;
    InitOnceExecuteOnce(&measured, machine_facts_measure, NULL, NULL);
    return frequency > least ? frequency : least;
}
