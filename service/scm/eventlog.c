/* The event log. See eventlog.h. */
#include "service/scm/eventlog.h"

#include "service/host/win/wide.h"
#include "service/scm/scm.h"

#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const WCHAR MESSAGE_FILE[] = L"%SystemRoot%\\System32\\EventCreate.exe";
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
        DWORD id;
        const char *text;
    } ROWS[] = {[EA_EVENTLOG_STARTED] = {EVENTLOG_INFORMATION_TYPE, 1, "The service runs"},
                [EA_EVENTLOG_STOPPED] = {EVENTLOG_INFORMATION_TYPE, 2, "The service has ended"},
                [EA_EVENTLOG_RELOADED] = {EVENTLOG_INFORMATION_TYPE, 3, "The configuration was read again"},
                [EA_EVENTLOG_REFUSED] = {EVENTLOG_WARNING_TYPE, 4, "A configuration was refused"},
                [EA_EVENTLOG_WARNING] = {EVENTLOG_WARNING_TYPE, 5, "Something does not work"},
                [EA_EVENTLOG_WORKS] = {EVENTLOG_INFORMATION_TYPE, 6, "It works again"},
                [EA_EVENTLOG_LOST] = {EVENTLOG_WARNING_TYPE, 7, "Events were lost"},
                [EA_EVENTLOG_FAILED] = {EVENTLOG_ERROR_TYPE, 8, "The service has failed"}};

    size_t capacity = strlen(line) + 64;
    char *whole = source ? malloc(capacity) : NULL;
    if (whole)
        snprintf(whole, capacity, "%s: %s", ROWS[kind].text, line);
    WCHAR *text = whole ? ea_wide(whole) : NULL;
    free(whole);
    if (!text)
        return;
    LPCWSTR texts[] = {text};
    ReportEventW(source, ROWS[kind].type, 0, ROWS[kind].id, NULL, 1, 0, texts, NULL);
    free(text);
}

int ea_eventlog_register(ea_err *err) {
    HKEY key;
    DWORD types = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
    LSTATUS os = RegCreateKeyExW(HKEY_LOCAL_MACHINE, KEY, 0, NULL, 0, KEY_SET_VALUE, NULL, &key, NULL);
    if (!os) {
        os = RegSetValueExW(key, L"EventMessageFile", 0, REG_EXPAND_SZ, (const BYTE *)MESSAGE_FILE,
                            (DWORD)sizeof MESSAGE_FILE);
        if (!os)
            os = RegSetValueExW(key, L"TypesSupported", 0, REG_DWORD, (const BYTE *)&types, sizeof types);
        RegCloseKey(key);
    }
    return os ? ea_fail_os(err, EA_EIO, (int)os, "register the source in the event log") : 0;
}

int ea_eventlog_unregister(ea_err *err) {
    LSTATUS os = RegDeleteKeyW(HKEY_LOCAL_MACHINE, KEY);
    return os && os != ERROR_FILE_NOT_FOUND ? ea_fail_os(err, EA_EIO, (int)os, "take the source out of the event log")
                                            : 0;
}
