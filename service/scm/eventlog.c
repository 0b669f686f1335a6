/* The event log. See eventlog.h. */
#include "service/scm/eventlog.h"

#include "service/host/win/wide.h"
#include "service/scm/scm.h"

#include <windows.h>

#include "messages.h"

#include <stdlib.h>

static const WCHAR KEY[] = L"SYSTEM\\CurrentControlSet\\Services\\EventLog\\Application\\" EA_SERVICE_NAME;
static HANDLE source;

int ea_eventlog_open(ea_err *err) {
    source = RegisterEventSourceW(NULL, L"" EA_SERVICE_NAME);
    return source ? 0 : ea_fail_os(err, EA_EIO, (int)GetLastError(), "open the event log");
}

void ea_eventlog_close(void) {
    if (source)
        DeregisterEventSource(source);
    source = NULL;
}

void ea_eventlog_write(enum ea_eventlog_kind kind, const char *line) {
    static const struct {
        WORD type;
        DWORD message;
    } ROWS[] = {[EA_EVENTLOG_STARTED] = {EVENTLOG_INFORMATION_TYPE, EA_MESSAGE_STARTED},
                [EA_EVENTLOG_STOPPED] = {EVENTLOG_INFORMATION_TYPE, EA_MESSAGE_STOPPED},
                [EA_EVENTLOG_RELOADED] = {EVENTLOG_INFORMATION_TYPE, EA_MESSAGE_RELOADED},
                [EA_EVENTLOG_REFUSED] = {EVENTLOG_WARNING_TYPE, EA_MESSAGE_REFUSED},
                [EA_EVENTLOG_TROUBLE] = {EVENTLOG_WARNING_TYPE, EA_MESSAGE_TROUBLE},
                [EA_EVENTLOG_WORKS] = {EVENTLOG_INFORMATION_TYPE, EA_MESSAGE_WORKS},
                [EA_EVENTLOG_LOST] = {EVENTLOG_WARNING_TYPE, EA_MESSAGE_LOST},
                [EA_EVENTLOG_FAILED] = {EVENTLOG_ERROR_TYPE, EA_MESSAGE_FAILED}};

    WCHAR *text = source ? ea_wide(line) : NULL;
    if (!text)
        return;
    LPCWSTR texts[] = {text};
    ReportEventW(source, ROWS[kind].type, 0, ROWS[kind].message, NULL, 1, 0, texts, NULL);
    free(text);
}

int ea_eventlog_register(const char *program, ea_err *err) {
    WCHAR *file = ea_wide(program);
    HKEY key;
    if (!file)
        return ea_fail(err, EA_EINVAL, "name %s to the event log: the path is not usable", program);
    DWORD types = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
    LSTATUS os = RegCreateKeyExW(HKEY_LOCAL_MACHINE, KEY, 0, NULL, 0, KEY_SET_VALUE, NULL, &key, NULL);
    if (!os) {
        os = RegSetValueExW(key, L"EventMessageFile", 0, REG_EXPAND_SZ, (const BYTE *)file,
                            (DWORD)((wcslen(file) + 1) * sizeof *file));
        if (!os)
            os = RegSetValueExW(key, L"TypesSupported", 0, REG_DWORD, (const BYTE *)&types, sizeof types);
        RegCloseKey(key);
    }
    free(file);
    return os ? ea_fail_os(err, EA_EIO, (int)os, "name %s to the event log", program) : 0;
}

int ea_eventlog_unregister(ea_err *err) {
    LSTATUS os = RegDeleteKeyW(HKEY_LOCAL_MACHINE, KEY);
    return os && os != ERROR_FILE_NOT_FOUND ? ea_fail_os(err, EA_EIO, (int)os, "take the source out of the event log")
                                            : 0;
}
