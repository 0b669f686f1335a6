/* Ceilings, watchdog, minidumps. See watchdog.h. */
#include "service/scm/watchdog.h"

#include "proto/base/platform.h"
#include "service/host/win/wide.h"
#include "service/scm/eventlog.h"
#include "service/scm/minidump.h"

#include <windows.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DUMPS = 3, EXIT_CRASHED = 70, EXIT_HUNG = 71, SPARE_MS = 2000, PROGRAM_BYTES = 1024, SPARE_STACK = 32 << 10 };

static const DWORD FATAL_APP_EXIT = 0x40000015; /* STATUS_FATAL_APP_EXIT (ntstatus.h) */
static const int64_t LOOK_MAX_NS = INT64_C(5000000000), LOOK_MIN_NS = INT64_C(50000000);

/* ---- minidumps ---- */

static WCHAR *dump_paths[DUMPS], *program; /* made beforehand: a crashed process allocates as little as it can */
static LONG dumping;
static HANDLE crashed; /* an event: dump_main's thread has work */
static DWORD crashed_thread;
static const EXCEPTION_POINTERS *crashed_at;
static UINT exit_code;

/* The dump that is not there yet, or else the oldest. */
static const WCHAR *next_dump(void) {
    FILETIME oldest = {0};
    const WCHAR *path = NULL;
    for (size_t i = 0; i < DUMPS; i++) {
        WIN32_FILE_ATTRIBUTE_DATA data;
        if (!GetFileAttributesExW(dump_paths[i], GetFileExInfoStandard, &data))
            return dump_paths[i];
        if (!path || CompareFileTime(&data.ftLastWriteTime, &oldest) < 0) {
            path = dump_paths[i];
            oldest = data.ftLastWriteTime;
        }
    }
    return path;
}

/* A second process writes the dump (minidump.h): in this one a lock that the crashed thread holds could stop it. */
static void dump(void) {
    static WCHAR command[4096];
    STARTUPINFOW how = {.cb = sizeof how};
    PROCESS_INFORMATION made;
    if (_snwprintf(command, sizeof command / sizeof *command, L"\"%ls\" write-dump %lu %lu %llu \"%ls\"", program,
                   GetCurrentProcessId(), crashed_thread, (unsigned long long)(uintptr_t)crashed_at, next_dump()) < 0)
        return;
    command[sizeof command / sizeof *command - 1] = 0;
    if (!CreateProcessW(program, command, NULL, NULL, FALSE, CREATE_NO_WINDOW | NORMAL_PRIORITY_CLASS, NULL, NULL, &how,
                        &made))
        return;
    if (WaitForSingleObject(made.hProcess, EA_DUMP_MS) != WAIT_OBJECT_0)
        TerminateProcess(made.hProcess, EXIT_HUNG);
}

static DWORD WINAPI dump_main(void *unused) {
    (void)unused;
    WaitForSingleObject(crashed, INFINITE);
    dump();
    TerminateProcess(GetCurrentProcess(), exit_code); /* no dialogue, no report; the SCM starts it again */
    return 0;
}

/* Ends the process after its dump, and without a dump when that takes too long: this thread calls only what needs no
 * lock of the process. exception: NULL without one. */
static void end_with_dump(const EXCEPTION_POINTERS *exception, UINT code) {
    if (crashed && !InterlockedExchange(&dumping, 1)) {
        crashed_thread = exception ? GetCurrentThreadId() : 0;
        crashed_at = exception;
        exit_code = code;
        SetEvent(crashed);
    }
    if (crashed)
        Sleep(EA_DUMP_MS + SPARE_MS);
    TerminateProcess(GetCurrentProcess(), code);
}

static LONG WINAPI watchdog_on_crash(EXCEPTION_POINTERS *exception) {
    end_with_dump(exception, EXIT_CRASHED);
    return EXCEPTION_EXECUTE_HANDLER;
}

/* abort() alone would end the process without a dump. */
static void watchdog_on_abort(int number) {
    (void)number;
    RaiseException(FATAL_APP_EXIT, EXCEPTION_NONCONTINUABLE, 0, NULL);
}

int ea_watchdog_crashes(const char *folder, ea_err *err) {
    int rc = ea_path_make_dirs(folder, err);
    size_t n = strlen(folder) + 32;
    char *path = rc ? NULL : malloc(n);
    if (rc || !path)
        return rc ? rc : ea_fail(err, EA_ENOMEM, "prepare minidumps in %s", folder);
    for (int i = 0; i < DUMPS && !rc; i++) {
        snprintf(path, n, "%s\\crash-%d.dmp", folder, i + 1);
        dump_paths[i] = ea_wide(path);
        if (!dump_paths[i])
            rc = ea_fail(err, EA_ENOMEM, "prepare minidumps in %s", folder);
    }
    free(path);
    if (rc)
        return rc;
    char own[PROGRAM_BYTES];
    rc = ea_program_path(own, sizeof own, err);
    if (!rc && !(program = ea_wide(own)))
        rc = ea_fail(err, EA_ENOMEM, "prepare minidumps in %s", folder);
    if (rc)
        return rc;
    crashed = CreateEventW(NULL, TRUE, FALSE, NULL);
    HANDLE thread = crashed ? CreateThread(NULL, 0, dump_main, NULL, 0, NULL) : NULL;
    if (!thread) {
        rc = ea_fail_os(err, EA_EIO, (int)GetLastError(), "prepare minidumps in %s", folder);
        if (crashed)
            CloseHandle(crashed);
        crashed = NULL;
        return rc;
    }
    CloseHandle(thread);
    ULONG spare_bytes = SPARE_STACK;
    SetThreadStackGuarantee(&spare_bytes);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    SetUnhandledExceptionFilter(watchdog_on_crash);
    (void)signal(SIGABRT, watchdog_on_abort);
    return 0;
}

/* ---- ceilings ---- */

static void watchdog_refused(const char *what, void (*on_note)(void *arg, const char *line), void *arg) {
    char text[256], line[400];
    ea_os_error_text((int)GetLastError(), text, sizeof text);
    snprintf(line, sizeof line, "%s: refused, and gone past: %s", what, text);
    on_note(arg, line);
}

void ea_watchdog_limit(const ea_watchdog_limits *limits, void (*on_note)(void *arg, const char *line), void *arg) {
    static const DWORD CLASSES[] = {NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS, IDLE_PRIORITY_CLASS};
    static HANDLE job;
    if (!SetPriorityClass(GetCurrentProcess(), CLASSES[limits->priority]))
        watchdog_refused("the priority class", on_note, arg);
    if (!job && !limits->memory_bytes && !limits->cpu_percent)
        return;
    if (!job) {
        job = CreateJobObjectW(NULL, NULL);
        if (!job || !AssignProcessToJobObject(job, GetCurrentProcess())) {
            watchdog_refused("a job object for the limits", on_note, arg);
            if (job)
                CloseHandle(job);
            job = NULL;
            return;
        }
    }
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION memory = {0};
    if (limits->memory_bytes) {
        memory.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_PROCESS_MEMORY;
        memory.ProcessMemoryLimit = (SIZE_T)limits->memory_bytes;
    }
    if (!SetInformationJobObject(job, JobObjectExtendedLimitInformation, &memory, sizeof memory))
        watchdog_refused("the memory limit", on_note, arg);
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION cpu = {0};
    if (limits->cpu_percent) {
        cpu.ControlFlags = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
        cpu.CpuRate = limits->cpu_percent * 100; /* in 1/100 percent */
    }
    if (!SetInformationJobObject(job, JobObjectCpuRateControlInformation, &cpu, sizeof cpu) && limits->cpu_percent)
        watchdog_refused("the CPU limit", on_note, arg);
}

/* ---- the watchdog ---- */

struct ea_watchdog {
    const atomic_uint *beats;
    ea_mutex *lock;
    ea_cond *wake;
    ea_thread *thread;
    int64_t limit_ns; /* lock, like stop */
    int stop;
};

static void watchdog_thread(void *arg) {
    ea_watchdog *w = arg;
    unsigned last = atomic_load(w->beats);
    int64_t since = ea_monotonic_ns(), looked = since;
    ea_mutex_lock(w->lock);
    while (!w->stop) {
        int64_t look_ns = w->limit_ns ? w->limit_ns / 8 : LOOK_MAX_NS;
        look_ns = look_ns > LOOK_MAX_NS ? LOOK_MAX_NS : look_ns < LOOK_MIN_NS ? LOOK_MIN_NS : look_ns;
        ea_cond_wait_for(w->wake, w->lock, look_ns);
        int64_t now = ea_monotonic_ns();
        unsigned beats = atomic_load(w->beats);
        if (beats != last || now - looked > 2 * LOOK_MAX_NS) { /* it lives; or the whole machine slept */
            last = beats;
            since = now;
        }
        looked = now;
        if (w->limit_ns && now - since > w->limit_ns) {
            ea_eventlog_write(EA_EVENTLOG_FAILED,
                              "the main thread does not respond; the process ends, so that it is started again");
            end_with_dump(NULL, EXIT_HUNG);
        }
    }
    ea_mutex_unlock(w->lock);
}

int ea_watchdog_start(ea_watchdog **ret, const atomic_uint *beats, ea_err *err) {
    ea_watchdog *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "start the watchdog");
    w->beats = beats;
    int rc = ea_mutex_create(&w->lock, err);
    if (!rc)
        rc = ea_cond_create(&w->wake, err);
    if (!rc)
        rc = ea_thread_start(&w->thread, "watchdog", watchdog_thread, w, err);
    if (rc) {
        ea_cond_destroy(w->wake);
        ea_mutex_destroy(w->lock);
        free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ea_watchdog_set(ea_watchdog *w, int64_t limit_ns) {
    ea_mutex_lock(w->lock);
    w->limit_ns = limit_ns;
    ea_cond_broadcast(w->wake);
    ea_mutex_unlock(w->lock);
}

void ea_watchdog_stop(ea_watchdog *w) {
    if (!w)
        return;
    ea_mutex_lock(w->lock);
    w->stop = 1;
    ea_cond_broadcast(w->wake);
    ea_mutex_unlock(w->lock);
    ea_thread_join(w->thread);
    ea_cond_destroy(w->wake);
    ea_mutex_destroy(w->lock);
    free(w);
}
