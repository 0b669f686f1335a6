/* Windows' event log: wevtapi.dll of System32, its functions taken by name. See channel_api.h.
 * Source: learn.microsoft.com, "Subscribing to Events", EvtSubscribe, EvtNext, EvtRender, EvtCreateBookmark (pull
 * model); the form of a bookmark's XML is what EvtRender (EvtRenderBookmark) makes. */
#include "service/eventlog/channel_api.h"
#include "proto/base/text.h"
#include "proto/evtx/evtx.h"
#include "service/eventlog/positions.h"
#include "service/host/win/wide.h"

#include <windows.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <winevt.h>

/* EvtNext answers RPC_S_INVALID_BOUND when so many records are too large together: then it is asked for one. */
enum { BATCH = 16, FIRST_XML_BYTES = 16384, XML_MAX_BYTES = 4 << 20, IDLE_MS = 1000, NEWEST_MS = 10000 };

static const WCHAR WEVT[] = L"wevtapi.dll";

#define EVENT_LOG_FUNCTIONS(X)                                                                                         \
    X(EvtSubscribe, EVT_HANDLE,                                                                                        \
      (EVT_HANDLE, HANDLE, LPCWSTR, LPCWSTR, EVT_HANDLE, PVOID, EVT_SUBSCRIBE_CALLBACK, DWORD))                        \
    X(EvtQuery, EVT_HANDLE, (EVT_HANDLE, LPCWSTR, LPCWSTR, DWORD))                                                     \
    X(EvtNext, BOOL, (EVT_HANDLE, DWORD, EVT_HANDLE *, DWORD, DWORD, PDWORD))                                          \
    X(EvtRender, BOOL, (EVT_HANDLE, EVT_HANDLE, DWORD, DWORD, PVOID, PDWORD, PDWORD))                                  \
    X(EvtCreateBookmark, EVT_HANDLE, (LPCWSTR))                                                                        \
    X(EvtClose, BOOL, (EVT_HANDLE))

typedef struct wevt_functions {
#define X(name, result, parameters) result(WINAPI *name) parameters;
    EVENT_LOG_FUNCTIONS(X)
#undef X
} wevt_functions;

typedef void (*any_function)(void);

struct ea_channel_reader {
    wevt_functions f;
    EVT_HANDLE subscription;
    HANDLE signal;
    EVT_HANDLE batch[BATCH];
    DWORD count, at, most; /* of the batch; how many are asked for */
    WCHAR *xml;
    DWORD capacity_bytes;
    ULONGLONG asked_ms; /* when EvtNext had nothing */
    char channel[EA_CHANNEL_NAME_MAX + 1];
};

static atomic_int are_large; /* a batch of several records was too large once */

static int wevt_load(wevt_functions *f, ea_err *err) {
    HMODULE module = LoadLibraryExW(WEVT, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); /* never unloaded */
    any_function g;
    if (!module)
        return ea_fail_os(err, EA_EUNSUPPORTED, (int)GetLastError(), "load wevtapi.dll");
#define X(name, result, parameters)                                                                                    \
    if (!(g = (any_function)GetProcAddress(module, #name)))                                                            \
        return ea_fail(err, EA_EUNSUPPORTED, "this Windows has no function " #name);                                   \
    memcpy(&f->name, &g, sizeof g);
    EVENT_LOG_FUNCTIONS(X)
#undef X
    return 0;
}

static int wevt_fail(DWORD error, const char *channel, ea_err *err) {
    switch (error) {
    case ERROR_EVT_CHANNEL_NOT_FOUND:
    case ERROR_EVT_INVALID_CHANNEL_PATH:
    case ERROR_FILE_NOT_FOUND:
        return ea_fail(err, EA_ENOTFOUND, "the event log has no channel %s", channel);
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return ea_fail_os(err, EA_EREFUSED, (int)error, "read channel %s of the event log", channel);
    case ERROR_EVT_INVALID_QUERY:
    case ERROR_EVT_FILTER_TOO_COMPLEX:
        return ea_fail_os(err, EA_EINVAL, (int)error, "the event log refuses the query on channel %s", channel);
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return ea_fail(err, EA_ENOMEM, "read channel %s of the event log", channel);
    default:
        if (error >= ERROR_EVT_FILTER_ALREADYSCOPED && error <= ERROR_EVT_FILTER_UNEXPECTEDTOKEN)
            return ea_fail_os(err, EA_EINVAL, (int)error, "the event log refuses the query on channel %s", channel);
        return ea_fail_os(err, EA_EIO, (int)error, "read channel %s of the event log", channel);
    }
}

static void wevt_close(ea_channel_reader *r) {
    for (; r->at < r->count; r->at++)
        r->f.EvtClose(r->batch[r->at]);
    if (r->subscription)
        r->f.EvtClose(r->subscription);
    if (r->signal)
        CloseHandle(r->signal);
    free(r->xml);
    free(r);
}

/* A reader without a subscription. */
static int wevt_make(ea_channel_reader **ret, const char *channel, ea_err *err) {
    ea_channel_reader *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "read channel %s of the event log", channel);
    snprintf(r->channel, sizeof r->channel, "%s", channel);
    r->most = atomic_load(&are_large) ? 1 : BATCH;
    int rc = wevt_load(&r->f, err);
    if (rc)
        free(r);
    else
        *ret = r;
    return rc;
}

/* The bookmark of a record that the channel has, or had. */
static EVT_HANDLE wevt_bookmark(const ea_channel_reader *r, uint64_t id) {
    char xml[EA_CHANNEL_NAME_MAX + 128];
    snprintf(xml, sizeof xml,
             "<BookmarkList><Bookmark Channel='%s' RecordId='%" PRIu64 "' IsCurrent='true'/></BookmarkList>",
             r->channel, id);
    WCHAR *wide = ea_wide(xml);
    EVT_HANDLE bookmark = wide ? r->f.EvtCreateBookmark(wide) : NULL;
    DWORD error = wide ? GetLastError() : ERROR_NOT_ENOUGH_MEMORY;
    free(wide);
    SetLastError(error);
    return bookmark;
}

static int wevt_open(ea_channel_reader **ret, const char *channel, const char *query, uint64_t after, ea_err *err) {
    ea_channel_reader *r = NULL;
    EVT_HANDLE bookmark = NULL;
    int rc = wevt_make(&r, channel, err);
    if (rc)
        return rc;
    WCHAR *path = ea_wide(channel), *which = ea_wide(query ? query : "*");
    r->signal = CreateEventW(NULL, TRUE, TRUE, NULL);
    DWORD error = path && which ? 0 : ERROR_NOT_ENOUGH_MEMORY;
    if (!error && !r->signal)
        error = GetLastError();
    if (!error && after && !(bookmark = wevt_bookmark(r, after)))
        error = GetLastError();
    if (!error) {
        r->subscription =
            r->f.EvtSubscribe(NULL, r->signal, path, which, bookmark, NULL, NULL,
                              bookmark ? EvtSubscribeStartAfterBookmark : EvtSubscribeStartAtOldestRecord);
        error = r->subscription ? 0 : GetLastError();
    }
    if (bookmark)
        r->f.EvtClose(bookmark);
    free(path);
    free(which);
    if (error) {
        rc = wevt_fail(error, channel, err);
        wevt_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

/* A record's XML into r->xml: its bytes; 0: it cannot be rendered; negative: no memory. */
static int64_t wevt_render(ea_channel_reader *r, EVT_HANDLE event) {
    for (DWORD wanted = FIRST_XML_BYTES;;) {
        DWORD used = 0, properties = 0;
        if (wanted > r->capacity_bytes) {
            WCHAR *xml = realloc(r->xml, wanted);
            if (!xml)
                return EA_ENOMEM;
            r->xml = xml;
            r->capacity_bytes = wanted;
        }
        if (r->f.EvtRender(NULL, event, EvtRenderEventXml, r->capacity_bytes, r->xml, &used, &properties))
            return used <= r->capacity_bytes ? used : 0;
        if (GetLastError() != ERROR_INSUFFICIENT_BUFFER || used <= r->capacity_bytes || used > XML_MAX_BYTES)
            return 0;
        wanted = used;
    }
}

/* Records wait, or may wait: signalled, or not asked for a while. */
static int wevt_is_due(ea_channel_reader *r) {
    return !r->asked_ms || WaitForSingleObject(r->signal, 0) == WAIT_OBJECT_0 ||
           GetTickCount64() - r->asked_ms >= IDLE_MS;
}

/* The next batch: 1, 0: nothing now. The signal is reset before the question, so that it stays for what comes later. */
static int wevt_ask(ea_channel_reader *r, ea_err *err) {
    if (!wevt_is_due(r))
        return 0;
    if (r->asked_ms) {
        ResetEvent(r->signal);
        r->asked_ms = 0;
    }
    r->at = r->count = 0;
    if (r->f.EvtNext(r->subscription, r->most, r->batch, 0, 0, &r->count) && r->count)
        return 1;
    DWORD error = r->count ? ERROR_SUCCESS : GetLastError();
    r->count = 0;
    if (error == RPC_S_INVALID_BOUND)
        atomic_store(&are_large, 1);
    if (error != ERROR_SUCCESS && error != ERROR_NO_MORE_ITEMS && error != ERROR_TIMEOUT &&
        error != ERROR_INVALID_OPERATION) /* Windows' answer when the signal came without a record */
        return wevt_fail(error, r->channel, err);
    r->asked_ms = GetTickCount64();
    return 0;
}

static int wevt_next(ea_channel_reader *r, const uint8_t **ret, uint32_t *ret_len_bytes, ea_err *err) {
    if (r->at == r->count) {
        int rc = wevt_ask(r, err);
        if (rc <= 0)
            return rc;
    }
    EVT_HANDLE event = r->batch[r->at++];
    int64_t used = wevt_render(r, event);
    r->f.EvtClose(event);
    if (used < 0)
        return ea_fail(err, EA_ENOMEM, "read channel %s of the event log", r->channel);
    *ret = (const uint8_t *)r->xml;
    *ret_len_bytes = (uint32_t)used;
    return 1;
}

static int wevt_number(ea_channel_reader *r, EVT_HANDLE event, uint64_t *ret) {
    ea_evtx_reader xml = {0};
    ea_evtx_place place = {0};
    const char *wrong;
    int64_t used = wevt_render(r, event);
    int rc = used < 0 ? EA_ENOMEM : ea_evtx_parse(&xml, (const uint8_t *)r->xml, (uint32_t)used, &wrong);
    if (!rc && !ea_evtx_place_of(&xml, &place))
        rc = EA_EIO;
    ea_evtx_reader_deinit(&xml);
    *ret = place.id;
    return rc;
}

static int wevt_newest(const char *channel, uint64_t *ret, ea_err *err) {
    ea_channel_reader *r = NULL;
    EVT_HANDLE query = NULL, event = NULL;
    DWORD count = 0, error = 0;
    *ret = 0;
    int rc = wevt_make(&r, channel, err);
    if (rc)
        return rc;
    WCHAR *path = ea_wide(channel);
    if (path)
        query = r->f.EvtQuery(NULL, path, L"*", EvtQueryChannelPath | EvtQueryReverseDirection);
    error = !path ? ERROR_NOT_ENOUGH_MEMORY : query ? 0 : GetLastError();
    if (!error && !r->f.EvtNext(query, 1, &event, NEWEST_MS, 0, &count))
        error = GetLastError();
    if (error == ERROR_NO_MORE_ITEMS)
        error = count = 0;
    if (error)
        rc = wevt_fail(error, channel, err);
    else if (count && (rc = wevt_number(r, event, ret)))
        rc = ea_fail(err, rc, "read the newest record of channel %s of the event log", channel);
    if (count)
        r->f.EvtClose(event);
    if (query)
        r->f.EvtClose(query);
    free(path);
    wevt_close(r);
    return rc;
}

static void wevt_wait(ea_channel_reader *const *readers, size_t count, int64_t ns) {
    HANDLE signals[MAXIMUM_WAIT_OBJECTS];
    DWORD n = 0, ms = (DWORD)(ns / 1000000);
    for (size_t i = 0; i < count && n < MAXIMUM_WAIT_OBJECTS; i++)
        if (readers[i])
            signals[n++] = readers[i]->signal;
    if (n)
        WaitForMultipleObjects(n, signals, FALSE, ms);
    else
        Sleep(ms);
}

const ea_channel_api *ea_channel_api_of_machine(void) {
    static const ea_channel_api API = {
        .newest = wevt_newest, .open = wevt_open, .next = wevt_next, .close = wevt_close, .wait = wevt_wait};
    return &API;
}
