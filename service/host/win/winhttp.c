/* Windows' proxies, by WinHTTP. See host.h. Its functions are loaded by name: without them only a configured proxy is
 * used. */
#include "service/host/host.h"
#include "service/host/win/wide.h"

#include <windows.h>

#include <stdlib.h>
#include <string.h>
#include <winhttp.h>

enum { STEP_MS = 10000, TEXT_BYTES = 4096, HOST_BYTES = 256 };

typedef struct winhttp {
    HINTERNET(WINAPI *open)(LPCWSTR, DWORD, LPCWSTR, LPCWSTR, DWORD);
    BOOL(WINAPI *close)(HINTERNET);
    BOOL(WINAPI *set_timeouts)(HINTERNET, int, int, int, int);
    BOOL(WINAPI *of_user)(WINHTTP_CURRENT_USER_IE_PROXY_CONFIG *);
    BOOL(WINAPI *of_machine)(WINHTTP_PROXY_INFO *);
    BOOL(WINAPI *for_url)(HINTERNET, LPCWSTR, WINHTTP_AUTOPROXY_OPTIONS *, WINHTTP_PROXY_INFO *);
} winhttp;

static int winhttp_load(winhttp *w, ea_err *err) {
    HMODULE dll = LoadLibraryExW(L"winhttp.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); /* loaded once; never unloaded */

    const struct {
        const char *name;
        void *target;
    } wanted[] = {{"WinHttpOpen", &w->open},
                  {"WinHttpCloseHandle", &w->close},
                  {"WinHttpSetTimeouts", &w->set_timeouts},
                  {"WinHttpGetIEProxyConfigForCurrentUser", &w->of_user},
                  {"WinHttpGetDefaultProxyConfiguration", &w->of_machine},
                  {"WinHttpGetProxyForUrl", &w->for_url}};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        FARPROC found = dll ? GetProcAddress(dll, wanted[i].name) : NULL;
        if (!found)
            return ea_fail_os(err, EA_EUNSUPPORTED, (int)GetLastError(), "find %s", wanted[i].name);
        memcpy(wanted[i].target, &found, sizeof found);
    }
    return 0;
}

static void winhttp_drop(LPWSTR text) {
    if (text)
        GlobalFree(text);
}

/* A proxy with the hosts that are reached without it. 1: *out is the answer. */
static int winhttp_take(const WCHAR *proxy, const WCHAR *bypass, const char *url, char out[EA_PROXY_BYTES], int *rc,
                        ea_err *err) {
    char text[TEXT_BYTES], host[HOST_BYTES];
    if (!proxy || !*proxy)
        return 0;
    if (bypass && ea_proxy_host_of(url, host, sizeof host)) {
        ea_narrow(bypass, text, sizeof text);
        if (ea_proxy_bypasses(text, host))
            return 1;
    }
    ea_narrow(proxy, text, sizeof text);
    *rc = ea_proxy_of_list(text, out, err);
    return 1;
}

/* The result of the script at the URL script, or (NULL) of the script that the network offers. */
static int ask_script(const winhttp *w, HINTERNET session, const char *url, LPWSTR script, char out[EA_PROXY_BYTES],
                      ea_err *err) {
    WINHTTP_AUTOPROXY_OPTIONS o = {.dwFlags = script ? WINHTTP_AUTOPROXY_CONFIG_URL : WINHTTP_AUTOPROXY_AUTO_DETECT,
                                   .dwAutoDetectFlags =
                                       script ? 0 : WINHTTP_AUTO_DETECT_TYPE_DHCP | WINHTTP_AUTO_DETECT_TYPE_DNS_A,
                                   .lpszAutoConfigUrl = script};
    WINHTTP_PROXY_INFO info = {0};
    int rc = 0;
    WCHAR *wide = ea_wide(url);
    if (!wide)
        return ea_fail(err, EA_ENOMEM, "ask which proxy leads to %s", url);
    BOOL good = w->for_url(session, wide, &o, &info);
    if (!good && GetLastError() == ERROR_WINHTTP_LOGIN_FAILURE) { /* only to a server that wants it */
        o.fAutoLogonIfChallenged = TRUE;
        good = w->for_url(session, wide, &o, &info);
    }
    DWORD os = good ? 0 : GetLastError();
    free(wide);
    if (!good)
        return ea_fail_os(err, EA_EIO, (int)os, "run the script that says which proxy leads to %s", url);
    if (info.dwAccessType == WINHTTP_ACCESS_TYPE_NAMED_PROXY)
        (void)winhttp_take(info.lpszProxy, info.lpszProxyBypass, url, out, &rc, err);
    winhttp_drop(info.lpszProxy);
    winhttp_drop(info.lpszProxyBypass);
    return rc;
}

static int ask_user(const winhttp *w, HINTERNET session, const char *url, char out[EA_PROXY_BYTES], int *rc,
                    ea_err *err) {
    WINHTTP_CURRENT_USER_IE_PROXY_CONFIG user = {0};
    ea_err unimportant;
    int done = 0;
    if (!w->of_user(&user))
        return 0;
    /* a network that offers no script is the usual case, and nothing to speak of */
    if (user.fAutoDetect)
        done = ask_script(w, session, url, NULL, out, &unimportant) == 0;
    if (!done && user.lpszAutoConfigUrl) {
        *rc = ask_script(w, session, url, user.lpszAutoConfigUrl, out, err);
        done = 1;
    }
    if (!done)
        done = winhttp_take(user.lpszProxy, user.lpszProxyBypass, url, out, rc, err);
    winhttp_drop(user.lpszAutoConfigUrl);
    winhttp_drop(user.lpszProxy);
    winhttp_drop(user.lpszProxyBypass);
    return done;
}

int ea_host_proxy(const char *url, char out[EA_PROXY_BYTES], ea_err *err) {
    winhttp w;
    WINHTTP_PROXY_INFO machine = {0};
    *out = 0;
    int rc = winhttp_load(&w, err);
    if (rc)
        return rc;
    HINTERNET session = w.open(L"etwagent", WINHTTP_ACCESS_TYPE_NO_PROXY, NULL, NULL, 0);
    if (!session)
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "ask which proxy leads to %s", url);
    w.set_timeouts(session, STEP_MS, STEP_MS, STEP_MS, STEP_MS);
    if (!ask_user(&w, session, url, out, &rc, err) && w.of_machine(&machine)) {
        if (machine.dwAccessType == WINHTTP_ACCESS_TYPE_NAMED_PROXY)
            (void)winhttp_take(machine.lpszProxy, machine.lpszProxyBypass, url, out, &rc, err);
        winhttp_drop(machine.lpszProxy);
        winhttp_drop(machine.lpszProxyBypass);
    }
    w.close(session);
    return rc;
}

/* ---- changes of the network ---- */

typedef DWORD(WINAPI *notify_change)(HANDLE *, OVERLAPPED *);
typedef BOOL(WINAPI *cancel_notify)(OVERLAPPED *);

struct ea_network_watch {
    notify_change notify;
    cancel_notify cancel;
    OVERLAPPED waits; /* its event: the addresses have changed */
};

static int listen_again(ea_network_watch *w) {
    HANDLE unused;
    ResetEvent(w->waits.hEvent);
    DWORD os = w->notify(&unused, &w->waits);
    return os == NO_ERROR || os == ERROR_IO_PENDING;
}

ea_network_watch *ea_network_watch_open(void) {
    HMODULE dll = LoadLibraryExW(L"iphlpapi.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    FARPROC notify = dll ? GetProcAddress(dll, "NotifyAddrChange") : NULL;
    FARPROC cancel = dll ? GetProcAddress(dll, "CancelIPChangeNotify") : NULL;
    ea_network_watch *w = notify && cancel ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    memcpy(&w->notify, &notify, sizeof notify);
    memcpy(&w->cancel, &cancel, sizeof cancel);
    w->waits.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (w->waits.hEvent && listen_again(w))
        return w;
    if (w->waits.hEvent)
        CloseHandle(w->waits.hEvent);
    free(w);
    return NULL;
}

int ea_network_watch_changed(ea_network_watch *w) {
    if (!w || WaitForSingleObject(w->waits.hEvent, 0) != WAIT_OBJECT_0)
        return 0;
    (void)listen_again(w);
    return 1;
}

void ea_network_watch_close(ea_network_watch *w) {
    if (!w)
        return;
    if (w->cancel(&w->waits)) /* Windows writes into it until it says that it has ended */
        WaitForSingleObject(w->waits.hEvent, INFINITE);
    CloseHandle(w->waits.hEvent);
    free(w);
}
