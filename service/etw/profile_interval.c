/* Intervals of profile sources, which are the machine's: the values from before this program's sessions are set back.
 * They are in a volatile key of the registry, too, which the next process reads after a crash. See session.h.
 * Thread: any; one lock. Source: PerfView sets the interval back when it stops (TraceEventSession.Stop). */
#include "service/etw/session.h"

#include <string.h>

static const WCHAR KEY[] = L"SOFTWARE\\etwagent\\ProfileIntervals", PARENT[] = L"SOFTWARE\\etwagent";

enum { ENTRIES_MAX = 64, NAME_CHARS = 16 };

typedef struct entry {
    uint32_t source, interval;
    unsigned users; /* sessions of this process; 0: free */
} entry;

/* The value of a source in the registry. */
typedef struct kept {
    uint32_t interval, pid;
    uint64_t started; /* the process: ids are used again */
} kept;

/* When a process was started; 0: there is none, or Windows does not say. */
static uint64_t started_of(HANDLE process) {
    FILETIME began, ended, kernel, user;
    return process && GetProcessTimes(process, &began, &ended, &kernel, &user)
               ? (uint64_t)began.dwHighDateTime << 32 | began.dwLowDateTime
               : 0;
}

static SRWLOCK lock = SRWLOCK_INIT;
static entry entries[ENTRIES_MAX];

/* Returns whether Windows took it; it needs the privilege that pmc.c enables. */
static int profile_interval_set(const ea_etw_api *api, uint32_t source, uint32_t interval) {
    TRACE_PROFILE_INTERVAL value = {source, interval};
    return api->TraceSetInformation &&
           !api->TraceSetInformation(0, TraceSampledProfileIntervalInfo, &value, sizeof value);
}

static entry *profile_interval_find(uint32_t source) {
    for (size_t i = 0; i < ENTRIES_MAX; i++)
        if (entries[i].users && entries[i].source == source)
            return &entries[i];
    return NULL;
}

static void profile_interval_write_value(uint32_t source, uint32_t interval) {
    kept value = {interval, GetCurrentProcessId(), started_of(GetCurrentProcess())};
    WCHAR name[NAME_CHARS];
    HKEY key;
    _snwprintf(name, NAME_CHARS, L"%u", source);
    if (RegCreateKeyExW(HKEY_LOCAL_MACHINE, KEY, 0, NULL, REG_OPTION_VOLATILE, KEY_SET_VALUE, NULL, &key, NULL))
        return;
    (void)RegSetValueExW(key, name, 0, REG_BINARY, (const BYTE *)&value, sizeof value);
    RegCloseKey(key);
}

static void remove_value(const WCHAR *name) {
    HKEY key;
    DWORD values = 1;
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, KEY, 0, KEY_SET_VALUE | KEY_QUERY_VALUE, &key))
        return;
    (void)RegDeleteValueW(key, name);
    (void)RegQueryInfoKeyW(key, NULL, NULL, NULL, NULL, NULL, NULL, &values, NULL, NULL, NULL, NULL);
    RegCloseKey(key);
    if (!values && !RegDeleteKeyW(HKEY_LOCAL_MACHINE, KEY))
        (void)RegDeleteKeyW(HKEY_LOCAL_MACHINE, PARENT); /* fails when there is more in it */
}

void ea_profile_keep(ea_session *s, uint32_t source) {
    TRACE_PROFILE_INTERVAL now = {.Source = source};
    ULONG bytes = 0;
    for (unsigned i = 0; i < s->profiled_count; i++)
        if (s->profiled[i] == source)
            return;
    if (s->is_detached || s->profiled_count == sizeof s->profiled / sizeof *s->profiled ||
        !s->api->TraceQueryInformation ||
        s->api->TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &now, sizeof now, &bytes) || !now.Interval)
        return;
    AcquireSRWLockExclusive(&lock);
    entry *e = profile_interval_find(source);
    for (size_t i = 0; !e && i < ENTRIES_MAX; i++)
        if (!entries[i].users) {
            e = &entries[i];
            *e = (entry){.source = source, .interval = now.Interval};
            profile_interval_write_value(source, now.Interval);
        }
    if (e) {
        e->users++;
        s->profiled[s->profiled_count++] = source;
    }
    ReleaseSRWLockExclusive(&lock);
}

void ea_profile_restore(ea_session *s) {
    AcquireSRWLockExclusive(&lock);
    for (unsigned i = 0; i < s->profiled_count; i++) {
        entry *e = profile_interval_find(s->profiled[i]);
        WCHAR name[NAME_CHARS];
        if (!e || --e->users)
            continue;
        (void)profile_interval_set(s->api, e->source, e->interval);
        _snwprintf(name, NAME_CHARS, L"%u", e->source);
        remove_value(name);
    }
    s->profiled_count = 0;
    ReleaseSRWLockExclusive(&lock);
}

/* The process that wrote the value runs. */
static int is_alive(const kept *value) {
    HANDLE process = OpenProcess(SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, FALSE, value->pid);
    if (!process)
        return GetLastError() != ERROR_INVALID_PARAMETER;
    int runs = WaitForSingleObject(process, 0) == WAIT_TIMEOUT && started_of(process) == value->started;
    CloseHandle(process);
    return runs;
}

void ea_profile_recover(const ea_etw_api *api) {
    HKEY key;
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, KEY, 0, KEY_QUERY_VALUE, &key))
        return;
    AcquireSRWLockExclusive(&lock);
    for (DWORD i = 0; i < ENTRIES_MAX;) {
        WCHAR name[NAME_CHARS];
        kept value;
        DWORD chars = NAME_CHARS, bytes = sizeof value, type = 0;
        if (RegEnumValueW(key, i, name, &chars, NULL, &type, (BYTE *)&value, &bytes))
            break;
        uint32_t source = (uint32_t)wcstoul(name, NULL, 10);
        if (type != REG_BINARY || bytes != sizeof value || profile_interval_find(source) || is_alive(&value) ||
            !profile_interval_set(api, source, value.interval)) {
            i++;
            continue;
        }
        remove_value(name);
    }
    ReleaseSRWLockExclusive(&lock);
    RegCloseKey(key);
}
