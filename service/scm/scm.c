/* The service control manager. See scm.h. */
#include "service/scm/scm.h"

#include "proto/base/platform.h"
#include "service/host/win/wide.h"
#include "service/scm/eventlog.h"

#include <windows.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    START_HINT_MS = 30000,
    STOP_HINT_MS = 15000,
    GONE_STEP_MS = 250,
    PROCESS_WAIT_MS = 30000,     /* for the end of a stopped service's process */
    STEP_MS = 2000,              /* interval of progress reports while it stops */
    PRESHUTDOWN_MS = 20000,      /* asked of Windows, for forcing the spool to the disk */
    WAIT_MS = 120000,            /* start and stop wait so long at the most without progress */
    RESTART_FORGET_S = 24 * 3600 /* after so long without a crash the first pause is used again */
};

static const DWORD RESTART_AFTER_MS[] = {5000, 30000, 300000};
/* What sessions need: the kernel's samples and their interval. Everything else that LocalSystem has is dropped. */
static const WCHAR PRIVILEGES[] = L"SeChangeNotifyPrivilege\0SeSystemProfilePrivilege\0";
#define NAME L"" EA_SERVICE_NAME

/* ---- being a service ---- */

static struct {
    const ea_service *service;
    SERVICE_STATUS_HANDLE handle;
    HANDLE asked, done; /* it was asked to end; run has returned */
    SRWLOCK lock;
    SERVICE_STATUS status; /* lock */
    ea_err err;
    int rc;
} own;

static void report_state(DWORD state, DWORD hint_ms, int progress) {
    AcquireSRWLockExclusive(&own.lock);
    own.status.dwCheckPoint =
        progress && state == own.status.dwCurrentState ? own.status.dwCheckPoint + 1 : (DWORD)progress;
    own.status.dwCurrentState = state;
    own.status.dwWaitHint = hint_ms;
    own.status.dwControlsAccepted = state == SERVICE_RUNNING
                                        ? SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN | SERVICE_ACCEPT_PRESHUTDOWN |
                                              SERVICE_ACCEPT_PARAMCHANGE | SERVICE_ACCEPT_POWEREVENT
                                        : 0;
    if (!SetServiceStatus(own.handle, &own.status) && own.status.dwControlsAccepted) {
        own.status.dwControlsAccepted &= ~(DWORD)SERVICE_ACCEPT_PRESHUTDOWN;
        SetServiceStatus(own.handle, &own.status);
    }
    ReleaseSRWLockExclusive(&own.lock);
}

static void ask_to_end(enum ea_service_request request) {
    report_state(SERVICE_STOP_PENDING, STOP_HINT_MS, 1);
    own.service->on_request(own.service->arg, request);
    SetEvent(own.asked);
}

static DWORD WINAPI scm_on_control(DWORD control, DWORD type, LPVOID data, LPVOID context) {
    const ea_service *s = own.service;
    (void)data;
    (void)context;
    switch (control) {
    case SERVICE_CONTROL_INTERROGATE:
        return NO_ERROR;
    case SERVICE_CONTROL_STOP:
        ask_to_end(EA_SERVICE_STOP);
        return NO_ERROR;
    case SERVICE_CONTROL_SHUTDOWN:
    case SERVICE_CONTROL_PRESHUTDOWN:
        ask_to_end(EA_SERVICE_SHUTDOWN);
        return NO_ERROR;
    case SERVICE_CONTROL_PARAMCHANGE:
        s->on_request(s->arg, EA_SERVICE_RELOAD);
        return NO_ERROR;
    case SERVICE_CONTROL_POWEREVENT:
        if (type == PBT_APMSUSPEND || type == PBT_APMRESUMEAUTOMATIC)
            s->on_request(s->arg, EA_SERVICE_FLUSH);
        return NO_ERROR;
    case EA_SERVICE_CONTROL_FLUSH:
        s->on_request(s->arg, EA_SERVICE_FLUSH);
        return NO_ERROR;
    case EA_SERVICE_CONTROL_STATUS:
        s->on_request(s->arg, EA_SERVICE_STATUS);
        return NO_ERROR;
    default:
        return ERROR_CALL_NOT_IMPLEMENTED;
    }
}

/* While it stops, the SCM hears that it goes on. */
static void keep_telling(void *arg) {
    (void)arg;
    HANDLE either[] = {own.asked, own.done};
    if (WaitForMultipleObjects(2, either, FALSE, INFINITE) != WAIT_OBJECT_0)
        return;
    while (WaitForSingleObject(own.done, STEP_MS) == WAIT_TIMEOUT)
        report_state(SERVICE_STOP_PENDING, STOP_HINT_MS, 1);
}

static void WINAPI service_main(DWORD argc, LPWSTR *argv) {
    ea_thread *teller = NULL;
    (void)argc;
    (void)argv;
    own.handle = RegisterServiceCtrlHandlerExW(NAME, scm_on_control, NULL);
    if (!own.handle) {
        own.rc = ea_fail_os(&own.err, EA_EIO, (int)GetLastError(), "register the service's control handler");
        return;
    }
    report_state(SERVICE_START_PENDING, START_HINT_MS, 1);
    own.rc = ea_thread_start(&teller, "scm", keep_telling, NULL, &own.err);
    if (!own.rc) {
        report_state(SERVICE_RUNNING, 0, 0);
        own.rc = own.service->run(own.service->arg, &own.err);
    }
    SetEvent(own.done);
    ea_thread_join(teller);
    AcquireSRWLockExclusive(&own.lock);
    own.status.dwWin32ExitCode = own.rc ? ERROR_SERVICE_SPECIFIC_ERROR : NO_ERROR;
    own.status.dwServiceSpecificExitCode = own.rc ? (DWORD)-own.rc : 0;
    ReleaseSRWLockExclusive(&own.lock);
    report_state(SERVICE_STOPPED, 0, 0);
}

int ea_service_main(const ea_service *service, ea_err *err) {
    WCHAR name[] = NAME;
    SERVICE_TABLE_ENTRYW table[] = {{name, service_main}, {NULL, NULL}};
    own.service = service;
    own.status.dwServiceType = SERVICE_WIN32_OWN_PROCESS;
    InitializeSRWLock(&own.lock);
    own.asked = CreateEventW(NULL, TRUE, FALSE, NULL);
    own.done = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!own.asked || !own.done)
        return ea_fail_os(err, EA_ENOMEM, (int)GetLastError(), "run as a service");
    if (!StartServiceCtrlDispatcherW(table))
        return ea_fail_os(err, EA_EIO, (int)GetLastError(),
                          "reach the service control manager, which starts this command");
    if (own.rc && err)
        *err = own.err;
    return own.rc;
}

/* ---- the SCM's database ---- */

static int fail_scm(ea_err *err, const char *what) {
    DWORD os = GetLastError();
    int code = EA_EIO;
    if (os == ERROR_SERVICE_DOES_NOT_EXIST)
        code = EA_ENOTFOUND;
    else if (os == ERROR_SERVICE_EXISTS || os == ERROR_SERVICE_ALREADY_RUNNING)
        code = EA_EEXIST;
    else if (os == ERROR_ACCESS_DENIED)
        code = EA_EREFUSED;
    return ea_fail_os(err, code, (int)os, "%s", what);
}

static int open_manager(SC_HANDLE *ret, DWORD access, ea_err *err) {
    SC_HANDLE m = OpenSCManagerW(NULL, NULL, access);
    if (!m)
        return fail_scm(err, "open the service control manager");
    *ret = m;
    return 0;
}

static int open_service(SC_HANDLE *ret, DWORD access, ea_err *err) {
    SC_HANDLE m;
    int rc = open_manager(&m, SC_MANAGER_CONNECT, err);
    if (rc)
        return rc;
    SC_HANDLE s = OpenServiceW(m, NAME, access);
    if (!s)
        rc = fail_scm(err, "open the service " EA_SERVICE_NAME);
    CloseServiceHandle(m);
    if (!rc)
        *ret = s;
    return rc;
}

static void scm_refused(const ea_service_report *report, const char *what, DWORD os) {
    char text[256], line[512];
    ea_os_error_text((int)os, text, sizeof text);
    snprintf(line, sizeof line, "%s: refused, and gone past: %s", what, text);
    if (report && report->on_note)
        report->on_note(report->arg, line);
}

static void scm_configure(SC_HANDLE s, DWORD level, void *info, const char *what, const ea_service_report *report) {
    if (!ChangeServiceConfig2W(s, level, info))
        scm_refused(report, what, GetLastError());
}

static void harden(SC_HANDLE s, const ea_service_report *report) {
    SC_ACTION actions[sizeof RESTART_AFTER_MS / sizeof *RESTART_AFTER_MS];
    WCHAR description[] = L"Reads Event Tracing for Windows and ships its events to the collector.";
    WCHAR privileges[sizeof PRIVILEGES / sizeof *PRIVILEGES];
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        actions[i] = (SC_ACTION){.Type = SC_ACTION_RESTART, .Delay = RESTART_AFTER_MS[i]};
    memcpy(privileges, PRIVILEGES, sizeof privileges);
    scm_configure(s, SERVICE_CONFIG_DESCRIPTION, &(SERVICE_DESCRIPTIONW){.lpDescription = description}, "description",
                  report);
    scm_configure(s, SERVICE_CONFIG_FAILURE_ACTIONS,
                  &(SERVICE_FAILURE_ACTIONSW){.dwResetPeriod = RESTART_FORGET_S,
                                              .cActions = sizeof actions / sizeof *actions,
                                              .lpsaActions = actions},
                  "restart after a crash", report);
    scm_configure(s, SERVICE_CONFIG_FAILURE_ACTIONS_FLAG,
                  &(SERVICE_FAILURE_ACTIONS_FLAG){.fFailureActionsOnNonCrashFailures = TRUE},
                  "restart after an end with an error", report);
    scm_configure(s, SERVICE_CONFIG_DELAYED_AUTO_START_INFO,
                  &(SERVICE_DELAYED_AUTO_START_INFO){.fDelayedAutostart = TRUE}, "delayed start", report);
    scm_configure(s, SERVICE_CONFIG_SERVICE_SID_INFO,
                  &(SERVICE_SID_INFO){.dwServiceSidType = SERVICE_SID_TYPE_UNRESTRICTED}, "service SID", report);
    scm_configure(s, SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO,
                  &(SERVICE_REQUIRED_PRIVILEGES_INFOW){.pmszRequiredPrivileges = privileges}, "required privileges",
                  report);
    scm_configure(s, SERVICE_CONFIG_PRESHUTDOWN_INFO,
                  &(SERVICE_PRESHUTDOWN_INFO){.dwPreshutdownTimeout = PRESHUTDOWN_MS}, "time before shutdown", report);
}

/* "PROGRAM" service --config "CONFIG": quoted, since a space in an unquoted path lets others put their program before
 * it. A quote inside is refused: no Windows path has one. */
static WCHAR *scm_command_line(const char *program, const char *config) {
    size_t n = strlen(program) + strlen(config) + 64;
    char *line = malloc(n);
    if (!line || strchr(program, '"') || strchr(config, '"')) {
        free(line);
        return NULL;
    }
    snprintf(line, n, "\"%s\" service --config \"%s\"", program, config);
    WCHAR *wide = ea_wide(line);
    free(line);
    return wide;
}

int ea_service_install(const char *program, const char *config, const ea_service_report *report, ea_err *err) {
    SC_HANDLE m;
    WCHAR *line = scm_command_line(program, config);
    if (!line)
        return ea_fail(err, EA_EINVAL, "install %s: the paths are not usable", program);
    int rc = open_manager(&m, SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE, err);
    if (rc) {
        free(line);
        return rc;
    }
    SC_HANDLE s;
    /* Windows removes a deleted service only after its process has ended and its handles are closed: an upgrade waits
     */
    for (int waited_ms = 0;; waited_ms += GONE_STEP_MS) {
        s = CreateServiceW(m, NAME, L"" EA_SERVICE_DISPLAY_NAME, SERVICE_ALL_ACCESS, SERVICE_WIN32_OWN_PROCESS,
                           SERVICE_AUTO_START, SERVICE_ERROR_NORMAL, line, NULL, NULL, NULL, NULL, NULL);
        if (s || GetLastError() != ERROR_SERVICE_MARKED_FOR_DELETE || waited_ms >= WAIT_MS)
            break;
        Sleep(GONE_STEP_MS);
    }
    if (!s && GetLastError() == ERROR_SERVICE_EXISTS) {
        s = OpenServiceW(m, NAME, SERVICE_ALL_ACCESS);
        if (s && !ChangeServiceConfigW(s, SERVICE_WIN32_OWN_PROCESS, SERVICE_AUTO_START, SERVICE_ERROR_NORMAL, line,
                                       NULL, NULL, NULL, NULL, NULL, L"" EA_SERVICE_DISPLAY_NAME))
            rc = fail_scm(err, "change the service " EA_SERVICE_NAME);
    }
    if (!s)
        rc = fail_scm(err, "create the service " EA_SERVICE_NAME);
    if (!rc) {
        ea_err later;
        harden(s, report);
        if (ea_eventlog_register(&later))
            scm_refused(report, "the event log's source", (DWORD)later.os_error);
    }
    if (s)
        CloseServiceHandle(s);
    CloseServiceHandle(m);
    free(line);
    return rc;
}

int ea_service_harden(const ea_service_report *report, ea_err *err) {
    SC_HANDLE s;
    int rc = open_service(&s, SERVICE_ALL_ACCESS, err);
    if (rc)
        return rc;
    harden(s, report);
    CloseServiceHandle(s);
    return 0;
}

/* Waits while the service is in state `pending` and makes progress. */
static int scm_wait_for(SC_HANDLE s, DWORD pending, DWORD wanted, const char *what, ea_err *err) {
    SERVICE_STATUS_PROCESS now;
    DWORD need, checkpoint = 0;
    int64_t since = ea_monotonic_ns();
    for (;;) {
        if (!QueryServiceStatusEx(s, SC_STATUS_PROCESS_INFO, (LPBYTE)&now, sizeof now, &need))
            return fail_scm(err, what);
        if (now.dwCurrentState == wanted)
            return 0;
        if (now.dwCurrentState != pending)
            return ea_fail_os(err, EA_EIO, (int)now.dwWin32ExitCode, "%s: it is in state %lu", what,
                              (unsigned long)now.dwCurrentState);
        if (now.dwCheckPoint != checkpoint) {
            checkpoint = now.dwCheckPoint;
            since = ea_monotonic_ns();
        } else if (ea_monotonic_ns() - since > (int64_t)WAIT_MS * 1000000) {
            return ea_fail(err, EA_ETIMEOUT, "%s: no progress for %d s", what, WAIT_MS / 1000);
        }
        Sleep(50);
    }
}

int ea_service_start(ea_err *err) {
    static const char WHAT[] = "start the service " EA_SERVICE_NAME;
    SC_HANDLE s;
    int rc = open_service(&s, SERVICE_START | SERVICE_QUERY_STATUS, err);
    if (rc)
        return rc;
    if (!StartServiceW(s, 0, NULL))
        rc = fail_scm(err, WHAT);
    if (!rc)
        rc = scm_wait_for(s, SERVICE_START_PENDING, SERVICE_RUNNING, WHAT, err);
    CloseServiceHandle(s);
    return rc;
}

static int ask_to_stop(SC_HANDLE s, const char *what, ea_err *err) {
    SERVICE_STATUS status;
    if (!ControlService(s, SERVICE_CONTROL_STOP, &status)) {
        DWORD os = GetLastError();
        if (os == ERROR_SERVICE_NOT_ACTIVE)
            return 0;
        if (os != ERROR_SERVICE_CANNOT_ACCEPT_CTRL) /* it stops already */
            return fail_scm(err, what);
    }
    return scm_wait_for(s, SERVICE_STOP_PENDING, SERVICE_STOPPED, what, err);
}

/* The process of a running service, to wait for; NULL. A stopped service's process lives on for a moment, and its
 * program's file with it. */
static HANDLE process_of(SC_HANDLE s) {
    SERVICE_STATUS_PROCESS now;
    DWORD need;
    if (!QueryServiceStatusEx(s, SC_STATUS_PROCESS_INFO, (LPBYTE)&now, sizeof now, &need) || !now.dwProcessId)
        return NULL;
    return OpenProcess(SYNCHRONIZE, FALSE, now.dwProcessId);
}

static int stop_service(SC_HANDLE s, ea_err *err) {
    static const char WHAT[] = "stop the service " EA_SERVICE_NAME;
    HANDLE process = process_of(s);
    int rc = ask_to_stop(s, WHAT, err);
    if (process) {
        if (!rc)
            WaitForSingleObject(process, PROCESS_WAIT_MS);
        CloseHandle(process);
    }
    return rc;
}

int ea_service_stop(ea_err *err) {
    SC_HANDLE s;
    int rc = open_service(&s, SERVICE_STOP | SERVICE_QUERY_STATUS, err);
    if (rc)
        return rc;
    rc = stop_service(s, err);
    CloseServiceHandle(s);
    return rc;
}

int ea_service_uninstall(const ea_service_report *report, ea_err *err) {
    SC_HANDLE s;
    ea_err later;
    int rc = open_service(&s, SERVICE_STOP | SERVICE_QUERY_STATUS | DELETE, err);
    if (rc)
        return rc;
    rc = stop_service(s, err);
    if (!rc && !DeleteService(s))
        rc = fail_scm(err, "take out the service " EA_SERVICE_NAME);
    CloseServiceHandle(s);
    if (!rc && ea_eventlog_unregister(&later))
        scm_refused(report, "the event log's source", (DWORD)later.os_error);
    return rc;
}

int ea_service_request_send(enum ea_service_request request, ea_err *err) {
    static const DWORD CONTROLS[] = {[EA_SERVICE_STOP] = SERVICE_CONTROL_STOP,
                                     [EA_SERVICE_SHUTDOWN] = SERVICE_CONTROL_STOP,
                                     [EA_SERVICE_RELOAD] = SERVICE_CONTROL_PARAMCHANGE,
                                     [EA_SERVICE_FLUSH] = EA_SERVICE_CONTROL_FLUSH,
                                     [EA_SERVICE_STATUS] = EA_SERVICE_CONTROL_STATUS};
    SERVICE_STATUS status;
    SC_HANDLE s;
    int rc = open_service(&s, SERVICE_USER_DEFINED_CONTROL | SERVICE_PAUSE_CONTINUE | SERVICE_STOP, err);
    if (rc)
        return rc;
    if (!ControlService(s, CONTROLS[request], &status))
        rc = fail_scm(err, "send a control to the service " EA_SERVICE_NAME);
    CloseServiceHandle(s);
    return rc;
}
