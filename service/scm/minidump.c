/* Minidumps of another process. See minidump.h. */
#include "service/scm/minidump.h"

#include "service/host/win/wide.h"

#include <windows.h>

#include <dbghelp.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_CRASHED = 70, EXIT_GIVEN_UP = 72 };

typedef BOOL(WINAPI *write_dump)(HANDLE, DWORD, HANDLE, MINIDUMP_TYPE, PMINIDUMP_EXCEPTION_INFORMATION,
                                 PMINIDUMP_USER_STREAM_INFORMATION, PMINIDUMP_CALLBACK_INFORMATION);

static HANDLE dumped;

/* Its threads may be suspended now, so that it cannot end itself. */
static void give_up(void) {
    TerminateProcess(dumped, EXIT_CRASHED);
    TerminateProcess(GetCurrentProcess(), EXIT_GIVEN_UP);
}

static DWORD WINAPI limit_main(void *unused) {
    (void)unused;
    Sleep(EA_DUMP_MS);
    give_up();
    return 0;
}

static LONG WINAPI minidump_on_crash(EXCEPTION_POINTERS *exception) {
    (void)exception;
    give_up();
    return EXCEPTION_EXECUTE_HANDLER;
}

/* A job whose limits end the dumped process when the last handle is closed, hence also when this process is killed in
 * the middle of a dump: the other one's threads would stay suspended. NULL when Windows refuses it. */
static HANDLE bind_fates(void) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    if (job && SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits) &&
        AssignProcessToJobObject(job, dumped))
        return job;
    if (job)
        CloseHandle(job);
    return NULL;
}

static void minidump_release(HANDLE job) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION none = {.BasicLimitInformation = {.LimitFlags = 0}};
    if (!job)
        return;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &none, sizeof none);
    CloseHandle(job);
}

static int find_function(write_dump *ret, ea_err *err) {
    HMODULE help = LoadLibraryExW(L"dbghelp.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    FARPROC found = help ? GetProcAddress(help, "MiniDumpWriteDump") : NULL;
    if (!found)
        return ea_fail_os(err, EA_EUNSUPPORTED, (int)GetLastError(), "find MiniDumpWriteDump");
    memcpy(ret, &found, sizeof *ret);
    return 0;
}

static int write_to(HANDLE file, write_dump write, uint32_t pid, uint32_t thread, uint64_t address, ea_err *err) {
    MINIDUMP_EXCEPTION_INFORMATION where = {
        .ThreadId = thread, .ExceptionPointers = (EXCEPTION_POINTERS *)(uintptr_t)address, .ClientPointers = TRUE};
    /* stacks and modules only: what the heap holds of events and keys stays there */
    return write(dumped, pid, file, MiniDumpNormal, address ? &where : NULL, NULL, NULL)
               ? 0
               : ea_fail_os(err, EA_EIO, (int)GetLastError(), "write a minidump of process %lu", (unsigned long)pid);
}

int ea_minidump_write(uint32_t pid, uint32_t thread, uint64_t address, const char *path, ea_err *err) {
    write_dump write = NULL;
    dumped = OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ | PROCESS_DUP_HANDLE | PROCESS_SET_QUOTA |
                             PROCESS_TERMINATE,
                         FALSE, pid);
    if (!dumped)
        return ea_fail_os(err, EA_ENOTFOUND, (int)GetLastError(), "open process %lu", (unsigned long)pid);
    HANDLE limit = CreateThread(NULL, 0, limit_main, NULL, 0, NULL);
    SetUnhandledExceptionFilter(minidump_on_crash);
    int rc = limit ? find_function(&write, err) : ea_fail_os(err, EA_EIO, (int)GetLastError(), "start a thread");
    WCHAR *wide = rc ? NULL : ea_wide(path);
    if (!rc && !wide)
        rc = ea_fail(err, EA_EINVAL, "write a minidump: its path is no UTF-8, or out of memory");
    HANDLE file = INVALID_HANDLE_VALUE;
    if (!rc) {
        file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file == INVALID_HANDLE_VALUE)
            rc = ea_fail_os(err, EA_EIO, (int)GetLastError(), "write %s", path);
        else {
            HANDLE job = bind_fates();
            rc = write_to(file, write, pid, thread, address, err);
            minidump_release(job);
        }
    }
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    free(wide);
    if (limit)
        CloseHandle(limit);
    CloseHandle(dumped);
    return rc;
}
