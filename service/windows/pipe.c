/* Named pipes. See pipe.h. */
#include "pipe.h"

#include "platform.h"
#include "wide.h"

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
static int finish(ea_pipe *p, OVERLAPPED *o, BOOL started, DWORD wait_ms, DWORD *ret_bytes) {
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

static void serve_one(ea_pipe *p, HANDLE event) {
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
        if (!finish(p, &o, WriteFile(p->pipe, t.data + done, part, NULL, &o), WRITE_WAIT_MS, &n) || !n)
            break;
        done += n;
    }
    ea_text_deinit(&t);
    /* until the client has closed its end, or has had its time: what was written is lost with a disconnect */
    char byte;
    o = (OVERLAPPED){.hEvent = event};
    ResetEvent(event);
    finish(p, &o, ReadFile(p->pipe, &byte, 1, NULL, &o), WRITE_WAIT_MS, &n);
    DisconnectNamedPipe(p->pipe);
}

static void serve(void *arg) {
    ea_pipe *p = arg;
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    while (event && WaitForSingleObject(p->stop, 0) == WAIT_TIMEOUT) {
        OVERLAPPED o = {.hEvent = event};
        DWORD n = 0;
        ResetEvent(event);
        if (finish(p, &o, ConnectNamedPipe(p->pipe, &o), INFINITE, &n))
            serve_one(p, event);
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
            rc = ea_thread_start(&p->thread, "pipe", serve, p, err);
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

int ea_pipe_ask(const char *name, ea_text *out, ea_err *err) {
    WCHAR *wide = ea_wide(name);
    if (!wide)
        return ea_fail(err, EA_ENOMEM, "ask %s", name);
    HANDLE h;
    int64_t until = ea_monotonic_ns() + (int64_t)CLIENT_WAIT_MS * 1000000;
    for (;;) {
        /* the server learns who asks, and can do nothing in that one's name */
        h = CreateFileW(wide, GENERIC_READ, 0, NULL, OPEN_EXISTING, SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION,
                        NULL);
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
    char part[4096];
    DWORD n;
    size_t total = 0;
    /* the text is one JSON object and a newline: behind that nothing comes */
    while (total < EA_PIPE_MAX_BYTES && ReadFile(h, part, sizeof part, &n, NULL) && n) {
        ea_text_add(out, part, n);
        total += n;
        if (!out->failed && out->len_bytes > 1 && out->data[out->len_bytes - 1] == '\n' &&
            out->data[out->len_bytes - 2] == '}')
            break;
    }
    CloseHandle(h);
    if (out->failed)
        return ea_fail(err, EA_ENOMEM, "ask %s", name);
    return total ? 0 : ea_fail(err, EA_ETRUNCATED, "ask %s: no answer", name);
}
