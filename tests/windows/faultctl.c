/* Makes faults in a running process, as a debugger does. The shipped program has no code for this.
 *
 *     faultctl crash PID      a thread of the process begins where no code is
 *     faultctl abort PID      a thread of the process calls the C library's abort
 *     faultctl threads PID    the ids of its threads, the oldest first
 *     faultctl suspend TID
 *     faultctl resume TID
 *     faultctl end NAME CODE  the programs of that name end with the code
 *     faultctl write-dump ... never ends, as a dump that hangs
 *     faultctl limits PID     JSON: its priority class, and what its job object says of memory and CPU
 *
 *     faultctl squat NAME     makes the pipe before the service does, and says to each client that all is well, until
 * it is ended faultctl control N      a user-defined control to the service, as "sc control etwagent N" on Windows;
 * Wine's sc has none
 *
 * Called by: test_guard.py, test_trace.py. Thread: the main one. */
#include <windows.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

enum { HANDLES_MAX = 0x4000, THREADS_MAX = 256, NOWHERE = 0x10 };

static int failed(const char *what) {
    fprintf(stderr, "faultctl: %s: error %lu\n", what, (unsigned long)GetLastError());
    return 1;
}

static int crash(DWORD pid) {
    HANDLE process = OpenProcess(PROCESS_ALL_ACCESS, FALSE, pid);
    HANDLE thread =
        process ? CreateRemoteThread(process, NULL, 0, (LPTHREAD_START_ROUTINE)(uintptr_t)NOWHERE, NULL, 0, NULL)
                : NULL;
    return thread ? 0 : failed("begin a thread there");
}

/* The C library is at the same address in each process. */
static int abort_there(DWORD pid) {
    HANDLE process = OpenProcess(PROCESS_ALL_ACCESS, FALSE, pid);
    FARPROC address = GetProcAddress(GetModuleHandleW(L"msvcrt.dll"), "abort");
    LPTHREAD_START_ROUTINE start = NULL;
    memcpy(&start, &address, sizeof start);
    HANDLE thread = process && start ? CreateRemoteThread(process, NULL, 0, start, NULL, 0, NULL) : NULL;
    return thread ? 0 : failed("begin a thread there");
}

static int suspend(DWORD tid) {
    HANDLE thread = OpenThread(THREAD_SUSPEND_RESUME, FALSE, tid);
    return thread && SuspendThread(thread) != (DWORD)-1 ? 0 : failed("suspend");
}

static int resume(DWORD tid) {
    HANDLE thread = OpenThread(THREAD_SUSPEND_RESUME, FALSE, tid);
    return thread && ResumeThread(thread) != (DWORD)-1 ? 0 : failed("resume");
}

static int squat(const WCHAR *name) {
    static const char FORGED[] = "{\"state\": \"running\", \"forged\": true}\n";
    DWORD n;
    HANDLE pipe = CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX, PIPE_TYPE_BYTE | PIPE_WAIT, 1, 4096, 4096, 0, NULL);
    if (pipe == INVALID_HANDLE_VALUE)
        return failed("make the pipe");
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        if (ConnectNamedPipe(pipe, NULL) || GetLastError() == ERROR_PIPE_CONNECTED)
            WriteFile(pipe, FORGED, sizeof FORGED - 1, &n, NULL);
        FlushFileBuffers(pipe);
        DisconnectNamedPipe(pipe);
    }
}

typedef struct one_thread {
    uint64_t began;
    DWORD id;
} one_thread;

static int by_age(const void *a, const void *b) {
    const one_thread *x = a, *y = b;
    return x->began != y->began ? (x->began > y->began) - (x->began < y->began) : (x->id > y->id) - (x->id < y->id);
}

static int threads(DWORD pid) {
    one_thread found[THREADS_MAX];
    size_t n = 0;
    THREADENTRY32 t = {.dwSize = sizeof t};
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    if (all == INVALID_HANDLE_VALUE)
        return failed("list threads");
    for (BOOL more = Thread32First(all, &t); more && n < THREADS_MAX; more = Thread32Next(all, &t)) {
        FILETIME began = {0}, other;
        HANDLE thread =
            t.th32OwnerProcessID == pid ? OpenThread(THREAD_QUERY_INFORMATION, FALSE, t.th32ThreadID) : NULL;
        if (!thread)
            continue;
        GetThreadTimes(thread, &began, &other, &other, &other);
        found[n++] = (one_thread){(uint64_t)began.dwHighDateTime << 32 | began.dwLowDateTime, t.th32ThreadID};
        CloseHandle(thread);
    }
    qsort(found, n, sizeof *found, by_age);
    for (size_t i = 0; i < n; i++)
        printf("%lu\n", (unsigned long)found[i].id);
    return n ? 0 : failed("find a thread");
}

/* A handle of the process that is a job's, in this process; NULL. */
static HANDLE find_job(HANDLE process) {
    for (uintptr_t at = 4; at < HANDLES_MAX; at += 4) {
        HANDLE copy;
        BOOL in = FALSE;
        if (!DuplicateHandle(process, (HANDLE)at, GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS))
            continue;
        JOBOBJECT_BASIC_ACCOUNTING_INFORMATION info;
        if (QueryInformationJobObject(copy, JobObjectBasicAccountingInformation, &info, sizeof info, NULL) &&
            IsProcessInJob(process, copy, &in) && in)
            return copy;
        CloseHandle(copy);
    }
    return NULL;
}

static int limits(DWORD pid) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION memory = {0};
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION cpu = {0};
    HANDLE process = OpenProcess(PROCESS_ALL_ACCESS, FALSE, pid), job = process ? find_job(process) : NULL;
    if (!process)
        return failed("open the process");
    printf("{\"class\": %lu, \"job\": %s", (unsigned long)GetPriorityClass(process), job ? "true" : "false");
    if (job && QueryInformationJobObject(job, JobObjectExtendedLimitInformation, &memory, sizeof memory, NULL))
        printf(", \"flags\": %lu, \"memory\": %llu", (unsigned long)memory.BasicLimitInformation.LimitFlags,
               (unsigned long long)memory.ProcessMemoryLimit);
    if (job && QueryInformationJobObject(job, JobObjectCpuRateControlInformation, &cpu, sizeof cpu, NULL))
        printf(", \"cpu\": %lu", (unsigned long)cpu.CpuRate);
    printf("}\n");
    return 0;
}

static int control(DWORD number) {
    SERVICE_STATUS status;
    SC_HANDLE manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
    SC_HANDLE service = manager ? OpenServiceW(manager, L"etwagent", SERVICE_USER_DEFINED_CONTROL) : NULL;
    return service && ControlService(service, number, &status) ? 0 : failed("send a control");
}

static int end(const WCHAR *name, DWORD code) {
    PROCESSENTRY32W p = {.dwSize = sizeof p};
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    unsigned ended = 0;
    for (BOOL more = Process32FirstW(all, &p); more; more = Process32NextW(all, &p)) {
        HANDLE process = wcscmp(p.szExeFile, name) == 0 ? OpenProcess(PROCESS_TERMINATE, FALSE, p.th32ProcessID) : NULL;
        ended += process && TerminateProcess(process, code);
    }
    return ended ? 0 : failed("end a program of that name");
}

int wmain(int argc, WCHAR **argv); /* no header has it */

int wmain(int argc, WCHAR **argv) {
    static const struct {
        const WCHAR *name;
        int (*run)(DWORD id);
    } COMMANDS[] = {{L"crash", crash},   {L"abort", abort_there}, {L"threads", threads}, {L"suspend", suspend},
                    {L"resume", resume}, {L"limits", limits},     {L"control", control}};

    if (argc == 4 && wcscmp(argv[1], L"end") == 0)
        return end(argv[2], (DWORD)wcstoul(argv[3], NULL, 0));
    if (argc == 3 && wcscmp(argv[1], L"squat") == 0)
        return squat(argv[2]);
    if (argc >= 2 && wcscmp(argv[1], L"write-dump") == 0)
        Sleep(INFINITE);
    for (size_t i = 0; argc == 3 && i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (wcscmp(argv[1], COMMANDS[i].name) == 0)
            return COMMANDS[i].run((DWORD)wcstoul(argv[2], NULL, 10));
    fprintf(stderr, "usage: faultctl crash|abort|threads|limits PID, faultctl suspend|resume TID, faultctl control N, "
                    "faultctl squat NAME, faultctl end NAME CODE\n");
    return 2;
}
