/* An emulator of wevtapi.dll, whose functions Wine only has as stubs: wevtemu.dll has those that
 * service/eventlog/channel_api.c takes by name. A channel is the file C:\wevtemul\NAME.log, with '_' for each '/' of
 * the name, and lines "NUMBER<tab>XML": a test appends records, removes the oldest ones, or clears it. NAME.denied
 * refuses access to it. Calls that Windows would refuse are refused. Each subscription is noted in
 * C:\wevtemul\calls.txt. Called by: test_eventlog.py. Thread: any; a handle is used by one thread at a time. */
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winevt.h>

/* Exported under the names of wevtemul.def. */
EVT_HANDLE WINAPI wevtemul_subscribe(EVT_HANDLE session, HANDLE signal, LPCWSTR channel, LPCWSTR query,
                                     EVT_HANDLE bookmark, PVOID context, EVT_SUBSCRIBE_CALLBACK callback, DWORD flags);
EVT_HANDLE WINAPI wevtemul_query(EVT_HANDLE session, LPCWSTR path, LPCWSTR query, DWORD flags);
BOOL WINAPI wevtemul_next(EVT_HANDLE from, DWORD size, EVT_HANDLE *ret, DWORD timeout, DWORD flags, PDWORD ret_count);
BOOL WINAPI wevtemul_render(EVT_HANDLE context, EVT_HANDLE event, DWORD flags, DWORD room, PVOID out, PDWORD used,
                            PDWORD properties);
EVT_HANDLE WINAPI wevtemul_create_bookmark(LPCWSTR xml);
BOOL WINAPI wevtemul_close(EVT_HANDLE object);

enum kind { SUBSCRIPTION = 0x5b5b01, QUERY, EVENT, BOOKMARK };

enum { NAME_MAX_BYTES = 300, IDS_MAX = 8, WATCH_MS = 10 };

typedef struct object {
    enum kind kind;
    char channel[NAME_MAX_BYTES];
    unsigned ids[IDS_MAX], id_count; /* of a subscription or query: its EventIDs; none: all */
    unsigned long long last;         /* number of the last record, or of the bookmark's */
    int is_over;                     /* of a query: its one record was read */
    HANDLE signal, watcher, closing; /* of a subscription */
    char *xml;                       /* of an event, UTF-8 */
} object;

static volatile LONG open_handles;

static void note(const char *text) {
    FILE *f = fopen("C:\\wevtemul\\calls.txt", "a");
    if (!f)
        return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

static EVT_HANDLE refuse(DWORD error) {
    SetLastError(error);
    return NULL;
}

static object *make(enum kind kind) {
    object *o = calloc(1, sizeof *o);
    if (!o) {
        refuse(ERROR_NOT_ENOUGH_MEMORY);
        return NULL;
    }
    o->kind = kind;
    InterlockedIncrement(&open_handles);
    return o;
}

static object *of(EVT_HANDLE handle, enum kind kind) {
    object *o = handle;
    return o && o->kind == kind ? o : NULL;
}

static void path_of(const char *channel, const char *suffix, char *out, size_t room) {
    snprintf(out, room, "C:\\wevtemul\\%s%s", channel, suffix);
    for (char *p = out + strlen("C:\\wevtemul\\"); *p; p++)
        if (*p == '/')
            *p = '_';
}

/* The whole file with a NUL after it; NULL: it is missing. Its last line may still be written. */
static char *read_channel(const char *channel) {
    char path[NAME_MAX_BYTES + 40];
    path_of(channel, ".log", path, sizeof path);
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return NULL;
    DWORD bytes = GetFileSize(file, NULL), got = 0;
    char *data = calloc(bytes + 1, 1);
    if (data && !ReadFile(file, data, bytes, &got, NULL))
        got = 0;
    if (data)
        data[got] = 0;
    CloseHandle(file);
    return data;
}

/* The next line from *at on: 1 with its number and its XML, ended; 0: there is no whole one. */
static int next_line(char **at, unsigned long long *ret_id, char **ret_xml) {
    char *end = strchr(*at, '\n'), *tab = strchr(*at, '\t');
    if (!end || !tab || tab > end)
        return 0;
    *end = 0;
    *ret_id = strtoull(*at, NULL, 10);
    *ret_xml = tab + 1;
    *at = end + 1;
    return 1;
}

static unsigned long long newest_of(const char *channel) {
    char *data = read_channel(channel), *at = data, *xml;
    unsigned long long id = 0, one;
    while (at && next_line(&at, &one, &xml))
        id = one > id ? one : id;
    free(data);
    return id;
}

/* EventIDs of "*" or "*[System[(EventID=1 or EventID=2)]]": 1; other queries are refused. */
static int take_query(object *o, LPCWSTR query) {
    static const WCHAR BEGIN[] = L"*[System[(", PART[] = L"EventID=";
    if (wcscmp(query, L"*") == 0)
        return 1;
    if (wcsncmp(query, BEGIN, wcslen(BEGIN)) != 0)
        return 0;
    const WCHAR *p = query + wcslen(BEGIN);
    WCHAR *end;
    for (;;) {
        if (wcsncmp(p, PART, wcslen(PART)) != 0 || o->id_count == IDS_MAX)
            return 0;
        o->ids[o->id_count++] = wcstoul(p + wcslen(PART), &end, 10);
        if (wcscmp(end, L")]]") == 0)
            return 1;
        if (wcsncmp(end, L" or ", 4) != 0)
            return 0;
        p = end + 4;
    }
}

static int selects(const object *o, const char *xml) {
    char part[40];
    for (unsigned i = 0; i < o->id_count; i++) {
        snprintf(part, sizeof part, ">%u</EventID>", o->ids[i]);
        if (strstr(xml, part))
            return 1;
    }
    return !o->id_count;
}

/* The channel and the query of a new object; 0 when one of them is refused. */
static int open_channel(object *o, LPCWSTR channel, LPCWSTR query) {
    char path[NAME_MAX_BYTES + 40];
    if (!channel || !WideCharToMultiByte(CP_UTF8, 0, channel, -1, o->channel, sizeof o->channel, NULL, NULL)) {
        refuse(ERROR_EVT_INVALID_CHANNEL_PATH);
        return 0;
    }
    path_of(o->channel, ".denied", path, sizeof path);
    DWORD error = GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES ? ERROR_ACCESS_DENIED : 0;
    path_of(o->channel, ".log", path, sizeof path);
    if (!error && GetFileAttributesA(path) == INVALID_FILE_ATTRIBUTES)
        error = ERROR_EVT_CHANNEL_NOT_FOUND;
    if (!error && query && !take_query(o, query))
        error = ERROR_EVT_INVALID_QUERY;
    if (error)
        refuse(error);
    return !error;
}

/* Signals when the channel's file changes. */
static DWORD WINAPI watch(void *arg) {
    object *o = arg;
    char path[NAME_MAX_BYTES + 40];
    WIN32_FILE_ATTRIBUTE_DATA was = {0}, now;
    path_of(o->channel, ".log", path, sizeof path);
    while (WaitForSingleObject(o->closing, WATCH_MS) == WAIT_TIMEOUT)
        if (GetFileAttributesExA(path, GetFileExInfoStandard, &now) &&
            (now.nFileSizeLow != was.nFileSizeLow ||
             CompareFileTime(&now.ftLastWriteTime, &was.ftLastWriteTime) != 0)) {
            was = now;
            SetEvent(o->signal);
        }
    return 0;
}

EVT_HANDLE WINAPI wevtemul_subscribe(EVT_HANDLE session, HANDLE signal, LPCWSTR channel, LPCWSTR query,
                                     EVT_HANDLE bookmark, PVOID context, EVT_SUBSCRIBE_CALLBACK callback, DWORD flags) {
    object *mark = of(bookmark, BOOKMARK);
    char line[NAME_MAX_BYTES + 80];
    /* a signal or a callback, not both; a bookmark with the flag for it, and only then */
    if (session || !!signal == !!callback || context || !channel ||
        !!bookmark != (flags == EvtSubscribeStartAfterBookmark) || (bookmark && !mark) ||
        (flags != EvtSubscribeToFutureEvents && flags != EvtSubscribeStartAtOldestRecord && !bookmark))
        return refuse(ERROR_INVALID_PARAMETER);
    object *o = make(SUBSCRIPTION);
    if (!o)
        return NULL;
    if (!open_channel(o, channel, query)) {
        DWORD error = GetLastError();
        wevtemul_close(o);
        return refuse(error);
    }
    unsigned long long newest = newest_of(o->channel);
    if (mark && strcmp(mark->channel, o->channel) != 0) {
        wevtemul_close(o);
        return refuse(ERROR_INVALID_PARAMETER);
    }
    /* without EvtSubscribeStrict: a bookmark's record that is missing is replaced by the nearest one */
    o->last = mark ? (mark->last < newest ? mark->last : newest) : flags == EvtSubscribeToFutureEvents ? newest : 0;
    snprintf(line, sizeof line, "subscribe %s after %llu", o->channel, mark ? mark->last : 0);
    note(line);
    o->signal = signal;
    o->closing = CreateEventW(NULL, TRUE, FALSE, NULL);
    o->watcher = CreateThread(NULL, 0, watch, o, 0, NULL);
    return o;
}

EVT_HANDLE WINAPI wevtemul_query(EVT_HANDLE session, LPCWSTR path, LPCWSTR query, DWORD flags) {
    if (session || flags != (EvtQueryChannelPath | EvtQueryReverseDirection))
        return refuse(ERROR_INVALID_PARAMETER);
    object *o = make(QUERY);
    if (o && !open_channel(o, path, query)) {
        DWORD error = GetLastError();
        wevtemul_close(o);
        return refuse(error);
    }
    return o;
}

/* One event of a subscription or query: 1; 0: there is none. */
static int next_event(object *o, EVT_HANDLE *ret) {
    char *data = read_channel(o->channel), *at = data, *xml, *found = NULL;
    unsigned long long id, found_id = 0, newest = newest_of(o->channel);
    if (o->kind == SUBSCRIPTION && newest < o->last)
        o->last = 0; /* it was cleared */
    while (at && next_line(&at, &id, &xml))
        if (selects(o, xml) && (o->kind == QUERY ? !o->is_over && id > found_id : !found && id > o->last)) {
            found = xml;
            found_id = id;
        }
    object *event = found ? make(EVENT) : NULL;
    if (event) {
        event->xml = strdup(found);
        o->last = found_id;
        o->is_over = 1;
        *ret = event;
    }
    free(data);
    return event != NULL;
}

BOOL WINAPI wevtemul_next(EVT_HANDLE from, DWORD size, EVT_HANDLE *ret, DWORD timeout, DWORD flags, PDWORD ret_count) {
    object *o = of(from, SUBSCRIPTION) ? from : of(from, QUERY);
    (void)timeout;
    if (!o || !size || !ret || flags || !ret_count) {
        SetLastError(o ? ERROR_INVALID_PARAMETER : ERROR_INVALID_HANDLE);
        return FALSE;
    }
    for (*ret_count = 0; *ret_count < size && next_event(o, &ret[*ret_count]);)
        ++*ret_count;
    SetLastError(ERROR_NO_MORE_ITEMS);
    return *ret_count != 0;
}

BOOL WINAPI wevtemul_render(EVT_HANDLE context, EVT_HANDLE event, DWORD flags, DWORD room, PVOID out, PDWORD used,
                            PDWORD properties) {
    object *o = of(event, EVENT);
    if (context || !o || flags != EvtRenderEventXml || !used || !properties) {
        SetLastError(o ? ERROR_INVALID_PARAMETER : ERROR_INVALID_HANDLE);
        return FALSE;
    }
    int units = MultiByteToWideChar(CP_UTF8, 0, o->xml, -1, NULL, 0);
    *used = (DWORD)units * sizeof(WCHAR);
    *properties = 0;
    if (*used > room) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    MultiByteToWideChar(CP_UTF8, 0, o->xml, -1, out, units);
    return TRUE;
}

EVT_HANDLE WINAPI wevtemul_create_bookmark(LPCWSTR xml) {
    char text[NAME_MAX_BYTES + 200], channel[NAME_MAX_BYTES], current[8];
    unsigned long long id;
    int end = 0;
    object *o;
    if (!xml || !WideCharToMultiByte(CP_UTF8, 0, xml, -1, text, sizeof text, NULL, NULL) ||
        sscanf(text, "<BookmarkList><Bookmark Channel='%299[^']' RecordId='%llu' IsCurrent='%7[^']'/></BookmarkList>%n",
               channel, &id, current, &end) != 3 ||
        text[end] || strcmp(current, "true") != 0)
        return refuse(ERROR_EVT_MALFORMED_XML_TEXT);
    if (!(o = make(BOOKMARK)))
        return NULL;
    snprintf(o->channel, sizeof o->channel, "%s", channel);
    o->last = id;
    return o;
}

BOOL WINAPI wevtemul_close(EVT_HANDLE handle) {
    object *o = handle;
    char line[60];
    if (!o || o->kind < SUBSCRIPTION || o->kind > BOOKMARK) {
        SetLastError(ERROR_INVALID_HANDLE);
        return FALSE;
    }
    LONG left = InterlockedDecrement(&open_handles);
    if (o->watcher) {
        SetEvent(o->closing);
        WaitForSingleObject(o->watcher, INFINITE);
        CloseHandle(o->watcher);
        snprintf(line, sizeof line, "end, %ld handles open", left);
        note(line);
    }
    if (o->closing)
        CloseHandle(o->closing);
    free(o->xml);
    o->kind = 0;
    free(o);
    return TRUE;
}
