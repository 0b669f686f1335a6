/* Starting, asking and stopping a session. See session.h. */
#include "service/etw/session.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

static void session_to_wide(const char *utf8, WCHAR *out, size_t capacity) {
    size_t bytes = ea_utf8_to_utf16(utf8, strlen(utf8), out, (capacity - 1) * sizeof *out);
    out[bytes / sizeof *out < capacity ? bytes / sizeof *out : capacity - 1] = 0;
}

int ea_session_init(ea_session *s, const ea_session_config *c, ea_counters *counters, ea_session_note note,
                    void *note_arg, ea_err *err) {
    char name[EA_SESSION_NAME_MAX + 32];
    memset(s, 0, sizeof *s);
    s->c = c;
    s->counters = counters;
    s->note = note;
    s->note_arg = note_arg;
    /* few at first; raised when events are lost (live.c) */
    s->max_buffers = (uint32_t)(2 * c->min_buffers < c->max_buffers ? 2 * c->min_buffers : c->max_buffers);
    snprintf(name, sizeof name, EA_LIVE_PREFIX "%s", c->name);
    session_to_wide(name, s->name, sizeof s->name / sizeof *s->name);
    if (c->kind == EA_SESSION_KERNEL_LOGGER)
        memcpy(s->name, KERNEL_LOGGER_NAMEW, sizeof KERNEL_LOGGER_NAMEW);
    return ea_etw_load(&s->api, err);
}

void ea_properties_clear(ea_properties *p) {
    memset(p, 0, sizeof *p);
    p->p.Wnode.BufferSize = sizeof *p;
    p->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    p->p.LoggerNameOffset = offsetof(ea_properties, name);
    p->p.LogFileNameOffset = offsetof(ea_properties, file);
}

static uint32_t log_file_mode(const ea_session_config *c) {
    uint32_t mode = 0;
    if (c->output != EA_OUTPUT_FILE)
        mode |= EVENT_TRACE_REAL_TIME_MODE;
    if (c->output != EA_OUTPUT_REALTIME)
        mode |= c->circular ? EVENT_TRACE_FILE_MODE_CIRCULAR : EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    if (c->independent && c->kind != EA_SESSION_KERNEL_LOGGER)
        mode |= EVENT_TRACE_INDEPENDENT_SESSION_MODE;
    if (c->kind == EA_SESSION_SYSTEM)
        mode |= EVENT_TRACE_SYSTEM_LOGGER_MODE;
    if (!c->per_processor)
        mode |= EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING;
    return mode;
}

/* Windows takes at least two buffers a processor. */
static uint32_t minimum_buffers(const ea_session_config *c) {
    uint32_t least = 2 * (uint32_t)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return c->min_buffers > least ? (uint32_t)c->min_buffers : least;
}

static void session_name_file(const ea_session *s, ea_properties *p) {
    char path[4096];
    ea_session_file(s->c, s->starts + 1, path, sizeof path);
    session_to_wide(path, p->file, sizeof p->file / sizeof *p->file);
}

/* NAME.etl as NAME.N.etl. */
static void numbered(const WCHAR *file, uint64_t number, WCHAR *out, size_t capacity) {
    const WCHAR *end = wcsrchr(file, L'.');
    int stem = end ? (int)(end - file) : (int)wcslen(file);
    if (_snwprintf(out, capacity, L"%.*ls.%llu%ls", stem, file, (unsigned long long)number, file + stem) < 0)
        out[0] = 0;
    out[capacity - 1] = 0;
}

/* Windows overwrites an existing file: files of earlier starts are renamed first, and the oldest one is replaced. */
static void keep_old_files(const ea_session *s, const WCHAR *file) {
    WCHAR from[1024], to[1024];
    for (uint64_t n = s->c->keep_files; n && GetFileAttributesW(file) != INVALID_FILE_ATTRIBUTES; n--) {
        numbered(file, n, to, sizeof to / sizeof *to);
        numbered(file, n - 1, from, sizeof from / sizeof *from);
        if (!MoveFileExW(n == 1 ? file : from, to, MOVEFILE_REPLACE_EXISTING) && n == 1)
            ea_session_log(s, "the file of an earlier start cannot be kept (error %lu)", GetLastError());
    }
}

/* 1 when a session of this name runs, which writes its file. */
static int is_there(const ea_session *s) {
    ea_properties p;
    ea_properties_clear(&p);
    return s->api->ControlTraceW(0, s->name, &p.p, EVENT_TRACE_CONTROL_QUERY) != ERROR_WMI_INSTANCE_NOT_FOUND;
}

static void session_ask(const ea_session *s, ea_properties *p) {
    const ea_session_config *c = s->c;
    ea_properties_clear(p);
    p->p.Wnode.ClientContext = (ULONG)c->clock + 1;
    if (c->kind == EA_SESSION_KERNEL_LOGGER)
        p->p.Wnode.Guid = EA_SYSTEM_TRACE_CONTROL_GUID;
    p->p.BufferSize = (ULONG)(c->buffer_bytes / 1024);
    p->p.MinimumBuffers = minimum_buffers(c);
    p->p.MaximumBuffers = s->max_buffers > p->p.MinimumBuffers ? s->max_buffers : p->p.MinimumBuffers;
    p->p.LogFileMode = log_file_mode(c);
    p->p.FlushTimer = c->flush_ns > SECOND_NS ? (ULONG)((c->flush_ns + SECOND_NS - 1) / SECOND_NS) : 1;
    if (c->output == EA_OUTPUT_REALTIME) {
        p->p.LogFileNameOffset = 0;
    } else {
        session_name_file(s, p);
        p->p.MaximumFileSize = (ULONG)(c->file_bytes >> 20);
    }
}

static int fail_etw(ea_err *err, ULONG error, const char *doing, const ea_session *s) {
    return ea_fail_os(err, ea_etw_code(error), (int)error, "%s session %s", doing, s->c->name);
}

/* The name of a stopped session may be taken for a moment still: PerfView waits 100 ms before it starts one again. */
static ULONG start_after_stop(ea_session *s) {
    enum { TRIES = 20 };

    const int64_t step_ns = 50000000;
    ULONG error = ERROR_ALREADY_EXISTS;
    for (int i = 0; i < TRIES && error == ERROR_ALREADY_EXISTS; i++) {
        if (i)
            ea_sleep_ns(step_ns);
        session_ask(s, &s->now);
        error = s->api->StartTraceW(&s->handle, s->name, &s->now.p);
    }
    return error;
}

/* The size of the playback file, in which Windows keeps what no program has read of a real-time session:
 * RtBackup\EtwRTNAME.etl. 0: there is none. */
static uint64_t playback_bytes(const ea_session *s) {
    WCHAR path[MAX_PATH + sizeof s->name / sizeof *s->name + 64];
    WIN32_FILE_ATTRIBUTE_DATA data;
    UINT n = GetSystemDirectoryW(path, MAX_PATH);
    if (!n || n >= MAX_PATH)
        return 0;
    _snwprintf(path + n, sizeof path / sizeof *path - n, L"\\LogFiles\\WMI\\RtBackup\\EtwRT%ls.etl", s->name);
    path[sizeof path / sizeof *path - 1] = 0;
    return GetFileAttributesExW(path, GetFileExInfoStandard, &data)
               ? (uint64_t)data.nFileSizeHigh << 32 | data.nFileSizeLow
               : 0;
}

/* A session of this name exists: an earlier run of this program left it, or another program started it. Adopts or stops
 * it. */
static ULONG have_stale(ea_session *s, int *ret_existed) {
    *ret_existed = 0;
    ea_properties_clear(&s->now);
    if (s->c->stale == EA_STALE_ADOPT) {
        ULONG error = s->api->ControlTraceW(0, s->name, &s->now.p, EVENT_TRACE_CONTROL_QUERY);
        if (error == ERROR_WMI_INSTANCE_NOT_FOUND)
            return start_after_stop(s);
        if (!error) {
            const EVENT_TRACE_PROPERTIES *p = &s->now.p;
            *ret_existed = 1;
            s->handle = p->Wnode.HistoricalContext;
            s->had_events = p->EventsLost;
            s->had_log_buffers = p->LogBuffersLost;
            s->had_realtime_buffers = p->RealTimeBuffersLost;
            s->had_written = p->BuffersWritten;
            ea_session_log(s,
                           "a session of this name was there; it is used as it is; %lu events and %lu buffers that it "
                           "had lost by then are not counted here",
                           p->EventsLost, p->LogBuffersLost + p->RealTimeBuffersLost);
        }
        return error;
    }
    uint64_t unread_bytes = playback_bytes(s);
    ULONG error = s->api->ControlTraceW(0, s->name, &s->now.p, EVENT_TRACE_CONTROL_STOP);
    if (error && error != ERROR_WMI_INSTANCE_NOT_FOUND)
        return error;
    if (!error) {
        *ret_existed = 1;
        ea_session_log(s,
                       "a session of this name was there; it was stopped; %" PRIu64
                       " bytes of its events that no program had read are lost",
                       unread_bytes);
        if (s->counters)
            ea_count(s->counters, EA_COUNT_source_stale_bytes, unread_bytes);
        session_ask(s, &s->now);
        keep_old_files(s, s->now.file);
    }
    return start_after_stop(s);
}

static const WCHAR *session_base_name(const WCHAR *path) {
    const WCHAR *slash = wcsrchr(path, L'\\'), *base = slash ? slash + 1 : path;
    const WCHAR *other = wcsrchr(base, L'/');
    return other ? other + 1 : base;
}

/* A boot session's file: the configured one, with or without a number. The folder is not compared: Windows may return
 * another form of it, such as \??\C:\ or a path without environment variables. */
static int is_boot_file(const ea_session *s, const WCHAR *file) {
    WCHAR wanted[1024];
    session_to_wide(s->c->boot_file, wanted, sizeof wanted / sizeof *wanted);
    const WCHAR *name = session_base_name(file), *base = session_base_name(wanted);
    size_t n = wcslen(base);
    return _wcsnicmp(name, base, n) == 0 && (!name[n] || name[n] == L'.');
}

void ea_session_stop_boot(ea_session *s, int has_key) {
    ea_properties_clear(&s->now);
    if (s->api->ControlTraceW(0, s->name, &s->now.p, EVENT_TRACE_CONTROL_QUERY))
        return;
    if (s->now.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE)
        return; /* this program's own */
    if (!is_boot_file(s, s->now.file) && !(has_key && s->c->output == EA_OUTPUT_REALTIME))
        return;
    ea_properties_clear(&s->now);
    s->api->ControlTraceW(0, s->name, &s->now.p, EVENT_TRACE_CONTROL_STOP);
}

/* Logs the properties that Windows applied differently from the request; additional bits of the mode are ignored. */
static void log_applied(const ea_session *s, const EVENT_TRACE_PROPERTIES *asked) {
    const EVENT_TRACE_PROPERTIES *now = &s->now.p;

    const struct {
        const char *what;
        ULONG applied, asked;
    } VALUES[] = {{"KiB a buffer", now->BufferSize, asked->BufferSize},
                  {"buffers at the least", now->MinimumBuffers, asked->MinimumBuffers},
                  {"buffers at the most", now->MaximumBuffers, asked->MaximumBuffers},
                  {"flush timer in seconds", now->FlushTimer, asked->FlushTimer},
                  {"clock", now->Wnode.ClientContext, asked->Wnode.ClientContext},
                  {"MiB a file", now->MaximumFileSize, asked->MaximumFileSize}};

    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (VALUES[i].applied != VALUES[i].asked)
            ea_text_printf(&t, "%s%s %lu (%lu)", t.len_bytes ? ", " : "", VALUES[i].what, VALUES[i].applied,
                           VALUES[i].asked);
    if (asked->LogFileMode & ~now->LogFileMode)
        ea_text_printf(&t, "%smode 0x%08lx (0x%08lx)", t.len_bytes ? ", " : "", now->LogFileMode, asked->LogFileMode);
    if (t.len_bytes && !t.failed)
        ea_session_log(s, "Windows applies other values than were asked for (in brackets): %s", t.data);
    ea_text_deinit(&t);
}

ULONG ea_session_query_all(const ea_etw_api *api, EVENT_TRACE_PROPERTIES **list, ULONG *ret_count) {
    enum { LOGGERS_OF_ALL = 64 }; /* that each Windows has */

    ULONG error = api->QueryAllTracesW(list, EA_LOGGERS_MAX, ret_count);
    return error == ERROR_INVALID_PARAMETER ? api->QueryAllTracesW(list, LOGGERS_OF_ALL, ret_count) : error;
}

/* ", system loggers: NAME, NAME", for a session that Windows has no room for: of its eight, two are reserved. */
static void list_system_loggers(const ea_session *s, char *out, size_t capacity) {
    ea_properties *all = s->c->kind == EA_SESSION_SYSTEM ? calloc(EA_LOGGERS_MAX, sizeof *all) : NULL;
    EVENT_TRACE_PROPERTIES *list[EA_LOGGERS_MAX];
    ULONG count = 0;
    ea_text t;
    *out = 0;
    ea_text_init(&t);
    for (size_t i = 0; all && i < EA_LOGGERS_MAX; i++) {
        ea_properties_clear(&all[i]);
        list[i] = &all[i].p;
    }
    ULONG error = all && s->api->QueryAllTracesW ? ea_session_query_all(s->api, list, &count) : ERROR_NOT_SUPPORTED;
    for (ULONG i = 0; (!error || error == ERROR_MORE_DATA) && i < count && i < EA_LOGGERS_MAX; i++)
        if (all[i].p.LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE) {
            ea_text_str(&t, t.len_bytes ? ", " : ", system loggers: ");
            ea_text_utf16(&t, all[i].name, wcslen(all[i].name) * sizeof(WCHAR));
        }
    if (t.len_bytes && !t.failed)
        snprintf(out, capacity, "%.*s", (int)t.len_bytes, t.data);
    ea_text_deinit(&t);
    free(all);
}

static int fail_start(ea_err *err, ULONG error, const ea_session *s) {
    char loggers[200] = "";
    if (error == ERROR_NO_SYSTEM_RESOURCES)
        list_system_loggers(s, loggers, sizeof loggers);
    return ea_fail_os(err, ea_etw_code(error), (int)error, "start session %s%s", s->c->name, loggers);
}

int ea_session_start(ea_session *s, ea_err *err) {
    session_ask(s, &s->now);
    s->handle = 0;
    s->had_events = s->had_log_buffers = s->had_realtime_buffers = s->had_written = 0;
    const EVENT_TRACE_PROPERTIES asked = s->now.p;
    if (s->c->output != EA_OUTPUT_REALTIME && !is_there(s))
        keep_old_files(s, s->now.file);
    ULONG error = s->api->StartTraceW(&s->handle, s->name, &s->now.p);
    int existed = 0;
    if (error == ERROR_ALREADY_EXISTS && !(error = have_stale(s, &existed)) && existed && s->counters)
        ea_count(s->counters, EA_COUNT_source_stale_sessions, 1);
    if (error)
        return fail_start(err, error, s);
    s->starts++;
    ea_session_enable(s);
    int rc = ea_session_query(s, err);
    if (rc) {
        ea_session_stop(s);
        return rc;
    }
    log_applied(s, &asked);
    return 0;
}

int ea_session_query(ea_session *s, ea_err *err) {
    ea_properties p;
    ea_properties_clear(&p);
    ULONG error = s->api->ControlTraceW(s->handle, NULL, &p.p, EVENT_TRACE_CONTROL_QUERY);
    if (error)
        return fail_etw(err, error, "query", s);
    s->now = p;
    return 0;
}

void ea_session_flush(const ea_session *s) {
    ea_properties p;
    ea_properties_clear(&p);
    s->api->ControlTraceW(s->handle, NULL, &p.p, EVENT_TRACE_CONTROL_FLUSH);
}

int ea_session_grow(ea_session *s, ea_err *err) {
    ea_properties p;
    ea_properties_clear(&p);
    p.p.LogFileNameOffset = 0; /* 0 leaves the file, and each number, unchanged */
    p.p.MaximumBuffers = s->max_buffers;
    p.p.LogFileMode = s->now.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE;
    p.p.FlushTimer = s->now.p.FlushTimer;
    p.p.EnableFlags = s->now.p.EnableFlags;
    uint32_t before[EA_KERNEL_MASK_WORDS], after[EA_KERNEL_MASK_WORDS];
    int is_known = s->c->kind != EA_SESSION_USER && !ea_session_flags(s->api, s->handle, before);
    ULONG error = s->api->ControlTraceW(s->handle, NULL, &p.p, EVENT_TRACE_CONTROL_UPDATE);
    if (error)
        return fail_etw(err, error, "give more buffers to", s);
    if (is_known && !ea_session_flags(s->api, s->handle, after) && memcmp(before, after, sizeof before) != 0) {
        ea_session_log(s, "Windows changed the kernel flags when it gave more buffers; they are set again");
        ea_session_restore_masks(s);
    }
    return 0;
}

void ea_session_stop(ea_session *s) {
    ea_properties last = s->now;
    ea_profile_restore(s);
    if (!s->handle)
        return;
    ea_properties_clear(&s->now);
    if (s->api->ControlTraceW(s->handle, NULL, &s->now.p, EVENT_TRACE_CONTROL_STOP))
        s->now = last;
    s->handle = 0;
}
