/* Starting a command suspended. See launch.h. */
#include "service/etw/launch.h"

#include "proto/base/text.h"
#include "service/etw/etw_api.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MAX = 32000 };

struct ea_launch {
    HANDLE process, thread;
    HANDLE job; /* NULL: none could be had, and children are not waited for */
    int runs;
};

int ea_launch_suspended(ea_launch **ret, const char *command, uint32_t *ret_pid, ea_err *err) {
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION made = {0};
    size_t bytes = ea_utf8_to_utf16(command, strlen(command), NULL, 0);
    if (!bytes || bytes / sizeof(WCHAR) > LINE_MAX)
        return ea_fail(err, EA_EINVAL, "expected a command of at most %d characters", LINE_MAX);
    ea_launch *l = calloc(1, sizeof *l);
    WCHAR *line = calloc(bytes / sizeof(WCHAR) + 1, sizeof *line);
    if (!l || !line) {
        free(l);
        free(line);
        return ea_fail(err, EA_ENOMEM, "start %.128s", command);
    }
    (void)ea_utf8_to_utf16(command, strlen(command), line, bytes);
    BOOL started = CreateProcessW(NULL, line, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &startup, &made);
    DWORD error = started ? 0 : GetLastError();
    free(line);
    if (!started) {
        free(l);
        return ea_fail_os(err, ea_etw_code(error), (int)error, "start %.128s", command);
    }
    l->process = made.hProcess;
    l->thread = made.hThread;
    l->job = CreateJobObjectW(NULL, NULL);
    if (l->job && !AssignProcessToJobObject(l->job, l->process)) {
        CloseHandle(l->job);
        l->job = NULL;
    }
    *ret_pid = made.dwProcessId;
    *ret = l;
    return 0;
}

int ea_launch_system(ea_launch **ret, const char *program, const char *arguments, ea_err *err) {
    WCHAR folder[MAX_PATH];
    uint32_t pid;
    ea_text line;
    UINT n = GetSystemDirectoryW(folder, MAX_PATH);
    if (!n || n >= MAX_PATH)
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "find the folder of %s", program);
    ea_text_init(&line);
    ea_text_char(&line, '"');
    ea_text_utf16(&line, folder, n * sizeof *folder);
    ea_text_printf(&line, "\\%s\" %s", program, arguments);
    int rc =
        line.failed ? ea_fail(err, EA_ENOMEM, "start %s", program) : ea_launch_suspended(ret, line.data, &pid, err);
    ea_text_deinit(&line);
    return rc;
}

int ea_launch_resume(ea_launch *l, ea_err *err) {
    if (ResumeThread(l->thread) == (DWORD)-1)
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "let the command run");
    l->runs = 1;
    return 0;
}

int ea_launch_wait(ea_launch *l, int64_t ns) {
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION job;
    DWORD ms = (DWORD)(ns / 1000000);
    if (WaitForSingleObject(l->process, ms) != WAIT_OBJECT_0)
        return 0;
    if (!l->job || !QueryInformationJobObject(l->job, JobObjectBasicAccountingInformation, &job, sizeof job, NULL) ||
        !job.ActiveProcesses)
        return 1;
    Sleep(ms);
    return 0;
}

int ea_launch_exit_code(const ea_launch *l, uint32_t *ret) {
    DWORD code;
    if (WaitForSingleObject(l->process, 0) != WAIT_OBJECT_0 || !GetExitCodeProcess(l->process, &code))
        return 0;
    *ret = code;
    return 1;
}

void ea_launch_close(ea_launch *l) {
    if (!l)
        return;
    if (!l->runs)
        TerminateProcess(l->process, 1);
    if (l->job)
        CloseHandle(l->job);
    CloseHandle(l->thread);
    CloseHandle(l->process);
    free(l);
}
