/* Named pipes. See pipe.h. */
#include "service/scm/pipe.h"

#include "proto/base/platform.h"
#include "service/host/win/wide.h"
#include "service/scm/scm.h"

#include <windows.h>

#include <sddl.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 65536, CLIENT_WAIT_MS = 5000, WRITE_WAIT_MS = 5000 };

/* All for the system and administrators, nothing for anybody else, whatever the process's default would be. */
static const WCHAR SDDL[] = L"D:P(A;;GA;;;SY)(A;;GA;;;BA)";

struct ea_pipe {
    HANDLE pipe, stop;
    ea_pipe_answer *answer;
    void *arg;
    ea_thread *thread;
};

/* The result of an operation that may be under way: 1, or 0 when it failed, took too long or the server ends. */
static int pipe_finish(ea_pipe *p, OVERLAPPED *o, BOOL started, DWORD wait_ms, DWORD *ret_bytes) {
    HANDLE either[] = {o->hEvent, p->stop};
    if (!started) {
        DWORD os = GetLastError();
        if (os == ERROR_PIPE_CONNECTED)
            return 1;
        if (os != ERROR_IO_PENDING)
            return 0;
        if (WaitForMultipleObjects(2, either, FALSE, wait_ms) != WAIT_OBJECT_0) {
            CancelIoEx(p->pipe, o);
            GetOverlappedResult(p->pipe, o, ret_bytes, TRUE); /* until then o and its buffer are Windows' */
            return 0;
        }
    }
    return GetOverlappedResult(p->pipe, o, ret_bytes, TRUE) != 0;
}

static void pipe_serve_one(ea_pipe *p, HANDLE event) {
    ea_text t;
    DWORD n = 0;
    OVERLAPPED o = {.hEvent = event};
    ea_text_init(&t);
    p->answer(p->arg, &t);
    size_t done = 0;
    while (!t.failed && done < t.len_bytes) {
        DWORD part = t.len_bytes - done < BUFFER_BYTES ? (DWORD)(t.len_bytes - done) : BUFFER_BYTES;
        o = (OVERLAPPED){.hEvent = event};
        ResetEvent(event);
        if (!pipe_finish(p, &o, WriteFile(p->pipe, t.data + done, part, NULL, &o), WRITE_WAIT_MS, &n) || !n)
            break;
        done += n;
    }
    ea_text_deinit(&t);
    /* until the client has closed its end, or has had its time: what was written is lost with a disconnect */
    char byte;
    o = (OVERLAPPED){.hEvent = event};
    ResetEvent(event);
    pipe_finish(p, &o, ReadFile(p->pipe, &byte, 1, NULL, &o), WRITE_WAIT_MS, &n);
    DisconnectNamedPipe(p->pipe);
}

static void pipe_serve(void *arg) {
    ea_pipe *p = arg;
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    while (event && WaitForSingleObject(p->stop, 0) == WAIT_TIMEOUT) {
        OVERLAPPED o = {.hEvent = event};
        DWORD n = 0;
        ResetEvent(event);
        if (pipe_finish(p, &o, ConnectNamedPipe(p->pipe, &o), INFINITE, &n))
            pipe_serve_one(p, event);
        else
            DisconnectNamedPipe(p->pipe);
    }
    if (event)
        CloseHandle(event);
}

int ea_pipe_serve(ea_pipe **ret, const char *name, ea_pipe_answer *answer, void *arg, ea_err *err) {
    SECURITY_ATTRIBUTES sa = {.nLength = sizeof sa};
    ea_pipe *p = calloc(1, sizeof *p);
    WCHAR *wide = ea_wide(name);
    int rc = p && wide ? 0 : ea_fail(err, EA_ENOMEM, "serve %s", name);
    if (!rc &&
        !ConvertStringSecurityDescriptorToSecurityDescriptorW(SDDL, SDDL_REVISION_1, &sa.lpSecurityDescriptor, NULL))
        rc = ea_fail_os(err, EA_EIO, (int)GetLastError(), "make the access list of %s", name);
    if (!rc) {
        p->answer = answer;
        p->arg = arg;
        p->stop = CreateEventW(NULL, TRUE, FALSE, NULL);
        p->pipe = CreateNamedPipeW(wide, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                   PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS, 1,
                                   BUFFER_BYTES, BUFFER_BYTES, 0, &sa);
        DWORD os = GetLastError();
        if (p->pipe == INVALID_HANDLE_VALUE)
            rc = ea_fail_os(err, os == ERROR_ACCESS_DENIED || os == ERROR_PIPE_BUSY ? EA_EEXIST : EA_EIO, (int)os,
                            "serve %s", name);
        else
            rc = ea_thread_start(&p->thread, "pipe", pipe_serve, p, err);
    }
    if (sa.lpSecurityDescriptor)
        LocalFree(sa.lpSecurityDescriptor);
    free(wide);
    if (rc) {
        if (p) {
            if (p->stop)
                CloseHandle(p->stop);
            if (p->pipe && p->pipe != INVALID_HANDLE_VALUE)
                CloseHandle(p->pipe);
        }
        free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ea_pipe_close(ea_pipe *p) {
    if (!p)
        return;
    SetEvent(p->stop);
    ea_thread_join(p->thread);
    CloseHandle(p->pipe);
    CloseHandle(p->stop);
    free(p);
}

/* The process that the service control manager runs the service in; 0: none, or Windows does not say. */
static DWORD service_process(void) {
    SERVICE_STATUS_PROCESS now = {0};
    DWORD need;
    SC_HANDLE m = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
    SC_HANDLE s = m ? OpenServiceW(m, L"" EA_SERVICE_NAME, SERVICE_QUERY_STATUS) : NULL;
    if (s && !QueryServiceStatusEx(s, SC_STATUS_PROCESS_INFO, (LPBYTE)&now, sizeof now, &need))
        now.dwProcessId = 0;
    if (s)
        CloseServiceHandle(s);
    if (m)
        CloseServiceHandle(m);
    return now.dwProcessId;
}

/* Anybody may make a pipe of this name before the service does: what such a one says is not believed. The manager's
 * word for the service's process also covers a service that runs under another account than the system. */
static int check_server(HANDLE pipe, const char *name, ea_err *err) {
    ULONG server = 0;
    if (!GetNamedPipeServerProcessId(pipe, &server))
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "find out who serves %s", name);
    DWORD service = service_process();
    return service && server == service
               ? 0
               : ea_fail(err, EA_EREFUSED,
                         "%s is served by process %lu, the service " EA_SERVICE_NAME " is process %lu (0: it does not "
                         "run): end process %lu and find out who started it",
                         name, (unsigned long)server, (unsigned long)service, (unsigned long)server);
}

/* One read, until the deadline. EA_ETIMEOUT; *ret_bytes 0: the server has closed its end. */
static int pipe_read_some(HANDLE pipe, HANDLE event, void *out, DWORD room, int64_t until_ns, DWORD *ret_bytes) {
    OVERLAPPED o = {.hEvent = event};
    int64_t left_ms = (until_ns - ea_monotonic_ns()) / 1000000;
    DWORD n = 0;
    ResetEvent(event);
    if (!ReadFile(pipe, out, room, NULL, &o) && GetLastError() != ERROR_IO_PENDING) {
        *ret_bytes = 0;
        return 0;
    }
    int late = WaitForSingleObject(event, left_ms > 0 ? (DWORD)left_ms : 0) != WAIT_OBJECT_0;
    if (late)
        CancelIoEx(pipe, &o);
    if (!GetOverlappedResult(pipe, &o, &n, TRUE)) /* until then o and out are Windows' */
        n = 0;
    *ret_bytes = n;
    return late && !n ? EA_ETIMEOUT : 0;
}

static int pipe_read_answer(HANDLE pipe, const char *name, int64_t until_ns, ea_text *out, ea_err *err) {
    char part[4096];
    DWORD n = 0;
    size_t total = 0;
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    int rc = event ? 0 : ea_fail_os(err, EA_EIO, (int)GetLastError(), "ask %s", name);
    /* the text is one JSON object and a newline; nothing follows it */
    while (!rc && total < EA_PIPE_MAX_BYTES) {
        if (pipe_read_some(pipe, event, part, sizeof part, until_ns, &n))
            rc = ea_fail(err, EA_ETIMEOUT, "ask %s: expected an answer within %d ms", name, CLIENT_WAIT_MS);
        if (rc || !n)
            break;
        ea_text_add(out, part, n);
        total += n;
        if (!out->failed && out->len_bytes > 1 && out->data[out->len_bytes - 1] == '\n' &&
            out->data[out->len_bytes - 2] == '}')
            break;
    }
    if (event)
        CloseHandle(event);
    if (!rc && out->failed)
        rc = ea_fail(err, EA_ENOMEM, "ask %s", name);
    return rc || total ? rc : ea_fail(err, EA_ETRUNCATED, "ask %s: no answer", name);
}

int ea_pipe_ask(const char *name, ea_text *out, ea_err *err) {
    WCHAR *wide = ea_wide(name);
    if (!wide)
        return ea_fail(err, EA_ENOMEM, "ask %s", name);
    HANDLE h;
    int64_t until = ea_monotonic_ns() + (int64_t)CLIENT_WAIT_MS * 1000000;
    for (;;) {
        /* the server can identify the client, but not impersonate it */
        h = CreateFileW(wide, GENERIC_READ, 0, NULL, OPEN_EXISTING,
                        FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, NULL);
        if (h != INVALID_HANDLE_VALUE || GetLastError() != ERROR_PIPE_BUSY || ea_monotonic_ns() > until)
            break;
        WaitNamedPipeW(wide, 200);
    }
    DWORD os = GetLastError();
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        return ea_fail_os(err,
                          os == ERROR_FILE_NOT_FOUND  ? EA_ENOTFOUND
                          : os == ERROR_ACCESS_DENIED ? EA_EREFUSED
                                                      : EA_EIO,
                          (int)os, "ask %s", name);
    int rc = check_server(h, name, err);
    if (!rc)
        rc = pipe_read_answer(h, name, until, out, err);
    CloseHandle(h);
    return rc;
}
