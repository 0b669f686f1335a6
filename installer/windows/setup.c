/* The MSI's only custom action in a DLL: it passes the installer's properties (COLLECTORURL, TOKEN, ...) to "etwagent
 * configure --answers" on its standard input. On a command line a quote in a value would end its argument and begin
 * another; on standard input all values are data of one text, which the program parses and checks. Called by: Windows
 * Installer, as the system (build_msi.py makes the tables). Calls: service/app/cmd_configure.c. Thread: the
 * installer's. */
#include <windows.h>

#include <msi.h>
#include <msiquery.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { DATA_CHARACTERS = 16384, MESSAGE_BYTES = 2048, PIPE_BYTES = 65536 };

/* A line for the installer's log, or for the person in front of it. */
static void log_line(MSIHANDLE install, const WCHAR *what, DWORD number, const char *words) {
    WCHAR wide[MESSAGE_BYTES + 1] = L"";
    MultiByteToWideChar(CP_UTF8, 0, words, -1, wide, MESSAGE_BYTES);
    MSIHANDLE record = MsiCreateRecord(3);
    MsiRecordSetStringW(record, 0, L"etwagent: [1] ([2]) [3]");
    MsiRecordSetStringW(record, 1, what);
    MsiRecordSetInteger(record, 2, (int)number);
    MsiRecordSetStringW(record, 3, wide);
    MsiProcessMessage(install, INSTALLMESSAGE_ERROR, record);
    MsiCloseHandle(record);
}

/* Runs program with input on its standard input; what it says on its two outputs goes to said. 0, or Windows' error. */
static DWORD run(const WCHAR *program, const char *input, char *said, DWORD *ret_exit_code) {
    static const WCHAR WORDS[] = L"etwagent configure --answers";
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    HANDLE in_theirs = NULL, in_ours = NULL, out_theirs = NULL, out_ours = NULL;
    PROCESS_INFORMATION p = {0};
    WCHAR line[sizeof WORDS / sizeof *WORDS];
    DWORD n = 0, used = 0, failed = 0;
    memcpy(line, WORDS, sizeof WORDS);
    if (!CreatePipe(&in_theirs, &in_ours, &inherit, PIPE_BYTES) ||
        !CreatePipe(&out_ours, &out_theirs, &inherit, PIPE_BYTES)) {
        failed = GetLastError();
    } else {
        SetHandleInformation(in_ours, HANDLE_FLAG_INHERIT, 0);
        SetHandleInformation(out_ours, HANDLE_FLAG_INHERIT, 0);
        STARTUPINFOW s = {.cb = sizeof s,
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = in_theirs,
                          .hStdOutput = out_theirs,
                          .hStdError = out_theirs};
        if (!CreateProcessW(program, line, NULL, NULL, TRUE, CREATE_NO_WINDOW, NULL, NULL, &s, &p))
            failed = GetLastError();
    }
    if (in_theirs)
        CloseHandle(in_theirs);
    if (out_theirs)
        CloseHandle(out_theirs);
    if (!failed && !WriteFile(in_ours, input, (DWORD)strlen(input), &n, NULL)) /* the pipe has room for all of it */
        failed = GetLastError();
    if (in_ours)
        CloseHandle(in_ours);
    while (p.hProcess && used + 1 < MESSAGE_BYTES &&
           ReadFile(out_ours, said + used, MESSAGE_BYTES - 1 - used, &n, NULL) && n)
        used += n;
    said[used] = 0;
    if (out_ours)
        CloseHandle(out_ours);
    if (p.hProcess) {
        WaitForSingleObject(p.hProcess, INFINITE);
        GetExitCodeProcess(p.hProcess, ret_exit_code);
        CloseHandle(p.hThread);
        CloseHandle(p.hProcess);
    }
    return failed;
}

__declspec(dllexport) UINT __stdcall WriteConfiguration(MSIHANDLE install);

/* CustomActionData: the program's path, '|', and what its standard input gets. A path has no '|'. */
__declspec(dllexport) UINT __stdcall WriteConfiguration(MSIHANDLE install) {
    static const WCHAR WHAT[] = L"the first configuration could not be written";
    WCHAR *data = calloc(DATA_CHARACTERS, sizeof *data), *answers = NULL;
    char *utf8 = calloc(DATA_CHARACTERS, 3), said[MESSAGE_BYTES] = "";
    DWORD length = DATA_CHARACTERS, exit_code = 0;
    DWORD failed = data && utf8 ? MsiGetPropertyW(install, L"CustomActionData", data, &length) : ERROR_OUTOFMEMORY;
    if (!failed && !(answers = wcschr(data, L'|')))
        failed = ERROR_INVALID_DATA;
    if (!failed) {
        *answers++ = 0;
        if (!WideCharToMultiByte(CP_UTF8, 0, answers, -1, utf8, DATA_CHARACTERS * 3, NULL, NULL))
            failed = GetLastError();
    }
    if (!failed)
        failed = run(data, utf8, said, &exit_code);
    if (failed || exit_code)
        log_line(install, WHAT, failed ? failed : exit_code, said);
    if (data)
        SecureZeroMemory(data, DATA_CHARACTERS * sizeof *data); /* a token may be in it */
    if (utf8)
        SecureZeroMemory(utf8, DATA_CHARACTERS * 3);
    free(data);
    free(utf8);
    return failed || exit_code ? ERROR_INSTALL_FAILURE : ERROR_SUCCESS;
}
