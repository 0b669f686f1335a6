/* Listing, starting and stopping sessions by their names. See control.h. */
#include "service/etw/control.h"

#include "config/system_providers.h"
#include "service/etw/session.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_CHARS = sizeof((ea_properties *)0)->name / sizeof(WCHAR) };

static void control_to_utf8(const WCHAR *wide, size_t capacity_chars, char *out, size_t capacity) {
    size_t chars = 0;
    while (chars < capacity_chars && wide[chars])
        chars++;
    int n = chars ? WideCharToMultiByte(CP_UTF8, 0, wide, (int)chars, out, (int)capacity - 1, NULL, NULL) : 0;
    out[n > 0 ? n : 0] = 0;
}

static void read_status(const ea_etw_api *api, const ea_properties *from, ea_live_status *ret) {
    const EVENT_TRACE_PROPERTIES *p = &from->p;
    *ret = (ea_live_status){.runs = 1,
                            .logger = (uint32_t)p->Wnode.HistoricalContext & 0xffff,
                            .buffer_bytes = (uint64_t)p->BufferSize * 1024,
                            .min_buffers = p->MinimumBuffers,
                            .max_buffers = p->MaximumBuffers,
                            .buffers = p->NumberOfBuffers,
                            .free_buffers = p->FreeBuffers,
                            .mode = p->LogFileMode,
                            .flush_seconds = p->FlushTimer,
                            .clock = p->Wnode.ClientContext,
                            .file_mib = p->MaximumFileSize,
                            .written_buffers = p->BuffersWritten,
                            .lost_events = p->EventsLost,
                            .lost_buffers = (uint64_t)p->LogBuffersLost + p->RealTimeBuffersLost};
    control_to_utf8(from->name, sizeof from->name / sizeof *from->name, ret->name, sizeof ret->name);
    control_to_utf8(from->file, sizeof from->file / sizeof *from->file, ret->file, sizeof ret->file);
    if (p->LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE)
        EA_IGNORE(ea_session_flags(api, p->Wnode.HistoricalContext, ret->masks));
}

/* ---- the list ---- */

/* 1 when the name has this program's prefix, or is the NT Kernel Logger, whose owner Windows does not report. */
static int may_be_ours(const WCHAR *name) {
    static const WCHAR PREFIX[] = L"" EA_LIVE_PREFIX;
    return wcsncmp(name, PREFIX, wcslen(PREFIX)) == 0 || _wcsicmp(name, KERNEL_LOGGER_NAMEW) == 0;
}

int ea_control_list(int all, int (*fn)(const ea_live_status *session, void *arg), void *arg, int *ret_more,
                    ea_err *err) {
    const ea_etw_api *api;
    ULONG count = 0;
    int rc = ea_etw_load(&api, err);
    if (rc)
        return rc;
    if (!api->QueryAllTracesW)
        return ea_fail(err, EA_EUNSUPPORTED, "this Windows cannot list its sessions");
    ea_properties *list = calloc(EA_LOGGERS_MAX, sizeof *list);
    EVENT_TRACE_PROPERTIES *pointers[EA_LOGGERS_MAX];
    if (!list)
        return ea_fail(err, EA_ENOMEM, "list the sessions");
    for (size_t i = 0; i < EA_LOGGERS_MAX; i++) {
        ea_properties_clear(&list[i]);
        pointers[i] = &list[i].p;
    }
    ULONG error = ea_session_query_all(api, pointers, &count);
    if (error && error != ERROR_MORE_DATA)
        rc = ea_fail_os(err, ea_etw_code(error), (int)error, "list the sessions");
    for (size_t i = 0; !rc && i < count && i < EA_LOGGERS_MAX; i++) {
        ea_live_status s;
        list[i].name[NAME_CHARS - 1] = 0;
        if (!all && !may_be_ours(list[i].name))
            continue;
        read_status(api, &list[i], &s);
        rc = fn(&s, arg) ? EA_ECANCELED : 0;
    }
    free(list);
    if (rc && rc != EA_ECANCELED)
        return rc;
    *ret_more = error == ERROR_MORE_DATA;
    return 0;
}

/* ---- one by its name ---- */

static int control(const ea_etw_api *api, const char *name, ULONG code, const char *doing, ea_properties *ret,
                   ea_err *err) {
    WCHAR wide[NAME_CHARS];
    int chars = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, wide, NAME_CHARS);
    if (chars <= 1)
        return ea_fail(err, EA_EINVAL, "%.64s: a session's name has 1 to %d characters", name, NAME_CHARS - 1);
    ea_properties_clear(ret);
    ULONG error = api->ControlTraceW(0, wide, &ret->p, code);
    if (error == ERROR_WMI_INSTANCE_NOT_FOUND)
        return ea_fail(err, EA_ENOTFOUND, "no session %.128s runs; \"etwagent sessions --all\" lists those that do",
                       name);
    return error ? ea_fail_os(err, ea_etw_code(error), (int)error, "%s session %.128s", doing, name) : 0;
}

static int control_status(const char *name, ULONG code, const char *doing, ea_live_status *ret, ea_err *err) {
    const ea_etw_api *api;
    ea_properties p;
    int rc = ea_etw_load(&api, err);
    if (!rc)
        rc = control(api, name, code, doing, &p, err);
    if (rc)
        return rc;
    read_status(api, &p, ret);
    ret->runs = code != EVENT_TRACE_CONTROL_STOP;
    return 0;
}

int ea_control_query(const char *name, ea_live_status *ret, ea_err *err) {
    return control_status(name, EVENT_TRACE_CONTROL_QUERY, "query", ret, err);
}

int ea_control_stop(const char *name, ea_live_status *ret, ea_err *err) {
    return control_status(name, EVENT_TRACE_CONTROL_STOP, "stop", ret, err);
}

int ea_control_flush(const char *name, ea_live_status *ret, ea_err *err) {
    return control_status(name, EVENT_TRACE_CONTROL_FLUSH, "flush", ret, err);
}

int ea_control_start(const ea_session_config *c, ea_control_note note, void *arg, ea_live_status *ret, ea_err *err) {
    char name[sizeof ret->name];
    ea_properties p;
    if (c->output != EA_OUTPUT_FILE)
        return ea_fail(err, EA_EUSAGE, "session %s: it needs a file, since no program will take its events", c->name);
    ea_session *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "start session %s", c->name);
    int rc = ea_session_init(s, c, NULL, note, arg, err);
    if (!rc) {
        control_to_utf8(s->name, sizeof s->name / sizeof *s->name, name, sizeof name);
        rc = control(s->api, name, EVENT_TRACE_CONTROL_QUERY, "query", &p, err);
        if (!rc)
            rc = ea_fail(err, EA_EEXIST, "session %s runs already; \"etwagent session stop %s\" stops it", name, name);
        else if (rc == EA_ENOTFOUND)
            rc = 0;
    }
    s->is_detached = 1;
    s->max_buffers = (uint32_t)c->max_buffers; /* all from the start: no thread of ours gives it more later */
    if (!rc)
        rc = ea_session_start(s, err);
    if (!rc) {
        ea_session_capture_first(s);
        read_status(s->api, &s->now, ret);
    }
    free(s); /* the session itself is Windows' */
    return rc;
}

/* ---- providers ---- */

int ea_control_enable(const char *name, const ea_provider_config *p, ea_control_note note, void *arg, ea_err *err) {
    ea_provider_config provider = *p;
    const ea_session_config c = {.name = name, .kind = EA_SESSION_USER, .providers = {&provider, 1}};
    if (ea_system_provider_find(p->provider))
        return ea_fail(err, EA_EUSAGE, "%.128s: a system provider is enabled when its session starts", p->provider);
    ea_session *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "enable a provider in session %.128s", name);
    int rc = ea_session_init(s, &c, NULL, note, arg, err);
    if (!rc)
        rc = control(s->api, name, EVENT_TRACE_CONTROL_QUERY, "query", &s->now, err);
    if (!rc) {
        s->handle = s->now.p.Wnode.HistoricalContext;
        ea_session_enable(s);
        ea_session_capture_first(s);
        if (!s->providers[0].is_enabled)
            rc = ea_fail(err, EA_EREFUSED, "session %.128s: provider %.128s is not enabled", name, p->provider);
    }
    free(s);
    return rc;
}

int ea_control_disable(const char *name, const char *provider, ea_err *err) {
    const ea_etw_api *api;
    ea_properties p;
    ea_guid guid;
    GUID id;
    int rc = ea_etw_load(&api, err);
    if (!rc)
        rc = ea_provider_find(api, provider, &guid, err);
    if (!rc)
        rc = control(api, name, EVENT_TRACE_CONTROL_QUERY, "query", &p, err);
    if (rc)
        return rc;
    memcpy(&id, guid.bytes, sizeof id);
    ULONG error =
        api->EnableTraceEx2(p.p.Wnode.HistoricalContext, &id, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 0, NULL);
    return error ? ea_fail_os(err, ea_etw_code(error), (int)error, "disable %.128s in session %.128s", provider, name)
                 : 0;
}

static ULONG call_guids(const void *arg, void *data, ULONG *bytes) {
    const ea_etw_api *api = arg;
    ULONG room = *bytes;
    return api->EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, data, room, bytes);
}

int ea_control_providers(const ea_live_status *session, int (*fn)(const ea_control_provider *provider, void *arg),
                         void *arg, ea_err *err) {
    const ea_etw_api *api;
    void *data;
    ULONG bytes;
    int rc = ea_etw_load(&api, err);
    if (!rc && !api->EnumerateTraceGuidsEx)
        rc = ea_fail(err, EA_EUNSUPPORTED, "this Windows cannot list the providers of a session");
    if (!rc)
        rc = ea_tdh_get(call_guids, api, &data, &bytes, err);
    if (rc)
        return rc;
    for (ULONG at = 0; bytes - at >= sizeof(GUID); at += sizeof(GUID)) {
        TRACE_ENABLE_INFO enabled;
        ea_control_provider p;
        GUID guid;
        memcpy(&guid, (const uint8_t *)data + at, sizeof guid);
        if (!ea_provider_is_enabled(api, &guid, (USHORT)session->logger, &enabled))
            continue;
        p = (ea_control_provider){.level = enabled.Level,
                                  .any = enabled.MatchAnyKeyword,
                                  .all = enabled.MatchAllKeyword,
                                  .properties = enabled.EnableProperty};
        memcpy(p.guid.bytes, &guid, sizeof p.guid.bytes);
        if (fn(&p, arg))
            break;
    }
    free(data);
    return 0;
}
