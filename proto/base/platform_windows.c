/* The Windows half of platform.h, without its files, which are in platform_windows_files.c. Paths come as UTF-8 and go
 * to Windows as UTF-16; a path too long for the classic limit gets the \\?\ form. Thread: any, as platform.h says. */
#if defined(_WIN32)
#define COBJMACROS /* COM by functions */
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include "proto/base/clock.h"
#include "proto/base/platform_windows.h"

#include <windows.h>

#include <bcrypt.h>
#include <fcntl.h>
#include <io.h>
#include <netlistmgr.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>

struct ea_thread {
    HANDLE handle;
    void (*fn)(void *);
    void *arg;
    WCHAR name[16];
};

struct ea_mutex {
    SRWLOCK lock;
#if defined(EA_ASSERTIONS)
    DWORD owner; /* thread id; 0: none */
#endif
};

struct ea_cond {
    CONDITION_VARIABLE variable;
};

struct ea_wake {
    HANDLE set; /* an event that the wait resets */
};

/* ---- text ---- */

/* UTF-8 to UTF-16, allocated; NULL when there is no memory or the UTF-8 is invalid. extra: free characters after the
 * text. */
static WCHAR *to_wide(const char *s, size_t extra) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, s, -1, NULL, 0);
    if (n <= 0)
        return NULL;
    WCHAR *w = malloc(((size_t)n + extra) * sizeof *w);
    if (w)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, s, -1, w, n);
    return w;
}

char *ea_windows_utf8(const wchar_t *w) {
    int n = WideCharToMultiByte(CP_UTF8, 0, w, -1, NULL, 0, NULL, NULL);
    char *s = n > 0 ? malloc((size_t)n) : NULL;
    if (s)
        WideCharToMultiByte(CP_UTF8, 0, w, -1, s, n, NULL, NULL);
    return s;
}

/* A path for the W functions, allocated, with room for `extra` more characters; NULL as to_wide says. */
wchar_t *ea_windows_path(const char *path, size_t extra) {
    enum { CLASSIC_LIMIT = 240 }; /* MAX_PATH less an 8.3 name, which folders must leave room for */

    WCHAR *w = to_wide(path, extra);
    if (!w)
        return NULL;
    for (WCHAR *p = w; *p; p++)
        if (*p == L'/')
            *p = L'\\';
    if (wcslen(w) + extra < CLASSIC_LIMIT || wcsncmp(w, L"\\\\?\\", 4) == 0)
        return w;
    DWORD need = GetFullPathNameW(w, 0, NULL, NULL);
    WCHAR *full = need ? malloc((need + 8 + extra) * sizeof *full) : NULL;
    if (full) {
        int share = w[0] == L'\\' && w[1] == L'\\';
        /* \\server\share becomes \\?\UNC\server\share: its first backslash is written over */
        const WCHAR *prefix = share ? L"\\\\?\\UNC" : L"\\\\?\\";
        size_t at = share ? 6 : 4;
        if (!GetFullPathNameW(w, need, full + at, NULL)) {
            free(full);
            full = NULL;
        } else {
            memcpy(full, prefix, wcslen(prefix) * sizeof *full);
        }
    }
    free(w);
    return full;
}

int ea_windows_bad_path(ea_err *err, const char *what, const char *path) {
    return ea_fail(err, EA_EINVAL, "%s %s: the path is not usable", what, path);
}

int ea_windows_fail(ea_err *err, const char *what, const char *path) {
    DWORD os = GetLastError();
    int code = EA_EIO;
    if (os == ERROR_FILE_NOT_FOUND || os == ERROR_PATH_NOT_FOUND)
        code = EA_ENOTFOUND;
    else if (os == ERROR_DISK_FULL || os == ERROR_HANDLE_DISK_FULL)
        code = EA_EFULL;
    else if (os == ERROR_SHARING_VIOLATION || os == ERROR_LOCK_VIOLATION)
        code = EA_EBUSY;
    return ea_fail_os(err, code, (int)os, "%s %s", what, path);
}

/* ---- threads ---- */

typedef HRESULT(WINAPI *set_description)(HANDLE, PCWSTR);

static unsigned __stdcall thread_main(void *arg) {
    ea_thread *t = arg;
    /* looked up, because the import library of older tool chains lacks it */
    FARPROC found = GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription");
    if (found) {
        set_description set;
        memcpy(&set, &found, sizeof set);
        set(GetCurrentThread(), t->name);
    }
    ULONG spare_bytes = 32 << 10; /* for the handler of crashes, when the stack is full */
    SetThreadStackGuarantee(&spare_bytes);
    t->fn(t->arg);
    return 0;
}

int ea_thread_start(ea_thread **ret, const char *name, void (*fn)(void *), void *arg, ea_err *err) {
    ea_thread *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "start thread %s", name);
    t->fn = fn;
    t->arg = arg;
    for (size_t i = 0; i + 1 < sizeof t->name / sizeof *t->name && name[i]; i++)
        t->name[i] = (unsigned char)name[i];
    uintptr_t handle = _beginthreadex(NULL, 0, thread_main, t, 0, NULL);
    if (!handle) {
        free(t);
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "start thread %s", name);
    }
    t->handle = (HANDLE)handle;
    *ret = t;
    return 0;
}

void ea_thread_join(ea_thread *thread) {
    if (!thread)
        return;
    WaitForSingleObject(thread->handle, INFINITE);
    CloseHandle(thread->handle);
    free(thread);
}

void ea_thread_leave(ea_thread *thread) {
    CloseHandle(thread->handle);
    free(thread);
}

void ea_thread_lower(enum ea_bulk_priority priority) {
    SetThreadPriority(GetCurrentThread(),
                      priority == EA_BULK_BACKGROUND ? THREAD_MODE_BACKGROUND_BEGIN : THREAD_PRIORITY_BELOW_NORMAL);
}

void ea_thread_background(int on) {
    SetThreadPriority(GetCurrentThread(), on ? THREAD_MODE_BACKGROUND_BEGIN : THREAD_MODE_BACKGROUND_END);
}

int ea_mutex_create(ea_mutex **ret, ea_err *err) {
    ea_mutex *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "create a mutex");
    InitializeSRWLock(&m->lock);
    *ret = m;
    return 0;
}

void ea_mutex_destroy(ea_mutex *m) {
    free(m);
}

static void note_owner(ea_mutex *m, DWORD thread_id) {
#if defined(EA_ASSERTIONS)
    m->owner = thread_id;
#else
    (void)m, (void)thread_id;
#endif
}

void ea_mutex_lock(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    AcquireSRWLockExclusive(&m->lock);
    note_owner(m, GetCurrentThreadId());
}

void ea_mutex_unlock(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    note_owner(m, 0);
    ReleaseSRWLockExclusive(&m->lock);
}

#if defined(EA_ASSERTIONS)
void ea_mutex_assert_held(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    EA_ASSERT(m->owner == GetCurrentThreadId());
}
#endif

int ea_cond_create(ea_cond **ret, ea_err *err) {
    ea_cond *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "create a condition variable");
    InitializeConditionVariable(&c->variable);
    *ret = c;
    return 0;
}

void ea_cond_destroy(ea_cond *c) {
    free(c);
}

void ea_cond_wait(ea_cond *c, ea_mutex *m) {
    note_owner(m, 0);
    SleepConditionVariableSRW(&c->variable, &m->lock, INFINITE, 0);
    note_owner(m, GetCurrentThreadId());
}

int ea_cond_wait_for(ea_cond *c, ea_mutex *m, int64_t timeout_ns) {
    int64_t ms = timeout_ns > 0 ? (timeout_ns - 1) / 1000000 + 1 : 0;
    DWORD wait = ms < (int64_t)INFINITE ? (DWORD)ms : INFINITE - 1;
    note_owner(m, 0);
    BOOL woken = SleepConditionVariableSRW(&c->variable, &m->lock, wait, 0);
    note_owner(m, GetCurrentThreadId());
    return woken ? 0 : EA_ETIMEOUT;
}

void ea_cond_signal(ea_cond *c) {
    WakeConditionVariable(&c->variable);
}

void ea_cond_broadcast(ea_cond *c) {
    WakeAllConditionVariable(&c->variable);
}

int ea_wake_create(ea_wake **ret, ea_err *err) {
    ea_wake *w = calloc(1, sizeof *w);
    if (w)
        w->set = CreateEventW(NULL, FALSE, FALSE, NULL);
    if (!w || !w->set) {
        free(w);
        return ea_fail(err, EA_ENOMEM, "create an event");
    }
    *ret = w;
    return 0;
}

void ea_wake_destroy(ea_wake *w) {
    if (w)
        CloseHandle(w->set);
    free(w);
}

void ea_wake_set(ea_wake *w) {
    if (w)
        SetEvent(w->set);
}

void ea_wake_wait(ea_wake *w, int64_t timeout_ns) {
    WaitForSingleObject(w->set, timeout_ns > 0 ? (DWORD)((timeout_ns - 1) / 1000000 + 1) : 0);
}

/* ---- time ---- */

int64_t ea_monotonic_ns(void) {
    LARGE_INTEGER frequency, now;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&now);
    int64_t f = frequency.QuadPart, t = now.QuadPart;
    return t / f * 1000000000 + t % f * 1000000000 / f; /* f is far below 2^33, so the product fits */
}

int64_t ea_utc_ns(void) {
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    int64_t filetime = (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime);
    return (filetime - 116444736000000000) * 100;
}

static int64_t cpu_ns(FILETIME kernel, FILETIME user) {
    uint64_t in_kernel = (uint64_t)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime;
    uint64_t in_user = (uint64_t)user.dwHighDateTime << 32 | user.dwLowDateTime;
    return (int64_t)((in_kernel + in_user) * 100);
}

int64_t ea_process_cpu_ns(void) {
    FILETIME made, ended, kernel = {0}, user = {0};
    GetProcessTimes(GetCurrentProcess(), &made, &ended, &kernel, &user);
    return cpu_ns(kernel, user);
}

int64_t ea_thread_cpu_ns(void) {
    FILETIME made, ended, kernel = {0}, user = {0};
    GetThreadTimes(GetCurrentThread(), &made, &ended, &kernel, &user);
    return cpu_ns(kernel, user);
}

void ea_sleep_ns(int64_t ns) {
    if (ns <= 0)
        return;
    /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION: Windows 10 1803; without it a sleep is a multiple of some 15 ms */
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, 0x00000002, TIMER_ALL_ACCESS);
    if (!timer)
        timer = CreateWaitableTimerExW(NULL, NULL, 0, TIMER_ALL_ACCESS);
    LARGE_INTEGER due = {.QuadPart = -((ns - 1) / 100 + 1)}; /* negative: from now, in 100 ns */
    if (timer && SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE))
        WaitForSingleObject(timer, INFINITE);
    else
        Sleep((DWORD)((ns - 1) / 1000000 + 1));
    if (timer)
        CloseHandle(timer);
}

void *ea_large_alloc(size_t size_bytes) {
    return VirtualAlloc(NULL, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void ea_large_free(void *p, size_t size_bytes) {
    (void)size_bytes;
    if (p)
        (void)VirtualFree(p, 0, MEM_RELEASE);
}

int ea_random_bytes(void *out, size_t len_bytes, ea_err *err) {
    uint8_t *p = out;
    while (len_bytes) {
        ULONG n = len_bytes > 1 << 20 ? 1 << 20 : (ULONG)len_bytes;
        NTSTATUS status = BCryptGenRandom(NULL, p, n, BCRYPT_USE_SYSTEM_PREFERRED_RNG);
        if (status < 0)
            return ea_fail(err, EA_EIO, "read random bytes: status 0x%08lx", (unsigned long)status);
        p += n;
        len_bytes -= n;
    }
    return 0;
}

/* ---- the rest ---- */

void ea_os_error_text(int os_error, char *out, size_t out_bytes) {
    WCHAR text[256];
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, (DWORD)os_error, 0, text,
                             sizeof text / sizeof *text, NULL);
    while (n && (text[n - 1] == L'\r' || text[n - 1] == L'\n' || text[n - 1] == L' ' || text[n - 1] == L'.'))
        n--;
    text[n < sizeof text / sizeof *text ? n : 0] = 0;
    char *utf8 = n ? ea_windows_utf8(text) : NULL;
    snprintf(out, out_bytes, "%s (Windows error %d)", utf8 ? utf8 : "no text", os_error);
    free(utf8);
}

int ea_is_closed_pipe(FILE *f) {
    return ferror(f) && GetFileType((HANDLE)_get_osfhandle(_fileno(f))) == FILE_TYPE_PIPE;
}

void ea_end_of_closed_pipe(void) {
    /* Windows has no such signal */
}

int ea_is_terminal(FILE *f) {
    return _isatty(_fileno(f));
}

int ea_terminal_takes_sequences(FILE *f) {
    HANDLE console = (HANDLE)_get_osfhandle(_fileno(f));
    DWORD mode;
    return ea_is_terminal(f) && GetConsoleMode(console, &mode) &&
           SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

uint32_t ea_process_id(void) {
    return GetCurrentProcessId();
}

/* A name of this machine in UTF-8, "" when there is none. */
static void computer_name(COMPUTER_NAME_FORMAT which, char *out, size_t out_bytes) {
    WCHAR name[256];
    DWORD n = sizeof name / sizeof *name;
    char *utf8 = GetComputerNameExW(which, name, &n) ? ea_windows_utf8(name) : NULL;
    snprintf(out, out_bytes, "%s", utf8 ? utf8 : "");
    free(utf8);
}

void ea_host_name(char *out, size_t out_bytes) {
    computer_name(ComputerNameDnsHostname, out, out_bytes);
    if (!*out)
        snprintf(out, out_bytes, "unknown");
}

/* GetVersionEx reports an old version to a program without the newest manifest; RtlGetVersion does not. */
static void os_version(char *out, size_t out_bytes) {
    typedef LONG WINAPI get_version(OSVERSIONINFOW *);
    OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof v};
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    get_version *get = ntdll ? (get_version *)(void (*)(void))GetProcAddress(ntdll, "RtlGetVersion") : NULL;
    if (get && get(&v) == 0)
        snprintf(out, out_bytes, "%lu.%lu.%lu", v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
}

static const char *architecture(void) {
    SYSTEM_INFO s;
    GetNativeSystemInfo(&s);
    return s.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_AMD64   ? "x86_64"
           : s.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_ARM64 ? "arm64"
                                                                      : "";
}

void ea_machine_fact(enum ea_machine_fact fact, char *out, size_t out_bytes) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    out[0] = 0;
    switch (fact) {
    case EA_MACHINE_NAME:
        ea_host_name(out, out_bytes);
        break;
    case EA_MACHINE_DOMAIN:
        computer_name(ComputerNameDnsDomain, out, out_bytes);
        break;
    case EA_MACHINE_OS:
        snprintf(out, out_bytes, "Windows");
        break;
    case EA_MACHINE_OS_VERSION:
        os_version(out, out_bytes);
        break;
    case EA_MACHINE_ARCHITECTURE:
        snprintf(out, out_bytes, "%s", architecture());
        break;
    case EA_MACHINE_CPUS:
        snprintf(out, out_bytes, "%lu", GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
        break;
    case EA_MACHINE_MEMORY:
        if (GlobalMemoryStatusEx(&memory))
            snprintf(out, out_bytes, "%llu", (unsigned long long)memory.ullTotalPhys);
        break;
    }
}

int ea_power_is_battery(void) {
    SYSTEM_POWER_STATUS s;
    return !GetSystemPowerStatus(&s) || s.ACLineStatus > 1 ? -1 : s.ACLineStatus == 0;
}

/* The one question of COM's network list manager that needs no handler: what the connection costs. */
int ea_network_is_metered(void) {
    enum { COSTS = NLM_CONNECTION_COST_FIXED | NLM_CONNECTION_COST_VARIABLE | NLM_CONNECTION_COST_ROAMING };

    INetworkCostManager *manager = NULL;
    DWORD cost = 0;
    HRESULT begun = CoInitializeEx(NULL, COINIT_MULTITHREADED);
    int result = -1;
    if (FAILED(begun) && begun != RPC_E_CHANGED_MODE)
        return -1;
    if (SUCCEEDED(CoCreateInstance(&CLSID_NetworkListManager, NULL, CLSCTX_ALL, &IID_INetworkCostManager,
                                   (void **)&manager))) {
        if (SUCCEEDED(INetworkCostManager_GetCost(manager, &cost, NULL)) && cost != NLM_CONNECTION_COST_UNKNOWN)
            result = (cost & COSTS) != 0;
        INetworkCostManager_Release(manager);
    }
    if (SUCCEEDED(begun))
        CoUninitialize();
    return result;
}

int ea_environment(const char *name, char *out, size_t out_bytes) {
    WCHAR *wide = to_wide(name, 0), *value = NULL;
    DWORD room = wide ? GetEnvironmentVariableW(wide, NULL, 0) : 0; /* with its NUL; 0: it is not set */
    char *utf8 = NULL;
    if (room && (value = calloc(room, sizeof *value))) {
        GetEnvironmentVariableW(wide, value, room);
        utf8 = ea_windows_utf8(value);
    }
    free(wide);
    free(value);
    if (!utf8)
        return EA_ENOTFOUND;
    snprintf(out, out_bytes, "%s", utf8);
    free(utf8);
    return 0;
}

int ea_state_dir(char *out, size_t out_bytes, ea_err *err) {
    /* where Windows itself keeps it: an environment is its user's, and that of a service need not name it */
    static const WCHAR KEY[] = L"SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion\\ProfileList";
    WCHAR base[MAX_PATH];
    DWORD bytes = sizeof base;
    int found =
        RegGetValueW(HKEY_LOCAL_MACHINE, KEY, L"ProgramData", RRF_RT_REG_SZ, NULL, base, &bytes) == ERROR_SUCCESS;
    if (!found) {
        DWORD n = GetEnvironmentVariableW(L"ProgramData", base, sizeof base / sizeof *base);
        found = n && n < sizeof base / sizeof *base;
    }
    char *utf8 = found ? ea_windows_utf8(base) : NULL;
    if (!utf8)
        return ea_fail(err, EA_ENOTFOUND, "find the folder for state: Windows names no ProgramData");
    int length = snprintf(out, out_bytes, "%s\\etwagent", utf8);
    free(utf8);
    return length < 0 || (size_t)length >= out_bytes
               ? ea_fail(err, EA_ELIMIT, "find the folder for state: its name is too long")
               : 0;
}

/* ---- other programs and libraries ---- */

int ea_program_path(char *out, size_t out_bytes, ea_err *err) {
    WCHAR w[4096];
    DWORD n = GetModuleFileNameW(NULL, w, 4096);
    if (!n)
        return ea_fail_os(err, EA_ENOTFOUND, (int)GetLastError(), "find this program's own file");
    if (n == 4096 || out_bytes > INT_MAX || !WideCharToMultiByte(CP_UTF8, 0, w, -1, out, (int)out_bytes, NULL, NULL))
        return ea_fail(err, EA_ELIMIT, "find this program's own file: its name is too long");
    return 0;
}

/* One command line of the arguments, each in quotes (CommandLineToArgvW's rules; ours hold no quotes); NULL: no memory.
 */
static WCHAR *platform_command_line(const char *const *argv) {
    size_t bytes = 1;
    for (size_t i = 0; argv[i]; i++)
        bytes += strlen(argv[i]) + 3;
    char *line = malloc(bytes), *at = line;
    if (!line)
        return NULL;
    for (size_t i = 0; argv[i]; i++)
        at += snprintf(at, bytes - (size_t)(at - line), "%s\"%s\"", i ? " " : "", argv[i]);
    WCHAR *w = to_wide(line, 0);
    free(line);
    return w;
}

/* Starts it in a job of its own, its output in a pipe. */
static int start_program(const char *const *argv, HANDLE job, HANDLE *ret_process, HANDLE *ret_pipe, ea_err *err) {
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    HANDLE ours = NULL, theirs = NULL, nothing = INVALID_HANDLE_VALUE;
    PROCESS_INFORMATION p = {0};
    WCHAR *line = platform_command_line(argv);
    int ok = line && CreatePipe(&ours, &theirs, &inherit, 0);
    if (ok) {
        SetHandleInformation(ours, HANDLE_FLAG_INHERIT, 0);
        nothing = CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherit,
                              OPEN_EXISTING, 0, NULL);
        STARTUPINFOW s = {.cb = sizeof s,
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = nothing,
                          .hStdOutput = theirs,
                          .hStdError = nothing};
        ok = CreateProcessW(NULL, line, NULL, NULL, TRUE, CREATE_NO_WINDOW | CREATE_SUSPENDED, NULL, NULL, &s, &p);
    }
    int failed = ok ? 0 : (int)GetLastError();
    if (ok) {
        AssignProcessToJobObject(job, p.hProcess); /* without it only its first process can be ended */
        ResumeThread(p.hThread);
        CloseHandle(p.hThread);
    }
    if (theirs)
        CloseHandle(theirs);
    if (nothing != INVALID_HANDLE_VALUE)
        CloseHandle(nothing);
    free(line);
    if (!ok) {
        if (ours)
            CloseHandle(ours);
        return ea_fail_os(err, EA_EIO, failed, "start %s", argv[0]);
    }
    *ret_process = p.hProcess;
    *ret_pipe = ours;
    return 0;
}

/* Reads until the end, the deadline (then 1) or max_bytes (then 1). Negative: EA_ENOMEM. */
static int read_output(HANDLE pipe, int64_t deadline_ns, size_t max_bytes, ea_run_result *r) {
    for (size_t capacity = 0;;) {
        DWORD waiting = 0, got = 0;
        if (EA_GROW(r->output, capacity, r->output_bytes + 4097, SIZE_MAX)) /* one for the end */
            return EA_ENOMEM;
        if (ea_monotonic_ns() >= deadline_ns || r->output_bytes > max_bytes)
            return 1;
        if (!PeekNamedPipe(pipe, NULL, 0, NULL, &waiting, NULL))
            return 0;
        if (!waiting) {
            ea_sleep_ns(1000000);
            continue;
        }
        if (!ReadFile(pipe, r->output + r->output_bytes, (DWORD)(capacity - r->output_bytes - 1), &got, NULL))
            return 0;
        r->output_bytes += got;
    }
}

int ea_run(const char *const *argv, int64_t timeout_ns, size_t max_bytes, ea_run_result *ret, ea_err *err) {
    ea_run_result r = {0};
    int64_t deadline_ns = ea_monotonic_ns() + timeout_ns;
    HANDLE process, pipe, job = CreateJobObjectW(NULL, NULL);
    DWORD code = 0;
    int rc = job ? start_program(argv, job, &process, &pipe, err)
                 : ea_fail_os(err, EA_EIO, (int)GetLastError(), "start %s", argv[0]);
    if (rc) {
        if (job)
            CloseHandle(job);
        return rc;
    }
    int read_rc = read_output(pipe, deadline_ns, max_bytes, &r);
    int64_t left_ns = deadline_ns - ea_monotonic_ns();
    if (!read_rc)
        read_rc = WaitForSingleObject(process, left_ns > 0 ? (DWORD)(left_ns / 1000000) : 0) != WAIT_OBJECT_0;
    if (read_rc) {
        TerminateJobObject(job, 1);
        TerminateProcess(process, 1);
        WaitForSingleObject(process, INFINITE);
    }
    GetExitCodeProcess(process, &code);
    CloseHandle(pipe);
    CloseHandle(process);
    CloseHandle(job);
    if (read_rc < 0 || !r.output) {
        free(r.output);
        return ea_fail(err, EA_ENOMEM, "run %s", argv[0]);
    }
    r.output[r.output_bytes] = 0;
    r.timed_out = read_rc;
    r.crashed = !r.timed_out && code >= 0xC0000000u; /* an NTSTATUS of an exception */
    r.exit_code = (int)code;
    *ret = r;
    return 0;
}

int ea_library_open(ea_library **ret, const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "load %s", path);
    HMODULE handle = LoadLibraryExW(w, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    int failed = handle ? 0 : (int)GetLastError();
    free(w);
    if (!handle)
        return ea_fail_os(err, EA_EFORMAT, failed, "it is no library that can be loaded");
    *ret = (ea_library *)(void *)handle;
    return 0;
}

const void *ea_library_symbol(ea_library *l, const char *name) {
    return (const void *)(uintptr_t)GetProcAddress((HMODULE)(void *)l, name);
}

void ea_library_close(ea_library *l) {
    if (l)
        FreeLibrary((HMODULE)(void *)l);
}

void ea_stdio_init(void) {
    SetDefaultDllDirectories(LOAD_LIBRARY_SEARCH_SYSTEM32);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stdin), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
}

static void (*stop_handler)(void);

static BOOL WINAPI platform_on_control(DWORD event) {
    stop_handler(); /* Ctrl-C, Ctrl-Break, close, log-off and shutdown all ask for the same */
    /* After the last three Windows ends the process as soon as this returns, or after five seconds: the main thread
     * ends its sessions meanwhile, and then the process. Source: "HandlerRoutine callback function" (Microsoft). */
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        Sleep(INFINITE);
    return TRUE;
}

void ea_on_stop(void (*handler)(void)) {
    stop_handler = handler;
    SetConsoleCtrlHandler(platform_on_control, TRUE);
}

void ea_on_reload(void (*handler)(void)) {
    (void)handler; /* a console has no such wish */
}

#else
typedef int ea_platform_windows_is_not_empty;
#endif
